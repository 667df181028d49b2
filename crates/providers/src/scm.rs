//! What is asked of a server of source code.

use super::failure::ProviderError;
use super::http::Api;
use wavegate_rollout::desired::queries::{Filters, ScmRepositories};

/// The API of a server of source code, and what is asked.
#[derive(Debug)]
pub(super) struct Scm {
    pub api: Api,
    pub query: ScmRepositories,
}

/// The filters of a query.
pub(super) fn compiled(query: &ScmRepositories) -> Result<Filters, ProviderError> {
    Filters::new(&query.filters)
        .map_err(|(place, cause)| ProviderError::new(format!("filters{place}: {cause}")))
}
