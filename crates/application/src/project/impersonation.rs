//! Which service account the writes to the objects of an Application are sent as (SE-079).

use wavegate_api::AppProjectSpec;
use wavegate_api::glob;

/// Characters that no service account has, and that a glob in the wrong field would have.
const NOT_IN_A_NAME: &[char] = &['!', '*', '[', ']', '{', '}', '\\', '/'];

/// Where a sync writes to.
#[derive(Clone, Copy, Debug)]
pub struct Destination<'a> {
    /// URL of the cluster.
    pub server: &'a str,
    /// Namespace of the destination; may be empty.
    pub namespace: &'a str,
    /// Namespace of the Application, which stands for an absent one.
    pub application_namespace: &'a str,
}

/// Why nothing of an Application is deleted whose project is gone or not for it: only the project
/// says as which service account.
pub fn without_project(project: &str) -> String {
    format!(
        "failed to find a matching service account to impersonate: project '{project}' does not \
         exist or is not for this application; create the project again, or remove the finalizers \
         of the application to leave its resources in the cluster"
    )
}

/// The user that a sync, or a deletion, acts as, as `system:serviceaccount:NAMESPACE:NAME`: the service
/// account of the first entry of `spec.destinationServiceAccounts` whose globs match. `None` when
/// none does and that is not `enforced`: then it acts with the rights of the controller.
///
/// # Errors
///
/// The message of an operation that ends, since no entry matches, or the one that does names
/// no service account.
pub fn sync_user(
    project: &AppProjectSpec,
    destination: Destination<'_>,
    enforced: bool,
) -> Result<Option<String>, String> {
    let Destination { server, namespace, application_namespace } = destination;
    let own = if namespace.is_empty() { application_namespace } else { namespace };
    let found = find(project, server, namespace, own).and_then(|found| match found {
        None if enforced => Err(format!(
            "no matching service account found for destination server {server} and namespace {own}"
        )),
        found => Ok(found),
    });
    found.map_err(|why| format!("failed to find a matching service account to impersonate: {why}"))
}

fn find(
    project: &AppProjectSpec,
    server: &str,
    namespace: &str,
    own: &str,
) -> Result<Option<String>, String> {
    let glob = |pattern: &str, field: &str| {
        glob::Glob::new(pattern)
            .map_err(|_| format!("invalid glob pattern for destination {field}: {pattern:?}"))
    };
    for entry in &project.destination_service_accounts {
        let server_matches = glob(&entry.server, "server")?.matches(server);
        let namespace_matches = glob(&entry.namespace, "namespace")?.matches(namespace);
        if !server_matches || !namespace_matches {
            continue;
        }
        let account = entry.default_service_account.trim();
        let invalid = || Err(format!("default service account contains invalid chars '{account}'"));
        let (namespace, name) = account.split_once(':').unwrap_or((own, account));
        let is_name = |text: &str| {
            let is_odd = |c: char| NOT_IN_A_NAME.contains(&c) || c == ':' || !c.is_ascii_graphic();
            !text.is_empty() && !text.contains(is_odd)
        };
        return match is_name(namespace) && is_name(name) {
            true => Ok(Some(format!("system:serviceaccount:{namespace}:{name}"))),
            false => invalid(),
        };
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(entries: Value, namespace: &str) -> Result<String, String> {
        let project = json!({ "destinationServiceAccounts": entries });
        let project = wavegate_api::read_typed::<AppProjectSpec>(&project).unwrap();
        let destination =
            Destination { server: "https://one:6443", namespace, application_namespace: "argocd" };
        // Where it is not enforced, only the absence of an entry is no error.
        let free = sync_user(&project, destination, false);
        let found = sync_user(&project, destination, true)
            .map(|found| found.expect("enforced"))
            .map_err(|error| error.split_once("impersonate: ").unwrap().1.to_owned());
        let is_absent = found.as_ref().is_err_and(|why| why.starts_with("no matching"));
        match &found {
            Ok(name) => assert_eq!(free, Ok(Some(name.clone()))),
            Err(_) if is_absent => assert_eq!(free, Ok(None)),
            Err(_) => assert!(free.is_err()),
        }
        found
    }

    #[test]
    fn the_first_entry_that_matches_counts_as_se_079() {
        let entry = |server: &str, namespace: &str, account: &str| json!({"server": server, "namespace": namespace, "defaultServiceAccount": account});
        let ok = |name: &str| Ok(format!("system:serviceaccount:{name}"));
        let invalid =
            |name: &str| Err(format!("default service account contains invalid chars '{name}'"));
        let none = |namespace: &str| {
            Err(format!(
                "no matching service account found for destination server https://one:6443 and \
                 namespace {namespace}"
            ))
        };
        let glob =
            |field: &str| Err(format!("invalid glob pattern for destination {field}: \"{{a\""));
        for (entries, namespace, want) in [
            (json!([entry("*", "web", "deployer")]), "web", ok("web:deployer")),
            (json!([entry("*", "web", "ops:deployer")]), "web", ok("ops:deployer")),
            (json!([entry("*", "*", "deployer")]), "", ok("argocd:deployer")),
            (json!([entry("*", "", "deployer")]), "", ok("argocd:deployer")),
            (json!([entry("https://o*", "w?b", "a"), entry("*", "*", "b")]), "web", ok("web:a")),
            (json!([entry("https://two", "web", "a"), entry("*", "*", "b")]), "web", ok("web:b")),
            (json!([entry("https://two", "web", "a")]), "web", none("web")),
            (json!([]), "", none("argocd")),
            (json!([entry("*", "{a", "a")]), "web", glob("namespace")),
            (json!([entry("{a", "web", "a")]), "web", glob("server")),
            (json!([entry("*", "web", "")]), "web", invalid("")),
            (json!([entry("*", "web", "  ")]), "web", invalid("")),
            (json!([entry("*", "web", "*")]), "web", invalid("*")),
            (json!([entry("*", "web", "a:b:c")]), "web", invalid("a:b:c")),
            (json!([entry("*", "web", ":b")]), "web", invalid(":b")),
            (json!([entry("*", "web", "a\nb")]), "web", invalid("a\nb")),
        ] {
            assert_eq!(of(entries.clone(), namespace), want, "{entries} {namespace:?}");
        }
    }
}
