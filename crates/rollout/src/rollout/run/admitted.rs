//! The targets that gates let through, stored once for all gates of a run: each gate of a fleet of
//! thousands may let through all of them, and a status is small (ST-005).

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::target_set::{CAPACITY, Short, digests_text, read_digests};
use wavegate_api::run::RolloutRunStatus;

/// Stores the targets of all gates once, and for each gate which of them are its own, where that is
/// shorter.
pub(super) fn pack(status: &mut RolloutRunStatus) {
    if status.gates.iter().filter(|gate| !gate.admits.is_empty()).count() < 2 {
        return;
    }
    let of_gates: Vec<BTreeSet<Short>> =
        status.gates.iter().map(|gate| read_digests(&gate.admits)).collect();
    let all: BTreeSet<Short> = of_gates.iter().flatten().copied().collect();
    let admitted = digests_text(&all, CAPACITY);
    let mask = |own: &BTreeSet<Short>| match own.is_empty() {
        true => String::new(),
        false => mask_text(all.iter().map(|target| own.contains(target))),
    };
    let masks: Vec<String> = of_gates.iter().map(mask).collect();
    let separate: usize = status.gates.iter().map(|gate| gate.admits.len()).sum();
    let together = admitted.len() + masks.iter().map(String::len).sum::<usize>();
    if all.len() <= CAPACITY && together < separate {
        status.admitted = admitted;
        status.gates.iter_mut().zip(masks).for_each(|(gate, mask)| gate.admits = mask);
    }
}

/// Gives each gate its targets again.
pub(super) fn unpack(status: &mut RolloutRunStatus) {
    let admitted = std::mem::take(&mut status.admitted);
    if admitted.is_empty() {
        return;
    }
    let all = read_digests(&admitted);
    for gate in &mut status.gates {
        let mask = STANDARD.decode(&gate.admits).unwrap_or_default();
        let is_own =
            |index: usize| mask.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1);
        let own = all.iter().enumerate().filter(|(index, _)| is_own(*index));
        let own: BTreeSet<Short> = own.map(|(_, target)| *target).collect();
        gate.admits = digests_text(&own, CAPACITY);
    }
}

/// A bit for each target, in their order.
fn mask_text(bits: impl ExactSizeIterator<Item = bool>) -> String {
    let mut bytes = vec![0_u8; bits.len().div_ceil(8)];
    for (index, _) in bits.enumerate().filter(|(_, is_own)| *is_own) {
        bytes[index / 8] |= 1 << (index % 8);
    }
    STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use wavegate_api::run::RunGate;

    fn status(gates: &[BTreeSet<u32>]) -> RolloutRunStatus {
        let gate = |targets: &BTreeSet<u32>| {
            let targets = targets.iter().map(|target| target.to_be_bytes()).collect();
            RunGate { admits: digests_text(&targets, CAPACITY), ..RunGate::default() }
        };
        RolloutRunStatus { gates: gates.iter().map(gate).collect(), ..RolloutRunStatus::default() }
    }

    fn length(status: &RolloutRunStatus) -> usize {
        serde_json::to_string(status).unwrap().len()
    }

    proptest! {
        #[test]
        fn what_gates_admit_survives_being_stored_as_st_011(
            gates in proptest::collection::vec(
                proptest::collection::btree_set(0_u32..40, 0..40), 0..8,
            ),
        ) {
            let separate = status(&gates);
            let mut stored = separate.clone();
            pack(&mut stored);
            prop_assert!(length(&stored) <= length(&separate) + r#""admitted":"","#.len());
            unpack(&mut stored);
            prop_assert_eq!(stored, separate);
        }
    }

    /// ST-005: what twenty gates of 4,000 Applications remember took 400 KiB.
    #[test]
    fn twenty_gates_of_thousands_fit_in_a_status_as_st_005() {
        let spread = |number: u32| number.wrapping_mul(2_654_435_761);
        let shapes: [fn(u32, u32) -> bool; 3] = [
            |_, _| true,
            |gate, number| number % 20 == gate,
            // Each before one step and all later ones.
            |gate, number| number / 200 >= gate,
        ];
        for is_behind in shapes {
            let of = |gate: u32| {
                let own = (0..4_000).filter(|number| is_behind(gate, *number));
                own.map(spread).collect::<BTreeSet<u32>>()
            };
            let mut stored = status(&(0..20).map(of).collect::<Vec<_>>());
            pack(&mut stored);
            assert!(length(&stored) < 40 << 10, "{}", length(&stored));
        }
    }

    /// What an earlier version wrote.
    #[test]
    fn lists_of_gates_are_read_as_they_are() {
        let before = status(&[BTreeSet::from([1, 2]), BTreeSet::from([2, 3])]);
        let mut read = before.clone();
        unpack(&mut read);
        assert_eq!(read, before);
        let mut nonsense = RolloutRunStatus { admitted: "no base64!".to_owned(), ..before };
        unpack(&mut nonsense);
        assert!(nonsense.gates.iter().all(|gate| gate.admits.is_empty()));
    }
}
