//! What the API server omits, decodes or defaults is no difference for ever.

use super::*;

#[test]
fn defaults_inside_lists_that_are_compared_as_one_value_are_no_difference() {
    let rule = |scope: Value| {
        let rule = json!({"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"],
            "resources": ["deployments"]});
        with(&rule, scope)
    };
    let request = |parts: Value| with(&json!({"deviceClassName": "gpu"}), parts);
    let counted = || request(json!({"allocationMode": "ExactCount", "count": 1}));
    let policy = |kind: &str, field: &str, scope: Value| {
        let rules =
            json!({"resourceRules": [rule(scope.clone())], "excludeResourceRules": [rule(scope)]});
        object("admissionregistration.k8s.io/v1", kind, json!({"spec": {field: rules}}))
    };
    let mut rows = Vec::new();
    for (kind, field) in [
        ("ValidatingAdmissionPolicy", "matchConstraints"),
        ("ValidatingAdmissionPolicyBinding", "matchResources"),
        ("MutatingAdmissionPolicy", "matchConstraints"),
        ("MutatingAdmissionPolicyBinding", "matchResources"),
    ] {
        let target = policy(kind, field, json!({}));
        rows.push((kind, target.clone(), policy(kind, field, json!({"scope": "*"})), false));
        rows.push((kind, target, policy(kind, field, json!({"scope": "Cluster"})), true));
    }
    let claim = |version: &str, requests: Value| {
        let spec = json!({"devices": {"requests": requests}});
        object(
            &format!("resource.k8s.io/{version}"),
            "ResourceClaimTemplate",
            json!({"spec": {"spec": spec}}),
        )
    };
    let exactly = |one: Value| claim("v1", json!([{"name": "a", "exactly": one}]));
    let first = |one: Value| claim("v1beta2", json!([{"name": "a", "firstAvailable": [one]}]));
    let old = |one: Value| claim("v1beta1", json!([one]));
    let all = || request(json!({"allocationMode": "All"}));
    let two = || request(json!({"allocationMode": "ExactCount", "count": 2}));
    rows.extend([
        ("exactly", exactly(request(json!({}))), exactly(counted()), false),
        ("another count", exactly(request(json!({}))), exactly(two()), true),
        ("a mode without a count", exactly(all()), exactly(all()), false),
        ("a count of zero", exactly(request(json!({"count": 0}))), exactly(counted()), false),
        ("one of several", first(request(json!({}))), first(counted()), false),
        ("the version before", old(request(json!({}))), old(counted()), false),
        (
            "alternatives in the version before",
            claim("v1beta1", json!([{"name": "a", "firstAvailable": [request(json!({}))]}])),
            claim("v1beta1", json!([{"name": "a", "firstAvailable": [counted()]}])),
            false,
        ),
        (
            "a claim itself",
            object(
                "resource.k8s.io/v1",
                "ResourceClaim",
                json!({"spec": {"devices": {
                "requests": [{"name": "a", "exactly": request(json!({}))}]}}}),
            ),
            object(
                "resource.k8s.io/v1",
                "ResourceClaim",
                json!({"spec": {"devices": {
                "requests": [{"name": "a", "exactly": counted()}]}}}),
            ),
            false,
        ),
    ]);
    check(rows);
}

#[test]
fn line_breaks_in_base64_are_no_difference() {
    let broken = "aGVs\nbG8=\r\n";
    let (plain, other) = ("aGVsbG8=", "aGVsbG9v");
    let secret = |data: &str| object("v1", "Secret", json!({"data": {"a": data}}));
    let config = |data: &str| object("v1", "ConfigMap", json!({"binaryData": {"a": data}}));
    let text = |data: &str| object("v1", "ConfigMap", json!({"data": {"a": data}}));
    let webhook = |bundle: &str| {
        let webhook = json!({"name": "a.example.com", "clientConfig": {"caBundle": bundle}});
        let group = "admissionregistration.k8s.io/v1";
        object(group, "ValidatingWebhookConfiguration", json!({"webhooks": [webhook]}))
    };
    let service = |bundle: &str| {
        object("apiregistration.k8s.io/v1", "APIService", json!({"spec": {"caBundle": bundle}}))
    };
    let definition = |bundle: &str| {
        let webhook = json!({"clientConfig": {"caBundle": bundle}});
        object(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": webhook}}}),
        )
    };
    let request = |data: &str| {
        object(
            "certificates.k8s.io/v1",
            "CertificateSigningRequest",
            json!({"spec": {"request": data}}),
        )
    };
    let custom = |data: &str| object("example.com/v1", "Widget", json!({"data": {"a": data}}));
    let mut rows = Vec::new();
    for (name, of) in [
        ("Secret", &secret as &dyn Fn(&str) -> Value),
        ("ConfigMap", &config),
        ("webhook", &webhook),
        ("APIService", &service),
        ("definition", &definition),
        ("CertificateSigningRequest", &request),
    ] {
        rows.push((name, of(broken), of(plain), false));
        rows.push((name, of(broken), of(other), true));
    }
    rows.push(("plain texts keep them", text(broken), text(plain), true));
    rows.push(("and custom resources", custom(broken), custom(plain), true));
    check(rows);
}

#[test]
fn what_is_omitted_when_it_is_empty_or_zero_is_no_difference() {
    let pod = |spec: Value| {
        object("apps/v1", "Deployment", json!({"spec": {"template": {"spec": spec}}}))
    };
    let volume = |source: Value| pod(json!({"volumes": [with(&json!({"name": "v"}), source)]}));
    let service = |spec: Value| object("v1", "Service", json!({"spec": spec}));
    let port = |port: Value| service(json!({"ports": [with(&json!({"port": 80}), port)]}));
    let class = |body: Value| object("storage.k8s.io/v1", "StorageClass", body);
    let disk = |csi: Value| object("v1", "PersistentVolume", json!({"spec": {"csi": csi}}));
    let limits = |limit: Value| object("v1", "LimitRange", json!({"spec": {"limits": [limit]}}));
    let probe =
        |probe: Value| pod(json!({"containers": [{"name": "main", "livenessProbe": probe}]}));
    let zero = json!({"timeoutSeconds": 0, "periodSeconds": 0, "successThreshold": 0, "failureThreshold": 0});
    let stored = json!({"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3});
    let selects = |selector: Value| {
        object(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            json!({"spec": {"ingress": [{"from": [selector]}]}}),
        )
    };
    let scheduling = |parts: Value| object("node.k8s.io/v1", "RuntimeClass", parts);
    check(vec![
        ("selector", service(json!({"selector": {}})), service(json!({})), false),
        (
            "selector of a controller",
            object("v1", "ReplicationController", json!({"spec": {"selector": {}}})),
            object("v1", "ReplicationController", json!({"spec": {}})),
            false,
        ),
        ("parameters", class(json!({"parameters": {}})), class(json!({})), false),
        (
            "attributes",
            disk(json!({"driver": "d", "volumeAttributes": {}})),
            disk(json!({"driver": "d"})),
            false,
        ),
        (
            "options",
            volume(json!({"flexVolume": {"driver": "d", "options": {}}})),
            volume(json!({"flexVolume": {"driver": "d"}})),
            false,
        ),
        ("overhead", pod(json!({"overhead": {}})), pod(json!({})), false),
        (
            "limits",
            limits(json!({"type": "Pod", "max": {}})),
            limits(json!({"type": "Pod"})),
            false,
        ),
        (
            "a partition",
            volume(json!({"awsElasticBlockStore": {"partition": 0}})),
            volume(json!({"awsElasticBlockStore": {}})),
            false,
        ),
        ("a probe", probe(zero.clone()), probe(stored.clone()), false),
        ("another probe", probe(zero), probe(with(&stored, json!({"timeoutSeconds": 5}))), true),
        ("a port", port(json!({"targetPort": 0})), port(json!({"targetPort": 80})), false),
        (
            "a named port",
            port(json!({"targetPort": "http"})),
            port(json!({"targetPort": 80})),
            true,
        ),
        (
            "an empty peer that is a pointer",
            selects(json!({"podSelector": {}})),
            selects(json!({})),
            true,
        ),
        (
            "overhead that is a pointer",
            scheduling(json!({"overhead": {}})),
            scheduling(json!({})),
            true,
        ),
    ]);
}

/// Found by applying manifests to Kubernetes 1.36 and comparing them with what it stored.
#[test]
fn what_a_server_makes_of_valid_manifests_is_no_difference() {
    let spec = |api_version: &str, kind: &str, spec: Value| {
        object(api_version, kind, json!({"spec": spec}))
    };
    let volume = |spec: Value| object("v1", "PersistentVolume", json!({"spec": spec}));
    let driver = |parts: Value| spec("storage.k8s.io/v1", "CSIDriver", parts);
    let group = "flowcontrol.apiserver.k8s.io/v1";
    let flow = |n: Value| spec(group, "FlowSchema", json!({"matchingPrecedence": n}));
    let level = |queuing: Value| {
        let limited = json!({"limitResponse": {"type": "Queue", "queuing": queuing}});
        spec(group, "PriorityLevelConfiguration", json!({"limited": limited}))
    };
    let class = |cpu: &str| {
        object("node.k8s.io/v1", "RuntimeClass", json!({"overhead": {"podFixed": {"cpu": cpu}}}))
    };
    let claim = |class: Value| spec("v1", "PersistentVolumeClaim", class);
    let job = |parts: Value| spec("batch/v1", "Job", parts);
    let definition = |schema: Value| {
        let version = json!({"name": "v1", "schema": {"openAPIV3Schema": schema}});
        let group = "apiextensions.k8s.io/v1";
        spec(group, "CustomResourceDefinition", json!({"versions": [version]}))
    };
    let properties = |parts: Value| definition(json!({"properties": {"description": parts}}));
    check(vec![
        ("no class", volume(json!({"storageClassName": ""})), volume(json!({})), false),
        (
            "a class is a pointer in a claim",
            claim(json!({"storageClassName": ""})),
            claim(json!({})),
            true,
        ),
        (
            "modes",
            driver(json!({"volumeLifecycleModes": []})),
            driver(json!({"volumeLifecycleModes": ["Persistent"]})),
            false,
        ),
        ("precedence", flow(json!(0)), flow(json!(1000)), false),
        (
            "queues",
            level(json!({"queues": 0, "handSize": 0, "queueLengthLimit": 0})),
            level(json!({"queues": 64, "handSize": 8, "queueLengthLimit": 50})),
            false,
        ),
        ("overhead", class("1000m"), class("1"), false),
        ("another overhead", class("1000m"), class("2"), true),
        (
            "a limit by index",
            job(json!({"backoffLimitPerIndex": 1})),
            job(json!({"backoffLimitPerIndex": 1, "backoffLimit": i32::MAX})),
            false,
        ),
        (
            "what a schema omits",
            properties(
                json!({"description": "", "nullable": false, "required": [], "properties": {}}),
            ),
            properties(json!({})),
            false,
        ),
        ("nullable", properties(json!({"nullable": true})), properties(json!({})), true),
        (
            "another field that is false",
            properties(json!({"additionalProperties": false})),
            properties(json!({})),
            true,
        ),
        ("a default is a value", properties(json!({"default": {}})), properties(json!({})), true),
        (
            "finalizers",
            spec("v1", "Namespace", json!({"finalizers": []})),
            spec("v1", "Namespace", json!({"finalizers": ["kubernetes"]})),
            false,
        ),
    ]);
}

#[test]
fn what_a_service_leaves_to_the_server_is_no_difference() {
    let service = |parts: Value| object("v1", "Service", json!({"spec": parts}));
    let nothing = service(json!({"type": "NodePort", "clusterIP": "", "ipFamilies": [],
        "ipFamilyPolicy": null, "healthCheckNodePort": 0,
        "ports": [{"port": 80, "nodePort": 0}, {"port": 80, "protocol": "UDP", "nodePort": null}]}));
    let live = service(json!({"type": "NodePort", "clusterIP": "10.0.0.7", "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack", "healthCheckNodePort": 30003, "ports": [
            {"port": 80, "protocol": "TCP", "targetPort": 80, "nodePort": 30001},
            {"port": 80, "protocol": "UDP", "targetPort": 80, "nodePort": 30002}]}));
    let by_us = json!([{"manager": DEFAULT_MANAGER, "operation": "Apply", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:clusterIP": {}, "f:healthCheckNodePort": {}}}}]);
    let owned = with(&live, json!({"metadata": {"managedFields": by_us}}));
    let applied = applied_by_kubectl(live.clone(), &nothing);
    check(vec![
        ("never applied", nothing.clone(), live.clone(), false),
        ("applied by a client", nothing.clone(), applied, false),
        ("applied by the server", nothing.clone(), owned, false),
        ("another address", service(json!({"clusterIP": "10.0.0.8"})), live, true),
        ("no address", nothing, service(json!({"type": "NodePort", "ports": []})), true),
    ]);
}

/// Name, target, live, whether it is a difference.
fn check(rows: Vec<(&str, Value, Value, bool)>) {
    for (name, target, live, want) in rows {
        let found = compare(Some(&target), Some(&live), &DiffConfig::default());
        assert_eq!(found.modified, want, "{name}: {:?}", found.changes);
        // What a comparison sees stays when it is seen again.
        let once = normalized_object(&target, &DiffConfig::default());
        assert_eq!(normalized_object(&once, &DiffConfig::default()), once, "{name}");
    }
}

/// SE-168: the selector of a ReplicationController follows its template, and a Job has the counts of
/// the API server.
#[test]
fn what_the_api_server_fills_in_for_a_kind_is_no_difference() {
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {}});
    let controller = |spec: Value| {
        let base = json!({"spec": {"template": template}});
        object("v1", "ReplicationController", with(&base, json!({ "spec": spec })))
    };
    let selector = |name: &str| json!({"replicas": 1, "selector": {"app": name}});
    assert!(!modified(&controller(json!({})), &controller(selector("web"))));
    let other = controller(selector("other"));
    assert!(modified(&controller(json!({})), &applied_by_kubectl(other.clone(), &other)));

    let job = |spec: Value| {
        let base = json!({"spec": {"template": {"spec": {"restartPolicy": "Never"}}}});
        object("batch/v1", "Job", with(&base, json!({ "spec": spec })))
    };
    let filled = job(json!({"completions": 1, "parallelism": 1, "backoffLimit": 6}));
    assert!(!modified(&job(json!({})), &applied_by_kubectl(filled.clone(), &filled)));
    let other = job(json!({"completions": 1, "parallelism": 1, "backoffLimit": 5}));
    assert!(modified(&job(json!({})), &applied_by_kubectl(other.clone(), &other)));

    let limits = |more: Value| {
        let limit =
            with(&json!({"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1"}}), more);
        object("v1", "LimitRange", json!({"spec": {"limits": [limit]}}))
    };
    let filled = limits(json!({"default": {"cpu": "2"}, "defaultRequest": {"cpu": "2"}}));
    assert!(!modified(&limits(json!({})), &applied_by_kubectl(filled.clone(), &filled)));
    let other = limits(json!({"default": {"cpu": "1"}, "defaultRequest": {"cpu": "1"}}));
    assert!(modified(&limits(json!({})), &applied_by_kubectl(other.clone(), &other)));
}
