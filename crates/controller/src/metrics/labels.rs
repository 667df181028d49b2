//! The labels of series.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;

use super::encode::gauges;
use wavegate_api::ObjectKey;
use wavegate_rollout::rollout::counts::StepCounts;

/// Labels of a series, in a fixed order.
pub(super) type Labels = Vec<(&'static str, String)>;

/// Steps have separate series up to this number; later ones share one.
pub(super) const STEPS: usize = 100;

/// The label of later steps.
const LATER_STEPS: &str = "101+";

pub(super) fn of(key: &ObjectKey) -> Labels {
    vec![("namespace", key.namespace.clone()), ("name", key.name.clone())]
}

/// Labels of a series after those of its object.
pub(super) fn with(
    mut object: Labels,
    more: impl IntoIterator<Item = (&'static str, String)>,
) -> Labels {
    object.extend(more);
    object
}

pub(super) fn of_step(key: &ObjectKey, step: Option<usize>) -> Labels {
    with(of(key), [("step", step_label(step))])
}

/// Counted from 1, as in a status; empty for Applications that no step selects.
fn step_label(step: Option<usize>) -> String {
    match step {
        Some(step) if step < STEPS => (step + 1).to_string(),
        Some(_) => LATER_STEPS.to_owned(),
        None => String::new(),
    }
}

/// Applications by the labels of their step and phase.
pub(super) fn by_step(counts: &StepCounts) -> BTreeMap<(String, &'static str), u64> {
    let mut by_step = BTreeMap::new();
    for ((step, phase), count) in &counts.applications {
        *by_step.entry((step_label(*step), phase.name())).or_default() += count;
    }
    by_step
}

/// Writes a gauge per object with its labels that are configured by `keys` (AS-602); nothing if
/// none are.
pub(super) fn configured<'l>(
    encoder: &mut DescriptorEncoder<'_>,
    family: (&str, &str),
    keys: &[String],
    objects: impl Iterator<Item = (Labels, impl Fn(&str) -> Option<&'l str>)>,
) -> fmt::Result {
    let names = label_names(keys);
    if names.is_empty() {
        return Ok(());
    }
    let series = objects.map(|(own, label)| {
        let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
        let shown = names
            .iter()
            .map(|(name, key)| (name.clone(), label(key).unwrap_or_default().to_owned()));
        (own.chain(shown).collect::<Vec<(String, String)>>(), 1.0)
    });
    gauges(encoder, family, series)
}

/// The names of labels in a metric, with the labels. Two may have the same name there; the first
/// one is shown.
fn label_names(keys: &[String]) -> Vec<(String, &str)> {
    let mut names: Vec<(String, &str)> = Vec::new();
    for key in keys {
        let name = label_name(key);
        if !names.iter().any(|(known, _)| *known == name) {
            names.push((name, key));
        }
    }
    names
}

/// The name of a label in a metric (AS-602).
fn label_name(key: &str) -> String {
    let is_kept = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    let name: String = key.chars().map(|c| if is_kept(&c) { c } else { '_' }).collect();
    format!("label_{name}")
}
