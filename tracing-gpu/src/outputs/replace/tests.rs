use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::process::Command;

use super::*;

/// A folder of its own; it is removed when this is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tracing-gpu-replace-{name}-{}", std::process::id()));
        fs::create_dir_all(path.join("other")).unwrap();
        Self(path)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn names(&self) -> Vec<String> {
        let names = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name != "other").collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn a_file_gives_way_to_another_with_its_permissions() {
    let folder = Folder::new("plain");
    let path = folder.at("run.json");
    write(&path, b"first").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let (before, open) = (fs::metadata(&path).unwrap(), File::open(&path).unwrap());
    write(&path, b"second").unwrap();
    let after = fs::metadata(&path).unwrap();
    assert_eq!((fs::read(&path).unwrap(), after.mode() & 0o777), (b"second".to_vec(), 0o640));
    assert_ne!(before.ino(), after.ino(), "whoever reads the old one has all of it");
    assert_eq!((io::read_to_string(open).unwrap(), folder.names()), ("first".to_owned(), vec!["run.json".to_owned()]));
}

/// Who opens a file while it is open to all reads it afterwards, too.
#[test]
fn what_takes_the_place_of_another_is_open_to_nobody_else_before_it_does() {
    let folder = Folder::new("closed");
    let mode = |is_closed| create_beside(&folder.at("run.json"), is_closed).unwrap().1.metadata().unwrap().mode();
    assert_eq!(mode(true) & 0o077, 0);
    assert_ne!(mode(false) & 0o077, 0, "a new one is as open as the process makes files");
}

#[test]
fn links_stay_and_what_they_lead_to_is_written() {
    let folder = Folder::new("links");
    symlink("other/run.json", folder.at("to")).unwrap();
    symlink("to", folder.at("to-link")).unwrap();
    for text in ["first", "second"] {
        write(&folder.at("to-link"), text.as_bytes()).unwrap();
        assert_eq!(fs::read_to_string(folder.at("other/run.json")).unwrap(), text);
    }
    assert!(["to", "to-link"].iter().all(|name| fs::symlink_metadata(folder.at(name)).unwrap().is_symlink()));
    // A file with two names keeps both.
    fs::hard_link(folder.at("other/run.json"), folder.at("name")).unwrap();
    write(&folder.at("to"), b"third").unwrap();
    assert_eq!(fs::read_to_string(folder.at("name")).unwrap(), "third");
    assert_eq!(folder.names(), ["name", "to", "to-link"]);
    symlink("endless", folder.at("endless")).unwrap();
    assert!(write(&folder.at("endless"), b"").is_err());
}

#[test]
fn an_open_file_that_is_named_by_its_descriptor_stays_the_same() {
    use std::os::fd::AsRawFd as _;
    let folder = Folder::new("descriptor");
    let file = File::create(folder.at("log")).unwrap();
    symlink(format!("/proc/self/fd/{}", file.as_raw_fd()), folder.at("link")).unwrap();
    let before = file.metadata().unwrap().ino();
    write(&folder.at("link"), b"text").unwrap();
    assert_eq!(
        (fs::metadata(folder.at("log")).unwrap().ino(), fs::read(folder.at("log")).unwrap()),
        (before, b"text".into())
    );
}

#[test]
fn what_cannot_be_made_beside_it_is_written_in_place() {
    let folder = Folder::new("crowded");
    let path = folder.at("run.json");
    fs::write(&path, "before").unwrap();
    let taken = (0..MOST_NAMES).map(|number| folder.at(&format!(".run.json.{}-{number}", std::process::id())));
    taken.clone().for_each(|name| fs::write(name, "of others").unwrap());
    let before = fs::metadata(&path).unwrap().ino();
    write(&path, b"text").unwrap();
    assert_eq!((fs::metadata(&path).unwrap().ino(), fs::read(&path).unwrap()), (before, b"text".to_vec()));
    assert!(taken.clone().all(|name| fs::read_to_string(name).unwrap() == "of others"));
    fs::remove_file(taken.clone().nth(1).unwrap()).unwrap();
    write(&path, b"another").unwrap();
    assert_eq!((fs::read(&path).unwrap(), folder.names().len()), (b"another".to_vec(), MOST_NAMES), "one was free");
}

#[test]
fn a_file_with_a_name_as_long_as_there_may_be_gives_way_too() {
    let folder = Folder::new("long");
    for name in ["n".repeat(255), "語".repeat(85)] {
        let long = folder.at(&name);
        write(&long, b"first").unwrap();
        let before = fs::metadata(&long).unwrap().ino();
        let _open = File::open(&long).unwrap(); // so that its number is not given again
        write(&long, b"second").unwrap();
        assert_ne!(fs::metadata(&long).unwrap().ino(), before);
        assert_eq!(fs::read(&long).unwrap(), b"second");
    }
    assert_eq!(folder.names().len(), 2);
}

#[test]
fn a_pipe_that_nobody_reads_is_an_error_and_one_that_somebody_reads_is_written_to() {
    let folder = Folder::new("pipe");
    let path = folder.at("pipe");
    pipe(&path);
    for failed in [write(&path, b"text"), create(&path).map(drop)] {
        assert_eq!(failed.unwrap_err().to_string(), "nobody reads this pipe");
    }
    // More than a pipe holds: the writer waits for its reader.
    let text = vec![b'x'; 1 << 20];
    let reader = std::thread::spawn({
        let path = path.clone();
        move || fs::read(path).unwrap().len()
    });
    write(&path, &text).unwrap();
    assert_eq!(reader.join().unwrap(), text.len());
    assert_eq!(folder.names(), ["pipe"]);
    write(Path::new("/dev/null"), &text).unwrap();
    assert_eq!(write(Path::new("/dev/full"), &text).unwrap_err().raw_os_error(), Some(libc::ENOSPC));
}
