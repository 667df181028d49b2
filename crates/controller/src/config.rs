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

use reader::Reader;

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
    /// A policy or a namespace pattern that cannot be read: guessing there
    /// could delete Applications, or change namespaces that are not configured.
    pub fn resolve(
        flags: Flags,
        environment: &dyn Fn(&str) -> Option<String>,
        config_map: &BTreeMap<String, String>,
    ) -> Result<Self, ConfigError> {
        let (warnings, asked) = (Vec::new(), BTreeSet::new());
        let mut read = Reader { environment, config_map, warnings, asked };
        let sync_engine = read.pick(
            flags.sync_engine,
            "sync.engine",
            |text| clap::ValueEnum::from_str(text, true).ok(),
            SyncEngine::default(),
        );
        let application_sets = application_sets(&mut read, &flags, sync_engine)?;
        let allow_local_sources =
            read.flag(flags.allow_local_sources, "allow.local.sources", false);
        let mut applications = application::read(
            &mut read,
            flags.application,
            &application_sets.control_plane_namespace,
            &application_sets.namespaces,
            allow_local_sources,
        )?;
        let http = read.flag(flags.allow_http_sources, "allow.http.sources", true);
        applications.render.programs.allow_http = http;
        applications.dry_run = application_sets.dry_run;
        let debug = read.flag(flags.debug, "debug", false);
        let (format, level) = log_of_the_application_controller(&mut read);
        let level = read.pick(flags.loglevel, ("LOGLEVEL", "log.level"), log_level, level);
        Ok(Self {
            application_sets,
            sync_engine,
            applications,
            allow_local_sources,
            allowed_sources: Allow { local: allow_local_sources, http },
            probe_addr: read.address(flags.probe_addr, "probe.addr", ":8081"),
            metrics_addr: read.address(flags.metrics_addr, "metrics.addr", ":8080"),
            webhook_addr: read.address(flags.webhook_addr, "webhook.addr", ":7000"),
            leader_election: read.flag(
                flags.enable_leader_election,
                "enable.leader.election",
                false,
            ),
            log_format: read.pick(flags.logformat, ("LOGFORMAT", "log.format"), log_format, format),
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

/// Format and level of the log by the names of Argo CD's application controller: this process
/// is both controllers (SE-575).
fn log_of_the_application_controller(read: &mut Reader<'_>) -> (String, String) {
    let format = read.pick_in_full(
        None,
        ("ARGOCD_APPLICATION_CONTROLLER_LOGFORMAT", "controller.log.format"),
        log_format,
        "json".to_owned(),
    );
    let level = read.pick_in_full(
        None,
        ("ARGOCD_APPLICATION_CONTROLLER_LOGLEVEL", "controller.log.level"),
        log_level,
        "info".to_owned(),
    );
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
    let decisions = decisions(read, flags, sync_engine)?;
    let namespaces = read.list(flags.applicationset_namespaces.clone(), "namespaces");
    let default = ApplicationSetSettings::default();
    let providers = providers::read(read, flags);
    Ok(ApplicationSetSettings {
        providers,
        control_plane_namespace: control_plane_namespace(
            flags.namespace.as_deref(),
            read.environment,
        ),
        namespaces: Namespaces::parse(&namespaces).map_err(ConfigError::Namespaces)?,
        decisions,
        dry_run: read.flag(flags.dry_run, ("DRY_RUN", "dryrun"), default.dry_run),
        concurrent_reconciliations: read.pick(
            flags.concurrent_reconciliations,
            ("CONCURRENT_RECONCILIATIONS", "concurrent.reconciliations.max"),
            |text| text.parse().ok().filter(|count| *count > 0),
            default.concurrent_reconciliations,
        ),
        concurrent_application_updates: read.pick(
            flags.concurrent_application_updates.map(usize::from),
            "concurrent.application.updates",
            |text| text.parse().ok().filter(|count| (1..=200).contains(count)),
            default.concurrent_application_updates,
        ),
        git_file_globbing: match read.flag(
            flags.enable_new_git_file_globbing,
            "enable.new.git.file.globbing",
            default.git_file_globbing == Globbing::BySegment,
        ) {
            true => Globbing::BySegment,
            false => Globbing::Greedy,
        },
        hidden_directories: read.flag_in_full(
            flags.include_hidden_directories,
            (
                "ARGOCD_REPO_SERVER_INCLUDE_HIDDEN_DIRECTORIES",
                "reposerver.include.hidden.directories",
            ),
            default.hidden_directories,
        ),
        git_submodules: read.flag_in_full(
            None,
            ("ARGOCD_GIT_MODULES_ENABLED", "applicationsetcontroller.enable.git.submodule"),
            default.git_submodules,
        ),
        requeue_after: read.pick(
            None,
            "requeue.after",
            |text| reader::pause(text).ok().filter(|pause| REQUEUE_RANGE.contains(pause)),
            default.requeue_after,
        ),
        metrics_labels: read.list_in_full(flags.metrics_applicationset_labels.clone(), ("", "")),
        webhook_parallelism: read.pick(
            flags.webhook_parallelism_limit.map(usize::from),
            "webhook.parallelism.limit",
            |text| text.parse().ok().filter(|count| (1..=1000).contains(count)),
            default.webhook_parallelism,
        ),
        global_projects: Arc::new(guards::global_projects(read)),
        allow_private_sinks: read.flag(
            flags.allow_private_sinks,
            "allow.private.sinks",
            default.allow_private_sinks,
        ),
        rollout_history_limit: read.pick(
            flags.rollout_history_limit,
            "rollout.history.limit",
            |text| text.parse().ok().filter(|count| (1..=1000).contains(count)),
            default.rollout_history_limit,
        ),
    })
}

/// What its decisions depend on.
fn decisions(
    read: &mut Reader<'_>,
    flags: &Flags,
    sync_engine: SyncEngine,
) -> Result<application_set::DecisionSettings, ConfigError> {
    let policy_name = read.text(flags.policy.clone(), "policy", "");
    let policy =
        Policy::from_name(&policy_name).ok_or_else(|| ConfigError::Policy(policy_name.clone()))?;
    let default = application_set::DecisionSettings::default();
    Ok(application_set::DecisionSettings {
        jq: crate::evaluator::limited_jq(crate::evaluator::JQ_TIME),
        progressive_syncs: read.flag(
            flags.enable_progressive_syncs,
            "enable.progressive.syncs",
            default.progressive_syncs,
        ),
        rollout: rollout(read, flags, default.rollout),
        policy,
        policy_override: read.flag(
            flags.enable_policy_override,
            "enable.policy.override",
            policy_name.is_empty(),
        ),
        preserved_annotations: read
            .list(flags.preserved_annotations.clone(), "global.preserved.annotations"),
        preserved_labels: read.list(flags.preserved_labels.clone(), "global.preserved.labels"),
        max_resources: read.pick(
            flags.max_resources_status_count.map(|count| count as usize),
            ("MAX_RESOURCES_STATUS_COUNT", "status.max.resources.count"),
            |text| text.parse::<u32>().ok().map(|count| count as usize),
            default.max_resources,
        ),
        manual_windows: sync_engine == SyncEngine::Embedded,
        size_limits: default.size_limits,
        hold_deletions: read.flag(flags.hold_deletions, "hold.deletions", default.hold_deletions),
    })
}

/// How it rolls out.
fn rollout(
    read: &mut Reader<'_>,
    flags: &Flags,
    default: rollout::RolloutSettings,
) -> rollout::RolloutSettings {
    let Rules { progressing_timeout, capture_drift } = default.rules;
    let seconds = progressing_timeout.map_or(0, |timeout| timeout.as_secs());
    let timeout = read.pick(
        flags.default_application_progressing_timeout,
        "default.application.progressing.timeout",
        |text| text.parse().ok(),
        u32::try_from(seconds).unwrap_or(u32::MAX),
    );
    let drift = read.pick(
        flags.progressive_sync_drift,
        "progressive.sync.drift",
        |text| clap::ValueEnum::from_str(text, true).ok(),
        if capture_drift { Drift::Capture } else { Drift::Ignore },
    );
    rollout::RolloutSettings {
        rules: Rules {
            progressing_timeout: (timeout > 0).then(|| SignedDuration::from_secs(timeout.into())),
            capture_drift: drift == Drift::Capture,
        },
        require_live_health: read.flag(
            flags.progressive_sync_require_live_health,
            "progressive.sync.require.live.health",
            default.require_live_health,
        ),
        pin_revisions: read.flag(
            flags.progressive_sync_pin_revisions,
            "progressive.sync.pin.revisions",
            default.pin_revisions,
        ),
    }
}
