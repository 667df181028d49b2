//! Read-only access to the cluster of the current kube context.

pub(in crate::cli) mod controller;
pub(in crate::cli) mod kubeconfig;
pub(in crate::cli) mod live_app;
mod search;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use http::header::LOCATION;
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::Value;

use crate::cli::console::commands;
use crate::cli::console::error::{Error, UNDEFINED};
use wavegate_api::Raw;
use wavegate_api::annotations::SECRET_TYPE_LABEL;
use wavegate_api::path_segment;
use wavegate_cluster::watch::connection::{self, UnusableConnection};
use wavegate_cluster::watch::failure::{error_reason, existing_object, has_code, is_foreign};
use wavegate_cluster::watch::object::{kind_api, kind_resource};
use wavegate_controller::config;
use wavegate_controller::settings::CONTROL_PLANE_NAMESPACE;

/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout of a request whose result only improves a message or a completion.
const SHORT_TIMEOUT: Duration = Duration::from_secs(5);
/// The most bytes that are read of an answer to find out who answers.
const MOST_OF_AN_ANSWER: usize = 64 << 10;
/// Page size of list requests.
const PAGE: u32 = 500;
/// The most names that are searched for similar ones.
const MOST_NAMES: usize = 10_000;
/// The most namespaces in a message.
const NAMES: usize = 10;

/// Kube context and namespace.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct ClusterArgs {
    /// Namespace; by default that of the kube context, and if it does not hold what is
    /// searched, that of the control plane (POD_NAMESPACE, else argocd)
    #[arg(short, long, value_name = "NAMESPACE", value_parser = namespace)]
    pub namespace: Option<String>,
    /// Kube context to use instead of the current one
    #[arg(long, value_name = "CONTEXT")]
    pub context: Option<String>,
}

/// A namespace, which becomes a segment of the path of requests, as a name does.
pub(in crate::cli) fn namespace(text: &str) -> Result<String, String> {
    problem_of_name(text).map_or_else(|| Ok(text.to_owned()), Err)
}

/// Why a text names nothing; `None` when it may.
pub(super) fn problem_of_name(text: &str) -> Option<String> {
    path_segment::segment_problem(text)
        .or_else(|| text.is_empty().then(|| "it is empty".to_owned()))
}

/// A client for a context of the kubeconfig; without a context, for the current one, or
/// for the cluster that this process runs in.
///
/// # Errors
///
/// When there is no usable kubeconfig; the message says how to provide one.
pub async fn client(context: Option<&str>) -> anyhow::Result<Client> {
    Ok(connect(context).await?.0)
}

/// The client, and the address of its server.
async fn connect(context: Option<&str>) -> Result<(Client, String), Error> {
    let config = kubeconfig::config(context).await?;
    let server = config.cluster_url.to_string();
    let client = connection::connected_client(config).map_err(|error| {
        let part = match error {
            UnusableConnection::Server => "its server ",
            UnusableConnection::Token => "the token of its user ",
            UnusableConnection::Credentials(_) => "",
        };
        kubeconfig::unusable(context, format!("{part}{error}"))
    })?;
    Ok((client, server))
}

/// A connection to a cluster, with the namespaces to search.
pub(super) struct ClusterConnection {
    client: Client,
    /// The address of its server.
    server: String,
    /// The requested namespace, or that of the context.
    pub namespace: String,
    /// Where objects are searched: the requested namespace, else that of the context and
    /// that of the control plane.
    places: Vec<String>,
}

/// The namespace of the control plane, as `wavegate run` determines it.
pub(super) fn control_plane_namespace() -> String {
    let environment = |name: &str| std::env::var(name).ok();
    let namespace = config::control_plane_namespace(None, &environment);
    if path_segment::segment_problem(&namespace).is_some() {
        CONTROL_PLANE_NAMESPACE.to_owned()
    } else {
        namespace
    }
}

impl ClusterConnection {
    /// Connects.
    pub async fn connect(args: &ClusterArgs) -> Result<Self, Error> {
        commands::use_context(args.context.as_deref());
        let (client, server) = connect(args.context.as_deref()).await?;
        let own = client.default_namespace().to_owned();
        let places = match &args.namespace {
            Some(namespace) => vec![namespace.clone()],
            None => {
                let mut places = vec![own.clone(), control_plane_namespace()];
                places.dedup();
                places
            }
        };
        let namespace = args.namespace.clone().unwrap_or(own);
        Ok(Self { client, server, namespace, places })
    }

    /// One of this client, in which a namespace is searched.
    pub fn of_client(client: Client, server: &str, namespace: &str) -> Self {
        let (server, namespace) = (server.to_owned(), namespace.to_owned());
        Self { client, server, places: vec![namespace.clone()], namespace }
    }

    /// The same connection, in which only this namespace is searched.
    pub fn in_namespace(&self, namespace: &str) -> Self {
        Self::of_client(self.client.clone(), &self.server, namespace)
    }

    /// The namespaces that are searched, the most important first.
    pub fn places(&self) -> &[String] {
        &self.places
    }

    /// The client, for watches.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// One object of a kind; `None` when it does not exist.
    pub async fn get(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Arc<Value>>, Error> {
        let api = kind_api(&self.client, Some(namespace), &kind_resource(kind));
        let place = format!("{kind} {namespace}/{name}");
        let found = self.within(place, optional(api.get(name))).await?;
        Ok(found.map(|found| Arc::new(found.parse())))
    }

    /// What the first searched namespace has that has any, with its name. Where the user may not
    /// read is an error when no other has any.
    async fn first_of_places<T>(
        &self,
        read: impl AsyncFn(&str) -> Result<Option<T>, Error>,
    ) -> Result<Option<(String, T)>, Error> {
        let mut forbidden = Ok(None);
        for namespace in &self.places {
            match read(namespace).await {
                Ok(Some(found)) => return Ok(Some((namespace.clone(), found))),
                Ok(None) => {}
                Err(error) if error.is_forbidden => forbidden = forbidden.and(Err(error)),
                Err(error) => return Err(error),
            }
        }
        forbidden
    }

    /// The Applications with these labels in the first searched namespace that has any, with
    /// the name of that namespace: at most `most`, and whether there are more.
    pub async fn selected_applications(
        &self,
        selector: &str,
        most: u32,
    ) -> Result<(String, Vec<Arc<Value>>, bool), Error> {
        let params = ListParams::default().labels(selector).limit(most);
        let read = async |namespace: &str| {
            let api = kind_api(&self.client, Some(namespace), &kind_resource("Application"));
            let place = format!("Applications of namespace {namespace} with labels {selector}");
            let page = self.within(place, api.list(&params)).await?;
            let more = page.metadata.continue_.is_some_and(|token| !token.is_empty());
            let found: Vec<_> = page.items.iter().map(|object| Arc::new(object.parse())).collect();
            Ok(Some((found, more)).filter(|(found, _)| !found.is_empty()))
        };
        Ok(match self.first_of_places(read).await? {
            Some((namespace, (found, more))) => (namespace, found, more),
            None => (self.places.join(" and "), Vec::new(), false),
        })
    }

    /// Namespace and name of the objects of a kind; `None` when they cannot be listed in a
    /// short time. At most [`MOST_NAMES`].
    pub async fn names(
        &self,
        kind: &str,
        namespace: Option<&str>,
    ) -> Option<BTreeSet<(String, String)>> {
        let api = kind_api(&self.client, namespace, &kind_resource(kind));
        let mut names = BTreeSet::new();
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = api.list_metadata(&params);
            let page = tokio::time::timeout(SHORT_TIMEOUT, page).await.ok()?.ok()?;
            names.extend(page.items.into_iter().map(|object| {
                let metadata = object.metadata;
                (metadata.namespace.unwrap_or_default(), metadata.name.unwrap_or_default())
            }));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) if names.len() < MOST_NAMES => params = params.continue_token(&token),
                _ => return Some(names),
            }
        }
    }

    /// The names of namespaces; `None` when they cannot be listed in a short time.
    pub async fn namespaces(&self) -> Option<BTreeSet<String>> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let params = ListParams::default().limit(PAGE);
        let page = api.list_metadata(&params);
        let page = tokio::time::timeout(SHORT_TIMEOUT, page).await.ok()?.ok()?;
        Some(page.items.into_iter().filter_map(|object| object.metadata.name).collect())
    }

    /// The ApplicationSets of the first searched namespace that has any, with the name of
    /// that namespace.
    pub async fn application_sets_here(&self) -> Result<(String, Vec<Arc<Value>>), Error> {
        self.here("ApplicationSet", None).await
    }

    /// The objects of a kind with these labels in the first searched namespace that has any,
    /// with the name of that namespace.
    pub async fn here(
        &self,
        kind: &str,
        labels: Option<&str>,
    ) -> Result<(String, Vec<Arc<Value>>), Error> {
        let read = async |namespace: &str| {
            let found = self.list(kind, Some(namespace), labels).await?;
            Ok(Some(found).filter(|found| !found.is_empty()))
        };
        let found = self.first_of_places(read).await?;
        Ok(found.unwrap_or_else(|| (self.namespace.clone(), Vec::new())))
    }

    /// All Applications of a namespace by name.
    pub async fn applications_by_name(
        &self,
        namespace: &str,
    ) -> Result<BTreeMap<String, Arc<Value>>, Error> {
        let applications = self.list("Application", Some(namespace), None).await?;
        let by_name = |application: Arc<Value>| (application.name().to_owned(), application);
        Ok(applications.into_iter().map(by_name).collect())
    }

    /// The Secrets of clusters and repositories of a control plane.
    pub async fn secrets(&self, namespace: &str) -> Result<Vec<Secret>, Error> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let params = ListParams::default().labels(SECRET_TYPE_LABEL);
        let place = format!("Secrets of clusters and repositories in namespace {namespace}");
        Ok(self.within(place, api.list(&params)).await?.items)
    }

    /// The keys of a ConfigMap; `None` when it does not exist.
    pub async fn config_map(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<BTreeMap<String, String>>, Error> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let place = format!("ConfigMap {namespace}/{name}");
        let found = self.within(place, optional(api.get(name))).await?;
        Ok(found.map(|map| map.data.unwrap_or_default()))
    }

    /// The objects of a kind with these labels, in a namespace or in all, in the order of the API
    /// server.
    pub async fn list(
        &self,
        kind: &str,
        namespace: Option<&str>,
        labels: Option<&str>,
    ) -> Result<Vec<Arc<Value>>, Error> {
        let api = kind_api(&self.client, namespace, &kind_resource(kind));
        let place = match namespace {
            Some(namespace) => format!("{} of namespace {namespace}", plural(kind)),
            None => format!("{} of all namespaces", plural(kind)),
        };
        let mut objects = Vec::new();
        let mut params = ListParams::default().limit(PAGE);
        if let Some(labels) = labels {
            params = params.labels(labels);
        }
        loop {
            let page = self.within(place.clone(), api.list(&params)).await?;
            objects.extend(page.items.iter().map(|object| Arc::new(object.parse())));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(objects),
            }
        }
    }
}

/// A kind in the plural, in messages.
fn plural(kind: &str) -> String {
    match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{kind}s"),
    }
}

/// An object that may not exist. A kind that is not served is an error.
async fn optional<T>(
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<Option<T>, kube::Error> {
    existing_object(request.await)
}

const UNREAD: &str = "cannot read from the cluster";

impl ClusterConnection {
    /// Awaits a response, with a timeout.
    pub async fn within<T>(
        &self,
        place: String,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, Error> {
        let error = match tokio::time::timeout(TIMEOUT, request).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => error,
            Err(_) => {
                let why =
                    format!("no response within {} s; check the kube context", TIMEOUT.as_secs());
                return Err(Error::input(UNREAD, place, why));
            }
        };
        if (is_foreign(&error) || has_code(&error, 404))
            && let Some(why) = self.is_no_api_server().await
        {
            return Err(Error::input(UNREAD, place, why));
        }
        if has_code(&error, 404) {
            return Err(Error::input(UNREAD, place, UNDEFINED));
        }
        let mut unread = Error::input(UNREAD, place, error_reason(&error));
        unread.is_forbidden = has_code(&error, 403);
        Err(unread)
    }

    /// That the server is no API server, by its answer to the question for its version; `None`
    /// when it is one, or does not answer.
    async fn is_no_api_server(&self) -> Option<String> {
        let request = http::Request::get("/version").body(kube::client::Body::empty()).ok()?;
        let asked = async {
            let answer = self.client.send(request).await.ok()?;
            let (head, body) = answer.into_parts();
            let body = http_body_util::Limited::new(body, MOST_OF_AN_ANSWER);
            let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
            Some((head, serde_json::from_slice::<Value>(&body).unwrap_or_default()))
        };
        let (head, answer) = tokio::time::timeout(SHORT_TIMEOUT, asked).await.ok()??;
        let code = head.status.as_u16();
        // It may refuse to say its version, but has one.
        if answer["gitVersion"].is_string() || answer["kind"] == "Status" && code != 404 {
            return None;
        }
        let how = match head.headers.get(LOCATION).and_then(|to| to.to_str().ok()) {
            Some(to) => format!("redirects to {to} (HTTP status {code})"),
            None if head.status.is_success() => {
                format!("answers with something else (HTTP status {code})")
            }
            None => format!("answers the question for its version with HTTP status {code}"),
        };
        let credentials = if code == 401 { " and the credentials" } else { "" };
        Some(format!(
            "{} does not answer as an API server does: it {how}; check the server{credentials} of \
             the kube context",
            self.server
        ))
    }
}

/// Runs a future that accesses a cluster to completion.
pub(super) fn block_on<T>(future: impl Future<Output = Result<T, Error>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(future)?)
}
