//! The targets that gates let through, stored once for all gates of a run: each gate of a fleet of
//! thousands may let through all of them, and a status is small (ST-005).
//!
//! Four parts: targets, which of the gates let through some of them (a bit for each gate), which of
//! these ways it is for each target, and the revisions with which the specs in the quarantine are
//! such targets, too: what was approved and then aborted is stored once.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::digest_code::{decode_fixed, encode_fixed};
use super::quarantine::Quarantine;
use super::target_set::{CAPACITY, Short, combined, digests_text, read_digests};
use wavegate_api::run::RolloutRunStatus;

/// Between the parts. No text of base64 has it.
const PARTS: char = '.';
/// The most ways in which gates let targets through; of more, each gate is stored by itself.
const WAYS: usize = 256;
/// The most revisions with which the specs in the quarantine are targets.
const SHARED: usize = 4;

/// Stores the targets of all gates once where that is shorter. `revisions` are digests of those
/// that Applications have now.
pub(super) fn pack(status: &mut RolloutRunStatus, revisions: &BTreeSet<Short>) {
    let of_gates: Vec<BTreeSet<Short>> =
        status.gates.iter().map(|gate| read_digests(&gate.admits)).collect();
    let all: BTreeSet<Short> = of_gates.iter().flatten().copied().collect();
    if all.is_empty() {
        return;
    }
    let (specs, of_ended) = Quarantine::read(&status.quarantine).specs_and_revisions();
    let is_shared = |revisions: &&Short| {
        let targets = specs.iter().filter(|spec| all.contains(&combined(**spec, **revisions)));
        // With a few only, it is longer.
        targets.count() * 8 > specs.len()
    };
    let shared = revisions.union(&of_ended).filter(is_shared).take(SHARED).copied().collect();
    let separate: usize = status.gates.iter().map(|gate| gate.admits.len()).sum();
    let texts = [shared, BTreeSet::new()].into_iter();
    let texts = texts.filter_map(|shared| text(&of_gates, &all, &specs, &shared));
    if let Some(text) = texts.min_by_key(String::len).filter(|text| text.len() < separate) {
        status.admitted = text;
        status.gates.iter_mut().for_each(|gate| gate.admits.clear());
    }
}

fn text(
    of_gates: &[BTreeSet<Short>],
    all: &BTreeSet<Short>,
    specs: &BTreeSet<Short>,
    revisions: &BTreeSet<Short>,
) -> Option<String> {
    let shared = targets_of(specs, revisions);
    let own: BTreeSet<Short> = all.difference(&shared).copied().collect();
    let mut ways: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
    let mut bits = Vec::new();
    let mut codes = Vec::new();
    for target in shared.union(&own) {
        let way = way_of(of_gates.iter().map(|gate| gate.contains(target)));
        let next = u32::try_from(ways.len()).ok()?;
        codes.push(*ways.entry(way).or_insert_with_key(|way| {
            bits.extend_from_slice(way);
            next
        }));
    }
    let codes = encode_fixed(codes.into_iter(), width(ways.len()));
    let parts = [
        digests_text(&own, own.len()),
        STANDARD.encode(bits),
        STANDARD.encode(codes),
        digests_text(revisions, SHARED),
    ];
    (ways.len() <= WAYS).then(|| parts.join(&PARTS.to_string()))
}

/// Gives each gate its targets again.
pub(super) fn unpack(status: &mut RolloutRunStatus) {
    let admitted = std::mem::take(&mut status.admitted);
    if admitted.is_empty() {
        return;
    }
    let mut parts = admitted.split(PARTS);
    let mut next = || parts.next().unwrap_or_default();
    let own = read_digests(next());
    if !admitted.contains(PARTS) {
        return unpack_masks(status, &own);
    }
    let (bits, codes) = (STANDARD.decode(next()), STANDARD.decode(next()));
    let revisions = read_digests(next());
    let (specs, _) = Quarantine::read(&status.quarantine).specs_and_revisions();
    let shared = targets_of(&specs, &revisions);
    let all: Vec<Short> = shared.union(&own).copied().collect();
    let bits = bits.unwrap_or_default();
    let ways: Vec<&[u8]> = bits.chunks(status.gates.len().div_ceil(8).max(1)).collect();
    let codes = decode_fixed(&codes.unwrap_or_default(), width(ways.len()), all.len());
    for (index, gate) in status.gates.iter_mut().enumerate() {
        let is_own = |code: &u32| {
            let way = usize::try_from(*code).ok().and_then(|code| ways.get(code));
            way.is_some_and(|way| has_bit(way, index))
        };
        let own = all.iter().zip(&codes).filter(|(_, code)| is_own(code));
        gate.admits = digests_text(&own.map(|(target, _)| *target).collect(), CAPACITY);
    }
}

/// As earlier versions have stored it: each gate has a bit for each target.
fn unpack_masks(status: &mut RolloutRunStatus, all: &BTreeSet<Short>) {
    for gate in &mut status.gates {
        let mask = STANDARD.decode(&gate.admits).unwrap_or_default();
        let own = all.iter().enumerate().filter(|(index, _)| has_bit(&mask, *index));
        gate.admits = digests_text(&own.map(|(_, target)| *target).collect(), CAPACITY);
    }
}

/// The targets that these specs are with these revisions.
fn targets_of(specs: &BTreeSet<Short>, revisions: &BTreeSet<Short>) -> BTreeSet<Short> {
    let of = |revisions| specs.iter().map(move |spec| combined(*spec, revisions));
    revisions.iter().take(SHARED).copied().flat_map(of).collect()
}

/// How many bits tell so many ways apart.
fn width(ways: usize) -> u32 {
    usize::BITS - ways.saturating_sub(1).leading_zeros()
}

/// A bit for each gate.
fn way_of(bits: impl ExactSizeIterator<Item = bool>) -> Vec<u8> {
    let mut bytes = vec![0_u8; bits.len().div_ceil(8)];
    for (index, _) in bits.enumerate().filter(|(_, is_own)| *is_own) {
        bytes[index / 8] |= 1 << (index % 8);
    }
    bytes
}

fn has_bit(bytes: &[u8], index: usize) -> bool {
    bytes.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use wavegate_api::run::RunGate;

    fn status(gates: &[BTreeSet<u32>], quarantine: &str) -> RolloutRunStatus {
        let gate = |targets: &BTreeSet<u32>| {
            let targets = targets.iter().map(|target| target.to_be_bytes()).collect();
            RunGate { admits: digests_text(&targets, CAPACITY), ..RunGate::default() }
        };
        RolloutRunStatus {
            gates: gates.iter().map(gate).collect(),
            quarantine: quarantine.to_owned(),
            ..RolloutRunStatus::default()
        }
    }

    /// A run that was ended with these specs and revisions.
    fn quarantine(specs: &BTreeSet<u32>, revisions: &[u32]) -> String {
        let text = |all: BTreeSet<Short>| digests_text(&all, CAPACITY);
        let specs = text(specs.iter().map(|one| one.to_be_bytes()).collect());
        format!("3:.{specs}.{}", text(revisions.iter().map(|one| one.to_be_bytes()).collect()))
    }

    fn length(status: &RolloutRunStatus) -> usize {
        serde_json::to_string(status).unwrap().len()
    }

    proptest! {
        #[test]
        fn what_gates_admit_survives_being_stored_as_st_011(
            gates in proptest::collection::vec(
                proptest::collection::btree_set(0_u32..40, 0..40), 0..12,
            ),
            specs in proptest::collection::btree_set(0_u32..40, 0..40),
            revisions in proptest::collection::vec(0_u32..16, 0..3),
        ) {
            let separate = status(&gates, &quarantine(&specs, &revisions));
            let mut stored = separate.clone();
            pack(&mut stored, &revisions.iter().map(|one| one.to_be_bytes()).collect());
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
            |gate, number| number / 500 >= gate,
        ];
        let specs: BTreeSet<u32> = (0..10_000).map(spread).collect();
        for is_behind in shapes {
            let of = |gate: u32| {
                let own = (0..10_000).filter(|number| is_behind(gate, *number));
                own.map(|number| spread(number) ^ 7).collect::<BTreeSet<u32>>()
            };
            let gates: Vec<BTreeSet<u32>> = (0..20).map(of).collect();
            for (quarantine, most) in [(String::new(), 44_000), (quarantine(&specs, &[7]), 44_000)]
            {
                let separate = status(&gates, &quarantine);
                let mut stored = separate.clone();
                pack(&mut stored, &BTreeSet::new());
                assert!(length(&stored) < most, "{}", length(&stored));
                unpack(&mut stored);
                assert_eq!(stored, separate);
            }
        }
    }

    /// What earlier versions wrote.
    #[test]
    fn lists_and_masks_of_gates_are_read_as_they_are() {
        let before = status(&[BTreeSet::from([1, 2]), BTreeSet::from([2, 3])], "");
        let mut read = before.clone();
        unpack(&mut read);
        assert_eq!(read, before);
        let mut masks = status(&[BTreeSet::new(), BTreeSet::new()], "");
        masks.admitted = digests_text(&[1, 2, 3].map(u32::to_be_bytes).into(), CAPACITY);
        masks.gates[0].admits = STANDARD.encode([0b011]);
        masks.gates[1].admits = STANDARD.encode([0b110]);
        unpack(&mut masks);
        assert_eq!(masks, before);
        let mut nonsense = RolloutRunStatus { admitted: "no base64!".to_owned(), ..before };
        for text in ["no base64!", "a.b.c.d", "...", "^.^.^.^", "AAAA.AAAA.AAAA"] {
            text.clone_into(&mut nonsense.admitted);
            unpack(&mut nonsense);
            assert!(nonsense.gates.iter().all(|gate| gate.admits.is_empty()), "{text}");
        }
    }
}
