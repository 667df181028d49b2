//! Semantic versions and their constraints, with the lenient rules of Go's Masterminds library.

use std::cmp::Ordering;
use std::fmt;
use std::rc::Rc;
use std::sync::LazyLock;

use regex::Regex;

use super::f;
use crate::go::Args;
use crate::go::function::{Function, Outcome};
use crate::go::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    f("semver", "s", |run, a| {
        run.charge(a.bytes(0).len().saturating_mul(READ))?;
        Ok(Value::Version(Rc::new(Version::parse(&a.text(0))?)))
    }),
    f("semverCompare", "ss", |run, a| {
        run.charge((a.bytes(0).len() + a.bytes(1).len()).saturating_mul(READ))?;
        let constraints = parse_constraints(&a.text(0))?;
        let version = Version::parse(&a.text(1))?;
        Ok(Value::Bool(constraints.iter().any(|all| {
            let pre = all.iter().any(|one| !one.version.pre.is_empty());
            all.iter().all(|one| one.holds(&version, pre))
        })))
    }),
];

/// Steps per byte: the expressions look ahead.
const READ: usize = 16;

/// A version; missing parts are 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub major: u64,
    pub minor: u64,
    pub patch: u64,
    pub pre: String,
    pub metadata: String,
    /// The parsed text.
    pub original: String,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.pre.is_empty() {
            write!(f, "-{}", self.pre)?;
        }
        if !self.metadata.is_empty() {
            write!(f, "+{}", self.metadata)?;
        }
        Ok(())
    }
}

const TAIL: &str =
    r"(-([0-9A-Za-z\-]+(?:\.[0-9A-Za-z\-]+)*))?(\+([0-9A-Za-z\-]+(?:\.[0-9A-Za-z\-]+)*))?";
const SPACE: &str = r"[\t\n\x0c\r ]";
const OPERATORS: &str = r"(?:=|!=|>|<|>=|=>|<=|=<|~|~>|\^)?";
const PARTIAL: &str = r"v?([0-9|xX*]+)(\.[0-9|xX*]+)?(\.[0-9|xX*]+)?";

fn compile(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is fixed and valid")
}

fn check_identifiers(text: &str, numbers: bool) -> Outcome<()> {
    for part in text.split('.') {
        if part.is_empty() || !part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            return Err("invalid semantic version".into());
        }
        if numbers
            && part.len() > 1
            && part.starts_with('0')
            && part.bytes().all(|b| b.is_ascii_digit())
        {
            return Err("version segment starts with 0".into());
        }
    }
    Ok(())
}

impl Version {
    /// Parses a version; `v1.2` equals `1.2.0`.
    pub fn parse(text: &str) -> Outcome<Self> {
        static VERSION: LazyLock<Regex> = LazyLock::new(|| {
            compile(&format!(r"^v?([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?{TAIL}$"))
        });
        let groups = VERSION.captures(text).ok_or("invalid semantic version")?;
        let group = |i| groups.get(i).map_or("", |m: regex::Match<'_>| m.as_str());
        let number = |i| match group(i) {
            "" => Ok(0),
            digits => digits.parse::<u64>().map_err(|_| "a number of the version is too large"),
        };
        let (pre, metadata) = (group(5), group(7));
        if !pre.is_empty() {
            check_identifiers(pre, true)?;
        }
        Ok(Self {
            major: number(1)?,
            minor: number(2)?,
            patch: number(3)?,
            pre: pre.to_owned(),
            metadata: metadata.to_owned(),
            original: text.to_owned(),
        })
    }

    /// Compares versions; metadata is ignored.
    pub fn compare(&self, other: &Self) -> Ordering {
        (self.major, self.minor, self.patch)
            .cmp(&(other.major, other.minor, other.patch))
            .then_with(|| compare_pre(&self.pre, &other.pre))
    }

    /// The next major, minor or patch version.
    pub fn next(&self, part: usize) -> Self {
        let mut next = Self { pre: String::new(), metadata: String::new(), ..self.clone() };
        match part {
            0 => (next.major, next.minor, next.patch) = (self.major.wrapping_add(1), 0, 0),
            1 => (next.minor, next.patch) = (self.minor.wrapping_add(1), 0),
            // A pre-release of a patch precedes the patch.
            _ if self.pre.is_empty() => next.patch = self.patch.wrapping_add(1),
            _ => {}
        }
        let v = if self.original.starts_with('v') { "v" } else { "" };
        next.original = format!("{v}{next}");
        next
    }

    pub fn with_pre(&self, pre: &str) -> Outcome<Self> {
        if !pre.is_empty() {
            check_identifiers(pre, true)?;
        }
        Ok(self.renamed(Self { pre: pre.to_owned(), ..self.clone() }))
    }

    pub fn with_metadata(&self, metadata: &str) -> Outcome<Self> {
        if !metadata.is_empty() {
            check_identifiers(metadata, false)?;
        }
        Ok(self.renamed(Self { metadata: metadata.to_owned(), ..self.clone() }))
    }

    fn renamed(&self, mut version: Self) -> Self {
        let v = if self.original.starts_with('v') { "v" } else { "" };
        version.original = format!("{v}{version}");
        version
    }
}

fn compare_pre(a: &str, b: &str) -> Ordering {
    match (a.is_empty(), b.is_empty()) {
        (true, true) => return Ordering::Equal,
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    let (mut a, mut b) = (a.split('.'), b.split('.'));
    loop {
        let order = match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(x), Some(y)) => match (x.parse::<u64>(), y.parse::<u64>()) {
                (Ok(x), Ok(y)) => x.cmp(&y),
                (Ok(_), Err(_)) => Ordering::Less,
                (Err(_), Ok(_)) => Ordering::Greater,
                (Err(_), Err(_)) => x.cmp(y),
            },
        };
        if order.is_ne() {
            return order;
        }
    }
}

/// A condition on a version.
struct Constraint {
    operator: String,
    version: Version,
    /// A part is missing or a wildcard.
    dirty: bool,
    minor_dirty: bool,
    patch_dirty: bool,
}

/// Parses constraints: one of the outer list must match, and all of its inner list.
fn parse_constraints(text: &str) -> Outcome<Vec<Vec<Constraint>>> {
    static RANGE: LazyLock<Regex> = LazyLock::new(|| {
        compile(&format!("{SPACE}*({PARTIAL}{TAIL}){SPACE}+-{SPACE}+({PARTIAL}{TAIL}){SPACE}*"))
    });
    static VALID: LazyLock<Regex> = LazyLock::new(|| {
        let one = format!("{OPERATORS}{SPACE}*(?:{PARTIAL}{TAIL}){SPACE}*");
        compile(&format!("^(?:{SPACE}*{one})(?:(?:{SPACE}+|,{SPACE}*){one})*$"))
    });
    static EACH: LazyLock<Regex> = LazyLock::new(|| {
        compile(&format!(r"(=>|=<|~>|!=|>=|<=|=|>|<|~|\^)?{SPACE}*{PARTIAL}{TAIL}"))
    });
    // "1.2 - 1.4" means ">= 1.2, <= 1.4".
    let text = RANGE.replace_all(text, |groups: &regex::Captures<'_>| {
        let second = groups.get(9).map_or("", |m| m.as_str());
        format!(">= {}, <= {second} ", &groups[1])
    });
    let mut any = Vec::new();
    for part in text.split("||") {
        if !VALID.is_match(part) {
            return Err(format!("improper constraint: {part}").into());
        }
        let mut all = Vec::new();
        for groups in EACH.captures_iter(part) {
            let group = |i: usize| groups.get(i).map_or("", |m| m.as_str());
            all.push(Constraint::new(group(1), group(2), group(3), group(4), group(5))?);
        }
        any.push(all);
    }
    Ok(any)
}

impl Constraint {
    fn new(operator: &str, major: &str, minor: &str, patch: &str, pre: &str) -> Outcome<Self> {
        let open = |part: &str| matches!(part.trim_start_matches('.'), "" | "x" | "X" | "*");
        let (text, dirty, minor_dirty, patch_dirty) = if open(major) {
            (format!("0.0.0{pre}"), true, false, false)
        } else if open(minor) {
            (format!("{major}.0.0{pre}"), true, true, false)
        } else if open(patch) {
            (format!("{major}{minor}.0{pre}"), true, false, true)
        } else {
            (format!("{major}{minor}{patch}{pre}"), false, false, false)
        };
        let version = Version::parse(&text).map_err(|_| "constraint Parser Error")?;
        Ok(Self { operator: operator.to_owned(), version, dirty, minor_dirty, patch_dirty })
    }

    /// Whether a version satisfies the constraint; a pre-release does so only if the
    /// constraint has one.
    fn holds(&self, v: &Version, pre: bool) -> bool {
        let con = &self.version;
        let excluded = !v.pre.is_empty() && con.pre.is_empty() && !pre;
        let order = v.compare(con);
        match self.operator.as_str() {
            "!=" => {
                if !self.dirty {
                    return order.is_ne();
                }
                if excluded {
                    return false;
                }
                if v.major != con.major || (v.minor != con.minor && !self.minor_dirty) {
                    return true;
                }
                if self.minor_dirty {
                    return false;
                }
                if self.patch_dirty {
                    return (!v.pre.is_empty() || !con.pre.is_empty())
                        && compare_pre(&v.pre, &con.pre).is_ne();
                }
                v.patch != con.patch || order.is_ne()
            }
            _ if excluded => false,
            ">" => {
                if !self.dirty || v.major != con.major {
                    return if self.dirty { v.major > con.major } else { order.is_gt() };
                }
                if self.minor_dirty {
                    return false;
                }
                if self.patch_dirty { v.minor > con.minor } else { order.is_gt() }
            }
            "<" => order.is_lt(),
            ">=" | "=>" => order.is_ge(),
            "<=" | "=<" => {
                if !self.dirty {
                    return order.is_le();
                }
                v.major < con.major
                    || (v.major == con.major && (v.minor <= con.minor || self.minor_dirty))
            }
            "~" | "~>" => self.tilde(v),
            "^" => self.caret(v),
            _ if self.dirty => self.tilde(v),
            _ => order.is_eq(),
        }
    }

    fn tilde(&self, v: &Version) -> bool {
        let con = &self.version;
        if v.compare(con).is_lt() {
            return false;
        }
        if (con.major, con.minor, con.patch) == (0, 0, 0) && !self.minor_dirty && !self.patch_dirty
        {
            return true;
        }
        v.major == con.major && (v.minor == con.minor || self.minor_dirty)
    }

    fn caret(&self, v: &Version) -> bool {
        let con = &self.version;
        if v.compare(con).is_lt() {
            return false;
        }
        if con.major > 0 || self.minor_dirty {
            return v.major == con.major;
        }
        if v.major > 0 {
            return false;
        }
        if con.minor > 0 || self.patch_dirty {
            return v.minor == con.minor;
        }
        // Only the wildcard `^*` is left.
        (self.dirty && con.patch == 0) || (v.minor == 0 && v.patch == con.patch)
    }
}
