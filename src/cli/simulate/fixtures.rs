//! Timelines for tests.

use jiff::Timestamp;

use super::timeline::{
    ApplicationLine, GateKind, GateLine, SetLine, StepLine, Timeline, TimelineMark, TimelineSpan,
};
use wavegate_simulation::SpanKind;

/// The name of the run.
pub const RUN: &str = "shop-2";

/// A second of the simulated time.
pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_767_607_200 + second).unwrap()
}

/// Without a set, of a length in seconds.
pub fn empty(seconds: i64) -> Timeline {
    Timeline {
        start: at(0),
        end: at(seconds),
        is_complete: true,
        outcome: "complete".into(),
        sets: Vec::new(),
        marks: Vec::new(),
    }
}

/// A state between two seconds.
pub fn span(from: i64, until: i64, what: SpanKind) -> TimelineSpan {
    TimelineSpan { from: at(from), until: at(until), what }
}

/// An Application with spans such as `0 w 10 s 20 h 60`: seconds and letters of states
/// between them.
pub fn application(name: &str, spans: &str) -> ApplicationLine {
    let words: Vec<&str> = spans.split(' ').collect();
    let of = |three: &[&str]| {
        let what = match three[1] {
            "w" => SpanKind::Waiting,
            "l" => SpanKind::Held,
            "p" => SpanKind::Pending,
            "s" => SpanKind::Syncing,
            "b" => SpanKind::BecomingHealthy,
            "h" => SpanKind::Healthy,
            "x" => SpanKind::Failed,
            "g" => SpanKind::GoingBack,
            "k" => SpanKind::Back,
            "-" => SpanKind::Skipped,
            other => panic!("unknown state {other}"),
        };
        span(three[0].parse().unwrap(), three[2].parse().unwrap(), what)
    };
    let spans = words.windows(3).step_by(2).map(of).collect();
    ApplicationLine { name: name.into(), spans }
}

/// A step that was open between two seconds.
pub fn step(
    number: usize,
    limit: Option<u64>,
    open: (i64, i64),
    applications: Vec<ApplicationLine>,
) -> StepLine {
    StepLine {
        number: Some(number),
        limit,
        opened: Some(at(open.0)),
        completed: Some(at(open.1)),
        ended: None,
        run: Some(RUN.into()),
        earlier: Vec::new(),
        total: applications.len() as u64,
        applications,
        gates: Vec::new(),
    }
}

/// A gate that held from a second on, until another one if it opened.
pub fn gate(name: &str, what: GateKind, since: i64, opened: Option<i64>) -> GateLine {
    GateLine {
        name: name.into(),
        run: RUN.into(),
        since: at(since),
        opened: opened.map(at),
        ended: None,
        soaks_until: None,
        what,
        by: None,
    }
}

/// A set in the namespace `argocd`.
pub fn set(name: &str, steps: Vec<StepLine>) -> SetLine {
    SetLine {
        namespace: "argocd".into(),
        name: name.into(),
        runs: vec![RUN.into()],
        steps,
        waits: Vec::new(),
    }
}

/// A moment.
pub fn mark(second: i64, text: &str) -> TimelineMark {
    TimelineMark { at: at(second), until: None, text: text.into() }
}

/// Numbers that look random, and are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: i64) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        i64::try_from(self.0 >> 33).unwrap() % limit
    }
}

/// A whole rollout: steps of the given sizes and limits, each Application with a sync and a
/// time until it is Healthy; some fail and are retried.
pub fn rollout(steps: &[(usize, Option<u64>)], sync: i64, health: i64) -> Timeline {
    let mut random = Random(42);
    let (mut begin, mut lines) = (0, Vec::new());
    for (index, (size, limit)) in steps.iter().enumerate() {
        let mut free = vec![begin; limit.map_or(*size, |limit| limit as usize).max(1)];
        let mut rows = Vec::new();
        let mut end = begin;
        for number in 0..*size {
            free.sort_unstable();
            let start = free[0] + 1 + random.below(3);
            let synced = start + sync / 2 + random.below(sync);
            let healthy = synced + health / 2 + random.below(health);
            free[0] = healthy;
            end = end.max(healthy);
            let name = format!("{}-{:04}", ["dev", "qa", "prod"][index.min(2)], number + 1);
            rows.push((name, start, synced, healthy, random.below(20) == 0));
        }
        lines.push((begin, end, *limit, rows));
        begin = end + if index == 0 { 2 * health } else { 0 };
    }
    let length = lines.last().map_or(0, |line| line.1) + sync;
    let mut timeline = empty(length);
    let mut all = Vec::new();
    for (index, (begin, end, limit, rows)) in lines.into_iter().enumerate() {
        let held = if index == 1 { begin - 2 * health } else { begin };
        let applications = rows.into_iter().map(|(name, start, synced, healthy, retried)| {
            let waits = match held < begin {
                true => format!("0 w {held} l {begin} w {start}"),
                false => format!("0 w {start}"),
            };
            let middle = (start + synced) / 2;
            let syncs = match retried {
                true => format!("s {middle} x {} s {synced}", middle + 2),
                false => format!("s {synced}"),
            };
            let spans = format!("{waits} p {} {syncs} b {healthy} h {length}", start + 2);
            application(&name, &spans)
        });
        let mut line = step(index + 1, limit, (begin, end), applications.collect());
        if index == 1 {
            line.gates.push(GateLine {
                by: Some("alice@example.com".into()),
                ..gate("qa-approval", GateKind::Approval, held, Some(begin))
            });
        }
        all.push(line);
    }
    timeline.sets.push(set("shop", all));
    timeline.marks = vec![
        mark(length / 3, "commit 4f2a91c pushed"),
        mark(length / 3 + length / 50, "paused by bob"),
        mark(length / 3 + length / 12, "resumed by bob"),
        TimelineMark {
            until: Some(at(length * 7 / 10)),
            ..mark(length * 6 / 10, "API server down")
        },
        mark(length - 1, "controller restarted"),
    ];
    timeline
}

/// The fleet of the demo: 14 Applications in three steps.
pub fn fourteen() -> Timeline {
    rollout(&[(3, None), (3, Some(1)), (8, Some(3))], 20, 30)
}

/// A fleet of 1,000 Applications.
pub fn thousand() -> Timeline {
    rollout(&[(20, Some(10)), (180, Some(20)), (800, Some(40))], 40, 90)
}

/// Names that try to break out of what they are shown in.
pub fn hostile() -> Timeline {
    let names = [
        "<script>alert(1)</script>",
        "a\"b'c&d]]>",
        "\u{1b}[2J\u{7}\u{0}bell\r\n\ttab",
        "\u{202e}gnp.exe\u{2066}",
        "שלום-עולם",
        "日本語のアプリケーションの名前はとても長いです",
        "z\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}algo",
        "\u{fffe}\u{ffff}\u{fdd0}",
        "",
        "👩‍👩‍👧‍👦-family",
    ];
    let mut applications: Vec<_> =
        names.iter().map(|name| application(name, "0 w 10 p 12 s 30 b 40 h 60")).collect();
    applications.push(application(&"very-long-".repeat(500), "0 w 10 s 20 x 60"));
    let mut timeline = empty(60);
    let mut line = step(1, Some(3), (5, 40), applications);
    for name in names {
        line.gates.push(GateLine { by: Some(name.into()), ..gate(name, GateKind::Both, 0, None) });
        timeline.marks.push(mark(20, name));
    }
    timeline.outcome = names.join(" ");
    timeline.sets.push(SetLine {
        namespace: names[0].into(),
        name: names[2].into(),
        ..set("", vec![line])
    });
    timeline
}
