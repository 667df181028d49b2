//! ApplicationSettings of the application controller, under Argo CD's names (SE-560 to
//! SE-575).

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;

use super::guards::{self, INSTANCE_LABEL};
use super::reader::{ConfigError, ENGINE_PREFIX, Names, Reader, pause, switch};
use super::redis::{self, RedisFlags};
use crate::settings::{ApplicationSettings, Namespaces};
use wavegate_api::glob::Glob;
use wavegate_api::tracking::TrackingMethod;
use wavegate_application::auto_sync::SelfHeal;
use wavegate_engine::diff::SystemSettings;
use wavegate_engine::health::KindPattern;
use wavegate_engine::sync::HookPolicyScope;
use wavegate_sandbox::Confinement;
use wavegate_source::{ArtifactSettings, PluginSettings};

/// Flags of the embedded sync engine.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ApplicationFlags {
    /// Namespaces besides the control plane's whose Applications are synced,
    /// comma separated globs or /regex/ [default: those of the sets]
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',', help_heading = "Sync engine")]
    pub application_namespaces: Option<Vec<String>>,
    /// Seconds between two waves of a sync [default: 2]
    #[arg(long, value_name = "SECONDS", help_heading = "Sync engine")]
    pub sync_wave_delay: Option<u32>,
    /// How long a sync may take, retries included, in seconds; 0 is for ever [default: 0]
    #[arg(long, value_name = "SECONDS", help_heading = "Sync engine")]
    pub sync_timeout: Option<u32>,
    /// After how long an Application is compared again without a reason, such
    /// as 3m or 1h 30min; 0 is never [default: 2m]
    #[arg(long, value_name = "DURATION", value_parser = pause, help_heading = "Sync engine")]
    pub app_resync: Option<Duration>,
    /// How long a jq expression of ignoreDifferences may take on one object, such
    /// as 500ms or 2s [default: 1s]
    #[arg(long, value_name = "DURATION", value_parser = jq_time, help_heading = "Sync engine", hide_short_help = true)]
    pub ignore_normalizer_jq_execution_timeout_seconds: Option<Duration>,
    /// How much later than that at the most, each at its own time [default: 1m]
    #[arg(long, value_name = "DURATION", value_parser = pause, help_heading = "Sync engine", hide_short_help = true)]
    pub app_resync_jitter: Option<Duration>,
    /// Interval after which its manifests are rendered again; 0 means never [default: 0]
    #[arg(long, value_name = "DURATION", value_parser = pause, help_heading = "Sync engine", hide_short_help = true)]
    pub app_hard_resync: Option<Duration>,
    /// For how many seconds a repository that cannot be reached changes nothing [default: 180]
    #[arg(long, value_name = "SECONDS", help_heading = "Sources", hide_short_help = true)]
    pub repo_error_grace_period_seconds: Option<u32>,
    /// How many Applications are worked on at once [default: 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), help_heading = "Sync engine")]
    pub status_processors: Option<u16>,
    /// How many objects are written at once, in all syncs together; 0 is no limit [default: 20]
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        help_heading = "Sync engine",
        hide_short_help = true
    )]
    pub kubectl_parallelism_limit: Option<i64>,
    /// The pause between attempts of self-heal when it does not grow, in seconds [default: 0]
    #[arg(long, value_name = "SECONDS", help_heading = "Sync engine", hide_short_help = true)]
    pub self_heal_timeout_seconds: Option<u32>,
    /// The first pause between attempts of self-heal, in seconds; 0 lets it not
    /// grow [default: 2]
    #[arg(long, value_name = "SECONDS", help_heading = "Sync engine", hide_short_help = true)]
    pub self_heal_backoff_timeout_seconds: Option<u32>,
    /// How much longer each further pause of self-heal is [default: 3]
    #[arg(long, value_name = "N", help_heading = "Sync engine", hide_short_help = true)]
    pub self_heal_backoff_factor: Option<u32>,
    /// The longest pause of self-heal, in seconds [default: 300]
    #[arg(long, value_name = "SECONDS", help_heading = "Sync engine", hide_short_help = true)]
    pub self_heal_backoff_cap_seconds: Option<u32>,
    /// Most bytes of the files of one directory source, such as 10M or 20Mi; 0 is
    /// no limit [default: 10M]
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Sources", hide_short_help = true)]
    pub max_combined_directory_manifests_size: Option<u64>,
    /// Most memory that the manifests of one Application may take, such as 256Mi [default: 256Mi]
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Sources", hide_short_help = true)]
    pub manifest_memory: Option<u64>,
    /// Most memory that kept manifests of all Applications may take, such as 1Gi;
    /// what is over is rendered again when it is needed [default: 1Gi]
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Sources", hide_short_help = true)]
    pub kept_manifest_memory: Option<u64>,
    /// While helm and kustomize have more memory together, such as 2Gi, no other one of them is
    /// started [default: 2Gi]
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Sources", hide_short_help = true)]
    pub program_memory: Option<u64>,
    /// Let a kustomization name what is not in its repository; it is fetched by
    /// https or ssh [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", value_parser = switch, help_heading = "Sources", hide_short_help = true)]
    pub kustomize_remote: Option<bool>,
    /// The folder with the sockets of config management
    /// plugins [default: /home/argocd/cmp-server/plugins]
    #[arg(long, value_name = "FOLDER", help_heading = "Sources", hide_short_help = true)]
    pub plugin_socket_folder: Option<PathBuf>,
    /// A glob of files that plugins do not get; may be given several times [default: empty]
    #[arg(long, value_name = "GLOB", help_heading = "Sources", hide_short_help = true)]
    pub plugin_tar_exclude: Option<Vec<String>>,
    /// Send plugins only the folder that contains the source and the paths of the annotation
    /// manifest-generate-paths, not the whole repository [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", value_parser = switch, help_heading = "Sources", hide_short_help = true)]
    pub plugin_use_manifest_generate_paths: Option<bool>,
    /// Confine helm, kustomize and git to their files: off, auto (what the kernel can), or
    /// required (nothing is rendered when it cannot) [default: auto]
    #[arg(long, value_name = "MODE", value_parser = confinement, help_heading = "Sources", hide_short_help = true)]
    pub confinement: Option<Confinement>,
    /// Assess kinds without a health rule by what they report, such as conditions [default:
    /// true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", value_parser = switch, help_heading = "Sync engine", hide_short_help = true)]
    pub generic_health: Option<bool>,
    /// Kinds that are not assessed so, comma separated GROUP/KIND, where * is any text
    /// [default: empty]
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_parser = unassessed, help_heading = "Sync engine", hide_short_help = true)]
    pub generic_health_exclude: Option<Vec<Unassessed>>,
    /// Applications that an Application deploys have the health in their status, so that
    /// waves wait for them [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", value_parser = switch, help_heading = "Sync engine", hide_short_help = true)]
    pub application_health: Option<bool>,
    /// Keep the health of each resource in the status [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", value_parser = switch, help_heading = "Sync engine", hide_short_help = true)]
    pub persist_resource_health: Option<bool>,
    /// How many seconds one hook may take before it counts as failed; 0 is for ever [default: 0]
    #[arg(long, value_name = "SECONDS", help_heading = "Sync engine", hide_short_help = true)]
    pub hook_timeout: Option<u32>,
    /// How many seconds a resource may take to become healthy while a later wave waits for it;
    /// 0 is for ever [default: 0]
    #[arg(long, value_name = "SECONDS", help_heading = "Sync engine", hide_short_help = true)]
    pub wave_timeout: Option<u32>,
    /// How many seconds a sync waits until the kind of a definition can be used [default: 30]
    #[arg(long, value_name = "SECONDS", help_heading = "Sync engine", hide_short_help = true)]
    pub definition_timeout: Option<u32>,
    /// When hooks with the policies HookSucceeded and HookFailed are deleted: at the end of the
    /// operation, or of the hook itself [default: operation]
    #[arg(long, value_name = "operation|hook", value_parser = hook_scope, help_heading = "Compatibility", hide_short_help = true)]
    pub hook_succeeded_scope: Option<HookPolicyScope>,
    /// A sync succeeds only once all its resources are healthy [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", value_parser = switch, help_heading = "Compatibility", hide_short_help = true)]
    pub wait_for_health: Option<bool>,
    /// A SyncFail hook makes a sync of one wave one of several, which waits for health
    /// [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", value_parser = switch, help_heading = "Compatibility", hide_short_help = true)]
    pub sync_fail_counts_as_wave: Option<bool>,
    /// SyncFail hooks run also when a sync fails before its first wave: tasks are not valid, or
    /// their dry run fails [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", value_parser = switch, help_heading = "Compatibility", hide_short_help = true)]
    pub sync_fail_on_invalid: Option<bool>,
    /// Hooks of a deletion that succeeded are deleted, whatever their policy says [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", value_parser = switch, help_heading = "Compatibility", hide_short_help = true)]
    pub clean_delete_hooks: Option<bool>,
    /// The dry run of a server-side apply is sent to the server [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", value_parser = switch, help_heading = "Compatibility", hide_short_help = true)]
    pub server_dry_run: Option<bool>,
    /// The API server predicts what an apply changes, by a dry run, unless an Application says
    /// otherwise [default: false]
    #[arg(long, alias = "server-side-diff-enabled", value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", value_parser = switch, help_heading = "Sync engine", hide_short_help = true)]
    pub server_side_diff: Option<bool>,
    /// Operations without sync options take those of the Application's spec [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", value_parser = switch, help_heading = "Compatibility", hide_short_help = true)]
    pub inherit_spec_sync_options: Option<bool>,
    /// Labels of Applications that argocd_app_labels shows, comma separated [default: empty]
    #[arg(
        long,
        value_name = "KEYS",
        value_delimiter = ',',
        help_heading = "Observability",
        hide_short_help = true
    )]
    pub metrics_application_labels: Option<Vec<String>>,
    /// Types of conditions that argocd_app_condition shows, comma separated [default: empty]
    #[arg(
        long,
        value_name = "TYPES",
        value_delimiter = ',',
        help_heading = "Observability",
        hide_short_help = true
    )]
    pub metrics_application_conditions: Option<Vec<String>>,
    /// Events of Applications: all, none, or the reasons of those that are written, comma
    /// separated [default: all]
    #[arg(long, value_name = "REASONS", value_parser = written_events, help_heading = "Observability", hide_short_help = true)]
    pub enable_k8s_event: Option<WrittenEvents>,
    /// Those of Redis.
    #[command(flatten)]
    pub redis: RedisFlags,
}

/// A kind that is not assessed by what it reports; none for an empty text, as in an empty list.
#[derive(Clone, Debug)]
pub struct Unassessed(Option<KindPattern>);

fn unassessed(text: &str) -> Result<Unassessed, String> {
    let kind = (!text.is_empty()).then(|| KindPattern::parse(text)).transpose()?;
    Ok(Unassessed(kind))
}

fn confinement(text: &str) -> Result<Confinement, String> {
    Confinement::named(text).ok_or_else(|| "expected off, auto or required".to_owned())
}

/// When hooks are deleted, by its name.
fn hook_scope(text: &str) -> Result<HookPolicyScope, String> {
    match text {
        "operation" => Ok(HookPolicyScope::Operation),
        "hook" => Ok(HookPolicyScope::Hook),
        _ => Err("write operation or hook".to_owned()),
    }
}

/// A number of bytes with a suffix of Kubernetes' quantities, or without one.
fn size(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let factor = match suffix {
        "" => 1,
        "k" => 1000,
        "M" => 1000_u64.pow(2),
        "G" => 1000_u64.pow(3),
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => return Err("not a size; write such as 10M, 256Mi or 1Gi".to_owned()),
    };
    let number = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    number.ok_or_else(|| "not a size; write such as 10M, 256Mi or 1Gi".to_owned())
}

/// As good as no limit: more objects than one sync has.
const UNLIMITED: usize = 10_000;

/// Reads the settings. `namespace` is the control plane's, and `sets` are the
/// namespaces whose ApplicationSets are watched: what these generate lies there
/// too, and would otherwise never be synced.
///
/// # Errors
///
/// A namespace pattern that cannot be read.
pub(super) fn read(
    read: &mut Reader<'_>,
    flags: ApplicationFlags,
    namespace: &str,
    sets: &Namespaces,
    allow_local: bool,
) -> Result<ApplicationSettings, ConfigError> {
    let namespaces = read.list(
        flags.application_namespaces.clone(),
        ("ARGOCD_APPLICATION_NAMESPACES", "application.namespaces"),
    );
    let namespaces = match namespaces.as_slice() {
        [] => sets.clone(),
        patterns => Namespaces::parse(patterns).map_err(ConfigError::ApplicationNamespaces)?,
    };
    let mut settings = ApplicationSettings {
        namespaces,
        control_plane_namespace: namespace.to_owned(),
        allow_local,
        ..ApplicationSettings::default()
    };
    times(read, &flags, &mut settings);
    self_heal(read, &flags, &mut settings.self_heal);
    limits(read, &flags, &mut settings);
    tracking(read, &mut settings);
    switches(read, &flags, &mut settings);
    settings.metrics_labels = read.list(flags.metrics_application_labels.clone(), ("", ""));
    settings.metrics_conditions = read.list(flags.metrics_application_conditions.clone(), ("", ""));
    guards::read(read, &mut settings);
    settings.redis = redis::read(read, flags.redis)?;
    settings.readers = redis::readers(read);
    if !settings.resource_health && !settings.redis.is_on() {
        read.warnings.push(
            "controller.resource.health.persist is false, and no Redis is configured for the \
             resource trees: the health of resources stays in the status"
                .to_owned(),
        );
    }
    Ok(settings)
}

/// Names of a setting of the controller itself that differ.
fn engine(variable: &str, key: &str) -> Names {
    (&*format!("{ENGINE_PREFIX}{variable}"), key).into()
}

/// A count of seconds.
fn seconds(read: &mut Reader<'_>, flag: Option<u32>, names: impl Into<Names>, default: u64) -> u32 {
    let default = u32::try_from(default).unwrap_or(u32::MAX);
    read.pick(flag, names, |text| text.parse().ok(), default)
}

/// Times and intervals.
fn times(read: &mut Reader<'_>, flags: &ApplicationFlags, settings: &mut ApplicationSettings) {
    let mut whole = |flag, names: Names, into: &mut Duration| {
        *into = Duration::from_secs(seconds(read, flag, names, into.as_secs()).into());
    };
    let names = ("ARGOCD_SYNC_WAVE_DELAY", "controller.sync.wave.delay.seconds").into();
    whole(flags.sync_wave_delay, names, &mut settings.wave_delay);
    let names =
        ("ARGOCD_REPO_ERROR_GRACE_PERIOD_SECONDS", "controller.repo.error.grace.period.seconds");
    whole(flags.repo_error_grace_period_seconds, names.into(), &mut settings.repo_error_grace);
    let names = engine("DEFINITION_TIMEOUT", "controller.definition.timeout.seconds");
    whole(flags.definition_timeout, names, &mut settings.definition_timeout);
    // 0 is no limit, and the default.
    let mut limit = |flag, names: Names| {
        let found = seconds(read, flag, names, 0);
        (found > 0).then(|| SignedDuration::from_secs(found.into()))
    };
    let sync = &mut settings.sync;
    let names = engine("SYNC_TIMEOUT", "controller.sync.timeout.seconds");
    sync.sync_timeout = limit(flags.sync_timeout, names);
    let names = engine("HOOK_TIMEOUT", "controller.hook.timeout.seconds");
    sync.hook_timeout = limit(flags.hook_timeout, names);
    let names = engine("WAVE_TIMEOUT", "controller.wave.timeout.seconds");
    sync.wave_timeout = limit(flags.wave_timeout, names);
    settings.jq_timeout = read.pick(
        flags.ignore_normalizer_jq_execution_timeout_seconds,
        ("ARGOCD_IGNORE_NORMALIZER_JQ_TIMEOUT", "controller.ignore.normalizer.jq.timeout"),
        |text| jq_time(text).ok(),
        settings.jq_timeout,
    );
    let mut every = |flag: Option<Duration>, names: (&str, &str), into: &mut Duration| {
        *into = read.pick(flag, names, |text| pause(text).ok(), *into);
    };
    let names = ("ARGOCD_RECONCILIATION_TIMEOUT", "timeout.reconciliation");
    every(flags.app_resync, names, &mut settings.reconciliation_timeout);
    let names = ("ARGOCD_RECONCILIATION_JITTER", "timeout.reconciliation.jitter");
    every(flags.app_resync_jitter, names, &mut settings.reconciliation_jitter);
    let names = ("ARGOCD_HARD_RECONCILIATION_TIMEOUT", "timeout.hard.reconciliation");
    every(flags.app_hard_resync, names, &mut settings.hard_reconciliation_timeout);
}

/// A time limit of jq expressions.
fn jq_time(text: &str) -> Result<Duration, String> {
    let time = pause(text)?;
    let range = Duration::from_millis(1)..=Duration::from_secs(60);
    if range.contains(&time) { Ok(time) } else { Err("it is not between 1ms and 1m".to_owned()) }
}

fn self_heal(read: &mut Reader<'_>, flags: &ApplicationFlags, heal: &mut SelfHeal) {
    let mut pause = |flag, key: &str, into: &mut SignedDuration| {
        let default = u64::try_from(into.as_secs()).unwrap_or_default();
        *into = SignedDuration::from_secs(seconds(read, flag, key, default).into());
    };
    let SelfHeal { fixed, initial, cap, .. } = heal;
    pause(flags.self_heal_timeout_seconds, "controller.self.heal.timeout.seconds", fixed);
    let key = "controller.self.heal.backoff.timeout.seconds";
    pause(flags.self_heal_backoff_timeout_seconds, key, initial);
    let key = "controller.self.heal.backoff.cap.seconds";
    pause(flags.self_heal_backoff_cap_seconds, key, cap);
    let key = "controller.self.heal.backoff.factor";
    read.count(flags.self_heal_backoff_factor, key, .., &mut heal.factor);
}

/// How much at once, and how much memory.
fn limits(read: &mut Reader<'_>, flags: &ApplicationFlags, settings: &mut ApplicationSettings) {
    let names = ("ARGOCD_GIT_MODULES_ENABLED", "reposerver.enable.git.submodule");
    read.flag(None, names, &mut settings.submodules);
    let processors = flags.status_processors.map(usize::from);
    read.count(processors, "controller.status.processors", 1.., &mut settings.parallel);
    let mut limit = i64::try_from(settings.parallel_applies).unwrap_or(i64::MAX);
    let key = "controller.kubectl.parallelism.limit";
    read.count(flags.kubectl_parallelism_limit, key, .., &mut limit);
    // Fewer than one is no limit (SE-566).
    let or_none = |limit: i64| usize::try_from(limit).ok().filter(|limit| *limit > 0);
    settings.parallel_applies = or_none(limit).unwrap_or(UNLIMITED);
    let programs = &mut settings.render.programs;
    let mut limit = i64::try_from(programs.parallel).unwrap_or(i64::MAX);
    let names = ("ARGOCD_REPO_SERVER_PARALLELISM_LIMIT", "reposerver.parallelism.limit");
    read.count(None, names, .., &mut limit);
    programs.parallel = or_none(limit).unwrap_or_default();

    let mut bytes = |flag: Option<u64>, names: Names, into: &mut u64| {
        *into = read.pick(flag, names, |text| size(text).ok(), *into);
    };
    let names = (
        "ARGOCD_REPO_SERVER_MAX_COMBINED_DIRECTORY_MANIFESTS_SIZE",
        "reposerver.max.combined.directory.manifests.size",
    );
    let max_bytes = &mut settings.render.max_bytes;
    bytes(flags.max_combined_directory_manifests_size, names.into(), max_bytes);
    let key = "controller.manifest.memory";
    bytes(flags.manifest_memory, key.into(), &mut settings.manifest_memory);
    let key = "controller.kept.manifest.memory";
    bytes(flags.kept_manifest_memory, key.into(), &mut settings.kept_manifest_memory);
    let key = "controller.program.memory";
    bytes(flags.program_memory, key.into(), &mut settings.render.programs.memory_together);
    plugins(read, flags, &mut settings.render.programs.plugins);
    artifacts(read, &mut settings.artifacts);
    settings.render.programs.confinement = read.pick(
        flags.confinement,
        "controller.confinement",
        Confinement::named,
        settings.render.programs.confinement,
    );
}

/// Artifacts of registries, with the names of Argo CD's repo server.
fn artifacts(read: &mut Reader<'_>, artifacts: &mut ArtifactSettings) {
    let names = ("ARGOCD_REPO_SERVER_OCI_LAYER_MEDIA_TYPES", "reposerver.oci.layer.media.types");
    let types = read.list(None, names);
    if !types.is_empty() {
        artifacts.layer_media_types = types;
    }
    let names = (
        "ARGOCD_REPO_SERVER_OCI_MANIFEST_MAX_EXTRACTED_SIZE",
        "reposerver.oci.manifest.max.extracted.size",
    );
    let default = artifacts.max_bytes.unwrap_or(u64::MAX);
    let limit = read.pick(None, names, |text| size(text).ok(), default);
    let mut is_off = false;
    let names = (
        "ARGOCD_REPO_SERVER_DISABLE_OCI_MANIFEST_MAX_EXTRACTED_SIZE",
        "reposerver.disable.oci.manifest.max.extracted.size",
    );
    read.flag(None, names, &mut is_off);
    artifacts.max_bytes = (!is_off).then_some(limit);
}

/// Config management plugins, with the names of Argo CD's repo server.
fn plugins(read: &mut Reader<'_>, flags: &ApplicationFlags, plugins: &mut PluginSettings) {
    plugins.folder = read.pick(
        flags.plugin_socket_folder.clone(),
        ("ARGOCD_PLUGINSOCKFILEPATH", ""),
        |text| Some(text.into()),
        std::mem::take(&mut plugins.folder),
    );
    let globs = |text: &str| {
        let globs: Vec<String> = text.split(';').map(|glob| glob.trim().to_owned()).collect();
        Some(globs.into_iter().filter(|glob| !glob.is_empty()).collect())
    };
    let exclusions: Vec<String> = read.pick(
        flags.plugin_tar_exclude.clone(),
        ("ARGOCD_REPO_SERVER_PLUGIN_TAR_EXCLUSIONS", "reposerver.plugin.tar.exclusions"),
        globs,
        Vec::new(),
    );
    plugins.exclusions = exclusions;
    plugins.exclusions.retain(|glob| match Glob::new(glob) {
        Ok(_) => !glob.is_empty(),
        Err(error) => {
            read.warnings.push(format!(
                "reposerver.plugin.tar.exclusions: {error}; files that it names are sent"
            ));
            false
        }
    });
    let names = (
        "ARGOCD_REPO_SERVER_PLUGIN_USE_MANIFEST_GENERATE_PATHS",
        "reposerver.plugin.use.manifest.generate.paths",
    );
    read.flag(flags.plugin_use_manifest_generate_paths, names, &mut plugins.use_generate_paths);
}

/// By what the objects of an Application are known: Argo CD has no flags for it.
fn tracking(read: &mut Reader<'_>, settings: &mut ApplicationSettings) {
    let method = |text: &str| {
        let method = TrackingMethod::from_setting(text);
        (method != TrackingMethod::Annotation || text == "annotation").then_some(method)
    };
    settings.tracking_method = read.pick(
        None,
        ("", "application.resourceTrackingMethod"),
        method,
        settings.tracking_method,
    );
    settings.instance_label = read.text(None, ("", INSTANCE_LABEL), &settings.instance_label);
    settings.installation_id = read.text(None, ("", "installationID"), &settings.installation_id);
}

fn switches(read: &mut Reader<'_>, flags: &ApplicationFlags, settings: &mut ApplicationSettings) {
    let programs = &mut settings.render.programs;
    let key = "controller.kustomize.remote";
    read.flag(flags.kustomize_remote, key, &mut programs.kustomize_remote);
    let checks = &mut settings.checks;
    read.flag(flags.generic_health, "controller.generic.health", &mut checks.generic);
    read.flag(flags.application_health, "controller.application.health", &mut checks.applications);
    let names = engine("PERSIST_RESOURCE_HEALTH", "controller.resource.health.persist");
    read.flag(flags.persist_resource_health, names, &mut settings.resource_health);
    let key = "controller.inherit.spec.sync.options";
    read.flag(flags.inherit_spec_sync_options, key, &mut settings.inherit_sync_options);
    let sync = &mut settings.sync;
    read.flag(flags.wait_for_health, "controller.wait.for.health", &mut sync.wait_for_health);
    let key = "controller.sync.fail.counts.as.wave";
    read.flag(flags.sync_fail_counts_as_wave, key, &mut sync.sync_fail_counts_as_wave);
    let key = "controller.sync.fail.on.invalid";
    read.flag(flags.sync_fail_on_invalid, key, &mut sync.sync_fail_on_invalid);
    let key = "controller.clean.delete.hooks";
    read.flag(flags.clean_delete_hooks, key, &mut settings.clean_delete_hooks);
    read.flag(flags.server_dry_run, "controller.server.dry.run", &mut settings.server_dry_run);
    let mut compared = SystemSettings::default();
    let names = engine("SERVER_SIDE_DIFF", "controller.diff.server.side");
    read.flag(flags.server_side_diff, names, &mut compared.server_side);
    settings.compared = Arc::new(compared);
    settings.checks.not_generic = read.pick(
        flags
            .generic_health_exclude
            .clone()
            .map(|all| all.into_iter().filter_map(|kind| kind.0).collect()),
        "controller.generic.health.exclude",
        |text| text.split(',').map(|kind| KindPattern::parse(kind).ok()).collect(),
        Vec::new(),
    );
    settings.sync.hook_policy_scope = read.pick(
        flags.hook_succeeded_scope,
        "controller.hook.succeeded.scope",
        |text| hook_scope(text).ok(),
        settings.sync.hook_policy_scope,
    );
    WrittenEvents(settings.events, settings.event_reasons) = read.pick(
        flags.enable_k8s_event.clone(),
        ("ARGOCD_ENABLE_K8S_EVENT", ""),
        |text| written_events(text).ok(),
        WrittenEvents(settings.events, settings.event_reasons.take()),
    );
}

/// Whether Events are written, and which: all without reasons.
#[derive(Clone, Debug)]
pub struct WrittenEvents(bool, Option<BTreeSet<String>>);

/// `all`, `none`, or a list of reasons, separated by commas.
fn written_events(text: &str) -> Result<WrittenEvents, String> {
    let word = |text: &str| {
        let is_word = !text.is_empty() && text.chars().all(|c| c.is_ascii_alphabetic());
        is_word.then(|| text.to_owned())
    };
    match text {
        "all" => Ok(WrittenEvents(true, None)),
        "none" => Ok(WrittenEvents(false, None)),
        reasons => {
            let reasons: Option<BTreeSet<String>> =
                reasons.split(',').map(str::trim).map(word).collect();
            let reasons = reasons.ok_or("write all, none, or reasons separated by commas")?;
            Ok(WrittenEvents(true, Some(reasons)))
        }
    }
}
