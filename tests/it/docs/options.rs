//! Commands and options: those of the pages exist, and all that exist are in the reference.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use clap::CommandFactory;
use regex::Regex;
use wavegate::cli::Cli;

use super::markdown::{Page, files};

/// The pages of users.
pub fn pages() -> Vec<Page> {
    let is_for_users = |path: &String| path.starts_with("docs/") || path == "README.md";
    files("md").iter().filter(|path| is_for_users(path)).map(|path| Page::read(path)).collect()
}

/// Options of other programs that the prose of the pages names.
const OF_OTHERS: [(&str, &str); 29] = [
    ("--recursive", "kubectl explain"),
    ("--replicas", "argocd admin cluster"),
    ("--from", "kubectl create job"),
    ("--applications", "cargo bench"),
    ("--application-namespaces", "argocd-application-controller"),
    ("--metrics-port", "argocd-application-controller"),
    ("--path", "cargo install"),
    ("--locked", "cargo"),
    ("--target", "docker build"),
    ("--kubeconfig", "flags of a Go client, which are refused"),
    ("--server", "flags of a Go client, which are refused"),
    ("--token", "flags of a Go client, which are refused"),
    ("--server-side", "kubectl apply"),
    ("--binary", "cargo bench"),
    ("--oldest", "tests/cluster/up"),
    ("--build", "tests/cluster/up"),
    ("--enable-helm", "kustomize build"),
    ("--load-restrictor", "kustomize build"),
    ("--reorder", "kustomize build"),
    ("--enable-managedby-label", "kustomize build"),
    ("--helm-debug", "kustomize build"),
    ("--stack-trace", "kustomize build"),
    ("--enable-alpha-plugins", "kustomize build"),
    ("--enable-exec", "kustomize build"),
    ("--network", "kustomize build"),
    ("--mount", "kustomize build"),
    ("--helm-command", "kustomize build"),
    ("--helm-kube-version", "kustomize build"),
    ("--helm-api-versions", "kustomize build"),
];

static OPTION: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?:^|[^\w-])(--[a-z][a-z0-9-]*[a-z0-9])").unwrap());
static COMMAND: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?:^|[|;&(]|\$) *wavegate ([a-z]+)([^|;&]*)").unwrap());

/// Names of options in a text.
fn options(text: &str) -> BTreeSet<String> {
    OPTION.captures_iter(text).map(|found| found[1].to_owned()).collect()
}

/// The long options of each command, with whether they are shown by its help.
fn commands() -> BTreeMap<String, BTreeMap<String, bool>> {
    let mut all = BTreeMap::new();
    let mut program = Cli::command();
    program.build();
    for command in program.get_subcommands().filter(|command| !command.is_hide_set()) {
        let mut known = BTreeMap::new();
        for argument in command.get_arguments() {
            let names = argument.get_long_and_visible_aliases().unwrap_or_default();
            for name in names {
                known.insert(format!("--{name}"), !argument.is_hide_set());
            }
        }
        all.insert(command.get_name().to_owned(), known);
    }
    all.remove("help");
    all
}

#[test]
fn options_of_the_pages_exist() {
    let commands = commands();
    let exists_anywhere = |option: &str| {
        commands.values().any(|known| known.contains_key(option))
            || OF_OTHERS.iter().any(|(name, _)| *name == option)
    };
    let mut unknown = Vec::new();
    for page in pages() {
        let mut texts = page.inline_code();
        for block in page.blocks().filter(|block| block.is_commands()) {
            texts.extend(block.text.lines().map(|line| (block.line, line.to_owned())));
        }
        let lines_of_blocks: BTreeSet<usize> = page.blocks().map(|block| block.line).collect();
        for (line, text) in texts {
            let place = format!("{}:{line}", page.path);
            for call in COMMAND.captures_iter(&text) {
                match commands.get(&call[1]) {
                    None if &call[1] == "help" => {}
                    None => unknown.push(format!("{place}: command {}", &call[1])),
                    Some(known) => {
                        let wrong = options(&call[2]).into_iter();
                        let wrong = wrong.filter(|option| !known.contains_key(option));
                        unknown
                            .extend(wrong.map(|option| format!("{place}: {} {option}", &call[1])));
                    }
                }
            }
            // In blocks, other programs are called, too.
            if !lines_of_blocks.contains(&line) {
                let wrong = options(&text).into_iter().filter(|option| !exists_anywhere(option));
                unknown.extend(wrong.map(|option| format!("{place}: {option}")));
            }
        }
    }
    assert!(unknown.is_empty(), "these do not exist: {unknown:#?}");
}

#[test]
fn commands_and_options_are_in_the_reference() {
    let page = Page::read("docs/reference/cli.md");
    let configuration = std::fs::read_to_string("docs/reference/configuration.md").unwrap();
    let common = page.section("What holds for all commands").unwrap();
    let whole = std::fs::read_to_string("docs/reference/cli.md").unwrap();
    let mut missing = Vec::new();
    for (command, known) in commands() {
        let row = format!("| [`wavegate {command}`](#{command}) |");
        if !whole.contains(&row) {
            missing.push(format!("a row of the table: {row}"));
        }
        let Some(section) = page.section(&command) else {
            missing.push(format!("a section: ## {command}"));
            continue;
        };
        let mut documented = options(&(section + &common));
        if command == "run" {
            documented.extend(options(&configuration));
        }
        let shown = known.iter().filter(|(_, is_shown)| **is_shown).map(|(option, _)| option);
        let shown = shown.filter(|option| !["--help", "--version"].contains(&option.as_str()));
        let absent = shown.filter(|option| !documented.contains(*option));
        missing.extend(absent.map(|option| format!("wavegate {command} {option}")));
    }
    assert!(missing.is_empty(), "docs/reference lacks: {missing:#?}");
}
