//! Parsed projects. Each version of a project is parsed once.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use crate::api::{AppProject, AppProjectSpec, ObjectKey};
use crate::decide::app_state::lost::Lost;
use crate::decide::app_state::project_deletion::is_terminating;
use crate::decide::app_state::{Condition, project};
use crate::decide::windows::{self, Window};
use crate::redact;
use crate::watch::control_plane::Cache;
use crate::watch::object::Object;

/// Maximum number of reported problems per project; each is a condition.
const MAX_PROBLEMS: usize = 10;

/// A parsed project.
#[derive(Debug)]
pub struct Project {
    /// Its permissions.
    pub spec: Arc<AppProjectSpec>,
    /// Its sync windows, parsed once, since that includes the time zones.
    pub windows: Vec<Window>,
    /// Its invalid fields, with the reasons.
    pub problems: Vec<String>,
    /// A guard that the API server has dropped.
    pub lost: Option<Lost>,
}

impl Project {
    /// Warnings about invalid fields of the project, for its Applications.
    pub fn warnings(&self, name: &str) -> impl Iterator<Item = Condition> {
        self.problems.iter().map(move |problem| Condition::invalid_project(name, problem))
    }
}

/// A project, or why it cannot be read.
type Read = Result<Arc<Project>, String>;

/// The projects of the control plane.
#[derive(Debug)]
pub struct Projects {
    objects: Arc<Cache>,
    namespace: String,
    /// By name, with the UID and resource version of the parsed object.
    read: Mutex<BTreeMap<String, (String, String, Read)>>,
}

impl Projects {
    /// The projects of a namespace.
    pub fn new(objects: Arc<Cache>, namespace: String) -> Self {
        Self { objects, namespace, read: Mutex::default() }
    }

    /// A project; `None` when it does not exist.
    pub fn get(&self, name: &str) -> Option<Read> {
        let object = self.objects.get(&ObjectKey::new(&self.namespace, name));
        let mut all = self.read.lock();
        let Some(object) = object else {
            all.remove(name);
            return None;
        };
        if let Some((uid, version, read)) = all.get(name)
            && uid == object.uid()
            && version == object.resource_version()
        {
            return Some(read.clone());
        }
        let read = read(&object.parse());
        let (uid, version) = (object.uid().to_owned(), object.resource_version().to_owned());
        all.insert(name.to_owned(), (uid, version, read.clone()));
        Some(read)
    }

    /// Projects that are being deleted and have our finalizer.
    pub fn terminating(&self) -> Vec<Value> {
        let all = self.objects.all().into_iter();
        all.map(|object| object.parse()).filter(is_terminating).collect()
    }
}

fn read(object: &Value) -> Read {
    redact::know_urls_of(&object["spec"]);
    let project = crate::api::read::<AppProject>(object).map_err(|error| error.to_string())?;
    let mut problems = project::problems(&project.spec);
    problems.extend(windows::problems(object));
    problems.extend(windows::warnings(object));
    problems.truncate(MAX_PROBLEMS);
    let windows = windows::windows(object);
    Ok(Arc::new(Project { spec: project.spec.into(), windows, problems, lost: Lost::of(object) }))
}

/// Whether a change of a project is relevant for its Applications.
pub fn differs(old: Option<&Object>, new: Option<&Object>) -> bool {
    let guards = |object: &Object| {
        let mut object = object.parse();
        let lost = Lost::of(&object);
        (object["spec"].take(), lost)
    };
    old.map(guards) != new.map(guards)
}
