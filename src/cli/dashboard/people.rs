//! The persons of a page in a cluster, each with a client of their own: what one may not read, the API
//! server does not give in their name (PG-003, PG-022).

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::config::AuthInfo;
use kube::{Client, Config};
use tokio_util::sync::CancellationToken;

use super::live::{LiveCluster, LiveScope};
use crate::cli::cluster::ClusterConnection;
use wavegate_cluster::act::commands::reviews::{
    ReviewedAccess, ReviewedUser, review_access, review_user,
};
use wavegate_cluster::watch::connection;
use wavegate_cluster::watch::failure::{error_reason, has_code};
use wavegate_dashboard::people::{
    PagePeople, PersonCredentials, PersonSession, SessionCheck, SignInError, SignedInPerson,
};

/// The API group of ApplicationSets and Applications, and that of runs and policies.
const GROUPS: [&str; 2] = ["argoproj.io", "wavegate.dev"];

/// Signs persons in to the cluster of this process.
pub(super) struct ClusterPeople {
    /// With the credentials of this process, which only impersonate.
    config: Config,
    namespaces: Vec<String>,
    /// Those who may list all namespaces see all.
    all: bool,
}

/// What is open for a person.
struct OpenSession {
    client: Client,
    scopes: Vec<LiveScope>,
    namespaces: Vec<String>,
    all: bool,
    stop: CancellationToken,
}

impl ClusterPeople {
    /// For persons who see these namespaces, and with `all` every one that they may list.
    pub fn new(config: Config, namespaces: Vec<String>, all: bool) -> Self {
        Self { config, namespaces, all }
    }

    /// A client whose requests are those of a person, and have no credentials but the person's own; of
    /// one whom a proxy names, those of this process with the name.
    fn client_of(&self, person: &PersonCredentials) -> Result<Client, SignInError> {
        let mut config = self.config.clone();
        match person {
            PersonCredentials::Token(token) => {
                let token = Some(token.clone().into());
                config.auth_info = AuthInfo { token, ..AuthInfo::default() };
                config.headers.clear();
            }
            PersonCredentials::Named { user, groups } => {
                config.auth_info.impersonate = Some(user.clone());
                config.auth_info.impersonate_groups = Some(groups.clone());
                config.auth_info.impersonate_uid = None;
                config.auth_info.impersonate_user_extra = None;
            }
        }
        let failed = |why: connection::UnusableConnection| SignInError {
            is_refused: false,
            message: format!("cannot reach the cluster: {why}"),
        };
        connection::connected_client(config).map_err(failed)
    }

    async fn open(&self, person: &PersonCredentials) -> Result<SignedInPerson, SignInError> {
        let client = self.client_of(person)?;
        let failed = |message: String| SignInError { is_refused: false, message };
        let name = match review_user(&client).await {
            ReviewedUser::Named(name) => name,
            ReviewedUser::Unknown => {
                let message = match person {
                    PersonCredentials::Token(_) => {
                        "the API server does not accept the token: sign in again. If that does not \
                         help, the API server does not trust the issuer of the proxy's tokens, or not \
                         for its audience"
                    }
                    PersonCredentials::Named { .. } => {
                        "the API server does not accept the credentials of the page"
                    }
                };
                return Err(SignInError { is_refused: true, message: message.to_owned() });
            }
            ReviewedUser::Unnamed(why) => {
                return Err(failed(format!("the API server does not say who you are: {why}")));
            }
        };
        let read = scopes(&client, &self.namespaces, self.all).await;
        let scopes = read.map_err(|error| {
            let why = error_reason(&error);
            failed(format!("the API server does not say what {name} may read: {why}"))
        })?;
        let places: Vec<&str> = scopes.iter().map(LiveScope::words).collect();
        let place = format!("{name} · {}", places.join(", "));
        let first = scopes.first().and_then(|scope| scope.namespace.clone());
        let namespace = first.unwrap_or_else(|| self.namespaces.concat());
        let server = self.config.cluster_url.to_string();
        let connection = ClusterConnection::of_client(client.clone(), &server, &namespace);
        let stop = CancellationToken::new();
        let reports = match scopes.is_empty() {
            false => LiveCluster::follow_scopes(connection, scopes.clone(), place, None, &stop),
            true => {
                let why = format!(
                    "{name} may list ApplicationSets in none of the namespaces of this page ({}): the \
                     role wavegate-viewer permits it",
                    self.namespaces.join(", ")
                );
                LiveCluster::of_nothing(connection, name.clone(), why)
            }
        };
        let session = OpenSession {
            client,
            scopes,
            namespaces: self.namespaces.clone(),
            all: self.all,
            stop,
        };
        Ok(SignedInPerson { name, reports, session: Arc::new(session) })
    }
}

impl PagePeople for ClusterPeople {
    fn sign_in<'a>(
        &'a self,
        person: &'a PersonCredentials,
    ) -> BoxFuture<'a, Result<SignedInPerson, SignInError>> {
        self.open(person).boxed()
    }
}

impl PersonSession for OpenSession {
    fn check(&self) -> BoxFuture<'_, SessionCheck> {
        async {
            match scopes(&self.client, &self.namespaces, self.all).await {
                Ok(scopes) if scopes == self.scopes => SessionCheck::Same,
                Ok(_) => SessionCheck::Changed,
                // Who may not even ask is no user of the cluster any more.
                Err(error) if has_code(&error, 401) || has_code(&error, 403) => {
                    SessionCheck::Refused
                }
                Err(_) => SessionCheck::Unknown,
            }
        }
        .boxed()
    }

    fn end(&self) {
        self.stop.cancel();
    }
}

/// What a person may read: all namespaces, or some of these.
async fn scopes(
    client: &Client,
    namespaces: &[String],
    all: bool,
) -> Result<Vec<LiveScope>, kube::Error> {
    if all && let Some(scope) = scope(client, None).await? {
        return Ok(vec![scope]);
    }
    let mut scopes = Vec::new();
    for namespace in namespaces {
        scopes.extend(scope(client, Some(namespace)).await?);
    }
    Ok(scopes)
}

async fn scope(client: &Client, namespace: Option<&str>) -> Result<Option<LiveScope>, kube::Error> {
    let [argo, own] = GROUPS;
    let may = async |group, resource| {
        let access = ReviewedAccess { verb: "list", group, resource, namespace };
        Ok::<_, kube::Error>(review_access(client, &access).await?.is_ok())
    };
    if !may(argo, "applicationsets").await? {
        return Ok(None);
    }
    let (applications, runs, policies) = tokio::try_join!(
        may(argo, "applications"),
        may(own, "rolloutruns"),
        may(own, "rolloutpolicies"),
    )?;
    let namespace = namespace.map(str::to_owned);
    Ok(Some(LiveScope { namespace, applications, runs, policies }))
}
