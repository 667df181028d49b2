//! Health scripts of the ConfigMap `argocd-cm` (SE-480, SE-484).
//!
//! ```text
//! resource.customizations.health.GROUP_KIND, …useOpenLibs.GROUP_KIND    one script
//! resource.customizations: {GROUP/KIND: {health.lua, health.lua.useOpenLibs}}
//! ```
//!
//! Of the core group, `KIND` alone. Only names of the map can have wildcards, since keys of a
//! ConfigMap have no `*`; `all` stands for `*/*` in a key. A key goes before an entry of the
//! map with the same name.

use std::collections::BTreeMap;

use serde_json::Value;

use super::comparisons::CUSTOMIZATIONS;
use super::reader::switch;
use wavegate_api::yaml;
use wavegate_engine::health::scripts::{Script, Scripts};

/// The keys that are read here, up to the name of a kind.
const HEALTH: &str = "resource.customizations.health.";
const OPEN_LIBS: &str = "resource.customizations.useOpenLibs.";

/// The same in the map.
const HEALTH_OF_MAP: &str = "health.lua";
const OPEN_LIBS_OF_MAP: &str = "health.lua.useOpenLibs";

/// Whether this program was built with what runs scripts.
const RUNS_SCRIPTS: bool = cfg!(feature = "lua");

/// Whether a type of customization in a key takes effect by a script here.
pub(super) fn takes_key(type_: &str) -> bool {
    let types = [HEALTH, OPEN_LIBS].into_iter().filter_map(|key| key.strip_prefix(CUSTOMIZATIONS));
    RUNS_SCRIPTS && types.into_iter().any(|key| key.trim_matches('.') == type_)
}

/// The same of a type in the map.
pub(super) fn takes_entry(type_: &str) -> bool {
    RUNS_SCRIPTS && [HEALTH_OF_MAP, OPEN_LIBS_OF_MAP].contains(&type_)
}

/// What is said about one name.
#[derive(Default)]
struct Said {
    setting: String,
    text: String,
    open_libs: bool,
}

/// The scripts, and what cannot be used, each with its key and the reason.
pub(super) fn read(config_map: &BTreeMap<String, String>) -> (Scripts, Vec<String>) {
    let (mut said, mut problems) = (BTreeMap::new(), Vec::new());
    if !RUNS_SCRIPTS {
        return (Scripts::default(), problems);
    }
    if let Some(map) = config_map.get(CUSTOMIZATIONS) {
        of_map(map, &mut said, &mut problems);
    }
    for (key, text) in config_map {
        of_key(key, text, &mut said, &mut problems);
    }
    let scripts = said.into_iter().filter(|(_, said)| !said.text.trim().is_empty());
    let scripts = scripts.map(|(name, Said { setting, text, open_libs })| {
        (name, Script { setting, text: text.into(), open_libs })
    });
    let (scripts, invalid) = Scripts::new(scripts.collect());
    problems.extend(invalid.into_iter().map(|why| format!("{why}; the script is not used")));
    (scripts, problems)
}

/// The entries of the map. That it cannot be read at all is reported with the other types.
fn of_map(text: &str, said: &mut BTreeMap<String, Said>, problems: &mut Vec<String>) {
    let Ok(Value::Object(entries)) = yaml::parse_value(text) else { return };
    for (name, entry) in entries {
        let setting = format!("{CUSTOMIZATIONS} ({name})");
        let open_libs = match &entry[OPEN_LIBS_OF_MAP] {
            Value::Null => false,
            Value::Bool(value) => *value,
            value => switch(value.as_str().unwrap_or_default()).unwrap_or_else(|_| {
                problems.push(no_switch(&format!("{setting}, {OPEN_LIBS_OF_MAP}"), value));
                false
            }),
        };
        let text = match &entry[HEALTH_OF_MAP] {
            Value::Null => continue,
            Value::String(text) => text.clone(),
            _ => {
                problems.push(format!("{setting}: {HEALTH_OF_MAP} must be a text with a script"));
                continue;
            }
        };
        said.insert(name, Said { setting, text, open_libs });
    }
}

fn of_key(key: &str, text: &str, said: &mut BTreeMap<String, Said>, problems: &mut Vec<String>) {
    let types = [HEALTH, OPEN_LIBS].into_iter();
    let found = types.filter_map(|type_| Some((type_, key.strip_prefix(type_)?))).next();
    let Some((type_, about)) = found else { return };
    let name = match about.split('_').collect::<Vec<_>>()[..] {
        ["all"] => "*/*".to_owned(),
        ["", kind] | [kind] if !kind.is_empty() => kind.to_owned(),
        [group, kind] if !kind.is_empty() => format!("{group}/{kind}"),
        _ => {
            problems.push(format!(
                "{key}: the name must end with GROUP_KIND, or KIND of the core group; it is not used"
            ));
            return;
        }
    };
    let entry = said.entry(name).or_default();
    if type_ == OPEN_LIBS {
        match switch(text.trim()) {
            Ok(value) => entry.open_libs = value,
            Err(_) => problems.push(no_switch(key, &Value::from(text))),
        }
    } else if !text.trim().is_empty() {
        entry.setting = key.to_owned();
        entry.text = text.to_owned();
    }
}

fn no_switch(place: &str, value: &Value) -> String {
    let value: String = value.to_string().chars().take(80).collect();
    format!("{place}: {value} is not a switch; write true or false, it is false until then")
}

#[cfg(all(test, feature = "lua"))]
mod tests {
    use super::*;

    fn read_all(entries: &[(&str, &str)]) -> (Scripts, Vec<String>) {
        let entry = |(key, text): &(&str, &str)| ((*key).to_owned(), (*text).to_owned());
        read(&entries.iter().map(entry).collect())
    }

    /// SE-480, SE-484
    #[test]
    fn scripts_are_read_from_keys_and_from_the_map() {
        let map = "Pod: {health.lua: pod}\n\
                   '*.crossplane.io/*': {health.lua: wild, health.lua.useOpenLibs: true}\n\
                   apps/Deployment: {health.lua: of the map, health.lua.useOpenLibs: true}\n\
                   apps/ReplicaSet: {ignoreDifferences: x}\n";
        let (scripts, problems) = read_all(&[
            ("resource.customizations", map),
            ("resource.customizations.health.apps_Deployment", "of the key"),
            ("resource.customizations.health.cert-manager.io_Certificate", "cert"),
            ("resource.customizations.useOpenLibs.cert-manager.io_Certificate", "true"),
            ("resource.customizations.health.Service", "service"),
            ("resource.customizations.health.empty_Empty", "  \n"),
            ("resource.customizations.ignoreDifferences.all", "x"),
            ("url", "https://x"),
        ]);
        assert_eq!(problems, [""; 0]);
        let found = |group: &str, kind: &str| {
            scripts.of(group, kind).map(|script| (script.text.to_string(), script.open_libs))
        };
        let is = |text: &str, open: bool| Some((text.to_owned(), open));
        assert_eq!(found("", "Pod"), is("pod", false));
        assert_eq!(found("", "Service"), is("service", false));
        assert_eq!(found("s3.crossplane.io", "Bucket"), is("wild", true));
        // As there, the switch of the map goes with a script of a key of the same name.
        assert_eq!(found("apps", "Deployment"), is("of the key", true));
        assert_eq!(found("cert-manager.io", "Certificate"), is("cert", true));
        for (group, kind) in [("apps", "ReplicaSet"), ("empty", "Empty"), ("", "ConfigMap")] {
            assert_eq!(found(group, kind), None, "{kind}");
        }
        let (all, _) = read_all(&[("resource.customizations.health.all", "every")]);
        assert!(all.of("x", "Y").is_some());
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let rows = [
            (("resource.customizations.health.a_b_c", "x"), "GROUP_KIND"),
            (("resource.customizations.health.apps_", "x"), "GROUP_KIND"),
            (("resource.customizations.useOpenLibs.apps_Deployment", "yes"), "not a switch"),
            (("resource.customizations", "Pod: {health.lua: [x]}"), "a text"),
            (
                ("resource.customizations", "Pod: {health.lua: x, health.lua.useOpenLibs: 3}"),
                "not a switch",
            ),
            (("resource.customizations", "'[a/*': {health.lua: x}"), "pattern"),
        ];
        for (entry, want) in rows {
            let (_, problems) = read_all(&[entry]);
            assert_eq!(problems.len(), 1, "{entry:?}");
            assert!(problems[0].contains(want) && problems[0].starts_with(entry.0), "{problems:?}");
        }
        assert_eq!(read_all(&[("resource.customizations", "- [")]).1, [""; 0]);
    }
}
