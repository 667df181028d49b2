//! Whether programs are confined, as administrators choose it.

use serde::{Deserialize, Serialize};

/// Whether programs are confined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Confinement {
    /// Only limits on resources. Workers are confined nevertheless.
    Off,
    /// As far as the kernel can.
    #[default]
    Auto,
    /// A program or worker is not started when the kernel cannot.
    Required,
}

impl Confinement {
    /// The setting of this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "off" => Some(Self::Off),
            "auto" => Some(Self::Auto),
            "required" => Some(Self::Required),
            _ => None,
        }
    }
}
