//! Webhooks of Git servers: ApplicationSets and Applications that use a pushed revision are
//! asked to read their repositories again (AS-421, SE-422).
//!
//! A replica that waits for the lease does this, too: the request is an annotation, which
//! the active one finds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use http::{HeaderMap, StatusCode};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::ListParams;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::act::refresh;
use crate::api::ObjectKey;
use crate::api::annotations::{APPLICATION_SET_REFRESH, REFRESH};
use crate::controller::context::Core;
use crate::decide::webhook::{self, Provider, Push, Refused, SECRET, Secrets};
use crate::settings::{ApplicationSetSettings, ApplicationSettings};
use crate::watch::control_plane::Cache;
use crate::watch::failure::reason;
use crate::watch::object::{Object, api, resource};

/// The most events that wait to be processed.
const QUEUE: usize = 50_000;
/// How long the secrets are used before they are read again.
const SECRETS_FOR: Duration = Duration::from_secs(10);
/// Objects in one page of a listing.
const PAGE: u32 = 500;

/// The secrets, or why they cannot be read.
type ReadSecrets = Result<Arc<Secrets>, String>;

/// The receiver of webhooks.
pub struct Webhook {
    core: Core,
    settings: ApplicationSetSettings,
    /// `None` when another program handles the Applications.
    applications: Option<ApplicationSettings>,
    send: mpsc::Sender<Push>,
    receive: Mutex<Option<mpsc::Receiver<Push>>>,
    secrets: tokio::sync::Mutex<Option<(Instant, ReadSecrets)>>,
    /// The servers whose webhooks are not verified, as logged.
    unverified: Mutex<BTreeSet<Provider>>,
    /// Events of a replica that waits for the lease. All of them share the next listing.
    unlisted: Mutex<Vec<Push>>,
    /// Held while objects are listed.
    listing: tokio::sync::Mutex<()>,
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhook").finish_non_exhaustive()
    }
}

/// The fields of an ApplicationSet that decide whether it is refreshed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Seen {
    metadata: SeenMetadata,
    spec: SeenSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SeenMetadata {
    annotations: Option<BTreeMap<String, Value>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SeenSpec {
    generators: Value,
}

impl Webhook {
    /// A receiver; [`Self::run`] processes what it accepts.
    pub fn new(
        core: Core,
        settings: ApplicationSetSettings,
        applications: Option<ApplicationSettings>,
    ) -> Self {
        Self::with_queue(core, settings, applications, QUEUE)
    }

    fn with_queue(
        core: Core,
        settings: ApplicationSetSettings,
        applications: Option<ApplicationSettings>,
        queue: usize,
    ) -> Self {
        let (send, receive) = mpsc::channel(queue);
        Self {
            core,
            settings,
            applications,
            send,
            receive: Mutex::new(Some(receive)),
            secrets: tokio::sync::Mutex::default(),
            unverified: Mutex::default(),
            unlisted: Mutex::default(),
            listing: tokio::sync::Mutex::default(),
        }
    }

    /// Checks a request and adds its event to the queue; returns the response.
    pub async fn receive(&self, headers: &HeaderMap, body: &[u8]) -> (StatusCode, String) {
        let header = |name: &str| Some(headers.get(name)?.to_str().ok()?.to_owned());
        let Some(provider) = Provider::of(&header) else {
            return refuse(&Refused::Unknown);
        };
        let secrets = match self.secrets().await {
            Ok(secrets) => secrets,
            Err(error) => {
                tracing::warn!(error, "webhook refused: Secret {SECRET} cannot be read");
                let text = format!("Secret {SECRET} cannot be read");
                return (StatusCode::SERVICE_UNAVAILABLE, text);
            }
        };
        if let Err(refused) = secrets.verify(provider, &header, body) {
            return refuse(&refused);
        }
        if let Some(key) = secrets.unverified(provider)
            && self.unverified.lock().insert(provider)
        {
            tracing::warn!(
                "webhooks of {} are accepted without verification: Secret {SECRET} has no key {key}",
                provider.name()
            );
        }
        match webhook::read(provider, &header, body) {
            Err(refused) => refuse(&refused),
            Ok(None) => (StatusCode::OK, String::new()),
            Ok(Some(push)) => match self.send.try_send(push) {
                Ok(()) => (StatusCode::OK, String::new()),
                Err(_) => {
                    let text = "queue is full, discarding the webhook".to_owned();
                    (StatusCode::SERVICE_UNAVAILABLE, text)
                }
            },
        }
    }

    /// Processes events until `shutdown`. Only the first call has an effect.
    pub async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let Some(mut receive) = self.receive.lock().take() else { return };
        let events = futures::stream::poll_fn(move |context| receive.poll_recv(context));
        let parallel = self.settings.webhook_parallelism;
        let work = events.for_each_concurrent(parallel, move |push| {
            let webhook = Arc::clone(&self);
            async move { webhook.process(push).await }
        });
        shutdown.run_until_cancelled(work).await;
    }

    /// The secrets, read at most once per interval, also when that fails.
    async fn secrets(&self) -> ReadSecrets {
        let mut known = self.secrets.lock().await;
        if let Some((at, secrets)) = &*known
            && at.elapsed() < SECRETS_FOR
        {
            return secrets.clone();
        }
        let namespace = &self.settings.control_plane_namespace;
        let api: Api<Secret> = Api::namespaced(self.core.client.clone(), namespace);
        let read = match api.get_opt(SECRET).await {
            Ok(secret) => {
                let data = secret.and_then(|secret| secret.data).unwrap_or_default();
                let data = data.into_iter().map(|(key, value)| (key, value.0)).collect();
                Ok(Arc::new(Secrets::read(&data)))
            }
            Err(error) => Err(reason(&error)),
        };
        *known = Some((Instant::now(), read.clone()));
        read
    }

    async fn process(&self, push: Push) {
        if self.core.control_plane.sets.is_listed() {
            return self.process_all(vec![push]).await;
        }
        // All objects are listed, which takes time: what arrives meanwhile waits, and shares the
        // next listing.
        self.unlisted.lock().push(push);
        let _one_at_a_time = self.listing.lock().await;
        let pushes = std::mem::take(&mut *self.unlisted.lock());
        if !pushes.is_empty() {
            self.process_all(pushes).await;
        }
    }

    async fn process_all(&self, pushes: Vec<Push>) {
        let pushes = Arc::new(pushes);
        self.process_sets(Arc::clone(&pushes)).await;
        self.process_applications(pushes).await;
    }

    async fn process_sets(&self, pushes: Arc<Vec<Push>>) {
        let cache = &self.core.control_plane.sets;
        let is_own_only = self.settings.namespaces.is_empty();
        let settings = self.settings.clone();
        let is_meant = move |object: &Object| {
            let seen: Seen = object.read().unwrap_or_default();
            let annotations = seen.metadata.annotations.unwrap_or_default();
            !annotations.contains_key(APPLICATION_SET_REFRESH)
                && settings.covers(object.namespace())
                && pushes.iter().any(|push| webhook::uses(&seen.spec.generators, push))
        };
        let found = match self.matching(cache, "ApplicationSet", is_own_only, is_meant).await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(error, "webhook discarded: ApplicationSets cannot be listed");
                return;
            }
        };
        for key in found {
            let span = tracing::info_span!("webhook", applicationset = %key);
            self.refresh(&key).instrument(span).await;
        }
    }

    async fn process_applications(&self, pushes: Arc<Vec<Push>>) {
        let Some(settings) = self.applications.clone() else { return };
        let cache = &self.core.control_plane.applications;
        let is_own_only = settings.namespaces.is_empty();
        let is_meant = move |object: &Object| {
            let is_covered = object.namespace() == settings.control_plane_namespace
                || settings.namespaces.matches(object.namespace());
            let application: Value = match is_covered {
                true => object.read().unwrap_or_default(),
                false => return false,
            };
            application["metadata"]["annotations"].get(REFRESH).is_none()
                && pushes.iter().any(|push| webhook::deploys(&application, push))
        };
        let found = match self.matching(cache, "Application", is_own_only, is_meant).await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(error, "webhook discarded: Applications cannot be listed");
                return;
            }
        };
        for key in found {
            let span = tracing::info_span!("webhook", application = %key);
            self.refresh_application(&key).instrument(span).await;
        }
    }

    async fn refresh_application(&self, key: &ObjectKey) {
        if self.settings.dry_run {
            tracing::info!("dry run: would add the annotation {REFRESH}");
            return;
        }
        match refresh::application(&self.core.client, key, false).await {
            Ok(_) => tracing::info!("refresh requested by a webhook"),
            Err(error) => tracing::warn!(error, "refresh cannot be requested"),
        }
    }

    async fn refresh(&self, key: &ObjectKey) {
        if self.settings.dry_run {
            tracing::info!("dry run: would add the annotation {APPLICATION_SET_REFRESH}");
            return;
        }
        match refresh::request(&self.core.client, key).await {
            Ok(()) => tracing::info!("refresh requested by a webhook"),
            Err(error) => tracing::warn!(error, "refresh cannot be requested"),
        }
    }

    /// The objects of a kind that are meant, from the cache or, while this replica waits for the
    /// lease, from the API server, of which one page is kept.
    async fn matching(
        &self,
        cache: &Cache,
        kind: &str,
        is_own_only: bool,
        is_meant: impl Fn(&Object) -> bool + Send + Sync + 'static,
    ) -> Result<Vec<ObjectKey>, String> {
        let is_meant = Arc::new(is_meant);
        // Generators and sources of users may be large.
        let among = |objects: Vec<Object>| {
            let is_meant = Arc::clone(&is_meant);
            let found = move || {
                let found = objects.iter().filter(|object| is_meant(object));
                found.map(Object::key).collect::<Vec<_>>()
            };
            async move { tokio::task::spawn_blocking(found).await.unwrap_or_default() }
        };
        if cache.listed().now_or_never().is_some() {
            return Ok(among(cache.all()).await);
        }
        let own = &self.settings.control_plane_namespace;
        let namespace = is_own_only.then_some(own.as_str());
        let api = api(&self.core.client, namespace, &resource(kind));
        let (mut found, mut params) = (Vec::new(), ListParams::default().limit(PAGE));
        loop {
            let page = api.list(&params).await.map_err(|error| reason(&error))?;
            found.extend(among(page.items).await);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(found),
            }
        }
    }
}

fn refuse(refused: &Refused) -> (StatusCode, String) {
    // Anyone may send these, so they are no warnings.
    tracing::debug!(error = %refused, "webhook refused");
    (StatusCode::BAD_REQUEST, refused.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::clock::Clock;
    use crate::watch::control_plane::Scope;
    use kube_sim::Server;

    #[tokio::test]
    async fn a_full_queue_is_unavailable_as_421() {
        let scope = Scope {
            namespace: "argocd".to_owned(),
            sets_everywhere: false,
            applications_everywhere: false,
            syncs: false,
        };
        let core = Core::new(Server::new().client_as("webhook"), scope, Clock::system());
        let webhook = Webhook::with_queue(core, ApplicationSetSettings::default(), None, 2);
        let mut headers = HeaderMap::new();
        headers.insert("X-GitHub-Event", "push".parse().unwrap());
        let repository = json!({"html_url": "https://g.example/a/b", "default_branch": "main"});
        let body = json!({"ref": "refs/heads/main", "repository": repository}).to_string();
        let mut codes = Vec::new();
        for _ in 0..3 {
            codes.push(webhook.receive(&headers, body.as_bytes()).await.0.as_u16());
        }
        assert_eq!(codes, [200, 200, 503]);
    }
}
