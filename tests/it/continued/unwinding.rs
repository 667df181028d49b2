//! What goes back, or away.

use std::collections::BTreeSet;

use serde_json::json;

use super::judge;
use super::recorded::Recorded;
use super::stage::{MEMBERS, SET, Stage, plain_files};
use crate::e2e::deletion::{all_gone, spans, went_in_order};
use crate::e2e::policies::{phase, policy, until_run};
use crate::support::invariants::{is_in_flight, revision};
use crate::support::manifests::{VERSION, plain, with_deployment, with_smoke_test};
use crate::support::recorder::Change;
use crate::support::{Kind, Log};

type Manifests = Vec<(String, String)>;

/// More have failed than a policy permits, and what was started is on its way back.
pub mod rollback {
    use super::*;

    fn files(name: &str, version: &str) -> Manifests {
        let outcome = if version == "v1" { "succeed" } else { "fail" };
        match name {
            "qa-00" => with_smoke_test(name, version, outcome),
            _ => plain_files(name, version),
        }
    }

    pub async fn begin(stage: &mut Stage) {
        let first = stage.roll_out_first(files, |_| {}).await;
        let failures = json!({"failures": {"max": 0, "onFailure": "Rollback"}});
        policy(&stage.world, "budget", failures).await;
        stage.commit("v2", files);
        stage.moment.when(move |now| {
            let goes_back = |app: &serde_json::Value| {
                is_in_flight(app)
                    && revision(&app["status"]["operationState"]["syncResult"]) == Some(&first)
            };
            phase(now.run()) == "RollingBack" && now.all("applications").any(goes_back)
        });
        stage.refresh().await;
    }

    pub async fn end(stage: &mut Stage, recorded: &Recorded) {
        let (first, second) = (recorded.revision("v1"), recorded.revision("v2"));
        stage.start().await;
        let run =
            until_run(&stage.world, SET, "it is back", |run| phase(run) == "RolledBack").await;
        assert_eq!(run["metadata"]["uid"], recorded.run()["metadata"]["uid"], "{recorded}");
        assert_eq!(run["status"]["endedBy"], "Failures", "{recorded}");
        stage.world.until_calm("it stays there").await;
        assert!(!stage.has_begun("prod-00", second), "{recorded}: a later step was started");
        stage.world.recorder.read(|log| {
            judge::nothing_is_made_anew(log, recorded);
            judge::running_operations_keep_their_start(log, recorded);
            for (name, _) in MEMBERS {
                let map = log.get(Kind::ConfigMap, &format!("{name}-config")).unwrap();
                assert_eq!(map["metadata"]["annotations"][VERSION], "v1", "{recorded}: {name}");
                let starts = starts(log, name, first);
                assert!(starts.len() <= 2, "{recorded}: {name} went back at {starts:?}");
            }
        });
    }

    /// When an Application was synced to a revision: at first, and back.
    fn starts(log: &Log, name: &str, to: &str) -> BTreeSet<String> {
        let states = log.of(Kind::Application).filter(|record| record.name() == name);
        let states = states.map(|record| &record.object["status"]["operationState"]);
        let states = states.filter(|state| revision(&state["syncResult"]) == Some(to));
        states.map(|state| state["startedAt"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

/// A set is deleted step by step, from the last one to the first; the Application of the last
/// one has begun to go, and its hook runs.
pub mod deletion {
    use super::*;

    fn files(name: &str, version: &str) -> Manifests {
        let files = with_deployment(name, version, "succeed");
        if name != "prod-00" {
            return files;
        }
        let hook = json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": { "name": "prod-00-farewell", "annotations": {
                VERSION: version, "argocd.argoproj.io/hook": "PreDelete",
                "simulate.wavegate.dev/delay": "3s",
            } },
            "spec": { "backoffLimit": 0, "template": { "spec": {
                "restartPolicy": "Never",
                "containers": [{ "name": "main", "image": "example.invalid/job:1" }],
            } } },
        });
        let hook = ("apps/prod-00/hook.yaml".to_owned(), format!("{hook:#}\n"));
        [files, plain(name, version), vec![hook]].concat()
    }

    pub async fn begin(stage: &mut Stage) {
        let reverse = |set: &mut serde_json::Value| {
            set["spec"]["strategy"]["deletionOrder"] = "Reverse".into();
        };
        stage.roll_out_first(files, reverse).await;
        stage.moment.when(|now| {
            let goes = |app: &serde_json::Value| app["metadata"]["deletionTimestamp"].is_string();
            let hook = now.get("jobs", "prod-00-farewell");
            goes(now.application("prod-00"))
                && hook.is_object()
                && hook["status"]["completionTime"].is_null()
        });
        stage.world.delete(Kind::ApplicationSet, SET).await;
    }

    pub async fn end(stage: &mut Stage, recorded: &Recorded) {
        stage.start().await;
        all_gone(&stage.world).await;
        stage.world.recorder.read(|log| {
            assert_eq!(judge::hooks(log, "prod-00-farewell", "v1"), 1, "{recorded}");
            let pairs = [("prod-00", "qa-00"), ("prod-00", "qa-01")];
            went_in_order(&spans(log), &pairs);
            went_in_order(&spans(log), &[("qa-00", "dev-00"), ("qa-01", "dev-00")]);
            let gone = |kind: Kind, name: &str| {
                let mut all = log.of(kind).filter(|record| record.name() == name);
                let gone = all.find(|record| record.change == Change::Deleted);
                gone.unwrap_or_else(|| panic!("{recorded}: {kind:?} {name} is there")).version()
            };
            for (name, _) in MEMBERS {
                let (web, app) = (gone(Kind::Deployment, name), gone(Kind::Application, name));
                assert!(web < app, "{recorded}: {name} went before its resources");
                assert!(
                    app < gone(Kind::ApplicationSet, SET),
                    "{recorded}: {name} goes after its set"
                );
            }
        });
    }
}
