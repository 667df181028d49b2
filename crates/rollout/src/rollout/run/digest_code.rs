//! Numbers in ascending order, in as few bytes as they need: of thousands that are spread evenly over
//! all numbers of 32 bits, each takes some 20 bits (Golomb-Rice codes of their differences).

/// The bytes before the codes: how many numbers follow, and how many bits of each difference are
/// written as they are.
const HEAD: usize = 5;

/// Writes numbers that are in ascending order.
pub fn encode_sorted(numbers: &[u32]) -> Vec<u8> {
    let count = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
    let plain = 31 - count.max(1).ilog2();
    let mut bits = BitWriter { bytes: count.to_be_bytes().to_vec(), used: 0 };
    bits.bytes.push(u8::try_from(plain).unwrap_or_default());
    let mut last = 0;
    for number in numbers {
        let difference = number.wrapping_sub(last);
        last = *number;
        for _ in 0..difference >> plain {
            bits.push(true);
        }
        bits.push(false);
        for bit in (0..plain).rev() {
            bits.push(difference >> bit & 1 == 1);
        }
    }
    bits.bytes
}

/// Reads them; of what is no such text, what can be read.
pub fn decode_sorted(bytes: &[u8]) -> Vec<u32> {
    let Some((head, codes)) = bytes.split_at_checked(HEAD) else { return Vec::new() };
    let count = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
    let plain = u32::from(head[4]).min(31);
    let mut bits = codes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1 == 1));
    let mut numbers = Vec::new();
    let mut last = 0_u32;
    'numbers: for _ in 0..count {
        let mut difference = 0_u32;
        loop {
            match bits.next() {
                Some(true) => difference = difference.wrapping_add(1),
                Some(false) => break,
                None => break 'numbers,
            }
        }
        for _ in 0..plain {
            let Some(bit) = bits.next() else { break 'numbers };
            difference = difference << 1 | u32::from(bit);
        }
        last = last.wrapping_add(difference);
        numbers.push(last);
    }
    numbers
}

/// Writes numbers of a width in bits.
pub fn encode_fixed(numbers: impl Iterator<Item = u32>, width: u32) -> Vec<u8> {
    let mut bits = BitWriter { bytes: Vec::new(), used: 0 };
    for number in numbers {
        for bit in (0..width).rev() {
            bits.push(number >> bit & 1 == 1);
        }
    }
    bits.bytes
}

/// Reads so many of them; those that are not there are 0.
pub fn decode_fixed(bytes: &[u8], width: u32, count: usize) -> Vec<u32> {
    let mut bits = bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1 == 1));
    let mut next = || (0..width).fold(0, |all, _| all << 1 | u32::from(bits.next() == Some(true)));
    (0..count).map(|_| next()).collect()
}

#[derive(Debug)]
struct BitWriter {
    bytes: Vec<u8>,
    /// How many bits of the last byte are written; 0 when it is full.
    used: u32,
}

impl BitWriter {
    fn push(&mut self, bit: bool) {
        if self.used == 0 {
            self.bytes.push(0);
        }
        if let Some(last) = self.bytes.last_mut() {
            *last |= u8::from(bit) << (7 - self.used);
        }
        self.used = (self.used + 1) % 8;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_survive_being_written(
            numbers in proptest::collection::btree_set(any::<u32>(), 0..600),
            near in proptest::collection::btree_set(0_u32..2_000, 0..600),
            width in 0_u32..12,
        ) {
            for all in [numbers, near] {
                let all: Vec<u32> = all.into_iter().collect();
                prop_assert_eq!(decode_sorted(&encode_sorted(&all)), all.clone());
                let small: Vec<u32> = all.iter().map(|one| one % (1 << width)).collect();
                let bytes = encode_fixed(small.iter().copied(), width);
                prop_assert_eq!(decode_fixed(&bytes, width, small.len()), small);
            }
        }

        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(decode_sorted(&bytes).len() <= bytes.len() * 8);
        }
    }

    #[test]
    fn thousands_take_twenty_bits_each() {
        let spread = |number: u32| number.wrapping_mul(2_654_435_761);
        let all: BTreeSet<u32> = (0..10_000).map(spread).collect();
        let bytes = encode_sorted(&all.into_iter().collect::<Vec<_>>());
        assert!(bytes.len() < 26_000, "{}", bytes.len());
    }
}
