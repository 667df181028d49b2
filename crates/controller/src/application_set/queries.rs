//! What services have answered to the generators of one ApplicationSet, kept between
//! reconciles.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;

use super::repositories::ReadRepositories;
use wavegate_api::ObjectKey;
use wavegate_providers::{ProviderAnswer, ProviderError, Providers};
use wavegate_rollout::desired::queries::{Answer, Query};

/// Limit on the bytes of all answers of one ApplicationSet: they are kept in memory.
const MAX_BYTES: usize = 256 << 20;

/// Queries of one ApplicationSet that are asked in parallel.
const PARALLEL: usize = 4;

/// An answer, or why there is none.
pub type QueryAnswer = Result<Arc<Answer>, String>;

/// The answers of one ApplicationSet.
#[derive(Debug, Default)]
pub struct Queries {
    known: BTreeMap<Query, Entry>,
    /// When an answer changed last.
    changed_at: Option<Timestamp>,
    /// Increased when an answer changes.
    pub version: u64,
}

#[derive(Debug)]
struct Entry {
    /// When it was asked last.
    asked_at: Timestamp,
    /// When it may be asked again, if the server has said so.
    not_before: Option<Timestamp>,
    answer: QueryAnswer,
}

impl Entry {
    /// When it is asked again: at an interval, and after a pause when there was no answer.
    fn due_at(&self, interval: Option<Duration>, after_error: Duration) -> Option<Timestamp> {
        let after_error = self.answer.is_err().then_some(after_error);
        let pause = [interval, after_error].into_iter().flatten().min()?;
        let due = self.asked_at.checked_add(pause).ok()?;
        Some(self.not_before.map_or(due, |not_before| due.max(not_before)))
    }

    fn may_be_asked(&self, now: Timestamp) -> bool {
        self.not_before.is_none_or(|not_before| not_before <= now)
    }
}

impl Queries {
    /// The answers, as generators take them.
    pub fn all(&self) -> BTreeMap<Query, QueryAnswer> {
        self.known.iter().map(|(query, entry)| (query.clone(), entry.answer.clone())).collect()
    }

    /// The queries whose time has come, or all with `at_once`; none before the time that its
    /// server has named.
    pub fn due(
        &self,
        interval: Option<Duration>,
        after_error: Duration,
        at_once: bool,
        now: Timestamp,
    ) -> BTreeSet<Query> {
        let is_due = |entry: &Entry| {
            entry.may_be_asked(now)
                && (at_once || entry.due_at(interval, after_error).is_some_and(|at| at <= now))
        };
        let due = self.known.iter().filter(|(_, entry)| is_due(entry));
        due.map(|(query, _)| query.clone()).collect()
    }

    /// When the next query is due.
    pub fn due_at(&self, interval: Option<Duration>, after_error: Duration) -> Option<Timestamp> {
        self.known.values().filter_map(|entry| entry.due_at(interval, after_error)).min()
    }

    /// When one was asked last.
    pub fn asked_at(&self) -> Option<Timestamp> {
        self.known.values().map(|entry| entry.asked_at).max()
    }

    /// Drops the answers to queries that are no longer asked.
    pub fn retain(&mut self, queries: &BTreeSet<Query>) {
        self.known.retain(|query, _| queries.contains(query));
    }

    /// Adds what was asked to the repositories that were read.
    pub fn with(&self, read: Option<ReadRepositories>) -> Option<ReadRepositories> {
        let asked_at = self.known.values().map(|entry| entry.asked_at).min();
        let (Some(asked_at), Some(changed_at)) = (asked_at, self.changed_at) else { return read };
        let places = self.known.keys().map(Query::place);
        Some(match read {
            None => ReadRepositories {
                places: Arc::new(places.collect()),
                read_at: asked_at,
                changed_at,
            },
            Some(read) => ReadRepositories {
                places: Arc::new(read.places.iter().cloned().chain(places).collect()),
                read_at: read.read_at.min(asked_at),
                changed_at: read.changed_at.max(changed_at),
            },
        })
    }

    /// The size in bytes of the answers to all other queries.
    fn size_beside(&self, query: &Query) -> usize {
        let others = self.known.iter().filter(|(other, _)| *other != query);
        others.filter_map(|(_, entry)| entry.answer.as_ref().ok()).map(|answer| answer.size()).sum()
    }

    /// Asks services.
    pub async fn ask(
        &mut self,
        queries: BTreeSet<Query>,
        providers: &Providers,
        set: &ObjectKey,
        now: Timestamp,
    ) {
        let asked = queries.into_iter().map(|query| {
            let before = self.known.get(&query).and_then(|entry| entry.answer.as_ref().ok());
            let before = before.cloned();
            async move {
                let answered = ask(providers, &query, before.as_deref(), set).await;
                (query, answered)
            }
        });
        let asked: Vec<_> = futures::stream::iter(asked).buffer_unordered(PARALLEL).collect().await;
        for (query, answered) in asked {
            let not_before = answered.as_ref().err().and_then(ProviderError::until);
            let answer = match answered {
                Ok(answer) if self.size_beside(&query) + answer.size() > MAX_BYTES => Err(format!(
                    "limit exceeded: the generators of the ApplicationSet are answered with more \
                     than {MAX_BYTES} bytes"
                )),
                Ok(answer) => Ok(Arc::new(answer)),
                Err(failure) => Err(failure.text),
            };
            if self.known.get(&query).is_none_or(|entry| entry.answer != answer) {
                self.version += 1;
                self.changed_at = Some(now);
            }
            self.known.insert(query, Entry { asked_at: now, not_before, answer });
        }
    }
}

/// Asks a service. What was there before and is missing now may have moved between two pages
/// while these were read: it counts as gone when it is missing a second time.
async fn ask(
    providers: &Providers,
    query: &Query,
    before: Option<&Answer>,
    set: &ObjectKey,
) -> Result<Answer, ProviderError> {
    let ProviderAnswer { answer, is_paged } = providers.ask(query, set).await?;
    let lacks_some = || {
        let now: BTreeSet<String> = answer.parts().into_iter().collect();
        before.is_some_and(|before| before.parts().iter().any(|part| !now.contains(part)))
    };
    match is_paged && lacks_some() {
        true => providers.ask(query, set).await.map(|again| again.answer),
        false => Ok(answer),
    }
}
