//! The progress of an operation, as lines: one for each transition of the operation, its
//! phases and waves, its hooks and its resources. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use wavegate_api::app_view::{ApplicationView, OperationStateView, ResourceView, ResultView};
use wavegate_api::operation::OperationPhase;
use wavegate_api::resource_key::ResourceKey;
use wavegate_application::manual::is_request;
use wavegate_engine::blocking_resource::{self, Attempt};
use wavegate_engine::sync::TASKS_RUNNING;

/// Which operation is followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) enum OperationGoal {
    /// The one that was requested with this id.
    Request(String),
    /// The one that started at this time.
    Started(String),
}

/// The state of the operation that is followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) enum FollowedState {
    /// No controller has started it.
    Requested,
    /// It is running.
    Running,
    /// It has ended in this phase.
    Ended(OperationPhase),
    /// Its state was replaced or removed, so its result is unknown.
    Lost(&'static str),
}

/// The state of the operation that is followed, in a version of its Application.
pub(in crate::cli) fn followed(
    application: &ApplicationView,
    goal: &OperationGoal,
) -> FollowedState {
    let state = &application.status.operation_state;
    let is_it = match goal {
        OperationGoal::Request(id) => is_request(&state.operation, id),
        OperationGoal::Started(at) => state.started_at == *at,
    };
    if is_it {
        let phase = OperationPhase::from_word(&state.phase);
        return if phase.is_completed() {
            FollowedState::Ended(phase)
        } else {
            FollowedState::Running
        };
    }
    match goal {
        OperationGoal::Request(id) if is_request(&application.operation, id) => {
            FollowedState::Requested
        }
        OperationGoal::Request(_) if state.phase == "Running" => {
            FollowedState::Lost("another operation has replaced it")
        }
        OperationGoal::Request(_) => {
            FollowedState::Lost("its request was removed before it started")
        }
        OperationGoal::Started(_) => FollowedState::Lost("another operation has started since"),
    }
}

/// One line of progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct ProgressLine {
    /// The operation, a phase with its wave, or a resource.
    pub subject: String,
    /// Its new state; empty when the text says all.
    pub state: String,
    /// Details.
    pub text: String,
}

impl ProgressLine {
    pub fn new(
        subject: impl Into<String>,
        state: impl Into<String>,
        text: impl Into<String>,
    ) -> Self {
        Self { subject: subject.into(), state: state.into(), text: text.into() }
    }

    /// The line without line break, in columns; `width` is that of the first one.
    pub fn plain(&self, width: usize) -> String {
        let Self { subject, state, text } = self;
        let text: Vec<&str> = text.split_whitespace().collect();
        format!("{subject:<width$}  {state:<11}  {}", text.join(" ")).trim_end().to_owned()
    }
}

/// Width of the column of subjects: at least, and at most, as far as the names need it.
pub(in crate::cli) const WIDTH: usize = 40;
const WIDEST: usize = 64;

/// A result of one resource in one phase.
type ResultKey = (String, ResourceKey);

/// Start of the message of an operation that begins another attempt.
const AGAIN: &str = "Retrying operation";

/// What has been reported so far.
#[derive(Debug, Default)]
pub(in crate::cli) struct Progress {
    phase: String,
    message: String,
    attempt: i64,
    revision: String,
    wave: Option<(String, i64)>,
    results: BTreeMap<ResultKey, (String, String)>,
    /// The resources of the operation.
    parts: BTreeSet<ResourceKey>,
    health: BTreeMap<ResourceKey, (String, String)>,
    /// Waves of manifests that the status may not list.
    waves: BTreeMap<ResourceKey, i64>,
    /// Width of the longest subject.
    width: usize,
}

impl Progress {
    /// Progress of an Application as it was before its operation: older health is not
    /// reported. `waves` are those of known manifests.
    pub fn of(application: &Value, waves: BTreeMap<ResourceKey, i64>) -> Self {
        let health = health_of(application).collect();
        let listed = ResourceView::rows(application).map(|resource| resource.key());
        let subjects = listed.chain(waves.keys().cloned()).map(|key| indented(&title(&key)));
        let width = subjects.map(|subject| subject.chars().count()).max().unwrap_or_default();
        Self { health, waves, width, ..Self::default() }
    }

    /// Width of the column of subjects: names that are not known at the start widen it.
    pub fn width(&self) -> usize {
        self.width.clamp(WIDTH, WIDEST)
    }

    /// The transitions in a new version of the Application; call it only while the
    /// operation that is followed is the one in its status.
    pub fn update(&mut self, version: &Value, application: &ApplicationView) -> Vec<ProgressLine> {
        let mut lines = Vec::new();
        let status = &application.status;
        let of_version = || &version["status"]["operationState"];
        let attempt = || Attempt::read(of_version()).map(|attempt| attempt.to_string());
        self.operation(&status.operation_state, attempt, &mut lines);
        let listed: BTreeMap<ResourceKey, i64> =
            ResourceView::rows(version).map(|item| (item.key(), item.sync_wave)).collect();
        for result in ResultView::rows(version) {
            self.result(&result, &listed, &mut lines);
        }
        for (key, new) in health_of(version) {
            let old = self.health.insert(key.clone(), new.clone());
            // Of resources that this operation has not applied, others report.
            if old.as_ref() != Some(&new) && self.parts.contains(&key) {
                lines.push(ProgressLine::new(title(&key), new.0, new.1));
            }
        }
        self.message(version, &status.operation_state, &mut lines);
        let longest = lines.iter().map(|line| line.subject.chars().count()).max();
        self.width = self.width.max(longest.unwrap_or_default());
        lines
    }

    fn operation(
        &mut self,
        state: &OperationStateView,
        number: impl FnOnce() -> Option<String>,
        lines: &mut Vec<ProgressLine>,
    ) {
        if state.retry_count != self.attempt && state.finished_at.is_null() {
            self.attempt = state.retry_count;
            self.wave = None;
            self.results.clear();
            lines.push(ProgressLine::new("operation", "Retrying", number().unwrap_or_default()));
        }
        let phase = state.phase.as_str();
        let revision = short_revision(state);
        let is_new = !revision.is_empty() && revision != self.revision;
        if !state.is_completed() && (phase != self.phase || is_new) {
            let text = match revision.as_str() {
                "" => String::new(),
                revision => format!("revision {revision}"),
            };
            lines.push(ProgressLine::new("operation", phase, text));
            phase.clone_into(&mut self.phase);
            self.revision = revision;
        }
    }

    fn message(
        &mut self,
        version: &Value,
        state: &OperationStateView,
        lines: &mut Vec<ProgressLine>,
    ) {
        let message = state.message.as_str();
        if state.is_completed() || message == self.message {
            return;
        }
        message.clone_into(&mut self.message);
        // What failed, and when the next attempt begins.
        if !state.finished_at.is_null() {
            let reason = blocking_resource::blocking_of(version).reason;
            lines.push(ProgressLine::new("operation", "Retrying", reason));
            return;
        }
        // The lines of the tasks say more, and the attempt has its line.
        if !message.is_empty() && message != TASKS_RUNNING && !message.starts_with(AGAIN) {
            lines.push(ProgressLine::new("operation", &state.phase, readable(message)));
        }
    }

    fn result(
        &mut self,
        result: &ResultView,
        listed: &BTreeMap<ResourceKey, i64>,
        lines: &mut Vec<ProgressLine>,
    ) {
        // Only announced: whether it happens is not known yet.
        if result.status.is_empty() && result.hook_phase.is_empty() {
            return;
        }
        let key = result.key();
        let phase = result.sync_phase.clone();
        let new = (state_of(result).to_owned(), result.message.clone());
        self.parts.insert(key.clone());
        let old = self.results.insert((phase.clone(), key.clone()), new.clone());
        if old.as_ref() == Some(&new) || (new.0.is_empty() && new.1.is_empty()) {
            return;
        }
        // A prune runs through the waves backwards, so its wave says nothing.
        let is_prune = matches!(new.0.as_str(), "Pruned" | "PruneSkipped");
        let wave = self.waves.get(&key).or(listed.get(&key)).copied();
        let at = (phase.clone(), wave.unwrap_or(0));
        if old.is_none() && !is_prune && !phase.is_empty() && self.wave.as_ref() != Some(&at) {
            let title = match wave {
                Some(wave) => format!("{phase}, wave {wave}"),
                None => phase,
            };
            if self.wave.as_ref().is_none_or(|last| wave.is_some() || last.0 != at.0) {
                lines.push(ProgressLine::new(title, "", ""));
                self.wave = Some(at);
            }
        }
        let subject = match result.hook_type.as_str() {
            "" => title(&key),
            hook => format!("{hook} hook {}", title(&key)),
        };
        lines.push(ProgressLine::new(indented(&subject), new.0, new.1));
    }
}

/// A resource, below its phase.
fn indented(subject: &str) -> String {
    format!("  {subject}")
}

/// The state of a result, in one word.
pub(super) fn state_of(result: &ResultView) -> &str {
    let (status, phase) = (result.status.as_str(), result.hook_phase.as_str());
    match (result.hook_type.is_empty(), status) {
        // Whether it was applied is clear from its phase.
        (false, "Synced" | "") => phase,
        (true, "Synced") if matches!(phase, "Failed" | "Error") => phase,
        (true, "") => phase,
        _ => status,
    }
}

/// A message of the sync engine, in which a kind of the core group has an empty group, as in
/// `waiting for healthy state of /Pod/web`.
pub(super) fn readable(message: &str) -> String {
    let word = |word: &str| match word.strip_prefix('/') {
        Some(kind) if kind.starts_with(|c: char| c.is_ascii_uppercase()) => kind.to_owned(),
        _ => word.to_owned(),
    };
    message.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// The revisions of an operation, shortened as `git` does.
fn short_revision(state: &OperationStateView) -> String {
    let short = |revision: &str| match revision.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => revision.chars().take(7).collect(),
        false => revision.to_owned(),
    };
    let revisions = state.sync_result.revisions();
    revisions.iter().map(|revision| short(revision)).collect::<Vec<_>>().join(", ")
}

fn health_of(application: &Value) -> impl Iterator<Item = (ResourceKey, (String, String))> {
    ResourceView::rows(application).filter(|item| !item.hook).filter_map(|item| {
        let key = item.key();
        // What is still to be created has no health to report.
        let health = item.health.filter(|health| health.status != "Missing")?;
        Some((key, (health.status, health.message)))
    })
}

/// `Deployment shop/web`.
pub(super) fn title(key: &ResourceKey) -> String {
    let ResourceKey { kind, namespace, name, .. } = key;
    match namespace.as_str() {
        "" => format!("{kind} {name}"),
        namespace => format!("{kind} {namespace}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::result::OperationResult;
    use super::*;

    fn application(state: Value, resources: Value) -> Value {
        json!({
            "metadata": {"name": "web", "namespace": "argocd"},
            "status": {"operationState": state, "resources": resources},
        })
    }

    fn lines(progress: &mut Progress, application: &Value) -> Vec<String> {
        let lines = progress.update(application, &ApplicationView::of(application));
        let words =
            |line: ProgressLine| line.plain(WIDTH).split_whitespace().collect::<Vec<_>>().join(" ");
        lines.into_iter().map(words).collect()
    }

    #[test]
    fn each_transition_is_one_line() {
        let web = |health: &str| json!([{"group": "apps", "kind": "Deployment", "namespace": "shop", "name": "web", "syncWave": 1, "health": {"status": health}}]);
        let mut progress = Progress::of(&application(json!({}), web("Healthy")), BTreeMap::new());
        let mut state = json!({
            "phase": "Running", "message": "",
            "syncResult": {"revision": "0123456789abcdef0123456789abcdef01234567"},
        });
        let first = lines(&mut progress, &application(state.clone(), web("Healthy")));
        assert_eq!(first, ["operation Running revision 0123456"]);
        assert!(lines(&mut progress, &application(state.clone(), web("Healthy"))).is_empty());
        let hook = json!({"kind": "Job", "group": "batch", "namespace": "shop", "name": "m", "hookType": "PreSync", "hookPhase": "Running", "status": "Synced", "syncPhase": "PreSync", "message": "created"});
        state["syncResult"]["resources"] = json!([hook]);
        state["message"] = "waiting for completion of hook batch/Job/m".into();
        let hook = lines(&mut progress, &application(state.clone(), web("Healthy")));
        let want = [
            "PreSync",
            "PreSync hook Job shop/m Running created",
            "operation Running waiting for completion of hook batch/Job/m",
        ];
        assert_eq!(hook, want);
        state["syncResult"]["resources"][0]["hookPhase"] = "Succeeded".into();
        let applied = json!({"kind": "Deployment", "group": "apps", "namespace": "shop", "name": "web", "status": "Synced", "hookPhase": "Running", "syncPhase": "Sync", "message": "configured"});
        state["syncResult"]["resources"].as_array_mut().unwrap().push(applied);
        let applied = lines(&mut progress, &application(state.clone(), web("Progressing")));
        let want = [
            "PreSync hook Job shop/m Succeeded created",
            "Sync, wave 1",
            "Deployment shop/web Synced configured",
            "Deployment shop/web Progressing",
        ];
        assert_eq!(applied, want);
        let mut pause = state.clone();
        pause["retryCount"] = 1.into();
        pause["operation"]["retry"] = json!({"limit": 3, "backoff": {"duration": "8s"}});
        pause["finishedAt"] = "2026-01-01T18:53:04Z".into();
        pause["message"] =
            "one or more objects failed to apply, reason: denied. Retrying attempt #1 at 6:53PM."
                .into();
        pause["syncResult"]["resources"][1]["status"] = "SyncFailed".into();
        pause["syncResult"]["resources"][1]["message"] = "denied".into();
        let failed = lines(&mut progress, &application(pause.clone(), web("Progressing")));
        let want = [
            "Deployment shop/web SyncFailed denied",
            "operation Retrying attempt 2 of 4 at 18:53:12Z: Deployment shop/web cannot be applied: denied",
        ];
        assert_eq!(failed, want);
        state["retryCount"] = 1.into();
        state["operation"] = pause["operation"].clone();
        state["message"] = "Retrying operation. Attempt #1".into();
        let again = lines(&mut progress, &application(state.clone(), web("Progressing")));
        assert_eq!(again[0], "operation Retrying attempt 2 of 4");
        assert!(again.iter().all(|line| !line.contains('#')), "counted in one way: {again:?}");
        state["phase"] = "Failed".into();
        state["message"] = "over".into();
        state["syncResult"]["resources"][1]["status"] = "SyncFailed".into();
        let end = application(state, web("Degraded"));
        let read = ApplicationView::of(&end);
        let _ = progress.update(&end, &read);
        let result = OperationResult::of(&end);
        let end: Vec<String> = result.lines().iter().map(|line| line.plain(WIDTH)).collect();
        assert_eq!(end.len(), 1, "a single failure is in the error: {end:?}");
        assert_eq!(result.cause(), "Deployment shop/web: SyncFailed: configured");
        assert_eq!(readable("healthy state of /Pod/a and /tmp"), "healthy state of Pod/a and /tmp");
    }

    /// The state of a resource with a usual name began in another column.
    #[test]
    fn a_long_name_widens_the_column_for_all_lines_after_it() {
        let name = "a-service-with-a-long-name";
        let listed = json!([{"group": "apps", "kind": "Deployment", "namespace": "shop-prod-eu", "name": name}]);
        let mut progress = Progress::of(&application(json!({}), listed), BTreeMap::new());
        let subject = format!("  Deployment shop-prod-eu/{name}");
        assert_eq!(progress.width(), subject.len());
        let smoke = json!({"kind": "Job", "group": "batch", "namespace": "shop-prod-eu", "name": "smoke-test-of-all-regions",
            "hookType": "PostSync", "hookPhase": "Running", "syncPhase": "PostSync"});
        let state = json!({"phase": "Running", "syncResult": {"resources": [smoke]}});
        let next = application(state, json!([]));
        let lines = progress.update(&next, &ApplicationView::of(&next));
        let hook = "  PostSync hook Job shop-prod-eu/smoke-test-of-all-regions";
        let columns: Vec<Option<usize>> =
            lines.iter().map(|line| line.plain(progress.width()).find("Running")).collect();
        assert_eq!(columns, [Some(hook.len() + 2), None, Some(hook.len() + 2)]);
        assert_eq!(Progress::default().width(), WIDTH);
        let progress = Progress { width: 1000, ..Progress::default() };
        assert_eq!(progress.width(), WIDEST);
    }

    #[test]
    fn an_operation_is_recognised_by_its_request() {
        let followed =
            |app: &Value, goal: &OperationGoal| super::followed(&ApplicationView::of(app), goal);
        let operation = |id: &str| json!({"info": [{"name": "wavegate-sync", "value": id}]});
        let goal = OperationGoal::Request("1".to_owned());
        let mut app = json!({"operation": operation("1")});
        assert_eq!(followed(&app, &goal), FollowedState::Requested);
        app["status"]["operationState"] =
            json!({"phase": "Running", "operation": operation("1"), "startedAt": "t"});
        assert_eq!(followed(&app, &goal), FollowedState::Running);
        assert_eq!(followed(&app, &OperationGoal::Started("t".to_owned())), FollowedState::Running);
        app["status"]["operationState"]["phase"] = "Error".into();
        assert_eq!(followed(&app, &goal), FollowedState::Ended(OperationPhase::Error));
        app["status"]["operationState"] =
            json!({"phase": "Running", "operation": operation("2"), "startedAt": "u"});
        app["operation"] = operation("2");
        assert!(matches!(followed(&app, &goal), FollowedState::Lost(_)));
        assert!(matches!(
            followed(&app, &OperationGoal::Started("t".to_owned())),
            FollowedState::Lost(_)
        ));
        assert!(matches!(followed(&json!({}), &goal), FollowedState::Lost(_)));
    }
}
