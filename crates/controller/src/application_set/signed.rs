//! Signatures of the commits that git generators read (SE-080).

use std::collections::BTreeMap;
use std::sync::Arc;

use data_encoding::HEXLOWER;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::credentials::RepositorySecrets;
use crate::signed::signature_problems;
use wavegate_application::signatures::Demands;
use wavegate_application::unsupported;
use wavegate_rollout::desired::inputs::{GitRequest, ProjectReads};
use wavegate_source::{Repositories, Revision, Signed};

/// What each project demands.
pub type ByProject = BTreeMap<String, Demands>;

/// How generators may read the repositories of a raw project, and what it demands of commits.
/// `keys` are the public keys of those who sign.
pub fn project_reads(
    project: &Value,
    keys: &BTreeMap<String, String>,
) -> (ProjectReads, Option<Demands>) {
    match unsupported::signature_demands(project) {
        Err(why) => (ProjectReads::Refused(why), None),
        Ok(demands) if !demands.any() => (ProjectReads::AsTheyAre, None),
        Ok(demands) => {
            let mut hash = Sha256::new();
            hash.update(format!("{demands:?}"));
            for text in keys.iter().flat_map(|(id, key)| [id, key]) {
                hash.update((text.len() as u64).to_le_bytes());
                hash.update(text);
            }
            let how = HEXLOWER.encode(&hash.finalize());
            (ProjectReads::Signed(how), Some(demands))
        }
    }
}

/// Refuses a commit that is not signed as the project of a request demands.
///
/// # Errors
///
/// Why it is refused.
pub(crate) async fn verify(
    request: &GitRequest,
    revision: &Revision,
    sources: &Arc<Repositories>,
    credentials: &RepositorySecrets,
    demands: &ByProject,
) -> Result<(), String> {
    let GitRequest { repo_url, project, .. } = request;
    let demands = match demands.get(project) {
        Some(demands) => demands,
        None if request.signed.is_empty() => return Ok(()),
        None => return Err(format!("AppProject {project} has changed; it is read again")),
    };
    let of_project = |why: String| format!("AppProject {project}: {why}");
    let Some(demand) = demands.about(repo_url).map_err(of_project)? else { return Ok(()) };
    let revisions = [request.revision.as_str()].into_iter().chain(revision.reference.as_deref());
    let signed = Signed {
        repo_url,
        commit: &revision.sha,
        revisions: &revisions.collect::<Vec<_>>(),
        tag_prefix: "",
    };
    let (keys, own) = (credentials.signing_keys(), credentials.of(repo_url, project));
    let found = signature_problems(sources, &demand, &signed, &keys, own.as_ref()).await;
    let found = found.map_err(|error| error.to_string())?;
    match found.is_empty() {
        true => Ok(()),
        false => Err(of_project(found.join("; "))),
    }
}
