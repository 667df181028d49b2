//! Which Applications the sync windows of their projects do not let be synced
//! now (AS-366, SE-406).

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Patch, WritePlan};
use crate::api::Cluster;
use crate::decide::rollout::Denied;
use crate::decide::rollout::phase::Observed;
use crate::decide::windows::{self, Asked, Semantics, Window};

/// What windows are judged by.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The AppProjects of the control plane's namespace, raw.
    pub projects: &'a BTreeMap<String, Arc<Value>>,
    /// The clusters that are known.
    pub clusters: &'a [Cluster],
    /// Whether a sync of a rollout counts as one by hand: it does for our own
    /// application controller (AS-366), and not for Argo CD's.
    pub by_hand: bool,
}

/// Judges the Applications that may be started, by name; who is in sync already
/// is not. Absent means that no window is in the way.
pub fn denied(
    applications: &BTreeMap<String, Arc<Value>>,
    observed: &BTreeMap<String, Observed>,
    facts: &Facts<'_>,
    now: Timestamp,
) -> BTreeMap<String, Denied> {
    let mut known: BTreeMap<&str, Vec<Window>> = BTreeMap::new();
    let mut denied = BTreeMap::new();
    for (name, application) in applications {
        if !observed.get(name).is_some_and(Observed::may_be_started) {
            continue;
        }
        let project = application["spec"]["project"].as_str().filter(|text| !text.is_empty());
        let Some((project, object)) = facts.projects.get_key_value(project.unwrap_or("default"))
        else {
            continue;
        };
        let windows = known.entry(project).or_insert_with(|| windows::windows(object));
        if windows.is_empty() {
            continue;
        }
        let destination = &application["spec"]["destination"];
        let text = |field: &str| destination[field].as_str().unwrap_or_default();
        let (cluster, server) = (text("name"), text("server").trim_end_matches('/'));
        let full = facts.clusters.iter().find(|known| match cluster {
            "" => known.server == server,
            cluster => known.name == cluster,
        });
        let asked = Asked {
            application: name,
            server: full.map_or(server, |known| &known.server),
            cluster: full.map_or(cluster, |known| &known.name),
            namespace: text("namespace"),
            manual: facts.by_hand,
            started_at: None,
        };
        let verdict = windows::judge(windows, &asked, Semantics::default(), now);
        if !verdict.allowed {
            let until = verdict.next_change;
            denied.insert(name.clone(), Denied { reason: verdict.reason, until });
        }
    }
    denied
}

/// Adds to a plan what withdraws the operations of these Applications, which
/// have done nothing yet: the request goes, and what waits for a window is
/// ended as `argocd app terminate-op` does it. Only while each is as it was
/// looked at, for it may begin at any time.
pub fn withdraw(plan: &mut WritePlan, names: &[String], existing: &BTreeMap<String, Arc<Value>>) {
    for name in names {
        let Some(live) = existing.get(name) else { continue };
        let version = &live["metadata"]["resourceVersion"];
        let at = plan.patches.iter().position(|patch| patch.name == *name);
        let at = at.unwrap_or_else(|| {
            plan.patches.push(Patch {
                name: name.clone(),
                body: json!({}),
                replaces: version.as_str().unwrap_or_default().to_owned(),
                starts: false,
                changes_spec: false,
            });
            plan.patches.len() - 1
        });
        let body = &mut plan.patches[at].body;
        body["metadata"]["resourceVersion"] = version.clone();
        let phase = live["status"]["operationState"]["phase"].as_str();
        if phase == Some("Running") {
            body["status"]["operationState"]["phase"] = "Terminating".into();
        } else {
            body["operation"] = Value::Null;
        }
    }
}
