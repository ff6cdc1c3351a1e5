//! Any bytes as a buffer of CUPTI records, whose lengths may be those of any library; their launches are attributed.

use arbitrary::Unstructured;
use gpu_activity::cupti::Strides;
use gpu_activity::cupti::decode::{Record, Records, Step, number};
use gpu_activity::join::{Context, Join, Limits};
use gpu_activity::record::Note;

/// The kinds that are read, and one that is not.
const KINDS: [u32; 12] = [1, 2, 4, 5, 10, 17, 22, 36, 37, 38, 46, 49];

pub fn run(data: &[u8]) {
    let _ended_early = read(&mut Unstructured::new(data));
}

fn read(source: &mut Unstructured<'_>) -> arbitrary::Result<()> {
    let mut table = Vec::new();
    for kind in KINDS {
        // The table has the form of measured lengths: a multiple of 8, or none.
        table.push((kind, 8 * u16::from(source.arbitrary::<u8>()?)));
    }
    let strides = Strides::from_table(&table);
    let notes = source.int_in_range(0..=16)?;
    let notes: Vec<(u32, u32, u64)> = (0..notes).map(|_| source.arbitrary()).collect::<arbitrary::Result<_>>()?;
    let mut bytes = source.bytes(source.len())?.to_vec();

    let before = steps(&bytes, &strides);
    let mut named = 0;
    let unknown = number(&mut bytes, 0, &strides, |_address| {
        named += 1;
        named
    });
    let after = steps(&bytes, &strides);
    assert_eq!(before.len(), after.len());
    assert_eq!(unknown, after.iter().find_map(|(_, step)| if let Step::Unknown(at) = step { Some(*at) } else { None }));
    let mut expected = 0;
    for ((place, before), (_, after)) in before.iter().zip(&after) {
        assert!(*place <= bytes.len());
        if let (Step::Record(Record::Op { op, .. }), Step::Record(Record::Op { op: other, name })) = (before, after) {
            assert_eq!(op, other);
            if matches!(op.work, gpu_activity::record::Work::Kernel(_)) {
                expected += 1;
                assert_eq!(*name, expected);
            }
        } else {
            assert_eq!(before, after);
        }
    }
    assert_eq!(u64::from(named), expected);
    attributed(&after, &notes);
    Ok(())
}

/// All records of a buffer with their places, and the reason for its end.
fn steps(bytes: &[u8], strides: &Strides) -> Vec<(usize, Step)> {
    let (mut records, mut all) = (Records::new(bytes, strides), Vec::new());
    loop {
        let place = records.place();
        let step = records.step();
        all.push((place, step));
        match step {
            Step::Record(_) => assert!(records.place() >= place + 8),
            Step::Unknown(at) | Step::Cut(at) => {
                assert_eq!((at, records.step()), (place, step), "the same again");
                return all;
            }
            Step::End => return all,
        }
    }
}

/// Every operation with a time is counted once, whatever launched it.
fn attributed(steps: &[(usize, Step)], notes: &[(u32, u32, u64)]) {
    let context = Context { parents: &[0, 0, 1, 1], keep: &|kept| kept < 8 };
    let mut all = Join::new(Limits { launches: 8, nodes: 8, calls: 8, has_calls: true, instances: 8 });
    all.ask_for_events();
    all.ask_for_details();
    for &(thread, correlation, instance) in notes {
        let (node, graph, enqueues) = (correlation % 6, instance % 5 == 0, instance % 3 != 0);
        all.note(thread, &Note::Called { correlation, node, instance, graph, at: 0, call: 0, enqueues });
    }
    let mut timed = 0;
    for (_, step) in steps {
        match step {
            Step::Record(Record::Op { op, .. }) => {
                timed += u64::from(op.start != 0 && op.end >= op.start);
                all.operation(op, true, &context);
            }
            Step::Record(Record::Call(call)) => all.call(call, true, &context),
            Step::Record(Record::Detail(detail)) => all.detail(detail),
            _ => {}
        }
    }
    all.drained(&context, 1);
    let totals = all.totals(1);
    assert_eq!(totals.total.operations, timed);
    let kernels: u64 = totals.kernels.values().map(|times| times.count).sum();
    assert_eq!(kernels + totals.memory.values().map(|(times, _)| times.count).sum::<u64>(), timed);
}
