//! Strategic merge, apply and field sets, without a server.

use serde_json::{Value, json};

use crate::field_set::{FieldSet, fields_of};
use crate::kinds::{Kind, Registry};
use crate::patch::shape::Shape;
use crate::patch::strategic;
use crate::{builtin, managed_fields};

fn kind(group: &str, plural: &str) -> Kind {
    let mut registry = Registry::default();
    builtin::register(&mut registry);
    (**registry.get(group, "v1", plural).unwrap()).clone()
}

#[test]
fn strategic_patches_as_a_table() {
    let service = kind("", "services");
    let deployment = kind("apps", "deployments");
    let pod =
        |containers: Value| json!({"spec": {"template": {"spec": {"containers": containers}}}});
    let cases: Vec<(&str, &Kind, Value, Value, Value)> = vec![
        (
            "ports of a service merge by port",
            &service,
            json!({"spec": {"ports": [{"port": 80, "name": "a"}]}}),
            json!({"spec": {"ports": [{"port": 80, "name": "b"}, {"port": 81}]}}),
            json!({"spec": {"ports": [{"port": 80, "name": "b"}, {"port": 81}]}}),
        ),
        (
            "arguments are replaced",
            &deployment,
            pod(json!([{"name": "c", "args": ["1", "2"]}])),
            pod(json!([{"name": "c", "args": ["3"]}])),
            pod(json!([{"name": "c", "args": ["3"]}])),
        ),
        (
            "null in an item removes its field",
            &deployment,
            pod(json!([{"name": "c", "image": "i", "command": ["x"]}])),
            pod(json!([{"name": "c", "command": null}])),
            pod(json!([{"name": "c", "image": "i"}])),
        ),
        (
            "retained keys drop the others",
            &deployment,
            json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}),
            json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
            json!({"spec": {"strategy": {"type": "Recreate"}}}),
        ),
        (
            "a map is deleted",
            &deployment,
            json!({"spec": {"strategy": {"type": "Recreate"}, "replicas": 1}}),
            json!({"spec": {"strategy": {"$patch": "delete"}}}),
            json!({"spec": {"replicas": 1}}),
        ),
        (
            "order is set, unnamed items follow their neighbour",
            &deployment,
            pod(json!([{"name": "a"}, {"name": "x"}, {"name": "b"}])),
            json!({"spec": {"template": {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}}}}),
            pod(json!([{"name": "b"}, {"name": "a"}, {"name": "x"}])),
        ),
    ];
    for (name, kind, mut object, patch, want) in cases {
        strategic::apply(Shape::root(kind), &mut object, &patch).unwrap();
        assert_eq!(object, want, "{name}");
    }
    let mut object = pod(json!([{"name": "c"}]));
    for patch in [pod(json!([{"image": "no name"}])), json!({"spec": {"$patch": "nonsense"}})] {
        assert!(
            strategic::apply(Shape::root(&deployment), &mut object, &patch).is_err(),
            "{patch}"
        );
    }
}

#[test]
fn merge_patches_follow_the_examples_of_rfc_7396() {
    let cases = [
        (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
        (json!({"a": "b"}), json!({"a": null}), json!({})),
        (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
        (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
        (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
        (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
    ];
    for (mut target, patch, want) in cases {
        json_patch::merge(&mut target, &patch);
        assert_eq!(target, want, "{patch}");
    }
}

#[test]
fn field_sets_are_those_of_fields_v1() {
    let deployment = kind("apps", "deployments");
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "d", "labels": {"l": "1"}, "finalizers": ["x/y"]},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {"containers": [
            {"name": "c", "ports": [{"containerPort": 80}], "args": ["1"], "resources": {}}]}}},
    });
    let mut set = fields_of(Shape::root(&deployment), &object);
    set.strip();
    let manager = managed_fields::Manager {
        name: "m".into(),
        apply: true,
        api_version: "apps/v1".into(),
        subresource: String::new(),
        time: "2026-01-01T00:00:00Z".into(),
        fields: set.clone(),
    };
    let managed = managed_fields::write(vec![manager.clone()]);
    let entries: Value = serde_json::from_slice(managed.as_ref().unwrap()).unwrap();
    let want = json!({
        "f:metadata": {"f:labels": {"f:l": {}}, "f:finalizers": {"v:\"x/y\"": {}}},
        "f:spec": {"f:selector": {}, "f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {
            ".": {}, "f:name": {}, "f:args": {}, "f:resources": {},
            "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}}}}}},
    });
    assert_eq!(entries[0]["fieldsV1"], want);
    assert_eq!(managed_fields::read(managed.as_ref()).unwrap(), [manager]);
    assert!(set.paths().contains(&".spec.template.spec.containers[name=\"c\"].args".to_owned()));
}

#[test]
fn field_sets_subtract_and_intersect() {
    let path = |p: &[&str]| FieldSet::from(p);
    let mut both = path(&["f:a", "f:b"]);
    both.union(&path(&["f:a", "f:c"]));
    let common = both.intersection(&path(&["f:a", "f:c"]));
    assert_eq!(common, path(&["f:a", "f:c"]));
    both.subtract(&common);
    assert_eq!(both, path(&["f:a", "f:b"]));
    both.subtract(&path(&["f:a", "f:b"]));
    assert!(both.is_empty());
    assert_eq!(path(&["f:a"]).intersection(&path(&["f:b"])), FieldSet::default());
}
