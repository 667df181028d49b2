//! The namespaces that are watched: that of the control plane, and others.

use wavegate_api::glob::NamePattern;

/// The default namespace of the control plane.
pub const CONTROL_PLANE_NAMESPACE: &str = "argocd";

/// Additional namespaces, as globs or `/regex/`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Namespaces {
    patterns: Vec<NamePattern>,
}

impl Namespaces {
    /// Parses the patterns. They come from a comma-separated list, so a pattern with an
    /// open brace continues in the next element.
    ///
    /// # Errors
    ///
    /// The pattern that is neither a valid glob nor a valid regular expression, and why.
    pub fn parse(patterns: &[String]) -> Result<Self, String> {
        let mut joined: Vec<String> = Vec::new();
        for pattern in patterns {
            match joined.last_mut() {
                Some(last) if last.matches('{').count() > last.matches('}').count() => {
                    *last = format!("{last},{pattern}");
                }
                _ => joined.push(pattern.clone()),
            }
        }
        let parse = |pattern: &String| NamePattern::new(pattern);
        Ok(Self { patterns: joined.iter().map(parse).collect::<Result<_, _>>()? })
    }

    /// Whether it is empty: only the control plane's namespace is watched.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Whether a namespace matches.
    pub fn matches(&self, namespace: &str) -> bool {
        self.patterns.iter().any(|pattern| pattern.matches(namespace))
    }
}
