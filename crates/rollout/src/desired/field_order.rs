//! The order in which the strings of templates and generators are rendered.
//!
//! A Go template can change its parameters, and the strings after it see the change. Argo CD
//! renders the fields of a struct in the order in which its type has them, and the entries of a
//! map in any order; here these are in the order of their names.

use serde_json::{Map, Value};

/// The fields of an object with the name `name`, in the order in which they are rendered.
pub fn ordered_fields<'a>(
    name: &str,
    object: &'a Map<String, Value>,
) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let first = first_fields(name);
    let known = first.iter().filter_map(|field| object.get_key_value(*field));
    let others = object.iter().filter(|(key, _)| !first.contains(&key.as_str()));
    known.chain(others).map(|(key, value)| (key.as_str(), value))
}

/// The fields that come before those in the order of their names.
///
/// Types are known by the name of the field alone: those that share one have no field whose place
/// differs, and the names of fields in maps of any content decide nothing that Argo CD decides.
fn first_fields(name: &str) -> &'static [&'static str] {
    match name {
        "metadata" => &["name", "namespace", "labels", "annotations", "finalizers"],
        "spec" => &[
            "source",
            "destination",
            "project",
            "syncPolicy",
            "ignoreDifferences",
            "info",
            "sources",
            "sourceHydrator",
        ],
        "source" | "sources" => &[
            "repoURL",
            "path",
            "targetRevision",
            "helm",
            "kustomize",
            "directory",
            "plugin",
            "chart",
            "ref",
            "name",
        ],
        "sourceHydrator" => &["drySource", "syncSource", "hydrateTo"],
        "drySource" => {
            &["repoURL", "targetRevision", "path", "helm", "kustomize", "directory", "plugin"]
        }
        "syncSource" => &["targetBranch", "path", "repoURL"],
        "helm" => &[
            "valueFiles",
            "parameters",
            "releaseName",
            "values",
            "fileParameters",
            "version",
            "valuesObject",
            "namespace",
            "kubeVersion",
            "apiVersions",
        ],
        "kustomize" => &[
            "namePrefix",
            "nameSuffix",
            "images",
            "commonLabels",
            "version",
            "commonAnnotations",
            "namespace",
            "replicas",
            "patches",
            "components",
            "kubeVersion",
            "apiVersions",
        ],
        "patches" => &["path", "patch", "target"],
        "target" => &["group", "version", "kind", "name", "namespace"],
        "directory" => &["jsonnet", "exclude", "include"],
        "jsonnet" => &["extVars", "tlas", "libs"],
        // Of a source, and of a generator.
        "plugin" => &["name", "env", "parameters", "configMapRef", "input", "template", "values"],
        "parameters" => &["name", "value", "string", "map", "array"],
        "destination" => &["server", "namespace", "name"],
        "syncPolicy" => &["automated", "syncOptions", "retry", "managedNamespaceMetadata"],
        "managedNamespaceMetadata" => &["labels", "annotations"],
        "ignoreDifferences" => {
            &["group", "kind", "name", "namespace", "jsonPointers", "jqPathExpressions"]
        }
        "list" => &["elements", "template", "elementsYaml"],
        "clusters" => &["selector", "template", "values"],
        "clusterDecisionResource" => {
            &["configMapRef", "name", "labelSelector", "template", "values"]
        }
        "selector" | "labelSelector" => &["matchLabels", "matchExpressions"],
        "git" => &["repoURL", "directories", "files", "revision", "template", "pathParamPrefix"],
        "scmProvider" => &[
            "github",
            "gitlab",
            "bitbucket",
            "bitbucketServer",
            "gitea",
            "azureDevOps",
            "filters",
            "cloneProtocol",
            "template",
            "values",
            "awsCodeCommit",
        ],
        "pullRequest" => &[
            "github",
            "gitlab",
            "gitea",
            "bitbucketServer",
            "filters",
            "template",
            "bitbucket",
            "azuredevops",
            "values",
        ],
        // Of both of these generators: of a repository, and of a list of them.
        "github" | "gitea" => {
            &["organization", "owner", "repo", "api", "tokenRef", "appSecretName", "labels"]
        }
        "gitlab" => {
            &["group", "project", "api", "tokenRef", "topic", "labels", "pullRequestState", "caRef"]
        }
        "bitbucket" => &["owner", "user", "repo", "api", "appPasswordRef", "basicAuth"],
        "bitbucketServer" => &["project", "repo", "api", "basicAuth", "bearerToken", "caRef"],
        "azureDevOps" => &["organization", "api", "teamProject", "accessTokenRef"],
        "azuredevops" => &["organization", "project", "repo", "api", "tokenRef", "labels"],
        "awsCodeCommit" => &["tagFilters", "role", "region"],
        "tokenRef" | "appPasswordRef" | "accessTokenRef" | "passwordRef" => &["secretName", "key"],
        "basicAuth" => &["username", "passwordRef"],
        "caRef" => &["configMapName", "key"],
        "filters" => &[
            "repositoryMatch",
            "pathsExist",
            "pathsDoNotExist",
            "labelMatch",
            "branchMatch",
            "targetBranchMatch",
            "titleMatch",
        ],
        "matchExpressions" => &["key", "operator", "values"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value};

    use super::ordered_fields;

    fn order(name: &str, fields: &[&str]) -> Vec<String> {
        let object: Map<String, Value> =
            fields.iter().map(|field| ((*field).to_owned(), Value::Null)).collect();
        ordered_fields(name, &object).map(|(field, _)| field.to_owned()).collect()
    }

    /// Fields of a struct in the order of its type, all others in that of their names.
    #[test]
    fn fields_are_rendered_in_the_order_of_their_types() {
        let types: [(&str, &[&str]); 37] = [
            ("metadata", &["name", "labels", "annotations", "finalizers"]),
            ("spec", &["source", "destination", "project", "info", "sources"]),
            ("source", &["repoURL", "path", "helm", "chart"]),
            ("sources", &["targetRevision", "kustomize", "directory", "ref", "name"]),
            ("sourceHydrator", &["syncSource", "hydrateTo"]),
            ("drySource", &["targetRevision", "path"]),
            ("syncSource", &["targetBranch", "path"]),
            ("helm", &["valueFiles", "releaseName", "fileParameters", "apiVersions"]),
            ("kustomize", &["nameSuffix", "images", "version", "commonAnnotations"]),
            ("patches", &["path", "patch", "target", "options"]),
            ("target", &["version", "kind", "name"]),
            ("directory", &["jsonnet", "exclude"]),
            ("jsonnet", &["tlas", "libs"]),
            ("plugin", &["name", "env", "parameters", "configMapRef"]),
            ("parameters", &["value", "string", "map", "array"]),
            ("destination", &["server", "namespace", "name"]),
            ("syncPolicy", &["syncOptions", "retry", "managedNamespaceMetadata"]),
            ("managedNamespaceMetadata", &["labels", "annotations"]),
            ("ignoreDifferences", &["group", "kind", "jsonPointers", "jqPathExpressions"]),
            ("list", &["template", "elementsYaml"]),
            ("clusters", &["selector", "template", "values", "flatList"]),
            ("clusterDecisionResource", &["name", "labelSelector"]),
            ("selector", &["matchLabels", "matchExpressions"]),
            ("labelSelector", &["matchLabels", "matchExpressions"]),
            ("git", &["repoURL", "directories", "revision", "pathParamPrefix"]),
            ("scmProvider", &["github", "bitbucket", "azureDevOps", "awsCodeCommit"]),
            ("pullRequest", &["gitlab", "bitbucketServer", "azuredevops"]),
            ("github", &["repo", "api"]),
            ("gitea", &["owner", "api", "labels"]),
            ("gitlab", &["group", "api", "topic", "labels", "caRef"]),
            ("bitbucket", &["user", "repo", "api", "appPasswordRef"]),
            ("bitbucketServer", &["project", "api", "basicAuth"]),
            ("azureDevOps", &["organization", "api", "teamProject", "accessTokenRef"]),
            ("azuredevops", &["project", "api", "labels"]),
            ("awsCodeCommit", &["tagFilters", "role", "region"]),
            ("filters", &["repositoryMatch", "pathsExist", "labelMatch", "branchMatch"]),
            ("matchExpressions", &["key", "operator", "values", "a"]),
        ];
        for (name, want) in types {
            assert_eq!(order(name, want), want, "{name}");
            let mut by_name = want.to_vec();
            by_name.sort_unstable();
            assert_ne!(by_name, want, "{name} shows nothing");
        }
        for name in ["tokenRef", "appPasswordRef", "accessTokenRef", "passwordRef"] {
            assert_eq!(order(name, &["key", "secretName"]), ["secretName", "key"], "{name}");
        }
        assert_eq!(order("basicAuth", &["passwordRef", "username"]), ["username", "passwordRef"]);
        assert_eq!(order("caRef", &["a", "key"]), ["key", "a"]);
        assert_eq!(order("other", &["b", "a"]), ["a", "b"]);
        assert_eq!(order("metadata", &["z", "labels", "a", "name"]), ["name", "labels", "a", "z"]);
    }
}
