//! A real Redis, as Argo CD's API server reads it.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use redis::Commands;
use serde_json::Value;
use tempfile::{TempDir, tempdir};
use wavegate_application::argocd_cache::RedisSettings;

/// How long a value may take.
const LIMIT: Duration = Duration::from_secs(300);

/// A Redis of this test.
pub struct Redis {
    process: Child,
    /// Where it listens, on the loopback address.
    pub port: u16,
    options: Vec<String>,
    /// What a replica gets is written to a file.
    directory: TempDir,
}

/// A port that is free now.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Redis {
    /// `None`, with a message, where there is none.
    pub fn start(options: &[impl AsRef<str>]) -> Option<Self> {
        let options: Vec<String> =
            options.iter().map(|option| option.as_ref().to_owned()).collect();
        for _ in 0..20 {
            let (port, directory) = (free_port(), tempdir().unwrap());
            let Some(process) = Self::spawn(port, directory.path(), &options) else {
                eprintln!("skipped: redis-server is not installed");
                return None;
            };
            let mut redis = Self { process, port, options: options.clone(), directory };
            // Otherwise another process has taken the port meanwhile.
            if redis.answers() {
                return Some(redis);
            }
        }
        panic!("Redis does not start at any port");
    }

    fn spawn(port: u16, directory: &Path, options: &[String]) -> Option<Child> {
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
        command.arg("--dir").arg(directory);
        command.args(options).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().ok()
    }

    pub fn again(&mut self) {
        let began = std::time::Instant::now();
        loop {
            self.process = Self::spawn(self.port, self.directory.path(), &self.options).unwrap();
            if self.answers() {
                return;
            }
            assert!(began.elapsed() < LIMIT, "the port of Redis stays taken");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    pub fn stop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Waits until it answers; false when it has ended.
    pub fn answers(&mut self) -> bool {
        let began = std::time::Instant::now();
        loop {
            if self.process.try_wait().unwrap().is_some() {
                return false;
            }
            if self.is_there() {
                return true;
            }
            assert!(began.elapsed() < LIMIT, "Redis does not start");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Whether a Redis answers, with or without a password.
    fn is_there(&self) -> bool {
        let Ok(mut stream) = std::net::TcpStream::connect(("127.0.0.1", self.port)) else {
            return false;
        };
        let mut answer = [0; 5];
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        stream.write_all(b"PING\r\n").is_ok()
            && stream.read_exact(&mut answer).is_ok()
            && [b"+PONG", b"-NOAU"].contains(&&answer)
    }

    /// A client of the first database.
    pub fn client(&self) -> redis::Client {
        self.client_of(0)
    }

    /// A client of a database.
    pub fn client_of(&self, database: i64) -> redis::Client {
        let password = self.options.iter().position(|option| option == "--requirepass");
        let password = password.map_or("", |at| &self.options[at + 1]);
        let login = if password.is_empty() { String::new() } else { format!(":{password}@") };
        redis::Client::open(format!("redis://{login}127.0.0.1:{}/{database}", self.port)).unwrap()
    }

    pub fn settings(&self) -> RedisSettings {
        RedisSettings { server: format!("127.0.0.1:{}", self.port), ..RedisSettings::default() }
    }

    pub fn read(&self, key: &str) -> redis::RedisResult<Option<Vec<u8>>> {
        self.client().get_connection()?.get(key)
    }

    pub fn bytes(&self, key: &str) -> Option<Vec<u8>> {
        self.read(key).unwrap()
    }

    /// The value of a key; null when there is none.
    pub fn value(&self, key: &str) -> Value {
        parsed(key, self.bytes(key).as_deref())
    }

    /// How often a command was called.
    pub fn calls(&self, command: &str) -> u64 {
        let info: String =
            redis::cmd("INFO").arg("commandstats").query(&mut self.client()).unwrap();
        let line = info.lines().find(|line| line.starts_with(&format!("cmdstat_{command}:")));
        let calls = line.and_then(|line| line.split_once("calls=")?.1.split_once(','));
        calls.map_or(0, |(count, _)| count.parse().unwrap())
    }

    /// Waits until a command was called more often than that.
    pub async fn until_called(&self, command: &str, count: u64) {
        let called = async {
            while self.calls(command) <= count {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let called = tokio::time::timeout(LIMIT, called).await;
        called.unwrap_or_else(|_| panic!("{command} is not called again"));
    }

    /// Waits until the value of a key matches a condition.
    pub async fn until(&self, key: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let began = tokio::time::Instant::now();
        loop {
            // A replica that loads the data of its master answers with an error.
            let value = self.read(key).map(|bytes| parsed(key, bytes.as_deref()));
            match value {
                Ok(value) if is(&value) => return value,
                value => assert!(began.elapsed() < LIMIT, "{key} is not {what}: {value:#?}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The value that is written at a key; null when there is none.
fn parsed(key: &str, bytes: Option<&[u8]>) -> Value {
    let Some(bytes) = bytes else { return Value::Null };
    let mut text = Vec::new();
    match key.ends_with(".gz") {
        true => {
            assert_eq!(bytes[..2], [0x1f, 0x8b], "{key} is compressed");
            flate2::read::GzDecoder::new(bytes).read_to_end(&mut text).unwrap();
        }
        false => text.extend_from_slice(bytes),
    }
    serde_json::from_slice(&text).unwrap()
}

/// A Sentinel that watches a Redis as the master of a group.
pub fn sentinel(master: u16, group: &str) -> Redis {
    let (directory, port) = (tempdir().unwrap(), free_port());
    let config = directory.path().join("sentinel.conf");
    let text = format!(
        "port {port}\nbind 127.0.0.1\nsentinel monitor {group} 127.0.0.1 {master} 1\n\
         sentinel down-after-milliseconds {group} 60000\nsentinel failover-timeout {group} 60000\n"
    );
    std::fs::write(&config, text).unwrap();
    let mut command = Command::new("redis-server");
    command.arg(&config).arg("--sentinel").stdout(Stdio::null()).stderr(Stdio::null());
    let process = command.spawn().unwrap();
    let mut sentinel = Redis { process, port, options: Vec::new(), directory };
    assert!(sentinel.answers(), "the Sentinel has ended");
    sentinel
}

/// A certificate authority, and a certificate of it for this machine, in files.
pub struct Certificates(TempDir);

impl Certificates {
    /// Makes them.
    pub fn new() -> Self {
        let directory = tempdir().unwrap();
        let san = directory.path().join("san");
        std::fs::write(&san, "subjectAltName=IP:127.0.0.1\n").unwrap();
        let san = san.to_str().unwrap().to_owned();
        let commands = [
            "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -days 1 -subj /CN=authority",
            "req -newkey rsa:2048 -nodes -keyout redis.key -out redis.csr -subj /CN=redis",
            &format!(
                "x509 -req -in redis.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out redis.crt -days 1 -extfile {san}"
            ),
        ];
        for command in commands {
            let mut openssl = Command::new("openssl");
            let made = openssl.args(command.split(' ')).current_dir(&directory).output().unwrap();
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        }
        Self(directory)
    }

    /// The path of a file: `ca.crt`, `redis.crt`, `redis.key`, or the `log` of a Redis.
    pub fn file(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// Options of a Redis that listens with TLS, too; `clients` are `yes` if they need a
    /// certificate.
    pub fn options(&self, port: u16, clients: &str) -> Vec<String> {
        let port = port.to_string();
        let options = [
            ("tls-port", port.as_str()),
            ("tls-auth-clients", clients),
            ("tls-cert-file", &self.file("redis.crt")),
            ("tls-key-file", &self.file("redis.key")),
            ("tls-ca-cert-file", &self.file("ca.crt")),
            ("logfile", &self.file("log")),
        ];
        options
            .iter()
            .flat_map(|(name, value)| [format!("--{name}"), (*value).to_owned()])
            .collect()
    }
}
