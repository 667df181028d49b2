//! Authentication: what `git`, `ssh` and servers receive of the credentials.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::{Counted, repositories, script, settings, walk};
use crate::Allow;
use crate::RepoCredentials;
use crate::SourceError;

#[tokio::test]
async fn credentials_reach_git_by_files_only() {
    let marks = tempfile::tempdir().unwrap();
    let seen = marks.path().join("seen");
    // Prints arguments, environment, and the answers of the askpass helper.
    let counted = Counted::new(&format!(
        "{{ echo \"args $*\"; env; ls -l \"${{GIT_ASKPASS%/*}}\"; stat -c %a \"${{GIT_ASKPASS%/*}}\"\n\
         for p in \"Username for 'https://git.example.com': \" \"Password for 'https://me@git.example.com': \" \
         \"Password for 'https://me@evil.example.com': \" \"Username for 'https://evil.example.com': \"; do\n\
         echo \"asked $p\"; \"$GIT_ASKPASS\" \"$p\"; done; }} > '{}' 2>&1\n\
         echo \"fatal: Authentication failed for 'https://me:p%40ss@git.example.com/r' p@ss w\" >&2; exit 128",
        seen.display()
    ));
    let mut settings = counted.settings();
    settings.allow = Allow::default();
    settings.environment.insert("HTTPS_PROXY".into(), "http://proxy:3128".into());
    let (cache, repositories) = repositories(settings);
    let credentials = RepoCredentials {
        username: "me".into(),
        password: "p@ss w".into(),
        ..RepoCredentials::default()
    };
    let url = "https://git.example.com/r";
    let error = repositories.resolve(url, "main", Some(&credentials)).await.unwrap_err();
    assert!(matches!(error, SourceError::Refused { .. }), "{error}");
    assert!(!error.to_string().contains("p@ss"), "{error}");
    assert!(!error.to_string().contains("p%40ss"), "{error}");
    let seen = std::fs::read_to_string(&seen).unwrap();
    let (environment, answers) = seen.split_once("asked ").unwrap();
    assert!(!environment.contains("p@ss"), "{environment}");
    assert!(environment.contains("HTTPS_PROXY=http://proxy:3128"));
    assert!(environment.contains("GIT_ALLOW_PROTOCOL=https:ssh\n"));
    assert!(
        environment.contains("-rw------- ") && environment.contains("\n700\n"),
        "{environment}"
    );
    assert!(!environment.contains("CARGO"), "the environment of this process is not passed on");
    let answers: Vec<&str> = answers.lines().filter(|line| !line.contains(" for '")).collect();
    assert_eq!(answers, ["me", "p@ss w"], "no answers for another host");
    let left: Vec<_> = walk(cache.path()).filter(|path| path.contains("secrets/")).collect();
    assert_eq!(left, Vec::<String>::new());
    let two_lines = RepoCredentials { password: "a\nb".into(), ..credentials };
    let error = repositories.resolve(url, "main", Some(&two_lines)).await.unwrap_err();
    assert!(matches!(error, SourceError::Refused { .. }), "{error}");
}

/// A client certificate, a token, a proxy and the CA of a server reach `git` by files.
#[tokio::test]
async fn https_settings_of_a_secret_reach_git_by_files_only() {
    let marks = tempfile::tempdir().unwrap();
    let seen = marks.path().join("seen");
    let counted = Counted::new(&format!(
        "{{ env | sort; cat \"$GIT_CONFIG_GLOBAL\" \"$GIT_SSL_CERT\" \"$GIT_SSL_KEY\" \"$GIT_SSL_CAINFO\"; }} > '{}'\n\
         echo 'fatal: unable to access: server certificate verification failed. CAfile: none' >&2; exit 128",
        seen.display()
    ));
    let mut settings = counted.settings();
    settings.allow = Allow::default();
    let (_cache, repositories) = repositories(settings);
    let credentials = RepoCredentials {
        client_certificate: "CERT\n".into(),
        client_key: "KEY\n".into(),
        ca_certificates: "CA\n".into(),
        bearer_token: "to\"ken".into(),
        proxy: "http://me:word@proxy:3128".into(),
        no_proxy: "internal".into(),
        ..RepoCredentials::default()
    };
    let url = "https://GIT.example.com:0443/r";
    let error = repositories.resolve(url, "main", Some(&credentials)).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, SourceError::Refused { .. }), "{text}");
    assert!(text.contains("ConfigMap argocd-tls-certs-cm with the key git.example.com"), "{text}");
    let seen = std::fs::read_to_string(&seen).unwrap();
    let (environment, files) = seen.split_once("[http]").unwrap();
    assert!(!environment.contains("ken") && !environment.contains("me:word"), "{environment}");
    assert!(environment.contains("NO_PROXY=internal\n"), "{environment}");
    for want in [
        "proxy = \"http://me:word@proxy:3128\"",
        "[http \"https://git.example.com/\"]",
        "extraHeader = \"Authorization: Bearer to\\\"ken\"",
        "CERT\nKEY\nCA\n",
    ] {
        assert!(files.contains(want), "{want} in {files}");
    }
    let refused = RepoCredentials { refusal: "Secret s: no".into(), ..RepoCredentials::default() };
    let error = repositories.resolve(url, "main", Some(&refused)).await.unwrap_err();
    assert!(error.to_string().contains("Secret s: no"), "{error}");
}

#[tokio::test]
async fn ssh_trusts_known_hosts_and_one_key_only() {
    let marks = tempfile::tempdir().unwrap();
    let seen = marks.path().join("seen");
    let bin = marks.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    script(
        &bin,
        "ssh",
        &format!(
            "{{ for a in \"$@\"; do echo \"arg $a\"; done\n\
             key=$(echo \"$*\" | sed 's/.* -i \\([^ ]*\\) .*/\\1/'); stat -c 'mode %a' \"$key\"; cat \"$key\"; }} > '{}'\n\
             echo 'Host key verification failed.' >&2; exit 255",
            seen.display()
        ),
    );
    let counted = Counted::new(&format!("PATH='{}':$PATH", bin.display()));
    let (_cache, repositories) = repositories(counted.settings());
    let credentials = RepoCredentials {
        ssh_private_key: "KEY".into(),
        ssh_known_hosts: "git.example.com ssh-ed25519 AAAA".into(),
        ..RepoCredentials::default()
    };
    let error = repositories.resolve("git@git.example.com:team/repo", "", Some(&credentials)).await;
    assert!(matches!(error, Err(SourceError::Refused { .. })), "{error:?}");
    let text = error.unwrap_err().to_string();
    let advice = "the key of git.example.com is not known or has changed: add it to \
                  `ssh_known_hosts` of the ConfigMap argocd-ssh-known-hosts-cm";
    assert!(text.contains(advice), "{text}");
    let seen = std::fs::read_to_string(&seen).unwrap();
    for want in
        ["StrictHostKeyChecking=yes", "BatchMode=yes", "IdentityAgent=none", "mode 600", "\nKEY"]
    {
        assert!(seen.contains(want), "{want} in {seen}");
    }
    assert!(seen.contains("UserKnownHostsFile=\""), "{seen}");
}

/// A web server that requires a password, or redirects all requests.
struct Server {
    address: String,
    /// The received `Authorization` headers.
    seen: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn server(redirect_to: Option<String>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let task = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                match stream.read_u8().await {
                    Ok(byte) => request.push(byte),
                    Err(_) => break,
                }
            }
            let request = String::from_utf8_lossy(&request).into_owned();
            let target = request.split(' ').nth(1).unwrap_or("/").to_owned();
            let header = request.lines().find_map(|line| line.strip_prefix("Authorization: "));
            let answer = match (&redirect_to, header) {
                (Some(to), _) => format!("301 Moved\r\nLocation: http://{to}{target}"),
                (None, None) => "401 No\r\nWWW-Authenticate: Basic realm=\"r\"".to_owned(),
                (None, Some(_)) => "404 Not Found".to_owned(),
            };
            log.lock().extend(header.map(str::to_owned));
            let text =
                format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            let _ = stream.write_all(text.as_bytes()).await;
        }
    });
    Server { address, seen, task }
}

#[tokio::test]
async fn git_sends_credentials_only_to_the_host_of_the_url() {
    let mut settings = settings();
    settings.allow = Allow { local: false, http: true };
    settings.limits.failure_kept = Duration::ZERO;
    let (_cache, repositories) = repositories(settings);
    let credentials = RepoCredentials {
        username: "me".into(),
        password: "p@ss: w".into(),
        ..RepoCredentials::default()
    };
    let asks = server(None).await;
    let url = format!("http://{}/team/repo", asks.address);
    let error = repositories.resolve(&url, "main", Some(&credentials)).await.unwrap_err();
    assert!(matches!(error, SourceError::MissingRepository { .. }), "{error:?}");
    let want = format!("Basic {}", STANDARD.encode("me:p@ss: w"));
    let seen = asks.seen.lock().clone();
    assert!(!seen.is_empty() && seen.iter().all(|header| *header == want), "{seen:?}");

    let embedded = format!("http://you:t%40k@{}/team/repo", asks.address);
    asks.seen.lock().clear();
    let error = repositories.resolve(&embedded, "main", None).await.unwrap_err();
    assert!(!error.to_string().contains("t%40k"), "{error}");
    let want = format!("Basic {}", STANDARD.encode("you:t@k"));
    assert_eq!(asks.seen.lock().first(), Some(&want));

    let error = repositories.resolve(&url, "main", None).await.unwrap_err();
    assert!(matches!(error, SourceError::Refused { .. }), "without a password: {error:?}");

    asks.seen.lock().clear();
    let sends_away = server(Some(asks.address.clone())).await;
    let url = format!("http://{}/team/repo", sends_away.address);
    let error = repositories.resolve(&url, "main", Some(&credentials)).await.unwrap_err();
    assert!(matches!(error, SourceError::Refused { .. }), "{error:?}");
    assert_eq!(*asks.seen.lock(), Vec::<String>::new(), "another host receives no credentials");
}
