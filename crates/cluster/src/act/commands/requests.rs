//! What people say about rollouts: writes of the command line to the spec of a RolloutRun and to
//! annotations of an ApplicationSet.
//!
//! A change has the observed resource version as its precondition, and is decided again on a newer
//! one, so that the words of two people are both kept.

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::Value;

use crate::watch::failure::{error_reason, existing_object, has_code, is_gone};
use crate::watch::object::{kind_api, kind_resource};
use wavegate_api::Raw;
use wavegate_rollout::requests::{RequestedChange, Verdict};

/// Maximum number of attempts, each on a newer version of the object.
const ATTEMPTS: usize = 20;

/// What became of a person's word.
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    /// It is stored.
    Stored,
    /// It was so already, as of a newer version; says how.
    Already(String),
}

/// Why nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The object does not exist any more.
    #[error("it was deleted")]
    Gone,
    /// It makes no sense on a newer version of the object.
    #[error("{0}")]
    Refused(String),
    /// On a newer version it is another change than the one that was confirmed.
    #[error("it has changed in the meantime, and nothing is written; it would now {0}")]
    Changed(String),
    /// The server rejected the request or is not available.
    #[error("{0}")]
    Failed(String),
}

/// Writes a change that was confirmed for an object as last read. `decide` says what the same
/// word comes to on a newer version.
///
/// # Errors
///
/// All of [`WriteError`]; nothing is written then.
pub async fn write_confirmed(
    client: &Client,
    kind: &str,
    object: &Value,
    confirmed: &RequestedChange,
    decide: impl Fn(&Value) -> Verdict,
) -> Result<Written, WriteError> {
    let mut object = object.clone();
    let api = kind_api(client, Some(object.namespace()), &kind_resource(kind));
    for _ in 0..ATTEMPTS {
        let change = match decide(&object) {
            Verdict::Already(how) => return Ok(Written::Already(how)),
            Verdict::Refused(why) => return Err(WriteError::Refused(why)),
            Verdict::Change { change, .. } if change.is_within(confirmed) => change,
            Verdict::Change { says, .. } => return Err(WriteError::Changed(says)),
        };
        let patch = change.patch(&object);
        match api.patch(object.name(), &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(_) => return Ok(Written::Stored),
            Err(error) if is_gone(&error) => return Err(WriteError::Gone),
            Err(error) if has_code(&error, 409) => {
                let newest = api.get(object.name()).await;
                let newest = existing_object(newest)
                    .map_err(|error| WriteError::Failed(error_reason(&error)))?;
                let newest = newest.map(|newest| newest.parse());
                let newest = newest.filter(|newest| newest.uid() == object.uid());
                object = newest.ok_or(WriteError::Gone)?;
            }
            Err(error) => return Err(WriteError::Failed(error_reason(&error))),
        }
    }
    Err(WriteError::Failed("it keeps changing".to_owned()))
}

/// The user that the API server names for the credentials of the client; `None` when it does not
/// say. Stores nothing.
///
/// # Errors
///
/// The message of the server.
pub async fn current_user(client: &Client) -> Result<Option<String>, String> {
    let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
    match reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await {
        Ok(review) => {
            let info = review.status.and_then(|status| status.user_info);
            Ok(info.and_then(|info| info.username).filter(|name| !name.is_empty()))
        }
        Err(error) if [403, 404, 405].iter().any(|code| has_code(&error, *code)) => Ok(None),
        Err(error) => Err(error_reason(&error)),
    }
}
