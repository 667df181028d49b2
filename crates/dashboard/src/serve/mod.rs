//! Serves the page: the guard before every request, views, their streams, and verbs.

mod connections;
mod page;
mod stream;

use std::io::Write;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    HeaderName, REFERRER_POLICY, SET_COOKIE, VARY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::get;
use axum::{Router, http};
use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use maud::html;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use self::page::Page;
pub use self::page::PageOptions;
use self::stream::follow_view;
use crate::access::PageAccess;
use crate::address::{Parameters, ViewName};
use crate::assets;
use crate::reports::{ActionRequest, PageReports, Unavailable};
use crate::view::{self, View, make_view, message_page, whole_page};

/// What browsers may do with the page: nothing is loaded from elsewhere, no script or style stands in
/// HTML, and nobody frames it.
const POLICY: &str = "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; \
                      frame-ancestors 'none'";

/// The most bytes of a form: a selection of a thousand sets.
const FORM: usize = 512 << 10;
/// The most sets of one selection.
const SELECTED: usize = 1000;
/// Answers below this size are not compressed.
const SMALL: usize = 1024;

/// Serves the page on a listener until it is stopped.
pub async fn serve_page(
    listener: TcpListener,
    reports: Arc<dyn PageReports>,
    access: PageAccess,
    options: PageOptions,
    stop: CancellationToken,
) {
    let page = Arc::new(Page::new(reports, access, options, stop.clone()));
    let guarded = Router::new()
        .route("/events", get(events))
        .route("/act/{verb}", get(preview).post(act))
        .fallback(show)
        .layer(middleware::from_fn_with_state(Arc::clone(&page), known))
        .layer(DefaultBodyLimit::max(FORM));
    let router = Router::new()
        // Style and script are in every copy of the program, and no secret.
        .route("/assets/{name}", get(asset))
        .merge(guarded)
        .layer(middleware::from_fn_with_state(Arc::clone(&page), guard))
        .with_state(page);
    connections::serve_connections(listener, router, stop).await;
}

/// Refuses what is not for this page or comes from another one, and sets what browsers may do.
async fn guard(State(page): State<Arc<Page>>, request: Request, next: Next) -> Response {
    let mut response = match page.access.check_origin(request.method(), request.headers()) {
        Err(denial) => refused(denial.status, denial.why),
        Ok(()) if !matches!(*request.method(), Method::GET | Method::POST) => {
            refused(StatusCode::METHOD_NOT_ALLOWED, "only GET and POST are answered")
        }
        Ok(()) => next.run(request).await,
    };
    let headers = response.headers_mut();
    let mut set = |name: HeaderName, value: &'static str| {
        headers.insert(name, HeaderValue::from_static(value));
    };
    set(CONTENT_SECURITY_POLICY, POLICY);
    set(X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(X_FRAME_OPTIONS, "DENY");
    set(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    set(HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    set(HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()");
    headers.entry(REFERRER_POLICY).or_insert(HeaderValue::from_static("no-referrer"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Exchanges the token for the cookie, and refuses requests without one.
async fn known(State(page): State<Arc<Page>>, request: Request, next: Next) -> Response {
    let asked = Parameters::parse(request.uri().query().unwrap_or_default());
    if *request.method() == Method::GET && page.access.is_token(asked.text("start")) {
        return exchanged(&page, request.uri(), &asked);
    }
    if page.access.is_known(request.headers()) {
        return next.run(request).await;
    }
    let why = html! {
        p { "Open the address that " code { "wavegate dashboard" } " has printed: it has the token of this start." }
        p class="quiet" { "After a restart of the program the former address and its cookie are void." }
    };
    answer_html(StatusCode::UNAUTHORIZED, message_page("Not signed in", &why), None)
}

/// The cookie, and the way to the same address without the token. A page leads there, and not the
/// answer itself: a browser sends such a cookie only where this page has led it, and not the one
/// that had the link.
fn exchanged(page: &Page, uri: &Uri, asked: &Parameters) -> Response {
    let path = uri.path();
    // Two slashes at its begin would name another host.
    let is_own = ViewName::of(path).is_some();
    let rest = asked.without("start");
    let query = if rest.is_empty() { String::new() } else { format!("?{rest}") };
    let to = if is_own { format!("{path}{query}") } else { "/".to_owned() };
    let content = html! {
        meta http-equiv="refresh" content={ "0;url=" (to) };
        p { a href=(to) { "Open the page" } }
    };
    let mut response = answer_html(StatusCode::OK, message_page("Signed in", &content), None);
    if let Ok(cookie) = HeaderValue::from_str(&page.access.cookie()) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    let Some((kind, text)) = assets::find_asset(&name) else {
        return refused(StatusCode::NOT_FOUND, "there is no such file");
    };
    let mut response = compressed(text.as_bytes().to_vec(), Some(&headers));
    let set = response.headers_mut();
    set.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    // Its address changes with it.
    set.insert(CACHE_CONTROL, HeaderValue::from_static("max-age=86400"));
    response
}

/// A view.
async fn show(State(page): State<Arc<Page>>, request: Request) -> Response {
    let _turn = page.answers.acquire().await;
    let Some(name) = ViewName::of(request.uri().path()) else {
        return refused(StatusCode::NOT_FOUND, "there is no such view");
    };
    if *request.method() != Method::GET {
        return refused(StatusCode::METHOD_NOT_ALLOWED, "a view is only read");
    }
    let query = request.uri().query().unwrap_or_default();
    let asked = Parameters::parse(query);
    let context = page.context(Some(Timestamp::now()));
    let (reports, context) = view::at_time(&page.reports, request.uri().path(), &asked, context);
    let view = make_view(&reports, &name, &asked, &context).await;
    let is_live = context.clock.is_none();
    let stream = stream::stream_address(&name, request.uri(), context.state.revision);
    let stream = stream.filter(|_| is_live);
    let status = if view.is_missing { StatusCode::NOT_FOUND } else { StatusCode::OK };
    answer_html(status, whole_page(&view, &context, stream.as_deref()), Some(request.headers()))
}

/// The changes of a view.
async fn events(State(page): State<Arc<Page>>, uri: Uri) -> Response {
    let asked = Parameters::parse(uri.query().unwrap_or_default());
    let (path, query) = asked.text("view").split_once('?').unwrap_or((asked.text("view"), ""));
    let Some(name) = ViewName::of(path) else {
        return refused(StatusCode::NOT_FOUND, "there is no such view");
    };
    let since = asked.text("since").parse().ok();
    match follow_view(&page, name, Parameters::parse(query), since) {
        Some(body) => {
            let mut response = Response::new(body);
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
            response
        }
        None => refused(StatusCode::TOO_MANY_REQUESTS, "too many pages are open"),
    }
}

/// What a verb will do.
async fn preview(State(page): State<Arc<Page>>, Path(verb): Path<String>, uri: Uri) -> Response {
    let asked = Parameters::parse(uri.query().unwrap_or_default());
    let action = match page.action(verb, &asked).await {
        Ok(action) => action,
        Err(response) => return *response,
    };
    match page.reports.act(&action, false).await {
        Ok(answer) => page.view(&view::action_view(&action, &answer, page.access.form_word())),
        Err(error) => page.unavailable(&error),
    }
}

/// Does it.
async fn act(State(page): State<Arc<Page>>, Path(verb): Path<String>, form: Bytes) -> Response {
    let text = String::from_utf8_lossy(&form);
    let asked = Parameters::parse(&text);
    if !page.access.is_form_word(asked.text("word")) {
        return refused(StatusCode::FORBIDDEN, "the request is not of a form of this page");
    }
    let action = match page.action(verb, &asked).await {
        Ok(action) => action,
        Err(response) => return *response,
    };
    match page.reports.act(&action, true).await {
        Ok(answer) => page.view(&view::outcome_view(&action, &answer)),
        Err(error) => page.unavailable(&error),
    }
}

impl Page {
    /// What is asked for; an answer when it is refused.
    async fn action(
        &self,
        verb: String,
        asked: &Parameters,
    ) -> Result<ActionRequest, Box<Response>> {
        let refuse = |status, why| Err(Box::new(refused(status, why)));
        if !self.options.allows_actions {
            let why = "this page only shows: start it with --allow-actions to act on it";
            return refuse(StatusCode::FORBIDDEN, why);
        }
        if view::verb_words(&verb).is_none() {
            return refuse(StatusCode::NOT_FOUND, "there is no such verb");
        }
        let mut of = Vec::new();
        for one in asked.all("set").take(SELECTED) {
            let path = format!("/set/{one}");
            let Some(ViewName::Rollout(object)) = ViewName::of(&path) else {
                return refuse(StatusCode::BAD_REQUEST, "a set is NAMESPACE/NAME");
            };
            of.push(object);
        }
        if asked.text("all") == "waiting" {
            let fleet =
                self.reports.fleet().await.map_err(|error| Box::new(self.unavailable(&error)))?;
            let waits = |phase: &str| phase == "AwaitingApproval";
            let waiting =
                fleet.iter().filter(|set| set.run.as_ref().is_some_and(|run| waits(&run.phase)));
            of.extend(waiting.map(|set| set.of.clone()).take(SELECTED));
        }
        let text = |name: &str| asked.text(name).to_owned();
        Ok(ActionRequest { verb, of, gate: text("gate"), reason: text("reason") })
    }

    /// A view with a word of the page, which is not compressed: the size of an answer says nothing
    /// about the word. Its form names the page that it is of, to that page alone: without a referrer
    /// it would be of none.
    fn view(&self, view: &View) -> Response {
        let context = self.context(Some(Timestamp::now()));
        let mut response = answer_html(StatusCode::OK, whole_page(view, &context, None), None);
        let own = HeaderValue::from_static("same-origin");
        response.headers_mut().insert(REFERRER_POLICY, own);
        response
    }

    fn unavailable(&self, error: &Unavailable) -> Response {
        let status = if error.is_missing { StatusCode::NOT_FOUND } else { StatusCode::BAD_GATEWAY };
        let why = html! { p { (error.message) } p { a href="/" { "All ApplicationSets" } } };
        answer_html(status, message_page("Not possible", &why), None)
    }
}

/// A refusal, in words.
fn refused(status: StatusCode, why: &str) -> Response {
    let content = html! { p { (why) } p { a href="/" { "All ApplicationSets" } } };
    let title = status.canonical_reason().unwrap_or("Refused");
    answer_html(status, message_page(title, &content), None)
}

fn answer_html(status: StatusCode, html: String, asked: Option<&HeaderMap>) -> Response {
    let mut response = compressed(html.into_bytes(), asked);
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// An answer, compressed where the request permits it.
fn compressed(bytes: Vec<u8>, asked: Option<&http::HeaderMap>) -> Response {
    let accepts = asked.and_then(|headers| headers.get(ACCEPT_ENCODING)?.to_str().ok());
    let accepts = accepts.is_some_and(|all| all.split(',').any(|one| one.trim() == "gzip"));
    if bytes.len() < SMALL || !accepts {
        return Response::new(Body::from(bytes));
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to memory cannot fail.
    let packed = encoder.write_all(&bytes).and_then(|()| encoder.finish());
    let Ok(packed) = packed else { return Response::new(Body::from(bytes)) };
    let mut response = Response::new(Body::from(packed));
    let headers = response.headers_mut();
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    response
}
