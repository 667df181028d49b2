//! `deploy/Dockerfile`, as far as it can be checked without a container engine.

use std::process::Command;

use regex::Regex;

use super::markdown::{files, root};

/// The instructions, with continued lines joined and without comments.
fn instructions() -> Vec<(String, String)> {
    let text = std::fs::read_to_string(root().join("deploy/Dockerfile")).unwrap();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let joined = lines.collect::<Vec<_>>().join("\n").replace("\\\n", " ");
    let split = |line: &str| {
        let (name, rest) = line.split_once(' ').unwrap();
        (name.to_owned(), rest.trim().to_owned())
    };
    joined.lines().filter(|line| !line.is_empty()).map(split).collect()
}

/// What is copied from the repository, and the folder that it is copied to.
fn copies(instructions: &[(String, String)]) -> Vec<(String, String)> {
    let is_copy = |(name, rest): &&(String, String)| name == "COPY" && !rest.starts_with("--from");
    let copies = instructions.iter().filter(is_copy).flat_map(|(_, rest)| {
        let mut words: Vec<String> = rest.split_whitespace().map(str::to_owned).collect();
        let to = words.pop().unwrap();
        words.into_iter().map(move |from| (from, to.clone()))
    });
    copies.collect()
}

fn sources() -> Vec<String> {
    copies(&instructions()).into_iter().map(|(from, _)| from).collect()
}

fn is_compiled(path: &str) -> bool {
    path.starts_with("src/") || path.starts_with("crates/")
}

#[test]
fn copied_files_exist_and_contain_what_is_compiled() {
    let sources = sources();
    let ignored = std::fs::read_to_string(root().join(".dockerignore")).unwrap();
    for source in &sources {
        assert!(root().join(source).exists(), "COPY {source}");
        assert!(!ignored.lines().any(|line| line == source), "{source} is in .dockerignore");
    }
    let include = Regex::new(r#"include_(?:str|bytes)!\(\s*"([^"]+)""#).unwrap();
    for path in files("rs").into_iter().filter(|path| is_compiled(path)) {
        let text = std::fs::read_to_string(root().join(&path)).unwrap();
        for found in include.captures_iter(&text) {
            let file = root().join(&path).parent().unwrap().join(&found[1]);
            let Ok(file) = file.canonicalize() else { panic!("{path}: {}", &found[1]) };
            let relative = file.strip_prefix(root().canonicalize().unwrap()).unwrap();
            let is_test = path.contains("/tests");
            let is_copied = sources.iter().any(|source| relative.starts_with(source));
            assert!(is_copied || is_test, "{path} needs {}", relative.display());
        }
    }
}

/// The layer of dependencies is built with empty sources; each target of each manifest
/// needs one.
#[test]
fn the_layer_of_dependencies_has_all_targets() {
    let all = instructions();
    let first = all.iter().position(|(name, _)| name == "RUN").unwrap();
    let layer = &all[first].1;
    assert!(layer.contains("cargo build --release --locked"), "{layer}");
    let folder = tempfile::tempdir().unwrap();
    for (from, to) in copies(&all[..first]) {
        let (from, to) = (root().join(from), folder.path().join(to));
        // The settings in `.cargo` are those of the build.
        if from.is_file() {
            std::fs::create_dir_all(&to).unwrap();
            std::fs::copy(&from, to.join(from.file_name().unwrap())).unwrap();
        }
    }
    let copied = std::fs::read_dir(root().join("crates")).unwrap();
    let copied = copied.map(|entry| folder.path().join("crates").join(entry.unwrap().file_name()));
    let copied: Vec<_> = copied.collect();
    for folder in &copied {
        assert!(folder.join("Cargo.toml").exists(), "{} is not copied", folder.display());
    }
    // A cargo that reads the manifest, and builds nothing.
    let bin = folder.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let real = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let script = format!(
        "#!/bin/sh\n[ \"$1\" != build ] || exec {real} metadata --offline --locked --no-deps --format-version 1 >/dev/null\n"
    );
    let cargo = bin.join("cargo");
    std::fs::write(&cargo, script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&cargo, mode).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let run = Command::new("sh")
        .args(["-ec", layer])
        .current_dir(folder.path())
        .env("PATH", path)
        .output()
        .unwrap();
    assert!(run.status.success(), "{layer}: {}", String::from_utf8_lossy(&run.stderr));
    assert!(!folder.path().join("src").exists(), "nothing is left of the empty sources");
    assert!(!copied.iter().any(|folder| folder.join("src").exists()), "nor of those of crates");
}

/// Cargo compiles what is newer than its last build, and copied files keep their age: without
/// this, the program would be the empty one.
#[test]
fn sources_are_touched_before_they_are_built() {
    let all = instructions();
    let (_, build) = all.iter().filter(|(name, _)| name == "RUN").nth(1).unwrap();
    let (touch, build) = build.split_once("&&").unwrap();
    assert_eq!(touch.trim(), "touch src/main.rs src/lib.rs crates/*/src/lib.rs");
    assert!(build.contains("cargo build --release --locked --bin wavegate"), "{build}");
}

#[test]
fn the_image_runs_as_the_deployment_does() {
    let all = instructions();
    let value = |name: &str| {
        all.iter().rev().find(|(found, _)| found == name).map(|(_, rest)| rest.clone()).unwrap()
    };
    let deployment = std::fs::read_to_string(root().join("deploy/deployment.yaml")).unwrap();
    let deployment = wavegate_api::yaml::parse_value(&deployment).unwrap();
    let pod = &deployment["spec"]["template"]["spec"];
    let user = pod["securityContext"]["runAsUser"].as_u64().unwrap();
    assert_eq!(value("USER"), format!("{user}:{user}"));
    let container = &pod["containers"][0];
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    let mounts = container["volumeMounts"].as_array().unwrap();
    let is_writable = |path: &str| mounts.iter().any(|mount| mount["mountPath"] == path);
    let mut args = container["args"].as_array().unwrap().iter().filter_map(|arg| arg.as_str());
    let cache = args.find_map(|arg| arg.strip_prefix("--cache-dir=")).unwrap();
    assert!(is_writable("/tmp") && is_writable(cache));

    let runtime = all.iter().filter(|(name, _)| name == "RUN").map(|(_, rest)| rest).next_back();
    let runtime = runtime.unwrap();
    for package in ["ca-certificates", "git", "openssh-client"] {
        assert!(runtime.contains(package), "{package}");
    }
    assert!(runtime.contains("--home-dir /tmp"), "the home of the user is writable");
    let binary = "/src/target/release/wavegate /usr/local/bin/wavegate";
    assert!(all.iter().any(|(name, rest)| name == "COPY" && rest.ends_with(binary)));
    assert!(value("ENTRYPOINT").contains("/usr/local/bin/wavegate"));
}

/// The default of an argument before the first stage: a base image.
fn base(all: &[(String, String)], name: &str) -> String {
    let start = format!("{name}=");
    let is_it =
        |(instruction, rest): &&(String, String)| instruction == "ARG" && rest.starts_with(&start);
    all.iter().find(is_it).unwrap_or_else(|| panic!("ARG {name}")).1[start.len()..].to_owned()
}

/// The version of a tag such as `rust:1.95-bookworm`.
fn version_of_tag(image: &str) -> &str {
    image.split(':').nth(1).unwrap().split('-').next().unwrap()
}

#[test]
fn the_image_is_built_by_the_versions_of_the_repository() {
    let all = instructions();
    let rust = base(&all, "RUST_IMAGE");
    let toolchain = std::fs::read_to_string(root().join("rust-toolchain.toml")).unwrap();
    assert!(toolchain.contains(&format!("\"{}", version_of_tag(&rust))), "{rust}: {toolchain}");
    let go = base(&all, "GO_IMAGE");
    for program in ["helm", "kustomize"] {
        let path = format!("deploy/programs/{program}/go.mod");
        let module = std::fs::read_to_string(root().join(&path)).unwrap();
        let wanted = module.lines().find_map(|line| line.strip_prefix("go ")).unwrap();
        let wanted = wanted.trim_end_matches(".0");
        assert_eq!(version_of_tag(&go), wanted, "{go} builds {path}");
    }
    // Base images have their names in one place.
    let from = all.iter().filter(|(name, _)| name == "FROM").map(|(_, rest)| rest.as_str());
    let from: Vec<&str> = from.collect();
    let want = [
        "${RUST_IMAGE} AS build",
        "--platform=${BUILDPLATFORM} ${GO_IMAGE} AS programs",
        "${DEBIAN_IMAGE} AS slim",
        "slim AS full",
    ];
    assert_eq!(from, want);
}

/// The default has `helm` and `kustomize`, `--target slim` has neither; the tests run the same
/// kustomize.
#[test]
fn the_last_stage_adds_the_programs_that_render_sources() {
    let all = instructions();
    let stage = |name: &str| {
        let end = format!(" AS {name}");
        let begin = all.iter().position(|(from, rest)| from == "FROM" && rest.ends_with(&end));
        let rest = &all[begin.unwrap() + 1..];
        let end = rest.iter().position(|(from, _)| from == "FROM").unwrap_or(rest.len());
        rest[..end].iter().map(|(name, rest)| format!("{name} {rest}")).collect::<Vec<_>>()
    };
    let copy = "COPY --from=programs /out/helm /out/kustomize /usr/local/bin/";
    assert_eq!(stage("full"), [copy]);
    assert!(!stage("slim").iter().any(|line| line.contains("programs")));
    assert!(
        stage("programs").iter().any(|line| line.contains("/programs/build /out helm kustomize"))
    );
    let up = std::fs::read_to_string(root().join("tests/programs/up")).unwrap();
    assert!(up.contains("\"$image/build\" \"$work/bin\" kustomize"));
}
