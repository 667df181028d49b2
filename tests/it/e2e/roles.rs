//! Who may do what with runs and sets: deploy/roles.yaml with deploy/approvals/ (ST-071).

use http::Method;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use crate::support::World;
use crate::support::cluster::{JSON, send};
use crate::support::waiting::until;

const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// A request of somebody, and what the API server has to say: nothing, or these words.
struct Attempt {
    user: &'static str,
    method: Method,
    path: String,
    media: &'static str,
    body: Value,
    refusal: Option<&'static str>,
}

/// The objects of a file under deploy/.
fn objects(file: &str) -> Vec<Value> {
    let path = format!("{}/deploy/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let documents = wavegate_api::yaml::parse_documents(&text).unwrap();
    documents.into_iter().map(|document| document.value).collect()
}

/// Roles are bound in the namespace of the world, and admission policies apply there alone.
async fn install(world: &World) {
    for role in objects("roles.yaml") {
        let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
        match send(&world.client, Method::POST, path, JSON, &role).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            answer => drop(answer.unwrap()),
        }
    }
    let namespace = &world.namespace;
    let editor = json!({
        "metadata": {"name": "editor"},
        "rules": [{
            "apiGroups": ["argoproj.io"], "resources": ["applicationsets"],
            "verbs": ["get", "create", "update", "patch"],
        }],
    });
    let group = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}");
    send(&world.client, Method::POST, &format!("{group}/roles"), JSON, &editor).await.unwrap();
    let bound = [
        ("ann", "ClusterRole", "wavegate-approver"),
        ("oli", "ClusterRole", "wavegate-operator"),
        ("eve", "ClusterRole", "wavegate-viewer"),
        ("dan", "Role", "editor"),
    ];
    for (user, kind, name) in bound {
        let binding = json!({
            "metadata": {"name": user},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        });
        let path = format!("{group}/rolebindings");
        send(&world.client, Method::POST, &path, JSON, &binding).await.unwrap();
    }
    for mut object in objects("approvals/policy.yaml") {
        let named = |name: &Value| json!(format!("{}-{namespace}", name.as_str().unwrap()));
        object["metadata"]["name"] = named(&object["metadata"]["name"]);
        let mut plural = "validatingadmissionpolicies";
        if object["kind"] == "ValidatingAdmissionPolicyBinding" {
            plural = "validatingadmissionpolicybindings";
            object["spec"]["policyName"] = named(&object["spec"]["policyName"]);
            let here = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
            object["spec"]["matchResources"] = json!({ "namespaceSelector": here });
        }
        let path = format!("/apis/admissionregistration.k8s.io/v1/{plural}");
        send(&world.client, Method::POST, &path, JSON, &object).await.unwrap();
    }
}

/// A client that speaks as a user.
async fn client_of(world: &World, user: &str) -> Client {
    let mut kubeconfig = Kubeconfig::read_from(world.kubeconfig().await).unwrap();
    for named in &mut kubeconfig.auth_infos {
        named.auth_info.as_mut().unwrap().impersonate = Some(user.to_owned());
    }
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    Client::try_from(config).unwrap()
}

/// The set `shop` with its first run, which was approved and retried, and an Application.
async fn given(world: &World) -> (String, String, String) {
    let namespace = &world.namespace;
    let sets = format!("/apis/argoproj.io/v1alpha1/namespaces/{namespace}/applicationsets");
    let set = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
        "metadata": {
            "name": "shop", "labels": {"tier": "prod"}, "annotations": {"team": "shop"},
        },
        "spec": {"generators": [{"list": {"elements": []}}], "template": {
            "metadata": {"name": "{{name}}"},
            "spec": {"project": "my-project", "destination": {"namespace": "w"}},
        }},
    });
    let set = send(&world.client, Method::POST, &sets, JSON, &set).await.unwrap();
    let runs = format!("/apis/wavegate.dev/v1alpha1/namespaces/{namespace}/rolloutruns");
    let run = json!({
        "apiVersion": "wavegate.dev/v1alpha1", "kind": "RolloutRun",
        "metadata": {
            "name": "shop-1", "labels": {"wavegate.dev/application-set": "shop"},
            "ownerReferences": [{
                "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "controller": true,
                "name": "shop", "uid": set["metadata"]["uid"],
            }],
        },
        "spec": {"applicationSet": "shop"},
    });
    send(&world.client, Method::POST, &runs, JSON, &run).await.unwrap();
    let apps = format!("/apis/argoproj.io/v1alpha1/namespaces/{namespace}/applications");
    let app = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": "shop-eu", "labels": {"tier": "prod"}, "finalizers": ["example.com/keep"]},
        "spec": {
            "project": "my-project", "destination": {"namespace": "w"},
            "source": {"repoURL": "https://example.com/fleet.git", "path": "shop-eu"},
        },
    });
    send(&world.client, Method::POST, &apps, JSON, &app).await.unwrap();
    (format!("{sets}/shop"), format!("{runs}/shop-1"), format!("{apps}/shop-eu"))
}

/// Each field of a run and of a set, by each verb, by each role: what is its own is done, all
/// else is refused with words. Nothing is stored.
pub async fn roles_change_what_is_theirs_and_nothing_else(world: World) {
    let (set, run, app) = given(&world).await;
    let said = |gate: &str, by: &str| json!({"gate": gate, "by": by, "covers": "c"});
    let retry = |by: &str| json!({"by": by, "at": "2026-01-02T03:04:05Z"});
    let kept = json!({"spec": {"approvals": [said("a", "kim")], "retries": [retry("kim")]}});
    send(&world.client, Method::PATCH, &run, MERGE, &kept).await.unwrap();
    install(&world).await;
    let mut attempts = Vec::new();
    let mut attempt = |user, path: &str, method, media, body, refusal| {
        attempts.push(Attempt { user, method, path: path.to_owned(), media, body, refusal });
    };
    let spec = |fields: Value| json!({ "spec": fields });
    let metadata = |fields: Value| json!({ "metadata": fields });
    let all = [said("a", "kim"), said("g", "ann")];
    let owner = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "1", "controller": true,
    }]);
    // What belongs to the controller, for both of those who may patch a run.
    for user in ["ann", "oli"] {
        for (body, words) in [
            (metadata(json!({"ownerReferences": null})), "ownerReferences"),
            (metadata(json!({"ownerReferences": owner})), "ownerReferences"),
            (metadata(json!({"labels": null})), "labels"),
            (metadata(json!({"labels": {"wavegate.dev/application-set": "other"}})), "labels"),
            (metadata(json!({"annotations": {"a": "b"}})), "annotations"),
            (metadata(json!({"finalizers": ["example.com/keep"]})), "finalizers"),
            (spec(json!({"applicationSet": "other"})), "spec.applicationSet"),
            (spec(json!({"approvals": null})), "spec.approvals"),
            (spec(json!({"approvals": [said("a", "ann")]})), "spec.approvals"),
            (
                spec(json!({"approvals": [said("a", "kim"), said("g", "bob")]})),
                "by of a new approval",
            ),
            (spec(json!({"abort": {"by": "bob"}})), "spec.abort: by must be"),
            (spec(json!({"rollback": {"by": "bob"}})), "spec.rollback: by must be"),
        ] {
            attempt(user, &run, Method::PATCH, MERGE, body, Some(words));
        }
        let remove = |path: &str| json!([{"op": "remove", "path": path}]);
        let owners = remove("/metadata/ownerReferences");
        attempt(user, &run, Method::PATCH, JSON_PATCH, owners, Some("ownerReferences"));
        let approvals = remove("/spec/approvals/0");
        attempt(user, &run, Method::PATCH, JSON_PATCH, approvals, Some("spec.approvals"));
        let applied = json!({
            "apiVersion": "wavegate.dev/v1alpha1", "kind": "RolloutRun",
            "metadata": {"name": "shop-1", "labels": {"wavegate.dev/application-set": "other"}},
        });
        let forced = format!("{run}?force=true&fieldManager=x");
        attempt(user, &forced, Method::PATCH, APPLY, applied, Some("labels"));
        let status = json!({"status": {"phase": "Complete"}});
        let of_status = format!("{run}/status");
        attempt(user, &of_status, Method::PATCH, MERGE, status, Some("cannot patch"));
        attempt(user, &run, Method::DELETE, JSON, json!({}), Some("cannot delete"));
    }
    // What one of them may, and the other may not.
    let requests = [
        json!({"retries": [retry("kim"), retry("oli")]}),
        json!({"skip": ["app"], "skips": [{"by": "oli", "applications": ["app"]}]}),
        json!({"abort": {"by": "oli", "terminate": true}}),
        json!({"rollback": {"by": "oli"}}),
        json!({"retries": null}),
    ];
    for fields in requests {
        attempt("oli", &run, Method::PATCH, MERGE, spec(fields), None);
    }
    let requests = [
        json!({"retries": [retry("kim"), retry("ann")]}),
        json!({"retries": null}),
        json!({"skip": ["app"]}),
        json!({"skips": [{"by": "ann", "applications": ["app"]}]}),
        json!({"abort": {"by": "ann"}}),
        json!({"rollback": {"by": "ann"}}),
    ];
    for fields in requests {
        attempt("ann", &run, Method::PATCH, MERGE, spec(fields), Some("rolloutruns/operate"));
    }
    let forged = spec(json!({"skip": ["app"], "skips": [{"by": "ann", "applications": ["app"]}]}));
    attempt("oli", &run, Method::PATCH, MERGE, forged, Some("must be oli"));
    let approved = spec(json!({ "approvals": all }));
    attempt("ann", &run, Method::PATCH, MERGE, approved.clone(), None);
    let by_operator = spec(json!({"approvals": [said("a", "kim"), said("g", "oli")]}));
    attempt("oli", &run, Method::PATCH, MERGE, by_operator, Some("rolloutruns/approve"));
    attempt("eve", &run, Method::PATCH, MERGE, approved, Some("cannot patch"));
    // A set: an operator changes three annotations, and says so in others.
    let deletions = "wavegate.dev/approved-deletions";
    for annotations in [
        json!({"wavegate.dev/paused": "migration (oli)", "wavegate.dev/paused-by": "oli"}),
        json!({(deletions): "hash"}),
        json!({"argocd.argoproj.io/application-set-refresh": "true"}),
    ] {
        let body = metadata(json!({ "annotations": annotations }));
        attempt("oli", &set, Method::PATCH, MERGE, body.clone(), None);
        attempt("ann", &set, Method::PATCH, MERGE, body, Some("cannot patch"));
    }
    for key in ["wavegate.dev/paused-by", "wavegate.dev/resumed-by"] {
        let body = metadata(json!({"annotations": {(key): "ann"}}));
        attempt("oli", &set, Method::PATCH, MERGE, body, Some("must be oli"));
    }
    // An Application: an operator syncs, refreshes and terminates what it is, and nothing else.
    let by = |user: &str| json!({"username": user});
    for (body, refusal) in [
        (json!({"operation": {"sync": {"prune": true}, "initiatedBy": by("oli")}}), None),
        (metadata(json!({"annotations": {"argocd.argoproj.io/refresh": "hard"}})), None),
        (json!({"operation": {"sync": {}, "initiatedBy": by("ann")}}), Some("must be oli")),
        (json!({"operation": {"sync": {"manifests": ["{}"]}}}), Some("operation.sync")),
        (json!({"operation": {"sync": {"source": {"repoURL": "x"}}}}), Some("operation.sync")),
        (json!({"operation": {"sync": {"sources": [{"repoURL": "x"}]}}}), Some("operation.sync")),
        (spec(json!({"source": {"targetRevision": "bad"}})), Some("spec")),
        (spec(json!({"project": "other"})), Some("spec")),
        (metadata(json!({"labels": {"tier": "dev"}})), Some("labels")),
        (metadata(json!({"finalizers": null})), Some("finalizers")),
        (metadata(json!({"annotations": {"wavegate.dev/run": "{}"}})), Some("annotations")),
        (json!({"status": {"sync": {"status": "Synced"}}}), Some("status")),
        (json!({"status": {"health": {"status": "Healthy"}}}), Some("status")),
    ] {
        attempt("oli", &app, Method::PATCH, MERGE, body.clone(), refusal);
        attempt("ann", &app, Method::PATCH, MERGE, body, Some("cannot patch"));
    }
    let replaced = json!([{"op": "replace", "path": "/spec/source/path", "value": "other"}]);
    attempt("oli", &app, Method::PATCH, JSON_PATCH, replaced, Some("spec"));
    attempt("oli", &app, Method::DELETE, JSON, json!({}), Some("cannot delete"));
    let elements = json!([{"list": {"elements": [{"name": "a"}]}}]);
    let template = json!({"spec": {"project": "default"}});
    for (body, words) in [
        (metadata(json!({"labels": null})), "labels"),
        (metadata(json!({"labels": {"tier": "dev"}})), "labels"),
        (metadata(json!({"labels": {"more": "x"}})), "labels"),
        (metadata(json!({"annotations": {"team": "other"}})), "metadata.annotations"),
        (metadata(json!({"annotations": {"team": null}})), "metadata.annotations"),
        (metadata(json!({"annotations": {"wavegate.dev/found": "x"}})), "metadata.annotations"),
        (metadata(json!({"finalizers": ["example.com/keep"]})), "finalizers"),
        (metadata(json!({"ownerReferences": owner})), "ownerReferences"),
        (spec(json!({"generators": elements})), "spec: changing"),
        (spec(json!({"template": template})), "spec: changing"),
        (spec(json!({"strategy": {"type": "AllAtOnce"}})), "spec: changing"),
        (spec(json!({"syncPolicy": {"preserveResourcesOnDeletion": true}})), "spec: changing"),
    ] {
        attempt("oli", &set, Method::PATCH, MERGE, body.clone(), Some(words));
        attempt("dan", &set, Method::PATCH, MERGE, body, None);
    }
    let label = json!([{"op": "remove", "path": "/metadata/labels/tier"}]);
    attempt("oli", &set, Method::PATCH, JSON_PATCH, label, Some("labels"));
    let applied = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
        "metadata": {"name": "shop", "labels": {"tier": "dev"}},
    });
    let forced = format!("{set}?force=true&fieldManager=x");
    attempt("oli", &forced, Method::PATCH, APPLY, applied, Some("labels"));
    let status = json!({"status": {"conditions": []}});
    attempt("oli", &format!("{set}/status"), Method::PATCH, MERGE, status, Some("cannot patch"));
    attempt("oli", &set, Method::DELETE, JSON, json!({}), Some("cannot delete"));

    let mut clients = std::collections::BTreeMap::new();
    for user in ["ann", "oli", "eve", "dan"] {
        clients.insert(user, client_of(&world, user).await);
    }
    // Policies are observed some time after they are created.
    for path in [&run, &set, &app] {
        until("the admission policies are observed", async || {
            let body = metadata(json!({"labels": {"more": "x"}}));
            let dry = format!("{path}?dryRun=All");
            send(&clients["oli"], Method::PATCH, &dry, MERGE, &body).await.is_err()
        })
        .await;
    }
    let mut wrong = Vec::new();
    for Attempt { user, method, path, media, body, refusal } in attempts {
        let joint = if path.contains('?') { '&' } else { '?' };
        let dry = format!("{path}{joint}dryRun=All");
        let answer = send(&clients[user], method.clone(), &dry, media, &body).await;
        let is_right = match (&answer, refusal) {
            (Ok(_), None) => true,
            (Err(kube::Error::Api(status)), Some(words)) => {
                [403, 422].contains(&status.code) && status.message.contains(words)
            }
            _ => false,
        };
        if !is_right {
            let said = answer.map_or_else(|error| error.to_string(), |_| "done".to_owned());
            wrong.push(format!("{user} {method} {path} {body}: wanted {refusal:?}, got {said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for plural in ["validatingadmissionpolicies", "validatingadmissionpolicybindings"] {
        for policy in ["approvals", "operations", "syncs"] {
            let name = format!("wavegate-{policy}-{}", world.namespace);
            let path = format!("/apis/admissionregistration.k8s.io/v1/{plural}/{name}");
            send(&world.client, Method::DELETE, &path, JSON, &json!({})).await.unwrap();
        }
    }
    world.finish().await;
}
