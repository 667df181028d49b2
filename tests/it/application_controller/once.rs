//! Nothing is done twice, and nothing is deleted for what cannot follow.

use super::*;

const OPTIONS: &str = "argocd.argoproj.io/sync-options";
const RBAC: &str = "rbac.authorization.k8s.io";

/// A Job that each sync runs again, and its revision.
fn recreated(world: &World, image: &str) -> String {
    let text = job("work", &[(OPTIONS, "Force=true,Replace=true")]);
    let mut work: Value = serde_json::from_str(&text).unwrap();
    work["spec"]["template"]["spec"]["containers"][0]["image"] = image.into();
    world.commit_file("app/work.json", &work.to_string())
}

fn of_jobs(verb: &'static str) -> impl Fn(&RequestRecord) -> bool {
    move |one: &RequestRecord| {
        one.client == CONTROLLER && one.resource == "jobs" && one.verb == verb && !one.dry_run
    }
}

/// The work of a Job that is deleted while it runs, and created again, would be done twice in one
/// sync: the stamp says that this sync has created it (SE-355).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_each_sync_recreates_runs_once_se_355() {
    let mut world = World::start().await;
    let revision = recreated(&world, "i:0");
    world.create_app(&world.application("app", "app")).await;
    // Also when it is created for the first time.
    let lost = || InjectedFault::new(Effect::StatusAfterApplying(504), of_jobs("create")).times(1);
    world.server.inject(lost());
    world.sync_until_good("app", json!({"revision": revision})).await;
    let deletions =
        |world: &World| world.server.requests().iter().filter(|one| of_jobs("delete")(one)).count();
    assert_eq!(deletions(&world), 0);
    for (round, fault) in [
        (1, None),
        (2, Some(Effect::StatusAfterApplying(504))),
        (3, Some(Effect::DropAfterApplying)),
        (4, Some(Effect::HangAfterApplying)),
    ] {
        let crashes = fault == Some(Effect::HangAfterApplying);
        let revision = recreated(&world, &format!("i:{round}"));
        world.refresh("app").await;
        world.server.forget_requests();
        if let Some(fault) = fault {
            world.server.inject(InjectedFault::new(fault, of_jobs("create")).times(1));
        }
        let before = world.get("batch/v1", "Job", "web", "work").await["metadata"]["uid"].clone();
        world.sync("app", json!({"revision": revision})).await;
        if crashes {
            until("the Job is created again", async || {
                let job = world.get("batch/v1", "Job", "web", "work").await;
                !job.is_null() && job["metadata"]["uid"] != before
            })
            .await;
            world.crash().await;
            world.run();
        }
        let is_synced = |app: &Value| {
            let synced = &app["status"]["operationState"]["syncResult"]["revision"];
            settled(app) && *synced == *revision && is(app, "Synced", "Healthy")
        };
        world.until("app", "synced", is_synced).await;
        assert_eq!(deletions(&world), 1, "round {round}");
        world.server.clear_faults();
    }
}

fn binding(role: &str) -> String {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": {"name": "team"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "name": "x", "apiGroup": RBAC}],
    })
    .to_string()
}

/// A binding with another role has to be created anew: not when that would be refused, and when it
/// is refused nevertheless, the old one is back, or the result says that it is lost (SE-343).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_binding_is_not_deleted_for_one_that_is_refused_se_343() {
    let world = World::start().await;
    let revision = world.commit_file("app/team.json", &binding("view"));
    world.create_app(&world.application("app", "app")).await;
    world.sync_until_good("app", json!({"revision": revision})).await;
    let creates = |only_real: bool| {
        move |one: &RequestRecord| {
            let asks = one.resource == "rolebindings" && one.verb == "create";
            one.client == CONTROLLER && asks && !(only_real && one.dry_run)
        }
    };
    let revision = world.commit_file("app/team.json", &binding("admin"));
    world.refresh("app").await;
    let live = async || {
        let found = world.get(&format!("{RBAC}/v1"), "RoleBinding", "web", "team").await;
        (found["roleRef"]["name"].clone(), found["metadata"]["uid"].clone())
    };
    let before = live().await;
    for (only_real, times, role, words) in [
        (false, usize::MAX, json!("view"), "was left as it is"),
        (true, 1, json!("view"), "was deleted and is restored"),
        (true, usize::MAX, Value::Null, "was deleted and is lost"),
    ] {
        world.server.clear_faults();
        let fault = InjectedFault::new(Effect::Forbidden, creates(only_real));
        world.server.inject(fault.times(times));
        let app = world.sync_to_end("app", json!({"revision": revision})).await;
        assert_eq!(phase(&app), "Failed", "{words}: {app}");
        let row = result(&app, "team");
        assert!(row["message"].as_str().unwrap().contains(words), "{row}");
        let now = live().await;
        assert_eq!(now.0, role, "{words}");
        assert_eq!(now == before, !only_real, "{words}");
    }
    world.server.clear_faults();
    world.sync_until_good("app", json!({"revision": revision})).await;
    assert_eq!(live().await.0, "admin");
}
