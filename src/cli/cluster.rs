//! Read-only access to the cluster of the current kube context.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::ListParams;
use kube::config::KubeConfigOptions;
use kube::{Api, Client, Config};
use serde_json::Value;

use super::error::Error;
use crate::api::annotations::SECRET_TYPE_LABEL;
use crate::watch::connection::{self, Unusable};
use crate::watch::failure::{chain, has_code, reason};
use crate::watch::object::{Object, api, resource};

/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Page size of list requests.
const PAGE: u32 = 500;

/// Kube context and namespace.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ClusterArgs {
    /// Namespace; the one of the kube context by default
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Kube context to use instead of the current one
    #[arg(long, value_name = "CONTEXT")]
    pub context: Option<String>,
}

/// A client for a context of the kubeconfig; without a context, for the current one, or
/// for the cluster that this process runs in.
///
/// # Errors
///
/// When there is no usable kubeconfig; the message says how to provide one.
pub async fn client(context: Option<&str>) -> anyhow::Result<Client> {
    Ok(connect(context).await?)
}

async fn connect(context: Option<&str>) -> Result<Client, Error> {
    let place = context.map_or_else(
        || "the current kube context".to_owned(),
        |context| format!("kube context {context}"),
    );
    let failed = |error: &(dyn std::error::Error + 'static)| {
        let why = format!("{}; set KUBECONFIG or write ~/.kube/config", chain(error));
        Error::input("cannot reach the cluster", place.clone(), why)
    };
    let config = match context {
        Some(context) => {
            let options = KubeConfigOptions {
                context: Some(context.to_owned()),
                ..KubeConfigOptions::default()
            };
            Config::from_kubeconfig(&options).await.map_err(|error| failed(&error))
        }
        None => Config::infer().await.map_err(|error| failed(&error)),
    };
    connection::client(config?).map_err(|error| {
        let part = match error {
            Unusable::Server => "its server ",
            Unusable::Token => "the token of its user ",
            Unusable::Credentials(_) => "",
        };
        Error::input("cannot reach the cluster", place.clone(), format!("{part}{error}"))
    })
}

/// A connection to a cluster, with a default namespace.
pub(super) struct ClusterConnection {
    client: Client,
    /// The requested namespace, or that of the context.
    pub namespace: String,
}

impl ClusterConnection {
    /// Connects.
    pub async fn connect(args: &ClusterArgs) -> Result<Self, Error> {
        let client = connect(args.context.as_deref()).await?;
        let namespace =
            args.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
        Ok(Self { client, namespace })
    }

    /// The client, for watches.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// One ApplicationSet; `None` when it does not exist.
    pub async fn application_set(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Arc<Value>>, Error> {
        let api: Api<Object> =
            Api::namespaced_with(self.client.clone(), namespace, &resource("ApplicationSet"));
        let place = format!("ApplicationSet {namespace}/{name}");
        let set = within(place, api.get_opt(name)).await?;
        Ok(set.map(|set| Arc::new(set.parse())))
    }

    /// Like [`ClusterConnection::application_set`], for a set that must exist.
    pub async fn expect_application_set(&self, name: &str) -> Result<Arc<Value>, Error> {
        let found = self.application_set(&self.namespace, name).await?;
        found.ok_or_else(|| {
            let place = format!("ApplicationSet {}/{name}", self.namespace);
            let why = "it does not exist; select another namespace with -n, or list all with wavegate status -A";
            Error::input("cannot find", place, why)
        })
    }

    /// One Application, which must exist.
    pub async fn expect_application(&self, name: &str) -> Result<Arc<Value>, Error> {
        let namespace = &self.namespace;
        let api: Api<Object> =
            Api::namespaced_with(self.client.clone(), namespace, &resource("Application"));
        let place = format!("Application {namespace}/{name}");
        let found = within(place.clone(), api.get_opt(name)).await?;
        found.map(|found| Arc::new(found.parse())).ok_or_else(|| {
            Error::input(
                "cannot find",
                place,
                "it does not exist; select another namespace with -n",
            )
        })
    }

    /// All ApplicationSets of a namespace, or of all.
    pub async fn application_sets(
        &self,
        namespace: Option<&str>,
    ) -> Result<Vec<Arc<Value>>, Error> {
        self.list("ApplicationSet", namespace).await
    }

    /// All Applications of a namespace, or of all namespaces, in the order of the API server.
    pub async fn applications(&self, namespace: Option<&str>) -> Result<Vec<Arc<Value>>, Error> {
        self.list("Application", namespace).await
    }

    /// All Applications of a namespace by name.
    pub async fn applications_by_name(
        &self,
        namespace: &str,
    ) -> Result<BTreeMap<String, Arc<Value>>, Error> {
        let applications = self.applications(Some(namespace)).await?;
        let by_name = |application: Arc<Value>| {
            (crate::desired::name_of(&application).to_owned(), application)
        };
        Ok(applications.into_iter().map(by_name).collect())
    }

    /// The AppProjects of a control plane.
    pub async fn projects(&self, namespace: &str) -> Result<Vec<Arc<Value>>, Error> {
        self.list("AppProject", Some(namespace)).await
    }

    /// The Secrets of clusters and repositories of a control plane.
    pub async fn secrets(&self, namespace: &str) -> Result<Vec<Secret>, Error> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let params = ListParams::default().labels(SECRET_TYPE_LABEL);
        let place = format!("Secrets of clusters and repositories in namespace {namespace}");
        Ok(within(place, api.list(&params)).await?.items)
    }

    /// The keys of a ConfigMap; empty when it does not exist.
    pub async fn config_map(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<BTreeMap<String, String>, Error> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let found = within(format!("ConfigMap {namespace}/{name}"), api.get_opt(name)).await?;
        Ok(found.and_then(|map| map.data).unwrap_or_default())
    }

    async fn list(&self, kind: &str, namespace: Option<&str>) -> Result<Vec<Arc<Value>>, Error> {
        let api = api(&self.client, namespace, &resource(kind));
        let place = match namespace {
            Some(namespace) => format!("{kind}s of namespace {namespace}"),
            None => format!("{kind}s of all namespaces"),
        };
        let mut objects = Vec::new();
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = within(place.clone(), api.list(&params)).await?;
            objects.extend(page.items.iter().map(|object| Arc::new(object.parse())));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(objects),
            }
        }
    }
}

/// Awaits a response, with a timeout.
async fn within<T>(
    place: String,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Error> {
    let what = "cannot read from the cluster";
    match tokio::time::timeout(TIMEOUT, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) if has_code(&error, 404) => {
            let why = "the CustomResourceDefinition is not installed; apply the output of wavegate crds first";
            Err(Error::input(what, place, why))
        }
        Ok(Err(error)) => Err(Error::input(what, place, reason(&error))),
        Err(_) => {
            let why = format!("no response within {} s; check the kube context", TIMEOUT.as_secs());
            Err(Error::input(what, place, why))
        }
    }
}

/// Runs a future that accesses a cluster to completion.
pub(super) fn block_on<T>(future: impl Future<Output = Result<T, Error>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(future)?)
}
