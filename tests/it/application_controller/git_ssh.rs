//! Repositories over ssh, on a real `sshd` of this user.

use std::io::Read;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use super::chart_repositories::secret;
use super::programs::confined;
use super::*;

/// A server for whoever has one key.
struct Sshd {
    directory: tempfile::TempDir,
    port: u16,
    child: Child,
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program() -> Option<PathBuf> {
    let found = ["/usr/sbin/sshd", "/usr/local/sbin/sshd", "/usr/bin/sshd"];
    let found = found.into_iter().map(PathBuf::from).find(|path| path.exists());
    if found.is_none() {
        eprintln!("skipped: sshd is not installed; tests/run installs openssh-server");
    }
    found
}

impl Sshd {
    fn start() -> Option<Self> {
        let program = program()?;
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        for name in ["host", "user", "other"] {
            keygen(&path(name));
        }
        std::fs::copy(path("user.pub"), path("authorized_keys")).unwrap();
        // As root, it needs this folder for its unprivileged part.
        if rustix_is_root() {
            let _ = std::fs::create_dir_all("/run/sshd");
        }
        for _ in 0..20 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            if let Some(child) = Self::spawn(&program, directory.path(), port) {
                return Some(Self { directory, port, child });
            }
        }
        panic!("sshd does not start at any port");
    }

    /// Starts it at a port; `None` when another process has taken it meanwhile.
    fn spawn(program: &Path, directory: &Path, port: u16) -> Option<Child> {
        let path = |name: &str| directory.join(name).display().to_string();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nPidFile none\nStrictModes no\n\
             AuthorizedKeysFile {}\nUsePAM no\nPasswordAuthentication no\n\
             KbdInteractiveAuthentication no\nPermitRootLogin yes\nLogLevel ERROR\n",
            path("host"),
            path("authorized_keys"),
        );
        std::fs::write(path("config"), config).unwrap();
        let mut child = Command::new(program)
            .args(["-D", "-e", "-f", &path("config")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let until = std::time::Instant::now() + LIMIT;
        while !is_sshd(port) {
            if child.try_wait().unwrap().is_some() {
                return None;
            }
            assert!(std::time::Instant::now() < until, "sshd does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(child)
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.directory.path().join(name)).unwrap()
    }

    /// A line of `known_hosts` with one of the keys.
    fn known_host(&self, name: &str) -> String {
        let key = self.text(&format!("{name}.pub"));
        let key: Vec<&str> = key.split(' ').take(2).collect();
        format!("[127.0.0.1]:{} {}\n", self.port, key.join(" "))
    }

    fn url(&self, path: &Path) -> String {
        let user = Command::new("id").arg("-un").output().unwrap().stdout;
        let user = String::from_utf8(user).unwrap();
        format!("ssh://{}@127.0.0.1:{}{}", user.trim(), self.port, path.display())
    }
}

/// Whether a server for ssh answers at a port.
fn is_sshd(port: u16) -> bool {
    let Ok(mut stream) = std::net::TcpStream::connect(("127.0.0.1", port)) else { return false };
    let mut banner = [0; 4];
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream.read_exact(&mut banner).is_ok() && banner == *b"SSH-"
}

fn rustix_is_root() -> bool {
    Command::new("id").arg("-u").output().unwrap().stdout == b"0\n"
}

fn keygen(path: &str) {
    let args = ["-q", "-t", "ed25519", "-N", "", "-f", path];
    let made = Command::new("ssh-keygen").args(args).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// SE-032: the key of the server and that of the user are checked; each error names the host
/// and where its key belongs, and a change of the ConfigMap or of the Secret acts at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn se_032_a_repository_over_ssh() {
    let Some(sshd) = Sshd::start() else { return };
    let world = World::with(confined(|_| {})).await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let url = sshd.url(world.repo.path());
    world.create_app(&world.with_source("app", json!({"repoURL": url, "path": "app"}))).await;
    let advice = "`ssh_known_hosts` of the ConfigMap argocd-ssh-known-hosts-cm";
    let place = format!("the key of [127.0.0.1]:{}", sshd.port);
    world.until_refused("app", &[&place, advice]).await;
    // The key of another server, which is what an attacker would have.
    let hosts = json!({"ssh_known_hosts": sshd.known_host("other")});
    world.config("argocd-ssh-known-hosts-cm", hosts).await;
    world.until_refused("app", &["HOST IDENTIFICATION HAS CHANGED", advice]).await;
    // Lines that are none do not hide the others.
    let garbage =
        format!("@cert-authority\n\u{1} nonsense\n* ssh-rsa AAAA\n{}\n", "x".repeat(100_000));
    let hosts = json!({"ssh_known_hosts": format!("{garbage}{}", sshd.known_host("host"))});
    world.config("argocd-ssh-known-hosts-cm", hosts).await;
    world.until_refused("app", &["Permission denied"]).await;
    secret(&world, "login", json!({"url": url, "sshPrivateKey": sshd.text("other")})).await;
    world.refresh("app").await;
    world.until_refused("app", &["Permission denied"]).await;
    let set = async |key: &str| {
        use base64::Engine;
        let key = base64::engine::general_purpose::STANDARD.encode(key);
        let patch = Patch::Merge(json!({"data": {"sshPrivateKey": key}}));
        let api = world.api("v1", "Secret", NAMESPACE);
        api.patch("login", &PatchParams::default(), &patch).await.unwrap();
    };
    set(&"x".repeat(700_000)).await;
    world.until_refused("app", &["Secret login: the key sshPrivateKey is larger than"]).await;
    set(&format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n", "A".repeat(9000))).await;
    let message = world.until_refused("app", &["Load key"]).await;
    assert!(!message.contains("AAAAAAAA"), "{message}");
    // With the ends of lines of Windows.
    set(&sshd.text("user").replace('\n', "\r\n")).await;
    world.until_deployed("app").await;

    world.config("argocd-ssh-known-hosts-cm", json!({"ssh_known_hosts": ""})).await;
    let any = world.with_source("any", json!({"repoURL": url, "path": "app"}));
    world.refused_for(&any, &[advice]).await;
    let fields = json!({"data": {"insecureIgnoreHostKey": "dHJ1ZQ=="}});
    world.patch_object(("v1", "Secret"), NAMESPACE, "login", fields).await;
    world.until_deployed("any").await;

    // A proxy for ssh is one of SOCKS5.
    let fields = json!({"url": "ssh://git@proxied.invalid/team/app", "proxy": "http://proxy:3128"});
    secret(&world, "proxied", fields).await;
    let proxied = json!({"repoURL": "git@proxied.invalid:team/app", "path": "app"});
    let want = ["is a SOCKS5 proxy: write socks5:// with host and port"];
    world.refused_for(&world.with_source("proxied", proxied), &want).await;
}
