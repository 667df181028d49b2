//! Parsed projects. Each version of a project is parsed once.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use crate::credentials::RepositorySecrets;
use wavegate_api::annotations::{WINDOW_SEMANTICS, annotation_of};
use wavegate_api::app_project::ReservedSecrets;
use wavegate_api::{AppProject, AppProjectSpec, ObjectKey, Raw};
use wavegate_application::global_projects::GlobalProjects;
use wavegate_application::project_deletion::is_terminating;
use wavegate_application::pruned_fields::PrunedField;
use wavegate_application::{NewCondition, project};
use wavegate_cluster::watch::clusters::Clusters;
use wavegate_cluster::watch::control_plane::{Cache, ObjectChange};
use wavegate_cluster::watch::object::StoredObject;
use wavegate_engine::windows::{self, Window};
use wavegate_net::redact;

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
    /// A guard of it, or of its global projects, that the API server has dropped.
    pub lost: Option<String>,
}

impl Project {
    /// Warnings about invalid fields of the project, for its Applications.
    pub fn warnings(&self, name: &str) -> impl Iterator<Item = NewCondition> {
        self.problems.iter().map(move |problem| NewCondition::invalid_project(name, problem))
    }
}

/// A project, or why it cannot be read.
type Read = Result<Arc<Project>, String>;

/// The projects of the control plane.
#[derive(Debug)]
pub struct CachedProjects {
    objects: Arc<Cache>,
    namespace: String,
    /// Which projects inherit from which.
    global: Arc<GlobalProjects>,
    repositories: Arc<RepositorySecrets>,
    clusters: Arc<Clusters>,
    read: Mutex<BTreeMap<String, ReadProject>>,
}

/// UID and resource version of an object.
type Version = (String, String);

/// A parsed project.
#[derive(Debug)]
struct ReadProject {
    version: Version,
    /// The global projects that it was parsed with; without a version, if they do not exist.
    global: Vec<(String, Option<Version>)>,
    /// What Secrets permitted in it.
    reserved: ReservedSecrets,
    read: Read,
}

impl CachedProjects {
    /// The projects of a namespace, with the Secrets that are reserved for them.
    pub fn new(
        objects: Arc<Cache>,
        namespace: String,
        global: Arc<GlobalProjects>,
        (repositories, clusters): (Arc<RepositorySecrets>, Arc<Clusters>),
    ) -> Self {
        Self { objects, namespace, global, repositories, clusters, read: Mutex::default() }
    }

    fn find(&self, name: &str) -> Option<StoredObject> {
        self.objects.get(&ObjectKey::new(&self.namespace, name))
    }

    /// A project, with what it inherits; `None` when it does not exist.
    pub fn get(&self, name: &str) -> Option<Read> {
        let object = self.find(name);
        let mut all = self.read.lock();
        let Some(object) = object else {
            all.remove(name);
            return None;
        };
        let is_same = |(global, version): &(String, Option<Version>)| {
            self.find(global).as_ref().map(StoredObject::version) == *version
        };
        let reserved = ReservedSecrets {
            repositories: self.repositories.reserved_for(name),
            clusters: self.clusters.reserved_for(name),
        };
        if let Some(known) = all.get(name)
            && known.version == object.version()
            && known.reserved == reserved
            && known.global.iter().all(is_same)
        {
            return Some(known.read.clone());
        }
        let value = object.parse();
        let names = self.global.of(&value).into_iter();
        let global: Vec<(String, Option<StoredObject>)> =
            names.map(|name| (name.to_owned(), self.find(name))).collect();
        let values = global.iter().filter_map(|(name, object)| {
            let value = object.as_ref()?.parse();
            redact::know_urls_of(value.spec());
            Some((name.as_str(), value))
        });
        let read = read(&value, &self.global, &values.collect(), reserved.clone());
        let version = |(name, object): &(String, Option<StoredObject>)| {
            (name.clone(), object.as_ref().map(StoredObject::version))
        };
        let known = ReadProject {
            version: object.version(),
            global: global.iter().map(version).collect(),
            reserved,
            read: read.clone(),
        };
        all.insert(name.to_owned(), known);
        Some(read)
    }

    /// The projects whose Applications a change of a project is relevant for: itself, and those
    /// that inherit from it.
    pub fn affected(&self, change: &ObjectChange) -> Vec<String> {
        let name = &change.key.name;
        let (old, new) = (change.old.as_ref(), change.new.as_ref());
        let mut affected = Vec::new();
        if differs(&self.global, old, new) {
            affected.push(name.clone());
        }
        if !affected.is_empty() && self.global.names().contains(name.as_str()) {
            let others = self.objects.in_namespace(&self.namespace).into_iter();
            let inherit = others.filter(|(other, object)| {
                other != name && self.global.inherits(&object.parse(), name)
            });
            affected.extend(inherit.map(|(other, _)| other));
        }
        affected
    }

    /// Projects that are being deleted and have our finalizer.
    pub fn terminating(&self) -> Vec<Value> {
        let all = self.objects.all().into_iter();
        all.map(|object| object.parse()).filter(is_terminating).collect()
    }
}

/// Reads a project, with its global projects and what Secrets permit in it.
fn read(
    object: &Value,
    global: &GlobalProjects,
    values: &BTreeMap<&str, Value>,
    reserved: ReservedSecrets,
) -> Read {
    redact::know_urls_of(object.spec());
    let project =
        wavegate_api::read_typed::<AppProject>(object).map_err(|error| error.to_string())?;
    let mut problems = project::project_problems(&project.spec);
    problems.extend(windows::window_problems(object));
    problems.extend(windows::window_warnings(object));
    let inherited = global.applied(object, project.spec, |name| values.get(name))?;
    problems.extend(inherited.problems);
    problems.truncate(MAX_PROBLEMS);
    let mut windows = windows::project_windows(object);
    windows.extend(inherited.windows);
    let lost = PrunedField::of(object).map(|lost| lost.message(object.name()));
    let lost = lost.or(inherited.lost);
    let spec = AppProjectSpec { reserved, ..inherited.spec };
    Ok(Arc::new(Project { spec: spec.into(), windows, problems, lost }))
}

/// Whether a change of a project is relevant for its Applications.
fn differs(
    global: &GlobalProjects,
    old: Option<&StoredObject>,
    new: Option<&StoredObject>,
) -> bool {
    let guards = |object: &StoredObject| {
        let object = object.parse();
        let lost = PrunedField::of(&object);
        let inherits = global.of(&object).join(" ");
        let semantics = annotation_of(&object, WINDOW_SEMANTICS).map(str::to_owned);
        (object.spec().clone(), semantics, lost, inherits)
    };
    old.map(guards) != new.map(guards)
}
