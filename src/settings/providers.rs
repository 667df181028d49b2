//! Settings of the generators that ask services.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::desired::queries::Rules;

/// Settings of the generators `scmProvider`, `pullRequest` and `plugin` (AS-501).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderSettings {
    /// Which servers may be asked.
    pub rules: Rules,
    /// Secrets with tokens must be labelled as such.
    pub strict_tokens: bool,
    /// File with certificates that are trusted besides those of the machine.
    pub root_ca: Option<PathBuf>,
    /// The proxy; empty for that of the environment.
    pub proxy: String,
    /// Hosts without the proxy.
    pub no_proxy: String,
    /// Variables of the environment that the servers' own programs read, such as
    /// `AWS_REGION`.
    pub environment: BTreeMap<String, String>,
}
