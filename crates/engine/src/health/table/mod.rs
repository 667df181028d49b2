//! Health rules as data: the kinds of operators and other projects.
//!
//! The rules are in `../kinds/*.rules`, one line per rule. They are embedded, parsed once,
//! and a test proves that they parse. The language:
//!
//! ```text
//! # A comment.
//! [group/Kind *.example.com/*]          the kinds of the rules below; `*` is any text
//! Ready=False -> Degraded {message}     tests, then health and message
//! Ready=True -> Healthy {message}
//! -> Progressing Waiting for status     without tests: everything else; always last
//! ```
//!
//! Tests are joined by ` & `; `!` in front negates one. The first line whose tests all hold
//! gives the health.
//!
//! | test | holds when |
//! |---|---|
//! | `A\|B=True\|Unknown/Reason*` | a condition of such a type, status and reason exists |
//! | `Ready` | a condition of the type exists |
//! | `.status.phase` | the field exists and is not null |
//! | `.status.phase=Run*\|Ok` | it is such a text, number or boolean |
//! | `.a<.b`, `<=`, `>`, `>=` | numbers compare; absent is 0, `.a?1` is 1 when absent |
//! | `.a+.b>=.c`, `#.list=0` | the sum of two, the length of a list or map |
//! | `.a<sum .list.field` | the sum of a field of all elements |
//! | `full .a` | it is a text such as `2/2`, whose first number reaches the second |
//! | `any .list (TESTS)`, `all .list (TESTS)` | elements of a list, or values of a map |
//! | `stale`, `stale Ready` | the status, or the condition, is of an older generation |
//! | `unobserved`, `unobserved Ready` | the status does not name exactly this generation, as those of the project always do; a condition of the type names another one |
//! | `deleting` | the object is being deleted |
//!
//! Within `any` and `all`, and `each`, fields and conditions are those of the element; `$.`
//! is the object. In messages `{message}`, `{reason}`, `{type}` and `{status}` are of the
//! condition that a test found, `{@.field}` is of the element that `any` found, `{a|b|'c'}`
//! is the first that is not empty, `{.sha:7}` are the first seven characters, `{#.list}` is
//! a length and `{each .list (TESTS) 'separator' text}` repeats a text.
//!
//! A condition of an older generation counts as absent. A status of an older generation gives
//! Progressing, unless a line tests `stale` or `unobserved` itself, or a condition decides that
//! says itself that it is of this generation. An object that its spec pauses is Suspended
//! before that, by a line that reads nothing but the spec or the metadata, or without a line
//! by `spec.paused`, `suspend` and the like.
//!
//! `[define NAME]` starts lines that `use NAME(one; two)` repeats with `%1` and `%2` replaced.

mod eval;
mod glob;
mod parse;
mod rule;

use std::collections::HashMap;
use std::sync::OnceLock;

use serde_json::Value;

use super::read::{is_stale, pausing_field};
use super::status::{Health, Status};
use eval::RuleScope;
pub use glob::glob_matches;
use parse::ParseError;
use rule::Block;

/// Progressing by the generation alone.
const NOT_OBSERVED: &str = "Waiting for the spec update to be observed";

/// The rules, by topic.
const SOURCES: &[(&str, &str)] = &[
    ("clusters.rules", include_str!("../kinds/clusters.rules")),
    ("data.rules", include_str!("../kinds/data.rules")),
    ("delivery.rules", include_str!("../kinds/delivery.rules")),
    ("network.rules", include_str!("../kinds/network.rules")),
    ("workloads.rules", include_str!("../kinds/workloads.rules")),
];

/// The parsed rules.
struct Table {
    blocks: Vec<Block>,
    /// Kind and group to the block.
    exact: HashMap<String, HashMap<String, usize>>,
    /// Group and kind with wildcards, in order.
    patterns: Vec<(String, String, usize)>,
}

impl Table {
    fn parse(sources: &[(&str, &str)]) -> Result<Self, ParseError> {
        let blocks = parse::blocks(sources)?;
        let mut exact: HashMap<String, HashMap<String, usize>> = HashMap::new();
        let mut patterns = Vec::new();
        for (index, block) in blocks.iter().enumerate() {
            for (group, kind) in &block.kinds {
                if group.contains('*') || kind.contains('*') {
                    patterns.push((group.clone(), kind.clone(), index));
                    continue;
                }
                let groups = exact.entry(kind.clone()).or_default();
                if groups.insert(group.clone(), index).is_some() {
                    let what = format!("{group}/{kind} has rules already");
                    return Err(ParseError { place: block.place.clone(), what });
                }
            }
        }
        Ok(Self { blocks, exact, patterns })
    }

    /// The block of a kind; an exact name goes before a pattern.
    fn block(&self, group: &str, kind: &str) -> Option<&Block> {
        let index = self.exact.get(kind).and_then(|groups| groups.get(group)).copied();
        let index = index.or_else(|| {
            let hit = |(g, k, _): &&(String, String, usize)| {
                glob_matches(g, group) && glob_matches(k, kind)
            };
            self.patterns.iter().find(hit).map(|(_, _, index)| *index)
        })?;
        self.blocks.get(index)
    }
}

/// The table; `None` when the embedded rules do not parse, which a test excludes.
fn table() -> Option<&'static Table> {
    static TABLE: OnceLock<Option<Table>> = OnceLock::new();
    TABLE.get_or_init(|| Table::parse(SOURCES).ok()).as_ref()
}

/// Whether the table has rules for a kind.
pub(crate) fn contains(group: &str, kind: &str) -> bool {
    table().is_some_and(|table| table.block(group, kind).is_some())
}

/// The health of an object by the rules of its kind; `None` without rules.
pub(crate) fn assess(group: &str, kind: &str, object: &Value) -> Option<Health> {
    Some(table()?.block(group, kind)?.assess(object))
}

impl Block {
    fn assess(&self, object: &Value) -> Health {
        if let Some(field) = pausing_field(object).filter(|_| !self.tests_pause) {
            return Health::suspended(format!("Paused by spec.{field}"));
        }
        let is_old = !self.tests_generation && is_stale(object);
        let hit = self.rules.iter().find_map(|rule| {
            let mut scope = RuleScope::of(object, self.tests_generation);
            let hit = rule.tests.iter().all(|test| eval::holds(test, &mut scope));
            let is_pause = rule.is_of_spec && rule.status == Status::Suspended;
            let counts = !is_old || is_pause || scope.found_a_current_condition();
            (hit && counts).then(|| Health::new(rule.status, eval::render(&rule.message, &scope)))
        });
        // Each block ends with a line without tests.
        hit.unwrap_or_else(|| Health::progressing(NOT_OBSERVED))
    }
}

#[cfg(test)]
mod tests;
