//! RolloutPolicies and RolloutRuns as objects: what the API server refuses and fills in, and
//! rollouts where their definitions are absent (ST-001, ST-002, ST-006).

use http::Method;
use serde_json::{Value, json};

use crate::support::World;
use crate::support::cluster::{JSON, send};

fn path(world: &World, plural: &str) -> String {
    format!("/apis/wavegate.dev/v1alpha1/namespaces/{}/{plural}", world.namespace)
}

async fn create(world: &World, kind: &str, name: &str, spec: &Value) -> Result<Value, kube::Error> {
    let plural = if kind == "RolloutRun" { "rolloutruns" } else { "rolloutpolicies" };
    // As kubectl: unknown fields are refused, and not dropped.
    let path = format!("{}?fieldValidation=Strict", path(world, plural));
    let object = json!({
        "apiVersion": "wavegate.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec,
    });
    send(&world.client, Method::POST, &path, JSON, &object).await
}

/// The message of a refusal with code 422.
async fn refused(world: &World, kind: &str, spec: &Value) -> String {
    match create(world, kind, "bad", spec).await {
        Err(kube::Error::Api(status)) if status.code == 422 => status.message.clone(),
        other => panic!("{kind} {spec}: {other:?}"),
    }
}

pub async fn bad_policies_and_runs_are_refused_with_a_message(world: World) {
    let gate = |more: Value| {
        let mut gate = json!({"name": "g", "steps": [1], "approvals": 1});
        gate.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "gates": [gate] })
    };
    let twice = json!({"name": "g", "steps": [1], "soak": "1m"});
    let operator = json!([{"key": "a", "operator": "in", "values": ["b"]}]);
    let policies = [
        (gate(json!({"soak": "30"})), "spec.gates[0].soak"),
        (gate(json!({"steps": [0]})), "greater than or equal to 1"),
        (gate(json!({"approvals": -1})), "greater than or equal to 0"),
        (gate(json!({"name": ""})), "spec.gates[0].name"),
        (json!({"gates": [{"steps": [1], "soak": "1m"}]}), "spec.gates[0].name: Required value"),
        (json!({"gates": [twice, twice]}), "spec.gates[1]: Duplicate value"),
        (json!({"applicationSets": {"matchExpressions": operator}}), "\"DoesNotExist\""),
        (json!({"failures": {"onFailure": "rollback"}}), "\"Rollback\""),
        (json!({"failures": {"max": "101%"}}), "spec.failures.max"),
        (json!({"failures": {"max": -1}}), "greater than or equal to 0"),
        (json!({"failures": {"deadline": "soon"}}), "spec.failures.deadline"),
        (json!({"pace": {"ramp": {"start": 0}}}), "spec.pace.ramp.start"),
        (json!({"pace": {"spread": {"label": "region"}}}), "spec.pace.spread.max: Required value"),
        (json!({"deletions": {}}), "spec.deletions.max: Required value"),
        (json!({"deletions": {"max": "ten"}}), "spec.deletions.max"),
        (json!({"notify": [{"url": "ftp://x"}]}), "spec.notify[0].url"),
        (json!({"notify": [{"url": "https://x", "format": "mail"}]}), "\"slack\""),
    ];
    for (spec, words) in &policies {
        let message = refused(&world, "RolloutPolicy", spec).await;
        assert!(message.contains(words), "{spec}: {message}");
    }
    let runs = [
        (json!({}), "spec.applicationSet: Required value"),
        (
            json!({"applicationSet": "s", "approvals": [{"gate": "g", "by": "a"}]}),
            "covers: Required",
        ),
        (json!({"applicationSet": "s", "abort": {}}), "spec.abort.by: Required value"),
        (json!({"applicationSet": "s", "retries": [{"by": "a", "at": "now"}]}), "date-time"),
    ];
    for (spec, words) in &runs {
        let message = refused(&world, "RolloutRun", spec).await;
        assert!(message.contains(words), "{spec}: {message}");
    }
    world.finish().await;
}

/// The defaults of the specification are filled in, and spec and status are written apart.
pub async fn policies_and_runs_are_stored_with_their_defaults(world: World) {
    let spec = json!({
        "failures": {"max": "10%"}, "pace": {"ramp": {}}, "notify": [{"url": "http://x"}],
    });
    let policy = create(&world, "RolloutPolicy", "p", &spec).await.unwrap();
    let want = json!({
        "paused": false,
        "failures": {"max": "10%", "onFailure": "Hold", "baseline": "Count"},
        "pace": {"ramp": {"start": 1, "factor": 2}},
        "notify": [{"url": "http://x", "format": "cloudevents"}],
    });
    assert_eq!(policy["spec"], want);
    create(&world, "RolloutRun", "shop-1", &json!({"applicationSet": "shop"})).await.unwrap();
    let merge = "application/merge-patch+json";
    let one = format!("{}/shop-1", path(&world, "rolloutruns"));
    let both = json!({"spec": {"skip": ["a"]}, "status": {"phase": "Paused", "total": 1}});
    let spoken = send(&world.client, Method::PATCH, &one, merge, &both).await.unwrap();
    assert_eq!((&spoken["spec"]["skip"], &spoken["status"]), (&json!(["a"]), &Value::Null));
    assert_eq!(spoken["metadata"]["generation"], 2);
    let both = json!({"spec": {"skip": ["b"]}, "status": {"phase": "Paused", "total": 1}});
    let status = format!("{one}/status");
    let written = send(&world.client, Method::PATCH, &status, merge, &both).await.unwrap();
    assert_eq!(
        (&written["spec"]["skip"], &written["status"]["phase"]),
        (&json!(["a"]), &json!("Paused"))
    );
    assert_eq!(written["metadata"]["generation"], 2);
    world.finish().await;
}

/// Rules (CEL), which only a server of today evaluates.
pub async fn a_gate_without_a_selection_or_a_condition_is_refused(world: World) {
    if !super::rules::are_evaluated(&world).await {
        return world.finish().await;
    }
    let gates = [
        (json!({"name": "g", "approvals": 1}), "a gate needs applications or steps"),
        (json!({"name": "g", "steps": [], "soak": "1m"}), "a gate needs applications or steps"),
        (json!({"name": "g", "steps": [1]}), "a gate needs approvals or soak"),
        (json!({"name": "g", "steps": [1], "approvals": 0}), "a gate needs approvals or soak"),
    ];
    for (gate, words) in gates {
        let message = refused(&world, "RolloutPolicy", &json!({"gates": [gate]})).await;
        assert!(message.contains(words), "{message}");
    }
    let message = refused(&world, "RolloutPolicy", &json!({"notify": [{"format": "slack"}]})).await;
    assert!(message.contains("a sink needs url, or secretRef"), "{message}");
    let all = json!({"gates": [{"name": "g", "applications": {}, "soak": "1h30m"}]});
    create(&world, "RolloutPolicy", "good", &all).await.unwrap();
    world.finish().await;
}

/// ST-006: rollouts go on without the definitions.
pub async fn a_rollout_needs_no_definitions_of_policies_and_runs(world: World) {
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    for plural in ["rolloutpolicies", "rolloutruns"] {
        let path = format!("{definitions}/{plural}.wavegate.dev");
        super::definitions::delete_and_wait(&world, &path).await;
    }
    super::seed_example::the_example_of_the_guide_completes(world).await;
}
