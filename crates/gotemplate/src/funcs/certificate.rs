//! A certificate as a value of templates.

use crate::go::value::{Str, Value};

/// A certificate with its private key, both in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Certificate {
    pub(super) cert: Str,
    pub(super) key: Str,
}

impl Certificate {
    /// The name of the Go type.
    pub const TYPE: &str = "sprig.certificate";

    /// A field of the Go type.
    pub fn field(&self, name: &str) -> Option<Value> {
        self.fields().into_iter().find(|(field, _)| *field == name).map(|(_, value)| value)
    }

    /// The fields of the Go type in their order.
    pub fn fields(&self) -> [(&'static str, Value); 2] {
        [("Cert", Value::Str(self.cert.clone())), ("Key", Value::Str(self.key.clone()))]
    }
}
