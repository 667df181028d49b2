//! Whether to compare an Application, and how thoroughly (SE-376, SE-377).

use serde_json::Value;

use super::status::compared_to;
use crate::api::annotations::{Refresh, refresh};

/// How thoroughly a comparison looks (SE-376).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Level {
    /// Not at all.
    #[default]
    None,
    /// At the live objects, for the revision that was compared last.
    Live,
    /// Also at the revision; an answer that somebody else got lately will do.
    Revision,
    /// At the newest revision there is.
    Newest,
}

/// A request to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Request {
    /// How thoroughly.
    pub level: Level,
    /// Whether manifests are rendered anew even at the same revision.
    pub hard: bool,
}

impl Request {
    /// A request of this level.
    pub fn new(level: Level) -> Self {
        Self { level, hard: false }
    }

    /// Both requests in one.
    pub fn and(self, other: Self) -> Self {
        Self { level: self.level.max(other.level), hard: self.hard || other.hard }
    }

    /// Whether there is anything to do.
    pub fn is_some(self) -> bool {
        self.level > Level::None
    }
}

/// What the Application itself asks for: by its refresh annotation, or by a
/// spec that is not the one that was compared. `None` when it asks for nothing.
pub fn asked_for(application: &Value) -> Option<Request> {
    if let Some(kind) = refresh(application) {
        return Some(Request { level: Level::Newest, hard: kind == Refresh::Hard });
    }
    let compared = &application["status"]["sync"]["comparedTo"];
    let wanted = compared_to(&application["spec"]);
    let differs = |field: &str| {
        let absent = |value: &Value| {
            value.is_null()
                || value.as_array().is_some_and(Vec::is_empty)
                || value.as_object().is_some_and(serde_json::Map::is_empty)
        };
        let (was, is) = (&compared[field], &wanted[field]);
        was != is && !(absent(was) && absent(is))
    };
    if differs("source") || differs("sources") {
        return Some(Request::new(Level::Newest));
    }
    if differs("destination") || differs("ignoreDifferences") {
        return Some(Request::new(Level::Revision));
    }
    None
}
