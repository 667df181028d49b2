//! Sync options: of an operation, of a resource, and their precedence.
//!
//! Options match exactly; unknown options are ignored (SE-300..SE-302).

use serde_json::Value;

use super::object::{defines, is_namespace};
use wavegate_api::Raw;
use wavegate_api::annotations;
use wavegate_api::sync_options as words;
use wavegate_api::unknown::nearest_name;

/// The `Prune` option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prune {
    True,
    False,
    Confirm,
}

/// How dependents of a deleted object are treated (SE-317).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    /// Dependents are deleted first; the object stays visible until they are
    /// gone.
    #[default]
    Foreground,
    /// The object is deleted at once, dependents later.
    Background,
    /// Dependents are orphaned.
    Orphan,
}

/// Options of the operation itself (SE-300): `operation.sync.syncOptions` is
/// the only list that is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AppOptions {
    pub no_validation: bool,
    pub skip_dry_run_on_missing: bool,
    pub prune: Option<Prune>,
    pub prune_last: bool,
    pub propagation: Propagation,
    pub out_of_sync_only: bool,
    pub replace: bool,
    /// Of the `syncStrategy` of an operation; no option sets it (SE-320).
    pub force: bool,
    pub server_side: bool,
    pub no_migration: bool,
    pub fail_on_shared: bool,
    pub create_namespace: bool,
    /// Those that have no effect, and why.
    pub problems: Vec<String>,
}

/// Options that are true or false.
const SWITCHES: [&str; 11] = [
    "Validate",
    "SkipDryRunOnMissingResource",
    "PruneLast",
    "ApplyOutOfSyncOnly",
    "Replace",
    "Force",
    "ServerSideApply",
    "ClientSideApplyMigration",
    "FailOnSharedResource",
    "RespectIgnoreDifferences",
    "CreateNamespace",
];

/// Whether a sync option of an Application or a resource is unknown: it has no
/// effect (SE-302).
pub fn is_unknown_option(item: &str) -> bool {
    let (name, value) = item.trim().split_once('=').unwrap_or((item, ""));
    !values(name).contains(&value)
}

/// Why a sync option of an Application, or of an operation, has no effect (SE-302, SE-320).
pub fn problem_of_application(item: &str) -> Option<String> {
    if item.trim() == words::FORCE {
        return Some(format!(
            "sync option {} has an effect on resources only, not on an Application: annotate the \
             resource, or set force of the syncStrategy of the operation",
            words::FORCE
        ));
    }
    is_unknown_option(item).then(|| format!("unknown sync option {item}"))
}

/// The values of an option; none for an unknown option.
fn values(name: &str) -> &'static [&'static str] {
    match name {
        "Prune" | "Delete" => &["true", "false", "confirm"],
        "PrunePropagationPolicy" => &["foreground", "background", "orphan"],
        name if SWITCHES.contains(&name) => &["true", "false"],
        _ => &[],
    }
}

/// The sync option that an unknown one was probably meant to be; `None` when none is near.
pub fn near_option(item: &str) -> Option<String> {
    let (name, value) = item.trim().split_once('=').unwrap_or((item.trim(), ""));
    let known = SWITCHES.iter().copied().chain(["Prune", "PrunePropagationPolicy"]);
    let near = nearest_name(name, known)?;
    let wanted = value.to_lowercase();
    let value = values(near).iter().find(|known| **known == wanted).or(values(near).first())?;
    Some(format!("{near}={value}"))
}

impl AppOptions {
    /// Of `operation.sync.syncOptions`.
    pub fn of(sync_options: &[String]) -> Self {
        let mut options = Self::default();
        let (mut background, mut orphan) = (false, false);
        for item in sync_options.iter().map(|item| item.trim()) {
            match item {
                words::VALIDATE_FALSE => options.no_validation = true,
                words::SKIP_DRY_RUN_ON_MISSING_RESOURCE => options.skip_dry_run_on_missing = true,
                words::PRUNE_LAST => options.prune_last = true,
                "PrunePropagationPolicy=background" => background = true,
                "PrunePropagationPolicy=orphan" => orphan = true,
                words::APPLY_OUT_OF_SYNC_ONLY => options.out_of_sync_only = true,
                words::REPLACE => options.replace = true,
                words::SERVER_SIDE_APPLY => options.server_side = true,
                words::CLIENT_SIDE_APPLY_MIGRATION_FALSE => options.no_migration = true,
                words::FAIL_ON_SHARED_RESOURCE => options.fail_on_shared = true,
                words::CREATE_NAMESPACE => options.create_namespace = true,
                _ => match prune(item) {
                    // The first of several values is used (SE-019).
                    Some(value) => options.prune = options.prune.or(Some(value)),
                    None => options.problems.extend(problem_of_application(item)),
                },
            }
        }
        let foreground =
            sync_options.iter().any(|item| item == "PrunePropagationPolicy=foreground");
        options.propagation = match (background, foreground, orphan) {
            (true, _, _) => Propagation::Background,
            (false, false, true) => Propagation::Orphan,
            (false, _, _) => Propagation::Foreground,
        };
        options
    }
}

fn prune(item: &str) -> Option<Prune> {
    match item {
        "Prune=true" => Some(Prune::True),
        words::PRUNE_FALSE => Some(Prune::False),
        words::PRUNE_CONFIRM => Some(Prune::Confirm),
        _ => None,
    }
}

/// Options in the annotation of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ResourceOptions {
    pub no_validation: bool,
    pub skip_dry_run_on_missing: bool,
    pub prune: Option<Prune>,
    pub prune_last: bool,
    pub replace: Option<bool>,
    pub force: bool,
    pub server_side: Option<bool>,
}

impl ResourceOptions {
    pub fn of(object: &Value) -> Self {
        let mut options = Self::default();
        let text = object.annotation(annotations::SYNC_OPTIONS).unwrap_or_default();
        for item in text.split(',').map(str::trim) {
            match item {
                words::VALIDATE_FALSE => options.no_validation = true,
                words::SKIP_DRY_RUN_ON_MISSING_RESOURCE => options.skip_dry_run_on_missing = true,
                words::PRUNE_LAST => options.prune_last = true,
                words::REPLACE => options.replace = Some(true),
                "Replace=false" => options.replace = options.replace.or(Some(false)),
                words::FORCE => options.force = true,
                words::SERVER_SIDE_APPLY => options.server_side = Some(true),
                words::SERVER_SIDE_APPLY_FALSE => {
                    options.server_side = options.server_side.or(Some(false));
                }
                _ => options.prune = options.prune.or(prune(item)),
            }
        }
        options
    }
}

/// The request that changes an object to its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyMethod {
    /// Three-way patch from the last-applied annotation (SE-340).
    ClientSide,
    /// Server-side apply, forcing conflicts (SE-345).
    ServerSide,
    /// Replace an existing object, create a missing one; no annotation is
    /// added.
    Replace,
    /// Replace, and never delete: the deletion of a CustomResourceDefinition or
    /// a Namespace would delete everything in it (SE-350).
    Update,
    /// Create, with a name that the server chooses.
    Create,
}

/// How one object is applied (SE-310, SE-319..SE-322).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method {
    /// The request.
    pub how: ApplyMethod,
    /// Delete and recreate if the API server rejects a change of an immutable
    /// field or keeps reporting a conflict (SE-355). With [`ApplyMethod::Replace`]:
    /// always delete and create.
    pub force: bool,
    /// Whether unknown or invalid fields are rejected.
    pub validate: bool,
    /// Whether fields of a former client-side manager are migrated first
    /// (SE-346). Only with [`ApplyMethod::ServerSide`].
    pub migrate: bool,
}

/// Whether an object is deleted and created again by each sync. Of what is never deleted
/// ([`ApplyMethod::Update`]) not even the creation counts as such.
pub(super) fn is_recreated(
    target: &Value,
    live: Option<&Value>,
    app: &AppOptions,
    nameless: bool,
) -> bool {
    let Method { how, force, .. } = method(target, live, app, nameless);
    how == ApplyMethod::Replace && force && !is_kept(target)
}

/// Whether the deletion of an object would delete everything in it.
fn is_kept(target: &Value) -> bool {
    is_namespace(target) || defines(target).is_some()
}

/// Decides how to apply. `Replace` and `Force` count on target or live;
/// `Replace` overrides `ServerSideApply`; the option of a resource overrides
/// that of the operation.
pub(super) fn method(
    target: &Value,
    live: Option<&Value>,
    app: &AppOptions,
    nameless: bool,
) -> Method {
    let on_target = ResourceOptions::of(target);
    let on_live = live.map(ResourceOptions::of).unwrap_or_default();
    let replace = match (on_target.replace, on_live.replace) {
        (Some(word), _) => word,
        (None, Some(true)) => true,
        (None, _) => app.replace,
    };
    let how = match (replace, on_target.server_side.unwrap_or(app.server_side)) {
        _ if nameless => ApplyMethod::Create,
        (true, _) if is_kept(target) && live.is_some() => ApplyMethod::Update,
        (true, _) => ApplyMethod::Replace,
        (false, true) => ApplyMethod::ServerSide,
        (false, false) => ApplyMethod::ClientSide,
    };
    let force = on_target.force || on_live.force || app.force;
    Method {
        how,
        force: force && !matches!(how, ApplyMethod::Update | ApplyMethod::Create),
        validate: !(on_target.no_validation || app.no_validation),
        migrate: how == ApplyMethod::ServerSide && !app.no_migration,
    }
}
