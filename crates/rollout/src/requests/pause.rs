//! Pausing a set, and resuming it (ST-020).

use serde_json::Value;

use super::{RequestedChange, Verdict, applications_text, selects_set};
use wavegate_api::annotations::{PAUSED, PAUSED_BY, RESUMED_BY, annotation_of};
use wavegate_api::live::LiveSetSpec;
use wavegate_api::policy::RolloutPolicySpec;
use wavegate_api::{Raw, read_leniently};

/// Holds all promotions of a set. Without a reason, one that holds already is kept.
pub fn pause_set(set: &Value, reason: Option<&str>, by: &str) -> Verdict {
    let said = || vec![(PAUSED_BY, Some(by.to_owned())), (RESUMED_BY, None)];
    let value = match reason {
        Some(reason) => format!("{reason} ({by})"),
        None => format!("no reason given ({by})"),
    };
    let (applications, left) = left(set);
    match annotation_of(set, PAUSED) {
        Some(stored) if reason.is_none() || stored == value => {
            Verdict::Already(format!("it is paused: {stored}"))
        }
        Some(stored) => Verdict::Change {
            says: format!("keep it paused, and replace the reason \"{stored}\" with \"{value}\""),
            applications,
            change: RequestedChange::Annotation {
                key: PAUSED,
                value: Some(value),
                replaces: Some(stored.to_owned()),
                by: said(),
            },
        },
        None if !has_steps(set) => Verdict::Refused(
            "it has no steps of a RollingSync: its Applications are synced by their own sync \
             policies, which a pause does not hold; disable these, or give it a RollingSync"
                .to_owned(),
        ),
        None => Verdict::Change {
            says: format!("pause it: nothing is promoted{left}; running syncs end by themselves"),
            applications,
            change: RequestedChange::Annotation {
                key: PAUSED,
                value: Some(value),
                replaces: None,
                by: said(),
            },
        },
    }
}

/// Ends a pause_set by [`pause_set`]. `policies` are those of the namespace: what one of them pauses
/// stays paused.
pub fn resume_set(set: &Value, policies: &[impl AsRef<Value>], by: &str) -> Verdict {
    let pausing = by_policies(set, policies);
    let by_policy = |rest: &str| {
        let Some(first) = pausing.first() else { return String::new() };
        let (names, command) = (pausing.join(", "), unpause_command(set.namespace(), first));
        format!("{rest}RolloutPolicy {names} pauses it: {command}")
    };
    let (applications, left) = left(set);
    match annotation_of(set, PAUSED) {
        Some(reason) => {
            let still = by_policy("; it stays paused, since ");
            Verdict::Change {
                says: format!("resume it, which was paused: {reason}{left}{still}"),
                applications,
                change: RequestedChange::Annotation {
                    key: PAUSED,
                    value: None,
                    replaces: Some(reason.to_owned()),
                    by: vec![(PAUSED_BY, None), (RESUMED_BY, Some(by.to_owned()))],
                },
            }
        }
        None if pausing.is_empty() => Verdict::Already("it is not paused".to_owned()),
        None => Verdict::Refused(by_policy("it is not paused by its annotation, but ")),
    }
}

/// The names of the policies, of all in its namespace, that pause a set.
fn by_policies<'a>(set: &Value, policies: &'a [impl AsRef<Value>]) -> Vec<&'a str> {
    let pauses = |policy: &&Value| {
        // One that is not understood is no permission.
        let spec: RolloutPolicySpec = read_leniently(policy.spec());
        spec.paused && selects_set(policy, set).unwrap_or(true)
    };
    policies.iter().map(AsRef::as_ref).filter(pauses).map(Raw::name).collect()
}

/// That policies, of all in its namespace, pause a set, with the command that ends that for each;
/// `None` when none does, and without steps, which nothing holds.
pub fn paused_by_policies(set: &Value, policies: &[impl AsRef<Value>]) -> Option<String> {
    let pausing = by_policies(set, policies);
    let commands: Vec<String> =
        pausing.iter().map(|policy| unpause_command(set.namespace(), policy)).collect();
    (has_steps(set) && !pausing.is_empty()).then(|| {
        format!(
            "paused by RolloutPolicy {}: nothing is promoted until {}",
            pausing.join(", "),
            commands.join(" and ")
        )
    })
}

/// The command that ends the pause of a policy.
pub fn unpause_command(namespace: &str, policy: &str) -> String {
    format!(
        "kubectl -n {namespace} patch rolloutpolicy {policy} --type merge -p \
         '{{\"spec\":{{\"paused\":false}}}}'"
    )
}

/// Whether a set rolls out in steps.
fn has_steps(set: &Value) -> bool {
    let strategy = LiveSetSpec::of(set).strategy;
    strategy.type_ == "RollingSync" && !strategy.rolling_sync.steps.is_empty()
}

/// How many Applications of a set are not complete, and the same in words.
fn left(set: &Value) -> (i64, String) {
    let progress = set.text("/status/rollout/progress").split_once('/');
    let read = |text: &str| text.parse::<i64>().ok();
    match progress.and_then(|(done, total)| Some((read(done)?, read(total)?))) {
        Some((done, total)) if total > 0 => {
            let left = total.saturating_sub(done).max(0);
            (left, format!("; {left} of {} are not complete", applications_text(total)))
        }
        _ => (0, String::new()),
    }
}
