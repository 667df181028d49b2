//! Prints floating point numbers as Go's `strconv.FormatFloat` does.

/// The shortest text that parses to the same number, with an exponent for very small
/// numbers and from a million: `3`, `1.5`, `1e+06`.
pub(crate) fn shortest(value: f64) -> String {
    format_float(value, 'g', None)
}

/// Formats with one of the verbs `e E f g G b x X`; without a precision with the minimum
/// number of digits.
pub(crate) fn format_float(value: f64, verb: char, precision: Option<usize>) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let sign = if value.is_sign_negative() { "-" } else { "" };
    let value = value.abs();
    let text = match verb {
        'e' | 'E' => match precision {
            Some(p) => go_exponent(&format!("{value:.p$e}")),
            None => go_exponent(&format!("{value:e}")),
        },
        'f' => match precision {
            Some(p) => format!("{value:.p$}"),
            None => format!("{value}"),
        },
        'b' => binary(value),
        'x' | 'X' => hexadecimal(value, precision),
        _ => general(value, precision),
    };
    let text = if verb.is_ascii_uppercase() { text.to_ascii_uppercase() } else { text };
    format!("{sign}{text}")
}

/// Rust formats `1e6`, Go `1e+06`.
fn go_exponent(text: &str) -> String {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
    format!("{mantissa}e{sign}{digits:0>2}")
}

fn general(value: f64, precision: Option<usize>) -> String {
    let text = match precision {
        Some(p) => format!("{value:.*e}", p.max(1) - 1),
        None => format!("{value:e}"),
    };
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let mut digits = mantissa.replace('.', "");
    digits.truncate(digits.trim_end_matches('0').len().max(1));
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let mut limit = precision.map_or(6, |p| i32::try_from(p.max(1)).unwrap_or(i32::MAX));
    if precision.is_some() && limit > count && count > exponent {
        limit = count;
    }
    if exponent < -4 || exponent >= limit {
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        return go_exponent(&format!("{first}{point}{rest}e{exponent}"));
    }
    let Ok(whole) = usize::try_from(exponent + 1) else {
        return format!("0.{}{digits}", "0".repeat(exponent.unsigned_abs() as usize - 1));
    };
    if whole == 0 {
        format!("0.{digits}")
    } else if digits.len() <= whole {
        format!("{digits}{}", "0".repeat(whole - digits.len()))
    } else {
        format!("{}.{}", &digits[..whole], &digits[whole..])
    }
}

/// Mantissa and binary exponent, as integers.
fn split(value: f64) -> (u64, i32) {
    let bits = value.to_bits();
    let exponent = i32::try_from((bits >> 52) & 0x7ff).unwrap_or(0);
    let mantissa = bits & ((1 << 52) - 1);
    if exponent == 0 { (mantissa, -1074) } else { (mantissa | (1 << 52), exponent - 1075) }
}

fn binary(value: f64) -> String {
    let (mantissa, exponent) = split(value);
    format!("{mantissa}p{exponent:+}")
}

fn hexadecimal(value: f64, precision: Option<usize>) -> String {
    let (mut mantissa, mut exponent) = split(value);
    if mantissa == 0 {
        exponent = 0;
    } else {
        // One bit before the point, 60 bits after it.
        let shift = mantissa.leading_zeros() - 3;
        mantissa <<= shift;
        exponent += 60 - i32::try_from(shift).unwrap_or(0);
    }
    if let Some(p) = precision
        && p < 15
    {
        let drop = u32::try_from(60 - 4 * p).unwrap_or(0);
        let extra = mantissa & ((1 << drop) - 1);
        mantissa >>= drop;
        if (extra | (mantissa & 1)) > (1 << (drop - 1)) {
            mantissa += 1;
        }
        mantissa <<= drop;
        if mantissa >> 61 != 0 {
            mantissa >>= 1;
            exponent += 1;
        }
    }
    let mut digits = format!("{:015x}", mantissa & ((1 << 60) - 1));
    match precision {
        None => digits.truncate(digits.trim_end_matches('0').len()),
        Some(p) => {
            digits.truncate(p);
            digits.extend(std::iter::repeat_n('0', p - digits.len().min(p)));
        }
    }
    let point = if digits.is_empty() { "" } else { "." };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("0x{}{point}{digits}p{sign}{:02}", mantissa >> 60, exponent.abs())
}
