//! What a work tree or a revision makes of the Applications of a set, before it is pushed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use futures::StreamExt;
use serde_json::Value;

use super::report::{NAMES_PER_LINE, PlanProblem, PlanReport, PlannedStep};
use super::trial_report::{TrialReport, TriedApplication};
use crate::cli::cluster::ClusterConnection;
use crate::cli::cluster::controller::Controller;
use crate::cli::console::error::{Error, note};
use crate::cli::diff::compared::{ControllerComparer, Report};
use crate::cli::files::input::FileObject;
use crate::cli::files::repositories::OpenedRepositories;
use crate::cli::files::work_tree::{WorkTree, is_git, is_same, put_dry_source, shown_urls};
use crate::cli::plan::live_diff::{Change, LiveChange};
use wavegate_api::sources::InEffect;
use wavegate_api::{Raw, ResourceKey};
use wavegate_application::access::project_of;
use wavegate_controller::application::compare_once::ComparisonOutcome;
use wavegate_engine::names::some_of;
use wavegate_rollout::desired::Generation;
use wavegate_source::{TriedContent, TriedSource, redact_urls};

/// What fails.
const WHAT: &str = "cannot plan";

/// The code of an Application that cannot be compared.
const NOT_COMPARED: &str = "NotCompared";

/// Applications that are compared at a time. Programs that render have limits of their own.
const PARALLEL: usize = 8;

/// What is tried.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct TrialArgs {
    /// With --live: what each Application would become with the files of the Git work tree at
    /// or above this directory, before they are pushed
    #[arg(long, value_name = "DIR", requires = "live", group = "trial")]
    local: Option<PathBuf>,
    /// With --live: the same with a branch, a tag or a commit of the repository
    #[arg(long, value_name = "REVISION", requires = "live", group = "trial")]
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    revision: Option<String>,
    /// The repository that --local or --revision is about, if the set does not tell
    #[arg(long, value_name = "URL", requires = "trial")]
    repo: Option<String>,
}

/// A trial of one set.
pub(super) struct Trial {
    tried: TriedSource,
    /// What is given for it.
    option: String,
    /// What it is, for an error about a set that does not read it.
    described: String,
    /// With what is tried.
    pub(super) repositories: Arc<OpenedRepositories>,
    /// Without it.
    pushed: Arc<OpenedRepositories>,
}

impl Trial {
    /// The trial that is asked for; `None` for none.
    ///
    /// # Errors
    ///
    /// When it is of no repository of the set, or it is not known of which one.
    pub fn of(
        args: &TrialArgs,
        sets: &[FileObject],
        controller: &Controller,
    ) -> Result<Option<Self>, Error> {
        let repo = args.repo.as_deref();
        let option = match (&args.local, &args.revision) {
            (Some(local), _) => format!("--local {}", local.display()),
            (None, Some(revision)) => format!("--revision {revision}"),
            (None, None) => return Ok(None),
        };
        let [set] = sets else {
            let why = format!("there are {} ApplicationSets; name the one to plan", sets.len());
            return Err(Error::input(WHAT, option, why));
        };
        let named = NamedRepositories::of(&set.value);
        let (tried, described) = match (&args.local, &args.revision) {
            (Some(local), _) => {
                let tree = WorkTree::open(WHAT, local)?;
                let root = match (tree.root(), repo) {
                    (Some(root), _) => root,
                    (None, Some(_)) => tree.directory(),
                    (None, None) => {
                        let what = "give the work tree of a repository, or name with --repo the \
                                    one whose root this is";
                        let read = named.described(&set.value);
                        return Err(tree.error(format!("{}, and {read}: {what}", tree.described())));
                    }
                };
                let own = named.urls.iter().map(String::as_str).filter(|url| tree.is_of(url));
                let urls: Vec<&str> = match repo {
                    Some(repo) => vec![repo],
                    None => tree.urls().chain(own).collect(),
                };
                let content = TriedContent::WorkTree(root.to_owned());
                (TriedSource::new(urls, content), tree.described())
            }
            (None, revision) => {
                let url = match (repo, named.urls.as_slice()) {
                    (Some(repo), _) => repo,
                    (None, [url]) => url,
                    (None, _) => {
                        let read = named.described(&set.value);
                        let why = format!("{read}: name with --repo the one that has the revision");
                        return Err(Error::input(WHAT, option, why));
                    }
                };
                let content = TriedContent::Revision(revision.clone().unwrap_or_default());
                (TriedSource::new([url], content), format!("it is of {}", redact_urls(url)))
            }
        };
        let described = repo.map_or(described, |repo| format!("it is of {}", redact_urls(repo)));
        let artifacts = controller.applications.artifacts.clone();
        let pushed = Arc::new(OpenedRepositories::open(artifacts.clone(), None)?);
        let repositories = OpenedRepositories::open(artifacts, Some(tried.clone()))?;
        let repositories = Arc::new(repositories);
        let trial = Self { tried, option, described, repositories, pushed };
        if !named.is_partial {
            trial.check(&set.value, &named)?;
        }
        Ok(Some(trial))
    }

    /// Checks that generators or Applications read what is tried.
    ///
    /// # Errors
    ///
    /// When none does.
    pub fn check_generated(&self, set: &Value, generation: &Generation) -> Result<(), Error> {
        let mut named = NamedRepositories::default();
        generation.reads.git.iter().for_each(|read| named.add(&read.repo_url));
        let mut revisions = BTreeSet::new();
        for application in &generation.applications {
            let mut spec = application.spec().clone();
            put_dry_source(&mut spec);
            for source in InEffect::of(&spec).list.iter().filter(|one| is_git(one)) {
                named.add(source.text("/repoURL"));
                if self.tried.is_for(source.text("/repoURL")) {
                    revisions.insert(source.text("/targetRevision").to_owned());
                }
            }
        }
        if generation.applications.is_empty() && named.urls.is_empty() {
            return Ok(());
        }
        self.check(set, &named)?;
        if revisions.len() > 1 {
            let named = revisions.iter().map(|revision| match revision.as_str() {
                "" => "HEAD",
                revision => revision,
            });
            note(&format!(
                "the Applications name several revisions of the repository ({}): {} is read in \
                 place of each",
                some_of(named, NAMES_PER_LINE),
                self.option
            ));
        }
        Ok(())
    }

    fn check(&self, set: &Value, named: &NamedRepositories) -> Result<(), Error> {
        if named.urls.iter().any(|url| self.tried.is_for(url)) {
            return Ok(());
        }
        let why = format!("{}, and {}", self.described, named.described(set));
        Err(Error::input(WHAT, self.option.clone(), why))
    }

    /// Adds what becomes of the Applications to a plan; one that cannot be compared is a problem.
    pub async fn added(
        &self,
        plan: PlanReport,
        connection: &ClusterConnection,
        controller: &Controller,
        existing: &BTreeMap<String, Arc<Value>>,
    ) -> PlanReport {
        let live = plan.live.as_deref().unwrap_or_default();
        let becomes: Vec<(&LiveChange, Value)> =
            live.iter().filter_map(|one| Some((one, after(one, existing)?))).collect();
        let projects = || becomes.iter().map(|(_, application)| project_of(application));
        let of = |repositories| {
            ControllerComparer::new(connection, controller, repositories, projects())
        };
        let (tried, pushed) = (&of(&self.repositories), &of(&self.pushed));
        let compared = becomes.iter().map(|(change, application)| async move {
            let found = compare(tried, pushed, change, application).await;
            (change.application.clone(), found)
        });
        let compared: Vec<(String, Compared)> =
            futures::stream::iter(compared).buffer_unordered(PARALLEL).collect().await;
        let unlisted = compared.iter().flat_map(|(_, found)| &found.unlisted);
        for (kind, why) in unlisted.collect::<BTreeMap<_, _>>() {
            note(&format!("other resources of Applications may exist: cannot list {kind}: {why}"));
        }
        let unread: BTreeSet<&str> =
            compared.iter().filter_map(|(_, found)| found.unread_push.as_deref()).collect();
        if let Some(why) = unread.first() {
            note(&format!(
                "what is pushed cannot be compared, so an Application counts as changed that \
                 differs from the cluster: {why}"
            ));
        }
        let mut compared: BTreeMap<String, Compared> = compared.into_iter().collect();
        let applications = live.iter().map(|change| {
            let selects = |step: &&PlannedStep| step.applications.contains(&change.application);
            let step = plan.steps.iter().find(selects).map(|step| step.step);
            let found = compared.remove(&change.application);
            let is_as_pushed = found.as_ref().is_some_and(|found| found.is_as_pushed);
            TriedApplication::of(change, step, is_as_pushed, found.map(|found| found.report))
        });
        let trial = TrialReport::new(self.option.clone(), applications.collect());
        let mut problems = plan.problems;
        problems.extend(
            trial.failures().map(|(step, message)| PlanProblem {
                step,
                ..PlanProblem::of(NOT_COMPARED, message)
            }),
        );
        PlanReport { problems, trial: Some(trial), ..plan }
    }
}

/// What comparing an Application has come to.
struct Compared {
    report: Result<Report, String>,
    /// Its resources differ, in the same way as from what is pushed.
    is_as_pushed: bool,
    /// Why it could not be compared with what is pushed.
    unread_push: Option<String>,
    /// As in the outcome.
    unlisted: BTreeMap<String, String>,
}

/// Compares an Application as it would be, and if its resources differ, as it is pushed: what
/// waits for its step, or was changed by hand, is no effect of what is tried.
async fn compare(
    tried: &ControllerComparer<'_>,
    pushed: &ControllerComparer<'_>,
    change: &LiveChange,
    application: &Value,
) -> Compared {
    let outcome = match tried.outcome(application, &[]).await {
        Ok(outcome) => outcome,
        Err(error) => {
            let report = Err(error.why().to_owned());
            let unlisted = BTreeMap::new();
            return Compared { report, is_as_pushed: false, unread_push: None, unlisted };
        }
    };
    let (mut is_as_pushed, mut unread_push) = (false, None);
    if change.change == Change::None && !outcome.differences.is_empty() {
        match pushed.outcome(application, &[]).await {
            Ok(before) => is_as_pushed = targets(&before) == targets(&outcome),
            Err(error) => unread_push = Some(error.why().to_owned()),
        }
    }
    let unlisted = outcome.unlisted.clone();
    let report = Ok(Report::new(application, outcome, None, &|_| true));
    Compared { report, is_as_pushed, unread_push, unlisted }
}

/// The resources that differ, and what they are to be.
fn targets(outcome: &ComparisonOutcome) -> Vec<(&ResourceKey, Option<&Value>)> {
    let all = outcome.differences.iter().map(|one| &one.resource);
    all.map(|resource| (&resource.key, resource.target.as_deref())).collect()
}

/// The Application once the change is written, with the dry source of hydrated manifests; `None` for one that is gone, or not written.
fn after(live: &LiveChange, existing: &BTreeMap<String, Arc<Value>>) -> Option<Value> {
    let mut application = match live.change {
        Change::Create | Change::Update => live.after.clone()?,
        Change::None => existing.get(&live.application).map(|found| (**found).clone())?,
        Change::Delete | Change::Wait | Change::Move | Change::Refuse => return None,
    };
    put_dry_source(&mut application["spec"]);
    Some(application)
}

/// The Git repositories that a set names.
#[derive(Default)]
struct NamedRepositories {
    /// One URL of each.
    urls: Vec<String>,
    /// Templates may name more.
    is_partial: bool,
}

impl NamedRepositories {
    /// Those of generators and templates, as far as they are written there.
    fn of(set: &Value) -> Self {
        let mut named = Self::default();
        named.search(set.spec());
        let patch = set.text("/spec/templatePatch");
        named.is_partial |= patch.contains("repoURL");
        named
    }

    fn search(&mut self, value: &Value) {
        if is_git(value) {
            let url = value.text("/repoURL");
            match url.contains("{{") {
                true => self.is_partial = true,
                false => self.add(url),
            }
        }
        match value {
            Value::Object(fields) => fields.values().for_each(|value| self.search(value)),
            Value::Array(items) => items.iter().for_each(|value| self.search(value)),
            _ => {}
        }
    }

    fn add(&mut self, url: &str) {
        if !self.urls.iter().any(|known| is_same(known, url)) {
            self.urls.push(url.to_owned());
        }
    }

    fn described(&self, set: &Value) -> String {
        let name = format!("ApplicationSet {}/{}", set.namespace(), set.name());
        match (self.urls.as_slice(), self.is_partial) {
            ([], false) => format!("{name} reads no Git repository"),
            ([], true) => format!("{name} names its repositories by templates"),
            (urls, _) => format!("{name} reads {}", shown_urls(urls.iter().map(String::as_str))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_names_repositories_in_generators_and_templates() {
        let set = serde_json::json!({"spec": {
            "generators": [{"matrix": {"generators": [
                {"git": {"repoURL": "https://example.com/fleet.git", "revision": "main"}},
                {"list": {"elements": [{"name": "a"}]}},
            ]}}],
            "template": {"spec": {"sources": [
                {"repoURL": "git@example.com:fleet", "ref": "values"},
                {"repoURL": "https://charts.example.com", "chart": "web"},
                {"repoURL": "oci://registry.example.com/web", "path": "."},
            ]}},
        }});
        let named = NamedRepositories::of(&set);
        assert_eq!(named.urls, ["https://example.com/fleet.git"]);
        assert!(!named.is_partial);
        let set = serde_json::json!({"spec": {"template": {"spec": {
            "source": {"repoURL": "https://example.com/{{name}}"},
        }}}});
        let named = NamedRepositories::of(&set);
        assert!(named.is_partial && named.urls.is_empty());
    }
}
