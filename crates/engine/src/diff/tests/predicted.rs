//! Comparing with the answer of the server to a dry run (SE-158).

use super::*;

const WITHOUT: ServerSide = ServerSide { with_webhooks: false };
const WITH: ServerSide = ServerSide { with_webhooks: true };

fn owned(object: Value, fields: &Value) -> Value {
    let entry = json!({"manager": DEFAULT_MANAGER, "operation": "Apply", "fieldsV1": fields});
    with(&object, json!({"metadata": {"managedFields": [entry], "resourceVersion": "7"}}))
}

/// The predicted object, if it differs from live.
fn predicted(target: &Value, live: &Value, answer: &Value, how: ServerSide) -> Option<Value> {
    let compared = compare_predicted((target, live), answer, &DiffConfig::default(), how);
    assert_eq!(compared.strategy, DiffStrategy::ServerSide);
    assert_eq!(compared.modified, compared.predicted != compared.live);
    compared.modified.then_some(compared.predicted)
}

/// Changes of fields that we do not own are those of webhooks: maps, keyed lists and sets.
#[test]
fn only_changes_of_own_fields_count_se_158() {
    let pod = |containers: Value| object("v1", "Pod", json!({"spec": {"containers": containers}}));
    let tree = json!({"f:spec": {"f:containers": {
        "k:{\"name\":\"main\"}": {".": {}, "f:name": {}, "f:image": {}},
    }}});
    let main = |image: &str, more: Value| with(&json!({"name": "main", "image": image}), more);
    let sidecar = json!({"name": "sidecar", "image": "x"});
    let target = pod(json!([main("a", json!({}))]));
    let live = owned(pod(json!([main("a", json!({}))])), &tree);
    let cases = [
        ("nothing", json!([main("a", json!({}))]), None),
        ("a sidecar", json!([main("a", json!({})), sidecar]), None),
        ("a field", json!([main("a", json!({"tty": true}))]), None),
        ("our field", json!([main("b", json!({}))]), Some(json!([main("b", json!({}))]))),
        (
            "our field beside others",
            json!([sidecar, main("b", json!({"tty": true}))]),
            Some(json!([main("b", json!({}))])),
        ),
    ];
    for (name, containers, want) in cases {
        let answer = owned(pod(containers.clone()), &tree);
        let images = |object: Value| -> Vec<[Value; 3]> {
            let list = object["spec"]["containers"].as_array().unwrap().clone();
            list.iter()
                .map(|one| [&one["name"], &one["image"], &one["tty"]].map(Value::clone))
                .collect()
        };
        let got = predicted(&target, &live, &answer, WITHOUT).map(&images);
        let want = want.map(|list| images(pod(list)));
        assert_eq!(got, want, "{name}");
        let seen = predicted(&target, &live, &answer, WITH);
        assert_eq!(seen.is_some(), name != "nothing", "{name}, with webhooks");
    }
}

/// What we owned and the answer no longer has is removed; what others own stays, in its place.
#[test]
fn removals_of_own_fields_count_se_158() {
    let map = |data: Value| object("v1", "ConfigMap", json!({"data": data}));
    let tree = |fields: Value| json!({"f:data": fields});
    let live =
        owned(map(json!({"a": "1", "b": "2", "c": "3"})), &tree(json!({"f:a": {}, "f:b": {}})));
    let answer = owned(map(json!({"a": "1"})), &tree(json!({"f:a": {}})));
    let target = map(json!({"a": "1"}));
    let got = predicted(&target, &live, &answer, WITHOUT).unwrap();
    assert_eq!(got["data"], json!({"a": "1", "c": "3"}), "c was removed by a webhook");

    let sa =
        |list: Value| object("v1", "ServiceAccount", json!({"metadata": {"finalizers": list}}));
    let set = |own: Value| json!({"f:metadata": {"f:finalizers": own}});
    let live = owned(sa(json!(["x", "y", "z"])), &set(json!({"v:\"x\"": {}, "v:\"z\"": {}})));
    let answer = owned(sa(json!(["y", "z"])), &set(json!({"v:\"z\"": {}})));
    let target = sa(json!(["z"]));
    let got = predicted(&target, &live, &answer, WITHOUT).unwrap();
    assert_eq!(got["metadata"]["finalizers"], json!(["y", "z"]));
}

/// A server-side apply keeps what was applied client-side; the sync removes it.
#[test]
fn what_was_applied_client_side_is_removed_se_158() {
    let map = |data: Value| object("v1", "ConfigMap", json!({"data": data}));
    let (before, target) = (map(json!({"a": "1", "b": "2"})), map(json!({"a": "1"})));
    let live = applied_by_kubectl(map(json!({"a": "1", "b": "2", "c": "3"})), &before);
    let tree = json!({"f:data": {"f:a": {}}});
    let answer = owned(live.clone(), &tree);
    let got = predicted(&target, &live, &answer, WITHOUT).unwrap();
    assert_eq!(got["data"], json!({"a": "1", "c": "3"}));

    let web = |names: &[&str]| {
        let all = names.iter().map(|name| json!({"name": name, "image": "x"}));
        let spec = json!({"spec": {"template": {"spec": {"containers": Value::from_iter(all)}}}});
        object("apps/v1", "Deployment", spec)
    };
    let live = applied_by_kubectl(web(&["a", "b", "c"]), &web(&["a", "b"]));
    let tree = json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {
        "k:{\"name\":\"a\"}": {".": {}, "f:name": {}, "f:image": {}},
    }}}}});
    let got = predicted(&web(&["a"]), &live, &owned(live.clone(), &tree), WITHOUT).unwrap();
    let names: Vec<&Value> = got["spec"]["template"]["spec"]["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["name"])
        .collect();
    assert_eq!(names, ["a", "c"]);
}

/// Elements are the same by their keys, whatever else is in them.
#[test]
fn elements_of_the_answer_are_found_by_their_keys_se_158() {
    let pod = |containers: Value| object("v1", "Pod", json!({"spec": {"containers": containers}}));
    let tree = json!({"f:spec": {"f:containers": {
        "k:{\"name\":\"a\"}": {".": {}, "f:name": {}, "f:image": {}},
        "k:{\"name\":\"b\"}": {".": {}, "f:name": {}, "f:image": {}},
    }}});
    let one = |name: &str, image: &str| json!({"name": name, "image": image, "tty": true});
    let live = owned(pod(json!([one("a", "1"), one("b", "1")])), &tree);
    let answer = owned(pod(json!([one("b", "2"), one("a", "1")])), &tree);
    let target = pod(json!([{"name": "b", "image": "2"}, {"name": "a", "image": "1"}]));
    let got = predicted(&target, &live, &answer, WITHOUT).unwrap();
    let fields: Vec<[&Value; 3]> = got["spec"]["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| [&one["name"], &one["image"], &one["tty"]])
        .collect();
    assert_eq!(json!(fields), json!([["b", "2", true], ["a", "1", true]]), "tty is of a webhook");
}

/// A parent that the answer does not have any more keeps what others own in it.
#[test]
fn what_others_own_stays_in_a_parent_that_is_gone_se_158() {
    let map = |body: Value| object("v1", "ConfigMap", body);
    let own = |fields: Value| json!({"f:data": fields, "f:metadata": {"f:labels": {"f:l": {}}}});
    let labels = json!({"metadata": {"labels": {"l": "1"}}});
    let target = map(labels.clone());
    let gone = |rest: Value, tree: &Value| {
        let live = owned(with(&map(labels.clone()), rest), tree);
        let answer = owned(map(labels.clone()), &json!({"f:metadata": {"f:labels": {"f:l": {}}}}));
        predicted(&target, &live, &answer, WITHOUT)
    };
    let of_a = own(json!({"f:a": {}}));
    let got = gone(json!({"data": {"a": "1", "c": "2"}}), &of_a).unwrap();
    assert_eq!(got["data"], json!({"c": "2"}));
    let got = gone(json!({"data": {"a": "1"}}), &of_a).unwrap();
    assert_eq!(got.get("data"), None, "nothing is left in it");
    let of_x = json!({"f:metadata": {"f:labels": {"f:l": {}}, "f:finalizers": {"v:\"x\"": {}}}});
    let got = gone(json!({"metadata": {"finalizers": ["x", "y"]}}), &of_x).unwrap();
    assert_eq!(got["metadata"]["finalizers"], json!(["y"]));
    let got = gone(json!({"metadata": {"finalizers": ["x"]}}), &of_x).unwrap();
    assert_eq!(got["metadata"].get("finalizers"), None);
}

/// Of what was applied client-side, only the namespace of the object is always there.
#[test]
fn the_namespace_of_an_object_is_never_removed_se_158() {
    let map = |metadata: Value, data: Value| {
        object("v1", "ConfigMap", json!({"metadata": metadata, "data": data}))
    };
    let before =
        map(json!({"namespace": "n", "labels": {"l": "1"}}), json!({"namespace": "x", "a": "1"}));
    let live = applied_by_kubectl(before.clone(), &before);
    let answered = |target: &Value| {
        let answer = owned(live.clone(), &json!({"f:data": {"f:a": {}}}));
        predicted(target, &live, &answer, WITHOUT)
    };
    let same = map(json!({"labels": {"l": "1"}}), json!({"namespace": "x", "a": "1"}));
    assert_eq!(answered(&same), None);
    let less = answered(&map(json!({}), json!({"a": "1"}))).unwrap();
    assert_eq!((&less["data"], less["metadata"].get("labels")), (&json!({"a": "1"}), None));
    assert_eq!(less["metadata"]["namespace"], "n");
}

/// Rules, jq as well, apply to the answers of several objects as to that of each.
#[test]
fn rules_apply_to_all_answers_together_se_158_se_170() {
    let map = |name: &str, a: &str, b: &str| {
        let data = json!({"metadata": {"name": name}, "data": {"a": a, "b": b}});
        object("v1", "ConfigMap", data)
    };
    let rule = json!({"kind": "ConfigMap", "jqPathExpressions": [".data.a"]});
    let application = json!({"spec": {"ignoreDifferences": [rule]}});
    let (config, problems) = DiffConfig::from_application(&application, &Jq::default());
    assert_eq!(problems, []);
    let tree = json!({"f:data": {"f:a": {}, "f:b": {}}});
    let objects: Vec<[Value; 3]> = [("one", "2", "1"), ("two", "1", "2"), ("three", "2", "2")]
        .map(|(name, a, b)| {
            let (live, answer) = (owned(map(name, "1", "1"), &tree), owned(map(name, a, b), &tree));
            [map(name, a, b), live, answer]
        })
        .into();
    let all: Vec<(&Value, &Value, &Value)> =
        objects.iter().map(|[target, live, answer]| (target, live, answer)).collect();
    let together = compare_all_predicted(&all, &config, WITHOUT);
    let modified: Vec<bool> = together.iter().map(|one| one.modified).collect();
    assert_eq!(modified, [false, true, true]);
    for ((target, live, answer), together) in all.into_iter().zip(together) {
        let alone = compare_predicted((target, live), answer, &config, WITHOUT);
        assert_eq!((alone.predicted, alone.live), (together.predicted, together.live));
    }
}

/// An answer of any shape is compared, and never ends the process.
#[test]
fn an_answer_may_be_anything() {
    let target = object("v1", "ConfigMap", json!({"data": {"a": "1"}}));
    let odd = json!({"f:data": {"k:{": {}, "k:[]": {}, "v:": {}, "i:x": {}, "f:a": [], ".": 1}});
    let live = owned(target.clone(), &odd);
    for answer in [json!(null), json!([]), json!("x"), json!({"data": [1, 2]}), json!({"data": 1})]
    {
        for tree in [json!(null), json!([]), odd.clone(), json!({"f:data": {"f:a": {}}})] {
            let answer =
                if answer.is_object() { owned(answer.clone(), &tree) } else { answer.clone() };
            for how in [WITH, WITHOUT] {
                let compared =
                    compare_predicted((&target, &live), &answer, &DiffConfig::default(), how);
                assert_eq!(compared.modified, compared.live != compared.predicted, "{answer}");
            }
        }
    }
}

/// Values of Secrets are in no result.
#[test]
fn predicted_secrets_are_masked_se_158() {
    let secret = |value: &str| object("v1", "Secret", json!({"data": {"token": value}}));
    let tree = json!({"f:data": {"f:token": {}}});
    let (live, answer) = (owned(secret("YQ=="), &tree), owned(secret("Yg=="), &tree));
    let compared =
        compare_predicted((&secret("Yg=="), &live), &answer, &DiffConfig::default(), WITHOUT);
    assert!(compared.modified);
    let text = format!("{compared:?}");
    assert!(!text.contains("YQ==") && !text.contains("Yg=="), "{text}");
}
