use std::collections::BTreeMap;

use proptest::prelude::{Just, any, prop, prop_assert, prop_assert_eq, proptest};
use proptest::strategy::Strategy as _;
use serde_json::json;

use super::*;
use crate::application_set::decision::{Decision, NextReconcile, Snapshot};
use crate::application_set::generate::generated::{Collector, is_reverse, keeps_resources};
use crate::application_set::plan::windows::Facts;
use crate::application_set::settings::DecisionSettings;
use crate::application_set::status::stored::StoredApplicationSet;
use crate::desired::inputs::Reads;
use wavegate_engine::wait::WaitFor;

const START: &str = "2026-01-01T00:00:00Z";

fn after(seconds: i64) -> Timestamp {
    let start: Timestamp = START.parse().unwrap();
    start.checked_add(SignedDuration::from_secs(seconds)).unwrap()
}

fn step(env: &str, max_update: Value) -> Value {
    let expressions = json!([{"key": "env", "operator": "In", "values": [env]}]);
    json!({"matchExpressions": expressions, "maxUpdate": max_update})
}

fn set_with(order: &str, steps: &[Value]) -> Value {
    json!({
        "metadata": {"uid": "u", "name": "set"},
        "spec": {"strategy": {
            "type": "RollingSync", "deletionOrder": order, "rollingSync": {"steps": steps},
        }},
    })
}

fn set(order: &str) -> Value {
    set_with(order, &[step("dev", Value::Null), step("prod", Value::Null)])
}

fn app(name: &str, env: &str, terminating: bool) -> Value {
    let mut app = json!({"metadata": {
        "name": name, "uid": format!("uid-{name}"), "resourceVersion": "1", "labels": {"env": env},
        "finalizers": ["resources-finalizer.argocd.argoproj.io"],
        "ownerReferences": [
            {"uid": "other"},
            {"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "name": "set", "uid": "u", "controller": true},
        ],
    }});
    if terminating {
        app["metadata"]["deletionTimestamp"] = START.into();
    }
    app
}

/// From a raw set and raw Applications.
fn stage_at(set: &Value, apps: &[Value], policy: Policy, now: Timestamp) -> DeletionStage {
    stage_with(set, apps, policy, now, &BTreeMap::new())
}

fn stage_with(
    set: &Value,
    apps: &[Value],
    policy: Policy,
    now: Timestamp,
    presence: &BTreeMap<&str, Presence>,
) -> DeletionStage {
    let (strategy, _) = StepStrategy::read(set["spec"].get("strategy"));
    let set_id = Identity::of(set);
    let read = |live: &Value| {
        let leaving = Leaving::read(live, &set_id, &strategy);
        let answer = presence.get(leaving.uid()).cloned();
        leaving.with(answer)
    };
    let owned: Vec<Leaving> = apps.iter().map(read).collect();
    let finalizers: Vec<String> = finalizers_of(set).map(str::to_owned).collect();
    let reverse = is_reverse(set).then_some(&strategy);
    deletion_stage(&Deletion {
        finalizers: &finalizers,
        owned: &owned,
        policy,
        keeps_resources: keeps_resources(set),
        reverse,
        now,
    })
}

fn reverse(set: &Value, apps: &[Value]) -> Reverse {
    match stage_at(set, apps, Policy::Sync, after(30)) {
        DeletionStage::Reverse(reverse) => reverse,
        other => panic!("{other:?}"),
    }
}

fn names(deletes: &[Delete]) -> Vec<&str> {
    deletes.iter().map(|delete| delete.name.as_str()).collect()
}

#[test]
fn steps_go_from_the_last_to_the_first_as_381_as_382() {
    let set = set("reverse");
    assert!(is_reverse(&set), "row 244");
    let (dev, prod, other) =
        (app("dev", "dev", false), app("prod", "prod", false), app("x", "none", false));
    let found = reverse(&set, &[dev.clone(), prod.clone(), other]);
    assert_eq!(names(&found.deletes), ["x"], "without a step first");
    let found = reverse(&set, &[dev.clone(), app("p3", "prod", false), prod.clone()]);
    assert_eq!(names(&found.deletes), ["p3", "prod"], "row 246, by name");
    let found = reverse(&set, &[dev.clone(), app("p2", "prod", true)]);
    let want = Reverse { waits: vec!["p2".to_owned()], ..Reverse::default() };
    assert_eq!(found, want, "row 248: never twice, and the next step waits");
    assert_eq!(names(&reverse(&set, &[dev]).deletes), ["dev"]);
    assert_eq!(stage_at(&set, &[], Policy::Sync, after(0)), DeletionStage::Done);
    for other in [set_with("AllAtOnce", &[step("dev", Value::Null)]), set_with("Reverse", &[])] {
        assert!(!is_reverse(&other), "row 245: {other}");
    }
}

#[test]
fn at_most_max_update_go_at_once_as_381() {
    let apps = |terminating: usize| -> Vec<Value> {
        (0..8).map(|n| app(&format!("a{n}"), "dev", n < terminating)).collect()
    };
    let cases = [
        (json!(null), 0, 8),
        (json!(3), 0, 3),
        (json!(3), 2, 1),
        (json!(3), 3, 0),
        (json!(3), 5, 0),
        (json!(0), 0, 1),
        (json!(0), 1, 0),
        (json!("0%"), 0, 1),
        (json!("25%"), 0, 2),
        (json!("1%"), 0, 1),
    ];
    for (max_update, terminating, want) in cases {
        let set = set_with("Reverse", &[step("dev", max_update.clone())]);
        let found = reverse(&set, &apps(terminating));
        assert_eq!(found.deletes.len(), want, "{max_update}, {terminating} of 8 are going");
        assert_eq!(found.waits.len(), terminating);
    }
}

#[test]
fn an_application_that_takes_long_is_read_and_then_reported_as_383() {
    let set = set("Reverse");
    let apps = [app("dev", "dev", false), app("slow", "prod", true)];
    let at = |now, presence: &[(&'static str, Presence)]| {
        let presence = presence.iter().cloned().collect();
        match stage_with(&set, &apps, Policy::Sync, now, &presence) {
            DeletionStage::Reverse(reverse) => reverse,
            other => panic!("{other:?}"),
        }
    };
    let early = at(after(120), &[]);
    assert_eq!((early.unsure.len(), early.stuck.len()), (0, 0), "row 248");
    let late = at(after(121), &[]);
    assert_eq!(late.unsure, [Unsure { name: "slow".to_owned(), uid: "uid-slow".to_owned() }]);
    assert_eq!((late.deletes.len(), late.stuck.len()), (0, 0));
    let there = at(after(300), &[("uid-slow", Presence::Exists)]);
    assert_eq!((there.deletes.len(), there.unsure.len()), (0, 0), "row 249");
    let want = "is being deleted since 2026-01-01T00:00:00Z, held by the finalizer \
                resources-finalizer.argocd.argoproj.io";
    assert_eq!(there.stuck[0].why(), want);
    let lost = at(after(300), &[("uid-slow", Presence::Unreadable("timeout".to_owned()))]);
    let want = format!("{want}; it cannot be read from the API server");
    assert_eq!(lost.stuck[0].why(), want);
    assert_eq!(lost.deletes, [], "row 249");
}

#[test]
fn orphans_are_left_alone_whatever_the_order_as_169() {
    let mut set = set("Reverse");
    set["metadata"]["finalizers"] = json!(["resources-finalizer.argocd.argoproj.io", "orphan"]);
    let stage = stage_at(&set, &[app("dev", "dev", false)], Policy::Sync, after(0));
    assert_eq!(stage, DeletionStage::Wait(vec!["dev".into()]));
}

#[test]
fn a_policy_without_deletion_sets_applications_free_as_167_as_384() {
    let apps = [app("dev", "dev", false)];
    for set in [set("AllAtOnce"), set("Reverse")] {
        let DeletionStage::Act(plan) = stage_at(&set, &apps, Policy::CreateOnly, after(0)) else {
            panic!()
        };
        let owners = &plan.patches[0].body()["metadata"]["ownerReferences"];
        assert_eq!(*owners, json!([{"uid": "other"}]), "only our own");
        assert_eq!(plan.deletes, []);
    }
    let stage = stage_at(&set("AllAtOnce"), &apps, Policy::Sync, after(0));
    assert_eq!(stage, DeletionStage::Done, "garbage collection does it");
}

/// A cluster of Applications: name, step (the last is no step), whether it is going.
fn fleet() -> impl proptest::strategy::Strategy<Value = (Vec<Option<u64>>, Vec<(usize, bool)>)> {
    let limits = proptest::collection::vec(proptest::option::of(0..4_u64), 1..4);
    limits.prop_flat_map(|limits| {
        let steps = 0..limits.len() + 1;
        (Just(limits), proptest::collection::vec((steps, proptest::bool::weighted(0.1)), 0..14))
    })
}

proptest! {
    /// AS-381, AS-382: never a step early, never above the limit, always an end.
    #[test]
    fn a_reverse_deletion_keeps_order_and_limit_and_ends(
        (limits, members) in fleet(),
        vanishing in proptest::collection::vec(any::<prop::sample::Index>(), 64),
    ) {
        let steps: Vec<Value> = limits
            .iter()
            .enumerate()
            .map(|(at, limit)| step(&format!("env-{at}"), json!(limit)))
            .collect();
        let set = set_with("Reverse", &steps);
        let mut apps: BTreeMap<String, Value> = members
            .iter()
            .enumerate()
            .map(|(at, (step, going))| {
                let name = format!("app-{:02}", (at * 7) % 16);
                (name.clone(), app(&name, &format!("env-{step}"), *going))
            })
            .collect();
        let step_of = |app: &Value| {
            let env = app["metadata"]["labels"]["env"].as_str().unwrap();
            let step: usize = env.strip_prefix("env-").unwrap().parse().unwrap();
            (step < limits.len()).then_some(step)
        };
        let place = |app: &Value| step_of(app).unwrap_or(usize::MAX);
        let is_going = |app: &Value| app["metadata"]["deletionTimestamp"].is_string();
        let total = apps.len();
        let mut vanishing = vanishing.iter();
        for round in 0.. {
            prop_assert!(round <= 2 * total + 1, "no end: {apps:?}");
            let listed: Vec<Value> = apps.values().cloned().collect();
            let found = match stage_at(&set, &listed, Policy::Sync, after(30)) {
                DeletionStage::Done => {
                    prop_assert!(apps.is_empty(), "the finalizer goes last: {apps:?}");
                    break;
                }
                DeletionStage::Reverse(found) => found,
                other => panic!("{other:?}"),
            };
            let last = apps.values().map(place).max().unwrap();
            let mut sorted = names(&found.deletes);
            sorted.sort_unstable();
            prop_assert_eq!(names(&found.deletes), sorted);
            for name in names(&found.deletes) {
                let app = &apps[name];
                prop_assert_eq!(place(app), last, "{} is early", name);
                prop_assert!(!is_going(app), "{} is deleted twice", name);
            }
            let of_step = apps.values().filter(|app| place(app) == last && is_going(app)).count();
            let limit = limits.get(last).copied().flatten().map_or(usize::MAX, |n| n.max(1) as usize);
            prop_assert!(found.deletes.is_empty() || of_step + found.deletes.len() <= limit);
            for delete in &found.deletes {
                apps.get_mut(&delete.name).unwrap()["metadata"]["deletionTimestamp"] = START.into();
            }
            // One of those that are going vanishes.
            let going: Vec<String> =
                apps.iter().filter(|(_, app)| is_going(app)).map(|(name, _)| name.clone()).collect();
            prop_assert!(!going.is_empty(), "nothing happens any more: {apps:?}");
            let at = vanishing.next().map_or(0, |index| index.index(going.len()));
            apps.remove(&going[at]);
        }
    }
}

/// AS-383: the set names the first Application that is stuck, and is free of the error once none is.
#[test]
fn a_deletion_that_is_stuck_is_an_error_of_the_set_as_383() {
    let mut set = set("Reverse");
    set["metadata"]["deletionTimestamp"] = START.into();
    set["metadata"]["finalizers"] = json!(["resources-finalizer.argocd.argoproj.io"]);
    let settings = DecisionSettings::default();
    let decide = |set: &Value, stuck: usize, now: Timestamp| {
        let generated =
            Collector::new(set, &settings).finish(set, &settings, Reads::default(), None);
        let strategy = &generated.strategy;
        let leaving: Vec<Leaving> = (0..stuck)
            .map(|number| app(&format!("p{number}"), "prod", true))
            .map(|app| Leaving::read(&app, &Identity::of(set), strategy))
            .map(|leaving| leaving.with(Some(Presence::Exists)))
            .collect();
        let (projects, set) = (BTreeMap::new(), StoredApplicationSet::read(set));
        let windows = Facts { projects: &projects, clusters: &[] };
        let first = Snapshot::first(&set, &generated, &settings, windows, now);
        delete_set::delete(&Snapshot { leaving: &leaving, ..first })
    };
    let error = |decision: &Decision| {
        let status = decision.status.as_ref().map(|status| status.to_json())?;
        let error =
            status["conditions"].as_array()?.iter().find(|it| it["type"] == "ErrorOccurred");
        error.map(|error| (error["status"].clone(), error["message"].clone()))
    };
    let one = "application p0 is being deleted since 2026-01-01T00:00:00Z, held by the finalizer \
               resources-finalizer.argocd.argoproj.io";
    for (stuck, want) in [(1, one.to_owned()), (3, format!("{one} (and 2 more)"))] {
        let decision = decide(&set, stuck, after(300));
        assert_eq!(decision.stuck.len(), stuck);
        assert_eq!(error(&decision), Some((json!("True"), json!(want))));
        assert_eq!(decision.events.len(), 1);
        let mut later = set.clone();
        later["status"] = decision.status.unwrap().to_json();
        let early = decide(&later, 1, after(30));
        assert_eq!(error(&early).map(|(status, _)| status), Some(json!("False")));
    }
    assert!(decide(&set, 1, after(30)).status.is_none(), "it had none");
}

/// What holds an Application is named, with its own error, and no more than people read.
#[test]
fn a_deletion_names_what_holds_it() {
    let going = |finalizers: &[&str], conditions: Value| {
        let mut live = app("a", "dev", true);
        live["metadata"]["finalizers"] = json!(finalizers);
        live["status"]["conditions"] = conditions;
        Going::read(&live).unwrap().to_string()
    };
    let since = "is being deleted since 2026-01-01T00:00:00Z, held by";
    let none = json!([]);
    assert_eq!(going(&[], none.clone()), format!("{since} no finalizer"));
    assert_eq!(going(&["f"], none.clone()), format!("{since} the finalizer f"));
    assert_eq!(going(&["f", "g"], none.clone()), format!("{since} the finalizers f, g"));
    let many: Vec<String> = (0..FINALIZERS_SHOWN + 2).map(|number| format!("f{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let all = going(&many[..FINALIZERS_SHOWN], none.clone());
    assert!(!all.contains("more"), "{all}");
    let more = going(&many, none);
    assert!(more.ends_with(" and 2 more") && !more.contains(many[FINALIZERS_SHOWN]), "{more}");
    let condition = |kind: &str| json!({"type": kind, "message": kind});
    let (error, warning) = (condition("DeletionError"), condition("DeletionWarning"));
    for (conditions, want) in [
        (json!([warning, error]), ": DeletionError"),
        (json!([warning]), ": DeletionWarning"),
        (json!([condition("SyncError")]), " the finalizer f"),
    ] {
        let found = going(&["f"], conditions);
        assert!(found.ends_with(want), "{found}");
    }
    assert_eq!(Going::read(&app("a", "dev", false)), None);
}

/// AS-167: garbage collection removes the reference to a set that is gone; what is left with the
/// Namespace alone was one of its Applications.
#[test]
fn an_application_that_was_released_has_only_the_namespace_left_as_167() {
    let set = Identity { namespace: "argocd".to_owned(), ..Identity::of(&set("Reverse")) };
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "name": "argocd", "uid": "n"});
    let of_set = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
        "name": "set", "uid": "u", "controller": true});
    let team =
        json!({"apiVersion": "v1", "kind": "Team", "name": "t", "uid": "t", "controller": true});
    let changed = |field: &str| {
        let mut other = namespace.clone();
        other[field] = "other".into();
        other
    };
    for (owners, want) in [
        (json!([namespace]), true),
        (json!([of_set, namespace]), false),
        (json!([team, namespace]), false),
        (json!([of_set]), false),
        (json!([]), false),
        (json!([changed("name")]), false),
        (json!([changed("kind")]), false),
        (json!([changed("apiVersion")]), false),
    ] {
        let mut live = app("a", "dev", false);
        live["metadata"]["ownerReferences"] = owners.clone();
        assert_eq!(Leaving::is_released(&live, &set), want, "{owners}");
    }
}

/// AS-160, AS-167: what protects the resources of an Application is removed before the set is gone,
/// also what an earlier policy has left; nothing else is written then.
#[test]
fn what_holds_an_application_is_removed_before_its_set_is_gone_as_160() {
    let keeping = |order: &str| {
        let mut set = set(order);
        set["spec"]["syncPolicy"] = json!({"preserveResourcesOnDeletion": true});
        set
    };
    let held = || app("a", "dev", false);
    let mut free = held();
    free["metadata"]["finalizers"] = json!(["other"]);
    let acts = |stage: DeletionStage| match stage {
        DeletionStage::Act(plan) => {
            assert!(plan.deletes.is_empty() && plan.creates.is_empty());
            Some(
                plan.patches
                    .iter()
                    .map(|patch| (patch.name.clone(), patch.body()))
                    .collect::<Vec<_>>(),
            )
        }
        _ => None,
    };
    for order in ["AllAtOnce", "Reverse"] {
        let found =
            acts(stage_at(&keeping(order), &[held(), free.clone()], Policy::Sync, after(0)));
        let found = found.unwrap_or_default();
        assert_eq!(found.len(), 1, "{order}");
        assert_eq!(found[0].1["metadata"]["finalizers"], json!([]), "{order}");
        assert_eq!(found[0].1["metadata"]["resourceVersion"], "1", "{order}");
        let none = stage_at(&keeping(order), &[free.clone()], Policy::Sync, after(0));
        assert_eq!(acts(none), None, "{order}");
        let deleted = stage_at(&set(order), &[held()], Policy::Sync, after(0));
        assert_eq!(acts(deleted), None, "{order}: its resources are deleted with it");
    }
    let mut guarded = held();
    guarded["metadata"]["ownerReferences"][0] =
        json!({"apiVersion": "v1", "kind": "Namespace", "name": "", "uid": "n"});
    let found = acts(stage_at(&set("AllAtOnce"), &[guarded], Policy::Sync, after(0))).unwrap();
    let owners = found[0].1["metadata"]["ownerReferences"].as_array().unwrap();
    assert_eq!((owners.len(), &owners[0]["uid"]), (1, &json!("u")), "garbage collection goes on");
}

/// Each stage of the deletion of a set, as one decision: what is written, what is waited for, and
/// when it is looked at again.
#[test]
fn each_stage_of_a_deletion_is_one_decision_as_505() {
    const FINALIZER: &str = "resources-finalizer.argocd.argoproj.io";
    let wait = NextReconcile::After(WaitFor::SetDeletion, std::time::Duration::from_secs(10));
    let settings = DecisionSettings::default();
    let decide = |order: &str, finalizers: &[&str], spec: Value, live: &[Value]| {
        let mut set = set(order);
        set["metadata"]["deletionTimestamp"] = START.into();
        set["metadata"]["finalizers"] = json!(finalizers);
        json_patch::merge(&mut set["spec"], &spec);
        let generated =
            Collector::new(&set, &settings).finish(&set, &settings, Reads::default(), None);
        let read = |live: &Value| Leaving::read(live, &Identity::of(&set), &generated.strategy);
        let leaving: Vec<Leaving> = live.iter().map(read).collect();
        let (projects, set) = (BTreeMap::new(), StoredApplicationSet::read(&set));
        let windows = Facts { projects: &projects, clusters: &[] };
        let first = Snapshot::first(&set, &generated, &settings, windows, after(30));
        delete_set::delete(&Snapshot { leaving: &leaving, ..first })
    };
    let one = [app("a", "dev", false)];
    let keeps = json!({"syncPolicy": {"preserveResourcesOnDeletion": true}});
    let misspelt = json!({"strategy": {"deletionOrdr": "Reverse"}});

    let done = decide("AllAtOnce", &["other", FINALIZER], json!({}), &one);
    assert_eq!(done.finalizers, Some(vec!["other".to_owned()]), "garbage collection does the rest");
    assert_eq!(done.next, NextReconcile::Gone);
    let acts = decide("AllAtOnce", &[FINALIZER], keeps.clone(), &one);
    assert_eq!((acts.writes.patches.len(), acts.next, acts.finalizers), (1, wait, None));
    let orphans = decide("Reverse", &[FINALIZER, "orphan"], json!({}), &one);
    assert_eq!((orphans.leaving, orphans.next), (vec!["a".to_owned()], wait));
    let reverse = decide("Reverse", &[FINALIZER], json!({}), &one);
    assert_eq!((reverse.writes.deletes.len(), reverse.next), (1, wait));
    // AS-380: in which order is not known.
    let unclear = decide("Reverse", &[FINALIZER], misspelt.clone(), &one);
    let status = unclear.status.unwrap();
    assert!(status.has("ErrorOccurred", "True") && unclear.writes == WritePlan::default());
    assert_eq!(unclear.events.len(), 1);
    // Without our finalizer, only what the set keeps is protected.
    let free = decide("AllAtOnce", &["other"], keeps, &one);
    assert_eq!((free.writes.patches.len(), free.next), (1, wait));
    let rest = decide("AllAtOnce", &["other"], json!({}), &one);
    assert_eq!((rest.writes, rest.next), (WritePlan::default(), NextReconcile::Gone));
    let none = decide("AllAtOnce", &[], misspelt, &[]);
    assert_eq!((none.next, none.status), (NextReconcile::Gone, None));
}
