//! Semantic versions, with the lenient rules of Go's Masterminds library.

use std::cmp::Ordering;
use std::fmt;
use std::sync::LazyLock;

use regex::Regex;

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

/// Pre-release and metadata behind the numbers of a version, as an expression.
pub(crate) const TAIL: &str =
    r"(-([0-9A-Za-z\-]+(?:\.[0-9A-Za-z\-]+)*))?(\+([0-9A-Za-z\-]+(?:\.[0-9A-Za-z\-]+)*))?";

/// Compiles one of the expressions for versions.
pub(crate) fn compile(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is fixed and valid")
}

fn check_identifiers(text: &str, numbers: bool) -> Result<(), &'static str> {
    for part in text.split('.') {
        if part.is_empty() || !part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            return Err("invalid semantic version");
        }
        if numbers
            && part.len() > 1
            && part.starts_with('0')
            && part.bytes().all(|b| b.is_ascii_digit())
        {
            return Err("version segment starts with 0");
        }
    }
    Ok(())
}

impl Version {
    /// Parses a version; `v1.2` equals `1.2.0`.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
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

    pub fn with_pre(&self, pre: &str) -> Result<Self, &'static str> {
        if !pre.is_empty() {
            check_identifiers(pre, true)?;
        }
        Ok(self.renamed(Self { pre: pre.to_owned(), ..self.clone() }))
    }

    pub fn with_metadata(&self, metadata: &str) -> Result<Self, &'static str> {
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

/// Compares pre-releases; one without comes last.
pub(crate) fn compare_pre(a: &str, b: &str) -> Ordering {
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
