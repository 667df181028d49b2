//! The settings, projects and Secrets of the control plane.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use serde_json::Value;

use super::finding::{Finding, or_unread};
use super::installation::Installation;
use crate::cli::cluster::ClusterConnection;
use wavegate_api::{AppProject, Raw, read_typed};
use wavegate_application::{project, unsupported};
use wavegate_cluster::watch::cluster_config::read_config;
use wavegate_cluster::watch::secrets::{SecretKind, secret_kind, secret_text};
use wavegate_controller::config::{CONFIG_MAPS, Config};
use wavegate_engine::names::some_of;
use wavegate_engine::windows;

/// Most keys in a message.
const KEYS: usize = 5;

/// The settings of the controller as it would start with them, and what is wrong with them.
pub(super) async fn settings(
    cluster: &ClusterConnection,
    namespace: &str,
    installation: &Installation,
) -> (Option<Config>, Vec<Finding>) {
    let mut findings = Vec::new();
    let mut keys = BTreeMap::new();
    for name in CONFIG_MAPS {
        match cluster.config_map(namespace, name).await {
            Ok(found) => {
                for (key, value) in found.unwrap_or_default() {
                    keys.entry(key).or_insert(value);
                }
            }
            Err(error) => findings.push(Finding::unread(&error)),
        }
    }
    let controller = installation.controller.as_ref();
    let mut flags = controller.map(|one| one.flags.clone()).unwrap_or_default();
    flags.namespace.get_or_insert_with(|| namespace.to_owned());
    let environment = |name: &str| controller.and_then(|one| one.environment.get(name).cloned());
    let about = "settings";
    let config = match Config::resolve(flags, &environment, &keys) {
        Ok(config) => config,
        Err(error) => {
            let problem = format!("{error}; the controller does not start with it");
            findings.push(Finding::error(about, problem));
            return (None, findings);
        }
    };
    if let Err(error) = config.check() {
        findings.push(Finding::error(about, error.to_string()));
    }
    findings.extend(config.warnings.iter().map(|text| Finding::warning(about, text)));
    findings.extend(config.without_effect.iter().map(|text| Finding::hint(about, text)));
    (Some(config), findings)
}

/// What is wrong with the projects: their guards and their sync windows.
pub(super) async fn projects(cluster: &ClusterConnection, namespace: &str) -> Vec<Finding> {
    let all = cluster.list("AppProject", Some(namespace), None).await;
    or_unread(all.map(|all| all.iter().flat_map(|project| of_project(project)).collect()))
}

fn of_project(object: &Value) -> Vec<Finding> {
    let about = format!("AppProject {}/{}", object.namespace(), object.name());
    let refusal = unsupported::project_refusal(object);
    let refusal = refusal.map(|why| Finding::error(about.clone(), why));
    let read = match read_typed::<AppProject>(object) {
        Ok(read) => read,
        Err(error) => {
            let unread = format!("{error}; nothing of its Applications is synced");
            return refusal.into_iter().chain([Finding::error(about, unread)]).collect();
        }
    };
    let problems = project::project_problems(&read.spec);
    let problems = problems.into_iter().chain(windows::window_problems(object));
    let problems = problems.chain(windows::window_warnings(object));
    let problems = problems.map(|problem| Finding::warning(about.clone(), problem));
    refusal.into_iter().chain(problems).collect()
}

/// What is wrong with the Secrets of clusters and repositories. Their values are in no message.
pub(super) async fn secrets(cluster: &ClusterConnection, namespace: &str) -> Vec<Finding> {
    or_unread(cluster.secrets(namespace).await.map(|all| of_secrets(&all)))
}

fn of_secrets(secrets: &[Secret]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut servers = BTreeMap::<String, Vec<String>>::new();
    for secret in secrets {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let metadata = &secret.metadata;
        let about = format!("Secret {}/{}", text(&metadata.namespace), text(&metadata.name));
        match secret_kind(secret) {
            Some(SecretKind::Cluster) => {
                let server = secret_text(secret, "server").trim().trim_end_matches('/').to_owned();
                findings.extend(of_cluster(secret, &server, &about));
                if !server.is_empty() {
                    servers.entry(server).or_default().push(about);
                }
            }
            Some(SecretKind::Repository | SecretKind::RepositoryTemplate)
                if secret_text(secret, "url").trim().is_empty() =>
            {
                let problem = "it has no url, so it is of no repository; add one, or delete it";
                findings.push(Finding::error(about, problem));
            }
            Some(SecretKind::Repository | SecretKind::RepositoryTemplate) | None => {}
        }
    }
    for (_, names) in servers.into_iter().filter(|(_, names)| names.len() > 1) {
        let [first, others @ ..] = &names[..] else { continue };
        let others = some_of(others.iter(), KEYS);
        let problem =
            format!("{others} has the same server: only one of them is used; delete the others");
        findings.push(Finding::warning(first, problem));
    }
    findings
}

fn of_cluster(secret: &Secret, server: &str, about: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let error = |problem: String| Finding::error(about, problem);
    match server.parse::<http::Uri>() {
        _ if server.is_empty() => findings.push(error(
            "it has no server, so no Application can use the cluster; set the URL of its API server"
                .to_owned(),
        )),
        Ok(uri) if matches!(uri.scheme_str(), Some("https" | "http")) && uri.host().is_some() => {}
        Ok(_) | Err(_) => findings.push(error(
            "its server is no URL; set that of the API server, such as https://10.0.0.1:6443"
                .to_owned(),
        )),
    }
    if !matches!(&*secret_text(secret, "clusterResources"), "" | "true" | "false") {
        findings.push(error("clusterResources is not true or false".to_owned()));
    }
    let config = read_config(secret_text(secret, "config").trim().as_bytes());
    if let Err(why) = config.fields {
        findings.push(error(format!("{why}; no Application can use the cluster")));
    }
    if !config.unread.is_empty() {
        let problem =
            format!("nothing reads {}; correct or remove it", some_of(config.unread, KEYS));
        findings.push(Finding::warning(about, problem));
    }
    findings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::finding::Severity;
    use super::*;

    fn secret(name: &str, kind: &str, data: Value) -> Secret {
        let metadata = json!({
            "namespace": "argocd", "name": name,
            "labels": {"argocd.argoproj.io/secret-type": kind},
        });
        serde_json::from_value(json!({"metadata": metadata, "stringData": data})).unwrap()
    }

    fn one(kind: &str, data: Value) -> Vec<(Severity, String)> {
        let found = of_secrets(&[secret("one", kind, data)]);
        found.into_iter().map(|finding| (finding.severity, finding.problem)).collect()
    }

    #[test]
    fn a_secret_says_what_nobody_could_use() {
        let fine =
            json!({"server": "https://10.0.0.1:6443/", "config": "{\"bearerToken\": \"t\"}"});
        assert_eq!(one("cluster", fine), []);
        let cases = [
            ("cluster", json!({"server": ""}), Severity::Error, "no server"),
            ("cluster", json!({"server": "10.0.0.1"}), Severity::Error, "no URL"),
            ("cluster", json!({"server": "ssh://host"}), Severity::Error, "no URL"),
            (
                "cluster",
                json!({"server": "https://a", "config": "{\"bearerToken\": t0ps3cret}"}),
                Severity::Error,
                "config is not JSON",
            ),
            (
                "cluster",
                json!({"server": "https://a", "config": "{\"bearertokn\": \"t0ps3cret\"}"}),
                Severity::Warning,
                "config.bearertokn",
            ),
            (
                "cluster",
                json!({"server": "https://a", "clusterResources": "yes"}),
                Severity::Error,
                "clusterResources",
            ),
            ("repository", json!({"password": "t0ps3cret"}), Severity::Error, "no url"),
            ("repo-creds", json!({"url": " "}), Severity::Error, "no url"),
        ];
        for (kind, data, severity, text) in cases {
            let found = one(kind, data.clone());
            assert!(
                matches!(&found[..], [(of, problem)] if *of == severity && problem.contains(text)),
                "{data}: {found:?}"
            );
            assert!(!format!("{found:?}").contains("t0ps3cret"), "a value is shown: {found:?}");
        }
        assert_eq!(one("repository", json!({"url": "https://example.com/a.git"})), []);
        assert_eq!(one("other", json!({})), []);
    }

    #[test]
    fn two_secrets_of_one_server_are_found_however_it_is_written() {
        let all = [
            secret("a", "cluster", json!({"server": "https://a"})),
            secret("b", "cluster", json!({"server": "https://a/"})),
            secret("c", "cluster", json!({"server": "https://c"})),
        ];
        let found = of_secrets(&all);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].about, "Secret argocd/a");
        assert!(found[0].problem.starts_with("Secret argocd/b has the same server"), "{found:?}");
    }

    #[test]
    fn a_project_says_what_keeps_its_applications() {
        let project =
            |spec: Value| json!({"metadata": {"namespace": "argocd", "name": "web"}, "spec": spec});
        assert_eq!(of_project(&project(json!({"sourceRepos": ["*"]}))), []);
        let window =
            json!({"syncWindows": [{"kind": "allow", "schedule": "* * *", "duration": "1h"}]});
        let found = of_project(&project(window));
        assert!(
            !found.is_empty() && found.iter().all(|one| one.severity == Severity::Warning),
            "{found:?}"
        );
        let found = of_project(&project(json!({"destinations": "everywhere"})));
        assert!(found.iter().any(|one| one.severity == Severity::Error), "{found:?}");
        assert!(found.iter().all(|one| one.about == "AppProject argocd/web"), "{found:?}");
    }
}
