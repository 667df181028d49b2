//! The fields of `scmProvider` and `pullRequest` generators that say which server is asked.

use serde_json::Value;

use super::element::{Failure, join};
use super::fields::Fields;
use super::scope::GeneratorScope;
use crate::desired::queries::{Login, Provider, QueryKind};

/// The key and the fields of one provider.
pub(super) type Named = (&'static str, QueryKind);

/// The one provider that a generator names.
///
/// # Errors
///
/// None, or several.
pub(super) fn only(generator: &Value, all: &[Named]) -> Result<Named, Failure> {
    let mut set = all.iter().filter(|(key, _)| !generator[*key].is_null());
    match (set.next(), set.next()) {
        (Some(one), None) => Ok(*one),
        (None, _) => {
            let keys: Vec<&str> = all.iter().map(|(key, _)| *key).collect();
            Err(Failure::new("", format!("names no provider; write one of {}", keys.join(", "))))
        }
        (Some((first, _)), Some((second, _))) => {
            let cause = format!("names several providers, {first} and {second}; write one");
            Err(Failure::new("", cause))
        }
    }
}

/// Fails when these generators are disabled.
pub(super) fn enabled(scope: &GeneratorScope<'_, '_>) -> Result<(), Failure> {
    match scope.inputs().providers.enabled {
        true => Ok(()),
        false => Err(Failure::new("", "scm providers are disabled (--enable-scm-providers=false)")),
    }
}

/// A server at this address, if it may be asked.
pub(super) fn provider(
    kind: QueryKind,
    key: &str,
    fields: &Fields<'_>,
    login: Login,
    scope: &GeneratorScope<'_, '_>,
) -> Result<Provider, Failure> {
    // Bitbucket Cloud has none in scmProvider, AWS CodeCommit never.
    let api = fields.text("api")?;
    let allowed = &scope.inputs().providers.allowed;
    if !api.is_empty() && !allowed.is_empty() && !allowed.contains(&api) {
        let cause = format!(
            "scm provider not allowed: scm provider {api:?} not allowed, must use one of the \
             following: {}",
            allowed.join(", ")
        );
        return Err(Failure::new(join(key, "api"), cause));
    }
    let needs_api = matches!(kind, QueryKind::Gitea | QueryKind::BitbucketServer);
    if api.is_empty() && needs_api {
        return Err(Failure::new(join(key, "api"), "is missing; write the URL of the server"));
    }
    Ok(Provider {
        kind,
        api,
        login,
        insecure: fields.switch("insecure", false)?,
        ca: fields.config_map("caRef")?,
    })
}

/// By a token, or not at all.
pub(super) fn token(fields: &Fields<'_>, key: &str) -> Result<Login, Failure> {
    Ok(fields.secret(key)?.map_or(Login::None, Login::Token))
}

/// As a GitHub App, or by a token.
pub(super) fn app_or_token(fields: &Fields<'_>) -> Result<Login, Failure> {
    match fields.text("appSecretName")? {
        name if name.is_empty() => token(fields, "tokenRef"),
        name => Ok(Login::App(name)),
    }
}

/// By a bearer token, by a user name and password, or not at all.
pub(super) fn bearer_or_basic(fields: &Fields<'_>) -> Result<Login, Failure> {
    if let Some(bearer) = fields.inner("bearerToken", &["tokenRef"])? {
        return match bearer.secret("tokenRef")? {
            Some(key) => Ok(Login::Token(key)),
            None => Err(bearer.missing("tokenRef")),
        };
    }
    let Some(basic) = fields.inner("basicAuth", &["username", "passwordRef"])? else {
        return Ok(Login::None);
    };
    match basic.secret("passwordRef")? {
        Some(password) => Ok(Login::Basic { user: basic.required("username")?, password }),
        None => Err(basic.missing("passwordRef")),
    }
}
