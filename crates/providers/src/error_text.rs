//! What servers say about errors, as far as it is shown.

use serde_json::Value;

use wavegate_net::redact;

/// The longest part of what a server says that is shown.
const MAX_WORDS: usize = 200;

/// What a server says about an error, in one of the usual fields; nothing else of its answer
/// is shown.
pub(super) fn said(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let inner = ["/message", "/error/message", "/errors/0/message", "/error", "/Message"];
    let mut words = inner.into_iter().find_map(|at| body.pointer(at)?.as_str()).map(str::to_owned);
    if let Some(error) = error_of(&body) {
        words = Some(format!("{error} {}", words.unwrap_or_default()));
    }
    words
}

/// A text of a server in one line, as it is shown. Credentials are removed before it is cut: half
/// of one would not be recognized.
pub(super) fn shown(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    // It is shown in conditions, which some readers print as they are.
    redact::redact_text(&line).chars().filter(|c| !c.is_control()).take(MAX_WORDS).collect()
}

/// The code of an error of AWS, whose status is 400 for all of them. The token service writes
/// XML.
pub(super) fn code_of_aws(body: &[u8]) -> Option<String> {
    if let Ok(body) = serde_json::from_slice(body) {
        return error_of(&body);
    }
    let text = String::from_utf8_lossy(body);
    let (_, code) = text.split_once("<Code>")?;
    Some(code.split_once("</Code>")?.0.trim().to_owned())
}

fn error_of(body: &Value) -> Option<String> {
    let error = body.get("__type")?.as_str()?;
    Some(error.rsplit('#').next().unwrap_or(error).to_owned())
}
