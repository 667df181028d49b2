//! Tokens of GitHub Apps: a signed claim to be the app is exchanged for a token of its
//! installation.

use http::header::AUTHORIZATION;
use serde::Deserialize;
use serde_json::json;

use super::failure::Failure;
use super::http::{Api, segment};
use super::objects::text_of;
use super::{Asker, Providers, github};
use crate::desired::queries::Provider;
use crate::jwt::{self, BadKey};
use crate::redact;

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
) -> Result<Api, Failure> {
    let namespace = &asker.control_plane;
    let found = providers.objects.secret(namespace, secret).await?;
    let place = format!("Secret {namespace}/{secret}");
    let text = |key: &str| {
        let text = text_of(&found, key).map(|text| text.trim().to_owned());
        text.ok_or_else(|| Failure::new(format!("{place}: has no key {key}")))
    };
    let id = text("githubAppID")?;
    let claim = claim(&id, &text("githubAppPrivateKey")?, providers.clock.now().as_second())
        .map_err(|why| Failure::new(format!("{place}: githubAppPrivateKey: {why}")))?;
    let enterprise = text("githubAppEnterpriseBaseUrl").unwrap_or_default();
    let address = if provider.api.is_empty() { enterprise } else { provider.api.clone() };
    let base = github::base(&address);
    let as_app = providers.open(provider, &base, asker).await?;
    let as_app = github::headers(as_app)?.with(AUTHORIZATION, &format!("Bearer {claim}"))?;
    let installation = match text("githubAppInstallationID").unwrap_or_default() {
        id if !matches!(id.as_str(), "" | "0") => id,
        _ => {
            let path = format!("/orgs/{}/installation", segment(owner));
            let found = as_app.get(&path).await;
            let found = found.map_err(|failure| failure.of("GitHub App"))?;
            found.json::<Installation>()?.id.to_string()
        }
    };
    let path = format!("/app/installations/{}/access_tokens", segment(&installation));
    let token = as_app.post(&path, &json!({})).await;
    let Token { token } = token.map_err(|failure| failure.of("GitHub App"))?.json()?;
    redact::know_secret(&token);
    let api = providers.open(provider, &base, asker).await?;
    github::headers(api)?.with(AUTHORIZATION, &format!("Bearer {token}"))
}

#[derive(Deserialize)]
struct Installation {
    id: u64,
}

#[derive(Deserialize)]
struct Token {
    token: String,
}

/// The signed claim to be an app: a JSON Web Token.
fn claim(id: &str, key: &str, now: i64) -> Result<String, String> {
    let claims = json!({"iat": now - SKEW_SECONDS, "exp": now + VALID_SECONDS, "iss": id});
    jwt::signed(key, &claims).map_err(|bad| match bad {
        BadKey::NoPem => "is no private key as PEM".to_owned(),
        BadKey::OtherKind => "is not an RSA key".to_owned(),
        BadKey::Rejected(_) => "is not an RSA key of 2048 bits or more".to_owned(),
        BadKey::TooLarge | BadKey::Unusable => bad.to_string(),
    })
}
