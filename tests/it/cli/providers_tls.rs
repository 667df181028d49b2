//! Servers of generators whose certificates an authority of the user has signed: trusted by
//! `caRef`, by a file of the settings, or not at all (AS-098, AS-501). What is not trusted, or
//! cannot be read, names its object and deletes nothing.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};

use super::arguments::Running;
use super::embedded::Cluster;
use super::generators::run;
use super::providers::{reference, rendered, shows, token};
use super::providers_live::{FLAGS, names, until_condition, until_names};
use super::*;
use crate::git_server::{Certificates, rsa_key};
use crate::support::service::{Asked, Says, Service, code, json as document};
use crate::tls_front::TlsFront;

const UNTRUSTED: &str = "its certificate is not trusted";

/// One pull request or repository for each provider, one parameter of a plugin, and the token
/// of a GitHub App.
fn answer(asked: &Asked) -> Says {
    let page = |values: Value| json!({"values": values, "isLastPage": true});
    let place = asked.place();
    match place {
        "/api/v3/app/installations/7/access_tokens" | "/app/installations/7/access_tokens" => {
            document(json!({"token": "s3cr3t-of-app", "expires_at": "2999-01-01T00:00:00Z"}))
        }
        "/api/v1/getparams.execute" => {
            document(json!({"output": {"parameters": [{"number": "1"}]}}))
        }
        _ if place.ends_with("/merge_requests") => document(json!([{
            "iid": 1, "title": "t", "source_branch": "f", "target_branch": "m", "sha": "1",
            "labels": [], "author": {"username": "ann"},
        }])),
        _ if place.ends_with("/pull-requests") => document(page(json!([{
            "id": 1, "title": "t", "fromRef": {"displayId": "f", "latestCommit": "1"},
            "toRef": {"displayId": "m", "latestCommit": "2"}, "author": {"user": {"name": "ann"}},
        }]))),
        _ if place.ends_with("/pulls")
            && asked.parameter("page").is_none_or(|page| page == "1") =>
        {
            document(json!([{
                "number": 1, "title": "t", "head": {"ref": "f", "sha": "1"}, "base": {"ref": "m"},
                "user": {"login": "ann"}, "labels": [],
            }]))
        }
        _ if place.ends_with("/pulls") => document(json!([])),
        _ => code(404, "Not Found"),
    }
}

struct Private {
    service: Service,
    certificates: Certificates,
    front: TlsFront,
}

impl Private {
    async fn start() -> Self {
        let service = Service::start(answer);
        let certificates = Certificates::new();
        let front = TlsFront::start(&certificates, false, service.address).await;
        Self { service, certificates, front }
    }

    /// A ConfigMap with its authority.
    fn authority(&self) -> Value {
        config_map("ca", json!({"ca.crt": self.certificates.text("ca.crt")}))
    }

    /// Pull requests of a provider, by this server.
    fn pulls(&self, provider: &str, more: Value) -> Value {
        let mut fields = json!({"api": self.front.url()});
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"pullRequest": {provider: fields}})
    }
}

fn config_map(name: &str, data: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "argocd"}, "data": data,
    })
}

fn with(mut fields: Value, more: Value) -> Value {
    fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    fields
}

/// What each provider with `caRef` or `insecure` needs.
fn providers() -> [(&'static str, bool, Value); 3] {
    [
        ("gitlab", true, json!({"project": "1", "tokenRef": reference()})),
        ("bitbucketServer", true, json!({"project": "P", "repo": "r"})),
        ("gitea", false, json!({"owner": "o", "repo": "r", "tokenRef": reference()})),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_authority_is_trusted_by_ca_ref_and_named_when_it_is_not_as_098() {
    let server = Private::start().await;
    let other = Certificates::new();
    let (right, ca_ref) = (server.authority(), json!({"configMapName": "ca", "key": "ca.crt"}));
    tokio::task::spawn_blocking(move || {
        for (provider, has_ca, fields) in providers() {
            let set = |more: Value| {
                shows(server.pulls(provider, with(fields.clone(), more)), "pr-{{.number}}", "p")
            };
            let fails = |more: Value, objects: &[Value], want: &[&str]| {
                let run = run(&["render", "-f", "-"], &set(more), objects);
                run.fails(1, want);
                assert!(!run.err.contains("s3cr3t"), "{provider}: {}", run.err);
            };
            // Nobody here knows the authority.
            let host = server.front.url();
            fails(json!({}), &[token()], &[UNTRUSTED, "UnknownIssuer", &host]);
            assert!(server.service.asked().is_empty(), "{provider}: the token was not sent");
            let trusted = |more: Value, objects: &[Value]| {
                let found = rendered(&set(more), objects);
                assert_eq!(found.len(), 1, "{provider}: {found:?}");
                assert_eq!(found[0].0, "pr-1", "{provider}");
            };
            trusted(json!({"insecure": true}), &[token()]);
            if !has_ca {
                continue;
            }
            let referring = |more: Value| with(json!({"caRef": ca_ref}), more);
            trusted(referring(json!({})), &[token(), right.clone()]);
            let wrong = config_map("ca", json!({"ca.crt": other.text("ca.crt")}));
            fails(referring(json!({})), &[token(), wrong], &[UNTRUSTED, "caRef"]);
            let missing = "ConfigMap argocd/ca: is not in the files";
            fails(referring(json!({})), &[token()], &[missing]);
            let no_pem = config_map("ca", json!({"ca.crt": "x"}));
            let why = "key ca.crt of ConfigMap ca: has no certificate as PEM";
            fails(referring(json!({})), &[token(), no_pem], &[why]);
            let keyless = config_map("ca", json!({"other": "x"}));
            let no_key = "ConfigMap argocd/ca: has no key ca.crt";
            fails(referring(json!({})), &[token(), keyless], &[no_key]);
            for text in
                ["", "garbage", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
            {
                let garbage = config_map("ca", json!({"ca.crt": text}));
                fails(referring(json!({})), &[token(), garbage], &["key ca.crt of ConfigMap ca"]);
            }
            // For the next provider.
            let asked = server.service.asked().len();
            assert!(asked > 0);
            server.service.forget();
        }
    })
    .await
    .unwrap();
}

/// The same by the controller: what cannot be verified or read deletes nothing, and acts again
/// when it is mended.
#[tokio::test(flavor = "multi_thread")]
async fn an_authority_that_changes_deletes_nothing_as_140() {
    let server = Private::start().await;
    let cluster = Cluster::start().await;
    cluster.knows("default", "https://1").await;
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), "argocd");
    let secret = serde_json::from_value(token()).unwrap();
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "argocd");
    let right = serde_json::from_value(server.authority()).unwrap();
    maps.create(&PostParams::default(), &right).await.unwrap();
    let fields = json!({
        "project": "1", "tokenRef": reference(),
        "caRef": {"configMapName": "ca", "key": "ca.crt"},
    });
    let mut generator = server.pulls("gitlab", fields);
    generator["pullRequest"]["requeueAfterSeconds"] = 1.into();
    cluster.create("ApplicationSet", shows(generator, "pr-{{.number}}", "p")).await;
    let running = Running::start(&cluster, &FLAGS, &[]);
    until_names(&cluster, &running, &["pr-1"]).await;

    let other = Certificates::new();
    let set = async |data: Value| {
        let patch = Patch::Merge(json!({ "data": data }));
        maps.patch("ca", &PatchParams::default(), &patch).await.unwrap();
    };
    set(json!({"ca.crt": other.text("ca.crt")})).await;
    until_condition(&cluster, &running, "ErrorOccurred", UNTRUSTED).await;
    set(json!({"ca.crt": null, "other": "x"})).await;
    let no_key = "ConfigMap argocd/ca: has no key ca.crt";
    until_condition(&cluster, &running, "ErrorOccurred", no_key).await;
    maps.delete("ca", &kube::api::DeleteParams::default()).await.unwrap();
    let missing = "ConfigMap argocd/ca: does not exist";
    until_condition(&cluster, &running, "ErrorOccurred", missing).await;
    assert_eq!(names(&cluster).await, ["pr-1"]);
    let right = serde_json::from_value(server.authority()).unwrap();
    maps.create(&PostParams::default(), &right).await.unwrap();
    until_condition(&cluster, &running, "ResourcesUpToDate", "").await;
    assert_eq!(names(&cluster).await, ["pr-1"]);
    let deleted = cluster
        .server
        .requests()
        .into_iter()
        .any(|request| request.verb == "delete" && request.resource == "applications");
    assert!(!deleted, "no Application was deleted in between");
    assert!(!running.log().contains("s3cr3t"), "{}", running.log());
}

/// Providers without `caRef`, GitHub Apps and plugins trust the file of the settings.
#[tokio::test(flavor = "multi_thread")]
async fn a_private_authority_is_trusted_by_the_settings_as_501() {
    let other = Certificates::new();
    let app = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "app", "namespace": "argocd"},
        "stringData": {
            "url": "https://github.com/o", "githubAppID": "5", "githubAppInstallationID": "7",
            "githubAppPrivateKey": rsa_key(),
        },
    });
    for name in ["token", "app", "plugin"] {
        // One for each: a request that was on its way when its controller ended is not counted.
        let server = Private::start().await;
        let files = folder(&[
            ("right.crt", server.certificates.text("ca.crt").as_str()),
            ("wrong.crt", other.text("ca.crt").as_str()),
            ("garbage.crt", "garbage"),
        ]);
        let file = |name: &str| format!("--scm-root-ca-path={}", in_folder(&files, name));
        let plugin =
            config_map("plugin", json!({"baseUrl": server.front.url(), "token": "$token:token"}));
        let github =
            |more: Value| server.pulls("github", with(json!({"owner": "o", "repo": "r"}), more));
        let mut generator = match name {
            "token" => github(json!({"tokenRef": reference()})),
            "app" => github(json!({"appSecretName": "app"})),
            _ => json!({"plugin": {"configMapRef": {"name": "plugin"}}}),
        };
        let kind = generator.as_object().unwrap().keys().next().unwrap().clone();
        generator[kind]["requeueAfterSeconds"] = 1.into();
        let cluster = Cluster::start().await;
        cluster.knows("default", "https://1").await;
        let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), "argocd");
        for secret in [token(), app.clone()] {
            let secret = serde_json::from_value(secret).unwrap();
            secrets.create(&PostParams::default(), &secret).await.unwrap();
        }
        let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "argocd");
        let map = serde_json::from_value(plugin.clone()).unwrap();
        maps.create(&PostParams::default(), &map).await.unwrap();
        cluster.create("ApplicationSet", shows(generator, "pr-{{.number}}", "p")).await;
        for (flag, want) in [
            ("wrong.crt", UNTRUSTED),
            ("garbage.crt", "--scm-root-ca-path: "),
            ("absent.crt", "absent.crt: "),
        ] {
            let flag = file(flag);
            let flags: Vec<&str> = FLAGS.into_iter().chain([flag.as_str()]).collect();
            let running = Running::start(&cluster, &flags, &[]);
            let error = until_condition(&cluster, &running, "ErrorOccurred", want).await;
            assert!(!error.contains("s3cr3t"), "{name}: {error}");
            assert_eq!(names(&cluster).await, [""; 0], "{name}");
        }
        assert!(server.service.asked().is_empty(), "{name}: nothing was sent");
        let flag = file("right.crt");
        let flags: Vec<&str> = FLAGS.into_iter().chain([flag.as_str()]).collect();
        let running = Running::start(&cluster, &flags, &[]);
        until_names(&cluster, &running, &["pr-1"]).await;
        let applications = cluster.api("Application");
        let listed = applications.list(&ListParams::default()).await.unwrap();
        assert_eq!(listed.items.len(), 1, "{name}");
    }
}
