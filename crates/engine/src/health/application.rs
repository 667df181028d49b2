//! Health of an Application, from the health of its resources (SE-490 … 495).

use serde_json::Value;

use super::status::{Health, Status};
use crate::names::some_of;
use wavegate_api::Raw;

/// Excludes a resource from its Application's health when `"true"` on the live object.
const IGNORE_HEALTHCHECK: &str = "argocd.argoproj.io/ignore-healthcheck";

/// How many resources a message names.
const NAMED_IN_MESSAGE: usize = 3;

/// A resource of an Application, for its health.
#[derive(Clone, Debug)]
pub struct Resource<'a> {
    /// API group, empty for core.
    pub group: &'a str,
    /// Kind.
    pub kind: &'a str,
    /// Namespace, empty for a cluster-scoped resource.
    pub namespace: &'a str,
    /// Name.
    pub name: &'a str,
    /// The live object, if it exists.
    pub live: Option<&'a Value>,
    /// Health of the live object; `None` when its kind has no health check or its script
    /// returned nothing.
    pub health: Option<Health>,
    /// A hook, in target or live state, or an object ignored for its hook annotation.
    pub hook: bool,
    /// The target is skip-only (SE-141): shown, but not counted.
    pub skipped: bool,
    /// Whether the live object belongs to this Application (SE-116); a copy with a copied
    /// tracking annotation is ignored (SE-494).
    pub self_referenced: bool,
    /// The resource is the Application itself.
    pub is_the_application: bool,
}

impl Resource<'_> {
    /// The name in messages: `<group>/<kind>:<namespace>/<name>`, without the
    /// group of core kinds and the namespace of cluster-scoped ones.
    pub fn label(&self) -> String {
        let group = if self.group.is_empty() { "" } else { "/" };
        let namespace = if self.namespace.is_empty() { "" } else { "/" };
        let Self { group: g, kind, namespace: ns, name, .. } = self;
        format!("{g}{group}{kind}:{ns}{namespace}{name}")
    }

    /// The status that counts towards the Application's health, if any (SE-490).
    fn contribution(&self) -> Option<Status> {
        let live = self.live?;
        if self.hook || self.skipped || self.is_the_application || !self.self_referenced {
            return None;
        }
        if live.annotation(IGNORE_HEALTHCHECK) == Some("true") {
            return None;
        }
        let status = self.health.as_ref()?.status;
        let child = self.group == "argoproj.io" && self.kind == "Application";
        let unsettled = matches!(status, Status::Missing | Status::Unknown);
        (!(child && unsettled)).then_some(status)
    }
}

/// Health of an Application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Combined {
    /// Status and message; the message names at most three resources.
    pub health: Health,
    /// All resources with the worst status, in the given order; empty for Healthy, and
    /// when no resource exists.
    pub worst: Vec<String>,
}

/// Aggregates the health of an Application from the worst of its resources.
///
/// Starts with Healthy, so an Application without resources, or with hooks only, is
/// Healthy (SE-492). When no resource exists it is `Missing` (SE-491). The caller sets
/// `Unknown` for an invalid spec.
pub fn combine_health(resources: &[Resource<'_>]) -> Combined {
    let contributions = || resources.iter().filter_map(|r| Some((r, r.contribution()?)));
    let status = contributions().map(|(_, status)| status).fold(Status::Healthy, Status::worst);

    let mut wanted = resources.iter().filter(|r| !r.hook && !r.skipped).peekable();
    let absent = wanted.peek().is_some() && wanted.all(|r| r.live.is_none());
    if absent && Status::Missing.is_worse_than(status) {
        return Combined { health: Health::new(Status::Missing, ""), worst: Vec::new() };
    }
    if status == Status::Healthy {
        return Combined { health: Health::healthy(""), worst: Vec::new() };
    }
    let worst: Vec<String> =
        contributions().filter(|(_, s)| *s == status).map(|(r, _)| r.label()).collect();
    Combined { health: Health::new(status, caused_by(&worst)), worst }
}

fn caused_by(names: &[String]) -> String {
    format!("Caused by {}", some_of(names, NAMED_IN_MESSAGE))
}
