//! `wavegate dashboard`: the page over the cluster of the kube context (PG-001).
//!
//! What the page shows are the reports of the other commands: [`documents`] has them in its types,
//! [`live`] keeps the objects that they are made of, from watches, and [`acting`] are the verbs.

mod acting;
mod chart;
mod commits;
mod documents;
mod export;
mod in_cluster;
mod limits;
mod live;
mod people;
mod permissions;
mod reading;
mod recorded;
mod reports;

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use self::in_cluster::InClusterArgs;
use self::live::LiveCluster;
pub(super) use self::recorded::{FleetMoment, RecordedFleet, RecordedObject};
use crate::cli::cluster::{ClusterArgs, ClusterConnection};
use crate::cli::console::error::note;
use crate::cli::console::output;
use crate::cli::rollout_view::signals::Signals;
use wavegate_dashboard::reports::PageReports;
use wavegate_dashboard::{PageAccess, PageOptions, serve_page};

/// Show rollouts in a browser, live
///
/// Serves a page on this machine, for you alone: it reads and writes what your kubeconfig may. The
/// printed address has a token of this start.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  wavegate dashboard -A --open\n  wavegate dashboard --allow-actions --port 8088\n  wavegate dashboard --in-cluster --address 0.0.0.0 --port 8080 --sign-in token --public-url https://rollouts.example.org\n  wavegate dashboard --export incident.html APPSET RUN\n\nExit codes: 2 wrong use, or the cluster cannot be read; 130 interrupted."
)]
pub(super) struct DashboardArgs {
    /// Port to listen on; a free one by default
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Open it in a browser
    #[arg(long)]
    open: bool,
    /// Offer approve, pause, rollback and the other verbs on the page
    #[arg(long)]
    allow_actions: bool,
    /// Show the ApplicationSets of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Write a file that shows a rollout, or one of its runs, without a server; - is standard output
    #[arg(
        long,
        value_name = "FILE",
        requires = "set",
        conflicts_with_all = ["port", "open", "allow_actions", "all_namespaces"]
    )]
    export: Option<std::path::PathBuf>,
    /// Name of the ApplicationSet that the file shows
    #[arg(value_name = "APPSET", requires = "export")]
    set: Option<String>,
    /// Name or number of a run
    #[arg(value_name = "RUN", requires = "export")]
    run: Option<String>,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    in_cluster: InClusterArgs,
}

impl DashboardArgs {
    /// Whether others than the user of this machine are served.
    pub fn is_for_a_team(&self) -> bool {
        self.in_cluster.is_for_a_team()
    }
}

/// Runs the command.
pub(super) fn run(args: &DashboardArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let code = runtime.block_on(serve(args));
    runtime.shutdown_timeout(std::time::Duration::from_millis(200));
    code
}

async fn serve(args: &DashboardArgs) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::new(false)?;
    args.in_cluster.check_address()?;
    if let Some(method) = args.in_cluster.method()? {
        let stop = CancellationToken::new();
        let place = (args.port, args.all_namespaces);
        let serving = args.in_cluster.serve(method, place, &args.cluster, &stop);
        let code = tokio::select! {
            served = serving => served.map(|()| 0),
            code = signals.end() => Ok(code),
        };
        stop.cancel();
        return Ok(ExitCode::from(code?));
    }
    let connection = ClusterConnection::connect(&args.cluster).await?;
    let context = args.cluster.context.as_deref().unwrap_or("current context");
    if let (Some(file), Some(set)) = (&args.export, &args.set) {
        let writes = export::write_file(connection, context, file, set, args.run.as_deref());
        return tokio::select! {
            written = writes => written.map(|()| ExitCode::SUCCESS),
            code = signals.end() => Ok(ExitCode::from(code)),
        };
    }
    let namespace = match args.all_namespaces {
        true => {
            // What cannot be read is said before there is a page.
            connection.list("ApplicationSet", None, None).await?;
            None
        }
        false => Some(connection.application_sets_here().await?.0),
    };
    let place = format!("{context} · {}", namespace.as_deref().unwrap_or("all namespaces"));
    let page = OpenPage::at(SocketAddr::new(args.in_cluster.address, args.port)).await?;
    let url = page.access.url();
    output::print(&format!("{url}\n"))?;
    note("the address is for you alone: whoever has it reads what you may; Ctrl-C ends the page");
    let opened = if args.open { open_in_browser(&url) } else { None };
    let stop = CancellationToken::new();
    let live =
        LiveCluster::follow(connection, namespace, place, args.cluster.context.clone(), &stop);
    let serving = page.serve(live, args.allow_actions, stop.clone());
    let code = tokio::select! {
        () = serving => 0,
        code = signals.end() => code,
    };
    stop.cancel();
    drop(opened);
    Ok(ExitCode::from(code))
}

/// A page that has an address, and is not served yet.
pub(super) struct OpenPage {
    listener: TcpListener,
    access: PageAccess,
}

impl OpenPage {
    /// Listens on this port of the loopback address, or on a free one.
    pub async fn start(port: u16) -> anyhow::Result<Self> {
        Self::at(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await
    }

    /// Listens on this address, which no other machine reaches.
    async fn at(address: SocketAddr) -> anyhow::Result<Self> {
        let listener = in_cluster::listen(address).await?;
        let access = PageAccess::new(listener.local_addr()?)?;
        Ok(Self { listener, access })
    }

    /// Its address, with the token.
    pub fn url(&self) -> String {
        self.access.url()
    }

    /// Serves it until stopped.
    pub async fn serve(
        self,
        live: Arc<dyn PageReports>,
        allows_actions: bool,
        stop: CancellationToken,
    ) {
        let options = PageOptions { allows_actions };
        serve_page(self.listener, live, self.access, options, stop).await;
    }
}

/// The page of a demo: over a client of its embedded server.
pub(super) fn of_demo(
    client: kube::Client,
    namespace: &str,
    stop: &CancellationToken,
) -> Arc<LiveCluster> {
    let connection = ClusterConnection::of_client(client, "the demo's API server", namespace);
    LiveCluster::follow(connection, None, "demo".to_owned(), None, stop)
}

/// Opens an address in a browser. It is in a file that only this user reads, and not among the
/// arguments of a program, which every user of the machine may list; the file lasts until this is
/// dropped.
pub(super) fn open_in_browser(url: &str) -> Option<tempfile::NamedTempFile> {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let opened = (|| {
        let mut file = tempfile::Builder::new().prefix("wavegate-").suffix(".html").tempfile()?;
        write!(file, "<!doctype html><meta http-equiv=\"refresh\" content=\"0;url={url}\">")?;
        let quiet = || Stdio::null();
        Command::new(program)
            .arg(file.path())
            .stdin(quiet())
            .stdout(quiet())
            .stderr(quiet())
            .spawn()?;
        Ok::<_, std::io::Error>(file)
    })();
    opened.map_err(|error| note(&format!("no browser is opened: {program}: {error}"))).ok()
}
