//! Writes the records of a release: see `tests/record`.

use std::time::Duration;

use super::moment::State;
use super::recorded::{DEFINITIONS, Recorded};
use super::stage::{Stage, recording_program};
use super::{SCENARIOS, begin, served};

/// The longest way to a moment.
const LIMIT: Duration = Duration::from_secs(300);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "writes tests/data/continued, once for each release: see tests/record"]
async fn record() {
    let release = std::env::var("WAVEGATE_RECORD_RELEASE").expect("the name of the release");
    let program = recording_program().expect("the program of the release");
    let only = std::env::var("WAVEGATE_RECORD_SCENARIO").unwrap_or_default();
    for (definitions, folder) in DEFINITIONS {
        for scenario in SCENARIOS.iter().filter(|name| only.is_empty() || **name == only) {
            let mut stage = Stage::to_record(definitions, &program).await;
            begin(scenario, &mut stage).await;
            let reached = stage.moment.reached(LIMIT).await;
            let log = stage.world.controller_log();
            let (state, at) =
                reached.unwrap_or_else(|| panic!("{scenario}: the moment never came\n{log}"));
            stage.world.process().kill();
            let recorded = Recorded {
                release: release.clone(),
                scenario: (*scenario).to_owned(),
                definitions,
                at,
                commits: stage.commits.clone(),
                objects: objects(state, &stage.world.namespace),
            };
            recorded.write();
            eprintln!("{folder}/{scenario}: {} objects", recorded.objects.len());
        }
    }
}

/// What is kept of a state.
fn objects(state: State, control_plane: &str) -> Vec<serde_json::Value> {
    let mut objects = state.into_objects();
    // Most of the text, and of no effect: the controllers share what is in the control plane
    // without them. Of what is deployed they say what the next apply may take away.
    for metadata in objects.iter_mut().map(|object| &mut object["metadata"]) {
        if metadata["namespace"] == control_plane {
            metadata.as_object_mut().expect("metadata").remove("managedFields");
        }
    }
    served::forget(&mut objects);
    objects
}
