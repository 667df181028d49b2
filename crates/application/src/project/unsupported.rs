//! Fields of projects and Applications, and settings, that Argo CD has and that are not
//! supported here. Guards refuse the Applications that they protect (SE-079, SE-080); what
//! only reports or changes how something is judged is named in a `SyncWarning`.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::condition::NewCondition;
use crate::pruned_fields::PrunedField;
use crate::signatures::Demands;
use crate::targets::PlacedTarget;
use wavegate_api::annotations::{
    COMPARE_OPTIONS, MANAGED_BY, MANIFEST_GENERATE_PATHS, annotation_items, annotation_of,
};
use wavegate_api::conditions::application as types;
use wavegate_api::glob;
use wavegate_api::kind::KindRef;
use wavegate_api::{AppProjectSpec, ApplicationSpec, GROUP, Raw};

/// What a raw project demands of the commits that generators read.
///
/// # Errors
///
/// Why its repositories must not be read: one that cannot be read might demand anything.
pub fn signature_demands(project: &Value) -> Result<Demands, String> {
    let name = project.name();
    let spec = wavegate_api::read_typed::<AppProjectSpec>(project.spec())
        .map_err(|error| format!("AppProject {name} cannot be read: spec.{error}"))?;
    let demands = Demands::of(&spec).map_err(|why| format!("AppProject {name}: {why}"))?;
    match PrunedField::of(project).filter(PrunedField::is_about_commits) {
        Some(lost) => Err(lost.message(name)),
        None => Ok(demands),
    }
}

/// Why nothing of the Applications of a raw project is deployed; `None` for no reason.
pub fn project_refusal(project: &Value) -> Option<String> {
    let lost = || Some(PrunedField::of(project)?.message(project.name()));
    signature_demands(project).err().or_else(lost)
}

/// The guards of a project that cannot be enforced: nothing is compared or synced. `lost` is the
/// message about one that the API server has dropped.
pub fn guard_refusals(
    project_name: &str,
    project: &AppProjectSpec,
    lost: Option<&str>,
) -> Vec<NewCondition> {
    let lost = lost.map(str::to_owned);
    let unread = Demands::of(project).err().map(|why| format!("AppProject {project_name}: {why}"));
    lost.into_iter().chain(unread).map(NewCondition::comparison).collect()
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
    fn is_about(&self, target: &PlacedTarget) -> bool {
        let KindRef { group, kind, .. } = KindRef::of(&target.object);
        glob::glob_denies(&self.group, group, None) && glob::glob_denies(&self.kind, kind, None)
    }
}

/// The condition for settings that concern the targets, and have no effect on them.
pub fn without_effect(settings: &[KindSetting], targets: &[PlacedTarget]) -> Option<NewCondition> {
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
    Some(NewCondition::new(types::SYNC_WARNING, message))
}

/// Fields and annotations of an Application, its project and its objects that have no
/// effect; the objects come with their names.
pub(crate) fn unused<'a>(
    application: &Value,
    spec: &ApplicationSpec,
    objects: impl IntoIterator<Item = (String, &'a Value)>,
) -> Vec<String> {
    let mut messages = Vec::new();
    if annotation_of(application, MANIFEST_GENERATE_PATHS).is_some_and(|paths| !paths.is_empty()) {
        messages.push(format!(
            "annotation {MANIFEST_GENERATE_PATHS} has no effect yet on comparisons, only on \
             webhooks: every commit counts as a change of the manifests"
        ));
    }
    let of_namespace = "grants nothing here: the operator of Argo CD makes roles from it, and what may be managed \
         follows from the credentials of the cluster";
    let policy = spec.sync_policy.as_ref();
    let added = policy.and_then(|policy| policy.managed_namespace_metadata.as_ref());
    if added.is_some_and(|added| added.labels.contains_key(MANAGED_BY)) {
        messages.push(format!(
            "spec.syncPolicy.managedNamespaceMetadata: label {MANAGED_BY} {of_namespace}"
        ));
    }
    for (name, object) in objects {
        let kind = KindRef::of(object);
        let is_namespace = kind == KindRef { group: "", version: "v1", kind: "Namespace" };
        if is_namespace && object.label(MANAGED_BY).is_some() {
            messages.push(format!("{name}: label {MANAGED_BY} {of_namespace}"));
        }
        // One that an Application manages, and compares its own resources with its options.
        let is_application = kind.group == GROUP && kind.kind == "Application";
        let found = problems_of_comparison(object, is_application);
        messages.extend(found.map(|problem| format!("{name}: {problem}")));
    }
    messages.extend(problems_of_comparison(application, true));
    messages
}

/// The compare options of an object that have no effect, and why.
fn problems_of_comparison(object: &Value, is_application: bool) -> impl Iterator<Item = String> {
    annotation_items(object, COMPARE_OPTIONS).into_iter().filter_map(move |option| {
        let why = match option {
            "IgnoreExtraneous" => return None,
            "ServerSideDiff=true"
            | "ServerSideDiff=false"
            | "IncludeMutationWebhook=true"
            | "IncludeMutationWebhook=false" => match is_application {
                true => return None,
                false => "has no effect on a resource; set it on the Application",
            },
            _ if is_application => {
                "has no effect; use ServerSideDiff=true, ServerSideDiff=false or \
                 IncludeMutationWebhook=true"
            }
            _ => "has no effect; use IgnoreExtraneous",
        };
        Some(format!("annotation {COMPARE_OPTIONS}: {option} {why}"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A misspelt option was ignored in silence, and a correct one of an Application that another one
    /// manages was said to have no effect.
    #[test]
    fn compare_options_without_effect_are_named() {
        let annotated = |api_version: &str, kind: &str, options: &str| {
            json!({"apiVersion": api_version, "kind": kind,
                "metadata": {"annotations": {COMPARE_OPTIONS: options}}})
        };
        let application = |options| annotated("argoproj.io/v1alpha1", "Application", options);
        let resource = |options| annotated("v1", "ConfigMap", options);
        let none = application("");
        for (own, child, expected) in [
            (&none, resource("IgnoreExtraneous"), vec![]),
            (&none, resource("IgnoreExtraneos"), vec!["x: "]),
            (&none, resource("ServerSideDiff=true, IgnoreExtraneous"), vec!["x: "]),
            (&none, application("ServerSideDiff=true,IncludeMutationWebhook=true"), vec![]),
            (&none, application("ServerSideDif=true"), vec!["x: "]),
            (&application("ServerSideDiff=yes"), resource(""), vec![""]),
            (&application("ServerSideDiff=false"), resource(""), vec![]),
        ] {
            let found = unused(own, &ApplicationSpec::default(), [("x".to_owned(), &child)]);
            assert_eq!(found.len(), expected.len(), "{own} {child}: {found:?}");
            for (found, name) in found.iter().zip(expected) {
                let start = format!("{name}annotation {COMPARE_OPTIONS}: ");
                assert!(found.starts_with(&start), "{found}");
            }
        }
    }
}
