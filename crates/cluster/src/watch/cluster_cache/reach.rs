//! The part of a cluster that is read.

use std::collections::BTreeSet;

use wavegate_api::resource_filter::KindFilter;

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

/// The part of a cluster that is read, and how much is written at once. The default is all of it.
#[derive(Clone, Debug, Default)]
pub struct ClusterReach {
    /// The only namespaces whose objects are read, for a user who may not list a whole
    /// cluster; `None` for all. Cluster-scoped objects are read when they are named.
    pub namespaces: Option<BTreeSet<String>>,
    /// How kinds are searched that no manifest names.
    pub survey: SurveyMode,
    /// Whether cluster-scoped objects are never read, named or not (SE-433).
    pub namespaced_only: bool,
    /// Whether cluster-scoped kinds that no manifest names are searched although the
    /// namespaces are limited.
    pub cluster_resources: bool,
    /// How many writes are sent to it at once (SE-566); 0 is no limit.
    pub writes: usize,
    /// The kinds that are not read at all (SE-120).
    pub filter: KindFilter,
}

impl ClusterReach {
    /// Where a kind is listed: `None` stands for the whole cluster.
    pub(super) fn of(&self, namespaced: bool) -> Vec<Option<String>> {
        match &self.namespaces {
            _ if !namespaced && self.namespaced_only => Vec::new(),
            Some(namespaces) if namespaced => namespaces.iter().cloned().map(Some).collect(),
            Some(_) | None => vec![None],
        }
    }

    /// Whether kinds that no manifest names are searched, by their scope.
    pub(super) fn surveys(&self, namespaced: bool) -> bool {
        // Users of some namespaces may not list kinds outside of them.
        namespaced || self.namespaces.is_none() || self.cluster_resources
    }

    /// All places where a kind may be listed.
    pub(super) fn places(&self) -> impl Iterator<Item = Option<String>> + '_ {
        let named = self.namespaces.iter().flatten().cloned().map(Some);
        std::iter::once(None).chain(named)
    }
}
