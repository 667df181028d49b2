//! Which Applications were asked to be compared again, and answered nothing new.
//!
//! An Application that is behind another one is asked for a comparison. Its answer may leave it
//! behind: the operation of the other one goes on, and it was compared within the same second, or
//! before a clock stepped back. Asked at once, it would answer the same, a thousand times a
//! second.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::application_set::plan::observe::Existing;
use crate::application_set::plan::outcome::{Ended, WriteOutcome};
use crate::application_set::plan::write_plan::{Patch, WritePlan};

/// How long an Application that has answered the same is not asked again: at first, and at most.
/// It doubles each time.
const PAUSE: (SignedDuration, SignedDuration) =
    (SignedDuration::from_secs(1), SignedDuration::from_mins(1));

/// The Applications of a set that were asked, and are still behind. If it is lost, they are asked
/// once more.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    known: BTreeMap<String, Ask>,
}

#[derive(Clone, Debug)]
struct Ask {
    /// What it was compared with before.
    revisions: Vec<String>,
    at: Timestamp,
    pause: SignedDuration,
}

impl Asked {
    /// None.
    pub const NONE: Self = Self { known: BTreeMap::new() };

    /// Those of `behind` that may be asked now, in the same order, and when the first of the
    /// others may be.
    pub fn due(
        &self,
        behind: &[String],
        existing: &[Existing],
        now: Timestamp,
    ) -> (Vec<String>, Option<Timestamp>) {
        let mut first = None;
        let is_due = |name: &&String| {
            let due_at = revisions(existing, name).and_then(|seen| self.due_at(name, seen, now));
            first = [first, due_at].into_iter().flatten().min();
            due_at.is_none()
        };
        let due = behind.iter().filter(is_due).cloned().collect();
        (due, first)
    }

    /// When one with these revisions may be asked; `None` means now.
    fn due_at(&self, name: &str, seen: &[String], now: Timestamp) -> Option<Timestamp> {
        let ask = self.known.get(name).filter(|ask| ask.revisions == seen)?;
        let due = ask.at.checked_add(ask.pause).ok()?;
        // A clock that was set back must not delay it for longer.
        (ask.at <= now && now < due).then_some(due)
    }

    /// Remembers those that were asked by a reconcile, and forgets those that are not `behind`
    /// any more.
    pub fn record(
        &mut self,
        behind: &[String],
        writes: &WritePlan,
        outcomes: &[WriteOutcome],
        existing: &[Existing],
        now: Timestamp,
    ) {
        let asks = |patch: &&Patch| patch.refreshes;
        let asks: BTreeSet<&str> =
            writes.patches.iter().filter(asks).map(|patch| &*patch.name).collect();
        let is_written = |outcome: &&WriteOutcome| outcome.ended == Ended::Written;
        let written = outcomes.iter().filter(is_written).map(|outcome| &*outcome.application);
        let asked: BTreeSet<&str> = written.filter(|name| asks.contains(name)).collect();
        let mut before = std::mem::take(&mut self.known);
        for name in behind {
            let last = before.remove(name);
            let kept = match revisions(existing, name) {
                Some(seen) if asked.contains(&**name) => {
                    let same = last.filter(|last| last.revisions == seen);
                    let pause = same.map_or(PAUSE.0, |last| (last.pause * 2).min(PAUSE.1));
                    Some(Ask { revisions: seen.to_vec(), at: now, pause })
                }
                Some(_) => last,
                None => None,
            };
            self.known.extend(kept.map(|ask| (name.clone(), ask)));
        }
    }
}

fn revisions<'a>(existing: &'a [Existing], name: &str) -> Option<&'a [String]> {
    let at = existing.binary_search_by(|one| (*one.name).cmp(name)).ok()?;
    Some(&existing[at].observed.revisions)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::application_set::generate::ignore::Ignore;
    use crate::application_set::generate::policy::Policy;
    use crate::application_set::generate::preserve::Preserve;
    use crate::application_set::plan::outcome::WriteAct;
    use crate::application_set::plan::owner::Identity;
    use crate::application_set::plan::update::Rules;

    fn compared_with(revision: &str) -> Vec<Existing> {
        let set = Identity::default();
        let (preserve, ignore) = (Preserve::default(), Ignore::default());
        let rules = Rules {
            set: &set,
            policy: Policy::Sync,
            preserve: &preserve,
            ignore: &ignore,
            keeps_resources: false,
        };
        let live = json!({"metadata": {"name": "a"}, "status": {"sync": {"revision": revision}}});
        vec![Existing::read(&live, None, &rules)]
    }

    #[test]
    fn what_answers_the_same_is_asked_less_and_less_often() {
        let at = |second: i64| Timestamp::from_second(1_000 + second).unwrap();
        let behind = ["a".to_owned()];
        let patch = Patch {
            name: "a".to_owned(),
            json: "{}".to_owned(),
            starts: false,
            is_taken_up: false,
            changes_spec: false,
            step: None,
            only_records: false,
            refreshes: true,
        };
        let writes = WritePlan { patches: vec![patch], ..WritePlan::default() };
        let outcome =
            |ended| [WriteOutcome { application: "a".to_owned(), act: WriteAct::Annotate, ended }];
        let (one, two) = (compared_with("1"), compared_with("2"));
        let mut asked = Asked::NONE;
        let due = |asked: &Asked, seen: &[Existing], now| asked.due(&behind, seen, at(now)).1;

        asked.record(&behind, &writes, &outcome(Ended::Outdated), &one, at(0));
        assert_eq!(due(&asked, &one, 0), None, "it was not written");
        let mut now = 0;
        for pause in [1, 2, 4, 8, 16, 32, 60, 60] {
            asked.record(&behind, &writes, &outcome(Ended::Written), &one, at(now));
            assert_eq!(asked.due(&behind, &one, at(now)), (vec![], Some(at(now + pause))));
            assert_eq!(due(&asked, &one, now + pause - 1), Some(at(now + pause)));
            assert_eq!(due(&asked, &two, now), None, "it has seen another revision");
            assert_eq!(due(&asked, &one, now - 1), None, "the clock was set back");
            now += pause;
            assert_eq!(asked.due(&behind, &one, at(now)), (behind.to_vec(), None));
        }
        asked.record(&behind, &WritePlan::default(), &[], &one, at(now));
        assert_eq!(due(&asked, &one, now - 1), Some(at(now)), "it is still behind");
        asked.record(&[], &WritePlan::default(), &[], &one, at(now));
        assert_eq!(due(&asked, &one, now - 1), None, "it was not behind in between");
    }
}
