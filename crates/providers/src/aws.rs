//! Requests to AWS: credentials, and signatures of version 4.

use std::time::Duration;

use data_encoding::HEXLOWER;
use http::HeaderMap;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use ring::hmac;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::failure::ProviderError;
use super::http::{Api, Reply, segment};
use super::login::trust;
use super::providers::{Asker, Providers};
use wavegate_net::connect::Proxy;
use wavegate_net::redact;

/// Name of the sessions of roles.
const SESSION: &str = "wavegate";
/// The address that gives credentials to containers.
const CONTAINER: &str = "http://169.254.170.2";

/// The pauses before a request is sent again that was one too many.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
];

/// Who signs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    pub key_id: String,
    pub secret: String,
    /// Of temporary credentials; empty otherwise.
    pub session: String,
}

/// A service of AWS in a region.
#[derive(Debug)]
pub(super) struct Service {
    pub api: Api,
    pub name: &'static str,
    pub region: String,
    pub identity: Identity,
}

/// The region: that of the generator, else that of the controller.
pub(super) fn region(providers: &Providers, written: &str) -> Result<String, ProviderError> {
    let own = ["AWS_REGION", "AWS_DEFAULT_REGION"].into_iter();
    let own = own.filter_map(|name| providers.variable(name)).next();
    let region = Some(written).filter(|region| !region.is_empty()).or(own);
    let Some(region) = region else {
        return Err(ProviderError::new("region: is missing, and AWS_REGION is not set"));
    };
    // It becomes a part of the host.
    match region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        true => Ok(region.to_owned()),
        false => Err(ProviderError::new(format!("region: {region:?} is not a region"))),
    }
}

/// The API of a service.
pub(super) fn api(
    providers: &Providers,
    service: &str,
    region: &str,
    asker: &Asker,
    pem: Option<&str>,
) -> Result<Api, ProviderError> {
    let own = format!("AWS_ENDPOINT_URL_{}", service.to_ascii_uppercase());
    let endpoint = providers.variable(&own).or_else(|| providers.variable("AWS_ENDPOINT_URL"));
    let suffix = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    let public = format!("https://{service}.{region}.{suffix}");
    let base = endpoint.unwrap_or(&public);
    let tls = trust(pem, false).map_err(ProviderError::new)?;
    Api::new(base, tls, &providers.proxy, asker.limits.clone(), providers.clock.clone())
}

/// The identity for a role, or that of the controller when it is empty.
pub(super) async fn identity(
    providers: &Providers,
    role: &str,
    region: &str,
    asker: &Asker,
) -> Result<Identity, ProviderError> {
    let pem = providers.root_ca().await?;
    let pem = pem.as_deref();
    let own = own_identity(providers, region, asker, pem).await?;
    if role.is_empty() {
        return Ok(own);
    }
    let api = api(providers, "sts", region, asker, pem)?;
    let sts = Service { api, name: "sts", region: region.to_owned(), identity: own };
    let body = format!(
        "Action=AssumeRole&Version=2011-06-15&RoleArn={}&RoleSessionName={SESSION}",
        segment(role)
    );
    let reply = sts.post("application/x-www-form-urlencoded; charset=utf-8", "", body).await;
    temporary(&reply.map_err(|failure| failure.of(&format!("role {role}")))?)
}

async fn own_identity(
    providers: &Providers,
    region: &str,
    asker: &Asker,
    pem: Option<&str>,
) -> Result<Identity, ProviderError> {
    let variable = |name: &str| providers.variable(name);
    if let (Some(key_id), Some(secret)) =
        (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY"))
    {
        let session = variable("AWS_SESSION_TOKEN").unwrap_or_default();
        return Ok(known(key_id, secret, session));
    }
    let file = async |path: &str| {
        let read = tokio::fs::read_to_string(path).await;
        read.map_err(|error| ProviderError::new(format!("{path}: {error}")))
    };
    if let (Some(path), Some(role)) =
        (variable("AWS_WEB_IDENTITY_TOKEN_FILE"), variable("AWS_ROLE_ARN"))
    {
        let token = file(path).await?;
        redact::know_secret(token.trim());
        let body = format!(
            "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn={}&RoleSessionName={}\
             &WebIdentityToken={}",
            segment(role),
            segment(variable("AWS_ROLE_SESSION_NAME").unwrap_or(SESSION)),
            segment(token.trim())
        );
        let form = HeaderValue::from_static("application/x-www-form-urlencoded; charset=utf-8");
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, form)]);
        let api = api(providers, "sts", region, asker, pem)?;
        let sent = retried(&api, || api.post_raw("/", headers.clone(), body.clone())).await;
        return temporary(&sent.map_err(|failure| failure.of(&format!("role {role}")))?);
    }
    let relative = variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    let full = variable("AWS_CONTAINER_CREDENTIALS_FULL_URI").map(str::to_owned);
    let address = relative.map(|path| format!("{CONTAINER}{path}")).or(full);
    if let Some(address) = address {
        let tls = trust(pem, false).map_err(ProviderError::new)?;
        // The address is on this machine, for which there is no proxy.
        let direct = Proxy::default();
        let mut api =
            Api::new(&address, tls, &direct, asker.limits.clone(), providers.clock.clone())?;
        let token = match variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") {
            Some(path) => Some(file(path).await?),
            None => variable("AWS_CONTAINER_AUTHORIZATION_TOKEN").map(str::to_owned),
        };
        if let Some(token) = token {
            redact::know_secret(token.trim());
            api = api.with(AUTHORIZATION, token.trim())?;
        }
        let found: Container = api.get("").await?.json()?;
        return Ok(known(&found.access_key_id, &found.secret_access_key, &found.token));
    }
    Err(ProviderError::new(
        "the controller has no AWS identity: none of AWS_WEB_IDENTITY_TOKEN_FILE with \
         AWS_ROLE_ARN, AWS_CONTAINER_CREDENTIALS_FULL_URI, and AWS_ACCESS_KEY_ID with \
         AWS_SECRET_ACCESS_KEY is set; the identity of the machine is not used",
    ))
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Container {
    access_key_id: String,
    secret_access_key: String,
    token: String,
}

fn known(key_id: &str, secret: &str, session: &str) -> Identity {
    redact::know_secret(secret);
    redact::know_secret(session);
    Identity { key_id: key_id.to_owned(), secret: secret.to_owned(), session: session.to_owned() }
}

/// The credentials in an answer of the token service, which is XML without attributes.
fn temporary(reply: &Reply) -> Result<Identity, ProviderError> {
    let text = reply.text();
    let element = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        Some(rest.split_once(&format!("</{name}>"))?.0.trim().to_owned())
    };
    let all = (element("AccessKeyId"), element("SecretAccessKey"), element("SessionToken"));
    match all {
        (Some(key_id), Some(secret), Some(session)) => Ok(known(&key_id, &secret, &session)),
        _ => Err(ProviderError::new("the AWS token service gave no credentials")),
    }
}

/// Sends a request, and again after a pause when it was one too many.
async fn retried<F>(api: &Api, send: impl Fn() -> F) -> Result<Reply, ProviderError>
where
    F: Future<Output = Result<Reply, ProviderError>>,
{
    for pause in PAUSES {
        match send().await {
            Err(failure) if failure.is_throttled() => tokio::time::sleep(pause).await,
            answered => return answered,
        }
    }
    match send().await {
        Err(failure) if failure.is_throttled() => Err(api.limited()),
        answered => answered,
    }
}

impl Service {
    /// Calls an operation of a service with JSON.
    pub async fn call(&self, target: &str, body: &Value) -> Result<Reply, ProviderError> {
        self.post("application/x-amz-json-1.1", target, body.to_string()).await
    }

    async fn post(&self, kind: &str, target: &str, body: String) -> Result<Reply, ProviderError> {
        retried(&self.api, || self.post_once(kind, target, body.clone())).await
    }

    async fn post_once(
        &self,
        kind: &str,
        target: &str,
        body: String,
    ) -> Result<Reply, ProviderError> {
        let uri: http::Uri = self.api.base().parse().unwrap_or_default();
        let host = uri.authority().map(ToString::to_string).unwrap_or_default();
        let path = match uri.path() {
            "" => "/",
            path => path,
        };
        let mut headers = vec![
            ("content-type", kind.to_owned()),
            ("host", host),
            ("x-amz-date", stamp(self.api.now())),
        ];
        if !self.identity.session.is_empty() {
            headers.push(("x-amz-security-token", self.identity.session.clone()));
        }
        if !target.is_empty() {
            headers.push(("x-amz-target", target.to_owned()));
        }
        let request = Signed {
            method: "POST",
            path,
            query: "",
            headers: &headers,
            body: body.as_bytes(),
            region: &self.region,
            service: self.name,
        };
        let authorization = request.authorization(&self.identity);
        let invalid =
            |_| ProviderError::new("AWS: a credential cannot be sent: it has a line break");
        let mut all = HeaderMap::new();
        for (name, value) in &headers {
            let value = HeaderValue::try_from(value.as_str()).map_err(invalid)?;
            all.insert(HeaderName::from_static(name), value);
        }
        all.insert(AUTHORIZATION, HeaderValue::try_from(authorization).map_err(invalid)?);
        let path = if uri.path() == "/" { "/" } else { "" };
        self.api.post_raw(path, all, body).await
    }
}

fn stamp(now: Timestamp) -> String {
    now.to_zoned(TimeZone::UTC).strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// A request that is signed. The headers have lower-case names in their order, `x-amz-date`
/// among them.
struct Signed<'a> {
    method: &'a str,
    path: &'a str,
    query: &'a str,
    headers: &'a [(&'a str, String)],
    body: &'a [u8],
    region: &'a str,
    service: &'a str,
}

impl Signed<'_> {
    fn authorization(&self, identity: &Identity) -> String {
        let date = self.headers.iter().find(|(name, _)| *name == "x-amz-date");
        let date = date.map(|(_, date)| date.as_str()).unwrap_or_default();
        let day = date.get(..8).unwrap_or_default();
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| *name).collect();
        let names = names.join(";");
        let headers: String =
            self.headers.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
        let canonical = format!(
            "{}\n{}\n{}\n{headers}\n{names}\n{}",
            self.method,
            self.path,
            self.query,
            HEXLOWER.encode(&Sha256::digest(self.body))
        );
        let scope = format!("{day}/{}/{}/aws4_request", self.region, self.service);
        let digest = HEXLOWER.encode(&Sha256::digest(canonical));
        let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{digest}");
        let sign = |key: &[u8], text: &str| {
            let key = hmac::Key::new(hmac::HMAC_SHA256, key);
            hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
        };
        let mut key = sign(format!("AWS4{}", identity.secret).as_bytes(), day);
        for part in [self.region, self.service, "aws4_request"] {
            key = sign(&key, part);
        }
        let signature = HEXLOWER.encode(&sign(&key, &text));
        format!(
            "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, Signature={signature}",
            identity.key_id
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published test suite of AWS, `get-vanilla`, `post-vanilla` and
    /// `get-vanilla-query-order-key-case`.
    #[test]
    fn signatures_are_those_of_the_published_vectors() {
        let identity = Identity {
            key_id: "AKIDEXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned(),
            session: String::new(),
        };
        let headers = [
            ("host", "example.amazonaws.com".to_owned()),
            ("x-amz-date", "20150830T123600Z".to_owned()),
        ];
        let cases = [
            ("GET", "", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
            ("POST", "", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
            (
                "GET",
                "Param1=value1&Param2=value2",
                "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            ),
        ];
        for (method, query, want) in cases {
            let signed = Signed {
                method,
                path: "/",
                query,
                headers: &headers,
                body: b"",
                region: "us-east-1",
                service: "service",
            };
            assert_eq!(
                signed.authorization(&identity),
                format!(
                    "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
                     SignedHeaders=host;x-amz-date, Signature={want}"
                )
            );
        }
    }
}
