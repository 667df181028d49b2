//! What people have said in a run that is about nothing: an approval of a gate that there is not,
//! an Application that the set has not. The commands refuse such words; `kubectl` writes them.

use std::cell::LazyCell;
use std::collections::BTreeSet;

use super::rules::Rules;
use crate::api::steering::{RolloutRunSpec, TimelineEntry};
use crate::api::unknown::{hint, nearest};
use crate::decide::rollout::snapshot::Row;

/// The most that are named. There may be many thousands, and each is compared with the names of all
/// Applications to find what was meant.
const NAMED: usize = 10;
/// The most characters of a name.
const NAME: usize = 100;

/// What has no effect, in words. `timeline` says which approvals and skips had one before the gate
/// or the Application went; `before` is what was found before, and `reads_retries` whether retries
/// are read in this reconcile: what a name was at that time counts.
pub fn found(
    spec: &RolloutRunSpec,
    timeline: &[TimelineEntry],
    before: &[String],
    reads_retries: bool,
    rules: &Rules,
    rows: &[Row<'_>],
) -> Vec<String> {
    let had_effect = |what: &str, subject: &str, by: &str| {
        timeline
            .iter()
            .any(|entry| entry.what == what && entry.subject == subject && entry.by == by)
    };
    let gates = || rules.gates.iter().map(|gate| gate.name.as_str());
    let names = || rows.iter().map(|row| row.member.name);
    let approvals = spec.approvals.iter().filter(|approval| {
        let (gate, by) = (approval.gate.as_str(), approval.by.as_str());
        !gates().any(|known| known == gate) && !had_effect("GateApproved", gate, by)
    });
    let approvals = approvals.take(NAMED).map(|approval| {
        let (by, gate) = (cut(&approval.by), cut(&approval.gate));
        let hint = hint(nearest(&approval.gate, gates()));
        format!("the approval of gate {gate} by {by}: no policy of the set has this gate{hint}")
    });
    // Of all Applications, and hardly ever needed.
    let known = LazyCell::new(|| names().collect::<BTreeSet<_>>());
    let is_unknown = |name: &String| !known.contains(name.as_str());
    let no_application = |name: &str| {
        format!("the set has no Application {}{}", cut(name), hint(nearest(name, names())))
    };
    let skips = spec.skip.iter().filter(|name| is_unknown(name));
    let skips = skips
        .filter(|name| !had_effect("Skipped", name, ""))
        .take(NAMED)
        .map(|name| format!("skip: {}", no_application(name)));
    let retries = spec.retries.iter().flat_map(|retry| {
        let unknown = retry.applications.iter().filter(|name| is_unknown(name));
        unknown.map(|name| (retry.by.as_str(), name))
    });
    let retries = retries.take(NAMED);
    let retries =
        retries.map(|(by, name)| format!("the retry by {}: {}", cut(by), no_application(name)));
    let retries = retries.filter(|text| reads_retries || before.contains(text));
    let mut all: Vec<String> = Vec::new();
    for text in approvals.chain(skips).chain(retries) {
        if all.len() < NAMED && !all.contains(&text) {
            all.push(text);
        }
    }
    all
}

fn cut(name: &str) -> String {
    name.chars().take(NAME).collect()
}
