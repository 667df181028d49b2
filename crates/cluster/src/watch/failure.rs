//! Classifies failed requests: whether the server may have executed them, whether a retry
//! may succeed, and the message for users.

use std::error::Error as _;
use std::future::Future;
use std::time::Duration;

use kube::client::AuthError;
use kube::config::{InferConfigError, KubeconfigError};

use wavegate_api::path_segment;
use wavegate_api::resource_key::ResourceKey;

/// Maximum length of an error message, in characters. Some servers respond with a page of HTML.
const MAX_WORDS: usize = 4096;

/// Validates the key of an object before a request: name and namespace must each be one
/// path segment.
///
/// # Errors
///
/// [`kube::Error::BuildRequest`], also for an empty name.
pub(crate) fn checked(key: &ResourceKey) -> Result<(), kube::Error> {
    match path_segment::problem_of_key(key) {
        None => Ok(()),
        Some(problem) => {
            let error = kube::core::request::Error::Validation(problem);
            Err(kube::Error::BuildRequest(error))
        }
    }
}

/// Whether the server may have executed a request: the connection failed, or the server
/// is overloaded.
pub fn is_unknown(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => matches!(status.code, 0 | 408 | 429 | 502 | 503 | 504),
        kube::Error::BuildRequest(_) | kube::Error::SerdeError(_) => false,
        _ => true,
    }
}

/// Whether a retry of the same request may succeed. In addition to [`is_unknown`], it
/// includes code 500: an internal error of the server, such as a lost leader of etcd.
pub fn is_transient(error: &kube::Error) -> bool {
    is_unknown(error) || has_code(error, 500)
}

/// Whether the server responded with this code.
pub fn has_code(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}

/// What the client library gives as the reason of an answer that is no Status.
const NO_STATUS: &str = "Failed to parse error data";

/// Whether the answer is not in the form of an API server: an error without a Status, or something
/// else than JSON. API servers answer so to paths that they do not know.
pub fn is_foreign(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.reason == NO_STATUS,
        kube::Error::SerdeError(_) => true,
        _ => false,
    }
}

/// Whether the server responded that the object does not exist. A 404 that names no object is
/// about the path: its kind is not served, since the definition was removed or the server does
/// not know it yet, and that says nothing about its objects.
pub fn is_gone(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    status.code == 404 && status.details.as_ref().is_some_and(|details| !details.name.is_empty())
}

/// An object that was read by its name, `None` when it does not exist ([`is_gone`]). kube's
/// `get_opt` takes a kind that is not served for an absence, too.
///
/// # Errors
///
/// All others, a kind that is not served among them.
pub fn existing_object<K>(read: Result<K, kube::Error>) -> Result<Option<K>, kube::Error> {
    match read {
        Ok(object) => Ok(Some(object)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The message of the server, or why it did not respond. All errors of the client library
/// are converted here: their `Display` contains Rust debug output and is not shown to
/// users. One line, of limited length.
pub fn error_reason(error: &kube::Error) -> String {
    bounded(match error {
        kube::Error::Api(status) => words_of(status),
        kube::Error::Service(cause) => cause_chain(cause.as_ref()),
        // The unreadable content may be a Secret: only its position is reported.
        kube::Error::SerdeError(cause) => unreadable(cause),
        other => cause_chain(other.source().unwrap_or(other)),
    })
}

/// The message of a status, whose parts may all be absent.
pub fn words_of(status: &kube::core::Status) -> String {
    let reason = if status.reason == NO_STATUS { "" } else { status.reason.trim() };
    match (status.message.trim(), reason, status.code) {
        ("", "", 0) => "the server gave no reason".to_owned(),
        ("", "", code) => format!("the server answered with code {code} and gave no reason"),
        ("", reason, _) => reason.to_owned(),
        (message, _, _) => message.to_owned(),
    }
}

/// An error with its causes, each once; errors of the client library as in [`error_reason`].
pub fn cause_chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let (more, cause) = match error.downcast_ref::<kube::Error>() {
            Some(known) => (error_reason(known), None),
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

/// Errors of the library that quote confidential input: a token printed by a program, or
/// a line of a kubeconfig.
fn scrubbed(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    if let Some(AuthError::AuthExecRun { cmd, out }) = error.downcast_ref() {
        return Some(format!("the credential program {cmd} ended with {}", out.status));
    }
    if let Some(AuthError::AuthExecParse(_)) = error.downcast_ref() {
        return Some("the output of the credential program is not an ExecCredential".to_owned());
    }
    if let Some(error) = error.downcast_ref::<InferConfigError>() {
        let kubeconfig = error.source().map(cause_chain).unwrap_or_default();
        return Some(format!("not running in a cluster, and no kubeconfig found: {kubeconfig}"));
    }
    let KubeconfigError::Parse(error) = error.downcast_ref()? else { return None };
    let place = error.location();
    let place = place.map(|at| format!(", line {} column {}", at.line(), at.column()));
    Some(format!("the kubeconfig is invalid{}", place.unwrap_or_default()))
}

fn unreadable(error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    format!("the server's response cannot be parsed, line {line} column {column}")
}

/// One line of at most [`MAX_WORDS`] characters.
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

/// Sends a request until it succeeds, fails permanently, or `tries` is reached. `pause`
/// returns the delay after a failed attempt, counted from 1; `None` for an error that is
/// permanent.
///
/// # Errors
///
/// That of the last attempt.
pub async fn retry_request<T, F>(
    tries: u32,
    pause: impl Fn(&kube::Error, u32) -> Option<Duration>,
    mut request: impl FnMut() -> F,
) -> Result<T, kube::Error>
where
    F: Future<Output = Result<T, kube::Error>>,
{
    let mut tried = 1;
    loop {
        let answer = request().await;
        let pause = match &answer {
            Err(error) if tried < tries => pause(error, tried),
            _ => None,
        };
        let Some(pause) = pause else { return answer };
        tokio::time::sleep(pause).await;
        tried += 1;
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn refused(code: u16, name: Option<&str>) -> kube::Error {
        let details = name.map(|name| serde_json::json!({"name": name}));
        let status = serde_json::json!({"code": code, "reason": "NotFound", "details": details});
        let status: Status = serde_json::from_value(status).unwrap();
        kube::Error::Api(status.boxed())
    }

    #[test]
    fn only_a_404_that_names_an_object_is_about_an_object() {
        let cases = [
            ("the object", refused(404, Some("shop")), true),
            ("the kind", refused(404, None), false),
            ("the kind, with details", refused(404, Some("")), false),
            ("a conflict", refused(409, Some("shop")), false),
        ];
        for (case, error, expected) in cases {
            assert_eq!(is_gone(&error), expected, "{case}");
            assert_eq!(existing_object::<()>(Err(error)).is_ok(), expected, "{case}");
        }
    }

    /// An empty answer was called "Failed to parse error data".
    #[test]
    fn what_is_no_status_has_words_of_its_own() {
        let answer =
            |text: &str| kube::Error::Api(Status::failure(text, NO_STATUS).with_code(401).boxed());
        assert!(is_foreign(&answer("")) && !is_foreign(&refused(404, None)));
        assert_eq!(
            error_reason(&answer("")),
            "the server answered with code 401 and gave no reason"
        );
        assert_eq!(error_reason(&answer("404 page not found")), "404 page not found");
    }
}
