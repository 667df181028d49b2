//! Where the summary of a rollout is stored: in `status.rollout`, or in a condition
//! where the installed definition has no such field.
//!
//! Argo CD's definition of ApplicationSets knows nothing of `status.rollout`, so that
//! the API server removes it from what is written. Limits and order follow from the
//! entries, which every definition keeps. But the open step and its start, the stalls
//! that were reported, and the number of listed entries (`rollout/listed.rs`) must
//! be stored together with the entries: the same write has to hold them. A condition is
//! the only place for that: annotations cannot be written with a status.
//!
//! The answer of the API server decides: when it lacks what was written, the summary is
//! written again, to the condition (`Status::where_it_is_kept`). From then on it is read
//! from there, and the field is only written together with other changes, so that it takes
//! over again when the definition is replaced.

use std::borrow::Cow;

use serde_json::{Value, json};

use wavegate_api::application_set::{
    ApplicationSetCondition, ApplicationSetSummary, RolloutStatus,
};
use wavegate_api::conditions::application_set::{ROLLOUT_STATUS, reason};
use wavegate_api::{Raw, read_leniently};

/// The start of the message of the condition; the summary as JSON follows.
const PREFIX: &str = "the definition of ApplicationSets in this cluster has no field status.rollout, so it is \
                      stored here: ";

/// How the summary is stored. It is not part of what a status says: statuses that differ in
/// nothing else are equal.
#[derive(Clone, Debug, Default)]
pub struct Storage {
    place: Place,
    /// The condition as stored.
    condition: Option<ApplicationSetCondition>,
    /// `status.rollout` as stored, if the summary is in the condition.
    field: Option<RolloutStatus>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Field,
    Condition,
}

impl PartialEq for Storage {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Storage {
    /// Takes the condition with the summary from the conditions. Returns the summary, from
    /// the condition unless the field says the same, and how it is stored.
    pub(in crate::application_set) fn take(
        conditions: &mut Vec<ApplicationSetCondition>,
        field: Option<RolloutStatus>,
    ) -> (Option<RolloutStatus>, Self) {
        let at = conditions.iter().position(|condition| condition.type_ == ROLLOUT_STATUS);
        let condition = at.map(|at| conditions.remove(at));
        match condition.as_ref().and_then(parse) {
            Some(kept) if decisive(Some(&kept)) != decisive(field.as_ref()) => {
                (Some(kept), Self { place: Place::Condition, condition, field })
            }
            Some(_) | None => (field, Self { place: Place::Field, condition, field: None }),
        }
    }

    /// The condition as it is stored.
    pub fn condition(&self) -> Option<&ApplicationSetCondition> {
        self.condition.as_ref()
    }

    /// The condition to store this summary in; `None` when the field is kept.
    pub fn condition_of(&self, rollout: Option<&RolloutStatus>) -> Option<ApplicationSetCondition> {
        let rollout = rollout.filter(|_| self.place == Place::Condition)?;
        Some(ApplicationSetCondition {
            type_: ROLLOUT_STATUS.to_owned(),
            status: "True".to_owned(),
            reason: reason::FIELD_NOT_DEFINED.to_owned(),
            message: format!("{PREFIX}{}", json!(rollout)),
            last_transition_time: rollout.started_at.clone(),
            extra: self.condition.as_ref().map(|old| old.extra.clone()).unwrap_or_default(),
        })
    }

    /// `status.rollout` as it is stored for this summary.
    pub fn field<'a>(&'a self, rollout: &'a Option<RolloutStatus>) -> &'a Option<RolloutStatus> {
        match self.place {
            Place::Field => rollout,
            Place::Condition => &self.field,
        }
    }

    /// Whether the field is written together with other changes only.
    pub fn only_offers(&self) -> bool {
        self.place == Place::Condition
    }

    /// How this summary is stored instead when the API server stored another one; `None` when
    /// it is stored.
    pub(in crate::application_set) fn elsewhere(
        &self,
        rollout: Option<&RolloutStatus>,
        stored: Option<&RolloutStatus>,
    ) -> Option<Self> {
        let is_lost = self.place == Place::Field
            && rollout.is_some()
            && decisive(rollout) != decisive(stored);
        is_lost.then(|| Self { place: Place::Condition, ..Self::default() })
    }
}

/// A raw set with the summary of its rollout in `status.rollout`, wherever it is stored.
pub fn with_rollout(set: &Value) -> Cow<'_, Value> {
    let is_kept = |one: &Value| one.field("type") == ROLLOUT_STATUS;
    if !set.items("/status/conditions").iter().any(is_kept) {
        return Cow::Borrowed(set);
    }
    let mut set = set.clone();
    if let Some(Value::Object(status)) = set.get_mut("status") {
        let summary: ApplicationSetSummary = read_leniently(&Value::Object(status.clone()));
        let mut conditions = summary.conditions;
        let (rollout, _) = Storage::take(&mut conditions, summary.rollout);
        status.insert("rollout".to_owned(), json!(rollout));
        if let Some(Value::Array(conditions)) = status.get_mut("conditions") {
            conditions.retain(|one| !is_kept(one));
        }
    }
    Cow::Owned(set)
}

fn parse(condition: &ApplicationSetCondition) -> Option<RolloutStatus> {
    let summary = condition.message.strip_prefix(PREFIX)?;
    let summary: Value = serde_json::from_str(summary).ok().filter(Value::is_object)?;
    Some(read_leniently(&summary))
}

/// What the next decision depends on; the rest is only shown.
fn decisive(rollout: Option<&RolloutStatus>) -> Option<RolloutStatus> {
    let RolloutStatus { step, step_opened_at, started_at, listed, stalled, .. } = rollout?.clone();
    Some(RolloutStatus {
        step,
        step_opened_at,
        started_at,
        listed,
        stalled,
        ..RolloutStatus::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::application_set::status::stored::Status;

    fn rollout(step: u64) -> Value {
        json!({
            "step": step, "steps": 3, "progress": "1/3", "message": "m", "waitingFor": [],
            "startedAt": "2026-01-02T03:04:05Z", "stepOpenedAt": "2026-01-02T03:04:06Z",
        })
    }

    fn summary(step: u64) -> Option<RolloutStatus> {
        Some(read_leniently(&rollout(step)))
    }

    fn wanted(step: u64) -> Status {
        Status { exists: true, rollout: summary(step), ..Status::default() }
    }

    /// What the API server stores under Argo CD's definition.
    fn pruned(status: &Status) -> Value {
        let mut stored = status.to_json();
        stored.as_object_mut().unwrap().remove("rollout");
        stored
    }

    #[test]
    fn a_summary_that_is_pruned_goes_to_a_condition_and_is_read_from_there() {
        let first = wanted(1);
        let answer = Status::read(&pruned(&first));
        assert_eq!(answer.rollout, None);
        let second = first.where_it_is_kept(&answer).unwrap();
        assert_eq!(second.to_json()["conditions"][0]["type"], ROLLOUT_STATUS);
        let stored = Status::read(&pruned(&second));
        assert_eq!(stored.rollout, summary(1));
        assert_eq!(stored.conditions, [], "decisions do not see it");
        let condition = stored.storage.condition().unwrap();
        assert_eq!((condition.type_.as_str(), condition.status.as_str()), (ROLLOUT_STATUS, "True"));
        assert_eq!(second.where_it_is_kept(&stored), None, "it is not tried for ever");
        // Also after a restart, and for readers of the raw status.
        let set = json!({"status": pruned(&stored)});
        assert_eq!(with_rollout(&set)["status"]["rollout"], rollout(1));
        assert_eq!(with_rollout(&set)["status"]["conditions"], json!([]));
        assert_eq!(Status::read(&pruned(&stored)), stored);
    }

    #[test]
    fn a_summary_that_is_kept_stays_in_its_field() {
        let first = wanted(1);
        let answer = Status::read(&first.to_json());
        assert_eq!(first.where_it_is_kept(&answer), None);
        assert_eq!(answer.storage.condition(), None);
        assert_eq!(answer.to_json()["conditions"], json!([]));
    }

    #[test]
    fn the_field_takes_over_when_the_definition_knows_it() {
        let lost = Status::read(&pruned(&wanted(1)));
        let kept = Status::read(&pruned(&wanted(1).where_it_is_kept(&lost).unwrap()));
        let mut offered = kept.to_json();
        offered["rollout"] = rollout(1);
        let both = Status::read(&offered);
        assert_eq!(both.rollout, summary(1));
        assert_eq!(both.storage.condition_of(both.rollout.as_ref()), None);
        assert!(both.storage.condition().is_some(), "it is there to be removed");
    }

    #[test]
    fn a_definition_that_knows_a_part_only_is_like_one_that_knows_nothing() {
        let mut part = wanted(2).to_json();
        part["rollout"].as_object_mut().unwrap().remove("stepOpenedAt");
        let answer = Status::read(&part);
        let second = wanted(2).where_it_is_kept(&answer).unwrap();
        let mut stored = second.to_json();
        stored["rollout"] = part["rollout"].clone();
        let read = Status::read(&stored);
        assert_eq!(read.rollout, summary(2));
        assert!(read.storage.only_offers());
    }

    #[test]
    fn a_condition_that_cannot_be_read_is_none() {
        let conditions = json!([{"type": ROLLOUT_STATUS, "message": format!("{PREFIX}[")}]);
        let read = Status::read(&json!({"conditions": conditions, "rollout": rollout(1)}));
        assert_eq!(read.rollout, summary(1));
        let set = json!({"status": {"conditions": conditions}});
        assert_eq!(with_rollout(&set)["status"]["rollout"], Value::Null);
        assert_eq!(*with_rollout(&json!({})), json!({}));
    }
}
