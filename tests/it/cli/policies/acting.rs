//! Who said what, and that what is advised works.

use super::*;

/// The same word a moment later was refused, once the first one had let the run go on.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_so_already_is_no_error_as_st_070() {
    let world = World::start().await;
    let owner = world.set("shop", json!({})).await;
    world.application(&owner, "shop-eu", json!({})).await;
    world.run(&owner, "shop-1", waits_for_approval(&[gate("prod", 1)])).await;
    let approved = world.ann(&["approve", "shop", "--gate", "prod", "-y"]).await;
    approved.prints("ApplicationSet argocd/shop: approved (run shop-1)\n");
    let already = "ApplicationSet argocd/shop: already: ann has approved these targets of gate prod of run shop-1\n";
    let again = async || {
        for args in [&["approve", "shop", "--gate", "prod", "-y"][..], &["approve", "shop", "-y"]] {
            world.ann(args).await.prints(already);
        }
    };
    // Before a controller has acted, when it has, and at the end.
    again().await;
    let mut open = gate("prod", 1);
    for (field, value) in [
        ("waitingSince", Value::Null),
        ("approvedBy", json!(["ann"])),
        ("openedAt", json!("2026-01-02T03:00:00Z")),
        ("openedFor", json!("c1")),
    ] {
        open[field] = value;
    }
    for phase in ["Progressing", "Complete"] {
        let status = json!({"phase": phase, "total": 30, "done": 30, "failed": 0, "gates": [open]});
        world.status("RolloutRun", "shop-1", status).await;
        again().await;
    }
    // Of somebody else it is none.
    let of_bob = world.by("bob", &["approve", "shop", "--gate", "prod", "-y"]).await;
    of_bob.fails(1, &["run shop-1 has ended (Complete): nothing waits for an approval"]);
    // The same of a retry and of a skip.
    let held = json!({"phase": "Held", "total": 30, "done": 12, "failed": 2, "gates": []});
    world.status("RolloutRun", "shop-1", held).await;
    world
        .ann(&["retry", "shop", "-y"])
        .await
        .prints("ApplicationSet argocd/shop: retry requested (run shop-1)\n");
    let ran = world.ann(&["skip", "shop-eu", "-y"]).await;
    ran.prints("ApplicationSet argocd/shop: skipped (run shop-1)\n");
    let status = json!({"phase": "Progressing", "failed": 0, "retried": ["2026-01-02T03:00:05Z"]});
    world.status("RolloutRun", "shop-1", status).await;
    let ran = world.ann(&["retry", "shop", "-y"]).await;
    ran.prints("ApplicationSet argocd/shop: already: ann has asked for it, and nothing of run shop-1 has failed since (Progressing)\n");
    world.status("RolloutRun", "shop-1", json!({"phase": "Complete"})).await;
    let ran = world.ann(&["skip", "shop-eu", "-y"]).await;
    ran.prints("ApplicationSet argocd/shop: already: run shop-1 skips shop-eu\n");
}

/// Who skipped, resumed and synced was in no object (ST-071).
#[tokio::test(flavor = "multi_thread")]
async fn each_word_says_who_it_is_from_as_st_071() {
    let world = World::start().await;
    let owner = world.set("shop", json!({})).await;
    world.application(&owner, "shop-eu", json!({})).await;
    let held = json!({"phase": "Held", "total": 30, "done": 12, "failed": 2});
    world.run(&owner, "shop-1", held).await;
    world.ann(&["skip", "shop-eu", "-y"]).await;
    world.by("bob", &["skip", "shop-eu", "--undo", "-y"]).await;
    let spec = world.get("RolloutRun", "shop-1").await["spec"].clone();
    let said: Vec<Value> = spec["skips"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| json!([one["by"], one["applications"], one["undo"], one["at"].is_string()]))
        .collect();
    assert_eq!(
        said,
        [json!(["ann", ["shop-eu"], null, true]), json!(["bob", ["shop-eu"], true, true])]
    );
    assert_eq!(spec["skip"], json!([]));
    let annotations =
        async || world.get("ApplicationSet", "shop").await["metadata"]["annotations"].clone();
    world.ann(&["pause", "shop", "-y"]).await;
    let paused = annotations().await;
    assert_eq!(
        (&paused["wavegate.dev/paused-by"], &paused["wavegate.dev/resumed-by"]),
        (&json!("ann"), &Value::Null)
    );
    world.by("bob", &["resume", "shop", "-y"]).await;
    let resumed = annotations().await;
    assert_eq!(
        (&resumed["wavegate.dev/paused-by"], &resumed["wavegate.dev/resumed-by"]),
        (&Value::Null, &json!("bob"))
    );
    // A sync is by the user that the API server names, and not by that of this machine.
    let ran = world.ann(&["sync", "shop-eu", "--no-wait"]).await;
    assert_eq!(ran.code, 0, "{}", ran.err);
    let by = world.get("Application", "shop-eu").await["operation"]["initiatedBy"].clone();
    assert_eq!(by["username"], "ann", "{by}");
}

/// A write that the API server forbids: some verbs exited with 2, as for wrong use.
#[tokio::test(flavor = "multi_thread")]
async fn verbs_that_are_forbidden_exit_alike() {
    let world = World::start().await;
    let owner = world.set("shop", json!({})).await;
    let running = json!({"operationState": {"phase": "Running", "operation": {"sync": {}}, "startedAt": "2026-01-02T03:04:05Z"}});
    world.application(&owner, "shop-eu", json!({})).await;
    world.application(&owner, "shop-us", running).await;
    let held = json!({"phase": "Held", "total": 30, "done": 12, "failed": 2, "steps": [{"total": 30, "done": 12, "inFlight": 3, "failed": 2}],
        "gates": [gate("prod", 1)]});
    world.run(&owner, "shop-1", held).await;
    world.started("shop-eu", "shop-1", &[OTHER]).await;
    let is_write = |request: &kube_sim::RequestRecord| {
        ["applicationsets", "applications", "rolloutruns"].contains(&request.resource.as_str())
            && !["get", "list", "watch"].contains(&request.verb.as_str())
    };
    world.cluster.server.inject(InjectedFault::new(Effect::Status(403), is_write).times(1000));
    let verbs: [&[&str]; 12] = [
        &["pause", "shop", "-y"],
        &["approve", "shop", "--gate", "prod", "-y"],
        &["abort", "shop", "-y"],
        &["rollback", "shop", "-y"],
        &["retry", "shop", "-y"],
        &["retry", "shop-eu", "-y"],
        &["skip", "shop-eu", "-y"],
        &["sync", "shop-eu", "--no-wait"],
        &["sync", "shop-eu", "shop-us", "--no-wait"],
        &["terminate", "shop-us", "--no-wait"],
        &["refresh", "shop-eu", "--no-wait"],
        &["refresh", "appset/shop", "--no-wait"],
    ];
    for verb in verbs {
        let ran = world.ann(verb).await;
        assert_eq!(ran.code, 1, "{verb:?}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains("error: cannot "), "{verb:?}: {}", ran.err);
    }
}

/// `explain` took the names of ApplicationSets only.
#[tokio::test(flavor = "multi_thread")]
async fn an_application_is_explained_by_its_name() {
    let world = World::start().await;
    let owner = world.set("shop", json!({})).await;
    let failed = |message: &str| {
        json!({
            "sync": {"status": "OutOfSync"}, "health": {"status": "Missing"}, "reconciledAt": "2026-01-02T03:04:05Z",
            "operationState": {"phase": "Failed", "message": message, "operation": {"sync": {}},
                "startedAt": "2026-01-02T03:04:05Z", "finishedAt": "2026-01-02T03:04:06Z"},
        })
    };
    world.application(&owner, "shop-eu", failed("no such image")).await;
    world.application(&owner, "shop-us", failed("a quota is exceeded")).await;
    world.application(&json!([]), "alone", failed("it is alone")).await;
    world.application(&json!([]), "shop", json!({})).await;
    let entry = |name: &str| {
        json!({"application": name, "status": "Progressing", "step": "1", "message": "m",
        "targetRevisions": [COMMIT], "lastTransitionTime": "2026-01-02T03:04:05Z"})
    };
    let waits = |name: &str| json!({"application": name, "kind": "FailedOperation", "reason": "its sync failed"});
    world.status("ApplicationSet", "shop", json!({
        "rollout": {"step": 1, "steps": 1, "progress": "0/2", "message": "m", "waitingFor": [waits("shop-eu"), waits("shop-us")]},
        "applicationStatus": [entry("shop-eu"), entry("shop-us")],
    })).await;
    let explained = world.ann(&["explain", "shop-us"]).await;
    assert!(
        explained.out.starts_with(
            "shop-us is waited for in step 1 of shop: its sync failed: a quota is exceeded\n"
        ),
        "{}{}",
        explained.out,
        explained.err
    );
    assert!(!explained.out.contains("shop-eu"), "{}", explained.out);
    let data = world.ann(&["explain", "shop-us", "-o", "json"]).await.json();
    assert_eq!(
        (&data["application"], &data["applicationSet"]),
        (&json!("shop-us"), &json!("shop"))
    );
    let alone = world.ann(&["explain", "app/alone"]).await;
    assert!(
        alone.out.starts_with("alone is not Synced and Healthy: its sync failed: it is alone\n"),
        "{}",
        alone.out
    );
    says(&alone.out, "wavegate sync -n argocd alone");
    // A name of both is that of the set.
    assert!(
        world.ann(&["explain", "shop"]).await.out.contains("shop waits in step 1 of 1: shop-eu")
    );
    assert!(
        world.ann(&["explain", "app/shop"]).await.out.starts_with("shop is not Synced and Healthy")
    );
    world
        .ann(&["explain", "shop-eo"])
        .await
        .fails(2, &["ApplicationSet argocd/shop-eo: it does not exist"]);
}

/// A pipeline waits with the rights of the role `wavegate-pipeline`: it reads, and writes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_pipeline_waits_by_reading_alone() {
    let path = format!("{}/deploy/roles.yaml", env!("CARGO_MANIFEST_DIR"));
    let roles =
        wavegate_api::yaml::parse_documents(&std::fs::read_to_string(path).unwrap()).unwrap();
    let role = roles
        .into_iter()
        .map(|one| one.value)
        .find(|one| one["metadata"]["name"] == "wavegate-pipeline")
        .unwrap();
    let permits = move |request: &kube_sim::RequestRecord| {
        role["rules"].as_array().unwrap().iter().any(|rule| {
            let has = |field: &str, word: &str| {
                rule[field].as_array().unwrap().iter().any(|one| one == word)
            };
            has("resources", &request.resource) && has("verbs", &request.verb)
        })
    };
    let world = World::start().await;
    let owner = world.set("shop", json!({})).await;
    let done =
        json!({"sync": {"status": "Synced", "revision": COMMIT}, "health": {"status": "Healthy"}});
    world.application(&owner, "a", done).await;
    let complete = json!({"phase": "Complete", "total": 1, "done": 1, "failed": 0, "progress": "1/1",
        "to": [{"revision": COMMIT, "applications": 1}], "startedAt": "2026-01-02T03:00:00Z"});
    world.run(&owner, "shop-1", complete).await;
    let entry = json!({"application": "a", "status": "Healthy", "step": "1", "message": "m",
        "targetRevisions": [COMMIT], "lastTransitionTime": "2026-01-02T03:04:05Z"});
    world.status("ApplicationSet", "shop", json!({
        "rollout": {"step": 1, "steps": 1, "progress": "1/1", "message": "m"}, "applicationStatus": [entry],
        "conditions": [{"type": "RolloutProgressing", "status": "False", "reason": "x", "message": "y"}],
    })).await;
    let of_group = ["applicationsets", "applications", "rolloutruns", "rolloutpolicies"];
    let is_refused = move |request: &kube_sim::RequestRecord| {
        of_group.contains(&request.resource.as_str()) && !permits(request)
    };
    world.cluster.server.inject(InjectedFault::new(Effect::Status(403), is_refused).times(1000));
    let ran = world.ann(&["wait", "shop", "--revision", COMMIT, "--timeout", "60s"]).await;
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
}
