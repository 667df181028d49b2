//! Appendix A.9, row by row.

use super::*;

fn deployment(body: Value) -> Value {
    object("apps/v1", "Deployment", body)
}

fn container(body: Value) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [with(&json!({"name": "main"}), body)]}}}})
}

#[test]
fn rows_of_the_specification() {
    let config_map =
        |labels: Value| object("v1", "ConfigMap", json!({"metadata": {"labels": labels}}));
    let replicas = |n: Value| deployment(json!({"spec": {"replicas": n}}));
    let none = deployment(json!({"spec": {}}));
    let kubectl = applied_by_kubectl;
    let secret = |body| object("v1", "Secret", body);
    let role =
        |rules: Value| object("rbac.authorization.k8s.io/v1", "Role", json!({"rules": rules}));
    let custom = |body| object("example.com/v1", "Widget", body);
    let rollout = |body| object("argoproj.io/v1alpha1", "Rollout", body);
    let service = |body| object("v1", "Service", body);
    let cpu = |cpu: Value| container(json!({"resources": {"limits": {"cpu": cpu}}}));
    let endpoints = |subsets| object("v1", "Endpoints", json!({"subsets": subsets}));

    // Row, target, live, whether it is a difference.
    let rows: Vec<(&str, Value, Value, bool)> = vec![
        (
            "V-240",
            config_map(json!({"a": "1"})),
            kubectl(config_map(json!({"a": "1", "b": "2"})), &config_map(json!({"a": "1"}))),
            false,
        ),
        (
            "V-241",
            config_map(json!({"a": "1"})),
            kubectl(
                config_map(json!({"a": "1", "b": "2"})),
                &config_map(json!({"a": "1", "b": "2"})),
            ),
            true,
        ),
        ("V-242", none.clone(), kubectl(replicas(json!(5)), &replicas(json!(5))), true),
        ("V-243", none.clone(), kubectl(replicas(json!(5)), &none), false),
        ("V-243 never applied", none.clone(), replicas(json!(5)), false),
        ("V-244 Deployment", deployment(cpu(json!("1000m"))), deployment(cpu(json!("1"))), false),
        ("V-244 a number", deployment(cpu(json!(0.5))), deployment(cpu(json!("500m"))), false),
        ("V-244 another amount", deployment(cpu(json!("1"))), deployment(cpu(json!("2"))), true),
        (
            "V-244 plain custom resource",
            custom(json!({"spec": {"cpu": "1000m"}})),
            custom(json!({"spec": {"cpu": "1"}})),
            true,
        ),
        ("V-244 Rollout", rollout(cpu(json!("1000m"))), rollout(cpu(json!("1"))), false),
        (
            "V-245",
            secret(json!({"stringData": {"a": "b"}})),
            secret(json!({"data": {"a": "Yg=="}})),
            false,
        ),
        (
            "V-245 another",
            secret(json!({"stringData": {"a": "c"}})),
            secret(json!({"data": {"a": "Yg=="}})),
            true,
        ),
        (
            "SE-164 stringData wins",
            secret(json!({"data": {"a": "eA=="}, "stringData": {"a": "b"}})),
            secret(json!({"data": {"a": "Yg=="}})),
            false,
        ),
        ("V-246", secret(json!({"data": {"a": null}})), secret(json!({"data": {"a": ""}})), false),
        ("V-247", role(json!([])), role(json!(null)), false),
        ("V-247 the other way", role(json!(null)), role(json!([])), false),
        (
            "V-249",
            custom(json!({"metadata": {"creationTimestamp": null}})),
            custom(json!({"metadata": {"creationTimestamp": "2024-01-01T00:00:00Z"}})),
            false,
        ),
        (
            "SE-161",
            custom(json!({"metadata": {"uid": "a", "resourceVersion": "1", "generation": 1}})),
            custom(json!({"metadata": {"uid": "b", "resourceVersion": "2", "generation": 2}})),
            false,
        ),
        ("V-250", deployment(json!({"spec": {"foo": 1}})), none.clone(), true),
        (
            "V-251 default",
            custom(json!({"status": {"a": 1}})),
            custom(json!({"status": {"a": 2}})),
            false,
        ),
        (
            "V-252",
            deployment(container(json!({"image": "x:latest"}))),
            deployment(container(json!({"image": "x:latest", "imagePullPolicy": "Always"}))),
            false,
        ),
        (
            "V-252 the other way",
            deployment(container(json!({"image": "x:latest", "imagePullPolicy": "Always"}))),
            deployment(container(json!({"image": "x:latest"}))),
            false,
        ),
        (
            "V-253",
            service(json!({"spec": {"ports": [{"port": 80}]}})),
            service(
                json!({"spec": {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "type": "ClusterIP",
                "sessionAffinity": "None", "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]}}),
            ),
            false,
        ),
        ("V-254", custom(json!({})), custom(json!({"metadata": {"namespace": "default"}})), false),
        (
            "V-265",
            endpoints(json!([
                {"addresses": [{"ip": "2"}], "ports": [{"port": 2}]},
                {"addresses": [{"ip": "1"}, {"ip": "0"}], "ports": [{"port": 1}]}])),
            endpoints(json!([
                {"addresses": [{"ip": "0"}, {"ip": "1"}], "ports": [{"port": 1, "protocol": "TCP"}]},
                {"addresses": [{"ip": "2"}], "ports": [{"port": 2, "protocol": "TCP"}]}])),
            false,
        ),
        (
            "V-265 a kind of this name in another group",
            object("example.com/v1", "Endpoints", json!({"subsets": [{"n": 2}, {"n": 1}]})),
            object("example.com/v1", "Endpoints", json!({"subsets": [{"n": 1}, {"n": 2}]})),
            true,
        ),
        ("V-266", custom(json!({"spec": {"n": 1}})), custom(json!({"spec": {"n": 1.0}})), false),
        (
            "V-266 not whole",
            custom(json!({"spec": {"n": 1}})),
            custom(json!({"spec": {"n": 1.5}})),
            true,
        ),
        (
            "V-267",
            object(
                "apps/v1",
                "StatefulSet",
                json!({"spec": {"volumeClaimTemplates": [
                {"metadata": {"name": "d"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}]}}),
            ),
            object(
                "apps/v1",
                "StatefulSet",
                json!({"spec": {"volumeClaimTemplates": [
                {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                 "metadata": {"name": "d", "creationTimestamp": null},
                 "spec": {"resources": {"requests": {"storage": "1024Mi"}}, "volumeMode": "Filesystem",
                    "storageClassName": "fast"},
                 "status": {"phase": "Pending"}}]}}),
            ),
            false,
        ),
        (
            "SE-162 empty against absent in a custom resource",
            custom(json!({"spec": {"a": ""}})),
            custom(json!({"spec": {}})),
            true,
        ),
        (
            "SE-162 null against absent",
            custom(json!({"spec": {"a": null}})),
            custom(json!({"spec": {}})),
            false,
        ),
        (
            "SE-162 null against a value of somebody else",
            custom(json!({"spec": {"a": null}})),
            custom(json!({"spec": {"a": 1}})),
            false,
        ),
        (
            "SE-162 null against a value that was applied",
            custom(json!({"spec": {"a": null}})),
            applied_by_kubectl(
                custom(json!({"spec": {"a": 1}})),
                &custom(json!({"spec": {"a": 1}})),
            ),
            true,
        ),
        (
            "SE-162 null that was applied against a value",
            custom(json!({"spec": {"a": null}})),
            applied_by_kubectl(
                custom(json!({"spec": {"a": 1}})),
                &custom(json!({"spec": {"a": null}})),
            ),
            false,
        ),
        (
            "SE-160 a namespace that the live object does not have",
            custom(json!({"metadata": {"namespace": "n"}})),
            custom(json!({})),
            false,
        ),
        (
            "SE-155 empties that the type omits",
            deployment(container(
                json!({"args": [], "env": [{"name": "E", "value": ""}], "stdin": false, "resources": {}}),
            )),
            deployment(container(json!({"env": [{"name": "E"}]}))),
            false,
        ),
        (
            "SE-155 a pointer is not omitted",
            object("v1", "PersistentVolumeClaim", json!({"spec": {"storageClassName": ""}})),
            object("v1", "PersistentVolumeClaim", json!({"spec": {}})),
            true,
        ),
        (
            "an empty selector differs from an absent one",
            object(
                "networking.k8s.io/v1",
                "NetworkPolicy",
                json!({"spec": {"ingress": [{"from": [{"namespaceSelector": {}}]}]}}),
            ),
            object(
                "networking.k8s.io/v1",
                "NetworkPolicy",
                json!({"spec": {"ingress": [{"from": [{}]}]}}),
            ),
            true,
        ),
        (
            "B.1 a changed argument list",
            deployment(container(json!({"args": ["a"]}))),
            deployment(container(json!({"args": ["a", "b"]}))),
            true,
        ),
        (
            "B.1 an injected sidecar",
            deployment(container(json!({"image": "i"}))),
            deployment(json!({"spec": {"template": {"spec": {"containers": [
                {"name": "proxy", "image": "p"}, {"name": "main", "image": "i"}]}}}})),
            false,
        ),
        (
            "B.1 one port number, two protocols",
            deployment(container(
                json!({"ports": [{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP"}]}),
            )),
            deployment(container(json!({"ports": [
                {"containerPort": 53, "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP"}]}))),
            false,
        ),
        (
            "B.1 a duplicate port is kept",
            deployment(container(json!({"ports": [{"containerPort": 53}, {"containerPort": 53}]}))),
            deployment(container(json!({"ports": [{"containerPort": 53, "protocol": "TCP"}]}))),
            true,
        ),
        (
            "B.1 retain keys",
            deployment(json!({"spec": {"strategy": {"type": "Recreate"}}})),
            deployment(
                json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}),
            ),
            true,
        ),
        (
            "B.1 a budget's selector is replaced",
            object(
                "policy/v1",
                "PodDisruptionBudget",
                json!({"spec": {"selector": {"matchLabels": {"a": "1"}}}}),
            ),
            object(
                "policy/v1",
                "PodDisruptionBudget",
                json!({"spec": {"selector": {"matchLabels": {"a": "1", "b": "2"}}}}),
            ),
            true,
        ),
        (
            "init containers run in their order",
            deployment(
                json!({"spec": {"template": {"spec": {"initContainers": [{"name": "a"}, {"name": "b"}]}}}}),
            ),
            deployment(
                json!({"spec": {"template": {"spec": {"initContainers": [{"name": "b"}, {"name": "a"}]}}}}),
            ),
            true,
        ),
        (
            "SE-153 lists of custom resources keep defaults of the schema",
            custom(json!({"spec": {"routes": [{"path": "/"}]}})),
            custom(json!({"spec": {"routes": [{"path": "/", "weight": 1}]}})),
            false,
        ),
        (
            "SE-153 an additional element is a difference",
            custom(json!({"spec": {"routes": [{"path": "/"}]}})),
            custom(json!({"spec": {"routes": [{"path": "/"}, {"path": "/x"}]}})),
            true,
        ),
    ];
    for (row, target, live, want) in rows {
        let found = compare(Some(&target), Some(&live), &DiffConfig::default());
        assert_eq!(found.modified, want, "{row}: {:?}", found.changes);
        assert_eq!(
            found.modified,
            !found.changes.is_empty(),
            "{row}: changes list the differences"
        );
    }
}

#[test]
fn aggregated_rules_are_compared_and_status_is_not() {
    let role = |verb: &str| {
        object(
            "rbac.authorization.k8s.io/v1",
            "ClusterRole",
            json!({
            "aggregationRule": {"clusterRoleSelectors": []}, "rules": [{"verbs": [verb]}]}),
        )
    };
    assert!(modified(&role("get"), &role("list")), "V-248");

    let custom = |n| object("example.com/v1", "Widget", json!({"status": {"n": n}}));
    let crd = |n| {
        object("apiextensions.k8s.io/v1", "CustomResourceDefinition", json!({"status": {"n": n}}))
    };
    assert!(!modified(&custom(1), &custom(2)), "V-251");
    assert!(!modified(&crd(1), &crd(2)), "SE-163");

    let certificate = |body| object("cert-manager.io/v1", "Certificate", json!({"spec": body}));
    let target = certificate(json!({"duration": "90m"}));
    let live = certificate(json!({"duration": "1h30m0s"}));
    assert!(modified(&target, &live), "SE-168 a field of an unknown type");
}

#[test]
fn one_side_only() {
    let object = object("v1", "ConfigMap", json!({"data": {"a": "b"}}));
    let config = DiffConfig::default();
    let status = |target: Option<&Value>, live: Option<&Value>| {
        let comparison = compare(target, live, &config);
        let resource = ResourceState::new(target, live, Some(comparison.modified));
        (comparison.modified, resource.status(), resource.requires_pruning())
    };
    let out_of_sync = Some(SyncStatus::OutOfSync);
    assert_eq!(status(Some(&object), None), (true, out_of_sync, false), "V-268 target only");
    assert_eq!(status(None, Some(&object)), (false, out_of_sync, true), "V-268 live only");
    assert_eq!(status(Some(&object), Some(&object)), (false, Some(SyncStatus::Synced), false));
    assert_eq!(status(None, None), (false, Some(SyncStatus::Synced), false));
}

#[test]
fn status_of_resources_and_applications() {
    let plain = object("v1", "ConfigMap", json!({}));
    let extraneous = with(
        &plain,
        json!({"metadata": {"annotations": {"argocd.argoproj.io/compare-options": "IgnoreExtraneous"}}}),
    );
    let same = ResourceState::new(Some(&plain), Some(&plain), Some(false));
    let differs = ResourceState { modified: Some(true), ..same };
    let surplus = ResourceState::new(None, Some(&extraneous), Some(false));
    assert_eq!(surplus.status(), Some(SyncStatus::OutOfSync), "V-264 resource");

    let missing_namespace = ResourceState {
        managed_namespace: true,
        ..ResourceState::new(Some(&plain), None, Some(true))
    };
    let foreign = ResourceState { self_referenced: false, ..differs };
    let forbidden = ResourceState { permitted: false, ..differs };
    let hook = ResourceState { hook: true, ..differs };
    let unread = ResourceState { modified: None, ..same };
    assert_eq!(missing_namespace.status(), Some(SyncStatus::Synced), "SE-145");
    assert_eq!(hook.status(), None, "SE-145");
    assert_eq!(foreign.status(), None, "SE-116");
    assert_eq!(forbidden.status(), Some(SyncStatus::Unknown), "SE-146");
    assert!(!ResourceState { target: None, ..hook }.requires_pruning(), "SE-149");
    assert!(!ResourceState { target: None, ..foreign }.requires_pruning(), "SE-149");

    let plainly = SyncStatusInput::default();
    let rows: [(&str, Vec<ResourceState<'_>>, SyncStatusInput, SyncStatus); 9] = [
        ("V-264 app", vec![same, surplus], plainly, SyncStatus::Synced),
        ("SE-147", vec![same, differs], plainly, SyncStatus::OutOfSync),
        ("SE-148", vec![], plainly, SyncStatus::Synced),
        ("SE-145 hooks are ignored", vec![hook, foreign], plainly, SyncStatus::Synced),
        ("SE-146 forbidden", vec![same, forbidden], plainly, SyncStatus::OutOfSync),
        ("SE-146 not compared", vec![differs, unread], plainly, SyncStatus::Unknown),
        (
            "SE-146 failed",
            vec![same],
            SyncStatusInput { failed: true, ..plainly },
            SyncStatus::Unknown,
        ),
        (
            "SE-147 namespace metadata",
            vec![same],
            SyncStatusInput { namespace_metadata_changed: true, ..plainly },
            SyncStatus::OutOfSync,
        ),
        (
            "SE-147 to be pruned",
            vec![ResourceState::new(None, Some(&plain), Some(false))],
            plainly,
            SyncStatus::OutOfSync,
        ),
    ];
    for (row, resources, circumstances, want) in rows {
        assert_eq!(of_application(&resources, circumstances), want, "{row}");
    }
}

#[test]
fn values_of_secrets_are_never_shown() {
    let secret = |data: Value| object("v1", "Secret", json!({"data": data}));
    let target = object(
        "v1",
        "Secret",
        json!({"stringData": {"password": "hunter2", "same": "equal", "odd": 12345}}),
    );
    let live = applied_by_kubectl(
        secret(json!({"password": "b2xkLXBhc3M=", "same": "ZXF1YWw=", "gone": "bGVmdG92ZXI="})),
        &secret(json!({"password": "b2xkLXBhc3M=", "gone": "bGVmdG92ZXI="})),
    );
    let comparison = compare(Some(&target), Some(&live), &DiffConfig::default());
    assert!(comparison.modified);
    let paths: Vec<&str> = comparison.changes.iter().map(|change| change.path.as_str()).collect();
    assert_eq!(paths, ["/data/gone", "/data/odd", "/data/password"]);
    assert_eq!(comparison.live["data"]["password"], "++++++++");
    assert_eq!(comparison.predicted["data"]["password"], "++++++++++++");
    assert_eq!(comparison.live["data"]["same"], comparison.predicted["data"]["same"]);
    let shown = format!("{comparison:?}{}", unified_diff(&comparison, false));
    for value in
        ["hunter2", "aHVudGVyMg==", "b2xkLXBhc3M=", "ZXF1YWw=", "equal", "bGVmdG92ZXI=", "12345"]
    {
        assert!(!shown.contains(value), "{value} is shown");
    }

    let broken = object("v1", "Secret", json!({"data": "hunter2"}));
    let comparison = compare(Some(&broken), Some(&live), &DiffConfig::default());
    assert!(!format!("{comparison:?}").contains("hunter2"), "data that is not an object");
}

#[test]
fn a_unified_diff_shows_the_difference() {
    let live = object("v1", "ConfigMap", json!({"data": {"a": "1", "b": "2"}}));
    let target = object("v1", "ConfigMap", json!({"data": {"a": "1", "b": "3"}}));
    let comparison = compare(Some(&target), Some(&live), &DiffConfig::default());
    let want = "\
--- live
+++ desired
@@ -2,7 +2,7 @@
   \"apiVersion\": \"v1\",
   \"data\": {
     \"a\": \"1\",
-    \"b\": \"2\"
+    \"b\": \"3\"
   },
   \"kind\": \"ConfigMap\",
   \"metadata\": {
";
    assert_eq!(unified_diff(&comparison, false), want);
    assert!(unified_diff(&comparison, true).contains("\u{1b}[31m-    \"b\": \"2\"\u{1b}[0m\n"));
    let same = compare(Some(&live), Some(&live), &DiffConfig::default());
    assert_eq!(unified_diff(&same, true), "");
    assert_eq!(
        comparison.changes,
        [ValueChange { path: "/data/b".to_owned(), from: Some(json!("2")), to: Some(json!("3")) }]
    );
}

#[test]
fn custom_resources_with_a_definition_are_compared_exactly() {
    let schema = json!({"properties": {"spec": {"properties": {
                "mode": {"default": "auto"},
                "limit": {"properties": {"n": {"default": 1}}},
                "selector": {"x-kubernetes-map-type": "atomic", "additionalProperties": {}},
                "steps": {"items": {"properties": {"run": {}, "shell": {"default": "sh"}}}},
                "tags": {"x-kubernetes-list-type": "set", "items": {}},
                "ports": {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
                    "items": {"properties": {"port": {}, "protocol": {"default": "TCP"}, "name": {}}}},
    }}}});
    let widgets = wavegate_api::kind::GroupVersionKind::new("example.com", "v1", "Widget");
    let schemas = Schemas::of_kinds([(widgets, std::sync::Arc::new(schema))]);
    let config = DiffConfig { schemas: std::sync::Arc::new(schemas), ..DiffConfig::default() };
    let structured = DiffConfig { server_side_apply: true, ..config.clone() };
    let widget = |spec| object("example.com/v1", "Widget", json!({"spec": spec}));
    let rows = [
        ("a default", json!({}), json!({"mode": "auto"}), false),
        ("no default below what is absent", json!({}), json!({"limit": {"n": 2}}), false),
        (
            "an explicit default",
            json!({"mode": "auto", "limit": {"n": 1}}),
            json!({"limit": {}}),
            false,
        ),
        (
            "a default in a list",
            json!({"steps": [{"run": "x"}]}),
            json!({"steps": [{"run": "x", "shell": "sh"}]}),
            false,
        ),
        (
            "no default in a list",
            json!({"steps": [{"run": "x"}]}),
            json!({"steps": [{"run": "x", "shell": "zsh"}]}),
            true,
        ),
        (
            "an atomic object",
            json!({"selector": {"a": "1"}}),
            json!({"selector": {"a": "1", "b": "2"}}),
            true,
        ),
        ("a set", json!({"tags": ["a", "b"]}), json!({"tags": ["z", "b", "a"]}), false),
        (
            "a key's default",
            json!({"ports": [{"port": 1}, {"port": 1, "protocol": "UDP"}]}),
            json!({"ports": [{"port": 1, "protocol": "UDP"}, {"port": 1, "protocol": "TCP"}]}),
            false,
        ),
        (
            "an element's field",
            json!({"ports": [{"port": 1, "name": "a"}]}),
            json!({"ports": [{"port": 2, "protocol": "TCP"}, {"port": 1, "protocol": "TCP", "name": "b"}]}),
            true,
        ),
    ];
    for (name, target, live, want) in rows {
        let (target, live) = (widget(target), widget(live));
        let comparison = compare(Some(&target), Some(&live), &structured);
        assert_eq!(comparison.modified, want, "SE-605 {name}: {:?}", comparison.changes);
        // SE-153: applied client-side, what is atomic for the server keeps what only live has.
        let lenient = ["no default in a list", "an atomic object"].contains(&name);
        let comparison = compare(Some(&target), Some(&live), &config);
        assert_eq!(
            comparison.modified,
            want && !lenient,
            "SE-153 {name}: {:?}",
            comparison.changes
        );
    }
    let exact = normalized_object(&widget(json!({"ports": [{"port": 1}]})), &config);
    assert_eq!(exact["spec"], json!({"mode": "auto", "ports": [{"port": 1, "protocol": "TCP"}]}));
}

#[test]
fn an_explicit_empty_value_resets_a_field() {
    let pod = |spec: Value| {
        deployment(json!({"spec": {"template": {"spec": spec}, "paused": spec["hostNetwork"]}}))
    };
    let rows = [
        (
            "false against true",
            pod(json!({"hostNetwork": false})),
            pod(json!({"hostNetwork": true})),
            true,
        ),
        ("false against absent", pod(json!({"hostNetwork": false})), pod(json!({})), false),
        (
            "an empty list",
            deployment(container(json!({"args": []}))),
            deployment(container(json!({"args": ["x"]}))),
            true,
        ),
        (
            "an empty role",
            object("rbac.authorization.k8s.io/v1", "Role", json!({"rules": []})),
            object("rbac.authorization.k8s.io/v1", "Role", json!({"rules": [{"verbs": ["*"]}]})),
            true,
        ),
        (
            "an empty object has no effect",
            deployment(container(json!({"resources": {}}))),
            deployment(container(json!({"resources": {"limits": {"cpu": "1"}}}))),
            false,
        ),
    ];
    for (name, target, live, want) in rows {
        assert_eq!(modified(&target, &live), want, "{name}");
    }
}
