//! Providers of the generators that look at hosting services: which
//! organisation or repository, and with which credentials (AS-098).
//!
//! These generators are not supported. Their fields are described all the
//! same, so that a schema keeps what a user wrote and refuses a typo.

lenient! {
    /// A key of a Secret.
    pub struct SecretRef {
        /// Name of the Secret.
        pub secret_name: String,
        /// Key within it.
        pub key: String,
    }

    /// A key of a ConfigMap.
    pub struct ConfigMapKeyRef {
        /// Name of the ConfigMap.
        pub config_map_name: String,
        /// Key within it.
        pub key: String,
    }

    /// A user name and a password.
    pub struct BasicAuth {
        /// User name.
        pub username: String,
        /// Secret with the password or access token.
        pub password_ref: Option<SecretRef>,
    }

    /// A token.
    pub struct BearerToken {
        /// Secret with the token.
        pub token_ref: Option<SecretRef>,
    }

    /// A GitHub organisation.
    pub struct ScmGithub {
        /// Organisation to read.
        pub organization: String,
        /// URL of the API.
        pub api: String,
        /// Secret with the token.
        pub token_ref: Option<SecretRef>,
        /// Secret with the credentials of a GitHub App.
        pub app_secret_name: String,
        /// Every branch rather than the default one.
        pub all_branches: bool,
        /// Leave archived repositories out.
        pub exclude_archived_repos: bool,
    }

    /// A GitLab group.
    pub struct ScmGitlab {
        /// Id or path of the group.
        pub group: String,
        /// Also groups within the group.
        pub include_subgroups: bool,
        /// URL of the API.
        pub api: String,
        /// Secret with the token.
        pub token_ref: Option<SecretRef>,
        /// Every branch rather than the default one.
        pub all_branches: bool,
        /// Do not check certificates.
        pub insecure: bool,
        /// Also projects that are shared with the group; absent is yes.
        pub include_shared_projects: Option<bool>,
        /// Only projects with this topic.
        pub topic: String,
        /// ConfigMap with trusted certificates.
        pub ca_ref: Option<ConfigMapKeyRef>,
        /// Also archived projects.
        pub include_archived_repos: bool,
    }

    /// A Bitbucket Cloud workspace.
    pub struct ScmBitbucket {
        /// Workspace to read.
        pub owner: String,
        /// User to sign in as.
        pub user: String,
        /// Secret with the app password.
        pub app_password_ref: Option<SecretRef>,
        /// Every branch rather than the main one.
        pub all_branches: bool,
    }

    /// A Bitbucket Server project.
    pub struct ScmBitbucketServer {
        /// Project to read.
        pub project: String,
        /// URL of the API.
        pub api: String,
        /// Sign in with a password.
        pub basic_auth: Option<BasicAuth>,
        /// Sign in with a token.
        pub bearer_token: Option<BearerToken>,
        /// Every branch rather than the default one.
        pub all_branches: bool,
        /// Do not check certificates.
        pub insecure: bool,
        /// ConfigMap with trusted certificates.
        pub ca_ref: Option<ConfigMapKeyRef>,
    }

    /// A Gitea organisation.
    pub struct ScmGitea {
        /// Organisation or user to read.
        pub owner: String,
        /// URL of the server.
        pub api: String,
        /// Secret with the token.
        pub token_ref: Option<SecretRef>,
        /// Every branch rather than the default one.
        pub all_branches: bool,
        /// Do not check certificates.
        pub insecure: bool,
        /// Leave archived repositories out.
        pub exclude_archived_repos: bool,
    }

    /// An Azure DevOps project.
    pub struct ScmAzureDevOps {
        /// Organisation to read.
        pub organization: String,
        /// URL of the server.
        pub api: String,
        /// Project within the organisation.
        pub team_project: String,
        /// Secret with the access token.
        pub access_token_ref: Option<SecretRef>,
        /// Every branch rather than the default one.
        pub all_branches: bool,
    }

    /// AWS CodeCommit repositories.
    pub struct ScmCodeCommit {
        /// Only repositories with these tags.
        pub tag_filters: Vec<TagFilter>,
        /// Role to assume.
        pub role: String,
        /// Region to read.
        pub region: String,
        /// Every branch rather than the default one.
        pub all_branches: bool,
    }

    /// A tag of a repository.
    pub struct TagFilter {
        /// Key of the tag.
        pub key: String,
        /// Its value; empty for any.
        pub value: String,
    }

    /// Which repositories count; all of its conditions must hold.
    pub struct ScmFilter {
        /// Regular expression of the repository's name.
        pub repository_match: String,
        /// Paths that must exist.
        pub paths_exist: Vec<String>,
        /// Paths that must not exist.
        pub paths_do_not_exist: Vec<String>,
        /// Regular expression of a label.
        pub label_match: String,
        /// Regular expression of the branch.
        pub branch_match: String,
    }

    /// A GitHub repository.
    pub struct PullRequestGithub {
        /// Organisation or user.
        pub owner: String,
        /// Name of the repository.
        pub repo: String,
        /// URL of the API.
        pub api: String,
        /// Secret with the token.
        pub token_ref: Option<SecretRef>,
        /// Secret with the credentials of a GitHub App.
        pub app_secret_name: String,
        /// Labels that a pull request must have.
        pub labels: Vec<String>,
    }

    /// A GitLab project.
    pub struct PullRequestGitlab {
        /// Id or path of the project.
        pub project: String,
        /// URL of the API.
        pub api: String,
        /// Secret with the token.
        pub token_ref: Option<SecretRef>,
        /// Labels that a merge request must have.
        pub labels: Vec<String>,
        /// State that a merge request must have; empty for any.
        pub pull_request_state: String,
        /// Do not check certificates.
        pub insecure: bool,
        /// ConfigMap with trusted certificates.
        pub ca_ref: Option<ConfigMapKeyRef>,
    }

    /// A Gitea repository.
    pub struct PullRequestGitea {
        /// Organisation or user.
        pub owner: String,
        /// Name of the repository.
        pub repo: String,
        /// URL of the server.
        pub api: String,
        /// Secret with the token.
        pub token_ref: Option<SecretRef>,
        /// Do not check certificates.
        pub insecure: bool,
        /// Labels that a pull request must have.
        pub labels: Vec<String>,
    }

    /// A Bitbucket Server repository.
    pub struct PullRequestBitbucketServer {
        /// Project of the repository.
        pub project: String,
        /// Name of the repository.
        pub repo: String,
        /// URL of the API.
        pub api: String,
        /// Sign in with a password.
        pub basic_auth: Option<BasicAuth>,
        /// Sign in with a token.
        pub bearer_token: Option<BearerToken>,
        /// Do not check certificates.
        pub insecure: bool,
        /// ConfigMap with trusted certificates.
        pub ca_ref: Option<ConfigMapKeyRef>,
    }

    /// A Bitbucket Cloud repository.
    pub struct PullRequestBitbucket {
        /// Workspace of the repository.
        pub owner: String,
        /// Name of the repository.
        pub repo: String,
        /// URL of the API.
        pub api: String,
        /// Sign in with a password.
        pub basic_auth: Option<BasicAuth>,
        /// Sign in with a token.
        pub bearer_token: Option<BearerToken>,
    }

    /// An Azure DevOps repository.
    pub struct PullRequestAzureDevOps {
        /// Organisation of the repository.
        pub organization: String,
        /// Project within the organisation.
        pub project: String,
        /// Name of the repository.
        pub repo: String,
        /// URL of the server.
        pub api: String,
        /// Secret with the access token.
        pub token_ref: Option<SecretRef>,
        /// Labels that a pull request must have.
        pub labels: Vec<String>,
    }

    /// Which pull requests count; all of its conditions must hold.
    pub struct PullRequestFilter {
        /// Regular expression of the branch.
        pub branch_match: String,
        /// Regular expression of the branch to merge into.
        pub target_branch_match: String,
        /// Regular expression of the title.
        pub title_match: String,
    }
}
