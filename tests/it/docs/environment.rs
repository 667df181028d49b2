//! Environment variables and keys of ConfigMaps: those of the pages are read, and those
//! that are read are in the reference.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;
use wavegate_controller::config::{Config, Flags};

use super::markdown::{Page, root};
use super::options::pages;

/// Before short names in the tables of the reference.
const PREFIX: &str = "ARGOCD_APPLICATIONSET_CONTROLLER_";
/// Variables that the program reads beside its configuration, and by what.
const OF_THE_PROCESS: [(&str, &str); 9] = [
    ("AZURE_CLIENT_ID", "crates/source/src/http/tokens.rs"),
    ("AZURE_TENANT_ID", "crates/source/src/http/tokens.rs"),
    ("AZURE_FEDERATED_TOKEN_FILE", "crates/source/src/http/tokens.rs"),
    ("AZURE_AUTHORITY_HOST", "crates/source/src/http/tokens.rs"),
    ("KUBECONFIG", "kube::Config"),
    ("HTTPS_PROXY", "kube::Config"),
    ("NO_PROXY", "kube::Config"),
    ("RUST_LOG", "crates/net/src/telemetry.rs"),
    ("NO_COLOR", "src/cli/console/output.rs"),
];

/// How variables of programs begin that the pages set up beside it.
const OF_OTHERS: [&str; 1] = ["OAUTH2_PROXY_"];

static NAME: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(…?)\b(_?[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|KUBECONFIG)\b").unwrap());

/// The variables that `run` reads for its configuration.
pub fn configured() -> BTreeSet<String> {
    let read = RefCell::new(BTreeSet::new());
    let environment = |name: &str| {
        read.borrow_mut().insert(name.to_owned());
        None
    };
    Config::resolve(Flags::default(), &environment, &BTreeMap::new()).unwrap();
    read.into_inner()
}

/// The text of the scripts, tests and benchmarks, which have variables of their own.
fn scripts() -> String {
    ["tests/cluster/up", "tests/run", "deploy/kind/up", "tests/it/support/world.rs"]
        .map(|path| std::fs::read_to_string(root().join(path)).unwrap())
        .concat()
}

#[test]
fn variables_of_the_pages_are_read() {
    let configured = configured();
    let scripts = scripts();
    // What is passed to programs that provide credentials, and that render sources.
    let passed = [
        "crates/source/src/process/exec_plugin.rs",
        "crates/source/src/render/build_environment.rs",
    ]
    .map(|path| std::fs::read_to_string(root().join(path)).unwrap())
    .concat();
    let is_read = |name: &str| {
        configured.contains(name)
            || passed.contains(&format!("\"{name}\""))
            || OF_THE_PROCESS.iter().any(|(known, _)| *known == name)
            || OF_OTHERS.iter().any(|begin| name.starts_with(begin))
            || (name.starts_with("WAVEGATE_") && scripts.contains(name))
    };
    let mut unknown = Vec::new();
    // The list of Argo CD's settings is compared with them elsewhere.
    let is_list = |page: &Page| page.path == "docs/reference/argocd-settings.md";
    for page in pages().into_iter().filter(|page| !is_list(page)) {
        let is_reference = page.path == "docs/reference/configuration.md";
        let mut texts = page.inline_code();
        texts.extend(page.blocks().map(|block| (block.line, block.text.clone())));
        for (line, text) in texts {
            for found in NAME.captures_iter(&text) {
                let name = &found[2];
                let is_known = match &found[1] {
                    "" => is_read(name) || is_reference && is_read(&format!("{PREFIX}{name}")),
                    // The end of a name, after one that begins in the same way.
                    _ => configured.iter().any(|known| known.ends_with(name)),
                };
                if !is_known {
                    unknown.push(format!("{}:{line}: {name}", page.path));
                }
            }
        }
    }
    assert!(unknown.is_empty(), "the program does not read these: {unknown:#?}");
}

#[test]
fn variables_that_are_read_are_in_the_reference() {
    let text = std::fs::read_to_string(root().join("docs/reference/configuration.md")).unwrap();
    let names: BTreeSet<&str> =
        NAME.captures_iter(&text).map(|found| found.get(2).unwrap().as_str()).collect();
    let without_effect = root().join("crates/controller/src/config/unused.txt");
    let without_effect = std::fs::read_to_string(without_effect).unwrap();
    let without_effect: BTreeSet<&str> = without_effect.split_whitespace().collect();
    // Those without effect may be named by their flags, or by the end of the name.
    let is_named = |name: &String| {
        let short = name.strip_prefix(PREFIX).unwrap_or(name);
        names.contains(name.as_str())
            || names.contains(short)
            || text.contains(&format!("| `{short}` |"))
            || without_effect.contains(name.as_str())
    };
    let missing: Vec<String> = configured().into_iter().filter(|name| !is_named(name)).collect();
    assert!(missing.is_empty(), "docs/reference/configuration.md lacks: {missing:#?}");
}

/// The keys of the tables, in full or without their first word.
#[test]
fn keys_of_the_reference_are_read() {
    let sources = super::settings::sources();
    let key = Regex::new(r"^[a-z]+(\.[a-zA-Z0-9]+)+$").unwrap();
    let page = Page::read("docs/reference/configuration.md");
    let keys: Vec<(usize, String)> =
        page.inline_code().into_iter().filter(|(_, text)| key.is_match(text)).collect();
    let keys: Vec<_> = keys.into_iter().filter(|(_, key)| !key.starts_with("spec.")).collect();
    assert!(keys.len() > 40, "{}", keys.len());
    let is_read = |text: &str| {
        let ends = [format!("{text}\""), format!(".{text}\"")];
        ends.iter().any(|end| sources.contains(end))
    };
    let unknown: Vec<_> = keys.iter().filter(|(_, key)| !is_read(key)).collect();
    assert!(unknown.is_empty(), "the program does not read these: {unknown:#?}");
}
