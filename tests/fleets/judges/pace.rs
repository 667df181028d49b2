//! The controllers do not ask more often than what happens gives reason to.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use kube_sim::Exchange;

use super::{Judge, Known, Verdict};
use crate::track::{Moment, begun};
use crate::world::Changed;

/// Requests in a minute in which nothing but the controllers changed anything: what is fixed, and
/// that of each Application.
const AT_REST: (usize, usize) = (20, 5);
/// Requests in any minute.
const AT_MOST: (usize, usize) = (300, 150);
/// Lists, watches, and questions about which kinds there are, in any minute. All of them are some
/// hundred; while they fail, they are repeated after pauses.
const LISTS: usize = 900;
/// The same in a minute in which nothing but the controllers changed anything: which kinds there
/// are is asked once, and each watch ends and is resumed.
const LISTS_AT_REST: usize = 55;
/// Requests of Leases of each replica in any minute: one is renewed, read or waited for every two
/// seconds.
const LEASES: usize = 120;
/// How long nothing may have changed.
const REST: Duration = Duration::from_secs(60);

#[derive(Default)]
pub struct Pace {
    /// When, and for what.
    asked: VecDeque<(Timestamp, String)>,
    /// The same of lists.
    listed: VecDeque<(Timestamp, String)>,
    /// The same of Leases.
    leases: VecDeque<(Timestamp, String)>,
    /// When something changed that the controllers did not write, or a sync began: one that fails
    /// gives reason for others, and for its own retries.
    stirred: Option<Timestamp>,
    has_said: bool,
}

impl Judge for Pace {
    fn change(&mut self, _: &Known<'_>, changed: &Changed, moments: &[Moment]) -> Verdict {
        if begun(moments).is_some() {
            self.stirred = Some(changed.at);
        }
        Ok(())
    }

    fn outside(&mut self, _: &Known<'_>, exchange: &Exchange, caused: &[Changed]) {
        if !caused.is_empty() {
            self.stirred = Some(exchange.answered);
        }
    }

    fn request(&mut self, known: &Known<'_>, exchange: &Exchange, _: &[Changed]) -> Verdict {
        let now = exchange.answered;
        let what = format!("{} {}", exchange.request.verb, exchange.request.resource);
        let is_list = ["list", "watch"].contains(&&*exchange.request.verb)
            || exchange.request.resource.starts_with('/');
        let is_lease = exchange.request.resource == "leases";
        let asked = match (is_lease, is_list) {
            (true, _) => &mut self.leases,
            (false, true) => &mut self.listed,
            (false, false) => &mut self.asked,
        };
        asked.push_back((now, what));
        let since = |at: Timestamp| Duration::try_from(now.duration_since(at)).unwrap_or_default();
        while asked.front().is_some_and(|(at, _)| since(*at) > REST) {
            asked.pop_front();
        }
        let asked = &*asked;
        let (count, apps) = (asked.len(), known.case.apps.len());
        let is_at_rest =
            self.stirred.is_some_and(|at| since(at) > REST * 2) && known.is_quiet_for(REST * 2);
        let most = |(fixed, each): (usize, usize)| fixed + each * apps;
        let limit = match (is_lease, is_list, is_at_rest) {
            (true, ..) => LEASES * known.case.replicas,
            (_, true, true) => LISTS_AT_REST,
            (_, true, false) => LISTS,
            (_, false, true) => most(AT_REST),
            (_, false, false) => most(AT_MOST),
        };
        if count > limit && !self.has_said {
            self.has_said = true;
            let at_rest = if is_at_rest { ", though nothing changes" } else { "" };
            let mut often: BTreeMap<&str, usize> = BTreeMap::new();
            for (_, what) in asked {
                *often.entry(what).or_default() += 1;
            }
            return Err(format!(
                "{count} requests in a minute of {apps} Applications{at_rest}: {often:?}"
            ));
        }
        Ok(())
    }
}
