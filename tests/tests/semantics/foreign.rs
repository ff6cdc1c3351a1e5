//! Spans beside foreign NVTX ranges.

use super::*;

#[test]
fn spans_and_foreign_ranges_stand_below_each_other_and_count_once() {
    let expected = [
        "call 3/3",
        "  callback 3/3",
        "    inside 3/3",
        "      deeper 3/3",
        "lifetime 1/1",
        "outer 1/1",
        "  crossing 1/1",
        "crossed 1/1",
        "  kept 1/1",
    ];
    for tier in BOTH {
        // With a tool behind it, which gets spans, too, and without.
        for ran in [recorded("foreign", tier), untold("foreign", tier)] {
            let summary = &ran.summaries()[0];
            assert_eq!(tree(summary), expected, "{tier}");
            let of_library = summary.ranges.iter().filter(|row| row.domain.as_deref() == Some("library"));
            let shown: Vec<_> = of_library.map(|row| (&*row.name, row.style, row.times.instances)).collect();
            assert_eq!(shown.len(), 2);
            assert!(shown.contains(&("request", RangeStyle::StartEnd, 1)), "{shown:?}");
            assert_eq!((summary.losses.split_instances, summary.losses.stray_exits), (0, 1), "{tier}");
            assert_eq!(categories(summary), BTreeMap::from([("of a span", 3)]));
        }
    }
}

#[test]
fn a_foreign_range_has_no_stream() {
    for tier in BOTH {
        let ran = untold("foreign-streams", tier);
        assert_eq!(ran.summaries()[0].losses.open, [open("around", "main")], "{tier}");
        assert_eq!(tree(&ran.summaries()[1]), ["on a stream 1/1", "around 1/1", "  inside 1/1"], "{tier}");
    }
}

/// NVIDIA's crate `nvtx` is C code that is linked into the program.
#[test]
#[cfg(feature = "nvidia")]
fn code_that_is_linked_in_finds_the_profiler() {
    for tier in BOTH {
        let ran = untold("foreign-linked", tier);
        let summaries = ran.summaries();
        assert_eq!(tree(&summaries[1]), ["outer 1/1", "  call 3/3", "    callback 3/3", "call 1/1"], "{tier}");
        assert_eq!(summaries[1].losses, Losses::default());
        let notes = ["NVTX belongs to another profiler", "NVTX ranges of other code belong to another profiler"];
        assert!(
            notes.iter().all(|note| summaries[0].notes_as_text().iter().any(|said| said.starts_with(note))),
            "{tier}"
        );
        let ran = recorded("foreign-linked", tier);
        let told = &ran.summaries()[1].notes_as_text();
        assert!(told.iter().any(|note| note.starts_with("NVTX ranges of other code go to the tool")), "{told:?}");
    }
}
