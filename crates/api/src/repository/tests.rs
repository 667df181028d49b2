//! Spellings that the installed `git` resolves alike.

use proptest::prelude::*;

use super::*;

fn normal(url: &str) -> String {
    RepositoryUrl::of(url).folded()
}

#[test]
fn all_spellings_of_a_repository_have_one_normal_form() {
    let cases: [(&str, &[&str]); 11] = [
        (
            "https://git.example.com/team/repo",
            &[
                "https://git.example.com/team/repo.git",
                "https://git.example.com/team/repo/",
                "https://git.example.com/team/repo.git/",
                "https://git.example.com/team/repo/.git",
                "https://git.example.com/team/repo.git/.git//",
                "https://git.example.com//team///repo",
                "https://git.example.com/team/./repo",
                "https://git.example.com/team/x/../repo",
                "https://git.example.com:443/team/repo",
                "https://git.example.com:0443/team/repo",
                "https://git.example.com:000443/team/repo",
                "https://git.example.com:/team/repo",
                "https://git.example.com./team/repo",
                "https://git.example.com.:443/team/repo",
                "HTTPS://GIT.Example.COM/Team/Repo.GIT",
                "https://user@git.example.com/team/repo",
                "https://user:p%40ss@git.example.com/team/repo",
                "https://@git.example.com/team/repo",
                "https://git.example.com/team/%72epo",
                "https://git.example.com/team%2Frepo",
                "https://git.ex%61mple.com/team/repo",
                "https://[git.example.com]/team/repo",
                "https://[git.example.com]:443/team/repo",
                "https://git.example.com/team/repo?x=1",
                "https://git.example.com/team/repo#x",
                "  https://git.example.com/team/repo ",
            ],
        ),
        (
            "ssh://git.example.com/team/repo",
            &[
                "ssh://git@git.example.com/team/repo.git",
                "ssh://git@git.example.com:22/team/repo",
                "ssh://git@git.example.com:022/team/repo",
                "ssh://git@git.example.com:/team/repo",
                "ssh://git@git.example.com:+22/team/repo",
                "ssh://git@[git.example.com]/team/repo",
                "ssh://git@[git.example.com:22]/team/repo",
                "ssh://git@[git.example.com]:22/team/repo",
                "ssh://[git@git.example.com:22]/team/repo",
                "ssh://git%40git.example.com/team/repo",
                "ssh://git.example.com./team/repo",
                "git+ssh://git@git.example.com/team/repo",
                "ssh+git://git@git.example.com/team/repo",
                "git@git.example.com:team/repo",
                "git@git.example.com:/team/repo",
                "git@git.example.com:team/repo.git",
                "GIT@Git.Example.com:team//repo/.git",
                "git.example.com:team/repo",
                "[git@git.example.com]:team/repo",
                "[git@git.example.com:22]:team/repo",
                "git@[git.example.com]:team/repo",
                "git@[git.example.com:022]:team/repo",
                "[git.example.com:22]:team/repo",
                "other@git.example.com:team/repo",
            ],
        ),
        (
            "ssh://git.example.com:2222/team/repo",
            &[
                "ssh://git@git.example.com:02222/team/repo.git",
                "[git@git.example.com:2222]:team/repo",
                "git@[git.example.com:2222]:/team/repo",
            ],
        ),
        (
            "ssh://github.com/org/repo",
            &["ssh://git@ssh.github.com:443/org/repo.git", "git@github.com:org/repo.git"],
        ),
        ("ssh://gitlab.com/org/repo", &["ssh://git@altssh.gitlab.com:443/org/repo.git"]),
        ("ssh://bitbucket.org/org/repo", &["ssh://git@altssh.bitbucket.org:443/org/repo.git"]),
        (
            "https://[2001:db8::1]/repo",
            &[
                "https://[2001:DB8::1]:443/repo",
                "https://[2001:0db8:0:0:0:0:0:1]/repo",
                "https://[2001:db8::0.0.0.1]/repo",
            ],
        ),
        (
            "ssh://[2001:db8::1]/repo",
            &["git@[2001:db8::1]:repo", "ssh://git@[2001:db8::1]:22/repo"],
        ),
        (
            "https://127.0.0.1/repo",
            &[
                "https://127.1/repo",
                "https://0x7f.1/repo",
                "https://0177.0.0.1/repo",
                "https://2130706433/repo",
                "https://[::ffff:127.0.0.1]/repo",
            ],
        ),
        (
            "https://xn--bcher-kva.example/repo",
            &["https://b\u{fc}cher.example/repo", "https://B\u{dc}CHER.example\u{3002}/repo"],
        ),
        ("/srv/repo", &["file:///srv/repo", "file://localhost/srv/repo.git", "/srv//repo/.git/"]),
    ];
    for (want, spellings) in cases {
        assert_eq!(normal(want), want, "it is in normal form");
        for spelling in spellings {
            assert_eq!(normal(spelling), want, "{spelling}");
        }
    }
}

#[test]
fn different_repositories_have_different_normal_forms() {
    let all = [
        "https://git.example.com/team/repo",
        "https://git.example.com/team/repo2",
        "https://git.example.com/team/re/po",
        "https://git.example.com/team",
        "https://git.example.com:8443/team/repo",
        "https://git.example.com.evil.org/team/repo",
        "https://git.example.com@evil.org/team/repo",
        "http://git.example.com/team/repo",
        "ssh://git.example.com/team/repo",
        "ssh://git.example.com:443/team/repo",
        "git@git.example.com:22/team/repo",
        "git@git.example.com:team/re%70o",
        "https://git.example.com/team/%2570",
        "/team/repo",
        "team/repo",
        "",
        "*",
    ];
    for (index, one) in all.iter().enumerate() {
        for other in &all[index + 1..] {
            assert_ne!(normal(one), normal(other), "{one} and {other}");
        }
    }
}

#[test]
fn patterns_keep_their_special_characters() {
    let cases = [
        ("*", "*"),
        ("https://github.com/*", "https://github.com/*"),
        ("https://github.com/**/x-?.git", "https://github.com/**/x-?"),
        ("https://*.example.com:443/{a,b}/[cd]*", "https://*.example.com/{a,b}/[cd]*"),
        ("https://[ab].example.com/x", "https://[ab].example.com/x"),
        ("git@github.com:org/*", "ssh://github.com/org/*"),
        ("git@*:org/*", "ssh://*/org/*"),
        ("*://github.com/*", "*://github.com/*"),
        ("file:///srv/*", "/srv/*"),
    ];
    for (pattern, want) in cases {
        assert_eq!(RepositoryUrl::of_pattern(pattern).folded(), want, "{pattern}");
    }
}

/// Parts of URLs, from which texts are put together.
fn texts() -> impl proptest::strategy::Strategy<Value = String> {
    let parts = [
        "https",
        "http",
        "ssh",
        "git+ssh",
        "file",
        "://",
        ":",
        "/",
        "//",
        "@",
        "git",
        "host",
        "HOST",
        "example.com",
        ".",
        "..",
        "[",
        "]",
        "::1",
        "%41",
        "%2f",
        "%25",
        "%",
        "4%31",
        ".git",
        "22",
        "022",
        "443",
        "?",
        "#",
        "\\",
        "+",
        " ",
        "*",
        "{a,b}",
        "\u{fc}",
        "%ff",
        "%c3%bc",
        "0x7f.1",
        "localhost",
        "repo",
        "\0",
    ];
    proptest::collection::vec(proptest::sample::select(parts.to_vec()), 0..14)
        .prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn the_normal_form_of_a_normal_form_is_itself(text in texts()) {
        let url = RepositoryUrl::of(&text);
        prop_assert_eq!(RepositoryUrl::of(&url.to_string()), url.clone());
        prop_assert_eq!(normal(&url.folded()), url.folded());
        let pattern = RepositoryUrl::of_pattern(&text);
        prop_assert_eq!(RepositoryUrl::of_pattern(&pattern.to_string()), pattern);
    }

    #[test]
    fn any_text_has_a_normal_form(text in "\\PC{0,40}") {
        let url = RepositoryUrl::of(&text);
        prop_assert_eq!(RepositoryUrl::of(&url.to_string()), url);
    }

    /// What git skips or adds may be written anywhere.
    #[test]
    fn spellings_of_one_repository_are_equal(
        ssh in any::<bool>(),
        user in proptest::sample::select(vec!["", "git@", "me:word@", "@"]),
        port in proptest::sample::select(vec!["", ":", ":DEFAULT", ":0DEFAULT", ":000DEFAULT"]),
        dot in proptest::sample::select(vec!["", "."]),
        host in proptest::sample::select(vec!["git.example.com", "GIT.example.COM", "git.exampl%65.com"]),
        slashes in proptest::sample::select(vec!["/", "//", "/./", "///"]),
        end in proptest::sample::select(vec!["", "/", ".git", ".git/", "/.git", ".git/.git"]),
    ) {
        let (scheme, default) = if ssh { ("ssh", "22") } else { ("https", "443") };
        let port = port.replace("DEFAULT", default);
        let url = format!("{scheme}://{user}{host}{dot}{port}{slashes}team{slashes}repo{end}");
        prop_assert_eq!(normal(&url), format!("{scheme}://git.example.com/team/repo"), "{}", url);
    }
}
