//! The page: the rollouts of a fleet in a browser (PG-…).
//!
//! [`reports`] is what the page needs to know, as documents that its program fills from the reports
//! of the command line; the page computes nothing of its own. [`serve_page`] serves them: who may
//! ask is in `access`, what a view shows in `view`, and a view that is open follows the
//! cluster by a stream of its parts that changed (`serve`).
//!
//! HTML is written here, and everything that clusters contain is text in it, never markup. Script
//! and style are files of this crate, in the program as they stand in `assets`.

mod access;
mod address;
mod assets;
mod export;
pub mod people;
mod permissions;
pub mod reports;
mod serve;
mod team;
mod view;

pub use self::access::PageAccess;
pub use self::export::{export_charts, export_rollout};
pub use self::permissions::{VerbPermissions, WrittenKind};
pub use self::serve::{PageOptions, PageTls, PageTlsFiles, serve_page, serve_team};
pub use self::team::{ProxyProof, PublicUrl, SignInMethod, TeamAccess};
