//! Credentials of a repository.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::http::identity::RepoIdentity;

/// Credentials of one repository, from its Secret.
///
/// Empty fields mean absent. `Debug` shows which fields are set, not their values; there
/// is no `Display`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RepoCredentials {
    /// User name for https. Servers that use tokens accept any name, but require one.
    pub username: String,
    /// Password or token for https, a single line. Sent only to the host of the URL, not
    /// to the target of a redirect.
    pub password: String,
    /// Private key for ssh in PEM or OpenSSH form, without a passphrase.
    pub ssh_private_key: String,
    /// Lines of `known_hosts`; when empty, those of the machine are used, and unknown
    /// hosts are rejected.
    pub ssh_known_hosts: String,
    /// PEM certificates to trust for https instead of those of the machine.
    pub ca_certificates: String,
    /// Certificate of this client for https, in PEM.
    pub client_certificate: String,
    /// The key of that certificate, in PEM, without a passphrase.
    pub client_key: String,
    /// Token for https that is sent in the header `Authorization`, a single line.
    pub bearer_token: String,
    /// URL of a proxy: for https, or of a SOCKS5 proxy for ssh.
    pub proxy: String,
    /// Hosts that are reached without the proxy, separated by commas.
    pub no_proxy: String,
    /// Why they must not be used, such as a key of the Secret that is not supported.
    pub refusal: String,
    /// Trust any host key and certificate. Allows anyone on the network path to read and
    /// change all data.
    pub insecure_skip_server_verification: bool,
    /// Hosts outside of the domain of a registry that may get user name and password for a token,
    /// separated by commas (`ociTokenHosts`).
    pub token_hosts: String,
    /// Whether a registry is reached by http (`insecureOCIForceHttp`).
    pub plain_http: bool,
    /// Who is exchanged for a token before a repository is read; in place of a name with a
    /// password, or a token.
    pub identity: Option<RepoIdentity>,
    /// Whether name and password are sent at once, without being asked for
    /// (`forceHttpBasicAuth`).
    pub force_basic: bool,
    /// Whether the files that Git LFS keeps elsewhere are fetched (`enableLfs`).
    pub lfs: bool,
}

impl RepoCredentials {
    /// Whether user name and password can be passed to `git` line by line.
    pub(crate) fn is_usable(&self) -> bool {
        let one_line = |text: &str| !text.contains(['\n', '\r', '\0']);
        let Self { username, password, bearer_token, proxy, no_proxy, .. } = self;
        [username, password, bearer_token, proxy, no_proxy].into_iter().all(|text| one_line(text))
    }

    /// Whether there is something to log in with.
    pub fn can_log_in(&self) -> bool {
        let Self { username, password, ssh_private_key, bearer_token, client_certificate, .. } =
            self;
        let texts = [username, password, ssh_private_key, bearer_token, client_certificate];
        texts.into_iter().any(|text| !text.is_empty()) || self.identity.is_some()
    }

    /// The values that no output may contain.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        [&self.password, &self.bearer_token].into_iter().map(String::as_str)
    }

    /// Identifies credentials without storing them.
    ///
    /// Content that was read with one set of credentials is not shared with users of
    /// another set, which may not have access to it.
    pub(crate) fn fingerprint(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        let insecure = if self.insecure_skip_server_verification { "1" } else { "" };
        for part in [
            self.username.as_str(),
            &self.password,
            &self.ssh_private_key,
            &self.ssh_known_hosts,
            &self.ca_certificates,
            &self.client_certificate,
            &self.client_key,
            &self.bearer_token,
            &self.proxy,
            &self.no_proxy,
            &self.refusal,
            &self.token_hosts,
            insecure,
            if self.plain_http { "1" } else { "" },
            if self.force_basic { "1" } else { "" },
            if self.lfs { "1" } else { "" },
        ]
        .into_iter()
        .chain(self.identity.iter().flat_map(RepoIdentity::parts))
        {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash.finalize().into()
    }
}

impl fmt::Debug for RepoCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |text: &str| if text.is_empty() { "absent" } else { "set" };
        f.debug_struct("Credentials")
            .field("username", &shown(&self.username))
            .field("password", &shown(&self.password))
            .field("ssh_private_key", &shown(&self.ssh_private_key))
            .field("ssh_known_hosts", &shown(&self.ssh_known_hosts))
            .field("ca_certificates", &shown(&self.ca_certificates))
            .field("client_certificate", &shown(&self.client_certificate))
            .field("client_key", &shown(&self.client_key))
            .field("bearer_token", &shown(&self.bearer_token))
            .field("proxy", &shown(&self.proxy))
            .field("no_proxy", &self.no_proxy)
            .field("refusal", &self.refusal)
            .field("insecure_skip_server_verification", &self.insecure_skip_server_verification)
            .field("token_hosts", &self.token_hosts)
            .field("plain_http", &self.plain_http)
            .field("identity", &self.identity)
            .field("force_basic", &self.force_basic)
            .field("lfs", &self.lfs)
            .finish()
    }
}
