//! Events that are no push, and the repositories of an Application.

use super::*;

fn read(all: &[(&str, &str)], body: &serde_json::Value) -> Result<Option<Push>, RefusedWebhook> {
    let header = headers(all);
    let provider = Provider::of(&header).ok_or(RefusedWebhook::Unknown)?;
    read_payload(provider, &header, body.to_string().as_bytes())
}

/// AS-421: an event that changes no manifest is accepted and does nothing; one that is not known is
/// refused, so that a wrong set-up shows at the server that sends it.
#[test]
fn events_that_are_no_push_do_nothing_as_421() {
    let body = json!({"action": "opened"});
    for (name, event, want) in [
        ("x-event-key", "pullrequest:created", Some(false)),
        ("x-event-key", "repo:fork", None),
        ("x-event-key", "pr:opened", Some(false)),
        ("x-event-key", "diagnostics:ping", Some(false)),
        ("x-gogs-event", "pull_request", Some(false)),
        ("x-gogs-event", "release", None),
        ("x-github-event", "ping", Some(false)),
        ("x-github-event", "release", None),
    ] {
        let of_cloud = event.starts_with("pullrequest:") || event == "repo:fork";
        let mut all = vec![(name, event)];
        if of_cloud {
            all.push(("x-hook-uuid", "u"));
        }
        let found = read(&all, &body);
        let is = found.as_ref().ok().map(Option::is_some);
        assert_eq!(is, want, "{event}: {found:?}");
    }
}

/// AS-421: a tag of Bitbucket is a tag, however the server calls it, and no branch of that name.
#[test]
fn a_tag_of_bitbucket_is_no_branch_as_421() {
    for (kind, name, want) in [
        ("branch", "main", Some("refs/heads/main")),
        ("tag", "v1", Some("refs/tags/v1")),
        ("annotated_tag", "v1", Some("refs/tags/v1")),
        ("bookmark", "x", Some("refs/heads/x")),
    ] {
        let body = json!({
            "push": {"changes": [{"new": {"type": kind, "name": name}}]},
            "repository": {"links": {"html": {"href": "https://bitbucket.org/team/repo"}}},
        });
        let all = [("x-event-key", "repo:push"), ("x-hook-uuid", "u")];
        let push = read(&all, &body).unwrap().unwrap();
        let found: Vec<String> = push.refs.iter().map(|one| one.name.clone()).collect();
        assert_eq!(found, want.into_iter().map(str::to_owned).collect::<Vec<_>>(), "{kind}");
        assert_eq!(push.refs[0].is_tag(), kind.ends_with("tag"), "{kind}");
        assert_eq!(push.refs[0].is_default, !kind.ends_with("tag"), "{kind}");
    }
}

/// A push refreshes the Applications of its repository: one whose URL has a template is found only
/// by a comparison.
#[test]
fn the_repositories_of_an_application_are_those_of_its_sources() {
    let found = |spec: serde_json::Value| deployed_repositories(&json!({"spec": spec}));
    let of = |url: &str| Some(Repository::of(url));
    let one = "https://github.com/team/one";
    for (spec, want) in [
        (json!({"source": {"repoURL": one}}), vec![of(one)]),
        (json!({"source": {"repoURL": ""}}), vec![]),
        (json!({}), vec![]),
        (
            json!({"sources": [{"repoURL": one}, {"repoURL": ""}, {"repoURL": "https://h/{{x}}"}]}),
            vec![of(one), None],
        ),
    ] {
        assert_eq!(found(spec.clone()), want, "{spec}");
    }
    assert_eq!(Repository::without_templates("git@github.com:team/one.git"), of(one));
    assert_eq!(Repository::without_templates("https://github.com/{{ org }}/one"), None);
}
