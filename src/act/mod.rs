//! Effects out: every write of Wavegate goes through here, and comes back as
//! what became of it.

pub mod application_set_status;
pub mod application_status;
pub mod applications;
pub mod apply;
pub mod delete;
pub mod events;
pub mod outcome;
pub mod project;
pub mod retry;
mod secrets;
mod told;

#[cfg(test)]
mod tests;
