//! Fields of projects and Applications, and settings, that Argo CD has and that are not
//! supported here. Guards refuse the Applications that they protect (SE-079, SE-080); what
//! only reports or changes how something is judged is named in a `SyncWarning`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::condition::Condition;
use super::lost::Lost;
use super::targets::Target;
use crate::api::AppProjectSpec;
use crate::api::annotations::{
    COMPARE_OPTIONS, IGNORE_RESOURCE_UPDATES, MANIFEST_GENERATE_PATHS, annotation, items,
};
use crate::api::conditions::application as types;
use crate::api::kind::KindRef;
use crate::glob;

/// The field of a project that demands verified commits; `None` without one.
pub fn unverifiable(project: &AppProjectSpec) -> Option<&'static str> {
    if !project.signature_keys.is_empty() {
        return Some("spec.signatureKeys");
    }
    let demands = project.source_integrity.as_ref().is_some_and(demands_integrity);
    demands.then_some("spec.sourceIntegrity")
}

/// Whether a `sourceIntegrity` demands something; what is not understood does.
fn demands_integrity(integrity: &Value) -> bool {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    let is_off = |policy: &Value| policy["gpg"]["mode"] == "none";
    let git = |git: &Value| match git.as_object() {
        Some(fields) => fields.iter().any(|(field, value)| match (field.as_str(), value) {
            ("policies", Value::Array(policies)) => !policies.iter().all(is_off),
            (_, value) => !is_empty(value),
        }),
        None => !is_empty(git),
    };
    match integrity.as_object() {
        Some(fields) => fields.iter().any(|(field, value)| match field.as_str() {
            "git" => git(value),
            _ => !is_empty(value),
        }),
        None => !is_empty(integrity),
    }
}

/// Why commits of a project cannot be used, for the Applications and the generators that
/// read its repositories.
pub fn unverified(project_name: &str, field: &str) -> String {
    format!(
        "{field} of AppProject {project_name}: signatures of commits cannot be verified, so \
         nothing from its repositories is deployed; remove the field to deploy commits that \
         are not verified"
    )
}

/// Why the repositories of a raw project must not be read by generators; `None` for no
/// reason. One that cannot be read might demand anything.
pub fn demand(project: &Value) -> Option<String> {
    let name = project["metadata"]["name"].as_str().unwrap_or_default();
    match crate::api::read::<AppProjectSpec>(&project["spec"]) {
        Ok(spec) => unverifiable(&spec).map(|field| unverified(name, field)).or_else(|| {
            let lost = Lost::of(project).filter(Lost::is_about_commits);
            lost.map(|lost| lost.message(name))
        }),
        Err(error) => Some(format!("AppProject {name} cannot be read: spec.{error}")),
    }
}

/// Why nothing of the Applications of a raw project is deployed; `None` for no reason.
pub fn refusal(project: &Value) -> Option<String> {
    let name = project["metadata"]["name"].as_str().unwrap_or_default();
    demand(project).or_else(|| Lost::of(project).map(|lost| lost.message(name)))
}

/// The guards of a project that cannot be enforced: nothing is compared or synced.
pub fn refusals(
    project_name: &str,
    project: &AppProjectSpec,
    lost: Option<&Lost>,
) -> Vec<Condition> {
    let mut refusals = Vec::new();
    if let Some(lost) = lost {
        refusals.push(Condition::comparison(lost.message(project_name)));
    }
    if let Some(field) = unverifiable(project) {
        refusals.push(Condition::comparison(unverified(project_name, field)));
    }
    refusals
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

/// The condition of an Application whose project looks for orphaned resources, while nothing
/// follows objects that no Application manages.
pub fn orphans_unmonitored(project_name: &str, project: &AppProjectSpec) -> Option<Condition> {
    project.orphaned_resources.as_ref()?;
    let message = format!(
        "spec.orphanedResources of AppProject {project_name} has no effect without Redis \
         (--redis): resources that belong to no Application are not monitored"
    );
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
    let server_side =
        |object: &Value| items(object, COMPARE_OPTIONS).contains(&"ServerSideDiff=true");
    let ignored = "ServerSideDiff=true has no effect yet: the difference is computed from field \
                ownership";
    if server_side(application) {
        messages.push(format!("annotation {COMPARE_OPTIONS}: {ignored}"));
    }
    for (name, object) in objects {
        if server_side(object) {
            messages.push(format!("{name}: annotation {COMPARE_OPTIONS}: {ignored}"));
        }
        if annotation(object, IGNORE_RESOURCE_UPDATES).is_some() {
            messages.push(format!(
                "{name}: annotation {IGNORE_RESOURCE_UPDATES} has no effect yet: its changes are \
                 compared"
            ));
        }
    }
    messages
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// SE-080: only what demands nothing is no guard.
    #[test]
    fn a_project_that_demands_verified_commits_is_recognised_as_se_080() {
        let policy =
            |gpg: Value| json!({"git": {"policies": [{"repos": [{"url": "*"}], "gpg": gpg}]}});
        let cases = [
            (json!({}), None),
            (json!({"signatureKeys": []}), None),
            (json!({"signatureKeys": [{"keyID": "4AEE18F83AFDEB23"}]}), Some("spec.signatureKeys")),
            (json!({"sourceIntegrity": {}}), None),
            (json!({"sourceIntegrity": {"git": {"policies": []}}}), None),
            (json!({"sourceIntegrity": policy(json!({"mode": "none"}))}), None),
            (
                json!({"sourceIntegrity": policy(json!({"mode": "head"}))}),
                Some("spec.sourceIntegrity"),
            ),
            (json!({"sourceIntegrity": policy(json!({}))}), Some("spec.sourceIntegrity")),
            (json!({"sourceIntegrity": {"oci": {"policies": [1]}}}), Some("spec.sourceIntegrity")),
            (json!({"sourceIntegrity": {"git": {"other": true}}}), Some("spec.sourceIntegrity")),
        ];
        for (spec, want) in cases {
            let project: AppProjectSpec = crate::api::read(&spec).unwrap();
            assert_eq!(unverifiable(&project), want, "{spec}");
        }
    }
}
