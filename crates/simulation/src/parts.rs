//! The parts of watched objects that a simulation reads. There is an event for each change of an
//! object, and most of its text is of no interest here.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

use wavegate_api::annotations::RUN;
use wavegate_api::application_set::{ApplicationSetCondition, RolloutStatus};
use wavegate_api::listed::{ListedOwner, ListedWord};
use wavegate_api::read_leniently;
use wavegate_api::run::RunStart;

/// What is read of the metadata of an object.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct MetadataPart {
    pub name: String,
    pub namespace: String,
    uid: String,
    annotations: BTreeMap<String, String>,
    owner_references: Vec<ListedOwner>,
}

/// An Application: its metadata, the phases, and whether an operation is requested.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ApplicationPart {
    pub metadata: MetadataPart,
    pub operation: Option<IgnoredAny>,
    pub status: ApplicationStatusPart,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ApplicationStatusPart {
    pub sync: ListedWord,
    pub health: ListedWord,
    pub operation_state: OperationPart,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OperationPart {
    pub phase: String,
}

/// A set: its metadata, its conditions, and what its status says of the rollout.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SetPart {
    pub metadata: MetadataPart,
    pub status: SetStatusPart,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SetStatusPart {
    pub conditions: Vec<ApplicationSetCondition>,
    pub rollout: RolloutStatus,
    pub application_status: Vec<EntryPart>,
}

/// An Application in the status of a set.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct EntryPart {
    pub application: String,
    pub status: String,
    pub step: String,
}

impl MetadataPart {
    /// Namespace and name.
    pub fn place(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

impl ApplicationPart {
    /// Namespace and name of its set.
    pub fn set(&self) -> String {
        let owner = self.metadata.owner_references.first();
        format!("{}/{}", self.metadata.namespace, owner.map_or("", |owner| &owner.name))
    }

    /// The start by a run, if there was one.
    pub fn start(&self) -> Option<RunStart> {
        let MetadataPart { uid, annotations, .. } = &self.metadata;
        RunStart::parse(annotations.get(RUN)?, uid)
    }
}

/// All of an object, as the server has written it.
pub(super) fn whole(json: &[u8]) -> Value {
    serde_json::from_slice(json).unwrap_or_default()
}

/// A part of an object; of one with fields of another type what has the right types.
pub(super) fn part<T: DeserializeOwned + Default>(json: &[u8]) -> T {
    serde_json::from_slice(json).unwrap_or_else(|_| read_leniently(&whole(json)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read<T: DeserializeOwned + Default>(object: &Value) -> T {
        part(object.to_string().as_bytes())
    }

    #[test]
    fn what_has_another_type_does_not_hide_the_rest() {
        let metadata = json!({"name": "a", "namespace": "ns", "ownerReferences": [{"name": "s"}]});
        let odd = json!({"metadata": metadata, "operation": {}, "status": {
            "sync": 7, "health": {"status": "Healthy"}, "conditions": 7, "rollout": {"step": 1},
        }});
        let application: ApplicationPart = read(&odd);
        assert_eq!(
            (application.set().as_str(), application.metadata.place().as_str()),
            ("ns/s", "ns/a")
        );
        assert_eq!(application.status.health.status, "Healthy");
        assert!(application.operation.is_some() && application.start().is_none());
        let set: SetPart = read(&odd);
        assert_eq!((set.metadata.place().as_str(), set.status.rollout.step), ("ns/a", 1));
        let bare: ApplicationPart = read(&json!({"metadata": metadata, "operation": null}));
        assert!(bare.operation.is_none() && bare.status.sync.status.is_empty());
    }
}
