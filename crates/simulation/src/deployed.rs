//! What Applications had deployed before the change, without the syncs that did it.

use serde_json::{Value, json};

use super::environment::Environment;
use super::scenario::DeployedBefore;
use wavegate_api::app_status::RevisionHistory;
use wavegate_api::listed::ListedSpec;
use wavegate_api::operation::{
    Operation, OperationInitiator, OperationState, Requested, SyncOperation, SyncOperationResult,
};
use wavegate_api::raw::edit_metadata;
use wavegate_api::resource_filter::KindFilter;
use wavegate_api::sources::{InEffect, by_field};
use wavegate_api::sync_options::{REPLACE, SERVER_SIDE_APPLY};
use wavegate_api::time::{Time, of_word};
use wavegate_api::tracking::Tracking;
use wavegate_api::{
    Application, ApplicationSet, ApplicationSpec, OperationPhase, Raw, read_leniently,
};
use wavegate_application::targets::{KindScope, place_targets};
use wavegate_cluster::act::commands::manifests::create_manifest;
use wavegate_cluster::act::sync::apply::with_last_applied;
use wavegate_cluster::watch::object::{kind_api, kind_resource};
use wavegate_engine::diff::DEFAULT_MANAGER;
use wavegate_engine::promotion::USERNAME;
use wavegate_engine::sync::ObjectClass;
use wavegate_rollout::application_set::plan::owner::{Identity, owner_reference};
use wavegate_source::InMemory;

impl Environment<'_> {
    /// Creates these Applications and what they deploy, as the controllers would have: their
    /// first comparisons find it Synced. Those whose syncs write in another way are left to the
    /// controllers.
    pub(super) async fn deploy(&self, deployed: &DeployedBefore) -> anyhow::Result<()> {
        for (set, applications) in deployed {
            let stored =
                kind_api(&self.client, Some(self.namespace), &kind_resource(ApplicationSet::KIND));
            let owner = Identity::of(&stored.get(set).await?.parse());
            for application in applications.iter().filter(|one| is_applied_plainly(one)) {
                for object in self.first_objects(application) {
                    create_manifest(&self.client, DEFAULT_MANAGER, &object).await?;
                }
                let synced = self.synced(application, &owner);
                create_manifest(&self.client, DEFAULT_MANAGER, &synced).await?;
            }
        }
        Ok(())
    }

    /// The Application as it is after its first sync; not compared yet.
    fn synced(&self, application: &Value, owner: &Identity) -> Value {
        let spec = application.spec();
        let at = of_word(Some(&Time(self.clock.now())));
        let head = self.sources.head("");
        let in_effect = InEffect::of(spec);
        let heads = vec![head; in_effect.list.len()];
        let (revision, revisions) = by_field(in_effect.is_list(), &heads);
        let (source, sources) = match in_effect.is_list() {
            true => (None, in_effect.list.into_owned()),
            false => (in_effect.list.first().cloned(), Vec::new()),
        };
        let by = OperationInitiator {
            automated: true,
            username: USERNAME.to_owned(),
            ..OperationInitiator::default()
        };
        let sync = SyncOperation {
            revision: revision.clone(),
            revisions: revisions.clone(),
            ..SyncOperation::default()
        };
        let operation =
            Operation { sync: Some(sync), initiated_by: Some(by.clone()), ..Operation::default() };
        let entry = RevisionHistory {
            revision: revision.clone(),
            revisions: revisions.clone(),
            source: source.clone(),
            sources: sources.clone(),
            deploy_started_at: Some(at.clone()),
            deployed_at: Some(at.clone()),
            initiated_by: Some(by),
            id: 0,
        };
        let state = OperationState {
            operation: Requested::of(json!(operation)),
            phase: OperationPhase::Succeeded,
            started_at: Some(at.clone()),
            finished_at: Some(at),
            sync_result: Some(SyncOperationResult {
                revision,
                revisions,
                source,
                sources,
                ..SyncOperationResult::default()
            }),
            ..OperationState::default()
        };
        let mut object = json!({
            "apiVersion": wavegate_api::API_VERSION,
            "kind": Application::KIND,
            "metadata": application.get("metadata"),
            "spec": spec,
            "status": {"history": [entry], "operationState": state},
        });
        edit_metadata(&mut object, |metadata| {
            metadata.insert("namespace".to_owned(), self.namespace.into());
            metadata.insert("ownerReferences".to_owned(), json!([owner_reference(owner)]));
        });
        object
    }

    /// The objects at the first commit, with the tracking of the Application; hooks, too, which the
    /// next sync replaces.
    fn first_objects(&self, application: &Value) -> Vec<Value> {
        let sources = InEffect::of(application.spec()).list;
        let head = self.sources.head("");
        let manifests = sources
            .iter()
            .flat_map(|source| self.sources.objects(application.name(), source, &head));
        let tracking = Tracking { instance: application.name().to_owned(), ..Tracking::default() };
        let spec: ListedSpec = read_leniently(application.spec());
        let namespace = &spec.destination.namespace;
        let scope = |_: &str, _: &str, _: &str| KindScope::Namespaced;
        let filter = KindFilter::default();
        let placed = place_targets(manifests.collect(), namespace, &tracking, &scope, &filter);
        let of_syncs = placed
            .targets
            .iter()
            .filter(|target| matches!(target.class, ObjectClass::Resource | ObjectClass::Hook(_)));
        of_syncs.map(|target| with_last_applied(&target.object)).collect()
    }
}

/// Whether the syncs of an Application apply its objects, and nothing else, by the client.
fn is_applied_plainly(application: &Value) -> bool {
    let spec: ApplicationSpec = read_leniently(application.spec());
    let policy = spec.sync_policy.unwrap_or_default();
    let mut options = policy.sync_options.iter();
    policy.managed_namespace_metadata.is_none()
        && !options.any(|option| option == REPLACE || option == SERVER_SIDE_APPLY)
}
