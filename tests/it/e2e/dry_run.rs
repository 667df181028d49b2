//! The dry run of a client-side apply is evaluated locally, without a write request
//! (SE-250, SE-273, SE-343).

use http::{Method, Request};
use serde_json::{Value, json};

use crate::support::manifests::set;
use crate::support::recorder::{Change, version};
use crate::support::{Kind, Setup, World};

/// An Application that is synced manually.
pub async fn application(world: &World, name: &str) {
    let mut set = set(world, "none", &[(name, "dev")], &json!(null));
    let mut application = set["spec"]["template"].take();
    application["metadata"] = json!({ "name": world.tagged(name) });
    application["spec"]["source"]["path"] = format!("apps/{name}").into();
    world.create(Kind::Application, application).await;
}

/// Commits the files of an Application.
pub fn commit(world: &World, name: &str, objects: &[Value]) {
    let file = |(index, object): (usize, &Value)| {
        (format!("apps/{name}/{index}.json"), object.to_string())
    };
    let files: Vec<_> = objects.iter().enumerate().map(file).collect();
    world.repository.commit("change", &files);
}

/// Syncs, and returns the Application after the sync.
pub async fn sync(world: &World, name: &str, options: &[&str]) -> Value {
    sync_with(world, name, json!({ "syncOptions": options })).await
}

/// The same with any fields.
pub async fn sync_with(world: &World, name: &str, sync: Value) -> Value {
    let operation = json!({ "initiatedBy": { "username": "admin" }, "sync": sync });
    let asked = world.patch(Kind::Application, name, &json!({ "operation": operation })).await;
    world
        .until(&format!("{name} is synced"), |log| {
            let app = log.get(Kind::Application, name)?;
            let over = version(app) > version(&asked)
                && app["operation"].is_null()
                && app["status"]["operationState"]["finishedAt"].is_string()
                && app["status"]["operationState"]["phase"] != "Running";
            over.then(|| app.as_ref().clone())
        })
        .await
}

/// The phase, and the messages of the operation and of single objects.
pub fn phase(app: &Value) -> (&str, String) {
    let state = &app["status"]["operationState"];
    let results = state["syncResult"]["resources"].as_array().into_iter().flatten();
    let said = [&state["message"]].into_iter().chain(results.map(|result| &result["message"]));
    let said: Vec<&str> = said.filter_map(Value::as_str).collect();
    (state["phase"].as_str().unwrap(), said.join("\n"))
}

/// A definition with a unique group.
fn definition(group: &str, fields: &[&str]) -> Value {
    let fields: serde_json::Map<_, _> =
        fields.iter().map(|field| ((*field).to_owned(), json!({ "type": "integer" }))).collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("widgets.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": { "kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": { "type": "object", "properties": { "spec": {
                    "type": "object", "properties": fields,
                }}},
            }}],
        },
    })
}

fn widget(group: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": format!("{group}/v1"), "kind": "Widget",
        "metadata": { "name": "one" }, "spec": spec,
    })
}

async fn get(world: &World, path: &str) -> Value {
    world.client.request(Request::get(path).body(Vec::new()).unwrap()).await.unwrap()
}

async fn remove_definition(world: &World, group: &str) {
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{group}");
    let request = Request::builder().method(Method::DELETE).uri(path).body(Vec::new()).unwrap();
    let _: Value = world.client.request(request).await.unwrap();
}

pub async fn a_definition_and_the_use_of_its_new_field_are_applied_together(mut world: World) {
    for (name, options) in [("client", &[][..]), ("server", &["ServerSideApply=true"][..])] {
        let group = format!("{name}.{}.example.com", world.namespace);
        let before = [definition(&group, &["a"]), widget(&group, &json!({ "a": 1 }))];
        commit(&world, name, &before);
        application(&world, name).await;
        if name == "client" {
            world.start(&Setup::default()).await;
        }
        let app = sync(&world, name, options).await;
        assert_eq!(phase(&app).0, "Succeeded", "{}", phase(&app).1);
        let after = [definition(&group, &["a", "b"]), widget(&group, &json!({ "a": 1, "b": 2 }))];
        commit(&world, name, &after);
        let app = sync(&world, name, options).await;
        assert_eq!(phase(&app).0, "Succeeded", "{}", phase(&app).1);
        let path = format!("/apis/{group}/v1/namespaces/{}/widgets/one", world.target);
        let live = get(&world, &path).await;
        assert_eq!(live["spec"], json!({ "a": 1, "b": 2 }), "{options:?}");

        // An undefined field is rejected by the definition.
        if options.is_empty() {
            commit(&world, name, &[after[0].clone()]);
            sync(&world, name, options).await;
            commit(&world, name, &[widget(&group, &json!({ "a": 1, "c": 3 }))]);
            let app = sync(&world, name, options).await;
            let (phase, message) = phase(&app);
            assert_eq!(phase, "Failed", "{message}");
            assert!(message.contains("ValidationError(Widget.spec): unknown field"), "{message}");
        }
        remove_definition(&world, &group).await;
    }
    world.finish().await;
}

fn job(name: &str, image: &str, hook: Option<&str>) -> Value {
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": name },
        "spec": { "backoffLimit": 0, "template": { "spec": {
            "restartPolicy": "Never",
            "containers": [{ "name": "main", "image": format!("example.invalid/job:{image}") }],
        }}},
    });
    if let Some(hook) = hook {
        job["metadata"]["annotations"] = json!({ "argocd.argoproj.io/hook": hook });
    }
    job
}

fn binding(role: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": { "name": "binding" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role },
        "subjects": [{ "kind": "ServiceAccount", "name": "default", "namespace": "default" }],
    })
}

pub async fn errors_of_the_apply_fail_in_their_wave(mut world: World) {
    let name = "app";
    let hooks = [job("pre", "1", Some("PreSync")), job("fail", "1", Some("SyncFail"))];
    let objects = |image: &str, role: &str| {
        let mut all = hooks.to_vec();
        all.extend([job("work", image, None), binding(role)]);
        all
    };
    commit(&world, name, &objects("1", "first"));
    application(&world, name).await;
    world.start(&Setup::default()).await;
    let app = sync(&world, name, &[]).await;
    assert_eq!(phase(&app).0, "Succeeded", "{}", phase(&app).1);

    // A role binding with another role is recreated (SE-343).
    commit(&world, name, &objects("1", "second"));
    let app = sync(&world, name, &[]).await;
    assert_eq!(phase(&app).0, "Succeeded", "{}", phase(&app).1);
    let path = format!(
        "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings/binding",
        world.target
    );
    let live = get(&world, &path).await;
    assert_eq!(live["roleRef"]["name"], "second");
    let last = &live["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"];
    assert!(last.as_str().is_some_and(|last| last.contains("second")), "SE-340: {last}");

    // An immutable Job fails when it is applied (SE-273).
    commit(&world, name, &objects("2", "second"));
    let app = sync(&world, name, &[]).await;
    let (phase, message) = phase(&app);
    assert_eq!(phase, "Failed", "{message}");
    assert!(message.contains("immutable"), "{message}");
    world.recorder.read(|log| {
        let runs = |name: &str| {
            let of = log.of(Kind::Job).filter(|r| r.name() == name && r.change == Change::Added);
            of.count()
        };
        assert_eq!(runs("pre"), 3, "PreSync ran before the failure, too");
        assert_eq!(runs("fail"), 1, "and SyncFail after it");
    });
    world.finish().await;
}

pub async fn an_invalid_field_is_rejected_before_the_first_write(mut world: World) {
    let name = "app";
    let group = format!("{}.example.com", world.namespace);
    commit(&world, name, &[definition(&group, &["a"])]);
    application(&world, name).await;
    world.start(&Setup::default()).await;
    let app = sync(&world, name, &[]).await;
    assert_eq!(phase(&app).0, "Succeeded", "{}", phase(&app).1);

    let first = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "first", "annotations": { "argocd.argoproj.io/sync-wave": "-1" } },
    });
    commit(&world, name, &[first.clone(), widget(&group, &json!({ "a": "one" }))]);
    let app = sync(&world, name, &[]).await;
    let (stands, message) = phase(&app);
    assert_eq!(stands, "Failed", "{message}");
    assert!(message.starts_with("one or more objects failed to apply (dry run)"), "{message}");
    assert!(message.contains("got \"string\", expected \"integer\""), "{message}");
    assert!(message.contains("Validate=false"), "{message}");
    world.recorder.read(|log| assert!(log.get(Kind::ConfigMap, "first").is_none(), "SE-250"));

    // The embedded server publishes no schemas of built-in kinds.
    if !world.is_embedded() {
        let mut typo = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": "typo" },
            "spec": { "ports": [{ "port": 80 }], "selectr": {} },
        });
        commit(&world, name, &[first.clone(), typo.clone()]);
        let app = sync(&world, name, &[]).await;
        let (stands, message) = phase(&app);
        assert_eq!(stands, "Failed", "{message}");
        let words = "ValidationError(Service.spec): unknown field \"selectr\" in io.k8s.api.core.v1.ServiceSpec";
        assert!(message.contains(words), "{message}");
        typo["metadata"]["annotations"] =
            json!({ "argocd.argoproj.io/sync-options": "Validate=false" });
        commit(&world, name, &[first, typo]);
        let app = sync(&world, name, &[]).await;
        assert_eq!(phase(&app).0, "Succeeded", "{}", phase(&app).1);
    }
    if let Some(server) = world.server() {
        let dry = server.requests().into_iter().filter(|request| request.dry_run);
        assert_eq!(dry.count(), 0, "nothing is sent for a dry run");
    }
    remove_definition(&world, &group).await;
    world.finish().await;
}
