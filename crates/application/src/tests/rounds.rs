//! Tests of the entry points of the controller: access, rounds of operations,
//! comparisons, steps of deletions.

use std::time::Duration;

use super::*;
use crate::access::{Access, Applicant, ClusterFact, ProjectFact};
use crate::deletion_scope::DeletionScope;
use crate::errors::ObserveError;
use crate::finalize::{DeletionInput, DeletionSnapshot, DeletionState, UnlistedKinds};
use crate::observation::{Live, Observation};
use crate::operate::{Next, OperationSettings, OperationSnapshot};
use crate::operation::OperationStage;
use wavegate_api::conditions::application::{DELETION_ERROR, DELETION_WARNING};
use wavegate_engine::health::Checks;
use wavegate_engine::sync::{self, Handover, NamespaceFact};
use wavegate_engine::wait::Wait;
use wavegate_engine::windows;

/// Owns everything that an [`Observation`] borrows.
pub(super) struct Facts {
    spec: ApplicationSpec,
    project: AppProjectSpec,
    pub(super) windows: Vec<windows::Window>,
    tracking: Tracking,
    checks: Checks,
    jq: diff::Jq,
    pub(super) placed: Placed,
    kinds: BTreeMap<wavegate_api::GroupVersionKind, wavegate_api::kind::Served>,
    pub(super) live: Live,
    pub(super) handovers: BTreeMap<ResourceKey, sync::Handover>,
    schemas: Arc<diff::Schemas>,
    pub(super) scope: wavegate_api::cluster::ClusterScope,
    predicted: crate::predicted::Predicted,
    compared: Arc<diff::SystemSettings>,
}

impl Facts {
    pub(super) fn new(app: &Value, manifests: &[Value]) -> Self {
        Self {
            spec: wavegate_api::read_typed(&app["spec"]).unwrap(),
            project: project(),
            windows: Vec::new(),
            tracking: tracking(),
            placed: placed(manifests),
            kinds: BTreeMap::new(),
            live: Live::new(),
            handovers: BTreeMap::new(),
            schemas: Default::default(),
            scope: Default::default(),
            predicted: Default::default(),
            compared: Default::default(),
            checks: Checks::default(),
            jq: diff::Jq::default(),
        }
    }

    /// Changes what its project permits.
    pub(super) fn permit(&mut self, change: impl FnOnce(&mut AppProjectSpec)) {
        change(&mut self.project);
    }

    pub(super) fn observation(&self) -> Observation<'_> {
        Observation {
            access: Access {
                application: "app",
                spec: &self.spec,
                project: &self.project,
                project_name: "default",
                windows: &self.windows,
                server: "https://c",
                cluster: "c",
                scope: &self.scope,
            },
            tracking: &self.tracking,
            control_plane_namespace: "argocd",
            checks: &self.checks,
            jq: &self.jq,
            placed: &self.placed,
            kinds: &self.kinds,
            live: &self.live,
            handovers: &self.handovers,
            schemas: &self.schemas,
            predicted: &self.predicted,
            compared: &self.compared,
            namespace: NamespaceFact::Exists,
            namespace_object: None,
        }
    }
}

pub(super) fn settings() -> OperationSettings {
    let sync =
        sync::SyncSettings { wave_delay: SignedDuration::ZERO, ..sync::SyncSettings::default() };
    OperationSettings { sync, inherit_sync_options: false }
}

pub(super) fn requested(sync: Value) -> Value {
    let mut app = application();
    app["operation"] = json!({"sync": sync});
    app
}

/// Begins the operation of an Application.
pub(super) fn begin(app: &mut Value, now: Timestamp) -> Next {
    let begun = operate::begin_round(
        &App::of(app.clone()),
        &ApplicationMemory::default(),
        &settings(),
        now,
    );
    store(app, &begun.app);
    begun.next
}

/// One round of an operation, of an Application as it is stored.
pub(super) fn round(
    app: &mut Value,
    observed: Result<&Observation<'_>, &ObserveError>,
    outcomes: &[sync::ActionOutcome],
    since: Timestamp,
    now: Timestamp,
) -> Next {
    let memory =
        ApplicationMemory { unreadable_since: Some(since), ..ApplicationMemory::default() };
    let decision = operate::operate_round(&OperationSnapshot {
        app: &App::of(app.clone()),
        memory: &memory,
        commits: None,
        observed,
        diffs: &DiffCache::default(),
        outcomes,
        settings: &settings(),
        now,
    });
    store(app, &decision.app);
    decision.next
}

fn state<'a>(app: &'a Value, field: &str) -> &'a Value {
    &app["status"]["operationState"][field]
}

#[test]
fn access_is_granted_or_denied_in_one_place() {
    let app = application();
    let spec: ApplicationSpec = wavegate_api::read_typed(&app["spec"]).unwrap();
    let own = project();
    let known = ProjectFact::Known { spec: &own, problems: &[] };
    let cluster = ClusterFact::Known { server: "https://c", name: "c", project: "" };
    let check = |namespace, project, cluster| {
        let applicant =
            Applicant { namespace, name: "app", spec: &spec, control_plane_namespace: "argocd" };
        access::check(&applicant, project, cluster).err()
    };
    assert_eq!(check("argocd", known, cluster), None);
    let elsewhere = AppProjectSpec { destinations: Vec::new(), ..project() };
    let elsewhere = ProjectFact::Known { spec: &elsewhere, problems: &["odd".to_owned()] };
    let scoped = AppProjectSpec { permit_only_project_scoped_clusters: true, ..project() };
    let scoped = ProjectFact::Known { spec: &scoped, problems: &[] };
    // (namespace, project, cluster, message, number of conditions)
    let unknown = ClusterFact::Unknown("no such cluster");
    let cases = [
        ("argocd", ProjectFact::Missing, cluster, "does not exist", 1),
        ("argocd", ProjectFact::Unreadable("x"), cluster, "cannot be read: x", 1),
        ("other", known, cluster, "is not permitted to use project 'default'", 1),
        ("argocd", known, unknown, "spec.destination.server: no such cluster", 1),
        ("argocd", ProjectFact::Missing, unknown, "does not exist", 1),
        ("argocd", known, ClusterFact::Unusable("no token"), "no token", 1),
        ("argocd", elsewhere, cluster, "do not match any of the allowed", 2),
        ("argocd", scoped, cluster, "is not reserved for project 'default'", 1),
    ];
    for (namespace, project, cluster, text, count) in cases {
        let refusal = check(namespace, project, cluster).unwrap();
        assert!(refusal.conditions[0].message.contains(text), "{refusal:?}");
        assert_eq!(refusal.conditions.len(), count, "{text}");
    }
    let facts = Facts::new(&app, &[]);
    let sources = |url: &str| facts.observation().access.denied_source(&[json!({"repoURL": url})]);
    assert_eq!(sources("https://example.com/any"), None);
    let facts = Facts {
        project: AppProjectSpec { source_repos: vec!["https://h/a".into()], ..project() },
        ..facts
    };
    let denied = facts.observation().access.denied_source(&[json!({"repoURL": "https://h/b"})]);
    assert!(denied.unwrap().message.contains("repo https://h/b is not permitted"));
}

#[test]
fn an_operation_starts_runs_and_ends() {
    let mut app = requested(json!({"revision": "a".repeat(40)}));
    assert!(matches!(begin(&mut app, at(0)), Next::Observe));
    assert_eq!(stage(&app), OperationStage::InProgress);
    assert_eq!(
        operation::pinned_revisions(&state_of(&app)),
        ["a".repeat(40)],
        "the same write contains the revisions"
    );
    let mut facts = Facts::new(&app, &[map("one")]);
    let round = |app: &mut Value, facts: &Facts, outcomes: &[sync::ActionOutcome]| {
        round(app, Ok(&facts.observation()), outcomes, at(1), at(1))
    };
    let Next::Act(act) = round(&mut app, &facts, &[]) else { panic!("{app}") };
    let done = |act: &operate::OperationAct| -> Vec<sync::ActionOutcome> {
        let actions = act.groups.iter().flat_map(|group| &group.actions);
        let result = sync::ActionResult::Done {
            message: "done".into(),
            uid: "u".into(),
            resource_version: "1".into(),
        };
        let outcome = |action: &sync::Action| sync::ActionOutcome {
            action: action.id(),
            result: result.clone(),
        };
        actions.map(outcome).collect()
    };
    // The dry run, then the apply.
    let Next::Act(act) = round(&mut app, &facts, &done(&act)) else { panic!("{app}") };
    facts.live.extend([live(&facts.placed.targets[0])]);
    assert!(matches!(round(&mut app, &facts, &done(&act)), Next::Over));
    assert_eq!(*state(&app, "phase"), "Succeeded", "{app}");
    let result = &state(&app, "syncResult")["resources"][0];
    assert_eq!((&result["group"], &result["name"]), (&"".into(), &"one".into()), "SE-053");
    assert!(app.get("operation").is_none());
}

/// After a kill, an operation must not deploy another commit than the one that it has begun with.
#[test]
fn commits_are_stored_before_the_first_action_se_374() {
    let mut app = requested(json!({"revision": "main"}));
    begin(&mut app, at(0));
    let facts = Facts::new(&app, &[map("one")]);
    let decide = |app: &App, commits: Option<&[String]>| {
        operate::operate_round(&OperationSnapshot {
            app,
            memory: &ApplicationMemory::default(),
            commits,
            observed: Ok(&facts.observation()),
            diffs: &DiffCache::default(),
            outcomes: &[],
            settings: &settings(),
            now: at(1),
        })
    };
    // The start is stored already, as after a wait for a slow repository.
    let commits = ["a".repeat(40)];
    let decision = decide(&App::of(app), Some(&commits));
    assert_eq!(operation::pinned_revisions(&decision.app.status.operation_state), commits);
    let Next::Act(act) = decision.next else { panic!("{:?}", decision.app) };
    assert!(act.persist);
    // A newer commit changes nothing, and needs no other write.
    let newer = decide(&App::of(decision.app.written().unwrap()), Some(&["b".repeat(40)]));
    assert_eq!(operation::pinned_revisions(&newer.app.status.operation_state), commits);
    let error = ObserveError::Operation("wrong".into());
    let mut app = requested(json!({"revision": "main"}));
    begin(&mut app, at(0));
    let failed = operate::operate_round(&OperationSnapshot {
        app: &App::of(app),
        memory: &ApplicationMemory::default(),
        commits: Some(&commits),
        observed: Err(&error),
        diffs: &DiffCache::default(),
        outcomes: &[],
        settings: &settings(),
        now: at(1),
    });
    assert_eq!(
        operation::pinned_revisions(&failed.app.status.operation_state),
        commits,
        "what it could not deploy"
    );
}

/// After an internal fault, a first failed read ended the next operation at once.
#[test]
fn an_operation_does_not_count_the_failed_reads_of_the_last_one() {
    let app = App::of(requested(json!({"revision": "main"})));
    let memory =
        ApplicationMemory { unreadable_since: Some(at(0)), ..ApplicationMemory::default() };
    assert_eq!(
        operate::begin_round(&app, &memory, &settings(), at(1)).memory.unreadable_since,
        None
    );
}

#[test]
fn failed_reads_are_retried_before_they_end_an_operation() {
    let mut app = requested(json!({"revision": "main"}));
    assert!(matches!(begin(&mut app, at(0)), Next::Observe));
    let live = ObserveError::Live("down".into());
    let mut now = at(0);
    let mut looks = 0;
    while let Next::Wait(wait) = round(&mut app, Err(&live), &[], at(0), now) {
        let until = wait.at().unwrap();
        assert!(until > now);
        (now, looks) = (until, looks + 1);
    }
    assert!((3..8).contains(&looks), "{looks}");
    assert_eq!(*state(&app, "phase"), "Error");
    assert_eq!(*state(&app, "message"), "Failed to load live state: down");

    let mut app = requested(json!({}));
    app["operation"]["retry"] = json!({"limit": 1});
    assert!(matches!(begin(&mut app, at(0)), Next::Observe));
    let wrong = ObserveError::Operation("no such thing".into());
    assert!(matches!(round(&mut app, Err(&wrong), &[], at(0), at(0)), Next::Wait(_)));
    assert_eq!(*state(&app, "retryCount"), 1);
    // Before it is due, when it is due, and when it was terminated in the
    // meantime.
    let mut waiting = app.clone();
    assert!(matches!(begin(&mut waiting, at(1)), Next::Wait(_)));
    assert_eq!(waiting, app);
    let mut due = app.clone();
    assert!(matches!(begin(&mut due, at(100)), Next::Observe));
    app["status"]["operationState"]["phase"] = "Terminating".into();
    assert!(matches!(begin(&mut app, at(1)), Next::Over));
    assert_eq!(*state(&app, "message"), "Operation terminated");
}

/// The limit had no effect while a window was closed, and none between two attempts (SE-288,
/// SE-410, SE-584).
#[test]
fn the_time_limit_ends_an_operation_that_only_waits_se_288() {
    let sync_timeout = Some(SignedDuration::from_secs(20));
    let sync = sync::SyncSettings { sync_timeout, ..settings().sync };
    let settings = OperationSettings { sync, ..settings() };
    let round = |app: &mut Value, observed: Result<&Observation<'_>, &ObserveError>, now| {
        let decision = operate::operate_round(&OperationSnapshot {
            app: &App::of(app.clone()),
            memory: &ApplicationMemory::default(),
            commits: None,
            observed,
            diffs: &DiffCache::default(),
            outcomes: &[],
            settings: &settings,
            now,
        });
        store(app, &decision.app);
        decision.next
    };
    let until = |next: Next| match next {
        Next::Wait(wait) => wait.at().unwrap(),
        other => panic!("{other:?}"),
    };
    let ended = |app: &Value| {
        assert_eq!(*state(app, "phase"), "Failed");
        let message = "Operation terminated, triggered by controller sync timeout";
        assert_eq!(*state(app, "message"), message);
        assert!(app.get("operation").is_none(), "{app}");
    };

    let mut app = requested(json!({"revision": "a".repeat(40)}));
    begin(&mut app, at(0));
    let mut facts = Facts::new(&app, &[map("one")]);
    facts.windows = super::waits::closed();
    assert_eq!(until(round(&mut app, Ok(&facts.observation()), at(1))), at(20));
    assert!(matches!(round(&mut app, Ok(&facts.observation()), at(20)), Next::Over));
    ended(&app);

    let mut app = requested(json!({}));
    app["operation"]["retry"] =
        json!({"limit": 3, "backoff": {"duration": "1h", "maxDuration": "2h"}});
    begin(&mut app, at(0));
    let wrong = ObserveError::Operation("no such thing".into());
    assert_eq!(until(round(&mut app, Err(&wrong), at(1))), at(20));
    let begun = |app: &Value, now| {
        operate::begin_round(&App::of(app.clone()), &ApplicationMemory::default(), &settings, now)
    };
    assert_eq!(until(begun(&app, at(2)).next), at(20));
    let over = begun(&app, at(20));
    assert!(matches!(over.next, Next::Over));
    store(&mut app, &over.app);
    ended(&app);
}

/// A hook that was kept gave its old values to the next one of its name (SE-331).
#[test]
fn ignored_fields_of_hooks_are_those_of_the_source_se_331() {
    let options = json!(["RespectIgnoreDifferences=true"]);
    let mut app = requested(json!({"revision": "a".repeat(40), "syncOptions": options}));
    app["spec"]["ignoreDifferences"] = json!([{"kind": "ConfigMap", "jsonPointers": ["/data/a"]}]);
    begin(&mut app, at(0));
    let mut hook = map("hook");
    hook["metadata"]["annotations"] = json!({"argocd.argoproj.io/hook": "PreSync"});
    let mut facts = Facts::new(&app, &[hook, map("one")]);
    facts.live.extend(facts.placed.targets.iter().map(live));
    for live in facts.live.values_mut() {
        Arc::make_mut(live)["data"]["a"] = "old".into();
    }
    let next = round(&mut app, Ok(&facts.observation()), &[], at(1), at(1));
    let Next::Act(act) = next else { panic!("{app}") };
    let mut sent = BTreeMap::new();
    for action in act.groups.iter().flat_map(|group| &group.actions) {
        let sync::Action::DryRun(apply) = action else { panic!("{action:?}") };
        let value = apply.request.manifest["data"]["a"].clone();
        sent.insert(apply.request.key.name.clone(), value);
    }
    assert_eq!(json!(sent), json!({"hook": "1", "one": "old"}));
}

#[test]
fn two_operations_never_start_in_the_same_second() {
    let mut app = requested(json!({}));
    app["status"]["operationState"] =
        json!({"phase": "Succeeded", "startedAt": "2023-11-14T22:13:20Z"});
    begin(&mut app, at(0));
    assert_eq!(operation::started(&state_of(&app)), Some(at(1)));
    // A client may remove the state of the last sync with its request.
    let mut app = requested(json!({}));
    app["status"]["history"] = json!([{"id": 0, "deployStartedAt": "2023-11-14T22:13:20Z"}]);
    begin(&mut app, at(0));
    assert_eq!(operation::started(&state_of(&app)), Some(at(1)));
}

#[test]
fn comparisons_have_a_reason() {
    let app = application();
    let mut status = app.clone();
    status["status"]["sync"]["comparedTo"] = status::compared_to(&app["spec"]);
    let last_spec = Some(digest_of(&app["spec"]));
    let known =
        ApplicationMemory { last_spec, checked_at: Some(at(0)), ..ApplicationMemory::default() };
    let calm = RefreshTrigger::default();
    assert!(reason(&known, &status, &calm, at(0)).is_none());
    let live = RefreshTrigger { request: ComparisonRequest::new(Level::Live), ..calm };
    let found = reason(&known, &status, &live, at(0)).unwrap();
    assert!(!found.asked_for && found.request.level == Level::Live);
    assert_eq!(found.settles(None, at(0)), None);
    assert!(found.settles(Some(at(0)), at(0)).is_some(), "objects change several times");
    let first = ApplicationMemory { last_spec: None, ..known.clone() };
    let found = reason(&first, &status, &calm, at(0)).unwrap();
    assert!(!found.asked_for && found.request.level == Level::Revision);
    let another = ApplicationMemory { last_spec: Some(1), ..known.clone() };
    assert!(reason(&another, &status, &calm, at(0)).unwrap().asked_for);
    status["status"]["operationState"]["startedAt"] = "2023-11-14T22:13:20Z".into();
    let after = RefreshTrigger { after_operation: true, ..calm };
    let found = reason(&known, &status, &after, at(0)).unwrap();
    assert_eq!(found.settles(Some(at(0)), at(0)), None);
    let minute = Duration::from_secs(60);
    assert_eq!(found.age(minute, at(30)), Duration::from_secs(30), "SE-372");
}

/// Records the state of a deletion in an Application as it is stored.
pub(super) fn recorded(app: &mut Value, state: DeletionState, now: Timestamp) -> Wait {
    let mut wait = None;
    changed(app, |app| wait = Some(finalize::record_deletion(app, state, now)));
    wait.unwrap()
}

#[test]
fn a_deletion_runs_its_steps_in_order() {
    let mut app = application();
    app["metadata"]["uid"] = "u".into();
    app["metadata"]["deletionTimestamp"] = "2023-11-14T22:13:20Z".into();
    app["metadata"]["finalizers"] = json!([
        "resources-finalizer.argocd.argoproj.io",
        "post-delete-finalizer.argocd.argoproj.io"
    ]);
    let mut hook = map("bye");
    hook["kind"] = "Job".into();
    hook["apiVersion"] = "batch/v1".into();
    hook["metadata"]["annotations"] = json!({"argocd.argoproj.io/hook": "PostDelete"});
    let mut facts = Facts::new(&app, &[map("one"), hook]);
    facts.live.extend([live(&facts.placed.targets[0])]);
    let all_listed = UnlistedKinds::new();
    let mut memory = ApplicationMemory::default();
    let mut next = |app: &mut Value, seen: DeletionInput<'_>, now| {
        let decision = finalize::finalize_deletion(&DeletionSnapshot {
            app: &App::of(app.clone()),
            memory: &memory,
            observed: Ok(seen),
            clean_hooks: false,
            now,
        });
        store(app, &decision.app);
        memory = decision.memory;
        decision.plan
    };
    let fields = Fields::of(&app);
    assert!(finalize::is_held(&fields) && finalize::needs_source(&fields));

    let plan = next(
        &mut app,
        DeletionInput::In(&facts.observation(), &DeletionScope::Tracked, &all_listed),
        at(0),
    );
    assert_eq!(plan.removals.len(), 1);
    assert!(plan.removals[0].delete && !plan.removals[0].release);
    assert!(matches!(plan.state, DeletionState::Waits { .. }));

    facts.live.clear();
    let plan = next(
        &mut app,
        DeletionInput::In(&facts.observation(), &DeletionScope::Tracked, &all_listed),
        at(1),
    );
    assert_eq!(plan.creations.len(), 1, "{plan:?}");
    let (hook, attempt) = &plan.creations[0];
    let request = hook.request(*attempt);
    assert_eq!((request.key.name.as_str(), *attempt), ("bye", 0));
    assert_eq!(request.stamp.as_deref(), Some(hook.stamp(0).as_str()));
    let left: Vec<&str> = wavegate_api::annotations::finalizers_of(&app).collect();
    assert_eq!(left, ["post-delete-finalizer.argocd.argoproj.io"]);

    // It was deleted before it completed: not again at once, and then as a new attempt.
    let plan = next(
        &mut app,
        DeletionInput::In(&facts.observation(), &DeletionScope::Tracked, &all_listed),
        at(2),
    );
    assert!(matches!(plan.state, DeletionState::Stuck { next: Some(_), .. }), "{plan:?}");
    let wake = recorded(&mut app, plan.state, at(2));
    assert!(wake.at().is_some() && finalize::needs_newest(&Fields::of(&app)));
    assert_eq!(app["status"]["conditions"][0]["type"], DELETION_ERROR);
    let plan = next(
        &mut app,
        DeletionInput::In(&facts.observation(), &DeletionScope::Tracked, &all_listed),
        at(100),
    );
    assert_eq!(plan.creations[0].1, 1);

    let left = next(&mut app, DeletionInput::Nowhere("no such cluster"), at(100)).left;
    assert!(left.is_some_and(|text| text.ends_with(": no such cluster")));
    assert!(!finalize::is_held(&Fields::of(&app)));
    assert_eq!(recorded(&mut app, DeletionState::Done, at(3)), finalize::wait_released());
    assert!(app["status"]["conditions"].is_null(), "{app}");
}

/// A hook that never ends, or an object that Kubernetes holds, was in the log only (SE-514, SE-517).
#[test]
fn a_deletion_that_takes_long_says_what_it_waits_for_se_514() {
    let mut app = application();
    app["metadata"]["deletionTimestamp"] = wavegate_api::time::to_rfc3339(at(0)).into();
    let waits = |reason: &str| DeletionState::Waits { reason: reason.to_owned(), keep: false };
    for (now, reason, said) in [
        (at(1), "waiting for hook a", None),
        (at(59), "waiting for hook a", None),
        (at(60), "waiting for hook a", Some("waiting for hook a")),
        (at(90), "waiting for deletion of b", Some("waiting for deletion of b")),
    ] {
        let wake = recorded(&mut app, waits(reason), now);
        assert!(wake.at().is_some_and(|at| at > now), "{reason}");
        let condition = &app["status"]["conditions"][0];
        assert_eq!(condition["message"].as_str(), said, "{now}");
        assert_eq!(condition["type"] == DELETION_WARNING, said.is_some(), "{now}");
    }
}

/// It counted as complete, and resources of kinds that could not be listed were left without a
/// word (SE-436, SE-514).
#[test]
fn a_deletion_waits_for_kinds_that_cannot_be_listed_but_not_for_ever_se_436() {
    let mut app = application();
    app["metadata"]["deletionTimestamp"] = wavegate_api::time::to_rfc3339(at(0)).into();
    app["metadata"]["finalizers"] = json!(["resources-finalizer.argocd.argoproj.io"]);
    let facts = Facts::new(&app, &[]);
    let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
    let next = |scope: &DeletionScope, age: Duration, now| {
        let unlisted = [("Widget.x.io".to_owned(), ("no endpoints".to_owned(), age))];
        let unlisted = UnlistedKinds::from(unlisted);
        let decision = finalize::finalize_deletion(&DeletionSnapshot {
            app: &App::of(app.clone()),
            memory: &ApplicationMemory::default(),
            observed: Ok(DeletionInput::In(&facts.observation(), scope, &unlisted)),
            clean_hooks: false,
            now,
        });
        (decision.plan.state, decision.plan.left, decision.app.metadata.finalizers.len())
    };
    for (age, now) in [(minutes(1), at(60)), (minutes(600), at(60)), (minutes(1), at(36_000))] {
        let (state, left, finalizers) = next(&DeletionScope::Tracked, age, now);
        let DeletionState::Held(reason) = state else { panic!("{state:?}") };
        assert!(reason.ends_with(": Widget.x.io: no endpoints"), "{reason}");
        assert_eq!((left, finalizers), (None, 1));
    }
    let (state, left, finalizers) = next(&DeletionScope::Tracked, minutes(15), at(900));
    assert_eq!((state, finalizers), (DeletionState::Done, 0));
    assert!(left.unwrap().contains("Widget.x.io: no endpoints"));
    let listed = next(&DeletionScope::Listed(Default::default()), minutes(1), at(60));
    assert_eq!(listed, (DeletionState::Done, None, 0), "what is deleted is known by name");
}

/// An Application whose objects another one has by now deleted them with itself (SE-514).
#[test]
fn a_deletion_leaves_what_other_applications_have_se_514() {
    let mut app = application();
    app["metadata"]["deletionTimestamp"] = wavegate_api::time::to_rfc3339(at(0)).into();
    app["metadata"]["finalizers"] = json!(["resources-finalizer.argocd.argoproj.io"]);
    let mut facts = Facts::new(&app, &[map("one"), map("two")]);
    facts.live.extend(facts.placed.targets.iter().map(live).collect::<Vec<_>>());
    facts.placed.targets.clear();
    let keys: Vec<ResourceKey> = facts.live.keys().cloned().collect();
    let next = |facts: &Facts| {
        let observation = facts.observation();
        let input = DeletionInput::In(&observation, &DeletionScope::Tracked, &Default::default());
        let decision = finalize::finalize_deletion(&DeletionSnapshot {
            app: &App::of(app.clone()),
            memory: &ApplicationMemory::default(),
            observed: Ok(input),
            clean_hooks: false,
            now: at(1),
        });
        decision.plan
    };
    let left = Handover::Left("argocd/b".to_owned());
    facts.handovers.insert(keys[0].clone(), left.clone());
    facts.handovers.insert(keys[1].clone(), Handover::Undecided("argocd/c".to_owned()));
    let plan = next(&facts);
    assert!(plan.removals.is_empty());
    let DeletionState::Waits { reason, .. } = plan.state else { panic!("{:?}", plan.state) };
    assert!(reason.ends_with("may have it in their sources: argocd/c"), "{reason}");
    facts.handovers.remove(&keys[1]);
    let removed: Vec<ResourceKey> =
        next(&facts).removals.into_iter().map(|removal| removal.key).collect();
    assert_eq!(removed, keys[1..]);
    facts.handovers.insert(keys[1].clone(), left);
    let plan = next(&facts);
    assert_eq!((plan.state, plan.removals.len()), (DeletionState::Done, 0));
    assert!(plan.left.unwrap().contains("one to argocd/b"));
}

/// A retry replaced the commit that a user had gone back to, or kept one that Argo CD's
/// clients name in every request (SE-024).
#[test]
fn a_retry_with_refresh_keeps_only_what_a_user_goes_back_to_se_024() {
    let named = |commit: &str, change: Value| {
        let mut app = application();
        app["status"]["sync"]["revision"] = "c3".into();
        app["status"]["history"] = json!([{"revision": "c1"}, {"revision": "c3"}]);
        let operation = json!({"sync": {"revision": commit}, "retry": {"refresh": true}});
        app["operation"] = operation;
        json_patch::merge(&mut app, &change);
        changed(&mut app, |app| {
            operation::begin_operation(app, at(0));
            operation::next_attempt(app, 1);
        });
        operation::given(&state(&app, "operation")["sync"])
    };
    assert!(named("c2", json!({})).is_empty(), "never deployed");
    assert!(named("c3", json!({})).is_empty(), "the newest one");
    assert_eq!(named("c1", json!({})), ["c1"], "a rollback");
    let other = json!({"operation": {"sync": {"source": {"repoURL": "r", "path": "other"}}}});
    assert_eq!(named("c2", other), ["c2"], "a rollback to another source");
    let automated = json!({"operation": {"initiatedBy": {"automated": true}}});
    assert!(named("c1", automated).is_empty());
}
