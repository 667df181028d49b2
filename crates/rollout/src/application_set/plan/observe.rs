//! What is kept of an existing Application: what a rollout observes, and what
//! to write. Read once per version of the raw object.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::application_set::generate::generated::Generated;
use crate::application_set::generate::validate::DeployTarget;
use crate::application_set::plan::manual_sync;
use crate::application_set::plan::owner::{self, ApplicationOwner, Identity, Takeover};
use crate::application_set::plan::update::{Rules, Update, UpdateComparison};
use crate::application_set::rollout_io::record;
use crate::application_set::rollout_io::started;
use crate::rollout::listed::CompletionRecord;
use crate::rollout::phase::{
    Compared, Deployed, Observed, ObservedOperation, RequestedOperation, SourceKey,
};
use crate::rollout::run::started::Started;
use wavegate_api::annotations::{
    REFRESH, RESOURCES_FINALIZER, RESOURCES_FINALIZERS, annotation_of, finalizers_of, is_skipped,
};
use wavegate_api::conditions::application as condition;
use wavegate_api::live::{LiveApplication, LiveOperationState, LiveSource};
use wavegate_api::sources::InEffect;
use wavegate_api::{HealthStatus, OperationPhase, Raw, SyncStatusCode, read_leniently};
use wavegate_application::deployed;
use wavegate_application::normalize;
use wavegate_engine::blocking_resource::{self, Blocking};
use wavegate_engine::promotion::PROMOTION;
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
    pub owner: ApplicationOwner,
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
    pub record: Option<Box<CompletionRecord>>,
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
    /// The finalizer for its resources, if it has that and may have to lose it: it is no longer
    /// generated, or the set keeps the resources.
    pub held: Option<Box<HeldResources>>,
}

/// A finalizer that keeps an Application until its resources are deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldResources {
    /// The cluster of the resources.
    pub target: DeployTarget,
    /// The merge patch that removes only this finalizer, with its variants if the set keeps the
    /// resources.
    pub release: Box<str>,
}

impl HeldResources {
    fn of(live: &Value, app: &LiveApplication, keeps_resources: bool) -> Option<Self> {
        let release = match keeps_resources {
            true => without_finalizers(live, is_for_resources),
            false => without_finalizers(live, |finalizer| finalizer == RESOURCES_FINALIZER),
        }?;
        Some(Self { target: DeployTarget::of(&app.spec), release: release.into() })
    }
}

/// Whether a finalizer keeps an Application until its resources are deleted.
pub(in crate::application_set) fn is_for_resources(finalizer: &str) -> bool {
    RESOURCES_FINALIZERS.contains(&finalizer)
}

/// The merge patch that removes these finalizers from an Application; `None` when it has none of
/// them. The others are those of the version in it.
pub(in crate::application_set) fn without_finalizers(
    live: &Value,
    is_removed: impl Fn(&str) -> bool,
) -> Option<String> {
    let (removed, others): (Vec<&str>, Vec<&str>) =
        finalizers_of(live).partition(|finalizer| is_removed(finalizer));
    let version = live.text("/metadata/resourceVersion");
    let patch = json!({ "metadata": { "finalizers": others, "resourceVersion": version } });
    (!removed.is_empty()).then(|| patch.to_string())
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
        let app = LiveApplication::read(live);
        let LiveApplication { metadata, status, .. } = &app;
        let text = |text: &Option<String>| text.as_deref().map(Box::<str>::from);
        let owner = ApplicationOwner::of(metadata, rules.set);
        let is_going = metadata.deletion_timestamp.is_some();
        let compared =
            wanted.map(|wanted| UpdateComparison::of(live, metadata, wanted, &owner, rules));
        let spec_differs = compared.as_ref().is_some_and(|compared| compared.spec_differs);
        // One that is no longer generated, but stays.
        let left = || {
            let stays = owner == ApplicationOwner::Set && !rules.policy.deletes();
            stays.then(|| UpdateComparison::guarding(metadata, rules))
        };
        let update = compared.map(|compared| compared.update).or_else(left);
        let update = update.filter(|_| !is_going);
        let phase = app.state().and_then(|state| state.phase.as_deref());
        Self {
            name: metadata.name.as_str().into(),
            uid: metadata.uid.as_str().into(),
            version: text(&metadata.resource_version).unwrap_or_default(),
            is_going,
            is_refreshing: annotation_of(live, REFRESH).is_some(),
            is_skipped: is_skipped(live),
            is_running: phase == Some(OperationPhase::Running.as_str()),
            observed: observe(live, &app, spec_differs),
            update: update.unwrap_or(Update::None),
            record: record::read_record(live).map(Box::new),
            started: started::read_started(live).map(Box::new),
            deployed: deployed::deployed_revisions(live),
            sync: text(&status.sync.status),
            health: text(&status.health.status)
                .map(|health| (health, text(&status.health.message))),
            blocking_resource: blocking_resource::blocking_of(live)
                .resource
                .map(|resource| resource.key().to_string().into()),
            guard: (owner == ApplicationOwner::Set && !is_going && !rules.policy.deletes())
                .then(|| owner::guard(metadata, rules.set, rules.policy))
                .flatten()
                .map(|guard| guard.to_string().into()),
            held: ((wanted.is_none() || rules.keeps_resources)
                && owner == ApplicationOwner::Set
                && !is_going)
                .then(|| HeldResources::of(live, &app, rules.keeps_resources).map(Box::new))
                .flatten(),
            takeover: (wanted.is_some() && !is_going)
                .then(|| owner::takeover(metadata, rules.set, rules.policy).map(Box::new))
                .flatten(),
            owner,
        }
    }

    /// Whether the set is its controlling owner.
    pub fn is_owned(&self) -> bool {
        self.owner == ApplicationOwner::Set
    }
}

/// What a rollout observes of an Application and what was read of it. `spec_differs`: whether
/// the generated spec is a different one ([`Comparison`]).
pub(crate) fn observe(live: &Value, app: &LiveApplication, spec_differs: bool) -> Observed {
    let LiveApplication { spec, status, .. } = app;
    let in_effect = InEffect::of(live.spec());
    let has = |is: fn(&str) -> bool| status.conditions.iter().any(|one| is(&one.type_));
    let Blocking { resource, reason: detail, until, needs_confirmation, .. } =
        blocking_resource::blocking_of(live);
    let revisions = status.sync.revisions();
    Observed {
        health: HealthStatus::from_word(status.health.status.as_deref().unwrap_or_default()),
        sync: SyncStatusCode::from_word(status.sync.status.as_deref().unwrap_or_default()),
        reconciled_at: status.reconciled_at.as_ref().map(|at| at.0),
        compared: compared(app, &in_effect),
        spec_differs,
        requested: app.operation.as_ref().map(|operation| RequestedOperation {
            promotion: operation.time_in(PROMOTION),
            is_partial: !operation.is_full(),
        }),
        operation: app.state().and_then(operation_state),
        deployed: deployed(app, &in_effect),
        person: manual_sync::sync(app, &in_effect, &revisions).map(Box::new),
        has_error_condition: has(|kind| {
            kind == condition::INVALID_SPEC_ERROR || kind == condition::UNKNOWN_ERROR
        }),
        has_error: has(condition::is_error),
        went_back_just_now: started::went_back_just_now(live, app),
        has_left_its_hold: has(|kind| kind == condition::HELD_BACK_OUT_OF_SYNC_WARNING),
        is_automated: spec.is_automated(),
        needs_confirmation,
        needs_a_prune: resource.is_some_and(|resource| resource.needs_a_person_to_prune()),
        detail,
        until,
        sources: in_effect.list.iter().map(source_key).collect(),
        revisions,
    }
}

fn operation_state(state: &LiveOperationState) -> Option<ObservedOperation> {
    let phase = OperationPhase::from_word(state.phase.as_deref()?);
    let started_at = state.started_at.as_ref().map(|at| at.0);
    Some(ObservedOperation {
        phase,
        started_at: started_at.unwrap_or(Timestamp::UNIX_EPOCH),
        // A failed attempt that is retried has a finish time, too.
        finished_at: state.finished_at.as_ref().map(|at| at.0).filter(|_| !phase.is_running()),
        promotion: state.operation.time_in(PROMOTION),
        revisions: state.sync_result.revisions(),
        message: state.message.clone(),
        // Nothing is applied yet. That it waits for a window is read from its message: the
        // syncing controller may be Argo CD's, which reports it nowhere else.
        is_blocked: phase == OperationPhase::Running
            && state.message.starts_with(windows::BLOCKED)
            && state.sync_result.resources.is_empty(),
        is_partial: !state.operation.is_full(),
    })
}

/// The last entry of the history, which both engines add after a sync of the whole
/// Application that succeeded (SE-385); not if it is of other sources, such as of another
/// parameter, at the same revision.
fn deployed(app: &LiveApplication, in_effect: &InEffect<'_>) -> Deployed {
    if app.spec.revision_history_limit.is_some_and(|limit| limit <= 0) {
        return Deployed::NotKept;
    }
    let last = app.status.history.last().filter(|last| manual_sync::is_of_sources(last, in_effect));
    last.and_then(|last| Some(Deployed::At(last.deployed_at.as_ref()?.0, last.revisions())))
        .unwrap_or(Deployed::Never)
}

/// Whether the comparison in the status was made for the current spec.
fn compared(app: &LiveApplication, in_effect: &InEffect<'_>) -> Compared {
    let Some(to) = &app.status.sync.compared_to else { return Compared::Never };
    // An Argo CD application controller omits zero values.
    let same = |wanted: &Value, field: &str| {
        normalize::equal_parts(wanted, to.get(field).unwrap_or(&Value::Null))
    };
    let is_current = same(&in_effect.value(), in_effect.field)
        && same(&app.spec.destination, "destination")
        && same(&app.spec.ignore_differences, "ignoreDifferences");
    if is_current { Compared::Current } else { Compared::Stale }
}

fn source_key(source: &Value) -> SourceKey {
    let LiveSource { repo_url, chart, target_revision, .. } = read_leniently(source);
    SourceKey {
        repository: repo_url.trim_end_matches('/').to_owned(),
        chart,
        target_revision: match target_revision.as_str() {
            "HEAD" => String::new(),
            _ => target_revision,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(live: &Value) -> Observed {
        observe(live, &LiveApplication::read(live), false)
    }

    #[test]
    fn a_success_counts_for_the_sources_it_was_made_of() {
        let source = |path: &str| json!({"repoURL": "r", "path": path});
        let at = "2026-01-02T03:04:05Z";
        let deployed = |spec: Value, mut last: Value| {
            last["deployedAt"] = at.into();
            last["revision"] = "r1".into();
            observed(&json!({"spec": spec, "status": {"history": [last]}})).deployed
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
            assert_eq!(observed(&live).compared, want, "{name}");
        }
        let live = json!({"spec": hydrated});
        let of = |live: &Value| observed(live).sources;
        assert_eq!(of(&live), of(&json!({"spec": spec()})), "or all of them would share a key");
    }
}
