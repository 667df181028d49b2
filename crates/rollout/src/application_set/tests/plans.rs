//! What is written of each Application, by its owner, the policy, and what else changes.

use std::sync::Arc;

use super::*;
use crate::application_set::plan::owner::{self, ApplicationOwner};
use crate::application_set::plan::ownership_transfer::Other;
use crate::rollout::listed::{CompletionRecord, RecordKind};
use crate::rollout::run::started::{Started, Target};
use wavegate_api::HealthStatus;
use wavegate_api::annotations::{ROLLOUT, RUN};

/// The set in a namespace whose UID is known.
fn identity() -> Identity {
    Identity {
        namespace: "argocd".to_owned(),
        namespace_uid: Some("ns".to_owned()),
        ..Identity::of(&set())
    }
}

fn namespace(name: &str, uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "name": name, "uid": uid})
}

fn owned_by(name: &str, owners: Value) -> Value {
    let mut live = live(&generated(name, spec()));
    live["metadata"]["ownerReferences"] = owners;
    live
}

fn of_set() -> Value {
    json!(owner_reference(&Identity::of(&set())))
}

/// What may be given besides the Applications.
#[derive(Clone, Copy, Default)]
struct More<'a> {
    invalid: Option<&'a BTreeMap<String, String>>,
    operations: Option<&'a BTreeMap<String, OperationPolicy>>,
    records: Option<&'a BTreeMap<String, CompletionRecord>>,
    refreshes: &'a [String],
    others: &'a [Other],
}

/// What a policy plans for Applications, of which these are generated.
fn planned(names: &[&str], existing: &[Value], policy: Policy, more: More<'_>) -> WritePlan {
    let id = identity();
    let wanted: Vec<Value> = names.iter().map(|name| generated(name, spec())).collect();
    let settings = DecisionSettings { policy, ..DecisionSettings::default() };
    let made = generated_by(&set(), &settings, &wanted);
    let rules = Rules { policy, ..Rules::of(&id, &made) };
    let read = |live: &Value| {
        let wanted = made.get(crate::desired::name_of(live));
        Existing::read(live, wanted.map(|wanted| wanted.written(false)).as_ref(), &rules)
    };
    let existing: Vec<Existing> = existing.iter().map(read).collect();
    plan_writes(&PlanInput {
        set: &id,
        generated: &made.applications,
        invalid: more.invalid.unwrap_or(&BTreeMap::new()),
        existing: &existing,
        keeps_resources: false,
        clusters: &[],
        in_rollout: false,
        policy,
        operations: more.operations.unwrap_or(&BTreeMap::new()),
        records: more.records.unwrap_or(&BTreeMap::new()),
        refreshes: more.refreshes,
        others: more.others,
    })
}

fn uids(patch: &Patch) -> Vec<String> {
    let body = patch.body();
    let owners = body["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    owners.iter().map(|one| one["uid"].as_str().unwrap_or_default().to_owned()).collect()
}

/// AS-167: an Application that must outlive its set has the Namespace as another owner, whatever else
/// is written of it; with a policy that deletes, it has not.
#[test]
fn an_application_that_stays_is_protected_from_garbage_collection_as_167() {
    let bare = || json!([of_set()]);
    let guarded = || json!([of_set(), namespace("argocd", "ns")]);
    let stale = || json!([of_set(), namespace("argocd", "before")]);
    let other = || json!([of_set(), namespace("other", "x")]);
    for (name, policy, names, owners, want) in [
        ("not protected", Policy::CreateUpdate, &["a"][..], bare(), Some(&["u", "ns"][..])),
        ("protected", Policy::CreateUpdate, &["a"], guarded(), None),
        ("of a former Namespace", Policy::CreateUpdate, &["a"], stale(), Some(&["u", "ns"])),
        ("beside another one", Policy::CreateUpdate, &["a"], other(), Some(&["u", "x", "ns"])),
        ("without updates", Policy::CreateOnly, &["a"], bare(), Some(&["u", "ns"])),
        ("not generated any more", Policy::CreateUpdate, &[], bare(), Some(&["u", "ns"])),
        ("nor updated", Policy::CreateOnly, &[], bare(), Some(&["u", "ns"])),
        ("protected for nothing", Policy::Sync, &["a"], guarded(), Some(&["u"])),
        ("without updates", Policy::CreateDelete, &["a"], guarded(), Some(&["u"])),
        ("as it is to be", Policy::Sync, &["a"], bare(), None),
    ] {
        let plan = planned(names, &[owned_by("a", owners)], policy, More::default());
        let found: Vec<Vec<String>> = plan.patches.iter().map(uids).collect();
        let want: Vec<Vec<String>> =
            want.iter().map(|want| want.iter().map(|&one| one.to_owned()).collect()).collect();
        assert_eq!(found, want, "{name}");
        for patch in &plan.patches {
            assert!(patch.changes_spec && !patch.starts && !patch.only_records, "{name}");
        }
        assert!(plan.deletes.is_empty() && plan.refused.is_empty(), "{name}");
        // An error of the set keeps all other writes back, and not the protection.
        let is_kept = !policy.deletes() && !want.is_empty();
        assert_eq!(plan.guards.len(), usize::from(is_kept), "{name}");
    }
    // One of another set, and one that is going, is not written at all.
    let mut going = owned_by("a", bare());
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let mut foreign = of_set();
    foreign["uid"] = "another".into();
    for live in [going, owned_by("a", json!([foreign])), owned_by("a", json!([]))] {
        let plan = planned(&[], std::slice::from_ref(&live), Policy::CreateUpdate, More::default());
        assert_eq!(plan, WritePlan::default(), "{live}");
    }
    // A new one has both owners at once.
    for (policy, want) in [(Policy::CreateOnly, 2), (Policy::Sync, 1)] {
        let plan = planned(&["a"], &[], policy, More::default());
        let created: Value = serde_json::from_str(&plan.creates[0].json).unwrap();
        let owners = created["metadata"]["ownerReferences"].as_array().unwrap();
        assert_eq!((owners.len(), &owners[0]["uid"]), (want, &json!("u")));
    }
}

/// AS-167, AS-390: one that is no longer generated is written for its protection alone; what is behind
/// is asked to look with that write, and by none of its own.
#[test]
fn what_is_no_longer_generated_is_written_only_to_protect_it_as_167() {
    let refreshes = ["a".to_owned()];
    let bare = || owned_by("a", json!([of_set()]));
    let guarded = || owned_by("a", json!([of_set(), namespace("argocd", "ns")]));
    let foreign = || owned_by("a", json!([]));
    for (name, policy, live, want) in [
        ("to be protected", Policy::CreateUpdate, bare(), Some(true)),
        ("protected", Policy::CreateUpdate, guarded(), None),
        ("without an owner", Policy::CreateUpdate, foreign(), None),
        ("to be deleted", Policy::Sync, bare(), None),
    ] {
        let more = More { refreshes: &refreshes, ..More::default() };
        let plan = planned(&[], &[live], policy, more);
        let found: Vec<bool> = plan.patches.iter().map(|patch| patch.refreshes).collect();
        assert_eq!(found, Vec::from_iter(want), "{name}");
        for patch in &plan.patches {
            let annotations = &patch.body()["metadata"]["annotations"];
            assert_eq!(annotations["argocd.argoproj.io/refresh"], "normal", "{name}");
        }
    }
}

/// One that is invalid keeps its protection; nothing else of it is written.
#[test]
fn an_invalid_application_is_only_protected() {
    let invalid = BTreeMap::from([("a".to_owned(), "no".to_owned())]);
    let mut live = owned_by("a", json!([of_set()]));
    live["spec"]["project"] = "other".into();
    for (policy, want) in [(Policy::CreateUpdate, 1), (Policy::Sync, 0)] {
        let plan = planned(
            &["a", "b"],
            &[live.clone()],
            policy,
            More { invalid: Some(&invalid), ..More::default() },
        );
        assert_eq!(plan.patches.len(), want, "{policy:?}");
        assert!(plan.patches.iter().all(|patch| patch.body().get("spec").is_none()));
        let created: Vec<&str> = plan.creates.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(created, ["b"], "what is valid is created all the same");
    }
    let plan =
        planned(&["a"], &[], Policy::Sync, More { invalid: Some(&invalid), ..More::default() });
    assert_eq!(plan, WritePlan::default());
}

/// C16: an Application that another set generates is not deleted; it waits for that set, which is
/// named, with the others that this one takes.
#[test]
fn what_another_set_generates_is_left_to_it() {
    let other = |name: &str, names: &[&str]| {
        let all: Vec<Value> = names.iter().map(|name| generated(name, spec())).collect();
        let made = generated_by(&set(), &DecisionSettings::default(), &all);
        let [name, uid] = [name, name].map(Box::from);
        let generated = Some(Arc::new(made));
        Other { name, uid, generated, is_current: true, failing_since: None }
    };
    let existing = ["a", "b", "c", "d"].map(|name| owned_by(name, json!([of_set()])));
    let others = [other("one", &["b", "d"]), other("two", &["a"])];
    let plan = |names: &[&str], policy| {
        planned(names, &existing, policy, More { others: &others, ..More::default() })
    };
    // Others are to be deleted: they do not wait for it.
    let some = plan(&[], Policy::Sync);
    let deleted: Vec<&str> = some.deletes.iter().map(|one| one.name.as_str()).collect();
    assert_eq!((deleted, &some.held), (vec!["c"], &None));
    let waits = plan(&["a", "c"], Policy::Sync).held.unwrap();
    assert_eq!(waits.applications, ["b", "d"]);
    assert_eq!(waits.until, "ApplicationSet one takes over what it generates");
    let both = plan(&["c"], Policy::Sync).held.unwrap();
    assert_eq!(both.applications, ["a"], "of the first one that is left");
    assert_eq!(both.until, "ApplicationSet two takes over what it generates");
    assert_eq!(plan(&["c"], Policy::CreateUpdate).held, None, "they stay anyway");
    assert_eq!(plan(&["a", "b", "c", "d"], Policy::Sync).held, None);
}

/// One patch has all that changes; what is based on an observation names the version of that.
#[test]
fn a_patch_has_all_that_changes_of_an_application() {
    let record = CompletionRecord {
        kind: RecordKind::Healthy,
        target_revisions: vec!["r".to_owned()],
        spec: "s".to_owned(),
        step: Some(0),
        since: "2026-01-02T03:04:05Z".parse().unwrap(),
    };
    let started = Started {
        run: "run".to_owned(),
        target: Target::default(),
        at: "2026-01-02T12:00:00Z".parse().unwrap(),
        before: HealthStatus::Healthy,
        good: vec!["r1".to_owned()],
        base: "before".to_owned(),
        goes_back: false,
    };
    let same = owned_by("a", json!([of_set()]));
    let mut differs = same.clone();
    differs["spec"]["project"] = "other".into();
    let operation = OperationPolicy {
        operation: json!({"sync": {}}),
        record: Some(record.clone()),
        started: Some(started),
        is_taken_up: false,
    };
    let operations = BTreeMap::from([("a".to_owned(), operation)]);
    let records = BTreeMap::from([("a".to_owned(), record)]);
    let asked = ["a".to_owned()];
    // (starts, changes the spec, only a record, refreshes)
    type Want = Option<(bool, bool, bool, bool)>;
    let cases: [(&str, &Value, bool, bool, bool, Want); 8] = [
        ("nothing", &same, false, false, false, None),
        ("a record", &same, false, true, false, Some((false, false, true, false))),
        ("a refresh", &same, false, false, true, Some((false, false, false, true))),
        ("both", &same, false, true, true, Some((false, false, false, true))),
        ("a spec", &differs, false, false, false, Some((false, true, false, false))),
        ("a spec and a record", &differs, false, true, false, Some((false, true, false, false))),
        ("a start", &same, true, true, false, Some((true, false, false, false))),
        ("all of it", &differs, true, true, true, Some((true, true, false, true))),
    ];
    for (name, live, starts, has_record, refreshes, want) in cases {
        let more = More {
            operations: starts.then_some(&operations),
            records: has_record.then_some(&records),
            refreshes: if refreshes { &asked } else { &[] },
            ..More::default()
        };
        let plan = planned(&["a"], std::slice::from_ref(live), Policy::Sync, more);
        let patch = plan.patches.first();
        let found =
            patch.map(|one| (one.starts, one.changes_spec, one.only_records, one.refreshes));
        assert_eq!(found, want, "{name}");
        let Some(patch) = patch else { continue };
        let body = patch.body();
        let annotations = &body["metadata"]["annotations"];
        assert_eq!(annotations.get(ROLLOUT).is_some(), has_record, "{name}");
        assert_eq!(annotations.get(RUN).is_some(), starts, "{name}");
        assert_eq!(annotations.get(REFRESH).is_some(), refreshes, "{name}");
        assert_eq!(body["metadata"].get("resourceVersion").is_some(), starts, "{name}");
        assert_eq!(body.get("operation").is_some(), starts, "{name}");
        assert_eq!(body["spec"]["project"] == "default", patch.changes_spec, "{name}");
        assert!(!patch.is_taken_up, "{name}");
    }
}

/// A long list of names is cut to what people read; the count has all, and one is always named.
#[test]
fn deletions_that_wait_are_named_as_far_as_people_read() {
    let held = |names: &[String]| {
        Held { applications: names.to_vec(), until: "it is fixed".to_owned() }.to_string()
    };
    let names = |count: usize, length: usize| -> Vec<String> {
        (0..count).map(|number| format!("{number}{}", "x".repeat(length - 1))).collect()
    };
    let one = "1 application waits to be deleted until it is fixed: 0";
    assert_eq!(held(&names(1, 1)), one);
    let two = "2 applications wait to be deleted until it is fixed: 0, 1";
    assert_eq!(held(&names(2, 1)), two);
    assert!(held(&names(5, 1)).ends_with(": 0, 1, 2, 3, 4"));
    assert!(held(&names(6, 1)).ends_with(": 0, 1, 2, 3, 4 and 1 more"));
    // Of 200 characters: two of 100, and the comma between them is not counted.
    assert!(!held(&names(2, 100)).contains("more"));
    assert!(held(&names(2, 101)).ends_with(" and 1 more"));
    assert!(held(&names(3, 99)).ends_with(" and 1 more"));
    assert!(held(&names(1, 250)).ends_with('x'), "the first one is named however long it is");
}

/// AS-158, AS-159: only the controlling owner counts, by its UID and its kind.
#[test]
fn an_application_is_of_the_set_that_controls_it_as_158() {
    let (set, id) = (set(), identity());
    let with = |field: &str, value: Value| {
        let mut owner = of_set();
        owner[field] = value;
        json!([namespace("argocd", "ns"), owner])
    };
    for (owners, want, name) in [
        (json!([of_set()]), ApplicationOwner::Set, Some("set")),
        (json!([]), ApplicationOwner::None, None),
        (with("controller", json!(false)), ApplicationOwner::None, None),
        (
            with("uid", json!("x")),
            ApplicationOwner::Other("ApplicationSet set".into()),
            Some("set"),
        ),
        (with("kind", json!("Team")), ApplicationOwner::Other("Team set".into()), None),
        (with("kind", json!("")), ApplicationOwner::Other("? set".into()), None),
        (with("name", json!("")), ApplicationOwner::Set, None),
        (
            with("apiVersion", json!("other/v1")),
            ApplicationOwner::Other("ApplicationSet set".into()),
            Some("set"),
        ),
    ] {
        let live = owned_by("a", owners.clone());
        let none = generated_by(&set, &DecisionSettings::default(), &[]);
        let existing = Existing::read(&live, None, &Rules::of(&id, &none));
        assert_eq!(existing.owner, want, "{owners}");
        assert_eq!(existing.is_owned(), want == ApplicationOwner::Set, "{owners}");
        assert_eq!(owner::is_owned(&live, &set), want == ApplicationOwner::Set, "{owners}");
        assert_eq!(owner::set_of(&live), name, "{owners}");
    }
}

/// What is kept of an Application is read from it once: whether it is going, held, or running.
#[test]
fn an_existing_application_is_read_with_what_holds_it() {
    const FINALIZER: &str = "resources-finalizer.argocd.argoproj.io";
    let id = identity();
    let none = generated_by(&set(), &DecisionSettings::default(), &[]);
    let wanted = generated("a", spec());
    let read = |change: &dyn Fn(&mut Value), is_wanted: bool, keeps: bool| {
        let mut live = owned_by("a", json!([of_set()]));
        live["metadata"]["finalizers"] = json!([FINALIZER]);
        change(&mut live);
        let rules = Rules { keeps_resources: keeps, ..Rules::of(&id, &none) };
        Existing::read(&live, is_wanted.then_some(&wanted), &rules)
    };
    let foreign = |live: &mut Value| live["metadata"]["ownerReferences"][0]["uid"] = "x".into();
    let going =
        |live: &mut Value| live["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let as_it_is = |_: &mut Value| {};
    // (its finalizer may have to go, it may be taken over)
    for (name, change, is_wanted, keeps, want) in [
        ("left", &as_it_is as &dyn Fn(&mut Value), false, false, (true, false)),
        ("generated", &as_it_is, true, false, (false, false)),
        ("generated, and resources stay", &as_it_is, true, true, (true, false)),
        ("of another, left", &foreign, false, false, (false, false)),
        ("of another, generated", &foreign, true, true, (false, true)),
        ("going, left", &going, false, true, (false, false)),
    ] {
        let found = read(change, is_wanted, keeps);
        assert_eq!((found.held.is_some(), found.takeover.is_some()), want, "{name}");
    }
    let phase = |phase: &str| {
        let state = json!({"operationState": {"phase": phase, "operation": {"sync": {}}}});
        read(&|live| live["status"] = state.clone(), true, false).is_running
    };
    assert_eq!(["Running", "Terminating", "Succeeded"].map(phase), [true, false, false]);
}
