//! What an API server says about the user of a connection: who it is, and what it may do. The requests
//! store nothing.

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SubjectAccessReview,
    SubjectAccessReviewSpec,
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
    /// Plural, with a subresource as in `applications/status`.
    pub resource: &'a str,
    /// `None` for all namespaces.
    pub namespace: Option<&'a str>,
}

impl ReviewedAccess<'_> {
    fn attributes(&self) -> ResourceAttributes {
        let (resource, subresource) = match self.resource.split_once('/') {
            Some((resource, part)) => (resource, Some(part)),
            None => (self.resource, None),
        };
        ResourceAttributes {
            group: Some(self.group.to_owned()),
            namespace: self.namespace.map(str::to_owned),
            resource: Some(resource.to_owned()),
            subresource: subresource.map(str::to_owned),
            verb: Some(self.verb.to_owned()),
            ..ResourceAttributes::default()
        }
    }
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
    let spec = SelfSubjectAccessReviewSpec {
        resource_attributes: Some(access.attributes()),
        ..SelfSubjectAccessReviewSpec::default()
    };
    let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await?;
    let status = answer.status.unwrap_or_default();
    Ok(if status.allowed { Ok(()) } else { Err(status.reason.unwrap_or_default()) })
}

/// Whether a ServiceAccount may, by its namespace and name; who asks needs the permission to.
///
/// # Errors
///
/// The API server does not answer the question.
pub async fn review_account(
    client: &Client,
    (namespace, name): (&str, &str),
    access: &ReviewedAccess<'_>,
) -> Result<bool, kube::Error> {
    let groups = [
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{namespace}"),
        "system:authenticated".to_owned(),
    ];
    let spec = SubjectAccessReviewSpec {
        user: Some(format!("system:serviceaccount:{namespace}:{name}")),
        groups: Some(groups.into()),
        resource_attributes: Some(access.attributes()),
        ..SubjectAccessReviewSpec::default()
    };
    let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}
