//! What shall become of an object, and when: annotations and options read into types.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::Value;

use super::{options::WorkloadOptions, view::View};

/// Chooses what becomes of an object: `succeed`, `fail` or `hang`.
pub const OUTCOME_ANNOTATION: &str = "simulate.wavegate.dev/outcome";

/// Sets how long an object progresses, as a duration such as `2s`.
pub const DELAY_ANNOTATION: &str = "simulate.wavegate.dev/delay";

/// Chooses how Pods fail, with the outcome `fail`: one of the names of `Failure`.
pub const FAILURE_ANNOTATION: &str = "simulate.wavegate.dev/failure";

/// The termination message of containers that fail.
pub const MESSAGE_ANNOTATION: &str = "simulate.wavegate.dev/message";

/// How the Pods of a workload fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// Its containers exit: once, or again and again.
    Exit,
    /// Its images cannot be pulled.
    ImagePullBackOff,
    /// It fits on no node.
    Unschedulable,
    /// It runs, and its readiness probe fails.
    Unhealthy,
    /// A quota forbids it, so that there is no Pod.
    FailedCreate,
}

/// Reads how Pods fail; a value that is none of them counts as absent.
pub(super) fn failure(object: &View<'_>) -> Failure {
    match annotation(object, FAILURE_ANNOTATION) {
        None | Some("CrashLoopBackOff") => Failure::Exit,
        Some("ImagePullBackOff") => Failure::ImagePullBackOff,
        Some("Unschedulable") => Failure::Unschedulable,
        Some("Unhealthy") => Failure::Unhealthy,
        Some("FailedCreate") => Failure::FailedCreate,
        Some(other) => {
            tracing::warn!(
                object = object.name(),
                value = other,
                "{FAILURE_ANNOTATION} is not CrashLoopBackOff, ImagePullBackOff, Unschedulable, \
                 Unhealthy or FailedCreate"
            );
            Failure::Exit
        }
    }
}

/// The termination message of containers that fail; empty without one.
pub(super) fn message<'a>(object: &View<'a>) -> &'a str {
    annotation(object, MESSAGE_ANNOTATION).unwrap_or_default()
}

/// What shall become of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Succeed,
    Fail,
    Hang,
}

/// Reads the outcome; a value that is none of the three counts as absent.
pub(super) fn outcome(object: &View<'_>, options: &WorkloadOptions) -> Outcome {
    match annotation(object, OUTCOME_ANNOTATION) {
        Some("succeed") => return Outcome::Succeed,
        Some("fail") => return Outcome::Fail,
        Some("hang") => return Outcome::Hang,
        Some(other) => {
            tracing::warn!(
                object = object.name(),
                value = other,
                "{OUTCOME_ANNOTATION} is not succeed, fail or hang"
            );
        }
        None => {}
    }
    match application(object) {
        Some(name) if options.fail.contains(name) => Outcome::Fail,
        Some(_) | None => Outcome::Succeed,
    }
}

/// The longest delay that is waited for: a year.
const LONGEST_DELAY: Duration = Duration::from_secs(365 * 86_400);

/// Reads the delay; one that cannot be read counts as absent.
pub(super) fn delay(object: &View<'_>, options: &WorkloadOptions) -> Duration {
    if options.at_once.load(Ordering::Relaxed) {
        return Duration::ZERO;
    }
    let Some(text) = annotation(object, DELAY_ANNOTATION) else { return options.delay };
    match text.parse::<jiff::SignedDuration>().ok().and_then(|delay| Duration::try_from(delay).ok())
    {
        // The end of a longer one has no representation as a time.
        Some(delay) => delay.min(LONGEST_DELAY),
        None => {
            tracing::warn!(
                object = object.name(),
                value = text,
                "{DELAY_ANNOTATION} is not a duration"
            );
            options.delay
        }
    }
}

/// The object's own annotation, or else that of its Pod template.
fn annotation<'a>(object: &View<'a>, key: &str) -> Option<&'a str> {
    let own = object.metadata.annotations.as_ref().and_then(|all| all.get(key));
    own.map(String::as_str)
        .or_else(|| object.spec["template"]["metadata"]["annotations"].get(key)?.as_str())
}

/// The Application that the object belongs to. An Application outside the
/// control plane's namespace is tracked as `<namespace>_<name>`.
fn application<'a>(object: &View<'a>) -> Option<&'a str> {
    let annotations = object.metadata.annotations.as_ref();
    let tracking = annotations.and_then(|all| all.get("argocd.argoproj.io/tracking-id"));
    let instance = match tracking {
        Some(id) => id.split(':').next()?,
        None => object.metadata.labels.as_ref()?.get("app.kubernetes.io/instance")?,
    };
    Some(instance.rsplit_once('_').map_or(instance, |(_, name)| name))
}

/// Whether `status` already says all that `patch` would make it say.
///
/// `patch` is a JSON merge patch: null means absent. So does zero: API servers
/// leave out what is zero.
pub(super) fn says(status: &Value, patch: &Value) -> bool {
    match (status, patch) {
        (Value::Object(status), Value::Object(patch)) => {
            patch.iter().all(|(key, wanted)| says(status.get(key).unwrap_or(&Value::Null), wanted))
        }
        (Value::Array(have), Value::Array(want)) => {
            have.len() == want.len() && have.iter().zip(want).all(|(have, want)| says(have, want))
        }
        (Value::Null, Value::Number(number)) => number.as_i64() == Some(0),
        (have, want) => have == want,
    }
}
