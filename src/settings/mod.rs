//! How the controllers are set up. `config` makes these of flags, environment
//! and ConfigMaps; `controller` is given them.

mod application;
mod application_set;
mod namespaces;

pub use application::ApplicationSettings;
pub use application_set::ApplicationSetSettings;
pub use namespaces::Namespaces;

/// Which controllers run, and how each is set up.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The ApplicationSet controller's.
    pub application_sets: ApplicationSetSettings,
    /// The application controller's; `None` when somebody else syncs the
    /// Applications.
    pub applications: Option<ApplicationSettings>,
}
