//! Own https requests, and who makes them: credentials, identities and their tokens.

pub(crate) mod client;
pub(crate) mod credentials;
pub(crate) mod identity;
pub(crate) mod tokens;
