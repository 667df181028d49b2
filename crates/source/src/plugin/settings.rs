//! Where plugins are, and what they get.

use std::path::PathBuf;

/// The folder of sockets of Argo CD's sidecars.
pub const DEFAULT_FOLDER: &str = "/home/argocd/cmp-server/plugins";

/// Where plugins are, and what they get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginSettings {
    /// The folder with the sockets. Default [`DEFAULT_FOLDER`].
    pub folder: PathBuf,
    /// Globs of files that are not sent, relative to the folder that is sent. Default none.
    pub exclusions: Vec<String>,
    /// Whether only the folder that contains the source and the paths of the annotation
    /// `argocd.argoproj.io/manifest-generate-paths` is sent, and not the whole repository.
    /// Default no.
    pub use_generate_paths: bool,
}

impl Default for PluginSettings {
    fn default() -> Self {
        Self { folder: DEFAULT_FOLDER.into(), exclusions: Vec::new(), use_generate_paths: false }
    }
}
