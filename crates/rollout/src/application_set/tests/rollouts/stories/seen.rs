//! What is seen of a rollout at one moment, and what has changed since another one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Debug, Write};
use std::sync::Arc;

use serde_json::{Value, json};

use super::super::people::Run;
use super::super::world::World;
use crate::application_set::status::report_input;
use crate::notify;
use crate::requests::{self, Actor, Verdict};
use crate::rollout::report::Report;
use wavegate_api::ObjectKey;
use wavegate_api::policy::Format;

/// The fields that name what is in a list.
const NAMES: [&str; 3] = ["application", "type", "name"];

/// What there is to see, by its place.
pub type Seen = BTreeMap<String, BTreeMap<String, String>>;

/// Puts the leaves of `value` at `place`. What has a name stands in its list by the name.
fn flatten(place: &str, value: &Value, seen: &mut Seen) {
    let name = |item: &Value, at: usize| {
        let name = NAMES.iter().find_map(|name| item[*name].as_str());
        name.map_or_else(|| (at + 1).to_string(), str::to_owned)
    };
    let below: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(key, one)| (key.clone(), one)).collect(),
        Value::Array(items) if items.iter().any(Value::is_object) => {
            items.iter().enumerate().map(|(at, item)| (name(item, at), item)).collect()
        }
        _ => Vec::new(),
    };
    for (key, one) in below {
        let is_list = one.as_array().is_some_and(|items| items.iter().any(Value::is_object));
        if one.is_object() || is_list {
            flatten(&format!("{place} {key}"), one, seen);
        } else if !(one.is_null() || NAMES.contains(&key.as_str()) && value[&key] == *one) {
            let text = one.as_str().map_or_else(|| one.to_string(), str::to_owned);
            seen.entry(place.to_owned()).or_default().insert(key, text);
        }
    }
}

/// The set as its API server has it.
fn object(world: &World) -> Value {
    let mut set = world.spec.set(world.set.generation);
    if world.set.status.exists {
        set["status"] = world.set.status.to_json();
    }
    if let Some(reason) = &world.set.paused {
        set["metadata"]["annotations"] = json!({wavegate_api::annotations::PAUSED: reason});
    }
    if world.set.is_deleting {
        set["metadata"]["deletionTimestamp"] = json!("2026-01-02T12:00:00Z");
    }
    set
}

fn report(world: &World, set: &Value) -> Report {
    let apps = &world.cluster.apps;
    let live = apps.iter().map(|(name, app)| (name.clone(), Arc::new(app.object.clone())));
    report_input::read_report(set, &live.collect(), None)
}

/// What `wavegate status` is made of.
fn reported(report: &Report) -> Value {
    let waits = report.waits(true).into_iter().map(|wait| {
        let member = &report.members[&wait.application];
        let hold = report.hold(member).map(|hold| text((hold.kind, hold.message)));
        let shown = json!({
            "kind": text(wait.kind), "message": wait.message, "resource": wait.resource,
            "since": wait.since, "until": wait.until, "holds": hold,
        });
        (wait.application, shown)
    });
    let member = |name: &str| {
        let member = &report.members[name];
        let of = |flag: bool, name: &'static str| flag.then_some(name);
        let flags = [
            of(report.is_done(member), "done"),
            of(report.is_in_flight(member), "in flight"),
            of(report.is_outside(member), "outside"),
            of(report.may_be_held(member), "may be held"),
        ];
        json!(Vec::from_iter(flags.into_iter().flatten()).join(", "))
    };
    let members: BTreeMap<&str, Value> =
        report.members.keys().map(|name| (name.as_str(), member(name))).collect();
    let steps: Vec<String> =
        (0..report.steps.len()).map(|step| format!("{:?}", report.step_status(step))).collect();
    json!({
        "": {
            "state": text(report.state()), "outcome": text(report.outcome()),
            "progress": text(report.progress()), "health": report.health(),
            "changed": report.has_changed(), "in flight": report.in_flight(),
            "waiting": report.waiting_count(), "behind": text(report.behind()),
            "passed": report.passed(), "empty steps": text(report.empty_steps()),
            "outside": text(Vec::from_iter(report.outside())), "steps": steps,
            "foremost": report.foremost().map(|wait| wait.application),
        },
        "waits": waits.collect::<serde_json::Map<_, _>>(),
        "members": members,
    })
}

fn text(value: impl Debug) -> String {
    format!("{value:?}")
}

/// The run as requests of people see it.
fn read(run: &Run, set: &Value) -> requests::Run {
    let object = json!({
        "metadata": {"name": run.name, "namespace": "argocd", "uid": run.name,
            "resourceVersion": run.version.to_string()},
        "spec": run.spec, "status": run.status,
    });
    requests::Run::of(set, &object)
}

/// What a person may do about a run.
fn verdicts(run: &requests::Run, world: &World) -> Value {
    let person = Actor { by: "alice", at: world.cluster.now };
    let line = |verdict: Verdict| match verdict {
        Verdict::Change { says, applications, .. } => format!("will {says} ({applications})"),
        Verdict::Already(how) => format!("already: {how}"),
        Verdict::Refused(why) => format!("refused: {why}"),
    };
    json!({
        "retries": line(requests::retry_applications(run, &[], person)),
        "retries app-00": line(requests::retry_applications(run, &["app-00"], person)),
        "skips app-01": line(requests::skip_applications(run, &["app-01"], person)),
        "takes app-01 in": line(requests::undo_skip(run, &["app-01"], person)),
        "aborts": line(requests::abort_run(run, false, person)),
        "goes back": line(requests::rollback_run(run, None, person)),
        "approves": line(requests::approve_gates(run, None, person)),
    })
}

/// How far `wait` is, for several of its goals.
fn waited_for(world: &World, runs: &[requests::Run], report: &Report) -> Value {
    use requests::{DeployedRevision, Goal, Seen, WaitProgress};
    let deployed = |(name, app): (&String, &super::super::cluster::App)| {
        let found = &app.object["status"]["sync"]["revision"];
        let revisions = found.as_str().map(str::to_owned).into_iter().collect();
        (name.clone(), DeployedRevision { source: "r".to_owned(), revisions })
    };
    let deployed = world.cluster.apps.iter().map(deployed).collect();
    let seen = Seen { runs, has_runs: world.model.is_some(), report, deployed: &deployed };
    let line = |goal: Goal| match requests::wait_progress(&goal, &seen) {
        WaitProgress::Runs(run) => format!("runs {}", run.name),
        WaitProgress::Expects => "expects".to_owned(),
        WaitProgress::Members => "Applications".to_owned(),
        WaitProgress::Ended { ending, run, is_final } => {
            format!("{ending:?} {:?} {is_final}", run.map(|run| &run.name))
        }
    };
    let commit = world.cluster.commit;
    let revision = |commit: u32| line(Goal::Revision(super::super::cluster::revision(commit)));
    json!({
        "newest": line(Goal::Newest), "commit": revision(commit),
        "commit before": revision(commit.saturating_sub(1)),
        "first run": line(Goal::Run("set-1".to_owned())),
    })
}

/// What is said about the last transitions of a run.
fn messages(run: &Run) -> Value {
    let key = ObjectKey::new("argocd", &run.name);
    let notified = notify::Run { key: &key, uid: "uid", set: "set", status: &run.status };
    let last = notify::transition_count(&run.status).saturating_sub(3);
    let texts = notify::transitions_since(notified, last).map(|one| {
        let event = one.message(Format::CloudEvents);
        (one.id(), event["data"]["text"].clone())
    });
    Value::Object(texts.collect())
}

/// An operation in one line.
fn operation(operation: &Value) -> Option<String> {
    (!operation.is_null()).then(|| operation.to_string())
}

pub fn see(world: &World) -> Seen {
    let mut seen = Seen::new();
    let set = &world.set;
    let mut status = set.status.to_json();
    // The set has as many resources as there are Applications, whose states follow.
    status.as_object_mut().map(|status| status.remove("resources"));
    flatten("set", &status, &mut seen);
    let metadata = json!({
        "finalizers": set.finalizers, "approvedDeletions": set.approved_deletions,
        "existed": text(set.existed), "gone": world.is_gone,
    });
    flatten("set", &metadata, &mut seen);
    let raw = object(world);
    let report = report(world, &raw);
    let mut runs = Vec::new();
    for run in world.model.iter().flat_map(|model| &model.runs) {
        flatten(&format!("run {}", run.name), &json!(run.status), &mut seen);
        flatten("messages", &messages(run), &mut seen);
        runs.insert(0, read(run, &raw));
    }
    if let Some(run) = runs.first() {
        flatten("alice", &verdicts(run, world), &mut seen);
    }
    flatten("wait", &waited_for(world, &runs, &report), &mut seen);
    for (name, app) in &world.cluster.apps {
        let metadata = &app.object["metadata"];
        let shown = json!({
            "annotations": metadata["annotations"], "labels": metadata["labels"],
            "operation": operation(&app.object["operation"]), "path": app.path(),
            "owner": app.owner(), "going": app.is_going(),
            "sync": app.object["status"]["sync"]["status"], "deployed": text(&app.deployed),
        });
        flatten(name, &shown, &mut seen);
    }
    flatten("report", &reported(&report), &mut seen);
    seen
}

/// Texts so long stand once in the changes of one moment.
const LONG: usize = 24;

/// What is different, a line for each place; `"` stands for a text that was there before.
pub fn changes(before: &Seen, after: &Seen) -> String {
    let none = BTreeMap::new();
    let places = before.keys().chain(after.keys());
    let mut text = String::new();
    let mut long = BTreeSet::new();
    for place in BTreeSet::from_iter(places) {
        let (old, new) = (before.get(place).unwrap_or(&none), after.get(place).unwrap_or(&none));
        let changed = new.iter().filter(|(key, value)| old.get(*key) != Some(*value));
        let mut parts: Vec<String> = changed
            .map(|(key, value)| match value.len() > LONG && !long.insert(value) {
                true => format!("{key}=\""),
                false => format!("{key}={value}"),
            })
            .collect();
        match new.is_empty() {
            true => parts.push("gone".to_owned()),
            false => parts.extend(
                old.keys().filter(|key| !new.contains_key(*key)).map(|key| format!("-{key}")),
            ),
        }
        if !parts.is_empty() {
            let _ = writeln!(text, "  {place}: {}", parts.join(" | "));
        }
    }
    text
}
