//! The clock of what was recorded: the time that a view shows, in its address (PG-002).

use std::sync::Arc;

use maud::{Markup, html};

use super::context::ViewContext;
use super::words::human;
use crate::address::Parameters;
use crate::reports::{PageClock, PageReports};

/// The reports of the time that is asked for, and what views of it are made with; those of a cluster
/// as they are.
pub(crate) fn at_time(
    reports: &Arc<dyn PageReports>,
    path: &str,
    asked: &Parameters,
    context: ViewContext,
) -> (Arc<dyn PageReports>, ViewContext) {
    match reports.at_time(asked.text("at")) {
        Some(timed) => {
            let now = context.now.map(|_| timed.clock.now);
            let clock = Some((timed.clock, path.to_owned()));
            (timed.reports, ViewContext { now, clock, ..context })
        }
        None => (Arc::clone(reports), context),
    }
}

/// The slider. Without scripts, its button shows the time.
pub(super) fn slider(clock: &PageClock, path: &str) -> Markup {
    let length = clock.end.as_second().saturating_sub(clock.start.as_second()).max(1);
    let at = clock.now.as_second().saturating_sub(clock.start.as_second());
    let shown = jiff::Timestamp::from_second(clock.now.as_second()).unwrap_or(clock.now);
    html! {
        form id="clock" class="clock" method="get" action=(path) data-live {
            label for="at" { "Time" }
            input id="at" type="range" name="at" min="0" max=(length) value=(at) aria-valuetext={ (human(at)) " of " (human(length)) };
            output for="at" { (human(at)) " of " (human(length)) " · " (shown) }
            button type="submit" { "Show" }
        }
    }
}

/// HTML of this crate whose addresses of views have the time, too.
pub(super) fn with_time(html: &str, clock: &PageClock) -> String {
    const ADDRESS: &str = " href=\"/";
    let at = clock.now.as_second().saturating_sub(clock.start.as_second());
    let mut parts = html.split(ADDRESS);
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (address, rest) = part.split_once('"').unwrap_or((part, ""));
        let sign = if address.contains('?') { "&amp;" } else { "?" };
        kept.push_str(&format!("{ADDRESS}{address}{sign}at={at}\"{rest}"));
    }
    kept
}
