//! Settings of the generators that ask services.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use wavegate_rollout::desired::queries::Rules;

/// Settings of the generators `scmProvider`, `pullRequest` and `plugin` (AS-501).
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// Timeout of one query with all its requests.
    pub query_timeout: Duration,
    /// Variables of the environment that the servers' own programs read, such as
    /// `AWS_REGION`.
    pub environment: BTreeMap<String, String>,
}

impl Default for ProviderSettings {
    fn default() -> Self {
        Self {
            rules: Rules::default(),
            strict_tokens: false,
            root_ca: None,
            proxy: String::new(),
            no_proxy: String::new(),
            query_timeout: Duration::from_secs(200),
            environment: BTreeMap::new(),
        }
    }
}
