//! Private repositories over https, on a real Git server with each way to log in, behind a
//! proxy, and with certificates of an authority that only the control plane knows.

use axum::http::StatusCode;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::chart_repositories::{secret, typed_secret};
use super::programs::confined;
use super::*;
use crate::git_server::{Certificates, GitServer, Proxy, Seen, Setup};

/// A server whose repository `team/app.git` has the one of the world.
pub async fn server(world: &World, certificates: &Arc<Certificates>, setup: Setup) -> GitServer {
    let server = GitServer::start(certificates, setup).await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    server.publish(world.repo.path(), "team/app.git");
    server
}

pub fn basic(login: &str) -> String {
    format!("Basic {}", STANDARD.encode(login))
}

/// Makes the control plane trust a server.
pub async fn trust(world: &World, certificates: &Certificates) {
    let data = json!({"localhost": certificates.text("ca.crt")});
    world.config("argocd-tls-certs-cm", data).await;
}

impl World {
    /// Creates a ConfigMap of the control plane, or changes its data.
    pub async fn config(&self, name: &str, data: Value) {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
        let api = self.api("v1", "ConfigMap", NAMESPACE);
        api.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(map)).await.unwrap();
    }

    /// Waits until an Application is refused with all of these texts; its condition.
    pub async fn until_refused(&self, name: &str, texts: &[&str]) -> String {
        let has_all =
            |app: &Value| texts.iter().all(|text| condition(app, "ComparisonError", text));
        let app = self.until(name, &format!("{texts:?}"), has_all).await;
        app["status"]["conditions"].to_string()
    }

    /// Waits until an Application that could not be compared is compared, and syncs it.
    pub async fn until_deployed(&self, name: &str) {
        self.refresh(name).await;
        let compared = |app: &Value| app["status"]["sync"]["status"] == "OutOfSync";
        self.until(name, "compared", compared).await;
        self.sync_until_good(name, json!({})).await;
        let one = self.get("v1", "ConfigMap", "web", "one").await;
        assert_eq!(one["data"], json!({"value": "1"}), "{name}");
        self.delete_map("one").await;
        self.delete_app(name).await;
        self.until(name, "gone", Value::is_null).await;
    }
}

fn app(world: &World, name: &str, url: &str) -> Value {
    world.with_source(name, json!({"repoURL": url, "path": "app"}))
}

/// SE-032: a certificate that is not trusted names the host and the ConfigMap, which acts
/// without a restart; then the credentials of a Secret, of the longest template, and of none
/// that belongs to another project.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn se_032_a_private_repository_with_a_password_and_its_own_authority() {
    let world = World::with(confined(|_| {})).await;
    let certificates = Arc::new(Certificates::new());
    let setup = Setup { authorization: basic("me:pass-word-9"), ..Setup::default() };
    let server = server(&world, &certificates, setup).await;
    let url = server.url("team/app.git");
    world.create_app(&app(&world, "app", &url)).await;
    let untrusted = [
        "the certificate of localhost is not trusted",
        "argocd-tls-certs-cm with the key localhost",
    ];
    world.until_refused("app", &untrusted).await;
    trust(&world, &certificates).await;
    world.until_refused("app", &["access refused, check its credentials"]).await;
    // Of another project, and of a shorter prefix with a wrong password.
    let login =
        |name: &str, password: &str| json!({"url": name, "username": "me", "password": password});
    let mut other = login(&url, "pass-word-9");
    other["project"] = "other".into();
    secret(&world, "other", other).await;
    let template = async |name: &str, url: String, password: &str| {
        typed_secret(&world, "repo-creds", name, login(&url, password)).await;
    };
    template("short", server.url(""), "wrong-word").await;
    let message = world.until_refused("app", &["Authentication failed"]).await;
    assert!(!message.contains("wrong-word"), "{message}");
    // Without credentials of its own, the repository has those of the template.
    secret(&world, "own", json!({"url": url, "name": "app"})).await;
    template("long", server.url("team"), "pass-word-9").await;
    world.until_deployed("app").await;
    let left = walk(world._cache.path());
    let text = left.iter().filter_map(|path| std::fs::read_to_string(path).ok());
    assert!(!text.into_iter().any(|text| text.contains("pass-word-9")), "no file keeps it");
}

fn walk(directory: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(walk(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}

/// SE-032: a token in a header, which no redirect gets; a login that is sent at once; a
/// certificate of the client; and no check of the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn se_032_a_private_repository_with_a_token_or_a_certificate() {
    let world = World::with(confined(|_| {})).await;
    let certificates = Arc::new(Certificates::new());
    trust(&world, &certificates).await;
    let bearer = Setup { authorization: "Bearer to-ken-1234".into(), ..Setup::default() };
    let bearer = server(&world, &certificates, bearer).await;
    let forced = Setup { authorization: basic("me:pass-word-8"), ..Setup::default() };
    let forced = server(&world, &certificates, forced).await;
    let closed = Setup { needs_client: true, ..Setup::default() };
    let closed = server(&world, &certificates, closed).await;

    let url = bearer.url("team/app.git");
    secret(&world, "bearer", json!({"url": url, "bearerToken": "to-ken-1234"})).await;
    world.create_app(&app(&world, "bearer", &url)).await;
    world.until_deployed("bearer").await;

    let away = bearer.url("");
    let redirect = move |seen: &Seen| {
        Some((
            StatusCode::MOVED_PERMANENTLY,
            format!("{away}{}", seen.path.trim_start_matches('/')),
        ))
    };
    let redirects = Setup { api: Some(Box::new(redirect)), ..Setup::default() };
    let redirects = server(&world, &certificates, redirects).await;
    let url = redirects.url("team/app.git");
    secret(&world, "redirects", json!({"url": url, "bearerToken": "other-token-77"})).await;
    let before = bearer.seen().len();
    let app_of = app(&world, "redirects", &url);
    let message = world.refused_for(&app_of, &["write the URL that it redirects to"]).await;
    assert!(!message.contains("other-token-77"), "{message}");
    let after = &bearer.seen()[before..];
    assert!(after.iter().all(|seen| seen.authorization().is_empty()), "{after:?}");

    let url = forced.url("team/app.git");
    let fields = json!({
        "url": url, "username": "me", "password": "pass-word-8", "forceHttpBasicAuth": "true",
    });
    secret(&world, "forced", fields).await;
    world.create_app(&app(&world, "forced", &url)).await;
    world.until_deployed("forced").await;
    // Until the Secret is known there is no login; then it is sent before it is asked for.
    let mut unasked = forced.seen();
    let first = unasked.iter().position(|seen| !seen.authorization().is_empty());
    unasked.drain(..first.expect("a login"));
    assert!(unasked.iter().all(|seen| !seen.authorization().is_empty()), "{unasked:?}");

    let url = closed.url("team/app.git");
    world.create_app(&app(&world, "closed", &url)).await;
    world.until("closed", "refused", |app| condition(app, "ComparisonError", "localhost")).await;
    let [certificate, key] = ["client.crt", "client.key"].map(|name| certificates.text(name));
    let fields = json!({"url": url, "tlsClientCertData": certificate, "tlsClientCertKey": key});
    secret(&world, "closed", fields).await;
    world.until_deployed("closed").await;

    // Another authority than the one that is known.
    let unknown = Arc::new(Certificates::new());
    let insecure = server(&world, &unknown, Setup::default()).await;
    let url = insecure.url("team/app.git");
    let message = world.refusal_of(&app(&world, "insecure", &url)).await;
    assert!(message.contains("argocd-tls-certs-cm"), "{message}");
    secret(&world, "insecure", json!({"url": url, "insecure": "true"})).await;
    world.until_deployed("insecure").await;
}

/// SE-032: a proxy with a login, and hosts that are reached without it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn se_032_a_repository_behind_a_proxy() {
    let world = World::with(confined(|_| {})).await;
    let certificates = Arc::new(Certificates::new());
    trust(&world, &certificates).await;
    let proxy = Proxy::start_that(true).await;
    for (name, no_proxy) in [("through", "example.com"), ("around", "example.com,localhost")] {
        let server = server(&world, &certificates, Setup::default()).await;
        let url = server.url("team/app.git");
        let fields =
            json!({"url": url, "proxy": proxy.url("me:pass-word-7@"), "noProxy": no_proxy});
        secret(&world, name, fields).await;
        world.create_app(&app(&world, name, &url)).await;
        world.until_deployed(name).await;
        let asked = proxy.seen().iter().any(|head| head.contains(&server.authority()));
        assert_eq!(asked, name == "through", "{:?}", proxy.seen());
    }
    let login = format!("Proxy-Authorization: {}", basic("me:pass-word-7"));
    assert!(proxy.seen().iter().any(|head| head.contains(&login)), "{:?}", proxy.seen());
}

/// SE-032: submodules with relative URLs, of private repositories, in submodules; those that
/// the project does not permit, and URLs that would start programs, are refused by name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn se_032_submodules_are_read_with_their_own_credentials() {
    let mut world = World::with(confined(|_| {})).await;
    let certificates = Arc::new(Certificates::new());
    trust(&world, &certificates).await;
    let setup = Setup { authorization: basic("me:pass-word-6"), ..Setup::default() };
    let server = GitServer::start(&certificates, setup).await;
    let folder = tempfile::tempdir().unwrap();
    let repository = |name: &str, modules: &[(&str, &str, &str)]| {
        let path = folder.path().join(name);
        std::fs::create_dir(&path).unwrap();
        git(&path, &["init", "--quiet", "--initial-branch=main"]);
        std::fs::write(path.join(format!("{name}.json")), config_map(name, "1", &[])).unwrap();
        let mut text = String::new();
        for (at, url, commit) in modules {
            text.push_str(&format!("[submodule \"{at}\"]\n\tpath = {at}\n\turl = {url}\n"));
            git(&path, &["update-index", "--add", "--cacheinfo", &format!("160000,{commit},{at}")]);
        }
        std::fs::write(path.join(".gitmodules"), text).unwrap();
        git(&path, &["add", &format!("{name}.json"), ".gitmodules"]);
        git(&path, &["commit", "--quiet", "--message=first"]);
        server.publish(&path, &format!("team/{name}.git"));
        git(&path, &["rev-parse", "HEAD"])
    };
    let inner = repository("inner", &[]);
    let outer = repository("outer", &[("deep/inner", "../inner.git", &inner)]);
    repository("whole", &[("sub", "../outer.git", &outer)]);
    let login = json!({"url": server.url("team"), "username": "me", "password": "pass-word-6"});
    typed_secret(&world, "repo-creds", "login", login).await;
    let source = |name: &str, path: &str| json!({"repoURL": server.url(&format!("team/{name}.git")), "path": path, "directory": {"recurse": true}});
    world.deploy_app(&world.with_source("whole", source("whole", "."))).await;
    for name in ["whole", "outer", "inner"] {
        assert_eq!(world.data(name).await, json!({"value": "1"}), "{name}");
    }
    // The same objects as those of the other Application.
    world.create_app(&world.with_source("part", source("whole", "sub/deep"))).await;
    let has_inner = |app: &Value| {
        let all = app["status"]["resources"].as_array().into_iter().flatten();
        all.map(|row| row["name"].as_str()).collect::<Vec<_>>() == [Some("inner")]
    };
    world.until("part", "compared", has_inner).await;

    // A submodule of a submodule that is not fetched is missing in the whole, too: an empty folder
    // in its place would prune its objects.
    for (name, url) in [("no-url", ""), ("none", "../inner.git\n\tupdate = none")] {
        let outer = repository(&format!("outer-{name}"), &[("deep/inner", url, &inner)]);
        repository(name, &[("sub", &format!("../outer-{name}.git"), &outer)]);
        for path in ["sub/deep/inner", "sub"] {
            let mut app = world.with_source(&format!("{name}-{}", path.len()), source(name, path));
            app["spec"]["source"]["directory"]["recurse"] = true.into();
            let message = world.refusal_of(&app).await;
            assert!(message.contains("sub/deep/inner: is a git submodule"), "{name}: {message}");
        }
    }

    let rules =
        json!({"sourceRepos": [server.url("team/whole.git"), server.url("team/outer.git")]});
    world.project("closed", rules).await;
    let mut denied = world.with_source("denied", source("whole", "sub"));
    denied["spec"]["project"] = "closed".into();
    let parts = [
        "submodule sub: ",
        "submodule deep/inner: ",
        "team/inner.git",
        "is not permitted in project",
    ];
    world.refused_for(&denied, &parts).await;

    // A rendering that is kept counts only as long as the project permits all of it.
    let projects = world.api("argoproj.io/v1alpha1", "AppProject", NAMESPACE);
    let [closed, open] = [vec!["whole", "outer"], vec!["whole", "outer", "inner"]].map(|names| {
        let urls = names.iter().map(|name| server.url(&format!("team/{name}.git")));
        Patch::Merge(json!({"spec": {"sourceRepos": urls.collect::<Vec<String>>()}}))
    });
    let params = PatchParams::default();
    projects.patch("closed", &params, &open).await.unwrap();
    let is_compared =
        |app: &Value| app["status"]["resources"].as_array().is_some_and(|all| !all.is_empty());
    world.until("denied", "compared", is_compared).await;
    world.rest().await;
    projects.patch("closed", &params, &closed).await.unwrap();
    let refused = |app: &Value| condition(app, "ComparisonError", "team/inner.git");
    world.until("denied", "refused", refused).await;

    for (name, url, want) in [
        ("ext", "ext::/tmp/pwned", "the part after ':' is not a repository path"),
        ("option", "--upload-pack=touch /tmp/pwned", "must not start with '-'"),
        ("local", "/etc", "local directories are not allowed"),
        ("out", "../../../../x", "leads out of the server"),
        ("other", "https://user:pass-word-5@localhost:1/x", "not reachable"),
    ] {
        repository(name, &[("sub", url, &inner)]);
        let message = world.refusal_of(&world.with_source(name, source(name, "."))).await;
        assert!(message.contains("submodule sub: ") && message.contains(want), "{name}: {message}");
        assert!(!message.contains("pass-word"), "{message}");
    }

    // Switched off, nothing of it is asked for.
    world.crash().await;
    world.settings.submodules = false;
    world.run();
    let message = world.refusal_of(&world.with_source("off", source("whole", "sub"))).await;
    assert!(message.contains("is a git submodule, and submodules are not fetched"), "{message}");
}

/// A file of Git LFS: its pointer, and a server of its object.
fn lfs(content: &'static str) -> (String, Box<crate::git_server::Api>) {
    let oid: String = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
    let pointer = format!(
        "version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {}\n",
        content.len()
    );
    let api = move |seen: &Seen| {
        let host = seen.headers.get("host").unwrap().to_str().unwrap();
        if seen.path.ends_with("/info/lfs/objects/batch") {
            if seen.authorization() != basic("me:pass-word-4") {
                return Some((StatusCode::UNAUTHORIZED, "{}".into()));
            }
            let href = format!("https://{host}/objects/{oid}");
            let answer = json!({"transfer": "basic", "objects": [{
                "oid": oid, "size": content.len(), "actions": {"download": {"href": href}},
            }]});
            return Some((StatusCode::OK, answer.to_string()));
        }
        (seen.path == format!("/objects/{oid}")).then(|| (StatusCode::OK, content.to_owned()))
    };
    (pointer, Box::new(api))
}

/// SE-032: files of Git LFS, for repositories whose Secret says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn se_032_files_of_git_lfs_are_fetched_where_enabled() {
    if !Command::new("git").args(["lfs", "version"]).output().unwrap().status.success() {
        eprintln!("skipped: git-lfs is not installed");
        return;
    }
    let world = World::with(confined(|_| {})).await;
    let certificates = Arc::new(Certificates::new());
    trust(&world, &certificates).await;
    const CONTENT: &str = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "large"}, "data": {"a": "lfs"}}"#;
    let (pointer, api) = lfs(CONTENT);
    let setup =
        Setup { authorization: basic("me:pass-word-4"), api: Some(api), ..Setup::default() };
    world.write("large/large.json", &pointer);
    let server = server(&world, &certificates, setup).await;
    let url = server.url("team/app.git");
    let mut fields = json!({"url": url, "username": "me", "password": "pass-word-4"});
    secret(&world, "login", fields.clone()).await;
    let source = || json!({"repoURL": url, "path": "large"});
    world.refused_for(&world.with_source("large", source()), &["large.json", "LFS"]).await;
    fields["enableLfs"] = "true".into();
    let stored = STANDARD.encode("true");
    let api = world.api("v1", "Secret", NAMESPACE);
    let patch = Patch::Merge(json!({"data": {"enableLfs": stored}}));
    api.patch("login", &PatchParams::default(), &patch).await.unwrap();
    world.refresh("large").await;
    let compared = |app: &Value| app["status"]["sync"]["status"] == "OutOfSync";
    world.until("large", "compared", compared).await;
    world.sync_until_good("large", json!({})).await;
    assert_eq!(world.data("large").await, json!({"a": "lfs"}));
    let compares = |app: &Value| {
        app["status"]["sync"]["status"] == "Synced" && app["status"]["conditions"].is_null()
    };
    // Another server is chosen by whoever writes the repository.
    for text in [
        "[lfs]\n\turl = https://localhost:1/\n",
        // As Git reads it: the bracket is part of a comment, or of the URL.
        "[lfs]\n\turl = https://localhost:1/ # ]\n",
        "[lfs]\n\turl = https://localhost:1/]x\n",
        "[remote \"a]b\"] lfsUrl = https://localhost:1/\n",
        "[lfs\n",
    ] {
        world.commit_file(".lfsconfig", "[lfs]\n\tfetchexclude = url\n");
        server.publish(world.repo.path(), "team/app.git");
        world.refresh("large").await;
        world.until("large", "read again", compares).await;
        world.commit_file(".lfsconfig", text);
        server.publish(world.repo.path(), "team/app.git");
        world.refresh("large").await;
        world.until_refused("large", &[".lfsconfig names a server of Git LFS"]).await;
    }
}
