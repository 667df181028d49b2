//! Reads what a request is about from its method, path, query and headers.
//!
//! Pure: knows nothing of what is stored.

use std::borrow::Cow;
use std::collections::BTreeMap;

use http::Method;
use percent_encoding::percent_decode_str;

use super::effect::Effect;
use super::errors::ApiError;
use super::request_record::RequestRecord;

/// The parts of a resource path such as
/// `/apis/apps/v1/namespaces/default/deployments/web/status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    pub group: String,
    pub version: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: Option<String>,
    pub name: Option<String>,
}

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Resource(ResourcePath),
    /// `/api`
    LegacyVersions,
    /// `/apis`
    Groups,
    /// `/apis/GROUP`
    Group(String),
    /// `/api/v1` and `/apis/GROUP/VERSION`
    Resources(String, String),
    Version,
    /// `/healthz`, `/livez`, `/readyz` and their parts.
    Health,
    OpenApiV2,
    OpenApiV3,
    /// `/openapi/v3/PATH`
    OpenApiV3Group(String),
    Unknown,
}

/// Reads a path.
pub(crate) fn route(path: &str) -> Route {
    let decode = |part| percent_decode_str(part).decode_utf8_lossy();
    let parts: Vec<Cow<'_, str>> = path.split('/').filter(|p| !p.is_empty()).map(decode).collect();
    let parts: Vec<&str> = parts.iter().map(AsRef::as_ref).collect();
    match parts.as_slice() {
        ["api"] => Route::LegacyVersions,
        ["apis"] => Route::Groups,
        ["apis", group] => Route::Group((*group).to_owned()),
        ["api", version] => Route::Resources(String::new(), (*version).to_owned()),
        ["apis", group, version] => Route::Resources((*group).to_owned(), (*version).to_owned()),
        ["api", version, rest @ ..] => resource("", version, rest),
        ["apis", group, version, rest @ ..] => resource(group, version, rest),
        ["version"] => Route::Version,
        ["healthz" | "livez" | "readyz", ..] => Route::Health,
        ["openapi", "v2"] => Route::OpenApiV2,
        ["openapi", "v3"] => Route::OpenApiV3,
        ["openapi", "v3", rest @ ..] => Route::OpenApiV3Group(rest.join("/")),
        _ => Route::Unknown,
    }
}

fn resource(group: &str, version: &str, rest: &[&str]) -> Route {
    let (namespace, rest) = match rest {
        // `namespaces/NAME` and its own subresources are about the namespace itself.
        ["namespaces", _] | ["namespaces"] => (None, rest),
        ["namespaces", _, "status" | "finalize"] => (None, rest),
        ["namespaces", namespace, rest @ ..] => (Some((*namespace).to_owned()), rest),
        _ => (None, rest),
    };
    let (resource, name, subresource) = match rest {
        [resource] => (*resource, None, ""),
        [resource, name] => (*resource, Some((*name).to_owned()), ""),
        [resource, name, subresource] => (*resource, Some((*name).to_owned()), *subresource),
        _ => return Route::Unknown,
    };
    Route::Resource(ResourcePath {
        group: group.to_owned(),
        version: version.to_owned(),
        resource: resource.to_owned(),
        subresource: subresource.to_owned(),
        namespace,
        name,
    })
}

/// The query of a request; of a repeated key the first value counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(BTreeMap<String, String>);

impl Query {
    pub fn parse(query: Option<&str>) -> Self {
        let mut map = BTreeMap::new();
        for (key, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            map.entry(key.into_owned()).or_insert_with(|| value.into_owned());
        }
        Self(map)
    }

    /// The value of a key; an empty value counts as absent.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str).filter(|v| !v.is_empty())
    }

    pub fn flag(&self, key: &str) -> bool {
        // `?watch` and `?watch=` count as true, as with the real one.
        self.0.get(key).is_some_and(|v| !matches!(v.as_str(), "0" | "false" | "False" | "FALSE"))
    }

    pub fn number(&self, key: &str) -> Result<Option<u64>, ApiError> {
        match self.get(key) {
            None => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| {
                ApiError::bad_request(format!("invalid value {text:?} for query parameter {key}"))
            }),
        }
    }

    /// Whether nothing may be stored.
    ///
    /// # Errors
    ///
    /// A value other than `All`.
    pub fn dry_run(&self) -> Result<bool, ApiError> {
        match self.get("dryRun") {
            None => Ok(false),
            Some("All") => Ok(true),
            Some(other) => Err(ApiError::new(
                422,
                "Invalid",
                format!(
                    " \"\" is invalid: dryRun: Unsupported value: {other:?}: supported values: \"All\""
                ),
            )),
        }
    }
}

/// In which form a response is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// The object or list itself.
    Object,
    /// `meta.k8s.io/v1` `Table`, for `kubectl get`.
    Table,
    /// `PartialObjectMetadata` or a list of it.
    Metadata,
}

/// Reads the `Accept` header; what is not understood is answered with plain JSON.
pub(crate) fn view(accept: &str) -> View {
    for part in accept.split(',') {
        let mut table = None;
        for param in part.split(';').skip(1) {
            match param.trim().split_once('=') {
                Some(("as", "Table")) => table = Some(View::Table),
                Some(("as", "PartialObjectMetadata" | "PartialObjectMetadataList")) => {
                    table = Some(View::Metadata)
                }
                _ => {}
            }
        }
        let v1 = part.contains("v=v1;") || part.ends_with("v=v1");
        match table {
            Some(view) if v1 => return view,
            Some(_) => {}
            None => return View::Object,
        }
    }
    View::Object
}

/// A request without its body.
pub(crate) struct Call<'a> {
    pub path: ResourcePath,
    pub query: Query,
    pub view: View,
    pub method: &'a Method,
    pub content_type: &'a str,
    pub manager: String,
    pub record: &'a RequestRecord,
    /// The faults that it has.
    pub effects: &'a [Effect],
    /// The user that the request is made for.
    pub user: &'a str,
    pub dry_run: bool,
}
