//! Random cases: a set, settings, and events in random order.

use jiff::SignedDuration;
use proptest::prelude::{Just, any, prop_oneof};
use proptest::strategy::Strategy;
use serde_json::{Value, json};

use super::super::super::DecisionSettings;
use super::people::{self, RunModel, Word};
use super::spec::{Element, Spec, Step};
use super::world::{Fault, World};
use crate::rollout::phase::Rules;
use crate::rollout::{self};

/// An event. Indices select one of the Applications.
#[derive(Clone, Debug)]
pub enum Turn {
    /// The application controller continues with all Applications.
    All,
    /// With one of them.
    One(usize),
    /// Time passes, in tenths of a second.
    Sleep(u32),
    /// A new commit.
    Commit,
    /// A later write fails.
    Fault(usize, Fault),
    /// The controller restarts.
    Crash,
    /// The changes of an Application are delayed.
    Hold(usize),
    /// The changes of the set are delayed.
    HoldSet,
    /// Delayed changes arrive.
    Release,
    /// The next operation fails.
    Fail(usize),
    /// A user syncs it.
    Manual(usize),
    /// A user syncs it to an older revision (ST-065).
    Old(usize),
    /// It cannot be compared or synced, until the event is repeated.
    Break(usize),
    /// The cluster is changed manually.
    Drift(usize),
    /// Its resources become Degraded, or recover.
    Degrade(usize),
    /// Another client writes the object, so that its version changes.
    Touch(usize),
    /// Its generated spec changes.
    Spec(usize),
    /// All generated specs change.
    Specs,
    /// Its label changes.
    Label(usize, usize),
    /// It is not generated any more, or again.
    Toggle(usize),
    /// Validation rejects it, or accepts it again.
    Invalid(usize),
    /// An Application of another owner has its name.
    Foreign(usize),
    /// The template fails, or is fixed.
    Template,
    /// The set has other steps.
    Steps(Vec<Step>),
    /// The set changes between RollingSync and AllAtOnce.
    Strategy,
    /// The policy of the set.
    Policy(&'static str),
    /// Progressive syncs are switched on or off, with a restart.
    Feature,
    /// What a person does about the rollout.
    Word(Word),
    /// A user removes the status of the set.
    Wipe,
}

/// A random case.
#[derive(Clone, Debug)]
pub struct Case {
    pub elements: Vec<(usize, Option<bool>)>,
    pub steps: Vec<Step>,
    pub turns: Vec<Turn>,
    /// The events of this round of the quiet end are lost.
    pub lost: usize,
    /// Settings, one bit each.
    pub bits: u16,
    /// Whether Argo CD's definitions are installed, which prune fields of ours.
    pub prunes: bool,
    /// The policies of a set; `None` when nothing can be said about it.
    pub policies: Option<Vec<Value>>,
}

fn limit() -> impl Strategy<Value = Value> {
    let values = [
        json!(null),
        json!(null),
        json!(null),
        json!(1),
        json!(1),
        json!(2),
        json!(5),
        json!(0),
        json!(-1),
        json!("0%"),
        json!("1%"),
        json!("30%"),
        json!("50%"),
        json!("100%"),
        json!("-5%"),
        json!("00%"),
        json!("0"),
        json!("3"),
        json!("abc"),
        json!("1.5%"),
        json!(""),
    ];
    proptest::sample::select(values.to_vec())
}

/// Steps that select the label with their number, and sometimes others.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (limit(), 0_usize..24, 0_usize..6);
    proptest::collection::vec(step, 0..6).prop_map(|steps| {
        let step = |(at, (limit, kind, other)): (usize, (Value, usize, usize))| {
            let values = match kind {
                0 => Vec::new(),
                1..=3 => vec![at + 1, other],
                _ => vec![at + 1],
            };
            Step { values, selects_none: kind == 4, limit }
        };
        steps.into_iter().enumerate().map(step).collect()
    })
}

fn index() -> impl Strategy<Value = usize> {
    0_usize..30
}

fn fault() -> impl Strategy<Value = Fault> {
    let faults =
        [Fault::Fails, Fault::AnswerLost, Fault::Conflict, Fault::CrashBefore, Fault::CrashAfter];
    proptest::sample::select(faults.to_vec())
}

/// Events of a rollout that only its own controllers take part in.
fn quiet() -> impl Strategy<Value = Turn> {
    prop_oneof![
        12 => Just(Turn::All),
        4 => index().prop_map(Turn::One),
        2 => (0_u32..40).prop_map(Turn::Sleep),
        1 => Just(Turn::Commit),
        4 => (0_usize..8, fault()).prop_map(|(writes, fault)| Turn::Fault(writes, fault)),
        1 => Just(Turn::Crash),
        1 => index().prop_map(Turn::Hold),
        1 => Just(Turn::Release),
    ]
}

/// Events of users and of the cluster.
fn disturbing() -> impl Strategy<Value = Turn> {
    let of_one = (0_usize..12, index(), 0_usize..6).prop_map(|(kind, index, label)| match kind {
        0 => Turn::Fail(index),
        1 => Turn::Manual(index),
        2 => Turn::Break(index),
        3 => Turn::Drift(index),
        4 => Turn::Degrade(index),
        5 => Turn::Touch(index),
        6 => Turn::Spec(index),
        7 => Turn::Toggle(index),
        8 => Turn::Invalid(index),
        9 => Turn::Foreign(index),
        10 => Turn::Old(index),
        _ => Turn::Label(index, label),
    });
    let policies = ["sync", "create-update", "create-delete", "create-only"];
    prop_oneof![
        10 => of_one,
        2 => Just(Turn::Specs),
        1 => Just(Turn::Template),
        1 => Just(Turn::HoldSet),
        2 => steps().prop_map(Turn::Steps),
        2 => Just(Turn::Strategy),
        1 => proptest::sample::select(policies.to_vec()).prop_map(Turn::Policy),
        1 => Just(Turn::Feature),
        1 => Just(Turn::Wipe),
        1 => (100_u32..4000).prop_map(Turn::Sleep),
    ]
}

/// Cases with or without disturbances.
pub fn cases() -> impl Strategy<Value = Case> {
    let element = || (0_usize..6, any::<bool>(), any::<bool>());
    let elements = prop_oneof![
        84 => proptest::collection::vec(element(), 1..4),
        5 => proptest::collection::vec(element(), 5..11),
        1 => proptest::collection::vec(element(), 11..31),
    ];
    let turns = prop_oneof![
        2 => proptest::collection::vec(quiet(), 0..9),
        3 => proptest::collection::vec(prop_oneof![2 => quiet(), 1 => disturbing()], 0..9),
    ];
    (elements, steps(), turns, 0_usize..12, any::<u16>(), any::<bool>()).prop_map(
        |(elements, steps, turns, lost, bits, prunes)| {
            let element = |(label, is_automated, enabled): (usize, bool, bool)| {
                (label, is_automated.then_some(enabled))
            };
            let elements = elements.into_iter().map(element).collect();
            Case { elements, steps, turns, lost, bits, prunes, policies: None }
        },
    )
}

/// Steps that select an Application of each label, so that most cases get far.
fn simple_steps() -> impl Strategy<Value = Vec<Step>> {
    let limits = [json!(null), json!(null), json!(1), json!(2), json!("50%")];
    let limit = proptest::sample::select(limits.to_vec());
    proptest::collection::vec(limit, 3).prop_map(|limits| {
        let step = |(at, limit)| Step { values: vec![at + 1], selects_none: false, limit };
        limits.into_iter().enumerate().map(step).collect()
    })
}

/// Cases with policies, people and runs; some without any policy or word, which differ in
/// nothing from those without runs.
pub fn cases_with_policies() -> impl Strategy<Value = Case> {
    let turn = prop_oneof![
        6 => quiet(),
        1 => index().prop_map(Turn::Fail),
        1 => index().prop_map(Turn::Degrade),
        1 => index().prop_map(Turn::Old),
        2 => disturbing(),
        8 => people::words().prop_map(Turn::Word),
    ];
    let element = (1_usize..4).prop_map(|label| (label, None));
    let elements = proptest::collection::vec(element, 2..7);
    let steps = prop_oneof![3 => simple_steps(), 1 => steps()];
    let set = (cases(), elements, steps, any::<bool>());
    let controlled = (proptest::collection::vec(turn, 0..24), people::policies(), 0_usize..5);
    (set, controlled, any::<bool>()).prop_map(|(set, (mut turns, policies, kind), is_later)| {
        let (case, elements, steps, is_simple) = set;
        let case = if is_simple { Case { elements, steps, ..case } } else { case };
        let is_plain = kind == 0;
        if is_plain {
            turns.retain(|turn| !says(turn));
        }
        // Many begin with a complete rollout.
        let begin = [Turn::Word(Word::Calm(30)), Turn::Commit];
        let (policies, begin) = match (is_plain, is_later) {
            (true, _) => (Vec::new(), begin.to_vec()),
            (false, true) => {
                let [calm, commit] = begin;
                (Vec::new(), vec![calm, Turn::Word(Word::Policies(policies)), commit])
            }
            (false, false) => (policies, Vec::new()),
        };
        turns.splice(0..0, begin);
        Case { turns, policies: Some(policies), ..case }
    })
}

/// Whether a person says something about the rollout with it.
fn says(turn: &Turn) -> bool {
    match turn {
        Turn::Word(word) => !matches!(word, Word::HoldRuns | Word::DeleteRun | Word::Calm(_)),
        _ => false,
    }
}

impl Case {
    /// Whether nobody says anything about the rollout.
    fn is_plain(&self) -> bool {
        self.policies.as_ref().is_some_and(Vec::is_empty) && !self.turns.iter().any(says)
    }

    fn bit(&self, at: u16) -> bool {
        self.bits & (1 << at) != 0
    }

    /// Runs the case to its end.
    pub fn run(self) {
        let spec = Spec {
            rolling: true,
            steps: self.steps.clone(),
            reverse: self.bit(0) && self.bit(1),
            policy: "sync",
            elements: self
                .elements
                .iter()
                .enumerate()
                .map(|(at, (label, automated))| {
                    (
                        format!("app-{at:02}"),
                        Element { label: *label, path: 1, automated: *automated },
                    )
                })
                .collect(),
            invalid: Default::default(),
            fails: false,
        };
        let timeout = (!(self.bit(2) && self.bit(3))).then(|| SignedDuration::from_secs(300));
        let rules =
            Rules { progressing_timeout: timeout, capture_drift: !(self.bit(4) && self.bit(5)) };
        let rollout = rollout::RolloutSettings {
            rules,
            require_live_health: self.bit(6) && self.bit(7),
            pin_revisions: !(self.bit(8) && self.bit(9)),
        };
        let settings =
            DecisionSettings { progressive_syncs: true, rollout, ..DecisionSettings::default() };
        let now = "2026-01-02T12:00:00Z".parse().unwrap();
        let mut world = World::new(spec, settings, now);
        world.repeats = self.bit(10) && self.bit(11);
        world.prunes = self.prunes;
        world.is_plain = self.is_plain();
        world.model = self.policies.as_deref().map(RunModel::new);
        world.repeats |= world.model.is_some();
        world.run_due(2);
        for turn in &self.turns {
            world.take(turn);
            world.run_due(if self.bit(15) { 2 } else { 1 });
        }
        let is_deleted = self.policies.is_none() && self.bit(12) && self.bit(13) && self.bit(14);
        world.end(self.lost, is_deleted);
    }
}
