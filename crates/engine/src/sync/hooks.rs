//! Hooks: their phases, names and stamps.
//!
//! `gate.rs` decides when a hook is complete; `wave.rs` and `finish.rs` when it
//! is deleted.

use data_encoding::HEXLOWER;
use jiff::Timestamp;
use serde_json::Value;
use sha2::{Digest, Sha256};

use wavegate_api::Raw;
use wavegate_api::hooks::{HookType, Role, hook_role};
use wavegate_api::operation::SyncPhase;

/// The annotation that identifies the attempt that created a hook.
///
/// The executor writes it with the object, so that a restarted controller knows
/// from the object alone that this operation has created the hook.
pub const OPERATION_ANNOTATION: &str = "wavegate.dev/operation";

/// The role of an object in a sync (SE-140, SE-141, SE-180..SE-183).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectClass {
    /// An ordinary resource, applied in phase Sync.
    Resource,
    /// A hook of at least one sync phase, in phase order without duplicates.
    Hook(Vec<SyncPhase>),
    /// `Skip` alone: listed, but never applied, pruned or awaited.
    Skipped,
    /// A hook of Application deletion only; not part of a sync.
    DeleteHook,
    /// Has a hook annotation without a known type.
    Ignored,
}

/// Determines the role of an object from its hook annotations.
pub fn classify_hook(object: &Value) -> ObjectClass {
    let types = match hook_role(object) {
        Role::Resource => return ObjectClass::Resource,
        Role::Skip => return ObjectClass::Skipped,
        Role::Ignored => return ObjectClass::Ignored,
        Role::Hook(types) => types,
    };
    let mut phases: Vec<SyncPhase> = types.into_iter().filter_map(HookType::phase).collect();
    phases.sort();
    phases.dedup();
    if phases.is_empty() { ObjectClass::DeleteHook } else { ObjectClass::Hook(phases) }
}

/// Longest generated name of a hook: Jobs copy it into a label.
const MAX_NAME: usize = 63;

/// The name of an object that only has `generateName` (SE-193): of a hook, a readable part,
/// and a short digest of `identity`, so that no two hooks have the same name
/// (SE-604). A long prefix is truncated.
///
/// Depends only on its arguments, so that creating it twice within one
/// operation is a conflict and not a second hook.
pub fn generated_name(prefix: &str, words: &str, identity: &str) -> String {
    let digest = Sha256::digest(identity.as_bytes());
    let mark = HEXLOWER.encode(&digest[..4]);
    let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    let words: String = words.chars().map(|c| if valid(c) { c } else { '-' }).take(40).collect();
    let words = words.to_lowercase();
    let dash = if words.is_empty() { "" } else { "-" };
    let taken = words.len() + dash.len() + mark.len();
    let kept: String = prefix.chars().take(MAX_NAME - taken).collect();
    format!("{kept}{words}{dash}{mark}")
}

/// The readable part of the name of a sync hook: `<revision>-<phase>-<start>`
/// (SE-193).
pub(super) fn purpose(revision: &str, phase: SyncPhase, started_at: Timestamp) -> String {
    let revision = match revision.chars().count() {
        8.. => revision.chars().take(7).collect::<String>(),
        _ => revision.to_owned(),
    };
    format!("{revision}-{phase}-{}", started_at.as_second())
}

/// Identifies one operation, or one deletion, of one Application, even if
/// several start in the same second.
pub fn operation_id(uid: &str, started_at: Timestamp, what: &str) -> String {
    let what: String = what.chars().filter(char::is_ascii_alphanumeric).take(12).collect();
    format!("{uid}.{}-{what}", started_at.as_second())
}

/// Whether a stamp is of an operation of the Application with this UID.
pub fn is_stamp_of(stamp: &str, uid: &str) -> bool {
    !uid.is_empty() && stamp.strip_prefix(uid).is_some_and(|rest| rest.starts_with('.'))
}

/// The value of [`OPERATION_ANNOTATION`] for one task of one attempt.
///
/// A retry runs the hooks again and a hook of two phases runs twice, hence the
/// attempt and the phase. `position` identifies manifests without a name.
pub fn operation_stamp(
    operation: &str,
    attempt: u64,
    phase: &str,
    position: Option<usize>,
) -> String {
    let phase = phase.to_lowercase();
    match position {
        Some(position) => format!("{operation}/{attempt}/{phase}/{position}"),
        None => format!("{operation}/{attempt}/{phase}"),
    }
}

/// The stamp of a live object.
pub(super) fn stamp_of(object: &Value) -> Option<&str> {
    object.annotation(OPERATION_ANNOTATION)
}

/// Whether an object was created by any attempt of an operation.
pub(super) fn is_stamped_by(object: &Value, operation: &str) -> bool {
    let rest = stamp_of(object).and_then(|stamp| stamp.strip_prefix(operation));
    rest.is_some_and(|rest| rest.starts_with('/'))
}
