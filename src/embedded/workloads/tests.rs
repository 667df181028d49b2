//! Rules alone, and the whole simulation on the embedded server.

mod rules;
mod server;
