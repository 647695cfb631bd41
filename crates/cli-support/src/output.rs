//! Standard output and standard error, for programs and people that may stop reading.

use std::io::{self, Stdout, Write};

/// Standard output, line by line. When its reader is gone (`| head`), the program ends without a
/// word.
pub struct Out(Stdout);

impl Out {
    /// This process's standard output.
    pub(crate) fn new() -> Out {
        Out(io::stdout())
    }
}

/// Ends the process if the reader is gone. Nothing is lost: files are complete or not there at any
/// moment.
fn or_end<T>(result: io::Result<T>) -> io::Result<T> {
    match result {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        result => result,
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        or_end(self.0.write(bytes))
    }
    fn flush(&mut self) -> io::Result<()> {
        or_end(self.0.flush())
    }
}

/// Says on standard error what went wrong in the program of this name, in one line.
pub(crate) fn complain(program: &str, sentence: &str) {
    let line = sentence.split_whitespace().collect::<Vec<_>>().join(" ");
    // If standard error is gone, too, there is no way left to tell.
    // In one piece: several workers may write to one terminal.
    let _ = io::stderr().write_all(format!("{program}: {line}\n").as_bytes());
}
