//! A comparison as fields of the status, and what is logged and announced of it, as tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::events::{ApplicationEvent, StatusChange};
use super::summary::{summary, with_below, with_links_of};
use super::warnings::unlisted_condition;
use super::{About, dry_run, row, write_comparison};
use crate::app::App;
use crate::compared::ComparedResource;
use crate::pairs::ComparedApplication;
use wavegate_api::app_status::ApplicationSummary;
use wavegate_api::operation::SyncPhase;
use wavegate_api::sync_options::SyncOptions;
use wavegate_api::time::from_rfc3339;
use wavegate_api::{ResourceKey, SyncStatusCode};
use wavegate_engine::health::{Health, Status};
use wavegate_engine::sync::ObjectClass;

const NOW: &str = "2026-01-01T00:00:00Z";

/// An ordinary resource that is in the source and in the cluster, and in sync.
fn resource(target: Value) -> ComparedResource {
    let target = Arc::new(target);
    ComparedResource {
        key: ResourceKey::from_object(&target).unwrap(),
        version: "v1".to_owned(),
        live: Some(Arc::clone(&target)),
        target: Some(target),
        class: ObjectClass::Resource,
        modified: false,
        is_comparable: true,
        predicted: None,
        health: None,
        self_referenced: true,
        permitted: true,
        managed_namespace: false,
    }
}

fn object(api_version: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "web"}})
}

fn map() -> Value {
    object("v1", "ConfigMap", "a")
}

/// A dry run logs each intended write, and nothing of what stays.
#[test]
fn a_dry_run_logs_what_a_write_changes_as_161() {
    let idle = json!({"status": {"sync": {"status": "Synced"}, "health": {"status": "Healthy"}}});
    let with = |changes: Value| {
        let mut application = idle.clone();
        json_patch::merge(&mut application, &changes);
        application
    };
    let rows = json!([
        {"kind": "Namespace", "name": "web", "status": "OutOfSync"},
        {"group": "apps", "kind": "Deployment", "namespace": "web", "name": "a",
         "status": "OutOfSync"},
        {"group": "apps", "kind": "Deployment", "namespace": "web", "name": "old",
         "status": "OutOfSync", "requiresPruning": true},
        {"kind": "Service", "namespace": "web", "name": "a", "status": "Synced",
         "health": {"status": "Degraded"}},
        {"kind": "Pod", "namespace": "web", "name": "hook"},
    ]);
    let rows = json!({"status": {"resources": rows}});
    let starts = |sync: Value| {
        let mut application = with(rows.clone());
        application["operation"] = json!({"sync": sync});
        application
    };
    let one = json!([{"group": "apps", "kind": "Deployment", "name": "a"}]);
    let several = json!({"revisions": ["a", "b"], "prune": true});
    let running = with(json!({"status": {"operationState": {"phase": "Running"}}}));
    let new_words = json!({"status": {"sync": {"status": "OutOfSync"},
                                      "health": {"status": "Degraded"}}});
    let condition = |type_: &str| json!({"type": type_, "message": "why"});
    let one_condition = json!({"status": {"conditions": [condition("A")]}});
    let two_conditions = json!({"status": {"conditions": [condition("A"), condition("B")]}});
    let refresh =
        json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": "hard", "b": "c"}}});
    let finalizers = |list: Value| json!({"metadata": {"finalizers": list}});
    let deleted = |list: Value| json!({"metadata": {"deletionTimestamp": NOW, "finalizers": list}, "operation": {}});
    let cases: [(&str, Value, Value, &[&str]); 17] = [
        ("nothing", idle.clone(), idle.clone(), &[]),
        ("resources alone", idle.clone(), with(rows.clone()), &[]),
        (
            "an automated sync",
            idle.clone(),
            starts(json!({"revision": "abc"})),
            &[
                "start an automated sync to abc",
                "apply Namespace web",
                "apply Deployment web/a",
                "leave, since the sync does not prune, Deployment web/old",
            ],
        ),
        (
            "one that prunes",
            idle.clone(),
            starts(several),
            &[
                "start an automated sync to a, b",
                "apply Namespace web",
                "apply Deployment web/a",
                "prune Deployment web/old",
            ],
        ),
        (
            "one of some resources",
            idle.clone(),
            starts(json!({"resources": one})),
            &["start an automated sync to ", "apply Deployment web/a"],
        ),
        (
            "a requested one, which has begun",
            starts(json!({"resources": one})),
            with(rows.clone()),
            &[
                "start the requested operation",
                "apply Namespace web",
                "apply Deployment web/a",
                "leave, since the sync does not prune, Deployment web/old",
            ],
        ),
        ("a running one", running.clone(), running.clone(), &["continue the running operation"]),
        (
            "words",
            idle.clone(),
            with(new_words.clone()),
            &[
                "set status.sync.status from Synced to OutOfSync",
                "set status.health.status from Healthy to Degraded",
            ],
        ),
        (
            "the first words",
            json!({}),
            new_words,
            &[
                "set status.sync.status from nothing to OutOfSync",
                "set status.health.status from nothing to Degraded",
            ],
        ),
        (
            "a condition",
            one_condition.clone(),
            two_conditions.clone(),
            &["set the condition B: why"],
        ),
        ("one that goes", two_conditions, one_condition, &[]),
        (
            "a refresh",
            refresh.clone(),
            json!({}),
            &["remove the annotation argocd.argoproj.io/refresh"],
        ),
        ("a refresh that stays", refresh.clone(), refresh.clone(), &[]),
        ("a refresh that comes", json!({}), refresh, &[]),
        (
            "finalizers",
            finalizers(json!(["a"])),
            finalizers(json!(["a", "b"])),
            &["set the finalizers a, b"],
        ),
        (
            "a deletion",
            deleted(json!(["a", "b"])),
            json!({}),
            &["delete its resources, and remove the finalizers a, b"],
        ),
        ("a deletion without finalizers", deleted(json!([])), json!({}), &[]),
    ];
    for (name, before, after, want) in cases {
        assert_eq!(dry_run::intended_writes(&before, &after), want, "{name}");
    }
}

/// Images of the live object, else of the target; of Pods and what makes some, but not of hooks.
#[test]
fn the_summary_has_images_urls_and_applications_se_061() {
    let pod = |image: &str| {
        json!({"containers": [{"image": image}, {"name": "none"}],
               "initContainers": [{"image": format!("{image}-init")}]})
    };
    let with = |mut object: Value, spec: Value| {
        object["spec"] = spec;
        object
    };
    let deployment = |image: &str| {
        with(object("apps/v1", "Deployment", "a"), json!({"template": {"spec": pod(image)}}))
    };
    let mut changed = resource(deployment("new"));
    changed.live = Some(Arc::new(deployment("old")));
    let mut absent = resource(with(object("v1", "Pod", "b"), pod("absent")));
    absent.live = None;
    let mut hook = resource(with(object("v1", "Pod", "c"), pod("hook")));
    hook.class = ObjectClass::Hook(vec![]);
    let mut job = json!({"jobTemplate": {"spec": {"template": {"spec": pod("job")}}}});
    job["containers"] = Value::Null;
    let cron = resource(with(object("batch/v1", "CronJob", "d"), job));
    let url = json!({"annotations": {"link.argocd.argoproj.io/a": "https://a"}});
    let mut linked = map();
    json_patch::merge(&mut linked, &json!({"metadata": url}));
    let mut gone = resource(linked.clone());
    gone.live = None;
    let of = |resources: &[ComparedResource]| json!(summary(resources));

    assert_eq!(of(&[]), json!({}));
    let all = [changed, absent, hook, cron, resource(map())];
    let images = ["absent", "absent-init", "job", "job-init", "old", "old-init"];
    assert_eq!(of(&all), json!({"images": images}));
    assert_eq!(of(&[resource(linked)]), json!({"externalURLs": ["https://a"]}));
    assert_eq!(of(&[gone]), json!({}), "links of live objects only");
    for (api_version, kind, want) in [
        ("argoproj.io/v1alpha1", "Application", true),
        ("argoproj.io/v1alpha1", "AppProject", false),
        ("app.k8s.io/v1beta1", "Application", false),
    ] {
        let found = summary(&[resource(object(api_version, kind, "a"))]).is_app_of_apps;
        assert_eq!(found, want, "{api_version} {kind}");
    }
}

/// Of both, each once and sorted.
#[test]
fn summaries_are_joined_as_ca_506() {
    let of = |images: &[&str], urls: &[&str], is_app_of_apps: bool| ApplicationSummary {
        images: images.iter().map(|&one| one.to_owned()).collect(),
        external_urls: urls.iter().map(|&one| one.to_owned()).collect(),
        is_app_of_apps,
    };
    let (own, below) =
        (of(&["b", "a"], &["https://b"], false), of(&["c", "a"], &["https://a"], false));
    let joined = of(&["a", "b", "c"], &["https://a", "https://b"], false);
    assert_eq!(with_below(&own, &below), joined);
    for (own, below, want) in [(true, false, true), (false, true, true), (true, true, true)] {
        let both = with_below(&of(&[], &[], own), &of(&[], &[], below));
        assert_eq!(both.is_app_of_apps, want, "{own}, {below}");
    }
    let links = json!({"metadata": {"annotations": {"link.argocd.argoproj.io/x": "https://0"}}});
    let linked = with_links_of(&links, &joined);
    assert_eq!(linked, of(&["a", "b", "c"], &["https://0", "https://a", "https://b"], false));
}

/// One row says all that is known of a resource (SE-058), and whether its deletion is to be
/// confirmed: by its own option, else by that of the Application (SE-301).
#[test]
fn a_row_of_the_status_is_one_resource_se_058() {
    let with = |change: fn(&mut ComparedResource)| {
        let mut resource = resource(map());
        change(&mut resource);
        resource
    };
    let options = |item: &str| {
        let annotations = json!({"argocd.argoproj.io/sync-options": item,
                                 "argocd.argoproj.io/sync-wave": "-3"});
        let mut target = map();
        target["metadata"]["annotations"] = annotations;
        resource(target)
    };
    let plain = json!({"version": "v1", "kind": "ConfigMap", "namespace": "web", "name": "a"});
    let and = |more: Value| {
        let mut row = plain.clone();
        json_patch::merge(&mut row, &more);
        row
    };
    let missing = and(json!({"status": "OutOfSync", "health": {"status": "Missing"}}));
    let confirmed = json!({"status": "Synced", "requiresDeletionConfirmation": true,
                           "syncWave": -3});
    let not_confirmed = json!({"status": "Synced", "syncWave": -3});
    let cases = [
        ("in sync", resource(map()), "", and(json!({"status": "Synced"}))),
        (
            "with its health",
            with(|one| one.health = Some(Health::new(Status::Degraded, "why"))),
            "",
            and(json!({"status": "Synced", "health": {"status": "Degraded", "message": "why"}})),
        ),
        ("not in the cluster", with(|one| one.live = None), "", missing),
        (
            "a hook that has not run",
            with(|one| (one.live, one.class) = (None, ObjectClass::Hook(vec![SyncPhase::PreSync]))),
            "",
            and(json!({"hook": true})),
        ),
        (
            "skipped",
            with(|one| (one.live, one.class) = (None, ObjectClass::Skipped)),
            "",
            plain.clone(),
        ),
        (
            "no longer in the source",
            with(|one| one.target = None),
            "",
            and(json!({"status": "OutOfSync", "requiresPruning": true})),
        ),
        ("its own option", options("Delete=confirm"), "", and(confirmed.clone())),
        ("also for pruning", options("Prune=confirm"), "", and(confirmed.clone())),
        ("that of the Application", options("x"), "Prune=confirm", and(confirmed)),
        ("its own first", options("Delete=false"), "Delete=confirm", and(not_confirmed)),
    ];
    for (name, resource, of_application, want) in cases {
        let own = SyncOptions::from_list([of_application]);
        assert_eq!(json!(row(&resource, true, &own)), want, "{name}");
        let mut without = want;
        without.as_object_mut().unwrap().remove("health");
        assert_eq!(json!(row(&resource, false, &own)), without, "{name}, without its health");
    }
}

/// What a comparison writes: rows in their order, sources by their number, and when.
#[test]
fn a_comparison_is_written_to_the_status_se_055() {
    let one = json!({"source": {"repoURL": "r"}, "destination": {"server": "s"}});
    let two = json!({"sources": [{"repoURL": "r"}, {"repoURL": "s"}]});
    let before = json!({"sourceType": "Helm", "sourceTypes": ["Helm", "Helm"],
                        "health": {"status": "Healthy", "lastTransitionTime": "2025-01-01T00:00:00Z"}});
    let compared = |health: Status| ComparedApplication {
        sync: SyncStatusCode::Synced,
        health: Health::new(health, ""),
        resources: vec![resource(map()), resource(object("v1", "Secret", "b"))],
        left: Vec::new(),
        conditions: Vec::new(),
        health_error: None,
        summary: ApplicationSummary { images: vec!["i".to_owned()], ..Default::default() },
        shared: Vec::new(),
        is_predicted: true,
    };
    let unread = row(&resource(object("v1", "Pod", "z")), false, &SyncOptions::default());
    let write = |spec: &Value, types: &[&str], unread, health, reconciled| {
        let mut app = App::of(json!({"spec": spec, "status": before}));
        let types: Vec<String> = types.iter().map(|&one| one.to_owned()).collect();
        let revisions = ["a".to_owned(), "b".to_owned()];
        let about = About {
            revisions: &revisions[..types.len().clamp(1, 2)],
            source_types: &types,
            below: &ApplicationSummary::default(),
            resource_health: false,
            controller_namespace: "argocd",
            reconciled,
            now: from_rfc3339(NOW).unwrap(),
        };
        write_comparison(&mut app, &compared(health), unread, &[], &about);
        json!(app.status)
    };
    let status = write(&one, &["Kustomize"], vec![], Status::Healthy, true);
    assert_eq!(
        status["sync"],
        json!({
        "status": "Synced", "revision": "a",
        "comparedTo": {"source": {"repoURL": "r"}, "destination": {"server": "s"}}})
    );
    assert_eq!(status["sourceType"], "Kustomize");
    assert_eq!(status.get("sourceTypes"), None);
    assert_eq!(status["reconciledAt"], NOW);
    assert_eq!(status["controllerNamespace"], "argocd");
    assert_eq!(status["resourceHealthSource"], "appTree");
    assert_eq!(status["summary"], json!({"images": ["i"]}));
    let since = |status: &Value| status["health"]["lastTransitionTime"].clone();
    assert_eq!(since(&status), "2025-01-01T00:00:00Z", "the same health");
    assert_eq!(status.get("conditions"), None, "all resources are listed");
    let names = |status: &Value| -> Vec<String> {
        let rows = status["resources"].as_array().unwrap();
        rows.iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&status), ["a", "b"]);

    let status = write(&two, &["Helm", "Directory"], vec![unread], Status::Degraded, false);
    assert_eq!(status["sync"]["revisions"], json!(["a", "b"]));
    assert_eq!(status["sourceTypes"], json!(["Helm", "Directory"]));
    assert_eq!(status.get("sourceType"), None);
    assert_eq!(status.get("reconciledAt"), None);
    assert_eq!(since(&status), NOW, "another health");
    assert_eq!(names(&status), ["a", "z", "b"], "by kind");

    for unknown in [&[][..], &[""]] {
        let status = write(&one, unknown, vec![], Status::Healthy, true);
        assert_eq!(status["sourceType"], "Helm", "kept where it is not known: {unknown:?}");
    }
}

/// Kinds that cannot be listed are named, ten at most (SE-432).
#[test]
fn kinds_that_cannot_be_listed_are_a_condition_se_432() {
    let of = |count: usize| {
        let kinds = (0..count).map(|at| (format!("k{at:02}"), format!("why {at}")));
        unlisted_condition(&kinds.collect()).map(|found| (found.type_, found.message))
    };
    assert!(unlisted_condition(&BTreeMap::new()).is_none());
    let rest = ": objects of these kinds that are no longer in the source are not pruned; grant \
                the permission to list them, or delete such objects manually: why 0";
    let ten: Vec<String> = (0..10).map(|at| format!("k{at:02}")).collect();
    let ten = ten.join(", ");
    for (count, want) in [
        (1, "cannot list k00".to_owned()),
        (10, format!("cannot list {ten}")),
        (11, format!("cannot list {ten} and 1 more")),
    ] {
        let (_, message) = of(count).unwrap();
        assert_eq!(message, format!("{want}{rest}"));
    }
}

fn change(before: Value, after: Value) -> StatusChange {
    StatusChange::of(&json!({"status": before}), &json!({"status": after}))
}

/// Changes of the words of a comparison, each an Event of its own subject (SE-541).
#[test]
fn changed_words_are_events_se_541() {
    use super::events::Subject::{Health as OfHealth, SyncStatus};
    let before = json!({"reconciledAt": "t1", "sync": {"status": "Synced"},
        "health": {"status": "Healthy"}, "operationState": {"startedAt": "s", "finishedAt": "f"}});
    let with = |change: Value| {
        let mut status = before.clone();
        json_patch::merge(&mut status, &change);
        status
    };
    let of = |before: Value, after: Value| -> Vec<_> {
        let parts = |event: ApplicationEvent| {
            assert_eq!((event.reason, event.action), ("ResourceUpdated", "Compare"));
            assert!(!event.warning);
            (event.subject, event.text, event.change)
        };
        change(before, after).events().into_iter().map(parts).collect()
    };
    assert_eq!(of(before.clone(), with(json!({"reconciledAt": "t2"}))), []);
    let sync = "Updated sync status: Synced -> OutOfSync";
    assert_eq!(
        of(before.clone(), with(json!({"sync": {"status": "OutOfSync"}}))),
        [(SyncStatus, sync.to_owned(), format!("{sync} since \"t1\" \"s\" \"f\"")),]
    );
    let health = "Updated health status: Healthy -> Degraded";
    let degraded = with(json!({"health": {"status": "Degraded", "message": "why"}}));
    assert_eq!(
        of(before.clone(), degraded),
        [(OfHealth, format!("{health} (why)"), format!("{health} since \"t1\" \"s\" \"f\"")),]
    );
    let timed = with(json!({"health": {"lastTransitionTime": "h"}}));
    assert_eq!(
        of(timed, with(json!({"health": {"status": "Degraded"}}))),
        [(OfHealth, health.to_owned(), format!("{health} since \"h\"")),]
    );
}

/// What identifies the start and the end of an operation, and when there is an end at all.
#[test]
fn an_operation_is_named_by_its_start_se_541() {
    let state = |phase: &str, started: &str, finished: Value| {
        json!({"operationState": {"phase": phase, "startedAt": started, "finishedAt": finished,
            "message": "why", "operation": {"sync": {"revision": "abc"}},
            "syncResult": {"revision": "abc"}}})
    };
    let of = |before: &Value, after: &Value| -> Vec<(bool, &str, String, String)> {
        let events = change(before.clone(), after.clone()).events().into_iter();
        events.map(|event| (event.warning, event.reason, event.text, event.change)).collect()
    };
    let none = Value::Null;
    let running = state("Running", "s1", none.clone());
    let succeeded = state("Succeeded", "s1", json!("f1"));
    let end = (
        false,
        "OperationCompleted",
        "Sync operation to abc succeeded".to_owned(),
        "end of the operation at \"s1\": \"Succeeded\"".to_owned(),
    );
    assert_eq!(of(&running, &succeeded), std::slice::from_ref(&end));
    assert_eq!(of(&succeeded, &succeeded), []);
    assert_eq!(of(&state("Succeeded", "s1", json!("f0")), &succeeded), [end], "another end");
    let failed = state("Failed", "s1", json!("f1"));
    assert!(of(&succeeded, &failed)[0].0, "another outcome");
    assert_eq!(of(&succeeded, &failed)[0].2, "Sync operation to abc failed: why");
    // Between two attempts, a running operation has an end of the last one.
    assert_eq!(of(&running, &state("Running", "s1", json!("f1"))), []);
    let start = |text: &str, after: &str| {
        (
            false,
            "OperationStarted",
            text.to_owned(),
            format!("start of the operation after {after}: {{\"sync\":{{\"revision\":\"abc\"}}}}"),
        )
    };
    let automated = "Sync operation started";
    assert_eq!(of(&succeeded, &state("Running", "s2", none)), [start(automated, "\"s1\"")]);
    let partial = json!({"operationState": {"phase": "Succeeded", "startedAt": "s1",
        "finishedAt": "f1", "operation": {"sync": {"resources": [{"kind": "Pod", "name": "a"}]}}}});
    assert_eq!(of(&running, &partial)[0].2, "Partial sync operation succeeded");
    let all = json!({"operationState": {"phase": "Succeeded", "startedAt": "s1",
        "finishedAt": "f1", "operation": {"sync": {"resources": []}}}});
    assert_eq!(of(&running, &all)[0].2, "Sync operation succeeded");
}

/// Clients wait for the end of an operation, for the first comparison after it, and for a state
/// that is Synced and Healthy.
#[test]
fn what_clients_wait_for_is_announced_se_541() {
    let status = |finished: &str, reconciled: &str, sync: &str, health: &str| {
        json!({"operationState": {"finishedAt": finished}, "reconciledAt": reconciled,
               "sync": {"status": sync}, "health": {"status": health}})
    };
    let (early, end, late) =
        ("2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z");
    let base = status(end, early, "OutOfSync", "Progressing");
    let cases = [
        ("nothing new", base.clone(), base.clone(), false),
        ("compared at the end", base.clone(), status(end, end, "OutOfSync", "Progressing"), true),
        ("compared later", base.clone(), status(end, late, "OutOfSync", "Progressing"), true),
        (
            "compared again",
            status(end, late, "OutOfSync", "Progressing"),
            status(end, late, "OutOfSync", "Degraded"),
            false,
        ),
        ("without an end", base.clone(), status("", late, "OutOfSync", "Degraded"), false),
        ("good", base.clone(), status(end, early, "Synced", "Healthy"), true),
        ("healthy alone", base.clone(), status(end, early, "OutOfSync", "Healthy"), false),
        ("synced alone", base.clone(), status(end, early, "Synced", "Degraded"), false),
        (
            "good before",
            status(end, early, "Synced", "Healthy"),
            status(end, early, "Synced", "Healthy"),
            false,
        ),
        ("no longer good", status(end, early, "Synced", "Healthy"), base.clone(), false),
    ];
    let some = change(json!({}), json!({"sync": {"status": "Synced"}})).events();
    for (name, before, after, want) in cases {
        let change = change(before, after);
        assert_eq!(change.announces(&some), want, "{name}");
        assert!(!change.announces(&[]), "{name}, with no Event");
    }
    let ended = json!({"operationState": {"phase": "Succeeded", "finishedAt": end}});
    let ended = change(json!({}), ended).events();
    assert!(change(base.clone(), base).announces(&ended), "the end of the operation");
}
