//! When a set gets the finalizer of its controller: where something must be done before it is gone.

use super::*;
use crate::application_set::decision::{NextReconcile, Snapshot};
use crate::application_set::plan::windows::Facts;
use crate::application_set::reconcile;
use crate::application_set::status::stored::StoredApplicationSet;
use wavegate_api::annotations::RESOURCES_FINALIZER;

/// AS-160, AS-167, AS-380: an order of deletion and a policy that deletes nothing need the controller
/// when the set is deleted; other sets are left to the garbage collection.
#[test]
fn a_set_has_a_finalizer_for_what_must_precede_its_end_as_380() {
    let steps = json!({"steps": [{"matchExpressions": []}]});
    let rolling = json!({"type": "RollingSync", "rollingSync": steps});
    let reverse = json!({
        "type": "RollingSync", "rollingSync": steps, "deletionOrder": "Reverse",
    });
    let keeping = json!({"preserveResourcesOnDeletion": true});
    for (name, strategy, sync_policy, policy, enabled, want) in [
        ("nothing of it", json!(null), json!(null), Policy::Sync, true, false),
        ("steps alone", rolling.clone(), json!(null), Policy::Sync, true, false),
        ("in reverse", reverse.clone(), json!(null), Policy::Sync, true, true),
        ("which is disabled", reverse, json!(null), Policy::Sync, false, false),
        ("it creates only", json!(null), json!(null), Policy::CreateOnly, true, true),
        ("it creates and deletes", json!(null), json!(null), Policy::CreateDelete, true, false),
        ("kept, as all were written", json!(null), keeping, Policy::Sync, true, false),
    ] {
        let decide = |finalizers: Value| {
            let mut set = set();
            set["metadata"]["finalizers"] = finalizers;
            set["spec"]["strategy"] = strategy.clone();
            set["spec"]["syncPolicy"] = sync_policy.clone();
            let settings =
                DecisionSettings { policy, progressive_syncs: enabled, ..Default::default() };
            let wanted = super::generated("a", spec());
            let made = generated_by(&set, &settings, std::slice::from_ref(&wanted));
            let id = Identity::of(&set);
            let rules = super::Rules { policy, ..super::Rules::of(&id, &made) };
            let existing = [Existing::read(&live(&wanted), Some(&wanted), &rules)];
            let (projects, set) = (BTreeMap::new(), StoredApplicationSet::read(&set));
            let windows = Facts { projects: &projects, clusters: &[] };
            let now = jiff::Timestamp::from_second(1_700_000_000).unwrap();
            let first = Snapshot::first(&set, &made, &settings, windows, now);
            reconcile::reconcile(&Snapshot { existing: &existing, ..first })
        };
        let decision = decide(json!(["other"]));
        let added = vec!["other".to_owned(), RESOURCES_FINALIZER.to_owned()];
        assert_eq!(decision.finalizers, want.then_some(added), "{name}");
        assert_eq!(decision.next == NextReconcile::Again, want, "{name}: it is read again");
        assert_eq!(decide(json!([RESOURCES_FINALIZER])).finalizers, None, "{name}: it has it");
    }
}
