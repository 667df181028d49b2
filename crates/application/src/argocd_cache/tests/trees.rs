//! The tree as a whole: its Nodes, its networks, its parents, and what a status says of it.

use super::*;

fn entries(objects: &[Value]) -> Vec<TreeEntry> {
    let labels = ShownLabels { of_nodes: vec!["zone".to_owned()], ..ShownLabels::default() };
    objects.iter().map(|one| TreeEntry::of(one, &labels, &Checks::default()).0).collect()
}

fn pod_on(name: &str, node: &str, requests: Value, phase: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "web", "uid": name},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": requests}}]},
        "status": {"phase": phase},
    })
}

fn node(name: &str, capacity: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": {"zone": "a", "secret": "b"}},
        "status": {"capacity": capacity, "nodeInfo": {"osImage": "linux", "unknown": "x"}},
    })
}

/// CA-312: a Node shows what this Application requests of it, and what its neighbours do; a neighbour
/// that has ended takes nothing any more.
#[test]
fn a_node_shows_what_its_pods_request_ca_312() {
    let own = [
        pod_on("own", "n1", json!({"cpu": "1", "memory": 10}), "Running"),
        pod_on("done", "n1", json!({"cpu": "2"}), "Succeeded"),
        pod_on("unscheduled", "", json!({"cpu": "5"}), "Pending"),
    ];
    let others = [
        pod_on("neighbour", "n1", json!({"cpu": "500m", "memory": "0"}), "Running"),
        pod_on("ended", "n1", json!({"cpu": "7"}), "Failed"),
        pod_on("elsewhere", "n2", json!({"cpu": "9"}), "Running"),
    ];
    let nodes = [
        node("n1", json!({"cpu": "4", "memory": "0", "ephemeral-storage": "2", "storage": "1"})),
        node("n2", json!({"cpu": "4"})),
    ];
    let cluster: Vec<Value> = nodes.iter().chain(&own).chain(&others).cloned().collect();
    let seen = TreeObjects { nodes: entries(&own), orphans: vec![], cluster: entries(&cluster) };
    let tree = serde_json::to_value(build_tree(&[], &seen, &Nothing)).unwrap();
    let hosts = tree["hosts"].as_array().unwrap();
    assert_eq!(hosts.len(), 1, "only the Nodes that run a Pod of the tree: {hosts:?}");
    assert_eq!((&hosts[0]["name"], &hosts[0]["labels"]), (&json!("n1"), &json!({"zone": "a"})));
    assert_eq!(hosts[0]["systemInfo"]["osImage"], "linux");
    assert_eq!(hosts[0]["systemInfo"].get("unknown"), None);
    let of = |resource: &str| {
        let all = hosts[0]["resourcesInfo"].as_array().unwrap();
        all.iter().find(|one| one["resourceName"] == resource).cloned().unwrap_or_default()
    };
    let cpu = json!({
        "resourceName": "cpu", "requestedByApp": 3000, "requestedByNeighbors": 500, "capacity": 4000,
    });
    assert_eq!(of("cpu"), cpu);
    assert_eq!(of("memory"), Value::Null, "it has none");
    assert_eq!(of("storage")["capacity"], 2000, "the larger of both");
    // Where a Pod runs is known once it is scheduled.
    let places: Vec<Option<String>> = entries(&own)
        .iter()
        .map(|one| one.pod.as_ref().and_then(|pod| pod.node().map(str::to_owned)))
        .collect();
    assert_eq!(places, [Some("n1".to_owned()), Some("n1".to_owned()), None]);
    // What requests nothing is not shown as requesting 0.
    let requests = entries(&own)[0].pod.as_ref().unwrap().requests.clone();
    assert_eq!(json!(requests), json!({"cpu": 1000, "memory": 10_000}), "also of a number");
    let zero = entries(&others)[0].pod.as_ref().unwrap().requests.clone();
    assert_eq!(json!(zero), json!({"cpu": 500}));
}

/// CA-330 … CA-334: an Ingress leads to the Services of its backends, a Pod is found by its labels,
/// and what is no route has none.
#[test]
fn an_ingress_leads_to_the_services_of_its_backends_ca_331() {
    let object = |api_version: &str, kind: &str, spec: Value, status: Value| {
        json!({"apiVersion": api_version, "kind": kind,
            "metadata": {"name": "o", "namespace": "web", "uid": "u", "labels": {"app": "x"}},
            "spec": spec, "status": status})
    };
    let backend = |name: &str| json!({"service": {"name": name}});
    let spec = json!({
        "defaultBackend": backend("main"), "backend": backend("main"),
        "rules": [{"http": {"paths": [
            {"backend": backend("b")}, {"backend": {"serviceName": "a"}}, {"backend": backend("b")},
            {"backend": {}},
        ]}}],
    });
    let balanced =
        json!({"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}, {"hostname": "lb", "ip": "x"}]}});
    for group in ["networking.k8s.io/v1", "extensions/v1beta1"] {
        let found = entry(&object(group, "Ingress", spec.clone(), balanced.clone()));
        let network = &found["networkingInfo"];
        let names: Vec<&Value> =
            network["targetRefs"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
        assert_eq!(names, ["a", "b", "main"], "each once: {network}");
        assert_eq!(
            network["targetRefs"][0],
            json!({"kind": "Service", "namespace": "web", "name": "a"})
        );
        assert_eq!(network["ingress"], json!([{"ip": "10.0.0.1"}, {"hostname": "lb"}]));
    }
    let other = entry(&object("example.com/v1", "Ingress", spec, balanced));
    assert_eq!(other["networkingInfo"], Value::Null, "of another group");
    let pod = entry(&object("v1", "Pod", json!({}), json!({})));
    assert_eq!(pod["networkingInfo"], json!({"labels": {"app": "x"}}));
    let group = "gateway.networking.k8s.io/v1";
    let class =
        entry(&object(group, "GatewayClass", json!({"parentRefs": [{"name": "x"}]}), json!({})));
    assert_eq!(class["networkingInfo"], Value::Null, "no route");
    let addresses = json!({"addresses": [
        {"type": "Hostname", "value": "gate"}, {"type": "IPAddress", "value": "10.0.0.2"},
        {"type": "IPAddress", "value": ""},
    ]});
    let gateway = entry(&object(group, "Gateway", json!({}), addresses));
    assert_eq!(
        gateway["networkingInfo"]["ingress"],
        json!([{"hostname": "gate"}, {"ip": "10.0.0.2"}])
    );
}

/// A cluster in which a StatefulSet claims a volume, and a Service is beside its Endpoints.
struct Cluster;

impl Find for Cluster {
    fn uid(&self, key: &ResourceKey) -> Option<String> {
        (key.kind == "Service" && key.namespace == "web").then(|| "service".to_owned())
    }

    fn claiming(&self, name: &ResourceKey) -> Vec<TreeNode> {
        let set = TreeNode {
            group: "apps".to_owned(),
            kind: "StatefulSet".to_owned(),
            name: "db".to_owned(),
            uid: "set".to_owned(),
            ..TreeNode::default()
        };
        if name.name == "data-db-" { vec![set] } else { Vec::new() }
    }
}

/// CA-305, CA-313: what an object does not say of its parents is completed from the cluster, each
/// parent once.
#[test]
fn parents_are_completed_from_the_cluster_ca_313() {
    let object = |kind: &str, name: &str, owners: Value| {
        json!({"apiVersion": "v1", "kind": kind, "metadata": {
            "name": name, "namespace": "web", "uid": name, "ownerReferences": owners,
        }})
    };
    let owner =
        json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "set"}]);
    let parents = |object: Value| -> Vec<(String, String)> {
        let seen = TreeObjects { nodes: entries(&[object]), orphans: vec![], cluster: vec![] };
        let tree = serde_json::to_value(build_tree(&[], &seen, &Cluster)).unwrap();
        let found = tree["nodes"][0]["parentRefs"].as_array().cloned().unwrap_or_default();
        let text = |one: &Value, field: &str| one[field].as_str().unwrap_or_default().to_owned();
        found.iter().map(|one| (text(one, "uid"), text(one, "namespace"))).collect()
    };
    let of = |uid: &str, namespace: &str| vec![(uid.to_owned(), namespace.to_owned())];
    let claim = "PersistentVolumeClaim";
    assert_eq!(parents(object(claim, "data-db-0", json!([]))), of("set", ""));
    assert_eq!(parents(object(claim, "data-db-0", owner)), of("set", ""), "once");
    assert_eq!(parents(object(claim, "other-0", json!([]))), []);
    assert_eq!(parents(object("Endpoints", "web", json!([]))), of("service", "web"));
}

/// CA-506: the status names each image and each address once, and whether Applications are below.
#[test]
fn a_status_summarizes_the_tree_ca_506() {
    let linked = |api_version: &str, kind: &str, name: &str| {
        json!({"apiVersion": api_version, "kind": kind, "metadata": {
            "name": name, "namespace": "web", "uid": name,
            "annotations": {"link.argocd.argoproj.io/a": "https://example.com"},
        }, "spec": {"containers": [{"name": "c", "image": "nginx:1"}]}})
    };
    let tree = |objects: &[Value], orphans: &[Value]| {
        let seen =
            TreeObjects { nodes: entries(objects), orphans: entries(orphans), cluster: vec![] };
        build_tree(&[], &seen, &Nothing)
    };
    let pods = [linked("v1", "Pod", "a"), linked("v1", "Pod", "b")];
    let found = tree(&pods, &[linked("v1", "Pod", "c"), linked("v1", "Pod", "d")]);
    let summary = found.summary();
    assert_eq!(
        (summary.images, summary.external_urls),
        (vec!["nginx:1".to_owned()], vec!["https://example.com".to_owned()],)
    );
    assert!(!summary.is_app_of_apps);
    assert_eq!((found.orphans(), tree(&pods, &[]).orphans()), (2, 0));
    for (api_version, kind, want) in [
        ("argoproj.io/v1alpha1", "Application", true),
        ("argoproj.io/v1alpha1", "Rollout", false),
        ("example.com/v1", "Application", false),
    ] {
        let summary = tree(&[linked(api_version, kind, "a")], &[]).summary();
        assert_eq!(summary.is_app_of_apps, want, "{api_version} {kind}");
    }
}
