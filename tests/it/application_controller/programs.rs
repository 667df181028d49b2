//! The real programs that render sources, as `tests/programs/up` fetches them.

use std::path::PathBuf;

use wavegate_source::Programs;

use super::*;

/// Where the programs are.
const FOLDER: &str = "WAVEGATE_TEST_PROGRAMS";

/// A program; `None`, and a line in the output, where it is missing.
pub fn program(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os(FOLDER).map(PathBuf::from);
    let found = folder.map(|folder| folder.join(name)).filter(|path| path.is_file());
    if found.is_none() {
        eprintln!("skipped: {name} is missing; set {FOLDER} to what tests/programs/up prints");
    }
    found
}

/// Both versions of Helm, as far as they are there.
pub fn helms() -> Vec<PathBuf> {
    ["helm3/helm", "helm4/helm"].into_iter().filter_map(program).collect()
}

/// Settings with these programs, confined by the program under test.
pub fn confined(change: impl FnOnce(&mut Programs)) -> ApplicationSettings {
    let mut settings = ApplicationSettings::default();
    settings.render.programs.helper = Some(env!("CARGO_BIN_EXE_wavegate").into());
    settings.render.programs.allow_http = true;
    change(&mut settings.render.programs);
    settings
}

impl World {
    /// An Application of a source in the repository of this world.
    pub fn with_source(&self, name: &str, source: Value) -> Value {
        let mut app = self.application(name, "");
        let own = app["spec"]["source"].clone();
        app["spec"]["source"] = source;
        for field in ["repoURL", "targetRevision"] {
            if app["spec"]["source"][field].is_null() {
                app["spec"]["source"][field] = own[field].clone();
            }
        }
        app
    }

    /// Creates an Application, syncs it, and waits until it is done.
    pub async fn deploy_app(&self, app: &Value) {
        let name = app["metadata"]["name"].as_str().unwrap();
        self.create_app(app).await;
        // It fails until the controller has read the Secret that was created just before.
        self.until(name, "compared", |app| is(app, "OutOfSync", "Missing")).await;
        self.sync_until_good(name, json!({})).await;
    }

    /// Creates an Application that cannot be compared for a reason with these texts; its
    /// conditions. It may be compared, or fail for another reason, until the controller has read
    /// the settings that were written just before.
    pub async fn refused_for(&self, app: &Value, texts: &[&str]) -> String {
        let name = app["metadata"]["name"].as_str().unwrap();
        self.create_app(app).await;
        let refused = async {
            loop {
                self.refresh(name).await;
                let app = self.app(name).await;
                if texts.iter().all(|text| condition(&app, "ComparisonError", text)) {
                    return app["status"]["conditions"].to_string();
                }
            }
        };
        match tokio::time::timeout(LIMIT, refused).await {
            Ok(conditions) => conditions,
            Err(_) => panic!("{name} is not refused for {texts:?}: {}", self.app(name).await),
        }
    }

    /// Creates an Application that cannot be compared; the message of its condition.
    pub async fn refusal_of(&self, app: &Value) -> String {
        let name = app["metadata"]["name"].as_str().unwrap();
        self.create_app(app).await;
        let app = self.until(name, "refused", |app| failed(app) || is_compared(app)).await;
        let conditions = app["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let errors = conditions.iter().filter(|one| one["type"] == "ComparisonError");
        errors.map(|one| one["message"].as_str().unwrap().to_owned()).collect()
    }

    /// The data of a ConfigMap in the namespace `web`.
    pub async fn data(&self, name: &str) -> Value {
        self.get("v1", "ConfigMap", "web", name).await["data"].clone()
    }
}

pub fn failed(app: &Value) -> bool {
    let conditions = app["status"]["conditions"].as_array();
    conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "ComparisonError"))
}

fn is_compared(app: &Value) -> bool {
    matches!(app["status"]["sync"]["status"].as_str(), Some("Synced" | "OutOfSync"))
}
