//! A request, as the server saw it.

/// One request, as the server saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestRecord {
    /// Counts from 1 over the life of the server.
    pub seq: u64,
    /// The user of `Impersonate-User`, the name given to
    /// [`Server::client_as`](super::Server::client_as), or the first word of `User-Agent`.
    pub client: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `apply`, `delete` or `deletecollection`;
    /// the HTTP method in lower case for paths that are no resource.
    pub verb: String,
    /// API group; empty for core.
    pub group: String,
    /// Plural name; the whole path for paths that are no resource.
    pub resource: String,
    /// `status`, `scale` or empty.
    pub subresource: String,
    /// Empty for cluster-scoped resources and for all namespaces.
    pub namespace: String,
    /// Empty for requests about a collection.
    pub name: String,
    /// HTTP code of the answer; 0 until there is one or when the connection was dropped.
    pub code: u16,
    /// Whether nothing was to be stored.
    pub dry_run: bool,
}

impl RequestRecord {
    /// Whether it asks to change what is stored.
    pub(crate) fn is_write(&self) -> bool {
        const WRITES: [&str; 6] =
            ["create", "update", "patch", "apply", "delete", "deletecollection"];
        !self.dry_run && WRITES.contains(&self.verb.as_str())
    }
}
