//! Order of application (A.1) and of deletion (A.2).

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::super::options::AppOptions;
use super::super::*;
use super::world::{Manifest, World, manifest};
use wavegate_api::operation::OperationPhase;

fn names(manifests: &[Manifest]) -> Vec<String> {
    let values: Vec<Value> = manifests.iter().map(|m| m.0.clone()).collect();
    let slots = apply_order(&values);
    let promoted = |s: &Slot| format!("{}/{} {} {}", s.kind, s.name, s.phase, s.wave);
    slots.iter().map(promoted).collect()
}

#[test]
fn kinds_within_a_wave() {
    let cases = [
        (
            "V-001",
            "Pod Service PersistentVolume ConfigMap",
            "ConfigMap PersistentVolume Service Pod",
        ),
        (
            "V-002",
            "CronJob Job StatefulSet Deployment ReplicaSet DaemonSet",
            "DaemonSet ReplicaSet Deployment StatefulSet Job CronJob",
        ),
        (
            "V-003",
            "Widget APIService Ingress IngressClass",
            "IngressClass Ingress APIService Widget",
        ),
        (
            "V-004",
            "RoleBinding Role ClusterRoleBinding ClusterRole CustomResourceDefinition ServiceAccount",
            "ServiceAccount CustomResourceDefinition ClusterRole ClusterRoleBinding Role RoleBinding",
        ),
        (
            "V-005",
            "HorizontalPodAutoscaler PodDisruptionBudget Deployment",
            "PodDisruptionBudget Deployment HorizontalPodAutoscaler",
        ),
        ("V-020", "ConfigMap SecretList Secret", "Secret SecretList ConfigMap"),
    ];
    for (row, input, want) in cases {
        let input: Vec<Value> = input.split(' ').map(|kind| manifest(kind, "x").0).collect();
        let got: Vec<String> = apply_order(&input).into_iter().map(|slot| slot.kind).collect();
        assert_eq!(got.join(" "), want, "{row}");
    }
}

#[test]
fn phases_waves_names_and_promotion() {
    let cases: Vec<(&str, Vec<Manifest>, Vec<&str>)> = vec![
        (
            "V-006 kinds not listed go by name alone",
            vec![manifest("Widget", "b"), manifest("Gadget", "a")],
            vec!["Gadget/a Sync 0", "Widget/b Sync 0"],
        ),
        (
            "V-007",
            vec![
                manifest("ConfigMap", "c").wave(1),
                manifest("Deployment", "d").wave(-1),
                manifest("Secret", "s"),
            ],
            vec!["Deployment/d Sync -1", "Secret/s Sync 0", "ConfigMap/c Sync 1"],
        ),
        (
            "V-008",
            vec![
                manifest("Job", "post").hook("PostSync").wave(-3),
                manifest("Namespace", "n").wave(-10),
                manifest("Job", "pre").hook("PreSync").wave(5),
            ],
            vec!["Job/pre PreSync 5", "Namespace/n Sync -10", "Job/post PostSync -3"],
        ),
        (
            "V-009 names are compared byte by byte",
            vec![manifest("ConfigMap", "web-2"), manifest("ConfigMap", "web-10")],
            vec!["ConfigMap/web-10 Sync 0", "ConfigMap/web-2 Sync 0"],
        ),
        (
            "V-013",
            vec![manifest("Namespace", "a").wave(5), manifest("Deployment", "d").namespace("a")],
            vec!["Namespace/a Sync 0", "Deployment/d Sync 0"],
        ),
        (
            "V-014",
            vec![
                manifest("Namespace", "a"),
                manifest("Job", "j").namespace("a").hook("PreSync").wave(2),
            ],
            vec!["Namespace/a PreSync 2", "Job/j PreSync 2"],
        ),
        (
            "V-015",
            vec![
                manifest("CustomResourceDefinition", "w").defines("x.io", "Widget").wave(3),
                manifest("Widget", "a").wave(1),
            ],
            vec!["CustomResourceDefinition/w Sync 1", "Widget/a Sync 1"],
        ),
        (
            "V-016",
            vec![
                manifest("Widget", "a").wave(1),
                manifest("CustomResourceDefinition", "w").defines("x.io", "Widget"),
            ],
            vec!["CustomResourceDefinition/w Sync 0", "Widget/a Sync 1"],
        ),
        (
            "V-017",
            vec![manifest("Namespace", "b").wave(5), manifest("Deployment", "d").namespace("a")],
            vec!["Deployment/d Sync 0", "Namespace/b Sync 5"],
        ),
        (
            "V-018",
            vec![
                manifest("Widget", "fail").hook("SyncFail"),
                manifest("Widget", "one").wave(1),
                manifest("Widget", "minus").wave(-1),
                manifest("Widget", "pre").hook("PreSync"),
                manifest("Widget", "post").hook("PostSync"),
                manifest("Widget", "zero"),
            ],
            vec![
                "Widget/pre PreSync 0",
                "Widget/minus Sync -1",
                "Widget/zero Sync 0",
                "Widget/one Sync 1",
                "Widget/post PostSync 0",
                "Widget/fail SyncFail 0",
            ],
        ),
        (
            "SE-138 the last of two wins",
            vec![manifest("Secret", "s").wave(1), manifest("Secret", "s").wave(2)],
            vec!["Secret/s Sync 2"],
        ),
        (
            "SE-181..183 what is never applied",
            vec![
                manifest("Job", "skip").hook("Skip"),
                manifest("Job", "typo").hook("presync"),
                manifest("Job", "delete").hook("PostDelete"),
            ],
            vec![],
        ),
        (
            "a namespace and a definition are both promoted",
            vec![
                manifest("Widget", "w").namespace("a").wave(-2),
                manifest("Namespace", "a"),
                manifest("CustomResourceDefinition", "c").defines("x.io", "Widget"),
            ],
            vec!["Namespace/a Sync -2", "CustomResourceDefinition/c Sync -2", "Widget/w Sync -2"],
        ),
    ];
    for (row, input, want) in cases {
        assert_eq!(names(&input), want, "{row}");
        let reversed: Vec<Manifest> = input.iter().rev().cloned().collect();
        if !row.starts_with("SE-138") {
            assert_eq!(names(&reversed), want, "{row}, reversed");
        }
    }
}

#[test]
fn rank_is_by_kind_whatever_the_group() {
    let old = manifest("Ingress", "x").set("apiVersion", "extensions/v1beta1".into());
    let slots = apply_order(&[manifest("Ingress", "x").0, old.0]);
    assert_eq!(slots[0].kind_rank, slots[1].kind_rank, "V-019");
    assert_eq!(slots[0].group, "extensions", "SE-215: the group breaks the tie");
    let json = serde_json::to_value(&slots[0]).unwrap();
    let keys: Vec<&String> = json.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["group", "hook", "kind", "name", "namespace", "phase", "wave"]);
}

#[test]
fn wave_annotations() {
    let wave_of = |m: Manifest| wavegate_api::annotations::sync_wave(&m.0);
    let base = || manifest("ConfigMap", "x");
    for text in ["abc", "1.5", " 2", ""] {
        assert_eq!(wave_of(base().note("argocd.argoproj.io/sync-wave", text)), 0, "V-010 {text:?}");
    }
    for (text, want) in [("+3", 3), ("-4", -4), ("007", 7)] {
        let got = wave_of(base().note("argocd.argoproj.io/sync-wave", text));
        assert_eq!(got, want, "V-011 {text}");
    }
    let weight = || base().note("helm.sh/hook-weight", "5");
    assert_eq!(wave_of(weight()), 5, "V-012");
    assert_eq!(wave_of(weight().note("argocd.argoproj.io/sync-wave", "2")), 2, "V-012");
    assert_eq!(wave_of(weight().note("argocd.argoproj.io/sync-wave", "x")), 5, "V-012");
}

/// `keep` and `prune` list `name wave`; the result lists all `name wave`.
fn waves(keep: &[(&str, i64)], prune: &[(&str, i64)], options: &str, last: &[&str]) -> Vec<String> {
    let object = |(name, wave): &(&str, i64)| manifest("Pod", name).wave(*wave);
    let mut world = World::new(keep.iter().map(object));
    if !options.is_empty() {
        world = world.option(options);
    }
    for gone in prune {
        let live = object(gone);
        world =
            world.live(if last.contains(&gone.0) { live.options("PruneLast=true") } else { live });
    }
    let snapshot = world.snapshot();
    let built = super::super::build::build(&snapshot, &snapshot.operation.options());
    let mut waves: Vec<String> = (built.tasks.iter())
        .map(|task| format!("{}:{}", task.key.resource.name, task.wave))
        .collect();
    waves.sort();
    waves
}

#[test]
fn prune_waves() {
    let cases: Vec<(&str, Vec<String>, &str)> = vec![
        (
            "V-021",
            waves(&[], &[("a", 0), ("b", 1), ("c", 2), ("d", 3), ("e", 4)], "", &[]),
            "a:4 b:3 c:2 d:1 e:0",
        ),
        (
            "V-022",
            waves(&[("ns", 0), ("p2", 2)], &[("p1", 1), ("p3", 3), ("p4", 4)], "", &[]),
            "ns:0 p1:4 p2:2 p3:3 p4:1",
        ),
        (
            "V-023",
            waves(
                &[("ns", -1), ("p2", 3), ("p6", 5)],
                &[("p1", 1), ("p3", 3), ("p4", 3), ("p5", 4), ("p7", 5)],
                "",
                &[],
            ),
            "ns:-1 p1:5 p2:3 p3:4 p4:4 p5:3 p6:5 p7:1",
        ),
        ("V-024", waves(&[], &[("a", 0), ("b", 0)], "", &[]), "a:0 b:0"),
        (
            "V-025",
            waves(
                &[("ns", 0)],
                &[("p1", 1), ("p2", 2), ("p3", 3), ("p4", 4)],
                "PruneLast=true",
                &[],
            ),
            "ns:0 p1:5 p2:5 p3:5 p4:5",
        ),
        (
            "V-026",
            waves(&[("ns", 0)], &[("p1", 1), ("p2", 2), ("p3", 3), ("p4", 4)], "", &["p2"]),
            "ns:0 p1:4 p2:5 p3:2 p4:1",
        ),
        (
            "V-027",
            waves(&[("p1", 0)], &[("p2", 0), ("p3", 0)], "PruneLast=true", &[]),
            "p1:0 p2:1 p3:1",
        ),
        (
            "V-028",
            waves(&[("p1", 2)], &[("p2", 1), ("p3", 7)], "PruneLast=true", &[]),
            "p1:2 p2:8 p3:8",
        ),
        ("V-029", waves(&[("k", -3)], &[("p", -2)], "PruneLast=true", &[]), "k:-3 p:1"),
    ];
    for (row, got, want) in cases {
        assert_eq!(got.join(" "), want, "{row}");
    }
}

#[test]
fn prune_order_for_the_command_line() {
    let objects = [
        manifest("ConfigMap", "base").wave(-1).0,
        manifest("Deployment", "web").wave(0).0,
        manifest("Ingress", "door").wave(3).0,
        manifest("Job", "hook").hook("PreSync").0,
        manifest("Secret", "late").options("PruneLast=true").0,
    ];
    let got: Vec<String> =
        prune_order(&objects).iter().map(|s| format!("{} {}", s.name, s.wave)).collect();
    assert_eq!(got, ["door -1", "web 0", "base 3", "late 4"]);
}

#[test]
fn planned_prune_waves_hold_while_objects_disappear() {
    // Computed again from the remaining objects, `a` would move to wave 0 as
    // soon as `b` is gone, before `keep` of wave 1 is healthy.
    let mut world = World::new([manifest("Deployment", "keep").wave(1)])
        .live(manifest("ConfigMap", "a").wave(0))
        .live(manifest("ConfigMap", "b").wave(2))
        .no_delay();
    let plan = world.run();
    assert_eq!(plan.phase, OperationPhase::Succeeded);
    assert_eq!(
        world.changes(),
        ["Prune /ConfigMap/b", "Apply apps/Deployment/keep", "Prune /ConfigMap/a"]
    );
}

#[test]
fn tasks_are_unique_even_if_promoted_to_one_slot() {
    let namespace = manifest("Namespace", "a").hook("Sync,PostSync");
    let early = manifest("ConfigMap", "c").namespace("a").wave(-5);
    let world = World::new([namespace, early]);
    let snapshot = SyncSnapshot { targets: world.seen.targets.clone(), ..world.snapshot() };
    let built = super::super::build::build(&snapshot, &AppOptions::default());
    let keys: BTreeSet<&TaskKey> = built.tasks.iter().map(|task| &task.key).collect();
    assert_eq!(keys.len(), built.tasks.len());
    assert!(built.tasks.iter().all(|task| Arc::strong_count(task.target.as_ref().unwrap()) > 0));
}
