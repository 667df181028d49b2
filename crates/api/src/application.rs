//! Application: manifests from a source, synced to one destination.

use super::app_spec::ApplicationSpec;
use super::app_status::ApplicationStatus;
use super::operation::Operation;

resource! {
    /// Manifests from a source, kept in sync with a destination.
    ///
    /// There is no status subresource: `status` and `operation` are written
    /// with ordinary patches.
    pub struct Application("applications") {
        pub spec: ApplicationSpec,
        /// A requested sync operation; see [`Operation`].
        pub operation: Option<Operation>,
        /// Observed state of the Application.
        pub status: Option<ApplicationStatus>,
    }
}
