//! Tables of URLs, revisions, bodies and signatures.

mod events;

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::growth::assert_linear;

fn headers<'a>(headers: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
    move |name| headers.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
}

#[test]
fn urls_of_one_repository_are_equal_as_421() {
    let repository = Repository::of("https://github.com/Team/repo");
    for url in [
        "https://github.com/team/repo",
        "https://github.com/team/repo.git",
        "https://github.com/team/repo.git/",
        "http://user:word@GitHub.com:443/team/repo",
        "git@github.com:team/repo.git",
        "ssh://git@github.com:22/team/repo.git",
        "github.com/team/repo",
        "https://github.com/{{org}}/repo",
        "https://{{host}}:{{port}}/team/repo.git",
        "git@github.com:{{.org}}/{{.name}}.git",
        "{{ .url }}",
        "{{ if .ssh }}git@github.com:{{ else }}https://example.com/{{ end }}other",
        "https://github.com/{{unclosed",
    ] {
        assert!(repository.is(url), "{url}");
    }
    for url in [
        "",
        "https://github.com/team/repo2",
        "https://github.com/team/re",
        "https://github.com/team/repo/more",
        "https://github.com.evil.example/team/repo",
        "https://example.com/github.com/team/repo",
        "https://evilgithub.com/team/repo",
        "git@github.com:other/repo.git",
        "https://github.com/{{org}}/other",
        "https://gitlab.com/{{org}}/repo",
        "{{a}}team/repo/x{{b}}",
    ] {
        assert!(!repository.is(url), "{url}");
    }
    for url in ["git@ssh.github.com:team/repo.git", "ssh://git@ssh.github.com:443/team/repo"] {
        assert!(repository.is(url), "{url}");
    }
    // AS-421: also servers of one's own, with templates, and the other way round.
    let cases = [
        ("https://gitlab.com/a/b", "ssh://git@altssh.gitlab.com:443/a/b.git"),
        ("https://bitbucket.org/a/b", "ssh://git@altssh.bitbucket.org:443/a/b.git"),
        ("https://git.example.com/a/b", "ssh://git@ssh.git.example.com:2222/a/b.git"),
        ("https://git.example.com/a/b", "ssh://git@ssh.git.example.com:443/{{org}}/b"),
        ("ssh://git@ssh.github.com:443/a/b", "https://github.com/a/b"),
        ("https://org.visualstudio.com/p/_git/r", "org@vs-ssh.visualstudio.com:v3/org/p/r"),
        ("https://dev.azure.com/org/p/_git/r", "ssh://git@ssh.dev.azure.com:22/v3/org/p/r"),
        ("https://h/a/b", "https://H:0443//a/b.git/"),
        ("https://h/a/b", "[git@h:22]:a/b"),
        ("https://h/a%20b/c", "https://h/A b/c"),
    ];
    for (pushed, url) in cases {
        assert!(Repository::of(pushed).is(url), "{url} is {pushed}");
    }
    assert!(!Repository::of("https://example.com/a/b").is("https://ssh.example.org/a/b"));
    let azure = Repository::of("https://org@dev.azure.com/org/project/_git/repo");
    assert!(azure.is("git@ssh.dev.azure.com:v3/org/project/repo"));
    assert!(!azure.is("git@ssh.dev.azure.com:v3/org/project/other"));
}

fn push_to(name: &str) -> Push {
    let repositories = vec![Repository::of("https://g.example/a/b")];
    let refs = vec![Ref::new(name, "main")];
    Push { repositories, refs, files: Vec::new(), pull_request: None }
}

#[test]
fn revisions_are_compared_with_branches_and_tags_as_421() {
    // Revision, pushed ref, whether it is read again.
    for (revision, name, want) in [
        ("", "refs/heads/main", true),
        ("HEAD", "refs/heads/main", true),
        ("HEAD", "refs/heads/dev", false),
        ("", "refs/tags/main", false),
        ("dev", "refs/heads/dev", true),
        ("dev", "refs/heads/feature/dev", false),
        ("feature/dev", "refs/heads/feature/dev", true),
        ("refs/heads/dev", "refs/heads/dev", true),
        ("refs/heads/dev", "refs/tags/dev", false),
        ("v1.2.3", "refs/tags/v1.2.3", true),
        ("v1.2.3", "refs/tags/v1.2.4", true),
        ("1.x", "refs/tags/v1.2.4", true),
        (">=1.0 <2", "refs/tags/v1.2.4", true),
        ("1.x", "refs/heads/main", false),
        ("main", "refs/tags/v1.2.4", false),
        ("0123456789abcdef0123456789abcdef01234567", "refs/heads/main", false),
        ("{{branch}}", "refs/heads/dev", true),
        ("release-{{version}}", "refs/heads/release-1", true),
        ("release-{{version}}", "refs/heads/main", false),
        ("refs/heads/{{branch}}", "refs/heads/dev", true),
    ] {
        let git = json!({"repoURL": "https://g.example/a/b", "revision": revision});
        let got = uses_push(&json!([{ "git": git }]), &push_to(name));
        assert_eq!(got, want, "{revision:?} {name}");
    }
}

#[test]
fn nested_generators_are_found_as_421() {
    let git = json!({"git": {"repoURL": "git@g.example:a/b.git"}});
    let list = json!({"list": {"elements": []}});
    let matrix = |inner: &serde_json::Value| json!({"matrix": {"generators": [list, inner]}});
    let merge = |inner: &serde_json::Value| json!({"merge": {"generators": [list, inner]}});
    let push = push_to("refs/heads/main");
    for found in [git.clone(), matrix(&git), merge(&git), matrix(&merge(&git))] {
        assert!(uses_push(&json!([list, found]), &push), "{found}");
    }
    let too_deep = matrix(&matrix(&matrix(&git)));
    for other in [list.clone(), too_deep, json!({"git": null}), json!("git"), json!({"git": []})] {
        assert!(!uses_push(&json!([other]), &push), "{other}");
    }
    assert!(!uses_push(&json!({"git": {}}), &push));
}

#[test]
fn bodies_are_read_by_their_headers_as_421() {
    let github = json!({"ref": "refs/heads/main", "repository": {"html_url": "https://g.example/a/b", "default_branch": "main"}});
    let gitlab = json!({"object_kind": "push", "ref": "refs/heads/main", "project": {"web_url": "https://g.example/a/b", "default_branch": "main"}});
    let azure = json!({"eventType": "git.push", "resource": {
        "refUpdates": [{"name": "refs/heads/main"}],
        "repository": {"remoteUrl": "https://g.example/a/b", "defaultBranch": "refs/heads/main"},
    }});
    let read = |headers: &dyn Fn(&str) -> Option<String>, body: &serde_json::Value| {
        let provider = Provider::of(headers).ok_or(RefusedWebhook::Unknown)?;
        read_payload(provider, headers, body.to_string().as_bytes())
    };
    let want = Ok(Some(push_to("refs/heads/main")));
    assert_eq!(read(&headers(&[("x-github-event", "push")]), &github), want);
    for event in ["Push Hook", "Tag Push Hook", "System Hook"] {
        assert_eq!(read(&headers(&[("x-gitlab-event", event)]), &gitlab), want, "{event}");
    }
    assert_eq!(read(&headers(&[("x-vss-activityid", "1")]), &azure), want);
    let gogs = headers(&[("x-github-event", "push"), ("x-gogs-event", "push")]);
    assert_eq!(Provider::of(&gogs), Some(Provider::Gogs));
    assert_eq!(read(&gogs, &github), want);
    let cloud = headers(&[("x-hook-uuid", "{1}"), ("x-event-key", "repo:push")]);
    let branch = json!({"type": "branch", "name": "main"});
    for change in [json!({"new": branch, "old": null}), json!({"new": null, "old": branch})] {
        let body = json!({
            "push": {"changes": [change]},
            "repository": {"links": {"html": {"href": "https://g.example/a/b"}}},
        });
        assert_eq!(read(&cloud, &body), want, "{body}");
    }
    let server = headers(&[("x-event-key", "repo:refs_changed")]);
    let links = json!({"clone": [
        {"name": "ssh", "href": "ssh://git@g.example/a/b.git"},
        {"name": "http", "href": "https://g.example/a/b.git"},
    ]});
    let change = json!({"ref": {"id": "refs/heads/main", "displayId": "main", "type": "BRANCH"}});
    let body = json!({"repository": {"links": links}, "changes": [change]});
    assert_eq!(read(&server, &body), want);
    let page = json!({"self": [{"href": "https://g.example/projects/A/repos/b/browse"}]});
    let body = json!({"repository": {"links": page}, "changes": [change]});
    let Ok(Some(push)) = read(&server, &body) else { panic!("{body}") };
    assert_eq!(push.repositories, [Repository::of("https://g.example/scm/a/b")]);
    // Its clones over http and ssh only, and the page of some versions is an object.
    for own in [json!(null), json!({"href": "https://g.example/a/b"}), json!([])] {
        let links = json!({"self": own, "clone": [
            {"name": "ssh", "href": "ssh://git@ssh.example:7999/a/b.git"},
            {"name": "http", "href": "https://g.example/a/b.git"},
            {"name": "other", "href": "https://other.example/a/b.git"},
        ]});
        let body = json!({"repository": {"links": links}, "changes": [change]});
        let Ok(Some(push)) = read(&server, &body) else { panic!("{body}") };
        let mut want =
            ["ssh://git@ssh.example:7999/a/b.git", "https://g.example/a/b.git"].map(Repository::of);
        want.sort();
        assert_eq!(push.repositories, want, "{own}");
    }
    for clone in [json!(null), json!({}), json!("x")] {
        let body = json!({"repository": {"links": {"clone": clone}}, "changes": [change]});
        assert!(read(&server, &body).is_err(), "{body}");
    }
    assert_eq!(read(&headers(&[("x-event-key", "diagnostics:ping")]), &json!({})), Ok(None));
    for event in ["ping", "pull_request"] {
        assert_eq!(read(&headers(&[("x-github-event", event)]), &json!({})), Ok(None), "{event}");
    }
    let merge = headers(&[("x-gitlab-event", "Merge Request Hook")]);
    assert_eq!(read(&merge, &json!({})), Ok(None));
    let created = json!({"eventType": "git.pullrequest.created"});
    assert_eq!(read(&headers(&[("x-vss-activityid", "1")]), &created), Ok(None));

    assert_eq!(read(&headers(&[("x-gitea-event", "push")]), &github), Err(RefusedWebhook::Unknown));
    let refused = |headers: &[(&str, &str)], body: serde_json::Value| {
        let got = read(&self::headers(headers), &body);
        assert!(got.is_err(), "{headers:?} {body}: {got:?}");
    };
    refused(&[("x-github-event", "fork")], json!({}));
    refused(&[("x-gitlab-event", "Note Hook")], json!({}));
    refused(&[("x-vss-activityid", "1")], json!({"eventType": "build.complete"}));
    for body in [
        json!([]),
        json!({}),
        json!({"ref": 5}),
        json!({"ref": "", "repository": {"html_url": "https://g"}}),
        json!({"ref": "refs/heads/a", "repository": {"html_url": ""}}),
        json!({"ref": "refs/heads/a", "repository": {"html_url": "x".repeat(5000)}}),
    ] {
        refused(&[("x-github-event", "push")], body);
    }
}

#[test]
fn signatures_tokens_and_passwords_are_verified_as_421() {
    let data: BTreeMap<String, Vec<u8>> = [
        ("webhook.github.secret", "It's a Secret to Everybody"),
        ("webhook.gitlab.secret", "token"),
        ("webhook.azuredevops.username", "user"),
        ("webhook.azuredevops.password", "word"),
        ("webhook.gogs.secret", "gogs"),
        ("webhook.bitbucket.uuid", "{uuid-1}"),
        ("webhook.bitbucketserver.secret", "server"),
    ]
    .map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec()))
    .into();
    let secrets = Secrets::read(&data);
    // The example of GitHub's documentation.
    let right = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    let verify = |provider, sent: &[(&str, &str)], body: &str| {
        secrets.verify(provider, &headers(sent), body.as_bytes()).is_ok()
    };
    let hello = "Hello, World!";
    assert!(verify(Provider::GitHub, &[("x-hub-signature-256", right)], hello));
    let upper = right.to_uppercase().replace("SHA256", "sha256");
    assert!(verify(Provider::GitHub, &[("x-hub-signature-256", &upper)], hello));
    for (name, value, body) in [
        ("x-hub-signature-256", right, "Hello, World?"),
        ("x-hub-signature-256", &right[..20], hello),
        ("x-hub-signature-256", "sha256=", hello),
        ("x-hub-signature-256", "", hello),
        ("x-hub-signature", right, hello),
        ("x-other", right, hello),
    ] {
        assert!(!verify(Provider::GitHub, &[(name, value)], body), "{name}: {value}");
    }
    let sha1 = hmac_sha1(b"It's a Secret to Everybody", hello.as_bytes());
    assert!(verify(Provider::GitHub, &[("x-hub-signature", &sha1)], hello));
    let both = [("x-hub-signature", sha1.as_str()), ("x-hub-signature-256", "sha256=00")];
    assert!(!verify(Provider::GitHub, &both, hello), "the weaker one does not replace the other");

    assert!(verify(Provider::GitLab, &[("x-gitlab-token", "token")], ""));
    for token in ["", "Token", "tokens", "toke"] {
        assert!(!verify(Provider::GitLab, &[("x-gitlab-token", token)], ""), "{token}");
    }
    assert!(!verify(Provider::GitLab, &[], ""));
    // user:word
    assert!(verify(Provider::AzureDevOps, &[("authorization", "Basic dXNlcjp3b3Jk")], ""));
    for given in ["", "Basic dXNlcjp3b3Jl", "Bearer dXNlcjp3b3Jk", "Basic ?"] {
        assert!(!verify(Provider::AzureDevOps, &[("authorization", given)], ""), "{given}");
    }
    let hex = |key: &str| {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key.as_bytes());
        data_encoding::HEXLOWER.encode(ring::hmac::sign(&key, b"body").as_ref())
    };
    let (gogs, server) = (hex("gogs"), format!("sha256={}", hex("server")));
    assert!(verify(Provider::Gogs, &[("x-gogs-signature", &gogs)], "body"));
    assert!(!verify(Provider::Gogs, &[("x-gogs-signature", &gogs)], "other"));
    assert!(!verify(Provider::Gogs, &[("x-hub-signature", &gogs)], "body"));
    assert!(verify(Provider::BitbucketServer, &[("x-hub-signature", &server)], "body"));
    assert!(!verify(Provider::BitbucketServer, &[("x-hub-signature", &hex("server"))], "body"));
    assert!(verify(Provider::Bitbucket, &[("x-hook-uuid", "{uuid-1}")], ""));
    assert!(verify(Provider::Bitbucket, &[("x-hook-uuid", "uuid-1")], ""));
    assert!(!verify(Provider::Bitbucket, &[("x-hook-uuid", "uuid-2")], ""));
    assert!(!verify(Provider::Bitbucket, &[], ""));
    let none = Secrets::default();
    assert_eq!(none.unverified(Provider::GitHub), Some("webhook.github.secret"));
    assert!(none.verify(Provider::GitHub, &headers(&[]), b"").is_ok());
    assert!(!format!("{secrets:?}").contains("token"));
}

/// Bodies that a server of this kind may send: fields of any type and any text (AS-421).
fn bodies() -> impl Strategy<Value = serde_json::Value> {
    let texts = [
        "refs/heads/main",
        "refs/tags/\u{0}",
        "https://g.example/a/b",
        "git@g:a",
        "[",
        "{{",
        "%zz",
        "//:0@",
    ];
    let text = proptest::sample::select(texts.to_vec()).prop_map(serde_json::Value::from);
    let leaf = prop_oneof![
        4 => text,
        2 => "\\PC{0,40}".prop_map(serde_json::Value::from),
        1 => Just(json!(null)),
        1 => any::<f64>().prop_map(|number| json!(number)),
    ];
    let keys = [
        "ref",
        "repository",
        "html_url",
        "clone_url",
        "ssh_url",
        "default_branch",
        "object_kind",
        "event_name",
        "project",
        "web_url",
        "git_http_url",
        "git_ssh_url",
        "eventType",
        "resource",
        "refUpdates",
        "name",
        "changes",
        "links",
        "clone",
        "href",
        "self",
        "remoteUrl",
        "sshUrl",
        "defaultBranch",
    ];
    let key = proptest::sample::select(keys.to_vec()).prop_map(str::to_owned);
    leaf.prop_recursive(5, 60, 8, move |inner| {
        prop_oneof![
            1 => proptest::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
            4 => proptest::collection::hash_map(key.clone(), inner, 0..8)
                .prop_map(|map| json!(map)),
        ]
    })
}

fn cases() -> u32 {
    let given = std::env::var("WAVEGATE_FUZZ_CASES").ok().and_then(|text| text.parse().ok());
    given.unwrap_or(1000)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases()) })]

    /// Each body is read or refused, and compared with the repositories of a set.
    #[test]
    fn hostile_bodies_are_read_or_refused_as_421(
        body in bodies(), generators in bodies(), cut in any::<proptest::sample::Index>(),
    ) {
        let whole = body.to_string();
        let text = whole.as_bytes();
        for headers in [
            [("x-github-event", "push")],
            [("x-gitlab-event", "System Hook")],
            [("x-gitlab-event", "Push Hook")],
            [("x-vss-activityid", "1")],
            [("x-gogs-event", "push")],
            [("x-event-key", "repo:refs_changed")],
        ] {
            let headers = self::headers(&headers);
            let provider = Provider::of(&headers).unwrap();
            let _ = read_payload(provider, &headers, &text[..cut.index(text.len() + 1)]);
            if let Ok(Some(push)) = read_payload(provider, &headers, text) {
                prop_assert!(!push.repositories.is_empty() && !push.refs.is_empty());
                let _ = uses_push(&json!([{"git": generators}]), &push);
                let git = json!({"repoURL": generators["ref"], "revision": generators["name"]});
                let _ = uses_push(&json!([{ "git": git }]), &push);
            }
        }
    }
}

fn hmac_sha1(key: &[u8], body: &[u8]) -> String {
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, key);
    format!("sha1={}", data_encoding::HEXLOWER.encode(ring::hmac::sign(&key, body).as_ref()))
}

/// A pull request refreshes the generators that list it, and any event those of plugins.
#[test]
fn pull_requests_and_plugins_are_refreshed_as_421() {
    let read = |header: (&str, &str), body: serde_json::Value| {
        let all = [header];
        let headers = headers(&all);
        let provider = Provider::of(&headers).unwrap();
        read_payload(provider, &headers, body.to_string().as_bytes()).unwrap()
    };
    let github = |action: &str, host: &str| {
        let repository = json!({"html_url": format!("https://{host}/org/repo")});
        read(
            ("x-github-event", "pull_request"),
            json!({"action": action, "repository": repository}),
        )
    };
    let project = json!({"id": 7, "web_url": "https://gitlab.com/group/sub/repo"});
    let merge = json!({"object_kind": "merge_request", "project": project, "object_attributes": {"action": "open"}});
    let gitlab = read(("x-gitlab-event", "Merge Request Hook"), merge);
    let url = "https://dev.azure.com/org/project/_git/repo";
    let created = json!({"eventType": "git.pullrequest.created", "resource": {"repository": {"remoteUrl": url}}});
    let azure = read(("x-vss-activityid", "1"), created);
    let pull = |provider: serde_json::Value| json!([{ "pullRequest": provider }]);
    let nested = |inner: &serde_json::Value| json!([{"matrix": {"generators": inner}}]);
    let of_github = pull(json!({"github": {"owner": "Org", "repo": "repo"}}));
    let of_server = pull(
        json!({"github": {"owner": "org", "repo": "repo", "api": "https://git.example.com/api/v3/"}}),
    );
    let by_template = pull(json!({"github": {"owner": "{{.owner}}", "repo": "repo"}}));
    let by_number = pull(json!({"gitlab": {"project": "7"}}));
    let by_path = pull(json!({"gitlab": {"project": "group/sub/repo"}}));
    let of_azure =
        pull(json!({"azuredevops": {"organization": "org", "project": "project", "repo": "repo"}}));
    let plugin = json!([{"plugin": {"configMapRef": {"name": "p"}}}]);
    let opened = github("opened", "github.com").unwrap();
    let (gitlab, azure) = (gitlab.unwrap(), azure.unwrap());
    for action in ["closed", "synchronize", "labeled", "reopened", "unlabeled"] {
        assert!(github(action, "github.com").is_some(), "{action}");
    }
    assert_eq!(github("assigned", "github.com"), None);
    let on_server = github("opened", "git.example.com").unwrap();
    let cases = [
        ("GitHub", &of_github, &opened, true),
        ("another server", &of_github, &on_server, false),
        ("GitHub Enterprise", &of_server, &on_server, true),
        ("a template", &by_template, &opened, true),
        ("another kind", &by_path, &opened, false),
        ("a project of GitLab by its number", &by_number, &gitlab, true),
        ("a project of GitLab by its path", &by_path, &gitlab, true),
        ("Azure DevOps", &of_azure, &azure, true),
        ("a plugin", &plugin, &gitlab, true),
    ];
    for (name, generators, push, want) in cases {
        assert_eq!(uses_push(generators, push), want, "{name}");
        assert_eq!(uses_push(&nested(generators), push), want, "{name}, nested");
    }
    let pushed = push_to("refs/heads/main");
    assert!(uses_push(&plugin, &pushed), "a push");
    assert!(!uses_push(&of_github, &pushed), "a push is no pull request");
    let application = json!({"spec": {"source": {"repoURL": "https://github.com/org/repo"}}});
    assert!(
        !deploys_push(&application, &opened),
        "a pull request changes no branch that is deployed"
    );
}

/// A push of many commits with many files, of each provider that sends them.
#[test]
fn time_grows_with_a_body_and_not_with_its_square_as_421() {
    let repository = json!({"html_url": "https://g.example/a/b", "default_branch": "main"});
    let github = |commits: Vec<serde_json::Value>| json!({"ref": "refs/heads/main", "repository": repository, "commits": commits});
    let gitlab = |commits: Vec<serde_json::Value>| {
        let project = json!({"web_url": "https://g.example/a/b", "default_branch": "main"});
        json!({
            "object_kind": "push", "ref": "refs/heads/main", "project": project,
            "commits": commits,
        })
    };
    let bitbucket = |changes: Vec<serde_json::Value>| {
        let link = json!({"links": {"html": {"href": "https://g.example/a/b"}}});
        json!({"repository": link, "push": {"changes": changes}})
    };
    let azure = |refs: Vec<serde_json::Value>| {
        let repository =
            json!({"remoteUrl": "https://g.example/a/b", "defaultBranch": "refs/heads/main"});
        json!({
            "eventType": "git.push",
            "resource": {"refUpdates": refs, "repository": repository},
        })
    };
    let commit = |n: usize| json!({"id": "1", "added": [format!("a/{n}")], "modified": ["a", "b"]});
    let change = |n: usize| json!({"new": {"type": "branch", "name": format!("b{n}")}});
    type Make<'a> = &'a dyn Fn(usize) -> serde_json::Value;
    let makes: [(&str, &str, Make<'_>); 5] = [
        ("x-github-event", "push", &|n| github((0..n).map(commit).collect())),
        ("x-gogs-event", "push", &|n| github((0..n).map(commit).collect())),
        ("x-gitlab-event", "Push Hook", &|n| gitlab((0..n).map(commit).collect())),
        ("x-event-key", "repo:push", &|n| bitbucket((0..n).map(change).collect())),
        ("x-vss-activityid", "1", &|n| {
            azure((0..n).map(|n| json!({"name": format!("refs/heads/b{n}")})).collect())
        }),
    ];
    for (header, event, make) in makes {
        let read = |body: &String| {
            let is_cloud = |name: &str| header == "x-event-key" && name == "x-hook-uuid";
            let headers = |name: &str| (name == header || is_cloud(name)).then(|| event.to_owned());
            let provider = Provider::of(&headers).unwrap();
            drop(read_payload(provider, &headers, body.as_bytes()));
        };
        assert_linear(header, 5_000, |count| make(count).to_string(), read);
    }
}
