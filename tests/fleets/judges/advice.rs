//! What `explain` advises works: no verb that would be refused, and no sync to a target of a run that
//! was ended (ST-080).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube_sim::Exchange;
use serde_json::Value;
use wavegate::cli::advised_commands;
use wavegate_rollout::application_set::status::report_input;
use wavegate_rollout::requests::{self, Actor, RollbackScope, Run, Verdict};

use super::{Judge, Known};
use crate::world::{Changed, Kind};

/// After this time without faults and changes, what the objects say of each other is up to date.
const SETTLED: Duration = Duration::from_secs(60);

#[derive(Default)]
pub struct Advice {
    /// When something changed last.
    changed_at: Option<Timestamp>,
    said_at: Option<Timestamp>,
}

impl Judge for Advice {
    fn change(
        &mut self,
        _: &Known<'_>,
        changed: &Changed,
        _: &[crate::track::Moment],
    ) -> super::Verdict {
        if changed.key.kind != Kind::Other {
            self.changed_at = Some(changed.at);
        }
        Ok(())
    }

    fn request(&mut self, known: &Known<'_>, exchange: &Exchange, _: &[Changed]) -> super::Verdict {
        let Some(changed) = self.changed_at else { return Ok(()) };
        let age = Duration::try_from(exchange.answered.duration_since(changed));
        // Once for each quiet time.
        if age.unwrap_or_default() < SETTLED
            || self.said_at == Some(changed)
            || !known.is_quiet_for(SETTLED)
        {
            return Ok(());
        }
        self.said_at = Some(changed);
        check_all(known)
    }

    fn end(&mut self, known: &Known<'_>, _: &wavegate_simulation::History) -> super::Verdict {
        check_all(known)
    }
}

fn check_all(known: &Known<'_>) -> super::Verdict {
    let named =
        |(key, live): (&crate::world::Key, &Arc<Value>)| (key.name.to_string(), Arc::clone(live));
    let applications: BTreeMap<String, Arc<Value>> =
        known.world.all(Kind::Application).map(named).collect();
    known.world.all(Kind::Set).try_for_each(|(key, set)| {
        let run = known.run(&key.name);
        let commands = advised_commands(set, &applications, run, known.now);
        let run = run.map(|run| Run::of(set, run)).unwrap_or_default();
        commands.iter().try_for_each(|command| {
            let why = refused(command, set, &run, &applications);
            why.map_or(Ok(()), |why| Err(format!("explain advises {command}: {why}")))
        })
    })
}

/// Why a command would not do what it is advised for.
fn refused(
    command: &str,
    set: &Value,
    run: &Run,
    applications: &BTreeMap<String, Arc<Value>>,
) -> Option<String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let person = Actor { by: "ann", at: Timestamp::UNIX_EPOCH };
    let has = |option: &str| words.contains(&option);
    let name = match words.iter().position(|word| *word == "-n") {
        Some(at) => *words.get(at + 2)?,
        None => *words.get(2)?,
    };
    let is_set = set["metadata"]["name"] == name;
    let gate = words.iter().position(|word| *word == "--gate").and_then(|at| words.get(at + 1));
    let verdict = match words[1] {
        "approve" if has("--deletions") => requests::approve_deletions(set),
        "approve" => requests::approve_gates(run, gate.copied(), person),
        "retry" if is_set => requests::retry_applications(run, &[], person),
        "retry" => requests::retry_applications(run, &[name], person),
        "skip" => requests::skip_applications(run, &[name], person),
        "abort" => requests::abort_run(run, has("--terminate"), person),
        "rollback" => {
            let all = applications.values().map(Arc::as_ref);
            requests::rollback_run(run, Some(&RollbackScope::of(&run.name, all)), person)
        }
        "sync" => {
            let live = report_input::read_application(applications.get(name)?);
            let is_quarantined = requests::is_quarantined(run, name, &live);
            return is_quarantined.then(|| "its target is in quarantine".to_owned());
        }
        _ => return None,
    };
    match verdict {
        Verdict::Refused(why) => Some(why),
        Verdict::Change { .. } | Verdict::Already(_) => None,
    }
}
