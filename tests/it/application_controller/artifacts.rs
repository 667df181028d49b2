//! Artifacts of OCI registries as sources (SE-032): a registry in this process that asks for
//! tokens, pages, redirects and lies.

use std::net::SocketAddr;
use std::sync::Mutex;

use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::chart_repositories::{packed, secret, typed_secret};
use super::git_https::{basic, trust};
use super::programs::{confined, helms};
use super::*;
use crate::git_server::{Certificates, GitServer, Setup};

pub const TAR: &str = "application/vnd.oci.image.layer.v1.tar";
pub const GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const CHART: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// What a registry has, and how it behaves.
#[derive(Default)]
pub struct State {
    /// By path: the manifests by tag and digest, and the blobs.
    pub files: BTreeMap<String, Vec<u8>>,
    tags: Vec<String>,
    /// `user:password`; a token is given out for it.
    login: String,
    /// Answers everything else with this status.
    status: Option<StatusCode>,
    /// Tags per page, and whether the last page has a next one.
    page: usize,
    endless: bool,
    /// Where blobs are.
    pub blobs_at: Option<SocketAddr>,
    /// Where tokens are given, if not by the registry.
    tokens_at: Option<SocketAddr>,
    /// Method, path and `Authorization` of each request.
    pub seen: Vec<(Method, String, String)>,
}

/// A registry with one artifact, `team/app`.
#[derive(Clone)]
pub struct Registry {
    state: Arc<Mutex<State>>,
    pub address: SocketAddr,
}

fn digest(content: &[u8]) -> String {
    let hash = Sha256::digest(content);
    format!("sha256:{}", hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

/// An archive of files.
pub fn tar(files: &[(&str, &str)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, path, text.as_bytes()).unwrap();
    }
    archive.into_inner().unwrap()
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn described(kind: &str, content: &[u8]) -> Value {
    json!({"mediaType": kind, "digest": digest(content), "size": content.len()})
}

fn manifest(layers: &[Value]) -> Vec<u8> {
    let config = described("application/vnd.oci.empty.v1+json", b"{}");
    let manifest = json!({
        "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers,
    });
    manifest.to_string().into_bytes()
}

impl Registry {
    pub async fn start(login: &str) -> Self {
        let state = State { login: login.to_owned(), page: 1_000, ..State::default() };
        let state = Arc::new(Mutex::new(state));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let own = Arc::clone(&state);
        let answer = move |method: Method, uri: Uri, headers: HeaderMap| async move {
            answer(&mut own.lock().unwrap(), address, &method, &uri, &headers)
        };
        let app = axum::Router::new().fallback(answer);
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { state, address }
    }

    fn url(&self) -> String {
        format!("oci://{}/team/app", self.address)
    }

    pub fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap())
    }

    /// Stores a manifest at a tag; its digest.
    fn tag(&self, tag: &str, manifest: Vec<u8>) -> String {
        let digest = digest(&manifest);
        self.with(|state| {
            for reference in [tag, &digest] {
                state.files.insert(format!("/v2/team/app/manifests/{reference}"), manifest.clone());
            }
            if !state.tags.iter().any(|known| known == tag) {
                state.tags.push(tag.to_owned());
            }
        });
        digest
    }

    fn blob(&self, content: Vec<u8>) {
        let path = format!("/v2/team/app/blobs/{}", digest(&content));
        self.with(|state| state.files.insert(path, content));
    }

    /// Pushes one layer to a tag; the digest of its manifest.
    pub fn push(&self, tag: &str, kind: &str, layer: Vec<u8>) -> String {
        let manifest = manifest(&[described(kind, &layer)]);
        self.blob(layer);
        self.tag(tag, manifest)
    }

    /// A Secret that lets it be read by http.
    pub async fn permit(&self, world: &World, name: &str, fields: Value) {
        let mut all = json!({
            "url": self.url(), "type": "oci", "insecureOCIForceHttp": "true",
        });
        all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        secret(world, name, all).await;
    }

    pub fn source(&self, revision: &str, path: &str) -> Value {
        json!({"repoURL": self.url(), "targetRevision": revision, "path": path})
    }
}

fn answer(
    state: &mut State,
    own: SocketAddr,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Response {
    let given = headers.get(header::AUTHORIZATION).and_then(|text| text.to_str().ok());
    let given = given.unwrap_or_default().to_owned();
    let target = uri.path_and_query().unwrap().to_string();
    state.seen.push((method.clone(), target.clone(), given.clone()));
    if uri.path() == "/token" {
        let want = format!("Basic {}", STANDARD.encode(&state.login));
        return match given == want {
            true => (StatusCode::OK, json!({"token": "token-of-the-registry"}).to_string())
                .into_response(),
            false => StatusCode::UNAUTHORIZED.into_response(),
        };
    }
    if let Some(status) = state.status {
        let errors = json!({"errors": [{"code": "TOOMANYREQUESTS", "message": "slow\ndown"}]});
        return (status, [(header::RETRY_AFTER, "17")], errors.to_string()).into_response();
    }
    if !state.login.is_empty() && given != "Bearer token-of-the-registry" {
        let own = state.tokens_at.unwrap_or(own);
        let ask = format!(
            "Bearer realm=\"http://{own}/token\",service=\"reg,istry\",scope=\"repository:team/app:pull,push\""
        );
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, ask)]).into_response();
    }
    if uri.path() == "/v2/team/app/tags/list" {
        return page(state, uri);
    }
    if let Some(elsewhere) = state.blobs_at.filter(|_| uri.path().contains("/blobs/")) {
        let to = format!("http://{elsewhere}{}", uri.path());
        return (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, to)]).into_response();
    }
    let Some(content) = state.files.get(uri.path()).cloned() else {
        let errors = json!({"errors": [{"code": "MANIFEST_UNKNOWN", "message": "no such thing"}]});
        return (StatusCode::NOT_FOUND, errors.to_string()).into_response();
    };
    let known = header::HeaderName::from_static("docker-content-digest");
    ([(header::CONTENT_TYPE, MANIFEST.to_owned()), (known, digest(&content))], content)
        .into_response()
}

fn page(state: &State, uri: &Uri) -> Response {
    let last =
        uri.query().unwrap_or_default().split('&').find_map(|part| part.strip_prefix("last="));
    let from: usize = last.map_or(0, |last| last.parse().unwrap());
    let tags: Vec<&String> = state.tags.iter().skip(from).take(state.page).collect();
    let body = json!({"name": "team/app", "tags": tags}).to_string();
    let next = from + state.page;
    if next < state.tags.len() || state.endless {
        let link = format!("</v2/team/app/tags/list?n=1000&last={next}>; rel=\"next\"");
        return ([(header::LINK, link)], body).into_response();
    }
    body.into_response()
}

/// The files of an Application with one ConfigMap.
fn files(value: &str) -> Vec<u8> {
    tar(&[("app/one.json", &config_map("one", value, &[])), ("other/text", "not read")])
}

/// SE-032: a tag, a range and a digest, with a token of the registry and blobs elsewhere. The
/// revision is the digest; a tag that moves is found by a refresh, and a rollback is to the digest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn se_032_an_artifact_of_a_registry_is_a_source() {
    let world = World::with(confined(|_| {})).await;
    let registry = Registry::start("me:pass-word-1").await;
    let storage = Registry::start("").await;
    let first = registry.push("1.0.0", GZIP, gzip(&files("1")));
    registry.with(|state| {
        state.blobs_at = Some(storage.address);
        storage.with(|other| other.files = state.files.clone());
    });
    registry.permit(&world, "registry", json!({"username": "me", "password": "pass-word-1"})).await;
    world.deploy_app(&world.with_source("tag", registry.source("1.0.0", "app"))).await;
    let app = world.app("tag").await;
    assert_eq!(app["status"]["sync"]["revision"], first.as_str());
    assert_eq!(app["status"]["sourceType"], "Directory");
    assert_eq!(app["status"]["history"][0]["revision"], first.as_str());
    assert_eq!(world.data("one").await, json!({"value": "1"}));
    let seen = registry.with(|state| state.seen.clone());
    let token = seen.iter().find(|(_, path, _)| path.starts_with("/token")).unwrap();
    let scope = "/token?service=reg%2Cistry&scope=repository%3Ateam%2Fapp%3Apull";
    assert_eq!(token.1, scope, "no more than reading");
    assert!(seen.iter().any(|(method, _, _)| method == Method::HEAD), "{seen:?}");
    let elsewhere = storage.with(|state| state.seen.clone());
    assert!(!elsewhere.is_empty(), "blobs are read there");
    assert!(elsewhere.iter().all(|(_, _, login)| login.is_empty()), "{elsewhere:?}");

    // The tag moves.
    registry.with(|state| state.blobs_at = None);
    let second = registry.push("1.0.0", TAR, files("2"));
    world.refresh("tag").await;
    let moved = |app: &Value| app["status"]["sync"]["revision"] == second.as_str();
    world.until("tag", "on the new digest", moved).await;
    world.sync_until_good("tag", json!({})).await;
    assert_eq!(world.data("one").await, json!({"value": "2"}));
    // A rollback.
    world.sync("tag", json!({"revision": first})).await;
    let back = |app: &Value| {
        settled(app) && app["status"]["operationState"]["syncResult"]["revision"] == first.as_str()
    };
    let app = world.until("tag", "rolled back", back).await;
    assert_eq!(app["status"]["operationState"]["phase"], "Succeeded", "{app}");
    assert_eq!(world.data("one").await, json!({"value": "1"}));
    assert_eq!(app["status"]["history"].as_array().unwrap().len(), 3);

    // A digest stays, and a range has the newest tag of all pages.
    let jsonnet = "{apiVersion: 'v1', kind: 'ConfigMap', metadata: {name: 'range'}, \
                   data: {value: std.extVar('rev')}}";
    let third = registry.push("v1.10.0_build.1", TAR, tar(&[("./range.jsonnet", jsonnet)]));
    registry.push("2.0.0", TAR, files("4"));
    registry.with(|state| state.page = 1);
    let mut range = registry.source("^1.0", ".");
    range["directory"] =
        json!({"jsonnet": {"extVars": [{"name": "rev", "value": "$ARGOCD_APP_REVISION"}]}});
    world.deploy_app(&world.with_source("range", range)).await;
    assert_eq!(world.app("range").await["status"]["sync"]["revision"], third.as_str());
    assert_eq!(world.data("range").await, json!({"value": third}));
    let app = world.with_source("digest", registry.source(&format!("x@{second}"), "app"));
    world.create_app(&app).await;
    let pinned = |app: &Value| app["status"]["sync"]["revision"] == second.as_str();
    world.until("digest", "on its digest", pinned).await;
}

/// SE-374: an operation stays with the digest that it began with, while its tag moves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn se_374_an_operation_keeps_to_its_digest_when_the_tag_moves() {
    let world = World::with(confined(|_| {})).await;
    let registry = Registry::start("").await;
    registry.permit(&world, "registry", json!({})).await;
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "claim"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    let waves = |value: &str| {
        let wave = [("argocd.argoproj.io/sync-wave", "1")];
        tar(&[("claim.json", &claim.to_string()), ("one.json", &config_map("one", value, &wave))])
    };
    let first = registry.push("main", TAR, waves("1"));
    world.create_app(&world.with_source("app", registry.source("main", "."))).await;
    world.until("app", "compared", |app| is(app, "OutOfSync", "Missing")).await;
    world.sync("app", json!({})).await;
    let waits = |app: &Value| {
        app["status"]["operationState"]["message"]
            .as_str()
            .is_some_and(|text| text.contains("PersistentVolumeClaim/claim"))
    };
    world.until("app", "waiting for the claim", waits).await;
    let second = registry.push("main", TAR, waves("2"));
    world.refresh("app").await;
    let bound = json!({"status": {"phase": "Bound"}});
    world.patch_status_of(("v1", "PersistentVolumeClaim"), "web", "claim", bound).await;
    let done = |app: &Value| settled(app) && is(app, "OutOfSync", "Healthy");
    let app = world.until("app", "done, and behind the tag", done).await;
    assert_eq!(app["status"]["operationState"]["syncResult"]["revision"], first.as_str());
    assert_eq!(world.data("one").await, json!({"value": "1"}));
    assert_eq!(app["status"]["sync"]["revision"], second.as_str());
}

/// SE-032, SE-034: a chart of a registry as an artifact, also signed, with values files of
/// another artifact, and a kustomization.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn se_032_an_artifact_may_be_a_chart_with_values_of_another_one() {
    for helm in helms() {
        let world = World::with(confined(|programs| programs.helm = helm.clone())).await;
        let registry = Registry::start("").await;
        registry.permit(&world, "registry", json!({})).await;
        let chart = packed(&helm, "web", "1.0.0");
        let signature = b"signed".to_vec();
        let signed = manifest(&[
            described(CHART, &chart),
            described("application/vnd.cncf.helm.chart.provenance.v1.prov", &signature),
        ]);
        registry.blob(chart);
        let digest = registry.tag("1.0.0", signed);
        registry.push("values", TAR, tar(&[("prod/values.yaml", "a: artifact\n")]));
        world.deploy_app(&world.with_source("one", registry.source("1.x", "."))).await;
        let app = world.app("one").await;
        assert_eq!(app["status"]["sourceType"], "Helm");
        assert_eq!(app["status"]["sync"]["revision"], digest.as_str());
        assert_eq!(world.data("web-one").await, json!({"version": "1.0.0", "a": "chart"}));
        let mut app = world.application("two", "");
        app["spec"].as_object_mut().unwrap().remove("source");
        let mut web = registry.source("1.0.0", ".");
        web["helm"] = json!({"valueFiles": ["$values/prod/values.yaml"]});
        app["spec"]["sources"] = json!([
            web,
            {"repoURL": registry.url(), "targetRevision": "values", "ref": "values"},
        ]);
        world.deploy_app(&app).await;
        assert_eq!(world.data("web-two").await["a"], "artifact");
        assert_eq!(world.app("two").await["status"]["sync"]["revisions"][0], digest.as_str());
    }
}

/// SE-032: what cannot be read says what and where, and what to do; nothing is deployed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn se_032_what_is_no_artifact_is_refused_by_name() {
    let mut settings = confined(|_| {});
    settings.artifacts.max_bytes = Some(1 << 20);
    let world = World::with(settings).await;
    let registry = Registry::start("").await;
    registry.permit(&world, "registry", json!({})).await;
    registry.push("good", TAR, files("1"));
    registry.push("2.0.0", TAR, files("1"));
    registry.push("media", "application/vnd.example.tar", files("1"));
    let layer = described(TAR, &files("1"));
    registry.tag("layers", manifest(&[layer.clone(), layer.clone()]));
    registry.tag("empty", manifest(&[]));
    let index = json!({"schemaVersion": 2, "manifests": [layer]}).to_string();
    registry.tag("index", index.into_bytes());
    registry.tag("json", b"<html>".to_vec());
    registry.tag("huge", vec![b' '; 5 << 20]);
    let lie = json!({"mediaType": TAR, "digest": digest(b"other"), "size": files("1").len()});
    registry.tag("digest", manifest(&[lie]));
    registry.with(|state| {
        let path = format!("/v2/team/app/blobs/{}", digest(b"other"));
        state.files.insert(path, files("1"));
        // A registry that answers a digest with something else.
        let other = format!("/v2/team/app/manifests/{}", digest(b"other"));
        state.files.insert(other, b"{}".to_vec());
    });
    registry.push("bomb", GZIP, gzip(&tar(&[("app/one.json", &"x".repeat(2 << 20))])));
    registry.push("large", TAR, tar(&[("app/one.json", &"x".repeat(2 << 20))]));
    let cases = [
        ("missing", "nothing", "team/app: revision \"nothing\" not found: asked for the tag"),
        ("range", "^3", "none of the 11 tags of the artifact is a version in the range"),
        ("odd", "not a tag", "is neither a tag, a digest nor a range"),
        ("short", "sha256:1234", "it is no digest"),
        ("none", "", "targetRevision must be a tag, a digest or a range"),
        (
            "media",
            "media",
            "\"application/vnd.example.tar\", which is not permitted (permitted: application/vnd.oci.image.layer.v1.tar,",
        ),
        ("layers", "layers", "has 2 layers with files"),
        ("empty", "empty", "has 0 layers with files"),
        ("index", "index", "it is an image index"),
        ("json", "json", "its manifest is no JSON"),
        ("huge", "huge", "the manifest is over the limit of 4 MiB"),
        ("digest", "digest", "reading the layer failed: it has"),
        ("lie", &digest(b"other"), "reading the manifest failed: its digest is sha256:"),
        ("bomb", "bomb", "the layer of the artifact is over the limit of 1048576 bytes"),
        ("large", "large", "the layer of the artifact is over the limit of 1048576 bytes"),
    ];
    for (name, revision, want) in cases {
        let app = world.with_source(name, registry.source(revision, "app"));
        world.refused_for(&app, &[want]).await;
    }
    let path =
        world.refusal_of(&world.with_source("path", registry.source("good", "nowhere"))).await;
    assert!(path.contains("nowhere") && path.contains("team/app"), "{path}");
    let named = |url: &str| json!({"repoURL": url, "targetRevision": "1", "path": "."});
    for (name, url, want) in [
        ("tag-in-url", format!("{}:1.0", registry.url()), "write it in targetRevision instead"),
        ("upper", "oci://registry.invalid/Team".to_owned(), "no name of an artifact"),
        ("escaped", "oci://registry.invalid/te%61m".to_owned(), "no name of an artifact"),
        ("host", "oci://registry.invalid".to_owned(), "names a registry but no artifact"),
        ("git", "oci://registry.invalid/app.git".to_owned(), "must not end with .git"),
        ("login", "oci://me:pass-word-8@registry.invalid/app".to_owned(), "belong in the Secret"),
    ] {
        let message = world.refusal_of(&world.with_source(name, named(&url))).await;
        assert!(message.contains(want) && !message.contains("pass-word-8"), "{name}: {message}");
    }
    registry.with(|state| state.endless = true);
    let message = world.refusal_of(&world.with_source("pages", registry.source(">4", "app"))).await;
    assert!(message.contains("the list of tags is over the limit of 200 pages"), "{message}");
}

/// SE-032: a registry that refuses, limits requests, or whose credentials are wrong.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn se_032_a_registry_that_refuses_says_so() {
    let world = World::with(confined(|_| {})).await;
    let registry = Registry::start("me:pass-word-2").await;
    registry.push("1.0.0", TAR, files("1"));
    registry.permit(&world, "registry", json!({})).await;
    let want = ["access refused", "401", "a repository Secret of type oci"];
    world.refused_for(&world.with_source("none", registry.source("1.0.0", "app")), &want).await;
    let other = Registry::start("me:pass-word-2").await;
    let wrong = json!({"username": "me", "password": "wrong-word-2"});
    other.permit(&world, "other", wrong).await;
    let app = world.with_source("wrong", other.source("1.0.0", "app"));
    let message = world.refused_for(&app, &["does not accept the username and password"]).await;
    assert!(!message.contains("wrong-word-2"), "{message}");
    let busy = Registry::start("").await;
    busy.permit(&world, "busy", json!({})).await;
    busy.with(|state| state.status = Some(StatusCode::TOO_MANY_REQUESTS));
    let want = ["429", "TOOMANYREQUESTS slow down", "wait for 17 s", "timeout.reconciliation"];
    world.refused_for(&world.with_source("busy", busy.source("1.0.0", "app")), &want).await;
    // Another project, whose rules do not name the registry.
    world.project("narrow", json!({"sourceRepos": ["oci://registry.invalid/*"]})).await;
    let mut app = world.with_source("narrow", registry.source("1.0.0", "app"));
    app["spec"]["project"] = "narrow".into();
    world.create_app(&app).await;
    let denied =
        |app: &Value| condition(app, "InvalidSpecError", "is not permitted in project 'narrow'");
    world.until("narrow", "denied", denied).await;
}

/// SE-032: https with a certificate that only the control plane knows, and a password; the
/// registry does not say the digest of a tag.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn se_032_a_registry_with_its_own_authority() {
    let world = World::with(confined(|_| {})).await;
    let layer = files("1");
    let manifest = manifest(&[described(TAR, &layer)]);
    let known = digest(&manifest);
    let blob = format!("/v2/team/app/blobs/{}", digest(&layer));
    let by_digest = format!("/v2/team/app/manifests/{known}");
    let want = basic("me:pass-word-3");
    let api = move |seen: &crate::git_server::Seen| {
        let content = match seen.path.as_str() {
            "/v2/team/app/manifests/main" => &manifest,
            path if path == by_digest => &manifest,
            path if path == blob => &layer,
            _ => return None,
        };
        let text = String::from_utf8(content.clone()).unwrap();
        (seen.authorization() == want).then_some((StatusCode::OK, text))
    };
    let setup = Setup {
        authorization: basic("me:pass-word-3"),
        api: Some(Box::new(api)),
        ..Setup::default()
    };
    let certificates = Arc::new(Certificates::new());
    let server = GitServer::start(&certificates, setup).await;
    let url = format!("oci://{}/team/app", server.authority());
    let source = json!({"repoURL": url, "targetRevision": "main", "path": "app"});
    world.create_app(&world.with_source("app", source)).await;
    world.until_refused("app", &["the certificate of localhost", "argocd-tls-certs-cm"]).await;
    trust(&world, &certificates).await;
    world.until_refused("app", &["401", "a repository Secret of type oci"]).await;
    let host = format!("oci://{}", server.authority());
    let login = json!({"url": host, "type": "oci", "username": "me", "password": "pass-word-3"});
    typed_secret(&world, "repo-creds", "template", login).await;
    world.refresh("app").await;
    let compared = |app: &Value| app["status"]["sync"]["revision"] == known.as_str();
    world.until("app", "compared", compared).await;
    world.sync_until_good("app", json!({})).await;
    assert_eq!(world.data("one").await, json!({"value": "1"}));
}

/// A registry names who gives tokens for user name and password. A host outside of its domain gets
/// them only when the Secret names it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registry_sends_user_name_and_password_nowhere_else() {
    let world = World::with(confined(|_| {})).await;
    let registry = Registry::start("me:pass-word-1").await;
    registry.push("1.0.0", GZIP, gzip(&files("1")));
    let stranger = tokio::net::TcpListener::bind("127.0.0.2:0").await.unwrap();
    let place = stranger.local_addr().unwrap();
    let (asked, state) = (Arc::new(Mutex::new(0)), Arc::clone(&registry.state));
    let count = Arc::clone(&asked);
    let app = axum::Router::new().fallback(move |method: Method, uri: Uri, headers: HeaderMap| {
        *count.lock().unwrap() += 1;
        async move { answer(&mut state.lock().unwrap(), place, &method, &uri, &headers) }
    });
    tokio::spawn(async move { axum::serve(stranger, app).await.unwrap() });
    registry.with(|state| state.tokens_at = Some(place));
    let login = json!({"username": "me", "password": "pass-word-1"});
    registry.permit(&world, "registry", login.clone()).await;
    let app = world.with_source("app", registry.source("1.0.0", "app"));
    let named = place.to_string();
    world.refused_for(&app, &["which is not of its domain", &named, "ociTokenHosts"]).await;
    assert_eq!(*asked.lock().unwrap(), 0, "it is not even asked");

    let other = Registry::start("me:pass-word-1").await;
    other.push("1.0.0", GZIP, gzip(&files("1")));
    other.with(|state| state.tokens_at = Some(place));
    let mut fields = login;
    fields["ociTokenHosts"] = json!("other.example, 127.0.0.2");
    other.permit(&world, "other", fields).await;
    world.deploy_app(&world.with_source("named", other.source("1.0.0", "app"))).await;
    assert_eq!(world.data("one").await, json!({"value": "1"}));
    assert!(*asked.lock().unwrap() > 0);
}

/// An archive of a few kilobytes that repeats an entry was unpacked for minutes, beyond every limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_artifact_of_very_many_entries_is_refused() {
    let world = World::with(confined(|_| {})).await;
    let registry = Registry::start("").await;
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Directory);
    header.set_path(["a"; 40].join("/")).unwrap();
    header.set_size(0);
    header.set_mode(0o755);
    header.set_cksum();
    // Of many parts, as gzip permits: 808,000 entries.
    let layer = gzip(&header.as_bytes().repeat(8_000)).repeat(101);
    registry.push("1.0.0", GZIP, layer);
    registry.permit(&world, "registry", json!({})).await;
    let app = world.with_source("app", registry.source("1.0.0", "."));
    world.refused_for(&app, &["the artifact is over the limit of 800000 entries"]).await;
}
