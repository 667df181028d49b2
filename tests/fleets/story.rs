//! What happened in a case, for somebody who looks for the reason.

use std::sync::Arc;

use jiff::Timestamp;
use kube_sim::RecordedRequest;
use parking_lot::Mutex;
use serde_json::Value;

use crate::app;
use crate::case::Case;
use crate::run::run;
use crate::track::{Moment, Track};
use crate::world::{Changed, Kind, World};

/// So many lines before the violation.
const LINES: usize = 120;

#[derive(Default)]
struct Story {
    world: World,
    track: Track,
    lines: Vec<(Timestamp, String)>,
}

/// The case and its story, up to what this judge finds.
pub fn of(case: &Case, judge: &str) -> String {
    let story: Arc<Mutex<Story>> = Arc::default();
    let into = Arc::clone(&story);
    let ruling = run(case, None, move |entry| into.lock().add(entry));
    let story = story.lock();
    let found = ruling.first(Some(judge)).or_else(|| ruling.first(None));
    let mut lines = story.lines.clone();
    for happened in ruling.history.iter().flat_map(|history| &history.happened) {
        let refused = happened.refused.as_ref().map(|why| format!(": not done: {why}"));
        let refused = refused.unwrap_or_default();
        lines.push((happened.at, format!("** {}{refused}", happened.what)));
    }
    lines.sort_by_key(|(at, _)| *at);
    let until = found.map_or(Timestamp::MAX, |found| found.at);
    lines.retain(|(at, _)| *at <= until);
    let mut text = format!("{case:#?}\n");
    let from = lines.len().saturating_sub(LINES);
    for (at, line) in &lines[from..] {
        text.push_str(&format!("{} {line}\n", at.strftime("%H:%M:%S%.3f")));
    }
    if let Some(found) = found {
        text.push_str(&format!(
            "{} {}: {}\n",
            found.at.strftime("%H:%M:%S%.3f"),
            found.judge,
            found.what
        ));
    }
    if let Some(history) = &ruling.history {
        text.push_str(&format!("it ended {:?}\n", history.outcome));
    }
    text
}

impl Story {
    fn add(&mut self, entry: &RecordedRequest) {
        match entry {
            RecordedRequest::Change(change) => {
                let changed = self.world.take(change);
                let moments = self.track.take(&changed);
                if let Some(line) = line(&changed, &moments) {
                    self.lines.push((changed.at, line));
                }
            }
            RecordedRequest::Disturbed(disturbed) => {
                let kube_sim::Disturbed { watch, disturbance, at } = disturbed;
                let line = format!("   {} watch {} {disturbance:?}", watch.client, watch.resource);
                self.lines.push((*at, line));
            }
            RecordedRequest::Exchange(exchange) => {
                let request = &exchange.request;
                let is_failure =
                    !(200..300).contains(&request.code) && request.resource != "leases";
                if is_failure && wavegate_simulation::is_controller(&request.client) {
                    let line = format!(
                        "   {} {} {}{} -> {}",
                        request.client, request.verb, request.resource, request.name, request.code
                    );
                    self.lines.push((exchange.answered, line));
                }
            }
        }
    }
}

/// A change in words, if it says something new.
fn line(changed: &Changed, moments: &[Moment]) -> Option<String> {
    let key = &changed.key;
    let (before, after) = (changed.before.as_deref(), changed.after.as_deref());
    let differs = |of: &dyn Fn(&Value) -> String| {
        let (old, new) = (before.map(of), after.map(of));
        (old != new).then(|| new.unwrap_or_else(|| "gone".to_owned()))
    };
    let text = match key.kind {
        Kind::Application => differs(&|app| {
            format!(
                "{} {:?} {} operation {} {} {:?}",
                app["status"]["sync"]["status"].as_str().unwrap_or_default(),
                app::compared(app),
                app::health(app),
                if app["operation"].is_object() { "requested" } else { "" },
                app::phase(app),
                app["status"]["operationState"]["message"].as_str().unwrap_or_default(),
            )
        }),
        Kind::Set => differs(&|set| {
            let entry = |entry: &Value| {
                format!("{}={}", entry["application"], entry["status"]).replace('"', "")
            };
            let entries = set["status"]["applicationStatus"].as_array();
            let entries: Vec<String> = entries.into_iter().flatten().map(entry).collect();
            let message = &set["status"]["rollout"]["message"];
            let paused = &set["metadata"]["annotations"]["wavegate.dev/paused"];
            format!("{message} paused {paused} {entries:?}")
        }),
        Kind::Run => differs(&|run| {
            format!("{} {} {}", run["status"]["phase"], run["spec"], run["status"]["gates"])
        }),
        Kind::Deployment => differs(&|it| {
            let generations = (&it["metadata"]["generation"], &it["status"]["observedGeneration"]);
            let image = &it["spec"]["template"]["spec"]["containers"][0]["image"];
            format!("{image} {generations:?} available {}", it["status"]["availableReplicas"])
        }),
        Kind::Job => differs(&|it| format!("{}", it["status"]["succeeded"])),
        Kind::ConfigMap => differs(&|it| format!("{}", it["data"])),
        Kind::Policy | Kind::Other => None,
    };
    let moments = if moments.is_empty() { String::new() } else { format!(" {moments:?}") };
    Some(format!("{key} {}{moments}", text?))
}
