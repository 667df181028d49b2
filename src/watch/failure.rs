//! What a request that failed tells: whether it may have been carried out,
//! whether to ask again, and the server's words.

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
