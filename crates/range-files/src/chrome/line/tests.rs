//! Ranges of many kinds: domain, category, colour.

use serde_json::json;

use super::{events, file, of_phase, plain};
use range_model::timeline::{Item, Range};

#[test]
fn ranges_have_what_is_theirs_however_many_kinds_alternate() {
    let names = ["a", "b"];
    let kinds: Vec<_> = (0..27_u32)
        .map(|kind| {
            let name = |digit: u32| names.get(digit as usize).copied();
            (name(kind % 3), name(kind / 3 % 3), (kind / 9 < 2).then_some(0xff00_0000 | (kind / 9)))
        })
        .collect();
    // Few and many in turn, so that what is known is forgotten and found again.
    let order: Vec<usize> =
        (0..2_000).map(|at: usize| if at % 100 < 50 { at % 4 } else { at * 7 % kinds.len() }).collect();
    let items: Vec<Item<'_>> = order
        .iter()
        .zip((0..).step_by(10))
        .map(|(&kind, start)| {
            let (domain, category, color) = kinds[kind];
            Item::Range(Range { start, end: start + 5, domain, category, color, ..plain() })
        })
        .collect();
    let events = events(&file(&items, 0));
    let found = of_phase(&events, "X");
    assert_eq!(found.len(), order.len());
    for (event, kind) in found.into_iter().zip(order) {
        let (domain, category, color) = kinds[kind];
        let cat: Vec<&str> = domain.into_iter().chain(category).collect();
        let cat = if cat.is_empty() { "range".to_owned() } else { cat.join(",") };
        assert_eq!(event["cat"], cat);
        assert_eq!(event["args"]["color"], json!(color.map(|color| format!("0x{color:08x}"))));
    }
}
