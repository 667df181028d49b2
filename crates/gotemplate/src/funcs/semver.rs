//! `semver` and `semverCompare`: constraints on versions, with the lenient rules of Go's Masterminds library.

use std::rc::Rc;
use std::sync::LazyLock;

use super::prelude::*;
use crate::engine::version::{TAIL, Version, compare_pre, compile};
use regex::Regex;

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

const SPACE: &str = r"[\t\n\x0c\r ]";
const OPERATORS: &str = r"(?:=|!=|>|<|>=|=>|<=|=<|~|~>|\^)?";
const PARTIAL: &str = r"v?([0-9|xX*]+)(\.[0-9|xX*]+)?(\.[0-9|xX*]+)?";

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
