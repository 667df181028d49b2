//! `wavegate completions`: completion scripts for shells, and what they call.
//!
//! A script calls the program with its name in [`VARIABLE`] and the words of the command
//! line. Names are read from the cluster, for a short time only; whatever fails, nothing
//! is printed, since a message would end up in the command line of the user.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

use clap::ArgAction;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::Shells;

use crate::cli::cluster::kubeconfig;
use crate::cli::cluster::{ClusterArgs, ClusterConnection};
use crate::cli::console::error::Error;
use crate::cli::console::output;

/// Holds the name of the shell when a script asks for completions.
const VARIABLE: &str = "_WAVEGATE_COMPLETE";
/// Holds the position of the word that is being written.
const INDEX: &str = "_CLAP_COMPLETE_INDEX";
/// The longest time to wait for names from a cluster.
const TIMEOUT: Duration = Duration::from_millis(350);
/// The most names that are offered.
const MOST: usize = 1000;

/// Print a completion script for a shell
///
/// The script completes commands, options and their values, and the names of
/// ApplicationSets, Applications, namespaces and kube contexts, which it reads from the
/// kubeconfig and the cluster.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  source <(wavegate completions bash)
  wavegate completions zsh > ~/.zfunc/_wavegate
  wavegate completions fish > ~/.config/fish/completions/wavegate.fish")]
pub(in crate::cli) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

/// Runs the command.
pub(in crate::cli) fn run(args: CompletionsArgs) -> anyhow::Result<ExitCode> {
    let name = args.shell.to_string();
    let shells = Shells::builtins();
    let shell = shells.completer(&name);
    let shell = shell.ok_or_else(|| Error::input("cannot complete", &name, "unknown shell"))?;
    let mut script = Vec::new();
    let program = env!("CARGO_PKG_NAME");
    shell.write_registration(VARIABLE, program, program, program, &mut script)?;
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

/// Whether a completion script has called the program; its request about a command line is
/// answered then.
pub(in crate::cli) fn answer(command_line: fn() -> clap::Command) -> bool {
    let Some(shell) = std::env::var_os(VARIABLE) else { return false };
    let words: Vec<OsString> =
        std::env::args_os().skip_while(|word| *word != "--").skip(1).collect();
    let shells = Shells::builtins();
    let shell = shell.to_str().and_then(|name| shells.completer(name));
    if let Some(shell) = shell.filter(|_| !words.is_empty()) {
        silence();
        let mut answer = Vec::new();
        let directory = std::env::current_dir().ok();
        let mut command = with_names(command_line(), &words);
        command.build();
        if shell.write_complete(&mut command, words, directory.as_deref(), &mut answer).is_ok() {
            // A closed pipe is ignored.
            let _ = std::io::stdout().write_all(&answer);
        }
    }
    true
}

/// Programs that give credentials must neither read from the terminal nor write to it.
fn silence() {
    if let Ok(null) = std::fs::File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}

/// What names an argument takes, by the name of its value.
#[derive(Clone, Copy, Debug)]
enum Names {
    /// Of these kinds, each with a prefix.
    Objects(&'static [(&'static str, &'static str)]),
    Namespaces,
    Contexts,
}

impl Names {
    fn of(value_name: &str) -> Option<Self> {
        Some(match value_name {
            "APPSET" => Self::Objects(&[("", "ApplicationSet")]),
            "APP" => Self::Objects(&[("", "Application")]),
            "APP|APPSET" | "APPSET|APP" => {
                Self::Objects(&[("", "Application"), ("", "ApplicationSet")])
            }
            "APP|appset/NAME" => {
                Self::Objects(&[("", "Application"), ("appset/", "ApplicationSet")])
            }
            "NAMESPACE" => Self::Namespaces,
            "CONTEXT" => Self::Contexts,
            _ => return None,
        })
    }
}

/// The command line, with names for the arguments of all commands.
fn with_names(command: clap::Command, words: &[OsString]) -> clap::Command {
    let cluster = ClusterArgs {
        namespace: value_of(words, &["-n", "--namespace"]),
        context: value_of(words, &["--context"]),
    };
    let given = given(words);
    command.mut_subcommands(|command| {
        let (cluster, given) = (cluster.clone(), given.clone());
        command.mut_args(move |arg| {
            let name =
                arg.get_value_names().and_then(<[_]>::first).and_then(|name| Names::of(name));
            let Some(names) = name else { return arg };
            let cluster = cluster.clone();
            // A name is given once.
            let is_list = arg.is_positional() && matches!(arg.get_action(), ArgAction::Append);
            let given = if is_list { given.clone() } else { BTreeSet::new() };
            arg.add(ArgValueCandidates::new(move || candidates(names, &cluster, &given)))
        })
    })
}

/// The arguments of a command line after the command, without the word that is being written
/// and without the values of options.
fn given(words: &[OsString]) -> BTreeSet<String> {
    let current = std::env::var(INDEX).ok().and_then(|index| index.parse().ok());
    given_before(words, current.unwrap_or(words.len().saturating_sub(1)))
}

fn given_before(words: &[OsString], current: usize) -> BTreeSet<String> {
    let words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap_or_default()).collect();
    let is_name = |at: usize| {
        let of_option = words.get(at - 1).is_some_and(|before| before.starts_with('-'));
        at != current && !of_option && !words[at].starts_with('-')
    };
    (2..words.len()).filter(|at| is_name(*at)).map(|at| words[at].to_owned()).collect()
}

/// The value of an option among the words of a command line.
fn value_of(words: &[OsString], options: &[&str]) -> Option<String> {
    let mut words = words.iter().filter_map(|word| word.to_str());
    let mut value = None;
    while let Some(word) = words.next() {
        for option in options {
            if word == *option {
                value = words.next();
            } else if let Some(rest) = word.strip_prefix(option)
                && !rest.is_empty()
            {
                // `--namespace=argocd`, `-n=argocd` and `-nargocd`.
                let is_long = option.starts_with("--");
                value = rest.strip_prefix('=').or(Some(rest).filter(|_| !is_long)).or(value);
            }
        }
    }
    value.filter(|value| !value.is_empty()).map(str::to_owned)
}

fn candidates(
    names: Names,
    cluster: &ClusterArgs,
    given: &BTreeSet<String>,
) -> Vec<CompletionCandidate> {
    let found = match names {
        Names::Contexts => kubeconfig::contexts(),
        Names::Objects(_) | Names::Namespaces => {
            let (send, receive) = mpsc::channel();
            let cluster = cluster.clone();
            // A program that gives credentials blocks its thread.
            std::thread::spawn(move || {
                let _ = send.send(from_cluster(names, &cluster));
            });
            receive.recv_timeout(TIMEOUT).ok().flatten().unwrap_or_default()
        }
    };
    let safe = found.into_iter().filter(|name| is_safe(name) && !given.contains(name));
    safe.take(MOST).map(CompletionCandidate::new).collect()
}

/// Whether a shell takes the name as it is: it is inserted without quotes.
fn is_safe(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._:/@+-".contains(c);
    !name.is_empty() && !name.starts_with('-') && name.chars().all(plain)
}

fn from_cluster(names: Names, args: &ClusterArgs) -> Option<BTreeSet<String>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    runtime.block_on(async {
        let cluster = ClusterConnection::connect(args).await.ok()?;
        let kinds = match names {
            Names::Objects(kinds) => kinds,
            Names::Namespaces => return cluster.namespaces().await,
            Names::Contexts => return None,
        };
        let mut found = BTreeSet::new();
        for namespace in cluster.places() {
            for (prefix, kind) in kinds {
                let names = cluster.names(kind, Some(namespace)).await.into_iter().flatten();
                found.extend(names.map(|(_, name)| format!("{prefix}{name}")));
            }
        }
        Some(found)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_namespace_is_found_among_the_words() {
        let cases = [
            ("wavegate status -n a", Some("a")),
            ("wavegate status -na", Some("a")),
            ("wavegate status --namespace=a --namespace b x", Some("b")),
            ("wavegate status --namespaces=a", None),
            ("wavegate status -n", None),
            ("wavegate status", None),
        ];
        for (line, want) in cases {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(value_of(&words, &["-n", "--namespace"]).as_deref(), want, "{line}");
        }
    }

    #[test]
    fn a_name_that_is_given_is_not_offered_again() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let given = |line: &str, current: usize| {
            given_before(&words(line), current).into_iter().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(given("wavegate sync a b ", 4), "a b");
        assert_eq!(given("wavegate sync a b", 3), "a");
        assert_eq!(given("wavegate sync -n a --wait b ", 6), "");
        assert_eq!(given("wavegate", 0), "");
    }

    #[test]
    fn names_that_a_shell_would_interpret_are_not_offered() {
        for name in ["shop", "team-a.shop", "admin@k8s", "arn:aws:eks:eu:1:cluster/x"] {
            assert!(is_safe(name), "{name}");
        }
        for name in ["", "-n", "a b", "$(id)", "a;b", "`id`", "a\nb", "a'b", "\u{1b}[2J", "*"] {
            assert!(!is_safe(name), "{name:?}");
        }
    }
}
