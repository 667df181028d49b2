//! The template of the Applications of an ApplicationSet, and what a generator overrides of it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::app_spec::ApplicationSpec;
use super::lenient::any_object;

lenient! {
    /// Template of the Applications. Every string may contain placeholders.
    #[schemars(extend("required" = ["metadata", "spec"]))]
    pub struct Template {
        /// Name, labels, annotations and finalizers of the Application.
        pub metadata: TemplateMetadata,
        /// Spec of the Application. Untyped, since placeholders are replaced before it is read.
        #[schemars(with = "ApplicationSpec")]
        pub spec: Value,
    } and extra

    /// Metadata of the generated Applications.
    pub struct TemplateMetadata {
        /// Name; must be unique for each Application.
        pub name: String,
        /// Has no effect: Applications are created in the namespace of their ApplicationSet.
        pub namespace: String,
        /// Labels. The steps of a rollout select Applications by them.
        pub labels: BTreeMap<String, String>,
        /// Annotations.
        pub annotations: BTreeMap<String, String>,
        /// Finalizers; when empty, the finalizer is added that deletes the resources
        /// together with the Application.
        pub finalizers: Vec<String>,
    } and extra

    /// Overrides of the template for the Applications of one generator. Empty fields do
    /// not override.
    #[schemars(extend("required" = ["metadata", "spec"]))]
    pub struct GeneratorTemplate {
        /// Metadata of the Applications.
        pub metadata: TemplateMetadata,
        /// Spec of the Applications, as in the template.
        #[schemars(schema_with = "any_object")]
        pub spec: Value,
    } and extra
}
