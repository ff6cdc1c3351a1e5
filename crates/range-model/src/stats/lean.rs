//! What iterators have already, with less code for the compiler: for what runs seldom, the build is what takes time.

/// The standard library's functions fold in many layers and ask for lengths in advance. These are loops.
pub trait Lean: Iterator + Sized {
    /// The items in a vector, as `collect` gives them.
    fn in_vec(self) -> Vec<Self::Item> {
        let mut all = Vec::new();
        for item in self {
            all.push(item);
        }
        all
    }

    /// The sum of numbers, in more bits than they have.
    fn total(self) -> u128
    where
        Self::Item: Into<u128>,
    {
        let mut sum = 0;
        for number in self {
            sum += number.into();
        }
        sum
    }

    /// The largest number; 0 if there is none.
    fn largest(self) -> Self::Item
    where
        Self::Item: Default + Ord,
    {
        let mut largest = Self::Item::default();
        for item in self {
            largest = largest.max(item);
        }
        largest
    }

    /// The item with the largest key, as `max_by_key` gives it: of equal ones the last.
    fn largest_by<K: Ord>(self, key: impl Fn(&Self::Item) -> K) -> Option<Self::Item> {
        let mut largest = None;
        for item in self {
            let its = key(&item);
            match &largest {
                Some((most, _)) if its < *most => {}
                _ => largest = Some((its, item)),
            }
        }
        largest.map(|(_, item)| item)
    }
}

impl<I: Iterator> Lean for I {}

#[cfg(test)]
mod tests {
    use super::Lean;

    #[test]
    fn what_is_found_is_what_the_standard_library_finds() {
        let rows = [(2_u64, 'a'), (7, 'b'), (0, 'c'), (7, 'd')];
        let numbers = || rows.iter().map(|row| row.0);
        assert_eq!(numbers().in_vec(), numbers().collect::<Vec<_>>());
        assert_eq!((numbers().total(), numbers().largest()), (16, 7));
        assert_eq!(rows.iter().largest_by(|row| row.0), rows.iter().max_by_key(|row| row.0));
        assert_eq!(std::iter::empty::<u64>().largest_by(|number| *number), None);
    }
}
