//! When Applications are compared although nothing has changed (SE-378, SE-561, SE-563), on a
//! clock that jumps, with repositories in memory.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use kube_sim::RecordedRequest;
use tokio::time::Instant;
use wavegate_controller::config::{ApplicationFlags, Config, Flags};
use wavegate_source::InMemory;

use super::*;

/// How many Applications, each of a repository of its own: one that sees a commit wakes the others
/// of its repository.
const COUNT: usize = 40;
/// For what a comparison takes, and for rounding.
const SLACK: Duration = Duration::from_secs(2);

/// Repositories of which each has so many commits.
#[derive(Debug)]
struct Commits(AtomicU64);

fn commit(number: u64) -> String {
    format!("{number:040x}")
}

impl InMemory for Commits {
    fn head(&self, _: &str) -> String {
        commit(self.0.load(Ordering::SeqCst))
    }

    fn objects(&self, _: &str, _: &Value, _: &str) -> Vec<Value> {
        Vec::new()
    }
}

/// When each Application was seen with a commit, by both.
type Seen = Arc<Mutex<BTreeMap<(String, String), Instant>>>;

/// A world of Applications that are compared with these settings.
struct Fleet {
    world: World,
    commits: Arc<Commits>,
    seen: Seen,
}

impl Fleet {
    async fn start(settings: ApplicationSettings) -> Self {
        let (server, commits) = (Server::new(), Arc::new(Commits(AtomicU64::new(1))));
        let seen = Seen::default();
        let into = Arc::clone(&seen);
        server.record_into(move |entry| {
            let RecordedRequest::Change(change) = entry else { return };
            if &*change.resource != "applications" {
                return;
            }
            let app: Value = serde_json::from_slice(&change.object).unwrap();
            if let Some(revision) = app["status"]["sync"]["revision"].as_str() {
                let key = (change.name.to_string(), revision.to_owned());
                into.lock().unwrap().entry(key).or_insert_with(Instant::now);
            }
        });
        let world = World::in_memory(server, settings, commits.clone()).await;
        for number in 0..COUNT {
            let source = json!({
                "repoURL": format!("https://example.com/{number}.git"), "path": ".",
                "targetRevision": "main",
            });
            world.create_app(&world.with_source(&format!("app-{number}"), source)).await;
        }
        Self { world, commits, seen }
    }

    /// How long after `since` each Application was seen with a commit; waits for all of them.
    async fn delays(&self, number: u64, since: Instant) -> Vec<Duration> {
        let of_commit = || {
            let seen = self.seen.lock().unwrap();
            let found = seen.iter().filter(|((_, revision), _)| *revision == commit(number));
            found.map(|(_, at)| *at - since).collect::<Vec<Duration>>()
        };
        let all = async {
            while of_commit().len() < COUNT {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let found = tokio::time::timeout(Duration::from_secs(3600), all).await;
        found.unwrap_or_else(|_| panic!("SE-563: {:?}", of_commit()));
        let mut delays = of_commit();
        delays.sort();
        delays
    }
}

/// The settings of one of the three places.
fn settings(flag: Option<u64>, variables: &[(&str, &str)], keys: &[(&str, &str)]) -> Config {
    let application = ApplicationFlags {
        app_resync_jitter: flag.map(Duration::from_secs),
        ..ApplicationFlags::default()
    };
    let variables: BTreeMap<&str, &str> = variables.iter().copied().collect();
    let read = |name: &str| variables.get(name).map(|text| (*text).to_owned());
    let keys = keys.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let config = Config::resolve(Flags { application, ..Flags::default() }, &read, &keys).unwrap();
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    config
}

/// SE-563, SE-378: a commit that nothing reports is found when the interval is over, and each
/// Application looks for it at a time of its own, at most the jitter later. Without a jitter all
/// look at once.
#[tokio::test(start_paused = true)]
async fn comparisons_are_spread_by_the_jitter_and_not_beyond_it_se_563_se_378() {
    const VARIABLE: &str = "ARGOCD_RECONCILIATION_JITTER";
    const KEY: &str = "timeout.reconciliation.jitter";
    const TIMEOUT: &str = "ARGOCD_RECONCILIATION_TIMEOUT";
    for (place, config, interval, jitter) in [
        ("the default", settings(None, &[], &[]), 120, 60),
        ("the variable", settings(None, &[(VARIABLE, "20s")], &[(KEY, "1s")]), 120, 20),
        ("the key", settings(None, &[], &[(KEY, "5m")]), 120, 300),
        ("the flag", settings(Some(600), &[(VARIABLE, "1s"), (TIMEOUT, "10s")], &[]), 10, 600),
        ("none", settings(None, &[(VARIABLE, "0")], &[]), 120, 0),
    ] {
        let mut fleet = Fleet::start(config.applications).await;
        let [interval, jitter] = [interval, jitter].map(Duration::from_secs);
        let began = Instant::now();
        let first = fleet.delays(1, began).await;
        assert!(first[COUNT - 1] <= SLACK, "{place}: {first:?}");
        fleet.commits.0.store(2, Ordering::SeqCst);
        let delays = fleet.delays(2, began).await;
        let (least, most) = (delays[0], delays[COUNT - 1]);
        assert!(least + SLACK >= interval, "SE-378: {place}: {delays:?}");
        assert!(most <= interval + jitter + SLACK, "SE-563: {place}: {delays:?}");
        // No part of the time is without them.
        let ends = [interval, interval + jitter];
        let mut times: Vec<Duration> = delays.iter().copied().chain(ends).collect();
        times.sort();
        let gap = times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
        assert!(gap <= jitter / 4 + SLACK, "SE-563: {place}: {delays:?}");
        fleet.world.crash().await;
    }
}
