//! What Applications show when the metrics are requested (SE-545).

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;
use serde_json::Value;

use super::Kept;
use super::sets::gauges;
use crate::api::cluster::{IN_CLUSTER_NAME, IN_CLUSTER_SERVER};
use crate::api::sources::InEffect;
use crate::decide::app_state::access;
use crate::decide::application_set::autosync;
use crate::redact;
use crate::watch::object::Object;

impl Kept {
    pub(super) fn encode_applications(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Some(settings) = self.application_settings.get() else { return Ok(()) };
        let is_covered = |object: &Object| {
            object.namespace() == settings.control_plane_namespace
                || settings.namespaces.matches(object.namespace())
        };
        let applications = self.applications.all().into_iter().filter(is_covered);
        let series = applications.map(|object| {
            let application: Value = object.read().unwrap_or_default();
            (info(object.namespace(), object.name(), &application), 1.0)
        });
        gauges(encoder, ("argocd_app_info", "Applications, with their state as labels"), series)
    }
}

/// The labels of an Application, in the order of Argo CD.
fn info(namespace: &str, name: &str, application: &Value) -> super::Labels<10> {
    let spec = &application["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let or = |value: &Value, absent: &str| match value.as_str() {
        Some(text) if !text.is_empty() => text.to_owned(),
        _ => absent.to_owned(),
    };
    let sources = InEffect::of(spec).list;
    let repo = sources.first().and_then(|source| source["repoURL"].as_str());
    let destination = &spec["destination"];
    let server = match destination["name"].as_str() {
        Some(IN_CLUSTER_NAME) => IN_CLUSTER_SERVER.to_owned(),
        _ => text(&destination["server"]).trim_end_matches('/').to_owned(),
    };
    let operation = if !application["metadata"]["deletionTimestamp"].is_null() {
        "delete"
    } else if application["operation"]["sync"].is_object() {
        "sync"
    } else {
        ""
    };
    let status = &application["status"];
    [
        ("namespace", namespace.to_owned()),
        ("name", name.to_owned()),
        ("project", access::project_of(application).to_owned()),
        ("autosync_enabled", autosync::is_enabled(application).to_string()),
        ("repo", redact::url(repo.unwrap_or_default())),
        ("dest_server", server),
        ("dest_namespace", text(&destination["namespace"])),
        ("sync_status", or(&status["sync"]["status"], "Unknown")),
        ("health_status", or(&status["health"]["status"], "Unknown")),
        ("operation", operation.to_owned()),
    ]
}
