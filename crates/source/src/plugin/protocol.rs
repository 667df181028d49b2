//! The protocol of config management plugins: gRPC over a local socket.
//!
//! A call is one HTTP/2 request, whose body and answer are messages with a prefix of five
//! bytes. The messages and their numbers are those of Argo CD's published definition
//! (`plugin.ConfigManagementPluginService`).

use std::fs::File;
use std::io::Seek;
use std::path::Path;
use std::time::Duration;

use futures::Stream;
use futures::StreamExt as _;
use http::{HeaderMap, Method, Request, header};
use http_body::{Body as _, Frame};
use http_body_util::StreamBody;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::UnixStream;

/// Name of the service.
const SERVICE: &str = "plugin.ConfigManagementPluginService";

/// Length of the prefix of a message: a flag and four bytes of length.
const PREFIX: usize = 5;

/// Bytes of the archive in one message.
const CHUNK: usize = 32 << 10;

/// Most values of an answer, such as manifests: an empty one takes two bytes there, and 24 here.
const MAX_VALUES: usize = 100_000;

/// Longest error message that is shown, in characters.
const MESSAGE_LENGTH: usize = 2000;

/// What is sent: first the metadata, then the archive.
#[derive(Clone, PartialEq, Message)]
pub(super) struct AppStreamRequest {
    #[prost(oneof = "AppStream", tags = "1, 2")]
    pub request: Option<AppStream>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum AppStream {
    #[prost(message, tag = "1")]
    Metadata(Metadata),
    #[prost(message, tag = "2")]
    File(Chunk),
}

/// What the archive is.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Metadata {
    #[prost(string, tag = "1")]
    pub app_name: String,
    /// The directory of the source inside the archive.
    #[prost(string, tag = "2")]
    pub app_rel_path: String,
    /// SHA-256 of the archive, in hexadecimal digits.
    #[prost(string, tag = "3")]
    pub checksum: String,
    #[prost(int64, tag = "4")]
    pub size: i64,
    #[prost(message, repeated, tag = "5")]
    pub env: Vec<EnvEntry>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct EnvEntry {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Chunk {
    #[prost(bytes = "bytes", tag = "1")]
    pub chunk: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Empty {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ManifestResponse {
    #[prost(string, repeated, tag = "1")]
    pub manifests: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RepositoryResponse {
    #[prost(bool, tag = "1")]
    pub is_supported: bool,
    #[prost(bool, tag = "2")]
    pub is_discovery_enabled: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ConfigurationResponse {
    #[prost(bool, tag = "1")]
    pub is_discovery_configured: bool,
    #[prost(bool, tag = "2")]
    pub provide_git_creds: bool,
}

/// Why a call gave no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failed {
    /// The plugin said so, such as when its command failed.
    #[error("{0}")]
    Refused(String),
    /// The call failed, or took too long.
    #[error("{0}")]
    Lost(String),
}

impl Failed {
    fn of_method(self, method: &str) -> Self {
        match self {
            Self::Refused(why) => Self::Refused(format!("{method}: {why}")),
            Self::Lost(why) => Self::Lost(format!("{method}: {why}")),
        }
    }
}

/// The connection to one plugin.
pub(super) struct Connection {
    sender: http2::SendRequest<StreamBody<Frames>>,
    driver: tokio::task::JoinHandle<()>,
    /// Limits of each call.
    time: Duration,
    output: usize,
}

type Frames = std::pin::Pin<Box<dyn Stream<Item = std::io::Result<Frame<Bytes>>> + Send + 'static>>;

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Connection {
    /// Connects to a socket. Each call may take `time`, and be answered with `output` bytes.
    ///
    /// # Errors
    ///
    /// Why it cannot be reached, for users.
    pub(super) async fn open(socket: &Path, time: Duration, output: usize) -> Result<Self, String> {
        let connect = async {
            let stream = UnixStream::connect(socket).await.map_err(|error| error.to_string())?;
            let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
            handshake.map_err(|error| reason(&error))
        };
        let (sender, connection) = tokio::time::timeout(time, connect)
            .await
            .map_err(|_| format!("no answer within {} s", time.as_secs_f64()))??;
        let driver = tokio::spawn(async move {
            // Its error is that of the calls, too.
            let _ = connection.await;
        });
        Ok(Self { sender, driver, time, output })
    }

    /// How the plugin is configured.
    pub(super) async fn configuration(&self) -> Result<ConfigurationResponse, Failed> {
        let message = framed(&Empty {});
        let body = futures::stream::once(async move { Ok(Frame::data(message)) });
        self.call("CheckPluginConfiguration", Box::pin(body)).await
    }

    /// Whether the plugin wants an archive.
    pub(super) async fn matches(
        &self,
        metadata: Metadata,
        archive: &File,
    ) -> Result<RepositoryResponse, Failed> {
        let body = with_archive(metadata, archive).map_err(Failed::Lost)?;
        self.call("MatchRepository", body).await
    }

    /// The manifests of an archive.
    pub(super) async fn generate(
        &self,
        metadata: Metadata,
        archive: &File,
    ) -> Result<ManifestResponse, Failed> {
        let body = with_archive(metadata, archive).map_err(Failed::Lost)?;
        self.call("GenerateManifest", body).await
    }

    async fn call<Answer: Message + Default>(
        &self,
        method: &str,
        body: Frames,
    ) -> Result<Answer, Failed> {
        let failed = |why: String| Failed::Lost(why).of_method(method);
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("http://localhost/{SERVICE}/{method}"))
            .header(header::CONTENT_TYPE, "application/grpc")
            .header(header::TE, "trailers")
            // The plugin stops its work then.
            .header("grpc-timeout", format!("{}m", self.time.as_millis().clamp(1, 99_999_999)))
            .body(StreamBody::new(body))
            .map_err(|error| failed(error.to_string()))?;
        let mut sender = self.sender.clone();
        let work = async {
            let lost = |error: hyper::Error| Failed::Lost(reason(&error));
            sender.ready().await.map_err(lost)?;
            read(sender.send_request(request).await.map_err(lost)?, self.output).await
        };
        let bytes = tokio::time::timeout(self.time, work)
            .await
            .map_err(|_| failed(format!("took longer than {} s", self.time.as_secs_f64())))?
            .map_err(|error| error.of_method(method))?;
        if values(&bytes) > MAX_VALUES {
            return Err(failed(format!("the answer has more than {MAX_VALUES} values")));
        }
        Answer::decode(bytes.as_slice())
            .map_err(|error| failed(format!("the answer is not readable: {error}")))
    }
}

/// How many values a message has at its top, as far as it can be read.
fn values(mut message: &[u8]) -> usize {
    let mut count = 0;
    while let Some(key) = varint(&mut message) {
        let length = match key & 7 {
            0 => varint(&mut message).map(|_| 0),
            1 => Some(8),
            2 => varint(&mut message),
            5 => Some(4),
            _ => None,
        };
        let rest = length.and_then(|length| message.get(usize::try_from(length).ok()?..));
        let Some(rest) = rest else { break };
        message = rest;
        count += 1;
    }
    count
}

fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = message.split_first()?;
        *message = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// The message of an answer.
async fn read(answer: http::Response<Incoming>, limit: usize) -> Result<Vec<u8>, Failed> {
    let lost = |why: &str| Failed::Lost(why.to_owned());
    let (head, mut body) = answer.into_parts();
    if head.status != http::StatusCode::OK {
        return Err(Failed::Lost(format!("HTTP status {}", head.status)));
    }
    // An error without a message has its status here.
    if let Some(status) = status(&head.headers) {
        status?;
    }
    let (mut bytes, mut ended) = (Vec::new(), None);
    while let Some(frame) =
        std::future::poll_fn(|context| std::pin::Pin::new(&mut body).poll_frame(context)).await
    {
        let frame = frame.map_err(|error| Failed::Lost(reason(&error)))?;
        match frame.into_data() {
            Ok(data) => {
                if bytes.len() + data.len() > limit.saturating_add(PREFIX) {
                    return Err(Failed::Lost(format!("the answer has more than {limit} bytes")));
                }
                bytes.extend_from_slice(&data);
            }
            Err(frame) => ended = frame.into_trailers().ok().or(ended),
        }
    }
    match ended.as_ref().and_then(status) {
        Some(status) => status?,
        None => return Err(lost("the answer ended without a status")),
    }
    let Some((prefix, message)) = bytes.split_at_checked(PREFIX) else {
        return Err(lost("the answer is empty"));
    };
    if prefix[0] != 0 {
        return Err(lost("the answer is compressed, which was not asked for"));
    }
    let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]);
    if usize::try_from(length).ok() != Some(message.len()) {
        return Err(lost("the answer is not one whole message"));
    }
    Ok(message.to_vec())
}

/// The status of a call; `None` when it is not there.
fn status(headers: &HeaderMap) -> Option<Result<(), Failed>> {
    let text = |name: &str| headers.get(name).map(|value| value.as_bytes());
    let code = text("grpc-status")?;
    if code == b"0" {
        return Some(Ok(()));
    }
    let message = text("grpc-message").unwrap_or_default();
    let message = percent_encoding::percent_decode(message).decode_utf8_lossy().into_owned();
    let message: String = message.trim().chars().take(MESSAGE_LENGTH).collect();
    let message = match message.is_empty() {
        true => format!("gRPC status {}", String::from_utf8_lossy(code)),
        false => message,
    };
    // What a server of Go answers for an error of its own; others are those of the transport.
    Some(Err(if code == b"2" { Failed::Refused(message) } else { Failed::Lost(message) }))
}

fn reason(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

fn framed(message: &impl Message) -> Bytes {
    let mut bytes = vec![0; PREFIX];
    bytes.extend(message.encode_to_vec());
    let length = u32::try_from(bytes.len() - PREFIX).unwrap_or(u32::MAX);
    bytes[1..PREFIX].copy_from_slice(&length.to_be_bytes());
    bytes.into()
}

/// The metadata and the archive, read as it is sent.
fn with_archive(metadata: Metadata, archive: &File) -> Result<Frames, String> {
    let mut file = archive.try_clone().map_err(|error| error.to_string())?;
    file.rewind().map_err(|error| error.to_string())?;
    let of = |request| framed(&AppStreamRequest { request: Some(request) });
    let first = of(AppStream::Metadata(metadata));
    let file = tokio::fs::File::from_std(file);
    let chunks = futures::stream::try_unfold(file, move |file| async move {
        let mut file = file;
        let mut chunk = vec![0; CHUNK];
        let length = tokio::io::AsyncReadExt::read(&mut file, &mut chunk).await?;
        chunk.truncate(length);
        let chunk = Chunk { chunk: chunk.into() };
        let message = Frame::data(of(AppStream::File(chunk)));
        Ok::<_, std::io::Error>((length > 0).then_some((message, file)))
    });
    let first = futures::stream::once(async move { Ok(Frame::data(first)) });
    Ok(Box::pin(first.chain(chunks)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer of 64 MiB that consists of empty texts took 800.
    #[test]
    fn the_values_of_an_answer_are_counted_before_it_is_decoded() {
        let of = |manifests: Vec<String>| ManifestResponse { manifests }.encode_to_vec();
        assert_eq!(values(&of(vec![String::new(); 1_000])), 1_000);
        assert_eq!(values(&of(vec!["x".repeat(300); 7])), 7);
        let switches = RepositoryResponse { is_supported: true, is_discovery_enabled: true };
        assert_eq!(values(&switches.encode_to_vec()), 2);
        for odd in [&b""[..], b"\x0a", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", b"\x0b\x0b"]
        {
            assert_eq!(values(odd), 0, "what is no message is refused when it is decoded");
        }
    }
}
