//! Which servers are trusted, for every client that is not one of an API server.

use std::sync::Arc;

use rustls_platform_verifier::Verifier;
use tokio_rustls::rustls::client::WantsClientCert;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::crypto::{
    CryptoProvider, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    ClientConfig, ConfigBuilder, DigitallySignedStruct, Error, SignatureScheme,
};

/// A client that trusts some servers; it may get a certificate of its own.
pub type Trusting = ConfigBuilder<ClientConfig, WantsClientCert>;

/// An error of TLS for users. The library writes "unexpected error" before what this program has
/// found wrong in a setting.
pub fn error_text(error: &Error) -> String {
    match error {
        Error::General(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The certificates of a text in PEM; there may be none.
///
/// # Errors
///
/// When the text is no PEM.
pub fn parse_certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, pem::Error> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).collect()
}

/// Trust in the certificates of this machine, and in `more`.
///
/// # Errors
///
/// When certificates cannot be used.
pub fn trusting_roots(more: Vec<CertificateDer<'static>>) -> Result<Trusting, Error> {
    let provider = Arc::new(default_provider());
    let verifier = match more.is_empty() {
        true => Verifier::new(Arc::clone(&provider))?,
        false => Verifier::new_with_extra_roots(more, Arc::clone(&provider))?,
    };
    verified_by(Arc::new(verifier), provider)
}

/// Trust in any certificate, where a user asks for it; the handshake is verified.
///
/// # Errors
///
/// When the versions of the protocol cannot be used.
pub fn trusting_any() -> Result<Trusting, Error> {
    let provider = Arc::new(default_provider());
    verified_by(Arc::new(Any(Arc::clone(&provider))), provider)
}

fn verified_by(
    verifier: Arc<dyn ServerCertVerifier>,
    provider: Arc<CryptoProvider>,
) -> Result<Trusting, Error> {
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions()?.dangerous();
    Ok(builder.with_custom_certificate_verifier(verifier))
}

/// Accepts any certificate.
#[derive(Debug)]
struct Any(Arc<CryptoProvider>);

impl ServerCertVerifier for Any {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
