//! What Applications had deployed before the change, without the syncs that did it.

use serde_json::{Value, json};

use super::environment::Environment;
use super::scenario::Deployed;
use wavegate_api::resource_filter::KindFilter;
use wavegate_api::sync_options::{REPLACE, SERVER_SIDE_APPLY};
use wavegate_api::time::to_rfc3339;
use wavegate_api::tracking::Tracking;
use wavegate_api::{Application, ApplicationSet, OperationPhase, Raw};
use wavegate_application::targets::{KindScope, place};
use wavegate_cluster::act::apply::with_last_applied;
use wavegate_cluster::act::manifests::create;
use wavegate_cluster::watch::object::{api, resource};
use wavegate_engine::diff::DEFAULT_MANAGER;
use wavegate_engine::promotion::USERNAME;
use wavegate_engine::sync::Class;
use wavegate_rollout::application_set::owner::{Identity, owner_reference};
use wavegate_source::InMemory;

impl Environment<'_> {
    /// Creates these Applications and what they deploy, as the controllers would have: their
    /// first comparisons find it Synced. Those whose syncs write in another way are left to the
    /// controllers.
    pub(super) async fn deploy(&self, deployed: &Deployed) -> anyhow::Result<()> {
        for (set, applications) in deployed {
            let stored = api(&self.client, Some(self.namespace), &resource(ApplicationSet::KIND));
            let owner = Identity::of(&stored.get(set).await?.parse());
            for application in applications.iter().filter(|one| is_applied_plainly(one)) {
                for object in self.first_objects(application) {
                    create(&self.client, DEFAULT_MANAGER, &object).await?;
                }
                let synced = self.synced(application, &owner);
                create(&self.client, DEFAULT_MANAGER, &synced).await?;
            }
        }
        Ok(())
    }

    /// The Application as it is after its first sync; not compared yet.
    fn synced(&self, application: &Value, owner: &Identity) -> Value {
        let spec = &application["spec"];
        let at = to_rfc3339(self.clock.now());
        let head = self.sources.head("");
        let (sources, revisions) = match spec["sources"].as_array() {
            Some(sources) => ("sources", json!({"revisions": vec![head; sources.len()]})),
            None => ("source", json!({"revision": head})),
        };
        let mut result = revisions.clone();
        result[sources] = spec[sources].clone();
        let by = json!({"automated": true, "username": USERNAME});
        let mut entry = result.clone();
        entry["id"] = 0.into();
        entry["initiatedBy"] = by.clone();
        entry["deployStartedAt"] = at.as_str().into();
        entry["deployedAt"] = at.as_str().into();
        let mut metadata = application["metadata"].clone();
        metadata["namespace"] = self.namespace.into();
        metadata["ownerReferences"] = json!([owner_reference(owner)]);
        json!({
            "apiVersion": wavegate_api::API_VERSION,
            "kind": Application::KIND,
            "metadata": metadata,
            "spec": spec,
            "status": {
                "history": [entry],
                "operationState": {
                    "operation": {"initiatedBy": by, "sync": revisions},
                    "phase": OperationPhase::Succeeded.as_str(),
                    "startedAt": at,
                    "finishedAt": at,
                    "syncResult": result,
                },
            },
        })
    }

    /// The objects at the first commit, with the tracking of the Application; without hooks.
    fn first_objects(&self, application: &Value) -> Vec<Value> {
        let spec = &application["spec"];
        let of_one = std::iter::once(&spec["source"]).filter(|source| source.is_object());
        let sources = spec.items("/sources").iter().chain(of_one);
        let head = self.sources.head("");
        let manifests =
            sources.flat_map(|source| self.sources.objects(application.name(), source, &head));
        let tracking = Tracking { instance: application.name().to_owned(), ..Tracking::default() };
        let namespace = spec["destination"].field("namespace");
        let scope = |_: &str, _: &str, _: &str| KindScope::Namespaced;
        let filter = KindFilter::default();
        let placed = place(manifests.collect(), namespace, &tracking, &scope, &filter);
        let resources = placed.targets.iter().filter(|target| target.class == Class::Resource);
        resources.map(|target| with_last_applied(&target.object)).collect()
    }
}

/// Whether the syncs of an Application apply its objects, and nothing else, by the client.
fn is_applied_plainly(application: &Value) -> bool {
    let policy = &application["spec"]["syncPolicy"];
    let differs = |option: &Value| option == REPLACE || option == SERVER_SIDE_APPLY;
    policy["managedNamespaceMetadata"].is_null()
        && !policy.items("/syncOptions").iter().any(differs)
}
