//! Spans whose exits did not nest because a guard was held across `.await`. Finds their call sites, and folds each
//! chain of one name that they leave in the tree into one node.

use std::cmp::Reverse;

use range_model::stats::{Keyed, Lean, order};
use range_model::{Note, RangeStyle};

use crate::core::record::RangeKey;
use crate::core::session::Session;
use crate::core::session::catalog::{Catalog, ROOT};
use crate::core::session::joined::Joined;
use crate::core::session::misnested::Misnested;
use crate::core::span::site::place_of;
use crate::core::thread::state::ThreadState;

/// The largest number of call sites with a note.
const MAX_SITES: usize = 3;

/// The call sites to blame.
#[derive(Default)]
pub(crate) struct HeldGuards {
    /// The names of their rows.
    labels: Keyed<u32, ()>,
    /// One for each.
    pub(crate) notes: Vec<Note>,
}

impl HeldGuards {
    pub(crate) fn find(session: &Session, threads: &[&'static ThreadState]) -> Self {
        let mut sites: Vec<Seen> =
            session.losses.misnested.all().into_iter().map(|site| Seen::of(site, threads)).in_vec();
        // Of two ranges that do not nest, one is a future, which is entered once per poll, and the other a guard.
        if sites.iter().any(|seen| !seen.is_polled) {
            sites.retain(|seen| !seen.is_polled);
        }
        order::by_key(&mut sites, |Seen { site, .. }| {
            (Reverse(site.exits + site.elsewhere), site.metadata.name(), site.metadata.line())
        });
        let notes = sites.iter().take(MAX_SITES).map(|seen| note(&seen.site)).in_vec();
        let mut labels = Keyed::default();
        for seen in sites {
            seen.labels.into_iter().for_each(|(label, ())| _ = labels.insert(label, ()));
        }
        Self { labels, notes }
    }

    /// Updates the names of rows after some were joined to others.
    pub(crate) fn join(&mut self, joined: &Joined) {
        self.labels = self.labels.iter().map(|(&label, ())| (joined.label(label), ())).collect();
    }

    /// For each node, the node under which it counts: a chain of such a name counts under its uppermost node. Also
    /// returns those uppermost nodes.
    pub(crate) fn fold(&self, catalog: &mut Catalog) -> (Vec<u32>, Keyed<u32, ()>) {
        let (mut to, mut folded) = (vec![ROOT], Keyed::default());
        if self.labels.is_empty() {
            return ((0..catalog.nodes().len() as u32).in_vec(), folded);
        }
        for id in 1..catalog.nodes().len() {
            let Some(node) = catalog.nodes().get(id).cloned() else { break };
            let parent = to.get(node.parent as usize).copied().unwrap_or(ROOT);
            let is_chain = self.labels.contains_key(&node.label)
                && catalog
                    .nodes()
                    .get(parent as usize)
                    .is_some_and(|above| above.label == node.label && parent != ROOT);
            to.push(if is_chain {
                folded.row(parent);
                parent
            } else if parent == node.parent {
                id as u32
            } else {
                catalog.child(parent, RangeKey { label: node.label, category: 0, style: node.style })
            });
        }
        (to, folded)
    }
}

/// A call site, and the figures of its rows.
struct Seen {
    site: Misnested,
    labels: Keyed<u32, ()>,
    is_polled: bool,
}

impl Seen {
    fn of(site: Misnested, threads: &[&'static ThreadState]) -> Self {
        let (mut entries, mut calls, mut is_reentered, mut labels) = (0, 0_u64, false, Keyed::default());
        for row in threads.iter().flat_map(|thread| thread.rows()) {
            let identity =
                row.identity().filter(|identity| identity.metadata.is_some_and(|of| std::ptr::eq(of, site.metadata)));
            if let Some(identity) = identity.filter(|identity| identity.key.style == RangeStyle::PushPop) {
                is_reentered |= row.is_reentered();
                let row = row.copy_from(u64::MAX);
                entries += row.times.count;
                calls = calls.wrapping_add(row.calls); // see `Row::change_calls`
                labels.row(identity.key.label);
            }
        }
        Self { site, labels, is_polled: is_reentered || entries.saturating_sub(site.reopened) > calls }
    }
}

#[inline(never)]
fn note(site: &Misnested) -> Note {
    let Misnested { metadata, exits, elsewhere, .. } = *site;
    Note::MisnestedGuard { span: metadata.name().to_owned(), place: place_of(metadata), out_of_order: exits, elsewhere }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};
    use std::thread::sleep;
    use std::time::Duration;

    use range_model::Note;
    use tracing::{Instrument as _, info_span};

    use crate::Profiler;
    use crate::parts::splits::session::tests::measured;

    /// A future that is pending once.
    async fn give_way() {
        let mut given = false;
        std::future::poll_fn(|_| if std::mem::replace(&mut given, true) { Poll::Ready(()) } else { Poll::Pending })
            .await;
    }

    /// Holds the guard of a span across an `.await`.
    async fn job() {
        let _held = info_span!("job").entered();
        info_span!("before").in_scope(|| sleep(Duration::from_millis(1)));
        give_way().await;
        info_span!("after").in_scope(|| sleep(Duration::from_millis(1)));
    }

    /// Polls all in turn, until each is ready.
    fn run(mut tasks: Vec<Pin<Box<dyn Future<Output = ()>>>>) {
        while !tasks.is_empty() {
            tasks.retain_mut(|task| task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
    }

    #[test]
    fn tasks_that_hold_a_guard_are_one_row_and_named() {
        for summary in measured(Profiler::builder, || run((0..32).map(|_| Box::pin(job()) as _).collect())) {
            let [tree] = &summary.tree[..] else { panic!("{:#?}", summary.tree) };
            let children: Vec<(&str, u64, usize)> =
                tree.children.iter().map(|node| (node.name.as_str(), node.calls, node.children.len())).collect();
            assert_eq!((tree.name.as_str(), tree.calls), ("job", 32));
            assert_eq!(children, [("before", 32, 0), ("after", 32, 0)]);
            assert!(tree.total_ns <= summary.elapsed_ns, "counted once: {tree:?}");
            assert!(tree.total_ns >= 64_000_000, "{tree:?}");
            let [Note::MisnestedGuard { span, place: Some(place), out_of_order: 31, elsewhere: 0 }] =
                &summary.notes[..]
            else {
                panic!("{:#?}", summary.notes)
            };
            assert!(span == "job" && place.contains("guards.rs:"), "{span} {place}");
            assert_eq!(summary.losses.recursive_rows, 0);
        }
    }

    #[test]
    fn tasks_named_by_a_field_are_one_row() {
        async fn named() {
            let _held = info_span!("job", name = "one").entered();
            give_way().await;
        }
        for summary in measured(Profiler::builder, || run((0..8).map(|_| Box::pin(named()) as _).collect())) {
            let [tree] = &summary.tree[..] else { panic!("{:#?}", summary.tree) };
            assert_eq!((tree.name.as_str(), tree.calls, tree.children.len()), ("job: one", 8, 0));
        }
    }

    /// The task is correctly entered and left at each poll, so it is not to blame.
    #[test]
    fn a_future_around_a_held_guard_is_not_named() {
        for summary in measured(Profiler::builder, || {
            run((0..8).map(|_| Box::pin(job().instrument(info_span!("task"))) as _).collect());
        }) {
            let [Note::MisnestedGuard { span, .. }] = &summary.notes[..] else { panic!("{:#?}", summary.notes) };
            assert_eq!(span, "job");
        }
    }

    #[test]
    fn recursion_is_not_folded() {
        fn down(levels: u32) {
            let _level = info_span!("level").entered();
            if levels > 1 {
                down(levels - 1);
            }
        }
        for summary in measured(Profiler::builder, || {
            down(4);
            run((0..4).map(|_| Box::pin(job()) as _).collect());
        }) {
            let depth = |mut node: &range_model::summary::TreeNode| {
                let mut depth = 1;
                while let Some(child) = node.children.iter().find(|child| child.name == node.name) {
                    (node, depth) = (child, depth + 1);
                }
                depth
            };
            let depths: Vec<(&str, i32)> = summary.tree.iter().map(|node| (node.name.as_str(), depth(node))).collect();
            assert_eq!(depths, [("level", 4), ("job", 1)]);
        }
    }
}
