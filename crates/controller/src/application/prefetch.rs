//! Reads the commits of Applications whose spec is about to change.

use std::sync::Arc;

use futures::{StreamExt, stream};

use super::context::Context;
use crate::prefetch::PrefetchRequest;
use wavegate_api::{ApplicationSource, ApplicationSpec, ObjectKey, Raw, read_leniently};
use wavegate_application::access;
use wavegate_application::project;
use wavegate_source::{Freshness, RevisionTarget, SourceError, is_artifact};

/// So many Applications are read for at a time.
const AT_ONCE: usize = 4;

/// Answers the requests of ApplicationSets; does not end.
pub(super) async fn run(ctx: Arc<Context>) {
    let Some(requests) = ctx.core.prefetches.take_requests() else {
        return std::future::pending().await;
    };
    let requests = stream::unfold(requests, async |mut requests| {
        let request = requests.recv().await?;
        Some((request, requests))
    });
    requests.for_each_concurrent(AT_ONCE, |request| read_ahead(&ctx, request)).await;
    std::future::pending().await
}

/// Reads what an Application may read; a comparison reports what fails.
async fn read_ahead(ctx: &Context, PrefetchRequest { namespace, application }: PrefetchRequest) {
    let spec: ApplicationSpec = read_leniently(application.spec());
    let project_name = access::project_name(&spec);
    let Some(Ok(known)) = ctx.projects.get(project_name) else { return };
    let control_plane = &ctx.settings.control_plane_namespace;
    let may_read = project::permits_application(&known.spec, &namespace, control_plane)
        && spec.sources().iter().all(|source| {
            project::denied_source(&source.repo_url, project_name, &known.spec).is_none()
        });
    if !may_read {
        return;
    }
    let fresh = ctx.intervals(&ObjectKey::new(&namespace, application.name())).revision_age();
    for source in spec.sources().iter() {
        if !source.chart.is_empty() || is_artifact(&source.repo_url) {
            continue;
        }
        if let Err(error) = read_commit(ctx, source, project_name, Freshness(fresh)).await {
            tracing::debug!(%error, "cannot read ahead");
        }
    }
}

async fn read_commit(
    ctx: &Context,
    source: &ApplicationSource,
    project_name: &str,
    fresh: Freshness,
) -> Result<(), SourceError> {
    let url = &source.repo_url;
    let credentials = ctx.credentials.of(url, project_name);
    let target =
        RevisionTarget { revision: &source.target_revision, tag_prefix: &source.tag_prefix };
    let revision = ctx.sources.resolve_fresh(url, &target, credentials.as_ref(), fresh).await?;
    ctx.sources.checkout(url, &revision, credentials.as_ref()).await.map(drop)
}
