//! Serves the page: the guard before every request, views, their streams, and verbs.

mod connections;
mod page;
mod people;
mod selection;
mod stream;
mod tls;
mod visitor;

use std::io::Write;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Extension, Path, Request, State};
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

use self::page::{Page, PageDoor};
use self::people::{People, Unwelcome};
use self::stream::follow_view;
pub use self::tls::{PageTls, PageTlsFiles};
pub use self::visitor::PageOptions;
use self::visitor::Visitor;
use crate::access::{Denial, PageAccess};
use crate::address::{Parameters, ViewName};
use crate::assets;
use crate::people::{PagePeople, PeopleLimits};
use crate::reports::{PageReports, Unavailable};
use crate::team::{ProxyCertificate, TeamAccess};
use crate::view::{self, View, make_view, message_page, whole_page};

/// What browsers may do with the page: nothing is loaded from elsewhere, no script or style stands in
/// HTML, and no other page frames it.
const POLICY: &str = "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; \
                      frame-ancestors 'none'";

/// The most bytes of a form: a selection of a thousand sets.
const FORM: usize = 512 << 10;
/// Answers below this size are not compressed.
const SMALL: usize = 1024;

/// Serves the page on a listener, for the one person who has started it, until it is stopped.
pub async fn serve_page(
    listener: TcpListener,
    reports: Arc<dyn PageReports>,
    access: PageAccess,
    options: PageOptions,
    stop: CancellationToken,
) {
    let limits = (stream::STREAMS, stream::KEPT);
    let visitor = Visitor::new([0; 32], reports, options, limits, stop.child_token());
    let page = Page::new(PageDoor::Own(access, Arc::new(visitor)), stop.clone());
    connections::serve_connections(listener, router_of(page), None, stop).await;
}

/// Serves the page on a listener to all whom the proxy in front of it signs in, until it is stopped
/// (PG-003).
pub async fn serve_team(
    listener: TcpListener,
    people: Arc<dyn PagePeople>,
    access: TeamAccess,
    limits: PeopleLimits,
    tls: Option<PageTls>,
    stop: CancellationToken,
) {
    let people = People::new(people, limits, stop.clone());
    let page = Page::new(PageDoor::Team(access, Arc::clone(&people)), stop.clone());
    // For probes, which have no credentials and name another host: it says that there is a page.
    let router = router_of(page).route("/healthz", get(async || "ok\n"));
    let serving = connections::serve_connections(listener, router, tls.map(Arc::new), stop);
    tokio::join!(serving, people.keep());
}

fn router_of(page: Page) -> Router {
    let page = Arc::new(page);
    let guarded = Router::new()
        .route("/events", get(events))
        .route("/act/{verb}", get(preview).post(act))
        .fallback(show)
        .layer(middleware::from_fn_with_state(Arc::clone(&page), known))
        .layer(DefaultBodyLimit::max(FORM));
    Router::new()
        // Style and script are in every copy of the program, and no secret.
        .route("/assets/{name}", get(asset))
        .merge(guarded)
        .layer(middleware::from_fn_with_state(Arc::clone(&page), guard))
        .with_state(page)
}

/// Refuses what is not for this page or comes from another one, and sets what browsers may do.
async fn guard(State(page): State<Arc<Page>>, request: Request, next: Next) -> Response {
    let mut response = match page.check_origin(request.method(), request.headers()) {
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

/// Finds out who the request is of, and refuses it otherwise.
async fn known(State(page): State<Arc<Page>>, mut request: Request, next: Next) -> Response {
    let found = match &page.door {
        PageDoor::Own(access, visitor) => {
            let asked = Parameters::parse(request.uri().query().unwrap_or_default());
            if *request.method() == Method::GET && access.is_token(asked.text("start")) {
                return exchanged(access, request.uri(), &asked);
            }
            if !access.is_known(request.headers()) {
                return not_signed_in();
            }
            Ok(Arc::clone(visitor))
        }
        PageDoor::Team(access, people) => {
            let certificate = request.extensions().get::<ProxyCertificate>().copied();
            match access.credentials(request.headers(), certificate.unwrap_or_default()) {
                Ok(person) => people.visit(&person).await,
                Err(Denial { status, why }) => Err(Unwelcome { status, why: why.to_owned() }),
            }
        }
    };
    match found {
        Ok(visitor) => {
            request.extensions_mut().insert(visitor);
            next.run(request).await
        }
        Err(Unwelcome { status, why }) => refused(status, &wavegate_net::redact::redact_text(&why)),
    }
}

fn not_signed_in() -> Response {
    let why = html! {
        p { "Open the address that " code { "wavegate dashboard" } " has printed: it has the token of this start." }
        p class="quiet" { "After a restart of the program the former address and its cookie are void." }
    };
    answer_html(StatusCode::UNAUTHORIZED, message_page("Not signed in", &why), None)
}

/// The cookie, and the way to the same address without the token. A page leads there, and not the
/// answer itself: a browser sends such a cookie only where this page has led it, and not the one
/// that had the link.
fn exchanged(access: &PageAccess, uri: &Uri, asked: &Parameters) -> Response {
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
    if let Ok(cookie) = HeaderValue::from_str(&access.cookie()) {
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
async fn show(
    State(page): State<Arc<Page>>,
    Extension(visitor): Extension<Arc<Visitor>>,
    request: Request,
) -> Response {
    let _turn = page.answers.acquire().await;
    let Some(name) = ViewName::of(request.uri().path()) else {
        return refused(StatusCode::NOT_FOUND, "there is no such view");
    };
    if *request.method() != Method::GET {
        return refused(StatusCode::METHOD_NOT_ALLOWED, "a view is only read");
    }
    let query = request.uri().query().unwrap_or_default();
    let asked = Parameters::parse(query);
    let context = visitor.context(Some(&name), Some(Timestamp::now())).await;
    let (reports, context) = view::at_time(&visitor.reports, request.uri().path(), &asked, context);
    let view = make_view(&reports, &name, &asked, &context).await;
    let is_live = context.clock.is_none();
    let stream = stream::stream_address(&name, request.uri(), context.state.revision);
    let stream = stream.filter(|_| is_live);
    let status = if view.is_missing { StatusCode::NOT_FOUND } else { StatusCode::OK };
    answer_html(status, whole_page(&view, &context, stream.as_deref()), Some(request.headers()))
}

/// The changes of a view.
async fn events(
    State(page): State<Arc<Page>>,
    Extension(visitor): Extension<Arc<Visitor>>,
    uri: Uri,
) -> Response {
    let asked = Parameters::parse(uri.query().unwrap_or_default());
    let (path, query) = asked.text("view").split_once('?').unwrap_or((asked.text("view"), ""));
    let Some(name) = ViewName::of(path) else {
        return refused(StatusCode::NOT_FOUND, "there is no such view");
    };
    let since = asked.text("since").parse().ok();
    match follow_view(&page, &visitor, name, Parameters::parse(query), since) {
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
async fn preview(
    State(page): State<Arc<Page>>,
    Extension(visitor): Extension<Arc<Visitor>>,
    Path(verb): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let asked = Parameters::parse(uri.query().unwrap_or_default());
    let action = match visitor.action(verb, &asked).await {
        Ok(action) => action,
        Err(response) => return *response,
    };
    let made = match page.form_word(&visitor, &headers) {
        Ok(made) => made,
        Err(denial) => return refused(denial.status, denial.why),
    };
    let mut response = match visitor.act(&action, false).await {
        Ok(answer) => visitor.view(&view::action_view(&action, &answer, &made.word)).await,
        Err(error) => return unavailable(&error),
    };
    if let Some(cookie) = made.cookie.and_then(|cookie| HeaderValue::from_str(&cookie).ok()) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

/// Does it.
async fn act(
    State(page): State<Arc<Page>>,
    Extension(visitor): Extension<Arc<Visitor>>,
    Path(verb): Path<String>,
    headers: HeaderMap,
    form: Bytes,
) -> Response {
    let text = String::from_utf8_lossy(&form);
    let asked = Parameters::parse(&text);
    if !page.is_form_word(&visitor, &headers, asked.text("word")) {
        return refused(StatusCode::FORBIDDEN, "the request is not of a form of this page");
    }
    let action = match visitor.action(verb, &asked).await {
        Ok(action) => action,
        Err(response) => return *response,
    };
    match visitor.act(&action, true).await {
        Ok(answer) => visitor.view(&view::outcome_view(&action, &answer)).await,
        Err(error) => unavailable(&error),
    }
}

impl Visitor {
    /// A view with a word of the page, which is not compressed: the size of an answer says nothing
    /// about the word. Its form names the page that it is of, to that page alone: without a referrer
    /// it would be of none.
    async fn view(&self, view: &View) -> Response {
        let context = self.context(None, Some(Timestamp::now())).await;
        let mut response = answer_html(StatusCode::OK, whole_page(view, &context, None), None);
        let own = HeaderValue::from_static("same-origin");
        response.headers_mut().insert(REFERRER_POLICY, own);
        response
    }
}

fn unavailable(error: &Unavailable) -> Response {
    let status = if error.is_missing { StatusCode::NOT_FOUND } else { StatusCode::BAD_GATEWAY };
    let why = html! { p { (error.message) } p { a href="/" { "All ApplicationSets" } } };
    answer_html(status, message_page("Not possible", &why), None)
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
