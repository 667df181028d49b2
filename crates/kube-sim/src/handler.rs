//! From a request to an answer: routing, faults, content types, verbs.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method, Request, Response, header, request};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::answer::{Reply, ResponseBody, answer, cut};
use super::effect::{Dropped, Effect};
use super::errors::ApiError;
use super::guard::header_text;
use super::injection;
use super::inner::Inner;
use super::kinds::Kind;
use super::openapi::Wanted;
use super::patching;
use super::place::Key;
use super::read::{self, ListRequest};
use super::request::{Call, Query, ResourcePath, Route, route, view};
use super::request_record::RequestRecord;
use super::stored::{Object, Stored};
use super::table;
use super::write::{FieldValidation, Ownership, Writer};
use super::{deletion, discovery, openapi, pod_log, scale, watch};

/// Longest request body, as the real one has it.
const BODY_LIMIT: usize = 3 << 20;

/// How long the body of a request may take to arrive.
const BODY_WITHIN: Duration = Duration::from_secs(60);

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
    let within = client.is_some();
    let client = client.unwrap_or_else(|| agent(&parts.headers));
    let client = impersonated(&parts.headers).unwrap_or(client);
    let query = Query::parse(parts.uri.query());
    let route = route(parts.uri.path());
    let mut record = describe(client, &parts, &route, &query);
    let mut recording = server.recorder.exchange(parts.uri.query());
    let effects = server.ledger.lock().begin(&mut record);
    recording.note(|exchange| {
        exchange.request = record.clone();
        exchange.effects.clone_from(&effects);
    });
    let limit = if server.has_size_limits { BODY_LIMIT } else { usize::MAX };
    let body = read_body(body, limit).await;
    if let Ok(body) = &body {
        recording.note(|exchange| exchange.body = body.clone());
    }
    let refusal = injection::before(&effects, &record).await?;
    let is_refused = refusal.is_some();
    let mut aside = Aside::default();
    let result = match refusal {
        Some(error) => Err(error),
        None => body.and_then(|body| {
            let request = (&parts, &record, &*effects);
            carry_out(&server, request, route, query, &body, &mut aside)
        }),
    };
    recording.note(|exchange| {
        exchange.field_manager = aside.manager;
        exchange.stored = aside.stored;
    });
    let mut response = answer(&server, within, result, &aside.warnings);
    if !is_refused {
        response = injection::after(&effects, response).await?;
        if effects.contains(&Effect::CutAnswer) {
            return Ok(cut(response));
        }
    }
    let code = response.status().as_u16();
    server.ledger.lock().end(&record, code);
    recording.note(|exchange| exchange.request.code = code);
    Ok(response)
}

/// What is known of a request besides its answer.
#[derive(Default)]
struct Aside {
    warnings: Vec<String>,
    /// Of a write.
    manager: String,
    /// What was written, as it is stored.
    stored: Option<Bytes>,
}

/// Does what a request asks for.
fn carry_out(
    server: &Arc<Inner>,
    (parts, record, effects): (&request::Parts, &RequestRecord, &[Effect]),
    route: Route,
    query: Query,
    body: &[u8],
    aside: &mut Aside,
) -> Result<Reply, ApiError> {
    let accept = header_text(&parts.headers, header::ACCEPT);
    let Route::Resource(path) = route else {
        return documents(server, &route, &parts.method, accept, effects);
    };
    let dry_run = query.dry_run()?;
    let call = Call {
        path,
        view: view(accept),
        method: &parts.method,
        content_type: header_text(&parts.headers, header::CONTENT_TYPE),
        manager: query.get("fieldManager").unwrap_or(&record.client).to_owned(),
        record,
        effects,
        user: user(&parts.headers),
        dry_run,
        query,
    };
    dispatch(server, &call, body, aside)
}

/// Reads the body of a request, which has to come in time and in bounds.
async fn read_body<B>(body: B, limit: usize) -> Result<Bytes, ApiError>
where
    B: http_body::Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let whole = Limited::new(body, limit).collect();
    match tokio::time::timeout(BODY_WITHIN, whole).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(_)) => {
            Err(ApiError::too_large(format!("Request entity too large: limit is {limit}")))
        }
        Err(_) => {
            let limit = BODY_WITHIN.as_secs();
            let message = format!("the body of the request did not arrive within {limit} s");
            Err(ApiError::new(408, "Timeout", message))
        }
    }
}

const IMPERSONATE_USER: header::HeaderName = header::HeaderName::from_static("impersonate-user");

/// The user that a request is made for: everybody may impersonate others.
fn user(headers: &HeaderMap) -> &str {
    match header_text(headers, IMPERSONATE_USER) {
        "" => "system:admin",
        user => user,
    }
}

/// The user that a client acts as.
fn impersonated(headers: &header::HeaderMap) -> Option<&str> {
    headers.get("impersonate-user")?.to_str().ok()
}

/// The first word of `User-Agent`.
fn agent(headers: &HeaderMap) -> &str {
    header_text(headers, header::USER_AGENT).split(['/', ' ']).next().unwrap_or_default()
}

fn describe(client: &str, parts: &request::Parts, route: &Route, query: &Query) -> RequestRecord {
    let mut record = RequestRecord { client: client.to_owned(), ..RequestRecord::default() };
    let (method, headers) = (&parts.method, &parts.headers);
    let Route::Resource(target) = route else {
        record.verb = method.as_str().to_lowercase();
        record.resource = parts.uri.path().to_owned();
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
    effects: &[Effect],
) -> Result<Reply, ApiError> {
    if *method != Method::GET && *method != Method::HEAD {
        return Err(ApiError::new(405, "MethodNotAllowed", "only GET is allowed here"));
    }
    let state = server.state.lock();
    let hidden: Vec<&str> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Unlisted(plural) => Some(*plural),
            _ => None,
        })
        .collect();
    let listed = match hidden.as_slice() {
        [] => Cow::Borrowed(&state.kinds),
        hidden => Cow::Owned(state.kinds.without(hidden)),
    };
    match route {
        Route::Version => Ok(Reply::value(200, &discovery::version())),
        Route::Health => Ok(Reply::Json(200, Bytes::from_static(b"ok"))),
        Route::LegacyVersions => Ok(discovery::legacy(&listed, accept)),
        Route::Groups => Ok(discovery::groups(&listed, accept)),
        Route::Group(group) => discovery::group(&listed, group).map(|v| Reply::value(200, &v)),
        Route::Resources(group, version) => {
            discovery::resources(&listed, group, version).map(|v| Reply::value(200, &v))
        }
        Route::OpenApiV2 => {
            let wanted = Wanted::whole(&state.kinds, accept);
            drop(state);
            Ok(wanted.make())
        }
        Route::OpenApiV3 => {
            Ok(Reply::value(200, &openapi::index(&state.kinds, state.kinds_changed)))
        }
        Route::OpenApiV3Group(path) => {
            let wanted = Wanted::group(&state.kinds, path);
            drop(state);
            wanted.map(Wanted::make)
        }
        Route::Resource(_) | Route::Unknown => Err(ApiError::no_such_path()),
    }
}

fn dispatch(
    server: &Arc<Inner>,
    call: &Call<'_>,
    body: &[u8],
    aside: &mut Aside,
) -> Result<Reply, ApiError> {
    let path = &call.path;
    if let Some(reply) = discovery::review(path, call.method, call.user, body) {
        return reply;
    }
    // Read before the lock is taken. Who would enter a Pod sends none.
    let body = match *call.method {
        _ if matches!(path.subresource.as_str(), "attach" | "exec" | "portforward") => None,
        Method::POST | Method::PUT | Method::PATCH => {
            Some(patching::parse_body(body, call.content_type)?)
        }
        Method::DELETE if !body.is_empty() => Some(patching::parse_body(body, call.content_type)?),
        _ => None,
    };
    let now = server.clock.now();
    let mut state = server.state.lock();
    state.store.cause = call.record.seq;
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
    if kind.is_event() {
        state.expire_events(now);
    }
    if *call.method == Method::GET && call.query.flag("watch") {
        let watch = watch::open(server, &mut state, &kind, call)?;
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
        key: Key::new(
            path.namespace.as_deref().unwrap_or_default(),
            path.name.as_deref().unwrap_or_default(),
        ),
        manager: call.manager.clone(),
        now,
        dry_run: call.dry_run,
        has_size_limits: server.has_size_limits,
        validation,
        warnings: Vec::new(),
    };
    let writes = !matches!(*call.method, Method::GET | Method::HEAD);
    if writes {
        aside.manager.clone_from(&writer.manager);
    }
    let done = apply(&mut writer, call, body)?;
    aside.warnings.append(&mut writer.warnings);
    drop(state);
    if let Done::Object(_, stored) = &done
        && writes
        && !call.dry_run
    {
        aside.stored = Some(stored.json.clone());
    }
    // What needs no lock: most of the work of a large answer.
    Ok(match done {
        Done::Reply(reply) => reply,
        Done::Page(page) => Reply::Json(200, page.render(&list_request(&kind, call, now)).into()),
        Done::Object(code, stored) if path.subresource == "scale" => {
            Reply::value(code, &scale::of(&kind, &stored.value())?)
        }
        Done::Object(code, stored) => {
            let include = table::Include::parse(call.query.get("includeObject"));
            Reply::Json(code, read::render(&kind, &stored, call.view, (include, true), now))
        }
    })
}

/// What came of a request, before it is an answer.
enum Done {
    Reply(Reply),
    Page(read::Page),
    Object(u16, Arc<Stored>),
}

/// Carries out what the method asks.
fn apply(writer: &mut Writer<'_>, call: &Call<'_>, body: Option<Value>) -> Result<Done, ApiError> {
    let subresource = call.path.subresource.as_str();
    let is_named = call.path.name.is_some();
    Ok(match (call.method, is_named, subresource) {
        (&Method::GET, false, _) => {
            let kind = writer.kind.clone();
            Done::Page(read::select(writer.state, &list_request(&kind, call, writer.now))?)
        }
        (&Method::GET, true, "log") => {
            let pod = writer.found()?;
            Done::Reply(pod_log::read(&pod.value(), &call.query)?)
        }
        (method, true, "token") => {
            let account = writer.found()?;
            let made = (writer.now, writer.state.ids.uid());
            let request = body.unwrap_or_default();
            Done::Reply(pod_log::token(&account.value(), method, &request, made)?)
        }
        (_, true, "attach" | "exec" | "portforward" | "proxy") => {
            writer.found()?;
            return Err(pod_log::nothing_runs(subresource));
        }
        (&Method::GET, true, _) => Done::Object(200, writer.found()?),
        (&Method::POST, false, "") => Done::Object(201, create(writer, body.unwrap_or_default())?),
        (&Method::POST, true, "eviction") => Done::Reply(deletion::evict(writer)?),
        (&Method::PUT, true, "scale") => {
            Done::Object(200, scale::replace(writer, &body.unwrap_or_default())?)
        }
        (&Method::PUT, true, "finalize") => Done::Reply(deletion::finalize(writer)?),
        (&Method::PUT, true, _) => Done::Object(200, replace(writer, body.unwrap_or_default())?),
        (&Method::PATCH, true, _) => {
            let (code, stored) = patching::patch(writer, call, &body.unwrap_or_default())?;
            Done::Object(code, stored)
        }
        (&Method::DELETE, true, "") => Done::Reply(deletion::delete(writer, call, body.as_ref())?),
        (&Method::DELETE, false, _) => {
            Done::Reply(deletion::delete_collection(writer, call, body.as_ref())?)
        }
        _ => return Err(ApiError::method_not_allowed(&writer.kind)),
    })
}

fn list_request<'a>(kind: &'a Kind, call: &'a Call<'_>, now: Timestamp) -> ListRequest<'a> {
    ListRequest {
        kind,
        namespace: call.path.namespace.as_deref(),
        query: &call.query,
        view: call.view,
        now,
    }
}

fn check_subresource(kind: &Kind, path: &ResourcePath) -> Result<(), ApiError> {
    let known = match path.subresource.as_str() {
        "" => true,
        "status" => kind.status,
        "scale" => kind.scale.is_some(),
        "finalize" => kind.is("", "namespaces"),
        "eviction" | "log" | "attach" | "exec" | "portforward" | "proxy" => kind.is("", "pods"),
        "token" => kind.is("", "serviceaccounts"),
        _ => false,
    };
    if known { Ok(()) } else { Err(ApiError::no_such_path()) }
}

fn create(writer: &mut Writer<'_>, mut body: Value) -> Result<Arc<Stored>, ApiError> {
    if writer.kind.namespaced && writer.key.namespace.is_empty() {
        // A creation without a namespace in the URL is possible for old clients only.
        return Err(ApiError::method_not_allowed(&writer.kind));
    }
    writer.check_identity(&mut body)?;
    let body = Object::new(writer.to_stored(body));
    writer.create(body, Ownership::Update)
}

fn replace(writer: &mut Writer<'_>, mut body: Value) -> Result<Arc<Stored>, ApiError> {
    writer.check_identity(&mut body)?;
    let current = writer.current()?;
    let version = body["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    if !writer.kind.is_builtin() && version.is_empty() {
        let cause = super::errors::Cause::invalid(
            "metadata.resourceVersion",
            &json!("0x0"),
            "must be specified for an update",
        );
        return Err(ApiError::invalid(&writer.kind, &writer.key.name, vec![cause]));
    }
    let body = Object::new(writer.to_stored(body));
    writer.update(&current, body, Ownership::Update)
}
