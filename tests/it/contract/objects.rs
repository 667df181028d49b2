//! Single objects: create, read, replace, subresources.

use http::Method;
use kube::Client;
use serde_json::{Value, json};

use super::support::*;

pub async fn objects_are_created_read_replaced_and_deleted(client: Client, namespace: &str) {
    let all = config_maps(namespace);
    let one = format!("{all}/a");
    let created = post(&client, &all, &config_map("a")).await.ok(201);
    assert!(!uid(&created).is_empty());
    assert!(created["metadata"]["creationTimestamp"].is_string());
    assert_eq!(created["metadata"]["namespace"], namespace);
    assert!(created["metadata"]["managedFields"].is_array());
    let refusal = post(&client, &all, &config_map("a")).await.refused(409, "AlreadyExists");
    assert_eq!(refusal["details"], json!({"name": "a", "kind": "configmaps"}));

    let read = get(&client, &one).await.ok(200);
    assert_eq!(read, created);
    let mut changed = read.clone();
    changed["data"]["a"] = json!("2");
    let replaced = put(&client, &one, &changed).await.ok(200);
    assert_eq!(replaced["data"], json!({"a": "2"}));
    assert_eq!(uid(&replaced), uid(&created));
    assert!(version(&replaced).parse::<u64>().unwrap() > version(&created).parse::<u64>().unwrap());

    let deleted = delete(&client, &one, &json!({})).await.ok(200);
    assert_eq!(deleted["status"], "Success");
    assert_eq!(deleted["details"]["name"], "a");
    assert_eq!(deleted["details"]["kind"], "configmaps");
    assert_eq!(deleted["details"]["uid"], created["metadata"]["uid"]);
    let refusal = get(&client, &one).await.refused(404, "NotFound");
    assert_eq!(refusal["message"], "configmaps \"a\" not found");
    assert_eq!(refusal["details"], json!({"name": "a", "kind": "configmaps"}));
    put(&client, &one, &config_map("a")).await.refused(404, "NotFound");
    delete(&client, &one, &json!({})).await.refused(404, "NotFound");
    let refusal =
        get(&client, &format!("{}/a", deployments(namespace))).await.refused(404, "NotFound");
    assert_eq!(refusal["message"], "deployments.apps \"a\" not found");
    assert_eq!(refusal["details"], json!({"name": "a", "group": "apps", "kind": "deployments"}));
}

pub async fn names_are_checked_and_generated(client: Client, namespace: &str) {
    let all = config_maps(namespace);
    for bad in ["Upper", "under_score", "-dash", "dot."] {
        let refusal = post(&client, &all, &config_map(bad)).await.refused(422, "Invalid");
        assert!(names_field(&refusal, "metadata.name"), "{refusal}");
        assert_eq!(refusal["details"]["kind"], "ConfigMap");
    }
    let mut object = config_map("");
    object["metadata"] = json!({});
    let refusal = post(&client, &all, &object).await.refused(422, "Invalid");
    assert!(names_field(&refusal, "metadata.name"), "{refusal}");
    object["metadata"] = json!({"generateName": "made-"});
    let first = post(&client, &all, &object).await.ok(201);
    let second = post(&client, &all, &object).await.ok(201);
    let name = |v: &serde_json::Value| v["metadata"]["name"].as_str().unwrap().to_owned();
    assert!(name(&first).starts_with("made-") && name(&first).len() == "made-".len() + 5);
    assert_ne!(name(&first), name(&second));
    let mut bad_label = config_map("labelled");
    bad_label["metadata"]["labels"] = json!({"a": "not a label"});
    let refusal = post(&client, &all, &bad_label).await.refused(422, "Invalid");
    assert!(names_field(&refusal, "metadata.labels"), "{refusal}");
}

pub async fn bodies_must_fit_their_url(client: Client, namespace: &str) {
    let all = config_maps(namespace);
    let mut elsewhere = config_map("a");
    elsewhere["metadata"]["namespace"] = json!("elsewhere");
    post(&client, &all, &elsewhere).await.refused(400, "BadRequest");
    let mut secret = config_map("a");
    secret["kind"] = json!("Secret");
    post(&client, &all, &secret).await.refused(400, "BadRequest");
    post(&client, &all, &config_map("a")).await.ok(201);
    put(&client, &format!("{all}/a"), &config_map("b")).await.refused(400, "BadRequest");
    let answer = post(&client, &all, &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"n": 1}})).await;
    answer.refused(400, "BadRequest");
}

pub async fn creation_needs_a_namespace(client: Client, namespace: &str) {
    let absent = format!("{namespace}-absent");
    let refusal =
        post(&client, &config_maps(&absent), &config_map("a")).await.refused(404, "NotFound");
    assert_eq!(refusal["details"], json!({"name": absent, "kind": "namespaces"}));
    // Reading requires none.
    let list = get(&client, &config_maps(&absent)).await.ok(200);
    assert_eq!(list["items"], json!([]));
}

pub async fn a_stale_version_or_another_uid_is_a_conflict(client: Client, namespace: &str) {
    let all = config_maps(namespace);
    let one = format!("{all}/a");
    let first = post(&client, &all, &config_map("a")).await.ok(201);
    let mut changed = first.clone();
    changed["data"]["a"] = json!("2");
    put(&client, &one, &changed).await.ok(200);
    changed["data"]["a"] = json!("3");
    let refusal = put(&client, &one, &changed).await.refused(409, "Conflict");
    assert_eq!(refusal["details"]["name"], "a");
    assert!(
        refusal["message"].as_str().unwrap().contains("the object has been modified"),
        "{refusal}"
    );
    // Without a version, replacing a built-in kind is unconditional.
    let mut blind = config_map("a");
    blind["data"]["a"] = json!("4");
    put(&client, &one, &blind).await.ok(200);
    blind["metadata"]["uid"] = json!("00000000-0000-4000-8000-000000000000");
    blind["data"]["a"] = json!("5");
    put(&client, &one, &blind).await.refused(409, "Conflict");
    assert_eq!(get(&client, &one).await.ok(200)["data"]["a"], "4");
}

pub async fn a_write_without_changes_is_a_no_op(client: Client, namespace: &str) {
    let all = config_maps(namespace);
    let one = format!("{all}/a");
    let first = post(&client, &all, &config_map("a")).await.ok(201);
    let again = put(&client, &one, &first).await.ok(200);
    assert_eq!(version(&again), version(&first));
    let patched = patch(&client, &one, MERGE, &json!({"data": {"a": "1"}})).await.ok(200);
    assert_eq!(version(&patched), version(&first));
    assert_eq!(get(&client, &one).await.ok(200), first);
}

pub async fn dry_runs_store_nothing(client: Client, namespace: &str) {
    let all = config_maps(namespace);
    let one = format!("{all}/a");
    let shown = post(&client, &format!("{all}?dryRun=All"), &config_map("a")).await.ok(201);
    assert_eq!(shown["data"], json!({"a": "1"}));
    assert!(!uid(&shown).is_empty());
    get(&client, &one).await.refused(404, "NotFound");
    let first = post(&client, &all, &config_map("a")).await.ok(201);
    let shown = patch(&client, &format!("{one}?dryRun=All"), MERGE, &json!({"data": {"a": "2"}}))
        .await
        .ok(200);
    assert_eq!(shown["data"]["a"], "2");
    delete(&client, &one, &json!({"dryRun": ["All"]})).await.ok(200);
    send(&client, Method::DELETE, &format!("{one}?dryRun=All"), JSON, JSON, None).await.ok(200);
    assert_eq!(get(&client, &one).await.ok(200), first);
    // With a body, the query is ignored.
    delete(&client, &format!("{one}?dryRun=All"), &json!({})).await.ok(200);
    get(&client, &one).await.refused(404, "NotFound");
    post(&client, &all, &config_map("a")).await.ok(201);
    // A dry run rejects invalid objects, too.
    post(&client, &format!("{all}?dryRun=All"), &config_map("a"))
        .await
        .refused(409, "AlreadyExists");
}

pub async fn generations_count_changes_of_spec(client: Client, namespace: &str) {
    let all = deployments(namespace);
    let one = format!("{all}/web");
    let created = post(&client, &all, &deployment("web")).await.ok(201);
    assert_eq!(created["metadata"]["generation"], 1);
    let labelled =
        patch(&client, &one, MERGE, &json!({"metadata": {"labels": {"a": "b"}}})).await.ok(200);
    assert_eq!(labelled["metadata"]["generation"], 1);
    let changed =
        patch(&client, &one, MERGE, &json!({"spec": {"minReadySeconds": 5}})).await.ok(200);
    assert_eq!(changed["metadata"]["generation"], 2);
    let status = json!({"status": {"conditions": [{"type": "Tested", "status": "True"}]}});
    let reported = patch(&client, &format!("{one}/status"), MERGE, &status).await.ok(200);
    assert_eq!(reported["metadata"]["generation"], 2);
    let map = post(&client, &config_maps(namespace), &config_map("a")).await.ok(201);
    assert!(map["metadata"].get("generation").is_none());
}

pub async fn status_has_a_separate_endpoint(client: Client, namespace: &str) {
    let all = format!("/apis/policy/v1beta1/namespaces/{namespace}/poddisruptionbudgets");
    let newer = format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets");
    let (all, api) = if get(&client, &newer).await.code == 200 {
        (newer, "policy/v1")
    } else {
        (all, "policy/v1beta1")
    };
    let one = format!("{all}/a");
    let object = json!({
        "apiVersion": api, "kind": "PodDisruptionBudget", "metadata": {"name": "a"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "none"}}},
        "status": {"disruptionsAllowed": 77, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0},
    });
    let created = post(&client, &all, &object).await.ok(201);
    assert_ne!(created["status"]["disruptionsAllowed"], 77);
    let both = json!({"spec": {"minAvailable": 3}, "status": {"expectedPods": 41}});
    let main = patch(&client, &one, MERGE, &both).await.ok(200);
    assert_eq!(main["spec"]["minAvailable"], 3);
    assert_ne!(main["status"]["expectedPods"], 41);
    let both = json!({"spec": {"minAvailable": 4}, "status": {"expectedPods": 42}});
    let status = patch(&client, &format!("{one}/status"), MERGE, &both).await.ok(200);
    assert_eq!(status["spec"]["minAvailable"], 3);
    assert_eq!(status["status"]["expectedPods"], 42);
}

pub async fn built_in_kinds_have_defaults(client: Client, namespace: &str) {
    let mut object = deployment("web");
    object["spec"].as_object_mut().unwrap().remove("replicas");
    object["metadata"]["name"] = json!("defaults");
    let created =
        post(&client, &format!("{}?dryRun=All", deployments(namespace)), &object).await.ok(201);
    let spec = &created["spec"];
    assert_eq!(spec["replicas"], 1);
    assert_eq!(spec["revisionHistoryLimit"], 10);
    assert_eq!(spec["progressDeadlineSeconds"], 600);
    assert_eq!(
        spec["strategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}})
    );
    let pod = &spec["template"]["spec"];
    assert_eq!(pod["restartPolicy"], "Always");
    assert_eq!(pod["dnsPolicy"], "ClusterFirst");
    assert_eq!(pod["schedulerName"], "default-scheduler");
    assert_eq!(pod["terminationGracePeriodSeconds"], 30);
    assert_eq!(pod["securityContext"], json!({}));
    assert_eq!(
        pod["containers"][0],
        json!({
            "name": "main", "image": "example.com/main:1", "env": [{"name": "A", "value": "1"}], "resources": {},
            "imagePullPolicy": "IfNotPresent", "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
        })
    );

    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "hello"}});
    let secret =
        post(&client, &format!("/api/v1/namespaces/{namespace}/secrets"), &secret).await.ok(201);
    assert_eq!(secret["data"], json!({"a": "aGVsbG8="}));
    assert_eq!(secret["type"], "Opaque");
    assert!(secret.get("stringData").is_none());

    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    });
    let service =
        post(&client, &format!("/api/v1/namespaces/{namespace}/services"), &service).await.ok(201);
    assert_eq!(service["spec"]["type"], "ClusterIP");
    assert_eq!(
        service["spec"]["ports"],
        json!([{"port": 80, "protocol": "TCP", "targetPort": 80}])
    );
    assert!(service["spec"]["clusterIP"].as_str().unwrap().starts_with("10."), "{service}");
    assert_eq!(service["status"], json!({"loadBalancer": {}}));

    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "example.com/c:1"}]}}},
    });
    let job =
        post(&client, &format!("/apis/batch/v1/namespaces/{namespace}/jobs?dryRun=All"), &job)
            .await
            .ok(201);
    assert_eq!(job["spec"]["backoffLimit"], 6);
    assert_eq!(job["spec"]["completions"], 1);
    assert_eq!(job["spec"]["parallelism"], 1);
    assert!(job["spec"]["selector"]["matchLabels"].is_object());
    assert_eq!(job["spec"]["template"]["metadata"]["labels"]["job-name"], "j");

    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    let path = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims?dryRun=All");
    let claim = post(&client, &path, &claim).await.ok(201);
    assert_eq!(claim["spec"]["volumeMode"], "Filesystem");
    assert_eq!(claim["status"]["phase"], "Pending");
}

pub async fn selectors_of_workloads_are_immutable(client: Client, namespace: &str) {
    let all = deployments(namespace);
    let one = format!("{all}/web");
    let mut wrong = deployment("web");
    wrong["spec"]["template"]["metadata"]["labels"] = json!({"app": "other"});
    let refusal = post(&client, &all, &wrong).await.refused(422, "Invalid");
    assert!(names_field(&refusal, "spec.template.metadata.labels"), "{refusal}");
    let mut none = deployment("web");
    none["spec"]["template"]["spec"]["containers"] = json!([]);
    let refusal = post(&client, &all, &none).await.refused(422, "Invalid");
    assert!(names_field(&refusal, "spec.template.spec.containers"), "{refusal}");
    post(&client, &all, &deployment("web")).await.ok(201);
    let labels = json!({"app": "web", "more": "yes"});
    let change = json!({"spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}});
    let refusal = patch(&client, &one, MERGE, &change).await.refused(422, "Invalid");
    assert!(names_field(&refusal, "spec.selector"), "{refusal}");
    assert_eq!(refusal["details"]["group"], "apps");
    assert_eq!(refusal["details"]["kind"], "Deployment");
}

pub async fn scale_reads_and_writes_replicas(client: Client, namespace: &str) {
    let all = deployments(namespace);
    let mut paused = deployment("web");
    paused["spec"]["paused"] = json!(true);
    post(&client, &all, &paused).await.ok(201);
    let path = format!("{all}/web/scale");
    let scale = get(&client, &path).await.ok(200);
    assert_eq!(scale["kind"], "Scale");
    assert_eq!(scale["apiVersion"], "autoscaling/v1");
    assert_eq!(scale["status"]["selector"], "app=web");
    // Zero is omitted.
    assert_eq!(scale["spec"]["replicas"].as_i64().unwrap_or(0), 0);
    let scale = patch(&client, &path, MERGE, &json!({"spec": {"replicas": 2}})).await.ok(200);
    assert_eq!(scale["spec"]["replicas"], 2);
    let deployment = get(&client, &format!("{all}/web")).await.ok(200);
    assert_eq!(deployment["spec"]["replicas"], 2);
    assert_eq!(deployment["metadata"]["generation"], 2);
}

pub async fn unknown_places_are_not_found(client: Client, namespace: &str) {
    for path in [
        format!("/api/v1/namespaces/{namespace}/nonsense"),
        format!("/apis/nonsense.example.com/v1/namespaces/{namespace}/things"),
        format!("{}/a/nonsense", config_maps(namespace)),
        "/nonsense".to_owned(),
    ] {
        assert_eq!(get(&client, &path).await.code, 404, "{path}");
    }
    // Deleting all objects of all namespaces is not supported.
    let answer = send(&client, Method::DELETE, "/api/v1/configmaps", JSON, JSON, None).await;
    assert_eq!(answer.code, 405, "{answer:?}");
}

pub async fn discovery_names_resources(client: Client, _namespace: &str) {
    let core = get(&client, "/api").await.ok(200);
    assert_eq!(core["versions"], json!(["v1"]));
    let groups = get(&client, "/apis").await.ok(200);
    let apps = groups["groups"].as_array().unwrap().iter().find(|g| g["name"] == "apps").unwrap();
    assert_eq!(apps["preferredVersion"], json!({"groupVersion": "apps/v1", "version": "v1"}));
    let apps = get(&client, "/apis/apps/v1").await.ok(200);
    assert_eq!(apps["groupVersion"], "apps/v1");
    let find = |name: &str| {
        apps["resources"].as_array().unwrap().iter().find(|r| r["name"] == name).cloned().unwrap()
    };
    let deployments = find("deployments");
    assert_eq!(deployments["kind"], "Deployment");
    assert_eq!(deployments["namespaced"], true);
    assert_eq!(deployments["shortNames"], json!(["deploy"]));
    assert_eq!(deployments["categories"], json!(["all"]));
    for verb in ["create", "delete", "get", "list", "patch", "update", "watch"] {
        assert!(deployments["verbs"].as_array().unwrap().iter().any(|v| v == verb), "{verb}");
    }
    assert_eq!(find("deployments/status")["verbs"], json!(["get", "patch", "update"]));
    assert_eq!(find("deployments/scale")["kind"], "Scale");
    assert_eq!(get(&client, "/apis/apps").await.ok(200)["kind"], "APIGroup");
    assert!(get(&client, "/version").await.ok(200)["gitVersion"].is_string());
    let apps = kube::discovery::group(&client, "apps").await.unwrap();
    assert!(apps.recommended_kind("Deployment").is_some());
}

pub async fn aggregated_discovery_names_all_resources_at_once(client: Client, _namespace: &str) {
    if lacks(&client, 30, "aggregated discovery").await {
        return;
    }
    let accept =
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    for (path, group, version, resource, kind) in [
        ("/api", "", "v1", "configmaps", "ConfigMap"),
        ("/apis", "apps", "v1", "deployments", "Deployment"),
    ] {
        let list = send(&client, Method::GET, path, JSON, accept, None).await.ok(200);
        assert_eq!(list["kind"], "APIGroupDiscoveryList", "{path}");
        assert_eq!(list["apiVersion"], "apidiscovery.k8s.io/v2", "{path}");
        let find = |list: &Value, field: &str, wanted: &str| {
            let all = list.as_array().unwrap();
            let found = all.iter().find(|one| {
                let at = if field == "name" { &one["metadata"]["name"] } else { &one[field] };
                at.as_str().unwrap_or_default() == wanted
            });
            found.unwrap_or_else(|| panic!("{path}: no {wanted}")).clone()
        };
        let group = find(&list["items"], "name", group);
        let version = find(&group["versions"], "version", version);
        assert_eq!(version["freshness"], "Current", "{path}");
        let found = find(&version["resources"], "resource", resource);
        assert_eq!(found["responseKind"]["kind"], kind, "{path}");
        assert_eq!(found["scope"], "Namespaced", "{path}");
        let verbs = found["verbs"].as_array().unwrap();
        assert!(verbs.iter().any(|verb| verb == "watch"), "{path}: {verbs:?}");
    }
    // Without the wish, the groups as ever.
    assert_eq!(get(&client, "/apis").await.ok(200)["kind"], "APIGroupList");
}

pub async fn access_can_be_reviewed(client: Client, namespace: &str) {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"namespace": namespace, "verb": "get", "resource": "pods"}},
    });
    let answer = post(&client, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review)
        .await
        .ok(201);
    assert_eq!(answer["status"]["allowed"], true);
}
