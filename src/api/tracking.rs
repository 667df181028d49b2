//! Tracking: the Application that an object belongs to, as written on the object (SE-110
//! … SE-114).

use std::fmt;

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
}

impl fmt::Display for TrackingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.instance, self.key)
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
}

impl TrackingMethod {
    /// The method of a setting; annotation when unknown or empty.
    pub fn from_setting(text: &str) -> Self {
        match text {
            "label" => Self::Label,
            "annotation+label" => Self::AnnotationAndLabel,
            _ => Self::Annotation,
        }
    }
}
