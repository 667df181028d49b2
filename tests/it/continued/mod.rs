//! What an earlier version wrote is continued.
//!
//! A controller keeps no state of its own: what it has begun is in the resources of the control
//! plane, in words, digests and times that the next release finds there. Nothing else in the
//! suite notices when a release changes one of them, since all other tests write and read with
//! the same program. So for each release there is a record of what a control plane holds in the
//! middle of things (`tests/data/continued/RELEASE/DEFINITIONS/SCENARIO.json`, written by
//! `tests/record`), and the program under test brings each to its right end, with nothing done
//! twice. The records stay, however old they are: who upgrades may skip releases.
//!
//! A record is the state of the server between two writes, as a process leaves it that is killed
//! there. It is put into another server with UIDs, versions, managers, and deletions that have
//! begun ([`kube_sim::Server::restore`]), and continued in two ways ([`When`]): by controllers in
//! this process, for which it is the moment of the record, so that limits and delays are what they
//! were; and by the program, today, as after an upgrade for which the control plane was down for
//! a long time. Times are never rewritten, since names and stamps are made from them, nor are the
//! URLs of repositories, from which digests are made: `served.rs` makes these possible.

mod judge;
mod moment;
mod newer;
mod recorded;
mod recording;
mod rollouts;
mod served;
mod stage;
mod unwinding;
mod with_policies;

use recorded::{RELEASES, Recorded};
use stage::{Stage, When};

/// For each scenario, and the ways in which it is continued, a test that continues its records, and the way to make them.
macro_rules! scenarios {
    ($($module:ident::$name:ident $when:tt,)+) => {
        /// The names of all scenarios.
        const SCENARIOS: &[&str] = &[$(stringify!($name),)+];

        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            for recorded in Recorded::of(stringify!($name)) {
                for when in $when {
                    eprintln!("{recorded}, continued {when:?}");
                    let mut stage = Stage::continued(&recorded, when).await;
                    $module::$name::end(&mut stage, &recorded).await;
                    stage.finish().await;
                }
            }
        })+

        /// Brings a scenario to its moment.
        async fn begin(scenario: &str, stage: &mut Stage) {
            match scenario {
                $(stringify!($name) => $module::$name::begin(stage).await,)+
                other => panic!("no scenario {other}"),
            }
        }
    };
}

/// Both ways.
const BOTH: [When; 2] = [When::AMomentLater, When::LongAfter];

scenarios! {
    rollouts::second_step BOTH,
    rollouts::promised BOTH,
    rollouts::requested BOTH,
    rollouts::waves BOTH,
    rollouts::hook BOTH,
    rollouts::retry BOTH,
    with_policies::soak BOTH,
    with_policies::approval BOTH,
    with_policies::paused BOTH,
    with_policies::aborted BOTH,
    unwinding::rollback BOTH,
    unwinding::deletion BOTH,
}

/// A scenario without a record, or a record that no test continues, would prove nothing.
#[test]
fn each_release_has_a_record_of_each_scenario_and_no_other() {
    let releases: Vec<_> = std::fs::read_dir(RELEASES).unwrap().map(Result::unwrap).collect();
    assert!(!releases.is_empty(), "no release is recorded in {RELEASES}");
    for scenario in SCENARIOS {
        let found = Recorded::of(scenario);
        assert!(found.len() >= 2, "{scenario}: recorded under both definitions, at least once");
    }
    let is_known = |name: &str| SCENARIOS.iter().any(|known| name == format!("{known}.json"));
    for path in recorded::files() {
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(is_known(name), "{}: no test continues it", path.display());
    }
}
