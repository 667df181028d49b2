//! `maxUpdate`: how many Applications of a step may be in flight at once.
//!
//! Accepts a value of any type and never fails: an invalid value is reported as
//! a problem in the status, with a safe limit in effect.

use serde_json::Value;

/// A step's `maxUpdate` as the user wrote it (AS-342).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MaxUpdate {
    /// Absent: the whole step at once (AS-340).
    Unlimited,
    /// A number of Applications.
    Count(u64),
    /// A negative number, read as 0.
    Negative(i64),
    /// A percentage of the step, rounded down, but at least one Application if
    /// it is more than 0 %.
    Percent(u64),
    /// A number in quotes, and the text, which may begin with zeros. The number is in effect, and
    /// Argo CD reads 1.
    Quoted(u64, String),
    /// Any other text, with the limit used instead.
    Invalid {
        /// The value in the spec, as JSON text.
        text: String,
        /// The limit in effect: 0 for a negative percentage, else 1.
        limit: u64,
    },
}

/// The largest number of Applications of a step that may be in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// At most this many; 0 holds the step for a manual sync (AS-343).
    AtMost(u64),
    /// No limit.
    Unlimited,
}

impl Limit {
    /// Whether one more may start while so many are in flight.
    pub fn permits_more(self, in_flight: u64) -> bool {
        match self {
            Self::AtMost(limit) => in_flight < limit,
            Self::Unlimited => true,
        }
    }

    /// The limit for a group of `size`: at most the size of the group.
    pub fn capped(self, size: u64) -> u64 {
        match self {
            Self::AtMost(limit) => limit.min(size),
            Self::Unlimited => size,
        }
    }
}

impl MaxUpdate {
    /// Reads the field; `None` and JSON `null` mean absent.
    pub fn read(value: Option<&Value>) -> Self {
        match value {
            None | Some(Value::Null) => Self::Unlimited,
            Some(Value::Number(number)) => Self::from_number(number),
            Some(Value::String(text)) => Self::from_text(text),
            Some(other) => Self::Invalid { text: other.to_string(), limit: 1 },
        }
    }

    fn from_number(number: &serde_json::Number) -> Self {
        match (number.as_u64(), number.as_i64()) {
            (Some(count), _) => Self::Count(count),
            (None, Some(negative)) => Self::Negative(negative),
            (None, None) => Self::Invalid { text: number.to_string(), limit: 1 },
        }
    }

    fn from_text(text: &str) -> Self {
        let invalid = |limit| Self::Invalid { text: format!("\"{text}\""), limit };
        let digits = |text: &str| {
            let all_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            all_digits.then(|| text.parse::<u64>().unwrap_or(u64::MAX))
        };
        match text.strip_suffix('%') {
            Some(share) => match (digits(share), share.strip_prefix('-').and_then(digits)) {
                (Some(percent), _) => Self::Percent(percent),
                // Stricter than Argo CD, which lets one Application start.
                (None, Some(_)) => invalid(0),
                (None, None) => invalid(1),
            },
            // A quoted number means that number: `"0"` must hold the step.
            None => match digits(text) {
                Some(count) => Self::Quoted(count, text.to_owned()),
                None => invalid(1),
            },
        }
    }

    /// What is wrong with the value, and what is in effect instead; `None` when it is well formed
    /// (AS-342).
    pub fn problem(&self) -> Option<String> {
        match self {
            Self::Unlimited | Self::Count(_) | Self::Negative(_) | Self::Percent(_) => None,
            Self::Quoted(count, text) => Some(format!(
                "\"{text}\" is a number in quotes, and {count} is in effect; remove the quotes"
            )),
            Self::Invalid { text, limit } => Some(format!(
                "{text} is neither a number nor a percentage such as \"10%\", and {limit} is in effect"
            )),
        }
    }

    /// The limit for a step of `size` Applications (table of AS-344).
    pub fn limit(&self, size: u64) -> Limit {
        match self {
            Self::Unlimited => Limit::Unlimited,
            Self::Count(count) | Self::Quoted(count, _) => Limit::AtMost(*count),
            Self::Negative(_) | Self::Percent(0) => Limit::AtMost(0),
            Self::Percent(percent) => {
                let share = u128::from(*percent) * u128::from(size) / 100;
                Limit::AtMost(u64::try_from(share).unwrap_or(u64::MAX).max(1))
            }
            Self::Invalid { limit, .. } => Limit::AtMost(*limit),
        }
    }

    /// The value as JSON, for `wavegate plan`.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Unlimited => Value::Null,
            Self::Count(count) => Value::from(*count),
            Self::Negative(number) => Value::from(*number),
            Self::Percent(percent) => Value::from(format!("{percent}%")),
            Self::Quoted(_, text) => Value::from(text.as_str()),
            Self::Invalid { text, .. } => {
                serde_json::from_str(text).unwrap_or_else(|_| Value::from(text.as_str()))
            }
        }
    }
}

impl std::fmt::Display for MaxUpdate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unlimited => write!(f, "100%"),
            Self::Count(count) => write!(f, "{count}"),
            Self::Negative(number) => write!(f, "{number}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
            Self::Quoted(_, text) => write!(f, "\"{text}\""),
            Self::Invalid { text, .. } => write!(f, "{text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn limits_are_those_of_the_table_in_as_344() {
        let cases = [
            (json!(null), 7, 7),
            (json!(0), 3, 0),
            (json!(1), 3, 1),
            (json!(3), 4, 3),
            (json!(5), 3, 3),
            (json!(-1), 3, 0),
            (json!("0%"), 10, 0),
            (json!("33%"), 3, 1),
            (json!("34%"), 3, 1),
            (json!("66%"), 3, 1),
            (json!("67%"), 3, 2),
            (json!("100%"), 7, 7),
            (json!("1%"), 100, 1),
            (json!("1%"), 3, 1),
            (json!("10%"), 5, 1),
            (json!("10%"), 10, 1),
            (json!("10%"), 19, 1),
            (json!("10%"), 20, 2),
            (json!("10%"), 29, 2),
            (json!("25%"), 10, 2),
            (json!("50%"), 1, 1),
            (json!("50%"), 3, 1),
            (json!("50%"), 5, 2),
            (json!("99%"), 3, 2),
            (json!("200%"), 4, 4),
            (json!("1%"), 250, 2),
            // AS-342: only ours holds the step on these.
            (json!("00%"), 5, 0),
            (json!("-5%"), 5, 0),
            (json!("0"), 5, 0),
            (json!("3"), 5, 3),
            // AS-342: anything else is invalid, and 1 in effect.
            (json!("abc"), 5, 1),
            (json!("1.5%"), 5, 1),
            (json!(""), 5, 1),
            (json!(1.5), 5, 1),
            (json!(true), 5, 1),
            (json!({}), 5, 1),
        ];
        for (value, size, want) in cases {
            let limit = MaxUpdate::read(Some(&value)).limit(size);
            assert_eq!(limit.capped(size), want, "maxUpdate {value} of {size}");
        }
    }

    #[test]
    fn only_well_formed_values_are_without_a_problem_as_342() {
        for (value, valid) in [
            (json!(0), true),
            (json!(-1), true),
            (json!("10%"), true),
            (json!("00%"), true),
            (json!("-5%"), false),
            (json!("3"), false),
            (json!("abc"), false),
            (json!(""), false),
            (json!("%"), false),
            (json!([1]), false),
        ] {
            let problem = MaxUpdate::read(Some(&value)).problem();
            assert_eq!(problem.is_none(), valid, "maxUpdate {value}: {problem:?}");
        }
    }

    #[test]
    fn a_value_is_shown_as_it_was_written() {
        for value in [
            json!(-1),
            json!(0),
            json!(7),
            json!("10%"),
            json!("50"),
            json!("007"),
            json!("x"),
            json!([1]),
        ] {
            let read = MaxUpdate::read(Some(&value));
            assert_eq!((read.to_json(), read.to_string()), (value.clone(), shown(&value)));
        }
        let quoted = MaxUpdate::read(Some(&json!("50"))).problem().unwrap();
        assert_eq!(quoted, "\"50\" is a number in quotes, and 50 is in effect; remove the quotes");
    }

    /// A percentage without its quotes.
    fn shown(value: &Value) -> String {
        match value.as_str() {
            Some(text) if text.ends_with('%') => text.to_owned(),
            _ => value.to_string(),
        }
    }

    proptest! {
        #[test]
        fn a_limit_never_exceeds_the_step_and_any_text_is_read(text in ".{0,12}", size in 0u64..10_000) {
            let limit = MaxUpdate::read(Some(&json!(text))).limit(size);
            prop_assert!(limit.capped(size) <= size);
        }

        #[test]
        fn more_percent_never_means_fewer(percent in 0u64..400, size in 1u64..5_000) {
            let limit = |percent: u64| MaxUpdate::Percent(percent).limit(size).capped(size);
            prop_assert!(limit(percent) <= limit(percent + 1));
        }
    }
}
