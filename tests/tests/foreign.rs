//! Programs in C and Python that use NVIDIA's own NVTX, with a tool of `nvtx-rs` behind them.

#[path = "foreign/counted.rs"]
mod counted;
#[path = "foreign/readers.rs"]
mod readers;

use std::process::Command;
use tests::foreign::{compile, folder, headers};
use tests::recorder::{Call, library_copy, run_recorded};

/// Calls that annotate, each as `kind domain:message`.
fn events(calls: &[Call]) -> Vec<String> {
    calls.iter().filter(|call| call.is_event()).map(Call::to_string).collect()
}

/// The package asks the extension's entry point whether a domain is enabled, and sends nothing if that fails.
#[test]
fn ranges_of_python_are_received() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/foreign/ranges.py");
    let calls = run_recorded(Command::new("python3").arg(script).env("PYTHONPATH", folder("python")));
    let expected = "push python:outer|mark python:moment|pop python:|push decorated|pop|start started\
                    |end|push pushed|pop|push made in the child:child|mark parent";
    assert_eq!(events(&calls).join("|"), expected);
    let outer = calls.iter().find(|call| call.kind == "push").unwrap();
    assert_eq!((outer.color, outer.payload.as_deref()), (Some(0x00FF_0000), Some("i64:3")));
}

/// The library asks for `InitializeInjectionNvtx2` first, and passes the tables of version 3.
#[test]
fn ranges_of_the_library_of_version_2_are_received() {
    let library = folder("v2").join("nvidia/nvtx");
    let include = format!("-I{}", library.join("include").display());
    let (file, path) = (library.join("lib/libnvToolsExt.so.1"), format!("-Wl,-rpath,{}/lib", library.display()));
    let program = compile("tests/foreign/version_2.c", &[&include, &file.display().to_string(), &path]);
    let calls = run_recorded(&mut Command::new(&program.0));
    let expected = "push outer|push domain:registered ü|mark wide|pop domain:|pop|start started|end";
    assert_eq!(events(&calls).join("|"), expected);
}

/// A range that is closed with a payload is closed, and payloads are decoded by the program's registered schemas.
#[test]
fn payloads_are_decoded() {
    let include = format!("-I{}", headers().display());
    let program = compile("tests/foreign/payloads.c", &[&include, "-ldl"]);
    let calls = run_recorded(&mut Command::new(&program.0));
    let next = library_copy("payloads.so");
    let handed_on = run_recorded(Command::new(&program.0).env("NVTX_RS_NEXT_TOOL", &next.0));

    let reduce = "communicator=12379813738877118345 message size=4096 operation=Max";
    let whole = "name=all of it elsewhere=another payload access=read|write at[0].x=0.1 at[0].y=-1 at[1].x=2 at[1].y=3 \
                 ratio=0.5 tag=tag pointer=0x1234 category=7 color=4278231040 registered=registered count=3";
    let plain = "payload=[1, 2, 3] payload=plain payload=3 bytes payload=5 bytes";
    let expected = [
        ("push payloads:ncclAllReduce", Some(reduce)),
        ("pop payloads:", None),
        ("push payloads:ncclCommInitRankConfig", None),
        ("pop payloads:", Some(reduce)),
        ("push payloads:all of it", Some(whole)),
        ("pop payloads:", None),
        ("mark payloads:", Some("length=3 values=[1, -2, 3]")),
        ("start payloads:", Some(plain)),
        ("end payloads:", Some("payload=[1, 2, 3]")),
    ];
    let expected: Vec<_> =
        expected.iter().map(|(call, fields)| (call.to_string(), fields.map(str::to_owned))).collect();
    let decoded = |calls: &[Call]| -> Vec<_> {
        let events = calls.iter().filter(|call| call.is_event());
        events.map(|call| (call.to_string(), call.rest.get("fields").cloned())).collect()
    };
    assert_eq!(decoded(&calls), expected);
    let all = calls.iter().find(|call| call.message.as_deref() == Some("all of it")).unwrap();
    assert_eq!((all.category, all.color), (7, Some(0xFF00_A000)));
    assert_eq!(
        calls.iter().filter(|call| call.kind == "pop").map(|call| &call.rest["depth"]).collect::<Vec<_>>(),
        ["0"; 3]
    );

    // Both tools report each event, and the one behind has created the ids by which this one decodes.
    let twice: Vec<_> = expected.iter().flat_map(|event| [event.clone(), event.clone()]).collect();
    assert_eq!(decoded(&handed_on), twice);
}
