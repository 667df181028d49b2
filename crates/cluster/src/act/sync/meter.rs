//! Reports the requests of one Application's syncs and deletions, for metrics (SE-549, SE-553).

use std::fmt;

use wavegate_api::ObjectKey;

/// A request to a cluster, once it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentRequest<'a> {
    /// The Application that it was sent for.
    pub application: &'a ObjectKey,
    /// The project of the Application.
    pub project: &'a str,
    /// The URL of the API server.
    pub server: &'a str,
    /// What was requested, such as `Patch`.
    pub verb: &'static str,
    /// The resource in the path, such as `configmaps`.
    pub resource: &'a str,
    /// The namespace of the object; empty for a cluster-scoped one.
    pub namespace: &'a str,
    /// The status code; `None` without an answer.
    pub code: Option<u16>,
    /// Whether it changes nothing.
    pub dry_run: bool,
}

/// Takes what was done.
pub trait RequestReport: Send + Sync {
    /// Takes a request.
    fn sent(&self, request: &SentRequest<'_>);

    /// An apply of this kind begins.
    fn began(&self, command: &'static str);

    /// It has ended, with a result or because it was given up.
    fn ended(&self, command: &'static str);
}

/// Reports for one Application and one cluster. The default reports nothing.
#[derive(Clone, Copy, Default)]
pub struct Meter<'a>(Option<Of<'a>>);

#[derive(Clone, Copy)]
struct Of<'a> {
    report: &'a dyn RequestReport,
    application: &'a ObjectKey,
    project: &'a str,
    server: &'a str,
}

impl fmt::Debug for Meter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Meter").field(&self.0.map(|of| of.application)).finish()
    }
}

impl<'a> Meter<'a> {
    /// Reports to `report` for an Application of a project, and the URL of its cluster.
    pub fn new(
        report: &'a dyn RequestReport,
        (application, project): (&'a ObjectKey, &'a str),
        server: &'a str,
    ) -> Self {
        Self(Some(Of { report, application, project, server }))
    }

    /// Reports the answer to a request for an object of a namespace.
    pub(super) fn answered<T>(
        self,
        (verb, dry_run): (&'static str, bool),
        (resource, namespace): (&str, &str),
        answer: &Result<T, kube::Error>,
    ) {
        let Some(Of { report, application, project, server }) = self.0 else { return };
        let code = match answer {
            Ok(_) if verb == "Create" => Some(201),
            Ok(_) => Some(200),
            Err(kube::Error::Api(status)) => Some(status.code),
            Err(_) => None,
        };
        report.sent(&SentRequest {
            application,
            project,
            server,
            verb,
            resource,
            namespace,
            code,
            dry_run,
        });
    }

    /// An apply of this kind begins; it ends when the result is dropped.
    pub(super) fn begin(self, command: &'static str) -> Running<'a> {
        if let Some(of) = self.0 {
            of.report.began(command);
        }
        Running { meter: self, command }
    }
}

/// An apply that is under way.
pub(super) struct Running<'a> {
    meter: Meter<'a>,
    command: &'static str,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(of) = self.meter.0 {
            of.report.ended(self.command);
        }
    }
}
