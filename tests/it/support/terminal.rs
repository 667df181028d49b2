//! Programs on a terminal: a pseudo-terminal, and an emulator that interprets what they
//! print.
//!
//! [`Terminal::run`] runs one program, [`Terminal::shell`] an interactive shell, which
//! is required for job control (Ctrl-Z, `fg`) and for scripts of several commands.
//! Tests send keys and wait for what the screen shows:
//!
//! ```ignore
//! let terminal = Terminal::shell(80, 24, |command| { command.current_dir(folder); });
//! terminal.enter("wavegate demo");
//! terminal.until_shown("Rollout complete");
//! assert_eq!(terminal.command("echo $?"), "0");
//! ```

use std::fmt;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use avt::{Color, Pen, ScreenKind};
use parking_lot::{Condvar, Mutex};
use pty_process::Size;
use pty_process::blocking::{Pty, open};
use rustix::process::{Pid, Signal, kill_process};

/// Time limit of every wait, also on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(180);
/// Most frames that are kept.
const FRAMES: usize = 4096;
/// What a program prints before it draws a frame: the begin of a synchronized update.
const FRAME_BEGIN: &str = "\u{1b}[?2026h";
/// How long the rest of a frame may take.
const REST_OF_FRAME: Duration = Duration::from_secs(1);
/// What a program prints after it has drawn a frame: the end of a synchronized update.
const FRAME_END: &str = "\u{1b}[?2026l";
/// Prompt of [`Terminal::shell`]; it occurs in no output.
pub const PROMPT: &str = "(ready) ";

/// A program on a terminal. Dropping it ends the program.
pub struct Terminal {
    pty: Arc<Pty>,
    child: Mutex<Child>,
    id: u32,
    emulator: Arc<Shared>,
    reading: Option<JoinHandle<()>>,
}

/// State of the emulator, and the notification of changes.
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    terminal: avt::Terminal,
    /// Everything that was printed.
    raw: String,
    frames: Vec<Screen>,
    /// A frame has begun, and not ended yet.
    is_drawing: bool,
    /// No program holds the terminal any more.
    closed: bool,
}

/// What a terminal shows at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Screen {
    /// Columns and rows.
    pub size: (usize, usize),
    /// The visible rows from the top, without blanks at their ends.
    pub lines: Vec<String>,
    /// The rows that were scrolled out of the main screen, oldest first.
    pub scrollback: Vec<String>,
    /// Column and row of the cursor, from 0; it may be hidden.
    pub cursor: (usize, usize),
    /// Whether the cursor is visible.
    pub has_cursor: bool,
    /// Whether the alternate screen is shown, which has no scrollback.
    pub is_alternate: bool,
    /// The visible cells, row by row.
    pub cells: Vec<Vec<Cell>>,
}

/// One character of a screen and its style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    pub character: char,
    /// Number of columns: 0 for the second half of a wide character.
    pub width: usize,
    /// Number of the colour, from 0 to 255; `None` for the default.
    pub colour: Option<u8>,
    pub is_bold: bool,
    pub is_dim: bool,
}

impl Terminal {
    /// Runs a program on a terminal with this number of columns and rows. It is the leader
    /// of a session, so that Ctrl-C reaches it; like any program without a parent in its
    /// session, it cannot be stopped with Ctrl-Z.
    pub fn run(mut command: Command, columns: u16, rows: u16) -> Self {
        command.env("TERM", "xterm-256color");
        for name in ["COLUMNS", "LINES", "NO_COLOR", "RUST_LOG", "KUBERNETES_SERVICE_HOST"] {
            command.env_remove(name);
        }
        Self::start(command, columns, rows)
    }

    /// Runs an interactive shell with [`PROMPT`], without the user's configuration; the
    /// program under test is on its path. `configure` may set variables and a directory.
    pub fn shell(columns: u16, rows: u16, configure: impl FnOnce(&mut Command)) -> Self {
        let program = std::path::Path::new(env!("CARGO_BIN_EXE_wavegate"));
        let mut path = program.parent().unwrap().as_os_str().to_owned();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        // What runs the tests in the background may have them ignore Ctrl-C, which jobs of the
        // shell would inherit.
        let mut command = Command::new("env");
        command.args(["--default-signal=INT,QUIT", "bash"]);
        command.args(["--norc", "--noprofile", "--noediting", "-i"]);
        command.env("PATH", path).env("PS1", PROMPT).env("PS2", "").env("HISTFILE", "/dev/null");
        command.env("KUBECONFIG", "/nonexistent").env("BASH_SILENCE_DEPRECATION_WARNING", "1");
        configure(&mut command);
        let terminal = Self::run(command, columns, rows);
        terminal.until_shown(PROMPT.trim_end());
        terminal
    }

    /// Like [`Terminal::run`], with the environment as it is.
    pub fn start(command: Command, columns: u16, rows: u16) -> Self {
        let (pty, child_end) = open().unwrap();
        pty.resize(Size::new(rows, columns)).unwrap();
        let child = pty_process::blocking::Command::from(command).spawn(child_end).unwrap();
        let terminal = avt::Terminal::with_scrollback(columns.into(), rows.into(), None).unwrap();
        let state = State {
            terminal,
            raw: String::new(),
            frames: Vec::new(),
            is_drawing: false,
            closed: false,
        };
        let emulator = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let pty = Arc::new(pty);
        let reading = std::thread::spawn({
            let (pty, emulator) = (pty.clone(), emulator.clone());
            move || read(&pty, &emulator)
        });
        let id = child.id();
        Self { pty, child: Mutex::new(child), id, emulator, reading: Some(reading) }
    }

    /// Sends keys, such as `q` or a control character.
    pub fn send(&self, keys: &str) {
        (&*self.pty).write_all(keys.as_bytes()).unwrap();
    }

    /// Sends Ctrl and a letter.
    pub fn ctrl(&self, letter: char) {
        self.send(&char::from(u8::try_from(letter).unwrap() & 0x1f).to_string());
    }

    /// Sends a line and Enter.
    pub fn enter(&self, line: &str) {
        self.send(&format!("{line}\r"));
    }

    /// Sends a command to a shell and waits for its next prompt. Returns what the command
    /// printed to the main screen, as far as it is still there, in lines without blanks at
    /// their ends.
    pub fn command(&self, line: &str) -> String {
        let before = self.prompts();
        self.enter(line);
        self.until(&format!("the end of {line}"), |screen| {
            (screen.prompts() > before && screen.is_at_prompt()).then_some(())
        });
        let all = self.screen().history();
        let last = all.rfind(PROMPT.trim_end()).unwrap_or_default();
        let start = all[..last].rfind(PROMPT.trim_end()).unwrap_or_default();
        let printed = all[start..last].split_once('\n').map_or("", |(_, printed)| printed);
        printed.trim_end().to_owned()
    }

    fn prompts(&self) -> usize {
        self.screen().prompts()
    }

    /// Changes the size of the window, of which the program is notified.
    pub fn resize(&self, columns: u16, rows: u16) {
        let mut state = self.emulator.state.lock();
        state.terminal.resize(columns.into(), rows.into());
        self.pty.resize(Size::new(rows, columns)).unwrap();
    }

    /// Sends a signal to the program.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.id).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Process ID of the program.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// What the terminal shows now, which may be a frame that is drawn in part.
    pub fn screen(&self) -> Screen {
        Screen::of(&self.emulator.state.lock().terminal)
    }

    /// All completely drawn frames so far.
    pub fn frames(&self) -> Vec<Screen> {
        self.emulator.state.lock().frames.clone()
    }

    /// Everything that was printed, with its control sequences.
    pub fn raw(&self) -> String {
        self.emulator.state.lock().raw.clone()
    }

    /// Waits until the screen meets a condition, and returns its result.
    #[track_caller]
    pub fn until<T>(&self, what: &str, condition: impl Fn(&Screen) -> Option<T>) -> T {
        let until = Instant::now() + LIMIT;
        let mut state = self.emulator.state.lock();
        loop {
            // The rest of a frame follows at once, unless the program was stopped in it.
            if state.is_drawing && !state.closed {
                self.emulator.changed.wait_for(&mut state, REST_OF_FRAME);
            }
            let screen = Screen::of(&state.terminal);
            if let Some(found) = condition(&screen) {
                return found;
            }
            assert!(!state.closed, "the program ended before {what}:\n{screen}");
            let late = self.emulator.changed.wait_until(&mut state, until).timed_out();
            assert!(!late, "no {what} within {LIMIT:?}:\n{}", Screen::of(&state.terminal));
        }
    }

    /// Waits until one of the visible lines contains a text.
    #[track_caller]
    pub fn until_shown(&self, text: &str) -> Screen {
        self.until(&format!("{text:?}"), |screen| screen.shows(text).then(|| screen.clone()))
    }

    /// Waits for a frame that meets a condition, also one that was overwritten since.
    #[track_caller]
    pub fn until_frame(&self, what: &str, condition: impl Fn(&Screen) -> bool) -> Screen {
        let mut checked = 0;
        let until = Instant::now() + LIMIT;
        let mut state = self.emulator.state.lock();
        loop {
            let new = &state.frames[checked..];
            if let Some(found) = new.iter().find(|frame| condition(frame)) {
                return found.clone();
            }
            checked = state.frames.len();
            let screen = Screen::of(&state.terminal);
            assert!(!state.closed, "the program ended before {what}:\n{screen}");
            let late = self.emulator.changed.wait_until(&mut state, until).timed_out();
            assert!(!late, "no {what} within {LIMIT:?}:\n{screen}");
        }
    }

    /// Waits for the end of the program. Returns its exit code, 128 and the number of
    /// a signal that ended it, and the last screen.
    #[track_caller]
    pub fn finish(&self) -> (i32, Screen) {
        let until = Instant::now() + LIMIT;
        let mut state = self.emulator.state.lock();
        while !state.closed {
            let late = self.emulator.changed.wait_until(&mut state, until).timed_out();
            assert!(!late, "it has not ended:\n{}", Screen::of(&state.terminal));
        }
        let screen = Screen::of(&state.terminal);
        drop(state);
        (code(self.child.lock().wait().unwrap()), screen)
    }

    /// Like [`Terminal::finish`], with this exit code. A failure shows the last output as it
    /// was printed: what a program says while it draws is on no later screen.
    #[track_caller]
    pub fn ends_with(&self, code: i32) -> Screen {
        let (ended, last) = self.finish();
        assert_eq!(ended, code, "{last}\n{}", last_lines(&self.raw()));
        last
    }
}

/// The last lines of an output, with its control sequences escaped.
fn last_lines(raw: &str) -> String {
    let lines: Vec<&str> = raw.trim_end().lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n").escape_default().to_string()
}

/// As shells report it.
fn code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap()
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // They may have ended already. The jobs of a shell are in its session.
        let mut child = self.child.lock();
        let _ = child.kill();
        let _ = child.wait();
        if std::thread::panicking() {
            return;
        }
        if let Some(reading) = self.reading.take()
            && self.emulator.state.lock().closed
        {
            let _ = reading.join();
        }
    }
}

/// Feeds the emulator until the terminal is closed.
fn read(mut pty: &Pty, emulator: &Shared) {
    let mut bytes = [0; 4096];
    let mut pending = Vec::new();
    // Reading fails when the last program has closed the terminal.
    while let Ok(size @ 1..) = pty.read(&mut bytes) {
        pending.extend_from_slice(&bytes[..size]);
        let complete = match std::str::from_utf8(&pending) {
            Ok(_) => pending.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => pending.len(),
        };
        let text = String::from_utf8_lossy(&pending[..complete]).into_owned();
        pending.drain(..complete);
        emulator.state.lock().feed(&text);
        emulator.changed.notify_all();
    }
    emulator.state.lock().closed = true;
    emulator.changed.notify_all();
}

impl State {
    fn feed(&mut self, text: &str) {
        let before = self.raw.len();
        self.raw.push_str(text);
        // The end of a frame may be split between two reads.
        let mut from = before.saturating_sub(FRAME_END.len() - 1);
        while !self.raw.is_char_boundary(from) {
            from -= 1;
        }
        let mut fed = before;
        while let Some(at) = self.raw[from..].find(FRAME_END) {
            let end = from + at + FRAME_END.len();
            if end > before {
                self.terminal.feed(&self.raw[fed..end]);
                fed = end;
                if self.frames.len() < FRAMES {
                    self.frames.push(Screen::of(&self.terminal));
                }
            }
            (from, self.is_drawing) = (end, false);
        }
        self.is_drawing |= self.raw[from..].contains(FRAME_BEGIN);
        self.terminal.feed(&self.raw[fed..]);
    }
}

impl Screen {
    fn of(terminal: &avt::Terminal) -> Self {
        let cursor = terminal.cursor();
        let main = terminal.primary_screen();
        let (rows, all) = (main.visible_lines().len(), main.all_lines().count());
        let text = |line: &avt::Line| line.text().trim_end().to_owned();
        let cells = |line: &avt::Line| line.cells().iter().map(Cell::of).collect();
        Self {
            size: terminal.size(),
            lines: terminal.screen().visible_lines().map(text).collect(),
            scrollback: main.all_lines().take(all - rows).map(text).collect(),
            cursor: (cursor.col, cursor.row),
            has_cursor: cursor.visible,
            is_alternate: terminal.active_screen_kind() == ScreenKind::Alternate,
            cells: terminal.screen().visible_lines().map(cells).collect(),
        }
    }

    /// Whether a visible line contains a text.
    pub fn shows(&self, text: &str) -> bool {
        self.lines.iter().any(|line| line.contains(text))
    }

    /// The first visible line that contains a text.
    pub fn line_with(&self, text: &str) -> Option<&str> {
        self.lines.iter().map(String::as_str).find(|line| line.contains(text))
    }

    /// The visible lines, without empty ones at the end.
    pub fn text(&self) -> String {
        let mut text = self.lines.join("\n");
        text.truncate(text.trim_end().len());
        text
    }

    /// The scrollback and the visible lines; wrapped lines are not joined.
    pub fn history(&self) -> String {
        let mut lines = self.scrollback.clone();
        lines.extend(self.lines.iter().cloned());
        lines.join("\n")
    }

    /// How often a text occurs in the scrollback and the visible lines.
    pub fn occurrences(&self, text: &str) -> usize {
        self.history().matches(text).count()
    }

    fn prompts(&self) -> usize {
        self.occurrences(PROMPT.trim_end())
    }

    /// Whether a shell waits for a command.
    pub fn is_at_prompt(&self) -> bool {
        let (column, row) = self.cursor;
        column == PROMPT.len() && self.lines.get(row).is_some_and(|line| line == PROMPT.trim_end())
    }
}

/// The screen in a frame, as in the message of a failed test.
impl fmt::Display for Screen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let edge = "─".repeat(self.size.0);
        let kind = if self.is_alternate { ", alternate screen" } else { "" };
        let cursor = if self.has_cursor { "visible" } else { "hidden" };
        let (columns, rows) = self.size;
        writeln!(
            f,
            "{columns}x{rows}{kind}, cursor {:?} {cursor}, {} lines of scrollback",
            self.cursor,
            self.scrollback.len()
        )?;
        writeln!(f, "┌{edge}┐")?;
        for row in &self.cells {
            let line: String =
                row.iter().filter(|cell| cell.width > 0).map(|cell| cell.character).collect();
            writeln!(f, "│{line}│")?;
        }
        write!(f, "└{edge}┘")
    }
}

impl Cell {
    fn of(cell: &avt::Cell) -> Self {
        let pen: &Pen = cell.pen();
        let colour = match pen.foreground() {
            Some(Color::Indexed(number)) => Some(number),
            Some(Color::RGB(_)) | None => None,
        };
        Self {
            character: cell.char(),
            width: cell.width().into(),
            colour,
            is_bold: pen.is_bold(),
            is_dim: pen.is_faint(),
        }
    }
}
