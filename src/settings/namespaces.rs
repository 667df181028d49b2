//! Which namespaces are watched besides the control plane's own.

use crate::glob::NamePattern;

/// Namespaces besides the control plane's own, as globs or `/regex/`.
#[derive(Clone, Debug, Default)]
pub struct Namespaces {
    patterns: Vec<NamePattern>,
}

impl Namespaces {
    /// Reads the patterns. They come from a list with commas in between, so
    /// those whose braces are open go on in the next.
    ///
    /// # Errors
    ///
    /// The pattern that is neither a glob nor a regular expression, and why.
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

    /// Whether there is none: only the control plane's namespace is watched.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Whether a namespace is covered.
    pub fn matches(&self, namespace: &str) -> bool {
        self.patterns.iter().any(|pattern| pattern.matches(namespace))
    }
}
