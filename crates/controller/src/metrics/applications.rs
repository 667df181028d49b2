//! What Applications show when the metrics are requested (SE-545, SE-550, SE-551).

use std::collections::BTreeSet;
use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;

use super::encode::{gauges, value};
use super::kept::Kept;
use super::labels::{Labels, configured, of, with};
use wavegate_api::cluster::{IN_CLUSTER_NAME, IN_CLUSTER_SERVER};
use wavegate_api::conditions::application as condition;
use wavegate_api::listed::{ListedApplication, ListedWord};
use wavegate_api::pod::find_condition;
use wavegate_api::{ApplicationDestination, ObjectKey};
use wavegate_application::access;
use wavegate_cluster::watch::object::StoredObject;
use wavegate_net::redact;

impl Kept {
    pub(super) fn encode_applications(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Some(settings) = self.application_settings.get() else { return Ok(()) };
        let is_covered = |object: &StoredObject| settings.covers(object.namespace());
        let applications = self.applications.all().into_iter().filter(is_covered);
        let all: Vec<(ObjectKey, ListedApplication, String)> = applications
            .map(|object| {
                let application: ListedApplication = object.read_leniently();
                let server = self.server_of(&application.spec.destination);
                (object.key(), application, server)
            })
            .collect();
        let series =
            all.iter().map(|(key, application, server)| (info(key, application, server), 1.0));
        gauges(encoder, ("argocd_app_info", "Applications, with their state as labels"), series)?;
        let labels = all.iter().map(|(key, application, _)| {
            let label = |key: &str| application.metadata.labels.get(key).map(String::as_str);
            (of_app(key, application), label)
        });
        let help = "Labels of an Application";
        configured(encoder, ("argocd_app_labels", help), &settings.metrics_labels, labels)?;
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

    /// The URL of the cluster of a destination, also of one that is named.
    pub(super) fn server_of(&self, destination: &ApplicationDestination) -> String {
        let server = match self.clusters.get().and_then(std::sync::Weak::upgrade) {
            Some(clusters) => clusters.server_of(destination),
            None if destination.name == IN_CLUSTER_NAME => IN_CLUSTER_SERVER.to_owned(),
            None => destination.server.trim_end_matches('/').to_owned(),
        };
        redact::redact_url(&server)
    }
}

fn of_app(key: &ObjectKey, application: &ListedApplication) -> Labels {
    with(of(key), [("project", access::or_default(&application.spec.project).to_owned())])
}

/// How many conditions of each of the configured types an Application has.
fn encode_conditions(
    types: &[String],
    all: &[(ObjectKey, ListedApplication, String)],
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    if types.is_empty() {
        return Ok(());
    }
    let types: BTreeSet<&String> = types.iter().collect();
    let series = all.iter().flat_map(|(key, application, _)| {
        types.iter().filter_map(move |type_| {
            let conditions = application.status.conditions.iter();
            let count = conditions.filter(|one| one.type_ == **type_).count();
            let labels = || with(of_app(key, application), [("condition", (*type_).clone())]);
            (count > 0).then(|| (labels(), value(count as u64)))
        })
    });
    gauges(encoder, ("argocd_app_condition", "Conditions of an Application"), series)
}

/// How many orphaned resources the condition of an Application names.
fn orphans(application: &ListedApplication) -> Option<u64> {
    let conditions = &application.status.conditions;
    let named = find_condition(conditions, condition::ORPHANED_RESOURCE_WARNING)?;
    named.message.split_whitespace().find_map(|word| word.parse().ok())
}

/// The labels of an Application, in the order of Argo CD.
fn info(key: &ObjectKey, application: &ListedApplication, server: &str) -> Labels {
    let ListedApplication { metadata, spec, operation, status } = application;
    let known = |state: &ListedWord| match state.status.as_str() {
        "" => "Unknown".to_owned(),
        status => status.to_owned(),
    };
    let is_sync = operation.as_ref().is_some_and(|operation| operation.sync.is_some());
    let operation = match metadata.deletion_timestamp {
        Some(_) => "delete",
        None if is_sync => "sync",
        None => "",
    };
    let more = [
        ("autosync_enabled", spec.sync_policy.is_automated().to_string()),
        ("repo", redact::redact_url(&spec.repository())),
        ("dest_server", server.to_owned()),
        ("dest_namespace", spec.destination.namespace.clone()),
        ("sync_status", known(&status.sync)),
        ("health_status", known(&status.health)),
        ("operation", operation.to_owned()),
    ];
    with(of_app(key, application), more)
}
