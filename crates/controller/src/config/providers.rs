//! Settings of the generators that ask services (AS-501, AS-504).

use std::path::PathBuf;
use std::time::Duration;

use super::flags::{Flags, QUERY_SECONDS};
use super::reader::{ConfigError, Reader, sets};
use crate::settings::{ApplicationSetSettings, ProviderSettings};
use wavegate_rollout::desired::queries::Rules;

/// Variables that the programs of providers read, too.
const VARIABLES: [&str; 17] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_CODECOMMIT",
    "AWS_ENDPOINT_URL_STS",
    "AWS_ENDPOINT_URL_TAGGING",
    "AWS_REGION",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "BITBUCKET_API_BASE_URL",
];

/// Fails where users of further namespaces could send tokens and requests anywhere: there the
/// addresses must be limited, or these generators disabled (AS-504).
pub(super) fn check(settings: &ApplicationSetSettings) -> Result<(), ConfigError> {
    let Rules { enabled, allowed } = &settings.providers.rules;
    match *enabled && allowed.is_empty() && !settings.namespaces.is_empty() {
        true => Err(ConfigError::ScmProviders),
        false => Ok(()),
    }
}

/// Reads them.
pub(super) fn read(read: &mut Reader<'_>, flags: &Flags) -> ProviderSettings {
    let mut enabled = true;
    read.flag(flags.enable_scm_providers, sets("enable.scm.providers"), &mut enabled);
    let allowed = read.list(flags.allowed_scm_providers.clone(), sets("allowed.scm.providers"));
    let root_ca = read.text(flags.scm_root_ca_path.clone(), sets("scm.root.ca.path"), "");
    let default = ProviderSettings::default();
    let query_timeout = read.pick(
        flags.scm_query_timeout_seconds.map(|seconds| Duration::from_secs(seconds.into())),
        sets("scm.query.timeout.seconds"),
        |text| {
            let seconds = text.parse().ok().filter(|seconds| QUERY_SECONDS.contains(seconds))?;
            u64::try_from(seconds).ok().map(Duration::from_secs)
        },
        default.query_timeout,
    );
    let mut strict_tokens = false;
    let names = (
        "ARGOCD_APPLICATIONSET_CONTROLLER_TOKENREF_STRICT_MODE",
        "applicationsetcontroller.enable.tokenref.strict.mode",
    );
    read.flag(flags.token_ref_strict_mode, names, &mut strict_tokens);
    let proxy = ("ARGOCD_APPLICATIONSET_CONTROLLER_SCM_PROXY_URL", "");
    let no_proxy = ("ARGOCD_APPLICATIONSET_CONTROLLER_SCM_NO_PROXY", "");
    let environment = read.environment;
    let variable = |name: &&str| Some(((*name).to_owned(), environment(name)?));
    ProviderSettings {
        rules: Rules { enabled, allowed },
        strict_tokens,
        root_ca: Some(root_ca).filter(|path| !path.is_empty()).map(PathBuf::from),
        proxy: read.text(flags.scm_proxy_url.clone(), proxy, ""),
        no_proxy: read.text(flags.scm_no_proxy.clone(), no_proxy, ""),
        query_timeout,
        environment: VARIABLES.iter().filter_map(variable).collect(),
    }
}
