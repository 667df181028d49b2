//! The keys of the ConfigMaps `argocd-cmd-params-cm` and `argocd-cm` that exist: a key that is
//! none of them is likely misspelt, and its setting would have no effect without a report.

use std::collections::BTreeSet;

use super::accepted::accepted_settings;
use super::reader::Reader;
use super::unused::{REPORTED_SETTINGS, SETTINGS};
use wavegate_api::unknown::{meant_hint, nearest_name};

/// At most so many unknown keys are named, since a ConfigMap may hold many thousands.
const NAMED: usize = 20;

/// Longer keys are cut in messages. An API server has none.
const SHOWN: usize = 253;

/// Keys that are read as a part of a group, or whose text is a document. One that ends with a
/// dot stands for all that begin with it.
const HONOURED: &[&str] = &[
    "application.sync.impersonation.enabled",
    "application.sync.impersonation.enforced",
    "cluster.inClusterEnabled",
    "globalProjects",
    "helm.enable",
    "helm.valuesFileSchemes",
    "jsonnet.enable",
    "kustomize.buildOptions",
    "kustomize.buildOptions.",
    "kustomize.enable",
    "kustomize.path.",
    "kustomize.version.",
    "resource.compareoptions",
    "resource.customizations",
    "resource.customizations.health.",
    "resource.customizations.ignoreDifferences.",
    "resource.customizations.ignoreResourceUpdates.",
    "resource.customizations.knownTypeFields.",
    "resource.customizations.useOpenLibs.",
    "resource.exclusions",
    "resource.ignoreResourceUpdatesEnabled",
    "resource.inclusions",
];

/// Keys of Argo CD's other programs, which may run beside this one: its API server with the web
/// page, Dex, and the controllers of notifications and of commits. They are not for this one.
const OF_OTHERS: &[&str] = &[
    "accounts.",
    "additionalUrls",
    "admin.enabled",
    "application.links",
    "application.sync.requireOverridePrivilegeForRevisionSync",
    "commitserver.",
    "dex.config",
    "dexserver.",
    "exec.enabled",
    "exec.shells",
    "extension.config",
    "extension.config.",
    "ga.anonymizeusers",
    "ga.trackingid",
    "help.chatText",
    "help.chatUrl",
    "help.download.",
    "notificationscontroller.",
    "oidc.config",
    "oidc.tls.insecure.skip.verify",
    "passwordPattern",
    "project.links",
    "resource.links",
    "server.",
    "statusbadge.enabled",
    "statusbadge.url",
    "ui.bannercontent",
    "ui.bannerpermanent",
    "ui.bannerposition",
    "ui.bannerurl",
    "ui.cssurl",
    "url",
    "users.anonymous.enabled",
    "users.session.duration",
];

/// A line for each key that is set and does not exist, after everything was read.
pub(super) fn unknown(read: &Reader<'_>) -> Vec<String> {
    let unused = SETTINGS.iter().chain(REPORTED_SETTINGS.iter());
    let mut known: BTreeSet<&str> = read.asked.iter().map(String::as_str).collect();
    known.extend(unused.flat_map(|one| one.names.iter().copied()));
    known.extend(accepted_settings().map(|(name, _)| name));
    known.extend(HONOURED);
    known.extend(OF_OTHERS);
    // Variables are no keys.
    known.retain(|name| !name.starts_with(|first: char| first.is_ascii_uppercase()));
    let groups: Vec<&str> = known.iter().copied().filter(|name| name.ends_with('.')).collect();
    let is_known = |key: &str| {
        let is_in = |group: &&str| key.len() > group.len() && key.starts_with(*group);
        known.contains(key) || groups.iter().any(is_in)
    };
    let all: Vec<&str> =
        read.config_map.keys().map(String::as_str).filter(|key| !is_known(key)).collect();
    let line = |key: &&str| {
        let shown: String = key.chars().take(SHOWN).collect();
        let near = nearest_name(key, known.iter().copied().filter(|name| !name.ends_with('.')));
        let hint = meant_hint(near);
        format!("{shown} is no setting of Argo CD 3.5 or Wavegate, and has no effect{hint}")
    };
    let mut lines: Vec<String> = all.iter().take(NAMED).map(line).collect();
    if let Some(more) = all.len().checked_sub(NAMED).filter(|more| *more > 0) {
        lines.push(format!("{more} more keys of the ConfigMaps are no settings"));
    }
    lines
}
