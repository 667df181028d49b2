//! Objects of a destination namespace that no Application manages (CA-311).

use crate::NewCondition;
use wavegate_api::app_project::{OrphanedResourcePattern, OrphanedResources};
use wavegate_api::conditions::application::ORPHANED_RESOURCE_WARNING;
use wavegate_api::glob::glob_allows;
use wavegate_api::{AppProjectSpec, ResourceKey};

/// Which objects a project reports as orphaned.
#[derive(Clone, Debug)]
pub struct Orphans {
    ignored: Vec<[String; 3]>,
    warns: bool,
}

impl Orphans {
    /// The setting of a project; `None` when it does not look for orphaned resources.
    pub fn of(project: &AppProjectSpec) -> Option<Self> {
        let OrphanedResources { warn, ignore, .. } = project.orphaned_resources.as_ref()?;
        let globs = |pattern: &OrphanedResourcePattern| {
            let OrphanedResourcePattern { group, kind, name, .. } = pattern;
            [group, kind, name].map(String::clone)
        };
        Some(Self { ignored: ignore.iter().map(globs).collect(), warns: warn.unwrap_or(false) })
    }

    /// Whether an object without an owner that no Application tracks counts as orphaned.
    pub fn includes(&self, key: &ResourceKey) -> bool {
        let ResourceKey { group, kind, namespace, name } = key;
        let is_default = match (group.as_str(), kind.as_str(), name.as_str()) {
            ("", "Service", "kubernetes") => namespace == "default",
            ("", "ServiceAccount", "default") | ("", "ConfigMap", "kube-root-ca.crt") => true,
            _ => false,
        };
        let is_ignored = self.ignored.iter().any(|globs| {
            let texts = [group, kind, name];
            globs
                .iter()
                .zip(texts)
                .all(|(glob, text)| glob.is_empty() || glob_allows(glob, text, None))
        });
        !is_default && !is_ignored
    }

    /// Whether the Application gets a condition.
    pub fn warns(&self) -> bool {
        self.warns
    }
}

/// The condition about orphaned resources.
pub fn orphans_warning(count: usize) -> NewCondition {
    let message = format!("Application has {count} orphaned resources");
    NewCondition::new(ORPHANED_RESOURCE_WARNING, message.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Orphans, orphans_warning};
    use wavegate_api::{AppProjectSpec, ResourceKey};

    fn orphans(settings: serde_json::Value) -> Option<Orphans> {
        let spec = json!({ "orphanedResources": settings });
        Orphans::of(&wavegate_api::read_typed::<AppProjectSpec>(&spec).unwrap())
    }

    /// All but what each namespace has, and what the project ignores (CA-311).
    #[test]
    fn an_orphan_is_what_the_project_does_not_ignore_ca_311() {
        let ignore = json!([
            {"kind": "Secret", "name": "s-*"},
            {"group": "apps", "kind": "Deployment"},
            {"group": "batch"},
        ]);
        let orphans = orphans(json!({ "ignore": ignore })).unwrap();
        for (group, kind, namespace, name, want) in [
            ("", "ConfigMap", "web", "a", true),
            ("", "ConfigMap", "web", "kube-root-ca.crt", false),
            ("x", "ConfigMap", "web", "kube-root-ca.crt", true),
            ("", "ServiceAccount", "web", "default", false),
            ("", "ServiceAccount", "web", "other", true),
            ("", "Service", "default", "kubernetes", false),
            ("", "Service", "web", "kubernetes", true),
            ("", "Secret", "web", "s-1", false),
            ("", "Secret", "web", "t", true),
            ("", "Pod", "web", "s-1", true),
            ("apps", "Deployment", "web", "a", false),
            ("apps", "StatefulSet", "web", "a", true),
            ("", "Deployment", "web", "a", true),
            ("batch", "Job", "web", "a", false),
        ] {
            let key = ResourceKey::new(group, kind, namespace, name);
            assert_eq!(orphans.includes(&key), want, "{key}");
        }
    }

    #[test]
    fn orphans_are_shown_and_warned_of_as_the_project_says_ca_311() {
        let warns = |settings| orphans(settings).map(|orphans| orphans.warns());
        assert_eq!(warns(json!(null)), None);
        assert_eq!(warns(json!({})), Some(false));
        assert_eq!(warns(json!({"warn": false})), Some(false));
        assert_eq!(warns(json!({"warn": true})), Some(true));
        let warning = orphans_warning(2);
        assert_eq!(warning.type_, "OrphanedResourceWarning");
        assert_eq!(warning.message, "Application has 2 orphaned resources");
    }
}
