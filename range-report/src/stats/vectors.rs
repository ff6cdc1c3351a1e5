//! Vectors from iterators, with little code: for what runs seldom, the build is what takes time.

/// Iterators whose items are put in a vector.
pub trait InVec: Iterator + Sized {
    /// The items, as `collect` gives them. The compiler makes half the code of a `collect` for each chain of iterators,
    /// since no length is asked for in advance.
    fn in_vec(self) -> Vec<Self::Item> {
        let mut all = Vec::new();
        for item in self {
            all.push(item);
        }
        all
    }
}

impl<I: Iterator> InVec for I {}
