//! Charts of Helm repositories and OCI registries as sources (SE-033).

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Mutex;

use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use sha2::{Digest, Sha256};

use super::programs::{confined, helms};
use super::*;

/// The files of a server, by path.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Serves files; with a login `user:password`, only to those who have it.
pub async fn serve(files: Files, login: &str) -> SocketAddr {
    serve_changing(Arc::new(Mutex::new(files)), login).await
}

async fn serve_changing(files: Arc<Mutex<Files>>, login: &str) -> SocketAddr {
    let want = base64::engine::general_purpose::STANDARD.encode(login);
    let want = if login.is_empty() { String::new() } else { format!("Basic {want}") };
    let answer = move |uri: Uri, headers: HeaderMap| async move {
        let given = headers.get(header::AUTHORIZATION).and_then(|text| text.to_str().ok());
        if !want.is_empty() && given != Some(&want) {
            let ask = [(header::WWW_AUTHENTICATE, "Basic realm=\"charts\"")];
            return (StatusCode::UNAUTHORIZED, ask, "unauthorized").into_response();
        }
        found(&files.lock().unwrap(), uri.path())
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = axum::Router::new().fallback(answer);
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    address
}

/// A file, with the headers of a registry.
fn found(files: &Files, path: &str) -> Response {
    if path == "/v2/" {
        return StatusCode::OK.into_response();
    }
    let Some(content) = files.get(path) else { return StatusCode::NOT_FOUND.into_response() };
    let kind = match path.contains("/manifests/") {
        true => "application/vnd.oci.image.manifest.v1+json",
        false => "application/octet-stream",
    };
    let headers = [
        (header::CONTENT_TYPE, kind.to_owned()),
        (header::HeaderName::from_static("docker-content-digest"), digest(content)),
    ];
    (headers, content.clone()).into_response()
}

fn digest(content: &[u8]) -> String {
    let hash = Sha256::digest(content);
    format!("sha256:{}", hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

/// Packs a chart that renders its version and the value `a`.
pub fn packed(helm: &PathBuf, name: &str, version: &str) -> Vec<u8> {
    packed_with(helm, name, version, "a: chart\n")
}

/// The same with other values.
fn packed_with(helm: &PathBuf, name: &str, version: &str, values: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let chart = folder.path().join(name);
    std::fs::create_dir_all(chart.join("templates")).unwrap();
    let text = format!("apiVersion: v2\nname: {name}\nversion: {version}\n");
    std::fs::write(chart.join("Chart.yaml"), text).unwrap();
    std::fs::write(chart.join("values.yaml"), values).unwrap();
    std::fs::write(chart.join("other.yaml"), "a: other\n").unwrap();
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Chart.Name }}-{{ .Release.Name }}}\n\
        data: {version: '{{ .Chart.Version }}', a: '{{ .Values.a }}'}\n";
    std::fs::write(chart.join("templates/cm.yaml"), template).unwrap();
    let packed = Command::new(helm)
        .args(["package", "--destination"])
        .args([folder.path(), &chart])
        .env("HOME", folder.path())
        .output()
        .unwrap();
    assert!(packed.status.success(), "{}", String::from_utf8_lossy(&packed.stderr));
    std::fs::read(folder.path().join(format!("{name}-{version}.tgz"))).unwrap()
}

/// The files of a repository with an index.
pub fn repository(helm: &PathBuf, name: &str, versions: &[&str]) -> Files {
    let mut files = Files::new();
    let mut entries = Vec::new();
    for version in versions {
        let archive = packed(helm, name, version);
        let path = format!("charts/{name}-{version}.tgz");
        entries.push(json!({
            "apiVersion": "v2", "name": name, "version": version, "urls": [path],
            "digest": digest(&archive).trim_start_matches("sha256:"),
            "created": "2024-01-01T00:00:00Z",
        }));
        files.insert(format!("/{path}"), archive);
    }
    let index = json!({
        "apiVersion": "v1", "entries": {name: entries}, "generated": "2024-01-01T00:00:00Z",
    });
    files.insert("/index.yaml".to_owned(), index.to_string().into_bytes());
    files
}

/// The files of a registry.
pub fn registry(helm: &PathBuf, path: &str, versions: &[&str]) -> Files {
    let name = path.rsplit('/').next().unwrap();
    let mut files = Files::new();
    let blob = |files: &mut Files, content: Vec<u8>, kind: &str| {
        let described = json!({
            "mediaType": kind, "digest": digest(&content), "size": content.len(),
        });
        files.insert(format!("/v2/{path}/blobs/{}", digest(&content)), content);
        described
    };
    for version in versions {
        let config = json!({"apiVersion": "v2", "name": name, "version": version}).to_string();
        let config =
            blob(&mut files, config.into_bytes(), "application/vnd.cncf.helm.config.v1+json");
        let archive = packed(helm, name, version);
        let kind = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
        let layer = blob(&mut files, archive, kind);
        let manifest = json!({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config, "layers": [layer],
        });
        let manifest = manifest.to_string().into_bytes();
        files.insert(format!("/v2/{path}/manifests/{}", digest(&manifest)), manifest.clone());
        files.insert(format!("/v2/{path}/manifests/{version}"), manifest);
    }
    let tags = json!({"name": path, "tags": versions});
    files.insert(format!("/v2/{path}/tags/list"), tags.to_string().into_bytes());
    files
}

/// The Secret of a repository.
pub async fn secret(world: &World, name: &str, fields: Value) {
    typed_secret(world, "repository", name, fields).await;
}

/// A Secret of this type.
pub async fn typed_secret(world: &World, type_: &str, name: &str, fields: Value) {
    let secret = json!({
        "metadata": {
            "name": name, "namespace": NAMESPACE,
            "labels": {"argocd.argoproj.io/secret-type": type_},
        },
        "data": fields.as_object().unwrap().iter().map(|(key, value)| {
            let value = base64::engine::general_purpose::STANDARD.encode(value.as_str().unwrap());
            (key.clone(), Value::from(value))
        }).collect::<serde_json::Map<_, _>>(),
    });
    world.create("v1", "Secret", &secret).await;
}

/// SE-033: a version, and the newest one of a range; a new version is found by a refresh, with
/// the credentials of the repository.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn se_033_a_chart_of_a_repository_is_a_source() {
    for helm in helms() {
        let world = World::with(confined(|programs| programs.helm = helm.clone())).await;
        let versions = ["1.0.0", "1.2.0", "1.10.1", "2.0.0-rc.1", "0.9.0"];
        let files = Arc::new(Mutex::new(repository(&helm, "web", &versions)));
        let server = serve_changing(Arc::clone(&files), "me:pass-word-1").await;
        let url = format!("http://{server}");
        let source = |revision: &str, helm: Value| json!({"repoURL": url, "chart": "web", "targetRevision": revision, "helm": helm});
        let message =
            world.refusal_of(&world.with_source("anonymous", source("1.x", json!({})))).await;
        assert!(message.contains("access refused") && message.contains("401"), "{message}");
        secret(
            &world,
            "charts",
            json!({"url": url, "type": "helm", "username": "me", "password": "pass-word-1"}),
        )
        .await;
        world
            .deploy_app(
                &world.with_source("exact", source("1.2.0", json!({"valueFiles": ["other.yaml"]}))),
            )
            .await;
        assert_eq!(world.data("web-exact").await, json!({"version": "1.2.0", "a": "other"}));
        world.deploy_app(&world.with_source("range", source("^1.0", json!({})))).await;
        let app = world.app("range").await;
        assert_eq!(app["status"]["sync"]["revision"], "1.10.1");
        assert_eq!(app["status"]["sourceType"], "Helm");
        assert_eq!(world.data("web-range").await, json!({"version": "1.10.1", "a": "chart"}));
        for (name, source, want) in [
            ("none", source("9.x", json!({})), "no version of chart web is in the range"),
            ("absent", source("9.9.9", json!({})), "9.9.9"),
            ("word", source("main", json!({})), "neither a version of a chart nor a range"),
            (
                "chart",
                json!({"repoURL": url, "chart": "other", "targetRevision": "1.x"}),
                "has no chart \"other\"",
            ),
            (
                "path",
                json!({"repoURL": url, "chart": "../web", "targetRevision": "1.x"}),
                "is not the name of a chart",
            ),
            (
                "kustomize",
                json!({"repoURL": url, "chart": "web", "targetRevision": "1.2.0", "kustomize": {"namePrefix": "x"}}),
                "a chart is rendered by Helm",
            ),
        ] {
            let message = world.refusal_of(&world.with_source(name, source)).await;
            assert!(message.contains(want), "{name}: {message}");
            assert!(!message.contains("pass-word-1"), "{message}");
        }
        *files.lock().unwrap() = repository(&helm, "web", &["1.10.1", "1.11.0"]);
        // With fewer numbers it is a range, as for Helm.
        world.deploy_app(&world.with_source("short", source("1.11", json!({})))).await;
        assert_eq!(world.app("short").await["status"]["sync"]["revision"], "1.11.0");
        world.refresh("range").await;
        let newer = |app: &Value| app["status"]["sync"]["revision"] == "1.11.0";
        world.until("range", "on the new version", newer).await;
    }
}

/// SE-033: charts of a registry, without a scheme as in Argo CD, and with one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn se_033_a_chart_of_a_registry_is_a_source() {
    for helm in helms() {
        let world = World::with(confined(|programs| programs.helm = helm.clone())).await;
        let files = registry(&helm, "team/web", &["1.0.0", "1.4.0", "2.0.0"]);
        let server = serve(files, "me:pass-word-2").await;
        let url = format!("{server}/team");
        for (name, url) in [("plain", url.clone()), ("scheme", format!("oci://{url}"))] {
            let fields = json!({
                "url": url, "type": "helm", "enableOCI": "true", "username": "me",
                "password": "pass-word-2", "insecureOCIForceHttp": "true",
            });
            secret(&world, name, fields).await;
            let source = json!({"repoURL": url, "chart": "web", "targetRevision": "1.x"});
            world.deploy_app(&world.with_source(name, source)).await;
            let app = world.app(name).await;
            assert_eq!(app["status"]["sync"]["revision"], "1.4.0");
            assert_eq!(world.data(&format!("web-{name}")).await["version"], "1.4.0");
        }
    }
}

/// Values files of another source, for a chart of a repository (SE-034).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn se_034_a_chart_of_a_repository_has_values_files_of_another_source() {
    for helm in helms() {
        let world = World::with(confined(|programs| programs.helm = helm.clone())).await;
        let server = serve(repository(&helm, "web", &["1.0.0"]), "").await;
        world.commit_file("envs/prod/values.yaml", "a: from-git\n");
        let mut app = world.application("web", "");
        let git = app["spec"]["source"]["repoURL"].clone();
        app["spec"].as_object_mut().unwrap().remove("source");
        app["spec"]["sources"] = json!([
            {"repoURL": format!("http://{server}"), "chart": "web", "targetRevision": "1.0.0",
             "helm": {"valueFiles": ["$values/envs/*/values.yaml"]}},
            {"repoURL": git, "targetRevision": "main", "ref": "values"},
        ]);
        world.deploy_app(&app).await;
        assert_eq!(world.data("web-web").await["a"], "from-git");
    }
}

/// Credentials stay with their host, unless the source passes them on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_are_passed_on_only_where_the_source_says_so() {
    for helm in helms() {
        let world = World::with(confined(|programs| programs.helm = helm.clone())).await;
        let mut index = repository(&helm, "web", &["1.0.0"]);
        let archive = index.remove("/charts/web-1.0.0.tgz").unwrap();
        let files = Files::from([("/web-1.0.0.tgz".to_owned(), archive)]);
        let elsewhere = serve(files, "me:pass-word-4").await;
        let text = String::from_utf8(index.remove("/index.yaml").unwrap()).unwrap();
        // Another host by its name, not only another port.
        let other = format!("http://localhost:{}/web-1.0.0.tgz", elsewhere.port());
        let text = text.replace("charts/web-1.0.0.tgz", &other);
        index.insert("/index.yaml".to_owned(), text.into_bytes());
        let url = format!("http://{}", serve(index, "me:pass-word-4").await);
        let login = json!({"url": url, "username": "me", "password": "pass-word-4"});
        secret(&world, "charts", login).await;
        let source = |helm: Value| json!({"repoURL": url, "chart": "web", "targetRevision": "1.0.0", "helm": helm});
        let own = source(json!({"releaseName": "own"}));
        let message = world.refused_for(&world.with_source("own", own), &[&other, "401"]).await;
        assert!(!message.contains("pass-word-4"), "{message}");
        let passed = source(json!({"releaseName": "all", "passCredentials": true}));
        world.deploy_app(&world.with_source("all", passed)).await;
        assert_eq!(world.data("web-all").await["version"], "1.0.0");
    }
}

/// What a repository sends instead of a chart is refused, and writes nothing elsewhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_archives_are_refused() {
    for helm in helms() {
        let world = World::with(confined(|programs| {
            programs.helm = helm.clone();
            programs.disk_bytes = 20 << 20;
            programs.timeout = Duration::from_secs(30);
        }))
        .await;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        std::fs::create_dir_all(path.join("web/templates")).unwrap();
        std::fs::write(path.join("web/Chart.yaml"), "apiVersion: v2\nname: web\nversion: 1.0.0\n")
            .unwrap();
        std::fs::write(path.join("secret"), "s3cr3t").unwrap();
        std::fs::write(path.join("web/big"), vec![b'a'; 200 << 20]).unwrap();
        let tar = |name: &str, args: &[&str]| {
            let archive = path.join(name);
            let mut call = Command::new("tar");
            call.current_dir(path).arg("-czPf").arg(&archive).args(args);
            assert!(call.status().unwrap().success());
            std::fs::read(archive).unwrap()
        };
        let bomb = tar("bomb.tgz", &["web"]);
        std::fs::remove_file(path.join("web/big")).unwrap();
        std::fs::write(path.join("web/templates/x.yaml"), "a: b\n").unwrap();
        let outside =
            tar("outside.tgz", &["--transform=s,^web/templates,../../../escaped,", "web"]);
        std::fs::remove_dir_all(path.join("web/templates")).unwrap();
        std::os::unix::fs::symlink(path.join("secret"), path.join("web/values.yaml")).unwrap();
        let linked = tar("linked.tgz", &["web"]);
        for (name, archive) in [
            ("bomb", bomb),
            ("outside", outside),
            ("linked", linked),
            ("garbage", b"no archive".to_vec()),
            ("empty", Vec::new()),
        ] {
            let mut files = repository(&helm, "web", &["1.0.0"]);
            let index = String::from_utf8(files["/index.yaml"].clone()).unwrap();
            let known = digest(&files["/charts/web-1.0.0.tgz"]);
            let own =
                index.replace(&known["sha256:".len()..], &digest(&archive)["sha256:".len()..]);
            files.insert("/index.yaml".to_owned(), own.into_bytes());
            files.insert("/charts/web-1.0.0.tgz".to_owned(), archive);
            let url = format!("http://{}", serve(files, "").await);
            let source = json!({"repoURL": url, "chart": "web", "targetRevision": "1.0.0"});
            let app = world.with_source(name, source);
            if name == "linked" {
                // Helm leaves links out.
                world.create_app(&app).await;
                let done = |app: &Value| !app["status"]["sync"]["status"].is_null();
                world.until(name, "compared", done).await;
                continue;
            }
            let message = world.refusal_of(&app).await;
            assert!(message.contains("Failed to load target state"), "{name}: {message}");
            assert!(!message.contains("s3cr3t"), "{name}: {message}");
        }
    }
}

/// A chart that is pushed again under its version is fetched again by a hard refresh.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hard_refresh_fetches_a_chart_again() {
    for helm in helms() {
        let world = World::with(confined(|programs| programs.helm = helm.clone())).await;
        let files = Arc::new(Mutex::new(repository(&helm, "web", &["1.0.0"])));
        let url = format!("http://{}", serve_changing(Arc::clone(&files), "").await);
        let source = json!({"repoURL": url, "chart": "web", "targetRevision": "1.0.0"});
        world.deploy_app(&world.with_source("web", source)).await;
        assert_eq!(world.data("web-web").await["a"], "chart");
        let again = packed_with(&helm, "web", "1.0.0", "a: again\n");
        {
            let mut changed = files.lock().unwrap();
            let before = digest(&changed["/charts/web-1.0.0.tgz"]);
            let index = String::from_utf8(changed["/index.yaml"].clone()).unwrap();
            let (before, now) = (&before["sha256:".len()..], &digest(&again)["sha256:".len()..]);
            changed.insert("/index.yaml".to_owned(), index.replace(before, now).into_bytes());
            changed.insert("/charts/web-1.0.0.tgz".to_owned(), again);
        }
        world.refresh("web").await;
        world.until("web", "out of sync", |app| is(app, "OutOfSync", "Healthy")).await;
        world.sync_until_good("web", json!({})).await;
        assert_eq!(world.data("web-web").await["a"], "again");
    }
}
