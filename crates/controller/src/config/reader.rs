//! Reads one setting from wherever it is set.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeBounds;
use std::str::FromStr;
use std::time::Duration;

use gotime::duration;
use jiff::SignedDuration;

/// Before most names in the environment.
pub(super) const PREFIX: &str = "ARGOCD_APPLICATIONSET_CONTROLLER_";
/// Before the names of Argo CD's application controller in the environment.
pub(super) const ENGINE_PREFIX: &str = "ARGOCD_APPLICATION_CONTROLLER_";
/// Before most keys of the ConfigMap.
const KEY_PREFIX: &str = "applicationsetcontroller.";

/// Why no configuration could be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A policy that does not exist (AS-150).
    #[error("policy: {0} is invalid; use sync, create-update, create-delete or create-only")]
    Policy(String),
    /// A sync engine that does not exist.
    #[error(
        "{0}: {1:?} is not understood; write embedded, or external where Argo CD does the syncing"
    )]
    SyncEngine(String, String),
    /// A namespace pattern that is no expression.
    #[error("applicationset-namespaces: {0}")]
    Namespaces(String),
    /// The same for the namespaces of Applications.
    #[error("application-namespaces: {0}")]
    ApplicationNamespaces(String),
    /// Generators of further namespaces could ask any server (AS-504).
    #[error(
        "applicationset-namespaces: users of further namespaces could send requests to any server; \
         set --allowed-scm-providers to the addresses that their generators may name, or \
         --enable-scm-providers=false"
    )]
    ScmProviders,
    /// Redis cannot be used as it is set up.
    #[error("redis: {0}")]
    Redis(String),
}

/// The variable and the key of a setting; an empty one does not exist.
pub(super) struct Names {
    variable: String,
    key: String,
}

impl From<(&str, &str)> for Names {
    fn from((variable, key): (&str, &str)) -> Self {
        Self { variable: variable.to_owned(), key: key.to_owned() }
    }
}

impl From<&str> for Names {
    /// Of a key whose variable is spelled like it.
    fn from(key: &str) -> Self {
        let (prefix, name) = match key.split_once("controller.") {
            Some(("", name)) => (ENGINE_PREFIX, name),
            Some(("applicationset", name)) => (PREFIX, name),
            _ => ("", key),
        };
        let variable = format!("{prefix}{}", name.to_ascii_uppercase().replace('.', "_"));
        Self { variable, key: key.to_owned() }
    }
}

/// Names of a setting of the ApplicationSet controller, by its key without the beginning.
pub(super) fn sets(key: &str) -> Names {
    format!("{KEY_PREFIX}{key}").as_str().into()
}

/// Reads one setting from wherever it is set.
pub(super) struct Reader<'a> {
    pub environment: &'a dyn Fn(&str) -> Option<String>,
    pub config_map: &'a BTreeMap<String, String>,
    pub warnings: Vec<String>,
    /// The keys of the ConfigMap that were looked up, whether they are set or not.
    pub asked: BTreeSet<String>,
}

impl Reader<'_> {
    /// The flag, else what `parse` makes of the environment, else of the ConfigMap, else the
    /// default.
    pub fn pick<T>(
        &mut self,
        flag: Option<T>,
        names: impl Into<Names>,
        parse: impl Fn(&str) -> Option<T>,
        default: T,
    ) -> T {
        let found = self.find(names);
        if let Some(flag) = flag {
            return flag;
        }
        let Some((place, text)) = found else { return default };
        parse(text.trim()).unwrap_or_else(|| {
            self.warnings
                .push(format!("{place}: \"{text}\" is not understood, the default is used"));
            default
        })
    }

    /// Where a setting is set besides the flag, and its text; an empty one is none.
    pub fn find(&mut self, names: impl Into<Names>) -> Option<(String, String)> {
        let Names { variable, key } = names.into();
        self.asked.insert(key.clone());
        let set = Some(&*variable).filter(|name| !name.is_empty()).and_then(self.environment);
        let found = match set {
            Some(text) => Some((variable, text)),
            None => self.config_map.get(&key).map(|text| (key, text.clone())),
        };
        found.filter(|(_, text)| !text.is_empty())
    }

    pub fn flag(&mut self, flag: Option<bool>, names: impl Into<Names>, into: &mut bool) {
        *into = self.pick(flag, names, yes_or_no, *into);
    }

    pub fn text(&mut self, flag: Option<String>, names: impl Into<Names>, default: &str) -> String {
        self.pick(flag, names, |text| Some(text.to_owned()), default.to_owned())
    }

    /// A number within a range.
    pub fn count<T: FromStr + PartialOrd + Copy>(
        &mut self,
        flag: Option<T>,
        names: impl Into<Names>,
        range: impl RangeBounds<T>,
        into: &mut T,
    ) {
        let parse = |text: &str| text.parse().ok().filter(|count| range.contains(count));
        *into = self.pick(flag, names, parse, *into);
    }

    /// An address; `None` when it is empty or `0`.
    pub fn address(
        &mut self,
        flag: Option<String>,
        names: impl Into<Names>,
        default: &str,
    ) -> Option<String> {
        Some(self.text(flag, names, default)).filter(|addr| !addr.is_empty() && addr != "0")
    }

    pub fn list(&mut self, flag: Option<Vec<String>>, names: impl Into<Names>) -> Vec<String> {
        items(&self.pick(flag, names, split, Vec::new()))
    }
}

/// A duration as people write it, such as `3m`, `1h 30min` or `2 days`, in Go's
/// notation as Argo CD has it, or whole seconds.
pub(super) fn pause(text: &str) -> Result<Duration, String> {
    let read = match text.parse() {
        Ok(seconds) => SignedDuration::from_secs(seconds),
        Err(_) => match duration::parse(text) {
            Ok(read) => read,
            Err(_) => return humantime::parse_duration(text).map_err(|error| error.to_string()),
        },
    };
    Duration::try_from(read).map_err(|_| "it is negative".to_owned())
}

/// A switch of the command line, as Go reads it.
pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("write true or false".to_owned()),
    }
}

pub(super) fn yes_or_no(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

fn split(text: &str) -> Option<Vec<String>> {
    Some(text.split(',').map(str::to_owned).collect())
}

fn items(list: &[String]) -> Vec<String> {
    list.iter().map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect()
}
