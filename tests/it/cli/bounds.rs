//! Time is limited by what is read, and programs by the process that starts them.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::json;

use super::with_input;
use crate::support::waiting::until;

/// A file of half a megabyte that is a stream of small JSON values was read for minutes.
#[test]
fn a_stream_of_small_json_values_is_refused_at_once() {
    let run = with_input(&["order", "-f", "-"], format!("{{}}{}", "\n0".repeat(250_000)));
    assert_eq!(run.code, 2, "{}", run.err);
    let limit = "line 100001, column 1: over the limit: more than 100000 documents; split the file";
    assert!(run.err.contains(limit), "{}", run.err);
}

/// `helm`, `kustomize` and `git` outlived a controller that was killed, by minutes.
#[tokio::test]
async fn a_program_ends_with_the_process_that_started_it() {
    let policy = json!({
        "read": [], "write": [], "network": false, "confinement": "Off",
        "memory": 1_u64 << 40, "cpu_seconds": 1000, "file_bytes": 1_u64 << 30,
    });
    // The shell stands for the controller, since it can be killed.
    let script = r#""$1" __confine "$2" $$ /bin/sleep 1000 & echo $!; wait"#;
    let mut shell = Command::new("sh")
        .args(["-c", script, "sh", env!("CARGO_BIN_EXE_wavegate"), &policy.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let program = format!("/proc/{}", line.trim());
    let is_sleep = || {
        std::fs::read_to_string(format!("{program}/cmdline"))
            .is_ok_and(|text| text.starts_with("/bin/sleep"))
    };
    until("the program runs", async || is_sleep()).await;
    shell.kill().unwrap();
    shell.wait().unwrap();
    until("the program has ended", async || !is_sleep()).await;

    // Where the starter is gone already, the program does not begin.
    let gone = line.trim();
    let late = Command::new(env!("CARGO_BIN_EXE_wavegate"))
        .args(["__confine", &policy.to_string(), gone, "/bin/echo", "begun"])
        .output()
        .unwrap();
    assert!(!late.status.success() && late.stdout.is_empty(), "{late:?}");
}
