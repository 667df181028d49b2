//! The services of plugin generators.

use std::time::Duration;

use http::header::AUTHORIZATION;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::failure::ProviderError;
use super::http::Api;
use super::login::trust;
use super::objects::text_of;
use super::providers::{Asker, Providers};
use wavegate_net::redact;
use wavegate_rollout::desired::queries::{Answer, Plugin};

/// The Secret of a token that names none.
const DEFAULT_SECRET: &str = "argocd-secret";
/// Timeout of a request, without another one.
const TIMEOUT: u64 = 30;
/// How much shorter than that of the whole query the longest timeout is: the message of that one
/// is about pages.
const BEFORE: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
struct Reply {
    output: Output,
}

#[derive(Deserialize)]
struct Output {
    parameters: Vec<Map<String, Value>>,
}

/// Asks for parameters. ConfigMap and Secret are those of the control plane: who may write
/// there decides which services are asked.
pub(super) async fn ask(
    providers: &Providers,
    query: &Plugin,
    asker: &Asker,
) -> Result<Answer, ProviderError> {
    let namespace = &asker.control_plane;
    let place = format!("ConfigMap {namespace}/{}", query.config_map);
    let data = providers.objects.config_map(namespace, &query.config_map).await?;
    let text = |key: &str| data.get(key).map(|text| text.trim()).unwrap_or_default();
    let base = text("baseUrl");
    if base.is_empty() {
        return Err(ProviderError::new(format!("{place}: has no key baseUrl")));
    }
    let timeout = match text("requestTimeout") {
        "" => TIMEOUT,
        seconds => match seconds.parse::<u64>() {
            Ok(0) => TIMEOUT,
            Ok(seconds) => seconds,
            Err(_) => {
                let text = format!("{place}: requestTimeout: must be a number of seconds");
                return Err(ProviderError::new(text));
            }
        },
    };
    let Some(token) = text("token").strip_prefix('$').filter(|token| !token.is_empty()) else {
        let text = "token: must name a key of a Secret, as $key or $secret:key";
        return Err(ProviderError::new(format!("{place}: {text}")));
    };
    let (secret, key) = token.split_once(':').unwrap_or((DEFAULT_SECRET, token));
    let found = providers.objects.secret(namespace, secret).await?;
    let Some(token) = text_of(&found, key) else {
        return Err(ProviderError::new(format!("Secret {namespace}/{secret}: has no key {key}")));
    };
    redact::know_secret(token.trim());
    let pem = providers.root_ca().await?;
    let tls = trust(pem.as_deref(), false)
        .map_err(|why| ProviderError::new(format!("--scm-root-ca-path: {why}")))?;
    let mut api =
        Api::new(base, tls, &providers.proxy, asker.limits.clone(), providers.clock.clone())?
            .with(AUTHORIZATION, &format!("Bearer {}", token.trim()))?;
    let longest = providers.settings.query_timeout.saturating_sub(BEFORE);
    api.timeout = Duration::from_secs(timeout).min(longest.max(Duration::from_secs(1)));
    let parameters: Value = serde_json::from_str(&query.parameters).unwrap_or_default();
    let body = json!({
        "applicationSetName": asker.set.name,
        "input": {"parameters": parameters},
    });
    let reply = api.post("/api/v1/getparams.execute", &body).await?;
    // Without the list it is no answer: an empty one would delete what there is.
    let Reply { output } = reply.json()?;
    Ok(Answer::Parameters(output.parameters))
}
