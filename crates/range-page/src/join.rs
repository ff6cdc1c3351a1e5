//! Joins the pages of the processes of a run: reads back the items of each, and puts them on one clock, within the
//! limits of one page.

use std::collections::{BTreeMap, HashMap};
use std::io;

use serde::Deserialize;
use serde_json::Value;

use super::columns::{read, summed, unfolded};
use super::items::{Bar, Items, Launch, Part, Track, announce, number_of_last, part_of};
use super::processes::LeftOut;
use super::waits::WaitPart;
use range_model::summary::Process;
use range_model::timeline::Link;

/// What the data of a page say of its columns.
#[derive(Deserialize)]
struct Page {
    elapsed_ns: u64,
    devices: Vec<String>,
    threads: BTreeMap<u32, String>,
    groups: Vec<Group>,
    colors: Vec<u32>,
    texts: Vec<String>,
    left_out: LeftOut,
    linked: usize,
    waited: usize,
}

#[derive(Deserialize)]
struct Group {
    kind: String,
    thread: Option<u32>,
    gpu: Option<[u32; 3]>,
    tracks: Vec<Shape>,
}

#[derive(Deserialize)]
struct Shape {
    part: Part,
    rows: Vec<(u32, u32)>,
}

impl Group {
    fn track(&self, part: Part, thread: impl FnOnce(u32) -> u32) -> Option<Track> {
        match (&*self.kind, self.thread, self.gpu) {
            ("calls", ..) => Some(Track::Calls),
            (_, Some(own), _) => Some(Track::Thread { thread: thread(own), part }),
            ("device", _, Some([device, ..])) => Some(Track::Idle { device }),
            (_, _, Some([device, context, stream])) => Some(Track::Stream { device, context, stream, part }),
            _ => None,
        }
    }
}

/// The texts of a page by their numbers there, as they are numbered on the joined one once they are needed.
struct Texts {
    all: Vec<String>,
    numbers: Vec<Option<u32>>,
}

impl Texts {
    fn number(&mut self, of: u64, number: impl FnOnce(&str) -> u32) -> u32 {
        let index = usize::try_from(of).unwrap_or(usize::MAX);
        let (Some(text), Some(known)) = (self.all.get(index), self.numbers.get_mut(index)) else { return 0 };
        *known.get_or_insert_with(|| number(text))
    }
}

impl Items {
    /// Adds what is on the page of a process that started `offset` ns after the earliest.
    pub(super) fn join(&mut self, process: &Process, offset: u64, page: &[u8]) -> io::Result<()> {
        let (mut columns, of) = columns(page)?;
        let count = of.groups.iter().flat_map(|group| &group.tracks).flat_map(|track| &track.rows);
        let count = count.fold(0_usize, |sum, (_, length)| sum.saturating_add(*length as usize));
        let operations = rows(&of, Part::Operations);
        let mut column = |name, count| columns.remove(name).and_then(|text| read(text, count)).ok_or_else(not_whole);
        let (starts, lengths, names) = (column("start", count)?, column("length", count)?, column("name", count)?);
        let (details, colors) = (column("detail", count)?, column("color", count)?);
        let (on_cpu, off_cpu) = (column("on-cpu", count)?, column("off-cpu", count)?);
        let (calls, parents) = (summed(column("call", count)?), summed(column("parent", count)?));
        let spans = column("span", count)?;
        let launched = [
            column("launch-thread", operations)?,
            column("launch-lead", operations)?,
            column("launch-span", operations)?,
            column("bytes", operations)?,
            column("correlation", operations)?,
        ];
        let links = [column("link-batch", of.linked)?, column("link-served", of.linked)?];
        let waits = [column("wait-call", of.waited)?, column("wait-length", of.waited)?, column("wait-by", of.waited)?];
        let wait_starts = summed(column("wait-start", of.waited)?);

        self.joined.processes.push(process.clone());
        self.joined.offsets.push(offset);
        self.joined.until = self.joined.until.max(offset.saturating_add(of.elapsed_ns));
        let mut threads = HashMap::new();
        let main = self.joined.thread(&mut threads, process.pid);
        self.joined.mains.push(main);
        for (&thread, name) in &of.threads {
            announce(&mut self.threads, self.joined.thread(&mut threads, thread), name);
        }
        for thread in of.groups.iter().filter_map(|group| group.thread) {
            self.joined.thread(&mut threads, thread); // details may name it before its group comes
        }
        for device in &of.devices {
            let (number, name) = device.split_once(": ").unwrap_or((device, ""));
            if let Ok(number) = number.trim_start_matches("GPU ").parse() {
                announce(&mut self.devices, number, name);
            }
        }
        let base = self.joined.calls;
        let call = |number: u64| if number == 0 { 0 } else { base.saturating_add(number) };
        let most = calls.iter().chain(&parents).chain(&spans).copied().max().unwrap_or(0);
        self.joined.calls = base.saturating_add(most);

        let marks = rows(&of, Part::Marks);
        let came = of.left_out.came.saturating_sub((count - marks) as u64);
        self.joined.left_out = std::mem::take(&mut self.joined.left_out).with(&LeftOut { came, ..of.left_out });
        let mut texts = Texts { numbers: vec![None; of.texts.len()], all: of.texts };
        let mut index = 0;
        let mut operation = 0;
        for group in &of.groups {
            for shape in &group.tracks {
                let track = group.track(shape.part, |own| self.joined.thread(&mut threads, own));
                let track = track.ok_or_else(not_whole)?;
                for &(level, length) in &shape.rows {
                    let mut start = offset;
                    for item in index..index + length as usize {
                        start = start.saturating_add(starts[item]);
                        let end = start.saturating_add(lengths[item]);
                        let launch = operation;
                        operation += usize::from(shape.part == Part::Operations);
                        if shape.part == Part::Marks {
                            self.joined_mark(track, level, start, [names[item], details[item]], &mut texts);
                            continue;
                        }
                        if !self.accepts(start, end) {
                            continue;
                        }
                        let color = colors[item].checked_sub(1).and_then(|color| of.colors.get(color as usize));
                        let detail = texts.number(details[item], |text| {
                            let text = with_threads(text, &threads);
                            self.texts.number(&text)
                        });
                        let name = texts.number(names[item], |text| self.texts.number(text));
                        let launch = (shape.part == Part::Operations).then(|| {
                            let [thread, lead, span, bytes, correlation] = launched.each_ref().map(|of| of[launch]);
                            let thread = thread.checked_sub(1).and_then(|thread| u32::try_from(thread).ok());
                            let at = start.saturating_add_signed(unfolded(lead).saturating_neg());
                            let at = thread.map(|thread| (self.joined.thread(&mut threads, thread), at));
                            let span = texts.number(span, |text| self.texts.number(text));
                            let correlation = u32::try_from(correlation).unwrap_or(0);
                            self.launches.push(Launch { at, span, correlation, bytes });
                            number_of_last(&self.launches)
                        });
                        let bar = Bar {
                            level,
                            name,
                            detail,
                            color: color.map_or(0, |color| color + 1),
                            on_cpu: part_of(on_cpu[item], lengths[item]),
                            off_cpu: part_of(off_cpu[item], lengths[item]),
                            launch: launch.unwrap_or(0),
                            call: call(calls[item]),
                            parent: call(parents[item]),
                            span: call(if spans[item] == 0 { calls[item] } else { spans[item] }),
                            ..Bar::default()
                        };
                        self.push(track, start, end, bar);
                    }
                    index += length as usize;
                }
            }
        }
        for (&batch, &served) in links[0].iter().zip(&links[1]) {
            if self.links.len() < self.limit / 10 {
                self.links.push(Link { batch: call(batch), served: call(served), weight: 1.0 });
            } else {
                self.links_left_out = self.links_left_out.saturating_add(1);
            }
        }
        let [of_calls, lengths, by] = &waits;
        for (part, start) in wait_starts.into_iter().enumerate() {
            let start = offset.saturating_add(start);
            let part = WaitPart {
                call: call(of_calls[part]),
                start,
                end: start.saturating_add(lengths[part]),
                by: texts.number(by[part] >> 1, |text| self.texts.number(text)),
                is_for_worker: by[part] & 1 == 1,
            };
            self.waits.push(part, self.limit / 10);
        }
        Ok(())
    }

    fn joined_mark(&mut self, track: Track, level: u32, at: u64, [name, detail]: [u64; 2], texts: &mut Texts) {
        if self.marks.len() >= self.limit / 10 {
            self.marks_left_out = self.marks_left_out.saturating_add(1);
            return;
        }
        let detail = texts.number(detail, |text| self.texts.number_within(text, &mut self.left_for_marks));
        let name = texts.number(name, |text| self.texts.number(text));
        let track = self.track(track);
        self.marks.push(Bar { track, level, start: at, end: at, name, detail, ..Bar::default() });
    }
}

/// Number of items of a part.
fn rows(page: &Page, part: Part) -> usize {
    let tracks = page.groups.iter().flat_map(|group| &group.tracks).filter(|track| track.part == part);
    tracks.flat_map(|track| &track.rows).fold(0, |sum, (_, length)| sum.saturating_add(*length as usize))
}

/// A detail with the numbers of threads that they have on the joined page.
fn with_threads<'a>(text: &'a str, threads: &HashMap<u32, u32>) -> std::borrow::Cow<'a, str> {
    let keys = ["thread", "ended_on"];
    let is_same = threads.iter().all(|(own, number)| own == number);
    if is_same || !keys.iter().any(|key| text.contains(&format!("\"{key}\":"))) {
        return text.into();
    }
    let Ok(mut detail) = serde_json::from_str::<Value>(text) else { return text.into() };
    for key in keys {
        let Some(value) = detail.get_mut(key) else { continue };
        let own = value.as_u64().and_then(|own| u32::try_from(own).ok());
        if let Some(number) = own.and_then(|own| threads.get(&own)) {
            *value = (*number).into();
        }
    }
    detail.to_string().into()
}

/// The texts of the columns of a page by their names, and its other data.
fn columns(page: &[u8]) -> io::Result<(HashMap<&str, &[u8]>, Page)> {
    const END: &[u8] = b"</script>";
    let mut columns = HashMap::new();
    let mut data = None;
    let mut rest = page;
    while let Some((_, after)) = split(rest, b"<script type=\"") {
        let Some((script, next)) = split(after, END) else { break };
        rest = next;
        let Some((kind, text)) = split(script, b">") else { continue };
        if kind == b"application/json\" id=\"data\"" {
            data = Some(text);
        } else if let Some(name) = kind.strip_prefix(b"text/plain\" id=\"column-") {
            let name = std::str::from_utf8(name).unwrap_or_default().trim_end_matches('"');
            columns.insert(name, text);
        }
    }
    let data = data.filter(|_| page.trim_ascii_end().ends_with(b"</html>")).ok_or_else(not_whole)?;
    Ok((columns, serde_json::from_slice(data)?))
}

/// What stands before and after the first `mark`.
fn split<'a>(text: &'a [u8], mark: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let mut from = 0;
    loop {
        let at = from + text.get(from..)?.iter().position(|byte| Some(byte) == mark.first())?;
        if text.get(at..)?.starts_with(mark) {
            return Some((&text[..at], &text[at + mark.len()..]));
        }
        from = at + 1;
    }
}

fn not_whole() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the page was not written to its end")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HtmlLimits, HtmlSink, WriteHtml as _};
    use range_model::summary::{IdleCause, RangeStyle, Summary};
    use range_model::timeline::{
        ApiCall, Call, CallWait, IdleTime, Item, Mark, Operation, OperationName, Projection, Range, Sink, Value,
    };

    fn process(pid: u32, started_unix_ns: u64) -> Process {
        Process { pid, started_unix_ns, command: "bin/train".to_owned(), ..Process::default() }
    }

    /// An item of each kind.
    fn items() -> Vec<Item<'static>> {
        let fields = &[("id", Value::Unsigned(7))];
        let range = Range { thread: 4, start: 100, end: 900, name: "step", fields, ..Range::default() };
        let poll = Range { call: 21, span: 21, parent: 20, start: 120, end: 140, depth: 1, name: "poll", ..range };
        let call = Call { thread: 4, start: 110, end: 800, call: 21, span: 22, parent: 20, ..Call::default() };
        let operation = Operation { start: 300, end: 500, device: 1, context: 2, stream: 7, ..Operation::default() };
        let projection = Projection { start: 290, end: 510, device: 1, context: 2, stream: 7, ..Projection::default() };
        let lifetime = Range { style: RangeStyle::StartEnd, end_thread: Some(5), name: "life", ..range };
        vec![
            Item::Thread { thread: 4, name: "main" },
            Item::Device { device: 1, name: "H100: one" },
            Item::Range(Range { color: Some(0xff12_3456), on_cpu_ns: 400, off_cpu_ns: 200, ..range }),
            Item::Range(poll),
            Item::Range(Range { thread: 5, start: 30, end: 35, name: "other", ..Range::default() }),
            Item::Range(lifetime),
            Item::Call(Call { name: "request", ..call }),
            Item::Call(Call { name: "batch", call: 23, span: 23, start: 130, ..call }),
            Item::Link(Link { batch: 23, served: 21, weight: 1.0 }),
            Item::Wait(CallWait { call: 21, start: 140, end: 300, by: Some("poll"), ..CallWait::default() }),
            Item::Wait(CallWait { call: 23, start: 135, end: 150, is_for_worker: true, ..CallWait::default() }),
            Item::Mark(Mark { thread: 5, at: 33, domain: None, text: "mark", level: 2, fields }),
            Item::ApiCall(ApiCall { name: "cuLaunchKernel", thread: 4, start: 150, end: 160, ..ApiCall::default() }),
            Item::Operation(Operation {
                kernel: "k",
                launch: Some((4, 150)),
                span: Some("poll"),
                call: 21,
                ..operation
            }),
            Item::Operation(Operation { kernel: "early", start: 10, end: 20, launch: Some((5, 25)), ..operation }),
            Item::Projection(Projection { name: "step", level: 1, ..projection }),
            Item::Idle(IdleTime {
                device: 1,
                start: 20,
                end: 300,
                cause: IdleCause::Launching,
                ended_by: OperationName::Kernel("k"),
                thread: Some(4),
                charged_at: 20,
            }),
        ]
    }

    fn page(items: &[Item<'_>], process: &Process) -> Vec<u8> {
        let mut out = Vec::new();
        let mut sink = HtmlSink::new(&mut out);
        sink.begin(process).unwrap();
        items.iter().for_each(|item| sink.item(item).unwrap());
        sink.end(&Summary { elapsed_ns: 1_000, process: process.clone(), ..Summary::default() }, 3).unwrap();
        out
    }

    /// All that is known of the items of a process, with the numbers of its calls in the order of names.
    fn listed(mut items: Items, process: u32, offset: u64) -> Vec<String> {
        items.finish();
        let tracks: HashMap<u32, (u32, Track)> = items.tracks.iter().map(|(track, number)| (*number, *track)).collect();
        let texts = std::mem::take(&mut items.texts).into_list();
        let text = |number: u32| texts[number as usize].to_string();
        let mut bars: Vec<&Bar> = items.bars.iter().chain(&items.marks).collect();
        bars.retain(|bar| tracks[&bar.track].0 == process);
        bars.sort_by_key(|bar| (tracks[&bar.track], bar.start, bar.end, text(bar.name)));
        let mut calls = HashMap::from([(0, 0)]);
        let mut number = |call: u64| {
            let next = calls.len();
            *calls.entry(call).or_insert(next)
        };
        let mut all = Vec::new();
        for bar in bars {
            let launch = items.launches.get((bar.launch as usize).wrapping_sub(1)).map(|launch| {
                let at = launch.at.map(|(thread, at)| (thread, at - offset));
                format!("launched {at:?} in {} with {} bytes, {}", text(launch.span), launch.bytes, launch.correlation)
            });
            let (name, detail) = (text(bar.name), text(bar.detail));
            let (start, end) = (bar.start - offset, bar.end - offset);
            let span = if bar.span == 0 { bar.call } else { bar.span };
            let of = [number(bar.call), number(bar.parent), number(span)];
            let track = tracks[&bar.track].1;
            all.push(format!(
                "{track:?} {name} {start} {end} {detail} {:x} {} {} {of:?} {launch:?}",
                bar.color, bar.on_cpu, bar.off_cpu
            ));
        }
        let known = calls.clone();
        let links = items.links.iter().filter(|link| known.contains_key(&link.batch));
        all.extend(links.map(|link| format!("{} serves {}", known[&link.batch], known[&link.served])));
        let mut waits: Vec<&WaitPart> = items.waits.all.iter().filter(|wait| known.contains_key(&wait.call)).collect();
        waits.sort_by_key(|wait| wait.start);
        all.extend(waits.iter().map(|wait| {
            let (start, end) = (wait.start - offset, wait.end - offset);
            format!("{} waits {start} {end} {} {}", known[&wait.call], text(wait.by), wait.is_for_worker)
        }));
        all
    }

    fn joined(pages: &[(Process, Vec<u8>)], limits: HtmlLimits) -> Items {
        let mut items = Items::new(limits);
        for (process, page) in pages {
            items.join(process, process.started_unix_ns - 50, page).unwrap();
        }
        items
    }

    #[test]
    fn what_is_joined_is_what_the_pages_have() {
        let mut own = Items::new(HtmlLimits::default());
        items().iter().for_each(|item| own.add(item));
        let expected = listed(own, 0, 0);
        assert_eq!(expected.len(), 15, "{expected:#?}");
        // Of two containers: their processes and threads have the same numbers.
        let pages = [process(4, 50), process(4, 1_050)].map(|process| (process.clone(), page(&items(), &process)));
        let all = || joined(&pages, HtmlLimits::default());
        assert_eq!(listed(all(), 0, 0), expected);
        let renumbered = |text: &String| {
            let text = text.replace("thread: 4,", "thread: 10000004,").replace("thread: 5,", "thread: 10000005,");
            let text = text.replace("\"thread\":4", "\"thread\":10000004").replace("_on\":5", "_on\":10000005");
            text.replace("launched Some((", "launched Some((1000000")
        };
        let mut second = listed(all(), 1, 1_000);
        let mut shifted: Vec<String> = expected.iter().map(renumbered).collect();
        // A detail that has a thread was read and written: the order of its parts may be another.
        let is_of_thread = |text: &String| text.contains("\"thread\"") || text.contains("ended_on");
        assert_eq!(second.iter().filter(|text| is_of_thread(text)).count(), 2);
        for list in [&mut second, &mut shifted] {
            list.iter_mut().filter(|text| is_of_thread(text)).for_each(|text| {
                let mut letters: Vec<char> = text.chars().collect();
                letters.sort_unstable();
                *text = letters.into_iter().collect();
            });
        }
        assert_eq!(second, shifted);
        let all = all();
        assert_eq!((all.joined.until, all.joined.left_out.lost, all.came), (2_000, 6, 22));
        assert_eq!((all.joined.main_of(1), &*all.threads[&10_000_004]), (Some(10_000_004), "main"));
        assert_eq!(all.devices[&1], "H100: one");
        assert_eq!(all.joined.labels(), ["train (4)", "train (4)"]);
        let labels = |set: fn(&mut Process)| {
            let mut all = joined(&pages, HtmlLimits::default()).joined;
            all.processes.iter_mut().for_each(|process| process.rank = Some(3));
            set(&mut all.processes[1]);
            all.labels()
        };
        assert_eq!(labels(|_| ()), ["rank 3 (4)", "rank 3 (4)"]);
        assert_eq!(labels(|other| "x y".clone_into(&mut other.command)), ["rank 3: train (4)", "rank 3: x (4)"]);
        assert_eq!(labels(|other| "h".clone_into(&mut other.host))[1], "rank 3 (4) on h");
        assert_eq!(all.joined.identity().unwrap(), [("processes", "2".to_owned())]);
    }

    #[test]
    fn limits_hold_over_all_pages() {
        let range = |number: u64| Range { thread: 9, start: number * 100, end: number * 101, ..Range::default() };
        let ranges: Vec<Item<'_>> = (1..=60).map(|number| Item::Range(Range { name: "a", ..range(number) })).collect();
        let pages: Vec<(Process, Vec<u8>)> =
            (1..=5).map(|pid| process(pid, 50)).map(|process| (process.clone(), page(&ranges, &process))).collect();
        let mut items = joined(&pages, HtmlLimits { items: 100, text: 1_000 });
        items.finish();
        assert_eq!((items.bars.len(), items.came, items.left_out), (100, 300, 200));
        assert!(items.bars.iter().all(|bar| bar.end - bar.start >= 40), "the longest stay");
        let of_each = (0..5).map(|process| items.tracks.iter().filter(|((of, _), _)| *of == process).count());
        assert_eq!(of_each.collect::<Vec<_>>(), [1; 5]);
    }

    #[test]
    fn of_a_page_that_was_cut_nothing_is_taken() {
        let whole = page(&items(), &process(4, 50));
        let mut items = Items::new(HtmlLimits::default());
        let data = split(&whole, b"id=\"data\"").unwrap().0.len();
        for length in (0..data).step_by(997).chain(data..data + 2_000).chain([whole.len() - 9]) {
            assert!(items.join(&process(4, 50), 0, &whole[..length]).is_err(), "{length}");
        }
        assert!(items.bars.is_empty() && !items.joined.is_any());
        // A page of a summary has no items.
        let mut of_summary = Vec::new();
        Summary::default().write_html(&mut of_summary).unwrap();
        items.join(&process(4, 50), 0, &of_summary).unwrap();
        assert!(items.bars.is_empty());
    }
}
