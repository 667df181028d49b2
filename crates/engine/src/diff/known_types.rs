//! Fields of custom resources that have the type of a built-in kind (SE-168).

/// The names of the types of `core/v1`, separated by white space.
const CORE_TYPES: &str = include_str!("core_types.txt");

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownType {
    /// A type of `core/v1`, such as `PodSpec`.
    Core,
    /// `core/v1/ResourceList`: a map of quantities.
    Quantities,
    /// `core/Quantity`.
    Quantity,
    /// `meta/v1/Duration`.
    Duration,
}

impl KnownType {
    /// A type by its name in the settings; `None` for one that is not known.
    pub fn parse(name: &str) -> Option<Self> {
        match name.rsplit_once('/')? {
            ("core", "Quantity") => Some(Self::Quantity),
            ("meta/v1", "Duration") => Some(Self::Duration),
            ("core/v1", "ResourceList") => Some(Self::Quantities),
            ("core/v1", name) => {
                let is_known = CORE_TYPES.split_whitespace().any(|known| known == name);
                is_known.then_some(Self::Core)
            }
            _ => None,
        }
    }
}

/// A field with a known type, of all objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownField {
    /// Glob of the API group.
    pub group: String,
    /// Glob of the kind.
    pub kind: String,
    /// The names of the fields from the root; lists on the way are descended.
    pub path: Vec<String>,
    /// Its type.
    pub of: KnownType,
}

#[cfg(test)]
mod tests {
    use super::KnownType;

    #[test]
    fn types_are_known_by_their_group_and_name_se_168() {
        for (name, want) in [
            ("core/Quantity", Some(KnownType::Quantity)),
            ("meta/v1/Duration", Some(KnownType::Duration)),
            ("core/v1/ResourceList", Some(KnownType::Quantities)),
            ("core/v1/PodSpec", Some(KnownType::Core)),
            ("core/v1/Unknown", None),
            ("core/PodSpec", None),
            ("meta/v1/PodSpec", None),
            ("core/v1/Quantity", None),
            ("PodSpec", None),
            ("", None),
        ] {
            assert_eq!(KnownType::parse(name), want, "{name}");
        }
    }
}
