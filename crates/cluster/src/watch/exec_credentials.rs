//! Credentials of a cluster that a program provides (`execProviderConfig`, `awsAuthConfig` of
//! a cluster Secret), by the protocol of client-go.
//!
//! The program runs when the first request needs it, when what it gave has expired, and once
//! after the server refused it. Whatever happens, it does not run again within [`PAUSE`].

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::busy;
use wavegate_api::read_leniently;
use wavegate_net::clock::Clock;
use wavegate_net::redact;

/// The shortest time between two runs for a cluster.
pub const PAUSE: Duration = Duration::from_secs(5);

/// Versions of the protocol.
const VERSIONS: [&str; 2] =
    ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"];

/// Most lines of a key that are known as secrets: an RSA key of 4096 bits has 51.
const KEY_LINES: usize = 64;

/// The program that provides the credentials of EKS clusters, as in Argo CD's image; and the
/// one of Amazon, which does the same.
const EKS: [&str; 2] = ["argocd-k8s-auth", "aws"];

/// How a program is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Programs that do the same, each with its arguments; the first one that is installed is
    /// run. A path, or a name that is looked up in `PATH`.
    pub programs: Vec<(String, Vec<String>)>,
    /// Variables, in addition to those of the protocol.
    pub env: Vec<(String, String)>,
    /// Version of the protocol.
    api_version: String,
    /// What users are told when it is not installed.
    install_hint: String,
}

/// Why a program has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// It is not installed.
    NotInstalled,
    /// Anything else, without credentials.
    Other(String),
}

/// Runs programs that provide credentials.
pub trait Runner: std::fmt::Debug + Send + Sync {
    /// Runs one of the programs, bounded in time and output, and returns its output.
    fn run(&self, call: Call) -> BoxFuture<'static, Result<Vec<u8>, Failed>>;
}

/// What a program has given.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ExecCredentials {
    /// Bearer token.
    pub token: Option<String>,
    /// Client certificate and its key, in PEM.
    pub certificate: Option<(String, String)>,
    expires: Option<Timestamp>,
}

/// The fields of a cluster's `config` that name a program.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ProgramFields {
    aws_auth_config: Option<EksFields>,
    exec_provider_config: Option<ExecFields>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct EksFields {
    cluster_name: String,
    #[serde(rename = "roleARN")]
    role_arn: String,
    profile: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ExecFields {
    command: String,
    args: Value,
    env: Value,
    api_version: String,
    install_hint: String,
}

impl ProgramFields {
    /// The variables of the program that are texts.
    pub fn variables(self) -> Vec<(String, String)> {
        let env = self.exec_provider_config.unwrap_or_default().env;
        let Value::Object(variables) = env else { return Vec::new() };
        let texts = variables.into_iter().filter_map(|(name, value)| match value {
            Value::String(text) => Some((name, text)),
            _ => None,
        });
        texts.collect()
    }
}

/// An `ExecCredential` of client-go.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ExecCredential {
    kind: String,
    api_version: String,
    status: ExecCredentialStatus,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ExecCredentialStatus {
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
    expiration_timestamp: Option<String>,
}

fn given(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

impl Call {
    /// The program of a cluster's `config`; `None` if it needs none.
    ///
    /// # Errors
    ///
    /// The field that is wrong.
    pub fn of(fields: &ProgramFields) -> Result<Option<Self>, String> {
        match (&fields.aws_auth_config, &fields.exec_provider_config) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) => {
                Err("config has both awsAuthConfig and execProviderConfig".to_owned())
            }
            (Some(eks), None) => Self::of_eks(eks).map(Some),
            (None, Some(exec)) => Self::of_exec(exec).map(Some),
        }
    }

    fn of_eks(config: &EksFields) -> Result<Self, String> {
        let name = config.cluster_name.as_str();
        if name.is_empty() {
            return Err("config.awsAuthConfig.clusterName is missing".to_owned());
        }
        let mut own = vec!["aws", "--cluster-name", name];
        let mut amazon = vec!["eks", "get-token", "--output", "json", "--cluster-name", name];
        for (flag, value) in [("--role-arn", &config.role_arn), ("--profile", &config.profile)] {
            if !value.is_empty() {
                own.extend([flag, value]);
                amazon.extend([flag, value]);
            }
        }
        let programs = EKS.iter().zip([own, amazon]);
        let owned = |args: Vec<&str>| args.into_iter().map(str::to_owned).collect();
        Ok(Self {
            programs: programs.map(|(name, args)| ((*name).to_owned(), owned(args))).collect(),
            env: Vec::new(),
            api_version: VERSIONS[1].to_owned(),
            install_hint: format!("{} or {} is needed in the image", EKS[0], EKS[1]),
        })
    }

    fn of_exec(config: &ExecFields) -> Result<Self, String> {
        let ExecFields { command, api_version, .. } = config;
        let field = |name: &str| format!("config.execProviderConfig.{name}");
        if command.is_empty() {
            return Err(format!("{} is missing", field("command")));
        }
        let api_version = if api_version.is_empty() { VERSIONS[0] } else { api_version };
        if !VERSIONS.contains(&api_version) {
            let [v1, beta] = VERSIONS;
            return Err(format!("{} {api_version:?} is none of {v1}, {beta}", field("apiVersion")));
        }
        let is_variable = |(name, value): &(String, String)| {
            !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0')
        };
        let env = Option::<BTreeMap<String, String>>::deserialize(&config.env).ok();
        let env: Option<Vec<_>> = env.map(|env| env.unwrap_or_default().into_iter().collect());
        let Some(env) = env.filter(|env| env.iter().all(is_variable)) else {
            return Err(format!("{} is not a map of strings", field("env")));
        };
        let Ok(args) = Option::<Vec<String>>::deserialize(&config.args) else {
            return Err(format!("{} is not a list of strings", field("args")));
        };
        let args = args.unwrap_or_default();
        if command.contains('\0') || args.iter().any(|arg| arg.contains('\0')) {
            return Err(format!("{} or args has a NUL", field("command")));
        }
        Ok(Self {
            programs: vec![(command.clone(), args)],
            env,
            api_version: api_version.to_owned(),
            install_hint: config.install_hint.clone(),
        })
    }

    /// The variable of the protocol: what is asked for.
    pub fn info(&self) -> (String, String) {
        let info = json!({
            "kind": "ExecCredential", "apiVersion": self.api_version,
            "spec": {"interactive": false},
        });
        ("KUBERNETES_EXEC_INFO".to_owned(), info.to_string())
    }

    /// Names of the programs, for users.
    fn names(&self) -> String {
        let names: Vec<&str> = self.programs.iter().map(|(name, _)| name.as_str()).collect();
        names.join(" or ")
    }

    /// Reads the output of the program. No error quotes it.
    fn read(&self, output: &[u8]) -> Result<ExecCredentials, String> {
        let name = self.names();
        let object: Value = serde_json::from_slice(output).map_err(|error| {
            format!(
                "the output of {name} is not JSON, line {} column {}",
                error.line(),
                error.column()
            )
        })?;
        let object: ExecCredential = read_leniently(&object);
        if object.kind != "ExecCredential" {
            return Err(format!("the output of {name} is no ExecCredential"));
        }
        if object.api_version != self.api_version {
            let want = &self.api_version;
            return Err(format!("the output of {name} has another apiVersion than {want}"));
        }
        let status = object.status;
        let token = given(status.token).map(|token| token.trim().to_owned());
        let pair = (given(status.client_certificate_data), given(status.client_key_data));
        let certificate = match pair {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => {
                return Err(format!(
                    "the output of {name} has a certificate or a key without the other"
                ));
            }
        };
        if token.is_none() && certificate.is_none() {
            return Err(format!(
                "the output of {name} has neither status.token nor a client certificate"
            ));
        }
        let expires = match given(status.expiration_timestamp) {
            None => None,
            Some(text) => Some(text.parse::<Timestamp>().map_err(|_| {
                format!("the output of {name}: status.expirationTimestamp is not a time")
            })?),
        };
        if let Some(token) = &token {
            redact::know_secret(token);
        }
        // A program may quote a line of it in an error.
        if let Some((_, key)) = &certificate {
            let lines = key.lines().filter(|line| !line.starts_with("-----"));
            lines.take(KEY_LINES).for_each(redact::know_secret);
        }
        Ok(ExecCredentials { token, certificate, expires })
    }
}

/// A client that was made with credentials.
#[derive(Clone)]
struct Current {
    client: Client,
    expires: Option<Timestamp>,
    generation: u64,
}

#[derive(Default)]
struct State {
    current: Option<Current>,
    /// The last run, and its error.
    last: Option<(Instant, Option<String>)>,
}

struct Source<M> {
    call: Call,
    runner: Arc<dyn Runner>,
    make: M,
    clock: Clock,
    state: Mutex<State>,
}

/// A client whose credentials are those of a program; `make` creates a client of the cluster
/// with them.
pub fn exec_client<M, F>(call: Call, runner: Arc<dyn Runner>, clock: Clock, make: M) -> Client
where
    M: Fn(ExecCredentials) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Client, String>> + Send + 'static,
{
    let source = Arc::new(Source { call, runner, make, clock, state: Mutex::default() });
    let send = move |request: Request<Body>| {
        let source = Arc::clone(&source);
        async move { source.send(request).await }
    };
    Client::new(tower::service_fn(send), "default")
}

impl<M, F> Source<M>
where
    M: Fn(ExecCredentials) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Client, String>> + Send + 'static,
{
    async fn send(&self, request: Request<Body>) -> Result<Response<Body>, kube::Error> {
        let current = self.current(None).await?;
        let again = busy::copy(&request);
        let answer = current.client.send(request).await?;
        match again {
            // They may have been revoked before they expired.
            Some(again) if answer.status() == StatusCode::UNAUTHORIZED => {
                let newer = self.current(Some(current.generation)).await?;
                match newer.generation == current.generation {
                    true => Ok(answer),
                    false => newer.client.send(again).await,
                }
            }
            _ => Ok(answer),
        }
    }

    /// The client; `refused` are the credentials that the server has refused.
    async fn current(&self, refused: Option<u64>) -> Result<Current, kube::Error> {
        let mut state = self.state.lock().await;
        let recent = state.last.as_ref().filter(|(at, _)| at.elapsed() < PAUSE);
        if let Some(current) = &state.current {
            let is_expired = current.expires.is_some_and(|at| at <= self.clock.now());
            let is_refused = refused == Some(current.generation);
            let is_new = recent.is_some_and(|(_, error)| error.is_none());
            if is_new || (!is_expired && !is_refused) {
                return Ok(current.clone());
            }
        }
        if let Some((_, Some(error))) = recent {
            return Err(failed(error.clone()));
        }
        let made = self.run().await;
        let error = made.as_ref().err().cloned();
        state.last = Some((Instant::now(), error));
        let (client, expires) = made.map_err(failed)?;
        let generation = state.current.as_ref().map_or(1, |old| old.generation.wrapping_add(1));
        let current = Current { client, expires, generation };
        state.current = Some(current.clone());
        Ok(current)
    }

    async fn run(&self) -> Result<(Client, Option<Timestamp>), String> {
        let output = self.runner.run(self.call.clone()).await.map_err(|failed| match failed {
            Failed::NotInstalled => {
                let (name, hint) = (self.call.names(), &self.call.install_hint);
                let colon = if hint.is_empty() { "" } else { ": " };
                format!("{name} is not installed{colon}{hint}")
            }
            Failed::Other(why) => why,
        })?;
        let credentials = self.call.read(&output)?;
        let expires = credentials.expires;
        Ok(((self.make)(credentials).await?, expires))
    }
}

fn failed(error: String) -> kube::Error {
    kube::Error::Service(format!("no credentials for the cluster: {error}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(config: &Value) -> Result<Option<Call>, String> {
        Call::of(&read_leniently(config))
    }

    fn call() -> Call {
        of(&json!({"execProviderConfig": {"command": "token"}})).unwrap().unwrap()
    }

    #[test]
    fn what_is_wrong_in_a_config_is_named() {
        for (config, want) in [
            (json!({"awsAuthConfig": {}}), "config.awsAuthConfig.clusterName is missing"),
            (json!({"execProviderConfig": {}}), "config.execProviderConfig.command is missing"),
            (
                json!({"execProviderConfig": {"command": "x", "args": "y"}}),
                "config.execProviderConfig.args is not a list of strings",
            ),
            (
                json!({"execProviderConfig": {"command": "x", "args": [1]}}),
                "config.execProviderConfig.args is not a list of strings",
            ),
            (
                json!({"execProviderConfig": {"command": "x", "env": ["a=b"]}}),
                "config.execProviderConfig.env is not a map of strings",
            ),
            (
                json!({"execProviderConfig": {"command": "x", "env": {"a=b": "c"}}}),
                "config.execProviderConfig.env is not a map of strings",
            ),
            (
                json!({"execProviderConfig": {"command": "x\u{0}"}}),
                "config.execProviderConfig.command or args has a NUL",
            ),
            (
                json!({"execProviderConfig": {"command": "x", "apiVersion": "v1"}}),
                "config.execProviderConfig.apiVersion \"v1\" is none of \
                 client.authentication.k8s.io/v1, client.authentication.k8s.io/v1beta1",
            ),
            (
                json!({"execProviderConfig": {"command": "x"}, "awsAuthConfig": {"clusterName": "x"}}),
                "config has both awsAuthConfig and execProviderConfig",
            ),
        ] {
            assert_eq!(of(&config), Err(want.to_owned()), "{config}");
        }
        assert_eq!(of(&json!({"bearerToken": "x"})), Ok(None));
        let eks = json!({"awsAuthConfig": {"clusterName": "c", "roleARN": "arn", "profile": "p"}});
        let eks = of(&eks).unwrap().unwrap();
        let shown: Vec<String> =
            eks.programs.iter().map(|(name, args)| format!("{name} {}", args.join(" "))).collect();
        let want = [
            "argocd-k8s-auth aws --cluster-name c --role-arn arn --profile p",
            "aws eks get-token --output json --cluster-name c --role-arn arn --profile p",
        ];
        assert_eq!(shown, want);
    }

    #[test]
    fn what_is_no_credential_is_an_error_that_does_not_quote_it() {
        let of = |status: Value| {
            let object =
                json!({"kind": "ExecCredential", "apiVersion": VERSIONS[0], "status": status});
            call().read(object.to_string().as_bytes())
        };
        for (status, want) in [
            (json!({}), "neither status.token"),
            (json!({"token": ""}), "neither status.token"),
            (json!({"token": 5}), "neither status.token"),
            (json!({"clientKeyData": "s3cr3t-key"}), "without the other"),
            (json!({"token": "s3cr3t-tok", "expirationTimestamp": "soon"}), "not a time"),
        ] {
            let error = of(status.clone()).err().unwrap();
            assert!(error.contains(want) && !error.contains("s3cr3t"), "{status}: {error}");
        }
        for output in ["", "Login: s3cr3t", "[]", r#"{"kind": "Status", "token": "s3cr3t"}"#] {
            let error = call().read(output.as_bytes()).err().unwrap();
            assert!(
                error.starts_with("the output of token ") && !error.contains("s3cr3t"),
                "{error}"
            );
        }
        let beta =
            json!({"kind": "ExecCredential", "apiVersion": VERSIONS[1], "status": {"token": "x"}});
        assert!(call().read(beta.to_string().as_bytes()).is_err());
        let found =
            of(json!({"token": " a-token \n", "expirationTimestamp": "2030-01-01T00:00:00Z"}))
                .ok()
                .unwrap();
        assert_eq!(found.token.as_deref(), Some("a-token"));
        assert_eq!(found.expires, Some("2030-01-01T00:00:00Z".parse().unwrap()));
    }

    #[derive(Debug, Default)]
    struct Counted(Mutex<(u32, bool)>);

    impl Runner for Counted {
        fn run(&self, call: Call) -> BoxFuture<'static, Result<Vec<u8>, Failed>> {
            assert!(call.info().1.contains(VERSIONS[0]));
            let mut state = self.0.try_lock().unwrap();
            state.0 += 1;
            let status = json!({"token": format!("token-{}", state.0)});
            let object =
                json!({"kind": "ExecCredential", "apiVersion": VERSIONS[0], "status": status});
            let answer = match state.1 {
                true => Err(Failed::Other("out of order".to_owned())),
                false => Ok(object.to_string().into_bytes()),
            };
            Box::pin(std::future::ready(answer))
        }
    }

    /// However many requests there are, and whatever the server says to them.
    #[tokio::test(start_paused = true)]
    async fn a_program_does_not_run_again_within_the_pause() {
        let runner = Arc::new(Counted::default());
        let runs = || runner.0.try_lock().unwrap().0;
        let make = |_: ExecCredentials| async {
            let refuse = |_: Request<Body>| async {
                let mut answer = Response::new(Body::empty());
                *answer.status_mut() = StatusCode::UNAUTHORIZED;
                Ok::<_, std::convert::Infallible>(answer)
            };
            Ok(Client::new(tower::service_fn(refuse), "default"))
        };
        let shared: Arc<dyn Runner> = runner.clone();
        let client = exec_client(call(), shared, Clock::system(), make);
        let send = || {
            let sent = client.send(Request::get("/version").body(Body::empty()).unwrap());
            async move { sent.await.map(|answer| answer.status().as_u16()) }
        };
        for _ in 0..50 {
            assert_eq!(send().await.ok(), Some(401));
        }
        assert_eq!(runs(), 1);
        tokio::time::advance(PAUSE).await;
        for _ in 0..50 {
            assert_eq!(send().await.ok(), Some(401));
        }
        assert_eq!(runs(), 2, "refused credentials are replaced once");

        runner.0.lock().await.1 = true;
        tokio::time::advance(PAUSE).await;
        for _ in 0..50 {
            let error = send().await.unwrap_err().to_string();
            assert!(error.contains("out of order"), "{error}");
        }
        assert_eq!(runs(), 3);
        runner.0.lock().await.1 = false;
        tokio::time::advance(PAUSE).await;
        assert_eq!(send().await.ok(), Some(401));
    }
}
