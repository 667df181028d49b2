//! What a set generates, and what its spec says about it: made once for each
//! generation of the set, and kept compact until the next.

use std::collections::BTreeMap;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::ignore::{self, Ignore};
use super::policy::Policy;
use super::preserve::Preserve;
use super::validate::Target;
use super::{Settings, autosync, deletion, shape};
use crate::api::annotations::ROLLOUT;
use crate::decide::rollout::steps::{self, Labels, Membership, Problem, Strategy};
use crate::decide::rollout::{self};
use crate::desired;

/// What a spec comes to.
#[derive(Debug)]
pub struct Generated {
    /// The `metadata.generation` of the set that it was made from.
    pub generation: i64,
    /// How changes reach the Applications.
    pub strategy: Strategy,
    /// What is wrong with `spec.strategy` by itself.
    pub strategy_problems: Vec<Problem>,
    /// All that is wrong with the configuration of the rollout.
    pub rollout_problems: Vec<Problem>,
    /// Unknown fields and words of the gate; while there is any, the set is held.
    pub misspelt: Vec<Problem>,
    /// Whether the strategy has steps and progressive syncs are enabled.
    pub has_steps: bool,
    /// Whether the Applications are deleted in reverse order (AS-380).
    pub deletes_in_reverse: bool,
    /// What may be written.
    pub policy: Policy,
    /// What is wrong with the policy that the set asks for.
    pub policy_problem: Option<String>,
    /// What is kept of live metadata.
    pub preserve: Preserve,
    /// Fields that are not compared and not written.
    pub ignore: Ignore,
    /// What is wrong with the rules for them.
    pub ignore_problems: Vec<ignore::Problem>,
    /// Why nothing could be generated.
    pub error: Option<desired::Error>,
    /// The Applications by what they are called; none when generating failed.
    pub applications: Vec<Wanted>,
}

/// A generated Application.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// What it is called: its name, or where it comes from when it has none.
    pub name: Box<str>,
    /// Its JSON, as generated.
    json: Box<[u8]>,
    /// A digest of its spec as it is written.
    pub digest: Box<str>,
    /// Whether its automated sync is switched on as generated.
    pub is_automated: bool,
    /// The steps that its labels put it into.
    pub steps: Membership,
    /// Its project and destination.
    pub target: Target,
    /// What is wrong with it by itself, whatever there is in the cluster.
    pub problem: Option<String>,
    /// Why it is not known which of its fields are to be left alone: it is not
    /// written then (AS-162, AS-164).
    pub unusable_rule: Option<String>,
}

impl Wanted {
    /// The Application as generated.
    pub fn original(&self) -> Value {
        // It was written here, by a serializer.
        serde_json::from_slice(&self.json).unwrap_or_default()
    }

    /// The Application as it is to be written: in a rollout its automated sync is
    /// switched off (AS-370).
    pub fn written(&self, in_rollout: bool) -> Value {
        let mut application = self.original();
        if in_rollout {
            autosync::disable(&mut application);
        }
        application
    }
}

impl Generated {
    /// The Application of a name.
    pub fn get(&self, name: &str) -> Option<&Wanted> {
        let at = self.applications.binary_search_by(|wanted| (*wanted.name).cmp(name)).ok()?;
        self.applications.get(at)
    }

    /// Applications whose automated sync is switched off for the rollout.
    pub fn switched_off(&self) -> impl Iterator<Item = &str> {
        let wanted = self.applications.iter().filter(|_| self.has_steps);
        wanted.filter(|wanted| wanted.is_automated).map(|wanted| &*wanted.name)
    }

    /// RollingSync is selected and has no step (AS-304).
    pub fn is_stuck(&self, settings: &Settings) -> bool {
        settings.progressive_syncs && self.strategy.is_empty_rolling_sync()
    }

    /// RollingSync is selected but the feature is switched off (AS-301).
    pub fn is_disabled(&self, settings: &Settings) -> bool {
        !settings.progressive_syncs && matches!(self.strategy, Strategy::RollingSync(_))
    }

    /// Whether a rollout is run: without a generation nothing is decided, nor
    /// without knowing the gate; a rollout under way stays where it is (AS-141).
    pub fn is_rolling(&self) -> bool {
        self.has_steps && self.error.is_none() && self.misspelt.is_empty()
    }
}

/// Takes generated Applications one by one and keeps them compact.
#[derive(Debug)]
pub struct Collector {
    strategy: Strategy,
    in_rollout: bool,
    ignore_problems: Vec<ignore::Problem>,
    applications: Vec<Collected>,
}

#[derive(Debug)]
struct Collected {
    /// Its own name, empty when it has none.
    own_name: Box<str>,
    origin: Box<str>,
    wanted: Wanted,
}

impl Collector {
    /// Nothing is generated yet of this set.
    pub fn new(set: &Value, settings: &Settings) -> Self {
        let (strategy, _) = Strategy::read(set["spec"].get("strategy"));
        let (_, ignore_problems) = Ignore::read(set);
        let in_rollout = settings.progressive_syncs && !strategy.steps().is_empty();
        Self { strategy, in_rollout, ignore_problems, applications: Vec::new() }
    }

    /// One was generated, made of this element.
    pub fn add(&mut self, mut application: Value, origin: &str) {
        // What the rollout records of an Application is not for templates to say.
        if let Some(annotations) = application.pointer_mut("/metadata/annotations")
            && let Some(annotations) = annotations.as_object_mut()
        {
            annotations.remove(ROLLOUT);
        }
        let own_name: Box<str> = desired::name_of(&application).into();
        let name = if own_name.is_empty() { origin.into() } else { own_name.clone() };
        let labels = labels_of(&application);
        let selects = |step: &usize| self.strategy.steps()[*step].selects(&labels);
        let steps = (0..self.strategy.steps().len()).filter(selects).collect();
        let problem = shape::problem(&application).map(|problem| match own_name.is_empty() {
            true => problem,
            false => format!("{problem} (made of {origin})"),
        });
        let unusable = self.ignore_problems.iter().find(|problem| problem.concerns(&name));
        let unusable_rule = unusable.map(|problem| problem.message.clone());
        let json = serde_json::to_vec(&application).unwrap_or_default().into();
        let target = Target::of(&application);
        let is_automated = autosync::is_enabled(&application);
        if self.in_rollout {
            autosync::disable(&mut application);
        }
        let digest = digest(&application["spec"]);
        let steps = Membership { steps };
        let wanted =
            Wanted { name, json, digest, is_automated, steps, target, problem, unusable_rule };
        self.applications.push(Collected { own_name, origin: origin.into(), wanted });
    }

    /// All were generated, or none can be used.
    pub fn finish(
        mut self,
        set: &Value,
        settings: &Settings,
        error: Option<desired::Error>,
    ) -> Generated {
        if error.is_some() {
            self.applications.clear();
        }
        let (strategy, strategy_problems) = Strategy::read(set["spec"].get("strategy"));
        let own = set["spec"]["syncPolicy"]["applicationsSync"].as_str();
        let (ignore, ignore_problems) = Ignore::read(set);
        let applications = unique(self.applications);
        let memberships: BTreeMap<String, Membership> = applications
            .iter()
            .map(|wanted| (wanted.name.to_string(), wanted.steps.clone()))
            .collect();
        Generated {
            generation: set["metadata"]["generation"].as_i64().unwrap_or_default(),
            rollout_problems: rollout::all_problems(&strategy_problems, &strategy, &memberships),
            misspelt: steps::misspelt(set),
            has_steps: settings.progressive_syncs && !strategy.steps().is_empty(),
            deletes_in_reverse: deletion::is_reverse(set),
            policy: settings.policy.effective(own, settings.policy_override),
            policy_problem: Policy::problem(own, settings.policy_override),
            preserve: Preserve::new(
                set,
                &settings.preserved_annotations,
                &settings.preserved_labels,
            ),
            strategy,
            strategy_problems,
            ignore,
            ignore_problems,
            error,
            applications,
        }
    }
}

/// The Applications by what they are called; of several with one name the first
/// one is kept, and refused: nobody knows which one is meant.
fn unique(mut collected: Vec<Collected>) -> Vec<Wanted> {
    // Stable, so that those of one name keep the order they were generated in.
    collected.sort_by(|a, b| a.wanted.name.cmp(&b.wanted.name));
    let mut applications: Vec<Wanted> = Vec::with_capacity(collected.len());
    for same in collected.chunk_by(|a, b| a.wanted.name == b.wanted.name) {
        let [first, rest @ ..] = same else { continue };
        let mut wanted = first.wanted.clone();
        if let [second, others @ ..] = rest
            && !first.own_name.is_empty()
        {
            wanted.problem = Some(format!(
                "spec.template.metadata.name: {} elements give this name, {} and {}{}; it must be unique",
                same.len(),
                first.origin,
                second.origin,
                if others.is_empty() { "" } else { " among them" }
            ));
        }
        applications.push(wanted);
    }
    applications
}

/// The labels of an Application that are text.
pub fn labels_of(application: &Value) -> Labels {
    let labels = application["metadata"]["labels"].as_object().into_iter().flatten();
    labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// Eight bytes of a digest of a spec: enough to tell one version of an
/// Application from another.
pub fn digest(spec: &Value) -> Box<str> {
    let text = spec.to_string();
    let hash = Sha256::digest(text.as_bytes());
    hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect::<String>().into()
}
