//! Applications that no application controller reconciles, by an annotation of their own or of
//! the Secret of their cluster (SE-380): a wait for one of them lasts until it is removed.

use super::observe::Existing;
use super::validate::Target;
use crate::api::Cluster;
use crate::api::annotations::SKIP_RECONCILE;

/// Why an Application is not reconciled; `None` when it is.
pub fn why(target: &Target, existing: &Existing, clusters: &[Cluster]) -> Option<String> {
    if existing.is_skipped {
        return Some(format!("its annotation {SKIP_RECONCILE} excludes it from reconciling"));
    }
    let secret = &*target.cluster_in(clusters)?.excluded_by;
    (!secret.is_empty()).then(|| {
        format!("the annotation {SKIP_RECONCILE}{OF_SECRET}{secret}{EXCLUDES} it from reconciling")
    })
}

const OF_SECRET: &str = " of the cluster Secret ";
const EXCLUDES: &str = " excludes";

/// What a reason names: the annotation of the Application, or that of a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Excluded<'a> {
    /// By its own annotation.
    ByItself,
    /// By the annotation of this Secret, with its namespace.
    BySecret(&'a str),
}

/// Reads [`why`] in the reason of a wait; `None` when it is not about that.
pub fn read(reason: &str) -> Option<Excluded<'_>> {
    let (_, rest) = reason.split_once(SKIP_RECONCILE)?;
    let secret = rest.strip_prefix(OF_SECRET).and_then(|rest| rest.split_once(EXCLUDES));
    Some(secret.map_or(Excluded::ByItself, |(secret, _)| Excluded::BySecret(secret)))
}
