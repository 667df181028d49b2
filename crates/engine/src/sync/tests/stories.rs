//! Whole operations, with each decision on the way: what is done, in which groups and how, what is
//! waited for and until when, and what is stored. `stories.txt` is to be read with each change of
//! it; `WAVEGATE_REGENERATE=1` writes it.

use std::fmt::Write;

use jiff::SignedDuration;
use serde_json::json;

use super::super::*;
use super::world::{Interrupted, World, manifest};
use crate::health::Status;
use crate::written;
use wavegate_api::kind::{GroupVersionKind, Served};
use wavegate_api::operation::{OperationPhase, ResourceResult, SyncOperationResource, SyncPhase};
use wavegate_api::resource_key::ResourceKey;
use wavegate_api::time::to_rfc3339;

fn short(key: &ResourceKey) -> String {
    let ResourceKey { group, kind, namespace, name } = key;
    let place = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
    let group = if group.is_empty() { String::new() } else { format!("{group}/") };
    format!("{group}{kind} {place}{name}")
}

/// How something is applied, as far as it is not as usual.
fn apply_of(task: &TaskKey, request: &ApplyRequest) -> String {
    let ApplyRequest { key, method, stamp, wait_established, manifest } = request;
    let metadata = &manifest["metadata"];
    let Method { how, force, validate, migrate } = *method;
    let mut text = String::new();
    let mut add = |is_so: bool, word: &dyn std::fmt::Display| {
        if is_so {
            let _ = write!(text, ", {word}");
        }
    };
    add(*key != task.resource, &format_args!("as {}", short(key)));
    add(task.phase != SyncPhase::Sync, &format_args!("{:?}", task.phase));
    add(how != ApplyMethod::ClientSide, &format_args!("{how:?}"));
    add(force, &"forced");
    add(!validate, &"not validated");
    add(migrate, &"migrated");
    add(*wait_established, &"until it is established");
    add(stamp.is_some(), &format_args!("stamp {}", stamp.as_deref().unwrap_or_default()));
    for field in ["labels", "annotations", "finalizers"] {
        add(!metadata[field].is_null(), &format_args!("{field} {}", metadata[field]));
    }
    text
}

fn action(action: &Action) -> String {
    let mut text = format!("{:?} {}", action.id().verb, short(&action.id().task.resource));
    let more = match action {
        Action::DryRun(apply)
        | Action::CreateNamespace(apply)
        | Action::Apply(apply)
        | Action::CreateHook(apply) => apply_of(&apply.task, &apply.request),
        Action::RemoveFinalizer(live) => format!(" {} {}", live.version, live.uid),
        Action::DeleteHook(live, reason, how) => {
            format!(" {} {} for {reason:?}, {how:?}", live.version, live.uid)
        }
        Action::Prune(live, how) => format!(" {} {}, {how:?}", live.version, live.uid),
        Action::Read(task) => format!(" of {:?}", task.phase),
    };
    text.push_str(&more);
    text
}

fn row(row: &ResourceResult) -> String {
    let ResourceResult { status, hook_type, hook_phase, message, sync_phase, images, .. } = row;
    let ResourceResult { version, group, kind, namespace, name, uid, since, .. } = row;
    let key = short(&ResourceKey::new(group, kind, namespace, name));
    let mut text = format!("{key} {version}: {sync_phase:?} {status:?} {hook_phase:?} {message:?}");
    for part in [hook_type, uid].into_iter().chain(images).filter(|part| !part.is_empty()) {
        let _ = write!(text, " {part}");
    }
    if let Some(since) = since {
        let _ = write!(text, " since {}", since.strftime("%M:%S"));
    }
    text
}

fn decision(plan: &SyncPlan, before: &[ResourceResult], known: &SyncProgress) -> String {
    let mut text = format!("{:?}: {}", plan.phase, plan.detailed_message());
    let flags = [
        (plan.needs_persist_before_actions, ", is stored first"),
        (plan.terminated, ", was terminated"),
    ];
    flags.iter().filter(|(is_so, _)| *is_so).for_each(|(_, flag)| text.push_str(flag));
    if let Some(wake) = plan.wake_at {
        let _ = write!(text, ", wakes {}", to_rfc3339(wake));
    }
    for group in &plan.actions {
        let end = if group.stops_on_failure { " (a failure ends it)" } else { "" };
        let _ = write!(text, "\n    group{end}");
        for one in &group.actions {
            let _ = write!(text, "\n      {}", action(one));
        }
    }
    for Waiting { key, reason, detail, since, until } in &plan.waiting_for {
        let _ = write!(text, "\n    waits for {reason:?} of {}: {detail}", short(key));
        let times = [("since", since), ("until", until)];
        for (word, time) in times.into_iter().filter_map(|(word, time)| Some((word, (*time)?))) {
            let _ = write!(text, ", {word} {}", to_rfc3339(time));
        }
    }
    for one in plan.results.iter().filter(|one| !before.contains(one)) {
        let _ = write!(text, "\n    result {}", row(one));
    }
    let is_listed =
        |row: &ResourceResult| plan.results.iter().any(|one| TaskKey::of(one) == TaskKey::of(row));
    for one in before.iter().filter(|one| !is_listed(one)) {
        let _ = write!(text, "\n    no result of {}", row(one));
    }
    if plan.progress != *known {
        let _ = write!(text, "\n    progress {}", json!(plan.progress));
    }
    for warning in &plan.warnings {
        let _ = write!(text, "\n    warning {warning}");
    }
    text
}

/// What happens before the decision of this number.
type Event = (usize, fn(&mut World));

/// The decisions of an operation, until it ends; `events` change the world before a decision.
fn run(mut world: World, events: &[Event]) -> String {
    let mut text = String::new();
    for round in 0..60 {
        for (_, event) in events.iter().filter(|(at, _)| *at == round) {
            event(&mut world);
        }
        let (before, known) = (world.seen.results.clone(), world.seen.progress.clone());
        let acted = world.reconcile();
        let plan = world.last.clone().unwrap();
        let at = world.now.strftime("%M:%S");
        let _ = writeln!(text, "  {at} {}", decision(&plan, &before, &known));
        match acted {
            Ok(true) => {}
            Err(Interrupted) => text.push_str("  interrupted\n"),
            Ok(false) if plan.phase.is_completed() => {
                let retry = plan.detailed_message();
                assert!(!retry.is_empty());
                return text;
            }
            Ok(false) => world.advance(),
        }
    }
    text + "  and so on\n"
}

fn fleet() -> [super::world::Manifest; 9] {
    [
        manifest("Deployment", "web").wave(1),
        manifest("Widget", "one"),
        manifest("CustomResourceDefinition", "widgets.x.io").defines("x.io", "Widget"),
        manifest("Namespace", "extra"),
        manifest("ServiceAccount", "robot"),
        manifest("ConfigMap", "early").wave(-1),
        manifest("Service", "front").wave(1),
        manifest("StatefulSet", "db"),
        manifest("Secret", "keys"),
    ]
}

fn hooks() -> Vec<super::world::Manifest> {
    vec![
        manifest("Job", "before").hook("PreSync"),
        manifest("Job", "first").hook("PreSync").wave(-1).policy("HookSucceeded"),
        manifest("Job", "beside").hook("Sync"),
        manifest("Job", "after").hook("PostSync").policy("HookSucceeded,HookFailed"),
        manifest("Pod", "x").generate("named-").hook("PostSync").policy("BeforeHookCreation"),
        manifest("Job", "alarm").hook("SyncFail"),
        manifest("Job", "last").hook("PostDelete"),
        manifest("ConfigMap", "both").hook("PreSync,PostSync"),
        manifest("Job", "never").hook("Skip"),
        manifest("Job", "wrong").hook("presync"),
        manifest("ConfigMap", "c"),
        manifest("Deployment", "web"),
    ]
}

fn resource(group: &str, kind: &str, name: &str) -> SyncOperationResource {
    SyncOperationResource {
        group: group.into(),
        kind: kind.into(),
        name: name.into(),
        ..SyncOperationResource::default()
    }
}

fn with_options(options: &[&str]) -> World {
    options.iter().fold(World::new(fleet()), |world, option| world.option(option))
}

fn old(kind: &str, name: &str) -> super::world::Manifest {
    manifest(kind, name).set("spec", "old".into())
}

fn gone() -> World {
    World::new([manifest("ConfigMap", "kept"), manifest("Deployment", "web").wave(1)])
        .live(old("ConfigMap", "plain"))
        .live(old("Deployment", "later").wave(2))
        .live(old("Service", "stays").options("Prune=false"))
        .live(old("Secret", "asked").options("Prune=confirm"))
        .live(old("ConfigMap", "last").options("PruneLast=true"))
        .live(old("ConfigMap", "slow").finalizer("x.io/slow"))
        .live(old("Job", "hook").hook("PreSync"))
        .live(old("ConfigMap", "other").wave(-1))
        .with(|world| {
            world.untracked.insert("other".into());
        })
}

/// The operations, each with its name and what happens before which of its decisions.
fn operations() -> Vec<(&'static str, World, Vec<Event>)> {
    let minute = SignedDuration::from_secs(60);
    let fails: fn(&mut World) = |world| world.set_health("web", Status::Degraded);
    vec![
        ("waves and kinds", World::new(fleet()), vec![]),
        ("waves without a delay", World::new(fleet()).no_delay(), vec![]),
        (
            "a wave that fails",
            World::new(fleet()).no_delay(),
            vec![(0, |world| {
                world.set_health("db", Status::Degraded);
            })],
        ),
        (
            "a wave that is suspended",
            World::new(fleet()).no_delay(),
            vec![
                (0, |world| world.set_health("db", Status::Suspended)),
                (9, |world| world.set_health("db", Status::Healthy)),
            ],
        ),
        ("hooks of all phases", World::new(hooks()), vec![]),
        (
            "hooks by their own completion",
            World::new(hooks()).no_delay().with(|world| {
                world.seen.settings.hook_policy_scope = HookPolicyScope::Hook;
            }),
            vec![],
        ),
        (
            "hooks without a finalizer",
            World::new(hooks()).no_delay().with(|world| {
                world.seen.settings.hook_finalizer = false;
            }),
            vec![],
        ),
        (
            "hooks that exist",
            World::new(hooks())
                .no_delay()
                .live(
                    old("Job", "before")
                        .hook("PreSync")
                        .finalizer("argocd.argoproj.io/hook-finalizer"),
                )
                .live(old("Job", "after").hook("PostSync"))
                .live(old("Job", "beside"))
                .with(|world| {
                    world.unrelated.insert("beside".into());
                }),
            vec![],
        ),
        (
            "a hook that fails",
            World::new(hooks()).no_delay(),
            vec![(0, |world| world.set_health("before", Status::Degraded))],
        ),
        (
            "a hook after the sync that fails",
            World::new(hooks()).no_delay(),
            vec![(0, |world| world.set_health("after", Status::Degraded))],
        ),
        (
            "an application that fails with an alarm",
            World::new(hooks()).no_delay(),
            vec![(0, fails)],
        ),
        (
            "a dry run that is refused",
            World::new(fleet()),
            vec![(0, |world| {
                world.refused.insert((Verb::DryRun, "db".into()), "the field is wrong".into());
            })],
        ),
        (
            "an apply that is refused",
            World::new(hooks()).no_delay(),
            vec![(0, |world| {
                world.refused.insert((Verb::Apply, "c".into()), "it is immutable".into());
            })],
        ),
        (
            "a hook that is refused",
            World::new(hooks()).no_delay(),
            vec![(0, |world| {
                world.refused.insert((Verb::CreateHook, "before".into()), "quota".into());
            })],
        ),
        (
            "alarms on what is not valid",
            World::new(hooks()).no_delay().with(|world| {
                world.seen.settings.sync_fail_on_invalid = true;
            }),
            vec![(0, |world| {
                world.refused.insert((Verb::DryRun, "c".into()), "the field is wrong".into());
            })],
        ),
        (
            "answers that are lost",
            World::new(hooks()).no_delay(),
            vec![(0, |world| {
                world.lost = [
                    (Verb::DryRun, "web".into()),
                    (Verb::Apply, "web".into()),
                    (Verb::CreateHook, "before".into()),
                    (Verb::DeleteHook, "after".into()),
                ]
                .into();
            })],
        ),
        (
            "pruning",
            gone().no_delay(),
            vec![
                (12, |world| {
                    let key = world.key("slow").unwrap();
                    world.objects.get_mut(&key).unwrap()["metadata"]["finalizers"] = json!([]);
                }),
                (16, |world| world.seen.deletion_approved_at = Some(world.now)),
            ],
        ),
        (
            "pruning in waves",
            gone(),
            vec![
                (0, |world| world.seen.deletion_approved_at = Some(world.now)),
                (9, |world| {
                    let key = world.key("slow").unwrap();
                    world.objects.get_mut(&key).unwrap()["metadata"]["finalizers"] = json!([]);
                }),
            ],
        ),
        (
            "pruning at the end",
            gone().option("PruneLast=true").option("PrunePropagationPolicy=background").no_delay(),
            vec![(0, |world| {
                world.seen.deletion_approved_at = Some(world.now);
                world.objects.retain(|key, _| key.name != "slow");
            })],
        ),
        (
            "pruning that all has to be confirmed",
            gone().option("Prune=confirm").option("PrunePropagationPolicy=orphan"),
            vec![
                (8, |world| world.seen.deletion_approved_at = Some(world.now)),
                (9, |world| world.objects.retain(|key, _| key.name != "slow")),
            ],
        ),
        (
            "pruning that others may want",
            gone().no_delay().with(|world| {
                let key = |kind: &str, name: &str| ResourceKey::new("", kind, "default", name);
                world.seen.handovers = [
                    (key("ConfigMap", "plain"), Handover::Left("shop".into())),
                    (key("ConfigMap", "last"), Handover::Undecided("a, b".into())),
                ]
                .into();
            }),
            vec![
                (5, |world| world.seen.deletion_approved_at = Some(world.now)),
                (9, |world| world.objects.retain(|key, _| key.name != "slow")),
                (15, |world| world.seen.handovers.clear()),
            ],
        ),
        (
            "pruning that is refused",
            gone().no_delay(),
            vec![(0, |world| {
                world.seen.deletion_approved_at = Some(world.now);
                world.objects.retain(|key, _| key.name != "slow");
                world.refused.insert((Verb::Prune, "plain".into()), "forbidden".into());
            })],
        ),
        ("without pruning", gone().with(|world| world.seen.operation.prune = false), vec![]),
        ("a dry run", gone().with(|world| world.seen.operation.dry_run = true), vec![]),
        (
            "a dry run with hooks",
            World::new(hooks()).with(|world| {
                world.seen.operation.dry_run = true;
            }),
            vec![],
        ),
        (
            "without hooks",
            World::new(hooks()).with(|world| world.seen.operation.apply_only = true),
            vec![],
        ),
        (
            "some resources",
            World::new(hooks()).live(old("ConfigMap", "extra")).with(|world| {
                world.seen.operation.resources = vec![
                    resource("apps", "Deployment", "web"),
                    resource("", "ConfigMap", "extra"),
                    resource("", "Pod", "missing"),
                ];
            }),
            vec![],
        ),
        (
            "what is out of sync",
            with_options(&["ApplyOutOfSyncOnly=true"])
                .live(manifest("ConfigMap", "early").wave(-1))
                .live(old("Secret", "keys"))
                .live(manifest("StatefulSet", "db")),
            vec![],
        ),
        (
            "replacing all",
            with_options(&["Replace=true"])
                .live(old("Secret", "keys"))
                .live(
                    manifest("CustomResourceDefinition", "widgets.x.io").defines("x.io", "Widget"),
                )
                .with(|world| world.seen.operation.force = true),
            vec![],
        ),
        ("on the server", with_options(&["ServerSideApply=true", "Validate=false"]), vec![]),
        (
            "on the server, without migration",
            with_options(&["ServerSideApply=true", "ClientSideApplyMigration=false", "Nonsense=1"]),
            vec![],
        ),
        (
            "options of resources",
            World::new([
                manifest("ConfigMap", "replaced").options("Replace=true"),
                manifest("ConfigMap", "forced").options("Force=true, Validate=false"),
                manifest("ConfigMap", "both").options("Replace=true,Force=true"),
                manifest("ConfigMap", "server").options("ServerSideApply=true"),
                manifest("ConfigMap", "client").options("ServerSideApply=false,Replace=false"),
                manifest("Pod", "x").generate("nameless-"),
                manifest("ConfigMap", "wave").wave(3),
            ])
            .option("ServerSideApply=true")
            .live(old("ConfigMap", "both")),
            vec![],
        ),
        (
            "shared resources",
            with_options(&["FailOnSharedResource=true"]).with(|world| {
                world.seen.shared = vec!["ConfigMap/early is part of a and b".into()];
            }),
            vec![],
        ),
        (
            "what a project denies",
            World::new(fleet()).with(|world| {
                world.seen.denied = [
                    (1, Denial::Kind("x.io/Widget is not on its list".into())),
                    (4, Denial::Namespace("default is no destination".into())),
                ]
                .into();
            }),
            vec![],
        ),
        (
            "kinds that do not exist",
            World::new([
                manifest("Widget", "one"),
                manifest("Gadget", "two").options("SkipDryRunOnMissingResource=true"),
                manifest("ConfigMap", "c"),
                manifest("Ingress", "i"),
            ])
            .with(|world| {
                let kind = |group: &str, version: &str, kind: &str| GroupVersionKind {
                    group: group.into(),
                    version: version.into(),
                    kind: kind.into(),
                };
                let none = Served::Missing { installed: None };
                world.seen.kinds = [
                    (kind("x.io", "v1", "Widget"), none.clone()),
                    (kind("x.io", "v1", "Gadget"), none),
                    (kind("networking.k8s.io", "v1", "Ingress"), Served::Failed("timeout".into())),
                    (kind("", "v1", "ConfigMap"), Served::ClusterScoped),
                ]
                .into();
            }),
            vec![],
        ),
        (
            "a namespace that is created",
            with_options(&["CreateNamespace=true"]).with(|world| {
                world.seen.namespace = NamespaceFact::Missing;
                world.seen.managed_namespace_metadata = serde_json::from_value(json!({
                    "labels": {"team": "shop"}, "annotations": {"owner": "alice"},
                }))
                .ok();
            }),
            vec![],
        ),
        (
            "a namespace that exists",
            with_options(&["CreateNamespace=true"])
                .live(old("Namespace", "default").namespace(""))
                .with(|world| {
                    world.seen.managed_namespace_metadata =
                        serde_json::from_value(json!({"labels": {"team": "shop"}})).ok();
                }),
            vec![],
        ),
        (
            "a namespace that is denied",
            with_options(&["CreateNamespace=true"]).with(|world| {
                world.seen.namespace = NamespaceFact::Missing;
                world.seen.namespace_denied = Some(Denial::Namespace("not permitted".into()));
            }),
            vec![],
        ),
        (
            "a namespace that cannot be read",
            with_options(&["CreateNamespace=true"]).with(|world| {
                world.seen.namespace = NamespaceFact::Failed("timeout".into());
            }),
            vec![],
        ),
        (
            "a namespace that is tracked",
            World::new(fleet())
                .with(|world| {
                    world.seen.tracks_namespace = true;
                })
                .live(old("Namespace", "default").namespace("")),
            vec![],
        ),
        (
            "the end by a person",
            World::new(hooks()),
            vec![(4, |world| {
                world.seen.phase = OperationPhase::Terminating;
            })],
        ),
        (
            "the end by a person in a wave",
            World::new(fleet()).no_delay(),
            vec![(3, |world| {
                world.seen.phase = OperationPhase::Terminating;
            })],
        ),
        (
            "the end by the time of an operation",
            World::new(fleet()).with(|world| {
                world.seen.settings.sync_timeout = Some(SignedDuration::from_secs(60));
                world.set_health("db", Status::Progressing);
            }),
            vec![],
        ),
        (
            "the end by the time of a hook",
            World::new(hooks()).no_delay().with(|world| {
                world.seen.settings.hook_timeout = Some(minute);
                world.set_health("beside", Status::Progressing);
            }),
            vec![],
        ),
        (
            "the end by the time of a wave",
            World::new(fleet()).no_delay().with(|world| {
                world.seen.settings.wave_timeout = Some(minute);
                world.set_health("db", Status::Progressing);
            }),
            vec![],
        ),
        (
            "until all is healthy",
            World::new(fleet()).no_delay().with(|world| {
                world.seen.settings.wait_for_health = true;
            }),
            vec![],
        ),
        (
            "a second attempt",
            World::new(hooks()).no_delay().with(|world| world.seen.attempt = 2),
            vec![],
        ),
        (
            "a restart that loses its progress",
            World::new(hooks()).no_delay().with(|world| {
                world.drops_progress = true;
                world.crash_at = Some(14);
            }),
            vec![],
        ),
        (
            "a list that is short",
            World::new(fleet()).no_delay().with(|world| {
                world.lists_little = true;
                world.crash_at = Some(22);
            }),
            vec![],
        ),
        (
            "manifests that are wrong",
            World::new([
                manifest("ConfigMap", "twice"),
                manifest("ConfigMap", "twice"),
                manifest("ConfigMap", "wave").note("argocd.argoproj.io/sync-wave", "first"),
                manifest("ConfigMap", "options").options("Prun=false,Force=yes"),
                manifest("ConfigMap", "hook").hook("PreSync,Sometimes").policy("HookGone"),
                manifest("List", "l"),
            ]),
            vec![],
        ),
        ("nothing", World::new([]), vec![]),
    ]
}

#[test]
fn operations_with_each_decision() {
    let mut text = String::new();
    for (name, world, events) in operations() {
        let _ = writeln!(text, "{name}\n{}", run(world, &events));
    }
    written::compare("src/sync/tests/stories.txt", &text);
}
