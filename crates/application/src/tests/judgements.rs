//! What a comparison decides: whether its time is written, whether a sync follows, and what a status
//! holds of it.

use super::rounds::Facts;
use super::*;
use crate::errors::ObserveError;
use crate::reconcile::{
    CompareFailure, ComparisonDecision, ComparisonInput, ComparisonSettings, ComparisonSnapshot,
    reconcile,
};
use wavegate_api::tracking::TrackingMethod;

fn with(mut object: Value, changes: &Value) -> Value {
    json_patch::merge(&mut object, changes);
    object
}

/// One comparison: why it is made, and what of.
struct Case {
    app: Value,
    level: Level,
    asked_for: bool,
    after_operation: bool,
    revision: &'static str,
    grace: Duration,
    error: Option<ObserveError>,
    warnings: Vec<NewCondition>,
    failing_since: Option<Timestamp>,
    now: Timestamp,
}

/// A comparison of the live objects, in an Application that was compared before.
fn case() -> Case {
    let app = with(
        application(),
        &json!({"status": {
            "reconciledAt": "2023-11-14T22:13:10Z", "sync": {"status": "Synced", "revision": "abc"},
            "health": {"status": "Healthy"},
        }}),
    );
    Case {
        app,
        level: Level::Live,
        asked_for: false,
        after_operation: false,
        revision: "abc",
        grace: Duration::ZERO,
        error: None,
        warnings: Vec::new(),
        failing_since: None,
        now: at(0),
    }
}

fn decide(case: &Case) -> ComparisonDecision {
    // The spec is read from the Application, the object that it has is absent: OutOfSync.
    let facts = Facts::new(&case.app, &[map("one")]);
    let memory = ApplicationMemory {
        checked_at: Some(case.now),
        failing_since: case.failing_since,
        ..ApplicationMemory::default()
    };
    let request = ComparisonRequest::new(case.level);
    let occasion = RefreshTrigger { request, ..RefreshTrigger::default() };
    let mut reason = super::reason(&memory, &case.app, &occasion, case.now).unwrap();
    reason.request = request;
    (reason.asked_for, reason.after_operation) = (case.asked_for, case.after_operation);
    let seen = ComparisonInput {
        observation: facts.observation(),
        revisions: vec![case.revision.to_owned()],
        types: vec!["Directory".to_owned()],
        warnings: case.warnings.clone(),
        below: Default::default(),
        held: None,
    };
    let failure = case.error.clone().map(|error| CompareFailure { error, last: None });
    reconcile(&ComparisonSnapshot {
        app: &App::of(case.app.clone()),
        memory: &memory,
        seen: failure.as_ref().map_or(Ok(&seen), Err),
        reason: &reason,
        diffs: &DiffCache::default(),
        settings: &ComparisonSettings {
            self_heal: SelfHeal::default(),
            resource_health: true,
            repo_error_grace: case.grace,
            reconciled_every: Duration::ZERO,
        },
        now: case.now,
    })
}

fn reconciled(decision: &ComparisonDecision) -> Timestamp {
    decision.app.status.reconciled_at.as_ref().unwrap().0
}

/// SE-057: the time of a comparison is what a rollout waits for: after a request, after an operation,
/// for a new revision and for the first one. Others would write the status of each Application again
/// and again.
#[test]
fn the_time_of_a_comparison_is_written_for_a_reason_se_057() {
    let before = at(-10);
    let never = json!({"status": {"reconciledAt": null}});
    for (name, case, want) in [
        ("live objects", case(), before),
        ("asked for", Case { asked_for: true, ..case() }, at(0)),
        ("after an operation", Case { after_operation: true, ..case() }, at(0)),
        ("a new revision", Case { revision: "def", ..case() }, at(0)),
        ("the first one", Case { app: with(case().app, &never), ..case() }, at(0)),
    ] {
        assert_eq!(reconciled(&decide(&case)), want, "{name}");
    }
    // An operation may end ahead of the clock: its comparison is not older than it.
    let ended = json!({"status": {"operationState": {
        "phase": "Succeeded", "finishedAt": "2023-11-14T22:13:25Z", "operation": {},
    }}});
    let ahead = Case { app: with(case().app, &ended), after_operation: true, ..case() };
    assert_eq!(reconciled(&decide(&ahead)), at(5));
    let without = Case { app: with(case().app, &ended), asked_for: true, ..case() };
    assert_eq!(reconciled(&decide(&without)), at(5), "nor is any later one");
}

/// SE-420, SE-425: a comparison of the live objects alone starts a sync only where that is enabled,
/// and an error is no base for one; a warning is.
#[test]
fn a_sync_follows_a_comparison_without_an_error_se_425() {
    let automated = json!({"spec": {"syncPolicy": {"automated": {"selfHeal": true}}}});
    let enabled = || with(case().app, &automated);
    let warning = || vec![NewCondition::new("SharedResourceWarning", "m")];
    let error = || vec![NewCondition::comparison("m")];
    for (name, case, want) in [
        ("not automated", Case { level: Level::Revision, ..case() }, false),
        ("a full one", Case { app: enabled(), level: Level::Revision, ..case() }, true),
        ("of live objects", Case { app: enabled(), ..case() }, true),
        ("a warning", Case { app: enabled(), warnings: warning(), ..case() }, true),
        ("an error", Case { app: enabled(), warnings: error(), ..case() }, false),
    ] {
        let decision = decide(&case);
        assert_eq!(decision.app.operation.is_some(), want, "{name}");
        let shown = decision.shown.unwrap();
        assert_eq!(shown.resources.len(), 1, "{name}");
    }
    // A full comparison replaces what an earlier automated sync has reported, one of the live objects
    // alone of what is not automated does not.
    let reported = json!({"status": {"conditions": [{"type": "SyncError", "message": "m"}]}});
    for (level, want) in [(Level::Live, true), (Level::Revision, false), (Level::Newest, false)] {
        let decision = decide(&Case { app: with(case().app, &reported), level, ..case() });
        let has = decision.app.status.conditions.iter().any(|one| one.type_ == "SyncError");
        assert_eq!(has, want, "{level:?}");
    }
}

/// A repository that does not answer for a moment is no error yet, unless a person asks.
#[test]
fn a_passing_failure_is_tolerated_for_a_while() {
    let grace = Duration::from_secs(60);
    let source = |transient| Some(ObserveError::Source { message: "down".to_owned(), transient });
    for (name, error, since, asked_for, want) in [
        ("the first", source(true), None, false, true),
        ("within it", source(true), Some(-59), false, true),
        ("at its end", source(true), Some(-60), false, false),
        ("asked for", source(true), None, true, false),
        ("one that stays", source(false), None, false, false),
        ("of the cluster", Some(ObserveError::Live("down".to_owned())), None, false, false),
    ] {
        let failing_since = since.map(at);
        let decision = decide(&Case { error, failing_since, asked_for, grace, ..case() });
        assert_eq!(decision.tolerated, want, "{name}");
        let failed =
            decision.app.status.conditions.iter().any(|one| one.type_ == "ComparisonError");
        assert_eq!(failed, !want, "{name}");
        assert!(decision.memory.postponed.is_some(), "{name}: it is still to be made");
        assert!(decision.shown.is_none(), "{name}");
    }
    assert!(!decide(&case()).memory.postponed.is_some());
}

/// Of two requests the stronger one holds, in each respect.
#[test]
fn requests_are_combined_by_the_stronger_one() {
    let of = |level, hard| ComparisonRequest { level, hard };
    for (one, other, want) in [
        (of(Level::Live, false), of(Level::Newest, false), of(Level::Newest, false)),
        (of(Level::Revision, true), of(Level::Live, false), of(Level::Revision, true)),
        (of(Level::Live, true), of(Level::Live, true), of(Level::Live, true)),
        (of(Level::None, false), of(Level::None, false), of(Level::None, false)),
    ] {
        assert_eq!(one.and(other), want);
        assert_eq!(other.and(one), want);
    }
    assert!(!of(Level::None, true).is_some() && of(Level::Live, false).is_some());
}

/// After a start nothing is known of the last check: it is checked at once, and nothing is written
/// for that alone.
#[test]
fn what_was_never_checked_is_checked_at_once() {
    let app = application();
    let calm = RefreshTrigger::default();
    let known = Some(digest_of(&app["spec"]));
    let memory = |last_spec, checked_at| ApplicationMemory {
        last_spec,
        checked_at,
        ..ApplicationMemory::default()
    };
    let mut compared = app.clone();
    compared["status"]["sync"]["comparedTo"] = status::compared_to(&app["spec"]);
    let found = |last_spec, checked_at| {
        let reason = super::reason(&memory(last_spec, checked_at), &compared, &calm, at(0));
        reason.map(|reason| (reason.request.level, reason.is_expired, reason.asked_for))
    };
    assert_eq!(found(known, Some(at(0))), None);
    assert_eq!(found(known, None), Some((Level::Revision, true, false)));
    assert_eq!(found(None, None), Some((Level::Revision, false, false)));
}

/// SE-030, AS-153: what has no effect is removed before a spec is written or compared.
#[test]
fn what_has_no_effect_is_removed_from_a_spec_se_030() {
    use crate::normalize::{empty_objects, equal_specs};
    for (spec, want) in [
        (json!({"project": ""}), json!({"project": "default"})),
        (json!({"project": null}), json!({"project": "default"})),
        (json!({}), json!({"project": "default"})),
        (json!({"project": "p", "syncPolicy": {"automated": null}}), json!({"project": "p"})),
        (
            json!({"project": "p", "syncPolicy": {"automated": {}}}),
            json!({"project": "p", "syncPolicy": {"automated": {}}}),
        ),
        (
            json!({"project": "p", "source": {"helm": {}, "path": "x", "kustomize": {"a": 1}}}),
            json!({"project": "p", "source": {"path": "x", "kustomize": {"a": 1}}}),
        ),
        // With sources, the source has no effect and stays as it is.
        (
            json!({"project": "p", "source": {"helm": {}}, "sources": [{"directory": {}}]}),
            json!({"project": "p", "source": {"helm": {}}, "sources": [{}]}),
        ),
        (
            json!({"project": "p", "source": {"helm": {}}, "sources": []}),
            json!({"project": "p", "source": {}, "sources": []}),
        ),
    ] {
        let mut normal = spec.clone();
        empty_objects(&mut normal);
        assert_eq!(normal, want, "{spec}");
        assert!(equal_specs(&spec, &want), "{spec}");
    }
    assert!(!equal_specs(&json!({"project": ""}), &json!({"project": "p"})));
    // A directory whose other fields say nothing has only those that say something.
    let directory = json!({"project": "p", "source": {"directory": {
        "recurse": false, "jsonnet": {}, "exclude": "a",
    }}});
    let cleaned = json!({"project": "p", "source": {"directory": {"exclude": "a"}}});
    assert_eq!(spec::normalized_spec(&directory), Some(cleaned), "SE-030");
}

/// SE-105: with the id of an installation, an object says of which one it is; without one, it says
/// nothing of another.
#[test]
fn an_object_says_of_which_installation_it_is_se_105() {
    const INSTALLATION: &str = "argocd.argoproj.io/installation-id";
    let mut manifest = map("a");
    manifest["metadata"]["annotations"] = json!({INSTALLATION: "from the source"});
    for (installation, want) in [("", None), ("one", Some("one"))] {
        for method in [TrackingMethod::Annotation, TrackingMethod::AnnotationAndLabel] {
            let tracking = Tracking { installation: installation.to_owned(), method, ..tracking() };
            let manifests = vec![manifest.clone()];
            let placed =
                targets::place_targets(manifests, "web", &tracking, &scope, &KindFilter::default());
            let annotations = &placed.targets[0].object["metadata"]["annotations"];
            assert_eq!(annotations[INSTALLATION].as_str(), want, "{method:?}");
        }
    }
}

/// SE-031: a reference is a source of its own only among several.
#[test]
fn a_single_source_needs_a_path_or_a_chart_se_031() {
    let messages = |source: Value| {
        let spec = json!({"destination": {"name": "c", "namespace": "web"}, "source": source});
        let found = spec::spec_problems(&wavegate_api::read_typed(&spec).unwrap());
        found.into_iter().map(|one| one.message).collect::<Vec<_>>()
    };
    assert_eq!(messages(json!({"repoURL": "r", "path": "p"})), [""; 0]);
    let reference = messages(json!({"repoURL": "r", "ref": "values"}));
    assert_eq!(reference, ["spec.source.path or spec.source.chart is required"]);
}
