//! Tokens that identities are exchanged for before a repository is read.
//!
//! A token is kept until shortly before it expires, and forgotten when a server refuses it.
//! Neither keys nor tokens are logged, and each token is hidden in all output.

use std::time::Duration;

use http::{Method, StatusCode};
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::error::SourceError;
use crate::git::address::{Address, Transport};
use crate::http::client::{HttpRequest, HttpResponse, TransportError, ask};
use crate::http::credentials::RepoCredentials;
use crate::http::identity::RepoIdentity;
use crate::limits::SourceSettings;
use wavegate_api::read_leniently;
use wavegate_api::repository::RepositoryUrl;
use wavegate_net::jwt;
use wavegate_net::redact;
use wavegate_net::token_cache::{KEPT_AT_MOST, TokenCache, is_token};

/// The API of GitHub itself.
const GITHUB: &str = "https://api.github.com";
/// The audience of Azure DevOps.
const AZURE_DEVOPS: &str = "499b84ac-1321-427f-aa17-267ca6975798/.default";
/// The server of tokens of Azure's public cloud.
const AZURE: &str = "https://login.microsoftonline.com";
/// The access to Google Cloud that Argo CD asks for.
const GOOGLE: &str = "https://www.googleapis.com/auth/cloud-platform \
                      https://www.googleapis.com/auth/userinfo.email";
/// Timeout of all requests for one token.
const ALL_WITHIN: Duration = Duration::from_secs(60);
/// The most pages of installations that are read, of 100 each.
const MAX_PAGES: usize = 50;
/// Longest part of an answer in an error, in characters.
const DETAIL: usize = 200;
/// The largest file with a token of Kubernetes, in bytes.
const MAX_TOKEN_FILE: u64 = 64 << 10;

/// A user name with a password, or a token.
#[derive(Clone)]
struct Token {
    username: String,
    password: String,
    bearer: String,
}

/// A token, and when it expires.
type Fresh = (Token, Timestamp);

impl Token {
    fn new(username: &str, password: &str, bearer: &str) -> Self {
        redact::know_secret(password);
        redact::know_secret(bearer);
        let [username, password, bearer] = [username, password, bearer].map(str::to_owned);
        Self { username, password, bearer }
    }
}

/// The key of a token: credentials, and the owner of the repository where it matters.
type Key = ([u8; 32], String);

/// The tokens of this process.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    known: TokenCache<Key, Token, NoToken>,
}

impl Tokens {
    /// The credentials with the token of their identity in place of it; `None` when they have
    /// no identity.
    ///
    /// # Errors
    ///
    /// [`SourceError::Refused`] when there is no token for this identity, and
    /// [`SourceError::Unreachable`] when its server does not answer.
    pub(crate) async fn exchanged(
        &self,
        address: &Address,
        credentials: &RepoCredentials,
        settings: &SourceSettings,
    ) -> Result<Option<RepoCredentials>, SourceError> {
        let Some(identity) = &credentials.identity else { return Ok(None) };
        match address.transport {
            Transport::Http { .. } => {}
            Transport::Local(_) => return Ok(None),
            Transport::Ssh => {
                let why = "it is for https; write the URL of the repository with https";
                return Err(NoToken::Refused(why.to_owned()).of(address, identity));
            }
        }
        let fresh = async {
            tracing::debug!(repository = address.shown, "asking for a token");
            let server = Server::new(credentials, settings);
            let fresh = token(identity, address, &server);
            tokio::time::timeout(ALL_WITHIN, fresh).await.unwrap_or_else(|_| {
                let limit = ALL_WITHIN.as_secs();
                Err(NoToken::Unreachable(format!("there is no token after {limit} s")))
            })
        };
        let key = key(address, credentials, identity);
        let token = self.known.get(key, Timestamp::now, fresh).await;
        let token = token.map_err(|failed| failed.of(address, identity))?;
        Ok(Some(RepoCredentials {
            username: token.username,
            password: token.password,
            bearer_token: token.bearer,
            identity: None,
            ..credentials.clone()
        }))
    }

    /// Forgets a token that a server has refused.
    pub(crate) async fn forget(&self, address: &Address, credentials: &RepoCredentials) {
        if let Some(identity) = &credentials.identity {
            self.known.forget(key(address, credentials, identity), |_| true).await;
        }
    }
}

fn key(address: &Address, credentials: &RepoCredentials, identity: &RepoIdentity) -> Key {
    let owner = match identity {
        // Each owner of repositories has its own installation.
        RepoIdentity::GitHubApp { installation, .. } if installation.is_empty() => {
            repository(address).map(|(owner, _)| owner.to_lowercase()).unwrap_or_default()
        }
        _ => String::new(),
    };
    (credentials.fingerprint(), owner)
}

/// Why there is no token.
#[derive(Clone)]
enum NoToken {
    /// The identity or its settings are wrong, or it is refused.
    Refused(String),
    /// Its server does not answer, or has no time.
    Unreachable(String),
}

impl NoToken {
    fn of(self, address: &Address, identity: &RepoIdentity) -> SourceError {
        let (Self::Refused(why) | Self::Unreachable(why)) = &self;
        let detail = redact::redact_text(&format!("{}: {why}", identity.name())).into_owned();
        match self {
            Self::Refused(_) => SourceError::refused(&address.shown, detail),
            Self::Unreachable(_) => SourceError::unreachable(&address.shown, detail),
        }
    }
}

async fn token(
    identity: &RepoIdentity,
    address: &Address,
    server: &Server,
) -> Result<Fresh, NoToken> {
    match identity {
        RepoIdentity::GitHubApp { app, installation, key, api } => {
            github(server, address, (app, installation), key, api).await
        }
        RepoIdentity::GoogleServiceAccount(key) => google(server, key).await,
        RepoIdentity::AzureWorkload => azure_workload(server).await,
        RepoIdentity::AzureServicePrincipal { tenant, client, secret, endpoint } => {
            azure_principal(server, (tenant, client, secret), endpoint).await
        }
    }
}

/// How the server of tokens is reached: as the repository is.
struct Server {
    credentials: RepoCredentials,
    allow_http: bool,
}

impl Server {
    fn new(credentials: &RepoCredentials, settings: &SourceSettings) -> Self {
        let mut credentials = credentials.clone();
        let variable = |name: &str| {
            let values = [name.to_lowercase(), name.to_owned()];
            let mut values = values.iter().filter_map(|name| settings.environment.get(name));
            values.find(|value| !value.is_empty()).cloned().unwrap_or_default()
        };
        if credentials.proxy.is_empty() {
            credentials.proxy = variable("HTTPS_PROXY");
            credentials.no_proxy = variable("NO_PROXY");
        }
        Self { credentials, allow_http: settings.allow.http }
    }

    async fn ask(&self, request: &HttpRequest<'_>) -> Result<HttpResponse, NoToken> {
        let host = host(request.url);
        let said = ask(request, &self.credentials, self.allow_http).await;
        let said = said.map_err(|failed| match failed {
            TransportError::Unusable(why) => NoToken::Refused(format!("{host}: {why}")),
            TransportError::Untrusted(why) => NoToken::Refused(format!(
                "the certificate of {host} is not trusted ({why}): add that of its CA to the \
                 ConfigMap argocd-tls-certs-cm, with the host of the repository as the key"
            )),
            TransportError::Unreachable(why) => NoToken::Unreachable(format!("{host}: {why}")),
            TransportError::TooLarge(limit) => {
                NoToken::Refused(format!("{host}: the answer is over the limit of {limit}"))
            }
        })?;
        let busy = said.status.is_server_error() || said.status == StatusCode::TOO_MANY_REQUESTS;
        // GitHub answers 403 to those who ask too often.
        let spent = said.headers.get("x-ratelimit-remaining").is_some_and(|left| left == "0");
        if busy || (said.status == StatusCode::FORBIDDEN && spent) {
            return Err(NoToken::Unreachable(format!("{host} answers {}", said.status.as_u16())));
        }
        Ok(said)
    }

    /// The document of an answer that succeeded.
    fn json<T>(&self, url: &str, said: &HttpResponse) -> Result<T, NoToken>
    where
        T: DeserializeOwned + Default,
    {
        let host = host(url);
        if !said.status.is_success() {
            let why = reason(&said.body);
            let status = said.status.as_u16();
            return Err(NoToken::Refused(format!("{host} answers {status}: {why}")));
        }
        let document: Value = serde_json::from_slice(&said.body)
            .map_err(|_| NoToken::Refused(format!("{host}: the answer is no JSON")))?;
        Ok(read_leniently(&document))
    }
}

/// The host of a URL, for messages.
fn host(url: &str) -> String {
    RepositoryUrl::of(url).host
}

/// An answer without success.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Refusal {
    message: Option<String>,
    error_description: Option<String>,
    error: Option<String>,
}

/// An answer with a token of GitHub.
#[derive(Default, Deserialize)]
#[serde(default)]
struct InstallationToken {
    token: String,
    expires_at: String,
}

/// An installation of a GitHub App.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Installation {
    id: Option<u64>,
    account: Option<Account>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Account {
    login: String,
}

/// An answer with a token of OAuth 2.0.
#[derive(Default, Deserialize)]
#[serde(default)]
struct OAuthToken {
    access_token: String,
    /// In seconds, as a number or as text.
    expires_in: Value,
}

/// The key of a service account of Google.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ServiceAccountKey {
    r#type: String,
    client_email: String,
    token_uri: String,
    private_key: String,
}

/// What a server says about a refusal.
fn reason(body: &[u8]) -> String {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let Refusal { message, error_description, error } = read_leniently(&value);
    let text = message.or(error_description).or(error);
    let text = text.unwrap_or_else(|| "no reason".to_owned());
    text.chars().filter(|c| !c.is_control()).take(DETAIL).collect()
}

/// Owner and name of a repository on a GitHub server.
fn repository(address: &Address) -> Option<(String, String)> {
    let path = RepositoryUrl::of(&address.url).path;
    let mut parts = path.rsplitn(2, '/');
    let (name, owner) = (parts.next()?, parts.next()?);
    let plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    (plain(name) && plain(owner)).then(|| (owner.to_owned(), name.to_owned()))
}

async fn github(
    server: &Server,
    address: &Address,
    (app, installation): (&str, &str),
    key: &str,
    api: &str,
) -> Result<Fresh, NoToken> {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    // The name of a client may be used in place of the number of an App.
    let plain = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b));
    if app.is_empty() || !plain(app) {
        return Err(NoToken::Refused("it is not the ID of a GitHub App".to_owned()));
    }
    if !installation.is_empty() && !number(installation) {
        return Err(NoToken::Refused("githubAppInstallationID is no number".to_owned()));
    }
    let api = if api.is_empty() { GITHUB } else { api.trim_end_matches('/') };
    let now = Timestamp::now().as_second();
    // Clocks differ; a token of more than ten minutes is refused.
    let claims = json!({"iat": now - 60, "exp": now + 540, "iss": app});
    let signed = jwt::sign_token(key, &claims)
        .map_err(|why| NoToken::Refused(format!("githubAppPrivateKey {why}")))?;
    let headers = [
        ("authorization", format!("Bearer {signed}")),
        ("accept", "application/vnd.github+json".to_owned()),
        ("x-github-api-version", "2022-11-28".to_owned()),
    ];
    let found = match installation {
        "" => installation_of(server, address, api, &headers).await?,
        given => given.to_owned(),
    };
    let url = format!("{api}/app/installations/{found}/access_tokens");
    let request = HttpRequest { method: Method::POST, url: &url, headers: &headers, body: None };
    let said = server.ask(&request).await?;
    let InstallationToken { token, expires_at } = server.json(&url, &said)?;
    if !is_token(&token) {
        return Err(NoToken::Refused(format!("{}: the answer has no token", host(&url))));
    }
    let expires = expires_at.parse().unwrap_or_else(|_| Timestamp::now() + KEPT_AT_MOST);
    Ok((Token::new("x-access-token", &token, ""), expires))
}

/// The installation of the App that may read the repository: the one that GitHub names for it,
/// else that of its owner.
async fn installation_of(
    server: &Server,
    address: &Address,
    api: &str,
    headers: &[(&'static str, String)],
) -> Result<String, NoToken> {
    let Some((owner, name)) = repository(address) else {
        let why = "githubAppInstallationID is missing, and the URL of the repository names no \
                   owner whose installation could be used";
        return Err(NoToken::Refused(why.to_owned()));
    };
    let get = async |url: &str| {
        let request = HttpRequest { method: Method::GET, url, headers, body: None };
        server.ask(&request).await
    };
    let url = format!("{api}/repos/{owner}/{name}/installation");
    let said = get(&url).await?;
    if said.status.is_success()
        && let Installation { id: Some(id), .. } = server.json(&url, &said)?
    {
        return Ok(id.to_string());
    }
    for page in 1..=MAX_PAGES {
        let url = format!("{api}/app/installations?per_page=100&page={page}");
        let listed: Vec<Installation> = server.json(&url, &get(&url).await?)?;
        let of_owner = |found: &&Installation| {
            found.account.as_ref().is_some_and(|one| one.login.eq_ignore_ascii_case(&owner))
        };
        if let Some(id) = listed.iter().find(of_owner).and_then(|found| found.id) {
            return Ok(id.to_string());
        }
        if listed.len() < 100 {
            break;
        }
    }
    Err(NoToken::Refused(format!(
        "the App is not installed for {owner}: install it, or name the installation with \
         githubAppInstallationID"
    )))
}

/// The token of an answer of OAuth 2.0, and when it expires.
fn oauth(url: &str, answer: OAuthToken) -> Result<(String, Timestamp), NoToken> {
    let OAuthToken { access_token, expires_in } = answer;
    if !is_token(&access_token) {
        return Err(NoToken::Refused(format!("{}: the answer has no token", host(url))));
    }
    let of_text = || expires_in.as_str().and_then(|text| text.parse().ok());
    let seconds = expires_in.as_u64().or_else(of_text).unwrap_or(3600).min(86_400);
    Ok((access_token, Timestamp::now() + Duration::from_secs(seconds)))
}

const FORM: &str = "application/x-www-form-urlencoded";

fn form(fields: &[(&str, &str)]) -> String {
    let encode =
        |text| percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC);
    let fields = fields.iter().map(|(name, value)| format!("{name}={}", encode(value)));
    fields.collect::<Vec<_>>().join("&")
}

async fn google(server: &Server, key: &str) -> Result<Fresh, NoToken> {
    let refused = |why: &str| NoToken::Refused(why.to_owned());
    let file: Value = serde_json::from_str(key)
        .map_err(|_| refused("it is not the JSON of a key of a service account"))?;
    let key: ServiceAccountKey = read_leniently(&file);
    if key.r#type != "service_account" {
        let kind: String = key.r#type.chars().filter(|c| !c.is_control()).take(40).collect();
        let why = format!("its type is {kind:?}; only keys of type service_account are supported");
        return Err(NoToken::Refused(why));
    }
    let (email, url) = (key.client_email.as_str(), key.token_uri.as_str());
    let url = if url.is_empty() { "https://oauth2.googleapis.com/token" } else { url };
    if email.is_empty() || !email.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(refused("it has no client_email"));
    }
    let now = Timestamp::now().as_second();
    let claims = json!({"iss": email, "scope": GOOGLE, "aud": url, "iat": now, "exp": now + 3600});
    let signed = jwt::sign_token(&key.private_key, &claims)
        .map_err(|why| NoToken::Refused(format!("its private_key {why}")))?;
    let grant = "urn:ietf:params:oauth:grant-type:jwt-bearer";
    let body = form(&[("grant_type", grant), ("assertion", &signed)]);
    let request = HttpRequest { method: Method::POST, url, headers: &[], body: Some((FORM, body)) };
    let said = server.ask(&request).await?;
    let (token, expires) = oauth(url, server.json(url, &said)?)?;
    Ok((Token::new(email, &token, ""), expires))
}

async fn azure_workload(server: &Server) -> Result<Fresh, NoToken> {
    let variable = |name: &str| {
        let value = std::env::var(name).ok().filter(|value| !value.is_empty());
        value.ok_or_else(|| {
            NoToken::Refused(format!(
                "the variable {name} is not set: label the Pod azure.workload.identity/use: \
                 \"true\" and annotate its ServiceAccount with azure.workload.identity/client-id"
            ))
        })
    };
    let (client, tenant) = (variable("AZURE_CLIENT_ID")?, variable("AZURE_TENANT_ID")?);
    let path = variable("AZURE_FEDERATED_TOKEN_FILE")?;
    let authority = std::env::var("AZURE_AUTHORITY_HOST").ok().filter(|host| !host.is_empty());
    let authority = authority.unwrap_or_else(|| AZURE.to_owned());
    let unreadable = |why: String| {
        NoToken::Refused(format!("the file of AZURE_FEDERATED_TOKEN_FILE cannot be read: {why}"))
    };
    let read = || -> std::io::Result<String> {
        let mut text = String::new();
        let file = std::fs::File::open(&path)?;
        std::io::Read::read_to_string(&mut std::io::Read::take(file, MAX_TOKEN_FILE), &mut text)?;
        Ok(text.trim().to_owned())
    };
    let assertion = read().map_err(|error| unreadable(error.kind().to_string()))?;
    if !is_tenant(&tenant) {
        return Err(NoToken::Refused("AZURE_TENANT_ID is not the ID of a tenant".to_owned()));
    }
    let proof = [
        ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
        ("client_assertion", &assertion),
    ];
    azure(server, &authority, (&tenant, &client), &proof).await
}

async fn azure_principal(
    server: &Server,
    (tenant, client, secret): (&str, &str, &str),
    endpoint: &str,
) -> Result<Fresh, NoToken> {
    if !is_tenant(tenant) {
        let why = "azureServicePrincipalTenantId is not the ID of a tenant";
        return Err(NoToken::Refused(why.to_owned()));
    }
    let authority = if endpoint.is_empty() { AZURE } else { endpoint };
    azure(server, authority, (tenant, client), &[("client_secret", secret)]).await
}

/// Whether a text is the ID or the domain of a tenant of Azure, and stays one segment of a path.
fn is_tenant(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b".-".contains(&b))
        && text.bytes().any(|b| b.is_ascii_alphanumeric())
}

/// A token for Azure DevOps, by whatever proves who the client is.
async fn azure(
    server: &Server,
    authority: &str,
    (tenant, client): (&str, &str),
    proof: &[(&str, &str)],
) -> Result<Fresh, NoToken> {
    let url = format!("{}/{tenant}/oauth2/v2.0/token", authority.trim_end_matches('/'));
    let mut fields =
        vec![("client_id", client), ("scope", AZURE_DEVOPS), ("grant_type", "client_credentials")];
    fields.extend(proof);
    let body = form(&fields);
    let request =
        HttpRequest { method: Method::POST, url: &url, headers: &[], body: Some((FORM, body)) };
    let said = server.ask(&request).await?;
    let (token, expires) = oauth(&url, server.json(&url, &said)?)?;
    Ok((Token::new("", "", &token), expires))
}
