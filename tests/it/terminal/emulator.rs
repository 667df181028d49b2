//! The terminal of these tests behaves like one.

use std::process::Command;

use rustix::process::Signal;

use crate::support::terminal::{PROMPT, Terminal};

fn program(script: &str, columns: u16, rows: u16) -> Terminal {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    Terminal::run(command, columns, rows)
}

#[test]
fn it_shows_text_cursor_scrollback_and_exit_code() {
    let script =
        r"for i in 1 2 3 4 5; do echo line $i; done; printf '\033[?25l\033[31mred\033[0m'; exit 3";
    let (code, screen) = program(script, 10, 3).finish();
    assert_eq!(code, 3);
    assert_eq!(screen.text(), "line 4\nline 5\nred");
    assert_eq!(screen.scrollback, ["line 1", "line 2", "line 3"]);
    assert_eq!((screen.cursor, screen.has_cursor), ((3, 2), false));
    assert_eq!(screen.cells[2][0].colour, Some(1));
    let shown = screen.to_string();
    assert!(shown.ends_with("│line 4    │\n│line 5    │\n│red       │\n└──────────┘"), "{shown}");
}

/// As in xterm: without automatic wrapping, the cursor stays on the last character.
#[test]
fn it_erases_the_last_column_after_a_full_line() {
    let (_, screen) = program(r"printf '\033[?7labcd\033[K\r\nabcde\033[K'", 5, 2).finish();
    assert_eq!(screen.text(), "abcd\nabcd");
}

#[test]
fn it_keeps_frames_that_were_overwritten() {
    let end = r"\033[?2026l";
    let terminal = program(&format!("printf 'first{end}\r'; printf 'other{end}'; cat"), 10, 2);
    terminal.until_frame("the second frame", |frame| frame.shows("other"));
    let frames: Vec<String> = terminal.frames().iter().map(|frame| frame.text()).collect();
    assert_eq!(frames, ["first", "other"]);
    terminal.ctrl('d');
    terminal.ends_with(0);
}

#[test]
fn it_resizes_and_sends_signals() {
    let script = "trap 'stty size' WINCH; stty size; while :; do read line; echo got $line; done";
    let terminal = program(script, 20, 4);
    terminal.until_shown("4 20");
    terminal.resize(30, 6);
    terminal.enter("a");
    terminal.until_shown("6 30");
    terminal.enter("b");
    terminal.until_shown("got b");
    assert_eq!(terminal.screen().size, (30, 6));
    terminal.signal(Signal::TERM);
    terminal.ends_with(128 + 15);
}

#[test]
fn a_shell_has_job_control() {
    let shell = Terminal::shell(60, 20, |_| {});
    assert_eq!(shell.command("echo one; echo two"), "one\ntwo");
    assert_eq!(shell.command("false"), "");
    assert_eq!(shell.command("echo $?"), "1");
    shell.enter("cat");
    shell.enter("typed");
    shell.until("the echo", |screen| (screen.occurrences("typed") == 2).then_some(()));
    shell.ctrl('z');
    shell.until_shown("Stopped");
    shell.until("a prompt", |screen| screen.is_at_prompt().then_some(()));
    shell.enter("fg");
    // The terminal is the program's again when it answers, and not before.
    shell.enter("again");
    shell.until("the echo", |screen| (screen.occurrences("again") == 2).then_some(()));
    shell.ctrl('c');
    shell.until("a prompt", |screen| screen.is_at_prompt().then_some(()));
    assert_eq!(shell.command("echo $?"), "130");
    assert!(shell.command("wavegate --version").starts_with("wavegate "));
    assert!(shell.screen().shows(PROMPT.trim_end()));
    shell.enter("exit 7");
    shell.ends_with(7);
}
