//! The cluster that a command talks to.

use anyhow::Context as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// A client for a context of the kubeconfig, or for the current one, or for
/// the cluster that this process runs in.
///
/// # Errors
///
/// When there is no usable configuration; the message says which was tried.
pub async fn client(context: Option<&str>) -> anyhow::Result<Client> {
    let config = match context {
        None => Config::infer()
            .await
            .context("no usable kubeconfig, and not inside a cluster; set KUBECONFIG")?,
        Some(name) => {
            let options = KubeConfigOptions {
                context: Some(name.to_owned()),
                ..KubeConfigOptions::default()
            };
            let kubeconfig = Kubeconfig::read().context("cannot read the kubeconfig")?;
            Config::from_custom_kubeconfig(kubeconfig, &options)
                .await
                .with_context(|| format!("cannot use context {name} of the kubeconfig"))?
        }
    };
    Client::try_from(config).context("cannot make a client of the kubeconfig")
}
