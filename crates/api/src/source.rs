//! Sources of manifests: the `source` of an Application (SE-032 … SE-037).

use std::collections::BTreeMap;

use serde_json::Value;

use super::IntOrString;
use super::time::Time;

lenient! {
    /// A repository, a path or chart in it, and how its manifests are rendered.
    pub struct ApplicationSource {
        /// URL of the Git or Helm repository.
        #[serde(rename = "repoURL")]
        pub repo_url: String,
        /// Directory in the Git repository. Exclusive with `chart`.
        pub path: String,
        /// Branch, tag, commit or semver range; empty is HEAD. For a chart, its version.
        pub target_revision: String,
        /// Name of the chart in a Helm repository. Requires `targetRevision`.
        pub chart: String,
        /// Name by which other sources refer to this one, as in `$ref/values.yaml`.
        #[serde(rename = "ref")]
        pub reference: String,
        /// Display name.
        pub name: String,
        /// Prefix of the tags that a semver range selects from.
        pub tag_prefix: String,
        /// Settings for a directory of plain manifests.
        pub directory: Option<DirectorySource>,
        /// Settings for rendering with Helm.
        pub helm: Option<HelmSource>,
        /// Settings for rendering with Kustomize.
        pub kustomize: Option<KustomizeSource>,
        /// Settings for rendering with a plugin.
        pub plugin: Option<PluginSource>,
    } and extra

    /// Settings for a directory of plain manifests (SE-036).
    pub struct DirectorySource {
        /// Also read sub-directories.
        pub recurse: bool,
        /// Glob of the files to include; all when empty. `*` also matches `/`.
        pub include: String,
        /// Glob of the files to exclude; takes precedence over `include`.
        pub exclude: String,
        /// Read every file that matches the globs, whatever its extension.
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

    /// A variable or argument of Jsonnet.
    pub struct JsonnetVariable {
        /// Name of the variable.
        pub name: String,
        /// Value of the variable.
        pub value: String,
        /// Whether the value is Jsonnet code instead of a string.
        pub code: bool,
    }

    /// Settings for Helm.
    pub struct HelmSource {
        /// Values files, merged in this order.
        pub value_files: Vec<String>,
        /// Values as YAML text; take precedence over the files.
        pub values: String,
        /// Values as an object; take precedence over `values`.
        #[schemars(schema_with = "super::lenient::any_object")]
        pub values_object: Option<Value>,
        /// Single values, as with `--set`.
        pub parameters: Vec<HelmParameter>,
        /// Single values read from files, as with `--set-file`.
        pub file_parameters: Vec<HelmFileParameter>,
        /// Release name; the Application's name when empty.
        pub release_name: String,
        /// Helm version to use.
        pub version: String,
        /// Pass repository credentials to all domains.
        pub pass_credentials: bool,
        /// Ignore values files that do not exist.
        pub ignore_missing_value_files: bool,
        /// Skip the chart's `crds` directory.
        pub skip_crds: bool,
        /// Skip test hooks.
        pub skip_tests: bool,
        /// Skip the validation of values against the chart's schema.
        pub skip_schema_validation: bool,
        /// Namespace that is passed to the templates.
        pub namespace: String,
        /// Kubernetes version that is passed to the templates.
        pub kube_version: String,
        /// API versions that are passed to the templates.
        pub api_versions: Vec<String>,
    } and extra

    /// A single Helm value.
    pub struct HelmParameter {
        /// Path of the value, with dots between keys.
        pub name: String,
        /// The value.
        pub value: String,
        /// Treat the value as a string.
        pub force_string: bool,
    }

    /// A Helm value read from a file.
    pub struct HelmFileParameter {
        /// Path of the value, dots between keys.
        pub name: String,
        /// File to read.
        pub path: String,
    }

    /// Settings for Kustomize.
    pub struct KustomizeSource {
        /// Prefix of all resource names.
        pub name_prefix: String,
        /// Suffix of all resource names.
        pub name_suffix: String,
        /// Image overrides, such as `name=registry/name:tag`.
        pub images: Vec<String>,
        /// Labels that are added to all resources.
        pub common_labels: BTreeMap<String, String>,
        /// Annotations that are added to all resources.
        pub common_annotations: BTreeMap<String, String>,
        /// Substitute build variables in the annotations' values.
        pub common_annotations_envsubst: bool,
        /// Overwrite existing labels of the resources.
        pub force_common_labels: bool,
        /// Overwrite existing annotations of the resources.
        pub force_common_annotations: bool,
        /// Do not add the labels to selectors.
        pub label_without_selector: bool,
        /// Also add the labels to pod templates when `labelWithoutSelector` is set.
        pub label_include_templates: bool,
        /// Namespace of all resources.
        pub namespace: String,
        /// Replica overrides.
        pub replicas: Vec<KustomizeReplicas>,
        /// Patches.
        #[schemars(with = "Vec<KustomizePatch>")]
        pub patches: Vec<Value>,
        /// Components to include.
        pub components: Vec<String>,
        /// Ignore components that do not exist.
        pub ignore_missing_components: bool,
        /// Kustomize version to use.
        pub version: String,
        /// Kubernetes version that is passed to Helm charts.
        pub kube_version: String,
        /// API versions that are passed to Helm charts.
        pub api_versions: Vec<String>,
    } and extra

    /// A replica override.
    pub struct KustomizeReplicas {
        /// Name of the Deployment or StatefulSet.
        pub name: String,
        /// Number of replicas.
        pub count: IntOrString,
    }

    /// Settings for a plugin.
    pub struct PluginSource {
        /// Name of the plugin; discovered when empty.
        pub name: String,
        /// Environment variables of the plugin.
        pub env: Vec<NameValue>,
        /// Parameters of the plugin; each has a name and a string, an array or a map.
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

    /// Settings of Argo CD's source hydrator: manifests are rendered to one branch and
    /// synced from another. Stored, not supported (SE-029).
    pub struct SourceHydrator {
        /// Source of the unrendered (dry) manifests.
        #[schemars(with = "Option<DrySource>")]
        pub dry_source: Value,
        /// Source of the rendered manifests.
        #[schemars(with = "Option<SyncSource>")]
        pub sync_source: Value,
        /// Branch that rendered manifests are written to first.
        #[schemars(with = "Option<HydrateTo>")]
        pub hydrate_to: Value,
    } and extra

    /// Source of the unrendered (dry) manifests.
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
        /// Settings for Kustomize.
        pub kustomize: Option<KustomizeSource>,
        /// Settings for a directory of plain manifests.
        pub directory: Option<DirectorySource>,
        /// Settings for a plugin.
        pub plugin: Option<PluginSource>,
    }

    /// Source of the rendered manifests.
    pub struct SyncSource {
        /// URL of the Git repository; that of the dry source when empty.
        #[serde(rename = "repoURL")]
        pub repo_url: String,
        /// Branch to read.
        pub target_branch: String,
        /// Directory in the repository.
        pub path: String,
    }

    /// Branch that rendered manifests are written to first.
    pub struct HydrateTo {
        /// Branch to write.
        pub target_branch: String,
    }

    /// Status of Argo CD's source hydrator; stored, not used here.
    pub struct SourceHydratorStatus {
        /// The last successful hydration.
        pub last_successful_operation: Option<SuccessfulHydration>,
        /// The current hydration, or the last one.
        pub current_operation: Option<Hydration>,
        /// Revision of the dry manifests that was compared last.
        pub last_compared_dry_revision: String,
    }

    /// A successful hydration.
    pub struct SuccessfulHydration {
        /// Revision of the dry manifests.
        #[serde(rename = "drySHA")]
        pub dry_sha: String,
        /// Revision of the rendered manifests.
        #[serde(rename = "hydratedSHA")]
        pub hydrated_sha: String,
        /// Settings of the hydration.
        pub source_hydrator: Option<SourceHydrator>,
    }

    /// A hydration.
    pub struct Hydration {
        /// Time when the hydration started.
        pub started_at: Option<Time>,
        /// Time when the hydration finished.
        pub finished_at: Option<Time>,
        /// Phase of the hydration.
        pub phase: String,
        /// Details of the phase.
        pub message: String,
        /// Revision of the dry manifests.
        #[serde(rename = "drySHA")]
        pub dry_sha: String,
        /// Revision of the rendered manifests.
        #[serde(rename = "hydratedSHA")]
        pub hydrated_sha: String,
        /// Settings of the hydration.
        pub source_hydrator: Option<SourceHydrator>,
    }

    /// A Kustomize patch.
    pub struct KustomizePatch {
        /// File with the patch.
        pub path: String,
        /// Inline patch.
        pub patch: String,
        /// Resources to patch; all when absent.
        pub target: Option<KustomizeTarget>,
        /// Options of Kustomize, such as `allowNameChange`.
        pub options: BTreeMap<String, bool>,
    }

    /// Selects resources to patch; each field that is not empty must match.
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
        /// Selector of annotations.
        pub annotation_selector: String,
        /// Selector of labels.
        pub label_selector: String,
    }

    /// A parameter of a plugin: a string, an array or a map.
    pub struct PluginParameter {
        /// Name of the parameter.
        pub name: String,
        /// Value of a string parameter.
        pub string: Option<String>,
        /// Values of an array parameter.
        pub array: Vec<String>,
        /// Values of a map parameter.
        pub map: BTreeMap<String, String>,
    }
}
