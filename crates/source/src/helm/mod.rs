//! Charts: versions, files, checks, dependencies, and the program `helm`.

pub(crate) mod chart;
pub(crate) mod chart_address;
pub(crate) mod chart_schema;
pub(crate) mod charts;
pub(crate) mod client;
pub(crate) mod dependencies;
pub(crate) mod errors;
pub(crate) mod template;
