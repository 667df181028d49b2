//! What of the lists of services counts, and how they are read on (AS-098): filters with
//! several conditions, pages of servers that know themselves by another address, limits,
//! and answers that are empty.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kube::api::{Patch, PatchParams};

use super::arguments::Running;
use super::embedded::Cluster;
use super::providers::{of_github, reference, rendered, serve, shows, token};
use super::providers_live::{
    FLAGS, github as github_pulls, names, reconciles, refresh, start, until_condition, until_names,
};
use super::*;
use crate::support::service::{Asked, Says, Service, code, json as document};

const SHA: &str = "0123456789abcdef0123456789abcdef01234567";

/// The folders of each repository of an organization.
const FOLDERS: [(&str, &[&str]); 5] = [
    ("app-1", &["deploy"]),
    ("app-2", &["chart"]),
    ("lib-1", &["deploy"]),
    ("lib-2", &["chart"]),
    ("tool", &["deploy", "chart"]),
];

/// GitHub, with the name of each repository before the `-` as its topic.
fn github(asked: &Asked, _: &str) -> Says {
    let place = asked.place().trim_start_matches("/api/v3");
    if place == "/orgs/org/repos" {
        let repositories = FOLDERS.iter().enumerate().map(|(id, (name, _))| {
            json!({
                "id": id, "name": name, "owner": {"login": "org"}, "default_branch": "main",
                "ssh_url": "s", "clone_url": "c", "topics": [name.split('-').next()], "archived": false,
            })
        });
        return document(repositories.collect());
    }
    let parts: Vec<&str> = place.trim_start_matches("/repos/org/").split('/').collect();
    match parts[..] {
        [_, "branches", "main"] => document(json!({"name": "main", "commit": {"sha": SHA}})),
        [name, "contents", folder]
            if FOLDERS.iter().any(|(of, all)| *of == name && all.contains(&folder)) =>
        {
            document(json!([]))
        }
        _ => code(404, "Not Found"),
    }
}

/// A repository that no filter selects as a whole has no Application: its name by one filter,
/// and its folders by another, do not count together.
#[test]
fn each_branch_is_selected_by_one_filter_as_a_whole_as_098() {
    let server = serve(github);
    // What two filters select.
    let cases: [(Value, &[&str]); 7] = [
        (
            json!([
                {"repositoryMatch": "^app-", "pathsExist": ["deploy"]},
                {"repositoryMatch": "^lib-", "pathsExist": ["chart"]},
            ]),
            &["app-1", "lib-2"],
        ),
        (
            json!([
                {"labelMatch": "^app$", "pathsExist": ["deploy"]},
                {"labelMatch": "^lib$", "pathsDoNotExist": ["deploy"]},
            ]),
            &["app-1", "lib-2"],
        ),
        (
            json!([
                {"repositoryMatch": "^app-", "branchMatch": "^main$"},
                {"repositoryMatch": "^lib-", "branchMatch": "^release"},
            ]),
            &["app-1", "app-2"],
        ),
        // One filter for repositories and one for branches restrict each other.
        (json!([{"repositoryMatch": "^app-"}, {"pathsExist": ["deploy"]}]), &["app-1"]),
        (
            json!([{"repositoryMatch": "^app-"}, {"labelMatch": "^lib$", "pathsExist": ["chart"]}]),
            &["app-2", "lib-2"],
        ),
        (
            json!([{"repositoryMatch": "^app-"}, {"labelMatch": "^tool$"}]),
            &["app-1", "app-2", "tool"],
        ),
        (json!([{}, {"repositoryMatch": "^app-", "pathsExist": ["deploy"]}]), &["app-1"]),
    ];
    for (filters, want) in cases {
        let set = shows(of_github(&server, json!({}), filters.clone()), "{{.repository}}", "p");
        let got = rendered(&set, &[token()]);
        let got: Vec<&str> = got.iter().map(|(name, _)| &**name).collect();
        assert_eq!(got, want, "{filters}");
    }
}

/// What a server answers that names its next page by its public address.
type Behind = fn(&Asked) -> Says;

/// In the cluster a server has another address than the one in its links: each page is asked
/// for where the generator says, and nothing is sent elsewhere.
#[test]
fn pages_are_asked_for_at_the_address_of_the_generator_as_098() {
    const LINK: &str = "<https://git.example.com/other/path?state=open&per_page=100&page=2&after=x%3D1#part>; rel=\"next\"";
    let is_first = |asked: &Asked| asked.parameter("page").is_none();
    let numbered: Behind = |asked| match asked.parameter("page") {
        None => document(json!([merge_request(1)])).with("link", LINK).with("x-next-page", "2"),
        Some(_) => document(json!([merge_request(2)])).with("x-next-page", ""),
    };
    // Keyset pages have no number.
    let linked: Behind = |asked| match asked.parameter("after") {
        None => document(json!([merge_request(1)])).with("link", LINK),
        Some(_) => document(json!([merge_request(2)])),
    };
    let github: Box<dyn Fn(&Asked) -> Says + Send + Sync> =
        Box::new(move |asked| match is_first(asked) {
            true => document(json!([pull(1)])).with("link", LINK),
            false => document(json!([pull(2)])),
        });
    let gitea: Box<dyn Fn(&Asked) -> Says + Send + Sync> = Box::new(move |asked| {
        match is_first(asked) {
            true => document(json!([pull(1)])).with("link", LINK),
            // The last page has links to others.
            false => document(json!([pull(2)])).with("link", LINK.replace("next", "first")),
        }
    });
    let bitbucket: Behind = |asked| {
        let next = match asked.parameter("page") {
            None => json!(
                "https://api.bitbucket.org/2.0/repositories/o/r/pullrequests?state=OPEN&pagelen=50&page=2"
            ),
            Some(_) => Value::Null,
        };
        let number = if next.is_null() { 2 } else { 1 };
        document(json!({"next": next, "values": [{
            "id": number, "title": "T", "source": {"branch": {"name": "f"}, "commit": {"hash": SHA}},
            "destination": {"branch": {"name": "main"}}, "author": {"nickname": "ann"},
        }]}))
    };
    let cases = [
        ("gitlab", json!({"project": "o/r"}), Service::start(numbered)),
        ("gitlab", json!({"project": "o/r"}), Service::start(linked)),
        ("github", json!({"owner": "o", "repo": "r"}), Service::start(github)),
        ("gitea", json!({"owner": "o", "repo": "r"}), Service::start(gitea)),
        ("bitbucket", json!({"owner": "o", "repo": "r"}), Service::start(bitbucket)),
    ];
    for (kind, fields, server) in cases {
        let mut provider = fields;
        provider["api"] = server.url().into();
        match kind {
            "bitbucket" => provider["bearerToken"] = json!({"tokenRef": reference()}),
            _ => provider["tokenRef"] = reference(),
        }
        let set = shows(json!({"pullRequest": {kind: provider}}), "pr-{{.number}}", "p");
        let got = rendered(&set, &[token()]);
        let got: Vec<&str> = got.iter().map(|(name, _)| &**name).collect();
        assert_eq!(got, ["pr-1", "pr-2"], "{kind}");
        // The second page is the same list, with what the link has besides.
        let asked: Vec<String> = server.asked().into_iter().map(|one| one.path).collect();
        let (first, second) = (&asked[0], &asked[1]);
        assert!(second.starts_with(&format!("{first}&")), "{kind}: {asked:?}");
        assert_eq!((asked.len(), second.matches("page=2").count()), (2, 1), "{kind}: {asked:?}");
        assert!(!second.contains('#'), "{kind}: {asked:?}");
    }
}

/// What is forbidden because of too many requests at once is a limit, and nothing that a token
/// permits: GitHub's secondary limit is waited for though there are requests left.
#[tokio::test(flavor = "multi_thread")]
async fn a_secondary_limit_of_github_is_kept_as_098() {
    let server = Service::start(|_| {
        code(403, "You have exceeded a secondary rate limit. Please wait a few minutes")
            .with("x-ratelimit-remaining", "4990")
            .with("x-ratelimit-reset", (jiff::Timestamp::now().as_second() + 3).to_string())
    });
    let before = jiff::Timestamp::now();
    let cluster = start(&server, github_pulls(1)).await;
    let running = Running::start(&cluster, &[&FLAGS[..], &["--loglevel=debug"]].concat(), &[]);
    let limited =
        until_condition(&cluster, &running, "ErrorOccurred", "the rate limit is exceeded").await;
    let (_, until) = limited.split_once(" is asked again after ").unwrap();
    let until: jiff::Timestamp = until.split([' ', ';', ',']).next().unwrap().parse().unwrap();
    assert!(until.as_second() >= before.as_second() + 60, "{limited}");
    assert!(!limited.contains("what the token permits"), "{limited}");
    // Neither the interval nor a person asks earlier.
    assert_eq!(server.asked().len(), 1);
    let ended = reconciles(&running);
    refresh(&cluster).await;
    let until = Instant::now() + WAIT;
    while reconciles(&running) < ended + 2 {
        assert!(Instant::now() < until, "{}", running.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(server.asked().len(), 1, "{}", running.log());
}

/// AWS has the status 400 for it, and says the next moment whether it goes on.
#[test]
fn throttled_requests_to_aws_are_sent_again_as_098() {
    let throttled =
        |error: &str| code(400, "").saying(json!({"__type": error, "message": "Rate exceeded"}));
    let (sent, refused) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(2)));
    let (count, first) = (Arc::clone(&sent), Arc::clone(&refused));
    let server = Service::start(move |asked| {
        if count.fetch_add(1, Ordering::SeqCst) < first.load(Ordering::SeqCst) {
            return throttled("com.amazonaws.codecommit#ThrottlingException");
        }
        match asked.header("x-amz-target") {
            "CodeCommit_20150413.ListRepositories" => {
                document(json!({"repositories": [{"repositoryName": "one"}]}))
            }
            "CodeCommit_20150413.GetRepository" => document(json!({"repositoryMetadata": {
                "accountId": "1", "repositoryName": "one", "repositoryId": "id", "defaultBranch": "main",
                "cloneUrlSsh": "ssh://r", "cloneUrlHttp": "https://r",
            }})),
            other => code(404, other),
        }
    });
    let generator = json!({"scmProvider": {"awsCodeCommit": {"region": "eu-central-1"}}});
    let set = shows(generator, "{{.repository}}", "p");
    let render = || {
        let mut command = program(&["render", "-f", "-", "-o", "json"]);
        command.env("AWS_ENDPOINT_URL", server.url());
        command.env("AWS_ACCESS_KEY_ID", "AKIAOWN").env("AWS_SECRET_ACCESS_KEY", "own-secret");
        finish(command, set.to_string().as_bytes())
    };
    let rendered = render();
    assert_eq!(rendered.code, 0, "{}", rendered.err);
    assert_eq!(rendered.json()["items"][0]["metadata"]["name"], "one");
    assert_eq!(sent.load(Ordering::SeqCst), 4, "two that are refused, and two that are answered");
    // When it does not go on, the condition says so, and nothing is generated.
    refused.store(usize::MAX, Ordering::SeqCst);
    sent.store(0, Ordering::SeqCst);
    let failed = render();
    failed.fails(1, &["scmProvider: ", "the rate limit is exceeded: ", " is asked again after 2"]);
    assert_eq!((failed.out.as_str(), sent.load(Ordering::SeqCst)), ("", 5));
}

fn pull(number: u64) -> Value {
    json!({
        "number": number, "title": "t", "head": {"ref": "f", "sha": SHA}, "base": {"ref": "m"},
        "user": null,
    })
}

/// Whether the condition is there.
async fn has(cluster: &Cluster, kind: &str) -> bool {
    let set = cluster.api("ApplicationSet").get("set").await.unwrap();
    let conditions = set.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|one| one["type"] == kind && one["status"] == "True")
}

/// The end of the last pull request ends its Application, also inside of a matrix. A
/// repository that is not there any more says nothing about its pull requests.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_pull_request_ends_without_an_approval_as_098() {
    // 0: one pull request; 1: none; 2: no repository; 3: one that lost its label.
    let mode = Arc::new(AtomicUsize::new(0));
    let mode_of = Arc::clone(&mode);
    let server = Service::start(move |_| match mode_of.load(Ordering::SeqCst) {
        1 => document(json!([])),
        2 => code(404, "Not Found"),
        mode => {
            let mut pull = pull(1);
            pull["labels"] = json!([{"name": if mode == 0 { "preview" } else { "other" }}]);
            document(json!([pull]))
        }
    });
    let mut pulls = github_pulls(1);
    pulls["pullRequest"]["continueOnRepoNotFoundError"] = true.into();
    pulls["pullRequest"]["github"]["labels"] = json!(["preview"]);
    let mut inside = pulls.clone();
    inside["pullRequest"]["github"]["api"] = server.url().into();
    inside["pullRequest"]["github"]["repo"] = "{{.repo}}".into();
    let repositories = json!({"list": {"elements": [{"repo": "r"}]}});
    let matrix = json!({"matrix": {"generators": [repositories, inside]}});
    for generator in [pulls, matrix] {
        mode.store(0, Ordering::SeqCst);
        let cluster = start(&server, generator).await;
        let running = Running::start(&cluster, &FLAGS, &[]);
        until_names(&cluster, &running, &["pr-1"]).await;
        mode.store(2, Ordering::SeqCst);
        until_condition(&cluster, &running, "DeletionsHeld", "pullRequest").await;
        assert_eq!(names(&cluster).await, ["pr-1"]);
        for end in [1, 3] {
            mode.store(0, Ordering::SeqCst);
            until_names(&cluster, &running, &["pr-1"]).await;
            mode.store(end, Ordering::SeqCst);
            until_names(&cluster, &running, &[]).await;
        }
        let until = Instant::now() + WAIT;
        while has(&cluster, "DeletionsHeld").await {
            assert!(Instant::now() < until, "{}", running.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The empty list of a plugin is held, and the command of the condition continues.
#[tokio::test(flavor = "multi_thread")]
async fn the_empty_list_of_a_plugin_waits_for_an_approval_as_098() {
    let is_empty = Arc::new(AtomicUsize::new(0));
    let of = Arc::clone(&is_empty);
    let server = Service::start(move |_| {
        let all = if of.load(Ordering::SeqCst) == 0 { json!([{"number": "1"}]) } else { json!([]) };
        document(json!({"output": {"parameters": all}}))
    });
    let plugin = json!({"plugin": {"configMapRef": {"name": "plugin"}, "requeueAfterSeconds": 1}});
    let cluster = start(&server, plugin).await;
    let map = json!({
        "metadata": {"name": "plugin"}, "data": {"baseUrl": server.url(), "token": "$token:token"},
    });
    cluster.create_map(map).await;
    let running = Running::start(&cluster, &FLAGS, &[]);
    until_names(&cluster, &running, &["pr-1"]).await;
    is_empty.store(1, Ordering::SeqCst);
    let held = until_condition(&cluster, &running, "DeletionsHeld", "found nothing").await;
    assert!(held.starts_with("spec.generators[0].plugin "), "{held}");
    assert_eq!(names(&cluster).await, ["pr-1"]);
    let (_, command) = held.rsplit_once(" --overwrite ").unwrap();
    let (annotation, hash) = command.split_once('=').unwrap();
    let patch = Patch::Merge(json!({"metadata": {"annotations": {annotation: hash}}}));
    cluster.api("ApplicationSet").patch("set", &PatchParams::default(), &patch).await.unwrap();
    until_names(&cluster, &running, &[]).await;
}

fn merge_request(number: u64) -> Value {
    json!({
        "iid": number, "title": "T", "source_branch": "f", "target_branch": "main", "sha": SHA,
        "labels": [], "author": {"username": "ann"},
    })
}
