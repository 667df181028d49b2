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
