//! Variables of the environment that resemble settings and are none: likely misspelt, and without
//! a report the setting would have no effect in silence.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::reader::PREFIX;
use super::{Config, Flags};
use wavegate_api::unknown::{meant_hint, nearest_name};

/// What else names of settings begin with. Other programs read such variables, too.
const SHARED: [&str; 3] = ["ARGOCD_", "AWS_", "BITBUCKET_"];
/// The names of addresses of services of AWS, which have one each.
const OF_SERVICES: &str = "AWS_ENDPOINT_URL_";
/// At most so many letters differ in the name of a variable that another program may read.
const LETTERS: usize = 2;

/// A line for each of these names that no setting has: any below that of the controller, and
/// those that are nearly the name of a setting.
pub fn unknown_variables(names: impl IntoIterator<Item = String>) -> Vec<String> {
    let known = known();
    let of_shared = |name: &str| {
        let is_shared = SHARED.iter().any(|prefix| name.starts_with(prefix));
        let mut known = known.iter().filter(|_| is_shared && !name.starts_with(OF_SERVICES));
        known.find(|known| strsim::damerau_levenshtein(name, known) <= LETTERS).map(String::as_str)
    };
    let line = |name: String| {
        if known.contains(&name) || is_of_kubernetes(&name) {
            return None;
        }
        let own = name.strip_prefix(PREFIX);
        let near = match own {
            Some(own) => nearest_own(own, &known),
            None => Some(of_shared(&name)?.to_owned()),
        };
        let hint = meant_hint(near.as_deref());
        Some(format!(
            "{name} (environment) is no setting of Argo CD 3.5 or Wavegate, and has no effect{hint}"
        ))
    };
    let names: BTreeSet<String> = names.into_iter().collect();
    names.into_iter().filter_map(line).collect()
}

/// The setting of the controller with the nearest name, without what all begin with.
fn nearest_own(name: &str, known: &BTreeSet<String>) -> Option<String> {
    let own = known.iter().filter_map(|known| known.strip_prefix(PREFIX));
    nearest_name(name, own).map(|near| format!("{PREFIX}{near}"))
}

/// The variables that are looked up.
fn known() -> BTreeSet<String> {
    let read = RefCell::new(BTreeSet::new());
    let environment = |name: &str| {
        read.borrow_mut().insert(name.to_owned());
        None
    };
    // Without settings it does not fail; with an error, there would be fewer names.
    match Config::resolve(Flags::default(), &environment, &BTreeMap::new()) {
        Ok(_) => read.into_inner(),
        Err(_) => BTreeSet::new(),
    }
}

/// Whether Kubernetes has set a variable for a Service of the namespace, such as
/// `ARGOCD_APPLICATIONSET_CONTROLLER_PORT_7000_TCP_ADDR`.
fn is_of_kubernetes(name: &str) -> bool {
    let is_port = |(_, port): (&str, &str)| {
        let number = port.split('_').next().unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || name.ends_with("_PORT")
        || name.split_once("_PORT_").is_some_and(is_port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_variables_are_named_with_the_setting_that_was_meant() {
        let names = [
            ("ARGOCD_APPLICATIONSET_CONTROLLER_POLICYY", "ARGOCD_APPLICATIONSET_CONTROLLER_POLICY"),
            (
                "ARGOCD_APPLICATIONSET_CONTROLLER_SCM_PROXI_URL",
                "ARGOCD_APPLICATIONSET_CONTROLLER_SCM_PROXY_URL",
            ),
            ("ARGOCD_APPLICATIONSET_CONTROLLER_WHATEVER_ELSE", ""),
            ("ARGOCD_RECONCILATION_TIMEOUT", "ARGOCD_RECONCILIATION_TIMEOUT"),
            ("AWS_ACCES_KEY_ID", "AWS_ACCESS_KEY_ID"),
            ("BITBUCKET_API_BASE_ULR", "BITBUCKET_API_BASE_URL"),
        ];
        for (name, meant) in names {
            let lines = unknown_variables([name.to_owned()]);
            let hint =
                if meant.is_empty() { String::new() } else { format!("; did you mean {meant}?") };
            let want = format!(
                "{name} (environment) is no setting of Argo CD 3.5 or Wavegate, and has no effect{hint}"
            );
            assert_eq!(lines, [want]);
        }
    }

    #[test]
    fn variables_of_other_programs_and_of_kubernetes_are_not_named() {
        for name in [
            "ARGOCD_APPLICATIONSET_CONTROLLER_POLICY",
            "ARGOCD_APPLICATIONSET_CONTROLLER_SERVICE_HOST",
            "ARGOCD_APPLICATIONSET_CONTROLLER_SERVICE_PORT_WEBHOOK",
            "ARGOCD_APPLICATIONSET_CONTROLLER_PORT",
            "ARGOCD_APPLICATIONSET_CONTROLLER_PORT_7000_TCP_ADDR",
            "ARGOCD_SERVER_INSECURE",
            "AWS_ENDPOINT_URL_S3",
            "AWS_STS_REGIONAL_ENDPOINTS",
            "AWS_PROFILE",
            "AWS_DEFAULT_OUTPUT",
            "AWS_REGION",
            "PATH",
        ] {
            assert_eq!(unknown_variables([name.to_owned()]), <Vec<String>>::new(), "{name}");
        }
    }
}
