//! What people do to rollouts (ST-060 … ST-082): the requests, the words and the exit codes.
//!
//! ApplicationSets, runs and policies are written by hand, as a controller would.

use std::io::{BufRead, BufReader};
use std::process::{ChildStdout, Command};

use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::core::DynamicObject;
use kube_sim::{Effect, InjectedFault};

use super::embedded::Cluster;
use super::proxy::Proxy;
use super::*;
use crate::support::terminal::Terminal;

mod acting;

pub(super) const COMMIT: &str = "6d0c1f2a9b8c7d6e5f40312213a4b5c6d7e8f901";
const OTHER: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f0a9b8c7d6";
/// Moves the cursor; must never be printed.
pub(super) const HOSTILE: &str = "a\u{1b}[2Jb\u{202e}c";

/// A cluster with ApplicationSets and runs.
pub(super) struct World {
    pub cluster: Cluster,
    pub files: TempDir,
}

impl World {
    pub async fn start() -> Self {
        let cluster = Cluster::start().await;
        let config = std::fs::read_to_string(cluster.kubeconfig()).unwrap();
        let files = folder(&[]);
        for user in ["ann", "bob"] {
            let as_user = config.replace("user: {}", &format!("user: {{as: {user}}}"));
            assert_ne!(as_user, config);
            std::fs::write(files.path().join(user), as_user).unwrap();
        }
        Self { cluster, files }
    }

    pub fn api(&self, kind: &str) -> Api<DynamicObject> {
        self.cluster.api(kind)
    }

    /// Creates a set whose rollout is at 12 of 30; returns its owner reference.
    pub async fn set(&self, name: &str, labels: Value) -> Value {
        let mut object: Value = serde_json::from_str(&set(&["a"], json!([{}]))).unwrap();
        object["metadata"] = json!({"name": name, "namespace": "argocd", "labels": labels});
        let created = self.cluster.create("ApplicationSet", object).await;
        self.status(
            "ApplicationSet",
            name,
            json!({"rollout": {"step": 1, "steps": 2, "progress": "12/30"}}),
        )
        .await;
        json!([{"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "name": name,
            "uid": created.metadata.uid, "controller": true, "blockOwnerDeletion": true}])
    }

    pub async fn status(&self, kind: &str, name: &str, status: Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        self.api(kind).patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    pub async fn run(&self, owner: &Value, name: &str, status: Value) {
        let set = owner[0]["name"].clone();
        self.cluster.create("RolloutRun", json!({
            "apiVersion": "wavegate.dev/v1alpha1", "kind": "RolloutRun",
            "metadata": {"name": name, "ownerReferences": owner, "labels": {"wavegate.dev/application-set": set}},
            "spec": {"applicationSet": set},
        })).await;
        self.status("RolloutRun", name, status).await;
    }

    pub async fn application(&self, owner: &Value, name: &str, status: Value) {
        self.cluster
            .create(
                "Application",
                json!({
                    "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
                    "metadata": {"name": name, "ownerReferences": owner},
                    "spec": {"project": "default", "destination": {"server": "https://1"},
                        "source": {"repoURL": "https://r", "targetRevision": "main", "path": "."}},
                    "status": status,
                }),
            )
            .await;
    }

    /// A run has started an Application that was Healthy at these revisions before.
    pub async fn started(&self, name: &str, run: &str, good: &[&str]) {
        let uid = self.get("Application", name).await["metadata"]["uid"].clone();
        let start = json!({"run": run, "spec": "s", "revisions": [COMMIT], "at": "2026-01-02T03:00:00Z",
            "before": "Healthy", "good": good, "base": "b", "goesBack": false, "uid": uid});
        let annotations = json!({"wavegate.dev/run": start.to_string()});
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        self.api("Application").patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    pub async fn get(&self, kind: &str, name: &str) -> Value {
        serde_json::to_value(self.api(kind).get(name).await.unwrap()).unwrap()
    }

    pub fn command(&self, user: &str, args: &[&str]) -> Command {
        let mut command = program(args);
        command.env("KUBECONFIG", self.files.path().join(user));
        command
    }

    pub async fn by(&self, user: &str, args: &[&str]) -> Run {
        let command = self.command(user, args);
        tokio::task::spawn_blocking(move || finish(command, b"")).await.unwrap()
    }

    pub async fn ann(&self, args: &[&str]) -> Run {
        self.by("ann", args).await
    }
}

impl Run {
    /// Asserts success and the output.
    #[track_caller]
    fn prints(&self, want: &str) {
        assert_eq!((self.code, self.out.as_str()), (0, want), "{}", self.err);
    }
}

pub(super) fn gate(name: &str, approvals: i64) -> Value {
    json!({"name": name, "policy": "p", "applications": 18, "covers": "c1", "approvals": approvals,
        "waitingSince": "2026-01-02T03:00:00Z"})
}

pub(super) fn waits_for_approval(gates: &[Value]) -> Value {
    json!({"phase": "AwaitingApproval", "total": 30, "done": 12, "failed": 0, "progress": "12/30", "gates": gates,
        "to": [{"revision": COMMIT, "applications": 30}], "startedAt": "2026-01-02T03:00:00Z",
        "steps": [{"total": 12, "done": 12, "inFlight": 0, "failed": 0}, {"total": 18, "done": 0, "inFlight": 0, "failed": 0}]})
}

/// ST-020, ST-070, ST-071.
#[tokio::test(flavor = "multi_thread")]
async fn a_set_is_paused_and_resumed() {
    let world = World::start().await;
    world.set("shop", json!({"tier": "prod"})).await;
    let paused = async || {
        let set = world.get("ApplicationSet", "shop").await;
        set["metadata"]["annotations"]["wavegate.dev/paused"].clone()
    };
    let asked = world.ann(&["pause", "shop"]).await;
    asked.fails(2, &["error: cannot ask: wavegate pause: standard input is no terminal: --yes"]);
    let dry = world.ann(&["pause", "shop", "--dry-run", "--reason", "freeze"]).await;
    dry.prints("ApplicationSet argocd/shop: would pause it: nothing is promoted; 18 of 30 Applications are not complete; running syncs end by themselves\n");
    assert_eq!(paused().await, Value::Null, "neither of these writes");
    let done = world.ann(&["pause", "shop", "--yes", "--reason", "freeze"]).await;
    done.prints("ApplicationSet argocd/shop: paused\n");
    assert!(
        done.err.starts_with("note: ApplicationSet argocd/shop: will pause it"),
        "{}",
        done.err
    );
    assert_eq!(paused().await, "freeze (ann)");
    // Idempotent, and without a question.
    let again = world.by("bob", &["pause", "shop"]).await;
    again.prints("ApplicationSet argocd/shop: already: it is paused: freeze (ann)\n");
    let json = world.ann(&["pause", "shop", "-o", "json"]).await.json();
    let want = json!({"namespace": "argocd", "applicationSet": "shop", "run": null, "verb": "pause",
        "outcome": "already", "applications": 0, "message": "it is paused: freeze (ann)"});
    assert_eq!(json, want);
    world.ann(&["resume", "shop", "-y"]).await.prints("ApplicationSet argocd/shop: resumed\n");
    assert_eq!(paused().await, Value::Null);
    let ran = world.ann(&["resume", "shop"]).await;
    ran.prints("ApplicationSet argocd/shop: already: it is not paused\n");

    world.cluster.create("RolloutPolicy", json!({
        "apiVersion": "wavegate.dev/v1alpha1", "kind": "RolloutPolicy", "metadata": {"name": "night"},
        "spec": {"paused": true, "applicationSets": {"matchLabels": {"tier": "prod"}}},
    })).await;
    world.ann(&["resume", "shop", "-y"]).await.fails(1, &[
        "error: cannot resume: ApplicationSet argocd/shop: it is not paused by its annotation, but RolloutPolicy night pauses it: kubectl -n argocd patch rolloutpolicy night",
    ]);
    // The run has ended, or is none: what pauses the set is said all the same.
    world.ann(&["pause", "shop", "-y", "--reason", "freeze"]).await;
    let by_person =
        "paused: freeze (ann): nothing is promoted until wavegate resume -n argocd shop";
    let by_policy = "promoted until kubectl -n argocd patch rolloutpolicy night --type merge -p '{\"spec\":{\"paused\":false}}'";
    let commands: [&[&str]; 5] = [
        &["status"],
        &["status", "shop"],
        &["explain", "shop"],
        &["policies"],
        &["policies", "shop"],
    ];
    for args in commands {
        let shown = world.ann(args).await;
        assert_eq!(shown.code, 0, "{}", shown.err);
        assert!(shown.out.contains(by_person), "{args:?}: {}", shown.out);
        assert!(shown.out.contains(by_policy), "{args:?}: {}", shown.out);
    }
    world.ann(&["resume", "shop", "-y"]).await.prints("ApplicationSet argocd/shop: resumed\n");
    assert!(!world.ann(&["policies", "-A"]).await.out.contains("freeze"));
    let ran = world.ann(&["pause", "shpo", "-y"]).await;
    ran.fails(2, &["ApplicationSet argocd/shpo: it does not exist; did you mean shop?"]);
    world.ann(&["pause"]).await.fails(2, &["APPSET"]);
    let patch = Patch::Merge(json!({"spec": {"strategy": null}}));
    world.api("ApplicationSet").patch("shop", &PatchParams::default(), &patch).await.unwrap();
    world.ann(&["pause", "shop", "-y"]).await.fails(1, &[
        "ApplicationSet argocd/shop: it has no steps of a RollingSync: its Applications are synced by their own sync policies",
    ]);
    assert_eq!(paused().await, Value::Null);
}

/// ST-081: a plan names the gates and has a hash, which another gate changes.
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_checked_and_approved_by_its_hash() {
    let world = World::start().await;
    world.cluster.knows("default", "https://1").await;
    let owner = world.set("shop", json!({"tier": "prod"})).await;
    world.run(&owner, "shop-1", waits_for_approval(&[gate("production", 1)])).await;
    let policy = |approvals: u64| {
        json!({
            "apiVersion": "wavegate.dev/v1alpha1", "kind": "RolloutPolicy",
            "metadata": {"name": "night"},
            "spec": {
                "gates": [{"name": "production", "steps": [1], "approvals": approvals, "soak": "5m"}],
                "failures": {"max": 2},
            },
        })
    };
    world.cluster.create("RolloutPolicy", policy(1)).await;
    let plan = async || world.ann(&["plan", "--live", "shop", "-o", "json"]).await.json();
    let first = plan().await["steering"].clone();
    assert_eq!(first["gates"][0]["applications"], json!(["a"]), "{first}");
    assert_eq!(
        (&first["gates"][0]["approvals"], &first["gates"][0]["soak"]),
        (&json!(1), &json!("5m0s"))
    );
    let hash = first["hash"].as_str().unwrap();
    let text = world.ann(&["plan", "--live", "shop", "--check", hash]).await;
    assert_eq!(text.code, 0, "{}{}", text.out, text.err);
    // A policy of a file takes the place of the stored one, as if it were applied.
    let set = world.get("ApplicationSet", "shop").await;
    let of_file = async |policies: &[Value]| {
        let items = [&[set.clone()][..], policies].concat();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
        let files = folder(&[("all.json", &list)]);
        let file = in_folder(&files, "all.json");
        world.ann(&["plan", "--live", "-f", &file, "-o", "json"]).await.json()
    };
    assert_eq!(of_file(&[]).await["steering"], first, "the file has none");
    assert_eq!(of_file(&[policy(1)]).await["steering"], first, "the same");
    let mut other = policy(2);
    let changed = of_file(&[other.clone()]).await["steering"].clone();
    assert_eq!(changed["gates"][0]["approvals"], 2, "{changed}");
    assert_eq!(changed["gates"].as_array().map(Vec::len), Some(1), "{changed}");
    assert_ne!(changed["hash"], first["hash"]);
    other["metadata"]["name"] = json!("day");
    other["spec"]["gats"] = json!([]);
    let more = of_file(&[other]).await;
    assert_eq!(more["steering"]["policies"], json!(["day", "night"]), "{more}");
    assert_eq!(more["problems"][0]["code"], "UnknownField", "{more}");
    let words = [
        "gate production (policy night) holds 1 until 1 approval and a soak of 5m0s: a",
        "2 may fail, then Hold (policy night)",
        &format!("plan hash {hash}"),
    ];
    for words in words {
        assert!(text.out.contains(words), "{words}: {}", text.out);
    }
    let patch = json!({"spec": policy(2)["spec"]});
    let params = PatchParams::default();
    world.api("RolloutPolicy").patch("night", &params, &Patch::Merge(patch)).await.unwrap();
    let other = plan().await["steering"]["hash"].as_str().unwrap().to_owned();
    assert_ne!(other, hash);
    world.ann(&["plan", "--live", "shop", "--check", hash]).await.fails(1, &[&*other]);
    world.ann(&["approve", "shop", "-y", "--plan", hash]).await.fails(1, &["not approved", &other]);
    let run = world.get("RolloutRun", "shop-1").await;
    assert_eq!(run["spec"]["approvals"], Value::Null);
    world.ann(&["approve", "shop", "-y", "--plan", &other]).await;
    let run = world.get("RolloutRun", "shop-1").await;
    assert_eq!(run["spec"]["approvals"][0]["by"], "ann");
    world.ann(&["plan", "-f", "x", "--check", "h"]).await.fails(2, &["--live"]);
}

/// ST-081: flags that the controller has are given to both, since no plan shows them.
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_with_flags_of_the_controller_is_approved_with_the_same_flags() {
    let world = World::start().await;
    world.cluster.knows("default", "https://1").await;
    let owner = world.set("shop", json!({})).await;
    world.run(&owner, "shop-1", waits_for_approval(&[gate("production", 1)])).await;
    // It is not generated: its deletion is in the plan, unless the flags forbid it.
    world.application(&owner, "z", json!({})).await;
    let plan = async |flags: &[&str]| {
        let args = [&["plan", "--live", "shop", "-o", "json"][..], flags].concat();
        let plan = world.ann(&args).await.json();
        plan["steering"]["hash"].as_str().unwrap().to_owned()
    };
    let flags = ["--policy", "create-update"];
    let (hash, without) = (plan(&flags).await, plan(&[]).await);
    assert_ne!(hash, without);
    let approve = ["approve", "shop", "-y", "--plan", hash.as_str()];
    world.ann(&approve).await.fails(1, &["not approved", &without]);
    let approved = world.ann(&[&approve[..], &flags[..]].concat()).await;
    assert_eq!(approved.code, 0, "{}{}", approved.out, approved.err);
    let run = world.get("RolloutRun", "shop-1").await;
    assert_eq!(run["spec"]["approvals"][0]["by"], "ann");
}

/// ST-011: the words of both are kept, also when the server reports conflicts.
#[tokio::test(flavor = "multi_thread")]
async fn two_people_approve_at_once() {
    let world = World::start().await;
    let owner = world.set("shop", json!({})).await;
    world.run(&owner, "shop-9", json!({"phase": "Complete"})).await;
    world.run(&owner, "shop-10", waits_for_approval(&[gate("prod", 2)])).await;
    let patches = |request: &kube_sim::RequestRecord| {
        request.verb == "patch" && request.resource == "rolloutruns"
    };
    world.cluster.server.inject(InjectedFault::new(Effect::Status(409), patches).times(3));
    let args = ["approve", "shop", "--yes"];
    let (ann, bob) = tokio::join!(world.by("ann", &args), world.by("bob", &args));
    ann.prints("ApplicationSet argocd/shop: approved (run shop-10)\n");
    bob.prints("ApplicationSet argocd/shop: approved (run shop-10)\n");
    let approvals = world.get("RolloutRun", "shop-10").await["spec"]["approvals"].clone();
    let mut by: Vec<&str> =
        approvals.as_array().unwrap().iter().map(|one| one["by"].as_str().unwrap()).collect();
    by.sort_unstable();
    assert_eq!(by, ["ann", "bob"], "{approvals}");
    assert!(
        approvals
            .as_array()
            .unwrap()
            .iter()
            .all(|one| one["covers"] == "c1" && one["gate"] == "prod")
    );
    let again = world.ann(&args).await;
    assert!(
        again.code == 0
            && again.out.contains("already: ann has approved these targets of gate prod"),
        "{}{}",
        again.out,
        again.err
    );
    assert_eq!(world.get("RolloutRun", "shop-9").await["spec"]["approvals"], Value::Null);

    // The targets change between the question and the answer: they are not what was approved.
    world.status("RolloutRun", "shop-10", json!({"gates": [gate("eu", 1)]})).await;
    let terminal = Terminal::run(world.command("ann", &["approve", "shop"]), 200, 20);
    terminal.until_shown("Proceed? [y/N]");
    let mut moved = gate("eu", 1);
    moved["covers"] = "c2".into();
    world.status("RolloutRun", "shop-10", json!({"gates": [moved]})).await;
    terminal.enter("y");
    let (code, screen) = terminal.finish();
    // The version that was read is not the newest one, so that the server refuses the first write.
    assert!(
        code == 1 && screen.text().contains("it has changed in the meantime"),
        "{code}: {}",
        screen.text()
    );
    let refused = Terminal::run(world.command("ann", &["approve", "shop"]), 200, 20);
    refused.until_shown("Proceed? [y/N]");
    refused.enter("no");
    let (code, screen) = refused.finish();
    assert!(code == 1 && screen.text().contains("not confirmed"), "{code}: {}", screen.text());
    assert_eq!(
        world.get("RolloutRun", "shop-10").await["spec"]["approvals"].as_array().unwrap().len(),
        2
    );
}

/// ST-020: what another person says before the answer is neither deleted nor replaced.
#[tokio::test(flavor = "multi_thread")]
async fn a_newer_pause_of_another_person_is_kept() {
    let world = World::start().await;
    world.set("shop", json!({})).await;
    let paused = async || {
        let set = world.get("ApplicationSet", "shop").await;
        set["metadata"]["annotations"]["wavegate.dev/paused"].clone()
    };
    world.ann(&["pause", "shop", "-y", "--reason", "audit"]).await;
    for (args, newer) in [
        (&["resume", "shop"][..], "incident 1"),
        (&["pause", "shop", "--reason", "freeze"], "incident 2"),
    ] {
        let terminal = Terminal::run(world.command("ann", args), 200, 20);
        terminal.until_shown("Proceed? [y/N]");
        let bob = world.by("bob", &["pause", "shop", "-y", "--reason", newer]).await;
        assert_eq!(bob.code, 0, "{}", bob.err);
        terminal.enter("y");
        let (code, screen) = terminal.finish();
        assert!(
            code == 1 && screen.text().contains("it has changed in the meantime"),
            "{code}: {}",
            screen.text()
        );
        assert_eq!(paused().await, format!("{newer} (bob)"));
    }
    // Another version of the same word.
    let terminal = Terminal::run(world.command("ann", &["resume", "shop"]), 200, 20);
    terminal.until_shown("Proceed? [y/N]");
    let later = json!({"rollout": {"step": 1, "steps": 2, "progress": "13/30"}});
    world.status("ApplicationSet", "shop", later).await;
    terminal.enter("y");
    let (code, screen) = terminal.finish();
    assert!(code == 0, "{code}: {}", screen.text());
    assert_eq!(paused().await, Value::Null);
}

/// ST-071: without the server's word it is the kube context's user, marked as such.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_review_the_user_of_the_context_is_marked() {
    let world = World::start().await;
    let owner = world.set("shop", json!({})).await;
    world.run(&owner, "shop-1", waits_for_approval(&[gate("prod", 1)])).await;
    let reviews = |request: &kube_sim::RequestRecord| request.resource == "selfsubjectreviews";
    world.cluster.server.inject(InjectedFault::new(Effect::Status(404), reviews).times(9));
    let ran = world.ann(&["abort", "shop", "-y"]).await;
    ran.prints("ApplicationSet argocd/shop: abort requested (run shop-1)\n");
    let abort = world.get("RolloutRun", "shop-1").await["spec"]["abort"].clone();
    assert_eq!(abort["by"], "kube-sim (kube context)", "{abort}");
}

/// ST-060, ST-061, ST-063, ST-064.
#[tokio::test(flavor = "multi_thread")]
async fn runs_are_ended_retried_and_reduced() {
    let world = World::start().await;
    let owner = world.set("shop", json!({})).await;
    world.application(&owner, "shop-eu", json!({})).await;
    world.application(&json!([]), "alone", json!({})).await;
    let spec = async || world.get("RolloutRun", "shop-1").await["spec"].clone();
    for (args, why) in [
        (&["abort", "shop", "-y"][..], "cannot abort: ApplicationSet argocd/shop: it has no run"),
        (&["skip", "shop-eu", "-y"], "cannot skip: ApplicationSet argocd/shop: it has no run"),
        (&["skip", "alone", "-y"], "Application argocd/alone: it belongs to no ApplicationSet"),
    ] {
        world.ann(args).await.fails(1, &[why]);
    }
    let held = json!({"phase": "Held", "total": 30, "done": 12, "failed": 2,
        "steps": [{"total": 30, "done": 12, "inFlight": 3, "failed": 2}]});
    world.run(&owner, "shop-1", held).await;
    let ran = world.ann(&["skip", "shop-eu", "shop-eu", "-y"]).await;
    ran.prints("ApplicationSet argocd/shop: skipped (run shop-1)\n");
    assert_eq!(spec().await["skip"], json!(["shop-eu"]));
    let again = world.ann(&["skip", "shop-eu"]).await;
    again.prints("ApplicationSet argocd/shop: already: run shop-1 skips shop-eu\n");
    let skipped = world.ann(&["retry", "shop-eu", "-y"]).await;
    let undo = "run shop-1 skips shop-eu: wavegate skip shop-eu --undo takes it in again";
    skipped.fails(1, &[undo]);
    let dry = world.ann(&["skip", "shop-eu", "--undo", "--dry-run", "-o", "json"]).await.json();
    assert_eq!((&dry["outcome"], &dry["verb"]), (&json!("planned"), &json!("skip --undo")));
    assert_eq!(spec().await["skip"], json!(["shop-eu"]));
    let ran = world.ann(&["skip", "shop-eu", "--undo", "-y"]).await;
    ran.prints("ApplicationSet argocd/shop: skipped no more (run shop-1)\n");
    assert_eq!(spec().await["skip"], json!([]));
    let again = world.ann(&["skip", "shop-eu", "--undo"]).await;
    again.prints("ApplicationSet argocd/shop: already: run shop-1 does not skip shop-eu\n");
    let ran = world.ann(&["retry", "shop-eu", "-y"]).await;
    ran.prints("ApplicationSet argocd/shop: retry requested (run shop-1)\n");
    let ran = world.ann(&["retry", "shop", "-y"]).await;
    ran.prints("ApplicationSet argocd/shop: retry requested (run shop-1)\n");
    let retries = spec().await["retries"].clone();
    assert_eq!(
        (&retries[0]["applications"], &retries[1]["applications"]),
        (&json!(["shop-eu"]), &Value::Null),
        "{retries}"
    );
    let missing = world.ann(&["retry", "shpo", "-y"]).await;
    missing.fails(2, &["error: cannot find: argocd/shpo: there is neither an Application nor an ApplicationSet", "did you mean shop?"]);
    // It was complete with what it found, and its Applications say that it has started none.
    let none = "run shop-1 has started no Application: abort it instead";
    world.ann(&["rollback", "shop", "--dry-run"]).await.fails(1, &[none]);
    // None of what it started has a revision to go back to.
    world.started("shop-eu", "shop-1", &[]).await;
    let nothing = "none of 1 Application that run shop-1 started can go back by itself";
    world.ann(&["rollback", "shop", "--dry-run"]).await.fails(1, &[nothing]);
    let data = world.ann(&["rollback", "shop", "--dry-run", "-o", "json"]).await.json();
    assert_eq!(data["verb"], "rollback");
    world.ann(&["rollback", "shop", "-y"]).await.fails(1, &["cannot rollback: ", nothing]);
    world.started("shop-eu", "shop-1", &[OTHER]).await;
    let ran = world.ann(&["rollback", "shop"]).await;
    ran.fails(2, &["cannot ask: wavegate rollback: standard input is no terminal"]);
    let dry = world.ann(&["rollback", "shop", "--dry-run", "-o", "json"]).await.json();
    assert_eq!(
        (&dry["outcome"], &dry["applications"], &dry["run"]),
        (&json!("planned"), &json!(1), &json!("shop-1"))
    );
    assert!(dry["message"].as_str().unwrap().contains("1 of 1 Application "), "{dry}");
    assert_eq!(spec().await["rollback"], Value::Null);
    let ran = world.ann(&["rollback", "shop", "-y"]).await;
    ran.prints("ApplicationSet argocd/shop: rollback requested (run shop-1)\n");
    let ran = world.ann(&["abort", "shop", "--terminate", "-y"]).await;
    ran.prints("ApplicationSet argocd/shop: abort requested (run shop-1)\n");
    let written = spec().await;
    assert_eq!(
        (&written["rollback"]["by"], &written["abort"]["by"], &written["abort"]["terminate"]),
        (&json!("ann"), &json!("ann"), &json!(true))
    );

    world.status("RolloutRun", "shop-1", json!({"phase": "Complete", "failed": 0})).await;
    for (args, why) in [
        (
            &["approve", "shop", "-y"][..],
            "run shop-1 has ended (Complete): nothing waits for an approval",
        ),
        (&["skip", "shop-eu", "-y"], "already"),
    ] {
        let run = world.ann(args).await;
        assert!(run.code == 1, "{args:?}: {}{}", run.out, run.err);
        assert!(run.err.contains(why) || run.err.contains("has ended"), "{args:?}: {}", run.err);
    }
    // A program gets an answer to a refusal, too.
    let done = json!({"sync": {"status": "Synced"}, "health": {"status": "Healthy"}});
    world.application(&owner, "a", done).await;
    let entry = json!({"application": "a", "status": "Healthy", "step": "1", "message": "m",
        "targetRevisions": [COMMIT], "lastTransitionTime": "2026-01-02T03:04:05Z"});
    world.status("ApplicationSet", "shop", json!({"applicationStatus": [entry]})).await;
    let refused = world.ann(&["skip", "a", "shop-eu", "-y", "-o", "json"]).await;
    assert_eq!(
        (refused.code, &refused.json()["outcome"]),
        (1, &json!("refused")),
        "{}",
        refused.err
    );
    refused.fails(
        1,
        &["cannot skip: ApplicationSet argocd/shop: a is complete: its rollout does not"],
    );
    world.set("other", json!({})).await;
    let ran = world.ann(&["approve", "shop-eu", "-y"]).await;
    ran.fails(2, &["shop-eu is an Application of the ApplicationSet shop: use that name"]);
}

/// ST-050: with the hash that the condition names.
#[tokio::test(flavor = "multi_thread")]
async fn held_deletions_are_approved() {
    let world = World::start().await;
    world.set("shop", json!({})).await;
    world.ann(&["approve", "shop", "--deletions", "-y"]).await.fails(1, &["no deletions are held"]);
    let message = format!(
        "2 applications wait to be deleted until a person approves it: a, {HOSTILE}; to delete them: kubectl -n argocd annotate applicationset shop --overwrite wavegate.dev/approved-deletions=0123456789abcdef"
    );
    let held = json!({"type": "DeletionsHeld", "status": "True", "reason": "GeneratorFoundNothing", "message": message,
        "lastTransitionTime": "2026-01-02T03:00:00Z"});
    world.status("ApplicationSet", "shop", json!({"conditions": [held]})).await;
    let done = world.ann(&["approve", "shop", "--deletions", "-y"]).await;
    done.prints("ApplicationSet argocd/shop: approved\n");
    says(&done.err, "will approve these deletions (0123456789abcdef): 2 applications wait");
    assert!(!done.err.contains('\u{1b}') && !done.err.contains('\u{202e}'), "{:?}", done.err);
    let set = world.get("ApplicationSet", "shop").await;
    assert_eq!(
        set["metadata"]["annotations"]["wavegate.dev/approved-deletions"],
        "0123456789abcdef"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn several_sets_are_selected() {
    let world = World::start().await;
    let one = world.set("one", json!({"tier": "prod"})).await;
    world.set("two", json!({"tier": "prod"})).await;
    world.set("three", json!({"tier": "dev"})).await;
    world.run(&one, "one-1", waits_for_approval(&[gate("prod", 1)])).await;
    let paused = world.ann(&["pause", "-l", "tier=prod", "-y", "-o", "json"]).await;
    let names: Vec<Value> =
        paused.json().as_array().unwrap().iter().map(|one| one["applicationSet"].clone()).collect();
    assert_eq!((paused.code, names), (0, vec![json!("one"), json!("two")]), "{}", paused.err);
    let all = world.ann(&["pause", "-A", "-y"]).await;
    all.prints("ApplicationSet argocd/one: already: it is paused: no reason given (ann)\nApplicationSet argocd/three: paused\nApplicationSet argocd/two: already: it is paused: no reason given (ann)\n");
    // Where it makes no sense is left out.
    let approved = world.ann(&["approve", "-A", "-y"]).await;
    approved.prints("ApplicationSet argocd/one: approved (run one-1)\n");
    says(&approved.err, "note: ApplicationSet argocd/two: left out: it has no run");
    let ran = world.ann(&["approve", "-l", "tier=dev", "-y"]).await;
    ran.fails(1, &["error: cannot approve: ApplicationSet argocd/three: it has no run"]);
    let ran = world.ann(&["pause", "-l", "tier=none", "-y"]).await;
    ran.fails(2, &["none has the labels tier=none"]);
    world.ann(&["pause", "one", "-A", "-y"]).await.fails(2, &["cannot be used with"]);
}

/// ST-006: without the definitions of wavegate.dev a pause works, and the others say what is missing.
#[tokio::test(flavor = "multi_thread")]
async fn without_definitions_it_is_said_what_is_missing() {
    let world = World::start().await;
    let owner = world.set("shop", json!({})).await;
    let done =
        json!({"sync": {"status": "Synced", "revision": COMMIT}, "health": {"status": "Healthy"}});
    world.application(&owner, "a", done).await;
    let definitions: Api<k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition> =
        Api::all(world.cluster.client.clone());
    for name in ["rolloutruns.wavegate.dev", "rolloutpolicies.wavegate.dev"] {
        definitions.delete(name, &DeleteParams::default()).await.unwrap();
    }
    world.ann(&["pause", "shop", "-y"]).await.prints("ApplicationSet argocd/shop: paused\n");
    let resumed = world.ann(&["resume", "shop", "-y"]).await;
    resumed.prints("ApplicationSet argocd/shop: resumed\n");
    assert!(!resumed.err.contains("not installed"), "{}", resumed.err);
    let commands: [&[&str]; 4] = [
        &["approve", "shop", "-y"],
        &["history", "shop"],
        &["policies"],
        &["wait", "shop", "--run", "shop-1"],
    ];
    for args in commands {
        world.ann(args).await.fails(
            2,
            &["the CustomResourceDefinition is not installed; apply the output of wavegate crds"],
        );
    }
    // The Applications count.
    let entry = json!({"application": "a", "status": "Healthy", "step": "1", "message": "m", "targetRevisions": [COMMIT],
        "lastTransitionTime": "2026-01-02T03:04:05Z"});
    let complete = json!({"rollout": {"step": 1, "steps": 1, "progress": "1/1"}, "applicationStatus": [entry]});
    world.status("ApplicationSet", "shop", complete).await;
    let wait = world
        .ann(&["wait", "shop", "--revision", &COMMIT[..7], "--no-refresh", "--timeout", "60s"])
        .await;
    assert_eq!(wait.code, 0, "{}{}", wait.out, wait.err);
    says(&wait.err, "note: runs cannot be read, and its Applications count instead");
}

/// ST-082.
#[tokio::test(flavor = "multi_thread")]
async fn runs_and_policies_are_shown() {
    let world = World::start().await;
    let owner = world.set("shop", json!({})).await;
    let empty = world.ann(&["history", "shop"]).await;
    empty.prints("ApplicationSet argocd/shop has no runs: nothing was rolled out in steps since runs are recorded.\n");
    world.run(&owner, "shop-9", json!({"phase": "Complete", "total": 2, "done": 2, "failed": 0, "message": HOSTILE,
        "from": [{"revision": OTHER, "applications": 2}], "to": [{"revision": COMMIT, "applications": 1}, {"revision": "1.2.3", "applications": 1}],
        "startedAt": "2026-01-02T03:00:00Z", "endedAt": "2026-01-02T03:05:00Z", "endedBy": "ann",
        "steps": [{"total": 2, "done": 2, "inFlight": 0, "failed": 0, "openedAt": "2026-01-02T03:00:00Z", "completedAt": "2026-01-02T03:05:00Z", "gates": ["prod"]}],
        "gates": [{"name": "prod", "policy": "p", "applications": 2, "approvals": 1, "approvedBy": ["bob"], "openedAt": "2026-01-02T03:01:00Z", "covers": "c1", "openedFor": "c1"}],
        "failures": [{"signature": "s", "count": 5, "applications": ["a", "b", "c"], "message": "image not found"}],
        "timeline": [{"at": "2026-01-02T03:01:00Z", "what": "Approved", "subject": "prod", "by": "bob", "message": HOSTILE}]})).await;
    world.run(&owner, "shop-10", waits_for_approval(&[gate("prod", 1)])).await;
    let listed = world.ann(&["history", "shop"]).await;
    let lines: Vec<String> = listed
        .out
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(lines[0], "RUN PHASE FROM TO STEPS DONE FAILED STARTED DURATION");
    assert!(
        lines[1].starts_with("shop-10 AwaitingApproval - 6d0c1f2 2/2 12/30 0")
            || lines[1].starts_with("shop-10 AwaitingApproval - 6d0c1f2"),
        "{}",
        lines[1]
    );
    assert!(
        lines[2].starts_with("shop-9 Complete 0f1e2d3 6d0c1f2 and 1 more 1/1 2/2 0 "),
        "{}",
        lines[2]
    );
    assert!(lines[2].ends_with(" 5m"), "{}", lines[2]);
    for args in [
        &["history", "shop", "9"][..],
        &["history", "shop", "shop-9"],
        &["history", "shop", "-o", "wide"],
    ] {
        let shown = world.ann(args).await;
        assert_eq!(shown.code, 0, "{}", shown.err);
        assert!(
            !shown.out.contains('\u{1b}') && !shown.out.contains('\u{202e}'),
            "{:?}",
            shown.out
        );
        assert!(shown.out.contains("\\u{1b}"), "{}", shown.out);
    }
    let one = world.ann(&["history", "shop", "9"]).await.out;
    for part in [
        "Run shop-9 of ApplicationSet argocd/shop: Complete: ",
        "6d0c1f2 (1 Application), 1.2.3 (1 Application)",
        "2026-01-02T03:05:00Z, after 5m, by ann",
        "a, b, c and 2 more",
        "Approved",
        "open since 2026-01-02T03:01:00Z",
    ] {
        assert!(one.contains(part), "{part}: {one}");
    }
    let data = world.ann(&["history", "shop", "10", "-o", "json"]).await.json();
    assert_eq!(
        (&data["number"], &data["phase"], &data["gates"][0]["name"]),
        (&json!(10), &json!("AwaitingApproval"), &json!("prod"))
    );
    let ran = world.ann(&["history", "shop", "shop-90"]).await;
    ran.fails(2, &["run shop-90 of ApplicationSet argocd/shop: it does not exist"]);
    let negative = world.ann(&["history", "shop", "-1"]).await;
    negative.fails(2, &["run -1 of ApplicationSet argocd/shop: it does not exist"]);

    world.cluster.create("RolloutPolicy", json!({
        "apiVersion": "wavegate.dev/v1alpha1", "kind": "RolloutPolicy", "metadata": {"name": "prod"},
        "spec": {"applicationSets": {"names": ["shop"]}, "gates": [{"name": "prod", "steps": [2], "approvals": 2, "soak": "30m"}],
            "failures": {"max": 2, "onFailure": "Rollback", "same": 3}, "pace": {"maxInFlight": 50}, "deletions": {"max": "10%"}},
    })).await;
    let problem = json!({"type": "Valid", "status": "False", "reason": "x", "message": HOSTILE, "lastTransitionTime": "2026-01-02T03:00:00Z"});
    world
        .status(
            "RolloutPolicy",
            "prod",
            json!({"selected": 1, "applicationSets": ["shop"], "conditions": [problem]}),
        )
        .await;
    let policies = world.ann(&["policies", "shop"]).await;
    let row = policies
        .out
        .lines()
        .nth(1)
        .unwrap_or_default()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert_eq!(
        row,
        "argocd prod 1: shop prod: 2 approvals, soak 30m at most 2 failures, then Rollback, 3 of the same failure, 50 in flight, 10% deletions a\\u{1b}[2Jb\\u{202e}c"
    );
    assert_eq!(world.ann(&["policies", "-A", "-o", "json"]).await.json()[0]["selected"], 1);
    world.set("other", json!({})).await;
    let ran = world.ann(&["policies", "other"]).await;
    ran.prints("No RolloutPolicy selects ApplicationSet argocd/other.\n");
}

/// ST-072.
#[tokio::test(flavor = "multi_thread")]
async fn a_pipeline_waits_for_its_own_commit() {
    let world = World::start().await;
    let owner = world.set("shop", json!({})).await;
    let to = |revision: &str, phase: &str| {
        json!({"phase": phase, "total": 2, "done": 1, "failed": 0, "message": "step 1",
        "to": [{"revision": revision, "applications": 2}]})
    };
    world.run(&owner, "shop-1", to(OTHER, "Progressing")).await;
    // A run of another commit is not the one, however long it takes.
    let mut over = None;
    // On a busy machine the API server may not have answered after a second.
    for limit in ["1s", "10s", "50s"] {
        let until = ["wait", "shop", "--revision", COMMIT, "--no-refresh", "--timeout", limit];
        let run = world.ann(&until).await;
        let is_last = run.err.contains("shop-1");
        over = Some((limit, run));
        if is_last {
            break;
        }
    }
    let (limit, over) = over.unwrap();
    let after = limit.replace('s', " s");
    over.fails(1, &[&format!("error: not complete in time: ApplicationSet argocd/shop: after {after}: waits for a run of commit 6d0c1f2; the last one is shop-1 of 0f1e2d3 (Progressing)")]);
    world.ann(&["wait", "shop", "--revision", "6d0c1"]).await.fails(2, &["at least 7 characters"]);
    world.ann(&["wait", "shop", "--run", "shop-2"]).await.fails(
        2,
        &["run shop-2 of ApplicationSet argocd/shop: it does not exist; did you mean shop-1?"],
    );

    // It appears, waits for an approval, and completes: by watches.
    let command = world.command(
        "ann",
        &["wait", "shop", "--revision", &COMMIT[..8], "--no-refresh", "--timeout", "150s"],
    );
    let waiting = Waiting::start(command);
    let waiting = waiting.until("waits for a run of commit 6d0c1f2").await;
    world.run(&owner, "shop-2", waits_for_approval(&[gate("prod", 1)])).await;
    let waiting = waiting.until("wavegate approve -n argocd shop --gate prod").await;
    world.status("RolloutRun", "shop-2", to(COMMIT, "Complete")).await;
    waiting.until("run shop-2 of 6d0c1f2 is Complete").await.ends(0, "").await;
    // At once, although no controller answers.
    let again = world.ann(&["wait", "shop", "--revision", COMMIT, "-o", "json"]).await;
    let data = again.json();
    assert_eq!(
        (again.code, &data["outcome"], &data["run"]["run"]),
        (0, &json!("complete"), &json!("shop-2")),
        "{}",
        again.err
    );
    let passed = world.ann(&["wait", "shop", "--revision", OTHER, "--no-refresh"]).await;
    passed.fails(1, &["run shop-1 is superseded, by run shop-2 of 6d0c1f2"]);

    for (phase, outcome) in [
        ("Held", "held"),
        ("Aborted", "aborted"),
        ("RolledBack", "rolledBack"),
        ("CompleteWithFailures", "completeWithFailures"),
    ] {
        world.status("RolloutRun", "shop-2", to(COMMIT, phase)).await;
        let failed = world.ann(&["wait", "shop", "--run", "2", "-o", "json"]).await;
        assert_eq!(
            (failed.code, &failed.json()["outcome"]),
            (1, &json!(outcome)),
            "{}",
            failed.err
        );
        failed.fails(1, &[&format!("run shop-2 of 6d0c1f2 is {phase}, 1/2 complete: step 1")]);
        let newest = world.ann(&["wait", "shop", "--no-refresh", "--timeout", "60s"]).await;
        newest.fails(1, &["the rollout is not complete"]);
    }
    // Another change takes its place while it is waited for.
    world.status("RolloutRun", "shop-2", to(COMMIT, "Progressing")).await;
    let command = world.command(
        "ann",
        &["wait", "shop", "--revision", COMMIT, "--no-refresh", "--timeout", "150s"],
    );
    let waiting = Waiting::start(command).until("run shop-2 of 6d0c1f2 is Progressing").await;
    world.run(&owner, "shop-3", to(OTHER, "Progressing")).await;
    waiting.ends(1, "run shop-2 is superseded, by run shop-3 of 0f1e2d3").await;
    // The set goes.
    let command = world.command("ann", &["wait", "shop", "--no-refresh", "--timeout", "150s"]);
    let waiting = Waiting::start(command).until("run shop-3 of 0f1e2d3 is Progressing").await;
    world.api("ApplicationSet").delete("shop", &DeleteParams::default()).await.unwrap();
    waiting.ends(1, "it was deleted").await;
}

/// ST-003, ST-072: the end of a run that the commit has joined is stored before its own run.
#[tokio::test(flavor = "multi_thread")]
async fn a_pipeline_whose_commit_joined_a_run_waits_for_its_own() {
    let world = World::start().await;
    let owner = world.set("shop", json!({})).await;
    let both =
        json!([{"revision": OTHER, "applications": 2}, {"revision": COMMIT, "applications": 1}]);
    let superseded = json!({"phase": "Superseded", "total": 3, "done": 1, "failed": 1, "to": both});
    world.run(&owner, "shop-1", superseded).await;
    let command = world.command(
        "ann",
        &["wait", "shop", "--revision", COMMIT, "--no-refresh", "--timeout", "150s"],
    );
    let waiting = Waiting::start(command);
    let last = "waits for a run of commit 6d0c1f2; the last one is shop-1 of 0f1e2d3 and 1 more (Superseded)";
    let waiting = waiting.until(last).await;
    let to = |phase: &str| {
        json!({"phase": phase, "total": 3, "done": 3, "failed": 0,
            "to": [{"revision": COMMIT, "applications": 3}]})
    };
    world.run(&owner, "shop-2", to("Progressing")).await;
    let waiting = waiting.until("run shop-2 of 6d0c1f2 is Progressing").await;
    world.status("RolloutRun", "shop-2", to("Complete")).await;
    waiting.until("run shop-2 of 6d0c1f2 is Complete").await.ends(0, "").await;
}

/// ST-003, ST-072: it waited for the run of a strategy that was removed, until its time was over.
#[tokio::test(flavor = "multi_thread")]
async fn a_pipeline_does_not_wait_for_a_strategy_that_was_removed() {
    let world = World::start().await;
    let owner = world.set("shop", json!({})).await;
    let status = |phase: &str, message: &str| {
        json!({"phase": phase, "message": message, "total": 3, "done": 1, "failed": 0,
            "to": [{"revision": COMMIT, "applications": 3}]})
    };
    world.run(&owner, "shop-1", status("Progressing", "")).await;
    let command = world
        .command("ann", &["wait", "shop", "--run", "shop-1", "--no-refresh", "--timeout", "150s"]);
    let waiting = Waiting::start(command).until("run shop-1 of 6d0c1f2 is Progressing").await;
    // The requests of a person and of the controller.
    let removed = Patch::Merge(json!({"spec": {"strategy": null}}));
    let sets = world.api("ApplicationSet");
    sets.patch("shop", &PatchParams::default(), &removed).await.unwrap();
    let why = "spec.strategy of the ApplicationSet is no RollingSync any more";
    world.status("RolloutRun", "shop-1", status("Superseded", why)).await;
    let end =
        "run shop-1 is superseded: spec.strategy of the ApplicationSet is no RollingSync any more";
    waiting.ends(1, end).await;
    let refused = world.ann(&["abort", "shop", "--yes"]).await;
    refused
        .fails(1, &[&format!("run shop-1 is superseded ({why}), and no other one has begun yet")]);
}

/// ST-072: it waited without end, although only a person could continue.
#[tokio::test(flavor = "multi_thread")]
async fn a_pipeline_does_not_wait_for_what_only_a_person_continues() {
    let world = World::start().await;
    let owner = world.set("shop", json!({})).await;
    let why = "its sync failed: Deployment shop/web is Degraded: no image";
    let live = json!({"sync": {"status": "OutOfSync"}, "health": {"status": "Degraded"},
        "operationState": {"phase": "Failed", "message": "no image", "operation": {"sync": {}},
            "startedAt": "2026-01-02T03:04:05Z"}});
    world.application(&owner, "a", live).await;
    let entry = json!({"application": "a", "status": "Progressing", "step": "1", "message": "m",
        "targetRevisions": [COMMIT], "lastTransitionTime": "2026-01-02T03:04:05Z"});
    let wait = json!({"application": "a", "kind": "FailedOperation", "reason": why});
    let open = json!({"rollout": {"step": 1, "steps": 1, "progress": "0/1", "waitingFor": [wait]},
        "applicationStatus": [entry]});
    world.status("ApplicationSet", "shop", open).await;
    let message = format!("a: {why}");
    let failing = json!({"phase": "Progressing", "total": 1, "done": 0, "failed": 1, "message": message,
        "to": [{"revision": COMMIT, "applications": 1}],
        "waitingFor": [{"application": "a", "kind": "FailedOperation", "message": why}],
        "failures": [{"count": 1, "applications": ["a"], "message": "Deployment shop/web is Degraded: no image"}]});
    world.run(&owner, "shop-1", failing).await;
    let wait =
        ["wait", "shop", "--revision", COMMIT, "--no-refresh", "--timeout", "150s", "-o", "json"];
    let stuck = world.ann(&wait).await;
    assert_eq!((stuck.code, &stuck.json()["outcome"]), (1, &json!("stuck")), "{}", stuck.err);
    let line = format!(
        "error: the rollout is not complete: ApplicationSet argocd/shop: run shop-1 of 6d0c1f2 is \
         Progressing, 0/1 complete: {message}\n"
    );
    assert_eq!(stuck.err, line);
}

/// ST-061, ST-072: after a rollback of nothing, which `kubectl` can write, every step is complete;
/// `status --watch` said no more than that.
#[tokio::test(flavor = "multi_thread")]
async fn all_that_wait_agree_about_a_run_that_was_taken_back() {
    let world = World::start().await;
    let owner = world.set("shop", json!({})).await;
    let done =
        json!({"sync": {"status": "Synced", "revision": COMMIT}, "health": {"status": "Healthy"}});
    world.application(&owner, "a", done).await;
    let entry = json!({"application": "a", "status": "Healthy", "step": "1", "message": "m", "targetRevisions": [COMMIT],
        "lastTransitionTime": "2026-01-02T03:04:05Z"});
    let complete = json!({"rollout": {"step": 1, "steps": 1, "progress": "1/1"}, "applicationStatus": [entry]});
    world.status("ApplicationSet", "shop", complete).await;
    let commands: [&[&str]; 3] =
        [&["status", "shop", "--watch"], &["explain", "shop", "--watch"], &["wait", "shop"]];
    for (phase, code) in [("Complete", 0), ("RolledBack", 1), ("Aborted", 1)] {
        let run = json!({"phase": phase, "total": 1, "done": 1, "progress": "1/1", "message": "0 of 1 are back",
            "to": [{"revision": COMMIT, "applications": 1}]});
        if code == 0 {
            world.run(&owner, "shop-1", run).await;
        } else {
            world.status("RolloutRun", "shop-1", run).await;
        }
        for args in commands {
            let args = [args, &["--no-refresh", "--timeout", "150s"]].concat();
            let ended = world.ann(&args).await;
            let text = format!("{}{}", ended.out, ended.err);
            assert_eq!(ended.code, code, "{args:?} {phase}: {text}");
            assert!(code == 0 || text.contains("0 of 1 are back"), "{args:?} {phase}: {text}");
            assert!(!text.contains("after 2m 30s"), "{args:?} {phase}: {text}");
        }
    }
}

/// A note for each attempt to connect again filled the log of a pipeline.
#[tokio::test(flavor = "multi_thread")]
async fn a_pipeline_says_once_that_it_is_disconnected() {
    let world = World::start().await;
    let owner = world.set("shop", json!({})).await;
    let to = |phase: &str| json!({"phase": phase, "total": 1, "done": 0, "to": [{"revision": COMMIT, "applications": 1}]});
    world.run(&owner, "shop-1", to("Progressing")).await;
    let proxy = Proxy::in_front_of(&world.cluster).await;
    let mut command = program(&["wait", "shop", "--revision", COMMIT, "--timeout", "150s"]);
    command.env("KUBECONFIG", proxy.kubeconfig());
    let waiting = Waiting::start(command).until("run shop-1 of 6d0c1f2 is Progressing").await;
    proxy.set_open(false);
    // Several times for each watch.
    proxy.until_refused(12).await;
    proxy.set_open(true);
    world.status("RolloutRun", "shop-1", to("Complete")).await;
    let err = waiting.ends(0, "note: connected again\n").await;
    for text in ["disconnected, retrying", "connected again"] {
        assert_eq!(err.matches(text).count(), 1, "{err}");
    }
    assert!(!err.contains("no controller has compared"), "{err}");
}

/// A command that prints what it waits for.
struct Waiting {
    child: std::process::Child,
    printed: std::io::Lines<BufReader<ChildStdout>>,
}

impl Waiting {
    fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let printed = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, printed }
    }

    /// Reads what it prints up to this text.
    async fn until(mut self, text: &'static str) -> Self {
        let read = move || {
            let mut before = String::new();
            while !before.contains(text) {
                match self.printed.next() {
                    Some(line) => before += &(line.unwrap() + "\n"),
                    None => {
                        let done = self.child.wait_with_output().unwrap();
                        let err = String::from_utf8_lossy(&done.stderr);
                        panic!("no {text:?} in {before}{err}");
                    }
                }
            }
            self
        };
        tokio::task::spawn_blocking(read).await.unwrap()
    }

    /// Waits for its end, with this code, and with this text on its standard error.
    /// Returns all of that.
    async fn ends(self, code: i32, text: &'static str) -> String {
        let end = move || {
            let out: String = self.printed.map(|line| line.unwrap() + "\n").collect();
            let done = self.child.wait_with_output().unwrap();
            let err = String::from_utf8(done.stderr).unwrap();
            assert_eq!(done.status.code(), Some(code), "{out}{err}");
            assert!(err.contains(text), "{err}");
            err
        };
        tokio::task::spawn_blocking(end).await.unwrap()
    }
}
