//! The column formatter: lays out a table as `nsys stats --format column` does.
//!
//! Every generation of the tool uses one layout, so every table of this crate that imitates one goes through here. The
//! rules, each observed on the real tool:
//!
//! * a cell that reads as a number is written again as one (separators, no leading `+`, C's exponent form);
//! * the first [`Layout::scan_rows`] rows set the width of a column and whether it is numeric;
//! * in a numeric column decimal points stand below each other; a text column is padded on the right, the last one too;
//! * what is too long ends in `…`; lengths are counted as [`Layout::measure`] says, the tool counts code points;
//! * headers are centred, one blank leads each line, two stand between columns.

use std::borrow::Cow;

use super::options::RenderOptions;
use crate::text::number::Number;
use crate::text::width::Measure;

/// One cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    text: String,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A number if it reads as one: how the tool treats every cell.
    Tested,
    /// Text, whatever it reads as.
    Text,
    /// A number that is not quite what it says; printed with the mark before it.
    Marked(char),
    /// The place of a number that is not known; printed as `-`.
    Unknown,
}

impl Cell {
    /// A cell that counts as a number where it reads as one.
    pub(crate) fn tested(text: impl Into<String>) -> Self {
        Self { text: text.into(), kind: Kind::Tested }
    }

    /// A cell that stays as it is, even if it reads as a number.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), kind: Kind::Text }
    }

    /// A number with a `~` before it. The mark stands left of the number, so decimal points stay in line.
    pub(crate) fn approximate(number: impl Into<String>) -> Self {
        Self { text: number.into(), kind: Kind::Marked('~') }
    }

    /// A bound with a `<` before it, where the number itself says nothing.
    pub(crate) fn below(bound: impl Into<String>) -> Self {
        Self { text: bound.into(), kind: Kind::Marked('<') }
    }

    /// A `-` where a number is not known. It does not turn a column of numbers into one of text.
    pub(crate) fn unknown() -> Self {
        Self { text: "-".to_owned(), kind: Kind::Unknown }
    }

    /// What it says, for a program.
    fn value(&self) -> &str {
        match self.kind {
            Kind::Unknown | Kind::Marked('<') => "",
            Kind::Tested | Kind::Text | Kind::Marked(_) => &self.text,
        }
    }
}

/// How a table is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Separate thousands with a comma, as the tool does in an English locale.
    pub(crate) thousands: bool,
    /// Rows that set width and alignment; 0 for all.
    pub(crate) scan_rows: usize,
    /// Widest a column may be; 0 for no bound.
    pub(crate) max_width: usize,
    pub(crate) measure: Measure,
    /// Rows that are printed at most, where the table says what sums up the others.
    pub(crate) rows: usize,
}

impl Default for Layout {
    fn default() -> Self {
        Self { thousands: false, scan_rows: 100, max_width: 100, measure: Measure::default(), rows: usize::MAX }
    }
}

impl Layout {
    /// That of a table of Nsight Systems.
    pub(super) fn as_nsight(options: &RenderOptions) -> Self {
        let measure = if options.raw_names { Measure::CodePoints } else { Measure::Columns };
        Self { thousands: options.thousands, measure, rows: options.rows, ..Self::default() }
    }
}

/// Headers and rows of cells. A row that is shorter than the headers is filled with empty cells.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    headers: Vec<String>,
    rows: Vec<Vec<Cell>>,
    rest: Option<Rest>,
}

/// How the rows of a table that are not printed become one. Columns go by their numbers.
#[derive(Clone, Debug)]
pub(crate) struct Rest {
    /// Where their number stands.
    pub(crate) name: usize,
    /// Those that are summed up.
    pub(crate) sums: Vec<usize>,
    /// That of shares, and the one that they are shares of.
    pub(crate) share: Option<(usize, usize)>,
}

impl Table {
    pub(crate) fn new<H: Into<String>>(headers: impl IntoIterator<Item = H>) -> Self {
        Self { headers: headers.into_iter().map(Into::into).collect(), rows: Vec::new(), rest: None }
    }

    pub(crate) fn push(&mut self, row: Vec<Cell>) {
        self.rows.push(row);
    }

    /// With more columns behind its own: a header and a cell of each row.
    pub(crate) fn beside(
        mut self,
        headers: impl IntoIterator<Item = String>,
        rows: impl Iterator<Item = Vec<Cell>>,
    ) -> Self {
        let columns = self.headers.len();
        self.headers.extend(headers);
        for (row, more) in self.rows.iter_mut().zip(rows) {
            row.resize(columns, Cell::text(""));
            row.extend(more);
        }
        self
    }

    /// Prints as many rows as the [`Layout`] allows, and sums up the others.
    pub(crate) fn sum_up(mut self, rest: Rest) -> Self {
        self.rest = Some(rest);
        self
    }

    /// The rows that are printed: the first ones, and one for all others.
    fn printed(&self, most: usize) -> Cow<'_, [Vec<Cell>]> {
        let rest = self.rest.as_ref().filter(|_| self.rows.len() > most.saturating_add(1)); // one more is as short
        let Some(Rest { name, sums, share }) = rest else { return Cow::Borrowed(&self.rows) };
        let (shown, others) = self.rows.split_at(most);
        let mut row = vec![Cell::text(""); self.headers.len()];
        let mut set = |column: usize, cell: Cell| row.get_mut(column).map_or((), |place| *place = cell);
        for &column in sums {
            set(column, Cell::tested(sum(others, column)));
        }
        if let Some((column, of)) = *share {
            let number = |rows: &[Vec<Cell>]| sum(rows, of).parse().unwrap_or(0.0_f64);
            let (part, whole) = (number(others), number(&self.rows));
            set(
                column,
                if whole > 0.0 { Cell::tested(format!("{:.1}", 100.0 * part / whole)) } else { Cell::unknown() },
            );
        }
        set(*name, Cell::text(format!("({} more)", others.len())));
        Cow::Owned(shown.iter().cloned().chain([row]).collect())
    }

    /// The lines of the table as `nsys stats --format csv` writes them: cells as they are, between quotation marks
    /// where there is a comma in them, nothing doubled or escaped.
    pub(crate) fn csv(&self) -> String {
        let mut out = String::new();
        for record in self.records() {
            for (j, value) in record.into_iter().enumerate() {
                let mark = if value.contains(',') { "\"" } else { "" };
                out.extend([if j > 0 { "," } else { "" }, mark, value, mark]);
            }
            out.push('\n');
        }
        out
    }

    /// What the table says, for a program: the headers, then the values of each row. What is not known, and what is
    /// only bounded, is empty.
    pub(crate) fn records(&self) -> impl Iterator<Item = Vec<&str>> {
        let headers = self.headers.iter().map(String::as_str).collect();
        let rows = self.rows.iter();
        let values = rows.map(|row| (0..self.headers.len()).map(|j| row.get(j).map_or("", Cell::value)).collect());
        std::iter::once(headers).chain(values)
    }

    /// The lines of the table: header, dashes, rows; each ends in a line feed.
    pub(crate) fn render(&self, layout: &Layout) -> String {
        let (empty, rows) = (Cell::text(""), self.printed(layout.rows));
        let columns: Vec<Column> = self
            .headers
            .iter()
            .enumerate()
            .map(|(j, header)| {
                let cells = rows.iter().map(|row| row.get(j).unwrap_or(&empty));
                Column::lay_out(header, cells, layout)
            })
            .collect();

        let mut out = String::new();
        line(&mut out, columns.iter().map(Column::header));
        line(&mut out, columns.iter().map(|column| "-".repeat(column.width)));
        for i in 0..rows.len() {
            line(&mut out, columns.iter().map(|column| column.cell(i)));
        }
        out
    }
}

/// The sum of a column, with as many decimals as it has; what is not known, and what is only bounded, is left out.
fn sum(rows: &[Vec<Cell>], column: usize) -> String {
    let values = || rows.iter().filter_map(|row| row.get(column)).map(Cell::value);
    let whole: Option<u128> = values().filter(|value| !value.is_empty()).map(|value| value.parse::<u128>().ok()).sum();
    if let Some(whole) = whole {
        return whole.to_string();
    }
    let decimals = values().map(|value| value.split_once('.').map_or(0, |(_, decimals)| decimals.len())).max();
    format!("{:.*}", decimals.unwrap_or(0), values().filter_map(|value| value.parse::<f64>().ok()).sum::<f64>())
}

fn line(out: &mut String, cells: impl Iterator<Item = String>) {
    for (j, cell) in cells.enumerate() {
        out.push_str(if j == 0 { " " } else { "  " });
        out.push_str(&cell);
    }
    out.push('\n');
}

/// One column: its cells as they are printed, and what was decided from the scanned ones.
struct Column {
    header: String,
    cells: Vec<Printed>,
    width: usize,
    measure: Measure,
    numeric: bool,
    /// Room from the decimal point on, point included.
    fraction: usize,
}

impl Column {
    fn lay_out<'a>(header: &str, cells: impl Iterator<Item = &'a Cell>, layout: &Layout) -> Self {
        let measure = layout.measure;
        let cells: Vec<Printed> = cells.map(|cell| Printed::new(cell, layout.thousands)).collect();
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

/// A cell as it is printed.
struct Printed {
    text: String,
    /// For plain numbers: characters before the decimal point, and from it on.
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
    fn new(cell: &Cell, thousands: bool) -> Self {
        let number = match cell.kind {
            Kind::Tested | Kind::Marked(_) => Number::parse(&cell.text),
            Kind::Text | Kind::Unknown => None,
        };
        let Some(number) = number else {
            let vote = match cell.kind {
                Kind::Unknown => Vote::Number,
                _ if cell.text.is_empty() => Vote::None,
                _ => Vote::Text,
            };
            return Self { text: cell.text.clone(), parts: None, vote };
        };
        let mut text = number.to_text(thousands);
        if let Kind::Marked(mark) = cell.kind {
            text.insert(0, mark);
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
        let mut table = Table::new([header]);
        for cell in cells {
            table.push(vec![Cell::tested(*cell)]);
        }
        table.render(layout).lines().map(str::to_owned).collect()
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
        let mut all = Table::new(["Time (%)", "Total", "MB", "Max", "Name"]);
        for (share, total, name) in
            [("50.0", "500", "a"), ("30.0", "300", "b"), ("15.0", "150", "c"), ("5.0", "50", "d")]
        {
            all.push(["", total, "0.125", "7", name].map(Cell::tested).into());
            all.rows.last_mut().unwrap()[0] = Cell::tested(share);
        }
        let all = all.sum_up(Rest { name: 4, sums: vec![1, 2], share: Some((0, 1)) });
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
        let mut table = Table::new(["Med (ns)"]);
        table.push(vec![Cell::tested("1234.5")]);
        table.push(vec![Cell::approximate("7654321.0")]);
        table.push(vec![Cell::below("1280")]);
        table.push(vec![Cell::unknown()]);
        table.push(vec![Cell::unknown()]);
        let layout = Layout { thousands: true, ..Layout::default() };
        let lines: Vec<String> = table.render(&layout).lines().map(str::to_owned).collect();
        let expected = ["      1,234.5", " ~7,654,321.0", "     <1,280  ", "            -", "            -"];
        assert_eq!(lines[2..], expected);
    }

    #[test]
    fn a_column_of_nothing_but_bounds_is_one_of_numbers() {
        let mut table = Table::new(["Avg (ns)"]);
        table.push(vec![Cell::below("1280")]);
        table.push(vec![Cell::below("900")]);
        assert_eq!(table.render(&Layout::default()).lines().nth(2), Some("    <1280"));
    }

    #[test]
    fn text_stays_as_it_is() {
        let mut table = Table::new(["h"]);
        table.push(vec![Cell::text("1000"), Cell::text("beyond the headers: not printed")]);
        table.push(vec![]);
        let layout = Layout { thousands: true, ..Layout::default() };
        assert_eq!(table.render(&layout), "  h  \n ----\n 1000\n     \n");
    }

    /// Names of one, two and no columns a character, shortened and whole: all lines are as wide as the dashes.
    #[test]
    fn lines_are_equally_wide() {
        let names = ["load", "日本語モデル", "🚀👩‍🔬 run", "e\u{301}te\u{301}", "\u{200b}", "", "größe", "데이터"];
        for max_width in [0, 3, 4, 5, 6, 7] {
            for flip in [false, true] {
                let mut table = Table::new(["Name", "Range"]);
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
        /// Every line is as wide as the dashes say, whatever is in it; with separators or without.
        #[test]
        fn lines_are_equally_long(rows in cells(), thousands: bool, scan_rows in 0_usize..5, max_width in 0_usize..9) {
            let mut table = Table::new(["Total Time (ns)", "x", ""]);
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

        /// Cut at the dashes, each cell gives back its text.
        #[test]
        fn nothing_is_lost(rows in cells()) {
            let mut table = Table::new(["a", "b", "c"]);
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

        /// In a numeric column all points, and the ends of all integers, are in one place.
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
