use axum::http::HeaderValue;
use axum::http::header::{COOKIE, HOST};

use super::*;

fn headers(given: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
        headers.append(HeaderName::from_static(name), value);
    }
    headers
}

fn access(method: SignInMethod) -> TeamAccess {
    let url = PublicUrl::parse("https://rollouts.example.org").unwrap();
    TeamAccess::new(vec![url], method).unwrap()
}

fn by_headers(proof: ProxyProof) -> TeamAccess {
    let (user, groups) = (HeaderName::from_static("x-user"), HeaderName::from_static("x-groups"));
    access(SignInMethod::Headers { user, groups, proof })
}

#[test]
fn addresses_are_hosts_without_a_path() {
    for (text, want) in [
        ("https://Rollouts.example.org", Some("https://rollouts.example.org")),
        ("https://rollouts.example.org:443/", Some("https://rollouts.example.org")),
        ("https://rollouts.example.org:8443", Some("https://rollouts.example.org:8443")),
        ("http://localhost:8080", Some("http://localhost:8080")),
        ("rollouts.example.org", None),
        ("https://", None),
        ("https://me@rollouts.example.org", None),
        ("https://rollouts.example.org/page", None),
        ("https://rollouts.example.org/?a", None),
        ("ftp://rollouts.example.org", None),
        ("*", None),
    ] {
        let read = PublicUrl::parse(text).ok().map(|url| url.as_text());
        assert_eq!(read.as_deref(), want, "{text}");
    }
}

#[test]
fn a_token_is_taken_from_one_header() {
    let access = access(SignInMethod::Token);
    let token = |given: &[(&'static str, &str)]| {
        access.credentials(&headers(given), ProxyCertificate(true)).map_err(|no| no.status.as_u16())
    };
    let ann = Ok(PersonCredentials::Token("abc".to_owned()));
    assert_eq!(token(&[("authorization", "Bearer abc")]), ann);
    assert_eq!(token(&[("authorization", "bearer  abc ")]), ann);
    // Who a proxy says it is does not count here.
    assert_eq!(token(&[("authorization", "Bearer abc"), ("x-user", "root")]), ann);
    for (given, status) in [
        (&[][..], 401),
        (&[("x-user", "ann")], 401),
        (&[("authorization", "")], 401),
        (&[("authorization", "Bearer")], 401),
        (&[("authorization", "Bearer ")], 401),
        (&[("authorization", "Bearer a b")], 401),
        (&[("authorization", "Bearer a,Bearer b")], 401),
        (&[("authorization", "Basic abc")], 401),
        (&[("authorization", "Bearer ä")], 401),
        (&[("authorization", "Bearer abc"), ("authorization", "Bearer def")], 400),
        (&[("authorization", "Bearer abc"), ("impersonate-user", "root")], 400),
        (&[("authorization", "Bearer abc"), ("impersonate-group", "system:masters")], 400),
        (&[("authorization", "Bearer abc"), ("impersonate-extra-a", "b")], 400),
    ] {
        assert_eq!(token(given), Err(status), "{given:?}");
    }
}

#[test]
fn names_count_only_from_the_proxy_and_once() {
    let secret = "0123456789abcdef".to_owned();
    let access =
        by_headers(ProxyProof::Secret { header: HeaderName::from_static("x-secret"), secret });
    let person = |given: &[(&'static str, &str)]| {
        let proven = [&[("x-secret", "0123456789abcdef")], given].concat();
        access
            .credentials(&headers(&proven), ProxyCertificate(true))
            .map_err(|no| no.status.as_u16())
    };
    let named = |user: &str, groups: &[&str]| {
        Ok(PersonCredentials::Named {
            user: user.to_owned(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        })
    };
    assert_eq!(person(&[("x-user", "ann")]), named("ann", &[]));
    assert_eq!(person(&[("x-user", "ann"), ("x-groups", "a, b,,")]), named("ann", &["a", "b"]));
    for given in [
        &[][..],
        &[("x-user", "")],
        &[("x-user", " ")],
        &[("x-groups", "a")],
        &[("x-user", "ann"), ("x-user", "ann")],
        &[("x-user", "ann"), ("x-groups", "a"), ("x-groups", "b")],
        &[("x-user", "änn")],
        &[("x-user", "ann"), ("x-groups", "system:masters")],
        &[("x-user", "ann"), ("x-groups", "a, system:masters")],
        &[("x-user", "system:admin")],
        &[("x-user", &"a".repeat(600))],
        &[("x-user", "ann"), ("x-groups", &"a,".repeat(400))],
    ] {
        assert_eq!(person(given), Err(403), "{given:?}");
    }
    assert_eq!(person(&[("x-user", "ann"), ("impersonate-uid", "1")]), Err(400));
    for unproven in [
        &[("x-user", "ann")][..],
        &[("x-user", "ann"), ("x-secret", "")],
        &[("x-user", "ann"), ("x-secret", "0123456789abcdeF")],
        &[("x-user", "ann"), ("x-secret", "0123456789abcdef0")],
        &[("x-user", "ann"), ("x-secret", "0123456789abcdef"), ("x-secret", "0123456789abcdef")],
        &[("x-user", "ann"), ("authorization", "Bearer 0123456789abcdef")],
    ] {
        let refused = access.credentials(&headers(unproven), ProxyCertificate(true)).unwrap_err();
        assert_eq!(refused.status, 401, "{unproven:?}");
    }

    let access = by_headers(ProxyProof::Certificate);
    let given = headers(&[("x-user", "ann")]);
    assert!(access.credentials(&given, ProxyCertificate(true)).is_ok());
    assert_eq!(access.credentials(&given, ProxyCertificate(false)).unwrap_err().status, 401);
}

#[test]
fn the_word_of_a_form_is_of_one_person_in_one_browser() {
    let access = access(SignInMethod::Token);
    let (ann, bob) = ([1; 32], [2; 32]);
    let host = ("host", "rollouts.example.org");
    let made = access.form_word(&ann, &headers(&[host])).unwrap();
    let cookie = made.cookie.expect("the browser has none yet");
    assert!(cookie.starts_with("__Host-wavegate="), "{cookie}");
    assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict; Secure"), "{cookie}");
    let own = cookie.split(';').next().unwrap().to_owned();
    let with = |cookie: &str| {
        let mut headers = headers(&[host]);
        headers.insert(COOKIE, HeaderValue::from_str(cookie).unwrap());
        headers
    };
    assert!(access.is_form_word(&ann, &with(&own), &made.word));
    assert!(access.form_word(&ann, &with(&own)).unwrap().cookie.is_none());
    assert!(!access.is_form_word(&bob, &with(&own), &made.word), "of another person");
    assert!(!access.is_form_word(&ann, &with("__Host-wavegate=other"), &made.word));
    assert!(!access.is_form_word(&ann, &with("__Host-wavegate="), &access.word(&ann, "")));
    assert!(!access.is_form_word(&ann, &headers(&[host]), &made.word), "without the cookie");
    let mut other = with(&own);
    other.insert(HOST, HeaderValue::from_static("other.example.org"));
    assert!(!access.is_form_word(&ann, &other, &made.word));
}
