//! What all bodies of webhooks have in common: bounded texts, repositories and references.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{ChangedPullRequest, MAX_TEXT, Provider, Push, Ref, RefusedWebhook, Repository};

/// The most branches and tags of one push.
const MAX_REFS: usize = 1000;

/// The first entries of a list, one more than [`MAX_REFS`] at most: a body of some megabytes may
/// have millions.
#[derive(Debug)]
pub(super) struct AtMost<T>(pub Vec<T>);

impl<T> Default for AtMost<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for AtMost<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Entries { or_nothing: false, of: PhantomData })
    }
}

/// A list; an object, or null, is as an empty one.
pub(super) fn list_or_nothing<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<AtMost<T>, D::Error> {
    deserializer.deserialize_any(Entries { or_nothing: true, of: PhantomData })
}

struct Entries<T> {
    /// Whether an object is as an empty list.
    or_nothing: bool,
    of: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
    type Value = AtMost<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<AtMost<T>, E> {
        match self.or_nothing {
            true => Ok(AtMost::default()),
            false => Err(E::invalid_type(serde::de::Unexpected::Unit, &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<AtMost<T>, A::Error> {
        if !self.or_nothing {
            return Err(serde::de::Error::invalid_type(serde::de::Unexpected::Map, &self));
        }
        while fields.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(AtMost::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<AtMost<T>, A::Error> {
        let mut found = Vec::new();
        while found.len() <= MAX_REFS {
            match list.next_element()? {
                Some(one) => found.push(one),
                None => return Ok(AtMost(found)),
            }
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(AtMost(found))
    }
}

/// The body as JSON.
pub(super) fn parse<'a, T: Deserialize<'a>>(
    provider: Provider,
    body: &'a [u8],
) -> Result<T, RefusedWebhook> {
    let failed =
        |error: serde_json::Error| RefusedWebhook::Body(provider.name(), error.to_string());
    serde_json::from_slice(body).map_err(failed)
}

/// A pull request of a repository that has one of these URLs.
pub(super) fn pull_request(
    provider: Provider,
    urls: &[String],
    project: Option<u64>,
) -> Result<Push, RefusedWebhook> {
    let repositories = repositories(provider, urls)?;
    let pull_request = Some(ChangedPullRequest { provider, project });
    Ok(Push { repositories, refs: Vec::new(), files: Vec::new(), pull_request })
}

fn repositories(provider: Provider, urls: &[String]) -> Result<Vec<Repository>, RefusedWebhook> {
    let refused = |why: &str| RefusedWebhook::Body(provider.name(), why.to_owned());
    if urls.iter().any(|url| url.len() > MAX_TEXT) {
        return Err(refused("a URL or the name of a branch is too long, or there are too many"));
    }
    let mut repositories: Vec<Repository> =
        urls.iter().filter(|url| !url.is_empty()).map(|url| Repository::of(url)).collect();
    repositories.sort();
    repositories.dedup();
    if repositories.is_empty() || repositories.contains(&Repository::of("")) {
        return Err(refused("the URL of the repository is missing"));
    }
    Ok(repositories)
}

/// A push to a repository that has one of these URLs.
pub(super) fn push(
    provider: Provider,
    urls: &[String],
    refs: &[String],
    default_branch: &str,
) -> Result<Push, RefusedWebhook> {
    let refused = |why: &str| RefusedWebhook::Body(provider.name(), why.to_owned());
    let repositories = repositories(provider, urls)?;
    let texts = refs.iter().map(String::len).chain([default_branch.len()]);
    if texts.max().unwrap_or_default() > MAX_TEXT || refs.len() > MAX_REFS {
        return Err(refused("a URL or the name of a branch is too long, or there are too many"));
    }
    let refs: Vec<Ref> = refs.iter().map(|name| Ref::new(name, default_branch)).collect();
    if refs.is_empty() || refs.iter().any(|one| one.name.is_empty()) {
        return Err(refused("the branch or tag is missing"));
    }
    Ok(Push { repositories, refs, files: Vec::new(), pull_request: None })
}
