//! OpenAPI documents, as far as `kubectl` asks for them.
//!
//! Before it writes, kubectl looks whether the server validates fields itself:
//! the v3 documents say so, per resource. Schemas are given for custom kinds;
//! built-in kinds are described as plain objects, since kubectl knows them.

use serde_json::{Map, Value, json};

use super::answer::Reply;
use super::errors::ApiError;
use super::kinds::{Kind, Registry};

/// `/openapi/v2`: a document without paths. kubectl reads it in protobuf only.
pub(crate) fn v2(accept: &str) -> Reply {
    if !accept.contains("protobuf") {
        let empty = json!({"swagger": "2.0", "info": {"title": "Kubernetes", "version": "v1.33.0"}, "paths": {}});
        return Reply::value(200, &empty);
    }
    // message Document { string swagger = 1; Info info = 2; Paths paths = 8; }
    // message Info { string title = 1; string version = 2; }
    let field = |number: u8, content: &[u8]| {
        let mut out = vec![number << 3 | 2, u8::try_from(content.len()).unwrap_or(u8::MAX)];
        out.extend_from_slice(content);
        out
    };
    let info = [field(1, b"Kubernetes"), field(2, b"v1.33.0")].concat();
    let document = [field(1, b"2.0"), field(2, &info), field(8, b"")].concat();
    Reply::Typed("application/com.github.proto-openapi.spec.v2.v1.0+protobuf", document.into())
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

/// `/openapi/v3/PATH`: the resources of one group and version.
///
/// # Errors
///
/// `NotFound` for a version that is not served.
pub(crate) fn group(kinds: &Registry, path: &str) -> Result<Value, ApiError> {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    for kind in kinds.iter().filter(|k| group_path(k) == path) {
        let gvk = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
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
        for media in [
            "application/apply-patch+yaml",
            "application/json-patch+json",
            "application/merge-patch+json",
        ] {
            content.insert(media.to_owned(), json!({"schema": {"type": "object"}}));
        }
        patch["requestBody"] = json!({"content": content});
        paths.insert(
            format!("{collection}/{{name}}"),
            json!({"put": operation("put"), "patch": patch}),
        );
        let mut schema = kind
            .custom
            .as_ref()
            .and_then(|c| c.raw_schema.clone())
            .unwrap_or_else(|| json!({"type": "object"}));
        schema["x-kubernetes-group-version-kind"] = json!([gvk]);
        let name = if kind.group.is_empty() { "core" } else { &kind.group };
        schemas.insert(format!("{name}.{}.{}", kind.version, kind.kind), schema);
    }
    if paths.is_empty() {
        return Err(ApiError::no_such_path());
    }
    Ok(json!({
        "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.33.0"},
        "paths": paths, "components": {"schemas": schemas},
    }))
}
