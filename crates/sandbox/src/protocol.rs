//! Frames between the pool and a worker: a length of four bytes, then JSON.
//!
//! The pool does not trust a worker: lengths are checked before anything is read, and what
//! is no valid answer is a fault that ends the worker.

use std::io::{self, Read, Write};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{EvalError, EvalLimits, Program};

/// Longest request, in bytes: more than any object of a cluster.
pub(super) const MAX_REQUEST: usize = 64 << 20;

/// What an answer has besides its value, in bytes.
pub(super) const ENVELOPE: usize = 64 << 10;

/// Longest message of an error, in bytes.
const MAX_MESSAGE: usize = 16 << 10;

/// The first frame of a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ready {
    /// What the kernel does not have of the restrictions.
    pub missing: Vec<String>,
}

/// A request, as the worker reads it.
#[derive(Debug, Deserialize)]
pub(super) struct Request {
    pub program: Program,
    pub input: Box<RawValue>,
    /// Limit on memory, in bytes.
    pub memory: u64,
    /// Limit on the CPU time of this request.
    pub time: Duration,
    /// Limit on the value of the answer, in bytes.
    pub output: usize,
}

/// A request, as the pool writes it.
#[derive(Debug, Serialize)]
struct Asked<'a, T: ?Sized> {
    program: Program,
    input: &'a T,
    memory: u64,
    time: Duration,
    output: usize,
}

/// An answer.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Answer {
    pub outcome: Outcome,
    /// The worker ends after this answer.
    pub last: bool,
}

/// What became of a request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Outcome {
    Value(Value),
    Refused(String),
    TooLarge,
    Died(String),
}

impl Outcome {
    pub(super) fn result(self, limits: &EvalLimits) -> Result<Value, EvalError> {
        match self {
            Self::Value(value) => Ok(value),
            Self::Refused(message) => Err(EvalError::Refused(message)),
            Self::TooLarge => Err(EvalError::TooLarge(limits.output)),
            Self::Died(message) => Err(EvalError::Died(message)),
        }
    }
}

/// The bytes of a request.
pub(super) fn request(
    program: Program,
    input: &(impl Serialize + ?Sized),
    limits: &EvalLimits,
) -> Result<Vec<u8>, EvalError> {
    let EvalLimits { time, memory, output } = *limits;
    let asked = Asked { program, input, memory, time, output };
    encode(&asked, MAX_REQUEST).ok_or(EvalError::TooLarge(MAX_REQUEST))
}

/// The frame of a value; `None` when it is longer than `limit`.
pub(super) fn encode(value: &impl Serialize, limit: usize) -> Option<Vec<u8>> {
    let mut bounded = Bounded { bytes: vec![0; 4], limit };
    serde_json::to_writer(&mut bounded, value).ok()?;
    let mut bytes = bounded.bytes;
    let length = u32::try_from(bytes.len() - 4).ok()?;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    Some(bytes)
}

/// The frame of an answer. A value beyond the limit is replaced by that fact, and messages
/// are cut.
pub(super) fn answer(mut outcome: Outcome, last: bool, limit: usize) -> Vec<u8> {
    if let Outcome::Refused(message) | Outcome::Died(message) = &mut outcome {
        message.truncate(message.floor_char_boundary(MAX_MESSAGE));
    }
    let limit = match outcome {
        Outcome::Value(_) => limit.saturating_add(32),
        _ => ENVELOPE * 4,
    };
    encode(&Answer { outcome, last }, limit).unwrap_or_else(|| {
        let short = Answer { outcome: Outcome::TooLarge, last };
        encode(&short, ENVELOPE).unwrap_or_default()
    })
}

/// Reads a frame. `None` at the end of the stream before one.
///
/// # Errors
///
/// When the length exceeds the limit, and those of the stream.
pub(super) fn read(stream: &mut impl Read, limit: usize) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    let first = loop {
        match stream.read(&mut length) {
            // A signal of any child of this process: a wait with a time limit is not resumed by
            // the kernel, whatever the handler asks for.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => break read?,
        }
    };
    if first == 0 {
        return Ok(None);
    }
    stream.read_exact(&mut length[first..])?;
    let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > limit {
        let message = format!("a frame of {length} bytes, of at most {limit}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    // Grows with what arrives, not with what was promised.
    let mut bytes = Vec::new();
    stream.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(bytes))
}

/// Bytes up to a limit.
struct Bounded {
    bytes: Vec<u8>,
    limit: usize,
}

impl Write for Bounded {
    fn write(&mut self, more: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + more.len() > self.limit.saturating_add(4) {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.bytes.extend_from_slice(more);
        Ok(more.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream that is interrupted by a signal before each part of its bytes.
    struct Disturbed<'a>(&'a [u8], bool);

    impl Read for Disturbed<'_> {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let most = bytes.len().min(3);
            self.0.read(&mut bytes[..most])
        }
    }

    #[test]
    fn signals_are_no_end_of_a_frame() {
        let frame = encode(&"an answer", ENVELOPE).unwrap();
        let read = read(&mut Disturbed(&frame, false), ENVELOPE).unwrap();
        assert_eq!(read.as_deref(), Some(&b"\"an answer\""[..]));
    }

    #[test]
    fn a_closed_stream_has_no_frame() {
        assert_eq!(read(&mut Disturbed(&[], false), ENVELOPE).unwrap(), None);
        let cut = read(&mut Disturbed(&[9, 0], false), ENVELOPE).unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof);
    }
}
