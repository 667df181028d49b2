//! Flags, environment and ConfigMap become one checked struct (AS-500 to
//! AS-504).
//!
//! A flag wins over the environment, the environment over the ConfigMaps
//! `argocd-cmd-params-cm` and `argocd-cm`, and these over the built-in default. Text in the
//! environment or the ConfigMap that makes no sense gives the default and a
//! warning; a flag that makes no sense is refused by the command line itself.

mod accepted;
mod application;
mod comparisons;
mod customizations;
mod fixed;
mod flags;
mod guards;
mod health_scripts;
mod keys;
mod providers;
mod reader;
mod redis;
#[cfg(test)]
mod tests;
pub mod unused;
mod variables;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;

pub use accepted::{AcceptedFlags, accepted_settings};
pub use application::ApplicationFlags;
pub use comparisons::read_comparisons as comparison_settings;
pub use flags::{Drift, Flags, SyncEngine};
pub use reader::ConfigError;
pub use variables::unknown_variables;

use reader::{Reader, sets};

use crate::settings::{
    ApplicationSetSettings, ApplicationSettings, CONTROL_PLANE_NAMESPACE, Namespaces, Settings,
};
use wavegate_engine::health::scripts::Scripts;
use wavegate_net::telemetry;
use wavegate_rollout::application_set;
use wavegate_rollout::application_set::generate::policy::Policy;
use wavegate_rollout::desired::generators::path_pattern::Globbing;
use wavegate_rollout::rollout;
use wavegate_rollout::rollout::phase::Rules;
use wavegate_source::Allow;

/// The ConfigMaps whose keys are read; a key of the first wins.
pub const CONFIG_MAPS: [&str; 2] = ["argocd-cmd-params-cm", "argocd-cm"];
/// The intervals at which repositories may be read again (AS-503).
const REQUEUE_RANGE: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(8760 * 3600);
/// Names of the format and the level of the log.
const LOG_FORMAT: (&str, &str) =
    ("ARGOCD_APPLICATIONSET_CONTROLLER_LOGFORMAT", "applicationsetcontroller.log.format");
const LOG_LEVEL: (&str, &str) =
    ("ARGOCD_APPLICATIONSET_CONTROLLER_LOGLEVEL", "applicationsetcontroller.log.level");
/// The key that enables RollingSync (AS-301).
pub const PROGRESSIVE_SYNCS_KEY: &str = "applicationsetcontroller.enable.progressive.syncs";

/// How `wavegate run` is set up.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The ApplicationSet controller's settings.
    pub application_sets: ApplicationSetSettings,
    /// Who syncs the Applications.
    pub sync_engine: SyncEngine,
    /// The application controller's settings.
    pub applications: ApplicationSettings,
    /// Whether sources of this machine are allowed.
    pub allow_local_sources: bool,
    /// Which sources may be read besides https and ssh.
    pub allowed_sources: Allow,
    /// Where probes are answered; `None` for an empty address.
    pub probe_addr: Option<String>,
    /// The same for metrics.
    pub metrics_addr: Option<String>,
    /// The same for webhooks.
    pub webhook_addr: Option<String>,
    /// Whether a lease is needed to run.
    pub leader_election: bool,
    /// Whether the controllers start although others do the same work here.
    pub allow_other_controllers: bool,
    /// `json`, `text` or `argocd`; a flag may have another text.
    pub log_format: String,
    /// `debug`, `info`, `warn` or `error`; a flag may have another text.
    pub log_level: String,
    /// What was not understood, and what is used instead.
    pub warnings: Vec<String>,
    /// Settings of Argo CD that are set and have no effect, with the reasons.
    pub without_effect: Vec<String>,
}

/// A level of Argo CD's logging by its name here.
fn level_of_argo_cd(level: &str) -> String {
    match level.to_ascii_lowercase().as_str() {
        "warning" => "warn".to_owned(),
        "fatal" | "panic" => "error".to_owned(),
        _ => level.to_owned(),
    }
}

/// A format of the log, as a ConfigMap or the environment has it.
fn log_format(text: &str) -> Option<String> {
    text.parse::<telemetry::LogFormat>().ok().map(|_| text.to_ascii_lowercase())
}

/// A level of the log, as a ConfigMap or the environment has it.
fn log_level(text: &str) -> Option<String> {
    let level = level_of_argo_cd(text);
    telemetry::check_level(&level).is_ok().then_some(level)
}

impl Config {
    /// Makes the configuration.
    ///
    /// # Errors
    ///
    /// A policy, a sync engine or a namespace pattern that cannot be read: guessing there
    /// could delete Applications, sync beside another controller, or change namespaces that are
    /// not configured.
    pub fn resolve(
        flags: Flags,
        environment: &dyn Fn(&str) -> Option<String>,
        config_map: &BTreeMap<String, String>,
    ) -> Result<Self, ConfigError> {
        let (warnings, asked) = (Vec::new(), BTreeSet::new());
        let mut read = Reader { environment, config_map, warnings, asked };
        let sync_engine = sync_engine(&mut read, flags.sync_engine)?;
        let mut application_sets = application_sets(&mut read, &flags, sync_engine)?;
        let mut allow_local_sources = false;
        let names = sets("allow.local.sources");
        read.flag(flags.allow_local_sources, names, &mut allow_local_sources);
        let mut applications = application::read(
            &mut read,
            flags.application,
            &application_sets.control_plane_namespace,
            &application_sets.namespaces,
            allow_local_sources,
        )?;
        let mut http = true;
        read.flag(flags.allow_http_sources, sets("allow.http.sources"), &mut http);
        applications.render.programs.allow_http = http;
        applications.dry_run = application_sets.dry_run;
        // The time of an operation begins when a worker takes it up.
        let is_timed = applications.sync.sync_timeout.is_some();
        application_sets.begins_operations = sync_engine == SyncEngine::Embedded && !is_timed;
        // As the client of the API server finds out.
        let host = environment("KUBERNETES_SERVICE_HOST");
        applications.runs_in_cluster = host.is_some_and(|host| !host.is_empty());
        let mut debug = false;
        read.flag(flags.debug, sets("debug"), &mut debug);
        let (format, level) = log_of_the_application_controller(&mut read);
        let level = read.pick(flags.loglevel, LOG_LEVEL, log_level, level);
        let probe_addr = read.address(flags.probe_addr, sets("probe.addr"), ":8081");
        let metrics_addr = read.address(flags.metrics_addr, sets("metrics.addr"), ":8080");
        let webhook_addr = read.address(flags.webhook_addr, sets("webhook.addr"), ":7000");
        let (names, mut leader_election) = (sets("enable.leader.election"), false);
        read.flag(flags.enable_leader_election, names, &mut leader_election);
        let (names, mut beside_others) = (sets("allow.other.controllers"), false);
        read.flag(flags.allow_other_controllers, names, &mut beside_others);
        Ok(Self {
            application_sets,
            sync_engine,
            applications,
            allow_local_sources,
            allowed_sources: Allow { local: allow_local_sources, http },
            probe_addr,
            metrics_addr,
            webhook_addr,
            leader_election,
            allow_other_controllers: beside_others,
            log_format: read.pick(flags.logformat, LOG_FORMAT, log_format, format),
            log_level: if debug { "debug".to_owned() } else { level_of_argo_cd(&level) },
            without_effect: {
                let mut lines = accepted::without_effect(&read, &flags.accepted);
                // Otherwise they are those of Argo CD's own controller.
                if sync_engine == SyncEngine::Embedded {
                    lines.extend(unused::without_effect(environment, config_map));
                }
                lines
            },
            warnings: {
                let unknown = keys::unknown(&read);
                read.warnings.into_iter().chain(unknown).collect()
            },
        })
    }

    /// Whether the controllers may start with it.
    ///
    /// # Errors
    ///
    /// Settings that are not safe together (AS-504).
    pub fn check(&self) -> Result<(), ConfigError> {
        providers::check(&self.application_sets)
    }

    /// What the controllers are given.
    pub fn settings(&self) -> Settings {
        let embedded = self.sync_engine == SyncEngine::Embedded;
        Settings {
            application_sets: self.application_sets.clone(),
            applications: embedded.then(|| self.applications.clone()),
        }
    }
}

/// Who syncs. The default beside Argo CD would be a second controller that syncs, so a text that is
/// not understood is refused.
fn sync_engine(read: &mut Reader<'_>, flag: Option<SyncEngine>) -> Result<SyncEngine, ConfigError> {
    let found = read.find(sets("sync.engine"));
    match (flag, found) {
        (Some(flag), _) => Ok(flag),
        (None, None) => Ok(SyncEngine::default()),
        (None, Some((place, text))) => clap::ValueEnum::from_str(text.trim(), true)
            .map_err(|_| ConfigError::SyncEngine(place, text)),
    }
}

/// Format and level of the log by the names of Argo CD's application controller: this process
/// is both controllers (SE-575).
fn log_of_the_application_controller(read: &mut Reader<'_>) -> (String, String) {
    let names = ("ARGOCD_APPLICATION_CONTROLLER_LOGFORMAT", "controller.log.format");
    let format = read.pick(None, names, log_format, "json".to_owned());
    let names = ("ARGOCD_APPLICATION_CONTROLLER_LOGLEVEL", "controller.log.level");
    let level = read.pick(None, names, log_level, "info".to_owned());
    (format, level)
}

/// The health scripts of the ConfigMap `argocd-cm`, and what cannot be used of them.
pub fn health_scripts(config_map: &BTreeMap<String, String>) -> (Scripts, Vec<String>) {
    health_scripts::read(config_map)
}

/// The namespace of the control plane: that of the flag, else of the environment.
pub fn control_plane_namespace(
    flag: Option<&str>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> String {
    (flag.map(str::to_owned))
        .or_else(|| environment("POD_NAMESPACE"))
        .filter(|namespace| !namespace.is_empty())
        .unwrap_or_else(|| CONTROL_PLANE_NAMESPACE.to_owned())
}

/// The settings of the ApplicationSet controller.
fn application_sets(
    read: &mut Reader<'_>,
    flags: &Flags,
    sync_engine: SyncEngine,
) -> Result<ApplicationSetSettings, ConfigError> {
    let mut settings = ApplicationSetSettings::default();
    decisions(read, flags, &mut settings.decisions)?;
    settings.decisions.manual_windows = sync_engine == SyncEngine::Embedded;
    let namespaces = read.list(flags.applicationset_namespaces.clone(), sets("namespaces"));
    settings.providers = providers::read(read, flags);
    settings.control_plane_namespace =
        control_plane_namespace(flags.namespace.as_deref(), read.environment);
    settings.namespaces = Namespaces::parse(&namespaces).map_err(ConfigError::Namespaces)?;
    let names = ("ARGOCD_APPLICATIONSET_CONTROLLER_DRY_RUN", "applicationsetcontroller.dryrun");
    read.flag(flags.dry_run, names, &mut settings.dry_run);
    let names = (
        "ARGOCD_APPLICATIONSET_CONTROLLER_CONCURRENT_RECONCILIATIONS",
        "applicationsetcontroller.concurrent.reconciliations.max",
    );
    let reconciliations = &mut settings.concurrent_reconciliations;
    read.count(flags.concurrent_reconciliations, names, 1.., reconciliations);
    let updates = flags.concurrent_application_updates.map(usize::from);
    let names = sets("concurrent.application.updates");
    read.count(updates, names, 1..=200, &mut settings.concurrent_application_updates);
    let mut by_segment = settings.git_file_globbing == Globbing::BySegment;
    let names = sets("enable.new.git.file.globbing");
    read.flag(flags.enable_new_git_file_globbing, names, &mut by_segment);
    settings.git_file_globbing = match by_segment {
        true => Globbing::BySegment,
        false => Globbing::Greedy,
    };
    let names =
        ("ARGOCD_REPO_SERVER_INCLUDE_HIDDEN_DIRECTORIES", "reposerver.include.hidden.directories");
    read.flag(flags.include_hidden_directories, names, &mut settings.hidden_directories);
    let names = ("ARGOCD_GIT_MODULES_ENABLED", "applicationsetcontroller.enable.git.submodule");
    read.flag(None, names, &mut settings.git_submodules);
    let pause = |text: &str| reader::pause(text).ok().filter(|pause| REQUEUE_RANGE.contains(pause));
    settings.requeue_after = read.pick(None, sets("requeue.after"), pause, settings.requeue_after);
    settings.metrics_labels = read.list(flags.metrics_applicationset_labels.clone(), ("", ""));
    let parallel = flags.webhook_parallelism_limit.map(usize::from);
    let names = sets("webhook.parallelism.limit");
    read.count(parallel, names, 1..=1000, &mut settings.webhook_parallelism);
    settings.global_projects = Arc::new(guards::global_projects(read));
    let names = sets("allow.private.sinks");
    read.flag(flags.allow_private_sinks, names, &mut settings.allow_private_sinks);
    let names = sets("rollout.history.limit");
    read.count(flags.rollout_history_limit, names, 1..=1000, &mut settings.rollout_history_limit);
    Ok(settings)
}

/// What its decisions depend on.
fn decisions(
    read: &mut Reader<'_>,
    flags: &Flags,
    settings: &mut application_set::DecisionSettings,
) -> Result<(), ConfigError> {
    let policy_name = read.text(flags.policy.clone(), sets("policy"), "");
    settings.policy =
        Policy::from_name(&policy_name).ok_or_else(|| ConfigError::Policy(policy_name.clone()))?;
    let names = PROGRESSIVE_SYNCS_KEY;
    read.flag(flags.enable_progressive_syncs, names, &mut settings.progressive_syncs);
    rollout(read, flags, &mut settings.rollout);
    settings.policy_override = policy_name.is_empty();
    let names = sets("enable.policy.override");
    read.flag(flags.enable_policy_override, names, &mut settings.policy_override);
    let names = sets("global.preserved.annotations");
    settings.preserved_annotations = read.list(flags.preserved_annotations.clone(), names);
    let names = sets("global.preserved.labels");
    settings.preserved_labels = read.list(flags.preserved_labels.clone(), names);
    let names = (
        "ARGOCD_APPLICATIONSET_CONTROLLER_MAX_RESOURCES_STATUS_COUNT",
        "applicationsetcontroller.status.max.resources.count",
    );
    settings.max_resources = read.pick(
        flags.max_resources_status_count.map(|count| count as usize),
        names,
        |text| text.parse::<u32>().ok().map(|count| count as usize),
        settings.max_resources,
    );
    read.flag(flags.hold_deletions, sets("hold.deletions"), &mut settings.hold_deletions);
    Ok(())
}

/// How it rolls out.
fn rollout(read: &mut Reader<'_>, flags: &Flags, settings: &mut rollout::RolloutSettings) {
    let Rules { progressing_timeout, capture_drift } = &mut settings.rules;
    let seconds = progressing_timeout.map_or(0, |timeout| timeout.as_secs());
    let timeout = read.pick(
        flags.default_application_progressing_timeout,
        sets("default.application.progressing.timeout"),
        |text| text.parse().ok(),
        u32::try_from(seconds).unwrap_or(u32::MAX),
    );
    *progressing_timeout = (timeout > 0).then(|| SignedDuration::from_secs(timeout.into()));
    let drift = read.pick(
        flags.progressive_sync_drift,
        sets("progressive.sync.drift"),
        |text| clap::ValueEnum::from_str(text, true).ok(),
        if *capture_drift { Drift::Capture } else { Drift::Ignore },
    );
    *capture_drift = drift == Drift::Capture;
    let names = sets("progressive.sync.require.live.health");
    let require_live_health = &mut settings.require_live_health;
    read.flag(flags.progressive_sync_require_live_health, names, require_live_health);
    let names = sets("progressive.sync.pin.revisions");
    read.flag(flags.progressive_sync_pin_revisions, names, &mut settings.pin_revisions);
}
