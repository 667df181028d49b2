//! What is at a limit: of time, of the part of a cluster that is managed, and of what a status says
//! of the last attempt.

use super::rounds::{Facts, begin, requested, round, settings};
use super::*;
use crate::errors::ObserveError;
use crate::operate::{self, Next, OperationSettings, OperationSnapshot};
use crate::reconcile::{ComparisonInput, ComparisonSettings, ComparisonSnapshot, reconcile};
use wavegate_api::cluster::ClusterScope;
use wavegate_engine::sync::SyncSettings;
use wavegate_engine::wait::WaitFor;

/// SE-392: an attempt begins in the second in which it is due.
#[test]
fn the_next_attempt_begins_when_it_is_due_se_392() {
    let mut app = requested(json!({}));
    app["operation"]["retry"] = json!({"limit": 1});
    begin(&mut app, at(0));
    let wrong = ObserveError::Operation("no such thing".into());
    let Next::Wait(wait) = round(&mut app, Err(&wrong), &[], at(0), at(0)) else { panic!("{app}") };
    let due = wait.at().unwrap();
    assert_eq!((wait.reason, due > at(0)), (WaitFor::NextAttempt, true));
    for (now, begins) in [
        (due - SignedDuration::from_secs(1), false),
        (due, true),
        (due + SignedDuration::from_secs(1), true),
    ] {
        let next = begin(&mut app.clone(), now);
        assert_eq!(matches!(next, Next::Observe), begins, "{now}: {next:?}");
    }
}

/// SE-288: a wait ends at the limit. What remains to be done after it has its own pauses.
#[test]
fn a_wait_ends_at_the_limit_of_its_operation_se_288() {
    let limited = |seconds: i64| OperationSettings {
        sync: SyncSettings {
            sync_timeout: Some(SignedDuration::from_secs(seconds)),
            ..settings().sync
        },
        ..settings()
    };
    let mut app = requested(json!({"revision": "a".repeat(40)}));
    begin(&mut app, at(0));
    // At second 10, the inputs could not be read for four seconds.
    let error = ObserveError::Live("down".into());
    let memory =
        ApplicationMemory { unreadable_since: Some(at(6)), ..ApplicationMemory::default() };
    for (limit, want) in [(60, 14), (13, 13), (10, 14), (5, 14)] {
        let decision = operate::operate_round(&OperationSnapshot {
            app: &App::of(app.clone()),
            memory: &memory,
            commits: None,
            observed: Err(&error),
            diffs: &DiffCache::default(),
            outcomes: &[],
            settings: &limited(limit),
            now: at(10),
        });
        let Next::Wait(wait) = decision.next else { panic!("{limit}: {:?}", decision.next) };
        assert_eq!((wait.reason, wait.at()), (WaitFor::OperationInputs, Some(at(want))), "{limit}");
    }
}

/// SE-433: what was deployed before the Secret of the cluster was narrowed is named, and stays in
/// the status. One of another destination is of a cluster with another Secret.
#[test]
fn objects_outside_of_the_secret_are_named_and_kept_se_433() {
    let row = |namespace: &str, name: &str| {
        json!({
            "version": "v1", "kind": "ConfigMap", "namespace": namespace, "name": name,
            "status": "Synced", "health": {"status": "Healthy"},
        })
    };
    let here = application()["spec"]["destination"].clone();
    let elsewhere = json!({"server": "https://other", "namespace": "web"});
    for (name, namespaces, destination, want) in [
        ("narrowed", "web", &here, true),
        ("both", "web,old", &here, false),
        ("all", "", &here, false),
        ("another destination", "web", &elsewhere, false),
    ] {
        let mut app = application();
        app["status"] = json!({
            "sync": {"status": "Synced", "revision": "abc", "comparedTo": {
                "source": app["spec"]["source"], "destination": destination,
            }},
            "resources": [row("old", "left"), row("web", "one")],
        });
        let mut facts = Facts::new(&app, &[map("one")]);
        facts.scope = ClusterScope::parse(namespaces, "");
        let reason = super::reason(
            &ApplicationMemory::default(),
            &app,
            &RefreshTrigger {
                request: ComparisonRequest::new(Level::Revision),
                ..RefreshTrigger::default()
            },
            at(0),
        )
        .unwrap();
        let seen = ComparisonInput {
            observation: facts.observation(),
            revisions: vec!["abc".to_owned()],
            types: vec!["Directory".to_owned()],
            warnings: Vec::new(),
            below: Default::default(),
            held: None,
        };
        let compared = reconcile(&ComparisonSnapshot {
            app: &App::of(app.clone()),
            memory: &ApplicationMemory::default(),
            seen: Ok(&seen),
            reason: &reason,
            diffs: &DiffCache::default(),
            settings: &ComparisonSettings {
                self_heal: SelfHeal::default(),
                resource_health: true,
                repo_error_grace: Duration::ZERO,
                reconciled_every: Duration::ZERO,
            },
            now: at(0),
        });
        let status = &compared.app.status;
        let warning = status.conditions.iter().find(|one| one.type_ == "ExcludedResourceWarning");
        assert_eq!(warning.is_some(), want, "{name}: {:?}", status.conditions);
        if let Some(warning) = warning {
            assert!(warning.message.contains("ConfigMap old/left"), "{}", warning.message);
        }
        let left = status.resources.iter().find(|row| row.name == "left");
        assert_eq!(left.is_some(), want, "{name}");
        let known = left.map(|row| (row.status, row.health.is_some()));
        let unknown = (Some(wavegate_api::SyncStatusCode::Unknown), false);
        assert!(known.is_none_or(|known| known == unknown), "{name}: {known:?}");
    }
}

/// SE-422: an operation that names nothing of what it has deployed is an attempt of the commit.
#[test]
fn an_attempt_without_its_revision_is_one_of_this_commit_se_422() {
    for (name, result, want) in [
        ("nothing", json!({}), true),
        ("no result", Value::Null, true),
        ("this revision, of no source", json!({"revision": "abc"}), false),
        ("these revisions, of no source", json!({"revisions": ["abc"]}), false),
        ("the same", json!({"revision": "abc", "source": application()["spec"]["source"]}), true),
        ("another one", json!({"revision": "x", "source": application()["spec"]["source"]}), false),
    ] {
        let mut app = application();
        app["spec"]["syncPolicy"] = json!({"automated": {}});
        app["status"]["operationState"] = json!({
            "phase": "Succeeded", "finishedAt": "2023-11-14T22:13:20Z", "operation": {"sync": {}},
            "syncResult": result,
        });
        let spec = wavegate_api::read_typed(&app["spec"]).unwrap();
        let comparison = compared(&app, &placed(&[map("one")]), &BTreeMap::new());
        let (app, heal) = (App::of(app), SelfHeal::default());
        let revisions = ["abc".to_owned()];
        let found = auto_sync::decide(&app, &spec, &comparison, &revisions, &heal, true, at(0));
        assert_eq!(!matches!(found, AutoSync::Start(_)), want, "{name}: {found:?}");
    }
}
