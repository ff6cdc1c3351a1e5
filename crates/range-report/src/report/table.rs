//! The column formatter: lays out a table like `nsys stats --format column`.
//!
//! Every generation of the tool uses one layout, so every table of this crate that imitates one goes through here. The
//! rules, each observed on the real tool:
//!
//! * a cell that reads as a number is rewritten as one (separators, no leading `+`, C's exponent form);
//! * the first [`Layout::scan_rows`] rows set the width of a column and whether it is numeric;
//! * in a numeric column decimal points are aligned; a text column is padded on the right, even the last one;
//! * a cell that is too long ends in `…`; [`Layout::measure`] determines how lengths are counted, the tool counts code
//!   points;
//! * headers are centred, one blank leads each line, two stand between columns.

use std::borrow::Cow;

use super::options::RenderOptions;
use crate::text::number::{Number, Rounding};
use crate::text::width::Measure;
use range_model::names::joined;
use range_model::stats::Lean;

/// One cell. Its variant determines how each form writes it: the text, comma-separated values, the page.
#[derive(Clone, Debug, PartialEq)]
#[doc(hidden)] // for the crate range-page
pub enum Cell {
    /// Text, even if it reads as a number.
    Text(String),
    /// A number if it reads as one: the tool treats every cell like this.
    Tested(String),
    /// Nanoseconds, bytes or a count, as the column's unit states.
    Whole(u64),
    /// Bytes, printed in this unit in the text.
    Size { bytes: f64, unit: f64 },
    /// An average.
    Mean { total: u64, count: u64 },
    /// A number that need not be whole, such as a median.
    Number(f64),
    /// A number from a histogram, printed with a `~` before it. The mark stands left of the number, so decimal points
    /// stay aligned.
    About(f64),
    /// A bound, printed with a `<` before it, because the number itself means nothing.
    Below(u64),
    /// A part of a whole, in per cent.
    Share { part: u64, whole: u128 },
    /// A `-` for an unknown number. It does not turn a column of numbers into one of text.
    Unknown,
    /// The name of rows outside of all ranges: empty in the text, words on the page.
    Outside,
}

impl Cell {
    /// A cell that counts as a number if it reads as one.
    pub(crate) fn tested(text: impl Into<String>) -> Self {
        Self::Tested(text.into())
    }

    /// A cell that stays unchanged, even if it reads as a number.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub(crate) fn known(figure: Option<u64>) -> Self {
        figure.map_or(Self::Unknown, Self::Whole)
    }

    /// An average; a `-` for an average of nothing.
    pub(crate) const fn mean(total: u64, count: u64) -> Self {
        if count == 0 { Self::Unknown } else { Self::Mean { total, count } }
    }

    /// The tool's form, without marks; `None` for an unknown number.
    fn written(&self, rounding: Rounding) -> Option<Cow<'_, str>> {
        Some(Cow::Owned(match *self {
            Self::Text(ref text) | Self::Tested(ref text) => return Some(Cow::Borrowed(text)),
            Self::Whole(value) | Self::Below(value) => value.to_string(),
            Self::Size { bytes, unit } => format!("{:.3}", bytes / unit),
            Self::Mean { total, count } => rounding.average(total, count)?,
            Self::Number(value) | Self::About(value) => rounding.rounded(value)?,
            Self::Share { part, whole } => rounding.percent(part, whole).unwrap_or_else(|| "None".to_owned()),
            Self::Unknown => return None,
            Self::Outside => return Some(Cow::Borrowed("")),
        }))
    }

    /// The value in a form for programs.
    fn value(&self, rounding: Rounding) -> Cow<'_, str> {
        match self {
            Self::Below(_) => Cow::Borrowed(""),
            _ => self.written(rounding).unwrap_or_default(),
        }
    }
}

/// The quantity of a column's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "page", derive(serde::Serialize), serde(rename_all = "lowercase"))]
#[doc(hidden)] // for the crate range-page
pub enum Unit {
    Text,
    Count,
    Ns,
    Percent,
    Bytes,
    Number,
    /// A difference in nanoseconds.
    #[cfg(feature = "page")]
    Difference,
    #[cfg(feature = "page")]
    Ratio,
}

/// The contents of a column in the row that sums up unprinted rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InRest {
    Nothing,
    Sum,
    /// The share of the sum in the column with this number.
    ShareOf(usize),
    /// The number of those rows.
    Name,
}

/// One column: its header, the quantity of its figures, and its name on the page. If one of the names is empty, only
/// the other form has the column.
#[derive(Clone, Debug)]
#[doc(hidden)] // for the crate range-page
pub struct Column {
    pub header: Cow<'static, str>,
    pub page: Cow<'static, str>,
    pub unit: Unit,
    rest: InRest,
}

impl Column {
    /// A column of figures, with the unit in the header as in Nsight Systems. On the page it has the same name.
    pub(crate) fn of(header: impl Into<Cow<'static, str>>) -> Self {
        Self::headed_by(header.into())
    }

    fn headed_by(header: Cow<'static, str>) -> Self {
        let (name, unit) = match header.rsplit_once(" (") {
            Some((name, "ns)")) => (name, Unit::Ns),
            Some((name, "%)")) => (name, Unit::Percent),
            Some((name, "MB)")) => (name, Unit::Bytes),
            _ => (&*header, Unit::Count),
        };
        // The capitalisation of the page's headers: `Awaited self`, `GPU busy`.
        let word = |(at, word): (usize, &str)| match word.chars().nth(1) {
            Some(second) if at > 0 && second.is_lowercase() => word.to_lowercase(),
            _ => word.to_owned(),
        };
        let page = joined(name.split(' ').enumerate().map(word), " ").into();
        Self { header, page, unit, rest: InRest::Nothing }
    }

    /// A column of text.
    pub(crate) fn text(header: impl Into<Cow<'static, str>>) -> Self {
        let header = header.into();
        Self { page: header.clone(), header, unit: Unit::Text, rest: InRest::Nothing }
    }

    /// The column of names, the first one on the page.
    pub(crate) fn name(header: impl Into<Cow<'static, str>>) -> Self {
        Self { rest: InRest::Name, ..Self::text(header) }
    }

    /// The column with another name on the page; with an empty one the page does not have it.
    pub(crate) fn page(self, page: &'static str) -> Self {
        Self { page: page.into(), ..self }
    }

    /// The column with another header and the same unit.
    pub(crate) fn headed(self, header: &'static str) -> Self {
        Self { header: header.into(), ..self }
    }

    pub(crate) fn unit(self, unit: Unit) -> Self {
        Self { unit, ..self }
    }

    pub(crate) fn summed(self) -> Self {
        Self { rest: InRest::Sum, ..self }
    }

    pub(crate) fn share_of(self, column: usize) -> Self {
        Self { rest: InRest::ShareOf(column), ..self }
    }

    #[must_use]
    pub fn is_name(&self) -> bool {
        self.rest == InRest::Name
    }

    fn is_printed(&self) -> bool {
        !self.header.is_empty() || self.page.is_empty()
    }
}

/// The layout of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Separate thousands with a comma, as the tool does in an English locale.
    pub(crate) thousands: bool,
    /// The number of rows that determine width and alignment; 0 for all.
    pub(crate) scan_rows: usize,
    /// The largest width of a column; 0 for no limit.
    pub(crate) max_width: usize,
    pub(crate) measure: Measure,
    /// The largest number of printed rows, if the table has a column that sums up the others.
    pub(crate) rows: usize,
}

impl Default for Layout {
    fn default() -> Self {
        Self { thousands: false, scan_rows: 100, max_width: 100, measure: Measure::default(), rows: usize::MAX }
    }
}

impl Layout {
    /// The layout of a table of Nsight Systems.
    pub(super) fn as_nsight(options: &RenderOptions) -> Self {
        let measure = if options.raw_names { Measure::CodePoints } else { Measure::Columns };
        Self { thousands: options.thousands, measure, rows: options.rows, ..Self::default() }
    }
}

/// The contents of a report: columns and rows of cells. A shorter row is filled with empty cells.
#[derive(Clone, Debug)]
#[doc(hidden)] // for the crate range-page
pub struct Table {
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Cell>>,
    pub(crate) rounding: Rounding,
    /// The text in place of a table without rows.
    pub(crate) absent: Option<&'static str>,
}

impl Table {
    /// Vectors and arrays only: for each type of an iterator, the compiler would make another function.
    pub(crate) fn new(columns: impl Into<Vec<Column>>) -> Self {
        Self { columns: columns.into(), rows: Vec::new(), rounding: Rounding::Decimal, absent: None }
    }

    pub(crate) fn rounded(self, rounding: Rounding) -> Self {
        Self { rounding, ..self }
    }

    /// Removes a column, by its name on the page.
    pub(crate) fn remove(&mut self, page: &str) {
        if let Some(at) = self.columns.iter().position(|column| column.page == page) {
            self.columns.remove(at);
            self.rows.iter_mut().for_each(|row| drop(row.remove(at)));
        }
    }

    pub(crate) fn push(&mut self, row: Vec<Cell>) {
        self.rows.push(row);
    }

    /// With more columns behind its own: a header and a cell of each row.
    #[cfg(feature = "compare")]
    pub(crate) fn beside(
        mut self,
        headers: impl IntoIterator<Item = String>,
        rows: impl Iterator<Item = Vec<Cell>>,
    ) -> Self {
        let columns = self.columns.len();
        self.columns.extend(headers.into_iter().map(Column::of));
        for (row, more) in self.rows.iter_mut().zip(rows) {
            row.resize(columns, Cell::text(""));
            row.extend(more);
        }
        self
    }

    /// Whether a printed figure comes from a histogram.
    pub(crate) fn is_approximate(&self) -> bool {
        let is_about = |(cell, column): (&Cell, &Column)| column.is_printed() && matches!(cell, Cell::About(_));
        self.rows.iter().any(|row| row.iter().zip(&self.columns).any(is_about))
    }

    /// The printed rows: the first ones, and one for all others if a column has names.
    pub(super) fn printed(&self, most: usize) -> Cow<'_, [Vec<Cell>]> {
        let sums_up = self.columns.iter().any(Column::is_name) && self.rows.len() > most.saturating_add(1);
        if !sums_up {
            return Cow::Borrowed(&self.rows); // a single one is as short
        }
        let (shown, others) = self.rows.split_at(most);
        let cell = |(at, column): (usize, &Column)| match column.rest {
            InRest::Nothing => Cell::text(""),
            InRest::Sum => Cell::tested(self.sum(others, at)),
            InRest::Name => Cell::text(format!("({} more)", others.len())),
            InRest::ShareOf(of) => {
                let number = |rows: &[Vec<Cell>]| self.sum(rows, of).parse().unwrap_or(0.0_f64);
                let (part, whole) = (number(others), number(&self.rows));
                if whole > 0.0 { Cell::tested(format!("{:.1}", 100.0 * part / whole)) } else { Cell::Unknown }
            }
        };
        let rest = self.columns.iter().enumerate().map(cell).in_vec();
        Cow::Owned([shown, &[rest]].concat())
    }

    /// The sum of a column, with as many decimals as the column has; unknown values and mere bounds are left out.
    fn sum(&self, rows: &[Vec<Cell>], column: usize) -> String {
        let values: Vec<_> =
            rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.value(self.rounding)).in_vec();
        let known = || values.iter().filter(|value| !value.is_empty());
        if let Some(whole) = known().map(|value| value.parse::<u128>().ok()).sum::<Option<u128>>() {
            return whole.to_string();
        }
        let decimals = known().map(|value| value.split_once('.').map_or(0, |(_, decimals)| decimals.len())).max();
        format!("{:.*}", decimals.unwrap_or(0), known().filter_map(|value| value.parse::<f64>().ok()).sum::<f64>())
    }

    /// The lines of the table in the form of `nsys stats --format csv`: cells unchanged, between quotation marks if
    /// they contain a comma, nothing doubled or escaped.
    pub(crate) fn csv(&self) -> String {
        let mut out = String::new();
        for record in self.records() {
            for (j, value) in record.into_iter().enumerate() {
                let mark = if value.contains(',') { "\"" } else { "" };
                out.extend([if j > 0 { "," } else { "" }, mark, &*value, mark]);
            }
            out.push('\n');
        }
        out
    }

    /// The table's values for a program: the headers, then the values of each row. Unknown values and mere bounds are
    /// empty.
    pub(crate) fn records(&self) -> impl Iterator<Item = Vec<Cow<'_, str>>> {
        let shown = || self.columns.iter().enumerate().filter(|(_, column)| column.is_printed());
        let headers = shown().map(|(_, column)| Cow::Borrowed(&*column.header)).in_vec();
        let value = |cell: Option<&'_ Cell>| {
            cell.map_or(Cow::Borrowed(""), |cell| Cow::Owned(cell.value(self.rounding).into_owned()))
        };
        let rows = self.rows.iter().map(move |row| shown().map(|(at, _)| value(row.get(at))).in_vec());
        std::iter::once(headers).chain(rows)
    }

    /// The lines of the table: header, dashes, rows; each ends in a line feed.
    pub(crate) fn render(&self, layout: &Layout) -> String {
        let (empty, rows) = (Cell::text(""), self.printed(layout.rows));
        let printed = self.columns.iter().enumerate().filter(|(_, column)| column.is_printed());
        let columns: Vec<LaidOut> = printed
            .map(|(j, column)| {
                let cells = rows.iter().map(|row| row.get(j).unwrap_or(&empty));
                let cells = cells.map(|cell| Printed::new(cell, self.rounding, layout.thousands)).in_vec();
                LaidOut::of(&column.header, cells, layout)
            })
            .in_vec();

        let mut out = String::new();
        line(&mut out, columns.iter().map(LaidOut::header));
        line(&mut out, columns.iter().map(|column| "-".repeat(column.width)));
        for i in 0..rows.len() {
            line(&mut out, columns.iter().map(|column| column.cell(i)));
        }
        out
    }
}

fn line(out: &mut String, cells: impl Iterator<Item = String>) {
    for (j, cell) in cells.enumerate() {
        out.push_str(if j == 0 { " " } else { "  " });
        out.push_str(&cell);
    }
    out.push('\n');
}

/// One column: its printed cells, and the decisions from the scanned ones.
struct LaidOut {
    header: String,
    cells: Vec<Printed>,
    width: usize,
    measure: Measure,
    numeric: bool,
    /// Room from the decimal point on, including the point.
    fraction: usize,
}

impl LaidOut {
    fn of(header: &str, cells: Vec<Printed>, layout: &Layout) -> Self {
        let measure = layout.measure;
        let scanned = if layout.scan_rows == 0 { cells.len() } else { layout.scan_rows.min(cells.len()) };

        let (mut whole, mut fraction, mut other) = (0, 0, 0);
        let (mut numbers, mut texts) = (0_usize, 0_usize);
        for cell in &cells[..scanned] {
            match cell.parts {
                Some((w, f)) => {
                    whole = whole.max(w);
                    fraction = fraction.max(f);
                }
                None => other = other.max(measure.of(&cell.text)),
            }
            match cell.vote {
                Vote::Number => numbers += 1,
                Vote::Text => texts += 1,
                Vote::None => {}
            }
        }
        let mut width = measure.of(header).max(whole + fraction).max(other);
        if layout.max_width > 0 {
            width = width.min(layout.max_width);
        }
        Self { header: header.to_owned(), cells, width, measure, numeric: numbers > texts, fraction }
    }

    fn header(&self) -> String {
        let header = self.clipped(&self.header);
        let room = self.width.saturating_sub(self.measure.of(&header));
        let left = room / 2;
        format!("{}{header}{}", " ".repeat(left), " ".repeat(room - left))
    }

    fn cell(&self, row: usize) -> String {
        let Printed { text, parts, .. } = &self.cells[row];
        let mut text = text.clone();
        if self.numeric
            && let Some((_, fraction)) = parts
        {
            text.push_str(&" ".repeat(self.fraction.saturating_sub(*fraction)));
        }
        let text = self.clipped(&text);
        let pad = self.measure.blanks(&text, self.width);
        if self.numeric { pad + &text } else { text + &pad }
    }

    fn clipped(&self, text: &str) -> String {
        self.measure.shorten(text, self.width, 0)
    }
}

/// A printed cell.
struct Printed {
    text: String,
    /// For plain numbers: characters before the decimal point, and from the point on.
    parts: Option<(usize, usize)>,
    vote: Vote,
}

#[derive(Clone, Copy)]
enum Vote {
    Number,
    Text,
    None,
}

impl Printed {
    fn new(cell: &Cell, rounding: Rounding, thousands: bool) -> Self {
        let text = cell.written(rounding).unwrap_or(Cow::Borrowed("-"));
        let is_text = matches!(cell, Cell::Text(_) | Cell::Unknown | Cell::Outside);
        let Some(number) = Number::parse(&text).filter(|_| !is_text) else {
            let vote = match cell {
                Cell::Text(_) | Cell::Tested(_) if text.is_empty() => Vote::None,
                Cell::Outside => Vote::None,
                Cell::Text(_) | Cell::Tested(_) | Cell::Share { .. } => Vote::Text,
                _ => Vote::Number,
            };
            return Self { text: text.into_owned(), parts: None, vote };
        };
        let mut text = number.to_text(thousands);
        match cell {
            Cell::About(_) => text.insert(0, '~'),
            Cell::Below(_) => text.insert(0, '<'),
            _ => {}
        }
        let parts = number.has_point_position().then(|| {
            let whole = text.find('.').unwrap_or(text.len());
            (whole, text.len() - whole)
        });
        Self { text, parts, vote: Vote::Number }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::width::width_of;
    use proptest::prelude::*;

    fn table(header: &str, cells: &[&str], layout: &Layout) -> Vec<String> {
        let mut table = Table::new([Column::of(header.to_owned())]);
        for cell in cells {
            table.push(vec![Cell::tested(*cell)]);
        }
        table.render(layout).lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_header_has_the_unit_and_the_name_on_the_page() {
        let of = |header| {
            let column = Column::of(header);
            (column.page.into_owned(), column.unit)
        };
        let (name, headers) = (String::from, ["GPU Self Busy (ns)", "Time (%)", "Total (MB)", "Calls"]);
        let expected = [
            (name("GPU self busy"), Unit::Ns),
            (name("Time"), Unit::Percent),
            (name("Total"), Unit::Bytes),
            (name("Calls"), Unit::Count),
        ];
        assert_eq!(headers.map(of), expected);
    }

    #[test]
    fn decimal_points_stand_below_each_other() {
        let grouped = Layout { thousands: true, ..Layout::default() };
        let lines = table("h", &["1000", "2.75", "-0.5", "text"], &grouped);
        assert_eq!(lines, ["    h    ", " --------", " 1,000   ", "     2.75", "    -0.5 ", "     text"]);
    }

    #[test]
    fn a_tie_is_text_and_empty_cells_do_not_vote() {
        assert_eq!(table("h", &["10", "x", ""], &Layout::default())[2..], [" 10", " x ", "   "]);
        assert_eq!(table("h", &["10", "20", "x"], &Layout::default())[4], "  x");
    }

    #[test]
    fn rows_that_are_not_printed_are_summed_up() {
        let [total, size] = ["Total", "MB"].map(|header| Column::of(header).summed());
        let share = Column::of("Time (%)").share_of(1);
        let mut all = Table::new([share, total, size, Column::of("Max"), Column::name("Name")]);
        for (share, total, name) in
            [("50.0", "500", "a"), ("30.0", "300", "b"), ("15.0", "150", "c"), ("5.0", "50", "d")]
        {
            all.push(["", total, "0.125", "7", name].map(Cell::tested).into());
            all.rows.last_mut().unwrap()[0] = Cell::tested(share);
        }
        let lines = |rows: usize| -> Vec<String> {
            all.render(&Layout { rows, ..Layout::default() })
                .lines()
                .skip(2)
                .map(|line| line.trim_end().to_owned())
                .collect()
        };
        let printed = lines(2);
        assert_eq!(
            printed,
            [
                "     50.0    500  0.125    7  a",
                "     30.0    300  0.125    7  b",
                "     20.0    200  0.250       (2 more)"
            ]
        );
        assert_eq!((lines(3).len(), lines(3).last().map(String::as_str)), (4, Some("      5.0     50  0.125    7  d")));
        assert_eq!(all.csv().lines().count(), 5, "a file has all");
    }

    #[test]
    fn exponents_take_no_part_in_the_alignment() {
        assert_eq!(table("h", &["1.25", "1e6", "3"], &Layout::default())[2..], ["  1.25", " 1e+06", "  3   "][..]);
    }

    #[test]
    fn rows_beyond_the_scanned_ones_are_clipped() {
        let layout = Layout { scan_rows: 1, ..Layout::default() };
        assert_eq!(table("", &["abc", "abcd", "日本語é"], &layout)[2..], [" abc", " ab…", " 日…"]);
        assert_eq!(table("", &["1", "12.25"], &layout)[2..], [" 1", " …"]);
        let layout = Layout { measure: Measure::CodePoints, ..layout };
        assert_eq!(table("", &["abc", "abcd", "日本語é"], &layout)[2..], [" abc", " ab…", " 日本…"]);
    }

    #[test]
    fn marked_and_unknown_numbers_keep_the_column() {
        let mut table = Table::new(["Med (ns)"].map(Column::of));
        table.push(vec![Cell::tested("1234.5")]);
        table.push(vec![Cell::About(7_654_321.0)]);
        table.push(vec![Cell::Below(1_280)]);
        table.push(vec![Cell::Unknown]);
        table.push(vec![Cell::Unknown]);
        let layout = Layout { thousands: true, ..Layout::default() };
        let lines: Vec<String> = table.render(&layout).lines().map(str::to_owned).collect();
        let expected = ["      1,234.5", " ~7,654,321.0", "     <1,280  ", "            -", "            -"];
        assert_eq!(lines[2..], expected);
    }

    #[test]
    fn a_column_of_nothing_but_bounds_is_one_of_numbers() {
        let mut table = Table::new(["Avg (ns)"].map(Column::of));
        table.push(vec![Cell::Below(1_280)]);
        table.push(vec![Cell::Below(900)]);
        assert_eq!(table.render(&Layout::default()).lines().nth(2), Some("    <1280"));
    }

    #[test]
    fn text_stays_as_it_is() {
        let mut table = Table::new(["h"].map(Column::of));
        table.push(vec![Cell::text("1000"), Cell::text("beyond the headers: not printed")]);
        table.push(vec![]);
        let layout = Layout { thousands: true, ..Layout::default() };
        assert_eq!(table.render(&layout), "  h  \n ----\n 1000\n     \n");
    }

    /// With names of one, two and zero columns a character, shortened and whole, all lines are as wide as the dashes.
    #[test]
    fn lines_are_equally_wide() {
        let names = ["load", "日本語モデル", "🚀👩‍🔬 run", "e\u{301}te\u{301}", "\u{200b}", "", "größe", "데이터"];
        for max_width in [0, 3, 4, 5, 6, 7] {
            for flip in [false, true] {
                let mut table = Table::new(["Name", "Range"].map(Column::of));
                for name in names {
                    let (name, number) = (Cell::tested(name), Cell::tested("12.5"));
                    table.push(if flip { vec![name.clone(), name] } else { vec![number, name] });
                }
                let text = table.render(&Layout { max_width, ..Layout::default() });
                assert!(
                    text.lines().all(|line| width_of(line) == width_of(&text[..text.find('\n').unwrap()])),
                    "{text}"
                );
            }
        }
        let layout = Layout { scan_rows: 1, ..Layout::default() };
        assert_eq!(table("", &["abcd", "abcde", "日本語"], &layout)[2..], [" abcd", " abc…", " 日… "]);
    }

    fn cells() -> impl Strategy<Value = Vec<Vec<String>>> {
        let cell = prop_oneof![
            "[-+]?(0|[1-9][0-9]{0,9})(\\.[0-9]{0,4})?",
            "[-+]?[1-9]\\.[0-9]{1,3}[eE][-+]?[0-9]{1,2}",
            "[a-z0-9é日 :.,]{0,14}",
        ];
        prop::collection::vec(prop::collection::vec(cell, 3), 0..12)
    }

    proptest! {
        /// Every line is as wide as the dashes, whatever its contents; with separators or without.
        #[test]
        fn lines_are_equally_long(rows in cells(), thousands: bool, scan_rows in 0_usize..5, max_width in 0_usize..9) {
            let mut table = Table::new(["Total Time (ns)", "x", ""].map(Column::of));
            for row in &rows {
                table.push(row.iter().map(Cell::tested).collect());
            }
            let text = table.render(&Layout { thousands, scan_rows, max_width, ..Layout::default() });
            let lengths: Vec<usize> = text.lines().map(width_of).collect();
            prop_assert_eq!(lengths.len(), rows.len() + 2);
            prop_assert!(lengths.iter().all(|length| *length == lengths[0]), "{}", text);
            let widest = text.lines().nth(1).unwrap().split("  ").map(|dashes| dashes.trim().len()).max();
            prop_assert!(max_width == 0 || widest <= Some(max_width));
        }

        /// Cut at the dashes, each cell gives its text back.
        #[test]
        fn nothing_is_lost(rows in cells()) {
            let mut table = Table::new(["a", "b", "c"].map(Column::of));
            for row in &rows {
                table.push(row.iter().map(Cell::tested).collect());
            }
            let measure = Measure::CodePoints;
            let text = table.render(&Layout { scan_rows: 0, max_width: 0, measure, ..Layout::default() });
            let lines: Vec<Vec<char>> = text.lines().map(|line| line.chars().collect()).collect();
            let mut start = 1;
            for column in 0..3 {
                let width = lines[1][start..].iter().take_while(|c| **c == '-').count();
                for (row, line) in rows.iter().zip(&lines[2..]) {
                    let printed: String = line[start..start + width].iter().collect();
                    let expected = match Number::parse(&row[column]) {
                        Some(number) => number.to_text(false),
                        None => row[column].clone(),
                    };
                    prop_assert_eq!(printed.trim(), expected.trim());
                }
                start += width + 2;
            }
        }

        /// In a numeric column all points, and the ends of all integers, are aligned.
        #[test]
        fn points_are_aligned(
            numbers in prop::collection::vec("-?(0|[1-9][0-9]{0,8})(\\.[0-9]{1,5})?", 1..9), thousands: bool,
        ) {
            let layout = Layout { thousands, ..Layout::default() };
            let cells: Vec<&str> = numbers.iter().map(String::as_str).collect();
            let lines = table("n", &cells, &layout);
            let points = lines[2..].iter().map(|line| line.find('.').unwrap_or(line.trim_end().len()));
            prop_assert!(points.collect::<std::collections::BTreeSet<_>>().len() == 1, "{:?}", lines);
        }
    }
}
