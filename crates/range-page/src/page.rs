//! Assembles the page from its text, style and scripts, which are separate files, and the data.

use std::collections::HashMap;
use std::io::{self, Write};

use super::columns::{self, folded};
use super::data::Shown;
use super::items::{Bar, Launch};
use super::waits::WaitPart;
use range_model::timeline::Link;

const PAGE: &str = include_str!("page/page.html");
const STYLE: [&str; 3] =
    [include_str!("page/style.css"), include_str!("page/charts.css"), include_str!("page/tables.css")];
/// One program: later files use earlier ones.
const SCRIPTS: [&str; 30] = [
    include_str!("page/units.js"),
    include_str!("page/data.js"),
    include_str!("page/theme.js"),
    include_str!("page/colors.js"),
    include_str!("page/idle.js"),
    include_str!("page/calls.js"),
    include_str!("page/stats.js"),
    include_str!("page/late.js"),
    include_str!("page/details.js"),
    include_str!("page/reason.js"),
    include_str!("page/states.js"),
    include_str!("page/chain.js"),
    include_str!("page/timeline.js"),
    include_str!("page/lanes.js"),
    include_str!("page/trace.js"),
    include_str!("page/rows.js"),
    include_str!("page/pixels.js"),
    include_str!("page/drawing.js"),
    include_str!("page/strip.js"),
    include_str!("page/area.js"),
    include_str!("page/link.js"),
    include_str!("page/input.js"),
    include_str!("page/flame.js"),
    include_str!("page/slowest.js"),
    include_str!("page/tables.js"),
    include_str!("page/search.js"),
    include_str!("page/overview.js"),
    include_str!("page/heat.js"),
    include_str!("page/comparison.js"),
    include_str!("page/main.js"),
];
/// Stands between the data and the scripts: what is seen where scripts do not run, as in a sandboxed frame.
const UNSCRIPTED: &str = "<style>#unfinished { display: none }</style>
<p id=\"unscripted\" class=\"notice\">This page is complete, but draws its content by scripts, which do not run here: \
                          in a sandboxed frame, under a strict policy, or where they are switched off. Save the file, \
                          and open it in a browser.</p>
";
/// Placeholders of the page.
const STYLE_HERE: &str = "/* style */";
const TITLE_HERE: &str = "{{title}}";
const NOTICE_HERE: &str = "{{notice}}";
const DATA_HERE: &str = "<!-- data -->";

/// The page up to the data. Without the rest it opens, too, and shows `notice`.
pub(super) fn begin(title: &str, notice: &str, out: &mut impl Write) -> io::Result<()> {
    let (head, _) = halves();
    // The title comes last, because its text must not be searched for placeholders.
    let head = head.replace(STYLE_HERE, &STYLE.concat()).replace(NOTICE_HERE, &as_html(notice));
    out.write_all(head.replace(TITLE_HERE, &as_html(title)).as_bytes())
}

/// The data, the scripts and the end of the page.
pub(super) fn end(shown: &Shown<'_>, out: &mut impl Write) -> io::Result<()> {
    out.write_all(b"<script type=\"application/json\" id=\"data\">")?;
    serde_json::to_writer(InScript(&mut *out), shown)?;
    out.write_all(b"</script>\n")?;
    column("start", starts(&shown.bars, &shown.rows), out)?;
    column("length", shown.bars.iter().map(|bar| bar.end - bar.start), out)?;
    column("name", shown.bars.iter().map(|bar| bar.name.into()), out)?;
    column("detail", shown.bars.iter().map(|bar| bar.detail.into()), out)?;
    for (name, of) in
        [("on-cpu", (|bar| bar.ns_of(bar.on_cpu)) as fn(&Bar) -> u64), ("off-cpu", |bar| bar.ns_of(bar.off_cpu))]
    {
        column(name, unless_zero(&shown.bars.iter().map(of).collect::<Vec<_>>()), out)?;
    }
    column("color", unless_zero(&shown.bar_colors), out)?;
    calls(&shown.bars, &shown.links, &shown.waits, out)?;
    launches(&shown.bars, &shown.launches, out)?;
    out.write_all(UNSCRIPTED.as_bytes())?;
    out.write_all(b"<script>\n'use strict';\n(() => {\n")?;
    for script in SCRIPTS {
        out.write_all(script.as_bytes())?;
    }
    out.write_all(b"})();\n</script>\n")?;
    out.write_all(halves().1.as_bytes())
}

fn halves() -> (&'static str, &'static str) {
    PAGE.split_once(DATA_HERE).unwrap_or((PAGE, ""))
}

fn column(name: &str, numbers: impl Iterator<Item = u64>, out: &mut impl Write) -> io::Result<()> {
    write!(out, "<script type=\"text/plain\" id=\"column-{name}\">")?;
    columns::write(numbers, out)?;
    out.write_all(b"</script>\n")
}

/// Each start as the difference from the previous one on its row.
fn starts<'a>(bars: &'a [Bar], rows: &'a [u32]) -> impl Iterator<Item = u64> + 'a {
    let mut rest = bars;
    rows.iter().flat_map(move |length| {
        let (row, after) = rest.split_at((*length as usize).min(rest.len()));
        rest = after;
        let before = std::iter::once(0).chain(row.iter().map(|bar| bar.start));
        row.iter().zip(before).map(|(bar, before)| bar.start.saturating_sub(before))
    })
}

/// The calls of bars, the calls around them, and their spans, numbered for the page from 1 in the order of first use.
/// The first two are each written as the difference from the previous bar, so that most take a byte. A span is 0 if it
/// has the call's number. If no bar has a call, all columns are empty. The links are between such calls, and the parts
/// of waits are of such calls.
fn calls(bars: &[Bar], links: &[Link], waits: &[WaitPart], out: &mut impl Write) -> io::Result<()> {
    let bars = if bars.iter().all(|bar| bar.call == 0) { &[] } else { bars };
    let mut known: HashMap<u64, u64> = HashMap::from([(0, 0)]);
    let mut numbers: [Vec<u64>; 3] = std::array::from_fn(|_| Vec::with_capacity(bars.len()));
    for bar in bars {
        for (column, raw) in
            numbers.iter_mut().zip([bar.call, bar.parent, if bar.span == bar.call { 0 } else { bar.span }])
        {
            let next = known.len() as u64;
            column.push(*known.entry(raw).or_insert(next));
        }
    }
    let [calls, parents, spans] = numbers;
    let number = |raw: &u64| known.get(raw).copied().unwrap_or(0);
    column("link-batch", links.iter().map(|link| number(&link.batch)), out)?;
    column("link-served", links.iter().map(|link| number(&link.served)), out)?;
    let mut waits: Vec<&WaitPart> = waits.iter().collect();
    waits.sort_unstable_by_key(|wait| wait.start);
    column("wait-call", waits.iter().map(|wait| number(&wait.call)), out)?;
    column("wait-start", differences(&waits.iter().map(|wait| wait.start).collect::<Vec<_>>()), out)?;
    column("wait-length", waits.iter().map(|wait| wait.end - wait.start), out)?;
    column("wait-by", waits.iter().map(|wait| u64::from(wait.by) << 1 | u64::from(wait.is_for_worker)), out)?;
    column("call", differences(&calls), out)?;
    column("parent", differences(&parents), out)?;
    column("span", unless_zero(&spans), out)
}

/// The numbers, or nothing if all are zero, which the page assumes by default.
fn unless_zero<N: Copy + Into<u64>>(numbers: &[N]) -> impl Iterator<Item = u64> {
    let numbers = if numbers.iter().all(|number| (*number).into() == 0) { &[] } else { numbers };
    numbers.iter().map(|number| (*number).into())
}

fn differences(numbers: &[u64]) -> impl Iterator<Item = u64> {
    let before = std::iter::once(&0).chain(numbers);
    numbers.iter().zip(before).map(|(number, before)| folded(i128::from(*number) - i128::from(*before)))
}

/// The launch of each operation: its thread plus one, or 0; how long before the operation's start; its span; the bytes
/// moved; its number.
fn launches(bars: &[Bar], launches: &[Launch], out: &mut impl Write) -> io::Result<()> {
    let of_operations = bars.iter().filter(|bar| bar.launch > 0);
    column(
        "launch-thread",
        launches.iter().map(|launch| launch.at.map_or(0, |(thread, _)| u64::from(thread) + 1)),
        out,
    )?;
    let leads = of_operations.zip(launches).map(|(bar, launch)| match launch.at {
        Some((_, at)) => folded(i128::from(bar.start) - i128::from(at)),
        None => 0,
    });
    column("launch-lead", leads, out)?;
    column("launch-span", launches.iter().map(|launch| launch.span.into()), out)?;
    column("bytes", launches.iter().map(|launch| launch.bytes), out)?;
    column("correlation", launches.iter().map(|launch| launch.correlation.into()), out)
}

/// JSON inside a script: nothing in it may look like the end of the script or a comment. `<` occurs only in texts,
/// where it is written as an escape.
struct InScript<W>(W);

impl<W: Write> Write for InScript<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for (index, part) in bytes.split(|byte| *byte == b'<').enumerate() {
            if index > 0 {
                self.0.write_all(b"\\u003c")?;
            }
            self.0.write_all(part)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn as_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    #[test]
    fn the_page_has_a_place_for_all_its_parts() {
        for here in [STYLE_HERE, TITLE_HERE, NOTICE_HERE, DATA_HERE] {
            assert!(PAGE.contains(here), "{here}");
        }
        for script in SCRIPTS {
            assert!(!script.contains("</script") && !script.contains("<!--"), "{}", &script[..60]);
            assert!(!script.contains("http:") && !script.contains("https:"));
        }
    }

    #[test]
    fn calls_have_small_numbers_and_nothing_where_there_are_none() {
        let bar = |call, parent, span| Bar { call, span, parent, ..Bar::default() };
        let written = |bars: &[Bar], links: &[Link]| {
            let mut out = Vec::new();
            let wait = WaitPart { call: 70, start: 6, end: 9, by: 5, is_for_worker: true };
            calls(bars, links, if links.is_empty() { &[] } else { std::slice::from_ref(&wait) }, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            let columns = text.lines().map(|line| {
                let (_, column) = line.split_once('>').unwrap();
                STANDARD.decode(column.split_once('<').unwrap().0).unwrap()
            });
            columns.collect::<Vec<_>>()
        };
        // In page numbers: links from 3 to 1; a wait of 3 from 6 on, for 3 ns, for text 5 on its thread. Calls 1, 3, 3,
        // 0; parents 2, 1, 1, 0; spans: as the call, 1, as the call, none.
        let bars = [bar(1 << 40, 5, 1 << 40), bar(70, 1 << 40, 1 << 40), bar(70, 1 << 40, 70), bar(0, 0, 0)];
        let columns = [
            vec![3],
            vec![1],
            vec![3],
            vec![12],
            vec![3],
            vec![11],
            vec![2, 4, 0, 5],
            vec![4, 1, 0, 1],
            vec![0, 1, 0, 0],
        ];
        assert_eq!(written(&bars, &[Link { batch: 70, served: 1 << 40, weight: 1.0 }]), columns);
        assert_eq!(written(&bars[3..], &[]), [const { Vec::<u8>::new() }; 9]);
    }

    #[test]
    fn json_cannot_end_its_script() {
        let mut out = Vec::new();
        serde_json::to_writer(InScript(&mut out), &["</script><!--", "a<b"]).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(!text.contains('<'), "{text}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&text).unwrap(), ["</script><!--", "a<b"]);
    }
}
