//! A small API server with Applications, and the application controller that
//! compares and syncs them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::guards::Begun;
use wavegate_api::annotations::{REFRESH, RUN, annotation_of};
use wavegate_api::conditions::application::HELD_BACK_OUT_OF_SYNC_WARNING;
use wavegate_api::time::stored_time;
use wavegate_engine::promotion::promotion_of;

/// An Application at the API server, with facts about its resources.
#[derive(Debug)]
pub struct App {
    /// The object.
    pub object: Value,
    /// The path and the commit that are deployed.
    pub deployed: Option<(String, u32)>,
    /// The path of the running operation.
    syncing: String,
    /// What is deployed is healthy.
    ready: bool,
    /// Its status is outdated.
    pub stale: bool,
    /// The next operation fails.
    pub fails: bool,
    /// It can neither be compared nor synced.
    pub broken: bool,
    /// The cluster was changed manually.
    pub drifted: bool,
    /// Its resources are not healthy.
    pub degraded: bool,
    /// The promotions whose operations were written.
    pub promotions: Vec<Timestamp>,
    /// The starts by runs, as they were written.
    pub begun: Vec<Begun>,
    /// The configuration of the set when its last promotion was written.
    pub promoted_in: u64,
    /// The target, path and revision, for which a person has synced something else.
    pub held_for: Option<(String, Value)>,
}

/// The name of a commit.
pub fn revision(commit: u32) -> String {
    format!("r{commit}")
}

/// The commit of a revision.
pub fn commit_of(revision: &str) -> u32 {
    revision.trim_start_matches('r').parse().unwrap()
}

fn seconds(at: Timestamp) -> Value {
    stored_time(at).to_string().into()
}

impl App {
    fn new(object: Value) -> Self {
        Self {
            object,
            deployed: None,
            syncing: String::new(),
            ready: false,
            stale: true,
            fails: false,
            broken: false,
            drifted: false,
            degraded: false,
            promotions: Vec::new(),
            begun: Vec::new(),
            promoted_in: 0,
            held_for: None,
        }
    }

    /// The UID of its controlling owner.
    pub fn owner(&self) -> &str {
        self.object["metadata"]["ownerReferences"][0]["uid"].as_str().unwrap_or_default()
    }

    /// Whether it is being deleted.
    pub fn is_going(&self) -> bool {
        !self.object["metadata"]["deletionTimestamp"].is_null()
    }

    fn phase(&self) -> &str {
        self.object["status"]["operationState"]["phase"].as_str().unwrap_or_default()
    }

    /// Whether an operation is requested or running.
    pub fn is_busy(&self) -> bool {
        self.object["operation"].is_object() || matches!(self.phase(), "Running" | "Terminating")
    }

    /// Whether a rollout requested the current operation.
    pub fn runs_promotion(&self) -> bool {
        let state = &self.object["status"]["operationState"]["operation"];
        let running =
            matches!(self.phase(), "Running" | "Terminating") && promotion_of(state).is_some();
        running || promotion_of(&self.object["operation"]).is_some()
    }

    /// Whether it needs a manual sync: OutOfSync, or its last operation failed.
    pub fn needs_sync(&self) -> bool {
        let sync = &self.object["status"]["sync"]["status"];
        !self.is_busy() && !self.is_going() && (sync == "OutOfSync" || self.phase() == "Failed")
    }

    /// The path of its live spec.
    pub fn path(&self) -> &str {
        self.object["spec"]["source"]["path"].as_str().unwrap()
    }

    /// The next step of the application controller; returns whether it did
    /// anything.
    fn advance(&mut self, commit: u32, now: Timestamp) -> bool {
        match self.phase() {
            "Terminating" => self.finish(false, commit, now),
            "Running" => self.finish(!self.broken && !self.fails, commit, now),
            _ if self.object["operation"].is_object() => self.start(commit, now),
            _ if self.is_outdated() => self.compare(commit, now),
            _ if self.deployed.is_some() && !self.ready => {
                self.ready = true;
                self.compare(commit, now);
            }
            _ => return false,
        }
        true
    }

    fn is_outdated(&self) -> bool {
        let to = &self.object["status"]["sync"]["comparedTo"];
        let spec = &self.object["spec"];
        self.stale
            || annotation_of(&self.object, REFRESH).is_some()
            || ["source", "destination"].iter().any(|field| to[*field] != spec[*field])
    }

    fn start(&mut self, commit: u32, now: Timestamp) {
        let operation = self.object["operation"].clone();
        let named = operation["sync"]["revision"].as_str();
        let synced = named.map_or_else(|| revision(commit), str::to_owned);
        self.syncing = self.path().to_owned();
        self.object["status"]["operationState"] = json!({
            "operation": operation, "phase": "Running", "startedAt": seconds(now),
            "syncResult": {"revision": synced},
        });
    }

    fn finish(&mut self, succeeds: bool, commit: u32, now: Timestamp) {
        let name = self.object["metadata"]["name"].clone();
        let state = &mut self.object["status"]["operationState"];
        let named = state["operation"]["sync"]["revision"].as_str().map(str::to_owned);
        // The signature of each kind is the same (ST-043).
        state["message"] = match state["phase"].as_str() {
            _ if succeeds => "successfully synced".to_owned(),
            Some("Terminating") => "terminated by a person".to_owned(),
            _ if self.broken => format!("unreachable: 10.0.0.{}:6443", commit + 1),
            _ => format!("Deployment {name} is not ready after {}s", 60 + commit),
        }
        .into();
        state["phase"] = if succeeds { "Succeeded" } else { "Failed" }.into();
        state["finishedAt"] = seconds(now);
        if succeeds {
            let synced = state["syncResult"]["revision"].as_str().map_or(commit, commit_of);
            self.deployed = Some((self.syncing.clone(), synced));
            let mut source = self.object["spec"]["source"].clone();
            source["path"] = self.syncing.clone().into();
            let entry =
                json!({"revision": revision(synced), "deployedAt": seconds(now), "source": source});
            match self.object["status"]["history"].as_array_mut() {
                Some(history) => history.push(entry),
                None => self.object["status"]["history"] = json!([entry]),
            }
            (self.drifted, self.ready) = (false, false);
        }
        // One that fails has applied nothing.
        if !succeeds || named.is_none() {
            self.held_for = None;
        }
        self.fails = false;
        self.stale = true;
        // Like Argo CD, which removes the request with the result.
        self.object.as_object_mut().unwrap().remove("operation");
    }

    /// Whether a rollback holds it at other revisions than the newest, and it differs from them.
    fn has_left_its_hold(&self, commit: u32) -> bool {
        let start =
            annotation_of(&self.object, RUN).and_then(|text| serde_json::from_str(text).ok());
        let start: Value = start.unwrap_or_default();
        let good = start["good"][0].as_str().map(commit_of);
        let is_held = start["goesBack"] == true && start["revisions"] == json!([revision(commit)]);
        let at = good.map(|good| (self.path().to_owned(), good));
        is_held && !self.broken && (self.drifted || self.deployed != at)
    }

    /// Whether an Application says that it differs from what it went back to.
    pub fn has_left(application: &Value) -> bool {
        application["status"]["conditions"][0]["type"] == HELD_BACK_OUT_OF_SYNC_WARNING
    }

    fn compare(&mut self, commit: u32, now: Timestamp) {
        let is_synced = self.deployed == Some((self.path().to_owned(), commit)) && !self.drifted;
        let sync = match (self.broken, is_synced) {
            (true, _) => "Unknown",
            (false, true) => "Synced",
            (false, false) => "OutOfSync",
        };
        let health = match self.deployed {
            None => "Missing",
            Some(_) if self.degraded => "Degraded",
            Some(_) if !self.ready => "Progressing",
            Some(_) => "Healthy",
        };
        let has_left = self.has_left_its_hold(commit);
        let spec = &self.object["spec"];
        let to = json!({"source": spec["source"], "destination": spec["destination"]});
        let automated = &spec["syncPolicy"]["automated"];
        let automatic = automated.is_object() && automated["enabled"] != json!(false);
        let status = &mut self.object["status"];
        status["sync"]["status"] = sync.into();
        status["sync"]["comparedTo"] = to;
        if !self.broken {
            // A failed comparison keeps the previous revision.
            status["sync"]["revision"] = revision(commit).into();
        }
        status["health"]["status"] = health.into();
        let conditions = has_left
            .then(|| json!({"type": HELD_BACK_OUT_OF_SYNC_WARNING, "message": "it differs"}));
        status["conditions"] = Vec::from_iter(conditions).into();
        status["reconciledAt"] = seconds(now);
        if sync == "OutOfSync" && automatic {
            self.object["operation"] =
                json!({"initiatedBy": {"automated": true}, "sync": {"revision": revision(commit)}});
        }
        if let Some(annotations) = self.object["metadata"]["annotations"].as_object_mut() {
            annotations.remove(REFRESH);
        }
        self.stale = false;
    }
}

/// The Applications of the API server.
#[derive(Debug)]
pub struct Cluster {
    /// By name.
    pub apps: BTreeMap<String, App>,
    /// The newest commit.
    pub commit: u32,
    /// The time.
    pub now: Timestamp,
    /// The last resource version.
    pub version: u64,
    /// Applications with changes that the controller has not observed yet.
    pub changed: BTreeSet<String>,
    /// How many writes of clients were stored.
    pub writes: u64,
}

impl Cluster {
    /// Without Applications.
    pub fn new(now: Timestamp) -> Self {
        Self {
            apps: BTreeMap::new(),
            commit: 1,
            now,
            version: 0,
            changed: BTreeSet::new(),
            writes: 0,
        }
    }

    /// Passes some time.
    pub fn wait(&mut self, milliseconds: i64) {
        self.now += SignedDuration::from_millis(milliseconds);
    }

    fn touch(&mut self, name: &str) {
        self.version += 1;
        self.changed.insert(name.to_owned());
        if let Some(app) = self.apps.get_mut(name) {
            app.object["metadata"]["resourceVersion"] = self.version.to_string().into();
        }
    }

    /// Changes an Application, as a user does.
    pub fn change(&mut self, name: &str, change: impl FnOnce(&mut App)) {
        if let Some(app) = self.apps.get_mut(name) {
            change(app);
            self.touch(name);
        }
    }

    /// A new commit, which all Applications will notice.
    pub fn push(&mut self) {
        self.commit += 1;
        self.apps.values_mut().for_each(|app| app.stale = true);
    }

    /// The next step of the application controller for an Application.
    pub fn advance(&mut self, name: &str) -> bool {
        let (commit, now) = (self.commit, self.now);
        let Some(app) = self.apps.get_mut(name) else { return false };
        if app.is_going() {
            self.apps.remove(name);
        } else if !app.advance(commit, now) {
            return false;
        }
        self.touch(name);
        true
    }

    /// A sync requested by a user, unless another operation is in flight.
    pub fn sync_manually(&mut self, name: &str) -> bool {
        let app = self.apps.get(name).filter(|app| !app.is_busy() && !app.is_going());
        if app.is_none() {
            return false;
        }
        let operation = json!({"initiatedBy": {"username": "admin"}, "sync": {}});
        self.change(name, |app| app.object["operation"] = operation);
        true
    }

    /// A user syncs an Application to the revision before the last one, at once, unless
    /// another operation is in flight. `known` is the target that the rollout knows, if any.
    pub fn sync_to_an_older_one(&mut self, name: &str, known: Option<&Vec<String>>) {
        let (commit, now) = (self.commit, self.now);
        let app = self.apps.get(name).filter(|app| !app.is_busy() && !app.is_going());
        if app.is_none() || commit < 2 {
            return;
        }
        let operation = json!({
            "initiatedBy": {"username": "alice"}, "sync": {"revision": revision(commit - 1)},
        });
        self.change(name, |app| {
            app.object["operation"] = operation;
            app.start(commit, now);
            let target = app.object["status"]["sync"]["revision"].clone();
            let is_known = known.is_some_and(|known| json!(known) == json!([target]));
            let is_other = target != json!(revision(commit - 1));
            app.held_for = (is_known && is_other).then(|| (app.path().to_owned(), target));
        });
    }

    /// A retry takes back what a person has synced (ST-063).
    pub fn forgive(&mut self, name: &str) {
        if let Some(app) = self.apps.get_mut(name) {
            app.held_for = None;
        }
    }

    /// Creates an Application.
    pub fn create(&mut self, name: &str, mut object: Value) -> Result<(), u16> {
        if self.apps.contains_key(name) {
            return Err(409);
        }
        object["metadata"]["uid"] = format!("uid-{}", self.version).into();
        self.apps.insert(name.to_owned(), App::new(object));
        self.touch(name);
        self.writes += 1;
        Ok(())
    }

    /// Applies a merge patch.
    pub fn patch(&mut self, name: &str, body: &Value, configuration: u64) -> Result<(), u16> {
        let Some(app) = self.apps.get_mut(name) else { return Err(404) };
        let wanted = body["metadata"]["resourceVersion"].as_str();
        if wanted.is_some_and(|wanted| app.object["metadata"]["resourceVersion"] != wanted) {
            return Err(409);
        }
        if body["operation"].is_object() {
            assert!(!app.is_busy(), "I3: {name} gets an operation over another one");
            let promotion =
                promotion_of(&body["operation"]).expect("operations of a rollout have a promotion");
            let target = (app.path().to_owned(), app.object["status"]["sync"]["revision"].clone());
            let is_held = app.held_for.as_ref() == Some(&target);
            assert!(!is_held, "ST-065: {name} is synced over what a person has synced");
            app.held_for = None;
            let is_new = app.promotions.iter().all(|known| *known < promotion);
            assert!(is_new, "I3, I15: {name} is synced twice for promotion {promotion}");
            app.promotions.push(promotion);
            app.promoted_in = configuration;
        }
        json_patch::merge(&mut app.object, body);
        self.touch(name);
        self.writes += 1;
        Ok(())
    }

    /// Deletes an Application with this UID.
    pub fn delete(&mut self, name: &str, uid: &str) -> Result<(), u16> {
        let now = seconds(self.now);
        let Some(app) = self.apps.get_mut(name) else { return Err(404) };
        if app.object["metadata"]["uid"] != uid {
            return Err(409);
        }
        let is_held =
            app.object["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty());
        match is_held {
            true => app.object["metadata"]["deletionTimestamp"] = now,
            false => drop(self.apps.remove(name)),
        }
        self.touch(name);
        self.writes += 1;
        Ok(())
    }
}
