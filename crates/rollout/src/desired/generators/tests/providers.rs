//! The generators that ask servers: what they ask, and what they make of the answers.

use super::*;
use crate::desired::queries::{
    Answer, Decisions, KeyRef, Login, Placements, Provider, PullRequest, PullRequests, Query,
    QueryKind, Repository, Rules, ScmRepositories, Scope,
};

/// Queries, parameter sets and warnings.
type Evaluated = (Vec<Query>, Vec<Value>, Vec<String>);

/// What an element asks, or the parameter sets and the warnings that it makes of the answer.
fn evaluate(
    go: bool,
    element: &Value,
    answer: Option<Answer>,
    providers: Rules,
    clusters: Vec<ClusterSecret>,
) -> Result<Evaluated, String> {
    let spec = json!({"goTemplate": go, "template": {}});
    let mut inputs = Inputs { providers, clusters: clusters.into(), ..Inputs::default() };
    let mut asked = Vec::new();
    loop {
        let mut env =
            wavegate_net::entropy::template_environment("2026-01-02T12:00:00Z".parse().unwrap());
        let mut engine = Engine::of(&spec, Limits::default(), &env).unwrap();
        let mut reads = Reads::default();
        let mut evaluation =
            GeneratorEvaluation::new(&spec, &mut engine, &mut env, &inputs, &mut reads);
        let outputs = evaluation.parameter_sets(element, "g");
        let queries = evaluation.unread.queries;
        let known = !asked.is_empty();
        asked.extend(queries.iter().cloned());
        match &answer {
            Some(answer) if !queries.is_empty() && !known => {
                let answer = Arc::new(answer.clone());
                inputs.answers = queries.into_iter().map(|one| (one, Ok(answer.clone()))).collect();
            }
            _ => {
                let outputs = outputs.map_err(|error| error.to_string())?;
                let sets = outputs.into_iter().flat_map(|output| output.sets);
                let sets = sets.map(|set| Value::from(set.values)).collect();
                return Ok((asked, sets, reads.warnings.into_iter().collect()));
            }
        }
    }
}

fn asked(element: &Value) -> Result<Query, String> {
    let (mut asked, ..) = evaluate(false, element, None, Rules::default(), Vec::new())?;
    assert_eq!(asked.len(), 1, "{element}");
    Ok(asked.remove(0))
}

fn key(name: &str, key: &str) -> KeyRef {
    KeyRef { name: name.to_owned(), key: key.to_owned() }
}

fn secret(name: &str) -> Value {
    json!({"secretName": name, "key": "k"})
}

fn provider(kind: QueryKind, api: &str, login: Login) -> Provider {
    Provider { kind, api: api.to_owned(), login, insecure: false, ca: None }
}

/// Each provider of `scmProvider` with its own fields, and the defaults of its server (AS-09x).
#[test]
fn each_scm_provider_asks_its_own_server() {
    let token = || Login::Token(key("s", "k"));
    let basic = || Login::Basic { user: "u".to_owned(), password: key("s", "k") };
    let basic_auth = || json!({"username": "u", "passwordRef": secret("s")});
    let repositories = |provider: Provider, owner: &str| ScmRepositories {
        provider,
        owner: owner.to_owned(),
        project: String::new(),
        all_branches: false,
        clone_protocol: String::new(),
        scope: Scope::default(),
        filters: Vec::new(),
    };
    let archived = || Scope { archived: true, ..Scope::default() };
    use QueryKind::{AzureDevOps, Bitbucket, BitbucketServer, CodeCommit, GitHub, GitLab, Gitea};
    let cases = [
        (
            json!({"github": {"organization": "o"}}),
            ScmRepositories {
                scope: archived(),
                ..repositories(provider(GitHub, "", Login::None), "o")
            },
        ),
        (
            json!({"github": {"organization": "o", "tokenRef": secret("s"), "allBranches": true,
                "excludeArchivedRepos": true, "api": "https://g"}, "cloneProtocol": "https"}),
            ScmRepositories {
                all_branches: true,
                clone_protocol: "https".to_owned(),
                ..repositories(provider(GitHub, "https://g", token()), "o")
            },
        ),
        (
            json!({"github": {"organization": "o", "tokenRef": secret("s"), "appSecretName": "a"}}),
            ScmRepositories {
                scope: archived(),
                ..repositories(provider(GitHub, "", Login::App("a".to_owned())), "o")
            },
        ),
        (
            json!({"gitlab": {"group": "g"}}),
            ScmRepositories {
                scope: Scope { shared: true, ..Scope::default() },
                ..repositories(provider(GitLab, "", Login::None), "g")
            },
        ),
        (
            json!({"gitlab": {"group": "g", "includeSubgroups": true, "topic": "t",
                "includeSharedProjects": false, "includeArchivedRepos": true, "insecure": true,
                "caRef": {"configMapName": "c", "key": "k"}, "tokenRef": secret("s")}}),
            ScmRepositories {
                scope: Scope {
                    archived: true,
                    subgroups: true,
                    topic: "t".to_owned(),
                    ..Scope::default()
                },
                ..repositories(
                    Provider {
                        insecure: true,
                        ca: Some(key("c", "k")),
                        ..provider(GitLab, "", token())
                    },
                    "g",
                )
            },
        ),
        (
            json!({"gitea": {"owner": "o", "api": "https://g", "tokenRef": secret("s")}}),
            ScmRepositories {
                scope: archived(),
                ..repositories(provider(Gitea, "https://g", token()), "o")
            },
        ),
        (
            json!({"bitbucket": {"owner": "o", "user": "u", "appPasswordRef": secret("s")}}),
            repositories(provider(Bitbucket, "", basic()), "o"),
        ),
        (
            json!({"bitbucketServer": {"project": "p", "api": "https://b",
                "basicAuth": basic_auth()}}),
            repositories(provider(BitbucketServer, "https://b", basic()), "p"),
        ),
        (
            json!({"bitbucketServer": {"project": "p", "api": "https://b",
                "bearerToken": {"tokenRef": secret("s")}}}),
            repositories(provider(BitbucketServer, "https://b", token()), "p"),
        ),
        (
            json!({"azureDevOps": {"organization": "o", "teamProject": "t",
                "accessTokenRef": secret("s")}}),
            ScmRepositories {
                project: "t".to_owned(),
                ..repositories(provider(AzureDevOps, "", token()), "o")
            },
        ),
        (
            json!({"awsCodeCommit": {"role": "r", "region": "e", "tagFilters": [
                {"key": "a", "value": "1"}, {"key": "a", "value": "2"}, {"key": "b"}]},
                "cloneProtocol": "https-fips"}),
            ScmRepositories {
                clone_protocol: "https-fips".to_owned(),
                scope: Scope {
                    tags: [
                        ("a".to_owned(), vec!["1".to_owned(), "2".to_owned()]),
                        ("b".to_owned(), vec![]),
                    ]
                    .into(),
                    ..Scope::default()
                },
                ..repositories(
                    provider(
                        CodeCommit,
                        "",
                        Login::Role { role: "r".to_owned(), region: "e".to_owned() },
                    ),
                    "",
                )
            },
        ),
    ];
    for (fields, want) in cases {
        let got = asked(&json!({"scmProvider": fields}));
        assert_eq!(got, Ok(Query::Repositories(want)), "{fields}");
    }
}

/// Each provider of `pullRequest`; only GitLab compares labels itself.
#[test]
fn each_pull_request_provider_asks_its_own_server() {
    let token = || Login::Token(key("s", "k"));
    let requests = |provider: Provider, owner: &str, project: &str| PullRequests {
        provider,
        owner: owner.to_owned(),
        project: project.to_owned(),
        repository: "r".to_owned(),
        labels: Vec::new(),
        state: String::new(),
    };
    use QueryKind::{AzureDevOps, Bitbucket, BitbucketServer, GitHub, GitLab, Gitea};
    let basic = Login::Basic { user: "u".to_owned(), password: key("s", "k") };
    let basic_auth = json!({"username": "u", "passwordRef": secret("s")});
    let cases = [
        (
            json!({"github": {"owner": "o", "repo": "r", "labels": ["l"], "appSecretName": "a"}}),
            requests(provider(GitHub, "", Login::App("a".to_owned())), "o", ""),
        ),
        (
            json!({"gitlab": {"project": "r", "labels": ["l"], "pullRequestState": "opened",
                "tokenRef": secret("s")}}),
            PullRequests {
                labels: vec!["l".to_owned()],
                state: "opened".to_owned(),
                ..requests(provider(GitLab, "", token()), "", "")
            },
        ),
        (
            json!({"gitea": {"owner": "o", "repo": "r", "api": "https://g"}}),
            requests(provider(Gitea, "https://g", Login::None), "o", ""),
        ),
        (
            json!({"bitbucketServer": {"project": "p", "repo": "r", "api": "https://b",
                "basicAuth": basic_auth}}),
            requests(provider(BitbucketServer, "https://b", basic), "p", ""),
        ),
        (
            json!({"bitbucket": {"owner": "o", "repo": "r",
                "bearerToken": {"tokenRef": secret("s")}}}),
            requests(provider(Bitbucket, "", token()), "o", ""),
        ),
        (
            json!({"azuredevops": {"organization": "o", "project": "p", "repo": "r",
                "tokenRef": secret("s")}}),
            requests(provider(AzureDevOps, "", token()), "o", "p"),
        ),
    ];
    for (fields, want) in cases {
        let got = asked(&json!({"pullRequest": fields}));
        assert_eq!(got, Ok(Query::PullRequests(want)), "{fields}");
    }
}

/// A field that is missing, misspelt or of another type fails, with its place.
#[test]
fn fields_of_providers_that_cannot_be_read_fail() {
    let scm = |fields: Value| json!({"scmProvider": fields});
    let request = |fields: Value| json!({"pullRequest": fields});
    for (element, part) in [
        (scm(json!({})), "names no provider; write one of github, gitlab, gitea"),
        (scm(json!({"github": {}, "gitea": {}})), "several providers, github and gitea"),
        (scm(json!({"github": {}})), "github.organization: is missing"),
        (scm(json!({"github": {"organization": " "}})), "github.organization: is missing"),
        (scm(json!({"github": {"organization": 1}})), "github.organization: must be a string"),
        (scm(json!({"github": {"organisation": "o"}})), "github.organisation: is not a field"),
        (scm(json!({"github": "o"})), "github: must be an object"),
        (
            scm(json!({"github": {"organization": "o", "allBranches": "yes"}})),
            "github.allBranches: must be a boolean",
        ),
        (
            scm(json!({"github": {"organization": "o", "tokenRef": {"secretName": "s"}}})),
            "github.tokenRef.key: is missing",
        ),
        (
            scm(json!({"github": {"organization": "o", "tokenRef": {"name": "s"}}})),
            "github.tokenRef.name: is not a field",
        ),
        (scm(json!({"gitea": {"owner": "o"}})), "gitea.api: is missing; write the URL"),
        (scm(json!({"bitbucketServer": {"project": "o"}})), "bitbucketServer.api: is missing"),
        (
            scm(json!({"bitbucketServer": {"project": "o", "api": "a", "bearerToken": {}}})),
            "bitbucketServer.bearerToken.tokenRef: is missing",
        ),
        (
            scm(json!({"bitbucketServer": {"project": "o", "api": "a",
                "basicAuth": {"username": "u"}}})),
            "bitbucketServer.basicAuth.passwordRef: is missing",
        ),
        (scm(json!({"bitbucket": {"owner": "o", "user": "u"}})), "appPasswordRef: is missing"),
        (
            scm(json!({"azureDevOps": {"organization": "o", "accessTokenRef": secret("s")}})),
            "azureDevOps.teamProject: is missing",
        ),
        (
            scm(json!({"awsCodeCommit": {"tagFilters": [{"value": "v"}]}})),
            "awsCodeCommit.tagFilters[0].key: is missing",
        ),
        (scm(json!({"awsCodeCommit": {"tagFilters": {}}})), "tagFilters: must be a list"),
        (
            scm(json!({"github": {"organization": "o"}, "cloneProtocol": "https-fips"})),
            "cloneProtocol: \"https-fips\" is not a protocol of GitHub; write ssh or https",
        ),
        (
            scm(json!({"awsCodeCommit": {}, "cloneProtocol": "git"})),
            "is not a protocol of AWS CodeCommit; write ssh or https or https-fips",
        ),
        (
            scm(json!({"github": {"organization": "o"}, "filters": [{}, {"branchMatch": "("}]})),
            "filters[1].branchMatch",
        ),
        (
            scm(json!({"github": {"organization": "o"}, "filters": [{"pathsExist": [1]}]})),
            "filters[0].pathsExist[0]: must be a string",
        ),
        (request(json!({"github": {"owner": "o"}})), "github.repo: is missing"),
        (request(json!({"gitlab": {}})), "gitlab.project: is missing"),
        (request(json!({"gitlab": {"owner": "o", "project": "r"}})), "gitlab.owner: is not a"),
        (
            request(json!({"github": {"owner": "o", "repo": "r"},
                "continueOnRepoNotFoundError": "yes"})),
            "continueOnRepoNotFoundError: must be a boolean",
        ),
        (
            request(json!({"github": {"owner": "o", "repo": "r"}, "filters": [
                {"titleMatch": "("}]})),
            "filters[0].titleMatch",
        ),
        (
            request(json!({"github": {"owner": "o", "repo": "r"}, "filters": [{"x": "y"}]})),
            "filters[0].x: is not a field",
        ),
    ] {
        let error = asked(&element).expect_err(&element.to_string());
        assert!(error.contains(part), "no {part:?} in: {error}");
    }
    let element = scm(json!({"github": {"organization": "o", "api": "https://g"}}));
    let with = |enabled, allowed: &[&str]| {
        let allowed = allowed.iter().map(|&one| one.to_owned()).collect();
        evaluate(false, &element, None, Rules { enabled, allowed }, Vec::new()).map(drop)
    };
    assert_eq!(with(true, &[]), Ok(()));
    assert_eq!(with(true, &["https://f", "https://g"]), Ok(()));
    let denied = with(true, &["https://f", "https://h"]).unwrap_err();
    assert!(denied.contains("github.api: scm provider not allowed"), "{denied}");
    assert!(denied.contains("https://f, https://h"), "{denied}");
    assert!(with(false, &[]).unwrap_err().contains("scm providers are disabled"));
}

/// One set for each branch, with short forms of its commit and its name.
#[test]
fn a_branch_is_a_parameter_set() {
    let repository = Repository {
        organization: "o".to_owned(),
        name: "r".to_owned(),
        id: "7".to_owned(),
        url: "https://r".to_owned(),
        labels: vec!["a".to_owned(), "b".to_owned()],
        ..Repository::default()
    };
    let branches = vec![
        repository.branch("Feature/x", "0123456789abcdef"),
        repository.branch("main", "01234567"),
    ];
    let element = json!({"scmProvider": {"github": {"organization": "o"}, "values": {
        "v": "{{branch}}"}}});
    let answer = Some(Answer::Branches(branches));
    let (_, sets, warnings) =
        evaluate(false, &element, answer, Rules::default(), Vec::new()).unwrap();
    let set = |branch: &str, normalized: &str, sha: &str, short: &str, shorter: &str| {
        json!({"organization": "o", "repository": "r", "repository_id": "7", "url": "https://r",
            "branch": branch, "branchNormalized": normalized, "sha": sha, "short_sha": short,
            "short_sha_7": shorter, "labels": "a,b", "values.v": branch})
    };
    assert_eq!(
        sets,
        [
            set("Feature/x", "feature-x", "0123456789abcdef", "01234567", "0123456"),
            set("main", "main", "01234567", "01234567", "0123456"),
        ]
    );
    assert_eq!(warnings, [] as [&str; 0]);
    let wrong = Some(Answer::NoRepository(String::new()));
    let error = evaluate(false, &element, wrong, Rules::default(), Vec::new()).unwrap_err();
    assert!(error.contains("something else than branches"), "{error}");
}

/// One set for each pull request that has the labels, and that one of the filters selects.
#[test]
fn a_pull_request_is_a_parameter_set_if_it_is_selected() {
    let request = |number, branch: &str, target: &str, labels: &[&str]| PullRequest {
        number,
        title: format!("title {number}"),
        branch: branch.to_owned(),
        target_branch: target.to_owned(),
        head_sha: "0123456789abcdef".to_owned(),
        labels: labels.iter().map(|&one| one.to_owned()).collect(),
        author: "alice".to_owned(),
    };
    let all = || {
        Answer::PullRequests(vec![
            request(1, "feat/A_b", "main", &["x", "y"]),
            request(2, "fix", "main", &["x"]),
            request(3, "feat", "old", &["x", "y"]),
        ])
    };
    let of = |go, fields: Value, answer| {
        let mut element = json!({"pullRequest": {"github": {"owner": "o", "repo": "r"}}});
        json_patch::merge(&mut element["pullRequest"], &fields);
        evaluate(go, &element, Some(answer), Rules::default(), Vec::new())
    };
    let numbers = |fields: Value| -> Vec<String> {
        let (_, sets, _) = of(false, fields, all()).unwrap();
        sets.iter().map(|set| set["number"].as_str().unwrap().to_owned()).collect()
    };
    let filter = |filter: Value| json!({"filters": [filter]});
    for (fields, want) in [
        (json!({}), &["1", "2", "3"][..]),
        (json!({"github": {"labels": ["x"]}}), &["1", "2", "3"]),
        (json!({"github": {"labels": ["x", "y"]}}), &["1", "3"]),
        (json!({"github": {"labels": ["z"]}}), &[]),
        (filter(json!({"branchMatch": "^feat"})), &["1", "3"]),
        (filter(json!({"targetBranchMatch": "^main$"})), &["1", "2"]),
        (filter(json!({"titleMatch": "2$"})), &["2"]),
        (filter(json!({"branchMatch": "^feat", "targetBranchMatch": "main"})), &["1"]),
        (filter(json!({"branchMatch": "^feat", "titleMatch": "3"})), &["3"]),
        (filter(json!({})), &["1", "2", "3"]),
        (json!({"filters": [{"branchMatch": "^fix"}, {"targetBranchMatch": "old"}]}), &["2", "3"]),
        (json!({"filters": [{"branchMatch": "^feat"}], "github": {"labels": ["z"]}}), &[]),
    ] {
        assert_eq!(numbers(fields.clone()), want, "{fields}");
    }
    let first = filter(json!({"titleMatch": "1"}));
    let texts = json!({"number": "1", "title": "title 1", "branch": "feat/A_b",
        "branch_slug": "feat-a-b", "target_branch": "main", "target_branch_slug": "main",
        "head_sha": "0123456789abcdef", "head_short_sha": "01234567",
        "head_short_sha_7": "0123456", "author": "alice"});
    assert_eq!(of(false, first.clone(), all()).unwrap().1, std::slice::from_ref(&texts));
    let mut typed = texts;
    typed["labels"] = json!(["x", "y"]);
    assert_eq!(of(true, first, all()).unwrap().1, [typed]);

    let none = || Answer::NoRepository("no such repository".to_owned());
    let error = of(false, json!({}), none()).unwrap_err();
    assert!(error.contains("no such repository; continueOnRepoNotFoundError: true"), "{error}");
    let (_, sets, warnings) =
        of(false, json!({"continueOnRepoNotFoundError": true}), none()).unwrap();
    assert_eq!((sets.len(), warnings.len()), (0, 1));
    assert!(warnings[0].contains("no such repository; it has no pull requests"), "{warnings:?}");
    let error = of(false, json!({}), Answer::Branches(vec![])).unwrap_err();
    assert!(error.contains("GitHub o/r: is no list of pull requests"), "{error}");
}

/// A decision names a registered cluster, or the one of the controller, by its name or its URL.
#[test]
fn decisions_name_registered_clusters() {
    let element = |fields: Value| {
        let mut element = json!({"clusterDecisionResource": {"configMapRef": "c"}});
        json_patch::merge(&mut element["clusterDecisionResource"], &fields);
        element
    };
    let expression = |operator: &str, values: Value| {
        json!({"labelSelector": {"matchLabels": {"a": "b"}, "matchExpressions": [
            {"key": "k", "operator": operator, "values": values}]}})
    };
    let decisions = |name: &str, selector: &str| {
        let (name, selector) = (name.to_owned(), selector.to_owned());
        Ok(Query::Decisions(Decisions { config_map: "c".to_owned(), name, selector }))
    };
    for (fields, want) in [
        (json!({"name": "n"}), decisions("n", "")),
        (json!({"labelSelector": {"matchLabels": {"a": "b"}}}), decisions("", "a=b")),
        (expression("In", json!(["x", "y"])), decisions("", "a=b,k in (x,y)")),
        (expression("NotIn", json!(["x"])), decisions("", "a=b,k notin (x)")),
        (expression("Exists", json!([])), decisions("", "a=b,k")),
        (expression("DoesNotExist", json!([])), decisions("", "a=b,!k")),
    ] {
        assert_eq!(asked(&element(fields.clone())), want, "{fields}");
    }
    for (fields, part) in [
        (json!({"name": "n", "configMapRef": ""}), "configMapRef: is missing"),
        (json!({}), "write either name or labelSelector"),
        (
            json!({"name": "n", "labelSelector": {"matchLabels": {"a": "b"}}}),
            "write either name or labelSelector",
        ),
    ] {
        let error = asked(&element(fields.clone())).expect_err(&fields.to_string());
        assert!(error.contains(part), "{error}");
    }
    let of = |resources: Vec<(&str, Value)>| {
        let resources = resources.into_iter().map(|(name, list)| (name.to_owned(), list)).collect();
        let (match_key, list_key) = ("cluster".to_owned(), "decisions".to_owned());
        let answer = Answer::Placements(Placements { match_key, list_key, resources });
        let element = element(json!({"name": "n"}));
        evaluate(false, &element, Some(answer), Rules::default(), clusters())
    };
    let (_, sets, warnings) = of(vec![
        ("one", json!([{"cluster": "staging-01", "more": "m"}, {"cluster": "nobody"}, {"x": 1}])),
        ("two", json!([{"cluster": "https://production-01.example.com"}])),
        ("three", json!([{"cluster": "in-cluster"}])),
        ("none", Value::Null),
    ])
    .unwrap();
    let found: Vec<(&str, &str)> = sets
        .iter()
        .map(|set| (set["name"].as_str().unwrap(), set["server"].as_str().unwrap()))
        .collect();
    assert_eq!(
        found,
        [
            ("staging-01", "https://staging-01.example.com"),
            ("production_01/west", "https://production-01.example.com"),
            ("in-cluster", "https://kubernetes.default.svc"),
        ]
    );
    assert_eq!(sets[0]["more"], "m");
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    for (warning, part) in warnings.iter().zip([
        "none has no status.decisions",
        "[one][1]: cluster nobody is not registered",
        "[one][2]: has no text cluster",
    ]) {
        assert!(warning.contains(part), "{warning}");
    }
    let error = of(vec![("one", json!({}))]).unwrap_err();
    assert!(error.contains("status.decisions of one must be a list, is an object"), "{error}");
    assert!(of(vec![("one", json!(["x"]))]).is_err());
}
