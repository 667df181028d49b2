//! Each Application is synced once for each commit, unless somebody asks for it again (AS-361).

use std::time::Duration;

use wavegate_simulation::FleetFault;

use super::{AWARE, Judge, Known, Verdict};
use crate::app;
use crate::case::What;
use crate::scenario::remedied;
use crate::track::{Begun, Moment, begun};
use crate::world::Changed;

pub struct ExactlyOnce;

impl Judge for ExactlyOnce {
    fn change(&mut self, known: &Known<'_>, changed: &Changed, moments: &[Moment]) -> Verdict {
        let begun = begun(moments).filter(|begun| !begun.goes_back);
        let name = &*changed.key.name;
        let (Some(begun), Some(tracked)) = (begun, known.track.apps.get(name)) else {
            return Ok(());
        };
        let is_same = |one: &Begun| one.commit == begun.commit && !one.goes_back;
        let earlier = &tracked.begun[..tracked.begun.len() - 1];
        let Some(last) = earlier.iter().rposition(is_same) else { return Ok(()) };
        // It was taken back meanwhile, or its branch was.
        let is_reset = known.case.has(|what| matches!(what, What::Reset(_)));
        let is_other = |one: &Begun| one.goes_back || is_reset && one.commit != begun.commit;
        if earlier[last..].iter().any(is_other) {
            return Ok(());
        }
        let (from, until) = (known.time_of(earlier[last].at), known.passed());
        let is_between = |at: Duration| from <= at && at <= until;
        // From when until when the live state is another one.
        let drifts = known.case.events.iter().filter_map(|event| match &event.what {
            What::Drift(drifted) if drifted == name => Some((event.at, event.at)),
            // Each Application has a Deployment, and a kind that is not there has no objects.
            What::Fault(FleetFault::Vanishes { resource: "deployments", code: 404, lasting }) => {
                Some((event.at, event.at + *lasting))
            }
            _ => None,
        });
        let mut drifts = drifts.filter(|(begin, _)| *begin <= until).peekable();
        let is_drifted = drifts.peek().is_some();
        // A sync that was decided before the drift does not take it back.
        let has_drifted = drifts.any(|(_, end)| from <= end + AWARE);
        let retries = known.case.events.iter().filter(|event| event.what == What::Retry);
        let is_asked_for =
            retries.map(|event| event.at).chain(remedied(known.case)).any(is_between);
        let has_failed = changed.before.as_deref().is_some_and(app::has_failed);
        if has_drifted || is_asked_for && (has_failed || is_drifted) {
            return Ok(());
        }
        Err(format!(
            "{name} is synced again for one commit without being asked to: {:?}, {begun:?}",
            earlier[last]
        ))
    }
}
