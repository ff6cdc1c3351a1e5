//! Categories: numbers with a name, by which tools group ranges and marks.

use crate::Domain;

/// A category of a domain, made by [`Domain::category`].
///
/// ```
/// use nvtx_rs::{Attributes, Domain};
/// let io = Domain::DEFAULT.category("io");
/// Domain::DEFAULT.mark(&Attributes::new().message("file opened").category(io));
/// assert!(io.id() >= nvtx_rs::Category::FIRST_ID);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Category {
    domain: Domain,
    id: u32,
}

impl Category {
    /// The first number given out; those below are left to you, see [`Domain::name_category`].
    pub const FIRST_ID: u32 = 256;

    pub(crate) fn new(domain: Domain, id: u32) -> Self {
        Self { domain, id }
    }

    /// The number.
    ///
    /// ```
    /// # use nvtx_rs::Domain;
    /// assert_eq!(Domain::DEFAULT.category("io").id(), Domain::DEFAULT.category("io").id());
    /// ```
    #[inline]
    #[must_use]
    pub fn id(self) -> u32 {
        self.id
    }

    /// The domain in which the number has this meaning.
    ///
    /// ```
    /// # use nvtx_rs::Domain;
    /// assert_eq!(Domain::DEFAULT.category("io").domain(), Domain::DEFAULT);
    /// ```
    #[inline]
    #[must_use]
    pub fn domain(self) -> Domain {
        self.domain
    }
}

impl From<Category> for u32 {
    #[inline]
    fn from(category: Category) -> u32 {
        category.id
    }
}
