//! Which commits the project of an Application demands signatures of, and by whom
//! (SE-080): `signatureKeys` and `sourceIntegrity`.
//!
//! What is demanded is decided again at each comparison and at each round of an operation: no
//! rendering that was kept from before passes without it. A rule that cannot be understood
//! refuses the Applications of the project.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::condition::NewCondition;
use crate::project;
use wavegate_api::AppProjectSpec;
use wavegate_api::repository::RepositoryUrl;
use wavegate_api::repository::signature::{Signature, SignatureState, long_id};

/// Most keys and policies of a project.
const MOST: usize = 1000;

/// What a project demands of the commits of its repositories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demands(Vec<Policy>);

/// A rule for some repositories.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Policy {
    field: &'static str,
    /// `None` for all repositories.
    repositories: Option<Repos>,
    mode: Mode,
}

/// Which repositories a policy is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Repos {
    /// Globs of their URLs.
    globs: Vec<String>,
    /// Globs of the URLs that are left out.
    without: Vec<String>,
}

impl Repos {
    /// Whether a policy that demands something, or that demands nothing, is about a repository:
    /// no spelling of its URL escapes a demand.
    fn contain(&self, repo_url: &str, demands: bool) -> bool {
        self.globs.iter().any(|glob| project::is_meant(glob, repo_url, demands))
            && !self.without.iter().any(|glob| project::is_meant(glob, repo_url, !demands))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Mode {
    None,
    /// Long IDs of the keys.
    Head(BTreeSet<String>),
    /// The same, of all commits that lead to it, too.
    Strict(BTreeSet<String>),
}

/// The keys one of which must have signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand<'a> {
    field: &'static str,
    /// Their long IDs.
    pub keys: &'a BTreeSet<String>,
    /// Whether all commits that lead to the target revision must be signed, too.
    pub is_about_history: bool,
}

impl Demands {
    /// Reads the fields of a project.
    ///
    /// # Errors
    ///
    /// Which part of them cannot be understood: nothing may be deployed then.
    pub fn of(project: &AppProjectSpec) -> Result<Self, String> {
        let keys = keys("spec.signatureKeys", &project.signature_keys, |key| {
            only(key, &["keyID"])?;
            key["keyID"].as_str().ok_or_else(|| "keyID must be a text".to_owned())
        })?;
        let mut policies = match &project.source_integrity {
            None => Vec::new(),
            Some(integrity) => policies(integrity)?,
        };
        if !keys.is_empty() {
            if !policies.is_empty() {
                let both = "spec.signatureKeys and spec.sourceIntegrity cannot be used together";
                return Err(format!("{both}: move the keys into a policy"));
            }
            let (field, mode) = ("spec.signatureKeys", Mode::Head(keys));
            policies.push(Policy { field, repositories: None, mode });
        }
        Ok(Self(policies))
    }

    /// Whether something is demanded of some repository.
    pub fn any(&self) -> bool {
        self.0.iter().any(|policy| policy.mode != Mode::None)
    }

    /// The field that demands something first.
    pub fn field(&self) -> Option<&'static str> {
        self.0.iter().find(|policy| policy.mode != Mode::None).map(|policy| policy.field)
    }

    /// What is demanded of the commits of a Git repository: the first policy for it counts.
    ///
    /// # Errors
    ///
    /// When the policy for it cannot be found.
    pub fn about(&self, repo_url: &str) -> Result<Option<Demand<'_>>, String> {
        let RepositoryUrl { path, .. } = RepositoryUrl::of(repo_url);
        if self.any() && path.split(['/', '\\']).any(|part| matches!(part, "." | "..")) {
            // A server may read it as another path than the policies do.
            let why = "policies about repositories cannot be applied to a URL with . or .. in it";
            return Err(format!("{why}: write the repoURL without them"));
        }
        let applies = |policy: &&Policy| {
            let demands = policy.mode != Mode::None;
            policy.repositories.as_ref().is_none_or(|repos| repos.contain(repo_url, demands))
        };
        let demand = |field, keys, is_about_history| Demand { field, keys, is_about_history };
        Ok(match self.0.iter().find(applies).map(|policy| (policy.field, &policy.mode)) {
            None | Some((_, Mode::None)) => None,
            Some((field, Mode::Head(keys))) => Some(demand(field, keys, false)),
            Some((field, Mode::Strict(keys))) => Some(demand(field, keys, true)),
        })
    }
}

impl Demand<'_> {
    /// Why a revision is not deployed; `None` when it is signed as demanded.
    pub fn problem(&self, revision: &str, signature: &Signature) -> Option<String> {
        self.problem_of(revision, revision, signature)
    }

    /// The same for the signature of a commit that leads to it.
    pub fn problem_of(
        &self,
        revision: &str,
        commit: &str,
        signature: &Signature,
    ) -> Option<String> {
        if signature.is_good_by(self.keys) {
            return None;
        }
        let Signature { is_tag, key, state } = signature;
        let what = match (is_tag, commit == revision) {
            (true, _) => "The tag of target revision".to_owned(),
            (false, true) => "Target revision".to_owned(),
            (false, false) => format!("Commit {commit}, which leads to target revision"),
        };
        // The words of Argo CD, which tools look for.
        let peer = match state {
            SignatureState::Good => "signed with unallowed key",
            SignatureState::Unsigned => "unsigned",
            SignatureState::Bad => "bad signature",
            SignatureState::UnknownKey => "signed with key not in keyring",
            SignatureState::ExpiredSignature => "expired signature",
            SignatureState::ExpiredKey => "signed with expired key",
            SignatureState::RevokedKey => "signed with revoked key",
            SignatureState::Unverifiable(_) => "gpg verification failed",
        };
        let peer = format!("GIT/GPG: Failed verifying revision {commit}: {peer} (key_id={key})");
        let key = if key.is_empty() { "(unknown)" } else { key.as_str() };
        let why = match state {
            SignatureState::Good => {
                format!("is signed with key {key}, but this key is not allowed in AppProject")
            }
            SignatureState::Unsigned => "is not signed, but a signature is required".to_owned(),
            SignatureState::Bad => format!("has a bad signature by key {key}"),
            SignatureState::UnknownKey => format!(
                "is signed with unknown key {key}: it is not in the ConfigMap argocd-gpg-keys-cm"
            ),
            SignatureState::ExpiredSignature => {
                format!("has a signature by key {key} that has expired")
            }
            SignatureState::ExpiredKey => format!("is signed with key {key}, which has expired"),
            SignatureState::RevokedKey => format!("is signed with key {key}, which was revoked"),
            SignatureState::Unverifiable(why) => {
                format!("has a signature that could not be verified: {why}")
            }
        };
        Some(format!("{peer}; {what} {revision} in Git {why} ({})", self.field))
    }
}

/// Why manifests of a request itself are not deployed: nobody signs them.
pub fn local_manifests(project_name: &str, project: &AppProjectSpec) -> Option<NewCondition> {
    let why = match Demands::of(project) {
        Ok(demands) => {
            let field = demands.field()?;
            format!("local manifests cannot be synced while {field} demands signed commits")
        }
        Err(why) => why,
    };
    Some(NewCondition::comparison(format!("AppProject {project_name}: {why}")))
}

/// Reads a list of keys.
fn keys<'a>(
    field: &str,
    list: &'a [Value],
    id: impl Fn(&'a Value) -> Result<&'a str, String>,
) -> Result<BTreeSet<String>, String> {
    if list.len() > MOST {
        return Err(format!("{field} has more than {MOST} entries"));
    }
    let read = list.iter().enumerate().map(|(index, key)| {
        let wrong = |why: String| format!("{field}[{index}]: {why}");
        let written = id(key).map_err(wrong)?;
        let long = long_id(written);
        if long.is_empty() {
            let shown: String = written.chars().filter(|c| !c.is_control()).take(64).collect();
            let must = "is no ID of a key: write its 16 hexadecimal digits, or its fingerprint";
            return Err(wrong(format!("{shown:?} {must}")));
        }
        Ok(long)
    });
    read.collect()
}

/// Reads `sourceIntegrity`.
fn policies(integrity: &Value) -> Result<Vec<Policy>, String> {
    let field = "spec.sourceIntegrity";
    let wrong = |place: &str, why: &str| format!("{field}{place}: {why}");
    if integrity.is_null() {
        return Ok(Vec::new());
    }
    only(integrity, &["git"]).map_err(|why| wrong("", &why))?;
    if integrity["git"].is_null() {
        return Ok(Vec::new());
    }
    only(&integrity["git"], &["policies"]).map_err(|why| wrong(".git", &why))?;
    let list = match &integrity["git"]["policies"] {
        Value::Null => return Ok(Vec::new()),
        Value::Array(list) if list.len() <= MOST => list,
        Value::Array(_) => return Err(wrong(".git.policies", "has too many entries")),
        _ => return Err(wrong(".git.policies", "must be a list")),
    };
    let read = list.iter().enumerate().map(|(index, policy)| {
        let place = format!(".git.policies[{index}]");
        only(policy, &["repos", "gpg"]).map_err(|why| wrong(&place, &why))?;
        let gpg = &policy["gpg"];
        only(gpg, &["mode", "keys"]).map_err(|why| wrong(&format!("{place}.gpg"), &why))?;
        let repositories = repositories(&policy["repos"]);
        let repositories = repositories.map_err(|why| wrong(&format!("{place}.repos"), &why))?;
        let list = match &gpg["keys"] {
            Value::Null => &[],
            Value::Array(list) => list.as_slice(),
            _ => return Err(wrong(&format!("{place}.gpg.keys"), "must be a list")),
        };
        let keys = keys(&format!("{field}{place}.gpg.keys"), list, |key| {
            key.as_str().ok_or_else(|| "must be a text".to_owned())
        })?;
        let mode = match gpg["mode"].as_str() {
            Some("none") => Mode::None,
            Some("head") => Mode::Head(keys),
            Some("strict") => Mode::Strict(keys),
            _ => return Err(wrong(&format!("{place}.gpg.mode"), "must be none, head or strict")),
        };
        Ok(Policy { field, repositories: Some(repositories), mode })
    });
    read.collect()
}

fn repositories(repos: &Value) -> Result<Repos, String> {
    let list = repos.as_array().filter(|list| !list.is_empty() && list.len() <= MOST);
    let list = list.ok_or_else(|| format!("must name 1 to {MOST} repositories"))?;
    let mut repos = Repos::default();
    for (index, entry) in list.iter().enumerate() {
        only(entry, &["url"]).map_err(|why| format!("[{index}]: {why}"))?;
        let url = entry["url"].as_str().map(str::trim).unwrap_or_default();
        let (glob, of) = match url.strip_prefix('!') {
            Some(glob) => (glob.trim(), &mut repos.without),
            None => (url, &mut repos.globs),
        };
        if glob.is_empty() {
            return Err(format!("[{index}].url must be a glob of URLs"));
        }
        of.push(glob.to_owned());
    }
    match repos.globs.is_empty() {
        true => Err("must name repositories, and not only those that are left out".to_owned()),
        false => Ok(repos),
    }
}

/// An object without other fields: an unknown one may demand something.
fn only(value: &Value, fields: &[&str]) -> Result<(), String> {
    let object = value.as_object().ok_or("must be an object")?;
    let other =
        object.iter().find(|(field, value)| !fields.contains(&field.as_str()) && !value.is_null());
    other.map_or(Ok(()), |(field, _)| {
        let field: String = field.chars().take(64).collect();
        Err(format!("the field {field:?} is not known"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const KEY: &str = "4AEE18F83AFDEB23";

    fn demands(spec: &Value) -> Result<Demands, String> {
        Demands::of(&wavegate_api::read_typed(spec).unwrap())
    }

    fn policy(repos: &[&str], gpg: &Value) -> Value {
        let repos: Vec<Value> = repos.iter().map(|url| json!({"url": url})).collect();
        json!({"repos": repos, "gpg": gpg})
    }

    fn integrity(policies: &[Value]) -> Value {
        json!({"sourceIntegrity": {"git": {"policies": policies}}})
    }

    fn signed(key: &str, state: SignatureState) -> Signature {
        Signature { is_tag: false, key: key.to_owned(), state }
    }

    /// SE-080: only what demands nothing is no guard.
    #[test]
    fn what_demands_nothing_is_no_guard_as_se_080() {
        let none = policy(&["*"], &json!({"mode": "none"}));
        for spec in [
            json!({}),
            json!({"signatureKeys": []}),
            json!({"sourceIntegrity": {}}),
            json!({"sourceIntegrity": {"git": {}}}),
            integrity(&[]),
            integrity(&[none]),
        ] {
            let found = demands(&spec).unwrap();
            assert!(!found.any() && found.field().is_none(), "{spec}");
            assert_eq!(found.about("https://h/r"), Ok(None), "{spec}");
        }
    }

    /// SE-080: a guard that cannot be evaluated refuses.
    #[test]
    fn what_is_not_understood_refuses_as_se_080() {
        let head = json!({"mode": "head", "keys": [KEY]});
        let with = |field: &str, value: Value| {
            let mut policy = policy(&["*"], &head);
            policy[field] = value;
            integrity(&[policy])
        };
        for spec in [
            json!({"signatureKeys": [{"keyID": "3AFDEB23"}]}),
            json!({"signatureKeys": [{"keyID": 7}]}),
            json!({"signatureKeys": [{}]}),
            json!({"signatureKeys": [null]}),
            json!({"signatureKeys": [KEY]}),
            json!({"signatureKeys": [{"keyID": KEY, "other": 1}]}),
            json!({"sourceIntegrity": []}),
            json!({"sourceIntegrity": {"helm": {"policies": []}}}),
            json!({"sourceIntegrity": {"git": {"other": true}}}),
            json!({"sourceIntegrity": {"git": {"policies": {}}}}),
            integrity(&[json!(1)]),
            with("repos", json!([])),
            with("repos", json!("*")),
            with("repos", json!(["*"])),
            with("repos", json!([{"url": "!https://h/*"}])),
            with("repos", json!([{"url": ""}])),
            with("gpg", json!(null)),
            with("gpg", json!({})),
            with("gpg", json!({"mode": "Head"})),
            with("gpg", json!({"mode": "head", "keys": "x"})),
            with("gpg", json!({"mode": "head", "keys": [1]})),
            with("gpg", json!({"mode": "head", "keys": ["x"]})),
            with("provenance", json!({})),
            json!({
                "signatureKeys": [{"keyID": KEY}],
                "sourceIntegrity": {"git": {"policies": [policy(&["*"], &head)]}},
            }),
        ] {
            assert!(demands(&spec).is_err(), "{spec}");
        }
    }

    #[test]
    fn the_first_policy_for_a_repository_counts() {
        let head = |key: &str| json!({"mode": "head", "keys": [key]});
        let other = "AAAAAAAAAAAAAAAA";
        let found = demands(&integrity(&[
            policy(&["https://h/open/*"], &json!({"mode": "none"})),
            policy(&["https://h/team/*", "https://h/x"], &head(KEY)),
            policy(&["https://h/history/*"], &json!({"mode": "strict", "keys": [KEY]})),
            policy(&["https://h/*", "!https://h/free/*"], &head(other)),
        ]))
        .unwrap();
        let signer = |url: &str| {
            let demand = found.about(url).unwrap()?;
            [KEY, other]
                .into_iter()
                .find(|key| demand.problem("r", &signed(key, SignatureState::Good)).is_none())
        };
        assert_eq!(signer("https://h/open/a"), None);
        assert_eq!(signer("https://other/a"), None);
        for url in [
            "https://h/team/a",
            "https://h/team/a/b",
            "https://H/Team/a.git",
            "https://user@h:443//team/a",
            "http://h/team/a",
            "https://h/te%61m/a",
            "https://h/x/",
        ] {
            assert_eq!(signer(url), Some(KEY), "{url}");
        }
        assert_eq!(signer("https://h/a"), Some(other));
        // Another spelling is no way out of a demand.
        for url in ["https://h/open/../team/a", "https://h/open/%2e%2e/team/a"] {
            let escapes = matches!(found.about(url), Ok(None));
            assert!(!escapes, "{url}");
        }
        // What is left out is exempt, in its normal form only.
        assert_eq!(signer("https://h/free/a"), None);
        assert_eq!(signer("https://user@H/free/a.git"), None);
        assert_eq!(signer("https://h/x/free/a"), Some(other));
        let history = found.about("https://h/history/a").unwrap().unwrap();
        assert!(history.is_about_history && history.keys.contains(KEY));
        let unsigned = history.problem_of("r", "c", &Signature::none()).unwrap();
        let text = "GIT/GPG: Failed verifying revision c: unsigned (key_id=); Commit c, which leads to \
                    target revision r in Git is not signed";
        assert!(unsigned.starts_with(text), "{unsigned}");
    }

    /// SE-080: only a valid signature by a key of the list is accepted.
    #[test]
    fn only_valid_signatures_by_listed_keys_are_accepted_as_se_080() {
        let fingerprint = format!("5de3e0509c47ea3cf04a42d3{}", KEY.to_lowercase());
        let found = demands(&json!({"signatureKeys": [{"keyID": fingerprint}]})).unwrap();
        assert_eq!(found.field(), Some("spec.signatureKeys"));
        let demand = found.about("/any/directory").unwrap().unwrap();
        assert_eq!(demand.problem("r", &signed(KEY, SignatureState::Good)), None);
        let states = [
            (
                SignatureState::Unsigned,
                "Target revision r in Git is not signed, but a signature is required",
            ),
            (SignatureState::Bad, "bad signature"),
            (SignatureState::UnknownKey, "is signed with unknown key 4AEE18F83AFDEB23"),
            (SignatureState::ExpiredSignature, "expired"),
            (SignatureState::ExpiredKey, "which has expired"),
            (SignatureState::RevokedKey, "revoked"),
            (SignatureState::Unverifiable("no gpg".into()), "no gpg"),
        ];
        for (state, text) in states {
            let problem = demand.problem("r", &signed(KEY, state)).unwrap();
            assert!(problem.contains(text) && problem.contains("spec.signatureKeys"), "{problem}");
        }
        for key in ["", "AAAAAAAAAAAAAAAA", "3AFDEB23"] {
            let problem = demand.problem("r", &signed(key, SignatureState::Good)).unwrap();
            assert!(problem.contains("not allowed in AppProject"), "{problem}");
        }
        let none = demands(&integrity(&[policy(&["*"], &json!({"mode": "head"}))])).unwrap();
        let demand = none.about("https://h/r").unwrap().unwrap();
        assert!(demand.problem("r", &signed(KEY, SignatureState::Good)).is_some());
    }
}
