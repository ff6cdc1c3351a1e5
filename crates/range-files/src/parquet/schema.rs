//! The datasets and their columns. `docs/parquet.md` explains them, and `docs/queries/schema.json` has them for the
//! engines; tests compare both with this file.

use parquet::basic::Encoding;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnPath, TypePtr};

/// What a column holds, and how it is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Whole numbers of which few differ: by their place in a dictionary.
    Code,
    /// Whole numbers that grow, or of which most differ: by their differences.
    Number,
    /// Texts, by their place in a dictionary.
    Text,
    /// Truth values.
    Truth,
    /// The fields of a span: texts by their names.
    Fields,
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Whether a row may have no value in it. Fields may always be missing.
    pub(super) is_optional: bool,
}

/// The datasets, in the order of [`ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dataset {
    Ranges,
    Calls,
    States,
    Waits,
    Kernels,
    Copies,
    Api,
    Findings,
    Collectives,
}

/// Every dataset with its name and its columns, in the order of the cells of a row.
pub(super) const ALL: [(Dataset, &str, &[Column]); 9] = [
    (Dataset::Ranges, "ranges", RANGES),
    (Dataset::Calls, "calls", CALLS),
    (Dataset::States, "states", STATES),
    (Dataset::Waits, "waits", WAITS),
    (Dataset::Kernels, "kernels", KERNELS),
    (Dataset::Copies, "copies", COPIES),
    (Dataset::Api, "api", API),
    (Dataset::Findings, "findings", FINDINGS),
    (Dataset::Collectives, "collectives", COLLECTIVES),
];

const PID: Column = code("pid");
const START: Column = number("start_ns");
const DURATION: Column = number("duration_ns");
const DOMAIN: Column = text("domain").optional();
const FIELDS: Column = column("fields", Kind::Fields);
const WINDOW_START: Column = code("window_start_ns");
const WINDOW: Column = code("window_ns");

const RANGES: &[Column] = &[
    PID,
    code("thread"),
    text("thread_name").optional(),
    START,
    DURATION,
    DOMAIN,
    text("name"),
    text("style"),
    code("depth"),
    text("category").optional(),
    code("color").optional(),
    FIELDS,
    code("end_thread").optional(),
    truth("cut"),
    number("on_cpu_ns"),
    number("off_cpu_ns"),
    number("span_id").optional(),
    number("call_id").optional(),
    number("parent_id").optional(),
];

const CALLS: &[Column] = &[
    PID,
    code("thread"),
    START,
    DURATION,
    DOMAIN,
    text("name"),
    text("ending"),
    FIELDS,
    number("span_id").optional(),
    number("call_id").optional(),
    number("parent_id").optional(),
];

const STATES: &[Column] = &[
    PID,
    WINDOW_START,
    WINDOW,
    text("subject"),
    code("device").optional(),
    DOMAIN,
    text("name").optional(),
    text("state"),
    number("time_ns"),
    number("of_ns"),
    number("instances"),
];

const WAITS: &[Column] = &[
    PID,
    WINDOW_START,
    WINDOW,
    text("waiter"),
    text("waited_for").optional(),
    text("resource").optional(),
    text("value").optional(),
    number("waits"),
    number("time_ns"),
    number("longest_ns"),
    number("of_waits").optional(),
    number("by_chance").optional(),
    number("p99_without_ns").optional(),
];

/// The columns of operations on a GPU, with those of one kind before and after their numbers.
macro_rules! of_operation {
    ([$($before:expr),*], [$($after:expr),*]) => {
        &[
            PID,
            code("device"),
            code("context"),
            code("stream"),
            START,
            DURATION,
            $($before,)*
            number("correlation").optional(),
            number("graph_node").optional(),
            text("captured").optional(),
            $($after,)*
            code("launch_thread").optional(),
            number("launch_ns").optional(),
            text("span").optional(),
            text("path").optional(),
            number("call_id").optional(),
        ]
    };
}

const KERNELS: &[Column] = of_operation!(
    [text("name"), text("symbol").optional()],
    [
        code("grid_x"),
        code("grid_y"),
        code("grid_z"),
        code("block_x"),
        code("block_y"),
        code("block_z"),
        code("registers"),
        code("static_shared_bytes"),
        code("dynamic_shared_bytes")
    ]
);

const COPIES: &[Column] =
    of_operation!([text("kind"), code("bytes"), text("source").optional(), text("destination").optional()], []);

const API: &[Column] = &[
    PID,
    code("thread"),
    START,
    DURATION,
    text("api"),
    text("name"),
    number("correlation").optional(),
    code("result"),
];

const FINDINGS: &[Column] = &[
    PID,
    WINDOW_START,
    WINDOW,
    code("number"),
    text("kind"),
    text("path").optional(),
    number("at_stake_ns"),
    number("of_ns").optional(),
    text("sentence"),
    text("advice").optional(),
];

const COLLECTIVES: &[Column] = &[
    PID,
    code("communicator"),
    number("number"),
    text("name"),
    START,
    DURATION,
    number("alone_ns"),
    text("before_range").optional(),
    text("before_state").optional(),
    number("before_ns").optional(),
];

const fn column(name: &'static str, kind: Kind) -> Column {
    Column { name, kind, is_optional: false }
}

const fn code(name: &'static str) -> Column {
    column(name, Kind::Code)
}

const fn number(name: &'static str) -> Column {
    column(name, Kind::Number)
}

const fn text(name: &'static str) -> Column {
    column(name, Kind::Text)
}

const fn truth(name: &'static str) -> Column {
    column(name, Kind::Truth)
}

impl Column {
    const fn optional(self) -> Self {
        Self { is_optional: true, ..self }
    }

    /// Its type for the engines.
    #[cfg(test)]
    pub(super) const fn sql(&self) -> &'static str {
        match self.kind {
            Kind::Code | Kind::Number => "BIGINT",
            Kind::Text => "STRING",
            Kind::Truth => "BOOLEAN",
            Kind::Fields => "MAP<STRING, STRING>",
        }
    }

    /// Its declaration in the language of Parquet.
    fn declared(&self) -> String {
        let Self { name, kind, is_optional } = *self;
        let presence = if is_optional { "OPTIONAL" } else { "REQUIRED" };
        match kind {
            Kind::Code | Kind::Number => format!("{presence} INT64 {name};"),
            Kind::Text => format!("{presence} BYTE_ARRAY {name} (UTF8);"),
            Kind::Truth => format!("{presence} BOOLEAN {name};"),
            Kind::Fields => format!(
                "OPTIONAL GROUP {name} (MAP) {{ REPEATED GROUP key_value {{ \
                 REQUIRED BYTE_ARRAY key (UTF8); REQUIRED BYTE_ARRAY value (UTF8); }} }}"
            ),
        }
    }
}

/// The schema of the files of a dataset.
pub(super) fn schema(columns: &[Column]) -> parquet::errors::Result<TypePtr> {
    let declared: String = columns.iter().map(Column::declared).collect();
    parse_message_type(&format!("message row {{ {declared} }}")).map(TypePtr::new)
}

/// How the columns are written.
pub(super) fn properties(columns: &[Column]) -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(parquet::basic::Compression::SNAPPY)
        .set_offset_index_disabled(true)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_max_row_group_row_count(None);
    for column in columns {
        properties = match column.kind {
            Kind::Code | Kind::Truth => properties,
            Kind::Number => properties
                .set_column_dictionary_enabled(ColumnPath::from(column.name), false)
                .set_column_encoding(ColumnPath::from(column.name), Encoding::DELTA_BINARY_PACKED),
            // The least and the greatest of some texts help no query, and cost a fifth of the time.
            Kind::Text => without_statistics(properties, &[column.name]),
            Kind::Fields => {
                let properties = without_statistics(properties, &[column.name, "key_value", "key"]);
                without_statistics(properties, &[column.name, "key_value", "value"])
            }
        };
    }
    properties.build()
}

fn without_statistics(properties: WriterPropertiesBuilder, path: &[&str]) -> WriterPropertiesBuilder {
    let path = ColumnPath::new(path.iter().map(|part| (*part).to_owned()).collect());
    properties.set_column_statistics_enabled(path, EnabledStatistics::None)
}
