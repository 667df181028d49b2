//! What is simulated, from files or from a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube_sim::SplitMix64;
use serde_json::{Value, json};

use super::args::{NAMES, SimulateArgs, WRONG};
use super::behaviors::{self, behaviors};
use super::creation::Created;
use super::frozen::frozen;
use super::{counted, events, history};
use crate::cli::cluster::ClusterConnection;
use crate::cli::cluster::controller::Controller;
use crate::cli::console::error::{Error, note};
use crate::cli::files::facts::GeneratorFacts;
use crate::cli::files::generate;
use crate::cli::files::input::{self, FileObject, is_application_set, is_policy};
use crate::cli::files::validation;
use crate::cli::plan::policies as plan_policies;
use wavegate_api::cluster::IN_CLUSTER_SERVER;
use wavegate_api::policy::POLICY;
use wavegate_api::raw::{edit_metadata, object_at};
use wavegate_api::run::RUN;
use wavegate_api::unknown::nearest_name;
use wavegate_api::{AppProject, ApplicationSet, Raw, permissive_project};
use wavegate_application::access::project_of;
use wavegate_controller::settings::CONTROL_PLANE_NAMESPACE;
use wavegate_engine::names::some_of;
use wavegate_rollout::application_set::status::report_input;
use wavegate_rollout::desired::Generation;
use wavegate_rollout::rollout::budget::Limit;
use wavegate_simulation::{
    Behavior, DeployedBefore, FleetBefore, Scenario, ScheduledAction, WorkloadOutcome,
};

/// The most Applications of a simulation: each of them is an object, and its workload another.
const MOST: usize = 20_000;

/// What a command simulates, once or several times.
#[derive(Debug)]
pub(super) struct SimulationCase {
    namespace: String,
    objects: Vec<Value>,
    /// The Applications, all in one cluster.
    deployed: Arc<DeployedBefore>,
    /// The Applications with their sets and steps, counted from 0.
    pub applications: BTreeMap<String, (String, Option<usize>)>,
    /// Those that no step selects.
    uncounted: BTreeSet<String>,
    behaviors: BTreeMap<String, Behavior>,
    actions: Vec<ScheduledAction>,
}

/// Reads what the arguments name.
pub(super) async fn read(args: &SimulateArgs) -> Result<SimulationCase, Error> {
    match args.live {
        true => of_cluster(args).await,
        false => of_files(args).await,
    }
}

async fn of_files(args: &SimulateArgs) -> Result<SimulationCase, Error> {
    args.controller.check()?;
    let objects = input::objects(&args.files)?;
    let (sets, others): (Vec<FileObject>, Vec<FileObject>) =
        objects.into_iter().partition(|object| is_application_set(&object.value));
    let known: Vec<String> = sets.iter().map(|set| set.value.name().to_owned()).collect();
    let is_named =
        |set: &FileObject| args.name.as_deref().is_none_or(|name| set.value.name() == name);
    let sets: Vec<FileObject> = sets.into_iter().filter(is_named).collect();
    if sets.is_empty() {
        let place = args.files.iter().map(|file| input::shown(file)).collect::<Vec<_>>().join(", ");
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let why = match &args.name {
            _ if known.is_empty() => input::without_set(&others),
            Some(name) => match nearest_name(name, known.iter().copied()) {
                Some(near) => format!("none is named {name}; did you mean {near}?"),
                None => format!("none is named {name}; found {}", some_of(known, NAMES)),
            },
            None => "it contains none".to_owned(),
        };
        return Err(Error::input("cannot find an ApplicationSet", place, why));
    }
    let policies = others.iter().filter(|object| is_policy(&object.value));
    validation::check(sets.iter().chain(policies)).await?;
    let mut facts = GeneratorFacts::of_objects(
        others.iter().map(|object| &object.value),
        args.controller.generators.inputs(),
        args.controller.generators.namespace(),
    );
    let mut generated = Vec::new();
    for set in &sets {
        generated.push((set.value.clone(), generate::generate_known(set, &mut facts).await?));
    }
    let (policies, others): (Vec<FileObject>, Vec<FileObject>) =
        others.into_iter().partition(|object| is_policy(&object.value));
    let (projects, others): (Vec<FileObject>, Vec<FileObject>) =
        others.into_iter().partition(|object| object.value.kind() == AppProject::KIND);
    let is_unused = |object: &&FileObject| object.value.kind() != "Secret";
    for object in others.iter().filter(is_unused) {
        note(&format!("{} is not used", object.described()));
    }
    let values =
        |objects: Vec<FileObject>| objects.into_iter().map(|object| object.value).collect();
    SimulationCase::new(args, &generated, values(policies), values(projects), |_| None)
}

async fn of_cluster(args: &SimulateArgs) -> Result<SimulationCase, Error> {
    let cluster = ClusterConnection::connect(&args.cluster).await?;
    let sets = generate::live_sets(&cluster, &[], args.name.as_deref()).await?;
    let controller = Controller::read(&cluster, &args.controller).await?;
    let mut facts = controller.facts();
    let mut generated = Vec::new();
    let (mut policies, mut projects) = (Vec::new(), Vec::new());
    let mut known = BTreeMap::new();
    for set in &sets {
        let namespace = set.value.namespace();
        let generation = generate::generate_known(set, &mut facts).await?;
        // Where there are none, or this user may not read them, nothing is said of them.
        let found = cluster.list(POLICY, Some(namespace), None).await.unwrap_or_default();
        policies.extend(found.iter().map(|policy| (**policy).clone()));
        let found = cluster.list("AppProject", Some(namespace), None).await.unwrap_or_default();
        for project in found {
            let global = &controller.settings.global_projects;
            let whole = global.with_windows(&project, |name| controller.project(name).flatten());
            projects.push(whole.map_err(|why| {
                let place = format!("sync windows of AppProject {}", project.name());
                Error::check(WRONG, place, why)
            })?);
        }
        let runs = cluster.list(RUN, Some(namespace), None).await.unwrap_or_default();
        let live = cluster.applications_by_name(namespace).await?;
        let steps = report_input::generated_steps(&set.value, &generation);
        let members = steps.keys().filter_map(|name| live.get(name)).map(|live| &**live);
        let created = Created::read(cluster.client(), members).await;
        known.extend(history::behaviors(&set.value, &steps, &live, &runs, &created));
        generated.push((set.value.clone(), generation));
    }
    SimulationCase::new(args, &generated, policies, projects, |name| known.get(name).copied())
}

impl SimulationCase {
    fn new(
        args: &SimulateArgs,
        sets: &[(Value, Generation)],
        policies: Vec<Value>,
        projects: Vec<Value>,
        known: impl Fn(&str) -> Option<history::Times>,
    ) -> Result<Self, Error> {
        let namespaces: BTreeSet<&str> = sets.iter().map(|(set, _)| set.namespace()).collect();
        let namespace = match Vec::from_iter(namespaces).as_slice() {
            [] | [""] => CONTROL_PLANE_NAMESPACE.to_owned(),
            [one] => (*one).to_owned(),
            several => {
                let why = format!("they are in namespaces {}; use one", several.join(" and "));
                return Err(Error::input(WRONG, "the ApplicationSets", why));
            }
        };
        let mut applications = BTreeMap::new();
        for (set, generation) in sets {
            for (name, step) in report_input::generated_steps(set, generation) {
                let former = applications.insert(name.clone(), (set.name().to_owned(), step));
                if let Some((other, _)) = &former
                    && other == set.name()
                {
                    let place = format!("ApplicationSet {other}");
                    return Err(Error::input(WRONG, place, "it is given twice"));
                }
                if let Some((other, _)) = former {
                    return Err(generate::of_two_sets(WRONG, &name, [&other, set.name()]));
                }
            }
        }
        if applications.len() > MOST {
            let why = format!("they generate {} Applications; at most {MOST}", applications.len());
            return Err(Error::input(WRONG, "the ApplicationSets", why));
        }
        if applications.is_empty() {
            let names = some_of(sets.iter().map(|(set, _)| set.name()), NAMES);
            let why = "no Applications are generated: there is nothing to roll out";
            return Err(Error::input(WRONG, format!("ApplicationSet {names}"), why));
        }
        let mut uncounted = BTreeSet::new();
        for (set, generation) in sets {
            if let Some((name, why)) = generate::invalid(generation).into_iter().next() {
                let place = format!("ApplicationSet {}", set.name());
                let why = format!("application {name}: {why}");
                return Err(Error::check(WRONG, place, why));
            }
            uncounted.extend(counted::uncounted(set, generation)?);
        }
        // Others are for sets that are not simulated now.
        let is_alone = !args.live && args.name.is_none();
        let (policies, used) = of_sets(policies, sets, &namespace, is_alone);
        let steps = applications.iter().map(|(name, (_, step))| (name.clone(), *step)).collect();
        let used = policies.iter().filter(|policy| used.contains(policy.name()));
        let gates = used.flat_map(|policy| policy.items("/spec/gates"));
        let gates = gates.map(|gate| gate.field("name").to_owned()).collect();
        let events = args.events()?;
        let actions = events::actions(
            &events,
            &events::EventContext { limit: args.limit, applications: &steps, gates: &gates },
        )?;
        let table = args.durations.as_deref().map(|file| behaviors::table(file, &steps));
        let table = table.transpose()?.unwrap_or_default();
        let behaviors = behaviors(args, &table, &events, &steps, known);
        let mut objects = Vec::new();
        let mut needed = BTreeSet::from([namespace.clone()]);
        let all = || sets.iter().flat_map(|(_, generation)| &generation.applications);
        needed.extend(all().map(destination));
        for name in needed.iter().filter(|name| *name != "default") {
            let metadata = json!({"name": name});
            objects.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}));
        }
        let used: BTreeSet<&str> = all().map(project_of).collect();
        for name in used {
            let given = projects.iter().find(|project| project.name() == name);
            objects.push(project(name, &namespace, given));
        }
        objects.extend(policies);
        let mut deployed = DeployedBefore::new();
        for (set, generation) in sets {
            let applications: Vec<Value> =
                generation.applications.iter().map(in_one_cluster).collect();
            objects.push(frozen(as_written(set.clone(), &namespace), &applications));
            deployed.insert(set.name().to_owned(), applications);
        }
        let deployed = Arc::new(deployed);
        Ok(Self { namespace, objects, deployed, applications, uncounted, behaviors, actions })
    }

    /// The namespace of the control plane.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The `maxUpdate` of a step of a set, as a number of its Applications; `None` without one.
    pub fn limit(&self, set: &str, step: usize, total: u64) -> Option<u64> {
        let of = |object: &&Value| object.kind() == ApplicationSet::KIND && object.name() == set;
        let found = self.objects.iter().find(of)?;
        let (strategy, _) = generate::strategy_of(found);
        match strategy.steps().get(step)?.max_update.limit(total) {
            Limit::AtMost(limit) => Some(limit),
            Limit::Unlimited => None,
        }
    }

    /// One simulation. With several, the times of each but the first differ.
    pub fn scenario(&self, args: &SimulateArgs, seed: u64) -> Scenario {
        let mut random = SplitMix64::new(seed);
        let mut behaviors = self.behaviors.clone();
        let is_first = seed == args.seed;
        for behavior in behaviors.values_mut() {
            if !is_first {
                behavior.health = about(behavior.health, &mut random);
                behavior.sync = about(behavior.sync, &mut random);
            }
            if let (Some(share), WorkloadOutcome::Succeeds) = (args.flaky, behavior.outcome) {
                behavior.outcome = WorkloadOutcome::Flaky(share);
            }
        }
        Scenario {
            namespace: self.namespace.clone(),
            objects: self.objects.clone(),
            behaviors,
            uncounted: self.uncounted.clone(),
            start: args.at,
            before: match args.first {
                true => FleetBefore::Nothing,
                false => FleetBefore::Deployed(Arc::clone(&self.deployed)),
            },
            actions: self.actions.clone(),
            limit: args.limit,
            remedies: Vec::new(),
            replicas: 1,
            // Only this one is written.
            logs: args.log.is_some() && is_first,
            seed,
        }
    }
}

/// The policies of the namespace, and the names of those that are for these sets; says what is
/// wrong with them, and which of them do nothing when all of them are for these sets.
fn of_sets(
    policies: Vec<Value>,
    sets: &[(Value, Generation)],
    namespace: &str,
    is_alone: bool,
) -> (Vec<Value>, BTreeSet<String>) {
    let is_elsewhere = |policy: &Value| !["", namespace].contains(&policy.namespace());
    let (elsewhere, policies): (Vec<Value>, Vec<Value>) =
        policies.into_iter().partition(is_elsewhere);
    for policy in &elsewhere {
        plan_policies::note_elsewhere(policy, namespace);
    }
    let policies: Vec<Arc<Value>> =
        policies.into_iter().map(|policy| Arc::new(as_written(policy, namespace))).collect();
    let mut used = BTreeSet::new();
    for (set, generation) in sets {
        let rules = plan_policies::rules(&policies, set, generation);
        for problem in rules.problems {
            let policy = &problem.policy;
            note(&format!("ApplicationSet {}: policy {policy}: {problem}", set.name()));
        }
        used.extend(rules.policies);
    }
    for policy in policies.iter().filter(|policy| is_alone && !used.contains(policy.name())) {
        plan_policies::note_unused(policy);
    }
    (policies.into_iter().map(Arc::unwrap_or_clone).collect(), used)
}

fn destination(application: &Value) -> String {
    let namespace = application.text("/spec/destination/namespace");
    if namespace.is_empty() { "default".to_owned() } else { namespace.to_owned() }
}

fn in_one_cluster(application: &Value) -> Value {
    let mut application = application.clone();
    let namespace = destination(&application);
    if let Some(spec) = application.as_object_mut().and_then(|all| object_at(all, "spec")) {
        let destination = json!({"server": IN_CLUSTER_SERVER, "namespace": namespace});
        spec.insert("destination".to_owned(), destination);
    }
    application
}

/// Without what a server adds, and in a namespace.
fn as_written(mut object: Value, namespace: &str) -> Value {
    input::clean(&mut object);
    edit_metadata(&mut object, |metadata| {
        metadata.insert("namespace".to_owned(), namespace.into());
    });
    object
}

/// The project of this name with its sync windows: what it permits is not simulated.
fn project(name: &str, namespace: &str, given: Option<&Value>) -> Value {
    let windows = given.and_then(|given| given.spec().get("syncWindows").cloned());
    let mut project = permissive_project(name, namespace);
    project["spec"]["syncWindows"] = windows.filter(Value::is_array).unwrap_or_else(|| json!([]));
    project
}

/// From two thirds to four thirds of a time.
fn about(time: Duration, random: &mut SplitMix64) -> Duration {
    let thousandths = 667 + u32::try_from(random.next() % 667).unwrap_or_default();
    time * thousandths / 1000
}
