//! Generators: where the parameters of an ApplicationSet come from
//! (AS-003, AS-004).
//!
//! All generators of the peer can be read, those that are not supported too:
//! their use is reported (AS-098).

use std::collections::BTreeMap;

use serde_json::Value;

use super::application_set::TemplateMetadata;
use super::lenient::{any_map, any_object, any_objects};
use super::providers::{
    PullRequestAzureDevOps, PullRequestBitbucket, PullRequestBitbucketServer, PullRequestFilter,
    PullRequestGitea, PullRequestGithub, PullRequestGitlab, ScmAzureDevOps, ScmBitbucket,
    ScmBitbucketServer, ScmCodeCommit, ScmFilter, ScmGitea, ScmGithub, ScmGitlab,
};

lenient! {
    /// One source of parameters. Set one field; at the top, several give the union.
    pub struct Generator {
        /// A list that is written here.
        pub list: Option<ListGenerator>,
        /// The clusters that are registered.
        pub clusters: Option<ClusterGenerator>,
        /// Directories or files of a Git repository.
        pub git: Option<GitGenerator>,
        /// Repositories of an organisation. Not supported; using it is an error.
        pub scm_provider: Option<ScmProviderGenerator>,
        /// Decisions of a cluster-placement resource. Not supported; using it is an error.
        pub cluster_decision_resource: Option<ClusterDecisionGenerator>,
        /// Pull requests of a repository. Not supported; using it is an error.
        pub pull_request: Option<PullRequestGenerator>,
        /// Every combination of two generators.
        pub matrix: Option<Box<MatrixGenerator>>,
        /// Several generators put together by key.
        pub merge: Option<Box<MergeGenerator>>,
        /// An external service. Not supported; using it is an error.
        pub plugin: Option<PluginGenerator>,
        /// Keeps only the parameter sets that it selects.
        pub selector: Option<LabelSelector>,
    } and extra

    /// A list that is written here.
    pub struct ListGenerator {
        /// Parameter sets, as objects.
        #[schemars(schema_with = "any_objects")]
        pub elements: Vec<Value>,
        /// Further ones, as text that is a YAML or JSON list.
        pub elements_yaml: String,
        /// Overrides of the template.
        pub template: Option<GeneratorTemplate>,
    } and extra

    /// The clusters that are registered.
    pub struct ClusterGenerator {
        /// Selects by the labels of the cluster secrets; empty selects all, the local cluster too.
        pub selector: LabelSelector,
        /// Further parameters, under `values`.
        pub values: BTreeMap<String, String>,
        /// Give one parameter set with the list of all clusters.
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
        /// One parameter set for each file that matches. Ignored beside `directories`.
        pub files: Vec<GitPath>,
        /// How often to look again; 0 never, absent as the controller is set up.
        pub requeue_after_seconds: Option<i64>,
        /// Put before the names of the path parameters.
        pub path_param_prefix: String,
        /// Further parameters, under `values`.
        pub values: BTreeMap<String, String>,
        /// Overrides of the template.
        pub template: Option<GeneratorTemplate>,
    } and extra

    /// Paths in a repository.
    #[schemars(extend("required" = ["path"]))]
    pub struct GitPath {
        /// Glob of the paths.
        pub path: String,
        /// Leave them out, whatever else matches.
        pub exclude: bool,
    } and extra

    /// Every combination of two generators.
    #[schemars(extend("required" = ["generators"]))]
    pub struct MatrixGenerator {
        /// Exactly two, one generator each. The second sees the parameters of the first.
        #[schemars(schema_with = "any_objects")]
        pub generators: Vec<Generator>,
        /// Overrides of the template.
        pub template: Option<GeneratorTemplate>,
    } and extra

    /// Several generators put together by key.
    #[schemars(extend("required" = ["generators", "mergeKeys"]))]
    pub struct MergeGenerator {
        /// At least two. The first gives the sets, the others override them.
        #[schemars(schema_with = "any_objects")]
        pub generators: Vec<Generator>,
        /// Parameters that must be equal for sets to be put together.
        pub merge_keys: Vec<String>,
        /// Overrides of the template.
        pub template: Option<GeneratorTemplate>,
    } and extra

    /// Decisions of a cluster-placement resource.
    #[schemars(extend("required" = ["configMapRef"]))]
    pub struct ClusterDecisionGenerator {
        /// ConfigMap that says where the decisions are.
        pub config_map_ref: String,
        /// Name of the resource.
        pub name: String,
        /// Selects the resource by labels.
        pub label_selector: LabelSelector,
        /// How often to look again.
        pub requeue_after_seconds: Option<i64>,
        /// Further parameters, under `values`.
        pub values: BTreeMap<String, String>,
        /// Overrides of the template.
        pub template: Option<GeneratorTemplate>,
    } and extra

    /// An external service.
    #[schemars(extend("required" = ["configMapRef"]))]
    pub struct PluginGenerator {
        /// ConfigMap that says where the service is.
        pub config_map_ref: PluginConfigMapRef,
        /// What is sent to it.
        pub input: PluginInput,
        /// How often to look again.
        pub requeue_after_seconds: Option<i64>,
        /// Further parameters, under `values`.
        pub values: BTreeMap<String, String>,
        /// Overrides of the template.
        pub template: Option<GeneratorTemplate>,
    } and extra

    /// A ConfigMap.
    #[schemars(extend("required" = ["name"]))]
    pub struct PluginConfigMapRef {
        /// Its name.
        pub name: String,
    } and extra

    /// What is sent to the service.
    pub struct PluginInput {
        /// Parameters of any type.
        #[schemars(schema_with = "any_map")]
        pub parameters: BTreeMap<String, Value>,
    } and extra

    /// Repositories of an organisation, which the field of one provider names.
    pub struct ScmProviderGenerator {
        /// An organisation of GitHub.
        pub github: Option<ScmGithub>,
        /// A group of GitLab.
        pub gitlab: Option<ScmGitlab>,
        /// A workspace of Bitbucket Cloud.
        pub bitbucket: Option<ScmBitbucket>,
        /// A project of Bitbucket Server.
        pub bitbucket_server: Option<ScmBitbucketServer>,
        /// An organisation of Gitea.
        pub gitea: Option<ScmGitea>,
        /// A project of Azure DevOps.
        pub azure_dev_ops: Option<ScmAzureDevOps>,
        /// Repositories of AWS CodeCommit.
        pub aws_code_commit: Option<ScmCodeCommit>,
        /// Which repositories count.
        pub filters: Vec<ScmFilter>,
        /// `https` or `ssh`.
        pub clone_protocol: String,
        /// How often to look again.
        pub requeue_after_seconds: Option<i64>,
        /// Further parameters, under `values`.
        pub values: BTreeMap<String, String>,
        /// Overrides of the template.
        pub template: Option<GeneratorTemplate>,
    } and extra

    /// Pull requests of a repository, which the field of one provider names.
    pub struct PullRequestGenerator {
        /// A repository of GitHub.
        pub github: Option<PullRequestGithub>,
        /// A project of GitLab.
        pub gitlab: Option<PullRequestGitlab>,
        /// A repository of Gitea.
        pub gitea: Option<PullRequestGitea>,
        /// A repository of Bitbucket Server.
        pub bitbucket_server: Option<PullRequestBitbucketServer>,
        /// A repository of Bitbucket Cloud.
        pub bitbucket: Option<PullRequestBitbucket>,
        /// A repository of Azure DevOps.
        pub azuredevops: Option<PullRequestAzureDevOps>,
        /// Which pull requests count.
        pub filters: Vec<PullRequestFilter>,
        /// A repository that does not exist gives no parameters instead of an error.
        pub continue_on_repo_not_found_error: bool,
        /// How often to look again.
        pub requeue_after_seconds: Option<i64>,
        /// Further parameters, under `values`.
        pub values: BTreeMap<String, String>,
        /// Overrides of the template.
        pub template: Option<GeneratorTemplate>,
    } and extra

    /// Overrides of the template for the Applications of one generator. What is
    /// empty is not overridden.
    #[schemars(extend("required" = ["metadata", "spec"]))]
    pub struct GeneratorTemplate {
        /// Metadata of the Applications.
        pub metadata: TemplateMetadata,
        /// Spec of the Applications, as in the template.
        #[schemars(schema_with = "any_object")]
        pub spec: Value,
    } and extra

    /// Selects by labels; all conditions must hold. Empty selects everything.
    pub struct LabelSelector {
        /// Labels that must have these values.
        pub match_labels: BTreeMap<String, String>,
        /// Further conditions.
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
    /// Whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }
}
