//! Repository credentials, from Secrets.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Secret;
use parking_lot::RwLock;

use wavegate_api::repository::RepositoryUrl;
use wavegate_cluster::watch::secrets::{self, SecretKind};
use wavegate_cluster::watch::trust::{KNOWN_HOSTS, Trust};
use wavegate_net::redact;
use wavegate_source::{RepoCredentials, RepoIdentity};

/// Keys of repository Secrets that are read, or that only Argo CD's own programs need.
const KNOWN: [&str; 31] = [
    "url",
    "type",
    "name",
    "project",
    "username",
    "password",
    "sshPrivateKey",
    "tlsClientCertData",
    "tlsClientCertKey",
    "bearerToken",
    "proxy",
    "noProxy",
    "insecure",
    "insecureIgnoreHostKey",
    "enableLfs",
    "enableOCI",
    "insecureOCIForceHttp",
    "ociTokenHosts",
    "forceHttpBasicAuth",
    "githubAppID",
    "githubAppInstallationID",
    "githubAppPrivateKey",
    "githubAppEnterpriseBaseUrl",
    "gcpServiceAccountKey",
    "useAzureWorkloadIdentity",
    "azureServicePrincipalClientId",
    "azureServicePrincipalClientID",
    "azureServicePrincipalClientSecret",
    "azureServicePrincipalTenantId",
    "azureServicePrincipalTenantID",
    "azureActiveDirectoryEndpoint",
];

/// The largest value of a Secret that is read, in bytes: a key or a chain of certificates.
const MAX_VALUE: usize = 256 << 10;

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
    /// The same as a registry for charts; empty for what is none.
    registry: String,
    /// Whether it is said to be a registry (`enableOCI`, or its type).
    oci: bool,
    /// UID and version of the Secret.
    version: (String, String),
    /// The AppProject that it is reserved for; empty for none.
    project: String,
    /// Whether it applies to all repositories with this URL prefix.
    prefix: bool,
    credentials: RepoCredentials,
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
    pub fn of(&self, url: &str, project: &str) -> Option<RepoCredentials> {
        let wanted = RepositoryUrl::of(url).folded();
        let found = self.of_secrets(&wanted, project, |entry| &entry.normal);
        self.trusting_server_of(url, found)
    }

    /// The credentials of a repository that a chart depends on. Those of a registry,
    /// `oci://host/path`, have the URL `host/path` as well, as in Argo CD; and those of the
    /// nearest registry above or below it, since Helm logs in to hosts.
    pub fn of_dependency(&self, url: &str, project: &str) -> Option<RepoCredentials> {
        let wanted = registry(url);
        if wanted.is_empty() {
            return self.of(url, project);
        }
        let own = self.of_secrets(&wanted, project, |entry| &entry.registry);
        let found = own.or_else(|| self.near(&wanted, project));
        self.trusting_server_of(url, found)
    }

    /// The credentials of a registry that is a prefix of this one, or the other way round.
    fn near(&self, wanted: &str, project: &str) -> Option<RepoCredentials> {
        let all = self.all.read();
        let usable = all.values().filter(|entry| {
            let is_of = entry.project.is_empty() || entry.project == project;
            is_of && entry.oci && !entry.prefix && !entry.registry.is_empty()
        });
        let ranked = usable.filter_map(|entry| {
            let is_above = is_below(wanted, &entry.registry);
            let is_near = is_above || is_below(&entry.registry, wanted);
            let rank = (is_above, entry.registry.len(), !entry.project.is_empty());
            (is_near && entry.credentials.can_log_in()).then_some((rank, entry))
        });
        ranked.max_by_key(|(rank, _)| *rank).map(|(_, entry)| entry.credentials.clone())
    }

    /// The credentials with the keys or certificates of the server.
    fn trusting_server_of(
        &self,
        url: &str,
        found: Option<RepoCredentials>,
    ) -> Option<RepoCredentials> {
        let mut known = found.clone().unwrap_or_default();
        let RepositoryUrl { scheme, host, .. } = RepositoryUrl::of(url);
        if scheme == "ssh"
            && let Some(hosts) = self.trust.known_hosts()
        {
            // Never empty: then the keys of the machine would count.
            known.ssh_known_hosts = format!("# ConfigMap {KNOWN_HOSTS}\n{hosts}\n");
        }
        let host = match (scheme.as_str(), registry(url)) {
            ("https" | "oci", _) => host,
            // The registry of a chart is written without a scheme; `host:5000/path` reads as if
            // it were ssh.
            (_, registry) => RepositoryUrl::of(&registry).host,
        };
        if let Some(certificates) = self.trust.certificates(&host) {
            known.ca_certificates = certificates;
        }
        (found.is_some() || known != RepoCredentials::default()).then_some(known)
    }

    /// The public keys of those who sign commits, by key ID.
    pub fn signing_keys(&self) -> Arc<BTreeMap<String, String>> {
        self.trust.signing_keys()
    }

    /// What the answers of servers depend on: a request that was refused may succeed with
    /// another version.
    pub fn version(&self) -> Version {
        let all = self.all.read();
        let secrets = all.values().map(|entry| entry.version.clone()).collect();
        Version { secrets, trust: self.trust.version() }
    }

    /// The URLs in normal form of the repositories that are reserved for a project.
    pub fn reserved_for(&self, project: &str) -> Vec<String> {
        let all = self.all.read();
        let own = all
            .values()
            .filter(|entry| !entry.prefix && !entry.normal.is_empty() && entry.project == project);
        own.map(|entry| entry.normal.clone()).collect()
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

    /// The credentials of the Secrets for a normal form, of which `form` is that of a Secret.
    fn of_secrets(
        &self,
        wanted: &str,
        project: &str,
        form: impl Fn(&Repository) -> &str,
    ) -> Option<RepoCredentials> {
        let all = self.all.read();
        let usable =
            || all.values().filter(|entry| entry.project.is_empty() || entry.project == project);
        let mut own = usable().filter(|entry| !entry.prefix && form(entry) == wanted);
        // That of the project before that of all projects.
        let own = own.clone().find(|entry| !entry.project.is_empty()).or_else(|| own.next());
        let template = || {
            let fit = usable().filter(|entry| {
                entry.prefix && !form(entry).is_empty() && is_below(wanted, form(entry))
            });
            fit.max_by_key(|entry| (form(entry).len(), !entry.project.is_empty()))
        };
        match own.map(|entry| &entry.credentials) {
            // A Secret that must not be used is not replaced by another one.
            Some(own) if own.can_log_in() || !own.refusal.is_empty() => Some(own.clone()),
            Some(own) => Some(match template() {
                Some(template) => completed(own, &template.credentials),
                None => own.clone(),
            }),
            None => template().map(|entry| entry.credentials.clone()),
        }
        .filter(|found| *found != RepoCredentials::default())
    }

    /// Adds or updates a repository Secret, if it is one. Returns whether it is.
    pub fn put(&self, secret: &Secret) -> bool {
        let prefix = match secrets::secret_kind(secret) {
            Some(SecretKind::Repository) => false,
            Some(SecretKind::RepositoryTemplate) => true,
            Some(SecretKind::Cluster) | None => return false,
        };
        let text = |field: &str| secrets::secret_text(secret, field);
        let line = |field: &str| text(field).trim().to_owned();
        let credentials = read(secret);
        let url = line("url");
        redact::know_url(&url);
        redact::know_url(&credentials.proxy);
        redact::know_secret(&credentials.password);
        redact::know_secret(&credentials.bearer_token);
        if let Some(RepoIdentity::AzureServicePrincipal { secret, .. }) = &credentials.identity {
            redact::know_secret(secret);
        }
        // Both forms in which it may be shown.
        let basic = format!("{}:{}", credentials.username, credentials.password);
        if !credentials.password.is_empty() {
            redact::know_secret(&STANDARD.encode(basic));
        }
        let normal = RepositoryUrl::of(&url).folded();
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let version = (text(&secret.metadata.uid), text(&secret.metadata.resource_version));
        let project = line("project");
        let registry = registry(&url);
        let is_true = |text: &str| matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True");
        let oci = is_true(&line("enableOCI")) || line("type") == "oci" || url.starts_with("oci://");
        let entry = Repository { normal, registry, oci, version, project, prefix, credentials };
        self.all.write().insert(name(secret), entry);
        true
    }

    /// Removes a deleted repository Secret.
    pub fn remove(&self, secret: &Secret) {
        self.all.write().remove(&name(secret));
    }
}

/// A repository without credentials, with those of a template. What its own Secret sets stays.
fn completed(own: &RepoCredentials, template: &RepoCredentials) -> RepoCredentials {
    let own_or = |own: &str, other: &str| {
        if own.is_empty() { other.to_owned() } else { own.to_owned() }
    };
    RepoCredentials {
        proxy: own_or(&own.proxy, &template.proxy),
        no_proxy: own_or(&own.no_proxy, &template.no_proxy),
        insecure_skip_server_verification: own.insecure_skip_server_verification
            || template.insecure_skip_server_verification,
        token_hosts: own_or(&own.token_hosts, &template.token_hosts),
        plain_http: own.plain_http || template.plain_http,
        lfs: own.lfs || template.lfs,
        ..template.clone()
    }
}

/// The credentials of a Secret. What cannot be used is a refusal that names the key.
fn read(secret: &Secret) -> RepoCredentials {
    let text = |field: &str| secrets::secret_text(secret, field);
    let line = |field: &str| text(field).trim().to_owned();
    let mut refusal = String::new();
    let mut refuse = |why: String| {
        if refusal.is_empty() {
            refusal = format!("Secret {}: {why}", name(secret));
        }
    };
    for field in KNOWN {
        if text(field).len() > MAX_VALUE {
            refuse(format!("the key {field} is larger than {} KiB", MAX_VALUE >> 10));
        }
    }
    let mut switch = |field: &str| match line(field).as_str() {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => true,
        "" | "0" | "f" | "F" | "false" | "FALSE" | "False" => false,
        _ => {
            refuse(format!("the key {field} must be true or false"));
            false
        }
    };
    let insecure = [switch("insecure"), switch("insecureIgnoreHostKey")].contains(&true);
    let (plain_http, lfs) = (switch("insecureOCIForceHttp"), switch("enableLfs"));
    let (force_basic, azure) = (switch("forceHttpBasicAuth"), switch("useAzureWorkloadIdentity"));
    let (app, key) = (line("githubAppID"), text("githubAppPrivateKey"));
    let google = text("gcpServiceAccountKey");
    // Argo CD reads the one spelling in a repository and the other in a template.
    let either = |one: &str, other: &str| match line(one) {
        empty if empty.is_empty() => line(other),
        set => set,
    };
    let principal = [
        either("azureServicePrincipalTenantId", "azureServicePrincipalTenantID"),
        either("azureServicePrincipalClientId", "azureServicePrincipalClientID"),
        line("azureServicePrincipalClientSecret"),
    ];
    let zero = |text: String| if text == "0" { String::new() } else { text };
    let (app, installation) = (zero(app), zero(line("githubAppInstallationID")));
    // As in Argo CD, these come before an identity.
    let plain = [line("password"), line("bearerToken"), text("sshPrivateKey")];
    let identity = if plain.iter().any(|text| !text.is_empty()) {
        None
    } else if !app.is_empty() || !key.trim().is_empty() {
        if app.is_empty() || key.trim().is_empty() {
            refuse("githubAppID and githubAppPrivateKey belong together".to_owned());
        }
        Some(RepoIdentity::GitHubApp {
            app,
            installation,
            key,
            api: line("githubAppEnterpriseBaseUrl"),
        })
    } else if !google.trim().is_empty() {
        Some(RepoIdentity::GoogleServiceAccount(google))
    } else if azure {
        Some(RepoIdentity::AzureWorkload)
    } else if principal.iter().all(String::is_empty) {
        None
    } else {
        if principal.iter().any(String::is_empty) {
            refuse(
                "azureServicePrincipalClientId, azureServicePrincipalClientSecret and \
                 azureServicePrincipalTenantId belong together"
                    .to_owned(),
            );
        }
        let [tenant, client, secret] = principal;
        let endpoint = line("azureActiveDirectoryEndpoint");
        Some(RepoIdentity::AzureServicePrincipal { tenant, client, secret, endpoint })
    };
    let (client_certificate, client_key) = (text("tlsClientCertData"), text("tlsClientCertKey"));
    if client_certificate.is_empty() != client_key.is_empty() {
        refuse("tlsClientCertData and tlsClientCertKey belong together".to_owned());
    }
    RepoCredentials {
        username: line("username"),
        password: line("password"),
        ssh_private_key: text("sshPrivateKey"),
        client_certificate,
        client_key,
        bearer_token: line("bearerToken"),
        proxy: line("proxy"),
        no_proxy: line("noProxy"),
        refusal,
        insecure_skip_server_verification: insecure,
        token_hosts: line("ociTokenHosts"),
        plain_http,
        identity,
        force_basic,
        lfs,
        ..RepoCredentials::default()
    }
}

/// The keys of a repository Secret that nothing reads, such as a misspelt one.
pub fn unknown_keys(secret: &Secret) -> Vec<String> {
    let stored = secret.data.iter().flat_map(BTreeMap::keys);
    let written = secret.string_data.iter().flat_map(BTreeMap::keys);
    let unknown = stored.chain(written).filter(|key| !KNOWN.contains(&key.as_str()));
    unknown.map(|key| key.chars().take(80).collect()).collect()
}

fn name(secret: &Secret) -> String {
    secret.metadata.name.clone().unwrap_or_default()
}

/// The normal form of a URL as that of a registry for charts, `host/path` or `oci://host/path`;
/// empty for what cannot be one.
fn registry(url: &str) -> String {
    let url = url.trim();
    let plain = match url.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("oci") => rest,
        Some(_) => "",
        None => url,
    };
    if plain.is_empty() || plain.starts_with(['/', '.']) || plain.contains('@') {
        return String::new();
    }
    RepositoryUrl::of(&format!("oci://{plain}")).folded()
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
    use wavegate_api::annotations::SECRET_TYPE_LABEL;

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

    /// A registry of a dependency is found in both spellings, by its prefix, and by what is
    /// below it; never on another host, and never with what belongs to another project.
    #[test]
    fn a_dependency_has_the_credentials_of_its_registry() {
        let helm = |name: &str, kind: &str, url: &str, more: &[(&str, &str)]| {
            let keys = [("url", url), ("username", "me"), ("password", name)];
            let keys: Vec<_> = keys.iter().chain(more).copied().collect();
            secret(name, kind, &keys)
        };
        let oci = ("enableOCI", "true");
        let secrets = RepositorySecrets::read(&[
            helm("plain", "repository", "h.example.com:5000/team", &[oci]),
            helm("scheme", "repository", "oci://r.example.com/team", &[]),
            helm("chart", "repository", "c.example.com/team/web", &[oci]),
            helm("near", "repository", "n.example.com/team", &[oci]),
            helm("nearest", "repository", "n.example.com/team/a", &[oci]),
            helm("files", "repository", "f.example.com/team", &[]),
            helm("closed", "repository", "p.example.com/team", &[oci, ("project", "p")]),
            helm("template", "repo-creds", "t.example.com", &[]),
            helm("git", "repository", "git@g.example.com:team", &[oci]),
        ]);
        let of = |url: &str, project: &str| {
            secrets.of_dependency(url, project).map(|found| found.password)
        };
        for (url, want) in [
            ("oci://h.example.com:5000/team", Some("plain")),
            ("oci://h.example.com:5000/team/web", Some("plain")),
            ("oci://h.example.com:5001/team", None),
            ("oci://h.example.com/team", None),
            ("oci://r.example.com/team", Some("scheme")),
            ("oci://c.example.com/team", Some("chart")),
            ("oci://n.example.com/team/a/b", Some("nearest")),
            ("oci://n.example.com/team/b", Some("near")),
            ("oci://n.example.com", Some("nearest")),
            ("oci://f.example.com/team", Some("files")),
            ("oci://f.example.com/team/web", None),
            ("oci://p.example.com/team", None),
            ("oci://t.example.com/team", Some("template")),
            ("oci://t.example.com.evil.org/team", None),
            ("oci://g.example.com/team", None),
            ("https://h.example.com:5000/team", None),
        ] {
            assert_eq!(of(url, "").as_deref(), want, "{url}");
        }
        assert_eq!(of("oci://p.example.com/team", "p").as_deref(), Some("closed"));
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

    /// What cannot be used is refused by its name, and not left out; a password comes before
    /// an identity.
    #[test]
    fn values_that_cannot_be_used_refuse_the_repository() {
        let large = "x".repeat(MAX_VALUE + 1);
        let cases: [(&[(&str, &str)], &str); 8] = [
            (&[("githubAppID", "7")], "githubAppID and githubAppPrivateKey belong together"),
            (
                &[("githubAppPrivateKey", "k")],
                "githubAppID and githubAppPrivateKey belong together",
            ),
            (
                &[("tlsClientCertData", "c")],
                "tlsClientCertData and tlsClientCertKey belong together",
            ),
            (
                &[("azureServicePrincipalClientSecret", "s")],
                "azureServicePrincipalClientId, azureServicePrincipalClientSecret and \
                 azureServicePrincipalTenantId belong together",
            ),
            (
                &[("azureServicePrincipalClientID", "c"), ("azureServicePrincipalTenantId", "t")],
                "azureServicePrincipalClientId, azureServicePrincipalClientSecret and \
                 azureServicePrincipalTenantId belong together",
            ),
            (&[("insecure", "yes")], "the key insecure must be true or false"),
            (&[("enableLfs", "on")], "the key enableLfs must be true or false"),
            (&[("sshPrivateKey", &large)], "the key sshPrivateKey is larger than 256 KiB"),
        ];
        for (keys, want) in cases {
            let keys: Vec<_> = [("url", "https://h/o/r")].iter().chain(keys).copied().collect();
            let secrets = RepositorySecrets::read(&[secret("app", "repository", &keys)]);
            let found = secrets.of("https://h/o/r", "").unwrap();
            assert_eq!(found.refusal, format!("Secret app: {want}"));
        }
        let both = [("url", "https://h/x"), ("password", "p"), ("githubAppID", "7")];
        let found =
            RepositorySecrets::read(&[secret("app", "repository", &both)]).of("https://h/x", "");
        assert_eq!(found.unwrap().identity, None);
        let typo = secret("app", "repository", &[("url", "u"), ("pasword", "p")]);
        assert_eq!(unknown_keys(&typo), ["pasword"]);
    }

    /// A repository without credentials has those of the longest template, and keeps its own
    /// settings.
    #[test]
    fn a_repository_without_credentials_has_those_of_its_template() {
        let secrets = RepositorySecrets::read(&[
            secret(
                "own",
                "repository",
                &[("url", "https://h/o/r"), ("insecure", "true"), ("proxy", "http://own")],
            ),
            secret("short", "repo-creds", &[("url", "https://h"), ("password", "short")]),
            secret(
                "long",
                "repo-creds",
                &[
                    ("url", "https://h/o"),
                    ("githubAppID", "7"),
                    ("githubAppPrivateKey", "k"),
                    ("proxy", "http://template"),
                    ("noProxy", "n"),
                ],
            ),
        ]);
        let found = secrets.of("https://h/o/r.git", "").unwrap();
        assert!(matches!(&found.identity, Some(RepoIdentity::GitHubApp { app, .. }) if app == "7"));
        assert!(found.insecure_skip_server_verification);
        assert_eq!((&*found.proxy, &*found.no_proxy), ("http://own", "n"));
        let other = secrets.of("https://h/o/other", "").unwrap();
        assert!(!other.insecure_skip_server_verification && other.identity.is_some());
        assert_eq!(secrets.of("https://h/x", "").unwrap().password, "short");
        assert_eq!(format!("{:?}", found.identity), "Some(githubAppID)", "no key is shown");
    }
}
