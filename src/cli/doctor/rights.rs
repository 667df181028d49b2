//! What the controller's ServiceAccount may do.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt as _;

use super::finding::Finding;
use super::installation::Installation;
use crate::cli::cluster::ClusterConnection;
use crate::cli::console::error::Error;
use wavegate_api::yaml::parse_documents;
use wavegate_api::{Raw, read_leniently};
use wavegate_cluster::act::commands::reviews::{ReviewedAccess, review_account};
use wavegate_controller::config::Config;
use wavegate_engine::names::some_of;

/// The roles that are shipped.
const SHIPPED: &str = include_str!("../../../deploy/rbac.yaml");

/// That of the controllers themselves; what syncs may do is a decision of who installs it.
const ROLE: &str = "wavegate-controller";

/// Questions that are asked at a time.
const AT_ONCE: usize = 8;

/// Most verbs in a message.
const VERBS: usize = 10;

/// One right.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Right {
    group: String,
    /// With its subresource, if it has one: `applications/status`.
    resource: String,
    verb: String,
}

/// What the ServiceAccount of the controller lacks of the role that is shipped.
pub(super) async fn examine(
    cluster: &ClusterConnection,
    namespace: &str,
    installation: &Installation,
    config: Option<&Config>,
) -> Vec<Finding> {
    let Some(controller) = &installation.controller else { return Vec::new() };
    let account = &controller.service_account;
    // Where it reads sets of several namespaces, a Role of one is not enough.
    let is_wide = config.is_some_and(|config| !config.application_sets.namespaces.is_empty());
    let within = if is_wide { None } else { Some(namespace) };
    let reviews = shipped_rights().into_iter().map(|right| async move {
        let allowed = review(cluster, (namespace, account), within, &right).await;
        (right, allowed)
    });
    let mut reviews = futures::stream::iter(reviews).buffered(AT_ONCE);
    let mut lacking = BTreeMap::<String, BTreeSet<String>>::new();
    while let Some((right, allowed)) = reviews.next().await {
        match allowed {
            Ok(true) => {}
            Ok(false) => {
                let Right { group, resource, verb } = right;
                let (kind, part) = resource.split_once('/').unwrap_or((&resource, ""));
                let group = if group.is_empty() { group } else { format!(".{group}") };
                let part = if part.is_empty() { String::new() } else { format!("/{part}") };
                let name = format!("{kind}{group}{part}");
                lacking.entry(name).or_default().insert(verb);
            }
            // The others would not be answered either.
            Err(error) => return vec![Finding::unread(&error)],
        }
    }
    let finding = |(resource, verbs): (String, BTreeSet<String>)| {
        let verbs = some_of(verbs.iter(), VERBS);
        let problem = format!(
            "it may not {verbs} {resource}; apply deploy/rbac.yaml, or the chart with its roles"
        );
        Finding::error(format!("ServiceAccount {namespace}/{account}"), problem)
    };
    lacking.into_iter().map(finding).collect()
}

/// The rights of the role that is shipped.
fn shipped_rights() -> BTreeSet<Right> {
    #[derive(Default, serde::Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Rule {
        api_groups: Vec<String>,
        resources: Vec<String>,
        verbs: Vec<String>,
    }
    let documents = parse_documents(SHIPPED).unwrap_or_default();
    let roles = documents.iter().map(|document| &document.value);
    let role =
        roles.into_iter().find(|role| role.field("kind") == "ClusterRole" && role.name() == ROLE);
    let rules = role.map_or(&[][..], |role| role.items("/rules"));
    let mut rights = BTreeSet::new();
    for rule in rules.iter().map(read_leniently::<Rule>) {
        for group in &rule.api_groups {
            for resource in &rule.resources {
                rights.extend(rule.verbs.iter().map(|verb| Right {
                    group: group.clone(),
                    resource: resource.clone(),
                    verb: verb.clone(),
                }));
            }
        }
    }
    rights
}

/// Whether a ServiceAccount has a right.
async fn review(
    cluster: &ClusterConnection,
    (namespace, account): (&str, &str),
    within: Option<&str>,
    right: &Right,
) -> Result<bool, Error> {
    let Right { group, resource, verb } = right;
    let access = ReviewedAccess { verb, group, resource, namespace: within };
    let place = format!("the rights of ServiceAccount {namespace}/{account}");
    let asked = review_account(cluster.client(), (namespace, account), &access);
    cluster.within(place, asked).await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AS-506.
    #[test]
    fn the_rights_are_those_of_the_role_that_is_shipped() {
        let rights = shipped_rights();
        let has = |group: &str, resource: &str, verb: &str| {
            let right = Right {
                group: group.to_owned(),
                resource: resource.to_owned(),
                verb: verb.to_owned(),
            };
            rights.contains(&right)
        };
        assert!(has("argoproj.io", "applications", "delete"));
        assert!(has("argoproj.io", "applicationsets/status", "patch"));
        assert!(has("", "secrets", "watch"));
        assert!(has("coordination.k8s.io", "leases", "update"));
        assert!(!has("", "secrets", "delete"));
        assert!(rights.iter().all(|right| right.verb != "*"), "that of syncs is not asked for");
    }
}
