//! Settings of the ConfigMap `argocd-cm` about some kinds that have no effect: which
//! Applications they concern follows from the kinds of their objects (SE-163, SE-165, SE-168,
//! SE-170, SE-178). Health scripts take effect (`health_scripts.rs`).

use std::collections::BTreeMap;

use serde_json::Value;

use super::health_scripts;
use crate::decide::app_state::unsupported::KindSetting;
use crate::yaml;

/// The map of all customizations, and the prefix of the keys of single ones.
pub(super) const CUSTOMIZATIONS: &str = "resource.customizations";
const COMPARE_OPTIONS: &str = "resource.compareoptions";
/// A type of customization: which changes of a resource cause no comparison. It changes no
/// result, and Argo CD installs it for many kinds (SE-178).
const LESS_OFTEN: &str = "ignoreResourceUpdates";
const RBAC: &str = "rbac.authorization.k8s.io";

/// The settings of a ConfigMap, in the order of their keys.
pub(super) fn read(config_map: &BTreeMap<String, String>) -> Vec<KindSetting> {
    let set = config_map.iter().filter(|(_, text)| !text.trim().is_empty());
    set.flat_map(|(key, text)| match key.as_str() {
        CUSTOMIZATIONS => combined(text),
        COMPARE_OPTIONS => compare_options(text),
        key => single(key).into_iter().collect(),
    })
    .collect()
}

fn setting(key: impl Into<String>, group: &str, kind: &str) -> KindSetting {
    KindSetting { key: key.into(), group: group.to_owned(), kind: kind.to_owned() }
}

/// `resource.customizations.TYPE.GROUP_KIND`; of the core group `…TYPE.KIND`, and `…TYPE.all`.
fn single(key: &str) -> Option<KindSetting> {
    let rest = key.strip_prefix(CUSTOMIZATIONS)?.strip_prefix('.')?;
    let (of, about) = rest.split_once('.')?;
    if of == LESS_OFTEN || health_scripts::takes_key(of) {
        return None;
    }
    Some(match about.rsplit_once('_') {
        Some((group, kind)) => setting(key, group, kind),
        None if about == "all" => setting(key, "*", "*"),
        None => setting(key, "", about),
    })
}

/// A map from `group/kind`, or `kind` of the core group, to the customizations.
fn combined(text: &str) -> Vec<KindSetting> {
    let Ok(Value::Object(entries)) = yaml::value(text) else {
        return vec![setting(CUSTOMIZATIONS, "*", "*")];
    };
    let without_effect = |value: &Value| {
        let only = value.as_object().filter(|types| !types.is_empty());
        let takes = |of: &String| of == LESS_OFTEN || health_scripts::takes_entry(of);
        !only.is_some_and(|types| types.keys().all(takes))
    };
    let entry = |(about, _): (&String, &Value)| {
        let (group, kind) = about.split_once('/').unwrap_or(("", about));
        setting(format!("{CUSTOMIZATIONS} ({about})"), group, kind)
    };
    entries.iter().filter(|(_, value)| without_effect(value)).map(entry).collect()
}

fn as_text(switch: bool) -> &'static str {
    if switch { "true" } else { "false" }
}

/// The options that differ from what is done anyway.
fn compare_options(text: &str) -> Vec<KindSetting> {
    let Ok(Value::Object(options)) = yaml::value(text) else {
        return vec![setting(COMPARE_OPTIONS, "*", "*")];
    };
    let mut settings = Vec::new();
    for (option, value) in &options {
        let key = format!("{COMPARE_OPTIONS} ({option})");
        let is = |word: &str| match value {
            Value::Bool(switch) => as_text(*switch) == word,
            value => value == word,
        };
        match option.as_str() {
            "ignoreResourceStatusField" if is("crd") => {
                settings.push(setting(key, "*", "*"));
            }
            "ignoreResourceStatusField" if is("none") || is("off") || is("false") => {
                settings.push(setting(key, "*", "*"));
            }
            "ignoreAggregatedRoles" if is("true") => {
                settings.extend(["Role", "ClusterRole"].map(|kind| setting(&*key, RBAC, kind)));
            }
            // Any other value is the default, and this one changes no result.
            "ignoreResourceStatusField"
            | "ignoreAggregatedRoles"
            | "ignoreDifferencesOnResourceUpdates" => {}
            _ => settings.push(setting(key, "*", "*")),
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kinds_of_a_setting_are_read_from_its_key() {
        let read = |key: &str, text: &str| {
            let found = read(&[(key.to_owned(), text.to_owned())].into());
            let shown = |one: KindSetting| format!("{} {}/{}", one.key, one.group, one.kind);
            found.into_iter().map(shown).collect::<Vec<_>>()
        };
        let actions = "resource.customizations.actions.cert-manager.io_Certificate";
        assert_eq!(read(actions, "{}"), [format!("{actions} cert-manager.io/Certificate")]);
        let core = "resource.customizations.ignoreDifferences.PersistentVolumeClaim";
        assert_eq!(read(core, "x"), [format!("{core} /PersistentVolumeClaim")]);
        let all = "resource.customizations.ignoreDifferences.all";
        assert_eq!(read(all, "x"), [format!("{all} */*")]);
        let map = "'*.aws.com/*': {}\nSecret: {}\n";
        let want = [
            "resource.customizations (*.aws.com/*) *.aws.com/*",
            "resource.customizations (Secret) /Secret",
        ];
        assert_eq!(read("resource.customizations", map), want);
        let map = "Secret:\n  ignoreResourceUpdates: {}\nPod:\n  ignoreResourceUpdates: {}\n  actions: x\n";
        assert_eq!(read("resource.customizations", map), ["resource.customizations (Pod) /Pod"]);
        assert_eq!(read("resource.customizations", "- ["), ["resource.customizations */*"]);
        // Of the map, the words are others.
        let map = "Pod: {health: x, useOpenLibs: true}";
        assert_eq!(read("resource.customizations", map), ["resource.customizations (Pod) /Pod"]);
        // These take effect.
        #[cfg(feature = "lua")]
        for (key, text) in [
            ("resource.customizations", "Pod: {health.lua: x, health.lua.useOpenLibs: true}"),
            ("resource.customizations.health.Pod", "return {}"),
            ("resource.customizations.useOpenLibs.Pod", "true"),
        ] {
            assert_eq!(read(key, text), [""; 0], "{key}");
        }
        let options = |text: &str| read("resource.compareoptions", text);
        assert_eq!(options("ignoreResourceStatusField: all"), [""; 0]);
        let key = "resource.compareoptions (ignoreResourceStatusField)";
        assert_eq!(options("ignoreResourceStatusField: none"), [format!("{key} */*")]);
        assert_eq!(options("ignoreResourceStatusField: off"), [format!("{key} */*")]);
        assert_eq!(options("ignoreAggregatedRoles: true").len(), 2);
        for (key, text) in [(actions, " "), ("resource.exclusions", "[]"), ("url", "https://x")] {
            assert_eq!(read(key, text), [""; 0], "{key}");
        }
    }
}
