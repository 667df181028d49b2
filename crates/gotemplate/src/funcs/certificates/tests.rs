//! Keys and certificates are parsed by other libraries: ring and the verifier of rustls.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crypto_bigint::BoxedUint;
use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use der::Decode;
use p384::pkcs8::EncodePrivateKey;
use ring::signature::{Ed25519KeyPair, RsaKeyPair};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use serde_json::{Map, Value, json};
use webpki::ring as algorithms;
use x509_cert::Certificate;
use x509_cert::ext::pkix::{
    AuthorityKeyIdentifier, BasicConstraints, ExtendedKeyUsage, KeyUsage, SubjectAltName,
    SubjectKeyIdentifier,
};

use crate::TemplateError;
use crate::funcs::numbers::DsaNumbers;
use crate::go::{Env, GoTemplate, Random, TemplateLimits, TemplateOptions};

/// Pseudo-random bytes that are the same in every test.
struct Mixed(u64);

impl Random for Mixed {
    fn fill(&mut self, buffer: &mut [u8]) {
        for byte in buffer {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            *byte = (z ^ (z >> 31)) as u8;
        }
    }
}

const NOW: &str = "2026-02-03T04:05:06.7Z";

fn seconds(time: &str) -> u64 {
    time.parse::<jiff::Timestamp>().unwrap().as_second().try_into().unwrap()
}

fn render_from(
    random: impl Random + 'static,
    text: &str,
    params: Value,
    limits: &TemplateLimits,
) -> Result<String, TemplateError> {
    let Value::Object(params) = params else { panic!("no object") };
    let mut env = Env::new(NOW.parse().unwrap(), Box::new(random), || std::time::Duration::ZERO);
    GoTemplate::parse(text, &TemplateOptions::default())?.execute_in(&params, limits, &mut env)
}

fn try_render(text: &str, params: Value) -> Result<String, TemplateError> {
    render_from(Mixed(7), text, params, &TemplateLimits::default())
}

fn render(text: &str, params: Value) -> String {
    try_render(text, params).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// A certificate that a template printed as JSON: DER, and the key.
struct Made {
    pem: String,
    der: Vec<u8>,
    key: String,
}

impl Made {
    fn of(value: &Value) -> Self {
        let text = |name: &str| value[name].as_str().unwrap().to_owned();
        let block = pem::parse(text("Cert")).unwrap();
        assert_eq!(block.tag(), "CERTIFICATE");
        Self { pem: text("Cert"), der: block.into_contents(), key: text("Key") }
    }

    fn parsed(&self) -> Certificate {
        Certificate::from_der(&self.der).unwrap()
    }

    /// Whether rustls trusts it for a server of this name.
    fn verify(&self, ca: &Self, name: &str, time: &str) -> Result<(), webpki::Error> {
        let ca = CertificateDer::from(ca.der.as_slice());
        let leaf = CertificateDer::from(self.der.as_slice());
        let leaf = webpki::EndEntityCert::try_from(&leaf)?;
        leaf.verify_for_usage(
            &[
                algorithms::RSA_PKCS1_2048_8192_SHA256,
                algorithms::ECDSA_P256_SHA256,
                algorithms::ECDSA_P384_SHA384,
                algorithms::ED25519,
            ],
            &[webpki::anchor_from_trusted_cert(&ca)?],
            &[],
            UnixTime::since_unix_epoch(Duration::from_secs(seconds(time))),
            webpki::KeyUsage::server_auth(),
            None,
            None,
        )?;
        leaf.verify_is_valid_for_subject_name(&ServerName::try_from(name).unwrap())
    }
}

/// Renders a template that returns a list of certificates, and parses them.
fn make(text: &str, params: Value) -> Vec<Made> {
    let out = render(text, params);
    let list: Vec<Value> = serde_json::from_str(&out).unwrap();
    list.iter().map(Made::of).collect()
}

#[test]
fn keys_of_every_type_can_be_parsed() {
    let key = |kind: &str, tag: &str| {
        let text = render("{{ genPrivateKey .kind }}", json!({"kind": kind}));
        assert!(text.ends_with("-----\n") && !text.contains('\r'), "{text}");
        assert!(text.lines().all(|line| line.len() <= 64), "{text}");
        let block = pem::parse(&text).unwrap();
        assert_eq!(block.tag(), tag);
        block.into_contents()
    };
    let rsa = key("rsa", "RSA PRIVATE KEY");
    assert_eq!(RsaKeyPair::from_der(&rsa).unwrap().public().modulus_len(), 512);
    // RSA is the default; the same random bytes give the same key.
    assert_eq!(key("", "RSA PRIVATE KEY"), rsa);
    let ec = key("ecdsa", "EC PRIVATE KEY");
    p256::SecretKey::from_sec1_der(&ec).unwrap();
    let ed = key("ed25519", "PRIVATE KEY");
    Ed25519KeyPair::from_pkcs8_maybe_unchecked(&ed).unwrap();

    let dsa = key("dsa", "DSA PRIVATE KEY");
    let numbers = DsaNumbers::from_der(&dsa).unwrap();
    let [p, q, g, y, x] = numbers.all().map(|n| BoxedUint::from_be_slice_vartime(n.as_bytes()));
    assert_eq!((p.bits(), q.bits()), (2048, 256));
    let wide = |n: &BoxedUint| BoxedUint::from_be_slice(&n.to_be_bytes(), 2048).unwrap();
    let params = BoxedMontyParams::new(p.to_odd().unwrap());
    let power = |exponent: &BoxedUint| BoxedMontyForm::new(wide(&g), &params).pow(exponent);
    assert!(power(&q).retrieve().is_one().to_bool(), "the base generates the group");
    assert_eq!(power(&x).retrieve(), wide(&y));

    assert_eq!(render(r#"{{ genPrivateKey "x25519" }}"#, json!({})), "Unknown type x25519");
}

#[test]
fn a_signed_certificate_verifies_against_its_authority() {
    let text = r#"{{ $ca := genCA "My Authority" 365 -}}
        {{ $cert := genSignedCert "*.web & mail" (list "10.1.2.3" "::1" "::ffff:10.9.9.9") (list "web.example.org" "*.web.example.org") 30 $ca -}}
        {{ list $ca $cert | toJson }}"#;
    let [ca, cert] = make(text, json!({})).try_into().ok().unwrap();
    for name in ["web.example.org", "a.web.example.org", "10.1.2.3", "::1", "10.9.9.9"] {
        cert.verify(&ca, name, "2026-02-04T00:00:00Z").unwrap();
    }
    for (name, time) in [
        ("mail.example.org", "2026-02-04T00:00:00Z"),
        ("10.1.2.4", "2026-02-04T00:00:00Z"),
        ("web.example.org", "2026-02-03T04:05:05Z"),
        ("web.example.org", "2026-03-05T04:05:07Z"),
    ] {
        assert!(cert.verify(&ca, name, time).is_err(), "{name} {time}");
    }
    let stranger = &make(r#"{{ list (genCA "My Authority" 365 ) | toJson }}"#, json!({}))[0];
    assert_eq!(stranger.der, ca.der, "the same random bytes give the same certificate");
    let random = Mixed(8);
    let other = r#"{{ list (genCA "My Authority" 365) | toJson }}"#;
    let other = render_from(random, other, json!({}), &TemplateLimits::default()).unwrap();
    let other = Made::of(&serde_json::from_str::<Value>(&other).unwrap()[0]);
    assert!(cert.verify(&other, "web.example.org", "2026-02-04T00:00:00Z").is_err());

    let authority = ca.parsed();
    let authority = authority.tbs_certificate();
    assert_eq!(authority.subject().to_string(), "CN=My Authority");
    assert_eq!(authority.issuer(), authority.subject());
    let validity = authority.validity();
    assert_eq!(validity.not_before.to_unix_duration().as_secs(), seconds(NOW));
    assert_eq!(validity.not_after.to_unix_duration().as_secs(), seconds("2027-02-03T04:05:06Z"));
    let (critical, constraints) = authority.get_extension::<BasicConstraints>().unwrap().unwrap();
    assert!(critical && constraints.ca && constraints.path_len_constraint.is_none());
    let (critical, usage) = authority.get_extension::<KeyUsage>().unwrap().unwrap();
    assert!(critical && usage.digital_signature() && usage.key_encipherment());
    assert!(usage.key_cert_sign() && !usage.crl_sign());
    let (_, identifier) = authority.get_extension::<SubjectKeyIdentifier>().unwrap().unwrap();
    assert_eq!(identifier.0.as_bytes().len(), 20);

    let leaf = cert.parsed();
    let leaf = leaf.tbs_certificate();
    assert_eq!(leaf.subject().common_name().unwrap().unwrap().value(), "*.web & mail");
    assert_eq!(leaf.issuer(), authority.subject());
    assert_eq!(RsaKeyPair::from_der(&contents(&cert.key)).unwrap().public().modulus_len(), 256);
    assert!(leaf.serial_number().as_bytes().len() >= 15, "the serial number has 128 bits");
    assert_ne!(leaf.serial_number(), authority.serial_number());
    let (critical, constraints) = leaf.get_extension::<BasicConstraints>().unwrap().unwrap();
    assert!(critical && !constraints.ca);
    let (_, usage) = leaf.get_extension::<KeyUsage>().unwrap().unwrap();
    assert!(usage.digital_signature() && usage.key_encipherment() && !usage.key_cert_sign());
    let (_, usages) = leaf.get_extension::<ExtendedKeyUsage>().unwrap().unwrap();
    let usages: Vec<_> = usages.0.iter().map(ToString::to_string).collect();
    assert_eq!(usages, ["1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"], "server and client");
    let (_, pointer) = leaf.get_extension::<AuthorityKeyIdentifier>().unwrap().unwrap();
    assert_eq!(pointer.key_identifier, Some(identifier.0));
    let (critical, names) = leaf.get_extension::<SubjectAltName>().unwrap().unwrap();
    assert_eq!((critical, names.0.len()), (false, 5));
}

fn contents(key: &str) -> Vec<u8> {
    pem::parse(key).unwrap().into_contents()
}

/// One key of each type that can sign, in the format of other programs.
fn keys() -> Value {
    let p384 = p384::SecretKey::from_slice(&[5; 48]).unwrap();
    let write = |tag: &str, der: &[u8]| pem::encode(&pem::Pem::new(tag, der));
    let rsa = render(r#"{{ (genCA "x" 1).Key }}"#, json!({}));
    json!({
        "rsa": rsa,
        "p256": render(r#"{{ genPrivateKey "ecdsa" }}"#, json!({})),
        "p256 pkcs8": write("PRIVATE KEY", p256::SecretKey::from_slice(&[3; 32]).unwrap().to_pkcs8_der().unwrap().as_bytes()),
        "p384": write("EC PRIVATE KEY", &p384.to_sec1_der().unwrap()),
        "p384 pkcs8": write("PRIVATE KEY", p384.to_pkcs8_der().unwrap().as_bytes()),
        "ed25519": render(r#"{{ genPrivateKey "ed25519" }}"#, json!({})),
        "with text before": format!("A key of mine\n\n{rsa}"),
    })
}

#[test]
fn given_keys_are_used_and_returned() {
    let keys = keys();
    for (kind, key) in keys.as_object().unwrap() {
        let text = r#"{{ $ca := genCAWithKey "ca" 10 .key -}}
            {{ $self := genSelfSignedCertWithKey "me" nil (list "self") 10 .key -}}
            {{ $cert := genSignedCertWithKey "web" (list) (list "web") 10 $ca .leaf -}}
            {{ list $ca $self $cert | toJson }}"#;
        let params = json!({"key": key, "leaf": keys["ed25519"]});
        let [ca, own, cert] = make(text, params).try_into().ok().unwrap();
        cert.verify(&ca, "web", NOW).unwrap_or_else(|error| panic!("{kind}: {error}"));
        own.verify(&own, "self", NOW).unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert_eq!(cert.key, keys["ed25519"].as_str().unwrap());
        assert_eq!(ca.key, own.key);
        let tag = match kind.as_str() {
            "rsa" | "with text before" => "RSA PRIVATE KEY",
            "ed25519" => "PRIVATE KEY",
            _ => "EC PRIVATE KEY",
        };
        assert_eq!(pem::parse(&ca.key).unwrap().tag(), tag, "{kind}");
        let (critical, names) =
            own.parsed().tbs_certificate().get_extension::<SubjectAltName>().unwrap().unwrap();
        assert_eq!((critical, names.0.len()), (false, 1));
    }
}

#[test]
fn an_authority_can_come_from_the_parameters() {
    let keys = keys();
    for kind in ["rsa", "p256", "p384", "ed25519"] {
        let text = r#"{{ list (genCAWithKey "ca" 10 .) | toJson }}"#;
        let text = text.replace("10 .", &format!("10 .{kind}"));
        let ca = make(&text, keys.clone()).remove(0);
        let params = json!({"cert": STANDARD.encode(&ca.pem), "key": STANDARD.encode(&ca.key)});
        let text = r#"{{ $ca := buildCustomCert .cert .key -}}
            {{ list $ca (genSignedCert "web" nil (list "web") 10 $ca) | toJson }}"#;
        let [same, cert] = make(text, params).try_into().ok().unwrap();
        assert_eq!((&same.pem, &same.key), (&ca.pem, &ca.key));
        cert.verify(&ca, "web", NOW).unwrap_or_else(|error| panic!("{kind}: {error}"));
    }
}

#[test]
fn names_and_dates_may_be_unusual() {
    let key = &keys()["ed25519"];
    let text = r#"{{ list
        (genSelfSignedCertWithKey "" nil (list "only") 1 .key)
        (genCAWithKey "Zoë" 36500 .key)
        (genCAWithKey "past" -1 .key) | toJson }}"#;
    let [nameless, long, past] = make(text, json!({"key": key})).try_into().ok().unwrap();
    nameless.verify(&nameless, "only", NOW).unwrap();
    let parsed = nameless.parsed();
    assert!(parsed.tbs_certificate().subject().is_empty());
    let names = parsed.tbs_certificate().get_extension::<SubjectAltName>().unwrap().unwrap();
    assert!(names.0, "without a subject the other names are critical");
    let long = long.parsed();
    let long = long.tbs_certificate();
    assert_eq!(long.subject().common_name().unwrap().unwrap().value(), "Zoë");
    let end = long.validity().not_after.to_unix_duration().as_secs();
    assert_eq!(end, seconds("2126-01-10T04:05:06Z"));
    let validity = *past.parsed().tbs_certificate().validity();
    let [start, end] =
        [validity.not_before, validity.not_after].map(|time| time.to_unix_duration().as_secs());
    assert_eq!(start - end, 24 * 60 * 60);
}

#[test]
fn a_certificate_is_a_struct_with_two_fields() {
    for (text, want) in [
        ("{{ $c.Cert }}", r"^-----BEGIN CERTIFICATE-----\n[^-]+\n-----END CERTIFICATE-----\n$"),
        ("{{ $c.Key }}", r"^-----BEGIN PRIVATE KEY-----\n[^-]+\n-----END PRIVATE KEY-----\n$"),
        ("{{ typeOf $c }} {{ kindOf $c }}", "^sprig.certificate struct$"),
        ("{{ $c }}", r"^\{-----BEGIN C[^{}]+-----\n -----BEGIN P[^{}]+-----\n\}$"),
        (r#"{{ printf "%+v" $c }}"#, r"^\{Cert:-----BEGIN [^{}]+ Key:-----BEGIN [^{}]+\}$"),
        (
            r#"{{ printf "%#v" $c }}"#,
            r#"^sprig.certificate\{Cert:"-----[^"{}]+", Key:"-----[^"{}]+"\}$"#,
        ),
        ("{{ toJson $c }}", r#"^\{"Cert":"-----[^"{}]+","Key":"-----[^"{}]+"\}$"#),
        ("{{ toYaml $c }}", r"^Cert: \|\n  -----BEGIN C[^|]+\nKey: \|\n  -----BEGIN P[^|]+-----$"),
        ("{{ with $c }}yes{{ end }} {{ empty $c }}", "^yes false$"),
        ("{{ eq $c $c }} {{ eq $c $d }} {{ deepEqual $c $c }}", "^true false true$"),
    ] {
        let text = format!(
            r#"{{{{ $k := genPrivateKey "ed25519" }}}}{{{{ $c := genCAWithKey "c" 1 $k }}}}{{{{ $d := genCAWithKey "d" 1 $k }}}}{text}"#
        );
        let out = render(&text, json!({}));
        assert!(regex::Regex::new(want).unwrap().is_match(&out), "{text} gave {out}");
    }
}

#[test]
fn errors_have_a_reason_and_a_position() {
    let keys = keys();
    let ed = keys["ed25519"].as_str().unwrap();
    let small = pem::encode(&pem::Pem::new("DSA PRIVATE KEY", [0x30, 0]));
    let mut params = json!({
        "n": 3, "ed": ed, "p256": keys["p256"], "b64": STANDARD.encode(ed), "broken": small,
        "dsa": render(r#"{{ genPrivateKey "dsa" }}"#, json!({})),
        "certificate": STANDARD.encode(render(r#"{{ (genCAWithKey "x" 1 .k).Cert }}"#, json!({"k": ed}))),
    });
    params["other"] = json!(STANDARD.encode(params["p256"].as_str().unwrap()));
    for (column, call, want) in [
        (9, "genCA 3 4", "expected string; found 3"),
        (13, r#"genCA "x" "y""#, r#"expected int; found "y""#),
        (13, r#"genCA "x" .n"#, "wrong type for value; expected int; got float64"),
        (3, r#"genCA "x""#, "wrong number of args for genCA: want 2 got 1"),
        (25, r#"genSelfSignedCert "x" "10.0.0.1" nil 1"#, "can't handle"),
        (3, r#"genSelfSignedCert "x" (list "10.0.0") nil 1"#, "error parsing ip: 10.0.0"),
        (3, r#"genSelfSignedCert "x" (list 10) nil 1"#, "error parsing ip: 10 is not a string"),
        (3, r#"genSelfSignedCert "x" nil (list 1) 1"#, "alternate dns name: 1 is not a string"),
        (3, r#"genSelfSignedCert "x" nil (list "é") 1"#, "IA5String"),
        (
            31,
            r#"genSignedCert "x" nil nil 1 "ca""#,
            r#"can't handle "ca" for arg of type sprig.certificate"#,
        ),
        (
            31,
            r#"genSignedCert "x" nil nil 1 .ed"#,
            "wrong type for value; expected sprig.certificate; got string",
        ),
        (31, r#"genSignedCert "x" nil nil 1 .no"#, "sprig.certificate"),
        (3, r#"genCAWithKey "x" 1 "key""#, "parsing private key: no PEM data in input"),
        (
            3,
            r#"genCAWithKey "x" 1 .broken"#,
            "parsing private key: parsing DSA private key from PEM",
        ),
        (3, r#"genCAWithKey "x" 1 .dsa"#, "a DSA key cannot be used for certificates"),
        (
            3,
            r#"genCAWithKey "x" 1 (.ed | replace "PRIVATE" "PUBLIC")"#,
            "no private key data in PEM block of type PUBLIC KEY",
        ),
        (
            3,
            r#"genCAWithKey "x" 1 (.ed | replace "PRIVATE" "OPENSSH PRIVATE")"#,
            "invalid private key type OPENSSH",
        ),
        (3, r#"genCAWithKey "x" 99999999 .ed"#, "99999999 days from now"),
        (3, r#"genCAWithKey "x" -9223372036854775808 .ed"#, "days from now"),
        (3, r#"buildCustomCert "*" .b64"#, "unable to decode base64 certificate"),
        (3, r#"buildCustomCert .certificate "*""#, "unable to decode base64 private key"),
        (3, r#"buildCustomCert "aGVsbG8=" .b64"#, "unable to decode certificate"),
        (3, r#"buildCustomCert .b64 .b64"#, "error parsing certificate"),
        (3, r#"buildCustomCert .certificate "aGVsbG8=""#, "error parsing private key: no PEM data"),
        (
            3,
            r#"genSignedCert "x" nil nil 1 (buildCustomCert .certificate .other)"#,
            "provided PrivateKey doesn't match parent's PublicKey",
        ),
        (
            23,
            r#"(genCAWithKey "x" 1 .ed).Nope"#,
            "can't evaluate field Nope in type sprig.certificate",
        ),
    ] {
        let error = try_render(&format!("text\n{{{{ {call} }}}}"), params.clone()).unwrap_err();
        assert!(error.to_string().contains(want), "{call}: {error}");
        assert_eq!((error.line(), error.column()), (Some(2), Some(column)), "{call}: {error}");
    }
}

#[test]
fn time_and_random_source_are_required() {
    for call in [
        r#"genPrivateKey "rsa""#,
        r#"genPrivateKey "dsa""#,
        r#"genPrivateKey "ecdsa""#,
        r#"genPrivateKey "ed25519""#,
        r#"genCA "x" 1"#,
        r#"genSelfSignedCert "x" nil nil 1"#,
        r#"genCAWithKey "x" 1 .key"#,
    ] {
        let template =
            GoTemplate::parse(&format!("{{{{ {call} }}}}"), &TemplateOptions::default()).unwrap();
        let params: Map<String, Value> =
            Map::from_iter([("key".to_owned(), keys()["ed25519"].clone())]);
        let error = template.execute(&params, &TemplateLimits::default()).unwrap_err();
        assert!(error.to_string().contains("not "), "{error}");
    }
}

#[test]
fn a_repeating_random_source_gives_no_rsa_key() {
    struct Same;
    impl Random for Same {
        fn fill(&mut self, buffer: &mut [u8]) {
            buffer.fill(0x35);
        }
    }
    let text = r#"{{ genCA "x" 1 }}"#;
    let error = render_from(Same, text, json!({}), &TemplateLimits::default()).unwrap_err();
    assert!(
        error.to_string().contains("the source of random bytes returns repeated values"),
        "{error}"
    );
}

#[test]
fn an_execution_allows_a_few_keys() {
    for text in [
        r#"{{ range until 3 }}{{ genPrivateKey "ecdsa" }}{{ genCA "x" 1 }}{{ end }}"#,
        r#"{{ $ca := genCA "x" 1 }}{{ range until 4 }}{{ genSignedCert "x" nil nil 1 $ca }}{{ end }}"#,
    ] {
        assert!(render(text, json!({})).len() > 1000);
    }
    // Only a few steps are left when these start, and none of them searches for primes.
    let limits = TemplateLimits { steps: 50_000, ..TemplateLimits::default() };
    for text in [
        r#"{{ genPrivateKey "rsa" }}"#,
        r#"{{ genPrivateKey "dsa" }}"#,
        r#"{{ genCA "x" 1 }}"#,
        r#"{{ range until 1000 }}{{ genPrivateKey "ecdsa" | trunc 0 }}{{ end }}"#,
        r#"{{ range until 1000 }}{{ genPrivateKey "ed25519" | trunc 0 }}{{ end }}"#,
        r#"{{ $k := genPrivateKey "ed25519" }}{{ range until 1000 }}{{ $_ := genCAWithKey "x" 1 $k }}{{ end }}"#,
    ] {
        let error = render_from(Mixed(7), text, json!({}), &limits).unwrap_err();
        assert!(error.to_string().contains("limit exceeded"), "{text}: {error}");
    }
}
