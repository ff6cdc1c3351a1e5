#!/usr/bin/env python3
"""Runs queries of this folder over datasets: `run.py duckdb|spark DIR [NAME...]`.

The text of a query is the same for both engines. It names the datasets as tables, which are views over all files below
DIR. Without names all queries run. As a module: `engine(...)`, `rows(...)`.
"""

import argparse
import csv
import glob
import json
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# The parts of the path, which are columns of each dataset.
PARTS = {"run": "STRING", "host": "STRING", "rank": "BIGINT"}


def schema():
    """The columns of each dataset with their types."""
    with open(os.path.join(HERE, "schema.json"), encoding="utf-8") as file:
        return json.load(file)


def names():
    """The names of all queries."""
    return sorted(os.path.basename(path)[:-4] for path in glob.glob(os.path.join(HERE, "*.sql")))


def text(name):
    """The text of a query."""
    with open(os.path.join(HERE, name + ".sql"), encoding="utf-8") as file:
        return file.read()


def files(folder, dataset):
    """The pattern of the files of a dataset."""
    return os.path.join(folder, "run=*", "host=*", "rank=*", dataset + "-*.parquet")


class DuckDb:
    """DuckDB, in this process."""

    def __init__(self, folder, threads=None):
        import duckdb

        self.connection = duckdb.connect()
        self.connection.execute("SET preserve_insertion_order = false")
        self.connection.execute("SET enable_progress_bar = false")  # it goes to standard output
        if threads:
            self.connection.execute(f"SET threads = {int(threads)}")
        types = ", ".join(f"'{part}': {kind}" for part, kind in PARTS.items()).replace("STRING", "VARCHAR")
        for dataset, columns in schema().items():
            pattern = files(folder, dataset)
            if glob.glob(pattern):
                quoted = pattern.replace("'", "''")
                source = f"read_parquet('{quoted}', hive_partitioning = true, hive_types = {{{types}}})"
                rows = "SELECT * FROM " + source
            else:
                rows = "SELECT " + ", ".join(
                    f"CAST(NULL AS {kind.replace('<', '(').replace('>', ')')}) AS {column}"
                    for column, kind in {**columns, **PARTS}.items()
                ) + " WHERE false"
            self.connection.execute(f"CREATE VIEW {dataset} AS {rows}")

    def run(self, query):
        """The names of the columns, and the rows."""
        cursor = self.connection.execute(query)
        return [column[0] for column in cursor.description], cursor.fetchall()

    def close(self):
        self.connection.close()


class Spark:
    """Spark: the cluster of `master`, else this process."""

    def __init__(self, folder, master=None, settings=()):
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.appName("tracing-gpu").master(master or "local[*]")
        builder = builder.config("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
        builder = builder.config("spark.ui.showConsoleProgress", "false")
        for key, value in settings:
            builder = builder.config(key, value)
        self.session = builder.getOrCreate()
        self.session.sparkContext.setLogLevel("ERROR")
        for dataset, columns in schema().items():
            declared = ", ".join(f"{column} {kind}" for column, kind in {**columns, **PARTS}.items())
            pattern = files(folder, dataset)
            if glob.glob(pattern):
                reader = self.session.read.option("basePath", folder).schema(declared)
                reader.parquet(pattern).createOrReplaceTempView(dataset)
            else:
                self.session.createDataFrame([], declared).createOrReplaceTempView(dataset)

    def run(self, query):
        """The names of the columns, and the rows."""
        frame = self.session.sql(query)
        return frame.columns, [tuple(row) for row in frame.collect()]

    def close(self):
        self.session.stop()


def engine(name, folder, **options):
    """An engine with all datasets below a folder."""
    return {"duckdb": DuckDb, "spark": Spark}[name](os.path.abspath(folder), **options)


def plain(value):
    """A value as both engines give it: fields as a dictionary, in the order of their names."""
    if isinstance(value, list):
        value = {pair["key"]: pair["value"] for pair in value}
    return dict(sorted(value.items())) if isinstance(value, dict) else value


def rows(of_engine, name):
    """The names of the columns of a query, and its rows."""
    columns, found = of_engine.run(text(name))
    return columns, [tuple(plain(value) for value in row) for row in found]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("engine", choices=["duckdb", "spark"])
    parser.add_argument("folder")
    parser.add_argument("queries", nargs="*", metavar="NAME", help="of " + ", ".join(names()))
    parser.add_argument("--rows", type=int, default=20, help="how many rows are printed; 0 for all")
    parser.add_argument("--master", help="the Spark cluster, as spark://host:7077")
    asked = parser.parse_args()
    options = {"master": asked.master} if asked.engine == "spark" else {}
    of_engine = engine(asked.engine, asked.folder, **options)
    for name in asked.queries or names():
        began = time.monotonic()
        columns, found = rows(of_engine, name)
        print(f"{name}: {len(found)} rows in {time.monotonic() - began:.1f} s", file=sys.stderr)
        out = csv.writer(sys.stdout, lineterminator="\n")
        out.writerow(columns)
        out.writerows(found[: asked.rows] if asked.rows else found)
    of_engine.close()


if __name__ == "__main__":
    main()
