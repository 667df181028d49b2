//! Other controllers that do the same work in the namespace of the control plane: those of Argo CD,
//! and one that holds the Lease. Two of them would create, sync and delete the same Applications.

use std::collections::BTreeMap;
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ListParams;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use wavegate_cluster::act::control_plane::lease::DURATION;
use wavegate_cluster::watch::failure;
use wavegate_controller::config::{Config, SyncEngine};
use wavegate_controller::leader::LEASE;

/// How long the API server may take to answer a request.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// How often the Lease of another holder is read, to see whether it is renewed.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The label `component` of a controller of Argo CD, with `part-of: argocd`, and its label `name` in
/// the manifests and the chart.
const SYNCS: [&str; 2] = ["application-controller", "argocd-application-controller"];
const GENERATES: [&str; 2] = ["applicationset-controller", "argocd-applicationset-controller"];

/// A Deployment or StatefulSet that should run.
#[derive(Clone, Debug)]
struct Workload {
    kind: &'static str,
    name: String,
    labels: BTreeMap<String, String>,
    replicas: i32,
}

/// Whether the controllers may start: nobody else does here what they would do.
///
/// # Errors
///
/// Who does, and what to do about it.
pub(super) async fn check(client: &Client, config: &Config) -> anyhow::Result<()> {
    let sets = &config.application_sets;
    if config.allow_other_controllers || sets.dry_run {
        return Ok(());
    }
    let namespace = &sets.control_plane_namespace;
    let syncs = config.sync_engine == SyncEngine::Embedded;
    let Conflicts { problems, unread } = conflicts(client, namespace, syncs).await;
    for (what, error) in &unread {
        could_not_look(what, error);
    }
    if let Some(problem) = problems.into_iter().next() {
        anyhow::bail!(problem);
    }
    // Whoever needs the Lease waits for it.
    if !config.leader_election
        && let Some(holder) = holder_of_lease(client, namespace).await
    {
        anyhow::bail!(
            "Lease {namespace}/{LEASE} is held by {holder}: another ApplicationSet controller runs \
             here; stop it, or wait for it with --enable-leader-election, or start beside it with \
             --allow-other-controllers"
        );
    }
    Ok(())
}

/// The controllers of a namespace that do the same work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::cli) struct Conflicts {
    /// Which they are, and what to do about them.
    pub problems: Vec<String>,
    /// What cannot be read, and why.
    pub unread: Vec<(String, String)>,
}

/// The controllers of Argo CD that do the same work as a controller in this namespace, which
/// `syncs` as well or only generates.
pub(in crate::cli) async fn conflicts(client: &Client, namespace: &str, syncs: bool) -> Conflicts {
    let (workloads, unread) = workloads(client, namespace).await;
    let problem = |workload: &Workload| problem_of(workload, namespace, syncs);
    Conflicts { problems: workloads.iter().filter_map(problem).collect(), unread }
}

/// Why a controller must not start beside this one.
fn problem_of(workload: &Workload, namespace: &str, syncs: bool) -> Option<String> {
    let Workload { kind, name, labels, replicas } = workload;
    let label = |key: &str| {
        labels.get(&format!("app.kubernetes.io/{key}")).map(String::as_str).unwrap_or_default()
    };
    let is = |[component, name]: [&str; 2]| {
        label("name") == name || (label("part-of") == "argocd" && label("component") == component)
    };
    if *replicas < 1 {
        return None;
    }
    let (work, instead) = if is(GENERATES) {
        ("generates and rolls out the Applications of ApplicationSets", "")
    } else if is(SYNCS) && syncs {
        ("syncs the Applications", "leave that to it with --sync-engine=external, or ")
    } else {
        return None;
    };
    Some(format!(
        "{kind} {namespace}/{name} of Argo CD {work} here; {instead}scale it down (kubectl -n \
         {namespace} scale {} {name} --replicas 0), or start beside it with \
         --allow-other-controllers",
        kind.to_lowercase()
    ))
}

/// The Deployments and StatefulSets of the namespace, and what cannot be read.
async fn workloads(client: &Client, namespace: &str) -> (Vec<Workload>, Vec<(String, String)>) {
    let deployments = list(client, namespace, "Deployment", |object: &Deployment| {
        object.spec.as_ref().and_then(|spec| spec.replicas)
    });
    let sets = list(client, namespace, "StatefulSet", |object: &StatefulSet| {
        object.spec.as_ref().and_then(|spec| spec.replicas)
    });
    let (deployments, sets) = tokio::join!(deployments, sets);
    let (mut all, mut unread) = (Vec::new(), Vec::new());
    for listed in [deployments, sets] {
        match listed {
            Ok(workloads) => all.extend(workloads),
            Err(why) => unread.push(why),
        }
    }
    (all, unread)
}

async fn list<K>(
    client: &Client,
    namespace: &str,
    kind: &'static str,
    replicas: impl Fn(&K) -> Option<i32>,
) -> Result<Vec<Workload>, (String, String)>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let params = ListParams::default();
    let read = until_answered(async || api.list(&params).await).await;
    let listed = read.map_err(|error| (format!("{kind}s of namespace {namespace}"), error))?;
    let workload = |object: K| Workload {
        kind,
        // Without a number, there is one.
        replicas: replicas(&object).unwrap_or(1),
        name: object.meta().name.clone().unwrap_or_default(),
        labels: object.meta().labels.clone().unwrap_or_default(),
    };
    Ok(listed.items.into_iter().map(workload).collect())
}

/// Who holds the Lease, if it is renewed: clocks of machines differ, so it is observed for as long
/// as it is valid.
async fn holder_of_lease(client: &Client, namespace: &str) -> Option<String> {
    let api: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let look = async || match until_answered(async || api.get_opt(LEASE).await).await {
        Ok(lease) => {
            let lease = lease?;
            let holder = lease.spec?.holder_identity.filter(|holder| !holder.is_empty())?;
            Some((holder, lease.metadata.resource_version))
        }
        Err(error) => {
            could_not_look(&format!("Lease {namespace}/{LEASE}"), &error);
            None
        }
    };
    let (holder, first) = look().await?;
    tracing::info!(
        "Lease {namespace}/{LEASE} names {holder}; waiting up to {} s to see whether it is renewed",
        DURATION.as_secs()
    );
    let began = tokio::time::Instant::now();
    while began.elapsed() < DURATION {
        tokio::time::sleep(LOOK_AGAIN).await;
        let (holder, now) = look().await?;
        if now != first {
            return Some(holder);
        }
    }
    None
}

/// The answer to a request, which is repeated while the API server does not give one.
async fn until_answered<T>(
    mut request: impl AsyncFnMut() -> Result<T, kube::Error>,
) -> Result<T, String> {
    let pauses = ExponentialBuilder::default().with_max_delay(Duration::from_secs(8));
    let mut pauses = pauses.with_max_times(10).build();
    loop {
        let error = match tokio::time::timeout(ANSWER_WITHIN, request()).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) if !failure::is_transient(&error) => {
                return Err(failure::error_reason(&error));
            }
            Ok(Err(error)) => failure::error_reason(&error),
            Err(_) => format!("no answer within {} s", ANSWER_WITHIN.as_secs()),
        };
        match pauses.next() {
            Some(pause) => tokio::time::sleep(pause).await,
            None => return Err(error),
        }
    }
}

fn could_not_look(what: &str, error: &str) {
    tracing::warn!(
        error,
        "cannot look for other controllers that do the same work, such as Argo CD's: {what} cannot \
         be read; the controllers start"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(labels: &[(&str, &str)], replicas: i32, syncs: bool) -> Option<String> {
        let label =
            |(key, value): &(&str, &str)| (format!("app.kubernetes.io/{key}"), (*value).to_owned());
        let labels = labels.iter().map(label).collect();
        let workload =
            Workload { kind: "StatefulSet", name: "own-name".to_owned(), labels, replicas };
        problem_of(&workload, "argocd", syncs)
    }

    /// By the labels of the manifests, the chart and the operator, whatever the object's name.
    #[test]
    fn controllers_of_argo_cd_are_known_by_their_labels() {
        let part_of = ("part-of", "argocd");
        let manifests = [part_of, ("component", SYNCS[0]), ("name", SYNCS[1])];
        let operator = [part_of, ("component", SYNCS[0]), ("name", "example-controller")];
        for labels in [&manifests[..], &manifests[..2], &manifests[1..], &operator] {
            let found = problem(labels, 1, true).unwrap();
            assert!(found.contains("--sync-engine=external"), "{found}");
            assert!(found.contains("scale statefulset own-name --replicas 0"), "{found}");
            assert_eq!(found.lines().count(), 1);
            assert_eq!(problem(labels, 1, false), None, "it syncs, and this one does not");
            assert_eq!(problem(labels, 0, true), None, "scaled down");
        }
        let sets = [part_of, ("component", GENERATES[0])];
        for syncs in [true, false] {
            let found = problem(&sets, 2, syncs).unwrap();
            assert!(!found.contains("external") && found.contains("--replicas 0"), "{found}");
        }
        for other in [
            &[part_of, ("component", "server"), ("name", "argocd-server")][..],
            &[part_of, ("name", "wavegate")],
            &[("component", SYNCS[0]), ("part-of", "another")],
            &[],
        ] {
            assert_eq!(problem(other, 1, true), None, "{other:?}");
        }
    }
}
