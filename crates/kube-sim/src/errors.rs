//! API errors, as the `Status` objects that a Kubernetes API server answers with.
//!
//! Every refusal of this crate is an [`ApiError`]; nothing here knows about storage.

use serde::Serialize;
use serde_json::{Value, json};

use super::kinds::Kind;
use super::request_record::RequestRecord;

/// One field that was refused, as it appears under `details.causes`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Cause {
    /// For example `FieldValueInvalid` or `FieldManagerConflict`.
    pub reason: &'static str,
    /// Says what is wrong, without the field.
    pub message: String,
    /// Path of the field, for example `spec.replicas`.
    pub field: String,
}

impl Cause {
    pub fn new(reason: &'static str, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), field: field.into() }
    }

    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        let message = if detail.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {detail}")
        };
        Self::new("FieldValueRequired", field, message)
    }

    pub fn invalid(field: impl Into<String>, value: &Value, detail: impl AsRef<str>) -> Self {
        Self::new(
            "FieldValueInvalid",
            field,
            format!("Invalid value: {}: {}", shown(value), detail.as_ref()),
        )
    }

    pub fn unsupported(field: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        let list = supported.iter().map(|s| format!("{s:?}")).collect::<Vec<_>>().join(", ");
        Self::new(
            "FieldValueNotSupported",
            field,
            format!("Unsupported value: {}: supported values: {list}", shown(value)),
        )
    }

    pub fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self::new("FieldValueForbidden", field, format!("Forbidden: {detail}"))
    }

    fn text(&self) -> String {
        if self.field.is_empty() {
            self.message.clone()
        } else {
            format!("{}: {}", self.field, self.message)
        }
    }
}

/// Refused fields, in the order in which they are found.
#[derive(Debug, Default)]
pub(crate) struct Causes(pub Vec<Cause>);

impl Causes {
    pub fn add(
        &mut self,
        reason: &'static str,
        field: impl Into<String>,
        message: impl Into<String>,
    ) {
        self.0.push(Cause::new(reason, field, message));
    }

    pub fn required(&mut self, field: impl Into<String>, detail: &str) {
        self.0.push(Cause::required(field, detail));
    }

    pub fn invalid(&mut self, field: impl Into<String>, value: &Value, detail: impl AsRef<str>) {
        self.0.push(Cause::invalid(field, value, detail));
    }

    pub fn unsupported(&mut self, field: impl Into<String>, value: &Value, supported: &[&str]) {
        self.0.push(Cause::unsupported(field, value, supported));
    }

    pub fn forbidden(&mut self, field: impl Into<String>, detail: &str) {
        self.0.push(Cause::forbidden(field, detail));
    }
}

/// A refused value in a message; long ones are cut, since messages go to logs.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(200) {
        Some((cut, _)) => format!("{}...", &text[..cut]),
        None => text,
    }
}

/// A refusal: becomes a `Status` object with `status: Failure`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ApiError {
    pub code: u16,
    pub reason: &'static str,
    pub message: String,
    /// Boxed, since refusals are carried through many results.
    pub details: Box<Details>,
}

/// What a refusal is about.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Details {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The plural resource name, or the kind for `Invalid`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// Also sent as a header.
    #[serde(rename = "retryAfterSeconds", skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u32>,
}

impl ApiError {
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: Box::default() }
    }

    fn on(self, kind: &Kind, name: &str) -> Self {
        self.about(&kind.group, &kind.plural, name)
    }

    fn about(mut self, group: &str, kind: &str, name: &str) -> Self {
        name.clone_into(&mut self.details.name);
        group.clone_into(&mut self.details.group);
        kind.clone_into(&mut self.details.kind);
        self
    }

    pub fn not_found(kind: &Kind, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} {name:?} not found", kind.qualified()))
            .on(kind, name)
    }

    pub fn namespace_not_found(name: &str) -> Self {
        Self::new(404, "NotFound", format!("namespaces {name:?} not found")).about(
            "",
            "namespaces",
            name,
        )
    }

    pub fn no_such_path() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
    }

    pub fn already_exists(kind: &Kind, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} {name:?} already exists", kind.qualified()))
            .on(kind, name)
    }

    pub fn conflict(kind: &Kind, name: &str, detail: &str) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {} {name:?}: {detail}", kind.qualified());
        Self::new(409, "Conflict", message).on(kind, name)
    }

    pub fn stale(kind: &Kind, name: &str) -> Self {
        Self::conflict(
            kind,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// A server-side apply that would take fields from other managers.
    pub fn apply_conflict(causes: Vec<Cause>) -> Self {
        let text = match causes.as_slice() {
            [only] => format!("1 conflict: {}: {}", only.message, only.field),
            several => {
                let mut text = format!("{} conflicts:", several.len());
                let mut last = "";
                for cause in several {
                    if cause.message != last {
                        let separator = if last.is_empty() { ' ' } else { '\n' };
                        text.push(separator);
                        text.push_str(&cause.message.replacen("conflict ", "conflicts ", 1));
                        text.push(':');
                        last = &cause.message;
                    }
                    text.push_str("\n- ");
                    text.push_str(&cause.field);
                }
                text
            }
        };
        let mut e = Self::new(409, "Conflict", format!("Apply failed with {text}"));
        e.details.causes = causes;
        e
    }

    pub fn invalid(kind: &Kind, name: &str, causes: Vec<Cause>) -> Self {
        let list = causes.iter().map(Cause::text).collect::<Vec<_>>();
        let list = if list.len() == 1 { list[0].clone() } else { format!("[{}]", list.join(", ")) };
        let full = if kind.group.is_empty() {
            kind.kind.clone()
        } else {
            format!("{}.{}", kind.kind, kind.group)
        };
        let mut e =
            Self::new(422, "Invalid", format!("{full} {name:?} is invalid: {list}")).on(kind, name);
        e.details.kind = kind.kind.clone();
        e.details.causes = causes;
        e
    }

    pub fn forbidden(kind: &Kind, name: &str, detail: &str) -> Self {
        Self::new(403, "Forbidden", format!("{} {name:?} is forbidden: {detail}", kind.qualified()))
            .on(kind, name)
    }

    /// The response to a request for an object that does not exist.
    pub fn absent(request: &RequestRecord) -> Self {
        let RequestRecord { group, resource, name, .. } = request;
        let separator = if group.is_empty() { "" } else { "." };
        let message = format!("{resource}{separator}{group} {name:?} not found");
        Self::new(404, "NotFound", message).about(group, resource, name)
    }

    /// What a client is told that lacks the permission for a request.
    pub fn no_permission(request: &RequestRecord) -> Self {
        let RequestRecord { client, group, resource, subresource, namespace, name, .. } = request;
        let verb = if request.verb == "apply" { "patch" } else { request.verb.as_str() };
        if resource.starts_with('/') {
            let message = format!("forbidden: User {client:?} cannot {verb} path {resource:?}");
            return Self::new(403, "Forbidden", message);
        }
        let separator = if group.is_empty() { "" } else { "." };
        let mut what = format!("{resource}{separator}{group}");
        if !name.is_empty() {
            what = format!("{what} {name:?}");
        }
        let separator = if subresource.is_empty() { "" } else { "/" };
        let asked = format!("{resource}{separator}{subresource}");
        let place = if namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace {namespace:?}")
        };
        let message = format!(
            "{what} is forbidden: User {client:?} cannot {verb} resource {asked:?} in API group {group:?} {place}"
        );
        Self::new(403, "Forbidden", message).about(group, resource, name)
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub fn method_not_allowed(kind: &Kind) -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message).on(kind, "")
    }

    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(413, "RequestEntityTooLarge", message)
    }

    /// The `Status` object of this refusal.
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {},
            "status": "Failure", "message": self.message, "reason": self.reason, "code": self.code,
        });
        // Clients such as `kubectl debug` read those of a missing subresource unchecked.
        if *self.details != Details::default() || self.code == 404 {
            status["details"] = json!(self.details);
        }
        status
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::ApiError;

    /// `kubectl debug` reads the details of a missing subresource unchecked.
    #[test]
    fn a_path_that_does_not_exist_has_details() {
        assert_eq!(ApiError::no_such_path().status()["details"], json!({}));
        assert!(ApiError::bad_request("no").status()["details"].is_null());
    }
}
