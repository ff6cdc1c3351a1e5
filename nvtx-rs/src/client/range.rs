//! Ranges that close themselves: [`PushRange`], [`StartRange`] and the macro [`range!`](crate::range!).

use super::attributes::Attributes;
use super::domain::Domain;
use super::domain_calls::RangeId;
use crate::abi::program::is_tool_attached;
use std::marker::PhantomData;

/// A range of this thread, open until the guard is dropped.
///
/// The ranges of one thread and domain nest. So drop guards in the reverse order of their creation, as scopes do, and
/// on the thread that made them, which the compiler enforces. For other uses there is [`StartRange`].
///
/// ```
/// use nvtx_rs::{Attributes, Domain, PushRange};
/// {
///     let _load = PushRange::new(Domain::DEFAULT, &Attributes::new().message("load"));
/// } // closed here
/// ```
///
/// ```compile_fail,E0277
/// let range = nvtx_rs::range!("here");
/// std::thread::spawn(move || drop(range));
/// ```
#[must_use = "the range ends when this is dropped; bind it to a name such as `_range`"]
#[derive(Debug)]
pub struct PushRange {
    domain: Domain,
    pushed: bool,
    same_thread: PhantomData<*mut ()>,
}

impl PushRange {
    /// Opens a range.
    #[inline]
    pub fn new(domain: Domain, attributes: &Attributes<'_>) -> Self {
        let pushed = is_tool_attached();
        if pushed {
            domain.push(attributes);
        }
        Self { domain, pushed, same_thread: PhantomData }
    }

    /// A guard that does nothing, for a range that is opened under a condition.
    ///
    /// ```
    /// use nvtx_rs::{PushRange, range};
    /// let verbose = false;
    /// let _detail = if verbose { range!("detail") } else { PushRange::none() };
    /// ```
    #[inline]
    pub fn none() -> Self {
        Self { domain: Domain::DEFAULT, pushed: false, same_thread: PhantomData }
    }
}

impl Drop for PushRange {
    #[inline]
    fn drop(&mut self) {
        if self.pushed {
            self.domain.pop();
        }
    }
}

/// A range of the process, open until the guard is dropped, on any thread and in any order.
///
/// ```
/// use nvtx_rs::{Attributes, Domain, StartRange};
/// let request = StartRange::new(Domain::DEFAULT, &Attributes::new().message("request"));
/// std::thread::spawn(move || drop(request)).join().unwrap();
/// ```
#[must_use = "the range ends when this is dropped; bind it to a name such as `_range`"]
#[derive(Debug)]
pub struct StartRange {
    domain: Domain,
    id: RangeId,
}

impl StartRange {
    /// Starts a range.
    #[inline]
    pub fn new(domain: Domain, attributes: &Attributes<'_>) -> Self {
        Self { domain, id: domain.start(attributes) }
    }
}

impl Drop for StartRange {
    #[inline]
    fn drop(&mut self) {
        self.domain.end(self.id);
    }
}

/// Opens a [`PushRange`] that is closed at the end of the scope.
///
/// The name must be a constant; it is registered once for the call site. `domain: d` may precede it; `color:`,
/// `category:` and `payload:` may follow, in any order. Only the name is evaluated without a tool.
///
/// ```
/// use nvtx_rs::{Color, Domain, range};
/// let solver = Domain::named("solver")?;
/// let _whole = range!("solve");
/// for step in 0..3u32 {
///     let _step = range!(domain: solver, "step", color: Color::rgb(0, 128, 255), payload: step);
/// }
/// # Ok::<(), nvtx_rs::DomainError>(())
/// ```
#[macro_export]
macro_rules! range {
    (domain: $domain:expr, $name:expr $(, $key:ident: $value:expr)* $(,)?) => {
        if $crate::is_tool_attached() {
            static SITE: $crate::CallSite = $crate::CallSite::new($name);
            let domain: $crate::Domain = $domain;
            $crate::PushRange::new(domain, &SITE.attributes(domain)$(.$key($value))*)
        } else {
            $crate::PushRange::none()
        }
    };
    ($name:expr $(, $key:ident: $value:expr)* $(,)?) => {
        $crate::range!(domain: $crate::Domain::DEFAULT, $name $(, $key: $value)*)
    };
}
