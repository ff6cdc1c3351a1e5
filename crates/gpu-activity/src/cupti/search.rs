//! Searches for libcupti.
//!
//! In this order; the first that loads is used:
//!
//! 1. a library that the process has mapped already, because two would compete for the driver;
//! 2. the file that `TRACING_GPU_CUPTI` names; then no other place is searched;
//! 3. the sonames of the driver's CUDA major, then older ones, the unversioned one, and newer ones, each in these
//!    places, in this order:
//!    - on the loader's path;
//!    - below `CUDA_HOME`, `CUDA_PATH` and the default prefix of the toolkit, in `extras/CUPTI/lib64` and
//!      `targets/*/lib`;
//!    - in the folders of the CUDA libraries that the process has mapped, and in the toolkits that these are part of;
//!    - in the Python packages (`nvidia/*/lib`) beside those whose libraries the process has mapped;
//!    - in the Python packages of `VIRTUAL_ENV` and `CONDA_PREFIX`, and in `lib` below these.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use range_model::stats::{Lean, order};

use super::environment::variable;

/// Sonames of the library, newest first, with their CUDA major.
pub(super) const SONAMES: [(&str, u32); 3] = [("libcupti.so.13", 13), ("libcupti.so.12", 12), ("libcupti.so.11.8", 11)];

/// The name in toolkits of any version.
pub(super) const UNVERSIONED: &str = "libcupti.so";

/// The environment variable that names the library.
pub(super) const OVERRIDE: &str = "TRACING_GPU_CUPTI";

/// The toolkit's default prefix.
const TOOLKIT: &str = "/usr/local/cuda";

/// Libraries in the same folder or toolkit as libcupti.
const NEIGHBOURS: [&str; 3] = ["libcudart.so", "libcublas.so", "libnvrtc.so"];

/// Names of Python package folders: pip's, and Debian's.
const PACKAGES: [&str; 2] = ["site-packages", "dist-packages"];

/// The variables that the search reads, and what it looks for among the mapped files.
pub(super) struct Environment {
    pub(super) chosen: Option<PathBuf>,
    /// `CUDA_HOME` and `CUDA_PATH`.
    pub(super) toolkits: Vec<PathBuf>,
    /// Folders of CUDA libraries that are mapped.
    pub(super) neighbours: Vec<PathBuf>,
    /// Folders of Python packages whose libraries are mapped.
    pub(super) packages: Vec<PathBuf>,
    /// `VIRTUAL_ENV` and `CONDA_PREFIX`.
    pub(super) pythons: Vec<PathBuf>,
}

impl Environment {
    /// `maps` is the text of `/proc/self/maps`.
    pub(super) fn read(maps: &str) -> Self {
        let path = |name: &str| variable(name).filter(|value: &OsString| !value.is_empty()).map(PathBuf::from);
        Self {
            chosen: path(OVERRIDE),
            toolkits: ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(path).in_vec(),
            neighbours: folders_of(maps, &|path| {
                let name = path.file_name()?.to_str()?;
                path.parent().filter(|_| NEIGHBOURS.iter().any(|neighbour| name.starts_with(neighbour)))
            }),
            packages: folders_of(maps, &|path| {
                path.ancestors().find(|folder| PACKAGES.iter().any(|name| folder.ends_with(name)))
            }),
            pythons: ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(path).in_vec(),
        }
    }

    /// Candidates to open, in order: bare names for the loader's path, and files that exist.
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

    /// The places of the [`candidates`](Self::candidates), in words.
    pub(super) fn places(&self) -> String {
        let mut places = vec!["on the loader's path".to_owned()];
        places.extend(self.toolkits.iter().map(|prefix| format!("below {}", prefix.display())));
        places.push(format!("below {TOOLKIT}"));
        places.extend(self.neighbours.iter().map(|folder| format!("in {}", folder.display())));
        places.extend(self.packages.iter().map(|folder| format!("in {}/nvidia", folder.display())));
        places.extend(self.pythons.iter().map(|prefix| format!("in the Python packages of {}", prefix.display())));
        format!("looked {}", range_model::names::joined(places, ", "))
    }

    fn folders(&self) -> Vec<PathBuf> {
        let mut folders = Vec::new();
        for prefix in self.toolkits.iter().map(PathBuf::as_path).chain([Path::new(TOOLKIT)]) {
            folders.push(prefix.join("extras/CUPTI/lib64"));
            folders.extend(below(prefix.join("targets"), "lib"));
        }
        for folder in &self.neighbours {
            folders.push(folder.clone());
            // Libraries of a toolkit stand in `lib64` or `targets/x86_64-linux/lib`.
            folders.extend(folder.ancestors().skip(1).take(3).map(|prefix| prefix.join("extras/CUPTI/lib64")));
        }
        // The library folders of NVIDIA's wheels.
        self.packages.iter().for_each(|packages| folders.extend(below(packages.join("nvidia"), "lib")));
        for prefix in &self.pythons {
            for wheels in below(prefix.join("lib"), "site-packages/nvidia") {
                folders.extend(below(wheels, "lib"));
            }
            folders.push(prefix.join("lib"));
        }
        folders
    }
}

/// The names, best first for a driver of this CUDA major.
fn names(driver_major: u32) -> Vec<&'static str> {
    let (fitting, newer): (Vec<_>, Vec<_>) = SONAMES.iter().partition(|(_, major)| *major <= driver_major);
    fitting.into_iter().chain([(UNVERSIONED, 0)]).chain(newer).map(|(name, _)| name).in_vec()
}

/// `inner` in each entry of a folder, sorted by the entries; empty if there is no such folder.
fn below(folder: PathBuf, inner: &str) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        paths.push(entry.path());
    }
    order::by(&mut paths, PathBuf::cmp);
    paths.iter_mut().for_each(|path| path.push(inner));
    paths
}

/// The files in the text of `/proc/self/maps`. A file with several mappings appears several times.
fn mapped_files(maps: &str) -> impl Iterator<Item = &str> {
    maps.lines().filter_map(|line| line.find('/').map(|start| &line[start..]))
}

/// The mapped files named libcupti.
pub(super) fn mapped(maps: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for path in mapped_files(maps) {
        let name = path.rsplit('/').next().unwrap_or_default();
        if name.starts_with(UNVERSIONED) && !found.contains(&path) {
            found.push(path);
        }
    }
    found
}

/// The folders that `folder` derives from the paths of mapped files.
fn folders_of(maps: &str, folder: &dyn Fn(&Path) -> Option<&Path>) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for folder in mapped_files(maps).filter_map(|path| folder(Path::new(path))) {
        if !found.iter().any(|known| known == folder) {
            found.push(folder.to_owned());
        }
    }
    found
}

/// The name of another profiling tool: of the library `injection`, if a variable names one, otherwise found among the
/// mapped libraries.
pub(super) fn other_tool(maps: &str, injection: Option<&str>) -> Option<String> {
    // More specific names come first: Nsight Compute contains Nsight Systems, in a folder of its own.
    let known = [
        ("libToolsInjection", "Nsight Systems"),
        ("libcuda-injection.so", "Nsight Compute"),
        ("nsight-systems", "Nsight Systems"),
        ("nsight-compute", "Nsight Compute"),
    ];
    let tool = |text: &str| known.into_iter().find(|(part, _)| text.contains(part)).map(|(_, tool)| tool.to_owned());
    match injection.filter(|path| !path.is_empty()) {
        Some(path) => tool(path).or_else(|| Some(path.to_owned())),
        // The framework's profiler comes last: a program may contain it and never use it.
        None => tool(maps).or_else(|| own_profiler(maps).map(str::to_owned)),
    }
}

/// The profiler of the program's framework, which uses CUPTI too.
pub(super) fn own_profiler(maps: &str) -> Option<&'static str> {
    let known = [("/libtorch_cuda", "torch.profiler"), ("/xla_cuda_plugin", "jax.profiler")];
    known.into_iter().find(|(part, _)| maps.contains(part)).map(|(_, profiler)| profiler)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(chosen: Option<&str>, toolkit: &Path, python: &Path, maps: &str) -> Environment {
        let chosen = chosen.map(PathBuf::from);
        Environment {
            chosen,
            toolkits: vec![toolkit.to_owned()],
            pythons: vec![python.to_owned()],
            ..Environment::read(maps)
        }
    }

    #[test]
    fn the_drivers_major_is_preferred_and_newer_ones_come_last() {
        let names = |major| names(major);
        assert_eq!(names(12), ["libcupti.so.12", "libcupti.so.11.8", "libcupti.so", "libcupti.so.13"]);
        assert_eq!(names(13), ["libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8", "libcupti.so"]);
        assert_eq!(names(14), names(13));
    }

    #[test]
    fn toolkits_and_python_packages_are_searched_in_their_order() {
        let root = std::env::temp_dir().join(format!("tracing-gpu-search-{}", std::process::id()));
        let (toolkit, python) = (root.join("cuda"), root.join("venv"));
        // In the order of the search, for each major.
        let twelves = [
            toolkit.join("extras/CUPTI/lib64"),
            root.join("toolkit of the program/extras/CUPTI/lib64"),
            root.join("conda/lib"),
            root.join("pip/lib/python3.12/site-packages/nvidia/cuda_cupti/lib"),
            root.join("local/lib/python3/dist-packages/nvidia/cuda_cupti/lib"),
            python.join("lib/python3.11/site-packages/nvidia/cuda_cupti/lib"),
            python.join("lib"),
        ]
        .map(|folder| folder.join("libcupti.so.12"));
        let thirteens =
            [toolkit.join("targets/x86_64-linux/lib"), python.join("lib/python3.11/site-packages/nvidia/cu13/lib")]
                .map(|folder| folder.join("libcupti.so.13"));
        for file in twelves.iter().chain(&thirteens) {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        let mapped = [
            "toolkit of the program/targets/x86_64-linux/lib/libcudart.so.12.4.127",
            "conda/lib/libcublas.so.12",
            "conda/lib/libcurl.so.4",
            "pip/lib/python3.12/site-packages/cupy/_core/core.cpython-312-x86_64-linux-gnu.so",
            "local/lib/python3/dist-packages/numpy/core.so",
        ]
        .map(|file| format!("7f00-7f01 r-xp 00000000 08:01 42 {}\n", root.join(file).display()))
        .concat();
        let found = environment(None, &toolkit, &python, &mapped).candidates(12);
        let _left_behind = fs::remove_dir_all(&root);
        let ours: Vec<&PathBuf> = found.iter().filter(|path| path.starts_with(&root)).collect();
        assert_eq!(ours, twelves.iter().chain(&thirteens).collect::<Vec<_>>());
        let bare: Vec<&PathBuf> = found.iter().filter(|path| path.is_relative()).collect();
        assert_eq!(bare.len(), 4);
        let chosen = environment(Some("/x/y.so"), &toolkit, &python, "");
        assert_eq!(chosen.candidates(12), [PathBuf::from("/x/y.so")]);
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
        let torch = "7f00-7f01 r-xp 0 08:01 42 /x/site-packages/torch/lib/libtorch_cuda.so\n";
        assert_eq!(other_tool(torch, None).as_deref(), Some("torch.profiler"));
        assert_eq!(other_tool(&format!("{torch}{maps}"), None).as_deref(), Some("Nsight Systems"));
    }
}
