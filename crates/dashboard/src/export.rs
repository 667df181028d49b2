//! A rollout as one file that shows it without a server: for the report of an incident (PG-017).

use std::sync::Arc;

use jiff::Timestamp;

use crate::address::{Parameters, ViewName};
use crate::reports::{ChartDocument, KnownState, PageObject, PageReports, Unavailable};
use crate::view::{ViewContext, charts_view, exported_page, try_view};

/// Charts of a simulation as HTML with its style, each with the name of its set.
pub fn export_charts(
    title: &str,
    outcome: &str,
    is_complete: bool,
    charts: &[(String, ChartDocument)],
) -> String {
    let view = charts_view(title, outcome, is_complete, charts);
    let known = KnownState { is_listed: true, ..KnownState::default() };
    exported_page(&view, &known, "simulated", None)
}

/// The rollout of a set, or one of its runs by name or number, as HTML with its style: no script, and
/// nothing is loaded.
///
/// # Errors
///
/// When the set or the run does not exist, or cannot be read. What else cannot be read, the file says.
pub async fn export_rollout(
    reports: &Arc<dyn PageReports>,
    of: &PageObject,
    run: Option<&str>,
) -> Result<String, Unavailable> {
    let mut known = reports.state();
    let is_known =
        |state: &crate::reports::KnownState| state.is_listed || !state.problems.is_empty();
    let ended =
        |_| Unavailable { message: "the cluster is not read".to_owned(), is_missing: false };
    let state = known.wait_for(is_known).await.map_err(ended)?.clone();
    // Whole seconds, as clusters have them.
    let now = Timestamp::now();
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let context = ViewContext {
        now: Some(now),
        allows_actions: false,
        permissions: Default::default(),
        state,
        place: reports.place(),
        clock: None,
    };
    let name = match run {
        Some(run) => ViewName::Run(of.clone(), run.to_owned()),
        None => ViewName::Rollout(of.clone()),
    };
    let view = try_view(reports, &name, &Parameters::parse(""), &context).await?;
    Ok(exported_page(&view, &context.state, &context.place, Some(&now.to_string())))
}
