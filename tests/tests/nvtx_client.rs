//! The NVTX client and tool of `nvtx-rs`, each scenario in a process of its own.

use nvtx_rs::text::MAX_BYTES;
use std::path::Path;
use std::process::{Command, Output};
use tests::recorder::{Call, Record, TemporaryFile, example, library, library_copy, output_recorded, run_recorded};

const INJECTION_PATH: &str = "NVTX_INJECTION64_PATH";
const NEXT_TOOL: &str = "NVTX_RS_NEXT_TOOL";
/// The expected calls of the scenario `all`.
const EVERY_CALL: &str = include_str!("nvtx_calls.txt");

fn calls(scenario: &str) -> Command {
    let mut command = Command::new(example("nvtx_calls"));
    command.arg(scenario).env_remove(INJECTION_PATH).env_remove(NEXT_TOOL).env_remove("NVTX_RECORD");
    command
}

fn output(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(status.success(), "{command:?}: {status}\n{}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

/// The output of a program that looks for this tool and then makes every call.
fn state_with(path: &Path) -> String {
    output(calls("state").env(INJECTION_PATH, path))
}

/// The calls without the system's thread numbers.
fn without_thread_ids(mut calls: Vec<Call>) -> Vec<Call> {
    calls.iter_mut().filter(|call| call.kind == "name_thread").for_each(|call| drop(call.rest.remove("id")));
    calls
}

fn shown(calls: &[Call]) -> Vec<String> {
    calls.iter().map(Call::to_string).collect()
}

#[test]
fn without_the_variable_nothing_is_loaded() {
    assert_eq!(output(&mut calls("state")), "false NotSet\n");
}

#[test]
fn a_missing_library_is_named() {
    let said = state_with(Path::new("/no/such/tool.so"));
    assert!(said.starts_with("false MissingLibrary { path: \"/no/such/tool.so\", reason: "), "{said}");
    assert!(said.contains("No such file or directory"), "the words of the loader: {said}");
}

#[test]
fn an_empty_variable_stands_for_the_program_itself() {
    let said = state_with(Path::new(""));
    assert_eq!(said, "false NoEntryPoint { path: \"\" }\n");
}

#[test]
fn a_text_file_is_no_library() {
    let file = TemporaryFile::new("text.so");
    std::fs::write(&file.0, "not a library\n").unwrap();
    assert!(state_with(&file.0).starts_with("false MissingLibrary"));
}

#[test]
fn a_directory_is_no_library() {
    assert!(state_with(&std::env::temp_dir()).starts_with("false MissingLibrary"));
}

#[test]
fn a_library_without_the_entry_point_is_no_tool() {
    assert_eq!(state_with(Path::new("libm.so.6")), "false NoEntryPoint { path: \"libm.so.6\" }\n");
}

#[test]
fn a_tool_may_refuse() {
    // The recorder refuses to start without an output file.
    let said = state_with(&library());
    assert_eq!(said, format!("false EntryFailed {{ path: {:?} }}\n", library()));
}

#[test]
fn a_tool_is_reported() {
    let (output, calls) = output_recorded(&mut calls("state"));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "true Attached\n");
    assert_eq!(calls[0].kind, "attach");
}

#[test]
fn every_call_arrives_as_it_was_made() {
    let record = Record::new();
    output(calls("all").env(INJECTION_PATH, library()).env("NVTX_RECORD", record.path()));
    let mut lines = record.lines();
    // The system's number of a thread differs each time.
    let thread = lines.iter_mut().find(|line| line.contains("name_thread message=\"worker\"")).unwrap();
    let number = thread.rsplit_once('=').unwrap().1;
    assert!(number.parse::<u32>().unwrap() > 0);
    *thread = thread.replace(number, "TID");
    let expected: Vec<&str> = EVERY_CALL.lines().collect();
    assert_eq!(lines, expected);
}

#[test]
fn odd_names_are_made_fit() {
    let calls = run_recorded(&mut calls("names"));
    let texts: Vec<&str> = calls
        .iter()
        .filter(|call| call.kind == "mark" && !call.registered)
        .map(|call| call.message.as_deref().unwrap())
        .collect();
    assert_eq!(texts[..6], ["", "␀", "a␀b", "größe", "名前", "😀\t\n\"quoted\"\\"]);
    for (text, unit) in texts[6..].iter().zip(["x", "é", "é", "€", "€", "😀", "😀", "␀"]) {
        assert!(text.len() <= MAX_BYTES && text.len() > MAX_BYTES - 4, "{}", text.len());
        let kept = text.strip_suffix('…').unwrap().trim_start_matches('p');
        assert_eq!(kept.replace(unit, ""), "");
    }
    assert_eq!(texts.len(), 14);
    for kind in ["mark", "name_category", "name_thread"] {
        let given = |call: &&Call| call.kind == kind && (kind != "mark" || call.registered);
        let named: Vec<&str> = calls.iter().filter(given).map(|call| call.message.as_deref().unwrap()).collect();
        assert_eq!(named, texts, "{kind}");
    }
    assert_eq!(calls[1].to_string(), "create_domain do␀main:");
}

#[test]
fn an_empty_domain_is_refused() {
    let (output, calls) = output_recorded(&mut calls("empty-domain"));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Err(EmptyName)\n");
    assert!(calls.iter().all(|call| call.kind != "create_domain"));
}

#[test]
fn domains_are_bounded() {
    let (output, calls) = output_recorded(&mut calls("many-domains"));
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, "4096 Err(TooMany) Ok(Domain(Some(\"domain 7\")))\n");
    assert_eq!(calls.iter().filter(|call| call.kind == "create_domain").count(), 4096);
}

#[test]
fn threads_that_call_first_together_load_one_tool_and_make_one_domain() {
    for _ in 0..20 {
        let calls = run_recorded(&mut calls("threads"));
        let count = |kind: &str| calls.iter().filter(|call| call.kind == kind).count();
        assert_eq!(count("attach"), 1);
        assert_eq!(count("create_domain"), 1);
        assert_eq!(count("register_string"), 1);
        assert_eq!(count("name_category"), 1);
        assert_eq!((count("push"), count("pop")), (32, 32));
        let all_in_domain = |call: &Call| call.kind == "attach" || call.domain.as_deref() == Some("shared");
        assert!(calls.iter().all(all_in_domain));
    }
}

#[test]
fn ranges_nest_deeply() {
    let calls = run_recorded(&mut calls("deep"));
    let depths: Vec<Option<i32>> =
        calls[1..].iter().map(|call| call.rest.get("depth").map(|depth| depth.parse().unwrap())).collect();
    let expected: Vec<Option<i32>> = (0..1_500).chain((0..1_500).rev()).map(Some).chain([None]).collect();
    assert_eq!(depths, expected);
}

#[test]
fn exit_loses_nothing() {
    let (output, calls) = output_recorded(&mut calls("exit"));
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(shown(&calls), ["attach", "push open at the end"]);
}

#[test]
fn calls_are_handed_on() {
    let next = library_copy("next.so");
    let calls = run_recorded(calls("all").env(NEXT_TOOL, &next.0));
    let alone = run_recorded(&mut self::calls("all"));
    assert_eq!(calls.len(), 2 * alone.len());
    let (both, alone) = (without_thread_ids(calls), without_thread_ids(alone));
    let count = |calls: &[Call], call: &Call| calls.iter().filter(|same| *same == call).count();
    for call in &alone {
        assert_eq!(count(&both, call), 2 * count(&alone, call), "{call:?}");
    }
}

#[test]
fn a_list_of_tools_is_handed_through() {
    let (second, third) = (library_copy("second.so"), library_copy("third.so"));
    let list = std::env::join_paths([&second.0, &third.0]).unwrap();
    let calls = run_recorded(calls("deep").env(NEXT_TOOL, list));
    assert_eq!(calls.iter().filter(|call| call.kind == "push").count(), 3 * 1_500);
}

#[test]
fn a_tool_that_names_itself_as_the_next_is_alone() {
    let calls = run_recorded(calls("deep").env(NEXT_TOOL, library()));
    assert_eq!(calls.iter().filter(|call| call.kind == "push").count(), 1_500);
}

#[test]
fn a_next_tool_that_fails_does_no_harm() {
    for next in ["/no/such/tool.so", "libm.so.6", ""] {
        let calls = run_recorded(calls("deep").env(NEXT_TOOL, next));
        assert_eq!(calls.iter().filter(|call| call.kind == "push").count(), 1_500);
    }
}

#[test]
fn a_tool_can_be_attached_in_the_process() {
    let said = output(&mut calls("attach"));
    let mut lines = said.lines();
    assert_eq!(lines.next(), Some("Attached None"));
    assert_eq!(lines.next(), Some("Attach"));
    assert_eq!(lines.next(), Some("CreateDomain { name: \"app\" }"));
    assert_eq!(lines.count(), EVERY_CALL.lines().count() - 2);
}

#[test]
fn a_tool_in_the_process_hands_on_to_the_one_outside() {
    let (output, handed_on) = output_recorded(&mut calls("attach"));
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said.lines().next(), Some("Attached Some(Attached)"));
    let alone = run_recorded(&mut calls("all"));
    assert_eq!(without_thread_ids(handed_on), without_thread_ids(alone));

    let said = self::output(calls("attach").env(INJECTION_PATH, "/no/such/tool.so"));
    assert!(said.starts_with("Attached Some(MissingLibrary"), "{said}");
}

#[test]
fn after_the_first_call_no_tool_can_be_attached() {
    assert_eq!(output(&mut calls("attach-late")), "false Err(TooLate)\n");
    let record = Record::new();
    let mut command = calls("attach-late");
    command.env(INJECTION_PATH, library()).env("NVTX_RECORD", record.path());
    assert_eq!(output(&mut command), "true Err(TooLate)\n");
}

#[test]
fn what_a_tool_calls_is_not_received() {
    let said = output(&mut calls("attach-from-tool"));
    let kinds: Vec<&str> = said.lines().map(|line| line.split(' ').next().unwrap()).collect();
    // The strings and the domain are created for the program all the same, although the tool tried to use them first.
    assert_eq!(kinds, ["Attach", "CreateDomain", "RegisterString", "Push", "RegisterString", "Mark", "Pop"]);
    assert_eq!(said.matches("domain: Some(\"app\")").count(), 5);
    assert_eq!(said.matches("registered: true").count(), 2);
}

#[test]
fn a_panic_stays_in_the_tool() {
    assert_eq!(output(&mut calls("unruly-tool")), "survived\n");
}
