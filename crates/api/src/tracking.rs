//! Tracking: the Application that an object belongs to, as written on the object (SE-110
//! … SE-114).

use std::fmt;

use serde_json::Value;

use super::annotations::{INSTALLATION_ID, RUN_ID, TRACKING_ID};
use super::raw::Raw;
use super::resource_key::ResourceKey;

/// Content of the tracking annotation: `<instance>:<group>/<kind>:<namespace>/<name>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TrackingId {
    /// Instance name of the Application; see [`instance_name`].
    pub instance: String,
    /// The object that the annotation was written for. Detects an annotation that was
    /// copied to another object (SE-116).
    pub key: ResourceKey,
}

impl TrackingId {
    /// Parses an annotation; `None` when the format is invalid, which means untracked (SE-114).
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, ':');
        let (instance, kind, name) = (parts.next()?, parts.next()?, parts.next()?);
        let (group, kind) = only_slash(kind)?;
        let (namespace, name) = only_slash(name)?;
        let key = ResourceKey::new(group, kind, namespace, name);
        Some(Self { instance: instance.to_owned(), key })
    }

    /// Whether it was written for this object (SE-116).
    pub fn is_of(&self, key: &ResourceKey) -> bool {
        let own = &self.key;
        let namespace = key.namespace.is_empty() || own.namespace == key.namespace;
        // A generated name is not known when the id is written.
        let name = own.name.is_empty() || own.name == key.name;
        namespace && name && own.kind == key.kind && own.group == key.group
    }
}

impl fmt::Display for TrackingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.instance, self.key.tracking())
    }
}

fn only_slash(text: &str) -> Option<(&str, &str)> {
    text.split_once('/').filter(|(_, after)| !after.contains('/'))
}

/// Instance name of an Application in tracking values (SE-005): its name in the control
/// plane's namespace, elsewhere prefixed with its namespace.
pub fn instance_name(namespace: &str, name: &str, control_plane: &str) -> String {
    if namespace == control_plane { name.to_owned() } else { format!("{namespace}_{name}") }
}

/// Namespace and name of an instance name: the reverse of [`instance_name`].
pub fn from_instance_name<'a>(instance: &'a str, control_plane: &'a str) -> (&'a str, &'a str) {
    instance.split_once('_').unwrap_or((control_plane, instance))
}

/// Instance name as an informational label (SE-112): 63 characters at most,
/// ending in a letter or digit. `None` when nothing is left.
pub fn instance_label(instance: &str) -> Option<String> {
    let cut: String = instance.chars().take(63).collect();
    let cut = cut.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
    (!cut.is_empty()).then(|| cut.to_owned())
}

/// How objects are assigned to Applications (SE-110).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrackingMethod {
    /// By the tracking annotation.
    #[default]
    Annotation,
    /// By the instance label.
    Label,
    /// By the annotation; the label is informational.
    AnnotationAndLabel,
    /// By the label, for a run without an Application. An annotation of its own names the
    /// object, since a copy of an object has its labels. Not a setting of Argo CD.
    Run,
}

impl TrackingMethod {
    /// Whether objects are found by their label.
    pub fn is_by_label(self) -> bool {
        matches!(self, Self::Label | Self::Run)
    }

    /// The method of a setting; annotation when unknown or empty.
    pub fn from_setting(text: &str) -> Self {
        match text {
            "label" => Self::Label,
            "annotation+label" => Self::AnnotationAndLabel,
            _ => Self::Annotation,
        }
    }
}

/// How an Application marks what is its own (SE-110 … SE-113).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tracking {
    /// By annotation, label or both.
    pub method: TrackingMethod,
    /// Label of the methods that use one.
    pub label: String,
    /// The instance name of the Application.
    pub instance: String,
    /// `installationID` of the settings; empty when unset.
    pub installation: String,
}

impl Tracking {
    /// Instance that a live object says it belongs to (SE-115); `None` when untracked.
    pub fn instance_of<'a>(&self, object: &'a Value) -> Option<&'a str> {
        instance_of(self.method, &self.label, object)
    }

    /// Whether a live object is this Application's own (SE-113, SE-115).
    pub fn owns(&self, object: &Value) -> bool {
        let installation = object["metadata"]["annotations"][INSTALLATION_ID].as_str();
        // Labels say nothing of installations.
        let ours = self.installation.is_empty()
            || self.method.is_by_label()
            || installation == Some(self.installation.as_str());
        ours && self.instance_of(object) == Some(self.instance.as_str())
    }

    /// Whether the tracking ID was written for this object (SE-116). An object
    /// that cannot be compared counts as tracked, except for a run: what carries no id of
    /// the run, or the tracking ID of an Application, is not its own.
    pub fn is_self_referenced(&self, live: &Value, key: &ResourceKey) -> bool {
        match self.method {
            TrackingMethod::Label => true,
            TrackingMethod::Run => {
                let id = run_id(live).filter(|id| id.instance == self.instance);
                id.is_some_and(|id| id.is_of(key)) && tracking_id(live).is_none()
            }
            TrackingMethod::Annotation | TrackingMethod::AnnotationAndLabel => {
                tracking_id(live).is_none_or(|id| id.is_of(key))
            }
        }
    }
}

/// The tracking ID of an Application on an object; `None` without a valid one.
pub fn tracking_id(object: &Value) -> Option<TrackingId> {
    object.annotation(TRACKING_ID).and_then(TrackingId::parse)
}

/// The id of a run without an Application on an object; `None` without a valid one.
pub fn run_id(object: &Value) -> Option<TrackingId> {
    object.annotation(RUN_ID).and_then(TrackingId::parse)
}

/// Instance that an object says it belongs to, by method and label key.
pub fn instance_of<'a>(method: TrackingMethod, label: &str, object: &'a Value) -> Option<&'a str> {
    match method {
        TrackingMethod::Label | TrackingMethod::Run => object.label(label),
        TrackingMethod::Annotation | TrackingMethod::AnnotationAndLabel => {
            let text = object.annotation(TRACKING_ID)?;
            TrackingId::parse(text)?;
            text.split(':').next()
        }
    }
}
