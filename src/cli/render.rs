//! `wavegate render`: the Applications that an ApplicationSet generates.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::cli::cluster::controller::{Controller, ControllerArgs, GeneratorArgs};
use crate::cli::cluster::{ClusterArgs, ClusterConnection, block_on};
use crate::cli::console::error::{CHECK_FAILED, Error, fault, note};
use crate::cli::console::output::{self, OutputFormat, or_dash};
use crate::cli::files::input::{FileObject, FoundSets};
use crate::cli::files::{generate, input};
use wavegate_api::Raw;
use wavegate_api::sources::InEffect;
use wavegate_api::unknown;
use wavegate_rollout::application_set::deletion::deletion_guard;
use wavegate_rollout::application_set::generate::validate;

/// Print the Applications that an ApplicationSet generates, by name
///
/// YAML documents can be applied unchanged; JSON is one List. Generators read cluster
/// Secrets and credentials of repositories from the files; with --live from the control
/// plane in the cluster of the kube context, and without -f the ApplicationSet, too. Exits
/// with 1 when the set has unknown fields, cannot be generated, or generates invalid
/// Applications: an empty or duplicate name, or an invalid destination.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  wavegate render -f appset.yaml
  wavegate render --live APPSET          of a set in the cluster")]
pub(super) struct RenderArgs {
    /// File with the ApplicationSet, and Secrets that its generators read; - for standard
    /// input
    #[arg(short, long = "filename", required_unless_present = "live", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Only the ApplicationSet with this name
    #[arg(value_name = "APPSET")]
    name: Option<String>,
    /// Read clusters, projects and credentials of repositories from the cluster
    #[arg(long)]
    live: bool,
    #[command(flatten)]
    generators: GeneratorArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value = "yaml", value_name = "FORMAT")]
    output: OutputFormat,
}

/// Runs the command.
pub(super) fn run(args: RenderArgs) -> anyhow::Result<ExitCode> {
    let (mut applications, code) = block_on(generated(&args))?;
    // Stable, and sorted by name across all sets.
    applications.sort_by(|a, b| a.name().cmp(b.name()));
    output::print(&match args.output {
        OutputFormat::Yaml => output::yaml(&applications)?,
        OutputFormat::Json => {
            output::json(&json!({"apiVersion": "v1", "kind": "List", "items": applications}))?
        }
        OutputFormat::Table => table(&applications),
    })?;
    Ok(code)
}

/// The Applications of all sets, and the exit code.
async fn generated(args: &RenderArgs) -> Result<(Vec<Value>, ExitCode), Error> {
    let mut applications = Vec::new();
    let mut code = ExitCode::SUCCESS;
    let (sets, mut facts, controller) = if args.live {
        let (sets, controller) = live(args).await?;
        (sets, controller.facts(), Some(controller))
    } else {
        let (inputs, namespace) = (args.generators.inputs(), args.generators.namespace());
        let FoundSets { sets, facts, .. } =
            input::application_sets(&args.files, args.name.as_deref(), inputs, namespace)?;
        (sets, facts, None)
    };
    for set in sets {
        let generation = generate::generate(&set, &mut facts).await?;
        let unknown = unknown::in_application_set(&set.value);
        if !unknown.is_empty() {
            generate::report_unknown(&set, &unknown);
            code = ExitCode::from(CHECK_FAILED);
        }
        for warning in &generation.warnings {
            note(&format!("{}: {warning}", set.described()));
        }
        for place in deletion_guard::found_nothing(&generation.reads.found) {
            note(&format!("{}: {place}: finds nothing", set.described()));
        }
        let known = generate::assumed(&generation);
        let problems = match &controller {
            Some(controller) => controller.problems(&generation, &controller.known(known)),
            None => validate::validation_problems(&generation, &known),
        };
        for (name, problem) in problems {
            let why = format!("application {name}: {problem}");
            fault(&Error::check("invalid application", set.described(), why));
            code = ExitCode::from(CHECK_FAILED);
        }
        applications.extend(generation.applications);
    }
    Ok((applications, code))
}

/// The sets, and the settings and Secrets of the control plane.
async fn live(args: &RenderArgs) -> Result<(Vec<FileObject>, Controller), Error> {
    if args.files.is_empty() && args.name.is_none() {
        let why = "name the ApplicationSet to read from the cluster, or give a file with -f";
        return Err(Error::input("cannot render", "--live", why));
    }
    let cluster = ClusterConnection::connect(&args.cluster).await?;
    let sets = generate::live_sets(&cluster, &args.files, args.name.as_deref()).await?;
    let settings = ControllerArgs::from(args.generators.clone());
    Ok((sets, Controller::read(&cluster, &settings).await?))
}

fn table(applications: &[Value]) -> String {
    let row = |application: &Value| {
        let destination = match application.text("/spec/destination/name") {
            "" => application.text("/spec/destination/server"),
            name => name,
        };
        [
            or_dash(application.name()),
            or_dash(application.text("/spec/project")),
            or_dash(destination),
            or_dash(application.text("/spec/destination/namespace")),
            or_dash(&source(application.spec())),
        ]
    };
    let header = ["NAME", "PROJECT", "CLUSTER", "NAMESPACE", "SOURCE"];
    output::table(header, applications.iter().map(row))
}

/// Short form of the source; the first of several sources.
fn source(spec: &Value) -> String {
    let several = InEffect::of(spec).list;
    let source = several.first().unwrap_or(&Value::Null);
    let text = |field: &str| source.field(field);
    let inner = if text("chart").is_empty() { text("path") } else { text("chart") };
    let revision = text("targetRevision");
    let at = if revision.is_empty() { String::new() } else { format!("@{revision}") };
    let more =
        if several.len() > 1 { format!(" and {} more", several.len() - 1) } else { String::new() };
    let slash = if inner.is_empty() { "" } else { "//" };
    format!("{}{slash}{inner}{at}{more}", wavegate_net::redact::redact_url(text("repoURL")))
}
