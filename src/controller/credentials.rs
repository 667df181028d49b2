//! Repository credentials, from Secrets.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use parking_lot::RwLock;

use crate::redact;
use crate::repository::RepositoryUrl;
use crate::source::Credentials;
use crate::watch::secrets::{self, Kind};
use crate::watch::trust::{KNOWN_HOSTS, Trust};

/// Keys of repository Secrets that would change how to log in, and what to use instead.
const UNSUPPORTED: [(&str, &str); 5] = [
    ("githubAppID", "use username and password, with a token, or sshPrivateKey"),
    ("githubAppInstallationID", "use username and password, with a token, or sshPrivateKey"),
    ("githubAppPrivateKey", "use username and password, with a token, or sshPrivateKey"),
    ("gcpServiceAccountKey", "use username and password, with a token"),
    ("useAzureWorkloadIdentity", "use username and password, with a token"),
];

/// The credentials of all repositories.
#[derive(Debug, Default)]
pub struct RepositorySecrets {
    all: RwLock<BTreeMap<String, Repository>>,
    trust: Arc<Trust>,
}

/// The versions of all credentials, and of the keys and certificates of servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    secrets: Vec<(String, String)>,
    trust: u64,
}

#[derive(Debug)]
struct Repository {
    /// Its URL in normal form, so that all spellings of it have the same credentials.
    normal: String,
    /// UID and version of the Secret.
    version: (String, String),
    /// The AppProject that it is reserved for; empty for none.
    project: String,
    /// Whether it applies to all repositories with this URL prefix.
    prefix: bool,
    credentials: Credentials,
}

impl RepositorySecrets {
    /// The credentials of some Secrets.
    pub fn read<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> Self {
        let credentials = Self::default();
        for secret in secrets {
            credentials.put(secret);
        }
        credentials
    }

    /// The same, with the keys and certificates of servers from their ConfigMaps.
    #[must_use]
    pub fn trusting(self, trust: Arc<Trust>) -> Self {
        Self { trust, ..self }
    }

    /// The credentials of a repository for a project: those of its own Secret, else of the
    /// longest matching URL prefix. Secrets of other projects are not used; for an unknown
    /// project, which is empty, only those of all projects. With the keys or certificates
    /// of its server.
    pub fn of(&self, url: &str, project: &str) -> Option<Credentials> {
        let found = self.of_secrets(url, project);
        let mut known = found.clone().unwrap_or_default();
        let RepositoryUrl { scheme, host, .. } = RepositoryUrl::of(url);
        if scheme == "ssh"
            && let Some(hosts) = self.trust.known_hosts()
        {
            // Never empty: then the keys of the machine would count.
            known.ssh_known_hosts = format!("# ConfigMap {KNOWN_HOSTS}\n{hosts}\n");
        } else if scheme == "https"
            && let Some(certificates) = self.trust.certificates(&host)
        {
            known.ca_certificates = certificates;
        }
        (found.is_some() || known != Credentials::default()).then_some(known)
    }

    /// What the answers of servers depend on: a request that was refused may succeed with
    /// another version.
    pub fn version(&self) -> Version {
        let all = self.all.read();
        let secrets = all.values().map(|entry| entry.version.clone()).collect();
        Version { secrets, trust: self.trust.version() }
    }

    /// Whether there are credentials for a repository, but only of other projects.
    pub fn is_reserved(&self, url: &str, project: &str) -> bool {
        let wanted = RepositoryUrl::of(url).folded();
        let all = self.all.read();
        let mut fit = all.values().filter(|entry| match entry.prefix {
            true => !entry.normal.is_empty() && is_below(&wanted, &entry.normal),
            false => entry.normal == wanted,
        });
        fit.clone().any(|entry| !entry.project.is_empty())
            && fit.all(|entry| !entry.project.is_empty() && entry.project != project)
    }

    fn of_secrets(&self, url: &str, project: &str) -> Option<Credentials> {
        let wanted = RepositoryUrl::of(url).folded();
        let all = self.all.read();
        let usable =
            || all.values().filter(|entry| entry.project.is_empty() || entry.project == project);
        let mut own = usable().filter(|entry| !entry.prefix && entry.normal == wanted);
        // That of the project before that of all projects.
        let own = own.clone().find(|entry| !entry.project.is_empty()).or_else(|| own.next());
        let template = || {
            let fit = usable().filter(|entry| {
                entry.prefix && !entry.normal.is_empty() && is_below(&wanted, &entry.normal)
            });
            fit.max_by_key(|entry| (entry.normal.len(), !entry.project.is_empty()))
        };
        let has_any = |entry: &&Repository| entry.credentials != Credentials::default();
        own.filter(has_any).or_else(template).map(|entry| entry.credentials.clone())
    }

    /// Adds or updates a repository Secret, if it is one. Returns whether it is.
    pub fn put(&self, secret: &Secret) -> bool {
        let prefix = match secrets::kind(secret) {
            Some(Kind::Repository) => false,
            Some(Kind::RepositoryTemplate) => true,
            Some(Kind::Cluster) | None => return false,
        };
        let text = |field: &str| secrets::text(secret, field);
        let line = |field: &str| text(field).trim().to_owned();
        let asked = |(field, _): &(&str, &str)| !matches!(line(field).as_str(), "" | "false" | "0");
        let refused = UNSUPPORTED.into_iter().find(asked);
        let refusal = refused.map(|(field, instead)| {
            format!("Secret {}: the key {field} is not supported; {instead}", name(secret))
        });
        let credentials = Credentials {
            username: line("username"),
            password: line("password"),
            ssh_private_key: text("sshPrivateKey"),
            client_certificate: text("tlsClientCertData"),
            client_key: text("tlsClientCertKey"),
            bearer_token: line("bearerToken"),
            proxy: line("proxy"),
            no_proxy: line("noProxy"),
            refusal: refusal.unwrap_or_default(),
            insecure_skip_server_verification: line("insecure") == "true"
                || line("insecureIgnoreHostKey") == "true",
            plain_http: line("insecureOCIForceHttp") == "true",
            ..Credentials::default()
        };
        let url = line("url");
        redact::know_url(&url);
        redact::know_url(&credentials.proxy);
        redact::know_secret(&credentials.password);
        redact::know_secret(&credentials.bearer_token);
        let normal = RepositoryUrl::of(&url).folded();
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let version = (text(&secret.metadata.uid), text(&secret.metadata.resource_version));
        let project = line("project");
        let entry = Repository { normal, version, project, prefix, credentials };
        self.all.write().insert(name(secret), entry);
        true
    }

    /// Removes a deleted repository Secret.
    pub fn remove(&self, secret: &Secret) {
        self.all.write().remove(&name(secret));
    }
}

fn name(secret: &Secret) -> String {
    secret.metadata.name.clone().unwrap_or_default()
}

/// Whether a repository URL is covered by a credential template, both in normal form: the
/// host must be the same. `https://git.example.com` does not cover `https://git.example.com.evil.org` or
/// `https://git.example.com@evil.org`.
fn is_below(url: &str, prefix: &str) -> bool {
    let Some(rest) = url.strip_prefix(prefix) else { return false };
    let after_scheme = prefix.split_once("://").map_or(prefix, |(_, after)| after);
    rest.is_empty() || after_scheme.contains('/') || rest.starts_with('/')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::annotations::SECRET_TYPE_LABEL;

    #[test]
    fn credentials_of_a_prefix_stay_on_their_host() {
        let cases = [
            ("https://git.example.com", "https://git.example.com", true),
            ("https://git.example.com", "https://git.example.com/org/repo", true),
            ("https://git.example.com/org", "https://git.example.com/organisation/repo", true),
            ("https://git.example.com", "https://git.example.com.evil.org/repo", false),
            ("https://git.example.com", "https://git.example.com@evil.org/repo", false),
            ("https://git.example.com", "https://git.example.com:8443/repo", false),
            ("https://", "https://evil.org/repo", false),
            ("git@git.example.com", "git@git.example.com:org/repo", true),
            ("git@git.example.com:org", "git@git.example.com:org/repo", true),
            ("git@git.example.com", "git@git.example.com.evil.org:org/repo", false),
            ("https://GIT.example.com:0443/org/", "https://me@git.example.com//org/repo", true),
            ("ssh://git@git.example.com/org", "git@git.example.com:org/repo", true),
            ("git@git.example.com:", "ssh://git@git.example.com:022/org/repo", true),
            ("https://git.example.com", "ssh://git@git.example.com/org/repo", false),
            ("https://git.example.com/or%67", "https://git.example.com/org/repo", true),
        ];
        let normal = |url: &str| RepositoryUrl::of(url).folded();
        for (prefix, url, want) in cases {
            assert_eq!(is_below(&normal(url), &normal(prefix)), want, "{url} below {prefix}");
        }
    }

    #[test]
    fn a_secret_of_a_file_may_have_string_data() {
        let secret = |data: &str| -> Secret {
            serde_json::from_value(serde_json::json!({
                "metadata": {"name": "apps", "labels": {SECRET_TYPE_LABEL: "repository"}},
                data: {},
                "stringData": {"url": "https://git.example.com/apps", "username": "bot", "password": "swordfish"},
            }))
            .unwrap()
        };
        for data in ["data", "ignored"] {
            let all = RepositorySecrets::read(&[secret(data)]);
            let found = all.of("https://git.example.com/apps.git", "").unwrap();
            assert_eq!((&*found.username, &*found.password), ("bot", "swordfish"), "{data}");
        }
        let mut both = secret("data");
        let old = k8s_openapi::ByteString(b"old".to_vec());
        both.data = Some([("password".to_owned(), old)].into());
        let found = RepositorySecrets::read(&[both]).of("https://git.example.com/apps", "");
        assert_eq!(found.unwrap().password, "swordfish", "as the API server stores it");
    }

    fn secret(name: &str, kind: &str, data: &[(&str, &str)]) -> Secret {
        let data: BTreeMap<&str, &str> = data.iter().copied().collect();
        let secret = serde_json::json!({
            "metadata": {"name": name, "labels": {SECRET_TYPE_LABEL: kind}}, "stringData": data,
        });
        let mut secret: Secret = serde_json::from_value(secret).unwrap();
        let texts = secret.string_data.take().unwrap_or_default().into_iter();
        let bytes = |text: String| k8s_openapi::ByteString(text.into_bytes());
        secret.data = Some(texts.map(|(key, text)| (key, bytes(text))).collect());
        secret
    }

    /// All spellings of a URL have the same credentials; those of another project are never
    /// used, and a project that is not known has only those of all projects (AS-091).
    #[test]
    fn credentials_follow_the_normal_form_and_the_project() {
        let secrets = RepositorySecrets::read(&[
            secret("all", "repository", &[("url", "https://h/o/r.git"), ("password", "all")]),
            secret(
                "own",
                "repository",
                &[("url", "https://H:443/o/r"), ("password", "own"), ("project", "p")],
            ),
            secret(
                "template",
                "repo-creds",
                &[("url", "git@h:o"), ("sshPrivateKey", "key"), ("project", "p")],
            ),
        ]);
        let password =
            |url: &str, project: &str| secrets.of(url, project).map(|found| found.password);
        for url in ["https://h/o/r", "https://me@h:0443//o/r.git/", "HTTPS://h:/O/R/.git"] {
            assert_eq!(password(url, "p").as_deref(), Some("own"), "{url}");
            assert_eq!(password(url, "other").as_deref(), Some("all"), "{url}");
            assert_eq!(password(url, "").as_deref(), Some("all"), "{url}");
        }
        for url in ["git@h:o/r", "ssh://git@h:022/o/r", "[git@h:22]:/o/r.git"] {
            assert!(secrets.of(url, "p").is_some(), "{url}");
            assert!(secrets.of(url, "other").is_none(), "{url}");
            assert!(secrets.of(url, "").is_none(), "{url}");
        }
    }

    #[test]
    fn keys_that_are_not_supported_refuse_the_repository() {
        let secrets = RepositorySecrets::read(&[secret(
            "app",
            "repository",
            &[("url", "https://h/o/r"), ("githubAppID", "7"), ("enableLfs", "true")],
        )]);
        let found = secrets.of("https://h/o/r", "").unwrap();
        assert!(found.refusal.starts_with("Secret app: the key githubAppID is not supported"));
    }
}
