"""Reads what is on standard input as other programs do, and prints as JSON what it found.

readers.py csv      one text of comma-separated values a line, as a JSON string: the cells of each
readers.py schema   a schema, then a document a line: whether each follows it
"""

import csv
import io
import json
import sys

lines = [json.loads(line) for line in sys.stdin]
if sys.argv[1] == "csv":
    found = [list(csv.reader(io.StringIO(text, newline=""), strict=True)) for text in lines]
else:
    import jsonschema

    schema, *documents = lines
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    found = [validator.is_valid(document) for document in documents]
json.dump(found, sys.stdout)
