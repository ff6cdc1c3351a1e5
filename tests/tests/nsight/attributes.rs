//! Attributes of ranges, read back from Nsight's own database: a field that we swap on both sides cannot pass here.

use tests::nsight::Event;

use crate::programs::workload;

fn event(kind: &'static str, text: &str) -> Event {
    Event { kind, text: Some(text.to_owned()), ..Event::default() }
}

/// Ranges and marks without their threads, in order of their start.
fn events_of(kind: &str, tier: &str, domain: &str) -> Vec<Event> {
    let (recording, _) = workload(kind, tier, domain, 0);
    let without_thread = |event| Event { thread: None, tid: 0, ..event };
    recording.events().into_iter().map(without_thread).collect()
}

fn assert_events(found: &[Event], expected: &[Event]) {
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
}

trait Attributed {
    fn of(self, domain: &str) -> Self;
    fn category(self, number: i64, name: &str) -> Self;
    fn color(self, argb: i64) -> Self;
    fn payload(self, column: &str) -> Self;
}

impl Attributed for Event {
    fn of(self, domain: &str) -> Self {
        Self { domain: Some(domain.to_owned()), ..self }
    }

    fn category(self, number: i64, name: &str) -> Self {
        let name = Some(name.to_owned()).filter(|name| !name.is_empty());
        Self { category: Some(number), category_name: name, ..self }
    }

    fn color(self, argb: i64) -> Self {
        Self { color: Some(argb), ..self }
    }

    fn payload(self, column: &str) -> Self {
        Self { payload: vec![column.to_owned()], ..self }
    }
}

#[test]
fn given_to_nvtx_rs() {
    let payloads = [
        ("u64", "uint64Value=-2"), // shown as signed
        ("i64", "int64Value=-9223372036854775806"),
        ("f64", "doubleValue=-0.1"),
        ("u32", "uint32Value=4294967292"),
        ("i32", "int32Value=-2147483644"),
        ("f32", "floatValue=0.10000000149011612"),
    ];
    let mut expected = Vec::new();
    for (name, column) in payloads {
        expected.push(event("push", name).payload(column));
        expected.push(event("start", name).of("attributes").payload(column));
        expected.push(event("mark", name).of("attributes").payload(column));
    }
    expected.extend([
        event("push", "argb").of("attributes").color(0x8123_4567),
        event("push", "rgb").color(0xff12_3456),
        event("push", "io").of("attributes").category(256, "io"),
        event("start", "net").of("attributes").category(257, "net"),
        event("push", "seven of attributes").of("attributes").category(7, "seven of attributes"),
        event("push", "seven").category(7, "seven"),
        event("push", "all").of("attributes").color(0xfedc_ba98).category(257, "net").payload("int32Value=-5"),
        event("push", "none"),
    ]);
    assert_events(&events_of("calls", "subscriber", "default"), &expected);
}

#[test]
fn given_as_fields() {
    for tier in ["layer", "subscriber"] {
        let lifetime = |kind| event(kind, "lifetime").payload("int64Value=3").color(0xff00_00ff).category(256, "io");
        let expected = [
            event("push", "u64").payload("uint64Value=-2"),
            event("push", "i64").payload("int64Value=-9223372036854775806"),
            event("push", "f64").payload("doubleValue=-0.1"),
            event("push", "bool").payload("uint32Value=1"),
            event("push", "argb").color(0x8123_4567),
            event("push", "rgb").color(0xff12_3456),
            event("push", "css").color(0xff66_3399),
            event("push", "io").category(256, "io"),
            event("push", "net").category(257, "net"),
            event("push", "seven").category(7, ""),
            event("push", "changed").payload("int64Value=1").color(0xffff_0000).category(256, "io"),
            event("push", "changed").payload("int64Value=2").color(0xff00_ff00).category(257, "net"),
            lifetime("start"),
            event("push", "none"),
        ]
        .map(|event| event.of("fields"));
        assert_events(&events_of("fields", tier, "fields"), &expected);
    }
}

#[test]
fn events_are_marks_with_their_message() {
    for tier in ["layer", "subscriber"] {
        let expected = [
            event("push", "outer").of("workload"),
            event("mark", "disk is full").of("workload").category(1, "ERROR"),
            event("mark", "7 of 10 done").of("workload").category(2, "WARN"),
            event("mark", "größe 日本語").of("elsewhere").category(3, "INFO"),
            event("mark", "debugging").of("workload").category(4, "DEBUG"),
            event("mark", "tracing").of("workload").category(5, "TRACE"),
            event("mark", "answer=42 text=\"no message\"").of("workload").category(3, "INFO"),
        ];
        assert_events(&events_of("events", tier, "target"), &expected);
    }
}

#[test]
fn threads_have_their_names() {
    for tier in ["layer", "subscriber"] {
        let (recording, _) = workload("threads", tier, "default", 0);
        let found: Vec<(Option<String>, Option<String>)> =
            recording.events().into_iter().map(|event| (event.text, event.thread)).collect();
        let names = ["loader", "größe", "a name that is longer than the kernel's fifteen"];
        let mut expected = vec![(Some("on main".to_owned()), Some("main".to_owned()))];
        expected.extend(names.map(|name| (Some(name.to_owned()), Some(name.to_owned()))));
        assert_eq!(found, expected, "{tier}");
        let (recording, _) = workload("threads", tier, "default", 0);
        let mut tids: Vec<i64> = recording.events().iter().map(|event| event.tid).collect();
        tids.dedup();
        assert_eq!(tids.len(), 4, "four threads, one after the other");
    }
}
