//! Applying ignore rules (SE-170 … SE-175, SE-331 … SE-333).

use serde_json::{Map, Value};

use super::config::DiffConfig;
use super::fields::{elements, entries, is_leaf, keys_match};
use super::jq::{JqError, JqExpression, MAX_STEPS_OF_EVENT, Question};
use super::keys;
use super::keys::ListKind;
use super::normalize::{Purpose, normalize_object};
use super::path::{Path, PathStep, get, locate, remove_all};
use super::rule::Rule;
use wavegate_api::Raw;
use wavegate_api::kind::KindRef;

/// What is ignored in a target and its live object.
#[derive(Clone, Debug, Default)]
pub struct IgnoredPaths {
    in_target: Vec<Path>,
    in_live: Vec<Path>,
    /// The expressions that could not be evaluated for this object; they are skipped
    /// (SE-173).
    pub skipped: Skipped,
}

impl IgnoredPaths {
    /// Removes the ignored fields from both sides.
    pub fn remove(self, target: Option<&mut Value>, live: Option<&mut Value>) -> Skipped {
        for (side, paths) in [(target, self.in_target), (live, self.in_live)] {
            if let Some(value) = side {
                remove_all(value, paths);
            }
        }
        self.skipped
    }
}

/// A live object without the fields that the rules for it name, by pointers and by expressions
/// that are followed in this process; `None` when no rule is about it, or when one has an
/// expression that only a worker could evaluate: then all of it counts. This is asked for each
/// event of a watch, which must not wait.
pub fn without_ignored(rules: &[Rule], object: &Value) -> Option<Value> {
    let kind = KindRef::of(object);
    let (name, namespace) = (object.name(), object.namespace());
    let mut paths = Vec::new();
    let mut steps = MAX_STEPS_OF_EVENT;
    let mut is_about = false;
    for rule in rules.iter().filter(|rule| rule.matches(kind, name, namespace)) {
        is_about = true;
        for expression in &rule.expressions {
            // One that fails for the object is skipped.
            paths.extend(expression.paths(object, &mut steps)?.into_iter().flatten());
        }
        paths.extend(rule.pointers.iter().filter_map(|tokens| locate(object, tokens)));
    }
    if !is_about {
        return None;
    }
    let mut rest = object.clone();
    remove_all(&mut rest, paths);
    Some(rest)
}

/// Skipped expressions of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// The object does not have the required shape.
    pub mismatched: Vec<String>,
    /// They exceed their limits, or cannot be evaluated.
    pub exhausted: Vec<String>,
    /// Whether an expression could not be evaluated for a reason that may pass.
    pub is_provisional: bool,
}

/// A target, its live object, and the live object as read, with its managed fields.
pub type Sides<'a> = (Option<&'a Value>, Option<&'a Value>, Option<&'a Value>);

/// The ignored paths of both sides of each pair. The expressions of all pairs are evaluated
/// together.
pub(crate) fn ignored(pairs: &[Sides<'_>], config: &DiffConfig) -> Vec<IgnoredPaths> {
    let rules: Vec<Vec<&Rule>> = (pairs.iter())
        .map(|(target, live, _)| {
            target.or(*live).map_or_else(Vec::new, |object| config.rules_for(object).collect())
        })
        .collect();
    let mut questions = Vec::new();
    let mut asked = Vec::new();
    for (at, ((target, live, _), rules)) in pairs.iter().zip(&rules).enumerate() {
        let expressions: Vec<&JqExpression> =
            rules.iter().flat_map(|rule| &rule.expressions).collect();
        for (object, is_live) in [(target, false), (live, true)] {
            if let Some(object) = object.filter(|_| !expressions.is_empty()) {
                questions.push(Question { object, expressions: expressions.clone() });
                asked.push((at, is_live));
            }
        }
    }
    let mut all: Vec<IgnoredPaths> = pairs.iter().map(|_| IgnoredPaths::default()).collect();
    let answers = config.jq.paths(&config.scope, &questions);
    for (((at, is_live), question), answers) in asked.into_iter().zip(&questions).zip(answers) {
        let ignored = &mut all[at];
        for (expression, answer) in question.expressions.iter().zip(answers) {
            match answer {
                Ok(paths) if is_live => ignored.in_live.extend(paths),
                Ok(paths) => ignored.in_target.extend(paths),
                Err(error) => ignored.skipped.add(expression.text(), &error),
            }
        }
    }
    for (((target, live, owned), rules), ignored) in pairs.iter().zip(&rules).zip(&mut all) {
        for rule in rules {
            let located = |value: &&Value| -> Vec<Path> {
                rule.pointers.iter().filter_map(|tokens| locate(value, tokens)).collect()
            };
            ignored.in_target.extend(target.iter().flat_map(located));
            ignored.in_live.extend(live.iter().flat_map(located));
            if let (Some(target), Some(live), Some(owned)) = (target, live, owned) {
                managed(rule, (target, live), owned, ignored);
            }
        }
    }
    all
}

/// The paths that listed managers own and that differ (SE-174).
fn managed(
    rule: &Rule,
    (target, live): (&Value, &Value),
    owned: &Value,
    ignored: &mut IgnoredPaths,
) {
    for entry in entries(owned) {
        let manager = entry.get("manager").and_then(Value::as_str).unwrap_or_default();
        let listed = rule.managers.iter().any(|listed| listed == manager);
        if let Some(fields) = entry.get("fieldsV1").filter(|_| listed) {
            let IgnoredPaths { in_target, in_live, .. } = ignored;
            let mut places = Places { in_target, in_live };
            places.changed(
                fields,
                (Some(target), &mut Path::new()),
                (Some(live), &mut Path::new()),
            );
        }
    }
}

impl Skipped {
    /// Only the first error of an expression is reported: both sides mostly fail alike.
    fn add(&mut self, text: &str, error: &JqError) {
        let start = format!("{text:?}: ");
        self.is_provisional |= matches!(error, JqError::Deferred(_) | JqError::Unavailable(_));
        let list = match error {
            JqError::Mismatch(_) => &mut self.mismatched,
            JqError::Exhausted(_) | JqError::Deferred(_) | JqError::Unavailable(_) => {
                &mut self.exhausted
            }
        };
        if !list.iter().any(|line| line.starts_with(&start)) {
            list.push(format!("{start}{error}"));
        }
    }
}

/// Collects the paths that a manager owns and that differ.
struct Places<'a> {
    in_target: &'a mut Vec<Path>,
    in_live: &'a mut Vec<Path>,
}

/// A value that may be absent, with its path.
type Side<'v, 'p> = (Option<&'v Value>, &'p mut Path);

impl Places<'_> {
    fn changed(&mut self, fields: &Value, target: Side<'_, '_>, live: Side<'_, '_>) {
        let (wanted, target_path) = target;
        let (found, live_path) = live;
        if wanted == found {
            return;
        }
        // A value that exists on one side only is ignored as a whole.
        if is_leaf(fields) || wanted.is_none() || found.is_none() {
            let whole = is_leaf(fields) || fields.get(".").is_some();
            if whole {
                self.in_target.extend(wanted.map(|_| target_path.clone()));
                self.in_live.extend(found.map(|_| live_path.clone()));
                return;
            }
        }
        for (key, below) in fields.as_object().into_iter().flatten() {
            let steps = |side: Option<&Value>| step(side, key);
            let (to_target, to_live) = (steps(wanted), steps(found));
            if to_target.is_none() && to_live.is_none() {
                continue;
            }
            let child = |side: Option<&Value>, step: &Option<PathStep>| -> Option<Value> {
                get(side?, std::slice::from_ref(step.as_ref()?)).cloned()
            };
            let (a, b) = (child(wanted, &to_target), child(found, &to_live));
            target_path.extend(to_target.clone());
            live_path.extend(to_live.clone());
            self.changed(below, (a.as_ref(), target_path), (b.as_ref(), live_path));
            if to_target.is_some() {
                target_path.pop();
            }
            if to_live.is_some() {
                live_path.pop();
            }
        }
    }
}

/// The path element of a key in an ownership tree.
fn step(value: Option<&Value>, key: &str) -> Option<PathStep> {
    let value = value?;
    if let Some(name) = key.strip_prefix("f:") {
        return value.get(name).map(|_| PathStep::Key(name.to_owned()));
    }
    let list = value.as_array()?;
    let position = if key.starts_with("k:") {
        let tree = Value::Object(Map::from_iter([(key.to_owned(), Value::Null)]));
        let (keys, _) = elements(&tree).next()?;
        list.iter().position(|element| keys_match(&keys, element))
    } else if let Some(member) = key.strip_prefix("v:") {
        let member: Value = serde_json::from_str(member).ok()?;
        list.iter().position(|element| *element == member)
    } else {
        key.strip_prefix("i:")?.parse().ok()
    };
    position.map(PathStep::Index)
}

/// The targets to apply with `RespectIgnoreDifferences=true` (SE-331 … SE-333): ignored
/// fields have the live value, or are absent if live has none. All other fields are those
/// of the target, also inside replaced parents. Status is never copied from live.
pub fn respect_ignored(pairs: &[(&Value, &Value)], config: &DiffConfig) -> Vec<Value> {
    let normalized: Vec<(Value, Value)> = (pairs.iter())
        .map(|(target, live)| {
            let (mut wanted, mut found) = ((*target).clone(), (*live).clone());
            for side in [&mut wanted, &mut found] {
                normalize_object(side, Purpose::Apply, &config.system);
            }
            (wanted, found)
        })
        .collect();
    let sides: Vec<Sides<'_>> = (normalized.iter().zip(pairs))
        .map(|((wanted, found), (_, live))| (Some(wanted), Some(found), Some(*live)))
        .collect();
    let all = ignored(&sides, config);
    let with_live = |((wanted, found), ignored): ((Value, Value), IgnoredPaths)| {
        respected(wanted, &found, ignored)
    };
    normalized.into_iter().zip(all).map(with_live).collect()
}

fn respected(mut wanted: Value, found: &Value, ignored: IgnoredPaths) -> Value {
    let taken: Vec<(Path, Value)> = (ignored.in_live.into_iter())
        .filter(|path| path.first() != Some(&PathStep::Key("status".to_owned())))
        .filter_map(|path| Some((path.clone(), get(found, &path)?.clone())))
        .collect();
    let before = wanted.clone();
    let kind = KindRef::of(&before);
    let is_there = |path: &Path| has_counterpart(kind, &before, found, path);
    remove_all(&mut wanted, ignored.in_target.into_iter().filter(is_there).collect());
    for (path, value) in taken {
        put(&mut wanted, kind, found, &path, value);
    }
    wanted
}

/// Whether the elements of lists in which an ignored field of the target is are there in live.
/// One that is not is new, such as a container: nobody has a value for its fields but the target.
fn has_counterpart(kind: KindRef<'_>, target: &Value, live: &Value, path: &[PathStep]) -> bool {
    let Some((_, parents)) = path.split_last() else { return true };
    let (mut here, mut there) = (target, Some(live));
    let mut fields: Vec<&str> = Vec::new();
    for step in parents {
        let Some(next) = get(here, std::slice::from_ref(step)) else { return true };
        there = match step {
            PathStep::Key(key) => {
                fields.push(key);
                there.and_then(|there| there.get(key))
            }
            PathStep::Index(index) => {
                let list = there.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                let element = match same_element(kind, &fields, list, next) {
                    Same::At(at) => list.get(at),
                    Same::ByPosition => list.get(*index),
                    Same::Nowhere => None,
                };
                if element.is_none() {
                    return false;
                }
                element
            }
        };
        here = next;
    }
    true
}

/// Sets a live value in the target of a kind. Missing parents are created; a list element is
/// found by its key, and without one nothing is set: an element with only an ignored
/// field would be invalid.
fn put(target: &mut Value, kind: KindRef<'_>, live: &Value, live_path: &[PathStep], value: Value) {
    let Some((last, parents)) = live_path.split_last() else { return };
    let mut here = target;
    let mut seen = live;
    let mut fields: Vec<&str> = Vec::new();
    for step in parents {
        let next = get(seen, std::slice::from_ref(step));
        match (step, next) {
            (PathStep::Key(key), Some(next)) => {
                let Some(map) = here.as_object_mut() else { return };
                let empty = || match next {
                    Value::Array(_) => Value::Array(Vec::new()),
                    _ => Value::Object(Map::new()),
                };
                here = map.entry(key.clone()).or_insert_with(empty);
                fields.push(key);
                seen = next;
            }
            (PathStep::Index(index), Some(next)) => {
                let Some(list) = here.as_array_mut() else { return };
                let at = match same_element(kind, &fields, list, next) {
                    Same::At(at) => at,
                    Same::Nowhere => return,
                    Same::ByPosition => *index,
                };
                let Some(element) = list.get_mut(at) else { return };
                here = element;
                seen = next;
            }
            (_, None) => return,
        }
    }
    match (last, here) {
        (PathStep::Key(key), Value::Object(map)) => {
            map.insert(key.clone(), value);
        }
        (PathStep::Index(index), Value::Array(list)) => {
            match same_element(kind, &fields, list, &value) {
                Same::At(at) => list[at] = value,
                // An injected element is inserted at its position in live.
                Same::Nowhere | Same::ByPosition => {
                    list.insert((*index).min(list.len()), value);
                }
            }
        }
        _ => {}
    }
}

/// The position of an element in another list.
enum Same {
    At(usize),
    Nowhere,
    /// The elements of this list have no keys.
    ByPosition,
}

/// Where `one` is in a list of the other side.
fn same_element(kind: KindRef<'_>, fields: &[&str], list: &[Value], one: &Value) -> Same {
    let keys = match keys::list_kind(kind, fields) {
        ListKind::Keyed(keys) if kind.is_built_in() => keys,
        // Elements of custom resources are mostly identified by name.
        _ if one.get("name").is_some() => vec!["name".to_owned()],
        _ => return Same::ByPosition,
    };
    let same = |element: &Value| keys::are_same(&keys, element, one);
    list.iter().position(same).map_or(Same::Nowhere, Same::At)
}
