//! Strings that a tool learns once and gets as a handle from then on.

use crate::calls::{self, MessageRef};
use crate::client::SLOTS;
use crate::lazy::LazyHandle;
use crate::{Domain, abi, text};
use std::ffi::CStr;
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
pub struct RegisteredString(&'static Entry);

pub(crate) struct Entry {
    domain: Domain,
    text: &'static str,
    c_text: &'static CStr,
    handle: LazyHandle,
}

impl RegisteredString {
    /// Makes a new entry, which is never freed.
    pub(crate) fn leak(domain: Domain, clean: &str) -> Self {
        let c_text: &'static CStr = Box::leak(text::c_string(clean).into_boxed_c_str());
        let text = c_text.to_str().unwrap_or_default();
        Self(Box::leak(Box::new(Entry { domain, text, c_text, handle: LazyHandle::new() })))
    }

    /// The string as the tool knows it: [`text::sanitize`] of what was registered.
    ///
    /// ```
    /// assert_eq!(nvtx_rs::Domain::DEFAULT.register("a\0b").as_str(), "a\u{2400}b");
    /// ```
    #[inline]
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.0.text
    }

    /// The domain in which it was registered. It may be used in others too.
    ///
    /// ```
    /// use nvtx_rs::Domain;
    /// assert_eq!(Domain::DEFAULT.register("x").domain(), Domain::DEFAULT);
    /// ```
    #[inline]
    #[must_use]
    pub fn domain(self) -> Domain {
        self.0.domain
    }

    /// The tool's handle, or the text itself where the tool registers no strings.
    pub(crate) fn message(self) -> MessageRef<'static> {
        let entry = self.0;
        let slot = &SLOTS.core2[abi::core2::REGISTER_STRING_A];
        let handle = entry.handle.get(slot, || calls::register_string(entry.domain.handle(), entry.c_text));
        if handle.is_null() { MessageRef::Text(entry.c_text) } else { MessageRef::Registered(handle) }
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
