//! The macro [`mark!`](crate::mark!), and what macros keep at their call sites.

use super::attributes::Attributes;
use super::domain::Domain;
use super::registered::RegisteredString;
use once_cell::sync::OnceCell;

/// The name at one use of [`range!`](crate::range!) or [`mark!`](crate::mark!), registered at the first call.
#[doc(hidden)]
#[derive(Debug)]
pub struct CallSite {
    name: &'static str,
    registered: OnceCell<RegisteredString>,
}

impl CallSite {
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, registered: OnceCell::new() }
    }

    /// A description with this name. A call site that changes its domain must look the string up.
    pub fn attributes(&self, domain: Domain) -> Attributes<'static> {
        let string = *self.registered.get_or_init(|| domain.register(self.name));
        let string = if string.domain() == domain { string } else { domain.register(self.name) };
        Attributes::new().registered(string)
    }
}

/// Marks a moment.
///
/// Takes the same arguments as [`range!`](crate::range!): a constant name, `domain: d` before it, `color:`, `category:`
/// and `payload:` after it. Only the name is evaluated without a tool.
///
/// ```
/// use nvtx_rs::{Domain, mark};
/// mark!("checkpoint written");
/// mark!(domain: Domain::named("cache")?, "miss", payload: 17u64);
/// # Ok::<(), nvtx_rs::DomainError>(())
/// ```
#[macro_export]
macro_rules! mark {
    (domain: $domain:expr, $name:expr $(, $key:ident: $value:expr)* $(,)?) => {
        if $crate::is_tool_attached() {
            static SITE: $crate::CallSite = $crate::CallSite::new($name);
            let domain: $crate::Domain = $domain;
            domain.mark(&SITE.attributes(domain)$(.$key($value))*);
        }
    };
    ($name:expr $(, $key:ident: $value:expr)* $(,)?) => {
        $crate::mark!(domain: $crate::Domain::DEFAULT, $name $(, $key: $value)*)
    };
}
