//! Repositories that are read by an identity: a GitHub App, with a server that answers as the
//! documentation of GitHub says, and a service account of Google Cloud.

use std::sync::Mutex;

use axum::http::{Method, StatusCode};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{KeyPair, RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;

use super::chart_repositories::{secret, typed_secret};
use super::git_https::{basic, server, trust};
use super::programs::confined;
use super::*;
use crate::git_server::{Certificates, Seen, Setup, rsa_key};

/// The claims of a token that was signed with a key; none for another key.
pub fn claims(pem: &str, token: &str) -> Option<Value> {
    let key = match PrivateKeyDer::from_pem_slice(pem.as_bytes()).unwrap() {
        PrivateKeyDer::Pkcs1(key) => RsaKeyPair::from_der(key.secret_pkcs1_der()).unwrap(),
        PrivateKeyDer::Pkcs8(key) => RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()).unwrap(),
        _ => panic!("no RSA key"),
    };
    let (text, signature) = token.rsplit_once('.')?;
    let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
    let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.public_key());
    public.verify(text.as_bytes(), &signature).ok()?;
    let (header, claims) = text.split_once('.')?;
    let part = |text: &str| -> Value {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).unwrap()).unwrap()
    };
    assert_eq!(part(header)["alg"], "RS256");
    Some(part(claims))
}

/// SE-032: the installation is found by the owner; a token is asked for once, and again when
/// the server refuses it; errors name the App, and neither key nor token is shown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn se_032_a_github_app_reads_a_repository() {
    let world = World::with(confined(|_| {})).await;
    let certificates = Arc::new(Certificates::new());
    trust(&world, &certificates).await;
    let (key, other) = (rsa_key(), rsa_key());
    let tokens = Arc::new(Mutex::new(Vec::<String>::new()));
    let (of_app, given) = (key.clone(), Arc::clone(&tokens));
    let api = move |seen: &Seen| {
        let path = seen.path.strip_prefix("/api/v3")?;
        let token = seen.authorization().strip_prefix("Bearer ").unwrap_or_default();
        let Some(claims) = claims(&of_app, token) else {
            let text = json!({"message": "A JSON web token could not be decoded"});
            return Some((StatusCode::UNAUTHORIZED, text.to_string()));
        };
        let lasts = claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap();
        assert!(claims["iss"] == "4711" && lasts <= 600, "{claims}");
        Some(match (seen.method.clone(), path) {
            // The first App is not installed in the repository, as far as GitHub says.
            (Method::GET, "/repos/team/app/installation") => {
                (StatusCode::NOT_FOUND, json!({"message": "Not Found"}).to_string())
            }
            (Method::GET, "/app/installations?per_page=100&page=1") => {
                let other = |id: u64| json!({"id": id, "account": {"login": format!("o{id}")}});
                let all: Vec<Value> = (0..100).map(other).collect();
                (StatusCode::OK, Value::from(all).to_string())
            }
            (Method::GET, "/app/installations?per_page=100&page=2") => {
                let all = json!([{"id": 4242, "account": {"login": "TEAM"}}]);
                (StatusCode::OK, all.to_string())
            }
            (Method::POST, "/app/installations/4242/access_tokens") => {
                let mut given = given.lock().unwrap();
                let token = format!("ghs_secret-token-{}", given.len());
                given.push(token.clone());
                let answer = json!({"token": token, "expires_at": "2099-01-01T00:00:00Z"});
                (StatusCode::CREATED, answer.to_string())
            }
            _ => (StatusCode::NOT_FOUND, json!({"message": "Not Found"}).to_string()),
        })
    };
    let setup = Setup {
        authorization: basic("x-access-token:ghs_secret-token-0"),
        api: Some(Box::new(api)),
        ..Setup::default()
    };
    let server = server(&world, &certificates, setup).await;
    let url = server.url("team/app.git");
    let base = server.url("api/v3/");
    let fields = |key: &str| {
        json!({
            "url": url, "githubAppID": "4711", "githubAppPrivateKey": key,
            "githubAppEnterpriseBaseUrl": base,
        })
    };
    secret(&world, "app", fields(&other)).await;
    world.create_app(&world.with_source("app", json!({"repoURL": url, "path": "app"}))).await;
    let refused = ["githubAppID: localhost answers 401: A JSON web token could not be decoded"];
    world.until_refused("app", &refused).await;
    let set = async |key: &str, value: &str| {
        let value = base64::engine::general_purpose::STANDARD.encode(value);
        let patch = Patch::Merge(json!({"data": {key: value}}));
        let api = world.api("v1", "Secret", NAMESPACE);
        api.patch("app", &PatchParams::default(), &patch).await.unwrap();
    };
    set("githubAppPrivateKey", "no key").await;
    world.until_refused("app", &["githubAppPrivateKey is no private key in PEM"]).await;
    set("githubAppPrivateKey", &key).await;
    world.refresh("app").await;
    let compared = |app: &Value| app["status"]["sync"]["status"] == "OutOfSync";
    world.until("app", "compared", compared).await;
    for _ in 0..2 {
        world.refresh("app").await;
    }
    assert_eq!(tokens.lock().unwrap().len(), 1, "one token for all requests");
    // It is revoked.
    server.accept(&basic("x-access-token:ghs_secret-token-1"));
    world.commit_file("app/one.json", &config_map("one", "1", &[("a", "b")]));
    server.publish(world.repo.path(), "team/app.git");
    until("a new token", async || {
        world.refresh("app").await;
        tokens.lock().unwrap().len() >= 2
    })
    .await;
    world.until_deployed("app").await;
    for request in world.server.requests() {
        assert!(!format!("{request:?}").contains("ghs_secret"), "{request:?}");
    }
    set("githubAppInstallationID", "17").await;
    let app = world.with_source("app", json!({"repoURL": url, "path": "app"}));
    world.refused_for(&app, &["githubAppID: localhost answers 404: Not Found"]).await;
}

/// SE-032: the key file of a service account; one of another type is refused by name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn se_032_a_service_account_of_google_reads_a_repository() {
    let world = World::with(confined(|_| {})).await;
    let certificates = Arc::new(Certificates::new());
    trust(&world, &certificates).await;
    let key = rsa_key();
    let of_account = key.clone();
    let api = move |seen: &Seen| {
        (seen.path == "/token").then(|| {
            let body = String::from_utf8(seen.body.to_vec()).unwrap();
            let assertion = body.split("assertion=").nth(1).unwrap();
            let assertion = assertion.replace("%2E", ".").replace("%2D", "-").replace("%5F", "_");
            let claims = claims(&of_account, &assertion).expect("signed by the account");
            assert_eq!(claims["iss"], "bot@project.iam.gserviceaccount.com");
            let answer = json!({"access_token": "ya29.secret", "expires_in": 3599});
            (StatusCode::OK, answer.to_string())
        })
    };
    let setup = Setup {
        authorization: basic("bot@project.iam.gserviceaccount.com:ya29.secret"),
        api: Some(Box::new(api)),
        ..Setup::default()
    };
    let server = server(&world, &certificates, setup).await;
    let url = server.url("team/app.git");
    let file = |kind: &str| {
        json!({
            "type": kind, "client_email": "bot@project.iam.gserviceaccount.com",
            "private_key": key, "token_uri": server.url("token"),
        })
        .to_string()
    };
    secret(&world, "google", json!({"url": url, "gcpServiceAccountKey": file("service_account")}))
        .await;
    world.create_app(&world.with_source("app", json!({"repoURL": url, "path": "app"}))).await;
    world.until_deployed("app").await;
    let external = server.url("team/other.git");
    let fields = json!({"url": external, "gcpServiceAccountKey": file("external_account")});
    secret(&world, "external", fields).await;
    let source = json!({"repoURL": external, "path": "app"});
    let want = ["only keys of type service_account are supported"];
    world.refused_for(&world.with_source("external", source), &want).await;
    // Charts do not have these identities.
    let charts = json!({
        "url": "https://charts.invalid", "type": "helm", "useAzureWorkloadIdentity": "true",
    });
    secret(&world, "charts", charts).await;
    let source =
        json!({"repoURL": "https://charts.invalid", "chart": "x", "targetRevision": "1.0.0"});
    let want = ["useAzureWorkloadIdentity is not supported for charts"];
    world.refused_for(&world.with_source("charts", source), &want).await;
    let url = "oci://registry.invalid/team/app";
    let registry = json!({"url": url, "type": "oci", "bearerToken": "a-token-of-mine"});
    secret(&world, "registry", registry).await;
    let source = json!({"repoURL": url, "path": "."});
    let want = ["bearerToken is not supported for charts and registries"];
    world.refused_for(&world.with_source("oci", source), &want).await;
}

/// SE-032: a service principal of Azure, in the spelling of a repository and in that of a
/// template; a secret that is refused, and keys that belong together, are named, and charts do
/// not have it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn se_032_a_service_principal_of_azure_reads_a_repository() {
    let world = World::with(confined(|_| {})).await;
    let certificates = Arc::new(Certificates::new());
    trust(&world, &certificates).await;
    let asked = Arc::new(Mutex::new(0));
    let count = Arc::clone(&asked);
    let api = move |seen: &Seen| {
        (seen.path == "/tenant-1/oauth2/v2.0/token").then(|| {
            let body = String::from_utf8(seen.body.to_vec()).unwrap();
            let fields: std::collections::BTreeSet<&str> = body.split('&').collect();
            if !fields.contains("client_secret=right%7Eword%2D9") {
                let why = json!({"error": "invalid_client", "error_description": "AADSTS7000215"});
                return (StatusCode::UNAUTHORIZED, why.to_string());
            }
            for field in [
                "client_id=client%2D1",
                "grant_type=client%5Fcredentials",
                "scope=499b84ac%2D1321%2D427f%2Daa17%2D267ca6975798%2F%2Edefault",
            ] {
                assert!(fields.contains(field), "{body}");
            }
            *count.lock().unwrap() += 1;
            let answer = json!({"access_token": "azure-token-1", "expires_in": 3599});
            (StatusCode::OK, answer.to_string())
        })
    };
    let setup = Setup {
        authorization: "Bearer azure-token-1".to_owned(),
        api: Some(Box::new(api)),
        ..Setup::default()
    };
    let server = server(&world, &certificates, setup).await;
    let url = server.url("team/app.git");
    let endpoint = server.url("");
    let fields = |password: &str| {
        json!({
            "url": url, "azureServicePrincipalClientId": "client-1",
            "azureServicePrincipalClientSecret": password,
            "azureServicePrincipalTenantId": "tenant-1",
            "azureActiveDirectoryEndpoint": endpoint,
        })
    };
    secret(&world, "azure", fields("wrong-word-9")).await;
    let source = json!({"repoURL": url, "path": "app"});
    world.create_app(&world.with_source("app", source.clone())).await;
    let want = ["azureServicePrincipalClientSecret: localhost answers 401: AADSTS7000215"];
    let conditions = world.until_refused("app", &want).await;
    assert!(!conditions.contains("wrong-word-9"), "{conditions}");
    let secrets = world.api("v1", "Secret", NAMESPACE);
    let patch = async |data: Value| {
        let patch = Patch::Merge(json!({ "data": data }));
        secrets.patch("azure", &PatchParams::default(), &patch).await.unwrap();
    };
    let encoded = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    patch(json!({"azureServicePrincipalClientSecret": encoded("right~word-9")})).await;
    world.until_deployed("app").await;
    assert_eq!(*asked.lock().unwrap(), 1, "one token for all requests");

    // A tenant is one segment of the path, and a part of the keys is not enough.
    patch(json!({"azureServicePrincipalTenantId": encoded("../x")})).await;
    let want = ["azureServicePrincipalTenantId is not the ID of a tenant"];
    world.refused_for(&world.with_source("tenant", source.clone()), &want).await;
    patch(json!({"azureServicePrincipalTenantId": null})).await;
    let want = ["Secret azure: azureServicePrincipalClientId", "belong together"];
    world.refused_for(&world.with_source("part", source.clone()), &want).await;

    secrets.delete("azure", &DeleteParams::default()).await.unwrap();
    let template = json!({
        "url": server.url("team"), "azureServicePrincipalClientID": "client-1",
        "azureServicePrincipalClientSecret": "right~word-9",
        "azureServicePrincipalTenantID": "tenant-1",
        "azureActiveDirectoryEndpoint": endpoint,
    });
    typed_secret(&world, "repo-creds", "template", template).await;
    world.create_app(&world.with_source("templated", source)).await;
    world.until_deployed("templated").await;

    let mut charts = fields("right~word-9");
    (charts["url"], charts["type"]) = ("https://charts.invalid".into(), "helm".into());
    secret(&world, "charts", charts).await;
    let source =
        json!({"repoURL": "https://charts.invalid", "chart": "x", "targetRevision": "1.0.0"});
    let want = ["azureServicePrincipalClientSecret is not supported for charts"];
    world.refused_for(&world.with_source("charts", source), &want).await;
}
