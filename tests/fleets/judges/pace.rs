//! The controllers do not ask more often than what happens gives reason to.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use kube_sim::{EventType, Exchange};

use super::{Judge, Known, Moment};
use crate::world::{Changed, Kind};

/// Requests in a minute in which nothing but the controllers changed anything: what is fixed, and
/// that of each Application.
const AT_REST: (usize, usize) = (20, 5);
/// Requests in any minute.
const AT_MOST: (usize, usize) = (300, 150);
/// Lists, watches, and questions about which kinds there are, in any minute. All of them are some
/// hundred; while they fail, they are repeated after pauses.
const LISTS: usize = 900;
/// How long nothing may have changed.
const REST: Duration = Duration::from_secs(60);

#[derive(Default)]
pub struct Pace {
    /// When, and for what.
    asked: VecDeque<(Timestamp, String)>,
    /// The same of lists.
    listed: VecDeque<(Timestamp, String)>,
    /// When something changed that was not written by the controllers only.
    stirred: Option<Timestamp>,
    has_said: bool,
}

impl Judge for Pace {
    fn name(&self) -> &'static str {
        "pace"
    }

    fn change(
        &mut self,
        _: &Known<'_>,
        changed: &Changed,
        moments: &[Moment],
    ) -> Result<(), String> {
        let is_deployed = matches!(changed.key.kind, Kind::Deployment | Kind::Job);
        let is_set = changed.key.kind == Kind::Set && changed.event == EventType::Added;
        if is_deployed || is_set || !moments.is_empty() {
            self.stirred = Some(changed.at);
        }
        Ok(())
    }

    fn request(
        &mut self,
        known: &Known<'_>,
        exchange: &Exchange,
        _: &[Changed],
    ) -> Result<(), String> {
        // Each replica renews or reads the Lease every two seconds.
        if exchange.request.resource == "leases" {
            return Ok(());
        }
        let now = exchange.answered;
        let what = format!("{} {}", exchange.request.verb, exchange.request.resource);
        let is_list = ["list", "watch"].contains(&&*exchange.request.verb)
            || exchange.request.resource.starts_with('/');
        let asked = if is_list { &mut self.listed } else { &mut self.asked };
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
        let limit = match (is_list, is_at_rest) {
            (true, _) => LISTS,
            (false, true) => most(AT_REST),
            (false, false) => most(AT_MOST),
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
