//! The integration tests: a single binary, since each binary links kube again.
//!
//! Tests with `cluster::` in their path require a real API server, given by the
//! kubeconfig `WAVEGATE_TEST_KUBECONFIG`; see `tests/run`. Ignored are those cases that only the
//! full matrix of `e2e` runs again, and nothing else, so that `tests/run --all` includes them all.

// Marks helpers as tests for clippy.
#![cfg(test)]

mod application_controller;
mod browser;
mod cli;
mod continued;
mod contract;
mod contracts;
mod demo;
mod docs;
mod e2e;
mod git_server;
mod kubectl;
mod layers;
mod messages;
mod numbers;
mod redis_server;
mod simulated;
mod support;
mod terminal;
mod tls_front;
mod words;
