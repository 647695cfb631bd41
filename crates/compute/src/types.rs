//! The attributes of calls, and the error.

use elinvar_core::{Error, ErrorKind};
use std::fmt;

/// Why a call failed. After an error no memory of the backend has changed, unless the device itself
/// failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackendError {
    /// This backend or build has no such operation; the sentence says what it has.
    Unsupported(String),
    /// The device or its driver failed.
    DeviceError(String),
    /// An argument does not fit: a pointer, a size, a shape. The sentence names it.
    InvalidArgument(String),
    /// Memory, of the device or of the host, is exhausted.
    OutOfMemory,
    /// A call before [`init`](crate::ComputeBackend::init).
    NotInitialized,
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BackendError::Unsupported(what) => write!(f, "unsupported operation: {what}"),
            BackendError::DeviceError(what) => write!(f, "device error: {what}"),
            BackendError::InvalidArgument(what) => write!(f, "invalid argument: {what}"),
            BackendError::OutOfMemory => f.write_str("out of device memory"),
            BackendError::NotInitialized => f.write_str("backend not initialized"),
        }
    }
}

impl std::error::Error for BackendError {}

impl From<Error> for BackendError {
    fn from(e: Error) -> Self {
        let said = e.message().to_string();
        match e.kind() {
            ErrorKind::OutOfMemory => BackendError::OutOfMemory,
            ErrorKind::Unsupported => BackendError::Unsupported(said),
            ErrorKind::ShapeMismatch
            | ErrorKind::DTypeMismatch
            | ErrorKind::InvalidArgument
            | ErrorKind::DeviceMismatch
            | ErrorKind::UnknownDevice => BackendError::InvalidArgument(said),
            // Drivers and devices; of kinds that are added later, the device is the likely cause.
            _ => BackendError::DeviceError(said),
        }
    }
}

/// A result, or why there is none.
pub type BackendResult<T> = Result<T, BackendError>;

/// How a matrix is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BackendTranspose {
    /// As it is stored.
    NoTrans,
    /// Rows and columns exchanged.
    Trans,
    /// Conjugated and transposed: for real numbers, which all are here, the same as `Trans`.
    ConjTrans,
}

impl BackendTranspose {
    /// Are rows and columns exchanged?
    pub const fn is_transposed(self) -> bool {
        match self {
            BackendTranspose::NoTrans => false,
            BackendTranspose::Trans | BackendTranspose::ConjTrans => true,
        }
    }
}

impl fmt::Display for BackendTranspose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BackendTranspose::NoTrans => "N",
            BackendTranspose::Trans => "T",
            BackendTranspose::ConjTrans => "C",
        })
    }
}

/// An enum of names, which it displays.
macro_rules! named {
    ($(#[$doc:meta])* $Name:ident { $($(#[$variant_doc:meta])* $Variant:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $Name {
            $($(#[$variant_doc])* $Variant,)*
        }
        impl $Name {
            /// All of them, in the order in which C numbers them.
            pub const ALL: &'static [$Name] = &[$($Name::$Variant,)*];
        }
        impl fmt::Display for $Name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $($Name::$Variant => $name,)*
                })
            }
        }
    };
}

named! {
    /// How the elements along an axis are combined.
    ReduceOp {
        /// Their sum, in the order of `docs/reference/numerics.md`. Of none: 0.
        Sum = "sum",
        /// The largest; NaN wins. There must be one.
        Max = "max",
        /// The smallest; NaN wins. There must be one.
        Min = "min",
        /// The sum divided by the number of elements. Of none: NaN.
        Mean = "mean",
    }
}

named! {
    /// A function of one number.
    UnaryOp {
        /// max(x, 0); NaN stays NaN.
        Relu = "relu",
        /// 1 / (1 + exp(-x)).
        Sigmoid = "sigmoid",
        /// The hyperbolic tangent.
        Tanh = "tanh",
        /// The exponential function.
        Exp = "exp",
        /// The natural logarithm.
        Log = "log",
        /// The square root, correctly rounded.
        Sqrt = "sqrt",
        /// The magnitude.
        Abs = "abs",
        /// -x.
        Neg = "neg",
    }
}

named! {
    /// A function of two numbers.
    BinaryOp {
        /// a + b.
        Add = "add",
        /// a - b.
        Sub = "sub",
        /// a * b.
        Mul = "mul",
        /// a / b.
        Div = "div",
        /// The larger; NaN wins, +0 is larger than -0.
        Max = "max",
        /// The smaller; NaN wins, -0 is smaller than +0.
        Min = "min",
    }
}
