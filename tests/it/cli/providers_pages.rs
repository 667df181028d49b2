//! Answers of services that are wrong in a part: a page of HTML instead of a path, a list of which
//! something cannot be read, an error that quotes what it was sent (AS-098, AS-140).

use super::generators::run;
use super::providers::{reference, shows, token};
use super::*;
use crate::support::service::{Asked, Says, Service, code, json as document, text};

const SHA: &str = "0123456789abcdef0123456789abcdef01234567";

/// A server of one repository with one branch, which has a page of HTML for each path in it.
fn with_html(asked: &Asked) -> Says {
    let links = json!({"clone": [{"name": "ssh", "href": "s"}, {"name": "http", "href": "h"}]});
    let place = asked.place();
    let is = |part: &str| place.contains(part);
    if is("/contents/") || is("/src/") || is("/browse/") || is("/items") {
        return text("<html>Sign in</html>").with("content-type", "text/html");
    }
    let answer = if is("/labels") {
        json!([])
    } else if is("/branches") {
        json!({
            "name": "main", "displayId": "main", "latestCommit": SHA, "target": {"hash": SHA},
            "commit": {"sha": SHA, "id": SHA, "commitId": SHA},
        })
    } else if is("/orgs/") {
        json!([{
            "id": 1, "name": "app", "owner": {"login": "o"}, "default_branch": "main",
            "ssh_url": "s", "clone_url": "c", "html_url": "c",
        }])
    } else {
        let repository = json!({
            "id": 1, "uuid": "1", "slug": "app", "name": "app", "mainbranch": {"name": "main"},
            "project": {"key": "o"}, "links": links,
        });
        let of_azure = json!({
            "id": "1", "name": "app", "defaultBranch": "refs/heads/main", "remoteUrl": "r", "sshUrl": "s",
        });
        json!({"values": [repository], "isLastPage": true, "value": [of_azure]})
    };
    document(answer).with("x-total-count", "1")
}

/// A sign-in page for a path says nothing about the path, so the Application of a repository
/// stays, whether its filter wants the path or not.
#[test]
fn a_page_of_html_is_no_path_as_098() {
    let server = Service::start(with_html);
    let (api, login) = (server.url(), reference());
    let providers = [
        ("github", json!({"organization": "o", "api": api, "tokenRef": login})),
        ("gitea", json!({"owner": "o", "api": api, "tokenRef": login})),
        ("bitbucket", json!({"owner": "o", "user": "u", "appPasswordRef": login})),
        (
            "bitbucketServer",
            json!({"project": "o", "api": api, "bearerToken": {"tokenRef": login}}),
        ),
        (
            "azureDevOps",
            json!({"organization": "o", "teamProject": "p", "api": api, "accessTokenRef": login}),
        ),
    ];
    for (provider, fields) in providers {
        for filter in ["pathsExist", "pathsDoNotExist"] {
            let generator =
                json!({"scmProvider": {provider: fields, "filters": [{filter: ["x"]}]}});
            let set = shows(generator, "{{.repository}}", "p");
            let list = json!({"apiVersion": "v1", "kind": "List", "items": [set, token()]});
            let mut command = program(&["render", "-f", "-"]);
            command.env("BITBUCKET_API_BASE_URL", &api);
            let rendered = finish(command, list.to_string().as_bytes());
            rendered.fails(1, &["spec.generators[0].scmProvider: o/app: ", "cannot be read"]);
            assert_eq!(rendered.out, "", "{provider} {filter}");
        }
    }
}

/// AWS: a token of another type is no end of the list, a branch without a name is not left out,
/// and the same page again is an error at once.
#[test]
fn a_list_of_aws_is_complete_or_an_error_as_098() {
    for (branches, why) in [
        (json!({"branches": ["main"], "nextToken": 7}), "page 1: nextToken must be a string"),
        (json!({"branches": ["main", 7]}), "a branch of the answer has no name"),
        (json!({"branches": ["main"], "nextToken": "a"}), "page 2: the server names the same page"),
    ] {
        let server = Service::start(move |asked| match asked.header("x-amz-target") {
            "CodeCommit_20150413.ListRepositories" => {
                document(json!({"repositories": [{"repositoryName": "app"}]}))
            }
            "CodeCommit_20150413.GetRepository" => document(json!({"repositoryMetadata": {
                "accountId": "1", "repositoryName": "app", "repositoryId": "1",
                "defaultBranch": "main", "cloneUrlSsh": "s", "cloneUrlHttp": "h",
            }})),
            _ => document(branches.clone()),
        });
        let generator =
            json!({"scmProvider": {"awsCodeCommit": {"region": "eu-west-1", "allBranches": true}}});
        let set = shows(generator, "{{.repository}}-{{.branch}}", "p");
        let mut command = program(&["render", "-f", "-"]);
        command.env("AWS_ENDPOINT_URL", server.url());
        command.env("AWS_ACCESS_KEY_ID", "AKIAOWN").env("AWS_SECRET_ACCESS_KEY", "own-secret");
        let rendered = finish(command, set.to_string().as_bytes());
        rendered.fails(1, &["spec.generators[0].scmProvider: 1/app: ListBranches: ", why]);
        assert_eq!(rendered.out, "", "AS-140");
        assert!(server.asked().len() <= 4, "{}", server.asked().len());
    }
}

/// What a server says is cut after its credentials were removed: half a token is none of the
/// known ones.
#[test]
fn an_error_that_quotes_a_token_is_shown_without_it() {
    let github = |api: String| {
        let github = json!({"owner": "o", "repo": "r", "api": api, "tokenRef": reference()});
        shows(json!({"pullRequest": {"github": github}}), "pr-{{.number}}", "p")
    };
    for length in [0, 180, 190, 195, 975, 985, 990] {
        let in_an_error = Service::start(move |asked| {
            code(400, &format!("{} {}", "x".repeat(length), asked.header("authorization")))
        });
        let in_a_field = Service::start(move |asked| {
            let quoted = format!("{} {}", "x".repeat(length), asked.header("authorization"));
            document(json!([{ "number": quoted }]))
        });
        for server in [in_an_error, in_a_field] {
            let failed = run(&["render", "-f", "-"], &github(server.url()), &[token()]);
            failed.fails(1, &["o/r: "]);
            assert!(!failed.err.contains("s3cr"), "{length}: {}", failed.err);
        }
    }
}

/// The signed claim to be an app is worth as much as a token while it is valid.
#[test]
fn an_error_that_quotes_the_claim_of_an_app_is_shown_without_it() {
    let key = std::process::Command::new("openssl").args(["genrsa", "2048"]).output();
    let Ok(key) = key.as_ref().map(|key| String::from_utf8_lossy(&key.stdout)) else {
        eprintln!("skipped: openssl is missing");
        return;
    };
    let server = Service::start(|asked| {
        code(401, &format!("cannot be decoded: {}", asked.header("authorization")))
    });
    let app = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "app", "namespace": "argocd"},
        "stringData": {"githubAppID": "7", "githubAppInstallationID": "42", "githubAppPrivateKey": key},
    });
    let github = json!({"owner": "o", "repo": "r", "api": server.url(), "appSecretName": "app"});
    let set = shows(json!({"pullRequest": {"github": github}}), "pr-{{.number}}", "p");
    let failed = run(&["render", "-f", "-"], &set, &[app]);
    failed.fails(1, &["GitHub App: ", "cannot be decoded: Bearer ***"]);
    assert!(!failed.err.contains("eyJ"), "{}", failed.err);
}

/// The time of a query is a setting, and the error names it.
#[test]
fn the_time_of_a_query_is_a_setting_as_501() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let api = format!("http://{}", silent.local_addr().unwrap());
    let github = json!({"owner": "o", "repo": "r", "api": api, "tokenRef": reference()});
    let set = shows(json!({"pullRequest": {"github": github}}), "pr-{{.number}}", "p");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [set, token()]});
    let mut command = program(&["render", "-f", "-"]);
    command.env("ARGOCD_APPLICATIONSET_CONTROLLER_SCM_QUERY_TIMEOUT_SECONDS", "1");
    finish(command, list.to_string().as_bytes())
        .fails(1, &["is not answered in full within 1 s; ", "--scm-query-timeout-seconds"]);
}
