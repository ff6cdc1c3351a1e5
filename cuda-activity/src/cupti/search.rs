//! Where libcupti may be.
//!
//! In this order; the first that loads is used:
//!
//! 1. one that is mapped into the process already: two would fight for the driver;
//! 2. the file that `TRACING_GPU_CUPTI` names, and then nothing else;
//! 3. the sonames of the driver's CUDA major, then older ones, the unversioned one, and newer ones, each on the
//!    loader's path; below `CUDA_HOME`, `CUDA_PATH` and the default prefix of the toolkit, in `extras/CUPTI/lib64` and
//!    `targets/*/lib`; in the Python packages (`nvidia/cuda_cupti/lib`, `nvidia/cu13/lib`) of `VIRTUAL_ENV` and
//!    `CONDA_PREFIX`.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Names that the library is installed under, newest first, with their CUDA major.
pub(super) const SONAMES: [(&str, u32); 3] = [("libcupti.so.13", 13), ("libcupti.so.12", 12), ("libcupti.so.11.8", 11)];

/// The name in toolkits, of any version.
pub(super) const UNVERSIONED: &str = "libcupti.so";

/// The environment variable that names the library.
pub(super) const OVERRIDE: &str = "TRACING_GPU_CUPTI";

/// The toolkit's default prefix.
const TOOLKIT: &str = "/usr/local/cuda";

/// The variables that the search reads.
pub(super) struct Environment {
    pub(super) chosen: Option<PathBuf>,
    /// `CUDA_HOME` and `CUDA_PATH`.
    pub(super) toolkits: Vec<PathBuf>,
    /// `VIRTUAL_ENV` and `CONDA_PREFIX`.
    pub(super) pythons: Vec<PathBuf>,
}

impl Environment {
    pub(super) fn read() -> Self {
        let path = |name: &str| std::env::var_os(name).filter(|value: &OsString| !value.is_empty()).map(PathBuf::from);
        Self {
            chosen: path(OVERRIDE),
            toolkits: ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(path).collect(),
            pythons: ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(path).collect(),
        }
    }

    /// What to try to open, in order: bare names for the loader's path, and files that exist.
    pub(super) fn candidates(&self, driver_major: u32) -> Vec<PathBuf> {
        if let Some(chosen) = &self.chosen {
            return vec![chosen.clone()];
        }
        let folders = self.folders();
        let mut candidates = Vec::new();
        for name in names(driver_major) {
            candidates.push(PathBuf::from(name));
            candidates.extend(folders.iter().map(|folder| folder.join(name)).filter(|file| file.is_file()));
        }
        candidates
    }

    /// In words, where [`candidates`](Self::candidates) come from.
    pub(super) fn places(&self) -> String {
        let mut places = vec!["on the loader's path".to_owned()];
        places.extend(self.toolkits.iter().map(|prefix| format!("below {}", prefix.display())));
        places.push(format!("below {TOOLKIT}"));
        places.extend(self.pythons.iter().map(|prefix| format!("in the Python packages of {}", prefix.display())));
        format!("looked {}", places.join(", "))
    }

    fn folders(&self) -> Vec<PathBuf> {
        let mut folders = Vec::new();
        for prefix in self.toolkits.iter().map(PathBuf::as_path).chain([Path::new(TOOLKIT)]) {
            folders.push(prefix.join("extras/CUPTI/lib64"));
            folders.extend(below(&prefix.join("targets")).map(|target| target.join("lib")));
        }
        for prefix in &self.pythons {
            for python in below(&prefix.join("lib")) {
                let packages = python.join("site-packages/nvidia");
                folders.extend(["cuda_cupti/lib", "cu13/lib"].map(|folder| packages.join(folder)));
            }
        }
        folders
    }
}

/// The names, best first for a driver of this CUDA major.
fn names(driver_major: u32) -> impl Iterator<Item = &'static str> {
    let known = SONAMES.into_iter();
    let fitting = known.clone().filter(move |(_, major)| *major <= driver_major);
    let newer = known.filter(move |(_, major)| *major > driver_major);
    fitting.map(|(name, _)| name).chain([UNVERSIONED]).chain(newer.map(|(name, _)| name))
}

/// What is in a folder, in order; nothing where there is none.
fn below(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort_unstable();
    paths.into_iter()
}

/// The files called libcupti among those that a process has mapped, by the text of `/proc/self/maps`.
pub(super) fn mapped(maps: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for path in maps.lines().filter_map(|line| line.find('/').map(|start| &line[start..])) {
        let name = path.rsplit('/').next().unwrap_or_default();
        if name.starts_with(UNVERSIONED) && !found.contains(&path) {
            found.push(path);
        }
    }
    found
}

/// Which other tool may be profiling, by the mapped libraries and by the library that the driver was set to load.
pub(super) fn other_tool(maps: &str, injection: Option<&str>) -> Option<String> {
    // What is particular comes first: Nsight Compute brings Nsight Systems along, in a folder of its own.
    let known = [
        ("libToolsInjection", "Nsight Systems"),
        ("libcuda-injection.so", "Nsight Compute"),
        ("nsight-systems", "Nsight Systems"),
        ("nsight-compute", "Nsight Compute"),
    ];
    let tool = |text: &str| known.into_iter().find(|(part, _)| text.contains(part)).map(|(_, tool)| tool.to_owned());
    match injection.filter(|path| !path.is_empty()) {
        Some(path) => tool(path).or_else(|| Some(path.to_owned())),
        None => tool(maps),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(chosen: Option<&str>, toolkit: &Path, python: &Path) -> Environment {
        let chosen = chosen.map(PathBuf::from);
        Environment { chosen, toolkits: vec![toolkit.to_owned()], pythons: vec![python.to_owned()] }
    }

    #[test]
    fn the_drivers_major_is_preferred_and_newer_ones_come_last() {
        let names = |major| names(major).collect::<Vec<_>>();
        assert_eq!(names(12), ["libcupti.so.12", "libcupti.so.11.8", "libcupti.so", "libcupti.so.13"]);
        assert_eq!(names(13), ["libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8", "libcupti.so"]);
        assert_eq!(names(14), names(13));
    }

    #[test]
    fn toolkits_and_python_packages_are_searched() {
        let root = std::env::temp_dir().join(format!("tracing-gpu-search-{}", std::process::id()));
        let (toolkit, python) = (root.join("cuda"), root.join("venv"));
        let in_toolkit = toolkit.join("targets/x86_64-linux/lib/libcupti.so.13");
        let in_extras = toolkit.join("extras/CUPTI/lib64/libcupti.so.12");
        let in_python = python.join("lib/python3.11/site-packages/nvidia/cuda_cupti/lib/libcupti.so.12");
        let in_cu13 = python.join("lib/python3.11/site-packages/nvidia/cu13/lib/libcupti.so.13");
        for file in [&in_toolkit, &in_extras, &in_python, &in_cu13] {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        let found = environment(None, &toolkit, &python).candidates(12);
        let _left_behind = fs::remove_dir_all(&root);
        let ours: Vec<&PathBuf> = found.iter().filter(|path| path.starts_with(&root)).collect();
        assert_eq!(ours, [&in_extras, &in_python, &in_toolkit, &in_cu13]);
        let bare: Vec<&PathBuf> = found.iter().filter(|path| path.is_relative()).collect();
        assert_eq!(bare.len(), 4);
        assert_eq!(environment(Some("/x/y.so"), &toolkit, &python).candidates(12), [PathBuf::from("/x/y.so")]);
    }

    #[test]
    fn mapped_libraries_are_found_by_their_names() {
        let maps = "7f00-7f01 r-xp 00000000 08:01 42      /opt/a b/libcupti.so.12\n\
                    7f01-7f02 r--p 00001000 08:01 42      /opt/a b/libcupti.so.12\n\
                    7f02-7f03 r-xp 00000000 08:01 43      /usr/lib/libcuda.so.1\n\
                    7f03-7f04 rw-p 00000000 00:00 0\n\
                    7f04-7f05 r-xp 00000000 08:01 44      /opt/libcupti.so.2025.3.1\n\
                    7f05-7f06 r-xp 00000000 08:01 45      /opt/not_libcupti.so\n";
        assert_eq!(mapped(maps), ["/opt/a b/libcupti.so.12", "/opt/libcupti.so.2025.3.1"]);
    }

    #[test]
    fn other_tools_are_known_by_what_they_bring() {
        let maps =
            "7f00-7f01 r-xp 0 08:01 42 /opt/nvidia/nsight-systems/2025.3/target-linux-x64/libToolsInjection64.so\n";
        assert_eq!(other_tool(maps, None).as_deref(), Some("Nsight Systems"));
        let brought_along = Some("/opt/nvidia/nsight-compute/2025.3/host/target-linux-x64/libToolsInjection64.so");
        assert_eq!(other_tool("", brought_along).as_deref(), Some("Nsight Systems"));
        assert_eq!(other_tool("", Some("/opt/nsight-compute/x.so")).as_deref(), Some("Nsight Compute"));
        assert_eq!(other_tool(maps, Some("/opt/mine.so")).as_deref(), Some("/opt/mine.so"));
        assert_eq!(other_tool("", Some("")), None);
    }
}
