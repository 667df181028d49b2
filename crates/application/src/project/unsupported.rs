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
        let advice = |own: &Value, child: &Value| {
            unused(own, &ApplicationSpec::default(), [("x".to_owned(), child)]).concat()
        };
        for (own, child, end) in [
            (&none, resource("Ignore"), "Ignore has no effect; use IgnoreExtraneous"),
            (
                &none,
                resource("ServerSideDiff=true"),
                "has no effect on a resource; set it on the Application",
            ),
            (
                &application("Ignore"),
                resource(""),
                "use ServerSideDiff=true, ServerSideDiff=false or IncludeMutationWebhook=true",
            ),
        ] {
            assert!(advice(own, &child).ends_with(end), "{}", advice(own, &child));
        }
    }

    /// A project whose guards cannot be enforced deploys nothing (SE-079, SE-080).
    #[test]
    fn a_project_whose_guards_are_unknown_is_refused_se_079() {
        use wavegate_api::annotations::LAST_APPLIED;
        let project = |spec: Value, applied: Value| {
            let text = json!({ "spec": applied }).to_string();
            json!({"metadata": {"name": "p", "generation": 1, "annotations": {LAST_APPLIED: text}},
                "spec": spec})
        };
        let none = || json!({});
        let keys = || json!({"signatureKeys": [{"keyID": "4AEE18F83AFDEB23"}]});
        let integrity = json!({"sourceIntegrity": {"git": {"policies": "all"}}});
        let scoped = json!({"permitOnlyProjectScopedClusters": true});
        // The project, whether commits are refused, whether something is demanded of them, and
        // whether Applications are.
        for (name, project, refuses_commits, demands, refuses) in [
            ("empty", project(none(), none()), false, false, false),
            ("demands", project(keys(), keys()), false, true, false),
            ("demands were dropped", project(none(), keys()), true, false, true),
            ("another guard was dropped", project(none(), scoped), false, false, true),
            ("demands are wrong", project(integrity.clone(), integrity), true, false, true),
            ("unreadable", project(json!({"destinations": "x"}), none()), true, false, true),
        ] {
            let found = signature_demands(&project);
            assert_eq!(found.is_err(), refuses_commits, "{name}: {found:?}");
            assert_eq!(found.is_ok_and(|found| found.any()), demands, "{name}");
            let refusal = project_refusal(&project);
            assert_eq!(refusal.is_some(), refuses, "{name}: {refusal:?}");
            let is_named =
                refusal.is_none_or(|why| why.contains("AppProject") && why.contains('p'));
            assert!(is_named, "{name}");
        }
        let read = |spec: Value| wavegate_api::read_typed::<AppProjectSpec>(&spec).unwrap();
        let wrong = json!({"sourceIntegrity": {"git": {"policies": "all"}}});
        for (name, spec, lost, want) in [
            ("nothing", none(), None, 0),
            ("dropped", none(), Some("lost"), 1),
            ("wrong", wrong.clone(), None, 1),
            ("both", wrong, Some("lost"), 2),
        ] {
            let found = guard_refusals("p", &read(spec), lost);
            assert_eq!(found.len(), want, "{name}: {found:?}");
            assert!(found.iter().all(NewCondition::is_error), "{name}");
        }
    }

    /// Settings of kinds are named if a target is of such a kind, and each once.
    #[test]
    fn settings_without_effect_are_named_for_their_kinds() {
        let setting = |key: &str, group: &str, kind: &str| KindSetting {
            key: key.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
        };
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "d", "namespace": "n"}});
        let placed = crate::targets::place_targets(
            vec![target],
            "n",
            &wavegate_api::tracking::Tracking::default(),
            &|_: &str, _: &str, _: &str| crate::KindScope::Namespaced,
            &wavegate_api::resource_filter::KindFilter::default(),
        );
        let [a, b] = ["a", "b"].map(|key| setting(key, "apps", "Deployment"));
        for (settings, want) in [
            (vec![], None),
            (vec![a.clone()], Some("ConfigMap argocd-cm: a has no effect yet")),
            (vec![b.clone(), a.clone()], Some("ConfigMap argocd-cm: a, b have no effect yet")),
            (vec![a.clone(), a], Some("ConfigMap argocd-cm: a has no effect yet")),
            (vec![setting("c", "*", "Deploy*")], Some("ConfigMap argocd-cm: c has no effect yet")),
            (vec![setting("d", "apps", "StatefulSet")], None),
            (vec![setting("e", "", "Deployment"), setting("f", "x.io", "Deployment")], None),
        ] {
            let found = without_effect(&settings, &placed.targets).map(|one| one.message);
            assert_eq!(found.as_deref(), want, "{settings:?}");
        }
        assert!(without_effect(&[b], &[]).is_none());
    }

    /// Each field and annotation by itself.
    #[test]
    fn fields_without_effect_are_named() {
        let annotated =
            |paths: &str| json!({"metadata": {"annotations": {MANIFEST_GENERATE_PATHS: paths}}});
        let labelled = |api_version: &str, kind: &str, label: &str| json!({"apiVersion": api_version, "kind": kind, "metadata": {"labels": {label: "x"}}});
        let managing = |label: &str| -> ApplicationSpec {
            let metadata = json!({"managedNamespaceMetadata": {"labels": {label: "x"}}});
            wavegate_api::read_typed(
                &json!({ "destination": {}, "project": "", "syncPolicy": metadata }),
            )
            .unwrap()
        };
        let none = ApplicationSpec::default;
        let plain = || labelled("v1", "ConfigMap", "a");
        for (name, application, spec, object, want) in [
            ("nothing", annotated(""), none(), plain(), None),
            (
                "paths",
                annotated("."),
                none(),
                plain(),
                Some("annotation argocd.argoproj.io/manifest-generate-paths"),
            ),
            (
                "a managed label",
                annotated(""),
                managing(MANAGED_BY),
                plain(),
                Some("spec.syncPolicy.managedNamespaceMetadata: label"),
            ),
            ("another label", annotated(""), managing("a"), plain(), None),
            (
                "a Namespace",
                annotated(""),
                none(),
                labelled("v1", "Namespace", MANAGED_BY),
                Some("x: label"),
            ),
            ("without it", annotated(""), none(), labelled("v1", "Namespace", "a"), None),
            ("another kind", annotated(""), none(), labelled("v1", "ConfigMap", MANAGED_BY), None),
            (
                "another group",
                annotated(""),
                none(),
                labelled("x.io/v1", "Namespace", MANAGED_BY),
                None,
            ),
        ] {
            let found = unused(&application, &spec, [("x".to_owned(), &object)]);
            assert_eq!(found.len(), usize::from(want.is_some()), "{name}: {found:?}");
            let starts = found.iter().zip(want).all(|(found, want)| found.starts_with(want));
            assert!(starts, "{name}: {found:?}");
        }
    }
}
