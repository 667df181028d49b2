//! What is wrong with the fields of ApplicationSets and RolloutPolicies in files, before anything is
//! done with them: unknown fields, and what an API server would not store of a policy.
//!
//! Values of an ApplicationSet are judged where they are used, since its definition permits what
//! Argo CD permits.

use std::sync::OnceLock;

use kube_sim::{Definitions, Server, ServerSettings};
use serde_json::Value;

use crate::cli::console::error::{Error, fault};
use crate::cli::files::input::{self, FileObject, is_application_set, is_policy};
use wavegate_api::Raw;
use wavegate_api::raw::edit_metadata;
use wavegate_api::unknown::{self, Unknown};
use wavegate_api::{crds, policy};
use wavegate_cluster::act::commands::manifests;
use wavegate_cluster::watch::failure::error_reason;

/// Who stores a policy in memory.
const MANAGER: &str = "wavegate";
/// The namespace that the server in memory has from the beginning.
const NAMESPACE: &str = "default";

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) enum FieldProblem {
    /// It does not exist.
    Unknown(Unknown),
    /// It has a value that an API server refuses.
    Invalid {
        /// Its path, such as `spec.gates[0].soak`; empty if the object is refused as a whole.
        field: String,
        /// Why it is refused.
        why: String,
    },
}

impl std::fmt::Display for FieldProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown(unknown) => unknown.fmt(f),
            Self::Invalid { field, why } if field.is_empty() => f.write_str(why),
            Self::Invalid { field, why } => write!(f, "{field}: {why}"),
        }
    }
}

/// The problems of a RolloutPolicy, unknown fields first.
pub(in crate::cli) async fn of_policy(policy: &Value) -> Vec<FieldProblem> {
    let unknown = unknown::in_policy(policy).into_iter().map(FieldProblem::Unknown);
    let refused = refusals(policy).await.into_iter();
    let broken = policy::broken_rules(policy.spec()).into_iter();
    let broken = broken.map(|rule| FieldProblem::Invalid { field: rule.path, why: rule.reason });
    unknown.chain(refused).chain(broken).collect()
}

/// Reports the problems of the ApplicationSets and RolloutPolicies among the objects.
///
/// # Errors
///
/// The last problem; those before it are printed.
pub(in crate::cli) async fn check(
    objects: impl IntoIterator<Item = &FileObject>,
) -> Result<(), Error> {
    let mut errors = Vec::new();
    for object in objects {
        let problems = match &object.value {
            set if is_application_set(set) => {
                let unknown = unknown::in_application_set(set).into_iter();
                unknown.map(FieldProblem::Unknown).collect()
            }
            policy if is_policy(policy) => of_policy(policy).await,
            _ => Vec::new(),
        };
        let what = format!("invalid {}", object.value.kind());
        let error = |problem| Error::check(what.clone(), object.described(), problem);
        errors.extend(problems.into_iter().map(error));
    }
    let Some(last) = errors.pop() else { return Ok(()) };
    errors.iter().for_each(fault);
    Err(last)
}

/// Why an API server does not store a policy. Its rules (`x-kubernetes-validations`) are not
/// evaluated.
async fn refusals(policy: &Value) -> Vec<FieldProblem> {
    let invalid = |field: &str, why: String| FieldProblem::Invalid { field: field.to_owned(), why };
    let mut policy = policy.clone();
    input::clean(&mut policy);
    let mut has_metadata = false;
    edit_metadata(&mut policy, |metadata| {
        has_metadata = true;
        metadata.insert("namespace".to_owned(), NAMESPACE.into());
    });
    if !has_metadata {
        return vec![invalid("metadata", "it is missing; a policy needs a name".to_owned())];
    }
    let definitions = match definition() {
        Ok(definitions) => definitions,
        Err(why) => return vec![invalid("", why)],
    };
    let server = Server::with(ServerSettings { definitions, ..ServerSettings::default() });
    let error = match manifests::create_manifest(&server.client(), MANAGER, &policy).await {
        Ok(()) => return Vec::new(),
        Err(kube::Error::SerdeError(why)) => return vec![invalid("", why.to_string())],
        Err(error) => error,
    };
    let causes = match &error {
        kube::Error::Api(status) => status.details.as_ref().map(|details| &details.causes),
        _ => None,
    };
    let causes = causes.into_iter().flatten();
    let causes: Vec<FieldProblem> =
        causes.map(|cause| invalid(&cause.field, cause.message.clone())).collect();
    if causes.is_empty() { vec![invalid("", error_reason(&error))] } else { causes }
}

/// The definition of policies, read once.
fn definition() -> Result<Definitions, String> {
    static READ: OnceLock<Result<Definitions, String>> = OnceLock::new();
    let is_policies = |definition: &&Value| definition.text("/spec/names/kind") == policy::POLICY;
    let read = || Definitions::read(crds::raw_definitions().iter().filter(is_policies));
    READ.get_or_init(|| read().map_err(|refused| refused.to_string())).clone()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn the_problems_of_a_policy_are_those_of_an_api_server() {
        let cases: [(Value, &[&str]); 8] = [
            (json!({"gates": [{"name": "g", "steps": [1], "approvals": 1}]}), &[]),
            (json!({"failures": {"max": "10%"}, "pace": {"maxInFlight": 1}}), &[]),
            (json!({"gats": []}), &["spec.gats: unknown field; did you mean gates?"]),
            (
                json!({"pace": {"maxInFlight": 0}}),
                &[
                    "spec.pace.maxInFlight: Invalid value: 0: spec.pace.maxInFlight in body should be",
                ],
            ),
            (json!({"failures": {"max": "200%"}}), &["spec.failures.max: Invalid value: \"200%\""]),
            (
                json!({"failures": {"onFailure": "Stop"}}),
                &["spec.failures.onFailure: Unsupported value: \"Stop\""],
            ),
            (json!({"paused": "yes"}), &["spec.paused: Invalid value"]),
            (
                json!({"gates": [{"name": "g", "steps": [1]}], "paus": true}),
                &["spec.paus: unknown field", "spec.gates[0]: a gate needs approvals or soak"],
            ),
        ];
        for (spec, want) in cases {
            let policy = json!({
                "apiVersion": wavegate_api::WAVEGATE_API_VERSION,
                "kind": policy::POLICY,
                "metadata": {"name": "p", "namespace": "team", "resourceVersion": "7"},
                "spec": spec,
            });
            let found: Vec<String> =
                of_policy(&policy).await.iter().map(ToString::to_string).collect();
            assert_eq!(found.len(), want.len(), "{policy}: {found:?}");
            for (found, want) in found.iter().zip(want) {
                assert!(found.starts_with(want), "{found}");
            }
        }
        let nameless =
            json!({"apiVersion": wavegate_api::WAVEGATE_API_VERSION, "kind": policy::POLICY});
        let found = of_policy(&nameless).await;
        assert!(found[0].to_string().contains("a policy needs a name"), "{found:?}");
    }
}
