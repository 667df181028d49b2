//! An API server that knows persons by their tokens and permits each some namespaces, before the
//! embedded one, which knows no users and permits everything. It records as whom it is asked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::response::Response;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use wavegate_cluster::watch::object::kind_resource;

use super::*;

/// The token of the page itself, which may do nothing but impersonate.
pub const PAGE_TOKEN: &str = "token-of-the-page";

/// A request that it was asked.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Who it was of, after impersonation.
    pub user: String,
    pub authorization: String,
    /// `Impersonate-User`, and the groups.
    pub as_user: Option<String>,
    pub as_groups: Vec<String>,
    pub method: Method,
    pub path: String,
    pub status: u16,
}

/// What is permitted: the namespaces of a person, and whether they may write there.
#[derive(Default)]
struct Rights {
    tokens: BTreeMap<String, String>,
    namespaces: BTreeMap<String, Vec<(String, bool)>>,
}

impl Rights {
    fn permits(&self, user: &str, verb: &str, namespace: Option<&str>) -> bool {
        let is_read = matches!(verb, "get" | "list" | "watch");
        let of = self.namespaces.get(user).map(Vec::as_slice).unwrap_or_default();
        of.iter().any(|(own, writes)| Some(own.as_str()) == namespace && (is_read || *writes))
    }
}

struct Inner {
    rights: Mutex<Rights>,
    asked: Mutex<Vec<Asked>>,
    client: Client<HttpConnector, Body>,
    target: String,
}

/// The front.
pub struct Front {
    inner: Arc<Inner>,
    files: TempDir,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Front {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Front {
    /// Before the server of a world, with two namespaces `team-a` and `team-b`. `ann` reads and writes
    /// in the first, `bob` in the second, and `vic` only reads in the first; their tokens are
    /// `token-of-ann` and so on.
    pub async fn start(world: &World) -> Self {
        for name in ["team-a", "team-b"] {
            let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
            let namespaces: Api<k8s_openapi::api::core::v1::Namespace> =
                Api::all(world.cluster.client.clone());
            namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        }
        let config = std::fs::read_to_string(world.cluster.kubeconfig()).unwrap();
        let target = config.split("http://").nth(1).unwrap().split_whitespace().next().unwrap();
        let mut rights = Rights::default();
        for (user, namespace, writes) in
            [("ann", "team-a", true), ("bob", "team-b", true), ("vic", "team-a", false)]
        {
            rights.tokens.insert(format!("token-of-{user}"), user.to_owned());
            rights.namespaces.insert(user.to_owned(), vec![(namespace.to_owned(), writes)]);
        }
        let inner = Arc::new(Inner {
            rights: Mutex::new(rights),
            asked: Mutex::default(),
            client: Client::builder(TokioExecutor::new()).build_http(),
            target: target.to_owned(),
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let config = config.replace(target, &address);
        let config = config.replace("user: {}", &format!("user: {{token: {PAGE_TOKEN}}}"));
        assert!(config.contains(PAGE_TOKEN), "{config}");
        let router = Router::new().fallback(answer).with_state(Arc::clone(&inner));
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { inner, files: folder(&[("config", &config)]), task }
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.files.path().join("config")
    }

    /// All requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.inner.asked.lock().unwrap().clone()
    }

    /// A token is not accepted from now on.
    pub fn revoke(&self, token: &str) {
        self.inner.rights.lock().unwrap().tokens.remove(token).unwrap();
    }

    /// A person may read one more namespace, and write there.
    pub fn permit(&self, user: &str, namespace: &str) {
        let mut rights = self.inner.rights.lock().unwrap();
        rights.namespaces.get_mut(user).unwrap().push((namespace.to_owned(), true));
    }

    /// A person may do nothing in any namespace from now on.
    pub fn forbid(&self, user: &str) {
        self.inner.rights.lock().unwrap().namespaces.remove(user).unwrap();
    }
}

/// Who a request is of; the status of a refusal.
fn user_of(rights: &Rights, headers: &HeaderMap) -> Result<String, StatusCode> {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    let token = text("authorization").unwrap_or_default();
    let token = token.strip_prefix("Bearer ").unwrap_or_default();
    match (token, text("impersonate-user")) {
        (PAGE_TOKEN, Some(user)) => Ok(user),
        (PAGE_TOKEN, None) => Ok("system:serviceaccount:argocd:wavegate-dashboard".to_owned()),
        (_, Some(_)) => Err(StatusCode::FORBIDDEN),
        (token, None) => rights.tokens.get(token).cloned().ok_or(StatusCode::UNAUTHORIZED),
    }
}

async fn answer(State(inner): State<Arc<Inner>>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let path = parts.uri.path().to_owned();
    let (user, is_permitted) = {
        let rights = inner.rights.lock().unwrap();
        let user = user_of(&rights, &parts.headers);
        let namespace = path.split("/namespaces/").nth(1).and_then(|rest| rest.split('/').next());
        let verb = match parts.method {
            Method::GET => "get",
            _ => "patch",
        };
        let is_review = path.ends_with("reviews");
        let is_document = path == "/version" || path.split('/').count() < 5;
        let is_permitted = user
            .as_ref()
            .is_ok_and(|user| is_review || is_document || rights.permits(user, verb, namespace));
        (user, is_permitted)
    };
    let header = |name: &str| parts.headers.get(name).map(|v| v.to_str().unwrap().to_owned());
    let groups = parts.headers.get_all("impersonate-group").iter();
    let mut asked = Asked {
        user: user.clone().unwrap_or_default(),
        authorization: header("authorization").unwrap_or_default(),
        as_user: header("impersonate-user"),
        as_groups: groups.map(|group| group.to_str().unwrap().to_owned()).collect(),
        method: parts.method.clone(),
        path: path.clone(),
        status: 0,
    };
    let record = |asked: Asked| inner.asked.lock().unwrap().push(asked);
    let refused = match &user {
        Err(status) => Some(*status),
        Ok(_) if !is_permitted => Some(StatusCode::FORBIDDEN),
        Ok(_) => None,
    };
    if let Some(status) = refused {
        asked.status = status.as_u16();
        record(asked);
        let words = format!("{} may not {} {path}", user.unwrap_or_default(), parts.method);
        return json_answer(
            status,
            &json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status.as_u16(),
                "reason": status.canonical_reason().unwrap(), "message": words}),
        );
    }
    let user = user.unwrap();
    if path.ends_with("/selfsubjectaccessreviews") {
        let mut review: Value = serde_json::from_slice(&body).unwrap();
        let wanted = &review["spec"]["resourceAttributes"];
        let (verb, namespace) = (wanted["verb"].as_str().unwrap(), wanted["namespace"].as_str());
        let allowed = inner.rights.lock().unwrap().permits(&user, verb, namespace);
        review["status"] = json!({"allowed": allowed, "reason": "no role of the test has it"});
        asked.status = 201;
        record(asked);
        return json_answer(StatusCode::CREATED, &review);
    }
    let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let uri: Uri = format!("http://{}{path}{query}", inner.target).parse().unwrap();
    parts.uri = uri;
    parts.headers.remove("authorization");
    parts.headers.remove("host");
    parts.headers.remove("impersonate-group");
    let name = HeaderName::from_static("impersonate-user");
    parts.headers.insert(name, HeaderValue::from_str(&user).unwrap());
    let answer = inner.client.request(Request::from_parts(parts, Body::from(body))).await.unwrap();
    asked.status = answer.status().as_u16();
    record(asked);
    answer.map(Body::new)
}

fn json_answer(status: StatusCode, value: &Value) -> Response {
    let mut response = Response::new(Body::from(value.to_string()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert("content-type", kind);
    response
}

impl World {
    async fn put(&self, namespace: &str, kind: &str, object: &Value) -> DynamicObject {
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.cluster.client.clone(), namespace, &kind_resource(kind));
        let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        let created = api.create(&PostParams::default(), &object).await.unwrap();
        if let Some(status) = object.data.get("status") {
            let patch = Patch::Merge(json!({ "status": status }));
            let name = created.metadata.name.as_deref().unwrap();
            api.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
        }
        created
    }

    /// A set that waits for an approval, with its run and its Application.
    pub async fn waiting_set(&self, namespace: &str, name: &str) {
        let mut object: Value = serde_json::from_str(&set(&["a"], json!([{}]))).unwrap();
        object["apiVersion"] = "argoproj.io/v1alpha1".into();
        object["kind"] = "ApplicationSet".into();
        object["metadata"] =
            json!({"name": name, "namespace": namespace, "labels": {"tier": "prod"}});
        object["status"] = json!({"rollout": {"step": 1, "steps": 2, "progress": "12/30"}});
        let created = self.put(namespace, "ApplicationSet", &object).await;
        let owner = json!([{"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "name": name,
            "uid": created.metadata.uid, "controller": true, "blockOwnerDeletion": true}]);
        self.put(namespace, "RolloutRun", &json!({
            "apiVersion": "wavegate.dev/v1alpha1", "kind": "RolloutRun",
            "metadata": {"name": format!("{name}-1"), "ownerReferences": owner,
                "labels": {"wavegate.dev/application-set": name}},
            "spec": {"applicationSet": name}, "status": waits_for_approval(&[gate("production", 1)]),
        })).await;
        self.put(
            namespace,
            "Application",
            &json!({
                "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
                "metadata": {"name": format!("{name}-app"), "ownerReferences": owner},
                "spec": {"project": "default", "destination": {"server": "https://1"},
                    "source": {"repoURL": "https://r", "targetRevision": "main", "path": "."}},
            }),
        )
        .await;
    }

    /// An Application of no set, with this repository.
    pub async fn application_in(&self, namespace: &str, name: &str, url: &str) {
        let source = json!({"repoURL": url, "targetRevision": "main", "path": "."});
        self.put(namespace, "Application", &json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": name},
            "spec": {"project": "default", "source": source,
                "destination": {"server": "https://kubernetes.default.svc", "namespace": "default"}},
        })).await;
    }

    /// An object of a namespace.
    pub async fn get_in(&self, namespace: &str, kind: &str, name: &str) -> Value {
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.cluster.client.clone(), namespace, &kind_resource(kind));
        serde_json::to_value(api.get(name).await.unwrap()).unwrap()
    }
}
