//! Paths in JSON values.

use serde_json::Value;

/// One path element.
///
/// The derived order puts parents before children and earlier list elements before later
/// ones, so that removing in reverse order does not move paths that are still to be
/// removed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathStep {
    /// A key of an object.
    Key(String),
    /// An index of a list.
    Index(usize),
}

/// Steps from the root.
pub type Path = Vec<PathStep>;

/// A JSON pointer, as Argo CD reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// Its unescaped tokens.
    pub tokens: Vec<String>,
    /// What RFC 6901 does not allow in it.
    pub defect: Option<Defect>,
}

/// What is wrong with a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defect {
    /// How to write it.
    pub remedy: &'static str,
    /// What it means nevertheless.
    pub effect: &'static str,
}

const NO_SLASH: &str = "a JSON pointer starts with '/', such as /spec/replicas";

/// Splits a JSON pointer (RFC 6901) into its unescaped tokens. What is before the first slash is
/// left out, and a `~` of no escape is itself, as in Argo CD (SE-172).
///
/// # Errors
///
/// The problem: without any slash, it names nothing.
pub fn parse_pointer(pointer: &str) -> Result<Pointer, Defect> {
    let Some((before, rest)) = pointer.split_once('/') else {
        let effect = "this one names nothing and has no effect";
        return Err(Defect { remedy: NO_SLASH, effect });
    };
    let mut is_escaped = true;
    let tokens = rest.split('/').map(|token| unescape(token, &mut is_escaped)).collect();
    let defect = if !before.is_empty() {
        let effect = "what is before the first '/' is left out";
        Some(Defect { remedy: NO_SLASH, effect })
    } else if !is_escaped {
        let remedy = "'~' must be written '~0', and '/' inside a name '~1'";
        Some(Defect { remedy, effect: "any other '~' is read as itself" })
    } else {
        None
    };
    Ok(Pointer { tokens, defect })
}

/// Resolves the escapes of a token; `is_escaped` becomes false with a `~` that begins none.
fn unescape(token: &str, is_escaped: &mut bool) -> String {
    let mut out = String::with_capacity(token.len());
    let mut rest = token;
    while let Some((before, after)) = rest.split_once('~') {
        out.push_str(before);
        rest = match after.as_bytes().first() {
            Some(b'0') => {
                out.push('~');
                &after[1..]
            }
            Some(b'1') => {
                out.push('/');
                &after[1..]
            }
            _ => {
                out.push('~');
                *is_escaped = false;
                after
            }
        };
    }
    out.push_str(rest);
    out
}

/// The position that a token of a pointer names in a list of this length, which it may count from
/// the end, as in Argo CD: `-1` is the last one. `None` when it is no number, or before the
/// beginning.
pub fn list_index(token: &str, length: usize) -> Option<usize> {
    from_end(token.parse().ok()?, length)
}

/// The position of an index, which counts from the end when it is negative; `None` when it is
/// before the beginning.
pub(super) fn from_end(at: i64, length: usize) -> Option<usize> {
    let back = || length.checked_sub(usize::try_from(at.unsigned_abs()).ok()?);
    usize::try_from(at).ok().or_else(back)
}

/// Writes a path as a JSON pointer.
pub fn to_pointer(path: &[PathStep]) -> String {
    path.iter().fold(String::new(), |mut out, step| {
        out.push('/');
        match step {
            PathStep::Key(key) => out.push_str(&key.replace('~', "~0").replace('/', "~1")),
            PathStep::Index(index) => out.push_str(&index.to_string()),
        }
        out
    })
}

/// The path of pointer tokens in this value, if it exists. A token is an index exactly if
/// the parent is a list (SE-172).
pub(crate) fn locate(value: &Value, tokens: &[String]) -> Option<Path> {
    let mut here = value;
    let mut path = Path::with_capacity(tokens.len());
    for token in tokens {
        match here {
            Value::Object(map) => {
                here = map.get(token)?;
                path.push(PathStep::Key(token.clone()));
            }
            Value::Array(list) => {
                let index = list_index(token, list.len())?;
                here = list.get(index)?;
                path.push(PathStep::Index(index));
            }
            _ => return None,
        }
    }
    Some(path)
}

/// The value at a path.
pub(crate) fn get<'a>(value: &'a Value, path: &[PathStep]) -> Option<&'a Value> {
    path.iter().try_fold(value, |here, step| match step {
        PathStep::Key(key) => here.as_object()?.get(key),
        PathStep::Index(index) => here.as_array()?.get(*index),
    })
}

fn get_mut<'a>(value: &'a mut Value, path: &[PathStep]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |here, step| match step {
        PathStep::Key(key) => here.as_object_mut()?.get_mut(key),
        PathStep::Index(index) => here.as_array_mut()?.get_mut(*index),
    })
}

/// Removes the paths, last first, so that removing one list element does not move
/// another. Missing paths are ignored; the root is never removed.
pub fn remove_all(value: &mut Value, mut paths: Vec<Path>) {
    paths.sort_unstable();
    paths.dedup();
    for path in paths.iter().rev() {
        let Some((last, parent)) = path.split_last() else { continue };
        match (get_mut(value, parent), last) {
            (Some(Value::Object(map)), PathStep::Key(key)) => {
                map.remove(key);
            }
            (Some(Value::Array(list)), PathStep::Index(index)) if *index < list.len() => {
                list.remove(*index);
            }
            _ => {}
        }
    }
}
