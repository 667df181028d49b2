//! The order of merged lists.

use serde_json::Value;

/// Puts items into the order of their ranks; items without one stay behind the one they followed.
pub(super) fn reorder(items: &mut Vec<Value>, rank: impl Fn(&Value) -> Option<usize>) {
    let mut last = 0;
    let mut ranked: Vec<(usize, usize, Value)> = items
        .drain(..)
        .enumerate()
        .map(|(i, item)| match rank(&item) {
            Some(rank) => {
                last = rank + 1;
                (last, 0, item)
            }
            None => (last, i + 1, item),
        })
        .collect();
    ranked.sort_by_key(|(at, side, _)| (*at, *side));
    items.extend(ranked.into_iter().map(|(_, _, item)| item));
}
