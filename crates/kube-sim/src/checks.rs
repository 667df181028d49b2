//! What is asked of an object before it is written.

use serde_json::{Value, json};

use super::errors::{ApiError, Cause};
use super::stored::{finalizers, is_deleting};
use super::write::Writer;
use super::{builtin_rules, crd, validate};

impl Writer<'_> {
    /// Checks that a body is of the kind and in the place that the URL names.
    pub fn check_identity(&self, object: &mut Value) -> Result<(), ApiError> {
        let kind = &self.kind;
        if !object.is_object() {
            return Err(ApiError::bad_request("the request body is no JSON object"));
        }
        if !object["metadata"].is_object() {
            object["metadata"] = json!({});
        }
        for (field, wanted) in [("apiVersion", kind.api_version()), ("kind", kind.kind.clone())] {
            match object[field].as_str() {
                Some(found) if found == wanted => {}
                None | Some("") if kind.is_builtin() => object[field] = json!(wanted),
                None | Some("") => {
                    let shown = if field == "kind" { "Kind" } else { "apiVersion" };
                    return Err(ApiError::bad_request(format!("Object '{shown}' is missing")));
                }
                Some(found) => {
                    return Err(ApiError::bad_request(format!(
                        "the {field} of the provided object ({found}) does not match the request's ({wanted})"
                    )));
                }
            }
        }
        let meta = &mut object["metadata"];
        match meta["namespace"].as_str() {
            None | Some("") if kind.namespaced => meta["namespace"] = json!(&*self.key.namespace),
            None => {}
            Some(found) if found == &*self.key.namespace => {}
            Some(_) if !kind.namespaced => {
                if let Some(meta) = meta.as_object_mut() {
                    meta.remove("namespace");
                }
            }
            Some(_) => {
                return Err(ApiError::bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request",
                ));
            }
        }
        if !self.key.name.is_empty() {
            match meta["name"].as_str() {
                None | Some("") => meta["name"] = json!(&*self.key.name),
                Some(found) if found == &*self.key.name => {}
                Some(found) => {
                    return Err(ApiError::bad_request(format!(
                        "the name of the object ({found}) does not match the name on the URL ({})",
                        self.key.name
                    )));
                }
            }
        }
        Ok(())
    }

    /// Refuses a write that was made for another state or another object.
    pub fn check_preconditions(&self, old: &Value, new: &Value) -> Result<(), ApiError> {
        let (was, is) = (&old["metadata"], &new["metadata"]);
        if let Some(uid) = is["uid"].as_str().filter(|u| !u.is_empty())
            && was["uid"] != uid
        {
            let found = was["uid"].as_str().unwrap_or_default();
            let detail = format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {found}"
            );
            return Err(ApiError::conflict(&self.kind, &self.key.name, &detail));
        }
        match is["resourceVersion"].as_str().filter(|v| !v.is_empty() && *v != "0") {
            Some(version) if was["resourceVersion"] != version => {
                Err(ApiError::stale(&self.kind, &self.key.name))
            }
            _ => Ok(()),
        }
    }

    /// Refuses finalizers that come when the object is being deleted.
    pub fn check_finalizers(&self, old: &Value, new: &Value) -> Result<(), ApiError> {
        if !is_deleting(old) {
            return Ok(());
        }
        let held = finalizers(old);
        let added: Vec<&str> = finalizers(new).into_iter().filter(|f| !held.contains(f)).collect();
        if added.is_empty() {
            return Ok(());
        }
        let detail = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            added.iter().map(|f| format!("{f:?}")).collect::<Vec<_>>().join(", ")
        );
        Err(ApiError::invalid(
            &self.kind,
            &self.key.name,
            vec![Cause::forbidden("metadata.finalizers", &detail)],
        ))
    }

    /// Validates the whole object. Of a custom kind only what has changed, as
    /// the real one does since 1.33.
    pub fn check(&self, object: &Value, old: Option<&Value>) -> Result<(), ApiError> {
        let kind = &self.kind;
        let mut causes = Vec::new();
        if old.is_none() {
            causes.extend(builtin_rules::name(kind, object));
        }
        causes.extend(validate::metadata(object));
        if let Some(schema) = kind.schema() {
            causes.extend(validate::custom(schema, object, old));
        } else if kind.is_crd() {
            causes.extend(crd::validate(object));
        } else if kind.is_builtin() {
            causes.extend(builtin_rules::check(kind, object, old));
        }
        if causes.is_empty() {
            return Ok(());
        }
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        Err(ApiError::invalid(kind, name, causes))
    }
}
