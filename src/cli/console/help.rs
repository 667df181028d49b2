//! The help of the program: commands in groups, and examples where arguments are missing.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use clap::Command;
use clap::error::ErrorKind;

/// Commands in the order in which a new user needs them. A command that is not listed comes
/// last.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Try it", &["demo"]),
    ("Before a rollout, from files", &["plan", "simulate", "render", "order", "health", "diff"]),
    ("In a cluster", &["dashboard", "status", "explain", "tree", "sync", "refresh", "terminate"]),
    (
        "Steer",
        &[
            "pause", "resume", "approve", "abort", "rollback", "retry", "skip", "wait", "history",
            "policies",
        ],
    ),
    ("Install", &["run", "doctor", "crds", "completions"]),
];

/// The command line, with grouped commands in its help.
pub(in crate::cli) fn command(command: Command) -> Command {
    let template = format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{}Options:\n{{options}}{{after-help}}",
        groups(&command)
    );
    command.help_template(template)
}

fn groups(command: &Command) -> String {
    let shown: Vec<&Command> = command.get_subcommands().filter(|one| !one.is_hide_set()).collect();
    let width = shown.iter().map(|one| one.get_name().len()).max().unwrap_or(0);
    let listed: BTreeSet<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
    let others: Vec<&str> =
        (shown.iter().map(|one| one.get_name())).filter(|name| !listed.contains(name)).collect();
    let mut out = String::new();
    for (title, names) in GROUPS.into_iter().chain([("Other commands", others.as_slice())]) {
        let find = |name: &&str| shown.iter().find(|one| one.get_name() == *name);
        let commands: Vec<&&Command> = names.iter().filter_map(find).collect();
        if commands.is_empty() {
            continue;
        }
        let _ = writeln!(out, "{title}:");
        for one in commands {
            let about = one.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(out, "  {:width$}  {about}", one.get_name());
        }
        out.push('\n');
    }
    out
}

/// The examples of the command whose arguments are missing or wrong; empty for other errors.
pub(in crate::cli) fn examples(
    command: &Command,
    error: &clap::Error,
    args: impl IntoIterator<Item = String>,
) -> String {
    if error.kind() != ErrorKind::MissingRequiredArgument {
        return String::new();
    }
    let named = args.into_iter().skip(1).find_map(|arg| command.find_subcommand(&arg));
    let examples = named.and_then(Command::get_after_help).map(ToString::to_string);
    examples.map(|examples| format!("\n{examples}\n")).unwrap_or_default()
}
