//! What an Application waits for, of each phase of its operation, with several results and
//! resources. `table.txt` is to be read with each change of it; `WAVEGATE_REGENERATE=1` writes
//! it.

use std::fmt::Write;

use super::*;
use crate::blocking_resource::{Blocking, cause_of_failure};
use crate::written;

fn line(found: &Blocking) -> String {
    let Blocking { resource, reason, since, until, needs_confirmation } = found;
    let mut text = format!("{reason:?}");
    if cause_of_failure(reason) != reason {
        let _ = write!(text, ", cause {:?}", cause_of_failure(reason));
    }
    if let Some(found) = resource {
        let flags = [
            (found.requires_pruning(), "requires pruning"),
            (found.requires_confirmation(), "requires confirmation"),
            (found.is_left_by_last_sync(), "left by the last sync"),
            (found.needs_a_person_to_prune(), "needs a person"),
            (found.is_kept_by_option(), "kept by its option"),
            (found.is_terminated(), "terminated"),
            (found.is_refused(), "refused"),
            (found.is_out_of_sync(), "out of sync"),
        ];
        let flags: Vec<&str> =
            flags.into_iter().filter_map(|(is_so, flag)| is_so.then_some(flag)).collect();
        let _ = write!(text, ", {} is {:?} [{}]", found.key(), found.status, flags.join(", "));
    }
    for (word, time) in [("since", since), ("until", until)] {
        if let Some(time) = time {
            let _ = write!(text, ", {word} {}", time.strftime("%M:%S"));
        }
    }
    if *needs_confirmation {
        text.push_str(", has to be confirmed");
    }
    text
}

#[test]
fn what_an_application_waits_for_is_as_written() {
    let old = |message: &str| {
        let mut old = resource("old", "OutOfSync", "Healthy");
        old["requiresPruning"] = true.into();
        let mut result = result("old", "PruneSkipped", "", false);
        result["kind"] = "Deployment".into();
        (result["group"], result["namespace"]) = ("apps".into(), "n".into());
        result["message"] = message.into();
        (json!([result]), json!([old]))
    };
    let (skipped, left) = old("ignored (requires pruning)");
    let (kept, _) = old("ignored (no prune)");
    let mut hook = resource("hook", "", "Degraded");
    hook["hook"] = true.into();
    let mut ended = result("ended", "", "Failed", true);
    ended["message"] = "Terminated".into();
    let results = [
        ("no result", json!([])),
        ("a failure", json!([result("x", "SyncFailed", "Failed", false)])),
        ("a refused prune", json!([result("x", "PruneFailed", "", false)])),
        ("a failed hook", json!([result("x", "", "Failed", true)])),
        ("a terminated hook", json!([ended])),
        (
            "a hook that runs",
            json!([result("plain", "Synced", "Running", false), result("x", "", "Running", true)]),
        ),
        ("it is applied", json!([result("x", "Synced", "Succeeded", false)])),
        ("skipped", skipped),
        ("kept", kept),
    ];
    let resources = [
        ("no resource", json!([])),
        (
            "ill ones",
            json!([
                resource("a", "Synced", "Suspended"),
                resource("b", "Synced", "Progressing"),
                resource("c", "OutOfSync", "Missing"),
                resource("d", "Synced", "Degraded"),
                hook,
            ]),
        ),
        (
            "one is missing",
            json!([resource("c", "Synced", "Missing"), resource("u", "Synced", "Unknown")]),
        ),
        (
            "one is unknown",
            json!([resource("a", "Synced", ""), resource("u", "Synced", "Unknown")]),
        ),
        (
            "one differs",
            json!([resource("a", "Synced", "Healthy"), resource("b", "OutOfSync", "")]),
        ),
        ("one is left", left),
    ];
    let mut text = String::new();
    for phase in ["", "Running", "Terminating", "Failed", "Succeeded"] {
        for (result_name, results) in &results {
            for (name, resources) in &resources {
                let mut found = application(phase, results.clone(), resources.clone());
                let state = &mut found["status"]["operationState"];
                state["message"] = "its words".into();
                state["finishedAt"] = "2026-01-01T00:01:00Z".into();
                let _ = writeln!(text, "{phase}, {result_name}, {name}");
                let _ = writeln!(text, "  {}", line(&blocking_of(&found)));
                let with = |change: fn(&mut Value)| {
                    let mut found = found.clone();
                    change(&mut found);
                    line(&blocking_of(&found))
                };
                let others = [
                    (
                        "prunes",
                        with(|found| {
                            found["spec"]["syncPolicy"]["automated"]["prune"] = true.into();
                        }),
                    ),
                    (
                        "an error",
                        with(|found| {
                            found["status"]["conditions"] =
                                json!([{"type": "ComparisonError", "message": "no file"}]);
                            found["status"]["health"] = json!({"status": "Progressing", "message": "m",
                            "lastTransitionTime": "2026-01-01T00:02:00Z"});
                        }),
                    ),
                    (
                        "attempted again",
                        with(|found| {
                            let state = &mut found["status"]["operationState"];
                            state["retryCount"] = 1.into();
                            state["operation"]["retry"] = json!({"limit": 3});
                        }),
                    ),
                    (
                        "confirmed",
                        with(|found| {
                            found["status"]["operationState"]["message"] =
                            "waiting for pruning confirmation of apps/Deployment/old and 2 more".into();
                        }),
                    ),
                ];
                let first = line(&blocking_of(&found));
                for (word, other) in others.iter().filter(|(_, other)| *other != first) {
                    let _ = writeln!(text, "  {word}: {other}");
                }
            }
        }
    }
    written::compare("src/blocking_resource/tests/table.txt", &text);
}
