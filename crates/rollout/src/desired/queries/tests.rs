//! What is asked and answered, as tables.

use super::*;

fn filter(repository: &str, branch: &str, exist: &[&str], not_exist: &[&str]) -> Filter {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let all = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
    Filter {
        repository: text(repository),
        branch: text(branch),
        exist: all(exist),
        not_exist: all(not_exist),
        label: None,
    }
}

fn branch(repository: &str, name: &str) -> Branch {
    let repository = Repository { name: repository.to_owned(), ..Repository::default() };
    Branch { repository, name: name.to_owned(), sha: String::new() }
}

/// Paths are asked for one after the other, and only where the names match.
#[test]
fn filters_ask_for_what_they_need() {
    let filters = [filter("^app-", "^main$", &["a/", "b"], &["c"]), filter("", "^rel", &[], &[])];
    let filters = Filters::new(&filters).unwrap();
    assert!(filters.repository(&branch("app-1", "").repository));
    assert!(!filters.repository(&branch("lib", "").repository));
    let known = |known: &[(&str, bool)]| -> BTreeMap<String, bool> {
        known.iter().map(|(path, exists)| ((*path).to_owned(), *exists)).collect()
    };
    let main = branch("app-1", "main");
    let needs = |path: &str| Selected::Needs(path.to_owned());
    let cases: [(&[(&str, bool)], Selected); 6] = [
        (&[], needs("a")),
        (&[("a", true)], needs("b")),
        (&[("a", false)], Selected::No),
        (&[("a", true), ("b", true)], needs("c")),
        (&[("a", true), ("b", true), ("c", true)], Selected::No),
        (&[("a", true), ("b", true), ("c", false)], Selected::Yes),
    ];
    for (paths, want) in cases {
        assert_eq!(filters.branch(&main, &known(paths)), want, "{paths:?}");
    }
    assert_eq!(filters.branch(&branch("x", "rel-1"), &known(&[])), Selected::Yes);
    assert_eq!(filters.branch(&branch("x", "dev"), &known(&[])), Selected::No);
}

/// A repository counts by its own conditions; a branch counts when one filter as a whole selects it.
#[test]
fn conditions_on_repositories_and_on_branches_are_apart() {
    let of = |filters: &[Filter]| Filters::new(filters).unwrap();
    let named = of(&[filter("^app-", "^main$", &[], &[])]);
    assert!(named.name("app-1") && !named.name("lib"));
    assert!(of(&[filter("", "^main$", &[], &[])]).name("lib"), "no condition on repositories");
    let exists = |path: &str, exists: bool| BTreeMap::from([(path.to_owned(), exists)]);
    let none = BTreeMap::new();
    let main = filter("^app-", "^main$", &[], &[]);
    for (rule, filters, repository, paths, want) in [
        ("of no condition", vec![], "x", &none, Selected::Yes),
        ("judged before", vec![filter("^app-", "", &[], &[])], "lib", &none, Selected::Yes),
        (
            "a path is one",
            vec![filter("", "", &["a"], &[])],
            "x",
            &exists("a", false),
            Selected::No,
        ),
        ("there it is", vec![filter("", "", &["a"], &[])], "x", &exists("a", true), Selected::Yes),
        ("so is none", vec![filter("", "", &[], &["c"])], "x", &exists("c", true), Selected::No),
        ("absent", vec![filter("", "", &[], &["c"])], "x", &exists("c", false), Selected::Yes),
        ("another's", vec![filter("^lib", "", &[], &[]), main.clone()], "x", &none, Selected::No),
        ("its own", vec![filter("^lib", "", &[], &[]), main.clone()], "lib", &none, Selected::Yes),
        ("by an empty one", vec![filter("", "", &[], &[]), main.clone()], "x", &none, Selected::No),
    ] {
        assert_eq!(of(&filters).branch(&branch(repository, "main"), paths), want, "{rule}");
    }
}

#[test]
fn an_invalid_or_huge_expression_is_named() {
    for text in ["(", "(a{1000}){1000}"] {
        let filters = [Filter::default(), filter("", text, &[], &[])];
        let (place, cause) = Filters::new(&filters).unwrap_err();
        assert_eq!(place, "[1].branchMatch");
        assert!(cause.contains("is not a regular expression"), "{cause}");
    }
}

fn provider(api: &str) -> Provider {
    let api = api.to_owned();
    Provider { kind: QueryKind::GitLab, api, login: Login::None, insecure: false, ca: None }
}

/// Where an answer comes from, for messages.
#[test]
fn a_query_is_named_by_its_server_and_owner() {
    let repositories = |api: &str| {
        Query::Repositories(ScmRepositories {
            provider: provider(api),
            owner: "o".to_owned(),
            project: String::new(),
            all_branches: false,
            clone_protocol: String::new(),
            scope: Scope::default(),
            filters: Vec::new(),
        })
    };
    let requests = Query::PullRequests(PullRequests {
        provider: provider(""),
        owner: "o".to_owned(),
        project: String::new(),
        repository: "r".to_owned(),
        labels: Vec::new(),
        state: String::new(),
    });
    let (config_map, none) = ("c".to_owned(), String::new());
    let plugin = Plugin { config_map: config_map.clone(), parameters: none.clone() };
    let decisions = Decisions { config_map, name: none.clone(), selector: none };
    for (query, want) in [
        (repositories(""), "GitLab o"),
        (repositories("https://g"), "GitLab https://g o"),
        (requests, "GitLab o/r"),
        (Query::Plugin(plugin), "plugin of ConfigMap c"),
        (Query::Decisions(decisions), "resources of ConfigMap c"),
    ] {
        assert_eq!(query.place(), want);
    }
}

/// An answer has the size of its texts, and each text some bytes beside.
#[test]
fn an_answer_has_the_size_of_its_texts() {
    let repository = Repository {
        organization: "oo".to_owned(),
        name: "nnn".to_owned(),
        labels: vec!["l".to_owned(), "ll".to_owned()],
        ..Repository::default()
    };
    assert_eq!(repository.slug(), "nnn");
    let branch = repository.branch("main", "abc");
    let slug = "s".to_owned();
    assert_eq!(Repository { slug, ..repository }.slug(), "s");
    // Eight texts and two labels of 15 bytes in all.
    let of_branch = 10 * 24 + 15;
    let request = PullRequest {
        number: 7,
        title: "tt".to_owned(),
        labels: vec!["lll".to_owned()],
        ..PullRequest::default()
    };
    let of_request = 6 * 24 + 5;
    let value = serde_json::json!({"a": ["b", 1], "cc": null});
    // The object, the list, and three more; their texts have one byte, their keys three.
    let of_value = 5 * 32 + 4;
    let object = value.as_object().unwrap().clone();
    let resources = vec![("name".to_owned(), value)];
    let placements = Placements { resources, ..Placements::default() };
    for (answer, size, parts) in [
        (Answer::Branches(vec![]), 0, vec![]),
        (Answer::Branches(vec![branch.clone(), branch]), 2 * of_branch, vec!["oo/nnn@main"; 2]),
        (Answer::PullRequests(vec![request.clone(), request]), 2 * of_request, vec!["7"; 2]),
        (Answer::NoRepository("four".to_owned()), 4, vec![]),
        (Answer::Parameters(vec![object.clone(), object]), 2 * (of_value - 32), vec![]),
        (Answer::Placements(placements), 4 + of_value, vec![]),
    ] {
        assert_eq!(
            (answer.size(), answer.parts().join(" ")),
            (size, parts.join(" ")),
            "{answer:?}"
        );
    }
}
