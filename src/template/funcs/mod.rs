//! The function library: Sprig without `env`, `expandenv` and `getHostByName`, and what the ApplicationSet controller
//! adds to it (AS-130).

mod case;
pub(super) mod certificates;
mod convert;
mod crypto;
mod dates;
mod defaults;
mod dicts;
mod encoding;
mod json;
mod keys;
mod lists;
mod math;
mod numbers;
mod paths;
mod random;
pub(super) mod regex;
pub(super) mod semver;
mod strings;
mod text_lists;
mod url;
mod url_parse;
mod yaml_read;
mod yaml_write;

use super::go::function::{Body, Function};

/// All functions of the library.
pub(super) fn tables() -> [&'static [Function]; 20] {
    [
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
        crypto::FUNCTIONS,
        random::FUNCTIONS,
        keys::FUNCTIONS,
        certificates::FUNCTIONS,
    ]
}

const fn f(name: &'static str, params: &'static str, body: Body) -> Function {
    Function { name, params, body }
}
