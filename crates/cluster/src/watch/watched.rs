//! A value that tasks wait for.

use parking_lot::Mutex;
use tokio::sync::Notify;

/// A value that tasks wait for. They go on in the order in which they began to wait; a watch
/// channel of tokio wakes them in a random one, and a simulation would take another course each
/// time.
#[derive(Debug, Default)]
pub struct Watched<T> {
    value: Mutex<T>,
    changed: Notify,
}

impl<T: Clone> Watched<T> {
    /// Begins with `value`.
    pub fn new(value: T) -> Self {
        Self { value: Mutex::new(value), changed: Notify::new() }
    }

    /// The value now.
    pub fn get(&self) -> T {
        self.value.lock().clone()
    }

    /// Replaces the value, and wakes those that wait.
    pub fn set(&self, value: T) {
        self.change(|known| *known = value);
    }

    /// Changes the value, and wakes those that wait.
    pub fn change(&self, change: impl FnOnce(&mut T)) {
        change(&mut self.value.lock());
        self.changed.notify_waiters();
    }

    /// Waits until the value is as wanted, and returns it.
    pub async fn wait_for(&self, is_wanted: impl Fn(&T) -> bool) -> T {
        loop {
            // From now on, no change is missed.
            let changed = self.changed.notified();
            let value = self.get();
            if is_wanted(&value) {
                return value;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn tasks_go_on_in_the_order_in_which_they_began_to_wait() {
        let (watched, order) = (Arc::new(Watched::new(0)), Arc::new(Mutex::new(Vec::new())));
        let wait = |number: usize| {
            let (watched, order) = (Arc::clone(&watched), Arc::clone(&order));
            tokio::spawn(async move {
                watched.wait_for(|value| *value > 1).await;
                order.lock().push(number);
            })
        };
        let tasks: Vec<_> = (0..50).map(wait).collect();
        tokio::task::yield_now().await;
        watched.set(1);
        watched.change(|value| *value += 1);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock(), (0..50).collect::<Vec<_>>());
        assert_eq!(watched.wait_for(|value| *value == 2).await, 2);
    }
}
