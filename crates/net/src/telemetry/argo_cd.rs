//! Log lines with the keys of Argo CD, for what reads its logs.

use serde_json::{Map, Value};

/// The same line with `time`, `level`, `msg`, the fields of its spans beside its own, and an
/// Application by `application`, `app-namespace` and `app-qualified-name`. A line that is no
/// object stays as it is.
pub(crate) fn line(text: &str) -> String {
    let Ok(Value::Object(mut from)) = serde_json::from_str::<Value>(text) else {
        return text.to_owned();
    };
    let mut to = Map::new();
    let [time, level, message, spans, _] =
        ["timestamp", "level", "message", "spans", "span"].map(|key| from.remove(key));
    for (key, value) in [("time", time), ("level", level.map(level_of)), ("msg", message)] {
        if let Some(value) = value {
            to.insert(key.to_owned(), value);
        }
    }
    // The inner spans come last, and the fields of the line win.
    if let Some(Value::Array(spans)) = spans {
        for span in spans {
            if let Value::Object(mut fields) = span {
                fields.remove("name");
                insert_all(&mut to, fields);
            }
        }
    }
    insert_all(&mut to, from);
    let mut line = Value::Object(to).to_string();
    line.push('\n');
    line
}

fn insert_all(to: &mut Map<String, Value>, fields: Map<String, Value>) {
    for (key, value) in fields {
        match (key.as_str(), value.as_str().and_then(|name| name.split_once('/'))) {
            ("time" | "msg", _) => {
                to.insert(format!("fields.{key}"), value);
            }
            ("application", Some((namespace, name))) => {
                let (namespace, name) = (namespace.to_owned(), name.to_owned());
                to.insert("application".to_owned(), name.into());
                to.insert("app-namespace".to_owned(), namespace.into());
                to.insert("app-qualified-name".to_owned(), value);
            }
            _ => {
                to.insert(key, value);
            }
        }
    }
}

/// The name of a level.
fn level_of(level: Value) -> Value {
    match level.as_str() {
        Some("WARN") => "warning".into(),
        Some(level) => level.to_ascii_lowercase().into(),
        None => level,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_those_of_argo_cd() {
        let read = |text: &str| serde_json::from_str::<Value>(&line(text)).unwrap();
        let inner = json!({"name": "reconcile", "application": "argocd/shop"});
        let from = json!({
            "timestamp": "2026-01-02T03:04:05.6Z", "level": "WARN", "message": "operation failed",
            "target": "wavegate::x", "error": "no such host", "span": inner, "spans": [inner],
        });
        assert_eq!(
            read(&from.to_string()),
            json!({
                "time": "2026-01-02T03:04:05.6Z", "level": "warning", "msg": "operation failed",
                "target": "wavegate::x", "error": "no such host", "application": "shop",
                "app-namespace": "argocd", "app-qualified-name": "argocd/shop",
            })
        );
        // Fields that have the names of others are kept.
        let from = json!({"message": "m", "msg": "other", "application": "plain", "level": "INFO"});
        assert_eq!(
            read(&from.to_string()),
            json!({"msg": "m", "fields.msg": "other", "application": "plain", "level": "info"})
        );
        for text in ["", "no json\n", "[1]\n", "{\"a\":"] {
            assert_eq!(line(text), text);
        }
    }
}
