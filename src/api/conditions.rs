//! Every condition type and reason, spelled once.

/// Conditions of an ApplicationSet (AS-183).
pub mod application_set {
    /// Parameters could, or could not, be made.
    pub const PARAMETERS_GENERATED: &str = "ParametersGenerated";
    /// Something went wrong.
    pub const ERROR_OCCURRED: &str = "ErrorOccurred";
    /// The Applications are as they shall be.
    pub const RESOURCES_UP_TO_DATE: &str = "ResourcesUpToDate";
    /// A rollout is under way.
    pub const ROLLOUT_PROGRESSING: &str = "RolloutProgressing";
    /// The steps of the rollout hold mistakes.
    pub const INVALID_ROLLOUT_CONFIG: &str = "InvalidRolloutConfig";

    /// Reasons of these conditions.
    pub mod reason {
        /// Parameters were made.
        pub const PARAMETERS_GENERATED: &str = "ParametersGenerated";
        /// An error is told in `ErrorOccurred`.
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
        /// An Application could not be refreshed.
        pub const REFRESH_APPLICATION_ERROR: &str = "RefreshApplicationError";
        /// A rollout has no steps.
        pub const APPLICATION_SET_ROLLOUT_ERROR: &str = "ApplicationSetRolloutError";
        /// Applications are not deleted yet: not everything else is written.
        pub const DELETIONS_WAIT: &str = "DeletionsWait";
        /// All is well.
        pub const APPLICATION_SET_UP_TO_DATE: &str = "ApplicationSetUpToDate";
        /// Some step is not complete.
        pub const APPLICATION_SET_MODIFIED: &str = "ApplicationSetModified";
        /// All steps are complete.
        pub const APPLICATION_SET_ROLLOUT_COMPLETE: &str = "ApplicationSetRolloutComplete";
        /// The feature was switched off while a rollout was under way.
        pub const APPLICATION_SET_ROLLOUT_DISABLED: &str = "ApplicationSetRolloutDisabled";
        /// The steps hold mistakes.
        pub const APPLICATION_SET_INVALID_ROLLOUT_CONFIG: &str =
            "ApplicationSetInvalidRolloutConfig";
        /// The steps hold none.
        pub const APPLICATION_SET_VALID_ROLLOUT_CONFIG: &str = "ApplicationSetValidRolloutConfig";
    }
}

/// Values of a condition's `status`.
pub mod status {
    /// It holds.
    pub const TRUE: &str = "True";
    /// It does not.
    pub const FALSE: &str = "False";
    /// Nobody knows.
    pub const UNKNOWN: &str = "Unknown";
}

/// Conditions of an Application (SE-060).
pub mod application {
    /// Its resources cannot be deleted.
    pub const DELETION_ERROR: &str = "DeletionError";
    /// Its spec is not valid.
    pub const INVALID_SPEC_ERROR: &str = "InvalidSpecError";
    /// Source and cluster cannot be compared.
    pub const COMPARISON_ERROR: &str = "ComparisonError";
    /// It cannot be synced without being asked.
    pub const SYNC_ERROR: &str = "SyncError";
    /// Anything else that failed.
    pub const UNKNOWN_ERROR: &str = "UnknownError";
    /// A resource belongs to another Application too.
    pub const SHARED_RESOURCE_WARNING: &str = "SharedResourceWarning";
    /// A resource is there twice in the source.
    pub const REPEATED_RESOURCE_WARNING: &str = "RepeatedResourceWarning";
    /// A resource is of a kind that settings leave out.
    pub const EXCLUDED_RESOURCE_WARNING: &str = "ExcludedResourceWarning";
    /// The namespace holds resources of no Application.
    pub const ORPHANED_RESOURCE_WARNING: &str = "OrphanedResourceWarning";
    /// A manifest holds a key twice; the last one counts.
    pub const REPEATED_KEY_WARNING: &str = "RepeatedKeyWarning";
    /// The project holds a pattern or a sync window that cannot be used.
    pub const INVALID_PROJECT_WARNING: &str = "InvalidProjectWarning";

    /// Something that a sync leaves out or does not understand.
    pub const SYNC_WARNING: &str = "SyncWarning";
    /// Some kinds cannot be listed: what the source no longer has of them is
    /// not found, and not pruned.
    pub const UNLISTED_RESOURCE_WARNING: &str = "UnlistedResourceWarning";

    /// The types that are errors; every other one is a warning.
    pub const ERRORS: [&str; 5] =
        [COMPARISON_ERROR, DELETION_ERROR, INVALID_SPEC_ERROR, SYNC_ERROR, UNKNOWN_ERROR];

    /// Whether conditions of this type are errors.
    pub fn is_error(type_: &str) -> bool {
        ERRORS.contains(&type_)
    }
}
