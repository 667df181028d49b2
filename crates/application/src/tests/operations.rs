//! What the wave engine is given for one round, and how operations end that cannot go on.

use super::rounds::{Facts, begin, requested, round, settings};
use super::*;
use crate::engine_input::sync_snapshot;
use crate::operate::{Next, OperationSettings, fail_internally, fail_unstored, skips_unchanged};
use wavegate_engine::sync::{self, Handover, SyncSnapshot};

fn with(mut object: Value, changes: &Value) -> Value {
    json_patch::merge(&mut object, changes);
    object
}

/// The inputs of the engine for an Application whose operation has begun.
fn given(app: &Value, facts: &Facts, settings: &OperationSettings) -> Result<SyncSnapshot, String> {
    let app = App::of(app.clone());
    let observation = facts.observation();
    let compared = observation.compare(&app, &DiffCache::default());
    sync_snapshot(&app, &observation, &compared, Vec::new(), settings, at(1))
}

fn begun() -> Value {
    let mut app = requested(json!({"revision": "a".repeat(40)}));
    begin(&mut app, at(0));
    app
}

/// Each live object: whether it is the Application's own, and whether it may be skipped as in
/// sync (SE-115, SE-116, SE-318).
#[test]
fn live_objects_are_given_with_what_they_are_se_318() {
    let tracked = |id: &str| json!({"metadata": {"annotations": {TRACKING: id}}});
    let owned =
        json!({"metadata": {"ownerReferences": [{"kind": "Pod", "name": "p", "uid": "u"}]}});
    let hook =
        |types: &str| json!({"metadata": {"annotations": {"argocd.argoproj.io/hook": types}}});
    let differs = json!({"data": {"a": "2"}});
    let none = json!({});
    // Name, whether it is a target, what the object has besides, and what the target has.
    let cases = [
        ("both", true, none.clone(), none.clone(), "tracked"),
        ("changed", true, differs.clone(), none.clone(), "differs tracked"),
        ("extra", false, none.clone(), none.clone(), "tracked"),
        ("owned", true, owned.clone(), none.clone(), ""),
        ("copied", true, tracked("app:/ConfigMap:web/x"), none.clone(), "differs"),
        ("copy", false, tracked("app:/ConfigMap:web/x"), none.clone(), "-"),
        ("foreign", true, tracked("other:/ConfigMap:web/foreign"), none.clone(), "differs"),
        ("hook", true, none.clone(), hook("Sync"), "tracked"),
        ("hook-owned", true, owned, hook("Sync"), "tracked"),
        ("hook-changed", true, differs, hook("Sync"), "tracked"),
        ("hook-left", false, none.clone(), hook("Sync"), "tracked"),
        ("hook-foreign", true, tracked("o:/ConfigMap:web/hook-foreign"), hook("Sync"), "objection"),
        ("deletion", true, none.clone(), hook("PostDelete"), "differs"),
        (
            "deletion-foreign",
            true,
            tracked("o:/ConfigMap:web/d"),
            hook("PostDelete"),
            "differs objection",
        ),
        ("missing", true, Value::Null, none.clone(), "-"),
        ("left", false, none.clone(), none, "tracked objection"),
    ];
    let app = begun();
    let object = |name: &str, changes: &Value| with(map(name), changes);
    let targets: Vec<Value> = (cases.iter())
        .filter(|(_, is_target, ..)| *is_target)
        .map(|(name, _, _, target, _)| object(name, target))
        .collect();
    let mut facts = Facts::new(&app, &targets);
    for (name, _, changes, target, _) in &cases {
        if changes.is_null() {
            continue;
        }
        let placed = placed(&[object(name, target)]);
        let (key, found) = live(&placed.targets[0]);
        facts.live.insert(key, Arc::new(with(found.as_ref().clone(), changes)));
    }
    let key = |name: &str| ResourceKey::new("", "ConfigMap", "web", name);
    facts.handovers.insert(key("left"), Handover::Left("other".into()));
    let snapshot = given(&app, &facts, &settings()).unwrap();
    for (name, .., want) in &cases {
        let found = snapshot.live.get(&key(name)).map(|one| {
            let marks = [
                (one.out_of_sync, "differs"),
                (one.tracked, "tracked"),
                (one.objection.is_some(), "objection"),
                (one.is_itself, "itself"),
            ];
            let marks = marks.iter().filter(|(is, _)| *is).map(|(_, text)| *text);
            marks.collect::<Vec<_>>().join(" ")
        });
        assert_eq!(found.as_deref().unwrap_or("-"), *want, "{name}");
    }
    assert!(!snapshot.tracks_namespace);
}

/// A namespace whose metadata is managed is no object of the Application, and never in sync
/// without a look (SE-025, SE-318).
#[test]
fn a_managed_namespace_is_given_as_such_se_025() {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}});
    let managed = json!({"spec": {"syncPolicy": {"managedNamespaceMetadata": {"labels": {}}}}});
    let live_namespace = || live(&placed(std::slice::from_ref(&namespace)).targets[0]);
    for (name, changes, manifests, is_live, want) in [
        ("managed", &managed, vec![], true, (true, Some((true, false)))),
        ("in the source", &managed, vec![namespace.clone()], true, (false, Some((true, false)))),
        ("missing", &managed, vec![], false, (false, None)),
        ("not managed", &json!({}), vec![], true, (false, Some((false, true)))),
    ] {
        let app = with(begun(), changes);
        let mut facts = Facts::new(&app, &manifests);
        if is_live {
            facts.live.extend([live_namespace()]);
        }
        let snapshot = given(&app, &facts, &settings()).unwrap();
        let found = snapshot.live.get(&ResourceKey::new("", "Namespace", "", "web"));
        let found = found.map(|one| (one.out_of_sync, one.tracked));
        assert_eq!((snapshot.tracks_namespace, found), want, "{name}");
    }
    // One that only exists is given, too, and nothing is known of it.
    let app = begun();
    let facts = Facts::new(&app, &[]);
    let (key, object) = live_namespace();
    let mut observation = facts.observation();
    observation.namespace_object = Some(object);
    let app = App::of(app);
    let compared = observation.compare(&app, &DiffCache::default());
    let snapshot =
        sync_snapshot(&app, &observation, &compared, Vec::new(), &settings(), at(1)).unwrap();
    let one = &snapshot.live[&key];
    assert!(one.out_of_sync && !one.tracked && !one.is_itself);
}

/// The annotation about health decides, and the setting without one (SE-591).
#[test]
fn an_annotation_says_whether_waves_wait_for_health_se_591() {
    use wavegate_api::annotations::WAIT_FOR_HEALTH;
    for (text, setting, want) in [
        (None, true, Some(true)),
        (None, false, Some(false)),
        (Some("true"), false, Some(true)),
        (Some("false"), true, Some(false)),
        (Some("yes"), true, None),
    ] {
        let annotations = json!({"metadata": {"annotations": {WAIT_FOR_HEALTH: text}}});
        let app = with(begun(), &annotations);
        let mut settings = settings();
        settings.sync.wait_for_health = setting;
        let found = given(&app, &Facts::new(&app, &[]), &settings);
        assert_eq!(found.ok().map(|one| one.settings.wait_for_health), want, "{text:?} {setting}");
    }
}

/// The options of the spec are those of an operation without options, if it is set so (SE-304).
#[test]
fn options_of_the_spec_are_inherited_if_set_se_304() {
    let options = json!({"spec": {"syncPolicy": {"syncOptions": ["Validate=false"]}}});
    for (inherit, want) in [(true, vec!["Validate=false"]), (false, vec![])] {
        let app = with(begun(), &options);
        let settings = OperationSettings { inherit_sync_options: inherit, ..settings() };
        let snapshot = given(&app, &Facts::new(&app, &[]), &settings).unwrap();
        assert_eq!(snapshot.operation.sync_options, want);
    }
}

/// An option of the spec or the request, and no other one (SE-318).
#[test]
fn objects_in_sync_are_skipped_only_if_asked_se_318() {
    let only = "ApplyOutOfSyncOnly=true";
    for (spec, request, want) in [
        (json!([]), json!([]), false),
        (json!(["Validate=false"]), json!(["Replace=true"]), false),
        (json!([only]), json!([]), true),
        (json!([]), json!(["Replace=true", only]), true),
        (json!(["ApplyOutOfSyncOnly=false"]), json!([]), false),
    ] {
        let mut app = requested(json!({"syncOptions": request}));
        app["spec"]["syncPolicy"]["syncOptions"] = spec.clone();
        begin(&mut app, at(0));
        assert_eq!(skips_unchanged(&App::of(app)), want, "{spec} {request}");
    }
}

/// A client-side dry run changes nothing in the cluster; whatever else there is does.
#[test]
fn only_client_side_dry_runs_send_nothing() {
    let actions = |options: Value, dry_run: bool| {
        let sync = json!({"revision": "a".repeat(40), "syncOptions": options, "dryRun": dry_run});
        let mut app = requested(sync);
        begin(&mut app, at(0));
        let facts = Facts::new(&app, &[map("one")]);
        let next = round(&mut app, Ok(&facts.observation()), &[], at(1), at(1));
        let Next::Act(act) = next else { panic!("{app}") };
        act
    };
    assert!(actions(json!([]), false).sends_nothing());
    assert!(!actions(json!(["ServerSideApply=true"]), false).sends_nothing());
    let mut act = actions(json!([]), false);
    let sync::Action::DryRun(apply) = act.groups[0].actions[0].clone() else { panic!("{act:?}") };
    act.groups[0].actions.push(sync::Action::Apply(apply));
    assert!(!act.sends_nothing());
    act.groups.clear();
    assert!(act.sends_nothing());
}

/// What cannot go on ends with an error; what does not run is left as it is (SE-062, SE-375).
#[test]
fn an_operation_that_cannot_go_on_ends_se_375() {
    let ended = |app: &App| {
        let state = &app.status.operation_state;
        (state.phase == OperationPhase::Error).then(|| state.message.clone())
    };
    let [idle, waiting, running] = [application(), requested(json!({})), begun()].map(App::of);
    let unstored = "the status of the application is too large to be stored (why)";
    for (name, app, internal, stored) in [
        ("idle", &idle, None, None),
        ("requested", &waiting, Some("internal error: why"), None),
        ("running", &running, Some("internal error: why"), Some(unstored)),
    ] {
        let mut own = app.clone();
        let next = fail_internally(&mut own, "why", at(1));
        assert_eq!(matches!(next, Some(Next::Over)), internal.is_some(), "{name}");
        assert_eq!(ended(&own).as_deref(), internal, "{name}");
        let mut own = app.clone();
        let next = fail_unstored(&mut own, "why", at(1));
        assert_eq!(matches!(next, Some(Next::Over)), stored.is_some(), "{name}");
        let message = ended(&own);
        let start = message.as_deref().map(|text| text.split(';').next().unwrap());
        assert_eq!(start, stored, "{name}");
    }
}

/// A round is another one for the log when phase, attempt or message change.
#[test]
fn rounds_differ_by_what_they_wait_for() {
    let digest = |state: Value| {
        let state: OperationState = wavegate_api::read_leniently(&state);
        operate::wait_digest(&state)
    };
    let first = json!({"phase": "Running", "retryCount": 1, "message": "m"});
    let same = with(first.clone(), &json!({"startedAt": "2023-11-14T22:13:20Z"}));
    assert_eq!(digest(first.clone()), digest(same));
    for change in [json!({"phase": "Failed"}), json!({"retryCount": 2}), json!({"message": "n"})] {
        assert_ne!(digest(first.clone()), digest(with(first.clone(), &change)), "{change}");
    }
}

/// The first action waits until the start and what it deploys are stored, and warnings are of
/// the first round only.
#[test]
fn an_attempt_is_stored_before_it_acts() {
    let mut app = requested(json!({"revision": "a".repeat(40)}));
    let mut facts = Facts::new(&app, &[map("one")]);
    let begun = operate::begin_round(
        &App::of(app.clone()),
        &ApplicationMemory::default(),
        &settings(),
        at(0),
    );
    let act = |app: &App, facts: &Facts| {
        let decision = operate::operate_round(&operate::OperationSnapshot {
            app,
            memory: &ApplicationMemory::default(),
            commits: None,
            observed: Ok(&facts.observation()),
            diffs: &DiffCache::default(),
            outcomes: &[],
            settings: &settings(),
            now: at(1),
        });
        let Next::Act(act) = decision.next else { panic!("{:?}", decision.app) };
        act
    };
    assert!(act(&begun.app, &facts).persist, "the start is not stored");
    store(&mut app, &begun.app);
    assert!(!act(&App::of(app.clone()), &facts).persist);
    facts.live.extend([live(&facts.placed.targets[0])]);
    assert_eq!(act(&App::of(app), &facts).live.len(), 1);
}
