//! Watches: a cursor into a resource's log of changes, woken by each change.
//!
//! A watcher holds no queue of its own: a slow one that falls behind what the
//! log keeps gets 410 Gone, as from the real one.

mod disturbance;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, Stream};
use http_body::Frame;
use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::effect::{Dropped, Effect};
use super::errors::ApiError;
use super::inner::Inner;
use super::kinds::Kind;
use super::listeners::Listener;
use super::log::Change;
use super::read;
use super::request::{Call, View};
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
    /// Events, and when to send those that are held back.
    ready: VecDeque<(Option<Instant>, Bytes)>,
    listener: Arc<Listener>,
    bookmarks: bool,
    next_bookmark: Instant,
    deadline: Instant,
    done: bool,
    silence: Silence,
    /// How long events are held back.
    delay: Duration,
    /// How many of the last events are to be sent again.
    repeats: usize,
    /// Whether the connection fails at the end.
    is_cut: bool,
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
    call: &Call<'_>,
) -> Result<Watch, ApiError> {
    let Call { path, query, view, record, effects, .. } = call;
    let (namespace, name) = (path.namespace.as_deref(), path.name.as_deref());
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
        view: *view,
        include: table::Include::parse(query.get("includeObject")),
        columns_sent: false,
        cursor: asked,
        initial: VecDeque::new(),
        initial_end: false,
        ready: VecDeque::new(),
        listener: table.listeners.add((*record).clone()),
        bookmarks,
        next_bookmark: now + BOOKMARK_EVERY,
        deadline: now + timeout,
        done: false,
        silence: Silence::None,
        delay: Duration::ZERO,
        repeats: 0,
        is_cut: false,
    };
    for effect in *effects {
        if let Effect::Disturb(disturbance) = effect {
            watch.listener.disturb(disturbance.clone());
        }
    }
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
            let mut bytes = match watch.next().await? {
                Ok(bytes) => bytes,
                Err(cut) => return Some((Err(cut), (watch, unread))),
            };
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

    async fn next(&mut self) -> Option<Result<Bytes, Dropped>> {
        loop {
            while let Some(disturbance) = self.listener.next_disturbance() {
                self.suffer(disturbance);
            }
            let now = Instant::now();
            let wake = match self.silence {
                Silence::ForEver => None,
                Silence::Until(end) if now < end => Some(end),
                Silence::Until(_) | Silence::None => {
                    self.begin();
                    if let Some(bytes) = self.drain(now) {
                        return Some(Ok(bytes));
                    }
                    if self.done && self.ready.is_empty() {
                        return std::mem::take(&mut self.is_cut).then_some(Err(Dropped));
                    }
                    if self.prepare(now) {
                        continue;
                    }
                    let held = self.ready.front().and_then(|(due, _)| *due);
                    [held, self.next_tick()].into_iter().flatten().min()
                }
            };
            // A change since the reading wakes as well.
            tokio::select! {
                biased;
                () = self.listener.woken() => {}
                () = until(wake) => {}
            }
        }
    }

    /// Makes ready what has happened meanwhile; whether there may be something to send.
    fn prepare(&mut self, now: Instant) -> bool {
        let before = self.ready.len();
        if !self.done {
            self.repeat();
            if self.collect() {
                return true;
            }
        }
        if self.ready.len() > before {
            return true;
        }
        let is_due = self.next_tick().is_some_and(|time| time <= now);
        if is_due {
            self.tick(now);
        }
        is_due
    }

    /// When there is something to do although nothing happens.
    fn next_tick(&self) -> Option<Instant> {
        let next =
            if self.bookmarks { self.next_bookmark.min(self.deadline) } else { self.deadline };
        (!self.done).then_some(next)
    }

    /// Makes ready what was there at the beginning, a part at a time unless it is held back.
    fn begin(&mut self) {
        let is_held = !self.delay.is_zero();
        if !self.ready.is_empty() && !is_held {
            return;
        }
        let mut bytes = 0;
        while (bytes < FRAME_BYTES || is_held)
            && let Some(stored) = self.initial.pop_front()
        {
            let event = self.event("ADDED", &stored);
            bytes += event.len();
            self.push(event);
        }
        if self.initial.is_empty() && std::mem::take(&mut self.initial_end) {
            let event = self.bookmark(true);
            self.push(event);
        }
    }

    fn push(&mut self, event: Bytes) {
        let due = (!self.delay.is_zero()).then(|| Instant::now() + self.delay);
        self.ready.push_back((due, event));
    }

    /// All that is to be sent now, in one frame: fewer and larger writes.
    fn drain(&mut self, now: Instant) -> Option<Bytes> {
        let is_due = |(due, _): &&(Option<Instant>, Bytes)| due.is_none_or(|due| due <= now);
        let count = self.ready.iter().take_while(is_due).count();
        if count < 2 {
            return self.ready.drain(..count).next().map(|(_, event)| event);
        }
        let mut out = Vec::with_capacity(self.ready.iter().map(|(_, event)| event.len()).sum());
        for (_, event) in self.ready.drain(..count) {
            out.extend_from_slice(&event);
        }
        Some(Bytes::from(out))
    }

    fn tick(&mut self, now: Instant) {
        if self.bookmarks {
            let event = self.bookmark(false);
            self.push(event);
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
        for change in &changes {
            if let Some(event) = self.event_of(change) {
                self.push(event);
            }
        }
        more
    }

    /// What a change is to this watch, if anything.
    fn event_of(&mut self, change: &Change) -> Option<Bytes> {
        if self.namespace.as_ref().is_some_and(|ns| **ns != *change.key.namespace) {
            return None;
        }
        let selected = |stored: &Stored| self.selectors.matches(&change.key, stored);
        let before = change.before.as_ref().is_some_and(|before| selected(before));
        let after = !change.removed && selected(&change.after);
        let kind = match (before, after) {
            (false, false) => return None,
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
        };
        if change.removed || after {
            return Some(self.event(kind, &change.after));
        }
        // It left the selection: shown as it was, at the revision of the change.
        let before = change.before.as_ref().map(|before| before.object());
        let mut last: Object = before.unwrap_or_default();
        last.value["metadata"]["resourceVersion"] = json!(change.revision.to_string());
        Some(self.event(kind, &Stored::new(&last)))
    }

    fn event(&mut self, kind: &str, stored: &Arc<Stored>) -> Bytes {
        let columns = !std::mem::replace(&mut self.columns_sent, true);
        let (include, now) = ((self.include, columns), self.server.clock.now());
        line(kind, &read::render(&self.kind, stored, self.view, include, now))
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
        self.ready.push_back((None, line("ERROR", &to_json(&error.status()))));
        self.done = true;
    }
}

/// Waits until a time, or for ever.
pub(crate) async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
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

/// Whether a watch sends anything.
#[derive(Clone, Copy, Debug, Default)]
enum Silence {
    #[default]
    None,
    Until(Instant),
    ForEver,
}
