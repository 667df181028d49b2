//! Runs the commands of each page, in its order, as one session.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use kube_sim::{Server, workloads};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::markdown::{Block, Mark, Page, Part, files};
use super::output;
use super::session::Session;
use crate::support::World;
use crate::support::cluster::KUBECONFIG;

/// Why a block of commands is not run, and how many there are. One that can be run is
/// tested; so the reasons are few.
const REASONS: [(&str, usize); 7] = [
    ("builds the program", 2),
    ("needs a container engine", 3),
    ("needs a published release", 3),
    ("needs a second cluster", 1),
    ("needs helm", 3),
    ("takes hours", 4),
    ("writes files", 1),
];

/// How long a `retry` may take.
const LIMIT: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_millis(200);

/// The pages with commands that run, and those that run on a real API server, too.
macro_rules! pages {
    ($($name:ident: $path:literal),* $(,)?) => {
        const PAGES: &[&str] = &[$($path),*];

        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let cluster = Cluster::embedded().await;
                cluster.run($path).await;
            }
        )*
    };
}

pages! {
    readme: "README.md",
    install: "docs/install.md",
    first_hour: "docs/first-hour.md",
    operations: "docs/operations.md",
    command_line: "docs/reference/cli.md",
    simulate: "docs/simulate.md",
    policies: "docs/steering.md",
    policies_with_kubectl: "docs/steering-kubectl.md",
}

mod cluster {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn install() {
        // Its Pods become ready, too.
        let Some(world) = World::cluster("pages-install").await else { return };
        let kubeconfig = PathBuf::from(std::env::var_os(KUBECONFIG).unwrap());
        let cluster = Cluster { kubeconfig, is_shared: true, _files: None, _stop: None };
        cluster.run("docs/install.md").await;
        world.finish().await;
    }
}

/// Where a page runs: what its reader's kubeconfig leads to.
pub(super) struct Cluster {
    pub kubeconfig: PathBuf,
    is_shared: bool,
    _files: Option<TempDir>,
    _stop: Option<DropGuard>,
}

impl Cluster {
    /// A new and empty one.
    pub async fn embedded() -> Self {
        let server = Server::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let files = tempfile::tempdir().unwrap();
        let kubeconfig = files.path().join("config");
        std::fs::write(&kubeconfig, server.kubeconfig(listener.local_addr().unwrap())).unwrap();
        let stop = CancellationToken::new();
        let workloads = server.client_as("workloads");
        tokio::spawn(workloads::run(
            workloads,
            workloads::WorkloadOptions::default(),
            stop.clone(),
        ));
        let until = stop.clone();
        tokio::spawn(async move { server.serve(listener, until).await });
        Self { kubeconfig, is_shared: false, _files: Some(files), _stop: Some(stop.drop_guard()) }
    }

    /// Runs a page; without kubectl only with a message.
    async fn run(self, path: &'static str) {
        if !crate::support::kubectl::is_installed() {
            return;
        }
        let page = Page::read(path);
        tokio::task::spawn_blocking(move || {
            let mut session = Session::start(&self.kubeconfig);
            let mut level = 0;
            for part in &page.parts {
                match part {
                    Part::Heading { level: next, .. } => {
                        session.end_section(*next);
                        level = *next;
                    }
                    Part::Block(block) if block.is_commands() => {
                        self.run_block(path, &mut session, block, level);
                    }
                    Part::Block(_) | Part::Prose { .. } => {}
                }
            }
            session.end_section(0);
        })
        .await
        .unwrap();
    }

    fn run_block(&self, path: &str, session: &mut Session, block: &Block, level: usize) {
        let text_of = |wanted: fn(&Mark) -> Option<&String>| {
            block.marks.iter().find_map(wanted).map(String::as_str)
        };
        let not_shared = text_of(|mark| match mark {
            Mark::NotShared(reason) => Some(reason),
            _ => None,
        });
        if block.not_run().is_some() || (self.is_shared && not_shared.is_some()) {
            return;
        }
        let place = format!("{path}:{}", block.line);
        let given = text_of(|mark| match mark {
            Mark::Given(command) => Some(command),
            _ => None,
        });
        if let Some(command) = given {
            let (code, printed) = session.run(command);
            assert_eq!(code, 0, "{place}: {command}\n{printed}");
        }
        let until = text_of(|mark| match mark {
            Mark::Until(text) => Some(text),
            _ => None,
        });
        if let Some(until) = until {
            let printed = session.start_job(&block.commands()[0].0, until, level);
            let paste = text_of(|mark| match mark {
                Mark::Paste(prefix) => Some(prefix),
                _ => None,
            });
            if let Some(prefix) = paste {
                let line = printed.lines().find(|line| line.starts_with(prefix));
                let line = line.unwrap_or_else(|| panic!("{place}: no {prefix} in:\n{printed}"));
                assert_eq!(session.run(line).0, 0, "{place}: {line}");
            }
            return;
        }
        let exit = block.marks.iter().find_map(|mark| match mark {
            Mark::ExitCode(code) => Some(*code),
            _ => None,
        });
        let commands = block.commands();
        let last = commands.len().saturating_sub(1);
        let begun = Instant::now();
        for (index, (command, shown)) in commands.into_iter().enumerate() {
            let want = if index == last { exit.unwrap_or(0) } else { 0 };
            loop {
                let (code, printed) = session.run(&command);
                let is_shown = shown.as_deref().is_none_or(|text| output::matches(text, &printed));
                if code == want && is_shown {
                    break;
                }
                // On a busy machine the API server may not have answered after two seconds.
                let is_short = command.contains("--timeout 2s");
                let is_retried = is_short || block.marks.contains(&Mark::Retry);
                let again = is_retried && begun.elapsed() < LIMIT;
                assert!(
                    again,
                    "{place}: exit code {code}, want {want}\n$ {command}{printed}\n-- the page shows --\n{}",
                    shown.as_deref().unwrap_or("(no output)")
                );
                std::thread::sleep(PAUSE);
            }
        }
    }
}

#[test]
fn each_page_with_commands_is_run() {
    for path in files("md") {
        let page = Page::read(&path);
        let runs = |block: &Block| block.is_commands() && block.not_run().is_none();
        let is_listed = PAGES.contains(&path.as_str());
        assert_eq!(page.blocks().any(runs), is_listed, "{path} must be listed here, or not");
    }
}

#[test]
fn blocks_that_are_not_run_have_a_known_reason() {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for path in files("md") {
        for block in Page::read(&path).blocks() {
            let place = format!("{path}:{}", block.line);
            let known = ["sh", "console", "yaml", "json", "text", "promql", "dockerfile"];
            // The README of a library is compiled with it: its Rust is a test of its own.
            let is_doctest = block.language == "rust" && path.starts_with("crates/");
            assert!(
                is_doctest || known.contains(&block.language.as_str()),
                "{place}: language {}",
                block.language
            );
            if let Some(reason) = block.not_run() {
                assert!(block.is_commands(), "{place}: this block has no commands");
                *counts.entry(reason.to_owned()).or_default() += 1;
            }
        }
    }
    let want = REASONS.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect();
    assert_eq!(counts, want, "every reason is listed in REASONS, with its number of blocks");
}
