//! What happens from outside: commits, people, users, faults.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PartialObjectMeta, Patch, PatchParams};
use kube_sim::workloads::OUTCOME_ANNOTATION;
use kube_sim::{Disturbance, Effect};
use serde_json::{Value, json};

use super::action::{FleetAction, FleetChange};
use super::environment::{Environment, USER};
use super::fault::{ControllerPart, FleetFault};
use super::lifeline::Crash;
use super::replica::{self, SETTINGS};
use wavegate_api::policy::POLICY;
use wavegate_api::run::RUN;
use wavegate_api::{Application, ApplicationSet, ObjectKey, Raw as _};
use wavegate_cluster::act::commands::{manifests, refresh, requests as words};
use wavegate_cluster::watch::failure::error_reason;
use wavegate_cluster::watch::object::{kind_api, kind_resource};
use wavegate_controller::leader::LEASE;
use wavegate_rollout::requests::{self, Actor, RollbackScope, Run, Verdict};

impl Environment<'_> {
    /// A commit that changes these Applications or all, which a webhook reports.
    pub async fn push(&self, changed: Option<BTreeSet<String>>) {
        self.sources.push(changed);
        self.refresh().await;
    }

    /// A webhook reports what the branches are.
    async fn refresh(&self) {
        let names: Vec<(String, String)> = {
            let seen = self.seen.lock();
            let of = |(name, history): (&String, &super::ApplicationHistory)| {
                let (namespace, _) = history.set.split_once('/')?;
                Some((namespace.to_owned(), name.clone()))
            };
            seen.applications.iter().filter_map(of).collect()
        };
        for (namespace, name) in names {
            // A later comparison finds it, too.
            let key = ObjectKey { namespace, name };
            let _ = refresh::refresh_application(&self.client, &key, false, self.clock.now()).await;
        }
    }

    pub async fn act(&mut self, action: &FleetAction) -> Result<(), String> {
        match action {
            FleetAction::Push(changed) => self.push(changed.clone()).await,
            FleetAction::Reset(commit) => {
                self.sources.reset(*commit);
                self.refresh().await;
            }
            FleetAction::Behave(names, change) => self.behave(names, change).await?,
            FleetAction::Restart => {
                for number in 0..self.replicas.len() {
                    self.restart(number);
                }
            }
            FleetAction::ApiDown(time) => {
                self.suffer(&FleetFault::Requests {
                    of: ControllerPart::All,
                    effect: Effect::Status(503),
                    percent: 100,
                    lasting: *time,
                })
                .await;
                // Those that are open end with the server.
                let disturbance = Disturbance::Cut;
                self.suffer(&FleetFault::Watches {
                    of: ControllerPart::All,
                    disturbance,
                    lasting: *time,
                })
                .await;
            }
            FleetAction::Fault(fault) => self.suffer(fault).await,
            FleetAction::Apply(object) => {
                self.apply(object).await.map_err(|error| format!("{error:#}"))?;
            }
            FleetAction::DeleteSettings => {
                let maps = Api::<ConfigMap>::namespaced(self.client.clone(), self.namespace);
                let deleted = maps.delete(SETTINGS, &DeleteParams::default()).await;
                deleted.map_err(|error| error_reason(&error))?;
            }
            FleetAction::CreateSettings => {
                let settings = replica::settings(self.namespace);
                self.apply(&settings).await.map_err(|error| format!("{error:#}"))?;
            }
            FleetAction::Degrade(names) => self.degrade(names).await?,
            FleetAction::Disown => self.disown().await?,
            FleetAction::Pause => {
                self.say_of_sets(|set| {
                    requests::pause_set(set, Some("as the simulation says"), USER)
                })
                .await?;
            }
            FleetAction::Resume => {
                let policies = self.all(POLICY).await?;
                self.say_of_sets(|set| requests::resume_set(set, &policies, USER)).await?;
            }
            FleetAction::Approve(gate) => {
                let gate = Some(gate.as_str()).filter(|gate| !gate.is_empty());
                self.say_of_runs(|run, person| requests::approve_gates(run, gate, person)).await?;
            }
            FleetAction::Rollback => {
                let applications = self.all(Application::KIND).await?;
                self.say_of_runs(|run, person| {
                    let reach =
                        RollbackScope::of(&run.name, applications.iter().map(AsRef::as_ref));
                    requests::rollback_run(run, Some(&reach), person)
                })
                .await?;
            }
            FleetAction::Abort => {
                self.say_of_runs(|run, person| requests::abort_run(run, false, person)).await?;
            }
            FleetAction::Retry(names) => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                self.say_of_runs(|run, person| requests::retry_applications(run, &names, person))
                    .await?;
            }
            FleetAction::Skip(names) => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                self.say_of_runs(|run, person| requests::skip_applications(run, &names, person))
                    .await?;
            }
        }
        Ok(())
    }

    /// The deployments of Applications that begin from now on behave in another way: what they
    /// wait to deploy is rendered again.
    async fn behave(&self, names: &BTreeSet<String>, change: &FleetChange) -> Result<(), String> {
        for name in names {
            self.sources.change(name, change);
            let waiting = self.seen.lock().waiting(name);
            self.render_again(waiting).await?;
        }
        Ok(())
    }

    /// What an Application waits to deploy is rendered again.
    async fn render_again(&self, waiting: Option<ObjectKey>) -> Result<(), String> {
        let Some(key) = waiting else { return Ok(()) };
        let now = self.clock.now();
        let written = refresh::refresh_application(&self.client, &key, true, now).await;
        written.map(drop).map_err(|error| error_reason(&error))
    }

    /// Something goes wrong.
    async fn suffer(&mut self, fault: &FleetFault) {
        self.faults += 1;
        fault.happen(&self.server, self.seed ^ (self.faults << 32));
        match fault {
            FleetFault::ClockBack(time) => {
                let time = SignedDuration::try_from(*time).unwrap_or_default();
                *self.behind.lock() += time;
            }
            FleetFault::ServerClockBack(time) => {
                let time = SignedDuration::try_from(*time).unwrap_or_default();
                self.server.shift_clock(-time);
            }
            FleetFault::LeaderFrozen(time) => {
                let lifeline = self.replicas[self.leader().await].lifeline.clone();
                lifeline.freeze();
                let time = *time;
                tokio::spawn(async move {
                    tokio::time::sleep(time).await;
                    lifeline.thaw();
                });
            }
            FleetFault::Crash { at, applied } => {
                for replica in &self.replicas {
                    replica.lifeline.crash(Crash { at: *at, applied: *applied });
                }
            }
            FleetFault::Requests { .. }
            | FleetFault::Watches { .. }
            | FleetFault::Vanishes { .. }
            | FleetFault::DestinationDown(_) => {}
        }
    }

    /// The number of the replica that leads.
    async fn leader(&self) -> usize {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), self.namespace);
        let lease = leases.get_opt(LEASE).await.ok().flatten();
        let holder = lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default();
        let is_leader = |number: &usize| replica::identity(*number) == holder;
        (0..self.replicas.len()).find(is_leader).unwrap_or_default()
    }

    /// The workloads of Applications fail, although nothing was deployed.
    async fn degrade(&self, names: &BTreeSet<String>) -> Result<(), String> {
        let deployments: Api<Deployment> = Api::all(self.client.clone());
        let all = deployments.list_metadata(&ListParams::default()).await;
        let all = all.map_err(|error| error_reason(&error))?;
        let place = |one: PartialObjectMeta<_>| Some((one.metadata.name?, one.metadata.namespace?));
        let places: BTreeMap<String, String> = all.items.into_iter().filter_map(place).collect();
        for name in names {
            let namespace = places.get(name).ok_or(format!("{name} has no workload yet"))?;
            let waiting = self.seen.lock().waiting(name);
            self.sources.degrade(name, waiting.is_some());
            self.render_again(waiting).await?;
            let annotations = json!({OUTCOME_ANNOTATION: "fail"});
            let object = json!({
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
            });
            let applied = manifests::apply_manifest(&self.client, USER, &object).await;
            applied.map_err(|error| error_reason(&error))?;
        }
        Ok(())
    }

    /// Somebody takes the owner references from the current run of each set.
    async fn disown(&self) -> Result<(), String> {
        for run in self.current_runs() {
            let runs = kind_api(&self.client, Some(run.namespace()), &kind_resource(RUN));
            let patch = Patch::Merge(json!({"metadata": {"ownerReferences": null}}));
            let written = runs.patch(run.name(), &PatchParams::default(), &patch).await;
            written.map_err(|error| error_reason(&error))?;
        }
        Ok(())
    }

    /// What a person says about each set; an error when it changes none of them.
    async fn say_of_sets(&self, decide: impl Fn(&Value) -> Verdict) -> Result<(), String> {
        let decide = |set: &Value| match decide(set) {
            Verdict::Already(how) => Verdict::Refused(how),
            other => other,
        };
        let sets = self.all(ApplicationSet::KIND).await?;
        self.say(ApplicationSet::KIND, sets, decide).await
    }

    /// All objects of a kind. Whole: what is seen of some lacks their spec.
    async fn all(&self, kind: &str) -> Result<Vec<Arc<Value>>, String> {
        let all = kind_api(&self.client, None, &kind_resource(kind));
        let all = all.list(&ListParams::default()).await.map_err(|error| error_reason(&error))?;
        Ok(all.items.iter().map(|object| Arc::new(object.parse())).collect())
    }

    /// What a person says about the current run of each set.
    async fn say_of_runs(&self, decide: impl Fn(&Run, Actor<'_>) -> Verdict) -> Result<(), String> {
        let runs = self.current_runs();
        let person = Actor { by: USER, at: self.clock.now() };
        self.say(RUN, runs, |run| decide(&Run::read(run), person)).await
    }

    /// The current run of each set.
    fn current_runs(&self) -> Vec<Arc<Value>> {
        let seen = self.seen.lock();
        let last = seen.runs.values().filter_map(|runs| runs.last_key_value());
        last.map(|(_, (run, _))| run.clone()).collect()
    }

    /// Says something about objects; an error when it makes sense for none of them.
    async fn say(
        &self,
        kind: &str,
        objects: Vec<Arc<Value>>,
        decide: impl Fn(&Value) -> Verdict,
    ) -> Result<(), String> {
        let mut refused = None;
        let mut is_done = false;
        for object in objects {
            match decide(&object) {
                Verdict::Change { change, .. } => {
                    let written =
                        words::write_confirmed(&self.client, kind, &object, &change, &decide).await;
                    written.map_err(|error| error.to_string())?;
                    is_done = true;
                }
                Verdict::Already(_) => is_done = true,
                Verdict::Refused(why) => refused = Some(why),
            }
        }
        // Of several, it is for those that it makes sense for.
        match is_done {
            true => Ok(()),
            false => Err(refused.unwrap_or_else(|| format!("there is no {kind} yet"))),
        }
    }
}
