//! `wavegate dashboard --in-cluster`: the page for a team, through a proxy that signs people in
//! (PG-003).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::people::ClusterPeople;
use crate::cli::cluster::kubeconfig;
use crate::cli::cluster::{ClusterArgs, control_plane_namespace};
use crate::cli::console::error::{Error, note};
use crate::cli::console::output;
use crate::cli::files::repositories::read_for_others;
use wavegate_dashboard::people::PeopleLimits;
use wavegate_dashboard::{
    PageTls, PageTlsFiles, ProxyProof, PublicUrl, SignInMethod, TeamAccess, serve_team,
};

/// The fewest characters of the secret of a proxy: what `openssl rand -hex 16` prints has 32.
const SECRET: usize = 32;

/// What proves who a request is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum SignIn {
    /// A bearer token in the header Authorization, which the API server accepts
    Token,
    /// Headers with the user and the groups, of a proxy that proves itself
    Headers,
}

/// The options of a page in a cluster.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "In a cluster")]
pub(super) struct InClusterArgs {
    /// Serve it to a team, in a cluster: each request is made as the person it is of
    #[arg(long, conflicts_with_all = ["open", "export", "allow_actions"])]
    in_cluster: bool,
    /// Address to listen on; another one than loopback needs --sign-in
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub address: IpAddr,
    /// How people are known
    #[arg(long, value_enum, requires_all = ["in_cluster", "public_url"])]
    sign_in: Option<SignIn>,
    /// Address that browsers have for it, such as https://rollouts.example.org; may be repeated
    #[arg(long, value_name = "URL", requires = "sign_in", value_parser = PublicUrl::parse)]
    public_url: Vec<PublicUrl>,
    /// Namespaces whose ApplicationSets are shown to those who may list them; by default that of the
    /// control plane
    #[arg(
        long,
        value_name = "NAMESPACE,…",
        value_delimiter = ',',
        requires = "sign_in",
        conflicts_with = "namespace"
    )]
    namespaces: Vec<String>,
    /// Header with the user
    #[arg(long, value_name = "NAME", requires = "sign_in", default_value = "X-Forwarded-User")]
    user_header: HeaderName,
    /// Header with the groups, separated by commas
    #[arg(long, value_name = "NAME", requires = "sign_in", default_value = "X-Forwarded-Groups")]
    groups_header: HeaderName,
    /// File with the secret that the proxy sends
    #[arg(long, value_name = "FILE", requires = "sign_in", conflicts_with = "proxy_ca")]
    proxy_secret_file: Option<PathBuf>,
    /// Header with that secret
    #[arg(
        long,
        value_name = "NAME",
        requires = "proxy_secret_file",
        default_value = "X-Wavegate-Proxy-Secret"
    )]
    proxy_secret_header: HeaderName,
    /// Certificates of the authority of the proxy
    #[arg(long, value_name = "FILE", requires_all = ["sign_in", "proxy_name", "tls_certificate"])]
    proxy_ca: Option<PathBuf>,
    /// Name of the proxy, as subjectAltName of its certificate has it
    #[arg(long, value_name = "HOST", requires = "proxy_ca")]
    proxy_name: Option<String>,
    /// Certificate of the page, to serve TLS
    #[arg(long, value_name = "FILE", requires_all = ["sign_in", "tls_key"])]
    tls_certificate: Option<PathBuf>,
    /// Key of that certificate
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Persons for whom the cluster is watched at the same time
    #[arg(long, value_name = "COUNT", requires = "sign_in", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=1000))]
    people: u16,
    /// Seconds between two checks of a person's credentials and permissions
    #[arg(long, value_name = "SECONDS", requires = "sign_in", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=3600))]
    check_every: u16,
}

impl InClusterArgs {
    /// Whether others than the user of this machine are served.
    pub fn is_for_a_team(&self) -> bool {
        self.sign_in.is_some()
    }

    /// Refuses an address that others reach, unless it is known who they are.
    ///
    /// # Errors
    ///
    /// What is to be configured.
    pub fn check_address(&self) -> Result<(), Error> {
        if self.sign_in.is_some() || self.address.is_loopback() {
            return Ok(());
        }
        let why = "others reach this address, and nothing says who they are. Set --in-cluster with \
                   --public-url and one of: --sign-in token, behind a proxy that sends bearer tokens; \
                   --sign-in headers with --proxy-secret-file or --proxy-ca, behind a proxy that sends \
                   user and groups. Or listen on 127.0.0.1";
        Err(Error::input("cannot listen", self.address.to_string(), why))
    }

    /// How people are known; `None` when the page is for one person.
    ///
    /// # Errors
    ///
    /// What is missing, or cannot be read.
    pub fn method(&self) -> Result<Option<SignInMethod>, Error> {
        let cannot = |why: &str| Error::input("cannot use", "--sign-in headers", why);
        match self.sign_in {
            None => Ok(None),
            Some(SignIn::Token) if self.proxy_secret_file.is_some() || self.proxy_ca.is_some() => {
                let why = "--proxy-secret-file and --proxy-ca are for --sign-in headers: a token proves itself";
                Err(Error::input("cannot use", "--sign-in token", why))
            }
            Some(SignIn::Token) => Ok(Some(SignInMethod::Token)),
            Some(SignIn::Headers) => {
                let proof = match (&self.proxy_secret_file, &self.proxy_ca) {
                    (Some(file), _) => {
                        let header = self.proxy_secret_header.clone();
                        ProxyProof::Secret { header, secret: read_secret(file)? }
                    }
                    (None, Some(_)) => ProxyProof::Certificate,
                    (None, None) => {
                        return Err(cannot(
                            "all who reach the page could send them: set --proxy-secret-file, or \
                             --proxy-ca with --proxy-name",
                        ));
                    }
                };
                let (user, groups) = (self.user_header.clone(), self.groups_header.clone());
                if user == groups {
                    return Err(cannot("--user-header and --groups-header are the same header"));
                }
                Ok(Some(SignInMethod::Headers { user, groups, proof }))
            }
        }
    }

    fn tls(&self) -> Result<Option<PageTls>, Error> {
        let (Some(certificate), Some(key)) = (&self.tls_certificate, &self.tls_key) else {
            return Ok(None);
        };
        let proxy = self.proxy_ca.clone().zip(self.proxy_name.clone());
        let files = PageTlsFiles { certificate: certificate.clone(), key: key.clone(), proxy };
        let failed =
            |why: String| Error::input("cannot serve TLS", certificate.display().to_string(), why);
        PageTls::read(files).map(Some).map_err(failed)
    }

    /// The namespaces that are shown to those who may read them.
    fn namespaces(&self, cluster: &ClusterArgs) -> Result<Vec<String>, Error> {
        let mut namespaces = match (&self.namespaces, &cluster.namespace) {
            (given, _) if !given.is_empty() => given.clone(),
            (_, Some(one)) => vec![one.clone()],
            _ => vec![control_plane_namespace()],
        };
        for namespace in &namespaces {
            if let Some(why) = crate::cli::cluster::problem_of_name(namespace) {
                return Err(Error::input("cannot use", format!("--namespaces {namespace}"), why));
            }
        }
        namespaces.sort_unstable();
        namespaces.dedup();
        Ok(namespaces)
    }

    /// Serves the page to a team until stopped.
    ///
    /// # Errors
    ///
    /// What cannot be read or listened on.
    pub async fn serve(
        &self,
        method: SignInMethod,
        (port, all): (u16, bool),
        cluster: &ClusterArgs,
        stop: &CancellationToken,
    ) -> anyhow::Result<()> {
        read_for_others();
        let tls = self.tls()?;
        if matches!(&method, SignInMethod::Headers { .. }) && tls.is_none() {
            note("without --tls-certificate, who reads the network of the proxy reads its secret");
        }
        let config = kubeconfig::config(cluster.context.as_deref()).await?;
        let namespaces = self.namespaces(cluster)?;
        let people = Arc::new(ClusterPeople::new(config, namespaces, all));
        let access = TeamAccess::new(self.public_url.clone(), method)?;
        let listener = listen(SocketAddr::new(self.address, port)).await?;
        output::print(&format!("listening on {}\n", listener.local_addr()?))?;
        let urls: Vec<String> = self.public_url.iter().map(PublicUrl::as_text).collect();
        note(&format!("it is served at {}", urls.join(" and ")));
        let limits = PeopleLimits {
            people: self.people.into(),
            check_every: Duration::from_secs(self.check_every.into()),
        };
        serve_team(listener, people, access, limits, tls, stop.clone()).await;
        Ok(())
    }
}

/// Listens on an address.
///
/// # Errors
///
/// Why that is not possible.
pub(super) async fn listen(address: SocketAddr) -> Result<TcpListener, Error> {
    let failed = |error: std::io::Error| {
        let why = format!("{error}; choose another one, or leave --port out for a free one");
        Error::input("cannot listen", address.to_string(), why)
    };
    TcpListener::bind(address).await.map_err(failed)
}

/// The secret of a proxy, without the line break of its file.
fn read_secret(file: &Path) -> Result<String, Error> {
    let failed = |why: String| {
        let place = format!("--proxy-secret-file {}", file.display());
        Error::input("cannot use", place, why)
    };
    let text = std::fs::read_to_string(file).map_err(|error| failed(error.to_string()))?;
    let secret = text.trim();
    if secret.len() < SECRET || !secret.chars().all(|c| c.is_ascii_graphic()) {
        let why = format!(
            "the secret needs at least {SECRET} characters, all of them visible ASCII; openssl rand -hex 32 makes one"
        );
        return Err(failed(why));
    }
    Ok(secret.to_owned())
}
