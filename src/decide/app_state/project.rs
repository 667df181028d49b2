//! The permissions of a project (SE-070 … SE-082).
//!
//! An invalid pattern never permits: in an allow list it matches nothing, in a
//! deny list everything. [`problems`] names the field.

use serde_json::Value;

use crate::api::AppProjectSpec;
use crate::api::app_project::ResourcePattern;
use crate::api::resource_key::ResourceKey;
use crate::decide::sync::Denial;
use crate::glob::{self, Glob, NamePattern};

/// A pattern of a list, and whether it denies.
fn split(pattern: &str) -> (bool, &str) {
    match pattern.strip_prefix('!') {
        Some(denied) => (true, denied),
        None => (false, pattern),
    }
}

/// Whether a text matches, for a pattern that allows or denies.
fn fits(denies: bool, pattern: &str, text: &str) -> bool {
    if denies { glob::denies(pattern, text, None) } else { glob::allows(pattern, text, None) }
}

/// Whether a pattern allows and none denies; `fits` gets whether the pattern
/// denies.
fn allowed<'a>(
    patterns: impl IntoIterator<Item = &'a String>,
    fits: impl Fn(bool, &str) -> bool,
) -> bool {
    let mut any = false;
    for pattern in patterns {
        let (denies, pattern) = split(pattern);
        let fits = fits(denies, pattern);
        if denies && fits {
            return false;
        }
        any |= fits;
    }
    any
}

/// Whether a repository may be used (SE-070). The pattern `*` matches all.
pub fn permits_source(project: &AppProjectSpec, repo_url: &str) -> bool {
    let urls = [normalized(repo_url), canonical(repo_url)];
    allowed(&project.source_repos, |denies, pattern| {
        let matches = if denies { glob::denies } else { glob::allows };
        let patterns = [normalized(pattern), canonical(pattern)];
        let mut pairs = patterns.iter().zip(&urls);
        pattern == "*" || pairs.any(|(pattern, url)| matches(pattern, url, Some('/')))
    })
}

/// URLs of the same repository may differ: case, `.git` and a trailing slash
/// are ignored.
fn normalized(url: &str) -> String {
    let url = url.trim().to_lowercase();
    let url = url.trim_end_matches('/');
    url.strip_suffix(".git").unwrap_or(url).to_owned()
}

/// The normalised location of a URL: without user name and default port,
/// `git@host:path` as an ssh URL, a local URL as a path. A denied repository
/// must not be reachable with another spelling.
fn canonical(url: &str) -> String {
    let url = normalized(url);
    let Some((scheme, rest)) = url.split_once("://") else {
        // `user@host:path`; a pattern such as `*` or a path has no host.
        return match url.split_once(':') {
            Some((host, path)) if !host.contains('/') => {
                let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
                format!("ssh://{host}/{}", one_slash(path))
            }
            _ => one_slash(&url),
        };
    };
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if scheme == "file" {
        return format!("/{}", one_slash(path));
    }
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let port = match scheme {
        "https" => ":443",
        "http" => ":80",
        "ssh" => ":22",
        _ => "",
    };
    let host = host.strip_suffix(port).unwrap_or(host);
    format!("{scheme}://{host}/{}", one_slash(path).trim_start_matches('/'))
}

/// Consecutive slashes count as one.
fn one_slash(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for c in path.chars() {
        if c != '/' || !out.ends_with('/') {
            out.push(c);
        }
    }
    out
}

/// Whether a cluster and a namespace may be synced to (SE-071). Without a
/// cluster it is denied.
///
/// An entry with a `!` denies if all of its other fields match as well; empty
/// fields match everything.
pub fn permits_destination(
    project: &AppProjectSpec,
    server: &str,
    name: &str,
    namespace: &str,
) -> bool {
    if server.is_empty() && name.is_empty() {
        return false;
    }
    let mut any = false;
    for item in &project.destinations {
        let fields = [&item.server, &item.name, &item.namespace].map(|pattern| split(pattern));
        let denies = fields.iter().any(|(denies, _)| *denies);
        let [by_server, by_name] = [(fields[0], server), (fields[1], name)].map(|(field, text)| {
            let (_, pattern) = field;
            !pattern.is_empty() && !text.is_empty() && fits(denies, pattern, text)
        });
        let (_, pattern) = fields[2];
        let mut by_cluster = by_server || by_name;
        let mut by_namespace = fits(denies, pattern, namespace);
        if denies {
            by_cluster |= item.server.is_empty() && item.name.is_empty();
            by_namespace |= item.namespace.is_empty();
        }
        match (denies, by_cluster && by_namespace) {
            (true, true) => return false,
            (false, true) => any = true,
            (_, false) => {}
        }
    }
    any
}

/// What is known of an object's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name<'a> {
    /// All of it.
    Known(&'a str),
    /// A prefix: the rest is generated when it is created.
    Begins(&'a str),
}

impl<'a> Name<'a> {
    /// The name of a target; its key has none if it is to be generated.
    pub fn of(key: &'a ResourceKey, object: &'a Value) -> Self {
        match key.name.as_str() {
            "" => {
                let prefix = object["metadata"]["generateName"].as_str().unwrap_or_default();
                // A longer one may be truncated when the name is generated.
                let cut = prefix.char_indices().nth(KEPT_PREFIX).map_or(prefix.len(), |(at, _)| at);
                Self::Begins(&prefix[..cut])
            }
            name => Self::Known(name),
        }
    }

    /// Whether the name certainly matches a pattern.
    fn fits(self, pattern: &str) -> bool {
        match self {
            Self::Known(name) => fits(false, pattern, name),
            Self::Begins(prefix) => pattern
                .strip_suffix('*')
                .is_some_and(|own| literal(own).len() == own.len() && prefix.starts_with(own)),
        }
    }

    /// Whether the name may match a pattern.
    fn may_fit(self, pattern: &str) -> bool {
        match self {
            Self::Known(name) => fits(true, pattern, name),
            Self::Begins(prefix) => {
                let own = literal(pattern);
                own.starts_with(prefix) || prefix.starts_with(own) || Glob::new(pattern).is_err()
            }
        }
    }
}

/// The characters of a prefix that every generated name keeps.
const KEPT_PREFIX: usize = 14;

/// The part of a pattern before its first special character.
fn literal(pattern: &str) -> &str {
    pattern.find(['*', '?', '[', '{', '\\', '!']).map_or(pattern, |at| &pattern[..at])
}

/// Whether a resource may be managed, by its kind (SE-072 … SE-075). For an
/// unknown name, all possible names must be permitted.
pub fn permits_kind(
    project: &AppProjectSpec,
    group: &str,
    kind: &str,
    name: Name<'_>,
    namespaced: bool,
) -> bool {
    let of_kind = |item: &ResourcePattern, denies: bool| {
        fits(denies, &item.group, group) && fits(denies, &item.kind, kind)
    };
    let allows = |list: &[ResourcePattern]| {
        let of_name = |item: &ResourcePattern| item.name.is_empty() || name.fits(&item.name);
        list.iter().any(|item| of_kind(item, false) && of_name(item))
    };
    let denies = |list: &[ResourcePattern]| {
        let of_name = |item: &ResourcePattern| item.name.is_empty() || name.may_fit(&item.name);
        list.iter().any(|item| of_kind(item, true) && of_name(item))
    };
    if !namespaced {
        return allows(&project.cluster_resource_whitelist)
            && !denies(&project.cluster_resource_blacklist);
    }
    let white = project.namespace_resource_whitelist.as_deref();
    white.is_none_or(allows) && !denies(&project.namespace_resource_blacklist)
}

/// The permissions of a project in one cluster.
#[derive(Clone, Copy, Debug)]
pub struct Permits<'a> {
    /// The project.
    pub project: &'a AppProjectSpec,
    /// URL of the cluster.
    pub server: &'a str,
    /// Its name.
    pub cluster: &'a str,
}

impl Permits<'_> {
    /// Why an object must not be managed; `None` when it may. Each target and
    /// each live object is checked in its own namespace; the key states whether
    /// it has one.
    pub fn denial(&self, key: &ResourceKey, object: &Value) -> Option<Denial> {
        let ResourceKey { group, kind, namespace, .. } = key;
        let namespaced = !namespace.is_empty();
        let name = Name::of(key, object);
        if !permits_kind(self.project, group, kind, name, namespaced) {
            return Some(Denial::Kind);
        }
        let elsewhere =
            namespaced && !permits_destination(self.project, self.server, self.cluster, namespace);
        elsewhere.then_some(Denial::Namespace)
    }
}

/// Whether Applications of a namespace may use the project (SE-004, SE-077).
pub fn permits_application(
    project: &AppProjectSpec,
    namespace: &str,
    control_plane_namespace: &str,
) -> bool {
    namespace == control_plane_namespace
        || allowed(&project.source_namespaces, |denies, pattern| match NamePattern::new(pattern) {
            Ok(pattern) => pattern.matches(namespace),
            Err(_) => denies,
        })
}

/// The invalid patterns, each with its field: what they allow is not permitted,
/// and they deny everything.
pub fn problems(project: &AppProjectSpec) -> Vec<String> {
    let mut problems = Vec::new();
    let mut check = |at: String, pattern: &str| {
        if let Err(error) = Glob::new(pattern) {
            problems.push(format!("{at}: {error}"));
        }
    };
    for (index, pattern) in project.source_repos.iter().enumerate() {
        check(format!("spec.sourceRepos[{index}]"), split(pattern).1);
    }
    for (index, item) in project.destinations.iter().enumerate() {
        let fields =
            [("server", &item.server), ("name", &item.name), ("namespace", &item.namespace)];
        for (field, pattern) in fields {
            check(format!("spec.destinations[{index}].{field}"), split(pattern).1);
        }
    }
    let lists = [
        ("clusterResourceWhitelist", Some(&project.cluster_resource_whitelist)),
        ("clusterResourceBlacklist", Some(&project.cluster_resource_blacklist)),
        ("namespaceResourceWhitelist", project.namespace_resource_whitelist.as_ref()),
        ("namespaceResourceBlacklist", Some(&project.namespace_resource_blacklist)),
    ];
    for (list, items) in lists {
        for (index, item) in items.into_iter().flatten().enumerate() {
            for (field, pattern) in
                [("group", &item.group), ("kind", &item.kind), ("name", &item.name)]
            {
                check(format!("spec.{list}[{index}].{field}"), pattern);
            }
        }
    }
    for (index, pattern) in project.source_namespaces.iter().enumerate() {
        if let Err(error) = NamePattern::new(split(pattern).1) {
            problems.push(format!("spec.sourceNamespaces[{index}]: {error}"));
        }
    }
    problems
}
