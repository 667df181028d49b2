//! The Applications of a step as stacked areas: how many are in which state over time.

use super::layout::{self, Layout};
use super::writer::{Anchor, Writer, number};
use crate::cli::rollout_view::text::count;
use crate::cli::simulate::segments::{DrawnStep, counts, occurring, peaks};
use crate::cli::simulate::timeline::Look;
use wavegate_simulation::SpanKind;

/// The states from the bottom upwards: done ones grow from below, waiting ones shrink above,
/// and what is in flight is the front between them. Failures lie at the bottom, where they are
/// on a straight line.
const STACK: [SpanKind; 10] = [
    SpanKind::Failed,
    SpanKind::Back,
    SpanKind::GoingBack,
    SpanKind::Healthy,
    SpanKind::BecomingHealthy,
    SpanKind::Syncing,
    SpanKind::Pending,
    SpanKind::Held,
    SpanKind::Waiting,
    SpanKind::Skipped,
];
/// Columns for all areas, so that many steps do not make the picture larger.
const COLUMNS: usize = 6_000;

/// Draws the areas into a height.
pub(super) fn area(out: &mut Writer, layout: &Layout, step: &DrawnStep, top: f64, height: f64) {
    if step.rows.is_empty() {
        return;
    }
    let pixels = layout::RIGHT - layout::LEFT;
    let columns = (COLUMNS / layout.steps().count().max(1)).clamp(60, pixels as usize);
    let counts = counts(&step.rows, layout.clock.length, columns);
    let all = step.rows.len() as f64;
    let (seen, peaks) = (occurring(&step.rows), peaks(&step.rows));
    let bottom = top + height;
    // The highest area first: the others are drawn over it, so that no gap is between them.
    for last in (0..STACK.len()).rev() {
        let what = STACK[last];
        if !seen[what.index()] {
            continue;
        }
        let tops: Vec<String> = counts
            .iter()
            .map(|cell| STACK[..=last].iter().map(|what| cell[what.index()]).sum::<f64>())
            .map(|sum| number(((bottom - sum / all * height) * 10.0).round() / 10.0))
            .collect();
        out.raw("<g>");
        let most = count(usize::try_from(peaks[what.index()]).unwrap_or(usize::MAX), "Application");
        let Look { label, class, .. } = Look::of(what);
        out.title(&format!("{label}: at most {most} at the same time"));
        out.path(class, &outline(&tops, pixels / columns as f64, bottom));
        out.close("g");
    }
    let label = step.rows.len().to_string();
    out.text(layout::LEFT - 6.0, top + 9.0, "tick", Anchor::End, &label);
    out.text(layout::LEFT - 6.0, bottom, "tick", Anchor::End, "0");
    out.line("rule", layout::LEFT, bottom, layout::RIGHT, bottom);
}

/// The outline of columns of some heights, without the points that are on a level line.
fn outline(tops: &[String], width: f64, bottom: f64) -> String {
    let mut data = format!("M{} {}", number(layout::LEFT), number(bottom));
    let mut before = None;
    for (at, top) in tops.iter().enumerate() {
        if before == Some(top) {
            continue;
        }
        let x = layout::LEFT + at as f64 * width;
        data.push_str(&format!("H{}V{top}", number(x)));
        before = Some(top);
    }
    data + &format!("H{}V{}z", number(layout::RIGHT), number(bottom))
}
