//! Rules (CEL) in definitions: an object that breaks one fails in its wave, with the words of
//! the rule. Only a real server of today evaluates them.

use http::{Method, Request};
use serde_json::{Value, json};

use crate::support::{Setup, World};

use super::dry_run::{application, commit, phase, sync, sync_with};

/// A definition whose objects keep their `kind`, and have no more than three replicas.
fn definition(group: &str) -> Value {
    let spec = json!({
        "type": "object",
        "required": ["replicas", "tier"],
        "properties": {
            "replicas": { "type": "integer" },
            "tier": { "type": "string", "x-kubernetes-validations": [
                { "rule": "self == oldSelf", "message": "the tier is immutable" },
            ]},
        },
        "x-kubernetes-validations": [
            { "rule": "self.replicas <= 3", "message": "three replicas at most" },
        ],
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("gauges.{group}"),
            "annotations": { "argocd.argoproj.io/sync-wave": "-1" },
        },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": { "kind": "Gauge", "plural": "gauges", "singular": "gauge", "listKind": "GaugeList" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": { "type": "object", "properties": { "spec": spec } },
            }}],
        },
    })
}

fn gauge(group: &str, replicas: u32, tier: &str) -> Value {
    json!({
        "apiVersion": format!("{group}/v1"), "kind": "Gauge", "metadata": { "name": "one" },
        "spec": { "replicas": replicas, "tier": tier },
    })
}

/// In the wave after the object: it must not be created when that fails.
fn after(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "annotations": { "argocd.argoproj.io/sync-wave": "1" } },
    })
}

/// Whether the server evaluates rules; otherwise with a message.
pub async fn are_evaluated(world: &World) -> bool {
    let version: Value =
        world.client.request(Request::get("/version").body(Vec::new()).unwrap()).await.unwrap();
    let digits = |text: &str| text.trim_matches(|c: char| !c.is_ascii_digit()).parse::<u32>();
    let minor = digits(version["minor"].as_str().unwrap()).unwrap();
    if minor < 29 {
        eprintln!("skipped: Kubernetes 1.{minor} does not evaluate all rules in definitions");
    }
    minor >= 29
}

/// An object that breaks a rule of its definition, at its creation and at an update, with both
/// ways to apply; one that the rule forbids to change is replaced on request (`Force`).
pub async fn a_broken_rule_fails_in_its_wave_with_its_words(mut world: World) {
    if !are_evaluated(&world).await {
        return world.finish().await;
    }
    for (name, options) in [("client", &[][..]), ("server", &["ServerSideApply=true"][..])] {
        let group = format!("{name}.{}.example.com", world.namespace);
        let (definition, live) = (definition(&group), format!("after-{name}"));
        commit(&world, name, &[definition.clone(), gauge(&group, 4, "gold"), after(&live)]);
        application(&world, name).await;
        if name == "client" {
            world.start(&Setup::default()).await;
        }
        let path = format!("/apis/{group}/v1/namespaces/{}/gauges/one", world.target);
        let maps = format!("/api/v1/namespaces/{}/configmaps/{live}", world.target);

        let app = sync(&world, name, options).await;
        let (result, words) = phase(&app);
        assert_eq!(result, "Failed", "{options:?}: {words}");
        assert!(words.contains("three replicas at most"), "{options:?}: {words}");
        assert_eq!(code(&world, &path).await, 404, "{options:?}");
        assert_eq!(code(&world, &maps).await, 404, "{options:?}: the next wave");

        commit(&world, name, &[definition.clone(), gauge(&group, 3, "gold"), after(&live)]);
        let app = sync(&world, name, options).await;
        assert_eq!(phase(&app).0, "Succeeded", "{options:?}: {}", phase(&app).1);
        assert_eq!(code(&world, &maps).await, 200, "{options:?}");

        // A rule over the old and the new object.
        commit(&world, name, &[definition.clone(), gauge(&group, 3, "iron"), after(&live)]);
        let app = sync(&world, name, options).await;
        let (result, words) = phase(&app);
        assert_eq!(result, "Failed", "{options:?}: {words}");
        assert!(words.contains("the tier is immutable"), "{options:?}: {words}");
        if options.is_empty() {
            let force = json!({"apply": {"force": true}});
            let wanted = json!({"syncOptions": ["Replace=true"], "syncStrategy": force});
            let app = sync_with(&world, name, wanted).await;
            assert_eq!(phase(&app).0, "Succeeded", "{}", phase(&app).1);
            let get = Request::get(path.as_str()).body(Vec::new()).unwrap();
            let now: Value = world.client.request(get).await.unwrap();
            assert_eq!(now["spec"]["tier"], "iron");
        }
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let delete = Request::builder().method(Method::DELETE);
        let delete = delete.uri(format!("{definitions}/gauges.{group}")).body(Vec::new()).unwrap();
        let _: Value = world.client.request(delete).await.unwrap();
    }
    world.finish().await;
}

/// The code of the answer to a read.
async fn code(world: &World, path: &str) -> u16 {
    let get = Request::get(path).body(Vec::new()).unwrap();
    match world.client.request::<Value>(get).await {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(error) => panic!("{path}: {error}"),
    }
}
