//! Chromium, by its WebDriver: what tests of the page need of both.
//!
//! A client of its own: the crates for it bring a license that is not allowed here, or a second HTTP
//! client with all that it needs.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::waiting::until;

/// What a browser of tests does without: windows, a sandbox, which root has not, and its own
/// requests.
const FLAGS: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
];
/// The time for one command.
const ANSWER: Duration = Duration::from_secs(120);

/// A browser with one page.
pub struct Browser {
    driver: Child,
    address: String,
    session: String,
    _profile: TempDir,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

impl Browser {
    /// Starts one; `None`, with a message, where there is no Chromium. Where
    /// `WAVEGATE_TEST_BROWSER` is `required`, that is a failure.
    pub async fn start() -> Option<Self> {
        let mut command = Command::new("chromedriver");
        // In a group of its own, which ends with it.
        command.arg("--port=0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let Ok(mut driver) = command.spawn() else {
            let is_required =
                std::env::var("WAVEGATE_TEST_BROWSER").is_ok_and(|how| how == "required");
            assert!(!is_required, "chromedriver is missing: install chromium and chromium-driver");
            eprintln!("skipped: chromedriver is missing: install chromium and chromium-driver");
            return None;
        };
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = lines.find_map(|line| {
            let line = line.ok()?;
            let port = line.split("successfully on port ").nth(1)?;
            Some(port.trim_end_matches('.').to_owned())
        });
        // What it says later must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let profile = tempfile::tempdir().unwrap();
        let mut browser = Self {
            driver,
            address: format!("127.0.0.1:{}", port.expect("chromedriver listens")),
            session: String::new(),
            _profile: profile,
        };
        let folder = format!("--user-data-dir={}", browser._profile.path().display());
        let flags: Vec<&str> = FLAGS.into_iter().chain([&*folder]).collect();
        let wanted =
            json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": {"args": flags}}}});
        let session = browser.send("POST", "/session", Some(wanted)).await;
        browser.session = session["sessionId"].as_str().unwrap().to_owned();
        Some(browser)
    }

    async fn send(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        // It keeps connections open, whatever is asked of it.
        let asked = async {
            let mut stream = TcpStream::connect(&self.address).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            loop {
                let mut bytes = vec![0; 64 << 10];
                let count = stream.read(&mut bytes).await.unwrap();
                assert!(count > 0, "chromedriver closed the connection");
                answer.extend_from_slice(&bytes[..count]);
                let text = String::from_utf8_lossy(&answer);
                let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                let head = head.to_lowercase();
                let length = head.split("content-length:").nth(1).unwrap();
                let length: usize = length.lines().next().unwrap().trim().parse().unwrap();
                if body.len() >= length {
                    return text.into_owned();
                }
            }
        };
        let answer = tokio::time::timeout(ANSWER, asked).await.expect("chromedriver answers");
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        let answer: Value = serde_json::from_str(body).unwrap();
        assert!(answer["value"]["error"].is_null(), "{path}: {}", answer["value"]);
        answer["value"].clone()
    }

    async fn command(&self, command: &str, body: Value) -> Value {
        self.send("POST", &format!("/session/{}/{command}", self.session), Some(body)).await
    }

    /// A command of Chromium's own protocol.
    pub async fn protocol(&self, command: &str, parameters: Value) -> Value {
        self.command("goog/cdp/execute", json!({"cmd": command, "params": parameters})).await
    }

    /// Opens an address.
    pub async fn open(&self, url: &str) {
        self.command("url", json!({ "url": url })).await;
    }

    /// Sets the size of the window in pixels.
    pub async fn resize(&self, width: u32, height: u32) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.protocol("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// Chooses light or dark, as the system would.
    pub async fn prefer(&self, scheme: &str) {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.protocol("Emulation.setEmulatedMedia", features).await;
    }

    /// The value of an expression in the page.
    pub async fn value(&self, expression: &str) -> Value {
        let script = format!("return ({expression})");
        self.command("execute/sync", json!({"script": script, "args": []})).await
    }

    /// The value that a script in the page gives to its last argument, a function.
    pub async fn value_later(&self, script: &str) -> Value {
        self.command("execute/async", json!({"script": script, "args": []})).await
    }

    /// Runs a script in the page, whatever the page permits.
    pub async fn run_script(&self, script: &str) {
        self.command("execute/sync", json!({"script": script, "args": []})).await;
    }

    /// Waits until an expression in the page is true.
    pub async fn until(&self, expression: &str) {
        until(expression, async || self.value(expression).await == json!(true)).await;
    }

    /// Waits until the page has this text.
    pub async fn until_text(&self, text: &str) {
        self.until(&format!("document.body.innerText.includes({})", json!(text))).await;
    }

    /// Presses keys, as a person does.
    pub async fn press(&self, keys: &str) {
        let key = |c: char| {
            [json!({"type": "keyDown", "value": c}), json!({"type": "keyUp", "value": c})]
        };
        let actions: Vec<Value> = keys.chars().flat_map(key).collect();
        let actions = json!({"actions": [{"type": "key", "id": "keys", "actions": actions}]});
        self.command("actions", actions).await;
    }

    /// Writes a picture of the window, if `WAVEGATE_TEST_PICTURES` names a folder.
    pub async fn picture(&self, name: &str) {
        let Ok(folder) = std::env::var("WAVEGATE_TEST_PICTURES") else { return };
        let path = format!("/session/{}/screenshot", self.session);
        let picture = self.send("GET", &path, None).await;
        let bytes =
            base64::engine::general_purpose::STANDARD.decode(picture.as_str().unwrap()).unwrap();
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(Path::new(&folder).join(format!("{name}.png")), bytes).unwrap();
    }
}
