use super::*;
use crate::cli::simulate::fixtures::{
    application, at, empty, fourteen, gate, hostile, mark, rollout, set, step, thousand,
};
use crate::cli::simulate::timeline::GateKind;

/// The chart without colours, with up to 9 rows.
fn plain(timeline: &Timeline, width: usize) -> Vec<String> {
    chart(timeline, width, false, 9).lines().map(str::to_owned).collect()
}

/// Two steps over 100 s, with a gate, an Application that fails, and marks.
fn small() -> Timeline {
    let mut timeline = empty(100);
    let first = vec![
        application("dev-us", "0 w 10 p 15 s 30 b 40 h 100"),
        application("dev-eu", "0 s 10 b 20 h 100"),
    ];
    let second = vec![
        application("prod", "0 w 40 l 60 s 80 x 100"),
        application("left-out", "0 - 100"),
        application("reverted", "0 w 60 s 70 g 80 k 100"),
    ];
    let mut gated = step(2, Some(1), (60, 0), second);
    gated.completed = None;
    gated.gates = vec![
        GateLine { by: Some("alice".into()), ..gate("qa", GateKind::Approval, 40, Some(60)) },
        gate("night", GateKind::Soak, 0, None),
    ];
    timeline.sets.push(set("shop", vec![step(1, None, (0, 40), first), gated]));
    timeline.marks = vec![
        mark(90, "a commit is pushed"),
        TimelineMark { until: Some(at(50)), ..mark(20, "API server down") },
        mark(5, "paused"),
    ];
    (timeline.is_complete, timeline.outcome) = (false, "does not end: prod is Degraded".into());
    timeline
}

#[test]
fn applications_have_a_line_each() {
    let want = "\
argocd/shop  5 Applications, 2 steps, 1m40s
✖ does not end: prod is Degraded

                    0s          30s         1m          1m30s
                    |-----------+-----------+-----------+---|
at 5s                 ▼ paused
at 20s                      ├───────────┤ API server down            30s
at 1m30s                             a commit is pushed ▼

Step 1  2 Applications  opened 0s, completed 40s                     40s
  dev-eu            ████▒▒▒▒━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━        20s
  dev-us            ····░░██████▒▒▒▒━━━━━━━━━━━━━━━━━━━━━━━━━        30s

Step 2  3 Applications, maxUpdate 1  opened 1m, not completed
  gate qa                           ////////◆ approval by al…        20s
  gate night        / soak ////////////////////////////////// not opened
  prod              ················=========████████××××××××     failed
  reverted          ·························████««««<<<<<<<<       back
  left-out          -----------------------------------------    skipped

· waiting  = held  ░ pending  █ syncing  ▒ becoming healthy  ━ healthy
× failed  « going back  < back  - skipped  / gate  ◆ gate opens";
    assert_eq!(plain(&small(), 72).join("\n"), want);
}

/// All were cut at their ends: four rows `payments-gateway-service-stagi…`.
#[test]
fn long_names_stay_different() {
    let name = |region: &str| format!("payments-gateway-service-staging-{region}");
    let all = ["eu-west", "eu-north", "us-east", "us-west"].map(name);
    let mut timeline = empty(100);
    let lines = all.iter().map(|name| application(name, "0 w 10 s 30 h 100")).collect();
    timeline.sets.push(set("shop", vec![step(1, None, (0, 40), lines)]));
    for width in [60, 79, 80, 100, 160] {
        let lines = plain(&timeline, width);
        let rows = lines.iter().filter(|line| line.starts_with("  pay"));
        let names: std::collections::BTreeSet<&str> =
            rows.filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(names.len(), 4, "{width}: {lines:#?}");
        let is_whole = all.iter().all(|name| names.contains(name.as_str()));
        assert_eq!(is_whole, width > 110, "{width}: {names:?}");
    }
}

#[test]
fn many_applications_are_counted_by_state() {
    let mut timeline = rollout(&[(2, None), (40, Some(10))], 20, 30);
    timeline.marks.clear();
    timeline.sets[0].steps[1].applications[3] = application("broken", "0 w 100 s 120 x 999");
    let want = "\
argocd/shop  42 Applications, 2 steps, 6m11s
✔ complete

                    0s           2m           4m           6m
                    |------------+------------+------------+|

Step 1  2 Applications  opened 0s, completed 1m3s                   1m3s
  dev-0002          ░█▒▒━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━        37s
  dev-0001          ░█▒▒▒▒▒━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━         1m

Step 2  40 Applications, maxUpdate 10  opened 2m3s, completed 5m51s
  gate qa-approval        ///////◆ approval by alice@example…         1m
  waiting           ███████▁▁▁▁▁ ▃▆▆▆▆▆▅▅▄▄▄▄▃▃▃▂▂▂▁▁▁            max 40
  held                    ▁██████▅                                max 39
  pending                        █▁  ▁▃▃▃  ▁▅▂▁▂▁▃▂▃▁▁             max 9
  syncing                      ▁▁▁█▆▃▁▃▆▆▅▃▂▃▅▅▄▂▃▄▃▃▂▂▁           max 9
  becoming healthy                 ▃▇█▆▃▃▅▇█▆▄▄▆█▇▅▆▇▇▄▃▂▂▂       max 10
  healthy                            ▁▁▂▂▂▂▂▃▄▄▄▄▅▅▆▆▇▇██████     max 39
  failed                         ▆███████████████████████████      max 2
  failed: broken

· waiting  ░ pending  █ syncing  ▒ becoming healthy  ━ healthy  / gate
◆ gate opens";
    assert_eq!(plain(&timeline, 72).join("\n"), want);
}

#[test]
fn special_timelines_have_a_chart() {
    let mut two = empty(10);
    let line = |number| step(number, None, (0, 10), vec![application("a", "0 s 10")]);
    two.sets = vec![set("one", vec![line(1)]), set("two", vec![line(1)])];
    two.sets[1].steps[0].number = None;
    two.sets[1].steps[0].opened = None;
    two.sets[1].steps[0].completed = None;
    let mut none = empty(0);
    none.sets.push(set("one", vec![step(1, None, (0, 0), vec![application("a", "0 s 0 h 0")])]));
    let cases = [
        (
            "empty",
            empty(60),
            "\
0 ApplicationSets  0 Applications, 0 steps, 1m
✔ complete

                 0s                 1m
                 |------------------|",
        ),
        (
            "no time",
            none,
            "\
argocd/one  1 Application, 1 step, 0s
✔ complete

                 0s
                 |------------------|

Step 1  1 Application  opened 0s, completed 0s
  a                                           0s",
        ),
        (
            "two sets",
            two,
            "\
2 ApplicationSets  2 Applications, 1 step, 10s
✔ complete

                 0s                 10s
                 |------------------|

argocd/one

Step 1  1 Application  opened 0s, completed 10s
  a              ████████████████████       10s+

argocd/two

No step  1 Application  not opened
  a              ████████████████████       10s+

█ syncing",
        ),
    ];
    for (name, timeline, want) in cases {
        assert_eq!(plain(&timeline, 48).join("\n"), want, "{name}");
    }
}

#[test]
fn lines_are_never_too_wide_and_have_no_control_characters() {
    let mut far = small();
    far.sets[0].steps[0].applications[0].spans[0].from = jiff::Timestamp::MIN;
    let mut longest = far.clone();
    (longest.start, longest.end) = (jiff::Timestamp::MIN, jiff::Timestamp::MAX);
    let mut steps = rollout(&[(3, None); 300], 20, 30);
    steps.sets.push(steps.sets[0].clone());
    let cases =
        [empty(0), empty(-9), small(), far, longest, fourteen(), thousand(), hostile(), steps];
    for (index, timeline) in cases.iter().enumerate() {
        for width in (0..60).chain([79, 80, 120, 200]) {
            for rows in [0, 1, 9, usize::MAX] {
                // The large ones at some widths only, for time.
                if timeline.applications() > 500 && width % 20 != 0 {
                    continue;
                }
                let text = chart(timeline, width, false, rows);
                for line in text.lines() {
                    assert!(columns(line) <= width, "{index}: {width}: {line:?}");
                    assert!(!line.contains(wavegate_net::terminal::is_hostile), "{line:?}");
                }
            }
        }
    }
}

#[test]
fn colours_change_nothing_else() {
    for timeline in [small(), fourteen(), thousand()] {
        let (coloured, plain) = (chart(&timeline, 90, true, 30), chart(&timeline, 90, false, 30));
        assert!(coloured.contains("\u{1b}[32m"));
        let mut parts = coloured.split('\u{1b}');
        let mut text = parts.next().unwrap().to_owned();
        for part in parts {
            text.push_str(part.split_once('m').unwrap().1);
        }
        assert_eq!(text, plain);
    }
}

#[test]
fn the_most_rows_are_kept() {
    for most in [0, 1, 5, 30, 200, 1000] {
        let text = chart(&thousand(), 100, false, most);
        let rows = text.lines().filter(|line| line.starts_with("  ") && line.contains('-')).count();
        assert!(rows <= most + 3, "{most}: {rows}");
    }
    let all = chart(&thousand(), 100, false, 1000);
    assert!(all.contains("  prod-0800 ") && all.contains("  dev-0001 "));
}

#[test]
fn every_state_has_its_own_character() {
    let mut glyphs = SpanKind::ALL.map(|what| Look::of(what).glyph).to_vec();
    glyphs.push('/');
    glyphs.sort_unstable();
    glyphs.dedup();
    assert_eq!(glyphs.len(), SpanKind::ALL.len() + 1);
    assert!(glyphs.iter().all(|glyph| columns(&glyph.to_string()) == 1));
}
