//! Fields of spans, and events.

use super::*;

#[test]
fn a_name_made_at_run_time_is_the_name_of_the_row() {
    for tier in BOTH {
        let ran = recorded("names", tier);
        let expected = [
            "str",
            "String",
            "conv1",
            "conv2",
            "conv1",
            "Some(1)",
            "\"a/b\"",
            "7",
            "-7",
            "340282366920938463463374607431768211455",
            "0.5",
            "span",
            "span",
            "conv1",
        ];
        let pushed: Vec<String> = expected.iter().map(|name| format!("push {name}")).collect();
        assert_eq!(carried(&ran.calls), pushed, "{tier}");
        let mut counted = BTreeMap::new();
        expected.iter().for_each(|name| *counted.entry((*name).to_owned()).or_default() += 1);
        let summary = ran.summary();
        assert_eq!(instances(&summary), counted);
        assert_whole(&summary);
        // One registration for each name: two call sites and a name made at run time share `conv1`.
        assert_eq!(ran.count("register_string"), counted.len());
    }
}

fn counted<'a>(rows: impl IntoIterator<Item = (&'a str, u64)>) -> BTreeMap<String, u64> {
    rows.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}

#[test]
fn known_fields_split_rows_that_have_few_values() {
    for tier in BOTH {
        let summary = untold("routes", tier).summary();
        let few = [("GET /a", 1), ("GET /b", 1), ("route: /a", 1), ("route: /b", 1)];
        assert_eq!(instances(&summary), counted([&few[..], &[("get", 34)]].concat()));
        assert_eq!(summary.advice.len(), 1, "{:?}", summary.advice);
        let off = outcome(command("routes", tier).env("TRACING_GPU", "name_from=off")).summary();
        assert_eq!(instances(&off), counted([("request", 2), ("route", 2), ("get", 34)]));
    }
}

/// Earlier calls keep their names.
#[test]
fn a_tool_gets_the_names_as_they_are_at_the_time() {
    for tier in BOTH {
        let pushed = carried(&recorded("routes", tier).calls);
        let split = ["push GET /a", "push GET /b", "push route: /a", "push route: /b"].map(str::to_owned);
        let values = (0..32).map(|number| format!("push get: {number}"));
        let whole = ["push get"; 2].map(str::to_owned);
        assert_eq!(pushed, split.into_iter().chain(values).chain(whole).collect::<Vec<_>>(), "{tier}");
    }
}

#[test]
fn advice_on_a_field_that_splits_a_row_says_what_to_set() {
    for tier in BOTH {
        let summary = untold("routes", tier).summary();
        let advice = summary.advice.iter().find_map(|note| note.split_once("TRACING_GPU=")).expect("advice").1;
        let setting = advice.split(", or ").next().unwrap();
        let split = outcome(command("routes", tier).env("TRACING_GPU", setting)).summary();
        let numbers: Vec<String> = (0..34).map(|number| number.to_string()).collect();
        let each = numbers.iter().map(|number| (number.as_str(), 1));
        assert_eq!(
            instances(&split),
            counted(each.chain(["GET /a", "GET /b", "/a", "/b"].map(|name| (name, 1)))),
            "{setting}"
        );
    }
}

#[test]
fn odd_names_are_the_same_in_the_table_and_for_a_tool() {
    for tier in BOTH {
        let ran = recorded("odd-names", tier);
        let summary = ran.summary();
        let pushed: Vec<&str> =
            ran.calls.iter().filter(|call| call.kind == "push").map(|call| call.message.as_deref().unwrap()).collect();
        let fixed = ["a␀b", "(unnamed)", "größe 名前 😀", "a␀b", "(unnamed)", "größe 名前 😀", "line\nfeed\u{1b}[31m"];
        assert_eq!(pushed[..7], fixed, "{tier}");
        let marked = ran.calls.iter().filter(|call| call.kind == "mark");
        let marked: Vec<&str> = marked.map(|call| call.message.as_deref().unwrap()).collect();
        assert_eq!(marked, pushed[7..], "{tier}");
        for (name, unit) in pushed[7..].iter().zip(["x", "é", "é", "€", "😀", "␀"]) {
            assert!(name.len() <= 32_768 && name.len() > 32_768 - 4, "{}", name.len());
            let kept = name.strip_suffix('…').expect("a mark where it was cut").trim_start_matches('p');
            assert_eq!(kept.replace(unit, ""), "");
        }
        let mut counted: BTreeMap<String, u64> = BTreeMap::new();
        pushed.iter().for_each(|name| *counted.entry((*name).to_owned()).or_default() += 1);
        assert_eq!(instances(&summary), counted);
        assert_whole(&summary);
    }
}

#[test]
fn odd_categories_are_the_same_in_the_table_and_for_a_tool() {
    for tier in BOTH {
        let ran = recorded("odd-names", tier);
        let named =
            ran.calls.iter().filter(|call| call.kind == "name_category" && call.category >= CATEGORY_COUNT_FROM);
        let mut told: Vec<String> = named.filter_map(|call| call.message.clone()).collect();
        let mut counted: Vec<String> = ran.summary().categories.into_iter().map(|row| row.category).collect();
        told.sort();
        counted.sort();
        assert!(told == counted, "{tier}: {:?} bytes", counted.iter().map(String::len).collect::<Vec<_>>());
    }
}

#[test]
fn colors_are_read_in_every_form() {
    for tier in BOTH {
        let expected = [
            "push name color=FFFF6347",
            "push hex color=FF0088FF",
            "push hex text color=800088FF",
            "push rgb color=FF0088FF",
            "push argb color=800088FF",
            "push display color=FFFF0000",
            "push no color",
            "push negative",
            "push too large",
            "push none",
        ];
        let ran = recorded("colors", tier);
        assert_eq!(carried(&ran.calls), expected, "{tier}");
        assert_eq!(ran.summary().ranges.len(), expected.len());
    }
}

#[test]
fn a_category_is_a_name_or_a_number() {
    for tier in BOTH {
        let ran = recorded("categories", tier);
        let id = |name: &str| {
            let named = |call: &&Call| call.kind == "name_category" && call.message.as_deref() == Some(name);
            let mut ids = ran.calls.iter().filter(named).map(|call| call.category);
            let id = ids.next().unwrap_or_else(|| panic!("no category {name}"));
            assert!(id >= CATEGORY_COUNT_FROM && ids.next().is_none(), "{tier}: {name} is named once");
            id
        };
        let (conv, pool) = (id("Conv"), id("Pool"));
        let expected = [
            format!("push conv1 category={conv}"),
            format!("push conv2 category={conv}"),
            format!("push pool category={pool}"),
            "push seven category=7".to_owned(),
            "push seven too category=7".to_owned(),
            "push negative".to_owned(),
            "push empty".to_owned(),
            "push none".to_owned(),
            format!("push pool category={conv}"),
        ];
        assert_eq!(carried(&ran.calls), expected, "{tier}");
        let summary = ran.summary();
        assert_eq!(categories(&summary), BTreeMap::from([("7", 2), ("Conv", 3), ("Pool", 1)]));
        assert_eq!(row(&summary, "pool").instances, 2);
        let sum =
            |category: &str| summary.categories.iter().find(|row| row.category == category).unwrap().times.total_ns;
        let pools = row(&summary, "pool").total_ns;
        let convs = row(&summary, "conv1").total_ns + row(&summary, "conv2").total_ns;
        assert!((convs + pools).abs_diff(sum("Conv") + sum("Pool")) <= 5, "rounded five times");
        assert_whole(&summary);
    }
}

#[test]
fn a_payload_keeps_its_type() {
    for tier in BOTH {
        // `tracing` converts a number to 64 bits: signed, unsigned or floating.
        let expected = [
            "push u64 payload=u64:18446744073709551615",
            "push i64 payload=i64:-9223372036854775808",
            "push f64 payload=f64:-0.1",
            "push u32 payload=u64:5",
            "push i32 payload=i64:-5",
            "push f32 payload=f64:0.5",
            "push bool payload=u32:1",
            "push text",
            "push none",
        ];
        assert_eq!(carried(&recorded("payloads", tier).calls), expected, "{tier}");
    }
}

#[test]
fn the_fields_of_nvidias_layer_are_read_too() {
    for tier in BOTH {
        let ran = recorded("nvidia-fields", tier);
        let expected = [
            "push span category=256 color=FFFF0000 payload=u64:3",
            "push hex color=FFFF0000",
            "push display category=256",
            "mark event category=3",
        ];
        assert_eq!(carried(&ran.calls), expected, "{tier}");
        assert_eq!(categories(&ran.summary()), BTreeMap::from([("cool", 2)]));
    }
}

#[test]
fn values_are_understood_as_texts() {
    for tier in BOTH {
        let ran = recorded("values-as-texts", tier);
        let pushed: Vec<String> = carried(&ran.calls).into_iter().filter(|call| call.starts_with("push")).collect();
        assert_eq!(pushed, ["push integer payload=i64:-3", "push float payload=f64:0.25", "push bool payload=u32:1"]);
        assert_eq!(ran.count("start"), 1, "{tier}");
        assert_eq!(ran.summary().notes, [], "{tier}");
    }
}

/// Once for each call site and field; a span reports its first one.
#[test]
fn values_that_mean_nothing_are_told() {
    for tier in BOTH {
        let notes = recorded("ignored-values", tier).summary().notes_as_text();
        let expected = [
            ("nvtx.color of `request`", "\"rde\" is not a colour."),
            ("nvtx.color of `both`", "\"0.5\" is not a colour."),
            ("nvtx.lifetime of `one`", "\"1\" is not true or false."),
            ("nvtx.payload of `late`", &format!("\"\"{}…\" is not a number or a bool.", "x".repeat(39))),
            ("gpu.stream of `place`", "\"first\" is not what `stream_id` returned."),
            ("nvtx.name of `named`", "\"true\" is not a text or a number."),
            ("gpu.weight of `light`", "\"-0.5\" is not a number from 0 up."),
        ];
        assert_eq!(notes.len(), expected.len(), "{tier}: {notes:#?}");
        for (note, (what, why)) in notes.iter().zip(expected) {
            let (told, ignored) = note.split_once(" was ignored: ").expect("what was ignored");
            assert_eq!(ignored, why, "{tier}");
            let (told, place) = told.split_once(" (").expect("the place of the call site");
            assert_eq!(told, what, "{tier}");
            assert!(place.contains("fields.rs:") && place.ends_with(')'), "{place}");
        }
        let notes = recorded("many-ignored-values", tier).summary().notes_as_text();
        assert!(notes.len() == 9 && notes[7].contains("`8`") && notes[8].contains("further call sites"), "{notes:?}");
        for scenario in ["nvidia-fields", "record-before-entry", "names", "lifetimes"] {
            assert!(recorded(scenario, tier).summary().notes.is_empty(), "{tier}: {scenario}");
        }
    }
}

#[test]
fn what_is_recorded_counts_from_the_next_entry_and_never_renames() {
    for tier in BOTH {
        let ran = recorded("record", tier);
        let expected = [
            "push span",
            "push span category=256 color=FFFF0000 payload=u64:1",
            "push span category=256 color=FFFF0000 payload=i64:-2",
            "push span category=9 color=FFFF0000 payload=i64:-2",
        ];
        assert_eq!(carried(&ran.calls), expected, "{tier}");
        let summary = ran.summary();
        assert_eq!(instances(&summary), rows([("span", 4)]));
        assert_eq!(categories(&summary), BTreeMap::from([("9", 1), ("late", 2)]));
        assert_eq!(tree(&summary), ["span 1/4"]);
        assert_whole(&summary);

        let expected = [
            "push span category=256 color=FFFF0000 payload=u64:2",
            "push span category=256 color=FFFF0000 payload=u64:3",
        ];
        assert_eq!(carried(&recorded("record-before-entry", tier).calls), expected, "{tier}");
    }
}

#[test]
fn a_record_on_another_thread_counts_there_and_here() {
    for tier in BOTH {
        let ran = recorded("record-elsewhere", tier);
        let expected = ["push span", "push span category=256 payload=u64:4", "push span category=256 payload=u64:4"];
        assert_eq!(carried(&ran.calls), expected, "{tier}");
        let summary = ran.summary();
        assert_eq!(categories(&summary), BTreeMap::from([("late", 2)]));
        assert_eq!(tree(&summary), ["span 1/3"]);
    }
}

#[test]
fn a_record_through_the_current_span_counts() {
    for tier in BOTH {
        let ran = recorded("record-current", tier);
        let expected = ["push span", "push span", "push span category=256 payload=u64:4"];
        assert_eq!(carried(&ran.calls), expected, "{tier}");
        assert_eq!(categories(&ran.summary()), BTreeMap::from([("late", 1)]));
    }
}

#[test]
fn a_range_that_is_opened_again_carries_the_same() {
    for tier in BOTH {
        let ran = recorded("reopened-with-values", tier);
        let named = "push named category=256 color=FFFF0000 payload=u64:5";
        assert_eq!(carried(&ran.calls), ["push outer", named, named], "{tier}");
        let summary = ran.summary();
        assert_eq!(categories(&summary), BTreeMap::from([("cool", 2)]));
        assert_eq!(instances(&summary), rows([("named", 2), ("outer", 1)]));
    }
}

#[test]
fn a_lifetime_is_a_range_of_its_own_counted_once_a_call() {
    for tier in BOTH {
        let ran = recorded("lifetimes", tier);
        let mut expected = Vec::new();
        for _ in 0..3 {
            expected.extend([
                "start app:request",
                "push app:request",
                "pop app:",
                "push app:request",
                "push app:step",
                "pop app:",
                "pop app:",
                "end",
            ]);
        }
        expected.extend(["push app:request", "pop app:"]);
        assert_eq!(ran.told_on_main(), expected, "{tier}");
        let starts: Vec<String> = carried(&ran.calls).into_iter().filter(|call| call.starts_with("start")).collect();
        let carries = |number: u32| format!("start app:request category=256 color=FFFF0000 payload=u64:{number}");
        assert_eq!(starts, [carries(0), carries(1), carries(2)]);
        let id = |kind: &str| -> Vec<String> {
            ran.calls.iter().filter(|call| call.kind == kind).map(|call| call.rest["id"].clone()).collect()
        };
        assert_eq!(id("start"), id("end"));
        let summary = ran.summary();
        let counted = rows([("app:request", 7), ("app:request (start/end)", 3), ("app:step", 3)]);
        assert_eq!(instances(&summary), counted);
        assert_eq!(tree(&summary), ["request 4/7", "  step 3/3"], "the lifetime is no node");
        let total = |style: RangeStyle| -> u64 {
            let rows = summary.ranges.iter().filter(|row| row.style == style && row.name == "request");
            rows.map(|row| row.times.total_ns).sum()
        };
        assert!(total(RangeStyle::StartEnd) > 0);
        assert_whole(&summary);
    }
}

#[test]
fn a_lifetime_may_end_on_another_thread() {
    for tier in BOTH {
        let ran = recorded("lifetime-elsewhere", tier);
        assert_eq!(ran.told_on_main(), ["start request", "start never entered", "end", "start alive"], "{tier}");
        assert_eq!(ran.told_on("worker"), ["push request", "pop", "end"], "{tier}");
        let summary = ran.summary();
        let counted = rows([("never entered (start/end)", 1), ("request", 1), ("request (start/end)", 1)]);
        assert_eq!(instances(&summary), counted);
        assert_eq!(summary.losses.open, [lifetimes("alive", "main", 1)], "{tier}");
        assert_whole(&summary);
    }
}

#[test]
fn an_event_is_a_mark_with_its_message_and_its_level_and_is_not_printed() {
    for tier in BOTH {
        let ran = recorded("events", tier);
        let expected = [
            "mark failed: disk category=1",
            "mark slow category=2",
            "mark plain category=3",
            "mark size 5 category=4",
            "mark size=5 name=\"x\" category=5",
            "mark as a field category=3",
            "mark conv3 category=3",
            "mark the message wins category=3",
            "mark size=5 category=3",
            "mark only a name category=3",
            "push around",
            "mark inside category=3",
        ];
        assert_eq!(carried(&ran.calls), expected, "{tier}");
        let named: BTreeMap<u32, &str> = ran
            .calls
            .iter()
            .filter(|call| call.kind == "name_category")
            .map(|call| (call.category, call.message.as_deref().unwrap()))
            .collect();
        let levels = BTreeMap::from([(1, "ERROR"), (2, "WARN"), (3, "INFO"), (4, "DEBUG"), (5, "TRACE")]);
        assert_eq!(named, levels);
        assert_eq!((ran.stdout.lines().count(), ran.stderr.as_str()), (1, ""), "only the summary is printed");
        assert_eq!(instances(&ran.summary()), rows([("around", 1)]));

        let ran = recorded("events-per-target", tier);
        assert_eq!(ran.told_on_main(), ["mark a:in a", "mark b:in b"], "{tier}");
    }
}

#[test]
fn the_category_of_a_level_is_named_once() {
    for tier in BOTH {
        assert_eq!(recorded("events", tier).count("name_category"), 5, "{tier}");
    }
}

#[test]
fn spans_made_while_a_value_is_formatted_are_ignored() {
    for tier in BOTH {
        let ran = recorded("values-that-trace", tier);
        let expected =
            ["push formatted", "mark event formatted category=3", "push formatted category=256", "push after"];
        assert_eq!(carried(&ran.calls), expected, "{tier}");
        let summary = ran.summary();
        assert_eq!(instances(&summary), rows([("after", 1), ("formatted", 2)]));
        assert_eq!(summary.losses, Losses::default());

        // Without a tool no event is formatted, but names are.
        let summary = untold("values-that-trace", tier).summary();
        assert_eq!(instances(&summary), rows([("after", 1), ("formatted", 2)]));
        assert_eq!(summary.losses, Losses::default());
    }
}

/// A value that is not formatted cannot panic: in events without a tool, and in fields that nobody reads.
#[test]
fn a_value_that_panics_leaves_the_measuring_as_it_was() {
    let wanted = rows([("after", 13), ("outer", 13)]);
    for tier in BOTH {
        let ran = recorded("values-that-panic", tier);
        let told = ["push outer", "push after", "mark mark", "pop", "pop"].repeat(13);
        let main: Vec<String> = ran.told_on_main().into_iter().filter(|told| told != "mark event").collect();
        assert_eq!(main, told, "{tier}: {}", ran.stderr);
        let trace = TemporaryFile::new("trace.json");
        let setting = format!("out=none,trace={}", trace.0.display());
        let mut timeline = command("values-that-panic", tier);
        let timeline = outcome(timeline.env("TRACING_GPU", setting));
        assert_eq!(timeline.stderr.lines().count(), 13, "{tier}: all values are in a timeline: {}", timeline.stderr);
        for ran in [ran, timeline, untold("values-that-panic", tier)] {
            let summary = ran.summary();
            assert_eq!((instances(&summary), &summary.losses), (wanted.clone(), &Losses::default()), "{tier}");
            assert_whole(&summary);
        }
    }
}
