//! What became of notifications (ST-085), by policy and by the index of the sink in it: no series
//! has a URL, and those of a policy vanish with it.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;

use super::encode::{counters, gauges, value};
use super::kept::Kept;
use super::labels::{Labels, of, with};
use wavegate_api::ObjectKey;
use wavegate_cluster::act::notify::{DeliveryFailure, NotificationCounts};

impl Kept {
    pub(super) fn encode_notifications(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Some(notifier) = self.notifier.get() else { return Ok(()) };
        let all = notifier.counts();
        let waiting = all.iter().map(|(policy, index, counts)| {
            (of_sink(policy, *index), value(u64::try_from(counts.waiting).unwrap_or_default()))
        });
        let help = "Notifications that wait to be delivered to a sink of a policy";
        gauges(encoder, ("wavegate_notifications_waiting", help), waiting)?;
        let sent = all.iter().map(|(policy, index, counts)| (of_sink(policy, *index), counts.sent));
        counters(encoder, ("wavegate_notifications_sent", "Delivered notifications"), sent)?;
        let by_reason = |of: fn(&NotificationCounts) -> &BTreeMap<DeliveryFailure, u64>| {
            all.iter().flat_map(move |(policy, index, counts)| {
                of(counts).iter().map(move |(why, count)| {
                    let reason = [("reason", why.label().to_owned())];
                    (with(of_sink(policy, *index), reason), *count)
                })
            })
        };
        let help = "Notifications that were given up";
        let failed = by_reason(|counts| &counts.failed);
        counters(encoder, ("wavegate_notifications_failed", help), failed)?;
        let help = "Failed attempts to deliver a notification, which are repeated";
        let attempts = by_reason(|counts| &counts.attempts);
        counters(encoder, ("wavegate_notification_attempts_failed", help), attempts)
    }
}

fn of_sink(policy: &ObjectKey, index: usize) -> Labels {
    with(of(policy), [("sink", index.to_string())])
}
