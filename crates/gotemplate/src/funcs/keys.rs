//! Private keys: generating, parsing, encoding, and signing.
//!
//! All random bytes come from the run. Signatures need none: RSA and Ed25519 use no
//! random numbers, and ECDSA derives them from the key and the message (RFC 6979), so the
//! same run gives the same bytes.

use der::asn1::{Any, BitString, BitStringRef, Null, ObjectIdentifier, OctetStringRef};
use der::{Decode, Encode, Sequence};
use p256::ecdsa::signature::Signer;
use p256::elliptic_curve::pkcs8;
use p256::elliptic_curve::sec1::ToSec1Point;
use pem::{EncodeConfig, LineEnding, Pem};
use pkcs8::PrivateKeyInfoRef;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use x509_cert::{AlgorithmIdentifier, SubjectPublicKeyInfo};

use super::numbers::{self, ATTEMPTS, DsaNumbers, NOT_RANDOM, RandomBytes, RsaNumbers};
use super::prelude::*;

pub(super) const FUNCTIONS: &[Function] = &[f("genPrivateKey", "s", |run, a| {
    let key = match a.bytes(0) {
        b"" | b"rsa" => Pem::new("RSA PRIVATE KEY", {
            run.charge(LARGE_KEY)?;
            numbers::rsa(4096, &mut RandomBytes(run.random_source()?))?
        }),
        b"dsa" => Pem::new("DSA PRIVATE KEY", {
            run.charge(LARGE_KEY)?;
            numbers::dsa(&mut RandomBytes(run.random_source()?))?
        }),
        b"ecdsa" => {
            run.charge(SMALL_KEY)?;
            Key::P256(p256_key(run)?).to_pem()?
        }
        b"ed25519" => {
            run.charge(SMALL_KEY)?;
            let mut seed = [0; 32];
            run.random(&mut seed)?;
            Key::ed25519(seed)?.to_pem()?
        }
        _ => return Ok(Value::str(format!("Unknown type {}", a.text(0)))),
    };
    Ok(Value::str(write_pem(&key)))
})];

/// Steps of generating an RSA key of 4096 bits or a DSA key: one execution allows three.
const LARGE_KEY: usize = 300_000;

/// Steps of generating the RSA key of a certificate: one execution allows nine.
const RSA_KEY: usize = 100_000;

/// Steps of generating a key without a search for primes, and of a signature.
const SMALL_KEY: usize = 5_000;

const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const RSA_WITH_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.11");
const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const ECDSA_WITH_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2");
const ECDSA_WITH_SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.3");
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

/// A number below the order of the curve; almost all 32-byte values are.
fn p256_key(run: &mut Run<'_>) -> Outcome<p256::SecretKey> {
    for _ in 0..ATTEMPTS {
        let mut bytes = [0; 32];
        run.random(&mut bytes)?;
        if let Ok(key) = p256::SecretKey::from_slice(&bytes) {
            return Ok(key);
        }
    }
    Err(NOT_RANDOM.into())
}

/// A private key.
pub(super) enum Key {
    /// With its PKCS#1 form.
    Rsa(Box<RsaKeyPair>, Vec<u8>),
    P256(p256::SecretKey),
    P384(p384::SecretKey),
    /// With its seed.
    Ed25519(Box<Ed25519KeyPair>, [u8; 32]),
    /// A valid key that cannot be used for certificates here, and its description.
    Other(String),
}

/// The `ECPrivateKey` of SEC 1, as far as needed to determine the curve.
#[derive(Sequence)]
struct EcNumbers<'a> {
    version: u8,
    private_key: &'a OctetStringRef,
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT", optional = "true")]
    curve: Option<ObjectIdentifier>,
    #[asn1(context_specific = "1", tag_mode = "EXPLICIT", optional = "true")]
    public_key: Option<BitStringRef<'a>>,
}

/// A result with an error message for users.
type KeyResult<T> = Result<T, String>;

pub(super) fn to_text<E: std::fmt::Display>(error: E) -> String {
    error.to_string()
}

impl Key {
    /// Generates the default RSA key of certificates.
    pub fn generate(run: &mut Run<'_>) -> Outcome<Self> {
        run.charge(RSA_KEY)?;
        let der = numbers::rsa(2048, &mut RandomBytes(run.random_source()?))?;
        Ok(Self::rsa(&der)?)
    }

    /// Parses a key in PEM: PKCS#1, SEC 1, PKCS#8 or OpenSSL's format of DSA.
    pub fn parse(run: &mut Run<'_>, text: &[u8]) -> Outcome<Self> {
        run.charge(SMALL_KEY)?;
        let block = pem::parse(text).map_err(|_| "no PEM data in input")?;
        let der = block.contents();
        let Some(kind) = block.tag().strip_suffix("PRIVATE KEY") else {
            return Err(format!("no private key data in PEM block of type {}", block.tag()).into());
        };
        Ok(match kind {
            "" => Self::pkcs8(der).map_err(|error| format!("decoding PEM as PKCS#8: {error}"))?,
            "RSA " => {
                Self::rsa(der).map_err(|e| format!("parsing RSA private key from PEM: {e}"))?
            }
            "EC " => {
                Self::ec(der, None).map_err(|e| format!("parsing EC private key from PEM: {e}"))?
            }
            "DSA " => match DsaNumbers::from_der(der) {
                Ok(_) => Self::Other("a DSA key".to_owned()),
                Err(e) => return Err(format!("parsing DSA private key from PEM: {e}").into()),
            },
            _ => return Err(format!("invalid private key type {}", kind.trim_end()).into()),
        })
    }

    fn rsa(der: &[u8]) -> KeyResult<Self> {
        let numbers = RsaNumbers::from_der(der).map_err(to_text)?;
        let bytes = numbers.modulus.as_bytes().len();
        let exponent = numbers.public_exponent.as_bytes();
        if !(256..=512).contains(&bytes) {
            return Ok(Self::Other(format!("an RSA key of {} bits", bytes * 8)));
        }
        if exponent.len() < 3 {
            return Ok(Self::Other("an RSA key with a public exponent below 65537".to_owned()));
        }
        let pair = RsaKeyPair::from_der(der).map_err(to_text)?;
        Ok(Self::Rsa(Box::new(pair), der.to_vec()))
    }

    /// Parses a SEC 1 key; PKCS#8 contains the curve separately.
    fn ec(der: &[u8], curve: Option<ObjectIdentifier>) -> KeyResult<Self> {
        let key = EcNumbers::from_der(der).map_err(to_text)?;
        Ok(match curve.or(key.curve).ok_or("unknown elliptic curve")? {
            P256 => Self::P256(p256::SecretKey::from_sec1_der(der).map_err(to_text)?),
            P384 => Self::P384(p384::SecretKey::from_sec1_der(der).map_err(to_text)?),
            other => Self::Other(format!("a key of the elliptic curve {other}")),
        })
    }

    fn ed25519(seed: [u8; 32]) -> KeyResult<Self> {
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(to_text)?;
        Ok(Self::Ed25519(Box::new(pair), seed))
    }

    fn pkcs8(der: &[u8]) -> KeyResult<Self> {
        let info = PrivateKeyInfoRef::from_der(der).map_err(to_text)?;
        let key = info.private_key.as_bytes();
        match info.algorithm.oid {
            RSA => Self::rsa(key),
            EC => Self::ec(key, info.algorithm.parameters_oid().ok()),
            ED25519 => {
                let seed = <&OctetStringRef>::from_der(key).map_err(to_text)?;
                let seed = seed.as_bytes().try_into();
                Self::ed25519(seed.map_err(|_| "an Ed25519 key has 32 bytes")?)
            }
            other => Err(format!("unknown private key algorithm {other}")),
        }
    }

    /// The key in the usual format of its type.
    pub fn to_pem(&self) -> KeyResult<Pem> {
        Ok(match self {
            Self::Rsa(_, der) => Pem::new("RSA PRIVATE KEY", der.as_slice()),
            Self::P256(key) => {
                Pem::new("EC PRIVATE KEY", key.to_sec1_der().map_err(to_text)?.as_slice())
            }
            Self::P384(key) => {
                Pem::new("EC PRIVATE KEY", key.to_sec1_der().map_err(to_text)?.as_slice())
            }
            Self::Ed25519(_, seed) => {
                let inner = OctetStringRef::new(seed).and_then(|seed| seed.to_der());
                let inner = inner.map_err(to_text)?;
                let algorithm = pkcs8::AlgorithmIdentifierRef { oid: ED25519, parameters: None };
                let key = OctetStringRef::new(&inner).map_err(to_text)?;
                let der = PrivateKeyInfoRef::new(algorithm, key).to_der();
                Pem::new("PRIVATE KEY", der.map_err(to_text)?)
            }
            Self::Other(what) => return Err(unusable(what)),
        })
    }

    /// The public key, as certificates hold it.
    pub fn public(&self) -> KeyResult<SubjectPublicKeyInfo> {
        let (oid, parameters, key) = match self {
            Self::Rsa(pair, _) => (RSA, Some(null()), pair.public_key().as_ref().to_vec()),
            Self::P256(key) => (
                EC,
                Some(Any::from(P256)),
                key.public_key().to_sec1_point(false).as_bytes().to_vec(),
            ),
            Self::P384(key) => (
                EC,
                Some(Any::from(P384)),
                key.public_key().to_sec1_point(false).as_bytes().to_vec(),
            ),
            Self::Ed25519(pair, _) => (ED25519, None, pair.public_key().as_ref().to_vec()),
            Self::Other(what) => return Err(unusable(what)),
        };
        let algorithm = AlgorithmIdentifier { oid, parameters };
        let subject_public_key = BitString::from_bytes(&key).map_err(to_text)?;
        Ok(SubjectPublicKeyInfo { algorithm, subject_public_key })
    }

    /// The signature algorithm of the key.
    pub fn signature_algorithm(&self) -> KeyResult<AlgorithmIdentifier> {
        let (oid, parameters) = match self {
            Self::Rsa(..) => (RSA_WITH_SHA256, Some(null())),
            Self::P256(_) => (ECDSA_WITH_SHA256, None),
            Self::P384(_) => (ECDSA_WITH_SHA384, None),
            Self::Ed25519(..) => (ED25519, None),
            Self::Other(what) => return Err(unusable(what)),
        };
        Ok(AlgorithmIdentifier { oid, parameters })
    }

    /// Signs a message.
    pub fn sign(&self, run: &mut Run<'_>, message: &[u8]) -> Outcome<Vec<u8>> {
        run.charge(SMALL_KEY)?;
        Ok(match self {
            Self::Rsa(pair, _) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                // PKCS#1 v1.5 padding does not use the generator that ring requires.
                pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature)
                    .map_err(|_| "the RSA key cannot sign: its numbers are inconsistent")?;
                signature
            }
            Self::P256(key) => {
                let key = p256::ecdsa::SigningKey::from(key);
                let signature: p256::ecdsa::Signature = key.try_sign(message).map_err(to_text)?;
                signature.to_der().as_bytes().to_vec()
            }
            Self::P384(key) => {
                let key = p384::ecdsa::SigningKey::from(key);
                let signature: p384::ecdsa::Signature = key.try_sign(message).map_err(to_text)?;
                signature.to_der().as_bytes().to_vec()
            }
            Self::Ed25519(pair, _) => pair.sign(message).as_ref().to_vec(),
            Self::Other(what) => return Err(unusable(what).into()),
        })
    }
}

fn null() -> Any {
    Any::from(Null)
}

fn unusable(what: &str) -> String {
    format!(
        "{what} cannot be used for certificates: use RSA of 2048 to 4096 bits, ECDSA with P-256 or P-384, or Ed25519"
    )
}

/// Writes a block in lines of 64 characters.
pub(super) fn write_pem(block: &Pem) -> String {
    pem::encode_config(block, EncodeConfig::new().set_line_ending(LineEnding::LF))
}
