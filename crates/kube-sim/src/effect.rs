//! What faults do, as plain data.

use std::time::Duration;

/// What a fault does to the request that it matches.
///
/// Those of several faults add up, in the order in which they were injected, up
/// to the first that does not carry the request out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Answers after this time, otherwise as usual.
    Latency(Duration),
    /// Refuses with this HTTP code and does nothing (429 comes with `Retry-After: 1`).
    Status(u16),
    /// The same with this number of seconds as `Retry-After`.
    StatusRetryAfter(u16, u32),
    /// Refuses as the server does to a client without the permission, and does nothing.
    /// Watches that are open stay open.
    Forbidden,
    /// Answers that the object does not exist, with its name, and does nothing. A
    /// [`Self::Status`] of 404 names no object: then it is the kind that is not served.
    Absent,
    /// Leaves out resources of this plural name where the answer is discovery; nothing to other
    /// requests. With a [`Self::Status`] of 404 for the resource, its definition is gone.
    Unlisted(&'static str),
    /// Fails the connection and does nothing.
    Drop,
    /// Never answers and does nothing: the client has to give up.
    Hang,
    /// Carries the request out and answers after this time.
    LatencyAfterApplying(Duration),
    /// Carries the request out and answers with this HTTP code, such as 504.
    StatusAfterApplying(u16),
    /// Carries the request out and then fails the connection: the client cannot know.
    DropAfterApplying,
    /// Carries the request out and never answers.
    HangAfterApplying,
    /// Carries the request out and fails the connection in the middle of the answer's body.
    CutAnswer,
    /// Makes something happen to a watch as soon as it is open; nothing to other requests.
    Disturb(Disturbance),
}

/// What happens to a watch that is open, by
/// [`Server::disturb`](crate::Server::disturb), or as soon as it is, by
/// [`Effect::Disturb`](crate::Effect::Disturb).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// Sends nothing for this time, not even bookmarks, and then all that was missed.
    /// With [`Duration::MAX`] nothing comes ever again, and the connection stays open
    /// even when the time of the watch is over, as when the other end is gone.
    Silence(Duration),
    /// Sends everything this much later than it happens, from now on; zero ends that.
    Delay(Duration),
    /// Sends as many of the last events once more, oldest first.
    Repeat(usize),
    /// Sends an `ERROR` event with the code 410, and ends.
    Expire,
    /// Ends, as when its time is over.
    Close,
    /// Fails the connection in the middle of an event.
    Cut,
}

/// The connection was cut on purpose: see [`Effect::DropAfterApplying`](super::Effect::DropAfterApplying).
#[derive(Debug, thiserror::Error)]
#[error("connection reset by the embedded API server, as an injected fault asks")]
pub struct Dropped;
