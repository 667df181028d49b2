//! Requests of commands that read a cluster once, without a watch.

use std::time::Duration;

use futures::StreamExt;
use kube::api::{ApiResource, ListParams};
use serde_json::{Value, json};

use super::{ClusterCache, raw_object};
use crate::watch::failure::{checked, error_reason, has_code};
use wavegate_api::ResourceKey;

/// Requests that are sent in parallel.
const PARALLEL: usize = 10;
/// Objects per page of a listing.
const PAGE: u32 = 500;
/// Pages of one kind in one namespace.
const MAX_PAGES: usize = 40;
/// The most objects of one kind in one namespace.
pub const MOST: usize = PAGE as usize * MAX_PAGES;
/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The answer to a request.
///
/// # Errors
///
/// That there is none in time.
pub async fn in_time<T>(request: impl Future<Output = T>) -> Result<T, String> {
    let answer = tokio::time::timeout(TIMEOUT, request).await;
    answer.map_err(|_| format!("no response within {} s", TIMEOUT.as_secs()))
}

/// The answers to requests, of which some are sent in parallel.
pub async fn all_answers<T>(requests: impl IntoIterator<Item = impl Future<Output = T>>) -> Vec<T> {
    futures::stream::iter(requests).buffer_unordered(PARALLEL).collect().await
}

/// What was read of one kind in one namespace.
#[derive(Clone, Debug)]
pub struct ListedObjects<T> {
    /// The kind.
    pub resource: ApiResource,
    /// The namespace; empty for all.
    pub namespace: String,
    /// What was kept of its objects.
    pub objects: Vec<T>,
    /// Whether these are all, or why they could not be listed.
    pub done: Result<bool, String>,
}

impl ClusterCache {
    /// Lists the metadata of several kinds and namespaces. `keep` is what is kept of an object.
    pub async fn list_all_once<T>(
        &self,
        places: impl IntoIterator<Item = (ApiResource, String)>,
        labels: Option<&str>,
        keep: impl Fn(Value) -> Option<T>,
    ) -> Vec<ListedObjects<T>> {
        let keep = &keep;
        all_answers(places.into_iter().map(|(resource, namespace)| async move {
            let mut objects = Vec::new();
            let each = |object| objects.extend(keep(object));
            let done = self.list_once(&resource, &namespace, labels, false, each).await;
            ListedObjects { resource, namespace, objects, done }
        }))
        .await
    }

    /// An object, or only its metadata unless `whole`; `None` when it does not exist.
    ///
    /// # Errors
    ///
    /// The message of the server, or that there is none.
    pub async fn get_once(
        &self,
        resource: &ApiResource,
        key: &ResourceKey,
        whole: bool,
    ) -> Result<Option<Value>, String> {
        checked(key).map_err(|error| error_reason(&error))?;
        let api = self.api(resource, &key.namespace);
        let found = match whole {
            true => {
                let found = in_time(api.get_opt(&key.name)).await?;
                found.map(|found| found.map(|object| raw_object(object, resource)))
            }
            false => {
                let found = in_time(api.get_metadata_opt(&key.name)).await?;
                found.map(|found| found.map(|object| metadata(resource, &object.metadata)))
            }
        };
        found.map_err(|error| error_reason(&error))
    }

    /// Lists a kind page by page; only the metadata of its objects unless `whole`. Returns
    /// whether these are all: at most [`MOST`] are read.
    ///
    /// # Errors
    ///
    /// The message of the server, or that there is none.
    pub async fn list_once(
        &self,
        resource: &ApiResource,
        namespace: &str,
        labels: Option<&str>,
        whole: bool,
        mut each: impl FnMut(Value),
    ) -> Result<bool, String> {
        let api = self.api(resource, namespace);
        let mut params = ListParams::default().limit(PAGE);
        params.label_selector = labels.map(str::to_owned);
        for _ in 0..MAX_PAGES {
            let next = match whole {
                true => in_time(api.list(&params)).await?.map(|list| {
                    list.items
                        .into_iter()
                        .map(|object| raw_object(object, resource))
                        .for_each(&mut each);
                    list.metadata.continue_
                }),
                false => in_time(api.list_metadata(&params)).await?.map(|list| {
                    let objects = list.items.iter();
                    objects.map(|one| metadata(resource, &one.metadata)).for_each(&mut each);
                    list.metadata.continue_
                }),
            };
            let next = match next {
                Ok(next) => next,
                // Its definition was removed, or it cannot be listed.
                Err(error) if has_code(&error, 404) || has_code(&error, 405) => return Ok(true),
                Err(error) => return Err(error_reason(&error)),
            };
            match next.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(true),
            }
        }
        Ok(false)
    }
}

/// An object with nothing but its metadata.
fn metadata(resource: &ApiResource, metadata: &kube::core::ObjectMeta) -> Value {
    let metadata = serde_json::to_value(metadata).unwrap_or_default();
    json!({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata})
}
