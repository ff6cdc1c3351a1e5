//! Tables of a database, whose columns differ by version: one that is missing is NULL in all rows.

use rusqlite::Connection;
use rustc_hash::FxHashMap;

/// The columns of the tables that a database has.
pub(super) struct Tables {
    columns: FxHashMap<String, Vec<String>>,
}

impl Tables {
    pub(super) fn of(connection: &Connection) -> rusqlite::Result<Self> {
        let mut columns: FxHashMap<String, Vec<String>> = FxHashMap::default();
        let query =
            "SELECT m.name, p.name FROM sqlite_master m JOIN pragma_table_info(m.name) p WHERE m.type = 'table'";
        let mut statement = connection.prepare(query)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            columns.entry(row.get(0)?).or_default().push(row.get(1)?);
        }
        Ok(Self { columns })
    }

    pub(super) fn has(&self, table: &str) -> bool {
        self.columns.contains_key(table)
    }

    /// A query for these columns of a table. Of a table that is missing, it has no rows.
    pub(super) fn select(&self, table: &str, columns: &[&str], rest: &str) -> String {
        let Some(known) = self.columns.get(table) else {
            return format!("SELECT {} WHERE 0", vec!["NULL"; columns.len()].join(","));
        };
        let is_known = |column: &&str| known.iter().any(|name| name == column);
        let columns =
            columns.iter().map(|column| if is_known(column) { format!("\"{column}\"") } else { "NULL".into() });
        format!("SELECT {} FROM {table} {rest}", columns.collect::<Vec<_>>().join(","))
    }
}
