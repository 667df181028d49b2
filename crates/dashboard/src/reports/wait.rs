//! A wait for an Application, as `explain` reports it.

use super::objects::PageObject;

/// A wait for an Application (`explain`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitDocument {
    /// The Application.
    pub application: String,
    /// Its step, counted from 1.
    pub step: Option<usize>,
    /// Phase, sync and health in words.
    pub words: String,
    /// The kind of the wait.
    pub kind: String,
    /// Who ends it, in words.
    pub ended_by: String,
    /// The reason.
    pub reason: String,
    /// What is below it, such as a Pod; may be empty.
    pub cause: String,
    /// Its start.
    pub since: String,
    /// Its latest end.
    pub until: String,
    /// What a person may do.
    pub advice: Vec<String>,
    /// Applications that have resources of it as theirs, too.
    pub others: Vec<PageObject>,
    /// The end of the log of its Pod, where one is the cause.
    pub log: Option<LogDocument>,
}

/// The end of the log of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogDocument {
    /// The Pod with its container.
    pub of: String,
    /// The lines; empty when it has none, or cannot be read.
    pub lines: String,
    /// Why it cannot be read; empty otherwise.
    pub unread: String,
}
