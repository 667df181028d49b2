//! The API server's version, and the definitions of the kinds.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::core::discovery::ApiResource;
use serde_json::Value;

use super::finding::Finding;
use crate::cli::cluster::ClusterConnection;
use crate::cli::console::error::{Error, UNDEFINED};
use crate::cli::crds::{Missing, not_established};
use wavegate_api::Raw;
use wavegate_api::crds::raw_definitions;
use wavegate_api::policy::POLICY;
use wavegate_api::run::RUN;
use wavegate_engine::names::some_of;

/// The oldest minor version of Kubernetes that is supported.
const OLDEST: u64 = 20;

/// The kinds that no other installation has.
const OURS: [&str; 2] = [POLICY, RUN];

/// Most fields in a message.
const FIELDS: usize = 5;

/// A field that a definition does not know.
struct MissingField {
    path: String,
    /// Whether it is of the strategy of a set: without it, a rollout has no steps.
    is_of_strategy: bool,
}

/// Whether the server is new enough.
///
/// # Errors
///
/// When it does not answer: then nothing else can be read either.
pub(super) async fn server_version(cluster: &ClusterConnection) -> Result<Vec<Finding>, Error> {
    let request = cluster.client().apiserver_version();
    let version = cluster.within("the version of the API server".to_owned(), request).await?;
    Ok(version_problem(&version.major, &version.minor).into_iter().collect())
}

fn version_problem(major: &str, minor: &str) -> Option<Finding> {
    // Some vendors write `28+`.
    let number: u64 = minor.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok()?;
    (major == "1" && number < OLDEST).then(|| {
        let problem = format!(
            "it is Kubernetes {major}.{minor}, and Wavegate needs 1.{OLDEST} or newer; update the \
             cluster"
        );
        Finding::error("API server", problem)
    })
}

/// What is wrong with the definitions of the kinds.
pub(super) async fn examine(cluster: &ClusterConnection) -> Vec<Finding> {
    let api: Api<kube::core::DynamicObject> = Api::all_with(
        cluster.client().clone(),
        &ApiResource::erase::<CustomResourceDefinition>(&()),
    );
    let mut findings = Vec::new();
    for wanted in raw_definitions() {
        let place = format!("CustomResourceDefinition {}", wanted.name());
        match cluster.within(place.clone(), api.get_opt(wanted.name())).await {
            Ok(Some(found)) => {
                let found = serde_json::to_value(&found).unwrap_or_default();
                findings.extend(problems_of(wanted, &found, &place));
            }
            Ok(None) => findings.push(Finding::error(place, UNDEFINED)),
            Err(error) => findings.push(Finding::unread(&error)),
        }
    }
    findings
}

/// What is wrong with a definition that exists, in comparison with ours.
fn problems_of(wanted: &Value, found: &Value, place: &str) -> Option<Finding> {
    match not_established(found) {
        None => {}
        Some(Missing::Refused(error)) => return Some(Finding::error(place, error.to_string())),
        Some(Missing::Yet(why)) => return Some(Finding::warning(place, why)),
    }
    let kind = wanted.text("/spec/names/kind");
    let version = wanted.text("/spec/versions/0/name");
    let versions = found.pointer("/spec/versions").and_then(Value::as_array);
    let served = versions
        .into_iter()
        .flatten()
        .find(|one| one.field("name") == version && one["served"] == true);
    let Some(served) = served else {
        let problem = format!(
            "it does not serve version {version}, so no {kind} can be read; apply the output of \
             wavegate crds"
        );
        return Some(Finding::error(place, problem));
    };
    let schema = |version: &Value| version.pointer("/schema/openAPIV3Schema").cloned();
    let ours = wanted.pointer("/spec/versions/0").and_then(schema).unwrap_or_default();
    let theirs = schema(served).unwrap_or_default();
    let mut missing = Vec::new();
    for part in ["spec", "status"] {
        let (ours, theirs) = (&ours["properties"][part], &theirs["properties"][part]);
        collect_missing((ours, theirs), part, false, &mut missing);
    }
    if missing.is_empty() {
        return None;
    }
    let fields = some_of(missing.iter().map(|field| &field.path), FIELDS);
    let advice = "apply the output of wavegate crds";
    Some(if missing.iter().any(|field| field.is_of_strategy) {
        let problem = format!(
            "it does not know {fields}: the API server drops it, and without steps everything is \
             rolled out at once; {advice}"
        );
        Finding::error(place, problem)
    } else if OURS.contains(&kind) {
        let problem = format!(
            "it is of another version and does not know {fields}, which is dropped; {advice}"
        );
        Finding::warning(place, problem)
    } else {
        let problem = format!(
            "it is of another installation and does not know {fields}, which is not stored; that \
             of wavegate crds knows it"
        );
        Finding::hint(place, problem)
    })
}

/// The fields of a schema that another one drops.
fn collect_missing(
    (ours, theirs): (&Value, &Value),
    path: &str,
    is_of_strategy: bool,
    missing: &mut Vec<MissingField>,
) {
    if theirs["x-kubernetes-preserve-unknown-fields"] == true || !ours.is_object() {
        return;
    }
    if theirs.is_null() {
        missing.push(MissingField { path: path.to_owned(), is_of_strategy });
        return;
    }
    // A map takes any key.
    if !theirs["additionalProperties"].is_object() {
        for (name, field) in ours["properties"].as_object().into_iter().flatten() {
            let is_of_strategy = is_of_strategy || (path, name.as_str()) == ("spec", "strategy");
            let both = (field, &theirs["properties"][name]);
            collect_missing(both, &format!("{path}.{name}"), is_of_strategy, missing);
        }
    }
    if ours["items"].is_object() && theirs["items"].is_object() {
        let both = (&ours["items"], &theirs["items"]);
        collect_missing(both, &format!("{path}[]"), is_of_strategy, missing);
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
    use super::*;

    fn definition(kind: &str) -> Value {
        let all = raw_definitions().iter();
        let found = all.clone().find(|one| one.text("/spec/names/kind") == kind);
        let mut found = found.unwrap().clone();
        found["status"] = serde_json::json!({"conditions": [
            {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": ""},
            {"type": "Established", "status": "True", "reason": "InitialNamesAccepted", "message": ""},
        ]});
        found
    }

    fn without(kind: &str, field: &str) -> Option<Finding> {
        let ours = definition(kind);
        let mut found = ours.clone();
        let version = &mut found["spec"]["versions"][0];
        let mut at = &mut version["schema"]["openAPIV3Schema"]["properties"];
        let mut names: Vec<&str> = field.split('.').collect();
        let last = names.pop().unwrap();
        for name in names {
            at = &mut at[name]["properties"];
        }
        assert!(at.as_object_mut().unwrap().remove(last).is_some(), "{field}");
        problems_of(&ours, &found, "definition")
    }

    #[test]
    fn our_own_definitions_are_in_order() {
        for kind in wavegate_api::crds::KINDS {
            let ours = definition(kind);
            assert_eq!(problems_of(&ours, &ours, kind), None);
        }
    }

    #[test]
    fn what_a_definition_drops_is_as_grave_as_its_effect() {
        let cases = [
            ("ApplicationSet", "spec.strategy", Severity::Error),
            ("ApplicationSet", "spec.strategy.rollingSync", Severity::Error),
            ("ApplicationSet", "status.rollout", Severity::Hint),
            ("RolloutPolicy", "spec.gates", Severity::Warning),
            ("RolloutRun", "status.phase", Severity::Warning),
        ];
        for (kind, field, severity) in cases {
            let found = without(kind, field).unwrap();
            assert_eq!(found.severity, severity, "{kind} {field}: {found:?}");
            assert!(found.problem.contains(field), "{found:?}");
            assert!(found.problem.contains("wavegate crds"), "{found:?}");
        }
    }

    #[test]
    fn a_schema_that_takes_everything_drops_nothing() {
        let ours = definition("ApplicationSet");
        let mut found = ours.clone();
        let open =
            serde_json::json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let fields = &mut found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
        (fields["spec"], fields["status"]) = (open.clone(), open);
        assert_eq!(problems_of(&ours, &found, "definition"), None);
    }

    #[test]
    fn a_version_that_is_not_served_cannot_be_read() {
        let ours = definition("Application");
        for (name, value) in [("served", Value::from(false)), ("name", "v1beta1".into())] {
            let mut found = ours.clone();
            found["spec"]["versions"][0][name] = value;
            let found = problems_of(&ours, &found, "definition").unwrap();
            assert_eq!(found.severity, Severity::Error);
            assert!(found.problem.contains("does not serve version v1alpha1"), "{found:?}");
        }
        let mut young = ours.clone();
        young["status"] = serde_json::json!({});
        assert_eq!(problems_of(&ours, &young, "definition").unwrap().severity, Severity::Warning);
    }

    #[test]
    fn versions_of_vendors_are_read() {
        for (major, minor, is_old) in [
            ("1", "19", true),
            ("1", "20", false),
            ("1", "19+", true),
            ("1", "36+", false),
            ("2", "0", false),
            ("", "", false),
            ("1", "new", false),
        ] {
            assert_eq!(version_problem(major, minor).is_some(), is_old, "{major}.{minor}");
        }
    }
}
