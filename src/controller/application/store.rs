//! Applications, projects, clusters and credentials as last seen. What we have
//! written ourselves counts until the watch shows it or something newer.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use parking_lot::RwLock;
use serde_json::Value;

use super::projects::is_leaving;
use crate::api::ObjectKey;
use crate::api::{AppProject, AppProjectSpec};
use crate::decide::app_state::{Condition, project};
use crate::decide::windows::{self, Window};
use crate::redact;
use crate::source::Credentials;

/// What a change of an Application is to its controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Something that a pass may act on.
    Counts,
    /// Nothing but what the controller itself writes.
    Echo,
    /// Older than what is known.
    Stale,
}

/// Everything that is watched in the control plane.
#[derive(Debug, Default)]
pub struct Store {
    applications: RwLock<HashMap<ObjectKey, Arc<Value>>>,
    projects: RwLock<BTreeMap<String, Result<Arc<Project>, String>>>,
    /// Projects whose deletion waits for us, raw.
    leaving: RwLock<BTreeMap<String, Arc<Value>>>,
    repositories: RwLock<BTreeMap<String, Repository>>,
}

/// The most problems of one project that are reported; each is a condition.
const MAX_PROBLEMS: usize = 10;

/// A project as it is used.
#[derive(Debug)]
pub struct Project {
    /// What it permits.
    pub spec: AppProjectSpec,
    /// When it permits syncs; read once, for that looks up time zones.
    pub windows: Vec<Window>,
    /// What in it cannot be used, each with its field.
    pub problems: Vec<String>,
}

impl Project {
    /// What in the project cannot be used, for its Applications.
    pub fn warnings(&self, name: &str) -> impl Iterator<Item = Condition> {
        self.problems.iter().map(move |problem| Condition::invalid_project(name, problem))
    }
}

#[derive(Debug)]
struct Repository {
    url: String,
    /// Whether it is for all repositories whose URL starts like this.
    prefix: bool,
    credentials: Credentials,
}

fn version(object: &Value) -> Option<u128> {
    object["metadata"]["resourceVersion"].as_str()?.parse().ok()
}

impl Store {
    /// An Application as last seen.
    pub fn application(&self, key: &ObjectKey) -> Option<Arc<Value>> {
        self.applications.read().get(key).cloned()
    }

    /// All of them.
    pub fn applications(&self) -> Vec<ObjectKey> {
        self.applications.read().keys().cloned().collect()
    }

    /// Applications of a project.
    pub fn of_project(&self, project: &str) -> Vec<ObjectKey> {
        let of = |application: &Value| {
            let own = application["spec"]["project"].as_str().unwrap_or_default();
            own == project || (own.is_empty() && project == "default")
        };
        let all = self.applications.read();
        all.iter().filter(|(_, app)| of(app)).map(|(key, _)| key.clone()).collect()
    }

    /// Takes over an Application, seen or written.
    pub fn put(&self, key: &ObjectKey, application: Arc<Value>) -> Change {
        redact::know_urls_of(&application["spec"]);
        let mut all = self.applications.write();
        let Some(old) = all.get(key) else {
            all.insert(key.clone(), application);
            return Change::Counts;
        };
        if let (Some(old), Some(new)) = (version(old), version(&application)) {
            if new < old {
                return Change::Stale;
            }
            if new == old {
                return Change::Echo;
            }
        }
        let change = if counts(old, &application) { Change::Counts } else { Change::Echo };
        all.insert(key.clone(), application);
        change
    }

    /// Takes over that an Application is gone.
    pub fn remove(&self, key: &ObjectKey, uid: &str) -> bool {
        let mut all = self.applications.write();
        let same = all.get(key).is_some_and(|old| uid.is_empty() || old["metadata"]["uid"] == uid);
        if same {
            all.remove(key);
        }
        same
    }

    /// A project; `None` when there is none of that name.
    pub fn project(&self, name: &str) -> Option<Result<Arc<Project>, String>> {
        self.projects.read().get(name).cloned()
    }

    /// The names of all projects.
    pub fn projects(&self) -> BTreeSet<String> {
        self.projects.read().keys().cloned().collect()
    }

    /// Takes over a project; whether what it permits has changed.
    pub fn put_project(&self, name: &str, object: &Value) -> bool {
        redact::know_urls_of(&object["spec"]);
        match is_leaving(object) {
            true => self.leaving.write().insert(name.to_owned(), Arc::new(object.clone())),
            false => self.leaving.write().remove(name),
        };
        let read = crate::api::read::<AppProject>(object);
        let read = read.map_err(|error| error.to_string());
        let mut all = self.projects.write();
        let changed = match (all.get(name), &read) {
            (Some(Ok(old)), Ok(new)) => old.spec != new.spec,
            (Some(Err(old)), Err(new)) => old != new,
            _ => true,
        };
        if !changed {
            return false;
        }
        let read = read.map(|project| {
            let mut problems = project::problems(&project.spec);
            problems.extend(windows::problems(object));
            problems.extend(windows::warnings(object));
            problems.truncate(MAX_PROBLEMS);
            let windows = windows::windows(object);
            Arc::new(Project { spec: project.spec, windows, problems })
        });
        all.insert(name.to_owned(), read);
        true
    }

    /// Takes over that a project is gone.
    pub fn remove_project(&self, name: &str) {
        self.projects.write().remove(name);
        self.leaving.write().remove(name);
    }

    /// Projects that are being deleted and wait for us, as last seen.
    pub fn leaving(&self) -> Vec<Arc<Value>> {
        self.leaving.read().values().cloned().collect()
    }

    /// What is needed to read a repository: its own Secret, else the longest
    /// prefix of a template for many.
    pub fn credentials(&self, url: &str) -> Option<Credentials> {
        let bare = |url: &str| url.trim_end_matches('/').trim_end_matches(".git").to_lowercase();
        let wanted = bare(url);
        let all = self.repositories.read();
        let own = all.values().find(|entry| !entry.prefix && bare(&entry.url) == wanted);
        let template = || {
            let fit = all.values().filter(|entry| {
                entry.prefix && !entry.url.is_empty() && is_below(&wanted, &bare(&entry.url))
            });
            fit.max_by_key(|entry| entry.url.len())
        };
        let has_any = |entry: &&Repository| entry.credentials != Credentials::default();
        own.filter(has_any).or_else(template).map(|entry| entry.credentials.clone())
    }

    /// Takes over a Secret of a repository.
    pub fn put_repository(&self, secret: &Secret, prefix: bool) {
        let text = |field: &str| {
            let data = secret.data.as_ref().and_then(|data| data.get(field));
            data.map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned()).unwrap_or_default()
        };
        let credentials = Credentials {
            username: text("username").trim().to_owned(),
            password: text("password").trim().to_owned(),
            ssh_private_key: text("sshPrivateKey"),
            insecure_skip_server_verification: text("insecure").trim() == "true"
                || text("insecureIgnoreHostKey").trim() == "true",
            ..Credentials::default()
        };
        let entry = Repository { url: text("url").trim().to_owned(), prefix, credentials };
        redact::know_url(&entry.url);
        redact::know_secret(&entry.credentials.password);
        self.repositories.write().insert(name(secret), entry);
    }

    /// Takes over that such a Secret is gone.
    pub fn remove_repository(&self, secret: &Secret) {
        self.repositories.write().remove(&name(secret));
    }
}

fn name(secret: &Secret) -> String {
    secret.metadata.name.clone().unwrap_or_default()
}

/// Whether a repository is what credentials for a prefix are meant for: on the
/// same host, at least. `https://git.example.com` is no prefix of
/// `https://git.example.com.evil.org`, nor of `https://git.example.com@evil.org`.
fn is_below(url: &str, prefix: &str) -> bool {
    let Some(rest) = url.strip_prefix(prefix) else { return false };
    // Of an scp address the path follows a colon.
    let (after_scheme, ends_host) = match prefix.split_once("://") {
        Some((_, after_scheme)) => (after_scheme, ['/'].as_slice()),
        None => (prefix, ['/', ':'].as_slice()),
    };
    rest.is_empty() || after_scheme.contains(ends_host) || rest.starts_with(ends_host)
}

/// Whether a change is more than what the controller writes itself: a status
/// that somebody else has changed counts only for its operation.
fn counts(old: &Value, new: &Value) -> bool {
    let metadata = |object: &Value| {
        let own = &object["metadata"];
        ["annotations", "labels", "finalizers", "deletionTimestamp", "uid"]
            .map(|field| own[field].clone())
    };
    let state = |object: &Value| object["status"]["operationState"]["phase"].clone();
    old["spec"] != new["spec"]
        || old["operation"] != new["operation"]
        || state(old) != state(new)
        || metadata(old) != metadata(new)
        || old["status"]["sync"] != new["status"]["sync"]
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
}
