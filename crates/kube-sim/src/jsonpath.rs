//! The JSONPath of printer columns: fields, indexes, wildcards, and filters
//! of the form `[?(@.type=="Ready")]`.

use serde_json::Value;

/// All values that a path leads to; none for a path that cannot be read.
pub(crate) fn find<'a>(path: &str, object: &'a Value) -> Vec<&'a Value> {
    let mut found = vec![object];
    let mut rest = path.trim().trim_start_matches('$');
    while !rest.is_empty() {
        if let Some(tail) = rest.strip_prefix('[') {
            let Some(end) = closing(tail) else { return Vec::new() };
            found = bracket(tail[..end].trim(), &found);
            rest = &tail[end + 1..];
            continue;
        }
        let tail = rest.trim_start_matches('.');
        // `\.` is a dot in a name.
        let mut name = String::new();
        let mut end = tail.len();
        let mut escaped = false;
        for (i, c) in tail.char_indices() {
            match c {
                _ if escaped => {
                    name.push(c);
                    escaped = false;
                }
                '\\' => escaped = true,
                '.' | '[' => {
                    end = i;
                    break;
                }
                _ => name.push(c),
            }
        }
        rest = &tail[end..];
        if !name.is_empty() {
            found = step(&name, &found);
        } else if !rest.starts_with('[') {
            return Vec::new();
        }
    }
    found.retain(|v| !v.is_null());
    found
}

/// Where the bracket ends, without those in quotes and parentheses.
fn closing(text: &str) -> Option<usize> {
    let (mut quote, mut depth) = (None, 0);
    for (i, c) in text.char_indices() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(i),
            (None, ']') => depth -= 1,
            _ => {}
        }
    }
    None
}

fn step<'a>(name: &str, found: &[&'a Value]) -> Vec<&'a Value> {
    if name == "*" {
        return found.iter().flat_map(|v| children(v)).collect();
    }
    found.iter().filter_map(|v| v.get(name)).collect()
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(list) => list.iter().collect(),
        Value::Object(map) => map.values().collect(),
        _ => Vec::new(),
    }
}

fn bracket<'a>(inner: &str, found: &[&'a Value]) -> Vec<&'a Value> {
    if inner == "*" {
        return found.iter().flat_map(|v| children(v)).collect();
    }
    if let Some(filter) = inner.strip_prefix("?(").and_then(|f| f.strip_suffix(')')) {
        return found.iter().flat_map(|v| children(v)).filter(|v| matches(filter, v)).collect();
    }
    if let Some(name) = unquote(inner) {
        return found.iter().filter_map(|v| v.get(name)).collect();
    }
    match inner.parse::<i64>() {
        Ok(n) => found
            .iter()
            .filter_map(|v| {
                let list = v.as_array()?;
                let len = i64::try_from(list.len()).ok()?;
                list.get(usize::try_from(if n < 0 { len + n } else { n }).ok()?)
            })
            .collect(),
        Err(_) => Vec::new(),
    }
}

fn unquote(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    text.strip_prefix(quote)?.strip_suffix(quote)
}

/// Whether an item passes a filter such as `@.type=="Ready"` or `@.name`.
fn matches(filter: &str, item: &Value) -> bool {
    for operator in ["==", "!="] {
        if let Some((left, right)) = filter.split_once(operator) {
            let left = find(left.trim().trim_start_matches('@'), item).first().copied();
            let right = right.trim();
            let equal = match (left, unquote(right)) {
                (Some(left), Some(text)) => left == text,
                (Some(left), None) => {
                    serde_json::from_str::<Value>(right).is_ok_and(|right| *left == right)
                }
                (None, _) => false,
            };
            return equal == (operator == "==");
        }
    }
    !find(filter.trim().trim_start_matches('@'), item).is_empty()
}
