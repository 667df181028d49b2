//! Git repositories: the program `git`, the local repository, checkouts, and what they need.

pub(crate) mod access;
pub(crate) mod address;
pub(crate) mod checkout;
pub(crate) mod command;
pub(crate) mod gitmodules;
pub(crate) mod lfs;
pub(crate) mod login;
pub(crate) mod objects;
pub(crate) mod refs;
pub(crate) mod repositories;
pub(crate) mod requests;
pub(crate) mod signatures;
pub(crate) mod submodules;
