//! Finds ApplicationSets, their runs and the policies that select them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::cli::cluster::ClusterConnection;
use crate::cli::console::commands::wavegate;
use crate::cli::console::error::{Error, NOT_FOUND, note};
use crate::cli::runs::runs;
use wavegate_api::policy::POLICY;
use wavegate_api::run::RUN;
use wavegate_api::{ObjectKey, Raw};
use wavegate_rollout::application_set::status::report_input;
use wavegate_rollout::application_set::{is_owned, set_of};
use wavegate_rollout::requests::current_run;

/// One ApplicationSet, or several.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct SetSelection {
    /// Name of the ApplicationSet
    #[arg(value_name = "APPSET", required_unless_present_any = ["selector", "all_namespaces"],
        conflicts_with_all = ["selector", "all_namespaces"])]
    pub name: Option<String>,
    /// All ApplicationSets with these labels
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub selector: Option<String>,
    /// The ApplicationSets of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
}

impl SetSelection {
    /// Whether one is named.
    pub fn is_one(&self) -> bool {
        self.name.is_some()
    }

    /// The selected sets, in the order of namespace and name; at least one.
    pub async fn find(&self, cluster: &ClusterConnection) -> Result<Vec<Arc<Value>>, Error> {
        if let Some(name) = &self.name {
            return Ok(vec![cluster.expect_application_set(name).await?]);
        }
        let labels = self.selector.as_deref();
        let mut sets = match self.all_namespaces {
            true => cluster.list("ApplicationSet", None, labels).await?,
            false => cluster.here("ApplicationSet", labels).await?.1,
        };
        if sets.is_empty() {
            let place = match self.all_namespaces {
                true => "ApplicationSets of all namespaces".to_owned(),
                false => format!("ApplicationSets of namespace {}", cluster.places().join(" and ")),
            };
            let why = match labels {
                Some(labels) => format!("none has the labels {labels}"),
                None => "there are none".to_owned(),
            };
            return Err(Error::input(NOT_FOUND, place, why));
        }
        sets.sort_by_key(|set| ObjectKey::of(set));
        Ok(sets)
    }

    /// The selected sets, each with its current run.
    pub async fn with_runs(
        &self,
        cluster: &ClusterConnection,
    ) -> Result<Vec<(Arc<Value>, Option<Arc<Value>>)>, Error> {
        let sets = self.find(cluster).await?;
        if let [set] = sets.as_slice() {
            let run = current_run(&runs(cluster, set).await?, set).cloned();
            return Ok(vec![(Arc::clone(set), run)]);
        }
        let namespace = sets.first().filter(|_| !self.all_namespaces).map(|set| set.namespace());
        let mut by_namespace: BTreeMap<String, Vec<Arc<Value>>> = BTreeMap::new();
        for run in cluster.list(RUN, namespace, None).await? {
            by_namespace.entry(run.namespace().to_owned()).or_default().push(run);
        }
        let none = Vec::new();
        let with_run = |set: Arc<Value>| {
            let runs = by_namespace.get(set.namespace()).unwrap_or(&none);
            let run = current_run(runs, &set).cloned();
            (set, run)
        };
        Ok(sets.into_iter().map(with_run).collect())
    }
}

/// The policies of a namespace; none where they cannot exist, or be read, which is noted.
pub(super) async fn policies(cluster: &ClusterConnection, namespace: &str) -> Vec<Arc<Value>> {
    let read = cluster.list(POLICY, Some(namespace), None).await;
    read.unwrap_or_else(|error| {
        if !error.is_undefined() {
            note(&format!("whether a policy pauses it is not known: {error}"));
        }
        Vec::new()
    })
}

/// An Application of an ApplicationSet, and that set.
pub(super) async fn member(
    cluster: &ClusterConnection,
    name: &str,
    what: &str,
) -> Result<(Arc<Value>, Arc<Value>), Error> {
    let of_set = |options: &str, name: &str| {
        format!("wavegate status {options}{name} lists its Applications: name some of them")
    };
    let application = cluster.expect_member(name, what, of_set).await?;
    let set = set_of_application(cluster, &application, what).await?;
    Ok((application, set))
}

/// Whether an Application is complete in the rollout of its set.
pub(super) fn is_complete(set: &Value, application: &Arc<Value>) -> bool {
    let name = application.name().to_owned();
    let report = report_input::read_report(
        set,
        &BTreeMap::from([(name.clone(), Arc::clone(application))]),
        None,
    );
    report.members.get(&name).is_some_and(|member| report.is_done(member))
}

/// The set that owns an Application.
pub(super) async fn set_of_application(
    cluster: &ClusterConnection,
    application: &Value,
    what: &str,
) -> Result<Arc<Value>, Error> {
    let place = format!("Application {}/{}", application.namespace(), application.name());
    let Some(name) = set_of(application) else {
        let sync = wavegate("sync", application.namespace(), application.name());
        let why = format!("it belongs to no ApplicationSet, and so to no run; {sync} syncs it");
        return Err(Error::check(what, place, why));
    };
    let set = cluster.get("ApplicationSet", application.namespace(), name).await?;
    set.filter(|set| is_owned(application, set)).ok_or_else(|| {
        Error::check(what, place, format!("its ApplicationSet {name} does not exist any more"))
    })
}
