//! Classification, policies and names of hooks (A.3).

use jiff::Timestamp;

use super::super::SyncPhase::{PostSync, PreSync, Sync};
use super::super::*;
use super::world::{START, World, manifest};

#[test]
fn classification() {
    let argo = |hook: &str| classify(&manifest("Job", "x").hook(hook).0);
    let helm = |hook: &str| classify(&manifest("Job", "x").note("helm.sh/hook", hook).0);
    let cases = [
        ("V-035", argo("PreSync"), Class::Hook(vec![PreSync])),
        ("V-036", argo("PreSync,PostSync"), Class::Hook(vec![PreSync, PostSync])),
        ("V-037", argo("Sync, Sync"), Class::Hook(vec![Sync])),
        ("V-038", argo("Skip"), Class::Skipped),
        ("V-039", argo("Skip,PreSync"), Class::Hook(vec![PreSync])),
        ("V-040", argo("Garbage"), Class::Ignored),
        ("V-041", argo("Sync,Garbage"), Class::Hook(vec![Sync])),
        ("V-042", argo("presync"), Class::Ignored),
        ("V-043", helm("pre-install,pre-upgrade"), Class::Hook(vec![PreSync])),
        ("V-044", helm("crd-install"), Class::Resource),
        ("V-045", helm("test"), Class::Ignored),
        ("V-045", helm("pre-rollback"), Class::Ignored),
        (
            "V-046",
            classify(&manifest("Job", "x").hook("Sync").note("helm.sh/hook", "pre-install").0),
            Class::Hook(vec![Sync]),
        ),
        ("V-047", argo("PostDelete"), Class::DeleteHook),
        ("V-048", argo("PreSync,PostDelete"), Class::Hook(vec![PreSync])),
        ("V-049", helm("pre-delete"), Class::DeleteHook),
    ];
    for (row, got, want) in cases {
        assert_eq!(got, want, "{row}");
    }
}

#[test]
fn generated_names() {
    let at = Timestamp::from_second(START).unwrap();
    let cases = [
        ("V-050", "mig-", "0123456789abcdef", PreSync, "mig-0123456-presync-1700000000"),
        ("V-051", "mig-", "v1.2.3", PostSync, "mig-v1.2.3-postsync-1700000000"),
        ("V-052", "x-", "abcdefgh", PreSync, "x-abcdefg-presync-1700000000"),
        ("revisions may be words", "x-", "Größe", Sync, "x-größe-sync-1700000000"),
    ];
    for (row, prefix, revision, phase, want) in cases {
        assert_eq!(generated_name(prefix, revision, phase, at), want, "{row}");
    }
}

#[test]
fn policies() {
    let only =
        |before_creation, succeeded, failed| DeletePolicies { before_creation, succeeded, failed };
    let of = |policy: &str| DeletePolicies::of(&manifest("Job", "x").policy(policy).0);
    assert_eq!(DeletePolicies::of(&manifest("Job", "x").0), only(true, false, false), "V-053");
    assert_eq!(of("garbage"), only(true, false, false), "V-053");
    assert_eq!(of("HookSucceeded,HookFailed"), only(false, true, true), "V-054");
    let helm = manifest("Job", "x").note("helm.sh/hook-delete-policy", "hook-succeeded");
    assert_eq!(DeletePolicies::of(&helm.0), only(false, true, false), "V-055");
}

#[test]
fn a_hook_is_sent_with_name_namespace_finalizer_and_stamp() {
    let hook = manifest("Job", "x").namespace("").generate("mig-").hook("PreSync");
    let mut world = World::new([hook]);
    world.pump();
    let name = "mig-0123456-presync-1700000000";
    let live = &world.objects[&world.key(name).unwrap()];
    assert_eq!(live["metadata"]["namespace"], "default", "SE-195");
    assert_eq!(live["metadata"]["finalizers"][0], "argocd.argoproj.io/hook-finalizer", "SE-194");
    assert_eq!(live["metadata"]["annotations"][OPERATION_ANNOTATION], "op-1/0/presync");
    assert!(world.seen.targets[0]["metadata"]["name"].is_null(), "the source stays as it is");
}

#[test]
fn a_hook_of_two_phases_runs_twice() {
    let mut world =
        World::new([manifest("Job", "x").hook("PreSync,PostSync"), manifest("ConfigMap", "c")])
            .no_delay();
    let plan = world.run();
    assert_eq!(plan.message, "successfully synced (no more tasks)");
    assert_eq!(
        world.changes(),
        [
            "CreateHook batch/Job/x",
            "RemoveFinalizer batch/Job/x",
            "Apply /ConfigMap/c",
            "DeleteHook batch/Job/x",
            "CreateHook batch/Job/x",
            "RemoveFinalizer batch/Job/x",
        ],
        "SE-184, V-036"
    );
    assert_eq!(world.seen.results.len(), 3);
    assert!(world.created.values().all(|times| *times == 1));
}

#[test]
fn a_hook_that_is_misspelt_or_left_behind_is_reported() {
    let left = manifest("Job", "old").hook("PreSync");
    let world = World::new([manifest("Job", "x").hook("Garbage")]).live(left).option("Prone=true");
    let plan = step(&world.snapshot(), world.now);
    assert_eq!(
        plan.warnings,
        [
            "unknown sync option Prone=true",
            "Job x has no hook type that exists",
            "hook batch/Job old is no longer in the source",
        ],
        "SE-183, SE-296, SE-302"
    );
    assert!(plan.results.is_empty(), "V-040, SE-191");
}
