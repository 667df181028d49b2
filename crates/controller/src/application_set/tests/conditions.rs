//! Conditions, health and the rest of the status (AS-009, AS-140, AS-141, AS-180 to AS-191,
//! AS-303, AS-304, AS-420, table A.14).

use super::*;
use kube_sim::{Effect, InjectedFault};
use wavegate_api::annotations::APPLICATION_SET_REFRESH;

const ERROR: &str = "ErrorOccurred";
const UP_TO_DATE: &str = "ResourcesUpToDate";
const DONE: &str = "ApplicationSetUpToDate";

async fn start() -> ClusterState {
    ClusterState::start(ApplicationSetSettings::default()).await
}

async fn change(world: &ClusterState, spec: Value) {
    world.patch("ApplicationSet", "set", json!({ "spec": spec })).await;
}

fn elements(names: &[&str]) -> Value {
    let members: Vec<(&str, &str)> = names.iter().map(|name| (*name, "dev")).collect();
    fleet(&members, Value::Null)["generators"].clone()
}

fn is_status_write(request: &RequestRecord) -> bool {
    request.client == "sets"
        && request.resource == "applicationsets"
        && request.subresource == "status"
}

/// Times of conditions have a resolution of one second.
async fn next_second() {
    let second = jiff::Timestamp::now().as_second();
    while jiff::Timestamp::now().as_second() == second {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_failed_generation_changes_nothing_but_its_conditions_as_140_as_141() {
    let world = start().await;
    let members = [("dev", "dev"), ("prod", "prod")];
    let strategy = steps(&[("dev", Value::Null), ("prod", Value::Null)]);
    let good = fleet(&members, strategy);
    world.create("ApplicationSet", "set", good.clone()).await;
    for name in ["dev", "prod"] {
        world.compare(name, "OutOfSync", "Missing", "r1").await;
    }
    let started = |set: &Value| entry_of(set, "dev")["status"] == "Pending";
    // The last of what the two comparisons lead to.
    let compared = |set: &Value| entry_of(set, "prod")["targetRevisions"] == json!(["r1"]);
    let is_whole = |set: &Value| started(set) && compared(set);
    let before = world.until("ApplicationSet", "set", is_whole).await;
    // Compared by tools.
    let generated = "Successfully generated parameters for all Applications";
    let done = "All applications have been generated successfully";
    let written = world.until_condition(ERROR, "False", DONE, "").await;
    for (kind, status, message) in [
        ("ParametersGenerated", "True", generated),
        (ERROR, "False", done),
        (UP_TO_DATE, "True", done),
    ] {
        let found = condition(&written, kind);
        let is = (&found["status"], &found["message"]);
        assert_eq!(is, (&json!(status), &json!(message)), "{kind}");
    }

    change(&world, json!({"generators": [{"list": {"elementsYaml": "{"}}]})).await;
    let reason = "ApplicationGenerationFromParamsError";
    let set = world.until_condition(ERROR, "True", reason, "elementsYaml").await;
    for kind in [UP_TO_DATE, "ParametersGenerated"] {
        let found = condition(&set, kind);
        assert_eq!(
            (&found["status"], &found["reason"]),
            (&json!("False"), &json!(ERROR)),
            "{kind}"
        );
    }
    assert_eq!(set["status"]["health"]["status"], "Degraded", "rows 254, 259");
    for field in ["applicationStatus", "rollout", "resourcesCount"] {
        assert_eq!(set["status"][field], before["status"][field], "AS-141: {field} is kept");
    }
    assert_eq!(condition(&set, "RolloutProgressing"), condition(&before, "RolloutProgressing"));
    assert_eq!(world.sent("delete", "applications"), [], "AS-140");

    change(&world, json!({"generators": good["generators"]})).await;
    let set = world.until_condition(ERROR, "False", DONE, "").await;
    assert_eq!(
        condition(&set, UP_TO_DATE)["message"],
        condition(&set, ERROR)["message"],
        "row 255"
    );
    assert_eq!(set["status"]["health"]["status"], "Progressing", "row 260");
}

#[tokio::test]
async fn the_first_of_several_errors_gives_the_reason_as_042() {
    let world = start().await;
    let bad_generator = json!({"list": {"elementsYaml": "{"}});
    let bad_template = json!({"list": {"elements": [{"n": "a"}]}});
    let mut spec = set(Value::Null);
    spec["goTemplate"] = true.into();
    spec["goTemplateOptions"] = json!(["missingkey=error"]);
    spec["template"]["metadata"]["name"] = "{{.nope}}".into();
    spec["generators"] = json!([bad_generator, bad_template]);
    world.create("ApplicationSet", "set", spec).await;
    let reason = "ApplicationGenerationFromParamsError";
    world.until_condition(ERROR, "True", reason, "spec.generators[0]").await;
    change(&world, json!({"generators": [bad_template, bad_generator]})).await;
    let reason = "RenderTemplateParamsError";
    world.until_condition(ERROR, "True", reason, "spec.generators[0]").await;
}

#[tokio::test]
async fn two_generators_of_one_element_give_the_union_as_041() {
    let world = start().await;
    let mut spec = set(Value::Null);
    let named = |name: &str| json!({"metadata": {"name": name}, "spec": {"project": "", "destination": {}}});
    spec["generators"] = json!([{
        "list": {"elements": [{"n": "one"}], "template": named("list-{{n}}")},
        "clusters": {"template": named("cluster-{{name}}")},
    }]);
    world.create("ApplicationSet", "set", spec.clone()).await;
    for name in ["list-one", "cluster-in-cluster"] {
        world.until("Application", name, |_| true).await;
    }
    let both = json!({"list": {"elements": [{"n": "one"}]}, "clusters": {}});
    let pair = json!([both, {"list": {"elements": [{"m": "two"}]}}]);
    change(&world, json!({"generators": [{"matrix": {"generators": pair}}]})).await;
    let reason = "ApplicationGenerationFromParamsError";
    world.until_condition(ERROR, "True", reason, "matrix.generators[0]").await;
}

#[tokio::test]
async fn an_unknown_generator_is_named_and_deletes_nothing_as_043() {
    let world = start().await;
    world.create("ApplicationSet", "set", set(Value::Null)).await;
    world.until("Application", "app", |_| true).await;
    let written = json!({"spec": {"generators": [{"lists": {"elements": []}}]}}).to_string();
    let key = "kubectl.kubernetes.io/last-applied-configuration";
    let patch = json!({
        "metadata": {"annotations": {key: written}}, "spec": {"generators": [{}]},
    });
    world.patch("ApplicationSet", "set", patch).await;
    let reason = "ApplicationGenerationFromParamsError";
    world.until_condition(ERROR, "True", reason, "spec.generators[0].lists").await;
    let note = world.until_event(reason).await;
    assert!(note.contains("spec.generators[0].lists: is not a generator"), "{note}");
    assert!(!is_going(&world.until("Application", "app", |_| true).await));
}

/// Seen as a panic in every reconcile: the annotation of `kubectl apply` is the user's text,
/// and need not have what the set has.
#[tokio::test]
async fn an_element_without_a_generator_is_named_whatever_was_applied_last_as_043() {
    let world = start().await;
    world.create("ApplicationSet", "set", set(Value::Null)).await;
    world.until("Application", "app", |_| true).await;
    let key = "kubectl.kubernetes.io/last-applied-configuration";
    // As in the set, so that its Application is never deleted.
    let list = set(Value::Null)["generators"][0].clone();
    let nested = |kind: &str, mut own: Value| {
        own["generators"] = json!([list, {}]);
        json!([{kind: own}])
    };
    let generators = [
        (json!([{}]), "spec.generators[0]: has no generator"),
        (json!([list, {}]), "spec.generators[1]: has no generator"),
        (nested("matrix", json!({})), "spec.generators[0].matrix.generators[1]: has no generator"),
        (
            nested("merge", json!({"mergeKeys": ["n"]})),
            "spec.generators[0].merge.generators[1]: has no generator",
        ),
    ];
    let applied = [
        "",
        "{}",
        "null",
        "[]",
        "7",
        "\"text\"",
        "{\"spec\":[]}",
        "{\"spec\":{\"generators\":{}}}",
        "{\"spec\":{\"generators\":[]}}",
        "{\"spec\":{\"generators\":[null,3]}}",
        "{",
    ];
    let mut number = 0;
    for (generators, words) in generators {
        for text in applied {
            number += 1;
            let patch = json!({
                "metadata": {"annotations": {key: text, "number": number.to_string()}},
                "spec": {"generators": generators},
            });
            world.patch("ApplicationSet", "set", patch).await;
            let message = |set: &Value| {
                condition(set, ERROR)["message"].as_str().unwrap_or_default().to_owned()
            };
            world.until("ApplicationSet", "set", |set| message(set).contains(words)).await;
        }
        // So that the next message is a new one.
        world.patch("ApplicationSet", "set", json!({"spec": {"generators": [list]}})).await;
        world
            .until("ApplicationSet", "set", |set| condition(set, ERROR)["status"] == "False")
            .await;
    }
    assert!(!is_going(&world.until("Application", "app", |_| true).await));
}

#[tokio::test]
async fn the_definition_requires_generators_and_template_as_001_as_002() {
    let world = start().await;
    for (field, value) in
        [("generators", json!([])), ("template", set(Value::Null)["template"].clone())]
    {
        let object = json!({
            "apiVersion": wavegate_api::API_VERSION, "kind": "ApplicationSet",
            "metadata": {"name": "set"}, "spec": {field: value},
        });
        let refused =
            world.api("ApplicationSet").create(&PostParams::default(), &object.into()).await;
        let error = refused.unwrap_err().to_string();
        let missing = if field == "template" { "spec.generators" } else { "spec.template" };
        assert!(error.contains(missing), "{error}");
    }
    // Unknown fields are dropped; those of elements are parameters, and kept.
    let mut spec = set(Value::Null);
    spec["misspelt"] = json!({"x": 1});
    spec["generators"][0]["list"]["elements"][0]["more"] = json!({"x": 1});
    world.create("ApplicationSet", "set", spec).await;
    let stored = world.until("ApplicationSet", "set", |set| set["status"].is_object()).await;
    assert!(stored["spec"]["misspelt"].is_null(), "{}", stored["spec"]);
    assert_eq!(stored["spec"]["generators"][0]["list"]["elements"][0]["more"], json!({"x": 1}));
    assert_eq!(stored["metadata"]["generation"], 1, "the status is a subresource");
}

#[tokio::test]
async fn target_revisions_of_null_are_replaced_first_as_009() {
    let world = start().await;
    let crds: Api<wavegate_api::crds::CustomResourceDefinition> =
        Api::all(world.server.client_as("test"));
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/status";
    let patch = json!([{"op": "replace", "path": schema, "value": open}]);
    let patch = Patch::<Value>::Json(serde_json::from_value(patch).unwrap());
    let name = "applicationsets.argoproj.io";
    crds.patch(name, &PatchParams::default(), &patch).await.unwrap();
    world.create("ApplicationSet", "set", set(rolling())).await;
    world.compare("app", "Synced", "Healthy", "r1").await;
    world.until("ApplicationSet", "set", |set| entry(set)["status"] == "Healthy").await;
    // Generating fails, so nothing else would change the entries.
    change(&world, json!({"generators": [{}]})).await;
    world.until_condition(ERROR, "True", "ApplicationGenerationFromParamsError", "").await;
    let nulled = json!([{"op": "replace", "path": "/status/applicationStatus/0/targetRevisions", "value": null}]);
    let nulled = Patch::<Value>::Json(serde_json::from_value(nulled).unwrap());
    world
        .api("ApplicationSet")
        .patch_status("set", &PatchParams::default(), &nulled)
        .await
        .unwrap();
    let is_list = |set: &Value| entry(set)["targetRevisions"] == json!([]);
    let set = world.until("ApplicationSet", "set", is_list).await;
    assert_eq!(entry(&set)["status"], "Healthy", "the rest of the entry is kept");
}

#[tokio::test]
async fn invalid_applications_are_named_and_the_others_written_as_180_as_181_as_172() {
    let world = start().await;
    let local = json!({"server": "https://kubernetes.default.svc"});
    let cases = [
        (
            209,
            vec![("a", local.clone()), ("a", local.clone())],
            "default",
            "2 elements result in this name",
        ),
        (210, vec![("a", local.clone())], "absent", "AppProject absent does not exist"),
        (
            211,
            vec![("a", json!({"server": "https://kubernetes.default.svc", "name": "in-cluster"}))],
            "default",
            "has both the name in-cluster and the server",
        ),
        (212, vec![("a", json!({"name": "nope"}))], "default", "cluster nope not found"),
        (
            0,
            vec![("a", json!({"server": "https://nope"}))],
            "default",
            "https://nope is not registered",
        ),
        (0, vec![("a", json!({}))], "default", "needs a server or a name"),
        (213, vec![("", local.clone())], "default", "renders to an empty name"),
        (
            0,
            vec![("Not_Valid", local.clone())],
            "default",
            "\"Not_Valid\" is not a valid object name",
        ),
    ];
    for (number, (row, bad, project, text)) in cases.into_iter().enumerate() {
        let good = format!("good-{number}");
        let mut elements: Vec<Value> =
            bad.iter().map(|(name, to)| json!({"n": name, "to": to, "project": project})).collect();
        elements.push(json!({"n": good, "to": local, "project": "default"}));
        let mut spec = set(Value::Null);
        spec["goTemplate"] = true.into();
        spec["generators"] = json!([{ "list": { "elements": elements } }]);
        spec["template"]["metadata"]["name"] = "{{.n}}".into();
        spec["template"]["spec"]["project"] = "{{.project}}".into();
        spec["template"]["spec"]["destination"] = json!({});
        spec["templatePatch"] = "spec:\n  destination: {{toJson .to}}\n".into();
        let name = format!("set-{number}");
        world.create("ApplicationSet", &name, spec).await;
        let is_reported = |set: &Value| {
            let found = condition(set, ERROR);
            found["reason"] == "ApplicationValidationError"
                && found["message"].as_str().unwrap().contains(text)
        };
        world.until("ApplicationSet", &name, is_reported).await;
        world.until("Application", &good, |_| true).await;
        assert!(
            world.api("Application").get_opt("a").await.unwrap().is_none(),
            "row {row}: {text}"
        );
    }
}

#[tokio::test]
async fn permissions_of_the_project_are_not_checked_as_181() {
    let world = start().await;
    world.create("AppProject", "closed", json!({"sourceRepos": [], "destinations": []})).await;
    let mut spec = set(Value::Null);
    spec["template"]["spec"]["project"] = "closed".into();
    world.create("ApplicationSet", "set", spec).await;
    world.until("Application", "app", |_| true).await;
    world.until_condition(UP_TO_DATE, "True", DONE, "").await;
}

#[tokio::test]
async fn an_invalid_application_keeps_its_step_incomplete_as_182() {
    let world = start().await;
    let strategy = steps(&[("dev", Value::Null), ("prod", Value::Null)]);
    let members = [("dev", "dev"), ("prod", "prod")];
    world.create("ApplicationSet", "set", fleet(&members, strategy)).await;
    for name in ["dev", "prod"] {
        world.compare(name, "Synced", "Healthy", "r1").await;
    }
    let complete = "ApplicationSetRolloutComplete";
    world.until_condition("RolloutProgressing", "False", complete, "").await;
    // The new spec of dev is not written; prod must not be synced before it.
    let patch = "{{if eq .n \"dev\"}}spec: {destination: {server: https://nope}}\
                 {{else}}spec: {source: {path: q}}{{end}}";
    let go = json!({
        "goTemplate": true, "templatePatch": patch,
        "template": {"metadata": {"name": "{{.n}}", "labels": {"env": "{{.env}}"}}},
    });
    change(&world, go).await;
    world.until("Application", "prod", |live| live["spec"]["source"]["path"] == "q").await;
    world.compare("prod", "OutOfSync", "Healthy", "r2").await;
    let modified = "ApplicationSetModified";
    let set = world.until_condition("RolloutProgressing", "True", modified, "step 1 of 2").await;
    assert_eq!(condition(&set, ERROR)["reason"], "ApplicationValidationError");
    let is_known = |set: &Value| entry_of(set, "prod")["targetRevisions"] == json!(["r2"]);
    let set = world.until("ApplicationSet", "set", is_known).await;
    assert_eq!(entry_of(&set, "prod")["status"], "Waiting", "{}", set["status"]);
    let prod = world.until("Application", "prod", |_| true).await;
    assert!(prod["operation"].is_null());
}

#[tokio::test]
async fn conditions_of_a_rollout_follow_the_strategy_as_183_as_184_as_190_as_303() {
    let world = start().await;
    world.create("ApplicationSet", "set", set(rolling())).await;
    world.compare("app", "OutOfSync", "Missing", "r1").await;
    let modified = "ApplicationSetModified";
    let kind = "RolloutProgressing";
    let set_1 = world.until_condition(kind, "True", modified, "step 1 of 1").await;
    let config = condition(&set_1, "InvalidRolloutConfig");
    assert_eq!(config["reason"], "ApplicationSetValidRolloutConfig");
    assert_eq!(config["status"], "False");
    let health = |set: &Value| set["status"]["health"].clone();
    let is_progressing = |set: &Value| health(set)["status"] == "Progressing";
    world.until("ApplicationSet", "set", is_progressing).await;

    // Nothing is written (row 256), once the last write, which nothing depends on and which
    // may be a second late, was made.
    let writes = || world.server.requests().iter().filter(|one| is_status_write(one)).count();
    let quiet = async {
        loop {
            let before = writes();
            world.reconcile().await;
            if writes() == before {
                return;
            }
        }
    };
    tokio::time::timeout(LIMIT, quiet).await.expect("row 256: each reconcile writes the status");
    // An unchanged condition keeps its time. The message names what it is waiting for, which
    // may still change.
    let field = |set: &Value, name: &str| condition(set, kind)[name].clone();
    let unchanged = async {
        loop {
            let before = world.until("ApplicationSet", "set", |_| true).await;
            next_second().await;
            world.reconcile().await;
            let after = world.until("ApplicationSet", "set", |_| true).await;
            if field(&after, "message") == field(&before, "message") {
                return (before, after);
            }
        }
    };
    let (before, set_2) = tokio::time::timeout(LIMIT, unchanged).await.unwrap();
    assert_eq!(condition(&set_2, kind), condition(&before, kind), "row 256");
    for name in ["status", "reason"] {
        assert_eq!(field(&set_2, name), field(&set_1, name), "row 256: {name}");
    }

    // Sorted by type.
    let conditions = set_2["status"]["conditions"].as_array().unwrap();
    let types: Vec<&str> = conditions.iter().map(|one| one["type"].as_str().unwrap()).collect();
    assert!(types.is_sorted(), "{types:?}");

    change(&world, json!({"strategy": {"type": "AllAtOnce", "rollingSync": null}})).await;
    let has_none = |set: &Value| condition(set, kind).is_null();
    let set_3 = world.until("ApplicationSet", "set", has_none).await;
    assert!(condition(&set_3, "InvalidRolloutConfig").is_null(), "row 257");
    assert!(set_3["status"]["applicationStatus"].as_array().is_none_or(Vec::is_empty), "AS-303");
    let is_healthy = |set: &Value| health(set)["status"] == "Healthy";
    let set_3 = world.until("ApplicationSet", "set", is_healthy).await;
    let message = &condition(&set_3, UP_TO_DATE)["message"];
    assert_eq!(health(&set_3)["message"], *message, "row 261: the message is copied");
}

#[tokio::test]
async fn a_rolling_sync_without_steps_writes_nothing_as_304() {
    let world = start().await;
    world.create("ApplicationSet", "set", set(rolling())).await;
    world.compare("app", "OutOfSync", "Missing", "r1").await;
    world.until("ApplicationSet", "set", |set| entry(set).is_object()).await;
    // The last write of the rollout that goes before.
    world.until("Application", "app", |app| app["operation"].is_object()).await;
    let mut empty = fleet(&[("new", "x")], json!({"rollingSync": {"steps": []}}));
    empty["template"]["spec"]["source"]["path"] = "q".into();
    let before = world.server.requests().len();
    change(&world, empty).await;
    let reason = "ApplicationSetRolloutError";
    let text = "spec.strategy.rollingSync.steps";
    let set = world.until_condition(ERROR, "True", reason, text).await;
    assert!(set["status"]["applicationStatus"].as_array().is_none_or(Vec::is_empty), "emptied");
    let is_over = |set: &Value| set["metadata"]["annotations"].is_null();
    assert!(is_over(&set));
    let of_applications = |request: &&RequestRecord| {
        request.client == "sets"
            && request.resource == "applications"
            && ["create", "patch", "delete"].contains(&request.verb.as_str())
    };
    let requests = world.server.requests();
    let starts = requests[before..].iter().filter(of_applications);
    let starts: Vec<&RequestRecord> = starts.collect();
    assert!(starts.is_empty(), "{starts:?}");
}

#[tokio::test]
async fn the_time_of_a_condition_follows_its_message_as_185() {
    let world = start().await;
    let mut spec = set(Value::Null);
    spec["template"]["spec"]["project"] = "one".into();
    world.create("ApplicationSet", "set", spec).await;
    let reason = "ApplicationValidationError";
    let set = world.until_condition(ERROR, "True", reason, "AppProject one").await;
    let old = condition(&set, ERROR)["lastTransitionTime"].as_str().unwrap().to_owned();
    next_second().await;
    change(&world, json!({"template": {"spec": {"project": "two"}}})).await;
    let set = world.until_condition(ERROR, "True", reason, "AppProject two").await;
    assert_ne!(condition(&set, ERROR)["lastTransitionTime"], *old);
}

#[tokio::test]
async fn a_failed_status_write_is_tried_again_and_a_missing_set_is_no_error_as_184_as_186() {
    let world = start().await;
    world.create("ApplicationSet", "set", set(Value::Null)).await;
    world.until_condition(UP_TO_DATE, "True", DONE, "").await;
    let codes_since = |before: usize| -> Vec<u16> {
        let requests = world.server.requests();
        requests
            .iter()
            .filter(|one| is_status_write(one))
            .skip(before)
            .map(|one| one.code)
            .collect()
    };
    // 404: the set was deleted and created again in the meantime.
    for code in [500, 409, 503, 404] {
        let before = codes_since(0).len();
        world.server.inject(InjectedFault::new(Effect::Status(code), is_status_write));
        let project = format!("absent-{code}");
        change(&world, json!({"template": {"spec": {"project": project}}})).await;
        world.until_condition(ERROR, "True", "ApplicationValidationError", &project).await;
        let codes = codes_since(before);
        assert_eq!((codes.first(), codes.last()), (Some(&code), Some(&200)), "{codes:?}");
        if [409, 404].contains(&code) {
            assert_eq!(codes.len(), 2, "a new observation, no error: {codes:?}");
        }
    }
}

#[tokio::test]
async fn resources_are_listed_by_name_up_to_the_limit_as_191() {
    let settings = deciding(DecisionSettings { max_resources: 2, ..DecisionSettings::default() });
    let world = ClusterState::start(settings).await;
    world
        .create("ApplicationSet", "set", {
            let mut spec = set(Value::Null);
            spec["generators"] = elements(&["c", "a", "b"]);
            spec
        })
        .await;
    world.compare("a", "OutOfSync", "Degraded", "r1").await;
    let is_listed = |set: &Value| {
        let status = &set["status"];
        status["resourcesCount"] == 3 && status["resources"][0]["health"]["status"] == "Degraded"
    };
    let set = world.until("ApplicationSet", "set", is_listed).await;
    let first = json!({
        "group": "argoproj.io", "version": "v1alpha1", "kind": "Application",
        "namespace": NAMESPACE, "name": "a", "status": "OutOfSync",
        "health": {"status": "Degraded"},
    });
    let resources = set["status"]["resources"].as_array().unwrap();
    assert_eq!(resources[0], first);
    assert_eq!((resources.len(), &resources[1]["name"]), (2, &json!("b")));
}

#[tokio::test]
async fn a_refresh_annotation_that_cannot_be_removed_is_reported_as_148_as_183_as_420() {
    let world = start().await;
    world.create("ApplicationSet", "set", set(Value::Null)).await;
    world.until_condition(UP_TO_DATE, "True", DONE, "").await;
    let is_removal = |request: &RequestRecord| {
        request.client == "sets"
            && request.resource == "applicationsets"
            && request.subresource.is_empty()
            && request.verb == "patch"
    };
    world.server.inject(InjectedFault::new(Effect::Status(403), is_removal).times(usize::MAX));
    let asked = json!({"metadata": {"annotations": {APPLICATION_SET_REFRESH: "true"}}});
    world.patch("ApplicationSet", "set", asked).await;
    let reason = "RefreshApplicationError";
    let set = world.until_condition(ERROR, "True", reason, APPLICATION_SET_REFRESH).await;
    assert_eq!(condition(&set, UP_TO_DATE)["reason"], ERROR, "row 254");
    assert_eq!(set["status"]["health"]["status"], "Degraded");
    world.server.clear_faults();
    world.until_condition(ERROR, "False", DONE, "").await;
    let set = world.until("ApplicationSet", "set", |_| true).await;
    assert!(set["metadata"]["annotations"][APPLICATION_SET_REFRESH].is_null());
    let removals = world.sent("patch", "applicationsets");
    let removals = removals.iter().filter(|request| request.subresource.is_empty());
    let codes: Vec<u16> =
        removals.map(|request| request.code).skip_while(|code| *code == 403).collect();
    assert_eq!(codes, [200], "it is tried until it succeeds");
}
