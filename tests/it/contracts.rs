//! Runs the cases of [`crate::contract`] on both servers.

use std::path::Path;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use crate::contract;
use crate::support::cluster::{KUBECONFIG, cluster_client, random};

/// Number of parallel cases.
const PARALLEL: usize = 8;

/// Runs all cases, each in a new namespace; names those that fail.
async fn hold(client: Client) {
    let namespaces: &Api<Namespace> = &Api::all(client.clone());
    let prefix = format!("contract-{:08x}", random());
    let cases = contract::all().into_iter().enumerate().map(|(number, (name, case))| {
        let (client, namespace) = (client.clone(), format!("{prefix}-{number}"));
        async move {
            let object = json!({ "metadata": { "name": namespace } });
            let object: Namespace = serde_json::from_value(object).unwrap();
            namespaces.create(&PostParams::default(), &object).await.unwrap();
            // A task, so that a panic ends only this case.
            let held = tokio::spawn(case(client, namespace.clone())).await.is_ok();
            namespaces.delete(&namespace, &DeleteParams::default()).await.unwrap();
            (name, held)
        }
    });
    let ended: Vec<(&str, bool)> =
        futures::stream::iter(cases).buffer_unordered(PARALLEL).collect().await;
    let broken: Vec<&str> = ended.iter().filter(|(_, held)| !held).map(|(name, _)| *name).collect();
    assert!(broken.is_empty(), "these do not hold, see the panics above: {broken:#?}");
    println!("{} cases hold", ended.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embedded_server_fulfills_the_contract() {
    hold(kube_sim::Server::new().client()).await;
}

mod cluster {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn real_server_fulfills_the_contract() {
        match std::env::var_os(KUBECONFIG).filter(|path| !path.is_empty()) {
            Some(path) => hold(cluster_client(Path::new(&path)).await).await,
            None => eprintln!("skipped on a real API server: {KUBECONFIG} names no kubeconfig"),
        }
    }
}
