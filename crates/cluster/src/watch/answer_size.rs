//! How large answers of API servers may be, each and together.
//!
//! Each destination cluster may be hostile, and there may be many of them: what they send at the same
//! time is limited by a sum. An answer takes what it has beyond a small size from a budget that all
//! share, and reads on when it has got it. So that several large ones do not wait for each other,
//! one at a time reads on without it.

use std::fmt;
use std::sync::{Arc, LazyLock};

use http_body_util::BodyExt as _;
use hyper::body::Bytes;
use kube::client::Body;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Largest answer in bytes: no page of a listing that is asked for here comes near it.
const MAX_ANSWER: usize = 256 << 20;
/// Largest event of a watch, and line of a log: an object has at most 3 MiB as it is sent, and its
/// text may be a few times as long as what is stored of it.
const MAX_LINE: usize = 32 << 20;
/// Most entries of a list: pages of 500 are asked for, and servers that ignore this have fewer
/// objects of a kind. Each takes half a kilobyte, whatever little it has.
const MAX_ENTRIES: usize = 500_000;
/// What an answer may have without a share of the budget: most pages.
const FREE_ANSWER: usize = 8 << 20;
/// The same of a line. There may be a hundred watches of each cluster.
const FREE_LINE: usize = 1 << 20;
/// What all answers take beyond it together, but for the one whose turn it is.
const BUDGET: usize = 128 << 20;
/// What is taken of the budget at once.
const SHARE: usize = 1 << 20;

/// An answer that is too large.
#[derive(Debug, thiserror::Error)]
pub(super) enum TooLarge {
    #[error("its answer has more than {} MiB", .0 >> 20)]
    Bytes(usize),
    #[error("its answer has more than {0} entries")]
    Entries(usize),
}

/// The limits of answers, and what they share.
#[derive(Clone, Debug)]
pub(super) struct AnswerLimits {
    pub(super) answer: usize,
    pub(super) line: usize,
    pub(super) entries: usize,
    pub(super) free_answer: usize,
    pub(super) free_line: usize,
    /// What is taken of the budget at once, in bytes.
    share: usize,
    budget: Arc<Semaphore>,
    turn: Arc<Semaphore>,
}

/// What an answer has of the budget; given back when it is dropped.
#[derive(Debug, Default)]
pub(super) struct Share {
    taken: Option<OwnedSemaphorePermit>,
    turn: Option<OwnedSemaphorePermit>,
}

impl AnswerLimits {
    /// Those of this process, which all its clients share.
    pub(super) fn of_process() -> Self {
        static LIMITS: LazyLock<AnswerLimits> = LazyLock::new(|| {
            AnswerLimits::new(MAX_ANSWER, MAX_LINE, MAX_ENTRIES).sharing(
                FREE_ANSWER,
                FREE_LINE,
                BUDGET,
                SHARE,
            )
        });
        LIMITS.clone()
    }

    /// Limits without a budget: everything is free.
    pub(super) fn new(answer: usize, line: usize, entries: usize) -> Self {
        let one = || Arc::new(Semaphore::new(1));
        let (free_answer, free_line) = (answer, line);
        Self { answer, line, entries, free_answer, free_line, share: 1, budget: one(), turn: one() }
    }

    /// The same with a budget for what is beyond this, in shares of so many bytes.
    pub(super) fn sharing(self, answer: usize, line: usize, budget: usize, share: usize) -> Self {
        let budget = Arc::new(Semaphore::new(budget / share));
        Self { free_answer: answer, free_line: line, share, budget, ..self }
    }

    /// Waits until an answer may have so many bytes more than what is free.
    async fn take(&self, share: &mut Share, beyond: usize) {
        let wanted = beyond.div_ceil(self.share);
        let taken = share.taken.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let missing = u32::try_from(wanted.saturating_sub(taken)).unwrap_or(u32::MAX);
        if missing == 0 || share.turn.is_some() {
            return;
        }
        let (budget, turn) = (Arc::clone(&self.budget), Arc::clone(&self.turn));
        // Neither is ever closed.
        tokio::select! {
            biased;
            Ok(more) = budget.acquire_many_owned(missing) => match &mut share.taken {
                Some(taken) => taken.merge(more),
                None => share.taken = Some(more),
            },
            turn = turn.acquire_owned() => share.turn = turn.ok(),
        }
    }

    /// Takes what a line needs that has so many bytes by now.
    pub(super) async fn take_for_line(
        &self,
        share: &mut Share,
        bytes: usize,
    ) -> Result<(), TooLarge> {
        if bytes > self.line {
            return Err(TooLarge::Bytes(self.line));
        }
        self.take(share, bytes.saturating_sub(self.free_line)).await;
        Ok(())
    }

    /// The whole body of an answer. Its share is given back with its bytes.
    pub(super) async fn collect(&self, mut body: Body) -> Result<Bytes, kube::Error> {
        let too_large = |error| kube::Error::Service(Box::new(error));
        let (mut share, mut bytes, mut parts) = (Share::default(), 0_usize, Vec::new());
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            bytes = bytes.saturating_add(data.len());
            if bytes > self.answer {
                return Err(too_large(TooLarge::Bytes(self.answer)));
            }
            self.take(&mut share, bytes.saturating_sub(self.free_answer)).await;
            parts.push(data);
        }
        let all = match <[Bytes; 1]>::try_from(parts) {
            Ok([one]) => one,
            Err(parts) => parts.concat().into(),
        };
        // Fewer are not worth a look: each has two bytes at least, with its comma.
        if all.len() / 2 > self.entries && has_more_entries(&all, self.entries) {
            return Err(too_large(TooLarge::Entries(self.entries)));
        }
        Ok(match share.taken.is_some() || share.turn.is_some() {
            true => Bytes::from_owner(Shared { all, _share: share }),
            false => all,
        })
    }
}

/// The bytes of an answer with its share.
struct Shared {
    all: Bytes,
    _share: Share,
}

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.all
    }
}

/// Whether a list has more entries; false for what is no list. Nothing of it is kept.
fn has_more_entries(answer: &[u8], most: usize) -> bool {
    let mut counted = Count { most, found: 0 };
    // An error ends the count; whoever decodes the answer reports what is wrong with it.
    let _ = serde_json::Deserializer::from_slice(answer).deserialize_map(&mut counted);
    counted.found > most
}

/// Counts the entries of the lists in an object.
struct Count {
    most: usize,
    found: usize,
}

impl<'de> Visitor<'de> for &mut Count {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with lists")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<std::borrow::Cow<'_, str>>()? {
            match &*key {
                "items" | "resources" | "groups" => map.next_value_seed(List(&mut *self))?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

struct List<'a>(&'a mut Count);

impl<'de> serde::de::DeserializeSeed<'de> for List<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for List<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {
            self.0.found += 1;
            if self.0.found > self.0.most {
                return Err(serde::de::Error::custom("too many entries"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
