//! Version ranges as a `targetRevision` (SE-032), such as `1.x`, `~1.2`,
//! `^2` or `>=1.0 <3 || 4.*`.
//!
//! Comparison and pre-release order are those of the `semver` crate. The range syntax is
//! not: Argo CD accepts `||`, hyphen ranges, spaces between comparators, a leading `v`
//! and incomplete versions.
//! comparators, `v` in front and versions with missing parts, so it is here.

use semver::{Prerelease, Version};

/// A range of versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Range {
    /// One of these groups must match; within it, all comparators.
    groups: Vec<Vec<Comparator>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Comparator {
    operator: Operator,
    version: Version,
    /// Number of given parts of major, minor and patch (0 for `*`).
    parts: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    Less,
    AtLeast,
    AtMost,
    Tilde,
    Caret,
}

/// Longest range; longer texts are not ranges.
const MAX_RANGE: usize = 256;

/// Parses a version with an optional `v` and up to two missing parts.
pub(super) fn version(text: &str) -> Option<Version> {
    match parts(text)? {
        (version, 1..) => Some(version),
        _ => None,
    }
}

/// The version of Kubernetes that a source gives in `field`, without `v` and without what
/// distributions add to it, such as `-eks-abc`: charts compare with plain versions.
///
/// # Errors
///
/// Why it is no version.
pub(super) fn kube_version(field: &str, text: &str) -> Result<String, String> {
    let given = text.trim();
    let given = given.strip_prefix('v').unwrap_or(given);
    let end = given.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(given.len());
    // A dot that no number follows belongs to what is added.
    let numbers: Vec<&str> = given[..end].split('.').take_while(|part| !part.is_empty()).collect();
    let is_plain = |part: &str| part.len() < 10 && (part == "0" || !part.starts_with('0'));
    if !(2..=3).contains(&numbers.len()) || !numbers.iter().all(|part| is_plain(part)) {
        let shown: String = text.chars().filter(|c| !c.is_control()).take(64).collect();
        return Err(format!(
            "{field}: {shown:?} is not a version of Kubernetes; write one such as 1.30.2"
        ));
    }
    Ok(numbers.join("."))
}

impl Range {
    /// Parses a range; `None` when the text is a plain version (which is the name of a
    /// tag) or not a range.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.len() > MAX_RANGE || plain_version(text) {
            return None;
        }
        let groups = text.split("||").map(group).collect::<Option<Vec<_>>>()?;
        Some(Self { groups })
    }

    /// The same for the version of a chart: Helm reads one with missing parts as a range, such as
    /// `1.2` as `1.2.x`.
    pub(super) fn of_chart(text: &str) -> Option<Self> {
        match parts(text) {
            Some((_, 1 | 2)) if text.len() <= MAX_RANGE => {
                Some(Self { groups: vec![vec![comparator(Operator::Equal, text)?]] })
            }
            _ => Self::parse(text),
        }
    }

    /// What has the newest version in the range; of the same precedence (build metadata), the first.
    pub(super) fn newest<T>(&self, known: impl Iterator<Item = (Version, T)>) -> Option<T> {
        let fitting = known.filter(|(version, _)| self.contains(version));
        let newest = fitting
            .reduce(|best, next| if next.0.cmp_precedence(&best.0).is_gt() { next } else { best });
        newest.map(|(_, named)| named)
    }

    /// Whether the version is in the range.
    ///
    /// Pre-releases match only a group that contains a pre-release.
    pub(super) fn contains(&self, version: &Version) -> bool {
        self.groups.iter().any(|group| {
            let pre = group.iter().any(|comparator| !comparator.version.pre.is_empty());
            (pre || version.pre.is_empty())
                && group.iter().all(|comparator| comparator.matches(version))
        })
    }
}

/// Whether this is a single version, without operator or wildcard.
fn plain_version(text: &str) -> bool {
    let wild = |part: &str| matches!(part, "x" | "X" | "*");
    let core = text.split(['-', '+']).next().unwrap_or_default();
    version(text).is_some() && !core.split('.').any(wild)
}

/// Comparators of one group, separated by commas or spaces.
fn group(text: &str) -> Option<Vec<Comparator>> {
    if let Some((from, to)) = text.split_once(" - ") {
        let from = comparator(Operator::AtLeast, from.trim())?;
        return Some(vec![from, comparator(Operator::AtMost, to.trim())?]);
    }
    let mut comparators = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let signs = rest.find(|c: char| !"<>=!~^".contains(c)).unwrap_or(rest.len());
        let operator = match &rest[..signs] {
            "" | "=" => Operator::Equal,
            "!=" => Operator::NotEqual,
            ">" => Operator::Greater,
            "<" => Operator::Less,
            ">=" | "=>" => Operator::AtLeast,
            "<=" | "=<" => Operator::AtMost,
            "~" | "~>" => Operator::Tilde,
            "^" => Operator::Caret,
            _ => return None,
        };
        rest = rest[signs..].trim_start();
        let end = rest.find(|c: char| c == ',' || c.is_whitespace()).unwrap_or(rest.len());
        comparators.push(comparator(operator, &rest[..end])?);
        rest = rest[end..].trim_start_matches(|c: char| c == ',' || c.is_whitespace());
    }
    (!comparators.is_empty()).then_some(comparators)
}

fn comparator(operator: Operator, text: &str) -> Option<Comparator> {
    parts(text).map(|(version, parts)| Comparator { operator, version, parts })
}

/// A version and the number of its given parts.
fn parts(text: &str) -> Option<(Version, usize)> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let (rest, build) = text.split_once('+').unwrap_or((text, ""));
    let (core, pre) = rest.split_once('-').unwrap_or((rest, ""));
    if rest.ends_with('-') || text.ends_with('+') {
        return None;
    }
    let mut numbers = [0_u64; 3];
    let mut given = 0;
    let mut open = true;
    for (at, part) in core.split('.').enumerate() {
        if at == 3 {
            return None;
        }
        if matches!(part, "x" | "X" | "*") {
            open = false;
        } else {
            if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            let number = part.parse().ok()?;
            if open {
                numbers[at] = number;
                given = at + 1;
            }
        }
    }
    let mut version = Version::new(numbers[0], numbers[1], numbers[2]);
    version.pre = Prerelease::new(pre).ok()?;
    version.build = semver::BuildMetadata::new(build).ok()?;
    Some((version, given))
}

impl Comparator {
    fn matches(&self, found: &Version) -> bool {
        let order = found.cmp_precedence(&self.version);
        let wanted = &self.version;
        let same_major = found.major == wanted.major;
        let same_minor = same_major && found.minor == wanted.minor;
        // Equal in all given parts.
        let covered = match self.parts {
            0 => true,
            1 => same_major,
            2 => same_minor,
            _ => order.is_eq(),
        };
        match self.operator {
            Operator::Equal => covered,
            Operator::NotEqual => !covered,
            // Greater than all versions that the given parts cover.
            Operator::Greater => order.is_gt() && !covered,
            Operator::Less => order.is_lt(),
            Operator::AtLeast => order.is_ge(),
            Operator::AtMost => order.is_le() || covered,
            Operator::Tilde => match self.parts {
                0 => true,
                1 => order.is_ge() && same_major,
                _ => order.is_ge() && same_minor,
            },
            Operator::Caret => {
                // The first non-zero number must be equal.
                let stays = match (self.parts, wanted.major, wanted.minor) {
                    (0, ..) => true,
                    (1, ..) | (_, 1.., _) => same_major,
                    (2, ..) | (_, _, 1..) => same_minor,
                    _ => same_minor && found.patch == wanted.patch,
                };
                order.is_ge() && stays
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_kubernetes_are_plain() {
        for (text, want) in [
            ("v1.30.2-eks-abc", "1.30.2"),
            ("1.29.1", "1.29.1"),
            (" v1.27.3-gke.100 ", "1.27.3"),
            ("v1.28.5+k3s1", "1.28.5"),
            ("1.30", "1.30"),
            ("1.30.x", "1.30"),
            ("v1.0.0", "1.0.0"),
        ] {
            assert_eq!(kube_version("f", text).as_deref(), Ok(want), "{text}");
        }
        let large = "1.".to_owned() + &"9".repeat(10_000);
        for text in ["", "v", "1", "latest", "v01.2", "vv1.2.3", "-1.2", &large] {
            let error = kube_version("helm.kubeVersion", text).unwrap_err();
            assert!(error.starts_with("helm.kubeVersion: \"") && error.len() < 200, "{error}");
        }
    }
}
