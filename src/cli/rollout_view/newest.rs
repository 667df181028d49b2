//! Asks for comparisons that are newer than the start of `--watch`: after a push, what the
//! status says is about the commit before, until a controller has read the repository.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use kube::Client;
use kube::api::ListParams;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::cli::files::fields::generators_of;
use wavegate_api::annotations::{self, APPLICATION_SET_REFRESH, REFRESH, Refresh, annotation_of};
use wavegate_api::sources::InEffect;
use wavegate_api::{ObjectKey, Raw};
use wavegate_cluster::act::commands::refresh;
use wavegate_cluster::watch::failure::{error_reason, is_transient};
use wavegate_cluster::watch::object::{kind_api, kind_resource};
use wavegate_rollout::application_set::is_owned;

/// The most Applications that are compared again: of more, at least one of each source.
const MOST: usize = 200;
/// Requests that are sent in parallel.
const PARALLEL: usize = 10;
/// Applications per page of a listing.
const PAGE: u32 = 500;
/// Pause between two looks at the answers.
const PAUSE: Duration = Duration::from_millis(300);
/// Without any answer in this time, no controller is running, or it reads nothing.
const NO_ANSWER: Duration = Duration::from_secs(15);
/// The longest time for all answers: a repository may be slow.
const LONGEST: Duration = Duration::from_secs(120);

/// What became of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) enum ComparisonAnswer {
    /// All were compared since; `true` when there was something to compare.
    Compared(bool),
    /// Why not all were.
    Unknown(String),
}

/// Whether comparisons are newer than the start.
#[derive(Debug, Default)]
pub(in crate::cli) enum Newest {
    #[default]
    NotAsked,
    Asked(JoinHandle<ComparisonAnswer>),
    /// With `true`, something was compared.
    Known(bool),
    /// Not all could be compared, or those before the start count.
    Unknown,
}

impl Drop for Newest {
    fn drop(&mut self) {
        if let Self::Asked(asking) = self {
            asking.abort();
        }
    }
}

impl Newest {
    /// Asks as [`compare`] does.
    pub fn ask(client: &Client, sets: Vec<ObjectKey>, known: &BTreeMap<ObjectKey, String>) -> Self {
        let (client, known) = (client.clone(), known.clone());
        let asking = async move { compare(&client, &sets, &known).await };
        Self::Asked(tokio::spawn(asking))
    }

    /// Whether nothing more is to be waited for.
    pub fn is_over(&self) -> bool {
        matches!(self, Self::Known(_) | Self::Unknown)
    }

    /// The connection was lost: what does not arrive is no silence of the controller, which is
    /// asked again.
    pub fn lose(&mut self) {
        if matches!(self, Self::Asked(_)) {
            *self = Self::NotAsked;
        }
    }

    /// The answer, once; pending while nothing is asked.
    pub async fn answer(&mut self) -> ComparisonAnswer {
        let Self::Asked(asking) = self else { return std::future::pending().await };
        let answer = asking.await;
        let answer = answer.unwrap_or_else(|error| {
            ComparisonAnswer::Unknown(format!("it could not be asked for: {error}"))
        });
        *self = match answer {
            ComparisonAnswer::Compared(is_any) => Self::Known(is_any),
            ComparisonAnswer::Unknown(_) => Self::Unknown,
        };
        answer
    }
}

/// Compares the Applications of sets again, those excepted whose time of comparison is not
/// the one in `known`, and generates sets that read repositories.
async fn compare(
    client: &Client,
    sets: &[ObjectKey],
    known: &BTreeMap<ObjectKey, String>,
) -> ComparisonAnswer {
    let mut failing: Option<Instant> = None;
    loop {
        let error = match attempt(client, sets, known).await {
            Ok(is_any) => return ComparisonAnswer::Compared(is_any),
            Err(Failure::Silent(why)) => return ComparisonAnswer::Unknown(why),
            Err(Failure::Request(error)) => error,
        };
        // A connection may be lost that a moment later is there again, or that who follows the
        // cluster has not noticed yet: what it knows is not of now.
        let since = *failing.get_or_insert_with(Instant::now);
        if !is_transient(&error) || since.elapsed() >= NO_ANSWER {
            return ComparisonAnswer::Unknown(error_reason(&error));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Why nothing is known to have been compared.
enum Failure {
    /// There was no answer in time.
    Silent(String),
    /// A request failed.
    Request(kube::Error),
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        Self::Request(error)
    }
}

/// Asks once; whether there was something to compare.
async fn attempt(
    client: &Client,
    sets: &[ObjectKey],
    known: &BTreeMap<ObjectKey, String>,
) -> Result<bool, Failure> {
    let mut is_any = false;
    let mut owners = Vec::new();
    for key in sets {
        let found = kind_api(client, Some(&key.namespace), &kind_resource("ApplicationSet"));
        let Some(set) = found.get_opt(&key.name).await? else {
            continue;
        };
        owners.push(set.parse());
    }
    let reads = owners.iter().filter(|set| reads_repositories(generators_of(set)));
    let reads: Vec<ObjectKey> = reads.map(ObjectKey::of).collect();
    is_any |= !reads.is_empty();
    // First: they may generate other Applications, or others specs.
    let reads = reads.into_iter().map(|key| (key, false)).collect();
    answered(client, "ApplicationSet", reads).await?;
    let applications = of_sets(client, &owners, known).await?;
    is_any |= !applications.is_empty();
    answered(client, "Application", applications).await?;
    Ok(is_any)
}

/// Whether generators read a repository, at any depth.
fn reads_repositories(generators: &Value) -> bool {
    match generators {
        Value::Array(items) => items.iter().any(reads_repositories),
        Value::Object(fields) => {
            fields.iter().any(|(name, field)| name == "git" || reads_repositories(field))
        }
        _ => false,
    }
}

/// The Applications of the sets that were not compared since, and whether a hard refresh of them
/// is pending.
async fn of_sets(
    client: &Client,
    sets: &[Value],
    known: &BTreeMap<ObjectKey, String>,
) -> Result<Vec<(ObjectKey, bool)>, kube::Error> {
    let namespaces: BTreeSet<&str> = sets.iter().map(|set| set.namespace()).collect();
    let mut found: Vec<((ObjectKey, bool), String)> = Vec::new();
    for namespace in namespaces {
        let api = kind_api(client, Some(namespace), &kind_resource("Application"));
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = api.list(&params).await?;
            for object in &page.items {
                let live = object.parse();
                let key = ObjectKey::of(&live);
                let is_old =
                    known.get(&key).is_some_and(|at| at == live.text("/status/reconciledAt"));
                let is_going = live.is_deleting();
                if is_old && !is_going && sets.iter().any(|set| is_owned(&live, set)) {
                    let is_hard = annotations::requested_refresh(&live) == Some(Refresh::Hard);
                    found.push(((key, is_hard), sources_of(&live)));
                }
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => break,
            }
        }
    }
    Ok(chosen(found, MOST))
}

/// At most `most` of them: first one of each source, since a rollout compares the others
/// itself when one has seen another commit.
fn chosen<T>(found: Vec<(T, String)>, most: usize) -> Vec<T> {
    let mut seen = BTreeSet::new();
    let (mut first, rest): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|(_, source)| seen.insert(source.clone()));
    first.extend(rest);
    first.into_iter().take(most).map(|(key, _)| key).collect()
}

/// What identifies the commits of an Application.
pub(in crate::cli) fn sources_of(live: &Value) -> String {
    let sources = InEffect::of(live.spec()).list;
    let texts = sources
        .iter()
        .map(|one| format!("{} {}", one.field("repoURL"), one.field("targetRevision")));
    texts.collect::<Vec<_>>().join("\n")
}

/// Requests a refresh of each, and waits until the controller has removed the requests. The
/// request for an Application is a hard one if such a one is pending: a weaker one would take its
/// place before a controller has read it.
async fn answered(
    client: &Client,
    kind: &str,
    keys: Vec<(ObjectKey, bool)>,
) -> Result<(), Failure> {
    let is_set = kind == "ApplicationSet";
    let requested = if is_set { APPLICATION_SET_REFRESH } else { REFRESH };
    let requests = keys.into_iter().map(|(key, is_hard)| async move {
        let written = match is_set {
            true => refresh::application_set(client, &key, Timestamp::now()).await,
            false => refresh::refresh_application(client, &key, is_hard, Timestamp::now()).await,
        };
        written.map(|exists| exists.then_some(key))
    });
    let mut writes = futures::stream::iter(requests).buffer_unordered(PARALLEL);
    let mut open = Vec::new();
    while let Some(written) = writes.next().await {
        open.extend(written?);
    }
    drop(writes);
    let (began, all) = (Instant::now(), open.len());
    // Since when all, or not all, could be read.
    let (mut heard, mut unheard) = (began, None);
    while !open.is_empty() {
        tokio::time::sleep(PAUSE).await;
        let look = open.drain(..).map(|key| async move {
            let api = kind_api(client, Some(&key.namespace), &kind_resource(kind));
            let is_open = match api.get_opt(&key.name).await {
                Ok(Some(object)) => Ok(annotation_of(&object.parse(), requested).is_some()),
                Ok(None) => Ok(false),
                Err(error) => Err(unread(kind, &key, &error)),
            };
            (key, is_open)
        });
        let looked: Vec<(ObjectKey, Result<bool, String>)> =
            futures::stream::iter(look).buffer_unordered(PARALLEL).collect().await;
        let failed = looked.iter().find_map(|(_, is_open)| is_open.as_ref().err()).cloned();
        // What failed is read again.
        let is_open = |(_, is_open): &(ObjectKey, Result<bool, String>)| *is_open != Ok(false);
        open = looked.into_iter().filter(is_open).map(|(key, _)| key).collect();
        // What cannot be read is no silence of the controller.
        if let Some(why) = failed {
            heard = Instant::now();
            if unheard.get_or_insert(heard).elapsed() >= NO_ANSWER {
                return Err(Failure::Silent(why));
            }
            continue;
        }
        unheard = None;
        let (since, limit) = if open.len() == all { (heard, NO_ANSWER) } else { (began, LONGEST) };
        if let Some(first) = open.iter().min().filter(|_| since.elapsed() >= limit) {
            let limit = limit.as_secs();
            let why = format!("no controller has compared {kind} {first} within {limit} s");
            return Err(Failure::Silent(why));
        }
    }
    Ok(())
}

/// Why an object is not read.
fn unread(kind: &str, key: &ObjectKey, error: &kube::Error) -> String {
    let why = error_reason(error);
    match error {
        kube::Error::Api(_) => format!("cannot read {kind} {key}: {why}"),
        _ => format!("the API server does not answer: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use kube::api::{Patch, PatchParams};
    use kube_sim::{Effect, InjectedFault, RequestRecord, Server, ServerSettings};
    use serde_json::json;

    use super::*;
    use wavegate_cluster::act::commands::manifests;

    #[test]
    fn of_many_applications_at_least_one_of_each_source_is_compared() {
        let one = |name: &str, source: &str| (ObjectKey::new("argocd", name), source.to_owned());
        let found = vec![one("a", "x"), one("b", "x"), one("c", "y"), one("d", "y")];
        let names = |most| -> Vec<String> {
            chosen(found.clone(), most).into_iter().map(|key| key.name).collect()
        };
        assert_eq!(names(2), ["a", "c"]);
        assert_eq!(names(9), ["a", "c", "b", "d"]);
    }

    /// A request that failed a moment before the watches noticed the loss had `wait` accept what was
    /// known before the push.
    #[tokio::test]
    async fn a_request_that_fails_for_a_moment_is_sent_again() {
        let server = Server::with(ServerSettings::default());
        let is_read = |request: &RequestRecord| request.resource == "applicationsets";
        server.inject(InjectedFault::new(Effect::Status(503), is_read).times(2));
        let sets = [ObjectKey::new("argocd", "set")];
        let answer = compare(&server.client(), &sets, &BTreeMap::new()).await;
        assert_eq!(answer, ComparisonAnswer::Compared(false));
        server.inject(InjectedFault::new(Effect::Status(403), is_read));
        let answer = compare(&server.client(), &sets, &BTreeMap::new()).await;
        assert!(matches!(answer, ComparisonAnswer::Unknown(_)), "{answer:?}");
    }

    /// A comparison that `--watch` asked for took the place of a hard refresh that no controller had
    /// read yet, and manifests were not rendered again (SE-377).
    #[tokio::test]
    async fn a_pending_hard_refresh_stays_hard() {
        let server = Server::new();
        let client = server.client();
        manifests::define_all(&client, "test").await.unwrap();
        let set = json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
            "metadata": {"name": "fleet", "namespace": "argocd"},
            "spec": {"generators": [], "template": {"metadata": {"name": "x"}, "spec": {
                "project": "default", "destination": {"server": "https://1"},
                "source": {"repoURL": "https://r", "path": "."}}}},
        });
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "argocd"}});
        for object in [&namespace, &set] {
            manifests::apply_manifest(&client, "test", object).await.unwrap();
        }
        let of_kind = |kind| kind_api(&client, Some("argocd"), &kind_resource(kind));
        let uid = of_kind("ApplicationSet").get("fleet").await.unwrap().parse().uid().to_owned();
        let sets = [ObjectKey::new("argocd", "fleet")];
        let mut known = BTreeMap::new();
        for (name, annotations) in [("hard", json!({REFRESH: "hard"})), ("none", json!({}))] {
            let application = json!({
                "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
                "metadata": {"name": name, "namespace": "argocd", "annotations": annotations,
                    "ownerReferences": [{"apiVersion": "argoproj.io/v1alpha1", "uid": uid,
                        "kind": "ApplicationSet", "name": "fleet", "controller": true}]},
                "spec": {"project": "default", "destination": {"server": "https://1"},
                    "source": {"repoURL": "https://r", "path": "."}},
            });
            manifests::apply_manifest(&client, "test", &application).await.unwrap();
            known.insert(ObjectKey::new("argocd", name), String::new());
        }
        let asking = compare(&client, &sets, &known);
        let controller = async {
            for (name, want) in [("hard", Refresh::Hard), ("none", Refresh::Normal)] {
                loop {
                    let live = of_kind("Application").get(name).await.unwrap().parse();
                    if annotation_of(&live, annotations::REFRESH_TIMESTAMP).is_some() {
                        assert_eq!(annotations::requested_refresh(&live), Some(want), "{name}");
                        break;
                    }
                    tokio::task::yield_now().await;
                }
                let answer = json!({"metadata": {"annotations": {REFRESH: null}}});
                let patch = Patch::Merge(&answer);
                let written =
                    of_kind("Application").patch(name, &PatchParams::default(), &patch).await;
                written.unwrap();
            }
        };
        assert_eq!(tokio::join!(asking, controller).0, ComparisonAnswer::Compared(true));
    }

    #[test]
    fn a_git_generator_is_found_at_any_depth() {
        let nested = json!([{"matrix": {"generators": [{"list": {}}, {"git": {"repoURL": "r"}}]}}]);
        assert!(reads_repositories(&nested));
        assert!(!reads_repositories(&json!([{"list": {"elements": [{"app": "git"}]}}])));
    }
}
