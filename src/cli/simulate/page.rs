//! `simulate --dashboard` and `--export`: the page over what was simulated (PG-002, PG-014).

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_sim::{EventType, RecordedRequest};
use parking_lot::Mutex;

use super::course;
use super::drawn::chart_document;
use super::scenario::SimulationCase;
use super::timeline::Timeline;
use crate::cli::console::output;
use crate::cli::dashboard::{FleetMoment, OpenPage, RecordedFleet, RecordedObject};
use crate::cli::rollout_view::events::Watched;
use crate::cli::rollout_view::signals::Signals;
use tokio_util::sync::CancellationToken;
use wavegate_api::ObjectKey;
use wavegate_dashboard::export_charts;
use wavegate_simulation::{FleetRecord, History};

/// What is recorded while a simulation runs.
#[derive(Clone, Default)]
pub(super) struct Recording {
    changes: Arc<Mutex<Vec<RecordedObject>>>,
    log: Option<Arc<Mutex<String>>>,
}

impl Recording {
    /// One that keeps the log of the API server, too.
    pub fn new(keeps_log: bool) -> Self {
        Self { log: keeps_log.then(Arc::default), ..Self::default() }
    }

    /// What the simulation gives its record to.
    pub fn record(&self) -> FleetRecord {
        let (changes, log) = (Arc::clone(&self.changes), self.log.clone());
        Box::new(move |entry| {
            if let Some(log) = &log {
                let mut log = log.lock();
                log.push_str(&entry.to_string());
                log.push('\n');
            }
            let RecordedRequest::Change(change) = entry else { return };
            let Some(kind) = kind_of(&change.resource) else { return };
            let is_gone = change.event == EventType::Deleted;
            changes.lock().push(RecordedObject {
                at: change.time,
                kind,
                key: ObjectKey::new(&change.namespace, &change.name),
                object: (!is_gone).then(|| change.object.to_vec()),
            });
        })
    }

    /// The log.
    pub fn take_log(&self) -> String {
        self.log.as_ref().map(|log| std::mem::take(&mut *log.lock())).unwrap_or_default()
    }

    /// The fleet that was recorded.
    fn fleet(&self, case: &SimulationCase, history: &History) -> RecordedFleet {
        let timeline = course::timeline(case, history);
        let charts = timeline
            .sets
            .iter()
            .map(|set| (ObjectKey::new(&set.namespace, &set.name), chart_document(&timeline, set)));
        let charts: BTreeMap<_, _> = charts.collect();
        RecordedFleet {
            start: history.start,
            end: history.end,
            place: format!("simulation: {}", timeline.outcome),
            changes: std::mem::take(&mut *self.changes.lock()),
            charts,
        }
    }
}

fn kind_of(resource: &str) -> Option<Watched> {
    match resource {
        "applicationsets" => Some(Watched::Sets),
        "applications" => Some(Watched::Applications),
        "rolloutruns" => Some(Watched::Runs),
        "rolloutpolicies" => Some(Watched::Policies),
        _ => None,
    }
}

/// Serves the page at the end of a simulation until it is interrupted.
pub(super) fn serve(
    recording: &Recording,
    case: &SimulationCase,
    history: &History,
) -> anyhow::Result<u8> {
    let fleet = Arc::new(recording.fleet(case, history));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let code = runtime.block_on(async {
        let mut signals = Signals::new(false)?;
        let page = OpenPage::start(0).await?;
        output::print(&format!("The page: {}\n", page.url()))?;
        let stop = CancellationToken::new();
        let end = fleet.end;
        let moment = Arc::new(FleetMoment::at(&fleet, end));
        let serving = page.serve(moment, false, stop.clone());
        let code = tokio::select! {
            () = serving => 0,
            code = signals.end() => code,
        };
        stop.cancel();
        anyhow::Ok(code)
    });
    runtime.shutdown_timeout(std::time::Duration::from_millis(200));
    code
}

/// The chart as a file that shows it without a server.
pub(super) fn exported_chart(timeline: &Timeline) -> String {
    let charts: Vec<_> =
        timeline.sets.iter().map(|set| (set.key(), chart_document(timeline, set))).collect();
    let title = format!("Simulated rollout of {}", timeline.title());
    export_charts(&title, &timeline.outcome, timeline.is_complete, &charts)
}
