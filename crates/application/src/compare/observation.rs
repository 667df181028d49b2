//! The observed state of an Application, its source and its cluster: the input
//! of comparisons, operations and deletions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::access::Access;
use crate::app::App;
use crate::compared::{ComparedResource, ComparisonFacts};
use crate::condition::NewCondition;
use crate::differences::{DiffCache, compare_objects};
use crate::memory::digest_of;
use crate::owner::DeletionOwner;
use crate::pairs::{ComparedApplication, compare};
use crate::predicted::Predicted;
use crate::targets::Placed;
use wavegate_api::ApplicationStatus;
use wavegate_api::annotations::{
    CLIENT_SIDE_APPLY_MIGRATION_MANAGER, COMPARE_OPTIONS, annotation_of,
};
use wavegate_api::conditions::application as types;
use wavegate_api::kind::{GroupVersionKind, KindRef, Served};
use wavegate_api::resource_key::ResourceKey;
use wavegate_api::sync_options::CREATE_NAMESPACE;
use wavegate_api::tracking::Tracking;
use wavegate_engine::diff::{self, Schemas, SettingProblem, SystemSettings};
use wavegate_engine::health::Checks;
use wavegate_engine::sync::{Handover, NamespaceFact};

/// Up to this number of objects, a comparison without rules of users is short.
const FEW: usize = 50;

/// Live objects by identity.
pub type Live = BTreeMap<ResourceKey, Arc<Value>>;

/// Source and cluster.
#[derive(Clone, Debug)]
pub struct Observation<'a> {
    /// The validated environment of the Application.
    pub access: Access<'a>,
    /// How its resources are tracked.
    pub tracking: &'a Tracking,
    /// The default namespace of instance names.
    pub control_plane_namespace: &'a str,
    /// Which kinds have a health.
    pub checks: &'a Checks,
    /// Evaluates jq expressions of ignore rules.
    pub jq: &'a diff::Jq,
    /// The targets.
    pub placed: &'a Placed,
    /// Discovery results for their kinds.
    pub kinds: &'a BTreeMap<GroupVersionKind, Served>,
    /// The live objects: tracked ones and those that a target names.
    pub live: &'a Live,
    /// Which of them other Applications have in their sources, or may have.
    pub handovers: &'a BTreeMap<ResourceKey, Handover>,
    /// The schemas of their kinds, of custom ones.
    pub schemas: &'a Arc<Schemas>,
    /// What the server predicts of them.
    pub predicted: &'a Predicted,
    /// How all Applications are compared.
    pub compared: &'a Arc<SystemSettings>,
    /// Whether the destination namespace exists.
    pub namespace: NamespaceFact,
    /// The destination namespace.
    pub namespace_object: Option<Arc<Value>>,
}

/// A comparison, and the rules it was made with.
#[derive(Clone, Debug)]
pub struct ComparedState {
    /// The result.
    pub comparison: ComparedApplication,
    /// The rules.
    pub config: diff::DiffConfig,
    /// The errors and warnings of the rules.
    pub conditions: Vec<NewCondition>,
}

/// What is wrong with a rule: an error stops syncs, a warning stops nothing.
fn of_rule(is_error: bool, message: String) -> NewCondition {
    match is_error {
        true => NewCondition::comparison(message),
        false => NewCondition::new(types::SYNC_WARNING, message),
    }
}

impl<'a> Observation<'a> {
    /// Compares source and cluster.
    pub fn compare(&self, app: &App, diffs: &DiffCache) -> ComparedState {
        let application = app.raw();
        let (mut config, problems) =
            diff::DiffConfig::with_settings(application, self.compared, self.jq);
        config.schemas = Arc::clone(self.schemas);
        diffs.follow(digest_of(&(rules(app), self.schemas.digest())));
        let comparison = compare(
            &ComparisonFacts {
                application,
                spec: self.access.spec,
                tracking: self.tracking,
                control_plane_namespace: self.control_plane_namespace,
                checks: self.checks,
                targets: &self.placed.targets,
                live: self.live,
                project: self.access.project,
                cluster: (self.access.server, self.access.cluster),
                config: &config,
                predicted: self.predicted,
                handovers: self.handovers,
                namespace_metadata_changed: namespace_metadata_changed(app),
            },
            diffs,
        );
        let own = (problems.iter()).map(|problem| of_rule(problem.is_error, problem.to_string()));
        let conditions = own.chain(self.problems_of_settings(&comparison)).collect();
        ComparedState { comparison, conditions, config }
    }

    /// The settings about the compared kinds that are not understood.
    fn problems_of_settings(&self, comparison: &ComparedApplication) -> Vec<NewCondition> {
        let kinds: BTreeSet<(&str, &str)> = (comparison.resources.iter())
            .map(|resource| (&*resource.key.group, &*resource.key.kind))
            .collect();
        let concerns = |problem: &&SettingProblem| {
            kinds.iter().any(|(group, kind)| problem.is_about(KindRef { group, version: "", kind }))
        };
        let condition =
            |problem: &SettingProblem| of_rule(problem.is_error, problem.message.clone());
        self.compared.problems.iter().filter(concerns).map(condition).collect()
    }

    /// The difference of one resource of a comparison, with the rules of the comparison:
    /// `modified` is the same. Contains no values of a Secret.
    pub fn difference(
        &self,
        resource: &ComparedResource,
        config: &diff::DiffConfig,
    ) -> diff::Comparison {
        match (&resource.target, &resource.live) {
            (Some(target), Some(live)) => {
                let predicted = resource.predicted.as_deref();
                let sides = (&**target, &**live);
                compare_objects(self.tracking, config, sides, predicted, diff::Values::Plain)
            }
            (target, live) => diff::compare(target.as_deref(), live.as_deref(), config),
        }
    }

    /// Whether a decision takes only a moment: it compares few objects, without rules of users.
    pub fn is_short(&self) -> bool {
        self.access.spec.ignore_differences.is_empty()
            && self.compared.rules.is_empty()
            && self.placed.targets.len() + self.live.len() <= FEW
    }

    /// The Application for which objects are deleted and replaced.
    pub fn owner(&self, uid: &'a str) -> DeletionOwner<'a> {
        let Self { tracking, control_plane_namespace, .. } = *self;
        DeletionOwner { tracking, control_plane_namespace, uid }
    }
}

/// A digest of the rules of a comparison.
fn rules(app: &App) -> u64 {
    let (application, spec) = (app.raw(), app.spec_view());
    digest_of(&json!([
        spec.ignore_differences,
        spec.sync_policy.sync_options,
        annotation_of(application, COMPARE_OPTIONS),
        annotation_of(application, CLIENT_SIDE_APPLY_MIGRATION_MANAGER),
    ]))
}

/// Whether `managedNamespaceMetadata` differs from what was applied last.
fn namespace_metadata_changed(app: &App) -> bool {
    let policy = &app.spec_view().sync_policy;
    let wanted = &policy.managed_namespace_metadata;
    let creates = policy.sync_options.iter().any(|option| option == CREATE_NAMESPACE);
    let result = app.status.operation_state.sync_result.as_ref();
    let applied = result.map(|result| &result.managed_namespace_metadata);
    creates && applied.is_some_and(|applied| applied.as_ref().unwrap_or(&Value::Null) != wanted)
}

/// Kinds of all resources that an Application is known to have, to find those
/// that are no longer in the source.
pub fn known_kinds(status: &ApplicationStatus) -> impl Iterator<Item = GroupVersionKind> + '_ {
    let listed = status.resources.iter().map(|row| (&row.group, &row.version, &row.kind));
    let synced = status.operation_state.sync_result.iter().flat_map(|result| &result.resources);
    let synced = synced.map(|row| (&row.group, &row.version, &row.kind));
    let kinds =
        listed.chain(synced).filter(|(_, version, kind)| !kind.is_empty() && !version.is_empty());
    kinds.map(|(group, version, kind)| GroupVersionKind::new(group, version, kind))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{known_kinds, namespace_metadata_changed, rules};
    use crate::app::App;
    use wavegate_api::{ApplicationStatus, read_leniently};

    fn with(changes: &Value) -> App {
        let mut application = json!({"spec": {"syncPolicy": {"syncOptions": ["a=b"]}}});
        json_patch::merge(&mut application, changes);
        App::of(application)
    }

    /// Kept comparisons are made anew when one of their rules changes.
    #[test]
    fn the_digest_of_rules_follows_all_that_a_comparison_reads() {
        let annotation = |name: &str| json!({"metadata": {"annotations": {name: "x"}}});
        let changes = [
            json!({}),
            json!({"spec": {"ignoreDifferences": [{"kind": "Pod"}]}}),
            json!({"spec": {"syncPolicy": {"syncOptions": ["c=d"]}}}),
            annotation("argocd.argoproj.io/compare-options"),
            annotation("argocd.argoproj.io/client-side-apply-migration-manager"),
        ];
        let digests: Vec<u64> = changes.iter().map(|change| rules(&with(change))).collect();
        for (index, digest) in digests.iter().enumerate() {
            assert!(!digests[..index].contains(digest), "{}", changes[index]);
        }
        for same in [json!({"spec": {"project": "p"}}), annotation("other"), json!({"status": {}})]
        {
            assert_eq!(rules(&with(&same)), digests[0], "{same}");
        }
    }

    /// The metadata of the namespace differs from what the last sync applied (SE-025).
    #[test]
    fn changed_metadata_of_the_namespace_is_a_difference_se_025() {
        let own = json!({"labels": {"a": "b"}});
        let other = json!({"labels": {"a": "c"}});
        let applied = |metadata: &Value| json!({"managedNamespaceMetadata": metadata});
        for (option, wanted, result, want) in [
            ("CreateNamespace=true", &own, applied(&own), false),
            ("CreateNamespace=true", &own, applied(&other), true),
            ("CreateNamespace=true", &own, json!({"revision": "x"}), true),
            ("CreateNamespace=true", &own, Value::Null, false),
            ("CreateNamespace=true", &Value::Null, json!({"revision": "x"}), false),
            ("CreateNamespace=true", &Value::Null, applied(&own), true),
            ("CreateNamespace=false", &own, applied(&other), false),
        ] {
            let policy = json!({"syncOptions": [option], "managedNamespaceMetadata": wanted});
            let app = with(&json!({
                "spec": {"syncPolicy": policy}, "status": {"operationState": {"syncResult": result}},
            }));
            assert_eq!(namespace_metadata_changed(&app), want, "{option} {wanted} {result}");
        }
    }

    /// Those of the status and of the last sync, where they are complete.
    #[test]
    fn kinds_are_known_from_the_status_and_the_last_sync() {
        let row = |group: &str, version: &str, kind: &str| {
            json!({"group": group, "version": version, "kind": kind, "name": "a",
                   "namespace": "", "status": "Synced", "syncPhase": "Sync"})
        };
        let status = json!({
            "resources": [row("apps", "v1", "Deployment"), row("x", "", "Y"), row("x", "v1", "")],
            "operationState": {"syncResult": {"resources": [row("", "v1", "Pod")]}},
        });
        let status: ApplicationStatus = read_leniently(&status);
        let kinds: Vec<String> = known_kinds(&status)
            .map(|kind| format!("{}/{}/{}", kind.group, kind.version, kind.kind))
            .collect();
        assert_eq!(kinds, ["apps/v1/Deployment", "/v1/Pod"]);
    }
}
