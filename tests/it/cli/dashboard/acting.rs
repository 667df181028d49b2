//! What people do on the page: the verbs of the command line, as the person of the kubeconfig.

use super::*;

/// The word of the form that a page has.
fn word_of(body: &str) -> String {
    let word = body.split("name=\"word\" value=\"").nth(1).expect("the page has a form");
    word.split('"').next().unwrap().to_owned()
}

impl PageServer {
    async fn act(&self, verb: &str, word: &str, form: &str) -> Answer {
        let origin = format!("http://{}", self.address);
        let headers = [("Cookie", &*self.cookie), ("Origin", &*origin)];
        self.ask(&format!("POST /act/{verb}"), &headers, &format!("word={word}&{form}")).await
    }
}

/// PG-020, PG-022: a verb shows what it will do, in the words of the command line with the command,
/// and is done as the person of the page. Without --allow-actions there is none.
#[tokio::test(flavor = "multi_thread")]
async fn pg_020_pg_022_a_gate_is_approved_on_the_page() {
    let world = World::start().await;
    let owner = world.set("shop", json!({})).await;
    world.run(&owner, "shop-1", waits_for_approval(&[gate("production", 1)])).await;
    let only_shows = PageServer::start(&world, &[]).await;
    let refused = only_shows.get("/act/approve?set=argocd/shop").await;
    assert_eq!(refused.status, 403, "{}", refused.body);
    says(&refused.body, "--allow-actions");

    let page = PageServer::start(&world, &["--allow-actions"]).await;
    let body = page.until("/set/argocd/shop", "/act/approve").await;
    assert!(body.find("/act/approve") < body.find("/act/abort"), "what helps comes first: {body}");
    let planned = page.get("/act/approve?set=argocd/shop").await.body;
    let same = world.ann(&["approve", "shop", "--dry-run", "-o", "json"]).await.json();
    says(&planned, same["message"].as_str().unwrap());
    says(&planned, "wavegate approve -n argocd shop");
    let run = world.get("RolloutRun", "shop-1").await;
    assert!(run["spec"]["approvals"].is_null(), "nothing is written before it is confirmed: {run}");

    let done = page.act("approve", &word_of(&planned), "set=argocd%2Fshop").await;
    assert_eq!(done.status, 200, "{}", done.body);
    says(&done.body, "done: ");
    let run = world.get("RolloutRun", "shop-1").await;
    assert_eq!(run["spec"]["approvals"][0]["by"], "ann", "{run}");
    // What makes no sense is refused in the words of the command line.
    let again = page.get("/act/resume?set=argocd/shop").await.body;
    let same = world.ann(&["resume", "shop", "--dry-run", "-o", "json"]).await.json();
    says(&again, same["message"].as_str().unwrap());
    assert!(!again.contains("type=\"submit\""), "{again}");
}

/// PG-020: each verb is the one of the command line, with a reason where it takes one.
#[tokio::test(flavor = "multi_thread")]
async fn pg_020_sets_are_paused_resumed_and_refreshed() {
    let world = World::start().await;
    let owner = world.set("shop", json!({})).await;
    world.application(&owner, "a", json!({})).await;
    let page = PageServer::start(&world, &["--allow-actions"]).await;
    page.until("/", "shop").await;
    let word = word_of(&page.get("/act/pause?set=argocd/shop").await.body);
    let done = page.act("pause", &word, "set=argocd%2Fshop&reason=--yes+%27x%27").await;
    says(&done.body, "done: ");
    let set = world.get("ApplicationSet", "shop").await;
    let paused = set["metadata"]["annotations"]["wavegate.dev/paused"].as_str().unwrap().to_owned();
    assert!(paused.contains("--yes 'x'") && paused.contains("ann"), "{paused}");
    page.until("/set/argocd/shop", "/act/resume").await;
    page.act("resume", &word, "set=argocd%2Fshop").await;
    let set = world.get("ApplicationSet", "shop").await;
    assert!(set["metadata"]["annotations"]["wavegate.dev/paused"].is_null(), "{set}");
    page.act("refresh-app", &word, "set=argocd%2Fa").await;
    let app = world.get("Application", "a").await;
    assert_eq!(app["metadata"]["annotations"]["argocd.argoproj.io/refresh"], "normal", "{app}");
    page.act("sync", &word, "set=argocd%2Fa").await;
    let app = world.get("Application", "a").await;
    assert_eq!(app["operation"]["initiatedBy"]["username"], "ann", "{app}");
    for (verb, form, status) in [
        ("explode", "set=argocd%2Fshop", 404),
        ("pause", "set=argocd%2F..%2Fshop", 400),
        ("pause", "set=argocd%2F--all-namespaces", 400),
        ("pause", "set=shop", 400),
    ] {
        let answer = page.act(verb, &word, form).await;
        assert_eq!(answer.status, status, "{verb} {form}: {}", answer.body);
    }
}

/// PG-021: the same verb over all that wait for approval, with one confirmation that lists them.
#[tokio::test(flavor = "multi_thread")]
async fn pg_021_all_that_wait_are_approved_at_once() {
    let world = World::start().await;
    for name in ["one", "two", "three"] {
        let owner = world.set(name, json!({})).await;
        let run = match name {
            "three" => {
                json!({"phase": "Progressing", "total": 30, "done": 12, "progress": "12/30"})
            }
            _ => waits_for_approval(&[gate("production", 1)]),
        };
        world.run(&owner, &format!("{name}-1"), run).await;
    }
    let page = PageServer::start(&world, &["--allow-actions"]).await;
    let fleet = page.until("/", "/act/approve?all=waiting").await;
    assert!(fleet.contains("three"), "{fleet}");
    let planned = page.until("/act/approve?all=waiting", "argocd/two").await;
    for name in ["one", "two"] {
        says(&planned, format!("wavegate approve -n argocd {name}"));
    }
    says(&planned, "2 ApplicationSets");
    assert!(!planned.contains("three"), "{planned}");
    page.act("approve", &word_of(&planned), "set=argocd%2Fone&set=argocd%2Ftwo").await;
    for run in ["one-1", "two-1"] {
        let run = world.get("RolloutRun", run).await;
        assert_eq!(run["spec"]["approvals"][0]["by"], "ann", "{run}");
    }
}

/// PG-020, PG-022: what ends, takes back, retries and reduces a run is the command line's, as the person
/// of the page.
#[tokio::test(flavor = "multi_thread")]
async fn pg_020_runs_are_retried_reduced_taken_back_and_aborted() {
    let world = World::start().await;
    let owner = world.set("shop", json!({})).await;
    world.application(&owner, "shop-eu", json!({})).await;
    let held = json!({"phase": "Held", "total": 30, "done": 12, "failed": 2,
        "steps": [{"total": 30, "done": 12, "inFlight": 3, "failed": 2}]});
    world.run(&owner, "shop-1", held).await;
    let page = PageServer::start(&world, &["--allow-actions"]).await;
    let shown = page.until("/set/argocd/shop", "/act/retry").await;
    assert!(shown.contains("/act/rollback") && shown.contains("/act/abort"), "{shown}");
    let shown = page.until("/app/argocd/shop-eu", "/act/skip").await;
    for verb in ["sync", "refresh-app", "terminate", "unskip", "retry-app"] {
        says(&shown, format!("/act/{verb}?set=argocd/shop-eu"));
    }
    let word = word_of(&page.get("/act/retry?set=argocd/shop").await.body);
    let spec = async || world.get("RolloutRun", "shop-1").await["spec"].clone();
    let done = async |verb: &str, set: &str, command: &str| {
        let planned = page.get(&format!("/act/{verb}?set=argocd/{set}")).await.body;
        says(&planned, format!("wavegate {command}"));
        says(&planned, "type=\"submit\"");
        let done = page.act(verb, &word, &format!("set=argocd%2F{set}")).await;
        assert_eq!(done.status, 200, "{verb}: {}", done.body);
        says(&done.body, "done: ");
    };
    done("skip", "shop-eu", "skip -n argocd shop-eu").await;
    assert_eq!(spec().await["skip"], json!(["shop-eu"]));
    assert_eq!(spec().await["skips"][0]["by"], "ann");
    done("unskip", "shop-eu", "skip -n argocd --undo shop-eu").await;
    assert_eq!(spec().await["skip"], json!([]));
    done("retry-app", "shop-eu", "retry -n argocd app/shop-eu").await;
    done("retry", "shop", "retry -n argocd appset/shop").await;
    let retries = spec().await["retries"].clone();
    assert_eq!(retries[0]["applications"], json!(["shop-eu"]), "{retries}");
    assert_eq!((&retries[1]["applications"], &retries[1]["by"]), (&Value::Null, &json!("ann")));
    // What can go back is said first, and what cannot is refused in the same words.
    let none = page.get("/act/rollback?set=argocd/shop").await.body;
    says(&none, "run shop-1 has started no Application: abort it instead");
    assert!(!none.contains("type=\"submit\""), "{none}");
    world.started("shop-eu", "shop-1", &[super::super::policies::COMMIT]).await;
    let planned = page.get("/act/rollback?set=argocd/shop").await.body;
    says(&planned, "1 of 1 Application ");
    done("rollback", "shop", "rollback -n argocd shop").await;
    assert_eq!(spec().await["rollback"]["by"], "ann");
    let owner = world.set("bank", json!({})).await;
    let moving = json!({"phase": "Progressing", "total": 30, "done": 12, "failed": 0,
        "steps": [{"total": 30, "done": 12, "inFlight": 3, "failed": 0}]});
    world.run(&owner, "bank-1", moving).await;
    done("abort", "bank", "abort -n argocd bank").await;
    let aborted = world.get("RolloutRun", "bank-1").await["spec"]["abort"].clone();
    assert_eq!(
        (&aborted["by"], &aborted["terminate"]),
        (&json!("ann"), &json!(false)),
        "{aborted}"
    );
}

/// PG-020: deletions are approved by the hash that is shown; operations are terminated; a set is
/// generated again.
#[tokio::test(flavor = "multi_thread")]
async fn pg_020_deletions_are_approved_operations_terminated_and_sets_refreshed() {
    let world = World::start().await;
    let owner = world.set("shop", json!({})).await;
    let message = "2 applications wait to be deleted until a person approves it: a, b; to delete them: kubectl -n argocd annotate applicationset shop --overwrite wavegate.dev/approved-deletions=0123456789abcdef";
    let held = json!({"type": "DeletionsHeld", "status": "True", "reason": "GeneratorFoundNothing",
        "message": message, "lastTransitionTime": "2026-01-02T03:00:00Z"});
    world.status("ApplicationSet", "shop", json!({"conditions": [held]})).await;
    let running = json!({"operationState": {"phase": "Running", "operation": {"sync": {}}, "startedAt": "2026-01-02T03:04:05Z"}});
    world.application(&owner, "shop-us", running).await;
    let page = PageServer::start(&world, &["--allow-actions"]).await;
    page.until("/set/argocd/shop", "/act/approve-deletions").await;
    let planned = page.get("/act/approve-deletions?set=argocd/shop").await.body;
    says(&planned, "will approve these deletions (0123456789abcdef): 2 applications wait");
    says(&planned, "wavegate approve -n argocd --deletions shop");
    let word = word_of(&planned);
    let done = page.act("approve-deletions", &word, "set=argocd%2Fshop").await;
    says(&done.body, "done: ");
    let set = world.get("ApplicationSet", "shop").await;
    let approved = &set["metadata"]["annotations"]["wavegate.dev/approved-deletions"];
    assert_eq!(approved, "0123456789abcdef", "{set}");

    says(
        &page.get("/act/terminate?set=argocd/shop-us").await.body,
        "wavegate terminate -n argocd shop-us",
    );
    let done = page.act("terminate", &word, "set=argocd%2Fshop-us").await;
    says(&done.body, "done: ");
    let app = world.get("Application", "shop-us").await;
    assert_eq!(app["status"]["operationState"]["phase"], "Terminating", "{app}");
    says(
        &page.get("/act/refresh?set=argocd/shop").await.body,
        "wavegate refresh -n argocd appset/shop",
    );
    let done = page.act("refresh", &word, "set=argocd%2Fshop").await;
    says(&done.body, "done: ");
    let set = world.get("ApplicationSet", "shop").await;
    let refresh = &set["metadata"]["annotations"]["argocd.argoproj.io/application-set-refresh"];
    assert!(refresh.is_string(), "{set}");
}

/// PG-021: the same verb over all sets of a label, with one confirmation that lists them.
#[tokio::test(flavor = "multi_thread")]
async fn pg_021_all_of_a_label_are_paused_at_once() {
    let world = World::start().await;
    for (name, tier) in [("one", "prod"), ("two", "prod"), ("three", "dev")] {
        world.set(name, json!({"tier": tier})).await;
    }
    let page = PageServer::start(&world, &["--allow-actions"]).await;
    let fleet = page.until("/?label=tier%3Dprod", "/act/pause?all=label").await;
    says(&fleet, "All of tier=prod:");
    let all = page.get("/").await.body;
    assert!(!all.contains("all=label"), "a label is to be chosen first: {all}");
    let planned = page.until("/act/pause?all=label&label=tier%3Dprod", "argocd/two").await;
    for name in ["one", "two"] {
        says(&planned, format!("wavegate pause -n argocd {name}"));
    }
    says(&planned, "2 ApplicationSets");
    assert!(!planned.contains("three"), "{planned}");
    let form = "set=argocd%2Fone&set=argocd%2Ftwo&reason=freeze";
    let done = page.act("pause", &word_of(&planned), form).await;
    assert_eq!(done.body.matches("done: ").count(), 2, "{}", done.body);
    for (name, is_paused) in [("one", true), ("two", true), ("three", false)] {
        let set = world.get("ApplicationSet", name).await;
        let paused = &set["metadata"]["annotations"]["wavegate.dev/paused"];
        assert_eq!(paused.is_string(), is_paused, "{set}");
    }
    let none = page.get("/act/pause?all=label&label=tier%3Dother").await.body;
    says(&none, "There is no ApplicationSet to do it for.");
    for wrong in ["/act/pause?all=everything", "/act/sync?all=label&label=tier%3Dprod"] {
        assert_eq!(page.get(wrong).await.status, 400, "{wrong}");
    }
}
