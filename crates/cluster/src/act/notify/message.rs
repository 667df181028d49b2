//! A transition as it is sent.

use std::borrow::Cow;
use std::sync::Arc;

use hyper::body::Bytes;
use serde_json::Value;

use wavegate_api::policy::Format;
use wavegate_net::redact;
use wavegate_rollout::notify::Transition;

/// A transition of a run, in all formats.
pub(super) struct Message {
    pub run: Arc<str>,
    pub number: i64,
    pub id: String,
    cloud_event: Bytes,
    slack: Bytes,
}

impl Message {
    pub fn new(run: &Arc<str>, transition: &Transition<'_>) -> Self {
        let body = |format| {
            let mut message = transition.message(format);
            redact_all(&mut message);
            Bytes::from(message.to_string())
        };
        Self {
            run: Arc::clone(run),
            number: transition.number,
            id: transition.id(),
            cloud_event: body(Format::CloudEvents),
            slack: body(Format::Slack),
        }
    }

    pub fn body(&self, format: Format) -> &Bytes {
        match format {
            Format::CloudEvents => &self.cloud_event,
            Format::Slack => &self.slack,
        }
    }
}

/// Removes credentials from all texts of a message.
fn redact_all(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(shown) = redact::redact_text(text) {
                *text = shown;
            }
        }
        Value::Array(list) => list.iter_mut().for_each(redact_all),
        Value::Object(fields) => fields.values_mut().for_each(redact_all),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
