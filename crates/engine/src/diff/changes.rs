//! The differences between two values.

use serde_json::Value;

use super::path::{Path, PathStep, to_pointer};

/// One path where the live and the predicted object differ.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueChange {
    /// JSON pointer into the live object, or into the predicted one when live has no such
    /// field. Can be used in `jsonPointers`.
    pub path: String,
    /// The live value; `None` when absent. Masked in Secrets.
    pub from: Option<Value>,
    /// The predicted value; `None` when removed. Masked in Secrets.
    pub to: Option<Value>,
}

/// Lists the differences, ordered by path. An object or list that exists on one side only
/// is one change.
pub fn list_changes(from: &Value, to: &Value) -> Vec<ValueChange> {
    let mut out = Vec::new();
    walk(Some(from), Some(to), &mut Path::new(), &mut out);
    out
}

fn walk(from: Option<&Value>, to: Option<&Value>, path: &mut Path, out: &mut Vec<ValueChange>) {
    if from == to {
        return;
    }
    let (Some(one), Some(other)) = (from, to) else {
        out.push(change(path, from, to));
        return;
    };
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let mut keys: Vec<&String> = one.keys().chain(other.keys()).collect();
            keys.sort_unstable();
            keys.dedup();
            for key in keys {
                path.push(PathStep::Key(key.clone()));
                walk(one.get(key), other.get(key), path, out);
                path.pop();
            }
        }
        (Value::Array(one), Value::Array(other)) => walk_lists(one, other, path, out),
        _ => out.push(change(path, from, to)),
    }
}

/// Lists of equal length differ element by element. Otherwise equal elements at both ends
/// are skipped, so that an added element is one change.
fn walk_lists(one: &[Value], other: &[Value], path: &mut Path, out: &mut Vec<ValueChange>) {
    let shorter = one.len().min(other.len());
    let longer = one.len().max(other.len());
    let same = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let tail = |count: &usize| one[one.len() - 1 - count] == other[other.len() - 1 - count];
    let at_end = (0..shorter - same).take_while(tail).count();
    for index in same..longer - at_end {
        path.push(PathStep::Index(index));
        let within = |list: &[Value]| index < list.len() - at_end;
        let from = one.get(index).filter(|_| within(one));
        let to = other.get(index).filter(|_| within(other));
        walk(from, to, path, out);
        path.pop();
    }
}

fn change(path: &Path, from: Option<&Value>, to: Option<&Value>) -> ValueChange {
    ValueChange { path: to_pointer(path), from: from.cloned(), to: to.cloned() }
}
