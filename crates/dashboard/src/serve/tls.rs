//! TLS of a page in a cluster, with the certificate of its proxy (PG-003).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// Files are looked at after this time at the earliest.
const RELOAD: Duration = Duration::from_secs(10);

/// The files of a listener with TLS.
#[derive(Clone, Debug)]
pub struct PageTlsFiles {
    /// Certificates of the page, in PEM.
    pub certificate: PathBuf,
    /// The key of the first of them.
    pub key: PathBuf,
    /// Certificates of the authority of the proxy, and the name in the certificate of the proxy.
    pub proxy: Option<(PathBuf, String)>,
}

/// TLS of a listener. Files that change are read again.
pub struct PageTls {
    files: PageTlsFiles,
    name: Option<ServerName<'static>>,
    loaded: Mutex<Loaded>,
}

struct Loaded {
    acceptor: TlsAcceptor,
    changed: Vec<Option<SystemTime>>,
    at: Instant,
}

impl PageTls {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// Which file cannot be used, and why.
    pub fn read(files: PageTlsFiles) -> Result<Self, String> {
        let name = match &files.proxy {
            None => None,
            Some((_, name)) => Some(
                ServerName::try_from(name.clone())
                    .map_err(|_| format!("{name} is no name of a host, as in subjectAltName"))?,
            ),
        };
        let loaded =
            Loaded { changed: files.changed(), acceptor: files.acceptor()?, at: Instant::now() };
        Ok(Self { files, name, loaded: Mutex::new(loaded) })
    }

    /// For the next connection.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        let mut loaded = self.loaded.lock();
        if loaded.at.elapsed() >= RELOAD {
            loaded.at = Instant::now();
            let changed = self.files.changed();
            if changed != loaded.changed {
                match self.files.acceptor() {
                    Ok(acceptor) => {
                        loaded.acceptor = acceptor;
                        loaded.changed = changed;
                    }
                    Err(why) => tracing::warn!("the former certificates stay in use: {why}"),
                }
            }
        }
        loaded.acceptor.clone()
    }

    /// Whether a certificate, which is of the authority, has the name of the proxy.
    pub(super) fn is_proxy(&self, certificate: &CertificateDer<'_>) -> bool {
        let Some(name) = &self.name else { return false };
        let read = webpki::EndEntityCert::try_from(certificate);
        read.is_ok_and(|read| read.verify_is_valid_for_subject_name(name).is_ok())
    }
}

impl PageTlsFiles {
    fn changed(&self) -> Vec<Option<SystemTime>> {
        let authority = self.proxy.iter().map(|(file, _)| file);
        let files = [&self.certificate, &self.key].into_iter().chain(authority);
        files.map(|file| std::fs::metadata(file).and_then(|data| data.modified()).ok()).collect()
    }

    fn acceptor(&self) -> Result<TlsAcceptor, String> {
        let failed =
            |file: &Path, why: &dyn std::fmt::Display| format!("{}: {why}", file.display());
        let chain = certificates(&self.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|e| failed(&self.key, &e))?;
        let provider = Arc::new(default_provider());
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let config = match &self.proxy {
            None => config.with_no_client_auth(),
            Some((file, _)) => {
                let mut roots = RootCertStore::empty();
                for authority in certificates(file)? {
                    roots.add(authority).map_err(|error| failed(file, &error))?;
                }
                // Probes have no certificate; who has none is not signed in.
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                        .allow_unauthenticated()
                        .build()
                        .map_err(|error| failed(file, &error))?;
                config.with_client_cert_verifier(verifier)
            }
        };
        let config =
            config.with_single_cert(chain, key).map_err(|e| failed(&self.certificate, &e))?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let failed = |why: String| format!("{}: {why}", file.display());
    let all = CertificateDer::pem_file_iter(file).map_err(|error| failed(error.to_string()))?;
    let all: Result<Vec<_>, _> = all.collect();
    let all = all.map_err(|error| failed(error.to_string()))?;
    match all.is_empty() {
        true => Err(failed("it has no certificate in PEM".to_owned())),
        false => Ok(all),
    }
}
