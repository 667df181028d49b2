//! `deploy/k9s/plugins.yaml`: what k9s reads, and what the program accepts.

use std::collections::BTreeSet;

use clap::CommandFactory;
use serde_json::Value;
use wavegate::cli::Cli;

use super::markdown::root;

/// The fields that k9s knows, without those that ask for more than a selected object; it refuses a
/// file with others.
const FIELDS: [&str; 8] =
    ["shortCut", "description", "scopes", "command", "background", "confirm", "dangerous", "args"];

/// Keys that k9s has on lists of any kind.
const TAKEN: [&str; 6] = ["Shift-A", "Shift-J", "Shift-N", "Shift-O", "Shift-P", "Shift-S"];

/// The words of `wavegate` in the text of a shell, with the arguments after it in place of `"$@"`.
fn call(text: &str, arguments: &[&str]) -> Vec<String> {
    let end = text.find(['|', ';']).unwrap_or(text.len());
    let words = text[..end].split_whitespace().filter(|word| *word != "2>&1");
    let mut call = Vec::new();
    for word in words {
        if word == "\"$@\"" {
            call.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        } else {
            call.push(word.to_owned());
        }
    }
    call
}

/// What k9s puts in place of an argument.
fn selected(argument: &str) -> &str {
    match argument {
        "$NAME" => "shop",
        "$NAMESPACE" => "argocd",
        "$CONTEXT" => "production",
        other => other,
    }
}

#[test]
fn the_plugins_of_k9s_call_commands_that_exist() {
    let text = std::fs::read_to_string(root().join("deploy/k9s/plugins.yaml")).unwrap();
    let file = wavegate_api::yaml::parse_value(&text).unwrap();
    let plugins = file["plugins"].as_object().unwrap();
    let mut keys = BTreeSet::new();
    let mut commands = BTreeSet::new();
    for (name, plugin) in plugins {
        let fields = plugin.as_object().unwrap();
        assert!(fields.keys().all(|field| FIELDS.contains(&&**field)), "{name}: {fields:?}");
        let key = plugin["shortCut"].as_str().unwrap();
        assert!(!TAKEN.contains(&key) && keys.insert(key), "{name}: {key} is taken");
        assert_eq!(plugin["scopes"], serde_json::json!(["applicationsets"]), "{name}");
        assert_eq!(plugin["command"], "sh", "{name}");
        let args: Vec<&str> =
            plugin["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let [option, text, zero, arguments @ ..] = &*args else { panic!("{name}: {args:?}") };
        assert_eq!((*option, *zero), ("-c", "wavegate"), "{name}");
        // k9s puts its own values in place of a `$` with letters or digits, and versions of it
        // refuse those that it does not know.
        assert_eq!(text.matches('$').count(), text.matches("\"$@\"").count(), "{name}: {text}");
        let arguments: Vec<&str> = arguments.iter().map(|argument| selected(argument)).collect();
        assert!(!arguments.iter().any(|one| one.starts_with('$')), "{name}: {arguments:?}");

        let words = call(text, &arguments);
        let command = words.get(1).cloned().unwrap_or_default();
        if let Err(error) = Cli::command().try_get_matches_from(&words) {
            panic!("{name}: {words:?}: {error}");
        }
        let reads = ["explain", "history"].contains(&&*command);
        assert_eq!(
            plugin["dangerous"] == true,
            !reads,
            "{name}: k9s shows it where it is read-only"
        );
        commands.insert(command);
    }
    let want = ["approve", "explain", "history", "pause", "resume", "rollback"];
    assert_eq!(commands.iter().map(String::as_str).collect::<Vec<_>>(), want);
}
