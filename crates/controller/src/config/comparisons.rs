//! Settings of comparisons in the ConfigMap `argocd-cm`: `resource.compareoptions`, and of
//! `resource.customizations` what concerns differences (SE-163, SE-165, SE-168, SE-170, SE-178).
//!
//! What is not understood is a problem of the Applications with objects of these kinds; all else
//! is used. Names of fields are found in any case, as in Argo CD.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::reader::yes_or_no;
use wavegate_api::yaml;
use wavegate_engine::diff::{IgnoredStatus, Jq, KnownField, KnownType, SystemSettings};

/// The map of all customizations, and what the keys of single ones begin with.
pub(super) const CUSTOMIZATIONS: &str = "resource.customizations";
const COMPARE_OPTIONS: &str = "resource.compareoptions";
/// Whether changes that the settings ignore cause no comparison (SE-178).
const IGNORE_UPDATES: &str = "resource.ignoreResourceUpdatesEnabled";

/// The customizations that are read here, by their names in the combined map, and what the keys of
/// their own begin with.
const READ: [(&str, &str); 3] = [
    ("ignoreDifferences", "resource.customizations.ignoreDifferences."),
    ("ignoreResourceUpdates", "resource.customizations.ignoreResourceUpdates."),
    ("knownTypeFields", "resource.customizations.knownTypeFields."),
];

/// Whether a type of customizations is read here.
pub(super) fn is_read(of: &str) -> bool {
    READ.iter().any(|(name, _)| name.eq_ignore_ascii_case(of))
}

/// What the keys of health scripts begin with. They are read elsewhere; here counts which kinds
/// have one.
const HEALTH: &str = "resource.customizations.health.";

/// All kinds, as Argo CD writes it in keys, where `*` is not permitted.
const ALL: &str = "all";

/// Most fields with a known type.
const MAX_FIELDS: usize = 1000;

/// Reads them from the data of the ConfigMap; `jq` checks their expressions.
pub fn read_comparisons(config_map: &BTreeMap<String, String>, jq: &Jq) -> SystemSettings {
    let is_own = |key: &str| {
        key.starts_with(CUSTOMIZATIONS) || key == COMPARE_OPTIONS || key == IGNORE_UPDATES
    };
    let source: BTreeMap<String, String> = config_map
        .iter()
        .filter(|(key, text)| is_own(key) && !text.trim().is_empty())
        .map(|(key, text)| (key.clone(), text.clone()))
        .collect();
    let mut settings =
        SystemSettings { ignores_updates: true, jq: jq.clone(), ..SystemSettings::default() };
    let mut with_differences = true;
    for (key, text) in &source {
        match key.as_str() {
            CUSTOMIZATIONS => combined(text, &mut settings),
            COMPARE_OPTIONS => with_differences = options(text, &mut settings),
            IGNORE_UPDATES => {
                settings.ignores_updates = switch(key, text, true, &mut settings);
            }
            key => single(key, text, &mut settings),
        }
    }
    if with_differences {
        let more = settings.rules.clone();
        settings.update_rules.extend(more);
    }
    settings.source = source;
    settings
}

/// A switch; what is none is reported, and the default is used.
fn switch(key: &str, text: &str, default: bool, settings: &mut SystemSettings) -> bool {
    yes_or_no(text.trim()).unwrap_or_else(|| {
        let message =
            format!("{key}: {text:?} is not a switch; write true or false ({default} is used)");
        settings.problem(("*", "*"), in_config_map(&message), false);
        default
    })
}

fn in_config_map(what: &str) -> String {
    format!("ConfigMap argocd-cm: {what}")
}

/// Group and kind of a key after the type: `GROUP_KIND`, `KIND` of the core group, or `all`.
pub(super) fn kind_of(about: &str) -> (&str, &str) {
    match about.rsplit_once('_') {
        Some(kind) => kind,
        None if about == ALL => ("*", "*"),
        None => ("", about),
    }
}

/// `resource.customizations.TYPE.GROUP_KIND`.
fn single(key: &str, text: &str, settings: &mut SystemSettings) {
    if let Some(about) = key.strip_prefix(HEALTH) {
        let (group, kind) = kind_of(about);
        settings.scripted.push((group.to_owned(), kind.to_owned()));
    }
    for (of, prefix) in READ {
        if let Some(about) = key.strip_prefix(prefix) {
            customization(of, &in_config_map(key), kind_of(about), &parsed(text), settings);
        }
    }
}

/// A map from `group/kind`, or `kind` of the core group, to the customizations by type.
fn combined(text: &str, settings: &mut SystemSettings) {
    let at = in_config_map(CUSTOMIZATIONS);
    let entries = match yaml::parse_value(text) {
        Ok(Value::Object(entries)) => entries,
        Ok(_) => return settings.problem(("*", "*"), format!("{at}: not a map"), true),
        Err(error) => return settings.problem(("*", "*"), format!("{at}: {error}"), true),
    };
    for (about, types) in &entries {
        let kind = about.split_once('/').unwrap_or(("", about));
        let Some(types) = types.as_object() else {
            settings.problem(kind, format!("{at} ({about}): not a map"), true);
            continue;
        };
        if types.contains_key("health.lua") {
            settings.scripted.push((kind.0.to_owned(), kind.1.to_owned()));
        }
        for (of, _) in READ {
            let at = format!("{at} ({about}): {of}");
            let value = types.iter().rfind(|(name, _)| name.eq_ignore_ascii_case(of));
            match value.map(|(_, value)| value) {
                None => {}
                // The rules are a document in the document.
                Some(Value::String(text)) => {
                    customization(of, &at, kind, &parsed(text), settings);
                }
                Some(value) => customization(of, &at, kind, &Ok(value.clone()), settings),
            }
        }
    }
}

fn parsed(text: &str) -> Result<Value, String> {
    yaml::parse_value(text).map_err(|error| error.to_string())
}

/// One customization of some kinds.
fn customization(
    of: &str,
    at: &str,
    kind: (&str, &str),
    value: &Result<Value, String>,
    settings: &mut SystemSettings,
) {
    let is_error = of != "ignoreResourceUpdates";
    let value = match value {
        Ok(Value::Null) => return,
        Ok(value) => value,
        Err(error) => return settings.problem(kind, format!("{at}: {error}"), is_error),
    };
    if of == "knownTypeFields" {
        return known_fields(at, kind, value, settings);
    }
    let Some(places) = value.as_object() else {
        let what = "expected jsonPointers, jqPathExpressions or managedFieldsManagers";
        return settings.problem(kind, format!("{at}: {what}"), is_error);
    };
    let places = known(at, kind, places, PLACES, settings);
    for (field, list) in &places {
        if !list.is_array() && !list.is_null() {
            settings.problem(kind, format!("{at}.{field}: not a list"), is_error);
        }
    }
    match of {
        "ignoreDifferences" => settings.add_ignored(at, kind, &Value::Object(places)),
        _ => settings.add_ignored_updates(at, kind, &Value::Object(places)),
    }
}

/// The fields of rules.
const PLACES: &[&str] = &["jsonPointers", "jqPathExpressions", "managedFieldsManagers"];

/// The known fields of a map. Argo CD finds them in any case and leaves others out, which are
/// named here.
fn known(
    at: &str,
    kind: (&str, &str),
    map: &Map<String, Value>,
    names: &[&str],
    settings: &mut SystemSettings,
) -> Map<String, Value> {
    let mut found = Map::new();
    for (field, value) in map {
        let Some(name) = names.iter().find(|name| name.eq_ignore_ascii_case(field)) else {
            let shown: String = field.chars().take(80).collect();
            let what = format!("unknown field {shown} has no effect; expected one of");
            settings.problem(kind, format!("{at}: {what} {}", names.join(", ")), false);
            continue;
        };
        if found.insert((*name).to_owned(), value.clone()).is_some() {
            let what = format!("{name} is there twice; only the last one is used");
            settings.problem(kind, format!("{at}: {what}"), false);
        }
    }
    found
}

/// A list of fields with their types.
fn known_fields(at: &str, kind: (&str, &str), value: &Value, settings: &mut SystemSettings) {
    let Some(list) = value.as_array() else {
        return settings.problem(kind, format!("{at}: not a list of field and type"), false);
    };
    for (index, entry) in list.iter().enumerate() {
        let at = format!("{at}[{index}]");
        if settings.known_fields.len() >= MAX_FIELDS {
            let message = format!("{at}: more than {MAX_FIELDS} fields; the rest is not used");
            return settings.problem(kind, message, false);
        }
        let entry = entry.as_object().cloned().unwrap_or_default();
        let entry = known(&at, kind, &entry, &["field", "type"], settings);
        let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
        let (field, name) = (text("field"), text("type"));
        if field.split('.').any(str::is_empty) {
            settings.problem(kind, format!("{at}.field: {field:?} is no path of fields"), false);
            continue;
        }
        let Some(of) = KnownType::parse(name) else {
            let what = "expected core/v1/NAME such as core/v1/PodSpec, core/Quantity or \
                        meta/v1/Duration";
            settings.problem(kind, format!("{at}.type: {name:?} is not known; {what}"), false);
            continue;
        };
        let path = field.split('.').map(str::to_owned).collect();
        let (group, kind) = (kind.0.to_owned(), kind.1.to_owned());
        settings.known_fields.push(KnownField { group, kind, path, of });
    }
}

/// Returns whether what `ignoreDifferences` ignores is ignored in changes, too.
fn options(text: &str, settings: &mut SystemSettings) -> bool {
    let at = in_config_map(COMPARE_OPTIONS);
    let options = match yaml::parse_value(text) {
        Ok(Value::Object(options)) => options,
        Ok(_) => {
            settings.problem(("*", "*"), format!("{at}: not a map of options"), false);
            return true;
        }
        Err(error) => {
            settings.problem(("*", "*"), format!("{at}: {error}"), false);
            return true;
        }
    };
    let mut with_differences = true;
    for (option, value) in &options {
        // A switch may be quoted, or not.
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Null => continue,
            value => value.to_string(),
        };
        let key = format!("{COMPARE_OPTIONS}.{option}");
        match option.as_str() {
            "ignoreResourceStatusField" => match text.as_str() {
                "all" | "" => settings.status = IgnoredStatus::All,
                "crd" => settings.status = IgnoredStatus::Definitions,
                "none" | "off" | "false" => settings.status = IgnoredStatus::None,
                _ => {
                    let what = format!("{at}: ignoreResourceStatusField: {text:?} is not known");
                    let what = format!("{what}; write all, crd or none (all is used)");
                    settings.problem(("*", "*"), what, false);
                }
            },
            "ignoreAggregatedRoles" => {
                settings.ignores_aggregated_roles = switch(&key, &text, false, settings);
            }
            "ignoreDifferencesOnResourceUpdates" => {
                with_differences = switch(&key, &text, true, settings);
            }
            _ => settings.problem(("*", "*"), format!("{at}: unknown option {option}"), false),
        }
    }
    with_differences
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(entries: &[(&str, &str)]) -> SystemSettings {
        read_comparisons(
            &entries.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect(),
            &Jq::default(),
        )
    }

    #[test]
    fn the_keys_of_argocd_cm_become_rules_as_se_163_to_se_178() {
        let settings = of(&[
            (
                "resource.compareoptions",
                "ignoreAggregatedRoles: true\nignoreResourceStatusField: crd\n",
            ),
            (
                "resource.customizations.ignoreDifferences.apps_Deployment",
                "JSONPOINTERS: [/spec/replicas]\nmanagedfieldsManagers: [scaler]\n",
            ),
            ("resource.customizations.ignoreDifferences.ConfigMap", "jsonPointers: [/data/a]\n"),
            ("resource.customizations.ignoreDifferences.all", "jqPathExpressions: ['.spec.x']\n"),
            ("resource.customizations.ignoreResourceUpdates.all", "jsonPointers: [/status]\n"),
            (
                "resource.customizations.knownTypeFields.example.com_Game",
                "- {Field: spec.template.spec, TYPE: core/v1/PodSpec}\n",
            ),
            (
                "resource.customizations",
                "'*.aws.com/*':\n  IgnoreDifferences: |\n    jsonPointers: [/spec/arn]\nSecret:\n  health.lua: x\n",
            ),
        ]);
        assert_eq!(settings.problems, []);
        let kinds: Vec<(&str, &str)> =
            settings.rules.iter().map(|rule| (&*rule.group, &*rule.kind)).collect();
        assert_eq!(
            kinds,
            [("*.aws.com", "*"), ("", "ConfigMap"), ("*", "*"), ("apps", "Deployment")]
        );
        assert_eq!(settings.rules[3].managers, ["scaler"]);
        assert_eq!(settings.rules[3].pointers, [["spec", "replicas"]]);
        assert_eq!(settings.update_rules.len(), 5);
        assert_eq!(settings.status, IgnoredStatus::Definitions);
        assert!(settings.ignores_aggregated_roles && settings.ignores_updates);
        assert_eq!(settings.known_fields.len(), 1);

        let options =
            "ignoreDifferencesOnResourceUpdates: false\nignoreResourceStatusField: false\n";
        let settings = of(&[
            ("resource.compareoptions", options),
            ("resource.ignoreResourceUpdatesEnabled", "false"),
            ("resource.customizations.ignoreDifferences.ConfigMap", "jsonPointers: [/data/a]\n"),
        ]);
        assert!(settings.update_rules.is_empty() && !settings.ignores_updates);
        assert_eq!(settings.status, IgnoredStatus::None);
    }

    #[test]
    fn what_is_not_understood_is_a_problem_of_its_kinds() {
        let rules = "resource.customizations.ignoreDifferences.apps_Deployment";
        let updates = "resource.customizations.ignoreResourceUpdates.apps_Deployment";
        let fields = "resource.customizations.knownTypeFields.apps_Deployment";
        let compare = "resource.compareoptions";
        let cases = [
            (rules, "jsonPointers: [spec]", false, "apps", "starts with '/'"),
            (rules, "jsonPointers: [spec/a]", false, "apps", "starts with '/'"),
            (rules, "jsonPointers: ['/a~b']", false, "apps", "written '~0'"),
            (rules, "jsonPointers: [1]", true, "apps", "not a string"),
            (rules, "jqPathExpressions: ['.a |']", true, "apps", "jqPathExpressions[0]"),
            (rules, "jsonPointer: [/a]", false, "apps", "unknown field jsonPointer"),
            (rules, "JSONPointers: /a", true, "apps", "jsonPointers: not a list"),
            (rules, "{JSONPointers: [], jsonPointers: []}", false, "apps", "there twice"),
            (fields, "- {Field: a, Type: core/Quantity, b: c}", false, "apps", "unknown field b"),
            ("resource.customizations", "'{a/B': {ignoreDifferences: {}}", false, "{a", "{a"),
            (rules, "jsonPointers: /a", true, "apps", "not a list"),
            (rules, "- [", true, "apps", ""),
            (rules, "text", true, "apps", "expected jsonPointers"),
            (updates, "jsonPointers: [spec]", false, "apps", "starts with '/'"),
            (fields, "- {field: a, type: core/v1/Podspec}", false, "apps", "core/v1/Podspec"),
            (fields, "- {field: a..b, type: core/Quantity}", false, "apps", "a..b"),
            (fields, "a: b", false, "apps", "not a list"),
            (compare, "ignoreAggregatedRoles: perhaps", false, "*", "perhaps"),
            (compare, "ignoreResourceStatusField: some", false, "*", "all is used"),
            (compare, "ignoreResourceStatus: none", false, "*", "unknown option"),
            (compare, "- 1", false, "*", "not a map"),
            ("resource.customizations", "- 1", true, "*", "not a map"),
            ("resource.customizations", "apps/Deployment: 1", true, "apps", "not a map"),
            ("resource.ignoreResourceUpdatesEnabled", "maybe", false, "*", "maybe"),
        ];
        for (key, text, is_error, group, words) in cases {
            let problems = of(&[(key, text)]).problems;
            assert!(!problems.is_empty(), "{key}: {text}");
            let first = &problems[0];
            assert_eq!((first.is_error, &*first.group), (is_error, group), "{key}: {text}");
            let message = &first.message;
            assert!(message.contains(key) && message.contains(words), "{text}: {message}");
        }
    }

    #[test]
    fn many_rules_are_bounded() {
        let list: Vec<String> =
            (0..5_000).map(|index| format!("{{field: f{index}, type: core/Quantity}}")).collect();
        let key = "resource.customizations.knownTypeFields.a_B";
        let settings = of(&[(key, &format!("[{}]", list.join(",")))]);
        assert_eq!((settings.known_fields.len(), settings.problems.len()), (MAX_FIELDS, 1));
    }
}
