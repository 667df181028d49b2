//! The state of a set in one line. Pure.

use wavegate_engine::names::some_of;
use wavegate_rollout::application_set::status::findings::{NO_APPLICATION, all_complete};
use wavegate_rollout::rollout::report::{Report, ReportState};

/// That Applications outside of the steps need a manual sync; `None` without any.
pub(in crate::cli) fn left_outside(report: &Report) -> Option<String> {
    let names: Vec<&str> = report.outside().collect();
    let who = some_of(names.iter().copied(), 3);
    match names.len() {
        0 => None,
        1 => Some(format!("no step selects {who}: it waits for a manual sync")),
        _ => Some(format!("no step selects {who}: they wait for a manual sync")),
    }
}

/// The state of a set in one line.
pub(in crate::cli) fn message(report: &Report) -> String {
    let (complete, total) = report.progress();
    let (status, steps) = (&report.set.status, report.set.strategy.steps().len());
    let error = || status.error.clone().unwrap_or_default().1;
    let reported = status.rollout.as_ref().map(|rollout| rollout.message.clone());
    let reported = reported.filter(|message| !message.is_empty());
    match report.state() {
        ReportState::Deleting => deletion_message(report),
        ReportState::Unseen => {
            "no controller has reconciled it yet; check that a controller is running and watches its namespace"
                .to_owned()
        }
        // What the others wait for, as the rollout itself says.
        ReportState::Failed if report.goes_on() => reported.unwrap_or_else(error),
        ReportState::Failed => error(),
        ReportState::SwitchedOff => status.invalid_config.clone().unwrap_or_else(|| OFF.to_owned()),
        ReportState::AllAtOnce | ReportState::Complete if report.members.is_empty() => {
            NO_APPLICATION.to_owned()
        }
        ReportState::AllAtOnce => {
            format!("{complete} of {total} applications are Synced and Healthy; there are no steps")
        }
        // The rollout itself says what it is complete without.
        ReportState::Complete => {
            let said = reported.unwrap_or_else(|| all_complete(steps));
            match left_outside(report) {
                Some(left) => format!("{said}; {left}"),
                None => said,
            }
        }
        ReportState::Rolling => reported.unwrap_or_else(|| {
            let step = report.open_step.map_or(0, |step| step.saturating_add(1));
            format!("step {step} of {steps}: {complete} of {total} applications are done")
        }),
    }
}

/// Why a set with steps is not rolled out in steps, when its status does not say it.
pub(in crate::cli) const OFF: &str = "strategy.type is RollingSync, but progressive syncs are disabled; start the controller with --enable-progressive-syncs";

/// How far a deletion is: its error, or the Application that it waits for.
fn deletion_message(report: &Report) -> String {
    if let Some((_, error)) = &report.set.status.error {
        return format!("it is being deleted, which has failed: {error}");
    }
    let finalizers = report.set.finalizers.join(", ");
    let left = match report.members.len() {
        0 if finalizers.is_empty() => return "it is being deleted".to_owned(),
        0 => return format!("it is being deleted, held by its finalizers: {finalizers}"),
        1 => "1 application is left".to_owned(),
        left => format!("{left} applications are left"),
    };
    let mut going = report.ordered().into_iter().filter(|(_, member)| member.is_going());
    match going.next() {
        Some((name, first)) => {
            let more = match going.count() {
                0 => String::new(),
                more => format!(" (and {more} more)"),
            };
            format!("it is being deleted: {left}; {name} {}{more}", report.why(first).message)
        }
        None => format!("it is being deleted: {left}"),
    }
}
