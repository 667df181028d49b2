//! What a comparison came to, in one line.

use crate::cli::rollout_view::text::count;

/// How many of what was compared differ from something, and in which ways.
pub(super) fn summary<const N: usize>(
    name: &str,
    with: &str,
    (compared, thing): (usize, &str),
    ways: [(usize, &str); N],
) -> String {
    let compared = count(compared, thing);
    let (to, from) = match with {
        "" => (String::new(), String::new()),
        with => (format!(" to {with}"), format!(" from {with}")),
    };
    let ways = ways.into_iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = ways.clone().map(|(count, what)| format!("{count} {what}")).collect();
    match ways.map(|(count, _)| count).sum() {
        0 => format!("{name}: no difference{to} in {compared}"),
        1 => format!("{name}: 1 of {compared} differs{from}: {}", parts.join(", ")),
        some => format!("{name}: {some} of {compared} differ{from}: {}", parts.join(", ")),
    }
}
