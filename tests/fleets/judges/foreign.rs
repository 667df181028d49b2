//! The controllers write nothing but the resources of the Applications, and what they say about
//! them.

use kube_sim::Exchange;

use super::{Judge, Known, Verdict};
use crate::scenario::{BYSTANDER, CONTROL_PLANE, DESTINATION, MOVING, names};
use crate::world::{Changed, Kind};

pub struct Foreign;

impl Judge for Foreign {
    fn request(&mut self, known: &Known<'_>, exchange: &Exchange, caused: &[Changed]) -> Verdict {
        match caused.iter().find(|changed| !is_own(known, changed)) {
            None => Ok(()),
            Some(changed) => Err(format!(
                "{} {:?} by {} of {}",
                changed.key, changed.event, exchange.request.verb, exchange.request.client
            )),
        }
    }
}

fn is_own(known: &Known<'_>, changed: &Changed) -> bool {
    let key = &changed.key;
    let is_of = |names: fn(&str) -> Vec<String>| {
        &*key.namespace == DESTINATION
            && known
                .case
                .apps
                .iter()
                .any(|app| names(&app.name).iter().any(|one| **one == *key.name))
    };
    if &*key.name == BYSTANDER {
        return false;
    }
    match key.kind {
        Kind::Application => known.case.app(&key.name).is_some(),
        // Only status and annotations; what users wrote stays.
        Kind::Set | Kind::Policy => match (&changed.before, &changed.after) {
            (Some(before), Some(after)) => before["spec"] == after["spec"],
            _ => false,
        },
        Kind::Run => &*key.namespace == CONTROL_PLANE,
        Kind::Deployment => is_of(|app| vec![app.to_owned()]),
        Kind::Job => is_of(|app| vec![names::before(app), names::after(app)]),
        Kind::ConfigMap => {
            let moves = &*key.name == MOVING && &*key.namespace == DESTINATION;
            moves || is_of(|app| vec![names::first(app), names::last(app), names::pruned(app)])
        }
        Kind::Other => {
            let is_record = ["events", "leases"].contains(&&*key.resource);
            is_record && [CONTROL_PLANE, DESTINATION].contains(&&*key.namespace)
        }
    }
}
