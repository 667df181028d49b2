//! One Application of a report.

use jiff::Timestamp;

use super::application::ApplicationReport;
use super::set::ReportedWait;
use crate::rollout::phase::{Entry, Phase};

/// One Application of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// It, if it exists.
    pub live: Option<ApplicationReport>,
    /// Its entry in the status, listed or implied.
    pub entry: Option<Entry>,
    /// The wait for it, as the status reports it.
    pub reported: Option<ReportedWait>,
    /// Its step, counted from 0; `None` when no step selects it.
    pub step: Option<usize>,
    /// Why the rollout goes on without it; such a one is not waited for.
    pub(super) left_out: Option<String>,
    /// The entry is not listed.
    pub(super) is_implied: bool,
    /// It is generated, and no step selects it.
    pub(super) is_outside: bool,
}

impl Member {
    /// What exists, and is as yet in no report.
    pub(super) fn new(live: Option<ApplicationReport>) -> Self {
        Self { live, ..Self::default() }
    }

    /// Its phase now: the status of the set follows its Applications.
    pub fn phase(&self) -> Option<Phase> {
        let entry = self.entry.as_ref()?;
        let has_started = self.live.as_ref().is_some_and(|live| live.has_started(entry));
        Some(if has_started { Phase::Progressing } else { entry.phase })
    }

    /// The start of the phase in the status.
    pub fn since(&self) -> Option<Timestamp> {
        Some(self.entry.as_ref()?.since)
    }

    /// Whether it is being deleted.
    pub fn is_going(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.deletion.is_some())
    }

    /// Whether a sync of it is requested or running.
    pub fn is_operating(&self) -> bool {
        self.live.as_ref().is_some_and(ApplicationReport::is_operating)
    }

    /// Whether its whole sync has succeeded, and it is Synced and Healthy since.
    pub fn is_seen_done(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.is_done() && !live.is_partial())
    }

    /// Whether a person has synced it to something else, which holds it (ST-065).
    pub fn is_held(&self) -> bool {
        !self.is_going() && self.entry.as_ref().is_some_and(Entry::is_held)
    }
}
