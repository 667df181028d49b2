//! Deletion of a project: its finalizer is removed when no Application refers to it
//! (SE-083). Without the project its Applications could not be deleted.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{Api, DynamicObject, ListParams};
use serde_json::Value;

use super::COMPONENT;
use super::context::Context;
use super::triggers::of_project;
use crate::act::application_status;
use crate::act::events::{EventRecord, Events, Once};
use crate::act::outcome::words;
use crate::api::annotations::{RESOURCES_FINALIZER, finalizers};
use crate::api::{AppProject, ObjectKey};
use crate::decide::app_state::access;
use crate::decide::app_state::project::permits_application;
use crate::watch::cluster_cache::raw;
use crate::watch::object::resource;

/// Applications per page of a listing.
const PAGE: u32 = 500;

/// Pause before a failed request is repeated.
const AGAIN: Duration = Duration::from_secs(10);

/// Maximum number of Applications named in a message.
const NAMED: usize = 5;

/// Whether a project is being deleted and has our finalizer.
pub fn is_terminating(project: &Value) -> bool {
    project["metadata"]["deletionTimestamp"].is_string()
        && finalizers(project).any(|own| own == RESOURCES_FINALIZER)
}

/// Removes finalizers of deleted projects until the controller stops.
pub async fn run(ctx: Arc<Context>) {
    let enabled = ctx.settings.events && !ctx.settings.dry_run;
    let events = ctx.core.recorder.events(COMPONENT, resource(AppProject::KIND), enabled);
    let mut releasing = Releasing { ctx, events, reported: BTreeSet::new() };
    loop {
        let ctx = releasing.ctx.clone();
        let changed = ctx.terminating.notified();
        match releasing.all().await {
            true => changed.await,
            false => {
                tokio::select! {
                    () = changed => {}
                    () = tokio::time::sleep(AGAIN) => {}
                }
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Report {
    Waits,
    Failed,
}

fn uid(project: &Value) -> String {
    project["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

struct Releasing {
    ctx: Arc<Context>,
    events: Events,
    /// The last report on each project, by UID.
    reported: BTreeSet<(String, Report)>,
}

impl Releasing {
    /// Checks each project that is being deleted. Returns false when a request failed.
    async fn all(&mut self) -> bool {
        let mut well = true;
        let terminating = self.ctx.projects.terminating();
        let uids: BTreeSet<String> = terminating.iter().map(uid).collect();
        self.reported.retain(|(uid, _)| uids.contains(uid));
        for project in terminating {
            if let Err(error) = self.one(&project).await {
                let text = format!("cannot be deleted yet: {error}");
                self.report(&project, Report::Failed, text).await;
                well = false;
            }
        }
        well
    }

    async fn one(&mut self, project: &Value) -> Result<(), String> {
        let name = project["metadata"]["name"].as_str().unwrap_or_default();
        let mut users = of_project(&self.ctx, name);
        if users.is_empty() {
            // The cache may be older than the last Application.
            users = self.users(project).await?;
        }
        if users.is_empty() {
            if self.ctx.settings.dry_run {
                let text = "would be deleted, since no Application refers to it".to_owned();
                self.report(project, Report::Waits, text).await;
                return Ok(());
            }
            crate::act::project::remove_finalizer(&self.ctx.core.client, project).await?;
            tracing::info!(
                project = name,
                "removed the finalizer, since no Application refers to it"
            );
            return Ok(());
        }
        users.sort();
        let named: Vec<String> = users.iter().take(NAMED).map(ObjectKey::to_string).collect();
        let more = match users.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let named = named.join(", ");
        let text = format!("is not deleted while applications refer to it: {named}{more}");
        self.report(project, Report::Waits, text).await;
        Ok(())
    }

    /// The Applications that refer to a project, read from the API server: those that
    /// this controller handles, and those that the project permits.
    async fn users(&self, project: &Value) -> Result<Vec<ObjectKey>, String> {
        let settings = &self.ctx.settings;
        let control_plane = settings.control_plane_namespace.as_str();
        let name = project["metadata"]["name"].as_str().unwrap_or_default();
        let spec = crate::api::read::<AppProject>(project).map(|project| project.spec);
        let elsewhere = !settings.namespaces.is_empty()
            || spec.as_ref().map_or(true, |spec| !spec.source_namespaces.is_empty());
        let (client, resource) = (self.ctx.core.client.clone(), application_status::resource());
        let api: Api<DynamicObject> = match elsewhere {
            true => Api::all_with(client, &resource),
            false => Api::namespaced_with(client, control_plane, &resource),
        };
        let counts = |namespace: &str| {
            settings.namespaces.matches(namespace)
                || spec
                    .as_ref()
                    .map_or(true, |spec| permits_application(spec, namespace, control_plane))
        };
        let mut users = Vec::new();
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = api.list(&params).await;
            let page =
                page.map_err(|error| format!("cannot list applications: {}", words(&error)))?;
            for object in page.items {
                let object = raw(object, &resource);
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let metadata = &object["metadata"];
                let key = ObjectKey {
                    namespace: text(&metadata["namespace"]),
                    name: text(&metadata["name"]),
                };
                if access::project_of(&object) == name && counts(&key.namespace) {
                    users.push(key);
                }
            }
            match page.metadata.continue_.filter(|more| !more.is_empty()) {
                Some(more) => params = params.continue_token(&more),
                None => return Ok(users),
            }
        }
    }

    /// Reports the state of a project, once.
    async fn report(&mut self, project: &Value, what: Report, text: String) {
        if !self.reported.insert((uid(project), what)) {
            return;
        }
        let project_name = project["metadata"]["name"].as_str().unwrap_or_default();
        let text = format!("project {project_name} {text}");
        tracing::warn!(project = project_name, "{text}");
        let once = Some(Once::ever(&format!("deletion.{what:?}")));
        let (reason, action) = ("DeletionError", "Delete");
        let record = EventRecord { once, ..EventRecord::new(true, reason, action, text) };
        self.events.publish(&project.clone().into(), record);
    }
}
