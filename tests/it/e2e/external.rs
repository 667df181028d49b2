//! `--sync-engine=external`: Argo CD's application controller runs the syncs.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::support::invariants::{self, Steps};
use crate::support::manifests::{members, rolling, set};
use crate::support::recorder::version;
use crate::support::stand_in::StandIn;
use crate::support::{Kind, Log, Setup, World};

const FIRST: &str = "1111111111111111111111111111111111111111";
const SECOND: &str = "2222222222222222222222222222222222222222";

pub async fn an_external_engine_runs_the_syncs(mut world: World) {
    let (dev, prod) = (members("dev", 3), members("prod", 8));
    let all: Vec<(&str, &str)> =
        dev.iter().chain(&prod).map(|(name, env)| (name.as_str(), env.as_str())).collect();
    let steps = Steps::default()
        .step(dev.iter().map(|(name, _)| name), None)
        .step(prod.iter().map(|(name, _)| name), Some(2));
    let strategy = rolling(&[("dev", json!(null)), ("prod", json!("25%"))]);
    world.create(Kind::ApplicationSet, set(&world, "fleet", &all, &strategy)).await;
    let argo = StandIn::start(&world, FIRST, &[]);
    world.start(&Setup::external()).await;
    world.until_rolled_out("fleet", &steps, FIRST).await;
    argo.commit(SECOND);
    world.until_rolled_out("fleet", &steps, SECOND).await;
    world.recorder.read(|log| {
        invariants::check(log, &steps);
        // With the internal engine disabled, only the stand-in writes a status.
        assert!(log.of(Kind::ConfigMap).all(|record| record.name() == "kube-root-ca.crt"));
    });
    world.finish().await;
}

/// Hydrated manifests are compared with, and synced from, one branch, also when the template
/// still has `sources` (AS-351): each rollout of them never began, or its syncs named a list
/// of revisions for the one source. Both steps are hydrated to the same branch: of two branches
/// nobody knows which revision of the one belongs to which of the other, and a step may begin
/// when its own has moved.
pub async fn hydrated_manifests_are_rolled_out(mut world: World) {
    let strategy = rolling(&[("dev", json!(null)), ("prod", json!(null))]);
    let mut set = set(&world, "fleet", &[("one", "dev"), ("two", "prod")], &strategy);
    let spec = set["spec"]["template"]["spec"].as_object_mut().unwrap();
    let dry = spec.remove("source").unwrap();
    spec.insert("sources".to_owned(), json!([dry, {"repoURL": dry["repoURL"], "path": "other"}]));
    let sync = json!({"targetBranch": "environments/next", "path": "{{.dir}}"});
    spec.insert("sourceHydrator".to_owned(), json!({"drySource": dry, "syncSource": sync}));
    world.create(Kind::ApplicationSet, set).await;
    let argo = StandIn::start(&world, FIRST, &[]);
    world.start(&Setup::external()).await;
    let steps = Steps::default().step(["one"], None).step(["two"], None);
    for revision in [FIRST, SECOND] {
        argo.commit(revision);
        world.until_rolled_out("fleet", &steps, revision).await;
    }
    world.recorder.read(|log| {
        invariants::check(log, &steps);
        let operations = log.of(Kind::Application).filter_map(|record| {
            record.object["operation"]["sync"].as_object().map(|sync| sync["revision"].clone())
        });
        let named: std::collections::BTreeSet<String> =
            operations.map(|revision| revision.as_str().unwrap_or_default().to_owned()).collect();
        assert_eq!(named, [FIRST, SECOND].map(str::to_owned).into());
    });
    world.finish().await;
}

pub async fn a_sync_that_never_starts_times_out(mut world: World) {
    let strategy = rolling(&[("dev", json!(null)), ("prod", json!(null))]);
    let all = [("deaf", "dev"), ("hears", "dev"), ("later", "prod")];
    world.create(Kind::ApplicationSet, set(&world, "fleet", &all, &strategy)).await;
    let _argo = StandIn::start(&world, FIRST, &["deaf"]);
    world.start(&Setup { progressing_timeout: 2, ..Setup::external() }).await;
    world
        .until("the step after the deaf Application is done", |log| {
            let later = log.get(Kind::Application, "later")?;
            invariants::is_done(later, FIRST).then_some(())
        })
        .await;
    let reported = world
        .until("an Event reports the timeout", |log| {
            // On a slow machine, a sync that starts late is reported, too.
            let mut events = log.all(Kind::Event).filter(|(_, event)| {
                event["reason"] == "ProgressingTimeout"
                    && event["note"].as_str().is_some_and(|note| note.contains("deaf"))
            });
            events.next().map(|(_, event)| event["note"].as_str().unwrap_or_default().to_owned())
        })
        .await;
    assert!(reported.contains("deaf"), "{reported}");
    // The watches of two kinds may be out of sync for a moment.
    let name = world.tagged("deaf");
    world
        .until("the deaf Application counts as Healthy by its timeout", |log| {
            let set = log.get(Kind::ApplicationSet, "fleet")?;
            let entries = set["status"]["applicationStatus"].as_array()?;
            let deaf = entries.iter().find(|entry| entry["application"] == name)?;
            let by_timeout = deaf["message"].as_str()?.contains("timeout");
            (deaf["status"] == "Healthy" && by_timeout).then_some(())
        })
        .await;
    world.recorder.read(|log| {
        let asked = begin_of(log, "deaf");
        let later = begin_of(log, "later");
        assert!(asked < later, "{asked} {later}");
    });
    world.finish().await;
}

/// A dry run that starts and ends before the controller has seen the failure of the sync
/// before it: only a success in the history opens the next step.
pub async fn a_result_that_nobody_saw_is_no_success(mut world: World) {
    let strategy = rolling(&[("dev", json!(null)), ("prod", json!(null))]);
    let all = [("dev", "dev"), ("prod", "prod")];
    world.create(Kind::ApplicationSet, set(&world, "fleet", &all, &strategy)).await;
    let argo = StandIn::start(&world, FIRST, &["dev"]);
    world.start(&Setup::external()).await;
    let requested = world
        .until("the sync of dev is requested", |log| {
            log.get(Kind::Application, "prod")?["status"]["sync"]["revision"].as_str()?;
            let operation = &log.get(Kind::Application, "dev")?["operation"];
            operation.is_object().then(|| operation.clone())
        })
        .await;
    drop(argo);
    let at = |seconds| {
        let time = Timestamp::now().round(jiff::Unit::Second).unwrap_or_default();
        time.checked_add(SignedDuration::from_secs(seconds)).unwrap().to_string()
    };
    let result = json!({ "revision": FIRST });
    let running = json!({ "operation": null, "status": { "operationState": {
        "phase": "Running", "startedAt": at(0), "operation": requested, "syncResult": result,
    } } });
    world.patch(Kind::Application, "dev", &running).await;
    let entry = |log: &Log| {
        let set = log.get(Kind::ApplicationSet, "fleet")?;
        let entries = set["status"]["applicationStatus"].as_array()?;
        let name = world.tagged("dev");
        entries.iter().find(|entry| entry["application"] == name).cloned()
    };
    world
        .until("dev is Progressing", |log| (entry(log)?["status"] == "Progressing").then_some(()))
        .await;
    let dry_run = json!({ "status": {
        "operationState": {
            "phase": "Succeeded", "finishedAt": at(0),
            "operation": { "sync": { "dryRun": true }, "info": null, "initiatedBy": null },
        },
        "sync": { "status": "Synced" }, "health": { "status": "Healthy" }, "reconciledAt": at(1),
    } });
    world.patch(Kind::Application, "dev", &dry_run).await;
    world
        .until("the dry run is no success", |log| {
            let message = entry(log)?["message"].as_str()?.to_owned();
            message.starts_with("Result of the last sync is not known").then_some(())
        })
        .await;
    world.until_calm("after the dry run").await;
    world.recorder.read(|log| {
        assert_eq!(entry(log).unwrap()["status"], "Progressing", "{}", log.state());
        let prod = log.get(Kind::Application, "prod").unwrap();
        assert!(prod["operation"].is_null(), "{}", log.state());
    });
    // As after a sync that succeeded before the dry run.
    let history = json!([{ "id": 0, "revision": FIRST, "deployedAt": at(0) }]);
    world.patch(Kind::Application, "dev", &json!({ "status": { "history": history } })).await;
    world
        .until("the sync of prod is requested", |log| {
            log.get(Kind::Application, "prod")?["operation"].is_object().then_some(())
        })
        .await;
    world.finish().await;
}

/// The version at which an operation was first requested.
fn begin_of(log: &Log, name: &str) -> u64 {
    let of = |record: &&crate::support::recorder::Record| {
        record.name() == name && invariants::is_in_flight(&record.object)
    };
    let first = log.of(Kind::Application).find(of);
    version(&first.unwrap_or_else(|| panic!("{name} never had an operation")).object)
}

/// Whether the rollout of a set is complete.
pub fn is_complete(log: &Log, set: &str) -> bool {
    condition(log, set, "RolloutProgressing").is_some_and(|found| found["status"] == "False")
}

impl World {
    /// Waits until all Applications of a set are done with a revision, and its rollout.
    pub async fn until_rolled_out(&self, set: &str, steps: &Steps, revision: &str) {
        self.until(&format!("{revision} is everywhere"), |log| {
            (invariants::all_done(log, steps, revision) && is_complete(log, set)).then_some(())
        })
        .await;
    }
}

/// A condition of a set.
pub fn condition(log: &Log, set: &str, kind: &str) -> Option<serde_json::Value> {
    let set = log.get(Kind::ApplicationSet, set)?;
    let conditions = set["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind).cloned()
}

/// Waits for a condition of the set with this reason, whose message contains all words;
/// returns the message.
pub async fn condition_of_the_set(
    world: &World,
    kind: &str,
    reason: &str,
    words: &[&str],
) -> String {
    let what = format!("condition {kind} with reason {reason} says {words:?}");
    world
        .until(&what, |log| {
            let found = condition(log, "fleet", kind)?;
            let message = found["message"].as_str()?.to_owned();
            (found["status"] == "True"
                && found["reason"] == reason
                && words.iter().all(|word| message.contains(word)))
            .then_some(message)
        })
        .await
}
