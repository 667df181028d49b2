//! Observes the inputs of a reconcile and caches them: each version of an Application is
//! read once, the spec of the ApplicationSet once per generation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::context::Context;
use crate::api::ObjectKey;
use crate::decide::application_set::deletion::Leaving;
use crate::decide::application_set::generated::{Collector, Generated};
use crate::decide::application_set::observe::{Existing, Rules};
use crate::decide::application_set::reconcile::{self, Reported, Snapshot};
use crate::decide::application_set::stored::Set;
use crate::decide::application_set::validate::Known;
use crate::decide::application_set::windows::Facts;
use crate::decide::windows::{self, Window};
use crate::desired;
use crate::entropy::environment;
use crate::watch::object::Object;

/// Cached state of an ApplicationSet. It only saves work: everything can be computed again.
#[derive(Debug, Default)]
pub struct Memory {
    /// The UID of the ApplicationSet; another one of the same name starts without a cache.
    pub uid: String,
    /// The ApplicationSet as last read or written.
    set: Option<Arc<Set>>,
    /// When its status was written last.
    written_at: Option<Timestamp>,
    /// The Applications generated from its spec.
    generated: Option<Arc<Generated>>,
    /// The Applications that it owns or generates, by name.
    existing: Vec<Existing>,
    /// Its owned Applications, while it is being deleted.
    leaving: Vec<Leaving>,
    surroundings: Surroundings,
    /// Why generated Applications are invalid.
    invalid: BTreeMap<String, String>,
    /// What was already reported.
    pub reported: Reported,
    /// The last logged lines of a dry run.
    pub would: BTreeSet<String>,
    /// When the last reconcile ended, and how long the decision took.
    pub last: Option<(tokio::time::Instant, std::time::Duration)>,
}

/// Projects and clusters.
#[derive(Debug, Default)]
struct Surroundings {
    /// The observed versions of these objects.
    versions: Vec<(String, String)>,
    known: Known,
    windows: BTreeMap<String, Vec<Window>>,
}

impl Memory {
    /// An empty cache for the ApplicationSet with this UID.
    pub fn of(uid: &str) -> Self {
        Self { uid: uid.to_owned(), ..Self::default() }
    }

    /// Observes the changes since the last reconcile. `changed` are the names of changed
    /// Applications.
    pub fn observe(
        &mut self,
        object: &Object,
        changed: BTreeSet<String>,
        context: &Context,
        now: Timestamp,
    ) {
        let known = self.set.as_ref().filter(|set| set.version == object.resource_version());
        let set = match known {
            Some(set) => Arc::clone(set),
            None => Arc::new(Set::read(&object.parse())),
        };
        self.set = Some(Arc::clone(&set));
        let is_new = self.generated.as_ref().is_none_or(|made| made.generation != set.generation);
        let generated = match &self.generated {
            Some(made) if !is_new => Arc::clone(made),
            _ => Arc::new(generate(object, context, now)),
        };
        self.generated = Some(Arc::clone(&generated));
        if set.is_deleting {
            self.observe_leaving(&set, &generated, context);
            return;
        }
        let moved = self.surroundings.observe(context);
        if is_new || moved {
            self.invalid = reconcile::invalid(&generated, &self.surroundings.known);
        }
        if is_new {
            self.observe_all(&set, &generated, context);
        } else {
            let names = self.not_owned(&generated).chain(changed).collect();
            self.observe_some(&set, &generated, names, context);
        }
    }

    /// The generated Applications that do not exist or are not owned by the
    /// ApplicationSet: their changes do not trigger a reconcile.
    fn not_owned(&self, generated: &Generated) -> impl Iterator<Item = String> + use<> {
        let mut existing = self.existing.iter().peekable();
        let mut names = Vec::new();
        for wanted in &generated.applications {
            while existing.next_if(|one| one.name < wanted.name).is_some() {}
            let same = existing.next_if(|one| one.name == wanted.name);
            if !same.is_some_and(Existing::is_owned) {
                names.push(wanted.name.to_string());
            }
        }
        names.into_iter()
    }

    fn observe_all(&mut self, set: &Set, generated: &Generated, context: &Context) {
        let cache = &context.core.control_plane.applications;
        let mut objects: BTreeMap<String, Object> = cache
            .owned_by(&set.id.uid)
            .into_iter()
            .filter(|object| object.namespace() == set.id.namespace)
            .map(|object| (object.name().to_owned(), object))
            .collect();
        for wanted in &generated.applications {
            if !objects.contains_key(&*wanted.name)
                && let Some(object) = cache.get(&ObjectKey::new(&set.id.namespace, &wanted.name))
            {
                objects.insert(wanted.name.to_string(), object);
            }
        }
        self.existing =
            objects.values().filter_map(|object| read(object, set, generated)).collect();
    }

    fn observe_some(
        &mut self,
        set: &Set,
        generated: &Generated,
        names: BTreeSet<String>,
        context: &Context,
    ) {
        let cache = &context.core.control_plane.applications;
        for name in names {
            let place = self.existing.binary_search_by(|one| (*one.name).cmp(&name));
            let object = cache.get(&ObjectKey::new(&set.id.namespace, &name));
            if let (Ok(at), Some(object)) = (place, &object)
                && *self.existing[at].version == *object.resource_version()
                && *self.existing[at].uid == *object.uid()
            {
                continue;
            }
            let existing = object.and_then(|object| read(&object, set, generated));
            match (place, existing) {
                (Ok(at), Some(existing)) => self.existing[at] = existing,
                (Ok(at), None) => {
                    self.existing.remove(at);
                }
                (Err(at), Some(existing)) => self.existing.insert(at, existing),
                (Err(_), None) => {}
            }
        }
    }

    fn observe_leaving(&mut self, set: &Set, generated: &Generated, context: &Context) {
        let owned = context.core.control_plane.applications.owned_by(&set.id.uid).into_iter();
        self.leaving = owned
            .filter(|object| object.namespace() == set.id.namespace)
            .map(|object| Leaving::read(&object.parse(), &set.id, &generated.strategy))
            .collect();
    }

    /// The ApplicationSet as last observed; `None` before the first observation.
    pub fn set(&self) -> Option<&Arc<Set>> {
        self.set.as_ref()
    }

    /// Sets the ApplicationSet as written.
    pub fn wrote(&mut self, set: Arc<Set>, now: Timestamp) {
        self.set = Some(set);
        self.written_at = Some(now);
    }

    /// The inputs of a decision; `None` before the first observation.
    pub fn snapshot<'a>(
        &'a self,
        set: &'a Set,
        context: &'a Context,
        now: Timestamp,
    ) -> Option<Snapshot<'a>> {
        Some(Snapshot {
            set,
            generated: self.generated.as_deref()?,
            settings: &context.rules,
            existing: &self.existing,
            leaving: &self.leaving,
            invalid: &self.invalid,
            windows: Facts {
                projects: &self.surroundings.windows,
                clusters: &self.surroundings.known.clusters,
                by_hand: context.rules.windows_by_hand,
            },
            redact,
            written_at: self.written_at,
            now,
        })
    }
}

/// Removes credentials from a text.
pub fn redact(text: &str) -> String {
    crate::redact::text(text).into_owned()
}

impl Surroundings {
    /// Reads projects and clusters again if one of them has changed; returns whether.
    fn observe(&mut self, context: &Context) -> bool {
        let plane = &context.core.control_plane;
        let projects = plane.projects.in_namespace(&context.settings.control_plane_namespace);
        let secrets = plane.secrets.all();
        let version =
            |object: &Object| (object.uid().to_owned(), object.resource_version().to_owned());
        let versions: Vec<_> = projects.values().chain(&secrets).map(version).collect();
        if versions == self.versions && !self.known.clusters.is_empty() {
            return false;
        }
        self.versions = versions;
        self.windows = projects
            .iter()
            .map(|(name, project)| (name.clone(), windows::windows(&project.parse())))
            .collect();
        let projects = projects.into_keys().collect();
        self.known = Known { projects, clusters: plane.clusters() };
        true
    }
}

/// Generates the Applications of an ApplicationSet, in a compact form.
fn generate(object: &Object, context: &Context, now: Timestamp) -> Generated {
    let set = object.parse();
    crate::redact::know_urls_of(&set["spec"]);
    let mut collector = Collector::new(&set, &context.rules);
    let mut env = environment(now);
    let generated = desired::generate_each(&set, &mut env, &mut |application, origin| {
        // For all messages about them.
        crate::redact::know_urls_of(&application["spec"]);
        collector.add(application, &origin);
    });
    let generated = collector.finish(&set, &context.rules, generated.err());
    if generated.error.is_none() {
        tracing::info!(applications = generated.applications.len(), "generated");
        for application in generated.switched_off() {
            tracing::warn!(
                application,
                "spec.template.spec.syncPolicy.automated is disabled by RollingSync; the rollout starts the syncs"
            );
        }
    }
    generated
}

/// Reads an Application; `None` when it is not related to the ApplicationSet.
fn read(object: &Object, set: &Set, generated: &Generated) -> Option<Existing> {
    let wanted = generated.get(object.name());
    let rules = Rules {
        set: &set.id,
        policy: generated.policy,
        preserve: &generated.preserve,
        ignore: &generated.ignore,
    };
    let written = wanted.map(|wanted| wanted.written(generated.has_steps));
    let existing = Existing::read(&object.parse(), written.as_ref(), &rules);
    (wanted.is_some() || existing.is_owned()).then_some(existing)
}
