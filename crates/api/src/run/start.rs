//! The annotation of an Application that names the run which started it last.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Raw;
use crate::annotations::{RUN, annotation_of};

/// The start of an Application by a run, as the JSON of the annotation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunStart {
    /// The name of the run.
    pub run: String,
    /// The digest of the generated spec.
    pub spec: String,
    /// The revisions of the target; empty when the sync resolved them.
    pub revisions: Vec<String>,
    /// The promotion, in RFC 3339.
    pub at: String,
    /// The health before the first promotion in the run.
    pub before: String,
    /// The last good revisions, one for each source; empty if unknown.
    #[serde(default)]
    pub good: Vec<String>,
    /// The digest of the generated spec without its revisions.
    #[serde(default)]
    pub base: String,
    /// Whether this start takes it back to the good revisions (ST-061).
    #[serde(default)]
    pub goes_back: bool,
    /// The UID of the Application: what a copied or restored one carries does not apply.
    pub uid: String,
}

impl RunStart {
    /// What the Application carries; `None` when that is absent, unreadable, or of another object.
    pub fn of(application: &Value) -> Option<Self> {
        Self::parse(annotation_of(application, RUN)?, application.uid())
    }

    /// The same of the annotation's value and the UID of the Application.
    pub fn parse(text: &str, uid: &str) -> Option<Self> {
        let start: Self = serde_json::from_str(text).ok()?;
        (start.uid == uid).then_some(start)
    }

    /// The annotation's value.
    pub fn text(&self) -> String {
        // A struct of texts can always be serialized.
        serde_json::to_string(self).unwrap_or_default()
    }
}
