//! Generators that ask services, against servers that answer as the documentation of each
//! provider says (AS-098): addresses, paging, credentials, filters and parameters.

use super::generators::{LOCAL, run, simple, template, with_template};
use super::*;
use crate::support::service::{Asked, Says, Service, code, json as document};

/// A Secret with a token, labelled for the strict mode.
pub(super) fn token() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "token", "namespace": "argocd", "labels": {"argocd.argoproj.io/secret-type": "scm-creds"}},
        "stringData": {"token": "s3cr3t-token"},
    })
}

pub(super) fn reference() -> Value {
    json!({"secretName": "token", "key": "token"})
}

/// A set with one generator, whose Applications show the parameters in their paths.
pub(super) fn shows(generator: Value, name: &str, parameters: &str) -> Value {
    with_template(json!([generator]), template(name, parameters, LOCAL))
}

/// Name and path of each Application.
#[track_caller]
pub(super) fn rendered(set: &Value, objects: &[Value]) -> Vec<(String, String)> {
    let run = run(&["render", "-f", "-", "-o", "json"], set, objects);
    assert_eq!(run.code, 0, "{}", run.err);
    let items = run.json()["items"].as_array().unwrap().clone();
    let text = |app: &Value, at: &str| app.pointer(at).unwrap().as_str().unwrap().to_owned();
    items.iter().map(|app| (text(app, "/metadata/name"), text(app, "/spec/source/path"))).collect()
}

#[track_caller]
fn gives(set: &Value, objects: &[Value], want: &[(&str, &str)]) {
    let got = rendered(set, objects);
    let got: Vec<(&str, &str)> = got.iter().map(|(name, path)| (&**name, &**path)).collect();
    assert_eq!(got, want);
}

const SCM: &str = "{{.organization}} {{.repository}} {{.repository_id}} {{.url}} {{.branch}} {{.sha}} {{.short_sha}} {{.short_sha_7}} [{{.labels}}]";
const PULL: &str = "{{.number}} {{.title}} {{.branch}} {{.branch_slug}} {{.target_branch}} {{.target_branch_slug}} {{.head_sha}} {{.head_short_sha}} {{.head_short_sha_7}} {{.labels}} {{.author}}";
const SHA: &str = "0123456789abcdef0123456789abcdef01234567";

fn repository_of_github(id: u64, name: &str, more: Value) -> Value {
    let mut one = json!({
        "id": id, "name": name, "owner": {"login": "org"}, "default_branch": "main",
        "ssh_url": format!("git@github.com:org/{name}.git"),
        "clone_url": format!("https://github.com/org/{name}.git"),
        "topics": ["team-a", "go"], "archived": false,
    });
    one.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    one
}

/// GitHub Enterprise: below /api/v3, pages by links, a bearer token.
pub(super) fn github(asked: &Asked, base: &str) -> Says {
    if asked.header("authorization") != "Bearer s3cr3t-token" {
        return code(401, "Bad credentials");
    }
    let branch = |name: &str| json!({"name": name, "commit": {"sha": SHA}});
    match (asked.place(), asked.parameter("page")) {
        ("/api/v3/orgs/org/repos", None) => {
            document(json!([repository_of_github(1_296_269, "app-one", json!({}))]))
                .with("link", format!("<{base}/api/v3/orgs/org/repos?per_page=100&page=2>; rel=\"next\", <{base}/x>; rel=\"last\""))
        }
        ("/api/v3/orgs/org/repos", Some("2")) => document(json!([
            repository_of_github(2, "app-two", json!({"topics": [], "archived": true})),
            repository_of_github(3, "lib", json!({})),
            repository_of_github(4, "empty", json!({})),
        ])),
        ("/api/v3/repos/org/empty/branches/main", _) => code(404, "Branch not found"),
        ("/api/v3/repos/org/app-one/branches", _) => {
            document(json!([branch("main"), branch("feat/Big_Thing")]))
        }
        ("/api/v3/repos/org/app-one/contents/deploy/kustomization.yaml", _)
            if asked.parameter("ref") == Some("feat%2FBig_Thing") =>
        {
            document(json!({"type": "file"}))
        }
        (path, _) if path.ends_with("/branches/main") => document(branch("main")),
        ("/api/v3/repos/org/app-one/pulls", None) => {
            let pull = |number: u64, label: &str, user: Value| json!({
                "number": number, "title": format!("Change {number}"),
                "head": {"ref": format!("feat/Ab_{number}"), "sha": SHA}, "base": {"ref": "release/1"},
                "labels": [{"name": label}], "user": user,
            });
            document(json!([pull(7, "preview", json!({"login": "ann"})), pull(5, "other", Value::Null)]))
                .with("link", format!("<{base}/api/v3/repos/org/app-one/pulls?per_page=100&page=2>; rel=\"next\""))
        }
        ("/api/v3/repos/org/app-one/pulls", Some("2")) => document(json!([])),
        _ => code(404, "Not Found"),
    }
}

/// Starts a server that knows its own address.
pub(super) fn serve(answer: fn(&Asked, &str) -> Says) -> Service {
    Service::start(move |asked| answer(asked, &format!("http://{}", asked.header("host"))))
}

pub(super) fn of_github(server: &Service, more: Value, filters: Value) -> Value {
    let mut github = json!({"organization": "org", "api": server.url(), "tokenRef": reference()});
    github.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"scmProvider": {"github": github, "filters": filters}})
}

#[test]
fn repositories_of_github_become_applications_as_098() {
    let server = serve(github);
    let all = shows(
        of_github(&server, json!({}), json!([])),
        "{{.repository}}-{{.branchNormalized}}",
        SCM,
    );
    let line = |name: &str, id: u64, labels: &str| {
        format!(
            "org {name} {id} git@github.com:org/{name}.git main {SHA} 01234567 0123456 [{labels}]"
        )
    };
    let lines = [
        line("app-one", 1_296_269, "team-a,go"),
        line("app-two", 2, ""),
        line("lib", 3, "team-a,go"),
    ];
    let want =
        [("app-one-main", &*lines[0]), ("app-two-main", &*lines[1]), ("lib-main", &*lines[2])];
    gives(&all, &[token()], &want);
    // The same without Go templates (AS-114).
    let text = simple(all.clone()).to_string().replace("{{.", "{{");
    gives(&serde_json::from_str(&text).unwrap(), &[token()], &want);

    let mut https = all.clone();
    https["spec"]["generators"][0]["scmProvider"]["cloneProtocol"] = "https".into();
    https["spec"]["generators"][0]["scmProvider"]["github"]["excludeArchivedRepos"] = true.into();
    https["spec"]["generators"][0]["scmProvider"]["values"] = json!({"v": "{{.repository}}!"});
    https["spec"]["template"]["spec"]["source"]["path"] = "{{.url}} {{.values.v}}".into();
    gives(
        &https,
        &[token()],
        &[
            ("app-one-main", "https://github.com/org/app-one.git app-one!"),
            ("lib-main", "https://github.com/org/lib.git lib!"),
        ],
    );

    // Of one filter all conditions count, and one of several filters. Paths are looked up in
    // the branches that match only.
    let filters = json!([
        {"repositoryMatch": "^app-one$", "branchMatch": "^feat/", "pathsExist": ["deploy/kustomization.yaml/"], "pathsDoNotExist": ["skip"]},
        {"labelMatch": "^nobody$"},
    ]);
    let filtered = of_github(&server, json!({"allBranches": true}), filters);
    gives(&shows(filtered, "{{.branchNormalized}}", "p"), &[token()], &[("feat-big-thing", "p")]);
    let looked: Vec<String> = server
        .asked()
        .into_iter()
        .map(|one| one.path)
        .filter(|path| path.contains("/contents/"))
        .collect();
    assert_eq!(looked.len(), 2, "{looked:?}");
    let asked = server.asked();
    assert!(asked.iter().all(|one| one.header("x-github-api-version") == "2022-11-28"));

    // The second generator of a matrix, with a field of the first, and its selector.
    let list = json!({"list": {"elements": [{"org": "org"}]}});
    let mut second = of_github(&server, json!({"organization": "{{.org}}"}), json!([]));
    second["selector"] = json!({"matchLabels": {"repository": "lib"}});
    let matrix = json!({"matrix": {"generators": [list, second]}});
    gives(&shows(matrix, "{{.org}}-{{.repository}}", "p"), &[token()], &[("org-lib", "p")]);
}

#[test]
fn pull_requests_of_github_become_applications_as_098() {
    let server = serve(github);
    let generator = |more: Value, filters: Value| {
        let mut github = json!({"owner": "org", "repo": "app-one", "api": server.url(), "tokenRef": reference()});
        github.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"pullRequest": {"github": github, "filters": filters}})
    };
    let line = |number: u64, label: &str, author: &str| {
        format!(
            "{number} Change {number} feat/Ab_{number} feat-ab-{number} release/1 release-1 {SHA} 01234567 0123456 [{label}] {author}"
        )
    };
    let (five, seven) = (line(5, "other", ""), line(7, "preview", "ann"));
    let all = shows(generator(json!({}), json!([])), "pr-{{.number}}", PULL);
    gives(&all, &[token()], &[("pr-5", five.as_str()), ("pr-7", seven.as_str())]);
    let labelled = generator(json!({"labels": ["preview"]}), json!([]));
    gives(&shows(labelled, "pr-{{.number}}", "p"), &[token()], &[("pr-7", "p")]);
    let filters = json!([{"branchMatch": "5$", "targetBranchMatch": "^main$"}, {"titleMatch": "^Change 5", "targetBranchMatch": "^release"}]);
    gives(
        &shows(generator(json!({}), filters), "pr-{{.number}}", "p"),
        &[token()],
        &[("pr-5", "p")],
    );

    // A repository that does not exist is an error, unless it may be missing.
    let mut missing = shows(generator(json!({"repo": "gone"}), json!([])), "pr-{{.number}}", "p");
    run(&["render", "-f", "-"], &missing, &[token()]).fails(
        1,
        &[
            "spec.generators[0].pullRequest: org/gone: ",
            "404 Not Found",
            "continueOnRepoNotFoundError",
        ],
    );
    missing["spec"]["generators"][0]["pullRequest"]["continueOnRepoNotFoundError"] = true.into();
    gives(&missing, &[token()], &[]);
}

/// GitLab: pages by links or numbers, a private token, paths by trees.
fn gitlab(asked: &Asked, base: &str) -> Says {
    if asked.header("private-token") != "s3cr3t-token" {
        return code(401, "401 Unauthorized");
    }
    let project = |id: u64, path: &str, topics: Value, tags: Value| {
        json!({
            "id": id, "path": path, "namespace": {"full_path": "group/sub"}, "default_branch": "main",
            "ssh_url_to_repo": format!("git@gitlab.com:group/sub/{path}.git"),
            "http_url_to_repo": format!("https://gitlab.com/group/sub/{path}.git"),
            "topics": topics, "tag_list": tags, "archived": false,
        })
    };
    let page = asked.parameter("page");
    match asked.place() {
        "/api/v4/groups/group%2Fsub/projects" => {
            let flags = ["include_subgroups", "with_shared", "topic", "archived"];
            let flags: Vec<&str> = flags.iter().filter_map(|name| asked.parameter(name)).collect();
            assert_eq!(flags, ["true", "false", "k8s", "false"]);
            match page {
                None => document(json!([project(1, "one", json!(["k8s"]), json!([]))]))
                    .with("x-next-page", "2"),
                Some(_) => document(json!([project(2, "two", json!([]), json!(["old"]))]))
                    .with("x-next-page", ""),
            }
        }
        "/api/v4/projects/1/repository/branches/main"
        | "/api/v4/projects/2/repository/branches/main" => {
            document(json!({"name": "main", "commit": {"id": SHA}}))
        }
        "/api/v4/projects/1/repository/tree" => {
            assert_eq!(
                (asked.parameter("path"), asked.parameter("ref")),
                (Some("a%2Fb"), Some("main"))
            );
            match page {
                None => document(json!([{"path": "a/b/x"}]))
                    .with("link", format!("<{base}{}&page=2>; rel=\"next\"", asked.path)),
                Some(_) => document(json!([{"path": "a/b/c"}])),
            }
        }
        "/api/v4/projects/group%2Fone/merge_requests" => {
            assert_eq!(
                (asked.parameter("labels"), asked.parameter("state")),
                (Some("a%2Cb"), Some("opened"))
            );
            document(json!([{
                "iid": 3, "title": "T", "source_branch": "f", "target_branch": "main", "sha": SHA,
                "labels": ["a", "b"], "author": {"username": "ann"},
            }]))
        }
        _ => code(404, "404 Not Found"),
    }
}

#[test]
fn gitlab_is_asked_as_098() {
    let server = serve(gitlab);
    let group = json!({
        "group": "group/sub", "api": server.url(), "tokenRef": reference(), "topic": "k8s",
        "includeSubgroups": true, "includeSharedProjects": false,
    });
    let scm = json!({"scmProvider": {"gitlab": group}});
    let one = format!(
        "group/sub one 1 git@gitlab.com:group/sub/one.git main {SHA} 01234567 0123456 [k8s]"
    );
    let two = format!(
        "group/sub two 2 git@gitlab.com:group/sub/two.git main {SHA} 01234567 0123456 [old]"
    );
    gives(
        &shows(scm.clone(), "{{.repository}}", SCM),
        &[token()],
        &[("one", one.as_str()), ("two", two.as_str())],
    );
    let mut filtered = shows(scm, "{{.repository}}", "p");
    filtered["spec"]["generators"][0]["scmProvider"]["filters"] =
        json!([{"pathsExist": ["a/b/c"]}]);
    gives(&filtered, &[token()], &[("one", "p")]);
    let pulls = json!({"pullRequest": {"gitlab": {
        "project": "group/one", "api": server.url(), "tokenRef": reference(),
        "labels": ["a", "b"], "pullRequestState": "opened",
    }}});
    let line = format!("3 T f f main main {SHA} 01234567 0123456 [a b] ann");
    gives(&shows(pulls, "pr-{{.number}}", PULL), &[token()], &[("pr-3", line.as_str())]);
}

/// Gitea: a token, pages by number where the server gives no links.
fn gitea(asked: &Asked, _: &str) -> Says {
    if asked.header("authorization") != "token s3cr3t-token" {
        return code(401, "token is required");
    }
    let repository = |id: u64, name: &str, empty: bool| {
        json!({
            "id": id, "name": name, "default_branch": "main", "ssh_url": format!("git@g:{name}.git"),
            "html_url": format!("https://g/user/{name}"), "archived": false, "empty": empty,
        })
    };
    let is_first = asked.parameter("page").is_none();
    match asked.place() {
        "/api/v1/users/user/repos" if is_first => document(json!([repository(1, "one", false)])),
        "/api/v1/users/user/repos" if asked.parameter("page") == Some("2") => {
            document(json!([repository(2, "two", false), repository(3, "none", true)]))
        }
        "/api/v1/repos/user/one/labels" if is_first => {
            document(json!([{"name": "l"}])).with("x-total-count", "1")
        }
        path if path.ends_with("/branches/main") => {
            document(json!({"name": "main", "commit": {"id": SHA}}))
        }
        "/api/v1/repos/user/two/contents/x" => document(json!([])),
        "/api/v1/repos/user/one/pulls" if is_first => {
            assert_eq!(asked.parameter("state"), Some("open"));
            document(json!([{
                "number": 3, "title": "T", "head": {"ref": "f", "sha": SHA}, "base": {"ref": "main"},
                "labels": [{"name": "a"}], "user": {"login": "ann"},
            }]))
        }
        path if path.contains("/contents/") || path.contains("/orgs/") => code(404, "Not Found"),
        _ => document(json!([])),
    }
}

#[test]
fn gitea_is_asked_as_098() {
    let server = serve(gitea);
    let owner = json!({"owner": "user", "api": server.url(), "tokenRef": reference()});
    let scm = json!({"scmProvider": {"gitea": owner, "cloneProtocol": "https"}});
    let one = format!("user one 1 https://g/user/one main {SHA} 01234567 0123456 [l]");
    let two = format!("user two 2 https://g/user/two main {SHA} 01234567 0123456 []");
    gives(
        &shows(scm.clone(), "{{.repository}}", SCM),
        &[token()],
        &[("one", one.as_str()), ("two", two.as_str())],
    );
    let mut filtered = shows(scm, "{{.repository}}", "p");
    filtered["spec"]["generators"][0]["scmProvider"]["filters"] =
        json!([{"pathsDoNotExist": ["x"]}]);
    gives(&filtered, &[token()], &[("one", "p")]);
    // What a filter excludes by its name is not asked for labels.
    filtered["spec"]["generators"][0]["scmProvider"]["filters"] =
        json!([{"repositoryMatch": "^two$"}, {"repositoryMatch": "^tw", "labelMatch": "l"}]);
    let asked_before = server.asked().len();
    gives(&filtered, &[token()], &[("two", "p")]);
    let asked = server.asked().split_off(asked_before);
    let labels = asked.iter().map(Asked::place).filter(|place| place.ends_with("/labels"));
    assert_eq!(labels.collect::<Vec<_>>(), ["/api/v1/repos/user/two/labels"]);
    let pulls = json!({"pullRequest": {"gitea": {
        "owner": "user", "repo": "one", "api": server.url(), "tokenRef": reference(), "labels": ["a"],
    }}});
    let line = format!("3 T f f main main {SHA} 01234567 0123456 [a] ann");
    gives(&shows(pulls, "pr-{{.number}}", PULL), &[token()], &[("pr-3", line.as_str())]);
}

/// `bot:s3cr3t-token`.
const BASIC: &str = "Basic Ym90OnMzY3IzdC10b2tlbg==";

/// Bitbucket Cloud: basic authentication, pages by the field `next`.
fn bitbucket(asked: &Asked, base: &str) -> Says {
    if asked.header("authorization") != BASIC {
        return code(401, "Unauthorized");
    }
    let repository = |slug: &str, main: Value| {
        json!({
            "uuid": format!("{{{slug}}}"), "slug": slug, "mainbranch": main, "links": {"clone": [
                {"name": "https", "href": format!("https://bitbucket.org/ws/{slug}.git")},
                {"name": "ssh", "href": format!("git@bitbucket.org:ws/{slug}.git")},
            ]},
        })
    };
    match asked.place() {
        "/2.0/repositories/ws" if asked.parameter("page").is_none() => {
            assert_eq!(asked.parameter("role"), Some("member"));
            document(json!({
                "values": [repository("one", json!({"name": "main"}))],
                "next": format!("{base}/2.0/repositories/ws?page=2"),
            }))
        }
        "/2.0/repositories/ws" => document(json!({"values": [repository("empty", Value::Null)]})),
        "/2.0/repositories/ws/one/refs/branches/main" => {
            document(json!({"name": "main", "target": {"hash": SHA}}))
        }
        path if path == format!("/2.0/repositories/ws/one/src/{SHA}/x/y") => document(json!({})),
        "/2.0/repositories/ws/one/pullrequests" => document(json!({"values": [{
            "id": 3, "title": "T", "source": {"branch": {"name": "f"}, "commit": {"hash": SHA}},
            "destination": {"branch": {"name": "main"}}, "author": {"nickname": "ann"},
        }]})),
        _ => code(404, "Not Found"),
    }
}

#[test]
fn bitbucket_cloud_is_asked_as_098() {
    let server = serve(bitbucket);
    let api = format!("{}/2.0", server.url());
    let generator = json!({"scmProvider": {
        "bitbucket": {"owner": "ws", "user": "bot", "appPasswordRef": reference()},
        "filters": [{"pathsExist": ["x/y"]}],
    }});
    let set = shows(generator, "{{.repository}}", SCM);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [set, token()]});
    let mut command = program(&["render", "-f", "-", "-o", "json"]);
    command.env("BITBUCKET_API_BASE_URL", &api);
    let run = finish(command, list.to_string().as_bytes());
    assert_eq!(run.code, 0, "{}", run.err);
    let path =
        format!("ws one {{one}} git@bitbucket.org:ws/one.git main {SHA} 01234567 0123456 []");
    assert_eq!(run.json()["items"][0]["spec"]["source"]["path"], path);
    assert_eq!(run.json()["items"].as_array().unwrap().len(), 1);
    let pulls = json!({"pullRequest": {"bitbucket": {
        "owner": "ws", "repo": "one", "api": api, "basicAuth": {"username": "bot", "passwordRef": reference()},
    }}});
    let line = format!("3 T f f main main {SHA} 01234567 0123456 [] ann");
    gives(&shows(pulls, "pr-{{.number}}", PULL), &[token()], &[("pr-3", line.as_str())]);
}

/// Bitbucket Server: pages by their start.
fn bitbucket_server(asked: &Asked, _: &str) -> Says {
    if !["Bearer s3cr3t-token", BASIC].contains(&asked.header("authorization")) {
        return code(401, "Unauthorized");
    }
    let repository = |id: u64, slug: &str| {
        json!({
            "id": id, "name": slug.to_uppercase(), "slug": slug, "project": {"key": "PRJ"},
            "links": {"clone": [{"name": "ssh", "href": format!("ssh://git@b/prj/{slug}.git")}, {"name": "http", "href": format!("https://b/scm/prj/{slug}.git")}]},
        })
    };
    let branch = |name: &str| json!({"id": format!("refs/heads/{name}"), "displayId": name, "latestCommit": SHA});
    let start = asked.parameter("start");
    match asked.place() {
        "/rest/api/1.0/projects/PRJ/repos" if start.is_none() => document(json!({
            "values": [repository(1, "one")], "isLastPage": false, "nextPageStart": 1,
        })),
        "/rest/api/1.0/projects/PRJ/repos" => {
            assert_eq!(start, Some("1"));
            document(json!({"values": [repository(2, "none")], "isLastPage": true}))
        }
        "/rest/api/1.0/projects/PRJ/repos/one/branches/default" => document(branch("main")),
        "/rest/api/1.0/projects/PRJ/repos/one/branches" => {
            document(json!({"values": [branch("main"), branch("dev")], "isLastPage": true}))
        }
        "/rest/api/1.0/projects/PRJ/repos/one/browse/x" if asked.parameter("at") == Some("dev") => {
            document(json!({"type": "FILE"}))
        }
        "/rest/api/1.0/projects/PRJ/repos/one/pull-requests" => document(json!({
            "values": [{
                "id": 3, "title": "T", "fromRef": {"displayId": "f", "latestCommit": SHA},
                "toRef": {"displayId": "main"}, "author": {"user": {"name": "ann"}},
            }],
            "isLastPage": true,
        })),
        _ => code(404, "Not Found"),
    }
}

#[test]
fn bitbucket_server_is_asked_as_098() {
    let server = serve(bitbucket_server);
    let project =
        json!({"project": "PRJ", "api": server.url(), "bearerToken": {"tokenRef": reference()}});
    let scm = json!({"scmProvider": {"bitbucketServer": project, "cloneProtocol": "https"}});
    let one = format!("PRJ ONE 1 https://b/scm/prj/one.git main {SHA} 01234567 0123456 []");
    gives(&shows(scm.clone(), "x{{.repository_id}}", SCM), &[token()], &[("x1", one.as_str())]);
    let mut all = shows(scm, "{{.branch}}", "p");
    let fields = &mut all["spec"]["generators"][0]["scmProvider"];
    fields["bitbucketServer"]["allBranches"] = true.into();
    fields["filters"] = json!([{"pathsExist": ["x"]}]);
    gives(&all, &[token()], &[("dev", "p")]);
    let pulls = json!({"pullRequest": {"bitbucketServer": {
        "project": "PRJ", "repo": "one", "api": format!("{}/rest/", server.url()),
        "basicAuth": {"username": "bot", "passwordRef": reference()},
    }}});
    let line = format!("3 T f f main main {SHA} 01234567 0123456 [] ann");
    gives(&shows(pulls, "pr-{{.number}}", PULL), &[token()], &[("pr-3", line.as_str())]);
}

/// Azure DevOps: the token as the password of nobody.
fn azure(asked: &Asked, _: &str) -> Says {
    // `:s3cr3t-token`.
    if asked.header("authorization") != "Basic OnMzY3IzdC10b2tlbg==" {
        return code(203, "Sign in");
    }
    let repository = |id: &str, name: &str, default: Value| {
        json!({
            "id": id, "name": name, "defaultBranch": default, "remoteUrl": format!("https://dev.azure.com/org/p/_git/{name}"),
            "sshUrl": format!("git@ssh.dev.azure.com:v3/org/p/{name}"),
        })
    };
    match asked.place() {
        "/org/my%20project/_apis/git/repositories" => document(json!({"value": [
            repository("id-1", "one", json!("refs/heads/main")), repository("id-2", "empty", Value::Null),
        ]})),
        "/org/my%20project/_apis/git/repositories/id-1/stats/branches" => {
            assert_eq!(asked.parameter("name"), Some("main"));
            document(json!({"name": "main", "commit": {"commitId": SHA}}))
        }
        "/org/my%20project/_apis/git/repositories/id-1/items" => {
            assert_eq!(asked.parameter("path"), Some("%2Fx"));
            document(json!({}))
        }
        "/org/my%20project/_apis/git/repositories/one/pullrequests" => {
            // Pages of 100, by how many are skipped.
            let skipped: u64 = asked.parameter("$skip").map_or(0, |text| text.parse().unwrap());
            let pull = |number: u64| {
                json!({
                    "pullRequestId": number, "title": "T", "sourceRefName": "refs/heads/f",
                    "targetRefName": "refs/heads/main", "lastMergeSourceCommit": {"commitId": SHA},
                    "labels": [{"name": "a"}], "createdBy": {"uniqueName": "ann@example.com"},
                })
            };
            let rest = (skipped + 1..=103).take(100).map(pull).collect::<Vec<_>>();
            document(json!({ "value": rest }))
        }
        _ => code(404, "TF200016: The following project does not exist"),
    }
}

#[test]
fn azure_devops_is_asked_as_098() {
    let server = serve(azure);
    let scm = json!({"scmProvider": {
        "azureDevOps": {"organization": "org", "teamProject": "my project", "api": server.url(), "accessTokenRef": reference()},
        "filters": [{"pathsExist": ["x"]}],
    }});
    let one =
        format!("org one id-1 https://dev.azure.com/org/p/_git/one main {SHA} 01234567 0123456 []");
    gives(&shows(scm, "{{.repository}}", SCM), &[token()], &[("one", one.as_str())]);
    let pulls = json!({"pullRequest": {"azuredevops": {
        "organization": "org", "project": "my project", "repo": "one", "api": server.url(),
        "tokenRef": reference(), "labels": ["a"],
    }}});
    let got = rendered(&shows(pulls, "pr-{{.number}}", PULL), &[token()]);
    assert_eq!(got.len(), 103);
    let line = format!("3 T f f main main {SHA} 01234567 0123456 [a] ann");
    assert!(got.contains(&("pr-3".to_owned(), line)), "{got:?}");
}

/// AWS: signed requests, pages by tokens, errors with the code 400.
fn aws(asked: &Asked, _: &str) -> Says {
    let authorization = asked.header("authorization");
    if asked.body.starts_with("Action=AssumeRole&") {
        says(&asked.body, "RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Freader");
        assert!(authorization.contains("/eu-central-1/sts/aws4_request"), "{authorization}");
        return crate::support::service::text(
            "<AssumeRoleResponse><Credentials><AccessKeyId>AKIATEMP</AccessKeyId>\
             <SecretAccessKey>temp</SecretAccessKey><SessionToken>session</SessionToken></Credentials></AssumeRoleResponse>",
        );
    }
    let scope = "AWS4-HMAC-SHA256 Credential=AKIATEMP/";
    assert!(authorization.starts_with(scope), "{authorization}");
    assert!(
        authorization.contains(
            "SignedHeaders=content-type;host;x-amz-date;x-amz-security-token;x-amz-target,"
        )
    );
    assert_eq!(asked.header("x-amz-security-token"), "session");
    let body: Value = serde_json::from_str(&asked.body).unwrap();
    match asked.header("x-amz-target") {
        "ResourceGroupsTaggingAPI_20170126.GetResources" => {
            assert_eq!(body["TagFilters"], json!([{"Key": "team", "Values": ["a"]}]));
            let (name, next) = if body["PaginationToken"].is_null() { ("one", "2") } else { ("none", "") };
            document(json!({
                "ResourceTagMappingList": [{"ResourceARN": format!("arn:aws:codecommit:eu-central-1:1:{name}")}],
                "PaginationToken": next,
            }))
        }
        "CodeCommit_20150413.GetRepository" => {
            let name = body["repositoryName"].as_str().unwrap();
            let default = if name == "one" { json!("main") } else { Value::Null };
            document(json!({"repositoryMetadata": {
                "accountId": "1", "repositoryName": name, "repositoryId": format!("id-{name}"), "defaultBranch": default,
                "cloneUrlSsh": format!("ssh://git-codecommit.eu-central-1.amazonaws.com/v1/repos/{name}"),
                "cloneUrlHttp": format!("https://git-codecommit.eu-central-1.amazonaws.com/v1/repos/{name}"),
            }}))
        }
        "CodeCommit_20150413.ListBranches" => document(json!({"branches": ["main", "dev"]})),
        "CodeCommit_20150413.GetFolder" if body["commitSpecifier"] == "dev" => {
            assert_eq!(body["folderPath"], "/a");
            document(json!({"files": [{"relativePath": "b"}]}))
        }
        "CodeCommit_20150413.GetFolder" => code(400, "")
            .saying(json!({"__type": "com.amazonaws#FolderDoesNotExistException", "message": "no such folder"})),
        other => code(400, other),
    }
}

#[test]
fn aws_code_commit_is_asked_as_098() {
    let server = serve(aws);
    let generator = json!({"scmProvider": {
        "awsCodeCommit": {"tagFilters": [{"key": "team", "value": "a"}], "region": "eu-central-1", "role": "arn:aws:iam::1:role/reader", "allBranches": true},
        "cloneProtocol": "https-fips", "filters": [{"pathsExist": ["a/b"]}],
    }});
    let set = shows(
        generator,
        "{{.repository}}-{{.branch}}",
        "{{.organization}} {{.url}} {{.repository_id}} [{{.sha}}]",
    );
    let render = |variables: &[(&str, &str)]| {
        let mut command = program(&["render", "-f", "-", "-o", "json"]);
        command.env("AWS_ENDPOINT_URL", server.url()).envs(variables.iter().copied());
        finish(command, set.to_string().as_bytes())
    };
    let run = render(&[("AWS_ACCESS_KEY_ID", "AKIAOWN"), ("AWS_SECRET_ACCESS_KEY", "own-secret")]);
    assert_eq!(run.code, 0, "{}", run.err);
    let items = run.json()["items"].as_array().unwrap().clone();
    assert_eq!(items.len(), 1, "{items:?}");
    assert_eq!(items[0]["metadata"]["name"], "one-dev");
    let path = "1 https://git-codecommit-fips.eu-central-1.amazonaws.com/v1/repos/one id-one []";
    assert_eq!(items[0]["spec"]["source"]["path"], path);
    // Without an identity nothing is asked, and nothing is guessed.
    render(&[]).fails(1, &["spec.generators[0].scmProvider: the controller has no AWS identity"]);
}

/// A plugin gets the name of the set and its input, and gives parameters of any type.
#[test]
fn a_plugin_gives_parameters_as_098() {
    let server = Service::start(|asked| {
        assert_eq!(
            (asked.method.as_str(), asked.place()),
            ("POST", "/base/api/v1/getparams.execute")
        );
        if asked.header("authorization") != "Bearer s3cr3t-token" {
            return code(403, "Forbidden");
        }
        let body: Value = serde_json::from_str(&asked.body).unwrap();
        assert_eq!(
            body,
            json!({"applicationSetName": "set", "input": {"parameters": {"env": "prod", "n": 3}}})
        );
        document(
            json!({"output": {"parameters": [{"key": {"name": "one"}, "list": [1, "b"]}, {"key": {"name": "two"}, "list": []}]}}),
        )
    });
    let map = |token: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plugin", "namespace": "argocd"},
            "data": {"baseUrl": format!("{}/base/", server.url()), "token": token, "requestTimeout": "60"},
        })
    };
    let generator = json!({"plugin": {
        "configMapRef": {"name": "plugin"}, "input": {"parameters": {"env": "prod", "n": 3}},
        "values": {"v": "{{.key.name}}-v"},
    }});
    let set = shows(
        generator,
        "{{.key.name}}",
        "{{.list}} {{.generator.input.parameters.env}} {{.values.v}}",
    );
    let objects = [token(), map("$token:token")];
    gives(&set, &objects, &[("one", "[1 b] prod one-v"), ("two", "[] prod two-v")]);
    let text =
        simple(set.clone()).to_string().replace("{{.list}}", "{{list.1}}").replace("{{.", "{{");
    let flat: Value = serde_json::from_str(&text).unwrap();
    gives(&flat, &objects, &[("one", "b prod one-v"), ("two", "{{list.1}} prod two-v")]);
    for (wrong, why) in [
        ("token", "ConfigMap argocd/plugin: token: must name a key of a Secret"),
        ("$none:token", "Secret argocd/none: is not in the files"),
        ("$token:none", "Secret argocd/token: has no key none"),
    ] {
        run(&["render", "-f", "-"], &set, &[token(), map(wrong)]).fails(1, &[why]);
    }
}

/// Placement resources select registered clusters, by name or address.
#[test]
fn decisions_select_clusters_as_098() {
    let secret = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "namespace": "argocd", "labels": {"argocd.argoproj.io/secret-type": "cluster"}},
            "stringData": {"name": name, "server": format!("https://{name}.example.com"), "config": "{}"},
        })
    };
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kind", "namespace": "argocd"},
        "data": {"apiVersion": "cluster.example.com/v1", "kind": "placementdecisions", "statusListKey": "decisions", "matchKey": "clusterName"},
    });
    let placement = json!({
        "apiVersion": "cluster.example.com/v1", "kind": "PlacementDecision", "metadata": {"name": "prod", "namespace": "argocd"},
        "status": {"decisions": [
            {"clusterName": "east", "reason": "near"}, {"clusterName": "nobody", "reason": ""},
            {"clusterName": "https://west.example.com", "reason": "far"}, {"clusterName": "in-cluster", "reason": "here"},
        ]},
    });
    let generator = json!({"clusterDecisionResource": {"configMapRef": "kind", "name": "prod", "values": {"v": "{{.name}}!"}}});
    let set = shows(generator, "app-{{.name}}", "{{.server}} {{.reason}} {{.values.v}}");
    let objects = [secret("east"), secret("west"), map.clone(), placement.clone()];
    let want = [
        ("app-east", "https://east.example.com near east!"),
        ("app-in-cluster", "https://kubernetes.default.svc here in-cluster!"),
        ("app-west", "https://west.example.com far west!"),
    ];
    gives(&set, &objects, &want);
    let shown = run(&["plan", "-f", "-"], &set, &objects);
    assert!(shown.out.contains("cluster nobody is not registered"), "{}{}", shown.out, shown.err);
    // Nothing is generated without the resource, its kind or a key.
    run(&["render", "-f", "-"], &set, &objects[..3])
        .fails(1, &["spec.generators[0].clusterDecisionResource: no placementdecisions of cluster.example.com/v1 with the name prod"]);
    let mut no_key = map;
    no_key["data"].as_object_mut().unwrap().remove("matchKey");
    run(&["render", "-f", "-"], &set, &[no_key, placement]).fails(1, &["has no key matchKey"]);
}
