//! Discovery: which groups, versions and resources there are; and access reviews.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};

use super::answer::Reply;
use super::errors::ApiError;
use super::kinds::{Kind, Registry};
use super::protobuf;
use super::request::ResourcePath;
use super::stored::to_json;

/// `/version`.
pub(crate) fn version() -> Value {
    json!({
        "major": "1", "minor": "33", "gitVersion": "v1.33.0-embedded", "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

const VERBS: [&str; 8] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// Groups that only answer reviews.
const REVIEWS: &[(&str, &str, &str, bool)] = &[
    ("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview", false),
    ("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview", false),
    ("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview", false),
    ("authorization.k8s.io", "localsubjectaccessreviews", "LocalSubjectAccessReview", true),
    ("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview", false),
];

/// Versions of each group, best first.
fn group_versions(kinds: &Registry) -> BTreeMap<String, Vec<String>> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for kind in kinds.iter() {
        let versions = groups.entry(kind.group.clone()).or_default();
        if !versions.contains(&kind.version) {
            versions.push(kind.version.clone());
        }
    }
    for (group, ..) in REVIEWS {
        groups.insert((*group).to_owned(), vec!["v1".to_owned()]);
    }
    for versions in groups.values_mut() {
        versions.sort_by_key(|v| std::cmp::Reverse(priority(v)));
    }
    groups
}

/// `v2` before `v1` before `v1beta2` before `v1alpha1` before other names.
pub(crate) fn priority(version: &str) -> (u8, u32, u32) {
    let Some(rest) = version.strip_prefix('v') else { return (0, 0, 0) };
    let digits = |text: &str| text.parse::<u32>().ok();
    if let Some(major) = digits(rest) {
        return (3, major, 0);
    }
    for (word, rank) in [("beta", 2), ("alpha", 1)] {
        if let Some((major, minor)) = rest.split_once(word)
            && let (Some(major), Some(minor)) = (digits(major), digits(minor))
        {
            return (rank, major, minor);
        }
    }
    (0, 0, 0)
}

/// Whether the client asks for discovery in one document: in which version, and how the answer says so.
fn aggregated(accept: &str) -> Option<(&'static str, &'static str)> {
    let first = accept.split(',').find(|part| part.contains("as=APIGroupDiscoveryList"))?;
    Some(if first.contains("v=v2beta1") {
        ("v2beta1", "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList")
    } else {
        ("v2", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
    })
}

/// `/api`.
pub(crate) fn legacy(kinds: &Registry, accept: &str) -> Reply {
    match aggregated(accept) {
        Some((version, media)) => {
            Reply::Typed(media, to_json(&all(kinds, version, |group| group.is_empty())).into())
        }
        None => {
            let versions = json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []});
            Reply::value(200, &versions)
        }
    }
}

/// `/apis`.
pub(crate) fn groups(kinds: &Registry, accept: &str) -> Reply {
    if let Some((version, media)) = aggregated(accept) {
        return Reply::Typed(
            media,
            to_json(&all(kinds, version, |group| !group.is_empty())).into(),
        );
    }
    let groups: Vec<Value> = group_versions(kinds)
        .iter()
        .filter(|(group, _)| !group.is_empty())
        .map(|(group, versions)| one_group(group, versions))
        .collect();
    Reply::value(200, &json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
}

/// `/apis/GROUP`.
///
/// # Errors
///
/// `NotFound` for a group that is not served.
pub(crate) fn group(kinds: &Registry, group: &str) -> Result<Value, ApiError> {
    let groups = group_versions(kinds);
    let versions =
        groups.get(group).filter(|_| !group.is_empty()).ok_or_else(ApiError::no_such_path)?;
    let mut value = one_group(group, versions);
    value["kind"] = json!("APIGroup");
    value["apiVersion"] = json!("v1");
    Ok(value)
}

fn one_group(group: &str, versions: &[String]) -> Value {
    let entry = |v: &String| json!({"groupVersion": format!("{group}/{v}"), "version": v});
    let list: Vec<Value> = versions.iter().map(entry).collect();
    json!({"name": group, "preferredVersion": list.first(), "versions": list})
}

/// `/api/v1` and `/apis/GROUP/VERSION`.
///
/// # Errors
///
/// `NotFound` for a version that is not served.
pub(crate) fn resources(kinds: &Registry, group: &str, version: &str) -> Result<Value, ApiError> {
    let mut list = Vec::new();
    for kind in kinds.iter().filter(|k| k.group == group && k.version == version) {
        let mut entry = json!({
            "name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced,
            "kind": kind.kind, "verbs": VERBS,
        });
        if !kind.short_names.is_empty() {
            entry["shortNames"] = json!(kind.short_names);
        }
        if !kind.categories.is_empty() {
            entry["categories"] = json!(kind.categories);
        }
        list.push(entry);
        for (name, sub_kind, sub_group, sub_version) in subresources(kind) {
            let mut entry = json!({
                "name": format!("{}/{name}", kind.plural), "singularName": "", "namespaced": kind.namespaced,
                "kind": sub_kind, "verbs": subresource_verbs(name),
            });
            if !sub_group.is_empty() {
                entry["group"] = json!(sub_group);
                entry["version"] = json!(sub_version);
            }
            list.push(entry);
        }
    }
    for (_, plural, kind, namespaced) in REVIEWS.iter().filter(|r| r.0 == group && version == "v1")
    {
        list.push(json!({"name": plural, "singularName": kind.to_lowercase(), "namespaced": namespaced, "kind": kind, "verbs": ["create"]}));
    }
    if list.is_empty() {
        return Err(ApiError::no_such_path());
    }
    let group_version =
        if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    Ok(
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": list}),
    )
}

fn subresources(kind: &Kind) -> Vec<(&'static str, String, &'static str, &'static str)> {
    let mut out = Vec::new();
    if kind.scale.is_some() {
        out.push(("scale", "Scale".to_owned(), "autoscaling", "v1"));
    }
    if kind.status {
        out.push(("status", kind.kind.clone(), "", ""));
    }
    if kind.is("", "pods") {
        out.push(("eviction", "Eviction".to_owned(), "policy", "v1"));
        out.push(("log", "Pod".to_owned(), "", ""));
    }
    if kind.is("", "serviceaccounts") {
        out.push(("token", "TokenRequest".to_owned(), "authentication.k8s.io", "v1"));
    }
    out
}

fn subresource_verbs(name: &str) -> &'static [&'static str] {
    match name {
        "eviction" | "token" => &["create"],
        "log" => &["get"],
        _ => &["get", "patch", "update"],
    }
}

/// Discovery in one document.
fn all(kinds: &Registry, format: &str, wanted: impl Fn(&str) -> bool) -> Value {
    let mut items = Vec::new();
    for (group, versions) in group_versions(kinds).into_iter().filter(|(g, _)| wanted(g)) {
        let versions: Vec<Value> = versions
            .iter()
            .map(|version| {
                let resources: Vec<Value> = kinds
                    .iter()
                    .filter(|k| k.group == group && k.version == *version)
                    .map(aggregated_resource)
                    .chain(REVIEWS.iter().filter(|r| r.0 == group).map(|(_, plural, kind, namespaced)| {
                        json!({
                            "resource": plural, "scope": if *namespaced { "Namespaced" } else { "Cluster" },
                            "responseKind": {"group": group, "version": "v1", "kind": kind},
                            "singularResource": kind.to_lowercase(), "verbs": ["create"],
                        })
                    }))
                    .collect();
                json!({"version": version, "freshness": "Current", "resources": resources})
            })
            .collect();
        items.push(
            json!({"metadata": {"name": group, "creationTimestamp": null}, "versions": versions}),
        );
    }
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{format}"),
        "metadata": {}, "items": items,
    })
}

fn aggregated_resource(kind: &Arc<Kind>) -> Value {
    let subresources: Vec<Value> = subresources(kind)
        .into_iter()
        .map(|(name, sub_kind, group, version)| {
            let (group, version) =
                if group.is_empty() { (kind.group.as_str(), kind.version.as_str()) } else { (group, version) };
            json!({
                "subresource": name, "responseKind": {"group": group, "version": version, "kind": sub_kind},
                "verbs": subresource_verbs(name),
            })
        })
        .collect();
    let mut entry = json!({
        "resource": kind.plural, "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "singularResource": kind.singular, "verbs": VERBS,
    });
    for (field, value) in [
        ("shortNames", json!(kind.short_names)),
        ("categories", json!(kind.categories)),
        ("subresources", json!(subresources)),
    ] {
        if value.as_array().is_some_and(|l| !l.is_empty()) {
            entry[field] = value;
        }
    }
    entry
}

/// Answers an access review: there is no authorisation here, so all is allowed. A review of the
/// user names `user`.
pub(crate) fn review(
    path: &ResourcePath,
    method: &Method,
    user: &str,
    body: &[u8],
) -> Option<Result<Reply, ApiError>> {
    let found = REVIEWS
        .iter()
        .find(|r| r.0 == path.group && r.1 == path.resource && path.version == "v1")?;
    if *method != Method::POST {
        return Some(Err(ApiError::new(405, "MethodNotAllowed", "reviews can only be created")));
    }
    let mut object = if protobuf::is_protobuf(body) {
        // What is asked does not matter, should it not be understood.
        protobuf::decode(body).unwrap_or_else(|| json!({}))
    } else {
        serde_json::from_slice(body).unwrap_or_default()
    };
    if !object.is_object() {
        return Some(Err(ApiError::bad_request("a review must be a JSON object")));
    }
    object["apiVersion"] = json!(format!("{}/v1", path.group));
    object["kind"] = json!(found.2);
    object["status"] = match path.resource.as_str() {
        "selfsubjectrulesreviews" => json!({
            "incomplete": false, "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        }),
        "selfsubjectreviews" => {
            json!({"userInfo": {"username": user, "groups": ["system:masters", "system:authenticated"]}})
        }
        _ => json!({"allowed": true, "reason": "the embedded API server allows everything"}),
    };
    Some(Ok(Reply::value(201, &object)))
}
