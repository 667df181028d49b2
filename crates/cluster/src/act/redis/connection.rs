//! The connection to Redis, direct or by Sentinels.

use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, Cmd, ConnectionAddr, IntoConnectionInfo,
    RedisConnectionInfo, RedisError, TlsCertificates, TlsMode, cmd,
};

use super::metrics::RedisMetrics;
use super::pending::PendingValues;
use wavegate_application::argocd_cache::{RedisCredentials, RedisSettings, RedisTls};

/// Time limit of a connection attempt, and of a request.
const LIMIT: Duration = Duration::from_secs(5);

/// Makes connections.
pub(super) struct Connector(Endpoint);

enum Endpoint {
    Direct(Box<Client>),
    Sentinel(Box<tokio::sync::Mutex<SentinelClient>>),
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connector")
    }
}

impl Connector {
    /// # Errors
    ///
    /// When an address or a certificate cannot be used.
    pub fn new(settings: &RedisSettings) -> Result<Self, String> {
        let way = match settings.sentinels.as_slice() {
            [] => Endpoint::Direct(Box::new(direct(settings)?)),
            sentinels => Endpoint::Sentinel(Box::new(by_sentinels(settings, sentinels)?.into())),
        };
        Ok(Self(way))
    }

    /// Connects. Resolves names anew, since Redis may have moved.
    ///
    /// # Errors
    ///
    /// Why not, in one line.
    pub async fn connect(&self, metrics: &RedisMetrics) -> Result<Connection, String> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(LIMIT))
            .set_response_timeout(Some(LIMIT));
        let began = Instant::now();
        let made = match &self.0 {
            Endpoint::Direct(client) => {
                client.get_multiplexed_async_connection_with_config(&config).await
            }
            Endpoint::Sentinel(client) => {
                let mut client = client.lock().await;
                let made = client.get_async_connection_with_config(&config);
                match tokio::time::timeout(LIMIT * 2, made).await {
                    Ok(made) => made,
                    Err(_) => return Err("the Sentinels do not answer".to_owned()),
                }
            }
        };
        // A server that wants a certificate closes the connection after it was made, and that must
        // not count as an answer to the first value.
        let made = match made {
            Ok(mut made) => match cmd("PING").query_async::<redis::Value>(&mut made).await {
                Err(error) if error.code().is_none() => Err(error),
                // Users may be permitted to write only.
                _ => Ok(made),
            },
            Err(error) => Err(error),
        };
        metrics.count("dial", made.is_err(), began.elapsed());
        made.map(Connection).map_err(|error| line(&error))
    }
}

/// Why values are not written.
pub(super) struct Unsent {
    /// In one line.
    pub reason: String,
    /// Whether Redis says it, so that the connection can be used again.
    pub is_answer: bool,
}

/// A connection.
pub(super) struct Connection(MultiplexedConnection);

impl Connection {
    /// Writes, and then announces it.
    pub async fn send(
        &mut self,
        values: &PendingValues,
        metrics: &RedisMetrics,
    ) -> Result<(), Unsent> {
        // The first shard of a tree has the number of all: it is written after the others.
        for (key, value) in values.sets.iter().rev() {
            let seconds = value.expiration.as_secs().max(1);
            let set = cmd("SET").arg(key).arg(value.bytes.as_slice()).arg("EX").arg(seconds).take();
            self.request("set", &set, metrics).await?;
        }
        for key in &values.deletes {
            self.request("del", cmd("DEL").arg(key), metrics).await?;
        }
        if let Some(channel) = &values.channel {
            self.request("publish", cmd("PUBLISH").arg(channel).arg(""), metrics).await?;
        }
        Ok(())
    }

    async fn request(
        &mut self,
        name: &str,
        command: &Cmd,
        metrics: &RedisMetrics,
    ) -> Result<(), Unsent> {
        let began = Instant::now();
        let answer = command.query_async::<redis::Value>(&mut self.0).await;
        metrics.count(name, answer.is_err(), began.elapsed());
        answer
            .map(drop)
            .map_err(|error| Unsent { reason: line(&error), is_answer: error.code().is_some() })
    }
}

/// An error as one line; it has no credentials.
fn line(error: &RedisError) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn direct(settings: &RedisSettings) -> Result<Client, String> {
    let address = address(&settings.server, settings.tls.as_ref())?;
    let info = address.into_connection_info().map_err(|error| line(&error))?;
    let info = info.set_redis_settings(login(&settings.credentials, settings.database));
    let client = match &settings.tls {
        Some(tls) => Client::build_with_tls(info, certificates(tls)),
        None => Client::open(info),
    };
    client.map_err(|error| line(&error))
}

fn by_sentinels(settings: &RedisSettings, sentinels: &[String]) -> Result<SentinelClient, String> {
    let addresses: Result<Vec<ConnectionAddr>, String> =
        sentinels.iter().map(|sentinel| address(sentinel, settings.tls.as_ref())).collect();
    let builder = SentinelClientBuilder::new(
        addresses?,
        &settings.sentinel_master,
        SentinelServerType::Master,
    );
    let mut builder =
        builder.map_err(|error| line(&error))?.set_client_to_redis_db(settings.database);
    let RedisCredentials { user, password } = &settings.credentials;
    if !user.is_empty() {
        builder = builder.set_client_to_redis_username(user);
    }
    if !password.is_empty() {
        builder = builder.set_client_to_redis_password(password);
    }
    let RedisCredentials { user, password } = &settings.sentinel_credentials;
    if !user.is_empty() {
        builder = builder.set_client_to_sentinel_username(user);
    }
    if !password.is_empty() {
        builder = builder.set_client_to_sentinel_password(password);
    }
    if let Some(tls) = &settings.tls {
        let mode = if tls.is_insecure { TlsMode::Insecure } else { TlsMode::Secure };
        builder = builder
            .set_client_to_redis_tls_mode(mode)
            .set_client_to_redis_certificates(certificates(tls))
            .set_client_to_sentinel_tls_mode(mode)
            .set_client_to_sentinel_certificates(certificates(tls));
    }
    builder.build().map_err(|error| line(&error))
}

fn certificates(tls: &RedisTls) -> TlsCertificates {
    let client = tls.client.as_ref().map(|(certificate, key)| ClientTlsConfig {
        client_cert: certificate.clone(),
        client_key: key.clone(),
    });
    TlsCertificates { client_tls: client, root_cert: tls.authorities.clone() }
}

fn login(
    RedisCredentials { user, password }: &RedisCredentials,
    database: i64,
) -> RedisConnectionInfo {
    let mut info = RedisConnectionInfo::default().set_db(database).set_skip_set_lib_name();
    if !user.is_empty() {
        info = info.set_username(user);
    }
    if !password.is_empty() {
        info = info.set_password(password);
    }
    info
}

/// Host and port; the host may be an address of version 6 in brackets.
fn address(text: &str, tls: Option<&RedisTls>) -> Result<ConnectionAddr, String> {
    let wrong = || format!("\"{text}\" is no address; write host:port");
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let port: u16 = port.parse().map_err(|_| wrong())?;
    if host.is_empty() {
        return Err(wrong());
    }
    Ok(match tls {
        Some(tls) => {
            ConnectionAddr::TcpTls { host, port, insecure: tls.is_insecure, tls_params: None }
        }
        None => ConnectionAddr::Tcp(host, port),
    })
}
