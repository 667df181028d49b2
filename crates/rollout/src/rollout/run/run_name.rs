//! The names of runs (ST-002).

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

/// The number at the end of a run's name; `None` for a name of another form.
pub fn number_of(name: &str) -> Option<u64> {
    name.rsplit_once('-')?.1.parse().ok()
}

/// The most characters of a name, so that it fits in a label.
const NAME: usize = 63;

/// The name of a run of a set. Of a long name of a set, a hash makes what is left unique: two sets
/// may differ at their ends only.
pub(super) fn name_of(set: &str, number: u64) -> String {
    let name = format!("{set}-{number}");
    if name.len() <= NAME && !set.ends_with(['-', '.']) {
        return name;
    }
    let hash = Sha256::digest(set.as_bytes());
    let hash = HEXLOWER.encode(&hash[..4]);
    let end = format!("-{hash}-{number}");
    // The names of sets are ASCII.
    let length = set.floor_char_boundary(NAME - end.len());
    format!("{}{end}", set[..length].trim_end_matches(['-', '.']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_named_after_its_set_and_fits_in_a_label_as_st_002() {
        assert_eq!(name_of("shop", 12), "shop-12");
        assert_eq!(number_of("shop-12"), Some(12));
        assert_eq!(number_of("shop"), None);
        let long = name_of(&"a".repeat(300), 123_456);
        assert_eq!((long.len(), number_of(&long)), (63, Some(123_456)));
        assert_eq!(long, name_of(&"a".repeat(300), 123_456));
        let fits = "a".repeat(61);
        assert_eq!(name_of(&fits, 9), format!("{fits}-9"));
        // They had the same name, and the second one was never recorded.
        let ends = ["east", "west"].map(|end| name_of(&format!("{}-{end}", "a".repeat(61)), 1));
        assert_ne!(ends[0], ends[1]);
        assert_eq!(ends.map(|name| name.len()), [63, 63]);
        assert_ne!(name_of("shop-", 1), "shop-1", "that of another set");
        assert_eq!(name_of("a", u64::MAX).len(), 22);
        assert_eq!(name_of(&"a".repeat(300), u64::MAX).len(), 63);
    }
}
