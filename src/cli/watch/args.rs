//! Options of waiting and of following, and what they ask for.

use std::time::Duration;

use tokio::time::Instant;

use crate::cli::cluster::ClusterArgs;
use gotime::duration::{self, DurationError};

/// Options of a command that can follow rollouts.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct WatchArgs {
    /// Follow the rollout until it is complete (exit code 0), or until only a person can
    /// continue it (exit code 1)
    #[arg(short, long, conflicts_with = "format")]
    pub watch: bool,
    /// Exit with code 1 when it is not complete after this time, such as 10m
    #[arg(long, value_name = "DURATION", requires = "watch", allow_hyphen_values = true,
        value_parser = timeout)]
    pub timeout: Option<Duration>,
    /// With --watch: go by what was compared before, instead of asking the controller to
    /// compare before the rollout counts as complete or as stuck
    #[arg(long, requires = "watch")]
    pub no_refresh: bool,
}

impl WatchArgs {
    /// What to follow, with --watch: one set, or those of a namespace.
    pub fn request<'a>(
        &self,
        cluster: &'a ClusterArgs,
        name: Option<&'a str>,
        view: WatchView,
    ) -> Option<WatchRequest<'a>> {
        let Self { watch, timeout, no_refresh } = *self;
        watch.then_some(WatchRequest {
            cluster,
            name,
            all_namespaces: false,
            timeout,
            no_refresh,
            view,
        })
    }
}

/// Reads a duration in Go's notation that is longer than 0.
pub(in crate::cli) fn timeout(text: &str) -> Result<Duration, String> {
    let wanted = "write it with a unit, such as 90s, 10m or 1h30m";
    let parsed = duration::parse(text).map_err(|error| match error {
        DurationError::Empty => format!("it is empty; {wanted}"),
        error => format!("{error}; {wanted}"),
    })?;
    match Duration::try_from(parsed) {
        Ok(time) if !time.is_zero() => Ok(time),
        _ => Err(format!("it must be longer than 0; {wanted}")),
    }
}

/// Waits until a time, or for ever without one.
pub(in crate::cli) async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// What is followed, and how it is shown.
#[derive(Clone, Debug)]
pub(in crate::cli) struct WatchRequest<'a> {
    pub cluster: &'a ClusterArgs,
    /// One set; all of a namespace when absent.
    pub name: Option<&'a str>,
    pub all_namespaces: bool,
    pub timeout: Option<Duration>,
    /// Whether comparisons from before the start count.
    pub no_refresh: bool,
    pub view: WatchView,
}

/// How rollouts are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum WatchView {
    /// A screen; lines when standard output cannot show one.
    Screen,
    /// Lines.
    Plain,
    /// The first line of `explain`, whenever it changes.
    Reason,
}
