//! The reports of the page, each by the code of its command.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::chart::chart_of_run;
use super::documents::{self, document};
use super::live::{LiveCluster, LookedBelow, MadeReport};
use super::{acting, reading};
use crate::cli::cluster::ClusterConnection;
use crate::cli::cluster::live_app::ControlPlaneArgs;
use crate::cli::console::error::Error;
use crate::cli::explain::Explanation;
use crate::cli::runs::{ReportedSet, history};
use crate::cli::{diff, explain, plan, runs, tree};
use wavegate_api::{ObjectKey, Raw};
use wavegate_dashboard::VerbPermissions;
use wavegate_dashboard::reports::{
    ActionAnswer, ActionRequest, ApplicationDocument, ChartDocument, KnownState, PageObject,
    PageReports, PendingReport, PlanDocument, PolicyDocument, RolloutDocument, RunDocument,
    Unavailable, WaitDocument,
};
use wavegate_rollout::application_set::{is_owned, set_of};
use wavegate_rollout::requests::Run;

/// What is below workloads is read again after this time at the earliest, while the same is waited
/// for: Pods are not watched.
const BELOW: Duration = Duration::from_secs(3);
/// The most Pods whose logs are read.
const LOGS: usize = 3;

fn unavailable(error: Error) -> Unavailable {
    Unavailable { is_missing: error.is_not_found(), message: error.to_string() }
}

fn missing(kind: &str, of: &PageObject) -> Unavailable {
    let place = format!("{kind} {}/{}", of.namespace, of.name);
    unavailable(Error::input(crate::cli::console::error::NOT_FOUND, place, "it does not exist"))
}

fn key_of(of: &PageObject) -> ObjectKey {
    ObjectKey::new(&of.namespace, &of.name)
}

/// Runs what the commands run, which is for one thread, on a thread of its own.
async fn on_thread<T, F>(make: impl FnOnce() -> F + Send + 'static) -> Result<T, Unavailable>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Error>>,
{
    let runtime = tokio::runtime::Handle::current();
    let made = tokio::task::spawn_blocking(move || runtime.block_on(make())).await;
    let failed = |error: tokio::task::JoinError| Unavailable {
        message: format!("cannot report: {error}"),
        is_missing: false,
    };
    made.map_err(failed)?.map_err(unavailable)
}

impl LiveCluster {
    /// A connection for one namespace, as after `-n`.
    fn at(&self, namespace: &str) -> ClusterConnection {
        self.connection.in_namespace(namespace)
    }

    /// Gives the runs of a set the words of their commits.
    fn name_commits(&self, key: &ObjectKey, runs: &mut [RunDocument]) {
        let found = || self.reported(key).map(|(found, _)| found);
        self.commits.name_commits(runs, self.at(&key.namespace), found, &self.state);
    }

    /// Other owners of what an Application of a set deploys.
    fn owners_beside(&self, of: &PageObject, wait: &WaitDocument) -> Vec<PageObject> {
        let live = self.application(&ObjectKey::new(&of.namespace, &wait.application));
        let exists = |key: &ObjectKey| self.application(key).is_some();
        live.map(|live| documents::other_owners(&live, exists)).unwrap_or_default()
    }
}

impl PageReports for LiveCluster {
    fn state(&self) -> watch::Receiver<KnownState> {
        Self::state(self)
    }

    fn place(&self) -> String {
        self.place.clone()
    }

    fn fleet(&self) -> PendingReport<'_, Vec<Arc<RolloutDocument>>> {
        let now = Timestamp::now();
        let made = move || {
            let sets = self.sets();
            sets.iter()
                .filter_map(|set| Some(Arc::clone(&self.report(set, now)?.document)))
                .collect()
        };
        async move { Ok(made()) }.boxed()
    }

    fn rollout<'a>(&'a self, of: &'a PageObject) -> PendingReport<'a, Arc<RolloutDocument>> {
        async move {
            let key = key_of(of);
            let made =
                self.report(&key, Timestamp::now()).ok_or_else(|| missing("ApplicationSet", of))?;
            let mut document = below(self, &key, made).await?;
            let owners = document.waits.iter().map(|wait| self.owners_beside(of, wait));
            let owners: Vec<Vec<PageObject>> = owners.collect();
            if owners.iter().any(|others| !others.is_empty()) {
                let waits = Arc::make_mut(&mut document).waits.iter_mut();
                waits.zip(owners).for_each(|(wait, others)| wait.others = others);
            }
            if let Some(mut run) = document.run.clone() {
                self.name_commits(&key, std::slice::from_mut(&mut run));
                if document.run.as_ref() != Some(&run) {
                    Arc::make_mut(&mut document).run = Some(run);
                }
            }
            Ok(document)
        }
        .boxed()
    }

    fn application<'a>(&'a self, of: &'a PageObject) -> PendingReport<'a, ApplicationDocument> {
        async move {
            let key = key_of(of);
            let live = self.application(&key).ok_or_else(|| missing("Application", of))?;
            let set =
                set_of(&live).and_then(|set| self.reported(&ObjectKey::new(live.namespace(), set)));
            let set = set.map(|(found, _)| found).filter(|found| is_owned(&live, &found.set));
            let others = documents::other_owners(&live, |key| self.application(key).is_some());
            let connection = self.at(&of.namespace);
            let made =
                on_thread(move || async move { Ok(application(&connection, live, set).await) });
            Ok(ApplicationDocument { others, ..made.await? })
        }
        .boxed()
    }

    fn difference<'a>(&'a self, of: &'a PageObject) -> PendingReport<'a, Value> {
        async move {
            let live = self.application(&key_of(of)).ok_or_else(|| missing("Application", of))?;
            let connection = self.at(&of.namespace);
            on_thread(move || async move { diff::difference(&connection, &live).await }).await
        }
        .boxed()
    }

    fn history<'a>(&'a self, of: &'a PageObject) -> PendingReport<'a, Vec<RunDocument>> {
        async move {
            let key = key_of(of);
            let set = self.set(&key).ok_or_else(|| missing("ApplicationSet", of))?;
            let records = history::records(&set, &self.runs(&key), Timestamp::now());
            let mut runs: Vec<RunDocument> = document(records);
            self.name_commits(&key, &mut runs);
            Ok(runs)
        }
        .boxed()
    }

    fn chart<'a>(&'a self, of: &'a PageObject, run: &'a str) -> PendingReport<'a, ChartDocument> {
        async move {
            let key = key_of(of);
            let (found, _) = self.reported(&key).ok_or_else(|| missing("ApplicationSet", of))?;
            let runs = self.runs(&key);
            let Some(run) = runs.iter().find(|one| one.name() == run) else {
                return Ok(ChartDocument::default());
            };
            Ok(chart_of_run(&found, &Run::read(run), Timestamp::now()))
        }
        .boxed()
    }

    fn plan<'a>(&'a self, of: &'a PageObject) -> PendingReport<'a, PlanDocument> {
        async move {
            self.set(&key_of(of)).ok_or_else(|| missing("ApplicationSet", of))?;
            let (connection, name) = (self.at(&of.namespace), of.name.clone());
            let plan = on_thread(move || async move { plan::live_plan(&connection, &name).await });
            Ok(document(plan.await?))
        }
        .boxed()
    }

    fn policies(&self) -> PendingReport<'_, Vec<PolicyDocument>> {
        async move { Ok(document(runs::policies::summaries(&self.policies()))) }.boxed()
    }

    fn permissions<'a>(&'a self, namespace: &'a str) -> PendingReport<'a, VerbPermissions> {
        let client = self.connection.client();
        async move { Ok(self.permissions.of_namespace(client, namespace).await) }.boxed()
    }

    fn act<'a>(&'a self, action: &'a ActionRequest, does: bool) -> PendingReport<'a, ActionAnswer> {
        async move {
            let connection = Arc::clone(&self.connection);
            let (action, context) = (action.clone(), self.context.clone());
            on_thread(move || async move {
                acting::act(&connection, context.as_deref(), &action, does).await
            })
            .await
        }
        .boxed()
    }
}

/// The rollout of a set, down to the Pods of what it waits for.
async fn below(
    live: &LiveCluster,
    key: &ObjectKey,
    made: Arc<MadeReport>,
) -> Result<Arc<RolloutDocument>, Unavailable> {
    let waits = &made.explanation.waits;
    let about = |wait: &explain::ExplainedWait| {
        let resource = wait.resource.as_ref().map(ToString::to_string).unwrap_or_default();
        format!("{} {} {resource}", wait.application, wait.kind)
    };
    let about: Vec<String> =
        waits.iter().filter(|wait| wait.resource.is_some()).map(about).collect();
    if about.is_empty() {
        return Ok(Arc::clone(&made.document));
    }
    let known = live.looked.lock().get(key).cloned();
    let looked = match known {
        Some(known) if known.about == about && known.at.elapsed() < BELOW => known.document,
        _ => {
            let (connection, made) = (live.at(&key.namespace), Arc::clone(&made));
            let looked = on_thread(move || async move {
                let mut explanation = made.explanation.clone();
                explanation.look_below(&connection, &made.applications).await;
                Ok(RolloutDocument {
                    waits: read_waits(&connection, &explanation, &made.applications).await,
                    notes: explanation.notes,
                    ..RolloutDocument::default()
                })
            })
            .await?;
            let looked = Arc::new(looked);
            let below = LookedBelow { about, at: Instant::now(), document: Arc::clone(&looked) };
            live.looked.lock().insert(key.clone(), below);
            looked
        }
    };
    let mut document = RolloutDocument::clone(&made.document);
    for (wait, looked) in document.waits.iter_mut().zip(&looked.waits) {
        if wait.application == looked.application && wait.kind == looked.kind {
            (wait.cause, wait.advice) = (looked.cause.clone(), looked.advice.clone());
            wait.log.clone_from(&looked.log);
        }
    }
    document.notes.clone_from(&looked.notes);
    Ok(Arc::new(document))
}

/// The waits of an explanation, with the end of the log of Pods that are the cause.
async fn read_waits(
    connection: &ClusterConnection,
    explanation: &Explanation,
    applications: &BTreeMap<String, Arc<Value>>,
) -> Vec<WaitDocument> {
    let (mut waits, mut logs) = (Vec::new(), 0);
    for found in &explanation.waits {
        let mut wait = documents::wait(found);
        if let Some(cause) = found.cause.as_ref().filter(|_| logs < LOGS) {
            let live = applications.get(&found.application);
            wait.log = reading::log(connection, live, cause).await;
            logs += usize::from(wait.log.is_some());
        }
        waits.push(wait);
    }
    waits
}

/// One Application, as `explain` and `tree` report it, with its Events.
async fn application(
    connection: &ClusterConnection,
    live: Arc<Value>,
    found: Option<ReportedSet>,
) -> ApplicationDocument {
    let now = Timestamp::now();
    let (mut explanation, applications) = match found {
        Some(found) => (
            explain::of_set(&found, live.name(), explain::conditions(&live), now),
            found.applications,
        ),
        None => {
            let only = BTreeMap::from([(live.name().to_owned(), Arc::clone(&live))]);
            (explain::of_none(&live, now), only)
        }
    };
    explanation.look_below(connection, &applications).await;
    let (events, unread) = match reading::events(connection, &live).await {
        Ok(events) => (events, None),
        Err(why) => (Vec::new(), Some(why)),
    };
    let tree = tree::read_tree(connection, &ControlPlaneArgs::default(), &live).await;
    let set = set_of(&live)
        .map(|set| PageObject { namespace: live.namespace().to_owned(), name: set.to_owned() });
    let texts = |pointer: &str| -> Vec<String> {
        live.items(pointer).iter().filter_map(|one| one.as_str().map(str::to_owned)).collect()
    };
    ApplicationDocument {
        of: documents::page_object(&live),
        set,
        summary: explanation.summary.clone(),
        waits: read_waits(connection, &explanation, &applications).await,
        conditions: documents::conditions(&explanation),
        links: texts("/status/summary/externalURLs"),
        deployed: documents::deployed(&live),
        others: Vec::new(),
        events,
        notes: explanation.notes.into_iter().chain(unread).collect(),
        tree: document(json!(tree)),
    }
}
