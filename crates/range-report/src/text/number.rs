//! Numbers as text: which cells are numbers and how they are rewritten, the roundings of the summaries, and times in
//! readable units.

/// A cell with more decimals stays text. (No column is that wide, and formatting has a limit of its own.)
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
    /// Parses `[+-]?(0|[1-9][0-9]*)(\.[0-9]*)?([eE][+-]?[0-9]+)?`, the whole text. Leading zeros, blanks, separators
    /// and the empty text are not numbers.
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

    /// Whether its decimal point is aligned: always, except in the exponent form.
    pub(crate) fn has_point_position(self) -> bool {
        !matches!(self.form, Form::Exponent { .. })
    }

    /// The number in the tool's form: integers through 64 bits, all others through a double with the given number of
    /// decimals.
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

/// Inserts commas into the integer part of a number.
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

/// `100 * part / base` with one decimal, half away from zero; `None` if the base is 0.
pub(crate) fn percent(part: u64, base: u128) -> Option<String> {
    ratio_tenths(1_000 * u128::from(part), base).map(tenths)
}

/// `28.4%`, or `-` if the base is 0.
pub(crate) fn share(part: u64, base: u128) -> String {
    percent(part, base).map_or_else(|| "-".to_owned(), |text| text + "%")
}

/// `total / count` with one decimal, half away from zero; `None` if the count is 0. Beyond 2^52 tenths it goes through
/// a double, like the tool's. (Between 2^42 ns, 73 minutes, and that limit, the tool sometimes rounds an exact half
/// down. This arithmetic noise is not imitated.)
pub(crate) fn average(total: u64, count: u64) -> Option<String> {
    let exact = ratio_tenths(10 * u128::from(total), u128::from(count))?;
    if exact < 1 << 52 { Some(tenths(exact)) } else { rounded(total as f64 / count as f64) }
}

/// `numerator / denominator` to the nearest integer, half up. The numerator is below 2^80 or so, so nothing overflows.
fn ratio_tenths(numerator: u128, denominator: u128) -> Option<u128> {
    (denominator > 0).then(|| (2 * numerator + denominator) / (2 * denominator))
}

/// A double with one decimal, rounded like SQLite's `round(x, 1)`: half away from zero, where a value below half by at
/// most 3e-16 of itself still counts as half. `None` for negative and non-finite values.
pub(crate) fn rounded(value: f64) -> Option<String> {
    to_tenths(value, 3)
}

/// How a figure is rounded to one decimal. Nsight Systems leaves this to SQLite, whose versions round ties such as
/// 92018.95 differently: as a double, it is a little less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// Half away from zero by the decimal figure: before SQLite 3.43, and so in Nsight Systems 2022.4.
    Decimal,
    /// Half away from zero by the exact double: SQLite from 3.43 on, and so in Nsight Systems 2025.3.
    Binary,
}

impl Rounding {
    /// [`percent`]
    pub(crate) fn percent(self, part: u64, base: u128) -> Option<String> {
        match self {
            Self::Decimal => percent(part, base),
            Self::Binary => (base > 0).then(|| to_tenths(100.0 * part as f64 / base as f64, 0)).flatten(),
        }
    }

    /// [`average`]
    pub(crate) fn average(self, total: u64, count: u64) -> Option<String> {
        match self {
            Self::Decimal => average(total, count),
            Self::Binary => (count > 0).then(|| to_tenths(total as f64 / count as f64, 0)).flatten(),
        }
    }

    /// [`rounded`]
    pub(crate) fn rounded(self, value: f64) -> Option<String> {
        match self {
            Self::Decimal => rounded(value),
            Self::Binary => to_tenths(value, 0),
        }
    }
}

/// Half up. A value below half by at most `tolerance` parts in 10^16 counts as half.
fn to_tenths(value: f64, tolerance: u128) -> Option<String> {
    const FRACTION_BITS: u32 = 66;
    if !value.is_finite() || value < 0.0 {
        return None;
    }
    if value >= 4_503_599_627_370_496.0 {
        return Some(repr(value)); // from 2^52 on there are no decimals
    }
    // Fixed point: values below 2^52 with 66 bits after the point, so that ten times the value still fits into 128
    // bits. The product with a power of two is exact, and the cast removes only parts below any printed digit.
    let fixed = (value * (1_u128 << FRACTION_BITS) as f64) as u128;
    // Ten times the value and its tolerance; the tool has no tolerance from 2^42 on.
    let tolerance = if value < 4_398_046_511_104.0 { fixed * tolerance / 1_000_000_000_000_000 } else { 0 };
    let tenth = (fixed * 10 + tolerance + (1_u128 << (FRACTION_BITS - 1))) >> FRACTION_BITS;
    // The tool writes only sixteen digits.
    Some(tenths(if tenth < 10_000_000_000_000_000 { tenth } else { tenth - tenth % 10 }))
}

/// A number of tenths, as the shortest text that gives the same double.
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

/// The bounds of an unknown time: `1.06-3.07 ms`. If both look the same, only one of them.
#[cfg(any(feature = "compare", test))]
pub(crate) fn human_between(least: u64, most: u64) -> String {
    between(least, most, [(1, "ns"), (1_000, "us"), (1_000_000, "ms"), (1_000_000_000, "s ")])
}

/// The same for sizes.
#[cfg(any(feature = "compare", test))]
pub(crate) fn bytes_between(least: u64, most: u64) -> String {
    between(least, most, [(1, "B "), (1_000, "KB"), (1_000_000, "MB"), (1_000_000_000, "GB")])
}

/// Both bounds in the unit of the greater one, rounded to three of its digits.
#[cfg(any(feature = "compare", test))]
fn between(least: u64, most: u64, units: [(u64, &str); 4]) -> String {
    let (size, unit) = units.into_iter().rev().find(|(size, _)| most >= *size).unwrap_or(units[0]);
    let decimals = match most / size {
        _ if size == 1 => 0,
        0..10 => 2,
        10..100 => 1,
        _ => 0,
    };
    let [least, most] = [least, most].map(|value| format!("{:.decimals$}", value as f64 / size as f64));
    if least == most { format!("{most} {unit}") } else { format!("{least}-{most} {unit}") }
}

/// A time in readable form: four digits and a unit two characters wide, so that a column of times is aligned.
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
    four_digits(ns, ["us", "ms", "s"])
}

/// A size for a sentence: four digits and a unit of thousands.
pub(crate) fn human_bytes(bytes: u64) -> String {
    if bytes < 1_000 {
        return format!("{bytes} B");
    }
    let (number, unit) = four_digits(bytes, ["KB", "MB", "GB"]);
    format!("{number} {unit}")
}

/// The value in the smallest unit of 10^3, 10^6 and 10^9 in which four digits suffice; otherwise in 10^9, without
/// decimals.
fn four_digits(value: u64, [thousand, million, billion]: [&'static str; 3]) -> (String, &'static str) {
    let wide = u128::from(value);
    for (unit, size) in [(thousand, 1_000), (million, 1_000_000), (billion, 1_000_000_000)] {
        for (decimals, scale) in [(3, 1_000), (2, 100), (1, 10)] {
            let value = (2 * wide * scale + size) / (2 * size);
            if value < 10_000 {
                return (format!("{}.{:0decimals$}", value / scale, value % scale), unit);
            }
        }
    }
    ((value / 1_000_000_000 + u64::from(value % 1_000_000_000 >= 500_000_000)).to_string(), billion)
}

/// `x3236`, `x2.49`, `<x0.01`: how many times as long.
#[cfg(feature = "compare")]
pub(crate) fn ratio(ratio: f64) -> String {
    match ratio {
        r if !r.is_finite() || r >= 999_999.5 => ">x1e6".to_owned(),
        r if r > 0.0 && r < 0.005 => "<x0.01".to_owned(),
        r if r < 9.995 => format!("x{r:.2}"),
        r if r < 99.95 => format!("x{r:.1}"),
        r => format!("x{r:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(text: &str, thousands: bool) -> Option<String> {
        Number::parse(text).map(|number| number.to_text(thousands))
    }

    #[test]
    fn two_bounds_are_one_figure_with_the_unit_of_the_greater() {
        let times = [(38, 51), (800, 1_071_000), (1_085_301, 3_098_850), (10_849_999, 10_850_001), (0, 0), (7, 90)];
        let texts = times.map(|(least, most)| human_between(least, most));
        assert_eq!(texts, ["38-51 ns", "0.00-1.07 ms", "1.09-3.10 ms", "10.8-10.9 ms", "0 ns", "7-90 ns"]);
        assert_eq!(human_between(120_000_000_000, 250_000_000_000), "120-250 s ");
        assert_eq!(bytes_between(500_000, 1_500_000), "0.50-1.50 MB");
    }

    #[test]
    fn what_is_a_number() {
        for text in
            ["", " 1", "1 ", "007", "00", "1,000", "0x10", "1_000", ".5", "+", "+-1", "1e", "1e+", "1.5.", "None"]
        {
            assert_eq!(written(text, true), None, "{text:?}");
        }
        for (text, expected) in [
            ("1000", "1,000"),
            ("+5", "5"),
            ("-0", "0"),
            ("-1000000.50", "-1,000,000.50"),
            ("1.", "1"),
            ("12345678901234567890123", "9,223,372,036,854,775,807"),
            ("-12345678901234567890123", "-9,223,372,036,854,775,808"),
            ("12345678901234567890123.5", "12,345,678,901,234,567,741,440.0"),
            ("1e6", "1e+06"),
            ("1.50E-6", "1.50e-06"),
            ("1e999", "inf"),
            ("-1e999", "-inf"),
            ("-1e-999", "-0e+00"),
        ] {
            assert_eq!(written(text, true).as_deref(), Some(expected), "{text:?}");
        }
    }

    #[test]
    fn very_long_numbers_stay_text() {
        assert_eq!(written(&format!("0.{}", "0".repeat(100_000)), true), None);
        assert_eq!(written(&format!("{}.5", "9".repeat(100_000)), true).map(|text| text.len()), Some(100_002));
    }

    #[test]
    fn shares_and_averages_round_half_away_from_zero() {
        assert_eq!(percent(5, 10_000).as_deref(), Some("0.1"));
        assert_eq!(percent(4_999, 10_000_000).as_deref(), Some("0.0"));
        assert_eq!(percent(9_995, 10_000).as_deref(), Some("100.0"));
        assert_eq!(percent(0, 0), None);
        assert_eq!(average(9, 4).as_deref(), Some("2.3"));
        assert_eq!(average(1, 0), None);
        assert_eq!(average(u64::MAX, 1).as_deref(), Some("1.8446744073709552e+19"));
    }

    #[test]
    fn doubles_round_as_in_sqlite() {
        for (value, expected) in [
            (0.15, "0.2"),
            (0.35, "0.4"),
            (2.25, "2.3"),
            (99.95, "100.0"),
            (0.0, "0.0"),
            (0.0499, "0.0"),
            (4_398_046_511_103.05, "4398046511103.1"), // a little below half
            (4_398_046_511_104.05, "4398046511104.0"),
            (1_234_567_890_123_456.5, "1234567890123456.0"),
            (1e16, "1e+16"),
        ] {
            assert_eq!(rounded(value).as_deref(), Some(expected), "{value}");
        }
        for value in [f64::NAN, f64::INFINITY, -1.0] {
            assert_eq!(rounded(value), None);
        }
    }

    #[cfg(feature = "compare")]
    #[test]
    fn ratios_have_three_digits() {
        let ratios = [0.0, 0.004, 0.005, 1.0, 2.489, 9.995, 99.95, 3_236.4, 999_999.5, f64::INFINITY].map(ratio);
        let expected = ["x0.00", "<x0.01", "x0.01", "x1.00", "x2.49", "x10.0", "x100", "x3236", ">x1e6", ">x1e6"];
        assert_eq!(ratios, expected);
    }

    /// Values from SQLite 3.51.1.
    #[test]
    fn doubles_round_as_in_newer_sqlite() {
        let round = |value| Rounding::Binary.rounded(value).unwrap();
        let values = [0.15, 0.35, 0.45, 2.25, 2.75, 99.95, 92_018.95, 0.0, 1e16];
        assert_eq!(values.map(round), ["0.1", "0.3", "0.5", "2.3", "2.8", "100.0", "92018.9", "0.0", "1e+16"]);
        assert_eq!(Rounding::Binary.average(1_840_379, 20).as_deref(), Some("92018.9"));
        assert_eq!(Rounding::Decimal.average(1_840_379, 20).as_deref(), Some("92019.0"));
        assert_eq!(Rounding::Binary.percent(3, 2_000).as_deref(), Some("0.1"));
        assert_eq!(Rounding::Decimal.percent(3, 2_000).as_deref(), Some("0.2"));
        assert_eq!((Rounding::Binary.percent(0, 0), Rounding::Binary.average(1, 0)), (None, None));
    }

    #[test]
    fn times_for_people() {
        for (ns, expected) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.000 us"),
            (602_422, "602.4 us"),
            (999_949, "999.9 us"),
            (999_950, "1.000 ms"),
            (12_345_678, "12.35 ms"),
            (999_999_999, "1.000 s"),
            (3_498_803_745, "3.499 s"),
            (999_949_999_999, "999.9 s"),
            (999_950_000_000, "1000 s"),
            (u64::MAX, "18446744074 s"),
        ] {
            assert_eq!(human_inline(ns), expected);
            assert_eq!(human(ns).trim_end(), expected);
        }
    }

    #[test]
    fn sizes_for_people() {
        let sizes = [0, 999, 1_000, 67_108_864, 4_294_967_296, 5_000_000_000_000];
        assert_eq!(sizes.map(human_bytes), ["0 B", "999 B", "1.000 KB", "67.11 MB", "4.295 GB", "5000 GB"]);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "[-+0-9.eE]{0,12}|.{0,12}", thousands: bool) {
            if let Some(written) = written(&text, thousands) {
                prop_assert_eq!(written.replace(',', "").parse::<f64>().is_ok(), true);
            }
        }

        #[test]
        fn separators_only_separate(value: i64) {
            let grouped = group(&value.to_string());
            prop_assert_eq!(grouped.replace(',', ""), value.to_string());
            let mut blocks = grouped.trim_start_matches('-').split(',');
            prop_assert!((1..=3).contains(&blocks.next().map_or(0, str::len)));
            prop_assert!(blocks.all(|block| block.len() == 3));
        }

        /// Rounding does not change a value that already has one decimal.
        #[test]
        fn rounding_keeps_tenths(tenth in 0_u64..1 << 46) {
            let expected = format!("{}.{}", tenth / 10, tenth % 10);
            prop_assert_eq!(rounded(tenth as f64 / 10.0), Some(expected.clone()));
            prop_assert_eq!(average(tenth, 10), Some(expected));
        }

        #[test]
        fn times_for_people_are_near(ns in 1_u64..) {
            let text = human(ns);
            prop_assert!(text.len() >= 4 && text.is_ascii());
            let (number, unit) = text.trim_end().split_once(' ').unwrap();
            let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
            let unit = units.iter().find(|(name, _)| *name == unit).unwrap().1;
            let read = number.parse::<f64>().unwrap() * unit;
            prop_assert!((read / ns as f64 - 1.0).abs() < 5.1e-4, "{} for {}", text, ns);
        }
    }
}
