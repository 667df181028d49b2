//! What was aborted stays so for every Application, in any order of comparisons, until it ends in a
//! way that is told (ST-060).

use kube_sim::{Effect, InjectedFault};

use super::held::at;
use super::*;
use wavegate_api::run::RUN;

/// The Applications with their environments.
const MEMBERS: [(&str, &str); 5] =
    [("d0", "dev"), ("d1", "dev"), ("p0", "prod"), ("p1", "prod"), ("p2", "prod")];
/// One that is compared with the aborted revision only after the abort.
const LATE: &str = "p2";

/// Each has a branch of its own, so that it sees a commit when it is compared, and the others need
/// not have seen it.
fn two_steps(members: &[(&str, &str)]) -> Value {
    let mut set = fleet(members, steps(&[("dev", Value::Null), ("prod", Value::Null)]));
    set["template"]["spec"]["source"]["targetRevision"] = "{{n}}".into();
    set
}

fn phase(phase: &'static str) -> impl Fn(&Value) -> bool {
    move |run: &Value| run["status"]["phase"] == phase
}

/// The messages of transitions of a kind.
fn told(run: &Value, what: &str) -> Vec<String> {
    let timeline = run["status"]["timeline"].as_array().into_iter().flatten();
    let of_kind = timeline.filter(|entry| entry["what"] == what);
    of_kind.map(|entry| entry["message"].as_str().unwrap_or_default().to_owned()).collect()
}

impl ClusterState {
    /// `r1` is everywhere, and the run of `r2`, which is at `d0` and `d1`, is aborted.
    async fn with_an_aborted_run() -> Self {
        let world = Self::start(ApplicationSetSettings::default()).await;
        world.create("ApplicationSet", "set", two_steps(&MEMBERS)).await;
        for (name, _) in MEMBERS {
            world.compare(name, "OutOfSync", "Missing", "r1").await;
        }
        for (name, _) in MEMBERS {
            world.rolled_out(name, "r1").await;
        }
        world.until(RUN, "set-1", phase("Complete")).await;
        for (name, _) in MEMBERS.iter().filter(|(name, _)| *name != LATE) {
            world.compare(name, "OutOfSync", "Healthy", "r2").await;
        }
        world.rolled_out("d0", "r2").await;
        // It runs while the run is aborted, and becomes Healthy.
        world.until("Application", "d1", |live| live["operation"].is_object()).await;
        let all = |run: &Value| run["status"]["to"][0]["applications"] == 4;
        world.until(RUN, "set-2", all).await;
        let running = world.until("Application", "d1", |_| true).await;
        let state = json!({
            "operation": running["operation"], "phase": "Running", "startedAt": at(0),
            "syncResult": {"revision": "r2"},
        });
        world.patch("Application", "d1", json!({"status": {"operationState": state}})).await;
        world.abort("set-2").await;
        let mut state = state;
        state["phase"] = "Succeeded".into();
        state["finishedAt"] = at(0).into();
        world.ended("d1", &state, "Synced", "r2").await;
        world
    }

    async fn abort(&self, run: &str) {
        let abort = json!({"by": "ann", "at": "2026-01-02T03:04:05Z"});
        self.patch(RUN, run, json!({"spec": {"abort": abort}})).await;
        self.until(RUN, run, phase("Aborted")).await;
    }

    /// All go back to `r1`, one after the other, so that the next run begins while the others still
    /// have the aborted target.
    async fn goes_back(&self) {
        self.compare("d0", "OutOfSync", "Healthy", "r1").await;
        self.until(RUN, "set-3", phase("Progressing")).await;
        self.rolled_out("d0", "r1").await;
        self.compare("p0", "Synced", "Healthy", "r1").await;
        self.compare("d1", "OutOfSync", "Healthy", "r1").await;
        self.rolled_out("d1", "r1").await;
        self.compare("p1", "Synced", "Healthy", "r1").await;
        self.until(RUN, "set-3", phase("Complete")).await;
    }

    /// It is compared with a revision, and not promoted to it.
    async fn is_held_back(&self, name: &str, revision: &str, health: &str) {
        self.compare(name, "OutOfSync", health, revision).await;
        let is_held = |set: &Value| {
            let entry = entry_of(set, name);
            entry["targetRevisions"] == json!([revision]) && entry["status"] == "Waiting"
        };
        self.until("ApplicationSet", "set", is_held).await;
        self.is_left_alone(name).await;
        // What is named are the waits of the open step.
        if !name.starts_with('d') {
            return;
        }
        let waits = |set: &Value| {
            let waits = set["status"]["rollout"]["waitingFor"].as_array().into_iter().flatten();
            waits.filter(|wait| wait["application"] == name).any(|wait| {
                let reason = wait["reason"].as_str().unwrap_or_default();
                reason.contains("its target is not promoted to again: wavegate retry")
            })
        };
        self.until("ApplicationSet", "set", waits).await;
    }

    async fn is_promoted(&self, name: &str, revision: &str) {
        let is_started =
            |live: &Value| live["operation"]["sync"]["revision"].as_str() == Some(revision);
        self.until("Application", name, is_started).await;
        self.rolled_out(name, revision).await;
    }
}

/// A part of the fleet was promoted and a part held, by the order of the comparisons: those that
/// were compared first, those that were late, away in between, or new.
#[tokio::test]
async fn an_aborted_target_is_so_for_all_in_any_order_as_st_060() {
    for order in [["p2", "d0", "p0", "d1", "p1"], ["d1", "p1", "p0", "p2", "d0"]] {
        let mut world = ClusterState::with_an_aborted_run().await;
        // Compared with it only now, and new with it.
        world.is_held_back(LATE, "r2", "Healthy").await;
        let new = [MEMBERS.as_slice(), &[("d8", "dev")]].concat();
        world.patch("ApplicationSet", "set", json!({"spec": two_steps(&new)})).await;
        world.is_held_back("d8", "r2", "Missing").await;
        world.compare("d8", "OutOfSync", "Missing", "r1").await;
        world.compare(LATE, "Synced", "Healthy", "r1").await;
        world.is_promoted("d8", "r1").await;
        world.goes_back().await;
        // A third commit for one, and the aborted one is pushed again.
        world.compare("d0", "OutOfSync", "Healthy", "r3").await;
        world.is_promoted("d0", "r3").await;
        for (position, name) in order.into_iter().chain(["d8"]).enumerate() {
            world.is_held_back(name, "r2", "Healthy").await;
            if position == 2 {
                world.stop();
                world.restart(progressive(Default::default()));
            }
        }
        let newest = [new.as_slice(), &[("d9", "dev")]].concat();
        world.patch("ApplicationSet", "set", json!({"spec": two_steps(&newest)})).await;
        world.is_held_back("d9", "r2", "Missing").await;
        for (name, _) in &newest {
            let live = world.until("Application", name, |_| true).await;
            assert_eq!(live["operation"], Value::Null, "{name}: {live}");
        }
    }
}

/// A retry by a person lifts it for all, those too that are compared later.
#[tokio::test]
async fn a_retry_ends_a_quarantine_and_is_told_as_st_063() {
    let world = ClusterState::with_an_aborted_run().await;
    world.goes_back().await;
    for name in ["p0", "d1", "d0"] {
        world.is_held_back(name, "r2", "Healthy").await;
    }
    let retries = json!([{"by": "bob", "at": "2026-01-02T04:04:05Z"}]);
    world.patch(RUN, "set-3", json!({"spec": {"retries": retries}})).await;
    for name in ["d0", "d1", "p0"] {
        world.is_promoted(name, "r2").await;
    }
    for name in ["p1", LATE] {
        world.compare(name, "OutOfSync", "Healthy", "r2").await;
        world.is_promoted(name, "r2").await;
    }
    let run = world.until(RUN, "set-3", |run| !told(run, "Retried").is_empty()).await;
    assert_eq!(told(&run, "Retried"), ["the quarantine of set-2 is lifted"], "{run}");
}

/// ST-003: the run that takes the place of another one is created by a later reconcile if the first
/// one could not, also where all targets are in quarantine: that run takes a retry.
#[tokio::test]
async fn a_run_that_could_not_be_created_is_created_later_and_takes_retries() {
    let world = ClusterState::with_an_aborted_run().await;
    world.compare("d0", "OutOfSync", "Healthy", "r1").await;
    world.until(RUN, "set-3", phase("Progressing")).await;
    world.rolled_out("d0", "r1").await;
    let creates =
        |record: &RequestRecord| record.verb == "create" && record.resource == "rolloutruns";
    world.server.inject(InjectedFault::new(Effect::Status(503), creates).times(3));
    world.is_held_back("d0", "r2", "Healthy").await;
    world.until(RUN, "set-3", phase("Superseded")).await;
    world.until(RUN, "set-4", phase("Progressing")).await;
    let retries = json!([{"by": "bob", "at": "2026-01-02T04:04:05Z"}]);
    world.patch(RUN, "set-4", json!({"spec": {"retries": retries}})).await;
    world.is_promoted("d0", "r2").await;
}

/// Another generated spec is another target, of this Application alone.
#[tokio::test]
async fn another_spec_ends_a_quarantine_as_st_060() {
    let world = ClusterState::with_an_aborted_run().await;
    world.goes_back().await;
    for name in ["d0", "p0"] {
        world.is_held_back(name, "r2", "Healthy").await;
    }
    world.move_source("corrected").await;
    let is_corrected = |live: &Value| live["spec"]["source"]["path"] == "corrected";
    for (name, _) in MEMBERS {
        world.until("Application", name, is_corrected).await;
        world.compare(name, "OutOfSync", "Healthy", "r2").await;
    }
    for (name, _) in MEMBERS {
        world.is_promoted(name, "r2").await;
    }
    // Back to the former one, which stays what was aborted.
    world.move_source("p").await;
    for (name, _) in MEMBERS {
        world.until("Application", name, |live| live["spec"]["source"]["path"] == "p").await;
        world.is_held_back(name, "r2", "Healthy").await;
    }
}

/// What is not remembered any more is promoted to again, and the run says so.
#[tokio::test]
async fn the_bound_ends_a_quarantine_and_is_told_as_st_060() {
    let world = ClusterState::with_an_aborted_run().await;
    world.goes_back().await;
    world.is_held_back("d0", "r2", "Healthy").await;
    let run = world.until(RUN, "set-3", |_| true).await;
    let own = run["status"]["quarantine"].as_str().unwrap();
    assert!(own.starts_with("2:"), "{own}");
    // As after many runs with many Applications.
    let many: Vec<u8> = (0..9_999_u32).flat_map(|number| number.to_be_bytes()).collect();
    let many = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, many);
    let full = json!({"status": {"quarantine": format!("{own};3:{many}")}});
    world.patch_status(RUN, "set-3", full).await;
    world.reconcile().await;
    let last = world.until(RUN, "set-4", phase("Progressing")).await;
    world.is_promoted("d0", "r2").await;
    let run = world.until(RUN, "set-3", |_| true).await;
    let both = [&run, &last].map(|run| run["status"]["timeline"].to_string()).concat();
    let want = "the targets of run set-2 are promoted to again: more than 10000 are not remembered";
    assert!(both.contains(want), "{both}");
}
