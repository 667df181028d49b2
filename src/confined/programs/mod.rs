//! What a worker can evaluate. Each program is a function of one value, in its own file, that
//! keeps nothing between requests.

mod jq;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a worker can evaluate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Program {
    /// Paths that jq expressions select in objects.
    Jq,
    /// Takes, uses and does what the tests ask for.
    #[cfg(test)]
    Attack,
}

impl Program {
    /// Runs it in this process, which is a worker.
    pub(super) fn run(self, input: Value) -> Result<Value, String> {
        match self {
            Self::Jq => jq::run(input),
            #[cfg(test)]
            Self::Attack => super::tests::attack(&input),
        }
    }
}
