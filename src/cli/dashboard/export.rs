//! `wavegate dashboard --export`: a rollout as one file (PG-017).

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::live::LiveCluster;
use crate::cli::cluster::ClusterConnection;
use crate::cli::console::error::{Error, note};
use crate::cli::console::output;
use wavegate_api::Raw;
use wavegate_dashboard::export_rollout;
use wavegate_dashboard::reports::{PageObject, PageReports};

/// Writes the file. What stands there is not replaced: it may be the report of another incident.
pub(super) async fn write_file(
    connection: ClusterConnection,
    context: &str,
    file: &Path,
    set: &str,
    run: Option<&str>,
) -> anyhow::Result<()> {
    let is_output = file == Path::new("-");
    let cannot = |why: String| Error::input("cannot write", file.display().to_string(), why);
    if !is_output && file.exists() {
        let why = "it exists; choose another name, or remove it".to_owned();
        return Err(cannot(why).into());
    }
    let found = connection.expect_application_set(set).await?;
    let of = PageObject { namespace: found.namespace().to_owned(), name: found.name().to_owned() };
    let place = format!("{context} · {}", of.namespace);
    let stop = CancellationToken::new();
    let namespace = Some(of.namespace.clone());
    let live: Arc<dyn PageReports> = LiveCluster::follow(connection, namespace, place, None, &stop);
    let made = export_rollout(&live, &of, run).await;
    stop.cancel();
    let html = made.map_err(|unavailable| anyhow::anyhow!(unavailable.message))?;
    if is_output {
        return output::print(&html).map_err(Into::into);
    }
    // Made by another program meanwhile, it is not replaced either.
    let written = OpenOptions::new().write(true).create_new(true).open(file);
    let written = written.and_then(|mut created| created.write_all(html.as_bytes()));
    written.map_err(|error| cannot(error.to_string()))?;
    note(&format!("{} shows {} without a server", file.display(), of.name));
    Ok(())
}
