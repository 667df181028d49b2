//! Bodies of webhooks of Bitbucket: the cloud, and servers of one's own. They do not say which
//! branch is the default one, so each branch may be it.

use serde::Deserialize;

use super::body::{AtMost, list_or_nothing, parse, push};
use super::{Provider, Push, RefusedWebhook};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Cloud {
    push: CloudPush,
    repository: CloudRepository,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CloudPush {
    changes: AtMost<CloudChange>,
}

/// A branch or tag before and after the push; absent when it was created or deleted.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CloudChange {
    old: Option<CloudRef>,
    new: Option<CloudRef>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CloudRef {
    r#type: String,
    name: String,
}

impl CloudRef {
    fn full_name(self) -> String {
        match self.r#type.as_str() {
            "tag" | "annotated_tag" => format!("refs/tags/{}", self.name),
            _ if self.name.is_empty() => String::new(),
            _ => format!("refs/heads/{}", self.name),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CloudRepository {
    links: CloudLinks,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CloudLinks {
    html: Link,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Link {
    href: String,
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Server {
    repository: ServerRepository,
    changes: AtMost<ServerChange>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ServerRepository {
    links: ServerLinks,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ServerLinks {
    clone: AtMost<Link>,
    // Some versions have a list, and some an object.
    #[serde(rename = "self")]
    #[serde(deserialize_with = "list_or_nothing")]
    own: AtMost<Link>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ServerChange {
    r#ref: ServerRef,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ServerRef {
    id: String,
}

/// An event of the cloud.
pub(crate) fn cloud(event: &str, body: &[u8]) -> Result<Option<Push>, RefusedWebhook> {
    let provider = Provider::Bitbucket;
    match event {
        "repo:push" => {
            let Cloud { push: pushed, repository } = parse(provider, body)?;
            let refs = pushed.changes.0.into_iter().filter_map(|change| change.new.or(change.old));
            let refs: Vec<String> = refs.map(CloudRef::full_name).collect();
            of_any_branch(push(provider, &[repository.links.html.href], &refs, ""))
        }
        _ if event.starts_with("pullrequest:") => Ok(None),
        _ => Err(RefusedWebhook::Event(provider.name())),
    }
}

/// An event of a server.
pub(crate) fn server(event: &str, body: &[u8]) -> Result<Option<Push>, RefusedWebhook> {
    let provider = Provider::BitbucketServer;
    match event {
        "repo:refs_changed" => {
            let Server { repository, changes } = parse(provider, body)?;
            let links = repository.links.clone.0.into_iter();
            let links = links.filter(|link| link.name == "http" || link.name == "ssh");
            let mut urls: Vec<String> = links.map(|link| link.href).collect();
            // A page of the repository: HOST/projects/PROJECT/repos/NAME/browse.
            urls.extend(repository.links.own.0.iter().filter_map(|page| of_page(&page.href)));
            let refs: Vec<String> = changes.0.into_iter().map(|change| change.r#ref.id).collect();
            of_any_branch(push(provider, &urls, &refs, ""))
        }
        "diagnostics:ping" => Ok(None),
        _ if event.starts_with("pr:") => Ok(None),
        _ => Err(RefusedWebhook::Event(provider.name())),
    }
}

/// The URL for https of the repository that a page shows.
fn of_page(page: &str) -> Option<String> {
    let (host, rest) = page.split_once("/projects/")?;
    let (project, rest) = rest.split_once("/repos/")?;
    let name = rest.split('/').next()?;
    Some(format!("{host}/scm/{project}/{name}"))
}

fn of_any_branch(push: Result<Push, RefusedWebhook>) -> Result<Option<Push>, RefusedWebhook> {
    let mut push = push?;
    for one in &mut push.refs {
        one.is_default = !one.is_tag();
    }
    Ok(Some(push))
}
