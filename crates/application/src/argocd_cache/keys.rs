//! The keys (CA-201 … CA-209).

use std::fmt::Display;

/// The version of Argo CD's cache format, a part of each key (CA-201).
const VERSION: &str = "1.8.3";

/// How keys are built.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    /// Put before each key, but not before channels (CA-110).
    pub prefix: String,
    /// Whether values are compressed, which is part of the key.
    pub is_gzip: bool,
}

impl Keys {
    /// The first shard of the resource tree of an Application, by its instance name (CA-203).
    pub fn tree(&self, app: &str) -> String {
        self.full(format_args!("app|resources-tree|{app}"))
    }

    /// A further shard, counted from 1 (CA-204).
    pub fn tree_shard(&self, app: &str, shard: usize) -> String {
        self.full(format_args!("app|resources-tree|{app}|{shard}"))
    }

    /// The managed resources of an Application (CA-205).
    pub fn managed(&self, app: &str) -> String {
        self.full(format_args!("app|managed-resources|{app}"))
    }

    /// The information about a cluster (CA-206, CA-207).
    pub fn cluster(&self, server: &str) -> String {
        self.full(format_args!("cluster|info|{}", server.trim_end_matches('/')))
    }

    /// The channel on which a new resource tree is announced (CA-209).
    pub fn channel(app: &str) -> String {
        format!("app|managed-resources|{app}|{VERSION}")
    }

    fn full(&self, key: impl Display) -> String {
        let suffix = if self.is_gzip { ".gz" } else { "" };
        format!("{}{key}|{VERSION}{suffix}", self.prefix)
    }
}
