//! What every request needs.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use axum::http::{HeaderMap, Method};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::people::People;
use super::visitor::Visitor;
use crate::access::{Denial, PageAccess};
use crate::team::{FormWord, TeamAccess};

/// Requests that are answered at the same time; others wait.
const ANSWERS: usize = 16;

/// Who may ask.
pub(super) enum PageDoor {
    /// The one person who has started it.
    Own(PageAccess, Arc<Visitor>),
    /// All whom the proxy in front of it signs in.
    Team(TeamAccess, Arc<People>),
}

/// What every request needs.
pub(super) struct Page {
    pub door: PageDoor,
    /// Open streams.
    pub open: AtomicUsize,
    pub answers: Semaphore,
    pub stop: CancellationToken,
}

impl Page {
    pub fn new(door: PageDoor, stop: CancellationToken) -> Self {
        Self { door, open: AtomicUsize::new(0), answers: Semaphore::new(ANSWERS), stop }
    }

    /// Whether the request is for this page, and from no other one.
    pub fn check_origin(&self, method: &Method, headers: &HeaderMap) -> Result<(), Denial> {
        match &self.door {
            PageDoor::Own(access, _) => access.check_origin(method, headers),
            PageDoor::Team(access, _) => access.check_origin(method, headers),
        }
    }

    /// The word for the forms of a visitor.
    pub fn form_word(&self, visitor: &Visitor, headers: &HeaderMap) -> Result<FormWord, Denial> {
        match &self.door {
            PageDoor::Own(access, _) => {
                Ok(FormWord { word: access.form_word().to_owned(), cookie: None })
            }
            PageDoor::Team(access, _) => access.form_word(&visitor.key, headers),
        }
    }

    /// Whether a form is of this page, and of this visitor.
    pub fn is_form_word(&self, visitor: &Visitor, headers: &HeaderMap, given: &str) -> bool {
        match &self.door {
            PageDoor::Own(access, _) => access.is_form_word(given),
            PageDoor::Team(access, _) => access.is_form_word(&visitor.key, headers, given),
        }
    }
}
