//! Standard output and standard error, whose readers may go (`| head`).
//!
//! `println!` panics then. What nobody reads is not missed: it goes nowhere here, and the program ends as it would
//! have.

use std::io::{self, ErrorKind, Stderr, Stdout, Write};

/// Writes as long as somebody reads.
#[derive(Debug)]
pub struct WhileRead<W>(W);

/// Standard output.
pub fn stdout() -> WhileRead<Stdout> {
    WhileRead(io::stdout())
}

/// Standard error.
pub fn stderr() -> WhileRead<Stderr> {
    WhileRead(io::stderr())
}

impl<W: Write> Write for WhileRead<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        unless_closed(self.0.write(bytes), bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        unless_closed(self.0.flush(), ())
    }
}

fn unless_closed<T>(written: io::Result<T>, all: T) -> io::Result<T> {
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(all),
        written => written,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a few bytes, and fails then.
    struct Fails(ErrorKind, usize);

    impl Write for Fails {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            match self.1.min(bytes.len()) {
                0 => Err(self.0.into()),
                taken => {
                    self.1 -= taken;
                    Ok(taken)
                }
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(self.0.into())
        }
    }

    #[test]
    fn only_a_reader_that_is_gone_is_no_error() {
        for taken in [0, 1, 5, 11] {
            let mut closed = WhileRead(Fails(ErrorKind::BrokenPipe, taken));
            assert!(writeln!(closed, "one and {}", 2).is_ok() && closed.flush().is_ok(), "{taken}");
            let mut full = WhileRead(Fails(ErrorKind::StorageFull, taken));
            let failed =
                [writeln!(full, "one and {}", 2), full.flush()].map(|written| written.map_err(|error| error.kind()));
            assert_eq!(failed[1], Err(ErrorKind::StorageFull));
            assert_eq!(failed[0].is_err(), taken < "one and 2\n".len(), "{taken}");
        }
    }
}
