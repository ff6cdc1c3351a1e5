//! A tool that slows one range down by a loop at each entry: for `tests/gate`, which checks that a comparison of runs
//! finds the slower range.
//!
//! `SLOWER=NAME:TURNS` names the range. Its parents become slower by the same time. Without the variable the tool only
//! receives calls, so runs with and without it differ by the loop alone.

use std::hint::black_box;

use nvtx_rs::export_tool;
use nvtx_rs::tool::{Call, Tool};

export_tool!(make);

fn make() -> impl Tool {
    let setting = std::env::var("SLOWER").unwrap_or_default();
    let (name, turns) = setting.rsplit_once(':').unwrap_or_default();
    let (name, turns) = (name.to_owned(), turns.parse().unwrap_or(0));
    move |call: &Call<'_>| {
        if let Call::Push { event, .. } = call
            && event.message == Some(&name)
        {
            black_box((0..turns).fold(1_u64, |number, turn| black_box(number.wrapping_mul(3) ^ turn)));
        }
    }
}
