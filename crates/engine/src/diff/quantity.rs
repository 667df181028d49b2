//! Canonical form of quantities, as printed by the API server.

use serde_json::Value;

/// Resolution of quantities; smaller fractions are rounded up, as in Kubernetes.
const NANO: i128 = 1_000_000_000;

/// The suffix family of a quantity, which is preserved.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Decimal,
    Exponent,
    Binary,
}

const BINARY: [(&str, i128); 6] = [
    ("Ei", 1 << 60),
    ("Pi", 1 << 50),
    ("Ti", 1 << 40),
    ("Gi", 1 << 30),
    ("Mi", 1 << 20),
    ("Ki", 1 << 10),
];

/// Decimal suffixes with their power of ten, largest first.
const DECIMAL: [(&str, i32); 10] = [
    ("E", 18),
    ("P", 15),
    ("T", 12),
    ("G", 9),
    ("M", 6),
    ("k", 3),
    ("", 0),
    ("m", -3),
    ("u", -6),
    ("n", -9),
];

/// Converts a quantity to its canonical string; a number becomes a string, too. Invalid
/// quantities are left for the API server to reject.
pub(crate) fn canonicalize(value: &mut Value) {
    let text = match &*value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return,
    };
    if let Some(canonical) = canonical(&text) {
        *value = Value::String(canonical);
    }
}

/// A quantity in thousandths, rounded up; `None` for an invalid or too large one.
pub fn in_thousandths(text: &str) -> Option<i64> {
    let (nanos, _) = parse(text)?;
    let unit = NANO / 1000;
    i64::try_from(nanos.div_euclid(unit) + i128::from(nanos.rem_euclid(unit) > 0)).ok()
}

/// The canonical string of a quantity: no fraction, the largest possible suffix of its
/// family. `None` for an invalid or too large quantity.
pub(crate) fn canonical(text: &str) -> Option<String> {
    let (nanos, family) = parse(text)?;
    if nanos == 0 {
        return Some("0".to_owned());
    }
    // A binary quantity with a fraction, or below 1024, becomes decimal.
    if family == Family::Binary && nanos % NANO == 0 && (nanos / NANO).abs() >= 1024 {
        let whole = nanos / NANO;
        let fits = BINARY.iter().find(|(_, size)| whole % size == 0);
        return Some(match fits {
            Some((suffix, size)) => format!("{}{suffix}", whole / size),
            None => whole.to_string(),
        });
    }
    let fits = |power: i32| {
        let unit = 10i128.pow(u32::try_from(power + 9).ok()?);
        (nanos % unit == 0).then(|| nanos / unit)
    };
    DECIMAL.iter().find_map(|(suffix, power)| {
        let count = fits(*power)?;
        Some(match family {
            Family::Exponent if *power != 0 => format!("{count}e{power}"),
            _ => format!("{count}{suffix}"),
        })
    })
}

/// The value in billionths, and its suffix family.
fn parse(text: &str) -> Option<(i128, Family)> {
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (digits, suffix) = rest.split_at(end);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    // Kubernetes does not accept more digits either.
    if whole.len() > 27 || fraction.len() > 27 {
        return None;
    }
    let mantissa: i128 = format!("0{whole}{fraction}").parse().ok()?;
    let scale = 10i128.pow(u32::try_from(fraction.len()).ok()?);
    let (numerator, denominator, family) = multiplier(suffix)?;
    let scaled = mantissa.checked_mul(NANO)?.checked_mul(numerator)?;
    let divisor = scale.checked_mul(denominator)?;
    let up = i128::from(scaled % divisor != 0);
    let nanos = scaled / divisor + up;
    Some((if negative { -nanos } else { nanos }, family))
}

/// The factor of a suffix, as a fraction.
fn multiplier(suffix: &str) -> Option<(i128, i128, Family)> {
    if let Some((_, size)) = BINARY.iter().find(|(known, _)| *known == suffix) {
        return Some((*size, 1, Family::Binary));
    }
    let (power, family) = match DECIMAL.iter().find(|(known, _)| *known == suffix) {
        Some((_, power)) => (*power, Family::Decimal),
        None => {
            let power = suffix.strip_prefix(['e', 'E'])?;
            let power: i32 = power.parse().ok()?;
            (power, Family::Exponent)
        }
    };
    if !(-18..=18).contains(&power) {
        return None;
    }
    let size = 10i128.pow(power.unsigned_abs());
    Some(if power < 0 { (1, size, family) } else { (size, 1, family) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities() {
        let rows = [
            ("1000m", "1"),
            ("1", "1"),
            ("0.5", "500m"),
            ("1500m", "1500m"),
            ("1024Mi", "1Gi"),
            ("1Gi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("1023", "1023"),
            ("0.5Ki", "512"),
            ("1000k", "1M"),
            ("1e3", "1e3"),
            ("10e2", "1e3"),
            ("1E", "1E"),
            ("0", "0"),
            ("0m", "0"),
            ("-1000m", "-1"),
            ("+5", "5"),
            (".5", "500m"),
            ("100n", "100n"),
            ("0.1n", "1n"),
            ("1073741824", "1073741824"),
            // Below 1024 it becomes decimal, as with a fraction.
            ("0.9765625Ki", "1k"),
            ("1Ki", "1Ki"),
            ("-1Ki", "-1Ki"),
            ("1025", "1025"),
            ("1.0009765625Ki", "1025"),
            ("5e0", "5"),
            ("5e-3", "5e-3"),
            ("100e-3", "100e-3"),
            ("1E3", "1e3"),
            ("0.000000001", "1n"),
        ];
        for (text, want) in rows {
            assert_eq!(canonical(text).as_deref(), Some(want), "{text}");
            assert_eq!(canonical(want).as_deref(), Some(want), "{want} is a fixed point");
        }
        // Of 27 digits at most, before the point and after it.
        let (whole, fraction) = (format!("1{}", "0".repeat(26)), format!("0.{}", "1".repeat(27)));
        assert_eq!(canonical(&whole).as_deref(), Some("100000000E"));
        assert_eq!(canonical(&fraction).as_deref(), Some("111111112n"));
        assert_eq!(canonical(&format!("{whole}0")), None);
        let fine = format!("0.{}", "1".repeat(28));
        for text in [
            fine.as_str(),
            "",
            "-",
            "Gi",
            "1 Gi",
            "1.2.3",
            "1gi",
            "1e",
            "1e99",
            "1e-99",
            "é",
            "9".repeat(40).as_str(),
        ] {
            assert_eq!(canonical(text), None, "{text:?}");
        }
    }

    /// Rounded up, also below zero; what is not a quantity or too large has none.
    #[test]
    fn thousandths_of_quantities_are_rounded_up() {
        for (text, want) in [
            ("0", Some(0)),
            ("1", Some(1000)),
            ("250m", Some(250)),
            ("1Ki", Some(1_024_000)),
            ("1u", Some(1)),
            ("1000u", Some(1)),
            ("1001u", Some(2)),
            ("2m", Some(2)),
            ("-1", Some(-1000)),
            ("-1500u", Some(-1)),
            ("1e3", Some(1_000_000)),
            ("1e-18", Some(1)),
            ("1e18", None),
            ("1e19", None),
            ("9E", None),
            ("x", None),
        ] {
            assert_eq!(in_thousandths(text), want, "{text}");
        }
    }
}
