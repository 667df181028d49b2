//! Settings of Argo CD's ApplicationSet controller that have no meaning here (AS-501), and such
//! flags of its application controller; the variables and keys of the latter are in `unused.rs`.
//!
//! They are accepted, so that a workload of Argo CD starts with its arguments unchanged, and each
//! one that is set is named once in the log, with the reason.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, ArgMatches, Command};

use super::reader::Reader;
use super::unused::{
    HEAL_COOLDOWN, HYDRATOR, METRICS_CACHE, ONE_PROCESS, QUEUE, REPO_SERVER, TRACES,
};

/// The values that the command line gives to these settings, by flag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AcceptedFlags(pub BTreeMap<&'static str, String>);

/// Names of a setting; an empty one does not exist.
struct Accepted {
    flag: &'static str,
    variable: &'static str,
    key: &'static str,
    /// Whether the flag needs no value.
    is_switch: bool,
    why: &'static str,
}

const fn text(
    flag: &'static str,
    variable: &'static str,
    key: &'static str,
    why: &'static str,
) -> Accepted {
    Accepted { flag, variable, key, is_switch: false, why }
}

/// One that only the command line gives.
const fn flag(flag: &'static str, why: &'static str) -> Accepted {
    text(flag, "", "", why)
}

const fn switch(
    flag: &'static str,
    variable: &'static str,
    key: &'static str,
    why: &'static str,
) -> Accepted {
    Accepted { flag, variable, key, is_switch: true, why }
}

const CLIENT: &str = "requests to the API server are limited by the number of parallel reconciles and \
                      writes";
const CONNECTION: &str = "connections to the API server have fixed time limits";

#[rustfmt::skip]
static ACCEPTED: [Accepted; 38] = [
    text("argocd-repo-server", "ARGOCD_APPLICATIONSET_CONTROLLER_REPO_SERVER", "repo.server", REPO_SERVER),
    switch("repo-server-plaintext", "ARGOCD_APPLICATIONSET_CONTROLLER_REPO_SERVER_PLAINTEXT", "applicationsetcontroller.repo.server.plaintext", REPO_SERVER),
    switch("repo-server-strict-tls", "ARGOCD_APPLICATIONSET_CONTROLLER_REPO_SERVER_STRICT_TLS", "applicationsetcontroller.repo.server.strict.tls", REPO_SERVER),
    text("repo-server-ca-cert-path", "ARGOCD_APPLICATIONSET_CONTROLLER_REPO_SERVER_CA_CERT_PATH", "applicationsetcontroller.repo.server.ca.cert.path", REPO_SERVER),
    text("repo-server-client-cert-path", "ARGOCD_APPLICATIONSET_CONTROLLER_REPO_SERVER_CLIENT_CERT_PATH", "applicationsetcontroller.repo.server.client.cert.path", REPO_SERVER),
    text("repo-server-client-cert-key-path", "ARGOCD_APPLICATIONSET_CONTROLLER_REPO_SERVER_CLIENT_CERT_KEY_PATH", "applicationsetcontroller.repo.server.client.cert.key.path", REPO_SERVER),
    text("repo-server-timeout-seconds", "ARGOCD_APPLICATIONSET_CONTROLLER_REPO_SERVER_TIMEOUT_SECONDS", "applicationsetcontroller.repo.server.timeout.seconds", REPO_SERVER),
    switch("enable-github-api-metrics", "ARGOCD_APPLICATIONSET_CONTROLLER_ENABLE_GITHUB_API_METRICS", "applicationsetcontroller.enable.github.api.metrics", "requests to the API of GitHub have no metrics of their own"),
    text("cache-sync-period", "ARGOCD_APPLICATIONSET_CONTROLLER_CACHE_SYNC_PERIOD", "", "a resync of unchanged objects starts no reconcile, in Argo CD neither"),
    text("", "ARGOCD_LOG_FORMAT_TIMESTAMP", "log.format.timestamp", "times in the log are in the format of RFC 3339"),
    switch("", "", "applicationsetcontroller.profile.enabled", "there are no profiles of the Go runtime"),
    switch("", "", "applicationsetcontroller.grpc.enable.txt.service.config", REPO_SERVER),
    text("", "ARGOCD_K8S_CLIENT_QPS", "applicationsetcontroller.k8s.client.qps", CLIENT),
    text("", "ARGOCD_K8S_CLIENT_BURST", "applicationsetcontroller.k8s.client.burst", CLIENT),
    text("", "ARGOCD_K8S_CLIENT_MAX_IDLE_CONNECTIONS", "applicationsetcontroller.k8s.client.max.idle.connections", CLIENT),
    text("", "ARGOCD_K8S_TCP_TIMEOUT", "applicationsetcontroller.k8s.tcp.timeout", CONNECTION),
    text("", "ARGOCD_K8S_TCP_KEEPALIVE", "applicationsetcontroller.k8s.tcp.keepalive", CONNECTION),
    text("", "ARGOCD_K8S_TLS_HANDSHAKE_TIMEOUT", "applicationsetcontroller.k8s.tls.handshake.timeout", CONNECTION),
    text("", "ARGOCD_K8S_TCP_IDLE_TIMEOUT", "applicationsetcontroller.k8s.tcp.idle.timeout", CONNECTION),
    flag("repo-server", REPO_SERVER),
    flag("operation-processors", "operations and comparisons share --status-processors"),
    flag("sharding-method", ONE_PROCESS),
    switch("dynamic-cluster-distribution-enabled", "", "", ONE_PROCESS),
    flag("wq-bucket-size", QUEUE),
    flag("wq-bucket-qps", QUEUE),
    flag("wq-cooldown-ns", QUEUE),
    flag("wq-basedelay-ns", QUEUE),
    flag("wq-maxdelay-ns", QUEUE),
    flag("wq-backoff-factor", QUEUE),
    flag("otlp-address", TRACES),
    switch("otlp-insecure", "", "", TRACES),
    flag("otlp-headers", TRACES),
    flag("otlp-attrs", TRACES),
    flag("metrics-cache-expiration", METRICS_CACHE),
    flag("self-heal-backoff-cooldown-seconds", HEAL_COOLDOWN),
    flag("commit-server", HYDRATOR),
    switch("hydrator-enabled", "", "", HYDRATOR),
    flag("gloglevel", "the level of the log is that of --loglevel"),
];

impl clap::Args for AcceptedFlags {
    fn augment_args(command: Command) -> Command {
        let flags = ACCEPTED.iter().filter(|setting| !setting.flag.is_empty());
        command.args(flags.map(|setting| {
            let flag = Arg::new(setting.flag).long(setting.flag).hide(true).action(ArgAction::Set);
            match setting.is_switch {
                true => flag.num_args(0..=1).default_missing_value("true"),
                false => flag.num_args(1),
            }
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for AcceptedFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for flag in ACCEPTED.iter().map(|setting| setting.flag).filter(|flag| !flag.is_empty()) {
            if let Some(value) = matches.get_one::<String>(flag) {
                self.0.insert(flag, value.clone());
            }
        }
        Ok(())
    }
}

/// The names of these settings, and why each has no effect.
pub fn accepted() -> impl Iterator<Item = (&'static str, &'static str)> {
    let names = |setting: &'static Accepted| {
        [setting.variable, setting.key].map(|name| (name, setting.why))
    };
    ACCEPTED.iter().flat_map(names).filter(|(name, _)| !name.is_empty())
}

/// The settings that are set, each with its place and the reason why it has no effect.
pub(super) fn without_effect(read: &Reader<'_>, flags: &AcceptedFlags) -> Vec<String> {
    let place = |setting: &Accepted| {
        if flags.0.contains_key(setting.flag) {
            return Some(format!("--{}", setting.flag));
        }
        let is_set = |text: Option<String>| text.is_some_and(|text| !text.is_empty());
        if !setting.variable.is_empty() && is_set((read.environment)(setting.variable)) {
            return Some(setting.variable.to_owned());
        }
        is_set(read.config_map.get(setting.key).cloned()).then(|| setting.key.to_owned())
    };
    let line = |setting: &Accepted| {
        let place = place(setting)?;
        Some(format!("{place} is accepted without effect: {}", setting.why))
    };
    ACCEPTED.iter().filter_map(line).collect()
}
