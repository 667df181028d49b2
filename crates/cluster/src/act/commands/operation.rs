//! Operations that a user requests or terminates: writes of the command line to an
//! Application.
//!
//! Each write has the observed resource version as its precondition: what was checked
//! holds at the time of the write, or it is checked again.

use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::act::control_plane::application_status::{
    application_resource, applications_of, read_application,
};
use crate::watch::cluster_cache::raw_object;
use crate::watch::failure::{error_reason, has_code, is_gone};
use wavegate_api::raw::{edit_metadata, require_version};
use wavegate_api::{OperationPhase, Raw};
use wavegate_application::app::Fields;
use wavegate_application::manual::{self, Refusal, SyncRequest};
use wavegate_application::operation::{OperationStage, operation_stage};

/// Maximum number of attempts, each on a newer version of the Application.
const ATTEMPTS: usize = 10;

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The Application does not exist any more.
    #[error("it was deleted")]
    Gone,
    /// No operation can be requested now.
    #[error("no operation can be requested")]
    Refused(Refusal),
    /// The request is not valid.
    #[error("{0}")]
    Invalid(#[from] manual::Invalid),
    /// There is no operation to terminate.
    #[error("no operation is running")]
    Idle,
    /// The server rejected the request or is not available.
    #[error("{0}")]
    Failed(String),
}

/// What a termination has changed.
#[derive(Debug)]
pub enum Terminated {
    /// The operation had not started; its request was removed.
    Withdrawn(Value),
    /// The running operation ends soon.
    Requested(Value),
}

/// Requests a sync of an Application as last read. Returns the stored Application.
///
/// # Errors
///
/// All of [`RequestError`] except [`RequestError::Idle`]; nothing is written then.
pub async fn request_operation(
    client: &Client,
    application: &Value,
    request: &SyncRequest,
) -> Result<Value, RequestError> {
    let mut application = application.clone();
    for _ in 0..ATTEMPTS {
        if let Some(refusal) = manual::operation_refusal(&application) {
            return Err(RequestError::Refused(refusal));
        }
        let operation = manual::requested_operation(&application, request)?;
        match write(client, &application, json!({"operation": operation})).await? {
            Written::Stored(stored) => return Ok(stored),
            Written::Changed(newest) => application = newest,
        }
    }
    Err(RequestError::Failed("it keeps changing".to_owned()))
}

/// Requests the termination of the operation of an Application as last read.
///
/// # Errors
///
/// [`RequestError::Idle`], [`RequestError::Gone`] and [`RequestError::Failed`].
pub async fn terminate_operation(
    client: &Client,
    application: &Value,
) -> Result<Terminated, RequestError> {
    let mut application = application.clone();
    for _ in 0..ATTEMPTS {
        let fields = Fields::of(&application);
        let stage = operation_stage(&fields);
        let patch = match stage {
            OperationStage::Idle => return Err(RequestError::Idle),
            OperationStage::Requested => json!({"operation": null}),
            OperationStage::InProgress
                if fields.status.operation_state.phase == OperationPhase::Terminating =>
            {
                return Ok(Terminated::Requested(application));
            }
            OperationStage::InProgress => {
                json!({"status": {"operationState": {"phase": "Terminating"}}})
            }
        };
        match write(client, &application, patch).await? {
            Written::Stored(stored) if stage == OperationStage::Requested => {
                return Ok(Terminated::Withdrawn(stored));
            }
            Written::Stored(stored) => return Ok(Terminated::Requested(stored)),
            Written::Changed(newest) => application = newest,
        }
    }
    Err(RequestError::Failed("it keeps changing".to_owned()))
}

enum Written {
    Stored(Value),
    /// Another client was faster; this is the new version.
    Changed(Value),
}

/// Patches an Application, if it still has the observed version.
async fn write(client: &Client, base: &Value, mut patch: Value) -> Result<Written, RequestError> {
    let (namespace, name) = (base.namespace(), base.name());
    require_version(&mut patch, base);
    // The name could refer to another object by now.
    edit_metadata(&mut patch, |metadata| {
        metadata.insert("uid".to_owned(), base.uid().into());
    });
    let api = applications_of(client, namespace);
    match api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
        Ok(object) => Ok(Written::Stored(raw_object(object, &application_resource()))),
        Err(error) if is_gone(&error) => Err(RequestError::Gone),
        Err(error) if has_code(&error, 409) => {
            let newest = read_application(client, namespace, name).await;
            let newest = newest.map_err(|error| RequestError::Failed(error.to_string()))?;
            let newest = newest.filter(|newest| newest.uid() == base.uid());
            newest.map(Written::Changed).ok_or(RequestError::Gone)
        }
        Err(error) => Err(RequestError::Failed(error_reason(&error))),
    }
}
