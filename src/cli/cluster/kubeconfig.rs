//! The kubeconfig: which files, which contexts, and which server.
//!
//! Files are found and merged as by `kubectl`: those of `KUBECONFIG` that exist, else
//! `~/.kube/config`, else the cluster that this process runs in.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use crate::cli::console::error::Error;
use wavegate_api::unknown::nearest_name;
use wavegate_api::yaml;
use wavegate_cluster::act::commands::requests;
use wavegate_cluster::watch::failure::cause_chain;
use wavegate_engine::names::some_of;

const WHAT: &str = "cannot reach the cluster";

/// The error of a context that cannot be used; `None` for the current one.
pub(in crate::cli) fn unusable(context: Option<&str>, why: String) -> Error {
    let place = context.map_or_else(
        || "the current kube context".to_owned(),
        |context| format!("kube context {context}"),
    );
    Error::input(WHAT, place, why)
}

/// The most contexts in a message.
const NAMES: usize = 20;

/// The files that may hold the kubeconfig, the most important first.
pub(in crate::cli) fn files() -> Vec<PathBuf> {
    let listed = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let listed: Vec<PathBuf> =
        std::env::split_paths(&listed).filter(|path| !path.as_os_str().is_empty()).collect();
    if !listed.is_empty() {
        return listed;
    }
    std::env::home_dir().map(|home| home.join(".kube").join("config")).into_iter().collect()
}

/// Reads and merges the files; `None` when none of them exists.
fn read() -> Result<Option<Kubeconfig>, Error> {
    let mut merged: Option<Kubeconfig> = None;
    for file in files() {
        let failed = |error: KubeconfigError| {
            let why = match error {
                KubeconfigError::Parse(_) => format!("{}: {}", cause_chain(&error), invalid(&file)),
                error => cause_chain(&error),
            };
            Error::input(WHAT, format!("kubeconfig {}", file.display()), why)
        };
        let next = match Kubeconfig::read_from(&file) {
            Err(KubeconfigError::ReadConfig(error, _)) if error.kind() == ErrorKind::NotFound => {
                continue;
            }
            next => next.map_err(failed)?,
        };
        merged = Some(match merged {
            Some(merged) => merged.merge(next).map_err(failed)?,
            None => next,
        });
    }
    Ok(merged)
}

/// What is wrong with a file that is no kubeconfig, without its words: these may be credentials.
fn invalid(file: &Path) -> &'static str {
    let text = std::fs::read(file).unwrap_or_default();
    let documents = yaml::decode_text(&text).and_then(|text| yaml::parse_documents(&text));
    match documents {
        Err(_) => "it is not valid YAML",
        Ok(documents) if documents.iter().any(|document| document.value.is_object()) => {
            "a field is missing there, or has a value of the wrong type"
        }
        Ok(_) => "it is YAML, but not an object with clusters, users and contexts",
    }
}

/// The names of the contexts; empty when there is no usable kubeconfig.
pub(in crate::cli) fn contexts() -> BTreeSet<String> {
    let found = read().ok().flatten();
    found.into_iter().flat_map(|found| found.contexts).map(|context| context.name).collect()
}

/// The name of the user of a context; without a context, of the current one. `None` when there
/// is no usable kubeconfig.
pub(in crate::cli) fn user(context: Option<&str>) -> Option<String> {
    let found = read().ok().flatten()?;
    let name = context.map(str::to_owned).or(found.current_context)?;
    let named = found.contexts.into_iter().find(|one| one.name == name)?;
    named.context?.user.filter(|user| !user.is_empty())
}

/// The server and the credentials of a context; without a context, of the current one,
/// or of the cluster that this process runs in.
///
/// # Errors
///
/// The message names the files that were tried, or the contexts that exist.
pub(in crate::cli) async fn config(context: Option<&str>) -> Result<Config, Error> {
    let failed = |why: String| unusable(context, why);
    let found = read()?;
    let current = found.as_ref().and_then(|found| found.current_context.clone());
    let current = current.filter(|name| !name.is_empty());
    if context.is_none() && current.is_none() && in_cluster() {
        return Config::incluster().map_err(|error| failed(cause_chain(&error)));
    }
    let Some(found) = found else { return Err(failed(missing(context.is_none()))) };
    let names: BTreeSet<String> = found.contexts.iter().map(|one| one.name.clone()).collect();
    match (context, current) {
        (None, None) => {
            let why = format!("no context is selected; {}", select(&names));
            return Err(failed(why));
        }
        (Some(context), _) if !names.contains(context) => {
            let near = nearest_name(context, names.iter().map(String::as_str));
            let near = near.map(|near| format!("did you mean {near}? ")).unwrap_or_default();
            return Err(failed(format!("it does not exist; {near}{}", select(&names))));
        }
        (None, Some(current)) if !names.contains(&current) => {
            let why = format!("current-context is {current}, which does not exist; ");
            return Err(failed(why + &select(&names)));
        }
        _ => {}
    }
    let options =
        KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let config = Config::from_custom_kubeconfig(found, &options).await;
    config.map_err(|error| failed(cause_chain(&error)))
}

/// Whether this process runs in a cluster.
pub(in crate::cli) fn in_cluster() -> bool {
    std::env::var_os("KUBERNETES_SERVICE_HOST").is_some_and(|host| !host.is_empty())
}

fn select(names: &BTreeSet<String>) -> String {
    match names.len() {
        0 => format!("there are none in {}", tried()),
        _ => {
            let names = some_of(names.iter(), NAMES);
            format!("select one with --context: {names}")
        }
    }
}

fn tried() -> String {
    let files: Vec<String> = files().iter().map(|file| file.display().to_string()).collect();
    match files.as_slice() {
        [] => "~/.kube/config (HOME is not set)".to_owned(),
        files => files.join(", "),
    }
}

fn missing(may_be_pod: bool) -> String {
    let pod = match may_be_pod {
        true => ", and this process does not run in a cluster (KUBERNETES_SERVICE_HOST is not set)",
        false => "",
    };
    format!("found no kubeconfig at {}{pod}; set KUBECONFIG or write ~/.kube/config", tried())
}

/// Time limit of the question who the user is.
const ANSWER: Duration = Duration::from_secs(30);

/// The user of a connection, as the API server names it; else that of the kube context, marked as
/// such.
///
/// # Errors
///
/// The API server does not answer.
pub(in crate::cli) async fn current_user(
    client: &Client,
    context: Option<&str>,
) -> Result<String, Error> {
    let found = tokio::time::timeout(ANSWER, requests::current_user(client)).await;
    let failed = |why: String| Error::input("cannot read from the cluster", "the user", why);
    let found = found
        .unwrap_or_else(|_| Err(format!("no response within {} s", ANSWER.as_secs())))
        .map_err(failed)?;
    Ok(found.unwrap_or_else(|| {
        let user = user(context).unwrap_or_else(|| "unknown user".to_owned());
        format!("{user} (kube context)")
    }))
}
