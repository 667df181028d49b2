//! Answers over the network that wait to be read: how many bytes of them there may be.

use hyper::body::Bytes;
use tokio::sync::OwnedSemaphorePermit;

/// Kibibytes of answers over the network that may wait to be read. Further
/// requests are refused with 429, and watches wait.
pub(super) const UNREAD_LIMIT: usize = 256 << 10;

/// Smaller answers are not counted.
const SMALL: usize = 64 << 10;

/// An answer that counts as unread until it has been handed to the network.
pub(super) struct Unread {
    bytes: Bytes,
    _permit: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Unread {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Unread {
    pub fn held(bytes: Bytes, permit: OwnedSemaphorePermit) -> Bytes {
        Bytes::from_owner(Self { bytes, _permit: permit })
    }

    /// How many permits so many bytes need; none for few of them.
    pub fn permits(bytes: usize) -> u32 {
        let kibibytes = if bytes > SMALL { bytes.div_ceil(1 << 10) } else { 0 };
        // One that is larger than the limit takes all of it.
        u32::try_from(kibibytes.min(UNREAD_LIMIT)).unwrap_or(u32::MAX)
    }
}
