//! `wavegate doctor`: what would go wrong in a cluster, in one page.
//!
//! Each part reads what it needs, and judges it by the rules of the crates that the controllers use;
//! what cannot be read is a finding as well. Nothing is written.

mod control_plane;
mod definitions;
mod finding;
mod installation;
mod rights;
mod rollouts;

use std::collections::BTreeMap;
use std::process::ExitCode;

use self::finding::{Finding, Severity};
use self::installation::Installation;
use crate::cli::cluster::{ClusterArgs, ClusterConnection, block_on, control_plane_namespace};
use crate::cli::console::error::Error;
use crate::cli::console::output::{OutputArgs, line};

/// Exit code when a finding is an error: other than that of a wrong use.
const HAS_ERRORS: u8 = 3;
/// The same when the gravest is a warning.
const HAS_WARNINGS: u8 = 1;

/// Most findings of one severity in the table; the rest is counted.
const SHOWN: usize = 100;

/// Say what would go wrong in a cluster
///
/// Reads the control plane as you, and judges it by the rules of the controllers. It writes nothing
/// but questions about rights, which the API server does not store.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 nothing, or hints only; 1 warnings; 2 wrong use, or the cluster cannot be \
                  read; 3 errors."
)]
pub(super) struct DoctorArgs {
    /// Namespace of the control plane [default: POD_NAMESPACE, else argocd]
    #[arg(short, long, value_name = "NAMESPACE", value_parser = crate::cli::cluster::namespace)]
    namespace: Option<String>,
    /// Kube context to use instead of the current one
    #[arg(long, value_name = "CONTEXT")]
    context: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the command.
pub(super) fn run(args: DoctorArgs) -> anyhow::Result<ExitCode> {
    let findings = block_on(examine(&args))?;
    args.output.print(&findings, |findings| page(findings))?;
    let gravest = findings.first().map(|finding| finding.severity);
    Ok(match gravest {
        Some(Severity::Error) => ExitCode::from(HAS_ERRORS),
        Some(Severity::Warning) => ExitCode::from(HAS_WARNINGS),
        Some(Severity::Hint) | None => ExitCode::SUCCESS,
    })
}

async fn examine(args: &DoctorArgs) -> Result<Vec<Finding>, Error> {
    let namespace = args.namespace.clone().unwrap_or_else(control_plane_namespace);
    let place = ClusterArgs { namespace: Some(namespace.clone()), context: args.context.clone() };
    let cluster = ClusterConnection::connect(&place).await?;
    let mut findings = definitions::server_version(&cluster).await?;
    let (installation, found) = Installation::find(&cluster, &namespace).await;
    findings.extend(found);
    findings.extend(definitions::examine(&cluster).await);
    let (config, found) = control_plane::settings(&cluster, &namespace, &installation).await;
    findings.extend(found);
    findings.extend(installation::others(&cluster, &namespace, config.as_ref()).await);
    findings.extend(rights::examine(&cluster, &namespace, &installation, config.as_ref()).await);
    findings.extend(control_plane::projects(&cluster, &namespace).await);
    findings.extend(control_plane::secrets(&cluster, &namespace).await);
    findings.extend(rollouts::examine(&cluster, config.as_ref()).await);
    findings.sort();
    findings.dedup();
    Ok(findings)
}

/// The findings, the gravest first, with their number.
fn page(findings: &[Finding]) -> String {
    let mut counts = BTreeMap::<Severity, usize>::new();
    let mut text = String::new();
    for finding in findings {
        let count = counts.entry(finding.severity).or_default();
        *count += 1;
        if *count <= SHOWN {
            let Finding { severity, about, problem } = finding;
            text.push_str(&line(&format!("{:7}  {about}: {problem}", severity.word())));
        }
    }
    for (severity, count) in counts.iter().filter(|(_, count)| **count > SHOWN) {
        let more = severity.counted(count - SHOWN);
        text.push_str(&line(&format!("{:7}  and {more} more; -o json lists all", severity.word())));
    }
    let parts: Vec<String> = Severity::ALL
        .into_iter()
        .filter_map(|severity| Some(severity.counted(*counts.get(&severity)?)))
        .collect();
    match parts.is_empty() {
        true => line("nothing found that would go wrong"),
        false => format!("{text}\n{}", line(&parts.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gravest_is_first_and_all_are_counted() {
        let mut findings = vec![
            Finding::hint("c", "may be"),
            Finding::warning("b", "is odd"),
            Finding::error("a", "does not work"),
            Finding::warning("a", "is odd"),
        ];
        findings.sort();
        let text = page(&findings);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "error    a: does not work",
                "warning  a: is odd",
                "warning  b: is odd",
                "hint     c: may be",
                "",
                "1 error, 2 warnings, 1 hint",
            ]
        );
        assert_eq!(page(&[]).trim_end(), "nothing found that would go wrong");
    }

    #[test]
    fn thousands_of_findings_are_counted_and_not_printed() {
        let findings: Vec<Finding> =
            (0..5000).map(|number| Finding::warning(format!("{number:04}"), "is odd")).collect();
        let text = page(&findings);
        assert_eq!(text.lines().count(), SHOWN + 3, "{text}");
        assert!(text.contains("and 4900 warnings more; -o json lists all"), "{text}");
        assert!(text.ends_with("5000 warnings\n"), "{text}");
    }

    #[test]
    fn a_name_cannot_draw_on_the_terminal() {
        let text = page(&[Finding::error("a\u{1b}[2J\nb", "c")]);
        assert!(!text.contains('\u{1b}') && text.lines().count() == 3, "{text:?}");
    }
}
