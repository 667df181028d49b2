//! Control characters and bidirectional characters are escaped in all formats.

use super::*;

/// A control sequence introducer, a bidirectional override, and DEL.
const HOSTILE: &str = "a\u{9b}31m\u{202e}b\u{7f}";

fn raw(text: &str) -> Vec<char> {
    let hostile = |c: &char| {
        (c.is_control() && *c != '\n')
            || matches!(c, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().filter(hostile).collect()
}

fn hostile_set() -> String {
    let mut set: Value = serde_json::from_str(&set(&["a"], json!([{}]))).unwrap();
    set["spec"]["template"]["metadata"]["annotations"] =
        json!({"note": HOSTILE, "lines": format!("one\ntwo {HOSTILE}\n")});
    set["spec"]["template"]["spec"]["project"] = json!(HOSTILE);
    set["spec"][HOSTILE] = json!(1);
    set.to_string()
}

#[test]
fn every_format_escapes_control_characters() {
    for command in ["render", "plan"] {
        for format in ["json", "yaml", "table"] {
            let run = with_input(&[command, "-f", "-", "-o", format], hostile_set());
            assert_eq!(run.code, 1, "{}", run.err);
            assert_eq!(raw(&run.out), Vec::<char>::new(), "{command} -o {format}: {}", run.out);
            assert_eq!(raw(&run.err), Vec::<char>::new(), "{command} -o {format}: {}", run.err);
            let both = run.out + &run.err;
            assert!(both.contains("9b") && both.contains("202e"), "{command} -o {format}: {both}");
        }
    }
}

#[test]
fn escaped_text_can_be_parsed() {
    let json = with_input(&["render", "-f", "-", "-o", "json"], hostile_set());
    let application = &json.json()["items"][0];
    let yaml = with_input(&["render", "-f", "-", "-o", "yaml"], hostile_set());
    assert_eq!(wavegate_api::yaml::parse_value(&yaml.out).unwrap(), *application, "{}", yaml.out);
    assert_eq!(application["metadata"]["annotations"]["note"], HOSTILE);
    assert!(json.out.contains("\\u009b31m\\u202e"), "{}", json.out);
    assert!(yaml.out.contains("note: \"a\\u009b31m\\u202eb\\u007f\""), "{}", yaml.out);
}

#[test]
fn errors_escape_arguments_and_file_names() {
    let wrong = format!("--{HOSTILE}");
    let cases: [&[&str]; 3] =
        [&["plan", &wrong], &["plan", "-f", HOSTILE], &["render", "-f", "-", "-o", HOSTILE]];
    for arguments in cases {
        let run = wavegate(arguments);
        assert_eq!(run.code, 2, "{}", run.err);
        assert_eq!(raw(&run.err), Vec::<char>::new(), "{arguments:?}: {}", run.err);
        assert!(run.err.contains("\\u{9b}31m\\u{202e}"), "{}", run.err);
    }
}
