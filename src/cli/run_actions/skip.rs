//! Leaves Applications out of the current runs of their sets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::request::{ActionResults, PlannedAction, Session};
use super::selection;
use crate::cli::cluster::live_app::named;
use crate::cli::console::commands::wavegate;
use crate::cli::console::error::Error;
use crate::cli::runs::{runs, set_that_lacks};
use wavegate_api::{ObjectKey, Raw};
use wavegate_rollout::requests::{self, Run, Verdict, current_run};

/// The Applications of one set that are named.
#[derive(Default)]
struct NamedMembers {
    names: BTreeSet<String>,
    /// Those that are complete.
    complete: Vec<String>,
}

/// Skips the Applications, or takes that back.
pub(super) async fn skip(
    session: &Session<'_>,
    names: &[String],
    undo: bool,
) -> Result<ActionResults, Error> {
    let cluster = session.cluster;
    let what = format!("cannot {}", session.verb.name);
    let mut skipped: BTreeMap<ObjectKey, (Arc<Value>, NamedMembers)> = BTreeMap::new();
    for name in names {
        let (name, is_complete, set) = match selection::member(cluster, name, &what).await {
            Ok((application, set)) => {
                let is_complete = !undo && selection::is_complete(&set, &application);
                (application.name().to_owned(), is_complete, set)
            }
            // It cannot be created, and holds its step all the same.
            Err(error) if error.is_not_found() => {
                let (_, name) = named(name)?;
                let set = set_that_lacks(cluster, name).await?.ok_or(error)?;
                (name.to_owned(), false, set)
            }
            Err(error) => return Err(error),
        };
        let of_set = skipped.entry(ObjectKey::of(&set)).or_insert((set, NamedMembers::default()));
        if is_complete {
            of_set.1.complete.push(name.clone());
        }
        of_set.1.names.insert(name);
    }
    let user = session.user_request().await?;
    let user = &user;
    let mut actions = Vec::new();
    for (set, named) in skipped.values() {
        let runs = runs(cluster, set).await?;
        actions.push(PlannedAction::for_run(set, current_run(&runs, set), move |run| {
            let names: Vec<&str> = named.names.iter().map(String::as_str).collect();
            let change = if undo { requests::undo_skip } else { requests::skip_applications };
            match (change(&Run::read(run), &names, user.person()), named.complete.first()) {
                // A commit that nobody has compared yet may be there.
                (Verdict::Change { .. } | Verdict::Refused(_), Some(name)) => {
                    Verdict::Refused(format!(
                        "{name} is complete: its rollout does not wait for it, as of its last \
                         comparison; after a push: {}",
                        wavegate("refresh", set.namespace(), name)
                    ))
                }
                (verdict, _) => verdict,
            }
        }));
    }
    let is_one = actions.len() == 1;
    session.carry_out(&actions, is_one).await
}
