//! Where manifests come from: the `source` of an Application (SE-032 … SE-037).

use std::collections::BTreeMap;

use serde_json::Value;

use super::IntOrString;
use super::time::Time;

lenient! {
    /// A repository, a place in it, and how manifests are made from what is there.
    pub struct ApplicationSource {
        /// URL of the Git or Helm repository.
        #[serde(rename = "repoURL")]
        pub repo_url: String,
        /// Directory in the Git repository. Exclusive with `chart`.
        pub path: String,
        /// Branch, tag, commit or semver range; empty is HEAD. For a chart, its version.
        pub target_revision: String,
        /// Name of the chart in a Helm repository. Needs `targetRevision`.
        pub chart: String,
        /// Name under which other sources refer to this one, as in `$ref/values.yaml`.
        #[serde(rename = "ref")]
        pub reference: String,
        /// Name for display.
        pub name: String,
        /// Only tags with this prefix count when a semver range is resolved.
        pub tag_prefix: String,
        /// The directory holds plain manifests; says which files count.
        pub directory: Option<DirectorySource>,
        /// The directory or chart is rendered with Helm.
        pub helm: Option<HelmSource>,
        /// The directory is rendered with kustomize.
        pub kustomize: Option<KustomizeSource>,
        /// The directory is rendered by a plugin.
        pub plugin: Option<PluginSource>,
    } and extra

    /// Plain manifests: which files of the directory count (SE-036).
    pub struct DirectorySource {
        /// Also read sub-directories.
        pub recurse: bool,
        /// Glob of the paths to read; empty reads all. `*` crosses `/`.
        pub include: String,
        /// Glob of the paths to leave out; stronger than `include`.
        pub exclude: String,
        /// Read every file that passes the globs, whatever its extension.
        pub disable_extension_filter: bool,
        /// Settings for Jsonnet files.
        pub jsonnet: Option<JsonnetOptions>,
    } and extra

    /// Settings for Jsonnet files.
    pub struct JsonnetOptions {
        /// External variables.
        pub ext_vars: Vec<JsonnetVariable>,
        /// Top-level arguments.
        pub tlas: Vec<JsonnetVariable>,
        /// Library search directories.
        pub libs: Vec<String>,
    } and extra

    /// A value handed to Jsonnet.
    pub struct JsonnetVariable {
        /// Its name.
        pub name: String,
        /// Its text.
        pub value: String,
        /// Whether the text is Jsonnet code rather than a string.
        pub code: bool,
    }

    /// Settings for Helm.
    pub struct HelmSource {
        /// Values files, read in this order.
        pub value_files: Vec<String>,
        /// Values as YAML text, stronger than the files.
        pub values: String,
        /// Values as an object, stronger than `values`.
        #[schemars(schema_with = "super::lenient::any_object")]
        pub values_object: Option<Value>,
        /// Single values, as with `--set`.
        pub parameters: Vec<HelmParameter>,
        /// Single values read from files, as with `--set-file`.
        pub file_parameters: Vec<HelmFileParameter>,
        /// Name of the release; the Application's name when empty.
        pub release_name: String,
        /// Helm version to use.
        pub version: String,
        /// Hand repository credentials on to all domains.
        pub pass_credentials: bool,
        /// A values file that does not exist is no error.
        pub ignore_missing_value_files: bool,
        /// Leave out the chart's `crds` directory.
        pub skip_crds: bool,
        /// Leave out test hooks.
        pub skip_tests: bool,
        /// Do not check values against the chart's schema.
        pub skip_schema_validation: bool,
        /// Namespace handed to the templates.
        pub namespace: String,
        /// Kubernetes version that the templates see.
        pub kube_version: String,
        /// API versions that the templates see.
        pub api_versions: Vec<String>,
    } and extra

    /// A single Helm value.
    pub struct HelmParameter {
        /// Path of the value, dots between keys.
        pub name: String,
        /// The value.
        pub value: String,
        /// Take the value for a string even when it looks like something else.
        pub force_string: bool,
    }

    /// A Helm value read from a file.
    pub struct HelmFileParameter {
        /// Path of the value, dots between keys.
        pub name: String,
        /// File to read.
        pub path: String,
    }

    /// Settings for kustomize.
    pub struct KustomizeSource {
        /// Put before every name.
        pub name_prefix: String,
        /// Put after every name.
        pub name_suffix: String,
        /// Image overrides, such as `name=registry/name:tag`.
        pub images: Vec<String>,
        /// Labels for every resource.
        pub common_labels: BTreeMap<String, String>,
        /// Annotations for every resource.
        pub common_annotations: BTreeMap<String, String>,
        /// Substitute build variables in the annotations' values.
        pub common_annotations_envsubst: bool,
        /// Overwrite labels that the resources already have.
        pub force_common_labels: bool,
        /// Overwrite annotations that the resources already have.
        pub force_common_annotations: bool,
        /// Keep the labels out of selectors.
        pub label_without_selector: bool,
        /// With the former: add the labels to pod templates all the same.
        pub label_include_templates: bool,
        /// Namespace for every resource.
        pub namespace: String,
        /// Replica overrides.
        pub replicas: Vec<KustomizeReplicas>,
        /// Patches.
        #[schemars(with = "Vec<KustomizePatch>")]
        pub patches: Vec<Value>,
        /// Components to include.
        pub components: Vec<String>,
        /// A component that does not exist is no error.
        pub ignore_missing_components: bool,
        /// Kustomize version to use.
        pub version: String,
        /// Kubernetes version that charts see.
        pub kube_version: String,
        /// API versions that charts see.
        pub api_versions: Vec<String>,
    } and extra

    /// A replica override.
    pub struct KustomizeReplicas {
        /// Name of the Deployment or StatefulSet.
        pub name: String,
        /// How many replicas.
        pub count: IntOrString,
    }

    /// Settings for a plugin.
    pub struct PluginSource {
        /// Name of the plugin; empty lets plugins be discovered.
        pub name: String,
        /// Environment of the plugin.
        pub env: Vec<NameValue>,
        /// Parameters of the plugin; each has a name and a string, array or map.
        #[schemars(with = "Vec<PluginParameter>")]
        pub parameters: Vec<Value>,
    } and extra

    /// A name and a value.
    pub struct NameValue {
        /// The name.
        pub name: String,
        /// The value.
        pub value: String,
    }

    /// Manifests that are rendered on one branch and synced from another.
    /// Kept, not acted upon (SE-029).
    pub struct SourceHydrator {
        /// Where the unrendered manifests are.
        #[schemars(with = "Option<DrySource>")]
        pub dry_source: Value,
        /// Where the rendered ones are read from.
        #[schemars(with = "Option<SyncSource>")]
        pub sync_source: Value,
        /// Where the rendered ones are written first.
        #[schemars(with = "Option<HydrateTo>")]
        pub hydrate_to: Value,
    } and extra

    /// Where the unrendered manifests are.
    pub struct DrySource {
        /// URL of the Git repository.
        #[serde(rename = "repoURL")]
        pub repo_url: String,
        /// Branch, tag or commit.
        pub target_revision: String,
        /// Directory in the repository.
        pub path: String,
        /// Settings for Helm.
        pub helm: Option<HelmSource>,
        /// Settings for kustomize.
        pub kustomize: Option<KustomizeSource>,
        /// Which files of the directory count.
        pub directory: Option<DirectorySource>,
        /// Settings for a plugin.
        pub plugin: Option<PluginSource>,
    }

    /// Where the rendered manifests are.
    pub struct SyncSource {
        /// URL of the Git repository; that of the unrendered ones when empty.
        #[serde(rename = "repoURL")]
        pub repo_url: String,
        /// Branch to read.
        pub target_branch: String,
        /// Directory in the repository.
        pub path: String,
    }

    /// Where the rendered manifests are written first.
    pub struct HydrateTo {
        /// Branch to write.
        pub target_branch: String,
    }

    /// What the peer's hydrator found and did; kept, not used here.
    pub struct SourceHydratorStatus {
        /// The last hydration that succeeded.
        pub last_successful_operation: Option<SuccessfulHydration>,
        /// The hydration under way, or the last one.
        pub current_operation: Option<Hydration>,
        /// Revision of the unrendered manifests that was compared last.
        pub last_compared_dry_revision: String,
    }

    /// A hydration that succeeded.
    pub struct SuccessfulHydration {
        /// Revision of the unrendered manifests.
        #[serde(rename = "drySHA")]
        pub dry_sha: String,
        /// Revision of the rendered ones.
        #[serde(rename = "hydratedSHA")]
        pub hydrated_sha: String,
        /// The settings that were used.
        pub source_hydrator: Option<SourceHydrator>,
    }

    /// A hydration.
    pub struct Hydration {
        /// When it started.
        pub started_at: Option<Time>,
        /// When it ended.
        pub finished_at: Option<Time>,
        /// How far it is.
        pub phase: String,
        /// What it waits for, or how it ended.
        pub message: String,
        /// Revision of the unrendered manifests.
        #[serde(rename = "drySHA")]
        pub dry_sha: String,
        /// Revision of the rendered ones.
        #[serde(rename = "hydratedSHA")]
        pub hydrated_sha: String,
        /// The settings that were used.
        pub source_hydrator: Option<SourceHydrator>,
    }

    /// A kustomize patch.
    pub struct KustomizePatch {
        /// File with the patch.
        pub path: String,
        /// The patch itself.
        pub patch: String,
        /// Resources to patch.
        pub target: Option<KustomizeTarget>,
        /// Options of kustomize, such as `allowNameChange`.
        pub options: BTreeMap<String, bool>,
    }

    /// Resources to patch; each field that is not empty must match.
    pub struct KustomizeTarget {
        /// API group.
        pub group: String,
        /// API version within the group.
        pub version: String,
        /// Kind.
        pub kind: String,
        /// Regular expression of the name.
        pub name: String,
        /// Regular expression of the namespace.
        pub namespace: String,
        /// Selects by annotations.
        pub annotation_selector: String,
        /// Selects by labels.
        pub label_selector: String,
    }

    /// A parameter of a plugin: a string, an array or a map.
    pub struct PluginParameter {
        /// Its name.
        pub name: String,
        /// Its value, when it is a string.
        pub string: Option<String>,
        /// Its values, when it is an array.
        pub array: Vec<String>,
        /// Its values, when it is a map.
        pub map: BTreeMap<String, String>,
    }
}
