//! The description of a range or a mark.

use super::calls::{Event, MessageRef};
use super::registered::RegisteredString;
use super::text;
use crate::abi::color::Color;
use crate::abi::number::Payload;

/// The description of a range or a mark: a message, and optionally a colour, a category and a number.
///
/// It is small and `Copy`; one that holds a [`RegisteredString`] can be kept in a static or in a call site, and passing
/// it to a tool allocates nothing.
///
/// ```
/// use nvtx_rs::{Attributes, Color, Domain};
/// let copy = Attributes::new().message("copy").color(Color::rgb(0, 160, 0)).category(7u32).payload(4096u64);
/// Domain::DEFAULT.push(&copy);
/// Domain::DEFAULT.pop();
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Attributes<'a> {
    message: Message<'a>,
    category: u32,
    color: Option<Color>,
    payload: Option<Payload>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Message<'a> {
    #[default]
    None,
    Text(&'a str),
    Registered(RegisteredString),
}

impl<'a> Attributes<'a> {
    /// A description without a message; tools show an unnamed range.
    #[inline]
    #[must_use]
    pub const fn new() -> Self {
        Self { message: Message::None, category: 0, color: None, payload: None }
    }

    /// Sets the message. A text that does not fit the interface is changed by [`text::sanitize`].
    #[inline]
    #[must_use]
    pub const fn message(mut self, message: &'a str) -> Self {
        self.message = Message::Text(message);
        self
    }

    /// Sets a registered message: the fastest for names used again and again.
    ///
    /// ```
    /// use nvtx_rs::{Attributes, Domain};
    /// let step = Attributes::new().registered(Domain::DEFAULT.register("step"));
    /// # let _ = step;
    /// ```
    #[inline]
    #[must_use]
    pub const fn registered(mut self, message: RegisteredString) -> Self {
        self.message = Message::Registered(message);
        self
    }

    /// Sets the colour.
    #[inline]
    #[must_use]
    pub const fn color(mut self, color: Color) -> Self {
        self.color = Some(color);
        self
    }

    /// Sets the category: a number of your own, or one given out by [`Domain::category`](crate::Domain::category).
    /// 0 means none.
    ///
    /// ```
    /// use nvtx_rs::{Attributes, Domain};
    /// let io = Domain::DEFAULT.category("io");
    /// let read = Attributes::new().message("read").category(io);
    /// # let _ = read;
    /// ```
    #[inline]
    pub fn category(mut self, category: impl Into<u32>) -> Self {
        self.category = category.into();
        self
    }

    /// Sets the number.
    #[inline]
    pub fn payload(mut self, payload: impl Into<Payload>) -> Self {
        self.payload = Some(payload.into());
        self
    }

    /// Runs `call` with the description in the interface's form.
    pub(crate) fn encode<R>(&self, call: impl FnOnce(&Event<'_>) -> R) -> R {
        match self.message {
            Message::None => call(&self.event(MessageRef::None)),
            Message::Text(text) => text::with_c_str(text, |text| call(&self.event(MessageRef::Text(text)))),
            Message::Registered(string) => call(&self.event(string.message())),
        }
    }

    fn event<'m>(&self, message: MessageRef<'m>) -> Event<'m> {
        Event::new(message, self.category, self.color, self.payload)
    }
}
