//! A cluster that Applications may be deployed to, as its Secret describes it.

/// Name and address of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cluster {
    /// Its name.
    pub name: String,
    /// Its address, without a trailing slash.
    pub server: String,
}
