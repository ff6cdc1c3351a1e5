//! Tables in our own style, fitted to a width: the name comes first, times are in readable units, and columns of
//! figures are dropped before the name is cut. A line below the table names the dropped columns.

use std::borrow::Cow;

use super::envelope::{section, styled};
use super::options::RenderOptions;
use super::table::{Cell, Column, Table, Unit};
use crate::text::number::{human, integer, share};
use crate::text::width::{blanks, shorten, width_of, wrapped};
use range_model::names::joined;
use range_model::stats::{Lean, Named, order};

/// The width that a long name gets before dispensable figures (`GOOD_NAME`), and in any table, however narrow
/// (`MIN_NAME`).
const GOOD_NAME: usize = 24;
const MIN_NAME: usize = 12;
/// The rank of a column that is never dropped.
pub(super) const STAYS: usize = usize::MAX;
/// An unknown time; its dash stands below the digits of the others.
pub(super) const NO_TIME: &str = "-   ";

/// The part of a long name that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// Most of the start: names of kernels.
    Start,
    /// Most of the end, where Rust paths differ.
    End,
}

/// A report of a table that is fitted, below its title; or the sentence that explains why there is none. The columns of
/// these names are dropped, the first one first.
pub(super) fn section_of(
    titles: [&str; 2],
    made: Result<Table, &str>,
    dropped: &'static [&'static str],
    options: &RenderOptions,
) -> String {
    let text = match made {
        Ok(Table { rows, absent: Some(sentence), .. }) if rows.is_empty() => sentence.to_owned(),
        Ok(table) => fitted(&table, Keep::End, &dropping(dropped), options),
        Err(sentence) => sentence.to_owned(),
    };
    section(styled(titles, options), &text)
}

/// The headers of the page, and ranks by which these columns are dropped, the first one first.
pub(super) fn dropping(dropped: &'static [&'static str]) -> impl Fn(&Column) -> (String, usize) {
    |column| {
        let rank = dropped.iter().position(|name| *name == column.page).unwrap_or(STAYS);
        (column.page.to_string(), rank)
    }
}

/// The figures of a column as text.
struct Figures {
    /// The name of the column in the line below the table.
    name: String,
    header: String,
    rank: usize,
    is_text: bool,
    shown: bool,
    width: usize,
    cells: Vec<String>,
}

impl Figures {
    fn aligned(&self, cell: &str) -> String {
        let blanks = blanks(cell, self.width);
        if self.is_text { format!("{cell}{blanks}") } else { format!("{blanks}{cell}") }
    }
}

/// The lines of a table with a column of names. `head` has the header and the rank of each other column: the column
/// with the lowest rank is dropped first.
pub(super) fn fitted(
    table: &Table,
    keep: Keep,
    head: &dyn Fn(&Column) -> (String, usize),
    options: &RenderOptions,
) -> String {
    let rows = table.printed(options.rows);
    let (mut names, mut name_header) = (Vec::new(), Cow::Borrowed(""));
    let mut columns: Vec<Figures> = Vec::new();
    for (at, column) in table.columns.iter().enumerate() {
        let cells: Vec<String> = rows.iter().map(|row| figure(row.get(at), column.unit, options.thousands)).in_vec();
        if column.is_name() {
            (names, name_header) = (cells, column.header.clone());
        } else {
            let (header, rank) = head(column);
            let width = cells.iter().map(|cell| width_of(cell)).largest().max(width_of(&header));
            let (name, is_text) = (column.page.to_string(), column.unit == Unit::Text);
            columns.push(Figures { name, header, rank, is_text, shown: true, width, cells });
        }
    }
    let longest = names.iter().map(|name| width_of(name)).largest().max(width_of(&name_header));
    let room = |columns: &[Figures]| {
        let taken: usize = columns.iter().filter(|column| column.shown).map(|column| column.width + 2).sum();
        options.columns().saturating_sub(taken + 1).min(longest)
    };
    let fitting = |columns: &[Figures]| {
        let room = room(columns);
        (room >= longest.min(GOOD_NAME)).then(|| told_apart(&names, room, keep)).flatten()
    };
    let mut by_rank: Vec<usize> = (0..columns.len()).filter(|&place| columns[place].rank < STAYS).in_vec();
    order::by_key(&mut by_rank, |&place| columns[place].rank);
    let mut fits = fitting(&columns);
    for &place in &by_rank {
        if fits.is_none() {
            columns[place].shown = false;
            fits = fitting(&columns);
        }
    }
    // Dropping a wide column last may leave room for narrow ones.
    for &place in by_rank.iter().rev() {
        let was_shown = std::mem::replace(&mut columns[place].shown, true);
        match fitting(&columns) {
            Some(short) => fits = Some(short),
            None => columns[place].shown = was_shown,
        }
    }
    let short = fits.unwrap_or_else(|| wide_enough(&names, room(&columns).max(MIN_NAME), longest, keep));
    let gone = by_rank.iter().map(|&place| &columns[place]).filter(|column| !column.shown);
    let gone: Vec<String> = gone.map(|column| column.name.clone()).in_vec();
    let name_width = short.iter().map(|name| width_of(name)).largest().max(width_of(&name_header));

    let mut out = String::new();
    let mut line = |name: &str, cell: &dyn Fn(&Figures) -> String| {
        let mut text = format!(" {name}{}", blanks(name, name_width));
        for column in columns.iter().filter(|column| column.shown) {
            text += "  ";
            text += &column.aligned(&cell(column));
        }
        out += text.trim_end_matches(' ');
        out.push('\n');
    };
    line(&name_header, &|column| column.header.clone());
    line(&"-".repeat(name_width), &|column| "-".repeat(column.width));
    for (place, name) in short.iter().enumerate() {
        line(name, &|column| column.cells[place].clone());
    }
    out + &left_out(&gone, options.columns())
}

/// A line with the dropped columns, in the order of dropping.
pub(super) fn left_out(names: &[String], width: usize) -> String {
    match joined(names, ", ") {
        none if none.is_empty() => none,
        names => wrapped("", &format!("Columns left out: {names}."), width),
    }
}

/// Names of at most `room` columns that differ wherever the whole names do; `None` if none are found.
fn told_apart(names: &[String], room: usize, keep: Keep) -> Option<Vec<String>> {
    let tails = match keep {
        Keep::Start => [room / 3, 0, room * 2 / 3, room],
        Keep::End => [room * 2 / 3, room, room / 3, 0],
    };
    let count = |names: &[String]| {
        let mut all: Vec<&String> = names.iter().in_vec();
        order::by(&mut all, Ord::cmp);
        all.dedup();
        all.len()
    };
    let wanted = count(names);
    for tail in tails {
        let short: Vec<String> = names.iter().map(|name| shorten(name, room, tail)).in_vec();
        if count(&short) == wanted {
            return Some(short);
        }
    }
    Some(cut_twice(names, room)).filter(|short| count(short) == wanted)
}

/// Shortens names with a common start to that start and the words from their first difference:
/// `sm90_gem…tilesize64x128x32_warp…`.
fn cut_twice(names: &[String], room: usize) -> Vec<String> {
    let head = |name: &str| shorten(name, room / 3, 0);
    let mut of_one_head: Named<String, (&str, usize)> = Named::default();
    for name in names {
        let (first, common) = of_one_head.row_or(head(name), || (name, usize::MAX));
        let same = first.chars().zip(name.chars()).take_while(|(a, b)| a == b).count();
        if *first != name {
            *common = same.min(*common);
        }
    }
    let cut = |name: &String| {
        let head = head(name);
        let common = of_one_head.get(&head).map_or(usize::MAX, |(_, common)| *common);
        let at = name.char_indices().nth(common).map_or(0, |(at, _)| at);
        let word = name[..at].rfind(|c: char| c.is_ascii_punctuation() || c == ' ').map_or(0, |before| before + 1);
        match word > head.len() {
            true => format!("{head}{}", shorten(&name[word..], room.saturating_sub(width_of(&head)), 0)),
            false => shorten(name, room, 0),
        }
    };
    names.iter().map(cut).in_vec()
}

/// The same beyond the width of the output, for names that differ so late that no shorter form distinguishes them.
fn wide_enough(names: &[String], mut room: usize, longest: usize, keep: Keep) -> Vec<String> {
    loop {
        match told_apart(names, room, keep) {
            Some(short) => return short,
            None if room >= longest => return names.to_vec(),
            None => room += room / 4 + 1,
        }
    }
}

/// A figure in readable form.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn apart(names: &[&str], room: usize, keep: Keep) -> Option<Vec<String>> {
        told_apart(&names.iter().map(ToString::to_string).collect::<Vec<_>>(), room, keep)
    }

    #[test]
    fn names_stay_different() {
        let gemm = ["64x128", "64x64"].map(|tile| {
            format!("sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize{tile}x32_execute_segment_k_off_kernel__5x_cublas")
        });
        let [a, b] = [&*gemm[0], &*gemm[1]];
        let short = apart(&[a, b, "relu"], 36, Keep::Start).unwrap();
        assert_eq!(short, ["sm90_xmma_g…tilesize64x128x32_execu…", "sm90_xmma_g…tilesize64x64x32_execut…", "relu"]);
        assert_eq!(apart(&[a, "relu"], 12, Keep::Start).unwrap(), ["sm90_xm…blas", "relu"]);
        assert_eq!(apart(&["engine::model::a", "engine::model::b"], 8, Keep::End).unwrap(), ["en…el::a", "en…el::b"]);
        assert_eq!(apart(&[a, b], 12, Keep::Start), None);
        assert_eq!(apart(&[a, a], 12, Keep::Start).map(|names| names.len()), Some(2), "one name twice");
    }

    #[test]
    fn a_narrow_column_comes_back_where_a_wide_one_goes() {
        let mut table = Table::new([Column::name("Range"), Column::of("Gaps"), Column::text("Causes")]);
        let causes = "launching 51 %, synchronising 17 %, copying 12 %";
        table.push(vec![Cell::text("attention block"), Cell::Whole(7), Cell::text(causes)]);
        let head = |column: &Column| (column.page.to_string(), if column.unit == Unit::Text { 1 } else { 0 });
        let print = |width| fitted(&table, Keep::End, &head, &RenderOptions::default().width(width));
        let all = " Range            Gaps  Causes\n";
        assert!(print(80).starts_with(all) && !print(80).contains("left out"), "{}", print(80));
        let narrow = [
            " Range            Gaps",
            " ---------------  ----",
            " attention block     7",
            " Columns left out: Causes.",
        ];
        assert_eq!(print(60).lines().collect::<Vec<_>>(), narrow);
    }

    /// Wider than the output, if nothing else distinguishes two names.
    #[test]
    fn a_name_is_as_wide_as_it_must_be() {
        let names = ["a", "b"].map(|part| format!("{}{part}{}", "x".repeat(50), "y".repeat(50)));
        let short = wide_enough(&names, 20, 101, Keep::End);
        assert!(short[0] != short[1] && short.iter().all(|name| width_of(name) < 101), "{short:?}");
    }
}
