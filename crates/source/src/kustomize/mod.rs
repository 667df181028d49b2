//! Kustomizations, edited in a private copy of a checkout.

pub(crate) mod build;
pub(crate) mod kustomization;
pub(crate) mod remote;
