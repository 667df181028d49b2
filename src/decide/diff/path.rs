//! Paths in JSON values.

use serde_json::Value;

/// One path element.
///
/// The derived order puts parents before children and earlier list elements before later
/// ones, so that removing in reverse order does not move paths that are still to be
/// removed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// A key of an object.
    Key(String),
    /// An index of a list.
    Index(usize),
}

/// Steps from the root.
pub type Path = Vec<Step>;

/// Splits a JSON pointer (RFC 6901) into its unescaped tokens.
///
/// # Errors
///
/// The problem: no leading slash, an invalid escape, or the empty pointer, which is the
/// whole object.
pub fn parse_pointer(pointer: &str) -> Result<Vec<String>, &'static str> {
    let Some(rest) = pointer.strip_prefix('/') else {
        return Err("a JSON pointer starts with '/' and names a part of the object");
    };
    rest.split('/').map(unescape).collect()
}

fn unescape(token: &str) -> Result<String, &'static str> {
    let mut out = String::with_capacity(token.len());
    let mut chars = token.chars();
    while let Some(c) = chars.next() {
        match c {
            '~' => out.push(match chars.next() {
                Some('0') => '~',
                Some('1') => '/',
                _ => return Err("'~' must be written '~0', and '/' inside a name '~1'"),
            }),
            other => out.push(other),
        }
    }
    Ok(out)
}

/// Writes a path as a JSON pointer.
pub fn to_pointer(path: &[Step]) -> String {
    path.iter().fold(String::new(), |mut out, step| {
        out.push('/');
        match step {
            Step::Key(key) => out.push_str(&key.replace('~', "~0").replace('/', "~1")),
            Step::Index(index) => out.push_str(&index.to_string()),
        }
        out
    })
}

/// The path of pointer tokens in this value, if it exists. A token is an index exactly if
/// the parent is a list.
pub fn locate(value: &Value, tokens: &[String]) -> Option<Path> {
    let mut here = value;
    let mut path = Path::with_capacity(tokens.len());
    for token in tokens {
        match here {
            Value::Object(map) => {
                here = map.get(token)?;
                path.push(Step::Key(token.clone()));
            }
            Value::Array(list) => {
                let index = token.parse().ok()?;
                here = list.get(index)?;
                path.push(Step::Index(index));
            }
            _ => return None,
        }
    }
    Some(path)
}

/// The value at a path.
pub fn get<'a>(value: &'a Value, path: &[Step]) -> Option<&'a Value> {
    path.iter().try_fold(value, |here, step| match step {
        Step::Key(key) => here.as_object()?.get(key),
        Step::Index(index) => here.as_array()?.get(*index),
    })
}

fn get_mut<'a>(value: &'a mut Value, path: &[Step]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |here, step| match step {
        Step::Key(key) => here.as_object_mut()?.get_mut(key),
        Step::Index(index) => here.as_array_mut()?.get_mut(*index),
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
            (Some(Value::Object(map)), Step::Key(key)) => {
                map.remove(key);
            }
            (Some(Value::Array(list)), Step::Index(index)) if *index < list.len() => {
                list.remove(*index);
            }
            _ => {}
        }
    }
}
