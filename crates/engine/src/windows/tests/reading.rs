//! Reading and validating windows.

use serde_json::{Value, json};

use super::{deny, open, project};
use crate::windows::{project_windows, window_problems, window_warnings};

#[test]
fn any_value_can_be_read() {
    let odd = [
        json!(null),
        json!({}),
        json!({"spec": null}),
        json!({"spec": {"syncWindows": null}}),
        json!({"spec": {"syncWindows": {"kind": "deny"}}}),
        json!({"spec": {"syncWindows": []}}),
    ];
    for project in &odd {
        assert_eq!(project_windows(project), vec![], "{project}");
    }
    let list = project_windows(&project(json!([1, null, {}, open("deny", json!({}))])));
    let readable: Vec<bool> = list.iter().map(|window| window.rule.is_ok()).collect();
    assert_eq!(readable, [false, false, false, true]);
    assert_eq!(list[3].index, 3);
    assert!(!list[0].matches(&super::AUTO));
}

#[test]
fn validation() {
    // SE-411.
    let long = "x".repeat(256);
    let twin = || deny("0 9 * * *", "1h", json!({}));
    let differs = |field: &str, value: Value| {
        let mut window = twin();
        window[field] = value;
        json!([twin(), window])
    };
    let same = "spec.syncWindows[1]: the same as spec.syncWindows[0] (deny \"0 9 * * *\" for \"1h\", UTC); remove one of them";
    let cases: Vec<(Value, Vec<&str>)> = vec![
        (json!(null), vec![]),
        (json!([twin()]), vec![]),
        (json!("always"), vec!["spec.syncWindows must be a list"]),
        (json!([7]), vec!["spec.syncWindows[0]: a sync window must be an object"]),
        (
            json!([{"kind": "Deny", "schedule": "0 9 * *", "duration": "1d", "applications": ["*"]}]),
            vec![
                "spec.syncWindows[0]: kind 'Deny' mismatch: can only be allow or deny",
                "spec.syncWindows[0]: cannot parse schedule '0 9 * *': expected 5 fields",
                "spec.syncWindows[0]: cannot parse duration '1d': unknown unit",
            ],
        ),
        (
            json!([open("deny", json!({"description": long}))]),
            vec!["spec.syncWindows[0]: description is longer than 255 characters"],
        ),
        (json!([open("deny", json!({"description": "x".repeat(255)}))]), vec![]),
        (
            json!([open("deny", json!({"applications": ["a", 5]}))]),
            vec!["spec.syncWindows[0]: applications must be a list of strings"],
        ),
        (
            json!([open("deny", json!({"clusters": {"a": 1}}))]),
            vec!["spec.syncWindows[0]: clusters must be a list of strings"],
        ),
        (json!([twin(), twin()]), vec![same]),
        (differs("manualSync", json!(true)), vec![same]),
        (differs("syncOverrun", json!(true)), vec![same]),
        (differs("description", json!("again")), vec![same]),
        (differs("kind", json!("allow")), vec![]),
        (differs("schedule", json!("0 10 * * *")), vec![]),
        (differs("duration", json!("2h")), vec![]),
        (differs("timeZone", json!("Europe/Berlin")), vec![]),
        (differs("andOperator", json!(true)), vec![]),
        (differs("applications", json!(["web"])), vec![]),
        (differs("namespaces", json!(["prod"])), vec![]),
        (differs("clusters", json!(["a"])), vec![]),
    ];
    for (list, want) in cases {
        let found = window_problems(&project(list.clone()));
        assert_eq!(found.len(), want.len(), "{list}: {found:?}");
        for (found, want) in found.iter().zip(&want) {
            assert!(found.starts_with(want), "{list}: {found}");
        }
    }
    // Windows without effect do not block and are not rejected.
    let said = window_warnings(&project(json!([
        deny("0 0 31 2 *", "1h", json!({})),
        deny("0 0 * * *", "0s", json!({})),
        deny("0 0 * * *", "1h", json!({"applications": []})),
        deny("0 0 * * *", "1h", json!({"timeZone": "Mars/Olympus"})),
        deny("0 0 * * *", "1h", json!({})),
    ])));
    let want = [
        "spec.syncWindows[0]: is never active, since its schedule matches no existing day",
        "spec.syncWindows[1]: is never active, since its duration is not positive",
        "spec.syncWindows[2]: matches nothing",
        "spec.syncWindows[3]: timeZone \"Mars/Olympus\" is unknown; UTC is used",
    ];
    assert_eq!(said.len(), want.len(), "{said:?}");
    for (said, want) in said.iter().zip(want) {
        assert!(said.starts_with(want), "{said}");
    }
}
