//! `wavegate retry`: starts failed Applications of runs again.

use std::process::ExitCode;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::ask::{Request, Speaker, Verb, speak, speak_of_runs};
use super::{Common, Sets, find};
use crate::cli::cluster::{ClusterConnection, block_on};
use crate::cli::error::{Error, NOT_FOUND, note};
use crate::cli::live_app::{Kind, named};
use crate::cli::runs::runs;
use wavegate_api::Raw;
use wavegate_rollout::steering::{self, Actor, Run, Verdict, current};

/// Start failed Applications of the current run again
///
/// With the name of an ApplicationSet, all that failed, once each; that lifts the quarantine of
/// the run's targets. With the name of an Application, that one, also when a person has synced it
/// to something else. app/NAME and appset/NAME say which is meant.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = super::EXIT_CODES)]
pub(in crate::cli) struct Args {
    /// Name of an ApplicationSet or of an Application
    #[arg(value_name = "APP|APPSET", required_unless_present_any = ["selector", "all_namespaces"],
        conflicts_with_all = ["selector", "all_namespaces"])]
    name: Option<String>,
    /// All ApplicationSets with these labels
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,
    /// The ApplicationSets of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    #[command(flatten)]
    common: Common,
}

const VERB: Verb = Verb { name: "retry", done: "retry requested" };
const WHAT: &str = "cannot retry";

/// Runs the command.
pub(in crate::cli) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let answer = block_on(async {
        let cluster = ClusterConnection::connect(&args.common.cluster).await?;
        let name = args.name.as_deref().unwrap_or_default();
        let (name, application) = match named(name)? {
            (Kind::Application, name) => (name, Some(cluster.expect_application(name).await?)),
            (Kind::ApplicationSet, name) => (name, None),
            (Kind::Any, "") => ("", None),
            (Kind::Any, name) => (name, meant(&cluster, name).await?),
        };
        if let Some(application) = application {
            return retry_one(&cluster, &args.common, &application).await;
        }
        let sets = Sets {
            name: Some(name.to_owned()).filter(|name| !name.is_empty()),
            selector: args.selector.clone(),
            all_namespaces: args.all_namespaces,
        };
        let decide = |run: &_, person: Actor<'_>| steering::retry(run, &[], person);
        speak_of_runs(&cluster, &args.common, VERB, &sets, decide).await
    })?;
    answer.print(&args.common)
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
    cluster: &ClusterConnection,
    common: &Common,
    application: &Arc<Value>,
) -> Result<super::ask::Answer, Error> {
    let set = find::set_of_application(cluster, application, WHAT).await?;
    let runs = runs(cluster, &set).await?;
    // The clock here may be behind that of the cluster: a retry is later than what it is about.
    let sync = application["status"]["operationState"]["startedAt"].as_str();
    let sync = sync.and_then(|at| at.parse().ok()).unwrap_or(Timestamp::UNIX_EPOCH);
    let speaker = Speaker::of(cluster, common).await?.not_before(sync);
    let is_complete = find::is_complete(&set, application);
    let name = application.name();
    let decide = |run: &_| match is_complete {
        true => Verdict::Refused(format!("{name} is complete: there is nothing to retry")),
        false => steering::retry(&Run::read(run), &[name], speaker.person()),
    };
    let request = Request::to_run(&set, current(&runs, &set), decide);
    speak(cluster, common, VERB, &[request], true).await
}
