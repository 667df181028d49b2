//! The manifests of a run without an Application: where they come from, the name of the
//! run, and the part of the cluster that it reads.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use data_encoding::HEXLOWER;
use futures::future::join_all;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::core::gvk::GroupVersionKind as KubeKind;
use kube::discovery::{Scope, pinned_kind};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::args::SyncArgs;
use crate::cli::console::error::Error;
use crate::cli::files::input;
use wavegate_api::Raw;
use wavegate_api::annotations::sync_wave;
use wavegate_api::kind::GroupVersionKind;
use wavegate_api::path_segment;
use wavegate_api::resource_key::ResourceKey;
use wavegate_cluster::watch::cluster_cache::{ClusterReach, SurveyMode, capabilities_of};
use wavegate_cluster::watch::failure::{error_reason, has_code};
use wavegate_source::{ChartCapabilities, RenderFor, RenderOptions, render_local};

/// Longest value of a label.
const MAX_LABEL: usize = 63;
/// Characters of the digest in the place of the end of a longer value.
const DIGEST: usize = 8;

/// The manifests of a run.
#[derive(Debug)]
pub(super) struct Manifests {
    /// The name of the run.
    pub name: String,
    /// Whether it was given.
    pub named: bool,
    /// The namespace of manifests without one.
    pub namespace: String,
    objects: Vec<Value>,
    /// The API resources of their kinds, and of namespaces; none of a kind that does not exist.
    kinds: BTreeMap<GroupVersionKind, (ApiResource, Scope)>,
}

impl Manifests {
    /// Reads the files of the command line.
    pub async fn read(args: &SyncArgs, namespace: &str, client: &Client) -> Result<Self, Error> {
        let name = match &args.name {
            Some(name) => checked_name(name)?,
            // Folders of one name are common; what one has applied is not of the other.
            None if args.what.prune => {
                let fits = name_of_files(args).unwrap_or_else(|_| "shop".to_owned());
                let why = format!(
                    "it deletes what earlier runs of the same name have applied, so it needs the \
                     name of the run: add --name, such as --name {fits}"
                );
                return Err(Error::input("cannot use", "--prune", why));
            }
            None => name_of_files(args)?,
        };
        if namespace.is_empty() || path_segment::segment_problem(namespace).is_some() {
            let why = "is not a valid name of a namespace";
            return Err(Error::input("cannot use", format!("namespace {namespace}"), why));
        }
        let objects = match rendered(args, &name, namespace, client).await? {
            Some(objects) => objects,
            None => {
                let objects = input::objects(&args.files)?;
                for object in &objects {
                    if let Some(problem) = path_segment::problem_of_object(&object.value) {
                        return Err(Error::input("cannot read", object.place(), problem));
                    }
                }
                objects.into_iter().map(|object| object.value).collect()
            }
        };
        if objects.is_empty() {
            let place = args.files.iter().map(|file| file.display().to_string());
            let place = place.collect::<Vec<_>>().join(", ");
            return Err(Error::input("cannot sync", place, "it contains no Kubernetes object"));
        }
        let named = args.name.is_some();
        let kinds = discovered(client, &objects).await?;
        Ok(Self { name, named, namespace: namespace.to_owned(), objects, kinds })
    }

    /// The name of the run for messages.
    pub fn title(&self) -> String {
        format!("run {} in namespace {}", self.name, self.namespace)
    }

    /// The value of the label of the run: `NAMESPACE.NAME`, shortened if it is too long.
    pub fn instance(&self) -> String {
        let whole = format!("{}.{}", self.namespace, self.name);
        if whole.len() <= MAX_LABEL {
            return whole;
        }
        with_digest(&whole, &whole)
    }

    /// The manifests as one YAML file.
    pub fn text(&self) -> String {
        self.objects.iter().map(|object| format!("---\n{object}\n")).collect()
    }

    /// The manifests.
    pub fn objects(&self) -> &[Value] {
        &self.objects
    }

    /// The waves of the manifests, for the progress.
    pub fn waves(&self) -> BTreeMap<ResourceKey, i64> {
        let of_cluster =
            |object: &Value| matches!(self.resource_of(object), Some((_, Scope::Cluster)));
        let wave = |object: &Value| {
            let mut key = ResourceKey::from_object(object)?;
            if key.namespace.is_empty() && !of_cluster(object) {
                key.namespace.clone_from(&self.namespace);
            }
            Some((key, sync_wave(object)))
        };
        self.objects.iter().filter_map(wave).collect()
    }

    /// The API resource of a manifest and its scope; `None` when its kind does not exist.
    pub fn resource_of(&self, manifest: &Value) -> Option<&(ApiResource, Scope)> {
        self.kinds.get(&GroupVersionKind::of(manifest))
    }

    /// The part of the cluster that is read: all of it, or only the namespaces that the
    /// manifests name, for a user who may not list their kinds in the whole cluster.
    pub async fn reach(&self, client: &Client, survey: SurveyMode) -> Result<ClusterReach, Error> {
        let kinds = self.kinds.values();
        let listed = join_all(kinds.map(|(kind, scope)| may_list(client, kind, scope))).await;
        let mut whole = true;
        for may_list in listed {
            whole &= may_list?;
        }
        if whole {
            return Ok(ClusterReach { survey, ..ClusterReach::default() });
        }
        let named = self.objects.iter().map(|object| object.namespace());
        let mut namespaces: BTreeSet<String> =
            named.filter(|namespace| !namespace.is_empty()).map(str::to_owned).collect();
        namespaces.insert(self.namespace.clone());
        Ok(ClusterReach { namespaces: Some(namespaces), survey, ..ClusterReach::default() })
    }
}

/// Whether a kind may be listed in the whole cluster.
async fn may_list(client: &Client, kind: &ApiResource, scope: &Scope) -> Result<bool, Error> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), kind);
    match api.list_metadata(&ListParams::default().limit(1)).await {
        Ok(_) => Ok(true),
        // The error of the list that is needed names the kind.
        Err(error) if has_code(&error, 403) => {
            Ok(*scope == Scope::Cluster && kind.kind != "Namespace")
        }
        // Not listable, or not any more.
        Err(error) if has_code(&error, 404) || has_code(&error, 405) => Ok(true),
        Err(error) => Err(unread(&kind.kind, &kind.group, &error)),
    }
}

/// The API resources of the kinds of objects, and of namespaces.
async fn discovered(
    client: &Client,
    objects: &[Value],
) -> Result<BTreeMap<GroupVersionKind, (ApiResource, Scope)>, Error> {
    let mut kinds: BTreeSet<GroupVersionKind> = objects.iter().map(GroupVersionKind::of).collect();
    kinds.insert(GroupVersionKind::new("", "v1", "Namespace"));
    let find = async |kind: GroupVersionKind| {
        let GroupVersionKind { group, version, kind: name } = &kind;
        match pinned_kind(client, &KubeKind::gvk(group, version, name)).await {
            Ok((resource, capabilities)) => Ok(Some((kind, (resource, capabilities.scope)))),
            Err(error) if has_code(&error, 404) => Ok(None),
            Err(kube::Error::Discovery(_)) => Ok(None),
            Err(error) => Err(unread(name, group, &error)),
        }
    };
    let found: Result<Vec<_>, Error> =
        join_all(kinds.into_iter().map(find)).await.into_iter().collect();
    Ok(found?.into_iter().flatten().collect())
}

fn unread(kind: &str, group: &str, error: &kube::Error) -> Error {
    let place = format!("kind {kind} of group '{group}'");
    Error::input("cannot read from the cluster", place, error_reason(error))
}

/// The manifests of a kustomization or a chart; a chart is rendered for the cluster.
async fn rendered(
    args: &SyncArgs,
    name: &str,
    namespace: &str,
    client: &Client,
) -> Result<Option<Vec<Value>>, Error> {
    let [path] = args.files.as_slice() else { return Ok(None) };
    if !path.is_dir() {
        return Ok(None);
    }
    let cluster = if path.join("Chart.yaml").exists() {
        let found = capabilities_of(client).await.map_err(|error| {
            Error::input(
                "cannot read from the cluster",
                "its version and kinds",
                error_reason(&error),
            )
        })?;
        let (kube_version, api_versions) = (found.version, found.api_versions);
        Some(ChartCapabilities { kube_version, api_versions })
    } else {
        None
    };
    let subject = RenderFor {
        application: name.to_owned(),
        namespace: namespace.to_owned(),
        cluster,
        ..RenderFor::default()
    };
    let manifests = render_local(path, &subject, &RenderOptions::default()).await;
    let manifests = manifests
        .map_err(|error| Error::input("cannot render", path.display().to_string(), error))?;
    Ok(manifests.map(|all| all.into_iter().map(|manifest| manifest.object).collect()))
}

/// The name of a run: that of the only folder or file.
fn name_of_files(args: &SyncArgs) -> Result<String, Error> {
    let missing = |why: &str| {
        let why = format!("{why}; name the run with --name");
        Error::input("cannot sync", "--name", why)
    };
    let [path] = args.files.as_slice() else {
        return Err(missing("several files have no common name"));
    };
    if path.as_os_str() == "-" {
        return Err(missing("standard input has no name"));
    }
    // The folder of a relative path such as `.`; a missing one is reported when it is read.
    let whole = std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
    let name = if whole.is_dir() { whole.file_name() } else { whole.file_stem() };
    let name = name.and_then(|name| name.to_str()).unwrap_or_default();
    let valid = valid_name(name);
    if valid.is_empty() {
        return Err(missing(&format!("{} gives no valid name", Path::new(path).display())));
    }
    // Two names that differ must not become the same one.
    Ok(if valid == name { valid } else { with_digest(&valid, name) })
}

/// A text that is not too long for a label, with a digest of `of` at its end.
fn with_digest(text: &str, of: &str) -> String {
    let digest = Sha256::digest(of.as_bytes());
    let digest = HEXLOWER.encode(&digest);
    let kept: String = text.chars().take(MAX_LABEL - DIGEST - 1).collect();
    format!("{}-{}", kept.trim_end_matches(['-', '.']), &digest[..DIGEST])
}

/// The nearest valid name: lower-case letters, digits and `-`.
fn valid_name(text: &str) -> String {
    let valid = |c: char| match c.to_ascii_lowercase() {
        c if c.is_ascii_alphanumeric() => c,
        _ => '-',
    };
    let name: String = text.chars().take(MAX_LABEL).map(valid).collect();
    name.trim_matches('-').to_owned()
}

fn checked_name(name: &str) -> Result<String, Error> {
    let valid = valid_name(name);
    if valid == name && !name.is_empty() {
        return Ok(valid);
    }
    let example = if valid.is_empty() { "shop".to_owned() } else { valid };
    let why = format!(
        "must have at most {MAX_LABEL} lower-case letters, digits and '-', such as {example}"
    );
    Err(Error::input("cannot use", format!("--name {name}"), why))
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Manifests {
        /// A run without manifests.
        pub(in crate::cli::sync) fn none(namespace: &str, name: &str) -> Self {
            let [namespace, name] = [namespace, name].map(str::to_owned);
            let kinds = BTreeMap::new();
            Self { name, named: true, namespace, objects: Vec::new(), kinds }
        }
    }

    #[test]
    fn a_run_has_a_label_of_its_own() {
        assert_eq!(Manifests::none("shop", "web").instance(), "shop.web");
        let long = "n".repeat(63);
        let one = Manifests::none(&long, "a").instance();
        let other = Manifests::none(&long, "b").instance();
        assert_eq!((one.len(), other.len()), (63, 63));
        assert_ne!(one, other);
        assert!(one.ends_with(|c: char| c.is_ascii_alphanumeric()));
    }

    #[test]
    fn names_that_differ_stay_different() {
        let one = with_digest(&valid_name("My_App"), "My_App");
        let other = with_digest(&valid_name("my.app"), "my.app");
        assert!(one.starts_with("my-app-") && other.starts_with("my-app-") && one != other);
        assert_eq!(valid_name(&one), one);
    }

    #[test]
    fn names_of_folders_become_valid_names() {
        let cases = [("My_App", "my-app"), ("web", "web"), ("..", ""), ("-a.b-", "a-b"), ("ü", "")];
        for (folder, want) in cases {
            assert_eq!(valid_name(folder), want, "{folder}");
        }
        let error = checked_name("My App").unwrap_err().to_string();
        assert!(error.contains("such as my-app"), "{error}");
    }
}
