//! What became of the writes of a reconcile.

/// What was done to one Application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// It was created.
    Create,
    /// Its spec or metadata was patched.
    Update,
    /// Its operation was started, maybe with a patch of its spec.
    Start,
    /// It was asked to be compared again, or something was recorded of it.
    Annotate,
    /// It was deleted.
    Delete,
}

/// What became of one write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The Application's name.
    pub application: String,
    /// What was tried.
    pub act: Act,
    /// How it ended.
    pub ended: Ended,
}

/// How a write ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It took effect.
    Written,
    /// The Application changed in the meantime, or is gone: the next reconcile
    /// decides anew.
    Outdated,
    /// It was not tried: a deletion, and something else was not written.
    Held,
    /// It failed.
    Failed(Cause),
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The status code of the answer; `None` when there was none.
    pub code: Option<u16>,
    /// The reason, for people.
    pub text: String,
}

impl Cause {
    /// Whether another failure is the same one again. Without an answer its text
    /// may name a port or a time, which differ from try to try.
    pub fn is_same(&self, other: &Self) -> bool {
        self.code == other.code && (self.code.is_none() || self.text == other.text)
    }
}

impl Outcome {
    /// Whether deletions wait for it: a part of the generation that is not in
    /// the cluster. Annotations of ours are no part of it.
    pub fn is_lacking(&self) -> bool {
        self.act != Act::Annotate && self.ended != Ended::Written
    }

    /// Why it failed, if it did.
    pub fn failure(&self) -> Option<&Cause> {
        match &self.ended {
            Ended::Failed(cause) => Some(cause),
            Ended::Written | Ended::Outdated | Ended::Held => None,
        }
    }
}
