//! A fleet, and what happens to it: drawn from a seed, and plain data, so that it can be made
//! smaller.

use std::time::Duration;

use kube_sim::{Disturbance, Effect, SplitMix64};
use wavegate_simulation::{Applied, ControllerPart, FleetFault};

/// What is simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// What is drawn comes from it.
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
    /// An object moves from Application to Application with each commit: the turn of this one, of
    /// so many.
    pub turn: Option<(u64, u64)>,
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
    /// The branch is set to the commit of this number, which it has had before.
    Reset(u64),
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
    /// An Application is added to its set, which does not have it at first.
    Add(String),
    /// Somebody takes the owner references from the runs.
    Disown,
    /// The settings of the controllers are deleted.
    DeleteSettings,
    /// They are created again.
    CreateSettings,
    Fault(FleetFault),
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
    /// 6 to 12 in two sets that share a limit, whose controllers are killed again and again.
    Shared,
    /// 4 to 8 in one set, whose run is aborted, and whose commit comes back afterwards.
    Aborted,
}

/// What a case is drawn from.
struct Entropy(SplitMix64);

impl Entropy {
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

/// A replica that does not renew its Lease for this time does not lead any more.
const LEASE: Duration = Duration::from_secs(15);
/// Settings that are there again are read within this time, whatever goes wrong meanwhile.
const SETTINGS_READ: Duration = Duration::from_secs(120);
/// Faults happen in this time.
const FAULTS_WITHIN: u64 = 5 * 60;

impl Case {
    /// The case of a seed.
    pub fn of(seed: u64, size: Size) -> Self {
        let mut entropy = Entropy(SplitMix64::new(seed ^ 0x5ee0_f1ee_7000_0000));
        let entropy = &mut entropy;
        let count = match size {
            Size::Small | Size::Aborted => entropy.range(4, 8),
            Size::Middle => entropy.range(25, 35),
            Size::Large => entropy.range(150, 250),
            Size::Shared => entropy.range(6, 12),
        } as usize;
        let is_shared = size == Size::Shared;
        let names: &[&str] = match is_shared || entropy.percent(25) {
            true => &["mall", "shop"],
            false => &["shop"],
        };
        let sets: Vec<Set> = names.iter().map(|name| Set { name, steps: steps(entropy) }).collect();
        let mut apps = (0..count).map(|index| app(entropy, &sets, index)).collect::<Vec<_>>();
        let mut policy = policy(entropy, &sets);
        if is_shared {
            policy.max_in_flight = Some(entropy.range(2, 3));
        }
        let is_first = entropy.percent(60);
        let replicas = if entropy.percent(30) { 2 } else { 1 };
        let mut events = Vec::new();
        for _ in 0..entropy.one(&[0, 1, 1, 2]) {
            let at = entropy.seconds(20, FAULTS_WITHIN);
            events.push(Event { at, what: What::Push });
        }
        for _ in 0..entropy.range(0, 5) {
            let at = entropy.seconds(0, FAULTS_WITHIN);
            events.push(Event { at, what: What::Fault(fault(entropy)) });
        }
        for _ in 0..entropy.one(&[0, 0, 1, 2]) {
            events.push(Event { at: entropy.seconds(1, FAULTS_WITHIN), what: What::Restart });
        }
        for _ in 0..entropy.range(3, 8) * u64::from(is_shared) {
            let at = entropy.seconds(1, FAULTS_WITHIN / 2);
            events.push(Event { at, what: What::Fault(crash(entropy)) });
        }
        if size == Size::Aborted {
            return aborted(entropy, seed, sets, apps);
        }
        people(entropy, &apps, &policy, &mut events);
        // Another replica takes over, and what the first one has sent arrives late.
        if replicas > 1 && entropy.percent(5) {
            let at = entropy.seconds(0, FAULTS_WITHIN);
            events.push(Event { at, what: What::Fault(FleetFault::LeaderFrozen(LEASE * 3)) });
        }
        events.sort_by_key(|event| event.at);
        if policy.failures.is_some() && apps.iter().all(|app| app.fails_at.is_none()) {
            // A budget that nothing uses proves nothing. Drawn apart: the other cases of the seeds
            // stay what they are.
            let mut apart = Entropy(SplitMix64::new(seed ^ 0xfa11_ed00_0000_0000));
            let last = events.iter().filter(|event| event.what == What::Push).count() as u64 + 1;
            for _ in 0..apart.range(1, 3) {
                let index = apart.range(0, apps.len() as u64 - 1) as usize;
                apps[index].fails_at = Some(apart.range(1, last));
            }
        }
        let mut case = Self { seed, sets, apps, policy, is_first, replicas, events };
        // Drawn apart for the same reason.
        if Entropy(SplitMix64::new(seed ^ 0x30ed_0000_0000_0000)).percent(40) {
            case.move_one();
        }
        case.lose_settings(&mut Entropy(SplitMix64::new(seed ^ 0x5e77_0000_0000_0000)));
        case
    }

    /// Lets the settings of the controllers be away for a while in some cases. Not where a process
    /// may start meanwhile: it would know nothing of them.
    fn lose_settings(&mut self, entropy: &mut Entropy) {
        let begins = entropy.seconds(2, 45);
        let ends = begins + entropy.seconds(20, 120);
        let restarts = |event: &Event| match &event.what {
            What::Restart => event.at <= ends + SETTINGS_READ,
            What::Fault(FleetFault::Crash { .. }) => true,
            _ => false,
        };
        if !entropy.percent(30) || self.replicas > 1 || self.events.iter().any(restarts) {
            return;
        }
        self.events.push(Event { at: begins, what: What::DeleteSettings });
        self.events.push(Event { at: ends, what: What::CreateSettings });
        self.events.sort_by_key(|event| event.at);
    }

    /// Lets an object move among the Applications that stay.
    pub fn move_one(&mut self) {
        let stays = |name: &str| !self.is_removed(name);
        let staying: Vec<bool> = self.apps.iter().map(|app| stays(&app.name)).collect();
        let count = staying.iter().filter(|stays| **stays).count() as u64;
        let staying = self.apps.iter_mut().zip(staying).filter(|(_, stays)| *stays);
        for (turn, (app, _)) in (0..).zip(staying) {
            app.turn = Some((turn, count));
        }
    }

    /// The number of the last commit: the first is 1, what was there before is 0.
    pub fn last_commit(&self) -> u64 {
        let reset = self.events.iter().rev().find_map(|event| match event.what {
            What::Push => Some(None),
            What::Reset(commit) => Some(Some(commit)),
            _ => None,
        });
        let pushed = 1 + self.events.iter().filter(|event| event.what == What::Push).count() as u64;
        reset.flatten().unwrap_or(pushed)
    }

    /// Whether the controllers are restarted after something, and the first commit comes back then.
    pub fn returns_after(&self, what: &What) -> bool {
        let of = |what: &What, from: usize| {
            let at = self.events[from..].iter().position(|event| event.what == *what)?;
            Some(from + at)
        };
        let restarted = of(what, 0).and_then(|at| of(&What::Restart, at));
        restarted.is_some_and(|at| of(&What::Reset(1), at).is_some())
    }

    /// When the last fault is over.
    pub fn faults_end(&self) -> Duration {
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

/// A case whose first commit is aborted, and comes back: at once after the one before, or after
/// others, while faults go on.
fn aborted(entropy: &mut Entropy, seed: u64, mut sets: Vec<Set>, mut apps: Vec<App>) -> Case {
    sets.truncate(1);
    apps.retain(|app| app.set == 0);
    for app in &mut apps {
        app.fails_at = None;
    }
    let mut events = Vec::new();
    let mut at = entropy.seconds(5, 60);
    let mut add = |at: Duration, what: What| events.push(Event { at, what });
    add(at, What::Abort);
    if entropy.percent(40) {
        add(at + entropy.seconds(20, 60), What::Disown);
    }
    // No other step waits for one that is new.
    let last = sets[0].steps.len() - 1;
    let late = apps.iter().rfind(|app| app.step == last).filter(|_| apps.len() > 2);
    if let Some(late) = late.filter(|_| entropy.percent(50)) {
        add(at + entropy.seconds(20, 400), What::Add(late.name.clone()));
    }
    for _ in 0..entropy.range(1, 2) {
        at += entropy.seconds(30, 120);
        add(at, What::Reset(0));
        // Before or after all are compared with it, or synced.
        at += entropy.seconds(1, 120);
        add(at, What::Reset(1));
    }
    for _ in 0..entropy.range(0, 2) {
        add(entropy.seconds(1, at.as_secs()), What::Restart);
    }
    for _ in 0..entropy.range(0, 2) {
        let lasting = entropy.seconds(2, 30);
        let fault = match entropy.percent(50) {
            true => crash(entropy),
            false => FleetFault::Requests {
                of: entropy.one(&[ControllerPart::All, ControllerPart::ControlPlane]),
                effect: Effect::Status(503),
                percent: 60,
                lasting,
            },
        };
        add(entropy.seconds(1, at.as_secs()), What::Fault(fault));
    }
    events.sort_by_key(|event| event.at);
    let policy = Policy::default();
    Case { seed, sets, apps, policy, is_first: false, replicas: 1, events }
}

fn steps(entropy: &mut Entropy) -> Vec<MaxUpdate> {
    let limit = |entropy: &mut Entropy| match entropy.range(0, 5) {
        0 => MaxUpdate::Unlimited,
        1 | 2 => MaxUpdate::Count(1),
        3 => MaxUpdate::Count(2),
        4 => MaxUpdate::Percent(50),
        _ => MaxUpdate::Percent(25),
    };
    (0..entropy.one(&[1, 2, 2, 3])).map(|_| limit(entropy)).collect()
}

fn app(entropy: &mut Entropy, sets: &[Set], index: usize) -> App {
    let set = index % sets.len();
    let step = entropy.range(0, sets[set].steps.len() as u64 - 1) as usize;
    App {
        name: format!("{}-{step}-{index}", sets[set].name),
        set,
        step,
        has_hooks: entropy.percent(30),
        has_waves: entropy.percent(30),
        prunes: entropy.percent(25),
        turn: None,
        sync: entropy.seconds(1, 20),
        health: entropy.seconds(1, 60),
        fails_at: entropy.percent(4).then(|| entropy.range(1, 3)),
    }
}

fn policy(entropy: &mut Entropy, sets: &[Set]) -> Policy {
    if entropy.percent(50) {
        return Policy::default();
    }
    let most = sets.iter().map(|set| set.steps.len()).max().unwrap_or(1) as u64;
    let gate = |entropy: &mut Entropy| Gate {
        step: entropy.range(0, most - 1) as usize,
        approvals: entropy.range(0, 1) as usize,
        soak: entropy.one(&[Duration::ZERO, Duration::from_secs(60), Duration::from_secs(300)]),
    };
    Policy {
        gate: entropy.percent(50).then(|| gate(entropy)),
        failures: entropy.percent(30).then(|| entropy.range(0, 2)),
        max_in_flight: entropy.percent(40).then(|| entropy.range(1, 4)),
    }
}

fn people(entropy: &mut Entropy, apps: &[App], policy: &Policy, events: &mut Vec<Event>) {
    let any = |entropy: &mut Entropy| entropy.one(apps).name;
    let mut add = |at: Duration, what: What| events.push(Event { at, what });
    if entropy.percent(15) {
        let at = entropy.seconds(1, FAULTS_WITHIN);
        add(at, What::Pause);
        add(at + entropy.seconds(10, 300), What::Resume);
    }
    if policy.gate.is_some() && entropy.percent(50) {
        add(entropy.seconds(1, FAULTS_WITHIN), What::Approve);
    }
    if entropy.percent(10) {
        add(entropy.seconds(60, FAULTS_WITHIN), What::Drift(any(entropy)));
    }
    if entropy.percent(10) {
        add(entropy.seconds(60, FAULTS_WITHIN), What::Remove(any(entropy)));
    }
    if entropy.percent(5) {
        add(entropy.seconds(10, FAULTS_WITHIN), What::Skip(any(entropy)));
    }
    match entropy.range(0, 40) {
        0 => add(entropy.seconds(10, FAULTS_WITHIN), What::Abort),
        1 => add(entropy.seconds(10, FAULTS_WITHIN), What::Rollback),
        2 => add(entropy.seconds(10, FAULTS_WITHIN), What::Retry),
        _ => {}
    }
}

fn fault(entropy: &mut Entropy) -> FleetFault {
    let part = |entropy: &mut Entropy| {
        entropy.one(&[
            ControllerPart::All,
            ControllerPart::ControlPlane,
            ControllerPart::Destination,
            ControllerPart::Writes,
            ControllerPart::Resource("applications"),
            ControllerPart::Resource("applicationsets"),
            ControllerPart::Resource("rolloutruns"),
            ControllerPart::Resource("deployments"),
        ])
    };
    let of = part(entropy);
    match entropy.range(0, 15) {
        0 => FleetFault::Requests {
            of,
            effect: Effect::Latency(entropy.seconds(0, 8)),
            percent: entropy.one(&[20, 100]),
            lasting: entropy.seconds(5, 90),
        },
        1..=6 => FleetFault::Requests {
            of,
            effect: effect(entropy),
            percent: entropy.one(&[20, 60, 100]),
            lasting: entropy.seconds(2, 60),
        },
        7..=9 => {
            let mut of = of;
            // No watch writes anything.
            while of == ControllerPart::Writes {
                of = part(entropy);
            }
            let (disturbance, lasting) = match entropy.range(0, 5) {
                0 => (Disturbance::Silence(entropy.seconds(5, 200)), Duration::ZERO),
                1 => (Disturbance::Delay(entropy.seconds(0, 20)), entropy.seconds(10, 90)),
                2 => (Disturbance::Repeat(entropy.range(1, 20) as usize), Duration::ZERO),
                3 => (Disturbance::Expire, Duration::ZERO),
                4 => (Disturbance::Close, Duration::ZERO),
                _ => (Disturbance::Cut, Duration::ZERO),
            };
            FleetFault::Watches { of, disturbance, lasting }
        }
        10 => FleetFault::Vanishes {
            resource: entropy.one(&[
                "applications",
                "applicationsets",
                "rolloutruns",
                "rolloutpolicies",
                "deployments",
                "appprojects",
            ]),
            code: entropy.one(&[403, 404]),
            lasting: entropy.seconds(2, 120),
        },
        11 => FleetFault::DestinationDown(entropy.seconds(2, 120)),
        12 => match entropy.percent(50) {
            true => FleetFault::ClockBack(entropy.seconds(1, 90)),
            false => FleetFault::ServerClockBack(entropy.seconds(1, 90)),
        },
        13 => FleetFault::LeaderFrozen(entropy.seconds(1, 50)),
        _ => crash(entropy),
    }
}

fn crash(entropy: &mut Entropy) -> FleetFault {
    let at = entropy.range(1, 40) as u32;
    let late = Duration::from_millis(entropy.range(1, 10_000));
    let applied = [Applied::Never, Applied::AtOnce, Applied::After(late)];
    FleetFault::Crash { at, applied: entropy.one(&applied) }
}

fn effect(entropy: &mut Entropy) -> Effect {
    let late = entropy.seconds(1, 20);
    entropy.one(&[
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
