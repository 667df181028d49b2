//! Events in random order, and a quiet end in which every rollout completes.

use jiff::SignedDuration;
use proptest::prelude::{Just, any, prop_oneof};
use proptest::strategy::Strategy;
use serde_json::{Value, json};

use super::super::super::Settings;
use super::super::super::stored::Status;
use super::checks;
use super::spec::{Element, SET, Spec, Step};
use super::world::{Fault, World};
use crate::decide::rollout::phase::{Phase, Rules};
use crate::decide::rollout::{self};

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
            Step { values, is_unknown: kind == 4, limit }
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
    let of_one = (0_usize..11, index(), 0_usize..6).prop_map(|(kind, index, label)| match kind {
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
        24 => proptest::collection::vec(element(), 1..6),
        4 => proptest::collection::vec(element(), 6..13),
        1 => proptest::collection::vec(element(), 13..31),
    ];
    let turns = prop_oneof![
        2 => proptest::collection::vec(quiet(), 0..16),
        3 => proptest::collection::vec(prop_oneof![2 => quiet(), 1 => disturbing()], 0..16),
    ];
    (elements, steps(), turns, 0_usize..12, any::<u16>()).prop_map(
        |(elements, steps, turns, lost, bits)| {
            let element = |(label, is_automated, enabled): (usize, bool, bool)| {
                (label, is_automated.then_some(enabled))
            };
            let elements = elements.into_iter().map(element).collect();
            Case { elements, steps, turns, lost, bits }
        },
    )
}

impl Case {
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
        let rollout = rollout::Settings {
            rules,
            require_live_health: self.bit(6) && self.bit(7),
            pin_revisions: !(self.bit(8) && self.bit(9)),
        };
        let settings = Settings { progressive_syncs: true, rollout, ..Settings::default() };
        let now = "2026-01-02T12:00:00Z".parse().unwrap();
        let mut world = World::new(spec, settings, now);
        world.repeats = self.bit(10) && self.bit(11);
        world.run_due(2);
        for turn in &self.turns {
            world.take(turn);
            world.run_due(2);
        }
        let is_deleted = self.bit(12) && self.bit(13) && self.bit(14);
        world.end(self.lost, is_deleted);
    }
}

impl World {
    /// Reconciles while there is something to do, at most `limit` times.
    pub fn run_due(&mut self, limit: usize) {
        for _ in 0..limit {
            let is_due = self.wake.is_some_and(|at| at <= self.cluster.now);
            if self.is_gone || !(self.queued || is_due) {
                return;
            }
            self.reconcile();
        }
    }

    /// Passes time; the controller wakes up when it asked for it.
    fn sleep(&mut self, milliseconds: i64) {
        let end = self.cluster.now + SignedDuration::from_millis(milliseconds);
        for _ in 0..60 {
            let Some(wake) = self.wake.filter(|wake| *wake <= end) else { break };
            self.cluster.now = wake.max(self.cluster.now);
            self.run_due(1);
        }
        self.cluster.now = end.max(self.cluster.now);
    }

    fn name(&self, index: usize) -> String {
        format!("app-{:02}", index % self.spec.elements.len().max(1))
    }

    /// An event; it triggers a reconcile.
    fn take(&mut self, turn: &Turn) {
        self.queued = true;
        self.cluster.wait(300);
        match turn {
            Turn::All => {
                self.advance_all();
            }
            Turn::Sleep(tenths) => self.sleep(i64::from(*tenths) * 100),
            Turn::Commit => self.cluster.push(),
            Turn::Fault(writes, fault) => {
                self.faults.push((*writes, *fault));
                self.advance_all();
            }
            Turn::Crash => self.restart(),
            Turn::HoldSet => self.set_is_held = true,
            Turn::Release => {
                self.held.clear();
                self.set_is_held = false;
            }
            Turn::Specs => self.edit(|spec| {
                spec.elements.values_mut().for_each(|element| element.path += 1);
            }),
            Turn::Template => self.edit(|spec| spec.fails = !spec.fails),
            Turn::Steps(steps) => self.edit(|spec| spec.steps.clone_from(steps)),
            Turn::Strategy => self.edit(|spec| spec.rolling = !spec.rolling),
            Turn::Policy(policy) => self.edit(|spec| spec.policy = policy),
            Turn::Feature => {
                self.settings.progressive_syncs = !self.settings.progressive_syncs;
                self.configuration += 1;
                self.restart();
            }
            Turn::Wipe => {
                self.configuration += 1;
                self.set.status = Status::default();
                self.touch_set();
            }
            Turn::One(index)
            | Turn::Hold(index)
            | Turn::Fail(index)
            | Turn::Manual(index)
            | Turn::Break(index)
            | Turn::Drift(index)
            | Turn::Degrade(index)
            | Turn::Touch(index)
            | Turn::Spec(index)
            | Turn::Label(index, _)
            | Turn::Toggle(index)
            | Turn::Invalid(index)
            | Turn::Foreign(index) => {
                let name = self.name(*index);
                self.take_of(turn, &name);
            }
        }
    }

    /// An event of one Application.
    fn take_of(&mut self, turn: &Turn, name: &str) {
        match turn {
            Turn::Hold(_) => drop(self.held.insert(name.to_owned())),
            Turn::Fail(_) => self.cluster.change(name, |app| app.fails = true),
            Turn::Manual(_) => drop(self.cluster.sync_manually(name)),
            Turn::Break(_) => self.cluster.change(name, |app| {
                (app.broken, app.stale) = (!app.broken, true);
            }),
            Turn::Drift(_) => self.cluster.change(name, |app| {
                (app.drifted, app.stale) = (app.deployed.is_some(), true);
            }),
            Turn::Degrade(_) => self.cluster.change(name, |app| {
                (app.degraded, app.stale) = (!app.degraded, true);
            }),
            Turn::Touch(_) => self.cluster.change(name, |_| {}),
            Turn::Foreign(_) => {
                let owner = json!({"kind": "ApplicationSet", "name": "other", "uid": "other", "controller": true});
                let object = json!({
                    "metadata": {"name": name, "namespace": "argocd", "ownerReferences": [owner]},
                    "spec": {"project": "other", "source": {"path": "other"}, "destination": {}},
                });
                let _ = self.cluster.create(name, object);
            }
            Turn::Spec(_) => self.edit(|spec| {
                if let Some(element) = spec.elements.get_mut(name) {
                    element.path += 1;
                }
            }),
            Turn::Label(_, label) => self.edit(|spec| {
                if let Some(element) = spec.elements.get_mut(name) {
                    element.label = *label;
                }
            }),
            Turn::Toggle(_) => self.edit(|spec| {
                let element = Element { label: 1, path: 1, automated: Some(true) };
                if spec.elements.remove(name).is_none() {
                    spec.elements.insert(name.to_owned(), element);
                }
            }),
            Turn::Invalid(_) => self.edit(|spec| {
                if !spec.invalid.remove(name) {
                    spec.invalid.insert(name.to_owned());
                }
            }),
            _ => drop(self.cluster.advance(name)),
        }
    }

    /// Lets the application controller continue with all Applications; returns
    /// whether it did anything.
    fn advance_all(&mut self) -> bool {
        let names: Vec<String> = self.cluster.apps.keys().cloned().collect();
        let mut moved = false;
        for name in &names {
            moved |= self.cluster.advance(name);
        }
        moved
    }

    /// Errors are fixed, and the cluster is left alone until everything is
    /// complete.
    fn end(&mut self, lost: usize, is_deleted: bool) {
        self.faults.clear();
        self.held.clear();
        self.set_is_held = false;
        let broken: Vec<String> = self.cluster.apps.keys().cloned().collect();
        for name in &broken {
            self.cluster.change(name, |app| {
                app.stale |= app.broken || app.degraded;
                (app.broken, app.fails, app.degraded) = (false, false, false);
            });
            if self.cluster.apps[name].owner() != SET {
                self.cluster.apps.remove(name);
            }
        }
        self.edit(|spec| {
            spec.fails = false;
            spec.invalid.clear();
            // A set without steps waits for its user (AS-304).
            spec.rolling &= !spec.steps.is_empty();
        });
        if is_deleted {
            self.set.is_deleting = true;
            self.is_gone = self.set.finalizers.is_empty();
            self.touch_set();
        }
        for round in 0..600 {
            if self.is_gone {
                return;
            }
            if self.queued || self.wake.is_some_and(|at| at <= self.cluster.now) {
                self.reconcile();
                self.cluster.wait(100);
            } else if self.advance_all() {
                // I10: no event of this round arrives.
                self.queued = round != lost;
                self.cluster.wait(300);
            } else if self.help() {
                self.queued = true;
            } else if !self.set.is_deleting && self.is_complete() {
                return self.check_end();
            } else {
                checks::wakes(self);
                let wake =
                    self.wake.unwrap_or_else(|| panic!("I10: it waits for ever: {}", self.state()));
                self.cluster.now = wake.max(self.cluster.now);
            }
        }
        panic!("I10: it never ends: {}", self.state());
    }

    /// What only a user can do: sync Applications whose sync failed, that
    /// drifted while they were Progressing (R10), or whose step is held
    /// (AS-343).
    fn help(&mut self) -> bool {
        let entries = self.set.status.entries.iter().flatten();
        let is_stuck = |phase: Phase, step: Option<usize>| match phase {
            Phase::Progressing => true,
            Phase::Waiting => step.is_some_and(|step| {
                self.spec.steps.get(step).is_some() && self.spec.allowed(step) == Some(0)
            }),
            Phase::Pending | Phase::Healthy => false,
        };
        let stuck = entries.filter(|entry| is_stuck(entry.phase, entry.step));
        let needs = |name: &String| self.cluster.apps.get(name).is_some_and(|app| app.needs_sync());
        let names: Vec<String> =
            stuck.map(|entry| entry.application.clone()).filter(needs).collect();
        let mut helped = false;
        for name in names {
            helped |= self.cluster.sync_manually(&name);
        }
        helped
    }

    fn is_rolling(&self) -> bool {
        self.spec.rolling && self.settings.progressive_syncs
    }

    fn is_complete(&self) -> bool {
        let progressing = self.set.status.has("RolloutProgressing", "True");
        let exist = self.spec.elements.keys().all(|name| self.cluster.apps.contains_key(name));
        let is_new = self.is_rolling() && self.set.status.entries.is_none();
        exist && !progressing && !is_new && (self.is_fresh() || !self.is_rolling())
    }

    /// The rollout is complete (I10), and nothing is written any more (I4).
    fn check_end(&mut self) {
        if self.is_rolling() {
            for (name, element) in &self.spec.elements {
                let app = &self.cluster.apps[name];
                let path = if self.spec.policy().updates() {
                    element.path()
                } else {
                    app.path().to_owned()
                };
                let is_done = app.deployed == Some((path, self.cluster.commit));
                let has_step = !self.spec.steps_of(name).is_empty();
                assert!(is_done || !has_step || self.timed_out, "I10: {name}: {}", self.state());
            }
            for entry in self.set.status.to_json()["applicationStatus"].as_array().unwrap() {
                assert!(entry["targetRevisions"].is_array(), "I5: {entry}");
            }
        }
        // Entries of Applications without a step may still become Healthy, and
        // a status that nothing depends on may be due.
        for _ in 0..6 {
            self.cluster.wait(1100);
            self.reconcile();
            if self.is_settled {
                break;
            }
        }
        self.cluster.wait(31_000);
        let writes = self.cluster.writes;
        self.reconcile();
        let is_idle = self.is_settled && self.cluster.writes == writes;
        assert!(is_idle, "I4: {}", self.state());
    }

    fn state(&self) -> String {
        let mut text = format!(
            "now {} wake {:?}\n{}\n",
            self.cluster.now,
            self.wake,
            self.set.status.to_json()
        );
        for (name, app) in &self.cluster.apps {
            text.push_str(&format!("{name}: deployed {:?} {}\n", app.deployed, app.object));
        }
        text
    }
}
