//! How many Applications each cluster has, for Argo CD's web page (CA-363). Those that are
//! refused, or not compared yet, count as well.

use std::collections::{BTreeMap, HashMap};

use parking_lot::Mutex;

use super::context::Context;
use super::triggers::is_handled;
use wavegate_api::listed::{ListedApplication, ListedSpec};
use wavegate_api::{ApplicationDestination, ObjectKey};
use wavegate_application::access;
use wavegate_application::project::permits_application;
use wavegate_cluster::watch::object::StoredObject;

/// Counts Applications. What was read of one is kept until it changes.
pub(super) struct ClusterCounts<'a> {
    ctx: &'a Context,
    read: Mutex<HashMap<ObjectKey, Read>>,
}

/// The part of an Application that determines its cluster.
#[derive(Clone)]
struct Read {
    version: String,
    project: String,
    destination: ApplicationDestination,
}

impl Read {
    fn of(object: &StoredObject) -> Self {
        let ListedSpec { project, destination, .. } =
            object.read_leniently::<ListedApplication>().spec;
        Self {
            version: object.resource_version().to_owned(),
            project: access::or_default(&project).to_owned(),
            destination,
        }
    }
}

impl<'a> ClusterCounts<'a> {
    pub fn new(ctx: &'a Context) -> Self {
        Self { ctx, read: Mutex::default() }
    }

    /// The number of Applications by the URL of their cluster, without those whose project does
    /// not exist or not permit their namespace.
    pub fn by_server(&self) -> BTreeMap<String, usize> {
        let ctx = self.ctx;
        let mut known = self.read.lock();
        let mut before = std::mem::take(&mut *known);
        let mut counts = BTreeMap::new();
        for object in ctx.core.control_plane.applications.all() {
            let key = object.key();
            if !is_handled(ctx, &key) {
                continue;
            }
            let kept = before.remove(&key);
            let kept = kept.filter(|kept| kept.version == object.resource_version());
            let read = kept.unwrap_or_else(|| Read::of(&object));
            if self.counts(&key, &read) {
                *counts.entry(ctx.clusters.server_of(&read.destination)).or_default() += 1;
            }
            known.insert(key, read);
        }
        counts
    }

    fn counts(&self, key: &ObjectKey, read: &Read) -> bool {
        let own = &self.ctx.settings.control_plane_namespace;
        let Read { destination: ApplicationDestination { server, name, .. }, .. } = read;
        let is_clear = server.is_empty() || name.is_empty();
        let project = self.ctx.projects.get(&read.project).and_then(Result::ok);
        is_clear
            && project
                .is_some_and(|project| permits_application(&project.spec, &key.namespace, own))
    }
}
