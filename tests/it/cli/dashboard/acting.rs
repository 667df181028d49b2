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
