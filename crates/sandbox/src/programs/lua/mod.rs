//! Health scripts in Lua, with the contract of Argo CD's (SE-480 … SE-485).
//!
//! A script sees the object as the global `obj` and returns a table with `status` and
//! `message`. It has the functions of the language, `table` and the time; with open
//! libraries also `string`, `math` and `coroutine`. Nothing else exists in its state: no
//! files, no programs, no environment, no code that is loaded later. Each run has a state of
//! its own, so that nothing passes from one object to the next.
//!
//! The language is Luau, which is Lua 5.1 with an interrupt at each call and each turn of a
//! loop, patterns included: a script cannot catch its end. The process that runs it is
//! limited from outside as well.

mod goto;
mod os;

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use mlua::chunk::ChunkMode;
use mlua::{Error, Lua, LuaOptions, LuaString, StdLib, Table, VmState};
use serde::Deserialize;
use serde_json::{Value, json};

/// Memory of a script, its object included.
const MEMORY: usize = 64 << 20;

/// Longest message, in characters; the status has one for each resource.
const MAX_MESSAGE: usize = 2048;

/// Longest text of an error, in characters.
const MAX_ERROR: usize = 1024;

/// What a script may return as `status`.
const STATUSES: [&str; 6] =
    ["Healthy", "Suspended", "Progressing", "Missing", "Degraded", "Unknown"];

/// Functions that other versions of Lua do not have, or that reach out of a script.
const REMOVED: [&str; 10] = [
    "collectgarbage",
    "gcinfo",
    "getfenv",
    "load",
    "loadstring",
    "module",
    "newproxy",
    "print",
    "require",
    "setfenv",
];

/// The functions of `table` in Lua 5.1.
const TABLE: [&str; 6] = ["concat", "getn", "insert", "maxn", "remove", "sort"];

/// One run of a script.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Run {
    script: String,
    open_libs: bool,
    /// Unix time in seconds, for `os.time` and `os.date`.
    now: i64,
    milliseconds: u64,
    object: Value,
}

/// Runs a script: `{"script", "openLibs", "now", "milliseconds", "object"}`.
///
/// Returns `{"status", "message"}`, `{}` for no health, or `{"error"}`; with `"clock": true`
/// when the script asked for the time.
///
/// # Errors
///
/// When the input is none of these, or there is no memory for a script.
pub(super) fn run(input: Value) -> Result<Value, String> {
    let run: Run = serde_json::from_value(input).map_err(|error| error.to_string())?;
    let clock = Rc::new(Cell::new(false));
    let limit = Duration::from_millis(run.milliseconds);
    let (outcome, timed_out) = match state(&run, &clock) {
        Ok(lua) => evaluate(&lua, &run.script, limit),
        Err(error) => (Err(text_of(&error)), false),
    };
    let mut result = match outcome {
        Ok(result) => result,
        Err(_) if timed_out => {
            let error = format!("the script was stopped after {} ms", limit.as_millis());
            json!({"error": error, "timedOut": true})
        }
        Err(error) => json!({"error": cut(&error, MAX_ERROR)}),
    };
    if clock.get() {
        result["clock"] = true.into();
    }
    Ok(result)
}

/// A state with the object and the functions that a script may use.
fn state(run: &Run, clock: &Rc<Cell<bool>>) -> mlua::Result<Lua> {
    let open = StdLib::STRING | StdLib::MATH | StdLib::COROUTINE;
    let libraries = if run.open_libs { StdLib::TABLE | open } else { StdLib::TABLE };
    let lua = Lua::new_with(libraries, LuaOptions::default())?;
    lua.set_memory_limit(MEMORY)?;
    let globals = lua.globals();
    for name in REMOVED {
        globals.raw_set(name, mlua::Nil)?;
    }
    let table: Table = globals.raw_get("table")?;
    let allowed = lua.create_table()?;
    for name in TABLE {
        allowed.raw_set(name, table.raw_get::<mlua::Value>(name)?)?;
    }
    globals.raw_set("table", allowed)?;
    globals.raw_set("os", os::library(&lua, run.now, run.open_libs, clock)?)?;
    // Scripts that were tried elsewhere still have them, to no effect.
    globals.raw_set("print", lua.create_function(|_, ()| Ok(()))?)?;
    globals.raw_set("collectgarbage", lua.create_function(|_, ()| Ok(0))?)?;
    if run.open_libs {
        let math: Table = globals.raw_get("math")?;
        math.raw_set("mod", math.raw_get::<mlua::Value>("fmod")?)?;
        let string: Table = globals.raw_get("string")?;
        for name in ["pack", "packsize", "split", "unpack"] {
            string.raw_set(name, mlua::Nil)?;
        }
    }
    let require = lua.create_function(|lua, name: LuaString| {
        let name = name.to_string_lossy();
        let known = ["os", "table", "string", "math", "coroutine"].contains(&name.as_str());
        match lua.globals().raw_get::<mlua::Value>(name.as_str())? {
            library @ mlua::Value::Table(_) if known => Ok(library),
            _ => Err(Error::runtime(format!("module {} is not available", cut(&name, 80)))),
        }
    })?;
    globals.raw_set("require", require)?;
    globals.raw_set("obj", to_lua(&lua, &run.object)?)?;
    Ok(lua)
}

/// The outcome, and whether the time was over.
fn evaluate(lua: &Lua, script: &str, limit: Duration) -> (Result<Value, String>, bool) {
    let script = goto::translated(script);
    let over = Rc::new(Cell::new(false));
    let (begin, is_over) = (Instant::now(), Rc::clone(&over));
    lua.set_interrupt(move |_| {
        if is_over.get() || begin.elapsed() >= limit {
            is_over.set(true);
            return Err(Error::runtime("the time is over"));
        }
        Ok(VmState::Continue)
    });
    // Never compiled code, whose instructions nobody checks.
    let chunk = lua.load(script.as_ref()).set_mode(ChunkMode::Text).set_name("=<string>");
    let outcome = match chunk.eval::<mlua::Value>() {
        Ok(returned) => health(&returned),
        Err(error @ Error::SyntaxError { .. }) if goto::is_used(&script) => {
            let error = text_of(&error);
            Err(format!("{error}; goto may only lead to a label at the end of the innermost loop"))
        }
        Err(error) => Err(text_of(&error)),
    };
    let is_over = over.get();
    // What is left runs at the end of the state.
    lua.remove_interrupt();
    (outcome, is_over)
}

/// The health that a script returned.
fn health(returned: &mlua::Value) -> Result<Value, String> {
    let table = match returned {
        mlua::Value::Nil => return Ok(json!({})),
        mlua::Value::Table(table) => table,
        other => {
            let type_name = type_name(other);
            return Err(format!("expect table output from Lua script, not {type_name}"));
        }
    };
    // Without metamethods, which would be code that runs after the script.
    let field = |name: &str| table.raw_get::<mlua::Value>(name).map_err(|error| text_of(&error));
    let status = match field("status")? {
        mlua::Value::Nil if table.is_empty() || table.raw_len() > 0 => return Ok(json!({})),
        mlua::Value::String(status) => text(&status, MAX_MESSAGE),
        _ => String::new(),
    };
    if !STATUSES.contains(&status.as_str()) {
        let message = "Lua returned an invalid health status";
        return Ok(json!({"status": "Unknown", "message": message}));
    }
    let message = match field("message")? {
        mlua::Value::Nil => String::new(),
        mlua::Value::String(message) => text(&message, MAX_MESSAGE),
        mlua::Value::Boolean(value) => value.to_string(),
        mlua::Value::Integer(number) => number.to_string(),
        mlua::Value::Number(number) => number.to_string(),
        other => {
            return Err(format!(
                "expect a text as message from Lua script, not {}",
                type_name(&other)
            ));
        }
    };
    Ok(json!({"status": status, "message": message}))
}

/// The type in the words of Lua 5.1.
fn type_name(value: &mlua::Value) -> &'static str {
    match value {
        mlua::Value::Integer(_) => "number",
        mlua::Value::LightUserData(_) | mlua::Value::Error(_) => "userdata",
        other => other.type_name(),
    }
}

/// The text of an error, without its stack trace.
fn text_of(error: &Error) -> String {
    let text = match error {
        Error::CallbackError { cause, .. } | Error::WithContext { cause, .. } => text_of(cause),
        Error::RuntimeError(text) => text.clone(),
        Error::SyntaxError { message, .. } => message.clone(),
        Error::MemoryError(_) => {
            format!("the script needs more than {} MiB of memory", MEMORY >> 20)
        }
        other => other.to_string(),
    };
    match text.split_once("\nstack traceback:") {
        Some((text, _)) => text.to_owned(),
        None => text,
    }
}

/// The begin of a text. One that takes all memory is not copied as a whole.
fn text(value: &LuaString, most: usize) -> String {
    let bytes = value.as_bytes();
    let begin = bytes.get(..4 * (most + 1)).unwrap_or(&bytes);
    cut(&String::from_utf8_lossy(begin), most)
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Lists count from 1, null is nil, and all numbers are of one type.
fn to_lua(lua: &Lua, value: &Value) -> mlua::Result<mlua::Value> {
    Ok(match value {
        Value::Null => mlua::Nil,
        Value::Bool(value) => mlua::Value::Boolean(*value),
        Value::Number(number) => mlua::Value::Number(number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) => mlua::Value::String(lua.create_string(text)?),
        Value::Array(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for (at, item) in items.iter().enumerate() {
                table.raw_set(at + 1, to_lua(lua, item)?)?;
            }
            mlua::Value::Table(table)
        }
        Value::Object(fields) => {
            let table = lua.create_table_with_capacity(0, fields.len())?;
            for (name, field) in fields {
                table.raw_set(name.as_str(), to_lua(lua, field)?)?;
            }
            mlua::Value::Table(table)
        }
    })
}

#[cfg(test)]
mod tests;
