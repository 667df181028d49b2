//! The smallest case that still fails.

use crate::case::{Case, Policy, What};
use crate::run::run;

/// So often it is tried.
const TRIES: usize = 300;

/// Makes a case smaller as long as this judge finds something.
pub fn shrink(case: &Case, judge: &str) -> Case {
    let mut smallest = case.clone();
    let mut tries = 0;
    'again: loop {
        for candidate in smaller(&smallest) {
            tries += 1;
            if tries > TRIES {
                return smallest;
            }
            if run(&candidate, None, |_| {}).first(Some(judge)).is_some() {
                smallest = candidate;
                continue 'again;
            }
        }
        return smallest;
    }
}

/// Cases that are a little smaller, the smallest first.
fn smaller(case: &Case) -> Vec<Case> {
    let mut all = Vec::new();
    let mut add = |change: &dyn Fn(&mut Case)| {
        let mut smaller = case.clone();
        change(&mut smaller);
        if smaller != *case {
            all.push(smaller);
        }
    };
    let count = case.events.len();
    if count > 1 {
        add(&|case| drop(case.events.drain(..count / 2)));
        add(&|case| drop(case.events.drain(count / 2..)));
    }
    for index in 0..count {
        add(&|case| drop(case.events.remove(index)));
    }
    let apps = case.apps.len();
    if apps > 4 {
        add(&|case| case.keep_apps(|index| index < apps / 2));
        add(&|case| case.keep_apps(|index| index >= apps / 2));
    }
    for left_out in 0..apps.min(40) {
        if apps > 1 {
            add(&|case| case.keep_apps(|index| index != left_out));
        }
    }
    add(&|case| case.policy = Policy::default());
    add(&|case| case.policy.gate = None);
    add(&|case| case.policy.failures = None);
    add(&|case| case.policy.max_in_flight = None);
    add(&|case| case.replicas = 1);
    add(&|case| case.apps.iter_mut().for_each(|app| app.has_hooks = false));
    add(&|case| case.apps.iter_mut().for_each(|app| app.has_waves = false));
    add(&|case| case.apps.iter_mut().for_each(|app| app.prunes = false));
    add(&|case| case.apps.iter_mut().for_each(|app| app.turn = None));
    add(&|case| case.apps.iter_mut().for_each(|app| app.fails_at = None));
    all
}

impl Case {
    fn keep_apps(&mut self, keeps: impl Fn(usize) -> bool) {
        let mut index = 0;
        self.apps.retain(|_| {
            index += 1;
            keeps(index - 1)
        });
        let apps = &self.apps;
        self.events.retain(|event| match &event.what {
            What::Skip(name) | What::Drift(name) | What::Remove(name) | What::Add(name) => {
                apps.iter().any(|app| app.name == *name)
            }
            _ => true,
        });
        if self.apps.iter().any(|app| app.turn.is_some()) {
            self.move_one();
        }
    }
}
