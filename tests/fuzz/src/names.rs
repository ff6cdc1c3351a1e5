//! Any names in every format: each stays unchanged, and none ends a line, a cell, a text or a script.

use arbitrary::{Arbitrary as _, Unstructured};
use range_files::{Chrome, Sqlite};
use range_model::summary::{CategoryStats, RangeStats, RangeStyle, Times, TreeNode};
use range_model::timeline::{Call, Item, Mark, Range, Sink, Value as Payload};
use range_model::{Note, Summary};
use range_report::export::CsvFlavor;
use range_report::{RenderOptions, Report, SummaryExt as _};
use rusqlite::Connection;
use serde_json::Value;

use super::csv;

/// Texts with a meaning in some format.
const ODD: [&str; 20] = [
    "</script>",
    "<!--",
    "]]>",
    "\"",
    "\"\"",
    ",",
    ";",
    "\r\n",
    "\n",
    "\0",
    "\u{1b}[2J",
    "\u{202e}",
    "\u{2028}",
    "\\",
    "'",
    "&amp;",
    "{{title}}",
    "<!-- data -->",
    " 17",
    "\u{1f469}\u{200d}\u{1f680}",
];

struct Names(Vec<String>);

impl Names {
    fn of(source: &mut Unstructured<'_>) -> arbitrary::Result<Self> {
        let mut names = Vec::new();
        for _ in 0..source.int_in_range(1..=6)? {
            let mut name = String::new();
            for _ in 0..source.int_in_range(0..=4)? {
                if bool::arbitrary(source)? {
                    name.push_str(source.choose(&ODD)?);
                } else {
                    name.push_str(source.arbitrary()?);
                }
            }
            names.push(name);
        }
        Ok(Self(names))
    }

    /// One of them, in turn.
    fn at(&self, number: usize) -> &str {
        &self.0[number % self.0.len()]
    }
}

pub fn run(data: &[u8]) {
    let Ok(names) = Names::of(&mut Unstructured::new(data)) else { return };
    let summary = summary(&names);
    tables(&summary);
    values(&summary);
    folded(&summary);
    trace(&names, &summary);
    database(&names, &summary);
    #[cfg(feature = "browser")]
    page(&names, &summary);
}

fn summary(names: &Names) -> Summary {
    let times = |number: usize| {
        let mut times = Times::new(1, 1_000 + number as u64);
        (times.min_ns, times.max_ns) = (times.total_ns, times.total_ns);
        times
    };
    let mut summary = Summary::default();
    (summary.process.command, summary.process.host) = (names.at(0).to_owned(), names.at(1).to_owned());
    for (number, name) in names.0.iter().enumerate() {
        let mut row = RangeStats::new(name, times(number));
        row.domain = (number % 2 == 1).then(|| names.at(number + 1).to_owned());
        summary.ranges.push(row);
        summary.categories.push(CategoryStats::new(name, times(number)));
        let mut node = TreeNode::new(name);
        (node.instances, node.calls, node.total_ns, node.self_ns) = (1, 1, 20, 10);
        let mut child = TreeNode::new(names.at(number + 1));
        (child.domain, child.instances, child.calls) = (Some(names.at(number + 2).to_owned()), 1, 1);
        (child.total_ns, child.self_ns) = (10, 10);
        node.children.push(child);
        summary.tree.push(node);
        summary.notes.push(Note::Text { text: name.clone() });
    }
    summary
}

/// There is nothing that a terminal interprets, at any width, and there are as many lines as with plain names.
fn tables(summary: &Summary) {
    for width in [0, 1, 40, 80, 100, 200] {
        let mut out = Vec::new();
        let options = RenderOptions::default().width(width);
        summary.render(Report::ALL, &options, &mut out).expect("writing to memory");
        let text = String::from_utf8(out).expect("tables are text");
        let acts = |letter: char| {
            letter != '\n'
                && (letter.is_control() || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'))
        };
        assert!(!text.contains(acts), "{text:?}");
    }
}

/// A reader of RFC 4180 gets each name back.
fn values(summary: &Summary) {
    // A range without a name has no label, whatever its domain.
    let ranges: Vec<String> = summary.ranges.iter().filter(|row| !row.name.is_empty()).map(RangeStats::label).collect();
    let categories: Vec<String> = summary.categories.iter().map(|row| row.category.clone()).collect();
    for (report, rows, names) in [
        (Report::Ranges, summary.ranges.len(), ranges),
        (Report::Categories, summary.categories.len(), categories),
        (Report::Tree, 2 * summary.tree.len(), Vec::new()),
    ] {
        let mut out = Vec::new();
        CsvFlavor::Rfc4180.write_report(summary, report, &mut out).expect("writing to memory");
        let text = String::from_utf8(out).expect("values are text");
        let lines = csv::lines(&text);
        assert_eq!(lines.len(), rows + 1, "{report}: {text:?}");
        assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{report}: {text:?}");
        for name in names.iter().filter(|name| !name.is_empty()) {
            assert!(lines.iter().any(|line| line.last() == Some(name)), "{report}: {name:?} is not in {text:?}");
        }
    }
}

/// One line for each stack, whose numbers add up.
fn folded(summary: &Summary) {
    let mut out = Vec::new();
    summary.write_folded(&mut out).expect("writing to memory");
    let text = String::from_utf8(out).expect("stacks are text");
    let mut sum = 0;
    for line in text.lines() {
        let (stack, number) = line.rsplit_once(' ').expect("a number after the stack");
        sum += number.parse::<u64>().expect("a number");
        assert!((1..=2).contains(&stack.split(';').count()) && !stack.starts_with('#'), "{line:?}");
    }
    assert_eq!(sum, 20 * summary.tree.len() as u64, "{text:?}");
}

/// Gives a sink each name in every place of an item.
fn fill(names: &Names, summary: &Summary, sink: &mut dyn Sink) {
    let at = |number: usize| names.at(number);
    sink.begin(&summary.process).expect("a new file");
    let fields: [(&'static str, Payload<'_>); 2] = [("key", Payload::Text(at(2))), ("float", Payload::Float(f64::NAN))];
    let mut items = vec![Item::Thread { thread: 1, name: at(3) }];
    for number in 0..names.0.len() {
        let (start, end) = (number as u64 * 10, number as u64 * 10 + 5);
        let range = Range { thread: 1, start, end, name: at(number), ..Range::default() };
        let style = if number % 2 == 0 { RangeStyle::PushPop } else { RangeStyle::StartEnd };
        let (domain, category) = (Some(at(number + 1)), Some(at(number + 2)));
        let payload = Some(Payload::Text(at(number + 3)));
        items.push(Item::Range(range.clone()));
        items.push(Item::Range(Range { style, domain, category, payload, fields: &fields, ..range }));
        let call = Call { call: 100 + number as u64, span: 1, thread: 1, start, end, ..Call::default() };
        items.push(Item::Call(Call { domain, name: at(number), fields: &fields, ..call }));
        items.push(Item::Mark(Mark { thread: 1, at: start, domain, text: at(number), level: 3, fields: &fields }));
    }
    items.iter().try_for_each(|item| sink.item(item)).expect("writing an item");
    sink.flush().expect("flushing");
    sink.end(summary, 0).expect("ending");
}

fn trace(names: &Names, summary: &Summary) {
    let mut out = Vec::new();
    fill(names, summary, &mut Chrome::new(&mut out));
    let events: Vec<Value> = serde_json::from_slice(&out).expect("a trace is a JSON array");
    let slices: Vec<&str> =
        events.iter().filter(|event| event["ph"] == "X").filter_map(|event| event["name"].as_str()).collect();
    for name in names.0.iter().filter(|name| !name.is_empty()) {
        assert!(slices.contains(&name.as_str()), "{name:?} is not among {slices:?}");
    }
    let lines = out.iter().filter(|byte| **byte == b'\n').count();
    assert!(lines <= events.len() + 2, "an event a line: {lines} lines, {} events", events.len());
}

fn database(names: &Names, summary: &Summary) {
    let folder = if std::path::Path::new("/dev/shm").is_dir() { "/dev/shm".into() } else { std::env::temp_dir() };
    let path = folder.join(format!("names-{}-{:?}.sqlite", std::process::id(), std::thread::current().id()));
    fill(names, summary, &mut Sqlite::new(&path));
    let read = || -> rusqlite::Result<Vec<String>> {
        let database = Connection::open(&path)?;
        let mut texts = database.prepare("SELECT CAST(value AS BLOB) FROM StringIds")?;
        let rows = texts.query_map([], |row| row.get::<_, Vec<u8>>(0))?;
        rows.map(|row| row.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())).collect()
    };
    let texts = read();
    let removed = std::fs::remove_file(&path);
    let texts = texts.expect("a database");
    removed.expect("the database was there");
    for name in &names.0 {
        assert!(texts.contains(name), "{name:?} is not among {texts:?}");
    }
}

/// No name opens or closes a tag: the page has the same tags as with plain names.
#[cfg(feature = "browser")]
fn page(names: &Names, run: &Summary) {
    use range_page::HtmlSink;
    let written = |names: &Names, run: &Summary| {
        let mut out = Vec::new();
        fill(names, run, &mut HtmlSink::new(&mut out).compared_with(names.at(0), Ok(run.clone())));
        String::from_utf8(out).expect("a page is text")
    };
    let page = written(names, run);
    let plain = Names((0..names.0.len()).map(|number| format!("name{number}")).collect());
    let tags = |page: &str| page.matches('<').count();
    assert_eq!(tags(&page), tags(&written(&plain, &summary(&plain))));
    let (_, data) = page.split_once("id=\"data\">").expect("the data");
    let (data, _) = data.split_once("</script>").expect("the end of the data");
    let data: Value = serde_json::from_str(data).expect("the data are JSON");
    assert!(data.is_object());
}
