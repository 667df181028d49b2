//! Policies, people and stored runs in the simulated cluster.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use proptest::prelude::{Just, any, prop_oneof};
use proptest::strategy::Strategy;
use serde_json::{Value, json};

use super::guards::Door;
use super::limits::Ramp;
use super::world::World;
use crate::application_set::deletion::deletion_guard;
use crate::rollout::policy::{Policy, Rules};
use crate::rollout::run_input::{CurrentRun, Pool, RunInput, StaleRequests};
use wavegate_api::Time;
use wavegate_api::policy::RolloutPolicySpec;
use wavegate_api::run::{
    Abort, Approval, Retry, RolloutRunSpec, RolloutRunStatus, RunPhase, UserRequest,
};
use wavegate_api::time::stored_time;

/// What a person does about a rollout.
#[derive(Clone, Debug)]
pub enum Word {
    /// Pauses or resumes the set.
    Pause,
    /// Pauses or resumes a policy.
    PausePolicy(usize),
    /// Writes other policies.
    Policies(Vec<Value>),
    /// One of three people approves a gate, or what it or another one covered earlier, or
    /// nothing that ever was.
    Approve { gate: usize, by: usize, covers: Covers },
    /// Skips an Application, or no longer.
    Skip(usize),
    /// Ends the run.
    Abort(bool),
    /// Takes the run back.
    Rollback,
    /// Retries all, or one.
    Retry(Option<usize>),
    /// Deletes the latest run.
    DeleteRun,
    /// Approves the deletions that are held, or others.
    ApproveDeletions(bool),
    /// Other sets have so many in flight, as far as the limit permits.
    Elsewhere(u64),
    /// Changes of runs are delayed, or arrive.
    HoldRuns,
    /// The cluster goes on for some rounds.
    Calm(usize),
}

/// What an approval is for.
#[derive(Clone, Copy, Debug)]
pub enum Covers {
    /// What is behind the gate.
    Present,
    /// What was behind a gate before.
    Outdated,
    /// Nothing.
    Nothing,
}

fn covers() -> impl Strategy<Value = Covers> {
    let all =
        [Covers::Present, Covers::Present, Covers::Present, Covers::Outdated, Covers::Nothing];
    proptest::sample::select(all.to_vec())
}

fn index() -> impl Strategy<Value = usize> {
    0_usize..30
}

fn one_of(values: &[Value]) -> impl Strategy<Value = Value> + use<> {
    proptest::sample::select(values.to_vec())
}

fn gate() -> impl Strategy<Value = Value> {
    let selected = prop_oneof![
        (0_usize..2)
            .prop_map(|zone| json!({"applications": {"matchLabels": {"zone": zone.to_string()}}})),
        (1_usize..4)
            .prop_map(|step| json!({"applications": {"matchLabels": {"step": step.to_string()}}})),
        (1_i64..4).prop_map(|step| json!({ "steps": [step] })),
    ];
    let soak = one_of(&[json!(""), json!(""), json!("2s"), json!("20s")]);
    (selected, 0_i64..3, soak).prop_map(|(mut gate, approvals, soak)| {
        (gate["approvals"], gate["soak"]) = (approvals.into(), soak);
        gate
    })
}

fn failures() -> impl Strategy<Value = Value> {
    let maxima =
        [json!(null), json!(0), json!(1), json!(2), json!("10%"), json!("50%"), json!("100%")];
    let max = one_of(&maxima);
    let same = one_of(&[json!(null), json!(null), json!(1), json!(2)]);
    let deadline = one_of(&[json!(""), json!(""), json!("5s"), json!("60s")]);
    let acts = one_of(&[json!("Hold"), json!("Abort"), json!("Rollback"), json!("Continue")]);
    let baseline = one_of(&[json!("Count"), json!("Ignore")]);
    (max, same, deadline, acts, baseline).prop_map(|(max, same, deadline, acts, baseline)| {
        json!({"max": max, "same": same, "deadline": deadline, "onFailure": acts, "baseline": baseline})
    })
}

fn pace() -> impl Strategy<Value = Value> {
    let ramp = proptest::option::of((1_i64..3, 1_i64..3));
    let spread = proptest::option::of((any::<bool>(), 1_i64..3));
    let shared = proptest::option::of(1_i64..4);
    (ramp, spread, shared).prop_map(|(ramp, spread, shared)| {
        let ramp = ramp.map(|(start, factor)| json!({"start": start, "factor": factor}));
        let spread = spread
            .map(|(zone, max)| json!({"label": if zone { "zone" } else { "step" }, "max": max}));
        json!({"ramp": ramp, "spread": spread, "maxInFlight": shared})
    })
}

fn policy() -> impl Strategy<Value = Value> {
    let deletions =
        one_of(&[json!(null), json!(null), json!(0), json!(1), json!("10%"), json!("50%")]);
    (
        proptest::collection::vec(gate(), 0..3),
        proptest::option::of(failures()),
        proptest::option::of(pace()),
        deletions,
        0_usize..12,
    )
        .prop_map(|(mut gates, failures, pace, deletions, paused)| {
            for (at, gate) in gates.iter_mut().enumerate() {
                gate["name"] = format!("gate-{at}").into();
            }
            let deletions = (!deletions.is_null()).then(|| json!({ "max": deletions }));
            json!({
                "paused": paused == 0, "gates": gates, "failures": failures, "pace": pace,
                "deletions": deletions,
            })
        })
}

/// The policies of a set.
pub fn policies() -> impl Strategy<Value = Vec<Value>> {
    proptest::collection::vec(policy(), 0..3)
}

/// What people do.
pub fn words() -> impl Strategy<Value = Word> {
    prop_oneof![
        2 => Just(Word::Pause),
        1 => (0_usize..3).prop_map(Word::PausePolicy),
        1 => policies().prop_map(Word::Policies),
        6 => (0_usize..4, 0_usize..3, covers())
            .prop_map(|(gate, by, covers)| Word::Approve { gate, by, covers }),
        2 => index().prop_map(Word::Skip),
        1 => any::<bool>().prop_map(Word::Abort),
        2 => Just(Word::Rollback),
        2 => Just(Word::Retry(None)),
        2 => index().prop_map(|index| Word::Retry(Some(index))),
        1 => Just(Word::DeleteRun),
        1 => any::<bool>().prop_map(Word::ApproveDeletions),
        2 => (0_u64..4).prop_map(Word::Elsewhere),
        1 => Just(Word::HoldRuns),
        6 => (1_usize..25).prop_map(Word::Calm),
    ]
}

/// A run at the API server.
#[derive(Clone, Debug)]
pub struct Run {
    pub name: String,
    /// Another one of the same name has another version.
    pub version: u64,
    pub spec: RolloutRunSpec,
    pub status: RolloutRunStatus,
}

/// Policies and runs of the set, and what is remembered to check them.
#[derive(Debug, Default)]
pub struct RunModel {
    pub policies: Vec<RolloutPolicySpec>,
    /// At the API server, the oldest first.
    pub runs: Vec<Run>,
    /// Those that the controller knows.
    pub known: Vec<Run>,
    pub is_held: bool,
    pub elsewhere: u64,
    /// What this set takes of a limit that sets share.
    pub in_flight: u64,
    pub rules: Rules,
    pools: Vec<Pool>,
    history: Vec<RolloutRunStatus>,
    late: Vec<StaleRequests>,
    pub written_at: Option<Timestamp>,
    /// The hashes that gates covered, each with the targets.
    pub covered: BTreeMap<String, BTreeMap<String, String>>,
    /// Gates by run and number.
    pub doors: BTreeMap<(String, usize, String), Door>,
    /// The ramps of runs.
    pub ramps: BTreeMap<String, Ramp>,
    /// The health of Applications when a run began, by run.
    pub health_before: BTreeMap<String, BTreeMap<String, String>>,
    /// Applications with targets that were aborted.
    pub quarantine: BTreeSet<(String, String)>,
    /// Held deletions by the hash that approves them.
    pub deletions: BTreeMap<String, BTreeSet<String>>,
}

impl RunModel {
    pub fn new(policies: &[Value]) -> Self {
        Self { policies: read(policies), ..Self::default() }
    }

    /// The most Applications in flight of all sets.
    pub fn shared(&self) -> Option<u64> {
        let of = |policy: &RolloutPolicySpec| policy.pace.as_ref()?.max_in_flight;
        self.policies.iter().filter_map(of).min().map(i64::unsigned_abs)
    }

    /// Reads what the controller knows of it.
    pub fn observe(&mut self, generated: &crate::application_set::generate::generated::Generated) {
        if !self.is_held {
            self.known.clone_from(&self.runs);
        }
        let before = self.known.len().saturating_sub(1);
        self.history = self.known[..before].iter().map(|run| run.status.clone()).collect();
        let late = |run: &Run| StaleRequests::of(&run.name, &run.spec, &run.status);
        self.late = self.known[..before].iter().filter_map(late).collect();
        let applications = generated.selectable();
        let policies: Vec<Policy> = self
            .policies
            .iter()
            .enumerate()
            .map(|(at, spec)| Policy { name: format!("policy-{at}"), spec: Ok(spec.clone()) })
            .collect();
        let steps = generated.strategy.steps().len();
        self.rules = Rules::of(&policies, "set", &BTreeMap::new(), &applications, steps);
        let pool = |(policy, max): &(String, u64)| Pool {
            policy: policy.clone(),
            max: *max,
            elsewhere: self.elsewhere,
            users: Vec::new(),
            reserved: 0,
            waiting: 0,
        };
        self.pools = self.rules.pools.iter().map(pool).collect();
    }

    pub fn input<'a>(&'a self, paused: Option<&'a str>) -> RunInput<'a> {
        RunInput {
            namespace: "argocd",
            set: "set",
            rules: &self.rules,
            paused,
            paused_by: None,
            resumed_by: None,
            run: self.known.last().map(|run| CurrentRun {
                name: &run.name,
                spec: &run.spec,
                skip_manager: None,
                status: &run.status,
                unreadable: None,
            }),
            records_runs: true,
            hides_runs: false,
            hides_policies: false,
            taken: 0,
            pools: &self.pools,
            history: &self.history,
            late: &self.late,
            written_at: self.written_at,
        }
    }
}

fn read(policies: &[Value]) -> Vec<RolloutPolicySpec> {
    policies.iter().map(|policy| serde_json::from_value(policy.clone()).unwrap()).collect()
}

const PEOPLE: [&str; 3] = ["alice", "bob", "carol"];

impl World {
    /// A person changes the latest run.
    fn say(&mut self, change: impl FnOnce(&mut RolloutRunSpec, &RolloutRunStatus)) {
        self.cluster.version += 1;
        let version = self.cluster.version;
        if let Some(run) = self.model.as_mut().and_then(|model| model.runs.last_mut()) {
            change(&mut run.spec, &run.status);
            run.version = version;
        }
    }

    /// What a person does.
    pub fn hear(&mut self, word: &Word) {
        let at = Some(Time(stored_time(self.cluster.now)));
        let by = || "alice".to_owned();
        match word {
            Word::Pause => {
                let is_paused = self.set.paused.is_some();
                self.set.paused = (!is_paused).then(|| "a reason".to_owned());
                self.touch_set();
            }
            Word::Approve { gate, by, covers } => {
                let old: Vec<String> =
                    self.model.iter().flat_map(|model| model.covered.keys().cloned()).collect();
                let (by, covers) = (PEOPLE[*by].to_owned(), *covers);
                self.say(|spec, status| {
                    let Some(gate) = status.gates.get(*gate) else { return };
                    let covers = match covers {
                        Covers::Present => Some(gate.covers.clone()),
                        Covers::Outdated => old.into_iter().find(|old| *old != gate.covers),
                        Covers::Nothing => Some("0".repeat(16)),
                    };
                    let Some(covers) = covers else { return };
                    spec.approvals.push(Approval { gate: gate.name.clone(), by, at, covers });
                });
            }
            Word::Skip(index) => {
                let name = self.name(*index);
                self.say(|spec, _| match spec.skip.iter().position(|one| *one == name) {
                    Some(at) => drop(spec.skip.remove(at)),
                    None => spec.skip.push(name),
                });
            }
            Word::Abort(terminate) => {
                let terminate = *terminate;
                self.say(|spec, _| spec.abort = Some(Abort { by: by(), at, terminate }));
            }
            Word::Rollback => self.say(|spec, _| {
                spec.rollback = Some(UserRequest { by: by(), at });
            }),
            Word::Retry(index) => {
                let name = index.map(|index| self.name(index));
                self.retry(name.into_iter().collect());
            }
            Word::ApproveDeletions(is_right) => self.approve_deletions(*is_right),
            Word::Calm(rounds) => self.go_on(*rounds),
            _ => self.change_surroundings(word),
        }
    }

    fn change_surroundings(&mut self, word: &Word) {
        let Some(model) = &mut self.model else { return };
        match word {
            Word::PausePolicy(index) => {
                if let Some(policy) = model.policies.get_mut(*index) {
                    policy.paused = !policy.paused;
                }
            }
            Word::Policies(policies) => model.policies = read(policies),
            Word::DeleteRun => {
                // What it aborted and began is forgotten with it, once the controller knows.
                model.is_held = false;
                if let Some(run) = model.runs.pop() {
                    model.quarantine.clear();
                    model.doors.retain(|(known, ..), _| *known != run.name);
                    model.ramps.remove(&run.name);
                }
            }
            Word::HoldRuns => model.is_held = !model.is_held,
            Word::Elsewhere(_) | Word::Calm(_) => {}
            other => unreachable!("{other:?}"),
        }
        let wanted = match word {
            Word::Elsewhere(count) => *count,
            _ => model.elsewhere,
        };
        // Other sets keep the limit, too.
        let free = model.shared().unwrap_or_default().saturating_sub(model.in_flight);
        model.elsewhere = wanted.min(free);
    }

    /// A person retries these Applications, or all.
    fn retry(&mut self, applications: Vec<String>) {
        let at = Some(Time(stored_time(self.cluster.now)));
        if self.model.as_ref().is_none_or(|model| model.runs.is_empty()) {
            return;
        }
        let Some(model) = &mut self.model else { return };
        model
            .quarantine
            .retain(|(name, _)| !applications.is_empty() && !applications.contains(name));
        for name in &applications {
            self.cluster.forgive(name);
        }
        self.say(|spec, _| {
            spec.retries.push(Retry { by: "alice".to_owned(), at, applications });
        });
    }

    fn approve_deletions(&mut self, is_right: bool) {
        let message = self.set.status.condition("DeletionsHeld");
        let message = message.map(|condition| condition.message.clone());
        let hash = message
            .as_deref()
            .and_then(deletion_guard::approval_of)
            .map(|(_, hash)| hash.to_owned());
        self.set.approved_deletions = if is_right { hash } else { Some("0".repeat(16)) };
        self.touch_set();
    }

    /// The cluster goes on by itself.
    fn go_on(&mut self, rounds: usize) {
        for _ in 0..rounds {
            let moved = self.advance_all();
            self.queued |= moved;
            self.cluster.wait(300);
            self.run_due(2);
        }
    }

    /// Nobody pauses any more, and other sets are done.
    pub fn resume(&mut self) {
        let Some(model) = &mut self.model else { return };
        model.policies.iter_mut().for_each(|policy| policy.paused = false);
        (model.is_held, model.elsewhere) = (false, 0);
        self.set.paused = None;
        self.touch_set();
    }

    /// Everything is approved and retried, and nothing skipped.
    pub fn permit_all(&mut self) {
        self.cluster.wait(1100);
        let at = Some(Time(stored_time(self.cluster.now)));
        self.approve_deletions(true);
        self.say(|spec, status| {
            spec.skip.clear();
            for gate in &status.gates {
                for by in PEOPLE {
                    spec.approvals.push(Approval {
                        gate: gate.name.clone(),
                        by: by.to_owned(),
                        at: at.clone(),
                        covers: gate.covers.clone(),
                    });
                }
            }
        });
        let entries = self.set.status.entries.iter().flatten();
        let held: Vec<String> = entries
            .filter(|entry| entry.is_held())
            .map(|entry| entry.application.clone())
            .collect();
        self.retry(Vec::new());
        if !held.is_empty() {
            self.retry(held);
        }
        self.queued = true;
    }

    /// The phase of the latest run, in words.
    pub fn runs_in_words(&self) -> String {
        let Some(model) = &self.model else { return String::new() };
        let mut text = format!("policies {}\n", json!(model.policies));
        for run in &model.runs {
            text.push_str(&format!("{}: {} {}\n", run.name, json!(run.spec), json!(run.status)));
        }
        text
    }

    /// Deletes the oldest ended runs.
    pub fn delete_old_runs(&mut self) {
        let Some(model) = &mut self.model else { return };
        let is_old =
            |run: &Run| run.status.phase.has_ended() && run.status.phase != RunPhase::Complete;
        while model.runs.len() > 3
            && let Some(at) = model.runs[..model.runs.len() - 1].iter().position(is_old)
        {
            drop(model.runs.remove(at));
        }
    }
}
