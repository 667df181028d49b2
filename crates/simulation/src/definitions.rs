//! The definitions of all kinds, read once for all simulations of a process.

use std::sync::OnceLock;

use kube_sim::{Definitions, RefusedDefinition};

use wavegate_api::crds;

/// The definitions.
///
/// # Errors
///
/// When the server would refuse one of them.
pub(super) fn definitions() -> Result<Definitions, RefusedDefinition> {
    static READ: OnceLock<Definitions> = OnceLock::new();
    if let Some(read) = READ.get() {
        return Ok(read.clone());
    }
    let read = Definitions::read(crds::raw_definitions())?;
    Ok(READ.get_or_init(|| read).clone())
}
