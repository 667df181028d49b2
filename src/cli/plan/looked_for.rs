//! What a generator that finds nothing has looked for, in words.

use serde_json::Value;

use wavegate_api::Raw;

/// The most patterns that are named.
const PATTERNS: usize = 5;

/// What the generator at this path of a set looks for, such as `: no directory fits apps/* at main of
/// https://git.example/apps`; empty where the place says it all.
pub(super) fn looked_for(set: &Value, place: &str) -> String {
    let pointer = format!("/{}", place.replace('[', "/").replace(']', "").replace('.', "/"));
    let Some(generator) = set.pointer(&pointer) else { return String::new() };
    let patterns = |list: &str| -> Vec<&str> {
        let all = generator.items(&format!("/{list}")).iter();
        let kept = all.filter(|one| one["exclude"] != Value::Bool(true));
        kept.map(|one| one.field("path")).filter(|path| !path.is_empty()).take(PATTERNS).collect()
    };
    let (directories, files) = (patterns("directories"), patterns("files"));
    let (what, patterns) =
        if files.is_empty() { ("directory", directories) } else { ("file", files) };
    let url = generator.field("repoURL");
    if patterns.is_empty() || url.is_empty() {
        return String::new();
    }
    let revision = match generator.field("revision") {
        "" => "HEAD",
        revision => revision,
    };
    format!(": no {what} fits {} at {revision} of {url}", patterns.join(", "))
}
