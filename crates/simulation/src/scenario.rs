//! What is simulated, and what of it differs from what users see.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::action::ScheduledAction;
use super::behavior::Behavior;
use super::sources::Manifests;

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The namespace of the control plane.
    pub namespace: String,
    /// ApplicationSets, policies, projects and namespaces, as a user wrote them.
    pub objects: Vec<Value>,
    /// The Applications that the sets generate, by name.
    pub behaviors: BTreeMap<String, Behavior>,
    /// Those of them that the rollout does not count: no step selects them, and nothing syncs them.
    pub uncounted: BTreeSet<String>,
    /// When it begins, by the clock of the simulation.
    pub start: Timestamp,
    /// What there is before it begins.
    pub before: FleetBefore,
    /// What happens, by the time since the start.
    pub actions: Vec<ScheduledAction>,
    /// What happens unless all is complete before, all of it later than the actions.
    pub remedies: Vec<ScheduledAction>,
    /// After this time it is given up.
    pub limit: Duration,
    /// How many replicas of the controllers run, of which one leads.
    pub replicas: usize,
    /// Whether the log of the API server is kept.
    pub logs: bool,
    /// Gives the same course each time; another one, another order of what is simultaneous.
    pub seed: u64,
}

/// What there is before a change.
#[derive(Clone, Debug)]
pub enum FleetBefore {
    /// Nothing: the change creates the Applications.
    Nothing,
    /// The Applications at the first commit, which the controllers have rolled out.
    RolledOut,
    /// The same, of which these are known to have been deployed before: they and their objects
    /// exist when the controllers start. Their namespaces are among the objects.
    Deployed(Arc<DeployedBefore>),
}

/// The Applications of each set, as they are generated.
pub type DeployedBefore = BTreeMap<String, Vec<Value>>;

/// What is different from a simulation that users see.
#[derive(Default)]
pub struct Setup {
    /// Gets each request and each change of an object, in place of the log.
    pub record: Option<FleetRecord>,
    /// Wraps the client of the controllers.
    pub client: Option<Wrap>,
    /// What Applications deploy, instead of one workload each.
    pub manifests: Option<Manifests>,
    /// Whether all is as it shall be at last: remedies are left out then.
    pub is_settled: Option<Box<dyn Fn() -> bool + Send>>,
    /// How many Applications of a set are written at a time, instead of as many as in a demo.
    pub concurrent_updates: Option<u16>,
    /// Is set when the change begins, by the clock of the API server as if never shifted.
    pub started: Option<Arc<OnceLock<Timestamp>>>,
}

/// Gets what happens at the API server.
pub type FleetRecord = Box<dyn FnMut(kube_sim::RecordedRequest) + Send>;

/// Makes a client of another one.
pub type Wrap = Box<dyn Fn(kube::Client) -> kube::Client + Send>;

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setup").finish_non_exhaustive()
    }
}
