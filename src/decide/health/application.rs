//! Health of an Application, from the health of its resources (SE-490 … 495).

use serde_json::Value;

use super::read::annotation;
use super::{Health, Status};

/// Leaves a resource out of its Application's health when `"true"` on the
/// live object.
const IGNORE_HEALTHCHECK: &str = "argocd.argoproj.io/ignore-healthcheck";

/// How many resources a message names before it only counts the rest.
const NAMED_IN_MESSAGE: usize = 3;

/// One resource of an Application, as its health counts.
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
    /// The object in the cluster; `None` when there is none.
    pub live: Option<&'a Value>,
    /// What was found about the live object; `None` when its kind has no
    /// health check or its script gave nothing.
    pub health: Option<Health>,
    /// A hook, on either side, or an object ignored for its hook annotation.
    pub hook: bool,
    /// The target is skip-only (SE-141): shown, never counted.
    pub skipped: bool,
    /// Whether the live object is really this Application's own (SE-116); a
    /// copy with a copied tracking annotation does not count (SE-494).
    pub self_referenced: bool,
    /// The resource is the very Application that is being judged.
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

    /// The status that counts, if this resource counts at all (SE-490).
    fn contribution(&self) -> Option<Status> {
        let live = self.live?;
        if self.hook || self.skipped || self.is_the_application || !self.self_referenced {
            return None;
        }
        if annotation(live, IGNORE_HEALTHCHECK) == "true" {
            return None;
        }
        let status = self.health.as_ref()?.status;
        let child = self.group == "argoproj.io" && self.kind == "Application";
        let unsettled = matches!(status, Status::Missing | Status::Unknown);
        (!(child && unsettled)).then_some(status)
    }
}

/// The verdict about an Application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Combined {
    /// Status and message; the message names at most three resources.
    pub health: Health,
    /// Every resource that has the worst status, in the order given; empty
    /// for Healthy, and where nothing is live.
    pub worst: Vec<String>,
}

/// Judges an Application by the worst of its resources.
///
/// Starts at Healthy, so no resources, or hooks only, are Healthy (SE-492).
/// With resources of which none is live it is `Missing` (SE-491). A spec that
/// could not be understood is `Unknown`, which is for the caller to say: there
/// are no resources to look at then.
pub fn combine(resources: &[Resource<'_>]) -> Combined {
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
    let shown = names.len().min(NAMED_IN_MESSAGE);
    let named = names[..shown].join(", ");
    match names.len() - shown {
        0 => format!("Caused by {named}"),
        more => format!("Caused by {named} and {more} more"),
    }
}
