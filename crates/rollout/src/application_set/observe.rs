//! What is kept of an existing Application: what a rollout observes, and what
//! to write. Read once per version of the raw object.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::generated::Generated;
use super::owner::{self, Identity, Owner, Takeover};
use super::update::{Comparison, Rules, Update};
use super::validate::Target;
use super::{autosync, person, record, started};
use crate::rollout::listed::Record;
use crate::rollout::phase::{
    Compared, Deployed, Observed, ObservedOperation, RequestedOperation, SourceKey,
};
use crate::rollout::steer::started::Started;
use wavegate_api::annotations::{REFRESH, RESOURCES_FINALIZER, annotation, finalizers, is_skipped};
use wavegate_api::conditions::application as condition;
use wavegate_api::sources::{InEffect, revisions};
use wavegate_api::time::of_field as time;
use wavegate_api::{HealthStatus, OperationPhase, SyncStatusCode};
use wavegate_application::deployed;
use wavegate_application::normalize;
use wavegate_application::operation::is_full;
use wavegate_engine::blocking_resource::{self, Blocking};
use wavegate_engine::promotion::promotion_of;
use wavegate_engine::windows;

/// An existing Application that a set owns or generates.
#[derive(Clone, Debug)]
pub struct Existing {
    /// Its name.
    pub name: Box<str>,
    /// Its UID.
    pub uid: Box<str>,
    /// The resource version that this was read from.
    pub version: Box<str>,
    /// Whether it is being deleted.
    pub is_going: bool,
    /// Its owner.
    pub owner: Owner,
    /// Whether a refresh is requested.
    pub is_refreshing: bool,
    /// Whether an annotation of its own excludes it from reconciling.
    pub is_skipped: bool,
    /// Whether its operation is running: then it is withdrawn by a different
    /// write.
    pub is_running: bool,
    /// What to write.
    pub update: Update,
    /// What a rollout observes.
    pub observed: Observed,
    /// Its rollout record.
    pub record: Option<Box<Record>>,
    /// The run that started it last.
    pub started: Option<Box<Started>>,
    /// The revisions of its last deployment, if nothing but they differ since.
    pub deployed: Option<Vec<String>>,
    /// `status.sync.status`.
    pub sync: Option<Box<str>>,
    /// `status.health`: status and message.
    pub health: Option<(Box<str>, Option<Box<str>>)>,
    /// The resource that it waits for, as `group/Kind namespace/name`.
    pub blocking_resource: Option<Box<str>>,
    /// The merge patch that protects it from garbage collection, if the policy forbids
    /// deletion and it is not protected.
    pub guard: Option<Box<str>>,
    /// How to take it over from the set that owns it.
    pub takeover: Option<Box<Takeover>>,
    /// The finalizer for its resources, if it has that and is no longer generated.
    pub held: Option<Box<HeldResources>>,
}

/// A finalizer that keeps an Application until its resources are deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldResources {
    /// The cluster of the resources.
    pub target: Target,
    /// The merge patch that removes only this finalizer.
    pub release: Box<str>,
}

impl HeldResources {
    fn read(live: &Value) -> Option<Self> {
        let metadata = &live["metadata"];
        let (own, others): (Vec<&str>, Vec<&str>) =
            finalizers(live).partition(|finalizer| *finalizer == RESOURCES_FINALIZER);
        let version = &metadata["resourceVersion"];
        let release = json!({ "metadata": { "finalizers": others, "resourceVersion": version } });
        (!own.is_empty())
            .then(|| Self { target: Target::of(live), release: release.to_string().into() })
    }
}

impl Existing {
    /// Reads an Application; `None` when the set neither owns nor generates it.
    pub fn related(live: &Value, set: &Identity, generated: &Generated) -> Option<Self> {
        let wanted = generated.get(crate::desired::name_of(live));
        let written = wanted.map(|wanted| wanted.written(generated.has_steps));
        let existing = Self::read(live, written.as_ref(), &Rules::of(set, generated));
        (wanted.is_some() || existing.is_owned()).then_some(existing)
    }

    /// Reads an Application. `wanted` is the generated one, adapted to the
    /// strategy; `None` when it is not generated.
    pub fn read(live: &Value, wanted: Option<&Value>, rules: &Rules<'_>) -> Self {
        let (metadata, status) = (&live["metadata"], &live["status"]);
        let text = |value: &Value| value.as_str().map(Box::<str>::from);
        let owner = Owner::of(live, rules.set);
        let is_going = !metadata["deletionTimestamp"].is_null();
        let compared = wanted.map(|wanted| Comparison::of(live, wanted, &owner, rules));
        let spec_differs = compared.as_ref().is_some_and(|compared| compared.spec_differs);
        // One that is no longer generated, but stays.
        let left = || {
            let stays = owner == Owner::Set && !rules.policy.deletes();
            stays.then(|| Comparison::guarding(live, rules))
        };
        let update = compared.map(|compared| compared.update).or_else(left);
        let update = update.filter(|_| !is_going);
        Self {
            name: text(&metadata["name"]).unwrap_or_default(),
            uid: text(&metadata["uid"]).unwrap_or_default(),
            version: text(&metadata["resourceVersion"]).unwrap_or_default(),
            is_going,
            is_refreshing: annotation(live, REFRESH).is_some(),
            is_skipped: is_skipped(live),
            is_running: status["operationState"]["phase"] == "Running",
            observed: observe(live, spec_differs),
            update: update.unwrap_or(Update::None),
            record: record::read(live).map(Box::new),
            started: started::read(live).map(Box::new),
            deployed: deployed::deployed(live),
            sync: text(&status["sync"]["status"]),
            health: text(&status["health"]["status"])
                .map(|health| (health, text(&status["health"]["message"]))),
            blocking_resource: blocking_resource::of(live)
                .resource
                .map(|resource| resource.key().to_string().into()),
            guard: (owner == Owner::Set && !is_going && !rules.policy.deletes())
                .then(|| owner::guard(live, rules.set, rules.policy))
                .flatten()
                .map(|guard| guard.to_string().into()),
            held: (wanted.is_none() && owner == Owner::Set && !is_going)
                .then(|| HeldResources::read(live).map(Box::new))
                .flatten(),
            takeover: (wanted.is_some() && !is_going)
                .then(|| owner::takeover(live, rules.set, rules.policy).map(Box::new))
                .flatten(),
            owner,
        }
    }

    /// Whether the set is its controlling owner.
    pub fn is_owned(&self) -> bool {
        self.owner == Owner::Set
    }
}

/// Reads what a rollout observes. `spec_differs`: whether the generated spec is a
/// different one ([`Comparison`]).
///
/// A field of an unexpected type counts as absent: an unknown state is never
/// read as Synced or Healthy.
pub fn observe(live: &Value, spec_differs: bool) -> Observed {
    let status = &live["status"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let has_error = |condition: &Value| {
        let kind = condition["type"].as_str().unwrap_or_default();
        kind == condition::INVALID_SPEC_ERROR || kind == condition::UNKNOWN_ERROR
    };
    let any_error = |found: &Value| condition::is_error(found["type"].as_str().unwrap_or_default());
    let Blocking { resource, reason: detail, until, needs_confirmation, .. } =
        blocking_resource::of(live);
    Observed {
        health: HealthStatus::from_word(status["health"]["status"].as_str().unwrap_or_default()),
        sync: SyncStatusCode::from_word(status["sync"]["status"].as_str().unwrap_or_default()),
        revisions: revisions(&status["sync"]),
        reconciled_at: time(&status["reconciledAt"]),
        compared: compared(live),
        spec_differs,
        requested: live["operation"].is_object().then(|| RequestedOperation {
            promotion: promotion_of(&live["operation"]),
            is_partial: !is_full(&live["operation"]),
        }),
        operation: operation_state(&status["operationState"], text),
        deployed: deployed(live),
        person: person::sync(live, &revisions(&status["sync"])).map(Box::new),
        has_error_condition: conditions.iter().any(has_error),
        has_error: conditions.iter().any(any_error),
        went_back_just_now: started::went_back_just_now(live),
        has_left_its_hold: conditions
            .iter()
            .any(|found| found["type"] == condition::HELD_BACK_OUT_OF_SYNC_WARNING),
        is_automated: autosync::is_enabled(live),
        needs_confirmation,
        needs_a_prune: resource.is_some_and(|resource| resource.needs_a_person_to_prune()),
        detail,
        until,
        sources: sources(&live["spec"]),
    }
}

fn operation_state(state: &Value, text: impl Fn(&Value) -> String) -> Option<ObservedOperation> {
    let phase = OperationPhase::from_word(state["phase"].as_str()?);
    Some(ObservedOperation {
        phase,
        started_at: time(&state["startedAt"]).unwrap_or(Timestamp::UNIX_EPOCH),
        // A failed attempt that is retried has a finish time, too.
        finished_at: time(&state["finishedAt"]).filter(|_| !phase.is_running()),
        promotion: promotion_of(&state["operation"]),
        revisions: revisions(&state["syncResult"]),
        message: text(&state["message"]),
        is_blocked: is_blocked(state),
        is_partial: !is_full(&state["operation"]),
    })
}

/// The last entry of the history, which both engines add after a sync of the whole
/// Application that succeeded (SE-385); not if it is of other sources, such as of another
/// parameter, at the same revision.
fn deployed(live: &Value) -> Deployed {
    if live["spec"]["revisionHistoryLimit"].as_i64().is_some_and(|limit| limit <= 0) {
        return Deployed::NotKept;
    }
    let in_effect = InEffect::of(&live["spec"]);
    let (field, sources) = (in_effect.field, in_effect.value());
    let is_of_spec =
        |last: &&Value| last[field].is_null() || normalize::equal_parts(&sources, &last[field]);
    let last = live["status"]["history"].as_array().and_then(|history| history.last());
    last.filter(is_of_spec)
        .and_then(|last| Some(Deployed::At(time(&last["deployedAt"])?, revisions(last))))
        .unwrap_or(Deployed::Never)
}

/// Whether an operation waits for a sync window and has not applied anything
/// yet. That it waits is read from its message: the syncing controller may be
/// Argo CD's, which reports it nowhere else.
fn is_blocked(state: &Value) -> bool {
    let says_so = state["message"].as_str().is_some_and(|text| text.starts_with(windows::BLOCKED));
    let done = state["syncResult"]["resources"].as_array().is_some_and(|list| !list.is_empty());
    state["phase"] == "Running" && says_so && !done
}

/// Whether the comparison in the status was made for the current spec.
fn compared(live: &Value) -> Compared {
    let (spec, to) = (&live["spec"], &live["status"]["sync"]["comparedTo"]);
    if !to.is_object() {
        return Compared::Never;
    }
    // An Argo CD application controller omits zero values.
    let same = |wanted: &Value, field: &str| normalize::equal_parts(wanted, &to[field]);
    let in_effect = InEffect::of(spec);
    let field = in_effect.field;
    let same_source = same(&in_effect.value(), field);
    let same_rest =
        ["destination", "ignoreDifferences"].iter().all(|field| same(&spec[*field], field));
    if same_source && same_rest { Compared::Current } else { Compared::Stale }
}

fn sources(spec: &Value) -> Vec<SourceKey> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let key = |source: &Value| SourceKey {
        repository: text(&source["repoURL"]).trim_end_matches('/').to_owned(),
        chart: text(&source["chart"]),
        target_revision: match text(&source["targetRevision"]).as_str() {
            "HEAD" => String::new(),
            other => other.to_owned(),
        },
    };
    InEffect::of(spec).list.iter().map(key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_success_counts_for_the_sources_it_was_made_of() {
        let source = |path: &str| json!({"repoURL": "r", "path": path});
        let at = "2026-01-02T03:04:05Z";
        let deployed = |spec: Value, mut last: Value| {
            last["deployedAt"] = at.into();
            last["revision"] = "r1".into();
            deployed(&json!({"spec": spec, "status": {"history": [last]}}))
        };
        let found = Deployed::At(at.parse().unwrap(), vec!["r1".to_owned()]);
        let one = || json!({"source": source("p")});
        let two = || json!({"sources": [source("p"), source("q")]});
        let cases = [
            ("same", one(), one(), &found),
            (
                "zero values",
                one(),
                json!({"source": {"repoURL": "r", "path": "p", "ref": ""}}),
                &found,
            ),
            ("not recorded", one(), json!({}), &found),
            ("another path", one(), json!({"source": source("q")}), &Deployed::Never),
            ("several", two(), two(), &found),
            ("another of several", two(), json!({"sources": [source("p")]}), &Deployed::Never),
        ];
        for (name, spec, last, want) in cases {
            assert_eq!(deployed(spec, last), *want, "{name}");
        }
    }

    #[test]
    fn a_comparison_counts_for_the_spec_it_was_made_of() {
        let source = || json!({"repoURL": "r", "path": "p", "targetRevision": "main"});
        let spec = || json!({"source": source(), "destination": {"name": "c"}});
        let with = |field: &str, value: Value| {
            let mut spec = spec();
            spec[field] = value;
            spec
        };
        let rule = || json!([{"kind": "Deployment", "jsonPointers": ["/spec/replicas"]}]);
        let hydrated = json!({
            "sourceHydrator": {
                "drySource": {"repoURL": "r", "path": "dry", "targetRevision": "HEAD"},
                "syncSource": {"targetBranch": "main", "path": "p"},
            },
            "destination": {"name": "c"},
        });
        let zeros = json!({
            "repoURL": "r", "path": "p", "targetRevision": "main", "chart": "",
            "directory": {"recurse": false, "exclude": ""},
        });
        let cases = [
            ("the same", spec(), spec(), Compared::Current),
            ("another source", with("source", json!({"repoURL": "r"})), spec(), Compared::Stale),
            (
                "a rule was removed: its fields are only in the next comparison",
                spec(),
                with("ignoreDifferences", rule()),
                Compared::Stale,
            ),
            ("a rule was added", with("ignoreDifferences", rule()), spec(), Compared::Stale),
            (
                "the same rule",
                with("ignoreDifferences", rule()),
                with("ignoreDifferences", rule()),
                Compared::Current,
            ),
            (
                "written by a client that omits zeros",
                with("source", zeros),
                spec(),
                Compared::Current,
            ),
            (
                "a zero among user-defined keys is not omitted",
                with("source", json!({"helm": {"valuesObject": {"on": false}}})),
                with("source", json!({"helm": {"valuesObject": {}}})),
                Compared::Stale,
            ),
            (
                "hydrated manifests are compared as their branch",
                hydrated.clone(),
                spec(),
                Compared::Current,
            ),
        ];
        for (name, spec, to, want) in cases {
            let live = json!({"spec": spec, "status": {"sync": {"comparedTo": to}}});
            assert_eq!(observe(&live, false).compared, want, "{name}");
        }
        let live = json!({"spec": hydrated});
        let of = |live: &Value| observe(live, false).sources;
        assert_eq!(of(&live), of(&json!({"spec": spec()})), "or all of them would share a key");
    }
}
