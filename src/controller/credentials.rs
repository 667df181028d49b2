//! Repository credentials, from Secrets.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use parking_lot::RwLock;

use crate::api::annotations::SECRET_TYPE_LABEL;
use crate::redact;
use crate::source::Credentials;

/// Values of the label of repository Secrets, and whether they are credential templates.
const REPOSITORIES: [(&str, bool); 2] = [("repository", false), ("repo-creds", true)];

/// The credentials of all repositories.
#[derive(Debug, Default)]
pub struct RepositorySecrets {
    all: RwLock<BTreeMap<String, Repository>>,
}

#[derive(Debug)]
struct Repository {
    url: String,
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

    /// The credentials of a repository for a project: those of its own Secret, else of the
    /// longest matching URL prefix. Secrets of other projects are not used; for an unknown
    /// project, which is empty, only those of all projects.
    pub fn of(&self, url: &str, project: &str) -> Option<Credentials> {
        let bare = |url: &str| url.trim_end_matches('/').trim_end_matches(".git").to_lowercase();
        let wanted = bare(url);
        let all = self.all.read();
        let usable =
            || all.values().filter(|entry| entry.project.is_empty() || entry.project == project);
        let mut own = usable().filter(|entry| !entry.prefix && bare(&entry.url) == wanted);
        // That of the project before that of all projects.
        let own = own.clone().find(|entry| !entry.project.is_empty()).or_else(|| own.next());
        let template = || {
            let fit = usable().filter(|entry| {
                entry.prefix && !entry.url.is_empty() && is_below(&wanted, &bare(&entry.url))
            });
            fit.max_by_key(|entry| entry.url.len())
        };
        let has_any = |entry: &&Repository| entry.credentials != Credentials::default();
        own.filter(has_any).or_else(template).map(|entry| entry.credentials.clone())
    }

    /// Adds or updates a repository Secret. Returns whether it is one, by its label.
    pub fn put(&self, secret: &Secret) -> bool {
        let labels = secret.metadata.labels.as_ref();
        let label = labels.and_then(|labels| labels.get(SECRET_TYPE_LABEL));
        let kind = REPOSITORIES.into_iter().find(|(name, _)| label.is_some_and(|l| l == name));
        let Some((_, prefix)) = kind else { return false };
        let text = |field: &str| {
            let data = secret.data.as_ref().and_then(|data| data.get(field));
            let read = data.map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned());
            // A Secret of a file: the API server stores this as `data`.
            let written = secret.string_data.as_ref().and_then(|data| data.get(field)).cloned();
            written.or(read).unwrap_or_default()
        };
        let credentials = Credentials {
            username: text("username").trim().to_owned(),
            password: text("password").trim().to_owned(),
            ssh_private_key: text("sshPrivateKey"),
            insecure_skip_server_verification: text("insecure").trim() == "true"
                || text("insecureIgnoreHostKey").trim() == "true",
            ..Credentials::default()
        };
        let entry = Repository {
            url: text("url").trim().to_owned(),
            project: text("project").trim().to_owned(),
            prefix,
            credentials,
        };
        redact::know_url(&entry.url);
        redact::know_secret(&entry.credentials.password);
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

/// Whether a repository URL is covered by a credential template: the host must be the
/// same. `https://git.example.com` does not cover `https://git.example.com.evil.org` or
/// `https://git.example.com@evil.org`.
fn is_below(url: &str, prefix: &str) -> bool {
    let Some(rest) = url.strip_prefix(prefix) else { return false };
    // In an scp-like address the path follows a colon.
    let (after_scheme, ends_host) = match prefix.split_once("://") {
        Some((_, after_scheme)) => (after_scheme, ['/'].as_slice()),
        None => (prefix, ['/', ':'].as_slice()),
    };
    rest.is_empty() || after_scheme.contains(ends_host) || rest.starts_with(ends_host)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        ];
        for (prefix, url, want) in cases {
            assert_eq!(is_below(url, prefix), want, "{url} below {prefix}");
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
}
