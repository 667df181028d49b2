//! What the rules of the table consist of.

use super::super::read::PAUSING;
use super::super::status::Status;

/// The rules of some kinds.
#[derive(Debug)]
pub struct Block {
    /// Groups and kinds, with `*` for any text.
    pub kinds: Vec<(String, String)>,
    /// File and line of its header.
    pub place: String,
    /// The rules, in order.
    pub rules: Vec<Rule>,
    /// Whether a rule tests the generation of the status.
    pub tests_generation: bool,
    /// Whether a rule tests a field of the spec that pauses.
    pub tests_pause: bool,
}

/// One line: tests, health and message.
#[derive(Debug)]
pub struct Rule {
    /// All must hold.
    pub tests: Vec<Test>,
    /// Whether they read what people write, and nothing that a controller reports.
    pub is_of_spec: bool,
    /// The health then.
    pub status: Status,
    /// Its message.
    pub message: Vec<MessagePart>,
}

/// One test.
#[derive(Debug)]
pub enum Test {
    /// The opposite.
    Not(Box<Test>),
    /// A condition of one of the types, statuses and reasons; empty lists are any.
    Condition { types: Vec<String>, statuses: Vec<String>, reasons: Vec<String> },
    /// The field is not null.
    Present(Path),
    /// The field, as a text, matches one of the patterns.
    Equals(Operand, Vec<String>),
    /// Two fields, or a field and a text, differ.
    Differs(Operand, Source),
    /// Two numbers.
    Compare(Operand, Comparison, Operand),
    /// Some element.
    Any(Path, Vec<Test>),
    /// Every element.
    All(Path, Vec<Test>),
    /// The field is a text such as `2/2`.
    Full(Path),
    /// The status is of an older generation.
    Stale,
    /// The condition of this type is of an older generation.
    StaleCondition(String),
    /// The status does not name this generation.
    Unobserved,
    /// A condition of this type names another generation.
    UnobservedCondition(String),
    /// It has a deletion timestamp.
    Deleting,
}

/// How two numbers compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    More,
    /// `>=`
    AtLeast,
}

/// A value of a comparison.
#[derive(Debug)]
pub enum Operand {
    /// A literal.
    Number(i64),
    /// A field, and what it is when absent.
    Field(Path, i64),
    /// The length of a list or map.
    Length(Path),
    /// Two together.
    Sum(Box<Operand>, Box<Operand>),
    /// A field of all elements of a list together.
    Total(Path, Path),
}

/// Whose field a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// `.`: the object, or the element of `any`, `all` or `each`.
    Here,
    /// `$.`: the object.
    Object,
    /// `@.`: the element that `any` found.
    Found,
}

/// A field.
#[derive(Debug)]
pub struct Path {
    /// Whose.
    pub root: Root,
    /// Keys from there.
    pub keys: Vec<String>,
}

impl Path {
    /// Whether the elements of what it names are conditions.
    pub fn is_of_conditions(&self) -> bool {
        self.keys.last().is_some_and(|key| key == "conditions")
    }
}

/// A part of a message.
#[derive(Debug)]
pub enum MessagePart {
    /// As it is.
    Text(String),
    /// The first that is not empty.
    Value(Vec<Source>),
    /// A text when some element passes the tests.
    When(Path, Vec<Test>, Vec<MessagePart>),
    /// A text per element.
    Each { list: Path, tests: Vec<Test>, separator: String, message: Vec<MessagePart> },
}

/// Where a text of a message comes from.
#[derive(Debug)]
pub enum Source {
    /// A literal.
    Text(String),
    /// A field of the condition that a test found.
    Matched(String),
    /// A field of the first condition of a type.
    Condition(String, String),
    /// A field, from a character on, and at most so many characters.
    Field(Path, usize, Option<usize>),
    /// The number of elements of a list or map that pass the tests.
    Count(Path, Vec<Test>),
    /// The position of the element of `each`, from 1.
    Position,
}

/// Whether a test decides what a status of another generation is worth.
pub fn is_about_generation(test: &Test) -> bool {
    match test {
        Test::Stale | Test::Unobserved => true,
        Test::Not(test) => is_about_generation(test),
        _ => false,
    }
}

/// Whether a test knows a field of the spec that pauses.
pub fn is_about_pause(test: &Test) -> bool {
    match test {
        Test::Present(path) | Test::Equals(Operand::Field(path, _), _) => {
            matches!(&path.keys[..], [spec, field] if spec == "spec" && PAUSING.contains(&&**field))
        }
        Test::Not(test) => is_about_pause(test),
        _ => false,
    }
}

fn is_of_status(path: &Path) -> bool {
    path.keys.first().is_some_and(|key| key == "status")
}

/// Whether a test reads more than what people write: the status, or the generation.
pub fn reads_status(test: &Test) -> bool {
    fn reads(operand: &Operand) -> bool {
        match operand {
            Operand::Field(path, _) | Operand::Length(path) | Operand::Total(path, _) => {
                is_of_status(path)
            }
            Operand::Number(_) => false,
            Operand::Sum(left, right) => reads(left) || reads(right),
        }
    }
    match test {
        Test::Not(test) => reads_status(test),
        Test::Present(path) | Test::Full(path) => is_of_status(path),
        Test::Any(path, tests) | Test::All(path, tests) => {
            is_of_status(path) || tests.iter().any(reads_status)
        }
        Test::Equals(left, _) => reads(left),
        Test::Differs(left, right) => {
            reads(left) || matches!(right, Source::Field(path, ..) if is_of_status(path))
        }
        Test::Compare(left, _, right) => reads(left) || reads(right),
        Test::Deleting => false,
        Test::Condition { .. }
        | Test::Stale
        | Test::StaleCondition(_)
        | Test::Unobserved
        | Test::UnobservedCondition(_) => true,
    }
}
