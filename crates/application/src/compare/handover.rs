//! What moves from one Application to another is handed over: neither pruned nor deleted.
//!
//! An Application claims what it has in its source and may have. What is claimed is the claimant's
//! to apply, whoever tracks it still.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::access::Access;
use crate::project::Permits;
use crate::targets::PlacedTarget;
use wavegate_api::kind::KindRef;
use wavegate_api::sync_options::{FAIL_ON_SHARED_RESOURCE, FORCE, SyncOptions};
use wavegate_api::{ApplicationSpec, ApplicationStatus, Raw, ResourceKey, SyncStatusCode};
use wavegate_engine::sync::ObjectClass;

/// What an Application claims by its targets: those that its project permits, and what they would
/// be deleted with, their Namespaces and definitions.
pub fn claimed_targets(access: &Access<'_>, targets: &[PlacedTarget]) -> BTreeSet<ResourceKey> {
    let permits = access.permits();
    let permitted = targets.iter().filter(|target| {
        // One that has to be deleted to be replaced cannot be taken over.
        target.class == ObjectClass::Resource
            && !SyncOptions::of_object(&target.object).has(FORCE)
            && permits.denial(&target.key, &target.object).is_none()
    });
    with_holders(access.spec, permitted.map(|target| target.key.clone()))
}

/// The same by the status, while its targets are not known: what the last comparison has found in
/// the source.
pub fn claimed_rows(
    spec: &ApplicationSpec,
    permits: &Permits<'_>,
    status: &ApplicationStatus,
) -> BTreeSet<ResourceKey> {
    let rows = status.resources.iter().filter(|row| {
        let is_known = row.status.is_some_and(|status| status != SyncStatusCode::Unknown);
        is_known && !row.hook && !row.requires_pruning
    });
    let keys = rows.map(|row| ResourceKey::new(&row.group, &row.kind, &row.namespace, &row.name));
    with_holders(spec, keys.filter(|key| permits.denial(key, &Value::Null).is_none()))
}

/// One that must not take over what another Application tracks waits until that one has deleted it.
fn with_holders(
    spec: &ApplicationSpec,
    keys: impl Iterator<Item = ResourceKey>,
) -> BTreeSet<ResourceKey> {
    let mut options = spec.sync_policy.iter().flat_map(|policy| &policy.sync_options);
    if options.any(|option| option == FAIL_ON_SHARED_RESOURCE) {
        return BTreeSet::new();
    }
    let all = keys.filter(|key| !key.name.is_empty()).flat_map(|key| {
        let namespace = ResourceKey::new("", "Namespace", "", &key.namespace);
        let is_custom = !KindRef { group: &key.group, version: "", kind: &key.kind }.is_built_in();
        let definition = is_custom.then(|| all_of(&key.group, &key.kind));
        let namespace = Some(namespace).filter(|namespace| !namespace.name.is_empty());
        [Some(key), namespace, definition].into_iter().flatten()
    });
    all.collect()
}

/// Stands for all objects of a custom kind: the key of its definition contains the plural.
fn all_of(group: &str, kind: &str) -> ResourceKey {
    ResourceKey::new(group, kind, "", "")
}

/// What is deleted with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeldObjects {
    /// Nothing, or only what controllers have made of it.
    None,
    /// The objects of this namespace.
    OfNamespace(String),
    /// The objects of this group and kind.
    OfKind(String, String),
}

impl HeldObjects {
    /// Those of a live object.
    pub fn of(object: &Value) -> Self {
        let kind = KindRef::of(object);
        match () {
            () if kind.group.is_empty() && kind.kind == "Namespace" => {
                Self::OfNamespace(object.name().to_owned())
            }
            () if kind.is_crd() => {
                let [group, kind] = ["/spec/group", "/spec/names/kind"].map(|at| object.text(at));
                Self::OfKind(group.to_owned(), kind.to_owned())
            }
            () => Self::None,
        }
    }

    /// The keys of which a claim keeps an object with these.
    pub fn claims(&self, key: &ResourceKey) -> Vec<ResourceKey> {
        let all = match self {
            Self::OfKind(group, kind) => Some(all_of(group, kind)),
            Self::None | Self::OfNamespace(_) => None,
        };
        [Some(key.clone()), all].into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use wavegate_api::AppProjectSpec;

    fn project(namespace: &str) -> AppProjectSpec {
        let project = json!({
            "destinations": [{"server": "*", "namespace": namespace}],
            "clusterResourceWhitelist": [{"group": "*", "kind": "Namespace"}],
        });
        wavegate_api::read_typed(&project).unwrap()
    }

    fn spec(options: &[&str]) -> ApplicationSpec {
        wavegate_api::read_typed(&json!({"syncPolicy": {"syncOptions": options}})).unwrap()
    }

    fn claimed(spec: &ApplicationSpec, namespace: &str, rows: Value) -> Vec<String> {
        let project = project(namespace);
        let permits = Permits { project: &project, server: "https://c", cluster: "c" };
        let status = wavegate_api::read_typed(&json!({"resources": rows})).unwrap();
        claimed_rows(spec, &permits, &status).iter().map(ToString::to_string).collect()
    }

    /// SE-210: what is not in the source, not permitted, or not to be taken over is not claimed.
    #[test]
    fn an_application_claims_what_it_wants_and_may_have() {
        let row = |change: Value| {
            let mut row = json!({
                "version": "v1", "kind": "Secret", "namespace": "web", "name": "s",
                "status": "OutOfSync",
            });
            json_patch::merge(&mut row, &change);
            row
        };
        let wanted = [row(json!({}))];
        let all = claimed(&spec(&[]), "web", json!(wanted));
        assert_eq!(all.len(), 2, "and its Namespace: {all:?}");
        let custom = row(json!({"group": "example.com", "kind": "Thing", "status": "Synced"}));
        assert_eq!(claimed(&spec(&[]), "*", json!([custom])).len(), 3, "and its definition");
        let none: [(&str, ApplicationSpec, &str, Value); 6] = [
            ("not permitted", spec(&[]), "else", row(json!({}))),
            ("not taken over", spec(&[FAIL_ON_SHARED_RESOURCE]), "web", row(json!({}))),
            ("to be pruned", spec(&[]), "web", row(json!({"requiresPruning": true}))),
            ("a hook", spec(&[]), "web", row(json!({"hook": true}))),
            ("without a status", spec(&[]), "web", row(json!({"status": null}))),
            ("not known", spec(&[]), "web", row(json!({"status": "Unknown"}))),
        ];
        for (case, spec, namespace, row) in none {
            assert_eq!(claimed(&spec, namespace, json!([row])), [""; 0], "{case}");
        }
    }

    #[test]
    fn namespaces_and_definitions_hold_objects() {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "w"}});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.example.com"},
            "spec": {"group": "example.com", "names": {"kind": "Thing"}},
        });
        let of_kind = HeldObjects::OfKind("example.com".into(), "Thing".into());
        for (object, held, claims) in [
            (map, HeldObjects::None, 1),
            (namespace, HeldObjects::OfNamespace("w".into()), 1),
            (definition, of_kind, 2),
        ] {
            let key = ResourceKey::from_object(&object).unwrap();
            assert_eq!(HeldObjects::of(&object), held);
            assert_eq!(held.claims(&key).len(), claims);
        }
    }
}
