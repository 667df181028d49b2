//! Does the cluster hold what the source wants?
//!
//! [`compare`] answers for one object. It never compares the two objects as
//! they stand: a live object holds defaults, status and other people's fields.
//! It works out what live would *become* if the target were applied, and
//! compares live with that:
//!
//! ```text
//! target ─ normalise ─ remove ignored ─┐
//!                                      ├─ merge ─ fill defaults ─ predicted ─┐
//! live ─── normalise ─ remove ignored ─┤                                     ├─ equal?
//!                                      └───────── fill defaults ─ live ──────┘
//! ```
//!
//! What the merge takes away depends on how the object was applied before; see
//! [`Strategy`]. Objects that our field manager applied on the server say
//! themselves, in `metadata.managedFields`, which fields are ours: a field that
//! we own and that the target no longer has is a difference, and a field that
//! we never set is none.
//!
//! The room never asks a cluster and never fails: what cannot be read is
//! compared as it stands, and rules that cannot be used are reported by
//! [`Config::from_application`]. Values of Secrets are compared, and masked in
//! everything that leaves here.

#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

mod changes;
mod config;
mod defaults;
mod dry_run;
mod fields;
mod ignore;
pub mod jq;
mod keys;
mod mask;
mod merge;
mod normalize;
pub mod path;
mod quantity;
mod schema;
mod sync_status;
mod unified;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

pub use changes::Change;
pub use config::{
    Config, DEFAULT_FORMER_MANAGER, DEFAULT_MANAGER, IgnoreStatus, KnownField, KnownType, Problem,
    Rule, compare_options, sync_options,
};
pub use dry_run::compare_dry_run;
pub use fields::taken_over;
pub use ignore::respect_ignored;
pub use jq::Expression;
pub use keys::{ListKind, list_kind};
pub use mask::is_secret;
pub use normalize::LAST_APPLIED;
pub use schema::Schemas;
pub use sync_status::{Circumstances, Resource, SyncStatus, of_application};
pub use unified::unified;

use fields::Owners;
use merge::{Basis, Past, merge};
use normalize::{Purpose, strip_nulls};

use crate::api::kind::KindRef;

/// What the merge takes away from live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Nothing: live was never applied by us, or does not exist.
    TwoWay,
    /// What the last applied configuration had and the target has not: live
    /// was applied on the client's side (SE-152).
    ThreeWay,
    /// What our field manager owns alone and the target has not: live was, or
    /// will be, applied on the server's side (SE-157).
    Structured,
    /// Nothing is worked out here: the server was asked (SE-158).
    ServerSide,
}

/// The outcome of comparing one object.
///
/// Nothing in it holds the value of a Secret.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Whether applying the target would change live. True for a target
    /// without live, false for live without target (SE-151).
    pub modified: bool,
    /// What live would become; the target alone where there is no live, null
    /// where there is no target. Ignored fields are left out.
    pub predicted: Value,
    /// Live, normalised, with defaults and without ignored fields; null where
    /// there is none.
    pub live: Value,
    /// The single differences; empty unless both sides exist.
    pub changes: Vec<Change>,
    /// How the two were compared.
    pub strategy: Strategy,
    /// Ignore expressions that failed on this object and were skipped, in
    /// words (SE-173).
    pub skipped_rules: Vec<String>,
    /// Ignore expressions that were skipped since they use up more than they
    /// may, in words. The comparison may show what was to be ignored, so the
    /// caller reports a `ComparisonError`.
    pub exhausted_rules: Vec<String>,
}

/// Compares what the source wants with what the cluster holds.
///
/// `live` has to be read in the target's API version (SE-119): versions are
/// not converted here. Its `managedFields` should not have been cut off.
pub fn compare(target: Option<&Value>, live: Option<&Value>, config: &Config) -> Comparison {
    let strategy = strategy(target, live, config);
    let mut wanted = target.cloned();
    let mut found = live.cloned();
    if let Some(wanted) = &mut wanted {
        normalize::normalize(wanted, Purpose::Apply, config);
    }
    if let Some(found) = &mut found {
        settle(found, config);
    }
    let schema = target.and_then(|target| config.schemas.of(KindRef::of(target)));
    for (side, schema) in [(&mut wanted, schema), (&mut found, schema)] {
        if let (Some(side), Some(schema)) = (side, schema) {
            schema::apply_key_defaults(side, schema);
        }
    }
    let mut skipped = ignore::remove_ignored(wanted.as_mut(), found.as_mut(), live, config);

    let (mut predicted, mut found) = match (wanted, found, live) {
        (Some(mut wanted), Some(mut found), Some(live)) => {
            let original = original(strategy, live, config);
            reduce_claim_templates(&mut found, &wanted, original.as_ref());
            drop_namespace(&mut wanted, &found);
            let ours = ours_by_updates(target, live, strategy, config);
            let owners = match strategy {
                Strategy::Structured => {
                    Owners::of(ours.as_ref().unwrap_or(live), &config.manager).unwrap_or_default()
                }
                Strategy::TwoWay | Strategy::ThreeWay | Strategy::ServerSide => Owners::default(),
            };
            let past = Past { original: original.as_ref(), owners, schema };
            let kind = KindRef::of(&wanted);
            let basis = Basis { kind, built_in: kind.is_built_in() };
            let predicted = merge(&basis, &wanted, &found, &past, &mut Vec::new());
            (predicted, found)
        }
        (wanted, found, _) => (wanted.unwrap_or_default(), found.unwrap_or_default()),
    };
    for side in [&mut predicted, &mut found] {
        fill(side, config);
    }
    let modified = target.is_some() && predicted != found;
    if [target, live].into_iter().flatten().any(is_secret) {
        mask::mask(&mut [&mut found, &mut predicted]);
        skipped.mismatched.iter_mut().for_each(|words| *words = mask::rule(words));
    }
    let both = target.is_some() && live.is_some();
    let changes = if both && modified { changes::changes(&found, &predicted) } else { Vec::new() };
    Comparison {
        modified,
        predicted,
        live: found,
        changes,
        strategy,
        skipped_rules: skipped.mismatched,
        exhausted_rules: skipped.exhausted,
    }
}

/// An object in the one spelling in which objects are compared: normalised,
/// without nulls, with the defaults of built-in kinds. Idempotent. Ignore rules
/// are not applied, and the values of Secrets are not masked.
pub fn normalized(object: &Value, config: &Config) -> Value {
    let mut object = object.clone();
    fill(&mut object, config);
    object
}

fn fill(object: &mut Value, config: &Config) {
    settle(object, config);
    defaults::apply(object);
    let schema = config.schemas.of(KindRef::of(object)).cloned();
    if let Some(schema) = schema {
        schema::apply_defaults(object, &schema);
        // A default may be spelled in another way than a value.
        settle(object, config);
    }
}

/// Normalises an object that asks for nothing to be removed.
fn settle(object: &mut Value, config: &Config) {
    normalize::normalize(object, Purpose::Compare, config);
    strip_nulls(object);
    // Without its nulls an object may have become empty.
    normalize::normalize(object, Purpose::Compare, config);
}

/// SE-150, where an entry of our manager decides before options do: it is the
/// only exact account of what we applied.
fn strategy(target: Option<&Value>, live: Option<&Value>, config: &Config) -> Strategy {
    let (Some(target), Some(live)) = (target, live) else { return Strategy::TwoWay };
    if Owners::of(live, &config.manager).is_some() || is_server_side(target, config) {
        return Strategy::Structured;
    }
    if last_applied(live).is_some() { Strategy::ThreeWay } else { Strategy::TwoWay }
}

fn is_server_side(target: &Value, config: &Config) -> bool {
    let asked = sync_options(target).find_map(|option| match option {
        "ServerSideApply=true" => Some(true),
        "ServerSideApply=false" => Some(false),
        _ => None,
    });
    asked.unwrap_or(config.server_side_apply)
}

/// The managers of live as an apply will find them: what was updated on our
/// behalf before counts as applied by us, since a server-side apply takes it
/// over first (SE-346), and a patch names what goes. `None` when nothing
/// changes by it.
fn ours_by_updates(
    target: Option<&Value>,
    live: &Value,
    strategy: Strategy,
    config: &Config,
) -> Option<Value> {
    if strategy != Strategy::Structured {
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

/// The configuration that was applied last on the client's side; `None` where
/// there is none that can be read.
fn last_applied(live: &Value) -> Option<Value> {
    let annotations = live.get("metadata")?.get("annotations")?;
    let text = annotations.get(LAST_APPLIED)?.as_str()?;
    serde_json::from_str::<Map<String, Value>>(text).ok().map(Value::Object)
}

fn original(strategy: Strategy, live: &Value, config: &Config) -> Option<Value> {
    if strategy != Strategy::ThreeWay {
        return None;
    }
    let mut original = last_applied(live)?;
    settle(&mut original, config);
    // Live always has one; that the target does not say it means nothing.
    if let Some(metadata) = original.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("namespace");
    }
    Some(original)
}

/// The namespace is part of how the two were paired, not of their contents.
fn drop_namespace(wanted: &mut Value, found: &Value) {
    let there = found.get("metadata").is_some_and(|metadata| metadata.get("namespace").is_some());
    if there && let Some(metadata) = wanted.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("namespace");
    }
}

/// SE-154: the API server fills in claim templates at length, and they cannot
/// be changed anyhow; live keeps what target or last applied speak of.
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
                // Elements beyond what is said stay, and so differ.
                if !said.is_empty() {
                    reduce(child, &said);
                }
            }
        }
        _ => {}
    }
}
