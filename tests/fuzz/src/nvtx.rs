//! NVTX calls by a client of any version. Structs have their stated size, and are at the end of their memory, so that a
//! sanitizer detects reads beyond it. Pointers are valid by the interface, or null.

#![allow(unsafe_code)]

use arbitrary::{Arbitrary as _, Unstructured};
use nvtx_rs::abi::{
    EnumEntry, ExportTableCallbacks, ExtensionInfo, ExtensionSegment, PayloadData, SchemaEntry, payload,
};
use nvtx_rs::tool::{Call, Tool, entry, extension};
use std::cell::Cell;
use std::ffi::{CString, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, Ordering};

type Slot = AtomicPtr<c_void>;
type Handle = *mut c_void;

/// The slots of the modules 1 to 6, then those of the payload extension.
static SLOTS: [[Slot; 16]; 6] = [const { [const { AtomicPtr::new(null_mut()) }; 16] }; 6];
static PAYLOAD_SLOTS: [Slot; payload::SIZE] = [const { AtomicPtr::new(null_mut()) }; payload::SIZE];
const SIZES: [u32; 6] = [16, 9, 15, 7, 16, 7];

struct Tables([[*const Slot; 16]; 6]);
// SAFETY: the pointers lead to statics that may be shared.
unsafe impl Sync for Tables {}
static TABLES: Tables = {
    let mut tables = [[null(); 16]; 6];
    let (mut module, mut id) = (0, 1);
    while module < 6 {
        while id < SIZES[module] as usize {
            tables[module][id] = &raw const SLOTS[module][id];
            id += 1;
        }
        (module, id) = (module + 1, 1);
    }
    Tables(tables)
};

extern "system" fn get_export_table(id: u32) -> *const c_void {
    static CALLBACKS: ExportTableCallbacks =
        ExportTableCallbacks { struct_size: 16, get_module_function_table: get_table };
    if id == 1 { (&raw const CALLBACKS).cast() } else { null() }
}

unsafe extern "system" fn get_table(module: i32, table: *mut *const c_void, size: *mut u32) -> c_int {
    let Some(index) = usize::try_from(module - 1).ok().filter(|&index| index < 6) else { return 0 };
    // SAFETY: the tool passes valid pointers for the table and for its size.
    unsafe {
        table.write(TABLES.0[index].as_ptr().cast());
        size.write(SIZES[index]);
    }
    1
}

thread_local! {
    /// Number of calls that the tool received.
    static TOLD: Cell<u64> = const { Cell::new(0) };
}

fn tool() -> Box<dyn Tool> {
    Box::new(|call: &Call<'_>| {
        TOLD.set(TOLD.get() + 1);
        let shown = format!("{call:?}");
        assert!(!shown.is_empty());
        let extended = match call {
            Call::Push { event, .. } | Call::Start { event, .. } | Call::Mark { event, .. } => event.extended,
            Call::Pop { extended, .. } | Call::End { extended, .. } => *extended,
            _ => return,
        };
        let fields = extended.fields();
        assert!(fields.len() <= 257);
        fields.iter().for_each(|field| assert!(field.value.to_string().len() <= 8_192));
    })
}

unsafe extern "system" fn own(_: Option<nvtx_rs::abi::GetExportTable>) -> c_int {
    0
}

fn attach() {
    static ATTACHED: Once = Once::new();
    ATTACHED.call_once(|| {
        let mut segment =
            ExtensionSegment { id: 0, slot_count: payload::SIZE, slots: PAYLOAD_SLOTS.as_ptr().cast_mut().cast() };
        let mut info = ExtensionInfo {
            version: 3,
            size: 40,
            module: 2,
            compatibility: 0,
            segment_count: 1,
            segments: &raw mut segment,
            get_export_function: null(),
            extra: null(),
        };
        // SAFETY: the function returns the tables above, whose slots live for ever; so do those of the segment.
        let attached = unsafe { (entry(Some(get_export_table), own, tool), extension((&raw mut info).cast())) };
        assert_eq!(attached, (1, 1));
    });
}

/// The function in a slot, which must be of type `F`.
fn function<F: Copy>(slot: &Slot) -> F {
    let pointer = slot.load(Ordering::Relaxed);
    assert!(!pointer.is_null() && size_of::<F>() == size_of::<*mut c_void>());
    // SAFETY: the tool has put a function of this slot's type there.
    unsafe { std::mem::transmute_copy(&pointer) }
}

fn core<F: Copy>(module: usize, id: usize) -> F {
    function(&SLOTS[module - 1][id])
}

/// The targets of pointers in calls; all of them live until the input has been run.
struct Program<'s, 'a> {
    source: &'s mut Unstructured<'a>,
    texts: Vec<CString>,
    wide: Vec<Box<[u32]>>,
    bytes: Vec<Box<[u8]>>,
    payloads: Vec<Box<[PayloadData]>>,
    handles: Vec<Handle>,
}

impl Program<'_, '_> {
    fn text(&mut self) -> arbitrary::Result<*const c_void> {
        if u8::arbitrary(self.source)? < 8 {
            return Ok(null());
        }
        let mut text: Vec<u8> = self.source.arbitrary()?;
        text.retain(|byte| *byte != 0);
        self.texts.push(CString::new(text).expect("no NUL is left"));
        Ok(self.texts.last().map_or(null(), |text| text.as_ptr().cast()))
    }

    fn wide(&mut self) -> arbitrary::Result<*const c_void> {
        let mut text: Vec<u32> = self.source.arbitrary()?;
        text.retain(|unit| *unit != 0);
        text.push(0);
        self.wide.push(text.into());
        Ok(self.wide.last().map_or(null(), |text| text.as_ptr().cast()))
    }

    fn handle(&mut self) -> arbitrary::Result<Handle> {
        Ok(match u8::arbitrary(self.source)? {
            0..=63 => null_mut(),
            64..=71 => self.source.arbitrary::<usize>()? as Handle,
            place => self.handles.get(usize::from(place) % self.handles.len().max(1)).copied().unwrap_or(null_mut()),
        })
    }

    /// A message of one of the valid types, or of an invalid type.
    fn message(&mut self) -> arbitrary::Result<(i32, *const c_void)> {
        Ok(match self.source.int_in_range(0..=4)? {
            1 => (1, self.text()?),
            2 => (2, self.wide()?),
            3 => (3, self.handle()?),
            4 => (self.source.int_in_range(4..=i32::MAX)?, null()),
            _ => (0, self.source.arbitrary::<usize>()? as Handle),
        })
    }

    /// Memory of its own, of at most this length.
    fn keep(&mut self, bytes: &[u8], size: usize) -> *const c_void {
        self.bytes.push(bytes[..size.min(bytes.len())].into());
        self.bytes.last().map_or(null(), |bytes| bytes.as_ptr().cast())
    }

    /// A struct of any size that begins with version and size. Every field within the size is valid, pointers included.
    fn sized(&mut self, fields: &mut [u8]) -> arbitrary::Result<*const c_void> {
        let size = match self.source.int_in_range(0..=3)? {
            0 => self.source.int_in_range(4..=fields.len())?,
            1 => fields.len() + usize::from(self.source.arbitrary::<u8>()?),
            _ => fields.len(),
        };
        let version: u16 = self.source.arbitrary()?;
        fields[..2].copy_from_slice(&version.to_ne_bytes());
        fields[2..4].copy_from_slice(&(size as u16).to_ne_bytes());
        let mut all = fields.to_vec();
        all.resize(size, 0xA5);
        Ok(self.keep(&all, size))
    }

    fn event(&mut self) -> arbitrary::Result<*const c_void> {
        if u8::arbitrary(self.source)? < 4 {
            return Ok(null());
        }
        let mut fields = [0; 48];
        fields[4..16].copy_from_slice(&self.source.arbitrary::<[u8; 12]>()?);
        let (kind, message) = self.message()?;
        fields[32..36].copy_from_slice(&kind.to_ne_bytes());
        fields[40..48].copy_from_slice(&(message.addr() as u64).to_ne_bytes());
        if bool::arbitrary(self.source)? {
            let (data, count) = self.payload()?;
            fields[16..20].copy_from_slice(&0xDFBD_0009_u32.to_ne_bytes());
            fields[20..24].copy_from_slice(&(count as i32).to_ne_bytes());
            fields[24..32].copy_from_slice(&(data.addr() as u64).to_ne_bytes());
        } else {
            fields[16..20].copy_from_slice(&self.source.int_in_range(0..=7_i32)?.to_ne_bytes());
            fields[24..32].copy_from_slice(&self.source.arbitrary::<[u8; 8]>()?);
        }
        self.sized(&mut fields)
    }

    /// Data of the payload extension, and their number.
    fn payload(&mut self) -> arbitrary::Result<(*const c_void, usize)> {
        let mut all = Vec::new();
        for _ in 0..self.source.int_in_range(0..=3)? {
            let schema = self.schema_id()?;
            let bytes: Vec<u8> = self.source.arbitrary()?;
            let is_text = matches!(schema, 75..=78) && bool::arbitrary(self.source)?;
            all.push(match (is_text, schema) {
                (true, 78) => PayloadData { schema, size: usize::MAX, data: self.wide()? },
                (true, 75 | 76) => PayloadData { schema, size: usize::MAX, data: self.text()? },
                _ => PayloadData { schema, size: bytes.len(), data: self.keep(&bytes, bytes.len()) },
            });
        }
        self.payloads.push(all.into());
        Ok(self.payloads.last().map_or((null(), 0), |all| (all.as_ptr().cast(), all.len())))
    }

    /// A predefined type, one that is registered below, or any other.
    fn schema_id(&mut self) -> arbitrary::Result<u64> {
        Ok(match self.source.int_in_range(0..=4)? {
            0 => self.source.arbitrary()?,
            1 | 2 => self.source.int_in_range(0..=110)?,
            _ => self.source.int_in_range(1..=4)? << 24,
        })
    }

    /// Registers a schema or an enumeration. The struct ends after the last field whose bit is set.
    fn register(&mut self, domain: Handle, is_schema: bool) -> arbitrary::Result<()> {
        let (mut entries, mut values) = (Vec::new(), Vec::new());
        let small = |source: &mut Unstructured<'_>| -> arbitrary::Result<u64> {
            if bool::arbitrary(source)? { source.int_in_range(0..=40) } else { source.arbitrary() }
        };
        let count = self.source.int_in_range(0..=6)?;
        for _ in 0..count {
            let name = self.text()?.cast();
            if is_schema {
                entries.push(SchemaEntry {
                    // The mask excludes deep copies, for which the payload's bytes would have to be addresses of texts.
                    flags: self.source.arbitrary::<u64>()? & 0x6FE,
                    kind: self.schema_id()?,
                    name,
                    description: null(),
                    detail: small(self.source)?,
                    offset: if bool::arbitrary(self.source)? { 0 } else { small(self.source)? },
                    semantics: null(),
                    reserved: null(),
                });
            } else {
                values.push(EnumEntry { name, value: small(self.source)?, is_flag: self.source.arbitrary()? });
            }
        }
        let (entries, values): (Box<[SchemaEntry]>, Box<[EnumEntry]>) = (entries.into(), values.into());
        let array = if is_schema { entries.as_ptr().addr() } else { values.as_ptr().addr() } as u64;
        let (name, id) = (self.text()?.addr() as u64, self.source.int_in_range(0..=4)? << 24);
        let mut words = if is_schema {
            let (kind, size, pack) = (self.source.int_in_range(0..=5)?, small(self.source)?, small(self.source)?);
            vec![0, name, kind, 0, array, count, size, pack, id, 0]
        } else {
            vec![0, name, array, count, small(self.source)?, id, 0]
        };
        let mask: u64 = if bool::arbitrary(self.source)? { u64::MAX } else { self.source.arbitrary()? };
        let mask = mask & ((1 << words.len()) - 2);
        words[0] = mask;
        words.truncate(64 - mask.leading_zeros() as usize);
        let words: Box<[u64]> = if words.is_empty() { Box::new([0]) } else { words.into() };
        let slot = if is_schema { payload::SCHEMA_REGISTER } else { payload::ENUM_REGISTER };
        // SAFETY: the slot's function has this type; the struct is as long as its mask says, and the array and the
        // names live until the end of the call.
        unsafe {
            function::<unsafe extern "C" fn(Handle, *const c_void) -> u64>(&PAYLOAD_SLOTS[slot])(
                domain,
                words.as_ptr().cast(),
            );
        }
        Ok(())
    }

    fn step(&mut self) -> arbitrary::Result<()> {
        let domain = self.handle()?;
        let text: unsafe extern "C" fn(Handle, *const c_void) -> Handle;
        // SAFETY: each slot's function has the named type; pointers are null or lead to data as described, which live
        // until the end of the input.
        unsafe {
            match self.source.int_in_range(0..=19)? {
                0 => core::<unsafe extern "C" fn(Handle, *const c_void)>(5, 1)(domain, self.event()?),
                1 => drop(core::<unsafe extern "C" fn(Handle, *const c_void) -> u64>(5, 2)(domain, self.event()?)),
                2 => core::<unsafe extern "C" fn(Handle, u64)>(5, 3)(domain, self.source.arbitrary()?),
                3 | 4 => {
                    let depth =
                        core::<unsafe extern "C" fn(Handle, *const c_void) -> c_int>(5, 4)(domain, self.event()?);
                    assert!(depth >= 0);
                }
                5 => assert!(core::<unsafe extern "C" fn(Handle) -> c_int>(5, 5)(domain) >= -1),
                6 => {
                    let mut fields = [0; 32];
                    fields[4..16].copy_from_slice(&self.source.arbitrary::<[u8; 12]>()?);
                    let (kind, message) = self.message()?;
                    fields[16..20].copy_from_slice(&kind.to_ne_bytes());
                    fields[24..32].copy_from_slice(&(message.addr() as u64).to_ne_bytes());
                    text = core(5, 6);
                    let resource = text(domain, self.sized(&mut fields)?);
                    self.handles.push(resource);
                }
                7 => core::<unsafe extern "C" fn(Handle)>(5, 7)(domain),
                8 => core::<unsafe extern "C" fn(Handle, u32, *const c_void)>(5, 8)(
                    domain,
                    self.source.arbitrary()?,
                    self.text()?,
                ),
                9 => {
                    text = core(5, 10);
                    let string = text(domain, self.text()?);
                    self.handles.push(string);
                }
                10 => {
                    text = core(5, 11);
                    let string = text(domain, self.wide()?);
                    self.handles.push(string);
                }
                11 => {
                    let created = core::<unsafe extern "C" fn(*const c_void) -> Handle>(5, 12)(self.text()?);
                    self.handles.push(created);
                }
                12 => core::<unsafe extern "C" fn(Handle)>(5, 14)(domain),
                13 => {
                    let mut fields = [0; 16];
                    let (kind, message) = self.message()?;
                    fields[4..8].copy_from_slice(&kind.to_ne_bytes());
                    fields[8..16].copy_from_slice(&(message.addr() as u64).to_ne_bytes());
                    text = core(6, 1);
                    let object = text(domain, self.sized(&mut fields)?);
                    self.handles.push(object);
                }
                14 => core::<unsafe extern "C" fn(Handle)>(6, self.source.int_in_range(2..=6)?)(domain),
                15 => {
                    let (module, ids) = *self.source.choose(&[(2, 4), (3, 7), (4, 3)])?;
                    let id = 1 + 2 * self.source.int_in_range(0..=ids - 1)?;
                    let is_wide = bool::arbitrary(self.source)?;
                    let name = if is_wide { self.wide()? } else { self.text()? };
                    core::<unsafe extern "C" fn(Handle, *const c_void)>(module, id + usize::from(is_wide))(
                        domain, name,
                    );
                }
                16 => self.register(domain, true)?,
                17 => self.register(domain, false)?,
                18 => {
                    let (data, count) = self.payload()?;
                    let id = self.source.int_in_range(payload::MARK..=payload::RANGE_START)?;
                    // The result is not used, so its type may be wider than the function's own.
                    function::<unsafe extern "C" fn(Handle, *const c_void, usize) -> u64>(&PAYLOAD_SLOTS[id])(
                        domain, data, count,
                    );
                }
                _ => {
                    let ((data, count), id) = (self.payload()?, self.source.arbitrary()?);
                    function::<unsafe extern "C" fn(Handle, u64, *const c_void, usize)>(
                        &PAYLOAD_SLOTS[payload::RANGE_END],
                    )(domain, id, data, count);
                }
            }
        }
        Ok(())
    }
}

pub fn run(data: &[u8]) {
    attach();
    let mut source = Unstructured::new(data);
    let mut program = Program {
        source: &mut source,
        texts: Vec::new(),
        wide: Vec::new(),
        bytes: Vec::new(),
        payloads: Vec::new(),
        handles: Vec::new(),
    };
    let (before, mut steps) = (TOLD.get(), 0);
    while steps < 64 && !program.source.is_empty() {
        if program.step().is_err() {
            break;
        }
        steps += 1;
    }
    assert!(TOLD.get() - before <= steps + 1);
    // Ranges of this thread do not accumulate over inputs.
    for domain in program.handles.iter().copied().chain([null_mut()]) {
        let pop = core::<unsafe extern "C" fn(Handle) -> c_int>(5, 5);
        // SAFETY: the slot's function has this type.
        while unsafe { pop(domain) } >= 0 {}
    }
}
