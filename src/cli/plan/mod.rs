//! `wavegate plan`: the rollout before it happens.

pub(in crate::cli) mod live_diff;
mod looked_for;
pub(in crate::cli) mod other_sets;
pub(super) mod policies;
mod report;
mod trial;
mod trial_report;
mod written;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use serde_json::{Value, json};

use self::looked_for::looked_for;
use self::policies::{PlanPolicies, Policies};
use self::report::{INVALID_POLICY, NAMES_PER_LINE, PlanProblem, PlanReport, PlannedStep};
use self::trial::{Trial, TrialArgs};
use self::written::PolicyFiles;
use crate::cli::cluster::controller::{Controller, ControllerArgs};
use crate::cli::cluster::{ClusterArgs, ClusterConnection, block_on};
use crate::cli::console::error::{CHECK_FAILED, Error, fault, note};
use crate::cli::console::output::{self, OutputArgs, OutputFormat, or_dash};
use crate::cli::diff;
use crate::cli::files::input::{FileObject, FoundSets};
use crate::cli::files::{generate, input};
use crate::cli::plan::live_diff::{Input, LiveChange};
use crate::cli::plan::other_sets::OtherSets;
use crate::cli::rollout_view::text::count;
use wavegate_api::Raw;
use wavegate_api::conditions::application_set::reason;
use wavegate_api::unknown;
use wavegate_engine::names::some_of;
use wavegate_rollout::application_set::deletion::deletion_guard;
use wavegate_rollout::application_set::generate::generated::generated_labels;
use wavegate_rollout::application_set::generate::ignore::Ignore;
use wavegate_rollout::application_set::generate::policy::Policy;
use wavegate_rollout::application_set::reconcile::NO_STEPS;
use wavegate_rollout::desired::Generation;
use wavegate_rollout::rollout::preview::{Preview, PreviewStep, preview_steps};
use wavegate_rollout::rollout::steps::{self, StepStrategy};

/// The code of a set whose Applications are not known.
const NOT_GENERATED: &str = "NotGenerated";

/// Preview a rollout: steps, batches and configuration errors
///
/// Shows the rollout of a change to all Applications. With --live, it also lists the
/// Applications to create, update and delete in the cluster of the kube context; without
/// -f, the ApplicationSet is read from the cluster, too. With --local or --revision, it shows
/// what becomes of each Application and its resources before a push. Exits with 1 when there
/// are configuration errors, or an Application cannot be rendered.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  wavegate plan -f appset.yaml
  wavegate plan --live -f appset.yaml    what a change of the file would do
  wavegate plan --live APPSET            of a set in the cluster
  wavegate plan --live APPSET --local .  what a commit of this work tree would do")]
pub(super) struct PlanArgs {
    /// File with the ApplicationSet; - for standard input
    #[arg(short, long = "filename", required_unless_present = "live", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Only the ApplicationSet with this name
    #[arg(value_name = "APPSET")]
    name: Option<String>,
    /// Compare with the Applications in the cluster
    #[arg(long)]
    live: bool,
    /// With --live: exit with 1 unless the plan has this hash, as an earlier plan printed it
    #[arg(
        long,
        value_name = "HASH",
        value_parser = clap::builder::NonEmptyStringValueParser::new(),
        requires = "live",
        conflicts_with = "trial"
    )]
    check: Option<String>,
    #[command(flatten)]
    trial: TrialArgs,
    #[command(flatten)]
    controller: ControllerArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the command.
pub(super) fn run(args: PlanArgs) -> anyhow::Result<ExitCode> {
    let reports =
        if args.live { block_on(live_reports(&args))? } else { block_on(file_reports(&args))? };
    let sets: Vec<&str> = reports.iter().map(|report| report.set.as_str()).collect();
    args.output.check_one_set("cannot plan", &sets)?;
    let mut code = ExitCode::SUCCESS;
    let mut is_first = true;
    for report in &reports {
        if args.output.format != OutputFormat::Table || !report.is_empty() {
            if !is_first {
                output::print("\n")?;
            }
            is_first = false;
            args.output.print(report, table)?;
        }
        if !report.problems.is_empty() || !is_checked(&args, report) {
            code = ExitCode::from(CHECK_FAILED);
        }
    }
    Ok(code)
}

/// Whether the plan is the one that was asked for; says so if it is another.
fn is_checked(args: &PlanArgs, report: &PlanReport) -> bool {
    let Some(wanted) = &args.check else { return true };
    let found = report.hash();
    let is_same = found == Some(wanted);
    if !is_same {
        note(&format!("the plan of {} has {}, and not {wanted}", report.set, in_words(found)));
    }
    is_same
}

impl PlanReport {
    /// The hash of the plan, if it is known.
    fn hash(&self) -> Option<&str> {
        self.policies.as_ref().map(|planned| planned.hash.as_str()).filter(|hash| !hash.is_empty())
    }
}

/// A hash, for a sentence.
pub(super) fn in_words(hash: Option<&str>) -> String {
    hash.map_or_else(|| "no hash".to_owned(), |hash| format!("the hash {hash}"))
}

/// The hash of the plan of a set in the cluster, with these settings of its controller; `None` when
/// it cannot be generated, or its policies cannot be read.
pub(super) async fn hash_of(
    cluster: &ClusterArgs,
    controller: &ControllerArgs,
    set: &str,
) -> Result<Option<String>, Error> {
    let args = live_args(cluster, controller, set);
    let reports = live_reports(&args).await?;
    Ok(reports.first().and_then(PlanReport::hash).map(str::to_owned))
}

/// The arguments of `plan --live` for one set.
fn live_args(cluster: &ClusterArgs, controller: &ControllerArgs, set: &str) -> PlanArgs {
    PlanArgs {
        files: Vec::new(),
        name: Some(set.to_owned()),
        live: true,
        check: None,
        trial: TrialArgs::default(),
        controller: controller.clone(),
        cluster: cluster.clone(),
        output: OutputArgs { format: OutputFormat::default() },
    }
}

/// The plan of a set in a cluster, as `-o json` prints it, with what differs of each Application, as
/// `diff appset/SET -o json` prints it.
pub(super) async fn live_plan(cluster: &ClusterConnection, set: &str) -> Result<Value, Error> {
    let args = live_args(&ClusterArgs::default(), &ControllerArgs::default(), set);
    let reports = live_reports_in(cluster, &args).await?;
    let Some(report) = reports.first() else { return Ok(Value::Null) };
    let namespace = &cluster.namespace;
    let existing = cluster.applications_by_name(namespace).await?;
    let changes = report.live.clone().unwrap_or_default();
    let mut printed = json!(report);
    printed["difference"] = diff::planned_differences(namespace, changes, &existing);
    Ok(printed)
}

async fn file_reports(args: &PlanArgs) -> Result<Vec<PlanReport>, Error> {
    args.controller.check()?;
    let inputs = args.controller.generators.inputs();
    let name = args.name.as_deref();
    let namespace = args.controller.generators.namespace();
    let FoundSets { sets, mut facts, policies } =
        input::application_sets(&args.files, name, inputs, namespace)?;
    let mut written = PolicyFiles::read(policies).await;
    let mut reports = Vec::new();
    for set in &sets {
        let (policies, problems) = written.of(&set.value);
        let report = match generate::generate_known(set, &mut facts).await {
            Ok(generation) => {
                let invalid = generate::invalid(&generation);
                let report = report(set, &generation, &invalid, None).and(problems);
                if policies.is_empty() {
                    report
                } else {
                    let none = BTreeMap::new();
                    let rules = policies::rules(&policies, &set.value, &generation);
                    let planned = PlanPolicies::of(rules, &set.value, &generation, &none, &[]);
                    // Of no cluster, so that nothing can be compared with it.
                    report.with(PlanPolicies { hash: String::new(), ..planned })
                }
            }
            Err(error) => not_generated(set, error)?.and(problems),
        };
        reports.push(report);
    }
    written.rest(name, &sets, &mut reports);
    Ok(reports)
}

impl PlanReport {
    /// With more problems.
    fn and(mut self, problems: Vec<PlanProblem>) -> Self {
        self.problems.extend(problems);
        self
    }

    /// With what policies say; what is wrong with them is a problem of the plan, once if their
    /// definition says it, too.
    fn with(mut self, planned: PlanPolicies) -> Self {
        for found in &planned.problems {
            if !self.problems.iter().any(|known| known.is_about(&found.policy, &found.field)) {
                let message = format!("RolloutPolicy {}: {found}", found.policy);
                self.problems.push(PlanProblem::of(INVALID_POLICY, message));
            }
        }
        self.policies = Some(planned);
        self
    }

    /// Whether it says nothing but why there is none, which standard error has said.
    fn is_empty(&self) -> bool {
        self.problems.iter().all(|problem| problem.code == NOT_GENERATED)
            && !self.problems.is_empty()
    }
}

/// The report for a set that cannot be generated: the error, and its unknown fields, since
/// one of them may be the cause.
///
/// # Errors
///
/// The same error when the set cannot be read.
fn not_generated(set: &FileObject, error: Error) -> Result<PlanReport, Error> {
    let mut problems = unknown_fields(&set.value);
    if problems.is_empty() && !error.is_check() {
        return Err(error);
    }
    fault(&error);
    problems.push(PlanProblem::of(NOT_GENERATED, error.to_string()));
    let (strategy, _) = generate::strategy_of(&set.value);
    Ok(PlanReport {
        set: set.value.name().to_owned(),
        rolling: !strategy.steps().is_empty(),
        total: 0,
        steps: Vec::new(),
        unmatched: Vec::new(),
        problems,
        live: None,
        policies: None,
        trial: None,
    })
}

fn unknown_fields(set: &Value) -> Vec<PlanProblem> {
    let unknown = unknown::in_application_set(set).into_iter();
    unknown.map(|field| of_steps(steps::Problem::from(field))).collect()
}

fn of_steps(problem: steps::Problem) -> PlanProblem {
    let step = problem.step.map(|step| step + 1);
    PlanProblem { step, ..PlanProblem::of(problem.kind.code(), problem.message) }
}

async fn live_reports(args: &PlanArgs) -> Result<Vec<PlanReport>, Error> {
    if args.files.is_empty() && args.name.is_none() {
        let why = "name the ApplicationSet to read from the cluster, or give a file with -f";
        return Err(Error::input("cannot plan", "--live", why));
    }
    let cluster = ClusterConnection::connect(&args.cluster).await?;
    live_reports_in(&cluster, args).await
}

async fn live_reports_in(
    cluster: &ClusterConnection,
    args: &PlanArgs,
) -> Result<Vec<PlanReport>, Error> {
    let name = args.name.as_deref();
    let (sets, policies) = generate::live_sets_and_policies(cluster, &args.files, name).await?;
    let mut written = PolicyFiles::read(policies).await;
    let controller = Controller::read(cluster, &args.controller).await?;
    let mut facts = controller.facts();
    let trial = Trial::of(&args.trial, &sets, &controller)?;
    if let Some(trial) = &trial {
        facts = facts.reading(Arc::clone(&trial.repositories));
    }
    let mut others = OtherSets::new(cluster, &controller, &sets);
    let mut known = Policies::new(cluster);
    let mut reports = Vec::new();
    for set in &sets {
        let namespace = set.value.namespace();
        let stored = cluster.get("ApplicationSet", namespace, set.value.name()).await?;
        let existing = cluster.applications_by_name(namespace).await?;
        let (of_files, problems) = written.of(&set.value);
        let generation = match generate::generate_known(set, &mut facts).await {
            Ok(generation) => generation,
            Err(error) => {
                reports.push(not_generated(set, error)?.and(problems));
                continue;
            }
        };
        if let Some(trial) = &trial {
            trial.check_generated(&set.value, &generation)?;
        }
        let policies = known.of(namespace).await;
        let applied = written::applied(policies.unwrap_or_default(), of_files);
        let rules = policies::rules(&applied, &set.value, &generation);
        let stored = stored.as_deref();
        let (others, facts) = (&mut others, &mut facts);
        let input = Input { set: &set.value, stored, generation: &generation, rules: &rules };
        let compared = live_diff::of_controller(others, facts, &input, &existing);
        let (invalid, live) = compared.await;
        let mut planned = PlanPolicies::of(rules, &set.value, &generation, &existing, &live);
        if policies.is_none() || trial.is_some() {
            // Without its gates, or before a push, it would be that of another plan.
            planned.hash.clear();
        }
        let report = report(set, &generation, &invalid, Some(live));
        let report = report.and(problems).with(planned);
        reports.push(match &trial {
            Some(trial) => trial.added(report, cluster, &controller, &existing).await,
            None => report,
        });
    }
    written.rest(args.name.as_deref(), &sets, &mut reports);
    Ok(reports)
}

fn report(
    set: &FileObject,
    generation: &Generation,
    invalid: &BTreeMap<String, String>,
    live: Option<Vec<LiveChange>>,
) -> PlanReport {
    let (strategy, read) = generate::strategy_of(&set.value);
    let Preview { steps, unmatched, problems } =
        preview_steps(&strategy, read, &generated_labels(generation));
    let mut all = blockers(&set.value, generation, &strategy, invalid);
    all.extend(problems.into_iter().map(of_steps));
    let rolling = !strategy.steps().is_empty();
    PlanReport {
        set: set.value.name().to_owned(),
        rolling,
        total: generation.applications.len(),
        steps: steps.into_iter().enumerate().map(step).collect(),
        unmatched,
        problems: all,
        live,
        policies: None,
        trial: None,
    }
}

fn step((index, step): (usize, PreviewStep)) -> PlannedStep {
    PlannedStep {
        step: index + 1,
        max_update: step.max_update.to_json(),
        max_update_text: step.max_update.to_string(),
        limit: step.limit,
        batches: step.batches,
        applications: step.applications,
        has_own: step.has_own,
    }
}

/// Problems outside of steps that prevent the writes of the set or of single Applications.
fn blockers(
    set: &Value,
    generation: &Generation,
    strategy: &StepStrategy,
    invalid: &BTreeMap<String, String>,
) -> Vec<PlanProblem> {
    let problem = PlanProblem::of;
    let mut problems = unknown_fields(set);
    if strategy.is_empty_rolling_sync() {
        problems.push(problem("EmptyRollingSync", NO_STEPS.to_owned()));
    }
    let jq = wavegate_controller::evaluator::limited_jq(wavegate_controller::evaluator::JQ_TIME);
    let (_, ignored) = Ignore::read(set, &jq);
    let ignored =
        ignored.into_iter().map(|found| problem("InvalidIgnoreDifferences", found.message));
    problems.extend(ignored);
    let own = set.pointer("/spec/syncPolicy/applicationsSync").and_then(Value::as_str);
    let policy = Policy::problem(own, true);
    problems.extend(policy.map(|message| problem("InvalidSyncPolicy", message)));
    problems.extend(invalid.iter().map(|(name, message)| {
        let message = if name.is_empty() {
            message.clone()
        } else {
            format!("application {name}: {message}")
        };
        problem("InvalidApplication", message)
    }));
    let warnings = generation.warnings.iter().cloned();
    problems.extend(warnings.map(|message| problem("GeneratorWarning", message)));
    let empty = deletion_guard::found_nothing(&generation.reads.found).into_iter();
    let empty = empty.map(|place| format!("{place}: finds nothing{}", looked_for(set, place)));
    problems.extend(empty.map(|message| problem(reason::GENERATOR_FOUND_NOTHING, message)));
    problems
}

fn table(report: &PlanReport) -> String {
    let strategy = match report.rolling {
        true => format!("RollingSync, {}", count(report.steps.len(), "step")),
        false => "all at once".to_owned(),
    };
    let total = count(report.total, "application");
    let is_generated = !report.problems.iter().any(|problem| problem.code == NOT_GENERATED);
    let what = match is_generated {
        true => format!("{strategy}, {total}"),
        false => "it cannot be generated".to_owned(),
    };
    let mut text = format!("ApplicationSet {}: {what}\n", output::printable_text(&report.set));
    if report.rolling && is_generated {
        text.push('\n');
        text.push_str(&output::table(
            ["STEP", "MAX UPDATE", "LIMIT", "BATCH", "APPLICATIONS"],
            report.steps.iter().flat_map(rows),
        ));
    }
    if !report.unmatched.is_empty() {
        let names = some_of(&report.unmatched, NAMES_PER_LINE);
        let held = format!("\nNot selected by a step, so a manual sync is required: {names}");
        text.push_str(&output::printable_lines(&held, false));
        text.push('\n');
    }
    if let Some(trial) = &report.trial {
        text.push('\n');
        text.push_str(&trial.table());
    } else if let Some(live) = &report.live {
        let row = |live: &LiveChange| {
            [
                live.application.clone(),
                live.change.to_string(),
                or_dash(live.phase),
                or_dash(&live.sync),
                or_dash(&live.health),
                match live.fields.as_slice() {
                    // The message says more than the fields.
                    fields if fields.is_empty() || live.is_taken_over => live.message.clone(),
                    fields => some_of(fields.iter(), NAMES_PER_LINE),
                },
            ]
        };
        let header = ["APPLICATION", "CHANGE", "PHASE", "SYNC", "HEALTH", "MESSAGE"];
        text.push('\n');
        text.push_str(&output::table(header, live.iter().map(row)));
    }
    if let Some(planned) = &report.policies {
        let words = planned.text();
        if !words.is_empty() {
            text.push('\n');
            text.push_str(&output::printable_lines(&words, false));
        }
    }
    if !report.problems.is_empty() {
        text.push('\n');
        let row = |problem: &PlanProblem| {
            let step = problem.step.map_or_else(|| "-".to_owned(), |step| step.to_string());
            [problem.code.to_owned(), step, problem.message.clone()]
        };
        text.push_str(&output::table(
            ["PROBLEM", "STEP", "MESSAGE"],
            report.problems.iter().map(row),
        ));
    }
    if let Some(trial) = &report.trial {
        text.push('\n');
        text.push_str(&output::line(trial.last_line()));
    }
    text
}

/// A row for each batch of a step; one row for a step without batches.
fn rows(step: &PlannedStep) -> Vec<[String; 5]> {
    let names = |names: &[String]| some_of(names, NAMES_PER_LINE);
    let row = |batch: String, names: String| {
        [step.step.to_string(), step.max_update_text.clone(), step.limit.to_string(), batch, names]
    };
    if step.batches.is_empty() {
        let names = match step.applications.as_slice() {
            [] => "-".to_owned(),
            held if step.has_own => {
                format!("{} (held: each waits for a manual sync)", names(held))
            }
            waited => format!("{} (in an earlier step already)", names(waited)),
        };
        return vec![row("-".to_owned(), names)];
    }
    let batch = |(index, batch): (usize, &Vec<String>)| row((index + 1).to_string(), names(batch));
    step.batches.iter().enumerate().map(batch).collect()
}
