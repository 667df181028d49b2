//! Evaluates one Jsonnet file with what it imports (SE-101).
//!
//! No file is read here. The request carries the files, and which of them each import is; what
//! is missing is the answer, and the next request carries it:
//!
//! ```text
//! {"file": "apps/a.jsonnet", "files": {"apps/a.jsonnet": {"text": "import 'b.libsonnet'"}},
//!  "imports": {}, "extVars": [{"name": "x", "value": "1", "code": true}], "tlas": []}
//!     -> {"wanted": [{"from": "apps/a.jsonnet", "path": "b.libsonnet", "line": 1}]}
//! the same with the file, and "imports": {"apps/a.jsonnet": {"b.libsonnet": "apps/b.libsonnet"}}
//!     -> {"value": …}
//! ```
//!
//! Jsonnet has no computed imports, so all are known before the evaluation.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

use futures::FutureExt as _;
use jrsonnet_evaluator::async_import::{AsyncImportResolver, ResolvedImportResolver, async_import};
use jrsonnet_evaluator::error::ErrorKind;
use jrsonnet_evaluator::manifest::JsonFormat;
use jrsonnet_evaluator::stack::limit_stack_depth;
use jrsonnet_evaluator::tla::TlaArg;
use jrsonnet_evaluator::trace::PathResolver;
use jrsonnet_evaluator::{
    AsPathLike, Error, IStr, SourcePath, SourceVirtual, Span, State, Thunk, Val, apply_tla,
};
use jrsonnet_ir::SourceFile;
use serde::Deserialize;
use serde_json::{Value, json};

/// Deepest recursion of a program; the same as that of go-jsonnet.
const STACK_DEPTH: usize = 500;

/// Comes before the code of files that trace: nobody reads what a worker writes. Without a
/// new line, so that lines are those of the file.
const WITHOUT_TRACE: &str =
    "local __std = std; local std = __std { trace(str, rest=str):: rest }; ";

/// Endings of files that are code, whatever imports them.
const CODE: [&str; 2] = [".jsonnet", ".libsonnet"];

/// Most calls that an error names.
const SHOWN_CALLS: usize = 4;

/// Longest message of an error, in characters.
const MESSAGE_LENGTH: usize = 2000;

#[derive(Deserialize)]
struct Request {
    file: String,
    files: BTreeMap<String, Content>,
    #[serde(default)]
    imports: BTreeMap<String, BTreeMap<String, String>>,
    #[serde(default, rename = "extVars")]
    ext_vars: Vec<Variable>,
    #[serde(default)]
    tlas: Vec<Variable>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Content {
    Text(String),
    Base64(String),
}

impl Content {
    fn bytes(&self) -> Result<Vec<u8>, String> {
        match self {
            Self::Text(text) => Ok(text.clone().into_bytes()),
            Self::Base64(text) => {
                data_encoding::BASE64.decode(text.as_bytes()).map_err(|error| error.to_string())
            }
        }
    }
}

#[derive(Deserialize)]
struct Variable {
    name: String,
    #[serde(default)]
    value: String,
    #[serde(default)]
    code: bool,
}

/// The value of the file in the request, or the imports that it lacks.
///
/// # Errors
///
/// The mistake in the program, with file and line.
pub(crate) fn run(input: Value) -> Result<Value, String> {
    let request: Request =
        serde_json::from_value(input).map_err(|error| format!("invalid request: {error}"))?;
    let value = evaluate(&request);
    // What refers to itself would stay with the worker.
    jrsonnet_gcmodule::collect_thread_cycles();
    value
}

#[expect(clippy::mutable_key_type, reason = "an interned text, whose hash does not change")]
fn evaluate(request: &Request) -> Result<Value, String> {
    let _depth = limit_stack_depth(STACK_DEPTH);
    let context = jrsonnet_stdlib::ContextInitializer::new(PathResolver::Absolute);
    let mut builder = State::builder();
    builder.import_resolver(ResolvedImportResolver::new()).context_initializer(context.clone());
    let state = builder.build();
    let _entered = state.enter();
    let loader = Loader { request, wanted: RefCell::default() };

    let variables = |list: &'static str, variables: &[Variable]| -> Result<Vec<_>, String> {
        let code = variables.iter().enumerate().filter(|(_, variable)| variable.code);
        code.map(|(index, variable)| {
            let name = format!("directory.jsonnet.{list}[{index}].value");
            let entry = SourcePath::new(SourceVirtual(name.into()));
            loader.read(&state, entry, Some(&variable.value)).map(|path| (index, path))
        })
        .collect()
    };
    let ext_code = variables("extVars", &request.ext_vars)?;
    let tla_code = variables("tlas", &request.tlas)?;
    let entry = SourcePath::new(SourceFile::new(PathBuf::from(&request.file)));
    let file = loader.read(&state, entry, None)?;
    let wanted = loader.wanted.into_inner();
    if !wanted.is_empty() {
        let wanted = wanted.into_iter();
        let wanted: Vec<Value> = wanted
            .map(|(from, path, line)| json!({"from": from, "path": path, "line": line}))
            .collect();
        return Ok(json!({"wanted": wanted}));
    }

    for variable in request.ext_vars.iter().filter(|variable| !variable.code) {
        context.add_ext_str(variable.name.as_str().into(), variable.value.as_str().into());
    }
    // Code may use what is before it. A mistake counts only where the variable is used.
    for (index, path) in ext_code {
        let value = value_of(&state, path);
        let name: IStr = request.ext_vars[index].name.as_str().into();
        context.settings_mut().ext_vars.insert(name, value);
    }
    let mut arguments: HashMap<IStr, TlaArg> = HashMap::new();
    for variable in request.tlas.iter().filter(|variable| !variable.code) {
        let value = TlaArg::String(variable.value.as_str().into());
        arguments.insert(variable.name.as_str().into(), value);
    }
    for (index, path) in tla_code {
        let name: IStr = request.tlas[index].name.as_str().into();
        arguments.insert(name, value_of(&state, path));
    }

    let value = state.import_resolved(file);
    let value = value.and_then(|value| apply_tla(&arguments, value));
    // Numbers as in Jsonnet: whole ones without a fraction, of any size.
    let text = value.and_then(|value| value.manifest(JsonFormat::minify()));
    let text = text.map_err(|error| message(&error, &request.file))?;
    let value = serde_json::from_str::<Value>(&text)
        .map_err(|error| format!("{}: the result is not valid JSON: {error}", request.file))?;
    Ok(json!({"value": value}))
}

fn value_of(state: &State, path: SourcePath) -> TlaArg {
    match state.import_resolved(path) {
        Ok(value) => TlaArg::Val(value),
        Err(error) => TlaArg::Lazy(Thunk::<Val>::errored(error)),
    }
}

/// Gives the evaluator the files of the request, and collects what is missing.
struct Loader<'a> {
    request: &'a Request,
    wanted: RefCell<BTreeSet<(String, String, usize)>>,
}

/// One file or piece of code, and the loader of what it imports.
struct Entry<'a> {
    loader: &'a Loader<'a>,
    path: SourcePath,
    code: Option<&'a str>,
}

impl Loader<'_> {
    fn read(
        &self,
        state: &State,
        path: SourcePath,
        code: Option<&str>,
    ) -> Result<SourcePath, String> {
        let entry = Entry { loader: self, path, code };
        let read = async_import(state.clone(), entry, &"");
        // Nothing in it waits.
        read.now_or_never().unwrap_or_else(|| Err("the files of a request are in it".to_owned()))
    }
}

impl Entry<'_> {
    /// The code of a file, and its name in the request: empty for code in the Application.
    fn of(&self, path: &SourcePath) -> Option<(String, Vec<u8>)> {
        if *path == self.path
            && let Some(code) = self.code
        {
            return Some((String::new(), code.as_bytes().to_vec()));
        }
        let name = path.downcast_ref::<SourceFile>()?.path().to_str()?.to_owned();
        let content = self.loader.request.files.get(&name)?.bytes().ok()?;
        Some((name, content))
    }
}

impl AsyncImportResolver for Entry<'_> {
    type Error = String;

    async fn resolve_from(
        &self,
        from: &SourcePath,
        path: &dyn AsPathLike,
    ) -> Result<SourcePath, String> {
        let path = path.as_path().to_owned().to_string();
        let (name, code) = self.of(from).ok_or_else(|| format!("{from}: not in the request"))?;
        let found = self.loader.request.imports.get(&name).and_then(|known| known.get(&path));
        if let Some(found) = found {
            return Ok(SourcePath::new(SourceFile::new(PathBuf::from(found))));
        }
        let line = line_of_import(&String::from_utf8_lossy(&code), &path);
        self.loader.wanted.borrow_mut().insert((name, path, line));
        Ok(SourcePath::new(SourceVirtual("not read yet".into())))
    }

    async fn resolve_from_default(&self, _path: &dyn AsPathLike) -> Result<SourcePath, String> {
        Ok(self.path.clone())
    }

    async fn load_file_contents(&self, path: &SourcePath) -> Result<Vec<u8>, String> {
        if path.downcast_ref::<SourceFile>().is_none() && *path != self.path {
            // Nothing is evaluated then.
            return Ok(b"null".to_vec());
        }
        let content = self.of(path).ok_or_else(|| format!("{path}: not in the request"))?;
        let (name, mut content) = content;
        let is_code = name.is_empty() || CODE.iter().any(|ending| name.ends_with(ending));
        let trace = b"trace";
        if is_code && content.windows(trace.len()).any(|text| text == trace) {
            content.splice(0..0, WITHOUT_TRACE.bytes());
        }
        Ok(content)
    }
}

/// The first line that imports `path`, counted from 1.
fn line_of_import(code: &str, path: &str) -> usize {
    let imports = |line: &&str| line.contains("import") && line.contains(path);
    let lines = || code.lines();
    let found = lines().position(|line| imports(&line));
    let found = found.or_else(|| lines().position(|line| line.contains(path)));
    // Written with escapes.
    found.or_else(|| lines().position(|line| line.contains("import"))).unwrap_or(0) + 1
}

/// An error with the places it comes from, the innermost first.
fn message(error: &Error, file: &str) -> String {
    let mut spans: Vec<String> = Vec::new();
    if let ErrorKind::StaticAnalysisError(list) = error.error() {
        spans.extend(list.iter().filter_map(|found| found.span.as_ref().map(place)));
    }
    let calls = error.trace().0.iter().filter_map(|call| call.location.as_ref().map(place));
    spans.extend(calls);
    spans.dedup();
    let hidden = spans.len().saturating_sub(SHOWN_CALLS + 1);
    let mut spans = spans.into_iter();
    let first = spans.next().unwrap_or_else(|| file.to_owned());
    let mut calls: Vec<String> = spans.take(SHOWN_CALLS).collect();
    if hidden > 0 {
        calls.push(format!("{hidden} more"));
    }
    let what = match error.error() {
        ErrorKind::StackOverflow => {
            format!("stack overflow: the program calls itself more than {STACK_DEPTH} deep")
        }
        other => other.to_string(),
    };
    let frames = error.trace().0.iter().map(|call| call.desc.as_str());
    let frames: Vec<&str> = frames.take(SHOWN_CALLS).collect();
    let what = match (calls.is_empty(), frames.is_empty()) {
        (false, _) => format!("{first}: {what} (from {})", calls.join(", ")),
        // Such as fields of the result.
        (true, false) if first == file => format!("{first}: {what} (in {})", frames.join(", ")),
        (true, _) => format!("{first}: {what}"),
    };
    match what.char_indices().nth(MESSAGE_LENGTH) {
        Some((end, _)) => format!("{}…", &what[..end]),
        None => what,
    }
}

/// File and line of a span, whose offsets are bytes.
fn place(span: &Span) -> String {
    let offset = usize::try_from(span.1).unwrap_or(usize::MAX);
    let before = span.0.code().bytes().take(offset);
    let line = before.filter(|byte| *byte == b'\n').count() + 1;
    format!("{}:{line}", span.0.source_path())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(code: &str) -> Result<Value, String> {
        run(json!({"file": "a.jsonnet", "files": {"a.jsonnet": {"text": code}}}))
    }

    #[test]
    fn values_are_those_of_jsonnet() {
        let cases = [
            ("{a: 1, b:: 2, c: self.b + 0.5}", json!({"a": 1, "c": 2.5})),
            ("[x * x for x in std.range(1, 3)]", json!([1, 4, 9])),
            ("null", json!(null)),
            ("{n: 9007199254740993}", json!({"n": 9_007_199_254_740_992_u64})),
            ("local f(x='d') = {v: x}; f", json!({"v": "d"})),
            (
                "{s: std.format('%s-%d', ['a', 3]), t: std.thisFile}",
                json!({"s": "a-3", "t": "a.jsonnet"}),
            ),
            ("{m: std.manifestYamlDoc({a: [1]})}", json!({"m": "\"a\":\n- 1"})),
            ("{e: std.native('x') == null}", json!({"e": true})),
            ("std.trace('seen', {t: std.trace('only')})", json!({"t": "only"})),
        ];
        for (code, want) in cases {
            assert_eq!(one(code), Ok(json!({"value": want})), "{code}");
        }
        assert_eq!(one("1e300"), Ok(json!({"value": 1e300})));
    }

    #[test]
    fn mistakes_name_file_and_line() {
        let cases = [
            ("{\n a: error 'no way'\n}", "a.jsonnet:2: ", "no way"),
            ("{\n a: }", "a.jsonnet:2: ", "syntax error"),
            ("{\n\n a: unknown\n}", "a.jsonnet:3: ", "unknown"),
            ("// é é é é\nlocal f(x) = f(x + 1) + 1; f(1)", "a.jsonnet:2: ", "stack overflow"),
            ("{\n a: std.extVar('absent')}", "a.jsonnet:2: ", "absent"),
            ("{\n a: std.native('x')(1)}", "a.jsonnet", "only functions can be called"),
            ("local a = b, b = a; a", "a.jsonnet", "infinite recursion"),
            ("std.range(1, 1e12)", "a.jsonnet:1: ", ""),
            ("{a: function(x) x}", "a.jsonnet", "function"),
            ("local x = 1;\nassert x == 2 : 'wrong'; {}", "a.jsonnet:2: ", "wrong"),
        ];
        for (code, place, what) in cases {
            let error = one(code).unwrap_err();
            assert!(error.starts_with(place) && error.contains(what), "{code}: {error}");
        }
    }

    #[test]
    fn missing_imports_are_asked_for_together() {
        let main = "local a = import 'a.libsonnet';\nlocal t = importstr \"t.txt\";\n\
                    local b = importbin 'b.bin';\n{a: a, t: t, b: b}";
        let mut request = json!({
            "file": "x/main.jsonnet",
            "files": {"x/main.jsonnet": {"text": main}},
            "imports": {},
        });
        let want = json!({"wanted": [
            {"from": "x/main.jsonnet", "path": "a.libsonnet", "line": 1},
            {"from": "x/main.jsonnet", "path": "b.bin", "line": 3},
            {"from": "x/main.jsonnet", "path": "t.txt", "line": 2},
        ]});
        assert_eq!(run(request.clone()), Ok(want));
        request["imports"] = json!({"x/main.jsonnet": {
            "a.libsonnet": "lib/a.libsonnet", "t.txt": "x/t.txt", "b.bin": "x/b.bin",
        }});
        request["files"]["lib/a.libsonnet"] = json!({"text": "{\n v: (import 'c.libsonnet').v }"});
        request["files"]["x/t.txt"] = json!({"text": "import 'never'"});
        request["files"]["x/b.bin"] = json!({"base64": "/wA="});
        let want = json!([{"from": "lib/a.libsonnet", "path": "c.libsonnet", "line": 2}]);
        assert_eq!(run(request.clone()), Ok(json!({"wanted": want})));
        request["imports"]["lib/a.libsonnet"] = json!({"c.libsonnet": "lib/c.libsonnet"});
        request["files"]["lib/c.libsonnet"] = json!({"text": "{v: 5}"});
        let want = json!({"a": {"v": 5}, "t": "import 'never'", "b": [255, 0]});
        assert_eq!(run(request), Ok(json!({"value": want})));
    }

    #[test]
    fn files_that_import_each_other_end() {
        let request = json!({
            "file": "a.jsonnet",
            "files": {
                "a.jsonnet": {"text": "(import 'b.jsonnet') + {}"},
                "b.jsonnet": {"text": "(import 'a.jsonnet') + {}"},
            },
            "imports": {
                "a.jsonnet": {"b.jsonnet": "b.jsonnet"},
                "b.jsonnet": {"a.jsonnet": "a.jsonnet"},
            },
        });
        let error = run(request).unwrap_err();
        assert!(error.contains("infinite recursion") && error.contains("b.jsonnet:1"), "{error}");
    }

    #[test]
    fn variables_and_arguments_are_texts_or_code() {
        let code = "function(name, count=1, list=[]) {name: name, count: count, list: list, \
                    env: std.extVar('env'), size: std.extVar('size'), lib: std.extVar('lib').v}";
        let mut request = json!({
            "file": "a.jsonnet",
            "files": {"a.jsonnet": {"text": code}, "vendor/l.libsonnet": {"text": "{v: 'lib'}"}},
            "extVars": [
                {"name": "env", "value": "1 + 1"},
                {"name": "size", "value": "1 + 1", "code": true},
                {"name": "lib", "value": "import 'l.libsonnet'", "code": true},
                {"name": "bad", "value": "error 'never used'", "code": true},
            ],
            "tlas": [
                {"name": "name", "value": "shop"},
                {"name": "list", "value": "[std.extVar('size')]", "code": true},
            ],
        });
        let want = json!({"wanted": [{"from": "", "path": "l.libsonnet", "line": 1}]});
        assert_eq!(run(request.clone()), Ok(want));
        request["imports"] = json!({"": {"l.libsonnet": "vendor/l.libsonnet"}});
        let want = json!({"value": {
            "name": "shop", "count": 1, "list": [2], "env": "1 + 1", "size": 2, "lib": "lib",
        }});
        assert_eq!(run(request.clone()), Ok(want));
        request["tlas"] = json!([{"name": "other", "value": "x"}]);
        let error = run(request.clone()).unwrap_err();
        assert!(error.contains("other"), "{error}");
        request["tlas"] = json!([{"name": "name", "value": "1 +", "code": true}]);
        let error = run(request).unwrap_err();
        assert!(error.contains("directory.jsonnet.tlas[0].value:1"), "{error}");
    }
}
