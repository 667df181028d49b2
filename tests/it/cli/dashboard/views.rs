//! What the views show: the words of the command line, live.

use super::super::proxy::Proxy;
use super::*;

/// PG-010: those that need a person come first, with what they wait for and who ends it.
#[tokio::test(flavor = "multi_thread")]
async fn pg_010_the_fleet_has_those_first_that_need_a_person() {
    let world = World::start().await;
    for name in ["alpha", "gated", "zebra"] {
        let owner =
            world.set(name, json!({"tier": if name == "zebra" { "prod" } else { "dev" }})).await;
        match name {
            "gated" => {
                world.run(&owner, "gated-1", waits_for_approval(&[gate("production", 1)])).await
            }
            _ => {
                let run =
                    json!({"phase": "Progressing", "total": 30, "done": 12, "progress": "12/30"});
                world.run(&owner, &format!("{name}-1"), run).await;
            }
        }
    }
    let page = PageServer::start(&world, &[]).await;
    for name in ["alpha", "zebra"] {
        page.until(&format!("/?q={name}"), "Progressing").await;
    }
    let body = page.until("/", "AwaitingApproval").await;
    let at = |text: &str| body.find(text).unwrap_or_else(|| panic!("no {text:?} in {body}"));
    assert!(at("Needs a person") < at("/set/argocd/gated"), "{body}");
    assert!(at("/set/argocd/gated") < at("/set/argocd/alpha"), "{body}");
    says(&body, "12/30");
    assert!(!body.contains("/act/"), "nothing can be done without --allow-actions");
    // Filters are in the address.
    for (query, shown, hidden) in [
        ("q=zeb", "zebra", "alpha"),
        ("only=person", "gated", "alpha"),
        ("label=tier%3Dprod", "zebra", "gated"),
        ("phase=AwaitingApproval", "gated", "zebra"),
        ("ns=argocd&q=alpha", "alpha", "gated"),
    ] {
        let body = page.get(&format!("/?{query}")).await.body;
        assert!(body.contains(&format!("/set/argocd/{shown}")), "{query}: {body}");
        assert!(!body.contains(&format!("/set/argocd/{hidden}")), "{query}: {body}");
    }
    says(&page.get("/?q=nothing").await.body, "No ApplicationSet matches");
    assert_eq!(page.get("/set/argocd/unknown").await.status, 404);
}

/// PG-011, PG-018: a rollout says what `status`, `explain` and `history` say, with the same words.
#[tokio::test(flavor = "multi_thread")]
async fn pg_011_pg_018_a_rollout_has_the_words_of_the_command_line() {
    let world = World::start().await;
    let owner = world.set("shop", json!({})).await;
    world.run(&owner, "shop-1", waits_for_approval(&[gate("production", 2)])).await;
    world
        .application(
            &owner,
            "a",
            json!({"sync": {"status": "Synced"}, "health": {"status": "Healthy"}}),
        )
        .await;
    let page = PageServer::start(&world, &[]).await;
    let body = page.until("/set/argocd/shop", "/app/argocd/a").await;
    let explained = world.ann(&["explain", "shop", "-o", "json"]).await.json();
    let escaped = |text: &Value| {
        let text = text.as_str().unwrap().replace('&', "&amp;");
        text.replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
    };
    says(&body, escaped(&explained["summary"]));
    for action in explained["actions"].as_array().unwrap() {
        let (what, command) = action.as_str().unwrap().split_once(": wavegate ").unwrap();
        says(&body, escaped(&json!(what)));
        says(&body, escaped(&json!(format!("wavegate {command}"))));
    }
    for part in ["production", "0/2 approvals", "class=\"c ", "12 of 30 Applications complete"] {
        says(&body, part);
    }
}

/// PG-012: an Application with its operation, resources, conditions, history and links.
#[tokio::test(flavor = "multi_thread")]
async fn pg_012_an_application_is_explained_with_its_tree() {
    let world = World::start().await;
    let owner = world.set("shop", json!({})).await;
    world
        .application(&owner, "a", json!({
            "sync": {"status": "OutOfSync", "revision": super::super::policies::COMMIT},
            "health": {"status": "Degraded"},
            "operationState": {"phase": "Failed", "message": "one task failed", "startedAt": "2026-01-02T03:04:05Z", "operation": {}},
            "summary": {"externalURLs": ["https://shop.example"]},
            "history": [{"id": 1, "revision": super::super::policies::COMMIT, "deployedAt": "2026-01-02T03:04:05Z", "initiatedBy": {"username": "bob"}}],
            "resources": [{"kind": "Deployment", "group": "apps", "version": "v1", "name": "web", "namespace": "x", "status": "OutOfSync", "syncWave": 3,
                "health": {"status": "Degraded", "message": "it exceeded its progress deadline"}}],
        }))
        .await;
    let page = PageServer::start(&world, &[]).await;
    let body = page.until("/app/argocd/a", "Deployment").await;
    for part in [
        "it exceeded its progress deadline",
        "wave 3",
        "href=\"/set/argocd/shop\"",
        "href=\"https://shop.example\"",
        "by bob",
        "6d0c1f2",
        "operation Failed",
    ] {
        says(&body, part);
    }
    let explained = world.ann(&["explain", "app/a", "-o", "json"]).await.json();
    says(&body, explained["summary"].as_str().unwrap());
}

/// PG-013, PG-014, PG-015: the next change, the runs and one of them, the policies.
#[tokio::test(flavor = "multi_thread")]
async fn pg_013_pg_014_pg_015_plan_history_and_policies() {
    let world = World::start().await;
    world.cluster.knows("default", "https://1").await;
    let owner = world.set("shop", json!({})).await;
    world
        .run(&owner, "shop-1", json!({
            "phase": "Complete", "total": 2, "done": 2, "startedAt": "2026-01-02T03:00:00Z", "endedAt": "2026-01-02T03:10:00Z",
            "steps": [{"total": 2, "done": 2, "openedAt": "2026-01-02T03:00:00Z", "completedAt": "2026-01-02T03:05:00Z"}],
            "timeline": [{"at": "2026-01-02T03:01:00Z", "what": "GateApproved", "subject": "prod", "by": "bob", "message": ""}],
        }))
        .await;
    world
        .cluster
        .create(
            "RolloutPolicy",
            json!({
                "apiVersion": "wavegate.dev/v1alpha1", "kind": "RolloutPolicy",
                "metadata": {"name": "night"},
                "spec": {"gates": [{"name": "production", "steps": [1], "approvals": 1}]},
            }),
        )
        .await;
    let page = PageServer::start(&world, &[]).await;
    page.until("/set/argocd/shop/history", "shop-1").await;
    let runs = page.get("/set/argocd/shop/history").await.body;
    for part in ["Complete", "2/2", "10m", "Usual duration"] {
        says(&runs, part);
    }
    let run = page.get("/set/argocd/shop/history/1").await.body;
    for part in ["GateApproved", "by bob", "Step 1", "5m", "<rect"] {
        says(&run, part);
    }
    assert_eq!(page.get("/set/argocd/shop/history/9").await.status, 404);
    let plan = world.ann(&["plan", "--live", "shop", "-o", "json"]).await.json();
    let shown = page.get("/set/argocd/shop/plan").await.body;
    says(&shown, plan["steering"]["hash"].as_str().unwrap());
    says(&shown, plan["live"][0]["change"].as_str().unwrap());
    let policies = page.until("/policies", "night").await;
    says(&policies, "production");
    says(&policies, "is about nothing");
}

/// PG-016: a change in the cluster is sent at once, and nothing else; a lost API server is shown, and
/// is no longer once it answers.
#[tokio::test(flavor = "multi_thread")]
async fn pg_016_a_change_is_sent_and_a_lost_server_is_shown() {
    let world = World::start().await;
    let proxy = Proxy::in_front_of(&world.cluster).await;
    world.set("shop", json!({})).await;
    world.set("other", json!({})).await;
    let mut command = program(&["dashboard"]);
    command.env("KUBECONFIG", proxy.kubeconfig());
    let page = PageServer::with(command).await;
    page.until("/", "/set/argocd/other").await;
    let mut stream = page.follow("%2F").await;
    stream.until("/set/argocd/other").await;
    let changed = |text: &str| json!({"rollout": {"step": 1, "steps": 2, "progress": "13/30", "message": text}});
    world.status("ApplicationSet", "shop", changed("thirteen")).await;
    let begin = std::time::Instant::now();
    let sent = stream.until("thirteen").await;
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    assert!(!sent.contains("/set/argocd/other"), "only what changed: {sent}");
    proxy.set_open(false);
    stream.until("cannot be read, and may be older than shown").await;
    world.status("ApplicationSet", "shop", changed("fourteen")).await;
    proxy.set_open(true);
    stream.until("fourteen").await;
    let gone = async || !page.get("/").await.body.contains("may be older than shown");
    until("the loss is over", gone).await;
}

/// PG-017: a file shows a rollout, or one of its runs, without a server: as the page does, with
/// nothing that is loaded, run or leads to the page, and what a cluster contains as text.
#[tokio::test(flavor = "multi_thread")]
async fn pg_017_a_rollout_is_exported_as_one_file() {
    const MARKUP: &str = "<script>alert(1)</script>\" href=\"/x\" <img src=\"//example.com/a\">";
    let world = World::start().await;
    let owner = world.set("shop", json!({})).await;
    let failed = json!({
        "phase": "Held", "total": 3, "done": 1, "failed": 1, "message": MARKUP,
        "failures": [{"signature": "x", "count": 1, "applications": ["a"], "message": MARKUP}],
    });
    world.run(&owner, "shop-1", failed).await;
    world
        .application(
            &owner,
            "a",
            json!({"sync": {"status": "Synced"}, "health": {"status": "Healthy"}}),
        )
        .await;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let export = |args: &[&str]| {
        let args: Vec<String> =
            ["dashboard", "--export"].iter().chain(args).map(|arg| (*arg).to_owned()).collect();
        let world = &world;
        async move { world.ann(&args.iter().map(String::as_str).collect::<Vec<_>>()).await }
    };
    let (rollout, run) = (path("rollout.html"), path("run.html"));
    for (file, more, part) in
        [(&rollout, vec![], "<h2>Step 1"), (&run, vec!["1"], "<h1>Run shop-1")]
    {
        let done = export(&[vec![file.as_str(), "shop"], more].concat()).await;
        assert_eq!(done.code, 0, "{}", done.err);
        let html = std::fs::read_to_string(file).unwrap();
        for text in
            [part, "Held", "as of 20", "<style>", "&lt;script&gt;alert(1)", "default-src 'none'"]
        {
            says(&html, text);
        }
        for text in ["<script", "href=\"", "src=\"", "<form", "/act/", "<img", "http://127"] {
            assert!(!html.contains(text), "{text:?} in {html}");
        }
    }
    // A file that is there stays.
    std::fs::write(path("mine"), "mine").unwrap();
    let refused = export(&[&path("mine"), "shop"]).await;
    assert_eq!(
        (refused.code, std::fs::read_to_string(path("mine")).unwrap().as_str()),
        (2, "mine")
    );
    says(&refused.err, "it exists; choose another name, or remove it");
    // Nothing is left of one that cannot be made.
    for (args, why) in [
        (vec!["shpo"], "did you mean shop?"),
        (vec!["shop", "7"], "run 7 of ApplicationSet argocd/shop"),
    ] {
        let none = path("none.html");
        let failed = export(&[vec![none.as_str()], args].concat()).await;
        assert_eq!(failed.code, 2, "{}", failed.err);
        says(&failed.err, why);
        assert!(!std::path::Path::new(&none).exists());
    }
    let printed = export(&["-", "shop"]).await;
    assert!(printed.code == 0 && printed.out.starts_with("<!DOCTYPE html>"), "{}", printed.err);
}
