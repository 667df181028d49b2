//! What each file of functions uses of the engine.

pub(super) use crate::engine::fail::{Fail, Outcome};
pub(super) use crate::engine::function::{Function, f};
pub(super) use crate::engine::run::{Args, Run};
pub(super) use crate::engine::value::{Dict, Elem, IntKind, List, UintKind, Value};
