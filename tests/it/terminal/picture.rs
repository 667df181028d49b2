//! The picture in README is a screen of the demo.
//!
//! `WAVEGATE_REGENERATE=1 cargo test --test it -- the_picture` makes it anew.

use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;

use crate::support::svg::svg;
use crate::support::terminal::{Screen, Terminal};

/// Columns and rows: what GitHub shows without a scroll bar.
const SIZE: (u16, u16) = (100, 26);
/// Both Applications of a batch must be at the same point at the same time, which a busy
/// machine may miss.
const ATTEMPTS: usize = 10;
const BEGIN: &str = "<!-- Made by the demo: WAVEGATE_REGENERATE=1 cargo test --test it -- the_picture -->\n\n```text\n";
const END: &str = "\n```\n";

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Two Applications of the last step are in flight, in the middle of their syncs.
fn is_wanted(screen: &Screen) -> bool {
    let line = |name: &str, parts: &[&str]| {
        screen.line_with(name).is_some_and(|line| parts.iter().all(|part| line.contains(part)))
    };
    // With the age of the wait; the limit is that of the start, which is over.
    let syncing = ["Progressing  Sync wave 0  Progressing  Deployment web for ", "s (Progr"];
    line("Step 3", &["0/8 done", "2 of 2 in flight", "open"])
        && line("● prod-af-south", &syncing)
        && line("● prod-ap-east", &syncing)
}

/// The text without times, which differ from run to run.
fn timeless(text: &str) -> String {
    let clock = Regex::new(r" +(\d+m )?\d+ ?s\n").unwrap();
    let age = Regex::new(r" for \d+s").unwrap();
    age.replace_all(&clock.replace(text, " TIME\n"), " for TIME").into_owned()
}

/// The wanted screens of a run.
fn screens() -> Vec<Screen> {
    let temporary = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_wavegate"));
    command.arg("demo").env("TMPDIR", temporary.path());
    let terminal = Terminal::run(command, SIZE.0, SIZE.1);
    terminal.ends_with(0);
    terminal.frames().into_iter().filter(is_wanted).collect()
}

#[test]
fn the_picture_in_the_readme_is_a_screen_of_the_demo() {
    let readme = std::fs::read_to_string(file("README.md")).unwrap();
    let (before, rest) = readme.split_once(BEGIN).expect("README has the mark of the picture");
    let (shown, after) = rest.split_once(END).unwrap();
    let regenerates = std::env::var_os("WAVEGATE_REGENERATE").is_some();
    let is_shown = |screen: &Screen| timeless(&screen.text()) == timeless(shown);
    let mut seen: Vec<Screen> = Vec::new();
    for _ in 0..ATTEMPTS {
        seen.extend(screens());
        if seen.iter().any(is_shown) || regenerates && !seen.is_empty() {
            break;
        }
    }
    let found = seen.iter().find(|screen| is_shown(screen)).or(seen.first());
    let mut found = found.expect("a screen in the middle of the last step").clone();
    if regenerates {
        let text = format!("{before}{BEGIN}{}{END}{after}", found.text());
        std::fs::write(file("README.md"), text).unwrap();
        std::fs::write(file("docs/demo.svg"), svg(&found)).unwrap();
        return;
    }
    let remedy = "README shows another screen; WAVEGATE_REGENERATE=1 makes it anew";
    assert_eq!(timeless(shown), timeless(&found.text()), "{remedy}");
    // The colours of this screen, with the times of the picture.
    for (row, line) in shown.lines().enumerate() {
        let mut characters = line.chars();
        for cell in &mut found.cells[row] {
            cell.character = characters.next().unwrap_or(' ');
        }
    }
    let picture = std::fs::read_to_string(file("docs/demo.svg")).unwrap();
    assert!(picture == svg(&found), "docs/demo.svg: {remedy}:\n{}", svg(&found));
}
