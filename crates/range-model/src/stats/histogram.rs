//! The geometry of the duration histogram: 512 buckets an octave, so that the middle of a bucket differs by at most 0.1
//! % from every duration in it.

/// Buckets an octave.
pub const BUCKETS: usize = 512;
/// Octaves of a 64-bit duration.
pub const OCTAVES: usize = 64;
const BUCKET_BITS: u32 = BUCKETS.trailing_zeros();

/// Octave and bucket of a duration. Each duration below 1,024 has its own bucket.
#[inline]
#[must_use]
pub fn bucket_of(duration: u64) -> (usize, usize) {
    let leading = (duration | 1).leading_zeros();
    let bits = (duration << leading) >> (63 - BUCKET_BITS); // the highest set bit, and the bits after it
    (63 - leading as usize, bits as usize & (BUCKETS - 1))
}

/// The duration that represents a bucket: its middle.
#[must_use]
pub fn middle_of(octave: usize, bucket: usize) -> u64 {
    let bits = (BUCKETS + bucket) as u64;
    let octave = octave as u32;
    if octave == 0 {
        return 1; // 0 and 1 share the lowest bucket
    }
    if octave >= BUCKET_BITS {
        let shift = octave - BUCKET_BITS;
        (bits << shift) + ((1u64 << shift) >> 1)
    } else {
        bits >> (BUCKET_BITS - octave)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_middle_is_within_a_fifth_of_a_percent(
            duration in prop_oneof![0u64..3_000, any::<u64>(), 0u64..10_000_000_000],
        ) {
            let (octave, bucket) = bucket_of(duration);
            let middle = middle_of(octave, bucket);
            let error = middle.abs_diff(duration) as f64;
            let allowed = duration as f64 * 0.001 + f64::from(u8::from(duration == 0));
            prop_assert!(error <= allowed, "{duration} -> {middle}");
        }

        #[test]
        fn buckets_keep_the_order(a in any::<u64>(), b in any::<u64>()) {
            prop_assert!((a <= b) == (bucket_of(a) <= bucket_of(b)) || bucket_of(a) == bucket_of(b));
        }
    }

    #[test]
    fn zero_and_one_share_the_lowest_octave() {
        assert_eq!(bucket_of(0), (0, 0));
        assert_eq!(bucket_of(1), (0, 0));
        assert_eq!(bucket_of(u64::MAX), (63, 511));
    }
}
