//! The fields of an operation, as tables.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    StoredProgress, announce_attempt, attempt, begin_operation, check, finish, id, is_complete,
    is_full, is_itself, is_refreshed, keeps_manifests, next_attempt, operation_sources, pin,
    record_metadata, store, stored_results, uid_of,
};
use crate::app::App;
use wavegate_api::ResourceKey;
use wavegate_api::operation::{OperationPhase, OperationState};
use wavegate_engine::promotion::PROMOTION;
use wavegate_engine::sync::{SyncPlan, SyncProgress};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn source(path: &str) -> Value {
    json!({"repoURL": "r", "path": path})
}

/// An Application with a source, and with this state of its operation.
fn app(state: Value) -> App {
    with(json!({"status": {"operationState": state}}))
}

fn with(changes: Value) -> App {
    let mut application = json!({
        "metadata": {"name": "a", "namespace": "argocd", "uid": "u"},
        "spec": {"source": source("p")},
    });
    json_patch::merge(&mut application, &changes);
    App::of(application)
}

fn state(app: &App) -> &OperationState {
    &app.status.operation_state
}

/// What was applied to the namespace is remembered through the next operation (SE-025), and
/// everything else of the last one is forgotten.
#[test]
fn the_applied_metadata_outlives_operations_se_025() {
    let metadata = json!({"labels": {"a": "b"}});
    let last = json!({"phase": "Failed", "message": "m", "retryCount": 2,
        "syncResult": {"revision": "r", "managedNamespaceMetadata": metadata}});
    let mut own = app(last);
    let request = json!({"sync": {"revision": "x"}});
    own.operation = Some(wavegate_api::operation::Requested::of(request.clone()));
    begin_operation(&mut own, at(0));
    let result = json!({"revision": "", "managedNamespaceMetadata": metadata});
    let want = json!({"phase": "Running", "startedAt": "2023-11-14T22:13:20Z",
        "operation": request, "syncResult": result});
    assert_eq!(json!(state(&own)), want);
    let mut without = app(json!({"phase": "Failed", "syncResult": {"revision": "r"}}));
    begin_operation(&mut without, at(0));
    assert_eq!(state(&without).sync_result, None);

    // (wanted, applied before, a dry run, applied now, remembered then)
    let (none, old, new) = (Value::Null, json!({"labels": {"a": "1"}}), json!({"labels": {}}));
    let cases = [
        (&new, &none, false, true, &new),
        (&new, &old, false, true, &new),
        (&new, &old, false, false, &old),
        (&new, &none, false, false, &none),
        (&none, &old, false, false, &none),
        (&none, &old, true, false, &old),
        (&none, &old, true, true, &none),
        (&none, &none, false, false, &none),
        (&old, &old, true, true, &old),
    ];
    for (wanted, before, dry_run, is_applied, want) in cases {
        let result = json!({"revision": "r", "managedNamespaceMetadata": before});
        let mut own = with(json!({
            "spec": {"syncPolicy": {"managedNamespaceMetadata": wanted}},
            "status": {"operationState": {
                "operation": {"sync": {"dryRun": dry_run}}, "syncResult": result}},
        }));
        record_metadata(&mut own, is_applied);
        let result = json!(state(&own).sync_result);
        let name = format!("{wanted}, {before}, {dry_run}, {is_applied}");
        assert_eq!(&result["managedNamespaceMetadata"], want, "{name}");
        assert_eq!(result["revision"], "r", "{name}");
    }
    // Where nothing is remembered, no result is made.
    let mut empty = app(json!({}));
    record_metadata(&mut empty, false);
    assert_eq!(state(&empty).sync_result, None);
}

/// By its UID, without an API server by its name.
#[test]
fn an_application_is_identified_by_its_uid() {
    let uid = |uid: &str| json!({"metadata": {"name": "a", "namespace": "n", "uid": uid}});
    assert_eq!(uid_of(&uid("u")), "u");
    assert_eq!(uid_of(&uid("")), "n_a");
    let ids = [
        id(&uid("u"), at(0), "r"),
        id(&uid("v"), at(0), "r"),
        id(&uid("u"), at(1), "r"),
        id(&uid("u"), at(0), "s"),
        id(&uid(""), at(0), "r"),
    ];
    for (index, id) in ids.iter().enumerate() {
        assert!(!id.is_empty() && !ids[..index].contains(id), "{ids:?}");
    }
    assert_eq!(id(&uid("u"), at(0), "r"), ids[0], "the same again");

    let key = |group: &str, kind: &str| ResourceKey::new(group, kind, "n", "a");
    let of_argo = key("argoproj.io", "Application");
    for (own, key, live, want) in [
        ("u", &of_argo, "u", true),
        ("u", &of_argo, "v", false),
        ("", &of_argo, "", false),
        ("u", &key("argoproj.io", "AppProject"), "u", false),
        ("u", &key("app.k8s.io", "Application"), "u", false),
    ] {
        assert_eq!(is_itself(&uid(own), key, &uid(live)), want, "{own} {key} {live}");
    }
}

/// The sources of the request, else those of the spec, with their revisions (SE-374).
#[test]
fn an_operation_pins_what_it_syncs_se_374() {
    let pinned = |sync: Value, spec: Value, revisions: &[&str]| {
        let mut own = with(json!({
            "spec": spec, "status": {"operationState": {"operation": {"sync": sync}}}}));
        let revisions: Vec<String> = revisions.iter().map(|&one| one.to_owned()).collect();
        pin(&mut own, &revisions);
        let sources = operation_sources(&own);
        (json!(state(&own).sync_result), sources)
    };
    let two = json!([source("a"), source("b")]);
    let both = vec![source("a"), source("b")];
    let cases = [
        (
            "of the spec",
            pinned(json!({}), json!({}), &["x"]),
            (json!({"revision": "x", "source": source("p")}), vec![source("p")]),
        ),
        (
            "several of the spec",
            pinned(json!({}), json!({"source": null, "sources": two}), &["x", "y"]),
            (json!({"revision": "", "revisions": ["x", "y"], "sources": two}), both.clone()),
        ),
        (
            "of the request",
            pinned(json!({"source": source("q")}), json!({}), &["x"]),
            (json!({"revision": "x", "source": source("q")}), vec![source("q")]),
        ),
        (
            "several of the request",
            pinned(json!({"sources": two, "source": source("q")}), json!({}), &["x", "y"]),
            (json!({"revision": "", "revisions": ["x", "y"], "sources": two}), both),
        ),
        (
            "an empty list of the request",
            pinned(json!({"sources": []}), json!({}), &["x"]),
            (json!({"revision": "x", "source": source("p")}), vec![source("p")]),
        ),
        (
            "none at all",
            pinned(json!({}), json!({"source": null}), &["x"]),
            (json!({"revision": "x"}), vec![]),
        ),
        (
            "an empty list of the spec",
            pinned(json!({}), json!({"source": null, "sources": []}), &["x"]),
            (json!({"revision": "x"}), vec![]),
        ),
    ];
    for (name, got, want) in cases {
        assert_eq!(got, want, "{name}");
    }
    // Without a result yet, those of the request.
    let own = app(json!({"operation": {"sync": {"source": source("q")}}}));
    assert_eq!(operation_sources(&own), [source("q")]);
    assert_eq!(operation_sources(&app(json!({}))), [source("p")]);
}

/// With a commit for each of its sources, nothing must be resolved.
#[test]
fn a_request_is_complete_with_a_commit_for_each_source() {
    let (commit, short) = ("a".repeat(40), "a".repeat(39));
    let two = json!({"sources": [source("a"), source("b")]});
    for (sync, want) in [
        (json!({"revision": commit}), true),
        (json!({"revision": short}), false),
        (json!({"revision": ""}), false),
        (json!({}), false),
        (json!({"revision": commit, "sources": two["sources"]}), false),
        (json!({"revisions": [commit, commit], "sources": two["sources"]}), true),
        (json!({"revisions": [commit, short], "sources": two["sources"]}), false),
        (json!({"revisions": [commit, commit]}), false),
    ] {
        let own = app(json!({"operation": {"sync": sync}}));
        assert_eq!(is_complete(&own), want, "{sync}");
    }
}

/// Until the spec names another source (SE-046).
#[test]
fn given_manifests_are_kept_until_the_source_changes_se_046() {
    let own = |sync: Value, path: &str| {
        app(json!({"operation": {"sync": sync},
                   "syncResult": {"revision": "x", "source": source(path)}}))
    };
    for (sync, path, want) in [
        (json!({"manifests": ["{}"]}), "p", true),
        (json!({"manifests": ["{}"]}), "other", false),
        (json!({"manifests": []}), "p", false),
        (json!({}), "p", false),
        (json!({"manifests": ["{}"], "dryRun": true}), "p", false),
    ] {
        assert_eq!(keeps_manifests(&own(sync.clone(), path)), want, "{sync} {path}");
    }
    assert!(!keeps_manifests(&app(json!({}))));
}

/// Not those of a rollout, and not what heals some resources (SE-024).
#[test]
fn a_retry_resolves_revisions_only_if_it_is_asked_to_se_024() {
    let of = |request: Value| {
        let state = json!({"operation": request});
        is_refreshed(self::state(&app(state)))
    };
    let retry = json!({"refresh": true});
    let promoted = json!([{"name": PROMOTION, "value": "2026-01-01T00:00:00Z"}]);
    let automated = json!({"automated": true});
    let some = json!([{"kind": "Pod", "name": "a"}]);
    for (request, want) in [
        (json!({"sync": {"revision": "x"}, "retry": retry}), true),
        (json!({"sync": {"revision": "x"}, "retry": {"refresh": false}}), false),
        (json!({"sync": {"revision": "x"}}), false),
        (json!({"sync": {"resources": some}, "retry": retry}), true),
        (json!({"sync": {"resources": some}, "retry": retry, "initiatedBy": automated}), false),
        (json!({"sync": {"resources": []}, "retry": retry, "initiatedBy": automated}), true),
        (json!({"retry": retry, "initiatedBy": automated}), true),
        (json!({"sync": {"revision": "x"}, "info": promoted, "retry": retry}), false),
        (json!({"sync": {}, "info": promoted, "retry": retry}), true),
    ] {
        assert_eq!(of(request.clone()), want, "{request}");
    }
}

/// The next attempt forgets results and progress; and the revisions, if it is asked to resolve
/// them again, unless its user goes back to what was deployed before (SE-024, SE-390).
#[test]
fn the_next_attempt_keeps_what_a_user_goes_back_to_se_390() {
    let result = json!({"revision": "x", "source": source("p"),
        "managedNamespaceMetadata": {"labels": {}},
        "resources": [{"kind": "Pod", "name": "a", "namespace": "", "group": "", "version": "v1",
                       "status": "Synced", "syncPhase": "Sync"}]});
    let next = |request: &Value, status: Value| {
        let mut own = with(json!({"operation": request, "status": {
            "operationState": {"phase": "Running", "operation": request, "syncResult": result,
                "finishedAt": "2026-01-01T00:00:00Z", "progress": {"a": 1}, "message": "m"}}}));
        let mut raw = own.stored().clone();
        json_patch::merge(&mut raw["status"], &status);
        own = App::of(raw);
        next_attempt(&mut own, 3);
        own
    };
    let of = |more: Value| {
        let mut request = json!({"sync": {"revision": "x"}, "retry": {"refresh": true}});
        json_patch::merge(&mut request, &more);
        request
    };
    let history = json!({"history": [{"id": 0, "revision": "x"}, {"id": 1, "revision": "y"}],
                         "sync": {"status": "Synced", "revision": "y"}});
    let current = json!({"history": [{"id": 0, "revision": "x"}],
                         "sync": {"status": "Synced", "revision": "x"}});
    let automated = json!({"initiatedBy": {"automated": true}});
    let other = json!({"sync": {"source": source("q")}});
    let same = json!({"sync": {"source": source("p")}});
    let list = json!({"sync": {"sources": [source("p")]}});
    let both = json!({"sync": {"source": source("q")}, "initiatedBy": {"automated": true}});
    for (name, more, status, is_kept) in [
        ("a newer commit", json!({}), json!({}), false),
        ("a commit of the history", json!({}), history.clone(), true),
        ("the current commit", json!({}), current, false),
        ("another source", other, json!({}), true),
        ("the same source", same, json!({}), false),
        ("a list, where the spec has one source", list, json!({}), true),
        ("an automated sync of the history", automated, history, false),
        ("an automated one with another source", both, json!({}), false),
    ] {
        let request = of(more);
        let own = next(&request, status);
        let kept = if is_kept { Some("x") } else { None };
        let revision = |request: &Value| request["sync"]["revision"].as_str().map(str::to_owned);
        assert_eq!(revision(state(&own).operation.raw()).as_deref(), kept, "{name}: the state");
        let requested = own.operation.as_ref().unwrap();
        assert_eq!(revision(requested.raw()).as_deref(), kept, "{name}: the request");
        let state = json!(state(&own));
        assert_eq!(
            state["syncResult"],
            json!({"revision": "",
            "managedNamespaceMetadata": {"labels": {}}}),
            "{name}"
        );
        assert_eq!((state.get("finishedAt"), state.get("progress")), (None, None), "{name}");
    }
    // A request that came in the meantime keeps its revisions.
    let mut newer = next(&of(json!({})), json!({}));
    let raw = json!({"sync": {"revision": "z"}});
    newer.operation = Some(wavegate_api::operation::Requested::of(raw.clone()));
    next_attempt(&mut newer, 4);
    assert_eq!(newer.operation.as_ref().unwrap().raw(), &raw);
    // Without `refresh`, only the resources go.
    let own = next(&json!({"sync": {"revision": "x"}}), json!({}));
    assert_eq!(
        json!(state(&own).sync_result),
        json!({"revision": "x", "source": source("p"),
        "managedNamespaceMetadata": {"labels": {}}})
    );
}

/// What was announced and is not known to have happened is no result of a failed attempt.
#[test]
fn a_failed_attempt_drops_what_was_only_announced() {
    let row = |name: &str, status: Value, phase: Value| {
        json!({"kind": "Pod", "name": name, "namespace": "", "group": "", "version": "v1",
               "syncPhase": "Sync", "status": status, "hookPhase": phase})
    };
    let rows = json!([
        row("synced", "Synced".into(), "Running".into()),
        row("ran", Value::Null, "Running".into()),
        row("refused", "SyncFailed".into(), Value::Null),
        row("announced", Value::Null, Value::Null),
    ]);
    let before = json!({"phase": "Running", "progress": {"a": 1}, "retryCount": 1,
        "startedAt": "2023-11-14T22:13:20Z", "syncResult": {"revision": "x", "resources": rows}});
    let names = |state: &OperationState| -> Vec<String> {
        let rows = &state.sync_result.as_ref().unwrap().resources;
        rows.iter().map(|row| row.name.clone()).collect()
    };
    let mut announced = state(&app(before.clone())).clone();
    announce_attempt(&mut announced, 2, "why".to_owned(), at(5));
    assert_eq!(names(&announced), ["synced", "ran", "refused"]);
    assert!(announced.progress.is_empty());
    let now = json!(announced);
    assert_eq!((&now["phase"], &now["message"]), (&"Running".into(), &"why".into()));
    assert_eq!((&now["retryCount"], attempt(&announced)), (&2.into(), 2));
    assert_eq!(now["finishedAt"], "2023-11-14T22:13:25Z");

    let mut ended = app(before);
    finish(&mut ended, OperationPhase::Failed, "over", at(-5));
    assert_eq!(names(state(&ended)), ["synced", "ran", "refused"]);
    let now = json!(state(&ended));
    assert_eq!((&now["phase"], &now["message"]), (&"Failed".into(), &"over".into()));
    assert_eq!(now["finishedAt"], "2023-11-14T22:13:20Z", "not before its start");
}

/// Only a successful sync of all resources is deployed (SE-385), and the history has a limit
/// (SE-028).
#[test]
fn the_history_has_what_was_deployed_se_385() {
    let full = json!({"sync": {"revision": "x"}});
    for (request, want) in [
        (full.clone(), true),
        (json!({}), true),
        (json!({"sync": {"dryRun": true}}), false),
        (json!({"sync": {"resources": [{"kind": "Pod", "name": "a"}]}}), false),
        (json!({"sync": {"resources": []}}), true),
    ] {
        assert_eq!(is_full(&request), want, "{request}");
    }
    let ids = |request: &Value, phase, limit: Value, count: i64| -> Vec<i64> {
        let entry = |id: i64| json!({"id": id, "revision": "o"});
        let history: Vec<Value> = (7..7 + count).map(entry).collect();
        let mut own = with(json!({"operation": request, "spec": {"revisionHistoryLimit": limit},
            "status": {"history": history, "operationState": {"operation": request}}}));
        finish(&mut own, phase, "", at(0));
        assert!(own.operation.is_none());
        own.status.history.iter().map(|entry| entry.id).collect()
    };
    let succeeded = OperationPhase::Succeeded;
    assert_eq!(ids(&full, succeeded, Value::Null, 0), [0]);
    assert_eq!(ids(&full, succeeded, Value::Null, 1), [7, 8]);
    assert_eq!(ids(&full, succeeded, Value::Null, 10), (8..18).collect::<Vec<i64>>());
    assert_eq!(ids(&full, succeeded, json!(2), 2), [8, 9]);
    assert_eq!(ids(&full, succeeded, json!(0), 2), [] as [i64; 0]);
    assert_eq!(ids(&full, succeeded, json!(-1), 2), [] as [i64; 0]);
    assert_eq!(ids(&full, OperationPhase::Failed, Value::Null, 1), [7]);
    assert_eq!(ids(&json!({"sync": {"dryRun": true}}), succeeded, Value::Null, 1), [7]);

    let mut own = with(json!({"operation": {"sync": {"revision": "y"}}, "status": {
        "operationState": {"operation": {"sync": {"revision": "x"}}}}}));
    finish(&mut own, succeeded, "", at(0));
    assert!(own.operation.is_some(), "a newer request stays");
}

/// The state of the wave engine, as it is stored and read again.
#[test]
fn an_unreadable_request_is_refused() {
    let of = |request: Value| check(state(&app(json!({"operation": request}))));
    assert_eq!(of(json!({"sync": {"revision": "x"}})), Ok(()));
    let none = "Invalid operation request: no operation specified";
    assert_eq!(of(json!({})), Err(none.to_owned()));
    let wrong = of(json!({"sync": {"prune": "yes"}})).unwrap_err();
    assert!(wrong.starts_with("Invalid operation request: operation.sync.prune"), "{wrong}");
}

/// A server with the definitions of Argo CD drops the progress and our fields of results.
#[test]
fn dropped_progress_is_restored_in_the_same_attempt() {
    let row = |name: &str, own: Value| {
        let mut row = json!({"kind": "Pod", "name": name, "namespace": "", "group": "",
            "version": "v1", "status": "Synced", "syncPhase": "Sync"});
        json_patch::merge(&mut row, &own);
        row
    };
    let own = json!({"uid": "u", "resourceVersion": "1", "since": "2026-01-01T00:00:00Z"});
    let operation = |phase: &str, attempt: i64, progress: Value, rows: Value| {
        json!({"phase": phase, "startedAt": "2023-11-14T22:13:20Z", "retryCount": attempt,
               "progress": progress, "syncResult": {"revision": "x", "resources": rows}})
    };
    let progress = json!({"a": 1});
    let whole = json!([row("a", own.clone()), row("b", json!({}))]);
    let bare = json!([row("a", json!({})), row("b", json!({}))]);
    let written = operation("Running", 1, progress.clone(), whole.clone());
    let of = |state: &Value, listed| StoredProgress::of(self::state(&app(state.clone())), listed);

    assert_eq!(
        of(&operation("Succeeded", 1, progress.clone(), whole.clone()), 2),
        None,
        "it ended"
    );
    assert_eq!(of(&operation("Running", 1, json!({}), bare.clone()), 2), None, "nothing of ours");
    assert!(of(&operation("Running", 1, progress.clone(), bare.clone()), 2).is_some());
    assert!(of(&operation("Running", 1, json!({}), whole.clone()), 2).is_some());
    let all = of(&written, 2).unwrap();
    assert!(!all.adds_results());
    assert!(!of(&written, 3).unwrap().adds_results());
    let some = of(&written, 1).unwrap();
    assert!(some.adds_results());

    let restored = |stored: &StoredProgress, state: Value| {
        let mut application = json!({"status": {"operationState": state}});
        stored.restore(&mut application);
        application["status"]["operationState"].take()
    };
    let dropped = operation("Running", 1, Value::Null, bare.clone());
    let both =
        |phase, attempt, rows: &Value| operation(phase, attempt, progress.clone(), rows.clone());
    assert_eq!(restored(&all, dropped), both("Running", 1, &whole));
    for (phase, attempt) in [("Running", 2), ("Succeeded", 1)] {
        let other = operation(phase, attempt, json!({"b": 2}), bare.clone());
        assert_eq!(restored(&all, other.clone()), other, "{phase} {attempt}");
    }
    let mut later = operation("Running", 1, json!({"b": 2}), bare);
    later["startedAt"] = "2023-11-14T22:13:21Z".into();
    assert_eq!(restored(&all, later.clone()), later, "another operation");
    later["startedAt"] = "2023-11-14T22:13:20Z".into();
    let kept = restored(&all, later);
    assert_eq!(kept["progress"], json!({"b": 2}), "newer progress stays");
    let newer = json!([row("a", json!({"uid": "v"})), row("b", json!({}))]);
    let kept = restored(&all, operation("Running", 1, Value::Null, newer));
    assert_eq!(kept["syncResult"]["resources"][0]["uid"], "v", "newer fields stay");
    assert_eq!(kept["syncResult"]["resources"][0]["resourceVersion"], "1");
    // Results that the server lists not all of.
    let one = operation("Running", 1, Value::Null, json!([row("b", json!({}))]));
    assert_eq!(restored(&some, one.clone())["syncResult"]["resources"], whole);
    assert_eq!(restored(&all, one)["syncResult"]["resources"], json!([row("b", json!({}))]));
}

/// What the wave engine has decided is read again as it was stored.
#[test]
fn a_decision_of_the_wave_engine_is_stored() {
    let mut own = state(&app(json!({"phase": "Running", "message": "old"}))).clone();
    let plan = |phase| SyncPlan { phase, message: "m".to_owned(), ..SyncPlan::default() };
    store(&mut own, &plan(OperationPhase::Terminating));
    assert_eq!((own.phase, own.message.as_str()), (OperationPhase::Terminating, "m"));
    assert_eq!(stored_results(&own), (Vec::new(), SyncProgress::default()));
    store(&mut own, &plan(OperationPhase::Succeeded));
    assert_eq!(own.phase, OperationPhase::Terminating, "only `finish` ends an operation");
}
