//! A sync by a person to other revisions than those of the rollout (ST-065), through the command
//! line, with the sync engine and with a stand-in of Argo CD's application controller.

use serde_json::{Value, json};

use crate::support::invariants::{Steps, is_done};
use crate::support::manifests::{plain, rolling, set};
use crate::support::recorder::version;
use crate::support::stand_in::StandIn;
use crate::support::{Kind, Log, Setup, World};

/// A set in two steps, and what syncs its Applications.
struct Fleet {
    world: World,
    setup: Setup,
    /// `None` for the sync engine of the program.
    argo: Option<StandIn>,
    members: Vec<(&'static str, &'static str)>,
}

/// Members that a case adds in the middle: their manifests are there from the start, so that
/// they are no new revision for the others.
const ADDED: [(&str, &str); 2] = [("new", "dev"), ("later", "prod")];

/// Exit code, standard output and standard error.
type Finished = (i32, String, String);

impl Fleet {
    /// Rolls out two revisions and returns them. The first step is `dev`, one at a time.
    async fn start(
        world: World,
        setup: Setup,
        members: &[(&'static str, &'static str)],
    ) -> (Self, [String; 2]) {
        let mut fleet = Self { world, setup, argo: None, members: members.to_vec() };
        let first = fleet.commit("1").await;
        fleet.world.create(Kind::ApplicationSet, fleet.set()).await;
        if fleet.is_external() {
            fleet.argo = Some(StandIn::start(&fleet.world, &first, &[]));
        }
        let setup = fleet.setup.clone();
        fleet.world.start(&setup).await;
        fleet.is_rolled_out(&first).await;
        let second = fleet.commit("2").await;
        fleet.is_rolled_out(&second).await;
        (fleet, [first, second])
    }

    fn is_external(&self) -> bool {
        self.setup.sync_engine == Setup::external().sync_engine
    }

    /// With automated syncs, which a rollout replaces: they must not undo what a person does.
    fn set(&self) -> Value {
        let strategy = rolling(&[("dev", json!(1)), ("prod", json!(null))]);
        let mut set = set(&self.world, "fleet", &self.members, &strategy);
        set["spec"]["template"]["spec"]["syncPolicy"] =
            json!({"automated": {"prune": true, "selfHeal": true}});
        set
    }

    fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.members.iter().map(|(name, _)| *name)
    }

    /// Adds a commit that changes every Application.
    async fn commit(&self, number: &str) -> String {
        let all = self.names().chain(ADDED.map(|(name, _)| name));
        let files: Vec<_> = all.flat_map(|name| plain(name, number)).collect();
        if self.is_external() {
            let revision = number.repeat(40);
            self.argo.iter().for_each(|argo| argo.commit(&revision));
            return revision;
        }
        let revision = self.world.repository.commit(number, &files);
        let exists = |name: &&str| {
            self.world.recorder.read(|log| log.get(Kind::Application, name).is_some())
        };
        for name in self.names().filter(exists).collect::<Vec<_>>() {
            self.world.refresh(name).await;
        }
        revision
    }

    async fn is_rolled_out(&self, revision: &str) {
        let steps = Steps::default().step(self.names(), None);
        self.world.until_rolled_out("fleet", &steps, revision).await;
    }

    /// Runs the program in the namespace of the set.
    async fn run(&self, arguments: &[&str]) -> Finished {
        let namespace = self.world.namespace.as_str();
        let arguments: Vec<&str> = arguments.iter().copied().chain(["-n", namespace]).collect();
        self.world.wavegate(&arguments).await
    }

    /// Runs a printed command as a shell does that it is pasted into.
    async fn paste(&self, command: &str) -> Finished {
        let program = std::path::Path::new(env!("CARGO_BIN_EXE_wavegate"));
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", command]).stdin(std::process::Stdio::null());
        shell.env("KUBECONFIG", self.world.kubeconfig().await).env_remove("RUST_LOG");
        shell.env("PATH", format!("{}:{path}", program.parent().unwrap().display()));
        let output = tokio::task::spawn_blocking(move || shell.output().unwrap()).await.unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
    }

    /// Waits until an Application is held; its entry, and the version of its Application.
    async fn until_held(&self, name: &str) -> (Value, u64) {
        let tagged = self.world.tagged(name);
        self.world
            .until(&format!("{name} is held"), |log| {
                let entry = entry_of(log, &tagged)?;
                let live = log.get(Kind::Application, name)?;
                let is_ended = live["operation"].is_null()
                    && live["status"]["operationState"]["phase"] == "Succeeded"
                    && live["status"]["sync"]["status"] == "OutOfSync";
                let message = entry["message"].as_str()?;
                let is_held = message.starts_with("HeldByPerson: ") && message.contains(" synced ");
                (is_held && is_ended).then(|| (entry, version(live)))
            })
            .await
    }

    /// Nothing has asked for a sync since this version.
    fn was_left_alone(&self, name: &str, since: u64) {
        let tagged = self.world.tagged(name);
        self.world.recorder.read(|log| {
            let entry = entry_of(log, &tagged).unwrap();
            let message = entry["message"].as_str().unwrap_or_default();
            assert!(message.starts_with("HeldByPerson: "), "{entry}\n{}", log.state());
            assert_eq!(entry["status"], "Waiting");
            let later = log
                .of(Kind::Application)
                .filter(|record| record.name() == name && version(&record.object) > since);
            for record in later {
                assert_eq!(record.object["operation"], Value::Null, "ST-065: {}", log.state());
            }
        });
    }

    async fn restart(&mut self) {
        self.world.stop().await;
        let setup = self.setup.clone();
        self.world.start(&setup).await;
        self.world.wait_for_reconcile("fleet").await;
    }
}

fn entry_of(log: &Log, tagged: &str) -> Option<Value> {
    let set = log.get(Kind::ApplicationSet, "fleet")?;
    let entries = set["status"]["applicationStatus"].as_array()?;
    entries.iter().find(|entry| entry["application"] == tagged).cloned()
}

fn json_of((code, out, err): Finished) -> Value {
    assert_eq!(code, 0, "{out}{err}");
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

/// What stands where an Application is listed under this key.
fn listed<'a>(of: &'a Value, key: &str, tagged: &str) -> &'a Value {
    let list = of[key].as_array().unwrap_or_else(|| panic!("no {key}: {of}"));
    let found = list.iter().find(|one| one["application"] == tagged);
    found.unwrap_or_else(|| panic!("no {tagged}: {of}"))
}

/// A person goes back with two of three Applications after a rollout: they stay there, the
/// commands say who did what, what the rollout wants and what ends it, and what they print works.
async fn a_rollback(world: World, setup: Setup) {
    let members = [("a", "dev"), ("b", "dev"), ("c", "dev"), ("z", "prod")];
    let (mut fleet, [first, second]) = Fleet::start(world, setup, &members).await;
    let namespace = fleet.world.namespace.clone();
    let [a, b, c, _] = members.map(|(name, _)| fleet.world.tagged(name));
    let back = fleet.run(&["sync", &a, &b, "--revision", &first]).await;
    assert_eq!(back.0, 0, "{}{}", back.1, back.2);
    let mut since = Vec::new();
    for name in ["a", "b"] {
        since.push((name, fleet.until_held(name).await.1));
    }
    let by = fleet.world.recorder.read(|log| {
        let live = log.get(Kind::Application, "a").unwrap();
        let who = &live["status"]["operationState"]["operation"]["initiatedBy"]["username"];
        who.as_str().unwrap().to_owned()
    });
    let reason = format!("HeldByPerson: {by} synced it to {first}; the rollout wants {second}");
    let command = |name: &str| format!("wavegate sync -n {namespace} {name} --revision {second}");
    let ends = |name: &str| {
        format!("the next revision or spec takes it back; to take it back now: {}", command(name))
    };

    let explained = json_of(fleet.run(&["explain", "fleet", "-o", "json"]).await);
    for name in [&a, &b] {
        let wait = listed(&explained, "waits", name);
        assert_eq!((&wait["reason"], &wait["advice"]), (&json!(reason), &json!(ends(name))));
        assert_eq!((&wait["phase"], &wait["step"]), (&json!("Waiting"), &json!(1)));
    }
    assert_eq!(explained["waits"].as_array().unwrap().len(), 2, "{explained}");
    let shown = json_of(fleet.run(&["status", "fleet", "-o", "json"]).await);
    let message = format!("{reason}; {}", ends(&a));
    assert_eq!(listed(&shown, "applications", &a)["message"], json!(message));
    assert_eq!(listed(&shown, "applications", &c)["phase"], "Healthy");
    assert_eq!((&shown["step"], &shown["complete"]), (&json!(1), &json!(2)), "{shown}");
    assert_eq!(shown["health"], "Degraded", "it does not continue by itself: {shown}");
    for (arguments, words) in [
        (vec!["explain", "fleet"], vec![&reason, &ends(&a), &ends(&b)]),
        (vec!["explain", "fleet", "-o", "yaml"], vec![&reason, &ends(&a), &ends(&b)]),
        (vec!["status", "fleet", "-o", "yaml"], vec![&message]),
        (vec!["status", "fleet"], vec![&reason]),
    ] {
        let (code, out, err) = fleet.run(&arguments).await;
        assert_eq!(code, 0, "{out}{err}");
        for words in words {
            assert!(out.contains(words.as_str()), "{arguments:?}: no {words:?} in {out}");
        }
    }
    // Only a person continues it: a watch ends, and says how.
    for command in ["explain", "status"] {
        let (code, out, err) = fleet.run(&[command, "fleet", "--watch", "--timeout", "4m"]).await;
        assert_eq!(code, 1, "{out}{err}");
        assert!(out.contains(&reason), "{command}: {out}");
        if command == "explain" {
            assert!(out.contains(&ends(&a)), "{out}");
        }
    }

    fleet.restart().await;
    fleet.world.until_calm("after the restart").await;
    for (name, since) in &since {
        fleet.was_left_alone(name, *since);
    }

    let advice = listed(&explained, "waits", &a)["advice"].as_str().unwrap();
    let printed = advice.split_once("now: ").unwrap().1;
    assert_eq!(printed, command(&a));
    let (code, out, err) = fleet.paste(printed).await;
    assert_eq!(code, 0, "{out}{err}");
    fleet
        .world
        .until("the one that was synced to the target is done, the other one is held", |log| {
            let is_back = is_done(log.get(Kind::Application, "a")?, &second);
            (is_back && entry_of(log, &a)?["status"] == "Healthy").then_some(())
        })
        .await;
    fleet.was_left_alone("b", since[1].1);
    let third = fleet.commit("3").await;
    fleet.is_rolled_out(&third).await;
    fleet.world.finish().await;
}

/// While one is held, others of its step are started, whatever `maxUpdate` is, the next step
/// is not, and no timeout ends that.
async fn a_hold_in_a_rollout(world: World, setup: Setup) {
    let (mut fleet, [first, second]) =
        Fleet::start(world, setup, &[("a", "dev"), ("z", "prod")]).await;
    // Not before: a sync of the first rollouts that starts late on a loaded machine would count
    // as ended.
    fleet.setup.progressing_timeout = 2;
    fleet.restart().await;
    let a = fleet.world.tagged("a");
    // As `kubectl` does, which names nobody.
    let operation = json!({"operation": {"sync": {"revision": first}}});
    fleet.world.patch(Kind::Application, "a", &operation).await;
    let (entry, since) = fleet.until_held("a").await;
    let reason = format!("HeldByPerson: a person synced it to {first}; the rollout wants {second}");
    assert_eq!(entry["message"], json!(reason));

    // Beside it, and behind it.
    fleet.members.extend(ADDED);
    let generators = json!({"spec": {"generators": fleet.set()["spec"]["generators"]}});
    fleet.world.patch(Kind::ApplicationSet, "fleet", &generators).await;
    fleet
        .world
        .until("the other one of the step is done", |log| {
            let entry = entry_of(log, &fleet.world.tagged("new"))?;
            log.get(Kind::Application, "later")?;
            (entry["status"] == "Healthy").then_some(())
        })
        .await;
    let stalled = fleet
        .world
        .until("an Event says that it takes long", |log| {
            let mut events = log.all(Kind::Event).filter(|(_, event)| {
                event["reason"] == "RolloutStalled"
                    && event["note"].as_str().is_some_and(|note| note.contains(&reason))
            });
            events.next().map(|(_, event)| event["note"].as_str().unwrap_or_default().to_owned())
        })
        .await;
    assert!(stalled.contains(&a), "{stalled}");
    fleet.restart().await;
    fleet.world.until_calm("while it is held").await;
    fleet.was_left_alone("a", since);
    fleet.world.recorder.read(|log| {
        let begun = log.of(Kind::Application).filter(|record| {
            record.name() == "later" && crate::support::invariants::is_in_flight(&record.object)
        });
        assert_eq!(begun.count(), 0, "its step is closed: {}", log.state());
    });

    let config = std::fs::read_to_string(fleet.world.kubeconfig().await).unwrap();
    let context = config.lines().find_map(|line| line.trim().strip_prefix("current-context: "));
    let context = context.unwrap().trim_matches('"').to_owned();
    let given = ["explain", "fleet", "--context", &context, "-o", "json"];
    let explained = json_of(fleet.run(&given).await);
    let wait = listed(&explained, "waits", &a);
    assert_eq!(wait["reason"], json!(reason));
    let (_, printed) = wait["advice"].as_str().unwrap().split_once("now: ").unwrap();
    let namespace = &fleet.world.namespace;
    let (printed, or) = printed.split_once("; to go on without it in this run: ").unwrap();
    assert_eq!(or, format!("wavegate skip --context {context} -n {namespace} {a}"));
    let want = format!("wavegate sync --context {context} -n {namespace} {a} --revision {second}");
    assert_eq!(printed, want);
    let (code, out, err) = fleet.paste(printed).await;
    assert_eq!(code, 0, "{out}{err}");
    fleet.is_rolled_out(&second).await;
    fleet.world.finish().await;
}

pub async fn a_rollback_by_a_person_stays_as_st_065(world: World) {
    a_rollback(world, Setup::default()).await;
}

pub async fn a_rollback_by_a_person_stays_with_an_external_engine_as_st_065(world: World) {
    a_rollback(world, Setup::external()).await;
}

pub async fn a_step_is_held_by_a_person_as_st_065(world: World) {
    a_hold_in_a_rollout(world, Setup::default()).await;
}

pub async fn a_step_is_held_by_a_person_with_an_external_engine_as_st_065(world: World) {
    a_hold_in_a_rollout(world, Setup::external()).await;
}
