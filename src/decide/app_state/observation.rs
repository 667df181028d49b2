//! The observed state of an Application, its source and its cluster: the input
//! of comparisons, operations and deletions.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::access::Access;
use super::condition::Condition;
use super::owner::Owner;
use super::pairs::{self, Comparison, DiffCache, Facts, compare};
use super::refresh::digest;
use super::targets::Placed;
use crate::api::annotations::{CLIENT_SIDE_APPLY_MIGRATION_MANAGER, COMPARE_OPTIONS, annotation};
use crate::api::kind::{GroupVersionKind, Served};
use crate::api::resource_key::ResourceKey;
use crate::api::sync_options::CREATE_NAMESPACE;
use crate::api::tracking::Tracking;
use crate::decide::diff;
use crate::decide::sync::NamespaceFact;

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
    /// The targets.
    pub placed: &'a Placed,
    /// Discovery results for their kinds.
    pub kinds: &'a BTreeMap<GroupVersionKind, Served>,
    /// The live objects: tracked ones and those that a target names.
    pub live: &'a Live,
    /// Whether the destination namespace exists.
    pub namespace: NamespaceFact,
    /// The destination namespace.
    pub namespace_object: Option<Arc<Value>>,
}

/// A comparison, and the rules it was made with.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The result.
    pub comparison: Comparison,
    /// The rules.
    pub config: diff::Config,
    /// The errors of the rules.
    pub conditions: Vec<Condition>,
}

impl<'a> Observation<'a> {
    /// Compares source and cluster.
    pub fn compare(&self, application: &Value, diffs: &DiffCache) -> Compared {
        let (config, problems) = diff::Config::from_application(application);
        diffs.follow(rules(application));
        let comparison = compare(
            &Facts {
                application,
                spec: self.access.spec,
                tracking: self.tracking,
                control_plane_namespace: self.control_plane_namespace,
                targets: &self.placed.targets,
                live: self.live,
                project: self.access.project,
                cluster: (self.access.server, self.access.cluster),
                config: &config,
                namespace_metadata_changed: namespace_metadata_changed(application),
            },
            diffs,
        );
        let conditions = problems.iter().map(|problem| Condition::comparison(problem.to_string()));
        Compared { comparison, conditions: conditions.collect(), config }
    }

    /// The difference of one resource of a comparison, with the rules of the comparison:
    /// `modified` is the same. Contains no values of a Secret.
    pub fn difference(
        &self,
        resource: &pairs::Compared,
        config: &diff::Config,
    ) -> diff::Comparison {
        match (&resource.target, &resource.live) {
            (Some(target), Some(live)) => {
                pairs::compare_objects(self.tracking, config, target, live)
            }
            (target, live) => diff::compare(target.as_deref(), live.as_deref(), config),
        }
    }

    /// The Application for which objects are deleted and replaced.
    pub fn owner(&self, uid: &'a str) -> Owner<'a> {
        let Self { tracking, control_plane_namespace, .. } = *self;
        Owner { tracking, control_plane_namespace, uid }
    }
}

/// A digest of the rules of a comparison.
fn rules(application: &Value) -> u64 {
    let spec = &application["spec"];
    digest(&json!([
        spec["ignoreDifferences"],
        spec["syncPolicy"]["syncOptions"],
        annotation(application, COMPARE_OPTIONS),
        annotation(application, CLIENT_SIDE_APPLY_MIGRATION_MANAGER),
    ]))
}

/// Whether `managedNamespaceMetadata` differs from what the last sync applied.
fn namespace_metadata_changed(application: &Value) -> bool {
    let policy = &application["spec"]["syncPolicy"];
    let wanted = &policy["managedNamespaceMetadata"];
    let result = &application["status"]["operationState"]["syncResult"];
    let creates = policy["syncOptions"]
        .as_array()
        .is_some_and(|options| options.iter().any(|option| option == CREATE_NAMESPACE));
    creates && result.is_object() && *wanted != result["managedNamespaceMetadata"]
}

/// Kinds of all resources that an Application is known to have, to find those
/// that are no longer in the source.
pub fn inventory(application: &Value) -> impl Iterator<Item = GroupVersionKind> + '_ {
    let status = &application["status"];
    let lists = [&status["resources"], &status["operationState"]["syncResult"]["resources"]];
    let items = lists.into_iter().filter_map(Value::as_array).flatten();
    let text = |item: &Value, field: &str| item[field].as_str().unwrap_or_default().to_owned();
    let kinds = items.map(move |item| GroupVersionKind {
        group: text(item, "group"),
        version: text(item, "version"),
        kind: text(item, "kind"),
    });
    kinds.filter(|kind| !kind.kind.is_empty() && !kind.version.is_empty())
}
