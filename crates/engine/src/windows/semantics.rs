//! Which sync windows decide when several match an Application (SE-407).
//!
//! | `wavegate.dev/window-semantics` on the AppProject | all that match decide | an active allow window with `manualSync` permits |
//! |---|---|---|
//! | absent, or `argocd` | yes | manual and automated syncs |
//! | `seed` | of each kind, only those with the most specific selector | manual syncs |

use serde_json::Value;

use wavegate_api::annotations::{WINDOW_SEMANTICS, annotation_of};

/// How the windows of a project decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Semantics {
    /// As in Argo CD.
    #[default]
    ArgoCd,
    /// The more specific window takes priority, and `manualSync` permits manual syncs only.
    Seed,
}

impl Semantics {
    /// Those of a raw AppProject; Argo CD's for a value that is unknown.
    pub fn of(project: &Value) -> Self {
        Self::read(project).unwrap_or_default()
    }

    /// The value that is unknown, in an error.
    fn read(project: &Value) -> Result<Self, &str> {
        match annotation_of(project, WINDOW_SEMANTICS) {
            None | Some("argocd") => Ok(Self::ArgoCd),
            Some("seed") => Ok(Self::Seed),
            Some(unknown) => Err(unknown),
        }
    }

    /// What is wrong with the annotation of a raw AppProject, if anything.
    pub fn warning(project: &Value) -> Option<String> {
        let unknown: String = Self::read(project).err()?.chars().take(80).collect();
        Some(format!(
            "metadata.annotations: {WINDOW_SEMANTICS} is {unknown:?}; it has to be argocd or seed, \
             and argocd is assumed"
        ))
    }
}

/// How specific the selector of a window is that matches an Application: the more, the greater.
/// An Application is more specific than a namespace, which is more specific than a cluster; then a
/// name is more specific than a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Specificity {
    /// A pattern of `clusters`.
    ClusterPattern,
    /// A name or a URL in `clusters`.
    Cluster,
    /// A pattern of `namespaces`.
    NamespacePattern,
    /// A name in `namespaces`.
    Namespace,
    /// A pattern of `applications`.
    ApplicationPattern,
    /// A name in `applications`.
    Application,
}
