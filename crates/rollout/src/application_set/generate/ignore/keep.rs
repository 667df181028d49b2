//! Ignored fields keep their live value, inside lists, too (AS-163).
//!
//! An element of a list is matched by its content, not by its index: a source
//! that is inserted before another one must not take over its live revision.
//! Two elements match when they only differ in ignored fields; else when they
//! have the same name or other key; else, for elements without a key, when they
//! have the same index. A new element has no live value and is written as
//! generated.
//!
//! An ignored element that exists only in the cluster is kept, at its position
//! among its neighbours; one that is only generated is not written.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Map, Value};

use wavegate_engine::diff::path::{self, Path, PathStep};

/// The selections of the rules.
pub struct IgnoredFields<'a> {
    /// The paths that expressions select in the generated object.
    pub in_target: Vec<Path>,
    /// The paths that expressions select in the live object.
    pub in_live: Vec<Path>,
    /// JSON pointers, as tokens: a number is an index of the generated list.
    pub pointers: &'a [&'a [String]],
}

/// Copies the ignored fields of `live` to `target`.
pub fn live_values(target: &mut Value, live: &Value, ignored: &IgnoredFields<'_>) {
    let (mut in_target, mut in_live) = (Marks::default(), Marks::default());
    ignored.in_target.iter().for_each(|path| in_target.mark(path));
    ignored.in_live.iter().for_each(|path| in_live.mark(path));
    for tokens in ignored.pointers {
        in_target.mark_tokens(Some(target), tokens);
        // In a list that both have, the generated index counts.
        if !passes_a_list(target, tokens) {
            in_live.mark_tokens(Some(live), tokens);
        }
    }
    let merged = merged(Some(target), Some(live), &in_target, &in_live);
    *target = merged.unwrap_or_default();
}

/// The ignored paths below a value.
#[derive(Debug, Default)]
struct Marks {
    /// The value itself is ignored.
    whole: bool,
    below: BTreeMap<PathStep, Marks>,
}

impl Marks {
    const NONE: &'static Self = &Self { whole: false, below: BTreeMap::new() };

    fn mark(&mut self, path: &[PathStep]) {
        match path.split_first() {
            None => self.whole = true,
            Some((step, rest)) => self.below.entry(step.clone()).or_default().mark(rest),
        }
    }

    /// Marks a path of pointer tokens, whether it exists or not; a token is an
    /// index only in a list, where a negative one counts from the end.
    fn mark_tokens(&mut self, value: Option<&Value>, tokens: &[String]) {
        let Some((token, rest)) = tokens.split_first() else {
            self.whole = true;
            return;
        };
        let (step, next) = match value {
            Some(Value::Array(list)) => match path::list_index(token, list.len()) {
                Some(index) => (PathStep::Index(index), list.get(index)),
                None => return,
            },
            Some(value) => (PathStep::Key(token.clone()), value.get(token)),
            None => (PathStep::Key(token.clone()), None),
        };
        self.below.entry(step).or_default().mark_tokens(next, rest);
    }

    fn is_empty(&self) -> bool {
        !self.whole && self.below.is_empty()
    }

    fn at(&self, step: &PathStep) -> &Self {
        self.below.get(step).unwrap_or(Self::NONE)
    }

    fn at_index(&self, index: usize) -> &Self {
        self.at(&PathStep::Index(index))
    }
}

/// Whether pointer tokens lead through a list that the value has.
fn passes_a_list(value: &Value, tokens: &[String]) -> bool {
    let Some((token, rest)) = tokens.split_first() else { return false };
    match value {
        Value::Object(object) => object.get(token).is_some_and(|next| passes_a_list(next, rest)),
        Value::Array(_) => true,
        _ => false,
    }
}

/// The target with the live values of ignored fields; `None` when nothing is
/// left.
fn merged(
    target: Option<&Value>,
    live: Option<&Value>,
    in_target: &Marks,
    in_live: &Marks,
) -> Option<Value> {
    if in_target.whole || in_live.whole {
        return live.cloned();
    }
    if in_target.is_empty() && in_live.is_empty() {
        return target.cloned();
    }
    match (target, live) {
        (Some(Value::Array(target)), Some(Value::Array(live))) => {
            Some(Value::Array(merged_list(target, live, in_target, in_live)))
        }
        (Some(Value::Array(target)), _) => {
            Some(Value::Array(merged_list(target, &[], in_target, Marks::NONE)))
        }
        (None, Some(Value::Array(live))) => {
            let kept = merged_list(&[], live, Marks::NONE, in_live);
            (!kept.is_empty()).then_some(Value::Array(kept))
        }
        (Some(Value::Object(_)) | None, live) => {
            let empty = Map::new();
            let fields = |value: Option<&Value>| value.and_then(Value::as_object).cloned();
            let mut object = fields(target).unwrap_or_default();
            let live = live.and_then(Value::as_object).unwrap_or(&empty);
            let mut steps: Vec<&PathStep> = in_target.below.keys().collect();
            steps.extend(in_live.below.keys());
            for step in steps {
                let PathStep::Key(key) = step else { continue };
                let field = target.and_then(|target| target.get(key));
                match merged(field, live.get(key), in_target.at(step), in_live.at(step)) {
                    Some(value) => object.insert(key.clone(), value),
                    None => object.remove(key),
                };
            }
            (target.is_some() || !object.is_empty()).then_some(Value::Object(object))
        }
        (Some(other), _) => Some(other.clone()),
    }
}

fn merged_list(target: &[Value], live: &[Value], in_target: &Marks, in_live: &Marks) -> Vec<Value> {
    let pairs = pairs(target, live, in_target, in_live);
    let live_of: BTreeMap<usize, usize> = pairs.iter().copied().collect();
    let target_of: BTreeMap<usize, usize> = pairs.iter().map(|(t, l)| (*l, *t)).collect();
    // Elements that exist only in the cluster, by the generated one that they
    // follow.
    let mut strays: BTreeMap<Option<usize>, Vec<Value>> = BTreeMap::new();
    let mut after = None;
    for (index, value) in live.iter().enumerate() {
        match target_of.get(&index) {
            Some(at) => after = Some(*at),
            None if in_live.at_index(index).whole => {
                strays.entry(after).or_default().push(value.clone());
            }
            None => {}
        }
    }
    let mut list = strays.remove(&None).unwrap_or_default();
    for (index, value) in target.iter().enumerate() {
        let marks = in_target.at_index(index);
        match live_of.get(&index) {
            Some(at) => {
                list.extend(merged(Some(value), live.get(*at), marks, in_live.at_index(*at)));
            }
            None if marks.whole => {}
            None => list.push(value.clone()),
        }
        list.extend(strays.remove(&Some(index)).unwrap_or_default());
    }
    list
}

/// The matching elements as indices (generated, live). Each is in at most one
/// pair.
fn pairs(
    target: &[Value],
    live: &[Value],
    in_target: &Marks,
    in_live: &Marks,
) -> Vec<(usize, usize)> {
    let reduced = |list: &[Value], marks: &Marks| -> Vec<Value> {
        let of = |(index, value): (usize, &Value)| {
            let marks = marks.at_index(index);
            // An element that is ignored as a whole is identified by its
            // complete content.
            if marks.whole { value.clone() } else { without(value, marks).unwrap_or_default() }
        };
        list.iter().enumerate().map(of).collect()
    };
    let (target, live) = (reduced(target, in_target), reduced(live, in_live));
    let mut pairs =
        Pairs { found: Vec::new(), taken: (vec![false; target.len()], vec![false; live.len()]) };
    // Usually the order is unchanged.
    pairs.add(
        (0..target.len().min(live.len())).filter(|at| target[*at] == live[*at]).map(|at| (at, at)),
    );
    pairs.by(&target, &live, &|value| Some(value.to_string()));
    pairs.by(&target, &live, &|value| identity(value, &NAMES));
    pairs.by(&target, &live, &|value| identity(value, &WEAK_NAMES));
    let nameless = |value: &Value| identity(value, &WEAK_NAMES).is_none();
    let same_place = (0..target.len().min(live.len()))
        .filter(|at| nameless(&target[*at]) && nameless(&live[*at]))
        .map(|at| (at, at));
    pairs.add(same_place);
    pairs.found
}

/// The key fields of list elements of an Application: parameters, sources,
/// ignored differences, replicas.
const NAMES: [&str; 8] = ["name", "ref", "repoURL", "chart", "path", "group", "kind", "namespace"];
/// The same if the other fields have changed.
const WEAK_NAMES: [&str; 3] = ["name", "repoURL", "kind"];

fn identity(value: &Value, fields: &[&str]) -> Option<String> {
    let object = value.as_object()?;
    let named: Vec<(&str, &Value)> =
        fields.iter().filter_map(|field| Some((*field, object.get(*field)?))).collect();
    (!named.is_empty()).then(|| format!("{named:?}"))
}

struct Pairs {
    found: Vec<(usize, usize)>,
    taken: (Vec<bool>, Vec<bool>),
}

impl Pairs {
    fn add(&mut self, pairs: impl Iterator<Item = (usize, usize)>) {
        for (target, live) in pairs {
            if !self.taken.0[target] && !self.taken.1[live] {
                (self.taken.0[target], self.taken.1[live]) = (true, true);
                self.found.push((target, live));
            }
        }
    }

    /// Pairs elements of the same key, in order.
    fn by(&mut self, target: &[Value], live: &[Value], key: &dyn Fn(&Value) -> Option<String>) {
        let mut places: BTreeMap<String, VecDeque<usize>> = BTreeMap::new();
        for (index, value) in live.iter().enumerate().filter(|(index, _)| !self.taken.1[*index]) {
            if let Some(key) = key(value) {
                places.entry(key).or_default().push_back(index);
            }
        }
        let free = target.iter().enumerate().filter(|(index, _)| !self.taken.0[*index]);
        let found: Vec<(usize, usize)> = free
            .filter_map(|(index, value)| Some((index, places.get_mut(&key(value)?)?.pop_front()?)))
            .collect();
        self.add(found.into_iter());
    }
}

/// A value without its ignored fields; `None` when nothing is left.
fn without(value: &Value, marks: &Marks) -> Option<Value> {
    if marks.whole {
        return None;
    }
    if marks.is_empty() {
        return Some(value.clone());
    }
    match value {
        Value::Object(object) => {
            let fields = object.iter().filter_map(|(key, value)| {
                Some((key.clone(), without(value, marks.at(&PathStep::Key(key.clone())))?))
            });
            let fields: Map<String, Value> = fields.collect();
            // A field that is empty without them is treated as absent.
            (!fields.is_empty()).then_some(Value::Object(fields))
        }
        Value::Array(list) => {
            let items = list.iter().enumerate();
            let items = items.filter_map(|(index, value)| without(value, marks.at_index(index)));
            let items: Vec<Value> = items.collect();
            (!items.is_empty()).then_some(Value::Array(items))
        }
        other => Some(other.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Ignore;
    use serde_json::{Value, json};

    /// The generated object as it would be written.
    fn written(rule: Value, generated: &Value, live: &Value) -> Value {
        let set = json!({"spec": {"ignoreApplicationDifferences": [rule]}});
        let (ignore, problems) = Ignore::read(&set, &wavegate_engine::diff::Jq::default());
        assert!(problems.is_empty(), "{problems:?}");
        let of = |spec: &Value| json!({"spec": spec, "metadata": {}});
        let mut target = of(generated);
        ignore.keep_live("a", &mut target, &of(live)).unwrap();
        // The result is stable.
        let mut again = of(generated);
        ignore.keep_live("a", &mut again, &target).unwrap();
        assert_eq!(again, target, "it is written again and again");
        target["spec"].clone()
    }

    fn jq(expression: &str) -> Value {
        json!({"jqPathExpressions": [expression]})
    }

    fn source(repository: &str, revision: &str) -> Value {
        json!({"repoURL": repository, "targetRevision": revision})
    }

    #[test]
    fn a_live_value_inside_of_a_list_stays_with_its_element_as_163() {
        let revisions = || jq(".spec.sources[].targetRevision");
        let of_r1 = || jq(".spec.sources[] | select(.repoURL == \"r1\").targetRevision");
        let hotfix =
            || jq(".spec.sources[] | select(.targetRevision == \"hotfix\").targetRevision");
        let live = || json!({"sources": [source("r1", "hotfix"), source("r2", "v1")]});
        let of = |sources: Vec<Value>| json!({ "sources": sources });
        let cases = [
            ("nothing moved", revisions(), of(vec![source("r1", "m"), source("r2", "m")]), live()),
            (
                "a new element before it takes nothing over",
                of_r1(),
                of(vec![source("r0", "m"), source("r1", "m"), source("r2", "m")]),
                of(vec![source("r0", "m"), source("r1", "hotfix"), source("r2", "m")]),
            ),
            (
                "all of them, in another order",
                revisions(),
                of(vec![source("r2", "m"), source("r0", "m"), source("r1", "m")]),
                of(vec![source("r2", "v1"), source("r0", "m"), source("r1", "hotfix")]),
            ),
            (
                "one is removed before it",
                revisions(),
                of(vec![source("r2", "m")]),
                of(vec![source("r2", "v1")]),
            ),
            (
                "another repository is another source",
                revisions(),
                of(vec![source("r3", "m"), source("r2", "m")]),
                of(vec![source("r3", "m"), source("r2", "v1")]),
            ),
            (
                "only the live value is selected",
                hotfix(),
                of(vec![source("r0", "m"), source("r1", "m"), source("r2", "v1")]),
                of(vec![source("r0", "m"), source("r1", "hotfix"), source("r2", "v1")]),
            ),
            (
                "a pointer names a place in what is generated",
                json!({"jsonPointers": ["/spec/sources/1/targetRevision"]}),
                of(vec![source("r0", "m"), source("r1", "m"), source("r2", "m")]),
                of(vec![source("r0", "m"), source("r1", "hotfix"), source("r2", "m")]),
            ),
        ];
        for (name, rule, generated, want) in cases {
            assert_eq!(written(rule, &generated, &live()), want, "{name}");
        }
    }

    #[test]
    fn an_ignored_element_of_the_cluster_stays_and_one_that_is_not_there_is_not_written() {
        let rule = || jq(".spec.source.helm.parameters[] | select(.name == \"image.tag\")");
        let helm = |parameters: &[(&str, &str)]| {
            let one = |(name, value): &(&str, &str)| json!({"name": name, "value": value});
            let parameters: Vec<Value> = parameters.iter().map(one).collect();
            json!({"source": {"helm": {"parameters": parameters}}})
        };
        let cases = [
            (
                helm(&[("a", "2"), ("b", "2")]),
                helm(&[("a", "1"), ("image.tag", "live"), ("b", "1")]),
                helm(&[("a", "2"), ("image.tag", "live"), ("b", "2")]),
            ),
            (helm(&[("a", "2"), ("image.tag", "x")]), helm(&[("a", "1")]), helm(&[("a", "2")])),
            (
                helm(&[("image.tag", "x"), ("a", "2")]),
                helm(&[("a", "1"), ("image.tag", "live")]),
                helm(&[("image.tag", "live"), ("a", "2")]),
            ),
            (json!({}), helm(&[("image.tag", "live")]), helm(&[("image.tag", "live")])),
            (json!({}), helm(&[("b", "1")]), json!({})),
        ];
        for (generated, live, want) in cases {
            assert_eq!(written(rule(), &generated, &live), want, "{generated} over {live}");
        }
        // A field added in the cluster below an ignored one.
        let whole = json!({"jsonPointers": ["/spec/sources/0/helm/parameters"]});
        let generated = json!({"sources": [source("r0", "m"), source("r1", "m")]});
        let mut live = generated.clone();
        live["sources"][0]["helm"] = helm(&[("x", "1")])["source"]["helm"].clone();
        assert_eq!(written(whole, &generated, &live), live);
    }
}
