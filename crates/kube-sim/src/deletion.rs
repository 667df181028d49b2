//! DELETE requests, evictions, and the finalizers of namespaces.

use std::sync::Arc;

use serde_json::{Value, json};

use super::answer::Reply;
use super::convert;
use super::errors::ApiError;
use super::gc::Propagation;
use super::kinds::Kind;
use super::place::{Key, Place, ResourceKey};
use super::request::{Call, Query, View};
use super::selectors::Selectors;
use super::stored::{Stored, partial, to_json};
use super::write::Writer;

/// What a DELETE asks for, from its body or its query.
#[derive(Debug, Default)]
struct Options {
    propagation: Option<Propagation>,
    uid: Option<String>,
    resource_version: Option<String>,
    dry_run: bool,
}

impl Options {
    fn read(body: Option<&Value>, query: &Query) -> Result<Self, ApiError> {
        // A body, even an empty object, makes the query count for nothing.
        let nothing = Query::default();
        let (body, query) = match body {
            Some(body) => (body, &nothing),
            None => (&Value::Null, query),
        };
        let text = |v: &Value| v.as_str().map(str::to_owned);
        let policy = text(&body["propagationPolicy"])
            .or_else(|| query.get("propagationPolicy").map(str::to_owned));
        let propagation = match policy.as_deref() {
            Some("Background") => Some(Propagation::Background),
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Orphan") => Some(Propagation::Orphan),
            Some(other) => {
                let message = format!(
                    "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Invalid value: {other:?}: \
                     supported values: \"Background\", \"Foreground\", \"Orphan\""
                );
                return Err(ApiError::new(422, "Invalid", message));
            }
            None => match body["orphanDependents"].as_bool() {
                Some(true) => Some(Propagation::Orphan),
                Some(false) => Some(Propagation::Background),
                None => None,
            },
        };
        let dry_run = query.dry_run()?
            || body["dryRun"].as_array().is_some_and(|l| l.iter().any(|d| d == "All"));
        Ok(Self {
            propagation,
            uid: text(&body["preconditions"]["uid"]),
            resource_version: text(&body["preconditions"]["resourceVersion"]),
            dry_run,
        })
    }

    fn check(&self, kind: &Kind, name: &str, stored: &Stored) -> Result<(), ApiError> {
        let revision = stored.revision.to_string();
        for (what, wanted, found) in [
            ("UID", &self.uid, &*stored.uid),
            ("ResourceVersion", &self.resource_version, &revision),
        ] {
            if let Some(wanted) = wanted
                && wanted != found
            {
                let detail = format!(
                    "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
                );
                return Err(ApiError::conflict(kind, name, &detail));
            }
        }
        Ok(())
    }

    fn propagation(&self, kind: &Kind) -> Propagation {
        // Jobs keep their pods unless asked otherwise, for historical reasons.
        let default = if kind.is("batch", "jobs") || kind.is("", "replicationcontrollers") {
            Propagation::Orphan
        } else {
            Propagation::Background
        };
        self.propagation.unwrap_or(default)
    }
}

/// Kinds of which a deletion answers with the object rather than with a `Status`.
fn returns_object(kind: &Kind) -> bool {
    kind.group.is_empty()
        && matches!(
            kind.plural.as_str(),
            "pods"
                | "persistentvolumes"
                | "persistentvolumeclaims"
                | "serviceaccounts"
                | "podtemplates"
                | "resourcequotas"
                | "services"
        )
}

/// Deletes one object.
pub(crate) fn delete(
    writer: &mut Writer<'_>,
    call: &Call<'_>,
    body: Option<&Value>,
) -> Result<Reply, ApiError> {
    let options = Options::read(body, &call.query)?;
    let current = writer.found()?;
    let kind = writer.kind.clone();
    options.check(&kind, &writer.key.name, &current)?;
    if writer.place().0 == ResourceKey::namespaces()
        && matches!(&*writer.key.name, "default" | "kube-system" | "kube-public")
    {
        return Err(ApiError::forbidden(
            &kind,
            &writer.key.name,
            "this namespace may not be deleted",
        ));
    }
    let (last, gone) = if options.dry_run {
        (current, true)
    } else {
        let place = writer.place();
        writer
            .state
            .delete(&place, options.propagation(&kind), writer.now)
            .ok_or_else(|| ApiError::not_found(&kind, &writer.key.name))?
    };
    if gone && !returns_object(&kind) && !last.deleting && !kind.is("", "namespaces") {
        let mut details =
            json!({"name": &*writer.key.name, "kind": kind.plural, "uid": &*last.uid});
        if !kind.group.is_empty() {
            details["group"] = json!(kind.group);
        }
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details});
        return Ok(Reply::value(200, &status));
    }
    Ok(Reply::Json(200, convert::served(&kind, &last).json.clone()))
}

/// Deletes all objects that a list would give.
pub(crate) fn delete_collection(
    writer: &mut Writer<'_>,
    call: &Call<'_>,
    body: Option<&Value>,
) -> Result<Reply, ApiError> {
    let kind = writer.kind.clone();
    if kind.namespaced && call.path.namespace.is_none() {
        return Err(ApiError::method_not_allowed(&kind));
    }
    if kind.is("", "namespaces") {
        return Err(ApiError::method_not_allowed(&kind));
    }
    let options = Options::read(body, &call.query)?;
    let selectors =
        Selectors::parse(&kind, call.query.get("labelSelector"), call.query.get("fieldSelector"))?;
    let chosen: Vec<(Key, Arc<Stored>)> = writer
        .state
        .store
        .table(&kind.storage)
        .into_iter()
        .flat_map(|t| t.range(call.path.namespace.as_deref()))
        .filter(|(key, stored)| selectors.matches(key, stored))
        .map(|(key, stored)| (key.clone(), stored.clone()))
        .collect();
    for (key, stored) in &chosen {
        options.check(&kind, &key.name, stored)?;
        if !options.dry_run {
            let place: Place = (kind.storage.clone(), key.clone());
            writer.state.delete(&place, options.propagation(&kind), writer.now);
        }
    }
    let items: Vec<Value> = chosen
        .into_iter()
        .map(|(_, stored)| stored.object().into_whole())
        .map(|object| if call.view == View::Metadata { partial(object) } else { object })
        .collect();
    let list = json!({
        "kind": kind.list_kind, "apiVersion": kind.api_version(),
        "metadata": {"resourceVersion": writer.state.store.revision().to_string()}, "items": items,
    });
    Ok(Reply::Json(200, to_json(&list).into()))
}

/// `pods/eviction`: a deletion; disruption budgets are ignored.
pub(crate) fn evict(writer: &mut Writer<'_>) -> Result<Reply, ApiError> {
    writer.found()?;
    if !writer.dry_run {
        let place = writer.place();
        writer.state.delete(&place, Propagation::Background, writer.now);
    }
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(Reply::value(201, &status))
}

/// `namespaces/finalize`: accepted; the server empties and removes namespaces itself.
pub(crate) fn finalize(writer: &mut Writer<'_>) -> Result<Reply, ApiError> {
    let current = writer.found()?;
    Ok(Reply::Json(200, current.json.clone()))
}
