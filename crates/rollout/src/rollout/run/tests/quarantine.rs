//! ST-060: what was aborted stays so for every Application, whatever the order of events.

use proptest::prelude::*;

use super::*;

/// `r2` is aborted after the first step has started it.
fn aborted(late: &[&str]) -> Fleet {
    let mut fleet = Fleet::new(&[2, 3], json!(null));
    fleet.push("r2");
    for name in late {
        fleet.apps.get_mut(*name).unwrap().head = "r1".to_owned();
    }
    fleet.apps.get_mut("s1-1").unwrap().fate = Fate::Hangs;
    fleet.run(6);
    fleet.abort(false);
    fleet.run(2);
    assert_eq!(fleet.status().phase, RunPhase::Aborted);
    fleet.apps.values_mut().for_each(|app| app.fate = Fate::Healthy);
    fleet.run(6);
    fleet
}

fn see(fleet: &mut Fleet, name: &str, revision: &str) {
    fleet.apps.get_mut(name).unwrap().head = revision.to_owned();
}

const ALL: [&str; 5] = ["s1-0", "s1-1", "s2-0", "s2-1", "s2-2"];

/// An Application that is generated only now.
fn add_new(fleet: &mut Fleet, name: &str, head: &str) {
    let mut app = fleet.apps[&format!("{}-0", &name[..2])].clone();
    (app.entry, app.started) = (None, None);
    app.deployed = "none".to_owned();
    app.observed.deployed = Deployed::Never;
    app.observed.operation = None;
    app.observed.sync = SyncStatusCode::OutOfSync;
    app.observed.revisions = vec![head.to_owned()];
    app.head = head.to_owned();
    fleet.apps.insert(name.to_owned(), app);
}

#[test]
fn it_belongs_to_the_target_and_not_to_the_moment_as_st_060() {
    let mut fleet = aborted(&[]);
    // One goes back first: the next run begins while the others still have the aborted target.
    see(&mut fleet, "s1-0", "r1");
    fleet.run(20);
    fleet.push("r1");
    fleet.run(40);
    assert_eq!(fleet.deployed("r1"), 5, "{:?}", fleet.kinds());
    assert_eq!(fleet.status().phase, RunPhase::Complete);
    add_new(&mut fleet, "s2-9", "r1");
    fleet.run(20);
    for name in ["s2-0", "s1-0", "s2-9", "s1-1", "s2-1", "s2-2"] {
        see(&mut fleet, name, "r2");
        fleet.run(8);
    }
    assert_eq!(fleet.deployed("r1"), 6, "{:?}", fleet.kinds());
    add_new(&mut fleet, "s1-8", "r2");
    fleet.run(20);
    assert_eq!((fleet.deployed("r2"), fleet.apps["s1-8"].deployed.as_str()), (0, "none"));
    assert!(fleet.kinds().contains(&WaitKind::Quarantined), "{:?}", fleet.kinds());
    // Another spec is another target, and a retry is for those too that are compared later.
    fleet.apps.get_mut("s1-8").unwrap().spec = "corrected".to_owned();
    fleet.run(20);
    assert_eq!(fleet.apps["s1-8"].deployed, "r2", "{:?}", fleet.kinds());
    see(&mut fleet, "s2-2", "r1");
    fleet.run(2);
    fleet.retry();
    fleet.run(20);
    see(&mut fleet, "s2-2", "r2");
    fleet.run(60);
    assert_eq!((fleet.deployed("r2"), fleet.apps.len()), (7, 7), "{:?}", fleet.kinds());
    let lifted = fleet.runs.iter().flat_map(|(_, _, status)| &status.timeline);
    let lifted: Vec<&str> = lifted
        .filter(|entry| entry.what == "Retried")
        .map(|entry| entry.message.as_str())
        .collect();
    assert_eq!(lifted, ["the quarantine of shop-1 is lifted"]);
}

/// Going back by hand is not what was aborted, nor is a new Application at what the others have.
#[test]
fn what_was_there_before_is_promoted_as_st_060() {
    let mut fleet = Fleet::new(&[2], json!(null));
    fleet.apps.values_mut().for_each(|app| app.spec = "changed".to_owned());
    fleet.apps.values_mut().for_each(|app| app.observed.sync = SyncStatusCode::OutOfSync);
    fleet.apps.values_mut().for_each(|app| app.deployed = "drift".to_owned());
    fleet.apps.values_mut().for_each(|app| app.fate = Fate::Ignores);
    fleet.run(3);
    let good = vec!["r1".to_owned()];
    fleet.apps.values_mut().for_each(|app| app.started.as_mut().unwrap().good = good.clone());
    fleet.abort(false);
    fleet.run(3);
    assert_eq!(fleet.status().phase, RunPhase::Aborted);
    fleet.apps.values_mut().for_each(|app| app.fate = Fate::Healthy);
    add_new(&mut fleet, "s1-9", "r1");
    fleet.apps.get_mut("s1-9").unwrap().spec = "spec".to_owned();
    fleet.run(20);
    assert_eq!(fleet.apps["s1-9"].deployed, "r1", "{:?}", fleet.kinds());
}

/// What a run says when it remembers no more.
#[test]
fn its_end_is_told_as_st_060() {
    let mut fleet = aborted(&[]);
    let text = "AAAAAA==".to_owned();
    let many: Vec<u8> = (0..40_000_u32).flat_map(|number| number.to_be_bytes()).collect();
    let many = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, many);
    let own = fleet.status().quarantine.clone();
    fleet.runs.last_mut().unwrap().2.quarantine = format!("0:{text};7:{many};{own}");
    fleet.reconcile();
    assert!(fleet.status().quarantine.ends_with(own.trim_start_matches("1:")));
    let told: Vec<&str> = fleet.status().timeline.iter().map(|entry| &*entry.message).collect();
    let want =
        "the targets of run shop-7 are promoted to again: more than 10000 are not remembered";
    assert!(told.contains(&want), "{told:?}");
    let count = fleet.status().timeline.len();
    fleet.run(5);
    assert_eq!(fleet.status().timeline.len(), count, "it is told once");
}

/// What the world does after an abort of `r2`.
#[derive(Clone, Debug)]
enum Event {
    See(usize, &'static str),
    New(&'static str),
    Wait(usize),
    Skip(usize),
}

fn event() -> impl Strategy<Value = Event> {
    let revision = || prop_oneof![Just("r1"), Just("r2"), Just("r3"), Just("r2")];
    prop_oneof![
        6 => (0..ALL.len(), revision()).prop_map(|(index, revision)| Event::See(index, revision)),
        1 => revision().prop_map(Event::New),
        3 => (1..6_usize).prop_map(Event::Wait),
        1 => (0..ALL.len()).prop_map(Event::Skip),
    ]
}

proptest! {
    /// No order of comparisons, of other commits in between, and of new Applications promotes one
    /// to what was aborted, and each reaches what was not.
    #[test]
    fn no_order_of_events_promotes_to_what_was_aborted_as_st_060(
        late in proptest::collection::btree_set(2..ALL.len(), 0..3),
        events in proptest::collection::vec(event(), 1..25),
    ) {
        let late: Vec<&str> = late.into_iter().map(|index| ALL[index]).collect();
        let mut fleet = aborted(&late);
        let has: Vec<&str> =
            ALL.into_iter().filter(|name| fleet.apps[*name].deployed == "r2").collect();
        prop_assert_eq!(&has, &["s1-0", "s1-1"]);
        let check = |fleet: &Fleet| {
            for start in &fleet.plan.as_ref().unwrap().starts {
                let to = start.revisions.first().map(String::as_str);
                assert_ne!(to, Some("r2"), "{} is promoted", start.application);
            }
        };
        let go = |fleet: &mut Fleet, seconds: usize| {
            for _ in 0..seconds {
                fleet.run(1);
                check(fleet);
            }
        };
        for event in events {
            match event {
                Event::See(index, revision) => see(&mut fleet, ALL[index], revision),
                Event::New(revision) => {
                    let name = format!("s2-n{}", fleet.apps.len());
                    add_new(&mut fleet, &name, revision);
                }
                Event::Wait(seconds) => go(&mut fleet, seconds),
                Event::Skip(index) => fleet.said(|spec| spec.skip.push(ALL[index].to_owned())),
            }
            fleet.reconcile();
            check(&fleet);
        }
        fleet.push("r2");
        go(&mut fleet, 12);
        // The next commit is for all, and so is a return to the first one.
        fleet.push("r4");
        go(&mut fleet, 12);
        fleet.said(|spec| spec.skip.clear());
        fleet.push("r5");
        go(&mut fleet, 60);
        prop_assert_eq!(fleet.deployed("r5"), fleet.apps.len(), "{:?}", fleet.kinds());
        fleet.push("r1");
        go(&mut fleet, 60);
        prop_assert_eq!(fleet.deployed("r1"), fleet.apps.len(), "{:?}", fleet.kinds());
        fleet.push("r2");
        go(&mut fleet, 20);
        prop_assert_eq!(fleet.deployed("r1"), fleet.apps.len(), "{:?}", fleet.kinds());
    }
}

/// ST-062, ST-080: a way back that failed waits for a person, and is counted.
#[test]
fn a_way_back_that_failed_is_a_wait_of_its_own_as_st_062() {
    let mut fleet = Fleet::new(&[1, 1], json!(null));
    fleet.push("r2");
    fleet.run(20);
    fleet.apps.get_mut("s2-0").unwrap().fails_at = Some("r1".to_owned());
    fleet.roll_back();
    fleet.run(10);
    assert_eq!((fleet.status().phase, fleet.status().failed), (RunPhase::RollingBack, 1));
    assert_eq!(fleet.kinds()[0], WaitKind::RollbackFailed, "{:?}", fleet.kinds());
    assert_eq!(fleet.status().estimate, None);
    fleet.apps.get_mut("s2-0").unwrap().fails_at = None;
    fleet.retry();
    fleet.run(30);
    assert_eq!((fleet.status().phase, fleet.status().failed), (RunPhase::RolledBack, 0));
}

/// A set that lost the entries of its status held what had another spec since: all were new.
#[test]
fn applications_whose_entries_are_lost_are_not_new_as_st_060() {
    let mut fleet = aborted(&[]);
    fleet.paused = Some("lunch".to_owned());
    fleet.apps.get_mut("s2-0").unwrap().spec = "corrected".to_owned();
    fleet.run(3);
    fleet.apps.values_mut().for_each(|app| app.entry = None);
    // One that nothing was deployed for may be new, whether its entry was lost or not.
    add_new(&mut fleet, "s2-9", "r2");
    fleet.run(3);
    fleet.paused = None;
    fleet.run(20);
    assert_eq!(fleet.apps["s2-0"].deployed, "r2", "{:?}", fleet.kinds());
    let others = ["s2-1", "s2-2", "s2-9"].map(|name| fleet.apps[name].deployed.as_str());
    assert_eq!(others, ["r1", "r1", "none"], "{:?}", fleet.kinds());
}
