//! What views show at the moment it is needed: Events, the difference of a plan, limits with who uses
//! them, commits, gates, what is complete without some, other owners.

use kube::Api;

use super::super::policies::COMMIT;
use super::*;
use crate::support::repository::Repository;

/// As it stands in HTML.
fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;")
}

fn at(body: &str, text: &str) -> usize {
    body.find(text).unwrap_or_else(|| panic!("no {text:?} in {body}"))
}

async fn policy(world: &World, name: &str, spec: Value) {
    let object = json!({
        "apiVersion": "wavegate.dev/v1alpha1", "kind": "RolloutPolicy",
        "metadata": {"name": name}, "spec": spec,
    });
    world.cluster.create("RolloutPolicy", object).await;
}

/// PG-012: the Events of an Application, the newest first, and what `explain` says of its wait.
#[tokio::test(flavor = "multi_thread")]
async fn pg_012_an_application_has_its_events() {
    let world = World::start().await;
    let owner = world.set("shop", json!({})).await;
    for name in ["a", "b"] {
        world.application(&owner, name, json!({"health": {"status": "Degraded"}})).await;
    }
    let events: Api<k8s_openapi::api::core::v1::Event> =
        Api::namespaced(world.cluster.client.clone(), "argocd");
    for (of, name, minute, reason, message, count) in [
        ("a", "one", 1, "OperationStarted", "ann has started a sync", 1),
        ("a", "two", 2, "OperationFailed", "one <task> failed", 3),
        ("b", "three", 3, "OperationStarted", "of another one", 1),
    ] {
        let involved = world.get("Application", of).await["metadata"].clone();
        let event = json!({
            "metadata": {"name": name}, "reason": reason, "message": message, "count": count,
            "type": if count > 1 { "Warning" } else { "Normal" },
            "lastTimestamp": format!("2026-01-02T03:0{minute}:00Z"),
            "involvedObject": {"kind": "Application", "namespace": "argocd", "name": of, "uid": involved["uid"]},
        });
        let event = serde_json::from_value(event).unwrap();
        events.create(&Default::default(), &event).await.unwrap();
    }
    let page = PageServer::start(&world, &[]).await;
    let body = page.until("/app/argocd/a", "OperationFailed").await;
    assert!(at(&body, "OperationFailed") < at(&body, "OperationStarted"), "{body}");
    says(&body, "one &lt;task&gt; failed");
    says(&body, "3 times");
    assert!(!body.contains("of another one"), "{body}");
    let explained = world.ann(&["explain", "app/a", "-o", "json"]).await.json();
    says(&body, escaped(explained["summary"].as_str().unwrap()));
    says(&body, escaped(explained["waits"][0]["reason"].as_str().unwrap()));
}

/// PG-013: the plan is that of `plan --live` and `diff appset/NAME`: its steps and batches, what is
/// created, changed and deleted with the difference, its hash, and who holds it.
#[tokio::test(flavor = "multi_thread")]
async fn pg_013_the_plan_has_the_difference_and_who_holds_it() {
    let world = World::start().await;
    world.cluster.knows("default", "https://1").await;
    let owner = world.set("shop", json!({})).await;
    let elements = json!([{"name": "a"}, {"name": "c"}]);
    let patch = kube::api::Patch::Merge(
        json!({"spec": {"generators": [{"list": {"elements": elements}}]}}),
    );
    world.api("ApplicationSet").patch("shop", &Default::default(), &patch).await.unwrap();
    // One differs, one is not generated any more, and one does not exist yet.
    for name in ["a", "b"] {
        world.application(&owner, name, json!({"sync": {"status": "Synced"}})).await;
    }
    policy(&world, "night", json!({"gates": [{"name": "production", "steps": [1], "approvals": 2, "soak": "5m"}], "failures": {"max": 2}})).await;
    let page = PageServer::start(&world, &[]).await;
    page.until("/", "/set/argocd/shop").await;
    let body = page.get("/set/argocd/shop/plan").await.body;
    let plan = world.ann(&["plan", "--live", "shop", "-o", "json"]).await.json();
    says(&body, plan["steering"]["hash"].as_str().unwrap());
    for (heading, name) in [("Created", "c"), ("Changed", "a"), ("Deleted", "b")] {
        let part = &body[at(&body, &format!("<h3>{heading}<"))..];
        assert!(at(part, &format!("/app/argocd/{name}\"")) < 200, "{heading}: {part}");
    }
    let difference = world.ann(&["diff", "appset/shop", "-o", "json"]).await.json();
    let changed = difference["applications"].as_array().unwrap();
    let changed = changed.iter().find(|one| one["application"] == "a").unwrap();
    let changes = changed["changes"].as_array().unwrap();
    assert!(!changes.is_empty(), "{difference}");
    for change in changes {
        says(&body, escaped(change["path"].as_str().unwrap()));
    }
    for part in [
        "Step 1",
        "Gate production",
        "of policy night",
        "2 approvals",
        "soak 5m0s",
        "2 may fail, then Hold (policy night)",
        "What is created",
        "What is deleted",
        "class=\"batch\"",
    ] {
        says(&body, part);
    }
}

/// PG-011: limits of policies with who uses them, and failures by their signature.
#[tokio::test(flavor = "multi_thread")]
async fn pg_011_limits_say_who_uses_them() {
    let world = World::start().await;
    let owner = world.set("shop", json!({})).await;
    let failed = json!({
        "phase": "Progressing", "total": 4, "done": 1, "failed": 1, "progress": "1/4",
        "failures": [{"signature": "x", "count": 1, "applications": ["z"], "message": "Deployment web: image not found"}],
    });
    world.run(&owner, "shop-1", failed).await;
    for (name, region, phase) in
        [("a", "eu", "Running"), ("b", "eu", "Running"), ("c", "us", "Running"), ("d", "us", "")]
    {
        let operation = json!({"phase": "Running", "startedAt": "2026-01-02T03:04:05Z", "operation": {"sync": {}}});
        let status =
            if phase.is_empty() { json!({}) } else { json!({"operationState": operation}) };
        let object = json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"name": name, "ownerReferences": owner, "labels": {"region": region}},
            "spec": {"project": "default", "destination": {"server": "https://1"}, "source": {"repoURL": "https://r"}},
            "status": status,
        });
        world.cluster.create("Application", object).await;
    }
    let spec = json!({
        "pace": {"maxInFlight": 50, "spread": {"label": "region", "max": 3}},
        "failures": {"max": 2},
    });
    policy(&world, "night", spec).await;
    let page = PageServer::start(&world, &[]).await;
    page.until("/set/argocd/shop", "3 in flight for each value of region").await;
    let body = page.until("/set/argocd/shop", "region=eu").await;
    for part in [
        "region=eu: 2/3",
        "region=us: 1/3",
        "this set: 3/50",
        "50 in flight in all sets of policy night",
        "2 may fail, then Hold (policy night)",
        "failed: 1/2",
        "Deployment web: image not found",
    ] {
        says(&body, part);
    }
    let limits = &body[at(&body, "<h2>Limits")..];
    assert!(limits.contains("/app/argocd/a\"") && !limits.contains("/app/argocd/d\""), "{limits}");
}

/// PG-011, PG-018: the commit that a run goes to has its author and its subject; a new set says which
/// pattern of its generators fits nothing, at which revision.
#[tokio::test(flavor = "multi_thread")]
async fn pg_018_commits_have_words_and_a_new_set_says_what_it_finds() {
    let world = World::start().await;
    world.cluster.permits("x").await;
    let folder = tempfile::tempdir().unwrap();
    let repository = Repository::new(folder.path().join("repository"));
    let files = [("web/map.json".to_owned(), "{}".to_owned())];
    let commit = repository.commit("Cache <the> basket\n\nMore about it.", &files);
    let owner = world.set("shop", json!({})).await;
    let object = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": "a", "ownerReferences": owner},
        "spec": {"project": "default", "destination": {"server": crate::support::manifests::IN_CLUSTER, "namespace": "x"},
            "source": {"repoURL": repository.url(), "targetRevision": "main", "path": "web"}},
        "status": {"sync": {"status": "Synced", "revision": commit}},
    });
    world.cluster.create("Application", object).await;
    let run = json!({"phase": "Progressing", "total": 1, "done": 0, "progress": "0/1",
        "to": [{"revision": commit, "applications": 1}]});
    world.run(&owner, "shop-1", run).await;
    let url = repository.url();
    let new = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
        "metadata": {"name": "new", "namespace": "argocd"},
        "spec": {
            "generators": [{"git": {"repoURL": url, "revision": "main", "directories": [{"path": "apps/*"}, {"path": "apps/old", "exclude": true}]}}],
            "template": {"metadata": {"name": "{{path.basename}}"}, "spec": {"project": "default", "destination": {"server": crate::support::manifests::IN_CLUSTER}, "source": {"repoURL": url}}},
        },
    });
    world.cluster.create("ApplicationSet", new).await;
    let page = PageServer::start(&world, &[]).await;
    let body = page.until("/set/argocd/shop", "Cache &lt;the&gt; basket").await;
    assert!(!body.contains("More about it"), "{body}");
    says(&body, " by ");
    page.until("/set/argocd/shop/history/1", "Cache &lt;the&gt; basket").await;

    let body = page.until("/set/argocd/new", "It has no Applications yet").await;
    says(&body, "/set/argocd/new/plan");
    let plan = page.get("/set/argocd/new/plan").await.body;
    says(&plan, "GeneratorFoundNothing");
    says(
        &plan,
        format!("spec.generators[0].git: finds nothing: no directory fits apps/* at main of {url}"),
    );
}

/// PG-018: at a gate, what failed or was skipped before it, how long it still soaks, what it lets go,
/// who may approve, and the button.
#[tokio::test(flavor = "multi_thread")]
async fn pg_018_a_gate_says_what_to_know_before() {
    let world = World::start().await;
    for (name, more) in [
        ("clean", json!({})),
        ("late", json!({"failed": 2, "skipped": ["x"], "unhealthyBefore": ["y"]})),
    ] {
        let owner = world.set(name, json!({})).await;
        let mut held = gate("production", 1);
        held["soaksUntil"] = json!("2099-01-01T00:00:00Z");
        let mut run = waits_for_approval(&[held]);
        for (field, value) in more.as_object().unwrap() {
            run[field] = value.clone();
        }
        world.run(&owner, &format!("{name}-1"), run).await;
    }
    let page = PageServer::start(&world, &["--allow-actions"]).await;
    let body = page.until("/set/argocd/clean", "18 Applications behind it").await;
    for part in [
        "Nothing failed or was skipped before it.",
        "soaks for ",
        "href=\"/set/argocd/clean/plan\">the difference",
        "Who may approve: who may patch rolloutruns in namespace argocd",
        "kubectl auth can-i patch rolloutruns.wavegate.dev -n argocd",
        "/act/approve?set=argocd",
    ] {
        says(&body, part);
    }
    let body = page.until("/set/argocd/late", "18 Applications behind it").await;
    for part in ["2 failed before it", "Skipped: x", "Not Healthy before the run: y"] {
        says(&body, part);
    }
}

/// PG-018: after a rollback, what failed with its commit comes first, and a fix before a retry; what is
/// complete without a member has a badge, here and in the fleet; another owner is linked; the fleet is
/// filtered by the open step.
#[tokio::test(flavor = "multi_thread")]
async fn pg_018_after_a_rollback_and_when_complete() {
    let world = World::start().await;
    let healthy = json!({"sync": {"status": "Synced"}, "health": {"status": "Healthy"}});
    let owner = world.set("back", json!({})).await;
    let run = json!({
        "phase": "RolledBack", "total": 2, "done": 0, "failed": 1, "progress": "0/2", "endedBy": "Failures",
        "to": [{"revision": COMMIT, "applications": 2}],
        "failures": [{"signature": "x", "count": 1, "applications": ["a"], "message": "Deployment web: Pod web-1: CrashLoopBackOff"}],
        "timeline": [
            {"at": "2026-01-02T03:01:00Z", "what": "Failed", "subject": "a", "by": "", "message": "Deployment web: Pod web-1: CrashLoopBackOff"},
            {"at": "2026-01-02T03:02:00Z", "what": "RollingBack", "subject": "", "by": "", "message": ""},
        ],
    });
    world.run(&owner, "back-1", run).await;
    world.application(&owner, "a", healthy.clone()).await;
    let owner = world.set("done", json!({})).await;
    let run = json!({"phase": "Complete", "total": 2, "done": 2, "progress": "2/2", "skipped": ["f"], "message": "complete without f"});
    world.run(&owner, "done-1", run).await;
    world.application(&owner, "e", healthy).await;
    let rollout = json!({"rollout": {"step": null, "steps": 1, "progress": "1/1"}});
    world.status("ApplicationSet", "done", rollout).await;
    let owner = world.set("shared", json!({})).await;
    let warning = json!([{"type": "SharedResourceWarning", "message": "ConfigMap/c is part of applications argocd/g and argocd/a"}]);
    world
        .application(&owner, "g", json!({"sync": {"status": "OutOfSync"}, "conditions": warning}))
        .await;

    let page = PageServer::start(&world, &[]).await;
    let body = page.until("/set/argocd/back", "a failed at 6d0c1f2").await;
    says(&body, "Deployment web: Pod web-1: CrashLoopBackOff");
    says(&body, "/app/argocd/a\"");
    assert!(at(&body, "commit a fix") < at(&body, "wavegate retry -n argocd back"), "{body}");
    let body = page.until("/set/argocd/done", "class=\"badge\">without f").await;
    says(&body, "Complete");
    page.until("/", "class=\"badge\">without f").await;
    page.until("/app/argocd/g", "Other owners of its resources: ").await;
    let body = page.get("/app/argocd/g").await.body;
    says(&body, "href=\"/app/argocd/a\">argocd/a");
    let body = page.until("/set/argocd/shared", "Also owned by ").await;
    says(&body, "href=\"/app/argocd/a\">argocd/a");

    let body = page.get("/?step=1").await.body;
    says(&body, "/set/argocd/shared");
    assert!(!body.contains("/set/argocd/done\""), "{body}");
    assert!(!page.get("/?step=7").await.body.contains("/set/argocd/shared\""));
}

/// PG-014: figures over the last runs: how often, how long, how many failed, time to recover.
#[tokio::test(flavor = "multi_thread")]
async fn pg_014_figures_over_the_last_runs() {
    let world = World::start().await;
    let owner = world.set("shop", json!({})).await;
    let run = |hour: u32, phase: &str, failed: bool| {
        let failure = json!([{"at": format!("2026-01-02T0{hour}:10:00Z"), "what": "Failed", "subject": "a", "by": "", "message": "it is Degraded"}]);
        json!({
            "phase": phase, "total": 2, "done": 2, "failed": i64::from(failed),
            "startedAt": format!("2026-01-02T0{hour}:00:00Z"), "endedAt": format!("2026-01-02T0{hour}:20:00Z"),
            "timeline": if failed { failure } else { json!([]) },
        })
    };
    world.run(&owner, "shop-1", run(1, "Complete", false)).await;
    world.run(&owner, "shop-2", run(3, "RolledBack", true)).await;
    world.run(&owner, "shop-3", run(5, "Complete", false)).await;
    let page = PageServer::start(&world, &[]).await;
    page.until("/set/argocd/shop/history", "shop-1").await;
    page.until("/set/argocd/shop/history", "shop-2").await;
    let body = page.until("/set/argocd/shop/history", "shop-3").await;
    for part in [
        "<dt>One in</dt><dd>120m</dd>",
        "<dt>Usual duration</dt><dd>20m</dd>",
        "<dt>With failures</dt><dd>1</dd>",
        "<dt>Time to recover</dt><dd>130m</dd>",
    ] {
        says(&body, part);
    }
}
