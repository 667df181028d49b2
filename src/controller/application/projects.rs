//! Projects as they are used. Each is read once as long as it does not change.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use super::project_deletion::is_leaving;
use crate::api::{AppProject, AppProjectSpec, ObjectKey};
use crate::decide::app_state::{Condition, project};
use crate::decide::windows::{self, Window};
use crate::redact;
use crate::watch::control_plane::Cache;
use crate::watch::object::Object;

/// The most problems of one project that are reported; each is a condition.
const MAX_PROBLEMS: usize = 10;

/// A project as it is used.
#[derive(Debug)]
pub struct Project {
    /// What it permits.
    pub spec: AppProjectSpec,
    /// When it permits syncs; read once, for that looks up time zones.
    pub windows: Vec<Window>,
    /// What in it cannot be used, each with its field.
    pub problems: Vec<String>,
}

impl Project {
    /// What in the project cannot be used, for its Applications.
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
    /// By name, with the UID and the version that each was read from.
    read: Mutex<BTreeMap<String, (String, String, Read)>>,
}

impl Projects {
    /// Those of a namespace.
    pub fn new(objects: Arc<Cache>, namespace: String) -> Self {
        Self { objects, namespace, read: Mutex::default() }
    }

    /// A project; `None` when there is none of that name.
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

    /// Projects that are being deleted and wait for us.
    pub fn leaving(&self) -> Vec<Value> {
        let all = self.objects.all().into_iter();
        all.map(|object| object.parse()).filter(is_leaving).collect()
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
    Ok(Arc::new(Project { spec: project.spec, windows, problems }))
}

/// Whether a project says something else to its Applications.
pub fn differs(old: Option<&Object>, new: Option<&Object>) -> bool {
    let spec = |object: &Object| object.parse()["spec"].take();
    old.map(spec) != new.map(spec)
}
