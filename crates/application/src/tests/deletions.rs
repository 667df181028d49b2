//! Deletions: hooks and their attempts, what goes and what stays, as tables.

use super::rounds::Facts;
use super::*;
use crate::access::{Applicant, ClusterFact, ProjectFact};
use crate::delete_hooks::{
    DeleteHook, HookStepInput, NextHook, clean_up, is_made_by, next_hook_step, retry_pause,
};
use crate::deletion::{CascadeStep, decide_cascade, hook_finalizers};
use crate::deletion_scope::{self, DeletionPlace, DeletionScope, deletion_place, deletion_spec};
use crate::finalize::{
    self, DeletionInput, DeletionSnapshot, DeletionState, Plan, Removal, UnlistedKinds,
};
use crate::memory::Try;
use crate::observation::Live;
use wavegate_api::hooks::HookType;
use wavegate_engine::sync::Propagation;

const HOOK: &str = "argocd.argoproj.io/hook";

fn deleted() -> Value {
    let mut app = application();
    json_patch::merge(
        &mut app,
        &json!({"metadata": {"uid": "u", "deletionTimestamp": "2023-11-14T22:13:20Z"}}),
    );
    app
}

fn with(mut object: Value, changes: &Value) -> Value {
    json_patch::merge(&mut object, changes);
    object
}

/// A Job that runs after the deletion.
fn hook(name: &str) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job",
           "metadata": {"name": name, "annotations": {HOOK: "PostDelete"}}})
}

fn hooks(app: &Value, placed: &Placed) -> Vec<DeleteHook> {
    DeleteHook::all(HookType::PostDelete, app, &placed.targets)
}

/// The live object of a hook, as this attempt has created it.
fn made(hook: &DeleteHook, attempt: u64, status: &Value) -> (ResourceKey, Arc<Value>) {
    let more = json!({"metadata": {"uid": "1", "creationTimestamp": "2023-11-14T22:13:20Z"},
                      "status": status});
    (hook.key.clone(), Arc::new(with(hook.manifest(attempt).as_ref().clone(), &more)))
}

fn job(type_: &str, message: &str) -> Value {
    json!({"conditions": [{"type": type_, "status": "True", "message": message}]})
}

fn next(app: &Value, facts: &Facts, hurry: bool, now: Timestamp) -> String {
    let observation = facts.observation();
    let about = HookStepInput {
        owner: observation.owner("u"),
        permits: observation.access.permits(),
        project: "default",
        checks: observation.checks,
        hurry,
        now,
    };
    match next_hook_step(&hooks(app, &facts.placed), &facts.live, &about) {
        NextHook::Create(hooks) => {
            let names = hooks.iter().map(|hook| hook.key.name.as_str());
            format!("create {}", names.collect::<Vec<_>>().join(" "))
        }
        NextHook::Remove(keys) => {
            let names = keys.iter().map(|key| key.name.as_str());
            format!("remove {}", names.collect::<Vec<_>>().join(" "))
        }
        NextHook::Failed { message, due, next } => {
            let due: Vec<String> =
                due.iter().map(|(key, attempt)| format!("{}:{attempt}", key.name)).collect();
            let next = next.map(|at| at.as_second() - 1_700_000_000);
            format!("{message}; due {due:?}, next {next:?}")
        }
        other => format!("{other:?}"),
    }
}

/// Wave by wave: created, awaited, and created again when one fails (SE-517, SE-518).
#[test]
fn hooks_of_a_deletion_run_wave_by_wave_se_517() {
    let app = deleted();
    let late = with(
        hook("late"),
        &json!({"metadata": {"annotations": {"argocd.argoproj.io/sync-wave": "1"}}}),
    );
    let mut facts = Facts::new(&app, &[late, hook("a"), hook("b"), map("one")]);
    let all = hooks(&app, &facts.placed);
    let by_name = |name: &str| all.iter().find(|hook| hook.key.name == name).unwrap().clone();
    let (a, b, late) = (by_name("a"), by_name("b"), by_name("late"));
    let (done, running) = (job("Complete", ""), json!({}));
    let failed = job("Failed", "exit 1");
    let going = |(key, live): (ResourceKey, Arc<Value>)| {
        let at = json!({"metadata": {"deletionTimestamp": "2023-11-14T22:13:30Z"}});
        (key, Arc::new(with(live.as_ref().clone(), &at)))
    };
    let foreign = |hook: &DeleteHook| {
        let (key, live) = made(hook, 0, &json!({}));
        let id = format!("app:batch/Job:web/{}", key.name);
        let notes = json!({"metadata": {"annotations": {
            "wavegate.dev/operation": null, TRACKING: id}}});
        let mut live = with(live.as_ref().clone(), &notes);
        live["metadata"]["annotations"]
            .as_object_mut()
            .unwrap()
            .retain(|name, _| name == TRACKING || name == HOOK);
        (key, Arc::new(live))
    };
    let wait = |name: &str, again: bool| {
        format!(
            "Wait {{ reason: \"waiting for completion of hook batch/Job web/{name}\", again: \
             {again} }}"
        )
    };
    let former = "Wait { reason: \"waiting for deletion of the former hook batch/Job web/a\", \
                  again: false }";
    type Case<'a> = (&'a str, Vec<(ResourceKey, Arc<Value>)>, String);
    let cases: Vec<Case<'_>> = vec![
        ("none exists", vec![], "create a b".into()),
        ("one exists", vec![made(&a, 0, &running)], "create b".into()),
        ("both run", vec![made(&a, 0, &done), made(&b, 0, &running)], wait("b", false)),
        ("again", vec![made(&a, 1, &running), made(&b, 0, &done)], wait("a", true)),
        ("the next wave", vec![made(&a, 0, &done), made(&b, 0, &done)], "create late".into()),
        (
            "all are complete",
            vec![made(&a, 0, &done), made(&b, 3, &done), made(&late, 0, &done)],
            "Done".into(),
        ),
        (
            "complete, but going",
            vec![going(made(&a, 0, &done)), made(&b, 0, &done)],
            wait("a", false),
        ),
        ("that of a sync", vec![foreign(&a)], "remove a".into()),
        ("which goes", vec![going(foreign(&a)), made(&b, 0, &done)], former.into()),
    ];
    for (name, live, want) in cases {
        facts.live = live.into_iter().collect();
        assert_eq!(next(&app, &facts, false, at(5)), want, "{name}");
    }

    facts.live = [made(&a, 0, &failed), made(&b, 2, &job("Failed", ""))].into_iter().collect();
    let text = "PostDelete hook(s) failed: web/a (exit 1), web/b; due";
    // The pause is 10 s and 40 s, and 49 thousandths more: the UID is `1`.
    for (hurry, now, want) in [
        (false, 9, "[], next Some(10)"),
        (false, 10, "[], next Some(10)"),
        (false, 11, "[\"a:1\"], next Some(41)"),
        (false, 42, "[\"a:1\", \"b:3\"], next None"),
        (true, 0, "[\"a:1\", \"b:3\"], next None"),
    ] {
        assert_eq!(next(&app, &facts, hurry, at(now)), format!("{text} {want}"), "{now}");
    }
    let exact = at(10).checked_add(SignedDuration::from_millis(490)).unwrap();
    assert!(next(&app, &facts, false, exact).contains("[\"a:1\"]"), "when it is due");
    let before = exact.checked_sub(SignedDuration::from_millis(1)).unwrap();
    assert!(next(&app, &facts, false, before).contains("due []"), "not before");
}

/// The pause doubles, up to five minutes (SE-518).
#[test]
fn the_pause_between_attempts_of_a_hook_doubles_se_518() {
    let seconds =
        [0, 1, 2, 3, 4, 5, 16, 17, u64::MAX].map(|attempt| retry_pause(attempt).as_secs());
    assert_eq!(seconds, [10, 20, 40, 80, 160, 300, 300, 300, 300]);
}

/// An object is a hook of this deletion by its stamp, and a name that the server would generate
/// is the same each time.
#[test]
fn a_hook_of_a_deletion_is_known_by_its_stamp_se_517() {
    let app = deleted();
    let nameless = |prefix: &str| {
        let metadata = json!({"metadata": {"name": null, "generateName": prefix}});
        with(hook("x"), &metadata)
    };
    let other = with(nameless("o-"), &json!({"metadata": {"annotations": {HOOK: "PreSync"}}}));
    let placed = placed(&[other, nameless("p-"), nameless("p-"), hook("named")]);
    let all = hooks(&app, &placed);
    let names: Vec<&str> = all.iter().map(|hook| hook.key.name.as_str()).collect();
    assert_eq!(names.len(), 3);
    assert!(names[0].starts_with("p-") && names[1].starts_with("p-"), "{names:?}");
    assert!(names[0] != names[1] && names[2] == "named", "{names:?}");
    assert!(names[0].contains("postdelete-1700000000"), "{names:?}");
    let again: Vec<String> = hooks(&app, &placed).into_iter().map(|hook| hook.key.name).collect();
    assert_eq!(again, names);

    let mut stamps: Vec<String> = all.iter().map(|hook| hook.stamp(0)).collect();
    stamps.push(all[0].stamp(1));
    for (index, stamp) in stamps.iter().enumerate() {
        assert!(!stamp.is_empty() && !stamps[..index].contains(stamp), "{stamps:?}");
    }
    let manifest = all[0].manifest(2);
    assert_eq!(manifest["metadata"]["name"], names[0]);
    let annotations = manifest["metadata"]["annotations"].as_object().unwrap();
    assert_eq!(annotations[HOOK], "PostDelete");
    assert!(annotations.values().any(|value| *value == all[0].stamp(2)), "{manifest}");
    let request = all[0].request(2);
    assert_eq!((request.manifest, request.stamp), (manifest.clone(), Some(all[0].stamp(2))));

    assert!(is_made_by(&app, &manifest));
    assert!(!is_made_by(&app, &hook("named")), "one without a stamp");
    for change in [
        json!({"metadata": {"uid": "v"}}),
        json!({"metadata": {"deletionTimestamp": "2023-11-14T22:13:21Z"}}),
    ] {
        assert!(!is_made_by(&with(app.clone(), &change), &manifest), "another deletion: {change}");
    }
}

/// Hooks go by their policy once all have completed (SE-519).
#[test]
fn completed_hooks_are_deleted_by_their_policy_se_519() {
    let app = deleted();
    let policy = |name: &str, policy: &str| {
        let annotations = json!({"argocd.argoproj.io/hook-delete-policy": policy});
        with(hook(name), &json!({"metadata": {"annotations": annotations}}))
    };
    let placed = placed(&[
        policy("failed", "HookFailed"),
        policy("succeeded", "HookSucceeded"),
        policy("before", "BeforeHookCreation"),
    ]);
    let all = hooks(&app, &placed);
    let (done, failed) = (job("Complete", ""), job("Failed", ""));
    let gone = |statuses: [&Value; 3], all_succeeded: bool| -> Vec<String> {
        let live: Live = all.iter().zip(statuses).map(|(hook, of)| made(hook, 0, of)).collect();
        let keys = clean_up(&all, &live, &Checks::default(), all_succeeded);
        keys.into_iter().map(|key| key.name).collect()
    };
    assert_eq!(gone([&done; 3], false), ["succeeded"]);
    assert_eq!(gone([&done; 3], true), ["failed", "succeeded", "before"]);
    for all_succeeded in [false, true] {
        assert_eq!(gone([&done, &failed, &done], all_succeeded), ["failed"]);
        assert_eq!(gone([&done, &json!({}), &done], all_succeeded), [] as [&str; 0]);
    }
    let foreign: Live = all.iter().map(|one| (one.key.clone(), Arc::new(hook("x")))).collect();
    assert!(clean_up(&all, &foreign, &Checks::default(), true).is_empty(), "not its own");
}

/// An Application has the finalizers of the hooks that its source declares (SE-511).
#[test]
fn finalizers_follow_the_hooks_of_the_source_se_511() {
    const PRE: [&str; 2] = [
        "pre-delete-finalizer.argocd.argoproj.io",
        "pre-delete-finalizer.argocd.argoproj.io/cleanup",
    ];
    const POST: [&str; 2] = [
        "post-delete-finalizer.argocd.argoproj.io",
        "post-delete-finalizer.argocd.argoproj.io/cleanup",
    ];
    let pre = with(hook("pre"), &json!({"metadata": {"annotations": {HOOK: "PreDelete"}}}));
    let of = |old: &[&str], manifests: &[Value]| {
        let old: Vec<String> = old.iter().map(|&one| one.to_owned()).collect();
        hook_finalizers(&old, &placed(manifests).targets)
    };
    let some = |list: &[&[&str]]| {
        let list = list.concat();
        Some(list.into_iter().map(str::to_owned).collect::<Vec<String>>())
    };
    let (post, own) = (hook("post"), ["own"]);
    assert_eq!(of(&own, &[map("a")]), None);
    assert_eq!(of(&own, std::slice::from_ref(&post)), some(&[&own, &POST]));
    assert_eq!(of(&own, std::slice::from_ref(&pre)), some(&[&own, &PRE]));
    assert_eq!(of(&[], &[post.clone(), pre.clone()]), some(&[&PRE, &POST]));
    assert_eq!(of(&[&own[..], &POST].concat(), &[post]), None, "unchanged");
    assert_eq!(of(&[&PRE[..], &own, &POST].concat(), &[pre]), some(&[&PRE, &own]));
    assert_eq!(of(&[&PRE[..], &POST].concat(), &[]), some(&[]));
}

/// An approval counts for the deletion that came before it, and not far ahead (SE-313, SE-315).
#[test]
fn an_approval_is_not_older_than_the_deletion_se_315() {
    let confirm = json!({"metadata": {"annotations": {
        "argocd.argoproj.io/sync-options": "Delete=confirm"}}});
    let managed: Live =
        placed(&[with(map("a"), &confirm)]).targets.iter().map(super::live).collect();
    let step = |approved: i64, now: i64| {
        let annotations = json!({"argocd.argoproj.io/deletion-approved": at(approved).to_string()});
        let app = with(deleted(), &json!({"metadata": {"annotations": annotations}}));
        decide_cascade(&app, &managed, at(now))
    };
    let held = |step: CascadeStep| match step {
        CascadeStep::Held(why) => why,
        other => panic!("{other:?}"),
    };
    let waits = "waiting for approval of the deletion of ConfigMap web/a";
    assert!(matches!(step(0, 10), CascadeStep::Delete(_)), "in the same second");
    assert_eq!(held(step(-1, 10)), waits, "older");
    assert!(matches!(step(310, 10), CascadeStep::Delete(_)), "five minutes ahead");
    let ahead = held(step(311, 10));
    assert!(ahead.ends_with("is ahead, at 2023-11-14T22:18:31Z"), "{ahead}");
}

/// One step of a deletion: the finalizers that are left, and what it does.
fn plan(app: &Value, facts: &Facts, scope: &DeletionScope, now: Timestamp) -> (Value, Plan) {
    let decision = finalize::finalize_deletion(&DeletionSnapshot {
        app: &App::of(app.clone()),
        memory: &ApplicationMemory::default(),
        observed: Ok(DeletionInput::In(&facts.observation(), scope, &UnlistedKinds::new())),
        clean_hooks: false,
        now,
    });
    (json!(decision.app.metadata.finalizers), decision.plan)
}

fn held_by(app: &Value, finalizers: &[&str]) -> Value {
    with(app.clone(), &json!({"metadata": {"finalizers": finalizers}}))
}

const RESOURCES: &str = "resources-finalizer.argocd.argoproj.io";

/// What belongs to the Application goes; the rest stays, and is named (SE-082, SE-514).
#[test]
fn a_deletion_takes_only_what_is_its_own_se_514() {
    let app = held_by(&deleted(), &[RESOURCES]);
    let mut facts = Facts::new(&app, &[map("own"), map("denied"), map("owned"), hook("after")]);
    for target in &facts.placed.targets.clone() {
        facts.live.extend([live(target)]);
    }
    let key = |name: &str| ResourceKey::new("", "ConfigMap", "web", name);
    let change = |facts: &mut Facts, name: &str, change: Value| {
        let live = facts.live.get_mut(&key(name)).unwrap();
        json_patch::merge(Arc::make_mut(live), &change);
    };
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p",
                       "controller": true});
    change(&mut facts, "owned", json!({"metadata": {"ownerReferences": [owner]}}));
    let names = |removals: &[Removal]| -> Vec<String> {
        removals.iter().map(|removal| removal.key.name.clone()).collect()
    };
    let (_, all) = plan(&app, &facts, &DeletionScope::Tracked, at(1));
    assert_eq!(names(&all.removals), ["denied", "own", "after"]);
    for removal in &all.removals {
        assert!(removal.delete && !removal.release, "{removal:?}");
        assert_eq!(removal.propagation, Propagation::Foreground);
    }
    assert!(all.acts());

    // Only what `status.resources` lists, when the project is not known.
    let listed = DeletionScope::Listed([key("own")].into());
    let (finalizers, some) = plan(&app, &facts, &listed, at(1));
    assert_eq!(names(&some.removals), ["own"]);
    assert_eq!(finalizers, json!([RESOURCES]));
    facts.live.remove(&key("own"));
    let (finalizers, done) = plan(&app, &facts, &listed, at(1));
    assert_eq!((finalizers, &done.state), (json!([]), &DeletionState::Done));
    assert!(!done.acts());
    let left = done.left.unwrap();
    assert_eq!(
        left,
        "resources are left in the cluster, since project 'default' does not exist or is not for \
         this application, and status.resources does not list them: ConfigMap web/denied, \
         batch/Job web/after"
    );
}

/// A hook that a sync has left, and that goes already, is released at once, whatever comes next.
#[test]
fn hooks_of_syncs_are_released_se_516() {
    let background = "resources-finalizer.argocd.argoproj.io/background";
    let app = held_by(&deleted(), &[background]);
    let mut facts = Facts::new(&app, &[map("going"), map("hook"), map("one")]);
    let finalizer = "argocd.argoproj.io/hook-finalizer";
    let at_once = json!({"metadata": {"deletionTimestamp": "2023-11-14T22:13:20Z"}});
    let held = json!({"metadata": {"finalizers": [finalizer]}});
    for (target, changes) in facts.placed.targets.clone().iter().zip([
        with(at_once.clone(), &held),
        held.clone(),
        json!({}),
    ]) {
        let (key, live) = live(target);
        facts.live.insert(key, Arc::new(with(live.as_ref().clone(), &changes)));
    }
    let of = |facts: &Facts| -> Vec<(String, bool, bool, Propagation)> {
        let (_, plan) = plan(&app, facts, &DeletionScope::Tracked, at(1));
        let of = |one: Removal| (one.key.name, one.delete, one.release, one.propagation);
        plan.removals.into_iter().map(of).collect()
    };
    let released = ("going".to_owned(), false, true, Propagation::Foreground);
    assert_eq!(of(&facts), [released]);
    facts.live.remove(&ResourceKey::new("", "ConfigMap", "web", "going"));
    assert_eq!(
        of(&facts),
        [
            ("hook".to_owned(), true, true, Propagation::Background),
            ("one".to_owned(), true, false, Propagation::Background),
        ]
    );
}

/// After the resources: hooks, then what their policies delete, then nothing.
#[test]
fn hooks_are_cleaned_up_at_the_end_se_519() {
    const POST: &str = "post-delete-finalizer.argocd.argoproj.io";
    const CLEANUP: &str = "post-delete-finalizer.argocd.argoproj.io/cleanup";
    let app = held_by(&deleted(), &[POST, CLEANUP]);
    let policy = json!({"metadata": {"annotations": {
        "argocd.argoproj.io/hook-delete-policy": "HookSucceeded"}}});
    let mut facts = Facts::new(&app, &[with(hook("a"), &policy)]);
    let own = &hooks(&app, &facts.placed)[0];
    let reason = |plan: &Plan| match &plan.state {
        DeletionState::Waits { reason, keep: false } => reason.clone(),
        other => panic!("{other:?}"),
    };
    let scope = DeletionScope::Tracked;
    let (finalizers, first) = plan(&app, &facts, &scope, at(1));
    assert_eq!((first.creations.len(), first.removals.len()), (1, 0));
    assert_eq!(reason(&first), "waiting for 1 PostDelete hooks");
    assert_eq!(finalizers, json!([POST, CLEANUP]));
    facts.live = [made(own, 0, &json!({}))].into_iter().collect();
    let (_, second) = plan(&app, &facts, &scope, at(1));
    assert_eq!(reason(&second), "waiting for completion of hook batch/Job web/a");
    facts.live = [made(own, 0, &job("Complete", ""))].into_iter().collect();
    let (finalizers, third) = plan(&app, &facts, &scope, at(1));
    assert_eq!((reason(&third), third.removals.len()), ("cleaning up PostDelete hooks".into(), 1));
    assert_eq!(finalizers, json!([CLEANUP]));
    facts.live.clear();
    let rest = held_by(&app, &[CLEANUP]);
    let (finalizers, last) = plan(&rest, &facts, &scope, at(1));
    assert_eq!((finalizers, last.state), (json!([]), DeletionState::Done));

    // A failed one is removed, to be created again.
    facts.live = [made(own, 0, &job("Failed", "why"))].into_iter().collect();
    let (_, failed) = plan(&app, &facts, &scope, at(100));
    assert_eq!(failed.removals.len(), 1);
    let message = "PostDelete hook(s) failed: web/a (why)".to_owned();
    assert_eq!(failed.state, DeletionState::Stuck { message, next: None });
    // A hook of a sync with the same name goes first.
    let mut former = with(hook("a"), &json!({"metadata": {"uid": "1", "namespace": "web"}}));
    former["metadata"]["annotations"][TRACKING] = "app:batch/Job:web/a".into();
    facts.live = [(own.key.clone(), Arc::new(former))].into_iter().collect();
    let (_, remove) = plan(&app, &facts, &scope, at(1));
    assert_eq!(remove.removals.len(), 1);
    assert_eq!(reason(&remove), "waiting for deletion of 1 former hooks");
}

/// A hook that was deleted before it completed is not created again at once (SE-518).
#[test]
fn a_deleted_hook_is_created_again_after_a_pause_se_518() {
    let app = held_by(&deleted(), &["post-delete-finalizer.argocd.argoproj.io"]);
    let facts = Facts::new(&app, &[hook("a")]);
    let key = hooks(&app, &facts.placed)[0].key.clone();
    let next = |tried: Option<Try>, now: i64| {
        let mut memory = ApplicationMemory::default();
        memory.tries.extend(tried.map(|own| (key.clone(), own)));
        let unlisted = UnlistedKinds::new();
        let observation = facts.observation();
        finalize::finalize_deletion(&DeletionSnapshot {
            app: &App::of(app.clone()),
            memory: &memory,
            observed: Ok(DeletionInput::In(&observation, &DeletionScope::Tracked, &unlisted)),
            clean_hooks: false,
            now: at(now),
        })
    };
    let tried = |attempt, made_at: Option<i64>| Some(Try { attempt, made_at: made_at.map(at) });
    for (name, before, now, attempt, keep) in [
        ("the first", None, 0, 0, false),
        ("one that was not sent", tried(0, None), 0, 0, false),
        ("when it is due", tried(0, Some(0)), 10, 1, true),
        ("the next", tried(1, Some(0)), 20, 2, true),
    ] {
        let decision = next(before, now);
        assert_eq!(decision.plan.creations[0].1, attempt, "{name}");
        let reason = "waiting for 1 PostDelete hooks".to_owned();
        assert_eq!(decision.plan.state, DeletionState::Waits { reason, keep }, "{name}");
        let mut tries = decision.memory.tries.clone();
        let made = Try { attempt, made_at: Some(at(now)) };
        assert_eq!(format!("{:?}", tries[&key]), format!("{made:?}"), "{name}");
        finalize::not_made(&mut tries, [&key]);
        assert_eq!(tries[&key].made_at, None, "{name}");
    }
    let early = next(tried(0, Some(0)), 9).plan;
    assert!(early.creations.is_empty());
    let message = "hook batch/Job web/a was deleted before it completed".to_owned();
    assert_eq!(early.state, DeletionState::Stuck { message, next: Some(at(10)) });
}

/// What each state of a deletion leads to.
#[test]
fn the_state_of_a_deletion_follows_its_actions() {
    let waits = DeletionState::Waits { reason: "r".to_owned(), keep: false };
    assert_eq!(waits.clone().after(Ok(())), waits);
    let stuck = DeletionState::Stuck { message: "m".to_owned(), next: None };
    assert_eq!(waits.after(Err("m".to_owned())), stuck);

    let fields = |finalizers: &[&str], more: Value| {
        Fields::of(&with(held_by(&application(), finalizers), &more))
    };
    let error = json!({"status": {"conditions": [{"type": "DeletionError", "message": "m"}]}});
    let other = json!({"status": {"conditions": [{"type": "SyncError", "message": "m"}]}});
    let refresh = json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}});
    for (more, want) in [(json!({}), false), (error, true), (other, false), (refresh, true)] {
        assert_eq!(finalize::needs_newest(&fields(&[], more.clone())), want, "{more}");
    }
    for (finalizers, held, source) in [
        (&[][..], false, false),
        (&["x"], false, false),
        (&[RESOURCES], true, false),
        (&["x", "post-delete-finalizer.argocd.argoproj.io"], true, true),
    ] {
        let fields = fields(finalizers, json!({}));
        let got = (finalize::is_held(&fields), finalize::needs_source(&fields));
        assert_eq!(got, (held, source), "{finalizers:?}");
    }
}

/// Where, and which objects: those that the last comparison was permitted to have, where no
/// project says what is permitted now (SE-515, SE-520).
#[test]
fn a_deletion_is_as_wide_as_its_project_permits_se_515() {
    let row = |name: &str, status: &str| json!({"kind": "Pod", "name": name, "namespace": "web", "status": status});
    let rows = json!([row("a", "Synced"), row("b", "Unknown"), row("c", "OutOfSync")]);
    let app = with(application(), &json!({"status": {"resources": rows}}));
    let key = |name: &str| ResourceKey::new("", "Pod", "web", name);
    let listed = DeletionScope::Listed([key("a"), key("c")].into());
    assert!(listed.contains(&key("a")) && !listed.contains(&key("b")));
    assert!(DeletionScope::Tracked.contains(&key("b")));
    let own = project();
    let known = ProjectFact::Known { spec: &own, problems: &[] };
    let cluster = ClusterFact::Known { server: "https://c", name: "c", project: "" };
    let place = |namespace: &str, destination: Value, project, cluster| {
        let spec =
            deletion_spec(&with(app.clone(), &json!({"spec": {"destination": destination}})));
        let applicant =
            Applicant { namespace, name: "app", spec: &spec, control_plane_namespace: "argocd" };
        deletion_place(&app, &applicant, project, cluster)
    };
    let (none, both) = (json!({}), json!({"name": "n"}));
    let two = "application destination can't have both name and server defined: n https://c";
    let tracked = DeletionPlace::Cluster(DeletionScope::Tracked);
    let listed = DeletionPlace::Cluster(listed);
    let nowhere = |why: &str| Ok(DeletionPlace::Nowhere(why.to_owned()));
    let unknown = ClusterFact::Unknown("no such cluster");
    assert_eq!(place("argocd", none.clone(), known, cluster), Ok(tracked.clone()));
    assert_eq!(place("other", none.clone(), known, cluster), Ok(listed.clone()));
    assert_eq!(place("argocd", none.clone(), ProjectFact::Missing, cluster), Ok(listed));
    assert_eq!(
        place("argocd", none.clone(), ProjectFact::Unreadable("why"), cluster),
        Err("project default cannot be read: why".to_owned())
    );
    assert_eq!(place("argocd", none.clone(), known, unknown), nowhere("no such cluster"));
    let unusable = ClusterFact::Unusable("no token");
    assert_eq!(place("argocd", none, known, unusable), Err("no token".to_owned()));
    assert_eq!(place("argocd", both, known, cluster), nowhere(two));
    let by_name = json!({"name": "n", "server": null});
    assert_eq!(place("argocd", by_name, known, cluster), Ok(tracked));

    // What a deletion needs of a spec that is invalid otherwise.
    let wrong = with(app.clone(), &json!({"spec": {"project": "p", "revisionHistoryLimit": "x"}}));
    let spec = deletion_spec(&wrong);
    assert_eq!(
        (spec.project.as_str(), json!(spec.destination)),
        ("p", app["spec"]["destination"].clone())
    );
    let all = deletion_scope::without_project();
    for (server, namespace) in [("https://c", "web"), ("https://d", "kube-system")] {
        assert!(project::destination_rule(&all, server, "", namespace).is_none());
    }
    let any = project::Name::Known("a");
    assert!(project::permits_kind(&all, "apps", "Deployment", any, true));
    assert!(project::permits_kind(&all, "rbac.authorization.k8s.io", "ClusterRole", any, false));
}
