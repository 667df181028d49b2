//! Invalid input: each error is reported by a condition and an Event that name the object
//! and the field; nothing is deleted, valid parts continue, and nothing is repeated in a
//! loop.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::invariants;
use crate::support::manifests::{plain, rolling, set};
use crate::support::{Kind, Setup, World};

use super::external::{condition, condition_of_the_set};
use super::mistakes::nothing_deleted;

/// A log line may be repeated for a new reason only.
const REPEATS: usize = 3;

/// What is written is counted.
fn counted() -> Setup {
    Setup { compares_by_time: false, ..Setup::default() }
}

pub async fn a_failing_template_is_reported_and_deletes_nothing(mut world: World) {
    world.repository.commit("first", &[plain("a", "v1"), plain("b", "v1")].concat());
    let strategy = rolling(&[("dev", json!(null))]);
    let good = set(&world, "fleet", &[("a", "dev"), ("b", "dev")], &strategy);
    world.create(Kind::ApplicationSet, good).await;
    world.start_process(&counted()).await;
    world.until_synced(&["a", "b"]).await;
    let mistakes = [
        ("{{.nope}}", "RenderTemplateParamsError", ["spec.template.metadata.labels.extra", "nope"]),
        (
            "{{.name",
            "RenderTemplateParamsError",
            ["spec.template.metadata.labels.extra", "unclosed"],
        ),
    ];
    for (text, reason, words) in mistakes {
        let template =
            json!({ "spec": { "template": { "metadata": { "labels": { "extra": text } } } } });
        world.patch(Kind::ApplicationSet, "fleet", &template).await;
        let reported = condition_of_the_set(&world, "ErrorOccurred", reason, &words).await;
        world.until_calm("after the mistake").await;
        world.recorder.read(|log| {
            assert_eq!(condition(log, "fleet", "ParametersGenerated").unwrap()["status"], "False");
            assert!(log.all(Kind::Application).count() == 2, "{reported}\n{}", log.state());
        });
        event(&world, "fleet", &words).await;
    }
    stays_calm(&world, "fleet").await;
    // Once fixed, the error is no longer reported.
    let fixed =
        json!({ "spec": { "template": { "metadata": { "labels": { "extra": "fine" } } } } });
    world.patch(Kind::ApplicationSet, "fleet", &fixed).await;
    world
        .until("the set is well again", |log| {
            (condition(log, "fleet", "ErrorOccurred")?["status"] == "False").then_some(())
        })
        .await;
    nothing_deleted(&world, "in the end");
    world.finish().await;
}

pub async fn duplicate_names_are_reported_and_others_continue(mut world: World) {
    world
        .repository
        .commit("first", &[plain("a", "v1"), plain("b", "v1"), plain("c", "v1")].concat());
    let strategy = rolling(&[("dev", json!(null))]);
    let good = set(&world, "fleet", &[("a", "dev"), ("b", "dev")], &strategy);
    world.create(Kind::ApplicationSet, good).await;
    world.start_process(&counted()).await;
    world.until_synced(&["a", "b"]).await;
    let twice =
        set(&world, "fleet", &[("a", "dev"), ("b", "dev"), ("b", "dev"), ("c", "dev")], &strategy);
    world
        .patch(
            Kind::ApplicationSet,
            "fleet",
            &json!({ "spec": { "generators": twice["spec"]["generators"] } }),
        )
        .await;
    let words = ["application b", "spec.template.metadata.name"];
    condition_of_the_set(&world, "ErrorOccurred", "ApplicationValidationError", &words).await;
    event(&world, "fleet", &words).await;
    // The new one is not a duplicate: it is created and rolled out.
    world.until_synced(&["a", "b", "c"]).await;
    stays_calm(&world, "fleet").await;
    nothing_deleted(&world, "in the end");
    world.finish().await;
}

/// AS-315: a step with `Exists` selected nothing, so that its Applications were rolled out by
/// nobody, and those of the steps after it went on without it.
pub async fn an_unknown_operator_holds_and_an_invalid_max_update_is_reported(mut world: World) {
    world
        .repository
        .commit("first", &[plain("a", "v1"), plain("b", "v1"), plain("c", "v1")].concat());
    let mut strategy = rolling(&[("dev", json!("abc")), ("prod", json!(null))]);
    strategy["rollingSync"]["steps"][1]["matchExpressions"][0]["operator"] = "Exists".into();
    let all = [("a", "dev"), ("b", "dev"), ("c", "prod")];
    world.create(Kind::ApplicationSet, set(&world, "fleet", &all, &strategy)).await;
    world.start_process(&counted()).await;
    let operator = ["spec.strategy.rollingSync.steps[1].matchExpressions[0].operator", "Exists"];
    let reason = "ApplicationSetInvalidRolloutConfig";
    condition_of_the_set(&world, "InvalidRolloutConfig", reason, &operator).await;
    let held = [operator[0], operator[1], "no Application is created"];
    condition_of_the_set(&world, "ErrorOccurred", "ApplicationSetRolloutError", &held).await;
    event(&world, "fleet", &operator).await;
    world.until_calm("it is held").await;
    world.recorder.read(|log| {
        assert_eq!(log.of(Kind::Application).count(), 0, "nothing is written while it is held");
    });
    strategy["rollingSync"]["steps"][1]["matchExpressions"][0]["operator"] = "In".into();
    world.patch(Kind::ApplicationSet, "fleet", &json!({"spec": {"strategy": strategy}})).await;
    let words = ["spec.strategy.rollingSync.steps[0].maxUpdate", "abc"];
    condition_of_the_set(&world, "InvalidRolloutConfig", reason, &words).await;
    event(&world, "fleet", &words).await;
    // A step with an invalid maxUpdate uses 1, and continues.
    world.until_synced(&["a", "b", "c"]).await;
    stays_calm(&world, "fleet").await;
    world.recorder.read(|log| {
        let mut latest: BTreeMap<&str, bool> = BTreeMap::new();
        for record in log.of(Kind::Application) {
            latest.insert(record.name(), invariants::is_in_flight(&record.object));
            let in_flight = ["a", "b"].iter().filter(|name| latest.get(**name) == Some(&true));
            assert!(in_flight.count() <= 1, "both at once at version {}", record.version());
        }
    });
    nothing_deleted(&world, "in the end");
    world.finish().await;
}

pub async fn unreadable_sources_are_reported_and_others_continue(mut world: World) {
    let good = [
        plain("good", "v1"),
        plain("garbled", "v1"),
        plain("no-path", "v1"),
        plain("no-repository", "v1"),
    ]
    .concat();
    world.repository.commit("first", &good);
    let strategy = rolling(&[("dev", json!(null)), ("prod", json!(null))]);
    let all = [("good", "dev"), ("garbled", "dev"), ("no-path", "dev"), ("no-repository", "dev")];
    let elements: Vec<Value> = all
        .iter()
        .map(
            |(name, env)| json!({ "name": world.tagged(name), "dir": name, "env": env, "repository": world.repository.url() }),
        )
        .collect();
    let mut fleet = set(&world, "fleet", &all, &strategy);
    fleet["spec"]["generators"][0]["list"]["elements"] = elements.into();
    fleet["spec"]["template"]["spec"]["source"]["repoURL"] = "{{.repository}}".into();
    // A failed attempt is not repeated, so that the test is idle soon.
    fleet["spec"]["template"]["spec"]["syncPolicy"] = json!({ "retry": { "limit": 0 } });
    world.create(Kind::ApplicationSet, fleet.clone()).await;
    world.start_process(&counted()).await;
    world.until_synced(&all.map(|(name, _)| name)).await;

    // For three Applications, the next commit or the repository cannot be read. Its
    // content looks like a manifest; other content is ignored silently, as in Argo CD.
    let garbled = "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: [ }\n";
    let broken =
        [plain("good", "v2"), vec![("apps/garbled/config.yaml".to_owned(), garbled.to_owned())]];
    let second = world.repository.commit("second", &broken.concat());
    let nowhere = format!("{}-that-is-not-there", world.repository.url());
    fleet["spec"]["generators"][0]["list"]["elements"][3]["repository"] = nowhere.clone().into();
    world
        .patch(
            Kind::ApplicationSet,
            "fleet",
            &json!({ "spec": { "generators": fleet["spec"]["generators"] } }),
        )
        .await;
    for name in ["good", "garbled", "no-path"] {
        world.refresh(name).await;
    }
    world
        .until("the good one has the second commit", |log| {
            invariants::is_done(log.get(Kind::Application, "good")?, &second).then_some(())
        })
        .await;
    for (name, word) in [
        ("garbled", "apps/garbled/config.yaml"),
        ("no-path", "apps/no-path"),
        ("no-repository", nowhere.as_str()),
    ] {
        let reported = world
            .until(&format!("Application {name} says what cannot be read"), |log| {
                let conditions = log.get(Kind::Application, name)?["status"]["conditions"].clone();
                let conditions = conditions.as_array()?.clone();
                // One of an earlier comparison may be there before.
                conditions.into_iter().find(|condition| {
                    condition["type"].as_str().is_some_and(|kind| kind.ends_with("Error"))
                        && condition["message"].as_str().is_some_and(|text| text.contains(word))
                })
            })
            .await;
        assert!(reported["lastTransitionTime"].is_string(), "{name}: {reported}");
        event(&world, &world.tagged(name), &[word]).await;
        let waits = world
            .until(&format!("the set says that it waits for {name}"), |log| {
                let set = log.get(Kind::ApplicationSet, "fleet")?;
                let waiting = set["status"]["rollout"]["waitingFor"].as_array()?;
                waiting.iter().find(|wait| wait["application"] == world.tagged(name)).cloned()
            })
            .await;
        assert!(waits["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{waits}");
    }
    stays_calm(&world, "fleet").await;
    nothing_deleted(&world, "in the end");
    world.finish().await;
}

/// Waits for a warning Event of an object whose note contains all words.
async fn event(world: &World, about: &str, words: &[&str]) {
    world
        .until(&format!("an event about {about} says {words:?}"), |log| {
            let reports = |event: &Value| {
                let note = event["note"].as_str().unwrap_or_default();
                event["type"] == "Warning"
                    && event["regarding"]["name"] == about
                    && words.iter().all(|word| note.contains(word))
            };
            log.all(Kind::Event).any(|(_, event)| reports(event)).then_some(())
        })
        .await;
}

/// Reconciles of the set only remove the annotation that requests them, and report
/// nothing repeatedly.
async fn stays_calm(world: &World, set: &str) {
    world.until_calm("the mistake stays").await;
    let before = world.recorder.read(|log| log.records.len());
    for _ in 0..3 {
        world.wait_for_reconcile(set).await;
    }
    world.until_calm("after reconciles that find the same mistake").await;
    world.recorder.read(|log| {
        let written: Vec<String> = log.records[before..]
            .iter()
            .map(|record| format!("{:?} {} {}", record.kind, record.name(), record.version()))
            .collect();
        // Setting and removing the annotation, three times; it is not removed while
        // generating fails (AS-420).
        let generated = condition(log, set, "ParametersGenerated").unwrap()["status"] == "True";
        let want = if generated { 6 } else { 3 };
        assert_eq!(written.len(), want, "{}", written.join("\n"));
    });
    let log = world.controller_log();
    let mut lines: BTreeMap<String, usize> = BTreeMap::new();
    for line in log.lines() {
        let Ok(Value::Object(mut fields)) = serde_json::from_str(line) else { continue };
        fields.remove("timestamp");
        *lines.entry(Value::Object(fields).to_string()).or_default() += 1;
    }
    let hot: Vec<_> = lines.into_iter().filter(|(_, count)| *count > REPEATS).collect();
    assert!(!log.is_empty() && hot.is_empty(), "repeated lines: {hot:#?}");
}
