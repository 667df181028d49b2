//! The help: groups, defaults, and what is missing.

use super::*;

#[test]
fn the_help_of_run_has_groups_and_the_documented_defaults() {
    let long = wavegate(&["run", "--help"]);
    let short = wavegate(&["run", "-h"]);
    assert_eq!((long.code, short.code), (0, 0));
    for group in ["Rollout", "ApplicationSets", "Sync engine", "Sources", "Cluster access"]
        .into_iter()
        .chain(["Leader election", "Observability", "Webhooks", "Compatibility"])
    {
        assert!(long.out.contains(&format!("\n{group}:\n")), "{group}: {}", long.out);
    }
    assert!(short.out.lines().count() * 2 < long.out.lines().count(), "{}", short.out);
    // Each flag with its default as in the documentation.
    let text = std::fs::read_to_string(repository("docs/reference/configuration.md")).unwrap();
    let joined = long.out.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut flags = 0;
    for row in text.lines().filter(|line| line.starts_with("| `--")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, flag, _, _, default, ..] = cells.as_slice() else { continue };
        let flag = flag.trim_matches('`').split(',').next().unwrap();
        let places = [format!("{flag} <"), format!("{flag} [<")].map(|entry| joined.find(&entry));
        let Some(from) = places.into_iter().flatten().min() else { continue };
        let rest = &joined[from..];
        let entry = rest.find("[default: ").map(|at| &rest[at..]).unwrap();
        let want = format!("[default: {default}]");
        assert!(entry.starts_with(&want), "{flag}: {want}: {}", &entry[..60]);
        flags += 1;
    }
    assert!(flags > 40, "{flags}");
}

#[test]
fn commands_are_grouped_and_all_listed() {
    let help = wavegate(&["--help"]);
    assert_eq!(help.code, 0);
    for group in ["Try it:", "Before a rollout, from files:", "In a cluster:", "Steer:", "Install:"]
    {
        assert!(help.out.contains(group), "{group}: {}", help.out);
    }
    assert!(help.out.lines().all(|line| line.chars().count() <= 100), "{}", help.out);
    assert!(!help.out.contains("Other commands:\n  demo"), "{}", help.out);
    let (before, after) = help.out.split_once("In a cluster:").unwrap();
    assert!(before.contains("\n  simulate "), "{}", help.out);
    assert!(!after.contains("\n  simulate "), "{}", help.out);
}

#[test]
fn missing_arguments_are_named_with_examples() {
    let cases: [(&[&str], &[&str]); 6] = [
        (&["plan"], &["--filename <FILE>", "wavegate plan -f appset.yaml", "wavegate plan --live"]),
        (&["plan", "set.yaml"], &["--filename <FILE>", "wavegate plan -f appset.yaml"]),
        (&["render"], &["--filename <FILE>", "wavegate render --live APPSET"]),
        (&["order"], &["--filename", "wavegate order -f manifests/"]),
        (&["health"], &["--filename", "| wavegate health -f -"]),
        (&["explain"], &["<APPSET|APP>", "wavegate explain APPSET"]),
    ];
    for (args, parts) in cases {
        wavegate(args).fails(2, parts);
    }
    wavegate(&["plan", "--live"]).fails(2, &["name the ApplicationSet to read from the cluster"]);
    wavegate(&["statsu"]).fails(2, &["a similar subcommand exists: 'status'"]);
    wavegate(&["status", "--contxt", "x"]).fails(2, &["--context"]);
    wavegate(&["explain", "a\u{1b}[2J", "b"]).fails(2, &["unexpected argument"]);
}
