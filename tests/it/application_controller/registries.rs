//! Registries of charts: how Secrets and projects name them, Docker Hub, and certificates; and
//! proxies of the environment for charts.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use super::chart_dependencies::parent;
use super::chart_repositories::{Files, registry, repository, secret, serve};
use super::programs::{confined, helms, program};
use super::*;
use crate::git_server::Certificates;
use crate::tls_front::TlsFront;

/// A proxy that leads every host (`CONNECT`) to one server.
async fn proxy_to(target: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let Ok(byte) = near.read_u8().await else { return };
                    head.push(byte);
                }
                let Ok(mut behind) = TcpStream::connect(target).await else { return };
                let _ = near.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
                let _ = copy_bidirectional(&mut near, &mut behind).await;
            });
        }
    });
    address
}

fn address_of(front: &TlsFront) -> SocketAddr {
    let url = front.url();
    format!("127.0.0.1:{}", url.rsplit(':').next().unwrap()).parse().unwrap()
}

/// The login of Docker Hub is sent under all of its names. Helm 3 reaches a server whose
/// certificates are not verified without the proxy, so that only Helm 4 is asked here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_login_of_docker_hub_is_sent() {
    let Some(helm) = program("helm4/helm") else { return };
    let world = World::with(confined(|programs| programs.helm = helm.clone())).await;
    let hub = serve(registry(&helm, "team/web", &["1.0.0", "1.4.0"]), "me:pass-word-5").await;
    let front = TlsFront::start(&Certificates::new(), false, hub).await;
    let proxy = proxy_to(address_of(&front)).await;
    for (name, host) in
        [("real", "registry-1.docker.io"), ("short", "docker.io"), ("index", "index.docker.io")]
    {
        let url = format!("{host}/team");
        let fields = json!({
            "url": url, "type": "helm", "enableOCI": "true", "username": "me",
            "password": "pass-word-5", "insecure": "true", "proxy": format!("http://{proxy}"),
        });
        secret(&world, name, fields).await;
        let source = json!({"repoURL": url, "chart": "web", "targetRevision": "1.x"});
        world.deploy_app(&world.with_source(name, source)).await;
        assert_eq!(world.data(&format!("web-{name}")).await["version"], "1.4.0");
    }
}

/// A registry whose URL has no scheme has the certificates of its host; without them, the error
/// names the host and the ConfigMap. Helm 3 asks registries of this machine by http.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registry_without_a_scheme_is_trusted_by_its_host() {
    let Some(helm) = program("helm4/helm") else { return };
    let world = World::with(confined(|programs| programs.helm = helm.clone())).await;
    let server = serve(registry(&helm, "team/web", &["1.0.0"]), "me:pass-word-6").await;
    let certificates = Certificates::new();
    let front = TlsFront::start(&certificates, false, server).await;
    let url = format!("localhost:{}/team", address_of(&front).port());
    let fields = json!({
        "url": url, "type": "helm", "enableOCI": "true", "username": "me",
        "password": "pass-word-6",
    });
    secret(&world, "registry", fields).await;
    let source = json!({"repoURL": url, "chart": "web", "targetRevision": "1.0.0"});
    world.create_app(&world.with_source("source", source)).await;
    let dependency =
        json!({"name": "web", "version": "1.0.0", "repository": format!("oci://{url}")});
    parent(&world, &json!([dependency]));
    world.create_app(&world.with_source("dependency", json!({"path": "chart"}))).await;
    for name in ["source", "dependency"] {
        let texts = [
            "the certificate of localhost is not trusted",
            "argocd-tls-certs-cm with the key localhost",
        ];
        let message = world.until_refused(name, &texts).await;
        assert!(!message.contains("check its credentials"), "{message}");
    }
    world.config("argocd-tls-certs-cm", json!({"localhost": certificates.text("ca.crt")})).await;
    for name in ["source", "dependency"] {
        world.refresh(name).await;
        world.until(name, "compared", |app| is(app, "OutOfSync", "Missing")).await;
        world.sync_until_good(name, json!({})).await;
        assert_eq!(world.data(&format!("web-{name}")).await["version"], "1.0.0");
    }
}

/// A dependency of a registry has the login of a Secret as Argo CD's users write it, and the
/// permission of a project that names the registry without a scheme; what the project denies
/// stays denied in both spellings.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dependency_of_a_registry_matches_its_secret_and_project() {
    for helm in helms() {
        let world = World::with(confined(|programs| programs.helm = helm.clone())).await;
        let files = registry(&helm, "team/redis", &["1.0.0", "1.1.0"]);
        let server = serve(files, "me:pass-word-7").await;
        let fields = json!({
            "url": format!("{server}/team"), "type": "helm", "enableOCI": "true",
            "username": "me", "password": "pass-word-7", "insecureOCIForceHttp": "true",
        });
        secret(&world, "registry", fields).await;
        let own = world.repo.path().to_str().unwrap().to_owned();
        for (name, repos) in [
            ("plain", vec![own.clone(), format!("{server}/*")]),
            ("scheme", vec![own.clone(), format!("oci://{server}/team")]),
            ("denied", vec!["*".to_owned(), format!("!{server}/*")]),
            ("unlisted", vec![own.clone(), format!("{server}/other")]),
        ] {
            world.project(name, json!({"sourceRepos": repos})).await;
        }
        let repository = format!("oci://{server}/team");
        parent(&world, &json!([{"name": "redis", "version": "1.x", "repository": repository}]));
        let app = |name: &str| {
            let mut app = world.with_source(name, json!({"path": "chart"}));
            app["spec"]["project"] = name.into();
            app
        };
        for name in ["plain", "scheme"] {
            world.deploy_app(&app(name)).await;
            assert_eq!(world.data(&format!("redis-{name}")).await["version"], "1.1.0");
            world.delete_map("parent").await;
        }
        for name in ["denied", "unlisted"] {
            let message = world.refusal_of(&app(name)).await;
            assert!(message.contains(&format!("permitted in project '{name}'")), "{message}");
        }
    }
}

/// Why a dependency cannot be fetched is in the condition, not only what it led to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cause_of_a_missing_dependency_is_shown() {
    for helm in helms() {
        let world = World::with(confined(|programs| programs.helm = helm.clone())).await;
        let closed = serve(repository(&helm, "redis", &["1.0.0"]), "me:pass-word-8").await;
        let closed = format!("http://{closed}");
        let registry = serve(registry(&helm, "team/redis", &["1.0.0"]), "me:pass-word-8").await;
        let fields = json!({
            "url": format!("{registry}/team"), "type": "helm", "enableOCI": "true",
            "insecureOCIForceHttp": "true",
        });
        secret(&world, "registry", fields).await;
        let open = serve(repository(&helm, "web", &["1.0.0"]), "").await;
        let open =
            json!({"name": "web", "version": "1.0.0", "repository": format!("http://{open}")});
        for (name, repository, texts) in [
            ("closed", closed.clone(), [closed.as_str(), "401"]),
            ("host", "https://charts.invalid/x".to_owned(), ["charts.invalid/x", "not reachable"]),
            ("registry", format!("oci://{registry}/team"), ["access refused", "team/redis"]),
        ] {
            let failing = json!({"name": "redis", "version": "1.0.0", "repository": repository});
            // Behind one that succeeds.
            parent(&world, &json!([open, failing]));
            let app = world.with_source(name, json!({"path": "chart"}));
            let message = world.refused_for(&app, &texts).await;
            assert!(message.contains("helm dependency build failed"), "{message}");
            assert!(message.contains(&format!("repository {repository}")), "{message}");
            assert!(!message.contains("Hang tight"), "{message}");
        }
    }
}

/// Dependencies and values files are fetched through the proxy of the environment; a repository
/// whose Secret names another one is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dependencies_and_values_files_use_the_proxy_of_the_environment() {
    for helm in helms() {
        // A server that is asked by absolute URLs is a proxy for http.
        let mut files = repository(&helm, "redis", &["1.0.0"]);
        files.insert("/v.yaml".to_owned(), b"redis: {a: from-the-proxy}\n".to_vec());
        let proxy = serve(files, "").await;
        let unused = serve(Files::new(), "").await;
        let world = World::with(confined(|programs| {
            programs.helm = helm.clone();
            programs.values_file_schemes = vec!["http".into()];
            programs.environment.insert("HTTP_PROXY".into(), format!("http://{proxy}"));
        }))
        .await;
        let url = "http://charts.invalid";
        parent(&world, &json!([{"name": "redis", "version": "1.0.0", "repository": url}]));
        let source =
            json!({"path": "chart", "helm": {"valueFiles": ["http://values.invalid/v.yaml"]}});
        world.deploy_app(&world.with_source("web", source.clone())).await;
        let want = json!({"version": "1.0.0", "a": "from-the-proxy"});
        assert_eq!(world.data("redis-web").await, want);
        secret(&world, "charts", json!({"url": url, "proxy": format!("http://{unused}")})).await;
        world.refused_for(&world.with_source("own", source), &["charts.invalid", "404"]).await;
    }
}
