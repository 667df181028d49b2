//! Settings of the controllers. `config` creates them from flags, environment and ConfigMaps.

mod application;
mod application_set;
mod namespaces;

pub use application::ApplicationSettings;
pub use application_set::ApplicationSetSettings;
pub use namespaces::{CONTROL_PLANE_NAMESPACE, Namespaces};
pub use wavegate_providers::ProviderSettings;

/// Which controllers run, and their settings.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Settings of the ApplicationSet controller.
    pub application_sets: ApplicationSetSettings,
    /// Settings of the Application controller; `None` when an external controller syncs
    /// the Applications.
    pub applications: Option<ApplicationSettings>,
}
