//! Strings that are registered with a tool once and then passed as handles.

use super::calls::{self, MessageRef};
use super::domain::{Domain, StringEntry};
use super::text;
use crate::abi;
use crate::abi::program::{SLOTS, is_tool_attached};
use std::fmt;
use std::hash::{Hash, Hasher};

/// A string known to the tool, made by [`Domain::register`].
///
/// It is kept for the life of the process. At its first use while a tool is attached, it is registered with the tool.
///
/// ```
/// use nvtx_rs::Domain;
/// let conv = Domain::DEFAULT.register("conv");
/// assert_eq!(conv, Domain::DEFAULT.register("conv"));
/// assert_eq!(conv.as_str(), "conv");
/// ```
#[derive(Clone, Copy)]
pub struct RegisteredString(&'static StringEntry);

impl RegisteredString {
    /// The registered text, after [`text::sanitize`].
    #[inline]
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.0.text
    }

    /// The domain in which it was registered. Other domains may use it, too.
    #[inline]
    #[must_use]
    pub fn domain(self) -> Domain {
        self.0.domain
    }

    /// The tool's handle, or the text itself if the tool registers no strings.
    pub(crate) fn message(self) -> MessageRef<'static> {
        let entry = self.0;
        let slot = &SLOTS.core2[abi::core2::REGISTER_STRING_A];
        let handle = entry.handle.get(slot, || calls::register_string(entry.domain.handle(), entry.c_text));
        if handle.is_null() { MessageRef::Text(entry.c_text) } else { MessageRef::Registered(handle) }
    }
}

impl Domain {
    /// Registers a string, which an attached tool then gets as a handle. The same text gives the same handle. Strings
    /// are kept for the life of the process, so do not register texts that are different each time.
    ///
    /// ```
    /// use nvtx_rs::{Attributes, Domain};
    /// let epoch = Attributes::new().registered(Domain::DEFAULT.register("epoch"));
    /// for _ in 0..3 {
    ///     Domain::DEFAULT.push(&epoch);
    ///     Domain::DEFAULT.pop();
    /// }
    /// ```
    #[must_use]
    pub fn register(self, text: &str) -> RegisteredString {
        let (entry, is_new) = self.find_or_add_string(&text::sanitize(text));
        let string = RegisteredString(entry);
        if is_new && is_tool_attached() {
            let _handle = string.message(); // now, so that the first range of this name does not pay for it
        }
        string
    }
}

impl PartialEq for RegisteredString {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for RegisteredString {}

impl Hash for RegisteredString {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::from_ref(self.0).hash(state);
    }
}

impl fmt::Debug for RegisteredString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RegisteredString").field(&self.as_str()).finish()
    }
}
