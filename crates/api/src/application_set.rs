//! ApplicationSet: generates Applications from a template and rolls out changes in steps
//! (AS-001 … AS-009).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::IntOrString;
use super::app_status::{HealthStatus, ResourceStatus};
use super::generators::Generator;
use super::lenient::{is_default, or_default};
use super::template::Template;
use super::time::Time;

resource! {
    /// Generates Applications from a template and rolls out changes in steps.
    pub struct ApplicationSet("applicationsets") {
        pub spec: ApplicationSetSpec,
        /// Observed state of the ApplicationSet.
        pub status: Option<ApplicationSetStatus>,
    }
}

/// Generators and template of the Applications, and the strategy of a rollout.
///
/// Unlike elsewhere, reading fails without `generators` or `template`: an absent list
/// would mean that all Applications are to be deleted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(extend("required" = ["generators", "template"]))]
#[serde(rename_all = "camelCase")]
pub struct ApplicationSetSpec {
    /// Generators of the template parameters. An empty list generates no Applications.
    pub generators: Vec<Generator>,
    /// Template of the Applications.
    pub template: Template,
    /// Use Go templates instead of plain placeholders.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub go_template: bool,
    /// Options of Go templates, such as `missingkey=error`.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub go_template_options: Vec<String>,
    /// YAML template that is merged into each Application.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub template_patch: Option<String>,
    /// Which changes the controller may make to Applications.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub sync_policy: Option<ApplicationSetSyncPolicy>,
    /// How changes are rolled out: to all Applications at once, or in steps.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub strategy: Option<Strategy>,
    /// Annotations and labels of Applications that the controller does not change.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub preserved_fields: Option<PreservedFields>,
    /// Fields of Applications that the controller does not change.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub ignore_application_differences: Vec<IgnoreApplicationDifference>,
    /// Has no effect: nested selectors are always applied.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub apply_nested_selectors: bool,
    /// Fields without a typed counterpart, unchanged.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: serde_json::Map<String, Value>,
}

lenient! {
    /// Which changes the controller may make to Applications.
    pub struct ApplicationSetSyncPolicy {
        /// Keep the resources in the cluster when an Application is deleted.
        pub preserve_resources_on_deletion: bool,
        /// Allowed changes: create-only, create-update, create-delete or sync.
        #[schemars(schema_with = "applications_sync")]
        pub applications_sync: Option<String>,
    } and extra

    /// How changes are rolled out to the Applications.
    pub struct Strategy {
        /// AllAtOnce (also when empty) or RollingSync.
        #[serde(rename = "type")]
        pub type_: String,
        /// Steps of a RollingSync.
        pub rolling_sync: Option<RollingSync>,
        /// Order in which Applications are deleted together with the ApplicationSet:
        /// AllAtOnce or Reverse.
        pub deletion_order: String,
    } and extra

    /// Steps of a rollout.
    pub struct RollingSync {
        /// Ordered steps; a step starts when all Applications of the previous steps are
        /// Healthy.
        pub steps: Vec<RolloutStep>,
    } and extra

    /// Selects Applications by labels and limits how many of them are updated at the same time.
    pub struct RolloutStep {
        /// Conditions on the labels of an Application; all must match. Empty selects all
        /// Applications.
        pub match_expressions: Vec<MatchExpression>,
        /// Number or percentage of Applications that are updated at the same time; all
        /// when absent.
        pub max_update: Option<IntOrString>,
    } and extra

    /// A condition on a label of an Application.
    pub struct MatchExpression {
        /// Key of the label.
        pub key: String,
        /// `In` or `NotIn`.
        pub operator: String,
        /// Values to compare the label with.
        pub values: Vec<String>,
    } and extra

    /// Annotations and labels of Applications that the controller does not change.
    pub struct PreservedFields {
        /// Keys of annotations.
        pub annotations: Vec<String>,
        /// Keys of labels.
        pub labels: Vec<String>,
    } and extra

    /// Fields of Applications that the controller does not change.
    pub struct IgnoreApplicationDifference {
        /// Name of the Application; empty matches all Applications.
        pub name: String,
        /// JSON pointers to the fields.
        pub json_pointers: Vec<String>,
        /// jq paths to the fields.
        pub jq_path_expressions: Vec<String>,
    } and extra

    /// Observed state of an ApplicationSet.
    pub struct ApplicationSetStatus {
        /// Conditions, sorted by type.
        pub conditions: Vec<ApplicationSetCondition>,
        /// Rollout status of each Application, sorted by name.
        pub application_status: Vec<ApplicationSetApplicationStatus>,
        /// Status of the Applications, sorted by name; truncated when there are many.
        pub resources: Vec<ResourceStatus>,
        /// Number of Applications.
        pub resources_count: i64,
        /// Health derived from the conditions.
        pub health: Option<ApplicationSetHealth>,
        /// Status of the rollout. A field of Wavegate, which Argo CD does not have.
        pub rollout: Option<RolloutStatus>,
    }

    /// The fields of a status but its lists of Applications, which may be long.
    pub struct ApplicationSetSummary {
        /// Conditions, sorted by type.
        pub conditions: Vec<ApplicationSetCondition>,
        /// Number of Applications.
        pub resources_count: Option<u64>,
        /// Health derived from the conditions.
        pub health: Option<ApplicationSetHealth>,
        /// Status of the rollout.
        pub rollout: Option<RolloutStatus>,
    }

    /// A condition of an ApplicationSet.
    #[schemars(extend("required" = ["message", "reason", "status", "type"]))]
    pub struct ApplicationSetCondition {
        /// Time of the last transition.
        pub last_transition_time: Option<Time>,
    } and always {
        /// Type of the condition.
        #[serde(rename = "type")]
        pub type_: String,
        /// True, False or Unknown.
        pub status: String,
        /// Reason of the last transition, as one word.
        pub reason: String,
        /// Details of the last transition.
        pub message: String,
    } and extra

    /// Health derived from the conditions.
    pub struct ApplicationSetHealth {
        /// Time of the last change of the health status.
        pub last_transition_time: Option<Time>,
    } and always {
        /// Healthy, Progressing, Degraded or Unknown.
        pub status: HealthStatus,
        /// Details of the health status.
        pub message: String,
    } and extra

    /// Status of a rollout. A field of Wavegate, which Argo CD does not have.
    pub struct RolloutStatus {
        /// Time when the rollout started.
        pub started_at: Option<Time>,
        /// Time when the current step became the current step; absent when all are
        /// complete.
        pub step_opened_at: Option<Time>,
        /// Number of Applications in `applicationStatus` when it does not list all of
        /// them: the others are Waiting, or Healthy as their annotation
        /// `wavegate.dev/rollout` says.
        pub listed: Option<i64>,
        /// Waits that were reported as stalled; at most ten entries.
        #[schemars(extend("maxItems" = 10))]
        pub stalled: Vec<StalledWait>,
    } and always {
        /// Current step, counted from 1; the last step when all are complete, 0 when
        /// there is no step.
        pub step: i64,
        /// Number of steps.
        pub steps: i64,
        /// Number of Healthy Applications in all steps, and their total: `7/12`.
        pub progress: String,
        /// Applications that the rollout is waiting for; at most ten entries.
        #[schemars(extend("maxItems" = 10))]
        pub waiting_for: Vec<WaitingFor>,
        /// Summary of what the rollout is waiting for.
        pub message: String,
    } and extra

    /// A wait that was reported by an Event `RolloutStalled`.
    #[schemars(extend("required" = ["application"]))]
    pub struct StalledWait {
        /// Name of the Application.
        pub application: String,
        /// Time when the wait started.
        pub since: Option<Time>,
    } and extra

    /// An Application that a rollout is waiting for.
    #[schemars(extend("required" = ["reason"]))]
    pub struct WaitingFor {
        /// The blocking resource, as `group/Kind namespace/name`, if known.
        pub resource: String,
        /// Time when the wait started.
        pub since: Option<Time>,
        /// Time when the wait ends at the latest; absent when there is no limit.
        pub until: Option<Time>,
    } and always {
        /// Name of the Application.
        pub application: String,
        /// The kind of the reason, for scripts: `Creating`, `FailedWrite`, `Refused`,
        /// `Invalid`, `Comparison`, `ErrorCondition`, `HeldByPerson`, `Paused`, `Unreadable`, `Approval`,
        /// `Soak`, `FailureBudget`, `Quarantined`, `HeldBack`, `RollingBack`, `RollbackFailed`, `Skipped`,
        /// `Pace`, `MaxInFlight`, `SyncWindow`,
        /// `Excluded`, `OtherOperation`, `ManualSync`, `MaxUpdate`, `StatusFull`,
        /// `Promotion`, `OperationStart`, `Operation`, `Confirmation`,
        /// `FailedOperation`, `Deadline`, `OutOfSync`, `Degraded`, `Health` or `Deletion`.
        pub kind: String,
        /// Why the Application is not Healthy yet, in words that may change.
        pub reason: String,
    } and extra
}

impl ApplicationSetCondition {
    /// Since when it is True; `None` while it is not.
    pub fn true_since(&self) -> Option<Timestamp> {
        self.last_transition_time.as_ref().filter(|_| self.status == "True").map(|at| at.0)
    }
}

/// Rollout status of one Application.
///
/// `targetRevisions` is written even when empty, since the schema requires it (AS-008).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(extend("required" = ["application", "message", "status", "step", "targetRevisions"]))]
#[serde(default, rename_all = "camelCase")]
pub struct ApplicationSetApplicationStatus {
    /// Name of the Application.
    #[serde(deserialize_with = "or_default")]
    pub application: String,
    /// Time of the last change of `status`.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub last_transition_time: Option<Time>,
    /// Details of the status.
    #[serde(deserialize_with = "or_default")]
    pub message: String,
    /// Waiting, Pending, Progressing or Healthy.
    #[serde(deserialize_with = "or_default")]
    pub status: RolloutPhase,
    /// Step number, counted from 1; `-1` when no step selects the Application.
    #[serde(deserialize_with = "or_default")]
    pub step: String,
    /// Revisions that are rolled out, one per source.
    #[serde(deserialize_with = "or_default")]
    pub target_revisions: Vec<String>,
}

words! {
    /// Rollout phase of an Application within its step (AS-350).
    pub enum RolloutPhase {
        /// Not started; waits for its step to start or for a free slot of `maxUpdate`.
        Waiting = "Waiting",
        /// The sync was requested and has not started.
        Pending = "Pending",
        /// Syncing, or not Healthy yet.
        Progressing = "Progressing",
        /// Synced and Healthy.
        Healthy = "Healthy",
        _ =>
        /// Absent, or a value of a later version.
        Unknown = "",
    }
}

/// The only enumeration in the schema: Argo CD's has it too (AS-005).
fn applications_sync(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "string",
        "enum": ["create-only", "create-update", "create-delete", "sync"],
    })
}
