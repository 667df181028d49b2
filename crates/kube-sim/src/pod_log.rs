//! Logs of simulated Pods: what the simulation did with a container.
//!
//! Nothing runs, so a log is made from the status of the Pod when it is read, and
//! has an end: following it ends at once.

use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::answer::Reply;
use super::errors::ApiError;
use super::request::Query;

/// The log of a container of a Pod.
///
/// # Errors
///
/// `BadRequest` when the container is unknown, is not named among several, or has not
/// started, and `previous` of one that was never restarted.
pub(crate) fn read(pod: &Value, query: &Query) -> Result<Reply, ApiError> {
    let (name, image) = container(pod, query.get("container"))?;
    let pod_name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let status = ["containerStatuses", "initContainerStatuses"]
        .iter()
        .flat_map(|list| pod["status"][*list].as_array().into_iter().flatten())
        .find(|status| status["name"] == name.as_str())
        .cloned()
        .unwrap_or_default();
    let previous = query.flag("previous");
    let state = &status[if previous { "lastState" } else { "state" }];
    if previous && !state["terminated"].is_object() {
        return Err(ApiError::bad_request(format!(
            "previous terminated container {name:?} in pod {pod_name:?} not found"
        )));
    }
    // A container that waits to be restarted shows its last run.
    let crashing = state["waiting"]["reason"] == "CrashLoopBackOff";
    let state = if crashing { &status["lastState"] } else { state };
    let lines = lines(&image, state);
    if lines.is_empty() {
        let reason = state["waiting"]["reason"].as_str().unwrap_or("ContainerCreating");
        return Err(ApiError::bad_request(format!(
            "container {name:?} in pod {pod_name:?} is waiting to start: {reason}"
        )));
    }
    Ok(Reply::Typed("text/plain", select(lines, query)?.into()))
}

/// Why a Pod cannot be entered, for the subresources that would.
pub(crate) fn nothing_runs(subresource: &str) -> ApiError {
    ApiError::bad_request(format!(
        "{subresource} is not available: Pods of the embedded API server are simulated, and nothing runs in them"
    ))
}

/// Name and image of the container that is asked for.
fn container(pod: &Value, wanted: Option<&str>) -> Result<(String, String), ApiError> {
    let list = |field: &str| {
        let containers = pod["spec"][field].as_array().into_iter().flatten();
        containers
            .filter_map(|c| Some((c["name"].as_str()?.to_owned(), c["image"].as_str()?.to_owned())))
            .collect::<Vec<_>>()
    };
    let pod_name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let mut containers = list("containers");
    match wanted {
        Some(wanted) => {
            containers.extend(list("initContainers"));
            let found = containers.into_iter().find(|(name, _)| name == wanted);
            found.ok_or_else(|| {
                ApiError::bad_request(format!("container {wanted} is not valid for pod {pod_name}"))
            })
        }
        None if containers.len() == 1 => Ok(containers.remove(0)),
        None => {
            let names: Vec<&str> = containers.iter().map(|(name, _)| name.as_str()).collect();
            Err(ApiError::bad_request(format!(
                "a container name must be specified for pod {pod_name}, choose one of: [{}]",
                names.join(" ")
            )))
        }
    }
}

/// Lines with their times; none for a container that has not started.
fn lines(image: &str, state: &Value) -> Vec<(Timestamp, String)> {
    let time = |value: &Value| value.as_str().and_then(|text| text.parse::<Timestamp>().ok());
    let started = |at| (at, format!("simulation: image {image} is started, though nothing runs"));
    if let Some(at) = time(&state["running"]["startedAt"]) {
        return vec![started(at), (at, "simulation: ready".to_owned())];
    }
    let ended = &state["terminated"];
    let Some(at) = time(&ended["startedAt"]) else { return Vec::new() };
    let code = ended["exitCode"].as_i64().unwrap_or(0);
    let word = if code == 0 { "done" } else { "fails, as it was asked to" };
    let end = time(&ended["finishedAt"]).unwrap_or(at);
    vec![started(at), (end, format!("simulation: {word}, exit code {code}"))]
}

/// The lines that a query asks for, as text.
fn select(mut lines: Vec<(Timestamp, String)>, query: &Query) -> Result<Vec<u8>, ApiError> {
    if let Some(tail) = query.number("tailLines")? {
        let tail = usize::try_from(tail).unwrap_or(usize::MAX);
        lines.drain(..lines.len().saturating_sub(tail));
    }
    let mut out = String::new();
    for (at, line) in lines {
        if query.flag("timestamps") {
            out.push_str(&at.strftime("%Y-%m-%dT%H:%M:%S.%9fZ ").to_string());
        }
        out.push_str(&line);
        out.push('\n');
    }
    let mut out = out.into_bytes();
    if let Some(limit) = query.number("limitBytes")? {
        out.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    }
    Ok(out)
}

/// The answer to a `TokenRequest`: a token that opens nothing.
///
/// # Errors
///
/// `MethodNotAllowed` unless it is created.
pub(crate) fn token(
    account: &Value,
    method: &Method,
    request: &Value,
    (now, id): (Timestamp, String),
) -> Result<Reply, ApiError> {
    use base64::Engine as _;
    if *method != Method::POST {
        return Err(ApiError::new(405, "MethodNotAllowed", "tokens can only be created"));
    }
    let seconds = request["spec"]["expirationSeconds"].as_i64().unwrap_or(3600);
    let (name, namespace) = (&account["metadata"]["name"], &account["metadata"]["namespace"]);
    if !(600..=1 << 32).contains(&seconds) {
        let why = if seconds < 600 {
            "may not specify a duration less than 10 minutes"
        } else {
            "may not specify a duration larger than 2^32 seconds"
        };
        let message = format!(
            "TokenRequest.authentication.k8s.io {name} is invalid: spec.expirationSeconds: Invalid value: {seconds}: {why}"
        );
        return Err(ApiError::new(422, "Invalid", message));
    }
    let until = now.as_second() + seconds;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let claims = json!({
        "iss": "embedded", "sub": format!("system:serviceaccount:{}:{}", text(namespace), text(name)),
        "iat": now.as_second(), "exp": until, "jti": id,
    });
    let encode =
        |value: &Value| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(value.to_string());
    // Unsigned: there are no users here whom it could stand for.
    let token = format!("{}.{}.", encode(&json!({"alg": "none", "typ": "JWT"})), encode(&claims));
    let until = Timestamp::from_second(until).unwrap_or(now);
    let mut spec = request["spec"].clone();
    spec["expirationSeconds"] = json!(seconds);
    Ok(Reply::value(
        201,
        &json!({
            "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": name, "namespace": namespace, "creationTimestamp": super::clock::seconds(now),
            },
            "spec": spec,
            "status": {"token": token, "expirationTimestamp": super::clock::seconds(until)},
        }),
    ))
}
