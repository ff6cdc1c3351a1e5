//! The schemas and enumerations that programs register for decoding payloads.

use super::handles::{Shared, keep};
use crate::abi::{Handle, payload};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_long, c_short};
use std::mem::{align_of, size_of};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Schemas nested deeper than this are not decoded.
const MAX_LEVEL: u8 = 16;

/// Registered payload types, by domain and id.
pub(super) static TYPES: Shared<BTreeMap<(usize, u64), Type>> = Shared::new(BTreeMap::new());

/// Flags of an entry.
pub(super) mod flag {
    pub(crate) const POINTER: u64 = 1 << 1;
    pub(crate) const OFFSET: u64 = 1 << 2 | 1 << 3;
    pub(crate) const DEEP_COPY: u64 = 1 << 8;
    pub(crate) const HIDE: u64 = 1 << 9;
    /// The bits of a role. A message is one role.
    pub(crate) const ROLE: u64 = 3 << 10;
    pub(crate) const MESSAGE: u64 = 1 << 10;
}

/// How to read a value of a predefined type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Basic {
    Signed,
    Unsigned,
    Address,
    /// An IEEE 754 number. One of 4 bytes is shown with the digits of an `f32`.
    Float,
    BFloat16,
    /// Shown as bytes, because Rust has no such type.
    Opaque,
    /// A unit of text; alone, a number.
    Character,
    Category,
    Color,
}

/// The type of an entry.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    Basic(Basic, usize),
    /// Text in units of this number of bytes.
    Text(usize),
    RegisteredString,
    Enumeration(Arc<Enumeration>),
    Schema(Arc<Schema>),
    /// Unknown, so the places of later entries are unknown, too.
    Unknown,
}

/// The place of an array's length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Length {
    /// No array. For a text, `detail` is its number of units.
    Single,
    Fixed,
    ZeroTerminated,
    Entry,
    Payload,
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) flags: u64,
    pub(super) kind: Kind,
    pub(super) detail: u64,
    pub(super) offset: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Form {
    Struct,
    Union,
    /// Not decoded.
    Other,
}

#[derive(Debug)]
pub(super) struct Schema {
    pub(super) name: String,
    pub(super) form: Form,
    pub(super) entries: Vec<Entry>,
    /// Its size in bytes, if that is constant.
    pub(super) size: Option<usize>,
    pub(super) alignment: usize,
    pub(super) pack: usize,
    level: u8,
}

#[derive(Debug)]
pub(super) struct Enumeration {
    pub(super) size: usize,
    /// Values, names, and whether the value is a bit that may be set with others.
    pub(super) values: Vec<(u64, String, bool)>,
}

#[derive(Clone, Debug)]
pub(super) enum Type {
    Schema(Arc<Schema>),
    Enumeration(Arc<Enumeration>),
}

/// A schema as it was registered: its entries still name their types by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Registered {
    pub(super) name: String,
    pub(super) kind: u64,
    pub(super) entries: Vec<RegisteredEntry>,
    pub(super) static_size: Option<usize>,
    pub(super) pack: usize,
}

#[derive(Clone, Debug, Default)]
pub(super) struct RegisteredEntry {
    pub(super) name: String,
    pub(super) flags: u64,
    pub(super) kind: u64,
    pub(super) detail: u64,
    pub(super) offset: u64,
}

pub(super) fn lookup(domain: Handle, id: u64) -> Option<Type> {
    TYPES.read().get(&(domain.addr(), id)).cloned()
}

/// Keeps a schema for a domain. Nested schemas must have been registered before.
pub(super) fn register(domain: Handle, id: u64, schema: Registered) {
    let schema = Schema::new(schema, |id| lookup(domain, id));
    keep(&TYPES, (domain.addr(), id), Type::Schema(Arc::new(schema)));
}

pub(super) fn register_enumeration(domain: Handle, id: u64, enumeration: Enumeration) {
    keep(&TYPES, (domain.addr(), id), Type::Enumeration(Arc::new(enumeration)));
}

/// An id that nobody else chooses.
pub(super) fn new_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(payload::FIRST_DYNAMIC_ID);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Kind {
    /// The type with this number.
    pub(super) fn new(number: u64, lookup: impl Fn(u64) -> Option<Type>) -> Self {
        use Basic::{Address, BFloat16, Category, Character, Color, Float, Opaque, Signed, Unsigned};
        let (basic, size) = match number {
            1 | 2 | 25 => (Character, 1),
            3 => (Signed, size_of::<c_short>()),
            4 => (Unsigned, size_of::<c_short>()),
            5 => (Signed, size_of::<c_int>()),
            6 => (Unsigned, size_of::<c_int>()),
            7 => (Signed, size_of::<c_long>()),
            8 => (Unsigned, size_of::<c_long>()),
            9 | 17 => (Signed, 8),
            10 | 18 | 67 | 70 | 72 | 74 => (Unsigned, 8),
            11 => (Signed, 1),
            12 | 32 => (Unsigned, 1),
            13 => (Signed, 2),
            14 => (Unsigned, 2),
            15 => (Signed, 4),
            16 | 71 | 73 => (Unsigned, 4),
            19 | 43 | 52 => (Float, 4),
            20 | 44 => (Float, 8),
            21 | 45 => (Opaque, 16),
            22 => (Unsigned, size_of::<usize>()),
            23 => (Address, size_of::<usize>()),
            24 => (Character, size_of::<crate::abi::WideChar>()),
            26 => (Character, 2),
            27 => (Character, 4),
            33 => (Signed, 16),
            34 => (Unsigned, 16),
            42 => (Float, 2),
            50 => (BFloat16, 2),
            68 => (Category, 4),
            69 => (Color, 4),
            75 | 76 => return Self::Text(1),
            77 => return Self::Text(2),
            78 => return Self::Text(4),
            80 => return Self::RegisteredString,
            _ => {
                return match lookup(number) {
                    Some(Type::Schema(schema)) if schema.level < MAX_LEVEL => Self::Schema(schema),
                    Some(Type::Enumeration(enumeration)) => Self::Enumeration(enumeration),
                    _ => Self::Unknown,
                };
            }
        };
        Self::Basic(basic, size)
    }

    /// Bytes and alignment of one value that stands where its entry does.
    pub(super) fn layout(&self) -> Option<(usize, usize)> {
        match self {
            Self::Basic(_, size) => Some((*size, *size)),
            Self::Text(unit) => Some((*unit, *unit)),
            Self::RegisteredString => Some((size_of::<usize>(), align_of::<usize>())),
            Self::Enumeration(enumeration) => Some((enumeration.size, enumeration.size)),
            Self::Schema(schema) => schema.size.map(|size| (size, schema.alignment)),
            Self::Unknown => None,
        }
    }

    /// The alignment, which is known even if the size is not.
    pub(super) fn alignment(&self) -> Option<usize> {
        match self {
            Self::Schema(schema) => Some(schema.alignment),
            other => other.layout().map(|(_, alignment)| alignment),
        }
    }
}

impl Entry {
    pub(super) fn length(&self) -> Length {
        match self.flags >> 4 & 7 {
            1 => Length::Fixed,
            2 => Length::ZeroTerminated,
            3 => Length::Entry,
            4 => Length::Payload,
            _ => Length::Single,
        }
    }

    /// Whether the entry holds the address of the value.
    pub(super) fn is_pointer(&self) -> bool {
        let points = matches!(self.kind, Kind::Text(_)) && self.detail == 0 && self.length() == Length::Single;
        self.flags & flag::POINTER != 0 || points
    }

    /// Whether the entry holds an offset. The interface does not define its length.
    pub(super) fn is_offset(&self) -> bool {
        self.flags & flag::OFFSET != 0
    }

    /// The place of the entry if the previous one ends at `end`.
    pub(super) fn start(&self, index: usize, end: Option<usize>, pack: usize) -> Option<usize> {
        if index == 0 || self.offset != 0 {
            return usize::try_from(self.offset).ok();
        }
        let natural = if self.is_pointer() { align_of::<usize>() } else { self.kind.alignment()? };
        let alignment = if pack == 0 { natural } else { natural.min(pack) };
        end?.checked_next_multiple_of(alignment.max(1))
    }

    /// Its size in bytes, if that is constant.
    fn size(&self) -> Option<usize> {
        if self.is_pointer() {
            return Some(size_of::<usize>());
        }
        if self.is_offset() {
            return None;
        }
        let (one, _) = self.kind.layout()?;
        match (&self.kind, self.length()) {
            (Kind::Text(_), Length::Single | Length::Fixed) | (_, Length::Fixed) => {
                one.checked_mul(usize::try_from(self.detail).ok()?)
            }
            (_, Length::Single) => Some(one),
            _ => None,
        }
    }
}

impl Schema {
    pub(super) fn new(registered: Registered, lookup: impl Fn(u64) -> Option<Type>) -> Self {
        let resolve = |entry: RegisteredEntry| Entry {
            name: entry.name,
            flags: entry.flags,
            kind: Kind::new(entry.kind, &lookup),
            detail: entry.detail,
            offset: entry.offset,
        };
        let entries: Vec<Entry> = registered.entries.into_iter().map(resolve).collect();
        let level = |entry: &Entry| if let Kind::Schema(nested) = &entry.kind { nested.level + 1 } else { 0 };
        let aligned =
            |entry: &Entry| if entry.is_pointer() { Some(align_of::<usize>()) } else { entry.kind.alignment() };
        let natural = entries.iter().filter_map(aligned).max().unwrap_or(1);
        let pack = registered.pack;
        let alignment = if pack == 0 { natural } else { natural.min(pack) }.max(1);
        let form = match registered.kind {
            1 | 2 => Form::Struct,
            3 => Form::Union,
            _ => Form::Other,
        };
        let size = match registered.kind {
            2 => None,
            _ => registered.static_size.or_else(|| computed_size(&entries, form, pack, alignment)),
        };
        let level = entries.iter().map(level).max().unwrap_or(0);
        Self { name: registered.name, form, entries, size, alignment, pack, level }
    }
}

fn computed_size(entries: &[Entry], form: Form, pack: usize, alignment: usize) -> Option<usize> {
    let mut end = 0usize;
    for (index, entry) in entries.iter().enumerate() {
        let start = if form == Form::Union { 0 } else { entry.start(index, Some(end), pack)? };
        end = end.max(start.checked_add(entry.size()?)?);
    }
    end.checked_next_multiple_of(alignment)
}
