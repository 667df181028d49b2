//! The targets that were aborted, and are not promoted to again (ST-060).
//!
//! A target belongs to the run that was ended, and not to the moment: an Application is in
//! quarantine for it also when it is compared with the revisions only later, when it has had another
//! target in between, or when it is new. So the runs of a set hand on what is in quarantine as it
//! is, whatever targets Applications have while one follows another. It ends by a retry, with
//! another generated spec, and for the oldest run when more than [`CAPACITY`] digests are
//! remembered, which the run then says.
//!
//! Of each run that was ended it is known: the Applications with their specs, the revisions that the
//! run was about, and targets with other revisions. What was Healthy with these revisions without a
//! start, since nothing of it had changed, is healed as long as it has them.

use std::collections::BTreeSet;

use super::target_set::{
    CAPACITY, Short, TargetDigests, TargetSet, digest_of_revisions, digest_of_spec, digests_text,
    read_digests,
};
use crate::rollout::phase::{Observed, Phase};
use crate::rollout::snapshot::Row;

/// Between the runs of a text, after the number of a run, and between its parts. No text of base64
/// has them.
const RUNS: char = ';';
const NUMBER: char = ':';
const PARTS: char = '.';
/// Of a run whose revisions are in quarantine for new Applications as well.
const FOR_NEW: &str = "new";
/// So many revisions of a run do not count: thousands of Applications have few.
const REVISIONS: usize = 20;
/// In the place of a number: what a complete run has left out.
const LEFT_OUT: &str = "left";

/// All that is in quarantine in a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quarantine {
    /// By the run that was ended, the earliest first.
    runs: Vec<EndedRun>,
    /// What the current run has completed without, which the next one takes (ST-064).
    left_out: TargetSet,
    /// Whether new Applications were added since it was read.
    has_grown: bool,
}

/// What one run was about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct EndedRun {
    /// Its number; 0 when it is not known.
    number: u64,
    /// Targets with revisions that are not among those below.
    targets: BTreeSet<Short>,
    /// Applications with their specs, for these revisions.
    specs: BTreeSet<Short>,
    revisions: BTreeSet<Short>,
    /// Targets that Applications had already without a start.
    unchanged: BTreeSet<Short>,
    /// Whether nothing had these revisions before the run.
    is_for_new: bool,
}

/// What is not remembered any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgotten {
    /// The number of the run; 0 when it is not known.
    pub run: u64,
    /// How many of its targets are still remembered.
    pub kept: usize,
}

impl Quarantine {
    /// From the text in a status; what cannot be read is left out.
    pub fn read(text: &str) -> Self {
        let mut quarantine = Self::default();
        for run in text.split(RUNS).filter(|run| !run.is_empty()) {
            let (number, parts) = run.split_once(NUMBER).unwrap_or(("0", run));
            if number == LEFT_OUT {
                quarantine.left_out = TargetSet::read(parts);
                continue;
            }
            let mut parts = parts.split(PARTS);
            let mut next = || read_digests(parts.next().unwrap_or_default());
            let (targets, specs, revisions, unchanged) = (next(), next(), next(), next());
            let is_for_new = parts.next() == Some(FOR_NEW);
            let number = number.parse().unwrap_or_default();
            let run = EndedRun { number, targets, specs, revisions, unchanged, is_for_new };
            if !run.is_empty() {
                quarantine.runs.push(run);
            }
        }
        quarantine
    }

    /// The text for a status.
    pub fn text(&self) -> String {
        let mut all: Vec<String> = self.runs.iter().map(EndedRun::text).collect();
        if self.left_out.len() > 0 {
            all.push(format!("{LEFT_OUT}{NUMBER}{}", self.left_out.text()));
        }
        all.join(&RUNS.to_string())
    }

    /// Adds what a run that is ended was about: what it has started, and what is not Healthy; the
    /// others for when they are compared with its revisions.
    pub fn add_run(&mut self, number: u64, rows: &[Row<'_>]) {
        let deployed = |row: &Row<'_>| digest_of_revisions(deployed_of(row));
        // The target of one that is behind is an earlier one.
        let is_open = |row: &Row<'_>| {
            let is_of_step = row.member.step().is_some() && row.behind.is_none();
            is_of_step && row.phase().is_some_and(|phase| phase != Phase::Healthy)
        };
        let is_of_run = |row: &Row<'_>| row.run.is_started || is_open(row);
        let others = || rows.iter().filter(|row| !row.run.is_started);
        // What others had before is not what the run was about, unless it has started it.
        let known: BTreeSet<Short> = others().map(deployed).collect();
        let mut run = EndedRun { number, is_for_new: true, ..EndedRun::default() };
        for row in rows.iter().filter(|row| is_of_run(row)) {
            let Some((_, revisions)) = row.spec_and_revisions() else { continue };
            let digest = digest_of_revisions(revisions);
            if revisions.is_empty() || !row.run.is_started && known.contains(&digest) {
                continue;
            }
            let started = row.member.started.filter(|_| row.run.is_started);
            let good = started.map(|started| &*started.good).filter(|good| !good.is_empty());
            let is_new = good.unwrap_or_else(|| deployed_of(row)) != revisions;
            run.is_for_new &= is_new && !known.contains(&digest);
            run.revisions.insert(digest);
        }
        run.is_for_new &= !run.revisions.is_empty();
        for row in rows {
            let revisions = row.spec_and_revisions().map(|(_, revisions)| revisions);
            if is_of_run(row) && !revisions.is_some_and(|revisions| run.has_revisions(revisions)) {
                run.targets.extend(TargetDigests::of_row(row).map(|target| target.whole()));
            }
            // One that has had these revisions before the run has nothing to roll out.
            if is_of_run(row) || !run.revisions.contains(&deployed(row)) {
                run.specs.extend(digest_of_spec(row));
            }
        }
        if run.revisions.is_empty() {
            run.specs.clear();
        }
        run.observe_unchanged(rows);
        match self.runs.iter_mut().find(|known| known.number == number) {
            // Of one that is aborted, and taken back then.
            Some(known) => known.extend(run),
            None if run.is_empty() => {}
            None => self.runs.push(run),
        }
    }

    /// Adds the target of an Application that a run has completed without.
    pub fn leave_out(&mut self, row: &Row<'_>) {
        self.left_out.add(row);
    }

    /// Adds Applications that are new in the set, and keeps those apart that were Healthy without a
    /// start as long as they have this target.
    pub fn observe(&mut self, rows: &[Row<'_>]) {
        let has_entries = rows.iter().any(|row| row.member.entry.is_some());
        for run in &mut self.runs {
            run.observe_unchanged(rows);
            if !run.is_for_new {
                continue;
            }
            for row in rows.iter().filter(|row| is_new(row, has_entries)) {
                self.has_grown |= digest_of_spec(row).is_some_and(|spec| run.specs.insert(spec));
            }
        }
    }

    /// Whether new Applications were added, which are not new any more in the next reconcile.
    pub fn has_grown(&self) -> bool {
        self.has_grown
    }

    /// What the next run takes over.
    pub fn inherited(&self) -> Self {
        Self { left_out: TargetSet::default(), ..self.clone() }
    }

    /// Whether an Application is not promoted to its target.
    pub fn has(&self, row: &Row<'_>) -> bool {
        self.left_out.has(row) || self.run_of(row).is_some()
    }

    /// Whether a run was ended that this target of an Application is of.
    pub fn has_target(&self, application: &str, spec: &str, revisions: &[String]) -> bool {
        let target = TargetDigests::of(application, spec, revisions);
        self.runs.iter().any(|run| run.has(&target))
    }

    /// The number of the run that its target is of.
    pub fn run_of(&self, row: &Row<'_>) -> Option<u64> {
        let target = if self.runs.is_empty() { None } else { TargetDigests::of_row(row) }?;
        self.runs.iter().rev().find(|run| run.has(&target)).map(|run| run.number)
    }

    /// Lifts it for one Application: for its present target, or else for that of the run.
    pub fn lift_one(&mut self, number: u64, row: &Row<'_>) {
        self.left_out.remove(row);
        let target = TargetDigests::of_row(row);
        let has = |run: &EndedRun| target.as_ref().is_some_and(|target| run.has(target));
        let is_held = self.runs.iter().any(has);
        for run in &mut self.runs {
            if has(run) || !is_held && run.number == number {
                run.remove(row);
            }
        }
        self.runs.retain(|run| !run.is_empty());
    }

    /// Lifts it for all Applications, those too that are compared later: what the run was about, and
    /// what any of these has as its target. The numbers of the runs.
    pub fn lift(&mut self, number: u64, rows: &[Row<'_>]) -> Vec<u64> {
        for row in rows {
            self.left_out.remove(row);
        }
        let targets: Vec<_> = rows.iter().filter_map(TargetDigests::of_row).collect();
        let is_lifted =
            |run: &EndedRun| run.number == number || targets.iter().any(|one| run.has(one));
        let (lifted, kept) = std::mem::take(&mut self.runs).into_iter().partition(is_lifted);
        self.runs = kept;
        let lifted: Vec<EndedRun> = lifted;
        lifted.iter().map(|run| run.number).collect()
    }

    /// The Applications with their specs, and the revisions, of all runs that were ended.
    pub(super) fn specs_and_revisions(&self) -> (BTreeSet<Short>, BTreeSet<Short>) {
        let (mut specs, mut revisions) = (BTreeSet::new(), BTreeSet::new());
        for run in &self.runs {
            specs.extend(&run.specs);
            revisions.extend(&run.revisions);
        }
        (specs, revisions)
    }

    /// Forgets the earliest runs when there is more than fits in a status, and of the last one what
    /// does not fit.
    pub fn bound(&mut self) -> Vec<Forgotten> {
        let mut forgotten = Vec::new();
        let mut room = CAPACITY.saturating_sub(self.left_out.len());
        let mut kept = Vec::new();
        for mut run in std::mem::take(&mut self.runs).into_iter().rev() {
            if run.len() > room {
                if kept.is_empty() {
                    run.truncate(room);
                } else {
                    run = EndedRun { number: run.number, ..EndedRun::default() };
                }
                let kept = run.targets.len() + run.specs.len();
                forgotten.push(Forgotten { run: run.number, kept });
            }
            room = room.saturating_sub(run.len());
            if !run.is_empty() {
                kept.push(run);
            }
        }
        kept.reverse();
        self.runs = kept;
        forgotten
    }
}

impl EndedRun {
    fn text(&self) -> String {
        let parts = [&self.targets, &self.specs, &self.revisions, &self.unchanged];
        let mut parts: Vec<String> =
            parts.into_iter().map(|part| digests_text(part, CAPACITY)).collect();
        if self.is_for_new {
            parts.push(FOR_NEW.to_owned());
        }
        let all = parts.join(&PARTS.to_string());
        format!("{}{NUMBER}{}", self.number, all.trim_end_matches(PARTS))
    }

    fn is_empty(&self) -> bool {
        self.targets.is_empty() && self.specs.is_empty() && !self.is_for_new
    }

    fn len(&self) -> usize {
        let revisions = self.revisions.len().saturating_sub(REVISIONS);
        self.targets.len() + self.specs.len() + revisions + self.unchanged.len()
    }

    fn extend(&mut self, other: Self) {
        self.targets.extend(other.targets);
        self.specs.extend(other.specs);
        self.revisions.extend(other.revisions);
        self.unchanged.extend(other.unchanged);
        self.is_for_new |= other.is_for_new;
    }

    fn truncate(&mut self, most: usize) {
        self.unchanged.clear();
        let mut room = most.saturating_add(REVISIONS);
        for part in [&mut self.revisions, &mut self.targets, &mut self.specs] {
            *part = part.iter().take(room).copied().collect();
            room = most.min(room - part.len());
        }
    }

    fn has_revisions(&self, revisions: &[String]) -> bool {
        !self.revisions.is_empty() && self.revisions.contains(&digest_of_revisions(revisions))
    }

    /// Whether it has the spec of a target, and its revisions.
    fn has_both(&self, target: &TargetDigests) -> bool {
        self.revisions.contains(&target.revisions) && self.specs.contains(&target.spec)
    }

    fn has(&self, target: &TargetDigests) -> bool {
        target.is_in(&self.targets) || self.has_both(target) && !target.is_in(&self.unchanged)
    }

    fn remove(&mut self, row: &Row<'_>) {
        if let Some(target) = TargetDigests::of_row(row) {
            target.leave(&mut self.targets);
        }
        if let Some(spec) = digest_of_spec(row) {
            self.specs.remove(&spec);
        }
    }

    /// What is Healthy with these revisions without a start has nothing of them to roll out. With
    /// another target in between it is as the others.
    fn observe_unchanged(&mut self, rows: &[Row<'_>]) {
        let unchanged = |row: &Row<'_>| {
            let was_started = row.member.started.is_some_and(|one| row.has_target(&one.target));
            let is_healthy = row.phase() == Some(Phase::Healthy);
            let may_be = is_healthy && !was_started && !self.revisions.is_empty();
            let target = if may_be { TargetDigests::of_row(row) } else { None };
            target.filter(|target| self.has_both(target)).map(|target| target.whole())
        };
        let found: Vec<Short> = rows.iter().filter_map(unchanged).collect();
        if !self.unchanged.is_empty() {
            let now = rows.iter().filter_map(TargetDigests::of_row);
            let now: BTreeSet<Short> =
                now.flat_map(|target| [target.whole(), target.earlier]).collect();
            self.unchanged.retain(|target| now.contains(target));
        }
        self.unchanged.extend(found);
    }
}

/// Whether this is the first reconcile that knows an Application, and no run has started it.
fn is_new(row: &Row<'_>, has_entries: bool) -> bool {
    // A set that has lost all entries of its status knows none of them: then what was deployed
    // before is not new.
    let was_known = !has_entries && !deployed_of(row).is_empty();
    row.member.entry.is_none() && row.member.started.is_none() && row.entry.is_some() && !was_known
}

/// The revisions of the last sync of an Application that succeeded; none if they are not known.
fn deployed_of<'a>(row: &Row<'a>) -> &'a [String] {
    row.member.observed.map_or(&[], Observed::deployed_revisions)
}

#[cfg(test)]
mod tests {
    use super::super::target_set::digest;
    use super::*;

    fn ended(number: u64, applications: usize) -> EndedRun {
        let spec = |index: usize| digest(&format!("app-{number}-{index}"), "spec", &[]);
        EndedRun {
            number,
            specs: (0..applications).map(spec).collect(),
            revisions: [digest_of_revisions(&[format!("r{number}")])].into(),
            is_for_new: true,
            ..EndedRun::default()
        }
    }

    #[test]
    fn it_survives_being_stored_as_st_060() {
        let mut all = Quarantine { runs: vec![ended(2, 3), ended(7, 2)], ..Quarantine::default() };
        all.runs[1].is_for_new = false;
        all.runs[1].unchanged.insert([1, 2, 3, 4]);
        assert_eq!(Quarantine::read(&all.text()), all);
        assert_eq!(Quarantine::read("no base64!"), Quarantine::default());
        assert_eq!(Quarantine::read("").text(), "");
        // As earlier versions have written it.
        let earlier = Quarantine::read("AQEBAQ==.AgICAg==.AwMDAw==");
        assert_eq!((earlier.runs.len(), earlier.runs[0].number), (1, 0));
        assert!(earlier.runs[0].specs.contains(&[2, 2, 2, 2]));
        assert_eq!(Quarantine::read(&earlier.text()), earlier);
    }

    #[test]
    fn the_earliest_run_is_forgotten_first_as_st_060() {
        let runs = vec![ended(1, 4_000), ended(2, 4_000), ended(3, 4_000)];
        let mut all = Quarantine { runs, ..Quarantine::default() };
        assert_eq!(all.bound(), [Forgotten { run: 1, kept: 0 }]);
        assert_eq!(all.runs.iter().map(|run| run.number).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(all.bound(), []);
        all.runs.push(ended(4, 12_000));
        let forgotten = all.bound();
        let last = Forgotten { run: 4, kept: CAPACITY };
        assert_eq!(forgotten[0], last);
        assert_eq!(forgotten.len(), 3);
        assert!(all.text().len() < 34_000, "{}", all.text().len());
        assert_eq!(Quarantine::read(&all.text()), all);
    }

    /// The targets that Applications had already take as much room as the others.
    #[test]
    fn what_was_unchanged_counts_as_st_060() {
        for (unchanged, is_forgotten) in [(2_000, false), (2_001, true)] {
            let mut all = Quarantine {
                runs: vec![ended(1, 4_000), ended(2, 4_000)],
                ..Quarantine::default()
            };
            all.runs[1].unchanged = (0..unchanged).map(u32::to_be_bytes).collect();
            assert_eq!(all.bound().len(), usize::from(is_forgotten), "{unchanged}");
        }
    }
}
