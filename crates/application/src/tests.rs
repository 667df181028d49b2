//! Tests of comparisons, as tables.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::app::{App, Fields};
use super::auto_sync::{AutoSync, SelfHeal};
use super::memory::{ApplicationMemory, digest_of};
use super::refresh::{Reason, RefreshTrigger};
use super::request::{ComparisonRequest, Level};
use super::*;
use wavegate_api::app_project::{ProjectDestination, ResourcePattern};
use wavegate_api::app_status::ApplicationCondition;
use wavegate_api::operation::{OperationPhase, OperationState};
use wavegate_api::resource_filter::KindFilter;
use wavegate_api::tracking::{Tracking, TrackingMethod};
use wavegate_api::{AppProjectSpec, ApplicationSpec, ResourceKey, Time};
use wavegate_engine::diff;
use wavegate_engine::health::Checks;
use wavegate_engine::merge_patch::merge_patch;

mod automation;
mod deletions;
mod judgements;
mod limits;
mod observations;
mod operations;
mod pairs;
mod permissions;
mod readings;
mod rounds;
mod waits;

const TRACKING: &str = "argocd.argoproj.io/tracking-id";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn tracking() -> Tracking {
    Tracking {
        label: "app.kubernetes.io/instance".to_owned(),
        instance: "app".to_owned(),
        ..Tracking::default()
    }
}

fn project() -> AppProjectSpec {
    let any = ResourcePattern { group: "*".into(), kind: "*".into(), ..ResourcePattern::default() };
    AppProjectSpec {
        source_repos: vec!["*".into()],
        destinations: vec![destination("*", "*")],
        cluster_resource_whitelist: vec![any],
        ..AppProjectSpec::default()
    }
}

fn destination(server: &str, namespace: &str) -> ProjectDestination {
    ProjectDestination {
        server: server.into(),
        namespace: namespace.into(),
        ..ProjectDestination::default()
    }
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

/// Kinds that exist: all are namespaced, except for namespaces and definitions.
fn scope(_: &str, _: &str, kind: &str) -> KindScope {
    match kind {
        "Namespace" | "ClusterRole" | "CustomResourceDefinition" => KindScope::Cluster,
        "Widget" => KindScope::Unknown,
        _ => KindScope::Namespaced,
    }
}

fn placed(manifests: &[Value]) -> Placed {
    targets::place_targets(manifests.to_vec(), "web", &tracking(), &scope, &KindFilter::default())
}

/// A live object: the target as the server would store it.
fn live(target: &PlacedTarget) -> (ResourceKey, Arc<Value>) {
    let mut object = target.object.as_ref().clone();
    object["metadata"]["uid"] = format!("uid-{}", target.key).into();
    object["metadata"]["resourceVersion"] = "1".into();
    (target.key.clone(), Arc::new(object))
}

fn application() -> Value {
    json!({
        "metadata": {"name": "app", "namespace": "argocd"},
        "spec": {
            "project": "default",
            "source": {"repoURL": "https://example.com/r", "path": "p"},
            "destination": {"server": "https://c", "namespace": "web"},
        },
    })
}

fn compared(
    app: &Value,
    placed: &Placed,
    live: &BTreeMap<ResourceKey, Arc<Value>>,
) -> ComparedApplication {
    compared_in(&project(), app, placed, live)
}

fn compared_in(
    project: &AppProjectSpec,
    app: &Value,
    placed: &Placed,
    live: &BTreeMap<ResourceKey, Arc<Value>>,
) -> ComparedApplication {
    let spec: ApplicationSpec = wavegate_api::read_typed(&app["spec"]).unwrap();
    let facts = ComparisonFacts {
        application: app,
        spec: &spec,
        tracking: &tracking(),
        control_plane_namespace: "argocd",
        checks: &Checks::default(),
        targets: &placed.targets,
        live,
        handovers: &BTreeMap::new(),
        project,
        cluster: ("https://c", "c"),
        config: &diff::DiffConfig::default(),
        predicted: &Default::default(),
        namespace_metadata_changed: false,
    };
    compare(&facts, &DiffCache::default())
}

#[test]
fn projects_permit_by_their_lists() {
    let sources = |list: &[&str], url: &str| {
        let source_repos = list.iter().map(|item| (*item).to_owned()).collect();
        project::source_rule(&AppProjectSpec { source_repos, ..project() }, url).is_none()
    };
    assert!(sources(&["https://example.com/org/*"], "https://EXAMPLE.com/org/repo.git"), "SE-070");
    assert!(!sources(&["https://example.com/*"], "https://example.com/org/repo"), "SE-070");
    assert!(!sources(&["*", "!https://example.com/secret"], "https://example.com/secret"));
    assert!(!sources(&[], "https://example.com/a"));
    // A denial applies to every spelling of the same location.
    for url in [
        "https://me@example.com/secret",
        "https://example.com:443//secret.git/",
        "HTTPS://EXAMPLE.com/secret",
    ] {
        assert!(!sources(&["*", "!https://example.com/secret"], url), "{url}");
    }
    for url in [
        "https://example.com:0443/secret",
        "https://example.com:/secret",
        "https://example.com./secret",
        "https://example.com/secret/.git",
        "https://example.com/secret.git/.git/",
        "https://example.com/%73ecret",
        "https://[example.com]/secret",
        "https://example.com/x/../secret",
        "https://example.com/secret?x",
        "http://example.com/secret",
    ] {
        for denial in ["!https://example.com/secret", "!https://EXAMPLE.com:0443/%73ecret.git"] {
            assert!(!sources(&["*", denial], url), "SE-070: {url} by {denial}");
        }
    }
    for url in ["[git@example.com:022]:org/secret", "git@[example.com]:/org//secret/.git"] {
        assert!(!sources(&["*", "!ssh://git@example.com/org/*"], url), "SE-070: {url}");
    }
    for url in ["git@example.com:org/secret.git", "ssh://example.com:22/org/secret"] {
        assert!(!sources(&["*", "!git@example.com:org/secret"], url), "{url}");
        assert!(sources(&["git@example.com:org/*"], url), "{url}");
    }
    assert!(!sources(&["*", "!{https://example.com/a"], "https://example.com/b"), "denies");
    assert!(!sources(&["*", "!*"], "https://example.com/b"));
    // As in Argo CD, a negated entry that does not hit permits.
    assert!(sources(&["!https://example.com/secret"], "https://example.com/b"), "SE-070");
    assert!(!sources(&["!https://example.com/secret"], "https://example.com/secret"), "SE-070");
    assert!(!sources(
        &["!https://example.com/a", "!https://example.com/b"],
        "https://example.com/b"
    ));

    let used_by = |pattern: &str, namespace: &str| {
        let source_namespaces = vec![pattern.to_owned()];
        let spec = AppProjectSpec { source_namespaces, ..project() };
        project::permits_application(&spec, namespace, "argocd")
    };
    assert!(used_by("/^(?!prod-).*$/", "team-a"), "SE-077: look-ahead");
    assert!(!used_by("/^(?!prod-).*$/", "prod-a"), "SE-077: look-ahead");
    assert!(used_by("/^.*(?<!-prod)$/", "a-dev") && !used_by("/^.*(?<!-prod)$/", "a-prod"));
    assert!(!used_by("!team-a", "team-b"), "SE-077: there is no negation");

    let goes = |list: Vec<ProjectDestination>, namespace: &str| {
        let spec = AppProjectSpec { destinations: list, ..project() };
        project::destination_rule(&spec, "https://c", "c", namespace).is_none()
    };
    assert!(goes(vec![destination("https://c", "team-*")], "team-a"), "SE-071");
    assert!(!goes(vec![destination("https://c", "team-*")], "kube-system"), "SE-071");
    let denied = vec![destination("*", "*"), destination("*", "!kube-system")];
    assert!(!goes(denied.clone(), "kube-system"), "SE-071");
    assert!(goes(denied, "web"), "SE-071");
    let refused = project::destination_rule(&project(), "", "", "web");
    assert!(refused.is_some(), "SE-071: no cluster");
    // As in Argo CD, a negated field matches what it does not hit.
    for (list, server, name, namespace, want) in [
        (vec![("!https://c", "", "*")], "https://d", "d", "web", true),
        (vec![("!https://c", "", "*")], "https://c", "c", "web", false),
        (vec![("https://c", "", "!kube-*")], "https://c", "c", "web", true),
        (vec![("https://c", "", "!kube-*")], "https://c", "c", "kube-system", false),
        (vec![("https://c", "", "!kube-*")], "https://d", "d", "web", false),
        (vec![("", "!prod", "*")], "https://d", "dev", "web", true),
        (vec![("", "!prod", "*")], "https://p", "prod", "web", false),
        (vec![("*", "", "*"), ("*", "!prod", "*")], "https://p", "prod", "web", false),
        (vec![("*", "", "*"), ("*", "!prod", "*")], "https://d", "dev", "web", true),
        // The namespace of a negated name does not matter, that of a negated server does.
        (vec![("*", "", "*"), ("", "!prod", "other")], "https://p", "prod", "web", false),
        (vec![("*", "", "*"), ("!https://c", "", "other")], "https://c", "c", "web", true),
        (vec![("!https://c", "", "!kube-*")], "https://d", "d", "web", true),
        (vec![("!https://c", "", "!kube-*")], "https://c", "c", "web", false),
        (vec![("!https://c", "", "!kube-*")], "https://d", "d", "kube-system", false),
        (vec![("!{c", "", "*")], "https://d", "d", "web", false),
        // A namespace that is not named is not permitted, only denied.
        (vec![("!https://c", "", "")], "https://d", "d", "web", false),
        (vec![("*", "", "*"), ("!https://c", "", "")], "https://c", "c", "web", false),
    ] {
        let destinations = list.iter().map(|(server, name, namespace)| ProjectDestination {
            name: (*name).to_owned(),
            ..destination(server, namespace)
        });
        let spec = AppProjectSpec { destinations: destinations.collect(), ..project() };
        let got = project::destination_rule(&spec, server, name, namespace).is_none();
        assert_eq!(got, want, "SE-071: {list:?} for {server}, {name}, {namespace}");
    }
    let several = vec![destination("*", "*"), destination("*", "!{victim,kube-system}")];
    assert!(!goes(several.clone(), "victim") && !goes(several.clone(), "kube-system"));
    assert!(goes(several, "web"));
    let unreadable = vec![destination("*", "*"), destination("*", "![a")];
    assert!(!goes(unreadable.clone(), "web"), "an invalid pattern denies");
    let spec = AppProjectSpec { destinations: unreadable, ..project() };
    let problems = project::project_problems(&spec);
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].starts_with("spec.destinations[1].namespace: pattern \"[a\""));

    let a = project::Name::Known("a");
    let bare = AppProjectSpec { cluster_resource_whitelist: vec![], ..project() };
    assert!(!project::permits_kind(&bare, "", "Namespace", a, false), "SE-072");
    assert!(project::permits_kind(&bare, "", "ConfigMap", a, true), "SE-074: absent is all");
    let none = AppProjectSpec { namespace_resource_whitelist: Some(vec![]), ..project() };
    assert!(!project::permits_kind(&none, "", "ConfigMap", a, true), "SE-074: empty is none");
}

#[test]
fn an_unknown_name_is_matched_by_its_prefix() {
    use project::Name::{Begins, Known};
    let pattern = |name: &str| {
        let value = json!({"group": "", "kind": "ConfigMap", "name": name});
        vec![serde_json::from_value(value).unwrap()]
    };
    // Pattern, name, whether a list with it allows, whether it denies.
    let cases = [
        ("team-*", Known("team-a"), true, true),
        ("team-*", Begins("team-a-"), true, true),
        ("team-*", Begins("te"), false, true),
        ("team-*", Begins("other-"), false, false),
        ("team-?", Begins("team-"), false, true),
        ("team-a", Begins("team-"), false, true),
        ("*", Begins("x"), true, true),
        ("[ab]*", Begins("c"), false, true),
        ("", Begins("x"), true, true),
    ];
    for (name, of, allows, denies) in cases {
        let white = Some(pattern(name));
        let white = AppProjectSpec { namespace_resource_whitelist: white, ..project() };
        let allowed = project::permits_kind(&white, "", "ConfigMap", of, true);
        assert_eq!(allowed, allows, "{name} {of:?}");
        let black = AppProjectSpec { namespace_resource_blacklist: pattern(name), ..project() };
        let allowed = project::permits_kind(&black, "", "ConfigMap", of, true);
        assert_eq!(!allowed, denies, "{name} {of:?}");
    }
}

#[test]
fn errors_of_a_spec_name_the_field() {
    let cases = [
        ("fine", json!({}), ""),
        ("SE-012", json!({"destination": {"name": "x"}}), "can't have both name and server"),
        (
            "SE-012",
            json!({"destination": {"server": null}}),
            "Destination server missing from app spec",
        ),
        ("SE-031", json!({"source": {"repoURL": null}}), "spec.source.repoURL is required"),
        ("SE-031", json!({"source": {"path": null}}), "spec.source.path or"),
        ("SE-031", json!({"source": {"path": null, "chart": "c"}}), "targetRevision is required"),
        ("SE-029", json!({"sourceHydrator": {}}), "sourceHydrator is not supported"),
        ("SE-031", json!({"sources": [{"repoURL": "r", "ref": "values"}]}), ""),
    ];
    for (name, change, want) in cases {
        let mut spec = application()["spec"].clone();
        json_patch::merge(&mut spec, &change);
        let problems = spec::spec_problems(&wavegate_api::read_typed(&spec).unwrap());
        match want {
            "" => assert!(problems.is_empty(), "{name}: {problems:?}"),
            want => assert!(problems[0].message.contains(want), "{name}: {problems:?}"),
        }
    }
    assert_eq!(project::shown("https://me:secret@example.com/r"), "https://example.com/r");
    let normal =
        spec::normalized_spec(&json!({"project": "", "syncPolicy": {}, "source": {"helm": {}}}));
    assert_eq!(normal, Some(json!({"project": "default", "source": {}})), "SE-030");
    let zero = json!({
        "project": "p", "syncPolicy": {"syncOptions": []},
        "source": {
            "directory": {"recurse": false, "jsonnet": {"libs": []}},
            "helm": {"valueFiles": [], "skipCrds": false, "releaseName": ""},
            "kustomize": {"images": [], "namePrefix": ""},
        },
    });
    let without = json!({"project": "p", "source": {}});
    assert_eq!(spec::normalized_spec(&zero), Some(without), "SE-030: what sets nothing");
    let some = json!({
        "project": "p", "syncPolicy": {"automated": {}},
        "source": {"directory": {"exclude": "a"}, "helm": {"own": false}},
    });
    assert_eq!(spec::normalized_spec(&some), None, "SE-030: fields that are not known stay");
}

#[test]
fn targets_have_a_namespace_tracking_and_unique_keys() {
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "reader", "namespace": "stray"}});
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.x.io"},
        "spec": {"group": "x.io", "scope": "Cluster", "names": {"kind": "Widget"}}});
    let widget = json!({"apiVersion": "x.io/v1", "kind": "Widget", "metadata": {"name": "w"}});
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "l"}});
    let mut second = map("one");
    second["data"]["a"] = "2".into();
    let placed = placed(&[map("one"), role, crd, widget, lease, second, map("two")]);
    let id =
        |index: usize| placed.targets[index].object["metadata"]["annotations"][TRACKING].clone();
    let names: Vec<&str> = placed.targets.iter().map(|t| t.key.name.as_str()).collect();
    assert_eq!(names, ["reader", "widgets.x.io", "w", "one", "two"], "SE-138: the last one counts");
    assert_eq!(id(0), "app:rbac.authorization.k8s.io/ClusterRole:web/reader", "SE-111");
    assert_eq!(placed.targets[0].object["metadata"]["namespace"], Value::Null, "SE-131");
    assert_eq!(id(1), Value::Null, "SE-105: definitions are not tracked");
    assert_eq!(placed.targets[2].key.namespace, "", "SE-131: the source itself knows the scope");
    assert_eq!(id(3), "app:/ConfigMap:web/one", "SE-111");
    assert_eq!(placed.targets[3].object["data"]["a"], "2");
    let messages: Vec<&str> = placed.conditions.iter().map(|c| c.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "Resource coordination.k8s.io/Lease l is excluded in the settings",
            "Resource /ConfigMap/web/one appeared 2 times among application resources.",
        ]
    );
    let nowhere =
        targets::place_targets(vec![map("one")], "", &tracking(), &scope, &KindFilter::default());
    assert!(nowhere.conditions[0].message.starts_with("Namespace for one"), "SE-132");
}

#[test]
fn resources_are_synced_out_of_sync_or_extraneous() {
    let placed = placed(&[map("same"), map("changed"), map("missing")]);
    let mut all: BTreeMap<_, _> = placed.targets[..2].iter().map(live).collect();
    let changed = all.get_mut(&placed.targets[1].key).unwrap();
    Arc::make_mut(changed)["data"]["a"] = "other".into();
    let surplus = self::placed(&[map("surplus")]);
    all.extend(surplus.targets.iter().map(live));
    let mut copy = live(&surplus.targets[0]);
    copy.0.name = "copy".into();
    let object = Arc::make_mut(&mut copy.1);
    object["metadata"]["name"] = "copy".into();
    object["metadata"]["uid"] = "another".into();
    all.extend([copy]);
    let mut owned = live(&self::placed(&[map("owned")]).targets[0]);
    Arc::make_mut(&mut owned.1)["metadata"]["ownerReferences"] = json!([{"uid": "x"}]);
    all.extend([owned]);

    let comparison = compared(&application(), &placed, &all);
    let rows: Vec<(&str, Option<&str>, bool)> = (comparison.resources.iter())
        .map(|r| (r.key.name.as_str(), r.status().map(|s| s.as_str()), r.requires_pruning()))
        .collect();
    assert_eq!(
        rows,
        [
            ("changed", Some("OutOfSync"), false),
            ("copy", None, false),
            ("missing", Some("OutOfSync"), false),
            ("same", Some("Synced"), false),
            ("surplus", Some("OutOfSync"), true),
        ],
        "SE-115, SE-116, SE-145, SE-149"
    );
    assert_eq!(comparison.sync, diff::SyncStatus::OutOfSync);
}

/// The label was left out in silence (SE-112). Names of Applications begin with a letter or a
/// digit, so only another writer than the API server can name one like this.
#[test]
fn a_name_of_which_no_label_is_left_is_an_error() {
    let of = |instance: &str, method| {
        let tracking = Tracking { instance: instance.to_owned(), method, ..tracking() };
        let none = KindFilter::default();
        targets::place_targets(vec![map("one"), map("two")], "web", &tracking, &scope, &none)
            .conditions
    };
    let both = TrackingMethod::AnnotationAndLabel;
    let refused = of("---", both);
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(refused[0].is_error() && refused[0].message.contains("\"---\""), "{refused:?}");
    assert_eq!(of("---", TrackingMethod::Annotation), []);
    assert_eq!(of("a--", both), []);
}

#[test]
fn objects_that_the_project_hides_are_ignored() {
    let placed = placed(&[map("one")]);
    let surplus = self::placed(&[map("surplus")]);
    let all: BTreeMap<_, _> = placed.targets.iter().chain(&surplus.targets).map(live).collect();
    let none = AppProjectSpec { namespace_resource_whitelist: Some(vec![]), ..project() };
    let comparison = compared_in(&none, &application(), &placed, &all);
    let names: Vec<&str> = comparison.resources.iter().map(|r| r.key.name.as_str()).collect();
    assert_eq!(names, ["one"], "SE-082");
    assert_eq!(comparison.resources[0].status().unwrap().as_str(), "Unknown", "SE-146");
}

#[test]
fn a_status_is_written_once_and_keeps_other_fields() {
    let placed = placed(&[map("one")]);
    let all: BTreeMap<_, _> = placed.targets.iter().map(live).collect();
    let mut app = application();
    app["status"] = json!({"history": [{"id": 0}], "custom": true,
        "conditions": [{"type": "SyncError", "message": "old", "lastTransitionTime": "x"}]});
    let comparison = compared(&app, &placed, &all);
    let revisions = ["abc".to_owned()];
    let types = ["Directory".to_owned()];
    let below = Default::default();
    let about = |reconciled, now| status::About {
        below: &below,
        revisions: &revisions,
        source_types: &types,
        resource_health: true,
        controller_namespace: "argocd",
        reconciled,
        now,
    };
    let mut first = app.clone();
    changed(&mut first, |app| {
        status::write_comparison(app, &comparison, Vec::new(), &[], &about(true, at(0)))
    });
    assert_eq!(first["status"]["sync"]["comparedTo"]["source"], app["spec"]["source"]);
    assert_eq!(first["status"]["custom"], true);
    assert_eq!(first["status"]["conditions"][0]["message"], "old", "SE-060: not ours to replace");
    for part in ["/resources/0", "/sync", "/health"] {
        first["status"].pointer_mut(part).unwrap()["unknown"] = json!(7);
    }
    let mut second = first.clone();
    changed(&mut second, |app| {
        status::write_comparison(app, &comparison, Vec::new(), &[], &about(false, at(60)))
    });
    assert_eq!(merge_patch(&first, &second), None, "nothing has changed");
    assert_eq!(refresh::asked_for(&App::of(first.clone())), None);

    let failure = [NewCondition::comparison("cannot read")];
    changed(&mut second, |app| status::write_failure(app, &failure, None, false, at(90)));
    assert_eq!(second["status"]["health"]["unknown"], 7);
    assert_eq!(second["status"]["sync"]["status"], "Unknown");
    assert_eq!(second["status"]["sync"]["revision"], "abc", "the last known one stays");
    assert_eq!(second["status"]["resources"], first["status"]["resources"]);
    assert_eq!(second["status"]["reconciledAt"], first["status"]["reconciledAt"]);
}

#[test]
fn an_unchanged_condition_keeps_its_time() {
    let old = |message: &str| ApplicationCondition {
        type_: "ComparisonError".to_owned(),
        message: message.to_owned(),
        last_transition_time: Some(Time(at(-9))),
    };
    let mut list = vec![old("a"), old("b")];
    let new = [NewCondition::comparison("c"), NewCondition::comparison("a")];
    condition::replace(&mut list, condition::OF_COMPARISON, &new, at(0));
    let added = ApplicationCondition { last_transition_time: Some(Time(at(0))), ..old("c") };
    assert_eq!(list, [old("a"), added], "SE-060");
}

#[test]
fn reasons_of_refreshes() {
    let mut compared = application();
    compared["status"]["sync"]["comparedTo"] = status::compared_to(&compared["spec"]);
    let cases = [
        ("nothing", json!({}), None),
        (
            "annotation",
            json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": "x"}}}),
            Some(Level::Newest),
        ),
        ("source", json!({"spec": {"source": {"targetRevision": "v2"}}}), Some(Level::Newest)),
        (
            "destination",
            json!({"spec": {"destination": {"namespace": "b"}}}),
            Some(Level::Revision),
        ),
        ("ignored", json!({"spec": {"ignoreDifferences": [{"kind": "A"}]}}), Some(Level::Revision)),
        ("empty list", json!({"spec": {"ignoreDifferences": []}}), None),
    ];
    for (name, change, want) in cases {
        let mut app = compared.clone();
        json_patch::merge(&mut app, &change);
        assert_eq!(refresh::asked_for(&App::of(app)).map(|r| r.level), want, "SE-377 {name}");
    }
}

/// Makes a change in an Application as decisions do.
pub(super) fn changed(application: &mut Value, change: impl FnOnce(&mut App)) {
    let mut app = App::of(application.clone());
    change(&mut app);
    store(application, &app);
}

/// Stores what was decided.
pub(super) fn store(application: &mut Value, app: &App) {
    *application = app.written().unwrap_or_else(|| app.stored().clone());
}

pub(super) fn state_of(application: &Value) -> OperationState {
    Fields::of(application).status.operation_state
}

fn stage(application: &Value) -> operation::OperationStage {
    operation::operation_stage(&Fields::of(application))
}

/// Why an Application is compared.
pub(super) fn reason(
    memory: &ApplicationMemory,
    application: &Value,
    occasion: &RefreshTrigger,
    now: Timestamp,
) -> Option<Reason> {
    memory.reason(&App::of(application.clone()), digest_of(&application["spec"]), occasion, now)
}

#[test]
fn an_operation_starts_and_ends() {
    use operation::OperationStage;
    let mut app = application();
    app["operation"] = json!({"sync": {"revision": "abc"}, "initiatedBy": {"username": "me"}});
    assert_eq!(stage(&app), OperationStage::Requested);
    changed(&mut app, |app| {
        operation::begin_operation(app, at(0));
        operation::pin(app, &["abc".to_owned()]);
    });
    assert_eq!(stage(&app), OperationStage::InProgress);
    assert_eq!(operation::pinned_revisions(&state_of(&app)), ["abc"]);
    assert_eq!(
        operation::operation_sources(&App::of(app.clone())),
        [app["spec"]["source"].clone()]
    );
    changed(&mut app, |app| operation::finish(app, OperationPhase::Succeeded, "done", at(5)));
    assert_eq!(stage(&app), OperationStage::Idle);
    assert_eq!(app.get("operation"), None, "SE-372");
    let entry = &app["status"]["history"][0];
    assert_eq!((&entry["id"], &entry["revision"]), (&json!(0), &json!("abc")), "SE-385");
    assert_eq!(entry["initiatedBy"]["username"], "me");

    app["operation"] = json!({"sync": {"revision": "def", "dryRun": true}});
    changed(&mut app, |app| operation::begin_operation(app, at(0)));
    assert_eq!(operation::started(&state_of(&app)), Some(at(1)), "never the same second twice");
    let other = json!({"sync": {"revision": "ghi"}});
    app["operation"] = other.clone();
    changed(&mut app, |app| operation::finish(app, OperationPhase::Succeeded, "done", at(1)));
    assert_eq!(app["operation"], other, "a newer request stays");
    assert_eq!(app["status"]["history"].as_array().unwrap().len(), 1, "SE-385: no dry runs");

    app["spec"]["revisionHistoryLimit"] = 1.into();
    changed(&mut app, |app| operation::begin_operation(app, at(9)));
    changed(&mut app, |app| operation::finish(app, OperationPhase::Succeeded, "done", at(9)));
    assert_eq!(app["status"]["history"].as_array().unwrap().len(), 1, "SE-028");
    assert_eq!(app["status"]["history"][0]["id"], 1);
}

/// The status has whole seconds: a revision that was resolved in the second of the start may
/// be older than the operation.
#[test]
fn after_an_operation_only_revisions_since_its_start_count_as_se_372() {
    let mut app = application();
    app["status"]["sync"]["comparedTo"] = status::compared_to(&app["spec"]);
    app["status"]["operationState"] = json!({"phase": "Succeeded", "startedAt": at(5)});
    let began = at(5) + SignedDuration::from_millis(400);
    let newest = ComparisonRequest::new(Level::Newest);
    let cases = [
        // What this process knows of the start, another request, its age and that of the
        // operation 1 s after its second, whether a revision that was synced will do.
        (Some(began), ComparisonRequest::default(), 2000, 600, true),
        (Some(began), ComparisonRequest::default(), 100, 100, true),
        (None, ComparisonRequest::default(), 2000, 1000, true),
        (Some(began), newest, 2000, 600, false),
    ];
    for (operation_began, request, asked, age, accepts_synced) in cases {
        let last_spec = Some(digest_of(&app["spec"]));
        let known = ApplicationMemory {
            operation_began,
            last_spec,
            checked_at: Some(at(5)),
            ..ApplicationMemory::default()
        };
        let occasion =
            RefreshTrigger { request, after_operation: true, ..RefreshTrigger::default() };
        let reason = reason(&known, &app, &occasion, at(6)).unwrap();
        assert_eq!(reason.request.level, Level::Newest);
        assert_eq!(reason.age(Duration::from_millis(asked), at(6)), Duration::from_millis(age));
        assert_eq!(reason.accepts_synced, accepts_synced);
    }
}

#[test]
fn delays_of_self_heal_grow_to_their_limit() {
    let heal = SelfHeal::default();
    let pauses: Vec<i64> = (0..9).map(|attempts| heal.pause(attempts).as_secs()).collect();
    assert_eq!(pauses, [0, 2, 6, 18, 54, 162, 300, 300, 300], "SE-426");
    let fixed =
        SelfHeal { initial: SignedDuration::ZERO, fixed: SignedDuration::from_secs(5), ..heal };
    assert_eq!(fixed.pause(7).as_secs(), 5, "SE-426");
}

#[test]
fn automated_sync_starts_only_if_permitted() {
    let placed = placed(&[map("one")]);
    let surplus: BTreeMap<_, _> = self::placed(&[map("old")]).targets.iter().map(live).collect();
    let both: BTreeMap<_, _> = placed.targets.iter().map(live).chain(surplus.clone()).collect();
    let nothing = BTreeMap::new();
    let policy = |value: Value| json!({"spec": {"syncPolicy": {"automated": value}}});
    let tried = |phase: &str| {
        json!({
            "spec": {"syncPolicy": {"automated": {"selfHeal": true}}},
            "status": {"operationState": {
                "phase": phase, "message": "broken", "finishedAt": "2023-11-14T22:13:20Z",
                "operation": {"sync": {}},
                "syncResult": {"revision": "abc", "source": application()["spec"]["source"]},
            }},
        })
    };
    let decide = |change: Value, placed: &Placed, live: &BTreeMap<_, _>, allowed: bool| {
        let mut app = application();
        json_patch::merge(&mut app, &change);
        let spec = wavegate_api::read_typed(&app["spec"]).unwrap();
        let comparison = compared(&app, placed, live);
        let heal = SelfHeal::default();
        let app = App::of(app);
        auto_sync::decide(&app, &spec, &comparison, &["abc".to_owned()], &heal, allowed, at(0))
    };
    let started = |decision: AutoSync| matches!(decision, AutoSync::Start(_));
    assert!(started(decide(policy(json!({})), &placed, &nothing, true)));
    assert!(!started(decide(policy(json!({})), &placed, &nothing, false)), "windows");
    assert!(!started(decide(policy(json!({"enabled": false})), &placed, &nothing, true)), "SE-015");
    assert!(!started(decide(json!({}), &placed, &nothing, true)), "SE-420: not automated");
    assert!(!started(decide(policy(json!({})), &placed, &both, true)), "SE-421: only surplus");
    assert!(started(decide(policy(json!({"prune": true})), &placed, &both, true)));
    let empty = Placed::default();
    let wiped = decide(policy(json!({"prune": true})), &empty, &surplus, true);
    let want = "Skipping sync attempt to [abc]: auto-sync will wipe out all resources";
    assert!(matches!(wiped, AutoSync::Refuse(c) if c.message == want), "SE-427");
    assert!(started(decide(
        policy(json!({"prune": true, "allowEmpty": true})),
        &empty,
        &surplus,
        true
    )));
    let failed = decide(tried("Failed"), &placed, &nothing, true);
    let want = "Failed last sync attempt to [abc]: broken";
    assert!(matches!(failed, AutoSync::Refuse(c) if c.message == want), "SE-423");
    let AutoSync::Start(healing) = decide(tried("Succeeded"), &placed, &nothing, true) else {
        panic!("SE-425: the first attempt needs no pause");
    };
    assert_eq!(healing["sync"]["autoHealAttemptsCount"], 1);
    assert_eq!(healing["sync"]["resources"][0]["namespace"], "web", "SE-431");
    assert_eq!(healing["retry"]["limit"], 5, "SE-395");

    // SE-597: a request has a limited size, and names first what a sync changes.
    let many: Vec<Value> = (0..1500).map(|index| map(&format!("old-{index:04}"))).collect();
    let many = self::placed(&many);
    let many: BTreeMap<_, _> = many.targets.iter().map(live).collect();
    let one = self::placed(&[map("one")]);
    let mut automated = tried("Succeeded");
    automated["spec"]["syncPolicy"]["automated"]["prune"] = false.into();
    let AutoSync::Start(healing) = decide(automated, &one, &many, true) else {
        panic!("one is missing");
    };
    let named = healing["sync"]["resources"].as_array().unwrap();
    assert_eq!((named.len(), &named[0]["name"]), (1000, &json!("one")));
}

/// A sync of some resources, and a dry run, deploy no commit: the last deployment says which one was
/// attempted (SE-422).
#[test]
fn a_sync_of_some_resources_is_no_attempt_of_its_commit_as_se_422() {
    let placed = placed(&[map("one")]);
    let some = json!({"sync": {"resources": [{"kind": "ConfigMap", "name": "one"}]}});
    let healing = json!({"initiatedBy": {"automated": true}, "sync": some["sync"]});
    let dry_healing = json!({"initiatedBy": {"automated": true},
        "sync": {"dryRun": true, "resources": some["sync"]["resources"]}});
    // The operation, its phase and revision, the one deployed last, and the decision.
    for (name, operation, phase, revision, deployed, want) in [
        ("never", Value::Null, "", "", "", "starts all"),
        ("the whole commit", json!({"sync": {}}), "Succeeded", "abc", "abc", "heals"),
        ("another commit", json!({"sync": {}}), "Succeeded", "old", "old", "starts all"),
        ("it failed", json!({"sync": {}}), "Failed", "abc", "", "refuses"),
        ("some resources", some.clone(), "Succeeded", "abc", "old", "starts all"),
        ("some resources of what is deployed", some.clone(), "Succeeded", "abc", "abc", "heals"),
        ("some resources failed", some, "Failed", "abc", "", "starts all"),
        ("a dry run", json!({"sync": {"dryRun": true}}), "Succeeded", "abc", "", "starts all"),
        ("self-heal", healing, "Failed", "abc", "", "refuses"),
        ("a dry run of self-heal", dry_healing, "Failed", "abc", "", "starts all"),
    ] {
        let mut app = application();
        app["spec"]["syncPolicy"] = json!({"automated": {"selfHeal": true}});
        let source = app["spec"]["source"].clone();
        if !operation.is_null() {
            app["status"]["operationState"] = json!({
                "phase": phase, "finishedAt": "2023-11-14T22:13:20Z", "operation": operation,
                "syncResult": {"revision": revision, "source": source},
            });
        }
        if !deployed.is_empty() {
            app["status"]["history"] = json!([{"id": 0, "revision": deployed, "source": source}]);
        }
        let spec = wavegate_api::read_typed(&app["spec"]).unwrap();
        let comparison = compared(&app, &placed, &BTreeMap::new());
        let (app, heal) = (App::of(app), SelfHeal::default());
        let revisions = ["abc".to_owned()];
        let found = auto_sync::decide(&app, &spec, &comparison, &revisions, &heal, true, at(0));
        let found = match &found {
            AutoSync::Start(operation) if operation["sync"]["resources"].is_array() => "heals",
            AutoSync::Start(_) => "starts all",
            AutoSync::Refuse(_) => "refuses",
            AutoSync::Wait(_) => "waits",
            AutoSync::Nothing => "nothing",
        };
        assert_eq!(found, want, "{name}");
    }
}

/// A controller copies annotations to an object of its own, which no sync changes: it was synced
/// again and again (SE-116, SE-145, SE-421, SE-607).
#[test]
fn a_copy_of_a_resource_is_no_reason_for_an_automated_sync_se_421() {
    let placed = placed(&[map("one")]);
    let surplus = self::placed(&[map("old")]);
    let mut all: BTreeMap<_, _> = placed.targets.iter().chain(&surplus.targets).map(live).collect();
    let mut copy = live(&placed.targets[0]);
    copy.0.name = "copy".into();
    let object = Arc::make_mut(&mut copy.1);
    object["metadata"]["name"] = "copy".into();
    object["metadata"]["uid"] = "another".into();
    all.extend([copy]);
    let decide = |all: &BTreeMap<_, _>, prune: bool| {
        let mut app = application();
        app["spec"]["syncPolicy"] = json!({"automated": {"selfHeal": true, "prune": prune}});
        app["status"]["operationState"] = json!({
            "phase": "Succeeded", "finishedAt": "2023-11-14T22:13:20Z", "operation": {"sync": {}},
            "syncResult": {"revision": "abc", "source": app["spec"]["source"]},
        });
        let spec = wavegate_api::read_typed(&app["spec"]).unwrap();
        let comparison = compared(&app, &placed, all);
        let (app, heal) = (App::of(app), SelfHeal::default());
        auto_sync::decide(&app, &spec, &comparison, &["abc".to_owned()], &heal, true, at(0))
    };
    assert_eq!(decide(&all, false), AutoSync::Nothing);
    let AutoSync::Start(healing) = decide(&all, true) else {
        panic!("there is something to prune")
    };
    let names: Vec<&Value> =
        healing["sync"]["resources"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["old"]);
    all.retain(|key, _| key.name != "one");
    assert!(matches!(decide(&all, false), AutoSync::Start(_)), "one is missing");
}

#[test]
fn deletion_starts_with_the_highest_wave() {
    use deletion::CascadeStep;
    let note = |name: &str, key: &str, value: &str| {
        let mut object = map(name);
        object["metadata"]["annotations"][key] = value.into();
        object
    };
    let wave = "argocd.argoproj.io/sync-wave";
    let options = "argocd.argoproj.io/sync-options";
    let all = |manifests: &[Value]| -> BTreeMap<_, _> {
        placed(manifests).targets.iter().map(live).collect()
    };
    let names = |cascade: CascadeStep| match cascade {
        CascadeStep::Delete(keys) => keys.into_iter().map(|key| key.name).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let app = application();
    let managed = all(&[note("a", wave, "1"), note("b", wave, "5"), map("c")]);
    assert_eq!(names(deletion::decide_cascade(&app, &managed, at(0))), ["b"], "SE-514");
    let kept =
        all(&[note("a", options, "Delete=false"), note("b", "helm.sh/resource-policy", "keep")]);
    assert_eq!(deletion::decide_cascade(&app, &kept, at(0)), CascadeStep::Done, "SE-314, SE-326");
    let confirm = all(&[note("a", options, "Delete=confirm")]);
    assert!(
        matches!(deletion::decide_cascade(&app, &confirm, at(0)), CascadeStep::Held(_)),
        "SE-315"
    );
    let mut approved = app.clone();
    approved["metadata"]["annotations"] =
        json!({"argocd.argoproj.io/deletion-approved": "2023-01-01T00:00:00Z"});
    assert_eq!(names(deletion::decide_cascade(&approved, &confirm, at(0))), ["a"], "SE-315");
    let mut going = all(&[map("a"), map("b")]);
    let first = going.values_mut().next().unwrap();
    Arc::make_mut(first)["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    assert!(
        matches!(deletion::decide_cascade(&app, &going, at(0)), CascadeStep::Wait(_)),
        "SE-514"
    );
}

/// An Application of the same name in another cluster was left behind by the deletion of the one
/// that had created it.
#[test]
fn an_application_of_the_same_name_is_itself_only_with_its_uid_as_se_514() {
    let mut app = application();
    app["metadata"]["namespace"] = "web".into();
    let named = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": "app"}});
    let placed = placed(&[named]);
    for (uid, of_app, is_itself) in [
        (json!("own"), json!("own"), true),
        (json!("another"), json!("own"), false),
        (Value::Null, Value::Null, false),
        (json!(""), json!(""), false),
    ] {
        app["metadata"]["uid"] = of_app;
        let (key, mut object) = live(&placed.targets[0]);
        Arc::make_mut(&mut object)["metadata"]["uid"] = uid.clone();
        let managed = BTreeMap::from([(key.clone(), object)]);
        let want = match is_itself {
            true => deletion::CascadeStep::Done,
            false => deletion::CascadeStep::Delete(vec![key]),
        };
        assert_eq!(deletion::decide_cascade(&app, &managed, at(0)), want, "{uid}");
    }
}

/// Server-side apply identifies ports by it, before the server takes it for TCP.
#[test]
fn an_empty_protocol_of_a_port_is_removed_from_a_target() {
    let ports = json!([{"port": 80, "protocol": ""}, {"port": 81, "protocol": "UDP"}]);
    let expected = json!([{"port": 80}, {"port": 81, "protocol": "UDP"}]);
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "spec": {"ports": ports}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "main", "ports": ports}]}});
    let custom = json!({"apiVersion": "example.com/v1", "kind": "Service",
        "metadata": {"name": "c"}, "spec": {"ports": ports}});
    let placed = placed(&[service, pod, custom]);
    let spec = |at: usize| &placed.targets[at].object["spec"];
    assert_eq!(spec(0)["ports"], expected);
    assert_eq!(spec(1)["containers"][0]["ports"], expected);
    assert_eq!(spec(2)["ports"], ports, "of another kind");
}

#[test]
fn only_finalizers_of_others_hold_a_deletion_as_se_518() {
    let app = application();
    let cases = [
        ("foregroundDeletion", false),
        ("kubernetes.io/pvc-protection", false),
        ("kubernetes.io/pv-protection", false),
        ("batch.kubernetes.io/job-tracking", false),
        ("service.kubernetes.io/load-balancer-cleanup", false),
        ("argocd.argoproj.io/hook-finalizer", false),
        ("resources-finalizer.argocd.argoproj.io", false),
        ("resources-finalizer.argocd.argoproj.io/background", false),
        ("post-delete-finalizer.argocd.argoproj.io/cleanup", false),
        ("example.com/hold", true),
        ("kubernetes.io/other", true),
        ("argocd.argoproj.io/other", true),
    ];
    for (finalizer, holds) in cases {
        let mut target = map("a");
        target["metadata"]["finalizers"] = json!([finalizer]);
        target["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let going = placed(&[target]).targets.iter().map(live).collect();
        let found = deletion::decide_cascade(&app, &going, at(0));
        assert_eq!(
            matches!(found, deletion::CascadeStep::Held(_)),
            holds,
            "{finalizer}: {found:?}"
        );
        assert_eq!(
            matches!(found, deletion::CascadeStep::Wait(_)),
            !holds,
            "{finalizer}: {found:?}"
        );
    }
}
