//! Arithmetic. Whole numbers wrap around, as in Go; the float functions calculate in decimal.

use bigdecimal::num_bigint::BigInt;
use bigdecimal::{BigDecimal, RoundingMode, Zero};

use super::convert::{to_float, to_int};
use super::prelude::*;
use crate::engine::float::shortest;

pub(super) const FUNCTIONS: &[Function] = &[
    f("add", "a*", |_, a| Ok(Value::int64(a.iter().map(to_int).fold(0, i64::wrapping_add)))),
    f("add1", "a", |_, a| Ok(Value::int64(to_int(&a[0]).wrapping_add(1)))),
    f("sub", "aa", |_, a| Ok(Value::int64(to_int(&a[0]).wrapping_sub(to_int(&a[1]))))),
    f("mul", "aa*", |_, a| Ok(Value::int64(a.iter().map(to_int).fold(1, i64::wrapping_mul)))),
    f("div", "aa", |_, a| match to_int(&a[1]) {
        0 => Err("integer divide by zero".into()),
        n => Ok(Value::int64(to_int(&a[0]).wrapping_div(n))),
    }),
    f("mod", "aa", |_, a| match to_int(&a[1]) {
        0 => Err("integer divide by zero".into()),
        n => Ok(Value::int64(to_int(&a[0]).wrapping_rem(n))),
    }),
    f("max", "aa*", |_, a| Ok(Value::int64(a.iter().map(to_int).max().unwrap_or(0)))),
    f("biggest", "aa*", |_, a| Ok(Value::int64(a.iter().map(to_int).max().unwrap_or(0)))),
    f("min", "aa*", |_, a| Ok(Value::int64(a.iter().map(to_int).min().unwrap_or(0)))),
    f("maxf", "aa*", |_, a| Ok(Value::Float(extreme(a, |x, y| x > y)))),
    f("minf", "aa*", |_, a| Ok(Value::Float(extreme(a, |x, y| x < y)))),
    f("addf", "a*", |run, a| {
        let start = Value::Float(0.0);
        decimal(run, &start, a, |x, y| Ok(x + y))
    }),
    f("add1f", "a", |run, a| decimal(run, &a[0], &[Value::Float(1.0)], |x, y| Ok(x + y))),
    f("subf", "aa*", |run, a| decimal(run, &a[0], &a[1..], |x, y| Ok(x - y))),
    f("mulf", "aa*", |run, a| decimal(run, &a[0], &a[1..], |x, y| Ok(x * y))),
    f("divf", "aa*", |run, a| decimal(run, &a[0], &a[1..], divide)),
    f("ceil", "a", |_, a| Ok(Value::Float(to_float(&a[0]).ceil()))),
    f("floor", "a", |_, a| Ok(Value::Float(to_float(&a[0]).floor()))),
    f("round", "aif*", |_, a| {
        let on = a.get(2).map_or(0.5, to_float);
        let scale = 10.0_f64.powf(a.int(1) as f64);
        let digit = scale * to_float(&a[0]);
        let fraction = digit - digit.trunc();
        Ok(Value::Float(if fraction >= on { digit.ceil() } else { digit.floor() } / scale))
    }),
    f("until", "i", |run, a| {
        let numbers = until_step(run, 0, a.int(0), if a.int(0) < 0 { -1 } else { 1 })?;
        ints(run, numbers)
    }),
    f("untilStep", "iii", |run, a| {
        let numbers = until_step(run, a.int(0), a.int(1), a.int(2))?;
        ints(run, numbers)
    }),
    f("seq", "i*", seq),
    f("randInt", "ii", |run, a| {
        let span = a.int(1).wrapping_sub(a.int(0));
        match u64::try_from(span) {
            Ok(span) if span > 0 => {
                let offset = run.random_below(span)?;
                Ok(Value::int(a.int(0).wrapping_add_unsigned(offset)))
            }
            _ => Err("invalid argument to Intn".into()),
        }
    }),
];

/// The maximum or minimum; NaN takes precedence.
fn extreme(values: &[Value], better: fn(f64, f64) -> bool) -> f64 {
    let mut best = to_float(&values[0]);
    for value in &values[1..] {
        let x = to_float(value);
        if x.is_nan() || (!best.is_nan() && better(x, best)) {
            best = x;
        }
    }
    best
}

/// Calculates in decimal, so that 0.1 and 0.2 make 0.3.
fn decimal(
    run: &mut Run<'_>,
    first: &Value,
    rest: &[Value],
    op: fn(BigDecimal, BigDecimal) -> Outcome<BigDecimal>,
) -> Outcome {
    let number = |value: &Value| -> Outcome<BigDecimal> {
        shortest(to_float(value)).parse().map_err(|_| "not a finite number".into())
    };
    let mut result = number(first)?;
    for value in rest {
        let next = number(value)?;
        result = op(result, next)?;
        // The number of digits increases with every factor.
        run.charge(1 + usize::try_from(result.digits()).unwrap_or(usize::MAX) / 16)?;
    }
    result.to_string().parse().map(Value::Float).map_err(|_| "not a number".into())
}

/// Divides to 16 decimal places, half away from zero.
fn divide(x: BigDecimal, y: BigDecimal) -> Outcome<BigDecimal> {
    if y.is_zero() {
        return Err("decimal division by 0".into());
    }
    let (x, x_scale) = x.into_bigint_and_exponent();
    let (y, y_scale) = y.into_bigint_and_exponent();
    // One more decimal place than needed, which is then rounded, with a mark for further
    // digits.
    let shift = 17 - x_scale + y_scale;
    let power = BigInt::from(10).pow(u32::try_from(shift.unsigned_abs()).unwrap_or(u32::MAX));
    let (numerator, denominator) = if shift >= 0 { (x * power, y) } else { (x, y * power) };
    Ok(BigDecimal::new(numerator / denominator, 17).with_scale_round(16, RoundingMode::HalfUp))
}

fn ints(run: &mut Run<'_>, numbers: Vec<i64>) -> Outcome {
    run.list_of(Elem::Int, numbers.into_iter().map(Value::int).collect())
}

fn until_step(run: &mut Run<'_>, start: i64, stop: i64, step: i64) -> Outcome<Vec<i64>> {
    let mut numbers = Vec::new();
    if (stop < start && step >= 0) || (stop >= start && step <= 0) {
        return Ok(numbers);
    }
    let count = stop.abs_diff(start).div_ceil(step.unsigned_abs());
    run.charge(usize::try_from(count).unwrap_or(usize::MAX))?;
    for i in 0..count as i64 {
        numbers.push(start.wrapping_add(i.wrapping_mul(step)));
    }
    Ok(numbers)
}

fn seq(run: &mut Run<'_>, a: &[Value]) -> Outcome {
    let numbers: Vec<i64> = (0..a.len()).map(|i| a.int(i)).collect();
    let (start, step, end) = match numbers.as_slice() {
        [end] => (1, if *end < 1 { -1 } else { 1 }, *end),
        [start, end] => (*start, if end < start { -1 } else { 1 }, *end),
        [start, step, end] if end < start && *step > 0 => return Ok(Value::str("")),
        [start, step, end] => (*start, *step, *end),
        _ => return Ok(Value::str("")),
    };
    let past = end.wrapping_add(if end < start { -1 } else { 1 });
    let texts: Vec<String> =
        until_step(run, start, past, step)?.iter().map(i64::to_string).collect();
    Ok(Value::str(texts.join(" ")))
}
