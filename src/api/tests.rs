/// Argo CD's own definitions; the tests of the program use them, too.
#[path = "../../tests/it/support/definitions.rs"]
pub(crate) mod argo_cd;
mod definitions;
mod objects;
mod unknown;
mod words;
