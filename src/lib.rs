//! Wavegate rolls a change out over a fleet of Argo CD Applications, step by
//! step, and syncs each of them itself.
//!
//! ```text
//! facts in               decisions                  effects out
//! watch/  source/  ──▶   desired/  decide/    ──▶   act/   ──▶ the cluster
//! clock                  (pure: no await)            ▲
//!    ▲                                          controller/ reconciles
//!    └────────────────── the cluster; status is part of it
//! ```
//!
//! In reading order: [`api`] holds the words that users write; [`desired`], with the
//! library [`gotemplate`], turns a set into Applications; [`decide`] decides what to
//! do next; [`watch`], [`source`] and [`providers`] bring the facts; [`act`] writes; [`controller`]
//! reconciles; [`cli`] is the command line. The library [`kube_sim`] is a Kubernetes
//! API server in memory, for the demo and for tests. ARCHITECTURE.md has the rest.

pub mod api;
pub mod glob;
pub mod openapi;
pub mod redact;
pub mod repository;
pub mod yaml;

pub mod decide;
pub mod desired;
pub mod evaluator;

pub mod clock;
pub mod confined;
mod connect;
pub mod entropy;
mod jwt;
pub mod providers;
pub mod source;
mod tls;
mod token_cache;
pub mod watch;

pub mod act;

pub mod config;
pub mod controller;
pub mod serve;
pub mod settings;
pub mod simulation;

pub mod cli;
pub mod telemetry;
pub mod terminal;
