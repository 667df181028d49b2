//! What the rules see of an object.

use kube::api::{DynamicObject, ObjectMeta};
use serde_json::Value;

/// An object as the rules see it; a part that it lacks is `Value::Null`.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// Names, labels, annotations, generation.
    pub metadata: &'a ObjectMeta,
    /// The `spec` as it is stored.
    pub spec: &'a Value,
    /// The `status` as it is stored.
    pub status: &'a Value,
}

/// How far the work on an object has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadStage {
    /// At work; not ready yet.
    Progressing,
    /// Ready, available, completed or bound.
    Succeeded,
    /// Failed in the way of the kind.
    Failed,
}

impl<'a> View<'a> {
    /// The parts of `object`.
    pub fn new(object: &'a DynamicObject) -> Self {
        Self {
            metadata: &object.metadata,
            spec: &object.data["spec"],
            status: &object.data["status"],
        }
    }

    /// `metadata.name`, empty when absent.
    pub fn name(&self) -> &'a str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// `metadata.generation`, 0 when absent.
    pub fn generation(&self) -> i64 {
        self.metadata.generation.unwrap_or(0)
    }

    /// `spec.replicas`, which the API server sets to 1 when absent.
    pub fn replicas(&self) -> i64 {
        self.spec["replicas"].as_i64().unwrap_or(1)
    }

    /// The status condition of type `kind`, or null.
    pub fn condition(&self, kind: &str) -> &'a Value {
        static ABSENT: Value = Value::Null;
        let conditions = self.status["conditions"].as_array().map_or(&[][..], Vec::as_slice);
        conditions.iter().find(|condition| condition["type"] == kind).unwrap_or(&ABSENT)
    }
}
