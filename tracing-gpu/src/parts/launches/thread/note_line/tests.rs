use super::*;

#[test]
fn a_first_call_is_the_two_notes_that_it_stands_for() {
    let most = FirstCall {
        id: (1 << ID_BITS) - 1,
        parent: (1 << ID_BITS) - 2,
        label: (1 << LABEL_BITS) - 3,
        start: u64::MAX - 4,
        correlation: u32::MAX - 5,
        node: u32::MAX - 6,
        graph: true,
        enqueues: true,
    };
    let least =
        FirstCall { id: 1, parent: 0, label: 0, start: 0, correlation: 0, node: 0, graph: false, enqueues: false };
    let mixed = FirstCall { label: 0x01_8000, enqueues: true, ..least };
    for first in [most, least, mixed, FirstCall { graph: false, ..most }, FirstCall { enqueues: false, ..most }] {
        let FirstCall { id, parent, label, start, correlation, node, graph, enqueues } = first;
        let began = Note::Began(Instance { id, parent, label, style: RangeStyle::PushPop, start });
        let called = Note::Called { correlation, node, instance: id, graph, at: 0, call: 0, enqueues };
        assert_eq!(first.line().map(|line| notes_of(&line)), Some((began, Some(called))));
    }
    let too_large = [
        FirstCall { id: most.id + 1, ..most },
        FirstCall { parent: 1 << 48, ..most },
        FirstCall { label: 1 << 24, ..most },
    ];
    assert!(too_large.iter().all(|first| first.line().is_none()));
}
