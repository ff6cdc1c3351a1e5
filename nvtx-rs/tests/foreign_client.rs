//! The tool side, called by a client written from the interface's definition: calls of every kind, odd arguments, and a
//! table that is shorter than today's.

#![allow(unsafe_code)]

use nvtx_rs::abi::{EventAttributes, ExportTableCallbacks, ExportTableVersionInfo};
use nvtx_rs::tool::{Call, Tool};
use std::ffi::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

static CALLS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The identities of registered strings of marks, and of their domains.
static IDENTITIES: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

fn make() -> impl Tool {
    |call: &Call<'_>| {
        if let Call::Mark { domain: Some(domain), event } = call {
            IDENTITIES.lock().unwrap().extend(event.registered_id().map(|id| (id, domain.as_ptr().addr())));
        }
        CALLS.lock().unwrap().push(format!("{call:?}"));
    }
}

nvtx_rs::export_tool!(make);

type Slot = AtomicPtr<c_void>;
static SLOTS: [[Slot; 16]; 6] = [const { [const { AtomicPtr::new(null_mut()) }; 16] }; 6];
/// The sizes of the modules 1 to 6, the second table being that of an older client.
const SIZES: [u32; 6] = [16, 5, 15, 7, 16, 7];
static VERSION: AtomicU32 = AtomicU32::new(0);

struct Tables([[*const Slot; 17]; 6]);
// SAFETY: the pointers lead to statics that may be shared.
unsafe impl Sync for Tables {}
static TABLES: Tables = {
    let mut tables = [[null(); 17]; 6];
    let mut module = 0;
    while module < 6 {
        let mut id = 1;
        while id < SIZES[module] as usize {
            tables[module][id] = &raw const SLOTS[module][id];
            id += 1;
        }
        module += 1;
    }
    Tables(tables)
};

extern "system" fn get_export_table(id: u32) -> *const c_void {
    static CALLBACKS: ExportTableCallbacks =
        ExportTableCallbacks { struct_size: 16, get_module_function_table: get_table };
    static VERSIONS: ExportTableVersionInfo =
        ExportTableVersionInfo { struct_size: 24, version: 3, reserved0: 0, set_injection_version: set_version };
    match id {
        1 => (&raw const CALLBACKS).cast(),
        3 => (&raw const VERSIONS).cast(),
        _ => null(),
    }
}

extern "system" fn set_version(version: u32) {
    VERSION.store(version, Ordering::Relaxed);
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

/// The function in a slot, which must be of type `F`.
fn function<F: Copy>(module: i32, id: usize) -> F {
    let pointer = SLOTS[module as usize - 1][id].load(Ordering::Relaxed);
    assert!(!pointer.is_null(), "module {module} id {id}");
    assert_eq!(size_of::<F>(), size_of::<*mut c_void>());
    // SAFETY: the tool has put the function of this slot's type there.
    unsafe { std::mem::transmute_copy(&pointer) }
}

type Event = *const EventAttributes;
type Text = *const c_char;
type Wide = *const u32;
type Handle = *mut c_void;

fn heard() -> Vec<String> {
    std::mem::take(&mut *CALLS.lock().unwrap())
}

fn event(message: &std::ffi::CStr) -> EventAttributes {
    // SAFETY: all zeroes are a value of the struct.
    let mut event = unsafe { std::mem::zeroed::<EventAttributes>() };
    (event.version, event.size) = (3, 48);
    (event.message_type, event.message) = (1, message.as_ptr().cast());
    event
}

#[test]
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
fn a_foreign_client_is_served() {
    // SAFETY: by the interface the functions in the slots have these types; every passed pointer is null or valid.
    unsafe {
        assert_eq!(InitializeInjectionNvtx2(None), 0);
        assert_eq!(InitializeInjectionNvtx2(Some(get_export_table)), 1);
        assert_eq!(InitializeInjectionNvtxExtension(null_mut()), 0);
        assert_eq!(VERSION.load(Ordering::Relaxed), 3);
        assert_eq!(heard(), ["Attach"]);
        fill_counts();

        let wide: Vec<u32> = "wide ü 😀".chars().map(u32::from).chain([0]).collect();
        names_of_the_default_domain(&wide);
        depths_are_counted_for_each_domain();
        handles_are_unique_and_known(&wide);
        odd_arguments_do_no_harm();
        objects_are_named(&wide);

        // The same client again: a tool may be asked more than once.
        assert_eq!(InitializeInjectionNvtx2(Some(get_export_table)), 1);
        assert_eq!(heard(), ["Attach"]);
    }
}

/// Every slot of the client is filled, and none beyond the end of its tables.
fn fill_counts() {
    let filled = SLOTS.iter().map(|slots| slots.iter().filter(|slot| !slot.load(Ordering::Relaxed).is_null()).count());
    let sizes = SIZES.iter().map(|&size| size as usize - 1);
    assert!(filled.eq(sizes));
}

unsafe fn names_of_the_default_domain(wide: &[u32]) {
    let event = event(c"ex");
    // SAFETY: see the caller.
    unsafe {
        function::<unsafe extern "C" fn(Event)>(1, 1)(&event);
        function::<unsafe extern "C" fn(Text)>(1, 2)(c"a".as_ptr());
        function::<unsafe extern "C" fn(Wide)>(1, 3)(wide.as_ptr());
        let marks = heard();
        for (mark, message) in marks.iter().zip(["ex", "a", "wide ü 😀"]) {
            assert!(
                mark.starts_with(&format!("Mark {{ domain: None, event: Event {{ message: Some({message:?})")),
                "{mark}"
            );
        }
        let ids = [
            function::<unsafe extern "C" fn(Event) -> u64>(1, 4)(&event),
            function::<unsafe extern "C" fn(Text) -> u64>(1, 5)(c"a".as_ptr()),
            function::<unsafe extern "C" fn(Wide) -> u64>(1, 6)(wide.as_ptr()),
        ];
        assert!(ids[0] != 0 && ids[0] < ids[1] && ids[1] < ids[2]);
        function::<unsafe extern "C" fn(u64)>(1, 7)(ids[1]);
        let calls = heard();
        assert!(calls[2].contains("wide ü 😀") && calls[2].ends_with(&format!("id: {} }}", ids[2])), "{}", calls[2]);
        assert_eq!(calls[3], format!("End {{ domain: None, id: {}, extended: [] }}", ids[1]));
        function::<unsafe extern "C" fn(u32, Text)>(1, 12)(5, c"five".as_ptr());
        function::<unsafe extern "C" fn(u32, Wide)>(1, 13)(6, wide.as_ptr());
        function::<unsafe extern "C" fn(u32, Text)>(1, 14)(7, c"seven".as_ptr());
        function::<unsafe extern "C" fn(u32, Wide)>(1, 15)(8, wide.as_ptr());
        assert_eq!(
            heard(),
            [
                "NameCategory { domain: None, id: 5, name: \"five\" }",
                "NameCategory { domain: None, id: 6, name: \"wide ü 😀\" }",
                "NameThread { id: 7, name: \"seven\" }",
                "NameThread { id: 8, name: \"wide ü 😀\" }",
            ]
        );
        function::<unsafe extern "C" fn(*const c_void)>(5, 15)(null());
        assert_eq!(heard(), ["Initialize"]);
    }
}

unsafe fn depths_are_counted_for_each_domain() {
    let event = event(c"x");
    // SAFETY: see the caller.
    unsafe {
        let domain = function::<unsafe extern "C" fn(Text) -> Handle>(5, 12)(c"depths".as_ptr());
        let push = function::<unsafe extern "C" fn(Handle, Event) -> c_int>(5, 4);
        let pop = function::<unsafe extern "C" fn(Handle) -> c_int>(5, 5);
        let pop_default = function::<unsafe extern "C" fn() -> c_int>(1, 11);
        assert_eq!(push(null_mut(), &event), 0);
        assert_eq!(function::<unsafe extern "C" fn(Event) -> c_int>(1, 8)(&event), 1);
        assert_eq!(function::<unsafe extern "C" fn(Text) -> c_int>(1, 9)(c"x".as_ptr()), 2);
        assert_eq!(function::<unsafe extern "C" fn(Wide) -> c_int>(1, 10)([0].as_ptr()), 3);
        assert_eq!(push(domain, &event), 0);
        assert_eq!(std::thread::scope(|scope| scope.spawn(|| pop_default()).join().unwrap()), -1);
        assert_eq!((pop(domain), pop(domain)), (0, -1));
        assert_eq!([pop_default(), pop(null_mut()), pop_default(), pop_default()], [3, 2, 1, 0]);
        assert_eq!(pop_default(), -1);
        assert_eq!(heard().last().unwrap(), "Pop { domain: None, depth: None, extended: [] }");
    }
}

unsafe fn handles_are_unique_and_known(wide: &[u32]) {
    // SAFETY: see the caller.
    unsafe {
        let create = function::<unsafe extern "C" fn(Text) -> Handle>(5, 12);
        let (one, two) = (create(c"one".as_ptr()), create(c"two".as_ptr()));
        let wide_domain = function::<unsafe extern "C" fn(Wide) -> Handle>(5, 13)(wide.as_ptr());
        assert!(!one.is_null() && !two.is_null() && one != two && wide_domain != one && wide_domain != two);
        assert_eq!(create(c"one".as_ptr()), one);
        let register = function::<unsafe extern "C" fn(Handle, Text) -> Handle>(5, 10);
        let text = register(one, c"text".as_ptr());
        assert!(!text.is_null() && register(one, c"text".as_ptr()) == text && register(two, c"text".as_ptr()) != text);
        let wide_text = function::<unsafe extern "C" fn(Handle, Wide) -> Handle>(5, 11)(one, wide.as_ptr());
        heard();
        let mut event = event(c"");
        (event.message_type, event.message) = (3, wide_text);
        (event.color_type, event.color, event.category) = (1, 0x0102_0304, 9);
        let mut other = event;
        other.message = text;
        function::<unsafe extern "C" fn(Handle, Event)>(5, 1)(wide_domain, &event);
        function::<unsafe extern "C" fn(Handle)>(5, 14)(two);
        function::<unsafe extern "C" fn(Handle, Event)>(5, 1)(two, &event);
        function::<unsafe extern "C" fn(Handle, Event)>(5, 1)(two, &other);
        function::<unsafe extern "C" fn(Handle, u32, Text)>(5, 8)(one, 1, c"cat".as_ptr());
        function::<unsafe extern "C" fn(Handle, u32, Wide)>(5, 9)(one, 2, wide.as_ptr());
        let [first, second, third] = IDENTITIES.lock().unwrap()[..] else { panic!("three marks") };
        assert!(first.0 == second.0 && second.0 != third.0 && first.1 != second.1 && second.1 == third.1);
        let event = "event: Event { message: Some(\"wide ü 😀\"), registered: true, category: 9, \
                     color: Some(Color(16909060)), payload: None, extended: [] } }";
        assert_eq!(
            heard(),
            [
                format!("Mark {{ domain: Some(\"wide ü 😀\"), {event}"),
                "DestroyDomain { domain: Some(\"two\") }".to_owned(),
                format!("Mark {{ domain: Some(\"two\"), {event}"),
                format!("Mark {{ domain: Some(\"two\"), {event}").replace("wide ü 😀", "text"),
                "NameCategory { domain: Some(\"one\"), id: 1, name: \"cat\" }".to_owned(),
                "NameCategory { domain: Some(\"one\"), id: 2, name: \"wide ü 😀\" }".to_owned(),
            ]
        );
    }
}

unsafe fn odd_arguments_do_no_harm() {
    // SAFETY: see the caller.
    unsafe {
        let mark = function::<unsafe extern "C" fn(Handle, Event)>(5, 1);
        mark(null_mut(), null());
        function::<unsafe extern "C" fn(Text)>(1, 2)(null());
        function::<unsafe extern "C" fn(Wide)>(1, 3)(null());
        let nothing = "Mark { domain: None, event: Event { message: None, registered: false, category: 0, color: None, \
                       payload: None, extended: [] } }";
        assert_eq!(heard(), [nothing; 3]);
        let mut odd = event(c"\xFF\xFEbad");
        mark(0xDEAD_0000_usize as Handle, &odd);
        assert!(
            heard()[0].starts_with(
                "Mark { domain: Some(\"<unknown>\"), event: Event { message: Some(\"\u{FFFD}\u{FFFD}bad\")"
            )
        );
        // An older, shorter struct: nothing beyond its end is read.
        (odd.size, odd.category) = (8, 4);
        mark(null_mut(), &odd);
        assert!(heard()[0].contains("message: None, registered: false, category: 4"));
        // A pointer that is only partly inside is not read, either.
        for size in 41..48 {
            (odd.size, odd.message_type) = (size, 1);
            mark(null_mut(), &odd);
            assert!(heard()[0].contains("message: None, registered: false, category: 4"), "{size}");
        }
        (odd.size, odd.message_type, odd.message) = (48, 3, 0xDEAD_usize as *const c_void);
        (odd.payload_type, odd.color_type) = (99, 99);
        mark(null_mut(), &odd);
        assert!(heard()[0].contains("message: None, registered: true, category: 4, color: None, payload: None"));
        (odd.message_type, odd.message) = (1, null());
        mark(null_mut(), &odd);
        assert!(heard()[0].contains("message: None"));
        function::<unsafe extern "C" fn(Handle, u64)>(5, 3)(null_mut(), 12_345);
        function::<unsafe extern "C" fn(Handle)>(5, 7)(null_mut());
        function::<unsafe extern "C" fn(Handle)>(6, 3)(null_mut());
        let sync = function::<unsafe extern "C" fn(Handle, Handle) -> Handle>(6, 1)(null_mut(), null_mut());
        assert!(!sync.is_null());
        assert_eq!(heard().len(), 4);
    }
}

unsafe fn objects_are_named(wide: &[u32]) {
    // SAFETY: see the caller.
    unsafe {
        function::<unsafe extern "C" fn(c_int, Wide)>(2, 2)(3, wide.as_ptr());
        function::<unsafe extern "C" fn(c_int, Text)>(4, 1)(4, c"rt".as_ptr());
        for (module, ids) in [(2, 3..5), (3, 1..15), (4, 3..7)] {
            for id in ids {
                let name: *const c_void = if id % 2 == 1 { c"name".as_ptr().cast() } else { wide.as_ptr().cast() };
                function::<unsafe extern "C" fn(Handle, *const c_void)>(module, id)(0x50 as Handle, name);
            }
        }
        let expected = "CuContext CuContext ClDevice ClDevice ClContext ClContext ClCommandQueue ClCommandQueue ClMemObject \
                        ClMemObject ClSampler ClSampler ClProgram ClProgram ClEvent ClEvent CudaStream CudaStream \
                        CudaEvent CudaEvent";
        let calls = heard();
        assert_eq!(calls[0], "NameObject { object: CuDevice, handle: 3, name: \"wide ü 😀\" }");
        assert_eq!(calls[1], "NameObject { object: CudaDevice, handle: 4, name: \"rt\" }");
        for ((call, object), name) in
            calls[2..].iter().zip(expected.split_whitespace()).zip(["name", "wide ü 😀"].iter().cycle())
        {
            assert_eq!(*call, format!("NameObject {{ object: {object}, handle: 80, name: {name:?} }}"));
        }
        assert_eq!(calls.len(), 22);
    }
}
