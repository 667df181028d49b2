//! What follows from source and cluster as they are observed: claims, dry runs, hooks that are
//! released, and when a comparison is needed at all.

use super::rounds::Facts;
use super::*;
use crate::errors::ObserveError;
use crate::handover::claimed_targets;
use crate::held_back;
use crate::left_hooks;
use crate::predicted::Prediction;
use crate::predictions::Predictions;
use crate::request::needs_reconcile;
use crate::steps::is_left_alone;
use wavegate_api::annotations::{HOOK, HOOK_FINALIZER};
use wavegate_api::cluster::ClusterScope;

fn with(mut object: Value, changes: &Value) -> Value {
    json_patch::merge(&mut object, changes);
    object
}

fn annotated(object: Value, annotations: Value) -> Value {
    with(object, &json!({"metadata": {"annotations": annotations}}))
}

/// SE-210: an Application claims what it is to apply itself, and what would be deleted with that.
#[test]
fn targets_are_claimed_that_can_be_taken_over_se_210() {
    let app = application();
    let claims = |manifest: Value| -> Vec<String> {
        let facts = Facts::new(&app, &[manifest]);
        let observation = facts.observation();
        let claimed = claimed_targets(&observation.access, &facts.placed.targets);
        claimed.iter().map(ToString::to_string).collect()
    };
    let plain = claims(map("a"));
    assert_eq!(plain.len(), 2, "and its Namespace: {plain:?}");
    for (name, manifest) in [
        ("a hook", annotated(map("a"), json!({HOOK: "PreSync"}))),
        (
            "one that is replaced",
            annotated(map("a"), json!({"argocd.argoproj.io/sync-options": "Force=true"})),
        ),
    ] {
        assert_eq!(claims(manifest), [""; 0], "{name}");
    }
    let mut facts = Facts::new(&app, &[map("a")]);
    facts.permit(|project| project.destinations = vec![destination("https://c", "else")]);
    let denied = claimed_targets(&facts.observation().access, &facts.placed.targets);
    assert!(denied.is_empty(), "not permitted: {denied:?}");
}

/// A short decision is made at once; a long one must not keep others from theirs.
#[test]
fn a_decision_is_short_with_few_objects_and_no_rules() {
    let names: Vec<Value> = (0..50).map(|number| map(&format!("m{number}"))).collect();
    let app = application();
    let short = |app: &Value, manifests: &[Value], has_live: usize| {
        let mut facts = Facts::new(app, manifests);
        facts.live = facts.placed.targets.iter().take(has_live).map(live).collect();
        facts.observation().is_short()
    };
    assert!(short(&app, &names, 0), "fifty");
    assert!(!short(&app, &names, 1), "one more");
    assert!(short(&app, &names[..25], 25));
    let rule = json!([{"kind": "ConfigMap", "jsonPointers": ["/data"]}]);
    let ruled = with(app, &json!({"spec": {"ignoreDifferences": rule}}));
    assert!(!short(&ruled, &names[..1], 1), "a rule may take as long as it likes");
}

/// SE-158: each object that exists and may be written is asked about once for each of its versions.
#[test]
fn an_object_is_asked_about_once_for_each_version_se_158() {
    let app = annotated(
        application(),
        json!({"argocd.argoproj.io/compare-options": "ServerSideDiff=true"}),
    );
    let hook = annotated(map("hook"), json!({HOOK: "PreSync"}));
    let mut facts = Facts::new(&app, &[map("a"), map("b"), map("new"), hook]);
    let exists = |target: &&PlacedTarget| target.key.name != "new";
    facts.live = facts.placed.targets.iter().filter(exists).map(live).collect();
    let mut kept = Predictions::default();
    let asked = |kept: &mut Predictions, facts: &Facts, app: &Value, afresh: bool| {
        let missing = kept.missing(&facts.observation(), app, afresh);
        missing.into_iter().map(|run| (run.key.name.clone(), run)).collect::<BTreeMap<_, _>>()
    };
    let names = |runs: &BTreeMap<String, crate::predictions::DryRun>| {
        runs.keys().cloned().collect::<Vec<_>>()
    };
    let runs = asked(&mut kept, &facts, &app, false);
    assert_eq!(names(&runs), ["a", "b"], "what exists, and no hook");
    for (_, run) in runs {
        let answer =
            with(run.target.as_ref().clone(), &json!({"metadata": {"resourceVersion": "1"}}));
        kept.keep(run, &answer);
    }
    assert!(asked(&mut kept, &facts, &app, false).is_empty(), "the answers are kept");
    let failed = vec![(ResourceKey::new("", "ConfigMap", "web", "c"), "no".to_owned())];
    let known = kept.with_failures(failed);
    let answers = known.values().filter(|one| matches!(one, Prediction::Answer(..))).count();
    assert_eq!((answers, known.len()), (2, 3));
    // Another version has to be asked about; and of another answer than the first, the digest differs.
    let (key, _) = live(&facts.placed.targets[0]);
    let object = Arc::make_mut(facts.live.get_mut(&key).unwrap());
    object["metadata"]["resourceVersion"] = "2".into();
    let runs = asked(&mut kept, &facts, &app, false);
    assert_eq!(names(&runs), ["a"]);
    let run = runs.into_values().next().unwrap();
    // It has changed again since it was observed: the answer is of that version.
    kept.keep(run, &json!({"metadata": {"resourceVersion": "3"}}));
    assert_eq!(names(&asked(&mut kept, &facts, &app, false)), ["a"]);
    let again = asked(&mut kept, &facts, &app, true);
    assert_eq!(names(&again), ["a", "b"], "a person asks for a comparison");
    facts.permit(|project| project.destinations = vec![destination("https://c", "else")]);
    assert!(asked(&mut kept, &facts, &app, true).is_empty(), "nothing is sent that is refused");
    assert!(asked(&mut kept, &facts, &application(), false).is_empty(), "without the option");
    assert!(kept.with_failures(Vec::new()).is_empty(), "nothing is kept without it");
}

/// SE-516: a hook that a person deletes goes at once while no sync is to come that needs its result.
#[test]
fn hooks_that_are_being_deleted_are_released_while_nothing_runs_se_516() {
    let hook = |name: &str, change: Value| {
        let hook = annotated(map(name), json!({HOOK: "PreSync"}));
        with(with(hook, &json!({"metadata": {"finalizers": [HOOK_FINALIZER]}})), &change)
    };
    let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let app = application();
    let mut facts = Facts::new(
        &app,
        &[hook("goes", json!({})), hook("stays", json!({})), hook("alien", json!({}))],
    );
    for target in &facts.placed.targets {
        let (key, mut object) = live(target);
        let change = match key.name.as_str() {
            "goes" => deleted.clone(),
            "alien" => with(
                deleted.clone(),
                &json!({"metadata": {"annotations": {TRACKING: "other:/ConfigMap:web/alien"}}}),
            ),
            _ => json!({}),
        };
        json_patch::merge(Arc::make_mut(&mut object), &change);
        facts.live.insert(key, object);
    }
    let released = |app: &Value, facts: &Facts| -> Vec<String> {
        let hooks = left_hooks::of_idle(&App::of(app.clone()), &facts.observation());
        hooks.into_iter().map(|(key, _)| key.name).collect()
    };
    assert_eq!(released(&app, &facts), ["goes"]);
    for (name, change) in [
        ("a sync is requested", json!({"operation": {"sync": {}}})),
        ("a sync runs", json!({"status": {"operationState": {"phase": "Running"}}})),
        ("the Application is being deleted", deleted),
    ] {
        assert_eq!(released(&with(app.clone(), &change), &facts), [""; 0], "{name}");
    }
    facts.permit(|project| project.destinations = vec![destination("https://c", "else")]);
    assert_eq!(released(&app, &facts), [""; 0], "its project does not permit it");
}

/// ST-061: an Application that is held at its good revisions reports to its set when it has left
/// them; hooks and what is in sync are no difference.
#[test]
fn what_is_held_reports_when_it_differs_as_st_061() {
    let app = App::of(application());
    let revisions = ["r1".to_owned()];
    let hook = annotated(map("hook"), json!({HOOK: "PreSync"}));
    let mut facts = Facts::new(&application(), &[map("a"), map("b"), hook]);
    facts.live = facts.placed.targets.iter().map(live).collect();
    let found = |facts: &Facts| held_back::condition(&app, Ok(&facts.observation()), &revisions);
    assert_eq!(found(&facts), None, "as it was deployed");
    let (key, _) = live(&facts.placed.targets[1]);
    Arc::make_mut(facts.live.get_mut(&key).unwrap())["data"] = json!({"a": "changed"});
    let differs = found(&facts).unwrap();
    assert_eq!(differs.type_, "HeldBackOutOfSyncWarning");
    assert!(differs.message.ends_with("OutOfSync with it: ConfigMap web/b"), "{}", differs.message);
    let error = ObserveError::Live("no right".to_owned());
    let failed = held_back::condition(&app, Err(&error), &revisions).unwrap();
    assert_eq!(failed.type_, "HeldBackComparisonWarning");
    assert!(
        failed.message.starts_with("held at r1 after a rollback: Failed"),
        "{}",
        failed.message
    );
}

/// What another client writes to a status is no reason to compare, but for its operation.
#[test]
fn a_change_is_a_reason_to_reconcile_where_it_has_an_effect() {
    let app = application();
    for (name, change, want) in [
        ("nothing", json!({}), false),
        ("the spec", json!({"spec": {"project": "other"}}), true),
        ("an operation", json!({"operation": {"sync": {}}}), true),
        ("its phase", json!({"status": {"operationState": {"phase": "Running"}}}), true),
        ("its message", json!({"status": {"operationState": {"message": "m"}}}), false),
        ("the sync status", json!({"status": {"sync": {"status": "Synced"}}}), true),
        ("the health", json!({"status": {"health": {"status": "Healthy"}}}), false),
        ("an annotation", json!({"metadata": {"annotations": {"a": "b"}}}), true),
        ("a version", json!({"metadata": {"resourceVersion": "9"}}), false),
        ("its deletion", json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), true),
    ] {
        let changed = with(app.clone(), &change);
        assert_eq!(needs_reconcile(&app, &changed), want, "{name}");
        assert_eq!(needs_reconcile(&changed, &app), want, "{name}, and back");
    }
    let mut null = app.clone();
    null["operation"] = Value::Null;
    assert!(!needs_reconcile(&app, &null), "null is as absent");
}

/// What an annotation of the Application or of its cluster excludes is left alone; one without a
/// destination that can be read is not, so that its error is reported.
#[test]
fn what_is_excluded_from_reconciling_is_left_alone() {
    let skipped = json!({"argocd.argoproj.io/skip-reconcile": "true"});
    let app = application();
    assert!(is_left_alone(&annotated(app.clone(), skipped), |_| false));
    assert!(!is_left_alone(&app, |_| false));
    assert!(is_left_alone(&app, |to| to.server == "https://c"));
    for destination in [json!(null), json!(7)] {
        let odd = with(app.clone(), &json!({"spec": {"destination": destination}}));
        assert!(!is_left_alone(&odd, |_| true), "{odd}");
    }
}

/// A failed reconcile is written once, and not with each try.
#[test]
fn a_failure_is_written_when_it_is_new() {
    let failed = status::failed_application(&application(), "no right".to_owned(), at(0)).unwrap();
    let condition = &failed["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["message"]),
        (&json!("UnknownError"), &json!("no right"))
    );
    assert_eq!(status::failed_application(&failed, "no right".to_owned(), at(9)), None);
    assert!(status::failed_application(&failed, "another".to_owned(), at(9)).is_some());
}

/// Null, an empty list and an empty object are as absent; zero values are not, and numbers are equal
/// however they are written.
#[test]
fn empty_values_are_as_absent_and_zeros_are_not() {
    use crate::normalize::{equal_parts, equal_when_empty};
    for (a, b, empty, zero) in [
        (json!({"a": []}), json!({}), true, true),
        (json!({"a": {"b": null}}), json!({}), true, true),
        (json!({"prune": false}), json!({}), false, true),
        (json!({"a": 1}), json!({"a": 1.0}), true, true),
        (json!({"a": 1}), json!({"a": 2}), false, false),
        (json!([1]), json!([1, 1]), false, false),
        (json!("a"), json!("a"), true, true),
        (json!(null), json!("a"), false, false),
    ] {
        assert_eq!(equal_when_empty(&a, &b), empty, "{a} {b}");
        assert_eq!(equal_parts(&a, &b), zero, "{a} {b}");
    }
}

/// SE-433: a target outside of what the Secret of the cluster permits is an error; one that the
/// project hides is not looked at.
#[test]
fn a_target_must_be_within_the_secret_of_its_cluster_se_433() {
    let scope = ClusterScope::parse("other", "");
    assert!(placed(&[map("a")]).check(&scope).is_err());
    assert!(placed(&[map("a")]).check(&ClusterScope::parse("web", "")).is_ok());
    let mut hidden = placed(&[map("a")]);
    hidden.targets[0].class = wavegate_engine::sync::ObjectClass::Ignored;
    assert_eq!(hidden.check(&scope), Ok(()));
}

/// SE-373: an operation that ends since something is lacking says what that is.
#[test]
fn the_message_of_an_operation_says_what_is_lacking_se_373() {
    use crate::access::{Lacking, Refusal};
    let refused = |lacking| {
        let conditions = vec![NewCondition::invalid_spec("it is gone")];
        ObserveError::Refused(Refusal { conditions, lacking })
    };
    for (error, want) in [
        (refused(Lacking::Project), "Failed to load application project: it is gone"),
        (refused(Lacking::Cluster), "Failed to get destination cluster: it is gone"),
        (refused(Lacking::Nothing), "it is gone"),
        (ObserveError::Operation("no revision".to_owned()), "no revision"),
    ] {
        assert_eq!(error.of_operation(), want);
    }
}

/// The words of a first comparison are written although they read as before: readers of Argo CD show
/// an Application without them as one that is not compared.
#[test]
fn the_first_comparison_is_written_even_if_nothing_is_known() {
    let compared = |status: Value| {
        let mut app = App::of(with(application(), &json!({"status": status})));
        status::write_failure(&mut app, &[], None, false, at(0));
        app.written().map(|written| written["status"].clone()).unwrap_or_default()
    };
    for status in [json!({}), json!({"sync": {"status": ""}, "health": {"status": ""}})] {
        let written = compared(status.clone());
        assert_eq!(written["sync"]["status"], "Unknown", "{status}");
        assert_eq!(written["health"]["status"], "Unknown", "{status}");
    }
    // What is stored already is not written again.
    let first = compared(json!({}));
    let mut again = App::of(with(application(), &json!({"status": first})));
    status::write_failure(&mut again, &[], None, false, at(9));
    assert_eq!(again.written(), None);
    // Without a comparison nothing of it is written.
    let mut untouched = App::of(application());
    untouched.metadata.finalizers.push("f".to_owned());
    let written = untouched.written().unwrap();
    assert_eq!((written.get("status"), &written["metadata"]["finalizers"]), (None, &json!(["f"])));
}
