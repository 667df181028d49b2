//! Asks services what generators want to know: the repositories and pull requests of servers
//! of source code, the parameters of plugins, and the decisions of placement resources.
//!
//! ```text
//! Query --login--> Api --pages--> repositories --branches--> paths --> Answer
//! ```
//!
//! An answer is complete or an error: a page that fails, a limit that is exceeded, or an
//! answer that cannot be read fails the whole query, since what is missing would be deleted.
//! What servers answer is hostile: sizes, pages, requests and times are limited (`http`), and
//! credentials go to the server that the generator names and to no other.
//!
//! This crate decides nothing about what is found: filters and parameters are those of
//! [`desired`](wavegate_rollout::desired).

mod app;
mod app_token;
mod aws;
mod azure_devops;
mod bitbucket;
mod bitbucket_server;
mod code_commit;
mod decisions;
mod error_text;
mod failure;
mod gitea;
mod github;
mod gitlab;
mod http;
mod listing;
mod login;
mod objects;
mod plugin;
mod providers;
mod pull_requests;
mod rate_limit;
mod redirect;
mod scm;
mod settings;

use std::sync::Arc;

pub use failure::ProviderError;
pub use objects::Objects;
pub use providers::{ProviderAnswer, Providers};
pub use settings::ProviderSettings;

use futures::future::BoxFuture;
use http::Limits;
use providers::Asker;
use wavegate_api::ObjectKey;
use wavegate_rollout::desired::queries::Query;

impl Providers {
    /// Asks for an ApplicationSet.
    ///
    /// # Errors
    ///
    /// Why there is no complete answer.
    pub fn ask<'a>(
        &'a self,
        query: &'a Query,
        set: &'a ObjectKey,
    ) -> BoxFuture<'a, Result<ProviderAnswer, ProviderError>> {
        Box::pin(async move {
            // A set of a file may have none, and is one of the control plane then.
            let namespace = match set.namespace.is_empty() {
                true => &self.control_plane,
                false => &set.namespace,
            };
            let asker = Asker {
                set: ObjectKey::new(namespace, &set.name),
                control_plane: self.control_plane.clone(),
                limits: Limits::new(Arc::clone(&self.blocked)),
            };
            let answer = async {
                match query {
                    Query::Repositories(query) => listing::ask(self, query, &asker).await,
                    Query::PullRequests(query) => pull_requests::ask(self, query, &asker).await,
                    Query::Plugin(query) => {
                        plugin::ask(self, query, &asker).await.map(ProviderAnswer::whole)
                    }
                    Query::Decisions(query) => {
                        decisions::ask(self, query, &asker).await.map(ProviderAnswer::whole)
                    }
                }
            };
            match tokio::time::timeout(self.settings.query_timeout, answer).await {
                Ok(answered) => answered,
                Err(_) => {
                    let seconds = self.settings.query_timeout.as_secs();
                    Err(ProviderError::new(format!(
                        "{}: limit exceeded: is not answered in full within {seconds} s; select \
                     fewer repositories, or raise --scm-query-timeout-seconds",
                        query.place()
                    )))
                }
            }
        })
    }
}
