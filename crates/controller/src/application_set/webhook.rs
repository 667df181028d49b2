//! Webhooks of Git servers: ApplicationSets and Applications that use a pushed revision are
//! asked to read their repositories again (AS-421, SE-422).
//!
//! A replica that waits for the lease does this, too: the request is an annotation, which
//! the active one finds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
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

use crate::context::Core;
use crate::settings::{ApplicationSetSettings, ApplicationSettings};
use wavegate_api::annotations::{self, APPLICATION_SET_REFRESH, REFRESH, Refresh};
use wavegate_cluster::act::commands::refresh;
use wavegate_cluster::watch::failure::error_reason;
use wavegate_cluster::watch::object::{StoredObject, kind_api, kind_resource};
use wavegate_rollout::webhook::{self, Provider, Push, RefusedWebhook, SECRET, Secrets};

mod asked;
mod index;

use index::Index;

use asked::{Asked, Name, Need, PACE};

/// The most events that wait to be processed.
const QUEUE: usize = 50_000;
/// How long the secrets are used before they are read again.
const SECRETS_FOR: Duration = Duration::from_secs(10);
/// How long a server whose webhooks are refused is not named in the log again.
const REFUSED_FOR: Duration = Duration::from_secs(600);
const SET: &str = "ApplicationSet";
const APPLICATION: &str = "Application";
/// Objects in one page of a listing.
const PAGE: u32 = 500;

/// The secrets, or why they cannot be read.
type ReadSecrets = Result<Arc<Secrets>, String>;

/// An accepted event.
#[derive(Debug)]
struct Received {
    push: Push,
    at: Instant,
}

/// The receiver of webhooks.
pub struct Webhook {
    core: Core,
    settings: ApplicationSetSettings,
    /// `None` when another program handles the Applications.
    applications: Option<ApplicationSettings>,
    send: mpsc::Sender<Received>,
    receive: Mutex<Option<mpsc::Receiver<Received>>>,
    asked: Asked,
    deployed: Index,
    secrets: tokio::sync::Mutex<Option<(Instant, ReadSecrets)>>,
    /// The servers whose webhooks are not verified, as logged.
    unverified: Mutex<BTreeSet<Provider>>,
    /// When those whose webhooks are not verified successfully were logged.
    refused: Mutex<BTreeMap<Provider, Instant>>,
    /// Events of a replica that waits for the lease. All of them share the next listing.
    unlisted: Mutex<Vec<Received>>,
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
    spec: SeenSpec,
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
        Self::with_queue(core, settings, applications, (QUEUE, PACE))
    }

    fn with_queue(
        core: Core,
        settings: ApplicationSetSettings,
        applications: Option<ApplicationSettings>,
        (queue, pace): (usize, Duration),
    ) -> Self {
        let (send, receive) = mpsc::channel(queue);
        Self {
            core,
            settings,
            applications,
            send,
            receive: Mutex::new(Some(receive)),
            asked: Asked::new(pace),
            deployed: Index::default(),
            secrets: tokio::sync::Mutex::default(),
            unverified: Mutex::default(),
            refused: Mutex::default(),
            unlisted: Mutex::default(),
            listing: tokio::sync::Mutex::default(),
        }
    }

    /// Checks a request and adds its event to the queue; returns the response.
    pub fn receive<'a>(
        &'a self,
        headers: &'a HeaderMap,
        body: &'a [u8],
    ) -> BoxFuture<'a, (StatusCode, String)> {
        Box::pin(async move {
            let header = |name: &str| Some(headers.get(name)?.to_str().ok()?.to_owned());
            let Some(provider) = Provider::of(&header) else {
                return refuse(&RefusedWebhook::Unknown);
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
                self.warn_of_refused(provider, &refused);
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
            match webhook::read_payload(provider, &header, body) {
                Err(refused) => refuse(&refused),
                Ok(None) => (StatusCode::OK, String::new()),
                Ok(Some(push)) => match self.send.try_send(Received { push, at: Instant::now() }) {
                    Ok(()) => (StatusCode::OK, String::new()),
                    Err(_) => {
                        let text = "queue is full, discarding the webhook".to_owned();
                        (StatusCode::SERVICE_UNAVAILABLE, text)
                    }
                },
            }
        })
    }

    /// A wrong secret refuses all webhooks of a server. Anyone may send such requests, so they are
    /// logged once per server in a while.
    fn warn_of_refused(&self, provider: Provider, refused: &RefusedWebhook) {
        let is_logged = |at: &Instant| at.elapsed() < REFUSED_FOR;
        let mut logged = self.refused.lock();
        if !logged.get(&provider).is_some_and(is_logged) {
            logged.insert(provider, Instant::now());
            tracing::warn!(
                error = %refused,
                "webhook refused; compare the secret of the Git server with that in Secret \
                 {SECRET}. Others of this server are not logged for 10 minutes"
            );
        }
    }

    /// Processes events until `shutdown`. Only the first call has an effect.
    pub async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let Some(mut receive) = self.receive.lock().take() else { return };
        let events = futures::stream::poll_fn(move |context| receive.poll_recv(context));
        let parallel = self.settings.webhook_parallelism;
        let work = events.for_each_concurrent(parallel, |received| {
            let webhook = Arc::clone(&self);
            async move { webhook.process(received).await }
        });
        let follow = async {
            if self.applications.is_some() {
                self.deployed.follow(&self.core.control_plane.applications).await;
            }
        };
        let both = async { tokio::join!(work, follow) };
        shutdown.run_until_cancelled(both).await;
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
                let data = secret.map(|secret| {
                    let data = secret.data.unwrap_or_default().into_iter();
                    data.map(|(key, value)| (key, value.0)).collect()
                });
                let data = self.core.control_plane.trust.webhook_secrets(data);
                Ok(Arc::new(Secrets::read(&data)))
            }
            Err(error) => Err(error_reason(&error)),
        };
        *known = Some((Instant::now(), read.clone()));
        read
    }

    async fn process(self: &Arc<Self>, event: Received) {
        if self.core.control_plane.sets.is_listed() {
            return self.process_all(vec![event]).await;
        }
        // All objects are listed, which takes time: what arrives meanwhile waits, and shares the
        // next listing.
        self.unlisted.lock().push(event);
        let _one_at_a_time = self.listing.lock().await;
        let events = std::mem::take(&mut *self.unlisted.lock());
        self.process_all(events).await;
    }

    async fn process_all(self: &Arc<Self>, events: Vec<Received>) {
        let Some(last) = events.iter().map(|event| event.at).max() else { return };
        let pushes: Arc<Vec<Push>> = Arc::new(events.into_iter().map(|event| event.push).collect());
        self.asked.forget_before(last);
        self.process_sets(Arc::clone(&pushes), last).await;
        self.process_applications(pushes, last).await;
    }

    /// Also sets that are asked already: what answers that may have read the repository before the
    /// push (AS-420). `last` is when the last of the events was received.
    async fn process_sets(self: &Arc<Self>, pushes: Arc<Vec<Push>>, last: Instant) {
        let cache = Arc::clone(&self.core.control_plane.sets);
        let is_own_only = self.settings.namespaces.is_empty();
        let settings = self.settings.clone();
        let meant = move |object: &StoredObject| {
            let seen: Seen = object.read().unwrap_or_default();
            let is_meant = settings.covers(object.namespace())
                && pushes.iter().any(|push| webhook::uses_push(&seen.spec.generators, push));
            is_meant.then(|| object.key())
        };
        let is_listed = cache.is_listed();
        let listed = is_listed.then_some(move || cache.all());
        let found = match self.matching(listed, SET, is_own_only, meant).await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(error, "webhook discarded: ApplicationSets cannot be listed");
                return;
            }
        };
        for key in found {
            let span = tracing::info_span!("webhook", applicationset = %key);
            self.ask_once((SET, key), false, last).instrument(span).await;
        }
    }

    /// The same for Applications (SE-379).
    async fn process_applications(self: &Arc<Self>, pushes: Arc<Vec<Push>>, last: Instant) {
        let Some(settings) = self.applications.clone() else { return };
        let (webhook, concerned) = (Arc::clone(self), Arc::clone(&pushes));
        let is_own_only = settings.namespaces.is_empty();
        let is_listed = self.core.control_plane.applications.is_listed();
        let listed = is_listed.then_some(move || {
            let cache = &webhook.core.control_plane.applications;
            webhook.deployed.users(cache, &concerned).unwrap_or_else(|| cache.all())
        });
        let meant = move |object: &StoredObject| {
            if !settings.covers(object.namespace()) {
                return None;
            }
            let application: Value = object.read().unwrap_or_default();
            let deploys = pushes.iter().any(|push| webhook::deploys_push(&application, push));
            deploys.then(|| (object.key(), is_hard(&application)))
        };
        let found = match self.matching(listed, APPLICATION, is_own_only, meant).await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(error, "webhook discarded: Applications cannot be listed");
                return;
            }
        };
        for (key, is_hard) in found {
            let span = tracing::info_span!("webhook", application = %key);
            self.ask_once((APPLICATION, key), is_hard, last).instrument(span).await;
        }
    }

    /// Asks an object, unless a request covers the events until `last`. Where the former request
    /// is too recent, the next one covers all events until it begins.
    async fn ask_once(self: &Arc<Self>, name: Name, is_hard: bool, last: Instant) {
        match self.asked.need(&name, last) {
            Need::Nothing => {}
            Need::Now => self.ask(&name, is_hard).await,
            Need::After(left) => {
                let webhook = Arc::clone(self);
                let later = async move {
                    tokio::time::sleep(left).await;
                    webhook.asked.begin(&name);
                    // A person may have asked for more meanwhile.
                    let is_hard = is_hard || webhook.is_asked_hard(&name);
                    webhook.ask(&name, is_hard).await;
                };
                tokio::spawn(later.in_current_span());
            }
        }
    }

    /// Whether an Application is asked to render its manifests again, as far as the cache knows.
    fn is_asked_hard(&self, (kind, key): &Name) -> bool {
        let found = self.core.control_plane.applications.get(key);
        let found = found.filter(|_| *kind == APPLICATION);
        found.is_some_and(|application| is_hard(&application.read().unwrap_or_default()))
    }

    /// Requests that an object reads its repositories again. Of an Application, `is_hard` renders
    /// its manifests again, too.
    async fn ask(&self, name: &Name, is_hard: bool) {
        let (kind, key) = name;
        let is_set = *kind == SET;
        if self.settings.dry_run {
            let annotation = if is_set { APPLICATION_SET_REFRESH } else { REFRESH };
            tracing::info!("dry run: would add the annotation {annotation}");
            return;
        }
        let (client, now) = (&self.core.client, self.core.clock.now());
        let written = match is_set {
            true => refresh::application_set(client, key, now).await,
            false => refresh::refresh_application(client, key, is_hard, now).await,
        };
        match written {
            Ok(_) => tracing::info!("refresh requested by a webhook"),
            Err(error) => {
                self.asked.failed(name);
                tracing::warn!(error = error_reason(&error), "refresh cannot be requested");
            }
        }
    }

    /// The objects of a kind that are meant, of those that the cache has `listed` or, while this
    /// replica waits for the lease, of those of the API server, of which one page is kept.
    async fn matching<T: Send + 'static>(
        &self,
        listed: Option<impl FnOnce() -> Vec<StoredObject> + Send + 'static>,
        kind: &str,
        is_own_only: bool,
        meant: impl Fn(&StoredObject) -> Option<T> + Send + Sync + 'static,
    ) -> Result<Vec<T>, String> {
        let meant = Arc::new(meant);
        let among = |objects: Vec<StoredObject>, meant: &dyn Fn(&StoredObject) -> Option<T>| {
            objects.iter().filter_map(meant).collect::<Vec<_>>()
        };
        // Generators and sources of users may be large.
        if let Some(listed) = listed {
            let found = tokio::task::spawn_blocking(move || among(listed(), &*meant));
            return Ok(found.await.unwrap_or_default());
        }
        let own = &self.settings.control_plane_namespace;
        let namespace = is_own_only.then_some(own.as_str());
        let api = kind_api(&self.core.client, namespace, &kind_resource(kind));
        let (mut found, mut params) = (Vec::new(), ListParams::default().limit(PAGE));
        loop {
            let page = api.list(&params).await.map_err(|error| error_reason(&error))?;
            let meant = Arc::clone(&meant);
            let of_page = tokio::task::spawn_blocking(move || among(page.items, &*meant));
            found.extend(of_page.await.unwrap_or_default());
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(found),
            }
        }
    }
}

/// Whether an Application is asked to render its manifests again: a weaker request must not take
/// the place of that.
fn is_hard(application: &Value) -> bool {
    annotations::requested_refresh(application) == Some(Refresh::Hard)
}

fn refuse(refused: &RefusedWebhook) -> (StatusCode, String) {
    // Anyone may send these, so they are no warnings.
    tracing::debug!(error = %refused, "webhook refused");
    (StatusCode::BAD_REQUEST, refused.to_string())
}

#[cfg(test)]
mod tests {
    use kube::api::PostParams;
    use serde_json::json;

    use super::*;
    use kube_sim::Server;
    use wavegate_cluster::act::commands::manifests;
    use wavegate_cluster::watch::control_plane::WatchedScope;
    use wavegate_net::clock::Clock;

    fn scope() -> WatchedScope {
        WatchedScope {
            namespace: "argocd".to_owned(),
            sets_everywhere: false,
            applications_everywhere: false,
            syncs: false,
        }
    }

    fn push() -> (HeaderMap, String) {
        let mut headers = HeaderMap::new();
        headers.insert("X-GitHub-Event", "push".parse().unwrap());
        let repository = json!({"html_url": "https://g.example/a/b", "default_branch": "main"});
        (headers, json!({"ref": "refs/heads/main", "repository": repository}).to_string())
    }

    /// SE-379, AS-420: a push during the comparison or the reconcile for another one asks again;
    /// pushes that were received before a request was written need none of their own.
    #[tokio::test]
    async fn a_push_changes_a_request_that_may_be_answered_already() {
        let server = Server::new();
        manifests::define_all(&server.client(), "test").await.unwrap();
        let kind = kind_resource("Application");
        let applications: Api<StoredObject> =
            kind_api(&server.client_as("test"), Some("argocd"), &kind);
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "argocd"},
        });
        let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(server.client());
        let namespace = serde_json::from_value(namespace).unwrap();
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        for (name, kind) in [("web", "normal"), ("api", "hard")] {
            let application = json!({
                "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
                "metadata": {"name": name, "annotations": {REFRESH: kind}},
                "spec": {"project": "default", "destination": {"server": "https://1"},
                    "source": {"repoURL": "https://g.example/a/b", "path": "."}},
            });
            applications.create(&PostParams::default(), &application.into()).await.unwrap();
        }
        let sets: Api<StoredObject> =
            kind_api(&server.client_as("test"), Some("argocd"), &kind_resource(SET));
        let set = json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": SET,
            "metadata": {"name": "fleet", "annotations": {APPLICATION_SET_REFRESH: "true"}},
            "spec": {
                "generators": [{"git": {"repoURL": "https://g.example/a/b", "revision": "main",
                    "directories": [{"path": "*"}]}}],
                "template": {"metadata": {"name": "{{path}}"}, "spec": {"project": "default",
                    "destination": {"server": "https://1"}, "source": {"repoURL": "https://r"}}},
            },
        });
        sets.create(&PostParams::default(), &set.into()).await.unwrap();
        let set_requested = async || {
            let set = sets.get("fleet").await.unwrap().parse();
            annotations::annotation_of(&set, APPLICATION_SET_REFRESH).unwrap().to_owned()
        };
        let core = Core::new(server.client_as("webhook"), scope(), Clock::system());
        let settings = (ApplicationSetSettings::default(), ApplicationSettings::default());
        let queue = (3, Duration::ZERO);
        let webhook = Arc::new(Webhook::with_queue(core, settings.0, Some(settings.1), queue));
        let (headers, body) = push();
        let mut queue = webhook.receive.lock().take().unwrap();
        let mut receive = async || {
            webhook.receive(&headers, body.as_bytes()).await;
            queue.try_recv().unwrap()
        };
        let writes = || {
            let all = server.requests().into_iter();
            let count = all.filter(|one| one.client == "webhook" && one.verb == "patch").count();
            server.forget_requests();
            count
        };
        let requested = async |name: &str| {
            let application = applications.get(name).await.unwrap().parse();
            let text = |key| annotations::annotation_of(&application, key).unwrap().to_owned();
            (text(REFRESH), text(annotations::REFRESH_TIMESTAMP))
        };
        let (first, second) = (receive().await, receive().await);
        webhook.process(first).await;
        let web = requested("web").await;
        assert_eq!((web.0.as_str(), writes()), ("normal", 3));
        let fleet = set_requested().await;
        assert_ne!(fleet, "true");
        assert_eq!(requested("api").await.0, "hard", "it stays the stronger one");
        webhook.process(second).await;
        assert_eq!(writes(), 0, "it was received before the request");
        assert_eq!((requested("web").await, set_requested().await), (web.clone(), fleet.clone()));
        webhook.process(receive().await).await;
        assert_eq!(writes(), 3);
        assert_ne!(requested("web").await.1, web.1);
        assert_ne!(set_requested().await, fleet);
    }

    #[tokio::test]
    async fn a_full_queue_is_unavailable_as_421() {
        let core = Core::new(Server::new().client_as("webhook"), scope(), Clock::system());
        let settings = ApplicationSetSettings::default();
        let webhook = Webhook::with_queue(core, settings, None, (2, PACE));
        let (headers, body) = push();
        let mut codes = Vec::new();
        for _ in 0..3 {
            codes.push(webhook.receive(&headers, body.as_bytes()).await.0.as_u16());
        }
        assert_eq!(codes, [200, 200, 503]);
    }
}
