//! Comparison of the URLs of repositories.

use wavegate_api::repository::RepositoryUrl;

/// A repository by host and path: URLs of the same repository for https and ssh are equal,
/// in every spelling, also with the hosts that a server has for ssh.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Repository(String);

/// Stands for a template in a text.
const ANY: char = '\u{0}';

impl Repository {
    /// The repository of a URL.
    pub fn of(url: &str) -> Self {
        Self(normalized(url))
    }

    /// The only repository that a URL can be of; `None` for one with templates.
    pub fn without_templates(url: &str) -> Option<Self> {
        literals(url).is_none().then(|| Self::of(url))
    }

    /// Whether a URL of a generator is one of this repository. For a URL with templates, the
    /// rest of it decides.
    pub fn is(&self, url: &str) -> bool {
        match literals(url) {
            None => normalized(url) == self.0,
            Some(text) => fits(&normalized(&text), &self.0),
        }
    }
}

fn normalized(url: &str) -> String {
    let place = RepositoryUrl::of(url).place();
    let (host, path) = place.split_once('/').unwrap_or((&place, ""));
    // Servers offer ssh on hosts of their own, also where port 22 is blocked.
    let own = ["ssh.", "altssh.", "vs-ssh."].iter().find_map(|prefix| host.strip_prefix(prefix));
    let host = own.filter(|own| own.contains('.') || own.contains(ANY)).unwrap_or(host);
    if (host == "dev.azure.com" || host == "visualstudio.com")
        && let Some((project, name)) =
            path.strip_prefix("v3/").and_then(|path| path.rsplit_once('/'))
    {
        return format!("dev.azure.com/{project}/_git/{name}");
    }
    // The former address of an organization.
    if let Some(organization) = host.strip_suffix(".visualstudio.com") {
        let path = path.strip_prefix("defaultcollection/").unwrap_or(path);
        return format!("dev.azure.com/{organization}/{path}");
    }
    if path.is_empty() { host.to_owned() } else { format!("{host}/{path}") }
}

/// Words at the beginning of an action that may remove the text around it.
const CONTROL: [&str; 9] =
    ["if", "else", "end", "range", "with", "define", "block", "template", "break"];

/// The text with [`ANY`] for each template; `None` without templates. A text with control
/// structures is one template.
pub(super) fn literals(text: &str) -> Option<String> {
    let (first, mut rest) = text.split_once("{{")?;
    let mut literals = first.to_owned();
    loop {
        literals.push(ANY);
        // An action that is not closed extends to the end.
        let Some((action, after)) = rest.split_once("}}") else { return Some(literals) };
        let word = action.trim_start_matches('-').trim_start();
        let word = word.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
        if CONTROL.contains(&word) {
            return Some(ANY.to_string());
        }
        match after.split_once("{{") {
            None => {
                literals.push_str(after);
                return Some(literals);
            }
            Some((literal, next)) => {
                literals.push_str(literal);
                rest = next;
            }
        }
    }
}

/// Whether a text results from a pattern by replacing each [`ANY`].
pub(super) fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split(ANY);
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}
