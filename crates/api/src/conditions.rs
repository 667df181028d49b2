//! Condition types, reasons and statuses.

/// Conditions of an ApplicationSet (AS-183).
pub mod application_set {
    /// Whether the parameters could be generated.
    pub const PARAMETERS_GENERATED: &str = "ParametersGenerated";
    /// Whether an error occurred.
    pub const ERROR_OCCURRED: &str = "ErrorOccurred";
    /// Whether the Applications match the ApplicationSet.
    pub const RESOURCES_UP_TO_DATE: &str = "ResourcesUpToDate";
    /// Whether a rollout is in progress.
    pub const ROLLOUT_PROGRESSING: &str = "RolloutProgressing";
    /// Whether the configuration of the rollout is invalid.
    pub const INVALID_ROLLOUT_CONFIG: &str = "InvalidRolloutConfig";
    /// The summary of the rollout where the installed definition has no field for it.
    /// Specific to Wavegate.
    pub const ROLLOUT_STATUS: &str = "RolloutStatus";

    /// Whether Applications are not deleted until a person approves it. Specific to Wavegate.
    pub const DELETIONS_HELD: &str = "DeletionsHeld";

    /// Whether a source of the controllers' settings is gone, whose last settings stay in force.
    /// Specific to Wavegate.
    pub const SETTINGS_ABSENT: &str = "SettingsAbsent";

    /// Reasons of these conditions.
    pub mod reason {
        /// A generator finds nothing where it found something.
        pub const GENERATOR_FOUND_NOTHING: &str = "GeneratorFoundNothing";
        /// One generation would delete more Applications than a policy permits (ST-050).
        pub const TOO_MANY_DELETIONS: &str = "TooManyDeletions";
        /// A source of settings had values, and does not exist any more.
        pub const LAST_SETTINGS_STAY: &str = "LastSettingsStay";
        /// What another set generates is not known.
        pub const OTHER_SET_UNKNOWN: &str = "OtherApplicationSetUnknown";
        /// Parameters were generated.
        pub const PARAMETERS_GENERATED: &str = "ParametersGenerated";
        /// The error is described in `ErrorOccurred`.
        pub const ERROR_OCCURRED: &str = "ErrorOccurred";
        /// A generator failed.
        pub const APPLICATION_GENERATION_FROM_PARAMS_ERROR: &str =
            "ApplicationGenerationFromParamsError";
        /// The template or its patch failed.
        pub const RENDER_TEMPLATE_PARAMS_ERROR: &str = "RenderTemplateParamsError";
        /// A generated Application is not valid.
        pub const APPLICATION_VALIDATION_ERROR: &str = "ApplicationValidationError";
        /// An Application could not be created.
        pub const CREATE_APPLICATION_ERROR: &str = "CreateApplicationError";
        /// An Application could not be updated.
        pub const UPDATE_APPLICATION_ERROR: &str = "UpdateApplicationError";
        /// An Application could not be deleted.
        pub const DELETE_APPLICATION_ERROR: &str = "DeleteApplicationError";
        /// The refresh annotation could not be removed.
        pub const REFRESH_APPLICATION_ERROR: &str = "RefreshApplicationError";
        /// A rollout has no steps.
        pub const APPLICATION_SET_ROLLOUT_ERROR: &str = "ApplicationSetRolloutError";
        /// A reconcile failed by a bug.
        pub const INTERNAL_ERROR: &str = "InternalError";
        /// Applications are not deleted yet, because other writes failed.
        pub const DELETIONS_WAIT: &str = "DeletionsWait";
        /// The API server refuses the status of the ApplicationSet.
        pub const STATUS_ERROR: &str = "StatusError";
        /// The installed definition has no field `status.rollout`.
        pub const FIELD_NOT_DEFINED: &str = "FieldNotDefined";
        /// Settings, projects or Secrets of the control plane cannot be read.
        pub const CONTROL_PLANE_ERROR: &str = "ControlPlaneError";
        /// No errors.
        pub const APPLICATION_SET_UP_TO_DATE: &str = "ApplicationSetUpToDate";
        /// A step is not complete.
        pub const APPLICATION_SET_MODIFIED: &str = "ApplicationSetModified";
        /// All steps are complete.
        pub const APPLICATION_SET_ROLLOUT_COMPLETE: &str = "ApplicationSetRolloutComplete";
        /// Progressive syncs were disabled during a rollout.
        pub const APPLICATION_SET_ROLLOUT_DISABLED: &str = "ApplicationSetRolloutDisabled";
        /// The configuration of the steps is invalid.
        pub const APPLICATION_SET_INVALID_ROLLOUT_CONFIG: &str =
            "ApplicationSetInvalidRolloutConfig";
        /// The configuration of the steps is valid.
        pub const APPLICATION_SET_VALID_ROLLOUT_CONFIG: &str = "ApplicationSetValidRolloutConfig";
    }
}

/// Values of `status` of a condition.
pub mod status {
    /// The condition is met.
    pub const TRUE: &str = "True";
    /// The condition is not met.
    pub const FALSE: &str = "False";
}

/// Conditions of an Application (SE-060).
pub mod application {
    /// Its resources cannot be deleted.
    pub const DELETION_ERROR: &str = "DeletionError";
    /// Its spec is not valid.
    pub const INVALID_SPEC_ERROR: &str = "InvalidSpecError";
    /// Source and cluster cannot be compared.
    pub const COMPARISON_ERROR: &str = "ComparisonError";
    /// Automated sync failed or is not possible.
    pub const SYNC_ERROR: &str = "SyncError";
    /// Any other error.
    pub const UNKNOWN_ERROR: &str = "UnknownError";
    /// A resource also belongs to another Application.
    pub const SHARED_RESOURCE_WARNING: &str = "SharedResourceWarning";
    /// A resource appears more than once in the source.
    pub const REPEATED_RESOURCE_WARNING: &str = "RepeatedResourceWarning";
    /// A resource is of an excluded kind.
    pub const EXCLUDED_RESOURCE_WARNING: &str = "ExcludedResourceWarning";
    /// The namespace contains resources of no Application.
    pub const ORPHANED_RESOURCE_WARNING: &str = "OrphanedResourceWarning";
    /// A manifest contains a key twice; the last value is used.
    pub const REPEATED_KEY_WARNING: &str = "RepeatedKeyWarning";
    /// The project contains an invalid pattern or sync window.
    pub const INVALID_PROJECT_WARNING: &str = "InvalidProjectWarning";

    /// The sync ignores or does not support a setting.
    pub const SYNC_WARNING: &str = "SyncWarning";
    /// Some kinds cannot be listed: resources of these kinds that are no longer in the
    /// source are not found and not pruned.
    pub const UNLISTED_RESOURCE_WARNING: &str = "UnlistedResourceWarning";

    /// A rollback holds it at its last good revisions, and its resources differ from these
    /// (ST-061). Specific to Wavegate.
    pub const HELD_BACK_OUT_OF_SYNC_WARNING: &str = "HeldBackOutOfSyncWarning";
    /// A rollback holds it at its last good revisions, and it cannot be compared with these.
    /// Specific to Wavegate.
    pub const HELD_BACK_COMPARISON_WARNING: &str = "HeldBackComparisonWarning";

    /// Its deletion waits for a confirmation or for a finalizer of another controller, or has taken
    /// longer than a minute. Specific to Wavegate.
    pub const DELETION_WARNING: &str = "DeletionWarning";

    /// Types that are errors; all others are warnings.
    pub const ERRORS: [&str; 5] =
        [COMPARISON_ERROR, DELETION_ERROR, INVALID_SPEC_ERROR, SYNC_ERROR, UNKNOWN_ERROR];

    /// Whether conditions of this type are errors.
    pub fn is_error(type_: &str) -> bool {
        ERRORS.contains(&type_)
    }
}
