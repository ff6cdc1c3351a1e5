//! Runs the inputs that fuzzers kept, and those that once broke something.

#[allow(unreachable_pub)] // also a separate library, for the fuzzers
#[path = "../fuzz/src/lib.rs"]
mod fuzz;

use std::cell::Cell;
use std::path::Path;
use std::sync::Once;

thread_local! {
    /// Counts panics in a tool, which are contained.
    static PANICS: Cell<usize> = const { Cell::new(0) };
}

fn count_panics() {
    static COUNTED: Once = Once::new();
    COUNTED.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.set(PANICS.get() + 1);
            hook(panic);
        }));
    });
}

fn replay(target: &str, run: fn(&[u8])) {
    count_panics();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut inputs: Vec<_> = files.map(|file| file.expect("a folder can be read").path()).collect();
    inputs.sort();
    assert!(inputs.len() > 20, "{} inputs in {}", inputs.len(), folder.display());
    for input in inputs {
        let bytes = std::fs::read(&input).expect("an input can be read");
        let ended = std::panic::catch_unwind(|| run(&bytes));
        assert!(ended.is_ok() && PANICS.get() == 0, "{} does harm", input.display());
    }
}

macro_rules! targets {
    ($($target:ident)*) => {
        $(
            #[test]
            fn $target() {
                replay(stringify!($target), fuzz::$target::run);
            }
        )*
    };
}

targets! { cupti merge names nvtx settings spans summary }
