//! The git generator: one parameter set per directory or file of a repository (AS-090 to
//! AS-097).

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::element::{Element, Failure, kind, list_of, switch, text, wrong_type};
use super::path_pattern::{PathPattern, PathSelection};
use super::scope::{Generator, GeneratorScope, ParameterSets};
use crate::desired::inputs::{GitAnswer, GitRead, GitRequest, ProjectReads};
use crate::desired::texts::Texts;
use gotemplate::normalize_name;
use wavegate_api::yaml;

/// Most patterns of one generator.
const MAX_PATTERNS: usize = 1_000;

/// The git generator.
pub(super) static GIT: Generator = Generator {
    requeue_after: |inputs| inputs.requeue_after,
    ..Generator::new(
        "git",
        &[
            "repoURL",
            "revision",
            "directories",
            "files",
            "requeueAfterSeconds",
            "pathParamPrefix",
            "values",
            "template",
        ],
        generate,
    )
};

fn generate(generator: &Value, scope: &mut GeneratorScope<'_, '_>) -> ParameterSets {
    let repo_url = text(generator, "repoURL")?;
    if repo_url.is_empty() {
        return Err(Failure::new("repoURL", "is missing; write the URL of a repository"));
    }
    let project = scope.project();
    let mut signed = String::new();
    if !project.is_empty()
        && let Some(known) = scope.projects()
    {
        match known.get(project) {
            Some(ProjectReads::AsTheyAre) => {}
            Some(ProjectReads::Signed(how)) => signed.clone_from(how),
            Some(ProjectReads::Refused(why)) => return Err(Failure::new("", why.clone())),
            None => {
                let cause = format!(
                    "spec.template.spec.project: AppProject {project} does not exist; create \
                     it, since it decides which repositories may be read"
                );
                return Err(Failure::new("", cause));
            }
        }
    }
    let directories = patterns(generator, "directories")?;
    let files = patterns(generator, "files")?;
    let what = match (directories.is_empty(), files.is_empty()) {
        (false, _) => GitRead::Directories { hidden: scope.inputs().hidden_directories },
        (true, false) => GitRead::Files {
            include: paths(&files, false),
            exclude: paths(&files, true),
            globbing: scope.inputs().globbing,
        },
        (true, true) => {
            return Err(Failure::new("", "has neither directories nor files; write one"));
        }
    };
    let request = GitRequest {
        repo_url: repo_url.to_owned(),
        revision: text(generator, "revision")?.to_owned(),
        project: project.to_owned(),
        signed,
        what,
    };
    if let GitRead::Files { .. } = &request.what {
        request.files().map(drop).map_err(|cause| Failure::new("files", cause))?;
    }
    // Without an answer the caller reads it and generates again.
    let Some(answer) = scope.git(request)? else { return Ok(Vec::new()) };
    let prefix = text(generator, "pathParamPrefix")?;
    let elements = match &*answer {
        GitAnswer::Directories(all) => of_directories(all, &directories, prefix, scope)?,
        GitAnswer::Files(contents) => {
            let mut elements = Vec::new();
            for (path, content) in contents {
                let sets = of_file(path, content, prefix, scope);
                elements.extend(sets.map_err(|cause| {
                    Failure::new(format!("[{path}]"), format!("{cause} (in {repo_url})"))
                })?);
            }
            elements
        }
    };
    let with_values =
        |Element { field, values, texts }| scope.element(generator, field, values, texts);
    elements.into_iter().map(with_values).collect()
}

/// A pattern, and whether what it matches is excluded.
type Pattern<'a> = (&'a str, bool);

fn patterns<'a>(generator: &'a Value, field: &str) -> Result<Vec<Pattern<'a>>, Failure> {
    let mut patterns = Vec::new();
    for (index, item) in list_of(generator, field)?.iter().enumerate() {
        let place = format!("{field}[{index}]");
        if !item.is_object() {
            return Err(wrong_type(place, "an object with a path", item));
        }
        let below = |failure: Failure| failure.below(&place);
        let path = text(item, "path").map_err(below)?;
        if path.is_empty() {
            return Err(Failure::new(format!("{place}.path"), "is missing; write a pattern"));
        }
        patterns.push((path, switch(item, "exclude", false).map_err(below)?));
    }
    if patterns.len() > MAX_PATTERNS {
        let cause = format!("limit exceeded: more than {MAX_PATTERNS} patterns");
        return Err(Failure { limit: true, ..Failure::new(field, cause) });
    }
    Ok(patterns)
}

fn paths(patterns: &[Pattern<'_>], excluded: bool) -> BTreeSet<String> {
    let wanted = patterns.iter().filter(|(_, exclude)| *exclude == excluded);
    wanted.map(|(path, _)| (*path).to_owned()).collect()
}

/// The directories that a pattern includes and none excludes. An invalid pattern matches
/// nothing (AS-092).
fn of_directories(
    all: &[String],
    patterns: &[Pattern<'_>],
    prefix: &str,
    scope: &mut GeneratorScope<'_, '_>,
) -> Result<Vec<Element>, Failure> {
    let (mut include, mut exclude) = (Vec::new(), Vec::new());
    for (index, (text, is_excluded)) in patterns.iter().enumerate() {
        // The paths of directories have no such parts.
        if text.split('/').any(|part| matches!(part, "" | "." | "..")) {
            scope.warn(&format!(
                "git.directories[{index}].path: {text:?} matches nothing; write it relative to the \
                 root of the repository, without '.', '..' and slashes at the beginning or the end"
            ));
        }
        match PathPattern::of_directories(text) {
            Ok(pattern) if *is_excluded => exclude.push(pattern),
            Ok(pattern) => include.push(pattern),
            Err(cause) => {
                scope.warn(&format!("git.directories[{index}].path: {cause}; it matches nothing"));
            }
        }
    }
    let failed = |cause| Failure::new("directories", cause);
    let selection = PathSelection::new(&include, &exclude).map_err(failed)?;
    let mut elements = Vec::new();
    for path in all {
        if selection.selects(path).map_err(failed)? {
            elements.push(Element {
                field: format!("[{path}]"),
                values: path_parameters(path, None, prefix, scope.is_go(), Map::new()),
                texts: Texts::default(),
            });
        }
    }
    Ok(elements)
}

/// The sets of a file (AS-094): one of an object, one of each object in a list.
fn of_file(
    path: &str,
    content: &str,
    prefix: &str,
    scope: &mut GeneratorScope<'_, '_>,
) -> Result<Vec<Element>, String> {
    let documents = yaml::parse_documents(content);
    let documents = documents.map_err(|error| format!("is neither YAML nor JSON: {error}"))?;
    if documents.len() > 1 {
        let count = documents.len();
        scope.warn(&format!("git[{path}]: only the first of its {count} documents is used"));
    }
    let first = documents.into_iter().next();
    for repeated in first.iter().flat_map(|document| &document.repeated) {
        scope.warn(&format!("git[{path}]: {repeated}"));
    }
    let objects = match first.map(|document| document.value) {
        None | Some(Value::Null) => vec![Map::new()],
        Some(Value::Object(object)) => vec![object],
        Some(Value::Array(list)) => {
            let mut objects = Vec::new();
            for (index, item) in list.into_iter().enumerate() {
                match item {
                    Value::Object(object) => objects.push(object),
                    Value::Null => objects.push(Map::new()),
                    other => {
                        return Err(format!("[{index}]: must be an object, is {}", kind(&other)));
                    }
                }
            }
            objects
        }
        Some(other) => {
            return Err(format!("must be an object or a list of objects, is {}", kind(&other)));
        }
    };
    let (directory, name) = path.rsplit_once('/').unwrap_or((".", path));
    let several = objects.len() > 1;
    let element = |(index, object): (usize, Map<String, Value>)| {
        let content = scope.parameters_of(object);
        Element {
            field: if several { format!("[{path}][{index}]") } else { format!("[{path}]") },
            values: path_parameters(directory, Some(name), prefix, scope.is_go(), content),
            texts: Texts::default(),
        }
    };
    Ok(objects.into_iter().enumerate().map(element).collect())
}

/// Adds the parameters of a directory (AS-093), and of a file in it (AS-094).
fn path_parameters(
    directory: &str,
    file: Option<&str>,
    prefix: &str,
    go: bool,
    mut parameters: Map<String, Value>,
) -> Map<String, Value> {
    let basename = directory.rsplit('/').next().unwrap_or(directory);
    let segments: Vec<&str> = directory.split('/').collect();
    let names = [("basename", Some(basename)), ("filename", file)];
    let names = names.into_iter().filter_map(|(key, name)| Some((key, name?)));
    let names = names.flat_map(|(key, name)| {
        [(key.to_owned(), name.to_owned()), (format!("{key}Normalized"), normalize_name(name))]
    });
    if go {
        let mut path = Map::from_iter([
            ("path".to_owned(), directory.into()),
            ("segments".to_owned(), segments.into()),
        ]);
        path.extend(names.map(|(key, name)| (key, name.into())));
        if prefix.is_empty() {
            parameters.insert("path".to_owned(), path.into());
        } else {
            let inner = Map::from_iter([("path".to_owned(), path.into())]);
            parameters.insert(prefix.to_owned(), inner.into());
        }
        return parameters;
    }
    let path = if prefix.is_empty() { "path".to_owned() } else { format!("{prefix}.path") };
    parameters.extend(names.map(|(key, name)| (format!("{path}.{key}"), name.into())));
    for (index, segment) in segments.iter().enumerate().filter(|(_, segment)| !segment.is_empty()) {
        parameters.insert(format!("{path}[{index}]"), (*segment).into());
    }
    parameters.insert(path, directory.into());
    parameters
}
