//! The control plane of a run without an Application in the cluster: an API server in
//! memory, with one project and one Application.

use anyhow::Context as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::discovery::ApiResource;
use kube::core::gvk::GroupVersionKind;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::manifests::Manifests;
use crate::api::cluster::IN_CLUSTER_SERVER;
use crate::api::crds;
use crate::api::tracking::TrackingMethod;
use crate::cli::run::open_sources;
use crate::decide::sync::{self, wave_delay};
use crate::embedded::Server;
use crate::settings::ApplicationSettings;
use crate::source::confine::Confinement;
use crate::source::{RenderOptions, Repositories};

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
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for definition in crds::all() {
            definitions.create(&PostParams::default(), &definition).await?;
        }
        create(&client, "v1", "Namespace", json!({"metadata": {"name": NAMESPACE}})).await?;
        let project = json!({
            "metadata": {"name": "default", "namespace": NAMESPACE},
            "spec": {
                "sourceRepos": ["*"],
                "destinations": [{"server": "*", "namespace": "*"}],
                "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
            },
        });
        create(&client, "argoproj.io/v1alpha1", "AppProject", project).await?;
        let instance = manifests.instance();
        // Hooks carry it: after a kill, the same command must recognise its own.
        server.reserve_uid(&uid(&instance));
        let application = json!({
            "metadata": {"name": instance, "namespace": NAMESPACE},
            "spec": {
                "project": "default",
                "destination": {"server": IN_CLUSTER_SERVER, "namespace": manifests.namespace},
                "source": {"repoURL": source, "path": "."},
            },
        });
        let application =
            create(&client, "argoproj.io/v1alpha1", "Application", application).await?;
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
        open_sources(&self.folder.path().join("sources"), true, Confinement::default())
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
            sync: sync::Settings {
                wait_for_health: true,
                hook_finalizer: false,
                ..sync::Settings::default()
            },
            ..ApplicationSettings::default()
        }
    }
}

/// The UID of the Application in memory: the same in each run of one name.
fn uid(instance: &str) -> String {
    let digest = Sha256::digest(format!("wavegate sync {instance}").as_bytes());
    let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    parts.join("-")
}

async fn create(
    client: &kube::Client,
    api_version: &str,
    kind: &str,
    mut object: Value,
) -> anyhow::Result<Value> {
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let object: DynamicObject = serde_json::from_value(object)?;
    let api: Api<DynamicObject> = match object.metadata.namespace.clone() {
        None => Api::all_with(client.clone(), &resource),
        Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
    };
    let stored = api.create(&PostParams::default(), &object).await?;
    Ok(serde_json::to_value(stored)?)
}
