//! What goes wrong between the controllers and the API server.

use std::fmt;
use std::time::Duration;

use kube_sim::{Disturbance, Effect, RequestRecord, Server, SplitMix64};

use super::lifeline::Applied;
use super::replica::is_controller;
use wavegate_api::GROUP;

/// Something that goes wrong. Only the controllers notice it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FleetFault {
    /// Requests fail, or take long.
    Requests {
        /// Which.
        of: ControllerPart,
        /// What happens to them.
        effect: Effect,
        /// To how many of 100, drawn from the seed.
        percent: u8,
        /// For how long.
        lasting: Duration,
    },
    /// Something happens to the watches that are open.
    Watches {
        /// Which.
        of: ControllerPart,
        /// What happens.
        disturbance: Disturbance,
        /// After this time, delayed events come in time again.
        lasting: Duration,
    },
    /// A kind is not served, or may not be read, for a time.
    Vanishes {
        /// Its resource.
        resource: &'static str,
        /// 404: it is not defined, and discovery does not list it; 403: it may not be read or
        /// written.
        code: u16,
        /// For how long.
        lasting: Duration,
    },
    /// The cluster of the workloads cannot be reached for a time.
    DestinationDown(Duration),
    /// The clocks of the controllers step back.
    ClockBack(Duration),
    /// The clock of the API server, which the controllers share, steps back.
    ServerClockBack(Duration),
    /// The replica that leads is cut off from the API server for a time, in both directions: what
    /// it asks for meanwhile arrives late, also when it does not wait for it any more. The process
    /// itself goes on, and so do its timers, and what its open watches bring: it is no pause.
    LeaderFrozen(Duration),
    /// Each replica is killed at a request of its own, and starts again.
    Crash {
        /// At which request, counted from now.
        at: u32,
        /// Whether this request is executed.
        applied: Applied,
    },
}

/// A part of the requests of the controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControllerPart {
    /// All.
    All,
    /// Those of ApplicationSets, Applications and their projects, policies and runs, and of the
    /// Secrets and ConfigMaps beside them.
    ControlPlane,
    /// Those of what is deployed, and of what the cluster serves.
    Destination,
    /// Those that change something.
    Writes,
    /// Those of one resource.
    Resource(&'static str),
}

/// The verbs that change something.
const WRITES: [&str; 6] = ["create", "update", "patch", "apply", "delete", "deletecollection"];

impl ControllerPart {
    /// Whether a request of the controllers is in it.
    pub fn has(self, request: &RequestRecord) -> bool {
        if !is_controller(&request.client) {
            return false;
        }
        // Of a cluster, what is deployed is read in all namespaces at once.
        let is_of_namespace = !request.namespace.is_empty()
            && ["list", "watch"].contains(&&*request.verb)
            && ["secrets", "configmaps"].contains(&&*request.resource);
        let is_of_control_plane = [GROUP, wavegate_api::WAVEGATE_GROUP].contains(&&*request.group)
            || ["leases", "events"].contains(&&*request.resource)
            || is_of_namespace;
        match self {
            Self::All => true,
            Self::ControlPlane => is_of_control_plane,
            Self::Destination => !is_of_control_plane,
            Self::Writes => WRITES.contains(&&*request.verb),
            Self::Resource(resource) => request.resource == resource,
        }
    }
}

impl FleetFault {
    /// How long it lasts by itself.
    pub fn lasting(&self) -> Duration {
        match self {
            Self::Requests { lasting, .. } | Self::Vanishes { lasting, .. } => *lasting,
            Self::DestinationDown(lasting) | Self::LeaderFrozen(lasting) => *lasting,
            Self::Watches { disturbance, lasting, .. } => match disturbance {
                Disturbance::Silence(time) => *time,
                Disturbance::Delay(time) => lasting.saturating_add(*time),
                _ => Duration::ZERO,
            },
            Self::Crash { applied: Applied::After(time), .. } => *time,
            Self::ClockBack(_) | Self::ServerClockBack(_) | Self::Crash { .. } => Duration::ZERO,
        }
    }

    /// Lets happen what happens to requests and watches; the rest is for the replicas.
    pub(super) fn happen(&self, server: &Server, seed: u64) {
        let inject = |part: ControllerPart, effect: Effect, percent: u8, lasting: Duration| {
            let mut random = SplitMix64::new(seed);
            let matcher = move |request: &RequestRecord| {
                part.has(request) && random.next() % 100 < u64::from(percent)
            };
            server.inject(kube_sim::InjectedFault::new(effect, matcher).lasting(lasting));
        };
        let discovers = |request: &RequestRecord| {
            is_controller(&request.client) && request.resource.starts_with('/')
        };
        match self {
            Self::Requests { of, effect, percent, lasting } => {
                inject(*of, effect.clone(), *percent, *lasting);
            }
            Self::Watches { of, disturbance, lasting } => {
                let of = *of;
                server.disturb(disturbance, |watch| of.has(watch));
                if matches!(disturbance, Disturbance::Delay(_)) {
                    let (server, lasting) = (server.clone(), *lasting);
                    tokio::spawn(async move {
                        tokio::time::sleep(lasting).await;
                        server.disturb(&Disturbance::Delay(Duration::ZERO), |watch| of.has(watch));
                    });
                }
            }
            Self::Vanishes { resource, code, lasting } => {
                let effect = match code {
                    403 => Effect::Forbidden,
                    code => Effect::Status(*code),
                };
                let part = ControllerPart::Resource(resource);
                inject(part, effect, 100, *lasting);
                if *code == 404 {
                    let unlisted =
                        kube_sim::InjectedFault::new(Effect::Unlisted(resource), discovers);
                    server.inject(unlisted.lasting(*lasting));
                }
                server.disturb(&Disturbance::Close, |watch| part.has(watch));
            }
            Self::DestinationDown(lasting) => {
                inject(ControllerPart::Destination, Effect::Drop, 100, *lasting);
                server.disturb(&Disturbance::Cut, |watch| ControllerPart::Destination.has(watch));
            }
            Self::ServerClockBack(_)
            | Self::ClockBack(_)
            | Self::LeaderFrozen(_)
            | Self::Crash { .. } => {}
        }
    }
}

impl fmt::Display for FleetFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requests { of, effect, percent, lasting } => {
                write!(f, "{percent} % of the requests ({of:?}): {effect:?} for {lasting:?}")
            }
            Self::Watches { of, disturbance, .. } => write!(f, "watches ({of:?}): {disturbance:?}"),
            Self::Vanishes { resource, code, lasting } => {
                write!(f, "{resource} answer {code} for {lasting:?}")
            }
            Self::DestinationDown(time) => write!(f, "the destination is down for {time:?}"),
            Self::ClockBack(time) => write!(f, "the controllers' clocks step back by {time:?}"),
            Self::ServerClockBack(time) => write!(f, "all clocks step back by {time:?}"),
            Self::LeaderFrozen(time) => write!(f, "the leader is cut off for {time:?}"),
            Self::Crash { at, applied } => match applied {
                Applied::Never => write!(f, "the controllers are killed before their request {at}"),
                Applied::AtOnce => write!(f, "the controllers are killed after their request {at}"),
                Applied::After(time) => write!(
                    f,
                    "the controllers are killed after their request {at}, which is executed after \
                     {time:?}"
                ),
            },
        }
    }
}
