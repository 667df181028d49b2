//! The differences of targets and live objects, and what is kept of them for the next comparison
//! (SE-140 … SE-149, SE-158).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use crate::compared::ComparisonFacts;
use crate::memory::digest_of;
use crate::predicted::Prediction;
use crate::targets::PlacedTarget;
use wavegate_api::Raw;
use wavegate_api::annotations::TRACKING_ID;
use wavegate_api::raw::object_at;
use wavegate_api::tracking::Tracking;
use wavegate_engine::diff;
use wavegate_engine::sync::ObjectClass;

/// Results of earlier comparisons: an event of one object does not compare the
/// others again. An entry is valid for one version of the live object, one
/// target, one prediction of the server and one digest of the rules.
#[derive(Debug, Default)]
pub struct DiffCache(Mutex<Differences>);

#[derive(Debug, Default)]
struct Differences {
    rules: u64,
    /// By the digest of the target's key.
    entries: HashMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    /// Digest of UID and resource version of the live object, of the target and the prediction.
    of: u64,
    difference: Difference,
}

/// The result of comparing two objects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Difference {
    pub(crate) modified: bool,
    /// Ignore rules that exceed a limit.
    pub(crate) exhausted: Vec<String>,
}

impl DiffCache {
    /// The differences of all targets with a live object, by the digest of the key. Those of
    /// earlier comparisons that are not needed any more are removed.
    pub(crate) fn differences(&self, facts: &ComparisonFacts<'_>) -> HashMap<u64, Difference> {
        let mut known = self.0.lock();
        let found = known.all(facts);
        let present: HashSet<u64> =
            facts.targets.iter().map(|target| target.key.digest()).collect();
        known.entries.retain(|key, _| present.contains(key));
        found
    }

    /// Removes everything when the digest of the rules has changed.
    pub fn follow(&self, rules: u64) {
        let mut known = self.0.lock();
        if known.rules != rules {
            known.entries.clear();
            known.rules = rules;
        }
    }
}

/// How many objects are compared at a time: their ignore rules are evaluated together.
const TOGETHER: usize = 256;

impl Differences {
    /// The differences of all targets with a live object, by the digest of the key.
    fn all(&mut self, facts: &ComparisonFacts<'_>) -> HashMap<u64, Difference> {
        let mut found = HashMap::new();
        let (mut unknown, mut answered) = (Vec::new(), Vec::new());
        for target in facts.targets.iter().filter(|target| target.class == ObjectClass::Resource) {
            let live = facts.live.get(&target.key).filter(|_| !target.key.name.is_empty());
            let Some(live) = live else { continue };
            let (answer, answer_digest) = match prediction(facts, target, Some(live)) {
                // What would change is not known.
                Some(Prediction::Failed(_)) => continue,
                Some(Prediction::Answer(answer, of)) => (Some(&**answer), Some(*of)),
                None => (None, None),
            };
            let (key, of) = (target.key.digest(), version(target, live, answer_digest));
            let (object, live) = (&*target.object, &**live);
            match (self.entries.get(&key).filter(|entry| Some(entry.of) == of), answer) {
                (Some(entry), _) => drop(found.insert(key, entry.difference.clone())),
                (None, Some(answer)) if migrated(facts.tracking, object, live).is_none() => {
                    answered.push((key, of, (object, live, answer)));
                }
                // As in `compare_objects`.
                (None, _) => unknown.push((key, of, object, live)),
            }
        }
        // Without server-side diff, nothing is answered.
        let how = facts.config.server_side.unwrap_or_default();
        for some in answered.chunks(TOGETHER) {
            let predicted: Vec<_> = some.iter().map(|(.., predicted)| *predicted).collect();
            for ((key, of, _), compared) in
                some.iter().zip(diff::compare_all_predicted(&predicted, facts.config, how))
            {
                found.insert(*key, self.keep(*key, *of, compared));
            }
        }
        for some in unknown.chunks(TOGETHER) {
            let migrated: Vec<Option<Value>> = (some.iter())
                .map(|(.., target, live)| migrated(facts.tracking, target, live))
                .collect();
            let pairs: Vec<(&Value, &Value)> = (some.iter().zip(&migrated))
                .map(|((.., target, live), migrated)| (*target, migrated.as_ref().unwrap_or(live)))
                .collect();
            for ((key, of, ..), compared) in
                some.iter().zip(diff::compare_all(&pairs, facts.config))
            {
                found.insert(*key, self.keep(*key, *of, compared));
            }
        }
        found
    }

    /// The difference, which is kept for the next comparison if it is final.
    fn keep(&mut self, key: u64, of: Option<u64>, compared: diff::Comparison) -> Difference {
        let is_provisional = compared.is_provisional;
        let difference =
            Difference { modified: compared.modified, exhausted: compared.exhausted_rules };
        if let Some(of) = of.filter(|_| !is_provisional) {
            self.entries.insert(key, Entry { of, difference: difference.clone() });
        }
        difference
    }
}

/// The digest of what a difference depends on besides the rules; `None` when it is not known.
fn version(target: &PlacedTarget, live: &Value, predicted: Option<u64>) -> Option<u64> {
    let version = Some(live.resource_version()).filter(|version| !version.is_empty())?;
    let uid = Some(live.uid()).filter(|uid| !uid.is_empty())?;
    Some(digest_of(&(uid, version, target.digest, predicted)))
}

/// What the server predicts of an object, if it was asked.
pub(crate) fn prediction<'a>(
    facts: &ComparisonFacts<'a>,
    target: &PlacedTarget,
    live: Option<&Arc<Value>>,
) -> Option<&'a Prediction> {
    facts.config.server_side?;
    live.filter(|_| target.class == ObjectClass::Resource)?;
    facts.predicted.get(&target.key)
}

/// The difference of a target and its live object; the one comparison of both. `predicted` is
/// what the server says that the live object would become (SE-158).
pub fn compare_objects(
    tracking: &Tracking,
    config: &diff::DiffConfig,
    (target, live): (&Value, &Value),
    predicted: Option<&Value>,
    values: diff::Values,
) -> diff::Comparison {
    let migrated = migrated(tracking, target, live);
    let found = migrated.as_ref().unwrap_or(live);
    match (predicted, config.server_side) {
        (Some(answer), Some(how)) if migrated.is_none() => {
            diff::compare_predicted((target, live), answer, config, how)
        }
        // What tracks the object changes, which is no difference: the server does not know that.
        _ => diff::compare_states(Some(target), Some(found), config, values),
    }
}

/// The live object as if it were tracked by annotation, if it still has the
/// label of the former method (SE-118).
fn migrated(tracking: &Tracking, target: &Value, live: &Value) -> Option<Value> {
    let is_annotated = live.annotations().is_some_and(|own| own.contains_key(TRACKING_ID));
    if tracking.method.is_by_label() || is_annotated {
        return None;
    }
    live.label(&tracking.label).filter(|own| *own == tracking.instance)?;
    let id = target.annotations()?.get(TRACKING_ID)?.clone();
    let is_labelled = target.labels().is_some_and(|own| own.contains_key(&tracking.label));
    let mut live = live.clone();
    let metadata = live.get_mut("metadata")?.as_object_mut()?;
    object_at(metadata, "annotations")?.insert(TRACKING_ID.to_owned(), id);
    if !is_labelled {
        object_at(metadata, "labels")?.remove(&tracking.label);
    }
    Some(live)
}
