//! Lets faults happen to a request.

use http::Response;

use super::answer::{ResponseBody, error_response, injected};
use super::effect::{Dropped, Effect};
use super::errors::ApiError;
use super::request_record::RequestRecord;

/// Lets those effects happen that come before a request is carried out, until one
/// refuses it.
///
/// # Errors
///
/// When the connection is to fail.
pub(super) async fn before(
    effects: &[Effect],
    request: &RequestRecord,
) -> Result<Option<ApiError>, Dropped> {
    for effect in effects {
        match effect {
            Effect::Latency(time) => tokio::time::sleep(*time).await,
            Effect::Status(code) => return Ok(Some(injected(*code, None))),
            Effect::StatusRetryAfter(code, time) => return Ok(Some(injected(*code, Some(*time)))),
            Effect::Forbidden => return Ok(Some(ApiError::no_permission(request))),
            Effect::Absent => return Ok(Some(ApiError::absent(request))),
            Effect::Drop => return Err(Dropped),
            Effect::Hang => std::future::pending().await,
            _ => {}
        }
    }
    Ok(None)
}

/// Lets those effects happen that come after a request was carried out.
///
/// # Errors
///
/// When the connection is to fail.
pub(super) async fn after(
    effects: &[Effect],
    mut response: Response<ResponseBody>,
) -> Result<Response<ResponseBody>, Dropped> {
    for effect in effects {
        match effect {
            Effect::LatencyAfterApplying(time) => tokio::time::sleep(*time).await,
            Effect::StatusAfterApplying(code) => response = error_response(&injected(*code, None)),
            Effect::DropAfterApplying => return Err(Dropped),
            Effect::HangAfterApplying => std::future::pending().await,
            _ => {}
        }
    }
    Ok(response)
}
