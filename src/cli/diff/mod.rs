//! `wavegate diff`: what a sync of an Application, a change of an ApplicationSet, or the
//! application of one manifest would change.

mod application;
mod application_set;
mod args;
pub(in crate::cli) mod compared;
mod field_change;
mod files;
mod filter;
mod summary;

use std::process::ExitCode;

pub(super) use self::application::difference;
pub(super) use self::application_set::planned_differences;
pub(super) use self::args::DiffArgs;
use crate::cli::cluster::live_app::{TargetKind, named};
use crate::cli::cluster::{ClusterConnection, block_on};
use crate::cli::console::error::{Error, NOT_FOUND, note};

/// Runs the command.
pub(super) fn run(args: DiffArgs) -> anyhow::Result<ExitCode> {
    if let (Some(desired), Some(live)) = (&args.desired, &args.live) {
        return files::run(desired, live, args.config.as_deref(), &args.output);
    }
    let (kind, name) = match &args.name {
        Some(name) => match named(name)? {
            (TargetKind::Any, name) if args.appset => (TargetKind::ApplicationSet, name),
            named => named,
        },
        None => (TargetKind::ApplicationSet, ""),
    };
    if kind == TargetKind::Application && (args.appset || !args.files.is_empty()) {
        let why = "names an Application, but --appset and -f are for ApplicationSets";
        return Err(Error::input("cannot compare", args.name.unwrap_or_default(), why).into());
    }
    let is_set = kind == TargetKind::ApplicationSet || args.appset || !args.files.is_empty();
    if is_set {
        return set(&args, Some(name).filter(|name| !name.is_empty()));
    }
    let name = name.to_owned();
    let found = block_on(async {
        let connection = ClusterConnection::connect(&args.cluster).await?;
        let application = match connection.expect_application(&name).await {
            Ok(application) => application,
            Err(missing) if missing.is_not_found() && kind == TargetKind::Any => {
                return match connection.expect_application_set(&name).await {
                    Ok(_) => Ok(None),
                    Err(error) if error.is_not_found() => Err(neither(&connection, &name)),
                    Err(error) => Err(error),
                };
            }
            Err(error) => return Err(error),
        };
        if kind == TargetKind::Any && connection.expect_application_set(&name).await.is_ok() {
            note(&format!(
                "{name} is an Application and an ApplicationSet: this is the Application; use \
                 appset/{name} for the other"
            ));
        }
        application::compare(&connection, &args, &application).await.map(Some)
    })?;
    match found {
        Some(report) => application::print(&report, &args.output),
        None => set(&args, Some(&name)),
    }
}

fn set(args: &DiffArgs, name: Option<&str>) -> anyhow::Result<ExitCode> {
    let of_application = [
        ("--revision", !args.revisions.is_empty()),
        ("--local", args.local.is_some()),
        ("--repo", args.repo.is_some()),
        ("--resource", !args.resources.is_empty()),
    ];
    if let Some((option, _)) = of_application.into_iter().find(|(_, given)| *given) {
        let name = name.unwrap_or("-f");
        let why = format!(
            "{option} is for Applications, and this is an ApplicationSet: wavegate plan --live \
             shows what a work tree or a revision makes of its Applications"
        );
        return Err(Error::input("cannot compare", name, why).into());
    }
    let reports = block_on(application_set::compare(args, name))?;
    application_set::print(&reports, &args.output)
}

fn neither(connection: &ClusterConnection, name: &str) -> Error {
    let place = format!("{}/{name}", connection.namespace);
    let why = "there is neither an Application nor an ApplicationSet with this name; select another \
               namespace with -n, or list the ApplicationSets of all with wavegate status -A";
    Error::input(NOT_FOUND, place, why)
}
