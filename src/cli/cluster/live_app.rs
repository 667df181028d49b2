//! The control plane and the destination cluster of one Application, for `tree` and
//! `diff`.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::cli::cluster::{ClusterConnection, control_plane_namespace, kubeconfig};
use crate::cli::console::error::Error;
use wavegate_api::ApplicationDestination;
use wavegate_api::cluster::IN_CLUSTER_SERVER;
use wavegate_api::{ApplicationSpec, Raw};
use wavegate_cluster::watch::cluster_cache::{ClusterCache, TrackingMark};
use wavegate_cluster::watch::clusters::{self, Clusters};
use wavegate_cluster::watch::secrets::is_cluster;
use wavegate_controller::credential_programs::CredentialPrograms;
use wavegate_source::Programs;

/// What a name refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum TargetKind {
    Application,
    ApplicationSet,
    /// Either of them.
    Any,
}

/// The kind before a `/`, as in `app/shop`, and the name.
///
/// # Errors
///
/// When the kind is another one.
pub(in crate::cli) fn named(text: &str) -> Result<(TargetKind, &str), Error> {
    let Some((kind, name)) = text.split_once('/') else { return Ok((TargetKind::Any, text)) };
    let kind = match kind.to_lowercase().as_str() {
        "app"
        | "apps"
        | "application"
        | "applications"
        | "application.argoproj.io"
        | "applications.argoproj.io" => TargetKind::Application,
        "appset"
        | "appsets"
        | "applicationset"
        | "applicationsets"
        | "applicationset.argoproj.io"
        | "applicationsets.argoproj.io" => TargetKind::ApplicationSet,
        _ => {
            let why = "the kind before the / is none of app and appset; select a namespace with -n";
            return Err(Error::input("cannot use", text, why));
        }
    };
    Ok((kind, name))
}

/// Where the control plane is.
#[derive(Clone, Debug, Default, clap::Args)]
pub(in crate::cli) struct ControlPlaneArgs {
    /// Namespace of the control plane, with the Secrets of clusters; by default the one in
    /// the status of the Application
    #[arg(long, value_name = "NAMESPACE")]
    control_plane_namespace: Option<String>,
}

impl ControlPlaneArgs {
    /// The namespace of the control plane of an Application.
    pub fn namespace(&self, application: &Value) -> String {
        let given = self.control_plane_namespace.clone();
        given.unwrap_or_else(|| control_plane_of(application))
    }
}

/// The namespace of the control plane that compares an Application: its controller has
/// written it to the status.
pub(in crate::cli) fn control_plane_of(application: &Value) -> String {
    match application.text("/status/controllerNamespace") {
        "" => control_plane_namespace(),
        namespace => namespace.to_owned(),
    }
}

/// The destination clusters of Applications.
pub(in crate::cli) struct Destinations {
    clusters: Clusters,
    /// Why the Secrets of clusters cannot be read.
    unread: Option<String>,
    _stop: DropGuard,
}

impl Destinations {
    /// The clusters that an Application may refer to. The cluster of the control plane is
    /// known without any Secret.
    pub async fn of(
        connection: &ClusterConnection,
        args: &ControlPlaneArgs,
        application: &Value,
    ) -> Self {
        if application.text("/spec/destination/server").trim_end_matches('/') == IN_CLUSTER_SERVER {
            return Self::new(connection, &[], None);
        }
        let namespace = args.namespace(application);
        match connection.secrets(&namespace).await {
            Ok(secrets) => Self::new(connection, &secrets, None),
            Err(error) => Self::new(connection, &[], Some(error.to_string())),
        }
    }

    fn new(connection: &ClusterConnection, secrets: &[Secret], unread: Option<String>) -> Self {
        let stop = CancellationToken::new();
        // Nothing is watched, so nothing is triggered.
        let (trigger, _) = mpsc::unbounded_channel();
        let clusters = Clusters::new(
            connection.client().clone(),
            TrackingMark::default(),
            trigger,
            stop.clone(),
        )
        .running_inside(kubeconfig::in_cluster())
        .with_programs(Arc::new(CredentialPrograms(Programs::default())));
        for secret in secrets.iter().filter(|secret| is_cluster(secret)) {
            clusters.put(secret);
        }
        Self { clusters: clusters.read_only(), unread, _stop: stop.drop_guard() }
    }

    /// The destination cluster of an Application.
    ///
    /// # Errors
    ///
    /// Why it is not known, for users.
    pub async fn resolve(&self, application: &Value) -> Result<Arc<ClusterCache>, String> {
        let spec = wavegate_api::read_typed::<ApplicationSpec>(application.spec());
        let destination: ApplicationDestination =
            spec.map_err(|error| format!("spec.{error}"))?.destination;
        match self.clusters.resolve(&destination).await {
            Ok(found) => Ok(found.cluster),
            Err(error) => Err(self.explained(&error)),
        }
    }

    fn explained(&self, error: &clusters::Error) -> String {
        match (&self.unread, error) {
            (Some(why), clusters::Error::Unknown { .. }) => why.clone(),
            _ => error.to_string(),
        }
    }
}
