//! Where manifests come from: the `source` of an Application (SE-032 … SE-037).

use std::collections::BTreeMap;

use serde_json::Value;

use super::IntOrString;
use super::lenient::{any_objects, anything};

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
        #[schemars(schema_with = "any_objects")]
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
        #[schemars(schema_with = "any_objects")]
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
        #[schemars(schema_with = "anything")]
        pub dry_source: Value,
        /// Where the rendered ones are read from.
        #[schemars(schema_with = "anything")]
        pub sync_source: Value,
        /// Where the rendered ones are written first.
        #[schemars(schema_with = "anything")]
        pub hydrate_to: Value,
    } and extra
}
