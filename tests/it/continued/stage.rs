//! The world of a scenario: while it is recorded, and while it is continued.

use std::path::{Path, PathBuf};

use kube_sim::{Server, ServerClock, ServerSettings};
use serde_json::{Value, json};
use wavegate_net::clock::Clock as ControllerClock;

use super::moment::Moment;
use super::recorded::{Commit, Recorded};
use super::served::{Served, URL};
use crate::support::cluster::{JSON, send};
use crate::support::invariants::{self, Steps};
use crate::support::manifests::{plain, rolling, set};
use crate::support::repository::Repository;
use crate::support::{Definitions, Kind, Setup, World};

/// The name of the ApplicationSet.
pub const SET: &str = "fleet";
/// Its Applications and their environments, a step each; of `qa`, one at a time.
pub const MEMBERS: [(&str, &str); 4] =
    [("dev-00", "dev"), ("qa-00", "qa"), ("qa-01", "qa"), ("prod-00", "prod")];

/// When a record is continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At its moment, by controllers in this process.
    AMomentLater,
    /// Today, by the program.
    LongAfter,
}

/// The manifests of an Application: of its name and of a version.
pub type Files = fn(&str, &str) -> Vec<(String, String)>;

/// The world of a scenario.
pub struct Stage {
    pub world: World,
    /// The moment that is to be recorded; of no use while a record is continued.
    pub moment: Moment,
    /// The commits so far.
    pub commits: Vec<Commit>,
    pub when: Option<When>,
    setup: Setup,
    served: Served,
}

/// The steps of the set.
pub fn steps() -> Steps {
    let of = |env: &'static str| {
        let members = MEMBERS.into_iter().filter(move |(_, of)| *of == env);
        members.map(|(name, _)| name)
    };
    Steps::default().step(of("dev"), None).step(of("qa"), Some(1)).step(of("prod"), None)
}

/// The strategy of the set.
pub fn strategy() -> Value {
    rolling(&[("dev", json!(null)), ("qa", json!(1)), ("prod", json!(null))])
}

/// What has a directory with a repository, and its server.
async fn repository() -> (tempfile::TempDir, Repository, Served) {
    let dir = tempfile::tempdir().unwrap();
    let repository = Repository::reproducible(dir.path().join("fleet"), URL);
    // A server has it under the name of its URL, and without a work tree.
    std::os::unix::fs::symlink("fleet/.git", dir.path().join("fleet.git")).unwrap();
    let served = Served::start(dir.path()).await;
    (dir, repository, served)
}

impl Stage {
    /// For a record by the program of a release.
    pub async fn to_record(definitions: Definitions, program: &Path) -> Self {
        let (dir, repository, served) = repository().await;
        let server = Server::new();
        let moment = Moment::of(&server);
        let mut world = World::repeatable(server, definitions, repository, dir, None).await;
        program.clone_into(&mut world.program);
        let stage = Self {
            world,
            moment,
            commits: Vec::new(),
            when: None,
            setup: Setup { leader_election: true, ..Setup::default() },
            served,
        };
        let namespace = &stage.world.namespace;
        let secret = stage.served.secret(namespace);
        stage.create(&format!("/api/v1/namespaces/{namespace}/secrets"), &secret).await;
        let settings = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "argocd-cm", "labels": { "app.kubernetes.io/part-of": "argocd" } },
            "data": { "application.resourceTrackingMethod": "annotation" },
        });
        stage.create(&format!("/api/v1/namespaces/{namespace}/configmaps"), &settings).await;
        stage
    }

    /// With what is recorded, before a controller runs.
    pub async fn continued(recorded: &Recorded, when: When) -> Self {
        Self::with(recorded, when, recorded.definitions, recorded.objects.clone()).await
    }

    /// The same with other definitions and objects.
    pub async fn with(
        recorded: &Recorded,
        when: When,
        definitions: Definitions,
        mut objects: Vec<Value>,
    ) -> Self {
        let (dir, repository, served) = repository().await;
        for commit in &recorded.commits {
            let made = repository.commit(&commit.message, &commit.files);
            assert_eq!(made, commit.revision, "{recorded}: {} is another commit", commit.message);
        }
        served.take_over(&mut objects);
        let mut setup = Setup::default();
        // With other UIDs than those in the record.
        let settings = ServerSettings { seed: 0x434f_4e54, ..ServerSettings::default() };
        let settings = match when {
            When::AMomentLater => {
                let clock = ServerClock::starting_at(recorded.at);
                let time = clock.clone();
                setup.clock = ControllerClock::of(move || time.now());
                ServerSettings { clock, ..settings }
            }
            When::LongAfter => {
                // The server has deleted them after an hour.
                objects.retain(|object| object["kind"] != "Event");
                // Its holder was killed: it takes a while until the Lease is free, in one of them.
                setup.leader_election = recorded.scenario == "second_step";
                settings
            }
        };
        let server = Server::with(settings);
        let moment = Moment::of(&server);
        let world = World::repeatable(server, definitions, repository, dir, Some(&objects)).await;
        Self { world, moment, commits: recorded.commits.clone(), when: Some(when), setup, served }
    }

    /// Creates an object at a path.
    pub async fn create(&self, path: &str, object: &Value) -> Value {
        send(&self.world.client, http::Method::POST, path, JSON, object).await.unwrap()
    }

    /// Starts the controllers, in the way of the stage.
    pub async fn start(&mut self) {
        let setup = self.setup.clone();
        match self.when {
            Some(When::AMomentLater) => self.world.start(&setup).await,
            Some(When::LongAfter) | None => self.world.start_process(&setup).await,
        }
    }

    /// Commits the manifests of all Applications; the revision.
    pub fn commit(&mut self, version: &str, files: Files) -> String {
        let files: Vec<_> = MEMBERS.iter().flat_map(|(name, _)| files(name, version)).collect();
        let revision = self.world.repository.commit(version, &files);
        let (message, made) = (version.to_owned(), revision.clone());
        self.commits.push(Commit { message, revision: made, files });
        revision
    }

    /// Rolls out `v1`, of one ConfigMap for each Application unless `files` says otherwise.
    pub async fn roll_out_first(
        &mut self,
        files: Files,
        change: impl FnOnce(&mut Value),
    ) -> String {
        let first = self.commit("v1", files);
        let mut set = set(&self.world, SET, &MEMBERS, &strategy());
        change(&mut set);
        self.world.create(Kind::ApplicationSet, set).await;
        self.start().await;
        self.until_everywhere(&first).await;
        first
    }

    /// Lets the Applications know of the last commit.
    pub async fn refresh(&self) {
        for (name, _) in MEMBERS {
            self.world.refresh(name).await;
        }
    }

    /// Waits until a rollout is complete, and its run, too, if there is one.
    pub async fn until_everywhere(&self, revision: &str) {
        self.world.until_rolled_out(SET, &steps(), revision).await;
    }

    /// The versions of all Applications in flight or done with a revision since the start.
    pub fn has_begun(&self, name: &str, revision: &str) -> bool {
        self.world.recorder.read(|log| {
            log.of(Kind::Application).any(|record| {
                let (app, state) = (&record.object, &record.object["status"]["operationState"]);
                record.name() == name
                    && [
                        &app["operation"]["sync"],
                        &state["operation"]["sync"],
                        &state["syncResult"],
                    ]
                    .iter()
                    .any(|sync| invariants::revision(sync) == Some(revision))
            })
        })
    }

    /// Ends the controllers; they must not have ended by themselves.
    pub async fn finish(self) {
        self.world.finish().await;
    }
}

/// A ConfigMap for each Application.
pub fn plain_files(name: &str, version: &str) -> Vec<(String, String)> {
    plain(name, version)
}

/// The program of the release that is recorded.
pub fn recording_program() -> Option<PathBuf> {
    std::env::var_os("WAVEGATE_RECORD_PROGRAM").map(PathBuf::from)
}
