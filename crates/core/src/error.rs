//! The one error type. Callers match on [`ErrorKind`]; people read the sentence.

use std::fmt;

/// `Result` with elinvar's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an error, for callers that handle it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Shapes do not fit together.
    ShapeMismatch,
    /// Element types do not fit together, or the op is not defined for this one.
    DTypeMismatch,
    /// An axis, index, attribute or other argument is out of its range.
    InvalidArgument,
    /// Operands are on different devices.
    DeviceMismatch,
    /// Memory, of the host or of a device, is exhausted, or a size is not addressable.
    OutOfMemory,
    /// Not supported by this backend or build.
    Unsupported,
    /// A device or library was used before it was set up.
    NotInitialized,
    /// The device stopped answering.
    DeviceLost,
    /// No driver for the requested device is installed.
    DriverMissing,
    /// No such device.
    UnknownDevice,
    /// A gradient was requested that does not exist.
    Autograd,
    /// Reading or writing a file failed.
    Io,
    /// A file's content is not what its format allows.
    Format,
}

/// An error: a kind to match on and a sentence to act on. It is one pointer, so that a result which
/// is a pointer or two is returned in registers.
#[derive(Clone)]
pub struct Error(Box<Said>);

#[derive(Clone)]
struct Said {
    kind: ErrorKind,
    message: String,
}

impl Error {
    /// An error with this sentence: the op, what was seen, what would have fitted.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error(Box::new(Said { kind, message: message.into() }))
    }
    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }
    /// The message, a sentence.
    pub fn message(&self) -> &str {
        &self.0.message
    }
    /// Shapes do not fit together.
    pub fn shape(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::ShapeMismatch, message)
    }
    /// Element types do not fit.
    pub fn dtype(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::DTypeMismatch, message)
    }
    /// An argument is out of its range.
    pub fn argument(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, message)
    }
    /// Not supported by this backend.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }
    /// Memory is exhausted.
    pub fn memory(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::OutOfMemory, message)
    }
    /// A requested gradient does not exist.
    pub fn autograd(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Autograd, message)
    }
    /// A file's content is malformed.
    pub fn format(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Format, message)
    }
    /// Reading or writing failed.
    pub fn io(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Io, message)
    }
    /// The same error with its context prepended: `place: sentence`.
    #[must_use]
    pub fn at(mut self, place: impl fmt::Display) -> Self {
        self.0.message = format!("{place}: {}", self.0.message);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0.kind, self.0.message)
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(e: std::io::Error) -> Self {
        Error::io(e.to_string())
    }
}
