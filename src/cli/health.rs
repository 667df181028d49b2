//! `wavegate health`: the health of the objects in a file.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::cli::console::error::{CHECK_FAILED, Error, note};
use crate::cli::console::output::{self, OutputArgs, or_dash};
use crate::cli::files::fields;
use crate::cli::files::input;
use wavegate_api::Raw;
use wavegate_controller::config;
use wavegate_controller::health_scripts::HealthScripts;
use wavegate_engine::health::scripts::Scripts;
use wavegate_engine::health::{Checks, KindPattern, Status};

/// Print the health of each object in a file
///
/// Accepts the output of `kubectl get -o yaml`. A kind without a rule is assessed by what it
/// reports; one that reports nothing has no health status and does not affect the health of
/// an Application.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl get deployments -o yaml | wavegate health -f -")]
pub(super) struct HealthArgs {
    /// File or directory with live objects; - for standard input
    #[arg(short, long = "filename", required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Exit with 1 unless all objects with a health check are Healthy
    #[arg(long)]
    require_healthy: bool,
    /// Assess kinds without a rule by what they report, such as conditions
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", default_value_t = true, action = clap::ArgAction::Set)]
    generic_health: bool,
    /// Kinds that are not assessed so, comma separated GROUP/KIND, where * is any text
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_parser = KindPattern::parse)]
    generic_health_exclude: Vec<KindPattern>,
    /// Applications have the health in their status
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", default_value_t = false, action = clap::ArgAction::Set)]
    application_health: bool,
    /// File with the ConfigMap argocd-cm, whose health scripts go before all rules
    #[arg(long, value_name = "FILE")]
    argocd_cm: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Serialize)]
struct Row {
    group: String,
    kind: String,
    namespace: String,
    name: String,
    /// `null` for a kind without a health check.
    status: Option<Status>,
    message: String,
}

impl Row {
    fn of(object: &Value, checks: &Checks) -> Self {
        let [group, kind, namespace, name] =
            [object.group(), object.kind(), object.namespace(), object.name()].map(str::to_owned);
        let health = checks.of(object);
        Self {
            group,
            kind,
            namespace,
            name,
            status: health.as_ref().map(|health| health.status),
            message: health.map(|health| health.message).unwrap_or_default(),
        }
    }
}

/// The scripts of a ConfigMap in a file.
fn scripts(file: &Path) -> Result<Scripts, Error> {
    let objects = input::objects(&[file.to_owned()])?;
    let mut maps = objects.iter().filter(|object| object.value.kind() == "ConfigMap");
    let (Some(map), None) = (maps.next(), maps.next()) else {
        let why = "must contain one ConfigMap, argocd-cm";
        return Err(Error::input("cannot use", file.display().to_string(), why));
    };
    let (scripts, problems) = config::health_scripts(&fields::data_of(&map.value));
    for problem in problems {
        note(&problem);
    }
    Ok(scripts)
}

/// Runs the command.
pub(super) fn run(args: HealthArgs) -> anyhow::Result<ExitCode> {
    let objects = input::objects(&args.files)?;
    let objects: Vec<Arc<Value>> = objects.into_iter().map(|one| Arc::new(one.value)).collect();
    let scripts = match &args.argocd_cm {
        Some(file) => scripts(file)?,
        None => Scripts::default(),
    };
    let checks = Checks {
        generic: args.generic_health,
        not_generic: args.generic_health_exclude,
        applications: args.application_health,
        scripts: Arc::new(scripts),
        results: Arc::default(),
    };
    let runner = HealthScripts::default();
    let checks = runner.checked_blocking(&checks, objects.iter(), Timestamp::now());
    let rows: Vec<Row> = objects.iter().map(|object| Row::of(object, &checks)).collect();
    args.output.print(&rows, |rows| {
        let cells = |row: &Row| {
            [
                row.status.map_or_else(|| "-".to_owned(), |status| status.to_string()),
                row.kind.clone(),
                or_dash(&row.namespace),
                or_dash(&row.name),
                row.message.clone(),
            ]
        };
        output::table(["STATUS", "KIND", "NAMESPACE", "NAME", "MESSAGE"], rows.iter().map(cells))
    })?;
    let ill = rows.iter().any(|row| row.status.is_some_and(|status| status != Status::Healthy));
    Ok(if args.require_healthy && ill { ExitCode::from(CHECK_FAILED) } else { ExitCode::SUCCESS })
}
