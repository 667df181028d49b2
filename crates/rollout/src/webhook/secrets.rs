//! Secrets that Git servers sign webhooks with.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

use super::{Provider, RefusedWebhook};

/// The Secret of the control plane with these keys.
pub const SECRET: &str = "argocd-secret";

/// The configured secrets; an empty one is not configured.
#[derive(Clone, Default)]
pub struct Secrets {
    github: Vec<u8>,
    gitlab: Vec<u8>,
    azure_user: Vec<u8>,
    azure_password: Vec<u8>,
    gogs: Vec<u8>,
    bitbucket_uuid: Vec<u8>,
    bitbucket_server: Vec<u8>,
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

impl Secrets {
    /// From the data of the Secret [`SECRET`].
    pub fn read(data: &BTreeMap<String, Vec<u8>>) -> Self {
        let key = |key: &str| data.get(key).cloned().unwrap_or_default();
        Self {
            github: key("webhook.github.secret"),
            gitlab: key("webhook.gitlab.secret"),
            azure_user: key("webhook.azuredevops.username"),
            azure_password: key("webhook.azuredevops.password"),
            gogs: key("webhook.gogs.secret"),
            bitbucket_uuid: key("webhook.bitbucket.uuid"),
            bitbucket_server: key("webhook.bitbucketserver.secret"),
        }
    }

    /// The key of the Secret that is missing, if webhooks of this server are not verified.
    pub fn unverified(&self, provider: Provider) -> Option<&'static str> {
        let (is_missing, key) = match provider {
            Provider::GitHub => (self.github.is_empty(), "webhook.github.secret"),
            Provider::GitLab => (self.gitlab.is_empty(), "webhook.gitlab.secret"),
            Provider::AzureDevOps => (
                self.azure_user.is_empty() && self.azure_password.is_empty(),
                "webhook.azuredevops.username",
            ),
            Provider::Gogs => (self.gogs.is_empty(), "webhook.gogs.secret"),
            Provider::Bitbucket => (self.bitbucket_uuid.is_empty(), "webhook.bitbucket.uuid"),
            Provider::BitbucketServer => {
                (self.bitbucket_server.is_empty(), "webhook.bitbucketserver.secret")
            }
        };
        is_missing.then_some(key)
    }

    /// Whether webhooks of any server are verified.
    fn has_any(&self) -> bool {
        let Self { github, gitlab, azure_user, azure_password, gogs, .. } = self;
        let Self { bitbucket_uuid, bitbucket_server, .. } = self;
        [github, gitlab, azure_user, azure_password, gogs, bitbucket_uuid, bitbucket_server]
            .into_iter()
            .any(|secret| !secret.is_empty())
    }

    /// Verifies a request, in a time that does not depend on the secret.
    ///
    /// # Errors
    ///
    /// [`RefusedWebhook::Secret`]; [`RefusedWebhook::NoSecret`] for a server without a secret, where
    /// another one has one.
    pub fn verify(
        &self,
        provider: Provider,
        header: &dyn Fn(&str) -> Option<String>,
        body: &[u8],
    ) -> Result<(), RefusedWebhook> {
        if let Some(key) = self.unverified(provider) {
            // Else a header of another server would be the way around the secret.
            return match self.has_any() {
                true => Err(RefusedWebhook::NoSecret(provider.name(), key)),
                false => Ok(()),
            };
        }
        let is_right = match provider {
            Provider::GitHub => self.is_signed(header, body),
            Provider::GitLab => {
                header("x-gitlab-token").is_some_and(|token| same(token.as_bytes(), &self.gitlab))
            }
            Provider::AzureDevOps => self.has_password(header),
            Provider::Gogs => {
                let signature = header("x-gogs-signature").unwrap_or_default();
                has_signature(hmac::HMAC_SHA256, &self.gogs, body, &signature)
            }
            Provider::Bitbucket => {
                let plain = |uuid: &[u8]| {
                    let text = String::from_utf8_lossy(uuid).into_owned();
                    text.trim().trim_matches(['{', '}']).to_owned()
                };
                let (given, wanted) = (header("x-hook-uuid"), plain(&self.bitbucket_uuid));
                given.is_some_and(|uuid| same(plain(uuid.as_bytes()).as_bytes(), wanted.as_bytes()))
            }
            Provider::BitbucketServer => {
                let text = header("x-hub-signature").unwrap_or_default();
                let signature = text.strip_prefix("sha256=").unwrap_or_default();
                has_signature(hmac::HMAC_SHA256, &self.bitbucket_server, body, signature)
            }
        };
        if is_right { Ok(()) } else { Err(RefusedWebhook::Secret(provider.name())) }
    }

    /// The signature with SHA-256 counts when both are there.
    fn is_signed(&self, header: &dyn Fn(&str) -> Option<String>, body: &[u8]) -> bool {
        let (algorithm, signature) = match header("x-hub-signature-256") {
            Some(text) => (hmac::HMAC_SHA256, text.strip_prefix("sha256=").map(str::to_owned)),
            None => {
                let text = header("x-hub-signature").unwrap_or_default();
                let signature = text.strip_prefix("sha1=").map(str::to_owned);
                (hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, signature)
            }
        };
        signature.is_some_and(|hex| has_signature(algorithm, &self.github, body, &hex))
    }

    fn has_password(&self, header: &dyn Fn(&str) -> Option<String>) -> bool {
        let given = header("authorization").unwrap_or_default();
        let given = given.strip_prefix("Basic ").and_then(|text| STANDARD.decode(text.trim()).ok());
        let wanted = [self.azure_user.as_slice(), b":", &self.azure_password].concat();
        given.is_some_and(|given| same(&given, &wanted))
    }
}

/// Whether a body has a signature, which is hexadecimal.
fn has_signature(algorithm: hmac::Algorithm, secret: &[u8], body: &[u8], hex: &str) -> bool {
    let signature = data_encoding::HEXLOWER_PERMISSIVE.decode(hex.as_bytes());
    let key = hmac::Key::new(algorithm, secret);
    signature.is_ok_and(|signature| hmac::verify(&key, body, &signature).is_ok())
}

/// Compares by signatures with the same key, so that the time shows nothing about the text.
fn same(given: &[u8], wanted: &[u8]) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA256, wanted);
    hmac::verify(&key, given, hmac::sign(&key, wanted).as_ref()).is_ok()
}
