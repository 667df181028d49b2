//! The health of Applications when their run began (ST-041), as digests of the names of those that
//! were not Healthy.

use std::collections::BTreeSet;

use super::target_set::{Short, digest, digests_text, read_digests};
use crate::rollout::snapshot::Row;
use wavegate_api::HealthStatus;

/// The kinds of health that are remembered, in the order of the text. Of one whose health was not
/// known nothing is.
const REMEMBERED: [HealthStatus; 4] = [
    HealthStatus::Degraded,
    HealthStatus::Missing,
    HealthStatus::Progressing,
    HealthStatus::Suspended,
];

/// The most names of each: the others count as Healthy, so that their failures count.
const NAMES: usize = 500;

/// Between the parts of a text. No text of base64 has it.
const SEPARATOR: char = '.';

/// The text for the status of a run that begins.
pub fn health_text(rows: &[Row<'_>]) -> String {
    let part = |health: HealthStatus| {
        let is_so = |row: &&Row<'_>| row.member.observed.is_some_and(|seen| seen.health == health);
        let all = rows.iter().filter(is_so).map(|row| name_digest(row.member.name)).collect();
        digests_text(&all, NAMES)
    };
    REMEMBERED.map(part).join(&SEPARATOR.to_string())
}

/// Sets the health that the text of a run has for each row; none when an earlier version began it.
pub fn set_health_before(text: &str, rows: &mut [Row<'_>]) {
    if text.is_empty() {
        return;
    }
    let parts: Vec<BTreeSet<Short>> = text.split(SEPARATOR).map(read_digests).collect();
    let is_all_healthy = parts.iter().all(BTreeSet::is_empty);
    for row in rows {
        let name = || name_digest(row.member.name);
        let found = match is_all_healthy {
            true => None,
            false => parts.iter().position(|part| part.contains(&name())),
        };
        let health = found.and_then(|index| REMEMBERED.get(index)).copied();
        row.run.before = Some(health.unwrap_or(HealthStatus::Healthy));
    }
}

fn name_digest(name: &str) -> Short {
    digest(name, "", &[])
}
