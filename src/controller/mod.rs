//! Thin shells: one pass each, no rules in them. An `if` about steps, waves or
//! health here belongs in `decide`.
//!
//! Two controllers run side by side and talk only through fields of Kubernetes
//! resources that Argo CD has too, so that either can be replaced.

pub mod application;
pub mod application_set;
pub mod context;
pub mod error;
pub mod leader;

use std::sync::Arc;

use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::settings::Settings;
use crate::source::Repositories;
use crate::watch::read_only;

/// Why the controllers stopped by themselves.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    /// The Application controller cannot run.
    #[error("the application controller stopped")]
    Application(#[source] application::Error),
    /// A controller ended although nobody told it to.
    #[error("a controller ended by itself; this is a bug")]
    Unexpected,
}

/// Runs the controllers until `shutdown`: both, or without settings for the
/// application controller (`--sync-engine=external`) only the first. In a dry
/// run neither of them writes
/// anything, and the client they are given could not.
///
/// # Errors
///
/// When one of them cannot go on; the other is stopped then.
pub async fn run(
    client: Client,
    settings: Settings,
    sources: Arc<Repositories>,
    clock: Clock,
    shutdown: CancellationToken,
) -> Result<(), Stopped> {
    let client = match settings.application_sets.dry_run {
        true => read_only::client(client),
        false => client,
    };
    let stop = shutdown.child_token();
    // Whichever way this function is left, nothing goes on behind its back.
    let _guard = stop.clone().drop_guard();
    let sets = application_set::run(client.clone(), settings.application_sets, clock, stop.clone());
    let sets = async {
        sets.await;
        if shutdown.is_cancelled() { Ok(()) } else { Err(Stopped::Unexpected) }
    };
    let applications = async {
        match settings.applications {
            None => {
                shutdown.cancelled().await;
                Ok(())
            }
            Some(settings) => {
                let ran = application::run(client.clone(), settings, sources, stop.clone()).await;
                match ran {
                    Err(error) => Err(Stopped::Application(error)),
                    Ok(()) if shutdown.is_cancelled() => Ok(()),
                    Ok(()) => Err(Stopped::Unexpected),
                }
            }
        }
    };
    tokio::try_join!(sets, applications).map(|_| ())
}
