//! What users write in requests and options, and read in messages.

use jiff::SignedDuration;

use super::super::*;
use super::world::manifest;
use wavegate_api::operation::SyncOperationResource;
use wavegate_api::resource_key::ResourceKey;

/// SE-262: the message names the first hook, and the details are of the same.
#[test]
fn the_details_of_a_message_are_of_what_it_names_se_262() {
    let wait = |reason, detail: &str| Waiting {
        key: ResourceKey::new("", "Job", "n", detail),
        reason,
        detail: detail.to_owned(),
        since: None,
        until: None,
    };
    let shown = |waiting_for: Vec<Waiting>| {
        SyncPlan { message: "m".into(), waiting_for, ..SyncPlan::default() }.detailed_message()
    };
    let (web, check) = (wait(WaitReason::Health, "web"), wait(WaitReason::HookCompletion, "check"));
    assert_eq!(shown(vec![web.clone(), check.clone()]), "m (check)");
    assert_eq!(shown(vec![check, web.clone()]), "m (check)");
    assert_eq!(shown(vec![web.clone(), wait(WaitReason::Deletion, "old")]), "m (web)");
    let mut since = web;
    since.since = Some("2026-01-01T00:00:00Z".parse().unwrap());
    assert_eq!(shown(vec![since]), "m (web, since 2026-01-01T00:00:00Z)");
    assert_eq!(shown(vec![wait(WaitReason::Health, "")]), "m");
    assert_eq!(shown(vec![]), "m");
}

/// SE-044: a request for some resources may name a namespace.
#[test]
fn some_resources_are_selected_by_all_that_is_named_se_044() {
    let selected = |group: &str, kind: &str, name: &str, namespace: &str| {
        let [group, kind, name, namespace] = [group, kind, name, namespace].map(str::to_owned);
        let wanted = SyncOperationResource {
            group,
            kind,
            name,
            namespace,
            ..SyncOperationResource::default()
        };
        let operation =
            ResolvedOperation { resources: vec![wanted], ..ResolvedOperation::default() };
        let key = ResourceKey::new("apps", "Deployment", "n", "web");
        (operation.selects(&key), operation.runs_hooks())
    };
    assert_eq!(selected("apps", "Deployment", "web", "n"), (true, false));
    assert_eq!(selected("apps", "Deployment", "web", ""), (true, false));
    assert_eq!(selected("apps", "Deployment", "web", "m"), (false, false));
    assert_eq!(selected("", "Deployment", "web", "n"), (false, false));
    assert_eq!(selected("apps", "StatefulSet", "web", "n"), (false, false));
    assert_eq!(selected("apps", "Deployment", "api", "n"), (false, false));
}

/// SE-216: kinds are applied by their position, all others after them by name.
#[test]
fn other_kinds_come_after_all_known_ones_se_216() {
    assert_eq!((kind_rank("Namespace"), kind_rank("NetworkPolicy")), (1, 2));
    assert!(kind_rank("APIService") < kind_rank("Widget"));
    assert_eq!(kind_rank("Widget"), kind_rank("Gadget"));
    let order = apply_order(&[manifest("Widget", "a").0, manifest("APIService", "z").0]);
    assert_eq!(order.iter().map(|slot| &*slot.name).collect::<Vec<_>>(), ["z", "a"]);
}

/// SE-604: what identifies an operation, and the objects that it has stamped.
#[test]
fn stamps_belong_to_one_application_se_604() {
    let at = jiff::Timestamp::from_second(5).unwrap();
    assert_eq!(operation_id("uid", at, "sync: v1.2/é-long-words"), "uid.5-syncv12longw");
    assert_ne!(
        operation_id("uid", at, "a"),
        operation_id("uid", at + SignedDuration::from_secs(1), "a")
    );
    for (stamp, uid, want) in [
        ("uid.5-a/0/sync", "uid", true),
        ("uid", "uid", false),
        ("uid-2.5-a/0/sync", "uid", false),
        ("other.5-a/0/sync", "uid", false),
        (".5-a/0/sync", "", false),
    ] {
        assert_eq!(is_stamp_of(stamp, uid), want, "{stamp} of {uid:?}");
    }
    let definition = manifest("CustomResourceDefinition", "c").defines("x.io", "Widget").0;
    assert_eq!(defines_kind(&definition), Some(("x.io".to_owned(), "Widget".to_owned())));
    assert_eq!(defines_kind(&manifest("ConfigMap", "c").0), None);
}

/// SE-302: what has no effect is named, with what was probably meant.
#[test]
fn options_that_have_no_effect_are_named_se_302() {
    for (item, is_unknown, near) in [
        ("Prune=false", false, Some("Prune=false")),
        ("Prune=confirm", false, Some("Prune=confirm")),
        ("Delete=confirm", false, None),
        ("Replace=confirm", true, Some("Replace=true")),
        (" CreateNamespace=true ", false, Some("CreateNamespace=true")),
        ("createnamespace=TRUE", true, Some("CreateNamespace=true")),
        ("PrunePropagationPolicy=orphan", false, Some("PrunePropagationPolicy=orphan")),
        ("PrunePropagationPolicy=true", true, Some("PrunePropagationPolicy=foreground")),
        ("Validate", true, Some("Validate=true")),
        ("Something=true", true, None),
    ] {
        assert_eq!(is_unknown_option(item), is_unknown, "{item}");
        let problem = problem_of_application(item);
        assert_eq!(problem, is_unknown.then(|| format!("unknown sync option {item}")), "{item}");
        if item != "Delete=confirm" {
            assert_eq!(near_option(item).as_deref(), near, "{item}");
        }
    }
    let force = problem_of_application("Force=true").unwrap();
    assert!(force.contains("on resources only"), "SE-320: {force}");
    assert_eq!(problem_of_application("Force=false"), None);
}
