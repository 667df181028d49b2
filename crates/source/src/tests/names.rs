//! URLs, references, version ranges and patterns.

use crate::RepoCredentials;
use crate::SourceError;
use crate::git::address::{Address, Allow, Transport, redact_urls};
use crate::git::refs::{Found, Refs, RevisionTarget};
use crate::version::{Range, version};
use wavegate_api::glob::Glob;

#[test]
fn version_ranges_match_versions() {
    let cases = [
        // range, inside, outside (SE-032)
        ("*", "0.1.0 7.0.0", "1.0.0-rc.1"),
        ("1.x", "1.0.0 1.9.3", "0.9.0 2.0.0 1.1.0-beta"),
        ("1.*", "1.2.3", "2.0.0"),
        ("1.2.x", "1.2.0 1.2.9", "1.3.0"),
        ("v1.x", "1.4.0", "2.0.0"),
        ("~1.2", "1.2.0 1.2.7", "1.3.0"),
        ("~1", "1.2.0 1.9.7", "2.0.0"),
        ("~1.2.3", "1.2.3 1.2.9", "1.2.2 1.3.0"),
        ("^1.2", "1.2.0 1.9.0", "1.1.9 2.0.0"),
        ("^0.2.3", "0.2.3 0.2.9", "0.3.0 0.2.2"),
        ("^0.0.3", "0.0.3", "0.0.4"),
        ("^0.0", "0.0.0 0.0.9", "0.1.0"),
        ("^0", "0.9.0", "1.0.0"),
        (">=1.0 <2", "1.0.0 1.9.9", "0.9.9 2.0.0"),
        (">= 1.0, < 2", "1.5.0", "2.0.0"),
        (">11", "12.0.0", "11.0.0 11.5.0"),
        (">11.1", "11.2.0", "11.1.9"),
        ("<=11", "11.9.9 3.0.0", "12.0.0"),
        ("!=1.5.0 1.x", "1.4.0", "1.5.0"),
        ("!=1.x", "2.0.0", "1.7.0"),
        ("1.2 - 1.4.5", "1.2.0 1.4.5", "1.4.6 1.1.0"),
        ("1.x || >=3", "1.1.0 3.0.0", "2.0.0"),
        (">=1.0.0-0 <2.0.0", "1.0.0 1.5.0-beta.2", "2.0.0"),
        ("=1.2", "1.2.9", "1.3.0"),
    ];
    for (range, inside, outside) in cases {
        let parsed = Range::parse(range).unwrap_or_else(|| panic!("{range} is a range"));
        for text in inside.split(' ') {
            assert!(parsed.contains(&version(text).unwrap()), "{text} in {range}");
        }
        for text in outside.split(' ') {
            assert!(!parsed.contains(&version(text).unwrap()), "{text} not in {range}");
        }
    }
}

/// Helm reads a version with missing parts as a range.
#[test]
fn the_version_of_a_chart_has_three_parts() {
    for text in ["1.2.3", "v1.2.3", "1.2.3-rc.1", "main", ""] {
        assert_eq!(Range::of_chart(text), None, "{text}");
    }
    for (text, inside, outside) in
        [("1.2", "1.2.9", "1.3.0"), ("v1.2", "1.2.0", "1.1.9"), ("1", "1.9.0", "2.0.0")]
    {
        let range = Range::of_chart(text).unwrap();
        assert!(range.contains(&version(inside).unwrap()), "{inside} in {text}");
        assert!(!range.contains(&version(outside).unwrap()), "{outside} not in {text}");
    }
}

#[test]
fn a_plain_name_or_version_is_not_a_range() {
    for text in
        ["main", "HEAD", "v1.2.3", "1.2", "1", "release-1.x", "", "a||b", ">>1", "1.2.3.4", "1."]
    {
        assert_eq!(Range::parse(text), None, "{text}");
    }
}

#[test]
fn targets_are_resolved_to_references() {
    let [a, b, c, d, e] = ["a", "b", "c", "d", "e"].map(|digit| digit.repeat(40));
    let listing = format!(
        "{a}\tHEAD\n{a}\trefs/heads/main\n{b}\trefs/heads/v1.0.0\n{c}\trefs/tags/v1.0.0\n\
         {d}\trefs/tags/v1.2.0\n{e}\trefs/tags/v1.2.0^{{}}\n{b}\trefs/tags/v2.0.0-rc1\n\
         {c}\trefs/tags/app-1.5.0\n{d}\trefs/pull/7/head\nnot a line\n{b}x\trefs/heads/bad\n"
    );
    let refs = Refs::parse(&listing);
    let cases = [
        ("empty means HEAD", "", "", Some((&a, "HEAD"))),
        ("HEAD", "HEAD", "", Some((&a, "HEAD"))),
        ("branch", "main", "", Some((&a, "refs/heads/main"))),
        ("a branch takes precedence over a tag", "v1.0.0", "", Some((&b, "refs/heads/v1.0.0"))),
        ("full name", "refs/tags/v1.0.0", "", Some((&c, "refs/tags/v1.0.0"))),
        ("annotated tag gives its commit", "v1.2.0", "", Some((&e, "refs/tags/v1.2.0"))),
        ("other references", "pull/7/head", "", Some((&d, "refs/pull/7/head"))),
        ("newest tag of a range", "1.x", "", Some((&e, "refs/tags/v1.2.0"))),
        ("range over tags with a prefix", "1.x", "app-", Some((&c, "refs/tags/app-1.5.0"))),
        ("range written with the prefix", "app-1.x", "app-", Some((&c, "refs/tags/app-1.5.0"))),
        ("a range that nothing matches", "9.x", "", None),
        ("short hash of a tip", "eeeeeee", "", Some((&e, "refs/tags/v1.2.0"))),
        ("too short", "eeeeee", "", None),
        ("invalid lines are skipped", "bad", "", None),
    ];
    for (name, revision, tag_prefix, want) in cases {
        let found = refs.find(&RevisionTarget { revision, tag_prefix });
        match want {
            None => assert_eq!(found, Found::Nothing, "{name}"),
            Some((sha, reference)) => {
                let Found::One(found) = found else { panic!("{name}: {found:?}") };
                assert_eq!(
                    (&found.sha, found.reference.as_deref()),
                    (sha, Some(reference)),
                    "{name}"
                );
            }
        }
    }
    assert_eq!(refs.find(&"1234567".into()), Found::MaybeShort);
}

#[test]
fn patterns_match_across_directories() {
    let cases = [
        // V-225, V-226, SE-095
        ("*.yaml", "sub/e.yaml", true),
        ("*.yaml", "e.yml", false),
        ("{*.yml,*.yaml}", "a/b.yml", true),
        ("{config.yaml,env-use2/*}", "config.yaml", true),
        ("{config.yaml,env-use2/*}", "env-use2/deep/x.yaml", true),
        ("{config.yaml,env-use2/*}", "other/config.yaml", false),
        ("{a,b{c,d}}.yaml", "bd.yaml", true),
        ("{a,b{c,d}}.yaml", "b.yaml", false),
        ("**/x.yaml", "a/b/x.yaml", true),
        ("?.yaml", "a.yaml", true),
        ("?.yaml", "ab.yaml", false),
        ("[a-c].yaml", "b.yaml", true),
        ("[!a-c].yaml", "b.yaml", false),
        ("[!a-c].yaml", "d.yaml", true),
        ("[.+-].yaml", "-.yaml", true),
        (r"\*.yaml", "*.yaml", true),
        (r"\*.yaml", "a.yaml", false),
        ("a.yaml", "axyaml", false),
        ("a,b", "a,b", true),
        ("a}", "a}", true),
        ("(a|b)+$", "(a|b)+$", true),
        ("é*", "été", true),
        ("", "a", false),
    ];
    for (pattern, path, want) in cases {
        assert_eq!(Glob::new(pattern).unwrap().matches(path), want, "{pattern} on {path}");
    }
    for bad in ["{a", "[a", "a\\", "[]", "[z-a]", &"a".repeat(5000), &"{".repeat(4000)] {
        assert!(Glob::new(bad).is_err(), "{bad:.20}");
    }
}

#[test]
fn urls_are_validated_before_git_runs() {
    let allow = Allow::default();
    for url in [
        "https://example.com/team/repo.git",
        "https://example.com:8443/repo",
        "https://[2001:db8::1]:443/repo",
        "ssh://git@example.com:22/team/repo",
        "git@example.com:team/repo.git",
        "example.com:repo",
        "https://example.com/My%20Project/_git/repo",
        "https://[::1]:8443/team/repo",
    ] {
        assert!(Address::parse(url, allow).is_ok(), "{url}");
    }
    for url in [
        "",
        "--upload-pack=touch /tmp/x",
        "-oProxyCommand=x:y",
        "ssh://-oProxyCommand=x/repo",
        "ssh://-u@example.com/repo",
        "-u@example.com:repo",
        "git@-oProxyCommand=x:repo",
        "git@example.com:-repo",
        "ext::sh -c true",
        "ext::sh",
        "fd::17/x",
        "http://example.com/repo",
        "git://example.com/repo",
        "ftp://example.com/repo",
        "https://example.com",
        "https:///repo",
        "https://example.com/team/../other/repo",
        "https://example.com/team/%2e%2E/other/repo",
        "ssh://git@example.com/team/./repo",
        "git@example.com:../repo",
        "https://exa mple.com/repo",
        // Other spellings of a repository that a project may deny or allow.
        "https://example.com/team/%73ecret",
        "https://example.com/team%2Fsecret",
        "https://example.com./team/repo",
        "https://[example.com]/team/repo",
        "[example.com]:team/repo",
        "ssh://user%40evil.com%2F@example.com/repo",
        "ssh://git@example.com/team/x%2F..%2Fother",
        "https://example.com/team/repo#x",
        "https://example.com/team\\repo",
        "https://example.com:99999/team/repo",
        "[git@example.com:22]:team/repo",
        "git@[example.com:22]:team/repo",
        "https://example.com/a\nb",
        "https://user:pa/ss@example.com/repo",
        "repo",
    ] {
        let error = Address::parse(url, allow).unwrap_err();
        assert!(matches!(error, SourceError::InvalidUrl { .. }), "{url}: {error:?}");
        assert!(!error.is_transient());
    }
    for url in ["/srv/repo", "file:///srv/repo", "./repo", "../repo", "file://localhost/srv"] {
        let error = Address::parse(url, allow).unwrap_err();
        assert!(matches!(error, SourceError::LocalNotAllowed { .. }), "{url}: {error:?}");
    }
    let local = Allow { local: true, http: false };
    for url in ["/srv/repo", "file:///srv/my repo", "file://localhost/srv"] {
        assert!(Address::parse(url, local).unwrap().local().is_some(), "{url}");
    }
    for url in ["/srv/../etc", "./repo", "file://host/share"] {
        assert!(Address::parse(url, local).is_err(), "{url}");
    }
}

/// Spellings of one server have one entry in the caches.
#[test]
fn an_address_is_in_normal_form() {
    for (url, want) in [
        ("HTTPS://Git.Example.com:0443/Team/repo", "https://git.example.com/Team/repo"),
        ("https://git.example.com:/r", "https://git.example.com/r"),
        ("https://git.example.com:08443/r", "https://git.example.com:8443/r"),
        ("https://[2001:DB8:0::1]:443/r", "https://[2001:db8::1]/r"),
        ("ssh://git@GIT.example.com:022/r", "ssh://git@git.example.com/r"),
        ("ssh://git@ssh.github.com:443/r", "ssh://git@ssh.github.com:443/r"),
        ("git@GIT.example.com:Team/r", "git@git.example.com:Team/r"),
    ] {
        assert_eq!(Address::parse(url, Allow::default()).unwrap().url, want, "{url}");
    }
}

#[test]
fn a_password_in_a_url_is_removed() {
    let address =
        Address::parse("https://me:p%40ss@example.com/team/repo", Allow::default()).unwrap();
    assert_eq!(address.url, "https://example.com/team/repo");
    assert_eq!(address.shown, "https://***@example.com/team/repo");
    assert_eq!(address.embedded, Some(("me".into(), "p@ss".into())));
    let host = "example.com".to_owned();
    assert_eq!(address.transport, Transport::Http { scheme: "https", host });
    let ssh = Address::parse("ssh://git:secret@example.com/repo", Allow::default()).unwrap();
    assert_eq!(ssh.url, "ssh://git@example.com/repo");
}

#[test]
fn messages_contain_no_password() {
    let cases = [
        ("https://u:secret@h/r", "https://***@h/r"),
        (
            "fatal: 'https://u:secret@h/r' and https://tok@h/x",
            "fatal: 'https://***@h/r' and https://***@h/x",
        ),
        ("https://u:se/cr@et@h/r", "https://***@h/r"),
        ("https://h/r@1", "https://h/r@1"),
        ("https://h:8443/r@1", "https://h:8443/r@1"),
        ("https://h/r", "https://h/r"),
        ("no url", "no url"),
        ("a\u{1b}[31mb", "a\u{fffd}[31mb"),
    ];
    for (text, want) in cases {
        assert_eq!(redact_urls(text), want, "{text}");
    }
    let credentials = RepoCredentials {
        password: "secret".into(),
        ssh_private_key: "key".into(),
        ..RepoCredentials::default()
    };
    let shown = format!("{credentials:?}");
    assert!(!shown.contains("secret") && !shown.contains("\"key\""), "{shown}");
}
