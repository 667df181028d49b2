//! The page in a browser (PG-040): the demo from development to production, with the keyboard, in two
//! sizes, in the dark, without scripts, after a loss. Skipped where there is no Chromium.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod audit;
pub mod driver;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::json;

use self::driver::Browser;
use crate::support::waiting::until;

/// A demo with its page; it ends with this.
struct PageDemo {
    child: Child,
    url: String,
    _temporary: tempfile::TempDir,
}

impl Drop for PageDemo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl PageDemo {
    fn start(args: &[&str]) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_wavegate"));
        command.args(["demo", "--dashboard", "--plain"]).args(args);
        command.env("TMPDIR", temporary.path()).env_remove("RUST_LOG");
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = lines.find_map(|line| Some(line.ok()?.strip_prefix("The page: ")?.to_owned()));
        let url = url.expect("the demo prints the address of its page");
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, url, _temporary: temporary }
    }

    /// The address of a view, without the token.
    fn view(&self, path: &str) -> String {
        let origin = self.url.split("/?").next().unwrap();
        format!("{origin}{path}")
    }
}

fn example(name: &str) -> String {
    format!("{}/examples/steering/{name}.yaml", env!("CARGO_MANIFEST_DIR"))
}

/// PG-002, PG-016, PG-020: a rollout from development to production, followed and approved on the page,
/// which is never loaded again.
#[tokio::test(flavor = "multi_thread")]
async fn pg_040_a_gate_is_approved_on_the_page_of_the_demo() {
    let Some(browser) = Browser::start().await else { return };
    let demo = PageDemo::start(&["-f", &example("gate")]);
    browser.resize(1280, 800).await;
    browser.open(&demo.url).await;
    browser.until("location.search === '' && document.querySelectorAll('.row').length > 0").await;
    // What a reload would lose.
    browser.value("window.mark = 'kept'").await;
    browser.until_text("AwaitingApproval").await;
    browser.until_text("Needs a person").await;
    assert_eq!(browser.value("window.mark").await, "kept", "no reload");
    browser.picture("fleet").await;
    browser.value("document.querySelector('.row .name').click()").await;
    browser
        .until(
            "location.pathname.startsWith('/set/') && document.querySelectorAll('.c').length > 0",
        )
        .await;
    browser.value("window.mark = 'kept'").await;
    browser.picture("rollout").await;
    browser.value("document.querySelector('.buttons .first').click()").await;
    browser.until("document.querySelector('dialog')?.open === true").await;
    browser.until_text("wavegate approve").await;
    browser.picture("approve").await;
    browser.value("document.querySelector('dialog button.first').click()").await;
    browser.until_text("done: ").await;
    browser.press("\u{e00c}").await;
    browser.until("!document.querySelector('.c:not(.d)')").await;
    browser.until_text("Complete").await;
    assert_eq!(browser.value("window.mark").await, "kept", "no reload");
    browser.until_text("GateApproved").await;
    browser.picture("complete").await;
    // Each view opens anew.
    let set = browser.value("location.pathname").await.as_str().unwrap().to_owned();
    for (path, text) in [
        (format!("{set}/history"), "Usual duration"),
        (format!("{set}/plan"), "What would happen now"),
        ("/policies".to_owned(), "Policies"),
        ("/keys".to_owned(), "Keys"),
    ] {
        browser.open(&demo.view(&path)).await;
        browser.until_text(text).await;
        browser.picture(path.rsplit('/').next().unwrap()).await;
    }
}

/// PG-030: everything with the keyboard; PG-032: nothing is refused by the policy of the page.
#[tokio::test(flavor = "multi_thread")]
async fn pg_030_the_keyboard_alone_opens_everything() {
    let Some(browser) = Browser::start().await else { return };
    let demo = PageDemo::start(&["--fail", "qa-us"]);
    browser.resize(1280, 800).await;
    browser.open(&demo.url).await;
    browser.until("document.querySelectorAll('.row').length > 0").await;
    browser.press("/").await;
    browser.until("document.activeElement.type === 'search'").await;
    browser.press("no-such-set").await;
    browser.until_text("No ApplicationSet matches").await;
    assert_eq!(browser.value("location.search").await, "?q=no-such-set");
    browser.open(&demo.view("/")).await;
    browser.until("document.querySelectorAll('.row').length > 0").await;
    browser.press("?").await;
    browser.until("document.querySelector('dialog').open").await;
    browser.until_text("the next and the previous row").await;
    browser.press("\u{e00c}").await;
    browser.until("!document.querySelector('dialog').open").await;
    browser.press("j").await;
    browser.until("document.activeElement.matches('.row .name')").await;
    browser.press("\u{e007}").await;
    browser.until("location.pathname.startsWith('/set/')").await;
    browser.until_text("is Degraded").await;
    // Into the marks, along them, and to what one says.
    browser.value("document.querySelector('.c').focus()").await;
    browser.press("\u{e014}").await;
    browser.until("document.activeElement === document.querySelectorAll('.c')[1]").await;
    browser.until("!document.getElementById('peek').hidden").await;
    let outline = browser.value("getComputedStyle(document.activeElement).outlineStyle").await;
    assert_ne!(outline, "none", "focus is visible");
    browser.press("\u{e007}").await;
    browser.until("location.pathname.startsWith('/app/')").await;
    browser.until_text("Resources").await;
    browser.picture("application").await;
    browser.press("u").await;
    browser.until("location.pathname.startsWith('/set/')").await;
    browser.press("u").await;
    browser.until("location.pathname === '/'").await;
    // What people do not see has a name.
    let unnamed = "[...document.querySelectorAll('a, button, input, select, svg[role], span[role=img]')]\
                   .filter(e => !(e.innerText?.trim() || e.getAttribute('aria-label') || e.title || e.placeholder)).length";
    assert_eq!(browser.value(unnamed).await, 0);
}

/// PG-030: from a phone to a wall, light and dark, nothing is cut off, and text is readable.
#[tokio::test(flavor = "multi_thread")]
async fn pg_030_sizes_and_the_dark() {
    let Some(browser) = Browser::start().await else { return };
    let demo = PageDemo::start(&["--fail", "qa-us"]);
    browser.open(&demo.url).await;
    browser.until("document.querySelectorAll('.row').length > 0").await;
    let set = browser.value("document.querySelector('.row .name').getAttribute('href')").await;
    for (scheme, sizes) in [
        ("light", [(360, 740), (1280, 800), (2560, 1440)]),
        ("dark", [(360, 740), (1280, 800), (2560, 1440)]),
    ] {
        browser.prefer(scheme).await;
        for (width, height) in sizes {
            browser.resize(width, height).await;
            for path in ["/", set.as_str().unwrap()] {
                browser.open(&demo.view(path)).await;
                browser.until_text("Wavegate").await;
                let overflow =
                    browser.value("document.documentElement.scrollWidth - innerWidth").await;
                assert!(overflow.as_i64().unwrap() <= 0, "{path} at {width}: {overflow} too wide");
                let contrast = browser.value(CONTRAST).await;
                assert_eq!(contrast, json!([]), "{path} {scheme}: below 4.5");
                let name = if path == "/" { "fleet" } else { "rollout" };
                browser.picture(&format!("{name}-{scheme}-{width}")).await;
            }
        }
    }
}

/// Texts whose contrast to the ground is below 4.5, by the formula of WCAG.
const CONTRAST: &str = "(() => {
  const rgb = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const color = rgb(getComputedStyle(e).backgroundColor);
      if (color.length === 3 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  const low = [];
  for (const e of document.querySelectorAll('main *, header *')) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (!own || !e.offsetParent) continue;
    const [a, b] = [light(rgb(getComputedStyle(e).color)), light(ground(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) low.push(`${e.className} ${e.textContent.slice(0, 20)} ${ratio.toFixed(2)}`);
  }
  return low;
})()";

/// PG-016: without scripts every view is readable; a server that is gone is said, and is found again.
#[tokio::test(flavor = "multi_thread")]
async fn pg_016_without_scripts_and_without_a_server() {
    let Some(browser) = Browser::start().await else { return };
    let demo = PageDemo::start(&[]);
    browser.resize(1280, 800).await;
    browser.open(&demo.url).await;
    browser.until("document.querySelectorAll('.row').length > 0").await;
    let set = browser.value("document.querySelector('.row .name').getAttribute('href')").await;
    browser.protocol("Emulation.setScriptExecutionDisabled", json!({"value": true})).await;
    browser.open(&demo.view(set.as_str().unwrap())).await;
    let shown = async || {
        let evaluated = browser
            .protocol(
                "Runtime.evaluate",
                json!({"expression": "document.body.innerText", "returnByValue": true}),
            )
            .await;
        evaluated["result"]["value"].as_str().unwrap_or_default().to_owned()
    };
    until("a rollout without scripts", async || shown().await.contains("Applications complete"))
        .await;
    assert!(shown().await.contains("Step 1"), "{}", shown().await);
    browser.picture("without-scripts").await;
    browser.protocol("Emulation.setScriptExecutionDisabled", json!({"value": false})).await;
    browser.open(&demo.view("/")).await;
    browser.until("document.querySelectorAll('.row').length > 0").await;
    drop(demo);
    browser.until_text("Connection lost").await;
}

/// PG-031: ten thousand marks, of which some change all the time, leave the page able to answer.
#[tokio::test(flavor = "multi_thread")]
async fn pg_031_what_is_on_the_wire_is_small() {
    let Some(browser) = Browser::start().await else { return };
    let demo = PageDemo::start(&[]);
    browser.open(&demo.url).await;
    browser.until("document.querySelectorAll('.row').length > 0").await;
    let bytes = "performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation')).filter(e => !e.name.includes('/events')).reduce((sum, e) => sum + e.transferSize, 0)";
    let bytes = browser.value(bytes).await.as_i64().unwrap();
    assert!(bytes < 100_000, "{bytes} bytes");
    // Nothing is loaded from elsewhere, and nothing is refused.
    let foreign = "performance.getEntriesByType('resource').filter(e => !e.name.startsWith(location.origin)).length";
    assert_eq!(browser.value(foreign).await, 0);
}
