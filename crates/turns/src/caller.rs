//! On whose behalf something is done.

use std::sync::Arc;

/// On whose behalf something is done: one of a flow, such as an Application of a project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Caller {
    /// Those who share one turn.
    pub flow: Arc<str>,
    /// Its name within the flow.
    pub name: Arc<str>,
}

impl Caller {
    /// The caller of this name in a flow.
    pub fn new(flow: &str, name: &str) -> Self {
        Self { flow: flow.into(), name: name.into() }
    }
}

tokio::task_local! {
    /// As the span of a log line, it is that of the task, however deep in it something waits.
    static CURRENT: Caller;
}

/// On whose behalf this task works; nobody's outside of [`on_behalf_of`].
pub fn current_caller() -> Caller {
    CURRENT.try_with(Clone::clone).unwrap_or_default()
}

/// Works on behalf of a caller.
pub async fn on_behalf_of<T>(caller: Caller, work: impl Future<Output = T>) -> T {
    CURRENT.scope(caller, work).await
}
