//! The page for a team behind a proxy that proves itself by its certificate (PG-003).

use std::sync::Arc;

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::front::Front;
use super::in_cluster::{TeamPage, two_teams};
use super::*;
use crate::git_server::Certificates;

/// A request through TLS, with a certificate of these, or none; `None` when the connection is refused.
async fn ask(
    page: &TeamPage,
    authority: &Certificates,
    own: Option<(&Certificates, &str)>,
    path: &str,
) -> Option<Answer> {
    let mut roots = RootCertStore::empty();
    let read = |text: String| CertificateDer::from_pem_slice(text.as_bytes()).unwrap();
    roots.add(read(authority.text("ca.crt"))).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match own {
        None => config.with_no_client_auth(),
        Some((of, name)) => {
            let key = of.text(&format!("{name}.key"));
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
            let chain = vec![read(of.text(&format!("{name}.crt")))];
            config.with_client_auth_cert(chain, key).unwrap()
        }
    };
    let stream = TcpStream::connect(page.address()).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.ok()?;
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: rollouts.example.org\r\nX-Forwarded-User: ann\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.ok()?;
    Some(Answer::parse(&String::from_utf8(answer).unwrap()))
}

/// PG-003, PG-041: only a certificate of the authority of the proxy, with its name, names persons.
#[tokio::test(flavor = "multi_thread")]
async fn pg_003_pg_041_only_the_certificate_of_the_proxy_names_persons() {
    let (_world, front) = two_teams().await;
    let (certificates, others) = (Certificates::new(), Certificates::new());
    let files = folder(&["ca.crt", "server.crt", "server.key"].map(|name| (name, "")));
    for name in ["ca.crt", "server.crt", "server.key"] {
        std::fs::write(files.path().join(name), certificates.text(name)).unwrap();
    }
    let start = async |proxy: &str| {
        let option = |option: &str, file: &str| format!("{option}={}", in_folder(&files, file));
        let (ca, certificate, key) = (
            option("--proxy-ca", "ca.crt"),
            option("--tls-certificate", "server.crt"),
            option("--tls-key", "server.key"),
        );
        let name = format!("--proxy-name={proxy}");
        let args = ["--sign-in=headers", "--namespaces=team-a", &ca, &name, &certificate, &key];
        TeamPage::start(&front, &args).await
    };
    // What `Certificates` gives a client has this name.
    let page = start("localhost").await;
    let proxy = Some((&certificates, "client"));
    let fleet = async || ask(&page, &certificates, proxy, "/").await.unwrap();
    until("ann's fleet is there", async || fleet().await.body.contains("shop")).await;
    let none = ask(&page, &certificates, None, "/").await.unwrap();
    assert_eq!(none.status, 401, "{}", none.body);
    says(&none.body, "does not come from the proxy of this page");
    // A certificate of another authority ends the connection.
    let other = ask(&page, &certificates, Some((&others, "client")), "/").await;
    assert!(other.is_none_or(|answer| answer.status == 401), "it is no certificate of the proxy");
    let probe = ask(&page, &certificates, None, "/healthz").await.unwrap();
    assert_eq!(probe.status, 200);
    // What uses no TLS gets no answer, in words that it could read.
    let mut plain = TcpStream::connect(page.address()).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: rollouts.example.org\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP/"), "{answer:?}");

    // Another name of the same authority is another program.
    let page = start("proxy.example.org").await;
    let other = ask(&page, &certificates, proxy, "/").await.unwrap();
    assert_eq!(other.status, 401, "{}", other.body);
    assert!(!other.body.contains("shop"), "{}", other.body);
}

/// PG-003: files that cannot be used are named.
#[tokio::test(flavor = "multi_thread")]
async fn pg_003_certificates_that_cannot_be_used_are_named() {
    let world = World::start().await;
    let front = Front::start(&world).await;
    let files = folder(&[("empty", ""), ("text", "no certificate")]);
    for (certificate, key, why) in [("none", "empty", "none: "), ("text", "empty", "text: ")] {
        let option = |option: &str, file: &str| format!("{option}={}", in_folder(&files, file));
        let (certificate, key) =
            (option("--tls-certificate", certificate), option("--tls-key", key));
        let mut command = program(&[
            "dashboard",
            "--in-cluster",
            "--sign-in=token",
            "--public-url=https://rollouts.example.org",
            &certificate,
            &key,
        ]);
        command.env("KUBECONFIG", front.kubeconfig());
        let run = tokio::task::spawn_blocking(move || finish(command, b"")).await.unwrap();
        run.fails(2, &["error: cannot serve TLS", why]);
    }
}
