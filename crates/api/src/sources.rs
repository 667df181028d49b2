//! The sources of an Application that are in effect, and their revisions.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::source::SourceHydrator;
use super::{ApplicationSource, Raw};

/// The sources that an Application is compared with and synced from: for hydrated
/// manifests the branch that they are synced from, else `sources` when it has items, else
/// `source` (SE-010, SE-011, SE-029).
#[derive(Clone, Debug, PartialEq)]
pub struct InEffect<'a> {
    /// The field that holds them in a status, a result or an operation: `source` or
    /// `sources`. That of a hydrated source is `source`, as in Argo CD.
    pub field: &'static str,
    /// One source, which is null when the spec has none, or those of `sources`.
    pub list: Cow<'a, [Value]>,
}

impl<'a> InEffect<'a> {
    /// Those of a raw spec.
    pub fn of(spec: &'a Value) -> Self {
        if let Some(source) = hydrated(&spec["sourceHydrator"]) {
            return Self { field: "source", list: Cow::Owned(vec![source]) };
        }
        match spec["sources"].as_array().filter(|sources| !sources.is_empty()) {
            Some(sources) => Self { field: "sources", list: Cow::Borrowed(sources) },
            None => {
                let source = std::slice::from_ref(&spec["source"]);
                Self { field: "source", list: Cow::Borrowed(source) }
            }
        }
    }

    /// Whether `sources` is in effect.
    pub fn is_list(&self) -> bool {
        self.field == "sources"
    }

    /// The value of the field.
    pub fn value(&self) -> Value {
        match self.is_list() {
            true => Value::Array(self.list.to_vec()),
            false => self.list.first().cloned().unwrap_or_default(),
        }
    }
}

/// The revisions in a request, a result, an entry of the history or a sync status: those of
/// `revisions` if one is set, else `revision`; empty for none (AS-351).
pub fn listed_revisions(of: &Value) -> Vec<String> {
    let list = of.items("/revisions").iter().filter_map(Value::as_str);
    let list: Vec<String> = list.map(str::to_owned).collect();
    listed(of.field("revision"), &list)
}

/// The revisions that an Application was compared with last.
pub fn compared_revisions(application: &Value) -> Vec<String> {
    application.pointer("/status/sync").map(listed_revisions).unwrap_or_default()
}

/// Gives a type with these fields its revisions.
macro_rules! with_revisions {
    ($module:ident::$name:ident) => {
        impl super::$module::$name {
            /// The revisions, by source: `revisions` if one of them is set, else `revision` as the
            /// only item; empty when neither is set (AS-351).
            pub fn revisions(&self) -> Vec<String> {
                listed(&self.revision, &self.revisions)
            }
        }
    };
}

with_revisions!(app_status::SyncStatus);
with_revisions!(app_status::RevisionHistory);
with_revisions!(app_view::SyncResultView);
with_revisions!(live::LiveSyncStatus);
with_revisions!(live::LiveSyncResult);
with_revisions!(live::LiveSync);
with_revisions!(operation::SyncOperation);
with_revisions!(operation::SyncOperationResult);
with_revisions!(operation::SyncRequestView);

/// The same of typed fields.
fn listed(revision: &str, revisions: &[String]) -> Vec<String> {
    match revisions.iter().any(|revision| !revision.is_empty()) {
        true => revisions.to_vec(),
        false => {
            Some(revision).filter(|one| !one.is_empty()).map(str::to_owned).into_iter().collect()
        }
    }
}

/// The fields `revision` and `revisions`: the latter is that of several sources.
pub fn by_field(many: bool, revisions: &[String]) -> (String, Vec<String>) {
    match many {
        true => (String::new(), revisions.to_vec()),
        false => (revisions.first().cloned().unwrap_or_default(), Vec::new()),
    }
}

/// Replaces `sourceHydrator` of a raw spec, if there is one, by the source in effect.
pub fn in_place_of_hydrator(spec: &mut Value) {
    let Some(source) = hydrated(&spec["sourceHydrator"]) else { return };
    if let Some(fields) = spec.as_object_mut() {
        fields.remove("sourceHydrator");
        fields.remove("sources");
        fields.insert("source".to_owned(), source);
    }
}

/// The source that hydrated manifests are synced from; `None` without `sourceHydrator`.
/// Its repository is that of the dry source unless it names another one.
fn hydrated(hydrator: &Value) -> Option<Value> {
    if !hydrator.is_object() {
        return None;
    }
    let (dry, sync) = (&hydrator["drySource"], &hydrator["syncSource"]);
    let own = sync["repoURL"].as_str().is_some_and(|url| !url.is_empty());
    let repository = if own { &sync["repoURL"] } else { &dry["repoURL"] };
    Some(json!({
        "repoURL": repository, "path": sync["path"], "targetRevision": sync["targetBranch"],
    }))
}

/// The same of a typed spec.
pub(super) fn typed(hydrator: &SourceHydrator) -> ApplicationSource {
    let raw = json!({"drySource": hydrator.dry_source, "syncSource": hydrator.sync_source});
    let source = hydrated(&raw).unwrap_or_default();
    let text = |field: &str| source[field].as_str().unwrap_or_default().to_owned();
    ApplicationSource {
        repo_url: text("repoURL"),
        path: text("path"),
        target_revision: text("targetRevision"),
        ..ApplicationSource::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ApplicationSpec;

    #[test]
    fn hydrated_manifests_come_before_sources_and_those_before_the_source() {
        let hydrator = |sync: Value| {
            json!({
                "drySource": {"repoURL": "r", "path": "dry", "targetRevision": "HEAD"},
                "syncSource": sync,
            })
        };
        let one = |repository: &str| json!({"repoURL": repository, "path": "p", "targetRevision": "environments/prod"});
        let branch = json!({"targetBranch": "environments/prod", "path": "p"});
        let other = json!({"targetBranch": "environments/prod", "path": "p", "repoURL": "other"});
        let empty = json!({"targetBranch": "environments/prod", "path": "p", "repoURL": ""});
        let two = json!([{"repoURL": "a", "path": "p"}, {"repoURL": "b", "path": "p"}]);
        let cases = [
            ("one source", json!({"source": one("s")}), "source", one("s")),
            ("several", json!({"source": one("s"), "sources": two}), "sources", two.clone()),
            ("none of several", json!({"source": one("s"), "sources": []}), "source", one("s")),
            ("hydrated", json!({"sourceHydrator": hydrator(branch.clone())}), "source", one("r")),
            (
                "hydrated, beside both others",
                json!({"sourceHydrator": hydrator(branch), "source": one("s"), "sources": two}),
                "source",
                one("r"),
            ),
            (
                "hydrated to another repository",
                json!({"sourceHydrator": hydrator(other)}),
                "source",
                one("other"),
            ),
            (
                "an empty repository is none",
                json!({"sourceHydrator": hydrator(empty)}),
                "source",
                one("r"),
            ),
        ];
        for (name, spec, field, want) in cases {
            let found = InEffect::of(&spec);
            assert_eq!(found.field, field, "{name}");
            let typed: ApplicationSpec = crate::read_typed(&spec).unwrap();
            let urls: Vec<String> =
                typed.sources().iter().map(|source| source.repo_url.clone()).collect();
            let raw: Vec<&str> =
                found.list.iter().filter_map(|source| source["repoURL"].as_str()).collect();
            assert_eq!(urls, raw, "{name}");
            assert_eq!(found.value(), want, "{name}");
        }
    }
}
