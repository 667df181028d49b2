//! Get and list: pages, selectors, views.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::body::Bytes;
use jiff::Timestamp;
use serde_json::json;

use super::convert;
use super::errors::ApiError;
use super::kinds::Kind;
use super::place::Key;
use super::request::{Query, View};
use super::selectors::Selectors;
use super::state::State;
use super::stored::{Stored, to_json};
use super::table;

/// An object in the form that was asked for, as JSON; a table with or without its columns.
pub(crate) fn render(
    kind: &Kind,
    stored: &Arc<Stored>,
    view: View,
    (include, columns): (table::Include, bool),
    now: Timestamp,
) -> Bytes {
    let object = convert::served(kind, stored);
    match view {
        View::Object => object.json.clone(),
        View::Metadata => object.partial_json().into(),
        View::Table => {
            let meta = json!({"resourceVersion": object.revision.to_string()});
            to_json(&table::table(kind, &[object], include, meta, columns, now)).into()
        }
    }
}

/// Where the next page begins: behind this key, as of this revision.
#[derive(serde::Serialize, serde::Deserialize)]
struct Continue {
    rv: u64,
    ns: String,
    name: String,
}

impl Continue {
    fn read(token: &str) -> Result<Self, ApiError> {
        URL_SAFE_NO_PAD
            .decode(token)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .ok_or_else(|| ApiError::bad_request("continue key is not valid"))
    }

    fn write(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }
}

/// What a list request selects.
pub(crate) struct ListRequest<'a> {
    pub kind: &'a Kind,
    pub namespace: Option<&'a str>,
    pub query: &'a Query,
    pub view: View,
    pub now: Timestamp,
}

/// The items of one page, found under the lock; rendered without it.
#[derive(Debug, Default)]
pub(crate) struct Page {
    items: Vec<Arc<Stored>>,
    revision: u64,
    next: Option<String>,
    remaining: Option<usize>,
}

/// Selects one page of a list.
///
/// # Errors
///
/// `BadRequest` for selectors and tokens that cannot be read, `Expired` for a
/// token whose revision is forgotten, `Timeout` for a revision of the future.
pub(crate) fn select(state: &State, request: &ListRequest<'_>) -> Result<Page, ApiError> {
    let (kind, query) = (request.kind, request.query);
    let selectors = Selectors::parse(kind, query.get("labelSelector"), query.get("fieldSelector"))?;
    let limit = usize::try_from(query.number("limit")?.unwrap_or(0)).unwrap_or(usize::MAX);
    let token = query.get("continue").map(Continue::read).transpose()?;
    let current = state.store.revision();
    let asked = query.number("resourceVersion")?.unwrap_or(0);
    if token.is_none() && asked > current {
        let mut e = ApiError::new(
            504,
            "Timeout",
            format!("Too large resource version: {asked}, current: {current}"),
        );
        e.details.causes.push(super::errors::Cause::new(
            "ResourceVersionTooLarge",
            "",
            "Too large resource version",
        ));
        e.details.retry_after = Some(1);
        return Err(e);
    }
    let exact = token.is_none() && query.get("resourceVersionMatch") == Some("Exact");
    let revision = match &token {
        Some(token) => token.rv,
        None if exact => asked,
        None => current,
    };
    let Some(table) = state.store.table(&kind.storage) else {
        return Ok(Page { revision, ..Page::default() });
    };
    let message = "The provided continue parameter is too old to display a consistent list result. \
         You can start a new list without the continue parameter.";
    let past = if revision == current {
        BTreeMap::new()
    } else {
        table.log.past(revision).ok_or_else(|| ApiError::expired(message))?
    };
    let start = token.as_ref().map(|t| Key::new(t.ns.as_str(), t.name.as_str()));
    if let (Some(namespace), Some(name), None) =
        (request.namespace, selectors.pinned_name(), &start)
    {
        let key = Key::new(namespace, name);
        let found = past.get(&key).copied().unwrap_or_else(|| table.objects.get(&key));
        let items = found.filter(|stored| selectors.matches(&key, stored)).cloned();
        return Ok(Page { items: items.into_iter().collect(), revision, ..Page::default() });
    }
    let lower = match (&start, request.namespace) {
        (Some(start), _) => Bound::Excluded(start.clone()),
        (None, Some(ns)) => Bound::Included(Key::new(ns, "")),
        (None, None) => Bound::Unbounded,
    };
    let mut matching = as_it_was(&table.objects, &past, lower)
        .take_while(|(key, _)| request.namespace.is_none_or(|ns| *key.namespace == *ns))
        .filter(|(key, stored)| selectors.matches(key, stored));
    if limit == 0 {
        let items = matching.map(|(_, stored)| stored.clone()).collect();
        return Ok(Page { items, revision, ..Page::default() });
    }
    let mut items = Vec::with_capacity(limit.min(1000));
    let mut last = None;
    for (key, stored) in matching.by_ref().take(limit) {
        items.push(stored.clone());
        last = Some(key.clone());
    }
    // The real one counts the rest only where no selector hides some of it.
    let counted = selectors.is_empty();
    let left = if counted { matching.count() } else { usize::from(matching.next().is_some()) };
    let next = last.filter(|_| left > 0).map(|key| {
        let (ns, name) = (key.namespace.to_string(), key.name.to_string());
        Continue { rv: revision, ns, name }.write()
    });
    let remaining = (next.is_some() && counted).then_some(left);
    Ok(Page { items, revision, next, remaining })
}

/// Objects from a key on, with what has changed since as it was before.
fn as_it_was<'a>(
    objects: &'a BTreeMap<Key, Arc<Stored>>,
    past: &'a BTreeMap<&'a Key, Option<&'a Arc<Stored>>>,
    from: Bound<Key>,
) -> impl Iterator<Item = (&'a Key, &'a Arc<Stored>)> {
    let unchanged =
        objects.range((from.clone(), Bound::Unbounded)).filter(|(key, _)| !past.contains_key(key));
    let changed = past
        .range::<Key, _>((from.as_ref(), Bound::Unbounded))
        .filter_map(|(key, stored)| Some((*key, (*stored)?)));
    let (mut unchanged, mut changed) = (unchanged.peekable(), changed.peekable());
    std::iter::from_fn(move || match (unchanged.peek(), changed.peek()) {
        (Some((a, _)), Some((b, _))) if b < a => changed.next(),
        (Some(_), _) => unchanged.next(),
        (None, _) => changed.next(),
    })
}

impl Page {
    /// The page as JSON.
    pub fn render(&self, request: &ListRequest<'_>) -> Vec<u8> {
        let kind = request.kind;
        let mut meta = json!({"resourceVersion": self.revision.to_string()});
        if let Some(next) = &self.next {
            meta["continue"] = json!(next);
        }
        if let Some(remaining) = self.remaining {
            meta["remainingItemCount"] = json!(remaining);
        }
        if request.view == View::Table {
            let include = table::Include::parse(request.query.get("includeObject"));
            let items: Vec<Arc<Stored>> =
                self.items.iter().map(|i| convert::served(kind, i)).collect();
            return to_json(&table::table(kind, &items, include, meta, true, request.now));
        }
        let (list_kind, api_version) = if request.view == View::Metadata {
            ("PartialObjectMetadataList".to_owned(), "meta.k8s.io/v1".to_owned())
        } else {
            (kind.list_kind.clone(), kind.api_version())
        };
        let size: usize = self.items.iter().map(|i| i.json.len() + 1).sum();
        let mut out = Vec::with_capacity(size + 256);
        out.extend_from_slice(b"{\"kind\":");
        out.extend(to_json(&json!(list_kind)));
        out.extend_from_slice(b",\"apiVersion\":");
        out.extend(to_json(&json!(api_version)));
        out.extend_from_slice(b",\"metadata\":");
        out.extend(to_json(&meta));
        out.extend_from_slice(b",\"items\":[");
        for (i, item) in self.items.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            let item = convert::served(kind, item);
            if request.view == View::Metadata {
                out.extend(item.partial_json());
            } else if kind.is_builtin() {
                // So the real one lists them: the list says what its items are.
                out.push(b'{');
                out.extend_from_slice(item.body());
            } else {
                out.extend_from_slice(&item.json);
            }
        }
        out.extend_from_slice(b"]}");
        out
    }
}
