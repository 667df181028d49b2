//! What is written of Applications that are gone from the set, invalid, or of another set; and
//! what is read of the syncs of a person.

use std::time::Duration;

use super::*;
use crate::application_set::decision::{NextReconcile, Snapshot};
use crate::application_set::generate::generated::generated_labels;
use crate::application_set::plan::owner;
use crate::application_set::plan::windows::Facts;
use crate::application_set::reconcile;
use crate::application_set::rollout_io::last_good;
use crate::application_set::status::stored::StoredApplicationSet;
use crate::rollout::phase::{Compared, ObservedOperation};
use crate::rollout::run::started::{Started, Target};
use crate::rollout::wait::WaitKind;
use wavegate_api::annotations::{APPLICATION_SET_REFRESH, RESOURCES_FINALIZER as FINALIZER};
use wavegate_api::{HealthStatus, OperationPhase, SyncStatusCode};
use wavegate_engine::wait::WaitFor;

fn rules_of<'a>(id: &'a Identity, generated: &'a Generated, keeps: bool) -> Rules<'a> {
    Rules { policy: Policy::Sync, keeps_resources: keeps, ..Rules::of(id, generated) }
}

/// AS-160, AS-166: the finalizer goes where the resources cannot be deleted, or must not be.
#[test]
fn a_deletion_releases_what_it_cannot_or_must_not_delete() {
    let clusters =
        [cluster("one", "https://1"), cluster("twin", "https://2"), cluster("twin", "https://3")];
    let id = Identity::of(&set());
    let none = generated_by(&set(), &DecisionSettings::default(), &[]);
    for (destination, finalizers, keeps, want) in [
        (json!({"name": "one"}), json!([FINALIZER]), false, None),
        (json!({"server": "https://1"}), json!([FINALIZER]), false, None),
        // It waits until that is clear.
        (json!({"name": "twin"}), json!([FINALIZER]), false, None),
        (json!({"name": "none"}), json!([FINALIZER]), false, Some("cluster none not found")),
        (json!({"server": "https://4"}), json!([FINALIZER]), false, Some("is not registered")),
        (json!({"name": "one", "server": "https://1"}), json!([FINALIZER]), false, Some("both")),
        (json!({"name": "one"}), json!([FINALIZER, "f/x"]), true, Some("preserveResources")),
        (json!({"name": "none"}), json!(["f/x"]), false, None),
        (json!({"name": "none"}), json!(["f/x"]), true, None),
    ] {
        let mut gone = live(&generated("a", json!({"destination": destination})));
        gone["metadata"]["finalizers"] = finalizers.clone();
        let existing = [Existing::read(&gone, None, &rules_of(&id, &none, keeps))];
        let plan = plan_writes(&PlanInput {
            set: &id,
            generated: &[],
            invalid: &BTreeMap::new(),
            existing: &existing,
            keeps_resources: keeps,
            clusters: &clusters,
            in_rollout: false,
            policy: Policy::Sync,
            operations: &BTreeMap::new(),
            records: &BTreeMap::new(),
            refreshes: &[],
            others: &[],
        });
        let release = plan.deletes[0].release.as_ref();
        let why = release.map(|release| release.why.as_str());
        match want {
            None => assert_eq!(why, None, "{destination} {finalizers}"),
            Some(text) => assert!(why.is_some_and(|why| why.contains(text)), "{why:?}"),
        }
        let Some(release) = release else { continue };
        let others: Vec<&Value> =
            finalizers.as_array().unwrap().iter().filter(|one| **one != FINALIZER).collect();
        let want = json!({"metadata": {"finalizers": others, "resourceVersion": "5"}});
        assert_eq!(serde_json::from_str::<Value>(&release.json).unwrap(), want);
    }
}

/// AS-148: a mistake deletes nothing.
#[test]
fn deletions_wait_until_all_that_is_generated_can_be_written() {
    let (wanted, gone) = (generated("a", spec()), live(&generated("gone", spec())));
    let fine = live(&wanted);
    let mut foreign = fine.clone();
    foreign["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Team", "name": "t", "uid": "t", "controller": true}]);
    let mut going = fine.clone();
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let invalid = BTreeMap::from([("a".to_owned(), "no".to_owned())]);
    let valid = BTreeMap::new();
    for (have, invalid, want) in [
        (&fine, &valid, None),
        (&fine, &invalid, Some("application a is valid")),
        (&foreign, &valid, Some("application a can be written")),
        (&going, &valid, Some("application a, which is being deleted, is recreated")),
    ] {
        let set = set();
        let id = Identity::of(&set);
        let generated =
            generated_by(&set, &DecisionSettings::default(), std::slice::from_ref(&wanted));
        let rules = rules_of(&id, &generated, false);
        let existing =
            [Existing::read(have, Some(&wanted), &rules), Existing::read(&gone, None, &rules)];
        let plan = plan_writes(&PlanInput {
            set: &id,
            generated: &generated.applications,
            invalid,
            existing: &existing,
            keeps_resources: false,
            clusters: &[],
            in_rollout: false,
            policy: Policy::Sync,
            operations: &BTreeMap::new(),
            records: &BTreeMap::new(),
            refreshes: &[],
            others: &[],
        });
        let held = plan.held.map(|held| (held.applications, held.until));
        let until = want.map(|until| (vec!["gone".to_owned()], until.to_owned()));
        assert_eq!(held, until);
        assert_eq!(plan.deletes.len(), usize::from(want.is_none()), "{want:?}");
    }
}

/// Other owners stay when one set takes over from another.
#[test]
fn a_takeover_replaces_the_controlling_set_only() {
    let wanted = generated("a", spec());
    let of_other = |uid: &str, controller: bool| {
        json!({
            "apiVersion": API_VERSION, "kind": "ApplicationSet", "name": "other", "uid": uid,
            "controller": controller,
        })
    };
    let team = json!({"apiVersion": "v1", "kind": "Team", "name": "t", "uid": "t"});
    let mut have = live(&wanted);
    have["metadata"]["ownerReferences"] =
        json!([of_other("old", true), team, of_other("u", false)]);
    let (id, none) =
        (Identity::of(&set()), generated_by(&set(), &DecisionSettings::default(), &[]));
    let existing = Existing::read(&have, Some(&wanted), &rules_of(&id, &none, false));
    let takeover = existing.takeover.unwrap();
    assert_eq!(&*takeover.from, "old");
    let patch: Value = serde_json::from_str(&takeover.patch).unwrap();
    let owners = patch["metadata"]["ownerReferences"].as_array().unwrap();
    let uids: Vec<&str> = owners.iter().map(|one| one["uid"].as_str().unwrap()).collect();
    assert_eq!(uids, ["t", "u"]);
    assert_eq!(owners[1]["controller"], true);
    for (uid, kind, want) in [
        ("old", "ApplicationSet", Some("other")),
        ("old", "Team", None),
        ("", "ApplicationSet", Some("other")),
    ] {
        let mut owner = of_other(uid, true);
        owner["kind"] = kind.into();
        have["metadata"]["ownerReferences"] = json!([team, owner]);
        assert_eq!(owner::set_of(&have), want, "{kind}");
    }
    have["metadata"]["ownerReferences"] = json!([of_other("old", false)]);
    assert_eq!(owner::set_of(&have), None, "it does not control it");
}

#[test]
fn an_application_is_related_when_it_is_owned_or_generated() {
    let set = set();
    let id = Identity::of(&set);
    let wanted = generated("a", spec());
    let made = generated_by(&set, &DecisionSettings::default(), std::slice::from_ref(&wanted));
    let mut foreign = live(&wanted);
    foreign["metadata"]["ownerReferences"] = json!([]);
    let mut other = foreign.clone();
    other["metadata"]["name"] = "b".into();
    let mut own = live(&wanted);
    own["metadata"]["name"] = "b".into();
    let related = |live: &Value| Existing::related(live, &id, &made).map(|one| one.name);
    assert_eq!(related(&foreign).as_deref(), Some("a"));
    assert_eq!(related(&own).as_deref(), Some("b"));
    assert_eq!(related(&other), None);
}

/// ST-061: what it carries of its last start follows a later spec once that is deployed.
#[test]
fn a_spec_that_needs_no_sync_is_what_an_application_goes_back_to() {
    let wanted = generated("a", spec());
    let (set, settings) = (set(), DecisionSettings::default());
    let made = generated_by(&set, &settings, std::slice::from_ref(&wanted));
    let id = Identity::of(&set);
    let rules = Rules::of(&id, &made);
    let started = Started {
        run: "run".to_owned(),
        target: Target::default(),
        at: "2026-01-02T12:00:00Z".parse().unwrap(),
        before: HealthStatus::Healthy,
        good: vec!["r1".to_owned()],
        base: "before".to_owned(),
        goes_back: false,
    };
    let running = |phase: OperationPhase| ObservedOperation {
        phase,
        started_at: "2026-01-02T12:00:00Z".parse().unwrap(),
        finished_at: None,
        promotion: None,
        revisions: Vec::new(),
        message: String::new(),
        is_blocked: false,
        is_partial: false,
    };
    let found = |change: &dyn Fn(&mut Existing)| {
        let mut existing = Existing::read(&live(&wanted), Some(&wanted), &rules);
        existing.started = Some(Box::new(started.clone()));
        let seen = &mut existing.observed;
        (seen.health, seen.sync) = (HealthStatus::Healthy, SyncStatusCode::Synced);
        (seen.compared, seen.spec_differs) = (Compared::Current, false);
        seen.revisions = vec!["r2".to_owned()];
        change(&mut existing);
        last_good::without_a_sync(&existing, &made.applications[0])
    };
    let base = made.applications[0].base.to_string();
    let carried = Started { good: vec!["r2".to_owned()], base: base.clone(), ..started.clone() };
    assert_eq!(found(&|_| {}), Some(carried.clone()));
    let ended = running(OperationPhase::Succeeded);
    assert_eq!(found(&|one| one.observed.operation = Some(ended.clone())), Some(carried));
    let failed = running(OperationPhase::Failed);
    let same = Started { base, ..started.clone() };
    let back = Started { goes_back: true, ..started.clone() };
    type Case<'a> = (&'a str, &'a dyn Fn(&mut Existing));
    let changes: [Case<'_>; 10] = [
        ("not started", &|one| one.started = None),
        ("the same spec", &|one| one.started = Some(Box::new(same.clone()))),
        ("on its way back", &|one| one.started = Some(Box::new(back.clone()))),
        ("Degraded", &|one| one.observed.health = HealthStatus::Degraded),
        ("OutOfSync", &|one| one.observed.sync = SyncStatusCode::OutOfSync),
        ("not compared", &|one| one.observed.compared = Compared::Stale),
        ("another spec", &|one| one.observed.spec_differs = true),
        ("no revision", &|one| one.observed.revisions.clear()),
        ("a failed sync", &|one| one.observed.operation = Some(failed.clone())),
        ("being deleted", &|one| one.is_going = true),
    ];
    for (name, change) in changes {
        assert_eq!(found(change), None, "{name}");
    }
}

/// ST-065: a dry run or a sync of some resources does not hide what a person deployed before.
#[test]
fn the_last_deployment_of_a_person_is_read_from_the_history() {
    let deployed = |revision: &str, at: &str, who: Value| {
        json!({
            "revision": revision, "deployStartedAt": at, "deployedAt": at, "initiatedBy": who,
        })
    };
    let automated = || json!({"automated": true});
    let rollout = || json!({"username": "applicationset-controller"});
    let ann = || json!({"username": "ann"});
    let (early, late) = ("2026-01-02T12:00:00Z", "2026-01-02T12:05:00Z");
    let some = json!({"sync": {"resources": [{"kind": "ConfigMap", "name": "c"}]}});
    for (name, history, operation, want) in [
        (
            "a person's",
            vec![deployed("new", early, automated()), deployed("old", late, ann())],
            &some,
            Some(("ann", "old")),
        ),
        (
            "without a name",
            vec![deployed("new", early, automated()), deployed("old", late, Value::Null)],
            &some,
            Some(("", "old")),
        ),
        (
            "all of an older controller",
            vec![deployed("new", early, Value::Null), deployed("old", late, Value::Null)],
            &some,
            None,
        ),
        (
            "automated",
            vec![deployed("new", early, ann()), deployed("old", late, automated())],
            &some,
            None,
        ),
        (
            "of a rollout",
            vec![deployed("new", early, ann()), deployed("old", late, rollout())],
            &some,
            None,
        ),
        ("before the target", vec![deployed("old", late, ann())], &some, None),
        (
            "after a whole sync that was automated",
            vec![deployed("new", early, automated()), deployed("old", late, ann())],
            &json!({"sync": {}, "initiatedBy": {"automated": true}}),
            None,
        ),
        ("none", Vec::new(), &some, None),
    ] {
        let mut have = live(&generated("a", spec()));
        have["status"] = json!({
            "sync": {"status": "OutOfSync", "revision": "new"},
            "history": history,
            "operationState": {
                "phase": "Succeeded", "startedAt": "2026-01-02T12:10:00Z", "operation": operation,
                "syncResult": {"revision": "new", "resources": []},
            },
        });
        let id = Identity::of(&set());
        let none = generated_by(&set(), &DecisionSettings::default(), &[]);
        let person = Existing::read(&have, None, &Rules::of(&id, &none)).observed.person;
        let found = person.as_ref().map(|one| (one.by.as_str(), one.revisions.concat()));
        assert_eq!(found, want.map(|(by, revision)| (by, revision.to_owned())), "{name}");
    }
}

/// The labels of generated Applications that are text.
#[test]
fn labels_are_read_of_each_generated_application() {
    let application = |name: &str, labels: Value| {
        let mut application = generated(name, spec());
        application["metadata"]["labels"] = labels;
        application
    };
    let generation = Generation::of([
        application("a", json!({"env": "dev", "count": 1})),
        application("b", json!({})),
    ]);
    let labels = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    let want = [("a".to_owned(), labels(&[("env", "dev")])), ("b".to_owned(), labels(&[]))];
    assert_eq!(generated_labels(&generation), want.into());
}

/// How many Applications each generator has generated, by the beginning of their origins.
#[test]
fn applications_are_counted_by_generator() {
    let (set, settings) = (set(), DecisionSettings::default());
    let mut collector = Collector::new(&set, &settings);
    for (name, origin) in [
        ("a", "spec.generators[0].list.elements[0]"),
        ("b", "spec.generators[0].list.elements[1]"),
        ("c", "spec.generators[1].git.directories[x]"),
        ("d", "spec.generators[2].list.elements[0]"),
        ("e", "spec.generators[2].list.elements[1]"),
        ("f", "spec.generators[2].list.elements[2]"),
    ] {
        collector.add(generated(name, spec()), origin);
    }
    let made = collector.finish(&set, &settings, Reads::default(), None);
    let counts: Vec<(&str, usize)> =
        made.per_generator.iter().map(|(path, count)| (path.as_str(), *count)).collect();
    let want = [("spec.generators[0]", 2), ("spec.generators[1]", 1), ("spec.generators[2]", 3)];
    assert_eq!(counts, want);
}

fn rolling_set() -> Value {
    let mut set = set();
    set["metadata"]["finalizers"] = json!([FINALIZER]);
    set["spec"]["strategy"] = json!({"type": "RollingSync", "rollingSync": {"steps": [{}]}});
    set
}

fn rolling() -> DecisionSettings {
    DecisionSettings { progressive_syncs: true, ..DecisionSettings::default() }
}

/// AS-420: the annotation goes when the refresh is complete.
#[test]
fn a_refresh_ends_when_it_was_asked_for_and_all_was_read() {
    for (asked, fails, want) in
        [(false, false, false), (true, false, true), (true, true, false), (false, true, false)]
    {
        let mut set = set();
        if asked {
            set["metadata"]["annotations"] = json!({ APPLICATION_SET_REFRESH: "true" });
        }
        let settings = DecisionSettings::default();
        let mut generated = generated_by(&set, &settings, &[]);
        generated.error = fails.then(|| crate::desired::GenerateError::Options("no".into()));
        let (projects, set) = (BTreeMap::new(), StoredApplicationSet::read(&set));
        let windows = Facts { projects: &projects, clusters: &[] };
        let now = jiff::Timestamp::from_second(1_700_000_000).unwrap();
        let snapshot = Snapshot::first(&set, &generated, &settings, windows, now);
        assert_eq!(reconcile::reconcile(&snapshot).ends_refresh, want, "{asked} {fails}");
    }
}

/// An Application of another owner is waited for as one that must not be written.
#[test]
fn a_rollout_names_what_must_not_be_written() {
    let (set, settings) = (rolling_set(), rolling());
    let wanted = generated("a", spec());
    let made = generated_by(&set, &settings, std::slice::from_ref(&wanted));
    let mut foreign = live(&wanted);
    foreign["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Team", "name": "t", "uid": "t", "controller": true}]);
    let id = Identity::of(&set);
    let existing = [Existing::read(&foreign, Some(&wanted), &Rules::of(&id, &made))];
    let (projects, set) = (BTreeMap::new(), StoredApplicationSet::read(&set));
    let windows = Facts { projects: &projects, clusters: &[] };
    let now = jiff::Timestamp::from_second(1_700_000_000).unwrap();
    let first = Snapshot::first(&set, &made, &settings, windows, now);
    let decision = reconcile::reconcile(&Snapshot { existing: &existing, ..first });
    let plan = decision.rollout.unwrap();
    let waits: Vec<(&str, WaitKind)> =
        plan.waiting.iter().map(|wait| (wait.application.as_str(), wait.kind)).collect();
    assert_eq!(waits, [("a", WaitKind::Refused)]);
    assert!(plan.waiting[0].message.contains("it is owned by Team t"), "{:?}", plan.waiting[0]);
}

/// A commit that one Application has noticed: the others are asked to look, a few at a time.
#[test]
fn what_is_behind_is_refreshed_and_the_rest_soon() {
    let (set, settings) = (rolling_set(), rolling());
    let names: Vec<String> =
        (0..REFRESHES_PER_RECONCILE + 3).map(|n| format!("app-{n:02}")).collect();
    let wanted: Vec<Value> = names.iter().map(|name| generated(name, spec())).collect();
    let made = generated_by(&set, &settings, &wanted);
    let id = Identity::of(&set);
    let decide = |behind: usize| {
        let existing: Vec<Existing> = wanted
            .iter()
            .enumerate()
            .map(|(at, wanted)| {
                let (revision, reconciled) = match at < behind {
                    true => ("old", "2026-01-02T12:00:00Z"),
                    false => ("new", "2026-01-02T12:05:00Z"),
                };
                let mut live = live(wanted);
                live["status"] = json!({
                    "health": {"status": "Healthy"},
                    "sync": {"status": "Synced", "revision": revision, "comparedTo": spec()},
                    "reconciledAt": reconciled,
                });
                Existing::read(&live, Some(wanted), &Rules::of(&id, &made))
            })
            .collect();
        let (projects, set) = (BTreeMap::new(), StoredApplicationSet::read(&set));
        let windows = Facts { projects: &projects, clusters: &[] };
        let now = "2026-01-02T12:06:00Z".parse().unwrap();
        let first = Snapshot::first(&set, &made, &settings, windows, now);
        reconcile::reconcile(&Snapshot { existing: &existing, ..first })
    };
    for behind in [0, 1, REFRESHES_PER_RECONCILE + 2] {
        let decision = decide(behind);
        let mut found = decision.behind().to_vec();
        found.sort();
        assert_eq!(found, names[..behind]);
        let postponed = behind.saturating_sub(REFRESHES_PER_RECONCILE);
        assert_eq!(decision.writes.postponed, postponed);
        let is_soon =
            decision.next == NextReconcile::After(WaitFor::PostponedWrites, Duration::ZERO);
        assert_eq!(is_soon, postponed > 0, "{:?}", decision.next);
    }
}
