//! Tables of the specification's cases (CA-…).

mod trees;

use serde_json::{Value, json};

use super::*;
use wavegate_api::ResourceKey;
use wavegate_engine::health::Checks;

fn entry(object: &Value) -> Value {
    serde_json::to_value(TreeEntry::of(object, &ShownLabels::default(), &Checks::default()).0.node)
        .unwrap()
}

fn details(node: &Value) -> Vec<(&str, &str)> {
    let all = node["info"].as_array().into_iter().flatten();
    let text = |info: &'_ Value, field: &str| info[field].as_str().unwrap_or_default().to_owned();
    let all: Vec<(String, String)> =
        all.map(|info| (text(info, "name"), text(info, "value"))).collect();
    // Leaked for the table: it lives as long as the test.
    let all: &'static [(String, String)] = Vec::leak(all);
    all.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

fn pod(spec: Value, status: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "web", "uid": "u"}, "spec": spec, "status": status})
}

/// CA-016, CA-322.
#[test]
fn a_pod_shows_what_kubectl_shows() {
    let one = json!({"containers": [{"name": "a"}]});
    let of = |state: Value| json!({"phase": "Running", "containerStatuses": [{"name": "a", "state": state, "restartCount": 3}]});
    let waiting = |reason: &str| of(json!({"waiting": {"reason": reason}}));
    let ended = |ended: Value| of(json!({"terminated": ended}));
    let init = |state: Value| json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": state}]});
    let with_init =
        json!({"containers": [{"name": "a"}], "initContainers": [{"name": "i"}, {"name": "j"}]});
    let gated = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]});
    let cases = [
        (&one, waiting("CrashLoopBackOff"), "CrashLoopBackOff"),
        (&one, ended(json!({"reason": "OOMKilled", "exitCode": 137})), "OOMKilled"),
        (&one, ended(json!({"signal": 9})), "Signal:9"),
        (&one, ended(json!({"exitCode": 2})), "ExitCode:2"),
        (&one, json!({"phase": "Failed", "reason": "Evicted"}), "Evicted"),
        (&one, gated, "SchedulingGated"),
        (
            &with_init,
            init(json!({"waiting": {"reason": "ImagePullBackOff"}})),
            "Init:ImagePullBackOff",
        ),
        (&with_init, init(json!({"waiting": {"reason": "PodInitializing"}})), "Init:0/2"),
        (&with_init, init(json!({"terminated": {"exitCode": 1}})), "Init:ExitCode:1"),
        (&one, json!({}), ""),
    ];
    for (spec, status, expected) in cases {
        let node = entry(&pod(spec.clone(), status.clone()));
        let reason = details(&node).into_iter().find(|(name, _)| *name == "Status Reason");
        assert_eq!(reason.map_or("", |(_, value)| value), expected, "{status}");
    }
    let node = entry(&pod(one.clone(), waiting("CrashLoopBackOff")));
    assert_eq!(
        details(&node),
        [
            ("Status Reason", "CrashLoopBackOff"),
            ("Node", ""),
            ("Containers", "0/1"),
            ("Restart Count", "3"),
            ("cpu", "0"),
            ("memory", "0"),
        ]
    );
    let mut deleted = pod(one, waiting("CrashLoopBackOff"));
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let node = entry(&deleted);
    assert_eq!(details(&node)[0], ("Status Reason", "Terminating"));
    assert_eq!(node["health"], json!({"status": "Progressing", "message": "Pending deletion"}));
}

/// CA-322: thousandths, of what runs only.
#[test]
fn requests_are_in_thousandths() {
    let requests = json!({"requests": {"cpu": "1500m", "memory": "1Ki"}});
    let spec = json!({"containers": [{"name": "a", "resources": requests}, {"name": "b", "resources": requests}]});
    let node = entry(&pod(spec.clone(), json!({"phase": "Running"})));
    assert!(details(&node).contains(&("cpu", "3000")));
    assert!(details(&node).contains(&("memory", "2048000")));
    let node = entry(&pod(spec, json!({"phase": "Succeeded"})));
    assert!(details(&node).iter().all(|(name, _)| *name != "cpu"));
}

/// CA-330 … CA-334.
#[test]
fn networks_are_read_by_kind() {
    let object = |api_version: &str, kind: &str, spec: Value, status: Value| {
        json!({"apiVersion": api_version, "kind": kind,
            "metadata": {"name": "o", "namespace": "web", "uid": "u"},
            "spec": spec, "status": status})
    };
    let balanced = json!({"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}, {"hostname": "lb"}]}});
    let addresses = json!([{"ip": "10.0.0.1"}, {"hostname": "lb"}]);
    let service = |kind: &str| json!({"type": kind, "selector": {"app": "web"}});
    let gateway = json!({"listeners": [
        {"protocol": "HTTPS", "hostname": "shop", "port": 443},
        {"protocol": "HTTP", "hostname": "*", "port": 8080},
    ]});
    let route = json!({"parentRefs": [{"name": "gate"}], "rules": [{"backendRefs": [{"name": "web", "namespace": "b"}]}]});
    let group = "gateway.networking.k8s.io";
    let cases = [
        (
            object("v1", "Service", service("LoadBalancer"), balanced.clone()),
            json!({"targetLabels": {"app": "web"}, "ingress": addresses}),
        ),
        (
            object("v1", "Service", service("ClusterIP"), balanced),
            json!({"targetLabels": {"app": "web"}}),
        ),
        (object("v1", "Service", json!({}), json!({})), json!({})),
        (object("v1", "ConfigMap", json!({}), json!({})), Value::Null),
        (
            object(
                "networking.istio.io/v1",
                "VirtualService",
                json!({"http": [{"route": [{"destination": {"host": "web.other.svc"}}, {"destination": {"host": "web"}}]}]}),
                json!({}),
            ),
            json!({"targetRefs": [
                {"kind": "Service", "namespace": "other", "name": "web"},
                {"kind": "Service", "namespace": "web", "name": "web"},
            ]}),
        ),
        (
            object(
                "networking.istio.io/v1",
                "ServiceEntry",
                json!({"workloadSelector": {"labels": {"a": "b"}}}),
                json!({}),
            ),
            json!({"targetLabels": {"a": "b"}, "targetRefs": [{"kind": "Pod"}]}),
        ),
        (
            object(
                &format!("{group}/v1"),
                "Gateway",
                gateway,
                json!({"addresses": [{"type": "IPAddress", "value": "10.0.0.1"}]}),
            ),
            json!({"ingress": [{"ip": "10.0.0.1"}], "externalURLs": ["https://shop", "http://10.0.0.1:8080"]}),
        ),
        (
            object(&format!("{group}/v1"), "HTTPRoute", route, json!({})),
            json!({"targetRefs": [
                {"kind": "Service", "namespace": "b", "name": "web"},
                {"group": group, "kind": "Gateway", "namespace": "web", "name": "gate"},
            ]}),
        ),
    ];
    for (object, expected) in cases {
        assert_eq!(entry(&object)["networkingInfo"], expected, "{object}");
    }
    let mut linked = object("v1", "ConfigMap", json!({}), json!({}));
    linked["metadata"]["annotations"] = json!({
        "link.argocd.argoproj.io/a": "Title|https://example.com",
        "link.argocd.argoproj.io/b": "javascript:alert(1)",
    });
    let urls = json!({"externalURLs": ["Title|https://example.com"]});
    assert_eq!(entry(&linked)["networkingInfo"], urls);
}

/// A cluster without objects.
struct Nothing;

impl Find for Nothing {
    fn uid(&self, _: &ResourceKey) -> Option<String> {
        None
    }

    fn claiming(&self, _: &ResourceKey) -> Vec<TreeNode> {
        Vec::new()
    }
}

/// CA-305, CA-313.
#[test]
fn parents_are_owners_and_inferred_ones() {
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "ru"});
    let named = |kind: &str, extra: Value| {
        let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "o", "namespace": "web", "uid": "u"}});
        for (field, value) in extra.as_object().unwrap() {
            object[field] = value.clone();
        }
        object
    };
    let mut pod = named("Pod", json!({}));
    pod["metadata"]["ownerReferences"] = json!([owner]);
    let mut token = named("Secret", json!({"type": "kubernetes.io/service-account-token"}));
    token["metadata"]["annotations"] = json!({"kubernetes.io/service-account.name": "sa", "kubernetes.io/service-account.uid": "su"});
    let key = |kind: &str, name: &str| Parent::Key(ResourceKey::new("", kind, "web", name));
    let claim = |name: &str| {
        let mut claim = named("PersistentVolumeClaim", json!({}));
        claim["metadata"]["name"] = name.into();
        claim
    };
    let claimed =
        |name: &str| Parent::Claim(ResourceKey::new("", "PersistentVolumeClaim", "web", name));
    let cases = [
        (pod, vec![Parent::Uid("ru".to_owned())]),
        (named("Endpoints", json!({})), vec![key("Service", "o")]),
        (token, vec![Parent::Uid("su".to_owned())]),
        (named("ConfigMap", json!({})), vec![]),
        (claim("data-db-12"), vec![claimed("data-db-")]),
        (claim("data-db"), vec![]),
        (claim("12"), vec![]),
        (claim("data12"), vec![]),
    ];
    for (object, expected) in cases {
        assert_eq!(
            TreeEntry::of(&object, &ShownLabels::default(), &Checks::default()).1.parents,
            expected,
            "{object}"
        );
    }
}

/// CA-210, CA-006, CA-007.
#[test]
fn a_tree_is_cut_into_shards_in_order() {
    let root = |name: &str| TreeRoot {
        key: ResourceKey::new("", "ConfigMap", "web", name),
        version: "v1".to_owned(),
        uid: None,
    };
    let seen = || TreeObjects { nodes: vec![], orphans: vec![], cluster: vec![] };
    let of = |count: usize, size: usize| {
        let roots: Vec<TreeRoot> = (0..count).rev().map(|name| root(&name.to_string())).collect();
        let shards = build_tree(&roots, &seen(), &Nothing).shards(size);
        let shards: Vec<Value> =
            shards.iter().map(|shard| serde_json::to_value(shard).unwrap()).collect();
        let names = shards.iter().flat_map(|shard| {
            shard["nodes"].as_array().into_iter().flatten().map(|node| node["name"].clone())
        });
        let names: Vec<Value> = names.collect();
        assert!(names.is_sorted_by_key(|name| name.to_string()), "{names:?}");
        assert_eq!(names.len(), count);
        let counts: Vec<Value> = shards.iter().map(|shard| shard["shardsCount"].clone()).collect();
        (shards.len(), counts)
    };
    assert_eq!(of(5, 2), (3, vec![json!(3), Value::Null, Value::Null]));
    assert_eq!(of(2, 2), (1, vec![json!(1)]));
    assert_eq!(of(5, 0), (1, vec![Value::Null]));
    assert_eq!(of(0, 2), (1, vec![Value::Null]), "{{}}");
    let empty = serde_json::to_value(build_tree(&[], &seen(), &Nothing)).unwrap();
    assert_eq!(empty, json!({}));
}

/// CA-203 … CA-209.
#[test]
fn keys_tell_the_compression_and_channels_do_not() {
    let plain = Keys { prefix: "p:".to_owned(), is_gzip: false };
    let packed = Keys { prefix: String::new(), is_gzip: true };
    assert_eq!(plain.tree("a"), "p:app|resources-tree|a|1.8.3");
    assert_eq!(packed.tree_shard("n_a", 1), "app|resources-tree|n_a|1|1.8.3.gz");
    assert_eq!(packed.managed("a"), "app|managed-resources|a|1.8.3.gz");
    assert_eq!(packed.cluster("https://x/"), "cluster|info|https://x|1.8.3.gz");
    assert_eq!(Keys::channel("a"), "app|managed-resources|a|1.8.3");
}

/// CA-350: no state and no last-applied configuration has a value.
#[test]
fn secrets_are_masked_in_all_states() {
    let secret = |data: Value, applied: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": applied, "token": "annotated",
        }}, "data": data})
    };
    let target = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
        "stringData": {"a": "one", "b": "same"}});
    let applied = json!({"kind": "Secret", "data": {"a": "dHdv"}}).to_string();
    let live = secret(json!({"a": "dHdv", "b": "c2FtZQ=="}), &applied);
    let (target, live) = mask::secrets(Some(&target), Some(&live), &["token".to_owned()]);
    let (target, live) = (target.unwrap(), live.unwrap());
    let [first, second] = ["++++++++", "++++++++++++"];
    assert_eq!(target["data"], json!({"a": first, "b": first}));
    assert_eq!(target["stringData"], Value::Null);
    assert_eq!(live["data"], json!({"a": second, "b": first}));
    let annotations = &live["metadata"]["annotations"];
    assert_eq!(annotations["token"], first);
    let applied = annotations["kubectl.kubernetes.io/last-applied-configuration"].as_str().unwrap();
    let applied: Value = serde_json::from_str(applied).unwrap();
    assert_eq!(applied["data"]["a"], second);
    // The same annotation has another mask where it has another value.
    let mut other = secret(json!({}), "");
    other["metadata"]["annotations"]["token"] = "another".into();
    let names = ["token".to_owned()];
    let (one, other) = mask::secrets(Some(&secret(json!({}), "")), Some(&other), &names);
    let tokens = [one, other].map(|one| one.unwrap()["metadata"]["annotations"]["token"].clone());
    assert_eq!(tokens, [first, second]);
    let (_, broken) = mask::secrets(None, Some(&secret(json!({}), "no JSON: dHdv")), &[]);
    let annotations = &broken.unwrap()["metadata"]["annotations"];
    assert_eq!(annotations["kubectl.kubernetes.io/last-applied-configuration"], first);
}
