//! Values of a single span: name, colour, category, payload, lifetime, read from its fields.

use std::fmt::{self, Write as _};
use std::ops;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use nvtx_rs::{Attributes, Color, Payload, RangeId};
use parking_lot::Mutex;
use tracing_core::Metadata;
use tracing_core::field::{Field, Visit};

use super::misread::Misread;
use crate::clock::Ticks;
use crate::config::FieldNames;
use crate::core::record::{CallId, InstanceId, Place, RangeNumbers};
use crate::parts::streams::StreamId;

/// Fields in which frameworks put the name of a span, the best one first. By default, their values split the rows of
/// their call sites. The first field holds the whole name, the others distinguish spans of one name.
pub(crate) const KNOWN_NAMES: [&str; 3] = ["otel.name", "http.route", "name"];

/// A field that this crate reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Own {
    Name,
    /// A field of the program, by its index in the order of preference.
    NameFrom(usize),
    Color,
    Category,
    Payload,
    Lifetime,
    /// A number from `stream_id`.
    Stream,
    /// Its part of a batch that serves it, relative to the others.
    Weight,
}

impl FieldNames {
    fn own(&self, name: &str) -> Option<Own> {
        Some(match name {
            "nvtx.name" => Own::Name,
            "nvtx.color" => Own::Color,
            "nvtx.category" => Own::Category,
            "nvtx.payload" => Own::Payload,
            "nvtx.lifetime" => Own::Lifetime,
            "gpu.stream" => Own::Stream,
            "gpu.weight" => Own::Weight,
            "color" if self.bare => Own::Color,
            "category" if self.bare => Own::Category,
            "payload" if self.bare => Own::Payload,
            _ => Own::NameFrom(match &self.name_from {
                Some(chosen) => chosen.iter().position(|field| field == name)?,
                None => KNOWN_NAMES.iter().position(|field| *field == name)?,
            }),
        })
    }

    /// The fields of a call site that a timeline shows, in order; `None` in place of each of ours.
    pub(crate) fn shown(&self, metadata: &'static Metadata<'static>) -> Box<[Option<&'static str>]> {
        let is_shown = |name: &&str| self.own(name).is_none_or(Own::is_of_the_program);
        metadata.fields().iter().map(|field| Some(field.name()).filter(is_shown)).collect()
    }

    /// Whether a call site declares a field that this crate reads.
    pub(crate) fn are_declared(&self, metadata: &Metadata<'_>) -> bool {
        let is_read = |own: Own| self.name_from.is_some() || !own.is_of_the_program();
        metadata.fields().iter().any(|field| self.own(field.name()).is_some_and(is_read))
    }

    /// Whether a call site declares one of [`KNOWN_NAMES`] that names its spans by default.
    pub(crate) fn split(&self, metadata: &Metadata<'_>) -> bool {
        let declares =
            |wanted: fn(Own) -> bool| metadata.fields().iter().any(|field| self.own(field.name()).is_some_and(wanted));
        metadata.is_span()
            && self.name_from.is_none()
            && declares(Own::is_of_the_program)
            && !declares(|own| own == Own::Name)
    }
}

impl Own {
    const fn is_of_the_program(self) -> bool {
        matches!(self, Self::NameFrom(_))
    }

    const fn takes(self) -> &'static str {
        match self {
            Self::Name | Self::NameFrom(_) => "a text or a number",
            Self::Color => "a colour",
            Self::Category => "a text or an integer from 0 to 2^32 - 1",
            Self::Payload => "a number or a bool",
            Self::Lifetime => "true or false",
            Self::Stream => "what `stream_id` returned",
            Self::Weight => "a number from 0 up",
        }
    }
}

fn is_weight(number: f64) -> bool {
    number >= 0.0 && number.is_finite()
}

/// Whether a field's name looks like one of ours but is none of them.
pub(crate) fn is_unknown_field(name: &str) -> bool {
    name.starts_with("nvtx.") && FieldNames::default().own(name).is_none()
}

/// The category of a span.
#[derive(Clone, Copy)]
pub(crate) enum Category<'a> {
    Text(&'a str),
    Number(u32),
}

/// The values of a span's fields, from its creation or from one `record`.
pub(crate) struct FieldValues<'a> {
    names: &'a FieldNames,
    /// The texts of the name and the category, in sequence.
    texts: String,
    name: Option<ops::Range<usize>>,
    /// How many fields would be preferred to the one that gave the name: 0 for `nvtx.name`.
    name_rank: usize,
    category_name: Option<ops::Range<usize>>,
    category_number: Option<u32>,
    pub(crate) color: Option<Color>,
    pub(crate) payload: Option<Payload>,
    pub(crate) lifetime: bool,
    pub(crate) stream: Option<StreamId>,
    pub(crate) weight: Option<f64>,
    /// The first field with an invalid value, and the place of the value in `texts`.
    misread: Option<(Misread, ops::Range<usize>)>,
}

impl<'a> FieldValues<'a> {
    /// No values yet. `texts` is memory to reuse.
    pub(crate) fn new(texts: String, names: &'a FieldNames) -> Self {
        Self {
            names,
            texts,
            name: None,
            name_rank: usize::MAX,
            category_name: None,
            category_number: None,
            color: None,
            payload: None,
            lifetime: false,
            stream: None,
            weight: None,
            misread: None,
        }
    }

    /// The span's own name, from `nvtx.name` or a chosen field.
    pub(crate) fn name(&self) -> Option<&str> {
        self.texts.get(self.name.clone().filter(|_| !self.is_split())?)
    }

    /// The value of the field that names the span by default, and the field's index in [`KNOWN_NAMES`].
    pub(crate) fn split(&self) -> Option<(usize, &str)> {
        let value = self.texts.get(self.name.clone().filter(|_| self.is_split())?)?;
        Some((self.name_rank.checked_sub(1)?, value))
    }

    fn is_split(&self) -> bool {
        self.name_rank > 0 && self.names.name_from.is_none()
    }

    pub(crate) fn category(&self) -> Option<Category<'_>> {
        let text = self.category_name.clone().and_then(|place| self.texts.get(place));
        text.map(Category::Text).or(self.category_number.map(Category::Number))
    }

    /// The ignored field, and its value.
    pub(crate) fn misread(&self) -> Option<(Misread, &str)> {
        let (misread, place) = self.misread.clone()?;
        Some((misread, self.texts.get(place)?))
    }

    /// The values of a new span, with the number of its category; and the memory of the texts, to reuse.
    pub(crate) fn begin(self, category: u32) -> (Changing, String) {
        let Self { color, payload, stream, weight, texts, .. } = self;
        (Changing { category, color, payload, stream: stream.unwrap_or(0), weight }, texts)
    }

    /// Takes the text that begins at `from` in `texts` as the field's value.
    fn text(&mut self, field: &Field, own: Own, from: usize) {
        match own {
            Own::Name => (self.name, self.name_rank) = (Some(from..self.texts.len()), 0),
            Own::NameFrom(place) if place + 1 < self.name_rank && from < self.texts.len() => {
                (self.name, self.name_rank) = (Some(from..self.texts.len()), place + 1);
            }
            Own::NameFrom(_) => {}
            Own::Category => (self.category_name, self.category_number) = (Some(from..self.texts.len()), None),
            Own::Color => match self.texts.get(from..).and_then(|text| text.parse().ok()) {
                Some(color) => self.color = Some(color),
                None => self.ignored(field, own, from),
            },
            // A number or a bool arrives as text if it is written with `%` or `?`.
            Own::Payload | Own::Lifetime | Own::Stream | Own::Weight => {
                let text = self.texts.get(from..).unwrap_or_default();
                match (own, text.parse::<i64>(), text.parse::<f64>(), text.parse::<bool>()) {
                    (Own::Payload, Ok(number), ..) => self.payload = Some(number.into()),
                    (Own::Payload, _, Ok(number), _) => self.payload = Some(number.into()),
                    (Own::Payload, .., Ok(bool)) => self.payload = Some(u32::from(bool).into()),
                    (Own::Lifetime, .., Ok(bool)) => self.lifetime = bool,
                    (Own::Weight, _, Ok(number), _) if is_weight(number) => self.weight = Some(number),
                    (Own::Stream, Ok(number), ..) => self.stream = u32::try_from(number).ok().or(self.stream),
                    _ => self.ignored(field, own, from),
                }
            }
        }
    }

    fn integer<T: Into<Payload> + Copy + fmt::Display>(&mut self, field: &Field, own: Own, value: T)
    where
        u32: TryFrom<T>,
    {
        match (own, u32::try_from(value).ok()) {
            (Own::Name | Own::NameFrom(_), _) => self.formatted(field, own, format_args!("{value}")),
            (Own::Payload, _) => self.payload = Some(value.into()),
            // A colour without alpha (0xRRGGBB) would be fully transparent, so it is made opaque.
            (Own::Color, Some(rgb)) if rgb >> 24 == 0 => self.color = Some(Color::argb(rgb | 0xff00_0000)),
            (Own::Color, Some(argb)) => self.color = Some(Color::argb(argb)),
            (Own::Stream, Some(stream)) => self.stream = Some(stream),
            (Own::Weight, _) => self.formatted(field, own, format_args!("{value}")),
            (Own::Category, Some(number)) => (self.category_name, self.category_number) = (None, Some(number)),
            (Own::Color | Own::Stream | Own::Category, None) | (Own::Lifetime, _) => {
                self.meaningless(field, own, value)
            }
        }
    }

    fn formatted(&mut self, field: &Field, own: Own, value: fmt::Arguments<'_>) {
        let from = self.texts.len();
        if self.texts.write_fmt(value).is_ok() {
            self.text(field, own, from);
        }
    }

    fn meaningless(&mut self, field: &Field, own: Own, value: impl fmt::Display) {
        let from = self.texts.len();
        if self.misread.is_none() && write!(self.texts, "{value}").is_ok() {
            self.ignored(field, own, from);
        }
    }

    /// Remembers an invalid text that begins at `from` in `texts`. Fields of NVIDIA's layer are exempt: they may be the
    /// program's own, with another meaning.
    fn ignored(&mut self, field: &Field, own: Own, from: usize) {
        let field = field.name();
        if self.misread.is_none() && field.contains('.') {
            self.misread = Some((Misread { field, takes: own.takes() }, from..self.texts.len()));
        }
    }

    /// Our use of a field, if there is any.
    fn own(&self, field: &Field) -> Option<Own> {
        self.names.own(field.name())
    }
}

impl Visit for FieldValues<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        let Some(own) = self.own(field) else { return };
        let from = self.texts.len();
        self.texts.push_str(value);
        self.text(field, own, from);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if let Some(own) = self.own(field) {
            self.integer(field, own, value);
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        if let Some(own) = self.own(field) {
            self.integer(field, own, value);
        }
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        match self.own(field) {
            None => {}
            Some(Own::Payload) => self.payload = Some(Payload::F64(value)),
            Some(own @ (Own::Name | Own::NameFrom(_) | Own::Weight)) => {
                self.formatted(field, own, format_args!("{value}"));
            }
            Some(own) => self.meaningless(field, own, value),
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        match self.own(field) {
            None => {}
            Some(Own::Lifetime) => self.lifetime = value,
            Some(Own::Payload) => self.payload = Some(Payload::U32(u32::from(value))),
            Some(own @ Own::NameFrom(_)) => self.formatted(field, own, format_args!("{value}")),
            Some(own) => self.meaningless(field, own, value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // `%value` and `?value` arrive here. Other fields of the span are not formatted.
        if let Some(own) = self.own(field) {
            self.formatted(field, own, format_args!("{value:?}"));
        }
    }
}

/// The values of one span, kept from its creation to its close.
#[derive(Debug)]
pub(crate) struct SpanValues {
    pub(crate) metadata: &'static Metadata<'static>,
    /// Node of the lineage tree.
    pub(crate) node: u32,
    /// Interned name, which never changes.
    pub(crate) label: u32,
    /// The state number of the creating thread, the category there, and its place there.
    created: (u32, u32, Place),
    /// The call of the span, if it is followed; 0 if not.
    call: AtomicU32,
    kept: Mutex<LockedValues>,
}

/// One lock for all fields, because an entry needs most of them.
#[derive(Debug)]
struct LockedValues {
    changing: Changing,
    lifetime: Option<Lifetime>,
}

/// What `record` may change; it takes effect at the next entry.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Changing {
    /// Interned category, 0 for none.
    pub(crate) category: u32,
    pub(crate) color: Option<Color>,
    pub(crate) payload: Option<Payload>,
    /// The stream that the span names; 0 for none.
    pub(crate) stream: StreamId,
    pub(crate) weight: Option<f64>,
}

impl Changing {
    /// The attributes of the row, with this span's own values applied.
    pub(crate) fn apply<'a>(&self, mut attributes: Attributes<'a>) -> Attributes<'a> {
        if let Some(color) = self.color {
            attributes = attributes.color(color);
        }
        if let Some(payload) = self.payload {
            attributes = attributes.payload(payload);
        }
        attributes
    }
}

/// A span that is also a start/end range from creation to close.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lifetime {
    pub(crate) start: Ticks,
    pub(crate) range: Option<RangeId>,
    /// The state number of the thread on which it began.
    pub(crate) state: u32,
    /// The operating system's number of the thread on which it began.
    pub(crate) thread: u32,
    /// Its number.
    pub(crate) instance: InstanceId,
    /// The numbers of its span, if a timeline is written.
    pub(crate) numbers: RangeNumbers,
}

impl SpanValues {
    /// `place` is where the span counts, on the state with this number.
    pub(crate) fn new(
        metadata: &'static Metadata<'static>,
        (node, label): (u32, u32),
        (state, place, call): (u32, Place, CallId),
        changing: Changing,
    ) -> Self {
        let created = (state, changing.category, place);
        let call = AtomicU32::new(call);
        Self { metadata, node, label, created, call, kept: Mutex::new(LockedValues { changing, lifetime: None }) }
    }

    /// The call of the span; 0 if none follows it.
    pub(crate) fn call(&self) -> CallId {
        self.call.load(Relaxed)
    }

    /// Lets a call follow the span. False if another one does.
    pub(crate) fn set_call(&self, call: CallId) -> bool {
        self.call.compare_exchange(0, call, Relaxed, Relaxed).is_ok()
    }

    pub(crate) fn now(&self) -> Changing {
        self.kept.lock().changing
    }

    /// The stream that it names, which spans below inherit.
    pub(crate) fn inherited(&self) -> StreamId {
        self.now().stream
    }

    /// The parent node at creation.
    pub(crate) fn parent(&self) -> u32 {
        self.created.2.parent()
    }

    /// Where the span counts on the state with this number, if that is known from its creation.
    pub(crate) fn place(&self, state: u32, category: u32) -> Option<Place> {
        let (created_on, created_with, place) = self.created;
        ((created_on, created_with) == (state, category)).then_some(place)
    }

    /// Merges recorded values; `category` is the interned number of their category. Returns memory to reuse.
    pub(crate) fn update(&self, recorded: FieldValues<'_>, category: Option<u32>) -> String {
        let mut kept = self.kept.lock();
        let changing = &mut kept.changing;
        changing.category = category.unwrap_or(changing.category);
        changing.color = recorded.color.or(changing.color);
        changing.payload = recorded.payload.or(changing.payload);
        changing.stream = recorded.stream.unwrap_or(changing.stream);
        changing.weight = recorded.weight.or(changing.weight);
        recorded.texts
    }

    pub(crate) fn begin_lifetime(&self, lifetime: Lifetime) {
        self.kept.lock().lifetime = Some(lifetime);
    }

    /// Takes the lifetime; the second call finds none.
    pub(crate) fn end(&self) -> (Option<Lifetime>, Changing) {
        let mut kept = self.kept.lock();
        (kept.lifetime.take(), kept.changing)
    }
}
