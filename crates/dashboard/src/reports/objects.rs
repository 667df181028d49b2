//! What all documents name: objects, and states of Applications.

/// Namespace and name of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageObject {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// The state of an Application in a rollout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CellState {
    /// Complete.
    Done,
    /// It uses the limit of its step.
    Moving,
    /// It has not started.
    #[default]
    Waiting,
    /// It does not continue by itself.
    Stuck,
    /// It is left out of the run.
    Skipped,
}
