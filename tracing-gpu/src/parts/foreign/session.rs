//! NVTX ranges of other code in the process.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

#[cfg(any(feature = "injection", all(target_os = "linux", feature = "command")))]
use range_model::stats::Keyed;

#[cfg(feature = "injection")]
pub(crate) mod domains;
#[cfg(feature = "injection")]
pub(crate) mod ranges;

/// Domain numbers with this bit belong to foreign ranges. So no foreign range has the label of a span, and the end of
/// one never closes the other.
pub(crate) const FOREIGN: u32 = 1 << 31;

/// The largest number of foreign domains, more than the tool distinguishes; ranges of further ones are in the default
/// domain.
#[cfg(any(feature = "injection", all(target_os = "linux", feature = "command")))]
const MOST_DOMAINS: usize = 1 << 17;

/// What a session knows of other code's ranges.
#[derive(Debug)]
pub(crate) struct Foreign {
    is_received: AtomicBool,
    #[cfg(feature = "injection")]
    pub(crate) ranges: ranges::ForeignRanges,
}

impl Foreign {
    #[cfg_attr(not(feature = "injection"), expect(unused_variables))]
    pub(crate) fn new(whole_names: bool) -> Self {
        Self {
            is_received: AtomicBool::new(false),
            #[cfg(feature = "injection")]
            ranges: ranges::ForeignRanges::new(whole_names),
        }
    }

    /// Receives foreign ranges from now on.
    #[cfg(feature = "injection")]
    pub(crate) fn receive(&self) {
        self.is_received.store(true, Relaxed);
    }

    pub(crate) fn is_received(&self) -> bool {
        self.is_received.load(Relaxed)
    }
}

/// The names of foreign domains; number 0 is the default domain.
#[derive(Clone, Debug, Default)]
pub(crate) struct ForeignDomains {
    names: Vec<&'static str>,
    #[cfg(any(feature = "injection", all(target_os = "linux", feature = "command")))]
    numbers: Keyed<&'static str, u32>,
}

impl ForeignDomains {
    /// The number of a domain, including the bit.
    #[cfg(any(feature = "injection", all(target_os = "linux", feature = "command")))]
    pub(crate) fn number(&mut self, name: Option<&str>) -> u32 {
        let Some(name) = name else { return FOREIGN };
        if let Some(known) = self.numbers.get(name) {
            return *known;
        }
        if self.names.len() == MOST_DOMAINS {
            return FOREIGN;
        }
        let name: &'static str = Box::leak(name.into());
        self.names.push(name);
        let number = FOREIGN | self.names.len() as u32;
        self.numbers.insert(name, number);
        number
    }

    /// The name of the domain with this number, which includes the bit.
    pub(crate) fn name(&self, number: u32) -> Option<&'static str> {
        self.names.get(((number ^ FOREIGN) as usize).checked_sub(1)?).copied()
    }
}

#[cfg(all(test, feature = "injection"))]
mod tests {
    use super::*;

    #[test]
    fn many_domains_are_kept_apart() {
        let mut domains = ForeignDomains::default();
        assert_eq!(domains.number(None), FOREIGN);
        let numbers: Vec<u32> = (0..70_000).map(|domain| domains.number(Some(&domain.to_string()))).collect();
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(domains.number(Some("69999")), numbers[69_999]);
        assert_eq!((domains.name(numbers[5_000]), domains.name(FOREIGN)), (Some("5000"), None));
    }
}
