//! Starts failed Applications of runs again: all of a set, or one.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::request::{ActionResults, PlannedAction, Session};
use super::selection::{self, SetSelection};
use crate::cli::cluster::ClusterConnection;
use crate::cli::cluster::live_app::{TargetKind, named};
use crate::cli::console::error::{Error, NOT_FOUND, note};
use crate::cli::runs::runs;
use wavegate_api::Raw;
use wavegate_rollout::requests::{self, Run, Verdict, current_run};

/// Retries what is selected.
pub(super) async fn retry(
    session: &Session<'_>,
    selection: &SetSelection,
) -> Result<ActionResults, Error> {
    let cluster = session.cluster;
    let (kind, name) = named(selection.name.as_deref().unwrap_or_default())?;
    let application = match kind {
        TargetKind::Application => Some(cluster.expect_application(name).await?),
        TargetKind::Any if !name.is_empty() => meant(cluster, name).await?,
        TargetKind::Any | TargetKind::ApplicationSet => None,
    };
    if let Some(application) = application {
        return retry_one(session, &application).await;
    }
    let name = Some(name.to_owned()).filter(|name| !name.is_empty());
    let sets = SetSelection { name, ..selection.clone() };
    session.change_runs(&sets, |run, by| requests::retry_applications(run, &[], by)).await
}

/// The Application of this name; `None` when an ApplicationSet is meant.
async fn meant(cluster: &ClusterConnection, name: &str) -> Result<Option<Arc<Value>>, Error> {
    let application = cluster.expect_application(name).await;
    let set = cluster.expect_application_set(name).await;
    match (application, set) {
        (Ok(application), Ok(_)) => {
            note(&format!(
                "{name} is an Application and an ApplicationSet: this is the Application; use \
                 appset/{name} for the other"
            ));
            Ok(Some(application))
        }
        (Ok(application), Err(_)) => Ok(Some(application)),
        (Err(missing), Ok(_)) if missing.is_not_found() => Ok(None),
        // The names of sets are fewer: what is similar to one is likely to be meant.
        (Err(missing), Err(error)) if missing.is_not_found() && error.is_not_found() => {
            let place = format!("{}/{name}", cluster.namespace);
            let why = format!(
                "there is neither an Application nor an ApplicationSet with this name: {missing}; {error}"
            );
            Err(Error::input(NOT_FOUND, place, why))
        }
        (Err(error), _) => Err(error),
    }
}

async fn retry_one(
    session: &Session<'_>,
    application: &Arc<Value>,
) -> Result<ActionResults, Error> {
    let set = selection::set_of_application(session.cluster, application, "cannot retry").await?;
    let runs = runs(session.cluster, &set).await?;
    // The clock here may be behind that of the cluster: a retry is later than what it is about.
    let sync = application.time("/status/operationState/startedAt");
    let user = session.user_request().await?.not_before(sync.unwrap_or(Timestamp::UNIX_EPOCH));
    let is_complete = selection::is_complete(&set, application);
    let name = application.name();
    let decide = |run: &_| match is_complete {
        true => Verdict::Refused(format!("{name} is complete: there is nothing to retry")),
        false => requests::retry_applications(&Run::read(run), &[name], user.person()),
    };
    let action = PlannedAction::for_run(&set, current_run(&runs, &set), decide);
    session.carry_out(&[action], true).await
}
