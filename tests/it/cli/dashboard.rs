//! `wavegate dashboard`: the page over HTTP, as a browser and as an attacker would ask it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::policies::{HOSTILE, World, gate, waits_for_approval};
use super::*;
use crate::support::waiting::until;

mod acting;
mod attacks;
mod certificate;
mod details;
mod front;
mod in_cluster;
mod measured;
mod real_rights;
mod simulated;
mod views;

/// A page that is served.
pub(super) struct PageServer {
    child: Child,
    /// `127.0.0.1:PORT`.
    pub address: String,
    pub token: String,
    pub cookie: String,
}

impl Drop for PageServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The answer to a request.
#[derive(Debug)]
pub(super) struct Answer {
    pub status: u16,
    /// As it was sent.
    pub head: String,
    pub body: String,
}

impl PageServer {
    /// Starts it as a user of a world, and signs in.
    pub async fn start(world: &World, args: &[&str]) -> Self {
        Self::with(world.command("ann", &[&["dashboard"], args].concat())).await
    }

    pub async fn with(command: Command) -> Self {
        Self::after(command, "").await
    }

    /// The same of a command that prints its address in a line with this begin.
    pub async fn after(mut command: Command, begin: &str) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let begin = format!("{begin}http://");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = lines.find_map(|line| Some(line.ok()?.strip_prefix(&begin)?.to_owned()));
        let url = url.expect("it prints its address");
        std::thread::spawn(move || lines.for_each(drop));
        let (address, token) = url.split_once("/?start=").expect("it prints its token");
        let mut page = Self {
            child,
            address: address.to_owned(),
            token: token.to_owned(),
            cookie: String::new(),
        };
        let signed_in = page.ask(&format!("GET /?start={token}"), &[], "").await;
        assert_eq!(signed_in.status, 200, "{}", signed_in.head);
        let cookie = signed_in.header("set-cookie").expect("the token is exchanged");
        page.cookie = cookie.split(';').next().unwrap().to_owned();
        page
    }

    /// Sends a request with these headers, and no others but the host.
    pub async fn ask(&self, request: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        let host = headers.iter().any(|(name, _)| *name == "Host");
        let mut text = format!("{request} HTTP/1.1\r\nConnection: close\r\n");
        if !host {
            text += &format!("Host: {}\r\n", self.address);
        }
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        text += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        tokio::time::timeout(WAIT, stream.read_to_end(&mut answer)).await.unwrap().unwrap();
        Answer::parse(&String::from_utf8(answer).unwrap())
    }

    /// Reads a view as the person who signed in.
    pub async fn get(&self, path: &str) -> Answer {
        self.ask(&format!("GET {path}"), &[("Cookie", &self.cookie)], "").await
    }

    /// Reads a view until it has this text.
    pub async fn until(&self, path: &str, text: &str) -> String {
        let mut body = String::new();
        until(&format!("{path} has {text:?}"), async || {
            body = self.get(path).await.body;
            body.contains(text)
        })
        .await;
        body
    }

    /// The changes of a view, as they come.
    pub async fn follow(&self, view: &str) -> Stream {
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        let (address, cookie) = (&self.address, &self.cookie);
        let request = format!(
            "GET /events?view={view} HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        Stream { stream, read: Vec::new() }
    }
}

impl Answer {
    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").expect("an answer has a head");
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let head = head.to_owned();
        Self { status, head, body: body.to_owned() }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let is = |line: &&str| {
            line.split_once(':').is_some_and(|(key, _)| key.eq_ignore_ascii_case(name))
        };
        let line = self.head.lines().find(is)?;
        Some(line.split_once(':').unwrap().1.trim())
    }
}

/// An open stream.
pub(super) struct Stream {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Stream {
    /// Reads until the text was sent; what was read since the last call.
    pub async fn until(&mut self, text: &str) -> String {
        let reading = async {
            loop {
                let known = String::from_utf8_lossy(&self.read).into_owned();
                if known.contains(text) {
                    self.read.clear();
                    return known;
                }
                let mut bytes = [0; 16 << 10];
                let count = self.stream.read(&mut bytes).await.unwrap();
                assert!(count > 0, "the stream ended without {text:?}: {known}");
                self.read.extend_from_slice(&bytes[..count]);
            }
        };
        tokio::time::timeout(WAIT, reading).await.unwrap_or_else(|_| panic!("no {text:?} was sent"))
    }
}
