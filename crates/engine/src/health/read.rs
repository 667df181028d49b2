//! Reads fields of an object whose shape is not validated.
//!
//! Each function defines its result for an absent field or one of another type, so that
//! the rules need not.

use serde_json::Value;

use wavegate_api::Raw;

/// The integer at a JSON pointer; `None` when absent or not a number. A number with a
/// zero fraction (`3.0`) is an integer.
pub(crate) fn number(object: &Value, pointer: &str) -> Option<i64> {
    let value = object.pointer(pointer)?;
    // The cast saturates and truncates; counts have no fraction.
    value.as_i64().or_else(|| value.as_f64().map(|float| float as i64))
}

/// The number at a JSON pointer, 0 when absent: the API server omits status counters that
/// are zero.
pub(crate) fn count(object: &Value, pointer: &str) -> i64 {
    number(object, pointer).unwrap_or(0)
}

/// Whether the field holds `true`; absent and other types are `false`.
pub fn is_true(object: &Value, pointer: &str) -> bool {
    object.pointer(pointer) == Some(&Value::Bool(true))
}

/// The conditions under `/status/conditions`, in order, without those of older generations.
pub(crate) fn conditions(object: &Value) -> impl Iterator<Item = HealthCondition<'_>> {
    let all = object.items("/status/conditions").iter().map(HealthCondition);
    all.filter(|condition| !is_stale_condition(object, *condition))
}

/// The first condition of a type.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<HealthCondition<'a>> {
    conditions(object).find(|condition| condition.kind() == kind)
}

/// One entry of a list of conditions.
#[derive(Clone, Copy)]
pub struct HealthCondition<'a>(pub &'a Value);

impl<'a> HealthCondition<'a> {
    /// Its `type`.
    pub fn kind(self) -> &'a str {
        self.0.text("/type")
    }

    /// Its `type` without the domain of a controller, as in `cilium.io/PoolConflict`.
    pub fn name(self) -> &'a str {
        let kind = self.kind();
        kind.rsplit_once('/').map_or(kind, |(_, name)| name)
    }

    /// Its `reason`, empty when absent.
    pub fn reason(self) -> &'a str {
        self.0.text("/reason")
    }

    /// Its `message`, empty when absent.
    pub fn message(self) -> &'a str {
        self.0.text("/message")
    }

    /// Whether its status is `True`.
    pub fn is_true(self) -> bool {
        self.0.text("/status") == "True"
    }

    /// Whether its status is `False`; an absent or `Unknown` status is neither.
    pub fn is_false(self) -> bool {
        self.0.text("/status") == "False"
    }
}

/// `metadata.generation`, 0 when absent.
pub(crate) fn generation(object: &Value) -> i64 {
    count(object, "/metadata/generation")
}

/// Whether the status is of an older generation of the object.
///
/// For kinds whose controller may not report a generation: an absent `observedGeneration`
/// is not stale.
pub fn is_stale(object: &Value) -> bool {
    let current = generation(object);
    number(object, "/status/observedGeneration").is_some_and(|observed| observed < current)
}

/// Whether this condition is of an older generation of `object`: of the one that it names
/// itself, and otherwise of that of the status.
pub fn is_stale_condition(object: &Value, condition: HealthCondition<'_>) -> bool {
    match number(condition.0, "/observedGeneration") {
        Some(observed) => observed < generation(object),
        None => is_stale(object),
    }
}

/// Whether a condition says itself of which generation it is.
pub fn names_generation(condition: HealthCondition<'_>) -> bool {
    number(condition.0, "/observedGeneration").is_some()
}

/// The generation that a status or a condition names, if it is not that of `object`: `None`
/// inside when it names none. Without a generation of the object there is nothing to compare.
pub fn other_generation(object: &Value, reported: Option<&Value>) -> Option<Option<i64>> {
    let current = number(object, "/metadata/generation")?;
    let named = reported.and_then(|reported| number(reported, "/observedGeneration"));
    (named != Some(current)).then_some(named)
}

/// The field of the spec that tells the controller to pause. It does not look at such an
/// object, so that the status stays that of an older generation.
pub fn pausing_field(object: &Value) -> Option<&'static str> {
    let spec = object.get("spec")?;
    PAUSING.iter().copied().find(|field| spec.get(*field) == Some(&Value::Bool(true)))
}

/// How kinds call it.
pub const PAUSING: &[&str] = &["suspend", "suspended", "paused", "pause"];
