//! The function library: Sprig without `env`, `expandenv` and `getHostByName`, and what the ApplicationSet controller
//! adds to it (AS-130).

mod case;
#[cfg(feature = "sprig-crypto")]
mod certificates;
mod convert;
#[cfg(feature = "sprig-crypto")]
mod crypto;
mod dates;
mod defaults;
mod dicts;
mod encoding;
mod json;
#[cfg(feature = "sprig-crypto")]
mod keys;
#[cfg(any(test, not(feature = "sprig-crypto")))]
mod left_out;
mod lists;
mod math;
#[cfg(feature = "sprig-crypto")]
mod numbers;
mod paths;
mod prelude;
mod random;
mod regex;
mod semver;
mod strings;
mod sums;
mod text_lists;
mod url;
mod url_parse;
mod yaml_read;
mod yaml_write;

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::engine::builtins;
use crate::engine::fail::Fail;
use crate::engine::function::Function;
use crate::engine::run::Run;
use crate::engine::value::Value;

/// Finds a function of the language or the library by its name.
pub(super) fn find(name: &str) -> Option<&'static Function> {
    static TABLE: LazyLock<HashMap<&'static str, &'static Function>> =
        LazyLock::new(|| tables().flatten().map(|function| (function.name, function)).collect());
    TABLE.get(name).copied()
}

/// A value as JSON, or why it is none.
pub(super) fn json_text(run: &mut Run<'_>, value: &Value) -> Result<String, String> {
    json::to_json(run, value, false, false).map_err(|fail| match fail {
        Fail::Message(message) | Fail::Limit(message) => message,
    })
}

/// All functions.
pub(super) fn tables() -> impl Iterator<Item = &'static [Function]> {
    let common = [
        // Go's own `slice` is not among them: the library has another one.
        builtins::FUNCTIONS,
        strings::FUNCTIONS,
        case::FUNCTIONS,
        text_lists::FUNCTIONS,
        convert::FUNCTIONS,
        defaults::FUNCTIONS,
        math::FUNCTIONS,
        lists::FUNCTIONS,
        dicts::FUNCTIONS,
        json::FUNCTIONS,
        yaml_write::FUNCTIONS,
        dates::FUNCTIONS,
        regex::FUNCTIONS,
        semver::FUNCTIONS,
        paths::FUNCTIONS,
        url::FUNCTIONS,
        encoding::FUNCTIONS,
        sums::FUNCTIONS,
        random::FUNCTIONS,
    ];
    common.into_iter().chain(keys_and_certificates())
}

#[cfg(feature = "sprig-crypto")]
fn keys_and_certificates() -> [&'static [Function]; 3] {
    [crypto::FUNCTIONS, keys::FUNCTIONS, certificates::FUNCTIONS]
}

#[cfg(not(feature = "sprig-crypto"))]
fn keys_and_certificates() -> [&'static [Function]; 1] {
    [left_out::FUNCTIONS]
}
