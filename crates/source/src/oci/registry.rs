//! A client of the distribution API of OCI registries: tags, manifests and blobs, to read.

use std::fs::File;
use std::io::Write;
use std::time::Duration;

use http::header::LINK;
use http::{HeaderMap, Method};
use serde::Deserialize;
use serde_json::Value;

use super::digest::ContentDigest;
use super::manifest::{ACCEPTED, Layer};
use super::session::{Call, Session};
use crate::error::SourceError;
use crate::helm::chart_address::ChartAddress;
use crate::http::client::TransportError;
use crate::http::credentials::RepoCredentials;
use wavegate_api::read_leniently;

/// Tags per page that are asked for, most pages, and most tags of an artifact.
const PAGE: usize = 1_000;
const MAX_PAGES: usize = 200;
const MAX_TAGS: usize = 100_000;

/// Longest tag that a registry can have, in bytes; a longer one names nothing.
pub(super) const MAX_TAG: usize = 128;

/// A page of the list of tags; null without any.
#[derive(Default, Deserialize)]
#[serde(default)]
struct TagList {
    /// Each a text.
    tags: Vec<Value>,
}

/// One artifact of a registry.
#[derive(Debug)]
pub(super) struct Registry<'a> {
    name: &'a str,
    session: Session<'a>,
}

impl<'a> Registry<'a> {
    /// An artifact that is read by some requests within one time limit.
    pub(super) fn new(
        address: &'a ChartAddress,
        name: &'a str,
        credentials: &'a RepoCredentials,
        within: Duration,
    ) -> Self {
        Self { name, session: Session::new(address, name, credentials, within) }
    }

    /// The digest of the manifest that a tag names. Without its content, if the registry says
    /// it: some count only requests for content.
    pub(super) async fn digest(&mut self, tag: &str) -> Result<String, SourceError> {
        let path = format!("/v2/{}/manifests/{tag}", self.name);
        let what = format!("the tag {tag:?}");
        let call = Call { what: &what, method: &Method::HEAD, path: &path, accept: ACCEPTED };
        let said = self.session.send(call, &mut |_| Ok(())).await?;
        let named = said.headers.get("docker-content-digest").and_then(|text| text.to_str().ok());
        let named = named.and_then(ContentDigest::parse);
        if let Some(digest) = named.filter(|_| said.status.is_success()) {
            return Ok(digest.text().to_owned());
        }
        // The answer to this one also says what failed.
        let text = self.session.text(Call { method: &Method::GET, ..call }, tag).await?;
        Ok(ContentDigest::of(&text).text().to_owned())
    }

    /// All tags of the artifact.
    pub(super) async fn tags(&mut self) -> Result<Vec<String>, SourceError> {
        let list = format!("/v2/{}/tags/list", self.name);
        let mut path = format!("{list}?n={PAGE}");
        let (mut tags, mut listed) = (Vec::new(), 0);
        for _ in 0..MAX_PAGES {
            let what = "the list of tags";
            let accept = "application/json";
            let call = Call { what, method: &Method::GET, path: &path, accept };
            let (said, text) = self.session.read(call).await?;
            self.session.succeeded(call, &said, &text, "")?;
            let page: Value = serde_json::from_slice(&text).map_err(|error| {
                self.session.protocol_error(what, &format!("it is no JSON: {error}"))
            })?;
            let TagList { tags: found } = read_leniently(&page);
            listed += found.len();
            let found = found.iter().filter_map(Value::as_str);
            tags.extend(found.filter(|tag| tag.len() <= MAX_TAG).map(str::to_owned));
            if listed > MAX_TAGS {
                return Err(self
                    .session
                    .too_large(what, format!("{MAX_TAGS} tags; write one of them")));
            }
            let Some(next) = next_page(&said.headers) else { return Ok(tags) };
            let (target, is_own) = self.session.resolved(&path, &next);
            let next =
                target.strip_prefix(&self.session.base).filter(|_| is_own).unwrap_or_default();
            if next == path || next.split('?').next() != Some(list.as_str()) {
                return Err(self
                    .session
                    .protocol_error(what, "its next page is not one of the same list"));
            }
            path = next.to_owned();
        }
        Err(self
            .session
            .too_large("the list of tags", format!("{MAX_PAGES} pages; write one of them")))
    }

    /// The manifest with a digest, verified.
    pub(super) async fn manifest(
        &mut self,
        digest: &ContentDigest,
    ) -> Result<Vec<u8>, SourceError> {
        let path = format!("/v2/{}/manifests/{}", self.name, digest.text());
        let what = "the manifest";
        let call = Call { what, method: &Method::GET, path: &path, accept: ACCEPTED };
        let text = self.session.text(call, digest.text()).await?;
        let mut hasher = digest.hasher();
        hasher.update(&text);
        match hasher.finish() {
            found if found == *digest => Ok(text),
            found => {
                Err(self.session.protocol_error(what, &format!("its digest is {}", found.text())))
            }
        }
    }

    /// Downloads a layer and verifies its size and digest.
    pub(super) async fn blob(&mut self, layer: &Layer, file: &mut File) -> Result<(), SourceError> {
        let path = format!("/v2/{}/blobs/{}", self.name, layer.digest.text());
        let what = "the layer";
        let call = Call { what, method: &Method::GET, path: &path, accept: "*/*" };
        let (mut hasher, mut size) = (layer.digest.hasher(), 0_u64);
        let mut broken = None;
        let mut save = |bytes: &[u8]| {
            size += bytes.len() as u64;
            if size > layer.size {
                return Err(TransportError::TooLarge(format!("its {} bytes", layer.size)));
            }
            hasher.update(bytes);
            file.write_all(bytes).map_err(|error| {
                broken = Some(error);
                TransportError::Unusable("the answer cannot be kept".to_owned())
            })
        };
        let said = self.session.send(call, &mut save).await;
        if let Some(error) = broken {
            return Err(SourceError::cache(
                &self.session.address.shown,
                "keep the layer of the artifact",
                error.kind(),
            ));
        }
        let said = said?;
        self.session.succeeded(call, &said, &said.body, layer.digest.text())?;
        let found = hasher.finish();
        if size != layer.size || found != layer.digest {
            let detail = format!(
                "it has {size} bytes and the digest {}, and not {} bytes and {}",
                found.text(),
                layer.size,
                layer.digest.text()
            );
            return Err(self.session.protocol_error(what, &detail));
        }
        Ok(())
    }
}

/// The next page of a list, from `Link: <…>; rel="next"`.
fn next_page(headers: &HeaderMap) -> Option<String> {
    let links = headers.get_all(LINK).iter().filter_map(|link| link.to_str().ok());
    links.flat_map(|link| link.split(',')).find_map(|link| {
        let (target, rest) = link.trim().strip_prefix('<')?.split_once('>')?;
        let is_next = rest.split(';').any(|part| {
            let part = part.trim().to_ascii_lowercase();
            part == "rel=next" || part == "rel=\"next\""
        });
        (is_next && !target.is_empty()).then(|| target.to_owned())
    })
}
