//! Operations after a restart for which the server has dropped the progress and our fields of the
//! rows (`restore.rs`), and what is announced.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::super::*;
use super::world::{World, manifest};
use crate::health::Status;
use wavegate_api::operation::OperationPhase::{Error, Failed, Running, Succeeded, Unknown};
use wavegate_api::operation::{OperationPhase, ResourceResult, ResultCode, SyncPhase};
use wavegate_api::resource_key::ResourceKey;

/// The stored row of a manifest, without our fields.
fn row(kind: &str, name: &str, status: ResultCode, state: OperationPhase) -> ResourceResult {
    let ResourceKey { group, kind, namespace, name } =
        ResourceKey::from_object(&manifest(kind, name).0).unwrap();
    let (message, version) = ("m".to_owned(), "v1".to_owned());
    let of_phase = ResourceResult { sync_phase: SyncPhase::Sync, ..ResourceResult::default() };
    ResourceResult {
        group,
        version,
        kind,
        namespace,
        name,
        status,
        message,
        hook_phase: state,
        ..of_phase
    }
}

fn hook_row(name: &str, phase: SyncPhase, state: OperationPhase) -> ResourceResult {
    let row = row("Job", name, ResultCode::Synced, state);
    ResourceResult { hook_type: phase.to_string(), sync_phase: phase, ..row }
}

fn task(kind: &str, name: &str) -> TaskKey {
    let resource = ResourceKey::from_object(&manifest(kind, name).0).unwrap();
    TaskKey { phase: SyncPhase::Sync, resource }
}

fn announced(verb: Verb, kind: &str, name: &str) -> InFlight {
    let (task, version) = (task(kind, name), "v1".to_owned());
    let uid = if verb == Verb::Prune { format!("uid-of-{name}") } else { String::new() };
    InFlight { verb, task, wave: 0, version, uid }
}

/// SE-241: a failure that was stored fails the operation, in the words of its kind.
#[test]
fn what_had_failed_before_a_restart_fails_the_operation_se_241() {
    let refused = "one or more objects failed to apply, reason: m";
    let unsuccessful = "one or more synchronization tasks completed unsuccessfully";
    let with_reason = format!("{unsuccessful}, reason: m");
    for (name, status, state, want) in [
        ("it was refused", ResultCode::SyncFailed, Failed, Some(refused)),
        ("it is missing", ResultCode::SyncFailed, Error, Some(with_reason.as_str())),
        ("it was degraded", ResultCode::Synced, Failed, Some(unsuccessful)),
        ("it runs", ResultCode::Synced, Running, None),
        ("it was applied", ResultCode::Synced, Succeeded, None),
    ] {
        let mut world =
            World::new([manifest("ConfigMap", "a"), manifest("ConfigMap", "b").wave(1)])
                .no_delay()
                .live(manifest("ConfigMap", "a"));
        world.seen.results = vec![row("ConfigMap", "a", status, state)];
        let plan = step(&world.snapshot(), world.now);
        let found = (plan.phase == Failed).then_some(plan.message.as_str());
        assert_eq!(found, want, "{name}: {plan:?}");
    }
    // The failure of an alarm is not that of the operation.
    let targets = [manifest("ConfigMap", "a"), manifest("Job", "alarm").hook("SyncFail")];
    let mut world = World::new(targets).no_delay();
    let alarm = hook_row("alarm", SyncPhase::SyncFail, Failed);
    world.seen.results = vec![ResourceResult { status: ResultCode::SyncFailed, ..alarm }];
    assert_eq!(step(&world.snapshot(), world.now).phase, Running);
}

/// What runs counts from the creation of its hook, or from now: it is never awaited for less.
#[test]
fn the_start_of_what_runs_is_restored_se_601() {
    let created = Timestamp::from_second(super::world::START - 50).unwrap();
    let since = |kind: &str, hook: &str| {
        let first = manifest(kind, "first");
        let first = if hook.is_empty() { first } else { first.hook(hook) };
        let mut world = World::new([first, manifest("ConfigMap", "late").wave(1)]).no_delay();
        world.pump();
        let key = world.key("first").unwrap();
        let object = world.objects.get_mut(&key).unwrap();
        object["metadata"]["creationTimestamp"] = created.to_string().into();
        world.seen.progress = SyncProgress::default();
        for row in &mut world.seen.results {
            (row.uid, row.resource_version, row.since) = Default::default();
        }
        world.now += SignedDuration::from_secs(100);
        let plan = step(&world.snapshot(), world.now);
        assert_eq!(plan.waiting_for[0].key.name, "first");
        (plan.waiting_for[0].since, world.now)
    };
    assert_eq!(since("Job", "Sync").0, Some(created), "a hook that this operation has created");
    let (found, now) = since("Deployment", "");
    assert_eq!(found, Some(now), "a resource may be older than the operation");
}

/// SE-265: the delay between waves begins again, if there is another wave.
#[test]
fn the_delay_between_waves_begins_again_se_265() {
    let world = |later: bool| {
        let mut targets = vec![manifest("Deployment", "a")];
        targets.extend(later.then(|| manifest("ConfigMap", "b").wave(1)));
        let mut world = World::new(targets).live(manifest("Deployment", "a"));
        world.set_health("a", Status::Healthy);
        world.seen.results = vec![row("Deployment", "a", ResultCode::Synced, Running)];
        world
    };
    let waits = world(true);
    let plan = step(&waits.snapshot(), waits.now);
    assert_eq!(super::world::first_wait(&plan), Some((WaitReason::WaveDelay, "a")));
    assert_eq!(plan.wake_at, Some(waits.now + SignedDuration::from_secs(2)));
    let ends = world(false);
    assert_eq!(step(&ends.snapshot(), ends.now).phase, Succeeded);
}

/// SE-242: an operation whose last wave had run ends as it would have: it awaits no health.
#[test]
fn an_operation_whose_last_wave_had_run_ends_se_242() {
    let hook = || manifest("Job", "pre").hook("PreSync");
    let done = || hook_row("pre", SyncPhase::PreSync, Succeeded);
    let web = |state: OperationPhase| row("Deployment", "web", ResultCode::Synced, state);
    let plan = |rows: Vec<ResourceResult>| {
        let targets =
            [hook(), manifest("Deployment", "web"), manifest("Job", "alarm").hook("SyncFail")];
        let mut world = World::new(targets).no_delay().live(manifest("Deployment", "web"));
        world.seen.results = rows;
        step(&world.snapshot(), world.now)
    };
    let ended = plan(vec![done(), web(Running)]);
    let all_run = "successfully synced (all tasks run)";
    assert_eq!((ended.phase, ended.message.as_str()), (Succeeded, all_run));
    let failed = plan(vec![done(), web(Failed)]);
    assert_eq!(failed.phase, Running, "the alarm is run");
    assert!(failed.progress.failure.is_some());
    let pending = plan(vec![done()]);
    assert!(pending.phase == Running && !pending.actions.is_empty(), "it is not over");
    // A hook in the last wave is awaited.
    let mut world = World::new([hook()]).no_delay();
    world.pump();
    world.seen.progress = SyncProgress::default();
    let plan = step(&world.snapshot(), world.now);
    assert_eq!(super::world::first_wait(&plan), Some((WaitReason::HookCompletion, "pre")));
}

/// The row of the destination namespace alone is no sign of a begun operation.
#[test]
fn only_the_destination_namespace_is_created_before_the_dry_run_se_203() {
    let world = |kind: &str| {
        let mut world = World::new([manifest(kind, "default"), manifest("Secret", "s")]).no_delay();
        world.seen.results = vec![row(kind, "default", ResultCode::Synced, Running)];
        world
    };
    let verbs = |world: &World| -> Vec<Verb> {
        let plan = step(&world.snapshot(), world.now);
        plan.actions.iter().flat_map(|group| &group.actions).map(|one| one.id().verb).collect()
    };
    assert_eq!(verbs(&world("Namespace")), [Verb::DryRun], "the rest is checked first");
    assert_eq!(
        verbs(&world("ConfigMap")),
        [Verb::Apply],
        "it has begun, by an object of that name"
    );
}

/// SE-210: waves of prunes were planned with those that are gone, so that the rest would be too
/// early.
#[test]
fn what_is_left_to_be_pruned_comes_last_after_a_restart_se_210() {
    let world = |results: Vec<ResourceResult>, in_flight: Vec<InFlight>| {
        let targets = [
            manifest("ConfigMap", "a"),
            manifest("ConfigMap", "b").wave(5),
            manifest("ConfigMap", "after").hook("PostSync").wave(9),
        ];
        let mut world = World::new(targets)
            .no_delay()
            .live(manifest("ConfigMap", "a"))
            .live(manifest("ConfigMap", "left"));
        let applied = row("ConfigMap", "a", ResultCode::Synced, Succeeded);
        world.seen.results = [applied].into_iter().chain(results).collect();
        world.seen.progress.in_flight = in_flight;
        world
    };
    let pruned = |name: &str| row("ConfigMap", name, ResultCode::Pruned, Succeeded);
    let (last, first) = (
        ["Apply /ConfigMap/b", "Prune /ConfigMap/left", "CreateHook /ConfigMap/after"],
        ["Prune /ConfigMap/left", "Apply /ConfigMap/b", "CreateHook /ConfigMap/after"],
    );
    let skipped = row("ConfigMap", "gone", ResultCode::PruneSkipped, Succeeded);
    for (name, results, in_flight, want) in [
        ("one was pruned and is gone", vec![pruned("gone")], vec![], last),
        ("one was announced", vec![], vec![announced(Verb::Prune, "ConfigMap", "gone")], last),
        ("none was pruned", vec![skipped], vec![], first),
        (
            "what was announced is applied",
            vec![],
            vec![announced(Verb::Apply, "Secret", "x")],
            first,
        ),
    ] {
        let mut world = world(results, in_flight);
        let mut waves = vec![];
        for _ in 0..20 {
            world.reconcile().unwrap();
            let prunes = world.seen.progress.in_flight.iter().filter(|a| a.verb == Verb::Prune);
            waves.extend(prunes.filter(|a| a.task.resource.name == "left").map(|a| a.wave));
            world.vanish();
            world.tick();
        }
        assert_eq!(world.changes()[..3], want, "{name}");
        let own = if want == last { 6 } else { 0 };
        assert!(!waves.is_empty() && waves.iter().all(|wave| *wave == own), "{name}: {waves:?}");
    }
    // One that is still there is still a task, and moves no other.
    let mut there = world(vec![pruned("slow")], vec![])
        .live(manifest("ConfigMap", "slow").finalizer("example.com/hold"));
    let key = there.key("slow").unwrap();
    there.objects.get_mut(&key).unwrap()["metadata"]["deletionTimestamp"] =
        there.now.to_string().into();
    there.reconcile().unwrap();
    assert_eq!(there.changes(), ["Prune /ConfigMap/left"]);
}

/// What was about to be pruned and is gone was pruned, also when its answer is lost (SE-252).
#[test]
fn what_was_about_to_be_pruned_and_is_gone_was_pruned_se_252() {
    let found = |verb: Verb, exists: bool, outcome: Option<ActionResult>| {
        let mut world = World::new([manifest("ConfigMap", "a")]).no_delay();
        if exists {
            world = world.live(manifest("ConfigMap", "old"));
        }
        world.seen.progress = SyncProgress {
            dry_run_done: true,
            in_flight: vec![announced(verb, "ConfigMap", "old")],
            ..SyncProgress::default()
        };
        let action = ActionId { verb: Verb::Prune, task: task("ConfigMap", "old") };
        world.seen.outcomes = outcome
            .into_iter()
            .map(|result| ActionOutcome { action: action.clone(), result })
            .collect();
        let plan = step(&world.snapshot(), world.now);
        let row = plan.results.iter().find(|row| row.name == "old").cloned();
        let row = row.map(|row| (row.status, row.message));
        (row, plan.waiting_for.first().map(|wait| wait.reason))
    };
    let pruned = Some((ResultCode::Pruned, "pruned".to_owned()));
    let unknown = || Some(ActionResult::Unknown("reset".into()));
    let done = || {
        let (message, uid, resource_version) = Default::default();
        Some(ActionResult::Done { message, uid, resource_version })
    };
    assert_eq!(found(Verb::Prune, false, None), (pruned.clone(), None));
    assert_eq!(found(Verb::Prune, false, unknown()), (pruned.clone(), None));
    assert_eq!(found(Verb::Prune, true, unknown()), (None, Some(WaitReason::LostResponse)));
    assert_eq!(found(Verb::Prune, true, None), (None, None), "it is tried again");
    assert_eq!(found(Verb::Prune, true, done()).0, pruned);
    assert_eq!(found(Verb::Apply, false, None), (None, None), "that was no prune");
    let left = found(Verb::Prune, true, Some(ActionResult::Left("shop".into()))).0;
    let message = "ignored (left to shop, which has it in its source)";
    assert_eq!(left, Some((ResultCode::PruneSkipped, message.to_owned())));
}

/// A server that drops the progress keeps rows without a phase, which are read as announcements.
#[test]
fn announcements_are_rows_without_a_phase() {
    let progress = SyncProgress {
        in_flight: vec![
            announced(Verb::Prune, "ConfigMap", "old"),
            announced(Verb::CreateNamespace, "Namespace", "default"),
            announced(Verb::Apply, "ConfigMap", "c"),
            announced(Verb::Apply, "ConfigMap", "a"),
        ],
        ..SyncProgress::default()
    };
    let results = vec![row("ConfigMap", "a", ResultCode::Synced, Running)];
    let stored = with_announced(&results, &progress);
    let shown: Vec<(&str, &str, &str)> = stored
        .iter()
        .map(|row| (row.name.as_str(), row.message.as_str(), row.uid.as_str()))
        .collect();
    let want = [
        ("a", "m", ""),
        ("old", "about to be pruned", "uid-of-old"),
        ("default", "about to be created", ""),
        ("c", "about to be applied", ""),
    ];
    assert_eq!(shown, want);
    assert!(stored[1..].iter().all(|row| row.hook_phase == Unknown));

    let (mut read, mut known) = (stored.clone(), SyncProgress::default());
    take_announced(&mut read, &mut known);
    assert_eq!(read, results);
    assert_eq!(known.in_flight, progress.in_flight[..3]);
    // What the progress has already is not added again.
    let mut read = stored;
    take_announced(&mut read, &mut known);
    assert_eq!((read, known.in_flight.len()), (results, 3));

    // Rows of tasks are none, whatever they say.
    let row_of = |message: &str, status, state| {
        let message = message.to_owned();
        ResourceResult { message, ..row("ConfigMap", "x", status, state) }
    };
    let pruned = "about to be pruned";
    for (name, one, is_announced) in [
        ("an announcement", row_of(pruned, ResultCode::Unknown, Unknown), true),
        ("a task that runs", row_of(pruned, ResultCode::Unknown, Running), false),
        ("a task of a later phase", row_of(pruned, ResultCode::Synced, Unknown), false),
        ("other words", row_of("about to be", ResultCode::Unknown, Unknown), false),
        ("no words", row_of("", ResultCode::Unknown, Unknown), false),
    ] {
        let (mut rows, mut progress) = (vec![one], SyncProgress::default());
        take_announced(&mut rows, &mut progress);
        assert_eq!(
            (rows.is_empty(), progress.in_flight.len() == 1),
            (is_announced, is_announced),
            "{name}"
        );
    }
}

/// SE-318: what was about to be applied is applied; only the creation of the namespace is over
/// when it is there.
#[test]
fn what_was_about_to_be_applied_is_applied_se_318() {
    let targets = [manifest("ConfigMap", "c"), manifest("Secret", "s")];
    let mut world = World::new(targets)
        .option("ApplyOutOfSyncOnly=true")
        .live(manifest("ConfigMap", "c"))
        .live(manifest("Secret", "s"));
    world.seen.progress = SyncProgress {
        dry_run_done: true,
        in_flight: vec![announced(Verb::Apply, "ConfigMap", "c")],
        ..SyncProgress::default()
    };
    world.run();
    assert_eq!(world.changes(), ["Apply /ConfigMap/c"]);

    let mut world = World::new([manifest("Secret", "s")])
        .option("CreateNamespace=true")
        .live(manifest("Namespace", "default"));
    let mut creation = announced(Verb::CreateNamespace, "Namespace", "default");
    creation.task.phase = SyncPhase::PreSync;
    world.seen.progress.in_flight = vec![creation];
    let plan = step(&world.snapshot(), world.now);
    let made = plan.results.iter().find(|row| row.name == "default").unwrap();
    assert_eq!((made.message.as_str(), made.hook_phase), ("namespace/default created", Running));
    let verbs: Vec<Verb> =
        plan.actions.iter().flat_map(|group| &group.actions).map(|one| one.id().verb).collect();
    assert_eq!(verbs, [Verb::DryRun], "it is not created twice");
}

/// SE-201: a namespace that cannot be read stops only an operation that has not created it.
#[test]
fn a_namespace_that_was_created_need_not_be_read_again_se_201() {
    let failed = |begun: bool| {
        let mut world = World::new([manifest("Secret", "s")]).option("CreateNamespace=true");
        world.seen.namespace = NamespaceFact::Failed("timeout".into());
        if begun {
            let mut creation = announced(Verb::CreateNamespace, "Namespace", "default");
            creation.task.phase = SyncPhase::PreSync;
            world.seen.progress.in_flight = vec![creation];
        }
        step(&world.snapshot(), world.now)
    };
    assert!(failed(false).message.ends_with("namespace auto creation failed: timeout"));
    assert_eq!(failed(true).phase, Running);
}

fn stored(rows: &[ResourceResult]) -> Vec<Value> {
    rows.iter().map(|row| serde_json::to_value(row).unwrap()).collect()
}

fn names(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["name"].as_str().unwrap()).collect()
}

/// SE-597: a status that would be too large leaves out what a restart knows from the rest.
#[test]
fn rows_that_are_left_out_are_known_after_a_restart_se_597() {
    let targets = || {
        ["a", "b", "c"]
            .map(|name| manifest("Deployment", name))
            .into_iter()
            .chain(["d", "e"].map(|name| manifest("Deployment", name).wave(1)))
            .chain([manifest("ConfigMap", "late").wave(2)])
    };
    let mut world = World::new(targets()).no_delay();
    for name in ["a", "b", "c"] {
        world.set_health(name, Status::Healthy);
    }
    world.pump();
    let (all, before) = (world.seen.results.clone(), world.seen.results.len());
    let mut rows = stored(&all);
    assert_eq!(leave_out(&mut rows, usize::MAX), before - 1);
    assert_eq!(names(&rows), ["e"]);
    let text = rows[0]["message"].as_str().unwrap();
    assert!(
        text.starts_with(&format!("{}; 4 applied resources before it", all[4].message)),
        "{text}"
    );

    let mut results: Vec<ResourceResult> = serde_json::from_value(rows.into()).unwrap();
    let mut progress = SyncProgress::default();
    take_unlisted(&mut results, &mut progress);
    assert_eq!(results[0].message, all[4].message, "the words of the row alone");
    let restart = |world: &mut World| {
        (world.seen.results, world.seen.progress) = (results.clone(), progress.clone());
        // It has changed since: what was complete is awaited no more.
        world.set_health("a", Status::Progressing);
        step(&world.snapshot(), world.now)
    };
    let plan = restart(&mut world.clone());
    let states: Vec<(&str, OperationPhase)> =
        plan.results.iter().map(|row| (row.name.as_str(), row.hook_phase)).collect();
    let want =
        [("e", Running), ("a", Succeeded), ("b", Succeeded), ("c", Succeeded), ("d", Running)];
    assert_eq!(states, want);
    let awaited: Vec<&str> = plan.waiting_for.iter().map(|wait| &*wait.key.name).collect();
    assert_eq!(awaited, ["d", "e"]);
    // When the tasks are others, nothing is assumed.
    let mut other = world.clone();
    other.seen.targets.remove(1);
    assert_eq!(restart(&mut other).results.len(), 1);
    // What has ended is as it is.
    world.seen.phase = Succeeded;
    assert_eq!(restart(&mut world).progress.unlisted, None);
}

#[test]
fn only_rows_of_applied_resources_and_of_prunes_are_left_out_se_597() {
    let plain = |name: &str, status, state| row("ConfigMap", name, status, state);
    let applied = |name: &str| plain(name, ResultCode::Synced, Running);
    let mut namespace = applied("namespace");
    namespace.sync_phase = SyncPhase::PreSync;
    let mut hook = applied("hook");
    hook.hook_type = "Sync".to_owned();
    let mut rows = stored(&[
        namespace,
        hook,
        plain("failed", ResultCode::SyncFailed, Failed),
        plain("ill", ResultCode::Synced, Failed),
        plain("odd", ResultCode::Synced, Unknown),
        applied("one"),
        plain("two", ResultCode::Synced, Succeeded),
        applied("last"),
        plain("first-pruned", ResultCode::Pruned, Succeeded),
        plain("pruned", ResultCode::Pruned, Succeeded),
        plain("prune-failed", ResultCode::Pruned, Failed),
        plain("kept", ResultCode::PruneSkipped, Succeeded),
        plain("kept-failed", ResultCode::PruneSkipped, Failed),
    ]);
    assert_eq!(leave_out(&mut rows, usize::MAX), 4);
    let want = [
        "namespace",
        "hook",
        "failed",
        "ill",
        "odd",
        "last",
        "first-pruned",
        "prune-failed",
        "kept-failed",
    ];
    assert_eq!(names(&rows), want, "the first prune says that waves were planned with it");
    // One alone says nothing about others.
    let mut one = stored(&[applied("one")]);
    assert_eq!(leave_out(&mut one, usize::MAX), 0);
    // Rows without the statement are as they are.
    let mut plain = vec![applied("one"), applied("two")];
    let mut progress = SyncProgress::default();
    take_unlisted(&mut plain, &mut progress);
    assert_eq!((plain[1].message.as_str(), progress.unlisted), ("m", None));
}

/// As many as are needed, and no more.
#[test]
fn rows_are_left_out_until_enough_is_saved_se_597() {
    /// What the statement about them takes at most.
    const STATEMENT: usize = 120;
    let names = ["a", "b", "c", "d", "e", "f"];
    let of = |status, state| -> Vec<Value> {
        stored(&names.map(|name| row("ConfigMap", name, status, state)))
    };
    let size = |rows: &[Value]| serde_json::to_string(rows).unwrap().len();
    for (status, state, more) in
        [(ResultCode::Synced, Running, STATEMENT), (ResultCode::PruneSkipped, Succeeded, 0)]
    {
        let all = of(status, state);
        // With the comma behind it.
        let one = all[0].to_string().len() + 1;
        for count in 1..=4 {
            let exactly = count * one - more;
            let mut rows = all.clone();
            assert_eq!(leave_out(&mut rows, exactly), count, "{status:?}");
            assert_eq!(rows.len(), all.len() - count);
            assert!(size(&all) - size(&rows) >= exactly, "so much is saved");
            assert_eq!(leave_out(&mut all.clone(), exactly + 1), count + 1, "{status:?}");
        }
    }
    let mut rows = of(ResultCode::PruneSkipped, Succeeded);
    assert_eq!(leave_out(&mut rows, 0), 0, "nothing has to be saved");
}
