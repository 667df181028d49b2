//! Fields of projects and Applications, and settings, that Argo CD has and that are not
//! supported here. Guards refuse the Applications that they protect (SE-079, SE-080); what
//! only reports or changes how something is judged is named in a `SyncWarning`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::condition::Condition;
use super::lost::Lost;
use super::signatures::Demands;
use super::targets::Target;
use crate::api::AppProjectSpec;
use crate::api::annotations::{
    COMPARE_OPTIONS, MANAGED_BY, MANIFEST_GENERATE_PATHS, annotation, items,
};
use crate::api::conditions::application as types;
use crate::api::kind::KindRef;
use crate::glob;

/// What a raw project demands of the commits that generators read.
///
/// # Errors
///
/// Why its repositories must not be read: one that cannot be read might demand anything.
pub fn demands(project: &Value) -> Result<Demands, String> {
    let name = project["metadata"]["name"].as_str().unwrap_or_default();
    let spec = crate::api::read::<AppProjectSpec>(&project["spec"])
        .map_err(|error| format!("AppProject {name} cannot be read: spec.{error}"))?;
    let demands = Demands::of(&spec).map_err(|why| format!("AppProject {name}: {why}"))?;
    match Lost::of(project).filter(Lost::is_about_commits) {
        Some(lost) => Err(lost.message(name)),
        None => Ok(demands),
    }
}

/// Why nothing of the Applications of a raw project is deployed; `None` for no reason.
pub fn refusal(project: &Value) -> Option<String> {
    let name = project["metadata"]["name"].as_str().unwrap_or_default();
    let lost = || Some(Lost::of(project)?.message(name));
    demands(project).err().or_else(lost)
}

/// The guards of a project that cannot be enforced: nothing is compared or synced. `lost` is the
/// message about one that the API server has dropped.
pub fn refusals(
    project_name: &str,
    project: &AppProjectSpec,
    lost: Option<&str>,
) -> Vec<Condition> {
    let lost = lost.map(str::to_owned);
    let unread = Demands::of(project).err().map(|why| format!("AppProject {project_name}: {why}"));
    lost.into_iter().chain(unread).map(Condition::comparison).collect()
}

/// A key of the ConfigMap `argocd-cm` about some kinds, which has no effect.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KindSetting {
    /// The key, and the entry or option in it.
    pub key: String,
    /// Glob of the API group.
    pub group: String,
    /// Glob of the kind.
    pub kind: String,
}

impl KindSetting {
    fn is_about(&self, target: &Target) -> bool {
        let KindRef { group, kind, .. } = KindRef::of(&target.object);
        glob::denies(&self.group, group, None) && glob::denies(&self.kind, kind, None)
    }
}

/// The condition for settings that concern the targets, and have no effect on them.
pub fn without_effect(settings: &[KindSetting], targets: &[Target]) -> Option<Condition> {
    let concerns = |setting: &&KindSetting| targets.iter().any(|target| setting.is_about(target));
    let keys: BTreeSet<&str> =
        settings.iter().filter(concerns).map(|setting| setting.key.as_str()).collect();
    let (verb, keys) = match keys.len() {
        0 => return None,
        1 => ("has", keys),
        _ => ("have", keys),
    };
    let keys: Vec<&str> = keys.into_iter().collect();
    let message = format!("ConfigMap argocd-cm: {} {verb} no effect yet", keys.join(", "));
    Some(Condition::new(types::SYNC_WARNING, message))
}

/// Fields and annotations of an Application, its project and its objects that have no
/// effect; the objects come with their names.
pub(super) fn unused<'a>(
    application: &Value,
    objects: impl IntoIterator<Item = (String, &'a Value)>,
) -> Vec<String> {
    let mut messages = Vec::new();
    if annotation(application, MANIFEST_GENERATE_PATHS).is_some_and(|paths| !paths.is_empty()) {
        messages.push(format!(
            "annotation {MANIFEST_GENERATE_PATHS} has no effect yet on comparisons, only on \
             webhooks: every commit counts as a change of the manifests"
        ));
    }
    let of_namespace = "grants nothing here: the operator of Argo CD makes roles from it, and what may be managed \
         follows from the credentials of the cluster";
    let added = &application["spec"]["syncPolicy"]["managedNamespaceMetadata"]["labels"];
    if !added[MANAGED_BY].is_null() {
        messages.push(format!(
            "spec.syncPolicy.managedNamespaceMetadata: label {MANAGED_BY} {of_namespace}"
        ));
    }
    for (name, object) in objects {
        let is_namespace = object["kind"] == "Namespace" && object["apiVersion"] == "v1";
        if is_namespace && !object["metadata"]["labels"][MANAGED_BY].is_null() {
            messages.push(format!("{name}: label {MANAGED_BY} {of_namespace}"));
        }
        let options = items(object, COMPARE_OPTIONS);
        let of_applications = options.iter().find(|option| {
            let name = option.split_once('=').map(|(name, _)| name);
            matches!(name, Some("ServerSideDiff" | "IncludeMutationWebhook"))
        });
        if let Some(option) = of_applications {
            messages.push(format!(
                "{name}: annotation {COMPARE_OPTIONS}: {option} has no effect on a resource; set \
                 it on the Application"
            ));
        }
    }
    messages
}
