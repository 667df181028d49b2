//! `render` reads private repositories with the Secrets and ConfigMaps of its files, as they
//! are applied: with `stringData`.

use std::sync::Arc;

use axum::http::StatusCode;

use super::*;
use crate::git_server::{Certificates, GitServer, Proxy, Seen, Setup};
use crate::support::repository::Repository;

const SET: &str = "goTemplate: true";

fn files(server: &GitServer, keys: &Value) -> String {
    let url = server.url("team/app.git");
    let set = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
        "metadata": {"name": "set", "namespace": "argocd"},
        "spec": {
            "goTemplate": true,
            "generators": [{"git": {
                "repoURL": url, "revision": "main", "directories": [{"path": "*"}],
            }}],
            "template": {
                "metadata": {"name": "{{.path.basename}}"},
                "spec": {
                    "project": "default", "source": {"repoURL": url, "path": "{{.path.path}}"},
                    "destination": {"server": "https://kubernetes.default.svc"},
                },
            },
        },
    });
    let mut data = json!({"url": url});
    data.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {
            "name": "app", "namespace": "argocd",
            "labels": {"argocd.argoproj.io/secret-type": "repository"},
        },
        "stringData": data,
    });
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "argocd-tls-certs-cm", "namespace": "argocd"},
        "data": {"localhost": server.certificates.text("ca.crt")},
    });
    [set, secret, map].map(|object| object.to_string()).join("\n---\n")
}

/// AS-091: with a password in `stringData`, and with the workload identity of Azure, whose
/// variables and token are those of the process, as is the proxy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_091_private_repositories_are_rendered_with_the_secrets_of_files() {
    let folder = tempfile::tempdir().unwrap();
    let repository = Repository::new(folder.path().join("repository"));
    repository.commit("first", &[("web/one.yaml".to_owned(), SET.to_owned())]);
    let certificates = Arc::new(Certificates::new());
    let login = "Basic bWU6cGFzcy13b3JkLTM="; // me:pass-word-3
    let setup = Setup { authorization: login.to_owned(), ..Setup::default() };
    let server = GitServer::start(&certificates, setup).await;
    server.publish(Path::new(&repository.url()), "team/app.git");
    let render = async |text: String, env: Vec<(&'static str, String)>| {
        let mut command = program(&["render", "-f", "-"]);
        command.envs(env);
        tokio::task::spawn_blocking(move || finish(command, text.as_bytes())).await.unwrap()
    };
    let wrong = json!({"username": "me", "password": "wrong-word-3"});
    let run = render(files(&server, &wrong), Vec::new()).await;
    assert_ne!(run.code, 0, "{}", run.out);
    assert!(run.err.contains("access refused") && !run.err.contains("wrong-word"), "{}", run.err);
    let mut plain = files(&server, &wrong);
    plain = plain.replace(&server.url("team"), "http://127.0.0.1:1/team");
    let run = render(plain, Vec::new()).await;
    assert!(run.err.contains("not reachable"), "http is read, too: {}", run.err);
    let right = json!({"username": "me", "password": "pass-word-3"});
    let run = render(files(&server, &right), Vec::new()).await;
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.contains("name: web"), "{}", run.out);

    let api = |seen: &Seen| {
        (seen.path == "/tenant-1/oauth2/v2.0/token").then(|| {
            let body = String::from_utf8(seen.body.to_vec()).unwrap();
            assert!(body.contains("client_id=client%2D1"), "{body}");
            assert!(body.contains("client_assertion=federated"), "{body}");
            let answer = json!({"access_token": "azure-token", "expires_in": 3599});
            (StatusCode::OK, answer.to_string())
        })
    };
    let setup = Setup {
        authorization: "Bearer azure-token".to_owned(),
        api: Some(Box::new(api)),
        ..Setup::default()
    };
    let azure = GitServer::start(&certificates, setup).await;
    azure.publish(Path::new(&repository.url()), "team/app.git");
    let keys = json!({"useAzureWorkloadIdentity": "true"});
    let run = render(files(&azure, &keys), Vec::new()).await;
    assert!(run.err.contains("the variable AZURE_CLIENT_ID is not set"), "{}", run.err);
    let token = folder.path().join("token");
    std::fs::write(&token, "federated\n").unwrap();
    let proxy = Proxy::start().await;
    let env = vec![
        ("HTTPS_PROXY", proxy.url("")),
        ("AZURE_CLIENT_ID", "client-1".to_owned()),
        ("AZURE_TENANT_ID", "tenant-1".to_owned()),
        ("AZURE_FEDERATED_TOKEN_FILE", token.display().to_string()),
        ("AZURE_AUTHORITY_HOST", azure.url("")),
    ];
    let run = render(files(&azure, &keys), env).await;
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.contains("name: web") && !run.out.contains("azure-token"), "{}", run.out);
    let through = proxy.seen().iter().filter(|head| head.contains(&azure.authority())).count();
    assert!(through >= 2, "for the token, and for the repository: {:?}", proxy.seen());
}
