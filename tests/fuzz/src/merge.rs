//! Summaries that differ from complete ones anywhere, read, merged, compared and printed.

use arbitrary::Unstructured;
use range_model::Summary;
#[cfg(feature = "browser")]
use range_page::WriteHtml as _;
use range_report::export::CsvFlavor;
use range_report::{Comparison, MergedSummaryExt as _, MergedTable, RenderOptions, Report, SummaryExt as _};
use serde_json::{Value, json};

use super::summary::comes_back;

const GOLDEN: [&str; 3] = [
    include_str!("../../golden/json/full.json"),
    include_str!("../../golden/json/cuda.json"),
    include_str!("../../golden/json/sycl.json"),
];

pub fn run(data: &[u8]) {
    let mut source = Unstructured::new(data);
    let mut all = Vec::new();
    while all.len() < 4 && !source.is_empty() {
        let Ok(value) = edited(&mut source) else { break };
        let Ok(summary) = Summary::read_json(value.to_string().as_bytes()) else { continue };
        comes_back(&summary);
        shown(&summary);
        all.push(summary);
    }
    merged(&all);
}

/// All reports and files of one summary.
pub(crate) fn shown(summary: &Summary) {
    let mut out = Vec::new();
    for width in [0, 40, 100, 1_000] {
        let options = RenderOptions::default().width(width);
        summary.render(Report::ALL, &options, &mut out).expect("writing to memory");
    }
    for report in Report::ALL {
        let _no_table = summary.write_csv(*report, &mut out);
        let _no_table = CsvFlavor::Rfc4180.write_report(summary, *report, &mut out);
    }
    summary.write_stream_csv(&mut out).expect("writing to memory");
    summary.write_folded(&mut out).expect("writing to memory");
    summary.write_folded_gpu(&mut out).expect("writing to memory");
}

fn merged(all: &[Summary]) {
    let merged = Summary::merge(all.iter().cloned());
    assert_eq!(merged.processes.len(), all.len());
    // A row without an instance does not count, whatever its total.
    let ranges = || all.iter().flat_map(|summary| &summary.ranges).filter(|row| row.times.instances > 0);
    let sum = |numbers: &mut dyn Iterator<Item = u64>| numbers.fold(0, u64::saturating_add);
    assert_eq!(
        sum(&mut merged.ranges.iter().map(|row| row.all.instances)),
        sum(&mut ranges().map(|row| row.times.instances))
    );
    assert_eq!(
        sum(&mut merged.ranges.iter().map(|row| row.all.total_ns)),
        sum(&mut ranges().map(|row| row.times.total_ns))
    );
    let mut other_order = all.to_vec();
    other_order.reverse();
    let reversed = Summary::merge(other_order);
    assert_eq!(reversed.ranges.len(), merged.ranges.len());
    assert_eq!(reversed.tree.len(), merged.tree.len());

    let (options, mut out) = (RenderOptions::default(), Vec::new());
    merged.render(&options, &mut out).expect("writing to memory");
    for table in MergedTable::ALL {
        merged.write_csv(*table, &mut out).expect("writing to memory");
        CsvFlavor::Rfc4180.write_merged(&merged, *table, &mut out).expect("writing to memory");
    }
    let mut text = Vec::new();
    merged.write_json(&mut text).expect("writing to memory");
    serde_json::from_slice::<Value>(&text).expect("what is written is JSON");

    let comparison = Comparison::of(all.iter().enumerate().map(|(number, summary)| (number.to_string(), summary)));
    comparison.render(&options, &mut out).expect("writing to memory");
    comparison.write_csv(&mut out).expect("writing to memory");
    comparison.write_json(&mut out).expect("writing to memory");
    let (_, _) = (comparison.regressions(10.0), comparison.added(0));
    #[cfg(feature = "browser")]
    comparison.write_html(&mut out).expect("writing to memory");
}

/// A complete summary with some values replaced, left out or doubled.
fn edited(source: &mut Unstructured<'_>) -> arbitrary::Result<Value> {
    let golden = source.choose(&GOLDEN)?;
    let mut value: Value = serde_json::from_str(golden).expect("golden JSON");
    for _ in 0..source.int_in_range(0..=24)? {
        // Goes down from the top, so that a short input reaches any depth.
        let mut path = String::new();
        for _ in 0..source.int_in_range(1..=8)? {
            let place: usize = source.arbitrary::<u8>()?.into();
            let below = match value.pointer(&path).expect("a path that was gone") {
                Value::Object(fields) if !fields.is_empty() => fields.keys().nth(place % fields.len()).cloned(),
                Value::Array(items) if !items.is_empty() => Some((place % items.len()).to_string()),
                _ => None,
            };
            let Some(below) = below else { break };
            path = format!("{path}/{below}");
        }
        let at = value.pointer_mut(&path).expect("a path that was gone");
        change(at, source)?;
    }
    Ok(value)
}

fn change(value: &mut Value, source: &mut Unstructured<'_>) -> arbitrary::Result<()> {
    match (source.int_in_range(0..=5)?, &mut *value) {
        (0, Value::Array(items)) if !items.is_empty() => {
            let place = source.choose_index(items.len())?;
            items.remove(place);
        }
        (1..=3, Value::Array(items)) if !items.is_empty() => {
            let copy = items[source.choose_index(items.len())?].clone();
            for _ in 0..source.int_in_range(1..=4)? {
                items.push(copy.clone());
            }
        }
        (0, Value::Object(fields)) if !fields.is_empty() => {
            let place = source.choose_index(fields.len())?;
            let name = fields.keys().nth(place).cloned().expect("a place below the length");
            fields.remove(&name);
        }
        (_, Value::Number(number)) => {
            let whole = number.is_u64();
            *value = match source.int_in_range(0..=6)? {
                0 => json!(0),
                1 => json!(u64::MAX),
                2 if whole => json!(source.arbitrary::<u64>()?),
                2 => json!(source.arbitrary::<f64>()?),
                3 => json!(f64::MAX),
                4 => json!(-source.arbitrary::<f64>()?),
                5 => json!(source.arbitrary::<u8>()?),
                _ => Value::Null,
            };
        }
        (0..=4, Value::String(text)) => *text = source.arbitrary::<String>()?,
        (_, Value::Bool(is)) => *is = !*is,
        _ => *value = Value::Null,
    }
    Ok(())
}
