use std::time::{Duration, Instant};

use serde_json::{Value, json};
use turns::Caller;

use crate::{EvalError, EvalLimits, PoolSettings, Program, WorkerPool};

const LIMITS: EvalLimits =
    EvalLimits { time: Duration::from_secs(20), memory: 128 << 20, output: 1 << 20 };

/// What a worker is asked to do by the tests, as if a script had escaped its interpreter.
pub(crate) fn attack(input: &Value) -> Result<Value, String> {
    let text = |name: &str| input[name].as_str().unwrap_or_default().to_owned();
    let outcome = |result: std::io::Result<Value>| match result {
        Ok(value) => json!({ "done": value }),
        Err(error) => json!({ "denied": error.to_string() }),
    };
    Ok(match input["do"].as_str().unwrap_or_default() {
        "echo" => input["value"].clone(),
        "refuse" => return Err("refused as asked".to_owned()),
        "environment" => json!(std::env::vars().map(|(name, _)| name).collect::<Vec<_>>()),
        "read" => outcome(std::fs::read_to_string(text("path")).map(Value::from)),
        "list" => outcome(std::fs::read_dir(text("path")).map(|all| json!(all.count()))),
        "write" => outcome(std::fs::write(text("path"), "x").map(|()| Value::Null)),
        "connect" => outcome(std::net::TcpStream::connect(text("to")).map(|_| Value::Null)),
        "bind" => outcome(std::net::UdpSocket::bind("127.0.0.1:0").map(|_| Value::Null)),
        "local" => outcome(std::os::unix::net::UnixStream::connect("/x").map(|_| Value::Null)),
        "fork" => {
            let started: Vec<_> = (0..100)
                .map(|_| outcome(std::process::Command::new("/bin/true").spawn().map(|_| json!(1))))
                .collect();
            json!(started)
        }
        "threads" => {
            let started: Vec<_> = (0..100)
                .map(|_| {
                    let thread = std::thread::Builder::new().spawn(|| {
                        std::thread::sleep(Duration::from_millis(50));
                    });
                    outcome(thread.map(|_| json!(1)))
                })
                .collect();
            json!(started)
        }
        "signal" => {
            let pid = input["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
            let pid = pid.and_then(rustix::process::Pid::from_raw).ok_or("no process")?;
            outcome(
                rustix::process::kill_process(pid, rustix::process::Signal::KILL)
                    .map(|()| Value::Null)
                    .map_err(Into::into),
            )
        }
        // The first four are the socket, twice, and the standard streams.
        "descriptors" => {
            json!((4..256).filter(|number| nix::unistd::close(*number).is_ok()).count())
        }
        "process" => json!(std::process::id()),
        "spin" => loop {
            std::hint::black_box(input);
        },
        "recurse" => {
            fn deeper(depth: u64) -> u64 {
                let here = std::hint::black_box([depth; 64]);
                if here[0] == u64::MAX { 0 } else { deeper(here[1] + 1) + here[2] }
            }
            json!(deeper(0))
        }
        "allocate" => {
            let mut all = Vec::new();
            loop {
                all.push(std::hint::black_box(vec![1_u8; 1 << 20]));
                if all.len() > 4096 {
                    return Ok(json!("4 GiB"));
                }
            }
        }
        "output" => json!("x".repeat(input["bytes"].as_u64().unwrap_or_default() as usize)),
        "garbage" => {
            // Standard input is the socket.
            let sent = rustix::io::write(rustix::stdio::stdin(), text("bytes").as_bytes());
            json!(sent.is_ok())
        }
        "panic" => panic!("as asked"),
        "exit" => std::process::exit(3),
        other => return Err(format!("unknown attack {other}")),
    })
}

/// The caller of a test with one.
fn nobody() -> Caller {
    Caller::default()
}

fn pool(workers: usize) -> WorkerPool {
    WorkerPool::new(PoolSettings { workers, ..PoolSettings::default() })
}

fn ask(pool: &WorkerPool, input: Value) -> Result<Value, EvalError> {
    pool.evaluate_blocking(Program::Attack, &nobody(), &input, LIMITS)
}

/// Whether this kernel can confine a worker; the tests of confinement need it.
fn can_confine() -> bool {
    let missing = WorkerPool::missing().unwrap();
    if missing.is_empty() {
        return true;
    }
    eprintln!("skipped: this machine cannot confine workers: {}", missing.join("; "));
    false
}

#[test]
fn a_worker_answers_again_and_again() {
    let pool = pool(1);
    for round in 0..50 {
        assert_eq!(ask(&pool, json!({"do": "echo", "value": round})), Ok(json!(round)));
    }
    let refused = EvalError::Refused("refused as asked".to_owned());
    assert_eq!(ask(&pool, json!({"do": "refuse"})), Err(refused));
    assert_eq!(ask(&pool, json!({"do": "echo", "value": [1, "a"]})), Ok(json!([1, "a"])));
}

#[test]
fn a_worker_reaches_nothing() {
    if !can_confine() {
        return;
    }
    let pool = pool(1);
    let denied = |input: Value| {
        let answer = ask(&pool, input.clone()).unwrap();
        assert!(answer["denied"].is_string(), "{input}: {answer}");
    };
    let own = std::process::id();
    for path in ["/etc/passwd", "/proc/self/environ", &format!("/proc/{own}/environ"), "/dev/null"]
    {
        denied(json!({"do": "read", "path": path}));
    }
    denied(json!({"do": "list", "path": "/"}));
    denied(json!({"do": "write", "path": "/tmp/written-by-a-worker"}));
    denied(json!({"do": "connect", "to": "127.0.0.1:1"}));
    denied(json!({"do": "bind"}));
    denied(json!({"do": "local"}));
    denied(json!({"do": "signal", "pid": own}));
    for started in ["fork", "threads"] {
        let all = ask(&pool, json!({"do": started})).unwrap();
        assert!(all.as_array().unwrap().iter().all(|one| one["denied"].is_string()), "{all}");
    }
    let names = ask(&pool, json!({"do": "environment"})).unwrap();
    let known = [crate::process::MEMORY_OF_TEST, "__RUST_TEST_INVOKE", "RUST_TEST_THREADS"];
    assert!(
        names.as_array().unwrap().iter().all(|name| known.contains(&name.as_str().unwrap())),
        "{names}"
    );
}

#[test]
fn a_request_that_kills_its_worker_fails_alone() {
    let pool = pool(1);
    let echo = || assert_eq!(ask(&pool, json!({"do": "echo", "value": 1})), Ok(json!(1)));
    let died = |input: Value, words: &[&str]| {
        let answer = ask(&pool, input.clone());
        let Err(EvalError::Died(why)) = &answer else { panic!("{input}: {answer:?}") };
        assert!(words.iter().any(|word| why.contains(word)), "{input}: {why}");
        echo();
    };
    echo();
    died(json!({"do": "allocate"}), &["more memory than allowed"]);
    died(json!({"do": "recurse"}), &["too deeply"]);
    died(json!({"do": "panic"}), &["internal error"]);
    died(json!({"do": "exit"}), &["exit status: 3"]);
    died(json!({"do": "garbage", "bytes": "\u{2}\0\0\0{}"}), &["invalid answer"]);
    let answer = ask(&pool, json!({"do": "garbage", "bytes": "garbage garbage"}));
    assert_eq!(answer, Err(EvalError::TooLarge(LIMITS.output)));
    echo();
    let answer = ask(&pool, json!({"do": "output", "bytes": 2 << 20}));
    assert_eq!(answer, Err(EvalError::TooLarge(LIMITS.output)));
    echo();
    let limits = EvalLimits { time: Duration::from_millis(300), ..LIMITS };
    let began = Instant::now();
    let answer = pool.evaluate_blocking(Program::Attack, &nobody(), &json!({"do": "spin"}), limits);
    assert_eq!(answer, Err(EvalError::TimedOut(limits.time)));
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    echo();
}

/// The state of a process, and the processor time that it has taken; `None` when it is gone.
fn state(number: i64) -> Option<(String, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
    Some((fields[0].to_owned(), fields[11].parse().unwrap()))
}

/// Waits for a condition, with a limit.
fn until(is: impl Fn() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < Duration::from_secs(120), "it does not become so");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_worker_that_is_killed_by_hand_is_replaced() {
    let pool = pool(1);
    let kill = || {
        let number = ask(&pool, json!({"do": "process"})).unwrap().as_i64().unwrap();
        let pid = rustix::process::Pid::from_raw(i32::try_from(number).unwrap()).unwrap();
        let now = move || rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        (number, now)
    };
    // While it works.
    let (number, now) = kill();
    let before = state(number).unwrap().1;
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| ask(&pool, json!({"do": "spin"})));
        until(|| state(number).is_some_and(|(_, ticks)| ticks >= before + 5));
        now().unwrap();
        let answer = asking.join().unwrap();
        assert!(
            matches!(&answer, Err(EvalError::Died(why)) if why.contains("killed")),
            "{answer:?}"
        );
    });
    // While it has nothing to do: the next one answers what follows.
    let echo = || ask(&pool, json!({"do": "echo", "value": 1}));
    for _ in 0..20 {
        let (_, now) = kill();
        now().unwrap();
        assert_eq!(echo(), Ok(json!(1)));
    }
    // Before it has read the request, at whatever moment that is: the next one answers it.
    for pause in [0, 1, 5, 50] {
        let number = i32::try_from(kill().0).unwrap();
        let pid = rustix::process::Pid::from_raw(number).unwrap();
        let send = |signal| rustix::process::kill_process(pid, signal).unwrap();
        send(rustix::process::Signal::STOP);
        std::thread::scope(|scope| {
            let asking = scope.spawn(echo);
            std::thread::sleep(Duration::from_millis(pause));
            send(rustix::process::Signal::KILL);
            assert_eq!(asking.join().unwrap(), Ok(json!(1)), "killed after {pause} ms");
        });
    }
}

/// What one tenant evaluates for seconds does not take the processor from the controller.
#[test]
fn a_worker_gives_way_to_the_controller() {
    let pool = pool(1);
    let worker = ask(&pool, json!({"do": "process"})).unwrap().to_string();
    // Threads have priorities of their own; the one that evaluates inherits that of the worker.
    let nice = |process: &str| -> i32 {
        let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten();
        let of_thread = |thread: std::fs::DirEntry| -> i32 {
            let text = std::fs::read_to_string(thread.path().join("stat")).unwrap();
            text.rsplit_once(") ").unwrap().1.split(' ').nth(16).unwrap().parse().unwrap()
        };
        threads.map(of_thread).max().unwrap()
    };
    assert_eq!(nice(&worker), (nice("self") + 5).min(19));
}

/// However many callers run until their limit, others are answered meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn evaluations_at_their_limit_do_not_hold_up_others() {
    let pool = pool(3);
    let limits = EvalLimits { time: Duration::from_secs(3), ..LIMITS };
    let spin = |caller: String| {
        let pool = pool.clone();
        let spin = json!({"do": "spin"});
        tokio::spawn(async move {
            let answer =
                pool.evaluate(Program::Attack, &Caller::new(&caller, ""), &spin, limits).await;
            assert_eq!(answer, Err(EvalError::TimedOut(limits.time)));
        })
    };
    // One caller with many requests leaves a worker; after its first ones, it is known.
    let mut hostile: Vec<_> = (0..4).map(|_| spin("many".to_owned())).collect();
    let echo = json!({"do": "echo", "value": 1});
    let mut rounds = 0;
    while !hostile.iter().all(|one| one.is_finished()) {
        let began = Instant::now();
        let answer = pool.evaluate(Program::Attack, &Caller::new("other", ""), &echo, LIMITS).await;
        assert_eq!(answer, Ok(json!(1)));
        assert!(began.elapsed() < limits.time, "{:?}", began.elapsed());
        rounds += 1;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(rounds > 20, "{rounds}");
    // Two that are known as slow share a worker, so that two are left.
    spin("more".to_owned()).await.unwrap();
    hostile.extend(["many", "more"].map(|caller| spin(caller.to_owned())));
    for caller in ["one", "another"] {
        let answer = pool.evaluate(Program::Attack, &Caller::new(caller, ""), &echo, LIMITS).await;
        assert_eq!(answer, Ok(json!(1)));
    }
    for one in hostile {
        one.await.unwrap();
    }
}

#[test]
fn a_worker_inherits_no_descriptor() {
    let open = std::fs::File::open("/dev/null").unwrap();
    rustix::io::fcntl_setfd(&open, rustix::io::FdFlags::empty()).unwrap();
    assert_eq!(ask(&pool(1), json!({"do": "descriptors"})), Ok(json!(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_requests_at_once_share_a_few_workers() {
    let pool = pool(2);
    let ask = |round: usize| {
        let pool = pool.clone();
        tokio::spawn(async move {
            let what = if round % 50 == 7 { "exit" } else { "echo" };
            let input = json!({"do": what, "value": round});
            let caller = format!("caller {}", round % 7);
            (round, pool.evaluate(Program::Attack, &Caller::new(&caller, ""), &input, LIMITS).await)
        })
    };
    let all: Vec<_> = (0..300).map(ask).collect();
    for one in all {
        let (round, answer) = one.await.unwrap();
        if round % 50 == 7 {
            assert!(matches!(answer, Err(EvalError::Died(_))), "{round}: {answer:?}");
        } else {
            assert_eq!(answer, Ok(json!(round)));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_nobody_waits_for_gives_its_worker_back() {
    let pool = pool(1);
    let limits = EvalLimits { time: Duration::from_millis(500), ..LIMITS };
    let (spin, caller) = (json!({"do": "spin"}), nobody());
    for _ in 0..3 {
        let request = pool.evaluate(Program::Attack, &caller, &spin, limits);
        let _ = tokio::time::timeout(Duration::from_millis(20), request).await;
    }
    let echo = json!({"do": "echo", "value": 1});
    assert_eq!(pool.evaluate(Program::Attack, &nobody(), &echo, LIMITS).await, Ok(json!(1)));
}
