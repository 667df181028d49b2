//! Objects that our field manager applied server-side: live objects have defaults, no
//! last-applied configuration, and managed fields.

use super::*;

/// The applied object.
fn target() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "web",
            "labels": {"app": "web"},
            "annotations": {"argocd.argoproj.io/tracking-id": "app:apps/Deployment:default/web"},
        },
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}, "creationTimestamp": null},
                "spec": {
                    "nodeSelector": {"disk": "ssd", "zone": "a"},
                    "tolerations": [{"key": "gpu", "operator": "Exists"}],
                    "containers": [{
                        "name": "main", "image": "registry.example.com/web:1.2",
                        "args": ["--port", "80"],
                        "env": [
                            {"name": "A", "value": "1"},
                            {"name": "EMPTY", "value": ""},
                            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                        ],
                        "ports": [{"containerPort": 80}],
                        "resources": {"limits": {"cpu": 1, "memory": "1024Mi"}},
                        "readinessProbe": {"httpGet": {"path": "/", "port": 80}, "initialDelaySeconds": 0},
                    }],
                    "volumes": [{"name": "config", "configMap": {"name": "web"}}],
                },
            },
        },
    })
}

/// The live object that a server returns for it.
fn live() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "web", "namespace": "default",
            "uid": "5d5c7d0e-0000-0000-0000-000000000000", "resourceVersion": "12", "generation": 1,
            "creationTimestamp": "2024-01-01T00:00:00Z",
            "labels": {"app": "web"},
            "annotations": {
                "argocd.argoproj.io/tracking-id": "app:apps/Deployment:default/web",
                "deployment.kubernetes.io/revision": "1",
            },
            "managedFields": [
                {"manager": "argocd-controller", "operation": "Apply", "apiVersion": "apps/v1",
                 "fieldsType": "FieldsV1", "fieldsV1": owned()},
                {"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "apps/v1",
                 "fieldsType": "FieldsV1", "fieldsV1": {
                    "f:metadata": {"f:annotations": {".": {}, "f:deployment.kubernetes.io/revision": {}}},
                    "f:status": {"f:observedGeneration": {}}}},
            ],
        },
        "spec": {
            "replicas": 2, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}, "creationTimestamp": null},
                "spec": {
                    "nodeSelector": {"disk": "ssd", "zone": "a"},
                    "tolerations": [{"key": "gpu", "operator": "Exists"}],
                    "containers": [{
                        "name": "main", "image": "registry.example.com/web:1.2",
                        "imagePullPolicy": "IfNotPresent",
                        "args": ["--port", "80"],
                        "env": [
                            {"name": "A", "value": "1"},
                            {"name": "EMPTY"},
                            {"name": "NODE", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}},
                        ],
                        "ports": [{"containerPort": 80, "protocol": "TCP"}],
                        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
                        "readinessProbe": {"httpGet": {"path": "/", "port": 80, "scheme": "HTTP"},
                            "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
                        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                    }],
                    "volumes": [{"name": "config", "configMap": {"name": "web", "defaultMode": 420}}],
                    "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
                    "terminationGracePeriodSeconds": 30, "securityContext": {},
                },
            },
        },
        "status": {"observedGeneration": 1},
    })
}

/// The fields that we own, in the server's format.
fn owned() -> Value {
    json!({
        "f:metadata": {
            "f:annotations": {"f:argocd.argoproj.io/tracking-id": {}},
            "f:labels": {"f:app": {}},
        },
        "f:spec": {
            "f:replicas": {},
            "f:selector": {},
            "f:template": {
                "f:metadata": {"f:creationTimestamp": {}, "f:labels": {"f:app": {}}},
                "f:spec": {
                    "f:nodeSelector": {},
                    "f:tolerations": {},
                    "f:containers": {"k:{\"name\":\"main\"}": {
                        ".": {}, "f:name": {}, "f:image": {}, "f:args": {},
                        "f:env": {
                            "k:{\"name\":\"A\"}": {".": {}, "f:name": {}, "f:value": {}},
                            "k:{\"name\":\"EMPTY\"}": {".": {}, "f:name": {}, "f:value": {}},
                            "k:{\"name\":\"NODE\"}": {".": {}, "f:name": {}, "f:valueFrom": {"f:fieldRef": {}}},
                        },
                        "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}},
                        "f:resources": {"f:limits": {"f:cpu": {}, "f:memory": {}}},
                        "f:readinessProbe": {"f:httpGet": {"f:path": {}, "f:port": {}}, "f:initialDelaySeconds": {}},
                    }},
                    "f:volumes": {"k:{\"name\":\"config\"}": {".": {}, "f:name": {}, "f:configMap": {"f:name": {}}}},
                },
            },
        },
    })
}

/// The pointers of the differences.
fn paths(target: &Value, live: &Value) -> Vec<String> {
    let comparison = compare(Some(target), Some(live), &DiffConfig::default());
    assert_eq!(comparison.modified, !comparison.changes.is_empty());
    comparison.changes.into_iter().map(|change| change.path).collect()
}

/// The target without the field at a pointer.
fn without(pointer: &str) -> Value {
    let mut target = target();
    let place = path::locate(&target, &path::parse_pointer(pointer).unwrap().tokens).unwrap();
    path::remove_all(&mut target, vec![place]);
    target
}

#[test]
fn an_applied_object_is_synced() {
    let comparison = compare(Some(&target()), Some(&live()), &DiffConfig::default());
    assert_eq!(comparison.strategy, DiffStrategy::Structured);
    assert_eq!(comparison.changes, []);
    assert!(!comparison.modified);
    assert_eq!(comparison.predicted, comparison.live);
    let mut spelled_out = live();
    spelled_out["metadata"].as_object_mut().unwrap().remove("managedFields");
    assert_eq!(paths(&spelled_out, &live()), [""; 0], "an exported object can be the source");
}

#[test]
fn an_owned_field_that_left_the_source_is_a_difference() {
    const POD: &str = "/spec/template/spec";
    const MAIN: &str = "/spec/template/spec/containers/0";
    // Removed fields, and the resulting differences.
    let rows: Vec<(String, Vec<String>)> = vec![
        ("/metadata/labels".into(), vec!["/metadata/labels".into()]),
        ("/metadata/labels/app".into(), vec!["/metadata/labels".into()]),
        (
            "/metadata/annotations".into(),
            vec!["/metadata/annotations/argocd.argoproj.io~1tracking-id".into()],
        ),
        ("/spec/replicas".into(), vec!["/spec/replicas".into()]),
        (format!("{MAIN}/args"), vec![format!("{MAIN}/args")]),
        (format!("{MAIN}/args/1"), vec![format!("{MAIN}/args/1")]),
        (format!("{MAIN}/env/0"), vec![format!("{MAIN}/env/0")]),
        (format!("{MAIN}/env/0/value"), vec![format!("{MAIN}/env/0/value")]),
        (format!("{MAIN}/env"), vec![format!("{MAIN}/env")]),
        (format!("{MAIN}/ports"), vec![format!("{MAIN}/ports")]),
        (format!("{MAIN}/resources"), vec![format!("{MAIN}/resources")]),
        (format!("{MAIN}/resources/limits/cpu"), vec![format!("{MAIN}/resources/limits/cpu")]),
        (format!("{POD}/nodeSelector/zone"), vec![format!("{POD}/nodeSelector/zone")]),
        (format!("{POD}/nodeSelector"), vec![format!("{POD}/nodeSelector")]),
        (format!("{POD}/tolerations/0/operator"), vec![format!("{POD}/tolerations/0/operator")]),
        (format!("{POD}/tolerations"), vec![format!("{POD}/tolerations")]),
        (format!("{POD}/volumes"), vec![format!("{POD}/volumes")]),
        (format!("{POD}/containers/0"), vec![format!("{POD}/containers")]),
        ("/spec/selector/matchLabels/app".into(), vec!["/spec/selector/matchLabels".into()]),
        // Values that Go omits and defaults of the server are not differences.
        (format!("{MAIN}/readinessProbe/initialDelaySeconds"), vec![]),
        (format!("{MAIN}/env/1/value"), vec![]),
        ("/spec/template/metadata/creationTimestamp".into(), vec![]),
    ];
    for (removed, want) in rows {
        assert_eq!(paths(&without(&removed), &live()), want, "without {removed}");
    }
}

#[test]
fn changed_fields_are_differences() {
    let container = |over: Value| {
        let mut target = target();
        overlay(&mut target["spec"]["template"]["spec"]["containers"][0], over);
        target
    };
    const MAIN: &str = "/spec/template/spec/containers/0";
    let rows = [
        (with(&target(), json!({"spec": {"replicas": 3}})), "/spec/replicas".to_owned()),
        (container(json!({"image": "registry.example.com/web:1.3"})), format!("{MAIN}/image")),
        (container(json!({"args": ["--port", "81"]})), format!("{MAIN}/args/1")),
        (
            container(json!({"resources": {"limits": {"cpu": "2"}}})),
            format!("{MAIN}/resources/limits/cpu"),
        ),
        (container(json!({"imagePullPolicy": "Always"})), format!("{MAIN}/imagePullPolicy")),
        (container(json!({"tpyo": true})), format!("{MAIN}/tpyo")),
        (
            with(&target(), json!({"metadata": {"labels": {"new": "1"}}})),
            "/metadata/labels/new".to_owned(),
        ),
    ];
    for (target, want) in rows {
        assert_eq!(paths(&target, &live()), [want]);
    }
    // Drift in the cluster, in an owned field.
    let scaled = with(&live(), json!({"spec": {"replicas": 5}}));
    assert_eq!(paths(&target(), &scaled), ["/spec/replicas"]);
    // And in a field that was never applied.
    let tuned = with(&live(), json!({"spec": {"revisionHistoryLimit": 3}}));
    assert_eq!(paths(&target(), &tuned), [""; 0]);
}

#[test]
fn defaults_of_the_server_are_not_differences() {
    let one = with(&live(), json!({"spec": {"replicas": 1}}));
    assert_eq!(paths(&without("/spec/replicas"), &one), [""; 0], "1 is the default");
}

#[test]
fn fields_with_other_owners_are_kept() {
    let mut shared = live();
    let entries = shared["metadata"]["managedFields"].as_array_mut().unwrap();
    entries.push(json!({"manager": "kubectl", "operation": "Apply", "fieldsV1": {
        "f:metadata": {"f:labels": {"f:app": {}}},
        "f:spec": {"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"main\"}": {
            "f:env": {"k:{\"name\":\"A\"}": {".": {}, "f:name": {}, "f:value": {}}}}}}}},
    }}));
    const MAIN: &str = "/spec/template/spec/containers/0";
    assert_eq!(paths(&without("/metadata/labels/app"), &shared), [""; 0]);
    assert_eq!(paths(&without(&format!("{MAIN}/env/0")), &shared), [""; 0]);
    // Only the list elements of the other manager are kept.
    assert_eq!(
        paths(&without(&format!("{MAIN}/env")), &shared),
        [format!("{MAIN}/env/1"), format!("{MAIN}/env/2")]
    );
}

#[test]
fn the_name_of_our_manager_is_configurable() {
    let config = DiffConfig { manager: "another".to_owned(), ..DiffConfig::default() };
    let target = without("/metadata/labels/app");
    let comparison = compare(Some(&target), Some(&live()), &config);
    assert_eq!(comparison.strategy, DiffStrategy::TwoWay);
    assert!(!comparison.modified, "no field is owned by us");
    let asked = DiffConfig { server_side_apply: true, ..config.clone() };
    let comparison = compare(Some(&target), Some(&live()), &asked);
    assert_eq!(comparison.strategy, DiffStrategy::Structured, "SE-150");
    let options = json!({"metadata": {"annotations": {"argocd.argoproj.io/sync-options": "ServerSideApply=true"}}});
    let comparison = compare(Some(&with(&target, options)), Some(&live()), &config);
    assert_eq!(comparison.strategy, DiffStrategy::Structured, "SE-150 by annotation");
}

#[test]
fn ownership_takes_precedence_over_a_stale_last_applied_configuration() {
    let stale =
        applied_by_kubectl(live(), &with(&target(), json!({"spec": {"minReadySeconds": 5}})));
    let stale = with(&stale, json!({"spec": {"minReadySeconds": 5}}));
    let comparison = compare(Some(&target()), Some(&stale), &DiffConfig::default());
    assert_eq!(comparison.strategy, DiffStrategy::Structured);
    assert_eq!(comparison.changes, [], "the server would not remove it");
}

#[test]
fn ownership_shows_how_lists_of_custom_resources_merge() {
    let target = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"},
        "spec": {
            "ports": [{"port": 1, "name": "one"}, {"port": 2, "name": "two"}],
            "tags": ["a", "b"],
            "steps": [{"run": "x"}],
        },
    });
    let mut live = with(
        &target,
        json!({
            "metadata": {"managedFields": [
                {"manager": "argocd-controller", "operation": "Apply", "fieldsV1": {"f:spec": {
                    "f:ports": {
                        "k:{\"port\":1}": {".": {}, "f:port": {}, "f:name": {}},
                        "k:{\"port\":2}": {".": {}, "f:port": {}, "f:name": {}},
                    },
                    "f:tags": {"v:\"a\"": {}, "v:\"b\"": {}},
                    "f:steps": {},
                }}},
                {"manager": "operator", "operation": "Update", "fieldsV1": {"f:spec": {
                    "f:ports": {"k:{\"port\":9}": {".": {}, "f:port": {}}},
                    "f:tags": {"v:\"b\"": {}, "v:\"z\"": {}},
                    "f:mode": {},
                }}},
            ]},
            "spec": {"mode": "auto"},
        }),
    );
    live["spec"]["ports"] =
        json!([{"port": 9}, {"port": 2, "name": "two"}, {"port": 1, "name": "one", "weight": 5}]);
    live["spec"]["tags"] = json!(["z", "b", "a"]);
    live["spec"]["steps"] = json!([{"run": "x", "shell": "sh"}]);
    assert_eq!(paths(&target, &live), [""; 0], "order, defaults and elements of others");

    let spec = |over: Value| with(&target, json!({"spec": over}));
    let rows = [
        (spec(json!({"ports": [{"port": 1, "name": "one"}]})), "/spec/ports/1"),
        (spec(json!({"ports": [{"port": 1}, {"port": 2, "name": "two"}]})), "/spec/ports/2/name"),
        (spec(json!({"tags": ["b"]})), "/spec/tags/2"),
        (spec(json!({"steps": []})), "/spec/steps/0"),
        (spec(json!({"steps": [{"run": "y"}]})), "/spec/steps/0/run"),
        (spec(json!({"tags": ["a", "b", "c"]})), "/spec/tags/3"),
    ];
    for (target, want) in rows {
        assert_eq!(paths(&target, &live), [want]);
    }
    assert_eq!(
        paths(&spec(json!({"tags": ["a"]})), &live),
        [""; 0],
        "b is also owned by the operator"
    );
    let mut dropped = target.clone();
    dropped["spec"].as_object_mut().unwrap().remove("ports");
    assert_eq!(paths(&dropped, &live), ["/spec/ports/1", "/spec/ports/2"]);
}

#[test]
fn built_in_kinds_as_returned_by_a_server() {
    let applied = |target: &Value, fields: Value, over: Value| {
        let ours =
            json!({"manager": "argocd-controller", "operation": "Apply", "fieldsV1": fields});
        with(
            &with(target, over),
            json!({"metadata": {"managedFields": [ours], "namespace": "default"}}),
        )
    };
    let service = object(
        "v1",
        "Service",
        json!({"spec": {
        "selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]}}),
    );
    let fields = json!({"f:spec": {"f:selector": {},
        "f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}, "f:targetPort": {}}}}});
    let live = applied(
        &service,
        fields,
        json!({"spec": {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
        "type": "ClusterIP", "sessionAffinity": "None",
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": "http"}]}}),
    );
    assert_eq!(paths(&service, &live), [""; 0]);
    let mut changed = service.clone();
    changed["spec"]["ports"][0]["port"] = json!(81);
    assert_eq!(paths(&changed, &live), ["/spec/ports/0/port"]);
    changed["spec"]["ports"][0]["port"] = json!(80);
    changed["spec"]["selector"] = json!({});
    assert!(!paths(&changed, &live).is_empty(), "an emptied selector");

    let binding = object(
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        json!({
        "roleRef": {"kind": "Role", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": "s", "namespace": "default", "apiGroup": ""},
            {"kind": "Group", "name": "g"}]}),
    );
    let live = applied(
        &binding,
        json!({"f:roleRef": {}, "f:subjects": {}}),
        json!({
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": "s", "namespace": "default"},
            {"kind": "Group", "name": "g", "apiGroup": "rbac.authorization.k8s.io"}]}),
    );
    assert_eq!(paths(&binding, &live), [""; 0]);
    assert_eq!(paths(&with(&binding, json!({"subjects": []})), &live), ["/subjects"]);

    let policy = object(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        json!({"spec": {
        "podSelector": {}, "ingress": [{"ports": [{"port": 80}]}]}}),
    );
    let live = applied(
        &policy,
        json!({"f:spec": {"f:podSelector": {}, "f:ingress": {}}}),
        json!({"spec": {
        "policyTypes": ["Ingress"], "ingress": [{"ports": [{"port": 80, "protocol": "TCP"}]}]}}),
    );
    assert_eq!(paths(&policy, &live), [""; 0]);
    let mut open = policy.clone();
    open["spec"]["ingress"][0].as_object_mut().unwrap().remove("ports");
    assert!(!paths(&open, &live).is_empty(), "a rule without its ports");

    let secret = object("v1", "Secret", json!({"stringData": {"a": "b"}}));
    let live = applied(
        &object("v1", "Secret", json!({"data": {"a": "Yg=="}, "type": "Opaque"})),
        json!({"f:stringData": {"f:a": {}}}),
        json!({}),
    );
    assert_eq!(paths(&secret, &live), [""; 0]);

    // A null value is an empty one. The server owns the field or, as it merges before it decodes,
    // does not.
    let secret = object("v1", "Secret", json!({"data": {"a": null, "b": "Yg=="}}));
    for fields in [json!({"f:a": {}, "f:b": {}}), json!({"f:b": {}})] {
        let stored = object("v1", "Secret", json!({"data": {"a": "", "b": "Yg=="}}));
        let live = applied(&stored, json!({"f:data": fields}), json!({"type": "Opaque"}));
        assert_eq!(paths(&secret, &live), [""; 0]);
    }
}
