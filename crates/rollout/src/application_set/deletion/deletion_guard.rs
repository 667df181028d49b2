//! Generators that find nothing where they found something: their Applications
//! are not deleted until a person approves it.
//!
//! A renamed directory, a lost cluster Secret, an empty answer or a misspelt pattern looks like a
//! wish to delete every Application. What is meant is written in the spec: a list without elements,
//! an element that is removed, a set that is deleted. So:
//!
//! - A generator is *emptied* when it yields no parameter set now, and has yielded
//!   some before. A generator inside of `matrix` and `merge` counts by itself, all its evaluations
//!   together.
//! - An element of `spec.generators` that was added or changed is emptied when it yields
//!   nothing at all, and one that is not there any more yielded something: it takes the
//!   place of that. The same holds in sets that read nothing outside of the spec, of which nothing
//!   is stored: a selector may match no element of a list.
//! - A `pullRequest` generator whose complete answer selects no pull request has ended, and
//!   is not emptied: this is how a preview environment ends. Nor is a `matrix` or `merge`
//!   around it that is empty for this reason. One whose repository does not exist is emptied.
//!   A list that is written without elements has ended, too.
//! - While one is emptied, no Application of the set is deleted for not being
//!   generated. Creates and updates go on. The condition `DeletionsHeld` names
//!   the generator, the Applications and the command that approves.
//! - A generator that finds less than before, but something, deletes as in Argo
//!   CD: a removed directory or cluster is an ordinary change. A policy may limit how many
//!   Applications one generation deletes (`over`, ST-050).
//! - Deletions are held as well while another set may be meant to take the
//!   Applications over and cannot be generated ([`others`](crate::application_set::plan::ownership_transfer)).
//! - A change of an element of `spec.generators` that yields something is a person's word about
//!   that one: what it generates no longer is deleted. Another element that is emptied stays
//!   emptied, wherever it is in the list now.
//! - An approval is the hash of the names and UIDs, so that it covers no
//!   others ([`DeletionApproval`]). Before the first deletion, what it names is written beside it: the rest
//!   of them needs no other one when a deletion fails, or the controller ends. It is removed when
//!   nothing is held.
//! - What a generator found is stored before its Applications are created, and
//!   kept as long as one of them is left: it is not forgotten because another
//!   generator is emptied, a policy forbids the deletion, or a write fails.
//! - The plain `clusters` generator yields the local cluster without any
//!   Secret, so its Secrets count by themselves.
//!
//! What generators found is stored in an annotation of the set
//! ([`FOUND`]), which every definition keeps, with
//! a digest of each element of `spec.generators`. Only sets that read clusters or repositories
//! have it: what others generate follows from their spec. Without it, every
//! generator counts as one that has found something: a controller that did not
//! store it may have created the Applications.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::application_set::deletion::approval::DeletionApproval;
use crate::application_set::generate::generated::Generated;
use crate::application_set::generate::generator_history::{self, GeneratorHistory};
use crate::application_set::plan::write_plan::{Held, WritePlan};
use crate::application_set::settings::DecisionSettings;
use crate::application_set::status::stored::{MESSAGE_LIMIT, StoredApplicationSet};
use crate::desired::inputs::{CLUSTER_SECRETS, Finding};
use crate::rollout::policy::Max;
use crate::rollout::status::cut;
use wavegate_api::annotations::{APPROVED_DELETIONS, EXISTED, FOUND};
use wavegate_api::conditions::application_set::reason;
use wavegate_engine::names::some_of;

/// Deletions that are held until a person approves them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldDeletions {
    /// The condition's reason.
    pub reason: &'static str,
    /// The condition's message.
    pub message: String,
}

/// The outcome.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HoldDecision {
    /// The deletions that are held.
    pub held: Option<HeldDeletions>,
    /// The annotations of the set to write before anything else, as a merge patch of them.
    pub annotations: Option<Value>,
}

/// What may hold deletions.
#[derive(Clone, Debug)]
pub struct HoldReasons<'a> {
    /// Whether the set owns Applications that it does not generate, whatever keeps them from
    /// being deleted: while there are any, an emptied generator stays emptied.
    pub has_left: bool,
    /// The other sets that may be meant to take them over, and cannot be generated.
    pub failed: &'a [&'a str],
    /// Whether other sets are not known yet: an approval may still be needed.
    pub is_waiting: bool,
    /// That there are more deletions than a policy permits (ST-050).
    pub over: Option<String>,
}

/// That a plan deletes more Applications than the policies of a set permit (ST-050). `exist` is
/// how many the set had before the change.
pub(crate) fn over(limits: &[(String, Max)], deletes: usize, exist: usize) -> Option<String> {
    let exceeded = limits.iter().find_map(|(policy, max)| {
        // A share of one is at least one.
        let limit = match max {
            Max::Count(count) => *count,
            Max::Percent(0) => 0,
            Max::Percent(_) => max.of(exist as u64).max(1),
        };
        (deletes as u64 > limit).then_some((policy, max, limit))
    });
    let (policy, max, limit) = exceeded?;
    let max = match max {
        Max::Count(_) => String::new(),
        Max::Percent(_) => format!(", {max} of {exist}"),
    };
    Some(format!(
        "{deletes} Applications would be deleted, and policy {policy} permits {limit}{max}"
    ))
}

/// The same while policies that applied to the set cannot be read: any may limit deletions.
pub fn over_hidden(policies: &[String], deletes: usize) -> Option<String> {
    let may_limit = deletes > 0 && !policies.is_empty();
    may_limit.then(|| {
        format!(
            "{deletes} Applications would be deleted, and RolloutPolicies that may limit this cannot \
             be read ({} applied before)",
            some_of(policies, NAMED.0)
        )
    })
}

/// Removes the deletions from a plan that emptied generators ask for, or that another set may
/// be meant to prevent.
pub(crate) fn hold(
    set: &StoredApplicationSet,
    generated: &Generated,
    settings: &DecisionSettings,
    doubts: HoldReasons<'_>,
    writes: &mut WritePlan,
) -> HoldDecision {
    if generated.error.is_some() || !settings.hold_deletions && doubts.over.is_none() {
        return HoldDecision::default();
    }
    let reads = &generated.reads;
    let has_read = reads.clusters || !reads.git.is_empty() || !reads.queries.is_empty();
    let is_observed = settings.hold_deletions && has_read;
    let now = is_observed.then(|| GeneratorHistory::of(generated));
    let stored = set.found.as_ref().zip(now.as_ref()).map(|(stored, now)| stored.moved_to(&now.of));
    let emptied = match (settings.hold_deletions, &now, &set.found) {
        (false, ..) => Vec::new(),
        (true, None, _) => emptied(&reads.found, |place| is_all_empty(place, &reads.found)),
        (true, Some(_), None) => emptied(&reads.found, |_| true),
        (true, Some(now), Some(before)) => emptied_since(before, now, &reads.found),
    };
    let is_sure = emptied.is_empty() && doubts.failed.is_empty() && doubts.over.is_none();
    if !doubts.has_left || is_sure {
        let is_needed = doubts.has_left && doubts.is_waiting;
        let ends = (set.approved_deletions.is_some() && !is_needed).then_some(Value::Null);
        return HoldDecision { annotations: annotations(set, now.as_ref(), ends), held: None };
    }
    // What was found is kept until its Applications are gone, or their deletion is approved.
    let kept = match (&stored, &now) {
        (Some(stored), Some(now)) if !emptied.is_empty() => {
            let found = stored.generators.union(&now.generators);
            // Also in the place of what is not there any more.
            let generators = found.chain(&emptied).cloned().collect();
            annotations(set, Some(&GeneratorHistory { of: now.of.clone(), generators }), None)
        }
        (None, Some(_)) if !emptied.is_empty() => None,
        (_, now) => annotations(set, now.as_ref(), None),
    };
    if writes.deletes.is_empty() {
        // They wait for something else, or the policy forbids it.
        return HoldDecision { annotations: kept, held: None };
    }
    let approval = set.approved_deletions.as_deref().and_then(DeletionApproval::read);
    if let Some(approval) = approval.filter(|approval| approval.covers(&writes.deletes)) {
        let recorded = approval.recorded(&writes.deletes);
        // The approval is removed when they are gone.
        let annotations = annotations(set, now.as_ref(), recorded.map(Value::from));
        if annotations.is_some() {
            *writes = std::mem::take(writes).without_deletes("the approval is recorded");
        }
        return HoldDecision { annotations, held: None };
    }
    let hash = DeletionApproval::of(&writes.deletes);
    *writes = std::mem::take(writes).without_deletes("a person approves it");
    let (reason, why) = match (emptied.is_empty(), doubts.over) {
        (false, _) => (reason::GENERATOR_FOUND_NOTHING, of_emptied(&emptied)),
        (true, Some(over)) if doubts.failed.is_empty() => (reason::TOO_MANY_DELETIONS, over),
        (true, _) => (reason::OTHER_SET_UNKNOWN, of_failed(doubts.failed)),
    };
    let message = message(set, &why, writes.held.as_ref(), &hash);
    HoldDecision { held: Some(HeldDeletions { reason, message }), annotations: kept }
}

/// Stores how many Applications a set had before it was to delete some, as long as it has any that it
/// does not generate: what is created in the meantime is no more to delete from.
pub(crate) fn remember(
    decision: &mut HoldDecision,
    set: &StoredApplicationSet,
    had: Option<usize>,
) {
    if had == set.existed {
        return;
    }
    let value = had.map_or(Value::Null, |had| had.to_string().into());
    let annotations = decision.annotations.get_or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(annotations) = annotations {
        annotations.insert(EXISTED.to_owned(), value);
    }
}

/// The most generators or sets in a message, and the most characters of each.
const NAMED: (usize, usize) = (2, 160);

fn of_emptied(emptied: &[String]) -> String {
    let named = named(emptied.iter().map(String::as_str), "generators");
    format!("{named} found nothing where something was found before")
}

fn of_failed(failed: &[&str]) -> String {
    let named = named(failed.iter().copied(), "ApplicationSets");
    format!(
        "ApplicationSet {named} cannot be generated, and may be meant to take them over: its condition \
         ErrorOccurred says what to mend"
    )
}

fn named<'a>(all: impl ExactSizeIterator<Item = &'a str>, what: &str) -> String {
    let more = match all.len().saturating_sub(NAMED.0) {
        0 => String::new(),
        more => format!(" and {more} more {what}"),
    };
    let shown: Vec<&str> = all.take(NAMED.0).map(|one| cut(one, NAMED.1)).collect();
    format!("{}{more}", shown.join(", "))
}

/// Before the command in the message of the condition.
const COMMAND: &str = "; to delete them: kubectl ";

/// What the message of a condition holds, and the approval that it asks for; `None` for a message
/// of another form. Argo CD's definition has no field for it.
pub fn approval_of(message: &str) -> Option<(&str, &str)> {
    let (what, command) = message.rsplit_once(COMMAND)?;
    let (_, hash) = command.rsplit_once('=')?;
    let is_hash = hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then_some((what, hash))
}

/// The message of the condition. The command is at its end; what is before it is shortened.
fn message(set: &StoredApplicationSet, why: &str, held: Option<&Held>, hash: &str) -> String {
    let held = held.map(Held::to_string).unwrap_or_default();
    let other = match &set.approved_deletions {
        Some(other) => format!("; {APPROVED_DELETIONS}={} is no approval of these", cut(other, 16)),
        None => String::new(),
    };
    let command = format!(
        "{COMMAND}-n {} annotate applicationset {} --overwrite {APPROVED_DELETIONS}={hash}",
        set.id.namespace, set.id.name,
    );
    let text = format!("{why}; {held}{other}");
    format!("{}{command}", cut(&text, MESSAGE_LIMIT.saturating_sub(command.len())))
}

/// The annotations of the set to write: what was found, and the approval if it changes, to null
/// when it is not needed any more.
fn annotations(
    set: &StoredApplicationSet,
    found: Option<&GeneratorHistory>,
    approval: Option<Value>,
) -> Option<Value> {
    let found = found.filter(|found| set.found.as_ref() != Some(*found));
    let found = found.map(|found| (FOUND.to_owned(), found.text().into()));
    let approval = approval.map(|approval| (APPROVED_DELETIONS.to_owned(), approval));
    let annotations: serde_json::Map<String, Value> = found.into_iter().chain(approval).collect();
    (!annotations.is_empty()).then(|| annotations.into())
}

type Found = BTreeMap<String, Finding>;

/// Whether all of the element of `spec.generators` that a generator is in finds nothing.
fn is_all_empty(place: &str, found: &Found) -> bool {
    generator_history::outermost(place)
        .is_some_and(|outermost| found.get(outermost) == Some(&Finding::Nothing))
}

/// The generators that find nothing, and found something when `before` was stored, or are in the
/// place of one that did.
fn emptied_since(before: &GeneratorHistory, now: &GeneratorHistory, found: &Found) -> Vec<String> {
    let kept = before.moved_to(&now.of);
    let lost = before.not_in(&now.of);
    let has_secrets = |place: &str| place.ends_with(CLUSTER_SECRETS);
    let takes_place = |place: &str| match has_secrets(place) {
        true => lost.iter().any(|lost| has_secrets(lost)),
        false => !lost.is_empty() && is_all_empty(place, found),
    };
    emptied(found, |place| {
        kept.generators.contains(place) || !before.has_element(place, now) && takes_place(place)
    })
}

/// The generators that find nothing, by their paths, for people who look before they apply. What
/// has ended is none of them, nor a generator of which another evaluation finds something.
pub fn found_nothing(found: &BTreeMap<String, Finding>) -> BTreeSet<&str> {
    let of = |wanted: Finding| found.iter().filter(move |(_, found)| **found == wanted);
    let goes_on: BTreeSet<&str> =
        of(Finding::Something).map(|(place, _)| generator(place)).collect();
    let empty = emptied(found, |place| !goes_on.contains(generator(place)));
    let known = found.keys().filter(|place| empty.contains(place));
    known.map(|place| generator(place)).collect()
}

/// The generators that find nothing, of those that are known to have found something; of those
/// inside of each other, the inner ones, which are the cause. One that has ended is no reason, nor
/// what is empty by it.
fn emptied(found: &Found, is_known: impl Fn(&str) -> bool) -> Vec<String> {
    let of = |wanted: Finding| found.iter().filter(move |(_, found)| **found == wanted);
    let empty = of(Finding::Nothing).filter(|(place, _)| is_known(place));
    let empty: Vec<&String> = empty.map(|(place, _)| place).collect();
    let is_around = |place: &str, other: &str| {
        other.strip_prefix(place).is_some_and(|below| below.starts_with('.'))
    };
    let is_cause = |place: &&String| !empty.iter().any(|other| is_around(place, other));
    // All evaluations of a generator have ended, or it is not the reason.
    let goes_on: BTreeSet<&str> =
        of(Finding::Something).map(|(place, _)| generator(place)).collect();
    let has_ended = |place: &&String| {
        let below = of(Finding::Ended).filter(|(other, _)| is_around(place, other));
        below.map(|(other, _)| generator(other)).any(|other| !goes_on.contains(other))
    };
    empty.iter().copied().filter(is_cause).filter(|place| !has_ended(place)).cloned().collect()
}

/// The path of the generator of an evaluation.
fn generator(place: &str) -> &str {
    let of = place.strip_suffix(']').and_then(|place| place.rsplit_once('['));
    of.map_or(place, |(generator, _)| generator)
}

#[cfg(test)]
mod tests {
    use super::{Found, GeneratorHistory, emptied, emptied_since, found_nothing, over_hidden};
    use crate::desired::inputs::Finding::{self, Ended, Nothing, Something};

    fn found(all: &[(&str, Finding)]) -> Found {
        all.iter().map(|(place, found)| ((*place).to_owned(), *found)).collect()
    }

    fn history(of: &[&str], found: &[&str]) -> GeneratorHistory {
        GeneratorHistory {
            of: of.iter().map(|&one| one.to_owned()).collect(),
            generators: found.iter().map(|&one| one.to_owned()).collect(),
        }
    }

    const GIT: &str = "spec.generators[0].git";
    const LIST: &str = "spec.generators[1].list";
    const MATRIX: &str = "spec.generators[0].matrix";
    const FIRST: &str = "spec.generators[0].matrix.generators[0].git";
    const SECOND: &str = "spec.generators[0].matrix.generators[1].list";

    /// Of those inside of each other the inner ones, and nothing that has ended.
    #[test]
    fn an_emptied_generator_is_the_innermost_that_finds_nothing() {
        let one = |place: &str, hash: &str| format!("{place}[{hash}]");
        let (a, b) = (one(SECOND, "a"), one(SECOND, "b"));
        for (all, want, generators) in [
            (vec![(GIT, Something), (LIST, Something)], vec![], vec![]),
            (vec![(GIT, Nothing), (LIST, Something)], vec![GIT], vec![GIT]),
            (vec![(GIT, Ended)], vec![], vec![]),
            (vec![(MATRIX, Nothing), (FIRST, Nothing)], vec![FIRST], vec![FIRST]),
            (vec![(MATRIX, Nothing), (FIRST, Something)], vec![MATRIX], vec![MATRIX]),
            (vec![(MATRIX, Nothing), (FIRST, Ended)], vec![], vec![]),
            // Another one goes on.
            (vec![(MATRIX, Nothing), (&a, Ended), (&b, Something)], vec![MATRIX], vec![MATRIX]),
            // One evaluation of a generator finds something.
            (vec![(&a, Nothing), (&b, Something)], vec![&a], vec![]),
            (vec![(&a, Nothing), (&b, Nothing)], vec![&a, &b], vec![SECOND]),
            // Not inside of each other.
            (
                vec![("g[0].a", Nothing), ("g[0].ab", Nothing)],
                vec!["g[0].a", "g[0].ab"],
                vec!["g[0].a", "g[0].ab"],
            ),
        ] {
            let all = found(&all);
            assert_eq!(emptied(&all, |_| true), want, "{all:?}");
            assert_eq!(emptied(&all, |_| false), [] as [&str; 0], "{all:?}");
            assert_eq!(found_nothing(&all).into_iter().collect::<Vec<_>>(), generators, "{all:?}");
        }
    }

    /// What found something before, or is in the place of what did.
    #[test]
    fn a_generator_is_emptied_since_it_found_something() {
        const SECRETS: &str = "spec.generators[0].clusters (cluster Secrets)";
        const CLUSTERS: &str = "spec.generators[0].clusters";
        let nothing = [(GIT, Nothing)];
        let clusters = [(CLUSTERS, Something), (SECRETS, Nothing)];
        for (name, before, of, all, want) in [
            ("found before", history(&["a"], &[GIT]), &["a"][..], &nothing[..], vec![GIT]),
            ("found nothing before", history(&["a"], &[]), &["a"], &nothing, vec![]),
            ("in the place of another", history(&["a"], &[GIT]), &["b"], &nothing, vec![GIT]),
            ("in the place of an empty one", history(&["a"], &[]), &["b"], &nothing, vec![]),
            ("it has moved", history(&["b", "a"], &[LIST]), &["a"], &nothing, vec![]),
            (
                "a new one beside",
                history(&["a"], &[LIST]),
                &["b", "a"],
                &[(GIT, Nothing), (LIST, Something)],
                vec![],
            ),
            (
                "not all of the new one is empty",
                history(&["a"], &[GIT]),
                &["b"],
                &[(MATRIX, Something), (FIRST, Nothing)],
                vec![],
            ),
            ("Secrets as before", history(&["a"], &[SECRETS]), &["a"], &clusters, vec![SECRETS]),
            ("in their place", history(&["a"], &[SECRETS]), &["b"], &clusters, vec![SECRETS]),
            ("in the place of git", history(&["a"], &[GIT]), &["b"], &clusters, vec![]),
        ] {
            let now = history(of, &[]);
            assert_eq!(emptied_since(&before, &now, &found(all)), want, "{name}");
        }
    }

    /// Any of the policies that cannot be read may limit deletions.
    #[test]
    fn hidden_policies_may_limit_deletions_as_st_050() {
        let policies = ["a".to_owned(), "b".to_owned()];
        assert_eq!(over_hidden(&policies, 0), None);
        assert_eq!(over_hidden(&[], 3), None);
        assert_eq!(
            over_hidden(&policies, 3).unwrap(),
            "3 Applications would be deleted, and RolloutPolicies that may limit this cannot be \
             read (a, b applied before)"
        );
    }
}
