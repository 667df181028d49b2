//! Identities that are exchanged for a token before a repository is read: an installation of
//! a GitHub App, a service account of Google Cloud, and a workload or a service principal of
//! Azure.

use std::fmt;

/// Who reads a repository, where that is no name and password. `Debug` shows no key.
#[derive(Clone, PartialEq, Eq)]
pub enum RepoIdentity {
    /// An installation of a GitHub App.
    GitHubApp {
        /// `githubAppID`.
        app: String,
        /// `githubAppInstallationID`; empty to look it up.
        installation: String,
        /// `githubAppPrivateKey`, in PEM.
        key: String,
        /// `githubAppEnterpriseBaseUrl`; empty for GitHub itself.
        api: String,
    },
    /// `gcpServiceAccountKey`: the key file of a service account of Google Cloud, in JSON.
    GoogleServiceAccount(String),
    /// `useAzureWorkloadIdentity`: who this process is for Azure.
    AzureWorkload,
    /// `azureServicePrincipalClientSecret` and the keys that belong to it.
    AzureServicePrincipal {
        /// `azureServicePrincipalTenantId`.
        tenant: String,
        /// `azureServicePrincipalClientId`.
        client: String,
        /// `azureServicePrincipalClientSecret`.
        secret: String,
        /// `azureActiveDirectoryEndpoint`; empty for that of the public cloud.
        endpoint: String,
    },
}

impl RepoIdentity {
    /// What it is, for users: by the key of the Secret.
    pub fn name(&self) -> &'static str {
        match self {
            Self::GitHubApp { .. } => "githubAppID",
            Self::GoogleServiceAccount(_) => "gcpServiceAccountKey",
            Self::AzureWorkload => "useAzureWorkloadIdentity",
            Self::AzureServicePrincipal { .. } => "azureServicePrincipalClientSecret",
        }
    }

    /// Its parts, for a fingerprint.
    pub(crate) fn parts(&self) -> [&str; 5] {
        match self {
            Self::GitHubApp { app, installation, key, api } => {
                [self.name(), app, installation, key, api]
            }
            Self::GoogleServiceAccount(key) => [self.name(), key, "", "", ""],
            Self::AzureWorkload => [self.name(), "", "", "", ""],
            Self::AzureServicePrincipal { tenant, client, secret, endpoint } => {
                [self.name(), tenant, client, secret, endpoint]
            }
        }
    }
}

impl fmt::Debug for RepoIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
