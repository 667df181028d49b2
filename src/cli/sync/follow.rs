//! Follows one Application: prints the progress of its operation until it has ended.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use serde_json::Value;
use tokio::time::Instant;

use super::progress::{FollowedState, OperationGoal, Progress, ProgressLine, followed};
use super::result::OperationResult;
use crate::cli::console::error::{Error, note};
use crate::cli::console::output::{self, OutputArgs, OutputFormat};
use crate::cli::watch::args::until;
use wavegate_api::Raw;
use wavegate_api::app_view::ApplicationView;
use wavegate_api::operation::OperationPhase;
use wavegate_api::resource_key::ResourceKey;
use wavegate_cluster::watch::follow::{Events, follow_objects, watch_error};
use wavegate_cluster::watch::object::{StoredObject, kind_api, kind_resource};
use wavegate_engine::blocking_resource;

/// After this time without a start, the controller is probably not running.
const NOT_STARTED: Duration = Duration::from_secs(10);
/// How often an Application is read that cannot be watched.
const POLL: Duration = Duration::from_secs(1);

/// The versions of one object of the control plane.
pub(in crate::cli) struct Versions {
    client: Client,
    kind: &'static str,
    namespace: String,
    name: String,
    events: Events<StoredObject>,
    /// The last error, so that it is reported once.
    failed: String,
}

impl Versions {
    /// Watches an object of the control plane.
    pub fn of(client: &Client, kind: &'static str, object: &Value) -> Self {
        let (namespace, name) = (object.namespace(), object.name());
        let api: Api<StoredObject> =
            Api::namespaced_with(client.clone(), namespace, &kind_resource(kind));
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        Self {
            client: client.clone(),
            kind,
            events: follow_objects(api, config),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            failed: String::new(),
        }
    }

    /// The next version; `None` when it was deleted.
    pub async fn next(&mut self) -> Option<Value> {
        // A listing without the Application.
        let mut listed = true;
        loop {
            match self.events.next().await {
                Some(Ok(Event::Init)) => listed = false,
                Some(Ok(Event::InitApply(object) | Event::Apply(object))) => {
                    return Some(object.parse());
                }
                Some(Ok(Event::InitDone)) if listed => {}
                Some(Ok(Event::InitDone | Event::Delete(_))) => return None,
                Some(Err(error)) => {
                    let reason = watch_error(&error);
                    if reason != self.failed {
                        note(&format!(
                            "cannot watch {} {}/{}: {reason}; it is read every second",
                            self.kind, self.namespace, self.name
                        ));
                        self.failed = reason;
                    }
                    tokio::time::sleep(POLL).await;
                    let kind = kind_resource(self.kind);
                    let api = kind_api(&self.client, Some(&self.namespace), &kind);
                    match api.get_opt(&self.name).await {
                        Ok(found) => return found.map(|found| found.parse()),
                        // The watch is tried again, too.
                        Err(error) => tracing::debug!(%error, "cannot read"),
                    }
                }
                None => std::future::pending().await,
            }
        }
    }
}

/// How to follow.
#[derive(Clone, Debug)]
pub(in crate::cli) struct FollowOptions {
    /// Prefix of all lines: the name, when several Applications are followed.
    pub prefix: String,
    /// No progress is printed, for output in another format.
    pub quiet: bool,
    /// When to give up; the operation goes on.
    pub until: Option<Instant>,
    /// Start of the clock in the lines.
    pub since: Instant,
    /// Waves of manifests that the status may not list, such as hooks.
    pub waves: BTreeMap<ResourceKey, i64>,
}

impl FollowOptions {
    /// Without a prefix and a time limit.
    pub fn new(output: &OutputArgs, since: Instant) -> Self {
        let quiet = output.format != OutputFormat::Table;
        Self { prefix: String::new(), quiet, until: None, since, waves: BTreeMap::new() }
    }

    /// Prints lines of progress; `width` is that of the first column. A closed pipe does not
    /// end the operation.
    pub fn print(&self, lines: &[ProgressLine], width: usize) -> Result<(), Error> {
        if self.quiet {
            return Ok(());
        }
        let line = |line: &ProgressLine| format!("{}{}", self.prefix, line.plain(width));
        output::print_progress(self.since, lines.iter().map(line))
    }
}

/// The end of following.
#[derive(Clone, Debug)]
pub(in crate::cli) enum FollowEnd {
    /// The operation has ended.
    Over(OperationPhase, Box<OperationResult>),
    /// Its result is unknown.
    Lost(String),
    /// The time is over; the operation goes on.
    TimedOut(String),
}

impl FollowEnd {
    /// The result, if it is known, and the error of an end that is not a success: `what` has
    /// not succeeded.
    pub fn judge(self, what: &str, place: &str) -> (Option<OperationResult>, Option<Error>) {
        match self {
            Self::Over(OperationPhase::Succeeded, result) => (Some(*result), None),
            Self::Over(phase, result) => {
                let what = format!("{what} ended with phase {phase}");
                let error = Error::check(what, place, result.cause());
                (Some(*result), Some(error))
            }
            Self::Lost(why) => (None, Some(Error::check(format!("{what} is unknown"), place, why))),
            Self::TimedOut(why) => {
                (None, Some(Error::check(format!("{what} has not ended in time"), place, why)))
            }
        }
    }
}

/// Follows an operation until it has ended. `application` is its last known version.
pub(in crate::cli) async fn operation(
    client: &Client,
    application: &Value,
    goal: &OperationGoal,
    options: &FollowOptions,
) -> Result<FollowEnd, Error> {
    let mut versions = Versions::of(client, "Application", application);
    let mut progress = Progress::of(application, options.waves.clone());
    let mut waits_for = "no application controller has started it".to_owned();
    let mut warn_at = Some(Instant::now() + NOT_STARTED);
    loop {
        let version = tokio::select! {
            version = versions.next() => version,
            () = until(warn_at) => {
                warn_at = None;
                note(&not_started(application));
                continue;
            }
            () = until(options.until) => return Ok(FollowEnd::TimedOut(waits_for)),
        };
        let Some(version) = version else {
            return Ok(FollowEnd::Lost("the Application was deleted".to_owned()));
        };
        let application = ApplicationView::of(&version);
        match followed(&application, goal) {
            FollowedState::Requested => {}
            FollowedState::Lost(reason) => return Ok(FollowEnd::Lost(reason.to_owned())),
            FollowedState::Running => {
                warn_at = None;
                let lines = progress.update(&version, &application);
                options.print(&lines, progress.width())?;
                let state = &application.status.operation_state;
                match state.message.as_str() {
                    "" => {}
                    _ if state.retry_count > 0 => {
                        waits_for = blocking_resource::blocking_of(&version).reason;
                    }
                    message => message.clone_into(&mut waits_for),
                }
            }
            FollowedState::Ended(phase) => {
                let result = OperationResult::of(&version);
                let lines = progress.update(&version, &application);
                options.print(&lines, progress.width())?;
                options.print(&result.lines(), progress.width())?;
                return Ok(FollowEnd::Over(phase, Box::new(result)));
            }
        }
    }
}

fn not_started(application: &Value) -> String {
    let (namespace, name) = (application.namespace(), application.name());
    format!(
        "no application controller has started the operation of Application {namespace}/{name} \
         for {} s: check that one is running (wavegate run, or Argo CD's) and watches namespace \
         {namespace}; still waiting",
        NOT_STARTED.as_secs()
    )
}
