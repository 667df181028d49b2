//! The control plane of a run without an Application in the cluster: an API server in
//! memory, with one project and one Application.

use anyhow::Context as _;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::manifests::Manifests;
use super::request::request_id;
use crate::cli::run::open_sources;
use kube_sim::Server;
use wavegate_api::cluster::IN_CLUSTER_SERVER;
use wavegate_api::tracking::TrackingMethod;
use wavegate_api::{DEFAULT_PROJECT, permissive_project};
use wavegate_cluster::act;
use wavegate_controller::settings::ApplicationSettings;
use wavegate_engine::sync::{self, wave_delay};
use wavegate_sandbox::Confinement;
use wavegate_source::{Allow, ArtifactSettings, RenderOptions, Repositories};

/// Label of what a run has applied; its value names the run. Not a label of Argo CD, so
/// that no Application and no run ever own an object together.
pub(super) const LABEL: &str = "wavegate.dev/sync";
/// The namespace of the control plane in memory.
const NAMESPACE: &str = "wavegate";
/// Field manager of what is applied.
const MANAGER: &str = "wavegate";

/// The control plane in memory.
pub(super) struct ControlPlane {
    server: Server,
    client: kube::Client,
    folder: TempDir,
    application: Value,
}

impl ControlPlane {
    /// Starts it with the Application of the manifests.
    pub async fn start(manifests: &Manifests) -> anyhow::Result<Self> {
        let server = Server::without_request_log();
        let client = server.client_as("wavegate-sync");
        let folder = tempfile::tempdir().context("cannot create a directory for manifests")?;
        let source = folder.path().join("manifests");
        std::fs::create_dir(&source).context("cannot write manifests")?;
        std::fs::write(source.join("manifests.yaml"), manifests.text())
            .context("cannot write manifests")?;
        act::commands::manifests::define_all(&client, MANAGER).await?;
        let instance = manifests.instance();
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE},
        });
        let project = permissive_project(DEFAULT_PROJECT, NAMESPACE);
        let application = json!({
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Application",
            "metadata": {"name": instance, "namespace": NAMESPACE},
            "spec": {
                "project": DEFAULT_PROJECT,
                "destination": {"server": IN_CLUSTER_SERVER, "namespace": manifests.namespace},
                "source": {"repoURL": source, "path": "."},
            },
        });
        act::commands::manifests::apply_manifest(&client, MANAGER, &namespace).await?;
        act::commands::manifests::apply_manifest(&client, MANAGER, &project).await?;
        // Hooks carry it, and an earlier run may have started in the same second.
        server.reserve_uid(&request_id());
        let application =
            act::commands::manifests::apply_manifest(&client, MANAGER, &application).await?;
        let application = serde_json::to_value(application)?;
        Ok(Self { server, client, folder, application })
    }

    /// The client of the command.
    pub fn client(&self) -> &kube::Client {
        &self.client
    }

    /// The client of the controller.
    pub fn controllers(&self) -> kube::Client {
        self.server.client_as("wavegate")
    }

    /// The Application as created.
    pub fn application(&self) -> &Value {
        &self.application
    }

    /// The repositories: the manifests only.
    pub fn sources(&self) -> anyhow::Result<Repositories> {
        let folder = self.folder.path().join("sources");
        let (confinement, artifacts) = (Confinement::default(), ArtifactSettings::default());
        open_sources(&folder, Allow::EVERYTHING, confinement, artifacts)
    }

    /// The settings of the controller.
    pub fn settings(&self) -> ApplicationSettings {
        let delay = wave_delay(std::env::var("ARGOCD_SYNC_WAVE_DELAY").ok().as_deref());
        ApplicationSettings {
            control_plane_namespace: NAMESPACE.to_owned(),
            wave_delay: delay.try_into().unwrap_or_default(),
            // The manifests do not change.
            reconciliation_timeout: std::time::Duration::ZERO,
            tracking_method: TrackingMethod::Run,
            instance_label: LABEL.to_owned(),
            field_manager: MANAGER.to_owned(),
            allow_local: true,
            events: false,
            // The input is limited when it is read.
            render: RenderOptions { max_bytes: 0, ..RenderOptions::default() },
            // The health is not shown afterwards.
            // No controller would remove the finalizer of a hook after a kill.
            sync: sync::SyncSettings {
                wait_for_health: true,
                hook_finalizer: false,
                ..sync::SyncSettings::default()
            },
            ..ApplicationSettings::default()
        }
    }
}
