//! Numbers that every format can hold. JSON has neither infinities nor NaN, but a summary made by hand may.

use serde::{Serialize as _, Serializer};

/// The number, or none if it is not finite.
// serde hands over references.
#[allow(clippy::trivially_copy_pass_by_ref, clippy::ref_option)]
pub(super) fn or_none<S: Serializer>(number: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    number.filter(|number| number.is_finite()).serialize(serializer)
}

/// The number, or 0 if it is not finite.
#[allow(clippy::trivially_copy_pass_by_ref)]
pub(super) fn or_zero<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if number.is_finite() { *number } else { 0.0 }.serialize(serializer)
}

#[cfg(test)]
mod tests {
    use crate::{Sizes, Times};

    #[test]
    fn what_is_no_finite_number_is_not_written() {
        for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let times = Times { median_ns: Some(odd), stddev_ns: odd, ..Times::default() };
            let text = serde_json::to_string(&times).unwrap();
            assert!(text.contains(r#""median_ns":null"#) && text.contains(r#""stddev_ns":0.0"#), "{text}");
            assert_eq!(serde_json::from_str::<Times>(&text).unwrap(), Times::default());
            let sizes = Sizes { median_bytes: Some(odd), stddev_bytes: odd, ..Sizes::default() };
            let text = serde_json::to_string(&sizes).unwrap();
            assert_eq!(serde_json::from_str::<Sizes>(&text).unwrap(), Sizes::default());
        }
        let times = Times { median_ns: Some(1.5), stddev_ns: 0.25, ..Times::default() };
        let text = serde_json::to_string(&times).unwrap();
        assert_eq!(serde_json::from_str::<Times>(&text).unwrap(), times);
    }
}
