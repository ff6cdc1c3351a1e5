//! Ranges projected onto streams.

use super::*;

#[test]
fn projected_ranges_are_above_their_stream() {
    let projection = |name, start, end, level| {
        Item::Projection(Projection { device: 0, context: 1, stream: 7, start, end, domain: None, name, level })
    };
    // Both of the same extent, the inner one first; then one of another thread.
    let mut items = vec![projection("inner", 5, 9, 1), projection("outer", 5, 9, 0), projection("other", 8, 12, 0)];
    items.push(Item::Operation(Operation { start: 5, end: 9, ..KERNEL }));
    let events = events(&file(&items, 0));
    let names = track_names(&events);
    let expected = [
        (101, "Stream 7 ranges, level 1"),
        (100, "Stream 7 ranges"),
        (1_000_000, "Stream 7 ranges (2)"),
        (150, "Stream 7"),
    ];
    assert_eq!(names, expected.map(|(tid, name)| (tid, name.to_owned())));
    let order: Vec<u64> = events
        .iter()
        .filter(|event| event["name"] == "thread_sort_index")
        .map(|event| event["args"]["sort_index"].as_u64().unwrap())
        .collect();
    assert_eq!(order, [101, 100, 100, 150]);
}

#[test]
fn levels_beyond_the_places_of_a_stream_stay_above_its_operations() {
    let projection =
        |level| Projection { device: 0, context: 1, stream: 7, start: 5, end: 9, domain: None, name: "deep", level };
    let mut items: Vec<Item<'_>> = (48..=60).map(|level| Item::Projection(projection(level))).collect();
    items.push(Item::Operation(Operation { start: 5, end: 9, ..KERNEL }));
    let events = events(&file(&items, 0));
    let slices = of_phase(&events, "X");
    let (operation, deep) = slices.split_last().unwrap();
    assert_eq!(operation["tid"], 150);
    assert!(deep.iter().all(|event| event["tid"] != 150 && event["args"]["level"].as_u64() >= Some(48)), "{deep:?}");
    let order = events.iter().filter(|event| event["name"] == "thread_sort_index");
    let order: Vec<u64> = order.map(|event| event["args"]["sort_index"].as_u64().unwrap()).collect();
    assert!(order.len() == 14 && order[..13].iter().all(|place| (148..=149).contains(place)), "{order:?}");
}
