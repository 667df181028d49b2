//! The requests of an apply.
//!
//! Each may be sent more than once after a transient error: an apply is idempotent, a
//! patch or replacement has a resource version, and a repeated creation returns code 409
//! to the caller.

use kube::api::DynamicObject;
use kube::core::Resource;
use kube::core::discovery::ApiResource;
use serde_json::Value;

use crate::act::sync::applier::Applier;
use crate::act::sync::retry;
use crate::act::sync::secrets::redacted_error;
use crate::watch::failure::checked;
use wavegate_api::raw::{edit_metadata, require_version};
use wavegate_api::resource_key::ResourceKey;

/// The requests, by their method and the type of their body.
const CREATE: (http::Method, &str) = (http::Method::POST, "application/json");
const REPLACE: (http::Method, &str) = (http::Method::PUT, "application/json");
const MERGE: (http::Method, &str) = (http::Method::PATCH, "application/merge-patch+json");
const JSON_PATCH: (http::Method, &str) = (http::Method::PATCH, "application/json-patch+json");
const SERVER_SIDE: (http::Method, &str) = (http::Method::PATCH, "application/apply-patch+yaml");

/// Sends requests for one object.
#[derive(Clone, Copy)]
pub(super) struct Sender<'a> {
    applier: &'a Applier<'a>,
    pub resource: &'a ApiResource,
    pub key: &'a ResourceKey,
    pub dry_run: bool,
    validate: bool,
}

impl<'a> Sender<'a> {
    pub fn new(
        applier: &'a Applier<'a>,
        resource: &'a ApiResource,
        key: &'a ResourceKey,
        validate: bool,
        dry_run: bool,
    ) -> Self {
        Self { applier, resource, key, dry_run, validate }
    }

    /// The same for another object.
    pub fn with_key<'b>(&self, key: &'b ResourceKey) -> Sender<'b>
    where
        'a: 'b,
    {
        Sender { key, ..*self }
    }

    /// The same as dry runs.
    pub fn asking(&self) -> Self {
        Self { dry_run: true, ..*self }
    }

    pub async fn create(&self, object: &Value) -> Result<Value, kube::Error> {
        self.send(&CREATE, object, "").await
    }

    /// Creates with a single request, for callers that check whether it was executed
    /// before they send another one.
    pub async fn create_once(&self, object: &Value) -> Result<Value, kube::Error> {
        let request = self.request(&CREATE, object, "")?;
        self.once(request, object).await
    }

    pub async fn replace(&self, object: &Value, live: &Value) -> Result<Value, kube::Error> {
        let mut object = object.clone();
        require_version(&mut object, live);
        self.send(&REPLACE, &object, "").await
    }

    /// Sends a merge patch for the version of `live`.
    pub async fn merge(&self, patch: &Value, live: &Value) -> Result<Value, kube::Error> {
        let mut patch = patch.clone();
        require_version(&mut patch, live);
        self.send(&MERGE, &patch, "").await
    }

    pub async fn json_patch(&self, patch: &Value) -> Result<Value, kube::Error> {
        self.send(&JSON_PATCH, patch, "").await
    }

    pub async fn server_side(&self, object: &Value) -> Result<Value, kube::Error> {
        let mut object = object.clone();
        edit_metadata(&mut object, |metadata| drop(metadata.remove("managedFields")));
        self.send(&SERVER_SIDE, &object, "&force=true").await
    }

    async fn send(
        &self,
        of: &(http::Method, &str),
        body: &Value,
        more: &str,
    ) -> Result<Value, kube::Error> {
        let request = self.request(of, body, more)?;
        retry::on_transient_errors(self.key, || self.once(request.clone(), body)).await
    }

    /// The values of a Secret are removed from the error message here, before it is used
    /// anywhere.
    async fn once(
        &self,
        request: http::Request<Vec<u8>>,
        body: &Value,
    ) -> Result<Value, kube::Error> {
        let verb = match *request.method() {
            http::Method::POST => "Create",
            http::Method::PUT => "Update",
            _ => "Patch",
        };
        let requests = &self.applier.cluster.requests;
        let answer = requests.send(self.applier.client.request(request)).await;
        let of = (self.resource.plural.as_str(), self.key.namespace.as_str());
        self.applier.meter.answered((verb, self.dry_run), of, &answer);
        answer.map_err(|error| redacted_error(error, self.key, body))
    }

    fn request(
        &self,
        (method, type_): &(http::Method, &str),
        body: &Value,
        more: &str,
    ) -> Result<http::Request<Vec<u8>>, kube::Error> {
        checked(self.key)?;
        let namespace = Some(self.key.namespace.as_str()).filter(|ns| !ns.is_empty());
        let mut path = DynamicObject::url_path(self.resource, namespace);
        if *method != http::Method::POST {
            path.push('/');
            path.push_str(&self.key.name);
        }
        let validation = if self.validate { "Strict" } else { "Ignore" };
        let dry_run = if self.dry_run { "&dryRun=All" } else { "" };
        let manager = self.applier.manager;
        let query = format!("fieldManager={manager}&fieldValidation={validation}{dry_run}{more}");
        let body = serde_json::to_vec(body).map_err(kube::Error::SerdeError)?;
        http::Request::builder()
            .method(method.clone())
            .uri(format!("{path}?{query}"))
            .header(http::header::ACCEPT, "application/json")
            .header(http::header::CONTENT_TYPE, *type_)
            .body(body)
            .map_err(kube::Error::HttpError)
    }
}
