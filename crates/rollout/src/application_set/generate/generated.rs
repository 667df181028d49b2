//! The generated Applications of a set and its parsed spec: computed once per
//! generation of the set, and kept in compact form.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::application_set::generate::autosync;
use crate::application_set::generate::ignore::{self, Ignore};
use crate::application_set::generate::policy::Policy;
use crate::application_set::generate::preserve::Preserve;
use crate::application_set::generate::shape;
use crate::application_set::generate::validate::{DeployTarget, KnownTargets, problem_of_target};
use crate::application_set::plan::write_plan::WriteGate;
use crate::application_set::settings::DecisionSettings;
use crate::desired;
use crate::desired::inputs::Reads;
use crate::rollout::policy::Selectable;
use crate::rollout::steps::{self, Labels, Membership, Problem, StepStrategy};
use crate::rollout::{self};
use wavegate_api::Raw;
use wavegate_api::annotations::{RESOURCES_FINALIZER, ROLLOUT, RUN};
use wavegate_api::live::{LiveSetSpec, LiveSpec};
use wavegate_api::raw::texts_of;
use wavegate_application::deployed::without_revisions;

/// The result of reading the spec of a set.
#[derive(Debug)]
pub struct Generated {
    /// The `metadata.generation` of the set that it was computed from.
    pub generation: i64,
    /// The strategy.
    pub strategy: StepStrategy,
    /// The configuration errors of `spec.strategy` itself.
    pub strategy_problems: Vec<Problem>,
    /// All configuration errors of the rollout.
    pub rollout_problems: Vec<Problem>,
    /// Unknown fields and values of `spec.strategy`; while there are any,
    /// nothing of the set is written.
    pub misspelt: Vec<Problem>,
    /// Whether the strategy has steps and progressive syncs are enabled.
    pub has_steps: bool,
    /// Whether the Applications are deleted in reverse order (AS-380).
    pub deletes_in_reverse: bool,
    /// The effective policy.
    pub policy: Policy,
    /// The error of the requested policy, if any.
    pub policy_problem: Option<String>,
    /// The live metadata to preserve.
    pub preserve: Preserve,
    /// Whether the resources of an Application stay when it is deleted.
    pub keeps_resources: bool,
    /// Fields that are neither compared nor written.
    pub ignore: Ignore,
    /// The errors of these rules.
    pub ignore_problems: Vec<ignore::IgnoreProblem>,
    /// Why generating failed, if it did.
    pub error: Option<desired::GenerateError>,
    /// A digest of each element of `spec.generators`.
    pub generators: Box<[Box<str>]>,
    /// What the generators used.
    pub reads: Reads,
    /// How many Applications each generator generated, by its path in the order of the spec.
    pub per_generator: Vec<(String, usize)>,
    /// The Applications by name ([`crate::desired::Generation::called`]); empty when
    /// generating failed.
    pub applications: Vec<Wanted>,
}

/// Counts Applications by the beginning of their origin, such as `spec.generators[0].list`.
fn per_generator(applications: &[Collected]) -> Vec<(String, usize)> {
    let mut counts: Vec<(String, usize)> = Vec::new();
    for application in applications {
        let path = application.origin.split_inclusive(']').next().unwrap_or_default();
        match counts.last_mut().filter(|(last, _)| last == path) {
            Some((_, count)) => *count += 1,
            None => counts.push((path.to_owned(), 1)),
        }
    }
    counts
}

/// A generated Application.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Its name, or its origin if it has no name.
    pub name: Box<str>,
    /// Its JSON, as generated.
    json: Box<[u8]>,
    /// A digest of its spec as written.
    pub digest: Box<str>,
    /// The same without the revisions of its sources.
    pub base: Box<str>,
    /// Whether its automated sync is enabled as generated.
    pub is_automated: bool,
    /// The steps selected by its labels.
    pub steps: Membership,
    /// Its project and destination.
    pub target: DeployTarget,
    /// Its validation error, independent of the cluster.
    pub problem: Option<String>,
    /// Why its ignored fields are unknown, if they are: then it is not written
    /// (AS-162, AS-164).
    pub unusable_rule: Option<String>,
}

impl Wanted {
    /// The Application as generated.
    pub fn original(&self) -> Value {
        // It was serialized here.
        serde_json::from_slice(&self.json).unwrap_or_default()
    }

    /// The Application as written: in a rollout its automated sync is disabled
    /// (AS-370).
    pub fn written(&self, in_rollout: bool) -> Value {
        let mut application = self.original();
        if in_rollout {
            autosync::disable(&mut application);
        }
        application
    }
}

impl Generated {
    /// The Application with this name.
    pub fn get(&self, name: &str) -> Option<&Wanted> {
        let at = self.applications.binary_search_by(|wanted| (*wanted.name).cmp(name)).ok()?;
        self.applications.get(at)
    }

    /// The number of Applications whose automated sync is disabled for the
    /// rollout.
    pub fn switched_off(&self) -> impl Iterator<Item = &str> {
        let wanted = self.applications.iter().filter(|_| self.has_steps);
        wanted.filter(|wanted| wanted.is_automated).map(|wanted| &*wanted.name)
    }

    /// RollingSync without steps (AS-304).
    pub fn is_stuck(&self, settings: &DecisionSettings) -> bool {
        settings.progressive_syncs && self.strategy.is_empty_rolling_sync()
    }

    /// Which writes these settings allow: none with unknown fields in the strategy or with a
    /// RollingSync without steps (AS-304), no deletions while the ignored fields of some
    /// Application are unknown (AS-162).
    pub fn gate(&self, settings: &DecisionSettings) -> WriteGate {
        if !self.misspelt.is_empty() {
            WriteGate::Shut("spec.strategy can be read")
        } else if self.is_stuck(settings) {
            WriteGate::Shut("spec.strategy.rollingSync.steps has a step")
        } else if !self.ignore_problems.is_empty() {
            WriteGate::NoDeletes("spec.ignoreApplicationDifferences can be used")
        } else {
            WriteGate::Open
        }
    }

    /// The validation errors of its Applications, by name: their own, and those that depend
    /// on the cluster.
    pub fn invalid(&self, known: &KnownTargets) -> BTreeMap<String, String> {
        let problem = |wanted: &Wanted| {
            let problem = wanted.problem.clone();
            let problem = problem.or_else(|| problem_of_target(&wanted.target, known))?;
            Some((wanted.name.to_string(), problem))
        };
        self.applications.iter().filter_map(problem).collect()
    }

    /// Why some of its Applications are not written, by name: `invalid`, and those whose
    /// ignored fields are unknown.
    pub fn unwritable(&self, invalid: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mut unwritable = invalid.clone();
        for wanted in &self.applications {
            if let Some(why) = &wanted.unusable_rule {
                unwritable.entry(wanted.name.to_string()).or_insert_with(|| why.clone());
            }
        }
        unwritable
    }

    /// RollingSync while the feature is disabled (AS-301).
    pub fn is_disabled(&self, settings: &DecisionSettings) -> bool {
        !settings.progressive_syncs && matches!(self.strategy, StepStrategy::RollingSync(_))
    }

    /// Whether the rollout is evaluated: not if generating failed, nor if the
    /// strategy is ambiguous; a running rollout keeps its state then (AS-141).
    pub fn is_rolling(&self) -> bool {
        self.has_steps && self.error.is_none() && self.misspelt.is_empty()
    }

    /// Why the set has no rollout, and none goes on: its spec says so, or the setting. `None` with
    /// a spec that may only be misspelt.
    pub fn without_rollout(&self, settings: &DecisionSettings) -> Option<&'static str> {
        let is_clear = self.error.is_none() && self.misspelt.is_empty() && !self.is_stuck(settings);
        match is_clear && !self.has_steps {
            false => None,
            true if self.is_disabled(settings) => Some(
                "progressive syncs are disabled, so the ApplicationSet is not rolled out in steps",
            ),
            true => Some("spec.strategy of the ApplicationSet is no RollingSync any more"),
        }
    }

    /// The Applications, as policies select them. Their labels are read from their texts.
    pub fn selectable(&self) -> Vec<Selectable> {
        let selectable = |wanted: &Wanted| Selectable {
            name: wanted.name.to_string(),
            labels: labels_of(&wanted.original()),
            step: wanted.steps.step(),
        };
        self.applications.iter().map(selectable).collect()
    }
}

/// Collects generated Applications in compact form.
#[derive(Debug)]
pub struct Collector {
    strategy: StepStrategy,
    in_rollout: bool,
    ignore_problems: Vec<ignore::IgnoreProblem>,
    applications: Vec<Collected>,
}

#[derive(Debug)]
struct Collected {
    /// Its name, empty when it has none.
    own_name: Box<str>,
    origin: Box<str>,
    wanted: Wanted,
}

impl Collector {
    /// Starts without Applications.
    pub fn new(set: &Value, settings: &DecisionSettings) -> Self {
        let (strategy, _) = StepStrategy::of(set);
        let (_, ignore_problems) = Ignore::read(set, &settings.jq);
        let in_rollout = settings.progressive_syncs && !strategy.steps().is_empty();
        Self { strategy, in_rollout, ignore_problems, applications: Vec::new() }
    }

    /// Adds an Application generated from this element.
    pub fn add(&mut self, mut application: Value, origin: &str) {
        // A template must not set the rollout record of an Application.
        if let Some(annotations) = application.pointer_mut("/metadata/annotations")
            && let Some(annotations) = annotations.as_object_mut()
        {
            annotations.remove(ROLLOUT);
            annotations.remove(RUN);
        }
        let own_name: Box<str> = desired::name_of(&application).into();
        let name = if own_name.is_empty() { origin.into() } else { own_name.clone() };
        let labels = labels_of(&application);
        let selects = |step: &usize| self.strategy.steps()[*step].selects(&labels);
        let steps = (0..self.strategy.steps().len()).filter(selects).collect();
        let problem = shape::shape_problem(&application).map(|problem| match own_name.is_empty() {
            true => problem,
            false => format!("{problem} (generated from {origin})"),
        });
        let unusable = self.ignore_problems.iter().find(|problem| problem.concerns(&name));
        let unusable_rule = unusable.map(|problem| problem.message.clone());
        let json = serde_json::to_vec(&application).unwrap_or_default().into();
        let spec = LiveSpec::of(&application);
        let (target, is_automated) = (DeployTarget::of(&spec), spec.is_automated());
        if self.in_rollout {
            autosync::disable(&mut application);
        }
        let base = spec_digest(&without_revisions(application.spec()));
        let digest = spec_digest(application.spec());
        let steps = Membership { steps };
        let wanted = Wanted {
            name,
            json,
            digest,
            base,
            is_automated,
            steps,
            target,
            problem,
            unusable_rule,
        };
        self.applications.push(Collected { own_name, origin: origin.into(), wanted });
    }

    /// Finishes; with an error, none of the Applications is used.
    pub fn finish(
        mut self,
        set: &Value,
        settings: &DecisionSettings,
        reads: Reads,
        error: Option<desired::GenerateError>,
    ) -> Generated {
        if error.is_some() {
            self.applications.clear();
        }
        let (strategy, strategy_problems) = StepStrategy::of(set);
        let spec = LiveSetSpec::of(set);
        let own = spec.sync_policy.applications_sync.as_deref();
        let (ignore, ignore_problems) = Ignore::read(set, &settings.jq);
        let elements = set.items("/spec/generators").iter();
        let per_generator = per_generator(&self.applications);
        let applications = unique(self.applications);
        let memberships: BTreeMap<String, Membership> = applications
            .iter()
            .map(|wanted| (wanted.name.to_string(), wanted.steps.clone()))
            .collect();
        let labels = || applications.iter().map(|wanted| labels_of(&wanted.original())).collect();
        Generated {
            generation: set.generation(),
            generators: elements.map(spec_digest).collect(),
            rollout_problems: rollout::all_problems(
                &strategy_problems,
                &strategy,
                &memberships,
                &labels,
            ),
            misspelt: steps::strategy_problems(set),
            has_steps: settings.progressive_syncs && !strategy.steps().is_empty(),
            deletes_in_reverse: is_reverse(set),
            policy: settings.policy.effective(own, settings.policy_override),
            policy_problem: Policy::problem(own, settings.policy_override),
            preserve: Preserve::new(
                &spec.preserved_fields,
                &settings.preserved_annotations,
                &settings.preserved_labels,
            ),
            keeps_resources: keeps_resources(set),
            strategy,
            strategy_problems,
            per_generator,
            ignore,
            ignore_problems,
            error,
            reads,
            applications,
        }
    }
}

/// Whether a set is deleted in reverse order: a RollingSync with steps that
/// requests it (AS-380).
pub fn is_reverse(set: &Value) -> bool {
    let order = LiveSetSpec::of(set).strategy.deletion_order;
    order.eq_ignore_ascii_case("reverse") && !StepStrategy::of(set).0.steps().is_empty()
}

/// Whether the resources of an Application stay when it is deleted: `preserveResourcesOnDeletion`,
/// unless the template lists a finalizer for them itself (AS-160).
pub fn keeps_resources(set: &Value) -> bool {
    let mut listed =
        set.items("/spec/template/metadata/finalizers").iter().filter_map(Value::as_str);
    LiveSetSpec::of(set).sync_policy.preserve_resources_on_deletion
        && !listed.any(|finalizer| finalizer.contains(RESOURCES_FINALIZER))
}

/// The Applications by name. Of several with one name the first one is kept,
/// and rejected, since the name is ambiguous.
fn unique(mut collected: Vec<Collected>) -> Vec<Wanted> {
    // The sort is stable, so Applications of one name keep their order.
    collected.sort_by(|a, b| a.wanted.name.cmp(&b.wanted.name));
    let mut applications: Vec<Wanted> = Vec::with_capacity(collected.len());
    let mut all = collected.into_iter().peekable();
    // Moved, not cloned: all Applications of a large set take much memory.
    while let Some(Collected { own_name, origin, mut wanted }) = all.next() {
        let mut origins = vec![origin];
        while let Some(same) = all.next_if(|next| next.wanted.name == wanted.name) {
            origins.push(same.origin);
        }
        if origins.len() > 1 {
            let origins: Vec<&str> = origins.iter().map(|origin| &**origin).collect();
            wanted.problem = shape::problem_of_namesakes(&own_name, &origins).or(wanted.problem);
        }
        applications.push(wanted);
    }
    applications
}

/// The labels of generated Applications, by name.
pub fn generated_labels(generation: &desired::Generation) -> BTreeMap<String, Labels> {
    let of = |(name, application): (&str, &Value)| (name.to_owned(), labels_of(application));
    generation.called().map(of).collect()
}

/// The labels of an Application that are text.
pub fn labels_of(application: &Value) -> Labels {
    texts_of(application.labels())
}

/// Eight bytes of a digest of a spec: enough to distinguish versions of an
/// Application.
pub fn spec_digest(spec: &Value) -> Box<str> {
    let text = spec.to_string();
    let hash = Sha256::digest(text.as_bytes());
    HEXLOWER.encode(&hash[..8]).into()
}
