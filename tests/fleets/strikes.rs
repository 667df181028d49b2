//! Which faults of a case were noticed, by the record of the API server.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube_sim::{Disturbance, Effect, Exchange, RecordedRequest};
use wavegate_simulation::{Applied, ControllerPart, FleetFault, is_controller};

use crate::case::{Case, What};

/// Faults happen this much after their time at most, and times of the record are rounded.
const SLACK: Duration = Duration::from_millis(1500);
/// What waits for the end of a fault arrives within this time after it.
const SOON: Duration = Duration::from_millis(500);

/// The kinds of faults, by the words of [`kind`].
pub const KINDS: [&str; 27] = [
    "requests Latency",
    "requests Status 409",
    "requests Status 500",
    "requests Status 503",
    "requests Status 429",
    "requests StatusAfterApplying 504",
    "requests StatusAfterApplying 500",
    "requests Drop",
    "requests DropAfterApplying",
    "requests CutAnswer",
    "requests LatencyAfterApplying",
    "requests HangAfterApplying",
    "requests Hang",
    "watches Silence",
    "watches Delay",
    "watches Repeat",
    "watches Expire",
    "watches Close",
    "watches Cut",
    "vanishes 403",
    "vanishes 404",
    "destination down",
    "clock back",
    "server clock back",
    "leader frozen",
    "crash before a request",
    "crash after a request",
];

/// The kind of a fault.
pub fn kind(fault: &FleetFault) -> String {
    let word = |debug: String| {
        let end = debug.find(['(', ' ']).unwrap_or(debug.len());
        debug[..end].to_owned()
    };
    match fault {
        FleetFault::Requests { effect: Effect::StatusRetryAfter(code, _), .. } => {
            format!("requests Status {code}")
        }
        FleetFault::Requests {
            effect: effect @ (Effect::Status(code) | Effect::StatusAfterApplying(code)),
            ..
        } => format!("requests {} {code}", word(format!("{effect:?}"))),
        FleetFault::Requests { effect, .. } => format!("requests {}", word(format!("{effect:?}"))),
        FleetFault::Watches { disturbance, .. } => {
            format!("watches {}", word(format!("{disturbance:?}")))
        }
        FleetFault::Vanishes { code, .. } => format!("vanishes {code}"),
        FleetFault::DestinationDown(_) => "destination down".to_owned(),
        FleetFault::ClockBack(_) => "clock back".to_owned(),
        FleetFault::ServerClockBack(_) => "server clock back".to_owned(),
        FleetFault::LeaderFrozen(_) => "leader frozen".to_owned(),
        FleetFault::Crash { applied: Applied::Never, .. } => "crash before a request".to_owned(),
        FleetFault::Crash { .. } => "crash after a request".to_owned(),
    }
}

/// The faults of a case.
#[derive(Debug, Default)]
pub struct Strikes {
    faults: Vec<(Duration, FleetFault)>,
    /// When all processes are killed: no crash is due any more.
    restarts: Vec<Duration>,
    /// When each fault was noticed first, by its number.
    noticed: BTreeMap<usize, Duration>,
    /// When each crash happened, by its number and the client.
    crashed: BTreeMap<(usize, String), Duration>,
    /// The requests of each client since each crash was ordered.
    counted: BTreeMap<(usize, String), u32>,
    /// The clients that asked for something while one was cut off, and those that did afterwards.
    within: BTreeMap<usize, BTreeSet<String>>,
    after: BTreeMap<usize, BTreeSet<String>>,
}

impl Strikes {
    pub fn new(case: &Case) -> Self {
        let of = |event: &crate::case::Event| match &event.what {
            What::Fault(fault) => Some((event.at, fault.clone())),
            _ => None,
        };
        let restarts = case.events.iter().filter(|event| event.what == What::Restart);
        Self {
            faults: case.events.iter().filter_map(of).collect(),
            restarts: restarts.map(|event| event.at).collect(),
            ..Self::default()
        }
    }

    /// Takes what was recorded, by the time since the start.
    pub fn see(
        &mut self,
        since_start: impl Fn(jiff::Timestamp) -> Option<Duration>,
        entry: &RecordedRequest,
    ) {
        match entry {
            RecordedRequest::Exchange(exchange) if is_controller(&exchange.request.client) => {
                if let Some(received) = since_start(exchange.received) {
                    self.request(received, exchange);
                }
            }
            RecordedRequest::Disturbed(disturbed) => {
                let Some(at) = since_start(disturbed.at) else { return };
                for (number, (due, fault)) in self.faults.iter().enumerate() {
                    let FleetFault::Watches { of, disturbance, .. } = fault else { continue };
                    let is_it = *disturbance == disturbed.disturbance && of.has(&disturbed.watch);
                    if is_it && (*due..*due + SLACK).contains(&at) {
                        self.noticed.entry(number).or_insert(at);
                    }
                }
            }
            RecordedRequest::Exchange(_) | RecordedRequest::Change(_) => {}
        }
    }

    fn request(&mut self, received: Duration, exchange: &Exchange) {
        let client = &exchange.request.client;
        for (number, (due, fault)) in self.faults.iter().enumerate() {
            if received < *due {
                continue;
            }
            let end = due.saturating_add(fault.lasting());
            let has = |of: ControllerPart, effect: &Effect| {
                exchange.effects.contains(effect)
                    && of.has(&exchange.request)
                    && received <= end.saturating_add(SLACK)
            };
            let is_noticed = match fault {
                FleetFault::Requests { of, effect, .. } => has(*of, effect),
                FleetFault::Vanishes { resource, code: 403, .. } => {
                    has(ControllerPart::Resource(resource), &Effect::Forbidden)
                }
                FleetFault::Vanishes { resource, code, .. } => {
                    has(ControllerPart::Resource(resource), &Effect::Status(*code))
                }
                FleetFault::DestinationDown(_) => has(ControllerPart::Destination, &Effect::Drop),
                FleetFault::ClockBack(_) | FleetFault::ServerClockBack(_) => true,
                FleetFault::LeaderFrozen(_) => {
                    let is_within = (*due + SLACK..end).contains(&received);
                    let is_after = (end..end + SLACK + SOON).contains(&received);
                    let clients = match (is_within, is_after) {
                        (true, _) => Some(&mut self.within),
                        (_, true) => Some(&mut self.after),
                        _ => None,
                    };
                    if let Some(clients) = clients {
                        clients.entry(number).or_default().insert(client.clone());
                    }
                    let empty = BTreeSet::new();
                    let within = self.within.get(&number).unwrap_or(&empty);
                    let after = self.after.get(&number).unwrap_or(&empty);
                    after.difference(within).next().is_some()
                }
                FleetFault::Crash { at, .. } => {
                    let is_undone =
                        self.restarts.iter().any(|restart| (*due..=received).contains(restart));
                    let later = self.faults[number + 1..].iter();
                    let is_replaced = later
                        .filter(|(_, fault)| matches!(fault, FleetFault::Crash { .. }))
                        .any(|(due, _)| *due <= received);
                    let count = self.counted.entry((number, client.clone())).or_default();
                    if !is_undone && !is_replaced && *count < *at {
                        *count += 1;
                        if *count == *at {
                            self.crashed.insert((number, client.clone()), received);
                        }
                    }
                    *count == *at
                }
                FleetFault::Watches { .. } => false,
            };
            if is_noticed {
                self.noticed.entry(number).or_insert(received);
            }
        }
    }

    /// When processes were killed by faults.
    pub fn crashes(&self) -> impl Iterator<Item = Duration> {
        self.crashed.values().copied()
    }

    /// The kinds that were noticed, each with the number of its faults.
    pub fn kinds(&self) -> BTreeMap<String, u64> {
        let mut kinds = BTreeMap::new();
        for number in self.noticed.keys() {
            *kinds.entry(kind(&self.faults[*number].1)).or_default() += 1;
        }
        kinds
    }
}

/// How long a fault may keep the controllers from knowing a resource of the control plane: until
/// it is over, and what was asked for last has been answered and is asked for again.
pub fn hides(fault: &FleetFault, resource: &str) -> Option<Duration> {
    /// The longest pause of a watch that has failed (`crates/cluster/src/watch/follow.rs`).
    const AGAIN: Duration = Duration::from_secs(10);
    /// A request that is not answered fails after this time
    /// (`crates/cluster/src/watch/time_limit.rs`).
    const UNANSWERED: Duration = Duration::from_secs(65);
    let has =
        |of: ControllerPart| ["list", "watch"].iter().any(|verb| of.has(&request(verb, resource)));
    match fault {
        FleetFault::Requests { of, effect, lasting, .. } if has(*of) => {
            let answered = match effect {
                Effect::Hang | Effect::HangAfterApplying => UNANSWERED,
                Effect::Latency(time) | Effect::LatencyAfterApplying(time) => *time,
                _ => Duration::ZERO,
            };
            Some(*lasting + answered + AGAIN)
        }
        FleetFault::Watches { of, disturbance, lasting } if has(*of) => match disturbance {
            Disturbance::Silence(time) => Some(*time),
            Disturbance::Delay(time) => Some(*lasting + *time),
            Disturbance::Repeat(_) => None,
            Disturbance::Expire | Disturbance::Close | Disturbance::Cut => Some(AGAIN),
        },
        FleetFault::Vanishes { resource: hidden, lasting, .. } if *hidden == resource => {
            Some(*lasting + AGAIN)
        }
        FleetFault::LeaderFrozen(time) => Some(*time + AGAIN),
        _ => None,
    }
}

/// By how much a fault makes a write of an Application late after it was decided, and until when.
pub fn delays(fault: &FleetFault) -> Option<(Duration, Duration)> {
    let write = request("patch", "applications");
    match fault {
        FleetFault::Requests { of, effect: Effect::Latency(time), lasting, .. }
            if of.has(&write) =>
        {
            Some((*time, *lasting + *time))
        }
        // It is sent again after what the server says (`crates/cluster/src/watch/busy.rs`).
        FleetFault::Requests {
            of, effect: Effect::StatusRetryAfter(_, seconds), lasting, ..
        } if of.has(&write) => {
            let pause = Duration::from_secs((*seconds).into());
            Some((*lasting + pause, *lasting + pause))
        }
        FleetFault::LeaderFrozen(time) => Some((*time, *time)),
        FleetFault::Crash { applied: Applied::After(time), .. } => Some((*time, Duration::MAX)),
        _ => None,
    }
}

/// A request of the controllers for a resource of the control plane.
fn request(verb: &str, resource: &str) -> kube_sim::RequestRecord {
    let group = match resource {
        "rolloutruns" | "rolloutpolicies" => "wavegate.dev",
        _ => "argoproj.io",
    };
    kube_sim::RequestRecord {
        client: "wavegate-0".to_owned(),
        verb: verb.to_owned(),
        group: group.to_owned(),
        resource: resource.to_owned(),
        namespace: crate::scenario::CONTROL_PLANE.to_owned(),
        ..kube_sim::RequestRecord::default()
    }
}
