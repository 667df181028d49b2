//! Parses the rules of `../kinds/*.rules`; the language is described in the parent module.

use std::collections::HashMap;

use super::super::status::Status;
use super::rule::{
    Block, Comparison, MessagePart, Operand, Path, Root, Rule, Source, Test, is_about_generation,
    is_about_pause, reads_status,
};

/// Where and why a rule does not parse.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {what}")]
pub struct ParseError {
    /// File and line.
    pub place: String,
    /// What is wrong.
    pub what: String,
}

type Parsed<T> = Result<T, String>;

/// Most definitions that one line uses.
const MAX_USES: usize = 16;

/// Parses files of rules.
pub(crate) fn blocks(sources: &[(&str, &str)]) -> Result<Vec<Block>, ParseError> {
    let mut definitions: HashMap<String, Vec<String>> = HashMap::new();
    let mut blocks: Vec<Block> = Vec::new();
    for (file, text) in sources {
        // The name of the definition that the lines belong to.
        let mut defining: Option<String> = None;
        for (number, line) in text.lines().enumerate() {
            let place = format!("{file}:{}", number + 1);
            let line = line.trim();
            if line.is_empty() || line == "#" || line.starts_with("# ") {
                continue;
            }
            let fail = |what: String| ParseError { place: place.clone(), what };
            if let Some(header) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                defining = header.strip_prefix("define ").map(str::to_owned);
                if let Some(name) = &defining {
                    if definitions.insert(name.clone(), Vec::new()).is_some() {
                        return Err(fail(format!("{name} is defined twice")));
                    }
                } else {
                    let kinds = header.split_whitespace().map(kind).collect::<Parsed<Vec<_>>>();
                    let kinds = kinds.map_err(fail)?;
                    let rules = Vec::new();
                    blocks.push(Block {
                        kinds,
                        place,
                        rules,
                        tests_generation: false,
                        tests_pause: false,
                    });
                }
                continue;
            }
            if let Some(lines) = defining.as_ref().and_then(|name| definitions.get_mut(name)) {
                lines.push(line.to_owned());
                continue;
            }
            let lines = expand(line, &definitions).map_err(fail)?;
            let fail = |what: String| ParseError { place: place.clone(), what };
            let Some(block) = blocks.last_mut() else {
                return Err(fail("a rule without kinds".to_owned()));
            };
            for line in lines {
                let rule = rule(&line).map_err(fail)?;
                block.tests_generation |= rule.tests.iter().any(is_about_generation);
                block.tests_pause |= rule.tests.iter().any(is_about_pause);
                block.rules.push(rule);
            }
        }
    }
    for block in &blocks {
        let last = block.rules.iter().position(|rule| rule.tests.is_empty());
        if last.map(|index| index + 1) != Some(block.rules.len()) {
            let what = "the last rule, and only it, is one without tests".to_owned();
            return Err(ParseError { place: block.place.clone(), what });
        }
    }
    Ok(blocks)
}

fn kind(text: &str) -> Parsed<(String, String)> {
    let (group, kind) = text.rsplit_once('/').ok_or("a kind is written GROUP/KIND")?;
    Ok((group.to_owned(), kind.to_owned()))
}

/// The line, or the lines of the definition that it uses.
fn expand(line: &str, definitions: &HashMap<String, Vec<String>>) -> Parsed<Vec<String>> {
    let lines = match line.strip_prefix("use ") {
        Some(call) => called(call, definitions)?,
        None => vec![line.to_owned()],
    };
    lines.into_iter().map(|line| in_messages(line, definitions)).collect()
}

/// The line with the definitions that its message uses.
fn in_messages(mut line: String, definitions: &HashMap<String, Vec<String>>) -> Parsed<String> {
    // A definition that used itself would never end.
    for _ in 0..MAX_USES {
        let Some((before, rest)) = line.split_once("{use ") else { return Ok(line) };
        let (call, after) = rest.split_once('}').ok_or("a missing }")?;
        line = format!("{before}{}{after}", called(call, definitions)?.concat());
    }
    Err("too many uses of definitions".to_owned())
}

/// The lines of a definition, with its arguments.
fn called(call: &str, definitions: &HashMap<String, Vec<String>>) -> Parsed<Vec<String>> {
    let (name, arguments) = match call.split_once('(') {
        Some((name, rest)) => (name, rest.strip_suffix(')').ok_or("a missing )")?),
        None => (call, ""),
    };
    let lines = definitions.get(name).ok_or_else(|| format!("{name} is not defined"))?;
    let filled = lines.iter().map(|line| {
        let pairs = arguments.split(';').map(str::trim).enumerate();
        pairs.fold(line.clone(), |line, (i, value)| line.replace(&format!("%{}", i + 1), value))
    });
    let filled: Vec<String> = filled.collect();
    let is_open = |line: &String| (1..=9).any(|i| line.contains(&format!("%{i}")));
    match filled.iter().any(is_open) {
        true => Err(format!("{name} needs more arguments")),
        false => Ok(filled),
    }
}

fn rule(line: &str) -> Parsed<Rule> {
    let (tests, health) = match line.strip_prefix("-> ") {
        Some(health) => ("", health),
        None => line.split_once(" -> ").ok_or("a rule is written TESTS -> STATUS MESSAGE")?,
    };
    let (status, text) = health.split_once(' ').unwrap_or((health, ""));
    let status = Status::parse(status).ok_or_else(|| format!("{status} is no health status"))?;
    let tests = self::tests(tests)?;
    let is_of_spec = !tests.is_empty() && !tests.iter().any(reads_status);
    Ok(Rule { tests, is_of_spec, status, message: message(&text.replace("\\n", "\n"))? })
}

/// Tests joined by ` & `, outside of parentheses.
fn tests(text: &str) -> Parsed<Vec<Test>> {
    let mut tests = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1).ok_or("a ) too many")?,
            '&' if depth == 0 => {
                tests.push(test(text[start..at].trim())?);
                start = at + 1;
            }
            _ => {}
        }
    }
    if depth > 0 {
        return Err("a missing )".to_owned());
    }
    match text[start..].trim() {
        "" if tests.is_empty() => Ok(tests),
        rest => {
            tests.push(test(rest)?);
            Ok(tests)
        }
    }
}

fn test(text: &str) -> Parsed<Test> {
    if let Some(rest) = text.strip_prefix('!') {
        return Ok(Test::Not(Box::new(test(rest.trim())?)));
    }
    for (word, any) in [("any ", true), ("all ", false)] {
        if let Some(rest) = text.strip_prefix(word) {
            let (list, inner) = rest.split_once(" (").ok_or("any and all need (TESTS)")?;
            let inner = tests(inner.strip_suffix(')').ok_or("a missing )")?)?;
            let list = path(list)?;
            return Ok(if any { Test::Any(list, inner) } else { Test::All(list, inner) });
        }
    }
    match text {
        "stale" => return Ok(Test::Stale),
        "unobserved" => return Ok(Test::Unobserved),
        "deleting" => return Ok(Test::Deleting),
        "" => return Err("an empty test".to_owned()),
        _ => {}
    }
    if let Some(field) = text.strip_prefix("full ") {
        return Ok(Test::Full(path(field)?));
    }
    if let Some(kind) = text.strip_prefix("stale ") {
        return Ok(Test::StaleCondition(kind.to_owned()));
    }
    if let Some(kind) = text.strip_prefix("unobserved ") {
        return Ok(Test::UnobservedCondition(kind.to_owned()));
    }
    if text.starts_with(['.', '$', '@', '#']) || text.starts_with("sum ") {
        field_test(text)
    } else {
        condition_test(text)
    }
}

/// A list and the tests of its elements in parentheses, if any, and what is behind.
fn filtered(text: &str) -> Parsed<(Path, Vec<Test>, &str)> {
    let Some((list, rest)) = text.split_once(" (") else {
        let (list, rest) = text.split_once(' ').unwrap_or((text, ""));
        return Ok((path(list)?, Vec::new(), rest));
    };
    if list.contains(' ') {
        let (list, rest) = text.split_once(' ').unwrap_or((text, ""));
        return Ok((path(list)?, Vec::new(), rest));
    }
    let (inner, rest) = rest.split_once(')').ok_or("a missing )")?;
    Ok((path(list)?, tests(inner)?, rest.strip_prefix(' ').unwrap_or(rest)))
}

fn field_test(text: &str) -> Parsed<Test> {
    if let Some((left, right)) = text.split_once("!=") {
        return Ok(Test::Differs(operand(left)?, source(right)?));
    }
    let Some(at) = text.find(['=', '<', '>']) else { return Ok(Test::Present(path(text)?)) };
    let (left, rest) = (operand(&text[..at])?, &text[at..]);
    let comparison = match rest {
        _ if rest.starts_with("<=") => Comparison::AtMost,
        _ if rest.starts_with(">=") => Comparison::AtLeast,
        _ if rest.starts_with('<') => Comparison::Less,
        _ if rest.starts_with('>') => Comparison::More,
        _ => {
            let patterns = rest[1..].split('|').map(str::to_owned).collect();
            return Ok(Test::Equals(left, patterns));
        }
    };
    let right = operand(rest.trim_start_matches(['<', '>', '=']))?;
    Ok(Test::Compare(left, comparison, right))
}

fn condition_test(text: &str) -> Parsed<Test> {
    let list = |text: &str| text.split('|').map(str::to_owned).collect::<Vec<_>>();
    let (types, rest) = text.split_once('=').unwrap_or((text, "*"));
    let (statuses, reasons) = rest.split_once('/').unwrap_or((rest, "*"));
    let any = |text: &str| if text == "*" { Vec::new() } else { list(text) };
    Ok(Test::Condition { types: list(types), statuses: any(statuses), reasons: any(reasons) })
}

fn operand(text: &str) -> Parsed<Operand> {
    if let Some((left, right)) = text.split_once('+') {
        return Ok(Operand::Sum(Box::new(operand(left)?), Box::new(operand(right)?)));
    }
    if let Some(total) = text.strip_prefix("sum ") {
        let (list, field) = total.rsplit_once('.').ok_or("sum needs LIST.FIELD")?;
        return Ok(Operand::Total(path(list)?, path(&format!(".{field}"))?));
    }
    if let Some(list) = text.strip_prefix('#') {
        return Ok(Operand::Length(path(list)?));
    }
    if let Ok(number) = text.parse() {
        return Ok(Operand::Number(number));
    }
    let (field, absent) = match text.split_once('?') {
        Some((field, absent)) => (field, absent.parse().map_err(|_| "not a number behind ?")?),
        None => (text, 0),
    };
    Ok(Operand::Field(path(field)?, absent))
}

fn path(text: &str) -> Parsed<Path> {
    let (root, rest) = match text.chars().next() {
        Some('$') => (Root::Object, &text[1..]),
        Some('@') => (Root::Found, &text[1..]),
        _ => (Root::Here, text),
    };
    let keys = rest.strip_prefix('.').ok_or_else(|| format!("{text} is no path"))?;
    // A key with dots, such as that of an annotation, is written ["like.this"].
    let mut found = Vec::new();
    for (index, part) in keys.split('"').enumerate() {
        if index % 2 == 1 {
            found.push(part.to_owned());
            continue;
        }
        let keys = part.trim_matches(['[', ']', '.']).split('.');
        found.extend(keys.filter(|key| !key.is_empty()).map(str::to_owned));
    }
    Ok(Path { root, keys: found })
}

/// Splits a message at its braces, which nest.
fn message(text: &str) -> Parsed<Vec<MessagePart>> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some(open) = rest.find('{') {
        parts.push(MessagePart::Text(rest[..open].to_owned()));
        let mut depth = 0_usize;
        let closing = rest[open..].char_indices().find(|(_, c)| {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            depth == 0
        });
        let (length, _) = closing.ok_or("a missing }")?;
        parts.push(part(&rest[open + 1..open + length])?);
        rest = &rest[open + length + 1..];
    }
    if !rest.is_empty() {
        parts.push(MessagePart::Text(rest.to_owned()));
    }
    Ok(parts)
}

fn part(text: &str) -> Parsed<MessagePart> {
    if let Some(when) = text.strip_prefix('?') {
        let (list, tests, text) = filtered(when)?;
        return Ok(MessagePart::When(list, tests, message(text)?));
    }
    let Some(each) = text.strip_prefix("each ") else {
        return Ok(MessagePart::Value(text.split('|').map(source).collect::<Parsed<_>>()?));
    };
    let (list, tests, rest) = filtered(each)?;
    let quoted = rest.strip_prefix('\'').and_then(|rest| rest.split_once("' "));
    let (separator, text) = quoted.ok_or("each needs a quoted separator and a text")?;
    Ok(MessagePart::Each { list, tests, separator: separator.to_owned(), message: message(text)? })
}

fn source(text: &str) -> Parsed<Source> {
    if let Some(literal) = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        return Ok(Source::Text(literal.to_owned()));
    }
    if text == "#" {
        return Ok(Source::Position);
    }
    if let Some(list) = text.strip_prefix('#') {
        let (list, tests, _) = filtered(list)?;
        return Ok(Source::Count(list, tests));
    }
    if text.starts_with(['.', '$', '@']) {
        let Some((field, range)) = text.rsplit_once(':') else {
            return Ok(Source::Field(path(text)?, 0, None));
        };
        let number: usize = range.parse().map_err(|_| "not a number behind :")?;
        let from_there = range.starts_with('+');
        let (skip, take) = if from_there { (number, None) } else { (0, Some(number)) };
        return Ok(Source::Field(path(field)?, skip, take));
    }
    Ok(match text.rsplit_once('.') {
        Some((kind, field)) => Source::Condition(kind.to_owned(), field.to_owned()),
        None => match text {
            "message" | "reason" | "type" | "status" => Source::Matched(text.to_owned()),
            _ => return Err(format!("{{{text}}} is not known")),
        },
    })
}
