//! The sync windows of generated Applications (AS-366, SE-406), and what happens to operations
//! that wait for one.

use super::*;
use crate::application_set::plan::windows::{Facts, denied, withdraw};
use wavegate_engine::windows::project_windows;

/// A window names a cluster by its name or its address, whatever the Application does.
#[test]
fn a_window_is_that_of_the_cluster_of_the_application() {
    let clusters = [cluster("one", "https://1"), cluster("two", "https://2")];
    let now = "2026-01-02T12:00:30Z".parse().unwrap();
    let by_name = |name: &str| json!({ "name": name });
    let by_server = |server: &str| json!({ "server": server });
    for (destination, project, selected, want) in [
        (by_server("https://1"), "p", "one", true),
        (by_server("https://1"), "p", "https://1", true),
        (by_server("https://1"), "p", "two", false),
        (by_name("two"), "p", "two", true),
        (by_name("two"), "p", "https://2", true),
        (by_name("two"), "p", "https://1", false),
        (by_name("unknown"), "p", "unknown", true),
        (by_server("https://3"), "p", "https://3", true),
        (by_name("two"), "other", "two", false),
    ] {
        let window = json!({
            "kind": "deny", "schedule": "* * * * *", "duration": "1h", "clusters": [selected],
            "manualSync": true,
        });
        let windows = project_windows(&json!({"spec": {"syncWindows": [window]}}));
        let projects = [("p".to_owned(), windows), ("empty".to_owned(), Vec::new())].into();
        let facts = Facts { projects: &projects, clusters: &clusters };
        let application =
            generated("a", json!({"project": project, "destination": destination.clone()}));
        let wanted = generated_by(&set(), &DecisionSettings::default(), &[application]);
        let wanted = &wanted.applications[0];
        let found = denied(wanted, &facts, false, now);
        assert_eq!(found.is_some(), want, "{destination} in {selected}: {found:?}");
        assert_eq!(denied(wanted, &facts, true, now), None, "such a sync counts as manual");
    }
}

/// Only as long as the Application is as observed.
#[test]
fn operations_that_have_applied_nothing_are_withdrawn() {
    let names = ["a", "b", "c"];
    let mut live = names.map(|name| live(&generated(name, spec())));
    live[0]["status"]["operationState"] = json!({
        "phase": "Running", "startedAt": "2026-01-02T12:00:00Z", "operation": {"sync": {}},
    });
    let set = set();
    let generated = generated_by(&set, &DecisionSettings::default(), &[]);
    let id = Identity::of(&set);
    let existing =
        live.each_ref().map(|live| Existing::read(live, None, &Rules::of(&id, &generated)));
    let of_b = Patch {
        name: "b".to_owned(),
        json: json!({"spec": {"project": "q"}, "metadata": {"labels": {"x": "1"}}}).to_string(),
        starts: false,
        is_taken_up: false,
        changes_spec: true,
        only_records: false,
        refreshes: false,
        step: None,
    };
    let mut plan = WritePlan { patches: vec![of_b], ..WritePlan::default() };
    withdraw(&mut plan, &["a", "b", "gone"].map(str::to_owned), &existing);
    let written: BTreeMap<&str, Value> =
        plan.patches.iter().map(|patch| (patch.name.as_str(), patch.body())).collect();
    let terminated = json!({
        "metadata": {"resourceVersion": "5"},
        "status": {"operationState": {"phase": "Terminating"}},
    });
    let removed = json!({
        "metadata": {"resourceVersion": "5", "labels": {"x": "1"}},
        "operation": null, "spec": {"project": "q"},
    });
    assert_eq!(written, BTreeMap::from([("a", terminated), ("b", removed)]));
}
