//! Jsonnet files of a directory (SE-101).
//!
//! They are evaluated by a confined worker, which reads no files: it names the imports of a
//! file, and this module reads them from the checkout, with the same checks as the other files
//! of a source. Blocking.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Component, Path};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};
use turns::{Caller, current_caller};

use crate::deadline;
use crate::directory::source_directory::{SourceDirectory, submodule_behind};
use crate::links::points_outside;
use crate::render::build_environment::BuildEnvironment;
use crate::render::given::{Given, Variable};
use crate::render::manifest::{RenderError, Sink, lfs_pointer};
use wavegate_api::read_leniently;
use wavegate_sandbox::{EvalError, EvalLimits, Program, WorkerPool};

/// Longest evaluation of one file.
const FILE_TIME: Duration = Duration::from_secs(10);

/// Limit on the memory of an evaluation, in bytes.
const MEMORY: u64 = 512 << 20;

/// Most requests for one file: imports are asked for level by level.
const MAX_ROUNDS: usize = 100;

/// Most files that the files of one source import. A library of all kinds of Kubernetes has
/// about a thousand.
const MAX_IMPORTED: usize = 5000;

/// Most bytes of these files.
const MAX_IMPORTED_BYTES: usize = 32 << 20;

/// Limit on the bytes of one result for the command line.
const OUTPUT: usize = 64 << 20;

/// Most names of a block that are reported as set more than once.
const MAX_NOTES: usize = 20;

/// What a source says about Jsonnet.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Blocks {
    directory: Given<Directory>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Directory {
    jsonnet: Given<JsonnetBlock>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct JsonnetBlock {
    ext_vars: Given<Vec<Given<Variable>>>,
    tlas: Given<Vec<Given<Variable>>>,
    libs: Given<Vec<Given<String>>>,
}

/// An import that the evaluator asks for.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Import {
    from: String,
    path: String,
    line: Option<u64>,
}

/// The `directory.jsonnet` block of a source, with the build environment filled in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct JsonnetOptions {
    ext_vars: Vec<Value>,
    tlas: Vec<Value>,
    libs: Vec<String>,
    /// The Application, for the turns of evaluations.
    caller: Caller,
    /// What is without effect in the block.
    notes: Vec<String>,
}

impl JsonnetOptions {
    /// Reads the block. What is not as the definition says is refused.
    pub(crate) fn new(source: &Value, environment: &BuildEnvironment) -> Result<Self, RenderError> {
        let Blocks { directory } = Blocks::deserialize(source).unwrap_or_default();
        let Directory { jsonnet } = directory.right().unwrap_or_default();
        let JsonnetBlock { ext_vars, tlas, libs } = jsonnet.right().unwrap_or_default();
        let wrong = |what: String| {
            RenderError::source(format!("directory.jsonnet.{what}; correct the source"))
        };
        let no_list = |field: &str| wrong(format!("{field}: not a list"));
        let mut notes = Vec::new();
        let mut variables = |field: &str, list: Given<Vec<Given<Variable>>>| {
            let mut variables = BTreeMap::new();
            let list = list.or_wrong(|| no_list(field))?.unwrap_or_default();
            for (index, item) in list.into_iter().enumerate() {
                let at = |what: &str| wrong(format!("{field}[{index}]: {what}"));
                let mut item = item.right().unwrap_or_default();
                let (name, value) = item.parts(at)?;
                let code = item.code.or_wrong(|| at("code is neither true nor false"))?;
                let (value, code) = (environment.expand(&value), code.unwrap_or(false));
                let variable = json!({"name": name, "value": value, "code": code});
                // The last one counts, as in Argo CD.
                if variables.insert(name.clone(), variable).is_some() && notes.len() < MAX_NOTES {
                    notes.push(format!(
                        "directory.jsonnet.{field}[{index}]: {name} is set more than once; only \
                         the last one is used"
                    ));
                }
            }
            Ok::<Vec<Value>, RenderError>(variables.into_values().collect())
        };
        let lib = |(index, item): (usize, Given<String>)| {
            item.right().ok_or_else(|| wrong(format!("libs[{index}]: not a string")))
        };
        let libs = libs.or_wrong(|| no_list("libs"))?.unwrap_or_default();
        let libs = libs.into_iter().enumerate().map(lib).collect::<Result<_, _>>()?;
        let caller = Caller { name: environment.application().into(), ..current_caller() };
        let (ext_vars, tlas) = (variables("extVars", ext_vars)?, variables("tlas", tlas)?);
        Ok(Self { ext_vars, tlas, libs, caller, notes })
    }

    /// What is without effect in the block.
    pub(crate) fn notes(&self) -> &[String] {
        &self.notes
    }
}

/// Evaluates the Jsonnet files of one source.
pub(crate) struct Evaluator<'a> {
    options: &'a JsonnetOptions,
    /// The checkout, symbolic links resolved.
    root: &'a Path,
    submodules: &'a [String],
    /// Where imports are looked for after the folder of the importing file, relative to the
    /// repository root.
    search: Vec<String>,
    /// Limit on the bytes of one result.
    output: usize,
    /// When all files of the source must be evaluated, and the time they have together.
    time: (Duration, Duration),
    /// What is known of the files: their content, by name.
    contents: BTreeMap<String, Value>,
    /// Which file each import is, by importing file and text.
    imports: BTreeMap<String, BTreeMap<String, String>>,
    bytes: usize,
}

impl<'a> Evaluator<'a> {
    /// An evaluator of the files of a source, which may take `time` together.
    ///
    /// # Errors
    ///
    /// When a library path leaves the repository.
    pub(crate) fn new(
        options: &'a JsonnetOptions,
        source_dir: &'a SourceDirectory,
        submodules: &'a [String],
        output: usize,
        time: Duration,
    ) -> Result<Self, RenderError> {
        // Argo CD's evaluator looks in the last library first, and in the folder of the
        // source at last.
        let mut search = Vec::new();
        for (index, lib) in options.libs.iter().enumerate().rev() {
            // A path that begins with a slash is relative to the repository root, too.
            let inside = joined("", lib.trim_start_matches('/'));
            search.push(inside.ok_or_else(|| {
                RenderError::source(format!(
                    "directory.jsonnet.libs[{index}]: {lib}: outside of the repository; write \
                     the path relative to its root"
                ))
            })?);
        }
        search.push(source_dir.relative.clone());
        Ok(Self {
            options,
            root: &source_dir.root,
            submodules,
            search,
            output,
            time: (time, time),
            contents: BTreeMap::new(),
            imports: BTreeMap::new(),
            bytes: 0,
        })
    }

    /// The value of a file of this text.
    pub(crate) fn evaluate(&mut self, file: &str, text: &str) -> Result<Value, RenderError> {
        self.contents.insert(file.to_owned(), json!({"text": text}));
        for _ in 0..MAX_ROUNDS {
            let mut answer = self.ask(file)?;
            if let Some(value) = answer.get_mut("value") {
                return Ok(value.take());
            }
            let Some(Value::Array(wanted)) = answer.get_mut("wanted").map(Value::take) else {
                let reason = "the evaluation gave neither a value nor imports".to_owned();
                return Err(RenderError::Jsonnet { file: file.to_owned(), reason });
            };
            for import in wanted {
                let Import { from, path, line } = read_leniently(&import);
                let failed = |reason: String| {
                    let place = match from.as_str() {
                        "" => "code in directory.jsonnet".to_owned(),
                        from => format!("{from}:{}", line.unwrap_or(1)),
                    };
                    RenderError::Jsonnet {
                        file: file.to_owned(),
                        reason: format!("{place}: import {path:?}: {reason}"),
                    }
                };
                let found = self.find(&from, &path).map_err(failed)?;
                self.imports.entry(from).or_default().insert(path, found);
            }
        }
        let reason = format!("imports are nested more than {MAX_ROUNDS} deep");
        Err(RenderError::Jsonnet { file: file.to_owned(), reason })
    }

    fn ask(&mut self, file: &str) -> Result<Value, RenderError> {
        let failed = |reason: String| RenderError::Jsonnet { file: file.to_owned(), reason };
        let (left, all) = self.time;
        if left.is_zero() {
            let seconds = all.as_secs_f64();
            return Err(failed(format!(
                "the Jsonnet files of this source take longer than {seconds} s together"
            )));
        }
        // What other files of the source import is not sent.
        let names = self.reached(file);
        let of = |name: &&str| {
            self.contents.get(*name).map(|content| (name.to_string(), content.clone()))
        };
        let files: serde_json::Map<String, Value> = names.iter().filter_map(of).collect();
        let known = self.imports.iter().filter(|(from, _)| names.contains(from.as_str()));
        let imports: BTreeMap<&String, _> = known.collect();
        let request = json!({
            "file": file,
            "files": files,
            "imports": imports,
            "extVars": self.options.ext_vars,
            "tlas": self.options.tlas,
        });
        let limits = EvalLimits { time: left.min(FILE_TIME), memory: MEMORY, output: self.output };
        let caller = &self.options.caller;
        let began = Instant::now();
        let answer = deadline::paused(|| {
            pool().evaluate_blocking(Program::Jsonnet, caller, &request, limits)
        });
        // Not what it waited for its turns.
        self.time.0 = left.saturating_sub(began.elapsed().min(limits.time));
        answer.map_err(|failure| match failure {
            EvalError::Refused(reason) => failed(reason),
            EvalError::TimedOut(limit) => failed(format!(
                "the evaluation took longer than {} s and was stopped",
                limit.as_secs_f64()
            )),
            EvalError::Died(reason) => failed(format!(
                "the evaluation was stopped: it needs more than {} MiB of memory, or is nested \
                 too deeply ({reason})",
                MEMORY >> 20
            )),
            EvalError::TooLarge(limit) => {
                failed(format!("the result, or what it imports, has more than {limit} bytes"))
            }
            EvalError::Unavailable(reason) => {
                RenderError::read(file, format!("no process for the evaluation: {reason}"))
            }
        })
    }

    /// The names of a file and of what it imports as far as that is known; with the empty name
    /// of code in the Application.
    fn reached<'n>(&'n self, file: &'n str) -> BTreeSet<&'n str> {
        let mut reached = BTreeSet::new();
        let mut open = vec![file, ""];
        while let Some(name) = open.pop() {
            if reached.insert(name)
                && let Some(imports) = self.imports.get(name)
            {
                open.extend(imports.values().map(String::as_str));
            }
        }
        reached
    }

    /// The file that an import means. The name is the path as written, so that what it imports
    /// in turn is looked for beside that path, as Argo CD's evaluator does.
    fn find(&mut self, from: &str, path: &str) -> Result<String, String> {
        if path.starts_with('/') {
            return Err(
                "absolute paths are not imported; write it relative to this file, or to a \
                        path in directory.jsonnet.libs"
                    .to_owned(),
            );
        }
        if path.contains(char::is_control) {
            return Err("no such file: a name without control characters is needed".to_owned());
        }
        let beside = from.rsplit_once('/').map_or("", |(folder, _)| folder);
        let beside = (!from.is_empty()).then_some(beside);
        let folders = beside.into_iter().chain(self.search.iter().map(String::as_str));
        let folders: Vec<String> = folders.map(str::to_owned).collect();
        let mut looked: Vec<String> = Vec::new();
        let mut outside = false;
        for folder in folders {
            let Some(name) = joined(&folder, path) else {
                outside = true;
                continue;
            };
            if looked.contains(&name) {
                continue;
            }
            if self.contents.contains_key(&name) || self.load(&name)? {
                return Ok(name);
            }
            looked.push(name);
        }
        match (looked.is_empty(), outside) {
            (true, _) => Err("outside of the repository".to_owned()),
            (false, true) => Err(format!(
                "no such file; looked for {}, and other places are outside of the repository",
                looked.join(", ")
            )),
            (false, false) => Err(format!("no such file; looked for {}", looked.join(", "))),
        }
    }

    /// Reads a file of the checkout; false when there is none.
    fn load(&mut self, name: &str) -> Result<bool, String> {
        let inside = |submodule: &&String| Path::new(name).starts_with(submodule);
        if let Some(submodule) = self.submodules.iter().find(inside) {
            return Err(RenderError::Submodule { path: submodule.clone() }.to_string());
        }
        let path = self.root.join(name);
        let link = || RenderError::LinkOutside { file: name.to_owned() }.to_string();
        let resolved = match path.canonicalize() {
            Ok(resolved) if resolved.starts_with(self.root) => resolved,
            Ok(_) => return Err(link()),
            Err(_) if points_outside(&path, self.root) => return Err(link()),
            Err(_) => {
                return match submodule_behind(&path, self.root, self.submodules) {
                    Some(path) => Err(RenderError::Submodule { path }.to_string()),
                    None => Ok(false),
                };
            }
        };
        if !resolved.is_file() {
            return Ok(false);
        }
        if self.contents.len() >= MAX_IMPORTED {
            return Err(format!("more than {MAX_IMPORTED} files are imported"));
        }
        let left = MAX_IMPORTED_BYTES.saturating_sub(self.bytes);
        let failed = |error: std::io::Error| format!("{name}: cannot read: {}", error.kind());
        let file = std::fs::File::open(&resolved).map_err(failed)?;
        let mut bytes = Vec::new();
        let most = u64::try_from(left).unwrap_or(u64::MAX).saturating_add(1);
        file.take(most).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() > left {
            return Err(format!(
                "the imported files have more than {} MiB together",
                MAX_IMPORTED_BYTES >> 20
            ));
        }
        self.bytes += bytes.len();
        let content = match String::from_utf8(bytes) {
            // Also what is imported as a text, which would be deployed.
            Ok(text) => match lfs_pointer(&text) {
                Some(what) => return Err(format!("{name}: {what}")),
                None => json!({"text": text}),
            },
            Err(error) => {
                json!({"base64": data_encoding::BASE64.encode(error.as_bytes())})
            }
        };
        self.contents.insert(name.to_owned(), content);
        Ok(true)
    }
}

/// A path relative to the repository root; `None` when it is outside.
pub(crate) fn joined(folder: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in Path::new(path).components() {
        match part {
            Component::CurDir => {}
            Component::Normal(name) => parts.push(name.to_str()?),
            Component::ParentDir => drop(parts.pop()?),
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts.join("/"))
}

/// The value of a file of this machine, for the command line. What it imports is looked for
/// beside it, and inside of its Git work tree, or of its folder if it is in none.
///
/// # Errors
///
/// [`RenderError`] with file and line.
pub fn evaluate_local(file: &Path) -> Result<Vec<Value>, RenderError> {
    let failed = |error: std::io::Error| RenderError::read(file.display().to_string(), error);
    let file = std::fs::canonicalize(file).map_err(failed)?;
    let folder = file.parent().unwrap_or(&file);
    let root = folder.ancestors().find(|parent| parent.join(".git").exists());
    let root = root.unwrap_or(folder);
    let utf8 = |path: &Path| {
        path.to_str()
            .map(str::to_owned)
            .ok_or_else(|| RenderError::read(path.display().to_string(), "its name is not UTF-8"))
    };
    let source_dir =
        SourceDirectory::new(root, &utf8(folder.strip_prefix(root).unwrap_or(folder))?)?;
    let name = utf8(file.strip_prefix(root).unwrap_or(&file))?;
    let options = JsonnetOptions::default();
    let mut evaluator = Evaluator::new(&options, &source_dir, &[], OUTPUT, FILE_TIME)?;
    if !evaluator.load(&name).map_err(|reason| failed(std::io::Error::other(reason)))? {
        return Err(failed(std::io::ErrorKind::NotFound.into()));
    }
    let text = evaluator.contents.get(&name).and_then(|content| content["text"].as_str());
    let text =
        text.ok_or_else(|| RenderError::unreadable(name.clone(), "the file is not UTF-8"))?;
    let text = text.to_owned();
    let mut sink = Sink::new(crate::directory::source_directory::DEFAULT_MAX_MEMORY);
    sink.value(evaluator.evaluate(&name, &text)?, &name)?;
    Ok(sink.manifests.into_iter().map(|manifest| manifest.object).collect())
}
/// The pool of workers; in tests, with this program as their program.
fn pool() -> &'static WorkerPool {
    #[cfg(test)]
    wavegate_sandbox::start_workers_by_test("tests::serve_as_a_worker");
    WorkerPool::shared()
}
