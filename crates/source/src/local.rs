//! Renders a directory of this machine for the command line: the working files of a user,
//! not a checkout.

use std::path::Path;

use serde_json::Value;

use crate::directory::source_directory::SourceDirectory;
use crate::render::kind::{SourceType, detect};
use crate::render::manifest::{Manifest, RenderError};
use crate::render::render_for::RenderFor;
use crate::render::source::RenderOptions;

/// Renders a chart or a kustomization at `directory`; `None` for a directory of plain
/// manifests. Files outside of its Git work tree, or outside of the directory if it is in
/// none, are not read.
///
/// # Errors
///
/// [`RenderError`]. Never a partial result.
pub async fn render_local(
    directory: &Path,
    subject: &RenderFor,
    options: &RenderOptions,
) -> Result<Option<Vec<Manifest>>, RenderError> {
    let failed = |error: std::io::Error| RenderError::read(directory.display().to_string(), error);
    let directory = std::fs::canonicalize(directory).map_err(failed)?;
    // Overlays refer to bases beside them.
    let root = directory.ancestors().find(|parent| parent.join(".git").exists());
    let root = root.unwrap_or(&directory);
    let relative = directory.strip_prefix(root).unwrap_or(Path::new(""));
    let relative = relative.to_str().ok_or_else(|| {
        RenderError::read(directory.display().to_string(), "its name is not UTF-8")
    })?;
    let source = Value::Null;
    let directory = SourceDirectory::new(root, relative)?;
    match detect(&directory, &source, options.enabled)? {
        SourceType::Helm => options.programs.helm(&directory, &source, subject, "").await.map(Some),
        SourceType::Kustomize => {
            options.programs.kustomize(&directory, &source, subject, "").await.map(Some)
        }
        SourceType::Plugin | SourceType::Directory => Ok(None),
    }
}
