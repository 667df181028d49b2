//! From a request to an answer: routing, faults, content types, verbs.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::body::Bytes;
use serde_json::{Value, json};

use super::errors::ApiError;
use super::faults::{Effect, RequestRecord};
use super::kinds::Kind;
use super::patching;
use super::read::{self, ListRequest};
use super::request::{Query, ResourcePath, Route, View, route, view};
use super::store::Stored;
use super::write::{FieldValidation, Ownership, Writer};
use super::{Inner, deletion, discovery, openapi, scale, watch};

/// Longest request body, as the real one has it.
const BODY_LIMIT: usize = 3 << 20;

/// How long the body of a request may take to arrive.
const BODY_WITHIN: Duration = Duration::from_secs(60);

/// Kibibytes of answers over the network that may wait to be read. Further
/// requests are told to come later, and watches wait.
pub(super) const UNREAD_LIMIT: usize = 256 << 10;

/// Smaller answers are not counted.
const SMALL: usize = 64 << 10;

/// The body of an answer; a watch streams, all else is whole.
pub type ResponseBody = UnsyncBoxBody<Bytes, Infallible>;

/// The connection was cut on purpose: see [`Effect::DropAfterApplying`].
#[derive(Debug, thiserror::Error)]
#[error("connection reset by the embedded API server, as an injected fault asks")]
pub struct Dropped;

/// A request without its body.
pub(crate) struct Call<'a> {
    pub path: ResourcePath,
    pub query: Query,
    pub view: View,
    pub method: &'a Method,
    pub content_type: &'a str,
    pub manager: String,
    pub dry_run: bool,
}

/// An answer before it is HTTP.
pub(crate) enum Reply {
    Json(u16, Vec<u8>),
    /// Another form than plain JSON, which the content type says.
    Typed(&'static str, Vec<u8>),
    Watch(Box<watch::Watch>),
}

impl Reply {
    pub fn value(code: u16, value: &Value) -> Self {
        Self::Json(code, super::store::to_json(value))
    }
}

/// Answers one request.
pub(crate) async fn handle<B>(
    server: Arc<Inner>,
    client: Option<&str>,
    request: Request<B>,
) -> Result<Response<ResponseBody>, Dropped>
where
    B: http_body::Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (parts, body) = request.into_parts();
    let agent = header_text(&parts.headers, header::USER_AGENT)
        .split(['/', ' '])
        .next()
        .unwrap_or_default();
    let within = client.is_some();
    let client = client.unwrap_or(agent).to_owned();
    let query = Query::parse(parts.uri.query());
    let route = route(parts.uri.path());
    let record = describe(&client, &parts.method, parts.uri.path(), &route, &query, &parts.headers);
    let (seq, effects) = server.ledger.lock().begin(record);
    let mut drop_after = false;
    for effect in effects {
        match effect {
            Effect::Latency(time) => tokio::time::sleep(time).await,
            Effect::Status(code) => {
                server.ledger.lock().end(seq, code);
                return Ok(error_response(&injected(code)));
            }
            Effect::DropAfterApplying => drop_after = true,
        }
    }
    let whole = Limited::new(body, BODY_LIMIT).collect();
    let bytes = match tokio::time::timeout(BODY_WITHIN, whole).await {
        Ok(Ok(body)) => body.to_bytes(),
        Err(_) => {
            let limit = BODY_WITHIN.as_secs();
            let message = format!("the body of the request did not arrive within {limit} s");
            let error = ApiError::new(408, "Timeout", message);
            server.ledger.lock().end(seq, error.code);
            return Ok(error_response(&error));
        }
        Ok(Err(_)) => {
            let error =
                ApiError::too_large(format!("Request entity too large: limit is {BODY_LIMIT}"));
            server.ledger.lock().end(seq, error.code);
            return Ok(error_response(&error));
        }
    };
    let content_type = header_text(&parts.headers, header::CONTENT_TYPE);
    let accept = header_text(&parts.headers, header::ACCEPT);
    let mut warnings = Vec::new();
    let result = match route {
        Route::Resource(path) => {
            let manager = query.get("fieldManager").map_or_else(|| client.clone(), str::to_owned);
            query.dry_run().and_then(|dry_run| {
                let call = Call {
                    path,
                    view: view(accept),
                    method: &parts.method,
                    content_type,
                    manager,
                    dry_run,
                    query,
                };
                dispatch(&server, &call, &bytes, &mut warnings)
            })
        }
        other => documents(&server, &other, &parts.method, accept),
    };
    if drop_after {
        return Err(Dropped);
    }
    // Answers inside the process are taken at once.
    let hold = |body: Vec<u8>| if within { Ok(Bytes::from(body)) } else { hold(&server, body) };
    let result = result.and_then(|reply| {
        Ok(match reply {
            Reply::Json(code, body) => (code, "application/json", Ok(hold(body)?)),
            Reply::Typed(content_type, body) => (200, content_type, Ok(hold(body)?)),
            Reply::Watch(watch) => (200, "application/json", Err(watch)),
        })
    });
    let response = match result {
        Ok((code, content_type, Ok(body))) => respond(code, content_type, body, &warnings),
        Ok((_, _, Err(watch))) => {
            let unread = (!within).then(|| Arc::clone(&server.unread));
            let body = StreamBody::new((*watch).into_stream(unread));
            let mut response = Response::new(body.boxed_unsync());
            response
                .headers_mut()
                .insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
            response
        }
        Err(error) => error_response(&error),
    };
    server.ledger.lock().end(seq, response.status().as_u16());
    Ok(response)
}

/// An answer that counts as unread until it has been handed to the network.
pub(super) struct Unread {
    bytes: Vec<u8>,
    _room: tokio::sync::OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Unread {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Unread {
    pub fn held(bytes: Vec<u8>, room: tokio::sync::OwnedSemaphorePermit) -> Bytes {
        Bytes::from_owner(Self { bytes, _room: room })
    }

    /// How much room so many bytes take; none for few of them.
    pub fn room(bytes: usize) -> u32 {
        let kibibytes = if bytes > SMALL { bytes.div_ceil(1 << 10) } else { 0 };
        // One that is larger than all the room has it to itself.
        u32::try_from(kibibytes.min(UNREAD_LIMIT)).unwrap_or(u32::MAX)
    }
}

fn hold(server: &Inner, body: Vec<u8>) -> Result<Bytes, ApiError> {
    let room = Unread::room(body.len());
    if room == 0 {
        return Ok(Bytes::from(body));
    }
    match server.unread.clone().try_acquire_many_owned(room) {
        Ok(room) => Ok(Unread::held(body, room)),
        Err(_) => {
            let message = format!(
                "too many requests: {UNREAD_LIMIT} KiB of answers wait to be read, ask again later"
            );
            let mut error = ApiError::new(429, "TooManyRequests", message);
            error.details.retry_after = Some(1);
            Err(error)
        }
    }
}

fn header_text(headers: &HeaderMap, name: header::HeaderName) -> &str {
    headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default()
}

fn injected(code: u16) -> ApiError {
    let (reason, message) = match code {
        400 => ("BadRequest", "injected bad request"),
        403 => ("Forbidden", "injected refusal"),
        404 => ("NotFound", "injected absence"),
        409 => ("Conflict", "injected conflict"),
        // As the real one says of a JSON patch that does not fit.
        422 => {
            ("Invalid", "the server rejected our request due to an error in our request: injected")
        }
        410 => ("Expired", "injected expiry"),
        429 => ("TooManyRequests", "injected: too many requests"),
        503 => ("ServiceUnavailable", "injected: service unavailable"),
        504 => ("Timeout", "injected timeout"),
        _ => ("InternalError", "injected failure"),
    };
    let mut error = ApiError::new(code, reason, message);
    error.details.retry_after = (code == 429).then_some(1);
    error
}

fn respond(
    code: u16,
    content_type: &'static str,
    body: Bytes,
    warnings: &[String],
) -> Response<ResponseBody> {
    let mut response = Response::new(Full::new(body).boxed_unsync());
    *response.status_mut() =
        StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    for warning in warnings {
        let text = format!("299 - {:?}", warning.replace(['\\', '"'], "'"));
        if let Ok(value) = header::HeaderValue::from_str(&text) {
            headers.append(header::WARNING, value);
        }
    }
    response
}

pub(super) fn error_response(error: &ApiError) -> Response<ResponseBody> {
    let body = Bytes::from(super::store::to_json(&error.status()));
    let mut response = respond(error.code, "application/json", body, &[]);
    if let Some(seconds) = error.details.retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from(seconds));
    }
    response
}

fn describe(
    client: &str,
    method: &Method,
    path: &str,
    route: &Route,
    query: &Query,
    headers: &HeaderMap,
) -> RequestRecord {
    let mut record = RequestRecord { client: client.to_owned(), ..RequestRecord::default() };
    let Route::Resource(target) = route else {
        record.verb = method.as_str().to_lowercase();
        record.resource = path.to_owned();
        return record;
    };
    let apply = header_text(headers, header::CONTENT_TYPE).starts_with("application/apply-patch");
    record.verb = match (method, target.name.is_some()) {
        (&Method::GET, _) if query.flag("watch") => "watch",
        (&Method::GET, true) => "get",
        (&Method::GET, false) => "list",
        (&Method::POST, _) => "create",
        (&Method::PUT, _) => "update",
        (&Method::PATCH, _) if apply => "apply",
        (&Method::PATCH, _) => "patch",
        (&Method::DELETE, true) => "delete",
        (&Method::DELETE, false) => "deletecollection",
        _ => method.as_str(),
    }
    .to_owned();
    record.group.clone_from(&target.group);
    record.resource.clone_from(&target.resource);
    record.subresource.clone_from(&target.subresource);
    record.namespace = target.namespace.clone().unwrap_or_default();
    record.name = target.name.clone().unwrap_or_default();
    record.dry_run = query.get("dryRun").is_some();
    record
}

/// Answers that are about the server and not about an object.
fn documents(
    server: &Inner,
    route: &Route,
    method: &Method,
    accept: &str,
) -> Result<Reply, ApiError> {
    if *method != Method::GET && *method != Method::HEAD {
        return Err(ApiError::new(405, "MethodNotAllowed", "only GET is allowed here"));
    }
    let state = server.state.lock();
    match route {
        Route::Version => Ok(Reply::value(200, &discovery::version())),
        Route::Health => Ok(Reply::Json(200, b"ok".to_vec())),
        Route::LegacyVersions => Ok(discovery::legacy(&state.kinds, accept)),
        Route::Groups => Ok(discovery::groups(&state.kinds, accept)),
        Route::Group(group) => discovery::group(&state.kinds, group).map(|v| Reply::value(200, &v)),
        Route::Resources(group, version) => {
            discovery::resources(&state.kinds, group, version).map(|v| Reply::value(200, &v))
        }
        Route::OpenApiV2 => Ok(openapi::v2(accept)),
        Route::OpenApiV3 => {
            Ok(Reply::value(200, &openapi::index(&state.kinds, state.kinds_changed)))
        }
        Route::OpenApiV3Group(path) => {
            openapi::group(&state.kinds, path).map(|v| Reply::value(200, &v))
        }
        Route::Resource(_) | Route::Unknown => Err(ApiError::no_such_path()),
    }
}

fn dispatch(
    server: &Arc<Inner>,
    call: &Call<'_>,
    body: &[u8],
    warnings: &mut Vec<String>,
) -> Result<Reply, ApiError> {
    let path = &call.path;
    if let Some(reply) = discovery::review(path, call.method, body) {
        return reply;
    }
    // Read before the lock is taken.
    let body = match *call.method {
        Method::POST | Method::PUT | Method::PATCH => {
            Some(patching::parse_body(body, call.content_type)?)
        }
        Method::DELETE if !body.is_empty() => Some(patching::parse_body(body, call.content_type)?),
        _ => None,
    };
    let now = server.clock.now();
    let mut state = server.state.lock();
    let kind = state
        .kinds
        .get(&path.group, &path.version, &path.resource)
        .cloned()
        .ok_or_else(ApiError::no_such_path)?;
    if path.namespace.is_some() && !kind.namespaced {
        return Err(ApiError::no_such_path());
    }
    if kind.namespaced && path.namespace.is_none() && path.name.is_some() {
        return Err(ApiError::no_such_path());
    }
    check_subresource(&kind, path)?;
    let is_watch = *call.method == Method::GET && call.query.flag("watch");
    if is_watch {
        let name = path.name.as_deref();
        let watch = watch::open(
            server,
            &mut state,
            &kind,
            path.namespace.as_deref(),
            name,
            &call.query,
            call.view,
        )?;
        return Ok(Reply::Watch(Box::new(watch)));
    }
    let validation = match call.query.get("fieldValidation") {
        Some("Strict") => FieldValidation::Strict,
        Some("Warn") => FieldValidation::Warn,
        None | Some("Ignore") => FieldValidation::Ignore,
        Some(other) => {
            return Err(ApiError::bad_request(format!("invalid fieldValidation: {other}")));
        }
    };
    let mut writer = Writer {
        state: &mut state,
        kind: kind.clone(),
        subresource: path.subresource.clone(),
        namespace: path.namespace.clone().unwrap_or_default(),
        name: path.name.clone().unwrap_or_default(),
        manager: call.manager.clone(),
        now,
        dry_run: call.dry_run,
        validation,
        warnings: Vec::new(),
    };
    let done = match (call.method, path.name.is_some()) {
        (&Method::GET, false) => {
            let request = ListRequest {
                kind: &kind,
                namespace: path.namespace.as_deref(),
                query: &call.query,
                view: call.view,
                now,
            };
            let page = read::select(writer.state, &request)?;
            drop(state);
            return Ok(Reply::Json(200, page.render(&request)));
        }
        (&Method::GET, true) if path.subresource == "scale" => {
            return scale::get(&writer).map(|v| Reply::value(200, &v));
        }
        (&Method::GET, true) => (200, found(&writer)?),
        (&Method::POST, false) if path.subresource.is_empty() => {
            create(&mut writer, body.unwrap_or_default())?
        }
        (&Method::POST, true) if path.subresource == "eviction" => {
            return deletion::evict(&mut writer);
        }
        (&Method::PUT, true) if path.subresource == "scale" => {
            return scale::replace(&mut writer, body.unwrap_or_default())
                .map(|v| Reply::value(200, &v));
        }
        (&Method::PUT, true) if path.subresource == "finalize" => {
            return deletion::finalize(&mut writer, &body.unwrap_or_default());
        }
        (&Method::PUT, true) => (200, replace(&mut writer, body.unwrap_or_default())?),
        (&Method::PATCH, true) => patching::patch(&mut writer, call, &body.unwrap_or_default())?,
        (&Method::DELETE, true) if path.subresource.is_empty() => {
            return deletion::delete(&mut writer, call, body.as_ref());
        }
        (&Method::DELETE, false) => {
            return deletion::delete_collection(&mut writer, call, body.as_ref());
        }
        _ => return Err(ApiError::method_not_allowed(&kind)),
    };
    warnings.append(&mut writer.warnings);
    drop(state);
    let (code, stored) = done;
    if path.subresource == "scale" {
        return Ok(Reply::value(code, &scale::of(&kind, &stored.slim)?));
    }
    Ok(Reply::Json(code, read::render(&kind, &stored, call.view, &call.query, now)))
}

fn check_subresource(kind: &Kind, path: &ResourcePath) -> Result<(), ApiError> {
    let known = match path.subresource.as_str() {
        "" => true,
        "status" => kind.status,
        "scale" => kind.scale.is_some(),
        "finalize" => kind.is("", "namespaces"),
        "eviction" => kind.is("", "pods"),
        _ => false,
    };
    if known { Ok(()) } else { Err(ApiError::no_such_path()) }
}

/// The object that a request names.
pub(crate) fn found(writer: &Writer<'_>) -> Result<Arc<Stored>, ApiError> {
    writer.current().ok_or_else(|| ApiError::not_found(&writer.kind, &writer.name))
}

fn create(writer: &mut Writer<'_>, mut body: Value) -> Result<(u16, Arc<Stored>), ApiError> {
    if writer.kind.namespaced && writer.namespace.is_empty() {
        // A creation without a namespace in the URL is possible for old clients only.
        return Err(ApiError::method_not_allowed(&writer.kind));
    }
    writer.check_identity(&mut body)?;
    let body = writer.to_stored(body);
    Ok((201, writer.create(body, Ownership::Update)?))
}

fn replace(writer: &mut Writer<'_>, mut body: Value) -> Result<Arc<Stored>, ApiError> {
    writer.check_identity(&mut body)?;
    let current = found(writer)?;
    let version = body["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    if !writer.kind.is_builtin() && version.is_empty() {
        let cause = super::errors::Cause::invalid(
            "metadata.resourceVersion",
            &json!("0x0"),
            "must be specified for an update",
        );
        return Err(ApiError::invalid(&writer.kind, &writer.name, vec![cause]));
    }
    let body = writer.to_stored(body);
    writer.update(&current, body, Ownership::Update)
}
