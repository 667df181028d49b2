//! The numbers of RSA and DSA keys.

use std::convert::Infallible;

use crate::engine::run::Random;
use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::rand_core::{TryCryptoRng, TryRng};
use crypto_bigint::{BoxedUint, ConcatenatingMul, Limb, NonZero, Odd, RandomBits, Resize};
use crypto_primes::hazmat::{SetBits, SmallFactorsSieveFactory};
use crypto_primes::{Flavor, is_prime, random_prime, sieve_and_find};
use der::asn1::UintRef;
use der::{Encode, Sequence};

/// The random source of a run, for cryptographic libraries.
pub(super) struct RandomBytes<'r>(pub &'r mut dyn Random);

impl TryRng for RandomBytes<'_> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut bytes = [0; 4];
        self.0.fill(&mut bytes);
        Ok(u32::from_le_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        Ok(u64::from_le_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.0.fill(bytes);
        Ok(())
    }
}

impl TryCryptoRng for RandomBytes<'_> {}

/// The `RSAPrivateKey` of PKCS#1, for two primes.
#[derive(Sequence)]
pub(super) struct RsaNumbers<'a> {
    version: u8,
    pub modulus: UintRef<'a>,
    pub public_exponent: UintRef<'a>,
    private_exponent: UintRef<'a>,
    prime1: UintRef<'a>,
    prime2: UintRef<'a>,
    exponent1: UintRef<'a>,
    exponent2: UintRef<'a>,
    coefficient: UintRef<'a>,
}

/// The private key of DSA, as OpenSSL writes it.
#[derive(Sequence)]
pub(super) struct DsaNumbers<'a> {
    version: u8,
    p: UintRef<'a>,
    q: UintRef<'a>,
    g: UintRef<'a>,
    y: UintRef<'a>,
    x: UintRef<'a>,
}

#[cfg(test)]
impl<'a> DsaNumbers<'a> {
    /// The numbers in their order: `p`, `q`, `g`, `y`, `x`.
    pub fn all(&self) -> [UintRef<'a>; 5] {
        [self.p, self.q, self.g, self.y, self.x]
    }
}

/// The public exponent of generated RSA keys; a prime.
const EXPONENT: u32 = 65_537;

/// Number of restarts of a search before it fails.
pub(super) const ATTEMPTS: usize = 8;

/// Error message of a random source that is not random.
pub(super) const NOT_RANDOM: &str = "the source of random bytes returns repeated values";

/// Generates an RSA key with a modulus of the given bits, in PKCS#1.
pub(super) fn rsa(bits: u32, random: &mut RandomBytes<'_>) -> Result<Vec<u8>, String> {
    let half = bits / 2;
    let a = rsa_prime(half, random)?;
    for _ in 0..ATTEMPTS {
        let b = rsa_prime(half, random)?;
        let (p, q) = if a < b { (b, a.clone()) } else { (a.clone(), b) };
        // The product of primes that are close together can be factored.
        if (&p - &q).bits() > half.saturating_sub(100) {
            return rsa_key(bits, &p, &q)
                .ok_or_else(|| "the primes do not form a valid key".to_owned());
        }
    }
    Err(NOT_RANDOM.to_owned())
}

/// A prime with its two highest bits set, so that the product of two has twice as many bits.
fn rsa_prime(bits: u32, random: &mut RandomBytes<'_>) -> Result<BoxedUint, String> {
    let sieve = SmallFactorsSieveFactory::new(Flavor::Any, bits, SetBits::TwoMsb)
        .map_err(|error| error.to_string())?;
    let exponent = limb(EXPONENT).ok_or("the public exponent is zero")?;
    // The exponent has no inverse if the prime minus one is a multiple of it.
    let fits = |_: &mut RandomBytes<'_>, prime: &BoxedUint| {
        prime.rem_limb(exponent) != Limb::ONE && is_prime(Flavor::Any, prime)
    };
    let prime = sieve_and_find(random, sieve, fits).map_err(|error| error.to_string())?;
    prime.ok_or_else(|| NOT_RANDOM.to_owned())
}

fn limb(n: u32) -> Option<NonZero<Limb>> {
    NonZero::new(Limb::from(n)).into_option()
}

fn non_zero(n: &BoxedUint) -> Option<NonZero<BoxedUint>> {
    NonZero::new(n.clone()).into_option()
}

fn rsa_key(bits: u32, p: &BoxedUint, q: &BoxedUint) -> Option<Vec<u8>> {
    let (p_less, q_less) = (p - BoxedUint::one(), q - BoxedUint::one());
    let modulus = p.concatenating_mul(q);
    let totient = non_zero(&p_less.concatenating_mul(&q_less))?;
    let e = BoxedUint::from(EXPONENT);
    let d = (&e).resize(bits).invert_mod(&totient).into_option()?;
    let exponent1 = d.rem(&non_zero(&p_less)?);
    let exponent2 = d.rem(&non_zero(&q_less)?);
    let coefficient = q.invert_odd_mod(&Odd::new(p.clone()).into_option()?).into_option()?;
    let numbers = [&modulus, &e, &d, p, q, &exponent1, &exponent2, &coefficient];
    let bytes = numbers.map(BoxedUint::to_be_bytes);
    let [modulus, public_exponent, private_exponent, prime1, prime2, dp, dq, inverse] = &bytes;
    RsaNumbers {
        version: 0,
        modulus: UintRef::new(modulus).ok()?,
        public_exponent: UintRef::new(public_exponent).ok()?,
        private_exponent: UintRef::new(private_exponent).ok()?,
        prime1: UintRef::new(prime1).ok()?,
        prime2: UintRef::new(prime2).ok()?,
        exponent1: UintRef::new(dp).ok()?,
        exponent2: UintRef::new(dq).ok()?,
        coefficient: UintRef::new(inverse).ok()?,
    }
    .to_der()
    .ok()
}

/// Bits of the modulus and of the order of a DSA key.
const DSA_BITS: (u32, u32) = (2048, 256);

/// Generates a DSA key of 2048 and 256 bits.
pub(super) fn dsa(random: &mut RandomBytes<'_>) -> Result<Vec<u8>, String> {
    let q: BoxedUint = random_prime(random, Flavor::Any, DSA_BITS.1);
    let p = dsa_modulus(&q, random)?;
    let order = non_zero(&q).ok_or(NOT_RANDOM)?;
    let params = BoxedMontyParams::new_vartime(p.clone());
    let power = |base: BoxedUint, exponent: &BoxedUint| {
        BoxedMontyForm::new(base.resize(DSA_BITS.0), &params).pow(exponent).retrieve()
    };
    let cofactor = (&*p - BoxedUint::one()).wrapping_div(&order);
    // Almost every base generates the group.
    let g = (2_u32..100)
        .map(|base| power(BoxedUint::from(base), &cofactor))
        .find(|g| !g.is_one().to_bool())
        .ok_or("the primes do not form a valid key")?;
    // With this many additional bits, all numbers below the order have practically the
    // same probability.
    let x = BoxedUint::random_bits(random, DSA_BITS.0).rem(&order);
    if x.is_zero().to_bool() {
        return Err(NOT_RANDOM.to_owned());
    }
    let y = power(g.clone(), &x);
    let bytes = [&*p, &q, &g, &y, &x].map(BoxedUint::to_be_bytes);
    let [p, q, g, y, x] = bytes.each_ref().map(|bytes| UintRef::new(bytes));
    let encoded = (|| DsaNumbers { version: 0, p: p?, q: q?, g: g?, y: y?, x: x? }.to_der())();
    encoded.map_err(|error| error.to_string())
}

/// A prime of the form `n * order + 1`.
fn dsa_modulus(order: &BoxedUint, random: &mut RandomBytes<'_>) -> Result<Odd<BoxedUint>, String> {
    let bits = DSA_BITS.0;
    let step = order.resize(bits).wrapping_add(order.resize(bits));
    let modulus = non_zero(&step).ok_or(NOT_RANDOM)?;
    for _ in 0..ATTEMPTS {
        let mut start = BoxedUint::random_bits(random, bits);
        start |= BoxedUint::one_with_precision(bits).wrapping_shl(bits - 1);
        let rest = start.rem(&modulus);
        let mut p = start.wrapping_sub(&rest).wrapping_add(BoxedUint::one());
        // One in 700 such numbers is prime; after a few thousand the search restarts.
        for _ in 0..4096 {
            if p.bits() == bits && has_no_small_factor(&p) && is_prime(Flavor::Any, &p) {
                return Odd::new(p).into_option().ok_or_else(|| NOT_RANDOM.to_owned());
            }
            p = p.wrapping_add(&step);
        }
    }
    Err(NOT_RANDOM.to_owned())
}

/// Whether no number below 2000 is a divisor: much cheaper than a primality test.
fn has_no_small_factor(n: &BoxedUint) -> bool {
    (3..2000).step_by(2).filter_map(limb).all(|factor| n.rem_limb(factor) != Limb::ZERO)
}
