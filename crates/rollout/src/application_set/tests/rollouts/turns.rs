//! The effects of events, and a quiet end in which every rollout completes.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::cases::Turn;
use super::checks;
use super::people::Run;
use super::spec::{Element, SET};
use super::world::World;
use crate::application_set::status::stored::Status;
use crate::rollout::phase::{Entry, Phase};
use wavegate_api::run::RunPhase;

impl World {
    /// Reconciles while there is something to do, at most `limit` times.
    pub fn run_due(&mut self, limit: usize) {
        for _ in 0..limit {
            let is_due = self.wake.is_some_and(|at| at <= self.cluster.now);
            if self.is_gone || !(self.queued || is_due) {
                return;
            }
            self.reconcile();
        }
    }

    /// Passes time; the controller wakes up when it asked for it.
    fn sleep(&mut self, milliseconds: i64) {
        let end = self.cluster.now + SignedDuration::from_millis(milliseconds);
        for _ in 0..60 {
            let Some(wake) = self.wake.filter(|wake| *wake <= end) else { break };
            self.cluster.now = wake.max(self.cluster.now);
            self.run_due(1);
        }
        self.cluster.now = end.max(self.cluster.now);
    }

    pub fn name(&self, index: usize) -> String {
        format!("app-{:02}", index % self.spec.elements.len().max(1))
    }

    /// An event; it triggers a reconcile.
    pub fn take(&mut self, turn: &Turn) {
        super::history::note(|| format!("{} {turn:?}", self.cluster.now));
        self.queued = true;
        self.cluster.wait(300);
        match turn {
            Turn::All => {
                self.advance_all();
            }
            Turn::Sleep(tenths) => self.sleep(i64::from(*tenths) * 100),
            Turn::Commit => self.cluster.push(),
            Turn::Fault(writes, fault) => {
                self.faults.push((*writes, *fault));
                self.advance_all();
            }
            Turn::Crash => self.restart(),
            Turn::Word(word) => self.hear(word),
            Turn::HoldSet => self.set_is_held = true,
            Turn::Release => {
                self.held.clear();
                self.set_is_held = false;
            }
            Turn::Specs => self.edit(|spec| {
                spec.elements.values_mut().for_each(|element| element.path += 1);
            }),
            Turn::Template => self.edit(|spec| spec.fails = !spec.fails),
            Turn::Steps(steps) => {
                if steps.is_empty() {
                    self.forget_holds();
                }
                self.edit(|spec| spec.steps.clone_from(steps));
            }
            Turn::Strategy => {
                self.forget_holds();
                self.edit(|spec| spec.rolling = !spec.rolling);
            }
            Turn::Policy(policy) => self.edit(|spec| spec.policy = policy),
            Turn::Feature => {
                self.forget_holds();
                self.settings.progressive_syncs = !self.settings.progressive_syncs;
                self.configuration += 1;
                self.restart();
            }
            Turn::Wipe => {
                self.forget_holds();
                self.configuration += 1;
                self.set.status = Status::default();
                self.touch_set();
            }
            Turn::One(index)
            | Turn::Hold(index)
            | Turn::Fail(index)
            | Turn::Manual(index)
            | Turn::Old(index)
            | Turn::Break(index)
            | Turn::Drift(index)
            | Turn::Degrade(index)
            | Turn::Touch(index)
            | Turn::Spec(index)
            | Turn::Label(index, _)
            | Turn::Toggle(index)
            | Turn::Invalid(index)
            | Turn::Foreign(index) => {
                let name = self.name(*index);
                self.take_of(turn, &name);
            }
        }
    }

    /// An event of one Application.
    fn take_of(&mut self, turn: &Turn, name: &str) {
        match turn {
            Turn::Hold(_) => drop(self.held.insert(name.to_owned())),
            Turn::Fail(_) => self.cluster.change(name, |app| app.fails = true),
            Turn::Manual(_) => drop(self.cluster.sync_manually(name)),
            Turn::Old(_) => self.sync_to_an_older_one(name),
            Turn::Break(_) => self.cluster.change(name, |app| {
                (app.broken, app.stale) = (!app.broken, true);
            }),
            Turn::Drift(_) => self.cluster.change(name, |app| {
                (app.drifted, app.stale) = (app.deployed.is_some(), true);
            }),
            Turn::Degrade(_) => self.cluster.change(name, |app| {
                (app.degraded, app.stale) = (!app.degraded, true);
            }),
            Turn::Touch(_) => self.cluster.change(name, |_| {}),
            Turn::Foreign(_) => {
                let owner = json!({"kind": "ApplicationSet", "name": "other", "uid": "other", "controller": true});
                let object = json!({
                    "metadata": {"name": name, "namespace": "argocd", "ownerReferences": [owner]},
                    "spec": {"project": "other", "source": {"path": "other"}, "destination": {}},
                });
                let _ = self.cluster.create(name, object);
            }
            Turn::Spec(_) => self.edit(|spec| {
                if let Some(element) = spec.elements.get_mut(name) {
                    element.path += 1;
                }
            }),
            Turn::Label(_, label) => self.edit(|spec| {
                if let Some(element) = spec.elements.get_mut(name) {
                    element.label = *label;
                }
            }),
            Turn::Toggle(_) => self.edit(|spec| {
                let element = Element { label: 1, path: 1, automated: Some(true) };
                if spec.elements.remove(name).is_none() {
                    spec.elements.insert(name.to_owned(), element);
                }
            }),
            Turn::Invalid(_) => self.edit(|spec| {
                if !spec.invalid.remove(name) {
                    spec.invalid.insert(name.to_owned());
                }
            }),
            _ => drop(self.cluster.advance(name)),
        }
    }

    /// A user syncs it to an older revision. The target is known: the order of a sync and of
    /// a target that nobody has observed cannot be found out.
    fn sync_to_an_older_one(&mut self, name: &str) {
        // The start of a sync is its identity, in whole seconds.
        self.cluster.wait(1100);
        let entries = self.set.status.entries.iter().flatten();
        let entry = entries.into_iter().find(|entry| entry.application == name);
        let known = entry.map(|entry| entry.target_revisions.clone()).unwrap_or_default();
        let is_known = self.is_rolling()
            && self.spec.elements.get(name).is_some_and(|element| {
                self.cluster.apps.get(name).is_some_and(|app| app.path() == element.path())
            });
        self.cluster.sync_to_an_older_one(name, is_known.then_some(&known));
    }

    /// The entries are lost, and with them what is known about the order of syncs.
    fn forget_holds(&mut self) {
        self.cluster.apps.values_mut().for_each(|app| app.held_for = None);
    }

    /// Lets the application controller continue with all Applications; returns
    /// whether it did anything.
    pub fn advance_all(&mut self) -> bool {
        let names: Vec<String> = self.cluster.apps.keys().cloned().collect();
        let mut moved = false;
        for name in &names {
            moved |= self.cluster.advance(name);
        }
        moved
    }

    /// Errors are fixed, and the cluster is left alone until everything is
    /// complete.
    pub fn end(&mut self, lost: usize, is_deleted: bool) {
        super::history::note(|| format!("{} the end begins", self.cluster.now));
        self.faults.clear();
        self.held.clear();
        self.set_is_held = false;
        if self.model.is_some() {
            self.rest();
        }
        self.resume();
        let broken: Vec<String> = self.cluster.apps.keys().cloned().collect();
        for name in &broken {
            self.cluster.change(name, |app| {
                app.stale |= app.broken || app.degraded;
                (app.broken, app.fails, app.degraded) = (false, false, false);
            });
            if self.cluster.apps[name].owner() != SET {
                self.cluster.apps.remove(name);
            }
        }
        // A set without steps waits for its user (AS-304).
        let is_stuck = self.spec.rolling && self.spec.steps.is_empty();
        if self.spec.fails || is_stuck || !self.spec.invalid.is_empty() {
            self.edit(|spec| {
                spec.fails = false;
                spec.invalid.clear();
                spec.rolling &= !is_stuck;
            });
        }
        if is_deleted {
            self.set.is_deleting = true;
            self.is_gone = self.set.finalizers.is_empty();
            self.touch_set();
        }
        self.queued = true;
        let mut stuck = 0;
        for round in 0..600 {
            if self.is_gone {
                return;
            }
            let moved = self.advance_all();
            // I10: no event of one round arrives. Nothing polls once the
            // rollout is complete.
            let polls = self.memory.set.status.has("RolloutProgressing", "True");
            self.queued |= moved && (round != lost || !polls);
            self.cluster.wait(300);
            if self.queued || self.wake.is_some_and(|at| at <= self.cluster.now) {
                self.reconcile();
            } else if moved {
                continue;
            } else if self.accepts_requests() && !(self.is_complete() && self.is_everything_there())
            {
                // Gates soak and failures pass their deadline; then people act.
                stuck += 1;
                let wake = self.wake.unwrap_or(self.cluster.now);
                self.cluster.now = wake.max(self.cluster.now);
                match stuck % 4 {
                    1 => self.permit_all(),
                    2 => self.raise_limits(),
                    0 => drop(self.help()),
                    _ => {}
                }
                self.queued = true;
                assert!(stuck < 60, "no word of a person helps: {}", self.state());
            } else if self.help() {
                self.queued = true;
            } else if let Some(at) = self.wake.filter(|at| self.is_soon(*at)) {
                // Another run follows, which takes what this one has skipped.
                self.cluster.now = at;
            } else if !self.set.is_deleting && self.is_complete() {
                return self.check_end();
            } else {
                checks::wakes(self);
                let wake =
                    self.wake.unwrap_or_else(|| panic!("I10: it waits for ever: {}", self.state()));
                self.cluster.now = wake.max(self.cluster.now);
            }
        }
        panic!("I10: it never ends: {}", self.state());
    }

    /// Whether a time is before the next poll.
    fn is_soon(&self, at: Timestamp) -> bool {
        at.duration_since(self.cluster.now) <= SignedDuration::from_secs(2)
    }

    fn needs_help(&self, entry: &Entry) -> bool {
        match entry.phase {
            Phase::Progressing => true,
            Phase::Waiting => entry.step.is_some_and(|step| {
                self.spec.steps.get(step).is_some() && self.spec.allowed(step) == Some(0)
            }),
            // Nothing heals what has timed out before its sync.
            Phase::Healthy => entry.timed_out(),
            Phase::Pending => false,
        }
    }

    /// What only a user can do: sync Applications whose sync failed, that
    /// drifted while they were Progressing (R10), whose step is held (AS-343), or that a
    /// person has synced to something else (ST-065).
    fn help(&mut self) -> bool {
        let entries = self.set.status.entries.iter().flatten();
        let is_stuck = |entry: &Entry| entry.is_held() || self.needs_help(entry);
        let stuck = entries.filter(|entry| is_stuck(entry));
        let needs = |name: &String| self.cluster.apps.get(name).is_some_and(|app| app.needs_sync());
        let names: Vec<String> =
            stuck.map(|entry| entry.application.clone()).filter(needs).collect();
        let mut helped = false;
        for name in names {
            helped |= self.cluster.sync_manually(&name);
        }
        helped
    }

    /// What goes back does so within `maxUpdate`: of 0, it never does.
    fn raise_limits(&mut self) {
        let runs = self.model.iter().flat_map(|model| &model.runs);
        let goes_back = runs.last().is_some_and(|run| run.status.phase == RunPhase::RollingBack);
        let mut steps = 0..self.spec.steps.len();
        if goes_back && steps.any(|step| self.spec.allowed(step) == Some(0)) {
            self.edit(|spec| spec.steps.iter_mut().for_each(|step| step.limit = json!(null)));
        }
    }

    fn is_rolling(&self) -> bool {
        self.spec.rolling && self.settings.progressive_syncs
    }

    fn is_complete(&self) -> bool {
        let progressing = self.set.status.has("RolloutProgressing", "True");
        let exist = self.spec.elements.keys().all(|name| self.cluster.apps.contains_key(name));
        let is_new = self.is_rolling() && self.set.status.rollout.is_none();
        exist && !progressing && !is_new && (self.is_fresh() || !self.is_rolling())
    }

    /// Whether people may say something about the rollout.
    fn accepts_requests(&self) -> bool {
        self.model.is_some() && !self.is_plain
    }

    /// Whether all Applications of steps are at the newest target.
    fn is_everything_there(&self) -> bool {
        !self.is_rolling()
            || self.timed_out
            || self.spec.elements.keys().all(|name| self.is_there(name))
    }

    /// Whether it is at the newest target, or nothing rolls it out.
    fn is_there(&self, name: &str) -> bool {
        let app = &self.cluster.apps[name];
        let updates = self.spec.policy().updates();
        let path = if updates { self.spec.elements[name].path() } else { app.path().to_owned() };
        let is_skipped = |run: &Run| run.spec.skip.iter().any(|skipped| skipped == name);
        let last = self.model.as_ref().and_then(|model| model.runs.last());
        app.deployed == Some((path, self.cluster.commit))
            || self.spec.steps_of(name).is_empty()
            // The next run takes it again (ST-064).
            || last.is_some_and(is_skipped)
    }

    /// The rollout is complete (I10), and nothing is written any more (I4).
    fn check_end(&mut self) {
        if self.is_rolling() {
            for name in self.spec.elements.keys() {
                assert!(self.is_there(name) || self.timed_out, "I10: {name}: {}", self.state());
            }
            // There is no list without Applications.
            let status = self.set.status.to_json();
            for entry in status["applicationStatus"].as_array().into_iter().flatten() {
                assert!(entry["targetRevisions"].is_array(), "I5: {entry}");
            }
        }
        // Entries of Applications without a step may still become Healthy, and
        // a status that nothing depends on may be due.
        for _ in 0..6 {
            self.cluster.wait(1100);
            self.reconcile();
            if self.is_settled {
                break;
            }
        }
        self.cluster.wait(31_000);
        let writes = self.cluster.writes;
        self.reconcile();
        let is_idle = self.is_settled && self.cluster.writes == writes;
        assert!(is_idle, "I4: {}", self.state());
    }

    pub fn state(&self) -> String {
        let mut text = format!(
            "now {} wake {:?}\n{}\n",
            self.cluster.now,
            self.wake,
            self.set.status.to_json()
        );
        text.push_str(&self.runs_in_words());
        for (name, app) in &self.cluster.apps {
            text.push_str(&format!("{name}: deployed {:?} {}\n", app.deployed, app.object));
        }
        text
    }
}
