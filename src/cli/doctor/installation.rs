//! The installed controller: its Deployment, its Lease, and who else does the same work.

use std::collections::BTreeMap;

use clap::{Args as _, FromArgMatches as _};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Container;
use kube::Api;
use kube::api::ListParams;

use super::finding::Finding;
use crate::cli::cluster::ClusterConnection;
use crate::cli::run::{RunArgs, other_controllers};
use wavegate_cluster::act::control_plane::lease::DURATION;
use wavegate_controller::config::{Config, Flags, SyncEngine};
use wavegate_controller::leader::LEASE;
use wavegate_engine::names::some_of;

/// The label of our objects.
const LABEL: &str = "app.kubernetes.io/name=wavegate";

/// A Lease that was not renewed for so many times its duration has no holder. Clocks differ.
const LEASES: i64 = 4;

/// Most names in a message.
const NAMES: usize = 5;

/// What is installed in the namespace of the control plane.
#[derive(Debug, Default)]
pub(super) struct Installation {
    /// The Deployment of the controller, if there is one.
    pub controller: Option<InstalledController>,
}

/// The Deployment of a controller.
#[derive(Debug)]
pub(super) struct InstalledController {
    /// The name of the ServiceAccount of its Pods.
    pub service_account: String,
    /// Its flags.
    pub flags: Flags,
    /// The variables of its environment that have a value.
    pub environment: BTreeMap<String, String>,
}

impl Installation {
    /// Finds the controller, and says what is wrong with it.
    pub async fn find(cluster: &ClusterConnection, namespace: &str) -> (Self, Vec<Finding>) {
        let api: Api<Deployment> = Api::namespaced(cluster.client().clone(), namespace);
        let params = ListParams::default().labels(LABEL);
        let place = format!("Deployments of namespace {namespace} with label {LABEL}");
        let all = match cluster.within(place, api.list(&params)).await {
            Ok(found) => found.items,
            Err(error) => return (Self::default(), vec![Finding::unread(&error)]),
        };
        let controllers: Vec<(Deployment, Container)> = all
            .into_iter()
            .filter_map(|deployment| Some((running(&deployment)?.clone(), deployment)))
            .map(|(container, deployment)| (deployment, container))
            .collect();
        let [(deployment, container), others @ ..] = &controllers[..] else {
            let problem = format!(
                "no Deployment with label {LABEL} runs the controller here: its flags and the \
                 rights of its ServiceAccount are not checked"
            );
            let about = format!("namespace {namespace}");
            return (Self::default(), vec![Finding::hint(about, problem)]);
        };
        let mut findings = Vec::new();
        let name = |deployment: &Deployment| deployment.metadata.name.clone().unwrap_or_default();
        let place = format!("Deployment {namespace}/{}", name(deployment));
        if !others.is_empty() {
            let names = some_of(others.iter().map(|(other, _)| name(other)), NAMES);
            let problem = format!(
                "{names} runs a controller in the same namespace: both would write the same \
                 Applications; delete one of them"
            );
            findings.push(Finding::error(place.clone(), problem));
        }
        findings.extend(availability(deployment, &place));
        let flags = flags_of(container).unwrap_or_else(|error| {
            let problem = format!("its arguments cannot be read: {error}");
            findings.push(Finding::error(place.clone(), problem));
            Flags::default()
        });
        let is_elected = flags.enable_leader_election == Some(true);
        let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        if replicas > 1 && !is_elected {
            let problem = format!(
                "it has {replicas} replicas without --enable-leader-election: all of them would \
                 write; add the flag, or scale it down to 1"
            );
            findings.push(Finding::error(place.clone(), problem));
        }
        if is_elected && replicas > 0 {
            findings.extend(leadership(cluster, namespace).await);
        }
        let pod = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
        let service_account = pod.and_then(|pod| pod.service_account_name.clone());
        let environment = container.env.iter().flatten();
        let controller = InstalledController {
            service_account: service_account.unwrap_or_else(|| "default".to_owned()),
            flags,
            environment: environment
                .filter_map(|variable| Some((variable.name.clone(), variable.value.clone()?)))
                .collect(),
        };
        (Self { controller: Some(controller) }, findings)
    }
}

/// The container that runs the controller.
fn running(deployment: &Deployment) -> Option<&Container> {
    let pod = deployment.spec.as_ref()?.template.spec.as_ref()?;
    let runs = |container: &&Container| arguments(container).any(|word| word == "run");
    pod.containers.iter().find(runs)
}

fn arguments(container: &Container) -> impl Iterator<Item = &String> {
    container.command.iter().flatten().chain(container.args.iter().flatten())
}

/// The flags of `wavegate run` in its arguments.
fn flags_of(container: &Container) -> Result<Flags, String> {
    let words = arguments(container).skip_while(|word| *word != "run");
    let command = RunArgs::augment_args(clap::Command::new("run"));
    let read =
        command.try_get_matches_from(words).and_then(|found| RunArgs::from_arg_matches(&found));
    // The first line says what is wrong; the rest is usage.
    let first = |error: clap::Error| {
        let text = error.render().to_string();
        text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
    };
    read.map(RunArgs::into_flags).map_err(first)
}

fn availability(deployment: &Deployment, place: &str) -> Option<Finding> {
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let ready = deployment.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0);
    if wanted == 0 {
        let problem = "it is scaled down to 0: nothing is rolled out and nothing is synced";
        return Some(Finding::warning(place, problem));
    }
    let namespace = deployment.metadata.namespace.as_deref().unwrap_or_default();
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    (ready == 0).then(|| {
        let problem = format!(
            "none of its {wanted} replicas is ready: kubectl -n {namespace} describe deployment \
             {name}, and kubectl -n {namespace} logs deployment/{name}"
        );
        Finding::error(place, problem)
    })
}

/// Whether a replica holds the Lease.
async fn leadership(cluster: &ClusterConnection, namespace: &str) -> Option<Finding> {
    let api: Api<Lease> = Api::namespaced(cluster.client().clone(), namespace);
    let place = format!("Lease {namespace}/{LEASE}");
    match cluster.within(place.clone(), api.get_opt(LEASE)).await {
        Err(error) => Some(Finding::unread(&error)),
        Ok(lease) => {
            let problem = problem_of_lease(lease.as_ref(), Timestamp::now())?;
            Some(Finding::error(place, problem))
        }
    }
}

fn problem_of_lease(lease: Option<&Lease>, now: Timestamp) -> Option<String> {
    let advice = "no replica leads, so nothing is rolled out; see the logs of its Pods";
    let spec = lease.and_then(|lease| lease.spec.as_ref());
    let holder = spec.and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default();
    if holder.is_empty() {
        return Some(format!("nothing holds it: {advice}"));
    }
    let renewed = spec?.renew_time.as_ref()?.0;
    let silent = now.duration_since(renewed).as_secs();
    let limit = i64::try_from(DURATION.as_secs()).unwrap_or(i64::MAX).saturating_mul(LEASES);
    (silent > limit)
        .then(|| format!("its holder {holder} has not renewed it for {silent} s: {advice}"))
}

/// Controllers that do the same work beside this one.
pub(super) async fn others(
    cluster: &ClusterConnection,
    namespace: &str,
    config: Option<&Config>,
) -> Vec<Finding> {
    let syncs = config.is_none_or(|config| config.sync_engine == SyncEngine::Embedded);
    let is_meant = config.is_some_and(|config| config.allow_other_controllers);
    let found = other_controllers::conflicts(cluster.client(), namespace, syncs).await;
    let about = format!("namespace {namespace}");
    let conflict = |problem: String| match is_meant {
        true => Finding::hint(about.clone(), problem),
        false => Finding::error(about.clone(), problem),
    };
    let unread = found.unread.into_iter().map(|(what, error)| {
        Finding::warning("not checked", format!("{what} cannot be read: {error}"))
    });
    found.problems.into_iter().map(conflict).chain(unread).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::finding::Severity;
    use super::*;

    fn container(command: &[&str], arguments: &[&str]) -> Container {
        let words = json!({"name": "one", "command": command, "args": arguments});
        serde_json::from_value(words).unwrap()
    }

    #[test]
    fn flags_are_read_as_the_controller_reads_them() {
        let flags = flags_of(&container(
            &[],
            &["run", "--enable-leader-election", "--sync-engine=external"],
        ));
        let flags = flags.unwrap();
        assert_eq!(flags.enable_leader_election, Some(true));
        assert_eq!(flags.sync_engine, Some(SyncEngine::External));
        let whole = container(&["/usr/local/bin/wavegate", "run"], &["--namespace", "x"]);
        assert_eq!(flags_of(&whole).unwrap().namespace.as_deref(), Some("x"));
        let error = flags_of(&container(&[], &["run", "--enable-leader-elction"])).unwrap_err();
        assert!(error.contains("--enable-leader-elction"), "{error}");
        assert_eq!(error.lines().count(), 1);
    }

    fn deployment(replicas: i32, ready: Option<i32>) -> Deployment {
        let object = json!({
            "metadata": {"namespace": "argocd", "name": "wavegate"},
            "spec": {"replicas": replicas, "selector": {}, "template": {}},
            "status": {"readyReplicas": ready},
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn a_controller_without_a_ready_replica_does_nothing() {
        let cases = [
            (1, Some(1), None),
            (3, Some(1), None),
            (1, None, Some(Severity::Error)),
            (1, Some(0), Some(Severity::Error)),
            (0, None, Some(Severity::Warning)),
        ];
        for (replicas, ready, want) in cases {
            let found = availability(&deployment(replicas, ready), "place");
            assert_eq!(found.map(|found| found.severity), want, "{replicas} {ready:?}");
        }
    }

    #[test]
    fn a_lease_without_a_holder_that_renews_it_is_an_error() {
        let now: Timestamp = "2024-01-01T00:10:00Z".parse().unwrap();
        let lease = |holder: &str, renewed: &str| -> Lease {
            serde_json::from_value(
                json!({"spec": {"holderIdentity": holder, "renewTime": renewed}}),
            )
            .unwrap()
        };
        let problem = |lease: Option<Lease>| problem_of_lease(lease.as_ref(), now);
        assert_eq!(problem(Some(lease("a", "2024-01-01T00:09:55.000000Z"))), None);
        assert_eq!(problem(Some(lease("a", "2024-01-01T00:09:00.000000Z"))), None, "at the limit");
        let silent = problem(Some(lease("a", "2024-01-01T00:08:59.000000Z"))).unwrap();
        assert!(silent.contains("a has not renewed it for 61 s"), "{silent}");
        for none in [None, Some(lease("", "2024-01-01T00:09:55.000000Z")), Some(Lease::default())] {
            assert!(problem(none).unwrap().contains("no replica leads"));
        }
        // The clock of the holder is ahead.
        assert_eq!(problem(Some(lease("a", "2024-01-01T00:11:00.000000Z"))), None);
    }
}
