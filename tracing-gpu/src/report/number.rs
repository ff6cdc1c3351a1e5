//! Numbers as text: which cells are numbers and how they are written again, the roundings of the summaries, and times
//! for people.

/// Beyond this many decimals a cell is left as text. (No column is that wide, and formatting has a bound of its own.)
const MAX_DECIMALS: usize = 1_000;

/// A text that reads as a decimal number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number<'a> {
    text: &'a str,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Integer,
    Fixed { decimals: usize },
    Exponent { decimals: usize },
}

impl<'a> Number<'a> {
    /// Reads `[+-]?(0|[1-9][0-9]*)(\.[0-9]*)?([eE][+-]?[0-9]+)?`, the whole text. Leading zeros, blanks, separators and
    /// the empty text are not numbers.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let (_, rest) = split_sign(text);
        let whole = digits(rest);
        if whole == 0 || (whole > 1 && rest.starts_with('0')) {
            return None;
        }
        let mut rest = &rest[whole..];
        let mut form = Form::Integer;
        let mut decimals = 0;
        if let Some(after) = rest.strip_prefix('.') {
            decimals = digits(after);
            form = Form::Fixed { decimals };
            rest = &after[decimals..];
        }
        if let Some(after) = rest.strip_prefix(['e', 'E']) {
            let (_, exponent) = split_sign(after);
            let length = digits(exponent);
            if length == 0 {
                return None;
            }
            form = Form::Exponent { decimals };
            rest = &exponent[length..];
        }
        (rest.is_empty() && decimals <= MAX_DECIMALS).then_some(Self { text, form })
    }

    /// Whether it takes part in the alignment of decimal points: all but the exponent form do.
    pub(crate) fn has_point_position(self) -> bool {
        !matches!(self.form, Form::Exponent { .. })
    }

    /// The number as the tool writes it: integers through 64 bits, everything else through a double with as many
    /// decimals as were given.
    pub(crate) fn to_text(self, thousands: bool) -> String {
        match self.form {
            Form::Integer => {
                let text = saturating_i64(self.text).to_string();
                if thousands { group(&text) } else { text }
            }
            Form::Fixed { decimals } => {
                let text = match self.text.parse::<f64>() {
                    Ok(value) if value.is_finite() => format!("{value:.decimals$}"),
                    _ => return self.text.to_owned(),
                };
                if thousands { group(&text) } else { text }
            }
            Form::Exponent { decimals } => match self.text.parse::<f64>() {
                Ok(value) => exponent_form(value, decimals),
                Err(_) => self.text.to_owned(),
            },
        }
    }
}

fn split_sign(text: &str) -> (&str, &str) {
    let length = usize::from(text.starts_with(['+', '-']));
    text.split_at(length)
}

fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

fn saturating_i64(text: &str) -> i64 {
    match text.parse() {
        Ok(value) => value,
        Err(_) if text.starts_with('-') => i64::MIN,
        Err(_) => i64::MAX,
    }
}

/// Puts commas into the integer part of a written number.
pub(crate) fn group(number: &str) -> String {
    let (sign, unsigned) = split_sign(number);
    let (whole, fraction) = unsigned.split_at(unsigned.find('.').unwrap_or(unsigned.len()));
    let mut out = String::with_capacity(number.len() + whole.len() / 3);
    out.push_str(sign);
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out.push_str(fraction);
    out
}

/// An integer, with separators if wanted.
pub(crate) fn integer(value: u64, thousands: bool) -> String {
    let text = value.to_string();
    if thousands { group(&text) } else { text }
}

/// C's `%.*e`: a sign and at least two digits in the exponent.
fn exponent_form(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return if value < 0.0 { "-inf" } else { "inf" }.to_owned();
    }
    c_exponent(&format!("{value:.decimals$e}"))
}

fn c_exponent(text: &str) -> String {
    let Some((mantissa, exponent)) = text.split_once('e') else { return text.to_owned() };
    match exponent.strip_prefix('-') {
        Some(digits) => format!("{mantissa}e-{digits:0>2}"),
        None => format!("{mantissa}e+{exponent:0>2}"),
    }
}

/// `100 * part / base` with one decimal, half away from zero; `None` where the base is 0.
pub(crate) fn percent(part: u64, base: u128) -> Option<String> {
    ratio_tenths(1_000 * u128::from(part), base).map(tenths)
}

/// `total / count` with one decimal, half away from zero; `None` where there is nothing to divide by. Beyond 2^52
/// tenths it goes through a double, as the tool's does.
pub(crate) fn average(total: u64, count: u64) -> Option<String> {
    let exact = ratio_tenths(10 * u128::from(total), u128::from(count))?;
    if exact < 1 << 52 { Some(tenths(exact)) } else { rounded(total as f64 / count as f64) }
}

/// `numerator / denominator` to the nearest integer, half up. The numerator is below 2^80 or so, so nothing overflows.
fn ratio_tenths(numerator: u128, denominator: u128) -> Option<u128> {
    (denominator > 0).then(|| (2 * numerator + denominator) / (2 * denominator))
}

/// A double with one decimal, rounded as SQLite's `round(x, 1)` does: half away from zero, where a value that is below
/// half by no more than 3e-16 of itself still counts as half. `None` for negative and non-finite values.
pub(crate) fn rounded(value: f64) -> Option<String> {
    const FRACTION_BITS: u32 = 50;
    if !value.is_finite() || value < 0.0 {
        return None;
    }
    if value >= 4_503_599_627_370_496.0 {
        return Some(repr(value)); // 2^52: no decimals left
    }
    // Fixed point: below 2^52 with 50 bits after the point, so that a factor of 10 still fits into 128 bits. The
    // product with a power of two is exact, and what the cast cuts off is below any digit printed.
    let fixed = (value * (1_u64 << FRACTION_BITS) as f64) as u128;
    // Ten times the value and its tolerance; the tool has none from 2^42 on.
    let tolerance = if value < 4_398_046_511_104.0 { fixed * 3 / 1_000_000_000_000_000 } else { 0 };
    let tenth = (fixed * 10 + tolerance + (1 << (FRACTION_BITS - 1))) >> FRACTION_BITS;
    // Sixteen digits are all it writes.
    Some(tenths(if tenth < 10_000_000_000_000_000 { tenth } else { tenth - tenth % 10 }))
}

/// A number of tenths, written as the shortest text that gives the same double.
fn tenths(tenths: u128) -> String {
    repr(tenths as f64 / 10.0)
}

/// The shortest text of a double, always with a point, in exponent form from 1e16 on.
fn repr(value: f64) -> String {
    if value >= 1e16 {
        return c_exponent(&format!("{value:e}"));
    }
    let text = value.to_string();
    if text.contains('.') { text } else { text + ".0" }
}

/// A time for people: four digits and a unit, the unit two wide so that a column of times lines up.
pub(crate) fn human(ns: u64) -> String {
    let (number, unit) = human_parts(ns);
    format!("{number} {unit:<2}")
}

/// [`human`] without the padding, for a sentence.
pub(crate) fn human_inline(ns: u64) -> String {
    let (number, unit) = human_parts(ns);
    format!("{number} {unit}")
}

fn human_parts(ns: u64) -> (String, &'static str) {
    if ns < 1_000 {
        return (ns.to_string(), "ns");
    }
    let wide = u128::from(ns);
    for (unit, size) in [("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)] {
        for (decimals, scale) in [(3, 1_000), (2, 100), (1, 10)] {
            let value = (2 * wide * scale + size) / (2 * size);
            if value < 10_000 {
                return (format!("{}.{:0decimals$}", value / scale, value % scale), unit);
            }
        }
    }
    ((ns / 1_000_000_000 + u64::from(ns % 1_000_000_000 >= 500_000_000)).to_string(), "s")
}
