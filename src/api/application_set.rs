//! ApplicationSet: many Applications from one template, rolled out in steps
//! (AS-001 … AS-009).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::IntOrString;
use super::app_status::{HealthStatus, ResourceStatus};
use super::application::ApplicationSpec;
use super::generators::Generator;
use super::lenient::{is_default, or_default};
use super::time::Time;

resource! {
    /// Many Applications from one template, rolled out in steps.
    pub struct ApplicationSet("applicationsets") {
        pub spec: ApplicationSetSpec,
        /// What the controller found and did.
        pub status: Option<ApplicationSetStatus>,
    }
}

/// Which Applications there shall be, and how changes reach them.
///
/// Unlike elsewhere, reading fails without `generators` or `template`: an
/// absent list would mean that every Application is to be deleted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(extend("required" = ["generators", "template"]))]
#[serde(rename_all = "camelCase")]
pub struct ApplicationSetSpec {
    /// Where the parameters come from. An empty list gives no Applications.
    pub generators: Vec<Generator>,
    /// What an Application looks like.
    pub template: Template,
    /// Use the Go template language instead of plain placeholders.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub go_template: bool,
    /// Options of the Go template language, such as `missingkey=error`.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub go_template_options: Vec<String>,
    /// A template of YAML that is merged into each Application.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub template_patch: Option<String>,
    /// What the controller may do to Applications.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub sync_policy: Option<ApplicationSetSyncPolicy>,
    /// How changes reach the Applications: all at once, or step by step.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub strategy: Option<Strategy>,
    /// Metadata of Applications that is left alone.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub preserved_fields: Option<PreservedFields>,
    /// Fields of Applications that are left alone.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub ignore_application_differences: Vec<IgnoreApplicationDifference>,
    /// Without effect: nested selectors always apply.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub apply_nested_selectors: bool,
    /// Fields that are not modelled, as they were written.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: serde_json::Map<String, Value>,
}

lenient! {
    /// What an Application looks like. Every string may hold placeholders.
    #[schemars(extend("required" = ["metadata", "spec"]))]
    pub struct Template {
        /// Name, labels and the like.
        pub metadata: TemplateMetadata,
        /// The spec of the Application, raw, since it is rendered before it is read.
        #[schemars(with = "ApplicationSpec")]
        pub spec: Value,
    } and extra

    /// Metadata of the Applications.
    pub struct TemplateMetadata {
        /// Name; must differ for each Application.
        pub name: String,
        /// Without effect: Applications live where their ApplicationSet does.
        pub namespace: String,
        /// Labels. The steps of a rollout select by them.
        pub labels: BTreeMap<String, String>,
        /// Annotations.
        pub annotations: BTreeMap<String, String>,
        /// Finalizers; when empty, one is added that deletes the resources with the Application.
        pub finalizers: Vec<String>,
    } and extra

    /// What the controller may do to Applications.
    pub struct ApplicationSetSyncPolicy {
        /// Leave the resources in place when an Application is deleted.
        pub preserve_resources_on_deletion: bool,
        /// Restricts what is done: create-only, create-update, create-delete or sync.
        #[schemars(schema_with = "applications_sync")]
        pub applications_sync: Option<String>,
    } and extra

    /// How changes reach the Applications.
    pub struct Strategy {
        /// AllAtOnce, which is also meant when empty, or RollingSync.
        #[serde(rename = "type")]
        pub type_: String,
        /// The steps of a RollingSync.
        pub rolling_sync: Option<RollingSync>,
        /// Order in which the Applications go when the ApplicationSet is deleted: AllAtOnce or Reverse.
        pub deletion_order: String,
    } and extra

    /// The steps of a rollout.
    pub struct RollingSync {
        /// In this order; one begins when all Applications of those before are healthy.
        pub steps: Vec<RolloutStep>,
    } and extra

    /// A step: the Applications that it selects and how many of them change at a time.
    pub struct RolloutStep {
        /// Conditions on the labels of an Application; all must hold. Empty selects all.
        pub match_expressions: Vec<MatchExpression>,
        /// How many may change at a time: a number or a percentage; absent is all.
        pub max_update: Option<IntOrString>,
    } and extra

    /// A condition on a label.
    pub struct MatchExpression {
        /// Key of the label.
        pub key: String,
        /// `In` or `NotIn`.
        pub operator: String,
        /// Values, one of which the label must, or must not, have.
        pub values: Vec<String>,
    } and extra

    /// Metadata of Applications that is left alone.
    pub struct PreservedFields {
        /// Keys of annotations.
        pub annotations: Vec<String>,
        /// Keys of labels.
        pub labels: Vec<String>,
    } and extra

    /// Fields of Applications that are left alone.
    pub struct IgnoreApplicationDifference {
        /// Name of the Application; empty for all.
        pub name: String,
        /// JSON pointers to the fields.
        pub json_pointers: Vec<String>,
        /// jq paths to the fields.
        pub jq_path_expressions: Vec<String>,
    } and extra

    /// What the controller found and did.
    pub struct ApplicationSetStatus {
        /// What holds, sorted by type.
        pub conditions: Vec<ApplicationSetCondition>,
        /// Where each Application stands in the rollout, sorted by name.
        pub application_status: Vec<ApplicationSetApplicationStatus>,
        /// The Applications, sorted by name; only the first ones when there are many.
        pub resources: Vec<ResourceStatus>,
        /// How many Applications there are.
        pub resources_count: i64,
        /// The conditions in one word.
        pub health: Option<ApplicationSetHealth>,
        /// Where the rollout stands. A field of Wavegate, which Argo CD does not have.
        pub rollout: Option<RolloutStatus>,
    }

    /// Something that holds or not.
    #[schemars(extend("required" = ["message", "reason", "status", "type"]))]
    pub struct ApplicationSetCondition {
        /// What it is about.
        #[serde(rename = "type")]
        pub type_: String,
        /// True, False or Unknown.
        pub status: String,
        /// Why, in one word.
        pub reason: String,
        /// Why, in words for people.
        pub message: String,
        /// Since when it has been so.
        pub last_transition_time: Option<Time>,
    }

    /// The conditions in one word.
    pub struct ApplicationSetHealth {
        /// Healthy, Progressing, Degraded or Unknown.
        pub status: HealthStatus,
        /// Why.
        pub message: String,
        /// When the status last changed.
        pub last_transition_time: Option<Time>,
    }

    /// Where a rollout stands. A field of Wavegate, which Argo CD does not have.
    pub struct RolloutStatus {
        /// The step under way, counted from 1; the last one when all are done, 0 when there is none.
        pub step: i64,
        /// How many steps there are.
        pub steps: i64,
        /// Applications of all steps that are done, out of how many: `7/12`.
        pub progress: String,
        /// What the rollout waits for; at most ten entries.
        #[schemars(extend("maxItems" = 10))]
        pub waiting_for: Vec<WaitingFor>,
        /// When the rollout began.
        pub started_at: Option<Time>,
        /// The same in words.
        pub message: String,
    }

    /// One thing that a rollout waits for.
    #[schemars(extend("required" = ["reason"]))]
    pub struct WaitingFor {
        /// The Application.
        pub application: String,
        /// Why it is not done, in words for people.
        pub reason: String,
        /// The resource at fault, as `group/Kind:namespace/name`, where known.
        pub resource: String,
        /// Since when.
        pub since: Option<Time>,
        /// When the wait ends at the latest; absent when there is no limit.
        pub until: Option<Time>,
    }
}

/// Where one Application stands in the rollout.
///
/// `targetRevisions` is printed even when empty, since the schema wants it (AS-008).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(extend("required" = ["application", "message", "status", "step", "targetRevisions"]))]
#[serde(default, rename_all = "camelCase")]
pub struct ApplicationSetApplicationStatus {
    /// Name of the Application.
    #[serde(deserialize_with = "or_default")]
    pub application: String,
    /// When the status last changed.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub last_transition_time: Option<Time>,
    /// Why, in words for people.
    #[serde(deserialize_with = "or_default")]
    pub message: String,
    /// Waiting, Pending, Progressing or Healthy.
    #[serde(deserialize_with = "or_default")]
    pub status: RolloutPhase,
    /// Number of the step, counted from 1; `-1` when no step selects the Application.
    #[serde(deserialize_with = "or_default")]
    pub step: String,
    /// Revisions that are being rolled out, one per source.
    #[serde(deserialize_with = "or_default")]
    pub target_revisions: Vec<String>,
}

impl ApplicationSetApplicationStatus {
    /// `step` of an Application that no step selects (AS-008).
    pub const NO_STEP: &str = "-1";
}

words! {
    /// Where an Application stands in its step (AS-350).
    pub enum RolloutPhase {
        /// Not started; its step or its turn has not come.
        Waiting = "Waiting",
        /// Asked to sync; the sync has not begun.
        Pending = "Pending",
        /// Syncing, or not healthy yet.
        Progressing = "Progressing",
        /// Done.
        Healthy = "Healthy",
        _ =>
        /// Absent, or a word of a later version.
        Unknown = "",
    }
}

impl Strategy {
    /// `type` of a rollout in steps, spelled exactly so.
    pub const ROLLING_SYNC: &str = "RollingSync";
    /// `type` of no rollout, and `deletionOrder` of no order.
    pub const ALL_AT_ONCE: &str = "AllAtOnce";
    /// `deletionOrder` from the last step to the first.
    pub const REVERSE: &str = "Reverse";

    /// The steps when a rollout is *selected* (AS-007). It is *enabled* only
    /// when there is at least one; none is a mistake (AS-304).
    pub fn rolling_steps(&self) -> Option<&[RolloutStep]> {
        let rolling = self.rolling_sync.as_ref().filter(|_| self.type_ == Self::ROLLING_SYNC)?;
        Some(&rolling.steps)
    }

    /// Whether Applications are deleted from the last step to the first; the
    /// case of the word does not matter.
    pub fn deletes_in_reverse(&self) -> bool {
        self.deletion_order.eq_ignore_ascii_case(Self::REVERSE)
    }
}

/// The one enumeration of the schema: the peer's has it too (AS-005).
fn applications_sync(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "string",
        "enum": ["create-only", "create-update", "create-delete", "sync"],
    })
}
