//! Parts of commands that are printed for users to paste.

use std::sync::OnceLock;

/// The kube context that the user gave to this command.
static CONTEXT: OnceLock<Option<String>> = OnceLock::new();

/// Records the kube context that the user gave: printed commands are for the same cluster.
pub(super) fn use_context(given: Option<&str>) {
    CONTEXT.get_or_init(|| given.map(str::to_owned));
}

/// The options that select the cluster of the control plane, as the user gave them, and a
/// namespace; with a blank at the end.
pub(super) fn in_namespace(namespace: &str) -> String {
    let context = match CONTEXT.get().and_then(|context| context.as_deref()) {
        Some(context) => format!("--context {} ", word(context)),
        None => String::new(),
    };
    if namespace.is_empty() { context } else { format!("{context}-n {} ", word(namespace)) }
}

/// A word of a shell: quoted if a shell would interpret it.
pub(super) fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._:/@+=-".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}
