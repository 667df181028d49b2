//! OpenAPI documents: what `kubectl explain` prints, and what kubectl asks before it writes.
//!
//! Schemas of built-in kinds come from their types, those of custom kinds from
//! their definitions. A document is made when it is asked for, outside of the
//! server's lock: see [`Wanted`]. Those of built-in groups never change and are kept.

mod schemas;
mod v2;

use std::collections::BTreeMap;
use std::sync::Arc;

use hyper::body::Bytes;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use self::schemas::{Version, definitions, gvk};
use super::answer::Reply;
use super::errors::ApiError;
use super::kinds::{Kind, Registry};
use super::stored::to_json;

/// A document that is to be made from these kinds.
pub(crate) enum Wanted {
    /// `/openapi/v2`, and whether in protobuf.
    Whole(Vec<Arc<Kind>>, bool),
    /// `/openapi/v3/PATH`.
    Group(String, Vec<Arc<Kind>>),
}

impl Wanted {
    /// `/openapi/v2`.
    pub fn whole(kinds: &Registry, accept: &str) -> Self {
        Self::Whole(kinds.iter().cloned().collect(), accept.contains("protobuf"))
    }

    /// `/openapi/v3/PATH`: the resources of one group and version.
    ///
    /// # Errors
    ///
    /// `NotFound` for a version that is not served.
    pub fn group(kinds: &Registry, path: &str) -> Result<Self, ApiError> {
        let of_group = kinds.iter().filter(|kind| group_path(kind) == path);
        let list: Vec<Arc<Kind>> = of_group.cloned().collect();
        if list.is_empty() {
            return Err(ApiError::no_such_path());
        }
        Ok(Self::Group(path.to_owned(), list))
    }

    /// Makes the document; takes milliseconds.
    pub fn make(self) -> Reply {
        match self {
            Self::Whole(kinds, false) => Reply::value(200, &v2::document(&kinds)),
            Self::Whole(kinds, true) => {
                let media = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
                Reply::Typed(media, v2::encode(&v2::document(&kinds)).into())
            }
            Self::Group(path, kinds) => Reply::Json(200, group(&path, &kinds)),
        }
    }
}

fn group_path(kind: &Kind) -> String {
    if kind.group.is_empty() {
        format!("api/{}", kind.version)
    } else {
        format!("apis/{}/{}", kind.group, kind.version)
    }
}

/// `/openapi/v3`: where the documents are. The hash changes when kinds come and go.
pub(crate) fn index(kinds: &Registry, generation: u64) -> Value {
    let mut paths = Map::new();
    for kind in kinds.iter() {
        let path = group_path(kind);
        let url = format!("/openapi/v3/{path}?hash={generation:016X}");
        paths.insert(path, json!({"serverRelativeURL": url}));
    }
    json!({"paths": paths})
}

fn group(path: &str, kinds: &[Arc<Kind>]) -> Bytes {
    // A group is either built in or custom.
    static BUILTIN: Mutex<BTreeMap<String, Bytes>> = Mutex::new(BTreeMap::new());
    let builtin = kinds.iter().all(|kind| kind.is_builtin());
    if builtin && let Some(known) = BUILTIN.lock().get(path) {
        return known.clone();
    }
    let mut paths = Map::new();
    for kind in kinds {
        describe_paths(path, kind, &mut paths);
    }
    let document: Bytes = to_json(&json!({
        "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.33.0"},
        "paths": paths, "components": {"schemas": definitions(kinds, Version::V3)},
    }))
    .into();
    if builtin {
        BUILTIN.lock().insert(path.to_owned(), document.clone());
    }
    document
}

/// The operations of a kind, as far as kubectl looks for them: whether fields are
/// validated by the server, and which patches it accepts.
fn describe_paths(path: &str, kind: &Kind, paths: &mut Map<String, Value>) {
    let gvk = gvk(kind);
    let scope = if kind.namespaced { "/namespaces/{namespace}" } else { "" };
    let collection = format!("/{path}{scope}/{}", kind.plural);
    let parameter = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    let parameters =
        json!([parameter("dryRun"), parameter("fieldManager"), parameter("fieldValidation")]);
    let operation = |action: &str| {
        json!({
            "x-kubernetes-action": action, "x-kubernetes-group-version-kind": gvk,
            "parameters": parameters, "responses": {"200": {"description": "OK"}},
        })
    };
    paths.insert(collection.clone(), json!({"post": operation("post")}));
    let mut patch = operation("patch");
    let mut content = Map::new();
    // Not strategic: schemas from types lack the merge keys, and kubectl knows them itself.
    for media in [
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
    ] {
        content.insert(media.to_owned(), json!({"schema": {"type": "object"}}));
    }
    patch["requestBody"] = json!({"content": content});
    paths
        .insert(format!("{collection}/{{name}}"), json!({"put": operation("put"), "patch": patch}));
}

#[cfg(test)]
mod tests;
