//! The permissions of a project (SE-070 … SE-082).
//!
//! An invalid pattern never permits: in an allow list it matches nothing, in a
//! deny list everything. [`project_problems`] names the field.

pub mod access;
pub mod global_projects;
pub mod impersonation;
pub mod pruned_fields;
pub mod signatures;
pub mod spec;
pub mod unsupported;

use serde_json::Value;

use crate::condition::NewCondition;
use wavegate_api::app_project::{ProjectDestination, ResourcePattern};
use wavegate_api::glob::{self, Glob, NamePattern};
use wavegate_api::repository::RepositoryUrl;
use wavegate_api::{AppProjectSpec, ApplicationSpec, Raw, ResourceKey};
use wavegate_engine::sync::Denial;

/// A pattern of a list, and whether it denies.
fn split(pattern: &str) -> (bool, &str) {
    match pattern.strip_prefix('!') {
        Some(denied) => (true, denied),
        None => (false, pattern),
    }
}

/// Whether a text matches, for a pattern that allows or denies.
fn fits(denies: bool, pattern: &str, text: &str) -> bool {
    if denies {
        glob::glob_denies(pattern, text, None)
    } else {
        glob::glob_allows(pattern, text, None)
    }
}

/// Why a list does not permit something.
enum Refusal {
    /// The entry with this index denies it.
    By(usize),
    /// No entry permits it.
    Unlisted,
}

/// What a list of patterns says; `hits` gets whether the pattern is negated. As in Argo CD, a
/// negated pattern permits everything that it does not hit.
fn refusal<'a>(
    patterns: impl IntoIterator<Item = &'a String>,
    hits: impl Fn(bool, &str) -> bool,
) -> Option<Refusal> {
    let mut permitted = false;
    for (index, pattern) in patterns.into_iter().enumerate() {
        let (negated, pattern) = split(pattern);
        match (negated, hits(negated, pattern)) {
            (true, true) => return Some(Refusal::By(index)),
            (true, false) | (false, true) => permitted = true,
            (false, false) => {}
        }
    }
    (!permitted).then_some(Refusal::Unlisted)
}

/// The rule of a list that refuses, and what would permit it.
fn rule(
    project: &AppProjectSpec,
    refusal: &Refusal,
    list: &str,
    entry: impl Fn(usize) -> String,
    add: &str,
) -> String {
    match refusal {
        Refusal::By(index) => {
            let entry = entry(*index);
            let (index, global) = project.inherited.place(list, *index);
            let of = global.map(|name| format!(" of global project {name}")).unwrap_or_default();
            format!("spec.{list}[{index}]{of} ({entry}) denies it; remove or narrow that entry")
        }
        Refusal::Unlisted => format!("no entry of spec.{list} permits it; add {add}"),
    }
}

/// Whether a pattern of namespaces allows and none denies; `fits` gets whether the pattern
/// denies. A negated pattern permits nothing by itself: Argo CD has no negation here.
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

/// The rule that denies a repository, and what would permit it; `None` when it is permitted
/// (SE-070). The pattern `*` matches all.
///
/// URLs and patterns are compared in the normal form, so that a denied repository is denied
/// in every spelling that Git resolves alike.
pub fn source_rule(project: &AppProjectSpec, repo_url: &str) -> Option<String> {
    rule_of(project, &[repo_url])
}

/// The same, for a repository that can be written in several ways.
fn rule_of(project: &AppProjectSpec, spellings: &[&str]) -> Option<String> {
    let read = spellings.iter().map(|repo_url| {
        let url = RepositoryUrl::of(repo_url);
        ([url.folded(), other_scheme(&url).folded()], as_written(repo_url))
    });
    let read: Vec<([String; 2], String)> = read.collect();
    let refused = refusal(&project.source_repos, |denies, pattern| {
        let matches = if denies { glob::glob_denies } else { glob::glob_allows };
        let own = RepositoryUrl::of_pattern(pattern).folded();
        let pattern_as_written = as_written(pattern);
        let fits = |(places, written): &([String; 2], String)| {
            // A server answers http with a redirect to https.
            let places = if denies { &places[..] } else { &places[..1] };
            places.iter().any(|place| matches(&own, place, Some('/')))
                || matches(&pattern_as_written, written, Some('/'))
        };
        pattern == "*" || read.iter().any(fits)
    })?;
    // Compared as it is: a URL is no pattern.
    let is_reserved = || {
        let mut reserved = project.reserved.repositories.iter();
        reserved.any(|url| {
            let own = RepositoryUrl::of(url).folded();
            read.iter().any(|(places, _)| places[0] == own)
        })
    };
    if matches!(refused, Refusal::Unlisted) && is_reserved() {
        return None;
    }
    let entry = |index: usize| match split(&project.source_repos[index]) {
        (true, url) => format!("!{}", shown(url)),
        (false, url) => shown(url),
    };
    Some(rule(project, &refused, "sourceRepos", entry, "its URL"))
}

/// Whether a glob of a rule about repositories means this one. `denies` is whether the rule
/// forbids or demands something: it then applies to each spelling of the URL. What exempts
/// applies to the normal form only: `https://h/open/../closed` is no repository below `open`.
pub(crate) fn is_meant(glob: &str, repo_url: &str, denies: bool) -> bool {
    let url = RepositoryUrl::of(repo_url);
    let matches = |glob: &str, text: &str| match denies {
        true => glob::glob_denies(glob, text, None),
        false => glob::glob_allows(glob, text, None),
    };
    let own = RepositoryUrl::of_pattern(glob).folded();
    let other = other_scheme(&url).folded();
    glob == "*"
        || matches(&own, &url.folded())
        || (denies && matches(&own, &other))
        || (denies && matches(&as_written(glob), &as_written(repo_url)))
}

fn other_scheme(url: &RepositoryUrl) -> RepositoryUrl {
    let scheme = match url.scheme.as_str() {
        "http" => "https",
        "https" => "http",
        same => same,
    };
    RepositoryUrl { scheme: scheme.to_owned(), ..url.clone() }
}

/// A URL or a pattern as it is compared in Argo CD: without case, `.git` and a slash at
/// the end.
fn as_written(url: &str) -> String {
    let url = url.trim().to_lowercase();
    let url = url.trim_end_matches('/');
    url.strip_suffix(".git").unwrap_or(url).to_owned()
}

/// The rule that denies a cluster and a namespace, and what would permit them; `None` when they
/// may be synced to (SE-071). Without a cluster it is denied.
///
/// As in Argo CD, a negated field matches what it does not hit, so an entry with one permits
/// that. It denies what it hits, where the other fields match; there, empty ones match
/// everything. A negated name denies a cluster whatever the namespace of its entry is.
pub fn destination_rule(
    project: &AppProjectSpec,
    server: &str,
    name: &str,
    namespace: &str,
) -> Option<String> {
    let refused = refused_destination(&project.destinations, [server, name, namespace])?;
    let is_reserved = || {
        let mut reserved = project.reserved.clusters.iter();
        reserved.any(|(own, scope)| {
            own == server.trim_end_matches('/')
                && scope.namespaces.as_ref().is_none_or(|own| own.contains(namespace))
        })
    };
    if matches!(refused, Refusal::Unlisted) && !server.is_empty() && is_reserved() {
        return None;
    }
    let entry = |index: usize| {
        let item = &project.destinations[index];
        let fields =
            [("server", &item.server), ("name", &item.name), ("namespace", &item.namespace)];
        let written = fields.iter().filter(|(_, pattern)| !pattern.is_empty());
        let written: Vec<String> =
            written.map(|(field, pattern)| format!("{field} {pattern}")).collect();
        written.join(", ")
    };
    let cluster =
        if server.is_empty() { format!("name {name}") } else { format!("server {server}") };
    let add = format!("one with {cluster} and namespace {namespace}");
    Some(rule(project, &refused, "destinations", entry, &add))
}

/// What the list of destinations says about a server, a name and a namespace.
fn refused_destination(list: &[ProjectDestination], texts: [&str; 3]) -> Option<Refusal> {
    let [server, name, _] = texts;
    if server.is_empty() && name.is_empty() {
        return Some(Refusal::Unlisted);
    }
    let mut permitted = false;
    for (index, item) in list.iter().enumerate() {
        let patterns = [&item.server, &item.name, &item.namespace].map(|pattern| split(pattern));
        // Whether a field denies the text, and whether it matches.
        let of = |at: usize| {
            let ((negated, pattern), text) = (patterns[at], texts[at]);
            // Without a name or a server there is nothing to match; a namespace may be empty.
            if text.is_empty() && at < 2 {
                return (false, false);
            }
            let hit = negated && fits(true, pattern, text);
            (hit, if negated { !hit } else { fits(false, pattern, text) })
        };
        let (by_server, by_name, by_namespace) = (of(0), of(1), of(2));
        let any_cluster = item.server.is_empty() && item.name.is_empty();
        let (cluster_hit, namespace_hit) = (by_server.0, by_namespace.0);
        let cluster = by_server.1 || by_name.1;
        // As there, a name is denied in every namespace.
        if by_name.0
            || (cluster_hit && (by_namespace.1 || namespace_hit || item.namespace.is_empty()))
            || (namespace_hit && (cluster || any_cluster))
        {
            return Some(Refusal::By(index));
        }
        permitted |= cluster && by_namespace.1;
    }
    (!permitted).then_some(Refusal::Unlisted)
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
                let prefix = object.generate_name();
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
    kind_rule(project, group, kind, name, namespaced).is_none()
}

/// Whether the kind of an object with a name may be managed.
pub fn permits_kind_of_key(project: &AppProjectSpec, key: &ResourceKey) -> bool {
    let ResourceKey { group, kind, namespace, name } = key;
    permits_kind(project, group, kind, Name::Known(name), !namespace.is_empty())
}

/// The rule that denies a resource by its kind, and what would permit it; `None` when it is
/// permitted.
pub fn kind_rule(
    project: &AppProjectSpec,
    group: &str,
    kind: &str,
    name: Name<'_>,
    namespaced: bool,
) -> Option<String> {
    let of_kind = |item: &ResourcePattern, denies: bool| {
        fits(denies, &item.group, group) && fits(denies, &item.kind, kind)
    };
    let allows = |list: &[ResourcePattern]| {
        let of_name = |item: &ResourcePattern| item.name.is_empty() || name.fits(&item.name);
        list.iter().any(|item| of_kind(item, false) && of_name(item))
    };
    let denies = |list: &[ResourcePattern]| {
        let of_name = |item: &ResourcePattern| item.name.is_empty() || name.may_fit(&item.name);
        list.iter().position(|item| of_kind(item, true) && of_name(item))
    };
    let (scope, white, black) = match namespaced {
        false => (
            "cluster",
            Some(project.cluster_resource_whitelist.as_slice()),
            &project.cluster_resource_blacklist,
        ),
        true => (
            "namespace",
            project.namespace_resource_whitelist.as_deref(),
            &project.namespace_resource_blacklist,
        ),
    };
    let (list, refused) = match (white.is_none_or(allows), denies(black)) {
        (_, Some(index)) => ("Blacklist", Refusal::By(index)),
        (false, None) => ("Whitelist", Refusal::Unlisted),
        (true, None) => return None,
    };
    let entry = |index: usize| {
        let ResourcePattern { group, kind, name, .. } = &black[index];
        let of_name = if name.is_empty() { String::new() } else { format!(", name {name}") };
        format!("group '{group}', kind {kind}{of_name}")
    };
    let add = format!("group '{group}', kind {kind}");
    Some(rule(project, &refused, &format!("{scope}Resource{list}"), entry, &add))
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
        if let Some(rule) = self.denies_kind(key, object) {
            return Some(Denial::Kind(rule));
        }
        let namespace = &key.namespace;
        if namespace.is_empty() {
            return None;
        }
        destination_rule(self.project, self.server, self.cluster, namespace).map(Denial::Namespace)
    }

    /// The rule that denies the kind of an object, wherever it is; `None` when it is permitted.
    pub fn denies_kind(&self, key: &ResourceKey, object: &Value) -> Option<String> {
        let ResourceKey { group, kind, namespace, .. } = key;
        let name = Name::of(key, object);
        kind_rule(self.project, group, kind, name, !namespace.is_empty())
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
            Ok(pattern) => pattern.matches_or(namespace, denies),
            Err(_) => denies,
        })
}

/// Why the generators of sets in a namespace must not read the repositories of a project,
/// which would use its credentials (AS-091).
pub fn closed_to(
    project: &AppProjectSpec,
    name: &str,
    namespace: &str,
    control_plane_namespace: &str,
) -> Option<String> {
    (!permits_application(project, namespace, control_plane_namespace)).then(|| {
        format!(
            "spec.template.spec.project: AppProject {name} does not permit Applications of \
             namespace {namespace}, so none of its repositories is read; add the namespace to \
             spec.sourceNamespaces of the project"
        )
    })
}

/// The invalid patterns, each with its field: what they allow is not permitted,
/// and they deny everything.
pub fn project_problems(project: &AppProjectSpec) -> Vec<String> {
    let mut problems = inheritable_problems(project);
    for (index, pattern) in project.source_namespaces.iter().enumerate() {
        if let Err(error) = NamePattern::new(split(pattern).1) {
            problems.push(format!("spec.sourceNamespaces[{index}]: {error}"));
        }
    }
    problems
}

/// The same of the lists that other projects inherit.
pub(crate) fn inheritable_problems(project: &AppProjectSpec) -> Vec<String> {
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
    problems
}

/// The errors of the spec according to the project. `server` and `name` are
/// those of the destination cluster.
pub(crate) fn denials(
    spec: &ApplicationSpec,
    project_name: &str,
    project: &AppProjectSpec,
    server: &str,
    name: &str,
) -> Vec<NewCondition> {
    let sources = spec.sources();
    let urls = sources.iter().map(|source| source.repo_url.as_str());
    let mut denials: Vec<NewCondition> =
        urls.filter_map(|url| denied_source(url, project_name, project)).collect();
    let namespace = &spec.destination.namespace;
    if let Some(rule) = destination_rule(project, server, name, namespace) {
        let cluster = if spec.destination.name.is_empty() { server } else { name };
        denials.push(NewCondition::invalid_spec(format!(
            "application destination server '{cluster}' and namespace '{namespace}' do not match \
             any of the allowed destinations in project '{project_name}': {rule}"
        )));
    }
    denials
}

/// The error of a repository according to the project.
pub fn denied_source(
    url: &str,
    project_name: &str,
    project: &AppProjectSpec,
) -> Option<NewCondition> {
    source_rule(project, url).map(|rule| denied(url, project_name, &rule))
}

/// The error of the repository of a chart's dependency: a registry, `oci://host/path`, is also
/// written `host/path`, as in Argo CD.
pub fn denied_dependency(
    url: &str,
    project_name: &str,
    project: &AppProjectSpec,
) -> Option<NewCondition> {
    let Some(plain) = url.strip_prefix("oci://") else {
        return denied_source(url, project_name, project);
    };
    rule_of(project, &[url, plain]).map(|rule| denied(url, project_name, &rule))
}

fn denied(url: &str, project_name: &str, rule: &str) -> NewCondition {
    let repo = shown(url);
    NewCondition::invalid_spec(format!(
        "application repo {repo} is not permitted in project '{project_name}': {rule}"
    ))
}

/// A URL without user name and password.
pub(crate) fn shown(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            format!("{scheme}://{host}{path}")
        }
        None => url.to_owned(),
    }
}
