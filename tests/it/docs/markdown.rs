//! Reads the parts of a Markdown page that can be checked.

use std::path::{Path, PathBuf};

/// What a comment directly above a block says about running it, as
/// `<!-- NAME: TEXT -->`. Readers do not see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// `not run: REASON`. Only reasons of `pages::REASONS`.
    NotRun(String),
    /// `not run on a shared cluster: REASON`.
    NotShared(String),
    /// `exit code: N`, of the last command that fails.
    ExitCode(i32),
    /// `until: TEXT`. The command runs on. The page continues when the text is printed, and
    /// the command is interrupted at the end of the section.
    Until(String),
    /// `paste: PREFIX`. The first line of the output with this prefix is run, too.
    Paste(String),
    /// `given: COMMAND`. Runs first, and makes what the reader is supposed to have.
    Given(String),
    /// `retry`. The reader repeats the commands until the output is the one shown.
    Retry,
}

impl Mark {
    fn read(comment: &str) -> Option<Self> {
        let (name, text) = comment.split_once(':').unwrap_or((comment, ""));
        let text = text.trim().to_owned();
        match name.trim() {
            "not run" if !text.is_empty() => Some(Self::NotRun(text)),
            "not run on a shared cluster" if !text.is_empty() => Some(Self::NotShared(text)),
            "exit code" => text.parse().ok().map(Self::ExitCode),
            "until" if !text.is_empty() => Some(Self::Until(text)),
            "paste" if !text.is_empty() => Some(Self::Paste(text)),
            "given" if !text.is_empty() => Some(Self::Given(text)),
            "retry" => Some(Self::Retry),
            _ => None,
        }
    }
}

/// A fenced block.
#[derive(Clone, Debug)]
pub struct Block {
    /// Of the fence, from 1.
    pub line: usize,
    pub language: String,
    /// Without the indentation of the fence.
    pub text: String,
    pub marks: Vec<Mark>,
}

impl Block {
    /// Whether it contains commands.
    pub fn is_commands(&self) -> bool {
        matches!(self.language.as_str(), "sh" | "console")
    }

    /// Why it is not run.
    pub fn not_run(&self) -> Option<&str> {
        self.marks.iter().find_map(|mark| match mark {
            Mark::NotRun(reason) => Some(reason.as_str()),
            _ => None,
        })
    }

    /// Its commands, each with the output that follows it; a block of language `sh` is one
    /// command without output.
    pub fn commands(&self) -> Vec<(String, Option<String>)> {
        if self.language == "sh" {
            return vec![(self.text.clone(), None)];
        }
        let mut commands: Vec<(String, Option<String>)> = Vec::new();
        let mut continues = false;
        for line in self.text.lines() {
            match (line.strip_prefix("$ "), commands.last_mut()) {
                (Some(command), _) => {
                    commands.push((format!("{command}\n"), Some(String::new())));
                    continues = command.ends_with('\\');
                }
                (None, Some((command, _))) if continues => {
                    *command += &format!("{line}\n");
                    continues = line.ends_with('\\');
                }
                (None, Some((_, Some(output)))) => *output += &format!("{line}\n"),
                (None, _) => panic!("line {}: a console block starts with `$ `", self.line),
            }
        }
        commands
    }
}

/// Something of a page, in its order.
#[derive(Clone, Debug)]
pub enum Part {
    Heading {
        level: usize,
        text: String,
    },
    Block(Block),
    /// A line of prose; comments are removed.
    Prose {
        line: usize,
        text: String,
    },
}

/// A Markdown file of the repository.
#[derive(Clone, Debug)]
pub struct Page {
    /// Relative to the repository.
    pub path: String,
    pub parts: Vec<Part>,
}

impl Page {
    /// Reads a page; panics at a comment above a block that is no [`Mark`].
    pub fn read(path: &str) -> Self {
        let text = std::fs::read_to_string(root().join(path))
            .unwrap_or_else(|error| panic!("{path}: {error}"));
        Self::parse(path, &text)
    }

    fn parse(path: &str, text: &str) -> Self {
        let mut parts = Vec::new();
        let mut comments: Vec<(usize, String)> = Vec::new();
        let mut lines = text.lines().enumerate();
        while let Some((index, line)) = lines.next() {
            let number = index + 1;
            let trimmed = line.trim_start();
            let comment = trimmed.strip_prefix("<!--").and_then(|rest| rest.strip_suffix("-->"));
            if let Some(comment) = comment {
                comments.push((number, comment.trim().to_owned()));
                continue;
            }
            if let Some(language) = trimmed.strip_prefix("```") {
                let indent = line.len() - trimmed.len();
                let mut text = String::new();
                loop {
                    let Some((_, line)) = lines.next() else {
                        panic!("{path}:{number}: the block does not end")
                    };
                    if line.trim() == "```" {
                        break;
                    }
                    text += line.get(indent..).unwrap_or_default();
                    text.push('\n');
                }
                let marks = comments.drain(..).map(|(line, comment)| {
                    Mark::read(&comment).unwrap_or_else(|| {
                        panic!("{path}:{line}: unknown mark of a block: {comment}")
                    })
                });
                let marks = marks.collect();
                let language = language.trim().to_owned();
                parts.push(Part::Block(Block { line: number, language, text, marks }));
                continue;
            }
            comments.clear();
            let level = line.chars().take_while(|c| *c == '#').count();
            match line.get(level..).and_then(|rest| rest.strip_prefix(' ')) {
                Some(text) if level > 0 => {
                    parts.push(Part::Heading { level, text: text.trim().to_owned() });
                }
                _ => parts.push(Part::Prose { line: number, text: line.to_owned() }),
            }
        }
        Self { path: path.to_owned(), parts }
    }

    pub fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.parts.iter().filter_map(|part| match part {
            Part::Block(block) => Some(block),
            _ => None,
        })
    }

    /// Text in backticks, with its line; also in headings of tables, not in blocks.
    pub fn inline_code(&self) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        for part in &self.parts {
            if let Part::Prose { line, text } = part {
                let pieces = text.split('`').skip(1).step_by(2);
                found.extend(pieces.map(|piece| (*line, piece.to_owned())));
            }
        }
        found
    }

    /// The text of prose and blocks of a section, by the text of its heading.
    pub fn section(&self, heading: &str) -> Option<String> {
        let mut parts = self.parts.iter();
        let level = parts.by_ref().find_map(|part| match part {
            Part::Heading { level, text } if text == heading => Some(*level),
            _ => None,
        })?;
        let inside = parts.take_while(
            |part| !matches!(part, Part::Heading { level: other, .. } if *other <= level),
        );
        Some(inside.fold(String::new(), |text, part| match part {
            Part::Prose { text: line, .. } => text + line + "\n",
            Part::Block(block) => text + &block.text,
            Part::Heading { .. } => text,
        }))
    }
}

/// The repository.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// All files of the repository with an extension, relative to it, sorted.
pub fn files(extension: &str) -> Vec<String> {
    fn visit(folder: &Path, extension: &str, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_symlink() {
                continue;
            }
            if path.is_dir() {
                if !is_skipped(&path) {
                    visit(&path, extension, found);
                }
            } else if path.extension().is_some_and(|found| found == extension) {
                let relative = path.strip_prefix(root()).unwrap();
                found.push(relative.to_str().unwrap().to_owned());
            }
        }
    }
    let mut found = Vec::new();
    visit(&root(), extension, &mut found);
    found.sort();
    found
}

/// Whether a directory is no part of what a clone has.
pub fn is_skipped(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default();
    (name == "target" || name == ".git") && folder.parent() == Some(&root())
}

#[test]
fn blocks_have_marks_commands_and_output() {
    let text = "# A\n\n<!-- until: x: y -->\n<!-- exit code: 3 -->\n```console\n$ a \\\n  b\none\n$ c\n```\n\
                <!-- a note -->\ntext `code`\n\n  ```sh\n  d\n    e\n  ```\n";
    let page = Page::parse("a.md", text);
    let blocks: Vec<&Block> = page.blocks().collect();
    assert_eq!(blocks[0].marks, [Mark::Until("x: y".into()), Mark::ExitCode(3)]);
    assert_eq!(
        blocks[0].commands(),
        [("a \\\n  b\n".into(), Some("one\n".into())), ("c\n".into(), Some(String::new()))]
    );
    assert_eq!((blocks[1].text.as_str(), blocks[1].marks.len()), ("d\n  e\n", 0));
    assert_eq!(page.inline_code(), [(12, "code".to_owned())]);
}
