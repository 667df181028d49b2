//! The schemas of a cluster's kinds.
//!
//! Schemas of built-in kinds come from the OpenAPI of the server: version 3 by group, or
//! version 2 before Kubernetes 1.24. Schemas of custom kinds come from their definitions,
//! which are up to date at once; the published documents follow some seconds later.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use kube::core::discovery::ApiResource;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::Instant;

use super::structure;
use crate::watch::failure::error_reason;
use wavegate_api::kind::KindRef;
use wavegate_api::openapi::Document;

/// Maximum size of a document, in bytes; the kinds of a larger one are not validated here.
const MAX_BYTES: usize = 16 << 20;

/// Timeout of a request for a document. After a timeout, no document is requested during
/// [`QUIET`], since syncs wait for it.
const TIMEOUT: Duration = Duration::from_secs(10);
const QUIET: Duration = Duration::from_secs(600);

/// When an object is invalid and the document is older than this, it is requested again:
/// the server may know more fields now.
const OLD: Duration = Duration::from_secs(60);

/// Documents that are kept for other clusters; there is one for each group with objects.
const KEPT: usize = 16;

/// One cached response, also that no schema exists.
#[derive(Clone, Debug)]
struct KnownDocuments {
    document: Arc<Document>,
    at: Instant,
}

/// The schemas of one cluster that were needed so far.
#[derive(Debug, Default)]
pub(super) struct Schemas {
    /// By group and version; for custom kinds, also by kind.
    known: BTreeMap<(String, String, String), KnownDocuments>,
    /// Version 2, which contains all groups.
    whole: Option<KnownDocuments>,
    /// Paths of the documents of version 3; `None` before they are requested, empty when
    /// there are none.
    index: Option<BTreeMap<String, String>>,
    quiet_until: Option<Instant>,
    /// The structures of custom kinds, by group, version and kind.
    structures: BTreeMap<(String, String, String), Structure>,
}

/// The structure of a custom kind, if its definition has one, and when it was read.
#[derive(Clone, Debug)]
struct Structure {
    schema: Option<Arc<Value>>,
    at: Instant,
}

impl Schemas {
    /// Drops the schemas of changed definitions.
    pub fn forget_custom(&mut self) {
        self.known.retain(|(_, _, kind), _| kind.is_empty());
        self.structures.clear();
    }

    /// Validates an object, with messages as in kubectl. Returns nothing when the schema
    /// is unknown.
    pub async fn mistakes(
        &mut self,
        client: &kube::Client,
        resource: &ApiResource,
        object: &Value,
    ) -> Vec<String> {
        let known = self.of(client, resource).await;
        let mistakes = known.document.check(object);
        if mistakes.is_empty() || known.at.elapsed() < OLD {
            return mistakes;
        }
        self.known.remove(&key(resource));
        (self.whole, self.index) = (None, None);
        self.of(client, resource).await.document.check(object)
    }

    /// The structure of a custom kind; `None` when it is not known.
    pub async fn structure(
        &mut self,
        client: &kube::Client,
        resource: &ApiResource,
    ) -> Option<Arc<Value>> {
        let key = key(resource);
        if let Some(known) = self.structures.get(&key)
            && (known.schema.is_some() || known.at.elapsed() < QUIET)
        {
            return known.schema.clone();
        }
        if self.quiet_until.is_some_and(|until| until > Instant::now()) {
            return None;
        }
        let schema = match tokio::time::timeout(TIMEOUT, read_definition(client, resource)).await {
            Ok(Ok(definition)) => {
                let document = Arc::new(Document::of_definition(&definition));
                self.known.insert(key.clone(), KnownDocuments { document, at: Instant::now() });
                structure::of_definition(&definition, &resource.version).map(Arc::new)
            }
            Ok(Err(why)) => {
                tracing::debug!(kind = resource.kind, why, "no schema to compare objects");
                None
            }
            Err(_) => {
                self.quiet_until = Some(Instant::now() + QUIET);
                None
            }
        };
        self.structures.insert(key, Structure { schema: schema.clone(), at: Instant::now() });
        schema
    }

    async fn of(&mut self, client: &kube::Client, resource: &ApiResource) -> KnownDocuments {
        let key = key(resource);
        // Failed requests are repeated later.
        let usable = |known: &KnownDocuments| known.document.is_any() || known.at.elapsed() < OLD;
        if let Some(known) = self.known.get(&key).filter(|known| usable(known)) {
            return known.clone();
        }
        if self.quiet_until.is_some_and(|until| until > Instant::now()) {
            return KnownDocuments { document: Arc::default(), at: Instant::now() };
        }
        let asked = async {
            match key.2.is_empty() {
                false => definition(client, resource).await,
                true => self.published(client, resource).await,
            }
        };
        let document = match tokio::time::timeout(TIMEOUT, asked).await {
            Ok(Ok(document)) => document,
            failed => {
                let why = match failed {
                    Ok(Err(why)) => why,
                    _ => {
                        self.quiet_until = Some(Instant::now() + QUIET);
                        format!("no response within {} s", TIMEOUT.as_secs())
                    }
                };
                let kind = &resource.kind;
                tracing::debug!(kind, why, "no schema to validate objects");
                Arc::default()
            }
        };
        let known = KnownDocuments { document, at: Instant::now() };
        self.known.insert(key, known.clone());
        known
    }

    async fn published(
        &mut self,
        client: &kube::Client,
        resource: &ApiResource,
    ) -> Result<Arc<Document>, String> {
        if self.index.is_none() {
            let index = match get(client, "/openapi/v3").await {
                Ok(bytes) => paths(&bytes),
                Err(Refused::Absent) => BTreeMap::new(),
                Err(Refused::Other(why)) => return Err(why),
            };
            self.index = Some(index);
        }
        let group = match resource.group.as_str() {
            "" => format!("api/{}", resource.version),
            group => format!("apis/{group}/{}", resource.version),
        };
        let path = self.index.as_ref().and_then(|index| index.get(&group)).cloned();
        if let Some(path) = path {
            return read(get(client, &path).await?).await;
        }
        if let Some(whole) = &self.whole {
            return Ok(whole.document.clone());
        }
        let document = read(get(client, "/openapi/v2").await?).await?;
        self.whole = Some(KnownDocuments { document: document.clone(), at: Instant::now() });
        Ok(document)
    }
}

/// Built-in kinds are keyed by group and version.
fn key(resource: &ApiResource) -> (String, String, String) {
    let ApiResource { group, version, kind, .. } = resource;
    let built_in = KindRef { group, version, kind }.is_built_in();
    (group.clone(), version.clone(), if built_in { String::new() } else { kind.clone() })
}

async fn definition(
    client: &kube::Client,
    resource: &ApiResource,
) -> Result<Arc<Document>, String> {
    Ok(Arc::new(Document::of_definition(&read_definition(client, resource).await?)))
}

async fn read_definition(client: &kube::Client, resource: &ApiResource) -> Result<Value, String> {
    let collection = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let path = format!("{collection}/{}.{}", resource.plural, resource.group);
    let bytes = get(client, &path).await?;
    serde_json::from_slice(&bytes).map_err(|error| error.to_string())
}

/// Where the schemas of an API server are.
#[derive(Default, Deserialize)]
struct SchemaIndex {
    #[serde(default)]
    paths: BTreeMap<String, SchemaPath>,
}

#[derive(Default, Deserialize)]
struct SchemaPath {
    #[serde(rename = "serverRelativeURL")]
    server_relative_url: Option<String>,
}

fn paths(bytes: &[u8]) -> BTreeMap<String, String> {
    let index: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let index: SchemaIndex = wavegate_api::read_leniently(&index);
    let paths = index.paths.into_iter();
    paths.filter_map(|(path, at)| Some((path, at.server_relative_url?))).collect()
}

/// Reads a document, unless it is one of the last: clusters of one version publish the same.
async fn read(bytes: Vec<u8>) -> Result<Arc<Document>, String> {
    static LAST: Mutex<VecDeque<([u8; 32], Arc<Document>)>> = Mutex::new(VecDeque::new());
    let work = move || {
        let digest: [u8; 32] = Sha256::digest(&bytes).into();
        let known = |last: &VecDeque<([u8; 32], Arc<Document>)>| {
            let found = last.iter().find(|(known, _)| *known == digest);
            found.map(|(_, document)| Arc::clone(document))
        };
        if let Some(document) = known(&LAST.lock()) {
            return Ok(document);
        }
        let document = Arc::new(Document::read(&bytes)?);
        let mut last = LAST.lock();
        last.push_back((digest, Arc::clone(&document)));
        let surplus = last.len().saturating_sub(KEPT);
        last.drain(..surplus);
        Ok(document)
    };
    // Where there is only one thread, as in a simulation, nothing happens meanwhile: its course
    // would depend on how long the work takes.
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::CurrentThread => work(),
        _ => tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())?,
    }
}

/// Why a document is missing.
enum Refused {
    /// The server does not have it.
    Absent,
    Other(String),
}

impl From<Refused> for String {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Absent => "the server does not publish it".to_owned(),
            Refused::Other(why) => why,
        }
    }
}

async fn get(client: &kube::Client, path: &str) -> Result<Vec<u8>, Refused> {
    let other = |error: &dyn std::fmt::Display| Refused::Other(error.to_string());
    let request = http::Request::get(path)
        .header(http::header::ACCEPT, "application/json")
        .body(kube::client::Body::empty())
        .map_err(|error| other(&error))?;
    let answer = client.send(request).await.map_err(|error| other(&error_reason(&error)))?;
    match answer.status().as_u16() {
        200 => {}
        404 => return Err(Refused::Absent),
        code => return Err(Refused::Other(format!("the server responded with status {code}"))),
    }
    let body = Limited::new(answer.into_body(), MAX_BYTES).collect().await;
    body.map(|body| body.to_bytes().into()).map_err(|error| other(&error))
}
