//! Script and style, as they stand in the repository (PG-032).

use std::sync::OnceLock;

use sha2::{Digest, Sha256};

const SCRIPT: &str = include_str!("../assets/page.js");
/// The style.
pub(crate) const STYLE: &str = include_str!("../assets/page.css");
const ICON: &str = include_str!("../assets/icon.svg");

/// Type and text of a file; `None` when there is none with this name.
pub(crate) fn find_asset(name: &str) -> Option<(&'static str, &'static str)> {
    match name {
        "page.js" => Some(("text/javascript; charset=utf-8", SCRIPT)),
        "page.css" => Some(("text/css; charset=utf-8", STYLE)),
        "icon.svg" => Some(("image/svg+xml", ICON)),
        _ => None,
    }
}

/// What changes with the files, so that browsers keep them.
pub(crate) fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let digest = Sha256::digest([SCRIPT, STYLE].concat());
        digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
    })
}
