//! What the survey has found (SE-432).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use kube::core::discovery::ApiResource;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::watch::failure::{error_reason, has_code};
use crate::watch::watched::Watched;
use wavegate_api::kind::GroupVersionKind;

/// The result of the survey.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Whether every kind was listed once.
    pub(super) done: Watched<bool>,
    pub(super) begun: AtomicBool,
    /// Whether all kinds are listed again.
    pub(super) is_anew: AtomicBool,
    /// Whether a user has requested that.
    pub(super) is_asked: AtomicBool,
    /// Set when kinds may have been added.
    pub(super) again: Notify,
    /// Kinds that were listed.
    pub(super) looked: Mutex<BTreeSet<GroupVersionKind>>,
    /// The kinds with tracked objects, by instance.
    pub(super) marked: Mutex<BTreeMap<String, BTreeSet<GroupVersionKind>>>,
    /// Kinds and API groups that could not be listed, and why.
    pub(super) failed: Mutex<BTreeMap<String, SurveyFailure>>,
    /// Kinds that returned 404 in the last survey. Twice in a row, with a discovery in
    /// between, is a failure.
    pub(super) not_found: Mutex<BTreeSet<GroupVersionKind>>,
}

/// Why a kind or an API group could not be listed.
#[derive(Clone, Debug)]
pub(super) struct SurveyFailure {
    /// The message of the server.
    pub(super) why: String,
    /// Whether the permission is missing: then it is not worth a wait.
    pub(super) is_forbidden: bool,
    /// Since when it has failed each time.
    pub(super) since: Instant,
    /// The kind; `None` for more than one.
    pub(super) kind: Option<GroupVersionKind>,
}

impl SurveyFailure {
    pub(super) fn new(why: String) -> Self {
        Self { why, is_forbidden: false, since: Instant::now(), kind: None }
    }

    pub(super) fn of(error: &kube::Error) -> Self {
        Self { is_forbidden: has_code(error, 403), ..Self::new(error_reason(error)) }
    }
}

impl Survey {
    /// Lists all kinds, with those that were listed.
    pub fn anew(&self) {
        self.is_asked.store(true, Relaxed);
        self.again();
    }

    /// Lists kinds that are new.
    pub fn again(&self) {
        self.again.notify_one();
    }

    /// After the watch of a kind has listed it: what could not be listed before is known now,
    /// and must not be reported any more.
    pub fn was_listed(&self, resource: &ApiResource) {
        let kind = Some(gvk(resource));
        if self.failed.lock().values().any(|failure| failure.kind == kind) {
            self.again();
        }
    }
}

pub(super) fn gvk(resource: &ApiResource) -> GroupVersionKind {
    let ApiResource { group, version, kind, .. } = resource.clone();
    GroupVersionKind { group, version, kind }
}

pub(super) fn name_of(resource: &ApiResource) -> String {
    match resource.group.as_str() {
        "" => resource.kind.clone(),
        group => format!("{}.{group}", resource.kind),
    }
}
