//! Defaults of the API server (SE-168, Appendix B.2), kind by kind.

use super::*;

/// Whether live, to which all of it was applied, is as the source that leaves some of it out: what
/// was applied and left the source is a difference, unless the server would set the same again.
fn is_as_without(left_out: Value, all: Value) -> bool {
    let live = applied_by_kubectl(all.clone(), &all);
    !modified(&left_out, &live)
}

/// API version, kind, what the source has, and what it may add: it is set by the server, or not.
fn check(rows: Vec<(&str, &str, Value, Value, bool)>) {
    for (api_version, kind, source, more, is_default) in rows {
        let source = object(api_version, kind, source);
        let all = with(&source, more.clone());
        let found = is_as_without(source.clone(), all);
        assert_eq!(found, is_default, "{api_version} {kind}: {more} beside {source}");
    }
}

#[test]
fn what_left_the_source_and_is_the_default_is_no_difference_se_168() {
    let spec = |spec: Value| json!({ "spec": spec });
    let none = || json!({});
    check(vec![
        ("v1", "Secret", none(), json!({"type": "Opaque"}), true),
        ("v1", "Secret", none(), json!({"type": "other"}), false),
        ("storage.k8s.io/v1", "StorageClass", none(), json!({"reclaimPolicy": "Delete"}), true),
        (
            "storage.k8s.io/v1",
            "StorageClass",
            none(),
            json!({"volumeBindingMode": "Immediate"}),
            true,
        ),
        ("storage.k8s.io/v1", "StorageClass", none(), json!({"reclaimPolicy": "Retain"}), false),
        ("apps/v1", "StatefulSet", spec(none()), spec(json!({"replicas": 1})), true),
        (
            "apps/v1",
            "StatefulSet",
            spec(none()),
            spec(json!({"podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10})),
            true,
        ),
        (
            "apps/v1",
            "StatefulSet",
            spec(none()),
            spec(json!({"updateStrategy": {"type": "RollingUpdate"}})),
            true,
        ),
        ("apps/v1", "StatefulSet", spec(none()), spec(json!({"replicas": 2})), false),
        ("apps/v1", "DaemonSet", spec(none()), spec(json!({"revisionHistoryLimit": 10})), true),
        (
            "apps/v1",
            "DaemonSet",
            spec(none()),
            spec(json!({"updateStrategy": {
                "type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}})),
            true,
        ),
        (
            "apps/v1",
            "DaemonSet",
            spec(none()),
            spec(json!({"updateStrategy": {"type": "OnDelete"}})),
            false,
        ),
        ("apps/v1", "ReplicaSet", spec(none()), spec(json!({"replicas": 1})), true),
        ("v1", "ReplicationController", spec(none()), spec(json!({"replicas": 1})), true),
        ("batch/v1", "CronJob", spec(none()), spec(json!({"concurrencyPolicy": "Allow"})), true),
        (
            "batch/v1",
            "CronJob",
            spec(none()),
            spec(json!({"suspend": false, "successfulJobsHistoryLimit": 3})),
            true,
        ),
        ("batch/v1", "CronJob", spec(none()), spec(json!({"failedJobsHistoryLimit": 1})), true),
        ("batch/v1", "CronJob", spec(none()), spec(json!({"failedJobsHistoryLimit": 2})), false),
        ("batch/v1", "Job", spec(none()), spec(json!({"completions": 1})), true),
        // With a parallelism, any number of completions is enough.
        (
            "batch/v1",
            "Job",
            spec(json!({"parallelism": 1})),
            spec(json!({"completions": 1})),
            false,
        ),
        (
            "v1",
            "PersistentVolumeClaim",
            spec(none()),
            spec(json!({"volumeMode": "Filesystem"})),
            true,
        ),
        ("v1", "PersistentVolumeClaim", spec(none()), spec(json!({"volumeMode": "Block"})), false),
        (
            "v1",
            "PersistentVolume",
            spec(none()),
            spec(json!({"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"})),
            true,
        ),
    ]);
}

#[test]
fn defaults_depend_on_the_type_beside_them_se_168() {
    let spec = |spec: Value| json!({ "spec": spec });
    let service = |kind: &str| spec(json!({ "type": kind }));
    let cluster = |field: &str| spec(json!({ field: "Cluster" }));
    let (external, internal) = ("externalTrafficPolicy", "internalTrafficPolicy");
    let metric = |value: Value| json!({"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": value}}]});
    let usual = || metric(json!({"type": "Utilization", "averageUtilization": 80}));
    let scaled = |version: &str, more: Value, want| {
        let version = if version == "v2" { "autoscaling/v2" } else { "autoscaling/v1" };
        (version, "HorizontalPodAutoscaler", spec(json!({})), spec(more), want)
    };
    let policy = |own: Value, types: Value, want| {
        let types = spec(json!({ "policyTypes": types }));
        ("networking.k8s.io/v1", "NetworkPolicy", spec(own), types, want)
    };
    let class = |scope: &str, want| {
        let (own, more) =
            (json!({"parameters": {"name": "p"}}), json!({"parameters": {"scope": scope}}));
        ("networking.k8s.io/v1", "IngressClass", spec(own), spec(more), want)
    };
    let definition = |names: Value, want| {
        let own = spec(json!({"names": {"kind": "Widget"}}));
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition", own, spec(names), want)
    };
    check(vec![
        ("v1", "Service", service("NodePort"), cluster(external), true),
        ("v1", "Service", service("LoadBalancer"), cluster(external), true),
        ("v1", "Service", service("ClusterIP"), cluster(external), false),
        ("v1", "Service", service("ClusterIP"), cluster(internal), true),
        ("v1", "Service", service("ExternalName"), cluster(internal), false),
        scaled("v2", json!({"minReplicas": 1}), true),
        scaled("v1", json!({"minReplicas": 1}), true),
        scaled("v2", usual(), true),
        scaled("v1", usual(), false),
        policy(json!({}), json!(["Ingress"]), true),
        policy(json!({}), json!(["Ingress", "Egress"]), false),
        policy(json!({"egress": [{}]}), json!(["Ingress", "Egress"]), true),
        policy(json!({"egress": [{}]}), json!(["Ingress"]), false),
        class("Cluster", true),
        class("Namespace", false),
        definition(json!({"names": {"singular": "widget", "listKind": "WidgetList"}}), true),
        definition(json!({"names": {"singular": "other"}}), false),
        definition(json!({"conversion": {"strategy": "None"}}), true),
        definition(json!({"conversion": {"strategy": "Webhook"}}), false),
    ]);
    // A template of Pods has fewer defaults than a Pod, also in the group of Pods.
    let links = || json!({"enableServiceLinks": true});
    let template = |inside: Value| spec(json!({"template": {"spec": inside}}));
    check(vec![
        ("v1", "Pod", spec(json!({})), spec(links()), true),
        ("apps/v1", "Deployment", template(json!({})), template(links()), false),
        ("v1", "ReplicationController", template(json!({})), template(links()), false),
    ]);
    let labels = json!({"template": {"metadata": {"labels": {"app": "web"}}}});
    let selects = |name: &str| spec(json!({"selector": {"app": name}}));
    check(vec![
        ("v1", "ReplicationController", spec(labels.clone()), selects("web"), true),
        ("v1", "ReplicationController", spec(labels), selects("other"), false),
    ]);
}

/// Lists that are one value have the defaults in their elements.
#[test]
fn elements_of_lists_have_defaults_se_168() {
    let is_same = |api_version: &str, kind: &str, source: Value, filled: Value| {
        let (source, live) = (object(api_version, kind, source), object(api_version, kind, filled));
        !modified(&source, &applied_by_kubectl(live.clone(), &live))
    };
    let slice = |port: Value| json!({ "ports": [port] });
    let group = "discovery.k8s.io/v1";
    let (tcp, udp) =
        (json!({"port": 80, "protocol": "TCP"}), json!({"port": 80, "protocol": "UDP"}));
    let port = || slice(json!({"port": 80}));
    assert!(is_same(group, "EndpointSlice", port(), slice(tcp.clone())));
    assert!(!is_same(group, "EndpointSlice", port(), slice(udp)));
    assert!(!is_same("example.com/v1", "EndpointSlice", port(), slice(tcp)), "not of Kubernetes");

    let group = "admissionregistration.k8s.io/v1";
    let (validating, mutating) = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration");
    let hook = |more: Value| json!({"webhooks": [with(&json!({"name": "a.io"}), more)]});
    let client =
        |port: Value| json!({"clientConfig": {"service": with(&json!({"name": "s"}), port)}});
    for kind in [validating, mutating] {
        for (own, filled, want) in [
            (json!({}), json!({"failurePolicy": "Fail", "matchPolicy": "Equivalent"}), true),
            (json!({}), json!({"timeoutSeconds": 10, "namespaceSelector": {}}), true),
            (json!({}), json!({"objectSelector": {}}), true),
            (json!({}), json!({"failurePolicy": "Ignore"}), false),
            (client(json!({})), client(json!({"port": 443})), true),
            (client(json!({})), client(json!({"port": 8443})), false),
            (json!({"rules": [{}]}), json!({"rules": [{"scope": "*"}]}), true),
            (json!({}), json!({"reinvocationPolicy": "Never"}), kind == mutating),
        ] {
            let found = is_same(group, kind, hook(own), hook(filled.clone()));
            assert_eq!(found, want, "{kind}: {filled}");
        }
    }
    // They are found by their names, whatever their order is.
    let named = |names: &[&str]| {
        let all = names.iter().map(|name| json!({"name": name, "timeoutSeconds": name.len()}));
        object(group, validating, json!({"webhooks": Value::from_iter(all)}))
    };
    assert!(!modified(&named(&["a", "bb"]), &named(&["bb", "a"])));
    assert!(modified(&named(&["a", "bb"]), &named(&["bb"])));
    // Tokens that a controller adds to a ServiceAccount are no difference.
    let account = |names: &[&str]| {
        let all = names.iter().map(|name| json!({ "name": name }));
        object("v1", "ServiceAccount", json!({"secrets": Value::from_iter(all)}))
    };
    assert!(!modified(&account(&["own"]), &account(&["own", "token"])));
    assert!(modified(&account(&["own"]), &account(&["token"])));
}

#[test]
fn containers_and_volumes_have_defaults_se_168() {
    let pod = |spec: Value| {
        object("apps/v1", "Deployment", json!({"spec": {"template": {"spec": spec}}}))
    };
    let container = |more: Value| {
        pod(json!({"containers": [with(&json!({"name": "main", "image": "i:1"}), more)]}))
    };
    let volume = |source: Value| pod(json!({"volumes": [with(&json!({"name": "v"}), source)]}));
    let get = |more: Value| with(&json!({"port": 80}), more);
    let probe = |more: Value| container(json!({"livenessProbe": {"httpGet": get(more)}}));
    let stop = |more: Value| container(json!({"lifecycle": {"preStop": {"httpGet": get(more)}}}));
    let env = |more: Value| {
        let from = json!({"fieldRef": with(&json!({"fieldPath": "metadata.name"}), more)});
        container(json!({"env": [{"name": "A", "valueFrom": from}]}))
    };
    let claim = |spec: Value| volume(json!({"ephemeral": {"volumeClaimTemplate": {"spec": spec}}}));
    let rows = [
        ("a path", probe(json!({})), probe(json!({"path": "/"})), true),
        ("another path", probe(json!({})), probe(json!({"path": "/up"})), false),
        ("a scheme", probe(json!({})), probe(json!({"scheme": "HTTP"})), true),
        ("of a handler", stop(json!({})), stop(json!({"path": "/", "scheme": "HTTP"})), true),
        ("a reference", env(json!({})), env(json!({"apiVersion": "v1"})), true),
        ("no source", volume(json!({})), volume(json!({"emptyDir": {}})), true),
        (
            "a mode",
            volume(json!({"secret": {"secretName": "s"}})),
            volume(json!({"secret": {"secretName": "s", "defaultMode": 420}})),
            true,
        ),
        (
            "another mode",
            volume(json!({"secret": {"secretName": "s"}})),
            volume(json!({"secret": {"secretName": "s", "defaultMode": 400}})),
            false,
        ),
        ("a claim", claim(json!({})), claim(json!({"volumeMode": "Filesystem"})), true),
        ("another claim", claim(json!({})), claim(json!({"volumeMode": "Block"})), false),
        (
            "a type of a path",
            volume(json!({"hostPath": {"path": "/x"}})),
            volume(json!({"hostPath": {"path": "/x", "type": ""}})),
            true,
        ),
    ];
    for (name, source, all, want) in rows {
        assert_eq!(is_as_without(source, all), want, "{name}");
    }
    // A source beside the name is the only one.
    let both = volume(json!({"secret": {"secretName": "s"}, "emptyDir": {}}));
    assert!(!is_as_without(volume(json!({"secret": {"secretName": "s"}})), both));
}
