//! `goto`, which Luau does not have: Argo CD's Lua has it, and scripts use it to go on with
//! the next turn of a loop. A `goto` to a label at the end of the innermost loop becomes
//! `continue`; any other stays, and is a syntax error.

use std::borrow::Cow;

/// A word or a sign that matters, with its place in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Token<'a> {
    text: &'a str,
    from: usize,
}

impl Token<'_> {
    fn end(&self) -> usize {
        self.from + self.text.len()
    }

    fn is_name(&self) -> bool {
        self.text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
    }
}

/// An open block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    /// Between `while` or `for` and its `do`.
    Header,
    /// The body of a loop, with its number.
    Loop(usize),
    Function,
    Other,
}

/// A label or a goto: its place, and the loop that it is in.
#[derive(Clone, Copy, Debug)]
struct Place<'a> {
    name: &'a str,
    from: usize,
    end: usize,
    of: Option<usize>,
}

/// Whether a script has the word.
pub(super) fn is_used(script: &str) -> bool {
    tokens(script).iter().any(|token| token.text == "goto")
}

/// The script with `continue`.
pub(super) fn translated(script: &str) -> Cow<'_, str> {
    if !script.contains("goto") && !script.contains("::") {
        return Cow::Borrowed(script);
    }
    let (labels, gotos) = places(&tokens(script));
    let mut changes: Vec<(usize, usize, &str)> = Vec::new();
    for label in &labels {
        let leads_here = |goto: &&Place<'_>| goto.name == label.name;
        let all: Vec<&Place<'_>> = gotos.iter().filter(leads_here).collect();
        // One label of this name for each loop; others of this name are of other loops.
        let is_of_a_loop = label.of.is_some();
        let others = labels.iter().filter(|other| other.name == label.name);
        let known: Vec<Option<usize>> = others.map(|other| other.of).collect();
        if !is_of_a_loop || !all.iter().all(|goto| known.contains(&goto.of)) {
            continue;
        }
        changes.push((label.from, label.end, ""));
        let own = all.into_iter().filter(|goto| goto.of == label.of);
        changes.extend(own.map(|goto| (goto.from, goto.end, "continue")));
    }
    changes.sort_unstable();
    let (mut text, mut at) = (String::with_capacity(script.len()), 0);
    for (from, end, new) in changes {
        let (Some(before), Some(old)) = (script.get(at..from), script.get(from..end)) else {
            continue;
        };
        text.push_str(before);
        text.push_str(new);
        // The numbers of lines stay.
        text.extend(old.chars().filter(|c| *c == '\n'));
        at = end;
    }
    text.push_str(script.get(at..).unwrap_or_default());
    Cow::Owned(text)
}

/// The labels, of which those at the end of a loop name it, and the gotos.
fn places<'a>(tokens: &[Token<'a>]) -> (Vec<Place<'a>>, Vec<Place<'a>>) {
    let mut blocks: Vec<Block> = Vec::new();
    let (mut labels, mut gotos) = (Vec::new(), Vec::new());
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
    for (at, token) in tokens.iter().enumerate() {
        let before = at.checked_sub(1).map_or("", text);
        if matches!(before, "." | ":") {
            // A field or a method of this name.
            continue;
        }
        match token.text {
            "while" | "for" => blocks.push(Block::Header),
            "do" if blocks.last() == Some(&Block::Header) => {
                blocks.pop();
                blocks.push(Block::Loop(at));
            }
            "repeat" => blocks.push(Block::Loop(at)),
            "function" => blocks.push(Block::Function),
            "if" | "do" => blocks.push(Block::Other),
            "end" | "until" => drop(blocks.pop()),
            "::" if text(at + 2) == "::" => {
                let mut next = at + 3;
                while text(next) == ";" {
                    next += 1;
                }
                let ends = matches!(text(next), "end" | "until");
                let of = match blocks.last() {
                    Some(Block::Loop(number)) if ends => Some(*number),
                    _ => None,
                };
                let end = tokens.get(at + 2).map_or(token.end(), Token::end);
                labels.push(Place { name: text(at + 1), from: token.from, end, of });
            }
            "goto" => {
                let Some(name) = tokens.get(at + 1).filter(|next| next.is_name()) else { continue };
                let inner = blocks.iter().rev().find_map(|block| match block {
                    Block::Loop(number) => Some(Some(*number)),
                    Block::Function => Some(None),
                    Block::Header | Block::Other => None,
                });
                let of = inner.flatten();
                gotos.push(Place { name: name.text, from: token.from, end: name.end(), of });
            }
            _ => {}
        }
    }
    (labels, gotos)
}

/// Words, `::`, and other signs; without comments and texts.
fn tokens(script: &str) -> Vec<Token<'_>> {
    let bytes = script.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let from = at;
        at = match byte {
            b'-' if bytes.get(at + 1) == Some(&b'-') => {
                let after = at + 2;
                after_long(bytes, after).unwrap_or_else(|| after_line(bytes, after))
            }
            b'[' => match after_long(bytes, at) {
                Some(end) => end,
                None => at + 1,
            },
            b'"' | b'\'' => after_text(bytes, at),
            _ if byte.is_ascii_alphanumeric() || byte == b'_' => {
                let is_word = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
                at + bytes.iter().skip(at).take_while(is_word).count()
            }
            b':' if bytes.get(at + 1) == Some(&b':') => at + 2,
            _ => at + 1,
        };
        // A comment, or a text between long brackets.
        let is_long = matches!(byte, b'-' | b'[') && at > from + 1;
        let is_text = is_long || matches!(byte, b'"' | b'\'');
        if !is_text
            && !byte.is_ascii_whitespace()
            && let Some(text) = script.get(from..at)
        {
            tokens.push(Token { text, from });
        }
    }
    tokens
}

fn after_line(bytes: &[u8], from: usize) -> usize {
    from + bytes.iter().skip(from).take_while(|byte| **byte != b'\n').count()
}

/// The end of `[[ … ]]` or `[==[ … ]==]`; `None` when none begins here.
fn after_long(bytes: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?.strip_prefix(b"[")?;
    let level = rest.iter().take_while(|byte| **byte == b'=').count();
    rest.get(level).filter(|byte| **byte == b'[')?;
    let mut end = vec![b'='; level + 2];
    end[0] = b']';
    end[level + 1] = b']';
    let begin = from + level + 2;
    let body = bytes.get(begin..)?;
    let found = body.windows(end.len()).position(|window| window == end);
    Some(found.map_or(bytes.len(), |found| begin + found + end.len()))
}

fn after_text(bytes: &[u8], from: usize) -> usize {
    let quote = bytes[from];
    let mut at = from + 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            b'\n' => return at,
            _ if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}
