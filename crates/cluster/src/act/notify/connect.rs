//! One request to a sink, on a connection of its own.
//!
//! The addresses of the host are looked up and checked, and the connection is made to one of the
//! checked addresses: a name that leads elsewhere at the next look-up changes nothing. No proxy
//! is used, no redirect is followed, and no body of an answer is read.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::Request;
use http::header::{CONTENT_TYPE, HOST, USER_AGENT};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, Error as TlsError};

use super::failure::{DeliveryFailure, Failed};
use super::message::Message;
use super::reply;
use crate::watch::connection::AGENT;
use crate::watch::failure::{cause_chain, error_reason, has_code};
use wavegate_api::policy::{Format, Sink};
use wavegate_net::tls;
use wavegate_rollout::notify::address;
use wavegate_rollout::notify::sink::{self, SIGNATURE, SinkCredentials, Target};

/// Timeout of an attempt: look-up, connection, request and the head of the answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Timeout of a connection to one of the addresses.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// Timeout of reading a Secret.
const SECRET_WITHIN: Duration = Duration::from_secs(10);
/// The most addresses of a host that are tried.
const ADDRESSES: usize = 4;
/// The most bytes of the head of an answer.
const MAX_HEAD: usize = 16 << 10;

/// Makes requests.
pub(super) struct Connector {
    allow_private: bool,
    /// Trust in the certificates of this machine.
    tls: OnceLock<Arc<ClientConfig>>,
}

/// A sink that can be posted to.
pub(super) struct Ready {
    sink: Sink,
    target: Target,
    credentials: SinkCredentials,
    tls: Option<Arc<ClientConfig>>,
}

impl Ready {
    /// Whether it was made of this sink.
    pub fn is_for(&self, sink: &Sink) -> bool {
        self.sink == *sink
    }
}

impl Connector {
    pub fn new(allow_private: bool) -> Self {
        Self { allow_private, tls: OnceLock::new() }
    }

    /// What is wrong with a sink, as far as it is known without a request to it.
    pub async fn problem(&self, client: &Client, namespace: &str, sink: &Sink) -> Option<String> {
        let checked = async {
            let ready = self.ready(client, namespace, sink).await?;
            match tokio::time::timeout(ANSWER_WITHIN, self.addresses(&ready.target)).await {
                Ok(addresses) => addresses.map(drop),
                Err(_) => Ok(()),
            }
        };
        let failed: Failed = checked.await.err()?;
        failed.is_problem().then_some(failed.text)
    }

    /// Reads the Secret of a sink.
    pub async fn ready(
        &self,
        client: &Client,
        namespace: &str,
        sink: &Sink,
    ) -> Result<Ready, Failed> {
        let unusable = |text: String| Failed::new(DeliveryFailure::Sink, text);
        let secret = sink.secret_ref.as_ref().map(|secret| secret.name.as_str());
        let credentials = match secret {
            None => SinkCredentials::default(),
            Some(name) => {
                let of_secret = |text: String| unusable(format!("Secret {name}: {text}"));
                SinkCredentials::read(&read(client, namespace, name).await?).map_err(of_secret)?
            }
        };
        let target = sink::sink_target(sink, &credentials, self.allow_private).map_err(unusable)?;
        let tls = match target.is_encrypted {
            false => None,
            true => {
                let made = self.tls(credentials.certificates.as_deref());
                let text = |error: TlsError| {
                    unusable(format!("cannot use TLS: {}", tls::error_text(&error)))
                };
                Some(made.map_err(text)?)
            }
        };
        Ok(Ready { sink: sink.clone(), target, credentials, tls })
    }

    /// Posts a message.
    pub async fn post(&self, ready: &Ready, message: &Message) -> Result<(), Failed> {
        let attempt = self.attempt(ready, message);
        tokio::time::timeout(ANSWER_WITHIN, attempt).await.unwrap_or_else(|_| {
            let text = format!("it does not answer within {} s", ANSWER_WITHIN.as_secs());
            Err(Failed::new(DeliveryFailure::Timeout, text))
        })
    }

    async fn attempt(&self, ready: &Ready, message: &Message) -> Result<(), Failed> {
        let target = &ready.target;
        let unreachable = |error: &dyn std::error::Error| {
            let error = error.to_string();
            Failed::new(
                DeliveryFailure::Connection,
                format!("{} cannot be reached: {error}", target.shown()),
            )
        };
        let mut last = None;
        let mut connected = None;
        for address in self.addresses(target).await?.into_iter().take(ADDRESSES) {
            match tokio::time::timeout(CONNECT_WITHIN, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    connected = Some(stream);
                    break;
                }
                Ok(Err(error)) => last = Some(unreachable(&error)),
                Err(_) => last = Some(unreachable(&io::Error::from(io::ErrorKind::TimedOut))),
            }
        }
        let Some(stream) = connected else {
            let none = || unreachable(&io::Error::other("it has no address"));
            return Err(last.unwrap_or_else(none));
        };
        let peer = stream.peer_addr().map_err(|error| unreachable(&error))?;
        self.check(target, peer.ip())?;
        match &ready.tls {
            None => exchange(stream, ready, message).await,
            Some(tls) => {
                let name = ServerName::try_from(target.host.clone())
                    .map_err(|error| unreachable(&error))?;
                let stream = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await;
                exchange(stream.map_err(|error| unreachable(&error))?, ready, message).await
            }
        }
    }

    /// The addresses of a host that are permitted.
    async fn addresses(&self, target: &Target) -> Result<Vec<SocketAddr>, Failed> {
        let found: Vec<SocketAddr> = match target.address() {
            Some(address) => vec![SocketAddr::new(address, target.port)],
            None => {
                let found = tokio::net::lookup_host((target.host.as_str(), target.port)).await;
                let unknown = |error: io::Error| {
                    let text = format!("{}: {error}", target.host);
                    Failed::new(DeliveryFailure::Connection, text)
                };
                found.map_err(unknown)?.collect()
            }
        };
        let mut refused = None;
        let mut permitted = Vec::new();
        for address in found {
            match self.check(target, address.ip()) {
                Ok(()) => permitted.push(address),
                Err(failed) => refused = Some(failed),
            }
        }
        match refused {
            Some(failed) if permitted.is_empty() => Err(failed),
            _ => Ok(permitted),
        }
    }

    fn check(&self, target: &Target, address: IpAddr) -> Result<(), Failed> {
        match address::address_refusal(address, target.is_encrypted, self.allow_private) {
            None => Ok(()),
            Some(refusal) => {
                let text = format!("url: {}: {refusal}", target.shown());
                Err(Failed::new(DeliveryFailure::Address, text))
            }
        }
    }

    fn tls(&self, certificates: Option<&str>) -> Result<Arc<ClientConfig>, TlsError> {
        if let Some(pem) = certificates {
            return match tls::parse_certificates(pem) {
                Ok(read) if !read.is_empty() => trusting(read),
                Ok(_) | Err(_) => {
                    Err(TlsError::General("key ca.crt: has no certificate as PEM".to_owned()))
                }
            };
        }
        match self.tls.get() {
            Some(known) => Ok(Arc::clone(known)),
            None => {
                let made = trusting(Vec::new())?;
                Ok(Arc::clone(self.tls.get_or_init(|| made)))
            }
        }
    }
}

fn trusting(certificates: Vec<CertificateDer<'static>>) -> Result<Arc<ClientConfig>, TlsError> {
    Ok(Arc::new(tls::trusting_roots(certificates)?.with_no_client_auth()))
}

/// The data of a Secret.
async fn read(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<std::collections::BTreeMap<String, Vec<u8>>, Failed> {
    let unusable =
        |text: String| Failed::new(DeliveryFailure::Sink, format!("Secret {name}: {text}"));
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    match tokio::time::timeout(SECRET_WITHIN, api.get(name)).await {
        Ok(Ok(secret)) => {
            let data = secret.data.unwrap_or_default().into_iter();
            Ok(data.map(|(key, value)| (key, value.0)).collect())
        }
        Ok(Err(error)) if has_code(&error, 404) => Err(unusable("does not exist".to_owned())),
        Ok(Err(error)) if has_code(&error, 403) => Err(unusable(error_reason(&error))),
        // It may pass, and says nothing about the policy.
        Ok(Err(error)) => Err(Failed::new(DeliveryFailure::Connection, error_reason(&error))),
        Err(_) => {
            let text = "the API server does not answer".to_owned();
            Err(Failed::new(DeliveryFailure::Connection, text))
        }
    }
}

/// Sends the request and judges the head of the answer.
async fn exchange<S>(stream: S, ready: &Ready, message: &Message) -> Result<(), Failed>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let broken =
        |error: hyper::Error| Failed::new(DeliveryFailure::Connection, cause_chain(&error));
    let request = request(ready, message).map_err(|_| {
        Failed::new(DeliveryFailure::Sink, "url: its path cannot be sent".to_owned())
    })?;
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(MAX_HEAD)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(broken)?;
    let answer = sender.send_request(request);
    tokio::pin!(answer, connection);
    // The rest of the answer is not read: the connection ends with this function.
    let answer = tokio::select! {
        answer = &mut answer => answer,
        _ = &mut connection => answer.await,
    };
    let answer = answer.map_err(broken)?;
    reply::judge(answer.status(), answer.headers(), Timestamp::now())
}

fn request(ready: &Ready, message: &Message) -> Result<Request<Full<Bytes>>, http::Error> {
    let Ready { sink, target, credentials, .. } = ready;
    let content_type = match sink.format {
        Format::CloudEvents => "application/cloudevents+json",
        Format::Slack => "application/json",
    };
    let mut request = Request::post(target.path.as_str())
        .header(HOST, &target.authority)
        .header(USER_AGENT, AGENT)
        .header(CONTENT_TYPE, content_type);
    if let Some((name, value)) = &credentials.header {
        request = request.header(name, value);
    }
    if let Some(signature) = credentials.signature(message.body(sink.format)) {
        request = request.header(SIGNATURE, signature);
    }
    request.body(Full::new(message.body(sink.format).clone()))
}
