//! The Lease of a run: two runs of one name at once would run hooks twice.

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::super::error::{Error, note};
use super::manifests::Manifests;
use super::request_id;
use crate::act::run_lease::{DURATION, Holder, RunLease, Taken};
use crate::api::time::to_rfc3339;
use crate::clock::Clock;

/// The Lease that this process holds, if any.
#[derive(Debug, Default)]
pub(super) struct HeldLease {
    lease: Mutex<Option<RunLease>>,
}

impl HeldLease {
    /// Renews the Lease; ends only when another run has taken it.
    pub async fn lost(&self, manifests: &Manifests) -> Error {
        let lease = self.lease.lock().clone();
        let held = match lease {
            Some(lease) => lease.keep(&CancellationToken::new()).await,
            None => None,
        };
        let Some(holder) = held else { return std::future::pending().await };
        let why = format!("{}, which has taken it over; this run ends as it is", by(&holder));
        Error::check("the sync was ended", manifests.title(), format!("it is in progress {why}"))
    }

    /// Releases it, so that the next run starts at once.
    pub async fn release(&self) {
        let lease = self.lease.lock().take();
        let Some(lease) = lease else { return };
        if let Err(why) = lease.release().await {
            let seconds = DURATION.as_secs();
            note(&format!(
                "the Lease of the run cannot be released: {why}; it expires in {seconds} s"
            ));
        }
    }
}

/// Takes the Lease of a run, before its first decision.
pub(super) async fn take(
    client: &kube::Client,
    manifests: &Manifests,
    held: &HeldLease,
) -> Result<(), Error> {
    let name = format!("wavegate-sync-{}", manifests.name);
    let (place, seconds) = (manifests.title(), DURATION.as_secs());
    let (host, id) = (host(), request_id());
    let namespace = &manifests.namespace;
    let lease =
        RunLease::new(client.clone(), namespace, name.clone(), (&host, &id), Clock::system());
    // Before the request: a response may be lost, or the run be interrupted.
    *held.lease.lock() = Some(lease.clone());
    let taken = lease.take(|holder| {
        note(&format!(
            "{place}: it is in progress {}, or was killed: waits up to {seconds} s until its \
             Lease {name} is renewed or expires",
            by(holder)
        ));
    });
    let refused = match taken.await {
        // Without the namespace, it is taken once the run has created it.
        Ok(Taken::Held | Taken::NoNamespace) => return Ok(()),
        Ok(Taken::Forbidden(why)) => {
            note(&format!(
                "{place}: no Lease can be taken, so do not run the same sync twice at the same \
                 time: {why}"
            ));
            None
        }
        Ok(Taken::By(holder)) => {
            let why = format!("it is in progress {}; wait for its end", by(&holder));
            Some(Error::check("cannot sync", &place, why))
        }
        Err(why) => Some(Error::input("cannot take", format!("Lease {namespace}/{name}"), why)),
    };
    *held.lease.lock() = None;
    refused.map_or(Ok(()), Err)
}

fn by(holder: &Holder) -> String {
    let host = if holder.host.is_empty() { "another host" } else { &holder.host };
    match holder.since {
        Some(since) => format!("by {host}, since {}", to_rfc3339(since)),
        None => format!("by {host}"),
    }
}

/// The name of this machine.
fn host() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    // Names that many machines have say nothing about the clock.
    match name.as_str() {
        "" | "localhost" | "(none)" => format!("localhost-{}", request_id()),
        _ => name,
    }
}
