//! Automated syncs that would delete everything, warnings of a sync, and Applications that a
//! rollback holds, as tables.

use super::*;
use crate::auto_sync::refuses_to_empty;
use crate::held_back::held_revisions;
use crate::warnings::warnings;
use wavegate_api::run::RunStart;

fn with(mut object: Value, changes: &Value) -> Value {
    json_patch::merge(&mut object, changes);
    object
}

/// An operation that no user has asked for never prunes all that is left (SE-018).
#[test]
fn an_unasked_operation_does_not_wipe_out_all_resources_se_018() {
    let (left, both) = (placed(&[map("a")]), placed(&[map("a"), map("b")]));
    let live: BTreeMap<_, _> = left.targets.iter().map(live).collect();
    let app = application();
    let gone = compared(&app, &placed(&[]), &live);
    let kept = compared(&app, &both, &live);
    let nothing = compared(&app, &placed(&[]), &BTreeMap::new());
    let hook = {
        let annotations = json!({"metadata": {"annotations": {"argocd.argoproj.io/hook": "Sync"}}});
        let placed = placed(&[with(map("h"), &annotations)]);
        let live: BTreeMap<_, _> =
            live.clone().into_iter().chain(placed.targets.iter().map(super::live)).collect();
        compared(&app, &placed, &live)
    };
    let sync = json!({"prune": true});
    let automated = json!({"automated": true});
    let own = json!({"sync": sync, "initiatedBy": automated});
    let user = json!({"sync": sync});
    let refreshed = json!({"sync": sync, "retry": {"refresh": true}});
    let refused = |request: &Value, retries: i64, allow_empty: bool, comparison| {
        let state = json!({"operation": request, "retryCount": retries,
            "syncResult": {"revision": "abc"}});
        let state: OperationState = wavegate_api::read_leniently(&state);
        let policy = json!({"spec": {"syncPolicy": {"automated": {"allowEmpty": allow_empty}}}});
        let app = with(application(), &policy);
        let spec: ApplicationSpec = wavegate_api::read_typed(&app["spec"]).unwrap();
        refuses_to_empty(&state, &spec, comparison)
    };
    for (name, request, retries, allow_empty, comparison, want) in [
        ("all goes", &own, 0, false, &gone, true),
        ("which is permitted", &own, 0, true, &gone, false),
        ("a user asks", &user, 0, false, &gone, false),
        ("a user asks, and it is retried", &user, 1, false, &gone, false),
        ("with a newer commit", &refreshed, 1, false, &gone, true),
        ("with a newer commit at the first attempt", &refreshed, 0, false, &gone, false),
        ("something stays", &own, 0, false, &kept, false),
        ("nothing is there", &own, 0, false, &nothing, false),
        ("a hook alone stays", &own, 0, false, &hook, true),
        ("without pruning", &json!({"sync": {}, "initiatedBy": automated}), 0, false, &gone, false),
        (
            "a dry run",
            &json!({"sync": {"prune": true, "dryRun": true}, "initiatedBy": automated}),
            0,
            false,
            &gone,
            false,
        ),
    ] {
        let found = refused(request, retries, allow_empty, comparison);
        assert_eq!(found.is_some(), want, "{name}: {found:?}");
        if let Some(message) = found {
            let start = "Skipping sync attempt to [abc]: auto-sync will wipe out all resources. To";
            assert!(message.starts_with(start), "{message}");
        }
    }
}

fn warned(app: &Value, manifests: &[Value], left: &[Value]) -> Vec<String> {
    let placed = placed(manifests);
    let live: BTreeMap<_, _> = super::placed(left).targets.iter().map(super::live).collect();
    let comparison = compared(app, &placed, &live);
    let spec: ApplicationSpec = wavegate_api::read_typed(&app["spec"]).unwrap();
    let facts = ComparisonFacts {
        application: app,
        spec: &spec,
        tracking: &tracking(),
        control_plane_namespace: "argocd",
        checks: &Checks::default(),
        targets: &placed.targets,
        live: &live,
        handovers: &BTreeMap::new(),
        project: &project(),
        cluster: ("https://c", "c"),
        config: &diff::DiffConfig::default(),
        predicted: &Default::default(),
        namespace_metadata_changed: false,
    };
    warnings(&facts, &comparison.resources).into_iter().map(|warning| warning.message).collect()
}

/// What a sync ignores, each setting with what to do instead (SE-183 … SE-302).
#[test]
fn settings_without_effect_are_warned_of_se_302() {
    let annotated = |name: &str, annotations: Value| {
        with(map(name), &json!({"metadata": {"annotations": annotations}}))
    };
    let option = |item: &str| json!({"argocd.argoproj.io/sync-options": item});
    let hook = |types: &str| json!({"argocd.argoproj.io/hook": types});
    let app = |spec: Value| with(application(), &json!({"spec": spec}));
    let rules = |rule: Value| app(json!({"ignoreDifferences": [rule]}));
    let gone = |rest: &str| {
        format!(
            "spec.ignoreDifferences[0]: the Application has no {rest}, so that the rule ignores \
             nothing; correct or remove it"
        )
    };
    let (plain, one) = (app(json!({})), [map("a")]);
    let ignored = "ConfigMap web/a is ignored: annotation argocd.argoproj.io/hook is \"x\"; use \
                   PreSync, Sync, PostSync, SyncFail, PreDelete, PostDelete or Skip";
    type Case<'a> = (&'a str, Value, Vec<Value>, Vec<Value>, Vec<String>);
    let cases: Vec<Case<'_>> = vec![
        ("nothing", plain.clone(), one.to_vec(), vec![], vec![]),
        (
            "an option of the Application",
            app(json!({"syncPolicy": {"syncOptions": ["Validate=false", "Foo=true"]}})),
            one.to_vec(),
            vec![],
            vec!["spec.syncPolicy.syncOptions: unknown sync option Foo=true".into()],
        ),
        (
            "one of a resource",
            plain.clone(),
            vec![annotated("a", option("Prune=false,Foo=true"))],
            vec![],
            vec!["ConfigMap web/a: unknown sync option Foo=true".into()],
        ),
        (
            "a hook of no known type",
            plain.clone(),
            vec![annotated("a", hook("x"))],
            vec![],
            vec![ignored.into()],
        ),
        ("a hook", plain.clone(), vec![annotated("a", hook("Sync"))], vec![], vec![]),
        (
            "a rule about nothing",
            rules(json!({"group": "apps", "kind": "Deploymet", "jsonPointers": ["/a"]})),
            one.to_vec(),
            vec![],
            vec![gone("Deploymet of group apps")],
        ),
        (
            "with a name and a namespace",
            rules(json!({"kind": "ConfigMap", "name": "b", "namespace": "x",
                "jsonPointers": ["/a"]})),
            one.to_vec(),
            vec![],
            vec![gone("ConfigMap named b in namespace x")],
        ),
        (
            "another group",
            rules(json!({"group": "x", "kind": "ConfigMap", "jsonPointers": ["/a"]})),
            one.to_vec(),
            vec![],
            vec![gone("ConfigMap of group x")],
        ),
        (
            "another name",
            rules(json!({"kind": "ConfigMap", "name": "b", "jsonPointers": ["/a"]})),
            one.to_vec(),
            vec![],
            vec![gone("ConfigMap named b")],
        ),
        (
            "another namespace",
            rules(json!({"kind": "ConfigMap", "namespace": "x", "jsonPointers": ["/a"]})),
            one.to_vec(),
            vec![],
            vec![gone("ConfigMap in namespace x")],
        ),
        (
            "one that is met",
            rules(json!({"kind": "ConfigMap", "name": "a", "namespace": "web",
                "jsonPointers": ["/a"]})),
            one.to_vec(),
            vec![],
            vec![],
        ),
        (
            "of an Application without resources",
            rules(json!({"kind": "ConfigMap", "jsonPointers": ["/a"]})),
            vec![],
            vec![],
            vec![],
        ),
        (
            "a hook that is left",
            plain.clone(),
            one.to_vec(),
            vec![annotated("old", hook("PreSync"))],
            vec![
                "hook ConfigMap web/old is no longer in the source, and is not deleted by a sync"
                    .into(),
            ],
        ),
        (
            "one with a generated name",
            plain.clone(),
            vec![with(
                annotated("x", hook("PreSync")),
                &json!({"metadata": {"name": null, "generateName": "gen-"}}),
            )],
            vec![annotated("gen-1", hook("PreSync"))],
            vec![],
        ),
        (
            "one with another prefix",
            plain,
            vec![with(
                annotated("x", hook("PreSync")),
                &json!({"metadata": {"name": null, "generateName": "gen-"}}),
            )],
            vec![annotated("other-1", hook("PreSync"))],
            vec![
                "hook ConfigMap web/other-1 is no longer in the source, and is not deleted by a \
                 sync"
                    .into(),
            ],
        ),
    ];
    for (name, app, manifests, left, want) in cases {
        assert_eq!(warned(&app, &manifests, &left), want, "{name}");
    }
    let many = |count: usize| -> Vec<String> {
        let items: Vec<String> = (0..count).map(|at| format!("Foo{at:02}=true")).collect();
        warned(&app(json!({"syncPolicy": {"syncOptions": items}})), &[map("a")], &[])
    };
    assert_eq!(many(10).len(), 10);
    let eleven = many(11);
    assert_eq!(eleven.len(), 11);
    assert_eq!(eleven[9], "spec.syncPolicy.syncOptions: unknown sync option Foo09=true");
    assert_eq!(eleven[10], "1 more such warnings are not listed");
}

/// Held is what a rollback took back, and is back, as long as its target is the same (ST-061).
#[test]
fn an_application_is_held_at_its_good_revisions_as_st_061() {
    let of = |change: fn(&mut RunStart), deployed: &str, targets: &[&str]| {
        let mut start = RunStart {
            run: "r".to_owned(),
            spec: "s".to_owned(),
            revisions: vec!["bad".to_owned()],
            at: String::new(),
            before: String::new(),
            good: vec!["good".to_owned()],
            base: String::new(),
            goes_back: true,
            uid: "u".to_owned(),
        };
        change(&mut start);
        let app = with(
            application(),
            &json!({
                "metadata": {"uid": "u", "annotations": {"wavegate.dev/run": start.text()}},
                "status": {"history": [{"id": 0, "revision": deployed,
                    "source": {"repoURL": "https://example.com/r", "path": "p"}}]},
            }),
        );
        let targets: Vec<String> = targets.iter().map(|&one| one.to_owned()).collect();
        held_revisions(&app, &targets)
    };
    let good = Some(vec!["good".to_owned()]);
    type Case<'a> = (&'a str, fn(&mut RunStart), &'a str, &'a [&'a str], Option<Vec<String>>);
    let cases: [Case<'_>; 8] = [
        ("held", |_| {}, "good", &["bad"], good.clone()),
        ("the sync resolved them", |start| start.revisions.clear(), "good", &["x"], good),
        ("another target", |_| {}, "good", &["x"], None),
        ("not back yet", |_| {}, "bad", &["bad"], None),
        ("more sources", |start| start.revisions.clear(), "good", &["x", "y"], None),
        ("none is known", |start| start.good.clear(), "good", &["bad"], None),
        ("of another object", |start| start.uid.push('v'), "good", &["bad"], None),
        ("it goes forward", |start| start.goes_back = false, "good", &["bad"], None),
    ];
    for (name, start, deployed, targets, want) in cases {
        assert_eq!(of(start, deployed, targets), want, "{name}");
    }
    assert_eq!(held_revisions(&application(), &[]), None);
}
