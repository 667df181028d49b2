//! Applications that no application controller reconciles, by an annotation of their own or of
//! the Secret of their cluster (SE-380): a wait for one of them lasts until it is removed.

use crate::application_set::generate::validate::DeployTarget;
use crate::application_set::plan::observe::Existing;
use crate::rollout::snapshot::Excluded;
use wavegate_api::Cluster;
use wavegate_api::ResourceKey;
use wavegate_api::annotations::SKIP_RECONCILE;

/// Why an Application is not reconciled; `None` when it is.
pub(crate) fn why(
    target: &DeployTarget,
    existing: &Existing,
    clusters: &[Cluster],
) -> Option<Excluded> {
    if existing.is_skipped {
        let why = format!("its annotation {SKIP_RECONCILE} excludes it from reconciling");
        return Some(Excluded { why, secret: None });
    }
    let secret = &*target.cluster_in(clusters)?.excluded_by;
    if secret.is_empty() {
        return None;
    }
    let (namespace, name) = secret.split_once('/').unwrap_or(("", secret));
    Some(Excluded {
        why: format!(
            "the annotation {SKIP_RECONCILE} of the cluster Secret {secret} excludes it from reconciling"
        ),
        secret: Some(ResourceKey::new("", "Secret", namespace, name).to_string()),
    })
}
