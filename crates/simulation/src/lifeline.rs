//! The connection of a process, which ends when it is killed, and which nothing gets through while
//! it is frozen: a partition whose requests arrive late. The process itself goes on, and so do its
//! timers; what open watches send still arrives.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;

use wavegate_cluster::watch::watched::Watched;

/// Whether the process of a client still lives.
#[derive(Clone, Debug)]
pub(super) struct Lifeline(Arc<Line>);

#[derive(Debug)]
struct Line {
    state: Watched<State>,
    /// The request at which the process is killed.
    crash: Mutex<Option<Crash>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Alive,
    Frozen,
    Cut,
}

/// When a process is killed by itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crash {
    /// At which of its requests, counted from now; 1 is the next one.
    pub at: u32,
    /// Whether this request is executed.
    pub applied: Applied,
}

/// Whether the last request of a process that is killed is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It was not sent.
    Never,
    /// Before the process is killed.
    AtOnce,
    /// It was sent, and the API server executes it so much later, when the next process may have
    /// read already.
    After(Duration),
}

impl Default for Lifeline {
    fn default() -> Self {
        let line = Line { state: Watched::new(State::Alive), crash: Mutex::new(None) };
        Self(Arc::new(line))
    }
}

impl Lifeline {
    /// A client of the same server: once it is cut off, none of its requests is sent, and none is
    /// answered. While it is frozen, both wait; what was under way before is sent afterwards, also
    /// when its caller is gone.
    pub fn client(&self, inner: Client) -> Client {
        let namespace = inner.default_namespace().to_owned();
        let line = self.clone();
        let send = move |request: Request<Body>| {
            let (inner, line) = (inner.clone(), line.clone());
            async move {
                if let Some(crash) = line.crashes() {
                    match crash.applied {
                        Applied::Never => {}
                        // It is executed before anything else happens.
                        Applied::AtOnce => drop(inner.send(request).await),
                        Applied::After(time) => {
                            tokio::spawn(async move {
                                tokio::time::sleep(time).await;
                                inner.send(request).await
                            });
                        }
                    }
                    line.cut();
                    return std::future::pending().await;
                }
                let answer = if line.state() == State::Frozen {
                    let thaws = line.clone();
                    let late = async move {
                        thaws.while_frozen().await;
                        inner.send(request).await
                    };
                    match tokio::spawn(late).await {
                        Ok(answer) => answer,
                        // Only the end of the simulation cancels it.
                        Err(_) => std::future::pending().await,
                    }
                } else {
                    line.while_frozen().await;
                    inner.send(request).await
                };
                line.while_frozen().await;
                answer
            }
        };
        Client::new(tower::service_fn(send), namespace)
    }

    /// Ends it.
    pub fn cut(&self) {
        self.0.state.set(State::Cut);
    }

    /// Whether it was ended.
    pub fn is_cut(&self) -> bool {
        self.state() == State::Cut
    }

    /// No request gets through and none is answered, until [`Self::thaw`].
    pub fn freeze(&self) {
        self.change(State::Alive, State::Frozen);
    }

    /// Lets through what waits.
    pub fn thaw(&self) {
        self.change(State::Frozen, State::Alive);
    }

    /// Ends it at a request to come.
    pub fn crash(&self, crash: Crash) {
        *self.0.crash.lock() = Some(crash);
    }

    fn change(&self, from: State, to: State) {
        self.0.state.change(|state| {
            if *state == from {
                *state = to;
            }
        });
    }

    fn state(&self) -> State {
        self.0.state.get()
    }

    /// Counts a request; the crash if this is the one.
    fn crashes(&self) -> Option<Crash> {
        let mut crash = self.0.crash.lock();
        let left = crash.as_mut()?;
        left.at = left.at.saturating_sub(1);
        if left.at == 0 { crash.take() } else { None }
    }

    /// Waits while it is frozen, and for ever once it is cut off.
    async fn while_frozen(&self) {
        if self.0.state.wait_for(|state| *state != State::Frozen).await == State::Cut {
            std::future::pending::<()>().await;
        }
    }
}
