//! Work on checkouts that other programs will read.

use std::path::Path;

use crate::deadline;
use crate::links::points_outside;
use crate::render::manifest::RenderError;

/// Most entries of a checkout whose links are checked.
pub(crate) const MAX_ENTRIES: usize = 400_000;

/// Runs `work` on a thread that may block, where it asks [`in_time`]; `what` names it in errors.
pub(crate) async fn blocking<T: Send + 'static>(
    what: &str,
    work: impl FnOnce() -> Result<T, RenderError> + Send + 'static,
) -> Result<T, RenderError> {
    let work = || deadline::limited(deadline::MAX_WORK, work);
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        // Happens only when the runtime is shutting down.
        Err(RenderError::read(what, error))
    })
}

/// That the work with the files of a source takes no longer than it may; `at` is where it is.
pub(crate) fn in_time(at: &str) -> Result<(), RenderError> {
    if !deadline::is_over() {
        return Ok(());
    }
    let limit = deadline::MAX_WORK.as_secs();
    Err(RenderError::too_large(format!(
        "{at}: reading the files of the source takes more than {limit} s; split it"
    )))
}

/// Checks all links of a checkout, since other programs follow them.
pub(crate) fn links_stay_inside(root: &Path) -> Result<(), RenderError> {
    let mut open = vec![root.to_owned()];
    let mut seen = 0;
    while let Some(directory) = open.pop() {
        let shown = |path: &Path| path.strip_prefix(root).unwrap_or(path).display().to_string();
        let failed = |error: std::io::Error| RenderError::read(shown(&directory), error);
        for entry in std::fs::read_dir(&directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            in_time("links")?;
            seen += 1;
            if seen > MAX_ENTRIES {
                return Err(RenderError::too_large(format!(
                    "the repository has more than {MAX_ENTRIES} files"
                )));
            }
            let kind = entry.file_type().map_err(failed)?;
            if kind.is_dir() {
                open.push(entry.path());
            } else if kind.is_symlink() {
                // A dangling link could leave the checkout once its target exists.
                let inside = match entry.path().canonicalize() {
                    Ok(target) => target.starts_with(root),
                    Err(_) => !points_outside(&entry.path(), root),
                };
                if !inside {
                    return Err(RenderError::LinkOutside { file: shown(&entry.path()) });
                }
            }
        }
    }
    Ok(())
}
