//! The approval of deletions that are held: the value of [`APPROVED_DELETIONS`].
//!
//! A person writes the hash of all deletions that are held. The controller appends what each of
//! them is: `HASH:ONE,ANOTHER`, with 8 hexadecimal digits for each Application.
//!
//! [`APPROVED_DELETIONS`]: wavegate_api::annotations::APPROVED_DELETIONS

use std::collections::HashSet;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::application_set::plan::write_plan::Delete;

/// The most Applications that are written beside an approval: 90 kB of the 256 KiB that all
/// annotations of an object may have. Of more, those that are left need another approval.
const MOST: usize = 10_000;

/// What a person has approved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletionApproval<'a> {
    hash: &'a str,
    /// Each Application, once that is recorded.
    each: Option<HashSet<&'a str>>,
}

impl<'a> DeletionApproval<'a> {
    /// From the value of the annotation; `None` when it is empty.
    pub fn read(text: &'a str) -> Option<Self> {
        let (hash, each) = match text.split_once(':') {
            Some((hash, each)) => (hash, Some(each.split(',').collect())),
            None => (text, None),
        };
        (!hash.is_empty()).then_some(Self { hash, each })
    }

    /// The hash that a person has written.
    pub fn hash(&self) -> &'a str {
        self.hash
    }

    /// The approval of these deletions that a person has to write.
    pub fn of(deletes: &[Delete]) -> String {
        let mut hash = Sha256::new();
        for delete in deletes {
            add(&mut hash, delete);
        }
        digits(hash, 8)
    }

    /// Whether it is one of these deletions, and maybe of others: of their names and UIDs, so that
    /// it is none of later Applications of the same names.
    pub fn covers(&self, deletes: &[Delete]) -> bool {
        let is_each =
            |each: &HashSet<&str>| deletes.iter().all(|delete| each.contains(&*one(delete)));
        self.each.as_ref().is_some_and(is_each) || Self::of(deletes) == self.hash
    }

    /// The value to record before these deletions, which it covers; `None` when nothing is to be recorded.
    pub fn recorded(&self, deletes: &[Delete]) -> Option<String> {
        if self.each.is_some() || deletes.len() > MOST {
            return None;
        }
        let each: Vec<String> = deletes.iter().map(one).collect();
        Some(format!("{}:{}", self.hash, each.join(",")))
    }
}

fn add(hash: &mut Sha256, delete: &Delete) {
    hash.update(delete.name.as_bytes());
    hash.update(b" ");
    hash.update(delete.uid.as_bytes());
    hash.update(b"\n");
}

fn one(delete: &Delete) -> String {
    let mut hash = Sha256::new();
    add(&mut hash, delete);
    digits(hash, 4)
}

fn digits(hash: Sha256, bytes: usize) -> String {
    HEXLOWER.encode(&hash.finalize()[..bytes])
}
