//! Deletions that are held until a person approves them, and those that another set takes over,
//! as tables.

use std::sync::Arc;

use super::*;
use crate::application_set::deletion::approval::DeletionApproval;
use crate::application_set::deletion::deletion_guard::{
    HoldDecision, HoldReasons, hold, over, remember,
};
use crate::application_set::plan::ownership_transfer::{self, Moves, Other};
use crate::application_set::status::stored::StoredApplicationSet;
use crate::desired::inputs::Finding;
use crate::rollout::policy::Max;
use wavegate_api::annotations::{APPROVED_DELETIONS, EXISTED, FOUND};

const GIT: &str = "spec.generators[0].git";

fn delete(name: &str) -> Delete {
    Delete { name: name.to_owned(), uid: name.to_owned(), version: None, release: None }
}

fn deletes(names: &[&str]) -> WritePlan {
    WritePlan { deletes: names.iter().map(|name| delete(name)).collect(), ..WritePlan::default() }
}

/// A set with what is stored in its annotations.
fn stored(annotations: &Value) -> StoredApplicationSet {
    let mut set = set();
    set["metadata"]["namespace"] = "argocd".into();
    set["metadata"]["annotations"] = annotations.clone();
    StoredApplicationSet::read(&set)
}

/// What a set generates whose only generator reads the clusters and has found this.
fn found(finding: Option<Finding>) -> Generated {
    let mut generated = generated_by(&set(), &DecisionSettings::default(), &[]);
    generated.reads.clusters = true;
    generated.reads.found = finding.map(|finding| (GIT.to_owned(), finding)).into_iter().collect();
    generated.generators = ["d".into()].into();
    generated
}

/// The annotation of a set whose generator has found something, or nothing.
fn history(places: &[&str]) -> String {
    json!({"generators": ["d"], "found": places}).to_string()
}

fn calm<'a>() -> HoldReasons<'a> {
    HoldReasons { has_left: true, failed: &[], is_waiting: false, over: None }
}

/// Deletes two Applications, and returns what was decided and what is deleted still.
fn decided(
    annotations: &Value,
    generated: &Generated,
    settings: &DecisionSettings,
    doubts: HoldReasons<'_>,
) -> (HoldDecision, usize) {
    let mut writes = deletes(&["a", "b"]);
    let decision = hold(&stored(annotations), generated, settings, doubts, &mut writes);
    (decision, writes.deletes.len())
}

fn settings(hold_deletions: bool) -> DecisionSettings {
    DecisionSettings { hold_deletions, ..DecisionSettings::default() }
}

/// Each reason, in its order, with what turns it off.
#[test]
fn deletions_are_held_for_a_reason_st_050() {
    let before = json!({FOUND: history(&[GIT])});
    let empty_before = json!({FOUND: history(&[])});
    let [nothing, something, ended] =
        [Finding::Nothing, Finding::Something, Finding::Ended].map(|one| found(Some(one)));
    let failing = || {
        let mut generated = found(Some(Finding::Nothing));
        generated.error = Some(crate::desired::GenerateError::Options("no".into()));
        generated
    };
    let failed = || HoldReasons { failed: &["x"], ..calm() };
    let many = || HoldReasons { over: Some("too many".into()), ..calm() };
    let both = || HoldReasons { over: Some("too many".into()), ..failed() };
    let none_left = || HoldReasons { has_left: false, ..both() };
    let [on, off] = [true, false].map(settings);
    let none = json!({});
    let emptied = Some(("GeneratorFoundNothing", "found nothing where something was found before"));
    let unknown = Some(("OtherApplicationSetUnknown", "ApplicationSet x cannot be generated"));
    let too_many = Some(("TooManyDeletions", "too many"));
    for (name, annotations, generated, settings, doubts, want) in [
        ("nothing is wrong", &before, &something, &on, calm(), None),
        ("emptied", &before, &nothing, &on, calm(), emptied),
        ("emptied, and nothing is stored", &none, &nothing, &on, calm(), emptied),
        ("empty before", &empty_before, &nothing, &on, calm(), None),
        ("ended", &before, &ended, &on, calm(), None),
        ("emptied, but not to be held", &before, &nothing, &off, calm(), None),
        ("another set failed", &before, &something, &on, failed(), unknown),
        ("another set failed, but not to be held", &before, &something, &off, failed(), None),
        ("too many", &before, &something, &on, many(), too_many),
        ("too many, whatever is to be held", &before, &something, &off, many(), too_many),
        ("too many, and another failed", &before, &something, &on, both(), unknown),
        ("emptied, and too many", &before, &nothing, &on, both(), emptied),
        ("none is left", &before, &nothing, &on, none_left(), None),
        ("it cannot be generated", &before, &failing(), &on, both(), None),
    ] {
        let (decision, deletes) = decided(annotations, generated, settings, doubts);
        let held = decision.held.as_ref();
        assert_eq!(held.map(|held| held.reason), want.map(|(reason, _)| reason), "{name}");
        if let (Some(held), Some((_, why))) = (held, want) {
            assert!(held.message.contains(why), "{name}: {}", held.message);
            let hash = DeletionApproval::of(&[delete("a"), delete("b")]);
            let command = format!(
                "; to delete them: kubectl -n argocd annotate applicationset set --overwrite \
                 {APPROVED_DELETIONS}={hash}"
            );
            assert!(held.message.ends_with(&command), "{name}: {}", held.message);
        }
        assert_eq!(deletes, if want.is_some() { 0 } else { 2 }, "{name}");
    }
}

/// What an approval does: recorded before the first deletion, then used, then removed; another
/// one changes nothing.
#[test]
fn an_approval_is_recorded_used_and_removed() {
    let something = found(Some(Finding::Something));
    let failed = || HoldReasons { failed: &["x"], ..calm() };
    let hash = DeletionApproval::of(&[delete("a"), delete("b")]);
    let with = |approval: &str| json!({FOUND: history(&[GIT]), APPROVED_DELETIONS: approval});
    let recorded = |decision: &HoldDecision| {
        let written = decision.annotations.as_ref()?.get(APPROVED_DELETIONS)?;
        Some(written.as_str().unwrap_or("null").to_owned())
    };
    // Recorded first.
    let (first, deletes) = decided(&with(&hash), &something, &settings(true), failed());
    assert_eq!((first.held.is_none(), deletes), (true, 0));
    let text = recorded(&first).unwrap();
    assert!(text.starts_with(&format!("{hash}:")), "{text}");
    // Then both are deleted, and also one that is left.
    let (second, deletes) = decided(&with(&text), &something, &settings(true), failed());
    assert_eq!((second.held.is_none(), deletes, recorded(&second)), (true, 2, None));
    let mut one = self::deletes(&["b"]);
    let rest = hold(&stored(&with(&text)), &something, &settings(true), failed(), &mut one);
    assert_eq!((rest.held.is_none(), one.deletes.len()), (true, 1));
    // Another Application is not approved.
    let mut other = self::deletes(&["c"]);
    let held = hold(&stored(&with(&text)), &something, &settings(true), failed(), &mut other);
    assert_eq!(other.deletes.len(), 0);
    let message = held.held.unwrap().message;
    assert!(message.contains("is no approval of these"), "{message}");
    // It goes when nothing is held, but stays while other sets are read.
    for (name, doubts, generated, want) in [
        ("sure", calm(), found(Some(Finding::Something)), Some("null")),
        (
            "waiting",
            HoldReasons { is_waiting: true, ..calm() },
            found(Some(Finding::Something)),
            None,
        ),
        (
            "waiting for none",
            HoldReasons { has_left: false, is_waiting: true, ..calm() },
            found(Some(Finding::Nothing)),
            Some("null"),
        ),
    ] {
        let (decision, deletes) = decided(&with(&text), &generated, &settings(true), doubts);
        assert_eq!(recorded(&decision).as_deref(), want, "{name}");
        assert_eq!(deletes, 2, "{name}");
    }
}

/// After an approval, what an emptied generator found is forgotten before its Applications are
/// deleted.
#[test]
fn an_emptied_generator_is_as_it_is_once_that_is_approved() {
    let nothing = found(Some(Finding::Nothing));
    let hash = DeletionApproval::of(&[delete("a"), delete("b")]);
    let with = |places: &[&str]| json!({FOUND: history(places), APPROVED_DELETIONS: hash});
    let (first, deletes) = decided(&with(&[GIT]), &nothing, &settings(true), calm());
    assert_eq!((first.held, deletes), (None, 0));
    let written = first.annotations.unwrap()[FOUND].as_str().map(str::to_owned);
    let written: Value = serde_json::from_str(&written.unwrap()).unwrap();
    assert_eq!(written["found"], json!([]));
    let (second, deletes) = decided(&with(&[]), &nothing, &settings(true), calm());
    assert_eq!((second.held, deletes), (None, 2));
}

/// What was found stays stored until its Applications are gone.
#[test]
fn what_was_found_is_kept_while_deletions_are_held() {
    let places = |decision: &HoldDecision| -> Option<Value> {
        let text = decision.annotations.as_ref()?.get(FOUND)?.as_str()?;
        Some(serde_json::from_str::<Value>(text).unwrap()["found"].clone())
    };
    let [nothing, something] = [Finding::Nothing, Finding::Something].map(|one| found(Some(one)));
    let unread = || {
        let mut generated = found(Some(Finding::Nothing));
        generated.reads.clusters = false;
        generated
    };
    let before = json!({FOUND: history(&[GIT])});
    let none_left = || HoldReasons { has_left: false, ..calm() };
    for (name, annotations, generated, doubts, want) in [
        ("as stored", &before, &something, calm(), None),
        ("first", &json!({}), &something, calm(), Some(json!([GIT]))),
        ("emptied", &before, &nothing, calm(), None),
        ("emptied, and nothing is stored", &json!({}), &nothing, calm(), None),
        ("emptied, and none is left", &before, &nothing, none_left(), Some(json!([]))),
        ("nothing is read", &json!({}), &unread(), none_left(), None),
    ] {
        let (decision, _) = decided(annotations, generated, &settings(true), doubts);
        assert_eq!(places(&decision), want, "{name}");
    }
    // Without deletions, none is held, and what was found stays.
    let mut writes = WritePlan::default();
    let decision = hold(&stored(&before), &nothing, &settings(true), calm(), &mut writes);
    assert_eq!(decision, HoldDecision::default());
}

/// The number before a generation that deletes is stored once, and removed in the end (ST-050).
#[test]
fn how_many_a_set_had_is_remembered_st_050() {
    for (name, before, had, want) in [
        ("as stored", Some("3"), Some(3), None),
        ("none", None, None, None),
        ("first", None, Some(3), Some(json!("3"))),
        ("another", Some("3"), Some(4), Some(json!("4"))),
        ("in the end", Some("3"), None, Some(Value::Null)),
    ] {
        let mut decision = HoldDecision::default();
        remember(&mut decision, &stored(&json!({EXISTED: before})), had);
        assert_eq!(decision.annotations, want.map(|want| json!({EXISTED: want})), "{name}");
    }
    let mut decision = HoldDecision { annotations: Some(json!({"a": "b"})), held: None };
    remember(&mut decision, &stored(&json!({})), Some(1));
    assert_eq!(decision.annotations, Some(json!({"a": "b", EXISTED: "1"})));
}

/// A count, or a share of what the set had, which is one at least (ST-050).
#[test]
fn a_policy_limits_deletions_st_050() {
    let limits = |max: Max| vec![("free".to_owned(), Max::Count(9)), ("p".to_owned(), max)];
    for (max, deletes, exist, want) in [
        (Max::Count(2), 2, 9, None),
        (Max::Count(2), 3, 9, Some("2")),
        (Max::Count(0), 1, 9, Some("0")),
        (Max::Percent(50), 2, 4, None),
        (Max::Percent(50), 3, 4, Some("2, 50% of 4")),
        (Max::Percent(10), 1, 4, None),
        (Max::Percent(10), 2, 4, Some("1, 10% of 4")),
        (Max::Percent(0), 1, 4, Some("0, 0% of 4")),
        (Max::Percent(0), 0, 4, None),
    ] {
        let want = want.map(|permits| {
            format!("{deletes} Applications would be deleted, and policy p permits {permits}")
        });
        assert_eq!(over(&limits(max), deletes, exist), want, "{max:?} {deletes}");
    }
}

/// A plan is settled when nothing is left of it; an error leaves the guards alone.
#[test]
fn a_plan_is_settled_without_writes() {
    let patch = |only_records: bool| Patch {
        name: "a".into(),
        json: "{}".into(),
        starts: false,
        is_taken_up: false,
        changes_spec: false,
        only_records,
        refreshes: false,
        step: None,
    };
    let create = Create { name: "a".into(), json: "{}".into(), step: None };
    let held = Held { applications: vec!["a".into()], until: "x".into() };
    let none = WritePlan::default;
    for (name, plan, written, settled) in [
        ("nothing", none(), true, true),
        ("a create", WritePlan { creates: vec![create], ..none() }, false, false),
        ("a record", WritePlan { patches: vec![patch(true)], ..none() }, true, true),
        ("a patch", WritePlan { patches: vec![patch(true), patch(false)], ..none() }, false, false),
        ("a deletion", deletes(&["a"]), true, false),
        ("a held one", WritePlan { held: Some(held.clone()), ..none() }, true, false),
        (
            "a refusal",
            WritePlan { refused: vec![("a".into(), "b".into())], ..none() },
            false,
            false,
        ),
        ("a refresh to come", WritePlan { postponed: 1, ..none() }, false, false),
    ] {
        assert_eq!((plan.is_written(), plan.is_settled()), (written, settled), "{name}");
    }
    let guarded = WritePlan {
        patches: vec![patch(false), patch(true)],
        guards: vec![patch(true)],
        postponed: 1,
        ..deletes(&["a", "b"])
    };
    let frozen = guarded.clone().frozen("it is fixed");
    let wait = Held { applications: vec!["a".into(), "b".into()], until: "it is fixed".into() };
    let want = WritePlan { patches: vec![patch(true)], held: Some(wait.clone()), ..none() };
    assert_eq!(frozen, want);
    let without = guarded.clone().without_deletes("it is fixed");
    assert_eq!(without, WritePlan { deletes: Vec::new(), held: Some(wait), ..guarded });
    // What is held already stays so.
    let plan = WritePlan { held: Some(held.clone()), ..none() };
    assert_eq!(plan.frozen("y").held, Some(held));
}

fn other(names: &[&str], change: impl FnOnce(&mut Generated)) -> Other {
    let all: Vec<Value> = names.iter().map(|name| generated(name, json!({}))).collect();
    let mut made = generated_by(&set(), &DecisionSettings::default(), &all);
    change(&mut made);
    Other {
        name: "other".into(),
        uid: "other".into(),
        generated: Some(Arc::new(made)),
        is_current: true,
        failing_since: None,
    }
}

/// An Application as the set finds it: owned by it, by the set `other`, or by none.
fn existing(name: &str, owner: Option<&str>, is_going: bool) -> Existing {
    let wanted = generated(name, json!({}));
    let mut live = live(&wanted);
    match owner {
        Some(uid) => live["metadata"]["ownerReferences"][0]["uid"] = uid.into(),
        None => live["metadata"]["ownerReferences"] = json!([]),
    }
    if is_going {
        live["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    }
    let set = set();
    let made = generated_by(&set, &DecisionSettings::default(), &[wanted]);
    let written = made.get(name).map(|wanted| wanted.written(false));
    Existing::read(&live, written.as_ref(), &Rules::of(&Identity::of(&set), &made))
}

/// An Application changes its owner when its set has released it, and another one generates it.
#[test]
fn an_application_is_taken_over_once_it_is_released() {
    let error = |made: &mut Generated| {
        made.error = Some(crate::desired::GenerateError::Options("no".into()));
    };
    let stale = Other { is_current: false, ..other(&[], |_| {}) };
    let unread = Other { generated: None, ..other(&[], |_| {}) };
    let third = Other { uid: "third".into(), ..other(&[], |_| {}) };
    let keeps = |made: &mut Generated| made.policy = Policy::CreateUpdate;
    for (name, others, want) in [
        ("released", vec![other(&[], |_| {})], true),
        ("another is, too", vec![other(&["b"], |_| {})], true),
        ("generated still", vec![other(&["a"], |_| {})], false),
        ("its policy keeps it", vec![other(&[], keeps)], false),
        ("it cannot be generated", vec![other(&[], error)], false),
        ("of an older spec", vec![stale], false),
        ("not read", vec![unread], false),
        ("a third set", vec![third], false),
        ("no other", vec![], false),
    ] {
        let own = existing("a", Some("other"), false);
        assert_eq!(ownership_transfer::takeover(&others, &own).is_some(), want, "{name}");
    }
    for (name, owner, is_going) in
        [("its own", Some("u"), false), ("of none", None, false), ("going", Some("other"), true)]
    {
        let own = existing("a", owner, is_going);
        let others = [other(&[], |_| {})];
        assert!(ownership_transfer::takeover(&others, &own).is_none(), "{name}");
    }
}

/// What a set leaves and wants depends on its owner, and is given to the set that generates it.
#[test]
fn applications_are_given_to_the_set_that_generates_them() {
    let all = [
        existing("a", Some("u"), false),
        existing("b", Some("u"), false),
        existing("c", Some("other"), false),
        existing("d", Some("u"), true),
    ];
    let made = |names: &[&str]| {
        let all: Vec<Value> = names.iter().map(|name| generated(name, json!({}))).collect();
        generated_by(&set(), &DecisionSettings::default(), &all)
    };
    for (names, leaves, wants, left) in [
        (&["a", "b"][..], false, false, &[][..]),
        (&["a"], true, false, &["b"]),
        (&["a", "b", "c"], false, true, &[]),
        (&["b", "c"], true, true, &["a"]),
        (&["a", "b", "z"], false, false, &[]),
        (&[], true, false, &["a", "b"]),
    ] {
        let made = made(names);
        let moves = Moves::of(&all, &made.applications);
        assert_eq!(moves, Moves { leaves, wants }, "{names:?}");
        assert_eq!(moves.any(), leaves || wants, "{names:?}");
        let found = ownership_transfer::left_applications(&all, &made.applications);
        assert_eq!(found.map(|one| &*one.name).collect::<Vec<_>>(), left, "{names:?}");
    }
    let given = |made: &Generated, others: &[Other]| -> Vec<(String, String)> {
        ownership_transfer::given_applications(&all, made, others)
            .map(|(name, to)| (name.to_owned(), to.to_owned()))
            .collect()
    };
    let others = [other(&["b", "c", "d"], |_| {})];
    assert_eq!(given(&made(&["a"]), &others), [("b".to_owned(), "other".to_owned())]);
    assert_eq!(given(&made(&["a", "b"]), &others), []);
    assert_eq!(given(&made(&["a"]), &[]), []);
    let mut kept = made(&["a"]);
    kept.policy = Policy::CreateUpdate;
    assert_eq!(given(&kept, &others), []);
}

/// An approval of so many is used as it is: the annotation could not hold each of them.
#[test]
fn an_approval_of_very_many_is_not_recorded_for_each() {
    for (count, is_recorded) in [(9_999, true), (10_000, true), (10_001, false)] {
        let deletes: Vec<Delete> = (0..count).map(|number| delete(&number.to_string())).collect();
        let hash = DeletionApproval::of(&deletes);
        let approval = DeletionApproval::read(&hash).unwrap();
        assert!(approval.covers(&deletes), "{count}");
        assert_eq!(approval.recorded(&deletes).is_some(), is_recorded, "{count}");
    }
}
