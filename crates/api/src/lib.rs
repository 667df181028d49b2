//! The API types ApplicationSet, Application and AppProject, without behaviour, and the
//! names of their annotations, conditions and options; and how what users write in them is
//! read: YAML ([`yaml`]), globs ([`glob`]), URLs of repositories ([`repository`]) and published
//! schemas ([`openapi`]).
//!
//! The CustomResourceDefinitions under `crds/` are generated from these types; the doc
//! comment of a field is its description in `kubectl explain`.
//!
//! Reading is as tolerant as in Argo CD: an absent field and `null` both give the field's
//! empty value, and an unknown field is skipped. Code that writes an object back works on
//! the raw [`serde_json::Value`] beside these types, so that no field is lost.
//! Nothing here makes a decision or reads a clock or a cluster.

#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

#[macro_use]
mod lenient;
pub mod live;

pub mod annotations;
pub mod app_project;
pub mod app_spec;
pub mod app_status;
pub mod app_view;
pub mod application;
pub mod application_set;
pub mod cluster;
pub mod conditions;
pub mod crds;
pub mod field_managers;
pub mod generators;
pub mod glob;
pub mod hooks;
pub mod kind;
pub mod listed;
mod nearest;
pub mod networking;
pub mod object_key;
pub mod openapi;
pub mod operation;
pub mod path_segment;
pub mod pod;
pub mod policy;
pub mod providers;
pub mod raw;
pub mod read;
pub mod repository;
pub mod resource_filter;
pub mod resource_key;
pub mod run;
pub mod selector;
pub mod source;
pub mod sources;
pub mod sync_options;
pub mod template;
pub mod time;
pub mod tracking;
pub mod unknown;
pub mod yaml;

pub use app_project::{AppProject, AppProjectSpec, DEFAULT_PROJECT, permissive_project};
pub use app_spec::{ApplicationDestination, ApplicationSpec};
pub use app_status::{ApplicationStatus, HealthStatus, SyncStatusCode};
pub use application::Application;
pub use application_set::{ApplicationSet, ApplicationSetSpec, ApplicationSetStatus};
pub use cluster::Cluster;
pub use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
pub use kind::GroupVersionKind;
pub use lenient::UnknownFields;
pub use object_key::ObjectKey;
pub use operation::{Operation, OperationPhase};
pub use raw::Raw;
pub use read::{ReadError, read_leniently, read_typed};
pub use resource_key::ResourceKey;
pub use source::ApplicationSource;
pub use time::Time;

/// The API group of the kinds of Argo CD.
pub const GROUP: &str = "argoproj.io";
/// The API version of the kinds of Argo CD.
pub const VERSION: &str = "v1alpha1";
/// Group and version, as in an object's `apiVersion`.
pub const API_VERSION: &str = "argoproj.io/v1alpha1";
/// The API group of the kinds of Wavegate.
pub const WAVEGATE_GROUP: &str = "wavegate.dev";
/// The API version of the kinds of Wavegate.
pub const WAVEGATE_VERSION: &str = "v1alpha1";
/// Their group and version, as in `apiVersion`.
pub const WAVEGATE_API_VERSION: &str = "wavegate.dev/v1alpha1";

#[cfg(test)]
mod tests;
