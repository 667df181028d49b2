//! Which kinds no Application manages: the built-in exclusions, and the settings
//! `resource.exclusions` and `resource.inclusions` (SE-120).

use std::sync::Arc;

use serde_json::Value;

use super::kind::is_excluded;
use crate::glob::Glob;

/// The key of the excluded kinds in the ConfigMap `argocd-cm`.
pub const EXCLUSIONS: &str = "resource.exclusions";
/// The key of the kinds that are the only ones managed.
pub const INCLUSIONS: &str = "resource.inclusions";

/// One entry of a list: kinds of some clusters. An empty list matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Rule {
    groups: Vec<Glob>,
    kinds: Vec<Glob>,
    clusters: Vec<Glob>,
}

impl Rule {
    fn is_about(&self, cluster: &str) -> bool {
        fits(&self.clusters, cluster)
    }

    fn matches(&self, group: &str, kind: &str) -> bool {
        fits(&self.groups, group) && fits(&self.kinds, kind)
    }
}

fn fits(patterns: &[Glob], text: &str) -> bool {
    patterns.is_empty() || patterns.iter().any(|pattern| pattern.matches(text))
}

/// The settings. `Default` has the built-in exclusions only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceFilter {
    exclusions: Vec<Rule>,
    inclusions: Vec<Rule>,
}

impl ResourceFilter {
    /// Reads both settings, each a YAML list of `{apiGroups, kinds, clusters}`; an empty
    /// text is an empty list.
    ///
    /// # Errors
    ///
    /// The key, and what is wrong. A rule that is not understood must not count as absent:
    /// it protects resources.
    pub fn parse(exclusions: &str, inclusions: &str) -> Result<Self, String> {
        let read = |key: &str, text: &str| {
            rules(text).map_err(|error| {
                format!(
                    "{key} of ConfigMap argocd-cm: {error}; write a list of entries with \
                     apiGroups, kinds and clusters"
                )
            })
        };
        Ok(Self {
            exclusions: read(EXCLUSIONS, exclusions)?,
            inclusions: read(INCLUSIONS, inclusions)?,
        })
    }

    /// The part that concerns one cluster, by its URL. Without an inclusion for the cluster,
    /// all kinds that are not excluded are managed.
    pub fn on(&self, server: &str) -> KindFilter {
        let of = |rules: &[Rule]| -> Vec<Rule> {
            rules.iter().filter(|rule| rule.is_about(server)).cloned().collect()
        };
        let (exclusions, inclusions) = (of(&self.exclusions), of(&self.inclusions));
        KindFilter(Arc::new(Self { exclusions, inclusions }))
    }
}

/// The kinds of one cluster that are not managed. `Default` has the built-in exclusions only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KindFilter(Arc<ResourceFilter>);

impl KindFilter {
    /// Whether a kind is not managed; an exclusion comes before an inclusion.
    pub fn excludes(&self, group: &str, kind: &str) -> bool {
        let ResourceFilter { exclusions, inclusions } = &*self.0;
        let any = |rules: &[Rule]| rules.iter().any(|rule| rule.matches(group, kind));
        is_excluded(group, kind) || any(exclusions) || !inclusions.is_empty() && !any(inclusions)
    }

    /// Whether no kind of an API group is managed, as far as the rules say so without names of
    /// kinds.
    pub fn excludes_group(&self, group: &str) -> bool {
        let ResourceFilter { exclusions, inclusions } = &*self.0;
        let is_about = |rule: &Rule| fits(&rule.groups, group);
        is_excluded(group, "")
            || exclusions.iter().any(|rule| rule.matches(group, ""))
            || !inclusions.is_empty() && !inclusions.iter().any(is_about)
    }
}

fn rules(text: &str) -> Result<Vec<Rule>, String> {
    let wrong = |error: crate::yaml::YamlError| error.to_string();
    if crate::yaml::parse_documents(text).map_err(wrong)?.is_empty() {
        return Ok(Vec::new());
    }
    match crate::yaml::parse_value(text).map_err(wrong)? {
        Value::Null => Ok(Vec::new()),
        Value::Array(entries) => {
            entries.iter().enumerate().map(|(at, entry)| rule(at, entry)).collect()
        }
        _ => Err("is not a list".to_owned()),
    }
}

fn rule(at: usize, entry: &Value) -> Result<Rule, String> {
    let fields = entry.as_object().ok_or_else(|| format!("[{at}] is not a map"))?;
    let mut rule = Rule::default();
    for (name, value) in fields {
        // Go matches the names of fields in any case.
        let list = match name.to_lowercase().as_str() {
            "apigroups" => &mut rule.groups,
            "kinds" => &mut rule.kinds,
            "clusters" => &mut rule.clusters,
            // Without the field that was meant, the entry would match everything.
            _ => return Err(format!("[{at}].{name} is unknown")),
        };
        let items = match value {
            Value::Null => continue,
            Value::Array(items) => items,
            _ => return Err(format!("[{at}].{name} is not a list")),
        };
        for (index, item) in items.iter().enumerate() {
            let wrong = |error: &dyn std::fmt::Display| format!("[{at}].{name}[{index}]: {error}");
            let text = item.as_str().ok_or_else(|| wrong(&"not a text"))?;
            list.push(Glob::new(text).map_err(|error| wrong(&error))?);
        }
    }
    Ok(rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SE-120: globs, empty lists, clusters, exclusion before inclusion.
    #[test]
    fn kinds_are_excluded_and_included_as_se_120() {
        let exclusions = "
- apiGroups: [\"*.k8s.io\"]
  kinds: [\"*\"]
  clusters: [https://one*]
- apiGroups: [\"\"]
  kinds: [Secret]
- kinds: [Gadget]
";
        let filter = ResourceFilter::parse(exclusions, "").unwrap();
        let cases = [
            ("https://one.example", "networking.k8s.io", "Ingress", true),
            ("https://two.example", "networking.k8s.io", "Ingress", false),
            ("https://two.example", "", "Secret", true),
            ("https://two.example", "", "ConfigMap", false),
            ("https://two.example", "example.com", "Secret", false),
            ("https://two.example", "any.example", "Gadget", true),
            ("https://two.example", "", "Event", true),
        ];
        for (server, group, kind, want) in cases {
            assert_eq!(filter.on(server).excludes(group, kind), want, "{server} {group}/{kind}");
        }
        let inclusions = "[{apiGroups: [apps, \"\"], clusters: [https://one]}]";
        let filter = ResourceFilter::parse("[{kinds: [Secret]}]", inclusions).unwrap();
        let cases = [
            ("https://one", "apps", "Deployment", false),
            ("https://one", "batch", "Job", true),
            ("https://one", "", "Secret", true),
            ("https://two", "batch", "Job", false),
        ];
        for (server, group, kind, want) in cases {
            assert_eq!(filter.on(server).excludes(group, kind), want, "{server} {group}/{kind}");
        }
    }

    #[test]
    fn a_rule_that_is_not_understood_is_an_error_with_its_place() {
        for (text, want) in [
            ("kinds: [Secret]", "is not a list"),
            ("[{kind: [Secret]}]", "[0].kind is unknown"),
            ("[{kinds: Secret}]", "[0].kinds is not a list"),
            ("[{}, {kinds: [1]}]", "[1].kinds[0]: not a text"),
            ("[{apiGroups: [\"{a\"]}]", "[0].apiGroups[0]: pattern"),
            ("[", "resource.exclusions of ConfigMap argocd-cm: "),
        ] {
            let error = ResourceFilter::parse(text, "").unwrap_err();
            assert!(error.contains(want), "{text}: {error}");
        }
        for text in ["", " \n", "[]", "null", "# nothing\n"] {
            assert_eq!(
                ResourceFilter::parse(text, text),
                Ok(ResourceFilter::default()),
                "{text:?}"
            );
        }
    }
}
