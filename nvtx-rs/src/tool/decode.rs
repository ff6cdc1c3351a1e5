//! Decodes payloads by the schemas that programs registered. Neither is trusted: nothing outside of the given bytes is
//! read, and the output is limited.

use super::field::{Field, FieldValue};
use super::schema::{Basic, Entry, Enumeration, Form, Kind, Length, Schema, Type, flag};
use crate::abi::color::Color;

/// The largest number of fields of one call.
const MAX_FIELDS: usize = 256;
/// The largest number of array elements that are shown.
const MAX_ELEMENTS: usize = 64;
/// The largest number of bytes of a text that are shown.
pub(super) const MAX_TEXT: usize = 4_096;
/// The largest number of entries and elements of one call that are examined.
const MAX_STEPS: usize = 8_192;
/// Elements examined in the search for a zero, per step.
const SEEN_PER_STEP: usize = 1_024;

/// Stands for omitted parts.
const CUT: &str = "…";

const REFERENCED: u64 = 1022;

/// The bytes of one payload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blob<'a> {
    pub(super) schema: u64,
    pub(super) address: usize,
    pub(super) bytes: &'a [u8],
}

/// Data outside of a call's payloads.
pub(super) trait World {
    /// The type that a program registered under this number.
    fn lookup(&self, id: u64) -> Option<Type>;
    /// The text of a registered string.
    fn registered_string(&self, handle: usize) -> Option<&str>;
    /// The text at an address outside of the payloads, in units of `unit` bytes, with this length or up to NUL.
    fn text_at(&self, address: usize, unit: usize, length: Option<usize>) -> Option<String>;
}

/// The decoded payloads of a call.
#[derive(Debug, Default)]
pub(super) struct Decoded {
    pub(super) fields: Vec<Field>,
    pub(super) message: Option<String>,
    pub(super) category: Option<u32>,
    pub(super) color: Option<Color>,
}

pub(super) fn decode(payloads: &[Blob<'_>], world: &impl World) -> Decoded {
    let mut decoder = Decoder { payloads, world, decoded: Decoded::default(), steps: MAX_STEPS };
    for blob in payloads.iter().filter(|blob| blob.schema != REFERENCED) {
        decoder.blob(blob);
    }
    if decoder.decoded.fields.len() == MAX_FIELDS || decoder.steps == 0 {
        let value = FieldValue::Text("there may be more fields".to_owned());
        decoder.decoded.fields.push(Field { name: CUT.to_owned(), value });
    }
    decoder.decoded
}

struct Decoder<'a, W> {
    payloads: &'a [Blob<'a>],
    world: &'a W,
    decoded: Decoded,
    steps: usize,
}

/// A value as it was read, its number in case it is the length of an array, and its end.
struct Read {
    value: Option<FieldValue>,
    number: Option<u64>,
    end: Option<usize>,
}

impl<'a, W: World> Decoder<'a, W> {
    fn blob(&mut self, blob: &Blob<'_>) {
        match Kind::new(blob.schema, |id| self.world.lookup(id)) {
            Kind::Schema(schema) if !schema.entries.is_empty() => drop(self.schema(&schema, blob.bytes, "")),
            kind @ (Kind::Basic(..) | Kind::Enumeration(_)) => {
                let size = kind.layout().map_or(1, |(size, _)| size.max(1));
                let value = match blob.bytes.len() / size {
                    0 => None,
                    1 => self.one(&kind, blob.bytes),
                    count => self.array(&kind, blob.bytes, count),
                };
                self.show("payload", 0, value.unwrap_or(FieldValue::Bytes(blob.bytes.len())));
            }
            Kind::Text(unit) => self.show("payload", 0, FieldValue::Text(text(blob.bytes, unit).0)),
            _ => self.show("payload", 0, FieldValue::Bytes(blob.bytes.len())),
        }
    }

    fn show(&mut self, name: &str, flags: u64, value: FieldValue) {
        if flags & flag::HIDE == 0 && self.decoded.fields.len() < MAX_FIELDS {
            self.decoded.fields.push(Field { name: name.to_owned(), value });
        }
    }

    /// The end of this schema's data, which begin at the start of `bytes`; `None` if unknown.
    fn schema(&mut self, schema: &Schema, bytes: &[u8], prefix: &str) -> Option<usize> {
        if schema.form != Form::Struct {
            self.show(name(prefix, schema, 0), 0, FieldValue::Bytes(schema.size.unwrap_or(bytes.len())));
            return schema.size;
        }
        let mut numbers: Vec<Option<u64>> = Vec::new();
        let mut end = Some(0);
        for (index, entry) in schema.entries.iter().enumerate() {
            if self.steps == 0 || self.decoded.fields.len() >= MAX_FIELDS {
                return None;
            }
            self.steps -= 1;
            let name = full_name(prefix, schema, index);
            let start = entry.start(index, end, schema.pack);
            let here = start.and_then(|start| bytes.get(start..));
            let mut read = match here {
                Some(here) => self.entry(entry, here, &numbers, &name),
                None => Read { value: None, number: None, end: None },
            };
            if read.end.is_none() && !matches!(entry.kind, Kind::Schema(_)) {
                // From here on, only values at fixed places are known.
                let rest = here.or_else(|| bytes.get(end?..));
                read.value = rest.map(|rest| FieldValue::Bytes(rest.len()));
            }
            end = start.zip(read.end).and_then(|(start, end)| start.checked_add(end));
            numbers.push(read.number);
            if let Some(value) = read.value {
                self.attribute(entry, &value);
                self.show(&name, entry.flags, value);
            }
        }
        schema.size.or(end)
    }

    /// Handles entries that are attributes of the event; the last one counts.
    fn attribute(&mut self, entry: &Entry, value: &FieldValue) {
        match (&entry.kind, value) {
            (Kind::Basic(Basic::Category, _), FieldValue::Unsigned(number)) => {
                self.decoded.category = u32::try_from(*number).ok();
            }
            (Kind::Basic(Basic::Color, _), FieldValue::Unsigned(number)) => {
                self.decoded.color = u32::try_from(*number).ok().map(Color::argb);
            }
            (_, FieldValue::Text(text)) if entry.flags & flag::ROLE == flag::MESSAGE => {
                self.decoded.message = Some(text.clone());
            }
            _ => {}
        }
    }

    /// The value of an entry at the start of `bytes`, unless it is nested and has shown its own fields.
    fn entry(&mut self, entry: &Entry, bytes: &[u8], numbers: &[Option<u64>], name: &str) -> Read {
        if entry.is_offset() {
            return Read { value: None, number: None, end: None };
        }
        let number_at = |index: u64| numbers.get(usize::try_from(index).ok()?).copied().flatten();
        let count = match entry.length() {
            Length::Single => None,
            Length::Fixed => Some(Some(entry.detail)),
            Length::ZeroTerminated => Some(None),
            // An array of unknown length is not decoded.
            Length::Entry => match number_at(entry.detail) {
                Some(count) => Some(Some(count)),
                None => return Read { value: None, number: None, end: None },
            },
            Length::Payload => match self.number_of_payload(entry.detail) {
                Some(count) => Some(Some(count)),
                None => return Read { value: None, number: None, end: None },
            },
        };
        if !entry.is_pointer() {
            return self.value(entry, bytes, count, number_at(entry.detail), name);
        }
        let Some(address) = unsigned(bytes, size_of::<usize>()).and_then(|address| usize::try_from(address).ok())
        else {
            return Read { value: None, number: None, end: None };
        };
        let end = Some(size_of::<usize>());
        // The end of the payload before the intended one does not match.
        let rest = |blob: &Blob<'a>| blob.bytes.get(address.checked_sub(blob.address)?..).filter(|it| !it.is_empty());
        let value = match (self.payloads.iter().find_map(rest), &entry.kind) {
            (Some(rest), _) => {
                let read = self.value(entry, rest, count, number_at(entry.detail), name);
                // Nested fields were already shown.
                if read.end.is_some() || read.value.is_some() {
                    read.value
                } else {
                    Some(FieldValue::Address(address as u64))
                }
            }
            (None, Kind::Text(unit)) if entry.flags & flag::DEEP_COPY != 0 && address != 0 => {
                let units = match count {
                    None if entry.detail == 0 => None,
                    None => usize::try_from(entry.detail).ok(),
                    Some(count) => count.and_then(|count| usize::try_from(count).ok()),
                };
                let text = self.world.text_at(address, *unit, units);
                Some(text.map_or(FieldValue::Address(address as u64), FieldValue::Text))
            }
            (None, _) => Some(FieldValue::Address(address as u64)),
        };
        Read { value, number: None, end }
    }

    /// A value, or an array of `count` values or up to a zero, at the start of `bytes`.
    fn value(
        &mut self,
        entry: &Entry,
        bytes: &[u8],
        count: Option<Option<u64>>,
        selected: Option<u64>,
        name: &str,
    ) -> Read {
        let nothing = Read { value: None, number: None, end: None };
        let count = match (&entry.kind, count) {
            (Kind::Text(_), None) if entry.detail != 0 => Some(Some(entry.detail)),
            // The target of a pointer.
            (Kind::Text(_), None) => Some(None),
            (_, count) => count,
        };
        if let (Kind::Text(unit) | Kind::Basic(Basic::Character, unit), Some(count)) = (&entry.kind, count) {
            let Some(count) = count else {
                let (text, end) = text(bytes, *unit);
                return Read { value: Some(FieldValue::Text(text)), number: None, end: Some(end) };
            };
            let length = usize::try_from(count).ok().and_then(|count| count.checked_mul(*unit));
            let Some(units) = length.and_then(|length| bytes.get(..length)) else { return nothing };
            return Read { value: Some(FieldValue::Text(text(units, *unit).0)), number: None, end: Some(units.len()) };
        }
        match (&entry.kind, count) {
            (Kind::Schema(schema), None) if schema.form == Form::Union => {
                self.union(schema, bytes, selected, name);
                Read { value: None, number: None, end: schema.size }
            }
            (Kind::Schema(schema), None) => {
                let end = self.schema(schema, bytes, name);
                Read { value: None, number: None, end }
            }
            (Kind::Schema(schema), Some(count)) => {
                let end = self.schemas(schema, bytes, count, name);
                Read { value: None, number: None, end }
            }
            (kind, None) => {
                let Some((size, _)) = kind.layout().filter(|(size, _)| bytes.len() >= *size) else { return nothing };
                let value = self.one(kind, bytes);
                let number = value.as_ref().and_then(length);
                Read { value, number, end: Some(size) }
            }
            (kind, Some(count)) => {
                let Some((size, _)) = kind.layout().filter(|(size, _)| *size > 0) else { return nothing };
                let Some((elements, end)) = self.extent(bytes, size, count) else { return nothing };
                let value = self.array(kind, bytes, elements);
                let number = value.as_ref().and_then(length);
                Read { value, number, end: Some(end) }
            }
        }
    }

    fn one(&self, kind: &Kind, bytes: &[u8]) -> Option<FieldValue> {
        match kind {
            Kind::Basic(basic, size) => number(*basic, bytes.get(..*size)?),
            Kind::Enumeration(enumeration) => Some(named(enumeration, unsigned(bytes, enumeration.size)?)),
            Kind::RegisteredString => {
                let handle = unsigned(bytes, size_of::<usize>())?;
                let known = usize::try_from(handle).ok().and_then(|handle| self.world.registered_string(handle));
                Some(known.map_or(FieldValue::Address(handle), |text| FieldValue::Text(text.to_owned())))
            }
            _ => None,
        }
    }

    fn array(&mut self, kind: &Kind, bytes: &[u8], length: usize) -> Option<FieldValue> {
        let (size, _) = kind.layout()?;
        let shown = length.min(MAX_ELEMENTS).min(self.steps);
        self.steps -= shown;
        let elements = bytes.chunks_exact(size.max(1)).take(shown).map_while(|bytes| self.one(kind, bytes)).collect();
        Some(FieldValue::List { elements, length })
    }

    /// An array of structs.
    fn schemas(&mut self, schema: &Schema, bytes: &[u8], count: Option<u64>, name: &str) -> Option<usize> {
        let size = schema.size.filter(|size| *size > 0)?;
        let (elements, end) = self.extent(bytes, size, count)?;
        for (index, bytes) in bytes.chunks_exact(size).take(elements.min(MAX_ELEMENTS)).enumerate() {
            self.steps = self.steps.saturating_sub(1);
            self.schema(schema, bytes, &format!("{name}[{index}]"));
        }
        Some(end)
    }

    fn union(&mut self, schema: &Schema, bytes: &[u8], selected: Option<u64>, name: &str) {
        let member = selected.and_then(|index| schema.entries.get(usize::try_from(index).ok()?));
        let Some(member) = member else { return };
        let name = join(name, &member.name);
        let bytes = &bytes[..schema.size.unwrap_or(bytes.len()).min(bytes.len())];
        if let Some(value) = self.entry(member, bytes, &[], &name).value {
            self.show(&name, member.flags, value);
        }
    }

    /// The number that a payload consists of, or the product of its numbers.
    fn number_of_payload(&mut self, index: u64) -> Option<u64> {
        let blob = self.payloads.get(usize::try_from(index).ok()?)?;
        let kind = match Kind::new(blob.schema, |id| self.world.lookup(id)) {
            Kind::Schema(schema) => schema.entries.first()?.kind.clone(),
            kind => kind,
        };
        let (size, _) = kind.layout().filter(|(size, _)| *size > 0)?;
        let value = self.array(&kind, blob.bytes, blob.bytes.len() / size)?;
        length(&value)
    }

    /// The number of array elements (`count`, or those before a zero) and the array's end, if all of it is there.
    fn extent(&mut self, bytes: &[u8], size: usize, count: Option<u64>) -> Option<(usize, usize)> {
        let (elements, taken) = match count {
            Some(count) => {
                let count = usize::try_from(count).ok()?;
                (count, count)
            }
            None => {
                let zero = bytes.chunks_exact(size).position(|element| element.iter().all(|byte| *byte == 0));
                let seen = zero.unwrap_or(bytes.len() / size);
                self.steps = self.steps.saturating_sub(seen / SEEN_PER_STEP);
                (zero?, zero? + 1)
            }
        };
        let end = taken.checked_mul(size)?;
        (end <= bytes.len()).then_some((elements, end))
    }
}

fn name<'a>(prefix: &'a str, schema: &'a Schema, index: usize) -> &'a str {
    let own = schema.entries.get(index).map_or("", |entry| entry.name.as_str());
    [prefix, own, &schema.name].into_iter().find(|name| !name.is_empty()).unwrap_or("payload")
}

/// The name of a field; a schema's only entry takes the prefix if it has no name.
fn full_name(prefix: &str, schema: &Schema, index: usize) -> String {
    let own = schema.entries.get(index).map_or("", |entry| entry.name.as_str());
    match (own.is_empty(), schema.entries.len()) {
        (true, 1) => name(prefix, schema, index).to_owned(),
        (true, _) => format!("{}[{index}]", name(prefix, schema, index)),
        (false, _) => join(prefix, own),
    }
}

fn join(prefix: &str, name: &str) -> String {
    match (prefix.is_empty(), name.is_empty()) {
        (true, _) => name.to_owned(),
        (_, true) => prefix.to_owned(),
        _ => format!("{prefix}.{name}"),
    }
}

/// A value as the length of an array: for several numbers their product. Negative ones are zero.
fn length(value: &FieldValue) -> Option<u64> {
    match value {
        FieldValue::Signed(number) => Some(u64::try_from(*number).unwrap_or(0)),
        FieldValue::Unsigned(number) => Some(*number),
        FieldValue::List { elements, length: all } if elements.len() == *all => {
            elements.iter().try_fold(1u64, |product, element| product.checked_mul(length(element)?))
        }
        _ => None,
    }
}

fn unsigned(bytes: &[u8], size: usize) -> Option<u64> {
    let mut whole = [0; 8];
    whole.get_mut(..size)?.copy_from_slice(bytes.get(..size)?);
    if cfg!(target_endian = "big") {
        whole.rotate_right(8 - size);
    }
    Some(u64::from_ne_bytes(whole))
}

fn number(basic: Basic, bytes: &[u8]) -> Option<FieldValue> {
    let size = bytes.len();
    Some(match basic {
        Basic::Signed if size == 16 => FieldValue::Text(i128::from_ne_bytes(bytes.try_into().ok()?).to_string()),
        Basic::Unsigned if size == 16 => FieldValue::Text(u128::from_ne_bytes(bytes.try_into().ok()?).to_string()),
        Basic::Signed => {
            let unused = 64 - 8 * u32::try_from(size).ok()?;
            FieldValue::Signed((unsigned(bytes, size)?.wrapping_shl(unused) as i64) >> unused)
        }
        Basic::Unsigned | Basic::Character | Basic::Category | Basic::Color => {
            FieldValue::Unsigned(unsigned(bytes, size)?)
        }
        Basic::Address => FieldValue::Address(unsigned(bytes, size)?),
        Basic::Float if size == 8 => FieldValue::Float(f64::from_ne_bytes(bytes.try_into().ok()?)),
        Basic::Float if size == 4 => FieldValue::Float(widened(f32::from_ne_bytes(bytes.try_into().ok()?))),
        Basic::Float => FieldValue::Float(half(u16::from_ne_bytes(bytes.try_into().ok()?))),
        Basic::BFloat16 => {
            let bits = u32::from(u16::from_ne_bytes(bytes.try_into().ok()?)) << 16;
            FieldValue::Float(f64::from(f32::from_bits(bits)))
        }
        Basic::Opaque => FieldValue::Bytes(size),
    })
}

/// The number with the same decimal digits: 0.1 stays 0.1.
fn widened(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}

/// A 16-bit number of IEEE 754.
fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    let size = match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0. => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024. + fraction) * 2f64.powi(exponent - 25),
    };
    if bits >> 15 == 1 { -size } else { size }
}

fn named(enumeration: &Enumeration, value: u64) -> FieldValue {
    let mask = if enumeration.size >= 8 { u64::MAX } else { (1 << (8 * enumeration.size)) - 1 };
    // A negative value was registered with 64 bits.
    let is = |registered: u64| registered & mask == value;
    if let Some((_, name, _)) = enumeration.values.iter().find(|(registered, _, _)| is(*registered)) {
        return FieldValue::Named { name: name.clone(), value };
    }
    let set = |(bits, _, is_flag): &&(u64, String, bool)| *is_flag && *bits != 0 && value & bits == *bits;
    let flags: Vec<_> = enumeration.values.iter().filter(set).collect();
    if value == 0 || flags.iter().fold(0, |all, (bits, _, _)| all | bits) != value {
        return FieldValue::Unsigned(value);
    }
    let names: Vec<&str> = flags.iter().map(|(_, name, _)| name.as_str()).collect();
    FieldValue::Named { name: names.join("|"), value }
}

/// The text up to NUL or the end, shortened if it is too long, and the bytes that it takes including NUL.
pub(super) fn text(bytes: &[u8], unit: usize) -> (String, usize) {
    let unit = unit.max(1);
    let length = bytes.chunks_exact(unit).position(|unit| unit.iter().all(|byte| *byte == 0));
    let whole = bytes.len() / unit;
    let end = length.map_or(whole, |length| length + 1) * unit;
    let shown = length.unwrap_or(whole).min(MAX_TEXT / unit);
    let is_cut = shown < length.unwrap_or(whole);
    let bytes = &bytes[..shown * unit];
    let units = || bytes.chunks_exact(unit).filter_map(|bytes| unsigned(bytes, unit));
    let mut text = match unit {
        1 => String::from_utf8_lossy(bytes).into_owned(),
        2 => String::from_utf16_lossy(&units().map(|unit| unit as u16).collect::<Vec<_>>()),
        _ => units().map(|unit| u32::try_from(unit).ok().and_then(char::from_u32).unwrap_or('\u{FFFD}')).collect(),
    };
    if is_cut {
        text.push_str(CUT);
    }
    (text, end)
}

#[cfg(test)]
mod tests {
    use super::super::schema::{Registered, RegisteredEntry};
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    #[derive(Default)]
    struct Registry(BTreeMap<u64, Type>);

    impl World for Registry {
        fn lookup(&self, id: u64) -> Option<Type> {
            self.0.get(&id).cloned()
        }

        fn registered_string(&self, handle: usize) -> Option<&str> {
            (handle == 7).then_some("seven")
        }

        fn text_at(&self, address: usize, _unit: usize, _length: Option<usize>) -> Option<String> {
            Some(format!("text at {address}"))
        }
    }

    impl Registry {
        fn register(&mut self, id: u64, schema: Registered) {
            let schema = Schema::new(schema, |id| self.0.get(&id).cloned());
            self.0.insert(id, Type::Schema(Arc::new(schema)));
        }
    }

    fn entry(name: &str, kind: u64, flags: u64, detail: u64) -> RegisteredEntry {
        RegisteredEntry { name: name.to_owned(), kind, flags, detail, offset: 0 }
    }

    /// Fields of one struct, as text.
    fn decoded(registry: &Registry, schema: u64, bytes: &[u8]) -> String {
        let blob = Blob { schema, address: 0x1000, bytes };
        let fields = decode(&[blob], registry).fields;
        fields.iter().map(|field| format!("{}={}", field.name, field.value)).collect::<Vec<_>>().join(" ")
    }

    /// Decodes `bytes` by one schema with these entries.
    fn decoded_by(entries: Vec<RegisteredEntry>, bytes: &[u8]) -> String {
        let mut registry = Registry::default();
        registry.register(1 << 24, Registered { kind: 2, entries, ..Registered::default() });
        decoded(&registry, 1 << 24, bytes)
    }

    fn bytes(numbers: &[u64]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
    }

    #[test]
    fn numbers_are_read_by_their_types() {
        assert_eq!(
            decoded_by(vec![entry("a", 11, 0, 0), entry("b", 15, 0, 0)], &[255, 9, 9, 9, 254, 255, 255, 255]),
            "a=-1 b=-2"
        );
        assert_eq!(decoded_by(vec![entry("h", 42, 0, 0), entry("b", 50, 0, 0)], &[0, 0xC0, 0x80, 0x3F]), "h=-2 b=1");
        assert_eq!(decoded_by(vec![entry("f", 43, 0, 0)], &0.1f32.to_ne_bytes()), "f=0.1");
        assert_eq!(decoded_by(vec![entry("i", 33, 0, 0)], &(-5i128).to_ne_bytes()), "i=-5");
        assert_eq!(decoded_by(vec![entry("long", 21, 0, 0)], &[0; 16]), "long=16 bytes");
        assert_eq!(decoded_by(vec![entry("s", 80, 0, 0), entry("t", 80, 0, 0)], &bytes(&[7, 8])), "s=seven t=0x8");
        assert_eq!(decoded_by(vec![entry("w", 77, 0, 3)], &[b'h', 0, b'i', 0, 0, 0]), "w=hi");
    }

    #[test]
    fn lengths_come_from_other_entries_and_payloads() {
        let dimensions = entry("dimensions", 12, 1 << 4, 2);
        let array = entry("array", 12, 3 << 4, 0);
        assert_eq!(
            decoded_by(vec![dimensions, array.clone()], &[2, 2, 5, 6, 7, 8]),
            "dimensions=[2, 2] array=[5, 6, 7, 8]"
        );
        // The given length exceeds the available data.
        assert_eq!(decoded_by(vec![entry("length", 12, 0, 0), array], &[9, 1, 2]), "length=9 array=2 bytes");
        assert_eq!(
            decoded_by(vec![entry("z", 12, 2 << 4, 0), entry("after", 12, 0, 0)], &[1, 2, 0, 4]),
            "z=[1, 2] after=4"
        );
        assert_eq!(decoded_by(vec![entry("unended", 12, 2 << 4, 0)], &[1, 2, 3]), "unended=3 bytes");
        let mut registry = Registry::default();
        let of_payload = vec![entry("values", 12, 4 << 4, 1)];
        registry.register(1 << 24, Registered { kind: 2, entries: of_payload, ..Registered::default() });
        let blobs =
            [Blob { schema: 1 << 24, address: 8, bytes: &[5, 6, 7] }, Blob { schema: 12, address: 64, bytes: &[2] }];
        let fields = decode(&blobs, &registry).fields;
        assert_eq!(fields[0].value.to_string(), "[5, 6]");
    }

    #[test]
    fn a_union_shows_the_member_that_is_selected() {
        let mut registry = Registry::default();
        let members = vec![entry("whole", 16, 0, 0), entry("half", 14, 0, 0)];
        registry.register(1 << 24, Registered { kind: 3, entries: members, ..Registered::default() });
        let entries = vec![entry("which", 16, 0, 0), entry("value", 1 << 24, 0, 0), entry("after", 16, 0, 0)];
        registry.register(2 << 24, Registered { kind: 1, entries, ..Registered::default() });
        let mut data = [0; 12];
        (data[0], data[4], data[6], data[8]) = (1, 5, 1, 6);
        assert_eq!(decoded(&registry, 2 << 24, &data), "which=1 value.half=5 after=6");
        data[0] = 9;
        assert_eq!(decoded(&registry, 2 << 24, &data), "which=9 after=6");
    }

    #[test]
    fn what_is_shown_is_bounded() {
        let mut registry = Registry::default();
        registry.register(
            1 << 24,
            Registered { kind: 1, entries: vec![entry("x", 12, 0, 0); 4_000], ..Registered::default() },
        );
        assert_eq!(
            decode(&[Blob { schema: 1 << 24, address: 8, bytes: &[1; 4_000] }], &registry).fields.len(),
            MAX_FIELDS + 1
        );
        // Each schema is made of 64 of the one before.
        for level in 2..40u64 {
            let entries = vec![entry("nested", (level - 1) << 24, 1 << 4, 64); 64];
            registry
                .register(level << 24, Registered { kind: 1, entries, static_size: Some(1), ..Registered::default() });
            decoded(&registry, level << 24, &[1; 10_000]);
        }
        let long = [b'x'; 10_000];
        assert_eq!(decoded(&registry, 75, &long).len(), "payload=…".len() + MAX_TEXT);
        assert!(decoded(&registry, 12, &long).ends_with(", …]"));
    }

    /// The address of a payload's end does not belong to that payload.
    #[test]
    fn a_pointer_leads_into_the_second_of_two_payloads_that_touch() {
        let mut registry = Registry::default();
        let entries = vec![entry("text", 75, flag::POINTER, 0)];
        registry.register(1 << 24, Registered { kind: 2, entries, ..Registered::default() });
        let pointer = bytes(&[0x1008]);
        let touching = [
            Blob { schema: 1 << 24, address: 0x1000, bytes: &pointer },
            Blob { schema: REFERENCED, address: 0x1008, bytes: b"behind\0" },
        ];
        let fields = decode(&touching, &registry).fields;
        assert_eq!((fields.len(), &fields[0].value), (1, &FieldValue::Text("behind".to_owned())));
    }

    /// A failed search for a zero counts, too.
    #[test]
    fn arrays_without_an_end_are_looked_through_a_few_times() {
        let entries = vec![entry("x", 12, 2 << 4 | flag::HIDE, 0); 4_000];
        let size = 1 << 20;
        let entries = entries.into_iter().enumerate().map(|(at, entry)| RegisteredEntry { offset: at as u64, ..entry });
        let mut registry = Registry::default();
        registry.register(1 << 24, Registered { kind: 2, entries: entries.collect(), ..Registered::default() });
        let blob = [Blob { schema: 1 << 24, address: 8, bytes: &vec![1; size] }];
        let mut decoder = Decoder { payloads: &blob, world: &registry, decoded: Decoded::default(), steps: MAX_STEPS };
        decoder.blob(&blob[0]);
        assert_eq!(decoder.steps, 0, "it was given up");
        assert_eq!(decode(&blob, &registry).fields.len(), 1, "and said so");
    }

    /// A schema may name its own id, which means the schema registered earlier.
    #[test]
    fn schemas_have_no_circles() {
        let mut registry = Registry::default();
        for _ in 0..3 {
            let entries = vec![entry("number", 12, 0, 0), entry("next", 1 << 24, 0, 0)];
            registry.register(1 << 24, Registered { kind: 1, entries, ..Registered::default() });
        }
        assert_eq!(
            decoded(&registry, 1 << 24, &[1, 2, 3, 4, 5]),
            "number=1 next.number=2 next.next.number=3 next.next.next=2 bytes"
        );
    }

    fn hostile() -> impl Strategy<Value = u64> {
        prop_oneof![0..40u64, any::<u64>(), Just(u64::MAX), Just(u64::MAX - 7), (1..4u64).prop_map(|id| id << 24)]
    }

    prop_compose! {
        fn any_entry()(
            name in "[ab]?",
            kind in prop_oneof![0..110u64, (1..5u64).prop_map(|id| id << 24)],
            flags in any::<u64>().prop_map(|flags| flags & 0x7FE),
            detail in hostile(),
            offset in prop_oneof![3 => Just(0), 1 => hostile()],
        ) -> RegisteredEntry {
            RegisteredEntry { name, kind, flags, detail, offset }
        }
    }

    prop_compose! {
        fn any_schema()(
            kind in 0..6u64,
            entries in vec(any_entry(), 0..8),
            static_size in proptest::option::of(hostile().prop_map(|size| size as usize)),
            pack in prop_oneof![Just(0), hostile().prop_map(|pack| pack as usize)],
        ) -> Registered {
            Registered { name: "schema".to_owned(), kind, entries, static_size, pack }
        }
    }

    proptest! {
        /// Whatever is registered and passed, nothing panics (so no slice is read beyond its end) and the output is
        /// limited.
        #[test]
        fn nothing_harms(
            schemas in vec(any_schema(), 1..5),
            values in vec(vec(any::<u8>(), 0..64), 1..4),
            ids in vec(prop_oneof![(1..5u64).prop_map(|id| id << 24), 0..110u64, Just(1022), Just(1023)], 1..4),
            size in 0..20usize,
        ) {
            let mut registry = Registry::default();
            registry.0.insert(4 << 24, Type::Enumeration(Arc::new(Enumeration {
                size,
                values: vec![(1, "one".to_owned(), true), (u64::MAX, "all".to_owned(), true)],
            })));
            for (index, schema) in schemas.into_iter().enumerate() {
                registry.register((index as u64 % 3 + 1) << 24, schema);
            }
            let blobs: Vec<Blob<'_>> = values.iter().zip(&ids).map(|(bytes, schema)| Blob {
                schema: *schema,
                address: bytes.as_ptr().addr(),
                bytes,
            }).collect();
            let fields = decode(&blobs, &registry).fields;
            prop_assert!(fields.len() <= MAX_FIELDS + 1);
            for field in fields {
                prop_assert!(field.value.to_string().len() <= 2 * MAX_TEXT);
            }
        }
    }
}
