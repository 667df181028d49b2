//! What a version to come wrote does not stop this one, and is still there afterwards: who goes
//! back to an older release goes on, and forward again.
//!
//! A newer version may have fields, words and kinds of entries that this one does not know. They
//! are put into the statuses of a record, under definitions that keep them.

use serde_json::{Value, json};

use super::recorded::Recorded;
use super::stage::{SET, Stage, When};
use super::{judge, rollouts, with_policies};
use crate::e2e::policies::run;
use crate::support::{Definitions, Kind};

/// A field of a version to come.
const FIELD: &str = "fromLater";

fn later() -> Value {
    json!({ "kind": "Later", "since": "2026-01-01T00:00:00Z", "list": [1, { "a": null, "b": "c" }] })
}

/// Where a status has objects: the paths that get a field, if they are there.
fn places(kind: &str) -> &'static [&'static str] {
    match kind {
        "ApplicationSet" => {
            &["", "/rollout", "/applicationStatus/0", "/resources/0", "/conditions/0", "/health"]
        }
        "Application" => &[
            "",
            "/sync",
            "/health",
            "/summary",
            "/operationState",
            "/operationState/progress",
            "/operationState/syncResult",
            "/operationState/syncResult/resources/0",
            "/resources/0",
            "/history/0",
        ],
        "RolloutRun" => {
            &["", "/to/0", "/steps/0", "/gates/0", "/timeline/0", "/waitingFor/0", "/estimate"]
        }
        _ => &[],
    }
}

/// A place in an object.
fn at(object: &Value, place: &str) -> String {
    format!("{} {}{place}", object["kind"], object["metadata"]["name"])
}

/// Puts the field everywhere. Returns where it is.
fn add_fields(objects: &mut [Value]) -> Vec<String> {
    let mut put = Vec::new();
    for object in objects {
        for place in places(object["kind"].as_str().unwrap_or_default()) {
            let status = object.pointer_mut(&format!("/status{place}"));
            if let Some(status) = status.and_then(Value::as_object_mut) {
                status.insert(FIELD.to_owned(), later());
                put.push(at(object, place));
            }
        }
    }
    put
}

/// The records of a scenario under our definitions.
fn records(scenario: &str) -> impl Iterator<Item = Recorded> {
    let all = Recorded::of(scenario).into_iter();
    all.filter(|recorded| recorded.definitions == Definitions::Ours)
}

/// What is not known of a status, and of the results of an operation that is `continued`, is there
/// at the end. Lists of an Application that are derived from something else are written as this
/// version knows them when they change, and a wait ends with its entry.
async fn fields_are_kept(
    stage: &Stage,
    recorded: &Recorded,
    put: &[String],
    continued: Option<&str>,
) {
    let run = run(&stage.world, SET).await;
    stage.world.recorder.read(|log| {
        let set = log.get(Kind::ApplicationSet, SET).unwrap();
        let is_kept = |object: &Value, place: &str| {
            let name = &object["metadata"]["name"];
            let of_status = object.pointer(&format!("/status{place}"));
            let kept = of_status.is_some_and(|place| place[FIELD] == later())
                || !put.contains(&at(object, place));
            assert!(kept, "{recorded}: {name}: what is not known of status{place} is lost");
        };
        for place in ["", "/rollout", "/applicationStatus/0", "/resources/0", "/health"] {
            is_kept(set, place);
        }
        for place in ["", "/to/0", "/steps/0", "/gates/0", "/timeline/0"] {
            is_kept(run.as_ref().unwrap(), place);
        }
        for (name, app) in log.all(Kind::Application) {
            for place in ["", "/sync", "/health", "/history/0"] {
                is_kept(app, place);
            }
            for place in [
                "/operationState",
                "/operationState/syncResult",
                "/operationState/syncResult/resources/0",
            ] {
                if continued == Some(name) {
                    is_kept(app, place);
                }
            }
        }
    });
}

/// Unknown fields everywhere in the middle of a rollout.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_fields_are_kept_and_stop_nothing() {
    for recorded in records("second_step") {
        let mut objects = recorded.objects.clone();
        let put = add_fields(&mut objects);
        assert!(put.len() > 15, "{put:#?}");
        let mut stage =
            Stage::with(&recorded, When::AMomentLater, Definitions::Newer, objects).await;
        rollouts::second_step::end(&mut stage, &recorded).await;
        fields_are_kept(&stage, &recorded, &put, Some("qa-00")).await;
        stage.finish().await;
    }
    for recorded in records("approval") {
        let mut objects = recorded.objects.clone();
        let put = add_fields(&mut objects);
        let mut stage =
            Stage::with(&recorded, When::AMomentLater, Definitions::Newer, objects).await;
        with_policies::approval::end(&mut stage, &recorded).await;
        fields_are_kept(&stage, &recorded, &put, None).await;
        stage.finish().await;
    }
}

/// Fields in a running operation, whose state goes on being written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_operation_with_unknown_fields_is_continued() {
    for (scenario, recorded) in
        ["waves", "hook"].into_iter().flat_map(|name| records(name).map(move |one| (name, one)))
    {
        let mut objects = recorded.objects.clone();
        let put = add_fields(&mut objects);
        let mut stage =
            Stage::with(&recorded, When::AMomentLater, Definitions::Newer, objects).await;
        match scenario {
            "waves" => rollouts::waves::end(&mut stage, &recorded).await,
            _ => rollouts::hook::end(&mut stage, &recorded).await,
        }
        fields_are_kept(&stage, &recorded, &put, Some("dev-00")).await;
        stage.finish().await;
    }
}

/// Words that this version does not know, in place of those that it does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_words_stop_nothing() {
    for recorded in records("second_step") {
        let mut objects = recorded.objects.clone();
        for object in &mut objects {
            let kind = object["kind"].clone();
            let is_done = object["metadata"]["name"] == "dev-00--0";
            let status = &mut object["status"];
            if kind == "ApplicationSet" {
                let conditions = status["conditions"].as_array_mut().unwrap();
                conditions.push(json!({
                    "type": "Dreaming", "status": "True", "reason": "Later", "message": "zzz",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }));
                let entries = status["applicationStatus"].as_array_mut().unwrap();
                let last = entries.iter_mut().find(|entry| entry["application"] == "prod-00--0");
                last.unwrap()["status"] = "Dreaming".into();
                if status["rollout"]["waitingFor"][0].is_object() {
                    status["rollout"]["waitingFor"][0]["kind"] = "Dream".into();
                }
            }
            if kind == "Application" {
                let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
                conditions.push(json!({ "type": "DreamingWarning", "message": "zzz" }));
                status["conditions"] = conditions.into();
                if is_done {
                    status["health"]["status"] = "Dreaming".into();
                    status["resources"][0]["status"] = "Dreaming".into();
                }
            }
            if kind == "RolloutRun" {
                status["phase"] = "Dreaming".into();
                let timeline = status["timeline"].as_array_mut().unwrap();
                timeline.push(json!({
                    "at": "2026-01-01T00:00:00Z", "what": "Dreamt", "subject": "zzz",
                }));
            }
        }
        let mut stage =
            Stage::with(&recorded, When::AMomentLater, Definitions::Newer, objects).await;
        stage.start().await;
        stage.until_everywhere(recorded.revision("v2")).await;
        stage.world.recorder.read(|log| {
            judge::nothing_is_made_anew(log, &recorded);
            judge::running_operations_keep_their_start(log, &recorded);
            // What nobody of this version writes is not taken away either.
            let set = log.get(Kind::ApplicationSet, SET).unwrap();
            let has = |object: &Value, field: &str, word: &str| {
                let mut all = object["status"]["conditions"].as_array().into_iter().flatten();
                all.any(|condition| condition[field] == word)
            };
            assert!(has(set, "type", "Dreaming"), "{recorded}: {:#}", set["status"]["conditions"]);
        });
        let run = run(&stage.world, SET).await.unwrap();
        assert_eq!(run["status"]["phase"], "Complete", "{recorded}");
        let timeline = run["status"]["timeline"].as_array().unwrap();
        let dreamt = timeline.iter().any(|entry| entry["what"] == "Dreamt");
        assert!(dreamt, "{recorded}: an entry of a later version is lost: {timeline:#?}");
        stage.finish().await;
    }
}

/// A gate with a condition that this version does not know is not opened: it would let through
/// what the newer version holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_with_an_unknown_condition_stays_shut() {
    for recorded in records("approval") {
        let mut objects = recorded.objects.clone();
        let policy = objects.iter_mut().find(|object| object["kind"] == "RolloutPolicy").unwrap();
        policy["spec"]["gates"][0]["dreams"] = json!({ "until": "dawn" });
        let mut stage =
            Stage::with(&recorded, When::AMomentLater, Definitions::Newer, objects).await;
        stage.start().await;
        let approve = ["approve", SET, "--yes", "-n", &stage.world.namespace];
        let (code, out, err) = stage.world.wavegate(&approve).await;
        stage.world.until_calm("an approval is not enough").await;
        let begun = stage.has_begun("prod-00", recorded.revision("v2"));
        assert!(!begun, "{recorded}: the gate was opened ({code}: {out}{err})");
        stage.finish().await;
    }
}
