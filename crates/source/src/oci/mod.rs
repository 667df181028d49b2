//! Artifacts of OCI registries as sources: tags and digests, and the files of their layer.
//!
//! A revision is the digest of a manifest, so what it names never changes.

mod challenge;
mod digest;
mod manifest;
mod registry;
mod session;
pub(super) mod settings;
#[cfg(test)]
mod tests;
mod unpack;

use std::sync::Arc;
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

use self::digest::ContentDigest;
use self::registry::Registry;
pub use self::settings::ArtifactSettings;
use crate::answer::Freshness;
use crate::deadline;
use crate::error::SourceError;
use crate::git::checkout::{Checkout, CheckoutKey};
use crate::git::refs::Revision;
use crate::helm::chart_address::ChartAddress;
use crate::helm::charts::login;
use crate::hosts::Hosts;
use crate::http::credentials::RepoCredentials;
use crate::packages::{Packages, Request, Surroundings};
use crate::version::{Range, version};

/// Longest `targetRevision`, in bytes.
const MAX_REVISION: usize = 256;

/// Longest tag, in characters, as the distribution API has it.
const MAX_TAG: usize = 128;

/// Whether a `repoURL` names an artifact of a registry. With a chart, the source is a chart.
pub fn is_artifact(repo_url: &str) -> bool {
    repo_url.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("oci://"))
}

/// The artifacts that this process reads, with the digest of each revision that was asked for.
#[derive(Debug, Default)]
pub(super) struct Artifacts(Packages<String>);

/// A checked request.
struct Wanted {
    address: ChartAddress,
    /// The name of the artifact in its registry.
    name: String,
    credentials: RepoCredentials,
    revision: String,
    id: String,
}

impl Wanted {
    fn new(
        surroundings: &Surroundings<'_>,
        repo_url: &str,
        revision: &str,
        credentials: Option<&RepoCredentials>,
    ) -> Result<Self, SourceError> {
        let settings = surroundings.settings;
        let address = ChartAddress::parse(repo_url, settings.allow)?;
        let name = name(&address)?;
        // A digest makes the tag before it superfluous.
        let revision = revision.rsplit_once('@').map_or(revision, |(_, digest)| digest);
        let reason = if revision.is_empty() {
            "targetRevision must be a tag, a digest or a range of versions of the artifact"
        } else if revision.len() > MAX_REVISION || revision.chars().any(char::is_control) {
            "it is longer than 256 bytes, or has control characters"
        } else if revision.contains(':') && ContentDigest::parse(revision).is_none() {
            "it is no digest: write sha256: and 64 hexadecimal digits in lower case"
        } else {
            ""
        };
        if !reason.is_empty() {
            let revision = revision.chars().filter(|c| !c.is_control()).take(64).collect();
            let repo = address.shown;
            return Err(SourceError::InvalidRevision { repo, revision, reason: reason.into() });
        }
        let mut credentials = login(&address, "", credentials, false)?.credentials;
        if credentials.proxy.is_empty() {
            let variable = |name: &str| {
                let environment = &settings.environment;
                let found = environment.get(name);
                found.or_else(|| environment.get(&name.to_lowercase())).cloned().unwrap_or_default()
            };
            credentials.proxy = variable("HTTPS_PROXY");
            credentials.no_proxy = variable("NO_PROXY");
        }
        let mut hash = Sha256::new();
        hash.update("artifact\n");
        hash.update(&address.url);
        hash.update([0]);
        hash.update(credentials.fingerprint());
        let id = HEXLOWER.encode(&hash.finalize());
        Ok(Self { address, name, credentials, revision: revision.to_owned(), id })
    }

    fn registry(&self, within: Duration) -> Registry<'_> {
        Registry::new(&self.address, &self.name, &self.credentials, within)
    }

    fn request(&self, arrived: Instant) -> Request<'_> {
        Request { arrived, id: &self.id, server: &self.address.server, again: false }
    }

    fn missing(&self, detail: String) -> SourceError {
        let (repo, revision) = (self.address.shown.clone(), self.revision.clone());
        SourceError::missing_revision(repo, revision, detail)
    }
}

/// The name of an artifact in its registry: what its URL has behind the host.
fn name(address: &ChartAddress) -> Result<String, SourceError> {
    let invalid = |reason: &str| {
        Err(SourceError::InvalidUrl { repo: address.shown.clone(), reason: reason.to_owned() })
    };
    let rest = address.url.strip_prefix("oci://").unwrap_or(&address.url);
    let name = rest.split_once('/').map_or("", |(_, name)| name);
    if name.is_empty() {
        return invalid("it names a registry but no artifact: write oci://host/path");
    }
    if name.contains([':', '@']) {
        return invalid(
            "a tag or digest is no part of the URL; write it in targetRevision instead",
        );
    }
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_part = |part: &str| {
        part.starts_with(is_inner)
            && part.ends_with(is_inner)
            && !part.contains("..")
            && part.chars().all(|c| is_inner(c) || "._-".contains(c))
    };
    if name.len() > 255 || !name.split('/').all(is_part) {
        return invalid(
            "its path is no name of an artifact: lower-case letters, digits, '.', '_' and '-', \
             in parts that begin and end with a letter or digit",
        );
    }
    // Rules about repositories do not see it, so it would be one that a project does not permit.
    if name.ends_with(".git") {
        return invalid("the name of an artifact must not end with .git");
    }
    Ok(name.to_owned())
}

impl Artifacts {
    /// The digest that a revision names now: a tag, else the newest tag of a range.
    pub(super) async fn resolve(
        &self,
        surroundings: &Surroundings<'_>,
        (repo_url, revision): (&str, &str),
        credentials: Option<&RepoCredentials>,
        freshness: Freshness,
    ) -> Result<Revision, SourceError> {
        let arrived = Instant::now();
        let wanted = Wanted::new(surroundings, repo_url, revision, credentials)?;
        let of = |digest: &str| Revision { sha: digest.to_owned(), reference: None };
        if ContentDigest::parse(&wanted.revision).is_some() {
            return Ok(of(&wanted.revision));
        }
        let ask = digest_of(&wanted, surroundings.settings.limits.timeout);
        let (request, what) = (wanted.request(arrived), wanted.revision.as_str());
        let digest = self.0.answer(surroundings, request, (what, freshness), Box::pin(ask)).await?;
        Ok(of(&digest))
    }

    /// The files of an artifact, by the digest of its manifest.
    pub(super) async fn checkout(
        &self,
        surroundings: &Surroundings<'_>,
        (repo_url, revision): (&str, &str),
        credentials: Option<&RepoCredentials>,
    ) -> Result<Arc<Checkout>, SourceError> {
        let arrived = Instant::now();
        let wanted = Wanted::new(surroundings, repo_url, revision, credentials)?;
        let pull = async {
            let key: CheckoutKey = (wanted.id.clone(), wanted.revision.clone());
            Ok(pull(surroundings, &wanted).await?.with_key(&key))
        };
        let request = wanted.request(arrived);
        self.0
            .checkout(surroundings, request, &wanted.revision, Box::pin(pull), Hosts::record_fetch)
            .await
    }
}

/// Whether a text can be a tag.
fn is_tag(text: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.len() <= MAX_TAG
        && text.starts_with(is_inner)
        && text.chars().all(|c| is_inner(c) || ".-".contains(c))
}

/// As in Argo CD, a tag of that name comes before the range.
async fn digest_of(wanted: &Wanted, within: Duration) -> Result<String, SourceError> {
    let given = wanted.revision.as_str();
    let mut registry = wanted.registry(within);
    let range = Range::parse(given);
    if is_tag(given) {
        match registry.digest(given).await {
            Err(SourceError::MissingRevision { .. }) if range.is_some() => {}
            found => return found,
        }
    }
    let Some(range) = range else {
        return Err(SourceError::InvalidRevision {
            repo: wanted.address.shown.clone(),
            revision: given.to_owned(),
            reason: "is neither a tag, a digest nor a range of versions".into(),
        });
    };
    let tags = registry.tags().await?;
    // A tag cannot have the '+' of a version; by convention, it has '_' instead.
    let known = tags.iter().filter_map(|tag| {
        let parsed = version(&tag.replace('_', "+"))?;
        is_tag(tag).then_some((parsed, tag))
    });
    match range.newest(known) {
        Some(tag) => registry.digest(tag).await,
        None => Err(wanted.missing(format!(
            "none of the {} tags of the artifact is a version in the range",
            tags.len()
        ))),
    }
}

async fn pull(surroundings: &Surroundings<'_>, wanted: &Wanted) -> Result<Checkout, SourceError> {
    let settings = surroundings.settings;
    let repo = || wanted.address.shown.clone();
    let Some(expected) = ContentDigest::parse(&wanted.revision) else {
        return Err(SourceError::InvalidRevision {
            repo: repo(),
            revision: wanted.revision.clone(),
            reason: "an artifact is read by its digest".into(),
        });
    };
    let failed = |error: std::io::Error| {
        SourceError::cache(repo(), "keep the layer of the artifact", error.kind())
    };
    let limit = settings.artifacts.max_bytes.unwrap_or(u64::MAX);
    let mut registry = wanted.registry(settings.limits.timeout);
    let text = registry.manifest(&expected).await?;
    let layer = manifest::layer(&text, &settings.artifacts.layer_media_types);
    let layer = layer.map_err(|reason| SourceError::InvalidRevision {
        repo: repo(),
        revision: wanted.revision.clone(),
        reason,
    })?;
    if layer.size > limit {
        return Err(too_large(repo(), limit));
    }
    let mut packed = tempfile::tempfile_in(surroundings.cache.path()).map_err(failed)?;
    registry.blob(&layer, &mut packed).await?;
    // Removed when something below fails.
    let target = surroundings.cache.unused("checkout");
    let limits = unpack::UnpackLimits { bytes: limit, files: settings.limits.checkout_files };
    let work = move || {
        let bytes = unpack::unpack(&mut packed, layer.format, target.path(), limits)?;
        if layer.is_chart {
            unpack::lift_single_directory(target.path())?;
        }
        Ok((target, bytes))
    };
    let within = settings.limits.timeout;
    let work = move || deadline::limited(within, work);
    let unpacked = tokio::task::spawn_blocking(work).await;
    let unpacked =
        unpacked.map_err(|error| SourceError::cache(repo(), "unpack the artifact", error))?;
    let (target, bytes) = unpacked.map_err(|failure| match failure {
        unpack::Failure::Bytes => too_large(repo(), limit),
        unpack::Failure::Files => SourceError::too_large(
            repo(),
            "the artifact",
            format!("{} files and directories", settings.limits.checkout_files),
        ),
        unpack::Failure::Entries => SourceError::too_large(
            repo(),
            "the artifact",
            format!("{} entries", unpack::max_entries(settings.limits.checkout_files)),
        ),
        unpack::Failure::Time => SourceError::TimedOut {
            repo: repo(),
            what: "unpacking the layer of the artifact".to_owned(),
            limit: within,
        },
        unpack::Failure::Invalid(reason) => SourceError::InvalidRevision {
            repo: repo(),
            revision: wanted.revision.clone(),
            reason: format!("its layer cannot be unpacked: {reason}"),
        },
        unpack::Failure::Io(error) => {
            SourceError::cache(repo(), "unpack the artifact", error.kind())
        }
    })?;
    Ok(Checkout::new(target, repo(), wanted.revision.clone(), bytes))
}

fn too_large(repo: String, limit: u64) -> SourceError {
    SourceError::too_large(
        repo,
        "the layer of the artifact",
        format!("{limit} bytes (reposerver.oci.manifest.max.extracted.size)"),
    )
}
