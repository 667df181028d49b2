//! Watches: a cursor into a resource's log of changes, woken by each change.
//!
//! A watcher holds no queue of its own: a slow one that falls behind what the
//! log keeps gets 410 Gone, as from the real one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, Stream};
use http_body::Frame;
use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::Inner;
use super::answer::Dropped;
use super::convert;
use super::errors::ApiError;
use super::kinds::Kind;
use super::listeners::Listener;
use super::log::Change;
use super::request::{Query, View};
use super::selectors::Selectors;
use super::state::State;
use super::stored::{Object, Stored, to_json};
use super::table;
use super::unread::Unread;

/// How often a watch without events gets a bookmark, if it allows bookmarks.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

/// How long a watch lasts when the client does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1800);

/// Changes handed over per turn of the lock.
const BATCH: usize = 500;

/// Bytes of events that are made ready at a time, so that a watch that is not
/// read holds little; one event may be larger.
const FRAME_BYTES: usize = 64 << 10;

/// No watch lasts longer, whatever the client says: the real one ends them too.
const MAX_TIMEOUT: Duration = Duration::from_secs(86_400);

/// One open watch.
pub(crate) struct Watch {
    server: Arc<Inner>,
    kind: Arc<Kind>,
    namespace: Option<String>,
    selectors: Selectors,
    view: View,
    include: table::Include,
    /// Table columns are sent with the first event only.
    columns_sent: bool,
    cursor: u64,
    /// Objects that existed when the watch was opened and have not been sent yet.
    initial: VecDeque<Arc<Stored>>,
    /// Whether a bookmark marks the end of them.
    initial_end: bool,
    ready: VecDeque<Bytes>,
    listener: Arc<Listener>,
    bookmarks: bool,
    next_bookmark: Instant,
    deadline: Instant,
    done: bool,
}

/// Opens a watch. Initial events are collected at once, under the lock.
///
/// # Errors
///
/// `BadRequest` for parameters that cannot be read.
pub(crate) fn open(
    server: &Arc<Inner>,
    state: &mut State,
    kind: &Arc<Kind>,
    namespace: Option<&str>,
    name: Option<&str>,
    query: &Query,
    view: View,
) -> Result<Watch, ApiError> {
    // The deprecated way to watch one object names it in the path.
    let by_name = name.map(|n| format!("metadata.name={n}"));
    let fields = by_name.as_deref().or(query.get("fieldSelector"));
    let selectors = Selectors::parse(kind, query.get("labelSelector"), fields)?;
    let asked = query.number("resourceVersion")?.unwrap_or(0);
    let timeout = query
        .number("timeoutSeconds")?
        .filter(|s| *s > 0)
        .map_or(DEFAULT_TIMEOUT, Duration::from_secs)
        .min(MAX_TIMEOUT);
    let streaming_list = query.flag("sendInitialEvents");
    let bookmarks = query.flag("allowWatchBookmarks");
    if streaming_list && query.get("resourceVersionMatch") != Some("NotOlderThan") {
        let message = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        return Err(ApiError::new(422, "Invalid", message));
    }
    let now = Instant::now();
    let current = state.store.revision();
    let table = state.store.table_mut(&kind.storage);
    let mut watch = Watch {
        server: server.clone(),
        kind: kind.clone(),
        namespace: namespace.map(str::to_owned),
        selectors,
        view,
        include: table::Include::parse(query.get("includeObject")),
        columns_sent: false,
        cursor: asked,
        initial: VecDeque::new(),
        initial_end: false,
        ready: VecDeque::new(),
        listener: table.listeners.add(),
        bookmarks,
        next_bookmark: now + BOOKMARK_EVERY,
        deadline: now + timeout,
        done: false,
    };
    if asked == 0 || streaming_list {
        // Objects are shared; their events are made when the watch is read.
        watch.initial = table
            .range(namespace)
            .filter(|(key, stored)| watch.selectors.matches(key, stored))
            .map(|(_, stored)| stored.clone())
            .collect();
        watch.cursor = current;
        watch.initial_end = streaming_list && bookmarks;
    } else if table.log.since(asked).is_none() {
        let message = format!("too old resource version: {asked} ({current})");
        watch.fail(&ApiError::expired(message));
    }
    Ok(watch)
}

impl Watch {
    /// The events as frames of a response body. With `unread` a frame waits
    /// until the limit permits it.
    pub fn into_stream(
        self,
        unread: Option<Arc<Semaphore>>,
    ) -> impl Stream<Item = Result<Frame<Bytes>, Dropped>> + Send {
        stream::unfold((self, unread), |(mut watch, unread)| async move {
            let mut bytes = watch.next().await?;
            let permits = Unread::permits(bytes.len());
            if let Some(unread) = &unread
                && permits > 0
                && let Ok(permit) = unread.clone().acquire_many_owned(permits).await
            {
                bytes = Unread::held(bytes, permit);
            }
            Some((Ok(Frame::data(bytes)), (watch, unread)))
        })
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            self.begin();
            if !self.ready.is_empty() {
                return Some(self.drain());
            }
            if self.done {
                return None;
            }
            let more = self.collect();
            if more || !self.ready.is_empty() || self.done {
                continue;
            }
            let wake =
                if self.bookmarks { self.next_bookmark.min(self.deadline) } else { self.deadline };
            // A change since the reading wakes as well.
            tokio::select! {
                biased;
                () = self.listener.woken() => self.done |= self.listener.is_ended(),
                () = tokio::time::sleep_until(wake) => self.tick(),
            }
        }
    }

    /// Makes ready what was there at the beginning, a part at a time.
    fn begin(&mut self) {
        if !self.ready.is_empty() {
            return;
        }
        let mut bytes = 0;
        while bytes < FRAME_BYTES
            && let Some(stored) = self.initial.pop_front()
        {
            let event = self.event("ADDED", &stored);
            bytes += event.len();
            self.ready.push_back(event);
        }
        if self.initial.is_empty() && std::mem::take(&mut self.initial_end) {
            let event = self.bookmark(true);
            self.ready.push_back(event);
        }
    }

    /// All that is ready, in one frame: fewer and larger writes.
    fn drain(&mut self) -> Bytes {
        if self.ready.len() == 1 {
            return self.ready.pop_front().unwrap_or_default();
        }
        let mut out = Vec::with_capacity(self.ready.iter().map(Bytes::len).sum());
        for event in self.ready.drain(..) {
            out.extend_from_slice(&event);
        }
        Bytes::from(out)
    }

    fn tick(&mut self) {
        let now = Instant::now();
        if self.bookmarks {
            let event = self.bookmark(false);
            self.ready.push_back(event);
            self.next_bookmark = now + BOOKMARK_EVERY;
        }
        self.done |= now >= self.deadline;
    }

    /// Takes changes since the cursor from the log; whether there are more, of
    /// which the next change alone would send.
    fn collect(&mut self) -> bool {
        let server = self.server.clone();
        let (changes, more) = {
            let state = server.state.lock();
            let current = state.store.revision();
            let Some(table) = state.store.table(&self.kind.storage) else { return false };
            let Some(mut changes) = table.log.unseen(self.cursor).map(Iterator::peekable) else {
                let message = format!("too old resource version: {} ({current})", self.cursor);
                drop(state);
                self.fail(&ApiError::expired(message));
                return false;
            };
            let (mut batch, mut bytes) = (Vec::<Change>::new(), 0);
            while batch.len() < BATCH
                && bytes < FRAME_BYTES
                && let Some(change) = changes.next()
            {
                bytes += change.after.json.len();
                batch.push(change.clone());
            }
            // With nothing left to see, what happened to other resources is seen as well.
            let more = changes.peek().is_some();
            self.cursor = match batch.last() {
                Some(last) if more => last.revision,
                _ => self.cursor.max(current),
            };
            (batch, more)
        };
        for change in changes {
            if self.namespace.as_ref().is_some_and(|ns| **ns != *change.key.namespace) {
                continue;
            }
            let selected = |stored: &Stored| self.selectors.matches(&change.key, stored);
            let before = change.before.as_ref().is_some_and(|before| selected(before));
            let after = !change.removed && selected(&change.after);
            let kind = match (before, after) {
                (false, false) => continue,
                (false, true) => "ADDED",
                (true, true) => "MODIFIED",
                (true, false) => "DELETED",
            };
            let event = if change.removed || after {
                self.event(kind, &change.after)
            } else {
                // It left the selection: shown as it was, at the revision of the change.
                let before = change.before.as_ref().map(|before| before.object());
                let mut last: Object = before.unwrap_or_default();
                last.value["metadata"]["resourceVersion"] = json!(change.revision.to_string());
                self.event(kind, &Stored::new(&last))
            };
            self.ready.push_back(event);
        }
        more
    }

    fn event(&mut self, kind: &str, stored: &Arc<Stored>) -> Bytes {
        let object = convert::served(&self.kind, stored);
        let rendered = match self.view {
            View::Object => return line(kind, &object.json),
            View::Metadata => return line(kind, &object.partial_json()),
            View::Table => {
                let meta = json!({"resourceVersion": object.revision.to_string()});
                let now = self.server.clock.now();
                let columns = !std::mem::replace(&mut self.columns_sent, true);
                table::table(&self.kind, &[object], self.include, meta, columns, now)
            }
        };
        line(kind, &to_json(&rendered))
    }

    fn bookmark(&self, initial_end: bool) -> Bytes {
        let (kind, api_version) = match self.view {
            View::Object => (self.kind.kind.clone(), self.kind.api_version()),
            View::Metadata => ("PartialObjectMetadata".to_owned(), "meta.k8s.io/v1".to_owned()),
            View::Table => ("Table".to_owned(), "meta.k8s.io/v1".to_owned()),
        };
        let mut object = json!({
            "kind": kind, "apiVersion": api_version,
            "metadata": {"resourceVersion": self.cursor.to_string(), "creationTimestamp": null},
        });
        if initial_end {
            object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        if self.view == View::Table {
            object["columnDefinitions"] = Value::Null;
            object["rows"] = json!([]);
        }
        line("BOOKMARK", &to_json(&object))
    }

    fn fail(&mut self, error: &ApiError) {
        self.ready.push_back(line("ERROR", &to_json(&error.status())));
        self.done = true;
    }
}

fn line(kind: &str, object: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(object.len() + 40);
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\",\"object\":");
    out.extend_from_slice(object);
    out.extend_from_slice(b"}\n");
    Bytes::from(out)
}
