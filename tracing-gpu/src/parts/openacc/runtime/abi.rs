//! The OpenACC profiling interface, from `acc_prof.h` of the OpenACC specification.

use std::ffi::{c_char, c_int, c_void};

/// The runtime calls this for each event, with the place, the event, and the API below.
pub type OpenAccCallback = unsafe extern "C" fn(info: *const c_void, event: *const c_void, api: *const c_void);

/// The first argument of `acc_register_library`: asks the runtime to call back for one kind of event. Null is `None`.
pub type OpenAccRegister = Option<extern "C" fn(event: c_int, callback: OpenAccCallback, toggle: c_int)>;

/// `acc_reg`: enables the event from now on, on all threads.
pub(crate) const REGISTER: c_int = 0;

/// The place in the program: `acc_prof_info`. A runtime fills the first `valid_bytes`.
#[repr(C)]
pub(crate) struct Info {
    pub(crate) event: c_int,
    pub(crate) valid_bytes: c_int,
    version: c_int,
    device_type: c_int,
    device_number: c_int,
    thread_id: c_int,
    async_value: isize,
    async_queue: isize,
    pub(crate) source_file: *const c_char,
    function: *const c_char,
    pub(crate) line: c_int,
}

/// The common fields of `acc_data_event_info` and `acc_launch_event_info`; `acc_other_event_info` ends before the name.
#[repr(C)]
pub(crate) struct Event {
    event: c_int,
    pub(crate) valid_bytes: c_int,
    parent_construct: c_int,
    implicit: c_int,
    tool_info: *mut c_void,
    /// Name of the variable, or of the kernel.
    pub(crate) name: *const c_char,
}

/// Whether an event starts or ends something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    Start,
    End,
    /// The event has no duration.
    Instant,
}

/// A kind of event that has rows.
struct Kind {
    /// Number of the only event, or of the start; the end has the next number.
    number: c_int,
    /// The name in nvprof's output.
    name: &'static str,
    is_instant: bool,
    /// Whether nvprof has a row for each variable or kernel, if the runtime names it.
    is_detailed: bool,
}

const fn lasting(number: c_int, name: &'static str) -> Kind {
    Kind { number, name, is_instant: false, is_detailed: false }
}

const fn instant(number: c_int, name: &'static str) -> Kind {
    Kind { number, name, is_instant: true, is_detailed: false }
}

const fn detailed(number: c_int, name: &'static str) -> Kind {
    Kind { number, name, is_instant: false, is_detailed: true }
}

/// All but `acc_ev_runtime_shutdown`, which tells nothing about the program.
const KINDS: &[Kind] = &[
    lasting(1, "acc_device_init"),
    lasting(3, "acc_device_shutdown"),
    instant(6, "acc_create"),
    instant(7, "acc_delete"),
    instant(8, "acc_alloc"),
    instant(9, "acc_free"),
    lasting(10, "acc_enter_data"),
    lasting(12, "acc_exit_data"),
    lasting(14, "acc_update"),
    lasting(16, "acc_compute_construct"),
    detailed(18, "acc_enqueue_launch"),
    detailed(20, "acc_enqueue_upload"),
    detailed(22, "acc_enqueue_download"),
    lasting(24, "acc_wait"),
];

/// The numbers of all events that have rows.
pub(crate) fn events() -> impl Iterator<Item = c_int> {
    KINDS.iter().flat_map(|kind| [Some(kind.number), (!kind.is_instant).then_some(kind.number + 1)]).flatten()
}

/// The kind of an event as its index in the table, whether its rows have names, and its moment.
pub(crate) fn kind_of(event: c_int) -> Option<(u8, bool, Moment)> {
    let mut kinds = (0..).zip(KINDS);
    kinds.find_map(|(place, kind)| match event.checked_sub(kind.number)? {
        0 if kind.is_instant => Some((place, kind.is_detailed, Moment::Instant)),
        0 => Some((place, kind.is_detailed, Moment::Start)),
        1 if !kind.is_instant => Some((place, false, Moment::End)),
        _ => None,
    })
}

/// The name of a kind, by its index in the table.
pub(crate) fn name_of(kind: u8) -> &'static str {
    KINDS.get(usize::from(kind)).map_or("", |kind| kind.name)
}

#[cfg(all(test, target_pointer_width = "64"))]
mod tests {
    use std::mem::offset_of;

    use super::*;

    /// The layout of the header's structures, from the C compiler.
    #[test]
    fn fields_are_where_the_runtime_writes_them() {
        let info = [offset_of!(Info, valid_bytes), offset_of!(Info, source_file), offset_of!(Info, line)];
        assert_eq!((info, offset_of!(Event, name)), ([4, 40, 56], 24));
    }

    #[test]
    fn every_event_but_one_has_a_kind() {
        let known: Vec<c_int> = (-3..40).filter(|event| kind_of(*event).is_some()).collect();
        assert_eq!(known, (1..=4).chain(6..=25).collect::<Vec<_>>());
        assert_eq!(events().collect::<Vec<_>>(), known);
        let (wait, ..) = kind_of(24).unwrap();
        assert_eq!((name_of(wait), kind_of(25)), ("acc_wait", Some((wait, false, Moment::End))));
        assert_eq!(
            kind_of(20).map(|(kind, detailed, _)| (name_of(kind), detailed)),
            Some(("acc_enqueue_upload", true))
        );
    }
}
