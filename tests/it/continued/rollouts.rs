//! Rollouts on their way forward, in the set and in one of its Applications.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::recorded::Recorded;
use super::stage::{Stage, plain_files};
use super::{judge, moment};
use crate::support::invariants::{is_in_flight, revision};
use crate::support::manifests::{VERSION, plain, with_waves};
use crate::support::{Kind, Log};

type Manifests = Vec<(String, String)>;

/// The time between the start of a controller and the end of a slow workload: what the record has
/// in the middle must not be over before a controller looks.
const SLOW: &str = "3s";

/// Reads the objects of manifests, changes them, and writes them again.
fn changed(files: Manifests, change: impl Fn(&mut Value)) -> Manifests {
    let one = |(path, text): (String, String)| {
        let documents = text.split("---\n").map(|document| {
            let mut object: Value = serde_json::from_str(document).unwrap();
            change(&mut object);
            format!("{object:#}\n")
        });
        (path, documents.collect::<Vec<_>>().join("---\n"))
    };
    files.into_iter().map(one).collect()
}

/// Makes the workloads of the second version slow.
fn slow(kind: &'static str, version: &str, files: Manifests) -> Manifests {
    let is_second = version == "v2";
    changed(files, move |object| {
        if object["kind"] == kind && is_second {
            object["metadata"]["annotations"]["simulate.wavegate.dev/delay"] = SLOW.into();
        }
    })
}

/// The operation of an Application runs for a revision.
fn runs(app: &Value, at: &str) -> bool {
    let state = &app["status"]["operationState"];
    state["phase"] == "Running" && revision(&state["syncResult"]) == Some(at)
}

/// The result of an operation for a resource.
fn row<'a>(app: &'a Value, kind: &str) -> Option<&'a Value> {
    let rows = app["status"]["operationState"]["syncResult"]["resources"].as_array()?;
    rows.iter().find(|row| row["kind"] == kind)
}

fn is_of(object: &Value, version: &str) -> bool {
    object["metadata"]["annotations"][VERSION] == version
}

/// An Application of the second step is being synced.
pub mod second_step {
    use super::*;

    fn files(name: &str, version: &str) -> Manifests {
        if name == "qa-00" { with_waves(name, version) } else { plain(name, version) }
    }

    pub async fn begin(stage: &mut Stage) {
        stage.roll_out_first(files, |_| {}).await;
        let second = stage.commit("v2", files);
        stage.moment.when(move |now| runs(now.application("qa-00"), &second));
        stage.refresh().await;
    }

    pub async fn end(stage: &mut Stage, recorded: &Recorded) {
        stage.start().await;
        stage.until_everywhere(recorded.revision("v2")).await;
        judge::rollout(stage, recorded);
    }
}

/// The set says that an Application is about to be synced, and the Application does not know yet:
/// a kill between the two writes.
pub mod promised {
    use super::*;

    fn entry<'a>(now: &'a moment::State, name: &str) -> Option<&'a Value> {
        let entries = now.get("applicationsets", "fleet")["status"]["applicationStatus"].as_array();
        entries?.iter().find(|entry| entry["application"] == format!("{name}--0"))
    }

    pub async fn begin(stage: &mut Stage) {
        stage.roll_out_first(plain_files, |_| {}).await;
        let second = stage.commit("v2", plain_files);
        stage.moment.when(move |now| {
            let promised = entry(now, "qa-00").is_some_and(|entry| {
                entry["status"] == "Pending" && entry["targetRevisions"][0] == second.as_str()
            });
            let app = now.application("qa-00");
            promised && !is_in_flight(app) && app["status"]["sync"]["status"] == "OutOfSync"
        });
        stage.refresh().await;
    }

    pub async fn end(stage: &mut Stage, recorded: &Recorded) {
        stage.start().await;
        stage.until_everywhere(recorded.revision("v2")).await;
        judge::rollout(stage, recorded);
    }
}

/// The sync of an Application is requested, and has not begun.
pub mod requested {
    use super::*;

    pub async fn begin(stage: &mut Stage) {
        stage.roll_out_first(plain_files, |_| {}).await;
        let second = stage.commit("v2", plain_files);
        stage.moment.when(move |now| {
            let app = now.application("qa-00");
            app["operation"]["sync"]["revision"] == second.as_str() && !runs(app, &second)
        });
        stage.refresh().await;
    }

    pub async fn end(stage: &mut Stage, recorded: &Recorded) {
        stage.start().await;
        stage.until_everywhere(recorded.revision("v2")).await;
        judge::rollout(stage, recorded);
    }
}

/// A wave is applied and not healthy yet, and the next one has not begun.
pub mod waves {
    use super::*;

    fn files(name: &str, version: &str) -> Manifests {
        match name {
            "dev-00" => slow("Deployment", version, with_waves(name, version)),
            _ => plain(name, version),
        }
    }

    pub async fn begin(stage: &mut Stage) {
        stage.roll_out_first(files, |_| {}).await;
        let second = stage.commit("v2", files);
        stage.moment.when(move |now| {
            let app = now.application("dev-00");
            runs(app, &second) && row(app, "Deployment").is_some() && row(app, "Service").is_none()
        });
        stage.refresh().await;
    }

    pub async fn end(stage: &mut Stage, recorded: &Recorded) {
        stage.start().await;
        stage.until_everywhere(recorded.revision("v2")).await;
        judge::rollout(stage, recorded);
        // What was applied is not applied again; what follows is, once.
        let of_app = |resource: &str| {
            let all = judge::writes(stage, resource);
            all.into_iter().filter(|write| write.contains("dev-00")).collect::<Vec<_>>()
        };
        assert_eq!(of_app("configmaps"), Vec::<String>::new(), "{recorded}");
        assert_eq!(of_app("deployments"), Vec::<String>::new(), "{recorded}");
        assert_eq!(of_app("services").len(), 1, "{recorded}: {:?}", of_app("services"));
        stage.world.recorder.read(|log| {
            assert_eq!(judge::hooks(log, "dev-00-pre", "v2"), 1, "{recorded}");
            assert_eq!(judge::hooks(log, "dev-00-post", "v2"), 1, "{recorded}");
            let first = |kind: Kind, name: &str, is: &dyn Fn(&Value) -> bool| {
                let mut all = log.of(kind).filter(|record| record.name() == name);
                all.find(|record| is(&record.object)).expect("it happened").version()
            };
            let available = |web: &Value| {
                web["status"]["observedGeneration"] == web["metadata"]["generation"]
                    && web["status"]["updatedReplicas"] == 1
                    && web["status"]["availableReplicas"] == 1
            };
            let healthy = first(Kind::Deployment, "dev-00", &available);
            let next = first(Kind::Service, "dev-00", &|service| is_of(service, "v2"));
            assert!(healthy < next, "{recorded}: the next wave opened too early");
        });
    }
}

/// Two hooks run: one with a name, and one whose name is made from the start of its operation.
pub mod hook {
    use super::*;

    fn files(name: &str, version: &str) -> Manifests {
        if name != "dev-00" {
            return plain(name, version);
        }
        let files = slow("Job", version, with_waves(name, version));
        let nameless = changed(with_waves(name, version), |object| {
            object["metadata"]["generateName"] = "dev-00-nameless-".into();
            object["metadata"].as_object_mut().unwrap().remove("name");
        });
        // The first document is the PreSync hook.
        let nameless = nameless[0].1.split("---\n").next().unwrap().to_owned();
        let path = "apps/dev-00/nameless.yaml".to_owned();
        [files, slow("Job", version, vec![(path, nameless)])].concat()
    }

    pub async fn begin(stage: &mut Stage) {
        stage.roll_out_first(files, |_| {}).await;
        let second = stage.commit("v2", files);
        stage.moment.when(move |now| {
            let running = now
                .all("jobs")
                .filter(|job| is_of(job, "v2") && job["status"]["completionTime"].is_null());
            let app = now.application("dev-00");
            // Known to the status as well.
            runs(app, &second) && running.count() == 2 && row(app, "Job").is_some()
        });
        stage.refresh().await;
    }

    pub async fn end(stage: &mut Stage, recorded: &Recorded) {
        stage.start().await;
        stage.until_everywhere(recorded.revision("v2")).await;
        judge::rollout(stage, recorded);
        stage.world.recorder.read(|log| {
            for prefix in ["dev-00-pre", "dev-00-nameless-", "dev-00-post"] {
                assert_eq!(judge::hooks(log, prefix, "v2"), 1, "{recorded}: {prefix}");
            }
        });
    }
}

/// A sync has failed, and is to be tried again after a while; meanwhile its cause goes away.
pub mod retry {
    use super::*;

    const GROUP: &str = "later.example.com";
    const PAUSE: SignedDuration = SignedDuration::from_secs(5);

    /// The second version needs a kind that is not there.
    fn files(name: &str, version: &str) -> Manifests {
        let mut files = plain(name, version);
        if (name, version) == ("dev-00", "v2") {
            let object = json!({
                "apiVersion": format!("{GROUP}/v1"), "kind": "Later", "metadata": {"name": "later"},
            });
            files.push(("apps/dev-00/later.yaml".to_owned(), format!("{object:#}\n")));
        }
        files
    }

    fn waits(app: &Value) -> bool {
        let state = &app["status"]["operationState"];
        state["phase"] == "Running"
            && state["message"].as_str().is_some_and(|text| text.contains("Retrying attempt #1 at"))
    }

    pub async fn begin(stage: &mut Stage) {
        let retry = json!({"limit": 3, "backoff": {"duration": "5s", "factor": 1}});
        let with_retry = |set: &mut Value| {
            set["spec"]["template"]["spec"]["syncPolicy"] = json!({ "retry": retry });
        };
        stage.roll_out_first(files, with_retry).await;
        stage.commit("v2", files);
        stage.moment.when(|now| waits(now.application("dev-00")));
        stage.refresh().await;
    }

    pub async fn end(stage: &mut Stage, recorded: &Recorded) {
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("laters.{GROUP}") },
            "spec": {
                "group": GROUP, "scope": "Namespaced",
                "names": { "kind": "Later", "plural": "laters", "singular": "later", "listKind": "LaterList" },
                "versions": [{ "name": "v1", "served": true, "storage": true, "schema": {
                    "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
                }}],
            },
        });
        stage.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
        stage.start().await;
        stage.until_everywhere(recorded.revision("v2")).await;
        judge::rollout(stage, recorded);
        let failed = &recorded.object("Application", "dev-00")["status"]["operationState"];
        let failed: Timestamp = failed["finishedAt"].as_str().unwrap().parse().unwrap();
        let path = format!("/apis/{GROUP}/v1/namespaces/{}/laters/later", stage.world.target);
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        let later: Value = stage.world.client.request(request).await.unwrap();
        let applied: Timestamp =
            later["metadata"]["creationTimestamp"].as_str().unwrap().parse().unwrap();
        let waited = applied.duration_since(failed);
        // Times of the server have whole seconds.
        assert!(waited >= PAUSE - SignedDuration::from_secs(1), "{recorded}: after {waited:#}");
        stage.world.recorder.read(|log: &Log| {
            let app = log.get(Kind::Application, "dev-00").unwrap();
            let state = &app["status"]["operationState"];
            assert_eq!(state["retryCount"], 1, "{recorded}: {state:#}");
        });
    }
}
