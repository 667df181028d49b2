//! The work on one sink: its messages one by one, each until it is delivered or given up.

use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use turns::{Caller, WorkLength};

use super::connect::Ready;
use super::failure::{DeliveryFailure, Failed};
use super::message::Message;
use super::shared::Shared;
use super::sink_key::SinkKey;

/// The first and the longest pause after a failed attempt; up to as much of jitter is added.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));
/// A sink that takes longer is slow: all of these leave some slots to the others.
const SLOW_AFTER: Duration = Duration::from_secs(1);
/// How long a Secret that was read is used for further messages.
const SECRET_FOR: Duration = Duration::from_secs(60);

/// Sends the messages of a sink, until there are none, or `closing` and one fails.
pub(super) async fn work(shared: Arc<Shared>, key: SinkKey, closing: CancellationToken) {
    let mut ready: Option<(Instant, usize, Ready)> = None;
    let mut pauses = pauses();
    let caller = Caller::new(&key.policy.to_string(), &key.index.to_string());
    loop {
        let next = shared.state.lock().next(&key, Instant::now());
        let Some(message) = next else { return };
        let Some(sinks) = shared.sinks_of(&key.policy) else {
            return shared.state.lock().forget_sink(&key, Instant::now());
        };
        let Some(index) = key.place(&sinks) else {
            return shared.state.lock().forget_sink(&key, Instant::now());
        };
        let sink = &sinks[index];
        let is_fresh = |(at, of, known): &(Instant, usize, Ready)| {
            at.elapsed() < SECRET_FOR && *of == index && known.is_for(sink)
        };
        let known = ready.take().filter(is_fresh);
        let is_known = known.is_some();
        let known = match known {
            Some(known) => Ok(known),
            None => {
                let made = shared.connector.ready(&shared.client, &key.policy.namespace, sink);
                made.await.map(|made| (Instant::now(), index, made))
            }
        };
        let sent = match known {
            Ok(known) => {
                let turn = shared.requests.take(&caller, WorkLength::Short).await;
                let began = Instant::now();
                let sent = shared.connector.post(&known.2, &message).await;
                turn.took(began.elapsed() > SLOW_AFTER);
                drop(turn);
                if sent.is_ok() {
                    ready = Some(known);
                }
                sent
            }
            Err(failed) => Err(failed),
        };
        let failed = match sent {
            Ok(()) => {
                shared.state.lock().sent(&key, index, &message, Instant::now());
                shared.report(&key.policy, index, None);
                pauses = self::pauses();
                tracing::debug!(policy = %key.policy, sink = index, id = message.id, "notified");
                continue;
            }
            Err(failed) => failed,
        };
        if failed.why == DeliveryFailure::Refused && is_known {
            // Its Secret may have changed since it was read.
            continue;
        }
        let problem = failed.is_problem().then(|| failed.text.clone());
        shared.report(&key.policy, index, problem);
        if failed.why == DeliveryFailure::Refused {
            refused(&shared, &key, index, &message, &failed);
            continue;
        }
        if shared.state.lock().failed(&key, index, failed.why, Instant::now()) {
            tracing::warn!(
                policy = %key.policy, sink = index, id = message.id, error = failed.text,
                "a notification cannot be delivered; it is tried again for an hour"
            );
            shared.announce(&key.policy, say(index, &failed, "it is tried again for an hour"));
        }
        let pause = pauses.next().unwrap_or(PAUSES.1).max(failed.not_before);
        tokio::select! {
            biased;
            () = tokio::time::sleep(pause) => {}
            () = closing.cancelled() => return,
        }
    }
}

fn refused(shared: &Shared, key: &SinkKey, index: usize, message: &Arc<Message>, failed: &Failed) {
    let is_said = {
        let mut state = shared.state.lock();
        state.refused(key, index, message, Instant::now());
        state.is_said(key, index, Instant::now())
    };
    if is_said {
        tracing::warn!(
            policy = %key.policy, sink = index, id = message.id, error = failed.text,
            "a notification is refused, and not sent again"
        );
        shared.announce(&key.policy, say(index, failed, "it is not sent again"));
    }
}

fn say(index: usize, failed: &Failed, then: &str) -> String {
    format!("notify[{index}]: a notification was not delivered, {then}: {}", failed.text)
}

fn pauses() -> ExponentialBackoff {
    let (first, longest) = PAUSES;
    // Sinks of one host do not come back at the same time.
    let seed = getrandom::u64().unwrap_or_default();
    ExponentialBuilder::default()
        .with_min_delay(first)
        .with_max_delay(longest)
        .without_max_times()
        .with_jitter()
        .with_jitter_seed(seed)
        .build()
}
