//! Asks for comparisons that are newer than the start of `--watch`: after a push, what the
//! status says is about the commit before, until a controller has read the repository.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use kube::Client;
use kube::api::ListParams;
use serde_json::Value;
use tokio::time::Instant;

use crate::act::refresh;
use crate::api::annotations::{APPLICATION_SET_REFRESH, REFRESH, annotation};
use crate::api::sources::InEffect;
use crate::api::{ObjectKey, Raw};
use crate::decide::application_set::is_owned;
use crate::watch::failure::{is_transient, reason};
use crate::watch::object::{api, resource};

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
pub(in crate::cli) enum Answer {
    /// All were compared since; `true` when there was something to compare.
    Compared(bool),
    /// Why not all were.
    Unknown(String),
}

/// Compares the Applications of sets again, those excepted whose time of comparison is not
/// the one in `known`, and generates sets that read repositories.
pub(in crate::cli) async fn compare(
    client: &Client,
    sets: &[ObjectKey],
    known: &BTreeMap<ObjectKey, String>,
) -> Answer {
    let mut failing: Option<Instant> = None;
    loop {
        let error = match attempt(client, sets, known).await {
            Ok(is_any) => return Answer::Compared(is_any),
            Err(Failure::Silent(why)) => return Answer::Unknown(why),
            Err(Failure::Request(error)) => error,
        };
        // A connection may be lost that a moment later is there again, or that who follows the
        // cluster has not noticed yet: what it knows is not of now.
        let since = *failing.get_or_insert_with(Instant::now);
        if !is_transient(&error) || since.elapsed() >= NO_ANSWER {
            return Answer::Unknown(reason(&error));
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
        let found = api(client, Some(&key.namespace), &resource("ApplicationSet"));
        let Some(set) = found.get_opt(&key.name).await? else {
            continue;
        };
        owners.push(set.parse());
    }
    let reads = owners.iter().filter(|set| reads_repositories(&set["spec"]["generators"]));
    let reads: Vec<ObjectKey> = reads.map(ObjectKey::of).collect();
    is_any |= !reads.is_empty();
    // First: they may generate other Applications, or others specs.
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

/// The Applications of the sets that were not compared since.
async fn of_sets(
    client: &Client,
    sets: &[Value],
    known: &BTreeMap<ObjectKey, String>,
) -> Result<Vec<ObjectKey>, kube::Error> {
    let namespaces: BTreeSet<&str> = sets.iter().map(|set| set.namespace()).collect();
    let mut found: Vec<(ObjectKey, String)> = Vec::new();
    for namespace in namespaces {
        let api = api(client, Some(namespace), &resource("Application"));
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = api.list(&params).await?;
            for object in &page.items {
                let live = object.parse();
                let key = ObjectKey::of(&live);
                let is_old =
                    known.get(&key).is_some_and(|at| at == live.text("/status/reconciledAt"));
                let is_going = !live["metadata"]["deletionTimestamp"].is_null();
                if is_old && !is_going && sets.iter().any(|set| is_owned(&live, set)) {
                    found.push((key, sources_of(&live)));
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
fn chosen(found: Vec<(ObjectKey, String)>, most: usize) -> Vec<ObjectKey> {
    let mut seen = BTreeSet::new();
    let (mut first, rest): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|(_, source)| seen.insert(source.clone()));
    first.extend(rest);
    first.into_iter().take(most).map(|(key, _)| key).collect()
}

/// What identifies the commits of an Application.
pub(in crate::cli) fn sources_of(live: &Value) -> String {
    let sources = InEffect::of(&live["spec"]).list;
    let texts = sources
        .iter()
        .map(|one| format!("{} {}", one.field("repoURL"), one.field("targetRevision")));
    texts.collect::<Vec<_>>().join("\n")
}

/// Requests a refresh of each, and waits until the controller has removed the requests.
async fn answered(client: &Client, kind: &str, keys: Vec<ObjectKey>) -> Result<(), Failure> {
    let is_set = kind == "ApplicationSet";
    let requested = if is_set { APPLICATION_SET_REFRESH } else { REFRESH };
    let requests = keys.into_iter().map(|key| async move {
        let written = match is_set {
            true => refresh::application_set(client, &key, Timestamp::now()).await,
            false => refresh::application(client, &key, false, Timestamp::now()).await,
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
            let api = api(client, Some(&key.namespace), &resource(kind));
            let is_open = match api.get_opt(&key.name).await {
                Ok(Some(object)) => Ok(annotation(&object.parse(), requested).is_some()),
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
    let why = reason(error);
    match error {
        kube::Error::Api(_) => format!("cannot read {kind} {key}: {why}"),
        _ => format!("the API server does not answer: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use kube_sim::{Effect, Fault, RequestRecord, Server, Settings};
    use serde_json::json;

    use super::*;

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
        let server = Server::with(Settings::default());
        let is_read = |request: &RequestRecord| request.resource == "applicationsets";
        server.inject(Fault::new(Effect::Status(503), is_read).times(2));
        let sets = [ObjectKey::new("argocd", "set")];
        let answer = compare(&server.client(), &sets, &BTreeMap::new()).await;
        assert_eq!(answer, Answer::Compared(false));
        server.inject(Fault::new(Effect::Status(403), is_read));
        let answer = compare(&server.client(), &sets, &BTreeMap::new()).await;
        assert!(matches!(answer, Answer::Unknown(_)), "{answer:?}");
    }

    #[test]
    fn a_git_generator_is_found_at_any_depth() {
        let nested = json!([{"matrix": {"generators": [{"list": {}}, {"git": {"repoURL": "r"}}]}}]);
        assert!(reads_repositories(&nested));
        assert!(!reads_repositories(&json!([{"list": {"elements": [{"app": "git"}]}}])));
    }
}
