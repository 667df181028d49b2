//! Runs of a set (ST-002): their names.

use serde_json::json;

use super::{ClusterState, NAMESPACE, progressive, rolling, set};
use crate::api::steering::RUN;

/// It was never recorded, with a warning at each reconcile.
#[tokio::test]
async fn a_run_whose_name_is_taken_gets_the_next_number_as_st_002() {
    let world = ClusterState::start(progressive(Default::default())).await;
    for name in ["set-1", "set-2"] {
        world.create(RUN, name, json!({"applicationSet": "other"})).await;
    }
    world.create("ApplicationSet", "set", set(rolling())).await;
    world.compare("app", "OutOfSync", "Missing", "r1").await;
    let run = world.until(RUN, "set-3", |run| run["status"]["phase"] == "Progressing").await;
    assert_eq!(run["metadata"]["ownerReferences"][0]["name"], "set", "{run}");
    world.until("Application", "app", |app| app["operation"].is_object()).await;
    let other = world.until(RUN, "set-1", |_| true).await;
    assert_eq!(
        (&other["status"], &other["metadata"]["namespace"]),
        (&json!(null), &json!(NAMESPACE))
    );
}
