//! What a project permits (SE-070 … SE-082).

use super::glob::matches;
use crate::api::AppProjectSpec;
use crate::api::app_project::ResourcePattern;

/// Whether some pattern allows and none denies.
fn allowed<'a>(patterns: impl IntoIterator<Item = &'a str>, fits: impl Fn(&str) -> bool) -> bool {
    let mut any = false;
    for pattern in patterns {
        match pattern.strip_prefix('!') {
            Some(denied) if fits(denied) => return false,
            Some(_) => {}
            None => any |= fits(pattern),
        }
    }
    any
}

/// Whether a repository may be used (SE-070).
pub fn permits_source(project: &AppProjectSpec, repo_url: &str) -> bool {
    let url = normalized(repo_url);
    let fits = |pattern: &str| pattern == "*" || matches(&normalized(pattern), &url, Some('/'));
    allowed(project.source_repos.iter().map(String::as_str), fits)
}

/// The same repository is written in many ways: case, `.git` and a slash at
/// the end do not count.
fn normalized(url: &str) -> String {
    let url = url.trim().to_lowercase();
    let url = url.trim_end_matches('/');
    url.strip_suffix(".git").unwrap_or(url).to_owned()
}

/// Whether a cluster and a namespace may be synced to (SE-071). Without a
/// cluster it may not.
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
        let fit = |pattern: &str, text: &str| {
            let (denies, pattern) = match pattern.strip_prefix('!') {
                Some(pattern) => (true, pattern),
                None => (false, pattern),
            };
            (denies, !pattern.is_empty() && !text.is_empty() && matches(pattern, text, None))
        };
        let (no_server, by_server) = fit(&item.server, server);
        let (no_name, by_name) = fit(&item.name, name);
        let (no_namespace, by_namespace) = match item.namespace.strip_prefix('!') {
            Some(pattern) => (true, matches(pattern, namespace, None)),
            None => (false, matches(&item.namespace, namespace, None)),
        };
        let cluster = by_server || by_name;
        if no_server || no_name || no_namespace {
            // A denial holds where all of it fits; its other half may be plain.
            if cluster && by_namespace {
                return false;
            }
        } else {
            any |= cluster && by_namespace;
        }
    }
    any
}

/// Whether a resource may be managed at all, by its kind (SE-072 … SE-075).
pub fn permits_kind(
    project: &AppProjectSpec,
    group: &str,
    kind: &str,
    name: &str,
    namespaced: bool,
) -> bool {
    let any = |list: &[ResourcePattern]| {
        list.iter().any(|item| {
            matches(&item.group, group, None)
                && matches(&item.kind, kind, None)
                && (item.name.is_empty() || matches(&item.name, name, None))
        })
    };
    if !namespaced {
        return any(&project.cluster_resource_whitelist)
            && !any(&project.cluster_resource_blacklist);
    }
    let white = project.namespace_resource_whitelist.as_deref();
    white.is_none_or(any) && !any(&project.namespace_resource_blacklist)
}

/// Whether Applications of a namespace may use the project (SE-004, SE-077).
pub fn permits_application(
    project: &AppProjectSpec,
    namespace: &str,
    control_plane_namespace: &str,
) -> bool {
    namespace == control_plane_namespace
        || allowed(project.source_namespaces.iter().map(String::as_str), |pattern| {
            matches(pattern, namespace, None)
        })
}
