//! Rollouts that policies and people hold.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::judge;
use super::recorded::Recorded;
use super::stage::{SET, Stage, plain_files};
use crate::e2e::policies::{phase, policy, until_run, wavegate};

/// None of these Applications is in flight for a revision, or done with it, and that stays so
/// without anybody's word.
async fn nothing_begins(stage: &Stage, names: &[&str], revision: &str) {
    stage.world.until_calm("it waits for a person").await;
    for name in names {
        assert!(!stage.has_begun(name, revision), "{name} was started for {revision}");
    }
}

fn time(value: &Value) -> Timestamp {
    value.as_str().unwrap_or_else(|| panic!("no time: {value}")).parse().unwrap()
}

/// A gate waits for its time.
pub mod soak {
    use super::*;

    const SOAK: SignedDuration = SignedDuration::from_secs(5);

    pub async fn begin(stage: &mut Stage) {
        stage.roll_out_first(plain_files, |_| {}).await;
        let gate = json!({"name": "after-dev", "steps": [2], "soak": "5s"});
        policy(&stage.world, "patience", json!({ "gates": [gate] })).await;
        let second = stage.commit("v2", plain_files);
        stage.moment.when(move |now| {
            let status = &now.run()["status"];
            status["phase"] == "Soaking"
                && status["to"][0]["revision"] == second.as_str()
                && status["gates"][0]["soakingSince"].is_string()
        });
        stage.refresh().await;
    }

    pub async fn end(stage: &mut Stage, recorded: &Recorded) {
        stage.start().await;
        stage.until_everywhere(recorded.revision("v2")).await;
        let run = until_run(&stage.world, SET, "it ends", |run| phase(run) == "Complete").await;
        judge::rollout(stage, recorded);
        let (before, gate) = (recorded.run(), &run["status"]["gates"][0]);
        assert_eq!(run["metadata"]["uid"], before["metadata"]["uid"], "{recorded}: another run");
        assert_eq!(
            gate["soakingSince"], before["status"]["gates"][0]["soakingSince"],
            "{recorded}: the soak began again"
        );
        let took = time(&gate["openedAt"]).duration_since(time(&gate["soakingSince"]));
        assert!(took >= SOAK, "{recorded}: {gate}");
    }
}

/// A gate waits for people.
pub mod approval {
    use super::*;

    pub async fn begin(stage: &mut Stage) {
        stage.roll_out_first(plain_files, |_| {}).await;
        let behind = json!({ "matchLabels": { "env": "prod" } });
        let gate = json!({"name": "production", "applications": behind, "approvals": 1});
        policy(&stage.world, "production", json!({ "gates": [gate] })).await;
        let second = stage.commit("v2", plain_files);
        stage.moment.when(move |now| {
            let status = &now.run()["status"];
            status["phase"] == "AwaitingApproval" && status["to"][0]["revision"] == second.as_str()
        });
        stage.refresh().await;
    }

    pub async fn end(stage: &mut Stage, recorded: &Recorded) {
        let second = recorded.revision("v2");
        stage.start().await;
        nothing_begins(stage, &["prod-00"], second).await;
        wavegate(&stage.world, &["approve", SET, "--yes"]).await;
        stage.until_everywhere(second).await;
        let run = until_run(&stage.world, SET, "it ends", |run| phase(run) == "Complete").await;
        judge::rollout(stage, recorded);
        let covers = |run: &Value| run["status"]["gates"][0]["covers"].clone();
        assert_eq!(covers(&run), covers(recorded.run()), "{recorded}: other targets");
    }
}

/// A person has paused it.
pub mod paused {
    use super::*;

    pub async fn begin(stage: &mut Stage) {
        stage.roll_out_first(plain_files, |_| {}).await;
        wavegate(&stage.world, &["pause", SET, "--reason", "to look at it", "--yes"]).await;
        let second = stage.commit("v2", plain_files);
        stage.moment.when(move |now| {
            let (run, to) = (now.run(), &now.run()["status"]["to"][0]);
            phase(run) == "Paused" && to["revision"] == second.as_str() && to["applications"] == 4
        });
        stage.refresh().await;
    }

    pub async fn end(stage: &mut Stage, recorded: &Recorded) {
        let second = recorded.revision("v2");
        stage.start().await;
        nothing_begins(stage, &["dev-00", "qa-00", "qa-01", "prod-00"], second).await;
        let said = wavegate(&stage.world, &["explain", SET]).await;
        assert!(said.contains("to look at it"), "{recorded}: {said}");
        wavegate(&stage.world, &["resume", SET, "--yes"]).await;
        stage.until_everywhere(second).await;
        until_run(&stage.world, SET, "it ends", |run| phase(run) == "Complete").await;
        judge::rollout(stage, recorded);
    }
}

/// A person has aborted it, and what it was rolling out is not promoted to any more.
pub mod aborted {
    use super::*;

    pub async fn begin(stage: &mut Stage) {
        stage.roll_out_first(plain_files, |_| {}).await;
        wavegate(&stage.world, &["pause", SET, "--reason", "to look at it", "--yes"]).await;
        let second = stage.commit("v2", plain_files);
        stage.refresh().await;
        until_run(&stage.world, SET, "it is paused, and all are compared", |run| {
            let to = &run["status"]["to"][0];
            phase(run) == "Paused" && to["revision"] == second.as_str() && to["applications"] == 4
        })
        .await;
        wavegate(&stage.world, &["abort", SET, "--yes"]).await;
        until_run(&stage.world, SET, "it is aborted", |run| phase(run) == "Aborted").await;
        wavegate(&stage.world, &["resume", SET, "--yes"]).await;
        stage.moment.when(|now| {
            let set = now.get("applicationsets", SET);
            phase(now.run()) == "Aborted"
                && set["metadata"]["annotations"]["wavegate.dev/paused"].is_null()
        });
    }

    pub async fn end(stage: &mut Stage, recorded: &Recorded) {
        let all = ["dev-00", "qa-00", "qa-01", "prod-00"];
        let second = recorded.revision("v2");
        stage.start().await;
        nothing_begins(stage, &all, second).await;
        let third = stage.commit("v3", plain_files);
        stage.refresh().await;
        stage.until_everywhere(&third).await;
        until_run(&stage.world, SET, "it ends", |run| {
            phase(run) == "Complete" && run["status"]["to"][0]["revision"] == third.as_str()
        })
        .await;
        for name in all {
            assert!(!stage.has_begun(name, second), "{recorded}: {name} was started for v2");
        }
        judge::rollout(stage, recorded);
    }
}
