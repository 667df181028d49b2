//! Settings of the scmProvider and pullRequest generators (AS-098).
//!
//! The generators read raw objects; these types are the definition, which rejects misspelled
//! fields.

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

    /// A GitHub organization.
    pub struct ScmGithub {
        /// Name of the organization.
        pub organization: String,
        /// URL of the API.
        pub api: String,
        /// Secret with the token.
        pub token_ref: Option<SecretRef>,
        /// Secret with the credentials of a GitHub App.
        pub app_secret_name: String,
        /// Scan all branches instead of the default branch.
        pub all_branches: bool,
        /// Exclude archived repositories.
        pub exclude_archived_repos: bool,
    }

    /// A GitLab group.
    pub struct ScmGitlab {
        /// ID or path of the group.
        pub group: String,
        /// Include subgroups.
        pub include_subgroups: bool,
        /// URL of the API.
        pub api: String,
        /// Secret with the token.
        pub token_ref: Option<SecretRef>,
        /// Scan all branches instead of the default branch.
        pub all_branches: bool,
        /// Skip the verification of TLS certificates.
        pub insecure: bool,
        /// Include projects that are shared with the group; true when absent.
        pub include_shared_projects: Option<bool>,
        /// Only projects with this topic.
        pub topic: String,
        /// ConfigMap with trusted certificates.
        pub ca_ref: Option<ConfigMapKeyRef>,
        /// Include archived projects.
        pub include_archived_repos: bool,
    }

    /// A Bitbucket Cloud workspace.
    pub struct ScmBitbucket {
        /// Name of the workspace.
        pub owner: String,
        /// User name.
        pub user: String,
        /// Secret with the app password.
        pub app_password_ref: Option<SecretRef>,
        /// Scan all branches instead of the main branch.
        pub all_branches: bool,
    }

    /// A Bitbucket Server project.
    pub struct ScmBitbucketServer {
        /// Key of the project.
        pub project: String,
        /// URL of the API.
        pub api: String,
        /// Basic authentication.
        pub basic_auth: Option<BasicAuth>,
        /// Authentication with an access token.
        pub bearer_token: Option<BearerToken>,
        /// Scan all branches instead of the default branch.
        pub all_branches: bool,
        /// Skip the verification of TLS certificates.
        pub insecure: bool,
        /// ConfigMap with trusted certificates.
        pub ca_ref: Option<ConfigMapKeyRef>,
    }

    /// A Gitea organization.
    pub struct ScmGitea {
        /// Name of the organization or user.
        pub owner: String,
        /// URL of the server.
        pub api: String,
        /// Secret with the token.
        pub token_ref: Option<SecretRef>,
        /// Scan all branches instead of the default branch.
        pub all_branches: bool,
        /// Skip the verification of TLS certificates.
        pub insecure: bool,
        /// Exclude archived repositories.
        pub exclude_archived_repos: bool,
    }

    /// An Azure DevOps project.
    pub struct ScmAzureDevOps {
        /// Name of the organization.
        pub organization: String,
        /// URL of the server.
        pub api: String,
        /// Name of the project.
        pub team_project: String,
        /// Secret with the access token.
        pub access_token_ref: Option<SecretRef>,
        /// Scan all branches instead of the default branch.
        pub all_branches: bool,
    }

    /// AWS CodeCommit repositories.
    pub struct ScmCodeCommit {
        /// Only repositories with these tags.
        pub tag_filters: Vec<TagFilter>,
        /// Role to assume.
        pub role: String,
        /// AWS region.
        pub region: String,
        /// Scan all branches instead of the default branch.
        pub all_branches: bool,
    }

    /// A tag of a repository.
    pub struct TagFilter {
        /// Key of the tag.
        pub key: String,
        /// Value of the tag; empty matches any value.
        pub value: String,
    }

    /// A filter of repositories; all of its conditions must match.
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
        /// Organization or user.
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
        /// ID or path of the project.
        pub project: String,
        /// URL of the API.
        pub api: String,
        /// Secret with the token.
        pub token_ref: Option<SecretRef>,
        /// Labels that a merge request must have.
        pub labels: Vec<String>,
        /// State that a merge request must have; empty for any.
        pub pull_request_state: String,
        /// Skip the verification of TLS certificates.
        pub insecure: bool,
        /// ConfigMap with trusted certificates.
        pub ca_ref: Option<ConfigMapKeyRef>,
    }

    /// A Gitea repository.
    pub struct PullRequestGitea {
        /// Organization or user.
        pub owner: String,
        /// Name of the repository.
        pub repo: String,
        /// URL of the server.
        pub api: String,
        /// Secret with the token.
        pub token_ref: Option<SecretRef>,
        /// Skip the verification of TLS certificates.
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
        /// Basic authentication.
        pub basic_auth: Option<BasicAuth>,
        /// Authentication with an access token.
        pub bearer_token: Option<BearerToken>,
        /// Skip the verification of TLS certificates.
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
        /// Basic authentication.
        pub basic_auth: Option<BasicAuth>,
        /// Authentication with an access token.
        pub bearer_token: Option<BearerToken>,
    }

    /// An Azure DevOps repository.
    pub struct PullRequestAzureDevOps {
        /// Organization of the repository.
        pub organization: String,
        /// Project of the organization.
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

    /// A filter of pull requests; all of its conditions must match.
    pub struct PullRequestFilter {
        /// Regular expression of the branch.
        pub branch_match: String,
        /// Regular expression of the target branch.
        pub target_branch_match: String,
        /// Regular expression of the title.
        pub title_match: String,
    }
}
