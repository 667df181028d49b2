//! Properties for any input.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

use super::super::*;
use super::world::{Manifest, World, manifest};
use crate::health::Status;
use wavegate_api::operation::{OperationPhase, SyncPhase};
use wavegate_api::resource_key::ResourceKey;

const KINDS: [&str; 8] = [
    "Namespace",
    "ConfigMap",
    "Service",
    "Deployment",
    "Job",
    "Widget",
    "CustomResourceDefinition",
    "Secret",
];

fn any_manifest() -> impl Strategy<Value = Manifest> {
    let hooks =
        vec!["", "", "", "PreSync", "Sync", "PostSync", "SyncFail", "Skip", "PreSync,PostSync"];
    let policies = vec!["", "HookSucceeded", "HookFailed", "BeforeHookCreation,HookSucceeded"];
    let namespaces = vec!["default", "a", "b"];
    (
        select(&KINDS[..]),
        "[a-c]{1,2}",
        select(namespaces),
        -2_i64..3,
        select(hooks),
        select(policies),
    )
        .prop_map(|(kind, name, namespace, wave, hook, policy)| {
            let made = match kind {
                "CustomResourceDefinition" => manifest(kind, &name).defines("x.io", "Widget"),
                "Namespace" => manifest(kind, &name),
                _ => manifest(kind, &name).namespace(namespace),
            };
            let made = if wave == 0 { made } else { made.wave(wave) };
            match (hook, policy) {
                ("", _) => made,
                (hook, "") => made.hook(hook),
                (hook, policy) => made.hook(hook).policy(policy),
            }
        })
}

fn key(manifest: &Manifest) -> ResourceKey {
    ResourceKey::from_object(&manifest.0).unwrap()
}

/// Manifests of different resources.
fn manifests(most: usize) -> impl Strategy<Value = Vec<Manifest>> {
    prop::collection::vec(any_manifest(), 0..most).prop_map(|list| {
        let mut seen = BTreeSet::new();
        list.into_iter().filter(|manifest| seen.insert(key(manifest))).collect()
    })
}

/// Any JSON, sometimes in the shape of a manifest.
fn any_json() -> impl Strategy<Value = Value> {
    let words = select(vec![
        "",
        "v1",
        "apps/v1",
        "Job",
        "Namespace",
        "default",
        "PreSync",
        "Prune=confirm,Replace=true",
        "9999999999999999999",
        "-9223372036854775808",
        "op-1/0/presync",
        "2024-01-01T00:00:00Z",
        "x/y/z",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        words.prop_map(Value::from),
        "\\PC{0,6}".prop_map(Value::from),
    ];
    let keys = select(vec![
        "apiVersion",
        "kind",
        "metadata",
        "name",
        "generateName",
        "namespace",
        "annotations",
        "finalizers",
        "deletionTimestamp",
        "uid",
        "spec",
        "names",
        "group",
        "argocd.argoproj.io/hook",
        "argocd.argoproj.io/sync-wave",
        "argocd.argoproj.io/sync-options",
        OPERATION_ANNOTATION,
    ]);
    leaf.prop_recursive(4, 24, 6, move |inner| {
        let object =
            prop::collection::btree_map(keys.clone().prop_map(str::to_owned), inner.clone(), 0..6);
        prop_oneof![
            prop::collection::vec(inner, 0..3).prop_map(Value::from),
            object.prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn any_outcome() -> impl Strategy<Value = ActionResult> {
    prop_oneof![
        Just(ActionResult::Gone),
        Just(ActionResult::Failed("no".into())),
        Just(ActionResult::Unknown("timeout".into())),
        Just(ActionResult::Done {
            message: "m".into(),
            uid: "u".into(),
            resource_version: "7".into()
        }),
    ]
}

/// Fails if an action starts although an object of an earlier slot of the main
/// phases is missing or not healthy.
fn check_gates(world: &World, plan: &SyncPlan, slots: &BTreeMap<TaskKey, (SyncPhase, i64)>) {
    let started =
        plan.actions.iter().flat_map(|group| &group.actions).filter_map(|action| match action {
            Action::Apply(apply) | Action::CreateHook(apply) => slots.get(&apply.task),
            _ => None,
        });
    let Some(slot) = started.min().filter(|slot| slot.0 != SyncPhase::SyncFail) else { return };
    let snapshot = world.snapshot();
    for (task, _) in slots.iter().filter(|(_, earlier)| *earlier < slot) {
        let done = plan.results.iter().find(|result| TaskKey::of(result) == *task);
        let done = done.unwrap_or_else(|| panic!("{task:?} was left out before {slot:?}"));
        assert_eq!(done.hook_phase, OperationPhase::Succeeded, "{task:?} before {slot:?}");
        if done.hook_type.is_empty() {
            let live = &snapshot.live[&task.resource];
            let health = live.health.as_ref().map(|health| health.as_ref().unwrap().status);
            assert!(matches!(health, None | Some(Status::Healthy)), "{task:?} before {slot:?}");
        }
    }
}

fn planned_slots(world: &World) -> BTreeMap<TaskKey, (SyncPhase, i64)> {
    let targets: Vec<Value> = world.seen.targets.iter().map(|t| t.as_ref().clone()).collect();
    let slots = apply_order(&targets).into_iter().map(|slot| {
        let resource = ResourceKey::new(&slot.group, &slot.kind, &slot.namespace, &slot.name);
        (TaskKey { phase: slot.phase, resource }, (slot.phase, slot.wave))
    });
    slots.collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    // SE-215, SE-592.
    #[test]
    fn order_is_total_and_independent_of_the_input(
        (list, shuffled) in manifests(12).prop_flat_map(|l| (Just(l.clone()), Just(l).prop_shuffle()))
    ) {
        let values = |list: &[Manifest]| list.iter().map(|m| m.0.clone()).collect::<Vec<_>>();
        let slots = apply_order(&values(&list));
        prop_assert_eq!(&slots, &apply_order(&values(&shuffled)));
        prop_assert_eq!(prune_order(&values(&list)), prune_order(&values(&shuffled)));
        for pair in slots.windows(2) {
            prop_assert!((pair[0].phase, pair[0].wave) <= (pair[1].phase, pair[1].wave));
        }
        let distinct: BTreeSet<&Slot> = slots.iter().collect();
        prop_assert_eq!(distinct.len(), slots.len());
    }

    #[test]
    fn waves_start_in_order_and_hooks_run_once(
        targets in manifests(9),
        old in manifests(4),
        slow in prop::collection::btree_map("[a-c]{1,2}", select(vec![
            Status::Healthy, Status::Progressing, Status::Degraded
        ]), 0..4),
        pause in any::<bool>(),
        cut in prop::option::of(1_usize..40),
    ) {
        let mut world = World::new(targets);
        for object in old {
            world = world.live(object);
        }
        if !pause {
            world = world.no_delay();
        }
        world.crash_at = cut;
        for (name, status) in slow {
            world.set_health(&name, status);
        }
        let slots = planned_slots(&world);
        for round in 0..60 {
            for _ in 0..100 {
                let before = world.clone();
                let acted = world.reconcile();
                check_gates(&before, world.last.as_ref().unwrap(), &slots);
                if acted == Ok(false) {
                    break;
                }
            }
            let plan = world.last.clone().unwrap();
            if plan.phase.is_completed() {
                break;
            }
            prop_assert!(plan.actions.is_empty(), "no actions in the end");
            prop_assert!(!plan.waiting_for.is_empty(), "no silent wait: {}", plan.message);
            if round == 20 {
                // What was slow completes in the end.
                world.health.retain(|_, status| *status != Status::Progressing);
            }
            world.advance();
        }
        prop_assert!(world.last.as_ref().unwrap().phase.is_completed(), "{:?}", world.last);
        prop_assert!(world.created.values().all(|times| *times == 1), "{:?}", world.created);
        prop_assert_eq!(world.reconcile(), Ok(false));
    }

    #[test]
    fn the_printed_order_is_the_order_of_application(targets in manifests(10)) {
        let mut world = World::new(targets).no_delay();
        let planned = apply_order(&world.seen.targets.iter().map(|t| t.as_ref().clone()).collect::<Vec<_>>());
        let planned: Vec<String> = (planned.iter())
            .filter(|slot| slot.phase != SyncPhase::SyncFail)
            .map(|slot| format!("{}/{}/{}", slot.group, slot.kind, slot.name))
            .collect();
        prop_assert_eq!(world.run().phase, OperationPhase::Succeeded);
        let creations = world.changes().into_iter().filter_map(|line| {
            line.strip_prefix("Apply ").or_else(|| line.strip_prefix("CreateHook "))
        });
        prop_assert_eq!(creations.collect::<Vec<_>>(), planned);
    }

    #[test]
    fn nothing_panics_on_arbitrary_manifests(
        targets in prop::collection::vec(any_json(), 0..5),
        live in prop::collection::vec(any_json(), 0..5),
        options in prop::collection::vec("[A-Z][a-zA-Z]{2,8}=(true|false)", 0..3),
        outcomes in prop::collection::vec(any_outcome(), 1..8),
    ) {
        apply_order(&targets);
        prune_order(&targets);
        let mut world = World::new([]);
        world.seen.targets = targets.into_iter().map(Arc::new).collect();
        world.seen.operation.sync_options = options;
        let mut snapshot = world.snapshot();
        for object in live {
            if let Some(key) = ResourceKey::from_object(&object) {
                let object = Arc::new(object);
                let (out_of_sync, tracked, objection, is_itself) = (true, true, None, false);
                let health = None;
                let live =
                    LiveObject { object, health, out_of_sync, tracked, objection, is_itself };
                snapshot.live.insert(key, live);
            }
        }
        let mut outcomes = outcomes.iter().cycle();
        for _ in 0..6 {
            let plan = step(&snapshot, world.now);
            prop_assert_eq!(&plan, &step(&snapshot, world.now));
            snapshot.outcomes = plan.actions.iter().flat_map(|group| &group.actions)
                .map(|action| ActionOutcome { action: action.id(), result: outcomes.next().unwrap().clone() })
                .collect();
            (snapshot.phase, snapshot.message) = (plan.phase, plan.message);
            (snapshot.results, snapshot.progress) = (plan.results, plan.progress);
        }
        let finished = snapshot.phase.is_completed();
        prop_assert!(!finished || step(&snapshot, world.now).actions.is_empty());
    }
}

#[test]
fn a_large_application_is_planned_in_one_go() {
    let targets = (0..3_000).map(|n| manifest("ConfigMap", &format!("c{n}")).wave(n % 7));
    let mut world = World::new(targets).no_delay();
    let plan = world.run();
    assert_eq!(plan.phase, OperationPhase::Succeeded);
    assert_eq!(world.seen.results.len(), 3_000);
    assert_eq!(world.writes, 7, "one write before each wave but the first, and the end");
    assert_eq!(json!(world.seen.progress), json!({}), "no notes are left behind");
}
