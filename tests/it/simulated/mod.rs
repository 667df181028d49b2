//! The statuses of simulated workloads, judged by the health rules that read them.

mod rules;
mod server;
