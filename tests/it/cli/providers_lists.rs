//! What of the lists of services counts, and how they are read on (AS-098): filters with
//! several conditions.

use super::providers::{of_github, rendered, serve, shows, token};
use super::*;
use crate::support::service::{Asked, Says, code, json as document};

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
