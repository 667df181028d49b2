//! Tokens of GitHub Apps: a signed claim to be the app is exchanged for a token of its
//! installation, which serves all queries until shortly before it expires.

use std::sync::Arc;

use http::header::AUTHORIZATION;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;

use super::app_token::{Installation, Kept, Key, digest};
use super::failure::ProviderError;
use super::github;
use super::http::{Api, segment};
use super::objects::text_of;
use super::providers::{Asker, Providers};
use wavegate_net::jwt::{self, BadKey};
use wavegate_net::redact;
use wavegate_net::token_cache::{KEPT_AT_MOST, is_token};
use wavegate_rollout::desired::queries::Provider;

/// How long a claim is valid; GitHub accepts ten minutes.
const VALID_SECONDS: i64 = 540;
/// How far clocks may differ.
const SKEW_SECONDS: i64 = 60;

/// The API of GitHub with the token of an app, whose credentials are in a Secret of the
/// control plane.
pub(super) async fn api(
    providers: &Providers,
    provider: &Provider,
    secret: &str,
    owner: &str,
    asker: &Asker,
) -> Result<Api, ProviderError> {
    let namespace = &asker.control_plane;
    let found = providers.objects.secret(namespace, secret).await?;
    let place = format!("Secret {namespace}/{secret}");
    let text = |key: &str| {
        let text = text_of(&found, key).map(|text| text.trim().to_owned());
        text.ok_or_else(|| ProviderError::new(format!("{place}: has no key {key}")))
    };
    let (app, private) = (text("githubAppID")?, text("githubAppPrivateKey")?);
    let installation = match text("githubAppInstallationID").unwrap_or_default() {
        id if !matches!(id.as_str(), "" | "0") => Installation::Id(id),
        _ => Installation::OfOwner(owner.to_owned()),
    };
    let enterprise = text("githubAppEnterpriseBaseUrl").unwrap_or_default();
    let address = if provider.api.is_empty() { enterprise } else { provider.api.clone() };
    let base = github::base(&address);
    let api = github::headers(providers.open(provider, &base, asker).await?)?;
    let key = Key { app, digest: digest(&private), installation, base };
    let fresh = async {
        let claim = claim(&key.app, &private, providers.clock.now().as_second())
            .map_err(|why| ProviderError::new(format!("{place}: githubAppPrivateKey: {why}")))?;
        let as_app = providers.open(provider, &key.base, asker).await?;
        let as_app = github::headers(as_app)?.with(AUTHORIZATION, &format!("Bearer {claim}"))?;
        token(&as_app, &key.installation).await
    };
    let token = providers.tokens.get(key.clone(), || providers.clock.now(), fresh).await?;
    let kept = Kept { tokens: Arc::clone(&providers.tokens), key, digest: digest(&token) };
    Ok(api.with(AUTHORIZATION, &format!("Bearer {token}"))?.with_kept(kept))
}

/// Asks for the token of an installation; returns when it expires, too.
async fn token(
    as_app: &Api,
    installation: &Installation,
) -> Result<(String, Timestamp), ProviderError> {
    let installation = match installation {
        Installation::Id(id) => id.clone(),
        Installation::OfOwner(owner) => {
            let path = format!("/orgs/{}/installation", segment(owner));
            let found = as_app.get(&path).await;
            let found = found.map_err(|failure| failure.of("GitHub App"))?;
            found.json::<Found>()?.id.to_string()
        }
    };
    let path = format!("/app/installations/{}/access_tokens", segment(&installation));
    let reply = as_app.post(&path, &json!({})).await;
    let Token { token, expires_at } = reply.map_err(|failure| failure.of("GitHub App"))?.json()?;
    if !is_token(&token) {
        return Err(ProviderError::new(format!(
            "GitHub App: {}{path}: the answer has no token",
            as_app.base()
        )));
    }
    redact::know_secret(&token);
    let hour = || as_app.now().checked_add(KEPT_AT_MOST).unwrap_or(Timestamp::MAX);
    Ok((token, expires_at.and_then(|text| text.parse().ok()).unwrap_or_else(hour)))
}

#[derive(Deserialize)]
struct Found {
    id: u64,
}

#[derive(Deserialize)]
struct Token {
    token: String,
    #[serde(default)]
    expires_at: Option<String>,
}

/// The signed claim to be an app: a JSON Web Token.
fn claim(id: &str, key: &str, now: i64) -> Result<String, String> {
    let claims = json!({"iat": now - SKEW_SECONDS, "exp": now + VALID_SECONDS, "iss": id});
    jwt::sign_token(key, &claims).map_err(|bad| match bad {
        BadKey::NoPem => "is no private key as PEM".to_owned(),
        BadKey::OtherKind => "is not an RSA key".to_owned(),
        BadKey::Rejected(_) => "is not an RSA key of 2048 bits or more".to_owned(),
        BadKey::TooLarge | BadKey::Unusable => bad.to_string(),
    })
}
