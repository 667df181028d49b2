//! What Applications show when the metrics are requested (SE-545, SE-550, SE-551).

use std::collections::BTreeSet;
use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;
use serde_json::Value;

use super::encode::{gauges, value};
use super::kept::Kept;
use super::labels::{Labels, label_names, of};
use wavegate_api::cluster::{IN_CLUSTER_NAME, IN_CLUSTER_SERVER};
use wavegate_api::conditions::application as condition;
use wavegate_api::sources::InEffect;
use wavegate_api::{ApplicationDestination, ObjectKey, Raw};
use wavegate_application::access;
use wavegate_cluster::watch::object::Object;
use wavegate_net::redact;
use wavegate_rollout::application_set::autosync;

impl Kept {
    pub(super) fn encode_applications(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Some(settings) = self.application_settings.get() else { return Ok(()) };
        let is_covered = |object: &Object| {
            object.namespace() == settings.control_plane_namespace
                || settings.namespaces.matches(object.namespace())
        };
        let applications = self.applications.all().into_iter().filter(is_covered);
        let all: Vec<(ObjectKey, Value, String)> = applications
            .map(|object| {
                let application: Value = object.read().unwrap_or_default();
                let server = self.server_of(&application);
                (object.key(), application, server)
            })
            .collect();
        let series =
            all.iter().map(|(key, application, server)| (info(key, application, server), 1.0));
        gauges(encoder, ("argocd_app_info", "Applications, with their state as labels"), series)?;
        encode_labels(&settings.metrics_labels, &all, encoder)?;
        encode_conditions(&settings.metrics_conditions, &all, encoder)?;
        let orphans = all.iter().filter_map(|(key, application, _)| {
            // Another controller may count them.
            let counted = self.operations.orphans(key).or_else(|| orphans(application));
            Some((of_app(key, application), value(counted?)))
        });
        let help = "Resources in the namespace of an Application that belong to none";
        gauges(encoder, ("argocd_app_orphaned_resources_count", help), orphans)?;
        let keys: BTreeSet<&ObjectKey> = all.iter().map(|(key, ..)| key).collect();
        let servers = all.iter().map(|(key, _, server)| (key.namespace.clone(), server.clone()));
        self.operations.encode(&|key| keys.contains(key), &servers.collect(), encoder)
    }

    /// The URL of the cluster of an Application, also of one that is named.
    pub(super) fn server_of(&self, application: &Value) -> String {
        let spec = &application["spec"]["destination"];
        let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
        let destination = ApplicationDestination {
            server: text("server"),
            name: text("name"),
            ..ApplicationDestination::default()
        };
        let server = match self.clusters.get().and_then(std::sync::Weak::upgrade) {
            Some(clusters) => clusters.server_of(&destination),
            None if destination.name == IN_CLUSTER_NAME => IN_CLUSTER_SERVER.to_owned(),
            None => destination.server.trim_end_matches('/').to_owned(),
        };
        redact::redact_url(&server)
    }
}

fn of_app(key: &ObjectKey, application: &Value) -> Labels<3> {
    let [namespace, name] = of(key);
    [namespace, name, ("project", access::project_of(application).to_owned())]
}

/// The configured labels.
fn encode_labels(
    keys: &[String],
    all: &[(ObjectKey, Value, String)],
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let names = label_names(keys);
    if names.is_empty() {
        return Ok(());
    }
    let series = all.iter().map(|(key, application, _)| {
        let labels = &application["metadata"]["labels"];
        let own = of_app(key, application).map(|(name, value)| (name.to_owned(), value));
        let shown = names.iter().map(|(name, key)| {
            (name.clone(), labels[*key].as_str().unwrap_or_default().to_owned())
        });
        (own.into_iter().chain(shown).collect::<Vec<(String, String)>>(), 1.0)
    });
    gauges(encoder, ("argocd_app_labels", "Labels of an Application"), series)
}

/// How many conditions of each of the configured types an Application has.
fn encode_conditions(
    types: &[String],
    all: &[(ObjectKey, Value, String)],
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    if types.is_empty() {
        return Ok(());
    }
    let types: BTreeSet<&String> = types.iter().collect();
    let series = all.iter().flat_map(|(key, application, _)| {
        types.iter().filter_map(move |type_| {
            let conditions = application.items("/status/conditions").iter();
            let count = conditions.filter(|one| one["type"] == type_.as_str()).count();
            let [namespace, name, project] = of_app(key, application);
            let labels: Labels<4> = [namespace, name, project, ("condition", (*type_).clone())];
            (count > 0).then_some((labels, value(count as u64)))
        })
    });
    gauges(encoder, ("argocd_app_condition", "Conditions of an Application"), series)
}

/// How many orphaned resources the condition of an Application names.
fn orphans(application: &Value) -> Option<u64> {
    let conditions = application.items("/status/conditions");
    let named =
        conditions.iter().find(|one| one["type"] == condition::ORPHANED_RESOURCE_WARNING)?;
    let message = named["message"].as_str()?;
    message.split_whitespace().find_map(|word| word.parse().ok())
}

/// The labels of an Application, in the order of Argo CD.
fn info(key: &ObjectKey, application: &Value, server: &str) -> Labels<10> {
    let spec = &application["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let or = |value: &Value, absent: &str| match value.as_str() {
        Some(text) if !text.is_empty() => text.to_owned(),
        _ => absent.to_owned(),
    };
    let sources = InEffect::of(spec).list;
    let repo = sources.first().and_then(|source| source["repoURL"].as_str());
    let operation = if !application["metadata"]["deletionTimestamp"].is_null() {
        "delete"
    } else if application["operation"]["sync"].is_object() {
        "sync"
    } else {
        ""
    };
    let status = &application["status"];
    let [namespace, name, project] = of_app(key, application);
    [
        namespace,
        name,
        project,
        ("autosync_enabled", autosync::is_enabled(application).to_string()),
        ("repo", redact::redact_url(repo.unwrap_or_default())),
        ("dest_server", server.to_owned()),
        ("dest_namespace", text(&spec["destination"]["namespace"])),
        ("sync_status", or(&status["sync"]["status"], "Unknown")),
        ("health_status", or(&status["health"]["status"], "Unknown")),
        ("operation", operation.to_owned()),
    ]
}
