//! The destination namespace: when it is created, and what its row says (SE-200 … SE-203).

use super::super::*;
use super::world::{World, manifest};
use wavegate_api::app_spec::ManagedNamespaceMetadata;
use wavegate_api::operation::OperationPhase::{Failed, Running, Succeeded};

fn verbs(plan: &SyncPlan) -> Vec<(Verb, &str)> {
    let actions = plan.actions.iter().flat_map(|group| &group.actions);
    let ids = actions.map(|action| match action {
        Action::DryRun(apply) | Action::CreateNamespace(apply) => (action.id().verb, apply),
        Action::Apply(apply) | Action::CreateHook(apply) => (action.id().verb, apply),
        other => panic!("{other:?}"),
    });
    ids.map(|(verb, apply)| (verb, &*apply.task.resource.name)).collect()
}

/// SE-200 … SE-203: the destination namespace is created for an option, or kept as it was.
#[test]
fn the_destination_namespace_is_created_only_when_it_is_asked_for_se_200() {
    let metadata = || ManagedNamespaceMetadata {
        labels: [("team".to_owned(), "a".to_owned())].into(),
        ..ManagedNamespaceMetadata::default()
    };
    let run = |change: fn(&mut World), with_metadata: bool| {
        let mut world = World::new([manifest("Secret", "s")]).no_delay();
        world.seen.namespace = NamespaceFact::Missing;
        world.seen.managed_namespace_metadata = with_metadata.then(metadata);
        change(&mut world);
        assert_eq!(world.run().phase, Succeeded);
        let own = world.log.iter().filter(|line| line.contains("Namespace"));
        own.cloned().collect::<Vec<_>>()
    };
    let create = ["CreateNamespace /Namespace/default"];
    let nothing = [""; 0];
    let option: fn(&mut World) =
        |world| world.seen.operation.sync_options = vec!["CreateNamespace=true".into()];
    assert_eq!(run(|_| {}, false), nothing);
    assert_eq!(run(|_| {}, true), nothing, "metadata alone asks for nothing");
    assert_eq!(run(option, false), create);
    assert_eq!(run(option, true), create);
    let unnamed: fn(&mut World) = |world| {
        world.seen.operation.sync_options = vec!["CreateNamespace=true".into()];
        world.seen.destination_namespace.clear();
    };
    assert_eq!(run(unnamed, false), nothing, "there is none");
    assert_eq!(run(|world| world.seen.tracks_namespace = true, false), nothing, "SE-144");
    assert_eq!(run(|world| world.seen.tracks_namespace = true, true), create, "SE-144");
    // Another namespace in the source is not the destination.
    let mut world = World::new([manifest("Namespace", "aaa")]).no_delay();
    world.seen.namespace = NamespaceFact::Missing;
    world.run();
    assert_eq!(world.log, ["DryRun /Namespace/aaa", "Apply /Namespace/aaa"]);
    let mut world = World::new([manifest("ConfigMap", "default")]).no_delay();
    world.seen.namespace = NamespaceFact::Missing;
    world.run();
    assert_eq!(world.log, ["DryRun /ConfigMap/default", "Apply /ConfigMap/default"]);
}

/// SE-250: what is refused in the dry run is not applied, also after the namespace was created.
#[test]
fn the_dry_run_decides_also_after_the_namespace_was_created_se_250() {
    let mut world = World::new([manifest("Secret", "s")]).option("CreateNamespace=true").no_delay();
    world.seen.namespace = NamespaceFact::Missing;
    world.refused.insert((Verb::DryRun, "s".into()), "the field is wrong".into());
    let plan = world.run();
    assert_eq!(
        (plan.phase, &*plan.message),
        (Failed, "one or more objects failed to apply (dry run)")
    );
    assert_eq!(world.changes(), ["CreateNamespace /Namespace/default"]);
}

/// As in Argo CD, the row of a Namespace that was created stays Running, and no other does.
#[test]
fn the_row_of_a_created_namespace_stays_running() {
    let state = |kind: &str, with_metadata: bool| {
        let targets = [manifest(kind, "default"), manifest("Secret", "s")];
        let declared = usize::from(kind != "Namespace");
        let mut world = World::new(targets.into_iter().skip(declared)).no_delay();
        world.seen.operation.sync_options = vec!["CreateNamespace=true".into()];
        world.seen.namespace = NamespaceFact::Missing;
        world.seen.managed_namespace_metadata =
            with_metadata.then(ManagedNamespaceMetadata::default);
        assert_eq!(world.run().phase, Succeeded);
        world.result("default").unwrap().hook_phase
    };
    assert_eq!(state("none", false), Running);
    assert_eq!(state("none", true), Succeeded, "its metadata is looked at again");
    assert_eq!(state("Namespace", false), Succeeded, "it is a resource");
}

/// SE-255: that it exists is known before the cache has the object.
#[test]
fn a_created_namespace_is_complete_when_it_exists_se_255() {
    let actions = |fact: NamespaceFact| {
        let mut world =
            World::new([manifest("Secret", "s")]).option("CreateNamespace=true").no_delay();
        world.seen.namespace = NamespaceFact::Missing;
        world.reconcile().unwrap();
        world.reconcile().unwrap();
        let mut seen = world.snapshot();
        let dry_run = world.last.clone().unwrap();
        assert_eq!(verbs(&dry_run), [(Verb::DryRun, "s")]);
        seen.live.clear();
        seen.namespace = fact;
        seen.results = dry_run.results;
        seen.progress =
            SyncProgress { dry_run_done: true, multi_step: Some(true), ..dry_run.progress };
        seen.outcomes.clear();
        let plan = step(&seen, world.now);
        (plan.actions.len(), plan.waiting_for.len())
    };
    assert_eq!(actions(NamespaceFact::Exists), (1, 0), "the Secret is applied");
    assert_eq!(actions(NamespaceFact::Missing).1, 1, "it is awaited");
}
