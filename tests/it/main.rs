//! The integration tests: one binary, since each extra one links kube again.
//!
//! Whatever has `cluster::` in its path needs a real API server, whose
//! kubeconfig `WAVEGATE_TEST_KUBECONFIG` names; see `tests/run`.

// Tells the lints that helpers are tests too.
#![cfg(test)]

mod application_controller;
mod cli;
mod contract;
mod contracts;
mod demo;
mod e2e;
mod layers;
mod support;
mod words;
