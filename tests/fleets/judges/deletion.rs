//! The controllers delete nothing that was not asked to be deleted. What moves from one Application
//! to another is not.

use kube_sim::{EventType, Exchange};

use super::{Judge, Known, Verdict};
use crate::scenario::names;
use crate::world::{Changed, Kind};

pub struct Deletion;

/// The runs of a set that are kept (ST-005).
const KEPT_RUNS: usize = 10;

impl Judge for Deletion {
    fn request(&mut self, known: &Known<'_>, exchange: &Exchange, caused: &[Changed]) -> Verdict {
        let is_unasked = |changed: &&Changed| {
            let is_going = |object: &Option<std::sync::Arc<serde_json::Value>>| {
                object.as_ref().is_some_and(|it| it["metadata"]["deletionTimestamp"].is_string())
            };
            let is_gone = changed.event == EventType::Deleted
                || is_going(&changed.after) && !is_going(&changed.before);
            is_gone && !is_asked_for(known, changed)
        };
        match caused.iter().find(is_unasked) {
            None => Ok(()),
            Some(changed) => {
                let client = &exchange.request.client;
                Err(format!("{} is deleted by {client}, which was not asked for", changed.key))
            }
        }
    }
}

fn is_asked_for(known: &Known<'_>, changed: &Changed) -> bool {
    let name = &*changed.key.name;
    let is_removed = |app: &str| known.case.is_removed(app);
    match changed.key.kind {
        Kind::Application | Kind::Deployment => is_removed(name),
        // The next attempt replaces the hook of the last one.
        Kind::Job => true,
        Kind::ConfigMap => known.case.apps.iter().any(|app| {
            let is_old = app.prunes && names::pruned(&app.name) == name;
            let of = [names::first(&app.name), names::last(&app.name)];
            is_old || is_removed(&app.name) && of.iter().any(|one| one == name)
        }),
        Kind::Run => known.world.all(Kind::Run).count() >= KEPT_RUNS,
        Kind::Set | Kind::Policy => false,
        Kind::Other => ["leases", "events"].contains(&&*changed.key.resource),
    }
}
