//! Applies objects to a cluster with the strategies of a sync (SE-340 … SE-355).
//!
//! Each strategy is safe to repeat. Responses are added to the cache at once, so that no
//! decision is based on an object that is older than an own write.

mod attempt;
mod merge;
mod migrate;
mod recreate;
mod send;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use kube::core::discovery::ApiResource;
use serde_json::Value;

pub use super::applier::Applier;
use super::outcome::{done_outcome, failed_outcome, unknown_outcome};
use super::retry::{TRIES, pause_before_retry};
use super::secrets;
use crate::watch::failure::{error_reason, has_code, is_transient};
use attempt::ApplyAttempt;
pub use merge::with_last_applied;
use send::Sender;
use wavegate_api::conditions::status::TRUE;
use wavegate_api::kind::GroupVersionKind;
use wavegate_api::listed::{BindingView, DefinitionSpecView, DefinitionView};
use wavegate_api::openapi;
use wavegate_api::raw::edit_metadata;
use wavegate_api::resource_key::ResourceKey;
use wavegate_api::{Raw, read_leniently};
use wavegate_engine::sync::{
    ActionResult, ApplyMethod, ApplyRequest, Method, OPERATION_ANNOTATION, generated_name,
};

/// Maximum number of attempts after conflicts, each with a new read (SE-342).
const ATTEMPTS: u32 = 5;

impl Applier<'_> {
    /// Applies an object, or checks whether it could be applied (dry run).
    ///
    /// `live` is the object as last observed. With `in_sync`, nothing would change; a dry
    /// run and a client-side apply then need no request.
    pub async fn apply(
        &self,
        apply: &ApplyRequest,
        live: Option<&Arc<Value>>,
        in_sync: bool,
        dry_run: bool,
    ) -> ActionResult {
        let happened = self.try_apply(apply, live, in_sync, dry_run).await;
        secrets::redacted(happened.unwrap_or_else(|ended| ended), &apply.key, &apply.manifest)
    }

    async fn try_apply(
        &self,
        apply: &ApplyRequest,
        live: Option<&Arc<Value>>,
        in_sync: bool,
        dry_run: bool,
    ) -> Result<ActionResult, ActionResult> {
        let key = &apply.key;
        let resource = self.resource(key, &apply.manifest).await?;
        let send = Sender::new(self, &resource, key, apply.method.validate, dry_run);
        let unchanged = matches!(apply.method.how, ApplyMethod::ClientSide) || dry_run;
        if let Some(live) = live.filter(|_| in_sync && unchanged && apply.stamp.is_none()) {
            return Ok(done_outcome(key, "unchanged", live, dry_run));
        }
        if dry_run && apply.method.how != ApplyMethod::ServerSide {
            return Ok(self.check(apply, live, &resource).await);
        }
        let _running = self.meter.begin(command(apply.method.how));
        let happened = match (apply.method.how, dry_run, apply.stamp.is_some()) {
            // An old hook of the same name is deleted first.
            (_, true, true) => tolerated(send.create(&apply.manifest).await, key, &[404, 409]),
            (ApplyMethod::Create, false, _) => {
                self.create_stamped(apply, &apply.manifest, &send).await
            }
            (how, _, _) => self.patch(how, apply, live.cloned(), &send).await?,
        };
        Ok(self.wait_for_effects(apply, happened, dry_run).await)
    }

    /// What the object would be after a server-side apply: the answer to its dry run.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be applied, without values of a Secret.
    pub async fn predict(&self, key: &ResourceKey, target: &Value) -> Result<Value, String> {
        let resource = match self.resource(key, target).await {
            Ok(resource) => resource,
            Err(ActionResult::Failed(why) | ActionResult::Unknown(why)) => return Err(why),
            Err(_) => return Err("it cannot be applied".to_owned()),
        };
        // As in Argo CD, unknown fields are dropped by the server, and so are no difference.
        let send = Sender::new(self, &resource, key, false, true);
        send.server_side(target).await.map_err(|error| error_reason(&error))
    }

    /// The dry run of every strategy except server-side apply. It sends no request: what
    /// only the apply itself can check is checked in its own wave, with its hooks
    /// (SE-250).
    async fn check(
        &self,
        apply: &ApplyRequest,
        live: Option<&Arc<Value>>,
        resource: &ApiResource,
    ) -> ActionResult {
        let (key, manifest) = (&apply.key, apply.manifest.as_ref());
        if apply.method.validate {
            let mistakes = self.cluster.mistakes(resource, manifest).await;
            if !mistakes.is_empty() {
                return ActionResult::Failed(openapi::in_words(&mistakes));
            }
        }
        let verb = match (apply.method.how, live) {
            (_, None) => "created",
            (ApplyMethod::ClientSide, Some(live)) if merge::three_way(manifest, live).is_none() => {
                "unchanged"
            }
            (ApplyMethod::ClientSide | ApplyMethod::ServerSide, Some(_)) => "configured",
            (ApplyMethod::Replace | ApplyMethod::Create, Some(_)) => "replaced",
            (ApplyMethod::Update, Some(_)) => "updated",
        };
        done_outcome(key, verb, &Value::Null, true)
    }

    /// Creates a hook. A hook that exists with the same stamp was created by an
    /// interrupted reconcile that did not record it.
    pub async fn create_hook(&self, apply: &ApplyRequest) -> ActionResult {
        let happened = self.try_create_hook(apply).await;
        secrets::redacted(happened.unwrap_or_else(|ended| ended), &apply.key, &apply.manifest)
    }

    async fn try_create_hook(&self, apply: &ApplyRequest) -> Result<ActionResult, ActionResult> {
        let key = &apply.key;
        let resource = self.resource(key, &apply.manifest).await?;
        let send = Sender::new(self, &resource, key, apply.method.validate, false);
        let manifest = match apply.method.how {
            ApplyMethod::ClientSide => merge::with_last_applied(&apply.manifest),
            _ => apply.manifest.as_ref().clone(),
        };
        Ok(self.create_stamped(apply, &manifest, &send).await)
    }

    /// Creates an object that must exist exactly once. After a failure it is searched by
    /// its stamp before it is created again.
    async fn create_stamped(
        &self,
        apply: &ApplyRequest,
        manifest: &Value,
        send: &Sender<'_>,
    ) -> ActionResult {
        // The server would choose another name for each request.
        let chosen = named(&apply.key, manifest, apply.stamp.as_deref());
        let (key, manifest) = chosen.as_ref().map_or((send.key, manifest), |(key, it)| (key, it));
        let send = &send.with_key(key);
        let mut tries = 1;
        loop {
            let error = match send.create_once(manifest).await {
                Ok(object) => return self.answer(key, "created", Ok(object)),
                Err(error) => error,
            };
            let again = tries < TRIES && is_transient(&error);
            if !again && !has_code(&error, 409) {
                return failed_outcome(&error);
            }
            if again {
                let error = error_reason(&error);
                tracing::debug!(resource = %key, tries, error, "the object may have been created");
                pause_before_retry(key, tries).await;
                tries += 1;
            }
            let found = match self.cluster.read(send.resource, key).await {
                Ok(found) => found,
                Err(_) if again => continue,
                Err(error) => return ActionResult::Unknown(error.to_string()),
            };
            let stamp = |found: &Value| {
                let stamp = found.annotation(OPERATION_ANNOTATION);
                stamp.is_some() && stamp == apply.stamp.as_deref()
            };
            match found {
                Some(found) if stamp(&found) => return done_outcome(key, "created", &found, false),
                _ if again => {}
                None => {
                    return ActionResult::Unknown("the previous hook was just deleted".to_owned());
                }
                Some(found) => {
                    if let Some(objection) = self.owner.objection(key, &found) {
                        return ActionResult::Failed(objection);
                    }
                    // Our hook, not yet in the cache: now that it is known, the next
                    // round deletes or evaluates it.
                    let state =
                        if found.is_deleting() { "is still being deleted" } else { "exists" };
                    return ActionResult::Unknown(format!("the previous hook {state}"));
                }
            }
        }
    }

    /// The request path of a kind. The target depends on the scope of its kind, so when
    /// the scope turns out to be different, the object is evaluated again first.
    async fn resource(
        &self,
        key: &ResourceKey,
        manifest: &Value,
    ) -> Result<ApiResource, ActionResult> {
        let kind = GroupVersionKind::of(manifest);
        match self.cluster.resource(&kind, false).await {
            Ok(Some((_, namespaced))) if namespaced == key.namespace.is_empty() => {
                let scope = if namespaced { "namespaced" } else { "cluster-scoped" };
                Err(ActionResult::Unknown(format!(
                    "{} is {scope}, unlike discovered before",
                    kind.kind
                )))
            }
            Ok(Some((resource, _))) => Ok(resource),
            Ok(None) => {
                let GroupVersionKind { group, version, kind } = kind;
                Err(ActionResult::Failed(format!(
                    "the server does not have the kind {kind} in {group}/{version}"
                )))
            }
            Err(error) => Err(unknown_outcome(error)),
        }
    }

    /// Adds a response to the cache.
    fn answer(
        &self,
        key: &ResourceKey,
        verb: &str,
        answer: Result<Value, kube::Error>,
    ) -> ActionResult {
        match answer {
            Ok(object) => {
                let object = Arc::new(object);
                self.cluster.put(&object);
                done_outcome(key, verb, &object, false)
            }
            Err(error) => failed_outcome(&error),
        }
    }

    /// Patches or replaces the object until there is no conflict.
    async fn patch(
        &self,
        how: ApplyMethod,
        apply: &ApplyRequest,
        mut live: Option<Arc<Value>>,
        send: &Sender<'_>,
    ) -> Result<ActionResult, ActionResult> {
        let Method { force, .. } = apply.method;
        let target = apply.manifest.as_ref();
        let (mut refused, mut newest) = (None, false);
        let new = match how {
            ApplyMethod::ClientSide => merge::with_last_applied(target),
            ApplyMethod::ServerSide
            | ApplyMethod::Replace
            | ApplyMethod::Update
            | ApplyMethod::Create => target.clone(),
        };
        if how == ApplyMethod::Replace && force && !send.dry_run {
            return self.recreate(apply, &new, send).await;
        }
        for attempt in 1..=ATTEMPTS {
            let goes = live.as_ref().is_some_and(|live| live.is_deleting());
            if goes && apply.stamp.is_none() && !send.dry_run {
                return Err(leaving(send.key));
            }
            let (verb, answer) = match self.send_once(how, apply, live.as_ref(), send).await? {
                ApplyAttempt::Answered(verb, answer) => (verb, answer),
                ApplyAttempt::Unchanged(live) if newest || send.dry_run => {
                    return Ok(done_outcome(send.key, "unchanged", &live, send.dry_run));
                }
                // The copy may be of an object that was deleted a moment ago.
                ApplyAttempt::Unchanged(_) => {
                    newest = true;
                    live = self.live(send).await?;
                    continue;
                }
                ApplyAttempt::Outdated => {
                    live = self.read_again(attempt, send).await?;
                    continue;
                }
            };
            let error = match answer {
                Ok(object) if send.dry_run => {
                    return Ok(done_outcome(send.key, verb, &object, true));
                }
                Ok(object) => {
                    // It was accepted, but the object goes, and what was applied with it.
                    let goes = object.is_deleting() && apply.stamp.is_none();
                    let answered = self.answer(send.key, verb, Ok(object));
                    return if goes { Err(leaving(send.key)) } else { Ok(answered) };
                }
                Err(error) => error,
            };
            let immutable = has_code(&error, 422);
            if send.dry_run && ((immutable && force) || is_missing_namespace(&error)) {
                return Ok(done_outcome(send.key, verb, &Value::Null, true));
            }
            let moves = how != ApplyMethod::ServerSide
                && live.as_ref().is_some_and(|live| changes_role(send.key, live, target));
            if immutable && live.is_some() && !send.dry_run && (force || moves) {
                return self.recreate(apply, &new, send).await;
            }
            // A conflict, or an object that was created or deleted in the meantime.
            let moved = has_code(&error, 409) || (has_code(&error, 404) && live.is_some());
            if !moved {
                return Err(failed_outcome(&error));
            }
            refused = Some(error);
            live = self.read_again(attempt, send).await?;
            if let Some(objection) = live.as_ref().and_then(|live| self.objection(apply, live)) {
                return Err(ActionResult::Failed(objection));
            }
        }
        match refused {
            Some(_) if force && !send.dry_run => self.recreate(apply, &new, send).await,
            Some(error) => Err(failed_outcome(&error)),
            None => Err(unknown_outcome("the object keeps changing")),
        }
    }

    /// Reads the live object after a conflict. The first retry is immediate, since its
    /// usual cause is a stale copy; later ones wait, since another client keeps changing
    /// the object.
    async fn read_again(
        &self,
        attempt: u32,
        send: &Sender<'_>,
    ) -> Result<Option<Arc<Value>>, ActionResult> {
        if (2..ATTEMPTS).contains(&attempt) {
            pause_before_retry(send.key, attempt - 1).await;
        }
        self.live(send).await
    }

    /// The newest state of the object.
    async fn live(&self, send: &Sender<'_>) -> Result<Option<Arc<Value>>, ActionResult> {
        self.cluster.read(send.resource, send.key).await.map_err(unknown_outcome)
    }

    /// Why a live object is not this hook; `None` for objects that are not hooks.
    fn objection(&self, apply: &ApplyRequest, live: &Value) -> Option<String> {
        apply.stamp.as_ref()?;
        self.owner.objection(&apply.key, live)
    }

    /// Waits for the effects of an applied definition.
    async fn wait_for_effects(
        &self,
        apply: &ApplyRequest,
        happened: ActionResult,
        dry_run: bool,
    ) -> ActionResult {
        let applied = matches!(happened, ActionResult::Done { .. }) && !dry_run;
        if !applied || !apply.wait_established {
            return happened;
        }
        let key = &apply.key;
        let kind = GroupVersionKind::of(&apply.manifest);
        let usable = async {
            let mut pause = Duration::from_millis(20);
            while !self.is_usable(&kind, key).await {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(1));
            }
        };
        if tokio::time::timeout(self.established_within, usable).await.is_err() {
            self.cluster.forget_kinds().await;
            tracing::warn!(definition = %key.name, "the definition is not established in time");
        }
        happened
    }

    /// Whether objects of a definition can be created: it is established, and discovery
    /// names its kind, which happens somewhat later. A definition without a version that is
    /// served has no kind to wait for. Afterwards the discovery is that of now.
    async fn is_usable(&self, kind: &GroupVersionKind, key: &ResourceKey) -> bool {
        let Ok(Some((resource, _))) = self.cluster.resource(kind, false).await else {
            return false;
        };
        let Ok(Some(found)) = self.cluster.read(&resource, key).await else { return false };
        let definition: DefinitionView = read_leniently(&found);
        if found.is_deleting() || !is_established(&definition) {
            return false;
        }
        self.cluster.forget_kinds().await;
        match defined_kind(definition.spec) {
            Some(kind) => matches!(self.cluster.resource(&kind, false).await, Ok(Some(_))),
            None => true,
        }
    }
}

/// The outcome for an object that is being deleted: nothing can be applied to it. The engine
/// waits until it is gone.
fn leaving(key: &ResourceKey) -> ActionResult {
    ActionResult::Unknown(format!("{key} is being deleted"))
}

/// A manifest that only has `generateName`, with a name that follows from its stamp, as the key of
/// its object: a request whose answer was lost creates no second one.
fn named(key: &ResourceKey, manifest: &Value, stamp: Option<&str>) -> Option<(ResourceKey, Value)> {
    let stamp = stamp.filter(|_| manifest.name().is_empty())?;
    let name = generated_name(manifest.generate_name(), "", stamp);
    let mut manifest = manifest.clone();
    edit_metadata(&mut manifest, |metadata| {
        metadata.insert("name".to_owned(), name.clone().into());
    });
    Some((ResourceKey { name, ..key.clone() }, manifest))
}

/// Whether a binding of roles gets another role, which the server refuses for the same object
/// (SE-343).
fn changes_role(key: &ResourceKey, live: &Value, target: &Value) -> bool {
    let is_binding = key.group == "rbac.authorization.k8s.io"
        && matches!(key.kind.as_str(), "RoleBinding" | "ClusterRoleBinding");
    let role = |object: &Value| {
        let mut role = read_leniently::<BindingView>(object).role_ref;
        if role.api_group.is_empty() {
            role.api_group.clone_from(&key.group);
        }
        role
    };
    is_binding && role(live) != role(target)
}

/// The kind of a definition, in the first version that is served; `None` without one.
fn defined_kind(definition: DefinitionSpecView) -> Option<GroupVersionKind> {
    let DefinitionSpecView { group, names, versions } = definition;
    let served = versions.into_iter().find(|version| version.served)?;
    Some(GroupVersionKind { group, version: served.name, kind: names.kind })
}

fn is_established(definition: &DefinitionView) -> bool {
    let conditions = definition.status.conditions.iter();
    conditions.into_iter().any(|one| one.type_ == "Established" && one.status == TRUE)
}

/// Whether a request failed because its namespace does not exist: the sync may create it
/// before the object.
fn is_missing_namespace(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    status.code == 404 && status.details.as_ref().is_some_and(|d| d.kind == "namespaces")
}

/// The outcome of a dry run that may fail with these codes.
fn tolerated(answer: Result<Value, kube::Error>, key: &ResourceKey, codes: &[u16]) -> ActionResult {
    match answer {
        Ok(object) => done_outcome(key, "created", &object, true),
        Err(error) if codes.iter().any(|code| has_code(&error, *code)) => {
            if has_code(&error, 404) && !is_missing_namespace(&error) {
                return failed_outcome(&error);
            }
            done_outcome(key, "created", &Value::Null, true)
        }
        Err(error) => failed_outcome(&error),
    }
}

/// What kubectl calls an apply of this kind (SE-553).
const fn command(how: ApplyMethod) -> &'static str {
    match how {
        ApplyMethod::ClientSide | ApplyMethod::ServerSide => "apply",
        ApplyMethod::Replace => "replace",
        ApplyMethod::Update => "update",
        ApplyMethod::Create => "create",
    }
}
