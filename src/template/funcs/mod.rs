//! The function library: Sprig without `env`, `expandenv` and `getHostByName`, and what the ApplicationSet controller
//! adds to it (AS-130).
//!
//! Functions that make keys and certificates (`genPrivateKey`, `genCA`, `genSelfSignedCert`, `genSignedCert`, their
//! `…WithKey` forms and `buildCustomCert`) do not exist: a template that names one is refused when it is parsed.

mod case;
mod convert;
mod crypto;
mod dates;
mod defaults;
mod dicts;
mod encoding;
mod json;
mod lists;
mod math;
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
pub(super) fn tables() -> [&'static [Function]; 18] {
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
    ]
}

const fn f(name: &'static str, params: &'static str, body: Body) -> Function {
    Function { name, params, body }
}
