//! Tables A.10, A.11 and A.14 of the ApplicationSet specification.

mod conditions;
mod deletions;
mod ended_run;
mod events;
mod finalizers;
mod generations;
mod ignored;
mod later;
mod mutations;
mod others;
mod outcomes;
mod plans;
mod rollouts;
mod statuses;
mod waits;
mod windows;
mod writes;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::application_set::generate::autosync;
use crate::application_set::generate::generated::{Collector, Generated};
use crate::application_set::generate::ignore::Ignore;
use crate::application_set::generate::policy::Policy;
use crate::application_set::generate::validate::{self, KnownTargets};
use crate::application_set::plan::observe::Existing;
use crate::application_set::plan::operation;
use crate::application_set::plan::owner::owner_reference;
use crate::application_set::plan::update::Rules;
use crate::application_set::plan::{OperationPolicy, REFRESHES_PER_RECONCILE};
use crate::desired::Generation;
use crate::desired::inputs::Reads;
use crate::rollout::Start;
use wavegate_api::annotations::REFRESH;
use wavegate_api::live::LiveSpec;
use wavegate_api::{API_VERSION, Cluster};
use wavegate_engine::promotion::promotion_of;

fn set() -> Value {
    json!({"metadata": {"name": "set", "uid": "u", "resourceVersion": "1"}, "spec": {}})
}

fn generated(name: &str, spec: Value) -> Value {
    json!({"metadata": {"name": name, "namespace": "argocd"}, "spec": spec})
}

/// The generated Application as it lives in the cluster, owned by the set.
fn live(generated: &Value) -> Value {
    let mut live = generated.clone();
    live["metadata"]["uid"] = "app-uid".into();
    live["metadata"]["resourceVersion"] = "5".into();
    live["metadata"]["ownerReferences"] = json!([owner_reference(&Identity::of(&set()))]);
    live
}

/// Generates these Applications for a set.
fn generated_by(set: &Value, settings: &DecisionSettings, applications: &[Value]) -> Generated {
    let mut collector = Collector::new(set, settings);
    for (index, application) in applications.iter().enumerate() {
        collector.add(application.clone(), &format!("elements[{index}]"));
    }
    collector.finish(set, settings, Reads::default(), None)
}

/// Plans for one generated and one live Application.
fn plan_one(
    set: &Value,
    generated: Option<&Value>,
    live: Option<&Value>,
    policy: Policy,
) -> WritePlan {
    plan_with(set, generated, live, policy, &BTreeMap::new(), &[])
}

fn plan_with<'a>(
    set: &Value,
    generated: impl IntoIterator<Item = &'a Value>,
    live: impl IntoIterator<Item = &'a Value>,
    policy: Policy,
    operations: &BTreeMap<String, OperationPolicy>,
    refreshes: &[String],
) -> WritePlan {
    let wanted: Vec<Value> = generated.into_iter().cloned().collect();
    let generated =
        generated_by(set, &DecisionSettings { policy, ..DecisionSettings::default() }, &wanted);
    let id = Identity::of(set);
    let rules = Rules { policy, ..Rules::of(&id, &generated) };
    let existing: Vec<Existing> = live
        .into_iter()
        .map(|live| {
            let wanted = generated.get(crate::desired::name_of(live));
            Existing::read(live, wanted.map(|wanted| wanted.written(false)).as_ref(), &rules)
        })
        .collect();
    plan_writes(&PlanInput {
        set: &id,
        generated: &generated.applications,
        invalid: &BTreeMap::new(),
        existing: &existing,
        keeps_resources: generated.keeps_resources,
        clusters: &[],
        in_rollout: false,
        policy,
        operations,
        records: &BTreeMap::new(),
        refreshes,
        others: &[],
    })
}

#[test]
fn a_reconcile_requests_a_few_refreshes_the_most_urgent_first() {
    let names: Vec<String> =
        (0..REFRESHES_PER_RECONCILE + 6).map(|n| format!("app-{n:02}")).collect();
    let wanted: Vec<Value> = names.iter().map(|name| generated(name, spec())).collect();
    let mut existing: Vec<Value> = wanted.iter().map(live).collect();
    // These cannot be refreshed, or need not be; they do not count.
    existing[13]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    existing[12]["metadata"]["ownerReferences"][0]["uid"] = "other".into();
    existing[11]["metadata"]["annotations"] = json!({ REFRESH: "hard" });
    let last_first: Vec<String> = names.iter().rev().cloned().chain(["gone".to_owned()]).collect();
    let operation = BTreeMap::from([(
        "app-10".to_owned(),
        OperationPolicy {
            operation: json!({"sync": {}}),
            record: None,
            started: None,
            is_taken_up: true,
        },
    )]);
    let plan = plan_with(&set(), &wanted, &existing, Policy::Sync, &operation, &last_first);
    let asks = |patch: &&Patch| patch.body()["metadata"]["annotations"][REFRESH] == "normal";
    let asked: Vec<&Patch> = plan.patches.iter().filter(asks).collect();
    let patched: Vec<&str> = asked.iter().map(|patch| patch.name.as_str()).collect();
    assert_eq!(patched, &names[3..11], "in name order");
    for patch in asked {
        assert_eq!(patch.starts, patch.name == "app-10");
        assert!(!patch.changes_spec);
    }
    assert_eq!(plan.postponed, 3);
    assert_eq!(plan.refused.len(), 1);
}

fn patch_of(set: &Value, generated: &Value, live: &Value) -> Option<Value> {
    let mut plan = plan_one(set, Some(generated), Some(live), Policy::Sync);
    plan.patches.pop().map(|patch| patch.body())
}

/// Whether a rollout sees another spec.
fn differs(set: &Value, wanted: &Value, live: &Value) -> bool {
    let generated = generated_by(set, &DecisionSettings::default(), &[]);
    let id = Identity::of(set);
    let rules = Rules { policy: Policy::Sync, ..Rules::of(&id, &generated) };
    Existing::read(live, Some(wanted), &rules).observed.spec_differs
}

fn spec() -> Value {
    json!({"project": "default", "source": {"repoURL": "r", "path": "p"}, "destination": {"name": "in-cluster"}})
}

#[test]
fn an_equal_application_is_not_written_and_a_changed_field_alone_is_patched_as_152() {
    let want = generated("a", spec());
    assert_eq!(patch_of(&set(), &want, &live(&want)), None);
    let mut changed = want.clone();
    changed["spec"]["source"]["path"] = "q".into();
    changed["metadata"]["labels"] = json!({"new": "1"});
    let mut old = live(&want);
    old["metadata"]["labels"] = json!({"old": "1"});
    old["status"] = json!({"sync": {}});
    old["operation"] = json!({"sync": {}});
    let want = json!({
        "spec": {"source": {"path": "q"}},
        "metadata": {"labels": {"new": "1", "old": null}},
    });
    assert_eq!(patch_of(&set(), &changed, &old), Some(want), "row 207: status and operation stay");
}

#[test]
fn fields_without_effect_are_not_a_difference_as_153() {
    let cases = [
        (208, json!({"syncPolicy": {}}), json!({})),
        (208, json!({"syncPolicy": {"syncOptions": [], "automated": null}}), json!({})),
        (0, json!({"project": ""}), json!({"project": "default"})),
        (0, json!({"source": {"helm": {}, "directory": {}}}), json!({"source": {}})),
        (0, json!({"sources": [{"kustomize": {}}]}), json!({"sources": [{}]})),
        (0, json!({"info": []}), json!({})),
    ];
    for (row, a, b) in cases {
        for (a, b) in [(&a, &b), (&b, &a)] {
            let (want, have) = (generated("a", a.clone()), live(&generated("a", b.clone())));
            assert_eq!(patch_of(&set(), &want, &have), None, "row {row}: {a} and {b}");
            assert!(!differs(&set(), &want, &have), "row {row}");
        }
    }
}

#[test]
fn an_empty_automated_block_enables_automated_sync() {
    // Without this, an AllAtOnce set with an empty block never synced
    // automatically.
    let automated = json!({"syncPolicy": {"automated": {}}});
    let (with, without) = (generated("a", automated.clone()), generated("a", json!({})));
    let patch = patch_of(&set(), &with, &live(&without)).unwrap();
    assert_eq!(patch["spec"]["syncPolicy"], automated["syncPolicy"]);
    assert_eq!(patch_of(&set(), &with, &live(&with)), None);
    let patch = patch_of(&set(), &without, &live(&with)).unwrap();
    assert_eq!(patch["spec"]["syncPolicy"], Value::Null);
    let created = plan_one(&set(), Some(&with), None, Policy::Sync).creates;
    let created: Value = serde_json::from_str(&created[0].json).unwrap();
    assert_eq!(created["spec"]["syncPolicy"], automated["syncPolicy"]);
}

#[test]
fn policies_allow_the_writes_of_as_150() {
    let want = generated("a", spec());
    let mut other = live(&want);
    other["spec"]["project"] = "other".into();
    let gone = live(&generated("gone", spec()));
    let cases = [
        ("sync", true, true),
        ("create-update", true, false),
        ("create-delete", false, true),
        ("create-only", false, false),
    ];
    for (name, updates, deletes) in cases {
        let policy = Policy::from_name(name).unwrap();
        let update = plan_one(&set(), Some(&want), Some(&other), policy);
        assert_eq!(!update.patches.is_empty(), updates, "row 199: {name}");
        let delete = plan_one(&set(), None, Some(&gone), policy);
        assert_eq!(
            delete.deletes.iter().any(|delete| delete.uid == "app-uid"),
            deletes,
            "row 199: {name}"
        );
        assert_eq!(plan_one(&set(), Some(&want), None, policy).creates.len(), 1);
    }
    assert_eq!(Policy::Sync.effective(Some("create-only"), false), Policy::Sync, "row 197");
    assert_eq!(Policy::Sync.effective(Some("create-only"), true), Policy::CreateOnly, "row 198");
    assert_eq!(Policy::from_name("nope"), None);
}

#[test]
fn applications_of_other_owners_are_not_changed_as_151_as_158_as_159() {
    let want = generated("a", spec());
    let mut foreign = live(&want);
    foreign["metadata"]["ownerReferences"][0]["uid"] = "another-set-of-the-same-name".into();
    foreign["spec"]["project"] = "other".into();
    let plan = plan_one(&set(), Some(&want), Some(&foreign), Policy::Sync);
    assert_eq!(
        (plan.patches.len(), plan.refused.len()),
        (0, 1),
        "owned by a controller that is not us"
    );
    assert_eq!(
        plan_one(&set(), None, Some(&foreign), Policy::Sync),
        WritePlan::default(),
        "and never deleted"
    );

    let mut unowned = foreign.clone();
    unowned["metadata"]["ownerReferences"] = json!([{"uid": "x", "kind": "Team"}]);
    let plan = plan_one(&set(), Some(&want), Some(&unowned), Policy::CreateOnly);
    assert_eq!((plan.patches.len(), plan.refused.len()), (0, 1), "AS-151");
    let adopted = patch_of(&set(), &want, &unowned).unwrap();
    let owners = &adopted["metadata"]["ownerReferences"];
    assert_eq!((&owners[0]["uid"], &owners[1]["uid"]), (&json!("x"), &json!("u")));

    let mut leaving = live(&generated("gone", spec()));
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    assert_eq!(plan_one(&set(), None, Some(&leaving), Policy::Sync), WritePlan::default());
}

#[test]
fn metadata_is_preserved_as_in_table_a_11() {
    let mut want = generated("a", spec());
    want["metadata"]["annotations"] = json!({"preserved": "2"});
    want["metadata"]["finalizers"] = json!(["resources-finalizer.argocd.argoproj.io"]);
    let mut have = live(&want);
    have["metadata"]["annotations"] = json!({
        "notified.notifications.argoproj.io": "x", "argocd.argoproj.io/refresh": "normal",
        "argocd.argoproj.io/refresh-timestamp": "2026-01-01T00:00:00.5Z",
        "argocd.argoproj.io/hydrate": "y", "other": "1", "preserved": "1",
        // A person has written it for a deletion that waits for it (SE-313, SE-315).
        "argocd.argoproj.io/deletion-approved": "2026-01-01T00:00:00Z",
    });
    have["metadata"]["finalizers"] = json!([
        "pre-delete-finalizer.argocd.argoproj.io",
        "post-delete-finalizer.argocd.argoproj.io/cleanup",
        "foo",
    ]);
    let mut set = set();
    set["spec"]["preservedFields"] = json!({"annotations": ["preserved"]});
    let patch = patch_of(&set, &want, &have).unwrap();
    assert_eq!(patch["metadata"]["annotations"], json!({"other": null}), "rows 204, 205");
    assert_eq!(
        patch["metadata"]["finalizers"],
        json!([
            "resources-finalizer.argocd.argoproj.io",
            "pre-delete-finalizer.argocd.argoproj.io",
            "post-delete-finalizer.argocd.argoproj.io/cleanup",
        ]),
        "row 206"
    );
}

/// AS-154: what a template asks for once is not asked for again when it is done.
#[test]
fn a_refresh_that_a_template_requests_ends_as_154() {
    let mut want = generated("a", spec());
    want["metadata"]["annotations"] = json!({REFRESH: "hard", "other": "1"});
    let have = live(&want);
    assert_eq!(patch_of(&set(), &want, &have), None, "it waits to be obeyed");
    let mut obeyed = have;
    obeyed["metadata"]["annotations"] = json!({"other": "0"});
    let patch = patch_of(&set(), &want, &obeyed).unwrap();
    assert_eq!(patch["metadata"]["annotations"], json!({"other": "1"}));
    obeyed["metadata"]["annotations"] = json!({"other": "1"});
    assert_eq!(patch_of(&set(), &want, &obeyed), None);
}

#[test]
fn ignored_fields_are_neither_compared_nor_written_as_162_to_165() {
    let sources = |first: &str, second: &str| {
        json!({"project": "default", "sources": [
            {"repoURL": "r1", "targetRevision": first}, {"repoURL": "r2", "targetRevision": second},
        ]})
    };
    let mut set = set();
    set["spec"]["ignoreApplicationDifferences"] = json!([{"jqPathExpressions": [".spec.sources[] | select(.repoURL==\"r1\").targetRevision"]}]);
    let have = live(&generated("a", sources("fix", "main")));
    assert_eq!(patch_of(&set, &generated("a", sources("main", "main")), &have), None, "row 214");
    let patch = patch_of(&set, &generated("a", sources("main", "v2")), &have).unwrap();
    assert_eq!(patch["spec"]["sources"], sources("fix", "v2")["sources"], "row 215: r1 stays fix");

    set["spec"]["ignoreApplicationDifferences"] = json!([
        {"name": "a", "jsonPointers": ["/spec/source/targetRevision", "/metadata/labels/live"]},
    ]);
    let mut want = generated("a", spec());
    want["spec"]["source"]["targetRevision"] = "main".into();
    let mut have = live(&generated("a", spec()));
    have["spec"]["source"]["targetRevision"] = "hotfix".into();
    have["metadata"]["labels"] = json!({"live": "1"});
    assert_eq!(patch_of(&set, &want, &have), None);
    assert!(!differs(&set, &want, &have), "I13: both paths agree");
    set["spec"]["ignoreApplicationDifferences"][0]["name"] = "b".into();
    assert!(patch_of(&set, &want, &have).is_some(), "the rule is for another Application");

    set["spec"]["ignoreApplicationDifferences"] =
        json!([{"jqPathExpressions": [".spec | input"], "jsonPointers": ["no-slash"]}]);
    let (_, problems) = Ignore::read(&set, &wavegate_engine::diff::Jq::default());
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(
        problems[0]
            .message
            .contains("spec.ignoreApplicationDifferences[0].jsonPointers: \"no-slash\"")
    );
}

#[test]
fn operations_are_those_of_table_a_10() {
    let start = Start {
        application: "a".into(),
        promotion: "2026-01-02T03:04:05Z".parse().unwrap(),
        revisions: Vec::new(),
        step: 1,
        started: None,
        is_taken_up: true,
    };
    let build = |policy: Value| {
        let mut application = generated("a", spec());
        application["spec"]["syncPolicy"] = policy;
        operation::build(&start, "set", &application)
    };
    let plain = build(json!(null));
    assert_eq!(
        plain["initiatedBy"],
        json!({"username": "applicationset-controller", "automated": true}),
        "row 190"
    );
    assert_eq!((&plain["sync"], &plain["retry"]), (&json!({}), &json!({"limit": 5})), "row 190");
    assert_eq!(
        plain["info"][1],
        json!({"name": "RollingSync", "value": "2026-01-02T03:04:05.000000000Z"}),
        "AS-361"
    );
    assert_eq!(promotion_of(&plain), Some(start.promotion));
    let full = build(
        json!({"retry": {"limit": 10}, "syncOptions": ["CreateNamespace=true"], "automated": {"prune": true}}),
    );
    assert_eq!(
        full["sync"],
        json!({"syncOptions": ["CreateNamespace=true"], "prune": true}),
        "row 191"
    );
    assert_eq!(full["retry"], json!({"limit": 10}), "row 191");
    assert_eq!(
        build(json!({"automated": {"prune": true, "enabled": false}}))["sync"],
        json!({}),
        "row 192"
    );
    assert_eq!(build(json!({"automated": {}}))["sync"], json!({}), "row 193");
    assert_eq!(build(json!({"retry": {"limit": 0}}))["retry"], json!({"limit": 0}), "row 195");

    let pinned = Start { revisions: vec!["abc".into()], ..start.clone() };
    let mut application = generated("a", spec());
    assert_eq!(operation::build(&pinned, "set", &application)["sync"], json!({"revision": "abc"}));
    application["spec"]["sources"] = json!([{}, {}]);
    assert_eq!(
        operation::build(&pinned, "set", &application)["sync"],
        json!({"revisions": ["abc"]})
    );
}

#[test]
fn automated_sync_is_disabled_as_370() {
    let disabled = |policy: Value| {
        let mut application = json!({"spec": {"syncPolicy": policy}});
        let enabled = LiveSpec::of(&application).is_automated();
        autosync::disable(&mut application);
        (enabled, application["spec"]["syncPolicy"].clone())
    };
    assert_eq!(
        disabled(json!({"automated": {"prune": true}})),
        (true, json!({"automated": {"enabled": false, "prune": true}})),
        "row 191"
    );
    assert_eq!(
        disabled(json!({"automated": {}})),
        (true, json!({"automated": {"enabled": false}})),
        "row 193"
    );
    assert_eq!(disabled(json!({"retry": {}})), (false, json!({"retry": {}})), "row 194");
    let mut bare = json!({"spec": {}});
    autosync::disable(&mut bare);
    assert_eq!(bare, json!({"spec": {}}));
}

#[test]
fn a_start_contains_the_version_that_it_was_decided_on() {
    let want = generated("a", spec());
    let operation = OperationPolicy {
        operation: json!({"sync": {}}),
        record: None,
        started: None,
        is_taken_up: true,
    };
    let operations = [("a".to_owned(), operation)].into();
    let have = live(&want);
    let plan = plan_with(&set(), Some(&want), Some(&have), Policy::Sync, &operations, &[]);
    assert_eq!(
        plan.patches[0].body(),
        json!({"operation": {"sync": {}}, "metadata": {"resourceVersion": "5"}})
    );
    assert!(plan.patches[0].starts && !plan.patches[0].changes_spec);
}

fn cluster(name: &str, server: &str) -> Cluster {
    Cluster { name: name.into(), server: server.into(), ..Cluster::default() }
}

#[test]
fn invalid_applications_are_named_as_in_table_a_11() {
    let known = KnownTargets {
        projects: ["default".to_owned()].into(),
        namespace: "argocd".to_owned(),
        clusters: vec![
            cluster("in-cluster", "https://kubernetes.default.svc"),
            cluster("twin", "https://1"),
            cluster("twin", "https://2"),
        ],
    };
    let problem = |name: &str, project: &str, destination: Value| {
        let mut application =
            generated(name, json!({"project": project, "destination": destination}));
        application["apiVersion"] = API_VERSION.into();
        application["kind"] = "Application".into();
        validate::validation_problems(&Generation::of([application]), &known).into_values().next()
    };
    let server = || json!({"server": "https://kubernetes.default.svc/"});
    let cases = [
        (0, problem("a", "", server()), None),
        (0, problem("a", "default", json!({"name": "in-cluster"})), None),
        (
            210,
            problem("a", "nope", server()),
            Some("spec.project: AppProject nope does not exist in namespace argocd"),
        ),
        (
            211,
            problem("a", "default", json!({"name": "in-cluster", "server": "https://1"})),
            Some("both"),
        ),
        (
            212,
            problem("a", "default", json!({"name": "unknown"})),
            Some("cluster unknown not found"),
        ),
        (0, problem("a", "default", json!({"name": "twin"})), Some("2 clusters")),
        (0, problem("a", "default", json!({"server": "https://3"})), Some("https://3")),
        (219, problem("a", "default", json!({})), Some("spec.destination")),
        (213, problem("", "default", server()), Some("empty name")),
    ];
    for (row, got, want) in cases {
        match want {
            None => assert_eq!(got, None, "row {row}"),
            Some(text) => {
                assert!(got.as_ref().is_some_and(|got| got.contains(text)), "row {row}: {got:?}")
            }
        }
    }
    let twins = ["a", "a", "b"].map(|name| {
        let mut application = generated(name, json!({"destination": server()}));
        application["apiVersion"] = API_VERSION.into();
        application["kind"] = "Application".into();
        application
    });
    let problems = validate::validation_problems(&Generation::of(twins), &known);
    assert_eq!(problems.keys().collect::<Vec<_>>(), ["a"], "row 209");
    assert!(problems["a"].contains("elements[0] and elements[1]"), "{problems:?}");
}
