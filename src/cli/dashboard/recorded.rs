//! The page over what a simulation has recorded: the objects as they were at any of its times, by the
//! code that reports them of a cluster (PG-002).

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt as _;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::documents::{self, document};
use crate::cli::explain;
use crate::cli::rollout_view::events::Watched;
use crate::cli::runs::{ReportedSet, history, policies};
use crate::cli::tree;
use wavegate_api::{ObjectKey, Raw};
use wavegate_dashboard::reports::{
    ActionAnswer, ActionRequest, ApplicationDocument, ChartDocument, KnownState, PageClock,
    PageObject, PageReports, PendingReport, PlanDocument, PolicyDocument, RolloutDocument,
    RunDocument, TimedReports, Unavailable,
};
use wavegate_rollout::application_set::{is_owned, set_of};
use wavegate_rollout::requests::{Run, current_run, number_of};

/// An object after a change; none when it was deleted.
pub(in crate::cli) struct RecordedObject {
    pub at: Timestamp,
    pub kind: Watched,
    pub key: ObjectKey,
    pub object: Option<Vec<u8>>,
}

/// What was recorded, in the order of time.
pub(in crate::cli) struct RecordedFleet {
    pub start: Timestamp,
    pub end: Timestamp,
    /// What was simulated, and how it ended.
    pub place: String,
    pub changes: Vec<RecordedObject>,
    /// The whole course of each set.
    pub charts: BTreeMap<ObjectKey, ChartDocument>,
}

/// The fleet at one of its times.
pub(in crate::cli) struct FleetMoment {
    fleet: Arc<RecordedFleet>,
    now: Timestamp,
    state: watch::Sender<KnownState>,
    objects: BTreeMap<(Watched, ObjectKey), Arc<Value>>,
}

impl FleetMoment {
    /// As it was then.
    pub fn at(fleet: &Arc<RecordedFleet>, now: Timestamp) -> Self {
        let mut last: BTreeMap<(Watched, ObjectKey), &RecordedObject> = BTreeMap::new();
        // What was written with the last change is of the end, too.
        let is_end = now >= fleet.end;
        for change in fleet.changes.iter().take_while(|change| is_end || change.at <= now) {
            last.insert((change.kind, change.key.clone()), change);
        }
        let read = |(key, change): ((Watched, ObjectKey), &RecordedObject)| {
            let object = serde_json::from_slice(change.object.as_deref()?).ok()?;
            Some((key, Arc::new(object)))
        };
        let known = KnownState { revision: 1, is_listed: true, problems: Vec::new() };
        Self {
            objects: last.into_iter().filter_map(read).collect(),
            fleet: Arc::clone(fleet),
            now,
            state: watch::Sender::new(known),
        }
    }

    fn of_kind(&self, kind: Watched) -> impl Iterator<Item = &Arc<Value>> {
        let is_of = move |((of, _), _): &(&(Watched, ObjectKey), _)| *of == kind;
        self.objects.iter().filter(is_of).map(|(_, object)| object)
    }

    fn object(&self, kind: Watched, of: &PageObject) -> Result<&Arc<Value>, Unavailable> {
        let key = ObjectKey::new(&of.namespace, &of.name);
        self.objects.get(&(kind, key)).ok_or_else(|| Unavailable {
            message: format!(
                "cannot find: {} {}/{}: it does not exist at this time of the simulation",
                kind.kind(),
                of.namespace,
                of.name
            ),
            is_missing: true,
        })
    }

    /// The runs of a set, the newest first.
    fn runs(&self, set: &Value) -> Vec<Arc<Value>> {
        let mut runs: Vec<Arc<Value>> =
            self.of_kind(Watched::Runs).filter(|run| is_owned(run, set)).cloned().collect();
        runs.sort_by_key(|run| std::cmp::Reverse(number_of(run.name())));
        runs
    }

    fn reported(&self, set: &Arc<Value>) -> (ReportedSet, Option<Arc<Value>>) {
        let is_near = |object: &&Arc<Value>| object.namespace() == set.namespace();
        let applications = self.of_kind(Watched::Applications).filter(is_near);
        let run = current_run(&self.runs(set), set).cloned();
        let found = ReportedSet {
            set: Arc::clone(set),
            applications: applications
                .map(|live| (live.name().to_owned(), Arc::clone(live)))
                .collect(),
            run: run.as_ref().map(|run| Run::read(run)),
            policies: self.of_kind(Watched::Policies).filter(is_near).cloned().collect(),
        };
        (found, run)
    }

    fn document(&self, set: &Arc<Value>) -> Arc<RolloutDocument> {
        let (found, run) = self.reported(set);
        Arc::new(documents::rollout(&found, run.as_ref(), self.now).0)
    }

    fn explained(&self, of: &PageObject) -> Result<ApplicationDocument, Unavailable> {
        let live = self.object(Watched::Applications, of)?;
        let owner = set_of(live).map(|name| PageObject {
            namespace: live.namespace().to_owned(),
            name: name.to_owned(),
        });
        let set = owner.as_ref().and_then(|owner| self.object(Watched::Sets, owner).ok());
        let found = set.filter(|set| is_owned(live, set)).map(|set| self.reported(set).0);
        let explanation = match &found {
            Some(found) => explain::of_set(found, live.name(), explain::conditions(live), self.now),
            None => explain::of_none(live, self.now),
        };
        let waits = explanation.waits.iter().map(documents::wait);
        Ok(ApplicationDocument {
            of: of.clone(),
            set: owner,
            summary: explanation.summary.clone(),
            waits: waits.collect(),
            conditions: documents::conditions(&explanation),
            tree: document(json!(tree::listed_tree(live))),
            links: Vec::new(),
            others: documents::other_owners(live, |key| {
                self.objects.contains_key(&(Watched::Applications, key.clone()))
            }),
            events: Vec::new(),
            deployed: documents::deployed(live),
            notes: Vec::new(),
        })
    }
}

/// What needs a cluster.
fn no_cluster<T>() -> Result<T, Unavailable> {
    let message = "this is a simulation: there is no cluster, and no repository is read".to_owned();
    Err(Unavailable { message, is_missing: false })
}

impl PageReports for FleetMoment {
    fn state(&self) -> watch::Receiver<KnownState> {
        self.state.subscribe()
    }

    fn place(&self) -> String {
        self.fleet.place.clone()
    }

    fn fleet(&self) -> PendingReport<'_, Vec<Arc<RolloutDocument>>> {
        async move { Ok(self.of_kind(Watched::Sets).map(|set| self.document(set)).collect()) }
            .boxed()
    }

    fn rollout<'a>(&'a self, of: &'a PageObject) -> PendingReport<'a, Arc<RolloutDocument>> {
        async move { Ok(self.document(self.object(Watched::Sets, of)?)) }.boxed()
    }

    fn application<'a>(&'a self, of: &'a PageObject) -> PendingReport<'a, ApplicationDocument> {
        async move { self.explained(of) }.boxed()
    }

    fn difference<'a>(&'a self, _: &'a PageObject) -> PendingReport<'a, Value> {
        async move { no_cluster() }.boxed()
    }

    fn history<'a>(&'a self, of: &'a PageObject) -> PendingReport<'a, Vec<RunDocument>> {
        async move {
            let set = self.object(Watched::Sets, of)?;
            Ok(document(history::records(set, &self.runs(set), self.now)))
        }
        .boxed()
    }

    fn chart<'a>(&'a self, of: &'a PageObject, _: &'a str) -> PendingReport<'a, ChartDocument> {
        async move {
            let chart = self.fleet.charts.get(&ObjectKey::new(&of.namespace, &of.name));
            Ok(ChartDocument { now: Some(self.now), ..chart.cloned().unwrap_or_default() })
        }
        .boxed()
    }

    fn plan<'a>(&'a self, _: &'a PageObject) -> PendingReport<'a, PlanDocument> {
        async move { no_cluster() }.boxed()
    }

    fn policies(&self) -> PendingReport<'_, Vec<PolicyDocument>> {
        async move {
            let all: Vec<Arc<Value>> = self.of_kind(Watched::Policies).cloned().collect();
            Ok(document(policies::summaries(&all)))
        }
        .boxed()
    }

    fn act<'a>(&'a self, _: &'a ActionRequest, _: bool) -> PendingReport<'a, ActionAnswer> {
        async move { no_cluster() }.boxed()
    }

    fn at_time(&self, asked: &str) -> Option<TimedReports> {
        let RecordedFleet { start, end, .. } = *self.fleet;
        let seconds: Option<i64> = asked.parse().ok();
        // The clock has whole seconds: the last one is the end.
        let is_before = |seconds: &i64| *seconds < end.as_second() - start.as_second();
        let at = seconds.filter(is_before).map(|seconds| start.as_second() + seconds.max(0));
        let now = at.and_then(|at| Timestamp::from_second(at).ok()).unwrap_or(end).max(start);
        Some(TimedReports {
            reports: Arc::new(Self::at(&self.fleet, now)),
            clock: PageClock { start, end, now },
        })
    }
}
