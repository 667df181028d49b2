//! The revisions that an Application goes back to by itself (ST-061).

use crate::application_set::generate::generated::Wanted;
use crate::application_set::plan::observe::Existing;
use crate::rollout::phase::{Compared, Observed};
use crate::rollout::run::started::Started;
use wavegate_api::{HealthStatus, OperationPhase, SyncStatusCode};

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

/// What an Application carries of its last start, once a later spec is deployed that needed no sync:
/// it goes back over that, too. `None` when it carries that already, or the spec is not deployed.
pub(crate) fn without_a_sync(existing: &Existing, wanted: &Wanted) -> Option<Started> {
    let before = existing.started.as_deref().filter(|before| !before.goes_back)?;
    let Observed { health, sync, compared, spec_differs, revisions, operation, requested, .. } =
        &existing.observed;
    let has_succeeded = operation.as_ref().is_none_or(|it| it.phase == OperationPhase::Succeeded);
    let is_at_rest = requested.is_none() && has_succeeded;
    let is_deployed = *health == HealthStatus::Healthy
        && *sync == SyncStatusCode::Synced
        && *compared == Compared::Current
        && !*spec_differs
        && !revisions.is_empty();
    (*before.base != *wanted.base && is_at_rest && is_deployed && !existing.is_going).then(|| {
        Started { base: wanted.base.to_string(), good: revisions.clone(), ..before.clone() }
    })
}
