//! The commands that a run waits for, as `explain` names them.

use super::run::Run;
use wavegate_api::run::{RunGate, RunPhase};

/// The most entries of a list in a message.
pub(super) const ENTRIES: usize = 10;

/// What a person may run now; empty while nobody is waited for.
pub(super) fn commands(run: &Run<'_>) -> Vec<String> {
    let of_set = |verb: &str| {
        format!("wavegate {verb} -n {} {}", quoted(&run.key.namespace), quoted(run.set))
    };
    match run.status.phase {
        RunPhase::AwaitingApproval => {
            let lacks = run.status.gates.iter().filter(|gate| gate.missing() > 0);
            let reached = lacks.clone().filter(|gate| gate.waiting_since.is_some());
            // One of a later step is not what the run waits for.
            let has_reached = reached.clone().next().is_some();
            let gates: Vec<&RunGate> =
                if has_reached { reached.collect() } else { lacks.collect() };
            let approve = of_set("approve");
            let approve = |name: &str| format!("{approve} --gate {}", quoted(name));
            gates.into_iter().take(ENTRIES).map(|gate| approve(&gate.name)).collect()
        }
        RunPhase::Paused => vec![of_set("resume")],
        RunPhase::Held => vec![of_set("explain"), of_set("retry"), of_set("abort")],
        // Some ways back have failed.
        RunPhase::RollingBack if run.status.failed > 0 => vec![of_set("explain"), of_set("retry")],
        RunPhase::Progressing
        | RunPhase::Soaking
        | RunPhase::Complete
        | RunPhase::CompleteWithFailures
        | RunPhase::Superseded
        | RunPhase::Aborted
        | RunPhase::RollingBack
        | RunPhase::RolledBack => Vec::new(),
    }
}

/// One argument of a shell: the names of gates are any text, and commands are copied.
fn quoted(argument: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._/".contains(c);
    match !argument.is_empty() && !argument.starts_with('-') && argument.chars().all(plain) {
        true => argument.to_owned(),
        false => format!("'{}'", argument.replace('\'', r"'\''")),
    }
}
