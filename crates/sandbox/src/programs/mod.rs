//! What a worker can evaluate. Each program is a function of one value, in its own file, that
//! keeps nothing between requests.

#[cfg(feature = "jq")]
mod jq;
#[cfg(feature = "jsonnet")]
mod jsonnet;
#[cfg(feature = "lua")]
mod lua;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// What a worker can evaluate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Program {
    /// Paths that jq expressions select in objects.
    Jq,
    /// Health scripts of administrators.
    Lua,
    /// Jsonnet files.
    Jsonnet,
    /// Takes, uses and does what the tests ask for.
    #[cfg(test)]
    Attack,
}

impl Program {
    /// Whether evaluations are programs of their own, which may run for many seconds, and not
    /// single rules.
    pub(super) const fn may_take_long(self) -> bool {
        matches!(self, Self::Jsonnet)
    }

    /// How long an evaluation takes after which its caller counts as slow: more than most of
    /// what people write, and less than the limits. One that may take long is stopped then, and
    /// begins again among the slow ones.
    pub(super) const fn slow_after(self) -> Duration {
        match self {
            Self::Jsonnet => Duration::from_millis(500),
            Self::Jq => Duration::from_secs(2),
            Self::Lua => Duration::from_millis(900),
            #[cfg(test)]
            Self::Attack => Duration::from_millis(250),
        }
    }

    /// Runs it in this process, which is a worker.
    pub(super) fn run(self, input: &RawValue) -> Result<Value, String> {
        match self {
            #[cfg(feature = "jq")]
            Self::Jq => jq::run(parse(input)?),
            #[cfg(not(feature = "jq"))]
            Self::Jq => without("jq", input),
            #[cfg(feature = "lua")]
            Self::Lua => lua::run(parse(input)?),
            #[cfg(not(feature = "lua"))]
            Self::Lua => without("Lua", input),
            #[cfg(feature = "jsonnet")]
            Self::Jsonnet => jsonnet::run(parse(input)?),
            #[cfg(not(feature = "jsonnet"))]
            Self::Jsonnet => without("Jsonnet", input),
            #[cfg(test)]
            Self::Attack => super::tests::attack(&parse(input)?),
        }
    }
}

/// What an interpreter answers that was left out.
#[cfg(not(all(feature = "jq", feature = "jsonnet", feature = "lua")))]
fn without(name: &str, _: &RawValue) -> Result<Value, String> {
    Err(format!("this program was built without {name}"))
}

/// The input of a program, whose type is its own.
#[cfg(any(feature = "jq", feature = "jsonnet", feature = "lua", test))]
fn parse<'t, T: Deserialize<'t>>(input: &'t RawValue) -> Result<T, String> {
    serde_json::from_str(input.get()).map_err(|error| format!("invalid input: {error}"))
}
