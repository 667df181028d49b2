//! Names in messages.

use std::fmt::Display;

/// The first `most` of them, and the number of the others: `a, b and 3 more`.
pub fn some_of<T: Display>(all: impl IntoIterator<Item = T>, most: usize) -> String {
    let mut all = all.into_iter();
    let shown: Vec<String> = all.by_ref().take(most).map(|one| one.to_string()).collect();
    let shown = shown.join(", ");
    match all.count() {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_named_and_the_others_counted() {
        assert_eq!(some_of(["a", "b", "c"], 2), "a, b and 1 more");
        assert_eq!(some_of(["a", "b"], 2), "a, b");
        assert_eq!(some_of([""; 0], 2), "");
    }
}
