//! Whole pages: the frame around a view, and pages without one.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::clock;
use super::context::{View, ViewContext};
use super::parts::Part;
use super::words;
use crate::assets;
use crate::reports::{KnownState, Unavailable};

/// The keys, with what each does.
const KEYS: [(&str, &str); 8] = [
    ("/", "search"),
    ("j k, ↓ ↑", "the next and the previous row or Application"),
    ("← →", "the Application beside it, in a step"),
    ("Enter", "open"),
    ("u", "up: from an Application to its set, from a set to the fleet"),
    ("g f, g p", "go to the fleet, to the policies"),
    ("Esc", "close, or leave the search"),
    ("?", "these keys"),
];

/// A view in its frame. `stream` is the address of its changes, if it has any.
pub(crate) fn whole_page(view: &View, context: &ViewContext, stream: Option<&str>) -> String {
    let mut body = String::new();
    view.parts.iter().for_each(|part| part.write(&mut body));
    let at =
        context.clock.as_ref().map(|(clock, _)| clock.now.as_second() - clock.start.as_second());
    let at = at.map(|at| format!("?at={at}")).unwrap_or_default();
    if let Some((clock, path)) = &context.clock {
        body = clock::slider(clock, path).into_string() + &clock::with_time(&body, clock);
    }
    let now = context.clock.as_ref().map(|(clock, _)| clock.now);
    let content = html! {
        header class="top" {
            a class="brand" href={ "/" (at) } { (logo()) "Wavegate" }
            nav aria-label="Views" {
                a href={ "/" (at) } { "Fleet" }
                a href={ "/policies" (at) } { "Policies" }
            }
            span class="place" { (words::text(&context.place)) }
            span id="link" class="link" role="status" aria-live="polite" {}
            a class="keys" href="/keys" title="Keys (?)" { "?" }
        }
        main id="main" tabindex="-1" data-stream=[stream] data-now=[now] { (PreEscaped(body)) }
        dialog id="dialog" aria-label="Details" {}
        div id="peek" role="tooltip" hidden {}
    };
    page(&view.title, &content)
}

/// A view as a file: it has its style, and no script; nothing is loaded, and no link leads to the page
/// (PG-017). It is as the cluster was at `made`.
pub(crate) fn exported_page(
    view: &View,
    known: &KnownState,
    place: &str,
    made: Option<&str>,
) -> String {
    let mut body = String::new();
    let notice = words::notice(known);
    std::iter::once(&notice).chain(&view.parts).for_each(|part| part.write(&mut body));
    let policy = "default-src 'none'; style-src 'unsafe-inline'";
    let body = without_addresses(&body);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (words::text(&view.title)) @if let Some(made) = made { " · " (made) } " · Wavegate" }
                style { (PreEscaped(assets::STYLE)) ".tabs { display: none }" }
            }
            body {
                header class="top" {
                    span class="brand" { (logo()) "Wavegate" }
                    span class="place" { (words::text(place)) @if let Some(made) = made { " · as of " (made) } }
                }
                main id="main" { (PreEscaped(body)) }
            }
        }
    }
    .into_string()
}

/// HTML of this crate without the addresses of the page. Texts have no quotation marks in it, so
/// this is no part of one.
fn without_addresses(html: &str) -> String {
    const ADDRESS: &str = " href=\"/";
    let mut parts = html.split(ADDRESS);
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        kept.push_str(part.split_once('"').map_or("", |(_, rest)| rest));
    }
    kept
}

/// A page that says one thing.
pub(crate) fn message_page(title: &str, content: &Markup) -> String {
    let content = html! {
        header class="top" { span class="brand" { (logo()) "Wavegate" } }
        main id="main" { div class="message" { h1 { (title) } (content) } }
    };
    page(title, &content)
}

fn page(title: &str, content: &Markup) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (words::text(title)) " · Wavegate" }
                link rel="icon" href="/assets/icon.svg" type="image/svg+xml";
                link rel="stylesheet" href={ "/assets/page.css?" (assets::version()) };
                script type="module" src={ "/assets/page.js?" (assets::version()) } {}
            }
            body {
                a class="skip" href="#main" { "Skip to content" }
                (content)
            }
        }
    }
    .into_string()
}

fn logo() -> Markup {
    html! {
        svg class="logo" viewBox="0 0 20 20" aria-hidden="true" {
            path d="M2 13c2.5 0 2.5-4 5-4s2.5 4 5 4 2.5-4 5-4" {}
            path d="M18 3v14" {}
        }
    }
}

/// Why a view is not shown.
pub(super) fn problem(error: &Unavailable) -> Markup {
    html! {
        section id="unavailable" class="message" {
            h1 { @if error.is_missing { "Not found" } @else { "Not available" } }
            p { (words::text(&error.message)) }
            p { a href="/" { "All ApplicationSets" } }
        }
    }
}

/// The keys.
pub(super) fn keys_view() -> View {
    let list = html! {
        section id="keylist" class="message" {
            h1 { "Keys" }
            dl class="keylist" {
                @for (keys, what) in KEYS { div { dt { kbd { (keys) } } dd { (what) } } }
            }
        }
    };
    View { title: "Keys".to_owned(), parts: vec![Part::leaf("keylist", list)], is_missing: false }
}
