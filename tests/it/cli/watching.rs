//! `status --watch` and `explain --watch`.

use std::sync::Arc;

use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::core::DynamicObject;
use kube_sim::{Effect, InjectedFault, RequestRecord};

use super::embedded::Cluster;
use super::proxy::Proxy;
use super::*;
use crate::support::terminal::{Screen, Terminal};

const NOW: &str = "2026-01-02T03:04:05Z";

/// A cluster with a set in two steps, whose generator only the controller can evaluate.
struct Watched {
    cluster: Cluster,
    owner: Value,
}

impl Watched {
    async fn new(strategy: Value) -> Self {
        let cluster = Cluster::start().await;
        let mut object: Value = serde_json::from_str(&set(&["x"], json!([]))).unwrap();
        object["metadata"]["namespace"] = "argocd".into();
        object["spec"]["generators"] = json!([{"clusters": {}}]);
        object["spec"]["strategy"] = strategy;
        let created = cluster.create("ApplicationSet", object).await;
        let owner = json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "name": "set",
            "uid": created.metadata.uid, "controller": true, "blockOwnerDeletion": true,
        });
        Self { cluster, owner }
    }

    async fn rolling() -> Self {
        let steps = json!([selects(&["a", "b"], json!(1)), selects(&["c"], Value::Null)]);
        Self::new(json!({"type": "RollingSync", "rollingSync": {"steps": steps}})).await
    }

    async fn application(&self, name: &str, status: Value) {
        let metadata =
            json!({"name": name, "labels": {"app": name}, "ownerReferences": [self.owner]});
        let spec = json!({
            "project": "default", "destination": {"server": "https://1"},
            "source": {"repoURL": "https://r"},
        });
        let object = json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": metadata,
            "spec": spec, "status": status,
        });
        self.cluster.create("Application", object).await;
    }

    fn api(&self, kind: &str) -> Api<DynamicObject> {
        self.cluster.api(kind)
    }

    async fn becomes(&self, name: &str, status: Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        self.api("Application").patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    async fn status(&self, status: Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        self.api("ApplicationSet")
            .patch_status("set", &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Follows the set until a time limit, and expects that it says so, with these words.
    async fn runs_late(&self, command: &str, words: &str) {
        let mut printed = String::new();
        // On a busy machine the API server may not have answered after a second.
        for limit in ["1s", "10s", "50s"] {
            let late = self.cluster.run(&[command, "set", "--watch", "--timeout", limit]).await;
            assert_eq!(late.code, 1, "{}{}", late.out, late.err);
            if late.out.contains(&format!("set is not complete after {limit}. {words}")) {
                return;
            }
            printed = late.out;
        }
        panic!("{command}: no {words:?} in {printed}");
    }

    /// The program on a terminal.
    fn start(&self, arguments: &[&str], columns: u16, rows: u16) -> Terminal {
        let mut command = program(arguments);
        command.env("KUBECONFIG", self.cluster.kubeconfig());
        Terminal::run(command, columns, rows)
    }
}

/// A status with the phase of each Application.
fn rollout(step: u64, phases: [&str; 3], waiting: Value) -> Value {
    let mut status = argo(step, phases);
    let done = phases.iter().all(|phase| *phase == "Healthy");
    status["rollout"] = json!({
        "step": step, "steps": 2, "progress": "0/3", "startedAt": NOW, "waitingFor": waiting,
    });
    if done {
        status["rollout"]["progress"] = "3/3".into();
    }
    status
}

/// The same as Argo CD's own controller writes it.
fn argo(_: u64, phases: [&str; 3]) -> Value {
    let entry = |(name, phase): (&&str, &&str)| {
        let step = if *name == "c" { "2" } else { "1" };
        json!({"application": name, "status": phase, "step": step, "message": "m", "targetRevisions": [],
            "lastTransitionTime": "2026-01-02T03:05:10Z"})
    };
    let done = phases.iter().all(|phase| *phase == "Healthy");
    let entries: Value = ["a", "b", "c"].iter().zip(&phases).map(entry).collect();
    json!({
        "applicationStatus": entries,
        "conditions": [{"type": "RolloutProgressing", "status": if done { "False" } else { "True" },
            "reason": "x", "message": "y"}],
    })
}

fn healthy() -> Value {
    json!({
        "sync": {"status": "Synced"}, "health": {"status": "Healthy"}, "reconciledAt": NOW,
        "operationState": {"phase": "Succeeded", "operation": {}, "startedAt": NOW, "finishedAt": NOW},
    })
}

fn syncing(wait: &str) -> Value {
    json!({
        "sync": {"status": "OutOfSync"}, "health": {"status": "Progressing"}, "reconciledAt": NOW,
        "operationState": {"phase": "Running", "operation": {}, "startedAt": NOW,
            "message": format!("waiting for {wait}")},
    })
}

fn failed() -> Value {
    let web = json!({"group": "apps", "kind": "Deployment", "namespace": "shop", "name": "web",
        "health": {"status": "Degraded", "message": "image pull failed"}});
    json!({
        "sync": {"status": "Synced"}, "health": {"status": "Degraded"}, "reconciledAt": NOW,
        "resources": [web],
        "operationState": {"phase": "Failed", "operation": {}, "message": "one task failed",
            "startedAt": NOW, "finishedAt": NOW},
    })
}

/// Waits outside of the async runtime.
async fn until(terminal: &Arc<Terminal>, text: &'static str) -> Screen {
    let terminal = terminal.clone();
    tokio::task::spawn_blocking(move || terminal.until_shown(text)).await.unwrap()
}

/// Waits until all texts are shown at once.
async fn until_all<const N: usize>(terminal: &Arc<Terminal>, texts: [&'static str; N]) -> Screen {
    let terminal = terminal.clone();
    let all =
        move |screen: &Screen| texts.iter().all(|text| screen.shows(text)).then(|| screen.clone());
    tokio::task::spawn_blocking(move || terminal.until(&texts.join(", "), all)).await.unwrap()
}

/// Each kind is watched by a connection of its own.
async fn until_connected(terminal: &Arc<Terminal>, text: &'static str) {
    let terminal = terminal.clone();
    let both =
        move |screen: &Screen| (screen.shows(text) && !screen.shows("Disconnected")).then_some(());
    tokio::task::spawn_blocking(move || terminal.until(text, both)).await.unwrap();
}

async fn finish(terminal: &Arc<Terminal>) -> (i32, Screen) {
    let terminal = terminal.clone();
    tokio::task::spawn_blocking(move || terminal.finish()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_is_followed_on_a_screen_until_it_is_complete() {
    for (columns, rows) in [(80, 24), (120, 40)] {
        let watched = Watched::rolling().await;
        watched.application("a", syncing("healthy state of apps/Deployment/web")).await;
        watched.application("b", healthy()).await;
        watched.application("c", json!({"sync": {"status": "OutOfSync"}})).await;
        let waiting = json!([{"application": "a", "reason": "m", "since": NOW,
            "until": "2026-01-02T03:09:05Z"}]);
        watched.status(rollout(1, ["Progressing", "Healthy", "Waiting"], waiting)).await;
        let terminal = Arc::new(watched.start(&["status", "set", "--watch"], columns, rows));
        // Kinds are listed side by side, and drawn as they come. The wait has an age; its limit is
        // that of the start, which is over.
        let wanted = [
            "Wavegate  ApplicationSet set, 3 Applications",
            "1/2 done",
            "1 of 1 in flight  open",
            "Waiting for a: Deployment web for ",
        ];
        let screen = until_all(&terminal, wanted).await;
        assert!(screen.is_alternate && !screen.has_cursor, "{screen}");
        assert!(!screen.shows(" of 5m"), "{screen}");
        assert_eq!(screen.lines[0].chars().count(), usize::from(columns), "{screen}");

        watched.becomes("a", healthy()).await;
        watched.becomes("c", healthy()).await;
        watched.status(rollout(2, ["Healthy"; 3], json!([]))).await;
        let (code, last) = finish(&terminal).await;
        assert_eq!(code, 0, "{last}");
        // From the rollout's own start to its last change.
        assert!(last.shows("Rollout of set complete after 1m 5s"), "{last}");
        assert!(last.has_cursor && !last.is_alternate, "{last}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_are_transitions() {
    let watched = Watched::rolling().await;
    watched.application("a", syncing("healthy state of apps/Deployment/web")).await;
    watched.application("b", healthy()).await;
    watched.status(argo(1, ["Progressing", "Healthy", "Waiting"])).await;
    let arguments = ["status", "set", "--watch", "--plain"];
    let terminal = Arc::new(watched.start(&arguments, 200, 30));
    until(&terminal, "set, step 1 of 2, 1/3 done. Waiting for a: Deployment web").await;
    watched.becomes("a", healthy()).await;
    until(&terminal, "Synced and Healthy").await;
    watched.application("c", healthy()).await;
    watched.status(argo(2, ["Healthy"; 3])).await;
    let (code, last) = finish(&terminal).await;
    assert_eq!(code, 0, "{last}");
    assert!(!terminal.raw().contains('\u{1b}'), "{last}");
    let text = last.text();
    for line in ["step 1  a       Progressing → Healthy", "step 1  complete", "step 2  complete"]
    {
        assert!(text.contains(line), "{line}: {last}");
    }
    assert!(
        text.lines().all(|line| line.starts_with("20") || line.starts_with("Rollout")),
        "{last}"
    );
}

/// The watch never ended: a status names ten waits, and what a run held beyond these was taken for
/// such as can start.
#[tokio::test(flavor = "multi_thread")]
async fn an_aborted_run_of_more_applications_than_a_status_names_ends_it() {
    let names: Vec<String> = (0..12).map(|n| format!("a{n:02}")).collect();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let steps = json!([selects(&all, Value::Null)]);
    let watched =
        Watched::new(json!({"type": "RollingSync", "rollingSync": {"steps": steps}})).await;
    let (mut entries, mut waiting) = (Vec::new(), Vec::new());
    for name in &names {
        let compared =
            json!({"source": {"repoURL": "https://r"}, "destination": {"server": "https://1"}});
        let sync = json!({"status": "OutOfSync", "revision": "r2", "comparedTo": compared});
        let status = json!({"sync": sync, "health": {"status": "Healthy"}, "reconciledAt": NOW});
        watched.application(name, status).await;
        entries.push(json!({"application": name, "status": "Waiting", "step": "1", "message": "m",
            "targetRevisions": ["r2"], "lastTransitionTime": NOW}));
        waiting.push(json!({"application": name, "kind": "Quarantined", "since": NOW,
            "reason": "its run was aborted, and its target is not promoted to again"}));
    }
    waiting.truncate(10);
    let rollout =
        json!({"step": 1, "steps": 1, "progress": "0/12", "startedAt": NOW, "waitingFor": waiting});
    let condition =
        json!({"type": "RolloutProgressing", "status": "True", "reason": "x", "message": "y"});
    let status =
        json!({"applicationStatus": entries, "rollout": rollout, "conditions": [condition]});
    watched.status(status).await;
    for command in ["status", "explain"] {
        let arguments = [command, "set", "--watch", "--no-refresh", "--timeout", "60s"];
        let shown = watched.cluster.run(&arguments).await;
        assert_eq!(shown.code, 1, "{}{}", shown.out, shown.err);
        assert!(!shown.out.contains("is not complete after"), "{}", shown.out);
        assert!(shown.out.contains("its run was aborted"), "{}", shown.out);
    }
    let explained = watched.cluster.run(&["explain", "set", "--all", "-o", "json"]).await.json();
    let waits = explained["waits"].as_array().unwrap();
    assert_eq!(waits.len(), 12, "{explained}");
    for wait in waits.iter().filter(|wait| wait["kind"] != "Quarantined") {
        let advice = wait["advice"].as_str().unwrap();
        assert!(advice.contains("this one may be held like them"), "{wait}");
        assert!(!advice.contains("it can start now"), "{wait}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_only_a_person_can_continue_ends_it() {
    // A failed sync.
    let watched = Watched::rolling().await;
    watched.application("a", failed()).await;
    watched.application("b", healthy()).await;
    watched.application("c", json!({})).await;
    watched.status(rollout(1, ["Progressing", "Healthy", "Waiting"], json!([]))).await;
    let shown = watched.cluster.run(&["status", "set", "--watch"]).await;
    assert_eq!(shown.code, 1, "{}{}", shown.out, shown.err);
    let want = "Stopped in step 1: a: Deployment shop/web is Degraded: image pull failed; 1 Application is waiting";
    assert!(shown.out.contains(want), "{}", shown.out);
    assert!(shown.out.contains("What to do: wavegate explain -n argocd set"), "{}", shown.out);
    let all = watched.cluster.run(&["status", "--watch", "-A"]).await;
    assert_eq!(all.code, 1, "{}{}", all.out, all.err);
    let reason = watched.cluster.run(&["explain", "set", "--watch"]).await;
    assert_eq!(reason.code, 1, "{}{}", reason.out, reason.err);
    assert!(
        reason.out.lines().next().unwrap().contains("Z set waits in step 1 of 2: a: "),
        "{}",
        reason.out
    );
    assert!(reason.out.contains("What to do:"), "{}", reason.out);

    // A held step.
    let steps = json!([selects(&["a", "b", "c"], json!(0))]);
    let held = Watched::new(json!({"type": "RollingSync", "rollingSync": {"steps": steps}})).await;
    for name in ["a", "b", "c"] {
        held.application(name, json!({"sync": {"status": "OutOfSync"}, "reconciledAt": NOW})).await;
    }
    let mut status = rollout(1, ["Waiting"; 3], json!([]));
    status["applicationStatus"][2]["step"] = "1".into();
    held.status(status).await;
    let shown = held.cluster.run(&["status", "set", "--watch"]).await;
    assert_eq!(shown.code, 1, "{}{}", shown.out, shown.err);
    says(&shown.out, "waits for a manual sync of a, b, c (maxUpdate is 0)");

    // An error condition.
    held.status(json!({"conditions": [{"type": "ErrorOccurred", "status": "True",
        "reason": "RenderTemplateParamsError", "message": "there is no function shop"}]}))
        .await;
    let shown = held.cluster.run(&["status", "set", "--watch"]).await;
    assert_eq!(shown.code, 1, "{}{}", shown.out, shown.err);
    assert!(shown.out.contains("Stopped by an error: there is no function shop"), "{}", shown.out);

    // Switched off.
    let off = Watched::rolling().await;
    off.status(
        json!({"conditions": [{"type": "InvalidRolloutConfig", "status": "True", "reason": "x",
        "message": "progressive syncs are disabled in this controller"}]}),
    )
    .await;
    let shown = off.cluster.run(&["status", "set", "--watch"]).await;
    assert_eq!(shown.code, 1, "{}{}", shown.out, shown.err);
    assert!(shown.out.contains("progressive syncs are disabled"), "{}", shown.out);
}

/// An earlier failure in a closed step was blamed, and kept a complete rollout from ending.
#[tokio::test(flavor = "multi_thread")]
async fn a_failure_outside_of_the_open_step_holds_nothing() {
    let watched = Watched::rolling().await;
    let mut waits = healthy();
    waits["sync"]["status"] = "OutOfSync".into();
    // Not compared since.
    waits["operationState"]["finishedAt"] = "2026-01-02T03:05:00Z".into();
    watched.application("a", waits).await;
    watched.application("b", healthy()).await;
    watched.application("c", failed()).await;
    let waiting =
        json!([{"application": "a", "reason": "Pod shop/crash is OutOfSync", "since": NOW}]);
    watched.status(rollout(1, ["Progressing", "Healthy", "Waiting"], waiting)).await;
    let screen = Arc::new(watched.start(&["status", "set", "--watch"], 120, 30));
    let lines = Arc::new(watched.start(&["status", "set", "--watch", "--plain"], 200, 30));
    // Kinds are listed side by side, and drawn as they come.
    let wanted = ["Waiting for a for ", "1/2 done  1 of 1 in flight  open", "○ c  Waiting"];
    until_all(&screen, wanted).await;
    let said = until(&lines, "set, step 1 of 2, 1/3 done. Waiting for a for ").await;
    assert!(said.shows("Pod shop/crash is OutOfSync") && !said.shows("failed"), "{said}");

    // A commit puts it in sync without another sync.
    watched.becomes("a", healthy()).await;
    let mut reverted = healthy();
    reverted["operationState"]["phase"] = "Failed".into();
    watched.becomes("c", reverted).await;
    watched.status(rollout(2, ["Healthy"; 3], json!([]))).await;
    for terminal in [&screen, &lines] {
        let (code, last) = finish(terminal).await;
        assert_eq!(code, 0, "{last}");
        assert!(last.shows("Rollout of set complete"), "{last}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_applications_and_retries_have_their_reason() {
    let watched = Watched::rolling().await;
    let mut retried = syncing("");
    let failed = json!({"kind": "ConfigMap", "group": "", "version": "v1", "namespace": "nc", "name": "conf",
        "status": "SyncFailed", "message": "denied", "syncPhase": "Sync"});
    let state = &mut retried["operationState"];
    state["message"] = "it failed. Retrying attempt #1 at 6:53PM.".into();
    state["retryCount"] = 1.into();
    state["finishedAt"] = "2026-01-02T18:53:04Z".into();
    state["operation"] = json!({"retry": {"limit": 3, "backoff": {"duration": "8s"}}});
    state["syncResult"] = json!({"revision": "r", "resources": [failed]});
    watched.application("a", retried).await;
    let waiting = json!([
        {"application": "a", "reason": "m"},
        {"application": "b", "kind": "Refused", "reason": "the application is invalid: there is no project nope"},
    ]);
    let mut status = rollout(1, ["Progressing", "Waiting", "Waiting"], waiting);
    status["applicationStatus"].as_array_mut().unwrap().truncate(1);
    watched.status(status).await;
    let screen = Arc::new(watched.start(&["status", "set", "--watch"], 140, 30));
    let waits =
        "Waiting for a: attempt 2 of 4 at 18:53:12Z: ConfigMap nc/conf cannot be applied: denied";
    let why = waits.strip_prefix("Waiting for a: ").unwrap();
    // Kinds are listed side by side, and drawn as they come.
    let shown = until_all(&screen, [waits, "● a", "✘ b", "there is no project nope"]).await;
    assert!(shown.line_with("● a").is_some_and(|line| line.contains(why)), "{shown}");
    let refused = shown.line_with("✘ b").expect("a row of b");
    assert!(refused.contains("refused") && refused.contains("there is no project nope"), "{shown}");
    screen.ctrl('c');
    assert_eq!(finish(&screen).await.0, 130);
}

#[tokio::test(flavor = "multi_thread")]
async fn sets_without_steps_are_followed() {
    let watched = Watched::new(Value::Null).await;
    watched.application("a", healthy()).await;
    watched.application("b", syncing("healthy state of apps/Deployment/web")).await;
    watched
        .status(
            json!({"conditions": [{"type": "ResourcesUpToDate", "status": "True", "reason": "x",
        "message": "y"}]}),
        )
        .await;
    let terminal = Arc::new(watched.start(&["status", "--watch"], 80, 24));
    // Kinds are listed side by side, and drawn as they come.
    until_all(&terminal, ["Waiting for b", "All  all at once  1/2 done"]).await;
    watched.becomes("b", healthy()).await;
    let (code, last) = finish(&terminal).await;
    assert_eq!(code, 0, "{last}");
    assert!(last.shows("Rollout of set complete"), "{last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_set_and_a_time_limit_end_it() {
    let watched = Watched::rolling().await;
    watched.application("a", syncing("healthy state of apps/Deployment/web")).await;
    watched.status(rollout(1, ["Progressing", "Healthy", "Waiting"], json!([]))).await;
    watched.runs_late("status", "Waiting for a: Deployment web for ").await;
    watched.runs_late("explain", "").await;

    let terminals: Vec<Arc<Terminal>> = [vec!["status", "set", "-w"], vec!["explain", "set", "-w"]]
        .into_iter()
        .map(|arguments| Arc::new(watched.start(&arguments, 80, 24)))
        .collect();
    until(&terminals[0], "Waiting for a").await;
    until(&terminals[1], "set waits in step 1").await;
    watched.api("ApplicationSet").delete("set", &DeleteParams::default()).await.unwrap();
    for terminal in &terminals {
        let (code, last) = finish(terminal).await;
        assert_eq!(code, 1, "{last}");
        assert!(last.shows("ApplicationSet argocd/set was deleted."), "{last}");
    }
    let gone = watched.cluster.run(&["status", "set", "--watch"]).await;
    gone.fails(2, &["error: cannot find: ApplicationSet argocd/set: it does not exist"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_use_and_missing_permissions_are_errors() {
    let watched = Watched::rolling().await;
    let cases: [(&[&str], &str); 6] = [
        (&["status", "set", "--watch", "--timeout", "10"], "such as 90s, 10m or 1h30m"),
        (&["status", "set", "--watch", "--timeout", "-5s"], "--timeout"),
        (&["status", "set", "--watch", "--timeout", "0s"], "longer than 0"),
        (&["status", "set", "--timeout", "10m"], "--watch"),
        (&["status", "set", "--plain"], "--watch"),
        (&["explain", "set", "--watch", "-o", "json"], "--output"),
    ];
    for (arguments, want) in cases {
        watched.cluster.run(arguments).await.fails(2, &[want]);
    }
    // Bound, so that nothing else uses the port, and not listening.
    let bound = tokio::net::TcpSocket::new_v4().unwrap();
    bound.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let nobody = bound.local_addr().unwrap();
    let config = std::fs::read_to_string(watched.cluster.kubeconfig()).unwrap();
    let address = config.split("http://").nth(1).unwrap().split_whitespace().next().unwrap();
    let files = folder(&[("config", &config.replace(address, &nobody.to_string()))]);
    let mut dead = program(&["status", "set", "--watch", "--timeout", "5s"]);
    dead.env("KUBECONFIG", files.path().join("config"));
    let dead = tokio::task::spawn_blocking(move || dead.output().unwrap()).await.unwrap();
    let said = String::from_utf8(dead.stderr).unwrap();
    assert_eq!(dead.status.code(), Some(2), "{said}");
    let want = format!("ApplicationSet argocd/set: http://{nobody} cannot be reached: ");
    assert!(said.contains(&want) && said.contains("refused"), "{said}");
    let refuse =
        |request: &RequestRecord| request.verb == "watch" && request.resource == "applications";
    watched.cluster.server.inject(InjectedFault::new(Effect::Status(403), refuse).times(100));
    let refused = watched.cluster.run(&["status", "set", "--watch"]).await;
    refused.fails(2, &["error: cannot watch: Applications of namespace argocd: "]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_is_reported_and_opened_again() {
    let watched = Watched::rolling().await;
    watched.application("a", syncing("healthy state of apps/Deployment/web")).await;
    watched.application("b", healthy()).await;
    watched.application("z", healthy()).await;
    watched.status(rollout(1, ["Progressing", "Healthy", "Waiting"], json!([]))).await;
    let proxy = Proxy::in_front_of(&watched.cluster).await;
    let start = |arguments: &[&str]| {
        let mut command = program(arguments);
        command.env("KUBECONFIG", proxy.kubeconfig());
        Arc::new(Terminal::run(command, 120, 40))
    };
    let screen = start(&["status", "set", "--watch"]);
    let lines = start(&["status", "set", "--watch", "--plain"]);
    let reason = start(&["explain", "set", "--watch"]);
    until(&screen, "4 Applications").await;
    until(&lines, "set, step 1 of 2").await;
    until(&reason, "set waits in step 1").await;
    proxy.set_open(false);
    until(&screen, "Disconnected, retrying: ").await;
    until(&lines, "disconnected, retrying: ").await;
    until(&reason, "disconnected, retrying: ").await;
    // What happens meanwhile is seen later, deletions included.
    watched.api("Application").delete("z", &DeleteParams::default()).await.unwrap();
    watched.becomes("a", healthy()).await;
    watched.status(rollout(2, ["Healthy", "Healthy", "Waiting"], json!([]))).await;
    proxy.set_open(true);
    until(&lines, "connected again").await;
    until_connected(&screen, "3 Applications").await;
    until(&reason, "set waits in step 2").await;

    // A connection that hangs looks like one without changes.
    proxy.set_frozen(true);
    until(&screen, "Disconnected, retrying: no answer of the API server within 5 s").await;
    until(&lines, "disconnected, retrying: no answer").await;
    until(&reason, "disconnected, retrying: no answer").await;
    watched.application("y", healthy()).await;
    proxy.set_frozen(false);
    until_connected(&screen, "4 Applications").await;
    for terminal in [&screen, &lines, &reason] {
        terminal.ctrl('c');
        assert_eq!(finish(terminal).await.0, 130);
    }
}

/// What did not arrive while the API server was away was said to be a silence of the controller.
#[tokio::test(flavor = "multi_thread")]
async fn after_an_outage_the_controller_is_asked_again() {
    let watched = Watched::rolling().await;
    for name in ["a", "b", "c"] {
        watched.application(name, healthy()).await;
    }
    watched.status(rollout(2, ["Healthy", "Healthy", "Healthy"], json!([]))).await;
    let proxy = Proxy::in_front_of(&watched.cluster).await;
    let asked = |times: usize| {
        move |screen: &Screen| {
            let count = screen.history().matches("waiting for comparisons").count();
            (count >= times).then_some(())
        }
    };
    for arguments in [&["status", "set", "--watch", "--plain"][..], &["explain", "set", "--watch"]]
    {
        let mut command = program(arguments);
        command.env("KUBECONFIG", proxy.kubeconfig());
        let lines = Arc::new(Terminal::run(command, 120, 40));
        let until_asked = async |times: usize| {
            let lines = lines.clone();
            let until = move || lines.until("a request of comparisons", asked(times));
            tokio::task::spawn_blocking(until).await.unwrap();
        };
        until_asked(1).await;
        proxy.set_open(false);
        until(&lines, "disconnected, retrying: ").await;
        proxy.set_open(true);
        until_asked(2).await;
        assert!(!lines.screen().history().contains("no controller"), "{arguments:?}");
        lines.ctrl('c');
        assert_eq!(finish(&lines).await.0, 130);
    }
}

/// The screen of a large fleet fits a small window, and is drawn at most ten times a second.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_applications_fit_a_small_window() {
    let watched = Watched::new(Value::Null).await;
    let names: Vec<String> = (0..1000).map(|number| format!("app-{number:04}")).collect();
    for (number, name) in names.iter().enumerate() {
        let status = if number % 2 == 0 { healthy() } else { syncing("healthy state of a/B/c") };
        watched.application(name, status).await;
    }
    watched
        .status(
            json!({"conditions": [{"type": "ResourcesUpToDate", "status": "True", "reason": "x",
        "message": "y"}]}),
        )
        .await;
    let terminal = Arc::new(watched.start(&["status", "set", "-w"], 80, 24));
    let screen = until_all(&terminal, ["500/1000 done", "Waiting", "… ", " more"]).await;
    assert_eq!(screen.lines[23].split(' ').next(), Some("Waiting"), "{screen}");
    assert!(screen.shows("… ") && screen.shows(" more"), "{screen}");
    let (frames, begun) = (terminal.frames().len(), std::time::Instant::now());
    for name in names.iter().skip(1).step_by(2) {
        watched.becomes(name, healthy()).await;
    }
    let (code, last) = finish(&terminal).await;
    assert_eq!(code, 0, "{last}");
    let most = begun.elapsed().as_millis() / 100 + 3;
    let drawn = terminal.frames().len() - frames;
    assert!(drawn as u128 <= most, "{drawn} frames in {:?}", begun.elapsed());
}
