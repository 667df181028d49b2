//! A client whose requests and answers are changed on the way.

use std::sync::Arc;

use futures::StreamExt as _;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use kube::Client;
use kube::client::Body;
use serde_json::Value;

/// The body of an answer.
type Answer = Response<UnsyncBoxBody<Bytes, kube::Error>>;

fn whole(bytes: Bytes) -> UnsyncBoxBody<Bytes, kube::Error> {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// What a request is about.
#[derive(Clone, Debug)]
pub struct Target {
    pub method: Method,
    pub resource: String,
    pub name: String,
    pub subresource: String,
    pub is_watch: bool,
}

/// What is changed.
pub trait Break: Send + Sync {
    /// Whether objects of such an answer are changed.
    fn reads(&self, target: &Target) -> bool;

    /// The answer for an object that does not exist.
    fn missing(&self, target: &Target) -> Option<Value>;

    /// Changes an object that is read.
    fn read(&self, object: &mut Value);

    /// Changes the body of a write.
    fn write(&self, target: &Target, body: &mut Value);

    /// More requests after one that has succeeded.
    fn after(&self, target: &Target, body: &Value, answer: &Value) -> Vec<Request<Vec<u8>>>;
}

impl Target {
    fn of(request: &Request<Body>) -> Self {
        let path = request.uri().path().trim_start_matches('/');
        let mut parts: Vec<&str> = path.split('/').collect();
        // The group and version.
        let skipped = if parts.first() == Some(&"api") { 2 } else { 3 };
        parts.drain(..skipped.min(parts.len()));
        if parts.first() == Some(&"namespaces") && parts.len() > 2 {
            parts.drain(..2);
        }
        let part = |index: usize| parts.get(index).copied().unwrap_or_default().to_owned();
        let query = request.uri().query().unwrap_or_default();
        Self {
            method: request.method().clone(),
            resource: part(0),
            name: part(1),
            subresource: part(2),
            is_watch: query.contains("watch=true"),
        }
    }
}

/// The broken client.
pub fn intercept(inner: Client, broken: Arc<dyn Break>) -> Client {
    let namespace = inner.default_namespace().to_owned();
    let send = move |request: Request<Body>| {
        let (inner, broken) = (inner.clone(), Arc::clone(&broken));
        async move {
            let target = Target::of(&request);
            if target.method == Method::GET {
                let answer = inner.send(request).await?;
                let is_missing = answer.status() == StatusCode::NOT_FOUND;
                if let Some(object) = broken.missing(&target).filter(|_| is_missing) {
                    return Ok(Response::new(whole(object.to_string().into())));
                }
                return match broken.reads(&target) && answer.status().is_success() {
                    true if target.is_watch => Ok(of_watch(answer, broken)),
                    true => of_read(answer, &*broken).await,
                    false => Ok(answer.map(BodyExt::boxed_unsync)),
                };
            }
            let (parts, body) = request.into_parts();
            let bytes = body.collect().await?.to_bytes();
            let mut value = serde_json::from_slice(&bytes).unwrap_or_default();
            broken.write(&target, &mut value);
            let bytes = match value {
                Value::Null => bytes,
                _ => Bytes::from(value.to_string()),
            };
            let answer = inner.send(Request::from_parts(parts, Body::from(bytes))).await?;
            if !answer.status().is_success() {
                return Ok(answer.map(BodyExt::boxed_unsync));
            }
            let (parts, body) = answer.into_parts();
            let bytes = body.collect().await?.to_bytes();
            let object = serde_json::from_slice(&bytes).unwrap_or_default();
            for more in broken.after(&target, &value, &object) {
                let _ = inner.send(more.map(Body::from)).await;
            }
            Ok::<_, kube::Error>(Response::from_parts(parts, whole(bytes)))
        }
    };
    Client::new(tower::service_fn(send), namespace)
}

/// An object, or a list.
async fn of_read(answer: Response<Body>, broken: &dyn Break) -> Result<Answer, kube::Error> {
    let (parts, body) = answer.into_parts();
    let bytes = body.collect().await?.to_bytes();
    let mut value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    match value["items"].as_array_mut() {
        Some(items) => items.iter_mut().for_each(|item| broken.read(item)),
        None => broken.read(&mut value),
    }
    Ok(Response::from_parts(parts, whole(value.to_string().into())))
}

/// The events of a watch, a line each.
fn of_watch(answer: Response<Body>, broken: Arc<dyn Break>) -> Answer {
    let (parts, body) = answer.into_parts();
    let mut rest = Vec::new();
    let frames = body.into_data_stream().map(move |bytes| {
        let bytes = bytes?;
        rest.extend_from_slice(&bytes);
        let mut whole = Vec::new();
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            match serde_json::from_slice::<Value>(&line) {
                Ok(mut event) => {
                    broken.read(&mut event["object"]);
                    whole.extend_from_slice(event.to_string().as_bytes());
                    whole.push(b'\n');
                }
                Err(_) => whole.extend_from_slice(&line),
            }
        }
        Ok::<_, kube::Error>(Frame::data(Bytes::from(whole)))
    });
    Response::from_parts(parts, StreamBody::new(frames).boxed_unsync())
}
