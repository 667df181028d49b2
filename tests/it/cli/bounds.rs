//! Time is limited by what is read, and programs by the process that starts them.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::arguments::Running;
use super::embedded::Cluster;
use super::{WAIT, set, with_input};
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

/// One refused set took a gigabyte, and as many at once as there are workers: each is refused
/// before, one after the other, and leaves nothing behind.
#[tokio::test(flavor = "multi_thread")]
async fn ten_refused_sets_at_once_hold_no_gigabyte_as_135() {
    let cluster = Cluster::start().await;
    let list = |name: &str| {
        let elements: Vec<Value> = (0..1_000).map(|n| json!({ name: n.to_string() })).collect();
        json!({"list": {"elements": elements}})
    };
    let matrix = json!([{"matrix": {"generators": [list("n"), list("m")]}}]);
    let names: Vec<String> = (0..10).map(|n| format!("set-{n}")).collect();
    for name in &names {
        let mut object: Value = serde_json::from_str(&set(&["a"], json!([{}]))).unwrap();
        object["metadata"] = json!({"name": name, "namespace": "argocd"});
        object["spec"]["generators"] = matrix.clone();
        cluster.create("ApplicationSet", object).await;
    }
    let arguments =
        ["--probe-addr=", "--metrics-addr=", "--webhook-addr=", "--sync-engine=external"];
    let running = Running::start(&cluster, &arguments, &[]);
    let until = std::time::Instant::now() + WAIT;
    for name in &names {
        loop {
            let set = cluster.api("ApplicationSet").get(name).await.unwrap();
            let status = serde_json::to_value(&set).unwrap()["status"].to_string();
            if status.contains("the parameter sets take more than 134217728 bytes of memory") {
                break;
            }
            assert!(std::time::Instant::now() < until, "{status} {}", running.log());
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }
    let memory = |what: &str| -> u64 {
        let status = format!("/proc/{}/status", running.child.id());
        let status = std::fs::read_to_string(status).unwrap();
        let line = status.lines().find(|line| line.starts_with(what)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let most = memory("VmHWM") >> 10;
    println!("ten refused sets: {most} MiB at most, {} MiB then", memory("VmRSS") >> 10);
    assert!(most < 1024, "{most} MiB");
    while memory("VmRSS") >> 10 > 256 {
        assert!(std::time::Instant::now() < until, "{} kB are kept", memory("VmRSS"));
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}
