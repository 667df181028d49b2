//! A fleet, and what happens to it: drawn from a seed, and plain data, so that it can be made
//! smaller.

use std::time::Duration;

use kube_sim::{Disturbance, Effect, SplitMix64};
use wavegate::simulation::{Fault, Part};

/// What is simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// What chance comes from.
    pub seed: u64,
    pub sets: Vec<Set>,
    pub apps: Vec<App>,
    pub policy: Policy,
    /// Whether it begins with the creation of the Applications.
    pub is_first: bool,
    pub replicas: usize,
    /// In the order of time.
    pub events: Vec<Event>,
}

/// An ApplicationSet.
#[derive(Clone, Debug, PartialEq)]
pub struct Set {
    pub name: &'static str,
    /// The limit of each step.
    pub steps: Vec<MaxUpdate>,
}

/// The `maxUpdate` of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxUpdate {
    Unlimited,
    Count(u64),
    Percent(u64),
}

impl MaxUpdate {
    /// How many of so many (AS-341).
    pub fn of(self, total: usize) -> usize {
        match self {
            Self::Unlimited => usize::MAX,
            Self::Count(count) => count as usize,
            Self::Percent(0) => 0,
            Self::Percent(percent) => (total * percent as usize / 100).max(1),
        }
    }
}

/// An Application.
#[derive(Clone, Debug, PartialEq)]
pub struct App {
    pub name: String,
    /// The number of its set.
    pub set: usize,
    /// The number of its step.
    pub step: usize,
    /// Whether it has hooks before and after the sync.
    pub has_hooks: bool,
    /// Whether it has objects in waves before and after its workload.
    pub has_waves: bool,
    /// Whether each second commit removes an object, which is pruned.
    pub prunes: bool,
    /// How long a hook takes.
    pub sync: Duration,
    /// How long its workload takes.
    pub health: Duration,
    /// The commit whose workload fails.
    pub fails_at: Option<u64>,
}

/// What a policy says; all of it empty: there is none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    pub gate: Option<Gate>,
    /// The budget of failures.
    pub failures: Option<u64>,
    pub max_in_flight: Option<u64>,
}

/// A gate before a step of all sets.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// The number of the step.
    pub step: usize,
    pub approvals: usize,
    pub soak: Duration,
}

/// Something that happens.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub at: Duration,
    pub what: What,
}

/// What happens.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A commit.
    Push,
    /// All replicas are killed.
    Restart,
    Pause,
    Resume,
    Approve,
    Retry,
    Abort,
    Rollback,
    /// An Application is left out of the run.
    Skip(String),
    /// A user changes a deployed object.
    Drift(String),
    /// An Application is taken out of its set.
    Remove(String),
    Fault(Fault),
}

/// How large a fleet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// 4 to 8 Applications.
    Small,
    /// About 30.
    Middle,
    /// About 200.
    Large,
}

/// The source of chance.
struct Chance(SplitMix64);

impl Chance {
    /// From `low` to `high`.
    fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.next() % (high - low + 1)
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.0.next() % 100 < percent
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[(self.0.next() % of.len() as u64) as usize].clone()
    }

    fn seconds(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.range(low * 1000, high * 1000))
    }
}

/// Faults happen in this time.
const TROUBLE: u64 = 5 * 60;

impl Case {
    /// The case of a seed.
    pub fn of(seed: u64, size: Size) -> Self {
        let mut chance = Chance(SplitMix64::new(seed ^ 0x5ee0_f1ee_7000_0000));
        let chance = &mut chance;
        let count = match size {
            Size::Small => chance.range(4, 8),
            Size::Middle => chance.range(25, 35),
            Size::Large => chance.range(150, 250),
        } as usize;
        let names: &[&str] = if chance.percent(25) { &["mall", "shop"] } else { &["shop"] };
        let sets: Vec<Set> = names.iter().map(|name| Set { name, steps: steps(chance) }).collect();
        let apps = (0..count).map(|index| app(chance, &sets, index)).collect::<Vec<_>>();
        let policy = policy(chance, &sets);
        let is_first = chance.percent(60);
        let replicas = if chance.percent(30) { 2 } else { 1 };
        let mut events = Vec::new();
        for _ in 0..chance.one(&[0, 1, 1, 2]) {
            let at = chance.seconds(20, TROUBLE);
            events.push(Event { at, what: What::Push });
        }
        for _ in 0..chance.range(0, 5) {
            let at = chance.seconds(0, TROUBLE);
            events.push(Event { at, what: What::Fault(fault(chance)) });
        }
        for _ in 0..chance.one(&[0, 0, 1, 2]) {
            events.push(Event { at: chance.seconds(1, TROUBLE), what: What::Restart });
        }
        people(chance, &apps, &policy, &mut events);
        events.sort_by_key(|event| event.at);
        Self { seed, sets, apps, policy, is_first, replicas, events }
    }

    /// The number of the last commit: the first is 1, what was there before is 0.
    pub fn last_commit(&self) -> u64 {
        1 + self.events.iter().filter(|event| event.what == What::Push).count() as u64
    }

    /// When the last fault is over.
    pub fn trouble_ends(&self) -> Duration {
        let end = |event: &Event| match &event.what {
            What::Fault(fault) => event.at.saturating_add(fault.lasting()),
            _ => event.at,
        };
        self.events.iter().map(end).max().unwrap_or_default()
    }

    /// Whether it is taken out of its set.
    pub fn is_removed(&self, name: &str) -> bool {
        self.events.iter().any(|event| event.what == What::Remove(name.to_owned()))
    }

    pub fn app(&self, name: &str) -> Option<&App> {
        self.apps.iter().find(|app| app.name == name)
    }

    /// The limit of a step, and its Applications.
    pub fn step(&self, set: usize, step: usize) -> impl Iterator<Item = &App> {
        self.apps.iter().filter(move |app| app.set == set && app.step == step)
    }

    /// Whether something of this kind happens.
    pub fn has(&self, is_it: impl Fn(&What) -> bool) -> bool {
        self.events.iter().any(|event| is_it(&event.what))
    }
}

fn steps(chance: &mut Chance) -> Vec<MaxUpdate> {
    let limit = |chance: &mut Chance| match chance.range(0, 5) {
        0 => MaxUpdate::Unlimited,
        1 | 2 => MaxUpdate::Count(1),
        3 => MaxUpdate::Count(2),
        4 => MaxUpdate::Percent(50),
        _ => MaxUpdate::Percent(25),
    };
    (0..chance.one(&[1, 2, 2, 3])).map(|_| limit(chance)).collect()
}

fn app(chance: &mut Chance, sets: &[Set], index: usize) -> App {
    let set = index % sets.len();
    let step = chance.range(0, sets[set].steps.len() as u64 - 1) as usize;
    App {
        name: format!("{}-{step}-{index}", sets[set].name),
        set,
        step,
        has_hooks: chance.percent(30),
        has_waves: chance.percent(30),
        prunes: chance.percent(25),
        sync: chance.seconds(1, 20),
        health: chance.seconds(1, 60),
        fails_at: chance.percent(4).then(|| chance.range(1, 3)),
    }
}

fn policy(chance: &mut Chance, sets: &[Set]) -> Policy {
    if chance.percent(50) {
        return Policy::default();
    }
    let most = sets.iter().map(|set| set.steps.len()).max().unwrap_or(1) as u64;
    let gate = |chance: &mut Chance| Gate {
        step: chance.range(0, most - 1) as usize,
        approvals: chance.range(0, 1) as usize,
        soak: chance.one(&[Duration::ZERO, Duration::from_secs(60), Duration::from_secs(300)]),
    };
    Policy {
        gate: chance.percent(50).then(|| gate(chance)),
        failures: chance.percent(30).then(|| chance.range(0, 2)),
        max_in_flight: chance.percent(40).then(|| chance.range(1, 4)),
    }
}

fn people(chance: &mut Chance, apps: &[App], policy: &Policy, events: &mut Vec<Event>) {
    let any = |chance: &mut Chance| chance.one(apps).name;
    let mut add = |at: Duration, what: What| events.push(Event { at, what });
    if chance.percent(15) {
        let at = chance.seconds(1, TROUBLE);
        add(at, What::Pause);
        add(at + chance.seconds(10, 300), What::Resume);
    }
    if policy.gate.is_some() && chance.percent(50) {
        add(chance.seconds(1, TROUBLE), What::Approve);
    }
    if chance.percent(10) {
        add(chance.seconds(60, TROUBLE), What::Drift(any(chance)));
    }
    if chance.percent(10) {
        add(chance.seconds(60, TROUBLE), What::Remove(any(chance)));
    }
    if chance.percent(5) {
        add(chance.seconds(10, TROUBLE), What::Skip(any(chance)));
    }
    match chance.range(0, 40) {
        0 => add(chance.seconds(10, TROUBLE), What::Abort),
        1 => add(chance.seconds(10, TROUBLE), What::Rollback),
        2 => add(chance.seconds(10, TROUBLE), What::Retry),
        _ => {}
    }
}

fn fault(chance: &mut Chance) -> Fault {
    let part = |chance: &mut Chance| {
        chance.one(&[
            Part::All,
            Part::ControlPlane,
            Part::Destination,
            Part::Writes,
            Part::Resource("applications"),
            Part::Resource("applicationsets"),
            Part::Resource("rolloutruns"),
            Part::Resource("deployments"),
        ])
    };
    let of = part(chance);
    match chance.range(0, 15) {
        0 => Fault::Requests {
            of,
            effect: Effect::Latency(chance.seconds(0, 8)),
            percent: chance.one(&[20, 100]),
            lasting: chance.seconds(5, 90),
        },
        1..=6 => Fault::Requests {
            of,
            effect: effect(chance),
            percent: chance.one(&[20, 60, 100]),
            lasting: chance.seconds(2, 60),
        },
        7..=9 => {
            let (disturbance, lasting) = match chance.range(0, 5) {
                0 => (Disturbance::Silence(chance.seconds(5, 200)), Duration::ZERO),
                1 => (Disturbance::Delay(chance.seconds(0, 20)), chance.seconds(10, 90)),
                2 => (Disturbance::Repeat(chance.range(1, 20) as usize), Duration::ZERO),
                3 => (Disturbance::Expire, Duration::ZERO),
                4 => (Disturbance::Close, Duration::ZERO),
                _ => (Disturbance::Cut, Duration::ZERO),
            };
            Fault::Watches { of, disturbance, lasting }
        }
        10 => Fault::Vanishes {
            resource: chance.one(&[
                "applications",
                "applicationsets",
                "rolloutruns",
                "rolloutpolicies",
                "deployments",
                "appprojects",
            ]),
            code: chance.one(&[403, 404]),
            lasting: chance.seconds(2, 120),
        },
        11 => Fault::DestinationDown(chance.seconds(2, 120)),
        12 => match chance.percent(50) {
            true => Fault::ClockBack(chance.seconds(1, 90)),
            false => Fault::ServerClockBack(chance.seconds(1, 90)),
        },
        13 => Fault::LeaderFrozen(chance.seconds(1, 50)),
        _ => Fault::Crash { at: chance.range(1, 40) as u32, is_applied: chance.percent(50) },
    }
}

fn effect(chance: &mut Chance) -> Effect {
    let late = chance.seconds(1, 20);
    chance.one(&[
        Effect::Status(409),
        Effect::Status(500),
        Effect::Status(503),
        Effect::StatusRetryAfter(429, 3),
        Effect::StatusAfterApplying(504),
        Effect::StatusAfterApplying(500),
        Effect::Drop,
        Effect::DropAfterApplying,
        Effect::CutAnswer,
        Effect::LatencyAfterApplying(late),
        Effect::HangAfterApplying,
        Effect::Hang,
    ])
}
