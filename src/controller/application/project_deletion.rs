//! Deletion of a project: its finalizer goes once no Application refers to it
//! (SE-083). Without the project its Applications could not be deleted.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{Api, DynamicObject, ListParams};
use serde_json::Value;

use super::COMPONENT;
use super::context::Context;
use super::wake::of_project;
use crate::act::application_status;
use crate::act::events::{EventRecord, Events};
use crate::act::outcome::words;
use crate::api::annotations::{RESOURCES_FINALIZER, finalizers};
use crate::api::{AppProject, ObjectKey};
use crate::decide::app_state::project::permits_application;
use crate::watch::cluster_cache::raw;
use crate::watch::object::resource;

/// Applications per page of a listing.
const PAGE: u32 = 500;

/// When a request has failed, it is sent again after this time.
const AGAIN: Duration = Duration::from_secs(10);

/// The most Applications that one message names.
const NAMED: usize = 5;

/// Whether a project is being deleted and waits for us.
pub fn is_leaving(project: &Value) -> bool {
    project["metadata"]["deletionTimestamp"].is_string()
        && finalizers(project).any(|own| own == RESOURCES_FINALIZER)
}

/// Lets projects go for as long as the controller runs.
pub async fn run(ctx: Arc<Context>) {
    let enabled = ctx.settings.events && !ctx.settings.dry_run;
    let events = ctx.recorder.events(COMPONENT, resource(AppProject::KIND), enabled);
    let mut releasing = Releasing { ctx, events, told: BTreeSet::new() };
    loop {
        let ctx = releasing.ctx.clone();
        let changed = ctx.leaving.notified();
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

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Said {
    Waits,
    Failed,
}

fn uid(project: &Value) -> String {
    project["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

struct Releasing {
    ctx: Arc<Context>,
    events: Events,
    /// UIDs of projects and what was said of them.
    told: BTreeSet<(String, Said)>,
}

impl Releasing {
    /// Looks at every project that is being deleted. False when a request has
    /// failed.
    async fn all(&mut self) -> bool {
        let mut well = true;
        let leaving = self.ctx.projects.leaving();
        let uids: BTreeSet<String> = leaving.iter().map(uid).collect();
        self.told.retain(|(uid, _)| uids.contains(uid));
        for project in leaving {
            if let Err(error) = self.one(&project).await {
                let text = format!("cannot be deleted yet: {error}");
                self.tell(&project, Said::Failed, text).await;
                well = false;
            }
        }
        well
    }

    async fn one(&mut self, project: &Value) -> Result<(), String> {
        let name = project["metadata"]["name"].as_str().unwrap_or_default();
        let mut users = of_project(&self.ctx, name);
        if users.is_empty() {
            // What is known may be older than the last Application.
            users = self.users(project).await?;
        }
        if users.is_empty() {
            if self.ctx.settings.dry_run {
                let text = "would be deleted, no application refers to it".to_owned();
                self.tell(project, Said::Waits, text).await;
                return Ok(());
            }
            crate::act::project::release(&self.ctx.client.0, project).await?;
            tracing::info!(project = name, "no application refers to it, its finalizer is gone");
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
        self.tell(project, Said::Waits, text).await;
        Ok(())
    }

    /// Applications that refer to a project, as the server has them now: those
    /// that this controller works on, and those that the project allows.
    async fn users(&self, project: &Value) -> Result<Vec<ObjectKey>, String> {
        let settings = &self.ctx.settings;
        let control_plane = settings.control_plane_namespace.as_str();
        let name = project["metadata"]["name"].as_str().unwrap_or_default();
        let spec = crate::api::read::<AppProject>(project).map(|project| project.spec);
        let elsewhere = !settings.namespaces.is_empty()
            || spec.as_ref().map_or(true, |spec| !spec.source_namespaces.is_empty());
        let (client, resource) = (self.ctx.client.0.clone(), application_status::resource());
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
                let own = match text(&object["spec"]["project"]) {
                    own if own.is_empty() => "default".to_owned(),
                    own => own,
                };
                let metadata = &object["metadata"];
                let key = ObjectKey {
                    namespace: text(&metadata["namespace"]),
                    name: text(&metadata["name"]),
                };
                if own == name && counts(&key.namespace) {
                    users.push(key);
                }
            }
            match page.metadata.continue_.filter(|more| !more.is_empty()) {
                Some(more) => params = params.continue_token(&more),
                None => return Ok(users),
            }
        }
    }

    /// Says something about a project, once.
    async fn tell(&mut self, project: &Value, what: Said, text: String) {
        if !self.told.insert((uid(project), what)) {
            return;
        }
        let project_name = project["metadata"]["name"].as_str().unwrap_or_default();
        let text = format!("project {project_name} {text}");
        tracing::warn!(project = project_name, "{text}");
        let record = EventRecord { warning: true, reason: "DeletionError", action: "Delete", text };
        self.events.publish(&project.clone().into(), record);
    }
}
