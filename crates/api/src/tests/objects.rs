use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::application_set::{ApplicationSetApplicationStatus, RolloutPhase};
use super::super::generators::Generator;
use super::super::*;

fn object(text: &str) -> Value {
    crate::yaml::parse_value(text).unwrap()
}

const SHOP: &str = r#"
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: shop, namespace: argocd, finalizers: [resources-finalizer.argocd.argoproj.io]}
spec:
  goTemplate: true
  goTemplateOptions: ["missingkey=error"]
  generators:
  - list:
      elements:
      - {cluster: c-dev, url: "https://10.0.0.1", env: env-dev}
      - {cluster: c-prod, url: "https://10.0.0.2", env: env-prod, weight: 3}
  strategy:
    type: RollingSync
    deletionOrder: Reverse
    rollingSync:
      steps:
      - matchExpressions: [{key: envLabel, operator: In, values: [env-dev]}]
      - matchExpressions: [{key: envLabel, operator: In, values: [env-prod]}]
        maxUpdate: 25%
      - maxUpdate: 0
  template:
    metadata: {name: '{{.cluster}}-shop', labels: {envLabel: '{{.env}}'}}
    spec:
      project: shop
      source: {repoURL: 'https://git.example.org/shop.git', targetRevision: HEAD, path: 'deploy/{{.cluster}}'}
      destination: {server: '{{.url}}', namespace: shop}
      syncPolicy: {automated: {prune: true}, retry: {limit: 3}, syncOptions: [CreateNamespace=true]}
status:
  applicationStatus:
  - {application: c-dev-shop, status: Progressing, step: "1", targetRevisions: [0a1b2c], lastTransitionTime: "2026-01-01T00:00:00Z", message: "sync started"}
  - {application: c-prod-shop, status: Waiting, step: "2", targetRevisions: null, message: "waiting for step 1"}
  conditions:
  - {type: RolloutProgressing, status: "True", reason: ApplicationSetModified, message: "step 1", lastTransitionTime: "2026-01-01T00:00:00Z"}
  resources:
  - {group: argoproj.io, version: v1alpha1, kind: Application, namespace: argocd, name: c-dev-shop, status: OutOfSync, health: {status: Progressing}}
  resourcesCount: 2
  health: {status: Progressing, message: "step 1"}
  rollout:
    {step: 1, steps: 3, progress: 0/2, startedAt: "2026-01-01T00:00:00Z", message: "waiting for c-dev-shop",
     waitingFor: [{application: c-dev-shop, kind: Syncing, reason: syncing, resource: "apps/Deployment:shop/web"}]}
"#;

#[test]
fn an_application_set_is_read() {
    let raw = object(SHOP);
    let set: ApplicationSet = read_typed(&raw).unwrap();
    assert_eq!(set.metadata.name.as_deref(), Some("shop"));
    assert!(set.spec.go_template);
    let list = set.spec.generators[0].list.as_ref().unwrap();
    assert_eq!(list.elements[1]["weight"], json!(3));
    let strategy = set.spec.strategy.as_ref().unwrap();
    assert_eq!(strategy.deletion_order, "Reverse");
    let steps = &strategy.rolling_sync.as_ref().unwrap().steps;
    let limits: Vec<_> = steps.iter().map(|step| step.max_update.clone()).collect();
    let percent = IntOrString::String("25%".to_owned());
    assert_eq!(limits, [None, Some(percent), Some(IntOrString::Int(0))]);
    assert_eq!(set.spec.template.spec, raw["spec"]["template"]["spec"]);

    let status = set.status.as_ref().unwrap();
    let [dev, prod] = status.application_status.as_slice() else { panic!("two entries") };
    assert_eq!((dev.status, prod.status), (RolloutPhase::Progressing, RolloutPhase::Waiting));
    assert_eq!(status.resources[0].status, Some(SyncStatusCode::OutOfSync));
    assert_eq!(status.rollout.as_ref().unwrap().waiting_for[0].application, "c-dev-shop");

    // Written back, only the list that may not be null differs (AS-008).
    let mut expected = raw;
    expected["status"]["applicationStatus"][1]["targetRevisions"] = json!([]);
    assert_eq!(serde_json::to_value(&set).unwrap(), expected);
}

/// AS-003, AS-004, AS-098: all generators of Argo CD can be read.
#[test]
fn every_generator_is_read_and_written_back() {
    let template = "{metadata: {}, spec: {project: '', destination: {}}}";
    let generators = [
        "list: {elements: [{a: {b: [1, x]}}], elementsYaml: '[]'}".to_owned(),
        format!("list: {{template: {template}}}"),
        "clusters: {selector: {matchLabels: {a: b}, matchExpressions: [{key: k, operator: In, values: [v]}]}, values: {x: z}, flatList: true}".to_owned(),
        "clusters: {}".to_owned(),
        "git: {repoURL: r, revision: HEAD, directories: [{path: a/*}, {path: a/b, exclude: true}], requeueAfterSeconds: 0, pathParamPrefix: p}".to_owned(),
        "git: {repoURL: r, revision: HEAD, files: [{path: '**/c.json'}], values: {v: w}}".to_owned(),
        "matrix: {generators: [{list: {elements: [{a: b}]}}, {merge: {mergeKeys: [a], generators: [{clusters: {}}, {plugin: {configMapRef: {name: cm}}}]}}]}".to_owned(),
        "merge: {mergeKeys: [k], generators: [{matrix: {generators: [{clusters: {}}, {list: {}}]}, selector: {matchLabels: {a: b}}}]}".to_owned(),
        "clusterDecisionResource: {configMapRef: c, labelSelector: {matchLabels: {a: b}}, requeueAfterSeconds: 180}".to_owned(),
        "plugin: {configMapRef: {name: cm}, input: {parameters: {a: [1, {b: c}], d: true}}}".to_owned(),
        "scmProvider: {github: {organization: o, tokenRef: {secretName: s, key: k}}, filters: [{repositoryMatch: '^a'}], cloneProtocol: ssh}".to_owned(),
        "pullRequest: {gitlab: {project: p}, filters: [{branchMatch: b}], continueOnRepoNotFoundError: true}".to_owned(),
        "{notYetInvented: {a: 1}, selector: {matchExpressions: [{key: a, operator: Exists}]}}".to_owned(),
    ];
    for text in generators {
        let raw = object(&text);
        let generator: Generator = read_typed(&raw).unwrap();
        let mut written = serde_json::to_value(&generator).unwrap();
        strip_empty(&mut written);
        let mut expected = raw;
        strip_empty(&mut expected);
        assert_eq!(written, expected, "{text}");
    }
}

/// Removes what Go's `omitempty` leaves out.
fn strip_empty(value: &mut Value) {
    if let Value::Array(list) = value {
        list.iter_mut().for_each(strip_empty);
    }
    if let Value::Object(map) = value {
        map.values_mut().for_each(strip_empty);
        map.retain(|_, value| {
            *value != json!("") && *value != json!({}) && *value != json!([]) && !value.is_null()
        });
    }
}

#[test]
fn an_application_is_read_and_keeps_unknown_fields() {
    let raw = object(
        r#"
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: web, annotations: {a: b}}
spec:
  project: default
  source:
    repoURL: https://git.example.org/web.git
    path: chart
    helm: {valueFiles: [a.yaml], valuesObject: {image: {tag: 1.5}}, parameters: [{name: a, value: b, forceString: true}], future: {x: [1]}}
    kustomize: {images: ["a=b:c"], replicas: [{name: web, count: 3}], patches: [{patch: p, target: {kind: K}}], later: 1}
    plugin: {name: p, env: [{name: A, value: B}], parameters: [{name: n, map: {a: b}}], soon: true}
    directory: {recurse: true, exclude: "*.md", jsonnet: {tlas: [{name: a, value: "1", code: true}]}}
    unknownToUs: yes
  destination: {name: in-cluster, namespace: web, region: north}
  sourceHydrator: {drySource: {repoURL: r}, syncSource: {targetBranch: b, path: p}}
  syncPolicy:
    automated: {selfHeal: true, enabled: false}
    retry: {limit: -1, backoff: {duration: 10s, factor: 2, maxDuration: 5m}}
    managedNamespaceMetadata: {labels: {a: b}}
  ignoreDifferences: [{group: apps, kind: Deployment, jsonPointers: [/spec/replicas]}]
  revisionHistoryLimit: 0
operation:
  initiatedBy: {username: applicationset-controller, automated: true}
  info: [{name: Reason, value: because}]
  retry: {limit: 5}
  sync: {prune: true, syncOptions: [CreateNamespace=true], syncStrategy: {hook: {force: true}}, resources: [{kind: Pod, name: p}]}
status:
  sync: {status: Synced, revisions: [a, b], comparedTo: {destination: {name: in-cluster}}}
  health: {status: Healthy, lastTransitionTime: "2026-01-01T00:00:00Z"}
  reconciledAt: "2026-01-01T00:00:00Z"
  operationState:
    phase: Succeeded
    startedAt: "2026-01-01T00:00:00Z"
    finishedAt: "2026-01-01T00:00:05Z"
    operation: {sync: {revision: a}}
    syncResult: {revision: a, resources: [{group: "", version: v1, kind: Pod, namespace: web, name: p, status: Synced, hookPhase: Running, syncPhase: Sync, images: [i]}]}
  history: [{id: 3, revision: a, deployedAt: "2026-01-01T00:00:05Z"}]
  conditions: [{type: SyncError, message: m}]
"#,
    );
    let app: Application = read_typed(&raw).unwrap();
    let status = app.status.as_ref().unwrap();
    assert_eq!(status.sync.revisions(), ["a", "b"]);
    assert_eq!(status.health.as_ref().unwrap().status, HealthStatus::Healthy);
    assert_eq!(status.operation_state.phase, OperationPhase::Succeeded);
    assert!(!app.spec.is_automated());
    assert_eq!(app.spec.revision_history_limit, Some(0));
    let info = &app.operation.as_ref().unwrap().info;
    assert!(info.iter().any(|item| item.name == "Reason" && item.value == "because"));

    let written = serde_json::to_value(&app).unwrap();
    for part in ["metadata", "spec", "operation"] {
        assert_eq!(written[part], raw[part], "{part}");
    }
}

#[test]
fn null_and_absent_fields_are_read_alike() {
    let app: Application = read_typed(&json!({
        "metadata": {"name": "a"},
        "spec": {
            "project": null, "source": null, "sources": null, "destination": null,
            "syncPolicy": {"automated": null, "syncOptions": null, "retry": {"limit": null}},
            "ignoreDifferences": null, "revisionHistoryLimit": null,
        },
        "operation": null,
        "status": {"sync": null, "health": {"status": null}, "operationState": null, "history": null},
    }))
    .unwrap();
    assert_eq!((app.operation, app.spec.sources()), (None, std::borrow::Cow::Borrowed(&[][..])));
    let status = app.status.unwrap();
    let health = Some(Default::default());
    assert_eq!(status, ApplicationStatus { health, ..ApplicationStatus::default() });
    assert_eq!(status.sync.revisions(), Vec::<String>::new());
    assert_eq!(status.health.as_ref().unwrap().status, HealthStatus::Unknown);
    // The guides contain Applications without project and destination.
    assert!(read_typed::<Application>(&json!({"spec": {"syncPolicy": {"automated": {}}}})).is_ok());
}

#[test]
fn automated_sync_is_enabled_unless_disabled() {
    // SE-014, SE-015
    let cases = [
        (json!({}), false),
        (json!({"syncPolicy": {"automated": null}}), false),
        (json!({"syncPolicy": {"automated": {}}}), true),
        (json!({"syncPolicy": {"automated": {"enabled": null}}}), true),
        (json!({"syncPolicy": {"automated": {"enabled": true}}}), true),
        (json!({"syncPolicy": {"automated": {"enabled": false, "prune": true}}}), false),
    ];
    for (raw, expected) in cases {
        assert_eq!(read_typed::<ApplicationSpec>(&raw).unwrap().is_automated(), expected, "{raw}");
    }
}

#[derive(Default, serde::Deserialize)]
struct Small {
    values: Vec<u8>,
}

/// However many items of a list are wrong, the others and the other fields are read.
#[test]
fn wrong_items_of_a_list_hide_nothing_else() {
    let wrong: Vec<Value> =
        (0..300).flat_map(|n| [json!(n), json!({"n": n}), json!([n])]).collect();
    for items in [wrong.clone(), wrong[..1].to_vec(), vec![json!({}); 300]] {
        let mut options = items.clone();
        options.insert(items.len() / 2, json!("Prune=false"));
        options.push(json!("Validate=false"));
        let raw = json!({"project": "shop", "syncPolicy": {"syncOptions": options}});
        let spec: ApplicationSpec = read_leniently(&raw);
        assert_eq!(spec.project, "shop");
        assert_eq!(spec.sync_policy.unwrap().sync_options, ["Prune=false", "Validate=false"]);
    }
    // An object of which a field is wrong is none of the others, also where no path names the
    // field: these types keep fields that they do not know.
    let window = |kind: Value| json!({"kind": kind, "schedule": "* * * * *", "duration": "1h"});
    for wrong in [json!(5), json!({}), json!([])] {
        let raw =
            json!({"syncWindows": [window(json!("deny")), window(wrong), window(json!("allow"))]});
        let windows = read_leniently::<AppProjectSpec>(&raw).sync_windows;
        let kinds: Vec<&str> = windows.iter().map(|window| window.kind.as_str()).collect();
        assert_eq!(kinds, ["deny", "", "allow"], "{raw}");
    }
    // A value that is wrong is no type that is.
    let raw = json!({"values": [1, -1, 2]});
    assert_eq!(read_leniently::<Small>(&raw).values, [1, 2]);
    // The objects of a list keep their places.
    let raw = json!({"sources": [{"path": "a"}, 1, {"path": "b"}]});
    let sources = read_leniently::<ApplicationSpec>(&raw).sources;
    let paths: Vec<&str> = sources.iter().map(|source| source.path.as_str()).collect();
    assert_eq!(paths, ["a", "", "b"]);
}

/// An absent list must not be read as an empty list.
#[test]
fn an_application_set_without_generators_is_rejected() {
    let template = json!({"metadata": {}, "spec": {}});
    let cases = [
        (json!({"generators": [], "template": template}), Ok(())),
        (json!({"template": template}), Err(("spec", "missing field `generators`"))),
        (
            json!({"generators": null, "template": template}),
            Err(("spec.generators", "invalid type: null, expected a sequence")),
        ),
        (json!({"generators": []}), Err(("spec", "missing field `template`"))),
    ];
    for (spec, expected) in cases {
        let result = read_typed::<ApplicationSet>(&json!({"metadata": {}, "spec": spec}));
        let result = result.as_ref().map(|_| ()).map_err(|e| (e.path.as_str(), e.reason.as_str()));
        assert_eq!(result, expected, "{spec}");
    }
}

#[test]
fn errors_name_the_invalid_field() {
    let cases = [
        (json!({"project": 3}), "project: invalid type: integer `3`, expected a string"),
        (
            json!({"syncPolicy": {"retry": {"limit": "five"}, "syncOptions": ["a"]}, "project": "p"}),
            "syncPolicy.retry.limit: invalid type: string \"five\", expected i64",
        ),
        (
            json!({"sources": [{"path": "a"}, {"path": "b", "helm": {"skipCrds": 1}}]}),
            "sources[1].helm.skipCrds: invalid type: integer `1`, expected a boolean",
        ),
        (
            json!({"destination": {"namespace": true}, "info": [{"name": true}]}),
            "destination.namespace: invalid type: boolean `true`, expected a string",
        ),
        (json!([]), ".: "),
        (json!("x"), ".: invalid type: string \"x\", expected struct ApplicationSpec"),
    ];
    for (raw, expected) in cases {
        match read_typed::<ApplicationSpec>(&raw) {
            Err(error) => {
                let error = error.to_string();
                assert!(error.starts_with(expected), "{raw}: {error}");
            }
            Ok(_) => panic!("{raw} was read"),
        }
    }
    let mut raw = object(SHOP);
    raw["spec"]["strategy"]["rollingSync"]["steps"][1]["maxUpdate"] = json!(1.5);
    let error = read_typed::<ApplicationSet>(&raw).unwrap_err();
    assert_eq!(error.path, "spec.strategy.rollingSync.steps[1].maxUpdate");
    raw = object(SHOP);
    raw["spec"]["generators"][0]["list"]["elements"] = json!({});
    let error = read_typed::<ApplicationSet>(&raw).unwrap_err();
    assert_eq!(error.path, "spec.generators[0].list.elements");
}

#[test]
fn unknown_values_are_read_as_unknown() {
    let status: ApplicationStatus = read_typed(&json!({
        "sync": {"status": "Sideways"},
        "health": {"status": ""},
        "operationState": {"phase": "Paused"},
    }))
    .unwrap();
    assert_eq!(status.sync.status, SyncStatusCode::Unknown);
    assert_eq!(status.health.as_ref().unwrap().status, HealthStatus::Unknown);
    assert_eq!(status.operation_state.phase, OperationPhase::Unknown);
}

#[test]
fn a_rollout_entry_is_written_with_all_required_fields() {
    let entry = ApplicationSetApplicationStatus {
        application: "a".to_owned(),
        step: "-1".to_owned(),
        status: RolloutPhase::Waiting,
        ..Default::default()
    };
    let expected = json!({
        "application": "a", "message": "", "status": "Waiting", "step": "-1", "targetRevisions": [],
    });
    assert_eq!(serde_json::to_value(&entry).unwrap(), expected);
}

#[test]
fn a_project_distinguishes_absent_from_empty() {
    // SE-074
    for (raw, expected) in [
        (json!({}), None),
        (json!({"namespaceResourceWhitelist": null}), None),
        (json!({"namespaceResourceWhitelist": []}), Some(0)),
        (json!({"namespaceResourceWhitelist": [{"group": "", "kind": "Pod"}]}), Some(1)),
    ] {
        let spec: AppProjectSpec = read_typed(&raw).unwrap();
        assert_eq!(spec.namespace_resource_whitelist.map(|list| list.len()), expected, "{raw}");
    }
}

#[test]
fn a_project_is_read_and_written_back() {
    let raw = object(
        r#"
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: shop}
spec:
  description: d
  sourceRepos: ["*", "!https://evil/*"]
  destinations: [{server: "*", namespace: "shop-*"}, {name: in-cluster, namespace: "!kube-system"}]
  clusterResourceWhitelist: [{group: "*", kind: "*"}]
  namespaceResourceBlacklist: [{group: "", kind: ResourceQuota}]
  syncWindows: [{kind: allow, schedule: "10 1 * * *", duration: 1h, applications: ["*"], manualSync: true, timeZone: Europe/Berlin, andOperator: true, syncOverrun: true}]
  sourceNamespaces: [teams-*]
  orphanedResources: {warn: false, ignore: [{group: "", kind: ConfigMap, name: x}]}
  permitOnlyProjectScopedClusters: true
  destinationServiceAccounts: [{server: "*", namespace: a, defaultServiceAccount: sa}]
  roles: [{name: r, policies: ["p, a, b, c, d, allow"], jwtTokens: [{iat: 1}]}]
  signatureKeys: [{keyID: "4AEE18F83AFDEB23"}]
"#,
    );
    let project: AppProject = read_typed(&raw).unwrap();
    let windows: BTreeMap<&str, bool> =
        project.spec.sync_windows.iter().map(|w| (w.kind.as_str(), w.and_operator)).collect();
    assert_eq!(windows, BTreeMap::from([("allow", true)]));
    let mut written = serde_json::to_value(&project).unwrap();
    let mut expected = raw;
    strip_empty(&mut written);
    strip_empty(&mut expected);
    assert_eq!(written, expected);
}
