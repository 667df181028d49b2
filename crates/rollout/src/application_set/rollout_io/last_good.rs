//! The revisions that an Application goes back to by itself (ST-061).

use crate::application_set::generate::generated::Wanted;
use crate::application_set::plan::observe::Existing;
use crate::rollout::run::started::Started;
use wavegate_api::HealthStatus;

/// Adds to a start what it leaves: the revisions that were deployed before, if the Application
/// was Healthy with them and nothing but the revision differs now.
pub(crate) fn complete(started: &mut Started, wanted: &Wanted, existing: &Existing) {
    started.base = wanted.base.to_string();
    if started.goes_back || !started.good.is_empty() {
        return;
    }
    let before = existing.started.as_deref();
    let is_same = match before {
        Some(before) => before.base == started.base,
        None => existing.deployed.is_some(),
    };
    if !is_same {
        return;
    }
    started.good = match (started.before, &existing.deployed) {
        (HealthStatus::Healthy, Some(deployed)) => deployed.clone(),
        _ => before.map(|before| before.good.clone()).unwrap_or_default(),
    };
}
