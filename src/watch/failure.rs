//! What a request that failed tells: whether it may have been carried out,
//! whether to ask again, and the server's words.

use std::error::Error as _;
use std::future::Future;
use std::time::Duration;

use kube::client::AuthError;
use kube::config::{InferConfigError, KubeconfigError};

use crate::api::path_segment;
use crate::api::resource_key::ResourceKey;

/// Longest refusal that is told, in characters. Some servers answer with a page
/// of HTML.
const MAX_WORDS: usize = 4096;

/// The last guard before a request is made of an object: its name and namespace
/// must each be one segment of the path.
///
/// # Errors
///
/// [`kube::Error::BuildRequest`], as when there is no name at all.
pub fn checked(key: &ResourceKey) -> Result<(), kube::Error> {
    match path_segment::problem_of_key(key) {
        None => Ok(()),
        Some(problem) => {
            let error = kube::core::request::Error::Validation(problem);
            Err(kube::Error::BuildRequest(error))
        }
    }
}

/// Whether the server may have carried a request out, or may do so when asked
/// again: the connection broke, or it has no time.
pub fn is_unknown(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => matches!(status.code, 0 | 408 | 429 | 502 | 503 | 504),
        kube::Error::BuildRequest(_) | kube::Error::SerdeError(_) => false,
        _ => true,
    }
}

/// Whether the same request may well succeed in a moment. Wider than
/// [`is_unknown`] by code 500: the server says that something has gone wrong
/// on its side, such as a lost leader of its store.
pub fn is_transient(error: &kube::Error) -> bool {
    is_unknown(error) || has_code(error, 500)
}

/// Whether the server answered with this code.
pub fn has_code(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}

/// Whether the object is not the one any more that a patch was made for: the
/// server says 409, or that an operation of a JSON patch, such as a `test`, does
/// not fit. It uses code 422 for that too, which otherwise means that the result
/// would be invalid; it names the object then.
pub fn is_outdated(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let misfit = status.code == 422
        && (status.message.starts_with("the server rejected our request")
            || status.message.starts_with("testing "));
    status.code == 409 || misfit
}

/// The server's own words, or what kept it from answering: the one place where
/// an error of the client library becomes text for people. Its own `Display`
/// holds Rust's debug output, so it is shown nowhere. One line, bounded.
pub fn reason(error: &kube::Error) -> String {
    bounded(match error {
        kube::Error::Api(status) => words_of(status),
        kube::Error::Service(cause) => chain(cause.as_ref()),
        // What could not be read may be a Secret: only the place is told.
        kube::Error::SerdeError(cause) => unreadable(cause),
        other => chain(other.source().unwrap_or(other)),
    })
}

/// What a status says, which may leave out any part.
pub fn words_of(status: &kube::core::Status) -> String {
    match (status.message.trim(), status.reason.trim(), status.code) {
        ("", "", 0) => "the server gave no reason".to_owned(),
        ("", "", code) => format!("the server answered with code {code} and gave no reason"),
        ("", reason, _) => reason.to_owned(),
        (message, _, _) => message.to_owned(),
    }
}

/// An error with its causes, each once; those of the client library in the words
/// of [`reason`].
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let (more, cause) = match error.downcast_ref::<kube::Error>() {
            Some(known) => (reason(known), None),
            None => match scrubbed(error) {
                Some(known) => (known, None),
                None => (error.to_string(), error.source()),
            },
        };
        if !text.contains(&more) {
            let colon = if text.is_empty() { "" } else { ": " };
            text.push_str(colon);
            text.push_str(&more);
        }
        next = cause;
    }
    text
}

/// Errors of the library that show what they are about: a token that a program
/// printed, or a line of a kubeconfig.
fn scrubbed(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    if let Some(AuthError::AuthExecRun { cmd, out }) = error.downcast_ref() {
        return Some(format!("the credential program {cmd} ended with {}", out.status));
    }
    if let Some(AuthError::AuthExecParse(_)) = error.downcast_ref() {
        return Some("what the credential program printed is no ExecCredential".to_owned());
    }
    if let Some(error) = error.downcast_ref::<InferConfigError>() {
        let kubeconfig = error.source().map(chain).unwrap_or_default();
        return Some(format!(
            "this is no pod of a cluster, and there is no kubeconfig: {kubeconfig}"
        ));
    }
    let KubeconfigError::Parse(error) = error.downcast_ref()? else { return None };
    let place = error.location();
    let place = place.map(|at| format!(", line {} column {}", at.line(), at.column()));
    Some(format!("the kubeconfig is not YAML of its kind{}", place.unwrap_or_default()))
}

fn unreadable(error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    format!("the server's answer cannot be read, line {line} column {column}")
}

/// On one line, and not longer than [`MAX_WORDS`].
fn bounded(text: String) -> String {
    let mut text = match text.contains(['\n', '\r']) {
        true => text.split_whitespace().collect::<Vec<_>>().join(" "),
        false => text,
    };
    if let Some((end, _)) = text.char_indices().nth(MAX_WORDS) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Sends a request until it is answered, refused for good, or `tries` are used
/// up. `pause` tells how long to wait after a failure, given which try it was,
/// from 1.
///
/// # Errors
///
/// That of the last try.
pub async fn patiently<T, F>(
    tries: u32,
    pause: impl Fn(&kube::Error, u32) -> Duration,
    mut request: impl FnMut() -> F,
) -> Result<T, kube::Error>
where
    F: Future<Output = Result<T, kube::Error>>,
{
    let mut tried = 1;
    loop {
        match request().await {
            Err(error) if tried < tries && is_transient(&error) => {
                tokio::time::sleep(pause(&error, tried)).await;
                tried += 1;
            }
            answer => return answer,
        }
    }
}
