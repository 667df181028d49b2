//! Panics of the controllers, which they survive: no rollout may depend on that.

use std::cell::{Cell, RefCell};
use std::sync::Once;

thread_local! {
    /// A simulation runs in one thread.
    static SEEN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    /// Whether one runs now: its panics are judged, and not printed.
    static RUNS: Cell<bool> = const { Cell::new(false) };
}

/// Begins anew in this thread.
pub fn forget() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| match RUNS.get() {
            true => SEEN.with_borrow_mut(|seen| seen.push(info.to_string())),
            false => before(info),
        }));
    });
    SEEN.with_borrow_mut(Vec::clear);
    RUNS.set(true);
}

/// Those since then.
pub fn all() -> Vec<String> {
    RUNS.set(false);
    SEEN.with_borrow_mut(std::mem::take)
}
