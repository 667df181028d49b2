//! ApplicationSettings of the application controller, under Argo CD's names (SE-560 to
//! SE-575).

use std::time::Duration;

use jiff::SignedDuration;

use super::{Error, Reader};
use crate::api::tracking::TrackingMethod;
use crate::decide::app_state::auto_sync::SelfHeal;
use crate::duration;
use crate::settings::{ApplicationSettings, Namespaces};
use crate::source::{Programs, RenderOptions};

/// Flags of the embedded sync engine.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ApplicationFlags {
    /// Namespaces besides the control plane's whose Applications are synced,
    /// comma separated globs or /regex/; those of --applicationset-namespaces
    /// by default
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',')]
    pub application_namespaces: Option<Vec<String>>,
    /// Seconds between two waves of a sync
    #[arg(long, value_name = "SECONDS")]
    pub sync_wave_delay: Option<u32>,
    /// How long a sync may take, retries included, in seconds; 0 is for ever
    #[arg(long, value_name = "SECONDS")]
    pub sync_timeout: Option<u32>,
    /// After how long an Application is compared again without a reason, such
    /// as 3m or 1h 30min; 0 is never
    #[arg(long, value_name = "DURATION", value_parser = pause)]
    pub app_resync: Option<Duration>,
    /// How much later than that at the most, each at its own time
    #[arg(long, value_name = "DURATION", value_parser = pause)]
    pub app_resync_jitter: Option<Duration>,
    /// After how long its manifests are rendered anew; 0 is never
    #[arg(long, value_name = "DURATION", value_parser = pause)]
    pub app_hard_resync: Option<Duration>,
    /// For how many seconds a repository that cannot be reached changes nothing
    #[arg(long, value_name = "SECONDS")]
    pub repo_error_grace_period_seconds: Option<u32>,
    /// How many Applications are worked on at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub status_processors: Option<u16>,
    /// How many objects of one sync are written at once; 0 is no limit
    #[arg(long, value_name = "N")]
    pub kubectl_parallelism_limit: Option<u16>,
    /// The pause between attempts of self-heal when it does not grow, in seconds
    #[arg(long, value_name = "SECONDS")]
    pub self_heal_timeout_seconds: Option<u32>,
    /// The first pause between attempts of self-heal, in seconds; 0 lets it not
    /// grow
    #[arg(long, value_name = "SECONDS")]
    pub self_heal_backoff_timeout_seconds: Option<u32>,
    /// How much longer each further pause of self-heal is
    #[arg(long, value_name = "N")]
    pub self_heal_backoff_factor: Option<u32>,
    /// The longest pause of self-heal, in seconds
    #[arg(long, value_name = "SECONDS")]
    pub self_heal_backoff_cap_seconds: Option<u32>,
    /// Most bytes of the files of one directory source, such as 10M or 20Mi; 0 is
    /// no limit
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub max_combined_directory_manifests_size: Option<u64>,
    /// Most memory that the manifests of one Application may take, such as 256Mi
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub manifest_memory: Option<u64>,
    /// Most memory that kept manifests of all Applications may take, such as 1Gi;
    /// what is over is rendered again when it is needed
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub kept_manifest_memory: Option<u64>,
    /// Let a kustomization name what is not in its repository; it is fetched by
    /// https or ssh
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub kustomize_remote: Option<bool>,
    /// Keep the health of each resource in the status
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub persist_resource_health: Option<bool>,
    /// Operations without sync options take those of the Application's spec
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub inherit_spec_sync_options: Option<bool>,
}

/// A duration as people write it, such as `3m`, `1h 30min` or `2 days`, in Go's
/// notation as Argo CD has it, or whole seconds.
fn pause(text: &str) -> Result<Duration, String> {
    let read = match text.parse() {
        Ok(seconds) => SignedDuration::from_secs(seconds),
        Err(_) => match duration::parse(text) {
            Ok(read) => read,
            Err(_) => return humantime::parse_duration(text).map_err(|error| error.to_string()),
        },
    };
    Duration::try_from(read).map_err(|_| "it is negative".to_owned())
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
) -> Result<ApplicationSettings, Error> {
    let default = ApplicationSettings::default();
    let namespaces = read.list_in_full(
        flags.application_namespaces,
        ("ARGOCD_APPLICATION_NAMESPACES", "application.namespaces"),
    );
    let namespaces = match namespaces.as_slice() {
        [] => sets.clone(),
        patterns => Namespaces::parse(patterns).map_err(Error::ApplicationNamespaces)?,
    };
    let engine = |name: &str| format!("ARGOCD_APPLICATION_CONTROLLER_{name}");
    let mut seconds = |flag: Option<u32>, variable: &str, key: &str, default: Duration| {
        let parse = |text: &str| text.parse().ok();
        let default = u32::try_from(default.as_secs()).unwrap_or(u32::MAX);
        read.pick_in_full(flag, (variable, key), parse, default)
    };
    let span = |seconds: u32| Duration::from_secs(seconds.into());
    let signed = |seconds: u32| SignedDuration::from_secs(seconds.into());
    let unsigned = |span: SignedDuration| Duration::try_from(span).unwrap_or_default();

    let wave_delay = span(seconds(
        flags.sync_wave_delay,
        "ARGOCD_SYNC_WAVE_DELAY",
        "controller.sync.wave.delay.seconds",
        default.wave_delay,
    ));
    let sync_timeout = seconds(
        flags.sync_timeout,
        &engine("SYNC_TIMEOUT"),
        "controller.sync.timeout.seconds",
        Duration::ZERO,
    );
    let repo_error_grace = span(seconds(
        flags.repo_error_grace_period_seconds,
        "ARGOCD_REPO_ERROR_GRACE_PERIOD_SECONDS",
        "controller.repo.error.grace.period.seconds",
        default.repo_error_grace,
    ));
    let heal = default.self_heal;
    let self_heal = SelfHeal {
        fixed: signed(seconds(
            flags.self_heal_timeout_seconds,
            &engine("SELF_HEAL_TIMEOUT_SECONDS"),
            "controller.self.heal.timeout.seconds",
            unsigned(heal.fixed),
        )),
        initial: signed(seconds(
            flags.self_heal_backoff_timeout_seconds,
            &engine("SELF_HEAL_BACKOFF_TIMEOUT_SECONDS"),
            "controller.self.heal.backoff.timeout.seconds",
            unsigned(heal.initial),
        )),
        cap: signed(seconds(
            flags.self_heal_backoff_cap_seconds,
            &engine("SELF_HEAL_BACKOFF_CAP_SECONDS"),
            "controller.self.heal.backoff.cap.seconds",
            unsigned(heal.cap),
        )),
        factor: read.pick_in_full(
            flags.self_heal_backoff_factor,
            (&engine("SELF_HEAL_BACKOFF_FACTOR"), "controller.self.heal.backoff.factor"),
            |text| text.parse().ok(),
            heal.factor,
        ),
    };
    let mut every = |flag: Option<Duration>, variable: &str, key: &str, default: Duration| {
        read.pick_in_full(flag, (variable, key), |text| pause(text).ok(), default)
    };
    let reconciliation_timeout = every(
        flags.app_resync,
        "ARGOCD_RECONCILIATION_TIMEOUT",
        "timeout.reconciliation",
        default.reconciliation_timeout,
    );
    let reconciliation_jitter = every(
        flags.app_resync_jitter,
        "ARGOCD_RECONCILIATION_JITTER",
        "timeout.reconciliation.jitter",
        default.reconciliation_jitter,
    );
    let hard_reconciliation_timeout = every(
        flags.app_hard_resync,
        "ARGOCD_HARD_RECONCILIATION_TIMEOUT",
        "timeout.hard.reconciliation",
        default.hard_reconciliation_timeout,
    );
    let parallel = read.pick_in_full(
        flags.status_processors.map(usize::from),
        (&engine("STATUS_PROCESSORS"), "controller.status.processors"),
        |text| text.parse().ok().filter(|count| *count > 0),
        default.parallel,
    );
    let limit = read.pick_in_full(
        flags.kubectl_parallelism_limit.map(i64::from),
        (&engine("KUBECTL_PARALLELISM_LIMIT"), "controller.kubectl.parallelism.limit"),
        |text| text.parse().ok(),
        i64::try_from(default.parallel_applies).unwrap_or(i64::MAX),
    );
    let mut bytes = |flag: Option<u64>, variable: &str, key: &str, default: u64| {
        read.pick_in_full(flag, (variable, key), |text| size(text).ok(), default)
    };
    let max_bytes = bytes(
        flags.max_combined_directory_manifests_size,
        "ARGOCD_REPO_SERVER_MAX_COMBINED_DIRECTORY_MANIFESTS_SIZE",
        "reposerver.max.combined.directory.manifests.size",
        default.render.max_bytes,
    );
    let manifest_memory = bytes(
        flags.manifest_memory,
        &engine("MANIFEST_MEMORY"),
        "controller.manifest.memory",
        default.manifest_memory,
    );
    let kept_manifest_memory = bytes(
        flags.kept_manifest_memory,
        &engine("KEPT_MANIFEST_MEMORY"),
        "controller.kept.manifest.memory",
        default.kept_manifest_memory,
    );
    let programs = Programs {
        kustomize_remote: read.flag_in_full(
            flags.kustomize_remote,
            (&engine("KUSTOMIZE_REMOTE"), "controller.kustomize.remote"),
            default.render.programs.kustomize_remote,
        ),
        ..default.render.programs.clone()
    };
    let method = |text: &str| {
        let method = TrackingMethod::from_setting(text);
        (method != TrackingMethod::Annotation || text == "annotation").then_some(method)
    };
    let text = |text: &str| Some(text.to_owned());
    Ok(ApplicationSettings {
        namespaces,
        control_plane_namespace: namespace.to_owned(),
        wave_delay,
        reconciliation_timeout,
        reconciliation_jitter,
        hard_reconciliation_timeout,
        repo_error_grace,
        tracking_method: read.pick_in_full(
            None,
            ("", "application.resourceTrackingMethod"),
            method,
            default.tracking_method,
        ),
        instance_label: read.pick_in_full(
            None,
            ("", "application.instanceLabelKey"),
            text,
            default.instance_label.clone(),
        ),
        installation_id: read.pick_in_full(None, ("", "installationID"), text, String::new()),
        parallel,
        // Fewer than one is no limit (SE-566).
        parallel_applies: usize::try_from(limit)
            .ok()
            .filter(|limit| *limit > 0)
            .unwrap_or(UNLIMITED),
        allow_local,
        resource_health: read.flag_in_full(
            flags.persist_resource_health,
            (&engine("PERSIST_RESOURCE_HEALTH"), "controller.resource.health.persist"),
            default.resource_health,
        ),
        inherit_sync_options: read.flag_in_full(
            flags.inherit_spec_sync_options,
            (&engine("INHERIT_SPEC_SYNC_OPTIONS"), "controller.inherit.spec.sync.options"),
            default.inherit_sync_options,
        ),
        events: read.pick_in_full(
            None,
            ("ARGOCD_ENABLE_K8S_EVENT", ""),
            |text| match text {
                "all" => Some(true),
                "none" => Some(false),
                _ => None,
            },
            default.events,
        ),
        self_heal,
        manifest_memory,
        kept_manifest_memory,
        render: RenderOptions { max_bytes, programs, ..default.render },
        sync: crate::decide::sync::Settings {
            sync_timeout: (sync_timeout > 0).then(|| signed(sync_timeout)),
            ..default.sync.clone()
        },
        ..default
    })
}
