//! `Table` answers, which `kubectl get` prints.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::columns::{self, definition};
use super::jsonpath;
use super::kinds::{Column, Kind};
use super::stored::{Stored, partial};
use gotime::age;

/// How much of the object comes with each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Include {
    None,
    Metadata,
    Object,
}

impl Include {
    pub fn parse(text: Option<&str>) -> Self {
        match text {
            Some("None") => Self::None,
            Some("Object") => Self::Object,
            _ => Self::Metadata,
        }
    }
}

/// A table of objects. `definitions` says whether the columns are described.
pub(crate) fn table(
    kind: &Kind,
    objects: &[Arc<Stored>],
    include: Include,
    metadata: Value,
    definitions: bool,
    now: Timestamp,
) -> Value {
    let custom = kind.custom.as_ref().map(|c| c.columns.as_slice());
    let columns = match custom {
        Some(columns) => custom_definitions(columns),
        None => columns::definitions(kind),
    };
    let rows: Vec<Value> = objects
        .iter()
        .map(|stored| {
            let object = &stored.value();
            let cells = match custom {
                Some(columns) => custom_cells(columns, object, now),
                None => columns::cells(kind, object, now),
            };
            let mut row = json!({"cells": cells});
            match include {
                Include::None => {}
                Include::Metadata => row["object"] = partial(stored.object().into_whole()),
                Include::Object => row["object"] = stored.object().into_whole(),
            }
            row
        })
        .collect();
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "columnDefinitions": if definitions { Value::Array(columns) } else { json!([]) },
        "rows": rows,
    })
}

fn name_column() -> Value {
    definition("Name", "string", "name", 0, "Name must be unique within a namespace.")
}

fn custom_definitions(columns: &[Column]) -> Vec<Value> {
    let mut out = vec![name_column()];
    if columns.is_empty() {
        out.push(definition("Age", "date", "", 0, "Time since the object was created."));
    }
    out.extend(
        columns.iter().map(|c| definition(&c.name, &c.kind, &c.format, c.priority, &c.description)),
    );
    out
}

fn custom_cells(columns: &[Column], object: &Value, now: Timestamp) -> Vec<Value> {
    let mut out = vec![object["metadata"]["name"].clone()];
    if columns.is_empty() {
        out.push(json!(created(object, now)));
    }
    out.extend(columns.iter().map(|c| cell(c, object, now)));
    out
}

/// The value of a column; null where there is none, which kubectl shows as `<none>`.
fn cell(column: &Column, object: &Value, now: Timestamp) -> Value {
    let found = jsonpath::find(&column.json_path, object);
    let Some(first) = found.first() else { return Value::Null };
    match column.kind.as_str() {
        "date" => {
            first.as_str().map_or(json!("<invalid>"), |text| json!(age::age_since(text, now)))
        }
        "integer" => first
            .as_i64()
            .or_else(|| first.as_f64().map(|f| f as i64))
            .map_or(Value::Null, |n| json!(n)),
        "number" => first.as_f64().map_or(Value::Null, |n| json!(n)),
        "boolean" => first.as_bool().map_or(Value::Null, |b| json!(b)),
        _ => {
            let shown = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
            json!(found.iter().map(|v| shown(v)).collect::<Vec<_>>().join(" "))
        }
    }
}

/// How long ago an object was created.
fn created(object: &Value, now: Timestamp) -> String {
    object["metadata"]["creationTimestamp"]
        .as_str()
        .map_or_else(|| "<unknown>".to_owned(), |t| age::age_since(t, now))
}
