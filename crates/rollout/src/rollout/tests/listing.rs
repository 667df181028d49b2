//! Which entries a status lists, and what is known of those that it does not.

use super::*;
use crate::rollout::listed::{
    CompletionRecord, Listing, RecordKind, choose, implied, in_flight, listing,
};
use health::Status as H;

fn record(kind: RecordKind, revision: &str) -> CompletionRecord {
    CompletionRecord {
        kind,
        target_revisions: vec![revision.to_owned()],
        spec: "spec".to_owned(),
        step: Some(0),
        since: ago(100),
    }
}

fn member<'a>(
    name: &'a str,
    observed: &'a Observed,
    record: Option<&'a CompletionRecord>,
    is_listed: bool,
) -> Member<'a> {
    Member {
        name,
        steps: None,
        invalid: None,
        unwritten: None,
        excluded: None,
        is_going: false,
        resource: None,
        denied: None,
        observed: Some(observed),
        entry: None,
        is_listed,
        record,
        spec: Some("spec"),
        started: None,
    }
}

#[test]
fn an_entry_that_is_not_listed_is_what_its_record_implies() {
    let found = seen(H::Healthy, SyncStatusCode::Synced);
    let healthy = Some("Application is synced and healthy");
    let timeout = Some("Progressing timeout");
    for (name, record, spec, want) in [
        ("no record", None, Some("spec"), None),
        ("Healthy", Some(record(RecordKind::Healthy, "next")), Some("spec"), healthy),
        ("started", Some(record(RecordKind::Started, "next")), Some("spec"), healthy),
        ("timed out", Some(record(RecordKind::TimedOut, "next")), Some("spec"), timeout),
        ("void", Some(record(RecordKind::Void, "next")), Some("spec"), None),
        ("another spec", Some(record(RecordKind::Healthy, "next")), Some("other"), None),
        ("a spec that is unknown", Some(record(RecordKind::Healthy, "next")), None, healthy),
        ("another revision", Some(record(RecordKind::Healthy, "old")), Some("spec"), None),
    ] {
        let entry = implied("a", Some(1), record.as_ref(), spec, &found, ago(200));
        let phase = if want.is_some() { Phase::Healthy } else { Phase::Waiting };
        assert_eq!(entry.phase, phase, "{name}");
        assert_eq!(entry.message, want.unwrap_or("Waiting for its step"), "{name}");
        assert_eq!(entry.timed_out(), want == timeout, "{name}");
        assert_eq!((entry.application.as_str(), entry.step), ("a", Some(1)), "{name}");
    }
}

#[test]
fn an_entry_is_listed_when_nothing_else_says_the_same() {
    let found = seen(H::Healthy, SyncStatusCode::Synced);
    let same = record(RecordKind::Healthy, "next");
    let other = record(RecordKind::Healthy, "old");
    let void = record(RecordKind::Void, "next");
    let marked = |phase: Phase, mark: entry::EntryMark| Entry {
        mark: Some(mark),
        message: mark.prefix().to_owned(),
        ..entry("a", phase)
    };
    let synced = Entry { earlier: entry::Earlier::Sync(ago(9)), ..entry("a", Phase::Waiting) };
    for (name, of, record, is_listed, want) in [
        ("in flight", entry("a", Phase::Pending), Some(&same), false, Listing::Must),
        ("in flight", entry("a", Phase::Progressing), None, false, Listing::Must),
        (
            "its step has closed",
            marked(Phase::Waiting, entry::EntryMark::StepClosed),
            None,
            false,
            Listing::Must,
        ),
        ("Healthy, recorded", entry("a", Phase::Healthy), Some(&same), false, Listing::Implied),
        ("Healthy, another record", entry("a", Phase::Healthy), Some(&other), false, Listing::Wish),
        ("Healthy, another record", entry("a", Phase::Healthy), Some(&other), true, Listing::Must),
        ("Healthy, a void record", entry("a", Phase::Healthy), Some(&void), true, Listing::Wish),
        ("Healthy", entry("a", Phase::Healthy), None, true, Listing::Wish),
        ("Waiting, recorded", entry("a", Phase::Waiting), Some(&other), true, Listing::Must),
        ("Waiting, recorded", entry("a", Phase::Waiting), Some(&same), false, Listing::Must),
        (
            "Waiting, another record",
            entry("a", Phase::Waiting),
            Some(&other),
            false,
            Listing::Implied,
        ),
        ("Waiting after a sync", synced, None, true, Listing::Wish),
        ("Waiting", entry("a", Phase::Waiting), None, true, Listing::Implied),
    ] {
        let member = member("a", &found, record, is_listed);
        assert_eq!(listing(&member, &of), want, "{name}, {is_listed}");
    }
}

/// As many as fit, by name, beside what must be listed; the others get records.
#[test]
fn a_status_lists_as_much_as_fits() {
    let found = seen(H::Healthy, SyncStatusCode::Synced);
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    let entries = names.map(|name| entry(name, Phase::Healthy));
    let one = status::entry_json(&entries[0]).to_string().len() + 1;
    let members = names.map(|name| member(name, &found, None, true));
    let choose = |entries: &[Entry], limit: usize| {
        let listed = choose(&members, entries.to_vec(), limit);
        let names = listed.entries.iter().map(|entry| entry.application.as_str());
        (names.collect::<String>(), listed.count, listed.is_compact, listed.records.len())
    };
    assert_eq!(choose(&entries, 7 * one + 40), ("abcdefg".to_owned(), None, false, 0));
    for fits in [1, 4, 6] {
        let want = (names[..fits].concat(), Some(fits), true, 7);
        assert_eq!(choose(&entries, fits * one + one / 2), want, "{fits}");
    }
    // What is in flight comes first.
    let mut moving = entries.clone();
    moving[6] = entry("g", Phase::Pending);
    let want = ("abg".to_owned(), Some(3), true, 6);
    assert_eq!(choose(&moving, 3 * one + one / 2), want);
    // When not even that fits, nothing is implied.
    moving = names.map(|name| entry(name, Phase::Pending));
    assert_eq!(choose(&moving, 3 * one + one / 2), ("abc".to_owned(), None, true, 0));
}

#[test]
fn the_place_of_an_entry_in_flight_is_for_a_short_message() {
    for (name, revisions) in [("a", 1), ("an-application", 3)] {
        let mut entry = entry(name, Phase::Waiting);
        entry.target_revisions = vec!["6d0c1f2".to_owned(); revisions];
        let reserved = in_flight(&entry);
        entry.phase = Phase::Progressing;
        entry.message = "m".repeat(96);
        let takes = status::entry_json(&entry).to_string().len();
        assert!((takes..takes + 16).contains(&reserved), "{takes}, {reserved}");
    }
}
