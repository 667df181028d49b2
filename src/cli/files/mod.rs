//! What users write in files: how it is read, what is wrong with it, and what ApplicationSets of
//! files generate.

pub(in crate::cli) mod facts;
pub(in crate::cli) mod fields;
pub(in crate::cli) mod generate;
pub(in crate::cli) mod input;
pub(in crate::cli) mod repositories;
pub(in crate::cli) mod validation;
pub(in crate::cli) mod work_tree;
