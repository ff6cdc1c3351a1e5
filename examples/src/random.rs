//! Numbers that are the same on every machine and in every run.

/// The SplitMix64 generator: eight bytes of state, every seed is good.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A generator whose numbers depend on `seed` alone.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number from `low` up to, but not including, `high`.
    pub fn uniform(&mut self, low: f32, high: f32) -> f32 {
        // 24 bits fill the mantissa, so the conversion and the division are exact on every machine.
        let unit = (self.bits() >> 40) as f32 / (1 << 24) as f32;
        low + (high - low) * unit
    }

    /// `count` numbers from `low` up to, but not including, `high`.
    pub fn uniform_vec(&mut self, count: usize, low: f32, high: f32) -> Vec<f32> {
        (0..count).map(|_| self.uniform(low, high)).collect()
    }

    /// Overwrites `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.bits().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn splitmix64_gives_its_published_numbers() {
        let mut random = Random::new(1_234_567);
        assert_eq!(random.bits(), 6_457_827_717_110_365_317);
        assert_eq!(random.bits(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn uniform_numbers_fill_their_interval() {
        let numbers = Random::new(1).uniform_vec(10_000, -2.0, 6.0);
        assert!(numbers.iter().all(|number| (-2.0..6.0).contains(number)));
        let mean = numbers.iter().sum::<f32>() / 10_000.0;
        assert!((mean - 2.0).abs() < 0.1, "mean {mean}");
    }

    #[test]
    fn fill_reaches_the_last_odd_byte() {
        let mut bytes = [0; 13];
        Random::new(3).fill(&mut bytes);
        assert_ne!(bytes[8..], [0; 5]);
    }
}
