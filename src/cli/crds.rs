//! `wavegate crds`: the CustomResourceDefinitions.

use std::process::ExitCode;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ListParams;
use kube::core::discovery::ApiResource;
use kube::{Api, Client};
use serde_json::Value;
use tokio::time::Instant;

use crate::cli::cluster::{ClusterArgs, ClusterConnection, block_on};
use crate::cli::console::error::Error;
use crate::cli::console::output;
use crate::cli::watch::args::timeout;
use wavegate_api::Raw as _;
use wavegate_api::crds::{KINDS, all_definitions, definition_yaml};
use wavegate_cluster::watch::failure::{error_reason, has_code};
use wavegate_cluster::watch::object::{StoredObject, kind_api, kind_resource};
use wavegate_engine::health;

/// Pause between two looks at the cluster.
const PAUSE: Duration = Duration::from_millis(200);
/// Time limit of a request.
const ANSWER: Duration = Duration::from_secs(30);

/// Print the CustomResourceDefinitions, to apply them to a cluster
///
/// Prints the files of crds/ unchanged: all of them, or those of the given kinds. With --wait,
/// waits instead until the cluster of the kube context serves them, after kubectl apply.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  wavegate crds | kubectl apply --server-side -f -\n  wavegate crds --wait\n\nExit \
                  codes of --wait: 0 served; 1 the time is over, or the cluster refuses the names of a \
                  definition; 2 wrong use, or the cluster cannot be read."
)]
pub(super) struct CrdsArgs {
    /// Print only these kinds
    #[arg(value_name = "KIND", ignore_case = true, value_parser = KINDS)]
    kinds: Vec<String>,
    /// Print nothing, and wait until the definitions are established and served
    #[arg(long)]
    wait: bool,
    /// With --wait: the longest time
    #[arg(long, value_name = "DURATION", requires = "wait", default_value = "60s",
        allow_hyphen_values = true, value_parser = timeout)]
    timeout: Duration,
    /// With --wait: kube context to use instead of the current one
    #[arg(long, value_name = "CONTEXT", requires = "wait")]
    context: Option<String>,
}

/// Runs the command.
pub(super) fn run(args: CrdsArgs) -> anyhow::Result<ExitCode> {
    let is_wanted = |kind: &str| {
        args.kinds.is_empty() || args.kinds.iter().any(|wanted| wanted.eq_ignore_ascii_case(kind))
    };
    if args.wait {
        let wanted: Vec<&str> = KINDS.into_iter().filter(|kind| is_wanted(kind)).collect();
        block_on(wait(&args, &wanted))?;
        return Ok(ExitCode::SUCCESS);
    }
    let wanted = KINDS.into_iter().filter(|kind| is_wanted(kind));
    let texts: Vec<String> = wanted.filter_map(definition_yaml).collect();
    output::print(&texts.join("---\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Waits until the cluster serves these kinds. `kubectl wait` fails at a definition without
/// conditions, as each one is in its first moments.
async fn wait(args: &CrdsArgs, kinds: &[&str]) -> Result<(), Error> {
    let cluster = ClusterArgs { namespace: None, context: args.context.clone() };
    let cluster = ClusterConnection::connect(&cluster).await?;
    let client = cluster.client();
    let deadline = Instant::now() + args.timeout;
    for definition in
        all_definitions().into_iter().filter(|one| kinds.contains(&one.spec.names.kind.as_str()))
    {
        loop {
            let limit = ANSWER.min(args.timeout);
            let looked = tokio::time::timeout(limit, look(client, &definition)).await;
            let why = match looked {
                Ok(None) => break,
                Ok(Some(Missing::Refused(error))) => return Err(error),
                Ok(Some(Missing::Yet(why))) => why,
                Err(_) => format!("no response within {} s", limit.as_secs()),
            };
            if Instant::now() + PAUSE >= deadline {
                let time = humantime::format_duration(args.timeout);
                let why = format!("not within {time}: {why}; raise --timeout if it goes on");
                return Err(Error::check("is not served", title(&definition), why));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(())
}

fn title(definition: &CustomResourceDefinition) -> String {
    let name = definition.metadata.name.clone().unwrap_or_default();
    format!("CustomResourceDefinition {name}")
}

/// Why a kind is not served.
pub(super) enum Missing {
    /// It may be soon.
    Yet(String),
    /// Waiting is of no use.
    Refused(Error),
}

/// Whether a kind is served; `None` when it is.
async fn look(client: &Client, definition: &CustomResourceDefinition) -> Option<Missing> {
    let unread = |error: &kube::Error| {
        let place = title(definition);
        Some(match has_code(error, 401) || has_code(error, 403) {
            true => Missing::Refused(Error::input("cannot read", place, error_reason(error))),
            false => Missing::Yet(error_reason(error)),
        })
    };
    let definitions: Api<kube::core::DynamicObject> =
        Api::all_with(client.clone(), &ApiResource::erase::<CustomResourceDefinition>(&()));
    let name = definition.metadata.name.as_deref().unwrap_or_default();
    let found: Value = match definitions.get_opt(name).await {
        Ok(Some(found)) => serde_json::to_value(&found).unwrap_or_default(),
        Ok(None) => {
            let why = "it does not exist; apply the output of wavegate crds";
            return Some(Missing::Yet(why.to_owned()));
        }
        Err(error) => return unread(&error),
    };
    if let Some(missing) = not_established(&found) {
        return Some(missing);
    }
    // Established first, served by each handler a moment later.
    let served: Api<StoredObject> =
        kind_api(client, None, &kind_resource(&definition.spec.names.kind));
    match served.list(&ListParams::default().limit(1)).await {
        Ok(_) => None,
        // Of those who may not list all namespaces, the server does not say whether it is.
        Err(error) if has_code(&error, 403) => None,
        Err(error) => unread(&error),
    }
}

/// What a definition in the cluster lacks.
pub(super) fn not_established(found: &Value) -> Option<Missing> {
    let mut found = found.clone();
    if let Some(fields) = found.as_object_mut() {
        fields.insert("apiVersion".to_owned(), "apiextensions.k8s.io/v1".into());
        fields.insert("kind".to_owned(), "CustomResourceDefinition".into());
    }
    let health = health::by_kind(&found)?;
    match health.status {
        health::Status::Healthy => None,
        // The names are taken: nothing changes by itself.
        health::Status::Degraded if health.message.contains("names") => {
            let place = format!("CustomResourceDefinition {}", found.name());
            Some(Missing::Refused(Error::check("is not served", place, health.message)))
        }
        _ => Some(Missing::Yet(health.message)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Each definition begins without conditions, at which `kubectl wait` fails.
    #[test]
    fn a_definition_without_conditions_is_waited_for() {
        let of = |status: Value| {
            let found = not_established(&json!({"status": status}));
            match found {
                None => "served".to_owned(),
                Some(Missing::Yet(why)) => format!("yet: {why}"),
                Some(Missing::Refused(error)) => format!("refused: {error}"),
            }
        };
        let condition = |kind: &str, status: &str, reason: &str| json!({"type": kind, "status": status, "reason": reason, "message": "m"});
        let established = condition("Established", "True", "InitialNamesAccepted");
        let accepted = condition("NamesAccepted", "True", "NoConflicts");
        let installing = condition("Established", "False", "Installing");
        for status in
            [Value::Null, json!({}), json!({"conditions": null}), json!({"conditions": []})]
        {
            assert_eq!(of(status), "yet: Status conditions not found");
        }
        assert_eq!(
            of(json!({"conditions": [accepted, installing]})),
            "yet: CRD is being installed"
        );
        assert_eq!(of(json!({"conditions": [accepted]})), "yet: CRD is not established");
        assert_eq!(of(json!({"conditions": [accepted, established]})), "served");
        let conflict = condition("NamesAccepted", "False", "PluralConflict");
        assert!(of(json!({"conditions": [conflict]})).starts_with("refused: is not served: "));
    }
}
