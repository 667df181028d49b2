//! What Argo CD has and Wavegate does not do: settings, fields and annotations, each refused
//! where it is used or reported as without effect. The reference of users is generated from
//! these tables (docs/reference/argocd-settings.md), and a test compares them with the
//! definitions and with what is read. Their rows are in `unused.txt`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

const TEXT: &str = include_str!("unused.txt");

/// What becomes of something that is not honoured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnusedEffect {
    /// The objects that use it are refused, with a condition or an error that names it.
    Refused,
    /// It has no effect, which the log or a condition of the objects that use it says.
    None,
}

/// One name, or several with the same reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unused {
    /// Variables, keys, annotations, or paths of fields from the kind, without `[]`. One that
    /// ends with a dot stands for all that begin with it.
    pub names: Vec<&'static str>,
    /// What becomes of it.
    pub effect: UnusedEffect,
    /// The reason, or what happens instead.
    pub why: &'static str,
}

/// Variables and keys of ConfigMaps that are reported in the log when they are set (SE-560 to
/// SE-579), besides those that the flags of the ApplicationSet controller have, too.
pub static SETTINGS: LazyLock<Vec<Unused>> = LazyLock::new(|| rows("settings"));

/// Settings that a SyncWarning reports on the Applications whose resources they concern
/// (SE-480).
pub static REPORTED_SETTINGS: LazyLock<Vec<Unused>> = LazyLock::new(|| rows("reported settings"));

/// Fields of objects. What lies below a field is as the field.
pub static FIELDS: LazyLock<Vec<Unused>> = LazyLock::new(|| rows("fields"));

/// Annotations, and fields of Secrets.
pub static ANNOTATIONS: LazyLock<Vec<Unused>> = LazyLock::new(|| rows("annotations"));

/// The lines of a section.
fn section(title: &str) -> impl Iterator<Item = &'static str> {
    let lines = TEXT.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let title = format!("[{title}]");
    lines.skip_while(move |line| *line != title).skip(1).take_while(|line| !line.starts_with('['))
}

/// The rows of a section.
pub(super) fn rows(title: &str) -> Vec<Unused> {
    let reasons: BTreeMap<&str, &str> =
        section("reasons").filter_map(|line| line.split_once(' ')).collect();
    let mut rows: Vec<Unused> = Vec::new();
    for line in section(title) {
        let effect = match line.split_once(' ') {
            Some(("=", why)) => Some((UnusedEffect::None, why)),
            Some(("!", why)) => Some((UnusedEffect::Refused, why)),
            _ => None,
        };
        if let Some((effect, why)) = effect {
            let named = why.strip_prefix('@').and_then(|name| reasons.get(name));
            rows.push(Unused { names: Vec::new(), effect, why: named.copied().unwrap_or(why) });
        } else if let Some(row) = rows.last_mut() {
            row.names.push(line);
        }
    }
    rows
}

/// The names of the settings that are set, each with the reason why it has no effect.
pub(super) fn without_effect(
    environment: &dyn Fn(&str) -> Option<String>,
    config_map: &BTreeMap<String, String>,
) -> Vec<String> {
    let is_set = |text: &String| !text.trim().is_empty();
    let mut lines = Vec::new();
    // The first row about a key counts: the others are about all that begin like it.
    let mut reported = BTreeSet::new();
    for Unused { names, why, .. } in SETTINGS.iter().chain(REPORTED_SETTINGS.iter()) {
        for name in names {
            let line = |name: &str| format!("{name} is accepted without effect: {why}");
            if name.starts_with(|first: char| first.is_ascii_uppercase()) {
                lines.extend(environment(name).filter(is_set).map(|_| line(name)));
                continue;
            }
            let matches = |key: &str| match name.strip_suffix('.') {
                Some(_) => key.starts_with(name),
                None => key == *name,
            };
            let set = config_map.iter().filter(|(key, text)| matches(key) && is_set(text));
            let new = set.filter(|(key, _)| reported.insert(key.as_str()));
            lines.extend(new.map(|(key, _)| line(key)));
        }
    }
    lines
}
