# What the scripts of this folder share: Nsight Systems, found and driven. `nsys` is the program, `out` the folder of what
# it writes.

# The first of these that is a program.
first() {
  local candidate
  for candidate in "$@"; do
    candidate=$(command -v "$candidate") && { printf '%s' "$candidate"; return; }
  done
  return 1
}

# The installed Nsight Systems, if there is one.
find_nsys() {
  local found
  shopt -s nullglob
  found=$(first nsys /opt/nvidia/nsight-systems/*/bin/nsys "$toolkit/bin/nsys" \
    /opt/nvidia/nsight-compute/*/host/target-linux-x64/nsys) && readlink -f "$found"
}

# nsys_run NAME COMMAND OPTION ...: profiles a command, of words without spaces in them, into NAME.sqlite.
nsys_run() {
  local name=$1 command importer
  read -ra command <<<"$2"
  shift 2
  "$nsys" profile -t cuda,nvtx -s none --cpuctxsw=none --cuda-graph-trace=node "$@" --force-overwrite true \
    -o "$out/$name" "${command[@]}" || echo "nsys ended with $?"
  if [ ! -f "$out/$name.nsys-rep" ] && [ -f "$out/$name.qdstrm" ]; then
    local beside
    beside=$(dirname "$nsys")/..
    importer=$(first "$beside"/host-linux-x64/QdstrmImporter "$beside"/linux-desktop-*/QdstrmImporter QdstrmImporter) ||
      { echo "no QdstrmImporter to make a report of $name.qdstrm"; return 1; }
    LD_LIBRARY_PATH="$(dirname "$importer"):$LD_LIBRARY_PATH" \
      "$importer" -i "$out/$name.qdstrm" -o "$out/$name.nsys-rep" || return 1
    rm -f "$out/$name.qdstrm"
  fi
  "$nsys" export --type sqlite --force-overwrite true -o "$out/$name.sqlite" "$out/$name.nsys-rep"
}

# nsys_stats SQLITE FOLDER SUFFIX REPORT ...: each as FOLDER/REPORT.SUFFIX.csv, and for reading as
# FOLDER/REPORT.SUFFIX.txt.
nsys_stats() {
  local sqlite=$1 folder=$2 suffix=$3 report
  shift 3
  mkdir -p "$folder"
  for report in "$@"; do
    "$nsys" stats -q --force-export=false --report "$report" --format csv "$sqlite" \
      >"$folder/$report$suffix.csv" || return 1
    "$nsys" stats -q --force-export=false --report "$report" --format column "$sqlite" \
      >"$folder/$report$suffix.txt" || return 1
  done
}
