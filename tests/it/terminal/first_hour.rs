//! The first hour of a newcomer, as a script on a terminal: the demo, its failures, an own
//! set, `kubectl` on its API server, and a rollout on a real API server.
//!
//! What is typed here is what README and the documents advise.

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::support::cluster as servers;
use crate::support::kubectl;
use crate::support::terminal::{PROMPT, Screen, Terminal};

/// The repository, where a newcomer types.
const FOLDER: &str = env!("CARGO_MANIFEST_DIR");

/// The windows of a newcomer.
struct Desk {
    size: (u16, u16),
    /// For temporary files, so that what is left behind can be found.
    temporary: tempfile::TempDir,
    /// For files that the newcomer writes.
    home: tempfile::TempDir,
}

impl Desk {
    fn new(size: (u16, u16)) -> Self {
        let folder = || tempfile::tempdir().unwrap();
        Self { size, temporary: folder(), home: folder() }
    }

    /// Opens a window with a shell.
    fn window(&self, kubeconfig: &Path) -> Terminal {
        let (columns, rows) = self.size;
        Terminal::shell(columns, rows, |command| {
            command.current_dir(FOLDER).env("HOME", self.home.path());
            command.env("TMPDIR", self.temporary.path()).env("KUBECONFIG", kubeconfig);
        })
    }

    /// Checks that no program has left a temporary file.
    fn assert_clean(&self) {
        let left = std::fs::read_dir(self.temporary.path()).unwrap();
        let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        assert!(left.is_empty(), "left behind: {left:?}");
    }
}

impl Terminal {
    /// Runs a command in a shell; it must end with this exit code. Returns its output.
    #[track_caller]
    fn must(&self, code: i32, line: &str) -> String {
        let output = self.command("clear");
        assert_eq!(output, "");
        let output = self.command(line);
        let ended = self.command("echo $?");
        assert_eq!(ended, code.to_string(), "{line}:\n{output}");
        output
    }
}

/// Waits until a program draws a screen with this text.
#[track_caller]
fn drawn(window: &Terminal, text: &str) {
    window.until(&format!("a screen with {text:?}"), |screen| {
        (screen.is_alternate && screen.shows(text)).then_some(())
    });
}

/// Waits for the prompt after a program that draws a screen, and checks what is left of it:
/// a visible cursor and one frame with this title. Returns what it has printed.
#[track_caller]
fn after_screen(window: &Terminal, title: &str) -> String {
    let screen = window.until("the prompt", |screen| {
        let is_over = screen.is_at_prompt() && screen.has_cursor && !screen.is_alternate;
        is_over.then(|| screen.clone())
    });
    let history = unwrapped(&screen);
    let prompt = PROMPT.trim_end();
    let last = history.rfind(prompt).unwrap_or_default();
    let start = history[..last].rfind(prompt).unwrap_or_default();
    let printed = &history[start..last];
    assert_eq!(printed.matches(title).count(), 1, "one frame is left:\n{printed}");
    printed.to_owned()
}

/// The demo, Ctrl-C, a failure, an own set, and `kubectl`: no cluster is needed.
fn without_a_cluster(size: (u16, u16)) {
    let desk = Desk::new(size);
    let window = desk.window(Path::new("/nonexistent/kubeconfig"));

    window.enter("wavegate demo");
    drawn(&window, "Step 1  env = dev");
    let printed = after_screen(&window, "Wavegate  ApplicationSet shop");
    assert!(printed.contains("Rollout complete after"), "{printed}");
    assert_eq!(window.command("echo $?"), "0");

    window.command("clear");
    window.enter("wavegate demo");
    drawn(&window, "Step 2  env = qa");
    window.ctrl('c');
    let printed = after_screen(&window, "Wavegate  ApplicationSet shop");
    assert!(printed.contains("Rollout not complete"), "{printed}");
    assert_eq!(window.command("echo $?"), "130");
    desk.assert_clean();

    window.command("clear");
    window.enter("wavegate demo --fail dev-us");
    drawn(&window, "Step 1");
    let printed = after_screen(&window, "Wavegate  ApplicationSet shop");
    assert!(printed.contains("Deployment shop-dev-us/web"), "it names the resource:\n{printed}");
    assert_eq!(window.command("echo $?"), "1");
    desk.assert_clean();

    let plan = window.must(0, "wavegate plan -f examples/regions.yaml");
    assert!(plan.replace('\n', "").contains("storefront-staging-eu-west"), "{plan}");
    served(&desk);
    desk.assert_clean();
}

/// The text of a screen with wrapped lines joined.
fn unwrapped(screen: &Screen) -> String {
    let columns = screen.size.0;
    let mut text = String::new();
    for line in screen.history().lines() {
        text.push_str(line);
        if line.chars().count() < columns {
            text.push('\n');
        }
    }
    text
}

/// A demo that fails and is served, in one window; what is done about it in another.
fn served(desk: &Desk) {
    let demo = desk.window(Path::new("/nonexistent/kubeconfig"));
    demo.enter("wavegate demo --listen 127.0.0.1:0 --fail dev-us --plain");
    let kubeconfig = demo.until("the kubeconfig", |screen| {
        let text = unwrapped(screen);
        let line = text.lines().find_map(|line| line.strip_prefix("export KUBECONFIG="))?;
        line.ends_with("kubeconfig").then(|| PathBuf::from(line))
    });
    demo.until_shown("Stopped in step 1");

    let window = desk.window(&kubeconfig);
    let explained = window.must(0, "wavegate explain shop");
    let first = explained.replace('\n', "");
    assert!(first.contains("dev-us") && first.contains("Deployment"), "{explained}");
    window.must(1, "wavegate status shop --watch --timeout 60s");
    let tree = window.must(0, "wavegate tree dev-eu");
    assert!(tree.contains("ReplicaSet") && tree.contains("Pod"), "{tree}");
    window.must(0, "wavegate diff dev-eu");
    everyday_commands(&window);

    // As `explain` advises; the workloads still fail.
    window.must(1, "wavegate sync dev-us");
    demo.ctrl('c');
    demo.until("the prompt", |screen| screen.is_at_prompt().then_some(()));
}

/// `kubectl` as on a cluster, in a namespace of its own.
fn everyday_commands(window: &Terminal) {
    if !kubectl::is_installed() {
        return;
    }
    let own = |name: &str| format!("kubectl config set-context --current --namespace={name}");
    window.must(0, "kubectl create namespace play");
    window.must(0, &own("play"));
    for line in kubectl::commands() {
        let is_error =
            line.prints.iter().any(|one| one.starts_with("error") || one.starts_with("*exec"));
        let begun = Instant::now();
        loop {
            let command = format!("{}; code=$?; echo; echo exit $code", line.command);
            let output = window.command(&command);
            let is_success = output.lines().last() == Some("exit 0");
            if is_success != is_error {
                break;
            }
            let again = kubectl::is_read(line.command) && begun.elapsed() < kubectl::LIMIT;
            assert!(again, "{}:\n{output}", line.command);
        }
    }
    window.must(0, &own("argocd"));
}

/// Installs on a real API server, rolls out there, syncs manually, rolls out a second commit.
fn on_a_cluster(size: (u16, u16), namespace: &str, set: &str, kubeconfig: &Path) {
    let desk = Desk::new(size);
    let controller = desk.window(kubeconfig);
    let window = desk.window(kubeconfig);

    // docs/install.md, from your machine.
    controller.must(0, "wavegate crds | kubectl apply --server-side -f -");
    controller.must(0, &format!("kubectl create namespace {namespace}"));
    let project = format!("sed s/argocd/{namespace}/ deploy/project.yaml | kubectl apply -f -");
    controller.must(0, &project);
    let run = "wavegate run --enable-progressive-syncs --logformat text --allow-local-sources";
    let addresses = "--probe-addr= --metrics-addr= --webhook-addr=";
    controller.enter(&format!("clear; {run} {addresses} --namespace {namespace}"));

    // An own set, made from an example, and an own repository.
    window.must(0, "git config --global user.name me");
    window.must(0, "git config --global user.email me@example.invalid");
    window.must(0, "git init --quiet ~/repository");
    window.must(0, "cp -r examples/manifests/web ~/repository/web");
    window.must(0, "git -C ~/repository add --all");
    window.must(0, "git -C ~/repository commit --quiet -m one");
    let edits = [
        "s#https://github.com/argoproj/argocd-example-apps.git#$HOME/repository#",
        "s#path: guestbook#path: web#",
        &format!("s#namespace: argocd#namespace: {namespace}#"),
        &format!("s#storefront#{set}#"),
    ]
    .map(|edit| format!("-e \"{edit}\""));
    window.must(0, &format!("sed {} examples/regions.yaml > ~/set.yaml", edits.join(" ")));
    let plan = window.must(0, "wavegate plan -f ~/set.yaml");
    assert!(plan.contains("50%"), "{plan}");
    window.must(0, "kubectl apply -f ~/set.yaml");

    watched(&window, namespace, set);
    let one = format!("{set}-staging-eu-west");
    let named = format!("-n {namespace}");
    let tree = window.must(0, &format!("wavegate tree {one} {named}"));
    assert!(tree.contains("Pod"), "{tree}");
    window.must(0, &format!("wavegate diff {one} {named}"));

    window.must(0, &format!("wavegate sync {one} {named}"));

    // A second commit: what it changes, and its rollout.
    window.must(0, "sed -i s/nginx:1.28/nginx:1.29/ ~/repository/web/web.yaml");
    window.must(0, "git -C ~/repository commit --quiet -am two");
    let diff = window.must(1, &format!("wavegate diff {one} {named}"));
    assert!(diff.contains("nginx:1.29"), "{diff}");
    window.must(0, &format!("wavegate refresh {one} {named}"));
    watched(&window, namespace, set);
    let explained = window.must(0, &format!("wavegate explain {set} {named}"));
    assert!(explained.contains("not waiting"), "{explained}");

    window.must(0, &format!("kubectl delete applicationset {set} {named} --cascade=foreground"));
    controller.ctrl('c');
    // The terminal shows ^C in front of the prompt.
    controller.until("the prompt", |screen| {
        let line = screen.lines.get(screen.cursor.1)?;
        line.ends_with(PROMPT.trim_end()).then_some(())
    });
    // The prompt behind ^C could be taken for the one after the next command: it is cleared.
    controller.enter(r"code=$?; printf '\033[H\033[2J'; (exit $code)");
    let at_top = |screen: &Screen| (screen.cursor.1 == 0 && screen.is_at_prompt()).then_some(());
    controller.until("a prompt at the top", at_top);
    assert_eq!(controller.command("echo $?"), "0");
    // The namespaces that CreateNamespace made stay, as the documents say.
    let left = format!("kubectl get namespaces -o name | grep -e {set}- -e {namespace}");
    window.must(0, &format!("{left} | xargs kubectl delete --wait=false"));
}

/// Watches a rollout to its end.
fn watched(window: &Terminal, namespace: &str, set: &str) {
    window.command("clear");
    window.enter(&format!("wavegate status {set} -n {namespace} --watch --timeout 5m"));
    drawn(window, "Step 3");
    let printed = after_screen(window, &format!("ApplicationSet {set}"));
    assert_eq!(window.command("echo $?"), "0", "{printed}");
}

/// Sizes of windows: a terminal of old, and a large one.
const SIZES: [(u16, u16); 2] = [(80, 24), (120, 40)];

mod embedded {
    use super::*;

    #[test]
    fn the_first_hour_in_80_columns() {
        without_a_cluster(SIZES[0]);
    }

    #[test]
    fn the_first_hour_in_120_columns() {
        without_a_cluster(SIZES[1]);
    }
}

mod cluster {
    use super::*;

    /// One after the other, since both start controllers of the same cluster.
    #[test]
    fn the_first_rollout_in_80_and_in_120_columns() {
        let Some(kubeconfig) = servers::prepared_cluster("the first hour") else { return };
        if !kubectl::is_installed() {
            return;
        }
        for (size, set) in SIZES.into_iter().zip(["storefront", "boutique"]) {
            on_a_cluster(size, &format!("hour-{}", servers::random()), set, &kubeconfig);
        }
    }
}
