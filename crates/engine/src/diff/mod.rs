//! Compares target and live objects.
//!
//! [`compare`] compares one object. Live objects contain defaults, status and fields of
//! other managers, so it predicts what live would *become* if the target were applied,
//! and compares live with that:
//!
//! ```text
//! target ─ normalise ─ remove ignored ─┐
//!                                      ├─ merge ─ fill defaults ─ predicted ─┐
//! live ─── normalise ─ remove ignored ─┤                                     ├─ equal?
//!                                      └───────── fill defaults ─ live ──────┘
//! ```
//!
//! What the merge removes depends on how the object was applied before; see [`DiffStrategy`].
//! Objects that our field manager applied server-side record in `metadata.managedFields`
//! which fields we own: a field that we own and that the target no longer has is a
//! difference, and a field that we never set is not.
//!
//! This module never accesses a cluster and never fails: invalid input is compared
//! unchanged, and invalid rules are reported by [`DiffConfig::from_application`]. Values of
//! Secrets are compared, and masked in all results.

#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

mod allocated;
mod changes;
mod config;
mod defaults;
mod definition;
mod encoded;
mod fields;
mod ignore;
pub mod jq;
mod keys;
mod known_types;
mod mask;
mod merge;
mod normalize;
pub mod path;
mod predicted;
mod quantity;
mod rule;
mod schema;
mod sync_status;
mod system;
mod unified;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

pub use changes::{ValueChange, list_changes};
pub use config::{
    DEFAULT_FORMER_MANAGER, DEFAULT_MANAGER, DiffConfig, ServerSide, compare_options, sync_options,
};
pub use fields::taken_over;
pub use ignore::{respect_ignored, without_ignored};
pub use jq::Jq;
pub use keys::{ListKind, list_kind};
pub use known_types::{KnownField, KnownType};
pub use mask::{is_secret, mask_secrets};
pub use normalize::as_stored;
pub use predicted::{compare_all_predicted, compare_predicted};
pub use quantity::in_thousandths;
pub use rule::{Rule, RuleProblem};
pub use schema::Schemas;
pub use sync_status::{ResourceState, SyncStatus, SyncStatusInput, of_application};
pub use system::{IgnoredStatus, SettingProblem, SystemSettings};
pub use unified::unified_diff;

use fields::Owners;
use merge::{Basis, Past, merge};
use normalize::{Purpose, strip_nulls};

use wavegate_api::annotations::LAST_APPLIED;
use wavegate_api::kind::KindRef;

/// What the merge takes away from live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffStrategy {
    /// Nothing: live was never applied by us, or does not exist.
    TwoWay,
    /// What the last-applied configuration has and the target does not: live was applied
    /// client-side (SE-152).
    ThreeWay,
    /// What only our field manager owns and the target does not have: live was, or will
    /// be, applied server-side (SE-157).
    Structured,
    /// The server has predicted it (SE-158).
    ServerSide,
}

/// Result of comparing one object. Contains no values of a Secret.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Whether applying the target would change live. True for a target without live,
    /// false for live without target (SE-151).
    pub modified: bool,
    /// The predicted object; the target if there is no live object, null if there is no
    /// target. Without ignored fields.
    pub predicted: Value,
    /// Live, normalized, with defaults and without ignored fields; null if it does not exist.
    pub live: Value,
    /// The differences; empty unless both objects exist.
    pub changes: Vec<ValueChange>,
    /// The strategy of the comparison.
    pub strategy: DiffStrategy,
    /// Ignore expressions that failed for this object and were skipped (SE-173).
    pub skipped_rules: Vec<String>,
    /// Ignore expressions that were skipped since they exceeded their limits. The
    /// comparison may show differences that should be ignored, so the caller reports a
    /// `ComparisonError`.
    pub exhausted_rules: Vec<String>,
    /// Whether a rule was skipped for a reason that may pass, so that the same objects may
    /// compare differently later.
    pub is_provisional: bool,
}

/// Compares a target with a live object.
///
/// `live` must be read in the target's API version (SE-119): versions are not converted.
/// Its `managedFields` should be included.
pub fn compare(target: Option<&Value>, live: Option<&Value>, config: &DiffConfig) -> Comparison {
    compare_states(target, live, config, Values::Plain)
}

/// What the values of Secrets are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Values; the results do not have them.
    Plain,
    /// Masks, by [`mask_secrets()`] of both objects together; they stay as they are.
    Masked,
}

/// The same for objects whose values may be masked already.
pub fn compare_states(
    target: Option<&Value>,
    live: Option<&Value>,
    config: &DiffConfig,
    values: Values,
) -> Comparison {
    let prepared = Prepared::of(target, live, config);
    let ignored = ignore::ignored(&[prepared.sides()], config).pop().unwrap_or_default();
    prepared.compare(ignored, config, values)
}

/// The same for targets and their live objects, whose ignore rules are evaluated together.
pub fn compare_all(pairs: &[(&Value, &Value)], config: &DiffConfig) -> Vec<Comparison> {
    let prepared: Vec<Prepared<'_>> = (pairs.iter())
        .map(|(target, live)| Prepared::of(Some(target), Some(live), config))
        .collect();
    let sides: Vec<ignore::Sides<'_>> = prepared.iter().map(Prepared::sides).collect();
    let ignored = ignore::ignored(&sides, config);
    let compare =
        |(prepared, ignored): (Prepared<'_>, _)| prepared.compare(ignored, config, Values::Plain);
    prepared.into_iter().zip(ignored).map(compare).collect()
}

/// A target and a live object, and both normalized.
struct Prepared<'a> {
    target: Option<&'a Value>,
    live: Option<&'a Value>,
    wanted: Option<Value>,
    found: Option<Value>,
}

impl<'a> Prepared<'a> {
    fn of(target: Option<&'a Value>, live: Option<&'a Value>, config: &DiffConfig) -> Self {
        let mut wanted = target.cloned();
        let mut found = live.cloned();
        if let Some(wanted) = &mut wanted {
            normalize::normalize_object(wanted, Purpose::Apply, &config.system);
        }
        if let Some(found) = &mut found {
            settle(found, config);
        }
        let schema = target.and_then(|target| config.schemas.of(KindRef::of(target)));
        let schema = schema.map(|schema| &**schema);
        for (side, schema) in [(&mut wanted, schema), (&mut found, schema)] {
            if let (Some(side), Some(schema)) = (side, schema) {
                schema::apply_key_defaults(side, schema);
            }
        }
        Self { target, live, wanted, found }
    }

    fn sides(&self) -> ignore::Sides<'_> {
        (self.wanted.as_ref(), self.found.as_ref(), self.live)
    }

    fn compare(
        self,
        ignored: ignore::IgnoredPaths,
        config: &DiffConfig,
        values: Values,
    ) -> Comparison {
        let Self { target, live, mut wanted, mut found } = self;
        let strategy = strategy(target, live, config);
        let schema = target.and_then(|target| config.schemas.of(KindRef::of(target)));
        let schema = schema.map(|schema| &**schema);
        let skipped = ignored.remove(wanted.as_mut(), found.as_mut());

        let (predicted, found) = match (wanted, found, live) {
            (Some(mut wanted), Some(mut found), Some(live)) => {
                let original = original(strategy, live, config);
                reduce_claim_templates(&mut found, &wanted, original.as_ref());
                drop_namespace(&mut wanted);
                allocated::keep(&mut wanted, &found);
                let ours = ours_by_updates(target, live, strategy, config);
                let structured = strategy == DiffStrategy::Structured;
                let owners = Owners::of(ours.as_ref().unwrap_or(live), &config.manager);
                let owners = owners.filter(|_| structured).unwrap_or_default();
                let past = Past { original: original.as_ref(), owners, schema };
                let kind = KindRef::of(&wanted);
                let basis = Basis { kind, built_in: kind.is_built_in(), structured };
                let predicted = merge(&basis, &wanted, &found, &past, &mut Vec::new());
                (predicted, found)
            }
            (wanted, found, _) => (wanted.unwrap_or_default(), found.unwrap_or_default()),
        };
        difference((target, live), (predicted, found), skipped, (strategy, values), config)
    }
}

/// The difference between live and what it would become, both without what is ignored.
fn difference(
    (target, live): (Option<&Value>, Option<&Value>),
    (mut predicted, mut found): (Value, Value),
    mut skipped: ignore::Skipped,
    (strategy, values): (DiffStrategy, Values),
    config: &DiffConfig,
) -> Comparison {
    for side in [&mut predicted, &mut found] {
        fill(side, config);
    }
    let modified = target.is_some() && predicted != found;
    if values == Values::Plain && [target, live].into_iter().flatten().any(is_secret) {
        hide(&mut found, &mut predicted, &mut skipped);
    }
    let both = target.is_some() && live.is_some();
    let changes = if both && modified { list_changes(&found, &predicted) } else { Vec::new() };
    Comparison {
        modified,
        predicted,
        live: found,
        changes,
        strategy,
        skipped_rules: skipped.mismatched,
        exhausted_rules: skipped.exhausted,
        is_provisional: skipped.is_provisional,
    }
}

/// Masks the values of Secrets in results.
fn hide(found: &mut Value, predicted: &mut Value, skipped: &mut ignore::Skipped) {
    mask::mask_secrets(&mut [found, predicted]);
    skipped.mismatched.iter_mut().for_each(|words| *words = mask::rule(words));
}

/// Brings an object into its normalized form for comparisons: without nulls, with the defaults
/// of built-in kinds. Idempotent. Ignore rules are not applied, and the values of Secrets
/// are not masked.
fn fill(object: &mut Value, config: &DiffConfig) {
    settle(object, config);
    defaults::apply(object);
    let schema = config.schemas.of(KindRef::of(object)).cloned();
    if let Some(schema) = schema {
        schema::apply_defaults(object, &schema);
        // A default may have another notation than a value.
        settle(object, config);
    }
}

/// Normalizes an object for comparing.
fn settle(object: &mut Value, config: &DiffConfig) {
    normalize::normalize_object(object, Purpose::Compare, &config.system);
    if strip_nulls(object) {
        // Without its nulls, an object may be empty.
        normalize::normalize_object(object, Purpose::Compare, &config.system);
    }
}

/// SE-150. An entry of our manager takes precedence over options: it is the only exact
/// record of what we applied.
fn strategy(target: Option<&Value>, live: Option<&Value>, config: &DiffConfig) -> DiffStrategy {
    let (Some(target), Some(live)) = (target, live) else { return DiffStrategy::TwoWay };
    if Owners::of(live, &config.manager).is_some() || is_server_side(target, config) {
        return DiffStrategy::Structured;
    }
    if last_applied(live).is_some() { DiffStrategy::ThreeWay } else { DiffStrategy::TwoWay }
}

fn is_server_side(target: &Value, config: &DiffConfig) -> bool {
    let asked = sync_options(target).find_map(|option| match option {
        "ServerSideApply=true" => Some(true),
        "ServerSideApply=false" => Some(false),
        _ => None,
    });
    asked.unwrap_or(config.server_side_apply)
}

/// The managers of live as an apply finds them: fields of our earlier updates count as
/// applied by us, since a server-side apply migrates them first (SE-346). `None` when
/// nothing changes.
fn ours_by_updates(
    target: Option<&Value>,
    live: &Value,
    strategy: DiffStrategy,
    config: &DiffConfig,
) -> Option<Value> {
    if strategy != DiffStrategy::Structured {
        return None;
    }
    let manager = config.manager.as_str();
    let server_side = target.is_some_and(|target| is_server_side(target, config));
    let from: &[&str] = match (server_side, config.migrates) {
        (true, true) => &[manager, &config.former_manager],
        (true, false) => &[],
        (false, _) => &[manager],
    };
    let entries = taken_over(live, from, manager)?;
    Some(serde_json::json!({"metadata": {"managedFields": entries}}))
}

/// The last-applied configuration of client-side apply; `None` when absent or invalid.
fn last_applied(live: &Value) -> Option<Value> {
    let annotations = live.get("metadata")?.get("annotations")?;
    let text = annotations.get(LAST_APPLIED)?.as_str()?;
    serde_json::from_str::<Map<String, Value>>(text).ok().map(Value::Object)
}

fn original(strategy: DiffStrategy, live: &Value, config: &DiffConfig) -> Option<Value> {
    if strategy != DiffStrategy::ThreeWay {
        return None;
    }
    let mut original = last_applied(live)?;
    settle(&mut original, config);
    // Live always has one; an absent one in the target has no meaning.
    if let Some(metadata) = original.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("namespace");
    }
    Some(original)
}

/// The namespace is part of the pairing, not of the content; a cluster-scoped object has none in
/// the cluster, also when the manifest has one.
fn drop_namespace(wanted: &mut Value) {
    if let Some(metadata) = wanted.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("namespace");
    }
}

/// SE-154: the API server sets many defaults in claim templates, and they are immutable;
/// only fields of the target or the last-applied configuration are compared.
fn reduce_claim_templates(found: &mut Value, wanted: &Value, original: Option<&Value>) {
    const PATH: &str = "/spec/volumeClaimTemplates";
    let kind = KindRef::of(wanted);
    if kind.group != "apps" || kind.kind != "StatefulSet" {
        return;
    }
    let said: Vec<&Value> =
        [Some(wanted), original].into_iter().flatten().filter_map(|o| o.pointer(PATH)).collect();
    if let Some(found) = found.pointer_mut(PATH).filter(|_| !said.is_empty()) {
        reduce(found, &said);
    }
}

fn reduce(found: &mut Value, said: &[&Value]) {
    match found {
        Value::Object(map) => {
            map.retain(|key, _| said.iter().any(|one| one.get(key).is_some()));
            for (key, child) in map {
                let said: Vec<&Value> = said.iter().filter_map(|one| one.get(key)).collect();
                reduce(child, &said);
            }
        }
        Value::Array(list) => {
            for (index, child) in list.iter_mut().enumerate() {
                let said: Vec<&Value> = said.iter().filter_map(|one| one.get(index)).collect();
                // Additional elements stay, and so differ.
                if !said.is_empty() {
                    reduce(child, &said);
                }
            }
        }
        _ => {}
    }
}
