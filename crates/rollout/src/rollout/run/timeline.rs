//! The transitions of a run, for its history and for notifications.

use jiff::Timestamp;

use crate::notify;
use wavegate_api::Time;
use wavegate_api::run::{RolloutRunStatus, RunPhase, SkipRequest, TimelineEntry};
use wavegate_api::time::stored_time;

/// How many are kept.
const KEPT: usize = 50;

/// A transition to record.
#[derive(Clone, Debug, Default)]
pub(super) struct Transition {
    pub what: &'static str,
    pub subject: String,
    pub by: String,
    pub message: String,
}

/// Adds a transition.
pub(super) fn add(status: &mut RolloutRunStatus, transition: Transition, now: Timestamp) {
    let Transition { what, subject, by, message } = transition;
    status.transitions = notify::transition_count(status) + 1;
    status.timeline.push(TimelineEntry {
        at: Some(Time(stored_time(now))),
        what: what.to_owned(),
        subject,
        by,
        message: message.chars().take(300).collect(),
        ..TimelineEntry::default()
    });
    let surplus = status.timeline.len().saturating_sub(KEPT);
    status.timeline.drain(..surplus);
}

/// Who has asked for what, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Requesters<'a> {
    pub skips: &'a [SkipRequest],
    /// The program that set the names to skip, where they are not by one of the requests.
    pub skip_manager: Option<&'a str>,
    /// The names that are skipped.
    pub skip: &'a [String],
    /// Whether the set is paused: a run may also end while it is.
    pub is_paused: bool,
    /// Who has paused the set, while it is paused by a person.
    pub paused_by: Option<&'a str>,
    /// Who has resumed it, while it is not.
    pub resumed_by: Option<&'a str>,
}

impl Requesters<'_> {
    /// Who has skipped an Application last, or taken it in again.
    fn of_skip(&self, application: &str, undo: bool) -> String {
        if let Some(manager) = self.skip_manager {
            return manager.to_owned();
        }
        let is_about = |one: &&SkipRequest| {
            one.undo == undo && one.applications.iter().any(|name| name == application)
        };
        let last = self.skips.iter().rev().find(is_about);
        last.map(|one| one.by.clone()).unwrap_or_default()
    }
}

/// Adds what differs between two states of a run. `is_well`: whether an Application is Healthy for
/// its target.
pub(super) fn compare(
    old: &RolloutRunStatus,
    new: &mut RolloutRunStatus,
    requesters: Requesters<'_>,
    is_well: impl Fn(&str) -> bool,
    now: Timestamp,
) {
    let mut found = Vec::new();
    for (number, step) in new.steps.iter().enumerate() {
        let before = old.steps.get(number);
        let subject = (number + 1).to_string();
        let was = |of: fn(&wavegate_api::run::RunStep) -> bool| before.is_some_and(of);
        if step.opened_at.is_some() && !was(|step| step.opened_at.is_some()) {
            let what = "StepOpened";
            found.push(Transition { what, subject: subject.clone(), ..Transition::default() });
        }
        if step.completed_at.is_some() && !was(|step| step.completed_at.is_some()) {
            let what = "StepCompleted";
            found.push(Transition { what, subject, ..Transition::default() });
        }
    }
    for gate in &new.gates {
        let before =
            old.gates.iter().find(|one| one.name == gate.name && one.policy == gate.policy);
        let given = before.map(|gate| gate.approved_by.as_slice()).unwrap_or_default();
        // One that counts again was said already, unless it was said to be void.
        let is_said = |by: &str| {
            let words = ["GateApproved", "ApprovalVoid"];
            let of_gate = |entry: &&TimelineEntry| {
                entry.subject == gate.name && entry.by == by && words.contains(&&*entry.what)
            };
            let last = old.timeline.iter().rev().find(of_gate);
            last.is_some_and(|last| last.what == "GateApproved")
        };
        for by in gate.approved_by.iter().filter(|by| !given.contains(by) && !is_said(by)) {
            let (what, subject) = ("GateApproved", gate.name.clone());
            found.push(Transition { what, subject, by: by.clone(), ..Transition::default() });
        }
        let known = before.map(|gate| gate.void.as_slice()).unwrap_or_default();
        for by in gate.void.iter().filter(|by| !known.contains(by)) {
            let message = "the approval was for other targets".to_owned();
            let (what, subject) = ("ApprovalVoid", gate.name.clone());
            found.push(Transition { what, subject, by: by.clone(), message });
        }
        let soaked = before.filter(|gate| !gate.is_open());
        let soaked = soaked.and_then(|gate| gate.soaking_since.as_ref());
        let goes_on = !new.phase.has_ended() && new.phase != RunPhase::RollingBack;
        if let Some(since) = soaked.filter(|_| goes_on && !gate.is_open())
            && gate.soaking_since.as_ref().is_none_or(|now| now.0 > since.0)
        {
            let (what, subject) = ("SoakRestarted", gate.name.clone());
            let message = "an Application of the earlier steps is not Healthy any more".to_owned();
            found.push(Transition { what, subject, message, ..Transition::default() });
        }
        if gate.is_open() && before.is_none_or(|gate| !gate.is_open()) {
            let (what, subject) = ("GateOpened", gate.name.clone());
            found.push(Transition { what, subject, ..Transition::default() });
        }
    }
    for failure in &new.failures {
        if !old.failures.iter().any(|known| known.signature == failure.signature) {
            let subject = failure.applications.first().cloned().unwrap_or_default();
            let (what, message) = ("Failed", failure.message.clone());
            found.push(Transition { what, subject, message, ..Transition::default() });
        }
    }
    for failure in &old.failures {
        let is_over = !new.failures.iter().any(|known| known.signature == failure.signature);
        if is_over && failure.applications.iter().all(|name| is_well(name)) {
            let subject = failure.applications.first().cloned().unwrap_or_default();
            let message = match failure.count {
                ..=1 => String::new(),
                count => format!("so have all {count} that failed in this way"),
            };
            let what = "Recovered";
            found.push(Transition { what, subject, message, ..Transition::default() });
        }
    }
    for skipped in new.skipped.iter().filter(|name| !old.skipped.contains(name)) {
        let (what, subject) = ("Skipped", skipped.clone());
        let by = requesters.of_skip(skipped, false);
        found.push(Transition { what, subject, by, ..Transition::default() });
    }
    // One that is gone, or that a list of names had no place for, is not taken in again.
    let is_taken_in =
        |name: &&String| !new.skipped.contains(name) && !requesters.skip.contains(name);
    for name in old.skipped.iter().filter(is_taken_in) {
        let by = requesters.of_skip(name, true);
        found.push(Transition {
            what: "Unskipped",
            subject: name.clone(),
            by,
            ..Transition::default()
        });
    }
    for message in new.without_effect.iter().filter(|text| !old.without_effect.contains(text)) {
        let (what, message) = ("WithoutEffect", message.clone());
        found.push(Transition { what, message, ..Transition::default() });
    }
    let (is_paused, was_paused) = (new.phase == RunPhase::Paused, old.phase == RunPhase::Paused);
    if was_paused && !requesters.is_paused {
        let by = requesters.resumed_by.unwrap_or_default().to_owned();
        found.push(Transition { what: "Resumed", by, ..Transition::default() });
    }
    if new.phase != old.phase || old.started_at.is_none() {
        let what = new.phase.as_str();
        let by = match is_paused {
            true => requesters.paused_by.unwrap_or_default().to_owned(),
            false => new.ended_by.clone(),
        };
        let message = new.message.clone();
        found.push(Transition { what, by, message, ..Transition::default() });
    }
    for transition in found {
        add(new, transition, now);
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use serde_json::{Value, json};

    use super::*;
    use wavegate_api::read_leniently;

    const AT: &str = "2026-01-01T00:00:00Z";
    const LATER: &str = "2026-01-01T00:00:05Z";

    fn nobody<'a>() -> Requesters<'a> {
        Requesters {
            skips: &[],
            skip_manager: None,
            skip: &[],
            is_paused: false,
            paused_by: None,
            resumed_by: None,
        }
    }

    /// A status that has begun, with these fields.
    fn status(fields: &Value) -> RolloutRunStatus {
        let mut all = json!({"phase": "Progressing", "startedAt": AT});
        json_patch::merge(&mut all, fields);
        read_leniently(&all)
    }

    fn words(status: &RolloutRunStatus) -> Vec<String> {
        let line = |entry: &TimelineEntry| {
            let TimelineEntry { what, subject, by, message, .. } = entry;
            [what, subject, by, message].map(String::as_str).join("|")
        };
        status.timeline.iter().map(line).collect()
    }

    /// What is recorded between two states; a timeline that is in the old one comes first.
    fn recorded(old: &Value, new: &Value, requesters: Requesters<'_>) -> Vec<String> {
        let (old, mut new) = (status(old), status(new));
        let known = new.timeline.len();
        compare(&old, &mut new, requesters, |name| name.starts_with("well"), Timestamp::UNIX_EPOCH);
        words(&new).split_off(known)
    }

    /// Each change of a step, a gate, a failure or a name is recorded once.
    #[test]
    fn what_differs_is_recorded_once() {
        let steps = |steps: Value| json!({"steps": steps});
        let gate = |mut fields: Value| {
            fields["name"] = "g".into();
            json!({"gates": [fields]})
        };
        let failed = |signature: &str, count: i64, applications: &[&str]| {
            json!({"failures": [{"signature": signature, "count": count,
                "applications": applications, "message": "m"}]})
        };
        let none = json!({});
        let open = || gate(json!({"openedAt": AT}));
        let soaking = |since: &str| gate(json!({"soakingSince": since}));
        let ended = |mut fields: Value, phase: &str| {
            fields["phase"] = phase.into();
            fields
        };
        let restarted =
            "SoakRestarted|g||an Application of the earlier steps is not Healthy any more";
        let void = "ApprovalVoid|g|ann|the approval was for other targets";
        for (name, old, new, want) in [
            ("nothing", none.clone(), none.clone(), vec![]),
            ("a step", none.clone(), steps(json!([{"openedAt": AT}])), vec!["StepOpened|1||"]),
            (
                "a step that is done",
                steps(json!([{"openedAt": AT}])),
                steps(json!([{"openedAt": AT, "completedAt": AT}, {"openedAt": AT}])),
                vec!["StepCompleted|1||", "StepOpened|2||"],
            ),
            (
                "the same steps",
                steps(json!([{"openedAt": AT, "completedAt": AT}])),
                steps(json!([{"openedAt": LATER, "completedAt": LATER}])),
                vec![],
            ),
            (
                "an approval",
                gate(json!({})),
                gate(json!({"approvedBy": ["ann"]})),
                vec!["GateApproved|g|ann|"],
            ),
            (
                "another one",
                gate(json!({"approvedBy": ["ann"]})),
                gate(json!({"approvedBy": ["ann", "bob"]})),
                vec!["GateApproved|g|bob|"],
            ),
            (
                "a void one",
                gate(json!({"approvedBy": ["ann"]})),
                gate(json!({"void": ["ann"]})),
                vec![void],
            ),
            ("void still", gate(json!({"void": ["ann"]})), gate(json!({"void": ["ann"]})), vec![]),
            (
                "of another policy",
                gate(json!({"approvedBy": ["ann"], "policy": "p"})),
                gate(json!({"approvedBy": ["ann"], "policy": "q"})),
                vec!["GateApproved|g|ann|"],
            ),
            ("a gate opens", gate(json!({})), open(), vec!["GateOpened|g||"]),
            ("a new gate is open", none.clone(), open(), vec!["GateOpened|g||"]),
            ("open still", open(), open(), vec![]),
            ("a soak begins", gate(json!({})), soaking(AT), vec![]),
            ("a soak goes on", soaking(AT), soaking(AT), vec![]),
            ("a soak begins again", soaking(AT), soaking(LATER), vec![restarted]),
            ("a soak ends", soaking(AT), gate(json!({})), vec![restarted]),
            ("a soak ends well", soaking(AT), open(), vec!["GateOpened|g||"]),
            (
                "as the gate was open",
                gate(json!({"openedAt": AT, "soakingSince": AT})),
                gate(json!({})),
                vec![],
            ),
            (
                "the run ends",
                ended(soaking(AT), "Superseded"),
                ended(gate(json!({})), "Superseded"),
                vec![],
            ),
            (
                "the run rolls back",
                ended(soaking(AT), "RollingBack"),
                ended(gate(json!({})), "RollingBack"),
                vec![],
            ),
            ("a failure", none.clone(), failed("s", 1, &["a", "b"]), vec!["Failed|a||m"]),
            ("the same one", failed("s", 1, &["a"]), failed("s", 2, &["b"]), vec![]),
            ("another one", failed("s", 1, &["a"]), failed("t", 1, &["a"]), vec!["Failed|a||m"]),
            ("over", failed("s", 1, &["well-a"]), none.clone(), vec!["Recovered|well-a||"]),
            (
                "several are over",
                failed("s", 2, &["well-a", "well-b"]),
                none.clone(),
                vec!["Recovered|well-a||so have all 2 that failed in this way"],
            ),
            ("not all are over", failed("s", 2, &["well-a", "b"]), none.clone(), vec![]),
            ("skipped", none.clone(), json!({"skipped": ["a"]}), vec!["Skipped|a||"]),
            ("skipped still", json!({"skipped": ["a"]}), json!({"skipped": ["a"]}), vec![]),
            ("taken in", json!({"skipped": ["a"]}), none.clone(), vec!["Unskipped|a||"]),
            (
                "without effect",
                none.clone(),
                json!({"withoutEffect": ["x"]}),
                vec!["WithoutEffect|||x"],
            ),
            ("the same", json!({"withoutEffect": ["x"]}), json!({"withoutEffect": ["x"]}), vec![]),
            (
                "another phase",
                none.clone(),
                json!({"phase": "Complete", "message": "m", "endedBy": "e"}),
                vec!["Complete||e|m"],
            ),
            ("the first state", json!({"startedAt": null}), none, vec!["Progressing|||"]),
        ] {
            assert_eq!(recorded(&old, &new, nobody()), want, "{name}");
        }
    }

    /// An approval that counts again is not recorded again, unless it was void in between.
    #[test]
    fn an_approval_that_counts_again_is_recorded_once() {
        let approved = json!({"gates": [{"name": "g", "approvedBy": ["ann"]}]});
        let entry = |what: &str, subject: &str, by: &str| json!({"what": what, "subject": subject, "by": by, "at": AT});
        let said = || entry("GateApproved", "g", "ann");
        for (name, timeline, want) in [
            ("recorded", json!([said()]), 0),
            ("not recorded", json!([]), 1),
            ("void since", json!([said(), entry("ApprovalVoid", "g", "ann")]), 1),
            ("given again", json!([said(), entry("ApprovalVoid", "g", "ann"), said()]), 0),
            ("of another gate", json!([entry("GateApproved", "h", "ann")]), 1),
            ("of another person", json!([entry("GateApproved", "g", "bob")]), 1),
            ("something else since", json!([said(), entry("Skipped", "g", "ann")]), 0),
        ] {
            let old = json!({"timeline": timeline});
            assert_eq!(recorded(&old, &approved, nobody()).len(), want, "{name}");
        }
    }

    /// Who paused, resumed, skipped and took in, as far as it is known.
    #[test]
    fn transitions_name_who_asked_for_them() {
        let request = |by: &str, applications: &[&str], undo: bool| SkipRequest {
            by: by.to_owned(),
            at: None,
            applications: applications.iter().map(|&name| name.to_owned()).collect(),
            undo,
        };
        let skips = [
            request("ann", &["a"], false),
            request("bob", &["b", "a"], false),
            request("cat", &["a"], true),
            request("dan", &["c"], false),
        ];
        let asked = Requesters { skips: &skips, ..nobody() };
        let skipped = json!({"skipped": ["a"]});
        let none = json!({});
        assert_eq!(recorded(&none, &skipped, asked), ["Skipped|a|bob|"]);
        assert_eq!(recorded(&skipped, &none, asked), ["Unskipped|a|cat|"]);
        assert_eq!(recorded(&none, &json!({"skipped": ["z"]}), asked), ["Skipped|z||"]);
        let by_program = Requesters { skip_manager: Some("argo"), ..asked };
        assert_eq!(recorded(&none, &skipped, by_program), ["Skipped|a|argo|"]);
        let still = ["a".to_owned()];
        let asked = Requesters { skip: &still, ..asked };
        assert_eq!(recorded(&skipped, &none, asked), [] as [&str; 0]);

        let paused = json!({"phase": "Paused", "endedBy": "x"});
        let by = Requesters { paused_by: Some("ann"), resumed_by: Some("bob"), ..nobody() };
        assert_eq!(
            recorded(&none, &paused, Requesters { is_paused: true, ..by }),
            ["Paused||ann|"]
        );
        assert_eq!(recorded(&paused, &none, by), ["Resumed||bob|", "Progressing|||"]);
        // It ends while it is paused.
        let ended = json!({"phase": "Aborted", "endedBy": "cat"});
        let still = Requesters { is_paused: true, ..by };
        assert_eq!(recorded(&paused, &ended, still), ["Aborted||cat|"]);
        assert_eq!(recorded(&none, &ended, by), ["Aborted||cat|"]);
    }

    /// The last ones are kept, all are counted, and a long message is shortened.
    #[test]
    fn the_last_transitions_are_kept() {
        let mut status = RolloutRunStatus::default();
        for number in 0..60_i64 {
            let transition = Transition {
                subject: number.to_string(),
                message: "m".repeat(400),
                ..Transition::default()
            };
            add(&mut status, transition, Timestamp::UNIX_EPOCH + SignedDuration::from_secs(number));
        }
        let subjects: Vec<&str> = status.timeline.iter().map(|one| one.subject.as_str()).collect();
        assert_eq!((subjects.len(), subjects[0], subjects[KEPT - 1]), (KEPT, "10", "59"));
        assert_eq!(status.transitions, 60);
        assert!(status.timeline.iter().all(|one| one.message.len() == 300 && one.at.is_some()));
    }
}
