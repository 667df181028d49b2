//! From what came of a request to an HTTP answer.

use std::sync::Arc;

use futures::stream::{self, StreamExt as _};
use http::{Response, StatusCode, header};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Bytes;
use serde_json::Value;

use super::effect::Dropped;
use super::errors::ApiError;
use super::inner::Inner;
use super::stored::to_json;
use super::unread::{UNREAD_LIMIT, Unread};
use super::watch::Watch;

/// The body of an answer; a watch streams, all else is whole.
pub type ResponseBody = UnsyncBoxBody<Bytes, Dropped>;

/// An answer before it is HTTP.
pub(crate) enum Reply {
    Json(u16, Bytes),
    /// Another form than plain JSON, which the content type says.
    Typed(&'static str, Bytes),
    Watch(Box<Watch>),
}

impl Reply {
    pub fn value(code: u16, value: &Value) -> Self {
        Self::Json(code, to_json(value).into())
    }
}

/// Makes an answer HTTP. Those over the network count until they are read;
/// within the process they are taken at once.
pub(super) fn answer(
    server: &Inner,
    within: bool,
    result: Result<Reply, ApiError>,
    warnings: &[String],
) -> Response<ResponseBody> {
    let hold = |body: Bytes| if within { Ok(body) } else { hold(server, body) };
    let whole = |code, media, body| {
        hold(body).map_or_else(|e| error_response(&e), |body| respond(code, media, body, warnings))
    };
    match result {
        Ok(Reply::Json(code, body)) => whole(code, "application/json", body),
        Ok(Reply::Typed(media, body)) => whole(200, media, body),
        Ok(Reply::Watch(watch)) => {
            let unread = (!within).then(|| Arc::clone(&server.unread));
            let body = StreamBody::new((*watch).into_stream(unread));
            let mut response = Response::new(body.boxed_unsync());
            let media = header::HeaderValue::from_static("application/json");
            response.headers_mut().insert(header::CONTENT_TYPE, media);
            response
        }
        Err(error) => error_response(&error),
    }
}

fn hold(server: &Inner, body: Bytes) -> Result<Bytes, ApiError> {
    let permits = Unread::permits(body.len());
    if permits == 0 {
        return Ok(body);
    }
    match server.unread.clone().try_acquire_many_owned(permits) {
        Ok(permit) => Ok(Unread::held(body, permit)),
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

/// The same answer, of which only the first half arrives.
pub(super) fn cut(response: Response<ResponseBody>) -> Response<ResponseBody> {
    response.map(|mut body| {
        let half = async move {
            let first = body.frame().await.and_then(Result::ok);
            let data = first.and_then(|frame| frame.into_data().ok()).unwrap_or_default();
            Ok(Frame::data(data.slice(..data.len() / 2)))
        };
        StreamBody::new(stream::once(half).chain(stream::iter([Err(Dropped)]))).boxed_unsync()
    })
}

/// The error that a fault asks for.
pub(super) fn injected(code: u16, retry_after: Option<u32>) -> ApiError {
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
    error.details.retry_after = retry_after.or((code == 429).then_some(1));
    error
}

fn respond(
    code: u16,
    content_type: &'static str,
    body: Bytes,
    warnings: &[String],
) -> Response<ResponseBody> {
    let mut response =
        Response::new(Full::new(body).map_err(|never| match never {}).boxed_unsync());
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
    let body = to_json(&error.status()).into();
    let mut response = respond(error.code, "application/json", body, &[]);
    if let Some(seconds) = error.details.retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from(seconds));
    }
    response
}
