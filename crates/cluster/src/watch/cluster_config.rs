//! The `config` of a cluster Secret: what is in it, and the client that it makes.
//!
//! No error contains a value.

use std::sync::Arc;

use base64::Engine;
use kube::config::{
    AuthInfo, Cluster as KubeCluster, Context, KubeConfigOptions, Kubeconfig, NamedAuthInfo,
    NamedCluster, NamedContext,
};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::connection::{self, UnusableConnection};
use super::exec_credentials::{self, Call, ExecCredentials, ProgramFields, Runner};
use wavegate_api::read_leniently;
use wavegate_net::clock::Clock;
use wavegate_net::redact;

/// The type of a field.
#[derive(Clone, Copy)]
enum Type {
    Text,
    Flag,
    Fields(&'static [(&'static str, Type)]),
    /// Found out where it is used.
    Any,
}

/// What is read. Every field is named once more where it is used.
const FIELDS: &[(&str, Type)] = &[
    ("username", Type::Text),
    ("password", Type::Text),
    ("bearerToken", Type::Text),
    ("tlsClientConfig", Type::Fields(TLS)),
    ("awsAuthConfig", Type::Fields(AWS)),
    ("execProviderConfig", Type::Fields(EXEC)),
    ("disableCompression", Type::Flag),
    ("proxyUrl", Type::Text),
];

const TLS: &[(&str, Type)] = &[
    ("insecure", Type::Flag),
    ("serverName", Type::Text),
    ("certData", Type::Text),
    ("keyData", Type::Text),
    ("caData", Type::Text),
];

const AWS: &[(&str, Type)] =
    &[("clusterName", Type::Text), ("roleARN", Type::Text), ("profile", Type::Text)];

const EXEC: &[(&str, Type)] = &[
    ("command", Type::Text),
    ("args", Type::Any),
    ("env", Type::Any),
    ("apiVersion", Type::Text),
    ("installHint", Type::Text),
];

/// A `config` that was read.
pub struct ClusterConfig {
    /// The fields that are known, as they are spelled here; or why it cannot be used.
    pub fields: Result<Value, String>,
    /// The paths of fields that nothing reads, such as a misspelt one.
    pub unread: Vec<String>,
}

/// Reads a `config`. As in Argo CD, the case of the names of fields does not count, and `null` is
/// as nothing.
pub fn read_config(text: &[u8]) -> ClusterConfig {
    let refused = |reason| ClusterConfig { fields: Err(reason), unread: Vec::new() };
    let fields = match text {
        [] => Map::new(),
        text => match serde_json::from_slice(text) {
            Ok(Value::Null) => Map::new(),
            Ok(Value::Object(fields)) => fields,
            Ok(_) => return refused("config is not a JSON object".to_owned()),
            // The error of the parser could quote a credential.
            Err(error) => {
                let (line, column) = (error.line(), error.column());
                return refused(format!("config is not JSON, line {line} column {column}"));
            }
        },
    };
    let mut found = Found::default();
    let fields = found.fields(fields, FIELDS, "config");
    let Found { wrong, unread } = found;
    let fields = if wrong.is_empty() { Ok(Value::Object(fields)) } else { Err(wrong.join(", ")) };
    ClusterConfig { fields, unread }
}

/// What is wrong with fields.
#[derive(Default)]
struct Found {
    wrong: Vec<String>,
    unread: Vec<String>,
}

impl Found {
    fn fields(
        &mut self,
        mut fields: Map<String, Value>,
        known: &[(&str, Type)],
        place: &str,
    ) -> Map<String, Value> {
        let mut read = Map::new();
        for (name, kind) in known {
            let spelled = || fields.keys().find(|key| key.eq_ignore_ascii_case(name)).cloned();
            let exact = fields.contains_key(*name).then(|| (*name).to_owned());
            let Some(value) = exact.or_else(spelled).and_then(|key| fields.remove(&key)) else {
                continue;
            };
            let path = format!("{place}.{name}");
            let value = match (kind, value) {
                (_, Value::Null) => continue,
                (Type::Fields(known), Value::Object(fields)) => {
                    Value::Object(self.fields(fields, known, &path))
                }
                (Type::Any, value)
                | (Type::Text, value @ Value::String(_))
                | (Type::Flag, value @ Value::Bool(_)) => value,
                (Type::Text, _) => {
                    self.wrong.push(format!("{path} is not a string"));
                    continue;
                }
                (Type::Flag, _) => {
                    self.wrong.push(format!("{path} is not true or false, without quotes"));
                    continue;
                }
                (Type::Fields(_), _) => {
                    self.wrong.push(format!("{path} is not an object"));
                    continue;
                }
            };
            read.insert((*name).to_owned(), value);
        }
        self.unread.extend(fields.keys().map(|key| format!("{place}.{key}")));
        read
    }
}

/// The fields of a `config` that [`read_config`] has checked.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ConfigFields {
    username: String,
    password: String,
    bearer_token: String,
    tls_client_config: TlsFields,
    #[serde(flatten)]
    programs: ProgramFields,
    disable_compression: Option<bool>,
    proxy_url: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct TlsFields {
    insecure: Option<bool>,
    server_name: String,
    cert_data: String,
    key_data: String,
    ca_data: String,
}

/// Whether a `config` has credentials for the own cluster (`tlsClientConfig` alone is none, as in
/// Argo CD).
pub fn replaces_own_credentials(config: &Value) -> bool {
    let ConfigFields { username, password, bearer_token, .. } = read_leniently(config);
    [username, password, bearer_token].iter().any(|text| !text.is_empty())
}

/// Hides the credentials of a `config` wherever they may be shown.
pub fn know_secrets(config: &Value) {
    let config: ConfigFields = read_leniently(config);
    [&config.bearer_token, &config.password].into_iter().for_each(|text| redact::know_secret(text));
    redact::know_url(&config.proxy_url);
    // What its program may print.
    let variables = config.programs.variables().into_iter();
    let is_path = |name: &str| PATHS.iter().any(|end| name.ends_with(end));
    let secrets = variables.filter(|(name, _)| redact::is_sensitive(name) && !is_path(name));
    secrets.for_each(|(_, value)| redact::know_secret(&value));
}

/// The client of a cluster.
///
/// # Errors
///
/// The field that cannot be used, and why.
pub async fn config_client(
    server: &str,
    config: &Value,
    runner: Option<&Arc<dyn Runner>>,
) -> Result<kube::Client, String> {
    let config: ConfigFields = read_leniently(config);
    let call = Call::of(&config.programs)?;
    let given = |text: String| Some(text).filter(|text| !text.is_empty());
    let tls = config.tls_client_config;
    let pem = |field: &str, text: String| -> Result<Option<String>, String> {
        let engine = base64::engine::general_purpose::STANDARD;
        match engine.decode(text.as_bytes()) {
            Ok(_) => Ok(given(text)),
            Err(_) => Err(format!("config.tlsClientConfig.{field} is not base64")),
        }
    };
    let cluster = KubeCluster {
        server: Some(server.to_owned()),
        insecure_skip_tls_verify: tls.insecure,
        certificate_authority_data: pem("caData", tls.ca_data)?,
        tls_server_name: given(tls.server_name),
        proxy_url: given(config.proxy_url),
        disable_compression: config.disable_compression,
        ..KubeCluster::default()
    };
    let user = AuthInfo {
        username: given(config.username),
        password: given(config.password).map(Into::into),
        token: given(config.bearer_token).map(Into::into),
        client_certificate_data: pem("certData", tls.cert_data)?,
        client_key_data: pem("keyData", tls.key_data)?.map(Into::into),
        ..AuthInfo::default()
    };
    let Some(call) = call else { return made(cluster, user).await };
    let Some(runner) = runner else {
        return Err("config: its program is run by the controller only".to_owned());
    };
    // What is wrong with the rest is said at once.
    made(cluster.clone(), AuthInfo::default()).await?;
    let make = move |found: ExecCredentials| {
        let base64 = |pem: String| base64::engine::general_purpose::STANDARD.encode(pem);
        let (certificate, key) = found.certificate.unzip();
        let user = AuthInfo {
            token: found.token.map(Into::into),
            client_certificate_data: certificate.map(base64),
            client_key_data: key.map(|key| base64(key).into()),
            ..AuthInfo::default()
        };
        made(cluster.clone(), user)
    };
    Ok(exec_credentials::exec_client(call, Arc::clone(runner), Clock::system(), make))
}

/// Ends of the names of variables whose values are paths, which messages name.
const PATHS: [&str; 5] = ["_FILE", "_PATH", "_DIR", "_BUNDLE", "_APPLICATION_CREDENTIALS"];

/// A client of a cluster; the error names fields of its Secret.
async fn made(cluster: KubeCluster, user: AuthInfo) -> Result<kube::Client, String> {
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig(cluster, user), &options).await;
    let config = config.map_err(|_| "server or config cannot be used".to_owned())?;
    connection::connected_client(config).map_err(|error| match error {
        UnusableConnection::Server => format!("server {error}"),
        UnusableConnection::Token => format!("config.bearerToken {error}"),
        UnusableConnection::Credentials(reason) => {
            format!("config: certificates or credentials cannot be used: {reason}")
        }
    })
}

/// A kubeconfig with one cluster and one user.
fn kubeconfig(cluster: KubeCluster, user: AuthInfo) -> Kubeconfig {
    // The names are empty: there is one of each.
    let context = Context { user: Some(String::new()), ..Context::default() };
    Kubeconfig {
        clusters: vec![NamedCluster { cluster: Some(cluster), ..NamedCluster::default() }],
        auth_infos: vec![NamedAuthInfo { auth_info: Some(user), ..NamedAuthInfo::default() }],
        contexts: vec![NamedContext { context: Some(context), ..NamedContext::default() }],
        current_context: Some(String::new()),
        ..Kubeconfig::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_read_as_in_argo_cd_and_all_others_are_named() {
        let config = json!({
            "BEARERTOKEN": "t", "username": null, "tlsClientConfig": {"Insecure": true, "ca": "x"},
            "proxyUrl": "exact", "ProxyURL": "other", "execProviderConfig": {"env": {"any": "1"}},
        });
        let read = read_config(config.to_string().as_bytes());
        let want = json!({
            "bearerToken": "t", "tlsClientConfig": {"insecure": true}, "proxyUrl": "exact",
            "execProviderConfig": {"env": {"any": "1"}},
        });
        assert_eq!(read.fields, Ok(want));
        assert_eq!(read.unread, ["config.tlsClientConfig.ca", "config.ProxyURL"]);
    }

    #[test]
    fn what_is_no_config_is_an_error_without_its_values() {
        for (text, want) in [
            ("", Ok(json!({}))),
            ("null", Ok(json!({}))),
            ("[\"s3cr3t\"]", Err("config is not a JSON object")),
            ("{\"password\": s3cr3t}", Err("config is not JSON, line 1 column 14")),
            ("{\"tlsClientConfig\": \"s3cr3t\"}", Err("config.tlsClientConfig is not an object")),
            ("{\"password\": [\"s3cr3t\"]}", Err("config.password is not a string")),
        ] {
            assert_eq!(read_config(text.as_bytes()).fields, want.map_err(str::to_owned), "{text}");
        }
    }
}
