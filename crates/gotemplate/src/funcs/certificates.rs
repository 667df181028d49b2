//! X.509 certificates: certificate authorities, self-signed certificates, and
//! certificates signed by an authority.

use std::net::IpAddr;
use std::time::Duration;

use der::asn1::{Any, BitString, Ia5String, ObjectIdentifier, OctetString, PrintableStringRef};
use der::asn1::{SetOfVec, Utf8StringRef};
use der::oid::AssociatedOid;
use der::{Decode, Encode, Sequence};
use jiff::{SignedDuration, Timestamp};
use pem::Pem;
use sha2::{Digest, Sha256};
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{
    AuthorityKeyIdentifier, BasicConstraints, ExtendedKeyUsage, KeyUsage, KeyUsages,
    SubjectAltName, SubjectKeyIdentifier,
};
use x509_cert::serial_number::SerialNumber;
use x509_cert::time::{Time, Validity};
use x509_cert::{AlgorithmIdentifier, SubjectPublicKeyInfo, Version};

use super::encoding::decode64;
use super::keys::{Key, to_text, write_pem};
use super::prelude::*;
use crate::engine::value::{Certificate, Str};

pub(super) const FUNCTIONS: &[Function] = &[
    f("genCA", "si", authority),
    f("genCAWithKey", "sis", authority),
    f("genSelfSignedCert", "slli", leaf),
    f("genSelfSignedCertWithKey", "sllis", leaf),
    f("genSignedCert", "slliC", signed_leaf),
    f("genSignedCertWithKey", "slliCs", signed_leaf),
    f("buildCustomCert", "ss", |run, a| {
        let cert = decode64(a.bytes(0)).map_err(|_| "unable to decode base64 certificate")?;
        let key = decode64(a.bytes(1)).map_err(|_| "unable to decode base64 private key")?;
        parse(run, &cert)?;
        parse_key(run, &key)?;
        made(&cert, &key)
    }),
];

fn authority(run: &mut Run<'_>, a: &[Value]) -> Outcome {
    let key = subject_key(run, a.get(2))?;
    let request = Request::authority(a)?;
    issue(run, &key, &request, &request.name, None, &key)
}

fn leaf(run: &mut Run<'_>, a: &[Value]) -> Outcome {
    let request = Request::leaf(run, a)?;
    let key = subject_key(run, a.get(4))?;
    issue(run, &key, &request, &request.name, None, &key)
}

fn signed_leaf(run: &mut Run<'_>, a: &[Value]) -> Outcome {
    let issuer = Issuer::read(run, a.get(4))?;
    let request = Request::leaf(run, a)?;
    let key = subject_key(run, a.get(5))?;
    // A self-signed certificate needs no key identifier of its issuer.
    let identifier = issuer.key_identifier.filter(|_| issuer.name != request.name);
    issue(run, &key, &request, &issuer.name, identifier, &issuer.key)
}

fn made(cert: &[u8], key: &[u8]) -> Outcome {
    let certificate = Certificate { cert: Str::from(cert), key: Str::from(key) };
    Ok(Value::Certificate(certificate.into()))
}

/// The requested content of a certificate.
struct Request {
    name: Any,
    alternative: Vec<GeneralName>,
    days: i64,
    authority: bool,
}

impl Request {
    /// Reads the arguments `cn days`.
    fn authority(a: &[Value]) -> Outcome<Self> {
        Ok(Self {
            name: common_name(a.bytes(0))?,
            alternative: Vec::new(),
            days: a.int(1),
            authority: true,
        })
    }

    /// Reads the arguments `cn ips alternateDNS days`.
    fn leaf(run: &mut Run<'_>, a: &[Value]) -> Outcome<Self> {
        let mut alternative = Vec::new();
        // Names precede addresses in the certificate.
        for name in items(run, a.get(2))? {
            let Value::Str(name) = name else {
                return Err(format!(
                    "error processing alternate dns name: {} is not a string",
                    shown(run, name)?
                )
                .into());
            };
            let name = Ia5String::new(name.bytes()).map_err(|_| {
                format!("x509: {:?} cannot be encoded as an IA5String", name.text())
            })?;
            alternative.push(GeneralName::DnsName(name));
        }
        for ip in items(run, a.get(1))? {
            let Value::Str(text) = ip else {
                return Err(format!("error parsing ip: {} is not a string", shown(run, ip)?).into());
            };
            let ip: IpAddr =
                text.text().parse().map_err(|_| format!("error parsing ip: {}", text.text()))?;
            let bytes = match ip.to_canonical() {
                IpAddr::V4(ip) => ip.octets().to_vec(),
                IpAddr::V6(ip) => ip.octets().to_vec(),
            };
            alternative.push(GeneralName::IpAddress(OctetString::new(bytes).map_err(to_text)?));
        }
        Ok(Self { name: common_name(a.bytes(0))?, alternative, days: a.int(3), authority: false })
    }
}

fn items<'a>(run: &mut Run<'_>, list: Option<&'a Value>) -> Outcome<&'a [Value]> {
    let items = match list {
        Some(Value::List(list)) => list.items(),
        _ => &[],
    };
    // Each item is copied several times.
    run.build(items.iter().map(|item| 256 + 4 * item.text_len()).sum())?;
    Ok(items)
}

/// How a value prints.
fn shown(run: &mut Run<'_>, value: &Value) -> Outcome<String> {
    let text = crate::engine::format::text(run, value)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// A distinguished name with an optional common name.
fn common_name(name: &[u8]) -> Outcome<Any> {
    let mut sets = Vec::new();
    if !name.is_empty() {
        let text = std::str::from_utf8(name)
            .map_err(|_| "error creating certificate: the common name is not UTF-8")?;
        let value = match PrintableStringRef::new(text) {
            Ok(text) => Any::encode_from(&text),
            Err(_) => Utf8StringRef::new(text).and_then(|text| Any::encode_from(&text)),
        };
        let attribute = AttributeTypeAndValue { oid: COMMON_NAME, value: value.map_err(to_text)? };
        sets.push(SetOfVec::try_from(vec![attribute]).map_err(to_text)?);
    }
    Ok(Any::encode_from(&sets).map_err(to_text)?)
}

/// Reads a certificate from PEM.
fn parse(run: &mut Run<'_>, text: &[u8]) -> Outcome<x509_cert::Certificate> {
    run.charge(text.len() / 64)?;
    let block = pem::parse(text).map_err(|_| "unable to decode certificate")?;
    let parsed = x509_cert::Certificate::from_der(block.contents());
    Ok(parsed.map_err(|error| format!("error parsing certificate: decodedCert.Bytes: {error}"))?)
}

/// The key of a certificate: the given one, or a new one.
fn subject_key(run: &mut Run<'_>, given: Option<&Value>) -> Outcome<Key> {
    match given {
        Some(Value::Str(text)) => {
            Key::parse(run, text.bytes()).map_err(|fail| fail.within("parsing private key"))
        }
        _ => Key::generate(run),
    }
}

fn parse_key(run: &mut Run<'_>, text: &[u8]) -> Outcome<Key> {
    Key::parse(run, text).map_err(|fail| fail.within("error parsing private key"))
}

/// The issuer of a certificate.
struct Issuer {
    name: Any,
    key_identifier: Option<OctetString>,
    key: Key,
}

impl Issuer {
    /// Reads an authority; its key must match its certificate.
    fn read(run: &mut Run<'_>, ca: Option<&Value>) -> Outcome<Self> {
        let Some(Value::Certificate(ca)) = ca else { return Err("not a certificate".into()) };
        let cert = parse(run, ca.cert.bytes())?;
        let key = parse_key(run, ca.key.bytes())?;
        let cert = cert.tbs_certificate();
        let certified = &cert.subject_public_key_info().subject_public_key;
        if key.public()?.subject_public_key != *certified {
            return Err("error creating certificate: x509: provided PrivateKey doesn't match parent's PublicKey".into());
        }
        let identifier = cert.get_extension::<SubjectKeyIdentifier>().map_err(to_text)?;
        Ok(Self {
            name: Any::encode_from(cert.subject()).map_err(to_text)?,
            key_identifier: identifier.map(|(_, identifier)| identifier.0),
            key,
        })
    }
}

/// The part of a certificate that is signed.
#[derive(Sequence)]
struct ToBeSigned {
    #[asn1(context_specific = "0", default = "Default::default")]
    version: Version,
    serial_number: SerialNumber,
    signature: AlgorithmIdentifier,
    issuer: Any,
    validity: Validity,
    subject: Any,
    subject_public_key_info: SubjectPublicKeyInfo,
    #[asn1(context_specific = "3", tag_mode = "EXPLICIT")]
    extensions: Vec<Extension>,
}

#[derive(Sequence)]
struct Signed {
    content: Any,
    algorithm: AlgorithmIdentifier,
    signature: BitString,
}

fn issue(
    run: &mut Run<'_>,
    key: &Key,
    request: &Request,
    issuer: &Any,
    issuer_key: Option<OctetString>,
    issuer_signs: &Key,
) -> Outcome {
    let now = run.now()?;
    let mut serial = [0; 16];
    run.random(&mut serial)?;
    let subject_public_key_info = key.public()?;
    let algorithm = issuer_signs.signature_algorithm()?;
    let identifier = request.authority.then(|| {
        let digest = Sha256::digest(subject_public_key_info.subject_public_key.raw_bytes());
        OctetString::new(&digest[..20])
    });
    let content = ToBeSigned {
        version: Version::V3,
        serial_number: SerialNumber::new(&serial).map_err(to_text)?,
        signature: algorithm.clone(),
        issuer: issuer.clone(),
        validity: validity(now, request.days)?,
        subject: request.name.clone(),
        subject_public_key_info,
        extensions: extensions(request, identifier.transpose().map_err(to_text)?, issuer_key)
            .map_err(to_text)?,
    };
    let content = content.to_der().map_err(to_text)?;
    let signature = issuer_signs.sign(run, &content)?;
    let certificate = Signed {
        content: Any::from_der(&content).map_err(to_text)?,
        algorithm,
        signature: BitString::from_bytes(&signature).map_err(to_text)?,
    };
    let cert = write_pem(&Pem::new("CERTIFICATE", certificate.to_der().map_err(to_text)?));
    let key = write_pem(&key.to_pem()?);
    run.charge_bytes(cert.len() + key.len())?;
    made(cert.as_bytes(), key.as_bytes())
}

fn validity(now: Timestamp, days: i64) -> Outcome<Validity> {
    let end = days
        .checked_mul(24 * 60 * 60)
        .and_then(|seconds| now.checked_add(SignedDuration::from_secs(seconds)).ok());
    let dates = |time: Timestamp| {
        let seconds = u64::try_from(time.as_second()).ok()?;
        der::DateTime::from_unix_duration(Duration::from_secs(seconds)).ok().map(Time::from)
    };
    let (Some(not_before), Some(not_after)) = (dates(now), end.and_then(dates)) else {
        return Err(format!(
            "{days} days from now is not within the years 1970 to 9999 that a certificate supports"
        )
        .into());
    };
    Ok(Validity::new(not_before, not_after))
}

const SERVER_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1");
const CLIENT_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.2");

fn extensions(
    request: &Request,
    key_identifier: Option<OctetString>,
    issuer_key: Option<OctetString>,
) -> der::Result<Vec<Extension>> {
    let mut usages = KeyUsages::DigitalSignature | KeyUsages::KeyEncipherment;
    if request.authority {
        usages |= KeyUsages::KeyCertSign;
    }
    let mut extensions = vec![
        extension(true, &KeyUsage(usages))?,
        extension(false, &ExtendedKeyUsage(vec![SERVER_AUTH, CLIENT_AUTH]))?,
        extension(true, &BasicConstraints { ca: request.authority, path_len_constraint: None })?,
    ];
    if let Some(identifier) = key_identifier {
        extensions.push(extension(false, &SubjectKeyIdentifier(identifier))?);
    }
    if issuer_key.is_some() {
        let identifier = AuthorityKeyIdentifier {
            key_identifier: issuer_key,
            ..AuthorityKeyIdentifier::default()
        };
        extensions.push(extension(false, &identifier)?);
    }
    if !request.alternative.is_empty() {
        // Without a subject these are the only names.
        let critical = request.name.value().is_empty();
        extensions.push(extension(critical, &SubjectAltName(request.alternative.clone()))?);
    }
    Ok(extensions)
}

fn extension<T: Encode + AssociatedOid>(critical: bool, value: &T) -> der::Result<Extension> {
    Ok(Extension { extn_id: T::OID, critical, extn_value: OctetString::new(value.to_der()?)? })
}

#[cfg(test)]
mod tests;
