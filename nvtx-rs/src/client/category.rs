//! Categories: numbers with a name, by which tools group ranges and marks.

use super::domain::Domain;
use super::{calls, text};
use crate::abi;
use crate::abi::program::{SLOTS, is_ready, is_set};

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
    /// The first assigned number; lower ones are yours, see [`Domain::name_category`].
    pub const FIRST_ID: u32 = 256;

    /// The number.
    #[inline]
    #[must_use]
    pub fn id(self) -> u32 {
        self.id
    }

    /// The domain in which the number has this meaning.
    #[inline]
    #[must_use]
    pub fn domain(self) -> Domain {
        self.domain
    }
}

impl Domain {
    /// The category of this name. The first call assigns the next number from [`Category::FIRST_ID`] on and passes the
    /// name to the tool.
    #[must_use]
    pub fn category(self, name: &str) -> Category {
        let clean = text::sanitize(name);
        let attached = is_ready(&SLOTS.core2[abi::core2::NAME_CATEGORY_A]);
        let (id, tell) = self.number_category(&clean, Category::FIRST_ID, attached);
        if tell {
            self.name_category(id, &clean);
        }
        Category { domain: self, id }
    }

    /// Names a category whose number is your own: below [`Category::FIRST_ID`], and not 0, which means none.
    ///
    /// ```
    /// use nvtx_rs::{Attributes, Domain};
    /// Domain::DEFAULT.name_category(7, "disk");
    /// Domain::DEFAULT.mark(&Attributes::new().message("flushed").category(7u32));
    /// ```
    pub fn name_category(self, id: u32, name: &str) {
        if is_set(&SLOTS.core2[abi::core2::NAME_CATEGORY_A]) {
            text::with_c_str(name, |name| calls::name_category(self.handle(), id, name));
        }
    }
}

impl From<Category> for u32 {
    #[inline]
    fn from(category: Category) -> u32 {
        category.id
    }
}
