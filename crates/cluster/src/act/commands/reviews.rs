//! What an API server says about the user of a connection: who it is, and what it may do. The requests
//! store nothing.

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};

use crate::watch::failure::{error_reason, has_code};

/// Who the user of a connection is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReviewedUser {
    /// The name, as the API server gives it.
    Named(String),
    /// The credentials are not accepted.
    Unknown,
    /// The API server gives no name, and says why.
    Unnamed(String),
}

/// Asks who the user is.
pub async fn review_user(client: &Client) -> ReviewedUser {
    let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
    match reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await {
        Ok(review) => {
            let name = review.status.and_then(|status| status.user_info?.username);
            match name.filter(|name| !name.is_empty()) {
                Some(name) => ReviewedUser::Named(name),
                None => ReviewedUser::Unnamed("its answer names no user".to_owned()),
            }
        }
        Err(error) if has_code(&error, 401) => ReviewedUser::Unknown,
        Err(error) if has_code(&error, 404) => ReviewedUser::Unnamed(
            "it has no SelfSubjectReview, which Kubernetes has since 1.28".to_owned(),
        ),
        Err(error) => ReviewedUser::Unnamed(error_reason(&error)),
    }
}

/// What a user may do, or not.
#[derive(Clone, Copy, Debug)]
pub struct ReviewedAccess<'a> {
    /// Such as `list`.
    pub verb: &'a str,
    /// API group.
    pub group: &'a str,
    /// Plural.
    pub resource: &'a str,
    /// `None` for all namespaces.
    pub namespace: Option<&'a str>,
}

/// Whether the user may; otherwise why not, which may be empty.
///
/// # Errors
///
/// The API server does not answer the question.
pub async fn review_access(
    client: &Client,
    access: &ReviewedAccess<'_>,
) -> Result<Result<(), String>, kube::Error> {
    let attributes = ResourceAttributes {
        group: Some(access.group.to_owned()),
        namespace: access.namespace.map(str::to_owned),
        resource: Some(access.resource.to_owned()),
        verb: Some(access.verb.to_owned()),
        ..ResourceAttributes::default()
    };
    let spec = SelfSubjectAccessReviewSpec {
        resource_attributes: Some(attributes),
        ..SelfSubjectAccessReviewSpec::default()
    };
    let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await?;
    let status = answer.status.unwrap_or_default();
    Ok(if status.allowed { Ok(()) } else { Err(status.reason.unwrap_or_default()) })
}
