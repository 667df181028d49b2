//! The server over a socket.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::super::Server;
use super::{MAPS, get};

#[tokio::test]
async fn a_client_with_the_kubeconfig_sees_the_same_objects() {
    let server = Server::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let serving = tokio::spawn({
        let (server, stop) = (server.clone(), stop.clone());
        async move { server.serve(listener, stop).await }
    });
    let kubeconfig = Kubeconfig::from_yaml(&server.kubeconfig(address)).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    let client = kube::Client::try_from(config).unwrap();
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    let mut object = ConfigMap::default();
    object.metadata.name = Some("a".to_owned());
    api.create(&PostParams::default(), &object).await.unwrap();
    assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 1);
    let (code, _) = get(&server.client(), &format!("{MAPS}/a")).await;
    assert_eq!(code, 200);
    stop.cancel();
    serving.await.unwrap().unwrap();
}
