//! When a new status is written: at once where it records a decision, at most
//! once per second where it only informs.
//!
//! Each Application that syncs changes its sync status, health and message
//! several times. A status of a large set is hundreds of kilobytes, so writing
//! each of these changes costs the API server more than the rollout itself.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::stored::Status;
use crate::decide::rollout::phase::Entry;

/// The least time between two status writes that only inform.
pub const INFORM_EVERY: SignedDuration = SignedDuration::from_secs(1);

/// Fields of `status.rollout` that only inform.
const TEXTS: [&str; 2] = ["message", "waitingFor"];

/// When the status may be written at the earliest; `None` means now. `written_at` is
/// when this controller wrote the status last.
pub fn due_at(
    old: &Status,
    new: &Status,
    written_at: Option<Timestamp>,
    now: Timestamp,
) -> Option<Timestamp> {
    let due = written_at?.checked_add(INFORM_EVERY).ok()?;
    // A clock that was set back must not delay a status for longer.
    let is_early = due > now && written_at <= Some(now);
    (is_early && old != new && only_informs(old, new)).then_some(due)
}

/// Whether only what people read differs: sync status and health of Applications,
/// messages, and what the rollout is waiting for.
fn only_informs(old: &Status, new: &Status) -> bool {
    let is_exact =
        |status: &Status| status.exists && status.entries_are_exact && status.resources_are_exact;
    let same_resources = old.resources.len() == new.resources.len()
        && old.resources.iter().zip(&new.resources).all(|(old, new)| old.name == new.name);
    is_exact(old)
        && is_exact(new)
        && old.conditions == new.conditions
        && old.health == new.health
        && old.resources_count == new.resources_count
        && same_resources
        && same_entries(old.entries.as_deref(), new.entries.as_deref())
        && same_rollout(&old.rollout, &new.rollout)
}

fn same_entries(old: Option<&[Entry]>, new: Option<&[Entry]>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return old.is_none() && new.is_none() };
    let same = |(old, new): (&Entry, &Entry)| {
        // A message that carries a mark is part of the state; the mark is compared.
        let Entry { application, phase, step, message: _, mark, target_revisions, since } = old;
        (application, phase, step, mark, target_revisions, since)
            == (
                &new.application,
                &new.phase,
                &new.step,
                &new.mark,
                &new.target_revisions,
                &new.since,
            )
    };
    old.len() == new.len() && old.iter().zip(new).all(same)
}

fn same_rollout(old: &Value, new: &Value) -> bool {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return old == new };
    let fields = |fields: &serde_json::Map<String, Value>| {
        let kept = fields.iter().filter(|(field, _)| !TEXTS.contains(&field.as_str()));
        kept.map(|(field, value)| (field.clone(), value.clone())).collect::<Vec<_>>()
    };
    fields(old) == fields(new)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(change: impl FnOnce(&mut Value)) -> Status {
        let mut status = json!({
            "conditions": [{"type": "RolloutProgressing", "status": "True"}],
            "applicationStatus": [{
                "application": "a", "lastTransitionTime": "2026-01-02T03:04:05Z",
                "message": "m", "status": "Pending", "step": "1", "targetRevisions": ["r"],
            }],
            "resources": [{
                "group": "argoproj.io", "version": "v1alpha1", "kind": "Application",
                "namespace": "ns", "name": "a", "health": {"status": "Progressing"},
            }],
            "resourcesCount": 1,
            "rollout": {"step": 1, "steps": 2, "progress": "0/1", "message": "x"},
        });
        change(&mut status);
        Status::read(&status)
    }

    #[test]
    fn what_only_informs_waits_for_a_second_and_all_else_is_written_at_once() {
        let now: Timestamp = "2026-01-02T03:04:10Z".parse().unwrap();
        let cases: [(&str, bool, fn(&mut Value)); 10] = [
            ("health", true, |s| s["resources"][0]["health"]["status"] = "Healthy".into()),
            ("message of an entry", true, |s| s["applicationStatus"][0]["message"] = "n".into()),
            ("message of the rollout", true, |s| s["rollout"]["message"] = "y".into()),
            ("waits", true, |s| s["rollout"]["waitingFor"] = json!([{"application": "a"}])),
            ("phase", false, |s| s["applicationStatus"][0]["status"] = "Healthy".into()),
            ("no entry", false, |s| s["applicationStatus"] = json!([])),
            ("step", false, |s| s["rollout"]["step"] = 2.into()),
            ("stalled", false, |s| s["rollout"]["stalled"] = json!([])),
            ("condition", false, |s| s["conditions"][0]["status"] = "False".into()),
            ("another Application", false, |s| s["resources"][0]["name"] = "b".into()),
        ];
        let old = status(|_| {});
        let before = |seconds| now.checked_sub(SignedDuration::from_millis(seconds)).unwrap();
        for (name, waits, change) in cases {
            let new = status(change);
            let due = due_at(&old, &new, Some(before(400)), now);
            let want = waits.then(|| before(400).checked_add(INFORM_EVERY).unwrap());
            assert_eq!(due, want, "{name}");
            assert_eq!(due_at(&old, &new, Some(before(1000)), now), None, "{name}: a second later");
            assert_eq!(due_at(&old, &new, None, now), None, "{name}: after a start");
            assert_eq!(
                due_at(&old, &new, Some(before(-5000)), now),
                None,
                "{name}: clock set back"
            );
        }
        assert_eq!(due_at(&old, &old, Some(before(400)), now), None, "nothing to write");
    }
}
