//! The verbs of the page: each is the command that it shows, in this process (PG-020).

use jiff::Timestamp;
use serde_json::Value;

use super::documents::document;
use crate::cli::cluster::ClusterConnection;
use crate::cli::cluster::kubeconfig::current_user;
use crate::cli::console::commands::{in_namespace, word};
use crate::cli::console::error::Error;
use crate::cli::{run_actions, sync};
use wavegate_api::ObjectKey;
use wavegate_cluster::act::commands::{operation, refresh};
use wavegate_cluster::watch::failure::error_reason;
use wavegate_dashboard::reports::{ActionAnswer, ActionOutcomeDocument, ActionRequest, PageObject};

/// What a verb comes to; with `does`, it is done.
pub(super) async fn act(
    connection: &ClusterConnection,
    context: Option<&str>,
    action: &ActionRequest,
    does: bool,
) -> Result<ActionAnswer, Error> {
    let mut answer = ActionAnswer::default();
    for of in &action.of {
        let connection = connection.in_namespace(&of.namespace);
        let words = words_of(action, of);
        answer.commands.push(command(&words, of));
        let outcomes = match action.verb.as_str() {
            "sync" | "refresh" | "refresh-app" | "terminate" => {
                vec![of_application(&connection, context, action, of, does).await]
            }
            _ => {
                let how = if does { "--yes" } else { "--dry-run" };
                let mut words = words;
                words.insert(1, how.to_owned());
                words.extend(context.map(|context| format!("--context={context}")));
                let done = run_actions::act_in_words(&connection, &words).await;
                done.map_or_else(
                    |error| vec![outcome(of, "refused", error.why())],
                    document::<Vec<ActionOutcomeDocument>>,
                )
            }
        };
        answer.outcomes.extend(outcomes);
    }
    Ok(answer)
}

/// The words of the command, without its namespace; the name is last.
fn words_of(action: &ActionRequest, of: &PageObject) -> Vec<String> {
    let mut words: Vec<&str> = match action.verb.as_str() {
        "approve-deletions" => vec!["approve", "--deletions"],
        "unskip" => vec!["skip", "--undo"],
        "retry-app" => vec!["retry"],
        "refresh-app" => vec!["refresh"],
        verb => vec![verb],
    };
    if action.verb == "approve" && !action.gate.is_empty() {
        words.extend(["--gate", &action.gate]);
    }
    let reason = format!("--reason={}", action.reason);
    if action.verb == "pause" && !action.reason.is_empty() {
        words.push(&reason);
    }
    let name = match action.verb.as_str() {
        "retry" | "refresh" => format!("appset/{}", of.name),
        "retry-app" => format!("app/{}", of.name),
        _ => of.name.clone(),
    };
    words.into_iter().map(str::to_owned).chain([name]).collect()
}

/// The command as a line to copy.
fn command(words: &[String], of: &PageObject) -> String {
    let (verb, rest) = words.split_at(1);
    let rest: Vec<String> = rest.iter().map(|one| word(one)).collect();
    format!("wavegate {} {}{}", verb.concat(), in_namespace(&of.namespace), rest.join(" "))
}

fn outcome(of: &PageObject, outcome: &str, message: &str) -> ActionOutcomeDocument {
    ActionOutcomeDocument {
        namespace: of.namespace.clone(),
        application_set: of.name.clone(),
        outcome: outcome.to_owned(),
        applications: 1,
        message: message.to_owned(),
    }
}

/// A verb whose command follows what it has requested: it is requested.
async fn of_application(
    connection: &ClusterConnection,
    context: Option<&str>,
    action: &ActionRequest,
    of: &PageObject,
    does: bool,
) -> ActionOutcomeDocument {
    let says = match action.verb.as_str() {
        "sync" => "sync it with its own options",
        "terminate" => "terminate its running operation",
        "refresh-app" => "compare it with its source again",
        _ => "generate its Applications again",
    };
    if !does {
        return outcome(of, "planned", says);
    }
    match request(connection, context, action, of).await {
        Ok(()) => outcome(of, "done", says),
        Err(why) => outcome(of, "refused", &why),
    }
}

async fn request(
    connection: &ClusterConnection,
    context: Option<&str>,
    action: &ActionRequest,
    of: &PageObject,
) -> Result<(), String> {
    let (client, key, now) =
        (connection.client(), ObjectKey::new(&of.namespace, &of.name), Timestamp::now());
    let deleted = || "it was deleted".to_owned();
    let written = |written: Result<bool, kube::Error>| match written {
        Ok(true) => Ok(()),
        Ok(false) => Err(deleted()),
        Err(error) => Err(error_reason(&error)),
    };
    if action.verb == "refresh" {
        return written(refresh::application_set(client, &key, now).await);
    }
    let found = connection.get("Application", &key.namespace, &key.name).await;
    let live: Value = match found.map_err(|error| error.to_string())? {
        Some(live) => Value::clone(&live),
        None => return Err(deleted()),
    };
    match action.verb.as_str() {
        "refresh-app" => {
            let requested = wavegate_api::annotations::requested_refresh(&live);
            let hard = requested == Some(wavegate_api::annotations::Refresh::Hard);
            written(refresh::refresh_application(client, &key, hard, now).await)
        }
        "terminate" => {
            let ended = operation::terminate_operation(client, &live).await;
            ended.map(drop).map_err(|error| error.to_string())
        }
        _ => {
            let by = current_user(client, context).await.map_err(|error| error.to_string())?;
            let done = sync::request_sync(connection, &live, &by).await;
            done.map_err(|error| error.why().to_owned())
        }
    }
}
