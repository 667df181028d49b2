//! Runs the programs that provide credentials of clusters, for [`wavegate_cluster::watch`].

use futures::FutureExt;
use futures::future::BoxFuture;

use wavegate_cluster::watch::exec_credentials::{Call, Failed, Runner};
use wavegate_source::Programs;
use wavegate_source::exec_plugin::{self, ExecPluginProblem, Invocation};

/// Runs programs with the confinement of those that render sources.
#[derive(Debug)]
pub struct CredentialPrograms(pub Programs);

impl Runner for CredentialPrograms {
    fn run(&self, call: Call) -> BoxFuture<'static, Result<Vec<u8>, Failed>> {
        let programs = self.0.clone();
        async move {
            let mut env = call.env.clone();
            env.push(call.info());
            for (program, args) in call.programs {
                let invocation = Invocation { program, args, env: env.clone() };
                match exec_plugin::run_exec_plugin(&programs, invocation).await {
                    Ok(output) => return Ok(output),
                    Err(ExecPluginProblem::NotInstalled) => {}
                    Err(ExecPluginProblem::Other(why)) => return Err(Failed::Other(why)),
                }
            }
            Err(Failed::NotInstalled)
        }
        .boxed()
    }
}
