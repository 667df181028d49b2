//! What the person may write in a namespace, as the API server says, for a short time (PG-020).

use std::collections::BTreeMap;
use std::time::Duration;

use kube::Client;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use wavegate_cluster::act::commands::reviews::{ReviewedAccess, review_access};
use wavegate_dashboard::{VerbPermissions, WrittenKind};

/// How long an answer counts: a role that was just bound is there at once.
const COUNTS: Duration = Duration::from_secs(5);
/// The most namespaces whose answers are kept.
const NAMESPACES: usize = 200;
/// The longest time of a question. What is not known is left to the write.
const ANSWER: Duration = Duration::from_secs(5);

/// What verbs write, with the group and the plural, and the kind in messages.
const WRITTEN: [(WrittenKind, &str, &str, &str); 3] = [
    (WrittenKind::Set, "argoproj.io", "applicationsets", "ApplicationSets"),
    (WrittenKind::Application, "argoproj.io", "applications", "Applications"),
    (WrittenKind::Run, "wavegate.dev", "rolloutruns", "RolloutRuns"),
];

/// The answers, by namespace.
#[derive(Default)]
pub(super) struct KnownPermissions(Mutex<BTreeMap<String, (Instant, VerbPermissions)>>);

impl KnownPermissions {
    /// What may be written in a namespace.
    pub async fn of_namespace(&self, client: &Client, namespace: &str) -> VerbPermissions {
        if let Some((at, known)) = self.0.lock().get(namespace)
            && at.elapsed() < COUNTS
        {
            return known.clone();
        }
        let mut permissions = VerbPermissions::default();
        let answers = WRITTEN.map(async |(kind, group, resource, words)| {
            let namespace = Some(namespace);
            let access = ReviewedAccess { verb: "patch", group, resource, namespace };
            let answer = timeout(ANSWER, review_access(client, &access)).await;
            Some((kind, words, answer.ok()?.ok()?.err()?))
        });
        for (kind, words, reason) in futures::future::join_all(answers).await.into_iter().flatten()
        {
            let reason = if reason.is_empty() { reason } else { format!(" ({reason})") };
            let role = match kind {
                WrittenKind::Run => "wavegate-approver or wavegate-operator",
                _ => "wavegate-operator",
            };
            let why = format!(
                "you may not patch {words} in namespace {namespace}{reason}: the role {role} permits it"
            );
            permissions.refuse(kind, why);
        }
        let mut known = self.0.lock();
        if known.len() >= NAMESPACES {
            known.clear();
        }
        known.insert(namespace.to_owned(), (Instant::now(), permissions.clone()));
        permissions
    }
}
