//! An audit of each view by axe-core, which `tests/programs/up` fetches: names, roles, contrast, order
//! of headings, and what else people need who use the page with other means.

use std::path::Path;

use serde_json::{Value, json};

use super::driver::Browser;
use super::{PageDemo, example};

/// What is judged: WCAG up to 2.2, levels A and AA, and what axe-core calls good practice.
const RULES: &str =
    "{runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}";

/// The source of axe-core; `None`, with a message, where it was not fetched. Where
/// `WAVEGATE_TEST_BROWSER` is `required`, that is a failure.
fn axe() -> Option<String> {
    let programs = std::env::var("WAVEGATE_TEST_PROGRAMS").unwrap_or_default();
    let found = std::fs::read_to_string(Path::new(&programs).join("axe/axe.min.js")).ok();
    if found.is_none() {
        let is_required = std::env::var("WAVEGATE_TEST_BROWSER").is_ok_and(|how| how == "required");
        assert!(!is_required, "axe-core is missing: tests/programs/up fetches it with npm");
        eprintln!("skipped: axe-core is missing: tests/programs/up fetches it");
    }
    found
}

/// What is wrong with the view that is open: the rule, and the elements.
async fn violations(browser: &Browser, axe: &str) -> Vec<String> {
    browser.run_script(axe).await;
    let script = format!(
        "const done = arguments[arguments.length - 1]; axe.run(document, {RULES}).then((all) => done(all.violations.map((one) => [one.id, one.help, one.nodes.map((node) => node.html.slice(0, 200)).slice(0, 3)])), (error) => done([['error', String(error), []]]));"
    );
    let found = browser.value_later(&script).await;
    found.as_array().unwrap().iter().map(Value::to_string).collect()
}

/// PG-040: axe-core finds nothing on any view, light or dark, wide or narrow, and in the dialog of a
/// verb.
#[tokio::test(flavor = "multi_thread")]
async fn pg_040_each_view_passes_the_audit() {
    let (Some(axe), Some(browser)) = (axe(), Browser::start().await) else { return };
    let demo = PageDemo::start(&["-f", &example("gate")]);
    browser.open(&demo.url).await;
    browser.until("document.querySelectorAll('.row').length > 0").await;
    browser.until_text("AwaitingApproval").await;
    let set = browser.value("document.querySelector('.row .name').getAttribute('href')").await;
    let set = set.as_str().unwrap().to_owned();
    browser.open(&demo.view(&set)).await;
    browser.until("document.querySelectorAll('.c').length > 0").await;
    let app = browser.value("document.querySelector('.c').getAttribute('href')").await;
    let views = [
        ("fleet", "/".to_owned(), "waiting for a person"),
        ("rollout", set.clone(), "What happened"),
        ("plan", format!("{set}/plan"), "What would happen now"),
        ("history", format!("{set}/history"), "Usual duration"),
        ("run", format!("{set}/history/1"), "Over time"),
        ("application", app.as_str().unwrap().to_owned(), "Resources"),
        ("policies", "/policies".to_owned(), "Policies"),
        ("keys", "/keys".to_owned(), "Keys"),
        ("missing", "/set/argocd/none".to_owned(), "Not found"),
    ];
    let mut problems = Vec::new();
    for (scheme, width) in [("light", 1280), ("dark", 1280), ("light", 360)] {
        browser.prefer(scheme).await;
        browser.resize(width, 900).await;
        for (name, path, text) in &views {
            browser.open(&demo.view(path)).await;
            browser.until_text(text).await;
            browser.picture(&format!("audit-{name}-{scheme}-{width}")).await;
            let found = violations(&browser, &axe).await;
            problems.extend(found.iter().map(|one| format!("{name} {scheme} {width}: {one}")));
            let wide = browser.value("document.documentElement.scrollWidth - innerWidth").await;
            if wide.as_i64().unwrap() > 0 {
                problems.push(format!("{name} {scheme} {width}: {wide} px too wide"));
            }
        }
        browser.open(&demo.view(&set)).await;
        browser.until("document.querySelector('.buttons .first') !== null").await;
        browser.value("document.querySelector('.buttons .first').click()").await;
        browser.until("document.querySelector('dialog')?.open === true").await;
        let found = violations(&browser, &axe).await;
        problems.extend(found.iter().map(|one| format!("dialog {scheme} {width}: {one}")));
    }
    assert_eq!(json!(problems), json!([]));
}
