//! Deletes projects as decided (SE-083): reads the Applications that refer to them, removes
//! finalizers, and reports.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{Api, DynamicObject, ListParams};
use serde_json::Value;

use super::context::{COMPONENT, Context};
use super::triggers::of_project;
use wavegate_api::{AppProject, ObjectKey, Raw};
use wavegate_application::project_deletion::{self, ProjectStep, Users};
use wavegate_cluster::act::control_plane::application_status;
use wavegate_cluster::act::events::{EventRecord, Events, Once};
use wavegate_cluster::watch::cluster_cache::raw_object;
use wavegate_cluster::watch::failure::error_reason;
use wavegate_cluster::watch::object::kind_resource;

/// Applications per page of a listing.
const PAGE: u32 = 500;

/// Pause before a failed request is repeated.
const AGAIN: Duration = Duration::from_secs(10);

/// Removes finalizers of deleted projects until the controller stops.
pub async fn run(ctx: Arc<Context>) {
    let enabled = ctx.settings.events && !ctx.settings.dry_run;
    let events = ctx.core.recorder.events(COMPONENT, kind_resource(AppProject::KIND), enabled);
    let mut releasing = Releasing { ctx, events, reported: BTreeSet::new() };
    loop {
        let ctx = releasing.ctx.clone();
        let changed = ctx.terminating.notified();
        match releasing.all().await {
            true => changed.await,
            false => {
                tokio::select! {
                    biased;
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
        let uids: BTreeSet<String> =
            terminating.iter().map(|project| project.uid().to_owned()).collect();
        self.reported.retain(|(uid, _)| uids.contains(uid));
        for project in terminating {
            if let Err(error) = self.one(&project).await {
                let text = project_deletion::step_failure(&error);
                self.report(&project, Report::Failed, text).await;
                well = false;
            }
        }
        well
    }

    async fn one(&mut self, project: &Value) -> Result<(), String> {
        let name = project.name();
        let mut users = of_project(&self.ctx, name);
        if users.is_empty() {
            // The cache may be older than the last Application.
            users = self.users(project).await?;
        }
        match project_deletion::project_step(users, self.ctx.settings.dry_run) {
            ProjectStep::Report(text) => self.report(project, Report::Waits, text).await,
            ProjectStep::Release => {
                wavegate_cluster::act::control_plane::project::remove_finalizer(
                    &self.ctx.core.client,
                    project,
                )
                .await?;
                tracing::info!(
                    project = name,
                    "removed the finalizer, since no Application refers to it"
                );
            }
        }
        Ok(())
    }

    /// The Applications that refer to a project, read from the API server: those that
    /// this controller handles, and those that the project permits.
    async fn users(&self, project: &Value) -> Result<Vec<ObjectKey>, String> {
        let settings = &self.ctx.settings;
        let control_plane = settings.control_plane_namespace.as_str();
        let wanted = Users::of(project, control_plane);
        let (client, resource) =
            (self.ctx.core.client.clone(), application_status::application_resource());
        let api: Api<DynamicObject> =
            match wanted.are_elsewhere() || !settings.namespaces.is_empty() {
                true => Api::all_with(client, &resource),
                false => Api::namespaced_with(client, control_plane, &resource),
            };
        let mut users = Vec::new();
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = api.list(&params).await;
            let page = page
                .map_err(|error| format!("cannot list applications: {}", error_reason(&error)))?;
            for object in page.items {
                let object = raw_object(object, &resource);
                let key = ObjectKey::of(&object);
                if wanted.contain(&object, settings.namespaces.matches(&key.namespace)) {
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
        if !self.reported.insert((project.uid().to_owned(), what)) {
            return;
        }
        let project_name = project.name();
        let text = format!("project {project_name} {text}");
        tracing::warn!(project = project_name, "{text}");
        let once = Some(Once::ever(&format!("deletion.{what:?}")));
        let (reason, action) = ("DeletionError", "Delete");
        let record = EventRecord { once, ..EventRecord::new(true, reason, action, text) };
        self.events.publish(&project.clone().into(), record);
    }
}
