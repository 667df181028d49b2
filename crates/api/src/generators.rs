//! Generators: sources of the template parameters of an ApplicationSet (AS-003, AS-004).
//!
//! Raw objects are read by the generators themselves: these types are the definition.

use std::collections::BTreeMap;

use serde_json::Value;

use super::lenient::{any_map, any_objects};
use super::providers::{
    PullRequestAzureDevOps, PullRequestBitbucket, PullRequestBitbucketServer, PullRequestFilter,
    PullRequestGitea, PullRequestGithub, PullRequestGitlab, ScmAzureDevOps, ScmBitbucket,
    ScmBitbucketServer, ScmCodeCommit, ScmFilter, ScmGitea, ScmGithub, ScmGitlab,
};
use super::template::GeneratorTemplate;

lenient! {
    /// A generator of parameters. Set one field; at the top level, several fields give
    /// the union.
    pub struct Generator {
        /// A fixed list of parameters.
        pub list: Option<ListGenerator>,
        /// The registered clusters.
        pub clusters: Option<ClusterGenerator>,
        /// Directories or files of a Git repository.
        pub git: Option<GitGenerator>,
        /// Repositories of an organization.
        pub scm_provider: Option<ScmProviderGenerator>,
        /// Decisions of a cluster-placement resource.
        pub cluster_decision_resource: Option<ClusterDecisionGenerator>,
        /// Pull requests of a repository.
        pub pull_request: Option<PullRequestGenerator>,
        /// All combinations of two generators.
        pub matrix: Option<Box<MatrixGenerator>>,
        /// Parameters of several generators, merged by key.
        pub merge: Option<Box<MergeGenerator>>,
        /// An external service.
        pub plugin: Option<PluginGenerator>,
        /// Selects the parameter sets to keep.
        pub selector: Option<LabelSelector>,
    } and extra

    /// A fixed list of parameters.
    pub struct ListGenerator {
        /// Parameter sets, as objects.
        #[schemars(schema_with = "any_objects")]
        pub elements: Vec<Value>,
        /// Further parameter sets, as a YAML or JSON list in text form.
        pub elements_yaml: String,
        /// Overrides of the template.
        pub template: Option<GeneratorTemplate>,
    } and extra

    /// The registered clusters.
    pub struct ClusterGenerator {
        /// Selects clusters by the labels of their Secrets; empty selects all, including
        /// the local cluster.
        pub selector: LabelSelector,
        /// Additional parameters, under `values`.
        pub values: BTreeMap<String, String>,
        /// Generate one parameter set with the list of all clusters.
        pub flat_list: bool,
        /// Overrides of the template.
        pub template: Option<GeneratorTemplate>,
    } and extra

    /// Directories or files of a Git repository.
    #[schemars(extend("required" = ["repoURL", "revision"]))]
    pub struct GitGenerator {
        /// URL of the repository.
        #[serde(rename = "repoURL")]
        pub repo_url: String,
        /// Branch, tag or commit.
        pub revision: String,
        /// One parameter set for each directory that matches.
        pub directories: Vec<GitPath>,
        /// One parameter set for each file that matches. Ignored when `directories` is set.
        pub files: Vec<GitPath>,
        /// Interval of polling the repository; 0 disables polling, the controller's
        /// default when absent.
        pub requeue_after_seconds: Option<i64>,
        /// Prefix of the names of the path parameters.
        pub path_param_prefix: String,
        /// Additional parameters, under `values`.
        pub values: BTreeMap<String, String>,
        /// Overrides of the template.
        pub template: Option<GeneratorTemplate>,
    } and extra

    /// Paths in a repository.
    #[schemars(extend("required" = ["path"]))]
    pub struct GitPath {
        /// Glob of the paths.
        pub path: String,
        /// Exclude the paths, whatever other globs match.
        pub exclude: bool,
    } and extra

    /// All combinations of two generators.
    #[schemars(extend("required" = ["generators"]))]
    pub struct MatrixGenerator {
        /// Exactly two generators. The second can use the parameters of the first.
        #[schemars(schema_with = "any_objects")]
        pub generators: Vec<Generator>,
        /// Overrides of the template.
        pub template: Option<GeneratorTemplate>,
    } and extra

    /// Parameters of several generators, merged by key.
    #[schemars(extend("required" = ["generators", "mergeKeys"]))]
    pub struct MergeGenerator {
        /// At least two generators. The first gives the parameter sets, the others
        /// override them.
        #[schemars(schema_with = "any_objects")]
        pub generators: Vec<Generator>,
        /// Parameters whose values must be equal for parameter sets to be merged.
        pub merge_keys: Vec<String>,
        /// Overrides of the template.
        pub template: Option<GeneratorTemplate>,
    } and extra

    /// Decisions of a cluster-placement resource.
    #[schemars(extend("required" = ["configMapRef"]))]
    pub struct ClusterDecisionGenerator {
        /// ConfigMap that describes the placement resource.
        pub config_map_ref: String,
        /// Name of the placement resource.
        pub name: String,
        /// Selects the placement resource by labels.
        pub label_selector: LabelSelector,
        /// Interval of polling, in seconds.
        pub requeue_after_seconds: Option<i64>,
        /// Additional parameters, under `values`.
        pub values: BTreeMap<String, String>,
        /// Overrides of the template.
        pub template: Option<GeneratorTemplate>,
    } and extra

    /// An external service.
    #[schemars(extend("required" = ["configMapRef"]))]
    pub struct PluginGenerator {
        /// ConfigMap that describes the service.
        pub config_map_ref: PluginConfigMapRef,
        /// Input of the service.
        pub input: PluginInput,
        /// Interval of polling, in seconds.
        pub requeue_after_seconds: Option<i64>,
        /// Additional parameters, under `values`.
        pub values: BTreeMap<String, String>,
        /// Overrides of the template.
        pub template: Option<GeneratorTemplate>,
    } and extra

    /// A ConfigMap.
    #[schemars(extend("required" = ["name"]))]
    pub struct PluginConfigMapRef {
        /// Name of the ConfigMap.
        pub name: String,
    } and extra

    /// Input of the service.
    pub struct PluginInput {
        /// Parameters of any type.
        #[schemars(schema_with = "any_map")]
        pub parameters: BTreeMap<String, Value>,
    } and extra

    /// Repositories of an organization. Set the field of one provider.
    pub struct ScmProviderGenerator {
        /// A GitHub organization.
        pub github: Option<ScmGithub>,
        /// A GitLab group.
        pub gitlab: Option<ScmGitlab>,
        /// A Bitbucket Cloud workspace.
        pub bitbucket: Option<ScmBitbucket>,
        /// A Bitbucket Server project.
        pub bitbucket_server: Option<ScmBitbucketServer>,
        /// A Gitea organization.
        pub gitea: Option<ScmGitea>,
        /// An Azure DevOps project.
        pub azure_dev_ops: Option<ScmAzureDevOps>,
        /// AWS CodeCommit repositories.
        pub aws_code_commit: Option<ScmCodeCommit>,
        /// Filters of the repositories.
        pub filters: Vec<ScmFilter>,
        /// Protocol of the repository URLs: `https` or `ssh`.
        pub clone_protocol: String,
        /// Interval of polling, in seconds.
        pub requeue_after_seconds: Option<i64>,
        /// Additional parameters, under `values`.
        pub values: BTreeMap<String, String>,
        /// Overrides of the template.
        pub template: Option<GeneratorTemplate>,
    } and extra

    /// Pull requests of a repository. Set the field of one provider.
    pub struct PullRequestGenerator {
        /// A GitHub repository.
        pub github: Option<PullRequestGithub>,
        /// A GitLab project.
        pub gitlab: Option<PullRequestGitlab>,
        /// A Gitea repository.
        pub gitea: Option<PullRequestGitea>,
        /// A Bitbucket Server repository.
        pub bitbucket_server: Option<PullRequestBitbucketServer>,
        /// A Bitbucket Cloud repository.
        pub bitbucket: Option<PullRequestBitbucket>,
        /// An Azure DevOps repository.
        pub azuredevops: Option<PullRequestAzureDevOps>,
        /// Filters of the pull requests.
        pub filters: Vec<PullRequestFilter>,
        /// Generate no parameters when the repository does not exist, instead of failing.
        pub continue_on_repo_not_found_error: bool,
        /// Interval of polling, in seconds.
        pub requeue_after_seconds: Option<i64>,
        /// Additional parameters, under `values`.
        pub values: BTreeMap<String, String>,
        /// Overrides of the template.
        pub template: Option<GeneratorTemplate>,
    } and extra

    /// A label selector; all conditions must match. Empty selects everything.
    pub struct LabelSelector {
        /// Labels that must have these values.
        pub match_labels: BTreeMap<String, String>,
        /// Additional conditions.
        pub match_expressions: Vec<LabelSelectorRequirement>,
    } and extra

    /// A condition on a label.
    #[schemars(extend("required" = ["key", "operator"]))]
    pub struct LabelSelectorRequirement {
        /// Key of the label.
        pub key: String,
        /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
        pub operator: String,
        /// Values for `In` and `NotIn`.
        pub values: Vec<String>,
    } and extra
}

impl LabelSelector {
    /// Whether the selector selects everything.
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }
}
