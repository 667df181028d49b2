//! What a request that failed tells: whether it may have been carried out,
//! whether to ask again, and the server's words.

use std::future::Future;
use std::time::Duration;

use crate::api::path_segment;
use crate::api::resource_key::ResourceKey;

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

/// The server's words, or what kept it from answering.
pub fn reason(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
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
