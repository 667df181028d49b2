//! Outcomes of the writes of a reconcile.

use std::fmt;

use crate::rollout::snapshot::Unwritten;

/// What was done to one Application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteAct {
    /// It was created.
    Create,
    /// Its spec or metadata was patched.
    Update,
    /// Its operation was started, possibly with a patch of its spec.
    Start,
    /// A refresh was requested or a rollout record was written.
    Annotate,
    /// The finalizer for its resources was removed, before its deletion.
    Release,
    /// It was deleted.
    Delete,
}

/// The outcome of one write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteOutcome {
    /// The Application's name.
    pub application: String,
    /// The attempted write.
    pub act: WriteAct,
    /// The result.
    pub ended: Ended,
}

/// The result of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It succeeded.
    Written,
    /// The Application has changed in the meantime or is gone: the next
    /// reconcile decides again.
    Outdated,
    /// A deletion that was skipped because another write failed.
    Held,
    /// It failed.
    Failed(WriteFailure),
}

/// The error of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteFailure {
    /// The status code of the response; `None` without a response, 0 if no request was
    /// sent.
    pub code: Option<u16>,
    /// The reason, for users.
    pub text: String,
}

/// `422: the server's words`, without a code if the server gave none.
impl fmt::Display for WriteFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            None | Some(0) => f.write_str(&self.text),
            Some(code) => write!(f, "{code}: {}", self.text),
        }
    }
}

impl WriteFailure {
    /// The failure as the rollout reports it.
    pub fn unwritten(&self) -> Unwritten {
        Unwritten { why: self.to_string(), is_refused: self.code == Some(0) }
    }

    /// Whether another failure has the same cause. Without a response, its text
    /// may contain a port or a time that differ between tries.
    pub fn is_same(&self, other: &Self) -> bool {
        self.code == other.code && (self.code.is_none() || self.text == other.text)
    }
}

impl WriteOutcome {
    /// Whether deletions wait for it: a part of a generated Application is not
    /// in the cluster. Our annotations are not a part of it.
    pub fn is_lacking(&self) -> bool {
        self.act != WriteAct::Annotate && self.ended != Ended::Written
    }

    /// The error, if it failed.
    pub fn failure(&self) -> Option<&WriteFailure> {
        match &self.ended {
            Ended::Failed(cause) => Some(cause),
            Ended::Written | Ended::Outdated | Ended::Held => None,
        }
    }
}
