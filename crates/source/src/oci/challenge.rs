//! What a registry asks for before it answers (`WWW-Authenticate`). Pure.

/// How to log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Challenge {
    /// With user name and password.
    Basic,
    /// With a token that is asked for elsewhere.
    Bearer {
        /// Where.
        realm: String,
        /// For which service; may be empty.
        service: String,
        /// What for; may be empty.
        scope: String,
    },
}

impl Challenge {
    /// Reads one header; `None` for other ways to log in.
    pub(super) fn parse(header: &str) -> Option<Self> {
        let (scheme, rest) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let (mut realm, mut service, mut scope) = Default::default();
        for (key, value) in parameters(rest) {
            match key.to_ascii_lowercase().as_str() {
                "realm" => realm = value,
                "service" => service = value,
                "scope" => scope = value,
                _ => {}
            }
        }
        Some(Self::Bearer { realm, service, scope })
    }
}

/// The parameters `key="value", key=value`.
fn parameters(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text.trim();
    while let Some((key, after)) = rest.split_once('=') {
        let after = after.trim_start();
        let mut value = String::new();
        let end = match after.strip_prefix('"') {
            Some(quoted) => {
                let mut escaped = false;
                let mut end = after.len();
                for (at, c) in quoted.char_indices() {
                    match c {
                        '\\' if !escaped => {
                            escaped = true;
                            continue;
                        }
                        '"' if !escaped => {
                            end = at + 2;
                            break;
                        }
                        c => value.push(c),
                    }
                    escaped = false;
                }
                end
            }
            None => {
                let end = after.find(',').unwrap_or(after.len());
                value.push_str(after[..end].trim());
                end
            }
        };
        found.push((key.trim_matches([',', ' ', '\t']).to_owned(), value));
        rest = after.get(end..).unwrap_or_default().trim_start_matches([',', ' ', '\t']);
    }
    found
}
