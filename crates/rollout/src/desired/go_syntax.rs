//! Go templates in a set without `goTemplate`, which only replaces `{{name}}`: what it leaves as
//! it is would be deployed.

use serde_json::Value;

/// The first action of a Go template in a text; `None` for what may be the name of a parameter.
pub fn first_action(text: &str) -> Option<&str> {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("{{") {
        let (tag, tail) = after.split_once("}}")?;
        if is_go(tag) {
            return Some(tag.trim());
        }
        rest = tail;
    }
    None
}

fn is_go(tag: &str) -> bool {
    // A trim marker is followed by a space.
    let tag = tag.strip_prefix("- ").unwrap_or(tag).trim();
    let is_variable = tag.starts_with(['.', '$']);
    let words = ["if ", "range ", "with ", "define ", "template ", "else ", "printf ", "/*"];
    is_variable || words.iter().any(|word| tag.starts_with(word))
}

/// What to set for an action.
pub fn go_remedy(action: &str) -> String {
    const MOST: usize = 64;
    let shown: String = action.chars().take(MOST).collect();
    format!(
        "{{{{ {shown} }}}} is an action of Go templates, which need spec.goTemplate: true; without \
         it, only {{{{name}}}} is replaced"
    )
}

/// The first place of a value with an action, and what to set for it.
pub fn in_value(value: &Value, place: &str) -> Option<String> {
    match value {
        Value::String(text) => first_action(text).map(|at| format!("{place}: {}", go_remedy(at))),
        Value::Array(list) => {
            let mut items = list.iter().enumerate();
            items.find_map(|(index, item)| in_value(item, &format!("{place}[{index}]")))
        }
        Value::Object(object) => {
            let mut fields = object.iter();
            fields.find_map(|(key, item)| in_value(item, &format!("{place}.{key}")))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_of_go_are_told_from_parameters() {
        let cases = [
            ("a {{ .name }}", Some(".name")),
            ("{{name}} {{- if eq .a .b }}x{{ end }}", Some("- if eq .a .b")),
            ("{{ $x }}", Some("$x")),
            ("{{name}} {{ path.basename }} {{values.if}} {{path[0]}}", None),
            ("{{ end }}", None),
            ("{{ .unclosed", None),
            ("", None),
        ];
        for (text, want) in cases {
            assert_eq!(first_action(text), want, "{text}");
        }
    }
}
