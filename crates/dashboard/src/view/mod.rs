//! What each view shows, as HTML in parts.

mod actions;
mod application;
mod chart;
mod clock;
mod context;
mod fleet;
mod heads;
mod history;
mod pages;
pub(crate) mod parts;
mod plan;
mod policies;
mod rollout;
mod words;

use std::sync::Arc;

pub(crate) use self::actions::{action_view, is_verb_of_sets, outcome_view, verb_words};
pub(crate) use self::clock::at_time;
pub(crate) use self::context::{View, ViewContext};
pub(crate) use self::history::charts_view;
pub(crate) use self::pages::{exported_page, message_page, whole_page};
use self::parts::Part;
use crate::address::{Parameters, ViewName};
use crate::reports::{PageReports, RunDocument, Unavailable};

/// Makes a view.
pub(crate) async fn make_view(
    reports: &Arc<dyn PageReports>,
    name: &ViewName,
    asked: &Parameters,
    context: &ViewContext,
) -> View {
    let made = try_view(reports, name, asked, context).await;
    let mut view = made.unwrap_or_else(|error| unavailable(&error));
    view.parts.insert(0, words::notice(&context.state));
    view
}

/// The same, or why it cannot be made.
pub(crate) async fn try_view(
    reports: &Arc<dyn PageReports>,
    name: &ViewName,
    asked: &Parameters,
    context: &ViewContext,
) -> Result<View, Unavailable> {
    Ok(match name {
        ViewName::Fleet => fleet::fleet_view(&reports.fleet().await?, asked, context),
        ViewName::Rollout(of) => {
            let set = reports.rollout(of).await?;
            rollout::rollout_view(&set, context)
        }
        ViewName::History(of) => history::history_view(of, &reports.history(of).await?, context),
        ViewName::Run(of, run) => {
            let runs = reports.history(of).await?;
            let number = run.parse().ok();
            let meant = |one: &&_| {
                let one: &RunDocument = one;
                one.run == *run || one.number.is_some() && one.number == number
            };
            let found = runs.iter().find(meant).ok_or_else(|| Unavailable {
                message: format!("cannot find: run {run} of ApplicationSet {}/{}: it does not exist, or was too long ago", of.namespace, of.name),
                is_missing: true,
            })?;
            let chart = reports.chart(of, &found.run).await?;
            history::run_view(of, found, &chart, context)
        }
        ViewName::Plan(of) => plan::plan_view(of, &reports.plan(of).await?, context),
        ViewName::Application(of) => {
            let shown = reports.application(of).await?;
            let difference = match asked.text("diff") {
                "" => None,
                _ => Some(reports.difference(of).await),
            };
            application::application_view(&shown, difference, context)
        }
        ViewName::Policies => policies::policies_view(&reports.policies().await?),
        ViewName::Keys => pages::keys_view(),
    })
}

fn unavailable(error: &Unavailable) -> View {
    View {
        title: if error.is_missing { "Not found" } else { "Not available" }.to_owned(),
        parts: vec![Part::leaf("unavailable", pages::problem(error))],
        is_missing: error.is_missing,
    }
}
