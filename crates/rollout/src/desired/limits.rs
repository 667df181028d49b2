//! Limits for generating.

use std::time::Duration;

use gotemplate::go;
#[cfg(doc)]
use gotemplate::go::Env;

/// Limits for generating one ApplicationSet (AS-135).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The time limit, measured with the clock of the [`Env`].
    pub time: Duration,
    /// The most bytes of all its Applications as a controller keeps them: their text, 32 bytes
    /// for each value, and 512 bytes for each Application.
    pub bytes: usize,
    /// The most bytes of memory that all its Applications take as trees, for those that keep them
    /// so: a map of one value takes ten times the bytes of its text.
    pub tree_bytes: u64,
    /// The most bytes of one Application. The API server accepts at most 3 MiB,
    /// and etcd usually 1.5 MiB.
    pub application_bytes: usize,
    /// The limits of each template.
    pub template: go::TemplateLimits,
    /// The most bytes of memory that the parameter sets of all generators take together, those
    /// inside of matrix and merge generators included. Several ApplicationSets are generated at
    /// the same time, and what was generated is beside them.
    pub parameter_bytes: u64,
    /// The most parts of repositories that all generators together read: a matrix may name
    /// another repository for each parameter set.
    pub repository_reads: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(30),
            bytes: 256 << 20,
            // 50,000 Applications with eight maps each take 300 MiB.
            tree_bytes: 512 << 20,
            application_bytes: 4 << 20,
            template: go::TemplateLimits::default(),
            parameter_bytes: 128 << 20,
            repository_reads: 1_000,
        }
    }
}
