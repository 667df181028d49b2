//! Flags, environment and ConfigMap become one checked struct (AS-500 to
//! AS-504).
//!
//! A flag wins over the environment, the environment over the ConfigMap
//! `argocd-cmd-params-cm`, and that over the built-in default. Text in the
//! environment or the ConfigMap that makes no sense gives the default and a
//! warning; a flag that makes no sense is refused by the command line itself.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;

use crate::controller::context::{Namespaces, Settings};
use crate::decide::fleet::policy::Policy;
use crate::decide::rollout;
use crate::decide::rollout::phase::Rules;

/// The ConfigMap whose keys are read.
pub const CONFIG_MAP: &str = "argocd-cmd-params-cm";
/// Before most names in the environment.
const PREFIX: &str = "ARGOCD_APPLICATIONSET_CONTROLLER_";
/// Before most keys of the ConfigMap.
const KEY_PREFIX: &str = "applicationsetcontroller.";

/// Who syncs the Applications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum SyncEngine {
    /// Wavegate itself.
    #[default]
    Embedded,
    /// An Argo CD application controller beside it.
    External,
}

/// What happens to a Healthy Application that drifted (AS-354).
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Drift {
    /// It is rolled out again, in its step.
    Capture,
    /// Nothing.
    Ignore,
}

/// The flags of `wavegate run`. Each may also be set in the environment and in
/// the ConfigMap; see docs/reference/configuration.md.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Flags {
    /// Namespace of the control plane: projects, cluster Secrets and
    /// ApplicationSets live there
    #[arg(long, short = 'n', value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Who syncs the Applications
    #[arg(long, value_name = "ENGINE")]
    pub sync_engine: Option<SyncEngine>,
    /// Enable RollingSync
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub enable_progressive_syncs: Option<bool>,
    /// Seconds after which an Application whose sync does not start counts as
    /// Healthy; 0 waits for ever
    #[arg(long, value_name = "SECONDS")]
    pub default_application_progressing_timeout: Option<u32>,
    /// What happens to a Healthy Application that drifted
    #[arg(long, value_name = "WHAT")]
    pub progressive_sync_drift: Option<Drift>,
    /// A step is complete only while its Applications are Healthy right now
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub progressive_sync_require_live_health: Option<bool>,
    /// A sync names the revision it was decided on
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub progressive_sync_pin_revisions: Option<bool>,
    /// Namespaces besides the control plane's, comma separated globs or /regex/
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',')]
    pub applicationset_namespaces: Option<Vec<String>>,
    /// What sets may do to their Applications: sync, create-update,
    /// create-delete or create-only
    #[arg(long, value_name = "POLICY")]
    pub policy: Option<String>,
    /// Whether a set may choose its own policy; true unless a policy is given
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub enable_policy_override: Option<bool>,
    /// Write nothing
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub dry_run: Option<bool>,
    /// How many ApplicationSets are reconciled at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub concurrent_reconciliations: Option<u16>,
    /// How many Applications of one set are written at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=200))]
    pub concurrent_application_updates: Option<u16>,
    /// Annotations of Applications that are left alone, comma separated
    #[arg(long, value_name = "KEYS", value_delimiter = ',')]
    pub preserved_annotations: Option<Vec<String>>,
    /// Labels of Applications that are left alone, comma separated
    #[arg(long, value_name = "KEYS", value_delimiter = ',')]
    pub preserved_labels: Option<Vec<String>>,
    /// The most Applications that a status lists; 0 is all
    #[arg(long, value_name = "N")]
    pub max_resources_status_count: Option<u32>,
    /// Seconds between two waves of a sync
    #[arg(long, value_name = "SECONDS")]
    pub sync_wave_delay: Option<u32>,
    /// Allow sources that are directories or repositories of this machine
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub allow_local_sources: Option<bool>,
    /// Address for health probes
    #[arg(long, value_name = "ADDR")]
    pub probe_addr: Option<String>,
    /// Run only while holding the lease
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub enable_leader_election: Option<bool>,
    /// json or text
    #[arg(long, value_name = "FORMAT")]
    pub logformat: Option<String>,
    /// debug, info, warn or error
    #[arg(long, value_name = "LEVEL")]
    pub loglevel: Option<String>,
    /// The same as --loglevel debug, and wins over it
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub debug: Option<bool>,
}

/// How `wavegate run` is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// The ApplicationSet controller's settings.
    pub application_sets: Settings,
    /// Who syncs the Applications.
    pub sync_engine: SyncEngine,
    /// Between two waves of a sync.
    pub sync_wave_delay: Duration,
    /// Whether sources of this machine are allowed.
    pub allow_local_sources: bool,
    /// Where probes are answered; `None` for an empty address.
    pub probe_addr: Option<String>,
    /// Whether a lease is needed to run.
    pub leader_election: bool,
    /// `json` or `text`.
    pub log_format: String,
    /// `debug`, `info`, `warn` or `error`.
    pub log_level: String,
    /// What was not understood, and what is used instead.
    pub warnings: Vec<String>,
}

/// Why no configuration could be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A policy that does not exist (AS-150).
    #[error("policy: {0} is none of sync, create-update, create-delete, create-only")]
    Policy(String),
    /// A namespace pattern that is no expression.
    #[error("applicationset-namespaces: {0}")]
    Namespaces(String),
}

/// Reads one setting from wherever it is set.
struct Reader<'a> {
    environment: &'a dyn Fn(&str) -> Option<String>,
    config_map: &'a BTreeMap<String, String>,
    warnings: Vec<String>,
}

impl Reader<'_> {
    /// The flag, else what `parse` makes of the environment, else of the
    /// ConfigMap, else the default. Empty names are not looked up.
    fn pick<T>(
        &mut self,
        flag: Option<T>,
        (variable, key): (&str, &str),
        parse: impl Fn(&str) -> Option<T>,
        default: T,
    ) -> T {
        if let Some(flag) = flag {
            return flag;
        }
        let variable = if variable.starts_with("ARGOCD_") {
            variable.to_owned()
        } else {
            format!("{PREFIX}{variable}")
        };
        let key = if key.starts_with("controller.") {
            key.to_owned()
        } else {
            format!("{KEY_PREFIX}{key}")
        };
        let found = (self.environment)(&variable)
            .map(|text| (variable, text))
            .or_else(|| self.config_map.get(&key).map(|text| (key, text.clone())));
        let Some((place, text)) = found.filter(|(_, text)| !text.is_empty()) else {
            return default;
        };
        parse(text.trim()).unwrap_or_else(|| {
            self.warnings
                .push(format!("{place}: \"{text}\" is not understood, the default is used"));
            default
        })
    }

    fn flag(&mut self, flag: Option<bool>, names: (&str, &str), default: bool) -> bool {
        let parse = |text: &str| match text.to_ascii_lowercase().as_str() {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        };
        self.pick(flag, names, parse, default)
    }

    fn text(&mut self, flag: Option<String>, names: (&str, &str), default: &str) -> String {
        self.pick(flag, names, |text| Some(text.to_owned()), default.to_owned())
    }

    fn list(&mut self, flag: Option<Vec<String>>, names: (&str, &str)) -> Vec<String> {
        let split = |text: &str| Some(text.split(',').map(str::to_owned).collect());
        let list = self.pick(flag, names, split, Vec::new());
        list.iter().map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect()
    }
}

impl Config {
    /// Makes the configuration.
    ///
    /// # Errors
    ///
    /// A policy or a namespace pattern that cannot be read: guessing there
    /// could delete Applications, or touch namespaces that nobody named.
    pub fn resolve(
        flags: Flags,
        environment: &dyn Fn(&str) -> Option<String>,
        config_map: &BTreeMap<String, String>,
    ) -> Result<Self, Error> {
        let mut read = Reader { environment, config_map, warnings: Vec::new() };
        let policy_name = read.text(flags.policy, ("POLICY", "policy"), "");
        let policy =
            Policy::from_name(&policy_name).ok_or_else(|| Error::Policy(policy_name.clone()))?;
        let namespaces = read.list(flags.applicationset_namespaces, ("NAMESPACES", "namespaces"));
        let timeout = read.pick(
            flags.default_application_progressing_timeout,
            ("DEFAULT_APPLICATION_PROGRESSING_TIMEOUT", "default.application.progressing.timeout"),
            |text| text.parse().ok(),
            300,
        );
        let drift = read.pick(
            flags.progressive_sync_drift,
            ("PROGRESSIVE_SYNC_DRIFT", "progressive.sync.drift"),
            |text| clap::ValueEnum::from_str(text, true).ok(),
            Drift::Capture,
        );
        let rollout = rollout::Settings {
            rules: Rules {
                progressing_timeout: (timeout > 0)
                    .then(|| SignedDuration::from_secs(timeout.into())),
                capture_drift: drift == Drift::Capture,
            },
            require_live_health: read.flag(
                flags.progressive_sync_require_live_health,
                ("PROGRESSIVE_SYNC_REQUIRE_LIVE_HEALTH", "progressive.sync.require.live.health"),
                false,
            ),
            pin_revisions: read.flag(
                flags.progressive_sync_pin_revisions,
                ("PROGRESSIVE_SYNC_PIN_REVISIONS", "progressive.sync.pin.revisions"),
                true,
            ),
        };
        let application_sets = Settings {
            control_plane_namespace: flags
                .namespace
                .or_else(|| environment("POD_NAMESPACE"))
                .filter(|namespace| !namespace.is_empty())
                .unwrap_or_else(|| "argocd".to_owned()),
            namespaces: Namespaces::parse(&namespaces).map_err(Error::Namespaces)?,
            progressive_syncs: read.flag(
                flags.enable_progressive_syncs,
                ("ENABLE_PROGRESSIVE_SYNCS", "enable.progressive.syncs"),
                false,
            ),
            rollout,
            policy,
            policy_override: read.flag(
                flags.enable_policy_override,
                ("ENABLE_POLICY_OVERRIDE", "enable.policy.override"),
                policy_name.is_empty(),
            ),
            dry_run: read.flag(flags.dry_run, ("DRY_RUN", "dryrun"), false),
            concurrent_reconciliations: read.pick(
                flags.concurrent_reconciliations,
                ("CONCURRENT_RECONCILIATIONS", "concurrent.reconciliations.max"),
                |text| text.parse().ok().filter(|count| *count > 0),
                10,
            ),
            concurrent_application_updates: usize::from(read.pick(
                flags.concurrent_application_updates,
                ("CONCURRENT_APPLICATION_UPDATES", "concurrent.application.updates"),
                |text| text.parse().ok().filter(|count| (1..=200).contains(count)),
                1,
            )),
            preserved_annotations: read.list(
                flags.preserved_annotations,
                ("GLOBAL_PRESERVED_ANNOTATIONS", "global.preserved.annotations"),
            ),
            preserved_labels: read.list(
                flags.preserved_labels,
                ("GLOBAL_PRESERVED_LABELS", "global.preserved.labels"),
            ),
            max_resources: read.pick(
                flags.max_resources_status_count,
                ("MAX_RESOURCES_STATUS_COUNT", "status.max.resources.count"),
                |text| text.parse().ok(),
                5000,
            ) as usize,
        };
        let debug = read.flag(flags.debug, ("DEBUG", "debug"), false);
        let level = read.text(flags.loglevel, ("LOGLEVEL", "log.level"), "info");
        Ok(Self {
            application_sets,
            sync_engine: read.pick(
                flags.sync_engine,
                ("SYNC_ENGINE", "sync.engine"),
                |text| clap::ValueEnum::from_str(text, true).ok(),
                SyncEngine::Embedded,
            ),
            sync_wave_delay: Duration::from_secs(
                read.pick(
                    flags.sync_wave_delay,
                    ("ARGOCD_SYNC_WAVE_DELAY", "controller.sync.wave.delay.seconds"),
                    |text| text.parse().ok(),
                    2_u32,
                )
                .into(),
            ),
            allow_local_sources: read.flag(
                flags.allow_local_sources,
                ("ALLOW_LOCAL_SOURCES", "allow.local.sources"),
                false,
            ),
            probe_addr: Some(read.text(flags.probe_addr, ("PROBE_ADDR", "probe.addr"), ":8081"))
                .filter(|addr| !addr.is_empty() && addr != "0"),
            leader_election: read.flag(
                flags.enable_leader_election,
                ("ENABLE_LEADER_ELECTION", "enable.leader.election"),
                false,
            ),
            log_format: read.text(flags.logformat, ("LOGFORMAT", "log.format"), "json"),
            log_level: if debug { "debug".to_owned() } else { level },
            warnings: read.warnings,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(
        flags: Flags,
        environment: &[(&str, &str)],
        map: &[(&str, &str)],
    ) -> Result<Config, Error> {
        let environment: BTreeMap<&str, &str> = environment.iter().copied().collect();
        let map = map.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Config::resolve(flags, &|name| environment.get(name).map(|text| (*text).to_owned()), &map)
    }

    #[test]
    fn a_flag_wins_over_the_environment_over_the_config_map_as_500() {
        let variable = "ARGOCD_APPLICATIONSET_CONTROLLER_ENABLE_PROGRESSIVE_SYNCS";
        let key = "applicationsetcontroller.enable.progressive.syncs";
        // Name, flag, environment, ConfigMap, what is wanted, how many warnings.
        type Case<'a> = (&'a str, Option<bool>, Option<&'a str>, Option<&'a str>, bool, usize);
        let cases: [Case; 8] = [
            ("off by default", None, None, None, false, 0),
            ("by ConfigMap", None, None, Some("true"), true, 0),
            ("by environment", None, Some("TRUE"), None, true, 0),
            ("by flag", Some(true), None, None, true, 0),
            (
                "the environment wins over the ConfigMap",
                None,
                Some("false"),
                Some("true"),
                false,
                0,
            ),
            ("the flag wins over both", Some(false), Some("true"), Some("true"), false, 0),
            ("text that makes no sense", None, Some("yes please"), None, false, 1),
            ("an empty text is absent", None, Some(""), None, false, 0),
        ];
        for (name, flag, env, map, want, warnings) in cases {
            let flags = Flags { enable_progressive_syncs: flag, ..Flags::default() };
            let env: Vec<_> = env.map(|text| (variable, text)).into_iter().collect();
            let map: Vec<_> = map.map(|text| (key, text)).into_iter().collect();
            let got = resolve(flags, &env, &map).unwrap();
            assert_eq!(
                (got.application_sets.progressive_syncs, got.warnings.len()),
                (want, warnings),
                "{name}"
            );
        }
    }

    #[test]
    fn the_progressing_timeout_has_the_key_of_the_seed_as_356() {
        let key = "applicationsetcontroller.default.application.progressing.timeout";
        let timeout = |map: &[(&str, &str)]| {
            let config = resolve(Flags::default(), &[], map).unwrap();
            config.application_sets.rollout.rules.progressing_timeout.map(|limit| limit.as_secs())
        };
        assert_eq!(timeout(&[]), Some(300));
        assert_eq!(timeout(&[(key, "60")]), Some(60));
        assert_eq!(timeout(&[(key, "0")]), None);
        assert_eq!(timeout(&[(key, "-1")]), Some(300));
    }

    #[test]
    fn the_wave_delay_is_read_from_the_seeds_variable() {
        let delay =
            |env: &[(&str, &str)]| resolve(Flags::default(), env, &[]).unwrap().sync_wave_delay;
        assert_eq!(delay(&[]), Duration::from_secs(2));
        assert_eq!(delay(&[("ARGOCD_SYNC_WAVE_DELAY", "0")]), Duration::ZERO);
        assert_eq!(delay(&[("ARGOCD_SYNC_WAVE_DELAY", "soon")]), Duration::from_secs(2));
    }

    #[test]
    fn a_policy_switches_overrides_off_wherever_it_is_set_as_502() {
        let with = |flag: Option<&str>, env: &[(&str, &str)]| {
            let flags = Flags { policy: flag.map(str::to_owned), ..Flags::default() };
            resolve(flags, env, &[]).map(|config| config.application_sets.policy_override)
        };
        assert_eq!(with(None, &[]), Ok(true));
        assert_eq!(with(Some("create-only"), &[]), Ok(false));
        assert_eq!(with(None, &[("ARGOCD_APPLICATIONSET_CONTROLLER_POLICY", "sync")]), Ok(false));
        assert_eq!(with(Some("nope"), &[]), Err(Error::Policy("nope".into())));
    }

    #[test]
    fn namespaces_are_globs_or_expressions_as_400() {
        let flags = Flags {
            applicationset_namespaces: Some(vec!["team-*".into(), "/^a[0-9]$/".into()]),
            ..Flags::default()
        };
        let namespaces = resolve(flags, &[], &[]).unwrap().application_sets.namespaces;
        for (name, want) in
            [("team-x", true), ("team", false), ("a1", true), ("a12", false), ("xteam-y", false)]
        {
            assert_eq!(namespaces.matches(name), want, "{name}");
        }
        let flags =
            Flags { applicationset_namespaces: Some(vec!["/(/".into()]), ..Flags::default() };
        assert!(resolve(flags, &[], &[]).is_err());
    }
}
