//! Counting primes with the sieve of Eratosthenes, a segment at a time.

/// Numbers in a segment. Only the odd ones are stored, in 128 KiB, which fit the second-level cache.
pub const SEGMENT: u64 = 1 << 18;

/// The odd primes up to the square root of `limit`: with them all primes up to `limit` can be found.
pub fn sieving_primes(limit: u64) -> Vec<u64> {
    let root = limit.isqrt();
    let mut primes: Vec<u64> = Vec::new();
    for number in (3..=root).step_by(2) {
        if primes.iter().take_while(|&&prime| prime * prime <= number).all(|prime| number % prime != 0) {
            primes.push(number);
        }
    }
    primes
}

/// Sets `composite[i]` if `start + 2 * i + 1` is not a prime. `start` is even; `primes` reach far enough.
pub fn cross_off(start: u64, primes: &[u64], composite: &mut [bool]) {
    composite.fill(false);
    if start == 0 {
        composite[0] = true;
    }
    let end = start + 2 * composite.len() as u64;
    for &prime in primes.iter().take_while(|&&prime| prime * prime < end) {
        // The first odd multiple in the segment, except the prime itself.
        let multiple = (start.div_ceil(prime) | 1).max(prime) * prime;
        let first = (multiple - start) as usize / 2;
        for slot in composite.iter_mut().skip(first).step_by(prime as usize) {
            *slot = true;
        }
    }
}

/// The odd primes among the first `odd_numbers` of a segment after [`cross_off`].
pub fn count(composite: &[bool], odd_numbers: usize) -> u64 {
    composite[..odd_numbers.min(composite.len())].iter().map(|&composite| u64::from(!composite)).sum()
}

#[cfg(test)]
mod tests {
    use super::{SEGMENT, count, cross_off, sieving_primes};

    /// The number of primes up to `limit`, including 2.
    fn primes_up_to(limit: u64) -> u64 {
        let primes = sieving_primes(limit);
        let mut composite = vec![false; SEGMENT as usize / 2];
        let segments = (0..=limit).step_by(SEGMENT as usize).map(|start| {
            cross_off(start, &primes, &mut composite);
            count(&composite, (limit - start).div_ceil(2) as usize)
        });
        1 + segments.sum::<u64>()
    }

    #[test]
    fn the_known_numbers_of_primes() {
        for (limit, primes) in [(2, 1), (3, 2), (4, 2), (25, 9), (49, 15), (100, 25), (1_000_000, 78_498)] {
            assert_eq!(primes_up_to(limit), primes, "up to {limit}");
        }
    }

    #[test]
    fn a_limit_at_the_edge_of_a_segment() {
        assert_eq!(primes_up_to(SEGMENT), primes_up_to(SEGMENT + 2));
        assert_eq!(primes_up_to(SEGMENT + 3), primes_up_to(SEGMENT) + 1, "2^18 + 3 is a prime");
    }
}
