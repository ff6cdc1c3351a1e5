//! Tables in our own style, fitted to a width: the name comes first, times are in units for people, and figures give
//! way before the name is cut. A line below the table names the columns that gave way.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::options::RenderOptions;
use super::table::{Cell, Column, Table, Unit};
use crate::text::number::{human, integer, share};
use crate::text::width::{blanks, shorten, width_of, wrapped};

/// What a name gets, if it needs it, before figures that can be dispensed with; and however narrow the table is.
const GOOD_NAME: usize = 24;
const MIN_NAME: usize = 12;
/// The rank of a column that is never dispensed with.
pub(super) const STAYS: usize = usize::MAX;
/// A time that is not known, its dash below the digits of the others.
pub(super) const NO_TIME: &str = "-   ";

/// Which part of a long name is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// Most of the start: names of kernels.
    Start,
    /// Most of the end: that is where the paths of Rust differ.
    End,
}

/// The figures of a column as text.
struct Figures {
    /// What the line below the table calls the column.
    name: String,
    header: String,
    rank: usize,
    is_text: bool,
    cells: Vec<String>,
}

impl Figures {
    fn width(&self) -> usize {
        self.cells.iter().map(|cell| width_of(cell)).max().unwrap_or(0).max(width_of(&self.header))
    }

    fn aligned(&self, cell: &str) -> String {
        let blanks = blanks(cell, self.width());
        if self.is_text { format!("{cell}{blanks}") } else { format!("{blanks}{cell}") }
    }
}

/// The lines of a table that has a column of names. `head` has the header and the rank of each other column: the one
/// with the lowest rank gives way first.
pub(super) fn fitted(
    table: &Table,
    keep: Keep,
    head: impl Fn(&Column) -> (String, usize),
    options: &RenderOptions,
) -> String {
    let rows = table.printed(options.rows);
    let (mut names, mut name_header) = (Vec::new(), Cow::Borrowed(""));
    let mut columns: Vec<Figures> = Vec::new();
    for (at, column) in table.columns.iter().enumerate() {
        let cells = rows.iter().map(|row| figure(row.get(at), column.unit, options.thousands)).collect();
        if column.is_name() {
            (names, name_header) = (cells, column.header.clone());
        } else {
            let (header, rank) = head(column);
            columns.push(Figures {
                name: column.page.to_string(),
                header,
                rank,
                is_text: column.unit == Unit::Text,
                cells,
            });
        }
    }
    let longest = names.iter().map(|name| width_of(name)).max().unwrap_or(0).max(width_of(&name_header));
    let mut gone = Vec::new();
    let short = loop {
        let taken: usize = columns.iter().map(|column| column.width() + 2).sum();
        let room = options.columns().saturating_sub(taken + 1).min(longest);
        let short = (room >= longest.min(GOOD_NAME)).then(|| told_apart(&names, room, keep)).flatten();
        let least = columns.iter().enumerate().min_by_key(|(_, column)| column.rank);
        match (short, least.filter(|(_, column)| column.rank < STAYS).map(|(place, _)| place)) {
            (Some(short), _) => break short,
            (None, Some(place)) => gone.push(columns.remove(place).name),
            (None, None) => break wide_enough(&names, room.max(MIN_NAME), longest, keep),
        }
    };
    let name_width = short.iter().map(|name| width_of(name)).max().unwrap_or(0).max(width_of(&name_header));

    let mut out = String::new();
    let mut line = |name: &str, cell: &dyn Fn(&Figures) -> String| {
        let mut text = format!(" {name}{}", blanks(name, name_width));
        for column in &columns {
            text += "  ";
            text += &column.aligned(&cell(column));
        }
        out += text.trim_end_matches(' ');
        out.push('\n');
    };
    line(&name_header, &|column| column.header.clone());
    line(&"-".repeat(name_width), &|column| "-".repeat(column.width()));
    for (place, name) in short.iter().enumerate() {
        line(name, &|column| column.cells[place].clone());
    }
    out + &left_out(&gone, options.columns())
}

/// Names the columns that gave way, in the order in which they did.
pub(super) fn left_out(names: &[String], width: usize) -> String {
    match names.join(", ") {
        none if none.is_empty() => none,
        names => wrapped("", &format!("Columns left out: {names}."), width),
    }
}

/// Names of at most `room` columns that differ where the whole names do; `None` where none are found.
fn told_apart(names: &[String], room: usize, keep: Keep) -> Option<Vec<String>> {
    let differ = |names: &[String]| names.iter().collect::<BTreeSet<_>>().len();
    let tails = match keep {
        Keep::Start => [room / 3, 0, room * 2 / 3, room],
        Keep::End => [room * 2 / 3, room, room / 3, 0],
    };
    let short = |tail: usize| names.iter().map(|name| shorten(name, room, tail)).collect::<Vec<_>>();
    tails.into_iter().map(short).find(|short| differ(short) == differ(names))
}

/// The same beyond the width of the output, where names differ so late that they cannot be told apart within it.
fn wide_enough(names: &[String], mut room: usize, longest: usize, keep: Keep) -> Vec<String> {
    loop {
        match told_apart(names, room, keep) {
            Some(short) => return short,
            None if room >= longest => return names.to_vec(),
            None => room += room / 4 + 1,
        }
    }
}

/// A figure for people.
pub(super) fn figure(cell: Option<&Cell>, unit: Unit, thousands: bool) -> String {
    let time = |ns: f64| human(ns.round() as u64);
    match (cell, unit) {
        (Some(Cell::Text(text)), _) => text.clone(),
        (Some(Cell::Whole(ns)), Unit::Ns) => human(*ns),
        (Some(Cell::Whole(value)), _) => integer(*value, thousands),
        (Some(Cell::Number(ns)), _) => time(*ns),
        (Some(Cell::About(ns)), _) => format!("~{}", time(*ns)),
        (Some(Cell::Share { part, whole }), _) => share(*part, *whole),
        (Some(Cell::Tested(sum)), Unit::Ns | Unit::Count) => match sum.parse() {
            Ok(value) => figure(Some(&Cell::Whole(value)), unit, thousands),
            Err(_) => sum.clone(),
        },
        (Some(Cell::Tested(percent)), Unit::Percent) => format!("{percent}%"),
        (Some(Cell::Tested(text)), _) => text.clone(),
        (_, Unit::Ns) => NO_TIME.to_owned(),
        (_, _) => "-".to_owned(),
    }
}
