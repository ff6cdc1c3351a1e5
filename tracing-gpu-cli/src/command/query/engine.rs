//! The engine: DataFusion, with a table for each dataset.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io, thread};

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ScalarValue, Statistics};
use datafusion::config::TableParquetOptions;
use datafusion::datasource::TableType;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::object_store::local::LocalFileSystem;
use datafusion::object_store::path::Path as StorePath;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt as _;

use super::datasets::{Dataset, Datasets, File};

/// Where the engine finds the folder of all datasets.
const STORE: &str = "datasets://";
/// Bytes of a row, roughly: the engine compares sizes of tables.
const BYTES_OF_ROW: usize = 16;
/// How often it is told how much was read.
const PACE: Duration = Duration::from_millis(200);

/// Takes the answer in pieces, each with the names of its columns, and is told meanwhile how many rows were read.
pub(super) trait Reader {
    fn read(&mut self, rows: usize);
    fn take(&mut self, piece: &RecordBatch) -> io::Result<()>;
}

/// Runs a query. Returns the datasets that it asks for and that have no files; it is an error if that is all of them.
pub(super) fn run(
    folder: &Path,
    datasets: Datasets,
    query: &str,
    reader: &mut dyn Reader,
) -> io::Result<Vec<&'static str>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build()?;
    runtime.block_on(answer(folder, datasets, query, reader)).map_err(|error| match error {
        DataFusionError::IoError(error) => error,
        error => io::Error::other(error.strip_backtrace()),
    })
}

async fn answer(folder: &Path, datasets: Datasets, query: &str, reader: &mut dyn Reader) -> Result<Vec<&'static str>> {
    let mut config = SessionConfig::new();
    config.options_mut().sql_parser.default_null_ordering = "nulls_last".to_owned(); // as DuckDB does
    let context = SessionContext::new_with_config(config);
    let store = ObjectStoreUrl::parse(STORE)?;
    context.register_object_store(store.as_ref(), Arc::new(LocalFileSystem::new_with_prefix(folder)?));
    let empty: Vec<&str> =
        datasets.iter().filter(|(_, dataset)| dataset.files.is_empty()).map(|(name, _)| *name).collect();
    for (name, dataset) in datasets {
        context.register_table(name, Arc::new(Table::new(dataset, store.clone())?))?;
    }
    let frame = context.sql(query).await?;
    let mut asked = Vec::new();
    frame.logical_plan().apply_with_subqueries(|plan| {
        if let LogicalPlan::TableScan(scan) = plan {
            asked.push(scan.table_name.table().to_owned());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let missing: Vec<&str> = empty.into_iter().filter(|name| asked.iter().any(|asked| asked == name)).collect();
    if !asked.is_empty() && asked.iter().all(|asked| missing.contains(&asked.as_str())) {
        let line = format!("`{}` has no files of the query's datasets: {}", folder.display(), missing.join(", "));
        return Err(io::Error::new(io::ErrorKind::NotFound, line).into());
    }
    let plan = frame.create_physical_plan().await?;
    let mut pieces = execute_stream(plan.clone(), context.task_ctx())?;
    let mut is_first = true;
    loop {
        let Ok(piece) = tokio::time::timeout(PACE, pieces.next()).await else {
            reader.read(rows_read(&plan));
            continue;
        };
        let Some(piece) = piece.transpose()? else { break };
        reader.take(&piece)?;
        is_first = false;
    }
    if is_first {
        reader.take(&RecordBatch::new_empty(plan.schema()))?; // which names the columns
    }
    Ok(missing)
}

/// How many rows the files have given so far.
fn rows_read(plan: &Arc<dyn ExecutionPlan>) -> usize {
    match plan.children().as_slice() {
        [] => plan.metrics().and_then(|metrics| metrics.output_rows()).unwrap_or(0),
        children => children.iter().map(|child| rows_read(child)).sum(),
    }
}

/// A dataset as a table. The parts of paths are its last columns.
struct Table {
    schema: TableSchema,
    files: Vec<File>,
    store: ObjectStoreUrl,
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("files", &self.files.len()).finish_non_exhaustive()
    }
}

impl Table {
    fn new(Dataset { columns, files }: Dataset, store: ObjectStoreUrl) -> Result<Self> {
        let fields: Vec<Field> = columns
            .into_iter()
            .map(|(name, kind)| Ok(Field::new(name, data_type(kind)?, true)))
            .collect::<Result<_>>()?;
        let part = |name: &str, kind: &str| -> Result<_> { Ok(Arc::new(Field::new(name, data_type(kind)?, true))) };
        let parts = vec![part("run", "STRING")?, part("host", "STRING")?, part("rank", "BIGINT")?];
        Ok(Self { schema: TableSchema::new(Arc::new(Schema::new(fields)), parts), files, store })
    }

    /// The files, in as many groups as there are processors.
    fn groups(&self) -> Result<Vec<FileGroup>> {
        let mut files = Vec::new();
        for File { path, bytes, run, host, rank } in &self.files {
            let mut file = PartitionedFile::new(String::new(), *bytes);
            file.object_meta.location = StorePath::parse(path)?; // `new` would encode the percent signs in it
            let text = |text: &str| ScalarValue::Utf8View(Some(text.to_owned()));
            files.push(file.with_partition_values(vec![text(run), text(host), ScalarValue::Int64(*rank)]));
        }
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Ok(FileGroup::new(files).split_files(processors))
    }
}

#[async_trait]
impl TableProvider for Table {
    fn schema(&self) -> SchemaRef {
        self.schema.table_schema().clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = TableParquetOptions::default();
        let source = ParquetSource::new(self.schema.clone()).with_table_parquet_options(options);
        // Of two tables that are joined, the smaller one is kept in memory.
        let bytes = self.files.iter().map(|file| file.bytes as usize).sum::<usize>();
        let mut statistics = Statistics::new_unknown(self.schema.table_schema());
        statistics.num_rows = Precision::Inexact(bytes / BYTES_OF_ROW);
        let scan = FileScanConfigBuilder::new(self.store.clone(), Arc::new(source))
            .with_file_groups(self.groups()?)
            .with_statistics(statistics)
            .with_projection_indices(projection.cloned())?
            .with_limit(limit);
        Ok(DataSourceExec::from_data_source(scan.build()))
    }
}

/// The engine's type of a column.
fn data_type(sql: &str) -> Result<DataType> {
    Ok(match sql {
        "BIGINT" => DataType::Int64,
        "BOOLEAN" => DataType::Boolean,
        "STRING" => DataType::Utf8View,
        "MAP<STRING, STRING>" => {
            let part = |name: &str| Field::new(name, DataType::Utf8, false);
            let pair = DataType::Struct(Fields::from(vec![part("key"), part("value")]));
            DataType::Map(Arc::new(Field::new("key_value", pair, false)), false)
        }
        other => return Err(DataFusionError::NotImplemented(format!("columns of {other}"))),
    })
}
