use serde_json::json;

use super::*;

#[test]
fn credentials_are_hidden_wherever_they_stand_in_a_text() {
    let cases = [
        ("no url", "no url"),
        ("https://h/r", "https://h/r"),
        ("https://h:8443/r?ref=main", "https://h:8443/r?ref=main"),
        ("https://u:secret@h/r", "https://***@h/r"),
        (
            "fatal: 'https://u:secret@h/r' and https://tok@h/x",
            "fatal: 'https://***@h/r' and https://***@h/x",
        ),
        // Passwords that are not escaped.
        ("https://u:se/cr@et@h/r", "https://***@h/r"),
        ("https://u:se'cr@h/r", "https://***@h/r"),
        ("https://u:se\"cr@h/r", "https://***@h/r"),
        ("https://u:se<cr>et@h/r", "https://***@h/r"),
        ("https://u:se cr et@h/r gone", "https://***@h/r gone"),
        ("access 'https://u:it's@h/r': denied", "access 'https://***@h/r': denied"),
        ("https://u:se?c#r@h/r", "https://***@h/r"),
        ("https://user:123/rest@host", "https://***@host"),
        ("https://user:123/rest@host/team/r", "https://***@host/team/r"),
        ("https://to/ken@github.com/team/r", "https://***@github.com/team/r"),
        ("https://u:p@a/b@host/r", "https://***@host/r"),
        ("https://user:pa", "https://***"),
        ("ssh://git:pw@host/r", "ssh://***@host/r"),
        ("http://u:p@[::1]:80/r", "http://***@[::1]:80/r"),
        // Not every '@' is one of a password.
        ("https://h/r@1", "https://h/r@1"),
        ("https://h:8443/r@1", "https://h:8443/r@1"),
        ("https://h/@scope/name", "https://h/@scope/name"),
        ("https://h/r, ask a@b.c", "https://h/r, ask a@b.c"),
        ("https://h:443 is down, ask a@b.c", "https://h:443 is down, ask a@b.c"),
        // The punctuation after a port is none of a password.
        ("https://h:443, ask a@b.c", "https://h:443, ask a@b.c"),
        ("cannot reach https://h:8443, retrying", "cannot reach https://h:8443, retrying"),
        ("https://h:443; ask a@b.c", "https://h:443; ask a@b.c"),
        ("https://h:443: ask a@b.c", "https://h:443: ask a@b.c"),
        ("(see https://h:443), or a@b.c", "(see https://h:443), or a@b.c"),
        ("https://h:443.", "https://h:443."),
        ("http://[::1]:80, or a@b.c", "http://[::1]:80, or a@b.c"),
        // A URL without a host.
        ("repoURL https://: no host, ask a@b.c", "repoURL https://: no host, ask a@b.c"),
        ("https://", "https://"),
        ("https://:secret@h/r", "https://***@h/r"),
        ("https://u:secret, more@h/r", "https://***@h/r"),
        ("https://u:12,3@h/r", "https://***@h/r"),
        ("https://u:1,/2@h/r", "https://***@h/r"),
        ("https://u:secret,", "https://***"),
        (r#"{"a":"https://h","b":"c@d"}"#, r#"{"a":"https://h","b":"c@d"}"#),
        // Parameters.
        ("https://h/r?access_token=abc&ref=x", "https://h/r?access_token=***&ref=x"),
        ("'https://h/r?private_token=abc'", "'https://h/r?private_token=***'"),
        ("https://h/r#access_token=abc", "https://h/r#access_token=***"),
        ("https://u@h/r?X-Amz-Signature=abc", "https://***@h/r?X-Amz-Signature=***"),
        // As ssh users write it.
        ("repository user:pw@host:p: no", "repository ***@host:p: no"),
        ("git@host:team/r", "git@host:team/r"),
        ("'u:p@h:r'", "'***@h:r'"),
        ("nginx:1.2@sha256:abc", "nginx:1.2@sha256:abc"),
        ("mail: me@host: or not", "mail: me@host: or not"),
    ];
    for (given, want) in cases {
        assert_eq!(redact_text(given), want, "{given}");
        assert_eq!(redact_text(want), want, "twice: {given}");
        let inside = format!("ä {given}\nnext");
        assert!(redact_text(&inside).ends_with("\nnext"), "{inside}");
    }
}

#[test]
fn a_url_alone_may_hold_anything() {
    for (given, want) in [
        ("https://u:a b@h/r", "https://***@h/r"),
        ("https://u:12 34@host/r", "https://***@host/r"),
        ("https://u's er:x@h/r", "https://***@h/r"),
        ("user:pw@host:r", "***@host:r"),
        ("https://h/r", "https://h/r"),
    ] {
        assert_eq!(redact_url(given), want, "{given}");
    }
}

#[test]
fn what_is_known_is_hidden_in_any_form() {
    know_url("https://us'er:12 3\"4@known.example/r");
    assert_eq!(
        redact_text("cannot read https://us'er:12 3\"4@known.example/r: no"),
        "cannot read https://***@known.example/r: no"
    );
    assert_eq!(
        redact_text(r#"{"error":"https://us'er:12 3\"4@known.example/r"}"#),
        r#"{"error":"https://***@known.example/r"}"#
    );
    know_secret("short");
    know_secret("a-token-that-is-long\n");
    assert_eq!(redact_text("short a-token-that-is-long."), "short ***.");
    know_urls_of(&json!({"spec": {"sources": [{"repoURL": "https://u:field 1@f.example/r"}]}}));
    assert_eq!(redact_text("x https://u:field 1@f.example/r"), "x https://***@f.example/r");
    let mut status =
        json!({"conditions": [{"message": "https://u:p@h/r"}], "repoURL": "https://u:p@h/r"});
    redact_messages(&mut status);
    assert_eq!(
        status,
        json!({"conditions": [{"message": "https://***@h/r"}], "repoURL": "https://u:p@h/r"})
    );
}

#[test]
fn only_so_many_are_known() {
    let mut known = Known::default();
    for number in 0..MAX_KNOWN + 10 {
        known.add(&format!("secret-{number:06}"), HIDDEN);
    }
    assert_eq!(known.order.len(), MAX_KNOWN);
    assert_eq!(known.hide("secret-000001"), "secret-000001");
    assert_eq!(known.hide("a secret-000100 b"), "a *** b");
}
