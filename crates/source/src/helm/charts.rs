//! Charts of Helm repositories and OCI registries: versions and files (SE-033).

use std::sync::Arc;
use std::time::Instant;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::answer::Freshness;
use crate::cache::private_directory;
use crate::error::SourceError;
use crate::git::checkout::Checkout;
use crate::git::refs::Revision;
use crate::helm::chart_address::{ChartAddress, is_chart_name};
use crate::helm::client::{HelmClient, Home, Login};
use crate::hosts::Hosts;
use crate::http::credentials::RepoCredentials;
use crate::limits::SourceSettings;
use crate::packages::{Packages, Request, Surroundings};
use crate::process::run::disk_use;
use crate::version::{Range, version};

/// Longest version or range, in bytes.
const MAX_VERSION: usize = 256;

/// The name of a repository in the files of a call.
const NAME: &str = "source";

/// A chart, as a source names it.
#[derive(Debug, Clone, Copy)]
pub struct ChartSource<'a> {
    /// The `repoURL`.
    pub repo_url: &'a str,
    /// The name of the chart.
    pub chart: &'a str,
    /// Its version, or a range of versions.
    pub version: &'a str,
    /// Whether credentials are sent to all hosts (`helm.passCredentials`).
    pub pass_credentials: bool,
}

/// The charts that this process reads, with their listed versions; for a registry, the newest one
/// by range.
#[derive(Debug, Default)]
pub(crate) struct Charts(Packages<Arc<Vec<String>>>);

/// A checked request.
struct Wanted<'a> {
    address: ChartAddress,
    login: Login,
    chart: &'a str,
    version: &'a str,
    id: String,
}

impl<'a> Wanted<'a> {
    fn new(
        surroundings: &Surroundings<'_>,
        source: &ChartSource<'a>,
        credentials: Option<&RepoCredentials>,
    ) -> Result<Self, SourceError> {
        let address = ChartAddress::parse(source.repo_url, surroundings.settings.allow)?;
        let repo = || address.shown.clone();
        if !is_chart_name(source.chart) || (!address.oci && source.chart.contains('/')) {
            let shown: String = source.chart.chars().take(80).collect();
            let reason = format!("chart {shown:?} is not the name of a chart");
            return Err(SourceError::InvalidUrl { repo: repo(), reason });
        }
        let known = source.version;
        if known.is_empty() || known.len() > MAX_VERSION || known.chars().any(char::is_control) {
            return Err(SourceError::InvalidRevision {
                repo: repo(),
                revision: known.chars().filter(|c| !c.is_control()).take(64).collect(),
                reason: "a chart needs a version, or a range of versions, of at most 256 bytes"
                    .into(),
            });
        }
        let login = login(&address, NAME, credentials, source.pass_credentials)?;
        let mut hash = Sha256::new();
        for part in
            [address.url.as_str(), source.chart, if source.pass_credentials { "1" } else { "" }]
        {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash.update(login.credentials.fingerprint());
        let id = HEXLOWER.encode(&hash.finalize());
        Ok(Self { address, login, chart: source.chart, version: source.version, id })
    }

    fn request(&self, arrived: Instant) -> Request<'_> {
        Request { arrived, id: &self.id, server: &self.address.server, again: false }
    }
}

/// How to log in to a repository.
///
/// # Errors
///
/// [`SourceError::Refused`] for credentials that Helm cannot use.
pub(crate) fn login(
    address: &ChartAddress,
    name: &str,
    credentials: Option<&RepoCredentials>,
    pass_credentials: bool,
) -> Result<Login, SourceError> {
    let credentials = credentials.cloned().unwrap_or_default();
    let refused = |detail: &str| Err(SourceError::refused(&address.shown, detail));
    if !credentials.refusal.is_empty() {
        return refused(&credentials.refusal);
    }
    if !credentials.is_usable() {
        return refused("username, password, proxy and noProxy must be a single line each");
    }
    if let Some(identity) = &credentials.identity {
        return refused(&format!(
            "{} is not supported for charts and registries; write username and password, with a token",
            identity.name()
        ));
    }
    if !credentials.bearer_token.is_empty() {
        return refused(
            "bearerToken is not supported for charts and registries; write username and password, \
             with the token",
        );
    }
    let name = name.to_owned();
    Ok(Login { address: address.clone(), name, credentials, pass_credentials })
}

impl Charts {
    /// The version that a source names.
    pub(crate) async fn resolve(
        &self,
        surroundings: &Surroundings<'_>,
        source: &ChartSource<'_>,
        credentials: Option<&RepoCredentials>,
        freshness: Freshness,
    ) -> Result<Revision, SourceError> {
        let wanted = Wanted::new(surroundings, source, credentials)?;
        let given = wanted.version;
        let of = |version: &str| Revision { sha: version.to_owned(), reference: None };
        let missing =
            |detail: String| SourceError::missing_revision(&wanted.address.shown, given, detail);
        let Some(range) = Range::of_chart(given) else {
            return match version(given) {
                Some(_) => Ok(of(given)),
                None => Err(SourceError::InvalidRevision {
                    repo: wanted.address.shown.clone(),
                    revision: given.to_owned(),
                    reason: "is neither a version of a chart nor a range of versions".into(),
                }),
            };
        };
        let versions = self.versions(surroundings, &wanted, freshness).await?;
        if versions.iter().any(|version| version == given) {
            return Ok(of(given));
        }
        let known = versions.iter().filter_map(|text| version(text).map(|parsed| (parsed, text)));
        let newest = range.newest(known).map(|text| of(text));
        newest
            .ok_or_else(|| missing(format!("no version of chart {} is in the range", wanted.chart)))
    }

    async fn versions(
        &self,
        surroundings: &Surroundings<'_>,
        wanted: &Wanted<'_>,
        freshness: Freshness,
    ) -> Result<Arc<Vec<String>>, SourceError> {
        // A registry is asked for the newest version of each range.
        let what = if wanted.address.oci { wanted.version } else { "" };
        let listed = async {
            let home = Home::new(surroundings.cache.path(), vec![wanted.login.clone()])?;
            let client = client(surroundings);
            match wanted.address.oci {
                true => {
                    let newest = client.newest(&home, wanted.chart, wanted.version).await;
                    newest.map(|version| vec![version])
                }
                false => client.versions(&home, wanted.chart).await,
            }
        };
        let ask =
            async { listed.await.map(Arc::new).map_err(|error| of_version(error, wanted.version)) };
        let request = wanted.request(Instant::now());
        self.0.answer(surroundings, request, (what, freshness), Box::pin(ask)).await
    }

    /// The files of a version; with `again`, they are fetched even if they are kept, since a chart
    /// may be pushed again under its version.
    pub(crate) async fn checkout(
        &self,
        surroundings: &Surroundings<'_>,
        source: &ChartSource<'_>,
        credentials: Option<&RepoCredentials>,
        again: bool,
    ) -> Result<Arc<Checkout>, SourceError> {
        let arrived = Instant::now();
        let wanted = Wanted::new(surroundings, source, credentials)?;
        let pull = Box::pin(pull(surroundings, &wanted));
        let request = Request { again, ..wanted.request(arrived) };
        self.0.checkout(surroundings, request, wanted.version, pull, Hosts::record_listing).await
    }
}

fn client<'a>(surroundings: &Surroundings<'a>) -> HelmClient<'a> {
    let SourceSettings { programs, environment, .. } = surroundings.settings;
    HelmClient { programs, environment }
}

fn of_version(error: SourceError, version: &str) -> SourceError {
    match error {
        SourceError::MissingRevision { repo, detail, .. } => {
            SourceError::missing_revision(repo, version, detail)
        }
        other => other,
    }
}

async fn pull(
    surroundings: &Surroundings<'_>,
    wanted: &Wanted<'_>,
) -> Result<Checkout, SourceError> {
    let repo = || wanted.address.shown.clone();
    let failed =
        |error: std::io::Error| SourceError::cache(repo(), "unpack the chart", error.kind());
    let home = Home::new(surroundings.cache.path(), vec![wanted.login.clone()])?;
    let unpacked = private_directory("chart-", surroundings.cache.path()).map_err(failed)?;
    let chart = (wanted.chart, wanted.version);
    let pulled = client(surroundings).pull(&home, chart, unpacked.path()).await;
    pulled.map_err(|error| of_version(error, wanted.version))?;
    // The directory has the name that the chart gives itself.
    let mut found = Vec::new();
    for entry in std::fs::read_dir(unpacked.path()).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_type().map_err(failed)?.is_dir() && entry.path().join("Chart.yaml").is_file()
        {
            found.push(entry.path());
        }
    }
    let [directory] = &found[..] else {
        let detail = format!("the archive contains {} charts instead of one", found.len());
        return Err(SourceError::git(repo(), "helm pull", detail));
    };
    let target = surroundings.cache.unused("checkout");
    std::fs::rename(directory, target.path()).map_err(failed)?;
    let bytes = disk_use(target.path()).await;
    Ok(Checkout::new(target, repo(), wanted.version.to_owned(), bytes))
}
