//! The tree as text.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::report::TreeReport;
use crate::cli::console::output::{self, or_dash};
use wavegate_api::HealthStatus;
use wavegate_api::cluster::{IN_CLUSTER_NAME, IN_CLUSTER_SERVER};
use wavegate_api::kind::KindRef;
use wavegate_engine::resource_tree::OwnedResource;

/// Objects of one kind below one other that are shown; the rest is one line.
const SHOWN: usize = 10;

const HEADER: [&str; 7] = ["NAME", "SYNC", "HEALTH", "WAVE", "HOOK", "AGE", "MESSAGE"];

/// The header lines and the tree. `all` shows what is folded otherwise: former
/// ReplicaSets, ControllerRevisions, and more than a few objects of a kind.
pub(super) fn text(report: &TreeReport, all: bool, now: Timestamp) -> String {
    let mut out = output::line(&title(report));
    if !report.waits_for.is_empty() {
        out.push_str(&output::line(&format!("Waits for: {}", report.waits_for)));
    }
    out.push('\n');
    if report.resources.is_empty() {
        out.push_str(match report.sync.as_str() {
            "" => "It was not compared yet: no resources are known.\n",
            _ => "It has no resources.\n",
        });
        return out;
    }
    let mut rows = Rows { all, now, namespace: &report.destination.namespace, rows: Vec::new() };
    rows.rows.push([
        format!("Application/{}", report.application),
        or_dash(&report.sync),
        or_dash(&report.health.status),
        "-".to_owned(),
        "-".to_owned(),
        output::age(&report.created_at, now),
        report.health.message.clone(),
    ]);
    rows.add(report.resources.iter().map(Line::Node).collect(), "");
    out.push_str(&output::table(HEADER, rows.rows));
    out
}

fn title(report: &TreeReport) -> String {
    let destination = &report.destination;
    let cluster = match (destination.name.as_str(), destination.server.as_str()) {
        ("", IN_CLUSTER_SERVER) => IN_CLUSTER_NAME.to_owned(),
        ("", server) => wavegate_net::redact::redact_url(server),
        (name, _) => name.to_owned(),
    };
    let states = [report.sync.as_str(), report.health.status.as_str()];
    let states: Vec<&str> = states.into_iter().filter(|state| !state.is_empty()).collect();
    let states = if states.is_empty() { "not compared yet".to_owned() } else { states.join(", ") };
    let revision = match report.revisions.as_slice() {
        [] => String::new(),
        revisions => {
            let short = |revision: &String| short(revision).to_owned();
            let all: Vec<String> = revisions.iter().map(short).collect();
            format!(", revision {}", all.join(" and "))
        }
    };
    format!(
        "Application {}/{}: {states}; project {}, destination {cluster}/{}{revision}",
        report.namespace, report.application, report.project, destination.namespace,
    )
}

/// The start of a commit hash; other revisions as they are.
pub(in crate::cli) fn short(revision: &str) -> &str {
    let is_hash = revision.len() >= 40 && revision.bytes().all(|b| b.is_ascii_hexdigit());
    if is_hash { &revision[..7] } else { revision }
}

/// A line of the tree.
enum Line<'a> {
    Node(&'a OwnedResource),
    Folded(String),
}

struct Rows<'a> {
    all: bool,
    now: Timestamp,
    /// The destination namespace: others are shown.
    namespace: &'a str,
    rows: Vec<[String; 7]>,
}

impl Rows<'_> {
    fn add(&mut self, lines: Vec<Line<'_>>, prefix: &str) {
        let last = lines.len().saturating_sub(1);
        for (index, line) in lines.into_iter().enumerate() {
            let (mark, below) =
                if index == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            match line {
                Line::Folded(text) => {
                    let name = format!("{prefix}{mark}{text}");
                    self.rows.push([&name, "", "", "", "", "", ""].map(str::to_owned));
                }
                Line::Node(node) => {
                    self.rows.push(self.row(node, &format!("{prefix}{mark}")));
                    let children = self.children(node);
                    self.add(children, &format!("{prefix}{below}"));
                }
            }
        }
    }

    fn row(&self, node: &OwnedResource, prefix: &str) -> [String; 7] {
        let health = node.health.as_ref();
        let state = match health {
            _ if node.missing && node.hook.is_empty() => HealthStatus::Missing.as_str(),
            Some(health) => health.status.as_str(),
            None => "",
        };
        let pruning = node.requires_pruning.then_some("not in the source, would be pruned");
        let judged = health.map(|health| health.message.as_str()).unwrap_or_default();
        let mut messages: Vec<&str> = [node.message.as_str(), judged, pruning.unwrap_or_default()]
            .into_iter()
            .filter(|text| !text.is_empty())
            .collect();
        // A failed result often has the words of the health.
        messages.dedup();
        [
            format!("{prefix}{}", self.name(node)),
            or_dash(&node.sync),
            or_dash(state),
            node.wave.to_string(),
            or_dash(&node.hook),
            output::age(&node.created_at, self.now),
            messages.join("; "),
        ]
    }

    fn name(&self, node: &OwnedResource) -> String {
        let kind = KindRef { group: &node.group, version: "", kind: &node.kind };
        let group = if kind.is_built_in() { String::new() } else { format!(".{}", node.group) };
        let elsewhere = !node.namespace.is_empty() && node.namespace != self.namespace;
        let namespace =
            if elsewhere { format!(" (namespace {})", node.namespace) } else { String::new() };
        format!("{}{group}/{}{namespace}", node.kind, node.name)
    }

    /// The children of a node, folded by kind.
    fn children<'n>(&self, node: &'n OwnedResource) -> Vec<Line<'n>> {
        if self.all {
            return node.children.iter().map(Line::Node).collect();
        }
        let mut kinds: BTreeMap<(&str, &str), Vec<&OwnedResource>> = BTreeMap::new();
        for child in &node.children {
            kinds.entry((&child.kind, &child.group)).or_default().push(child);
        }
        let mut lines = Vec::new();
        for ((kind, group), children) in kinds {
            let former = |child: &&OwnedResource| {
                child.scaled_down || (group == "apps" && kind == "ControllerRevision")
            };
            let (former, mut children): (Vec<&OwnedResource>, Vec<&OwnedResource>) =
                children.into_iter().partition(former);
            if children.len() > SHOWN {
                // Stable: those of one health stay in the order of their names.
                children.sort_by_key(|child| std::cmp::Reverse(severity(child)));
            }
            let rest = children.split_off(children.len().min(SHOWN));
            lines.extend(children.into_iter().map(Line::Node));
            if !rest.is_empty() {
                lines.push(Line::Folded(more(kind, &rest)));
            }
            if !former.is_empty() {
                let what = if kind == "ReplicaSet" { "former " } else { "" };
                let s = if former.len() == 1 { "" } else { "s" };
                let them = if former.len() == 1 { "it" } else { "them" };
                let number = former.len();
                lines
                    .push(Line::Folded(format!("… {number} {what}{kind}{s} (--all shows {them})")));
            }
        }
        lines
    }
}

/// How much an object needs attention: the worst first, Healthy and unknown ones last.
fn severity(node: &OwnedResource) -> HealthStatus {
    let of =
        |node: &OwnedResource| node.health.as_ref().map_or(HealthStatus::Healthy, |h| h.status);
    node.children.iter().map(severity).fold(of(node), HealthStatus::worst)
}

/// The line for objects that are not shown.
fn more(kind: &str, rest: &[&OwnedResource]) -> String {
    let mut counts: BTreeMap<HealthStatus, usize> = BTreeMap::new();
    for node in rest {
        if let Some(health) = &node.health {
            *counts.entry(health.status).or_default() += 1;
        }
    }
    let total = thousands(rest.len());
    let s = if rest.len() == 1 { "" } else { "s" };
    let healths = match counts.iter().next() {
        Some((status, count)) if *count == rest.len() => format!(", all {}", status.as_str()),
        Some(_) => {
            let parts =
                counts.iter().map(|(s, count)| format!("{} {}", thousands(*count), s.as_str()));
            format!(": {}", parts.collect::<Vec<_>>().join(", "))
        }
        None => String::new(),
    };
    let them = if rest.len() == 1 { "it" } else { "them" };
    format!("… {total} more {kind}{s}{healths} (--all shows {them})")
}

/// A number with commas, such as `4,990`.
fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use wavegate_engine::health::Health;

    fn pod(name: &str, status: HealthStatus) -> OwnedResource {
        OwnedResource {
            kind: "Pod".to_owned(),
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            health: Some(Health::new(status, "")),
            ..OwnedResource::default()
        }
    }

    fn lines(node: &OwnedResource, all: bool) -> Vec<String> {
        let now = "2026-01-02T03:04:05Z".parse().unwrap();
        let mut rows = Rows { all, now, namespace: "shop", rows: Vec::new() };
        rows.add(vec![Line::Node(node)], "");
        rows.rows.into_iter().map(|row| row[0].clone()).collect()
    }

    #[test]
    fn many_objects_are_folded_and_the_unhealthy_come_first() {
        let mut set = OwnedResource {
            group: "apps".to_owned(),
            kind: "ReplicaSet".to_owned(),
            name: "web-1".to_owned(),
            ..OwnedResource::default()
        };
        set.children = (0..5000).map(|n| pod(&format!("p{n:04}"), HealthStatus::Healthy)).collect();
        set.children[4711] = pod("p4711", HealthStatus::Degraded);
        let shown = lines(&set, false);
        assert_eq!(shown.len(), 12);
        assert_eq!(shown[..3], ["└─ ReplicaSet/web-1", "   ├─ Pod/p4711", "   ├─ Pod/p0000"]);
        assert_eq!(shown[11], "   └─ … 4,990 more Pods, all Healthy (--all shows them)");
        assert_eq!(lines(&set, true).len(), 5001);
        for child in &mut set.children[20..23] {
            child.health = None;
        }
        for child in &mut set.children[..20] {
            child.health = Some(Health::new(HealthStatus::Progressing, ""));
        }
        let last = lines(&set, false).pop().unwrap();
        assert_eq!(
            last,
            "   └─ … 4,990 more Pods: 4,976 Healthy, 11 Progressing (--all shows them)"
        );
    }

    #[test]
    fn former_replica_sets_are_folded() {
        let replica_set = |name: &str, scaled_down| OwnedResource {
            group: "apps".to_owned(),
            kind: "ReplicaSet".to_owned(),
            name: name.to_owned(),
            scaled_down,
            ..OwnedResource::default()
        };
        let children =
            vec![replica_set("a", true), replica_set("b", false), replica_set("c", true)];
        let web = OwnedResource {
            group: "apps".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: "other".to_owned(),
            name: "web".to_owned(),
            children,
            ..OwnedResource::default()
        };
        let want = [
            "└─ Deployment/web (namespace other)",
            "   ├─ ReplicaSet/b",
            "   └─ … 2 former ReplicaSets (--all shows them)",
        ];
        assert_eq!(lines(&web, false), want);
        assert_eq!(lines(&web, true).len(), 4);
    }
}
