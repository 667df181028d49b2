//! The build environment of a source (SE-104), and its substitution.

use serde_json::Value;

use crate::render::render_for::RenderFor;

/// Prefix of all names.
const PREFIX: &str = "ARGOCD_APP_";

/// The variables of one source, with their values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BuildEnvironment(Vec<(&'static str, String)>);

impl BuildEnvironment {
    /// The environment of a source at a revision; absent facts are empty.
    pub(crate) fn new(subject: &RenderFor, source: &Value, revision: &str) -> Self {
        let text = |field: &str| source[field].as_str().unwrap_or_default().to_owned();
        let short = |length: usize| revision.chars().take(length).collect::<String>();
        Self(vec![
            ("ARGOCD_APP_NAME", subject.instance_name().to_owned()),
            ("ARGOCD_APP_NAMESPACE", subject.namespace.clone()),
            ("ARGOCD_APP_PROJECT_NAME", subject.project.clone()),
            ("ARGOCD_APP_REVISION", revision.to_owned()),
            ("ARGOCD_APP_REVISION_SHORT", short(7)),
            ("ARGOCD_APP_REVISION_SHORT_8", short(8)),
            ("ARGOCD_APP_SOURCE_REPO_URL", text("repoURL")),
            ("ARGOCD_APP_SOURCE_PATH", text("path")),
            ("ARGOCD_APP_SOURCE_TARGET_REVISION", text("targetRevision")),
            (
                "KUBE_VERSION",
                subject
                    .cluster
                    .as_ref()
                    .map_or_else(String::new, |cluster| cluster.kube_version.clone()),
            ),
            (
                "KUBE_API_VERSIONS",
                subject
                    .cluster
                    .as_ref()
                    .map_or_else(String::new, |cluster| cluster.api_versions.join(",")),
            ),
        ])
    }

    /// All names with their values.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// The Application: its name, or what it is tracked by.
    pub(crate) fn application(&self) -> &str {
        self.value("ARGOCD_APP_NAME").unwrap_or_default()
    }

    fn value(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Whether what follows a dollar sign is a name of the build environment.
    pub(crate) fn begins(&self, after: &str) -> bool {
        variable(after).0.is_some_and(|name| self.value(name).is_some())
    }

    /// Replaces `$name` and `${name}` as Argo CD does: unknown names by nothing, and `$$`
    /// by `$`.
    pub(crate) fn expand(&self, text: &str) -> String {
        self.replaced(text, |name| {
            Some(match name {
                "$" => "$".to_owned(),
                name => self.value(name).unwrap_or_default().to_owned(),
            })
        })
    }

    /// The same for values, which may contain scripts: only names of the build environment.
    pub(crate) fn expand_known(&self, text: &str) -> String {
        let own = |name: &&str| name.starts_with(PREFIX);
        self.replaced(text, |name| {
            Some(name).filter(own).and_then(|name| self.value(name)).map(str::to_owned)
        })
    }

    fn replaced(&self, text: &str, value: impl Fn(&str) -> Option<String>) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            let after = &rest[at + 1..];
            let (name, length) = variable(after);
            let whole = &rest[at..at + 1 + length];
            rest = &after[length..];
            match name {
                // A dollar sign that no name follows.
                None if length == 0 => out.push('$'),
                // Bad syntax, such as `${}`: Go drops it.
                None => {}
                Some(name) => match value(name) {
                    Some(value) => out.push_str(&value),
                    None => out.push_str(whole),
                },
            }
        }
        out.push_str(rest);
        out
    }

    /// Replaces names of the build environment in all texts of a value, but not in keys.
    pub(crate) fn expand_in(&self, value: &Value) -> Value {
        match value {
            Value::String(text) if text.contains(PREFIX) => Value::String(self.expand_known(text)),
            Value::Array(items) => items.iter().map(|item| self.expand_in(item)).collect(),
            Value::Object(fields) => {
                let fields = fields.iter().map(|(key, item)| (key.clone(), self.expand_in(item)));
                Value::Object(fields.collect())
            }
            other => other.clone(),
        }
    }
}

/// The name at the start of what follows a dollar sign, and how many bytes it takes, with
/// the rules of Go's `os.Expand`.
fn variable(after: &str) -> (Option<&str>, usize) {
    const SPECIAL: &str = "*#$@!?-0123456789";
    let Some(first) = after.chars().next() else { return (None, 0) };
    if first == '{' {
        let inner = &after[1..];
        return match inner.find('}') {
            // `${` alone, and `${}`, are dropped.
            None => (None, 1),
            Some(0) => (None, 2),
            Some(end) => (Some(&inner[..end]), end + 2),
        };
    }
    if SPECIAL.contains(first) {
        return (Some(&after[..1]), 1);
    }
    let is_name = |c: char| c == '_' || c.is_ascii_alphanumeric();
    let length = after.find(|c| !is_name(c)).unwrap_or(after.len());
    if length == 0 { (None, 0) } else { (Some(&after[..length]), length) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn environment() -> BuildEnvironment {
        let subject = RenderFor {
            application: "shop".into(),
            namespace: "prod".into(),
            project: "team".into(),
            ..RenderFor::default()
        };
        let source = json!({"repoURL": "https://h/r", "path": "a", "targetRevision": "main"});
        BuildEnvironment::new(&subject, &source, "0123456789abcdef")
    }

    /// SE-104
    #[test]
    fn se_104_names_are_replaced() {
        let cases = [
            ("$ARGOCD_APP_NAME", "shop"),
            ("x-${ARGOCD_APP_NAME}-y", "x-shop-y"),
            ("$ARGOCD_APP_NAMESPACE/$ARGOCD_APP_PROJECT_NAME", "prod/team"),
            ("$ARGOCD_APP_REVISION", "0123456789abcdef"),
            ("$ARGOCD_APP_REVISION_SHORT,$ARGOCD_APP_REVISION_SHORT_8", "0123456,01234567"),
            ("$ARGOCD_APP_SOURCE_REPO_URL", "https://h/r"),
            ("$ARGOCD_APP_SOURCE_PATH@$ARGOCD_APP_SOURCE_TARGET_REVISION", "a@main"),
            ("$OTHER.$1.${}.$${ARGOCD_APP_NAME}", "...${ARGOCD_APP_NAME}"),
            ("$ARGOCD_APP_NAME_X|$|$.|é$ARGOCD_APP_NAMEé", "|$|$.|éshopé"),
        ];
        for (text, want) in cases {
            assert_eq!(environment().expand(text), want, "{text}");
        }
        let values =
            json!({"a": ["$ARGOCD_APP_NAME", "echo $HOME $$ ${X}"], "$ARGOCD_APP_NAME": 1});
        let want = json!({"a": ["shop", "echo $HOME $$ ${X}"], "$ARGOCD_APP_NAME": 1});
        assert_eq!(environment().expand_in(&values), want);
    }
}
