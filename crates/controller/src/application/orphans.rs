//! The number of objects of the destination namespace that no Application manages (SE-078), as a
//! metric (SE-551), and the warning about them.
//!
//! All namespaced kinds of a cluster are watched as soon as one of its Applications has a project
//! with `orphanedResources`. Of objects that no Application needs, only keys and owners are kept.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::destination::ResolvedDestination;
use super::reconciliation::Reconciliation;
use crate::orphans::is_orphan;
use wavegate_api::ResourceKey;
use wavegate_api::conditions::application::ORPHANED_RESOURCE_WARNING;
use wavegate_application::NewCondition;
use wavegate_application::argocd_cache::{Orphans, orphan_warning};

/// How long a comparison waits for the first listing of all kinds. When it takes longer, the last
/// warning stays, and the Application is compared again afterwards.
const LISTED_WITHIN: Duration = Duration::from_secs(10);

impl Reconciliation<'_> {
    /// Counts the orphaned objects, and returns the condition about them if the project asks for
    /// it. `live` are the objects that the Application manages.
    pub(super) async fn orphans(
        &self,
        destination: &ResolvedDestination,
        live: &BTreeMap<ResourceKey, Arc<Value>>,
    ) -> Option<NewCondition> {
        let cluster = &destination.destination.cluster;
        let instance = self.tracking.instance.as_str();
        let project = &destination.project.spec;
        let namespace = destination.spec.destination.namespace.as_str();
        let metrics = &self.ctx.core.metrics;
        let Some(orphans) = Orphans::of(project).filter(|_| !namespace.is_empty()) else {
            cluster.forget_orphans(instance);
            metrics.orphaned(self.key, 0);
            return None;
        };
        let warns = orphans.warns();
        let is_orphan = is_orphan(project, orphans, self.ctx.instances());
        let watch =
            cluster.watch_orphans(instance, namespace, Arc::clone(&is_orphan), LISTED_WITHIN);
        let is_listed = self.ctx.lend_slot(cluster.while_connected(watch)).await.unwrap_or(false);
        let Some(graph) = cluster.graph().filter(|_| is_listed) else {
            return self.last_warning().filter(|_| warns);
        };
        let all = graph.ownerless_in(namespace).into_iter();
        let count = all
            .filter(|member| {
                is_orphan(&member.key, member.instance.as_deref())
                    && !live.contains_key(&member.key)
            })
            .count();
        metrics.orphaned(self.key, count);
        (warns && count > 0).then(|| orphan_warning(count))
    }

    /// The warning in the status.
    fn last_warning(&self) -> Option<NewCondition> {
        let conditions = self.app.status.conditions.iter();
        let mut found = conditions.filter(|one| one.type_ == ORPHANED_RESOURCE_WARNING);
        found.next().map(|last| NewCondition::new(ORPHANED_RESOURCE_WARNING, last.message.as_str()))
    }
}
