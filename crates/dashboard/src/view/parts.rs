//! A view in parts: what an open page exchanges when it has changed, each by its id.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Serialize;

/// The id of the element that holds the parts of a view.
pub(crate) const ROOT: &str = "main";

/// A part of a view: an element with an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// It is exchanged as a whole.
    Leaf { id: String, html: String },
    /// It holds others, which are exchanged one by one.
    Group { id: String, open: String, close: &'static str, parts: Vec<Part> },
}

impl Part {
    pub fn leaf(id: impl Into<String>, html: maud::Markup) -> Self {
        Self::Leaf { id: id.into(), html: html.into_string() }
    }

    /// A group whose element has this name and class.
    pub fn group(
        id: impl Into<String>,
        (open, close): (maud::Markup, &'static str),
        parts: Vec<Self>,
    ) -> Self {
        Self::Group { id: id.into(), open: open.into_string(), close, parts }
    }

    fn id(&self) -> &str {
        let (Self::Leaf { id, .. } | Self::Group { id, .. }) = self;
        id
    }

    /// Its HTML.
    pub fn write(&self, out: &mut String) {
        match self {
            Self::Leaf { html, .. } => out.push_str(html),
            Self::Group { open, close, parts, .. } => {
                out.push_str(open);
                parts.iter().for_each(|part| part.write(out));
                out.push_str(close);
            }
        }
    }
}

/// What an open page has of a view: the hash of each leaf, and the order in each group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    leaves: BTreeMap<String, u64>,
    groups: BTreeMap<String, Vec<String>>,
}

/// What an open page has to exchange.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Exchange {
    /// Group, id and HTML of what is new or has changed.
    pub swap: Vec<(String, String, String)>,
    /// Groups with the ids that they hold now, in order.
    pub order: Vec<(String, Vec<String>)>,
}

impl Exchange {
    pub fn is_empty(&self) -> bool {
        self.swap.is_empty() && self.order.is_empty()
    }
}

impl Shown {
    /// What a page that shows all of these parts has.
    pub fn of(parts: &[Part]) -> Self {
        let mut shown = Self::default();
        shown.take(ROOT, parts, &mut Exchange::default());
        shown
    }

    /// Takes the parts as they are now; what a page with the former ones has to exchange.
    pub fn exchange(&mut self, parts: &[Part]) -> Exchange {
        let mut exchange = Exchange::default();
        let mut ids = BTreeSet::new();
        collect_ids(parts, &mut ids);
        self.take(ROOT, parts, &mut exchange);
        self.leaves.retain(|id, _| ids.contains(id.as_str()));
        self.groups.retain(|id, _| id == ROOT || ids.contains(id.as_str()));
        exchange
    }

    fn take(&mut self, group: &str, parts: &[Part], exchange: &mut Exchange) {
        for part in parts {
            match part {
                Part::Leaf { id, html } => {
                    let mut hasher = DefaultHasher::new();
                    html.hash(&mut hasher);
                    let hash = hasher.finish();
                    if self.leaves.insert(id.clone(), hash) != Some(hash) {
                        exchange.swap.push((group.to_owned(), id.clone(), html.clone()));
                    }
                }
                Part::Group { id, open, close, parts } => {
                    if !self.groups.contains_key(id) {
                        exchange.swap.push((
                            group.to_owned(),
                            id.clone(),
                            format!("{open}{close}"),
                        ));
                    }
                    self.take(id, parts, exchange);
                }
            }
        }
        let order: Vec<String> = parts.iter().map(|part| part.id().to_owned()).collect();
        if self.groups.get(group) != Some(&order) {
            exchange.order.push((group.to_owned(), order.clone()));
            self.groups.insert(group.to_owned(), order);
        }
    }
}

fn collect_ids<'a>(parts: &'a [Part], ids: &mut BTreeSet<&'a str>) {
    for part in parts {
        ids.insert(part.id());
        if let Part::Group { parts, .. } = part {
            collect_ids(parts, ids);
        }
    }
}

#[cfg(test)]
mod tests {
    use maud::html;

    use super::*;

    fn row(id: &str, text: &str) -> Part {
        Part::leaf(id, html! { p id=(id) { (text) } })
    }

    fn rows(parts: Vec<Part>) -> Vec<Part> {
        vec![row("head", "head"), Part::group("rows", (html! {}, ""), parts)]
    }

    /// PG-031: a change exchanges what changed, and nothing else.
    #[test]
    fn only_what_changed_is_exchanged() {
        let before = rows(vec![row("a", "1"), row("b", "1"), row("c", "1")]);
        let after = rows(vec![row("c", "1"), row("a", "2"), row("d", "1")]);
        let mut shown = Shown::of(&before);
        assert!(shown.exchange(&before).is_empty());
        let exchange = shown.exchange(&after);
        let swapped: Vec<_> =
            exchange.swap.iter().map(|(group, id, _)| (group.as_str(), id.as_str())).collect();
        assert_eq!(swapped, [("rows", "a"), ("rows", "d")]);
        assert_eq!(
            exchange.order,
            [("rows".to_owned(), ["c", "a", "d"].map(str::to_owned).to_vec())]
        );
        assert_eq!(shown, Shown::of(&after));
        // What was gone is new again.
        assert_eq!(shown.exchange(&before).swap.len(), 2);
    }
}
