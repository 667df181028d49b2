//! RolloutPolicy (ST-001, ST-010 … ST-050): what holds and limits rollouts.
//!
//! It is a kind of Wavegate, like [RolloutRun](crate::run). Nothing needs them: where their
//! definitions are not installed, rollouts go on as without them.

mod understood;

use serde_json::Value;

pub use self::understood::understood_policy_spec;
use crate::generators::LabelSelector;
use crate::{IntOrString, ReadError, read_typed};

/// The kind of policies.
pub const POLICY: &str = "RolloutPolicy";
/// The plural of policies, as in paths.
pub const POLICIES: &str = "rolloutpolicies";

/// A positive Go duration, such as `1h30m`.
const DURATION: &str = r"^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$";
/// The texts of a limit; a number is a limit as well.
const NUMBER_OR_PERCENTAGE: &str = "^([0-9]{1,9}|([0-9]{1,2}|100)%)$";

/// What a gate without a selection lacks.
const HOLDS_NOTHING: &str = "a gate needs applications or steps: the Applications that it holds";
/// What a gate lacks that never opens.
const OPENED_BY_NOTHING: &str = "a gate needs approvals or soak: what opens it";
/// What a sink without an address lacks.
pub const NO_ADDRESS: &str = "a sink needs url, or secretRef to a Secret with the key url";

/// What is wrong with a `spec` by the rules of the definition (`x-kubernetes-validations`), as an
/// API server evaluates them; each with its field.
pub fn broken_rules(spec: &Value) -> Vec<ReadError> {
    let has = |object: &Value, field: &str| object.get(field).is_some_and(|value| !value.is_null());
    let items = |field: &'static str| {
        let items = spec.get(field).and_then(Value::as_array).into_iter().flatten();
        items.enumerate().map(move |(index, item)| (format!("spec.{field}[{index}]"), item))
    };
    let mut broken = Vec::new();
    for (place, gate) in items("gates") {
        let rule = |reason: &str| ReadError { path: place.clone(), reason: reason.to_owned() };
        let has_steps = gate["steps"].as_array().is_some_and(|steps| !steps.is_empty());
        if !has(gate, "applications") && !has_steps {
            broken.push(rule(HOLDS_NOTHING));
        }
        let approvals = &gate["approvals"];
        if !has(gate, "soak") && (approvals.is_null() || approvals.as_i64().is_some_and(|n| n <= 0))
        {
            broken.push(rule(OPENED_BY_NOTHING));
        }
    }
    for (place, sink) in items("notify") {
        if !has(sink, "url") && !has(sink, "secretRef") {
            broken.push(ReadError { path: place, reason: NO_ADDRESS.to_owned() });
        }
    }
    broken
}

/// Reads the `spec` of a policy; an absent one says nothing.
///
/// # Errors
///
/// The first field that cannot be read, such as `spec.gates[0].soak`.
pub fn policy_spec(policy: &Value) -> Result<RolloutPolicySpec, ReadError> {
    #[derive(serde::Deserialize)]
    struct Fields {
        spec: Option<RolloutPolicySpec>,
    }
    read_typed::<Fields>(policy).map(|fields| fields.spec.unwrap_or_default())
}

lenient! {
    /// What holds and limits the rollouts of the ApplicationSets that it selects.
    pub struct RolloutPolicySpec {
        /// The ApplicationSets of the namespace that the policy applies to; all when empty.
        pub application_sets: SetSelector,
        /// Promote nothing while true. Running syncs end by themselves.
        #[schemars(extend("default" = false))]
        pub paused: bool,
        /// Hold some Applications until people approve, or until a time has passed.
        #[schemars(length(max = 20))]
        #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
        pub gates: Vec<Gate>,
        /// What to do about Applications that fail.
        pub failures: Option<Failures>,
        /// How many Applications may be in flight, besides maxUpdate.
        pub pace: Option<Pace>,
        /// How many Applications may be deleted without an approval.
        pub deletions: Option<Deletions>,
        /// Where each transition of a run is posted to.
        #[schemars(length(max = 10))]
        pub notify: Vec<Sink>,
    }

    /// Selects ApplicationSets of the namespace; all conditions must match. Empty selects all.
    pub struct SetSelector {
        /// Names.
        pub names: Vec<String>,
        /// Labels that must have these values.
        pub match_labels: std::collections::BTreeMap<String, String>,
        /// Additional conditions.
        pub match_expressions: Vec<crate::generators::LabelSelectorRequirement>,
    }

    /// Holds the Applications that it selects until it opens for a run (ST-010).
    #[schemars(extend("required" = ["name"], "x-kubernetes-validations" = [
        {
            "rule": "has(self.applications) || (has(self.steps) && size(self.steps) > 0)",
            "message": HOLDS_NOTHING,
        },
        {
            "rule": "has(self.soak) || (has(self.approvals) && self.approvals > 0)",
            "message": OPENED_BY_NOTHING,
        },
    ]))]
    pub struct Gate {
        /// Name of the gate, unique in the policy.
        #[schemars(length(min = 1, max = 63))]
        pub name: String,
        /// Applications by their generated labels.
        pub applications: Option<LabelSelector>,
        /// Applications by the number of their step, counted from 1.
        #[schemars(length(max = 100), inner(range(min = 1)))]
        pub steps: Vec<i64>,
        /// Number of people who have to approve.
        #[schemars(range(min = 0, max = 20))]
        pub approvals: i64,
        /// How long the Applications of all earlier steps have to be Healthy, such as 30m.
        #[schemars(length(max = 32), regex(pattern = DURATION))]
        pub soak: String,
    }

    /// What to do about Applications that fail in a run (ST-040 … ST-043).
    pub struct Failures {
        /// How many may fail, as a number or as a percentage of the step, rounded down.
        #[schemars(extend("minimum" = 0, "pattern" = NUMBER_OR_PERCENTAGE))]
        pub max: Option<IntOrString>,
        /// What to do when more fail: Hold, Abort, Rollback or Continue.
        #[schemars(extend("enum" = OnFailure::WORDS, "default" = OnFailure::default()))]
        pub on_failure: OnFailure,
        /// Do that as soon as so many Applications fail with the same signature.
        #[schemars(range(min = 1))]
        pub same: Option<i64>,
        /// An Application fails when it is not Healthy so long after its promotion, such as 20m.
        #[schemars(length(max = 32), regex(pattern = DURATION))]
        pub deadline: String,
        /// Whether Applications count that were not Healthy before: Count or Ignore.
        #[schemars(extend("enum" = Baseline::WORDS, "default" = Baseline::default()))]
        pub baseline: Baseline,
    }

    /// Limits of a step besides maxUpdate (ST-030).
    pub struct Pace {
        /// Begins a step with few Applications.
        pub ramp: Option<Ramp>,
        /// Limits the Applications in flight for each value of a label.
        pub spread: Option<Spread>,
        /// Most Applications in flight of all selected ApplicationSets together.
        #[schemars(range(min = 1))]
        pub max_in_flight: Option<i64>,
    }

    /// Begins a step with few Applications, and multiplies after each batch without a failure.
    pub struct Ramp {
        /// Size of the first batch; 1 when absent.
        #[schemars(range(min = 1), extend("default" = 1))]
        pub start: Option<i64>,
        /// Factor after each batch without a failure; 2 when absent.
        #[schemars(range(min = 1, max = 100), extend("default" = 2))]
        pub factor: Option<i64>,
    }

    /// Limits the Applications in flight for each value of a label.
    #[schemars(extend("required" = ["label", "max"]))]
    pub struct Spread {
        /// Key of the label; Applications without it count as one value.
        #[schemars(length(min = 1, max = 317))]
        pub label: String,
        /// Most Applications in flight for each value.
        #[schemars(range(min = 1))]
        pub max: i64,
    }

    /// Holds deletions that are too many (ST-050).
    #[schemars(extend("required" = ["max"]))]
    pub struct Deletions {
        /// Most deletions of one generation, as a number or as a percentage of the existing
        /// Applications, rounded down, at least 1.
        #[schemars(extend("minimum" = 0, "pattern" = NUMBER_OR_PERCENTAGE))]
        pub max: Option<IntOrString>,
    }

    /// Where transitions of runs are posted to (ST-084).
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "has(self.url) || has(self.secretRef)",
        "message": NO_ADDRESS,
    }]))]
    pub struct Sink {
        /// An https URL; the key `url` of the Secret when absent. With --allow-private-sinks
        /// also private addresses, and http to them.
        #[schemars(length(max = 2048), regex(pattern = r"^https?://[^/\s]+"))]
        pub url: String,
        /// Secret of the namespace with credentials for the request.
        pub secret_ref: Option<SecretRef>,
        /// Format of the message: cloudevents or slack.
        #[schemars(extend("enum" = Format::WORDS, "default" = Format::default()))]
        pub format: Format,
    }

    /// A Secret of the namespace. The key `url` is the URL; with that of the policy it must be
    /// the same. The key `header` is a header of the requests, as `Authorization: Bearer TOKEN`,
    /// the key `hmac` a key that messages are signed with, and `ca.crt` has certificates that
    /// the server is trusted by as well.
    #[schemars(extend("required" = ["name"]))]
    pub struct SecretRef {
        /// Name of the Secret.
        #[schemars(length(min = 1, max = 253))]
        pub name: String,
    }

    /// Which ApplicationSets a policy selects, and what is wrong with it.
    pub struct PolicyStatus {
        /// Generation that the status describes.
        pub observed_generation: i64,
        /// Names of the selected ApplicationSets, at most 50.
        pub application_sets: Vec<String>,
        /// Number of the selected ApplicationSets.
        pub selected: i64,
        /// Conditions: Valid says what is wrong with the policy, Effective what several
        /// policies amount to.
        pub conditions: Vec<crate::application_set::ApplicationSetCondition>,
    }
}

words! {
    /// What is done when more fail than permitted (ST-042).
    pub enum OnFailure {
        /// Only reported.
        Continue = "Continue",
        /// The run ends (ST-060).
        Abort = "Abort",
        /// The run ends, and what was started goes back (ST-061).
        Rollback = "Rollback",
        _ =>
        /// No further promotion until a person acts or they recover.
        Hold = "Hold",
    }
}

words! {
    /// Whether Applications count as failed that were not Healthy before (ST-041).
    pub enum Baseline {
        /// Not if they end no worse.
        Ignore = "Ignore",
        _ =>
        /// They do.
        Count = "Count",
    }
}

words! {
    /// The shape of a message (ST-084).
    pub enum Format {
        /// That of Slack's incoming webhooks.
        Slack = "slack",
        _ =>
        /// CloudEvents 1.0, structured JSON.
        CloudEvents = "cloudevents",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_rules_of_the_definition_are_those_of_an_api_server_as_st_010_084() {
        let cases = [
            (json!({}), vec![]),
            (json!({"gates": [{"name": "g", "steps": [1], "soak": "5m"}]}), vec![]),
            (json!({"gates": [{"name": "g", "applications": {}, "approvals": 1}]}), vec![]),
            (
                json!({"gates": [{"name": "g", "steps": [], "approvals": 0}]}),
                vec![("spec.gates[0]", HOLDS_NOTHING), ("spec.gates[0]", OPENED_BY_NOTHING)],
            ),
            (
                json!({"notify": [{"url": "https://x"}, {"format": "slack"}]}),
                vec![("spec.notify[1]", NO_ADDRESS)],
            ),
            (json!({"gates": {}, "notify": 7}), vec![]),
            // A value of another type is refused before the rules.
            (json!({"gates": [{"name": "g", "steps": [1], "approvals": "1"}]}), vec![]),
        ];
        for (spec, want) in cases {
            let broken = broken_rules(&spec);
            let broken = broken.iter().map(|rule| (rule.path.as_str(), rule.reason.as_str()));
            assert_eq!(Vec::from_iter(broken), want, "{spec}");
        }
    }
}
