//! What was lost in many processes, together.

use crate::{ActivityLosses, Losses, StreamLosses};

/// Each field is named, so that none that is added is forgotten.
pub(super) fn add(all: &mut Losses, more: Losses) {
    let Losses {
        split_instances,
        stray_exits,
        open,
        names_over_limit,
        categories_over_limit,
        nodes_over_limit,
        recursive_rows,
        rows_without_median,
        streams: StreamLosses { pending, captured, refused, dropped, unreadable },
        activity:
            ActivityLosses {
                dropped_records,
                over_budget_records,
                without_time,
                unmatched,
                late,
                outstanding,
                forgotten_launches,
                forgotten_calls,
                unreadable_records,
            },
        spans_dropped,
    } = more;
    all.open.extend(open);
    let (streams, activity) = (&mut all.streams, &mut all.activity);
    for (sum, count) in [
        (&mut all.split_instances, split_instances),
        (&mut all.stray_exits, stray_exits),
        (&mut all.names_over_limit, names_over_limit),
        (&mut all.categories_over_limit, categories_over_limit),
        (&mut all.nodes_over_limit, nodes_over_limit),
        (&mut all.recursive_rows, recursive_rows),
        (&mut all.rows_without_median, rows_without_median),
        (&mut all.spans_dropped, spans_dropped),
        (&mut streams.pending, pending),
        (&mut streams.captured, captured),
        (&mut streams.refused, refused),
        (&mut streams.dropped, dropped),
        (&mut streams.unreadable, unreadable),
        (&mut activity.dropped_records, dropped_records),
        (&mut activity.over_budget_records, over_budget_records),
        (&mut activity.without_time, without_time),
        (&mut activity.unmatched, unmatched),
        (&mut activity.late, late),
        (&mut activity.outstanding, outstanding),
        (&mut activity.forgotten_launches, forgotten_launches),
        (&mut activity.forgotten_calls, forgotten_calls),
        (&mut activity.unreadable_records, unreadable_records),
    ] {
        *sum = sum.saturating_add(count);
    }
}

/// Open ranges in an order that does not depend on that of the processes.
pub(super) fn sort(all: &mut Losses) {
    all.open.sort_by(|a, b| {
        (&a.label, &a.thread, a.style, a.cut, a.count).cmp(&(&b.label, &b.thread, b.style, b.cut, b.count))
    });
}
