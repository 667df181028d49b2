//! Who asks, and whom to trust: tokens, passwords and certificates of a provider.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, HeaderName};
use tokio_rustls::rustls::ClientConfig;

use super::failure::ProviderError;
use super::http::{Api, segment};
use super::objects::text_of;
use super::providers::{Asker, Providers};
use super::{app, azure_devops, bitbucket, github, gitlab};
use wavegate_net::redact;
use wavegate_net::tls;
use wavegate_rollout::desired::queries::{KeyRef, Login, Provider, QueryKind};

/// The label that Secrets with tokens must have in strict mode.
const SECRET_TYPE: (&str, &str) = ("argocd.argoproj.io/secret-type", "scm-creds");

impl Providers {
    /// The text of a key of a Secret in the namespace of the set.
    pub(super) async fn token(&self, key: &KeyRef, asker: &Asker) -> Result<String, ProviderError> {
        let KeyRef { name, key } = key;
        let namespace = &asker.set.namespace;
        let secret = self.objects.secret(namespace, name).await?;
        let has_label = || {
            let labels = secret.metadata.labels.as_ref();
            labels.and_then(|all| all.get(SECRET_TYPE.0)).is_some_and(|of| of == SECRET_TYPE.1)
        };
        if self.settings.strict_tokens && !has_label() {
            return Err(ProviderError::new(format!(
                "Secret {namespace}/{name}: must have the label {}: {} \
                 (--token-ref-strict-mode)",
                SECRET_TYPE.0, SECRET_TYPE.1
            )));
        }
        let found = text_of(&secret, key).map(|token| token.trim().to_owned());
        match found.filter(|token| !token.is_empty()) {
            Some(token) => {
                redact::know_secret(&token);
                Ok(token)
            }
            None => Err(ProviderError::new(format!("Secret {namespace}/{name}: has no key {key}"))),
        }
    }

    /// The API of a server of source code.
    pub(super) async fn server_api(
        &self,
        provider: &Provider,
        owner: &str,
        asker: &Asker,
    ) -> Result<Api, ProviderError> {
        let api = self.api(provider, &self.base(provider, owner), owner, asker).await?;
        match provider.kind {
            QueryKind::GitHub => github::headers(api),
            QueryKind::BitbucketServer => {
                api.with(HeaderName::from_static("x-atlassian-token"), "no-check")
            }
            _ => Ok(api),
        }
    }

    /// The address of the API of a server.
    fn base(&self, provider: &Provider, owner: &str) -> String {
        let own = provider.api.trim_end_matches('/');
        let or_public = |public| if own.is_empty() { public } else { own };
        let below = |api: &str, path: &str| match api.ends_with(path) {
            true => api.to_owned(),
            false => format!("{api}{path}"),
        };
        match provider.kind {
            QueryKind::GitHub => github::base(own),
            QueryKind::GitLab => below(or_public(gitlab::PUBLIC), "/api/v4"),
            QueryKind::Gitea => below(own, "/api/v1"),
            QueryKind::Bitbucket if provider.api.is_empty() => {
                self.variable(bitbucket::ADDRESS).unwrap_or(bitbucket::PUBLIC).to_owned()
            }
            QueryKind::BitbucketServer => format!("{}/api/1.0", below(own, "/rest")),
            QueryKind::AzureDevOps => {
                format!("{}/{}", or_public(azure_devops::PUBLIC), segment(owner))
            }
            // CodeCommit has an address for each of its services.
            QueryKind::Bitbucket | QueryKind::CodeCommit => provider.api.clone(),
        }
    }

    /// The API of a provider at an address, with the headers of its login.
    async fn api(
        &self,
        provider: &Provider,
        base: &str,
        owner: &str,
        asker: &Asker,
    ) -> Result<Api, ProviderError> {
        if let Login::App(secret) = &provider.login {
            return app::api(self, provider, secret, owner, asker).await;
        }
        let api = self.open(provider, base, asker).await?;
        match &provider.login {
            Login::None | Login::App(_) | Login::Role { .. } => Ok(api),
            Login::Token(key) => {
                let token = self.token(key, asker).await?;
                match provider.kind {
                    QueryKind::GitLab => api.with(HeaderName::from_static("private-token"), &token),
                    QueryKind::Gitea => api.with(AUTHORIZATION, &format!("token {token}")),
                    QueryKind::AzureDevOps => api.with(AUTHORIZATION, &basic("", &token)),
                    _ => api.with(AUTHORIZATION, &format!("Bearer {token}")),
                }
            }
            Login::Basic { user, password } => {
                let password = self.token(password, asker).await?;
                api.with(AUTHORIZATION, &basic(user, &password))
            }
        }
    }

    /// The API of a provider at an address, without a login.
    pub(super) async fn open(
        &self,
        provider: &Provider,
        base: &str,
        asker: &Asker,
    ) -> Result<Api, ProviderError> {
        let own = match &provider.ca {
            None => None,
            Some(KeyRef { name, key }) => {
                let namespace = &asker.set.namespace;
                let mut data = self.objects.config_map(namespace, name).await?;
                let missing = || {
                    ProviderError::new(format!("ConfigMap {namespace}/{name}: has no key {key}"))
                };
                Some(data.remove(key).ok_or_else(missing)?)
            }
        };
        let place = || match &provider.ca {
            Some(KeyRef { name, key }) => format!("key {key} of ConfigMap {name}"),
            None => "--scm-root-ca-path".to_owned(),
        };
        let pem = match own {
            Some(pem) => Some(pem),
            None => self.root_ca().await?,
        };
        let tls = trust(pem.as_deref(), provider.insecure);
        let tls = tls.map_err(|why| ProviderError::new(format!("{}: {why}", place())))?;
        Api::new(base, tls, &self.proxy, asker.limits.clone(), self.clock.clone())
    }

    /// The certificates of the settings.
    pub(super) async fn root_ca(&self) -> Result<Option<String>, ProviderError> {
        let Some(path) = &self.settings.root_ca else { return Ok(None) };
        let read = tokio::fs::read_to_string(path).await;
        let failed = |error: std::io::Error| {
            ProviderError::new(format!("--scm-root-ca-path {}: {error}", path.display()))
        };
        read.map(Some).map_err(failed)
    }
}

/// A header with a user name and a password.
pub(super) fn basic(user: &str, password: &str) -> String {
    let pair = STANDARD.encode(format!("{user}:{password}"));
    redact::know_secret(&pair);
    format!("Basic {pair}")
}

/// Trust in the certificates of this machine and in these, or in any.
pub(super) fn trust(pem: Option<&str>, insecure: bool) -> Result<ClientConfig, String> {
    let trusting = match pem {
        _ if insecure => tls::trusting_any(),
        None => tls::trusting_roots(Vec::new()),
        Some(pem) => match tls::parse_certificates(pem) {
            Ok(read) if !read.is_empty() => tls::trusting_roots(read),
            Ok(_) | Err(_) => return Err("has no certificate as PEM".to_owned()),
        },
    };
    Ok(trusting.map_err(|error| tls::error_text(&error))?.with_no_client_auth())
}
