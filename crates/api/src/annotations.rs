//! The annotations, labels and finalizers (SE Appendix C), and their simple values.
//!
//! Larger values have modules of their own: [`super::hooks`], [`super::sync_options`],
//! [`super::tracking`].

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use super::nearest::{meant_hint, nearest_name};
use super::time::from_rfc3339;

/// Wave of an object within its phase (SE-186).
pub const SYNC_WAVE: &str = "argocd.argoproj.io/sync-wave";
/// Phases that run the object as a hook (SE-180).
pub const HOOK: &str = "argocd.argoproj.io/hook";
/// When a hook is deleted (SE-185).
pub const HOOK_DELETE_POLICY: &str = "argocd.argoproj.io/hook-delete-policy";
/// Options for syncing the object (SE-300).
pub const SYNC_OPTIONS: &str = "argocd.argoproj.io/sync-options";
/// Options for comparing the object (SE-327).
pub const COMPARE_OPTIONS: &str = "argocd.argoproj.io/compare-options";
/// Which Application the object belongs to (SE-111).
pub const TRACKING_ID: &str = "argocd.argoproj.io/tracking-id";
/// Which run without an Application has applied the object, in the format of
/// [`TRACKING_ID`]. Specific to Wavegate.
pub const RUN_ID: &str = "wavegate.dev/sync-id";
/// Which installation the object belongs to (SE-113).
pub const INSTALLATION_ID: &str = "argocd.argoproj.io/installation-id";
/// `"true"`: the object's health is ignored (SE-490).
pub const IGNORE_HEALTHCHECK: &str = "argocd.argoproj.io/ignore-healthcheck";
/// On a Pod: health ignores the restart policy (SE-465).
pub const IGNORE_RESTART_POLICY: &str = "argocd.argoproj.io/ignore-restart-policy";
/// On an Application: compare again, `normal` or `hard` (SE-377).
pub const REFRESH: &str = "argocd.argoproj.io/refresh";
/// Time when the refresh was requested (SE-379).
pub const REFRESH_TIMESTAMP: &str = "argocd.argoproj.io/refresh-timestamp";
/// On an Application: the paths whose changes count; reported as without effect (SE-422).
pub const MANIFEST_GENERATE_PATHS: &str = "argocd.argoproj.io/manifest-generate-paths";
/// On an object that belongs to no Application: changes that the settings ignore cause no
/// comparison (SE-178).
pub const IGNORE_RESOURCE_UPDATES: &str = "argocd.argoproj.io/ignore-resource-updates";
/// On an Application: hydrate again; kept through writes (AS-154).
pub const HYDRATE: &str = "argocd.argoproj.io/hydrate";
/// On an Application: do not reconcile it (SE-380). On the Secret of a cluster: do not
/// reconcile the Applications of the cluster.
pub const SKIP_RECONCILE: &str = "argocd.argoproj.io/skip-reconcile";
/// How the annotations begin whose values are links for people (SE-061).
pub const LINK: &str = "link.argocd.argoproj.io/";
/// Label of a Namespace, from which the operator of Argo CD makes roles.
pub const MANAGED_BY: &str = "argocd.argoproj.io/managed-by";
/// On an Application in the tree of another one: the web page that manages it (CA-323).
pub const MANAGED_BY_URL: &str = "argocd.argoproj.io/managed-by-url";
/// On a resource: only links of annotations are its external URLs.
pub const IGNORE_DEFAULT_LINKS: &str = "argocd.argoproj.io/ignore-default-links";
/// On an Application: time when deletions were approved (SE-313, SE-315).
pub const DELETION_APPROVED: &str = "argocd.argoproj.io/deletion-approved";
/// On an Application: field manager whose fields are migrated to server-side apply (SE-346).
pub const CLIENT_SIDE_APPLY_MIGRATION_MANAGER: &str =
    "argocd.argoproj.io/client-side-apply-migration-manager";
/// On an ApplicationSet: generate again (AS-420).
pub const APPLICATION_SET_REFRESH: &str = "argocd.argoproj.io/application-set-refresh";
/// On an Application: sent notifications; kept through writes (AS-154).
pub const NOTIFIED: &str = "notified.notifications.argoproj.io";
/// On an Application: what the rollout records of it where the status of its
/// ApplicationSet is full. Specific to Wavegate; never taken from a template.
pub const ROLLOUT: &str = "wavegate.dev/rollout";
/// On an Application: the run that started it last, and what it was before (ST-040, ST-061).
/// Specific to Wavegate; never taken from a template.
pub const RUN: &str = "wavegate.dev/run";
/// On an ApplicationSet: a person has paused its rollout; the value is the reason (ST-020).
/// Specific to Wavegate.
pub const PAUSED: &str = "wavegate.dev/paused";
/// On an ApplicationSet: who has paused it. Specific to Wavegate.
pub const PAUSED_BY: &str = "wavegate.dev/paused-by";
/// On an ApplicationSet: who has resumed it last. Specific to Wavegate.
pub const RESUMED_BY: &str = "wavegate.dev/resumed-by";
/// On an Application: its syncs succeed only once all resources are healthy (SE-591), or, with
/// `false`, as in Argo CD. Specific to Wavegate.
pub const WAIT_FOR_HEALTH: &str = "wavegate.dev/wait-for-health";
/// On an ApplicationSet: which of its generators found something. Specific to Wavegate.
pub const FOUND: &str = "wavegate.dev/found";
/// On an ApplicationSet: a person approves the deletion of the Applications with this hash
/// (ST-050). Specific to Wavegate.
pub const APPROVED_DELETIONS: &str = "wavegate.dev/approved-deletions";
/// On an ApplicationSet: how many Applications it had before it was to delete some, for a limit in
/// per cent (ST-050). Specific to Wavegate; the controller writes it.
pub const EXISTED: &str = "wavegate.dev/existed";
/// On an AppProject: which of its sync windows decide, `argocd` or `seed` (SE-407). Specific to
/// Wavegate.
pub const WINDOW_SEMANTICS: &str = "wavegate.dev/window-semantics";
/// How the annotations of Wavegate begin.
const OWN: &str = "wavegate.dev/";
/// Those of them that mean something on an ApplicationSet.
const OF_SETS: [&str; 7] =
    [PAUSED, PAUSED_BY, RESUMED_BY, APPROVED_DELETIONS, EXISTED, FOUND, RUN_ID];
/// Helm's annotation for hooks (SE-181).
pub const HELM_HOOK: &str = "helm.sh/hook";
/// Helm's annotation for waves (SE-186).
pub const HELM_HOOK_WEIGHT: &str = "helm.sh/hook-weight";
/// Helm's annotation for hook deletion policies (SE-185).
pub const HELM_HOOK_DELETE_POLICY: &str = "helm.sh/hook-delete-policy";
/// `keep`: not deleted with the Application (SE-326).
pub const HELM_RESOURCE_POLICY: &str = "helm.sh/resource-policy";
/// Configuration that `kubectl apply` applied last (SE-340).
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Default label with the Application's instance name (SE-112).
pub const DEFAULT_INSTANCE_LABEL: &str = "app.kubernetes.io/instance";
/// Label with the purpose of a Secret (AS-060).
pub const SECRET_TYPE_LABEL: &str = "argocd.argoproj.io/secret-type";
/// Value of the label for clusters.
pub const SECRET_TYPE_CLUSTER: &str = "cluster";

/// Finalizer of a hook (SE-194).
pub const HOOK_FINALIZER: &str = "argocd.argoproj.io/hook-finalizer";
/// Finalizer: delete the resources with foreground propagation (SE-510).
pub const RESOURCES_FINALIZER: &str = "resources-finalizer.argocd.argoproj.io";
/// The same finalizer with an explicit policy.
pub const RESOURCES_FINALIZER_FOREGROUND: &str =
    "resources-finalizer.argocd.argoproj.io/foreground";
/// The same finalizer with background propagation.
pub const RESOURCES_FINALIZER_BACKGROUND: &str =
    "resources-finalizer.argocd.argoproj.io/background";
/// The finalizers that keep an Application until its resources are deleted.
pub const RESOURCES_FINALIZERS: [&str; 3] =
    [RESOURCES_FINALIZER, RESOURCES_FINALIZER_FOREGROUND, RESOURCES_FINALIZER_BACKGROUND];
/// Finalizer: run PreDelete hooks (SE-511). Stages are appended after a `/`.
pub const PRE_DELETE_FINALIZER: &str = "pre-delete-finalizer.argocd.argoproj.io";
/// Finalizer: delete the PreDelete hooks.
pub const PRE_DELETE_CLEANUP_FINALIZER: &str = "pre-delete-finalizer.argocd.argoproj.io/cleanup";
/// Finalizer: run PostDelete hooks (SE-511). Stages are appended after a `/`.
pub const POST_DELETE_FINALIZER: &str = "post-delete-finalizer.argocd.argoproj.io";
/// Finalizer: delete the PostDelete hooks.
pub const POST_DELETE_CLEANUP_FINALIZER: &str = "post-delete-finalizer.argocd.argoproj.io/cleanup";

/// An annotation of a raw object; `None` when absent or not a string.
pub fn annotation_of<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["annotations"][key].as_str()
}

/// The annotations of Wavegate on a raw ApplicationSet that mean nothing there, in words: with a
/// misspelt pause, the rollout would go on without a sign of it (ST-020).
pub fn unknown_of_set(set: &Value) -> Vec<String> {
    let all = set["metadata"]["annotations"].as_object().into_iter().flatten();
    let own = all.filter_map(|(key, _)| Some((key.as_str(), key.strip_prefix(OWN)?)));
    let unknown = own.filter(|(key, _)| !OF_SETS.contains(key));
    unknown
        .map(|(key, name)| {
            let by_people = [PAUSED, APPROVED_DELETIONS].map(|known| &known[OWN.len()..]);
            let near = nearest_name(name, by_people.into_iter()).map(|near| format!("{OWN}{near}"));
            let hint = meant_hint(near.as_deref());
            format!("metadata.annotations: {key} has no effect on an ApplicationSet{hint}")
        })
        .collect()
}

/// Whether a raw object is kept for the result of a hook, by its finalizer.
pub fn is_held_as_hook(object: &Value) -> bool {
    finalizers_of(object).any(|own| own == HOOK_FINALIZER)
}

/// Finalizers of a raw object.
pub fn finalizers_of(object: &Value) -> impl Iterator<Item = &str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Items of a comma-separated annotation: trimmed, without empty items and duplicates, in
/// the order written.
pub fn annotation_items<'a>(object: &'a Value, key: &str) -> Vec<&'a str> {
    let mut items = Vec::new();
    for item in annotation_of(object, key).unwrap_or_default().split(',').map(str::trim) {
        if !item.is_empty() && !items.contains(&item) {
            items.push(item);
        }
    }
    items
}

/// Sync wave of an object (SE-186): the sync-wave annotation, else Helm's hook weight,
/// else 0. A value that is not a number of 64 bits counts as absent.
pub fn sync_wave(object: &Value) -> i64 {
    let wave = |key| annotation_of(object, key).and_then(|text| text.parse().ok());
    wave(SYNC_WAVE).or_else(|| wave(HELM_HOOK_WEIGHT)).unwrap_or(0)
}

/// Kind of a refresh (SE-377).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refresh {
    /// Resolve the revision again.
    Normal,
    /// Resolve the revision and render the manifests again.
    Hard,
}

impl Refresh {
    /// That of a value of the annotation: any but `hard` is a normal refresh.
    pub fn of(value: &str) -> Self {
        if value == "hard" { Self::Hard } else { Self::Normal }
    }
}

/// The requested refresh of an Application.
pub fn requested_refresh(application: &Value) -> Option<Refresh> {
    annotation_of(application, REFRESH).map(Refresh::of)
}

/// Whether an Application is excluded from reconciling (SE-380): true for Go's spellings
/// of true only.
pub fn is_skipped(application: &Value) -> bool {
    annotation_of(application, SKIP_RECONCILE).is_some_and(skips)
}

/// The same by the annotations of a cluster Secret, for all Applications of the cluster.
pub fn is_skipped_by(annotations: Option<&BTreeMap<String, String>>) -> bool {
    annotations.and_then(|all| all.get(SKIP_RECONCILE)).is_some_and(|text| skips(text))
}

fn skips(text: &str) -> bool {
    matches!(text, "1" | "t" | "T" | "TRUE" | "true" | "True")
}

/// Time when deletions of an Application were approved; `None` also when the value is not
/// a timestamp (SE-313).
pub fn deletion_approved(application: &Value) -> Option<Timestamp> {
    annotation_of(application, DELETION_APPROVED).and_then(from_rfc3339)
}

/// Whether the object is kept when its Application is deleted (SE-326).
pub fn is_kept_by_helm(object: &Value) -> bool {
    annotation_of(object, HELM_RESOURCE_POLICY) == Some("keep")
}

/// Propagation of a cascading deletion, from the first matching finalizer (SE-510, SE-515).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cascade {
    /// Wait for dependents.
    Foreground,
    /// Do not wait.
    Background,
}

/// Propagation of deleting the Application's resources; `None` when they are kept.
pub fn deletion_cascade(application: &Value) -> Option<Cascade> {
    finalizers_of(application).find_map(|finalizer| match finalizer {
        RESOURCES_FINALIZER | RESOURCES_FINALIZER_FOREGROUND => Some(Cascade::Foreground),
        RESOURCES_FINALIZER_BACKGROUND => Some(Cascade::Background),
        _ => None,
    })
}
