//! `wavegate sync`: writes the operation of a sync and follows it, or syncs manifests
//! without an Application.

mod application;
mod args;
mod control_plane;
mod directory;
pub(super) mod follow;
mod manifests;
mod member;
mod ownership;
pub(super) mod progress;
mod request;
pub(super) mod result;
mod run_lease;

use std::process::ExitCode;

pub(super) use self::application::request_sync;
pub(super) use self::args::SyncArgs;
use self::request::unusable;
pub(super) use self::request::{INTERRUPTED, place};
use wavegate_application::manual;

/// Runs the command.
pub(super) fn run(args: SyncArgs) -> anyhow::Result<ExitCode> {
    for option in &args.what.options {
        manual::check_option(option).map_err(unusable)?;
    }
    if args.is_local() { directory::run(args) } else { application::run(args) }
}
