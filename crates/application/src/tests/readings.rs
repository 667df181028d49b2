//! What automated syncs, projects and Events read, at the boundaries of each.

use super::*;
use crate::events::{StatusChange, Subject};
use crate::global_projects::GlobalProjects;
use crate::pruned_fields::PrunedField;
use crate::signatures::Demands;

fn automated(changes: &Value) -> Value {
    let mut app = application();
    app["spec"]["syncPolicy"] = json!({"automated": {"selfHeal": true}});
    json_patch::merge(&mut app, changes);
    app
}

/// What an automated sync decides of an Application whose only object is missing.
fn decided(app: Value, revisions: &[&str], now: Timestamp) -> AutoSync {
    let spec = wavegate_api::read_typed(&app["spec"]).unwrap();
    let comparison = compared(&app, &placed(&[map("one")]), &BTreeMap::new());
    let revisions: Vec<String> = revisions.iter().map(|one| (*one).to_owned()).collect();
    let (app, heal) = (App::of(app), SelfHeal::default());
    auto_sync::decide(&app, &spec, &comparison, &revisions, &heal, true, now)
}

/// SE-420: no automated sync takes the place of a requested one, or holds up a deletion.
#[test]
fn an_automated_sync_waits_for_what_was_requested_se_420() {
    let plain = decided(automated(&json!({})), &["abc"], at(0));
    let AutoSync::Start(operation) = plain else { panic!("{plain:?}") };
    assert_eq!(operation["sync"].get("autoHealAttemptsCount"), None, "it heals nothing");
    assert_eq!(operation["sync"].get("syncOptions"), None, "the Application has none");
    let options = json!({"spec": {"syncPolicy": {"syncOptions": ["Replace=true"]}}});
    let AutoSync::Start(operation) = decided(automated(&options), &["abc"], at(0)) else {
        panic!("options hold nothing");
    };
    assert_eq!(operation["sync"]["syncOptions"], json!(["Replace=true"]));
    for (name, change) in [
        ("a requested operation", json!({"operation": {"sync": {}}})),
        ("a deletion", json!({"metadata": {"deletionTimestamp": "2023-11-14T22:13:20Z"}})),
    ] {
        assert_eq!(decided(automated(&change), &["abc"], at(0)), AutoSync::Nothing, "{name}");
    }
}

/// SE-426: self-heal waits as long as its attempts demand, and not longer.
#[test]
fn self_heal_begins_when_its_pause_is_over_se_426() {
    let healed = json!({"status": {"operationState": {
        "phase": "Succeeded", "finishedAt": "2023-11-14T22:13:20Z",
        "operation": {"sync": {"autoHealAttemptsCount": 2}},
        "syncResult": {"revision": "abc", "source": application()["spec"]["source"]},
    }}});
    let app = || automated(&healed);
    let until = at(0).checked_add(SelfHeal::default().pause(2)).unwrap();
    let before = until.checked_sub(jiff::SignedDuration::from_secs(1)).unwrap();
    assert_eq!(decided(app(), &["abc"], before), AutoSync::Wait(until));
    let AutoSync::Start(operation) = decided(app(), &["abc"], until) else { panic!("it is over") };
    assert_eq!(operation["sync"]["autoHealAttemptsCount"], 3);
}

/// SE-422: a commit was attempted by an operation with these sources and revisions; one that ended
/// before they were known has attempted what it could.
#[test]
fn an_attempt_has_the_sources_and_revisions_se_422() {
    let source = application()["spec"]["source"].clone();
    let other = json!({"repoURL": "https://other", "path": "p"});
    let of = |result: Value| {
        json!({"status": {"operationState": {
            "phase": "Failed", "message": "broken", "finishedAt": "2023-11-14T22:13:20Z",
            "operation": {"sync": {}}, "syncResult": result,
        }}})
    };
    let refuses = |app: Value, revisions: &[&str]| {
        matches!(decided(app, revisions, at(0)), AutoSync::Refuse(_))
    };
    for (name, result, want) in [
        ("both", json!({"source": source, "revision": "abc"}), true),
        ("another source", json!({"source": other, "revision": "abc"}), false),
        ("of no revision", json!({"source": source}), false),
        ("neither was known", json!({"resources": []}), true),
        ("no result", json!(null), true),
    ] {
        assert_eq!(refuses(automated(&of(result)), &["abc"]), want, "{name}");
    }
    let two = json!([source, other]);
    let listed = |result: Value| {
        let mut app = automated(&of(result));
        app["spec"]["source"].take();
        app["spec"]["sources"] = two.clone();
        app
    };
    for (name, result, want) in [
        ("both", json!({"sources": two, "revisions": ["a", "b"]}), true),
        ("one is another", json!({"sources": two, "revisions": ["a", "c"]}), false),
        ("in another order", json!({"sources": [other, source], "revisions": ["a", "b"]}), false),
    ] {
        assert_eq!(refuses(listed(result), &["a", "b"]), want, "{name}");
    }
}

/// SE-081: a project inherits from the global ones whose selector it matches.
#[test]
fn a_project_inherits_by_its_labels_se_081() {
    let entry = |project: &str| json!({"labelSelector": {"matchLabels": {"team": "a"}}, "projectName": project});
    let read = GlobalProjects::read(&json!([entry("g")]));
    let of = |team: &str| json!({"metadata": {"name": "p", "labels": {"team": team}}});
    assert!(read.inherits(&of("a"), "g"));
    assert!(!read.inherits(&of("b"), "g"), "its labels differ");
    assert!(!read.inherits(&of("a"), "h"), "that one is not global");
    let most = |count: usize| GlobalProjects::read(&vec![entry("g"); count].into());
    assert_eq!(most(1000).problem(), None);
    let problem = most(1001).problem().map(str::to_owned).unwrap();
    assert!(problem.contains("has 1001 entries, and at most 1000 are read"), "{problem}");
}

/// SE-080: a list of a person is read as a whole or refused as a whole.
#[test]
fn demands_of_signatures_are_bounded_se_080() {
    let read = |spec: Value| {
        Demands::of(&wavegate_api::read_typed::<AppProjectSpec>(&spec).unwrap()).map(|_| ())
    };
    let key = "4AEE18F83AFDEB23";
    let keys = |count: usize| json!({"signatureKeys": vec![json!({"keyID": key}); count]});
    assert_eq!(read(keys(1000)), Ok(()));
    assert!(read(keys(1001)).unwrap_err().contains("more than 1000 entries"));
    let wrong = read(json!({"signatureKeys": [{"keyID": "no\u{7}key"}]})).unwrap_err();
    assert!(wrong.contains("\"nokey\" is no ID of a key"), "{wrong}");
    let policy = |repos: Value| json!({"repos": repos, "gpg": {"mode": "head", "keys": [key]}});
    let url = || json!({"url": "https://git/*"});
    let integrity = |policies: Value| json!({"sourceIntegrity": {"git": {"policies": policies}}});
    let of = |count: usize| integrity(vec![policy(json!([url()])); count].into());
    assert_eq!(read(of(1000)), Ok(()));
    assert!(
        read(of(1001)).unwrap_err().contains(".git.policies has too many entries")
            || read(of(1001)).unwrap_err().contains("has too many entries")
    );
    for (repos, want) in [
        (json!([]), false),
        (json!([url()]), true),
        (vec![url(); 1000].into(), true),
        (vec![url(); 1001].into(), false),
    ] {
        let read = read(integrity(json!([policy(repos)])));
        assert_eq!(read.is_ok(), want, "{read:?}");
    }
}

/// SE-072: only what an API server has dropped is a lost guard: not what says nothing, and not an
/// entry that a person has removed.
#[test]
fn a_removed_entry_is_no_lost_guard_se_072() {
    let lost = |applied: Value, stored: Value| {
        let key = "kubectl.kubernetes.io/last-applied-configuration";
        let text = json!({"spec": {"destinations": applied}}).to_string();
        let project = json!({
            "metadata": {"generation": 1, "annotations": {key: text}},
            "spec": {"destinations": stored},
        });
        PrunedField::of(&project).map(|lost| lost.field)
    };
    let whole = json!({"server": "s", "namespace": "n"});
    let part = json!({"server": "s"});
    let want = Some("spec.destinations[0].namespace".to_owned());
    assert_eq!(lost(json!([whole]), json!([part])), want);
    assert_eq!(lost(json!([whole]), json!([whole])), None);
    assert_eq!(lost(json!([whole, part]), json!([part])), None, "a person has removed the first");
    let empty = json!({"server": "s", "namespace": ""});
    assert_eq!(lost(json!([empty]), json!([part])), None, "it says nothing");
}

/// SE-541: an Event names what it is about, and an error is new when it differs in more than numbers.
#[test]
fn an_event_is_of_one_change_se_541() {
    let of = |before: Value, after: Value| {
        StatusChange::of(&json!({"status": before}), &json!({"status": after})).events()
    };
    let operation = |by: Value| {
        json!({"operationState": {
            "phase": "Running", "startedAt": "2023-11-14T22:13:20Z",
            "operation": {"sync": {"revision": "abc"}, "initiatedBy": by},
        }})
    };
    for (by, want) in [
        (json!({"automated": true}), Subject::AutomatedSync),
        (json!({"username": "ann"}), Subject::Reason),
        (json!({}), Subject::Reason),
    ] {
        let events = of(json!({}), operation(by.clone()));
        let [event] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!((event.reason, event.subject), ("OperationStarted", want), "{by}");
    }
    let sync = |status: &str| json!({"sync": {"status": status}});
    let events = of(sync("Synced"), sync("OutOfSync"));
    let states = Some(["Synced".to_owned(), "OutOfSync".to_owned()]);
    assert_eq!((events.len(), &events[0].states), (1, &states));
    let error =
        |kind: &str, message: &str| json!({"conditions": [{"type": kind, "message": message}]});
    for (kind, action) in [("SyncError", "Sync"), ("ComparisonError", "Compare")] {
        let events = of(json!({}), error(kind, "broken"));
        let [event] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!((event.reason, event.action, event.text.as_str()), (kind, action, "broken"));
        assert!(event.warning);
    }
    for (before, after, is_new) in [
        ("port 1", "port 1", false),
        ("port 1", "port 22", false),
        ("port 123", "port 4", false),
        ("port ", "port 5", true),
        ("port 1", "port 1 of 2", true),
        ("port", "host", true),
    ] {
        let events = of(error("SyncError", before), error("SyncError", after));
        assert_eq!(!events.is_empty(), is_new, "{before} / {after}");
    }
}
