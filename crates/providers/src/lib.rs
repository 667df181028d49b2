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
mod pull_requests;
mod rate_limit;
mod redirect;
mod settings;

use std::sync::Arc;

pub use failure::Failure;
pub use objects::Objects;
pub use settings::ProviderSettings;

use http::{Blocked, Limits};
use wavegate_api::ObjectKey;
use wavegate_net::clock::Clock;
use wavegate_net::connect::Proxy;
use wavegate_rollout::desired::queries::{Answer, Query};

/// Asks services.
#[derive(Clone, Debug)]
pub struct Providers {
    objects: Objects,
    settings: ProviderSettings,
    proxy: Proxy,
    clock: Clock,
    blocked: Blocked,
    tokens: app::Tokens,
    control_plane: String,
}

/// Who asks, for one query.
#[derive(Debug)]
struct Asker {
    /// The ApplicationSet.
    set: ObjectKey,
    /// The namespace of the control plane.
    control_plane: String,
    limits: Limits,
}

/// What was answered, and how.
#[derive(Debug)]
pub struct Answered {
    /// The answer.
    pub answer: Answer,
    /// Whether it was read in several pages, between which something may have moved.
    pub is_paged: bool,
}

impl Providers {
    /// Asks with these settings; Secrets, ConfigMaps and placement resources are read from
    /// `objects`.
    pub fn new(
        objects: Objects,
        settings: ProviderSettings,
        control_plane: &str,
        clock: Clock,
    ) -> Self {
        let (url, except) = (settings.proxy.clone(), settings.no_proxy.clone());
        let proxy = Proxy { url, except, or_environment: true };
        let control_plane = control_plane.to_owned();
        let (blocked, tokens) = (Arc::default(), Arc::default());
        Self { objects, settings, proxy, clock, blocked, tokens, control_plane }
    }

    /// Asks for an ApplicationSet.
    ///
    /// # Errors
    ///
    /// Why there is no complete answer.
    pub async fn ask(&self, query: &Query, set: &ObjectKey) -> Result<Answered, Failure> {
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
                Query::Plugin(query) => plugin::ask(self, query, &asker).await.map(Answered::whole),
                Query::Decisions(query) => {
                    decisions::ask(self, query, &asker).await.map(Answered::whole)
                }
            }
        };
        match tokio::time::timeout(self.settings.query_timeout, answer).await {
            Ok(answered) => answered,
            Err(_) => {
                let seconds = self.settings.query_timeout.as_secs();
                Err(Failure::new(format!(
                    "{}: limit exceeded: is not answered in full within {seconds} s; select \
                     fewer repositories, or raise --scm-query-timeout-seconds",
                    query.place()
                )))
            }
        }
    }

    /// A variable of the environment.
    fn variable(&self, name: &str) -> Option<&str> {
        self.settings.environment.get(name).map(String::as_str).filter(|text| !text.is_empty())
    }
}

impl Answered {
    fn whole(answer: Answer) -> Self {
        Self { answer, is_paged: false }
    }
}
