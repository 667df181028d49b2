//! Settings of the ConfigMap `argocd-cm` about some kinds that have no effect: which
//! Applications they concern follows from the kinds of their objects (SE-480). Those about
//! differences and health have one: see `comparisons` and `health_scripts`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::comparisons::{CUSTOMIZATIONS, is_read, kind_of};
use super::health_scripts;
use wavegate_api::yaml;
use wavegate_application::unsupported::KindSetting;

/// The settings of a ConfigMap, in the order of their keys.
pub(super) fn read(config_map: &BTreeMap<String, String>) -> Vec<KindSetting> {
    let set = config_map.iter().filter(|(_, text)| !text.trim().is_empty());
    set.flat_map(|(key, text)| match key.as_str() {
        CUSTOMIZATIONS => combined(text),
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
    if is_read(of) || health_scripts::takes_key(of) {
        return None;
    }
    let (group, kind) = kind_of(about);
    Some(setting(key, group, kind))
}

/// A map from `group/kind`, or `kind` of the core group, to the customizations.
fn combined(text: &str) -> Vec<KindSetting> {
    let Ok(Value::Object(entries)) = yaml::parse_value(text) else {
        return vec![setting(CUSTOMIZATIONS, "*", "*")];
    };
    let without_effect = |value: &Value| {
        let only = value.as_object().filter(|types| !types.is_empty());
        let takes = |of: &String| is_read(of) || health_scripts::takes_entry(of);
        !only.is_some_and(|types| types.keys().all(takes))
    };
    let entry = |(about, _): (&String, &Value)| {
        let (group, kind) = about.split_once('/').unwrap_or(("", about));
        setting(format!("{CUSTOMIZATIONS} ({about})"), group, kind)
    };
    entries.iter().filter(|(_, value)| without_effect(value)).map(entry).collect()
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
        let core = "resource.customizations.actions.PersistentVolumeClaim";
        assert_eq!(read(core, "x"), [format!("{core} /PersistentVolumeClaim")]);
        let all = "resource.customizations.actions.all";
        assert_eq!(read(all, "x"), [format!("{all} */*")]);
        for of in ["ignoreDifferences", "ignoreResourceUpdates", "knownTypeFields"] {
            assert_eq!(read(&format!("resource.customizations.{of}.all"), "x"), [""; 0]);
        }
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
        for (key, text) in [
            (actions, " "),
            ("resource.exclusions", "[]"),
            ("resource.compareoptions", "a: b"),
            ("url", "https://x"),
        ] {
            assert_eq!(read(key, text), [""; 0], "{key}");
        }
    }
}
