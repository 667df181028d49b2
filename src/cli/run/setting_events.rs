//! Events of the ConfigMaps of the control plane: which of their keys are not understood, and
//! which have no effect. The log says the same; whoever edits a ConfigMap looks at it.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::ApiResource;

use crate::cli::files::fields::data_of;
use wavegate_cluster::act::events::{EventRecord, Recorder};
use wavegate_cluster::watch::failure;
use wavegate_cluster::watch::object::{StoredObject, kind_api};
use wavegate_controller::config::CONFIG_MAPS;
use wavegate_net::clock::Clock;

/// Who writes these Events.
const COMPONENT: &str = "wavegate";

/// Reasons of Events.
const NOT_UNDERSTOOD: &str = "SettingNotUnderstood";
const WITHOUT_EFFECT: &str = "SettingWithoutEffect";

/// Most bytes of the text of an Event, of which the API server accepts 1,024.
const TEXT: usize = 900;

/// What is said about settings, each line beginning with the name of its setting.
#[derive(Debug)]
pub(super) struct Problems {
    /// Settings whose value or name is not understood.
    pub not_understood: Vec<String>,
    /// Settings that are known and have no effect.
    pub without_effect: Vec<String>,
}

/// Writes an Event for each kind of problem about each ConfigMap, unless the same one exists:
/// one for each change, however often the process starts.
pub(super) async fn write(client: &Client, namespace: &str, problems: Problems) {
    let Problems { not_understood, without_effect } = &problems;
    if not_understood.is_empty() && without_effect.is_empty() {
        return;
    }
    let resource = ApiResource::erase::<ConfigMap>(&());
    let recorder = Recorder::new(client.clone(), Clock::system());
    let events = recorder.events(COMPONENT, resource.clone(), true);
    let maps = kind_api(client, Some(namespace), &resource);
    // Of a key in both, the first one counts.
    let mut seen = BTreeSet::new();
    for name in CONFIG_MAPS {
        let map: StoredObject = match maps.get_opt(name).await {
            Ok(Some(map)) => map,
            Ok(None) => continue,
            Err(error) => {
                let error = failure::error_reason(&error);
                tracing::debug!(error, "no Event about ConfigMap {namespace}/{name}");
                continue;
            }
        };
        let keys = data_of(&map.parse()).into_keys();
        let keys: BTreeSet<String> = keys.filter(|key| !seen.contains(key)).collect();
        for (reason, lines) in [(NOT_UNDERSTOOD, not_understood), (WITHOUT_EFFECT, without_effect)]
        {
            let Some(text) = text(&about(&keys, lines)) else { continue };
            let once = format!("{reason}/{text}");
            let record = EventRecord::new(true, reason, "ReadSettings", text);
            events.publish_once(&map, record, &once).await;
        }
        seen.extend(keys);
    }
}

/// The lines about some keys.
fn about<'a>(keys: &BTreeSet<String>, lines: &'a [String]) -> Vec<&'a str> {
    let name = |line: &'a str| line.split([' ', ':']).next().unwrap_or_default();
    let lines = lines.iter().map(String::as_str);
    lines.filter(|line| keys.contains(name(line))).collect()
}

/// Lines as one text of limited size, which says how many there are besides.
fn text(lines: &[&str]) -> Option<String> {
    let mut text = String::new();
    let mut left = lines.len();
    for line in lines {
        let separator = if text.is_empty() { "" } else { "; " };
        if text.len() + separator.len() + line.len() > TEXT {
            break;
        }
        text.push_str(separator);
        text.push_str(line);
        left -= 1;
    }
    match (left, text.is_empty()) {
        (0, true) => None,
        (0, false) => Some(text),
        // Even the first one is too long.
        (left, true) => Some(format!("settings with long names: {left}; the log names them")),
        (left, false) => Some(format!("{text}; and {left} more, which the log names")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_belong_to_the_map_with_their_key() {
        let keys = BTreeSet::from(["a.b".to_owned(), "long".to_owned()]);
        let lines = ["a.b is accepted", "a.b: no number", "a.b.c is accepted", "A_B is accepted"];
        let lines = lines.map(str::to_owned);
        assert_eq!(about(&keys, &lines), ["a.b is accepted", "a.b: no number"]);
    }

    #[test]
    fn a_text_is_of_limited_size_and_says_what_is_left_out() {
        assert_eq!(text(&[]), None);
        assert_eq!(text(&["one", "two"]).unwrap(), "one; two");
        let long = "x".repeat(500);
        let two = text(&[&long, &long, "three"]).unwrap();
        assert!(two.ends_with("x; and 2 more, which the log names"), "{two}");
        assert!(two.len() <= 1024, "{}", two.len());
        let longest = "x".repeat(1000);
        assert_eq!(text(&[&longest]).unwrap(), "settings with long names: 1; the log names them");
    }
}
