//! What the API server answered to the dry runs of a comparison (SE-158).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use wavegate_api::resource_key::ResourceKey;

/// What the server said about an object.
#[derive(Clone, Debug)]
pub enum Prediction {
    /// What it would be after the apply, and a digest of it.
    Answer(Arc<Value>, u64),
    /// Why the dry run failed.
    Failed(String),
}

/// The predictions for the objects of an Application.
pub type Predicted = BTreeMap<ResourceKey, Prediction>;
