//! The part of a cluster that is read.

use std::collections::BTreeSet;

/// Whether kinds that no manifest names are searched for tracked objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SurveyMode {
    /// In the background.
    #[default]
    Background,
    /// Before anything is decided: what is pruned is known from the start.
    First,
    /// Only kinds that are named are read.
    Never,
}

/// The part of a cluster that is read. The default is all of it.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    /// The only namespaces whose objects are read, for a user who may not list a whole
    /// cluster; `None` for all. Cluster-scoped objects are read when they are named.
    pub namespaces: Option<BTreeSet<String>>,
    /// How kinds are searched that no manifest names.
    pub survey: SurveyMode,
}

impl Reach {
    /// Where a kind is listed: `None` stands for the whole cluster.
    pub(super) fn of(&self, namespaced: bool) -> Vec<Option<String>> {
        match &self.namespaces {
            Some(namespaces) if namespaced => namespaces.iter().cloned().map(Some).collect(),
            Some(_) | None => vec![None],
        }
    }

    /// All places where a kind may be listed.
    pub(super) fn places(&self) -> impl Iterator<Item = Option<String>> + '_ {
        let named = self.namespaces.iter().flatten().cloned().map(Some);
        std::iter::once(None).chain(named)
    }
}
