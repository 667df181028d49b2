//! The documents are read by a small reader of XML, which fails at anything that is not well
//! formed; the rules are checked on what it read.

use std::collections::BTreeMap;

use super::*;
use crate::cli::simulate::fixtures::{
    application, at, empty, fourteen, hostile, mark, rollout, set, span, step, thousand,
};
use crate::cli::simulate::timeline::ApplicationLine;

/// An element with its attributes and the text within it.
#[derive(Debug, Default)]
struct Element {
    name: String,
    attributes: BTreeMap<String, String>,
    text: String,
}

impl Element {
    fn class(&self) -> &str {
        self.attributes.get("class").map_or("", String::as_str)
    }

    fn number(&self, name: &str) -> f64 {
        self.attributes[name].parse().unwrap()
    }
}

/// The elements of a document in their order.
fn read(svg: &str) -> Vec<Element> {
    let allowed = |c: char| c == '\n' || c >= ' ' && !matches!(c, '\u{fffe}' | '\u{ffff}');
    assert!(svg.chars().all(allowed), "a character that XML does not allow");
    let (mut elements, mut open) = (Vec::<Element>::new(), Vec::<usize>::new());
    let mut rest = svg;
    while let Some(begin) = rest.find('<') {
        let text = unescape(&rest[..begin]);
        match open.last() {
            Some(index) => elements[*index].text.push_str(&text),
            None => assert_eq!(text.trim(), "", "text outside of the document"),
        }
        let end = begin + rest[begin..].find('>').expect("a tag ends");
        let tag = &rest[begin + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            let opened = open.pop().expect("an element is open");
            assert_eq!(elements[opened].name, name);
            continue;
        }
        let (tag, is_closed) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        elements.push(element(tag));
        if !is_closed {
            open.push(elements.len() - 1);
        }
    }
    assert_eq!(rest.trim(), "");
    assert!(open.is_empty(), "all elements are closed");
    assert_eq!(elements[0].name, "svg");
    elements
}

fn element(tag: &str) -> Element {
    let (name, mut rest) = tag.split_once(' ').unwrap_or((tag, ""));
    assert!(!name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric()), "{tag}");
    let mut attributes = BTreeMap::new();
    while !rest.trim().is_empty() {
        let (name, after) = rest.trim_start().split_once("=\"").expect("an attribute");
        let (value, after) = after.split_once('"').expect("a quoted value");
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "{name}");
        assert!(attributes.insert(name.to_owned(), unescape(value)).is_none(), "{name} twice");
        rest = after;
    }
    Element { name: name.to_owned(), attributes, text: String::new() }
}

fn unescape(text: &str) -> String {
    assert!(!text.contains('<'), "{text}");
    let entities = text.split('&').skip(1);
    for entity in entities {
        let is_known = ["lt;", "gt;", "amp;", "quot;"].iter().any(|name| entity.starts_with(name));
        assert!(is_known, "&{entity}");
    }
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

/// The bars of Applications: class, x, y, width, height.
fn bars(elements: &[Element]) -> Vec<(String, [f64; 4])> {
    let mut bars = Vec::new();
    let classes = SpanKind::ALL.map(|what| Look::of(what).class);
    for one in elements.iter().filter(|one| classes.contains(&one.class())) {
        match one.name.as_str() {
            // Those of the legend are rounded.
            "rect" if !one.attributes.contains_key("rx") => {
                let measures = ["x", "y", "width", "height"].map(|name| one.number(name));
                bars.push((one.class().to_owned(), measures));
            }
            "path" if !one.attributes["d"].contains('H') => {
                for part in one.attributes["d"].split_terminator('z') {
                    let separators = |c| matches!(c, 'M' | ' ' | 'h' | 'v');
                    let numbers: Vec<f64> = part
                        .split(separators)
                        .filter(|text| !text.is_empty())
                        .map(|text| text.parse().unwrap())
                        .collect();
                    let measures = [numbers[0], numbers[1], numbers[2], numbers[3]];
                    bars.push((one.class().to_owned(), measures));
                }
            }
            _ => {}
        }
    }
    bars
}

/// What holds for any document.
fn check(name: &str, timeline: &Timeline) -> Vec<Element> {
    let svg = svg(timeline);
    assert_eq!(svg, super::svg(timeline), "{name}: the same again");
    let outside = svg.replace("http://www.w3.org/2000/svg", "");
    for foreign in
        ["<script", "href", "http:", "https:", "@import", "<image", "onload", "NaN", "inf"]
    {
        assert!(!outside.contains(foreign), "{name}: {foreign}");
    }
    let elements = read(&svg);
    let (width, height) = (elements[0].number("width"), elements[0].number("height"));
    for one in elements.iter().filter(|one| one.name == "rect" && one.class() != "bg") {
        if !one.attributes.contains_key("x") {
            continue;
        }
        let [x, y, w, h] = ["x", "y", "width", "height"].map(|name| one.number(name));
        assert!(x >= 0.0 && y >= 0.0 && w >= 0.0 && h >= 0.0, "{name}: {one:?}");
        assert!(x + w <= width + 0.1 && y + h <= height, "{name}: {one:?}");
    }
    no_overlaps(name, &elements);
    elements
}

/// Bars of one row do not cover each other, and neither do rows.
fn no_overlaps(name: &str, elements: &[Element]) {
    let mut rows: BTreeMap<i64, Vec<(String, [f64; 4])>> = BTreeMap::new();
    for bar in bars(elements) {
        // Rows of any kind have whole pixels for their middle or their top.
        let middle = (bar.1[1] + bar.1[3] / 2.0) * 100.0;
        rows.entry(middle as i64).or_default().push(bar);
    }
    let mut bottom = 0.0;
    for row in rows.values_mut() {
        let top = row.iter().map(|bar| bar.1[1]).fold(f64::MAX, f64::min);
        assert!(top >= bottom, "{name}: rows at {top} and {bottom}");
        bottom = row.iter().map(|bar| bar.1[1] + bar.1[3]).fold(0.0, f64::max);
        // Failures are widened in thin rows.
        row.retain(|bar| bar.0 != "failed" || bar.1[3] > 4.0);
        row.sort_by(|one, other| one.1[0].total_cmp(&other.1[0]));
        for pair in row.windows(2) {
            assert!(pair[0].1[0] + pair[0].1[2] <= pair[1].1[0] + 0.02, "{name}: {pair:?}");
        }
    }
}

/// `size` Applications in three steps with so many spans each, all of which fail and are retried all the time.
fn flapping(size: usize, spans: i64) -> Timeline {
    let mut timeline = empty(7 * 24 * 3600);
    let kinds = [SpanKind::Syncing, SpanKind::Failed, SpanKind::Pending];
    let application = |number: usize| ApplicationLine {
        name: format!("an-application-with-a-usual-name-{number}"),
        spans: (0..spans)
            .map(|index| {
                let from = number as i64 + index * 1000;
                span(from, from + 1000, kinds[index as usize % 3])
            })
            .collect(),
    };
    let step = |number| step(number, None, (0, 9), (0..size / 3).map(application).collect());
    timeline.sets.push(set("shop", (1..4).map(step).collect()));
    timeline
}

#[test]
fn documents_are_well_formed_for_any_timeline() {
    let of = |seconds, spans: &str| {
        let mut timeline = empty(seconds);
        let step = step(1, None, (0, seconds), vec![application("a", spans)]);
        timeline.sets.push(set("shop", vec![step]));
        timeline
    };
    let mut far = of(60, "0 w 10 s 60");
    far.sets[0].steps[0].applications[0].spans[0].from = jiff::Timestamp::MIN;
    far.sets[0].steps[0].applications[0].spans[1].until = jiff::Timestamp::MAX;
    let mut longest = far.clone();
    (longest.start, longest.end) = (jiff::Timestamp::MIN, jiff::Timestamp::MAX);
    let mut unopened = of(60, "0 w 60");
    (unopened.sets[0].steps[0].opened, unopened.sets[0].steps[0].number) = (None, None);
    let mut reversed = of(60, "0 w 10 s 60");
    reversed.sets[0].steps[0].applications[0].spans.reverse();
    let mut many_sets = fourteen();
    many_sets.sets = vec![many_sets.sets[0].clone(); 90];
    let cases = [
        ("empty", empty(60)),
        ("no time", empty(0)),
        ("the end before the start", empty(-60)),
        ("an Application and no time", of(0, "0 w 0 s 0")),
        ("no spans", of(60, "")),
        ("out of order", reversed),
        ("spans beyond both ends", far),
        ("the longest time", longest),
        ("an hour", of(3600, "0 w 10 s 60 b 600 h 3600")),
        ("a week", of(7 * 24 * 3600, "0 w 10 s 60 b 70 h 604800")),
        ("not opened", unopened),
        ("hostile", hostile()),
        ("14", fourteen()),
        ("61", rollout(&[(61, Some(7))], 20, 30)),
        ("many sets", many_sets),
        ("flapping", flapping(60, 600)),
    ];
    for (name, timeline) in &cases {
        check(name, timeline);
    }
}

#[test]
fn a_bar_is_where_its_time_is() {
    let mut timeline = empty(100);
    let applications = vec![application("dev-eu", "0 w 25 s 50 h 100")];
    timeline.sets.push(set("shop", vec![step(1, Some(2), (10, 50), applications)]));
    let elements = check("one", &timeline);
    let pixels = layout::RIGHT - layout::LEFT;
    let found: Vec<_> =
        bars(&elements).into_iter().map(|(class, [x, _, width, _])| (class, x, width)).collect();
    let want = [("waiting", 0.0, 0.25), ("syncing", 0.25, 0.25), ("healthy", 0.5, 0.5)]
        .map(|(class, x, width)| (class.to_owned(), layout::LEFT + x * pixels, width * pixels));
    assert_eq!(found, want);
    let texts: Vec<&str> = elements.iter().map(|one| one.text.as_str()).collect();
    for want in [
        "Simulated rollout of argocd/shop: complete",
        "1 Application in 1 step · 1m40s · from 2026-01-05T10:00:00Z",
        "1 Application, maxUpdate 2",
        "10s to 50s",
        "dev-eu: syncing 25s to 50s (25s), 2026-01-05T10:00:25Z to 2026-01-05T10:00:50Z",
    ] {
        assert!(texts.contains(&want), "{want} in {texts:#?}");
    }
}

#[test]
fn names_are_text_and_nothing_else() {
    let elements = check("hostile", &hostile());
    let texts: Vec<&str> =
        elements.iter().filter(|one| one.name == "text").map(|one| one.text.as_str()).collect();
    assert!(texts.contains(&"<script>alert(1)</script>"), "{texts:#?}");
    assert!(texts.contains(&"a\"b'c&d]]>"));
    let hostile = |c: char| c != '\n' && wavegate_net::terminal::is_hostile(c);
    for one in &elements {
        assert!(!one.text.contains(hostile), "{one:?}");
        // The long name is cut, in the tooltips, too.
        assert!(one.name == "style" || one.text.len() < 1500, "{one:?}");
    }
}

#[test]
fn the_number_of_applications_decides_how_they_are_drawn() {
    let density = |timeline: &Timeline| Layout::of(timeline).density;
    let of = |size| rollout(&[(size, Some(10))], 20, 30);
    assert_eq!(density(&of(60)), Density::Named);
    assert_eq!(density(&of(61)), Density::Thin(4.0));
    assert_eq!(density(&of(700)), Density::Thin(3.0));
    assert_eq!(density(&thousand()), Density::Thin(2.0));
    assert_eq!(density(&of(2000)), Density::Areas);
}

#[test]
fn size_and_height_are_bounded() {
    let ten = rollout(&[(200, Some(50)), (1800, Some(100)), (8000, Some(300))], 40, 90);
    let steps = rollout(&[(30, Some(5)); 400], 40, 90);
    let cases = [
        ("14", fourteen(), 60_000, 1_000.0),
        ("1,000", thousand(), 600_000, 2_400.0),
        ("10,000", ten, 100_000, 1_200.0),
        ("400 steps", steps, 2_000_000, 12_000.0),
        ("60 flapping", flapping(60, 600), 2_000_000, 2_400.0),
        ("1,000 flapping", flapping(1000, 300), 2_000_000, 2_400.0),
        ("10,000 flapping", flapping(9999, 30), 2_000_000, 2_400.0),
    ];
    for (name, timeline, bytes, height) in cases {
        let svg = svg(&timeline);
        let found = read(&svg)[0].number("height");
        assert!(svg.len() < bytes, "{name}: {} bytes", svg.len());
        assert!(found <= height, "{name}: {found} px");
    }
}

#[test]
fn thin_rows_with_the_same_spans_are_one_element() {
    let mut timeline = empty(100);
    let row = |number| application(&format!("app-{number:03}"), "0 w 25 s 50 h 100");
    timeline.sets.push(set("shop", vec![step(1, None, (0, 50), (0..100).map(row).collect())]));
    let elements = check("alike", &timeline);
    let bars = bars(&elements);
    assert_eq!(bars.len(), 3);
    assert!(bars.iter().all(|bar| bar.1[3] == 400.0), "100 rows of 4 px: {bars:?}");
    let tooltip = "app-000, app-001, app-002, app-003, app-004, app-005, app-006, app-007, \
                   app-008, app-009, app-010, app-011 and 88 more\n\
                   waiting 0s to 25s\nsyncing 25s to 50s\nhealthy 50s to 1m40s";
    assert!(elements.iter().any(|one| one.name == "title" && one.text == tooltip));
}

#[test]
fn labels_of_marks_do_not_cover_each_other() {
    let mut timeline = fourteen();
    timeline.marks = (0..40).map(|at| mark(at * 11, "something happened here")).collect();
    timeline.marks.extend((0..5).map(|_| mark(460, "at the end")));
    let elements = check("marks", &timeline);
    let labels: Vec<(f64, f64, f64)> = elements
        .iter()
        .filter(|one| one.class() == "mark")
        .map(|one| (one.number("y"), one.number("x"), columns(&one.text) * writer::SMALL))
        .collect();
    assert!(labels.len() > 10, "{labels:?}");
    for (index, one) in labels.iter().enumerate() {
        assert!(one.1 + one.2 <= layout::WIDTH, "{one:?}");
        for other in &labels[..index] {
            let is_apart = one.1 + one.2 < other.1 || other.1 + other.2 < one.1;
            assert!(one.0 != other.0 || is_apart, "{one:?} {other:?}");
        }
    }
    let more = format!("and {} more marks", timeline.marks.len() - labels.len());
    assert!(elements.iter().any(|one| one.text == more), "{more}");
}

#[test]
fn a_label_is_not_crossed_by_the_line_of_another_mark() {
    let layout = fourteen();
    let elements = read(&svg(&layout));
    let lines = elements.iter().filter(|one| one.class() == "markline");
    let lines: Vec<(f64, f64)> = lines.map(|line| (line.number("x1"), line.number("y1"))).collect();
    let labels = elements.iter().filter(|one| one.class() == "mark");
    for label in labels {
        let (x, y) = (label.number("x"), label.number("y"));
        // The one at the right edge has no space beside its line.
        let end = (x + columns(&label.text) * writer::SMALL).min(layout::RIGHT - 3.0);
        let crosses = |line: &&(f64, f64)| x < line.0 && line.0 < end && line.1 < y - 9.5;
        assert_eq!(lines.iter().find(crosses), None, "{}", label.text);
    }
}

#[test]
fn a_timeline_is_json_in_camel_case() {
    let mut timeline = empty(10);
    let applications = vec![application("a", "0 s 5 b 10")];
    timeline.sets.push(set("shop", vec![step(1, None, (0, 10), applications)]));
    timeline.marks.push(mark(3, "paused"));
    let json = serde_json::to_value(&timeline).unwrap();
    assert_eq!(json["isComplete"], true);
    assert_eq!(json["end"], at(10).to_string());
    let spans = &json["sets"][0]["steps"][0]["applications"][0]["spans"];
    assert_eq!(spans[1]["what"], "becomingHealthy");
    assert_eq!(json["marks"][0], serde_json::json!({"at": at(3).to_string(), "text": "paused"}));
}

/// Writes the pictures to the folder that `WAVEGATE_SVG` names, to look at them.
#[test]
fn pictures() {
    let Some(folder) = std::env::var_os("WAVEGATE_SVG") else { return };
    let ten = rollout(&[(200, Some(50)), (1800, Some(100)), (8000, Some(300))], 40, 90);
    let mut failing = rollout(&[(50, Some(10)), (250, Some(20))], 40, 90);
    failing.is_complete = false;
    failing.outcome = "does not end: step 2 waits for prod-0007, which is Degraded".into();
    let step = &mut failing.sets[0].steps[1];
    step.completed = None;
    for one in step.applications.iter_mut().skip(200) {
        let last = one.spans.pop().unwrap();
        one.spans
            .push(crate::cli::simulate::timeline::TimelineSpan { what: SpanKind::Failed, ..last });
    }
    for (name, timeline) in [
        ("14", fourteen()),
        ("1000", thousand()),
        ("10000", ten),
        ("hostile", hostile()),
        ("failing", failing),
        ("flapping", flapping(60, 600)),
    ] {
        let file = std::path::Path::new(&folder).join(format!("{name}.svg"));
        std::fs::write(file, svg(&timeline)).unwrap();
    }
}
