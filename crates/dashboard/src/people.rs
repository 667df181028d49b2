//! The persons of a page in a cluster: who a request is of, and what is read as that person (PG-003).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use sha2::{Digest as _, Sha256};

use crate::reports::PageReports;

/// Who a request is of. The API server decides whether that is true, and what it permits.
#[derive(Clone, PartialEq, Eq)]
pub enum PersonCredentials {
    /// A bearer token for the API server.
    Token(String),
    /// A user, and groups, to impersonate.
    Named {
        /// The user.
        user: String,
        /// The groups.
        groups: Vec<String>,
    },
}

/// Distinguishes credentials, without being one.
pub(crate) type PersonKey = [u8; 32];

impl PersonCredentials {
    /// Persons with other credentials share nothing, not even when they have the same name: a token
    /// may permit less than another one of its user.
    pub(crate) fn key(&self) -> PersonKey {
        let parts: Vec<&str> = match self {
            Self::Token(token) => vec!["token", token],
            Self::Named { user, groups } => {
                let groups = groups.iter().map(String::as_str);
                ["named", user].into_iter().chain(groups).collect()
            }
        };
        let mut hash = Sha256::new();
        for part in parts {
            // With its length, so that no text is a part of two.
            hash.update(part.len().to_be_bytes());
            hash.update(part);
        }
        hash.finalize().into()
    }
}

impl fmt::Debug for PersonCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(_) => f.write_str("Token(…)"),
            Self::Named { user, groups } => {
                f.debug_struct("Named").field("user", user).field("groups", groups).finish()
            }
        }
    }
}

/// A person who is signed in.
pub struct SignedInPerson {
    /// The name, as the API server gives it.
    pub name: String,
    /// What is read with the person's own credentials.
    pub reports: Arc<dyn PageReports>,
    /// What keeps it up to date.
    pub session: Arc<dyn PersonSession>,
}

/// Why a person is not signed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInError {
    /// The API server does not accept the credentials.
    pub is_refused: bool,
    /// In words, without a credential.
    pub message: String,
}

/// Signs persons in.
pub trait PagePeople: Send + Sync + 'static {
    /// Asks the API server who this is, and begins to read as this person.
    fn sign_in<'a>(
        &'a self,
        person: &'a PersonCredentials,
    ) -> BoxFuture<'a, Result<SignedInPerson, SignInError>>;
}

/// What is open for a person.
pub trait PersonSession: Send + Sync + 'static {
    /// Whether the API server still accepts the credentials, and permits what it did.
    fn check(&self) -> BoxFuture<'_, SessionCheck>;
    /// Ends it: nothing is read any more.
    fn end(&self);
}

/// Whether a session goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionCheck {
    /// All is as before.
    Same,
    /// The person may read something else than before.
    Changed,
    /// The credentials are not accepted any more.
    Refused,
    /// The API server does not answer.
    Unknown,
}

/// The limits of a page for several persons.
#[derive(Clone, Copy, Debug)]
pub struct PeopleLimits {
    /// Persons for whom the cluster is watched at the same time.
    pub people: usize,
    /// The time between two checks of each.
    pub check_every: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_have_keys_of_their_own_and_are_not_printed() {
        let named = |user: &str, groups: &[&str]| PersonCredentials::Named {
            user: user.to_owned(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        };
        let all = [
            PersonCredentials::Token("ann".to_owned()),
            PersonCredentials::Token("named".to_owned()),
            named("ann", &[]),
            named("ann", &["a"]),
            named("ann", &["a", "b"]),
            named("ann", &["ab"]),
            named("anna", &["b"]),
        ];
        for (index, one) in all.iter().enumerate() {
            for other in &all[index + 1..] {
                assert_ne!(one.key(), other.key(), "{one:?} {other:?}");
            }
        }
        assert_eq!(named("ann", &["a"]).key(), named("ann", &["a"]).key());
        assert_eq!(format!("{:?}", PersonCredentials::Token("s3cr3t".to_owned())), "Token(…)");
    }
}
