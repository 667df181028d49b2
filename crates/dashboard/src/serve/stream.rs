//! What an open page is sent: the parts of its view that changed, once the cluster has
//! (PG-016). Pages of one person with the same view share what is made of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::Uri;
use futures::stream;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::page::Page;
use super::visitor::{Made, Visitor};
use crate::address::{Parameters, ViewName, segment};
use crate::view::parts::{Exchange, Part, Shown};
use crate::view::{View, make_view};

/// Open streams of all persons.
pub(super) const STREAMS: usize = 100;
/// Views whose parts are kept for the next stream.
pub(super) const KEPT: usize = 64;
/// The shortest time between two exchanges: what changes within is one.
const FRAME: Duration = Duration::from_millis(150);
/// The same for a view that is read from a cluster each time.
const SLOW_FRAME: Duration = Duration::from_millis(900);
/// How much of the time a view may take: it is made again after so many times what it took.
const SHARE: u32 = 3;
/// A page that does not read an exchange in this time is dropped; its browser connects again.
const READS: Duration = Duration::from_secs(10);
/// A silent stream says that it is there.
const SILENT: Duration = Duration::from_secs(20);

/// One exchange, for the script.
#[derive(Serialize)]
struct Sent<'a> {
    revision: u64,
    #[serde(flatten)]
    exchange: &'a Exchange,
}

/// The address of the changes of a view since a revision; `None` for one that does not change by
/// itself, or costs too much to be made again and again.
pub(super) fn stream_address(name: &ViewName, uri: &Uri, since: u64) -> Option<String> {
    if matches!(name, ViewName::Plan(_) | ViewName::Keys) {
        return None;
    }
    let asked = Parameters::parse(uri.query().unwrap_or_default()).without("diff");
    let query = if asked.is_empty() { String::new() } else { format!("?{asked}") };
    let view = segment(&format!("{}{query}", uri.path()));
    Some(format!("/events?since={since}&view={view}"))
}

/// A stream that is counted until it is dropped.
struct Place(Arc<Page>, Arc<Visitor>);

impl Place {
    /// `None` when too many are open.
    fn take(page: &Arc<Page>, visitor: &Arc<Visitor>) -> Option<Self> {
        let count = |open: &AtomicUsize, most: usize| {
            let more = |open| (open < most).then_some(open + 1);
            open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()
        };
        count(&page.open, STREAMS)?;
        if count(&visitor.open, visitor.streams).is_none() {
            page.open.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Self(Arc::clone(page), Arc::clone(visitor)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.1.touch();
        self.1.open.fetch_sub(1, Ordering::Relaxed);
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The changes of a view since a revision, as server-sent events; `None` when too many are open.
pub(super) fn follow_view(
    page: &Arc<Page>,
    visitor: &Arc<Visitor>,
    name: ViewName,
    asked: Parameters,
    since: Option<u64>,
) -> Option<Body> {
    let place = Place::take(page, visitor)?;
    let (sender, receiver) = mpsc::channel::<Bytes>(1);
    tokio::spawn(async move {
        let closed = sender.clone();
        tokio::select! {
            () = closed.closed() => {}
            () = place.0.stop.cancelled() => {}
            () = place.1.ended.cancelled() => {}
            () = follow(&place.1, &name, &asked, since, &sender) => {}
        }
    });
    let body = stream::unfold(receiver, |mut receiver| async move {
        let bytes = receiver.recv().await?;
        Some((Ok::<_, std::convert::Infallible>(bytes), receiver))
    });
    Some(Body::from_stream(body))
}

async fn follow(
    visitor: &Visitor,
    name: &ViewName,
    asked: &Parameters,
    since: Option<u64>,
    sender: &mpsc::Sender<Bytes>,
) {
    let mut changes = visitor.reports.state();
    let key = format!("{name:?} {asked:?}");
    let mut shown = Shown::default();
    let mut is_first = true;
    loop {
        changes.mark_unchanged();
        let begin = Instant::now();
        let (revision, parts, took) = visitor.made(&key, name, asked).await;
        // What the page was written with, it need not get again.
        if std::mem::take(&mut is_first) && since == Some(revision) {
            shown = Shown::of(&parts);
            if !send(sender, ": here\n\n".to_owned()).await {
                return;
            }
        } else {
            let exchange = shown.exchange(&parts);
            if !exchange.is_empty() {
                let Ok(data) = serde_json::to_string(&Sent { revision, exchange: &exchange })
                else {
                    return;
                };
                if !send(sender, format!("event: exchange\ndata: {data}\n\n")).await {
                    tracing::warn!("a page that does not read was dropped");
                    return;
                }
            }
        }
        drop(parts);
        let frame = if matches!(name, ViewName::Application(_)) { SLOW_FRAME } else { FRAME };
        sleep(frame.max(took * SHARE).saturating_sub(begin.elapsed())).await;
        loop {
            match tokio::time::timeout(SILENT, changes.changed()).await {
                Ok(Ok(())) => break,
                Ok(Err(_)) => return,
                Err(_) if !send(sender, ": here\n\n".to_owned()).await => return,
                Err(_) => {}
            }
        }
    }
}

/// Sends; `false` when the page does not read, or is gone.
async fn send(sender: &mpsc::Sender<Bytes>, text: String) -> bool {
    matches!(tokio::time::timeout(READS, sender.send(Bytes::from(text))).await, Ok(Ok(())))
}

impl Visitor {
    /// A view as it is now: made once for each revision.
    async fn made(
        &self,
        key: &str,
        name: &ViewName,
        asked: &Parameters,
    ) -> (u64, Arc<Vec<Part>>, Duration) {
        let slot = {
            let mut made = self.made.lock().await;
            if made.len() >= self.kept && !made.contains_key(key) {
                made.clear();
            }
            Arc::clone(made.entry(key.to_owned()).or_default())
        };
        let mut slot = slot.lock().await;
        let context = self.context(Some(name), None).await;
        let revision = context.state.revision;
        if slot.revision != Some(revision) {
            let begin = Instant::now();
            let View { parts, .. } = make_view(&self.reports, name, asked, &context).await;
            *slot =
                Made { revision: Some(revision), parts: Arc::new(parts), took: begin.elapsed() };
        }
        (revision, Arc::clone(&slot.parts), slot.took)
    }
}
