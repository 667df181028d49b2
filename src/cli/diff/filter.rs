//! The resources to compare, as given with `--resource`.

use std::str::FromStr;

use wavegate_api::ResourceKey;

/// `GROUP:KIND:[NAMESPACE/]NAME`, each part possibly `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Filter {
    group: String,
    kind: String,
    /// `None` for any.
    namespace: Option<String>,
    name: String,
}

impl FromStr for Filter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            "not GROUP:KIND:[NAMESPACE/]NAME, such as apps:Deployment:web, or :ConfigMap:shop/settings \
             for the core group"
                .to_owned()
        };
        let parts: Vec<&str> = text.split(':').collect();
        // Names of RBAC objects may contain colons.
        let [group, kind, rest @ ..] = parts.as_slice() else { return Err(wrong()) };
        let rest = rest.join(":");
        let (namespace, name) = match rest.split_once('/') {
            Some((namespace, name)) => (Some(namespace.to_owned()), name),
            None => (None, rest.as_str()),
        };
        if kind.is_empty() || name.is_empty() {
            return Err(wrong());
        }
        let [group, kind, name] = [group, kind, name].map(str::to_owned);
        Ok(Self { group, kind, namespace, name })
    }
}

impl Filter {
    /// Whether it selects a resource.
    pub fn selects(&self, key: &ResourceKey) -> bool {
        let fits = |pattern: &str, text: &str| pattern == "*" || pattern == text;
        fits(&self.group, &key.group)
            && fits(&self.kind, &key.kind)
            && fits(&self.name, &key.name)
            && self.namespace.as_ref().is_none_or(|wanted| fits(wanted, &key.namespace))
    }
}

impl std::fmt::Display for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { group, kind, namespace, name } = self;
        write!(f, "{group}:{kind}:")?;
        if let Some(namespace) = namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_selects_by_its_parts() {
        let web = ResourceKey::new("apps", "Deployment", "shop", "web");
        let role = ResourceKey::new("rbac.authorization.k8s.io", "ClusterRole", "", "a:b");
        let cases = [
            ("apps:Deployment:web", true, false),
            ("apps:Deployment:shop/web", true, false),
            ("apps:Deployment:other/web", false, false),
            ("*:Deployment:*", true, false),
            (":Deployment:web", false, false),
            ("*:*:*", true, true),
            ("*:ClusterRole:a:b", false, true),
        ];
        for (text, of_web, of_role) in cases {
            let filter: Filter = text.parse().unwrap();
            assert_eq!((filter.selects(&web), filter.selects(&role)), (of_web, of_role), "{text}");
            assert_eq!(filter.to_string(), text);
        }
        for text in ["", "web", "Deployment:web", "apps::web", "apps:Deployment:", "a:b:c/"] {
            assert!(text.parse::<Filter>().is_err(), "{text}");
        }
    }
}
